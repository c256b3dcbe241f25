"""Data that are not read into this process: a Dask cluster (--dask) or a chunked file (--chunked)."""

from __future__ import annotations

import ipaddress
import logging
import re
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from levelprox.cli._data import as_classes, infer_task_from_target
from levelprox.cli._parsing import Task
from levelprox.cli._partitions import Part, parts_of
from levelprox.cli._process import CommandError, Exit, UsageError, reading

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from levelprox.io.data import Reading


_CONNECT_SECONDS = 5
_LOGGERS = ("distributed", "tornado", "asyncio", "bokeh")


def local_workers(text: str) -> int | None:
    """Return the number of processes of `local:N`; None if the text is an address."""
    found = re.fullmatch(r"local:(\d{1,4})", text)
    if found is not None and int(found[1]) > 0:
        return int(found[1])
    try:
        address = urlsplit(text)
        if address.scheme in ("tcp", "tls") and address.hostname and address.port and not address.path:
            return None
    except ValueError:  # an invalid port or IPv6 address
        pass
    raise UsageError(f"--dask: {text!r} is no cluster; give tcp://HOST:PORT, tls://HOST:PORT or local:WORKERS")


def is_exposed(address: str) -> bool:
    """Return whether the scheduler is reached over the network without encryption."""
    parts = urlsplit(address)
    if parts.scheme != "tcp" or parts.hostname == "localhost":
        return False
    try:
        return not ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:  # a host name, which is not resolved
        return True


@contextmanager
def connected(text: str, threads: int | None = None) -> Iterator[Any]:
    """Connect to a cluster, or start a local one and close it on exit.

    Parameters
    ----------
    text : str
        `local:N`, or the address of a scheduler.
    threads : int, optional
        Threads of all workers together, if they are started here; by default the number of cores.
    """
    workers = local_workers(text)
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ImportError("--dask needs Dask: pip install 'levelprox[dask]'") from None
    with _silent_logs():
        if workers is None:
            with _at(text) as client:
                yield client
            return
        each = None if threads is None else max(1, threads // workers)
        with _started(workers, each) as client:
            yield client


@contextmanager
def _at(address: str) -> Iterator[Any]:
    from distributed import Client

    if is_exposed(address):
        warnings.warn(
            f"{address} is not encrypted: any host of that network can run code on the cluster; use tls://",
            stacklevel=2,
        )
    try:
        client = Client(address, timeout=_CONNECT_SECONDS)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError) as error:
        raise CommandError(f"no scheduler answers at {address} within {_CONNECT_SECONDS} s", Exit.TRY_AGAIN) from error
    except TypeError as error:  # no certificates are configured
        raise UsageError(f"{address} needs certificates: distributed.comm.tls in Dask's configuration") from error
    try:
        yield client
    finally:
        with suppress(OSError, TimeoutError):
            client.close(timeout=2)  # type: ignore[no-untyped-call]


@contextmanager
def _started(workers: int, threads: int | None) -> Iterator[Any]:
    """Start worker processes that only this machine reaches and that are restarted whenever they die."""
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=workers,
            threads_per_worker=threads,
            processes=True,
            host="127.0.0.1",
            protocol="tcp",
            dashboard_address="127.0.0.1:0",  # there is no dashboard, but a port is opened for it
            scheduler_kwargs={"dashboard": False},
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        client.register_plugin(_ignore_interrupts())
        yield client


def _ignore_interrupts() -> Any:
    from distributed import WorkerPlugin

    class IgnoreInterrupts(WorkerPlugin):
        """Ignore Ctrl-C in workers: the command handles it and still needs them."""

        def setup(self, worker: Any) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    return IgnoreInterrupts()


@contextmanager
def _silent_logs() -> Iterator[None]:
    """Silence the loggers of Dask: the command reports errors itself."""
    import distributed  # noqa: F401  # its import sets levels

    before = {name: logging.getLogger(name).level for name in _LOGGERS}
    own = [name for name in logging.root.manager.loggerDict if name.startswith("distributed.")]
    before |= {name: logging.getLogger(name).level for name in own}
    for name in before:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


_MAX_LABELS = 1000  # of different targets that are kept


@dataclass(frozen=True, eq=False)
class TargetSummary:
    """Summary of the targets of remote data.

    Attributes
    ----------
    rows : sequence of int
        Rows of each partition.
    total : float
        Sum of the weights.
    labels : ndarray
        The different targets; not all of them if there are more than `_MAX_LABELS`.
    weights : ndarray
        Total weight of each label.
    """

    rows: Sequence[int]
    total: float
    labels: NDArray[Any]
    weights: NDArray[Any]

    @property
    def has_all(self) -> bool:
        """Whether `labels` has all different targets."""
        return self.labels.size <= _MAX_LABELS

    def infer_task(self) -> tuple[Task, str]:
        """Return the task that the targets suggest, and the reason."""
        if self.has_all or self.labels.dtype.kind not in "iuf":
            return infer_task_from_target(self.labels)
        return Task.REGRESSION, f"the target has more than {_MAX_LABELS} different values"


@dataclass(frozen=True, eq=False)
class RemoteData:
    """Data that are not in the memory of this process.

    Attributes
    ----------
    X, y, weight
        In the form that estimators take; y as in the file.
    shape : (int, int)
    names : list of str, optional
    target : str, optional
        The target column, if columns have names.
    path : Path
    seen : TargetSummary
    """

    X: Any
    y: Any
    weight: Any
    shape: tuple[int, int]
    names: list[str] | None
    target: str | None
    path: Path
    seen: TargetSummary

    def targets(self, task: Task) -> Any:
        """Return the targets of a task: class labels or numbers."""
        kind = self.seen.labels.dtype.kind
        if task is Task.REGRESSION:
            if kind not in "iuf":
                raise CommandError(f"{self.path}: the target of a regression must hold numbers, not text", Exit.DATA)
            return self.y
        if not self.seen.has_all:
            raise CommandError(
                f"{self.path}: the target has more than {_MAX_LABELS} different values, too many for classes",
                Exit.DATA,
            )
        return self.y.astype(as_classes(self.seen.labels).dtype)


def chunked_data(path: Path, how: Reading) -> RemoteData:
    """Open a file that is read in chunks."""
    import numpy as np

    from levelprox import open_chunked

    if how.drop or how.weight or how.format:
        raise UsageError("--chunked takes files as they are: it goes with neither --drop, --weight nor --format")
    with reading(path):
        chunked = open_chunked(path, how.target, zero_based=how.zero_based)
        if not chunked.has_target:
            raise UsageError(f"{path} holds no target: name its column or array or, of an .npy file, another one")
        y = np.concatenate([chunked.target(i) for i in range(chunked.n_chunks)])
    y = y.astype(object) if y.dtype.kind in "US" else y if y.dtype.kind == "b" else y.astype(np.float64)
    seen = _combined([_target_summary(y, None)])
    target = getattr(chunked, "target_name", how.target)
    return RemoteData(chunked, y, None, chunked.shape, chunked.names, target, path, seen)


def cluster_data(path: Path, how: Reading, client: Any) -> RemoteData:
    """Have the workers of a cluster read a file; its targets are summarised first."""
    import dask.array as da
    from dask.delayed import delayed

    workers = len(client.scheduler_info(n_workers=-1)["workers"])
    with reading(path):
        cut = parts_of(path, how, max(1, workers))
    seen = _summarize_targets(cut.parts, client)
    columns = _Columns(seen.labels.dtype)
    read = [delayed(columns, pure=False)(part) for part in cut.parts]

    def joined(place: int, dtype: Any, *width: int) -> Any:
        array: Any = da
        blocks = [
            array.from_delayed(one[place], (n, *width), dtype=dtype) for one, n in zip(read, seen.rows, strict=True)
        ]
        return array.concatenate(blocks)

    X, y = joined(0, cut.dtype, cut.n_features), joined(1, seen.labels.dtype)
    weight = None if how.weight is None else joined(2, float)
    return RemoteData(X, y, weight, (sum(seen.rows), cut.n_features), cut.names, cut.target, path, seen)


def _summarize_targets(parts: Sequence[Part], client: Any) -> TargetSummary:
    import uuid

    from dask.delayed import delayed

    from levelprox.backends.executor import executor_for

    executor, token = executor_for(client), uuid.uuid4().hex
    look = delayed(_summarize_part, pure=False)
    kept = executor.keep([look(part, dask_key_name=f"levelprox-look-{token}-{i}") for i, part in enumerate(parts)])
    found = executor.result({f"levelprox-looks-{token}": (_listed, *kept)}, f"levelprox-looks-{token}", kept)
    return _combined(found)


@dataclass(frozen=True)
class _Columns:
    """Reads a partition; its targets get the type of all targets."""

    dtype: Any

    def __call__(self, part: Part) -> tuple[Any, Any, Any]:
        X, y, weight = part.read()
        return X, y.astype(self.dtype), weight


def _summarize_part(part: Part) -> TargetSummary:
    import numpy as np

    y, weight = part.read_targets()
    plain = y.astype(object) if y.dtype.kind in "US" else y if y.dtype.kind in "bO" else y.astype(np.float64)
    return _target_summary(plain, weight)


def _listed(*found: TargetSummary) -> list[TargetSummary]:
    return list(found)


def _target_summary(y: NDArray[Any], weight: NDArray[Any] | None) -> TargetSummary:
    import numpy as np

    labels, places = np.unique(y, return_inverse=True)
    weights = np.bincount(places, weight, labels.size).astype(np.float64)
    few = slice(_MAX_LABELS + 1)
    return TargetSummary([y.size], float(weights.sum()), labels[few], weights[few])


def _combined(found: Sequence[TargetSummary]) -> TargetSummary:
    import numpy as np

    kinds = {one.labels.dtype.kind for one in found}
    if len(kinds) > 1:
        raise CommandError("the target holds text in some rows and numbers in others", Exit.DATA)
    labels, places = np.unique(np.concatenate([one.labels for one in found]), return_inverse=True)
    weights = np.bincount(places, np.concatenate([one.weights for one in found]), labels.size)
    few = slice(_MAX_LABELS + 1)
    rows = [n for one in found for n in one.rows]
    return TargetSummary(rows, sum(one.total for one in found), labels[few], weights[few])
