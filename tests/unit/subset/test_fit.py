"""Fits with signs: slopes that decide whether a feature leaves its bound."""

import numpy as np
import pytest

from levelprox.subset.fit import _orthogonal


def problem_with_mean(mean, n=60, seed=0):
    """Return nearly dependent columns with a large mean, a target, and the intercept as the last column."""
    rng = np.random.default_rng(seed)
    A = mean + (rng.random((n, 3)) < 0.1)
    return np.column_stack([A, np.ones(n)]), np.where(rng.random(n) < 0.5, -1.0, 1.0)


@pytest.mark.parametrize("mean", [0.0, 1e4, 1e7])
def test_slopes_are_orthogonal_to_columns_that_nearly_depend_on_each_other(mean):
    A, b = problem_with_mean(mean)
    slope, bend = -b / (2 * b.size), np.full(b.size, 0.25 / b.size)
    left = A.T @ _orthogonal(A, slope, bend)
    digits = 32 * np.finfo(float).eps * np.abs(A).T @ np.abs(slope)
    assert np.all(np.abs(left) <= digits)
    centred = A - np.mean(A, axis=0) * (np.arange(4) < 3)
    assert np.allclose(
        _orthogonal(A, slope, bend), _orthogonal(centred, slope, bend), atol=1e-7 * np.max(np.abs(slope))
    )


def test_columns_without_curvature_change_no_slopes():
    A, b = problem_with_mean(0.0)
    np.testing.assert_array_equal(_orthogonal(A, -b, np.zeros(b.size)), -b)
