"""The time limit of the current thread.

A limit is enforced in two ways. Loops check `seconds_left` between two steps and end in order. Where a single step
takes longer than a grace period beyond the limit, compiled code raises `TimeLimitError` in the middle of it
(`interruptible`): the step is lost, and the best point before it is the answer. The grace period is a fifth of the
overshoot that is allowed, max(1 s, 5 % of the limit). What handles the exception has another period, and what is done
at the end of a run, such as its certificate, ends with the third (`finishing`).

Ctrl-C ends the time of a run in the same way (`end_now`).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import levelprox._kernels as _kernels

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
