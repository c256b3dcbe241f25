"""Data that are not read into memory as a whole: a Dask cluster (--dask), a chunked file (--chunked), a stream."""

from __future__ import annotations

import ipaddress
import logging
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from levelprox import open_chunked
from levelprox.cli._data import (
    NameLookup,
    as_classes,
    errors_as_bad_data,
    format_of_file,
    infer_task,
    infer_task_from_target,
)
from levelprox.cli._options import Options, Task
from levelprox.cli._partitions import (
    MAX_LABELS,
    Part,
    TargetSummary,
    combined,
    listed,
    parts_of,
    plain_targets,
    read_part,
    summarize_part,
    target_summary,
)
from levelprox.cli._process import CommandError, Exit, UsageError, reading
from levelprox.io.arrays import FileState
from levelprox.io.data import Reading
from levelprox.io.libsvm import MAX_FEATURES, libsvm_batches

_CONNECT_SECONDS = 5
_MAX_DIGITS = 4  # of the number of local workers


def local_workers(text: str) -> int | None:
    """Return the number of processes of `local:N`; None if the text is an address."""
    kind, _, workers = text.partition(":")
    if kind == "local" and workers.isdecimal() and len(workers) <= _MAX_DIGITS and int(workers) > 0:
        return int(workers)
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
    each = None if threads is None or workers is None else max(1, threads // workers)
    with _silent_logs(), _at(text) if workers is None else _started(workers, each) as client:
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
    """Silence all loggers, of which Dask has many: the command reports errors itself."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


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

    def infer_task(self) -> tuple[Task, str]:
        """Return the task that the targets suggest, and the reason."""
        if self.seen.has_all or self.seen.labels.dtype.kind not in "iuf":
            return infer_task_from_target(self.seen.labels)
        return Task.REGRESSION, f"the target has more than {MAX_LABELS} different values"

    def targets(self, task: Task) -> Any:
        """Return the targets of a task: class labels or numbers."""
        if task is Task.REGRESSION:
            if self.seen.labels.dtype.kind not in "iuf":
                raise CommandError(f"{self.path}: the target of a regression must hold numbers, not text", Exit.DATA)
            return self.y
        if not self.seen.has_all:
            raise CommandError(
                f"{self.path}: the target has more than {MAX_LABELS} different values, too many for classes",
                Exit.DATA,
            )
        return self.y.astype(as_classes(self.seen.labels).dtype)


def chunked_data(path: Path, how: Reading) -> RemoteData:
    """Open a file that is read in chunks."""
    if how.drop or how.weight or how.format:
        raise UsageError("--chunked takes files as they are: it goes with neither --drop, --weight nor --format")
    with reading(path):
        chunked = open_chunked(path, how.target, zero_based=how.zero_based)
        if not chunked.has_target:
            raise UsageError(f"{path} holds no target: name its column or array or, of an .npy file, another one")
        y = np.concatenate([chunked.target(i) for i in range(chunked.n_chunks)])
    y = plain_targets(y)
    seen = target_summary(y, None)
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
    read = [delayed(read_part, pure=False)(part, seen.labels.dtype) for part in cut.parts]

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
    look = delayed(summarize_part, pure=False)
    kept = executor.keep([look(part, dask_key_name=f"levelprox-look-{token}-{i}") for i, part in enumerate(parts)])
    found = executor.result({f"levelprox-looks-{token}": (listed, *kept)}, f"levelprox-looks-{token}", kept)
    return combined(found)


def fit_stream(path: Path, rows: int, options: Options, how: Reading) -> tuple[Any, tuple[int, int], Task]:
    """Fit a LIBSVM file batch by batch; return the model, the shape of the data and the task.

    The file is read twice: first for its classes and number of features, which the first batch needs.
    """
    if format_of_file(path, how) != "libsvm":
        raise UsageError("--stream is for LIBSVM files")
    if options.level is None and options.features is None:
        raise UsageError("--stream needs --features")
    with reading(path):
        state = FileState(path)
        n, width, labels = _scan_labels(path, rows, how)
        task = infer_task(options, *infer_task_from_target(labels))
        more = {"classes": as_classes(labels)} if task is Task.CLASSIFICATION else {}
        model = options.estimator(task, NameLookup(path, width, None, more.get("classes")))
        with options.progress("partial_fit", -(-n // rows), "batches") as advance:
            for X, y in libsvm_batches(path, rows, n_features=width, zero_based=how.zero_based):
                with errors_as_bad_data():
                    model.partial_fit(X, as_classes(y) if more else np.asarray(y, np.float64), **more)
                advance()
        state.check()
    return model, (n, width), task


def _scan_labels(path: Path, rows: int, how: Reading) -> tuple[int, int, Any]:
    """Return the number of rows and features, and the different labels (not all if they are too many for classes)."""
    n, width, labels = 0, 0, np.empty(0)
    for X, y in libsvm_batches(path, rows, n_features=MAX_FEATURES, zero_based=how.zero_based):
        n, width = n + y.size, max(width, int(X.indices.max(initial=-1)) + 1)
        if labels.size <= MAX_LABELS:
            labels = np.union1d(labels, y)
    return n, width, labels
