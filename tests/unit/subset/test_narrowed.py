"""Fits of folds: sets from second-order models over some of the features, without claims."""

from __future__ import annotations

import gc
import pickle
import weakref

import joblib
import numpy as np
import pytest

from levelprox import LinearModel, SparseClassifierCV, best_subset
from levelprox.problem import SubsetProblem
from levelprox.subset.column_cache import shared
from levelprox.subset.swaps import SwapSearch

LOSSES = ["logistic", "poisson", "gamma", "huber", "squared_hinge", "squared"]


def found_in_fold(objective, k, **options):
    return best_subset(objective, k, **options, _guidance={"examine": False})


def model(loss, n=40, d=60, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n, 1))
    z = X[:, :3] @ np.array([1.0, -1.0, 0.7])
    y = {
        "logistic": lambda: np.where(rng.random(n) < 1 / (1 + np.exp(-z)), 1.0, -1.0),
        "squared_hinge": lambda: np.where(z + rng.standard_normal(n) > 0, 1.0, -1.0),
        "poisson": lambda: rng.poisson(np.exp(0.5 * z)).astype(np.float64),
        "gamma": lambda: rng.gamma(2.0, np.exp(z) / 2) + 1e-6,
    }.get(loss, lambda: z + rng.standard_normal(n))()
    return LinearModel(X, y, loss, fit_intercept=True, **options)


def problem_of(objective):
    return SubsetProblem(objective, 3)


@pytest.mark.parametrize(("loss", "ridge"), [("logistic", 0.0), ("squared", 0.0), *((loss, 0.01) for loss in LOSSES)])
def test_the_answer_at_k_does_not_depend_on_other_k(loss, ridge):
    first, second = (model(loss, n=120, d=40, ridge=ridge) for _ in range(2))
    for k in (8, 1, 4):
        found_in_fold(first, k)
    for k in (7, 3):
        one, other = found_in_fold(first, k), found_in_fold(second, k)
        assert one.x.tobytes() == other.x.tobytes() and one.support.size <= k


@pytest.mark.parametrize("loss", LOSSES)
def test_no_claims_are_made_and_the_loss_is_about_the_best(loss, monkeypatch):
    objective = model(loss, d=30, ridge=0.01)
    whole = {k: best_subset(objective, k).psi for k in (2, 5)}
    monkeypatch.setattr(SwapSearch, "examined", None)
    monkeypatch.setattr(SwapSearch, "best_addition", None)
    null = found_in_fold(objective, 0).psi
    for k, psi in whole.items():
        found = found_in_fold(objective, k)
        assert found.psi <= psi + 0.05 * (null - psi)
        assert found.swaps.examined == 0 and found.status.success


def test_more_features_than_the_first_candidates():
    objective = model("poisson", n=160, d=150, ridge=1e-2)
    psi = [found_in_fold(objective, k).psi for k in (0, 2, 70)]
    assert np.all(np.diff(psi) < 0)
    assert sorted(shared(problem_of(objective)).narrowed) == [64, 128]


def test_kept_features_are_in_every_set():
    objective = model("logistic", n=60, d=40)
    for k in (1, 4):
        found = found_in_fold(objective, k, keep=[20, 21])
        assert found.x[20] != 0 and found.x[21] != 0 and found.support.size <= k


def test_the_shared_cache_belongs_to_the_data_and_is_not_pickled():
    objective = model("logistic")
    found_in_fold(objective, 3)
    assert shared(problem_of(objective)).narrowed
    assert not shared(problem_of(pickle.loads(pickle.dumps(objective)))).narrowed
    assert not shared(problem_of(objective.ridged(0.1))).narrowed
    gone = weakref.ref(objective)
    del objective
    gc.collect()
    assert gone() is None


def test_few_models_are_kept_with_a_design():
    objective = model("logistic", n=50, d=8)
    for ridge in np.arange(1, 13) / 10:
        found_in_fold(objective.ridged(ridge), 2)
    kept = [value for name, value in vars(objective.design).items() if "shared" in name]
    assert len(kept[0]) <= 8


@pytest.mark.parametrize("d", [10, 30])
def test_scores_are_the_same_for_any_other_candidates_and_threads(d):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((70, d))
    y = (X[:, 0] - X[:, 1] + rng.logistic(size=70) > 0).astype(int)
    many = SparseClassifierCV(n_features=[1, 2, 4], cv=3).fit(X, y).cv_results_["mean_test_score"]
    for place, k in enumerate([1, 2]):
        alone = SparseClassifierCV(n_features=[k], cv=3).fit(X, y).cv_results_["mean_test_score"]
        assert alone.tobytes() == many[place : place + 1].tobytes()
    with joblib.parallel_backend("threading"):
        threads = SparseClassifierCV(n_features=[1, 2, 4], cv=3, n_jobs=3).fit(X, y).cv_results_["mean_test_score"]
    assert threads.tobytes() == many.tobytes()
