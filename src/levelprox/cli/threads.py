"""How many threads work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most(threads: int | None) -> Iterator[None]:
    """Limit the threads of levelprox, of what it calls, and of the reader of tables; None leaves them alone."""
    if threads is None:
        yield
        return
    os.environ.setdefault("POLARS_MAX_THREADS", str(threads))
    from threadpoolctl import threadpool_limits

    from levelprox import _kernels  # noqa: F401  # its threads are limited only once it is there

    with threadpool_limits(threads):
        yield
