"""X by its different rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse

from levelprox import LinearModel, Problem, solve
from levelprox.constraints import MCP
from levelprox.designs import InterceptDesign, RepeatedRows, ScaledDesign, SelectedDesign, as_design
from levelprox.designs.repeated_rows import by_distinct_rows
from levelprox.designs.sparse import SparseDesign


def categories(n=3000, kinds=40, d=6, dtype=np.float64, index=np.int32):
    rng = np.random.default_rng(n + kinds)
    rows = rng.integers(-1, 2, (kinds, d)).astype(dtype)
    X = scipy.sparse.csr_array(rows[rng.integers(0, kinds, n)])
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(np.int64)
    return X


@pytest.mark.parametrize("around", [lambda X: X, InterceptDesign, lambda X: ScaledDesign.standardized(X)])
@pytest.mark.parametrize(("dtype", "index"), [(np.float64, np.int32), (np.float32, np.int64)])
def test_products_are_those_of_all_rows(around, dtype, index):
    rng = np.random.default_rng(0)
    X = around(as_design(categories(dtype=dtype, index=index)))
    grouped = by_distinct_rows(X)
    assert grouped is not X
    n, d = X.shape
    x, r, weight = rng.standard_normal(d), rng.standard_normal(n), rng.standard_normal(n)
    close = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(grouped.matvec(x), X.matvec(x), **close)
    np.testing.assert_allclose(grouped.rmatvec(r), X.rmatvec(r), **close)
    np.testing.assert_allclose(grouped.gram(weight), X.gram(weight), **close)
    np.testing.assert_allclose(grouped.gram(), X.gram(), **close)
    np.testing.assert_allclose(grouped.gram(weight, X.gram(weight)[:2, :2]), X.gram(weight), **close)
    np.testing.assert_allclose(grouped.column_squares(weight**2), X.column_squares(weight**2), **close)
    np.testing.assert_allclose(grouped.row_squares(), X.row_squares(), **close)
    np.testing.assert_allclose(grouped.row_magnitudes(x), X.row_magnitudes(x), **close)
    assert np.all(grouped.column_magnitudes() >= X.column_magnitudes() * (1 - 1e-12) - 1e-12) or X.base is not None


def test_parts_copies_and_the_kernel_have_all_rows():
    X = as_design(categories())
    grouped = by_distinct_rows(X)
    assert isinstance(grouped, RepeatedRows) and grouped.distinct.shape[0] <= 40
    x = np.arange(1.0, 4.0)
    part = grouped.view([4, 0, 2])
    assert np.array_equal(part.matvec(x), X.view([4, 0, 2]).matvec(x))
    assert np.array_equal(grouped.rows([7, 7, 3]).matvec(np.ones(6)), X.rows([7, 7, 3]).matvec(np.ones(6)))
    assert np.array_equal(pickle.loads(pickle.dumps(grouped)).matvec(np.ones(6)), X.matvec(np.ones(6)))
    out = np.empty(X.shape[0])
    grouped.kernel.matvec(np.ones(6), out)
    assert np.array_equal(out, X.matvec(np.ones(6))) and np.array_equal(grouped.row_major().matvec(np.ones(6)), out)


def test_groups_are_numbered_by_their_first_rows_and_hold_equal_rows_only():
    X = categories(n=2000, kinds=12)
    group, first = np.empty(2000, np.int64), np.empty(500, np.int64)
    count = as_design(X).kernel.equal_slices(group, first)
    dense = X.toarray()
    assert count == np.unique(dense, axis=0).shape[0]
    assert np.array_equal(dense, dense[first[:count]][group])
    assert np.all(np.diff(first[:count]) > 0) and np.array_equal(group[first[:count]], np.arange(count))
    assert as_design(X).kernel.equal_slices(group, first[: count - 1]) == -1  # there is no room


def test_rows_that_differ_csc_selections_and_few_rows_are_left_alone():
    rng = np.random.default_rng(1)
    differ = as_design(scipy.sparse.csr_array(rng.standard_normal((2000, 3))))
    columns, few = as_design(categories().tocsc()), as_design(categories(n=900))
    selected = SelectedDesign(as_design(categories()), [1, 2])
    for X in (differ, columns, few, selected, as_design(np.ones((2000, 2)))):
        assert by_distinct_rows(X) is X


def test_hessians_of_working_sets_of_categories_go_over_different_rows(monkeypatch):
    rows = []
    gram = SparseDesign._gram
    monkeypatch.setattr(SparseDesign, "_gram", lambda self, *a: rows.append(self.shape[0]) or gram(self, *a))
    X = categories(n=4000, kinds=60, d=12)
    b = np.sign(X @ np.array([1.0, -1, 1] + [0.0] * 9) + np.random.default_rng(0).logistic(size=4000))
    found = solve(Problem(LinearModel(X, b, "logistic"), MCP.from_threshold(0.1), 3.5), start="direct")
    assert str(found.status) == "solved"
    # Only those at the end, of the certificate, are over all samples.
    assert rows.count(4000) <= 3 and len(rows) - rows.count(4000) >= 2
