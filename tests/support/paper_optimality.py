"""What the paper states of KKT points, multipliers and the projection; each check raises with both sides shown."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
from scipy import optimize

from levelprox import Function, Problem, certify, projection, theory
from levelprox.constraints import MCP, SCAD
from levelprox.methods import lcpp as algorithm
from levelprox.methods.lcpp import Geometric, Harmonic
from levelprox.methods.subsolvers import Spectral
from tests.support import reference
from tests.support.paper_cases import (
    SIX,
    AsInexactAsAllowed,
    assert_at_most,
    assert_inexactness,
    follow,
    harmonic,
    inverse,
    problem_for,
    proximal_weight,
    worst_points,
    z_near,
)

CAPPED = [c for c in SIX if math.isfinite(c.cap)]


# --- optimality ----------------------------------------------------------------------------------------


def check_proposition_mfcq_necessary_condition():
    """A minimiser where MFCQ holds is a KKT point: minimisers found by walking along the level, without derivatives."""
    for seed, constraint in enumerate(SIX):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((2, 2))
        H = A @ A.T + np.eye(2)
        c = rng.uniform(1, 2, 2) * inverse(constraint, 0.6 * min(constraint.cap, 1.0))

        def psi(x, H=H, c=c):
            return 0.5 * float((x - c) @ H @ (x - c))

        level = 0.5 * constraint.value(c)
        end = inverse(constraint, level)
        best = min(
            (walk(psi, constraint, level, end, signs) for signs in itertools.product((-1, 1), repeat=2)), key=psi
        )
        best = np.where(np.abs(best) < 1e-9, 0.0, best)
        t = np.abs(best)
        assert max(constraint.slope(t) * t) > 0.01 * level, "MFCQ does not hold here"
        level = max(level, constraint.value(best))  # the walk ends at the level up to rounding
        problem = Problem(Function(lambda x, H=H, c=c, psi=psi: (psi(x), H @ (x - c)), 2), constraint, level)
        assert_at_most(certify(problem, best).kkt, 0.0, f"KKT residual of a minimiser, {constraint}", 1e-6)


def walk(psi, constraint, level, end, signs):
    """The best point of {g = level} in one quadrant."""

    def point(t):
        rest = max(level - float(constraint.phi(t)), 0.0)
        return np.array(signs) * [t, inverse(constraint, rest)]

    grid = np.linspace(0, end, 101)
    j = int(np.argmin([psi(point(t)) for t in grid]))
    bounds = (grid[max(j - 1, 0)], grid[min(j + 1, 100)])
    inner = optimize.minimize_scalar(lambda t: psi(point(t)), bounds=bounds, method="bounded", options={"xatol": 1e-13})
    return min((point(inner.x), point(0.0), point(end)), key=psi)


def check_proposition_kkt_subseq():
    """x^{k−1} is strictly feasible for the k-th subproblem, which has a KKT point (asserted by `solved`)."""
    for constraint in SIX:
        for loss in ("squared", "cauchy"):
            problem = problem_for(constraint, loss)
            eta0 = problem.level / 2
            for step in follow(problem, harmonic(problem), proximal_weight(problem), Spectral(max_steps=5), 15):
                rise = (problem.level - eta0) / (step.k * (step.k + 1))
                g_k = step.subproblem.surrogate
                assert_at_most(g_k.value(step.before.x) + rise, step.eta, f"g_k(x^{{k-1}}) + δ_k <= η_k, k = {step.k}")


def check_proposition_square_sum_2(losses=("squared", "cauchy")):
    """ζ_k + ψ(x^{k−1}) >= ψ(x^k) + γ/2|x^k − x^{k−1}|² + (γ−μ−ρ)/2|x^{k−1} − x̄^k|², hence limits."""
    for constraint in SIX:
        for loss in losses:
            problem = problem_for(constraint, loss, seed=1)
            gamma, mu = proximal_weight(problem), problem.objective.weak_convexity
            rho = (gamma - mu) / 2
            steps = follow(problem, harmonic(problem), gamma, AsInexactAsAllowed(rho), 40)
            assert_inexactness(steps, rho)
            for step in steps:
                length = float(np.sum((step.after.x - step.before.x) ** 2))
                spent = step.after.psi + gamma / 2 * length + (gamma - mu - rho) / 2 * step.moved
                assert_at_most(spent, step.before.psi, f"decrease of ψ, k = {step.k}")
            fall = steps[0].before.psi - steps[-1].after.psi
            assert_at_most(sum(s.moved for s in steps), 2 * fall / (gamma - mu - rho), "Σ|x^{k-1} - x̄^k|²")
            assert_at_most(steps[-1].moved, 1e-3 * steps[0].moved, "lim |x^{k-1} - x̄^k| = 0")


def check_theorem_conv_asym_kkt(losses=("squared", "cauchy")):
    """Limit points are KKT points, with inexact steps and rising levels."""
    for constraint in SIX:
        for loss in losses:
            problem = problem_for(constraint, loss, seed=2)
            gamma, mu = proximal_weight(problem), problem.objective.weak_convexity
            etas = Geometric(eta0=problem.level / 2, ratio=0.7).sequence(problem.level, 0.0)
            steps = follow(problem, etas, gamma, Spectral(max_steps=30), 180)
            for step in steps:
                zeta = max(problem.objective.smoothness * 0.9**step.k, 1e-12)
                assert_at_most(step.gap, (gamma - mu) / 4 * step.moved + zeta, f"inexactness, k = {step.k}")
            last = steps[-1].after.x
            limit = np.where(np.abs(last) < 1e-12, 0.0, last)
            kkt = certify(problem, limit).kkt
            assert_at_most(kkt, 0.0, f"KKT residual of the limit, {constraint}, {loss}", 1e-6)


# --- multipliers ---------------------------------------------------------------------------------------


def check_theorem_bound_dual_mfcq():
    """Where limits satisfy MFCQ the ȳ^k stay bounded, near the limit's multiplier; where not, they need not."""
    for constraint in SIX:
        problem = problem_for(constraint, seed=3)
        steps = follow(problem, harmonic(problem), proximal_weight(problem), Spectral(max_steps=20), 120)
        limit = certify(replace(problem, level=problem.g(steps[-1].after.x)), steps[-1].after.x)
        assert np.max(constraint.slope(np.abs(steps[-1].after.x)) * np.abs(steps[-1].after.x)) > 0.01
        late = max(step.best.multiplier for step in steps[40:])
        assert_at_most(late, 1.2 * limit.multiplier, f"sup of the late multipliers, {constraint}")
    multipliers = [
        step.best.multiplier
        for step in follow(degenerate_problem(), Harmonic(eta0=0.5).sequence(1.0, 0.0), 1.0, Spectral(), 200)
    ]
    assert_at_most(4 * multipliers[9], multipliers[-1], "without MFCQ the multipliers grow without bound")


def degenerate_problem():
    """The level is one cap, and the optimum of one coordinate is past its threshold: φ' → 0 while ∇ψ stays."""
    target = np.array([3.0, 0.1])
    fun = Function(lambda x: (0.5 * float((x - target) @ (x - target)), x - target), 2, smoothness=1.0)
    return Problem(fun, MCP(2.0, 0.5), 1.0)


def check_lemma_bound_dual_value():
    """λ|x| − h(x̄) − h'(x̄)(x − x̄) is least at x = 0."""
    grid = np.linspace(-40, 40, 1601)[:, None]
    for constraint in SIX:
        for at in (0.0, 0.01, -0.3, 1.0, -2.5, 30.0):
            g_k = algorithm.linearise(constraint, np.array([at]), 100.0)
            least = min(g_k.value(x) for x in grid)
            assert_at_most(g_k.value(np.zeros(1)), least, f"ḡ(0; {at}) is least, {constraint}")


def check_lemma_dual_bound():
    """ȳ^k <= (ψ_k(0) − ψ_k(x̄^k))/(η_k − g(x^{k−1}) + Σ φ'|x^{k−1}|), nearly an equality for nearly linear ψ."""
    for seed, constraint in enumerate(SIX):
        c = np.random.default_rng(seed).standard_normal(8)
        linear = Problem(Function(lambda x, c=c: (float(c @ x), c), 8, smoothness=1e-3), constraint, 1.2)
        for problem, gamma in ((problem_for(constraint, "cauchy", seed), None), (linear, 1e-3)):
            gamma = gamma or proximal_weight(problem)
            for step in follow(problem, harmonic(problem), gamma, Spectral(max_steps=5), 10):
                descent = step.subproblem.value(np.zeros(8)) - step.subproblem.value(step.best.x)
                y = step.best.multiplier
                pointwise = theory.dual_bound(descent, constraint, step.before.x, step.eta)
                uniform = theory.uniform_dual_bound(descent, constraint, step.eta)
                assert_at_most(y, pointwise, f"ȳ^k and its bound, {constraint}, k = {step.k}")
                assert_at_most(pointwise, uniform, f"the two bounds, {constraint}, k = {step.k}")


def assert_z(constraints, papers):
    for constraint in constraints:
        rng = np.random.default_rng(5)
        for share in np.linspace(0.02, 3.98, 60):
            for x, alpha in worst_points(constraint, share * min(constraint.cap, 1.0), rng):
                t = np.abs(x)
                kept = float(np.sum(constraint.slope(t) * t))
                for z in (theory.z, *papers):
                    assert_at_most(z_near(z, constraint, alpha), kept, f"z(α) and Σ φ'|x|, {constraint}, α = {alpha:g}")


def check_theorem_dual_bd_value():
    """SCAD: Σ (λ − |h'(x_i)|)|x_i| >= z(g(x) mod cap)."""
    assert_z([SCAD(0.6, 3.7), SCAD(2.0, 1.2), SCAD.from_threshold(0.7)], [theory.z_paper])


def check_theorem_mcp_y_bd_val():
    """MCP: the same."""
    assert_z([MCP(1.5, 2.0), MCP(2.0, 0.25), MCP.from_threshold(0.3)], [theory.z_paper])


def check_similar_results():
    """The paper's "similar results" for Exp and ℓp, p < 0; and those for Log and ℓp, 0 < p < 1."""
    assert_z(SIX[2:], [])


def check_proposition_scad_eta_setting():
    """With its η_0 the denominator is at least min{λ², z(η̃)/2}; with the general rule at least z(η̃)/2."""
    rng = np.random.default_rng(6)
    for constraint in CAPPED:
        for share in (0.2, 0.5, 0.95, 1.4, 3.8):
            level = share * constraint.cap
            rules = [(theory.eta0(constraint, level), float(theory.z(constraint, level)) / 2)]
            if isinstance(constraint, SCAD):
                half = float(theory.z_paper(constraint, level)) / 2
                rules.append((theory.eta0_scad(constraint, level), min(constraint.lam * constraint.knee, half)))
            for eta0, least in rules:
                for before, eta in itertools.pairwise([eta0, *itertools.islice(etas_from(eta0, level), 4)]):
                    for spent in np.linspace(0, before, 5):
                        for x, alpha in worst_points(constraint, spent, rng):
                            if alpha <= before:
                                # The proof has η_{k−1} here, which is less.
                                assert_at_most(least, theory.room(constraint, x, before), f"denominator, {constraint}")
                                assert theory.room(constraint, x, before) < theory.room(constraint, x, eta)


def etas_from(eta0, level):
    return Harmonic(eta0=eta0).sequence(level, 0.0)


# --- projection ------------------------------------------------------------------------------------------


def check_theorem_prox_oracle():
    """The projection solves min ½|x − v|² s.t. |x|₁ + ⟨u,x⟩ <= τ exactly, and with it min ⟨w,x⟩ + |x − x̄|²."""
    rng = np.random.default_rng(12)
    for _ in range(60):
        d = int(rng.integers(1, 12))
        v, u = rng.standard_normal(d) * 3, rng.uniform(-1.4, 1.4, d) * (rng.random(d) < 0.8)
        tau = rng.uniform(0.01, 3)
        x, y = projection.project(v, u, tau)
        expected, multiplier = reference.project(v, u, tau, np.ones(d), np.zeros(d, bool))
        assert_at_most(float(np.max(np.abs(x - expected))), 0.0, "distance from the exact projection", 1e-12)
        assert_at_most(abs(y - multiplier), 0.0, "distance from the exact multiplier", 1e-11)
        at, w = rng.standard_normal(d), rng.standard_normal(d)
        prox, _ = projection.project(at - w / 2, u, tau)
        others = np.vstack([prox + rng.standard_normal((50, d)) * 10.0 ** rng.uniform(-6, 0, (50, 1)), at, 0 * at])
        spent = np.sum(np.abs(others) + u * others, axis=1)
        least = min(float(w @ o + (o - at) @ (o - at)) for o in others[spent <= tau])
        assert_at_most(float(w @ prox + (prox - at) @ (prox - at)), least, "the prox of AC-SA")
