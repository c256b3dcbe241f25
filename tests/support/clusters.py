"""Dask clusters on this machine, samples to put on them, and the ways in which workers go."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import dask
import dask.array as da
import numpy as np
import scipy.sparse
from distributed import Client, LocalCluster

from levelprox import LinearModel, Problem, solve
from levelprox.backends.dask import DaskSource
from levelprox.backends.partition import Form, Partition
from levelprox.backends.partitioned import PartitionedModel
from levelprox.constraints import MCP
from levelprox.losses import Logistic

_TO_CLOSE = 30.0  # seconds


@contextlib.contextmanager
def started(workers: int, processes: bool) -> Iterator[Client]:
    """A cluster that listens to this machine alone, and replaces workers however often they die."""
    before = set(multiprocessing.active_children())
    patient = {"distributed.deploy.lost-worker-timeout": "1 hour", "distributed.comm.timeouts.connect": "120 s"}
    with dask.config.set(patient):
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=processes,
            host="127.0.0.1",
            protocol="tcp",
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            memory_limit=None,
            silence_logs=50,
        )
        client = Client(cluster, set_as_default=False)
        try:
            yield client
        finally:
            _close(client, cluster)
            for process in set(multiprocessing.active_children()) - before:
                process.kill()


def _close(client: Client, cluster: LocalCluster) -> None:
    """Close a cluster; one that is not closed after a minute, as happens after a fault, is left to itself."""

    def closing() -> None:
        for one in (client, cluster):
            with contextlib.suppress(Exception):  # distributed trips over workers that were replaced just then
                one.close(timeout=_TO_CLOSE)

    thread = threading.Thread(target=closing, daemon=True)
    thread.start()
    thread.join(2 * _TO_CLOSE)
    if thread.is_alive():
        cluster.shutdown_on_close = False  # the end of the interpreter does not wait for it either


def samples(n: int, d: int, storage: str = "dense", seed: int = 0) -> tuple[Any, np.ndarray]:
    """X and targets of ±1 that eight features decide."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.sign(X[:, :8] @ rng.choice([-1.0, 1.0], 8) + rng.logistic(size=n))
    if storage == "dense":
        return X, y
    X[rng.random((n, d)) < 0.6] = 0.0
    return scipy.sparse.csr_matrix(X), y


def cut(X: Any, chunks: int) -> da.Array:
    """X as a Dask array of so many chunks of rows."""
    sizes = [len(part) for part in np.array_split(np.arange(X.shape[0]), chunks)]
    if isinstance(X, np.ndarray):
        # A unique name: the scheduler counts the workers that died with a task of a name, and stops trying it.
        return da.from_array(X, chunks=(tuple(sizes), X.shape[1]), name=f"rows-{uuid.uuid4().hex}")
    places = np.cumsum([0, *sizes])
    blocks = [da.from_array(X[begin:end], chunks=(-1, -1), asarray=False) for begin, end in itertools.pairwise(places)]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def keys_left(client: Client, patience: float = 60.0) -> list[str]:
    """Tasks of levelprox's that the scheduler still knows, once all releases have arrived."""
    end = time.monotonic() + patience
    while True:
        known = client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])
        left = [key for key in known if "levelprox" in key]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)


def processes_of(client: Client) -> list[int]:
    return sorted(client.run(os.getpid).values())


def await_workers(client: Client, count: int) -> None:
    """Wait until there are so many, each with a process of its own."""
    client.wait_for_workers(count, timeout=150)


class Once:
    """Something that happens one time, in whichever process it is first come to."""

    def __init__(self, folder: Path) -> None:
        self.mark = str(folder / uuid.uuid4().hex)

    def __call__(self) -> bool:
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


@dataclass(frozen=True)
class Deadly:
    """Work during which the worker is killed, the first time a partition is worked on."""

    work: Any
    once: Once
    index: int

    def __call__(self, partition: Partition) -> Any:
        if partition.index == self.index and self.once():
            os.kill(os.getpid(), signal.SIGKILL)
        return self.work(partition)


@dataclass(frozen=True)
class DeadlyToAdd:
    """Work whose answers kill the worker that first adds two of them."""

    work: Any
    once: Once

    def __call__(self, partition: Partition) -> Any:
        return Poisoned(self.work(partition), self.once)


@dataclass(frozen=True)
class Poisoned:
    """A summand that kills who adds it, once."""

    answer: Any
    once: Once

    def __add__(self, other: Poisoned) -> Poisoned:
        if self.once():
            os.kill(os.getpid(), signal.SIGKILL)
        return Poisoned(self.answer + other.answer, self.once)


class Struck(DaskSource):
    """PartitionedSource of which something befalls the cluster in one of the rounds."""

    rounds: ClassVar[list[int]] = [0]  # of the whole run: changed source count on
    at = 0
    blow: Callable[[DaskSource, Any], Any] = DaskSource.total

    def total(self, work: Any) -> Any:
        self.rounds[0] += 1
        if self.rounds[0] == self.at:
            return type(self).blow(self, work)
        return super().total(work)


def struck(blow: Callable[[DaskSource, Any], Any], at: int) -> type[Struck]:
    """PartitionedSource with this blow in round `at`."""
    return type("Struck", (Struck,), {"rounds": [0], "at": at, "blow": staticmethod(blow)})


LEVEL = 6.5
CONSTRAINT = MCP.from_threshold(0.5)


def fitted(source: DaskSource, **options: Any) -> Any:
    """A level fit on source."""
    return solve(Problem(PartitionedModel(source, Form(Logistic(), True)), CONSTRAINT, LEVEL), **options)


def fitted_here(X: Any, y: np.ndarray, **options: Any) -> Any:
    """The same on data in memory."""
    return solve(Problem(LinearModel(X, y, "logistic", fit_intercept=True), CONSTRAINT, LEVEL), **options)
