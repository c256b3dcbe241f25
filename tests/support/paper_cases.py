"""Small random problems, LCPP followed step by step, and the exact solutions x̄^k, ȳ^k of its subproblems."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from levelprox import Iterate, LinearModel, Problem
from levelprox.constraints import MCP, SCAD, Exp, Log, Lp, NegativeLp
from levelprox.methods import lcpp as algorithm
from levelprox.methods.lcpp import Harmonic, lcpp, linearise
from levelprox.methods.subsolvers import Spectral, Subproblem, Subsolver, Surrogate

SIX = [MCP(1.5, 2.0), SCAD(0.6, 3.7), Exp(1.2), Log(3.0), Lp(0.5, 0.2), NegativeLp(-1.0, 1.5)]
ROUNDING = 1e-10


def assert_at_most(left, right, what, rounding=ROUNDING):
    """`left` <= `right` up to rounding, or both sides are shown."""
    assert left <= right + rounding * max(1.0, abs(right)), f"{what}: left {left:.17g} > right {right:.17g}"


def assert_mean_at_most(lefts, right, what):
    """The mean of a random `left` is at most `right`, given three standard errors; or both sides are shown."""
    lefts = np.asarray(lefts, dtype=float)
    error = 3 * lefts.std(ddof=1) / math.sqrt(lefts.size)
    assert_at_most(float(lefts.mean() - error), right, f"{what} (mean of {lefts.size}, less three standard errors)")


def objective(loss, seed, n=40, d=8):
    """A sparse linear model with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    truth = np.where(np.arange(d) < 4, rng.uniform(0.7, 2, d) * rng.choice([-1, 1], d), 0)
    b = X @ truth + 0.3 * rng.standard_normal(n)
    return LinearModel(X, np.sign(b) if loss == "logistic" else b, loss)


def level_for(constraint):
    """A level that holds the problems above back, in the middle of a cap."""
    return 2.5 * constraint.cap if math.isfinite(constraint.cap) else constraint.value([1.0, 0.8, 0.4])


def problem_for(constraint, loss="squared", seed=0):
    return Problem(objective(loss, seed), constraint, level_for(constraint))


def start_at(problem, x):
    psi, gradient = problem.objective.value_and_gradient(x)
    return Iterate(x, psi, gradient, step=1 / max(problem.objective.smoothness, 1.0))


def papers_surrogate(constraint, at, eta_k):
    """{g_k <= η_k} straight from Algorithm 1: u = −∇h/λ, λτ = η_k + h(x) − ⟨∇h(x), x⟩, h = λ|x| − φ."""
    t, lam = np.abs(at), constraint.lam
    grad_h = (lam - constraint.slope(t)) * np.sign(at)
    h = float(np.sum(lam * t - constraint.phi(t)))
    return Surrogate(None, -grad_h / lam, (eta_k + h - float(grad_h @ at)) / lam, lam, eta_k)


def minimised(subproblem, start):
    """Spectral steps to the end, and more from there: a search by values alone sees but half of the digits."""
    near = Spectral(max_steps=2000, accuracy=1e-11).solve(subproblem, start)
    return Spectral(max_steps=500, accuracy=0.0).solve(subproblem, near)


def solved(subproblem, start):
    """x̄^k and ȳ^k to the last digits, checked against the KKT system of the subproblem (Proposition "KKT-subseq")."""
    found = minimised(subproblem, start)
    g_k, x, y = subproblem.surrogate, found.x, found.multiplier
    slope = found.gradient + subproblem.gamma * (x - subproblem.center) + y * g_k.lam * g_k.u
    price = y * g_k.lam
    off = np.where(x != 0, slope + price * np.sign(x), np.maximum(np.abs(slope) - price, 0))
    assert_at_most(float(np.max(np.abs(off))), 0.0, "stationarity of the subproblem", 1e-9)
    assert_at_most(y * abs(g_k.value(x) - g_k.level), 0.0, "complementarity of the subproblem", 1e-9)
    assert_at_most(g_k.value(x), g_k.level, "feasibility of the subproblem", 1e-9)
    assert y >= 0
    return found


@dataclass(frozen=True)
class AsInexactAsAllowed(Subsolver):
    """From x̄^k back towards x^{k−1}, as far as ψ_k(x^k) − ψ_k(x̄^k) <= ρ/2 |x^{k−1} − x̄^k|² + ζ allows."""

    name = "as inexact as allowed"
    needs = "nothing"
    rho: float
    zeta: float = 0.0

    @classmethod
    def can_take(cls, objective):
        return True

    def limited_to(self, steps):
        return self

    def solve(self, subproblem, start, tolerance=0.0, seconds=1e300, rng=None):
        best = minimised(subproblem, start).x
        back = subproblem.center - best
        allowed = subproblem.value(best) + self.rho / 2 * float(back @ back) + self.zeta
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if subproblem.value(best + middle * back) <= allowed else (low, middle)
        x = best + low * back
        psi, gradient = subproblem.objective.value_and_gradient(x)
        return replace(start, x=x, psi=psi, gradient=gradient)


@dataclass(frozen=True)
class Step:
    """The k-th step: from x^{k−1} to x^k, with x̄^k and ȳ^k next to them."""

    k: int
    eta: float
    before: Iterate
    after: Iterate
    best: Iterate
    subproblem: Subproblem

    @property
    def gap(self):
        """ψ_k(x^k) − ψ_k(x̄^k)."""
        return self.subproblem.value(self.after.x) - self.subproblem.value(self.best.x)

    @property
    def moved(self):
        """‖x^{k−1} − x̄^k‖²."""
        return float(np.sum((self.before.x - self.best.x) ** 2))

    @property
    def missed(self):
        """‖x^k − x̄^k‖²."""
        return float(np.sum((self.after.x - self.best.x) ** 2))


def follow(problem, etas, gamma, subsolver, K, start=None, rng=None, exact=None):
    """K steps of LCPP with the paper's surrogate; `exact` is ψ where the problem has only samples of it."""
    smooth = problem if exact is None else replace(problem, objective=exact)
    before = start_at(smooth, np.zeros(problem.dimension) if start is None else start)
    steps = []
    run = lcpp(problem, before, etas, gamma, subsolver, algorithm.linearise, rng=rng)
    for k, (eta, after) in zip(range(1, K + 1), run, strict=False):
        g_k = papers_surrogate(problem.constraint, before.x, eta)
        subproblem = Subproblem(smooth.objective, g_k, before.x, gamma)
        assert_at_most(g_k.value(after.x), eta, f"g_k(x^k) <= η_k, k = {k}")
        best = solved(subproblem, start_at(smooth, before.x))
        steps.append(Step(k, eta, before, after, best, subproblem))
        before = after
    return steps


def stationarity(problem, step):
    """dist(0, ∂ψ(x̄) + ȳ ∂g(x̄))², with ∂g = λ∂‖x‖₁ − ∇h."""
    x, y = step.best.x, step.best.multiplier
    slope = step.best.gradient
    price = y * problem.constraint.slope(np.abs(x))
    off = np.where(x != 0, slope + price * np.sign(x), np.maximum(np.abs(slope) - price, 0))
    return float(off @ off)


def worst_points(constraint, alpha, rng, d=6):
    """Points with g(x) = α: the worst (all but one coordinate saturated or 0), and random ones.

    Each is returned with the level it really has.
    """
    far = constraint.threshold if math.isfinite(constraint.threshold) else 60 / constraint.lam
    whole, rest = divmod(alpha, constraint.cap) if math.isfinite(constraint.cap) else (0, alpha)
    worst = np.zeros(d)
    worst[: int(whole)] = 2 * far
    worst[int(whole)] = inverse(constraint, rest)
    shares = rng.dirichlet(np.ones(d)) * alpha
    spread = np.array([inverse(constraint, a) for a in np.minimum(shares, 0.999 * constraint.cap)])
    mixed = worst.copy()
    mixed[-1], mixed[0] = inverse(constraint, 0.3 * rest), mixed[0] * 0.9
    return [(x, constraint.value(x)) for x in (worst, spread, mixed)]


def inverse(constraint, a):
    """The t with φ(t) = a, checked."""
    match constraint:
        case MCP():
            t = constraint.threshold * (1 - math.sqrt(1 - a / constraint.cap))
        case SCAD():
            short = math.sqrt(2 * (constraint.cap - a) / constraint.lipschitz)
            t = a / constraint.lam if a <= constraint.lam * constraint.knee else constraint.threshold - short
        case Exp():
            t = -math.log1p(-a) / constraint.lam
        case Log():
            t = math.expm1(a * math.log1p(constraint.theta)) / constraint.theta
        case Lp():
            t = (a + constraint.epsilon**constraint.p) ** (1 / constraint.p) - constraint.epsilon
        case NegativeLp():
            t = math.expm1(math.log1p(-a) / constraint.p) / constraint.theta
    t = max(t, 0.0)
    assert abs(float(constraint.phi(t)) - a) <= 1e-12 * max(1.0, constraint.lam)
    return t


def z_near(z, constraint, alpha):
    """The least z of the levels that round to alpha, as z falls like a root near a whole number of caps."""
    near = alpha * (1 + np.finfo(float).eps * np.arange(-32, 33))
    return float(np.min(z(constraint, near)))


def harmonic(problem, eta0=None):
    eta0 = problem.level / 2 if eta0 is None else eta0
    return Harmonic(eta0=eta0).sequence(problem.level, 0.0)


def proximal_weight(problem):
    """γ = 3μ where ψ is not convex, else L."""
    return 3 * problem.objective.weak_convexity or problem.objective.smoothness


def assert_inexactness(steps, rho, zeta=0.0):
    """Relation "inexactness", which the theorems presuppose."""
    for step in steps:
        assert_at_most(step.gap, rho / 2 * step.moved + zeta, f"inexactness, k = {step.k}")


def subproblem_at(problem, x, gamma, objective=None):
    g_k = linearise(problem.constraint, x, problem.level)
    return Subproblem(objective or problem.objective, g_k, x, gamma)


def warm(problem):
    """A start near the solution of a lower level: there the bounds are tight."""
    lower = replace(problem, level=0.45 * problem.level)
    steps = follow(lower, itertools.repeat(lower.level), proximal_weight(problem), Spectral(max_steps=20), 40)
    return steps[-1].after.x


def best_value(problem, steps):
    """The least ψ seen at feasible points: at least ψ(x*), so the bounds are put to a harder test."""
    longer = follow(
        problem, itertools.repeat(problem.level), proximal_weight(problem), Spectral(), 30, steps[-1].after.x
    )
    return min(step.after.psi for step in [*steps, *longer])
