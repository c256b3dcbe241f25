"""partial_fit: the budget after every batch, better than no features on a drifting stream, and no partial updates."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss, mean_squared_error

from levelprox import InvalidInputError, SparseClassifier, SparseRegressor
from tests.support.estimator_cases import TASKS, estimator, is_multi_class, targets

K, BATCHES, SIZE, D = 3, 24, 120, 20


def drifting(task: str, seed: int = 0):
    """Batches whose first three features explain y, and in the second half three others; in units of their own."""
    rng = np.random.default_rng(seed)
    units, centers = 10.0 ** rng.uniform(-3, 3, D), rng.normal(size=D)
    for t in range(BATCHES):
        Z = rng.standard_normal((SIZE, D))
        y = targets(task, Z if t < BATCHES // 2 else np.roll(Z, -10, axis=1), rng, size=2.0)
        yield (Z + centers) * units, y


def begun(model, X, y):
    classes = {"classes": np.unique(y)} if isinstance(model, SparseClassifier) else {}
    return model.partial_fit(X, y, **classes)


@pytest.mark.parametrize("task", TASKS)
def test_the_budget_holds_after_every_batch_and_the_model_beats_one_without_features(task):
    model, nothing = (estimator(task, n_features=k, memory=600.0) for k in (K, 0))
    losses = []
    for X, y in drifting(task):
        if losses or hasattr(model, "coef_"):
            losses.append([one._mean_loss(X, y, None) for one in (model, nothing)])
        begun(model, X, y)
        begun(nothing, X, y)
        assert model.get_support().sum() <= K and nothing.get_support().sum() == 0
        assert np.all(np.isfinite(model.coef_)) and np.all(np.isfinite(model.intercept_))
        assert not hasattr(model, "certificate_")
    with_features, without = np.mean(losses, axis=0)
    assert with_features < without
    assert model.n_samples_seen_ == BATCHES * SIZE and model.n_iter_ == BATCHES and model.level_ == K


def test_features_that_all_matter_all_enter():
    rng, model = np.random.default_rng(1), SparseRegressor(n_features=8)
    for _ in range(10):
        X = rng.standard_normal((200, 8))
        model.partial_fit(X, X.sum(axis=1) + 0.1 * rng.standard_normal(200))
    assert model.get_support().sum() == 8


def test_a_pass_over_data_in_batches_is_nearly_as_good_as_a_fit():
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(0).permutation(y.size)
    model = SparseClassifier(n_features=3)
    for part in np.array_split(rows, 6):
        model.partial_fit(X[part], y[part], classes=[0, 1])
    fit = SparseClassifier(n_features=3).fit(X, y)
    assert log_loss(y, model.predict_proba(X)) < 1.5 * log_loss(y, fit.predict_proba(X))


def test_a_stationary_stream_approaches_the_fit_of_all_data():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((4000, 30)) * 5 + 2
    y = X[:, [3, 7, 11]] @ [1.0, -0.5, 0.25] + rng.standard_normal(4000)
    model = SparseRegressor(n_features=3)
    for part in np.array_split(np.arange(4000), 20):
        model.partial_fit(X[part], y[part])
    fit = SparseRegressor(n_features=3).fit(X, y)
    assert model.selected_features_.tolist() == fit.selected_features_.tolist() == [3, 7, 11]
    assert mean_squared_error(y, model.predict(X)) <= 1.001 * mean_squared_error(y, fit.predict(X))


@pytest.mark.parametrize("task", ["logistic", "squared", "softmax"])
def test_sparse_batches_float32_weights_and_pickles(task):
    (X, y), (X2, y2), *_ = drifting(task)
    X, X2 = (np.where(np.abs(part) > np.median(np.abs(part), axis=0), part, 0.0) for part in (X, X2))
    dense, sparse = estimator(task, n_features=K), estimator(task, n_features=K)
    begun(dense, X, y).partial_fit(X2, y2)
    begun(sparse, scipy.sparse.csr_array(X), y).partial_fit(scipy.sparse.csc_matrix(X2), y2)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-6, atol=1e-9 * np.max(np.abs(dense.coef_)))
    again = pickle.loads(pickle.dumps(dense))
    assert np.array_equal(dense.partial_fit(X, y).coef_, again.partial_fit(X, y).coef_)
    assert begun(estimator(task, n_features=K), X.astype(np.float32), y).coef_.dtype == np.float32
    weighted, repeated = (estimator(task, n_features=K) for _ in range(2))
    weight = np.random.default_rng(0).integers(0, 3, y.size)
    weight[:6] = 1
    options = {"classes": np.unique(y)} if isinstance(weighted, SparseClassifier) else {}
    weighted.partial_fit(X, y, sample_weight=weight, **options)
    begun(repeated, np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-5, atol=1e-8 * np.max(np.abs(repeated.coef_)))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"n_features": 2}, "n_features=3, now it is 2"), ({"standardize": False}, "standardize=True, now it is False")],
)
def test_parameters_of_a_stream_do_not_change(change, message):
    X, y = next(drifting("squared"))
    model = begun(SparseRegressor(n_features=3), X, y)
    with pytest.raises(InvalidInputError, match=message):
        model.set_params(**change).partial_fit(X, y)


def test_a_batch_that_is_refused_changes_nothing():
    X, y = next(drifting("logistic"))
    model = begun(SparseClassifier(n_features=3), X, y)
    before = pickle.dumps(model.__dict__)
    for bad, target, message in (
        (np.where(np.arange(D) == 4, np.nan, X), y, "column 4"),
        (X[:, :5], y, "features"),
        (X, np.full(SIZE, 7), "the class 7"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(bad, target)
        assert pickle.dumps(model.__dict__) == before


def test_classes_come_first_and_one_of_them_may_be_missing_from_a_batch():
    X, y = next(drifting("softmax"))
    with pytest.raises(InvalidInputError, match="classes must be given"):
        SparseClassifier(n_features=3).partial_fit(X, y)
    model = SparseClassifier(n_features=3).partial_fit(X, y, classes=["a", "b", "c"])
    model.partial_fit(X[y == "a"], y[y == "a"])
    assert model.coef_.shape == (3, D) and is_multi_class("softmax")
    with pytest.raises(InvalidInputError, match="not those of before"):
        model.partial_fit(X, y, classes=["a", "b"])
    with pytest.raises(InvalidInputError, match="balanced"):
        SparseClassifier(n_features=3, class_weight="balanced").partial_fit(X, y, classes=["a", "b", "c"])


def test_a_level_pays_for_whole_features_where_it_has_a_cap():
    X, y = next(drifting("squared"))
    assert begun(SparseRegressor(level=np.float64(2.5)), X, y).get_support().sum() <= 2
    assert not hasattr(SparseRegressor(level=2.5, constraint="l1"), "partial_fit")
