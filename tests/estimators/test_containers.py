"""Estimators and what X comes in: layouts, types, frames, sparse formats; inputs never change.

More than 2^31 entries do not fit a test of minutes (unit/runtime/test_threads.py has them, with --long); indices of
64 bits do.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from levelprox import InvalidInputError, SparseRegressor
from tests.support.input_cases import (
    ONE_OF_EACH,
    REGRESSOR,
    WAYS,
    D,
    N,
    assert_same_fit,
    plain_fit,
    samples,
    sparse_samples,
    targets,
    with_entry,
)


def read_only(X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    return np.load(tmp_path / "X.npy", mmap_mode="r")


def frozen(X):
    X = X.copy()
    X.flags.writeable = False
    return X


LAYOUTS = {
    "Fortran": lambda X: np.asfortranarray(X),
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "read-only": frozen,
    "big-endian": lambda X: X.astype(">f8"),
    "list": lambda X: X.tolist(),
    "objects": lambda X: X.astype(object),
    "frame": lambda X: pd.DataFrame(X),
    "unaligned": lambda X: np.frombuffer(b"x" + X.tobytes(), np.uint8)[1:].view(np.float64).reshape(X.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_the_layout_of_x_does_not_matter(way, layout):
    X, y = samples(), way.y
    given = LAYOUTS[layout](X)
    expected, model = plain_fit(way, X), way().fit(given, y)
    # Sums in another order round differently: a fit under a level may end a step earlier, within tol.
    rtol = 1e-6 if "level" in str(way) else 1e-12
    assert_same_fit(model, expected, rtol)
    np.testing.assert_allclose(model.predict(given), expected.predict(X), rtol=rtol)
    np.testing.assert_array_equal(np.asarray(model.transform(given), float), expected.transform(X))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_memory_maps_that_cannot_be_written(way, tmp_path):
    X, y = samples(), way.y
    given = read_only(X, tmp_path)
    model = way().fit(given, frozen(y), frozen(np.ones(N)))
    assert_same_fit(model, plain_fit(way, X))
    assert np.array_equal(given, X) and np.array_equal(model.predict(given), model.predict(X))
    stored = sp.csr_array(sparse_samples())
    for name in ("data", "indices", "indptr"):
        getattr(stored, name).flags.writeable = False
    model = way().fit(stored, y)
    assert_same_fit(model, way().fit(sp.csr_array(sparse_samples()), y), 0)
    # Sparse columns are not centred, and fits end where the residual is small enough.
    assert_same_fit(model, plain_fit(way, sparse_samples()), 1e-10)


@pytest.mark.parametrize("kind", ["f2", "f4", ">f4", "i1", "i2", "i4", "i8", "u1", "u4", "u8", "?"])
@pytest.mark.parametrize("way", ONE_OF_EACH, ids=str)
def test_numbers_of_all_types(way, kind):
    X = samples() * 3
    X = (X > 0 if kind == "?" else np.abs(X) if kind[0] == "u" else X).astype(kind)
    model, expected = way().fit(X, way.y), way().fit(X.astype(float), way.y)
    single = kind == "f4"
    assert model.coef_.dtype == (np.float32 if single else np.float64)
    assert_same_fit(model, expected, 2e-6 if single else 0)
    assert np.array_equal(model.get_support(), expected.get_support())


def test_rounding_to_float64_is_a_warning():
    X, y = samples(), targets()
    big = (X * 1e4).astype(np.int64)
    big[5, 1] = 2**53 + 1
    forms = (big, big.tolist(), pd.DataFrame(big), sp.csr_array(big), big.astype(np.uint64) & np.uint64(2**62 - 1))
    for given in forms:
        with pytest.warns(UserWarning, match=r"X holds integers beyond 2\^53.*float64 rounds them") as caught:
            REGRESSOR().fit(given, y)
        assert len(caught) == 1
    if np.finfo(np.longdouble).bits > 64:
        with pytest.warns(UserWarning, match="it is rounded to float64"):
            model = REGRESSOR().fit(X.astype(np.longdouble), y)
        assert_same_fit(model, REGRESSOR().fit(X, y), 0)


@pytest.mark.parametrize("way", ONE_OF_EACH, ids=str)
def test_names_of_columns(way):
    names = list("abcdef")
    frame = pd.DataFrame(samples(), columns=names)
    model = way().fit(frame, way.y)
    assert model.feature_names_in_.tolist() == names
    assert set(model.get_feature_names_out()) <= set(names)
    for call in (model.predict, model.transform):
        with pytest.raises(ValueError, match=r"(?s)feature names should match.*unseen at fit time:\n- z"):
            call(frame.rename(columns={"f": "z"}))
        with pytest.raises(ValueError, match=r"(?s)feature names should match.*same order"):
            call(frame[names[::-1]])
        with pytest.raises(ValueError, match=r"(?s)feature names should match.*yet now missing:\n- f"):
            call(frame[names[:5]])
        with pytest.warns(UserWarning, match="X does not have valid feature names"):
            call(samples())
    plain = way().fit(samples(), way.y)
    for call in (plain.predict, plain.transform):
        with pytest.raises(ValueError, match=r"X has 5 features, but Sparse\w+ is expecting 6"):
            call(samples()[:, :5])
    with pytest.raises(TypeError, match="Feature names are only supported if all input features have string names"):
        way().fit(frame.rename(columns={"a": 1}), way.y)


def test_polars_frames():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(samples(), schema=list("abcdef"))
    assert_same_fit(REGRESSOR().fit(frame, targets()), REGRESSOR().fit(samples(), targets()))


@pytest.mark.parametrize("kind", ["Float64", "Int64", "object"])
@pytest.mark.parametrize("way", ONE_OF_EACH, ids=str)
def test_missing_values_of_frames_are_errors(way, kind):
    frame = pd.DataFrame(np.round(samples() * 10), columns=list("abcdef"))
    whole = way().fit(frame, way.y)
    frame = frame.astype(kind)
    assert_same_fit(way().fit(frame, way.y), whole)
    frame.iloc[3, 4] = np.nan if kind == "object" else pd.NA
    for call in (lambda: way().fit(frame, way.y), lambda: whole.predict(frame), lambda: whole.transform(frame)):
        with pytest.raises(InvalidInputError, match=r"X contains NaN at row 3, column 4 \('e'\)"):
            call()


def test_masked_arrays_are_refused():
    X = np.ma.masked_array(samples(), mask=samples() > 2)
    model = REGRESSOR().fit(samples(), targets())
    for call in (lambda: REGRESSOR().fit(X, targets()), lambda: model.predict(X), lambda: model.transform(X)):
        with pytest.raises(InvalidInputError, match=r"X is a masked array with \d+ masked entries"):
            call()
    with pytest.raises(InvalidInputError, match="y is a masked array"):
        REGRESSOR().fit(samples(), np.ma.masked_array(targets(), mask=targets() > 1))


class Tensor:
    """Something like an array of another library, on some device."""

    def __init__(self, array, device):
        self.array, self.shape, self.ndim, self.device = array, array.shape, array.ndim, device

    def __len__(self):
        return len(self.array)

    def __array__(self, *args, **kwargs):
        if self.device != "cpu":
            raise TypeError(f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() first")
        return self.array


@pytest.mark.parametrize("way", ONE_OF_EACH, ids=str)
def test_arrays_of_other_libraries(way):
    X = samples()
    assert_same_fit(way().fit(Tensor(X, "cpu"), way.y), way().fit(X, way.y), 0)
    with pytest.raises(TypeError, match="cuda:0"):
        way().fit(Tensor(X, "cuda:0"), way.y)


# --- inputs never change


def digest(*arrays):
    return [hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for array in arrays]


@pytest.mark.parametrize("store", [np.asarray, np.asfortranarray, sp.csr_matrix, sp.csc_array])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_inputs_are_not_changed(way, store):
    X, weight = store(sparse_samples()), np.random.default_rng(5).uniform(0.5, 2, N)
    penalty = np.array([0.0, 1, 1, 1, 1, 1])
    y = way.y
    parts = (X.data, X.indices, X.indptr, y, weight, penalty) if sp.issparse(X) else (X, y, weight, penalty)
    before = digest(*parts)
    model = way(feature_weight=penalty, warm_start=True).fit(X, y, weight)
    model.fit(X, y, weight)
    model.predict(X)
    model.transform(X)
    model.score(X, y)
    assert digest(*parts) == before
    assert not any(np.shares_memory(model.coef_, part) for part in parts)


def test_targets_and_weights_may_be_part_of_x():
    X = np.abs(samples())
    expected = REGRESSOR().fit(X, X[:, 0].copy(), X[:, 1].copy())
    assert_same_fit(REGRESSOR().fit(X, X[:, 0], X[:, 1]), expected, 0)
    model = REGRESSOR(feature_weight=X[0, :] * 0 + 1).fit(X, X[:, 0], X[:, 1])
    assert_same_fit(model, expected, 0)
    kept = expected.coef_.copy()
    X[:] = 0  # what was fitted does not look back
    np.testing.assert_array_equal(expected.coef_, kept)


# --- sparse


def halved(X, build):
    """Every entry in two parts."""
    whole = build(X)
    return build((np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), whole.indptr * 2), shape=whole.shape)


def backwards(X, build):
    whole = build(X)
    for begin, end in zip(whole.indptr[:-1], whole.indptr[1:], strict=True):
        whole.indices[begin:end] = whole.indices[begin:end][::-1].copy()
        whole.data[begin:end] = whole.data[begin:end][::-1].copy()
    whole.has_sorted_indices = False
    return whole


def with_zeros(X, build):
    whole = build(np.where(X == 0, 1.0, X))
    whole.data[build(np.where(X == 0, -1.0, X)).data == -1] = 0
    return whole


def wide_indices(X, build):
    whole = build(X)
    whole.indices, whole.indptr = whole.indices.astype(np.int64), whole.indptr.astype(np.int64)
    return whole


def mixed_indices(X, build):
    whole = build(X)
    whole.indptr = whole.indptr.astype(np.int64)
    return whole


@pytest.mark.parametrize("build", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.csc_array])
@pytest.mark.parametrize("form", [halved, backwards, with_zeros, wide_indices, mixed_indices])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_any_way_to_store_a_sparse_matrix(way, form, build):
    X = sparse_samples()
    given = form(X, build)
    model, expected = way().fit(given, way.y), plain_fit(way, X)
    assert_same_fit(model, expected, 1e-9)
    np.testing.assert_allclose(model.predict(given), expected.predict(X), rtol=1e-9)
    np.testing.assert_allclose(model.transform(given).toarray(), expected.transform(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("part", "place", "value", "message"),
    [
        ("indices", 5, 99, r"row \d+ has column index 99, outside 0\.\.5"),
        ("indices", 5, -1, r"row \d+ has column index -1, outside 0\.\.5"),
        ("indptr", 3, 100, r"indptr decreases from 100 to \d+ at row 3"),
        ("indptr", -1, 10**6, r"indptr ends at 1000000, but data has only \d+ entries"),
        ("indptr", 0, 1, r"indptr\[0\] is 1, not 0"),
    ],
)
@pytest.mark.parametrize("way", ONE_OF_EACH, ids=str)
def test_sparse_arrays_that_contradict_one_another_are_refused(way, part, place, value, message):
    bad = sp.csr_array(sparse_samples())
    getattr(bad, part)[place] = value
    model = plain_fit(way, sparse_samples())
    for call in (lambda: way().fit(bad, way.y), lambda: model.predict(bad), lambda: model.transform(bad)):
        with pytest.raises(InvalidInputError, match=f"X is not a valid CSR matrix: {message}"):
            call()


@pytest.mark.parametrize("kind", ["coo", "dia", "lil", "dok", "bsr", "csc"])
@pytest.mark.parametrize("way", ONE_OF_EACH, ids=str)
def test_all_sparse_formats(way, kind):
    X = sparse_samples()
    given, expected = sp.csr_array(X).asformat(kind), plain_fit(way, X)
    model = way().fit(given, way.y)
    assert_same_fit(model, expected, 1e-9)
    np.testing.assert_allclose(model.predict(given), expected.predict(X), rtol=1e-9)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_empty_rows_and_columns(way):
    X = sparse_samples()
    X[7], X[:, 1] = 0, 0
    assert_same_fit(way().fit(sp.csr_array(X), way.y), way().fit(X, way.y), 1e-9)
    nothing = way().fit(sp.csr_array((N, D)), way.y)
    assert not nothing.coef_.any() and np.isfinite(nothing.intercept_).all()


@pytest.mark.parametrize("budget", [{"n_features": 1}, {"level": 1.5}], ids=str)
def test_a_matrix_far_too_large_to_be_dense(budget):
    """100 000 by 100 000 would be 80 GB; with an intercept and standardised."""
    rng, n, d = np.random.default_rng(6), 100_000, 100_000
    rows, columns = rng.integers(0, n, 10_000), rng.integers(0, d, 10_000)
    X = sp.csr_array((np.ones(60_000), (np.r_[rows, np.arange(n // 2)], np.r_[columns, np.full(n // 2, 123)])), (n, d))
    y = (np.arange(n) < n // 2) * 2.0 + 0.1 * rng.standard_normal(n)
    model = SparseRegressor(**budget, tol=1e-3).fit(X, y)
    assert 123 in model.selected_features_ and model.coef_[123] == pytest.approx(2, abs=0.2)


def test_entries_of_sparse_matrices_are_named_in_any_format():
    bad = sp.coo_matrix(with_entry(np.nan))
    for kind in ("coo", "csr", "csc", "lil"):
        with pytest.raises(InvalidInputError, match="X contains NaN at row 3, column 4"):
            REGRESSOR().fit(bad.asformat(kind), targets())
