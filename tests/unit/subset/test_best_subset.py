"""At most k features: as good as exhaustive search where that is known, and reproducible."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import threadpool_limits

from levelprox import LinearModel, best_subset
from levelprox.designs import ScaledDesign
from levelprox.subset import smooth_search as search
from levelprox.subset import swaps
from tests.support.long_runs import LONG
from tests.support.subset_cases import LOSSES, bits, check_subset, solved, table, weighted

# --- against exhaustive search ------------------------------------------------------------------------


def test_squared_loss_equals_exhaustive_search():
    """On at least 95 % of all problems, and never below it."""
    exact, problems = 0, range(40 if LONG else 10)
    for seed in problems:
        whole = table(seed=seed, n=30, d=9, size=[0.2, 0.7, 2.0][seed % 3], intercept=seed % 2 == 0)
        k = 2 + seed % 3
        found, (best, psi) = solved(whole, k), whole.best(k)
        assert found.psi >= psi * (1 - 1e-12)
        exact += found.psi <= psi * (1 + 1e-9) and found.support.tolist() == list(best)
    assert exact >= 0.95 * len(problems)


@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma", "multinomial"])
def test_other_losses_equal_exhaustive_search(loss):
    exact = 0
    for seed in range(5):
        whole = table(loss, seed, n=60, d=5 if loss == "multinomial" else 6, size=0.6, intercept=seed % 2 == 0)
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
    places = sorted({*best, *whole.unpenalized})
    np.testing.assert_allclose(found.x.reshape(-1, whole.n_outputs)[places], x, atol=1e-5)


def test_coefficients_of_the_classes_of_a_feature_add_up_to_zero():
    """The shortest of all that give the same margins up to a shift; two classes are as good as logistic."""
    whole = table("multinomial", n=80, d=9, size=1.0, intercept=True)
    assert np.allclose(solved(whole, 3).x.reshape(-1, 3).sum(axis=1), 0, atol=1e-9)
    two = table("logistic", n=80, d=20, intercept=True)  # so few samples that both begin alike
    found, expected = solved(replace(two, loss="multinomial", known={}), 3), solved(two, 3)
    assert np.allclose(found.x.reshape(-1, 2), np.outer(expected.x, [-0.5, 0.5]), atol=1e-6)
    assert np.array_equal(found.support, expected.support) and found.n_refits <= 3 * expected.n_refits


# --- what is said of swaps and additions ----------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_proofs_are_true(loss):
    """No swap lowers ψ: each one refitted."""
    for seed in range(2):
        whole = table(loss, seed, n=50, d=6, size=0.5, intercept=True)
        found = solved(whole, 3, prove=True)
        assert found.swaps.proved and found.swaps.total == found.support.size * (6 - found.support.size)
        assert "any of the 9 swaps" in str(found.swaps)
        for i, j in itertools.product(found.support, set(range(6)) - {*found.support}):
            assert whole.psi({*found.support, j} - {i}) >= found.psi - 1e-8 * abs(found.psi)


def almost_equal(seed, apart, n=60):
    """Three columns, and again with a little added: their differences matter as much as they do."""
    rng = np.random.default_rng(seed)
    base, difference = rng.standard_normal((n, 3)), rng.standard_normal((n, 3))
    near, others = difference + rng.standard_normal((n, 3)), rng.standard_normal((n, 3))
    signal = difference @ rng.standard_normal(3) + 0.5 * near @ rng.standard_normal(3) + 0.3 * rng.standard_normal(n)
    return np.column_stack([base, base + apart * difference, near, others]), signal + 2 * base @ rng.standard_normal(3)


@pytest.mark.parametrize("seed", [187, 199, 283])
def test_proofs_are_true_of_columns_that_are_almost_equal(seed):
    """To the digits that a gradient as small as tol leaves where columns are so near."""
    X, b = almost_equal(seed, 8e-6)
    found = best_subset(LinearModel(X, b), 3, prove=True)
    assert found.swaps.proved
    inside = set(found.support.tolist())
    for i, j in itertools.product(inside, set(range(12)) - inside):
        columns = X[:, sorted({*inside, j} - {i})]
        left = b - columns @ np.linalg.lstsq(columns, b, rcond=1e-15)[0]
        assert np.mean(left**2) >= found.psi * (1 - 1e-3)


@pytest.mark.parametrize("seed", [3, 17])
def test_columns_that_are_almost_equal_overflow_nothing(seed):
    """Steps along which hardly anything bends are long; warnings are errors here."""
    X, signal = almost_equal(seed, 3e-5)
    b = np.where(0.3 * signal + np.random.default_rng(seed).logistic(size=60) > 0, 1.0, -1.0)
    assert best_subset(LinearModel(X, b, "logistic"), 3, prove=True).success


def test_fewer_tries_are_not_called_a_proof(monkeypatch):
    """Where refits are few and bounds rule nothing out, the rest is not said to be examined."""
    whole = table("logistic", n=40, d=20, size=1.0)
    monkeypatch.setattr(swaps.SwapSearch, "has_bounds", lambda self: False)
    monkeypatch.setattr(swaps, "_TOP_SWAPS", 5)
    monkeypatch.setattr(swaps, "_REFIT_WORK", 0)
    found = solved(whole, 4)
    assert 0 < found.swaps.examined < found.swaps.total == 64 and not found.swaps.proved
    assert f"any of the {found.swaps.examined} examined of 64" in found.message
    assert solved(whole, 4, prove=True).swaps.proved


def test_a_search_without_swaps_is_detected(monkeypatch):
    """The test of proofs can fail: a search that improves nothing and tries nothing proves nothing."""
    monkeypatch.setattr(swaps.SwapSearch, "improved", lambda self, fit: fit)
    monkeypatch.setattr(swaps.SwapSearch, "_examine", lambda self, fit: (self.problem.count_swaps(fit.features), None))
    monkeypatch.setattr(search.SmoothSearch, "_starts", lambda self: iter([self.swaps.fitted(np.array([3, 4, 5]))]))
    monkeypatch.setattr(search.SmoothSearch, "_takes_in", lambda self, addition: False)
    with pytest.raises(AssertionError):
        test_proofs_are_true("squared")


@pytest.mark.parametrize("loss", LOSSES)
def test_the_multiplier_is_what_the_addition_gains(loss):
    whole = weighted(table(loss, 1, n=60, d=6, intercept=True, keep=(5,)))
    for k in (0, 1, 3):
        found = solved(whole, k)
        gains = {j: found.psi - whole.psi({*found.support, j}) for j in whole.counted if j not in found.support}
        assert found.multiplier == pytest.approx(gains[found.addition], rel=1e-5, abs=1e-9 * abs(found.psi))
        assert found.multiplier >= max(gains.values()) - 1e-7 * abs(found.psi)


def test_more_features_are_never_worse():
    whole = table("logistic", n=60, d=7, intercept=True)
    values = [solved(whole, k).psi for k in range(8)]
    assert all(b <= a for a, b in itertools.pairwise(values))


# --- the same answer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial"])
def test_answers_depend_neither_on_other_calls_nor_on_threads(loss):
    objective = table(loss, 2, n=100, d=8, intercept=True).objective
    first = bits(best_subset(objective, 3))
    for k in (1, 4):
        best_subset(objective, k)
    assert bits(best_subset(objective, 3)) == first
    for threads in (1, 2):
        with threadpool_limits(threads):
            assert bits(best_subset(objective, 3)) == first
    assert bits(best_subset(pickle.loads(pickle.dumps(objective)), 3)) == first


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_every_storage_gives_the_same_set(loss):
    whole = table(loss, 4, n=80, d=9, intercept=True)
    X = np.where(np.abs(whole.X) > 0.5, whole.X, 0.0)
    expected = solved(replace(whole, X=X), 3)
    storages = [np.asfortranarray, scipy.sparse.csr_array, scipy.sparse.csc_array, scipy.sparse.coo_array]
    for storage in storages:
        objective = LinearModel(storage(X), whole.b, loss, fit_intercept=True)
        found = check_subset(best_subset(objective, 3), objective, 3)
        assert np.array_equal(found.support, expected.support)
        assert found.psi == pytest.approx(expected.psi, rel=1e-10)
        assert found.multiplier == pytest.approx(expected.multiplier, rel=1e-6)
    single = X.astype(np.float32)
    rounded = solved(replace(whole, X=single.astype(np.float64)), 3)
    for storage in (np.ascontiguousarray, scipy.sparse.csr_array, scipy.sparse.csc_array):
        found = best_subset(LinearModel(storage(single), whole.b, loss, fit_intercept=True), 3)
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


@pytest.mark.parametrize("loss", LOSSES)
def test_far_units_cost_nothing_and_prove_the_same(loss):
    """Powers of two round nothing: every bound and every estimate must say what it says in other units."""
    whole = table(loss, 6, n=60, d=7, intercept=True)
    expected = solved(whole, 3, prove=True)
    for exponent in (-400, -100, -30, 30, 100, 400):
        X = whole.X * np.where(np.arange(7) % 2, 2.0**exponent, 1.0)
        found = solved(replace(whole, X=X, known={}), 3, prove=True)
        assert np.array_equal(found.support, expected.support) and found.swaps == expected.swaps
        if loss != "multinomial":  # whose contrasts round
            # Columns in far units are standardised by powers of two, which rounds other products than those in units
            # of 1.
            assert found.psi == pytest.approx(expected.psi, rel=1e-12)
            assert found.n_refits <= 1.2 * expected.n_refits and found.n_grad <= 1.2 * expected.n_grad


def test_scaled_designs():
    whole = table("logistic", 7, n=80, d=12)
    design = ScaledDesign.standardized(scipy.sparse.csr_array(whole.X))
    objective = LinearModel(design, whole.b, "logistic", fit_intercept=True)
    found = check_subset(best_subset(objective, 3), objective, 3)
    expected = solved(replace(whole, intercept=True), 3)
    assert np.array_equal(found.support, expected.support)
    assert found.psi == pytest.approx(expected.psi, rel=1e-9)
