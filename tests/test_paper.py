"""One test per statement of the paper, named after it, and one planted fault that it catches.

A statement is a function check_… that raises AssertionError with both sides of what does not hold. Expectations are
means over seeds, given three standard errors. docs/theory.md says which statement is where.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from scipy import optimize

from levelprox import Function, Problem, _kernels, certify, lcpp, projection, surrogate, theory
from levelprox.constraints import MCP, SCAD, Constraint
from levelprox.levels import Geometric, Harmonic
from levelprox.objectives import Stochastic
from levelprox.subproblem import Subproblem
from levelprox.subsolvers import ACSA, Spectral
from levelprox.surrogate import linearise
from levelprox.theory import complexity, dual
from tests import reference
from tests.paper_cases import (
    SIX,
    AsInexactAsAllowed,
    assert_at_most,
    assert_mean_at_most,
    follow,
    inverse,
    papers_surrogate,
    problem_for,
    solved,
    start_at,
    stationarity,
    worst_points,
    z_near,
)

CAPPED = [c for c in SIX if math.isfinite(c.cap)]


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


def check_proposition_square_sum_2():
    """ζ_k + ψ(x^{k−1}) >= ψ(x^k) + γ/2|x^k − x^{k−1}|² + (γ−μ−ρ)/2|x^{k−1} − x̄^k|², hence limits."""
    for constraint in SIX:
        for loss in ("squared", "cauchy"):
            problem = problem_for(constraint, loss, seed=1)
            gamma, mu = proximal_weight(problem), problem.objective.weak_convexity
            rho = (gamma - mu) / 2
            steps = follow(problem, harmonic(problem), gamma, AsInexactAsAllowed(rho), 60)
            assert_inexactness(steps, rho)
            for step in steps:
                length = float(np.sum((step.after.x - step.before.x) ** 2))
                spent = step.after.psi + gamma / 2 * length + (gamma - mu - rho) / 2 * step.moved
                assert_at_most(spent, step.before.psi, f"decrease of ψ, k = {step.k}")
            fall = steps[0].before.psi - steps[-1].after.psi
            assert_at_most(sum(s.moved for s in steps), 2 * fall / (gamma - mu - rho), "Σ|x^{k-1} - x̄^k|²")
            assert_at_most(steps[-1].moved, 1e-3 * steps[0].moved, "lim |x^{k-1} - x̄^k| = 0")


def check_theorem_conv_asym_kkt():
    """Limit points are KKT points, with inexact steps and rising levels."""
    for constraint in SIX:
        for loss in ("squared", "cauchy"):
            problem = problem_for(constraint, loss, seed=2)
            gamma, mu = proximal_weight(problem), problem.objective.weak_convexity
            etas = Geometric(eta0=problem.level / 2, ratio=0.7).sequence(problem.level, 0.0)
            steps = follow(problem, etas, gamma, Spectral(max_steps=30), 200)
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
        limit = certify(problem, steps[-1].after.x)
        assert np.max(constraint.slope(np.abs(steps[-1].after.x)) * np.abs(steps[-1].after.x)) > 0.01
        late = max(step.best.multiplier for step in steps[40:])
        assert_at_most(late, 1.2 * limit.multiplier, f"sup of the late multipliers, {constraint}")
    multipliers = [
        step.best.multiplier
        for step in follow(degenerate_problem(), Harmonic(eta0=0.5).sequence(1.0, 0.0), 1.0, Spectral(), 200)
    ]
    assert_at_most(4 * multipliers[9], multipliers[-1], "without MFCQ the multipliers grow without bound")


def degenerate_problem():
    """The level is one cap, and one coordinate wants to be past its threshold: φ' → 0 while ∇ψ stays."""
    target = np.array([3.0, 0.1])
    fun = Function(lambda x: (0.5 * float((x - target) @ (x - target)), x - target), 2, smoothness=1.0)
    return Problem(fun, MCP(2.0, 0.5), 1.0)


def check_lemma_bound_dual_value():
    """λ|x| − h(x̄) − h'(x̄)(x − x̄) is least at x = 0."""
    grid = np.linspace(-40, 40, 4001)[:, None]
    for constraint in SIX:
        for at in (0.0, 0.01, -0.3, 1.0, -2.5, 30.0):
            g_k = surrogate.linearise(constraint, np.array([at]), 100.0)
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
                for before, eta in itertools.pairwise([eta0, *itertools.islice(etas_from(eta0, level), 8)]):
                    for spent in np.linspace(0, before, 9):
                        for x, alpha in worst_points(constraint, spent, rng):
                            if alpha <= before:
                                # The proof has η_{k−1} here, which is less.
                                assert_at_most(least, theory.room(constraint, x, before), f"denominator, {constraint}")
                                assert theory.room(constraint, x, before) < theory.room(constraint, x, eta)


def etas_from(eta0, level):
    return Harmonic(eta0=eta0).sequence(level, 0.0)


# --- complexity ----------------------------------------------------------------------------------------


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


def check_proposition_composite_2():
    """Σ_{k>=s}|x^{k−1} − x̄^k|² and Σ_{k>=s}|x^k − x̄^k|², for every s >= 2."""
    for constraint in SIX:
        for loss in ("squared", "cauchy"):
            problem = problem_for(constraint, loss, seed=4)
            gamma, mu = proximal_weight(problem), problem.objective.weak_convexity
            rho = 0.5 * (gamma - mu)
            steps = follow(problem, harmonic(problem), gamma, AsInexactAsAllowed(rho), 25)
            assert_inexactness(steps, rho)
            least = best_value(problem, steps)
            for s in range(2, 25):
                gap = steps[s - 2].before.psi - least
                moved, missed = theory.composite(gamma=gamma, mu=mu, rho=rho, Z=0.0, gap=gap)
                assert_at_most(sum(step.moved for step in steps[s - 1 :]), moved, f"Σ|x^{{k-1}} - x̄^k|², s = {s}")
                assert_at_most(sum(step.missed for step in steps[s - 1 :]), missed, f"Σ|x^k - x̄^k|², s = {s}")


def second_half(K):
    return slice((K + 1) // 2 - 1, K)


def kkt_of(problem, steps):
    """Means over k̂ of the three quantities of Theorem "complexity_main"."""
    half = steps[second_half(len(steps))]
    return (
        float(np.mean([stationarity(problem, step) for step in half])),
        float(np.mean([step.best.multiplier * abs(problem.g(step.best.x) - problem.level) for step in half])),
        float(np.mean([step.missed for step in half])),
    )


def check_theorem_complexity_main():
    """The mean over k̂ of stationarity, complementarity and distance, of steps as inexact as allowed.

    With a large γ the steps are short and all alike, and the bounds are at their tightest.
    """
    K = 30
    for constraint in SIX:
        for loss, (zeta, factor) in itertools.product(("squared", "cauchy"), ((0.01, 1.0), (0.0, 1.0), (0.0, 30.0))):
            problem = problem_for(constraint, loss, seed=5)
            mu, gamma = problem.objective.weak_convexity, factor * proximal_weight(problem)
            rho = 0.5 * (gamma - mu)
            start = warm(problem) if factor == 1 else None
            steps = follow(problem, harmonic(problem), gamma, AsInexactAsAllowed(rho, zeta), K, start)
            assert_inexactness(steps, rho, zeta)
            bounds = theory.complexity_main(
                K=K,
                gamma=gamma,
                mu=mu,
                rho=rho,
                Z=K * zeta,
                gap=steps[0].before.psi - best_value(problem, steps),
                multiplier=max(step.best.multiplier for step in steps),
                lipschitz=constraint.lipschitz,
                rise=problem.level / 2,
            )
            rights = (bounds.stationarity, bounds.complementarity, bounds.distance)
            names = ("stationarity", "complementarity", "distance")
            for left, right, name in zip(kkt_of(problem, steps), rights, names, strict=True):
                assert_at_most(left, right, f"{name}, {constraint}, {loss}")


# --- AC-SA and the corollaries ---------------------------------------------------------------------------


def sampled(exact, sigma):
    """ψ seen only through gradients with normal noise of E|·|² = σ²."""
    d = exact.dimension

    def oracle(x, rng):
        return exact.value_and_gradient(x)[1] + sigma / math.sqrt(d) * rng.standard_normal(d)

    return Stochastic(
        oracle,
        d,
        noise=sigma,
        smoothness=exact.smoothness,
        weak_convexity=exact.weak_convexity,
        exact=exact.value_and_gradient,
    )


def solved_with_kinks(subproblem, X, b):
    """x̄^k for mean|b − Xx|, by an interior-point method."""
    g_k, x = subproblem.surrogate, cp.Variable(X.shape[1])
    psi_k = cp.norm1(b - X @ x) / len(b) + subproblem.gamma / 2 * cp.sum_squares(x - subproblem.center)
    exact = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    cp.Problem(cp.Minimize(psi_k), [cp.norm1(x) + g_k.u @ x <= g_k.tau]).solve(solver="CLARABEL", **exact)
    return x.value


def subproblem_at(problem, x, gamma, objective=None):
    g_k = linearise(problem.constraint, x, problem.level)
    return Subproblem(objective or problem.objective, g_k, x, gamma)


def check_proposition_acsa():
    """E[ψ_k(x^k) − ψ_k(x̄^k)] <= 2(L+γ)/(T(T+1))|x^{k−1} − x̄^k|² + 8(M²+σ²)/((γ−μ)(T+1)), and g_k(x^k) <= η_k."""
    for constraint in SIX:
        for loss in ("squared", "cauchy"):
            problem = problem_for(constraint, loss, seed=6)
            assert_acsa_smooth(problem, np.zeros(8))
            assert_acsa_smooth(replace(problem, level=4 * problem.level), np.zeros(8))
            assert_acsa_smooth(problem, warm(problem))
        problem = problem_for(constraint, "cauchy", seed=7)
        assert_acsa_sampled(problem, sigma=0.7)
        assert_acsa_with_kinks(constraint)


def assert_acsa_smooth(problem, x):
    psi = problem.objective
    gamma = 3 * psi.weak_convexity or 0.01 * psi.smoothness
    subproblem, start = subproblem_at(problem, x, gamma), start_at(problem, x)
    best = solved(subproblem, start).x
    for T in (1, 2, 3, 5, 8, 15, 50):
        end = ACSA(steps=T).solve(subproblem, start).x
        bound = theory.acsa_bound(T, sum((x - best) ** 2), gamma=gamma, mu=psi.weak_convexity, L=psi.smoothness)
        assert_at_most(subproblem.value(end) - subproblem.value(best), bound, f"gap of AC-SA, T = {T}")
        assert_at_most(subproblem.surrogate.value(end), problem.level, "g_k(x^k) <= η_k", 1e-14)


def assert_acsa_sampled(problem, sigma):
    gamma, exact, x = proximal_weight(problem), problem.objective, np.zeros(8)
    subproblem, start = subproblem_at(problem, x, gamma, sampled(exact, sigma)), start_at(problem, x)
    best = solved(replace(subproblem, objective=exact), start).x
    of_psi = {"mu": exact.weak_convexity, "L": exact.smoothness, "sigma": sigma}
    for T in (4, 30):
        ends = [ACSA(steps=T).solve(subproblem, start, rng=np.random.default_rng(seed)).x for seed in range(40)]
        gaps = [subproblem.value(end) - subproblem.value(best) for end in ends]
        bound = theory.acsa_bound(T, sum((x - best) ** 2), gamma=gamma, **of_psi)
        assert_mean_at_most(gaps, bound, f"mean gap of AC-SA, T = {T}")
        assert max(subproblem.surrogate.value(end) for end in ends) <= problem.level


def assert_acsa_with_kinks(constraint):
    problem = problem_for(constraint, "absolute", seed=8)
    psi, x = problem.objective, np.zeros(8)
    rng = np.random.default_rng(0)
    X, b = psi.design.matvec, psi.target
    X = np.column_stack([X(e) for e in np.eye(8)])
    gamma = 0.5
    for at in (x, inverse(constraint, 0.3 * problem.level / 2.5) * rng.choice([-1.0, 0.0, 1.0], 8)):
        subproblem = subproblem_at(problem, at, gamma)
        best = solved_with_kinks(subproblem, X, b)
        for T in (1, 10, 200):
            end = ACSA(steps=T).solve(subproblem, start_at(problem, at)).x
            bound = theory.acsa_bound(T, sum((at - best) ** 2), gamma=gamma, mu=0.0, L=0.0, M=psi.nonsmoothness)
            assert_at_most(subproblem.value(end) - subproblem.value(best), bound, f"gap with kinks, T = {T}", 1e-8)


def assert_corollary(problem, parameters, sigma, seeds):
    """LCPP with AC-SA and the corollary's parameters: inexactness step by step, then the (ε_1, ε_2)-KKT point."""
    p, exact = parameters, problem.objective
    assert_at_most(p.K * p.zeta, p.Z, "Σ ζ_k")
    runs = []
    for seed in range(seeds):
        of_samples = replace(problem, objective=sampled(exact, sigma)) if sigma else problem
        etas, rng = harmonic(problem), np.random.default_rng(seed)
        runs.append(follow(of_samples, etas, p.gamma, ACSA(steps=p.steps), p.K, rng=rng, exact=exact))
    at_most = assert_mean_at_most if seeds > 1 else lambda lefts, right, what: assert_at_most(lefts[0], right, what)
    for k in range(p.K):
        at_most([r[k].gap - p.rho / 2 * r[k].moved for r in runs], p.Z / p.K, f"inexactness, k = {k + 1}")
    epsilon, delta = theory.corollary(
        p,
        gap=runs[0][0].before.psi - min(best_value(problem, run) for run in runs),
        multiplier=max(step.best.multiplier for run in runs for step in run),
        lipschitz=problem.constraint.lipschitz,
        rise=problem.level / 2,
    )
    reached = np.array([kkt_of(problem, run) for run in runs])
    for lefts, right, what in zip(
        reached.T, (epsilon, epsilon, delta), ("ε_1, stationarity", "ε_1", "ε_2"), strict=True
    ):
        at_most(lefts, right, what)


def check_corollary_unified_complexity_main():
    """Nonconvex ψ: γ = 3μ, T_k = max{2√(L/μ+3), K(M+σ)}; smooth and sampled."""
    for constraint in SIX:
        problem = problem_for(constraint, "cauchy", seed=9)
        of_psi = {"mu": problem.objective.weak_convexity, "L": problem.objective.smoothness, "M": 0.0}
        assert_corollary(problem, theory.nonconvex(**of_psi, sigma=0.0, K=20), 0.0, seeds=1)
        assert_corollary(problem, theory.nonconvex(**of_psi, sigma=1.5, K=8), 1.5, seeds=8)


def check_corollary_unified_complexity_convex():
    """Convex ψ: γ = βL, T_k = max{2√(2(1+β)/β), K(M+σ)}; smooth, sampled, and with kinks (L = 0, any γ)."""
    for constraint in SIX:
        problem = problem_for(constraint, "squared", seed=10)
        of_psi = {"L": problem.objective.smoothness, "M": 0.0, "beta": 0.2}
        assert_corollary(problem, theory.convex(**of_psi, sigma=0.0, K=20), 0.0, seeds=1)
        assert_corollary(problem, theory.convex(**of_psi, sigma=2.0, K=8), 2.0, seeds=8)
    assert_corollary_with_kinks(SIX[0])


def assert_corollary_with_kinks(constraint):
    problem, K, gamma = problem_for(constraint, "absolute", seed=11), 6, 0.5
    psi = problem.objective
    X = np.column_stack([psi.design.matvec(e) for e in np.eye(8)])
    p = theory.proximal(gamma=gamma, mu=0.0, L=0.0, M=psi.nonsmoothness, sigma=0.0, K=K)
    assert_at_most(K * p.zeta, p.Z, "Σ ζ_k")
    before, missed = start_at(problem, np.zeros(8)), []
    for eta, after in itertools.islice(
        lcpp.lcpp(problem, before, harmonic(problem), gamma, ACSA(steps=p.steps), surrogate.linearise), K
    ):
        subproblem = Subproblem(psi, papers_surrogate(constraint, before.x, eta), before.x, gamma)
        best = solved_with_kinks(subproblem, X, psi.target)
        gap, moved = subproblem.value(after.x) - subproblem.value(best), sum((before.x - best) ** 2)
        assert_at_most(gap, p.rho / 2 * moved + p.zeta, "inexactness with kinks", 1e-8)
        missed.append(sum((after.x - best) ** 2))
        before = after
    _, delta = theory.corollary(p, gap=psi.value_and_gradient(np.zeros(8))[0], multiplier=0.0, lipschitz=0.0, rise=0.0)
    assert_at_most(float(np.mean(missed[second_half(K)])), delta, "ε_2")


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


# --- the tests, and what each must catch -------------------------------------------------------------------


def test_proposition_mfcq_necessary_condition():
    check_proposition_mfcq_necessary_condition()


def test_proposition_kkt_subseq():
    check_proposition_kkt_subseq()


def test_proposition_square_sum_2():
    check_proposition_square_sum_2()


def test_theorem_conv_asym_kkt():
    check_theorem_conv_asym_kkt()


def test_theorem_bound_dual_mfcq():
    check_theorem_bound_dual_mfcq()


def test_lemma_bound_dual_value():
    check_lemma_bound_dual_value()


def test_lemma_dual_bound():
    check_lemma_dual_bound()


def test_theorem_dual_bd_value():
    check_theorem_dual_bd_value()


def test_theorem_mcp_y_bd_val():
    check_theorem_mcp_y_bd_val()


def test_similar_results_for_the_other_functions():
    check_similar_results()


def test_proposition_scad_eta_setting():
    check_proposition_scad_eta_setting()


def test_proposition_composite_2():
    check_proposition_composite_2()


def test_theorem_complexity_main():
    check_theorem_complexity_main()


def test_proposition_acsa():
    check_proposition_acsa()


def test_corollary_unified_complexity_main():
    check_corollary_unified_complexity_main()


def test_corollary_unified_complexity_convex():
    check_corollary_unified_complexity_convex()


def test_theorem_prox_oracle():
    check_theorem_prox_oracle()


def slope_without_h(patch):
    patch.setattr(Constraint, "slope", lambda self, t: np.full_like(np.asarray(t, float), self.lam))


def u_flipped(patch):
    patch.setattr(surrogate, "linearise", lambda *args: (s := linearise(*args)) and replace(s, u=-s.u))


def u_not_divided_by_lambda(patch):
    patch.setattr(surrogate, "linearise", lambda *args: (s := linearise(*args)) and replace(s, u=s.lam * s.u))


def tau_without_the_sum(patch):
    """τ = (η_k − g(x))/λ: x^{k−1} is no longer in the set."""
    radius = surrogate._radius

    def smaller(constraint, at, support, price, level, weights):
        return radius(constraint, at, support, 0 * price, level, weights)

    patch.setattr(surrogate, "_radius", smaller)


def multiplier_not_divided_by_lambda(patch):
    solve = Spectral.solve

    def unscaled(self, subproblem, *args, **kwargs):
        end = solve(self, subproblem, *args, **kwargs)
        return replace(end, multiplier=end.multiplier * subproblem.surrogate.lam)

    patch.setattr(Spectral, "solve", unscaled)


def delta_zero(patch):
    patch.setattr(Harmonic, "at", lambda self, k, eta0, level: eta0)


def levels_stay_below(patch):
    patch.setattr(Geometric, "at", lambda self, k, eta0, level: eta0 + 0.9 * (level - eta0) * (1 - self.ratio**k))


def delta_too_slow(patch):
    patch.setattr(Harmonic, "at", lambda self, k, eta0, level: level - (level - eta0) / math.sqrt(k + 1))


def gamma_dropped(patch):
    patch.setattr(lcpp, "Subproblem", lambda psi, g_k, x, gamma, signs: Subproblem(psi, g_k, x, 0.01 * gamma, signs))


def room_with_lambda_for_the_slope(patch):
    def too_large(constraint, x, eta_k, weights=None):
        return eta_k - constraint.value(x, weights) + constraint.lam * float(np.sum(np.abs(x)))

    patch.setattr(dual, "room", too_large)


def scad_without_its_bend(patch):
    patch.setitem(dual.Z_PAPER, SCAD, lambda c, a: a)


def mcp_with_theta_doubled(patch):
    patch.setitem(dual.Z_PAPER, MCP, lambda c, a: a * np.sqrt(1 - a / (2 * c.cap)))


def exp_without_its_cap(patch):
    patch.setattr(dual, "cell", lambda constraint, alpha: (0 * alpha, np.minimum(alpha, 0.5 * constraint.cap)))


def eta0_a_whole_number_of_caps(patch):
    patch.setattr(theory, "eta0_scad", lambda c, level: c.cap * (level // c.cap))


def acsa_without_l(patch):
    kernel = _kernels.acsa
    patch.setattr(_kernels, "acsa", lambda *args: kernel(*args[:11], args[3], *args[12:]))  # Λ = γ


def one_inner_step(patch):
    patch.setattr(complexity, "_steps", lambda *args: 1.0)


def inner_steps_without_k(patch):
    patch.setattr(complexity, "_steps", lambda L, M, sigma, gamma, rho, K: 2 * math.sqrt((L + gamma) / rho))


def projection_with_u_flipped(patch):
    kernel = _kernels.project_rows
    patch.setattr(_kernels, "project_rows", lambda v, u, *rest: kernel(v, None if u is None else -u, *rest))


FAULTS = [
    (check_proposition_mfcq_necessary_condition, slope_without_h),
    (check_proposition_kkt_subseq, delta_zero),
    (check_proposition_square_sum_2, tau_without_the_sum),
    (check_theorem_conv_asym_kkt, u_flipped),
    (check_theorem_conv_asym_kkt, levels_stay_below),
    (check_theorem_bound_dual_mfcq, multiplier_not_divided_by_lambda),
    (check_lemma_bound_dual_value, u_not_divided_by_lambda),
    (check_lemma_dual_bound, room_with_lambda_for_the_slope),
    (check_theorem_dual_bd_value, scad_without_its_bend),
    (check_theorem_mcp_y_bd_val, mcp_with_theta_doubled),
    (check_similar_results, exp_without_its_cap),
    (check_proposition_scad_eta_setting, eta0_a_whole_number_of_caps),
    (check_proposition_composite_2, gamma_dropped),
    (check_theorem_complexity_main, delta_too_slow),
    (check_proposition_acsa, acsa_without_l),
    (check_corollary_unified_complexity_main, one_inner_step),
    (check_corollary_unified_complexity_convex, inner_steps_without_k),
    (check_theorem_prox_oracle, projection_with_u_flipped),
]


@pytest.mark.parametrize(("check", "fault"), FAULTS, ids=lambda function: function.__name__)
def test_a_planted_fault_is_caught(check, fault, monkeypatch):
    fault(monkeypatch)
    with pytest.raises(AssertionError) as caught:
        check()
    print(caught.value)


def test_every_statement_has_its_fault():
    checks = {function for name, function in globals().items() if name.startswith("check_")}
    assert {check for check, _ in FAULTS} == checks
