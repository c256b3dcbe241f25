"""What the paper states of rates: outer steps, AC-SA, the corollaries, finite sums; means over seeds."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from levelprox import LinearModel, Problem, theory
from levelprox.constraints import MCP
from levelprox.methods import lcpp
from levelprox.methods.subsolvers import ACSA, SVRG, Nesterov, Subproblem
from levelprox.objectives import Stochastic
from tests.support.paper_cases import (
    SIX,
    AsInexactAsAllowed,
    assert_at_most,
    assert_inexactness,
    assert_mean_at_most,
    best_value,
    follow,
    harmonic,
    inverse,
    papers_surrogate,
    problem_for,
    proximal_weight,
    solved,
    start_at,
    stationarity,
    subproblem_at,
    warm,
)


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
    import cvxpy as cp

    g_k, x = subproblem.surrogate, cp.Variable(X.shape[1])
    psi_k = cp.norm1(b - X @ x) / len(b) + subproblem.gamma / 2 * cp.sum_squares(x - subproblem.center)
    exact = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    cp.Problem(cp.Minimize(psi_k), [cp.norm1(x) + g_k.u @ x <= g_k.tau]).solve(solver="CLARABEL", **exact)
    return x.value


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
        lcpp.lcpp(problem, before, harmonic(problem), gamma, ACSA(steps=p.steps), lcpp.linearise), K
    ):
        subproblem = Subproblem(psi, papers_surrogate(constraint, before.x, eta), before.x, gamma)
        best = solved_with_kinks(subproblem, X, psi.target)
        gap, moved = subproblem.value(after.x) - subproblem.value(best), sum((before.x - best) ** 2)
        assert_at_most(gap, p.rho / 2 * moved + p.zeta, "inexactness with kinks", 1e-8)
        missed.append(sum((after.x - best) ** 2))
        before = after
    _, delta = theory.corollary(p, gap=psi.value_and_gradient(np.zeros(8))[0], multiplier=0.0, lipschitz=0.0, rise=0.0)
    assert_at_most(float(np.mean(missed[second_half(K)])), delta, "ε_2")


def check_remark_finite_sum():
    """Rows used until ψ_k − ψ_k(x̄) has fallen by ε: at most C log(1/ε) times the remark's counts.

    Subproblems along a narrow valley, of terms ℓ(⟨a_i,x⟩, b_i) with |a_i| = 1, so that L is sup ℓ''. C = 1 for
    Nesterov's method, and 5 for SVRG, over the mean of a few seeds.
    """
    for n in (100, 1000):
        for beta in (0.1, 0.01, 0.001):
            psi = valley(n, "squared")
            assert_counts(psi, 2 * beta, theory.finite_sum_convex(n, beta=beta), f"n = {n}, β = {beta}")
        psi = valley(n, "cauchy")
        mu = psi.weak_convexity
        assert_counts(psi, 3 * mu, theory.finite_sum_nonconvex(n, L=1.0, mu=mu), f"n = {n}, μ = {mu:.2g}")


def valley(n, loss, d=10):
    rng, scale = np.random.default_rng(n), np.geomspace(1, 0.01, d)
    X = rng.standard_normal((n, d)) * scale
    X /= np.linalg.norm(X, axis=1)[:, None]
    return LinearModel(X, X @ (1 / scale) + 0.3 * rng.standard_normal(n), loss)


def assert_counts(psi, gamma, counts, of, epsilon=1e-6):
    problem = Problem(psi, MCP(1.0, 200.0), 950.0)
    subproblem, start = subproblem_at(problem, np.zeros(10), gamma), start_at(problem, np.zeros(10))
    bottom, top = subproblem.value(solved(subproblem, start).x), subproblem.value(start.x)
    case = subproblem, start, bottom + epsilon * (top - bottom)
    often = math.log(1 / epsilon)
    nesterov = rows_until(case, lambda steps: Nesterov(max_steps=steps, accuracy=0.0), counts.nesterov * often)
    svrg = float(np.mean([rows_until(case, svrg_with, 5 * counts.svrg * often, seed) for seed in range(3)]))
    assert_at_most(nesterov, counts.nesterov * often, f"rows for Nesterov's method, {of}")
    assert_at_most(svrg, 5 * counts.svrg * often, f"rows for SVRG, {of}")
    if 10 * counts.svrg < counts.nesterov:
        assert_at_most(2 * svrg, nesterov, f"SVRG needs less than half of it, {of}")


def svrg_with(epochs):
    return SVRG(batch_size=1, max_epochs=epochs, accuracy=0.0)


def rows_until(case, subsolver_with, most, seed=0):
    """n times the passes of the shortest run that reaches the target, or of the first that uses too many rows."""
    subproblem, start, target = case
    n = subproblem.objective.design.shape[0]
    for steps in itertools.chain(range(1, 16), range(20, 60, 5), itertools.count(60, 20)):
        end = subsolver_with(steps).solve(subproblem, start, rng=np.random.default_rng(seed))
        if subproblem.value(end.x) <= target or n * end.n_grad > most:
            break
    return n * end.n_grad
