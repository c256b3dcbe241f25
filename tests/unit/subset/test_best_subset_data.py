"""At most k features, for all options and all kinds of data: never more than k, never a false claim."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import Function, InvalidInputError, LinearModel, MultinomialModel, Status, best_subset
from levelprox.subset.local_search import Monitor
from tests.support.clocks import until
from tests.support.long_runs import LONG
from tests.support.subset_cases import LOSSES, Table, bits, check_subset, searched, solved, table

# --- k, kept features, signs --------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_no_feature_and_all_features(loss):
    whole = table(loss, n=60, d=5, intercept=True)
    nothing = solved(whole, 0)
    assert nothing.support.size == 0 and nothing.swaps.total == 0 and nothing.swaps.proved
    assert nothing.psi == pytest.approx(whole.psi(()), rel=1e-9)
    for k in (5, 6, 10**6):
        everything = solved(whole, k)
        assert everything.support.tolist() == list(range(5)) and everything.swaps.proved
        assert everything.psi == pytest.approx(whole.psi(range(5)), rel=1e-9)
        assert everything.multiplier == 0 and everything.addition is None


@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial"])
def test_kept_features_are_in_the_fit_and_never_count(loss):
    whole = table(loss, 8, n=40, d=7, intercept=True)
    expected = bits(best_subset(whole.objective, 2, keep=[6, 2]))
    found = solved(replace(whole, keep=(2, 6), known={}), 2)
    assert np.all(found.x.reshape(8, -1)[[2, 6]] != 0) and found.support.size == 2
    for keep in (np.isin(np.arange(7), [2, 6]), np.isin(np.arange(8), [2, 6]), np.array([2, 6, 6], np.uint8)):
        assert bits(best_subset(whole.objective, 2, keep=keep)) == expected
    assert bits(best_subset(whole.objective, 2, keep=[])) == bits(best_subset(whole.objective, 2))
    all_kept = check_subset(best_subset(whole.objective, 2, keep=np.arange(7)), whole.objective, 2, range(7))
    assert all_kept.support.size == 0 and all_kept.psi == pytest.approx(whole.psi(range(7)), rel=1e-9)


def nonnegative_psi(whole: Table, features) -> float:
    """The best of the fits over subsets whose coefficients have no wrong sign."""
    fits = (whole.refit(part) for r in range(len(features) + 1) for part in itertools.combinations(features, r))
    return min(psi for x, psi in fits if np.all(x >= 0))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_signs_hold_and_the_best_set_is_found(loss):
    whole = table(loss, 9, n=80, d=8)
    found = check_subset(best_subset(whole.objective, 3, nonnegative=True), whole.objective, 3)
    assert np.all(found.x >= 0) and found.stationarity <= 1e-6
    best = min(nonnegative_psi(whole, chosen) for chosen in itertools.combinations(range(8), 3))
    assert found.psi == pytest.approx(best, rel=1e-7)
    some = np.arange(8) % 2 == 0
    found = check_subset(best_subset(whole.objective, 3, nonnegative=some), whole.objective, 3)
    assert np.all(found.x[some] >= 0) and found.psi <= best * (1 + 1e-9)


# --- unusual data -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_copies_constants_and_zeros(loss):
    whole = table(loss, 10, n=60, d=5, intercept=True)
    X = np.column_stack([whole.X, whole.X[:, :2], np.ones(60), np.zeros(60), -2 * whole.X[:, 0]])
    odd = replace(whole, X=X, known={})
    found = check_subset(best_subset(odd.objective, 3), odd.objective, 3)
    assert found.status is Status.SOLVED
    assert found.psi == pytest.approx(whole.best(3)[1], rel=1e-7)
    everything = check_subset(best_subset(odd.objective, 10), odd.objective, 10)
    assert everything.psi == pytest.approx(whole.psi(range(5)), rel=1e-7)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_nearly_equal_columns_are_no_blind_spot(loss):
    """Columns that differ by a millionth, and the difference is what matters: what is proved is true all the same."""
    rng = np.random.default_rng(0)
    X, difference = rng.standard_normal((100, 10)), rng.standard_normal(100)
    X[:, 1] = X[:, 0] + 1e-6 * difference
    signal = 2 * difference + 0.5 * X[:, 5]
    b = signal + 0.3 * rng.standard_normal(100) if loss == "squared" else np.sign(signal + rng.logistic(size=100))
    whole = Table(X, b, loss)
    found = check_subset(best_subset(whole.objective, 2, prove=True), whole.objective, 2)
    for i, j in itertools.product(found.support, set(range(10)) - {*found.support}):
        better = best_subset(whole.objective, 0, keep=sorted({*found.support.tolist(), j} - {i})).psi
        assert better >= found.psi * (1 - 1e-8) or not found.swaps.proved


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_nothing_but_useless_columns(loss):
    for X in (np.zeros((20, 4)), np.ones((20, 4))):
        objective = LinearModel(X, np.resize([1.0, -1.0], 20), loss, fit_intercept=True)
        found = check_subset(best_subset(objective, 2), objective, 2)
        assert found.status is Status.SOLVED and found.psi == pytest.approx(
            objective.value_and_gradient(np.zeros(5))[0]
        )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("k", [1, 8])
def test_more_features_than_samples(loss, k):
    n, d = (10, 12) if loss == "multinomial" else (15, 60)
    whole = table(loss, 11, n=n, d=d, intercept=True)
    found = searched(whole.objective, k)
    separable = loss in ("logistic", "multinomial") and k == 8
    assert found.status is (Status.DIVERGING if separable else Status.SOLVED) and found.psi < whole.psi(())


def test_perfect_fits_leave_nothing_to_gain():
    X = np.random.default_rng(0).standard_normal((30, 12))
    objective = LinearModel(X, X[:, [2, 5]] @ [1.0, -2.0])
    for k in (2, 3, 5):
        found = check_subset(best_subset(objective, k), objective, k)
        assert found.psi <= 1e-9 * found.psi + 1e-12 and {2, 5} <= set(found.support.tolist())
        assert found.swaps.proved and found.multiplier == 0


@pytest.mark.cpu_budget(3, "searches among fits without a minimiser")
@pytest.mark.parametrize("model", ["logistic", "multinomial"])
def test_separable_data(model):
    """No minimiser, yet a set of k features, finite coefficients, and an end."""
    X = np.random.default_rng(0).standard_normal((40, 10))
    b = np.sign(X[:, 3] - 0.5 * X[:, 6])
    objective = LinearModel(X, b, "logistic") if model == "logistic" else MultinomialModel(X, b > 0)
    for k, status in ((1, Status.SOLVED), (2, Status.DIVERGING), (4, Status.DIVERGING)):
        found = searched(objective, k)
        assert found.psi < np.log(2) and found.status is status
    assert found.psi < 1e-3


# --- limits and bad input -----------------------------------------------------------------------------


def test_time_limits_leave_the_best_so_far(monkeypatch):
    """The clock runs out after so many checks."""
    whole = table("logistic", n=60, d=16, intercept=True)
    complete, null = solved(whole, 3), whole.psi(())
    values = []
    for looks in [*range(1, 60, 4), 10**6]:
        left = iter([1.0] * looks)
        monkeypatch.setattr(Monitor, "seconds_left", lambda self, left=left: next(left, 0.0))
        found = searched(whole.objective, 3)
        assert (found.status is Status.TIME_LIMIT) == (looks < 10**6)
        assert found.psi <= null * (1 + 1e-12)
        values.append(found.psi)
    assert values[-1] == complete.psi and values[0] > complete.psi and len(set(values)) > 2


@pytest.mark.usefixtures("processor_clock")
@pytest.mark.parametrize("limit", [0, 0.0, 1e-9, 0.01])
def test_short_time_limits(limit):
    whole = table("logistic", n=400, d=200, intercept=True)
    found = searched(whole.objective, 5, time_limit=limit, callback=until(limit))
    assert found.status is Status.TIME_LIMIT and not found.success and found.wall_s < 1.0
    assert "Stopped after time_limit" in found.message


class Interrupting(LinearModel):
    """A model in whose n-th evaluation Ctrl-C is pressed."""

    calls, at = 0, -1

    def gradient_of(self, z):
        kind = type(self)
        kind.calls += 1
        if kind.calls == kind.at:
            raise KeyboardInterrupt
        return super().gradient_of(z)


def test_ctrl_c_leaves_the_best_so_far():
    whole = table("logistic", n=60, d=16)
    objective = Interrupting(whole.X, whole.b, "logistic")
    Interrupting.calls, Interrupting.at = 0, -1
    complete, calls = best_subset(objective, 3), Interrupting.calls
    statuses = []
    for at in range(1, calls, max(1, calls // 12)):
        Interrupting.calls, Interrupting.at = 0, at
        found = check_subset(best_subset(objective, 3), objective, 3)
        statuses.append(found.status)
        assert found.psi >= complete.psi
    Interrupting.at = -1
    assert len(statuses) >= 10 and set(statuses) == {Status.INTERRUPTED}


GOOD = table(d=5).objective


@pytest.mark.parametrize(
    ("objective", "k", "options", "message"),
    [
        (table("logistic").objective.loss, 2, {}, "best_subset needs a LinearModel or MultinomialModel"),
        (Function(lambda x: (x @ x, 2 * x), 3), 1, {}, "best_subset needs a LinearModel"),
        (GOOD, -1, {}, "k must be an integer of at least 0, got -1"),
        (GOOD, 2.0, {}, "k must be an integer of at least 0, got 2.0"),
        (GOOD, True, {}, "k must be an integer"),
        (GOOD, "2", {}, "k must be an integer"),
        (GOOD, 2, {"keep": [5]}, r"keep must be within 0..4, got 5..5"),
        (GOOD, 2, {"keep": [-1, 2]}, r"keep must be within 0..4, got -1..2"),
        (GOOD, 2, {"keep": [0.5]}, "keep must be integers or booleans, got dtype float64"),
        (GOOD, 2, {"keep": [True, False]}, r"keep must be a list of features or a mask of all 5, got shape \(2,\)"),
        (GOOD, 2, {"keep": [[0, 1]]}, r"keep must be a list of features or a mask of all 5, got shape \(1, 2\)"),
        (GOOD, 2, {"start": [5]}, r"start must be within 0..4, got 5..5"),
        (GOOD, 2, {"start": [0.5]}, "start must be integers or booleans, got dtype float64"),
        (GOOD, 2, {"start": [True, False]}, r"start must be a list of features or a mask of all 5, got shape \(2,\)"),
        (GOOD, 2, {"max_iter": -1}, "max_iter must be an integer of at least 0, got -1"),
        (GOOD, 2, {"max_iter": 2.0}, "max_iter must be an integer"),
        (GOOD, 2, {"callback": 3}, "callback must be a function of a record, got 3"),
        (GOOD, 2, {"time_limit": "soon"}, "time_limit must be a real number"),
        (GOOD, 2, {"time_limit": float("nan")}, "time_limit must be a number, got NaN"),
        (GOOD, 2, {"tol": None}, "tol must be a real number"),
        (GOOD, 2, {"tol": -1.0}, "tol must be nonnegative"),
        (GOOD, 2, {"time_limit": -1.0}, "time_limit must be nonnegative"),
        (table("multinomial").objective, 2, {"nonnegative": True}, "nonnegative"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_bad_input_is_refused_with_its_name(objective, k, options, message):
    with pytest.raises(InvalidInputError, match=message):
        best_subset(objective, k, **options)


@given(
    loss=st.sampled_from(LOSSES),
    seed=st.integers(0, 10**6),
    n=st.integers(5, 30),
    d=st.integers(1, 12),
    k=st.integers(0, 13),
    size=st.floats(-2, 1).map(lambda e: 10.0**e),
    intercept=st.booleans(),
)
@settings(max_examples=400 if LONG else 25, deadline=None)
def test_never_more_than_k_features_and_never_above_the_null_fit(loss, seed, n, d, k, size, intercept):
    whole = table(loss, seed, n, d, size, intercept=intercept)
    objective = whole.objective
    found = searched(objective, k)
    assert found.status in (Status.SOLVED, Status.DIVERGING)
    assert found.psi <= searched(objective, 0).psi + 1e-12 * abs(found.psi)
