"""levelprox fit --dask: the cluster, started here or found at an address."""

from __future__ import annotations

import ipaddress
import logging
import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from levelprox.cli.exits import CommandError, Exit, UsageError

_SECONDS = 5  # for a scheduler to answer
_LOGGERS = ("distributed", "tornado", "asyncio", "bokeh")


def local_workers(text: str) -> int | None:
    """How many processes `local:N` asks for; None where the text is an address."""
    found = re.fullmatch(r"local:(\d{1,4})", text)
    if found is not None and int(found[1]) > 0:
        return int(found[1])
    try:
        address = urlsplit(text)
        if address.scheme in ("tcp", "tls") and address.hostname and address.port and not address.path:
            return None
    except ValueError:  # no port, or no address of IPv6
        pass
    raise UsageError(f"--dask: {text!r} is no cluster; give tcp://HOST:PORT, tls://HOST:PORT or local:WORKERS")


def is_exposed(address: str) -> bool:
    """Whether others than this machine can listen to what is said to a scheduler, or speak to it."""
    parts = urlsplit(address)
    if parts.scheme != "tcp" or parts.hostname == "localhost":
        return False
    try:
        return not ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:  # a name, which nobody is asked about
        return True


@contextmanager
def connected(text: str, threads: int | None = None) -> Iterator[Any]:
    """A client of the cluster; one that was started for it is closed in the end, however it ends.

    Parameters
    ----------
    text : str
        `local:N`, or the address of a scheduler.
    threads : int, optional
        Of all workers together, where they are started here; by default as many as there are cores.
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
            f"{address} is not encrypted: whoever is on that network can run code on the cluster; use tls://",
            stacklevel=2,
        )
    try:
        client = Client(address, timeout=_SECONDS)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError) as error:
        raise CommandError(f"no scheduler answers at {address} within {_SECONDS} s", Exit.TRY_AGAIN) from error
    except TypeError as error:  # there is no context to encrypt with
        raise UsageError(f"{address} needs certificates: distributed.comm.tls in Dask's configuration") from error
    try:
        yield client
    finally:
        with suppress(OSError, TimeoutError):
            client.close(timeout=2)  # type: ignore[no-untyped-call]


@contextmanager
def _started(workers: int, threads: int | None) -> Iterator[Any]:
    """Processes that only this machine reaches, and that are replaced however often they die."""
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
            dashboard_address="127.0.0.1:0",  # none is shown, but a port is opened for it
            scheduler_kwargs={"dashboard": False},
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        client.register_plugin(_deaf())
        yield client


def _deaf() -> Any:
    from distributed import WorkerPlugin

    class Deaf(WorkerPlugin):
        """Ctrl-C is for the command, which still needs its workers in order to end well."""

        def setup(self, worker: Any) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    return Deaf()


@contextmanager
def _silent_logs() -> Iterator[None]:
    """What goes wrong is said in one line, and not by Dask."""
    import distributed  # noqa: F401  # whose import sets levels

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
