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
    """How many blocks of all threads are in `one_blas_thread`, and what restores the number of threads before it."""

    def __init__(self) -> None:
        self.lock, self.blocks = threading.Lock(), 0
        self.limits: Any = None


_use = _Use()


def _after_fork() -> None:
    """Forget the blocks of threads that a child process does not have."""
    global _use
    _use = _Use()


os.register_at_fork(after_in_child=_after_fork)


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  # SciPy has a BLAS of its own: it must be there to be found
    from threadpoolctl import ThreadpoolController  # comes with scikit-learn

    return ThreadpoolController()


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
    use, controller = _use, _controller()
    with use.lock:
        if not use.blocks:
            use.limits = controller.limit(limits=1, user_api="blas")
        use.blocks += 1
    try:
        yield
    finally:
        with use.lock:
            use.blocks -= 1
            if not use.blocks:
                use.limits.restore_original_limits()
