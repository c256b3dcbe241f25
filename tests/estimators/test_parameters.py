"""Estimators and their parameters: errors, which name the parameter; limits and edges of those that are taken.

Estimators have no x0: `warm_start` begins at the last fit. Batches, γ and objectives of the user are for `solve`. With
n_features, `tol` says how well sets are fitted and `max_iter` limits the number of swaps; tol = 0 is then allowed.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from levelprox import (
    InfeasibleError,
    InvalidInputError,
    SparseClassifier,
    SparseClassifierCV,
    SparseRegressor,
    SparseRegressorCV,
    Status,
    constraints,
    losses,
)
from tests.support.input_cases import (
    CLASSIFIER,
    FEATURES,
    LEVEL,
    ONE_OF_EACH,
    REGRESSOR,
    WAYS,
    D,
    N,
    assert_same_fit,
    labels,
    samples,
    targets,
)

NAN, INF = float("nan"), float("inf")
WHOLE, BOOL = "must be an integer of at least 0", "must be True or False"

#: Parameter, value, message; for every estimator that has the parameter.
REFUSED = [
    ("loss", 5, r"loss must be one of .*, got 5; a number of features is given as n_features=5$"),
    ("loss", None, r"loss must be one of .*, got None$"),
    ("loss", losses.Huber, r"loss must be one of .*got <class .*Huber'>; did you forget \(\)\?"),
    ("feature_weight", [1, 2], r"feature_weight must have shape \(6,\), one for each feature, got \(2,\)"),
    ("feature_weight", 5, r"feature_weight must have shape \(6,\), one for each feature, got \(\)"),
    ("feature_weight", [1, 1, 1, 1, -1, 1], "feature_weight must not be negative, got -1 at index 4"),
    ("feature_weight", [1, 1, NAN, 1, 1, 1], r"feature_weight contains NaN at index 2 \(1 in total\)"),
    ("feature_weight", "a", "feature_weight must hold real numbers"),
    *[("fit_intercept", value, f"fit_intercept {BOOL}") for value in ("yes", 1, None)],
    *[("standardize", value, f"standardize {BOOL}") for value in ("no", 0)],
    *[("positive", value, f"positive {BOOL}") for value in (1, "yes")],
    *[("warm_start", value, f"warm_start {BOOL}") for value in (1, "yes")],
    ("tol", -1, "tol must be nonnegative, got -1"),
    ("tol", NAN, "tol must be a number, got NaN"),
    *[("tol", value, "tol must be a real number") for value in ("x", None, True)],
    *[("max_iter", value, f"max_iter {WHOLE}, got {re.escape(repr(value))}") for value in (-1, 2.5, True, None, "a")],
    ("time_limit", -1, "time_limit must be nonnegative, got -1"),
    ("time_limit", NAN, "time_limit must be a number, got NaN"),
    *[("time_limit", value, "time_limit must be a real number") for value in ("a", True)],
    *[("random_state", value, "random_state must be a nonnegative int, RandomState") for value in ("a", -1, 2.5)],
    ("callback", 3, "callback must be a function of a record, got 3"),
    ("class_weight", "balance", "class_weight must be a dict, 'balanced' or None, got 'balance'"),
    ("class_weight", {9: 1}, r"class_weight has 9, which is not one of the classes \[0, 1\]"),
    ("class_weight", {0: -1}, "class_weight must be positive and finite, got -1 for class 0"),
    ("class_weight", {1: NAN}, r"class_weight\[1\] must be a number, got NaN"),
    ("class_weight", {1: "a"}, r"class_weight\[1\] must be a real number, got 'a'"),
    ("class_weight", [1, 2], r"class_weight must be a dict, 'balanced' or None, got \[1, 2\]"),
    *[("multi_class", value, "multi_class must be one of auto, softmax, ovr, got") for value in ("foo", None, 5)],
    ("constraint", "mpc", r"constraint must be a Constraint or one of .*got 'mpc'; did you mean 'mcp'\?"),
    ("constraint", 5, "constraint must be a Constraint or one of .*got 5"),
    ("constraint", constraints.MCP, r"constraint is the class MCP; did you forget \(\)\?"),
]
#: Of fits under a level; with n_features, parameters that would have no effect raise an error.
REFUSED_BY_A_LEVEL = [
    ("subsolver", "newtn", r"subsolver must be one of .*got 'newtn'; did you mean 'newton'\?"),
    ("subsolver", 5, "subsolver must be one of .*got 5"),
    ("start", "warm", "start must be one of auto, continuation, direct, got 'warm'"),
]


@pytest.mark.parametrize(("name", "value", "message"), REFUSED)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_invalid_parameters_are_named(way, name, value, message):
    if name not in way.kind().get_params():
        return
    model = way().set_params(**{name: value})
    with pytest.raises(InvalidInputError, match=message):
        model.fit(samples(), way.y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(("name", "value", "message"), REFUSED_BY_A_LEVEL)
@pytest.mark.parametrize("kind", [SparseClassifier, SparseRegressor])
def test_parameters_of_levels_are_named(kind, name, value, message):
    y = labels() if kind is SparseClassifier else targets()
    with pytest.raises(InvalidInputError, match=message):
        kind(**LEVEL, **{name: value}).fit(samples(), y)
    with pytest.raises(InvalidInputError, match=rf"{name}=.* is for fits under a level; at most n_features=2 features"):
        kind(**FEATURES, **{name: value}).fit(samples(), y)


@pytest.mark.parametrize("way", ONE_OF_EACH, ids=str)
def test_invalid_budgets_are_named(way):
    X, y = samples(), way.y
    for value in (2.5, 2.0, True, "3", -1, NAN, [1, 2]):
        with pytest.raises(InvalidInputError, match=f"n_features {WHOLE}, got {re.escape(repr(value))}"):
            way(n_features=value).fit(X, y)
    for value, message in (
        (NAN, "level must be a number, got NaN"),
        (INF, r"level must be finite, got inf; without a budget, set n_features to X\.shape\[1\]"),
        ("a", "level must be a real number, got 'a'"),
        (True, "level must be a real number, got True"),
        ([1.0], r"level must be a real number, got \[1\.0\]"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            way(n_features=None, level=value).fit(X, y)
    with pytest.raises(InfeasibleError, match=r"no feasible point: g\(x\) >= 0 for all x, got level=-1"):
        way(n_features=None, level=-1).fit(X, y)
    with pytest.raises(InvalidInputError, match="give either n_features or level, not both; got n_features=2, level=1"):
        way(level=1).fit(X, y)
    with pytest.raises(InvalidInputError, match="unequal weights are for level"):
        way(feature_weight=[1, 2, 1, 1, 1, 1]).fit(X, y)


def test_unknown_options():
    for kind in (SparseClassifier, SparseRegressor, SparseClassifierCV, SparseRegressorCV):
        with pytest.raises(TypeError, match="n_feature"):
            kind(n_feature=3)
        with pytest.raises(ValueError, match="Invalid parameter 'n_feature'"):
            kind().set_params(n_feature=3)


def test_losses_of_the_other_kind_lead_there():
    X = samples()
    for given, message in (
        ("squared", "got 'squared', which is for regression: SparseRegressor"),
        (losses.Huber(), r"got Huber\(.*\), which is for regression: SparseRegressor"),
        ("logistik", r"got 'logistik'; did you mean 'logistic'\?"),
        ("softmax", "use loss='logistic', multi_class='softmax'"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            SparseClassifier(given).fit(X, labels())
    for given, message in (
        ("logistic", "got 'logistic', which is for classification: SparseClassifier"),
        (losses.Hinge(), r"got Hinge\(\), which is for classification: SparseClassifier"),
        ("poison", r"got 'poison'; did you mean 'poisson'\?"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            SparseRegressor(given).fit(X, targets())
    with pytest.raises(InvalidInputError, match="multi_class='softmax' is for loss='logistic', not for 'hinge'"):
        SparseClassifier("hinge", multi_class="softmax").fit(X, labels())


@pytest.mark.parametrize(
    ("loss", "given", "message"),
    [
        ("squared", {"exposure": np.ones(N)}, "exposure is for poisson and gamma, not for loss='squared'; use offset"),
        ("poisson", {"exposure": -np.ones(N)}, "exposure must be positive, got -1 at index 0"),
        ("poisson", {"exposure": np.r_[1, 0, np.ones(N - 2)]}, "exposure must be positive, got 0 at index 1"),
        ("gamma", {"exposure": np.full(N, NAN)}, r"exposure contains NaN at index 0 \(60 in total\)"),
        ("squared", {"offset": np.ones(3)}, r"offset must have shape \(60,\), one for each sample, got \(3,\)"),
        ("poisson", {"offset": np.full(N, INF)}, r"offset contains inf at index 0 \(60 in total\)"),
        ("squared", {"offset": ["a"] * N}, "offset must hold real numbers"),
    ],
)
def test_offsets_and_exposures_are_named(loss, given, message):
    X, y = samples(), np.abs(targets())
    model = SparseRegressor(loss, n_features=2).fit(X, y)
    for call in (lambda: clone(model).fit(X, y, **given), lambda: model.predict(X, **given)):
        with pytest.raises(InvalidInputError, match=message):
            call()


@pytest.mark.parametrize("kind", [SparseClassifierCV, SparseRegressorCV])
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_features": [1, 2.5]}, f"n_features {WHOLE}, got 2.5"),
        ({"n_features": [1, True]}, f"n_features {WHOLE}, got True"),
        ({"n_features": []}, r"n_features must be a list of integers, got shape \(0,\)"),
        ({"n_features": "a"}, f"n_features {WHOLE}, got 'a'"),
        ({"level": [1, NAN]}, r"level contains NaN at index 1 \(1 in total\)"),
        ({"level": "a"}, "level must hold real numbers"),
        ({"level": []}, r"level must be a list of numbers, got shape \(0,\)"),
        ({"level": [1, -1]}, r"no feasible point: g\(x\) >= 0 for all x, got level=-1"),
        ({"n_features": [1], "level": [1]}, r"either n_features or level, not both; got n_features=\[1\], level=\[1\]"),
        ({"criterion": "foo"}, "criterion must be one of cv, aic, bic, ebic, got 'foo'"),
        ({"one_standard_error": 1}, f"one_standard_error {BOOL}"),
        ({"n_features": [1], "constraint": "scad"}, "constraint='scad' is for fits under a level"),
        ({"max_iter": -1}, f"max_iter {WHOLE}, got -1"),
        ({"callback": 3}, "callback must be a function of a record, got 3"),
        ({"cv": 1}, "n_splits=2 or more, got n_splits=1"),
        ({"cv": "a"}, "Expected `cv` as an integer"),
    ],
)
def test_parameters_of_the_search_are_named(kind, params, message):
    y = labels() if kind is SparseClassifierCV else targets()
    with pytest.raises(ValueError, match=message):
        kind(**params).fit(samples(), y)


# --- edges of what is taken


@pytest.mark.parametrize("kind", [SparseClassifier, SparseRegressor])
def test_no_budget_and_more_than_enough(kind):
    X, y = samples(), labels() if kind is SparseClassifier else targets()
    for budget in ({"level": 0}, {"n_features": 0}):
        none = kind(**budget).fit(X, y)
        assert none.status_ is Status.SOLVED and not none.coef_.any() and np.any(none.intercept_)
    whole, wide = kind(n_features=100).fit(X, y), kind(level=1e6).fit(X, y)
    assert whole.status_ is wide.status_ is Status.SOLVED and wide.multiplier_ == 0 == whole.multiplier_
    assert "inactive" in wide.message_
    np.testing.assert_allclose(wide.coef_, whole.coef_, atol=1e-5)


@pytest.mark.parametrize(
    "constraint",
    [
        lambda: constraints.MCP(0.0, 1.0),
        lambda: constraints.MCP(1.0, -1.0),
        lambda: constraints.SCAD(1.0, 1.0),
        lambda: constraints.Exp(NAN),
    ],
)
def test_shapes_of_constraints_have_intervals(constraint):
    with pytest.raises(InvalidInputError, match=r"(lam|theta).* (must be|positive|greater|above|number)"):
        constraint()


@pytest.mark.parametrize("threshold", [1e-100, 1e100])
def test_constraints_of_extreme_shape(threshold):
    for kind, y in ((SparseClassifier, labels()), (SparseRegressor, targets())):
        model = kind(level=1.5, constraint=constraints.MCP.from_threshold(threshold), max_iter=50)
        with np.errstate(all="raise", under="ignore"):
            try:
                model.fit(samples(), y)
            except ConvergenceWarning:
                continue  # said; warnings are errors here
        assert np.all(np.isfinite(model.coef_)) and model.certificate_.g <= 1.5


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_tolerances_below_the_resolution_of_float64(way):
    X, y = samples(), way.y
    if "level" not in way.budget:
        assert way(tol=0.0).fit(X, y).status_ is Status.SOLVED
        return
    with pytest.warns(ConvergenceWarning, match=r"Stopped after 15 outer steps, max_iter: KKT"):
        model = way(tol=0.0, max_iter=15).fit(X, y)
    assert model.status_ is Status.MAX_ITER and way.obeys(model)
    with pytest.warns(ConvergenceWarning, match="below the resolution of float64|Nearly solved") as caught:
        model = way(tol=1e-30).fit(X, y)
    assert len(caught) == 2 and model.status_ is Status.SOLVED_INACCURATE and way.obeys(model)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_no_steps_at_all(way):
    if way.kind is SparseRegressor and "level" not in way.budget:  # the search by the Gram matrix needs no swap here
        model = way(max_iter=0, n_features=3).fit(samples(), way.y)
        assert model.status_ is Status.SOLVED and model.history_[-1].step == 0
        return
    with pytest.warns(ConvergenceWarning, match=r"Stopped after 0 (outer steps|swaps), max_iter.*Raise max_iter"):
        model = way(max_iter=0, n_features=3 if "level" not in way.budget else None).fit(samples(), way.y)
    assert model.status_ is Status.MAX_ITER and np.all(np.isfinite(model.coef_))
    assert model.selected_features_.size <= 3


@pytest.mark.parametrize("subsolver", ["auto", "svrg"])
def test_random_states_of_all_kinds(subsolver):
    model = SparseRegressor(level=2.5, subsolver=subsolver, tol=0.1, standardize=False, fit_intercept=False)

    def fitted(state):
        return clone(model).set_params(random_state=state).fit(samples(), targets()).coef_

    for state in (3, np.int64(3)):
        np.testing.assert_array_equal(fitted(state), fitted(3))
    np.testing.assert_array_equal(fitted(np.random.RandomState(3)), fitted(np.random.RandomState(3)))
    np.testing.assert_array_equal(fitted(np.random.default_rng(3)), fitted(np.random.default_rng(3)))
    assert np.all(np.isfinite(fitted(None)))


# --- copies


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_clones_copies_and_pickles(way):
    X, y = samples(), way.y
    model = way(feature_weight=np.array([0.0, 1, 1, 1, 1, 1])).fit(X, y)
    for same in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        assert_same_fit(same, model, 0)
        np.testing.assert_array_equal(same.predict(X), model.predict(X))
        assert str(same.certificate_) == str(model.certificate_) and same.status_ is model.status_
    fresh = clone(model)
    assert not hasattr(fresh, "coef_")
    assert_same_fit(fresh.fit(X, y), model, 0)


@pytest.mark.parametrize("way", ONE_OF_EACH, ids=str)
def test_parameters_set_in_a_search(way):
    search = GridSearchCV(way(), {"n_features": [1, 2], "tol": [1e-4, 1e-6]}, cv=3).fit(samples(), way.y)
    assert search.best_estimator_.selected_features_.size == search.best_params_["n_features"]
    assert_same_fit(search.best_estimator_, way(**search.best_params_).fit(samples(), way.y), 0)
    assert search.best_estimator_.n_features_in_ == D


# --- warm starts


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_warm_starts_save_work_and_obey_the_budget(way):
    rng, n = np.random.default_rng(7), 150  # of many more samples a squared loss is reduced, and one refit is enough
    X = rng.standard_normal((n, 40)) + rng.standard_normal((n, 2)) @ rng.standard_normal((2, 40))
    y = X[:, :8].sum(axis=1) + rng.standard_normal(n)
    y = (y > 0).astype(int) if way.kind is SparseClassifier else y
    name, value = ("level", 6.5) if "level" in way.budget else ("n_features", 6)
    model = way.kind(**{name: value}, warm_start=True).fit(X, y)
    psi, work = model.certificate_.psi, model.n_iter_
    model.fit(X, y)
    assert model.n_iter_ < work and model.certificate_.psi <= psi * (1 + 1e-6)
    assert model.status_ is Status.SOLVED
    model.set_params(**{name: value / 2 if name == "level" else 3}).fit(X, y)
    if name == "level":
        assert model.certificate_.g <= value / 2 and model.level_ == value / 2
    else:
        assert model.selected_features_.size <= 3
    model.set_params(positive=True)
    if way.kind is SparseRegressor:
        assert np.all(model.fit(X, y).coef_ >= 0)


def test_warm_starts_from_something_else_begin_afresh():
    X, y = samples(), labels()
    for budget in (FEATURES, LEVEL):
        model = SparseClassifier(**budget, warm_start=True).fit(X, y)
        with pytest.warns(ConvergenceWarning, match=r"the last fit had coefficients of shape \(1, 6\), this one has"):
            model.fit(X[:, :5], y)
        assert_same_fit(model, SparseClassifier(**budget).fit(X[:, :5], y), 0)
        with pytest.warns(ConvergenceWarning, match=r"had the classes \[0, 1\], this one has \[0, 1, 2\]"):
            model.fit(X, np.arange(N) % 3)
        model.fit(X.astype(np.float32), np.arange(N) % 3)  # another precision is no matter
        assert model.coef_.dtype == np.float32
        swapped = SparseClassifier(**budget, warm_start=True).fit(X, y)
        with pytest.warns(
            ConvergenceWarning, match=r"had the classes \[0, 1\], this one has \[5, 7\]; the fit starts without it"
        ):
            swapped.fit(X, np.where(y == 1, 5, 7))
        assert_same_fit(swapped, SparseClassifier(**budget).fit(X, np.where(y == 1, 5, 7)), 0)
        regressor = SparseRegressor(**budget, warm_start=True).fit(X, targets())
        with pytest.warns(ConvergenceWarning, match="the fit starts without it"):
            regressor.fit(X[:, :4], targets())
        assert_same_fit(regressor, SparseRegressor(**budget).fit(X[:, :4], targets()), 0)


def test_the_ways_are_of_both_kinds():
    assert CLASSIFIER.kind is SparseClassifier and REGRESSOR.kind is SparseRegressor


@pytest.mark.parametrize(
    ("estimator", "count", "number", "ridge"),
    [
        (SparseClassifier, "int | None", "float | None", "float | Literal['auto']"),
        (SparseRegressor, "int | None", "float | None", "float"),
        (SparseClassifierCV, "ArrayLike | None", "ArrayLike | None", "float | Literal['auto'] | ArrayLike"),
        (SparseRegressorCV, "ArrayLike | None", "ArrayLike | None", "ArrayLike"),
    ],
)
def test_signatures_have_the_types_of_budgets(estimator, count, number, ridge):
    """Those of the shared base are Any: with them, `help` and type checkers say nothing of what is taken."""
    types = {name: p.annotation.replace('"', "'") for name, p in inspect.signature(estimator).parameters.items()}
    assert (types["n_features"], types["level"], types["budget"]) == (count, number, number)
    assert types["ridge"] == ridge
