"""Second-order estimates around a fit: exact for squared loss, close near a fit, and bounds that hold always."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import LinearModel, OneVsRestModel, _kernels, best_subset
from levelprox.losses import Hinge
from levelprox.subset.column_cache import Columns
from levelprox.subset.refit import Refits
from levelprox.subset.swap_bounds import SwapEstimates, costs, gap_before_last_step, least_costs
from levelprox.subset.swaps import SwapSearch
from tests.support.long_runs import LONG
from tests.support.subset_cases import Table, table, weighted

EXAMPLES = 500 if LONG else 25
SQUARED = {
    "plain": lambda: table(),
    "intercept": lambda: table(intercept=True),
    "kept": lambda: table(keep=(5,)),
    "kept and intercept": lambda: table(keep=(1, 6), intercept=True),
    "weights and offset": lambda: weighted(table(intercept=True)),
    "more features than samples": lambda: table(n=7, d=12),
}


def estimates_at(whole: Table, features) -> SwapEstimates:
    problem, fit = whole.problem, whole.fit(features)
    return estimates_with(problem, fit, problem.objective.gradient_of(fit.margins))


def estimates_with(problem, fit, gradient) -> SwapEstimates:
    objective = problem.objective
    cross = objective.cross_hessian_of(fit.margins, Columns(objective).moves(fit.features), fit.x.size, True)
    return SwapEstimates(problem, fit, gradient, cross, objective.feature_hessians_of(fit.margins))


def true_changes(whole: Table, features):
    """(cost of leaving i out, {j: gain of taking j in}, {(i, j): gain of j for i}) by refits."""
    inside = sorted(set(features) - set(whole.keep))
    outside = [j for j in whole.counted if j not in inside]
    psi = whole.psi(features)
    cost = {i: whole.psi(set(features) - {i}) - psi for i in inside}
    addition = {j: psi - whole.psi({*features, j}) for j in outside}
    gain = {(i, j): psi - whole.psi({*features, j} - {i}) for i in inside for j in outside}
    return cost, addition, gain


def check_estimates(whole: Table, features, tolerance: float) -> None:
    """All estimates against refits, to within a part of the largest of their kind."""
    estimates, (cost, addition, gain) = estimates_at(whole, features), true_changes(whole, features)
    place = {int(feature): i for i, feature in enumerate(estimates.fit.features)}
    assert sorted(estimates.fit.features[estimates.droppable]) == sorted(cost)
    all_costs, additions = costs(whole.problem, estimates.fit), estimates.additions()
    assert np.all(np.isinf(np.delete(all_costs, estimates.droppable)))
    assert np.all(additions[estimates.fit.features] == -np.inf)
    largest_cost, largest_addition = max(cost.values()), max(addition.values())
    for i, expected in cost.items():
        assert estimates.cost(place[i]) == pytest.approx(expected, abs=tolerance * largest_cost)
        assert all_costs[place[i]] == pytest.approx(estimates.cost(place[i]), rel=1e-9, abs=1e-15)
    for j, expected in addition.items():
        assert additions[j] == pytest.approx(expected, abs=tolerance * largest_addition)
    for i in cost:
        gains = estimates.gains(place[i])
        assert np.all(gains[estimates.fit.features] == -np.inf)
        for j in addition:
            assert gains[j] == pytest.approx(gain[i, j], abs=tolerance * (largest_cost + largest_addition))


@pytest.mark.parametrize("features", [(0, 1, 2), (3, 4), (0,), (0, 2, 3, 7)], ids=str)
@pytest.mark.parametrize("name", SQUARED)
def test_for_the_squared_loss_estimates_are_exact(name, features):
    check_estimates(SQUARED[name](), features, 1e-9)


@pytest.mark.parametrize("options", [{}, {"intercept": True, "keep": (4,)}], ids=str)
@pytest.mark.parametrize("loss", ["logistic", "multinomial", "poisson", "gamma"])
def test_near_a_fit_estimates_are_close(loss, options):
    """Where coefficients are small, leaving them out is a small change; ten times smaller, ten times closer."""
    check_estimates(table(loss, n=600, d=7, size=0.15, **options), (0, 1, 3), 0.06)
    check_estimates(table(loss, n=20_000, d=5, size=0.015, **options), (0, 3), 0.006)


def test_estimates_with_weights_and_offsets_of_classes():
    check_estimates(weighted(table("multinomial", n=600, d=6, size=0.15, intercept=True)), (0, 1, 3), 0.05)


def test_a_copy_of_a_column_gains_nothing_and_costs_nothing_to_swap():
    whole = table(d=6)
    twins = Table(np.column_stack([whole.X, whole.X[:, 0], np.zeros(60), np.ones(60)]), whole.b, intercept=True)
    estimates = estimates_at(twins, (0, 1))
    additions = estimates.additions()
    assert np.all(
        np.abs(additions[[6, 8]]) <= 1e-15 * np.max(additions)
    )  # spanned already, the one by a feature, the other by the intercept
    assert additions[7] == -np.inf  # no feature to add
    assert estimates.gains(0)[6] == pytest.approx(0, abs=1e-9)
    assert np.all(estimates.bounds(0, twins.objective.column_magnitudes(), 0.0)[[6, 8]] == np.inf)


def test_signs_leave_what_falls_the_wrong_way():
    whole = table(d=6)
    problem, fit = whole.problem, whole.fit((3,))
    gradient = problem.objective.gradient_of(fit.margins)
    free = estimates_with(problem, fit, gradient).additions()
    one_sided = type(problem)(problem.objective, problem.constraint, 1.5, None, True)
    held = estimates_with(one_sided, fit, gradient).additions()
    upward = gradient < 0
    assert np.array_equal(held[upward], free[upward]) and np.any(held[~upward] < free[~upward])
    assert np.all(held[~upward & (free > -np.inf)] == 0)


# --- bounds -------------------------------------------------------------------------------------------


def self_concordance(whole: Table) -> float:
    return whole.objective.self_concordance


def check_bounds(whole: Table, features, factor: float = 1.0) -> int:
    """No swap gains more than its bound says; how many bounds say anything."""
    estimates, (_, _, gain) = estimates_at(whole, features), true_changes(whole, features)
    magnitudes, slack = whole.objective.column_magnitudes(), 1e-9 * abs(whole.psi(features))
    told = 0
    for i in estimates.droppable:
        bounds = estimates.bounds(i, magnitudes, self_concordance(whole))
        assert np.all(bounds[estimates.fit.features] == -np.inf)
        for j in np.flatnonzero(estimates.outside):
            true = gain[int(estimates.fit.features[i]), int(j)]
            bound = factor * bounds[j] if bounds[j] > 0 else bounds[j] / factor
            assert true <= bound + slack, (i, j, true, bounds[j])
        told += int(np.count_nonzero(np.isfinite(bounds)))
    return told


def check_least_costs(whole: Table, features, factor: float = 1.0) -> None:
    """Leaving out costs no less than said."""
    fit, problem = whole.fit(features), whole.problem
    bounds = least_costs(problem, fit, whole.objective.column_magnitudes(), self_concordance(whole))
    for i, feature in enumerate(fit.features.tolist()):
        if feature in whole.unpenalized:
            assert bounds[i] == np.inf
            continue
        true = whole.psi(set(fit.features.tolist()) - {feature}) - fit.psi
        assert 0 <= bounds[i] * factor <= true + 1e-9 * abs(fit.psi), (feature, true, bounds[i])


BOUNDED = ["squared", "logistic", "poisson", "gamma"]


@pytest.mark.parametrize("loss", BOUNDED)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(12, 40),
    d=st.integers(3, 6),
    size=st.floats(-2, 0.5).map(lambda e: 10.0**e),
    inside=st.integers(1, 3),
    options=st.sampled_from([{}, {"intercept": True}, {"keep": (0,)}, {"intercept": True, "keep": (1,)}]),
    extras=st.booleans(),
)
@settings(max_examples=EXAMPLES, deadline=None)
def test_bounds_hold_on_any_small_problem(loss, seed, n, d, size, inside, options, extras):
    whole = table(loss, seed, n, d, size, **options)
    whole = weighted(whole) if extras else whole
    features = whole.counted[: min(inside, len(whole.counted) - 1)]
    if np.max(np.abs(whole.refit(features)[0]), initial=0.0) > 50:
        return  # separated, or as good as that: no fit is exact
    check_bounds(whole, features)
    check_least_costs(whole, features)


@pytest.mark.parametrize("loss", BOUNDED)
def test_bounds_say_something_and_can_fail(loss):
    """Where little is to be gained they are close, so one that is half as large is caught."""
    whole = table(loss, n=2000, d=6, size=0.02)
    assert check_bounds(whole, (0, 4)) == 8
    check_least_costs(whole, (0, 4))
    with pytest.raises(AssertionError):
        check_bounds(whole, (0, 4), factor=0.5)
    with pytest.raises(AssertionError):
        check_least_costs(whole, (0, 4), factor=2.0)


def test_a_bound_without_its_growth_is_caught(monkeypatch):
    """The estimate alone, M = 0, is no bound for a logistic loss: some swap gains more."""

    def check_many(check, seeds):
        for seed in range(seeds):
            check(table("logistic", seed, size=1.5), (3, 4))

    check_many(check_bounds, 4)
    check_many(check_least_costs, 20)
    monkeypatch.setattr("tests.unit.subset.test_swap_bounds.self_concordance", lambda whole: 0.0)
    with pytest.raises(AssertionError):
        check_many(check_bounds, 4)
    with pytest.raises(AssertionError):
        check_many(check_least_costs, 20)


@pytest.mark.parametrize("loss", ["sigmoid", Hinge().smoothed(0.5)], ids=["sigmoid", "smoothed hinge"])
@pytest.mark.parametrize("classes", [False, True], ids=["linear", "one vs rest"])
def test_features_are_taken_in_where_psi_is_straight(loss, classes):
    """At the origin either loss has a slope and no curvature, for any units of the columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 7)) * 2.0 ** np.arange(-3, 4)
    b = np.sign(X[:, 0] / X[:, 0].std() - 0.8 * X[:, 1] / X[:, 1].std() + rng.logistic(size=60))
    model = OneVsRestModel(X, b, loss) if classes else LinearModel(X, b, loss)
    found = best_subset(model, 2)
    assert found.support.tolist() == [0, 1] and found.psi < 0.8 * model.value_of(model.origin)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "huber", "squared_hinge"])
@pytest.mark.parametrize("options", [{}, {"ridge": 0.05}], ids=["plain", "ridge"])
def test_compiled_examinations_show_what_refits_one_by_one_do(loss, options, monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 14)) + 0.5 * rng.standard_normal((60, 1))
    X[:, 9] = X[:, 2]  # equal columns
    z = X[:, :4] @ np.array([1.0, -0.7, 0.5, 0.4])
    y = {
        "poisson": lambda: rng.poisson(np.exp(0.5 * z)).astype(np.float64),
        "logistic": lambda: np.where(z + rng.logistic(size=60) > 0, 1.0, -1.0),
        "squared_hinge": lambda: np.where(z + rng.standard_normal(60) > 0, 1.0, -1.0),
    }.get(loss, lambda: z + rng.standard_normal(60))()
    for start in ([0, 5, 7], None):
        compiled = best_subset(LinearModel(X, y, loss, fit_intercept=True, **options), 3, start=start)
        with monkeypatch.context() as patch:
            patch.setattr(Refits, "has_kernel", lambda self, features: False)
            one_by_one = best_subset(LinearModel(X, y, loss, fit_intercept=True, **options), 3, start=start)
        assert compiled.psi == pytest.approx(one_by_one.psi, rel=1e-9)
        assert compiled.swaps == one_by_one.swaps and compiled.additions == one_by_one.additions
        assert compiled.addition == one_by_one.addition
        assert compiled.multiplier == pytest.approx(one_by_one.multiplier, rel=1e-6)


def test_costs_of_dependent_columns_or_without_a_bound_are_zero():
    hessian, x, reach = np.array([[1.0, 1.0], [1.0, 1.0]]), [1.0, 2.0], [1.0, 1.0]
    assert _kernels.least_costs(x, hessian, reach, 1.0).tolist() == [0.0, 0.0]
    assert _kernels.least_costs(x, np.eye(2), reach, np.inf).tolist() == [0.0, 0.0]
    np.testing.assert_allclose(_kernels.least_costs(x, np.eye(2), reach, 0.0), [0.5, 2.0], rtol=1e-12)
    with pytest.raises(ValueError, match="do not fit"):
        _kernels.least_costs(x, np.eye(3), reach, 0.0)


@pytest.mark.parametrize("options", [{}, {"ridge": 0.1}], ids=["plain", "ridge"])
@pytest.mark.parametrize("kind", [LinearModel, OneVsRestModel])
def test_a_last_step_bounds_what_is_left_where_it_stays_on_one_piece(kind, options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    b = np.sign(X[:, 0] + rng.logistic(size=80))
    model = kind(X, b, Hinge().smoothed(0.5), **options)
    x = best_subset(model, 3).x
    least = model.value_of(model.margins(x))
    for size in (0.0, 1e-9, 1e-6):
        z = model.margins(x + size * rng.standard_normal(x.size))
        left = model.value_of(z) - least
        assert left - 1e-15 <= gap_before_last_step(model, z) <= 3 * left + 1e-15
    assert gap_before_last_step(model, model.margins(x + 3.0)) == np.inf  # samples cross kinks


@pytest.mark.parametrize("loss", ["sigmoid", "logistic"])
def test_a_last_step_shows_nothing_where_slopes_are_not_linear(loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    model = LinearModel(X, np.sign(X[:, 0] + rng.logistic(size=80)), loss)
    assert gap_before_last_step(model, model.margins(np.full(3, 0.1))) == np.inf
    X[:, 2] = X[:, 1]  # no single minimiser
    model = LinearModel(X, model.target, Hinge().smoothed(0.5))
    assert gap_before_last_step(model, model.margins(np.zeros(3))) == np.inf


def test_bounds_rule_out_the_swaps_of_correlated_columns(monkeypatch: pytest.MonkeyPatch):
    """Fewer samples than features, a Hessian with a condition number of 1e5: next to no newcomer takes a refit."""
    rng = np.random.default_rng(3)
    n, d, k = 57, 1500, 10
    X = rng.standard_normal((n, 6)) @ rng.standard_normal((6, d)) + 0.03 * rng.standard_normal((n, d))
    objective = LinearModel(X, X[:, :6] @ rng.standard_normal(6) + 0.01 * rng.standard_normal(n), fit_intercept=True)
    newcomers, calls = [0], [0]
    by_kernel, added = SwapSearch._by_kernel, SwapSearch._added

    def counted_swaps(self, fit, some, most):
        calls[0] += 1
        newcomers[0] += len(some)
        return by_kernel(self, fit, some, most)

    def counted_additions(self, fit, some, *rest):
        calls[0] += 1
        newcomers[0] += some.size
        return added(self, fit, some, *rest)

    monkeypatch.setattr(SwapSearch, "_by_kernel", counted_swaps)
    monkeypatch.setattr(SwapSearch, "_added", counted_additions)
    found = best_subset(objective, k)
    assert found.swaps.examined == found.swaps.total == k * (d - k)
    assert found.additions is not None and found.additions.examined == found.additions.total == d - k
    assert newcomers[0] <= d // 50 and calls[0] <= 10
    assert found.n_refits <= 50


def test_what_leaving_a_feature_out_costs_is_bounded_where_the_whole_step_is_too_long():
    """Of the step x/K, of which ρ = 20, the part of which ρ is at most 1 is tried."""
    [cost] = _kernels.least_costs([20.0], np.eye(1), [1.0], 1.0)
    assert 0 < cost < 200
    assert cost == pytest.approx(max(400 * (t - factor_of(20 * t) * t**2) for t in STEPS / 20), rel=1e-9)


STEPS = np.array([1.0, 0.75, 0.5, 0.25, 0.1])


def factor_of(rho: float) -> float:
    return float(_kernels.self_concordant_factor(np.array([rho]))[0])


@pytest.mark.parametrize("concordance", [0.0, 1.0])
def test_the_kernel_of_gains_is_the_formula_at_every_length_of_the_step(concordance):
    rng = np.random.default_rng(0)
    d, size, i, psi, gap, x = 300, 7, 2, 0.6, 1e-14, 0.02
    root = rng.standard_normal((size, size))
    K, B = root @ root.T / 9 + np.eye(size), 0.3 * rng.standard_normal((d, size))
    gradient, left, error = 0.02 * rng.standard_normal(d), rng.uniform(0.2, 1, d), rng.uniform(0, 1e-9, d)
    magnitude, inside, j = rng.uniform(1, 20, d), rng.uniform(1, 5, size), np.arange(3, d, 2)
    fit = K[i], inside, B, gradient, left, magnitude, error
    bound = _kernels.bound_gains(i, x, *fit, concordance, psi, gap, j)
    expected = np.full(j.size, np.inf)
    own, across = K[i, i] + B[j, i] ** 2 / left[j], -B[j, i] / left[j]
    for fraction in (1.0, 0.75, 0.5, 0.25, 0.1) if concordance else (1.0,):
        e = fraction * (gradient[j] * across - x) / own
        moved = (e * B[j, i] + gradient[j]) / left[j]
        change = np.abs(np.outer(e, K[i]) + moved[:, None] * B[j]) @ inside + np.abs(moved) * magnitude[j]
        growth = e**2 * own - 2 * e * gradient[j] * across + gradient[j] ** 2 / left[j]
        gain = x * e + growth * _kernels.self_concordant_factor(concordance * change)
        whole = np.abs(x * e) + growth + psi
        expected = np.minimum(expected, gain + error[j] * whole + gap + 2 * np.sqrt(gap * (whole + psi)))
    assert np.array_equal(np.isinf(bound), np.isinf(expected)) and np.isfinite(bound).sum() > 50
    assert np.any(np.isinf(bound)) == (concordance > 0)
    finite = np.isfinite(bound)
    np.testing.assert_allclose(bound[finite], expected[finite], rtol=1e-12, atol=1e-15)
    with pytest.raises(ValueError, match="no such newcomer"):
        _kernels.bound_gains(i, x, *fit, concordance, psi, gap, np.array([d]))
    with pytest.raises(ValueError, match="do not fit"):
        _kernels.bound_gains(size, x, *fit, concordance, psi, gap, j)


def test_bounds_of_swaps_are_one_call_of_the_kernel_for_each_feature_of_the_fit(monkeypatch):
    calls, kernel = [], _kernels.bound_gains
    monkeypatch.setattr(_kernels, "bound_gains", lambda i, *rest: calls.append(i) or kernel(i, *rest))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 30))
    b = np.sign(X[:, :3].sum(axis=1) + rng.logistic(size=200))
    found = best_subset(LinearModel(X, b, "logistic"), 3)
    assert found.certificate.swaps.examined == found.certificate.swaps.total
    assert len(calls) % 3 == 0 and 0 < len(calls) <= 12
