"""Choice of the budget: the same folds for all candidates, scores and criteria by their formulas, clear errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer, log_loss, make_scorer, mean_absolute_error, mean_poisson_deviance
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold

from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV
from levelprox.exceptions import InfeasibleError, InvalidInputError
from tests.support.estimator_cases import bits, psi, targets
from tests.support.long_runs import LONG

GRID = [1, 2, 4]


def data(task: str = "squared", seed: int = 0, n: int = 60, d: int = 5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, targets(task, X, rng)


class Recording(KFold):
    """Folds that count how often they are generated, and with which groups."""

    def __init__(self, n_splits: int = 3):
        super().__init__(n_splits)
        self.calls: list = []

    def split(self, X, y=None, groups=None):
        self.calls.append(groups)
        return super().split(X, y, groups)


def scores_of(model) -> np.ndarray:
    names = sorted(name for name in model.cv_results_ if name.startswith("split"))
    return np.column_stack([model.cv_results_[name] for name in names])


def by_hand(X, y, splits, score, single=SparseRegressor, grid=GRID, **options) -> np.ndarray:
    """Scores of single fits on every fold."""
    table = []
    for k in grid:
        row = []
        for train, test in splits:
            row.append(score(single(n_features=k, **options).fit(X[train], y[train]), X[test], y[test]))
        table.append(row)
    return np.array(table)


@pytest.fixture(scope="module")
def singles():
    """Single fits on three plain folds, a row for each budget of the grid."""
    X, y = data()
    folds = list(KFold(3).split(X))
    return [[SparseRegressor(n_features=k).fit(X[train], y[train]) for train, _ in folds] for k in GRID]


def scored(singles, score) -> np.ndarray:
    X, y = data()
    tests = [test for _, test in KFold(3).split(X)]
    return np.array([[score(one, X[test], y[test]) for one, test in zip(row, tests, strict=True)] for row in singles])


# --- folds and scores


@pytest.mark.parametrize("kind", ["int", "splitter", "iterable", "iterator"])
def test_folds_are_given_as_everywhere_in_scikit_learn(kind, singles):
    X, y = data()
    splits = list(KFold(3).split(X))
    cv = {"int": 3, "splitter": KFold(3), "iterable": splits, "iterator": iter(splits)}[kind]
    model = SparseRegressorCV(n_features=GRID, cv=cv).fit(X, y)
    np.testing.assert_allclose(scores_of(model), scored(singles, lambda m, X, y: -psi(m, X, y)), rtol=1e-12)


def test_five_stratified_folds_by_default():
    X, y = data("logistic", n=60, d=5)
    order = np.argsort(y, kind="stable")  # plain folds of sorted classes would have folds of one class
    X, y = X[order], y[order]
    model = SparseClassifierCV(n_features=[1]).fit(X, y)
    splits = list(StratifiedKFold(5).split(X, y))
    expected = by_hand(X, y, splits, lambda m, X, y: -psi(m, X, y), SparseClassifier, [1])
    np.testing.assert_allclose(scores_of(model), expected, rtol=1e-12)


def mean_error(model, X, y) -> float:
    return -mean_absolute_error(y, model.predict(X))


@pytest.mark.parametrize("scoring", ["r2", mean_error, make_scorer(mean_absolute_error, greater_is_better=False)])
def test_scores_are_those_of_the_scorer(scoring, singles):
    X, y = data()
    model = SparseRegressorCV(n_features=GRID, cv=3, scoring=scoring).fit(X, y)
    scorer = get_scorer(scoring) if isinstance(scoring, str) else scoring
    expected = scored(singles, scorer)
    np.testing.assert_allclose(scores_of(model), expected, rtol=1e-12)
    assert model.best_params_ == {"n_features": GRID[int(np.argmax(expected.mean(axis=1)))]}
    assert model.best_score_ == model.cv_results_["mean_test_score"][model.best_index_]


def test_every_candidate_sees_the_same_folds():
    """Folds are generated once, although a second call would give others."""
    X, y = data(n=60, d=6)
    splitter = Recording(2)
    SparseRegressorCV(n_features=[1], cv=splitter).fit(X, y)
    assert splitter.calls == [None]
    random = ShuffleSplit(2, random_state=np.random.RandomState(0))
    model = SparseRegressorCV(n_features=[1, 1, 2], cv=random).fit(X, y)
    splits = list(ShuffleSplit(2, random_state=np.random.RandomState(0)).split(X))
    expected = by_hand(X, y, splits, lambda m, X, y: -psi(m, X, y), grid=[1, 2])
    np.testing.assert_allclose(scores_of(model), expected, rtol=1e-12)


def test_groups_go_to_the_folds():
    X, y = data(n=60, d=5)
    groups = np.arange(y.size) % 5
    model = SparseRegressorCV(n_features=[1, 2], cv=GroupKFold(3)).fit(X, y, groups=groups)
    splits = list(GroupKFold(3).split(X, y, groups))
    expected = by_hand(X, y, splits, lambda m, X, y: -psi(m, X, y), grid=[1, 2])
    np.testing.assert_allclose(scores_of(model), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="groups"):
        SparseRegressorCV(n_features=GRID, cv=GroupKFold(3)).fit(X, y)


@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error"])
def test_weights_are_used_by_fits_and_by_scores(scoring):
    X, y = data(n=60, d=5)
    weight = np.random.default_rng(2).uniform(0.1, 3, y.size)
    model = SparseRegressorCV(n_features=[1, 2], cv=3, scoring=scoring).fit(X, y, sample_weight=weight)
    for i, (train, test) in enumerate(KFold(3).split(X)):
        for row, k in enumerate([1, 2]):
            single = SparseRegressor(n_features=k).fit(X[train], y[train], sample_weight=weight[train])
            expected = (
                -psi(single, X[test], y[test], weight[test])
                if scoring is None
                else -mean_absolute_error(y[test], single.predict(X[test]), sample_weight=weight[test])
            )
            assert math.isclose(model.cv_results_[f"split{i}_test_score"][row], expected, rel_tol=1e-12)


def test_offsets_are_cut_into_folds_with_their_rows():
    X, y = data("poisson")
    exposure = np.random.default_rng(3).uniform(0.5, 2, y.size)
    model = SparseRegressorCV("poisson", n_features=[1, 2], cv=3).fit(X, y, exposure=exposure)
    train, test = next(KFold(3).split(X))
    single = SparseRegressor("poisson", n_features=2).fit(X[train], y[train], exposure=exposure[train])
    mean = exposure[test] * np.exp(X[test] @ single.coef_ + single.intercept_)
    assert math.isclose(
        model.cv_results_["split0_test_score"][1], -np.mean(mean - y[test] * np.log(mean)), rel_tol=1e-12
    )


# --- what comes back


def test_the_table_has_a_row_for_each_candidate():
    X, y = data()
    results = SparseRegressorCV(n_features=[4, 1, 2, 2], cv=3).fit(X, y).cv_results_
    assert list(results["n_features"]) == GRID
    assert set(results) == {
        "n_features",
        "split0_test_score",
        "split1_test_score",
        "split2_test_score",
        "mean_test_score",
        "std_test_score",
        "standard_error",
        "rank_test_score",
        "mean_n_selected",
        "n_unsolved",
        "n_diverging",
        "mean_fit_time",
    }
    assert all(values.shape == (3,) for values in results.values())
    scores = np.column_stack([results[f"split{i}_test_score"] for i in range(3)])
    np.testing.assert_allclose(results["mean_test_score"], scores.mean(axis=1), rtol=1e-14)
    np.testing.assert_allclose(results["std_test_score"], scores.std(axis=1), rtol=1e-14)
    np.testing.assert_allclose(results["standard_error"], scores.std(axis=1, ddof=1) / math.sqrt(3), rtol=1e-14)
    np.testing.assert_array_equal(np.sort(results["rank_test_score"]), [1, 2, 3])
    assert results["rank_test_score"][np.argmax(results["mean_test_score"])] == 1
    assert np.all(results["mean_n_selected"] == GRID) and np.all(results["mean_fit_time"] > 0)


@pytest.mark.parametrize(
    ("many", "single", "task", "options"),
    [
        (SparseRegressorCV, SparseRegressor, "squared", {"n_features": GRID}),
        (SparseRegressorCV, SparseRegressor, "squared", {"level": [0.5, 1.5, 2.5]}),
        (SparseClassifierCV, SparseClassifier, "logistic", {"n_features": GRID}),
        (SparseClassifierCV, SparseClassifier, "logistic", {"level": [0.5, 2.5], "constraint": "l1"}),
        (SparseClassifierCV, SparseClassifier, "softmax", {"n_features": [1, 2]}),
    ],
)
def test_the_last_fit_is_the_single_fit_of_all_data(many, single, task, options):
    X, y = data(task)
    weight = np.random.default_rng(4).uniform(0.5, 2, y.size)
    model = many(cv=3, **options).fit(X, y, sample_weight=weight)
    assert model.best_params_.keys() == {next(iter(options))}
    other = single(**{**options, **model.best_params_}).fit(X, y, sample_weight=weight)
    assert bits(model) == bits(other) and model.level_ == other.level_
    np.testing.assert_array_equal(model.predict(X), other.predict(X))


@pytest.fixture(scope="module")
def noisy():
    """Data with much noise, and the choice of the best mean score."""
    X, y = data(n=60, d=4)
    y += 3 * np.random.default_rng(1).standard_normal(60)
    return X, y, SparseRegressorCV(n_features=range(4), cv=3).fit(X, y)


def test_one_standard_error_chooses_the_smallest_budget_that_is_as_good(noisy):
    X, y, plain = noisy
    model = SparseRegressorCV(n_features=range(4), cv=3, one_standard_error=True).fit(X, y)
    results = model.cv_results_
    mean, error, best = results["mean_test_score"], results["standard_error"], plain.best_index_
    good = np.flatnonzero(mean >= mean[best] - error[best])
    assert model.best_index_ == good[0] < best
    assert model.selected_features_.size < plain.selected_features_.size


def test_of_equal_scores_the_smallest_budget():
    X, y = data()

    def indifferent(model, X, y) -> float:
        return 1.0

    assert SparseRegressorCV(n_features=[3, 1, 2], cv=3, scoring=indifferent).fit(X, y).best_params_ == {
        "n_features": 1
    }


# --- criteria


def deviance_by_hand(loss: str, model, X, y, weight) -> float:
    """−2 log-likelihood at the most likely scale, up to what does not depend on the fit; by its density."""
    n = weight.sum()
    z = X @ np.ravel(model.coef_) + model.intercept_ if loss != "softmax" else None
    if loss == "squared":
        return n * math.log(weight @ (y - z) ** 2 / n)
    if loss in ("absolute", "quantile"):
        half = 1.0 if loss == "absolute" else 0.5
        return 2 * n * math.log(half * (weight @ np.abs(y - z)) / n)
    if loss == "poisson":
        return 2 * weight @ (np.exp(z) - y * z)
    if loss == "gamma":
        mean = np.exp(z)

        def minus(log_a: float) -> float:
            a = math.exp(log_a)
            return -2 * weight @ (a * np.log(a / mean) + (a - 1) * np.log(y) - a * y / mean - gammaln(a))

        return float(minimize_scalar(minus, bounds=(-5, 8), method="bounded", options={"xatol": 1e-10}).fun)
    return 2 * n * log_loss(y, model.predict_proba(X), sample_weight=weight)


CRITERION_CASES = ["squared", "absolute", "quantile", "poisson", "gamma", "logistic", "softmax"]


@pytest.mark.parametrize("loss", CRITERION_CASES)
def test_criteria_equal_their_formulas(loss):
    X, y = data(loss, n=60, d=5)
    d, grid = X.shape[1], [1, 2]
    weight = np.random.default_rng(5).uniform(0.5, 2, y.size)
    classifies = loss in ("logistic", "softmax")
    many, single = (SparseClassifierCV, SparseClassifier) if classifies else (SparseRegressorCV, SparseRegressor)
    options = {"loss": "logistic" if classifies else loss}
    fits = [single(n_features=k, **options).fit(X, y, sample_weight=weight) for k in grid]
    n = weight.sum()
    # What criteria add to a deviance is the same for every loss.
    some = loss in ("poisson", "gamma") and not LONG
    for criterion in ("ebic",) if some else ("aic", "bic", "ebic"):
        model = many(n_features=grid, criterion=criterion, **options).fit(X, y, sample_weight=weight)
        expected = []
        for fit in fits:
            used = fit.selected_features_.size
            freedom = (2 if loss == "softmax" else 1) * (used + 1)
            each = 2 if criterion == "aic" else math.log(n)
            more = 2 * math.log(math.comb(d, used)) if criterion == "ebic" else 0.0
            expected.append(deviance_by_hand(loss, fit, X, y, weight) + each * freedom + more)
        found = model.cv_results_[criterion]
        np.testing.assert_allclose(found - found[0], np.array(expected) - expected[0], atol=1e-5)
        assert model.best_index_ == int(np.argmin(expected)) and model.best_score_ == found.min()
        assert set(model.cv_results_) == {"n_features", criterion, "loss", "n_selected", "df", "diverging"}


def test_a_criterion_needs_no_folds():
    X, y = data()
    splitter = Recording()
    SparseRegressorCV(n_features=GRID, criterion="bic", cv=splitter).fit(X, y)
    assert splitter.calls == []


# --- what cannot be


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"n_features": [1], "level": [1.0]}, InvalidInputError, "either n_features or level"),
        ({"n_features": []}, InvalidInputError, "n_features"),
        ({"level": []}, InvalidInputError, "level"),
        ({"n_features": [[1, 2]]}, InvalidInputError, "n_features"),
        ({"n_features": [1.5]}, InvalidInputError, "n_features"),
        ({"n_features": [-1]}, InvalidInputError, "n_features"),
        ({"level": [1.0, -2.0]}, InfeasibleError, "level=-2"),
        ({"level": [1.0, np.nan]}, InvalidInputError, "level"),
        ({"criterion": "mdl"}, InvalidInputError, "criterion must be one of cv, aic, bic, ebic"),
        ({"loss": "huber", "criterion": "bic"}, InvalidInputError, "needs a likelihood"),
        ({"loss": "cauchy", "criterion": "aic"}, InvalidInputError, "needs a likelihood"),
        ({"cv": []}, InvalidInputError, "no folds"),
        ({"cv": 1}, ValueError, "n_splits=1"),
        ({"scoring": "no such score"}, ValueError, "no such score"),
        ({"n_features": [1], "constraint": "l1"}, InvalidInputError, "constraint='l1' is for fits under a level"),
        ({"one_standard_error": "yes", "n_features": [1]}, InvalidInputError, "one_standard_error"),
    ],
    ids=str,
)
def test_invalid_grids_and_scorers_are_refused(options, error, match):
    X, y = data()
    with pytest.raises(error, match=match):
        SparseRegressorCV(**{"cv": 3, **options}).fit(X, y)


def test_losses_of_classification_that_are_no_likelihood():
    X, y = data("logistic")
    for loss in ("hinge", "squared_hinge", "sigmoid"):
        with pytest.raises(InvalidInputError, match="needs a likelihood"):
            SparseClassifierCV(loss, n_features=[1], criterion="ebic").fit(X, y)


def test_a_class_missing_from_a_training_part_is_reported():
    X, y = data(n=60, d=4)
    rows, first = np.arange(y.size), list(KFold(3).split(X))[:1]
    y = np.where(rows < 12, "a", np.where(rows % 2, "b", "c"))
    with pytest.warns(ConvergenceWarning, match=r"training part of fold 0 has no sample of class 'a'. 12"):
        model = SparseClassifierCV(n_features=[0, 1], cv=first).fit(X, y)
    train, known = np.arange(20, 60), np.arange(12, 20)
    for i, k in enumerate([0, 1]):
        single = SparseClassifier(n_features=k).fit(X[train], y[train])
        assert math.isclose(model.cv_results_["split0_test_score"][i], -psi(single, X[known], y[known]), rel_tol=1e-12)
    by_accuracy = SparseClassifierCV(n_features=[0, 1], cv=first, scoring="accuracy").fit(X, y)
    assert np.all(by_accuracy.cv_results_["split0_test_score"] <= 8 / 20)


def test_a_fold_without_any_class_of_its_training_part_is_refused():
    X, y = data()
    y = np.where(np.arange(y.size) < y.size // 3, "a", np.where(np.arange(y.size) % 2, "b", "c"))
    with pytest.raises(InvalidInputError, match="none of the classes"):
        SparseClassifierCV(n_features=[1, 2], cv=KFold(3)).fit(X, y)


def test_scores_know_the_exposures_of_held_out_samples():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 8))
    exposure = np.exp(2 * X[:, 7] + rng.standard_normal(200))
    y = rng.poisson(exposure * np.exp(0.3 * X[:, 0]))
    model = SparseRegressorCV("poisson", n_features=[1, 2], scoring="neg_mean_poisson_deviance", cv=KFold(3))
    scores = model.fit(X, y, exposure=exposure).cv_results_["split1_test_score"]
    train, test = list(KFold(3).split(X))[1]
    single = SparseRegressor("poisson", n_features=2).fit(X[train], y[train], exposure=exposure[train])
    deviance = mean_poisson_deviance(y[test], single.predict(X[test], exposure=exposure[test]))
    assert scores[1] == pytest.approx(-deviance, rel=1e-9)


def test_levels_of_folds_keep_the_limits_of_a_fit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 20))
    y = X[:, :5].sum(axis=1) + rng.standard_normal(100)
    with pytest.warns(ConvergenceWarning):
        model = SparseRegressorCV(level=[1.5, 2.5], max_iter=0, cv=3).fit(X, y)
    assert model.cv_results_["n_unsolved"].tolist() == [3, 3]


def test_a_target_without_any_spread_has_a_criterion_too():
    X = np.random.default_rng(0).standard_normal((100, 5))
    assert SparseRegressorCV(criterion="bic", n_features=[0, 1]).fit(X, np.ones(100)).best_params_ == {"n_features": 0}


def test_one_standard_error_needs_folds():
    X = np.random.default_rng(0).standard_normal((50, 5))
    with pytest.raises(InvalidInputError, match="one_standard_error is for criterion='cv'"):
        SparseRegressorCV(criterion="bic", one_standard_error=True).fit(X, X[:, 0])
