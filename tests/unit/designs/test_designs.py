"""Designs: every storage gives the products of the dense matrix, and bad data raise errors."""

from __future__ import annotations

import hashlib
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from levelprox import _kernels
from levelprox.designs import (
    DenseDesign,
    Design,
    InterceptDesign,
    ScaledDesign,
    SelectedDesign,
    SparseDesign,
    as_design,
)
from levelprox.exceptions import InvalidInputError
from tests.support import reference
from tests.support.children import Child, Ended
from tests.support.long_runs import LONG
from tests.support.registries import DESIGNS, in_halves, strided, unsorted

SHAPES = [(1, 1), (1, 7), (7, 1), (5, 3), (37, 20), (20, 37), (11, 4100), (4100, 11), (40, 70)]


def data(shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """Return normal entries, a third of them stored; one row and one column are empty if there is room."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random(shape) < 1 / 3, rng.standard_normal(shape), 0.0)
    if min(shape) > 2:
        X[1] = 0
        X[:, 2] = 0
    return X


def assert_same_products(design: Design, X: np.ndarray, seed: int = 0) -> None:
    """All that a design can do, against NumPy on the values it was given (rounded, if it is float32)."""
    X = X.astype(design.dtype).astype(np.float64)
    n, d = X.shape
    A = np.abs(X)
    rng = np.random.default_rng(seed)
    x, r, D = rng.standard_normal(d), rng.standard_normal(n), rng.standard_normal(n)

    def close(name: str, got: np.ndarray, want: np.ndarray, scale: np.ndarray) -> None:
        assert got.dtype == np.float64 and got.shape == want.shape, name
        error = np.abs(got - want)
        assert np.all(error <= 1e-13 * scale), f"{name}: error {error.max():.3g}, scale {scale.max():.3g}"

    for v, w in ((x, r), (x * (np.arange(d) % 3 > 0), r * (np.arange(n) % 4 > 0))):  # zeros are skipped
        close("matvec", design.matvec(v), X @ v, A @ np.abs(v))
        close("rmatvec", design.rmatvec(w), X.T @ w, A.T @ np.abs(w))
    close("column_squares", design.column_squares(), (X**2).sum(axis=0), (X**2).sum(axis=0))
    close("column_squares weighted", design.column_squares(r), (X**2).T @ r, (X**2).T @ np.abs(r))
    if d <= 100:
        close("gram", design.gram(), X.T @ X, A.T @ A)
        weighted = design.gram(D)
        close("gram weighted", weighted, X.T @ (D[:, None] * X), A.T @ (np.abs(D)[:, None] * A))
        assert np.array_equal(weighted, weighted.T), "the Gram matrix is symmetric to the last bit"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", DESIGNS)
def test_every_design_equals_dense(name, shape):
    X = data(shape)
    design = DESIGNS[name](X)
    assert design.shape == X.shape
    assert design.dtype == (np.float32 if "float32" in name else np.float64)
    assert design.nbytes > 0
    assert_same_products(design, X)


@pytest.mark.parametrize("name", DESIGNS)
def test_every_design_selects_columns_and_rows(name):
    X = data((23, 31))
    rng = np.random.default_rng(1)
    design = DESIGNS[name](X)
    for W in (np.array([4]), np.array([30, 0, 7, 7]), rng.permutation(31), rng.random(31) < 0.3, [2]):
        assert_same_products(design.columns(W), X[:, W])
        assert_same_products(design.columns(W).columns([0]), X[:, W][:, [0]])
    for B in (
        np.array([4]),
        np.array([22, 0, 7, 7], dtype=np.int8),
        rng.permutation(23),
        rng.random(23) < 0.3,
    ):
        assert_same_products(design.rows(B), X[B])
        assert_same_products(design.rows(B).columns([1, 0]), X[B][:, [1, 0]])
    assert type(design.columns([0])) is type(design.rows([0])) is type(design)


@pytest.mark.parametrize("shape", [(7, 1), (37, 20), (11, 4100)], ids=str)
@pytest.mark.parametrize("name", DESIGNS)
def test_every_design_knows_the_magnitudes_of_its_columns(name, shape):
    """max |X_ij|, exactly; and where columns are centred, or seen through others, no less than that."""
    X = data(shape)
    design = DESIGNS[name](X)
    largest = np.abs(X.astype(design.dtype)).max(axis=0)
    assert np.array_equal(design.column_magnitudes(), largest.astype(np.float64))
    W = np.arange(shape[1])[::-2]
    for selected in (design.columns(W), SelectedDesign(design, W)):
        assert np.array_equal(selected.column_magnitudes(), largest[W])
    standard = ScaledDesign.standardized(design) if not isinstance(design, ScaledDesign) else design
    with_ones = InterceptDesign(standard)
    true = np.abs([with_ones.matvec(e) for e in np.eye(with_ones.shape[1])[-20:]]).max(axis=1)
    assert np.all(with_ones.column_magnitudes()[-20:] >= true * (1 - 1e-14))
    assert np.all(with_ones.column_magnitudes()[-20:] <= 3 * true + 1e-300) and with_ones.column_magnitudes()[-1] == 1


@pytest.mark.parametrize("name", DESIGNS)
def test_an_empty_selection_is_a_design_whose_sums_are_zero(name):
    design = DESIGNS[name](data((6, 4)))
    none = design.columns([])
    assert none.shape == (6, 0) and none.gram().shape == (0, 0)
    assert np.array_equal(none.matvec(np.empty(0)), np.zeros(6))
    assert none.rmatvec(np.ones(6)).shape == none.column_squares().shape == (0,)
    none = design.rows(np.zeros(6, dtype=bool))
    assert none.shape == (0, 4) and none.matvec(np.ones(4)).shape == (0,)
    assert np.array_equal(none.rmatvec(np.empty(0)), np.zeros(4))
    assert np.array_equal(none.gram(), np.zeros((4, 4)))


# Planted faults, which the equality test must not let through.
FAULTS = {
    "Xx is X'x": {"matvec": DenseDesign.rmatvec},
    "a column has the wrong sign": {"rmatvec": lambda X, r: DenseDesign.rmatvec(X, r) * [1, 1, 1, 1, -1]},
    "sums are float32": {"matvec": lambda X, x: DenseDesign.matvec(X, x).astype(np.float32).astype(np.float64)},
    "weights are ignored": {"column_squares": lambda X, weight=None: DenseDesign.column_squares(X)},
    "Gram lacks a row": {"gram": lambda X, D=None: DenseDesign(X.array[1:]).gram(None if D is None else D[1:])},
    "results are float32": {"rmatvec": lambda X, r: DenseDesign.rmatvec(X, r).astype(np.float32)},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_equality_test_catches_that(fault):
    X = data((5, 5)) + np.eye(5)
    assert_same_products(DenseDesign(X), X)
    with pytest.raises(AssertionError):
        assert_same_products(type("Faulty", (DenseDesign,), FAULTS[fault])(X), X)


def matrices() -> st.SearchStrategy[np.ndarray]:
    """Small matrices of any density, with whole rows and columns of zeros."""
    entries = st.one_of(st.just(0.0), st.floats(-1e3, 1e3).filter(lambda v: v == 0 or abs(v) > 1e-3))
    shapes = st.tuples(st.integers(1, 20), st.integers(1, 20))
    return shapes.flatmap(lambda shape: hnp.arrays(np.float64, shape, elements=entries, fill=st.just(0.0)))


@settings(max_examples=1000 if LONG else 60, deadline=None)
@given(matrices(), st.sampled_from(sorted(DESIGNS)), st.integers(0, 2**32 - 1))
def test_every_design_equals_its_slow_twin(X, name, seed):
    rng = np.random.default_rng(seed)
    n, d = X.shape
    design = DESIGNS[name](X)
    X = X.astype(design.dtype).astype(np.float64)
    A = np.abs(X)
    x, r = rng.standard_normal(d), rng.standard_normal(n)
    W, B = rng.integers(0, d, rng.integers(0, 2 * d)), rng.integers(0, n, rng.integers(0, 2 * n))

    def close(got: np.ndarray, want: np.ndarray, scale: np.ndarray) -> None:
        assert np.all(np.abs(got - want) <= 1e-14 * scale)

    close(design.matvec(x), reference.matvec(X, x), A @ np.abs(x))
    close(design.rmatvec(r), reference.rmatvec(X, r), A.T @ np.abs(r))
    close(design.column_squares(r), reference.column_squares(X, r), (A**2).T @ np.abs(r))
    close(design.gram(r), reference.gram(X, r), A.T @ (np.abs(r)[:, None] * A))
    assert np.array_equal(as_array(design.columns(W)), reference.columns(X, list(W)))
    assert np.array_equal(as_array(design.rows(B)), reference.rows(X, list(B)))


def as_array(design: Design) -> np.ndarray:
    """X, column by column: products with unit vectors are exact."""
    return np.array([design.matvec(e) for e in np.eye(design.shape[1])]).reshape(design.shape[::-1]).T


@pytest.mark.parametrize("name", ["dense C", "dense Fortran", "dense C float32", "dense Fortran float32"])
def test_all_instruction_sets_give_the_same_bits(name, instruction_sets):
    rng = np.random.default_rng(0)
    lengths = [1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 100, 999, 1000, 1025, 2000, 2001, 4000, 5003]
    for d in lengths:
        X = rng.standard_normal((11, d)) * np.exp(rng.uniform(-20, 20, (11, d)))
        x, r = rng.standard_normal(d), rng.standard_normal(11)
        x[::5] = 0
        r[3] = 0
        bits = set()
        for name_of_set in instruction_sets:
            _kernels.use_simd(name_of_set)
            design = DESIGNS[name](X)
            products = design.matvec(x).tobytes() + design.rmatvec(r).tobytes()
            bits.add(products + design.columns(np.arange(min(d, 40))).gram(r).tobytes())
        assert len(bits) == 1, f"{instruction_sets} differ for slices of {d} entries"


def test_no_instruction_set_by_an_unknown_name():
    before = _kernels.simd_name()
    with pytest.raises(ValueError, match="mmx"):
        _kernels.use_simd("mmx")
    assert _kernels.simd_name() == before


@pytest.mark.parametrize("d", [5, 40, 3000])
def test_bits_do_not_depend_on_how_slices_are_grouped(d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10, d))
    x = rng.standard_normal(d)
    one_by_one = [DenseDesign(X[i : i + 1]).matvec(x)[0] for i in range(10)]
    assert np.array_equal(DenseDesign(X).matvec(x), one_by_one)
    r = rng.standard_normal(10)
    r[[2, 7]] = 0
    want = np.zeros(d)
    for i in range(10):
        want += r[i] * X[i]
    assert np.array_equal(DenseDesign(X).rmatvec(r), want)


def test_long_passes_are_cut_into_pieces_without_a_seam():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2**14, 600), dtype=np.float32)  # more than two pieces of 2^22
    x, r = rng.standard_normal(600), rng.standard_normal(2**14)
    double = X.astype(np.float64)
    want, back = double @ x, double.T @ r
    by_rows, by_columns = as_design(X), as_design(np.asfortranarray(X))
    places = np.tile(np.arange(600, dtype=np.int32), 2**14)
    sparse = as_design(scipy.sparse.csr_array((X.ravel(), places, 600 * np.arange(2**14 + 1, dtype=np.int32))))
    for design in (by_rows, by_columns, sparse):
        assert np.allclose(design.matvec(x), want, rtol=0, atol=1e-11)
        assert np.allclose(design.rmatvec(r), back, rtol=0, atol=1e-11)


# What is used in place, what is copied, and what is left alone.


def checksum(*arrays: np.ndarray) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def use(design: Design) -> None:
    n, d = design.shape
    design.matvec(np.ones(d))
    design.rmatvec(np.ones(n))
    design.gram(np.ones(n))
    design.columns([0]).rows([0])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_contiguous_arrays_are_used_in_place(order, dtype):
    X = np.asarray(data((6, 5)), dtype=dtype, order=order)
    design = as_design(X)
    assert np.shares_memory(design.array, X)
    before = design.matvec(np.ones(5))
    X *= 2  # seen by the kernel, which reads the same memory
    assert np.array_equal(design.matvec(np.ones(5)), 2 * before)


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csc_array, scipy.sparse.csr_matrix])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_arrays_are_used_in_place(kind, index):
    X = kind(data((6, 5)))
    X.indices = X.indices.astype(index)
    design = as_design(X)
    assert np.shares_memory(design.data, X.data) and np.shares_memory(design.indices, X.indices)
    assert design.indptr.dtype == np.int64
    before = design.matvec(np.ones(5))
    X.data *= 2
    assert np.array_equal(design.matvec(np.ones(5)), 2 * before)


def test_read_only_arrays_and_memory_maps_are_used_in_place(tmp_path):
    X = data((6, 5))
    for order in "CF":
        frozen = np.array(X, order=order)
        frozen.flags.writeable = False
        design = as_design(frozen)
        assert np.shares_memory(design.array, frozen)
        assert_same_products(design, X)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    design = as_design(mapped)
    assert np.shares_memory(design.array, mapped)
    assert_same_products(design, X)
    sparse = scipy.sparse.csr_array(X)
    for array in (sparse.data, sparse.indices, sparse.indptr):
        array.flags.writeable = False
    assert_same_products(as_design(sparse), X)


def test_a_design_keeps_its_arrays_alive():
    kernel = as_design(np.full((50, 60), 2.0)).kernel
    out = np.empty(50)
    kernel.matvec(np.ones(60), out)
    assert np.array_equal(out, np.full(50, 120.0))


@pytest.mark.parametrize("name", ["C", "Fortran", "strided", "csr", "csc", "halves", "unsorted", "coo", "bsr", "dia"])
def test_no_input_is_changed(name):
    dense = data((9, 7))
    if name in ("C", "Fortran", "strided"):
        X = {"C": dense, "Fortran": np.asfortranarray(dense), "strided": strided(dense)}[name]
        parts = [X]
    else:
        build = {"halves": in_halves, "unsorted": unsorted}.get(name, lambda X: X.asformat(name))
        X = build(scipy.sparse.csr_array(dense))
        parts = [
            getattr(X, part) for part in ("data", "indices", "indptr", "row", "col", "offsets") if hasattr(X, part)
        ]
    before = checksum(*parts), [part.dtype for part in parts], [part.shape for part in parts]
    use(as_design(X))
    assert before == (checksum(*parts), [part.dtype for part in parts], [part.shape for part in parts])
    if name not in ("C", "Fortran", "strided"):
        for part in ("data", "indices", "indptr", "row", "col", "offsets"):
            assert not hasattr(X, part) or any(getattr(X, part) is held for held in parts), f"X.{part} was replaced"


def test_other_layouts_are_copied_once():
    X = np.asarray(data((8, 6)))
    for view in (X[::2], X[:, ::-1], X[::-1], X[:, 1:4], np.broadcast_to(X[0], (8, 6))):
        design = as_design(view)
        assert not np.shares_memory(design.array, X) and design.array.flags.c_contiguous
        assert_same_products(design, view)
    raw = np.zeros(8 * 12 + 1, dtype=np.uint8)[1:].view(np.float64).reshape(4, 3)
    raw[:] = X[:4, :3]
    assert not raw.flags.aligned
    assert_same_products(as_design(raw), raw)
    single = X[3:4, :]  # one row or column is contiguous for any strides
    assert np.shares_memory(as_design(single).array, X)
    assert_same_products(as_design(X[:, 2:3]), X[:, 2:3])


def test_a_design_is_its_own_design():
    design = as_design(np.eye(3))
    assert as_design(design) is design
    assert repr(design) == "DenseDesign(shape=(3, 3), dtype=float64)"


@pytest.mark.parametrize(
    "dtype", [bool, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float16, ">f8", ">i4", object]
)
def test_other_real_types_become_float64(dtype):
    X = np.array([[1, 0, 1], [0, 1, 1]]).astype(dtype)
    for design in (as_design(X), as_design(X.tolist())):
        assert design.dtype == np.float64
        assert_same_products(design, X.astype(np.float64))
    for kind in (scipy.sparse.csr_array, scipy.sparse.coo_array):
        sparse = kind(X.astype(np.float64))
        sparse.data = sparse.data.astype(dtype)
        design = as_design(sparse)
        assert design.dtype == np.float64
        assert_same_products(design, X.astype(np.float64))


def test_big_endian_float32_stays_float32():
    X = data((3, 4)).astype(">f4")
    assert as_design(X).dtype == np.float32
    assert_same_products(as_design(X), X)


def test_repeated_entries_of_a_narrow_type_do_not_overflow():
    X = scipy.sparse.coo_array((np.full(3, 100, dtype=np.int8), ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert np.array_equal(as_array(as_design(X)), [[0, 200], [100, 0]])
    X = scipy.sparse.csr_array((np.full(3, 100, dtype=np.int8), [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    assert np.array_equal(as_array(as_design(X)), [[0, 200], [100, 0]])


def test_rounding_is_announced():
    X = np.array([[1, 2], [3, 4]])
    with pytest.warns(UserWarning, match="rounded to float64"):
        assert_same_products(as_design(X.astype(np.longdouble)), X)
    for big in (2**53 + 1, -(2**53) - 1):
        with pytest.warns(UserWarning, match=r"beyond 2\^53"):
            as_design(np.array([[big, 1]]))
        with pytest.warns(UserWarning, match=r"beyond 2\^53"):
            as_design(scipy.sparse.csr_array(np.array([[big, 1]])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_design(np.array([[2**53, -(2**53)]]))


def test_subnormal_numbers_are_not_flushed():
    tiny = 5e-324
    for name in ("dense C", "dense Fortran", "CSR", "CSC"):
        for simd in ("baseline", "auto"):
            _kernels.use_simd(simd)
            design = DESIGNS[name](np.full((3, 20), tiny))
            assert np.array_equal(design.matvec(np.ones(20)), np.full(3, 20 * tiny)), name
            assert np.array_equal(design.rmatvec(np.ones(3)), np.full(20, 3 * tiny)), name
    assert np.float64(tiny) / 1 != 0 and np.array([tiny])[0] * 1 != 0


def test_entries_at_the_largest_float_are_accepted():
    X = np.full((2, 2), np.finfo(np.float64).max)
    for design in (as_design(X), as_design(scipy.sparse.csr_array(X))):
        assert np.array_equal(design.matvec([0.25, 0.25]), [X[0, 0] / 2] * 2)
        assert np.all(np.isinf(design.column_squares())) and np.all(np.isinf(design.gram()))


# Errors: each names the problem and its position.


def refused(X: object, message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        as_design(X)
    assert message in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["C", "F", "csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_and_inf_are_named_with_their_place(bad, kind, dtype):
    X = np.random.default_rng(0).random((70, 90)).astype(dtype)
    X[5, :] = 0
    X[61, 83] = bad
    name = "NaN" if np.isnan(bad) else str(bad)
    X = np.asarray(X, order=kind) if kind in "CF" else scipy.sparse.csr_array(X).asformat(kind)
    refused(X, f"X contains {name} at row 61, column 83 (1 in total)")


def test_all_that_is_not_finite_is_counted():
    X = np.zeros((3000, 1500))  # more than a piece
    X[2999, 7] = X[2, 3] = np.nan
    X[2, 9] = np.inf
    refused(X, "X contains NaN at row 2, column 3 (3 in total)")
    refused(np.asfortranarray(X), "X contains NaN at row 2, column 3 (3 in total)")
    refused(scipy.sparse.csr_array(X), "X contains NaN at row 2, column 3 (3 in total)")
    refused(np.array([[None, 1.0]]), "X contains NaN at row 0, column 0")


def test_a_sum_of_parts_that_overflows_is_refused():
    X = scipy.sparse.csr_array((np.array([1e308, 1e308]), np.array([1, 1]), np.array([0, 0, 2])), shape=(2, 2))
    refused(X, "X contains inf at row 1, column 1")


def test_wrong_shapes_are_refused_with_a_hint():
    hint = "reshape with X.reshape(-1, 1) for one feature or X.reshape(1, -1) for one sample"
    refused(np.ones(5), f"X must be 2-D, got shape (5,); {hint}")
    refused([1.0, 2.0], f"X must be 2-D, got shape (2,); {hint}")
    refused(scipy.sparse.coo_array(np.ones(5)), f"X must be 2-D, got shape (5,); {hint}")
    refused(np.ones((2, 3, 4)), "X must be 2-D, got shape (2, 3, 4)")
    refused(3.0, "X must be 2-D, got shape ()")
    for kind in (np.asarray, np.asfortranarray, scipy.sparse.csr_array, scipy.sparse.csc_array):
        refused(kind(np.ones((0, 3))), "0 sample(s) (shape=(0, 3)) while a minimum of 1 is required")
        refused(kind(np.ones((3, 0))), "0 feature(s) (shape=(3, 0)) while a minimum of 1 is required")


def test_what_is_not_a_matrix_of_real_numbers_is_refused():
    refused(np.ones((2, 2), dtype=complex), "complex128")
    refused(scipy.sparse.csr_array(np.eye(2, dtype=complex)), "complex128")
    refused(scipy.sparse.coo_array(np.eye(2, dtype=complex)), "complex128")
    refused(np.array([["a", "b"]]), "X must hold real numbers")
    refused(np.array([[{"a": 1}, 2]], dtype=object), "X must hold real numbers")
    refused(np.array([["2026-01-01"]], dtype="datetime64[D]"), "X must hold real numbers")
    refused([[1, 2], [3]], "X cannot be read as an array")
    refused([[10**400, 1]], "X holds a number that float64 cannot represent")
    refused(np.ma.masked_equal([[1.0, 2.0]], 2.0), "masked array with 1 masked entries")
    assert_same_products(as_design(np.ma.array([[1.0, 2.0]])), np.array([[1.0, 2.0]]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refused(np.array([[np.longdouble("1e4000")]]), "X contains inf")


def broken(fmt: str, **parts: list[int] | list[float]) -> scipy.sparse.sparray:
    """Return a 3 x 3 matrix with some of its arrays replaced behind SciPy's back."""
    X = scipy.sparse.csr_array(np.array([[1.0, 2, 0], [0, 0, 3], [4, 0, 0]])).asformat(fmt)
    for name, value in parts.items():
        setattr(X, name, np.asarray(value))
    return X


@pytest.mark.parametrize("fmt", ["csr", "csc"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_malformed_sparse_matrices_are_named_and_never_read(fmt, index):
    this, other = ("row", "column") if fmt == "csr" else ("column", "row")
    head = f"X is not a valid {fmt.upper()} matrix: "
    good = broken(fmt)
    indices, indptr = good.indices.astype(index), good.indptr

    def changed(array: np.ndarray, place: int, value: int) -> np.ndarray:
        array = array.copy()
        array[place] = value
        return array

    refused(broken(fmt, indices=changed(indices, 2, 3)), f"{head}{this} 1 has {other} index 3, outside 0..2")
    refused(broken(fmt, indices=changed(indices, 3, -1)), f"{head}{this} 2 has {other} index -1, outside 0..2")
    refused(broken(fmt, indices=changed(indices, 0, 2**31 - 1)), f"{this} 0 has {other} index 2147483647")
    refused(broken(fmt, indptr=[0, 3, 2, 4]), f"{head}indptr decreases from 3 to 2 at {this} 1")
    refused(broken(fmt, indptr=[0, -5, 2, 4]), f"{head}indptr decreases from 0 to -5 at {this} 0")
    refused(broken(fmt, indptr=[1, 2, 3, 4]), f"{head}indptr[0] is 1, not 0")
    refused(broken(fmt, indptr=[0, 2, 3, 5]), f"{head}indptr ends at 5, but data has only 4 entries")
    refused(broken(fmt, indptr=[0, 2, 3, 2**62]), f"{head}indptr ends at {2**62}")
    refused(broken(fmt, indptr=[0, 2, 4]), f"{head}indptr has 3 entries, but 3 {this}s need 4")
    refused(broken(fmt, indptr=[]), "indptr")
    refused(broken(fmt, indices=indices[:3]), f"{head}indices has 3 entries, but data has 4")
    refused(broken(fmt, data=good.data[:3]), f"{head}indices has 4 entries, but data has 3")
    refused(broken(fmt, indices=indices.astype(np.float64)), "X.indices must be a 1-D array of integers")
    refused(broken(fmt, indptr=indptr.astype(str)), "X.indptr must be a 1-D array of integers")
    longer = broken(fmt, data=np.append(good.data, np.nan), indices=np.append(indices, 99).astype(index))
    assert_same_products(as_design(longer), good.toarray())  # what lies beyond indptr[-1] is no part of X


def test_malformed_matrices_of_other_formats_are_named():
    refused(broken("coo", row=[0, 0, 1, 3]), "X is not a valid COO matrix")
    refused(broken("coo", col=[0, -1, 2, 0]), "X is not a valid COO matrix")
    refused(broken("coo", data=[1.0]), "X is not a valid COO matrix")
    refused(broken("bsr", indices=[7] * len(broken("bsr").indices)), "X is not a valid BSR matrix")
    refused(broken("dia", offsets=[0] * len(broken("dia").offsets)), "X is not a valid DIA matrix")


def test_small_index_types_are_widened():
    X = broken("csr", indices=broken("csr").indices.astype(np.uint16))
    assert_same_products(as_design(X), X.toarray())


def test_selections_out_of_range_are_named():
    for design in (as_design(np.ones((3, 4))), as_design(scipy.sparse.csr_array(np.ones((3, 4))))):
        for bad, message in [
            ([0, 4], r"W\[1\] is 4, outside 0..3"),
            ([-1], r"W\[0\] is -1, outside 0..3"),
            (np.ones(3, dtype=bool), r"mask W must have shape \(4,\), got \(3,\)"),
            ([0.5], "W must be a mask or a 1-D array of integers"),
            ([[0, 1]], "W must be a mask or a 1-D array of integers"),
        ]:
            with pytest.raises(InvalidInputError, match=message):
                design.columns(bad)
        with pytest.raises(InvalidInputError, match=r"B\[0\] is 3, outside 0..2"):
            design.rows([3])
        with pytest.raises(ValueError, match="out of range"):
            _kernels.Sparse(np.ones(1), np.zeros(1, np.int32), np.array([0, 1]), 1, 1, True).select_rows(np.array([1]))


def test_vectors_of_the_wrong_shape_or_type_are_named():
    design = as_design(np.ones((3, 4)))
    for call, message in [
        (lambda: design.matvec(np.ones(3)), r"x must have shape \(4,\), got \(3,\)"),
        (lambda: design.rmatvec(np.ones((3, 1))), r"r must have shape \(3,\), got \(3, 1\)"),
        (lambda: design.matvec(np.ones(4, dtype=complex)), "x must hold real numbers"),
        (lambda: design.gram(np.ones(4)), r"D must have shape \(3,\), got \(4,\)"),
        (lambda: design.gram([1, np.nan, 1]), "D contains NaN at index 1"),
        (lambda: design.column_squares([1, 1, np.inf]), "weight contains inf at index 2"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            call()


def test_kernels_check_what_they_are_given():
    kernel = _kernels.Dense(np.ones((3, 4)))
    with pytest.raises(ValueError, match="x has 3 entries, expected 4"):
        kernel.matvec(np.ones(3), np.empty(3))
    with pytest.raises(ValueError, match="out has 4 entries, expected 3"):
        kernel.matvec(np.ones(4), np.empty(4))
    with pytest.raises(TypeError):
        kernel.matvec(np.ones(4, dtype=np.float32), np.empty(3))
    with pytest.raises(TypeError):
        _kernels.Dense(np.ones((6, 4))[::2])
    with pytest.raises(TypeError):
        _kernels.Dense(np.ones((3, 4), dtype=np.int64))
    csc = as_design(scipy.sparse.csc_array(np.ones((3, 4)))).kernel
    with pytest.raises(ValueError, match="rows"):
        csc.gram(np.ones(3), 0, False, np.empty((4, 4)))
    csr = as_design(scipy.sparse.csr_array(np.ones((3, 4)))).kernel
    with pytest.raises(ValueError, match="out has 3 entries, expected 4"):
        csr.gram(np.ones(3), 0, True, np.empty((4, 3)))


# Sizes at the edge.


def test_a_matrix_larger_than_any_memory_needs_only_its_entries():
    n, d = 2**20, 2**44  # n d > 2^63
    indptr = np.repeat([0, 1, 3], [8, n - 8, 1])
    indices = np.array([2**43, 5, 2**44 - 1])
    X = scipy.sparse.csr_array((np.array([1.0, 2.0, 3.0]), indices, indptr), shape=(n, d))
    design = as_design(X)
    assert design.shape == (n, d) and design.nbytes < 2**24
    some = design.rows([7, n - 1])
    assert some.shape == (2, d) and list(some.data) == [1, 2, 3]
    X.data[2] = np.nan
    refused(X, f"X contains NaN at row {n - 1}, column {2**44 - 1} (1 in total)")
    X.indices[1] = 2**44
    refused(X, f"row {n - 1} has column index {2**44}, outside 0..{2**44 - 1}")
    turned = as_design(scipy.sparse.csc_array((np.ones(3), np.array([2**43, 5, 6]), indptr), shape=(d, n)))
    assert turned.columns([7, n - 1]).shape == (d, 2)


def test_few_entries_in_very_many_columns():
    d = 2**26
    indices = np.array([0, d - 1, 12345])
    X = scipy.sparse.csr_array((np.array([1.0, 2.0, 3.0]), indices, np.array([0, 2] + [3] * 9)), shape=(10, d))
    design = as_design(X)
    x = np.zeros(d)
    x[indices] = [1, 10, 100]
    assert np.array_equal(design.matvec(x), [21, 300] + [0] * 8)
    assert np.array_equal(as_array(design.columns([d - 1, 12345])), [[2, 0], [0, 3]] + [[0, 0]] * 8)


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csc_array])
def test_a_matrix_without_entries(kind):
    design = as_design(kind((4, 3)))
    assert isinstance(design, SparseDesign)
    assert_same_products(design, np.zeros((4, 3)))
    assert_same_products(design.columns([0, 2]).rows([1]), np.zeros((1, 2)))


# Ctrl-C


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_is_answered_within_a_second():
    """In many short passes, and in one call of many seconds: there only the kernel itself can notice."""
    program = """
        import time
        import numpy as np
        from scipy.sparse import csr_array
        from levelprox.designs import as_design
        def short():
            while True: square.matvec(x)
        def long():
            while True: tall.gram()
        square, x = as_design(np.ones((1000, 1000))), np.ones(1000)
        indices = np.tile(np.arange(0, 3000, 6), 4000)
        tall = as_design(csr_array((np.ones(2 * 10**6), indices, np.arange(0, 2 * 10**6 + 1, 500))))
        for passes in (short, long):
            try:
                print("ready", flush=True)
                passes()
            except KeyboardInterrupt:
                print(time.process_time(), flush=True)
    """
    with Child(program) as child:
        for _ in range(2):
            assert child.line() == "ready"
            child.work(0.1)
            assert child.interrupt() < 0.5  # much less than the long call
        assert child.ended() == Ended(0, "", "")
