"""Estimators inside scikit-learn: searches, pipelines, meta-estimators, routing, copies and labels."""

from __future__ import annotations

import copy
import io
import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV
from tests.support.estimator_cases import TASKS, bits, estimator, fitted, psi, targets

EVERY = [SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV]


def data(task: str = "squared", seed: int = 0, n: int = 100, d: int = 6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, targets(task, X, rng, size=2.0)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize("kind", EVERY)
def test_tags_and_types(kind):
    assert is_classifier(kind()) == ("Classifier" in kind.__name__) != is_regressor(kind())


# --- searches and pipelines


@pytest.mark.parametrize(
    "model", [SparseClassifier(n_features=3), SparseClassifierCV(n_features=[2, 3], cv=2)], ids=str
)
def test_cross_validation_of_sorted_classes_is_stratified(model):
    X, y = data("logistic")
    order = np.argsort(y, kind="stable")
    assert cross_val_score(model, X[order], y[order], cv=3).min() > 0.7


@pytest.mark.parametrize(
    "grid",
    [
        {"model__n_features": [0, 1, 3]},
        {"model__loss": ["squared", "huber"], "model__n_features": [3]},
        {"model__constraint": ["l1", "mcp", "scad"], "model__level": [0.1, 2.5]},
    ],
    ids=str,
)
def test_a_search_over_the_parameters_of_a_step(grid):
    X, y = data()
    steps = sklearn.pipeline.Pipeline([("scale", StandardScaler()), ("model", SparseRegressor())])
    search = GridSearchCV(steps, grid, cv=3).fit(X, y)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert search.best_score_ > 0.6
    assert search.best_params_.items() <= search.best_estimator_.get_params().items()


def frame():
    X, y = data()
    table = pd.DataFrame(X[:, :4], columns=["age", "dose", "time", "noise"])
    table["town"] = np.where(X[:, 4] > 0, "north", "south")
    return table, y


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_names_go_through_a_pipeline(container):
    table, y = frame()
    columns = ColumnTransformer(
        [
            ("number", StandardScaler(), ["age", "dose", "time", "noise"]),
            ("town", OneHotEncoder(sparse_output=False), ["town"]),
        ],
        verbose_feature_names_out=False,
    )
    pipe = make_pipeline(columns, SparseRegressor(n_features=3)).set_output(transform=container)
    out = pipe.fit(table, y).transform(table)
    assert list(pipe.get_feature_names_out()) == ["age", "dose", "time"]
    assert isinstance(out, pd.DataFrame if container == "pandas" else pl.DataFrame)
    assert list(out.columns) == ["age", "dose", "time"] and out.shape == (100, 3)


@pytest.mark.parametrize("container", [pd.DataFrame, pl.DataFrame])
def test_names_are_kept_and_others_refused(container):
    X, y = data()
    names = [f"feature {j}" for j in range(6)]
    table = container(dict(zip(names, X.T, strict=True)))
    model = SparseRegressor(n_features=2).fit(table, y)
    assert list(model.feature_names_in_) == names
    np.testing.assert_array_equal(model.predict(table), SparseRegressor(n_features=2).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(container(dict(zip(names[::-1], X.T, strict=True))))


def test_as_a_selector_before_another_model():
    X, y = data()
    pipe = make_pipeline(SparseRegressor(n_features=3), LinearRegression()).fit(X, y)
    model = SparseRegressor(n_features=3).fit(X, y)
    np.testing.assert_allclose(pipe.predict(X), model.predict(X), rtol=1e-7)  # least squares over the same features
    for prefit in (False, True):
        chosen = SelectFromModel(model if prefit else clone(model), prefit=prefit).fit(X, y)
        np.testing.assert_array_equal(chosen.get_support(), model.get_support())


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("suffix", ["array", "matrix"])
def test_sparse_containers(kind, suffix):
    X, y = data("logistic")
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    stored = getattr(scipy.sparse, f"{kind}_{suffix}")(X)
    a, b = (SparseClassifier(n_features=3).fit(one, y) for one in (X, stored))
    np.testing.assert_allclose(b.coef_, a.coef_, rtol=1e-7)
    np.testing.assert_allclose(a.predict_proba(stored), a.predict_proba(X), rtol=1e-14)


# --- meta-estimators


def test_meta_estimators_work():
    X, y = data("logistic")
    single = SparseClassifier(n_features=3)
    calibrated = CalibratedClassifierCV(SparseClassifier("squared_hinge", n_features=3), cv=3).fit(X, y)
    assert calibrated.score(X, y) > 0.7 and calibrated.predict_proba(X).shape == (100, 2)
    assert BaggingClassifier(single, n_estimators=3, random_state=0).fit(X, y).score(X, y) > 0.7
    X, y = data("softmax")
    each = OneVsRestClassifier(single).fit(X, y)
    assert each.score(X, y) > 0.5 and len(each.estimators_) == 3


# --- copies


@pytest.mark.parametrize("options", [{"n_features": 2}, {"level": 1.5}], ids=str)
@pytest.mark.parametrize("task", ["squared", "logistic", "softmax"])
def test_copies_predict_the_same_bits(task, options):
    X, y = data(task)
    model = fitted(estimator(task, **options), X, y)
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), joblib.load(file)):
        assert bits(other) == bits(model)
        assert other.predict(X).tobytes() == model.predict(X).tobytes()
    fresh = clone(model)
    assert not hasattr(fresh, "coef_") and fresh.get_params() == model.get_params()


# --- precision


@pytest.mark.parametrize(
    ("task", "options"),
    [
        (task, options)
        for task in TASKS
        for options in ({"n_features": 3}, {"level": 2.5})
        if not task.startswith("sigmoid") and (task, *options) != ("hinge ovr", "level")
    ],
    ids=str,
)
def test_float32_is_kept_and_close_to_float64(task, options):
    X, y = data(task)
    X = X.astype(np.float32)
    a = fitted(estimator(task, **options), X, y)
    b = fitted(estimator(task, **options), X.astype(np.float64), y)
    assert a.coef_.dtype == np.float32 and b.coef_.dtype == np.float64
    assert (a.predict(X) if "Regressor" in str(a) else a.decision_function(X)).dtype == np.float32
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=2e-3, atol=1e-5)
    assert abs(psi(a, X, y) - psi(b, X, y)) <= 1e-5 * max(1.0, abs(psi(b, X, y)))


# --- routing


def test_weights_are_routed_through_a_search_and_a_pipeline(routing):
    X, y = data()
    weight = np.random.default_rng(1).integers(0, 3, y.size).astype(float)
    model = SparseRegressor(n_features=2).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    search = GridSearchCV(
        make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model),
        {"sparseregressor__n_features": [1, 2]},
        cv=3,
    )
    search.fit(X, y, sample_weight=weight)
    best = search.best_estimator_[-1]
    single = SparseRegressor(**search.best_params_ and {"n_features": best.n_features})
    expected = single.fit(StandardScaler().fit_transform(X), y, sample_weight=weight)
    assert best.coef_.tobytes() == expected.coef_.tobytes()
    assert best.coef_.tobytes() != single.fit(StandardScaler().fit_transform(X), y).coef_.tobytes()


def test_exposures_are_routed(routing):
    X, y = data("poisson")
    exposure = np.random.default_rng(2).uniform(0.5, 2, y.size)
    model = SparseRegressor("poisson", n_features=2)
    model.set_fit_request(exposure=True).set_score_request(exposure=True)
    search = GridSearchCV(model, {"n_features": [2]}, cv=3).fit(X, y, exposure=exposure)
    expected = SparseRegressor("poisson", n_features=2).fit(X, y, exposure=exposure)
    assert search.best_estimator_.coef_.tobytes() == expected.coef_.tobytes()


def test_groups_are_routed_to_the_folds(routing):
    X, y = data()
    groups = np.arange(y.size) % 4
    model = SparseRegressorCV(n_features=[1, 2], cv=GroupKFold(2)).fit(X, y, groups=groups)
    with sklearn.config_context(enable_metadata_routing=False):
        other = SparseRegressorCV(n_features=[1, 2], cv=list(GroupKFold(2).split(X, y, groups))).fit(X, y)
    np.testing.assert_array_equal(model.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"])


# --- labels


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", "sigmoid"])
@pytest.mark.parametrize("kind", [SparseClassifier, SparseClassifierCV])
def test_probabilities_are_there_where_the_loss_is_a_likelihood(kind, loss):
    assert hasattr(kind(loss), "predict_proba") == hasattr(kind(loss), "predict_log_proba") == (loss == "logistic")


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [-1, 1], [0, 1], [2.0, 7.0]], ids=str)
def test_labels_come_back_as_they_were(labels):
    X, y = data("logistic")
    names = np.array(labels)
    model = SparseClassifier(n_features=3).fit(X, names[(y > 0).astype(int)])
    reference = SparseClassifier(n_features=3).fit(X, y)
    np.testing.assert_array_equal(model.classes_, names)
    assert model.coef_.tobytes() == reference.coef_.tobytes()
    predicted = model.predict(X)
    assert predicted.dtype == names.dtype
    np.testing.assert_array_equal(predicted, names[(reference.decision_function(X) > 0).astype(int)])


def test_a_fit_that_is_refused_leaves_the_last_one_as_it_was():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 5))
    y = X[:, 0] > 0.5 * rng.standard_normal(100)
    model = SparseClassifier(n_features=2).fit(X, y)
    before = model.predict(X)
    for refused in (lambda: model.fit(X, np.zeros(100)), lambda: model.set_params(tol=-1).fit(X[:, :3], y + 5)):
        with pytest.raises(ValueError, match=r"one class|tol"):
            refused()
    np.testing.assert_array_equal(model.predict(X), before)


def test_a_constraint_is_that_of_the_last_fit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 5))
    model = SparseRegressor(level=2.5).fit(X, X[:, 0] + rng.standard_normal(100))
    assert hasattr(model, "constraint_")
    model.set_params(level=None, n_features=2).fit(X, X[:, 0])
    assert not hasattr(model, "constraint_")
