"""Lost, stopped, failing and late workers, and lost schedulers: the right answer or a named error, never a hang.

One run of each; twenty with other rounds and other workers with --long.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from distributed import Client

from levelprox import LinearModel
from levelprox.backends.dask import DaskSource
from levelprox.backends.executor import Cluster
from levelprox.backends.partition import Form
from levelprox.backends.partitioned import PartitionedModel
from levelprox.exceptions import BackendError
from levelprox.losses import Logistic
from tests.support.children import Child
from tests.support.clusters import (
    Deadly,
    DeadlyToAdd,
    Once,
    await_workers,
    cut,
    fitted,
    fitted_here,
    processes_of,
    samples,
    started,
    struck,
)
from tests.support.long_runs import LONG

SEEDS = range(20) if LONG else range(1)
N, D, CHUNKS, WORKERS = 300, 10, 5, 3
NULL = 6  # rounds of the null fit: before its end there is no point to hand out
X, Y = samples(N, D)


@pytest.fixture(scope="module")
def client():
    """Workers that are processes, each started again when it dies."""
    with started(WORKERS, True) as client:
        yield client


@pytest.fixture(scope="module")
def expected():
    return fitted_here(X, Y, start="direct")


@pytest.fixture(scope="module")
def rounds():
    """How many a fit takes: `NULL` for the null fit, the last two after its end."""
    source = struck(DaskSource.total, 0)
    fitted(source.of(cut(X, CHUNKS), Y), start="direct")
    return source.rounds[0]


def killed(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def assert_fits(source, expected) -> None:
    result = fitted(source, start="direct")
    assert result.psi == pytest.approx(expected.psi, rel=1e-10)
    assert np.array_equal(result.x != 0, expected.x != 0)


def chosen(client: Client, seed: int, count: int) -> list[int]:
    """So many of the workers."""
    await_workers(client, WORKERS)
    return [*np.random.default_rng(seed).permutation(processes_of(client))[:count].tolist()]


def round_of(seed: int) -> int:
    """One of the first rounds of a fit."""
    return 2 + int(np.random.default_rng([seed, 1]).integers(8))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("phase", ["gradient", "reduction"])
def test_a_worker_dies_in_a_task(client, expected, tmp_path, phase, seed):
    once = Once(tmp_path)

    def blow(source, work):
        if phase == "gradient":
            return DaskSource.total(source, Deadly(work, once, seed % CHUNKS))
        return DaskSource.total(source, DeadlyToAdd(work, once)).answer

    assert_fits(struck(blow, round_of(seed)).of(cut(X, CHUNKS), Y, client=client), expected)
    assert not once()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_worker_dies_before_the_first_gradient(client, expected, seed):
    pids = chosen(client, seed, 1)
    source = DaskSource.of(cut(X, CHUNKS), Y, client=client)
    if seed % 2:
        source.statistics(Logistic(), True, False)
    killed(pids)
    assert_fits(source, expected)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [1, WORKERS - 1, WORKERS], ids=["one", "all but one", "all"])
def test_workers_die_between_rounds(client, expected, count, seed):
    pids = chosen(client, seed, count)

    def blow(source, work):
        killed(pids)
        return DaskSource.total(source, work)

    assert_fits(struck(blow, round_of(seed)).of(cut(X, CHUNKS), Y, client=client), expected)


class Rows:
    """Margins of every sample, by chunk: what a prediction is."""

    def __init__(self, found):
        self.found = found

    def __add__(self, other):
        return Rows({**self.found, **other.found})


class Predicting:
    """What a partition does for them."""

    def __call__(self, partition):
        return Rows({partition.index: partition.model.margins(np.ones(D))})


@pytest.mark.parametrize("seed", SEEDS)
def test_a_worker_dies_in_a_prediction(client, tmp_path, seed):
    model = PartitionedModel(DaskSource.of(cut(X, CHUNKS), Y, client=client), Form(Logistic()))
    rows = model.source.total(Deadly(Predicting(), Once(tmp_path), seed % CHUNKS)).found
    assert np.allclose(np.concatenate([rows[i] for i in range(CHUNKS)]), X.sum(axis=1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_sample_counts_twice(client, tmp_path, seed):
    """Every bit is the same, also if tasks are computed twice."""
    x = np.random.default_rng(seed).standard_normal(D)

    def blow(source, work):
        return DaskSource.total(source, DeadlyToAdd(Deadly(work, Once(tmp_path), 2), Once(tmp_path))).answer

    found = []
    for kind in (DaskSource, struck(blow, 2)):
        model = PartitionedModel(kind.of(cut(X, CHUNKS), Y, client=client), Form(Logistic()))
        assert model.summary.count == N
        found.append(model.value_and_gradient(x))
    assert len(list(tmp_path.iterdir())) == 2
    assert found[0][0] == found[1][0] and np.array_equal(found[0][1], found[1][1])
    value, gradient = LinearModel(X, Y, "logistic").value_and_gradient(x)
    assert found[0][0] == pytest.approx(value, rel=1e-13)
    assert np.abs(found[0][1] - gradient).max() <= 1e-13 * np.abs(gradient).max()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_worker_that_stops_for_a_while(client, expected, seed):
    (pid,) = chosen(client, seed, 1)
    wakers = []

    def blow(source, work):
        os.kill(pid, signal.SIGSTOP)
        wakers.append(threading.Timer(30.0 if LONG else 3.0, os.kill, (pid, signal.SIGCONT)))
        wakers[0].start()
        return DaskSource.total(source, work)

    try:
        assert_fits(struck(blow, round_of(seed)).of(cut(X, CHUNKS), Y, client=client), expected)
    finally:
        wakers[0].join()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_worker_that_comes_late_is_used(client, expected, seed):
    await_workers(client, WORKERS)

    def blow(source, work):
        client.cluster.scale(WORKERS + 1)
        await_workers(client, WORKERS + 1)
        return DaskSource.total(source, work)

    assert_fits(struck(blow, round_of(seed)).of(cut(X, CHUNKS), Y, client=client), expected)
    client.cluster.scale(WORKERS)


class Killing:
    """Work that no worker survives."""

    def __call__(self, partition):
        if partition.index == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return 1.0


def test_a_chunk_that_kills_its_workers(client):
    await_workers(client, WORKERS)
    source = DaskSource.of(cut(X, CHUNKS), Y, client=client)
    # After one death Dask may blame a chunk that waited on the same worker; after three it is the right one.
    client.run_on_scheduler(partial(_allow, failures=2))
    try:
        with pytest.raises(BackendError, match=r"^chunk 3: 3 workers died .* make the chunks smaller"):
            source.total(Killing())
    finally:
        client.run_on_scheduler(partial(_allow, failures=3))


def _allow(dask_scheduler, failures):
    dask_scheduler.allowed_failures = failures


class Counting:
    """One for each partition."""

    def __call__(self, partition):
        return 1


class Sleeping:
    """Work that takes a while, and says when it has begun."""

    def __init__(self, begun):
        self.begun = begun

    def __call__(self, partition):
        Path(self.begun).touch()
        time.sleep(1.0)
        return 1.0


INTERRUPTED = """
import gc, sys, time
from distributed import Client
from levelprox.backends.dask import DaskSource
from tests.support.clusters import cut, keys_left
from tests.faults.test_dask_faults import CHUNKS, X, Y, Counting, Sleeping
with Client(sys.argv[1], set_as_default=False) as client:
    source = DaskSource.of(cut(X, CHUNKS), Y, client=client)
    assert source.total(Counting()) == CHUNKS
    try:
        source.total(Sleeping(sys.argv[2]))
    except KeyboardInterrupt:
        print("interrupted")
    del source
    gc.collect()
    until = time.monotonic() + 60  # workers of a loaded machine let go of them later
    while keys_left(client) and time.monotonic() < until:
        time.sleep(0.1)
    assert keys_left(client) == []
"""


def test_ctrl_c_ends_a_fit_on_a_cluster(tmp_path):
    """On a cluster of its own, without workers that other tests have killed."""
    with (
        started(WORKERS, True) as client,
        Child(INTERRUPTED, client.scheduler.address, tmp_path / "begun") as child,
    ):
        while child.is_alive() and not (tmp_path / "begun").exists():
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        ended = child.ended()
    assert (ended.returncode, ended.stdout) == (0, "interrupted\n"), ended.stderr


@pytest.mark.parametrize("seed", SEEDS)
def test_all_workers_are_lost(monkeypatch, rounds, seed):
    """An error that says so, and holds the best point so far."""
    monkeypatch.setattr(Cluster, "patience", 3.0)
    with started(2, True) as client:
        pids = processes_of(client)
        for nanny in client.cluster.workers.values():
            nanny.close_gracefully()  # no worker in place of one that dies

        def blow(source, work):
            killed(pids)
            return DaskSource.total(source, work)

        at = rounds - 3 - seed % (rounds - 4)  # any round but the first, and those after the end
        source = struck(blow, at).of(cut(X, CHUNKS), Y, client=client)
        with pytest.raises(BackendError, match="no worker is left, and for 3 s") as caught:
            fitted(source, start="direct")
        assert (caught.value.result is not None) == (at > NULL), caught.value


def test_data_that_were_scattered_cannot_be_made_again():
    """The second worker comes after the data were read, so that it has no copy of them."""
    with started(1, True) as client:
        (nanny,) = client.cluster.workers.values()
        futures = client.scatter([X[:150], X[150:]])
        array = da.concatenate([da.from_delayed(one, (150, D), float) for one in futures])
        source = DaskSource.of(array, Y, client=client)
        assert source.total(Counting()) == 2
        first = processes_of(client)
        client.cluster.scale(2)
        await_workers(client, 2)
        nanny.close_gracefully()  # no worker in place of the first
        killed(first)
        with pytest.raises(BackendError, match=r"^chunks? [01].*client\.scatter"):
            source.total(Counting())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "stops"])
def test_the_scheduler_is_lost(monkeypatch, tmp_path, rounds, how, seed):
    monkeypatch.setattr(Cluster, "patience", 6.0)
    address = tmp_path / "scheduler.json"
    run, here = [sys.executable, "-m"], ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(address)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen(
        [*run, "distributed.cli.dask_scheduler", *here, "--port", "0", "--dashboard-address", "127.0.0.1:0"], **quiet
    )
    worker = subprocess.Popen(
        [
            *run,
            "distributed.cli.dask_worker",
            *here,
            "--no-nanny",
            "--nthreads",
            "1",
            "--local-directory",
            str(tmp_path),
        ],
        **quiet,
    )
    try:
        with Client(scheduler_file=str(address), timeout=120, set_as_default=False) as client:

            def blow(source, work):
                scheduler.send_signal(how)
                return DaskSource.total(source, work)

            await_workers(client, 1)
            at = rounds - 3 - seed % (rounds - 4)  # any round but the first, and those after the end
            source = struck(blow, at).of(cut(X, CHUNKS), Y, client=client)
            with pytest.raises(BackendError, match="scheduler") as caught:
                fitted(source, start="direct")
            assert (caught.value.result is not None) == (at > NULL), caught.value
            scheduler.kill()
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
