"""X in files, read by blocks of rows: the model of the data in memory, bounded memory, errors that name the place."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import levelprox
from levelprox import LinearModel, MultinomialModel, OneVsRestModel, Problem, Status, open_chunked, solve
from levelprox.backends.out_of_core import FileSource
from levelprox.backends.partition import Form
from levelprox.backends.partitioned import PartitionedModel
from levelprox.backends.query import Query
from levelprox.constraints import MCP
from levelprox.designs import Chunked, ScaledDesign
from levelprox.exceptions import BackendError, FileFormatError, InvalidInputError
from levelprox.io import libsvm as converted
from levelprox.io.arrays import StoredArray
from levelprox.losses import Logistic, loss_by_name
from tests.support.children import Child

N, D = 203, 30
SIZES = {"one row": 1, "a few": 4000, "one chunk": 10**9}


def dense(seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((N, D)) * rng.uniform(0.5, 2, D)).astype(dtype)
    y = np.where(X[:, :3] @ [2.0, -1.5, 1.0] + rng.standard_normal(N) > 0, 1.0, -1.0)
    return X, y


def sparse(seed=0, dtype=np.float64):
    X, _ = dense(seed, dtype)
    X[np.random.default_rng(seed + 1).random(X.shape) < 0.7] = 0
    X[5:9] = 0  # rows without an entry
    X[0, -1] = 1.5  # a last column that is there
    y = np.where(X[:, :3] @ [2.0, -1.5, 1.0] + np.random.default_rng(seed + 2).standard_normal(N) > 0, 1.0, -1.0)
    return scipy.sparse.csr_array(X), y


def write_libsvm(path, X, y):
    X = scipy.sparse.csr_array(X)
    with open(path, "w") as file:
        for i in range(X.shape[0]):
            entries = slice(X.indptr[i], X.indptr[i + 1])
            pairs = zip(X.indices[entries].tolist(), X.data[entries].tolist(), strict=True)
            file.write(f"{y[i]:g} {' '.join(f'{j + 1}:{v!r}' for j, v in pairs)}\n")


def _npy(folder, dtype):
    X, y = dense(dtype=dtype)
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    return X, y, (folder / "X.npy", folder / "y.npy")


def _npz(folder, dtype):
    X, y = sparse(dtype=dtype)
    scipy.sparse.save_npz(folder / "X.npz", X, compressed=False)
    members = dict(np.load(folder / "X.npz"))
    np.savez(folder / "X.npz", **members, y=y)
    return X, y, (folder / "X.npz", None)


def _folder(folder, dtype):
    X, y = sparse(dtype=dtype)
    (folder / "X").mkdir()
    for name, array in (("data", X.data), ("indices", X.indices), ("indptr", X.indptr), ("labels", y)):
        np.save(folder / "X" / f"{name}.npy", array)
    return X, y, (folder / "X", "labels")


def _parquet(folder, dtype):
    import polars

    X, y = dense(dtype=dtype)
    frame = polars.DataFrame({**{f"f{j}": X[:, j] for j in range(D)}, "y": y})
    frame.write_parquet(folder / "X.parquet", row_group_size=32)
    return X, y, (folder / "X.parquet", None)


def _libsvm(folder, dtype):
    X, y = sparse(dtype=np.float64)
    write_libsvm(folder / "X.svm", X, y)
    return X, y, (folder / "X.svm", None)


FORMATS = {"npy": _npy, "npz": _npz, "folder": _folder, "parquet": _parquet, "libsvm": _libsvm}


def close(a, b, tolerance=1e-12):
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    assert np.max(np.abs(a - b), initial=0.0) <= tolerance * np.max(np.abs(b), initial=1e-300)


@pytest.fixture(params=FORMATS)
def data(request, tmp_path):
    return FORMATS[request.param](tmp_path, np.float64)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_value_gradient_and_hessian_are_those_in_memory(data, size):
    X, y, (path, target) = data
    rng = np.random.default_rng(3)
    weight, offset = rng.uniform(0, 2, N) * (rng.random(N) < 0.8), rng.standard_normal(N)
    chunked = open_chunked(path, target, chunk_bytes=size)
    assert chunked.shape == (N, D)
    assert chunked.n_chunks == {1: N, 10**9: 1}.get(size, chunked.n_chunks) or str(path).endswith("parquet")
    assert chunked.n_chunks > 5 or size == 10**9
    c, s = rng.standard_normal(D), rng.uniform(0.5, 2, D)
    x = np.zeros(D + 1)
    x[[0, 4, 29, 30]] = [0.3, -0.2, 0.1, 0.5]
    W = np.array([0, 4, 7, 29, 30])
    for form, design in ((Form(Logistic(), True), X), (Form(Logistic(), True, c, s), None)):
        local = LinearModel(X if design is not None else _scaled(X, c, s), y, "logistic", weight, offset, True)
        model = PartitionedModel(FileSource(chunked, weight=weight, offset=offset), form)
        value, gradient = model.value_and_gradient(x)
        expected = local.value_and_gradient(x)
        close(value, expected[0])
        close(gradient, expected[1])
        part, local_part = model.restrict(W), local.restrict(W)
        z, local_z = part.margins(x[W]), local_part.margins(x[W])
        close(part.value_of(z), expected[0])
        close(part.gradient_of(z), expected[1][W])
        close(part.hessian_of(z, True), local_part.hessian_of(local_z, True))


def _scaled(X, c, s):
    return ScaledDesign(levelprox.designs.as_design(X), c, s)


@pytest.mark.parametrize("size", [4000, 10**9])
def test_a_solved_model_is_that_in_memory(data, size):
    X, y, (path, target) = data
    chunked = open_chunked(path, target, chunk_bytes=size)
    for memory in (0, 10**8):
        source = FileSource(chunked, memory=memory)
        constraint = MCP(2.0, 0.25)
        found = solve(Problem(PartitionedModel(source, Form(Logistic(), True)), constraint, 3.5 * constraint.cap))
        local = solve(Problem(LinearModel(X, y, "logistic", fit_intercept=True), constraint, 3.5 * constraint.cap))
        assert np.array_equal(np.flatnonzero(found.x), np.flatnonzero(local.x))
        assert abs(found.psi - local.psi) <= 1e-8 * abs(local.psi)


def test_float32_is_read_as_it_is(tmp_path):
    for make in (_npy, _npz, _parquet):
        folder = tmp_path / make.__name__
        folder.mkdir()
        X, y, (path, target) = make(folder, np.float32)
        chunked = open_chunked(path, target, chunk_bytes=5000)
        assert chunked.dtype == np.float32
        model = PartitionedModel(FileSource(chunked), Form(loss_by_name("squared")))
        x = np.linspace(-1, 1, D)
        close(model.value_and_gradient(x)[1], LinearModel(X, y).value_and_gradient(x)[1])


@pytest.mark.parametrize("softmax", [False, True])
def test_more_than_two_classes(tmp_path, softmax):
    X, _, (path, _) = _npy(tmp_path, np.float64)
    y = np.array(["a", "b", "c"])[np.argmax(X[:, :3], axis=1)]
    form = Form(Logistic(), True, classes=np.unique(y), softmax=softmax)
    source = FileSource(open_chunked(path, chunk_bytes=9000), y)
    model = PartitionedModel(source, form)
    local = (
        MultinomialModel(X, y, fit_intercept=True) if softmax else OneVsRestModel(X, y, "logistic", fit_intercept=True)
    )
    x = np.random.default_rng(0).standard_normal(3 * (D + 1))
    value, gradient = model.value_and_gradient(x)
    close(value, local.value_and_gradient(x)[0])
    close(gradient, local.value_and_gradient(x)[1])
    assert source.cache.likely.shape == (D,)


def test_statistics_and_folds(tmp_path):
    X, _, (path, target) = _npy(tmp_path, np.float64)
    source = FileSource(open_chunked(path, target, chunk_bytes=5000), memory=0)
    statistics = source.statistics(Logistic(), True, True)
    assert statistics.count == N and statistics.classes.tolist() == [-1, 1]
    close(statistics.moments.mean, X.mean(axis=0))
    close(statistics.moments.scale, X.std(axis=0))
    assert source.passes == 1  # the two of a chunk's moments and its check in one reading
    ones = [source.part(2, 5, 7, held_out) for held_out in (True, False)]
    counts = [PartitionedModel(one, Form(Logistic())).summary.total for one in ones]
    assert sum(counts) == N and abs(counts[0] - N / 5) < 20


# --- what is read, and what is kept -------------------------------------------------------------------


def wide(folder, n=3000, d=200, dtype=np.float32):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, d)).astype(dtype)
    y = np.where(X[:, :8] @ np.linspace(1, 2, 8) + rng.standard_normal(n) > 0, 1.0, -1.0)
    np.save(folder / "X.npy", X)
    return X, y, open_chunked(folder / "X.npy", chunk_bytes=100_000)


def test_columns_are_read_once_for_all_rounds_on_them(tmp_path):
    _, y, chunked = wide(tmp_path)
    source = FileSource(chunked, y)
    model = PartitionedModel(source, Form(Logistic()))
    W = np.array([3, 5, 90])
    model.evaluate(Query(W, (np.ones(3),), gradient="here", hessian="convex"))
    after = source.passes
    assert after == 2  # the summary, and the columns
    for scale in (0.5, 0.2):
        model.evaluate(Query(W, (np.full(3, scale),), gradient="here"))
    model.evaluate(Query(W[1:], (np.ones(2),)))  # fewer of them
    assert source.passes == after
    model.evaluate(Query(W, (np.ones(3),), gradient="everywhere"))
    assert source.passes == after + 1
    # A full pass has shown which features are likely; they are fetched with the next columns.
    likely = source.cache.likely[:20]
    model.evaluate(Query(np.array([100, 101]), (np.ones(2),)))
    assert source.passes == after + 2
    model.evaluate(Query(np.sort(likely), (np.ones(20),)))
    assert source.passes == after + 2


@pytest.mark.parametrize("memory", [0, 50_000, 400_000])
def test_the_cache_does_not_exceed_its_limit(tmp_path, memory):
    X, y, chunked = wide(tmp_path)
    source = FileSource(chunked, y, memory=memory)
    model, local = PartitionedModel(source, Form(Logistic())), LinearModel(X, y, "logistic")
    rng, largest = np.random.default_rng(0), 0
    for round_ in range(12):
        W = np.sort(rng.choice(200, 5, replace=False))
        x = rng.standard_normal(5)
        gradient = model.evaluate(Query(W, (x,), gradient="here" if round_ % 3 else "everywhere")).gradient
        whole = np.zeros(200)
        whole[W] = x
        expected = local.value_and_gradient(whole)[1]
        close(gradient, expected[W] if round_ % 3 else expected)
        kept = source.cache
        actual = sum(one.nbytes for store in (kept._stock, kept._current) for _, one in store.values())
        assert kept.nbytes == actual <= memory
        largest = max(largest, actual)
    assert largest > memory / 2 or memory == 0


def test_cached_columns_of_a_large_set_make_room_for_small_ones(tmp_path):
    _, y, chunked = wide(tmp_path)
    source = FileSource(chunked, y, memory=400_000)  # of 2.4 MB
    model = PartitionedModel(source, Form(Logistic()))
    model.evaluate(Query(np.arange(60), (np.zeros(60),)))
    few = Query(np.arange(5), (np.zeros(5),))
    for _ in range(3):
        model.evaluate(few)
    before = source.passes
    model.evaluate(few)
    assert source.passes == before


def test_either_direction_gives_the_same_bits(tmp_path):
    _, y, chunked = wide(tmp_path)
    source = FileSource(chunked, y, memory=0)
    model = PartitionedModel(source, Form(Logistic()))
    x = np.random.default_rng(1).standard_normal(200)
    first, second = (model.value_and_gradient(x) for _ in range(2))
    assert first[0] == second[0] and np.array_equal(first[1], second[1])


def test_a_pass_goes_back_and_forth_and_tells_how_far_it_is(tmp_path):
    _, y, chunked = wide(tmp_path)
    told, read = [], []
    bring = chunked.bring
    chunked.bring = lambda i: (read.append(i), bring(i))[1]
    source = FileSource(chunked, y, memory=0, progress=lambda *one: told.append(one))
    model = PartitionedModel(source, Form(Logistic()))
    model.value_and_gradient(np.zeros(200))
    model.value_and_gradient(np.zeros(200))
    n = chunked.n_chunks
    assert read == [*range(n), *range(n)[::-1], *range(n)]
    assert told[n : n + 2] == [(1, n, "measuring X"), (2, n, "measuring X")]
    assert told[-1] == (n, n, "full gradient pass") and len(told) == 3 * n
    assert source.bytes_read == 3 * chunked.nbytes


FIT = """
import json, sys, threading, time
import numpy as np
from levelprox import Problem, open_chunked, solve
from levelprox.constraints import MCP
from levelprox.losses import Logistic
from levelprox.backends.out_of_core import FileSource
from levelprox.backends.partitioned import PartitionedModel
from levelprox.backends.partition import Form

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) * 1024

most, done = [0], threading.Event()
def sample():
    while not done.wait(0.005):
        most[0] = max(most[0], anonymous())
threading.Thread(target=sample, daemon=True).start()
before = anonymous()
source = FileSource(open_chunked(sys.argv[1], sys.argv[2], chunk_bytes=2**22), memory=30 * 2**20)
constraint = MCP(2.0, 0.25)
problem = Problem(PartitionedModel(source, Form(Logistic(), True)), constraint, 4.5 * constraint.cap)
found = solve(problem, tol=1e-4, start="direct")
done.set()
most[0] = max(most[0], anonymous())
extras = {"pyarrow.parquet", "polars"} & {*sys.modules}  # for other files
print(json.dumps([most[0] - before, source.passes, np.flatnonzero(found.x).tolist(), str(found.status), *extras]))
"""


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="RssAnon is Linux's")
def test_the_memory_of_a_fit_is_far_below_the_file(tmp_path):
    rng = np.random.default_rng(2)
    n, d = 75_000, 1000  # 300 MB
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (n, d))
    y = np.empty(n)
    for begin in range(0, n, 5000):
        block = rng.standard_normal((5000, d), dtype=np.float32)
        X[begin : begin + 5000] = block
        y[begin : begin + 5000] = np.where(block[:, 10:15].sum(axis=1) + rng.standard_normal(5000) > 0, 1.0, -1.0)
    X.flush()
    size = X.nbytes
    del X
    np.save(tmp_path / "y.npy", y)
    run = subprocess.run(
        [sys.executable, "-c", FIT, tmp_path / "X.npy", tmp_path / "y.npy"], capture_output=True, text=True, check=True
    )
    memory, passes, support, status = json.loads(run.stdout)
    assert memory < size / 4
    assert {10, 11, 12, 13, 14} <= {*support} and status == "solved"
    assert 4 <= passes < 30


# --- LIBSVM, converted once -----------------------------------------------------------------------------


def forms(folder):
    return sorted(one.name for one in folder.iterdir() if converted.ENDING in one.name)


def test_libsvm_is_converted_once_and_again_when_it_changes(tmp_path):
    X, y, (path, _) = _libsvm(tmp_path, np.float64)
    first = open_chunked(path)
    assert forms(tmp_path) == ["X.svm.csr-form"]
    form = tmp_path / "X.svm.csr-form"
    made = form.stat().st_mtime_ns, form.stat().st_ino
    assert np.array_equal(np.concatenate([first.target(i) for i in range(first.n_chunks)]), y)
    open_chunked(path)
    assert (form.stat().st_mtime_ns, form.stat().st_ino) == made
    write_libsvm(path, X[:100], y[:100])
    assert open_chunked(path).shape[0] == 100
    os.utime(path, ns=(1, 1))  # of the same size, and yet another one
    made = form.stat().st_ino
    open_chunked(path)
    assert form.stat().st_ino != made
    assert open_chunked(path, n_features=50).shape == (100, 50)
    elsewhere = tmp_path / "cache"
    form.unlink()
    open_chunked(path, cache=elsewhere)
    assert len(forms(elsewhere)) == 1 and forms(tmp_path) == []


def test_a_damaged_form_is_made_anew(tmp_path):
    _, y, (path, _) = _libsvm(tmp_path, np.float64)
    open_chunked(path)
    form = tmp_path / "X.svm.csr-form"
    whole = form.read_bytes()
    for damaged in (b"", whole[:100], whole[:-9], whole[:-400] + whole[-100:], b"x" + whole[1:], whole + b"\1"):
        form.write_bytes(damaged)
        chunked = open_chunked(path)
        assert chunked.shape == (N, D)
        assert np.array_equal(chunked.target(0), y)
        assert form.read_bytes() == whole


def test_wide_indices_in_a_later_part_widen_all(tmp_path, monkeypatch):
    monkeypatch.setattr(converted, "_ROWS", 2)
    monkeypatch.setattr(converted, "MAX_FEATURES", 2**40)
    (tmp_path / "X.svm").write_text("1 1:2\n-1 2:3 7:1\n1\n-1 5000000000:4\n1 3:1\n")
    form = converted.converted_libsvm(tmp_path / "X.svm")
    assert form.shape == (5, 5_000_000_000)
    assert form.arrays["indices"].all().tolist() == [0, 1, 6, 4_999_999_999, 2]
    assert form.arrays["indptr"].all().tolist() == [0, 1, 3, 3, 4, 5]
    assert form.arrays["data"].all().tolist() == [2, 3, 1, 4, 1]


def test_an_error_in_the_text_leaves_nothing(tmp_path):
    (tmp_path / "X.svm").write_text("1 1:2\n1 2:x\n")
    with pytest.raises(FileFormatError, match=r"X\.svm:2:5"):
        open_chunked(tmp_path / "X.svm")
    assert [one.name for one in tmp_path.iterdir()] == ["X.svm"]


CONVERTING = """
import signal, sys
from levelprox.io import libsvm as converted
read = converted.batches
def slowly(reading, rows):
    for i, batch in enumerate(read(reading, 50)):
        yield batch
        if i == 3:
            print("in the middle", flush=True)
            signal.pause()
converted.batches = slowly
converted.converted_libsvm(sys.argv[1])
"""


@pytest.mark.process
def test_a_killed_conversion_is_not_used(tmp_path):
    _, y, (path, _) = _libsvm(tmp_path, np.float64)
    with Child(CONVERTING, path) as run:
        assert run.line() == "in the middle"
        run.send_signal(signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2 and not (tmp_path / "X.svm.csr-form").exists()  # a part of one
    chunked = open_chunked(path)
    assert chunked.shape == (N, D) and np.array_equal(chunked.target(0), y)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["X.svm", "X.svm.csr-form"]  # swept


# --- what cannot be used ---------------------------------------------------------------------------------


def fitted(chunked: Chunked, y=None, **given):
    model = PartitionedModel(FileSource(chunked, y, **given), Form(loss_by_name("squared")))
    return model.value_and_gradient(np.zeros(chunked.shape[1]))


def test_nan_is_named_by_its_row_in_the_file(tmp_path):
    X, y = dense()
    X[121, 7] = np.nan
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(FileFormatError, match=r"X\.npy: X contains NaN at row 121, column 7 "):
        fitted(open_chunked(tmp_path / "X.npy", chunk_bytes=4000), y)
    import polars

    frame = polars.DataFrame({**{f"f{j}": X[:, j] for j in range(D)}, "y": y})
    frame.write_parquet(tmp_path / "X.parquet", row_group_size=32)
    with pytest.raises(FileFormatError, match=r"X\.parquet: X contains NaN at row 121, column 7 \('f7'\)"):
        fitted(open_chunked(tmp_path / "X.parquet", chunk_bytes=4000))
    frame.with_columns(polars.col("f3").replace_strict({X[100, 3]: None}, default=polars.col("f3"))).write_parquet(
        tmp_path / "null.parquet", row_group_size=32
    )
    with pytest.raises(FileFormatError, match=r"null\.parquet: row 100, column 'f3' is missing"):
        fitted(open_chunked(tmp_path / "null.parquet", chunk_bytes=4000))


@pytest.mark.parametrize("how", ["cut", "touched", "gone", "replaced"])
def test_a_file_that_changes_while_it_is_used(tmp_path, how):
    X, _, (path, target) = _npy(tmp_path, np.float64)
    source = FileSource(open_chunked(path, target, chunk_bytes=4000))
    model = PartitionedModel(source, Form(Logistic(), True))
    constraint = MCP(2.0, 0.25)
    rounds = []

    def change(done, n, what):
        rounds.append(what)
        if len(rounds) == 2 * n + 3:  # in the middle of a pass
            if how == "cut":
                os.truncate(path, 5000)
            elif how == "touched":
                os.utime(path, ns=(1, 1))
            elif how == "gone":
                path.unlink()
            else:
                path.unlink()
                np.save(path, X[::-1])

    model.source.progress = change
    with pytest.raises(BackendError, match=r"X\.npy: the file") as caught:
        solve(Problem(model, constraint, 3.5 * constraint.cap))
    assert caught.value.result is None or np.all(np.isfinite(caught.value.result.x))


def test_a_changed_file_is_noticed_where_it_need_not_be_read(tmp_path):
    _, y, chunked = wide(tmp_path)
    model = PartitionedModel(FileSource(chunked, y), Form(Logistic()))
    few = Query(np.arange(5), (np.zeros(5),))
    model.evaluate(few)
    os.utime(tmp_path / "X.npy", ns=(1, 1))
    with pytest.raises(BackendError, match=r"X\.npy: the file has changed"):
        model.evaluate(few)


def test_unreadable_files_are_refused(tmp_path):
    X, y = dense()
    np.save(tmp_path / "X.npy", X)
    whole = (tmp_path / "X.npy").read_bytes()

    def refused(name, match, *args, error=FileFormatError, **given):
        with pytest.raises(error, match=match):
            open_chunked(tmp_path / name, *args, **given)

    (tmp_path / "cut.npy").write_bytes(whole[:-8])
    refused("cut.npy", r"cut\.npy: an array of shape \(203, 30\).*cut short")
    (tmp_path / "empty.npy").write_bytes(b"")
    refused("empty.npy", "no header of an array")
    np.save(tmp_path / "columns.npy", np.asfortranarray(X))
    refused("columns.npy", "Fortran order.*ascontiguousarray")
    np.save(tmp_path / "whole.npy", X.astype(int))
    refused("whole.npy", "type int64.*float32")
    np.save(tmp_path / "flat.npy", y)
    refused("flat.npy", "rows and columns")
    np.save(tmp_path / "none.npy", X[:0])
    refused("none.npy", r"0 sample\(s\)")
    np.save(tmp_path / "objects.npy", np.array([[None]]), allow_pickle=True)
    refused("objects.npy", "Python objects")
    np.save(tmp_path / "short.npy", y[:-1])
    refused("X.npy", r"203 rows, but the targets in .*short\.npy have shape \(202,\)", tmp_path / "short.npy")
    refused("X.csv", "which kind of data.*convert CSV to Parquet")
    refused("X.hdf", "which kind of data")
    refused("missing.npy", "missing", error=FileNotFoundError)
    refused("X.npy", "chunk_bytes", error=InvalidInputError, chunk_bytes=0)
    S = scipy.sparse.csr_array(X)
    scipy.sparse.save_npz(tmp_path / "packed.npz", S)
    refused("packed.npz", "compressed.*compressed=False")
    scipy.sparse.save_npz(tmp_path / "csc.npz", S.tocsc(), compressed=False)
    refused("csc.npz", "csc.*tocsr")
    np.savez(tmp_path / "other.npz", X=X)
    refused("other.npz", "no array 'data'.*but X")
    scipy.sparse.save_npz(tmp_path / "S.npz", S, compressed=False)
    refused("S.npz", "no array 'labels'", "labels", error=InvalidInputError)
    (tmp_path / "text.parquet").write_text("no")
    refused("text.parquet", "not a Parquet")
    with pytest.raises(InvalidInputError, match="no targets"):
        FileSource(open_chunked(tmp_path / "X.npy"))
    with pytest.raises(InvalidInputError, match=r"203 rows, but y has shape \(202,\)"):
        fitted(open_chunked(tmp_path / "X.npy"), y[:-1])
    with pytest.raises(InvalidInputError, match="203 rows, but offset has 1"):
        fitted(open_chunked(tmp_path / "X.npy"), y, offset=[1.0])
    with pytest.raises(InvalidInputError, match="203 samples but 2 sample weights"):
        fitted(open_chunked(tmp_path / "X.npy"), y, weight=[1.0, 2.0])
    write_libsvm(tmp_path / "X.svm", S, y)
    refused("X.svm", "its labels", "y", error=InvalidInputError)


def test_csr_that_contradicts_itself(tmp_path):
    S, y = sparse()
    for name, change, match in (
        ("indptr", lambda p: np.concatenate([p[:3], [p[-1]], p[4:]]), "indptr does not ascend"),
        ("indptr", lambda p: p[:-1], "indptr does not ascend|is not a CSR|the shape is|indptr ends"),
        ("indices", lambda j: np.where(np.arange(j.size) == 500, 99, j), r"rows \d+ to \d+: X is not a valid CSR"),
        ("indices", lambda j: np.concatenate([[j[1]], j[1:]]), "stored twice"),
    ):
        members = {"data": S.data, "indices": S.indices, "indptr": S.indptr, "shape": np.array(S.shape)}
        members[name] = change(members[name])
        np.savez(tmp_path / "S.npz", **members, y=y)
        with pytest.raises(FileFormatError, match=match):
            fitted(open_chunked(tmp_path / "S.npz", chunk_bytes=4000))


def test_memory_is_used_again_once_nothing_refers_to_it(tmp_path):
    (tmp_path / "odd").write_bytes(b"abc" + np.arange(5.0).tobytes())
    stored = StoredArray(tmp_path / "odd", 3, np.dtype(float), (5,), "odd")
    part = stored.rows(1, 4)
    assert part.flags.aligned and not part.flags.writeable and part.tolist() == [1, 2, 3]
    view, other = part[1:].reshape(2, 1).T, stored.rows(0, 3)
    place = part.ctypes.data
    del part
    again = stored.rows(2, 5)  # a view of the first is still in use
    assert view.tolist() == [[2, 3]] and other.tolist() == [0, 1, 2] and again.tolist() == [2, 3, 4]
    assert len({place, other.ctypes.data, again.ctypes.data}) == 3
    del view
    assert stored.rows(0, 2).ctypes.data == place
    assert stored.rows(0, 0).shape == (0,) and stored.all().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["npy", "npz"])
@pytest.mark.parametrize("memory", [0, 10**8])
def test_two_chunks_are_in_memory_at_a_time(tmp_path, monkeypatch, kind, memory):
    """Also without the garbage collector: no cycle of references keeps one."""
    _, _, (path, target) = FORMATS[kind](tmp_path, np.float64)
    chunked = open_chunked(path, target, chunk_bytes=4000)
    stored = chunked._x if kind == "npy" else chunked._data
    alive, most, lent = weakref.WeakSet(), [0], stored.rows

    def rows(begin, end):
        array = lent(begin, end)
        alive.add(base_of(array))
        most[0] = max(most[0], len(alive))
        return array

    monkeypatch.setattr(stored, "rows", rows)
    gc.disable()
    try:
        model = PartitionedModel(FileSource(chunked, memory=memory), Form(Logistic(), True))
        constraint = MCP(2.0, 0.25)
        assert solve(Problem(model, constraint, 3.5 * constraint.cap)).status == Status.SOLVED
    finally:
        gc.enable()
    assert most[0] == 2 and not alive


def base_of(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.base


def test_one_row(tmp_path):
    np.save(tmp_path / "X.npy", np.array([[1.0, 2.0]]))
    value, gradient = fitted(open_chunked(tmp_path / "X.npy"), [3.0])
    assert value == 9 and gradient.tolist() == [-6, -12]
