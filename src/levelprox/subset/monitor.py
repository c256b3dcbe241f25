"""Progress of a search: its phase, the best ψ so far and the number of swaps, reported through a `Context`."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from levelprox._runtime import seconds_left
from levelprox.methods import Context, Progress, Stop
from levelprox.subset.result import Phase, SubsetRecord

Value = TypeVar("Value")

_HISTORY_LENGTH = 1000


class Monitor:
    """Progress of one search, reported through a `Context`, and the limits under which it runs.

    Parameters
    ----------
    ctx : Context, optional
        Without one, only the time limit of this thread holds, and nothing is reported.
    parent : Monitor, optional
        Of the search that this one is a part of: its swaps count there too.
    listener : callable, optional
        Called with the phase of this search whenever it changes or ψ falls.

    Attributes
    ----------
    phase, done, step, n_refits
        As in `SubsetRecord`.
    held_back : bool
        True once there was a swap to try when no more were allowed.
    earlier : float
        Seconds of earlier calls that this one resumes, and of the preparation of the data.
    """

    def __init__(
        self,
        ctx: Context | None = None,
        parent: Monitor | None = None,
        listener: Callable[[Phase], None] | None = None,
    ) -> None:
        self.ctx, self.parent, self.listener = ctx, parent, listener
        self.history: deque[SubsetRecord] = deque(maxlen=_HISTORY_LENGTH)
        self.phase: Phase = "forward"
        self.done: float | None = None
        self.step = self.n_refits = self._n_features = 0
        self.earlier, self._psi = 0.0, math.inf
        self.held_back = False

    @property
    def elapsed(self) -> float:
        """Seconds since the search began, those of earlier calls included."""
        return self.earlier + (0.0 if self.ctx is None else self.ctx.elapsed)

    @property
    def cut_short(self) -> bool:
        """True once a limit has held the search back."""
        if self.held_back or (self.parent is not None and self.parent.cut_short):
            return True
        return seconds_left() <= 0 if self.ctx is None else self.ctx.cut_short

    def seconds_left(self) -> float:
        """Return the seconds left; 0 once the callback has returned True."""
        if self.parent is not None:
            return self.parent.seconds_left()
        return seconds_left() if self.ctx is None else self.ctx.seconds_left()

    def check(self) -> None:
        """Raise `Stop` where no time is left."""
        if self.seconds_left() <= 0:
            raise Stop

    def may_swap(self) -> bool:
        """Return whether one more swap may be taken; a negative result is stored."""
        self.held_back |= not self._allows(0)
        return not self.held_back

    def take_swap(self) -> bool:
        """Count one more swap if it may be taken, and return whether it may."""
        if not self.may_swap():
            return False
        self.step += 1
        return True

    def _allows(self, taken: int) -> bool:
        taken += self.step
        if self.parent is not None:
            return self.parent._allows(taken)
        return self.ctx is None or self.ctx.may_step(taken)

    @property
    def once(self) -> Callable[[Callable[[], Value]], Value]:
        """A function that returns the result of some work; a resumed run takes it from the checkpoint."""
        return _done if self.ctx is None else self.ctx.once

    @property
    def repeated(self) -> Callable[[Callable[[Value], tuple[Value, bool]], Value], Value]:
        """A function that applies a step to a value until its second result is True, and returns the last value."""
        return _until_last if self.ctx is None else self.ctx.repeated

    def enter(self, phase: Phase) -> None:
        """Report a new phase."""
        self.phase, self.done = phase, None
        self._report(self.record())

    def improved(self, psi: float, n_features: int) -> None:
        """Record a new best fit. Ties are not reported."""
        if psi >= self._psi:
            return
        self._psi, self._n_features = psi, n_features
        self.history.append(self.record())
        self._report(self.history[-1])

    def record(self) -> SubsetRecord:
        """Return how far the search has come."""
        return SubsetRecord(self.step, self.phase, self._psi, self._n_features, self.n_refits, self.elapsed, self.done)

    def _report(self, record: SubsetRecord) -> None:
        if self.listener is not None:
            self.listener(record.phase)
        elif self.ctx is not None and self.parent is None:
            self.ctx.report(Progress(record))

    def as_state(self) -> dict[str, Any]:
        """Return all that has been reported, as plain data."""
        best, history = (self._psi, self._n_features), tuple(self.history)
        return {"step": self.step, "n_refits": self.n_refits, "best": best, "history": history, "seconds": self.elapsed}

    def take(self, state: dict[str, Any]) -> None:
        """Resume from what `as_state` returned; earlier seconds count in `elapsed` only."""
        self.step, self.n_refits = state["step"], state["n_refits"]
        self._psi, self._n_features = state["best"]
        self.history = deque(state["history"], maxlen=_HISTORY_LENGTH)
        self.earlier = state["seconds"]


def _done(work: Callable[[], Value]) -> Value:
    return work()


def _until_last(step: Callable[[Value], tuple[Value, bool]], at: Value) -> Value:
    last = False
    while not last:
        at, last = step(at)
    return at
