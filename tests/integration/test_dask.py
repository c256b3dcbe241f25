"""Samples on a Dask cluster: the same ψ and the same model for any chunks and workers; nothing stays on the cluster."""

from __future__ import annotations

import gc
import itertools
import pickle
import sys
import threading

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from levelprox import LinearModel, MultinomialModel
from levelprox.backends import dask as on_cluster
from levelprox.backends.dask import DaskSource, StoredPartition, Transforms
from levelprox.backends.partition import Form, Partition, SetForm
from levelprox.backends.partitioned import PartitionedModel
from levelprox.designs import ScaledDesign, as_design
from levelprox.exceptions import BackendError, InvalidInputError
from levelprox.losses import Logistic, Squared
from tests.support.clusters import cut, fitted, fitted_here, keys_left, samples, started
from tests.support.long_runs import LONG

N, D, FEW = 40, 12, 20
WORKERS = (1, 2, 4)


@pytest.fixture(scope="module")
def clients():
    """One client for each number of workers, all in this process."""
    with started(1, False) as one, started(2, False) as two, started(4, False) as four:
        yield dict(zip(WORKERS, (one, two, four), strict=True))


def some_point(size: int) -> np.ndarray:
    x = np.random.default_rng(5).standard_normal(size)
    x[::3] = 0.0
    return x


def assert_same(one, other, x):
    """ψ and ∇ψ of both agree to 1e-12."""
    (value, gradient), (expected, expected_gradient) = one.value_and_gradient(x), other.value_and_gradient(x)
    assert value == pytest.approx(expected, rel=1e-12)
    assert np.abs(gradient - expected_gradient).max() <= 1e-12 * np.abs(expected_gradient).max()
    return value, gradient


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("chunks", [1, 2, 7, FEW])
def test_the_same_objective_and_the_same_bits_for_any_workers(clients, storage, chunks):
    X, y = samples(FEW, D, storage)
    x, found = some_point(D + 1), set()
    local = LinearModel(X, y, "logistic", fit_intercept=True)
    for client in clients.values():
        model = PartitionedModel(DaskSource.of(cut(X, chunks), y, client=client), Form(Logistic(), True))
        value, gradient = assert_same(model, local, x)
        found.add((value, gradient.tobytes()))
    assert len(found) == 1


CASES = [("dense", 1, 1), ("sparse", 2, 2), ("dense", 7, 4), ("sparse", FEW, 2)]
if LONG:
    CASES = [(s, c, w) for s in ("dense", "sparse") for c in (1, 2, 7, FEW, 400) for w in WORKERS]


@pytest.mark.parametrize(("storage", "chunks", "workers"), CASES)
def test_the_same_model(clients, storage, chunks, workers):
    X, y = samples(400, D, storage, seed=1)
    result = fitted(DaskSource.of(cut(X, chunks), y, client=clients[workers]), start="direct")
    expected = fitted_here(X, y, start="direct")
    assert np.array_equal(result.x != 0, expected.x != 0)
    assert result.psi == pytest.approx(expected.psi, abs=1e-8)


def test_weights_offsets_and_scales(clients):
    X, y = samples(N, D)
    rng = np.random.default_rng(2)
    weight, offset = rng.integers(0, 3, N).astype(float), rng.standard_normal(N)
    center, scale = X.mean(axis=0), X.std(axis=0)
    array = cut(X, 5)
    rows = array.chunks[0]
    source = DaskSource.of(array, da.from_array(y, chunks=9), da.from_array(weight, chunks=(rows,)), offset, clients[2])
    model = PartitionedModel(source, Form(Logistic(), True, center, scale))
    local = LinearModel(ScaledDesign(as_design(X), center, scale), y, "logistic", weight, offset, fit_intercept=True)
    assert_same(model, local, some_point(D + 1))


def test_several_classes(clients):
    X, y = samples(N, D)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    form = Form(Logistic(), True, classes=np.unique(y), softmax=True)
    order = np.argsort(y, kind="stable")  # so that chunks have one class only
    model = PartitionedModel(DaskSource.of(cut(X[order], 7), y[order], client=clients[2]), form)
    assert_same(model, MultinomialModel(X, y, fit_intercept=True), some_point(3 * (D + 1)))


def test_a_dataframe(clients):
    X, y = samples(N, D)
    X = X[:, :3]
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, s=np.arange(N) % 3)
    frames = dd.from_pandas(frame, npartitions=4)
    source = DaskSource.of(frames[["a", "b", "c"]], frames["y"], frames["s"], client=clients[2])
    assert source.names == ["a", "b", "c"] and source.n_features == 3
    local = LinearModel(X, y, "logistic", frame["s"].to_numpy())
    assert_same(PartitionedModel(source, Form(Logistic())), local, some_point(3))
    # Targets in memory are cut once the sizes are known.
    source = DaskSource.of(frames[["a", "b", "c"]], y, client=clients[2])
    assert_same(PartitionedModel(source, Form(Logistic())), LinearModel(X, y, "logistic"), some_point(3))


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_unknown_sizes_and_empty_chunks(clients, storage):
    X, y = samples(N, D, storage)
    places = [0, 11, 11, 30, N, N]

    def lazy(array, shape):
        parts = [dask.delayed(array[a:b]) for a, b in itertools.pairwise(places)]
        return da.concatenate(
            [da.from_delayed(part, shape, array.dtype) for part in parts], allow_unknown_chunksizes=True
        )

    source = DaskSource.of(lazy(X, (np.nan, D)), lazy(y, (np.nan,)), client=clients[2])
    assert_same(PartitionedModel(source, Form(Logistic())), LinearModel(X, y, "logistic"), some_point(D))


@pytest.mark.parametrize("kind", [scipy.sparse.csc_array, scipy.sparse.csr_array, scipy.sparse.csc_matrix, np.asarray])
def test_chunks_of_columns(clients, kind):
    X, y = samples(N, D)
    graph = {("blocks", i // 10, j // 5): (kind, X[i : i + 10, j : j + 5]) for i in range(0, N, 10) for j in (0, 5, 10)}
    whole = da.Array(graph, "blocks", ((10,) * 4, (5, 5, 2)), float, kind(X[:1, :1]))
    assert whole.numblocks == (4, 3)
    model = PartitionedModel(DaskSource.of(whole, y, client=clients[2]), Form(Logistic(), True))
    assert_same(model, LinearModel(X, y, "logistic", fit_intercept=True), some_point(D + 1))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64, bool])
def test_types_of_x(clients, dtype):
    X, y = samples(N, D)
    X = (4 * X).astype(dtype)
    source = DaskSource.of(cut(X, 3), y, client=clients[2])
    assert source.dtype == (np.float32 if dtype == np.float32 else np.float64)
    assert_same(PartitionedModel(source, Form(Squared())), LinearModel(X, y, "squared"), some_point(D))


def test_without_a_cluster():
    X, y = samples(N, D)
    source = DaskSource.of(cut(X, 7), y)
    assert "threads" in repr(source)
    assert_same(PartitionedModel(source, Form(Logistic())), LinearModel(X, y, "logistic"), some_point(D))


def test_the_current_client_is_the_default(clients):
    X, y = samples(N, D)
    with clients[2].as_current():
        source = DaskSource.of(cut(X, 7), y)
    assert clients[2].scheduler.address in repr(source)


def surveyed(clients, X, y, weight=None):
    return DaskSource.of(X, y, weight, client=clients[2]).statistics(Logistic(), True, False)


def test_rows_that_do_not_match(clients):
    X, y = samples(N, D)
    with pytest.raises(InvalidInputError, match=r"X has 40 rows, and y has 39"):
        surveyed(clients, cut(X, 4), y[:-1])
    with pytest.raises(InvalidInputError, match=r"X has 40 rows, and y has 39; they first differ in chunk 3"):
        surveyed(clients, cut(X, 4), da.from_array(y[:-1], chunks=10))
    unknown = cut(X, 4)[da.from_array(np.arange(N) != 25, chunks=10)]
    with pytest.raises(InvalidInputError, match=r"^chunk 2: X has 9 rows, and y has 10"):
        surveyed(clients, unknown, da.from_array(y, chunks=10))
    with pytest.raises(InvalidInputError, match=r"X has 4 chunks of rows, and y has 5"):
        surveyed(clients, unknown, da.from_array(y, chunks=8))
    with pytest.raises(InvalidInputError, match=r"X has 39 rows, and y has 40"):
        surveyed(clients, unknown, y)


def test_data_that_cannot_be_used(clients):
    X, y = samples(N, D)
    broken = X.copy()
    broken[33, 2] = np.nan
    with pytest.raises(InvalidInputError, match=r"^chunk 3: .*NaN"):
        surveyed(clients, cut(broken, 4), y)
    with pytest.raises(InvalidInputError, match=r"^chunk 1: weight must be nonnegative, got -1 at index 2"):
        surveyed(clients, cut(X, 4), y, np.where(np.arange(N) == 12, -1, 1))
    model = PartitionedModel(DaskSource.of(cut(X, 4), y, np.zeros(N), client=clients[2]), Form(Logistic()))
    with pytest.raises(InvalidInputError, match="no sample has a positive weight"):
        model.value_and_gradient(np.zeros(D))
    with pytest.raises(InvalidInputError, match="two dimensions"):
        DaskSource.of(da.zeros(N), y)
    with pytest.raises(InvalidInputError, match="dask array or dataframe, got ndarray"):
        DaskSource.of(X, y)


class Failing:
    """Work that fails on chunk 3."""

    def __init__(self, kind, *words):
        self.kind, self.words = kind, words

    def __call__(self, partition):
        if partition.index == 3:
            raise self.kind(*self.words)
        return 1.0


class UnsendableError(Exception):
    """An error that pickle cannot bring back."""

    def __init__(self, one, two):
        super().__init__("two words")


@pytest.mark.parametrize("on", ["cluster", "threads"])
def test_a_task_that_fails_names_its_chunk(clients, on):
    X, y = samples(N, D)
    source = DaskSource.of(cut(X, 7), y, client=clients[2] if on == "cluster" else None)
    with pytest.raises(InvalidInputError, match=r"^chunk 3: no good$"):
        source.total(Failing(InvalidInputError, "no good"))
    with pytest.raises(InvalidInputError, match=r"^chunk 3: no good$"):
        source.total(Failing(InvalidInputError, "chunk 3: no good"))
    with pytest.raises(BackendError, match=r"^chunk 3: its task failed with OSError: no disk") as caught:
        source.total(Failing(OSError, "no disk"))
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(BackendError, match=r"^chunk 3: .*UnsendableError: two words"):
        source.total(Failing(UnsendableError, 1, 2))
    with pytest.raises(BackendError, match=r"^chunk 3: its task failed with TimeoutError"):
        source.total(Failing(TimeoutError, "late"))


def test_a_source_that_fails_names_its_chunk(clients):
    def read(i):
        if i == 2:
            raise OSError("no such bucket")
        return np.ones((5, D))

    blocks = [da.from_delayed(dask.delayed(read)(i), (5, D), float) for i in range(4)]
    with pytest.raises(BackendError, match=r"^chunk 2: its task failed with OSError: no such bucket"):
        surveyed(clients, da.concatenate(blocks), np.ones(20))


def test_x_is_read_once(clients, tmp_path):
    def read(i):
        with (tmp_path / str(i)).open("a") as file:
            file.write("x")
        return np.random.default_rng(i).standard_normal((5, D)), np.array([-1.0, 1.0, 1.0, -1.0, 1.0])

    pairs = [dask.delayed(read)(i) for i in range(4)]
    X = da.concatenate([da.from_delayed(pair[0], (5, D), float) for pair in pairs])
    y = da.concatenate([da.from_delayed(pair[1], (5,), float) for pair in pairs])
    source = DaskSource.of(X, y, client=clients[2])
    source.statistics(Logistic(), True, True)
    for _ in range(2):
        PartitionedModel(source, Form(Logistic())).value_and_gradient(np.ones(D))
    assert [len(path.read_text()) for path in sorted(tmp_path.iterdir())] == [1] * 4


def test_nothing_is_left_behind(clients):
    X, y = samples(N, D)
    for _ in range(20):
        source = DaskSource.of(cut(X, 2), y, client=clients[2])
        model = PartitionedModel(source.part(0, 2, 0, True), Form(Logistic()))
        model.value_and_gradient(np.ones(D))
        with pytest.raises(BackendError):
            source.total(_always_fails)
    assert keys_left(clients[2], 0.0)
    del source, model
    gc.collect()
    assert keys_left(clients[2]) == []


def _always_fails(partition):
    raise OSError("no")


def test_another_version_on_the_workers(clients, monkeypatch):
    X, y = samples(N, D)
    client = threading.get_ident()  # workers have threads of their own, which may still be busy for another test
    monkeypatch.setattr(on_cluster, "_version", lambda: "9.9.9" if threading.get_ident() == client else "0.0.1")
    with pytest.raises(BackendError, match=r"^chunk 0: the worker has levelprox 0.0.1, the client 9.9.9"):
        surveyed(clients, cut(X, 1), y)


def test_the_memory_that_dask_accounts_for_is_that_of_x(clients):
    X, y = samples(1000, D)
    held = StoredPartition(Partition(0, as_design(X), y))
    assert 1 <= sys.getsizeof(held) / (X.nbytes + y.nbytes) < 1.01
    sparse = scipy.sparse.csr_matrix(X)
    assert sys.getsizeof(StoredPartition(Partition(0, as_design(sparse), y))) >= sparse.data.nbytes + y.nbytes
    changes = Transforms("one", (SetForm(Form(Logistic(), center=np.zeros(1000))),))
    assert sys.getsizeof(changes) >= 8000
    source = DaskSource.of(cut(X, 2), y, client=clients[2])
    source.statistics(Logistic(), True, False)
    reckoned = clients[2].run_on_scheduler(_reckoned)
    assert sum(reckoned) >= X.nbytes


def _reckoned(dask_scheduler):
    return [ts.nbytes for key, ts in dask_scheduler.tasks.items() if "levelprox-rows" in str(key)]


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_a_partition_pickles(storage):
    X, y = samples(30, D, storage)
    held = StoredPartition(Partition(4, as_design(X), y, np.ones(30)))
    form = Transforms("one", (SetForm(Form(Logistic())),))
    expected = held.transformed(form).model.value_and_gradient(np.ones(D))
    frames: list[pickle.PickleBuffer] = []
    packed = pickle.dumps(held, protocol=5, buffer_callback=frames.append)
    crooked = []
    for frame in frames:  # as bytes of a network come: anywhere
        raw = frame.raw()
        space = bytearray(len(raw) + 1)
        space[1:] = raw
        crooked.append(memoryview(space)[1:])
    there = pickle.loads(packed, buffers=crooked)
    assert all(part.flags.aligned for part in there.partition.design.__reduce__()[1] if isinstance(part, np.ndarray))
    assert there.partition.y.flags.aligned and there.partition.index == 4
    value, gradient = there.transformed(form).model.value_and_gradient(np.ones(D))
    assert value == expected[0] and np.array_equal(gradient, expected[1])
    assert len(packed) < 5000


def test_only_the_last_changes_are_remembered():
    X, y = samples(30, D)
    held = StoredPartition(Partition(0, as_design(X), y))
    changes = [Transforms(str(i), (SetForm(Form(Logistic())),)) for i in range(3)]
    made = [held.transformed(one) for one in changes]
    assert held.transformed(changes[2]) is made[2] and held.transformed(changes[1]) is made[1]
    assert held.transformed(changes[0]) is not made[0]
    assert made[0].design is held.partition.design


def test_a_client_that_cannot_be_used(clients):
    X, y = samples(N, D)
    with started(1, False) as client:
        source = DaskSource.of(cut(X, 2), y, client=client)
        source.statistics(Logistic(), True, False)
    with pytest.raises(BackendError, match="no connection to the scheduler"):
        source.statistics(Logistic(), True, False)
    with pytest.raises(BackendError, match="no connection to the scheduler"):
        DaskSource.of(cut(X, 2), y, client=client)
