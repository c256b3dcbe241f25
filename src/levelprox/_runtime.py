"""The runtime of a process: time limits, the threads of the kernels and those of BLAS.

**Time limits** belong to the current thread and are enforced in two ways. Loops check `seconds_left` between two steps
and end in order. Where a single step takes longer than a grace period beyond the limit, compiled code raises
`TimeLimitError` in the middle of it (`interruptible`): the step is lost, and the best point before it is the answer.
The grace period is a fifth of the overshoot that is allowed, max(1 s, 5 % of the limit). What handles the exception
has another period, and what is done at the end of a run, such as its certificate, ends with the third (`finishing`).
Ctrl-C ends the time of a run in the same way (`end_now`).

**The number of threads of the kernels** is, in this order: the limit of threadpoolctl, which holds for the thread that
sets it as OpenMP's does; OMP_NUM_THREADS; the processors that the calling thread may run on, at most as many as the
quota of the container pays for. The kernels have a pool of their own (`kernels/algorithms/threads.cpp`); OpenMP is not
used.

**BLAS** runs on one thread where matrices are small: those of searches and certificates, with a row for each
coefficient of a few features. Passes over X do not use BLAS. On a busy machine threads of OpenBLAS wait for one
another: the eigenvalues of a 400 × 400 matrix took 0.02 s with one thread and 2.5 s with two, and no time limit can
interrupt that.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

import levelprox._kernels as _kernels  # imports this module, so that its threads are set up in any case

# --- time limits

#: Raised by compiled code once the limit and the grace period have passed; a TimeoutError.
TimeLimitError = _kernels.TimeLimitError

_GRACE_SECONDS, _GRACE_SHARE = 0.2, 0.01  # the larger one counts; the share is of the limit
_FINISHED = 3  # grace periods after the limit


@dataclass
class _Limit:
    """A time limit.

    Attributes
    ----------
    deadline : float
        When the time is up, by `time.monotonic`.
    grace : float
        Seconds after which a step is interrupted.
    armed : bool
        Whether compiled code gives it up.
    interrupted : bool
        Whether Ctrl-C has ended the time.
    """

    deadline: float = math.inf
    grace: float = _GRACE_SECONDS
    armed: bool = False
    interrupted: bool = False

    def arm(self, periods: int) -> None:
        """Let compiled code raise `TimeLimitError` so many grace periods after the limit."""
        left = self.deadline - time.monotonic() + periods * self.grace
        _kernels.set_deadline(_kernels.clock() + left, self.grace)


class _State(threading.local):
    """The limit of this thread, None outside of `limited`."""

    limit: _Limit | None = None


_state = _State()


def seconds_left() -> float:
    """Return the seconds that are left; inf without a limit."""
    return math.inf if _state.limit is None else _state.limit.deadline - time.monotonic()


def seconds_to_finish() -> float:
    """Return the seconds that work at the end of a run may take, if it checks the time itself."""
    limit = _state.limit
    return math.inf if limit is None else seconds_left() + (_FINISHED - 1) * limit.grace


def interrupted() -> bool:
    """Return whether Ctrl-C has ended the time that there was."""
    return _state.limit is not None and _state.limit.interrupted


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Limit the time of a block; a limit that is set already stays in force.

    Compiled code is not interrupted in the block, unless the block allows it (`interruptible`): what a run has found
    would be lost where another run, which called it, says so.

    Parameters
    ----------
    seconds : float
        Of wall-clock time; inf for no limit.
    """
    outer = _state.limit
    own = _Limit(time.monotonic() + seconds, max(_GRACE_SECONDS, _GRACE_SHARE * min(seconds, 1e9)))
    if outer is not None:
        if outer.deadline <= own.deadline:
            own.deadline, own.grace = outer.deadline, outer.grace
        own.interrupted = outer.interrupted
    _state.limit, before = own, _kernels.set_deadline(math.inf, 0.0)
    try:
        yield
    finally:
        _state.limit = outer
        _kernels.set_deadline(*before)


def interruptible() -> AbstractContextManager[None]:
    """Interrupt compiled code of this block by `TimeLimitError`, later than a grace period after the limit."""
    return _armed(1)


def finishing() -> AbstractContextManager[None]:
    """Do the same later, for what is done at the end of a run."""
    return _armed(_FINISHED)


@contextmanager
def _armed(periods: int) -> Iterator[None]:
    limit = _state.limit
    if limit is None:
        yield
        return
    armed, before = limit.armed, _kernels.set_deadline(math.inf, 0.0)
    limit.armed = True
    limit.arm(periods)
    try:
        yield
    finally:
        limit.armed = armed
        _kernels.set_deadline(*before)


@contextmanager
def suspended() -> Iterator[None]:
    """Run a block without any limit: a callback of the user's, or what has to be done in any case."""
    limit, kernels = _state.limit, _kernels.set_deadline(math.inf, 0.0)
    _state.limit = None
    try:
        yield
    finally:
        _state.limit = limit
        _kernels.set_deadline(*kernels)


def end_now() -> None:
    """End the time of the enclosing `limited` block, after Ctrl-C: what takes longer than a moment is not begun."""
    limit = _state.limit
    if limit is None:
        return
    limit.deadline, limit.grace, limit.interrupted = min(limit.deadline, time.monotonic()), _GRACE_SECONDS, True
    if limit.armed:
        limit.arm(1)


# --- threads of the kernels


def from_environment() -> int | None:
    """Return the number in OMP_NUM_THREADS: the first of a list, None if there is no positive number."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and int(first) > 0 else None


def cpu_quota(root: str | os.PathLike[str] = "/") -> int | None:
    """Processors that the control groups of this process allow, rounded up; None without a limit.

    Parameters
    ----------
    root : path
        Where /proc and /sys are.
    """
    try:
        lines = Path(root, "proc/self/cgroup").read_text().splitlines()
    except (OSError, ValueError):
        return None
    found = [share for line in lines for share in _shares(Path(root, "sys/fs/cgroup"), line)]
    return max(1, math.ceil(min(found))) if found else None


def _shares(mounted: Path, line: str) -> Iterator[float]:
    """Processors that the group of a line of /proc/self/cgroup may use, and each group above it, where limited."""
    number, _, named = line.partition(":")
    controllers, colon, place = named.partition(":")
    if not number.isdigit() or not colon:
        return
    if not controllers:  # version 2, alone or with version 1
        roots = [mounted, mounted / "unified"]
    elif "cpu" in controllers.split(","):
        roots = [mounted / controllers, mounted / "cpu"]
    else:
        return
    group = PurePosixPath(place.lstrip("/"))
    for root in roots:
        for above in (group, *group.parents):
            share = _share(root / above, not controllers)
            if share is not None:
                yield share


def _share(group: Path, second: bool) -> float | None:
    """Processors that a control group, of the second version or the first, may use; None without a limit."""
    try:
        if second:
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        share = float(quota) / float(period)  # "max" is no number
    except (OSError, ValueError, ZeroDivisionError):
        return None
    return share if 0 < share < math.inf else None


def set_up_threads() -> None:
    """Set the defaults of the kernels, and register them with threadpoolctl."""
    _kernels.set_thread_defaults(min(from_environment() or 0, 2**16), min(cpu_quota() or 0, 2**16))
    import threadpoolctl  # comes with scikit-learn

    if hasattr(threadpoolctl, "register"):  # since 3.2
        threadpoolctl.register(_controller(threadpoolctl.LibController))


def _controller(base: Any) -> Any:
    """Return the class through which threadpoolctl reads and sets the number."""

    class KernelThreads(base):  # type: ignore[misc]
        """The threads of levelprox's kernels, in addition to those of OpenMP."""

        user_api, internal_api = "openmp", "levelprox"
        filename_prefixes = ("_kernels",)
        check_symbols = ("levelprox_get_num_threads",)

        def get_num_threads(self) -> int:
            return int(self.dynlib.levelprox_get_num_threads())

        def set_num_threads(self, num_threads: int) -> None:
            self.dynlib.levelprox_set_num_threads(int(num_threads))

        def get_version(self) -> str:
            return metadata.version("levelprox")

    return KernelThreads


# --- BLAS


class _Use:
    """How many blocks of all threads are in `one_blas_thread`, and the numbers of threads before the first of them."""

    def __init__(self) -> None:
        self.lock, self.blocks = threading.Lock(), 0
        self.before: list[int | None] = []


_use = _Use()


def _after_fork() -> None:
    """Discard the blocks of threads that a child process does not have."""
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


set_up_threads()
