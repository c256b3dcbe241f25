"""Fingerprints of data: independent of the storage format, different for every small change."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import threadpool_limits

from levelprox import SparseClassifier, SparseRegressor, _kernels
from levelprox.designs import ScaledDesign, as_design
from levelprox.driver.run_identity import Fingerprint, fingerprint
from tests.support import reference


def table(n: int = 37, d: int = 23, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.3, rng.standard_normal((n, d)), 0.0)
    X[:3, :3] = [[1e-310, -1.0, 0.0], [0.0, 1e308, 2.0], [0.0, 0.0, -0.0]]
    return X


def storages(X: np.ndarray) -> dict[str, object]:
    """The same entries in every storage there is."""
    rows, columns = scipy.sparse.csr_array(X), scipy.sparse.csc_array(X)
    wide = rows.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    explicit = scipy.sparse.csr_array(np.ones_like(X))
    explicit.data[:] = X.ravel()  # zeros of both signs are stored
    backwards = scipy.sparse.csr_array(X)
    for i in range(X.shape[0]):
        part = slice(backwards.indptr[i], backwards.indptr[i + 1])
        backwards.indices[part], backwards.data[part] = backwards.indices[part][::-1], backwards.data[part][::-1]
    halves = scipy.sparse.coo_array((np.tile(rows.data / 2, 2), np.tile(rows.nonzero(), 2)), shape=X.shape)
    return {
        "C": X,
        "F": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "CSR": rows,
        "CSC": columns,
        "int64 indices": wide,
        "explicit zeros": explicit,
        "unsorted": backwards,
        "halves": halves.tocsr() if np.all(rows.data / 2 * 2 == rows.data) else rows,
    }


def mark(X: object) -> tuple[int, int]:
    return _kernels.fingerprint(as_design(X).kernel)


@pytest.mark.parametrize("name", storages(table()))
def test_the_kernel_is_its_slow_twin_in_every_storage(name):
    assert mark(storages(table())[name]) == reference.fingerprint(table())


@pytest.mark.parametrize("name", storages(table()))
def test_float32_has_the_fingerprint_of_the_same_numbers_in_float64(name):
    with np.errstate(over="ignore"):
        X = np.nan_to_num(table().astype(np.float32), posinf=1.0)
    assert mark(storages(X)[name]) == reference.fingerprint(X) == mark(X.astype(np.float64))


def test_the_number_of_threads_does_not_matter():
    X = np.random.default_rng(1).standard_normal((3000, 300))
    found = set()
    for threads in (1, 2, 5):
        with threadpool_limits(threads):
            found |= {mark(X), mark(np.asfortranarray(X)), mark(scipy.sparse.csr_array(X))}
    assert len(found) == 1


def test_every_small_change_shows():
    """An ulp, a sign, entries, rows or columns swapped; also in data of zeros and ones, where only places tell."""
    seen = set()
    for X in (table(8, 6), (table(8, 6) != 0).astype(float)):
        seen.add(mark(X))
        changes = 1
        for i, j in itertools.product(*map(range, X.shape)):
            for value in (np.nextafter(X[i, j], 9), -X[i, j], X[i, j] + 1):
                other = X.copy()
                other[i, j] = value
                if np.any(other != X):
                    seen.add(mark(other))
                    changes += 1
        for axis in (0, 1):
            for a, b in itertools.combinations(range(X.shape[axis]), 2):
                order = np.arange(X.shape[axis])
                order[[a, b]] = b, a
                other = np.take(X, order, axis)
                if np.any(other != X):
                    seen.add(mark(other))
                    changes += 1
    assert len(seen) > 0.9 * changes  # a few of the changes are the same: adding 1 to a zero of zeros and ones
    assert len({mark(np.eye(20)[:, np.random.default_rng(s).permutation(20)]) for s in range(2000)}) == 2000


def test_objectives_without_stored_data_have_no_fingerprint():
    class Nothing(_kernels.DesignKernel):
        """Of no storage at all."""

    with pytest.raises(TypeError):
        Nothing()
    with pytest.raises(TypeError):
        _kernels.fingerprint(ScaledDesign.standardized(table()[:, 5:]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array([0, 1, 1]), np.array([0.0, 1.0, 1.0])),
        (np.array([0, 1, 1]), np.array([False, True, True])),
        (np.array([0.0, 1.0]), np.array([-0.0, 1.0])),
        (np.array(["a", "bc"]), np.array(["a", "bc"], object)),
        (np.array(["a", "bc"]), np.array(["a", "bc"], "<U9")),
        (np.array([1, 2], object), np.array([1.0, 2.0])),
    ],
)
def test_the_same_targets_in_another_type_are_the_same(one, other):
    design = as_design(np.ones((one.size, 1)))
    assert fingerprint(design, one) == fingerprint(design, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array([0, 1, 1]), np.array([1, 0, 1])),
        (np.array(["a", "bc"]), np.array(["ab", "c"])),
        (np.array(["a", "b"]), np.array(["b", "a"])),
        (np.array(["1", "2"]), np.array([1, 2])),
        (np.array([1.0, 2.0]), np.array([1.0, np.nextafter(2.0, 3)])),
    ],
)
def test_other_targets_have_another_fingerprint(one, other):
    design = as_design(np.ones((one.size, 1)))
    assert fingerprint(design, one).differences(fingerprint(design, other)) == ("y",)


def test_differences_are_named():
    X, y = table(), np.arange(37.0)
    found = fingerprint(as_design(X), y, np.ones(37))
    assert found.differences(found) == ()
    assert found.differences(fingerprint(as_design(X), y)) == ("sample_weight",)
    assert found.differences(fingerprint(as_design(X[:, :5]), y, np.ones(37))) == (
        "shape of X",
        "nonzero entries of X",
        "entries of X",
    )
    narrow = as_design(np.where(X > 1e300, 1, X).astype(np.float32))
    assert "type of X" in found.differences(fingerprint(narrow, y, np.ones(37)))


def test_a_fit_remembers_its_data_and_a_stream_does_not():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5)), rng.integers(0, 2, 60)
    model = SparseClassifier(n_features=2).fit(X, y)
    assert isinstance(model.data_fingerprint_, Fingerprint)
    assert model.data_fingerprint_ == SparseClassifier(level=1.5).fit(scipy.sparse.csc_array(X), y).data_fingerprint_
    before = model.data_fingerprint_
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(X > 2, np.nan, X), y)
    assert model.data_fingerprint_ == before
    assert not hasattr(model.partial_fit(X, y), "data_fingerprint_")
    poisson = SparseRegressor("poisson", n_features=1)
    known = poisson.fit(X, y, offset=np.ones(60)).data_fingerprint_
    assert known.differences(poisson.fit(X, y, exposure=np.ones(60)).data_fingerprint_) == ("offset", "exposure")
