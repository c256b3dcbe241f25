"""The report page without a browser: it shows what was fitted, escapes names, and is reproducible."""

import copy
import html
import json
import os
import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.metrics import confusion_matrix, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from levelprox import InvalidInputError, SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV
from levelprox.exceptions import ConvergenceWarning
from levelprox.report import page, write_page
from tests.support.estimator_cases import TASKS, estimator, may_diverge, psi, targets

EVIL = [
    "</script><img src=x onerror=alert(1)>",
    '"><b>bold</b>',
    "<!--<script>",
    "&lt;",
    "$title ${data}",
    "\ud800\0\u202e",
    "'",
]
VOID = {"meta", "input", "path", "rect", "img", "link"}


class Parsed(HTMLParser):
    """A page taken apart as a browser would: its elements, its data, and the text of each element with an id."""

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts, self.words = [], [], {}, {}, []
        self.feed(source)
        assert self.open == []
        self.data = json.loads(self.texts["data"])

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag in VOID and tag not in ("path", "rect"):
            return
        self.open.append((tag, given.get("id")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, name in self.open:
            if name is not None:
                self.texts[name] = self.texts.get(name, "") + data
        if not {"style", "script"} & {tag for tag, _ in self.open}:
            self.words.append(data)

    def said(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


def parsed(*args, **options):
    return Parsed(page(*args, **options))


def number(text):
    return float(text.replace("−", "-"))


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def regressor(diabetes):
    return SparseRegressor(n_features=4).fit(*diabetes)


@pytest.fixture(scope="module")
def plain(regressor, diabetes):
    return page(regressor, *diabetes)


@pytest.mark.parametrize(
    ("task", "mode"),
    [(task, "n_features") for task in sorted(TASKS)]
    + [(task, "level") for task in ("squared", "logistic", "softmax", "poisson", "squared_hinge ovr")],
)
def test_every_estimator_has_a_page_and_it_says_what_was_fitted(task, mode):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    y = targets(task, X, rng)
    model = estimator(task, n_features=2) if mode == "n_features" else estimator(task, level=1.5, max_iter=30)
    with may_diverge():
        model.fit(X, y)
        data = parsed(model, X, y, **{mode: [1, 2] if mode == "n_features" else [0.5, 1.5]}).data
    assert data["by"] == mode and len(data["fits"]) == 2 and data["own"] == 1
    own = data["fits"][1]
    names = [data["features"][i] for i, _ in own["rows"]]
    assert sorted(names) == [f"x{j}" for j in model.selected_features_]
    scaled = np.atleast_2d(model.coef_) * model.scale_
    sizes = [np.linalg.norm(scaled[:, int(name[1:])]) for name in names]
    assert sizes == sorted(sizes, reverse=True)
    for name, (_, cells) in zip(names, own["rows"], strict=True):
        shown = [number(cell[0]) for cell in cells]
        coef = np.atleast_2d(model.coef_)[:, int(name[1:])]
        wanted = coef if coef.size > 1 else [coef[0], scaled[0, int(name[1:])]]
        np.testing.assert_allclose(shown, wanted, rtol=1e-3)
    losses = data["charts"][0]["series"][0]["values"]
    assert losses[1] == pytest.approx(psi(model, X, y), rel=1e-5)
    assert data["notice"] == ""
    assert own["status"] == [str(model.status_).replace("_", " "), "good" if model.status_ == 0 else "short"]


def test_the_written_part_is_the_model_itself(regressor, plain):
    seen = Parsed(plain)
    assert seen.texts["budget"] == "at most 4 features"
    for j in regressor.selected_features_:
        assert f"x{j}" in seen.texts["features"]
        assert f"{regressor.coef_[j]:#.4g}".replace("-", "−") in seen.texts["features"]
    assert "4 of at most 4 features" in seen.texts["facts"]
    assert str(regressor.certificate_.swaps) in seen.texts["facts"]
    assert seen.texts["status"] == "solved"
    assert "squared loss · 442 samples × 10 features" in seen.said()
    assert [one["label"] for one in seen.data["fits"]] == [f"at most {k} feature{'s' * (k != 1)}" for k in range(5)]


def test_no_network_request_and_only_its_own_script_may_run(plain):
    tags = Parsed(plain).tags
    policy = next(given["content"] for tag, given in tags if given.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in policy
    for tag, given in tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form"}
        assert not {"src", "href", "style", "srcset", "action"} & set(given), (tag, given)
        assert not any(name.startswith("on") for name in given)
    outside = re.findall(r"https?://[^\s\"'<>)]+", plain)
    assert set(outside) <= {"http://www.w3.org/2000/svg"}


def test_names_can_do_nothing(diabetes):
    pandas = pytest.importorskip("pandas")
    X, y = diabetes
    names = [*EVIL, "a", "b", "c"]
    frame = pandas.DataFrame(X, columns=pandas.Index(names, dtype=object))  # Arrow's strings cannot be as bad as these
    labels = np.array(["<i>low</i>", "</td><script>alert(2)</script>"])[(y > np.median(y)).astype(int)]
    with may_diverge():
        model = SparseClassifier(n_features=10).fit(frame, labels)
        source = page(model, frame, labels, n_features=[10], title="</title><script>alert(3)</script>")
    source.encode("utf-8")
    seen = Parsed(source)
    assert [tag for tag, _ in seen.tags].count("script") == 2
    assert not set("<>&") & set(seen.texts["data"])
    assert not any(tag in {"img", "b", "i"} for tag, _ in seen.tags)
    assert [seen.data["features"][i] for i, _ in seen.data["fits"][0]["rows"]] != []
    assert set(seen.data["features"]) == {*names} - {EVIL[5]} | {"\ufffd\ufffd\u202e"}
    for name in EVIL[:5]:
        assert name in seen.texts["features"]
    assert "</title><script>alert(3)" in "".join(seen.words)
    assert "</td><script>alert(2)</script>" in seen.texts["classes"]
    assert html.escape(EVIL[0]) in source


def test_the_same_model_and_data_give_the_same_bytes(regressor, diabetes, plain):
    assert page(regressor, *diabetes) == plain
    assert page(SparseRegressor(n_features=4).fit(*diabetes), *diabetes) == plain


def test_the_model_is_left_as_it_is(diabetes):
    model = SparseRegressor(n_features=2).fit(*diabetes)
    before = {name: repr(value) for name, value in vars(model).items()}
    page(model, *diabetes, n_features=[1, 3])
    assert {name: repr(value) for name, value in vars(model).items()} == before


def test_the_model_joins_fits_under_other_budgets(regressor, diabetes):
    data = parsed(regressor, *diabetes, n_features=[9, 1, 1]).data
    assert data["budgets"] == [1, 4, 9] and data["own"] == 1
    single = SparseRegressor(n_features=9).fit(*diabetes)
    assert data["charts"][0]["series"][0]["values"][2] == pytest.approx(single.certificate_.psi, rel=1e-5)


def test_fits_that_are_there_are_not_fitted_again(regressor, diabetes, plain, monkeypatch):
    fits = regressor.fit_path(*diabetes)
    monkeypatch.setattr(SparseRegressor, "fit_path", None)
    assert page(regressor, *diabetes, fits=fits) == plain
    assert page(regressor, *diabetes, fits=fits[:4][::-1]) == plain


def test_one_fit_alone(regressor, diabetes):
    seen = parsed(regressor, *diabetes, fits=[])
    assert seen.data["budgets"] == [4] and seen.data["own"] == 0
    assert next(given for _, given in seen.tags if given.get("id") == "slider")["max"] == "0"


@pytest.mark.parametrize("options", [{"n_features": 0}, {"level": 0.0}])
def test_no_feature_at_all(options, diabetes):
    model = SparseRegressor(**options).fit(*diabetes)
    seen = parsed(model, *diabetes)
    assert seen.data["fits"][0]["rows"] == [] and seen.data["lines"]["features"] == []
    assert "intercept" in seen.texts["features"]


def test_without_an_intercept_and_without_standardising(diabetes):
    model = SparseRegressor(n_features=2, fit_intercept=False, standardize=False).fit(*diabetes)
    data = parsed(model, *diabetes).data
    assert data["columns"] == ["coefficient"]
    assert data["fits"][2]["intercept"] == []
    assert data["lines"]["title"] == "Coefficient"
    assert data["fits"][2]["rows"][0][1][0][1] == 100 * np.sign(number(data["fits"][2]["rows"][0][1][0][0]))


def test_test_data_are_judged(diabetes):
    X, y = diabetes
    model = SparseRegressor(n_features=3).fit(X[:300], y[:300])
    data = parsed(model, X[:300], y[:300], test=(X[300:], y[300:])).data
    training, test = data["charts"][0]["series"]
    assert (training["name"], test["name"]) == ("training", "test")
    assert test["values"][3] == pytest.approx(np.mean((y[300:] - model.predict(X[300:])) ** 2), rel=1e-5)
    tile = next(tile for tile in data["fits"][3]["tiles"] if tile[0] == "Test error")
    assert number(tile[1]) == pytest.approx(test["values"][3], rel=1e-3)
    assert number(tile[2].split("R² ")[1]) == pytest.approx(r2_score(y[300:], model.predict(X[300:])), rel=1e-2)
    outcome = data["outcome"]
    assert outcome["of"] == "test" and outcome["shown"] == outcome["all"] == 142
    step = (outcome["high"] - outcome["low"]) / 1000
    np.testing.assert_allclose(outcome["low"] + step * np.array(outcome["actual"]), y[300:], atol=step)
    predicted = outcome["low"] + step * np.array(outcome["predicted"][3])
    np.testing.assert_allclose(predicted, model.predict(X[300:]), atol=step)


@pytest.fixture(scope="module")
def wine():
    """Wine of named kinds, rows to train and to test with, and a model."""
    X, y = load_wine(return_X_y=True)
    X, names = X[:, [0, 6, 9, 12]], np.array(["red", "white", "sparkling"])[y]
    order = np.random.default_rng(0).permutation(178)
    train, test = order[:120], order[120:]
    with may_diverge():
        return X, names, train, test, SparseClassifier(n_features=2).fit(X[train], names[train])


def test_confusion_of_training_and_test_data(wine):
    X, names, train, test, model = wine
    with may_diverge():
        data = parsed(model, X[train], names[train], test=(X[test], names[test]), n_features=[0, 1]).data
        alone = parsed(model, X[train], names[train], fits=[]).data
    assert data["outcome"]["names"] == ["red", "sparkling", "white"]
    wanted = confusion_matrix(names[test], model.predict(X[test]))
    np.testing.assert_array_equal(data["outcome"]["counts"][2], wanted)
    np.testing.assert_array_equal(
        alone["outcome"]["counts"][0], confusion_matrix(names[train], model.predict(X[train]))
    )
    wrong = wanted.sum() - np.trace(wanted)
    assert data["charts"][1]["series"][1]["values"][2] == pytest.approx(wrong / 58, rel=1e-5)
    assert ["Test error", f"{100 * wrong / 58:.3g} %", f"{wrong} of 58 wrong"] in data["fits"][2]["tiles"]
    assert data["columns"] == ["red", "sparkling", "white"] and len(data["fits"][2]["rows"][0][1]) == 3


def test_classes_that_no_fit_knows_and_many_classes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    y = rng.integers(0, 15, 200)
    with may_diverge():
        model = SparseClassifier(ridge=0, n_features=1).fit(X, y)
        data = parsed(model, X, y, fits=[], test=(X[:20], np.where(np.arange(20) < 5, 99, y[:20]))).data
    outcome = data["outcome"]
    assert len(outcome["names"]) == 12 and outcome["names"][-1] == "other"
    assert outcome["rows"][-1] == "not seen in training"
    assert sum(map(sum, outcome["counts"][0])) == 20 and sum(outcome["counts"][0][-1]) == 5
    assert data["charts"][0]["series"][1]["values"] == [None]
    assert len(data["columns"]) == 8 and "7 more classes" in data["fits"][0]["left_out"]


def test_scores_of_a_model_that_chose(diabetes):
    X, y = diabetes[0][:, 2:7], diabetes[1]
    model = SparseRegressorCV(n_features=range(4), cv=3).fit(X, y)
    data = parsed(model, X, y).data
    held_out = data["charts"][0]["series"][1]
    assert held_out["name"] == "held out"
    np.testing.assert_allclose(held_out["values"], -model.cv_results_["mean_test_score"], rtol=1e-5)
    np.testing.assert_allclose(held_out["errors"], model.cv_results_["standard_error"], rtol=1e-5)
    tile = next(tile for tile in data["fits"][data["own"]]["tiles"] if tile[0] == "Held-out score")
    value, error = map(number, tile[1].split(" ± "))
    assert value == pytest.approx(-model.best_score_, rel=1e-3)
    assert error == pytest.approx(model.cv_results_["standard_error"][model.best_index_], rel=5e-2)
    assert "3 folds" in tile[2]
    assert data["own"] == model.best_index_
    wider = parsed(model, X, y, n_features=[0, 5]).data
    assert wider["charts"][0]["series"][1]["values"][-1] is None
    assert ["Held-out score", "–", "not among the budgets tried"] in wider["fits"][-1]["tiles"]


@pytest.fixture(scope="module")
def chosen():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:200, :3], y[:200]
    with may_diverge():
        auc = SparseClassifierCV(n_features=[1, 2], cv=2, scoring="roc_auc").fit(X, y)
        accuracy = SparseClassifierCV(n_features=[0, 1], cv=2, scoring="accuracy").fit(X, y)
        bic = SparseClassifierCV(level=[1.0, 2.0], criterion="bic").fit(X, y)
    return X, y, auc, accuracy, bic


def test_scores_of_other_kinds_have_a_chart_of_their_own(chosen):
    X, y, auc, accuracy, bic = chosen
    with may_diverge():
        charts = parsed(auc, X, y).data["charts"]
        assert [one["title"] for one in charts][2] == "ROC AUC of held-out samples"
        np.testing.assert_allclose(charts[2]["series"][0]["values"], auc.cv_results_["mean_test_score"], rtol=1e-5)
        error = parsed(accuracy, X, y).data["charts"][1]["series"]
        np.testing.assert_allclose(error[1]["values"], 1 - accuracy.cv_results_["mean_test_score"], rtol=1e-5)
        data = parsed(bic, X, y).data
    assert data["by"] == "level" and data["fits"][0]["label"] == "level η = 1"
    np.testing.assert_allclose(data["charts"][2]["series"][0]["values"], bic.cv_results_["bic"], rtol=1e-5)
    assert any(tile[0] == "Criterion" for tile in data["fits"][0]["tiles"])


@pytest.mark.parametrize("kind", ["float32", "csr", "csc", "frame"])
def test_the_same_page_from_every_container(kind, diabetes, regressor, plain):
    X, y = diabetes
    names = [f"x{j}" for j in range(10)]
    given = {
        "float32": lambda: X.astype(np.float32),
        "csr": lambda: scipy.sparse.csr_array(X),
        "csc": lambda: scipy.sparse.csc_matrix(X),
        "frame": lambda: pytest.importorskip("pandas").DataFrame(X, columns=names),
    }[kind]()
    model = SparseRegressor(n_features=4).fit(given, y)
    data, dense = parsed(model, given, y).data, Parsed(plain).data
    assert data["notice"] == ""
    assert [[data["features"][i] for i, _ in fit["rows"]] for fit in data["fits"]] == [
        [dense["features"][i] for i, _ in fit["rows"]] for fit in dense["fits"]
    ]
    for ours, theirs in zip(data["lines"]["values"], dense["lines"]["values"], strict=True):
        np.testing.assert_allclose(np.array(ours, float), np.array(theirs, float), rtol=1e-3)


@pytest.mark.parametrize("kind", [SparseClassifier, SparseRegressor])
def test_weights_count_as_repeated_samples(kind, diabetes):
    X, y = diabetes[0][:, 2:6], diabetes[1]
    y = y if kind is SparseRegressor else y > 150
    weight = np.random.default_rng(0).integers(0, 3, y.size).astype(float)
    rows = np.repeat(np.arange(y.size), weight.astype(int))
    ours = parsed(kind(n_features=2).fit(X, y, sample_weight=weight), X, y, sample_weight=weight).data
    theirs = parsed(kind(n_features=2).fit(X[rows], y[rows]), X[rows], y[rows]).data
    assert ours["notice"] == theirs["notice"] == ""
    for one, other in zip(ours["charts"], theirs["charts"], strict=True):
        np.testing.assert_allclose(one["series"][0]["values"], other["series"][0]["values"], rtol=1e-5)
    for mine, other in zip(ours["fits"], theirs["fits"], strict=True):
        assert mine["tiles"][1][1] == other["tiles"][1][1]
    shown = np.sum(ours["outcome"]["counts"][0]) if kind is SparseClassifier else ours["outcome"]["all"]
    assert shown == np.count_nonzero(weight)


@pytest.mark.parametrize("kind", [SparseClassifier, SparseRegressor])
def test_weights_of_test_samples_count_as_repeated_samples(kind, diabetes):
    X, y = diabetes[0][:, 2:6], diabetes[1]
    y = y if kind is SparseRegressor else y > 150
    model = kind(n_features=2).fit(X[:300], y[:300])
    X_test, y_test = X[300:], y[300:]
    weight = np.random.default_rng(0).integers(0, 4, y_test.size).astype(float)
    rows = np.repeat(np.arange(y_test.size), weight.astype(int))
    ours = parsed(model, X[:300], y[:300], test=(X_test, y_test, weight)).data
    theirs = parsed(model, X[:300], y[:300], test=(X_test[rows], y_test[rows])).data
    for one, other in zip(ours["charts"], theirs["charts"], strict=True):
        np.testing.assert_allclose(one["series"][1]["values"], other["series"][1]["values"], rtol=1e-5)
    for mine, other in zip(ours["fits"], theirs["fits"], strict=True):
        assert mine["tiles"][2][1] == other["tiles"][2][1]
    plain = parsed(model, X[:300], y[:300], test=(X_test, y_test)).data
    assert plain["charts"] == parsed(model, X[:300], y[:300], test=(X_test, y_test, None)).data["charts"]
    assert plain["charts"] != ours["charts"]
    with pytest.raises(InvalidInputError, match="weights of test samples"):
        page(model, X, y, test=(X_test, y_test, 0 * weight), fits=[])


def test_of_two_classes_the_page_says_which_is_positive(diabetes):
    X, y = diabetes[0][:, 2:6], diabetes[1]
    labels = np.where(y > 150, "high", "low")
    model = SparseClassifier(n_features=1).fit(X, labels)
    words = "Positive coefficients favour class low, negative ones class high."
    assert words in parsed(model, X, labels, fits=[]).said()
    towards = X[np.argmax(model.coef_[0] @ X.T)]
    assert model.predict(towards[None])[0] == "low"
    three = np.digitize(y, [100, 200])
    assert parsed(SparseClassifier(n_features=1).fit(X, three), X, three, fits=[]).data["sign"] == ""


def test_a_price_that_was_not_computed_is_not_shown(regressor, diabetes):
    stopped = copy.copy(regressor)
    stopped.multiplier_ = float("nan")
    stopped.certificate_ = replace(regressor.certificate_, multiplier=float("nan"), addition=None)
    tile = parsed(stopped, *diabetes, fits=[]).data["fits"][0]["tiles"][-1]
    assert tile == ["Shadow price", "—", "not examined: the fit was stopped"]


def test_fits_of_other_classes_do_not_go_into_one_figure(diabetes):
    X, y = diabetes[0][:, 2:6], diabetes[1]
    three = np.digitize(y, [100, 200])
    model = SparseClassifier(n_features=2).fit(X, three)
    some = three < 2
    with pytest.raises(InvalidInputError, match=r"y has the classes \[0, 1\], the model \[0, 1, 2\]"):
        page(model, X[some], three[some])
    with pytest.raises(InvalidInputError, match=r"y has the classes \[0, 1\]"):
        page(model, X, three, sample_weight=some.astype(float))
    with pytest.raises(InvalidInputError, match=r"fits\[0\] was fitted to other classes"):
        page(model, X, three, fits=[SparseClassifier(n_features=1).fit(X, three + 1)])
    assert "not the data that the model was fitted to" in parsed(model, X[some], three[some], fits=[]).said()


def test_offsets_and_exposures():
    rng = np.random.default_rng(0)
    X, exposure = rng.standard_normal((80, 5)), rng.uniform(0.5, 2, 80)
    y = rng.poisson(exposure * np.exp(0.5 * X[:, 0])).astype(float)
    model = SparseRegressor("poisson", n_features=1).fit(X, y, exposure=exposure)
    more = {"exposure": exposure}
    data = parsed(model, X, y, fit_params=more, test=(X[:9], y[:9]), test_params={"exposure": exposure[:9]}).data
    assert data["notice"] == ""
    assert data["charts"][0]["series"][0]["values"][1] == pytest.approx(model.certificate_.psi, rel=1e-5)
    mean = model.predict(X[:9], exposure=exposure[:9])
    assert data["charts"][0]["series"][1]["values"][1] == pytest.approx(np.mean(mean - y[:9] * np.log(mean)), rel=1e-5)


def test_data_other_than_those_of_the_fit_are_reported(regressor, diabetes):
    X, y = diabetes
    seen = parsed(regressor, X[:200], y[:200], fits=[])
    assert "not the data that the model was fitted to" in seen.said()
    labels = np.where(y > 150, "high", "low")
    with may_diverge():
        model = SparseClassifier(n_features=1, class_weight="balanced").fit(X, labels)
        assert parsed(model, X, labels, fits=[]).data["notice"] == ""
        assert "they have other classes" in parsed(model, X, np.where(y > 150, "high", "other"), fits=[]).said()


@pytest.mark.parametrize("options", [{}, {"standardize": False}, {"keep": [3]}, {"fit_intercept": False}])
def test_a_ridge_does_not_make_other_data_of_those_of_the_fit(options):
    X, y = load_wine(return_X_y=True)
    model = SparseClassifier(n_features=2, ridge=0.05, **options).fit(X, y > 0, np.arange(y.size) % 3 + 1.0)
    page = parsed(model, X, y > 0, sample_weight=np.arange(y.size) % 3 + 1.0, fits=[])
    assert "not the data that the model was fitted to" not in page.said()


def test_fits_that_end_short_are_reported_once():
    X = np.random.default_rng(0).standard_normal((60, 5))
    y = X[:, :3].sum(axis=1) > 0  # three features separate the classes
    model = SparseClassifier(n_features=2, ridge=0).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="some ended before their tolerance, at 3, 4") as caught:
        data = parsed(model, X, y, n_features=[1, 3, 4]).data
    assert len(caught) == 1
    assert data["sure"] == [True, True, False, False]
    assert data["fits"][3]["status"] == ["diverging", "short"]
    assert data["fits"][3]["facts"][0][0] == "why it ended"
    assert all(line[2] is None and line[3] is None for line in data["lines"]["values"])


def test_a_page_of_very_many_features_is_small():
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((300, 20_000), density=1e-2, format="csc", rng=rng)
    y = X[:, :40] @ rng.standard_normal(40) + 0.01 * rng.standard_normal(300)
    model = SparseRegressor(n_features=2).fit(X, y)
    fits = [copy.copy(model) for _ in range(30)]
    for k, one in enumerate(fits, 3):  # what a larger fit would look like, without the search for it
        one.level_ = float(40 * k)
        one.coef_ = np.zeros(20_000)
        one.coef_[rng.choice(20_000, 40 * k, replace=False)] = rng.standard_normal(40 * k)
    source = page(model, X, y, fits=fits, test=(X, y))
    data = Parsed(source).data
    assert max(len(fit["rows"]) for fit in data["fits"]) == 100
    assert data["fits"][-1]["left_out"] == "and 1180 more features"
    assert len(data["lines"]["features"]) == 150 and data["lines"]["left_out"] > 1000
    assert len(source) < 500_000
    assert len(page(model, X, y, fits=fits[:0])) < 60_000


def test_many_samples_are_drawn_in_part():
    X = np.random.default_rng(0).standard_normal((20_000, 3))
    y = X[:, 0] + 1e3
    data = parsed(SparseRegressor(n_features=1).fit(X, y), X, y).data
    assert data["outcome"]["shown"] == 2000 and data["outcome"]["all"] == 20_000


def test_predictions_beyond_every_number_are_drawn_at_the_edge():
    X = np.vstack([np.random.default_rng(0).standard_normal((50, 2)), [[1e4, 0]]])
    y = np.exp(X[:50, 0]).round() + 1
    model = SparseRegressor("poisson", n_features=1).fit(X[:50], y)
    data = parsed(model, X[:50], y, test=(X, [*y, 3.0])).data
    assert data["outcome"]["predicted"][1][-1] == 1000
    assert data["charts"][0]["series"][1]["values"][1] is None


def test_a_constant_target():
    X = np.random.default_rng(0).standard_normal((20, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        data = parsed(SparseRegressor(n_features=1).fit(X, np.ones(20)), X, np.ones(20)).data
    assert not any("R²" in tile[2] for tile in data["fits"][0]["tiles"])


def test_pages_are_written_whole(tmp_path, regressor, diabetes, plain):
    path = tmp_path / "page.html"
    path.write_text("before")
    write_page(path, regressor, *diabetes)
    assert path.read_bytes() == plain.encode()
    assert os.listdir(tmp_path) == ["page.html"]
    with pytest.raises(FileNotFoundError):
        write_page(tmp_path / "nowhere" / "page.html", regressor, *diabetes)


def test_what_cannot_be_shown_is_refused(regressor, diabetes):
    X, y = diabetes
    with pytest.raises(NotFittedError):
        page(SparseRegressor(), X, y)
    with pytest.raises(
        InvalidInputError, match="a page needs a certificate, and a model updated by partial_fit has none"
    ):
        page(SparseRegressor(n_features=1).partial_fit(X, y), X, y)
    with pytest.raises(InvalidInputError, match="fitted with n_features"):
        page(regressor, X, y, level=[1.0])
    with pytest.raises(InvalidInputError, match="either fits or the budgets"):
        page(regressor, X, y, n_features=[1], fits=[regressor])
    with pytest.raises(InvalidInputError, match=r"fits\[0\] was fitted with level"):
        page(regressor, X, y, fits=[SparseRegressor(level=1.5).fit(X, y)])
    with pytest.raises(InvalidInputError, match=r"fits\[1\] has coefficients of shape \(3,\)"):
        page(regressor, X, y, fits=[regressor, SparseRegressor(n_features=1).fit(X[:, :3], y)])
    with pytest.raises(InvalidInputError, match="test must be"):
        page(regressor, X, y, test=X)
    pipeline = make_pipeline(StandardScaler(), SparseRegressor(n_features=1)).fit(X, y)
    with pytest.raises(InvalidInputError, match=r"got Pipeline\. For a pipeline, give its last step"):
        page(pipeline, X, y)
    page(pipeline[-1], pipeline[:-1].transform(X), y)
    with pytest.raises(InvalidInputError, match="as many samples"):
        page(regressor, X, y, test=(X, y[:5]))
    with pytest.raises(InvalidInputError, match="one value for each sample"):
        page(regressor, X, np.column_stack([y, y]))
