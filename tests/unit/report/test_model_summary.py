"""Summaries: their figures against refits that share no code with levelprox, and their text."""

import builtins
import math
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from scipy.optimize import linprog, minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import levelprox
from levelprox import InvalidInputError, SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV
from levelprox.report import ModelSummary
from levelprox.subset.near_swaps import near_swaps

rng = np.random.default_rng(3)
N, D = 70, 7
X = rng.standard_normal((N, D))
X[:, 5] = X[:, 0] + 0.04 * rng.standard_normal(N)  # a feature that may take the place of another
Z = X[:, 0] - 0.8 * X[:, 1] + 0.4 * X[:, 2]
Y = {
    "squared": Z + 0.6 * rng.standard_normal(N),
    "logistic": Z + rng.logistic(size=N) > 0,
    "poisson": rng.poisson(np.exp(0.5 * Z)),
    "gamma": np.exp(0.5 * Z) * rng.gamma(3, size=N) / 3,
    "softmax": np.digitize(Z + 0.8 * rng.logistic(size=N), [-0.7, 0.7]),
}
Y["absolute"] = Y["huber"] = Y["squared"]
Y["hinge"] = Y["squared_hinge"] = Y["logistic"]


@cache
def fitted(loss, k=2, **options):
    kind = SparseClassifier if loss in ("logistic", "softmax", "hinge", "squared_hinge") else SparseRegressor
    options = {"ridge": 0, **options}  # as the refits
    return kind("logistic" if loss == "softmax" else loss, n_features=k, **options).fit(X, Y[loss])


def refitted(loss, features):
    """The least loss over these features and an intercept."""
    A, y = np.column_stack([X[:, list(features)], np.ones(N)]), Y[loss]
    if loss == "squared":
        x = np.linalg.lstsq(A, y, rcond=None)[0]
        return float(np.mean((A @ x - y) ** 2))
    if loss in ("absolute", "hinge"):
        return by_linear_program(loss, A, y)
    if loss == "softmax":
        return by_descent(lambda x: softmax(A, y, x.reshape(-1, 3)), 3 * A.shape[1])
    return by_descent(lambda x: smooth_loss(loss, A @ x, y), A.shape[1])


def smooth_loss(loss, z, y):
    if loss == "logistic":
        return np.mean(np.logaddexp(0, -np.where(y, z, -z)))
    if loss == "squared_hinge":
        return np.mean(np.maximum(0, 1 - np.where(y, z, -z)) ** 2)
    if loss == "poisson":
        return np.mean(np.exp(z) - y * z)
    if loss == "gamma":
        return np.mean(z + y * np.exp(-z))
    r = np.abs(z - y)
    return np.mean(np.where(r <= 1.35, r**2 / 2, 1.35 * (r - 1.35 / 2)))


def softmax(A, y, x):
    z = A @ x
    return np.mean(np.logaddexp.reduce(z, axis=1) - z[np.arange(y.size), y])


def by_descent(fun, size):
    end = minimize(fun, np.zeros(size), method="BFGS", options={"gtol": 1e-9})
    return float(minimize(fun, end.x, method="BFGS", options={"gtol": 1e-9}).fun)


def by_linear_program(loss, A, y):
    n, m = A.shape
    one = np.eye(n)
    if loss == "absolute":
        rows, right = np.block([[A, -one], [-A, -one]]), np.concatenate([y, -y])
    else:
        rows, right = np.hstack([-np.where(y, 1.0, -1.0)[:, None] * A, -one]), -np.ones(n)
    cost = np.concatenate([np.zeros(m), np.full(n, 1 / n)])
    bounds = [(None, None)] * m + [(0, None)] * n
    return float(linprog(cost, rows, right, bounds=bounds).fun)


def with_marks(*extended):
    """All losses, some of them for the extended tests."""
    return [pytest.param(loss, marks=pytest.mark.extended) if loss in extended else loss for loss in sorted(Y)]


LEAST = {"poisson": lambda y: np.mean(y - y * np.log(np.maximum(y, 1e-300))), "gamma": lambda y: np.mean(1 + np.log(y))}


@pytest.mark.parametrize("loss", with_marks("gamma", "huber", "squared_hinge", "softmax"))
def test_figures_are_those_of_independent_refits(loss):
    model = fitted(loss)
    own = model.selected_features_.tolist()
    least = LEAST.get(loss, lambda y: 0.0)(Y[loss])
    base, null = refitted(loss, own), refitted(loss, [])
    summary = model.summary(X, Y[loss])
    assert summary.statistics["loss"] == pytest.approx(base, rel=1e-7)
    assert summary.statistics["null_loss"] == pytest.approx(null, rel=1e-7)
    assert summary.statistics["explained"] == pytest.approx(1 - (base - least) / (null - least), rel=1e-6)
    limit = base + 0.01 * (base - least)
    for row in summary.features:
        found = row.contribution
        others = [j for j in own if j != row.feature]
        assert found.increase == pytest.approx(refitted(loss, others) - base, rel=1e-5) and found.checked
        swapped = {j: refitted(loss, [*others, j]) for j in range(D) if j not in own}
        near = sorted((psi, j) for j, psi in swapped.items() if psi <= limit)
        assert (found.swaps, found.examined, found.total) == (len(near), D - 2, D - 2)
        assert [j for j, _ in found.instead] == [j for _, j in near]
        np.testing.assert_allclose([rise for _, rise in found.instead], [psi - base for psi, _ in near], atol=1e-7)
        assert row.instead == tuple(f"x{j}" for _, j in near)
    assert any(row.instead for row in summary.features)  # the copy of feature 0


def test_a_feature_that_can_be_left_out_can_be_swapped_for_any_other():
    model = fitted("squared", k=5)
    base = refitted("squared", model.selected_features_)
    for row in model.summary(X, Y["squared"]).features:
        others = [j for j in model.selected_features_ if j != row.feature]
        without = refitted("squared", others)
        found = row.contribution
        assert found.dispensable == (without <= 1.01 * base)
        if found.dispensable:
            assert found.swaps == found.examined == found.total == D - 5
            assert all(refitted("squared", [*others, j]) <= without for j, _ in found.instead)
    assert "any of 2" in str(model.summary(X, Y["squared"]))


def test_scores_are_those_of_the_training_data():
    model = fitted("logistic")
    known = model.summary(X, Y["logistic"]).statistics
    assert known["accuracy"] == accuracy_score(Y["logistic"], model.predict(X))
    assert known["auc"] == pytest.approx(roc_auc_score(Y["logistic"], model.decision_function(X)))
    model = fitted("softmax")
    found = model.summary(X, Y["softmax"]).statistics["auc"]
    assert found == pytest.approx(roc_auc_score(Y["softmax"], model.predict_proba(X), multi_class="ovr"))
    model = fitted("squared")
    summary = model.summary(X, Y["squared"])
    assert summary.statistics["r2"] == pytest.approx(r2_score(Y["squared"], model.predict(X)))
    assert dict(summary.facts)["training data"].startswith("R² ")
    assert "auc" not in SparseClassifier("hinge", n_features=1).fit(X, Y["softmax"]).summary(X, Y["softmax"]).statistics


def test_weights_offsets_and_exposures_are_those_of_the_fit():
    weight, offset = np.arange(N) % 3, 0.3 * X[:, 6]
    model = SparseRegressor(n_features=1).fit(X, Y["squared"], weight, offset)
    (row,) = model.summary(X, Y["squared"], weight, offset=offset).features
    left = Y["squared"] - offset
    mean = np.average(left, weights=weight)
    null = np.average((left - mean) ** 2, weights=weight)
    assert row.contribution.increase == pytest.approx(null - model.certificate_.psi)
    exposure = rng.uniform(0.5, 2, N)
    model = SparseRegressor("poisson", n_features=2).fit(X, Y["poisson"], exposure=exposure)
    known = model.summary(X, Y["poisson"], exposure=exposure).statistics
    assert known["loss"] == pytest.approx(model.certificate_.psi)
    assert known["explained"] == pytest.approx(model.score(X, Y["poisson"], exposure=exposure), abs=0.2)


def test_ratios_and_units():
    model = fitted("logistic")
    for row in model.summary().features:
        (coefficient,) = row.coefficient
        assert coefficient == model.coef_[0, row.feature]
        assert row.standardized == (pytest.approx(coefficient * np.std(X[:, row.feature])),)
        assert row.ratio == (pytest.approx(math.exp(coefficient)),)
    assert fitted("poisson").summary().ratio_name == "rate ratio"
    assert fitted("gamma").summary().ratio_name == "mean ratio"
    assert fitted("squared").summary().ratio_name is None and fitted("hinge").summary().ratio_name is None
    model = fitted("softmax")
    for row in model.summary().features:  # does not depend on a shift of all classes
        shifted = model.coef_[:, row.feature] + 7
        np.testing.assert_allclose(row.ratio, np.exp(shifted - shifted.mean()))


def test_without_data_it_says_what_the_model_knows():
    model = fitted("logistic")
    summary = model.summary()
    assert summary.statistics == {
        "n_samples": N,
        "n_features_in": D,
        "n_features": 2,
        "loss": model.certificate_.psi,
    }
    assert all(row.contribution is None for row in summary.features)
    text = str(summary)
    assert "summary(X, y) adds" in text and "loss if left out" not in text and "training data" not in text
    assert "p-values of these coefficients are not valid" in " ".join(text.split())


@pytest.mark.parametrize(
    "scoring", [None, *(pytest.param(one, marks=pytest.mark.extended) for one in ("roc_auc", "neg_log_loss"))]
)
def test_what_cross_validation_found(scoring):
    model = SparseClassifierCV(n_features=[1, 2], cv=3, scoring=scoring).fit(X, Y["logistic"])
    known = model.summary().statistics
    assert known["cv_score"] == model.best_score_ and known["cv_folds"] == 3 and known["cv_scoring"] == scoring
    assert known["cv_standard_error"] == model.cv_results_["standard_error"][model.best_index_]
    name = {None: "loss of", "roc_auc": "ROC AUC of", "neg_log_loss": "log loss of"}[scoring]
    words = dict(model.summary(X, Y["logistic"]).facts)["cross-validation"]
    assert words.startswith(f"{name} held-out samples {abs(model.best_score_):.4g} ± ")
    assert f"n_features = {model.best_params_['n_features']}, chosen from 2 candidates" in words


def test_what_a_criterion_found():
    model = SparseRegressorCV(n_features=[1, 2, 3], criterion="bic").fit(X, Y["squared"])
    assert model.summary().statistics["bic"] == model.best_score_
    assert dict(model.summary().facts)["chosen by"].startswith(f"BIC {model.best_score_:.6g}, the lowest")


def test_names_of_frames_and_escaped_html():
    names = ["a<b", "sex", "x", "y", "z", "tw&in", "w"]
    for frame in pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names):
        model = SparseRegressor("huber", n_features=2).fit(frame, Y["huber"])
        summary = model.summary(frame, Y["huber"])
        found = {row.name: row.instead for row in summary.features}
        assert found == {"tw&in": ("a<b",), "sex": ()}
        assert "tw&in" in str(summary) and "a<b (+" in str(summary)
        html = summary._repr_html_()
        assert "a&lt;b" in html and "tw&amp;in" in html and "a<b" not in html and "tw&in" not in html


def test_frames_have_a_row_for_each_feature_and_class():
    frame = fitted("logistic").summary(X, Y["logistic"]).to_frame()
    assert frame["feature"].tolist()[-1] == "(intercept)" and len(frame) == 3
    assert list(frame) == [
        "feature",
        "coefficient",
        "odds_ratio",
        "standardized",
        "loss_increase",
        "near_swaps",
        "swaps_examined",
        "swaps_total",
        "instead",
    ]
    assert frame["swaps_total"].tolist()[:2] == [5, 5] and frame["swaps_total"].isna().tolist()[-1]
    model = fitted("softmax")
    frame = model.summary().to_frame()
    assert len(frame) == 9 and frame["class"].tolist() == ["0", "1", "2"] * 3
    assert frame["near_swaps"].isna().all() and frame["loss_increase"].isna().all()
    j = model.selected_features_[0]
    assert frame.loc[frame["feature"] == f"x{j}", "coefficient"].tolist() == model.coef_[:, j].tolist()


def test_frames_need_pandas(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **options):
        if name.split(".")[0] == "pandas":
            raise ImportError(name)
        return real(name, *args, **options)

    summary = fitted("squared").summary()
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"to_frame\(\) needs pandas: pip install pandas"):
        summary.to_frame()


def test_features_that_are_kept_and_models_without_features():
    model = SparseRegressor(n_features=1, feature_weight=[1] * 6 + [0]).fit(X, Y["squared"])
    rows = {row.feature: row for row in model.summary(X, Y["squared"]).features}
    assert not rows[6].counts and rows[6].contribution.swaps is None
    other = next(j for j in rows if j != 6)
    without = refitted("squared", [other]) - refitted("squared", [other, 6])
    assert rows[6].contribution.increase == pytest.approx(without)
    assert "always kept" in str(model.summary(X, Y["squared"]))
    empty = SparseRegressor(n_features=0).fit(X, Y["squared"]).summary(X, Y["squared"])
    assert not empty.features and "(intercept)" in str(empty) and empty.to_frame().shape[0] == 1
    assert "(intercept)" in empty._repr_html_()
    alone = SparseRegressor(n_features=1, fit_intercept=False).fit(X, Y["squared"])
    (row,) = alone.summary(X, Y["squared"]).features
    assert row.contribution.increase == pytest.approx(np.mean(Y["squared"] ** 2) - alone.certificate_.psi)


def test_a_fit_under_a_level_is_compared_with_its_refit():
    model = SparseRegressor(level=1.5).fit(X, Y["squared"])
    own = model.selected_features_.tolist()
    base = refitted("squared", own)
    summary = model.summary(X, Y["squared"])
    assert model.certificate_.psi > base * 1.01 and summary.statistics["loss"] == pytest.approx(model.certificate_.psi)
    for row in summary.features:
        others = [j for j in own if j != row.feature]
        assert row.contribution.increase == pytest.approx(refitted("squared", others) - base)
    assert f"without the level: the loss is then {base:.6g}" in " ".join(str(summary).split())


def test_other_data_are_refitted_and_said_to_be_others():
    model = fitted("squared")
    summary = model.summary(X[:50], Y["squared"][:50])
    assert summary.statistics["n_samples"] == 50 and "on these data" in dict(summary.facts)
    text = " ".join(str(summary).split())
    assert "Other data than those of the fit: they differ in shape of X" in text
    assert "Refitted to these data the loss of the selected features is" in text


def test_streams_and_models_from_files(tmp_path):
    model = SparseClassifier(n_features=2).partial_fit(X, Y["logistic"], classes=[False, True])
    assert "from a stream" in str(model.summary()) and "loss" not in model.summary().statistics
    assert "has no fingerprint of the data" in str(model.summary(X, Y["logistic"]))
    model = SparseRegressorCV(n_features=[1, 2], cv=2).fit(pd.DataFrame(X, columns=list("abcdefg")), Y["squared"])
    model.save(tmp_path / "model.levelprox")
    loaded = levelprox.load(tmp_path / "model.levelprox")
    data = pd.DataFrame(X, columns=list("abcdefg")), Y["squared"]
    assert str(loaded.summary()) == str(model.summary()) and str(loaded.summary(*data)) == str(model.summary(*data))
    assert str(loaded).splitlines()[1:] == str(model).splitlines()[1:]


@pytest.mark.extended
def test_remote_data_are_refused_and_models_fitted_to_them_take_arrays():
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(X, chunks=(35, D))
    model = SparseRegressor(n_features=2).fit(lazy, da.from_array(Y["squared"], chunks=35))
    assert [row.feature for row in model.summary().features]
    with pytest.raises(InvalidInputError, match="X must be in memory here"):
        model.summary(lazy, Y["squared"])
    summary, here = model.summary(X, Y["squared"]), fitted("squared").summary(X, Y["squared"])
    assert [row.contribution.instead[:1] for row in summary.features] == [
        tuple((j, pytest.approx(rise, abs=1e-9)) for j, rise in row.contribution.instead[:1]) for row in here.features
    ]
    model.fitted_on_ = "cuda:0"  # as after a fit on a device
    assert model.summary(X, Y["squared"]).statistics["r2"] == summary.statistics["r2"]


def test_sparse_and_float32_data():
    for data in scipy.sparse.csr_array(X), scipy.sparse.csc_array(X), X.astype(np.float32):
        model = SparseRegressor(n_features=2).fit(data, Y["squared"])
        found = {row.feature: row.contribution.increase for row in model.summary(data, Y["squared"]).features}
        own = list(found)
        for j, increase in found.items():
            without = refitted("squared", [i for i in own if i != j]) - refitted("squared", own)
            assert increase == pytest.approx(without, rel=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda m: clone(m).summary(), NotFittedError, "not fitted yet"),
        (lambda m: m.summary(X[:, :3], Y["logistic"]), ValueError, "X has 3 features, but SparseClassifier"),
        (lambda m: m.summary(X), InvalidInputError, "summary needs X and y together, got X alone"),
        (lambda m: m.summary(y=Y["logistic"]), InvalidInputError, "got y alone"),
        (lambda m: m.summary(sample_weight=np.ones(N)), InvalidInputError, "together with X and y"),
        (lambda m: m.summary(X, Y["logistic"], offset=Z), TypeError, "unexpected keyword argument 'offset'"),
        (lambda m: m.summary(X, np.where(Y["logistic"], "yes", "no")), InvalidInputError, "y has the classes"),
        (lambda m: m.summary(X, Y["logistic"], np.ones(3)), InvalidInputError, "sample_weight must have shape"),
    ],
)
def test_wrong_calls_are_refused(call, error, match):
    with pytest.raises(error, match=match):
        call(fitted("logistic"))


def test_columns_that_do_not_match_are_refused():
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    model = SparseRegressor(n_features=2).fit(frame, Y["squared"])
    with pytest.raises(ValueError, match="feature names should match"):
        model.summary(frame.rename(columns={"a": "A"}), Y["squared"])


def test_a_time_limit_ends_it_and_it_says_so():
    model = SparseClassifier(n_features=2).fit(X, Y["logistic"]).set_params(time_limit=0.0)
    summary = model.summary(X, Y["logistic"])
    assert "time_limit ended" in str(summary) and all(row.contribution is None for row in summary.features)
    assert "accuracy" in summary.statistics


def test_refits_are_bounded_and_the_rest_is_said_not_to_be_examined(monkeypatch):
    model = fitted("softmax", k=3)  # no bounds: every swap is a refit
    monkeypatch.setattr("levelprox.estimators._claims._FEWEST_REFITS", 2)
    monkeypatch.setattr("levelprox.estimators._stability._WORK", 0)
    summary = model.summary(X, Y["softmax"])
    assert sum(row.contribution.examined for row in summary.features) == 2
    text = " ".join(str(summary).split())
    assert "2 of 12 swaps were examined; whether others come within 1 % is open: more refits would take long" in text
    assert "was computed for 2 of 3 features" in text and "not computed" in text


def test_swaps_that_cannot_be_decided_are_not_examined(monkeypatch):
    model = fitted("logistic")
    from levelprox.estimators._claims import task_of
    from levelprox.estimators._input import Samples
    from levelprox.estimators._stability import Contributions

    task, _ = task_of(model, Samples(X, Y["logistic"], None, {}))
    found = Contributions(model, task)
    swaps, fit = found.search.swaps, found.fit
    exact = swaps.fitted_below
    vague = lambda *args: levelprox.subset.refit.replace(exact(math.inf, *args[1:]), gap=math.inf)  # noqa: E731
    monkeypatch.setattr(swaps, "fitted_below", vague)
    monkeypatch.setattr(type(swaps), "has_bounds", lambda self: False)
    end = near_swaps(swaps, fit, fit.psi * 1.01, math.inf)
    assert end.undecided == 2 * end.total - len(end.within) > 0
    assert sum(end.examined.values()) == len(end.within)


def test_separable_classes_are_said_to_be_so():
    y = X[:, 0] + X[:, 1] > 0.1
    with pytest.warns(Warning, match="separable"):
        model = SparseClassifier(ridge=0, n_features=2).fit(X, y)
    text = str(model.summary(X, y))
    assert "Swaps of one feature for another were not examined" in text and "nan" not in text and "inf" not in text


def test_a_perfect_fit_has_no_percentages():
    y = X[:, 0] - X[:, 1]
    model = SparseRegressor(n_features=2).fit(X, y)
    text = str(model.summary(X, y))
    assert "were not examined: the loss is almost 0" in text and "nan" not in text and "inf" not in text


def test_the_same_summary_twice():
    model = fitted("logistic", k=3)
    assert str(model.summary(X, Y["logistic"])) == str(model.summary(X, Y["logistic"]))


def test_counts_are_in_the_singular_where_they_are_one():
    text = str(SparseRegressor(n_features=1).fit(X[:, :2], Y["squared"]).summary())
    assert "1 of at most 1 feature\n" in text and "none of the 1 swap of one feature" in text


@pytest.mark.extended
@pytest.mark.parametrize("loss", sorted(Y))
@pytest.mark.parametrize("k", [1, 3, 4])
def test_more_features_against_independent_refits(loss, k):
    model = fitted(loss, k=k)
    own = model.selected_features_.tolist()
    least = LEAST.get(loss, lambda y: 0.0)(Y[loss])
    base = refitted(loss, own)
    limit = base + 0.01 * (base - least)
    for row in model.summary(X, Y[loss]).features:
        others, found = [j for j in own if j != row.feature], row.contribution
        assert found.increase == pytest.approx(refitted(loss, others) - base, rel=1e-4, abs=1e-9)
        near = [j for j in range(D) if j not in own and refitted(loss, [*others, j]) <= limit]
        assert found.swaps == len(near) and {j for j, _ in found.instead} <= set(near)


# --- print


def test_print_shows_the_features_and_repr_is_scikit_learns():
    data = load_breast_cancer(as_frame=True)
    model = SparseClassifier(n_features=3)
    assert str(model) == repr(model) == "SparseClassifier(n_features=3)"
    model.fit(data.data, data.target)
    assert repr(model) == "SparseClassifier(n_features=3)"
    lines = str(model).splitlines()
    assert lines[0] == repr(model) and lines[-1] == model.message_
    assert lines[1].split() == ["feature", "coefficient"]
    shown = {line[2:].rsplit(None, 1)[0]: float(line.rsplit(None, 1)[1]) for line in lines[2:-1]}
    assert set(shown) == {"worst texture", "worst area", "worst concave points", "(intercept)"}
    assert shown["worst area"] == pytest.approx(model.coef_[0, 23], rel=1e-3)
    assert repr(make_pipeline(StandardScaler(), model)).count("\n") < 4


def test_print_is_short():
    wide = np.random.default_rng(0).standard_normal((60, 30))
    model = SparseRegressor(n_features=30).fit(wide, wide.sum(axis=1))
    lines = str(model).splitlines()
    assert len(lines) < 26 and "  and 11 more features" in lines
    classes = np.arange(60) % 12
    model = SparseClassifier(n_features=1, multi_class="ovr").fit(wide, classes)
    assert "  and coefficients of 4 more classes" in str(model).splitlines()
    assert "and coefficients of 4 more classes: to_frame() has all of them" in str(model.summary())


def test_print_of_several_classes_and_of_a_stream():
    data = load_wine(as_frame=True)
    model = SparseClassifier(n_features=1, multi_class="ovr").fit(data.data, data.target_names[data.target])
    assert str(model).splitlines()[1].split() == ["feature", "class_0", "class_1", "class_2"]
    stream = SparseClassifier(n_features=2).partial_fit(X, Y["logistic"], classes=[False, True])
    assert str(stream).splitlines()[-1].startswith("  (intercept)")


def test_the_notebook_card_names_the_summary():
    assert "<code>summary(X, y)</code>" in fitted("squared")._html_repr()
    assert isinstance(fitted("squared").summary(), ModelSummary)
