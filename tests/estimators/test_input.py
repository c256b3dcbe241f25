"""Estimators and the content of X and y: errors, which name the argument, and extreme data that are fitted."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

from levelprox import (
    InvalidInputError,
    SparseClassifier,
    SparseClassifierCV,
    SparseRegressor,
    SparseRegressorCV,
    Status,
    losses,
)
from levelprox.estimators._features import Standardization
from levelprox.estimators._parameters import CLASSIFICATION_LOSSES, REGRESSION_LOSSES
from tests.support import children
from tests.support.input_cases import (
    CLASSIFIER,
    ONE_OF_EACH,
    REGRESSOR,
    WAYS,
    D,
    N,
    assert_same_fit,
    labels,
    samples,
    targets,
    with_entry,
)

NAMES = ["one", "two", "three", "four", "age", "six"]


# --- what is not a number


@pytest.mark.parametrize("way", ONE_OF_EACH, ids=str)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("store", [np.asarray, np.asfortranarray, sp.csr_matrix, sp.csc_array, sp.coo_matrix])
def test_nonfinite_entries_of_x_are_named(way, value, store):
    name = "NaN" if np.isnan(value) else str(value)
    message = re.escape(f"X contains {name} at row 3, column 4 (1 in total)")
    bad, model = store(with_entry(value)), way().fit(samples(), way.y)
    for call in (lambda: way().fit(bad, way.y), lambda: model.predict(bad), lambda: model.transform(bad)):
        with pytest.raises(InvalidInputError, match=message):
            call()


def test_columns_with_names_are_called_by_them():
    bad = pd.DataFrame(with_entry(np.nan), columns=NAMES)
    model = REGRESSOR().fit(pd.DataFrame(samples(), columns=NAMES), targets())
    for call in (lambda: REGRESSOR().fit(bad, targets()), lambda: model.predict(bad), lambda: model.transform(bad)):
        with pytest.raises(InvalidInputError, match=r"X contains NaN at row 3, column 4 \('age'\) \(1 in total\)"):
            call()


def test_rows_are_those_of_x_not_those_that_are_left_of_it():
    """Neither folds nor samples without a weight change the numbers."""
    bad = with_entry(np.nan, row=50)
    message = "X contains NaN at row 50, column 4"
    with pytest.raises(InvalidInputError, match=message):
        SparseRegressorCV(n_features=[1]).fit(bad, targets())
    with pytest.raises(InvalidInputError, match=message):
        SparseClassifierCV(n_features=[1]).fit(bad, labels())
    with pytest.raises(InvalidInputError, match=message):
        CLASSIFIER().fit(bad, labels(), np.arange(N))


@pytest.mark.parametrize("way", ONE_OF_EACH, ids=str)
@pytest.mark.parametrize(("value", "words"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_nonfinite_entries_of_y_are_named(way, value, words):
    y = way.y.astype(float)
    y[[4, 9]] = value
    with pytest.raises(InvalidInputError, match=rf"y contains {words}.*, at index 4 of y \(2 in total\)"):
        way().fit(samples(), y)


@pytest.mark.parametrize(
    "y",
    [["a", None], ["a", np.nan], pd.array(["a", pd.NA], dtype="string"), pd.array([1, pd.NA], dtype="Int64")],
    ids=["None", "NaN", "string", "Int64"],
)
def test_missing_labels_are_named(y):
    y = pd.Series(y)[np.arange(N) % 2].reset_index(drop=True)
    with pytest.raises(InvalidInputError, match=r"contains NaN.* at index 1.* \(30 in total\)|NA.* at index 1 of y"):
        CLASSIFIER().fit(samples(), y)


@pytest.mark.parametrize("way", ONE_OF_EACH, ids=str)
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.where(np.arange(N) == 7, np.nan, 1), r"sample_weight must be nonnegative and finite, got nan at index 7"),
        (np.where(np.arange(N) == 7, np.inf, 1), r"sample_weight must be nonnegative and finite, got inf at index 7"),
        (np.where(np.arange(N) == 7, -2.0, 1), r"sample_weight must be nonnegative and finite, got -2\.0 at index 7"),
        (np.zeros(N), "sample_weight must not be all zero"),
        (0.0, "sample_weight must not be all zero"),
        (np.ones(3), rf"sample_weight must have shape \({N},\), one for each sample, got \(3,\)"),
        (np.ones((N, 1)), rf"sample_weight must have shape \({N},\), one for each sample, got \({N}, 1\)"),
        (["a"] * N, "sample_weight must hold real numbers"),
        (np.full(N, 1e308), "the sum of the sample_weight overflows"),
    ],
)
def test_invalid_weights_are_named(way, weight, message):
    with pytest.raises(InvalidInputError, match=message):
        way().fit(samples(), way.y, sample_weight=weight)


# --- shapes


@pytest.mark.parametrize("way", ONE_OF_EACH, ids=str)
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.empty((0, D)), [], r"0 sample\(s\) \(shape=\(0, 6\)\)"),
        (np.empty((N, 0)), None, r"0 feature\(s\) \(shape=\(60, 0\)\)"),
        (samples()[:, 0], None, r"(?s)Expected 2D array, got 1D array.*reshape"),
        (samples()[:, :, None], None, "Found array with dim 3"),
        (samples()[:-1], None, r"inconsistent numbers of samples: \[59, 60\]"),
        (samples(), "none", "requires y to be passed"),
        (samples(), np.ones((N, 2)), r"y should be a 1d array, got an array of shape \(60, 2\)"),
    ],
)
def test_shapes_that_do_not_fit_are_named(way, X, y, message):
    y = way.y if y is None else None if isinstance(y, str) else y
    with pytest.raises(ValueError, match=message):
        way().fit(X, y)


def test_one_sample():
    for way in WAYS:
        if way.kind is SparseRegressor:
            model = way().fit([[1.0, 2.0]], [3.0])
            assert model.status_ is Status.SOLVED and model.intercept_ == 3 and not model.coef_.any()
        else:
            with pytest.raises(InvalidInputError, match=r"needs samples of at least 2 classes.*only one class: \[1\]"):
                way().fit([[1.0, 2.0]], [1])


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_one_feature(way):
    model = way().fit(samples()[:, :1], way.y)
    assert model.status_ is Status.SOLVED and way.obeys(model) and model.selected_features_.tolist() == [0]


# --- kinds of numbers


@pytest.mark.parametrize("way", ONE_OF_EACH, ids=str)
def test_text_in_x_is_named_and_numeric_objects_are_converted(way):
    X, y = samples(), way.y
    expected = way().fit(X, y)
    assert_same_fit(way().fit(X.astype(object), y), expected, 0)
    words = X.astype(object)
    words[5, 2] = "many"
    frame = pd.DataFrame(words, columns=NAMES)
    place = "could not convert string to float: 'many', at row 5, column 2"
    for bad, message in ((words, f"{place} of X"), (frame, rf"{place} \('three'\) of X")):
        model = way().fit(pd.DataFrame(X, columns=NAMES) if bad is frame else X, y)
        for call in (lambda bad=bad: way().fit(bad, y), lambda bad=bad, model=model: model.predict(bad)):
            with pytest.raises(InvalidInputError, match=message):
                call()
        with pytest.raises(InvalidInputError, match=message):
            model.transform(bad)
    words[5, 2] = {}
    with pytest.raises(TypeError, match="argument must be a string or a real number, not 'dict', at row 5, column 2"):
        way().fit(words, y)
    with pytest.raises(ValueError, match="Complex data not supported"):
        way().fit(X + 1j, y)
    with pytest.raises(ValueError, match="inhomogeneous"):
        way().fit([[1.0, 2.0], [3.0]], [0, 1])


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        ("squared", ["a"] * N, "y must hold numbers for SparseRegressor, got 'a' at index 0. .* use SparseClassifier"),
        ("squared", targets() * 1e300, "y is of the size of .*e.300, and squares of that are beyond float64"),
        ("absolute", targets() * 1e-300, "y is of the size of .*e-300, and squares of that are beyond float64"),
        ("poisson", np.where(np.arange(N) == 2, -1.0, 1), r"^y must be nonnegative, got -1\.0 at index 2; .*'poisson'"),
        ("gamma", np.where(np.arange(N) == 1, 0.0, 1), r"^y must be positive, got 0\.0 at index 1; .*'gamma'"),
    ],
)
def test_errors_in_targets_name_y(loss, y, message):
    for budget in ({"n_features": 2}, {"level": 2.5}):
        with pytest.raises(InvalidInputError, match=message):
            SparseRegressor(loss, **budget).fit(samples(), y)
    if "beyond" not in message:
        with pytest.raises(InvalidInputError, match=message):
            SparseRegressor(loss, n_features=2).partial_fit(samples(), y)


# --- classes


def test_one_class_is_refused_also_where_weights_leave_only_one():
    message = r"SparseClassifier needs samples of at least 2 classes, but the data have only one class: \[1\]"
    with pytest.raises(InvalidInputError, match=message):
        CLASSIFIER().fit(samples(), np.ones(N, int))
    with pytest.raises(InvalidInputError, match=message):
        CLASSIFIER().fit(samples(), labels(), sample_weight=labels())


def test_more_than_two_classes_where_only_two_can_be():
    y = np.arange(N) % 3
    with pytest.raises(InvalidInputError, match=r"positive=True is for models with one coefficient.*not for 3 classes"):
        CLASSIFIER(positive=True).fit(samples(), y)
    assert CLASSIFIER().fit(samples(), y).coef_.shape == (3, D)


@pytest.mark.parametrize(
    "names", [["no", "yes"], [False, True], [0, 1], [-1, 1], [2.0, 7.0], pd.Categorical(["no", "yes"])]
)
def test_labels_of_any_kind_come_back(names):
    y = np.asarray(names)[labels()]
    model = CLASSIFIER().fit(samples(), y)
    assert model.classes_.tolist() == list(names) and set(model.predict(samples())) <= set(names)
    assert_same_fit(model, CLASSIFIER().fit(samples(), labels()), 0)


def test_labels_that_are_no_classes():
    with pytest.raises(ValueError, match="continuous"):
        CLASSIFIER().fit(samples(), targets())
    with pytest.raises(InvalidInputError, match="y must hold classes of one type, got int and str"):
        CLASSIFIER().fit(samples(), np.array([1, "a"] * 30, object))


@pytest.mark.parametrize("way", ONE_OF_EACH, ids=str)
def test_a_column_of_targets_is_taken_with_a_warning(way):
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        model = way().fit(samples(), way.y[:, None])
    assert_same_fit(model, way().fit(samples(), way.y), 0)


# --- columns and targets that do not vary


@pytest.mark.parametrize("budget", [{"n_features": 2}, {"level": 2.5}], ids=str)
@pytest.mark.parametrize("value", [3.0, -2.0, 0.0, 1e-9, 1e4])
@pytest.mark.parametrize("loss", REGRESSION_LOSSES)
def test_constant_targets(loss, value, budget):
    if losses.loss_by_name(loss).kind in ("count", "positive") and value <= 0:
        return  # no y for gamma; for poisson y = 0 has no fit, and that is said (below)
    model = SparseRegressor(loss, **budget).fit(samples(), np.full(N, value))
    assert model.status_ is Status.SOLVED
    np.testing.assert_array_equal(model.coef_, 0)
    np.testing.assert_allclose(model.predict(samples()), value, rtol=1e-7)


def test_counts_that_are_all_zero_have_no_minimiser():
    for budget in ({"n_features": 2}, {"level": 2.5}):
        with pytest.warns(ConvergenceWarning, match="separable"):
            model = SparseRegressor("poisson", **budget).fit(samples(), np.zeros(N))
        assert np.all(np.isfinite(model.intercept_)) and np.all(model.predict(samples()) < 1e-9)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_columns_that_do_not_vary(way, standardize):
    X, y = samples(), way.y
    keep = [0, 1, 3, 4, 5]
    rest = way(standardize=standardize).fit(X[:, keep], y)
    for value in (0.0, 7.0, 0.1, -1e8)[: 4 if standardize else 3]:
        X[:, 2] = value
        model = way(standardize=standardize).fit(X, y)
        assert np.all(np.atleast_2d(model.coef_)[:, 2] == 0) and way.obeys(model)
        np.testing.assert_allclose(np.atleast_2d(model.coef_)[:, keep], np.atleast_2d(rest.coef_), atol=1e-6)
    nothing = way(standardize=standardize).fit(np.zeros((N, D)), y)
    assert nothing.status_ is Status.SOLVED and not nothing.coef_.any()


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_columns_that_repeat_one_another(way):
    X, y = samples(), way.y
    single, double = way().fit(X, y), way().fit(np.hstack([X, X]), y)
    if "level" not in way.budget:
        np.testing.assert_allclose(double.predict(np.hstack([X, X])), single.predict(X), atol=1e-9)
    assert way.obeys(double) and double.status_ is Status.SOLVED
    assert_same_fit(way().fit(np.hstack([X, X]), y), double, 0)
    collinear = np.column_stack([X, X[:, 0] + X[:, 1]])
    whole = way(n_features=7, level=None).fit(collinear, y)
    assert whole.status_ is Status.SOLVED and np.all(np.isfinite(whole.coef_))


# --- data of no noise, of few samples, of many


@pytest.mark.parametrize("loss", CLASSIFICATION_LOSSES)
@pytest.mark.parametrize("budget", [{"n_features": 1}, {"level": 1.5}], ids=str)
def test_separable_data_have_finite_coefficients_and_are_said_to_be(loss, budget):
    X, y = samples(), labels()
    X[:, 1] += 20 * y
    model = SparseClassifier(loss, **budget, ridge=0)
    if losses.loss_by_name(loss).attained:
        model.fit(X, y)
    else:
        with pytest.warns(ConvergenceWarning, match="separable"):
            model.fit(X, y)
    assert np.all(np.isfinite(model.coef_)) and model.score(X, y) == 1
    assert np.all(np.isfinite(model.decision_function(X)))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_wide_and_long_data(way):
    rng = np.random.default_rng(3)
    wide = sp.random_array((10, 100_000), density=1e-3, rng=rng, format="csr")
    model = way().fit(wide, np.arange(10) % 2 if way.kind is SparseClassifier else np.arange(10.0))
    assert way.obeys(model)
    X = rng.standard_normal((20_000, 2))
    y = X[:, 0] + rng.standard_normal(20_000)
    long = way().fit(X, y > 0 if way.kind is SparseClassifier else y)
    assert long.status_ is Status.SOLVED and way.obeys(long)


# --- units


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-8, 1e8, 1e160, 1e300])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_the_unit_of_x_does_not_matter(way, scale):
    X, y = samples(), way.y
    expected, model = way().fit(X, y), way().fit(X * scale, y)
    assert model.status_ is Status.SOLVED and way.obeys(model)
    np.testing.assert_allclose(model.coef_ * scale, expected.coef_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.predict(X * scale), expected.predict(X), rtol=1e-5)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_columns_of_many_scales(way):
    X, y, scales = samples(), way.y, np.array([1e-8, 1e8, 1, 1e-5, 1e5, 1e3])
    expected, model = way().fit(X, y), way().fit(X * scales, y)
    np.testing.assert_allclose(model.coef_ * scales, expected.coef_, rtol=1e-5, atol=1e-6)
    as_it_is = way(standardize=False).fit(X * scales, y)
    assert way.obeys(as_it_is)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_numbers_out_of_range_are_named(way):
    X, y, signs = samples(), way.y, np.sign(samples())
    with pytest.raises(InvalidInputError, match="the deviation of column 0 of X overflows; divide"):
        way().fit(signs * 1.7e308, y)
    with pytest.raises(InvalidInputError, match="the deviation of column 0 of X overflows; divide"):
        way(fit_intercept=False).fit(signs * 1.7e308, y)
    with pytest.raises(InvalidInputError, match=r"the norm of column 0 of X overflows.*set standardize=True"):
        way(standardize=False).fit(X * 1e160, y)
    with pytest.raises(InvalidInputError, match=r"column 0 of X has entries of at most .*e-160, whose squares vanish"):
        way(standardize=False).fit(X * 1e-160, y)
    with pytest.raises(InvalidInputError, match="column 4 of X overflows"):
        way().fit(with_entry(np.finfo(float).max), y)
    tiny = samples().astype(np.float32)
    tiny[:, 0] *= np.float32(1e-40)
    tiny[:, 2] *= np.float32(1e-40)
    fitted = way().fit(tiny, y)  # coefficients beyond the range of float32
    assert np.max(np.abs(fitted.coef_)) > np.finfo(np.float32).max and np.all(np.isfinite(fitted.coef_))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_subnormal_numbers(way):
    X, y = samples(), way.y
    expected = way().fit(X, y)
    X[3, 4] = 5e-324
    near = way().fit(X, y)
    X[3, 4] = 0.0
    assert_same_fit(near, way().fit(X, y), 1e-12)
    X = samples()
    X[:, 1] *= 1e-310
    with pytest.warns(UserWarning, match=r"column 1 of X varies by .*e-31[01] only \(1 such column in total\)"):
        model = way().fit(X, y)
    assert np.all(np.atleast_2d(model.coef_)[:, 1] == 0) and way.obeys(model)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=0.1)


@pytest.mark.process
def test_subnormal_numbers_survive_import_and_fit():
    code = (
        "import numpy as np; from levelprox import SparseRegressor\n"
        "tiny = np.array([5e-324]); assert tiny[0] != 0 and tiny[0] * 1.0 != 0 and float('5e-324') != 0\n"
        "X = np.random.default_rng(0).standard_normal((99, 4)); SparseRegressor(n_features=2).fit(X, X[:, 0])\n"
        "assert (tiny * 1.0)[0] != 0 and 5e-324 * float(1) != 0 and np.sum(tiny) != 0"
    )
    assert children.run(code) == children.Ended(0, "", "")


@pytest.mark.parametrize("unit", [1e-150, 1e-8, 1e8, 1e150])
@pytest.mark.parametrize("budget", [{"n_features": 2}, {"level": 2.5}], ids=str)
def test_the_unit_of_y_does_not_matter(budget, unit):
    X, y = samples(), targets()
    expected, model = SparseRegressor(**budget).fit(X, y), SparseRegressor(**budget).fit(X, y * unit)
    assert model.status_ is Status.SOLVED
    np.testing.assert_allclose(model.coef_ / unit, expected.coef_, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_weights_of_any_size(way):
    X, y = samples(), way.y
    expected = way().fit(X, y)
    for weight in (1e-300, 5e-324, 1e300):
        np.testing.assert_allclose(way().fit(X, y, np.full(N, weight)).coef_, expected.coef_, rtol=1e-6, atol=1e-7)
    spread = way().fit(X, y, 10 ** np.random.default_rng(4).uniform(-100, 100, N))
    assert way.obeys(spread)
    if way.kind is SparseClassifier:
        for factor in (1e-300, 1e300):
            model = way(class_weight={0: factor, 1: factor}).fit(X, y, np.full(N, factor))
            np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6, atol=1e-7)
        with pytest.raises(InvalidInputError, match="class_weight leaves class 0 no weight"):
            way(class_weight={0: 1e-200, 1: 1e200}).fit(X, y, np.where(y == 1, 1, 1e-200))


# --- margins


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("multi_class", ["softmax", "ovr"])
@pytest.mark.parametrize("far", [1e3, 1e20, 1e300])
def test_probabilities_at_extreme_margins(n_classes, multi_class, far):
    y = np.digitize(targets(), [0] if n_classes == 2 else [-1, 1])
    model = SparseClassifier(n_features=2, multi_class=multi_class).fit(samples(), y)
    p = model.predict_proba(samples() * far)
    assert np.all((p >= 0) & (p <= 1))
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    chosen = np.searchsorted(model.classes_, model.predict(samples() * far))
    assert np.array_equal(p[np.arange(N), chosen], p.max(axis=1))
    assert not np.any(np.isnan(model.predict_log_proba(samples() * far)))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_no_negative_zeros(way):
    model = way().fit(-samples(), way.y)
    assert way.obeys(model) and np.any(model.coef_ == 0)
    assert model.selected_features_.size == np.count_nonzero(np.any(np.atleast_2d(model.coef_), axis=0))
    coef, intercept = Standardization(samples(), None, None, fit_intercept=True).outside(np.full(D + 1, -0.0))
    assert not np.any(np.signbit(coef)) and not np.any(np.signbit(intercept))
