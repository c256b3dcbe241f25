"""ridge="auto" with folds: the number of features and the ridge are chosen together, one ridge for all folds."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from levelprox import SparseClassifier, SparseClassifierCV, load
from levelprox.estimators._automatic_ridge import FOLD_GRID
from levelprox.estimators._fit import Task, _Undetermined
from levelprox.estimators._folds import each_ridge
from levelprox.estimators._input import Samples
from levelprox.estimators._parameters import Budget
from levelprox.estimators._ranking import Ranking
from levelprox.report import CVDisplay

pytestmark = pytest.mark.filterwarnings("ignore:the best n_features is")


def nearly_separable(n: int = 60, d: int = 6, seed: int = 0, noise: float = 0.1) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-2, 2, d)
    z = (X / X.std(axis=0))[:, :3] @ np.array([1.0, -1.0, 0.5])
    return X, (z + noise * rng.logistic(size=n) > 0).astype(int)


@pytest.fixture(scope="module")
def chosen() -> Any:
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:200, :8], y[:200]
    return SparseClassifierCV(n_features=[1, 2, 4, 6], cv=3).fit(X, y), X, y


def scores_of(results: dict[str, Any]) -> Any:
    count = sum(name.startswith("split") for name in results)
    return np.column_stack([results[f"split{i}_test_score"] for i in range(count)])


def same_tables(one: dict[str, Any], other: dict[str, Any]) -> bool:
    names = [name for name in one if name != "mean_fit_time"]
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in names)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_scikit_learn_with_one_penalty_for_all_folds(classes: int, weighted: bool) -> None:
    """With all features the fit of a fold is that of l2 logistic regression; C is the same for all folds."""
    X, y = nearly_separable() if classes == 2 else load_iris(return_X_y=True)
    weight = np.random.default_rng(1).uniform(1, 3, len(y)) if weighted else None
    model = SparseClassifierCV(n_features=[X.shape[1]], cv=3).fit(X, y, sample_weight=weight)
    ones = np.ones(len(y)) if weight is None else weight
    ridges = model.cv_results_["ridge"]
    np.testing.assert_allclose(ridges, np.array(FOLD_GRID) / (2 * ones.sum()), rtol=1e-12)
    for fold, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
        mean = np.average(X[train], axis=0, weights=ones[train])
        scale = np.sqrt(np.average((X[train] - mean) ** 2, axis=0, weights=ones[train]))
        for row, factor in enumerate(FOLD_GRID):
            twin = LogisticRegression(C=1 / factor, tol=1e-10, max_iter=10000)
            twin.fit((X[train] - mean) / scale, y[train], sample_weight=ones[train])
            probabilities = twin.predict_proba((X[test] - mean) / scale)
            expected = -log_loss(y[test], probabilities, sample_weight=ones[test], labels=twin.classes_)
            assert model.cv_results_[f"split{fold}_test_score"][row] == pytest.approx(expected, rel=1e-4)


def test_the_chosen_ridge_is_that_of_the_table_and_of_the_fit(chosen: Any) -> None:
    model, X, y = chosen
    row = model.best_index_
    assert model.best_params_ == {
        "n_features": model.cv_results_["n_features"][row],
        "ridge": model.cv_results_["ridge"][row],
    }
    assert model.ridge_ == model.best_params_["ridge"] > 0
    assert model.best_score_ == model.cv_results_["mean_test_score"][row]
    assert f"ridge={model.ridge_:.3g} was chosen by cross-validation" in model.message_
    single = SparseClassifier(**model.best_params_).fit(X, y)
    np.testing.assert_array_equal(single.coef_, model.coef_)
    assert model.certificate_.swaps.proved


def test_the_rule_that_chooses(chosen: Any) -> None:
    """For each k the largest ridge within one standard error of the difference, then the best k."""
    results, candidates = chosen[0].cv_results_, []
    scores = scores_of(results)
    for k in (1, 2, 4, 6):
        rows = np.flatnonzero(results["n_features"] == k)
        assert np.all(np.diff(results["ridge"][rows]) < 0)
        best = rows[np.argmax(scores[rows].mean(axis=1))]
        for row in rows:
            difference = scores[best] - scores[row]
            if difference.mean() <= difference.std(ddof=1) / np.sqrt(difference.size):
                candidates.append(row)
                break
    assert chosen[0].best_index_ == max(candidates, key=lambda row: scores[row].mean())
    shown, place = chosen[0].results_by_budget()
    assert shown["n_features"].tolist() == [1, 2, 4, 6]
    np.testing.assert_array_equal(shown["mean_test_score"], scores[candidates].mean(axis=1))
    assert shown["ridge"][place] == chosen[0].ridge_


def test_the_answer_for_a_k_does_not_depend_on_others(chosen: Any) -> None:
    model, X, y = chosen
    alone = SparseClassifierCV(n_features=[4], cv=3).fit(X, y)
    rows = model.cv_results_["n_features"] == 4
    many = {name: values[rows] for name, values in model.cv_results_.items() if name != "rank_test_score"}
    assert same_tables(many, {name: alone.cv_results_[name] for name in many})


def test_parallel_fits_and_copies_agree(chosen: Any, tmp_path: Path) -> None:
    model, X, y = chosen
    with joblib.parallel_config(backend="threading"):  # processes are tested in test_estimator_budget.py
        other = SparseClassifierCV(n_features=[6, 4, 2, 1], cv=3, n_jobs=2).fit(X, y)
    assert same_tables(model.cv_results_, other.cv_results_) and other.best_params_ == model.best_params_
    np.testing.assert_array_equal(other.coef_, model.coef_)
    again = pickle.loads(pickle.dumps(model))
    model.save(tmp_path / "model")
    stored = load(tmp_path / "model")
    for copied in (again, stored):
        assert copied.best_params_ == model.best_params_ and copied.ridge_ == model.ridge_
        assert same_tables(copied.results_by_budget()[0], model.results_by_budget()[0])


def test_a_k_without_a_ridge_is_one_candidate_as_before() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    y = (X[:, 0] + rng.logistic(size=200) > 0).astype(int)
    model = SparseClassifierCV(n_features=[0, 1, 3]).fit(X, y)
    pure = SparseClassifierCV(n_features=[0, 1, 3], ridge=0).fit(X, y)
    assert model.cv_results_["ridge"].tolist() == [0, 0, 0] and "ridge" not in model.best_params_
    np.testing.assert_array_equal(scores_of(model.cv_results_), scores_of(pure.cv_results_))
    assert model.ridge_ == 0 and model.coef_.tobytes() == pure.coef_.tobytes()


def test_a_fold_that_needs_no_ridge_has_one_where_others_do() -> None:
    X, y = nearly_separable(90, 3, seed=3, noise=0.35)
    needs = []
    for train, _ in StratifiedKFold(3).split(X, y):
        single = SparseClassifier(n_features=3).fit(X[train], y[train])
        needs.append(single.ridge_ > 0)
    assert any(needs) and not all(needs)  # else this tests nothing
    model = SparseClassifierCV(n_features=[3], cv=3).fit(X, y)
    assert model.cv_results_["n_features"].tolist() == [3] * len(FOLD_GRID)
    assert np.all(np.ptp(scores_of(model.cv_results_), axis=0) > 0)


def test_one_standard_error_takes_the_smallest_k_and_then_the_largest_ridge() -> None:
    X, y = nearly_separable(80, seed=5, noise=0.2)
    model, simple = (
        SparseClassifierCV(n_features=[1, 2, 3, 4], cv=3, one_standard_error=one).fit(X, y) for one in (False, True)
    )
    assert same_tables(simple.cv_results_, model.cv_results_)
    results, best = model.cv_results_, model.best_index_
    least = results["mean_test_score"][best] - results["standard_error"][best]
    near = np.flatnonzero(results["mean_test_score"] >= least)
    k = results["n_features"][near].min()
    largest = results["ridge"][near[results["n_features"][near] == k]].max()
    assert simple.best_params_ == {"n_features": k, "ridge": largest} and simple.ridge_ == largest
    assert k < model.best_params_["n_features"] and largest > model.ridge_  # else this tests nothing


@pytest.mark.parametrize("given", [{"positive": True}, {"keep": [1]}, {"standardize": False}, {"multi_class": "ovr"}])
def test_refits_minimise_the_loss_with_the_ridge(given: dict[str, Any]) -> None:
    """Signs hold, and kept features have no ridge."""
    X, y = nearly_separable(noise=0.3)
    if "multi_class" in given:
        y = np.digitize(X[:, 0] / X[:, 0].std(), [-0.5, 0.5])
    model = SparseClassifier(n_features=2, **given)
    model.n_features_in_ = X.shape[1]
    task = Task.of(model, model._prepare(Samples(*model._read(X, y), None, {})), Budget(features=2))
    inside = task.with_kept(np.array([0, 2]))
    own = (inside[:, None] * task.standardization.n_outputs + np.arange(task.standardization.n_outputs)).ravel()
    for ridge, x in each_ridge(task, np.array([0, 2])):
        unit, signs = task.unit_and_signs(inside)
        penalty = np.repeat(ridge * unit, task.standardization.n_outputs)
        assert np.count_nonzero(unit) == 2

        def loss(z: Any, penalty: Any = penalty) -> Any:
            whole = np.zeros(task.objective.dimension)
            whole[own] = z
            psi, gradient = task.objective.value_and_gradient(whole)
            return psi + np.sum(penalty * z**2), gradient[own] + 2 * penalty * z

        bounds = [(0, None) if sign else (None, None) for sign in np.repeat(signs, task.standardization.n_outputs)]
        found = minimize(loss, np.zeros(own.size), jac=True, bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-10})
        assert loss(x[own])[0] <= found.fun + 1e-9
        assert np.all(x[own][np.repeat(signs, task.standardization.n_outputs)] >= 0)
        assert set(np.flatnonzero(x)) <= set(own)


def test_displays_have_one_point_for_each_k(chosen: Any) -> None:
    pytest.importorskip("matplotlib")
    display = CVDisplay.from_estimator(chosen[0])
    assert display.budgets.tolist() == [1, 2, 4, 6]
    assert display.best == display.chosen == [1, 2, 4, 6].index(chosen[0].best_params_["n_features"])


def test_no_time_is_no_error() -> None:
    X, y = nearly_separable()
    for seconds in (0.0, 0.02, 0.1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # there is no time
            model = SparseClassifierCV(n_features=[1, 2, 3], time_limit=seconds).fit(X, y)
        model.results_by_budget()
        assert np.all(np.isfinite(model.predict_proba(X)))


def test_ranking_with_groups() -> None:
    scores = np.array([[-1.0, -3.0, -2.0], [-0.9, -3.2, -1.9], [-0.5, -2.4, -1.4], [-0.8, -2.7, -1.7]])
    ranking = Ranking.of(scores)
    assert ranking is not None
    groups = [np.array([0, 1]), np.array([2, 3])]
    assert ranking.of_each(groups).tolist() == [0, 2] and ranking.best(False, groups) == 2
    assert ranking.best(False) == 2 and ranking.best(True, groups) == 3 - 1
    swapped = Ranking.of(scores[[0, 1, 3, 2]])
    assert swapped is not None and swapped.of_each(groups).tolist() == [0, 3]  # 0.3 better in all folds
    unknown = np.array([[-1.0, np.nan], [-2.0, -1.0], [-0.5, -0.1]])
    median = Ranking.of(unknown)
    assert median is not None and median.of_each([np.arange(3)]).tolist() == [2]


def test_more_features_than_separate_the_classes_need_no_search_without_a_ridge(monkeypatch: Any) -> None:
    """The table does not depend on which other k are tried, nor on their order."""
    X, y = nearly_separable(n=80, d=24)
    asked: list[int] = []
    search = Task.solve

    def counted(self: Task, budget: Budget, previous: Any = None, leave: Any = None, *more: Any, **named: Any) -> Any:
        if isinstance(leave, _Undetermined):  # a search without a ridge
            asked.append(budget.features or 0)
        return search(self, budget, previous, leave, *more, **named)

    monkeypatch.setattr(Task, "solve", counted)
    whole = SparseClassifierCV(n_features=[2, 12, 20], cv=3).fit(X, y).cv_results_
    assert set(asked) == {2, 8} and asked.count(8) == 3  # once for each fold; the last fit is that of 2 features
    one = SparseClassifierCV(n_features=[20], cv=3).fit(X, y).cv_results_
    assert np.array_equal(scores_of(one), scores_of(whole)[whole["n_features"] == 20])
