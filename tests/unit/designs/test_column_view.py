"""X[:, W] without a copy of the data, and Gram matrices that grow."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse

import levelprox.designs._base
import levelprox.designs.column_view
import levelprox.designs.sparse
from levelprox.designs import DenseDesign, SelectedDesign, as_design
from levelprox.exceptions import InvalidInputError
from levelprox.objectives import LinearModel
from tests.support import reference
from tests.support.registries import DESIGNS
from tests.unit.designs.test_designs import as_array, assert_same_products, data

SELECTIONS = {
    "one": np.array([4]),
    "any order, with repeats": np.array([30, 0, 7, 7, 2, 30]),
    "all, shuffled": np.random.default_rng(1).permutation(31),
    "none": np.array([], dtype=np.int64),
    "the empty column": np.array([2]),
}


@pytest.fixture
def small_pieces(monkeypatch):
    """Several pieces for matrices that would be one."""
    monkeypatch.setattr(levelprox.designs.column_view, "_PIECE", 400)
    monkeypatch.setattr(levelprox.designs.sparse, "_PIECE", 50)


@pytest.fixture
def never_copy(monkeypatch):
    """No copy is small enough to be made by `view`."""
    monkeypatch.setattr(levelprox.designs._base, "_SMALL", -1)
    monkeypatch.setattr(SelectedDesign, "copy", lambda self: pytest.fail("X[:, W] was copied"))


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("W", SELECTIONS.values(), ids=SELECTIONS)
@pytest.mark.parametrize("name", DESIGNS)
def test_a_selection_of_every_design_equals_dense(name, W):
    X = data((23, 31))
    selected = SelectedDesign(DESIGNS[name](X), W)
    assert selected.shape == (23, W.size)
    if W.size:
        assert_same_products(selected, X[:, W])
        assert_same_products(selected.columns([0, 0]), X[:, W][:, [0, 0]])
        assert_same_products(selected.rows([3, 1, 1]), X[:, W][[3, 1, 1]])
        assert_same_products(selected.row_major(), X[:, W])
        assert_same_products(pickle.loads(pickle.dumps(selected)), X[:, W])
    assert selected.matvec(np.zeros(W.size)).shape == selected.row_squares().shape == (23,)
    squares = (X[:, W].astype(selected.dtype).astype(np.float64) ** 2).sum(axis=1)
    assert np.allclose(selected.row_squares(), squares, rtol=1e-13, atol=0)
    assert selected.gram().shape == (W.size, W.size)


@pytest.mark.usefixtures("small_pieces", "never_copy")
@pytest.mark.parametrize("name", ["dense C", "dense Fortran float32", "CSR", "CSC", "CSC unsorted"])
def test_products_of_a_selection_copy_nothing_but_the_kernel_does(name):
    X = data((40, 31))
    selected = DESIGNS[name](X).view(np.arange(30))
    assert isinstance(selected, SelectedDesign)
    selected.matvec(np.ones(30))
    selected.rmatvec(np.ones(40))
    selected.gram(np.ones(40))
    selected.column_squares()
    selected.row_squares()
    assert "kernel" not in vars(selected)
    with pytest.raises(pytest.fail.Exception):
        selected.kernel  # noqa: B018


def test_a_selection_takes_masks_and_strided_indices_and_names_what_is_outside():
    X = data((40, 31))
    for W in (np.arange(31)[::-3], np.arange(31) % 2 == 0, [3, 1], np.array([5, 4], dtype=np.int16)):
        for name in ("dense C", "CSR", "CSC"):
            assert_same_products(SelectedDesign(DESIGNS[name](X), W), X[:, W])
    with pytest.raises(InvalidInputError, match=r"W\[1\] is 31, outside 0..30"):
        SelectedDesign(as_design(X), [0, 31])


def test_compiled_loops_get_the_copy():
    X = data((40, 31))
    W = np.arange(3, 20)
    model = LinearModel(SelectedDesign(as_design(X), W), np.ones(40), "squared")
    want = LinearModel(np.ascontiguousarray(X[:, W]), np.ones(40), "squared").value_and_gradient(np.ones(17))
    got = model.value_and_gradient(np.ones(17))
    assert got[0] == want[0] and np.array_equal(got[1], want[1])
    assert model.design.kernel is model.design.kernel


def test_a_view_is_the_design_itself_a_small_copy_or_a_selection(monkeypatch):
    X = data((40, 31)) + 1.0
    for name in ("dense C", "CSR", "CSC"):
        design = DESIGNS[name](X)
        assert design.view(np.arange(31)) is design and design.view(np.ones(31, dtype=bool)) is design
        assert type(design.view(np.arange(30))) is type(design)  # 128 MiB are always allowed
        monkeypatch.setattr(levelprox.designs._base, "_SMALL", 0)
        assert type(design.view(np.arange(7))) is type(design)  # less than a quarter
        large = design.view(np.arange(20))
        assert isinstance(large, SelectedDesign)
        assert type(large.view([0, 1])) is type(design) and large.view(np.arange(20)[::-1]).base is design
        for view in (design.view([3, 1]), large, large.view([1, 0]), large.view(np.arange(20)[::-1])):
            W = {2: [3, 1], 20: np.arange(20)}[view.shape[1]]
            if view is not large and view.shape[1] == 20:
                W = np.arange(20)[::-1]
            elif view.shape[1] == 2 and not np.array_equal(as_array(view), X[:, W]):
                W = [1, 0]
            assert_same_products(view, X[:, W])
        monkeypatch.undo()


def test_the_size_of_a_copy_is_known_before_it_is_made():
    X = np.zeros((50, 4))
    X[:, 0] = 1  # one column has nearly all entries
    X[3, 2] = 5
    for kind in (scipy.sparse.csr_array, scipy.sparse.csc_array):
        design = as_design(kind(X))
        assert design.stored_in(np.array([0])) == 50 and design.stored_in(np.array([1, 2, 2])) == 2
        assert SelectedDesign(design, np.array([2, 0])).stored == 51
    assert as_design(X).stored_in(np.array([1, 1])) == 100


# X'DX of which a part is known.


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("name", DESIGNS)
def test_a_known_gram_matrix_is_copied_and_completed(name):
    X = data((23, 31))
    rng = np.random.default_rng(3)
    D = rng.standard_normal(23)
    D[4] = 0
    for design in (DESIGNS[name](X), SelectedDesign(DESIGNS[name](X), np.arange(31))):
        values = X.astype(design.dtype).astype(np.float64)
        full = reference.gram(values, D)
        for k in (0, 1, 17, 30, 31):
            known = rng.standard_normal((k, k))  # not the truth: it must be copied, not computed
            got = design.gram(D, known=known)
            assert np.array_equal(got[:k, :k], known)
            for part in ((slice(k, None), slice(None)), (slice(None), slice(k, None))):
                assert np.allclose(got[part], full[part], rtol=1e-12, atol=1e-12)
            assert np.array_equal(got[k:, :k], got[:k, k:].T)


@pytest.mark.parametrize("density", [0.02, 0.15, 0.5])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gram_matrices_of_every_density_are_alike(density, index, dtype):
    X = scipy.sparse.random_array((2000, 60), density=density, rng=np.random.default_rng(5), dtype=dtype)
    D = np.random.default_rng(6).standard_normal(2000)
    dense = X.toarray().astype(np.float64)
    want = dense.T @ (D[:, None] * dense)
    for fmt in ("csr", "csc"):
        Y = X.asformat(fmt)
        Y.indices = Y.indices.astype(index)
        design = as_design(Y)
        got = design.gram(D)
        assert np.allclose(got, want, rtol=1e-12, atol=1e-12) and np.array_equal(got, got.T)
        again = design.gram(D, known=got[:25, :25])
        assert np.allclose(again, want, rtol=1e-12, atol=1e-12) and np.array_equal(again, again.T)


def test_known_entries_of_a_gram_matrix_are_checked():
    design = DenseDesign(np.ones((3, 2)))
    for known in (np.ones((3, 3)), np.ones((1, 2)), np.ones(2)):
        with pytest.raises(InvalidInputError, match="known must be square with at most 2 rows"):
            design.gram(known=known)


def test_row_storage_of_columns_is_made_by_our_own_kernel():
    X = data((57, 33))
    for kind in ("CSC", "CSC unsorted", "CSC float32 int64"):
        design = DESIGNS[kind](X)
        turned = design.row_major()
        assert turned.by_rows and turned.dtype == design.dtype and turned.indices.dtype == design.indices.dtype
        assert np.array_equal(as_array(turned), X.astype(design.dtype))
        assert turned.kernel.is_sorted()
