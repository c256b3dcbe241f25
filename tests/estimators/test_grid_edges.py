"""A choice at the edge of its grid is a warning that names the parameter to widen."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from levelprox import SparseClassifierCV, SparseRegressorCV
from levelprox.estimators._parameters import DEFAULT_GRID


def data(n: int = 60, d: int = 5, relevant: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, X[:, :relevant].sum(axis=1) + 0.3 * rng.standard_normal(n)


def edges(model, X, y) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(one.message) for one in seen if one.category is UserWarning]


@pytest.mark.parametrize("criterion", ["cv", "bic"])
@pytest.mark.parametrize("grid", [[0, 1], [0, 1, 2], [1, 2, 3, 4], [3], [0, 5]], ids=str)
def test_the_largest_of_a_grid_is_said_just_where_it_was_chosen(criterion, grid):
    X, y = data()
    model = SparseRegressorCV(n_features=grid, criterion=criterion, cv=3)
    seen = edges(model, X, y)
    best = model.best_params_["n_features"]
    assert best == max(k for k in grid if k <= 3 or grid == [0, 5])
    if best == max(grid) and len(grid) > 1 and best < X.shape[1]:
        (text,) = seen
        assert f"the best n_features is {best}, the largest of the grid" in text and "by n_features" in text
        assert ("criterion='cv'" in text) == (criterion != "cv")
    else:
        assert seen == []


@pytest.mark.parametrize("d", [13, 40])
def test_the_default_grid_says_where_it_ends(d):
    """All features are among few of them; of many the message says that no more were tried, and nothing warns."""
    X, y = data(n=200, d=d, relevant=d)
    model = SparseRegressorCV(cv=3)
    assert edges(model, X, y) == []
    assert model.best_params_ == {"n_features": min(d, 30)}
    assert ("No more than 30 features were tried" in model.message_) == (d > 30)


def test_levels_have_an_edge_too():
    X, y = data()
    (text,) = edges(SparseRegressorCV(level=[0.5, 1.5], cv=3), X, y)
    assert "the best level is 1.5, the largest of the grid" in text and "by level" in text


def test_the_smallest_within_one_standard_error_is_no_edge():
    X, y = data()
    model = SparseRegressorCV(n_features=[3, 4, 5], cv=3, one_standard_error=True)
    assert edges(model, X, y) == [] and model.best_params_ == {"n_features": 3}


@pytest.mark.parametrize("n", [15, 57, 140, 400])
@pytest.mark.parametrize("d", [3, 50])
def test_a_criterion_has_a_default_grid_for_its_samples(n, d):
    for kind in (SparseRegressorCV, SparseClassifierCV):
        most = {"cv": d, "ebic": min(d, max(n // 10, 1))}
        for criterion, largest in most.items():
            grid = [budget.features for budget in kind(criterion=criterion)._grid(n, d)]
            last = min(largest, DEFAULT_GRID[-1])
            assert grid == [*(k for k in DEFAULT_GRID if k < last), last]
        given = kind(n_features=[2, 40], criterion="ebic")._grid(n, d)
        assert [budget.features for budget in given] == [2, 40]


def test_the_default_grid_of_a_criterion_ends_before_it_fails():
    """With nearly as many features as samples the squared loss falls to nothing, and every criterion with it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 40))
    y = X[:, 0] + 0.5 * rng.standard_normal(30)
    model = SparseRegressorCV(criterion="ebic")
    assert edges(model, X, y) == [] and model.best_params_ == {"n_features": 1}
    (text,) = edges(SparseRegressorCV(n_features=[1, 26], criterion="ebic"), X, y)
    assert "the best n_features is 26" in text and "there are 30 samples" in text
