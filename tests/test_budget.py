"""At most k features: as good as exhaustive search where that can be known, and never more than it says."""

from __future__ import annotations

import itertools
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from levelprox import (
    Function,
    InvalidInputError,
    LinearModel,
    MultinomialModel,
    Status,
    Subset,
    best_subset,
    budget,
    swaps,
)
from levelprox.designs import ScaledDesign
from levelprox.objectives import Model
from tests.subset_cases import Table, table, weighted

LONG = bool(os.environ.get("LEVELPROX_LONG_TESTS"))
LOSSES = ["squared", "logistic", "poisson", "gamma", "multinomial"]


def check_subset(found: Subset, objective: Model, k: int, kept=()) -> Subset:
    """What is promised whatever the data are."""
    width, exempt = objective.width, {*map(int, kept), *objective.exempt.tolist()}
    sizes = np.abs(found.x).reshape(-1, width).max(axis=1)
    counted = np.array([j for j in np.flatnonzero(sizes) if j not in exempt], int)
    assert np.array_equal(found.support, counted) and counted.size <= k == found.k
    assert np.all(np.isfinite(found.x))
    assert found.psi == objective.value_and_gradient(found.x)[0]
    assert 0 <= found.exchanges.examined <= found.exchanges.total
    assert found.exchanges.proved == (found.exchanges.examined == found.exchanges.total)
    assert found.multiplier >= 0 and (found.addition is None) == (found.multiplier == 0)
    assert found.addition is None or (sizes[found.addition] == 0 and found.addition not in exempt)
    assert found.success == (found.status is Status.SOLVED) and str(found.exchanges) in found.message
    return found


def solved(whole: Table, k: int, **options) -> Subset:
    """The subset of a table, which must be found and be well fitted."""
    keep = {"keep": list(whole.keep)} if whole.keep else {}
    found = check_subset(best_subset(whole.objective, k, **keep, **options), whole.objective, k, whole.keep)
    assert found.status is Status.SOLVED and found.stationarity <= 1e-6
    return found


# --- against exhaustive search ------------------------------------------------------------------------


def test_squared_loss_equals_exhaustive_search():
    """On at least 95 % of 40 problems, and never below it."""
    exact = 0
    for seed in range(40):
        whole = table(seed=seed, n=30, d=9, size=[0.2, 0.7, 2.0][seed % 3], intercept=seed % 2 == 0)
        k = 2 + seed % 3
        found, (best, psi) = solved(whole, k), whole.best(k)
        assert found.psi >= psi * (1 - 1e-12)
        exact += found.psi <= psi * (1 + 1e-9) and found.support.tolist() == list(best)
    assert exact >= 38


@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma", "multinomial"])
def test_other_losses_equal_exhaustive_search(loss):
    exact = 0
    for seed in range(5):
        whole = table(loss, seed, n=60, d=7, size=0.6, intercept=seed % 2 == 0)
        found, (best, psi) = solved(whole, 3), whole.best(3)
        assert found.psi >= psi - 1e-9 * abs(psi)
        exact += found.psi <= psi + 1e-8 * abs(psi) and found.support.tolist() == list(best)
    assert exact >= 4


@pytest.mark.parametrize("loss", LOSSES)
def test_with_weights_offsets_intercept_and_kept_features(loss):
    whole = weighted(table(loss, 3, n=60, d=7, intercept=True, keep=(4,)))
    found, (best, psi) = solved(whole, 2), whole.best(2)
    assert found.psi == pytest.approx(psi, rel=1e-8) and found.support.tolist() == list(best)
    x, _ = whole.refit(best)
    places = sorted({*best, *whole.exempt})
    np.testing.assert_allclose(found.x.reshape(-1, whole.width)[places], x, atol=1e-5)


def test_coefficients_of_the_classes_of_a_feature_add_up_to_zero():
    """The shortest of all that give the same margins but for a shift; two classes are as good as logistic."""
    whole = table("multinomial", n=80, d=9, size=1.0, intercept=True)
    assert np.allclose(solved(whole, 3).x.reshape(-1, 3).sum(axis=1), 0, atol=1e-9)
    two = table("logistic", n=80, d=9, intercept=True)
    found, expected = solved(replace(two, loss="multinomial", known={}), 3), solved(two, 3)
    assert np.allclose(found.x.reshape(-1, 2), np.outer(expected.x, [-0.5, 0.5]), atol=1e-6)
    assert np.array_equal(found.support, expected.support) and found.n_refits <= 2 * expected.n_refits


# --- what is said of exchanges and additions ----------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_proved_is_true(loss):
    """No exchange lowers ψ: each one refitted."""
    for seed in range(3):
        whole = table(loss, seed, n=50, d=8, size=0.5, intercept=True)
        found = solved(whole, 3, prove=True)
        assert found.exchanges.proved and found.exchanges.total == found.support.size * (8 - found.support.size)
        assert "any of the 15 exchanges" in str(found.exchanges)
        for i, j in itertools.product(found.support, set(range(8)) - {*found.support}):
            assert whole.psi({*found.support, j} - {i}) >= found.psi - 1e-8 * abs(found.psi)


def test_fewer_tries_are_not_called_a_proof(monkeypatch):
    """Where refits are few and bounds rule nothing out, the rest is not said to be examined."""
    whole = table("logistic", n=40, d=20, size=1.0)
    monkeypatch.setattr(budget.Swaps, "has_bounds", lambda self: False)
    monkeypatch.setattr(swaps, "_TOP", 5)
    monkeypatch.setattr(swaps, "_WORK", 0)
    found = solved(whole, 4)
    assert 0 < found.exchanges.examined < found.exchanges.total == 64 and not found.exchanges.proved
    assert f"the {found.exchanges.examined} most promising of 64" in found.message
    assert solved(whole, 4, prove=True).exchanges.proved


def test_one_who_does_not_look_is_caught(monkeypatch):
    """The test of proofs can fail: a search that improves nothing and tries nothing proves nothing."""
    monkeypatch.setattr(budget.Swaps, "improved", lambda self, fit: fit)
    monkeypatch.setattr(budget.Swaps, "_examine", lambda self, fit: (self.total(fit), None))
    monkeypatch.setattr(budget._Search, "_starts", lambda self: iter([self.swaps.fitted(np.array([5, 6, 7]))]))
    with pytest.raises(AssertionError):
        test_what_is_proved_is_true("squared")


@pytest.mark.parametrize("loss", LOSSES)
def test_the_multiplier_is_what_the_addition_gains(loss):
    whole = weighted(table(loss, 1, n=60, d=8, intercept=True, keep=(7,)))
    for k in (0, 1, 3):
        found = solved(whole, k)
        gains = {j: found.psi - whole.psi({*found.support, j}) for j in whole.counted if j not in found.support}
        assert found.multiplier == pytest.approx(gains[found.addition], rel=1e-5, abs=1e-9 * abs(found.psi))
        assert found.multiplier >= max(gains.values()) - 1e-7 * abs(found.psi)


def test_more_features_are_never_worse():
    whole = table("logistic", n=60, d=12, intercept=True)
    values = [solved(whole, k).psi for k in range(13)]
    assert all(b <= a for a, b in itertools.pairwise(values))


# --- the same answer ----------------------------------------------------------------------------------


def bits(found: Subset):
    return found.x.tobytes(), found.psi, found.multiplier, found.addition, found.exchanges, found.n_refits, found.n_grad


@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial"])
def test_it_does_not_depend_on_other_calls_nor_on_threads(loss):
    objective = table(loss, 2, n=100, d=20, intercept=True).objective
    first = bits(best_subset(objective, 3))
    for k in (1, 4, 2):
        best_subset(objective, k)
    assert bits(best_subset(objective, 3)) == first
    for threads in (1, 2):
        with threadpool_limits(threads):
            assert bits(best_subset(objective, 3)) == first
    assert bits(best_subset(pickle.loads(pickle.dumps(objective)), 3)) == first


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_every_storage_gives_the_same_set(loss):
    whole = table(loss, 4, n=80, d=15, intercept=True)
    X = np.where(np.abs(whole.X) > 0.5, whole.X, 0.0)
    expected = solved(replace(whole, X=X), 4)
    storages = [np.asfortranarray, scipy.sparse.csr_array, scipy.sparse.csc_array, scipy.sparse.coo_array]
    for storage in storages:
        objective = LinearModel(storage(X), whole.b, loss, fit_intercept=True)
        found = check_subset(best_subset(objective, 4), objective, 4)
        assert np.array_equal(found.support, expected.support)
        assert found.psi == pytest.approx(expected.psi, rel=1e-10)
        assert found.multiplier == pytest.approx(expected.multiplier, rel=1e-6)
    single = X.astype(np.float32)
    rounded = solved(replace(whole, X=single.astype(np.float64)), 4)
    for storage in (np.ascontiguousarray, scipy.sparse.csr_array, scipy.sparse.csc_array):
        found = best_subset(LinearModel(storage(single), whole.b, loss, fit_intercept=True), 4)
        assert np.array_equal(found.support, rounded.support)
        assert found.psi == pytest.approx(rounded.psi, rel=1e-10)


@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial"])
def test_order_and_signs_of_columns_do_not_matter(loss):
    whole = table(loss, 5, n=80, d=12)
    expected = solved(whole, 3)
    rng = np.random.default_rng(0)
    order, signs = rng.permutation(12), rng.choice([-1.0, 1.0], 12)
    found = solved(replace(whole, X=(whole.X * signs)[:, order], known={}), 3)
    assert np.array_equal(np.sort(order[found.support]), expected.support)
    assert found.psi == pytest.approx(expected.psi, rel=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("spread", [3, 6])
def test_units_of_columns_do_not_matter(loss, spread):
    """Columns times 10**-spread … 10**spread."""
    whole = table(loss, 6, n=80, d=10, intercept=True)
    expected = solved(whole, 3)
    scale = 10.0 ** np.linspace(-spread, spread, 10)[np.random.default_rng(1).permutation(10)]
    scaled = replace(whole, X=whole.X * scale, known={})
    found = check_subset(best_subset(scaled.objective, 3), scaled.objective, 3)
    assert np.array_equal(found.support, expected.support)
    assert found.psi == pytest.approx(expected.psi, rel=1e-6)


def test_scaled_designs():
    whole = table("logistic", 7, n=80, d=12)
    design = ScaledDesign.standardized(scipy.sparse.csr_array(whole.X))
    objective = LinearModel(design, whole.b, "logistic", fit_intercept=True)
    found = check_subset(best_subset(objective, 3), objective, 3)
    expected = solved(replace(whole, intercept=True), 3)
    assert np.array_equal(found.support, expected.support)
    assert found.psi == pytest.approx(expected.psi, rel=1e-9)


# --- k, kept features, signs --------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_none_and_all(loss):
    whole = table(loss, n=60, d=5, intercept=True)
    nothing = solved(whole, 0)
    assert nothing.support.size == 0 and nothing.exchanges.total == 0 and nothing.exchanges.proved
    assert nothing.psi == pytest.approx(whole.psi(()), rel=1e-9)
    for k in (5, 6, 10**6):
        everything = solved(whole, k)
        assert everything.support.tolist() == list(range(5)) and everything.exchanges.proved
        assert everything.psi == pytest.approx(whole.psi(range(5)), rel=1e-9)
        assert everything.multiplier == 0 and everything.addition is None


@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial"])
def test_kept_features_are_in_the_fit_and_never_count(loss):
    whole = table(loss, 8, n=60, d=8, intercept=True)
    expected = bits(best_subset(whole.objective, 2, keep=[6, 2]))
    found = solved(replace(whole, keep=(2, 6), known={}), 2)
    assert np.all(found.x.reshape(9, -1)[[2, 6]] != 0) and found.support.size == 2
    for keep in (np.isin(np.arange(8), [2, 6]), np.isin(np.arange(9), [2, 6]), (2, 6), np.array([2, 6, 6], np.uint8)):
        assert bits(best_subset(whole.objective, 2, keep=keep)) == expected
    assert bits(best_subset(whole.objective, 2, keep=[])) == bits(best_subset(whole.objective, 2))
    all_kept = check_subset(best_subset(whole.objective, 2, keep=np.arange(8)), whole.objective, 2, range(8))
    assert all_kept.support.size == 0 and all_kept.psi == pytest.approx(whole.psi(range(8)), rel=1e-9)


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
    """Columns that differ by a millionth, and it is the difference that matters: what is proved is true."""
    rng = np.random.default_rng(0)
    X, difference = rng.standard_normal((100, 10)), rng.standard_normal(100)
    X[:, 1] = X[:, 0] + 1e-6 * difference
    signal = 2 * difference + 0.5 * X[:, 5]
    b = signal + 0.3 * rng.standard_normal(100) if loss == "squared" else np.sign(signal + rng.logistic(size=100))
    whole = Table(X, b, loss)
    found = check_subset(best_subset(whole.objective, 2, prove=True), whole.objective, 2)
    for i, j in itertools.product(found.support, set(range(10)) - {*found.support}):
        better = best_subset(whole.objective, 0, keep=sorted({*found.support.tolist(), j} - {i})).psi
        assert better >= found.psi * (1 - 1e-8) or not found.exchanges.proved


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_nothing_but_useless_columns(loss):
    for X in (np.zeros((20, 4)), np.ones((20, 4))):
        objective = LinearModel(X, np.resize([1.0, -1.0], 20), loss, fit_intercept=True)
        found = check_subset(best_subset(objective, 2), objective, 2)
        assert found.status is Status.SOLVED and found.psi == pytest.approx(
            objective.value_and_gradient(np.zeros(5))[0]
        )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("k", [1, 3, 8, 12])
def test_more_features_than_samples(loss, k):
    whole = table(loss, 11, n=15, d=60, intercept=True)
    found = check_subset(best_subset(whole.objective, k), whole.objective, k)
    assert found.success and found.psi < whole.psi(())


def test_perfect_fits_leave_nothing_to_gain():
    X = np.random.default_rng(0).standard_normal((30, 12))
    objective = LinearModel(X, X[:, [2, 5]] @ [1.0, -2.0])
    for k in (2, 3, 5):
        found = check_subset(best_subset(objective, k), objective, k)
        assert found.psi <= 1e-9 * found.psi + 1e-12 and {2, 5} <= set(found.support.tolist())
        assert found.exchanges.proved and found.multiplier == 0


@pytest.mark.parametrize("model", ["logistic", "multinomial"])
def test_separable_data(model):
    """No minimiser, yet a set of k features, finite coefficients, and an end."""
    X = np.random.default_rng(0).standard_normal((40, 10))
    b = np.sign(X[:, 3] - 0.5 * X[:, 6])
    objective = LinearModel(X, b, "logistic") if model == "logistic" else MultinomialModel(X, b > 0)
    for k in (1, 2, 4):
        found = check_subset(best_subset(objective, k), objective, k)
        assert found.psi < np.log(2)
    assert found.psi < 1e-3


# --- limits and bad input -----------------------------------------------------------------------------


def test_time_limits_leave_the_best_so_far(monkeypatch):
    """The clock runs out after so many looks at it."""
    whole = table("logistic", n=60, d=12, intercept=True)
    complete, null = solved(whole, 3), whole.psi(())
    values = []
    for looks in [*range(1, 60, 4), 10**6]:
        left = iter([1.0] * looks)
        monkeypatch.setattr(budget._Search, "_left", lambda self, left=left: next(left, 0.0))
        found = check_subset(best_subset(whole.objective, 3), whole.objective, 3)
        assert (found.status is Status.TIME_LIMIT) == (looks < 10**6)
        assert found.psi <= null * (1 + 1e-12)
        values.append(found.psi)
    assert values[-1] == complete.psi and values[0] > complete.psi and len(set(values)) > 2


@pytest.mark.parametrize("limit", [0, 0.0, 1e-9, 0.01])
def test_short_time_limits(limit):
    whole = table("logistic", n=400, d=200, intercept=True)
    found = check_subset(best_subset(whole.objective, 5, time_limit=limit), whole.objective, 5)
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
    whole = table("logistic", n=60, d=12)
    objective = Interrupting(whole.X, whole.b, "logistic")
    Interrupting.calls, Interrupting.at = 0, -1
    complete, calls = best_subset(objective, 3), Interrupting.calls
    statuses = []
    for at in range(1, calls, max(1, calls // 25)):
        Interrupting.calls, Interrupting.at = 0, at
        found = check_subset(best_subset(objective, 3), objective, 3)
        statuses.append(found.status)
        assert found.psi >= complete.psi
    Interrupting.at = -1
    assert len(statuses) >= 20 and set(statuses) == {Status.INTERRUPTED}


GOOD = table(d=5).objective


@pytest.mark.parametrize(
    ("objective", "k", "options", "message"),
    [
        (table("logistic").objective.loss, 2, {}, "best_subset needs a LinearModel or MultinomialModel"),
        (LinearModel(np.eye(2), [1, -1], "hinge"), 1, {}, "with a differentiable loss; for others, solve with"),
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
@settings(max_examples=400 if LONG else 40, deadline=None)
def test_never_more_than_k_features_and_never_above_the_null_fit(loss, seed, n, d, k, size, intercept):
    whole = table(loss, seed, n, d, size, intercept=intercept)
    objective = whole.objective
    found = check_subset(best_subset(objective, k), objective, k)
    assert found.success
    assert found.psi <= best_subset(objective, 0).psi + 1e-12 * abs(found.psi)
