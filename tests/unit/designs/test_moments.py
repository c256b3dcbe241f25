"""Means and deviations of rows in batches equal those of all rows, for any split."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelprox import InvalidInputError
from levelprox.designs import RunningMoments, as_design
from levelprox.designs.moments import means_and_scales
from tests.support.registries import DESIGNS

STORAGES = ["dense C", "dense Fortran", "dense C float32", "CSR", "CSC", "CSC float32"]


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, 5)) < 0.4, 3 + rng.standard_normal((n, 5)), 0.0)
    X[:, 1] = 100 + rng.standard_normal(n)
    X[:, 2] = 0.1
    return X.astype(np.float32).astype(float)


def running(X, cuts, weight=None, storage="dense C"):
    moments = RunningMoments(X.shape[1])
    for part in np.split(np.arange(len(X)), sorted(cuts)):
        if part.size:
            moments.update(DESIGNS[storage](X[part]), None if weight is None else weight[part])
    return moments


def same(moments, X, weight=None):
    mean, scale = means_and_scales(as_design(X), None if weight is None else weight / np.max(weight))
    np.testing.assert_allclose((moments.mean - mean) / scale, 0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(moments.scale, scale, rtol=1e-12)


@given(
    cuts=st.lists(st.integers(0, 60), max_size=60),
    exponent=st.sampled_from([0, 150, -150, 290, -290]),
    weighted=st.booleans(),
    storage=st.sampled_from(["dense C", "CSR", "CSC"]),
    seed=st.integers(0, 3),
)
def test_any_split_into_batches_equals_all_rows_at_once(cuts, exponent, weighted, storage, seed):
    X = rows(seed=seed) * 10.0**exponent
    weight = np.random.default_rng(seed).integers(0, 4, 60) * 0.7 if weighted else None
    moments = running(X, cuts, weight, storage)
    same(moments, X, weight)
    assert moments.total == pytest.approx(60 if weight is None else weight.sum(), rel=1e-14)


@pytest.mark.parametrize("storage", STORAGES)
def test_every_storage_row_by_row(storage):
    same(running(rows(), range(60), storage=storage), rows())


def test_a_weight_repeats_its_row_and_none_removes_it():
    X, weight = rows(), np.random.default_rng(1).integers(0, 3, 60)
    moments, repeated = running(X, [7, 30], weight), np.repeat(X, weight, axis=0)
    same(moments, repeated)
    assert moments.total == len(repeated)


def test_a_batch_without_weight_tells_nothing():
    moments = RunningMoments(5)
    moments.update(as_design(rows()), np.zeros(60))
    assert moments.total == 0 and np.all(moments.mean == 0) and np.all(moments.scale == 1)


def test_constant_columns_have_scale_one_and_their_own_value_as_mean():
    X = np.full((30, 3), [0.1, 1e300, -1 / 3])
    moments = running(X, range(30))
    np.testing.assert_array_equal(moments.mean, X[0])
    np.testing.assert_array_equal(moments.scale, 1)


def test_numbers_at_the_ends_of_the_range_stay_in_range():
    X = np.array([[1.7e308, 1e-308], [-1.7e308, -1e-308], [1.7e308, 1e-308]])
    moments = running(X, [1, 2])
    assert np.all(np.isfinite(moments.mean)) and np.all(np.isfinite(moments.scale))
    np.testing.assert_allclose(moments.scale / np.abs(X[0]), np.sqrt(8 / 9), rtol=1e-12)


def test_running_moments_pickle():
    moments = running(rows(), [20])
    copy = pickle.loads(pickle.dumps(moments))
    for each in (moments, copy):
        each.update(as_design(rows(seed=1)))
    np.testing.assert_array_equal(moments.mean, copy.mean)
    np.testing.assert_array_equal(moments.scale, copy.scale)


@pytest.mark.parametrize(
    ("design", "weight", "words"),
    [
        (np.ones((3, 4)), None, "4 features"),
        (np.ones((3, 5)), [1, -1, 1], "negative"),
        (np.ones((3, 5)), [1, np.nan, 1], "NaN"),
        (np.ones((3, 5)), [1, 1], "shape"),
        (np.ones((3, 5)), [1e308, 1e308, 1e308], "overflows"),
    ],
)
def test_unusable_batches_are_named(design, weight, words):
    with pytest.raises(InvalidInputError, match=words):
        RunningMoments(5).update(as_design(design), weight)
