"""Options of `levelprox fit` and `path` for parameters of estimators: each gives the model of Python."""

from __future__ import annotations

import inspect
import json

import numpy as np
import polars as pl
import pytest

import levelprox
from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV
from levelprox.cli import _parsers
from levelprox.cli.fit import fit
from levelprox.methods.subsolvers import SUBSOLVERS

RNG = np.random.default_rng(5)
X = RNG.standard_normal((90, 4))
NAMES = ["age", "dose", "site", "rest"]
SCORE = X @ [1.5, -1.0, 0.3, 0.0] + RNG.standard_normal(90)
YES = np.where(SCORE > 0.7, "yes", "no")
THREE = np.digitize(SCORE, [-0.8, 0.8])
YEARS = RNG.uniform(0.5, 4, 90)
COUNT = RNG.poisson(YEARS * np.exp(0.4 * X[:, 0] - 0.3 * X[:, 1])).astype(float)
FRAME = pl.DataFrame(dict(zip(NAMES, X.T, strict=True)))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder: yes.csv, three.csv, price.csv, claims.csv (with years and base), price.npz."""
    folder = tmp_path_factory.mktemp("options")
    FRAME.with_columns(y=pl.Series(YES.tolist())).write_csv(folder / "yes.csv")
    FRAME.with_columns(y=THREE).write_csv(folder / "three.csv")
    FRAME.with_columns(y=SCORE).write_csv(folder / "price.csv")
    FRAME.with_columns(years=YEARS, base=0.5 * X[:, 3], y=COUNT).write_csv(folder / "claims.csv")
    np.savez(folder / "price.npz", X=X, y=SCORE, years=YEARS)
    return folder


CASES = {
    "ridge": ("yes.csv", ["--features", 2, "--ridge", 0.05], SparseClassifier(n_features=2, ridge=0.05)),
    "ridge auto": ("yes.csv", ["--features", 2, "--ridge", "auto"], SparseClassifier(n_features=2)),
    "ridges": (
        "price.csv",
        ["--cv", 3, "--features", "1:2", "--ridge", "0,0.1"],
        SparseRegressorCV(n_features=[1, 2], cv=3, ridge=[0, 0.1]),
    ),
    "keep": ("price.csv", ["--features", 1, "--keep", "rest"], SparseRegressor(n_features=1, keep=["rest"])),
    "keep two": (
        "price.csv",
        ["--features", 1, "--keep", "rest, site"],
        SparseRegressor(n_features=1, keep=["rest", "site"]),
    ),
    "positive": ("price.csv", ["--features", 2, "--positive"], SparseRegressor(n_features=2, positive=True)),
    "positive for": (
        "price.csv",
        ["--features", 2, "--positive-for", "dose"],
        SparseRegressor(n_features=2, positive=["dose"]),
    ),
    "balanced": (
        "yes.csv",
        ["--features", 2, "--class-weight", "balanced"],
        SparseClassifier(n_features=2, class_weight="balanced"),
    ),
    "class weight": (
        "yes.csv",
        ["--features", 2, "--class-weight", "yes=5,no=1"],
        SparseClassifier(n_features=2, class_weight={"yes": 5, "no": 1}),
    ),
    "class weight of numbers": (
        "three.csv",
        ["--features", 2, "--class-weight", "2=3"],
        SparseClassifier(n_features=2, class_weight={2: 3}),
    ),
    "ovr": (
        "three.csv",
        ["--features", 2, "--multi-class", "ovr"],
        SparseClassifier(n_features=2, multi_class="ovr"),
    ),
    "criterion": (
        "price.csv",
        ["--criterion", "bic", "--features", "0:3"],
        SparseRegressorCV(n_features=range(4), criterion="bic"),
    ),
    "criterion by itself": ("price.csv", ["--criterion", "bic"], SparseRegressorCV(criterion="bic")),
    "criterion cv": (
        "price.csv",
        ["--criterion", "cv", "--features", "1:2"],
        SparseRegressorCV(n_features=[1, 2]),
    ),
    "one standard error": (
        "price.csv",
        ["--cv", 3, "--features", "0:3", "--one-standard-error"],
        SparseRegressorCV(n_features=range(4), cv=3, one_standard_error=True),
    ),
    "scoring": (
        "yes.csv",
        ["--cv", 3, "--features", "1:2", "--scoring", "roc_auc", "--jobs", 1],
        SparseClassifierCV(n_features=[1, 2], cv=3, scoring="roc_auc"),
    ),
    "feature weight": (
        "price.csv",
        ["--level", 1.3, "--feature-weight", "age=0.7,dose=1.9"],
        SparseRegressor(level=1.3, feature_weight={"age": 0.7, "dose": 1.9}),
    ),
    "subsolver": (
        "price.csv",
        ["--level", 1.5, "--subsolver", "spectral", "--start", "direct"],
        SparseRegressor(level=1.5, subsolver="spectral", start="direct"),
    ),
    "costs": (
        "price.csv",
        ["--feature-cost", "age=3,dose=1,site=1,rest=1", "--budget", 2, "--keep", "rest"],
        SparseRegressor(feature_cost={"age": 3, "dose": 1, "site": 1, "rest": 1}, budget=2, keep=["rest"]),
    ),
}
TARGETS = {"yes.csv": YES.astype(object), "three.csv": THREE, "price.csv": SCORE}


#: Further values of an option that another case has: not in the default run.
MORE = {"ridge auto", "keep two", "criterion by itself", "criterion cv", "class weight of numbers", "balanced", "ovr"}
MORE |= {"subsolver", "ridges", "positive"}


@pytest.mark.parametrize("case", [pytest.param(one, marks=[pytest.mark.extended] * (one in MORE)) for one in CASES])
def test_an_option_gives_the_model_of_its_parameter(case, files, run, tmp_path):
    name, words, model = CASES[case]
    code, out, err = run("fit", files / name, *words, "--json", "-q", "--out", tmp_path / "m")
    assert (code, err) == (0, "")
    model.fit(FRAME, TARGETS[name])
    loaded = levelprox.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    assert getattr(loaded, "best_params_", None) == getattr(model, "best_params_", None)
    assert json.loads(out)["certificate"]["psi"] == pytest.approx(model.certificate_.psi, rel=1e-12)
    assert run("certify", tmp_path / "m", files / name)[0] == 0


def test_exposures_and_offsets_are_columns(files, run, tmp_path):
    words = (
        "--loss",
        "poisson",
        "--features",
        2,
        "--exposure",
        "years",
        "--offset",
        "base",
        "--test",
        files / "claims.csv",
    )
    code, out, _ = run(
        "fit", files / "claims.csv", *words, "--json", "--out", tmp_path / "m", "--report", tmp_path / "p"
    )
    found = json.loads(out)
    model = SparseRegressor("poisson", n_features=2).fit(FRAME, COUNT, offset=0.5 * X[:, 3], exposure=YEARS)
    assert code == 0 and found["data"]["n_features"] == 4
    np.testing.assert_allclose(levelprox.load(tmp_path / "m").coef_, model.coef_, rtol=1e-12)
    score = model.score(FRAME, COUNT, None, 0.5 * X[:, 3], YEARS)
    assert found["score"]["train"] == found["score"]["test"] == pytest.approx(score)
    columns = ("--exposure", "years", "--offset", "base")
    assert run("certify", tmp_path / "m", files / "claims.csv", *columns)[0] == 0
    assert run("certify", tmp_path / "m", files / "claims.csv", *columns[:2])[0] == 4
    code, out, err = run("predict", tmp_path / "m", files / "claims.csv", *columns, "--json")
    assert (code, err) == (0, "")
    np.testing.assert_allclose(json.loads(out)["prediction"], model.predict(FRAME, 0.5 * X[:, 3], YEARS))
    code, out, err = run("predict", tmp_path / "m", files / "claims.csv", "--json")
    assert "fitted with --exposure; these predictions are for an exposure of 1" in err
    np.testing.assert_allclose(json.loads(out)["prediction"], model.predict(FRAME))
    code, out, _ = run("path", files / "claims.csv", *words[:2], *columns, "--features", "2", "--json")
    assert json.loads(out)["path"][0]["train_score"] == pytest.approx(score)
    code, out, _ = run("path", files / "claims.csv", *words[:2], *columns, "--level", "1.5", "--json")
    assert code == 0 and json.loads(out)["data"]["n_features"] == 4


def test_offsets_of_arrays(files, run):
    code, out, _ = run("fit", files / "price.npz", "--offset", "years", "--keep", "x3", "--features", 1, "--json")
    model = SparseRegressor(n_features=1, keep=[3]).fit(X, SCORE, offset=YEARS)
    assert code == 0 and [one["index"] for one in json.loads(out)["features"]] == model.selected_features_.tolist()
    assert run("fit", files / "price.npz", "--offset", "zeit")[0] == 65


def test_path_takes_the_options_of_a_model(files, run):
    words = ("--features", "1", "--keep", "rest", "--ridge", "0.1", "--positive-for", "dose", "--json")
    code, out, _ = run("path", files / "price.csv", *words)
    model = SparseRegressor(n_features=1, keep=["rest"], ridge=0.1, positive=["dose"]).fit(FRAME, SCORE)
    assert code == 0 and json.loads(out)["path"][0]["loss"] == pytest.approx(model.certificate_.psi, rel=1e-12)
    words = ("--features", "1", "--class-weight", "yes=5", "--json")
    model = SparseClassifier(n_features=1, class_weight={"yes": 5}).fit(FRAME, YES)
    code, out, _ = run("path", files / "yes.csv", *words)
    assert json.loads(out)["path"][0]["loss"] == pytest.approx(model.certificate_.psi, rel=1e-12)


def test_path_goes_over_budgets_of_costs(files, run):
    costs = {"age": 3.0, "dose": 2.0, "site": 1.0, "rest": 1.0}
    given = ("--feature-cost", ",".join(f"{name}={cost:g}" for name, cost in costs.items()))
    code, out, _ = run("path", files / "price.csv", *given, "--budget", "5,1", "--json", "-q")
    rows = json.loads(out)["path"]
    assert code == 0 and [row["budget"] for row in rows] == [1, 5]
    for row in rows:
        model = SparseRegressor(feature_cost=costs, budget=row["budget"]).fit(FRAME, SCORE)
        assert row["spent"] == sum(costs[name] for name in row["features"]) <= row["budget"]
        assert row["features"] == model.get_feature_names_out().tolist()
    code, out, _ = run("path", files / "price.csv", *given, "--budget", "1,5", "-q")
    assert code == 0 and "budget" in out and "spent" in out
    code, _, err = run("path", files / "price.csv", *given, "--budget", "1,5", "--features", "1:2")
    assert code == 2 and "with --budget give one number of --features" in err


def test_names_of_files_without_a_header(run, tmp_path):
    FRAME.with_columns(y=SCORE).write_csv(tmp_path / "a.csv", include_header=False)
    words = ("--no-header", "--target", 5, "--keep", "4", "--features", 1, "--json")
    code, out, _ = run("fit", tmp_path / "a.csv", *words)
    assert code == 0 and {one["name"] for one in json.loads(out)["features"]} == {"column_1", "column_4"}


def test_names_of_data_that_are_read_in_turn(run, tmp_path):
    FRAME.with_columns(y=SCORE).write_parquet(tmp_path / "a.parquet")
    words = ("--chunked", "--target", "y", "--level", 1.5, "--constraint", "l1", "--feature-weight", "rest=0", "-q")
    code, out, _ = run("fit", tmp_path / "a.parquet", *words, "--json")
    assert code == 0 and "rest" in {one["name"] for one in json.loads(out)["features"]}


USAGE = [
    (["--cv", "3", "--criterion", "bic"], "--criterion bic uses no folds"),
    (["--one-standard-error"], "--one-standard-error is for a choice between budgets: give --cv, too"),
    (["--criterion", "aic", "--one-standard-error"], "not for --criterion aic"),
    (["--scoring", "r2"], "--scoring is for a choice"),
    (["--cv", "3", "--scoring", "acuracy"], "--scoring: 'acuracy' is no score of scikit-learn; did you mean accuracy?"),
    (["--cv", "3", "--scoring", "%"], "--scoring: '%' is no score of scikit-learn; accuracy,"),
    (["--jobs", "2"], "--jobs is for a choice"),
    (["--cv", "3", "--jobs", "0"], "--jobs: give a number"),
    (["--criterion", "ric"], "--criterion"),
    (["--ridge", "much"], "--ridge: 'much' is no ridge"),
    (["--ridge", "-1"], "--ridge: '-1' is no ridge: it is finite and at least 0"),
    (["--ridge", "0,1"], "--ridge: several numbers are for --cv"),
    (["--task", "regression", "--ridge", "auto"], "--ridge auto is for classification"),
    (["--ridge", "auto", "-q"], "--ridge auto is for classification"),
    (["--keep", "age,"], "--keep: a name is empty"),
    (["--keep", "age,age"], "--keep: 'age' is there twice"),
    (["--keep", '"age'], "--keep: "),
    (["--positive", "--positive-for", "age"], "give --positive, for all features, or --positive-for, not both"),
    (["--class-weight", "yes"], "--class-weight: 'yes' is no weight of ''"),
    (["--class-weight", "yes=0"], "--class-weight: a weight of 'yes=0' is 0"),
    (["--class-weight", "yes=1,yes=2"], "--class-weight: 'yes' has two weights"),
    (["--loss", "squared", "--class-weight", "balanced"], "--class-weight is for classification"),
    (["--class-weight", "balanced", "-q"], "--class-weight is for classification"),
    (["--task", "regression", "--multi-class", "ovr"], "--multi-class is for classification"),
    (["--feature-weight", "age=-1"], "--feature-weight: '-1' is no weight of 'age'"),
    (["--subsolver", "newton"], "--subsolver is for fits under a level"),
    (["--start", "direct"], "--start is for fits under a level"),
    (["--level", "1", "--subsolver", "newtn"], "did you mean newton?"),
    (["--exposure", "age"], "--exposure is for counts and amounts: give --loss poisson or --loss gamma"),
    (["--task", "classification", "--offset", "age"], "--offset is for regression"),
    (["--chunked", "--offset", "age"], "--offset needs the data in memory"),
    (["--chunked", "--cv", "3", "--scoring", "r2"], "--scoring needs the data in memory"),
    (["--memory", "10"], "--memory is for a stream"),
]


@pytest.mark.parametrize(("words", "message"), USAGE, ids=[" ".join(words) for words, _ in USAGE])
def test_errors_name_the_option(words, message, files, run):
    code, out, err = run("fit", files / "price.csv", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("levelprox: error: ") and message in err


UNKNOWN = [
    ("price.csv", ["--keep", "agee"], "--keep: 'agee' is no feature of", "did you mean 'age'?"),
    ("price.csv", ["--keep", "AGE"], "--keep: 'AGE'", "did you mean 'age'?"),
    ("price.csv", ["--positive-for", "doze"], "--positive-for: 'doze'", "did you mean 'dose'?"),
    (
        "price.csv",
        ["--feature-weight", "zzzz=1"],
        "--feature-weight: 'zzzz'",
        "there are 'age', 'dose', 'site', 'rest'",
    ),
    ("price.csv", ["--feature-cost", "agge=1", "--budget", "1"], "--feature-cost: 'agge'", "did you mean 'age'?"),
    ("price.csv", ["--offset", "bass"], "no column 'bass' for the offset", ""),
    ("price.csv", ["--offset", "y"], "target, weight, offset and dropped columns must be different", ""),
    ("yes.csv", ["--class-weight", "yess=2"], "--class-weight: 'yess' is no class of", "did you mean 'yes'?"),
    ("three.csv", ["--class-weight", "7=2"], "--class-weight: '7' is no class of", "there are '0', '1', '2'"),
    ("price.npz", ["--keep", "age"], "--keep: 'age' is no feature of", "there are 'x0', 'x1', 'x2', 'x3'"),
]


@pytest.mark.parametrize(("name", "words", "message", "hint"), UNKNOWN, ids=[" ".join(one[1]) for one in UNKNOWN])
def test_names_that_are_not_there_are_said_with_the_nearest(name, words, message, hint, files, run):
    code, out, err = run("fit", files / name, "-q", *words)
    assert (code, out, err.count("\n")) == (65, "", 1) and message in err and hint in err


#: Parameters of estimators that no option sets, and why.
NOT_OPTIONS = {
    "warm_start": "a command fits once",
    "callback": "a Python function",
    "verbose": "--quiet and --verbose",
    "fit_intercept": "--intercept",
    "n_features": "--features",
    "n_jobs": "--jobs",
    "random_state": "--seed",
}


@pytest.mark.parametrize("kind", [SparseClassifier, SparseRegressor, SparseClassifierCV, SparseRegressorCV])
def test_every_parameter_of_an_estimator_has_an_option(kind):
    there = set(inspect.signature(fit).parameters)
    assert {name for name in inspect.signature(kind).parameters if name not in there} <= NOT_OPTIONS.keys()
    assert {"exposure", "offset", "weight"} <= there


def test_the_subsolvers_offered_are_those_there_are():
    assert ("auto", *SUBSOLVERS) == _parsers.SUBSOLVERS
