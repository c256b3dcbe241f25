"""Columns of X and of the Hessian that are kept between fits."""

from __future__ import annotations

import numpy as np
import pytest

from levelprox import LinearModel
from levelprox.designs import DenseDesign
from levelprox.subset.column_cache import Columns, HessianColumns, is_near


def _compute(calls):
    def compute(features):
        calls.append(features.tolist())
        return np.arange(4.0)[:, None] + features[None, :]

    return compute


def test_only_columns_of_other_curvatures_are_computed_again():
    cache, calls, bend = HessianColumns(), list[list[int]](), np.ones(5)
    first = cache(np.array([1, 3]), 4, bend, 0.0, _compute(calls))
    again = cache(np.array([3, 2]), 4, bend.copy(), 0.0, _compute(calls))
    cache(np.array([3]), 4, 1.01 * bend, 0.0, _compute(calls))
    assert calls == [[1, 3], [2], [3]]
    np.testing.assert_array_equal(first[:, 1], again[:, 0])


def test_columns_of_near_curvatures_serve_where_that_is_allowed_and_stay_symmetric():
    cache, calls, bend = HessianColumns(), list[list[int]](), np.ones(5)
    features = np.array([1, 3])
    cache(features, 4, bend, 0.1, _compute(calls))
    columns = cache(features, 4, 1.05 * bend, 0.1, _compute(calls))
    cache(features, 4, 1.2 * bend, 0.1, _compute(calls))
    assert calls == [[1, 3], [1, 3]]
    np.testing.assert_array_equal(columns[features], columns[features].T)


def test_no_features_have_no_columns():
    assert HessianColumns()(np.empty(0, np.intp), 4, np.empty(0), 0.0, _compute([])).shape == (4, 0)


def test_curvatures_are_compared_by_their_sum():
    assert is_near(np.ones(4), np.ones(4), 0.0)
    assert not is_near(np.ones(4), np.array([1.0, 1.0, 1.0, 1.5]), 0.1)
    assert is_near(np.ones(4), np.array([1.0, 1.0, 1.0, 1.5]), 0.2)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_of_dense_data_are_read_without_products(order, dtype, monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    X = np.asarray(rng.standard_normal((30, 8)) * (rng.random((30, 8)) < 0.5), dtype=dtype, order=order)
    objective = LinearModel(X, rng.standard_normal(30), fit_intercept=True)
    monkeypatch.setattr(DenseDesign, "matvec", None)
    for j, column in enumerate(Columns(objective)(np.arange(8))):
        dense = column.dense(30)
        assert dense.dtype == np.float64 and dense.flags.c_contiguous
        np.testing.assert_array_equal(dense, X[:, j].astype(np.float64))
