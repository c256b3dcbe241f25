"""The budget holds exactly, and reported figures are those of coef_, on random problems of every kind."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import threadpool_limits

from levelprox import (
    InvalidInputError,
    SparseClassifier,
    SparseClassifierCV,
    SparseRegressor,
    SparseRegressorCV,
    Status,
)
from levelprox.estimators._parameters import NAMED_CONSTRAINTS
from tests.support.estimator_cases import TASKS, bits, estimator, fitted, is_multi_class, psi, targets
from tests.support.long_runs import LONG

PROBLEMS = 500 if LONG else 32  # every task at least twice


def dense(rng):
    return rng.standard_normal((60, 12)) * 10.0 ** rng.uniform(-2, 2, 12) + rng.standard_normal(12)


def sparse(rng):
    return scipy.sparse.random_array((80, 12), density=0.3, rng=rng, format="csr", data_sampler=rng.standard_normal)


def correlated(rng):
    return 0.2 * rng.standard_normal((60, 10)) + rng.standard_normal((60, 1))


def duplicates(rng):
    X = rng.standard_normal((50, 5))
    return np.hstack([X, X[:, ::-1], np.ones((50, 1))])


def separable(rng):
    X = rng.standard_normal((40, 8))
    X[:, 0] *= 8
    return X


def wide(rng):
    return rng.standard_normal((20, 30))


DATA = [dense, sparse, correlated, duplicates, separable, wide]


def drawn(seed: int):
    """A problem: the task, its data and its options, except for the budget."""
    rng = np.random.default_rng(seed)
    task = list(TASKS)[seed % len(TASKS)]
    make = DATA[(seed + seed // len(TASKS)) % len(DATA)]
    X = make(rng)
    y = targets(task, X, rng, size=8.0 if make is separable else 1.0)
    d = X.shape[1]
    options = {"standardize": bool(rng.random() < 0.7), "fit_intercept": bool(rng.random() < 0.7)}
    if not is_multi_class(task) and rng.random() < 0.25:
        options["positive"] = True
    kept = rng.permutation(d)[:2] if rng.random() < 0.3 else np.empty(0, int)
    if kept.size:
        options["feature_weight"] = np.isin(np.arange(d), kept, invert=True).astype(float)
    weight = rng.integers(0, 3, y.size).astype(float) if rng.random() < 0.3 else None
    if weight is not None:
        weight[:6] = 1
    return rng, task, X, y, weight, kept, options


def check_what_is_said(model, X, y, weight):
    """The figures of a fit, against its coefficients."""
    assert np.all(np.isfinite(model.coef_)) and np.all(np.isfinite(model.intercept_))
    assert isinstance(model.status_, Status) and isinstance(model.message_, str) and model.message_
    recomputed = psi(model, X, y, weight)
    assert abs(model.certificate_.psi - recomputed) <= 1e-9 * max(1.0, abs(recomputed)), (
        f"the certificate says {model.certificate_.psi:.17g}, the data {recomputed:.17g}"
    )
    if getattr(model, "positive", False):
        assert np.all(model.coef_ >= 0)
    if not model.fit_intercept:
        assert not np.any(model.intercept_)


def constant(X, j: int) -> bool:
    column = X[:, [j]].toarray().ravel() if scipy.sparse.issparse(X) else X[:, j]
    return np.ptp(column) == 0


def repeated(X, kept) -> bool:
    """Whether the kept columns are one and the same: then one of them may have it all."""
    columns = [X[:, [j]].toarray().ravel() if scipy.sparse.issparse(X) else X[:, j] for j in kept]
    return all(np.array_equal(columns[0], column) for column in columns)


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_at_most_k_features_and_the_figures_are_those_of_the_coefficients(seed):
    rng, task, X, y, weight, kept, options = drawn(seed)
    k = int(rng.integers(0, X.shape[1] + 3))
    model = fitted(estimator(task, n_features=k, **options), X, y, sample_weight=weight)
    counted = np.setdiff1d(model.selected_features_, kept)
    assert counted.size <= k
    assert model.certificate_.n_nonzero == counted.size and model.certificate_.k == model.level_ == k
    # Where a sign holds it back, a kept feature may have to be zero; where a fit is perfect, others may span it.
    if not options.get("positive") and model.status_ is not Status.DIVERGING:
        there = [j in model.selected_features_ for j in kept if not constant(X, j)]
        assert any(there) if repeated(X, kept) and there else all(there)
    check_what_is_said(model, X, y, weight)


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_the_level_holds_exactly_for_what_is_handed_out(seed):
    rng, task, X, y, weight, kept, options = drawn(seed)
    dtype = np.float32 if seed // len(TASKS) % 2 else np.float64  # every task in both
    name = list(NAMED_CONSTRAINTS)[seed % len(NAMED_CONSTRAINTS)]
    level = float(rng.uniform(0.3, 6))
    X = X.astype(dtype)
    if task == "hinge ovr":
        with pytest.raises(InvalidInputError, match="needs n_features"):
            estimator(task, level=level, constraint=name, **options).fit(X, y)
        return
    model = fitted(estimator(task, level=level, constraint=name, **options), X, y, sample_weight=weight)
    assert model.coef_.dtype == dtype and model.level_ == model.certificate_.level == level
    sizes = np.linalg.norm(np.atleast_2d(model.coef_).astype(np.float64) * model.scale_, axis=0)
    omega = options.get("feature_weight", np.ones(sizes.size))
    g = math.fsum(omega * model.constraint_.phi(sizes))
    assert g <= level, f"g = {g!r} > {level!r}"
    assert model.constraint_.total(sizes, omega) <= level
    assert abs(model.certificate_.g - g) <= 1e-12 * max(1.0, g) and model.certificate_.infeasibility == 0
    assert model.certificate_.n_nonzero == np.setdiff1d(model.selected_features_, kept).size
    check_what_is_said(model, X, y, weight)


@pytest.mark.parametrize("task", ["logistic", "squared", "absolute", "softmax"])
def test_the_figures_are_those_of_float32_coefficients_too(task):
    rng = np.random.default_rng(3)
    X = dense(rng).astype(np.float32)
    y = targets(task, X, rng)
    check_what_is_said(fitted(estimator(task, n_features=3), X, y), X, y, None)


# --- what the answer must not depend on


@pytest.mark.parametrize("options", [{"n_features": 1}, {"level": 3.5}], ids=str)
@pytest.mark.parametrize("task", ["logistic", "squared", "hinge", "softmax"])
def test_threads_change_no_bit(task, options):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((6600, 40))  # twice what a task takes
    y = targets(task, X, rng)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(bits(estimator(task, tol=1e-4, **options).fit(X, y)))
    assert found[0] == found[1]


def choosing(kind, **options):
    return kind(cv=3, **options)


CV_TASKS = {
    "logistic": (SparseClassifierCV, SparseClassifier, {}),
    "softmax": (SparseClassifierCV, SparseClassifier, {}),
    "squared": (SparseRegressorCV, SparseRegressor, {}),
    "poisson": (SparseRegressorCV, SparseRegressor, {"loss": "poisson"}),
}


def cv_problem(task: str):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((60, 6)) + 0.5 * rng.standard_normal((60, 1))
    return X, targets(task, X, rng)


@pytest.mark.parametrize("task", CV_TASKS)
def test_the_answer_at_k_is_that_of_the_single_fit_at_k_whatever_else_is_tried(task):
    many, single, options = CV_TASKS[task]
    X, y = cv_problem(task)
    scores = {}
    for grid in ([1, 2, 4], [4, 2, 2], [2]):
        model = choosing(many, n_features=grid, **options).fit(X, y)
        best = model.best_params_["n_features"]
        assert bits(model) == bits(single(n_features=best, **options).fit(X, y))
        for i, k in enumerate(model.cv_results_["n_features"]):
            row = tuple(model.cv_results_[f"split{fold}_test_score"][i] for fold in range(3))
            assert scores.setdefault(int(k), row) == row
    assert set(scores) == {1, 2, 4}


@pytest.mark.process
@pytest.mark.parametrize("options", [{"n_features": [1, 2, 3]}, {"level": [1.5, 2.5]}], ids=str)
def test_processes_change_no_bit(options):
    X, y = cv_problem("logistic")
    one, two = (SparseClassifierCV(cv=3, n_jobs=n_jobs, **options).fit(X, y) for n_jobs in (1, 2))
    assert bits(one) == bits(two)
    for name in one.cv_results_:
        if name != "mean_fit_time":
            assert one.cv_results_[name].tobytes() == two.cv_results_[name].tobytes(), name
