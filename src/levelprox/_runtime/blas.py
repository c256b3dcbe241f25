"""One thread of BLAS, for the small matrices of searches and certificates.

Passes over X do not use BLAS. What does use it are matrices with a row for each coefficient of a few features: hundreds
of rows with many classes. On a busy machine threads of OpenBLAS wait for one another there: the eigenvalues of a 400 ×
400 matrix took 0.02 s with one thread and 2.5 s with two, and no time limit can interrupt that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


class _Use:
    """How many blocks of all threads are in `one_blas_thread`, and the numbers of threads before the first of them."""

    def __init__(self) -> None:
        self.lock, self.blocks = threading.Lock(), 0
        self.before: list[int | None] = []


_use = _Use()


def _after_fork() -> None:
    """Forget the blocks of threads that a child process does not have."""
    global _use
    _use = _Use()


os.register_at_fork(after_in_child=_after_fork)


@cache
def _libraries() -> list[Any]:
    """threadpoolctl's controllers of BLAS, and of nothing else: other numbers belong to the thread that sets them."""
    import scipy.linalg  # noqa: F401  # SciPy has a BLAS of its own: it must be there to be found
    from threadpoolctl import ThreadpoolController  # comes with scikit-learn

    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


def _set(library: Any, threads: int | None) -> None:
    """Set the number for the process.

    Since threadpoolctl 3.8 the first thread that sets it for OpenBLAS keeps all others from doing so while it lives.
    Blocks begin and end in any thread. Other code can set the number afterwards.
    """
    let_go = getattr(library, "clear_controlling_thread", None)
    if let_go is not None:
        let_go(force=True)
    if threads is not None:
        library.set_num_threads(threads)
    if let_go is not None:
        let_go(force=True)


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """Use one thread of BLAS in a block.

    The number is that of the process. The first of several blocks, in whichever threads, sets it, and the last one
    restores it.

    Parameters
    ----------
    wanted : bool
        False changes nothing, where the block calls functions of the user's.
    """
    if not wanted:
        yield
        return
    use, libraries = _use, _libraries()
    with use.lock:
        if not use.blocks:
            use.before = [library.num_threads for library in libraries]
            for library in libraries:
                _set(library, 1)
        use.blocks += 1
    try:
        yield
    finally:
        with use.lock:
            use.blocks -= 1
            if not use.blocks:
                for library, threads in zip(libraries, use.before, strict=True):
                    _set(library, threads)
