"""Threads change how long a pass takes, and no bit of its result."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import threadpool_info, threadpool_limits

from levelprox import _kernels
from levelprox import _runtime as threads
from levelprox.designs import Design, SelectedDesign, SparseDesign, as_design
from levelprox.exceptions import InvalidInputError
from levelprox.objectives import LinearModel
from tests.support.children import cpu_of
from tests.support.registries import DESIGNS, csc, csr, with_indices

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


@pytest.fixture(autouse=True)
def threads_for_little_work():
    """Threads share out work that they would leave to one of them otherwise."""
    before = _kernels.set_thread_work(1)
    yield
    _kernels.set_thread_work(before)


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
    for count in (1, 2, 5):
        with threadpool_limits(count):
            assert _kernels.thread_count() == count
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
        for count in (1, 2, 5):
            with threadpool_limits(count):
                grams.append(as_design(Y).gram(D))
        assert np.array_equal(grams[0], grams[1]) and np.array_equal(grams[0], grams[2])
        Y = (Y.toarray() if scipy.sparse.issparse(Y) else Y).astype(np.float64)
        assert np.allclose(grams[0], Y.T @ (D[:, None] * Y), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", DESIGNS)
def test_every_design_is_the_same_with_any_number_of_threads(name):
    X = np.where(RNG.random((300, 40)) < 0.4, RNG.standard_normal((300, 40)), 0.0)
    bits = set()
    for count in (1, 2, 5):
        with threadpool_limits(count):
            bits.add(tuple(everything(DESIGNS[name](X)).items()))
    assert len(bits) == 1


def test_checks_of_large_data_find_the_first_fault():
    for name in ("dense C", "dense F", "CSR uneven"):
        X = large(name).copy()
        values = X.data if scipy.sparse.issparse(X) else X.T.reshape(-1) if name == "dense F" else X.reshape(-1)
        values[[5, values.size // 2, -1]] = np.nan, np.inf, np.nan
        if name == "dense F":
            X = np.asfortranarray(values.reshape(X.shape[::-1]).T)
        for count in (1, 3):
            with threadpool_limits(count), pytest.raises(InvalidInputError, match=r"contains NaN .* \(3 in total\)"):
                as_design(X)
    X = large("CSR uneven").copy()
    X.indices = X.indices.copy()
    X.indices[[100_000, -1]] = X.shape[1], -1
    for count in (1, 3):
        with threadpool_limits(count), pytest.raises(InvalidInputError, match="has column index 40000, outside"):
            as_design(X)
    twice = large("CSR uneven").copy()
    last = slice(*twice.indptr[-2:])
    twice.indices[last][1] = twice.indices[last][0]
    with threadpool_limits(2):
        kernel = as_design(large("CSR uneven")).kernel
        assert not any(kernel.has_duplicates() for _ in range(10))
        assert all(as_design(twice).stored == twice.indices.size - 1 for _ in range(10))


def test_threads_share_out_the_work_of_a_pass():
    def workers() -> set[str]:
        names = set()
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/comm") as file:
                names.add(file.read().strip())
        return names

    if not os.path.isdir("/proc/self/task"):
        pytest.skip("no list of threads")
    with threadpool_limits(2):
        as_design(large("dense C")).matvec(np.ones(700))
    assert "levelprox" in workers()


# --- how many


def elsewhere(what):
    """What a function returns in a thread of its own, which no limit has been set for."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(what).result()


@pytest.fixture
def defaults():
    """Sets what the environment and the quota say, for one test."""
    yield _kernels.set_thread_defaults
    _kernels.set_thread_defaults(threads.from_environment() or 0, threads.cpu_quota() or 0)


def test_threadpoolctl_knows_the_threads():
    def known() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["internal_api"] == "levelprox"]

    for limits in ({"limits": 4}, {"limits": 4, "user_api": "openmp"}, {"limits": {"openmp": 4}}):
        with threadpool_limits(**limits):
            assert _kernels.thread_count() == 4
            assert known() == [4]
        assert known() == [1]  # conftest.py
    with threadpool_limits(4, user_api="blas"):
        assert _kernels.thread_count() == 1


def test_a_limit_holds_for_the_thread_that_sets_it(defaults):
    defaults(3, 0)
    with threadpool_limits(5):
        assert elsewhere(_kernels.thread_count) == 3
    assert _kernels.thread_count() == 1


def test_limits_beyond_reason_are_none(defaults):
    defaults(3, 0)

    def limited():
        with threadpool_limits(0):
            return _kernels.thread_count()

    assert elsewhere(limited) == 3


@pytest.mark.parametrize(
    ("text", "count"),
    [("3", 3), (" 2 ", 2), ("4,2,1", 4), ("", None), ("0", None), ("-1", None), ("many", None), ("²", None)],
)
def test_the_environment_in_words(monkeypatch, text, count):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert threads.from_environment() == count


@pytest.mark.process
@pytest.mark.extended  # interpreters of their own
def test_the_environment_decides():
    program = "from levelprox import _kernels; print(_kernels.thread_count())"
    allowed = min(len(os.sched_getaffinity(0)), threads.cpu_quota() or 1024)
    for text, count in (("3", 3), ("7,2", 7), ("none", allowed)):
        out = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "OMP_NUM_THREADS": text},
            capture_output=True,
            text=True,
            check=True,
        )
        assert int(out.stdout) == count


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity")
def test_no_more_threads_than_processors_that_the_thread_may_use(defaults):
    defaults(0, 0)

    def restricted() -> list[int]:
        allowed = os.sched_getaffinity(0)
        seen = [_kernels.thread_count() - len(allowed)]
        os.sched_setaffinity(0, {min(allowed)})  # of this thread, which ends after it
        return [*seen, _kernels.thread_count()]

    assert elsewhere(restricted) == [0, 1]
    defaults(0, 1)
    assert elsewhere(_kernels.thread_count) == 1
    defaults(2, 1)  # an explicit number is used
    assert elsewhere(_kernels.thread_count) == 2


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        ("0::/", {"cpu.max": "max 100000"}, None),
        ("0::/", {"cpu.max": "200000 100000"}, 2),
        ("0::/", {"cpu.max": "150000 100000"}, 2),
        ("0::/", {"cpu.max": "5000 100000"}, 1),
        ("0::/", {}, None),
        ("0::/", {"cpu.max": "broken"}, None),
        ("0::/", {"cpu.max": "100000 0"}, None),
        ("0::/a/b", {"cpu.max": "800000 100000", "a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}, 3),
        ("0::/not/here", {"cpu.max": "400000 100000"}, 4),
        ("0::/../out", {"cpu.max": "400000 100000"}, 4),
        ("1:cpu:/\n0::/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("1:cpu:/\n0::/", {"cpu/cpu.cfs_quota_us": "250000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ("4:cpu,x:/a", {"cpu,x/a/cpu.cfs_quota_us": "100000", "cpu,x/a/cpu.cfs_period_us": "50000"}, 2),
        ("4:cpuset:/a", {"cpuset/a/cpu.cfs_quota_us": "100000", "cpuset/a/cpu.cfs_period_us": "50000"}, None),
        ("1:cpu:/\n0::/a", {"unified/a/cpu.max": "700000 100000"}, 7),
        ("what is this", {"cpu.max": "200000 100000"}, None),
        (None, {"cpu.max": "200000 100000"}, None),
    ],
)
def test_the_quota_of_a_container(tmp_path, groups, files, quota):
    if groups is not None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(groups + "\n")
    for name, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    assert threads.cpu_quota(tmp_path) == quota


# --- several callers, forks, signals, the end


def test_several_python_threads_at_once():
    X = large("dense C")
    design, r = as_design(X), np.ones(X.shape[0])
    want = design.rmatvec(r).tobytes()
    together = threading.Barrier(4)

    def products(count: int) -> set[bytes]:
        with threadpool_limits(count, user_api="openmp"):
            together.wait(60)
            return {design.rmatvec(r).tobytes() for _ in range(20)}

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(products, (1, 2, 3, 4))) == [{want}] * 4


def _product_in_a_child(X: np.ndarray) -> tuple[int, bytes]:
    return _kernels.thread_count(), as_design(X).rmatvec(np.ones(X.shape[0])).tobytes()


@pytest.mark.process
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
        assert _kernels.thread_count() == 3  # the parent continues as before


def _product_with_threads_in_a_child(X: np.ndarray) -> tuple[int, bytes, bool]:
    with threadpool_limits(3):
        answer = _product_in_a_child(X)
    return *answer, len(os.listdir("/proc/self/task")) > 1 if os.path.isdir("/proc/self/task") else True


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_threads_on_request():
    X = large("dense C")
    with threadpool_limits(3):
        want = as_design(X).rmatvec(np.ones(X.shape[0])).tobytes()
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply_async(_product_with_threads_in_a_child, [X]).get(timeout=120) == (3, want, True)


@pytest.mark.process
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


@pytest.mark.process
@pytest.mark.extended  # interpreters of their own
@pytest.mark.parametrize("end", ["join()", "os._exit(0)", "os.kill(os.getpid(), signal.SIGTERM)"])
def test_the_interpreter_ends(end):
    """With threads that sleep, and with threads in the middle of their work."""
    program = textwrap.dedent(f"""
        import os, signal, threading
        import numpy as np
        from threadpoolctl import threadpool_limits
        from levelprox.designs import as_design
        X = as_design(np.ones((3000, 2000))); x = np.ones(3000)
        begun, stop = threading.Event(), threading.Event()
        def work():
            with threadpool_limits(3):
                while not stop.is_set():
                    X.rmatvec(x)
                    begun.set()
        worker = threading.Thread(target=work, daemon=True)
        def join():
            stop.set()
            worker.join()
        worker.start()
        begun.wait()
        {end}
    """)
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert out.stderr == ""
    assert out.returncode == (-signal.SIGTERM if "SIGTERM" in end else 0)


# More than 2^31 entries: every count and offset must be 64 bits wide.


def room_for(gigabytes: float) -> None:
    """Skip unless the machine has that much memory free."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    if free < gigabytes:
        pytest.skip(f"needs {gigabytes:.0f} GB of free memory, has {free:.0f} GB")


@pytest.mark.slow
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
