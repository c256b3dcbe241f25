"""Features by name in parameters, certificates and messages; options in any letters."""

import re

import numpy as np
import pandas as pd
import pytest

from levelprox import (
    InvalidInputError,
    LinearModel,
    Problem,
    SparseClassifier,
    SparseClassifierCV,
    SparseRegressor,
    SparseRegressorCV,
    certify_model,
    constraints,
    load,
    path,
    solve,
)
from levelprox.estimators._features import FeatureNames
from levelprox.exceptions import FileFormatError

NAMES = ["age", "sex", "height", "weight", "income", "Zip code"]


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(np.random.default_rng(0).standard_normal((60, 6)), columns=NAMES)


@pytest.fixture(scope="module")
def y(frame):
    noise = 0.3 * np.random.default_rng(1).standard_normal(60)
    return (frame["age"] - 2 * frame["weight"] + 0.7 * frame["income"]).to_numpy() + noise


def features():
    return FeatureNames(6, np.array(NAMES, dtype=object))


# --- the helper


@pytest.mark.parametrize(
    "given",
    [
        ["sex", "weight"],
        ("sex", "weight"),
        np.array(["sex", "weight"]),
        pd.Index(["weight", "sex"]),
        pd.Series(["sex", "weight"]),
        [1, 3],
        np.array([3, 1], np.int32),
        [1, "weight"],
        {"sex", "weight"},
        [False, True, False, True, False, False],
        np.array([False, True, False, True, False, False]),
    ],
    ids=lambda given: repr(sorted(given)) if isinstance(given, set) else repr(given),
)
def test_features_are_given_by_name_index_or_mask(given):
    assert np.flatnonzero(features().mask("keep", given)).tolist() == [1, 3]


@pytest.mark.parametrize(("given", "expected"), [("sex", [1]), (np.int64(2), [2]), ([], [])])
def test_one_feature_and_none(given, expected):
    assert np.flatnonzero(features().mask("keep", given)).tolist() == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["agge"], "keep has the name 'agge', which is not a column of X; did you mean 'age'?"),
        (["ZIP CODE"], "did you mean 'Zip code'?"),
        (["q"], "keep has the name 'q', which is not a column of X; there are 'age', 'sex', 'height'"),
        ([6], "keep has the feature 6, and indices are from 0 to 5"),
        ([-1], "keep has the feature -1, and indices are from 0 to 5"),
        ([1.5], "keep must hold names or indices of features, got 1.5"),
        ([True, False], "keep is a mask of 2 features, and X has 6 of them"),
        ({"age": 1}, "keep must be a list of features"),
        (2.5, "keep must be a list of features"),
        (np.ones((2, 2), int), "keep must have one dimension, got shape (2, 2)"),
    ],
    ids=repr,
)
def test_features_that_are_not_there_are_named(given, words):
    with pytest.raises(InvalidInputError, match=re.escape(words)):
        features().mask("keep", given)


def test_numbers_for_some_features_and_for_all():
    assert features().values("cost", {"sex": 0, 3: 2.5}).tolist() == [1, 0, 1, 2.5, 1, 1]
    assert features().values("cost", {}, default=0.0).tolist() == [0] * 6
    assert features().values("cost", range(6)).tolist() == [0, 1, 2, 3, 4, 5]
    for given, words in (
        ({"sexx": 1.0}, "cost has the name 'sexx', which is not a column of X; did you mean 'sex'?"),
        ({"sex": "high"}, "cost['sex'] must be a real number, got 'high'"),
        ({"sex": np.inf}, "cost contains inf at index 1"),
        ([1.0, 2.0], "cost must have shape (6,), one for each feature, got (2,); of some features give a dict"),
    ):
        with pytest.raises(InvalidInputError, match=re.escape(words)):
            features().values("cost", given)


def test_without_names_of_columns():
    with pytest.raises(InvalidInputError, match=r"keep has the name 'age', and X has no names.*DataFrame.*set_output"):
        FeatureNames(6).mask("keep", ["age"])
    assert (FeatureNames(6).called(2), features().called(2)) == ("feature 2", "'height'")


# --- estimators


@pytest.mark.parametrize("budget", [{"n_features": 1}, {"level": 1.5}], ids=str)
@pytest.mark.parametrize("kind", [SparseRegressor, SparseClassifier])
def test_names_indices_masks_and_weights_of_zero_are_the_same_fit(kind, budget, frame, y):
    target = y if kind is SparseRegressor else y > 0
    expected = kind(feature_weight=[1, 0, 0, 1, 1, 1], **budget).fit(frame, target)
    assert {"sex", "height"} <= set(expected.get_feature_names_out())
    for given in (
        {"keep": ["height", "sex"]},
        {"keep": [1, 2]},
        {"keep": [False, True, True, False, False, False]},
        {"feature_weight": {"sex": 0, "height": 0.0}},
        {"keep": "sex", "feature_weight": {2: 0}},
    ):
        assert np.array_equal(kind(**given, **budget).fit(frame, target).coef_, expected.coef_)


@pytest.mark.parametrize("budget", [{"n_features": 3}, {"level": 2.5}], ids=str)
def test_signs_of_some_features(budget, frame, y):
    model = SparseRegressor(**budget, positive=["weight", "income"]).fit(frame, y)
    names = model.get_feature_names_out().tolist()
    assert "weight" not in names and "income" in names and np.all(model.coef_[[3, 4]] >= 0)
    both = SparseRegressor(**budget, positive=[3, 4]).fit(frame, -y)
    assert both.coef_[3] > 0 and np.any(both.coef_ < 0)
    assert certify_model(model, frame, y).hold


def test_invalid_signs_are_refused(frame, y):
    for given in (1, 0, None, 1.5, "age"):
        with pytest.raises(
            InvalidInputError, match=f"positive must be True or False, or a list of features, got {given!r}"
        ):
            SparseRegressor(positive=given).fit(frame, y)
    with pytest.raises(InvalidInputError, match=r"positive=\['age'\] is for models with one coefficient"):
        SparseClassifier(n_features=2, positive=["age"]).fit(frame, np.digitize(y, [-1, 1]))


@pytest.mark.parametrize("criterion", ["cv", "BIC"])
def test_folds_have_no_names_and_need_none(criterion, frame, y):
    options = {"keep": ["sex"], "feature_weight": {"height": 0}, "positive": ["income"]}
    model = SparseRegressorCV(n_features=[0, 2, 4], criterion=criterion, cv=3, **options).fit(frame, y)
    assert {"sex", "height"} <= set(model.get_feature_names_out())
    single = SparseRegressor(n_features=int(model.level_), **options).fit(frame, y)
    assert np.array_equal(model.coef_, single.coef_)
    with pytest.raises(InvalidInputError, match="keep has the name 'sexx'"):
        SparseClassifierCV(n_features=[1], keep=["sexx"], cv=3).fit(frame, y > 0)


def test_a_stream_keeps_by_name(frame, y):
    model = SparseRegressor(n_features=1, keep=["sex"], positive=["weight"])
    for rows in np.array_split(np.arange(60), 3):
        model.partial_fit(frame.iloc[rows], y[rows])
    assert "sex" in model.get_feature_names_out() and model.coef_[3] >= 0
    model.keep = ["age"]
    with pytest.raises(InvalidInputError, match=r"the stream began with keep=\['sex'\], now it is \['age'\]"):
        model.partial_fit(frame, y)


def test_a_negative_weight_is_named(frame, y):
    with pytest.raises(InvalidInputError, match="feature_weight must not be negative, got -1 at index 2, 'height'"):
        SparseRegressor(feature_weight={"height": -1}).fit(frame, y)


# --- what names features


def test_certificates_name_the_next_feature(frame, y, tmp_path):
    model = SparseRegressor(n_features=2).fit(frame, y)
    assert model.certificate_.addition_name == NAMES[model.certificate_.addition] == "income"
    assert "'income'" in str(model.certificate_) and model.certificate_.as_dict()["addition_name"] == "income"
    without = SparseRegressor(n_features=2).fit(frame.to_numpy(), y)
    assert without.certificate_.addition_name is None and "feature 4" in str(without.certificate_)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.certificate_ == model.certificate_ and again.keep is None
    object.__setattr__(model.certificate_, "addition_name", "age")
    with pytest.raises(FileFormatError, match="certificate_ calls feature 4 'age', not 'income'"):  # as in `load`
        model.save(tmp_path / "false")


def test_a_model_with_names_in_its_parameters_is_kept_in_a_file(frame, y, tmp_path):
    options = {"keep": ["sex"], "feature_weight": {"height": 0}, "positive": ["age"]}
    model = SparseRegressor(n_features=2, **options).fit(frame, y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert {name: getattr(again, name) for name in options} == options
    assert np.array_equal(again.predict(frame), model.predict(frame))
    assert certify_model(again, frame, y).hold


def test_errors_about_columns_name_them(frame, y):
    far = frame.assign(income=frame["income"] * 1e300).assign(income=lambda X: np.sign(X["income"]) * 1.7e308)
    with pytest.raises(InvalidInputError, match=r"the deviation of column 4 \('income'\) of X overflows"):
        SparseRegressor().fit(far, y)
    with pytest.raises(InvalidInputError, match=r"the norm of column 4 \('income'\) of X overflows"):
        SparseRegressor(standardize=False).fit(far, y)
    with pytest.warns(UserWarning, match=r"column 0 \('age'\) of X varies by .* only \(1 such column in total\)"):
        SparseRegressor(n_features=1).fit(frame.assign(age=frame["age"] * 1e-310), y)


# --- options in any letters


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ({"loss": "Squared"}, {}),
        ({"loss": "HUBER", "n_features": 2}, {"loss": "huber", "n_features": 2}),
        ({"level": 2.5, "constraint": "MCP"}, {"level": 2.5}),
        ({"level": 2.5, "constraint": "Negative-Lp"}, {"level": 2.5, "constraint": "negative_lp"}),
        (
            {"level": 2.5, "subsolver": "Newton", "start": "Direct"},
            {"level": 2.5, "subsolver": "newton", "start": "direct"},
        ),
        ({"n_features": 2, "constraint": "MCP", "start": "Auto"}, {"n_features": 2}),
    ],
    ids=str,
)
def test_options_of_a_regressor(given, plain, frame, y):
    model = SparseRegressor(**given).fit(frame, y)
    assert np.array_equal(model.coef_, SparseRegressor(**plain).fit(frame, y).coef_)
    assert model.get_params()["constraint"] == given.get("constraint", "mcp")  # as it was given


def test_options_of_a_classifier_and_of_functions(frame, y):
    labels = np.digitize(y, [-1, 1])
    given = SparseClassifier("Logistic", n_features=1, multi_class="OVR", class_weight="Balanced").fit(frame, labels)
    plain = SparseClassifier(n_features=1, multi_class="ovr", class_weight="balanced").fit(frame, labels)
    assert np.array_equal(given.coef_, plain.coef_)
    assert hasattr(SparseClassifier("LOGISTIC"), "predict_proba")
    assert not hasattr(SparseClassifier("Hinge"), "predict_proba")
    problem = Problem(LinearModel(frame.to_numpy(), y, "Squared"), constraints.MCP.from_threshold(0.5), 2.5)
    plain = solve(problem, start="direct")
    assert np.array_equal(solve(problem, start="Direct", levels="Constant", subsolver="AUTO").x, plain.x)
    assert np.array_equal(path(problem, [2.5], start="Direct").x(0), path(problem, [2.5], start="direct").x(0))
    with pytest.raises(InvalidInputError, match="got 'Poison'; did you mean 'poisson'"):
        SparseRegressor("Poison").fit(frame, y)
