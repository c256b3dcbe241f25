"""Threads: they change how long a pass takes, and not one bit of what it gives."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import threadpool_info, threadpool_limits

from levelprox import _kernels
from levelprox.designs import Design, SelectedDesign, SparseDesign, as_design
from levelprox.errors import InvalidInputError
from levelprox.objectives import LinearModel
from tests.children import cpu_of
from tests.registries import DESIGNS, csc, csr, with_indices

LONG = bool(os.environ.get("LEVELPROX_LONG_TESTS"))

# Large enough for several chunks and pieces, in each of the ways in which a pass is cut: long slices, short slices,
# very few slices, and slices of very different lengths.
RNG = np.random.default_rng(0)
BUILT = {
    "dense C": lambda rng: rng.standard_normal((900, 700)),
    "dense C long": lambda rng: rng.standard_normal((70, 9001)),
    "dense C short": lambda rng: rng.standard_normal((90_001, 7)),
    "dense F": lambda rng: np.asfortranarray(rng.standard_normal((900, 700))),
    "dense F long": lambda rng: np.asfortranarray(rng.standard_normal((9001, 70))),
    "dense F short": lambda rng: np.asfortranarray(rng.standard_normal((7, 90_001))),
    "dense C float32": lambda rng: rng.standard_normal((700, 900), dtype=np.float32),
    "CSR": lambda rng: csr(scipy.sparse.random_array((20_000, 3000), density=0.01, rng=rng)),
    "CSR wide": lambda rng: csr(scipy.sparse.random_array((3000, 50_000), density=0.004, rng=rng)),
    "CSC": lambda rng: csc(scipy.sparse.random_array((3000, 20_000), density=0.01, rng=rng)),
    "CSC float32 int64": lambda rng: with_indices(
        csc(scipy.sparse.random_array((3000, 20_000), density=0.01, rng=rng)).astype(np.float32), np.int64, np.int64
    ),
    "CSR uneven": lambda rng: uneven(rng),
}


@functools.cache
def large(name: str):
    """The data of a name; they take long to draw, and not every process needs them."""
    return BUILT[name](np.random.default_rng(0))


def uneven(rng) -> scipy.sparse.csr_array:
    """Rows of 0 to 40,000 entries."""
    sizes = np.array([0, 40_000, 0, 0, 1, 39_999, *([0] * 500), *([170] * 1500)])
    indices = np.concatenate([rng.choice(40_000, size, replace=False) for size in sizes])
    return csr((rng.standard_normal(indices.size), indices, np.append(0, np.cumsum(sizes))), shape=(sizes.size, 40_000))


def everything(design: Design) -> dict[str, bytes]:
    """All that is computed by passes over X, as bits."""
    n, d = design.shape
    rng = np.random.default_rng(1)
    x, r, b = rng.standard_normal(d), rng.standard_normal(n), np.sign(rng.standard_normal(n))
    x[::3] = 0
    gradient = np.empty(d)
    some = rng.permutation(d)[: min(d, 40)]
    model = design.linear_model(("logistic", 0.0, 0.0), b, None, r)
    results = {
        "matvec": design.matvec(x),
        "rmatvec": design.rmatvec(r),
        "column_squares": design.column_squares(r),
        "row_squares": design.row_squares(),
        "psi": np.array(model.value_and_gradient(x, gradient)),
        "gradient": gradient,
        "columns": design.columns(some).matvec(x[: some.size]),
        "rows": design.rows(rng.permutation(n)[: n // 2]).rmatvec(r[: n // 2]),
        "gram": design.columns(some).gram(r),
        "gram of a view": SelectedDesign(design, some).gram(r),
    }
    if design.has_rows:
        results["nonfinite"] = np.array(design.kernel.nonfinite())
    if isinstance(design, SparseDesign):
        results["row_major"] = design.row_major().matvec(x)
    return {name: value.tobytes() for name, value in results.items()}


@pytest.mark.parametrize("name", BUILT)
def test_the_number_of_threads_does_not_show_in_the_bits(name):
    seen = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            assert _kernels.thread_count() == threads
            seen.append(everything(as_design(large(name))))
    for result in seen[0]:
        assert seen[0][result] == seen[1][result] == seen[2][result], result


@pytest.mark.parametrize("name", BUILT)
def test_large_passes_equal_numpy(name):
    X = large(name)
    design = as_design(X)
    X = X.astype(np.float64)
    squares = X * X
    n, d = X.shape
    rng = np.random.default_rng(2)
    x, r = rng.standard_normal(d), rng.standard_normal(n)
    with threadpool_limits(2):
        for got, want in [
            (design.matvec(x), X @ x),
            (design.rmatvec(r), X.T @ r),
            (design.column_squares(r), squares.T @ r),
            (design.row_squares(), squares @ np.ones(d)),
        ]:
            assert np.allclose(got, want, rtol=1e-12, atol=1e-10)
        model = LinearModel(design, r, "squared")
        value, gradient = model.value_and_gradient(x)
        z = X @ x - r
        assert value == pytest.approx(z @ z / n, rel=1e-12)
        assert np.allclose(gradient, 2 * X.T @ z / n, rtol=1e-12, atol=1e-10)
        W = rng.integers(0, d, 30)
        small = X[:, W].toarray() if scipy.sparse.issparse(X) else X[:, W]
        assert np.array_equal(design.columns(W).matvec(np.eye(30)[4]), small[:, 4])
        assert np.allclose(design.columns(W).gram(r), small.T @ (r[:, None] * small), rtol=1e-12, atol=1e-10)


def test_large_gram_matrices_have_the_same_bits_with_any_number_of_threads():
    rng = np.random.default_rng(4)
    X, D = rng.standard_normal((1500, 333)), rng.standard_normal(1500)
    half = np.where(rng.random(X.shape) < 0.1, X, 0.0)
    for Y in (X, np.asfortranarray(X), X.astype(np.float32), csr(X), csr(half), csc(half), csr(half[:, :50])):
        grams = []
        for threads in (1, 2, 3):
            with threadpool_limits(threads):
                grams.append(as_design(Y).gram(D))
        assert np.array_equal(grams[0], grams[1]) and np.array_equal(grams[0], grams[2])
        Y = (Y.toarray() if scipy.sparse.issparse(Y) else Y).astype(np.float64)
        assert np.allclose(grams[0], Y.T @ (D[:, None] * Y), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", DESIGNS)
def test_every_design_is_the_same_with_any_number_of_threads(name):
    X = np.where(RNG.random((300, 40)) < 0.4, RNG.standard_normal((300, 40)), 0.0)
    bits = set()
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            bits.add(tuple(everything(DESIGNS[name](X)).items()))
    assert len(bits) == 1


def test_checks_of_large_data_find_the_first_fault():
    for name in ("dense C", "dense F", "CSR uneven"):
        X = large(name).copy()
        values = X.data if scipy.sparse.issparse(X) else X.T.reshape(-1) if name == "dense F" else X.reshape(-1)
        values[[5, values.size // 2, -1]] = np.nan, np.inf, np.nan
        if name == "dense F":
            X = np.asfortranarray(values.reshape(X.shape[::-1]).T)
        for threads in (1, 3):
            with threadpool_limits(threads), pytest.raises(InvalidInputError, match=r"contains NaN .* \(3 in total\)"):
                as_design(X)
    X = large("CSR uneven").copy()
    X.indices = X.indices.copy()
    X.indices[[100_000, -1]] = X.shape[1], -1
    for threads in (1, 3):
        with threadpool_limits(threads), pytest.raises(InvalidInputError, match="has column index 40000, outside"):
            as_design(X)
    twice = large("CSR uneven").copy()
    last = slice(*twice.indptr[-2:])
    twice.indices[last][1] = twice.indices[last][0]
    with threadpool_limits(2):
        kernel = as_design(large("CSR uneven")).kernel
        assert not any(kernel.has_duplicates() for _ in range(10))
        assert all(as_design(twice).stored == twice.indices.size - 1 for _ in range(10))


def test_threadpoolctl_knows_the_threads():
    assert any(pool["user_api"] == "openmp" and "gomp" in pool["filepath"] for pool in threadpool_info())


@pytest.mark.extended  # an interpreter of its own
def test_the_environment_decides():
    program = "from levelprox import _kernels; print(_kernels.thread_count())"
    for count in ("3",):
        out = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "OMP_NUM_THREADS": count},
            capture_output=True,
            text=True,
            check=True,
        )
        assert out.stdout.strip() == count


def _product_in_a_child(X: np.ndarray) -> tuple[int, bytes]:
    return _kernels.thread_count(), as_design(X).rmatvec(np.ones(X.shape[0])).tobytes()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_serial_and_does_not_hang():
    X = large("dense C")
    with threadpool_limits(3):
        want = as_design(X).rmatvec(np.ones(X.shape[0])).tobytes()  # starts the threads that the child will not have
        with multiprocessing.get_context("fork").Pool(2) as pool:
            answers = pool.map_async(_product_in_a_child, [X] * 3).get(timeout=120)
        assert answers == [(1, want)] * 3
        child = os.fork()
        if child == 0:
            os._exit(0 if _product_in_a_child(X) == (1, want) else 1)
        deadline = time.monotonic() + 120
        while (done := os.waitpid(child, os.WNOHANG))[0] == 0:
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.01)
        assert done[1] == 0
        assert _kernels.thread_count() == 3  # the parent goes on as before


@pytest.mark.extended  # an interpreter of its own, since a forked child has one thread
def test_ctrl_c_reaches_passes_with_threads():
    program = textwrap.dedent("""
        import signal, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job would inherit "ignore"
        import numpy as np
        from threadpoolctl import threadpool_limits
        from levelprox.designs import as_design
        X = as_design(np.ones((3000, 3000), dtype=np.float32)); x = np.ones(3000)
        print("ready", flush=True)
        try:
            with threadpool_limits(2):
                while True: X.rmatvec(x)
        except KeyboardInterrupt:
            print(time.process_time(), flush=True)
    """)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        sent = cpu_of(process.pid)
        while process.poll() is None and cpu_of(process.pid) < sent + 0.2:
            time.sleep(0.01)
        sent = cpu_of(process.pid)
        process.send_signal(signal.SIGINT)
        assert float(process.stdout.readline()) - sent < 2  # seconds of two threads
        assert process.wait() == 0
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


# More than 2^31 entries: every count and offset must be 64 bits wide.


def room_for(gigabytes: float) -> None:
    """Skip unless the machine has that much memory free."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    if free < gigabytes:
        pytest.skip(f"needs {gigabytes:.0f} GB of free memory, has {free:.0f} GB")


@pytest.mark.slow
@pytest.mark.skipif(not LONG, reason="set LEVELPROX_LONG_TESTS=1")
def test_dense_data_of_more_than_2_to_the_31_entries():
    room_for(10)
    n, d = 2**20 + 3, 2049
    assert n * d > 2**31
    X = np.ones((n, d), dtype=np.float32)
    X[-1, -1] = 3
    for array, last in ((X, (n - 1, d - 1)), (X.reshape(d, n, order="C").T, None)):  # the same memory in both orders
        with threadpool_limits(2):
            design = as_design(array)
            ones = np.ones(n), np.ones(d)
            assert design.rmatvec(ones[0]).sum() == design.matvec(ones[1]).sum() == n * d + 2
            assert design.column_squares().sum() == design.row_squares().sum() == n * d + 8
            W = np.array([d - 1, 0, 7])
            assert design.columns(W).matvec(np.eye(3)[0])[-1] == 3
            assert design.rows([n - 1]).rmatvec([1.0])[-1] == 3
            G = design.view(W).gram()
            assert G[0, 0] == n + 8 and G[0, 1] == n + 2 and G[1, 2] == n
            assert LinearModel(design, np.zeros(n), "squared").value_and_gradient(np.zeros(d))[0] == 0
        if last is not None:
            X[last] = np.inf
            with pytest.raises(InvalidInputError, match=rf"inf at row {last[0]}, column {last[1]} \(1 in total\)"):
                as_design(X)
            X[last] = 3


@pytest.mark.slow
@pytest.mark.skipif(not LONG, reason="set LEVELPROX_LONG_TESTS=1")
@pytest.mark.parametrize("by_rows", [True, False])
def test_sparse_data_of_more_than_2_to_the_31_entries(by_rows):
    room_for(20)
    count, length, m = 2**21 + 1, 2**20, 2**10  # slices, their length, entries of each
    stored = count * m
    assert stored > 2**31
    data = np.ones(stored, dtype=np.float32)
    data[-1] = 3
    indices = np.empty((count, m), dtype=np.int32)
    indices[:] = np.arange(0, length, length // m, dtype=np.int32) + (length // m - 1)
    indptr = np.arange(0, stored + 1, m)
    shape = (count, length) if by_rows else (length, count)
    kind = scipy.sparse.csr_array if by_rows else scipy.sparse.csc_array
    X = kind(shape, dtype=np.float32)
    X.data, X.indices, X.indptr = data, indices.reshape(-1), indptr
    with threadpool_limits(2):
        design = as_design(X)
        assert design.stored == stored
        assert design.rmatvec(np.ones(shape[0])).sum() == design.matvec(np.ones(shape[1])).sum() == stored + 2
        assert design.column_squares().sum() == design.row_squares().sum() == stored + 8
        W = np.array([shape[1] - 1, 5, 1023])
        some = design.view(W)
        assert some.rmatvec(np.ones(shape[0]))[0] == (count if by_rows else m) + 2
        assert some.gram()[0, 0] == (count if by_rows else m) + 8
        assert design.rows([shape[0] - 1]).rmatvec([1.0])[-1] == 3
