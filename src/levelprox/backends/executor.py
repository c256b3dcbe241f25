"""Executors of the tasks of a graph: the workers of a Dask cluster, or threads of this process.

Tasks are pure, none is bound to a worker, and none holds data that could not be made again: what is lost with a worker
is computed once more by another. An executor waits as long as workers are active, and no longer.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from levelprox.exceptions import BackendError, InvalidInputError, LevelproxError

Graph = dict[Any, Any]

_POLL_SECONDS = 2.0  # between two checks whether workers are still active
_IDLE_PATIENCE = 10  # times `Cluster.patience`: how long workers may do nothing, as while large data are sent to them
_BUSY_STATES = ("executing", "long-running", "ready", "fetch", "flight")  # of tasks on a worker


class ChunkError(Exception):
    """A task failed: the number of its chunk, and the reason. It is sent from a worker to the client."""

    def __reduce__(self) -> tuple[type[ChunkError], tuple[Any, ...]]:
        return ChunkError, self.args


def raise_for_chunk(chunk: int, reason: BaseException) -> NoReturn:
    """Raise why a chunk failed, for the user: an error of levelprox keeps its type."""
    if isinstance(reason, LevelproxError):
        place = f"chunk {chunk}: "
        raise (reason if str(reason).startswith(place) else reason.prefixed(place)) from reason.__cause__
    raise BackendError(f"chunk {chunk}: its task failed with {type(reason).__name__}: {reason}") from reason


class Threads:
    """Threads of this process, run by the local scheduler of Dask."""

    def keep(self, collections: Sequence[Any]) -> list[Any]:
        """Compute each collection, and keep it where it was computed for as long as the result is held here."""
        from dask.base import compute

        try:
            return list(compute(*collections, scheduler="threads"))  # type: ignore[no-untyped-call]
        except ChunkError as error:
            raise_for_chunk(*error.args)

    def keep_task(self, key: str, task: Any) -> Any:
        """Compute one task, and keep its result where it was computed."""
        import dask.threaded

        return dask.threaded.get({key: task}, key)

    def result(self, graph: Graph, key: Any, chunks: Sequence[Any]) -> Any:
        """Return the value of one key of the graph, computed from these chunks among others."""
        import dask.threaded

        try:
            return dask.threaded.get(graph, key)
        except ChunkError as error:
            raise_for_chunk(*error.args)

    def __repr__(self) -> str:
        return "threads"


class Cluster:
    """The workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client

    Attributes
    ----------
    patience : float
        Seconds without an answer of the scheduler, or without an active worker, after which an error is raised.
    """

    patience = 30.0

    def __init__(self, client: Any) -> None:
        if client.asynchronous:
            raise InvalidInputError("an asynchronous Client is not supported: make one with asynchronous=False")
        self.client = client
        self._check_connected()

    def keep(self, collections: Sequence[Any]) -> list[Any]:
        """Compute each collection, and keep it where it was computed for as long as the result is held here."""
        from distributed import futures_of

        self._check_connected()
        with _large_graphs():
            kept = self.client.persist(list(collections))
        return [futures_of(one)[0] for one in kept]  # type: ignore[no-untyped-call]

    def keep_task(self, key: str, task: Any) -> Any:
        """Compute one task, and keep its result where it was computed."""
        self._check_connected()
        with _large_graphs():
            return self.client.get({key: task}, key, sync=False)

    def result(self, graph: Graph, key: Any, chunks: Sequence[Any]) -> Any:
        """Return the value of one key of the graph, computed from these chunks among others."""
        self._check_connected()
        with self.client.as_current():  # Dask waits by the current client, whichever client the future is of
            future = self.client.get(graph, key, sync=False)
            try:
                return self._awaited(future, chunks)
            finally:
                future.release()  # after Ctrl-C, the rest is not computed

    def _awaited(self, future: Any, chunks: Sequence[Any]) -> Any:
        from concurrent.futures import CancelledError

        from distributed import wait

        answered = active = time.monotonic()  # the scheduler's last answer, and the last time a worker was active
        while True:
            try:
                wait([future], timeout=_POLL_SECONDS)  # type: ignore[no-untyped-call]
                return future.result(timeout=self.patience)
            except TimeoutError as error:
                if future.status == "error":  # the task's own
                    self._explain(error, chunks)
                answered, active = self._check_active(answered, active)
            except CancelledError as error:
                self._explain_loss(error, chunks)
            except Exception as error:
                self._explain(error, chunks)

    def _check_active(self, answered: float, active: float) -> tuple[float, float]:
        """Return when the scheduler last answered and a worker was last active; raise if that is too long ago."""
        try:
            known = self.client.sync(self.client.scheduler.identity, callback_timeout=self.patience / 4)
        except (TimeoutError, OSError):
            if self.client.status != "running" or time.monotonic() - answered > self.patience:
                raise BackendError(
                    f"the scheduler at {_address(self.client)} does not answer: its data cannot be read"
                ) from None
            return answered, active
        now, workers = time.monotonic(), known["workers"].values()
        if any(map(_is_busy, workers)):
            return now, now
        if all(one["status"] == "paused" for one in workers):
            what, limit = f"all {len(workers)} workers have paused, their memory being full", self.patience
            what = what if workers else "no worker is left"
        else:
            what, limit = f"none of {len(workers)} workers has a task to work on", _IDLE_PATIENCE * self.patience
        if now - active > limit:
            raise BackendError(f"{what}, and for {limit:g} s that has not changed")
        return now, active

    def _explain(self, error: Exception, chunks: Sequence[Any]) -> NoReturn:
        """Say what went wrong, and with which chunk."""
        from distributed.scheduler import KilledWorker

        if isinstance(error, ChunkError):
            raise_for_chunk(*error.args)
        failed = [i for i, chunk in enumerate(chunks) if chunk.status == "error"]
        if isinstance(error, KilledWorker):
            raise BackendError(
                f"{_named(failed, error.task)}: {error.allowed_failures + 1} workers died while working on it, or on "
                "another beside it, probably because they ran out of memory: make the chunks smaller, or give the "
                "workers more memory"
            ) from error
        if failed:
            raise_for_chunk(failed[0], error)
        self._check_connected()
        raise BackendError(f"the cluster failed with {type(error).__name__}: {error}") from error

    def _explain_loss(self, error: BaseException, chunks: Sequence[Any]) -> NoReturn:
        """Return why tasks were cancelled that this process has not cancelled."""
        self._check_connected()
        lost = [i for i, chunk in enumerate(chunks) if chunk.status in ("cancelled", "lost")]
        if lost and "scheduler" not in str(error):
            raise BackendError(
                f"{_named(lost)}: lost with the worker that held it, and not to be computed again, as data put there "
                "by client.scatter are; give arrays that Dask can read again from their source"
            ) from error
        raise BackendError(f"the cluster dropped the data: {error}") from error

    def _check_connected(self) -> None:
        if self.client.status != "running":
            raise BackendError(
                f"no connection to the scheduler at {_address(self.client)} (the client is {self.client.status}): "
                "the data on its workers are gone"
            )

    def __repr__(self) -> str:
        return f"cluster at {_address(self.client)}"


#: Results that an executor keeps stand for themselves among the arguments of later tasks.
Executor = Threads | Cluster


def _is_busy(worker: Any) -> bool:
    """Return whether a worker computes or fetches something; True if its metrics do not say."""
    counts = worker["metrics"].get("task_counts")
    if counts is None:  # of older versions of distributed
        return bool(worker["metrics"].get("executing", 1))
    return any(counts.get(state) for state in _BUSY_STATES)


def executor_for(client: Any = None) -> Executor:
    """Return the cluster of this client, else of the current one, else the threads of this process."""
    if client is not None:
        return Cluster(client)
    if "distributed" in sys.modules:  # else there is no client
        from distributed import get_client

        with contextlib.suppress(ValueError):
            return Cluster(get_client())
    return Threads()


def _large_graphs() -> Any:
    """Suppress the warning about large graphs: targets and scales are large, and are sent once."""
    import dask

    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"})


def _named(chunks: list[int], key: Any = None) -> str:
    if chunks:
        return f"chunk {chunks[0]}" if len(chunks) == 1 else f"chunks {', '.join(map(str, chunks))}"
    places = [part for part in key if isinstance(part, int)] if isinstance(key, tuple) else []
    return f"chunk {places[0]}" if places else f"task {key!r}"


def _address(client: Any) -> str:
    return str(getattr(client.scheduler, "address", "?"))
