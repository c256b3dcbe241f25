"""Choice of a budget where fits have no minimiser: by scores that are defined, with a warning and its remedy."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import StratifiedKFold

from levelprox import CVDisplay, SparseClassifier, SparseClassifierCV, SparseRegressorCV, exceptions
from levelprox.backends import source_of
from levelprox.backends.partition import Form
from levelprox.estimators._budget_fits import Scored
from levelprox.estimators._parameters import Budget
from levelprox.estimators._ranking import score_results
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Logistic
from levelprox.result import Status
from tests.support.long_runs import LONG

N = 24


def folds() -> list[tuple[np.ndarray, np.ndarray]]:
    """Three folds by turns, so that every one has as many samples of either class."""
    rows = np.arange(N)
    return [(rows[rows // 2 % 3 != f], rows[rows // 2 % 3 == f]) for f in range(3)]


def overlapping(*flipped: int, d: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Feature 0 separates the classes except for the samples that are flipped: a fold that holds them out diverges."""
    rng = np.random.default_rng(seed)
    y = np.arange(N) % 2
    X = rng.standard_normal((N, d))
    X[:, 0] = np.where(y == 1, 1.0, -1.0) * rng.uniform(1.0, 2.0, N)
    X[list(flipped), 0] *= -1
    return X, y


def caught(model, *data, **more) -> list[tuple[type[Warning], str]]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(*data, **more)
    return [(one.category, str(one.message)) for one in seen]


def of_folds(seen: list[tuple[type[Warning], str]]) -> list[str]:
    """The warnings of the choice, without those of the last fit and of the edge of the grid."""
    return [text for _, text in seen if not text.startswith("Diverging") and "largest of the grid" not in text]


def separates(X: np.ndarray, y: np.ndarray) -> bool:
    low, high = X[y == 0, 0], X[y == 1, 0]
    return bool(low.max() < high.min() or high.max() < low.min())


# --- by folds


@pytest.mark.parametrize("fold", range(3))
def test_a_diverging_fold_does_not_decide_whichever_it_is(fold):
    X, y = overlapping(2 * fold)  # held out in this fold: the others are separable, and it is far on the wrong side
    assert [separates(X[train], y[train]) for train, _ in folds()] == [f == fold for f in range(3)]
    model = SparseClassifierCV(ridge=0, n_features=[0, 1], cv=folds())
    (text,) = of_folds(caught(model, X, y))
    assert model.best_params_ == {"n_features": 1} and model.score(X, y) == (N - 1) / N
    assert model.cv_results_["n_diverging"].tolist() == model.cv_results_["n_unsolved"].tolist() == [0, 1]
    assert model.scoring_ == "accuracy" and "chosen by accuracy" in model.message_
    assert "with n_features 1 the loss" in text and "no minimiser" in text and "scored by accuracy" in text
    assert "max_iter" not in text and "time_limit" not in text
    for i, (train, test) in enumerate(folds()):
        for row, k in enumerate([0, 1]):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                single = SparseClassifier(ridge=0, n_features=k).fit(X[train], y[train])
            assert (single.status_ is Status.DIVERGING) == (k == 1 and i == fold)
            assert model.cv_results_[f"split{i}_test_score"][row] == single.score(X[test], y[test])
    assert model.best_score_ == model.cv_results_["mean_test_score"][1]


def test_without_a_diverging_fold_the_loss_decides_without_a_warning():
    X, y = overlapping(0, 3, 6, 9, 16, 19)
    model = SparseClassifierCV(ridge=0, n_features=[0, 1, 2], cv=folds())
    assert caught(model, X, y) == []
    assert model.scoring_ is None and not np.any(model.cv_results_["n_diverging"])
    assert np.all(model.cv_results_["mean_test_score"] < 0) and "accuracy" not in model.message_


def test_weights_count_in_the_accuracy():
    X, y = overlapping(0)
    weight = np.random.default_rng(0).uniform(0.2, 3, N)
    model = SparseClassifierCV(ridge=0, n_features=[1], cv=folds())
    caught(model, X, y, sample_weight=weight)
    _, test = folds()[0]
    right = y[test] == (X[test, 0] > 0)
    assert model.cv_results_["split0_test_score"][0] == pytest.approx(np.average(right, weights=weight[test]))


def scored(score: float, by_label: float, diverging: bool) -> Scored:
    return Scored(score, 1, 0.1, True, diverging=diverging, by_label=by_label, by_length=diverging)


def test_where_a_diverging_fit_stops_does_not_matter():
    """Any loss of diverging fits, infinite too, gives the same choice; without them the loss decides."""
    rng = np.random.default_rng(1)
    model = SparseClassifierCV(ridge=0)
    for _ in range(100):
        m, n = rng.integers(2, 6), rng.integers(2, 6)
        diverging = rng.random((m, n)) < 0.3 * (rng.random() < 0.7)
        loss, label = -rng.random((m, n)), rng.integers(0, 11, (m, n)) / 10
        budgets = [Budget(features=k) for k in range(m)]

        def choice(loss: np.ndarray) -> int:
            rows = zip(loss.tolist(), label.tolist(), diverging.tolist(), strict=True)  # noqa: B023  # of this round
            table = [[scored(*one) for one in zip(*row, strict=True)] for row in rows]
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                best = score_results(model, budgets, table)[1]  # noqa: B023
            assert [one.category for one in seen] == [exceptions.ConvergenceWarning] * bool(diverging.any())  # noqa: B023
            return best

        stopped_elsewhere = np.where(diverging, rng.choice([-1e300, -math.inf, math.nan, 0.0], (m, n)), loss)
        best = choice(loss)
        assert choice(stopped_elsewhere) == best
        expected = label.mean(axis=1) if diverging.any() else loss.mean(axis=1)
        assert best == int(np.argmax(expected >= expected.max() - 1e-12))


def gene_like(seed: int, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Few samples, many features, of which the first nearly separates the classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, d)) * np.exp(rng.standard_normal(d))
    X[:, 0] += X[:, 0].std() * np.where(y == 1, 2.0, -2.0)
    return X, y


@pytest.mark.parametrize("seed", range(20 if LONG else 2))
@pytest.mark.parametrize("scoring", [None, "accuracy"], ids=str)
def test_one_strong_gene_is_found(seed, scoring):
    n, d, grid = (40, 300, None) if LONG else (20, 40, [0, 1])
    X, y = gene_like(seed, n, d)
    model = SparseClassifierCV(ridge=0, n_features=grid, scoring=scoring, cv=4)
    caught(model, X, y)
    assert model.best_params_["n_features"] >= 1
    X, y = gene_like(seed + 1000, 400, d)
    assert model.score(X, y) > 0.85


@pytest.mark.parametrize("criterion", ["aic", "bic", "ebic"])
@pytest.mark.parametrize("flipped", [(), (0,)], ids=["separable", "one overlaps"])
def test_criteria_leave_out_fits_without_a_minimiser(criterion, flipped):
    """Two features separate all samples, one all or all but one; the smallest that does is better than none."""
    X, y = overlapping(*flipped)
    X[:, 1] *= 0.01
    X[0, 1] = -1.0  # which only sample 0 needs, of class 0
    model = SparseClassifierCV(ridge=0, n_features=[0, 1, 2, 3], criterion=criterion)
    seen = caught(model, X, y)
    results = model.cv_results_
    assert model.best_params_ == {"n_features": 1}
    assert results["diverging"].tolist() == [False, not flipped, *results["diverging"][2:].tolist()]
    assert np.any(results["diverging"][2:])
    left_out = results["diverging"] & ~(np.arange(4) == 1)
    assert np.isnan(results[criterion]).tolist() == left_out.tolist()
    assert model.best_score_ == np.nanmin(results[criterion])
    (text,) = of_folds(seen)
    assert f"{criterion} is not defined" in text and "criterion='cv'" in text
    assert "with n_features 2 and 3 the loss has no minimiser" in text and "max_iter" not in text


# --- levels, other losses, other scores


def test_levels_diverge_under_a_cap_and_not_under_the_l1_norm():
    X, y = overlapping()
    capped = SparseClassifierCV(ridge=0, level=[0.05, 1.5], cv=folds())
    assert any("with level 1.5 the loss" in text for text in of_folds(caught(capped, X, y)))
    assert capped.cv_results_["n_diverging"].tolist() == [0, 3] and capped.scoring_ == "accuracy"
    bounded = SparseClassifierCV(ridge=0, level=[0.5, 1.5], constraint="l1", cv=folds())
    assert of_folds(caught(bounded, X, y)) == []
    assert not np.any(bounded.cv_results_["n_diverging"]) and bounded.scoring_ is None


@pytest.mark.parametrize("loss", ["sigmoid", "squared_hinge", "hinge"])
def test_losses_that_cannot_grow_without_bound_keep_their_score(loss):
    X, y = overlapping(0)
    model = SparseClassifierCV(loss, ridge=0, n_features=[0, 1], cv=folds())
    assert of_folds(caught(model, X, y)) == []
    assert model.scoring_ is None and not np.any(model.cv_results_["n_diverging"])
    assert model.best_params_ == {"n_features": 1} or loss != "sigmoid"


@pytest.mark.parametrize("multi_class", ["softmax", "ovr"])
def test_several_classes(multi_class):
    rng = np.random.default_rng(0)
    y = np.array(["a", "b", "c"])[np.arange(N) % 3]
    X = rng.standard_normal((N, 2))
    X[:, 0] += 10 * (y == "b")
    X[:, 1] += 10 * (y == "c")
    model = SparseClassifierCV(ridge=0, n_features=[0, 2], cv=StratifiedKFold(2), multi_class=multi_class)
    (text,) = of_folds(caught(model, X, y))
    assert "scored by accuracy" in text and model.best_params_ == {"n_features": 2}
    assert model.cv_results_["mean_test_score"][1] > 0.9


OWN = make_scorer(log_loss, response_method="predict_proba", greater_is_better=False, labels=[0, 1])


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "neg_log_loss", OWN], ids=str)
def test_a_score_of_labels_needs_no_warning_and_one_of_probabilities_does(scoring):
    X, y = overlapping(0)
    model = SparseClassifierCV(ridge=0, n_features=[0, 1], cv=folds(), scoring=scoring)
    seen = of_folds(caught(model, X, y))
    assert model.scoring_ is scoring and model.cv_results_["n_diverging"].tolist() == [0, 1]
    if scoring in ("accuracy", "roc_auc"):
        assert seen == []
        return
    (text,) = seen
    assert "depend on where the fit stops" in text and "scoring='accuracy'" in text and "max_iter" not in text


def test_fits_that_stop_early_have_another_remedy():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8))
    y = X[:, :4].sum(axis=1) + rng.standard_normal(60)
    model = SparseRegressorCV(level=[1.5, 2.5], max_iter=0, cv=2)
    (text, *_) = of_folds(caught(model, X, y))
    assert "with level 1.5 and 2.5 some fits of folds stopped" in text and "Raise max_iter" in text
    assert "separable" not in text and not np.any(model.cv_results_["n_diverging"])


class Failing:
    """R² of a candidate, but not a finite number for some candidates in some folds."""

    def __init__(self, value: float, first: dict[int, tuple[int, ...]]):
        self.value, self.first = value, first

    def __call__(self, model, X, y) -> float:
        used = int(np.count_nonzero(model.coef_))
        fails = used in self.first and int(X[0, -1]) in self.first[used]
        return self.value if fails else float(model.score(X, y))


def numbered(n: int = 18) -> tuple[np.ndarray, np.ndarray, list]:
    """Data whose last column says in which of three folds a row is held out; two features matter."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4))
    X[:, -1] = np.arange(n) % 3
    y = 2 * X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(n)
    rows = np.arange(n)
    return X, y, [(rows[rows % 3 != f], rows[rows % 3 == f]) for f in range(3)]


@pytest.mark.parametrize("one_standard_error", [False, True])
@pytest.mark.parametrize(("value", "fold"), [(math.nan, 0), (-math.inf, 1), (math.inf, 2)])
def test_a_score_that_is_not_finite_in_one_fold_does_not_decide(value, fold, one_standard_error):
    X, y, splits = numbered()
    scoring = Failing(value, {2: (fold,)})
    model = SparseRegressorCV(n_features=[1, 2], cv=splits, scoring=scoring, one_standard_error=one_standard_error)
    (text,) = of_folds(caught(model, X, y))
    assert model.best_params_ == {"n_features": 2}
    assert f"with n_features 2 the score of fold {fold} is not finite" in text and "median" in text
    assert model.best_score_ == model.cv_results_["median_test_score"][1] and math.isfinite(model.best_score_)


def test_a_candidate_without_finite_scores_is_not_chosen():
    X, y, splits = numbered()
    model = SparseRegressorCV(n_features=[1, 2], cv=splits, scoring=Failing(math.inf, {2: (0, 1, 2)}))
    caught(model, X, y)
    assert model.best_params_ == {"n_features": 1}


def test_a_fold_without_any_finite_score_is_left_out():
    X, y, splits = numbered()
    model = SparseRegressorCV(n_features=[1, 2], cv=splits, scoring=Failing(math.nan, {1: (2,), 2: (2,)}))
    (text,) = of_folds(caught(model, X, y))
    assert "no candidate has a finite score in fold 2; it is left out" in text
    assert model.best_params_ == {"n_features": 2} and math.isfinite(model.best_score_)
    model = SparseRegressorCV(n_features=[1], cv=splits, scoring=lambda model, X, y: math.nan)
    with pytest.raises(InvalidInputError, match="gave no finite score for any candidate"):
        model.fit(X, y)


# --- remote data, and displays


@pytest.fixture(params=["tensor", "array"])
def elsewhere(request):
    """A function that makes data remote."""
    if request.param == "tensor":
        return pytest.importorskip("torch").from_numpy
    da = pytest.importorskip("dask.array")
    return lambda X: da.from_array(X, chunks=(12, X.shape[1]))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("softmax", [True, False])
def test_the_accuracy_of_remote_data(elsewhere, classes, softmax):
    rng = np.random.default_rng(0)
    X, y, weight = rng.standard_normal((20, 3)), rng.integers(0, classes, 20), rng.integers(0, 3, 20).astype(float)
    form = Form(Logistic(), True, classes=np.arange(classes), softmax=softmax and classes > 2)
    objective = source_of(elsewhere(X), y, weight, None).model(form)
    n_outputs = 1 if classes == 2 else classes
    for x in (np.zeros(4 * n_outputs), rng.standard_normal(4 * n_outputs)):
        z = np.column_stack([X, np.ones(20)]) @ x.reshape(4, n_outputs)
        chosen = (z[:, 0] > 0) if n_outputs == 1 else np.argmax(z, axis=1)
        assert objective.accuracy(x) == pytest.approx(np.average(chosen == y, weights=weight))


def test_diverging_folds_of_remote_data(elsewhere):
    X, y = overlapping(0, d=2)
    model = SparseClassifierCV(ridge=0, n_features=[0, 1], cv=2)
    (text,) = of_folds(caught(model, elsewhere(X), y))
    assert "scored by accuracy" in text and model.best_params_ == {"n_features": 1}
    assert model.cv_results_["n_diverging"].tolist() == [0, 1] and model.scoring_ == "accuracy"
    assert np.mean([model.cv_results_[f"split{i}_test_score"][1] for i in range(2)]) == pytest.approx(23 / 24, abs=0.02)


def test_criteria_of_remote_data_leave_out_fits_without_a_minimiser(elsewhere):
    X, y = overlapping(0, d=2)
    X[:, 1] = np.where(np.arange(N) == 0, -1.0, 0.0)  # which only sample 0 needs, of class 0
    model = SparseClassifierCV(ridge=0, n_features=[1, 2], criterion="bic")
    caught(model, elsewhere(X), y)
    assert model.best_params_ == {"n_features": 1} and model.cv_results_["diverging"].tolist() == [False, True]


def test_candidates_that_diverge_are_drawn_open():
    X, y = overlapping(0)
    model = SparseClassifierCV(ridge=0, n_features=[0, 1], cv=folds()[:2])
    caught(model, X, y)
    display = CVDisplay.from_estimator(model)
    assert display.ax_.get_ylabel() == "Accuracy of held-out samples"
    np.testing.assert_array_equal(display.diverging_.get_xdata(), [1])
    assert display.diverging_.get_markerfacecolor() == "white"
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["some fits diverge"]
    assert CVDisplay(budgets=[0, 1], scores=[1.0, 2.0], chosen=1).plot().diverging_ is None


def test_the_message_of_a_diverging_fit_names_cause_and_remedy():
    X, y = overlapping()
    model = SparseClassifier(ridge=0, n_features=1)
    ((category, text),) = caught(model, X, y)
    assert issubclass(category, ConvergenceWarning) and text == model.message_
    assert "has no minimiser" in text and "A ridge, fewer features" in text and "l1" in text and "max_iter" not in text
