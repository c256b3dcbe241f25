"""Softmax fits of folds: one path over the number of features, which makes no claims."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from levelprox import MultinomialModel, best_subset
from levelprox.problem import SubsetProblem
from levelprox.subset.column_cache import shared
from levelprox.subset.multiclass_fit import ClassNewton
from levelprox.subset.multiclass_path import ClassEstimates, _inverse
from levelprox.subset.smooth_search import SmoothSearch
from levelprox.subset.swaps import SwapSearch
from tests.support.clocks import until


def model(n=120, d=12, K=4, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n, 1))
    z = X[:, :4] @ rng.standard_normal((4, K)) + rng.gumbel(size=(n, K))
    return MultinomialModel(X, np.argmax(z, axis=1), fit_intercept=True, **({"ridge": 0.01} | options))


def found_in_fold(objective, k, **options):
    return best_subset(objective, k, **options, _guidance={"examine": False})


def problem_of(objective, k=3):
    return SubsetProblem(objective, k)


def newton_of(objective):
    d = objective.design.shape[1]
    columns = np.array([objective.design.matvec(unit) for unit in np.eye(d)])
    return ClassNewton(columns, objective.class_fits, objective.ridge.own, objective.n_outputs)


def weighted(n=120, K=4, seed=5):
    rng = np.random.default_rng(seed)
    return {"sample_weight": rng.integers(0, 3, n).astype(float), "offset": rng.standard_normal((n, K))}


@pytest.mark.parametrize("ridge", [0.0, 0.01])
def test_the_answer_at_k_does_not_depend_on_other_k(ridge):
    first, second = (model(n=150, d=20, ridge=ridge) for _ in range(2))
    for k in (16, 1, 9, 4):
        found_in_fold(first, k)
    for k in (7, 3, 8):
        one, other = found_in_fold(first, k), found_in_fold(second, k)
        assert one.x.tobytes() == other.x.tobytes() and one.support.size <= k
        assert (one.n_refits, one.n_grad) == (other.n_refits, other.n_grad)


@pytest.mark.parametrize("options", [{}, weighted()])
def test_no_claims_are_made_and_the_loss_is_about_the_best(options, monkeypatch):
    objective = model(**options)
    whole = {k: best_subset(objective, k).psi for k in (2, 5)}
    monkeypatch.setattr(SwapSearch, "examined", None)
    monkeypatch.setattr(SwapSearch, "best_addition", None)
    null = found_in_fold(objective, 0).psi
    for k, psi in whole.items():
        found = found_in_fold(objective, k)
        assert found.psi <= psi + 0.01 * (null - psi)
        assert found.swaps.examined == 0 and found.status.success and found.stationarity <= 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_small_problems_are_solved_to_the_optimum_or_nearly(seed):
    objective = model(n=60, d=7, K=3, seed=seed)
    swaps = _swaps(objective)
    null = swaps.null.psi
    for k in (1, 2, 3):
        least = min(swaps.fitted(np.array([*some, 7])).psi for some in itertools.combinations(range(7), k))
        assert found_in_fold(objective, k).psi <= least + 0.02 * (null - least)


def _swaps(objective):
    search = SmoothSearch(1e-8)
    search.begin(problem_of(objective))
    return search.swaps


@pytest.mark.parametrize("options", [{}, weighted()])
@pytest.mark.parametrize("change", [None, (3, 5), (3, None), (None, 5)])
def test_fits_are_those_of_other_refits(options, change):
    objective = model(d=40, K=5, n=200, **(weighted(200, 5) if options else {}))
    newton, swaps = newton_of(objective), _swaps(objective)
    features, start, near = np.append(np.arange(15), 40), np.zeros(80), None
    if change is not None:
        at = newton.fitted(features, start, 1e-9)
        features, start, near = ClassEstimates(newton, at, np.array([40])).changed(*change)
    fit = newton.fitted(features, start, 1e-9, near)
    assert np.array_equal(fit.features, np.sort(features))
    assert fit.psi == pytest.approx(swaps.fitted(fit.features).psi, rel=1e-8)
    assert fit.psi == pytest.approx(objective.restrict(fit.features).value_and_gradient(fit.x)[0], rel=1e-12)
    assert newton.fitted(features, start, 1e-9, near, below=0.9 * fit.psi) is None


@pytest.mark.parametrize("change", [(1, 3), (2, None), (None, 4)])
def test_what_is_known_of_the_inverse_of_a_changed_set(change):
    objective = model(**weighted())
    newton = newton_of(objective)
    at = newton.fitted(np.array([1, 4, 7, 12]), np.zeros(16), 1e-12)
    estimates = ClassEstimates(newton, at, np.array([12]))
    features, x, near = estimates.changed(*change)
    # With x of the second-order model of the quadratic itself, the next Newton step is 0: one fit from there with this
    # inverse has the same end as one with none.
    one, other = (newton.fitted(features, x, 1e-12, inverse) for inverse in (near, None))
    assert one.psi == pytest.approx(other.psi, rel=1e-10)
    np.testing.assert_allclose(one.margins - one.margins[:, :1], other.margins - other.margins[:, :1], atol=1e-4)


def test_estimates_are_those_of_swaps():
    objective = model(**weighted())
    newton, swaps = newton_of(objective), _swaps(objective)
    features = np.array([1, 4, 7, 12])
    at = newton.fitted(features, np.zeros(16), 1e-12)
    estimates, others = ClassEstimates(newton, at, np.array([12])), swaps.estimates(swaps.fitted(features))
    outside = estimates.outside
    assert outside.tolist() == [0, 2, 3, 5, 6, 8, 9, 10, 11]
    np.testing.assert_allclose(estimates.additions(), others.additions()[outside], rtol=1e-4)
    for i in range(3):
        np.testing.assert_allclose(estimates.swaps()[i], others.gains(i)[outside], rtol=1e-4, atol=1e-8)
        assert estimates.cost[i] == pytest.approx(others.cost(i), rel=1e-4)
    assert estimates.cost[3] == np.inf and np.all(estimates.swaps()[3] == -np.inf)


def test_kept_features_are_in_every_set():
    objective = model()
    for k in (1, 4):
        x = found_in_fold(objective, k, keep=[10, 11]).x.reshape(-1, 4)
        assert np.all(np.any(x[[10, 11]] != 0, axis=1)) and np.count_nonzero(np.any(x[:10] != 0, axis=1)) <= k


def test_separated_classes_come_to_an_end():
    X = np.random.default_rng(0).standard_normal((40, 15))
    objective = MultinomialModel(X, np.argmax(X[:, :3], axis=1), fit_intercept=True)
    with pytest.warns(match="separable|keeps decreasing"):
        found = found_in_fold(objective, 5)
    assert found.psi < 1e-3


def test_a_path_goes_with_the_ridge_and_columns_are_shared():
    objective = model()
    other = objective.ridged(0.1)
    found_in_fold(objective, 3), found_in_fold(other, 3)
    one, two = shared(problem_of(objective)), shared(problem_of(other))
    assert one.path is not two.path and one.entries is two.entries


def test_a_time_limit_is_kept():
    objective, began = model(n=2000, d=60, K=8), time.monotonic()
    with pytest.warns(match="time"):
        found = found_in_fold(objective, 30, time_limit=0.05, callback=until(0.05))
    assert time.monotonic() - began < 5 and found.support.size <= 30


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.01])
def test_columns_of_zeros_and_equal_columns(fit_intercept, ridge):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 8))
    X[:, 3], X[:, 5] = 0.0, X[:, 4]
    labels = np.argmax(X[:, :3] + rng.gumbel(size=(50, 3)), axis=1)
    objective = MultinomialModel(X, labels, fit_intercept=fit_intercept, ridge=ridge)
    for k in (1, 7, 8):
        assert found_in_fold(objective, k).psi <= best_subset(objective, k).psi + 1e-6


@pytest.mark.parametrize("entry", [0.0, np.nan, np.inf, -1.0])
def test_matrices_that_cannot_be_factorised_have_an_inverse(entry):
    inverse = _inverse(np.diag([2.0, entry, 3.0]))
    assert np.all(np.isfinite(inverse)) and np.all(np.diagonal(inverse) > 0)
