"""Algorithm 1: feasible at every iterate, monotone, and each subproblem solved as by an independent solver."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from levelprox import Function, LinearModel, Problem, certify, solve
from levelprox.constraints import L1, MCP
from levelprox.exceptions import InvalidInputError
from levelprox.methods.lcpp import (
    LEVELS,
    SURROGATES,
    Constant,
    Geometric,
    Harmonic,
    Levels,
    lcpp,
    levels_by_name,
    linearise,
)
from levelprox.methods.subsolvers import SUBSOLVERS, Spectral, Subproblem, Surrogate
from levelprox.result import Iterate
from tests.support import reference
from tests.support.constraint_cases import exact_value
from tests.support.long_runs import LONG
from tests.support.registries import CONSTRAINTS, OBJECTIVES, ROUGH_OBJECTIVES

EVERY = 1 if LONG else 2  # of the objectives: the others with the other surrogate
ACCURATE = Spectral(max_steps=20_000, accuracy=0.0)


def start_of(problem):
    x = np.zeros(problem.dimension)
    psi, gradient = problem.objective.value_and_gradient(x)
    return Iterate(x, psi, gradient, step=1 / problem.objective.curvature)


def level_for(constraint, objective):
    """A level that binds: a part of g at a moderate point."""
    return 0.37 * constraint.value(np.full(objective.dimension, 0.3))


def check_feasible_and_monotone(problem, steps, monotone=True):
    """Check that g(x^k) <= η_k <= η in exact arithmetic, and ψ never rises beyond its own last digits."""
    psi = start_of(problem).psi
    for eta_k, iterate in steps:
        assert eta_k <= problem.level
        assert exact_value(problem.constraint, iterate.x) <= eta_k
        assert not monotone or iterate.psi <= psi * (1 + 8 * np.finfo(float).eps)
        psi = iterate.psi


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_every_iterate_is_feasible_and_psi_falls(constraint, levels, surrogate):
    turn = CONSTRAINTS.index(constraint) + 2 * list(LEVELS).index(levels) + list(SURROGATES).index(surrogate)
    for objective in [*OBJECTIVES[turn % EVERY :: EVERY], ROUGH_OBJECTIVES[turn % len(ROUGH_OBJECTIVES)]]:
        level = level_for(constraint, objective)
        problem = Problem(objective, constraint, level)
        gamma = 3 * objective.weak_convexity or 1e-2 * objective.curvature
        for kind in SUBSOLVERS.values():
            if not kind.can_take(objective):
                continue
            subsolver = kind()
            rough = objective.sampled or not objective.smooth or subsolver.is_random(objective)
            etas = levels_by_name(levels).sequence(level, 0.0)
            start, rng = start_of(problem), np.random.default_rng(0)
            steps = lcpp(problem, start, etas, gamma, subsolver.limited_to(20), SURROGATES[surrogate], rng=rng)
            monotone = subsolver.monotone and not subsolver.is_random(objective)
            check_feasible_and_monotone(problem, islice(steps, 3 if rough else 12), monotone)


def check_square_summable(points, psi_start, gamma):
    """Check that Σ |x^k - x^{k-1}|² <= 2 (ψ(x^0) - ψ_low)/γ, with ψ_low = 0."""
    total = sum(float(np.sum((after - before) ** 2)) for before, after in pairwise(points))
    assert total <= 2 * psi_start / gamma


def test_the_steps_are_square_summable():
    for constraint in CONSTRAINTS[::3]:
        objective = OBJECTIVES[0]
        problem = Problem(objective, constraint, level_for(constraint, objective))
        start, gamma = start_of(problem), 100 * objective.curvature
        etas = levels_by_name("harmonic").sequence(problem.level, 0.0)
        steps = lcpp(problem, start, etas, gamma, Spectral())
        points = [start.x, *(iterate.x for _, iterate in islice(steps, 40))]
        check_square_summable(points, start.psi, gamma)
    # Without the proximal term the first step alone is too long for the bound.
    steps = lcpp(problem, start, levels_by_name("constant").sequence(problem.level, 0.0), 1e-9, Spectral())
    with pytest.raises(AssertionError):
        check_square_summable([start.x, next(steps)[1].x], start.psi, gamma)


def check_multipliers(constraint, multiplier_of):
    """Check that y_k <= min{(ψ(x^{k-1}) - ψ_k)/(η_k - g(x^{k-1})), (ψ_k(0) - ψ_k)/(η_k - g_k(0))}."""
    objective = OBJECTIVES[0]
    problem = Problem(objective, constraint, level_for(constraint, objective))
    gamma = 0.01 * objective.curvature
    iterate = start_of(problem)
    for eta_k in islice(levels_by_name("harmonic").sequence(problem.level, 0.0), 10):
        surrogate = linearise(constraint, iterate.x, eta_k)
        subproblem = Subproblem(objective, surrogate, iterate.x, gamma)
        following = ACCURATE.solve(subproblem, iterate, tolerance=1e-9)
        value = subproblem.value(following.x)
        room, room_at_zero = eta_k - problem.g(iterate.x), constraint.lam * surrogate.tau
        bounds = [(iterate.psi - value) / room, (subproblem.value(np.zeros_like(iterate.x)) - value) / room_at_zero]
        assert 0 <= multiplier_of(following) <= min(bounds) * (1 + 1e-5), str(constraint)
        iterate = following


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_the_multiplier_is_bounded(constraint):
    check_multipliers(constraint, lambda iterate: iterate.multiplier)
    if constraint.lam > 4:  # λ dropped: the multiplier of the projection instead of g's
        with pytest.raises(AssertionError):
            check_multipliers(constraint, lambda iterate: iterate.multiplier * constraint.lam)


def check_first_steps(surrogate):
    constraint = MCP(2.0, 0.25)
    objective = OBJECTIVES[0]
    problem = Problem(objective, constraint, level_for(constraint, objective))
    etas = levels_by_name("constant").sequence(problem.level, 0.0)
    steps = lcpp(problem, start_of(problem), etas, 1e-2, Spectral(), surrogate)
    check_feasible_and_monotone(problem, islice(steps, 12))


@pytest.mark.parametrize("fault", ["g of the last point forgotten", "lambda dropped", "level exceeded"])
def test_planted_faults_are_caught(fault, monkeypatch):
    monkeypatch.setattr(
        "levelprox.methods.lcpp._feasible_step",
        lambda problem, subproblem, solver, at, *limits: solver.solve(subproblem, at),
    )

    def wrong(constraint, at, level, weights=None):
        right = linearise(constraint, at, level, weights)
        if fault == "g of the last point forgotten":
            tau = right.tau + constraint.value(at) / right.lam
            return Surrogate(right.weights, right.u, tau, right.lam, right.level)
        if fault == "lambda dropped":
            return Surrogate(right.weights, right.u, right.tau * right.lam, right.lam, right.level)
        return Surrogate(right.weights, right.u, right.tau * (1 + 1e-9), right.lam, right.level)

    check_first_steps(linearise)
    with pytest.raises(AssertionError):
        check_first_steps(wrong)


def test_a_surrogate_blurred_by_rounding_is_tightened():
    """If g exceeds the level in spite of g_k, the step is taken in a smaller set."""
    constraint = MCP(2.0, 0.25)
    problem = Problem(OBJECTIVES[0], constraint, level_for(constraint, OBJECTIVES[0]))

    def blurred(constraint, at, level, weights=None):
        right = linearise(constraint, at, level, weights)
        return Surrogate(right.weights, right.u, right.tau * (1 + 1e-7), right.lam, right.level)

    etas = levels_by_name("constant").sequence(problem.level, 0.0)
    steps = lcpp(problem, start_of(problem), etas, 1e-2, Spectral(), blurred)
    check_feasible_and_monotone(problem, islice(steps, 12))

    def hopeless(constraint, at, level, weights=None):
        return Surrogate(None, None, 1e9, constraint.lam, level)

    steps = lcpp(problem, start_of(problem), etas, 1e-2, Spectral(), hopeless)
    eta_k, iterate = next(steps)
    assert problem.g(iterate.x) <= eta_k


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # of the rival, at tolerances of 1e-12
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_subproblems_agree_with_clarabel(constraint, loss, cp):
    rng = np.random.default_rng(7)
    n, d, gamma = 40, 9, 0.05
    X = rng.standard_normal((n, d))
    b = np.sign(rng.standard_normal(n)) if loss == "logistic" else rng.standard_normal(n)
    objective = LinearModel(X, b, loss)
    center = np.where(rng.random(d) < 0.5, rng.standard_normal(d), 0) * 0.1
    level = constraint.value(center) * 1.01 + 0.01 * constraint.lam
    surrogate = linearise(constraint, center, level)
    subproblem = Subproblem(objective, surrogate, center, gamma)
    psi, gradient = objective.value_and_gradient(center)
    ours = ACCURATE.solve(subproblem, Iterate(center, psi, gradient), tolerance=1e-12)

    x = cp.Variable(d)
    z = X @ x
    losses = {
        "squared": lambda: cp.sum_squares(b - z) / n,
        "logistic": lambda: cp.sum(cp.logistic(cp.multiply(-b, z))) / n,
        "huber": lambda: cp.sum(cp.huber(b - z, 1.35)) / (2 * n),
    }
    cost = losses[loss]() + gamma / 2 * cp.sum_squares(x - center)
    held = [cp.norm1(x) + surrogate.u @ x <= surrogate.tau]
    rival = cp.Problem(cp.Minimize(cost), held)
    rival.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    assert subproblem.value(ours.x) == pytest.approx(rival.value, rel=1e-8)
    saturated = constraint.threshold < np.abs(center).max()
    assert ours.multiplier > 0 or saturated, "the level does not bind"
    if np.any(surrogate.u != 0) and ours.multiplier > 0:  # u flipped is caught
        flipped = replace(subproblem, surrogate=replace(surrogate, u=-surrogate.u))
        wrong = ACCURATE.solve(flipped, Iterate(center, psi, gradient), tolerance=1e-12)
        assert subproblem.value(wrong.x) != pytest.approx(rival.value, rel=1e-8)
    assert np.linalg.norm(ours.x - x.value) <= 1e-5 * (1 + np.linalg.norm(x.value))
    if surrogate.tau > 1e-3:
        y = float(np.ravel(held[0].dual_value)[0]) / constraint.lam
        assert ours.multiplier == pytest.approx(y, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_the_compiled_subsolver_agrees_with_its_twin(seed):
    rng = np.random.default_rng(seed)
    X, b = rng.standard_normal((30, 6)), rng.standard_normal(30)
    constraint = CONSTRAINTS[seed % len(CONSTRAINTS)]
    center = np.where(rng.random(6) < 0.5, rng.standard_normal(6), 0) * 0.3
    surrogate = linearise(constraint, center, constraint.value(center) * 1.1 + 0.01 * constraint.lam)
    model = LinearModel(X, b)
    psi, gradient = model.value_and_gradient(center)
    start = Iterate(center, psi, gradient, step=0.1)
    slow = reference.spectral(
        lambda x: (float(np.sum((b - X @ x) ** 2)) / 30, -2 * X.T @ (b - X @ x) / 30),
        center,
        0.05,
        lambda v: reference.project(v, surrogate.u, surrogate.tau, np.ones(6), np.zeros(6, bool))[0],
        step=0.1,
        max_steps=15,
    )
    for objective in (model, Function(model.value_and_gradient, 6)):
        subproblem = Subproblem(objective, surrogate, center, 0.05)
        fast = Spectral(max_steps=15, accuracy=0.0).solve(subproblem, start)
        np.testing.assert_allclose(fast.x, slow, atol=1e-9)
        assert subproblem.value(fast.x) <= subproblem.value(center)


@pytest.mark.parametrize("seed", range(10))
def test_the_subsolver_never_ends_above_its_start(seed):
    """Nonmonotone steps may rise on the way; what is returned does not, however few steps were allowed."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 8)) * np.logspace(0, 2.5, 8)
    model = LinearModel(X, rng.standard_normal(30))
    center = rng.standard_normal(8) / np.logspace(0, 2.5, 8)
    psi, gradient = model.value_and_gradient(center)
    surrogate = linearise(L1(), center, 3.0 * float(np.sum(np.abs(center))))
    subproblem = Subproblem(model, surrogate, center, 1e-6)
    for steps in range(1, 30):
        end = Spectral(max_steps=steps, accuracy=0.0).solve(subproblem, Iterate(center, psi, gradient, step=1e-4))
        assert subproblem.value(end.x) <= psi * (1 + 1e-14)


def test_the_l1_constraint_gives_the_constrained_lasso(cp):
    rng = np.random.default_rng(3)
    X, b = rng.standard_normal((50, 20)), rng.standard_normal(50)
    result = solve(Problem(LinearModel(X, b), L1(), 0.8), tol=1e-10)
    x = cp.Variable(20)
    rival = cp.Problem(cp.Minimize(cp.sum_squares(b - X @ x) / 50), [cp.norm1(x) <= 0.8])
    rival.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    assert result.psi == pytest.approx(rival.value, rel=1e-9)
    np.testing.assert_allclose(result.x, x.value, atol=1e-5)


def test_a_level_out_of_reach_gives_the_unconstrained_fit():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((200, 5))
    b = np.sign(X @ [1, -1, 0.5, 0, 0] + rng.logistic(size=200))
    plain = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, b)
    for constraint in CONSTRAINTS:
        level = 1.1 * constraint.value(plain.coef_[0])
        result = solve(Problem(LinearModel(X, b, "logistic"), constraint, level), tol=1e-8)
        assert result.status.name == "SOLVED"
        np.testing.assert_allclose(result.x, plain.coef_[0], atol=1e-6)
        assert result.multiplier == 0
        assert "inactive" in result.message


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_restarting_from_the_answer_stays_there(constraint):
    objective = OBJECTIVES[1]
    problem = Problem(objective, constraint, level_for(constraint, objective))
    first = solve(problem, tol=1e-6, max_iter=5000)
    again = solve(problem, tol=1e-6, x0=first.x)
    assert again.n_outer <= 1
    assert again.psi <= first.psi


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_kkt_points_are_reached(constraint):
    for objective in OBJECTIVES:
        problem = Problem(objective, constraint, level_for(constraint, objective))
        result = solve(problem, tol=1e-6, max_iter=20_000)
        assert result.success
        assert certify(problem, result.x).kkt <= 1e-6
        assert problem.g(result.x) <= problem.level


def test_the_paper_s_levels_and_both_surrogates_reach_the_same_value():
    X = np.random.default_rng(0).standard_normal((60, 10))
    b = X @ np.array([2, -1.5, 1, 0, 0, 0, 0, 0, 0, 0]) + 0.1 * np.random.default_rng(1).standard_normal(60)
    problem = Problem(LinearModel(X, b), MCP.from_threshold(0.5), 2.5)
    values = [
        solve(problem, levels=levels, surrogate=surrogate, tol=1e-5, max_iter=20_000).psi
        for levels in ("constant", "geometric")
        for surrogate in SURROGATES
    ]
    np.testing.assert_allclose(values, values[0], rtol=1e-4)
    early = solve(problem, levels=Harmonic(eta0=0.1), tol=1e-2, max_iter=5000)
    assert early.history[0].eta_k == pytest.approx(2.5 - 2.4 / 2)
    with pytest.warns(UserWarning, match="KKT"):
        harmonic = solve(problem, levels="harmonic", tol=1e-9, max_iter=300)
    assert harmonic.psi == pytest.approx(values[0], rel=1e-2)


# --- The schedules η_k (Assumption 2, Theorem "complexity_main")


def check_harmonic(levels: Levels, eta: float, eta0: float, K: int = 200) -> None:
    """Check that δ_k = (η − η_0)/(k(k+1)) > 0, so Σ_{k≤K} δ_k = (η − η_0)K/(K+1)."""
    etas = [eta0, *islice(levels.sequence(eta, 0.0), K)]
    for k, (before, after) in enumerate(pairwise(etas), start=1):
        delta = (eta - eta0) / (k * (k + 1))
        assert after - before == pytest.approx(delta, rel=1e-6, abs=4e-16 * eta)
    assert etas[-1] - eta0 == pytest.approx((eta - eta0) * K / (K + 1), rel=1e-12)
    assert etas[-1] == pytest.approx((K * eta + eta0) / (K + 1), rel=1e-14)


def test_the_harmonic_levels_are_the_papers():
    check_harmonic(Harmonic(eta0=0.7), eta=3.0, eta0=0.7)


def test_a_wrong_delta_is_caught():
    class Wrong(Harmonic):
        def at(self, k, eta0, level):
            return level - (level - eta0) / (k + 2)

    with pytest.raises(AssertionError):
        check_harmonic(Wrong(eta0=0.7), eta=3.0, eta0=0.7)


@pytest.mark.parametrize("name", LEVELS)
def test_levels_rise_to_eta_and_never_pass_it(name):
    etas = list(islice(levels_by_name(name).sequence(2.5, 0.5), 2000))
    assert all(a <= b for a, b in pairwise(etas))
    assert etas[-1] <= 2.5
    assert etas[-1] == pytest.approx(2.5, rel=1e-3)
    assert etas[0] >= 1.5


def test_the_start_is_checked():
    with pytest.raises(InvalidInputError, match=r"eta0 must be in \[g\(x0\), level\] = \[1, 2\], got 0.5"):
        Harmonic(eta0=0.5).sequence(2.0, 1.0)
    with pytest.raises(InvalidInputError, match="eta0"):
        Geometric(eta0=3.0).sequence(2.0, 1.0)
    with pytest.raises(InvalidInputError, match=r"ratio must be in \(0, 1\)"):
        Geometric(ratio=1.0)
    assert next(Constant().sequence(2.0, 1.0)) == 2.0


def test_names():
    rule = Geometric(ratio=0.25)
    assert levels_by_name(rule) is rule
    with pytest.raises(InvalidInputError, match="did you mean 'harmonic'"):
        levels_by_name("harmonik")
