"""Forward selection and backward elimination of many features: how many refits they take, and what they find."""

import numpy as np
import pytest
import scipy.sparse as sp

import levelprox.subset.forward as forward_selection
import levelprox.subset.starts as starts
from levelprox import LinearModel, best_subset
from levelprox.result import Status
from levelprox.subset.forward import features_per_refit, has_no_minimiser, in_order
from levelprox.subset.second_order import SetFits
from levelprox.subset.swap_bounds import MANY_FEATURES


def texts(n=1500, d=700, used=100, seed=0):
    """Return sparse counts whose labels depend on many words."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density=0.05, random_state=rng, format="csc")
    x = np.zeros(d)
    x[rng.choice(d, used, replace=False)] = rng.choice([-3.0, 3.0], used)
    b = np.where(X @ x + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return X, b


@pytest.fixture
def refits(monkeypatch):
    """Return the sizes of rough refits."""
    sizes, roughly = [], SetFits.roughly

    def watched(self, features, near):
        sizes.append(features.size)
        return roughly(self, features, near)

    monkeypatch.setattr(SetFits, "roughly", watched)
    return sizes


def test_refits_follow_each_feature_of_few_and_a_share_of_many():
    assert {features_per_refit(size) for size in range(MANY_FEATURES + 1)} == {1}
    assert features_per_refit(80) == 10 and features_per_refit(800) == 100


def test_many_features_take_few_refits(refits):
    X, b = texts()
    found = best_subset(LinearModel(X, b, "logistic", ridge=1e-4), 80)
    one_by_one = [size for size in refits if size <= MANY_FEATURES]
    assert found.status is Status.SOLVED and found.support.size == 80
    assert len(one_by_one) <= MANY_FEATURES and len(refits) <= MANY_FEATURES + 30
    assert found.n_refits <= 400


def test_many_features_are_as_good_as_with_a_refit_after_each(monkeypatch):
    X, b = texts()
    model = LinearModel(X, b, "logistic", ridge=1e-4)
    found = best_subset(model, 80)
    monkeypatch.setattr(forward_selection, "features_per_refit", lambda size: 1)
    assert found.psi <= best_subset(model, 80).psi * 1.03


def test_a_word_of_one_class_only_has_no_minimiser():
    X, b = texts(800, 450, 10)
    X = X.toarray()
    X[:, 3] = np.where(b > 0, X[:, 3], 0.0)
    model = LinearModel(X, b, "logistic")
    seen = {}

    def watched(fits, fit, j):
        seen[j] = has_no_minimiser(fits, fit, j)
        return seen[j]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward_selection, "has_no_minimiser", watched)
        found = best_subset(model, MANY_FEATURES + 10)
    assert seen[3] and not any(one_sided for j, one_sided in seen.items() if j != 3)
    assert found.support.size <= MANY_FEATURES + 10


def test_the_largest_are_in_order_and_ties_as_they_come():
    gain = np.array([1.0, 3.0, 2.0, 3.0, 2.0, -np.inf, 0.0])
    for count in range(1, 9):
        expected = np.argsort(-gain, kind="stable")[:count]
        np.testing.assert_array_equal(in_order(gain, count), expected)


def counts_with_rare_features(seed, n=6000, d=60):
    """Return samples shaped like w8a: binary features in groups that share samples, most of them rare."""
    rng = np.random.default_rng(seed)
    topics = rng.random((n, 8)) < 0.1
    belongs = rng.random((8, d)) < 0.3
    X = (rng.random((n, d)) < 0.02 + 0.3 * (topics @ belongs > 0)).astype(float)
    margins = -4.0 + X @ np.where(rng.random(d) < 0.4, rng.normal(0.0, 1.5, d), 0.0)
    return sp.csr_matrix(X), np.where(rng.random(n) < 1 / (1 + np.exp(-margins)), 1.0, -1.0)


def test_a_second_start_of_more_features_never_raises_the_loss(monkeypatch):
    lower = 0
    for seed in (0, 5, 7, 15):
        model = LinearModel(*counts_with_rare_features(seed), "logistic")
        found = best_subset(model, 10)
        with monkeypatch.context() as patch:
            patch.setattr(starts, "best_by_elimination", lambda *_: [])
            without = best_subset(model, 10)
        assert found.psi <= without.psi * (1 + 1e-9)
        assert found.n_refits <= 2.5 * without.n_refits
        lower += found.psi < without.psi * (1 - 1e-6)
    assert lower >= 1


def test_the_second_start_is_left_out_beyond_ten_features(monkeypatch):
    def none_left_out(*_, **__):
        raise AssertionError("features were left out")

    monkeypatch.setattr(starts, "least_useful", none_left_out)
    model = LinearModel(*counts_with_rare_features(0), "logistic")
    assert best_subset(model, 11).support.size == 11
    with pytest.raises(AssertionError, match="were left out"):
        best_subset(model, 6)


def test_the_second_start_ends_after_one_refit_where_the_model_leads_to_the_same_set(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 30))
    model = LinearModel(X, np.where(X[:, :5].sum(axis=1) + rng.logistic(size=400) > 0, 1.0, -1.0), "logistic")
    calls = []
    for name in ("least_useful", "eliminated_from", "_model"):
        original = getattr(starts, name)
        monkeypatch.setattr(starts, name, lambda *a, name=name, f=original, **k: calls.append(name) or f(*a, **k))
    with_it = best_subset(model, 5)
    assert calls.count("least_useful") == 1 and not calls.count("eliminated_from")
    assert calls.count("_model") == 4  # three for any k, and the one at the best fit, once
    monkeypatch.setattr(starts, "best_by_elimination", lambda *_: [])
    without = best_subset(model, 5)
    assert with_it.n_refits == without.n_refits + 1 and with_it.psi == without.psi
