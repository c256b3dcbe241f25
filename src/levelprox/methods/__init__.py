"""The algorithms, and the interface between them and the driver.

A method is a generator of states (`Method`, below). Its only access to time limits, callbacks and checkpoints is a
`Context`; the driver (`driver/__init__.py`) implements it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from levelprox._typing import Vector
from levelprox.result import Result, Status

Value = TypeVar("Value")
State = TypeVar("State")


class Stop(TimeoutError):  # noqa: N818  # a request, not an error
    """End a run: the time is up, or the callback returned True.

    Parameters
    ----------
    status : Status
    """

    def __init__(self, status: Status = Status.TIME_LIMIT) -> None:
        super().__init__(str(status))
        self.status = status


@dataclass(frozen=True)
class Limits:
    """When a run ends at the latest.

    Parameters
    ----------
    seconds : float, default=inf
        Of wall-clock time, for each call.
    max_iter : float, default=inf
        Steps, as the method counts them, of all calls together.

    Examples
    --------
    >>> from levelprox import Limits
    >>> Limits(seconds=60)
    Limits(seconds=60, max_iter=inf)
    """

    seconds: float = math.inf
    max_iter: float = math.inf


@dataclass(frozen=True, eq=False)
class Progress:
    """What a run reports while it runs.

    Parameters
    ----------
    record : object, optional
        The first argument of the callback; None for progress that is shown but not passed to the callback.
    x : ndarray, optional
        The second argument of the callback, read-only; a callback of records alone gets none.
    text : str
        What a progress bar shows between two records.

    Examples
    --------
    >>> from levelprox import Progress
    >>> Progress(record=3).record
    3
    """

    record: Any = None
    x: Vector | None = None
    text: str = ""


@dataclass(frozen=True, eq=False)
class Ending:
    """What a method says of the end of a run; the driver makes a sentence of it.

    Attributes
    ----------
    status : Status
    figures : str
        Loss, residual and the like, without a full stop.
    steps : str
        Such as "after 3 outer steps"; empty for methods that do not count steps.
    opening : str
        How the sentence begins, where the words of its status do not fit.
    remedy : str
        What the user can change: a sentence.
    notes : tuple of str
        Sentences that follow.
    advice : str
        A sentence that is added if there is a warning.
    warns : bool
        True to warn for every status; statuses that were not requested always do.
    """

    status: Status
    figures: str
    steps: str = ""
    opening: str = ""
    remedy: str = ""
    notes: tuple[str, ...] = ()
    advice: str = ""
    warns: bool = False


class Context(Protocol):
    """The interface of a method to the driver.

    Attributes
    ----------
    problem : object
        What `drive` was called with.
    rng : Generator
        Random numbers; their state is part of a checkpoint.
    limits : Limits
    warnings : list of str
        What was warned of.
    """

    problem: Any
    rng: np.random.Generator
    limits: Limits
    warnings: list[str]

    @property
    def elapsed(self) -> float:
        """Seconds since the run began, earlier calls of a resumed run included."""

    @property
    def stopped(self) -> bool:
        """True once the callback has returned True."""

    @property
    def cut_short(self) -> bool:
        """True once a limit or the callback has ended the run: later findings are not written to a checkpoint."""

    def check(self) -> None:
        """Raise `Stop` if the time is up or the callback has returned True."""

    def seconds_left(self) -> float:
        """Return the seconds left, 0 once the callback has returned True, for compiled loops that keep time."""

    def may_step(self, taken: int) -> bool:
        """Return whether a step may follow the `taken` steps so far; if not, the run ends with `Status.MAX_ITER`."""

    def report(self, progress: Progress) -> None:
        """Call the callback."""

    def once(self, work: Callable[[], Value]) -> Value:
        """Return the result of `work`; a resumed run takes it from the checkpoint."""

    def repeated(self, step: Callable[[Value], tuple[Value, bool]], at: Value) -> Value:
        """Apply `step` until its second result is True; a resumed run begins after the last step that is known."""

    def run(self, name: str, method: Method[Any], problem: Any, max_iter: float = math.inf) -> Any:
        """Drive another method inside this run, within the time left; `name` is its part of the checkpoint."""

    def warn(self, message: str) -> None:
        """Warn, and record the warning for the result."""

    def message(self, ending: Ending) -> str:
        """Return the message of the result; warn if the run did not end as requested."""

    def certified(self, state: Any, status: Status, tol: float) -> Result:
        """Return the result of a run that ended with x = `state.best`, with a certificate recomputed from the data."""


class Method(Generic[State]):
    """A method: the base class of everything that the driver runs.

    A run calls `init`, then `steps`, then `finish`, in this order. Yield a state whenever there is a new one: the
    driver writes it to the checkpoint and ends the run there if a limit or the callback says so. `check` of the
    context ends it between two states.

    Attributes
    ----------
    kinds : tuple of type
        The dataclasses and enums that states consist of, the type of the state included: checkpoints contain no others.
    replays : bool
        How a run is resumed. False: `steps` is called with the last state that was written. True: `steps` is called
        with the first state and repeats what it did, with results of `Context.once` and `Context.repeated` taken
        from the checkpoint; states are not written.
    saved_as : str
        The part of the checkpoint to use; empty for all of it.
    tol : float
        On the KKT residual; `finish` compares with it.

    Examples
    --------
    See `drive`, and docs/driver.md for a method with every part.

    >>> from levelprox import Method
    >>> Method.replays, Method.tol
    (False, 1e-06)
    """

    kinds: tuple[type, ...] = ()
    replays: bool = False
    saved_as: str = ""
    tol: float = 1e-6

    def init(self, problem: Any, ctx: Context) -> State:
        """Return the first state: a frozen dataclass, whose `best` is feasible. No time limit interrupts it."""
        raise NotImplementedError

    def steps(self, state: State, ctx: Context) -> Generator[State, None, Status | None]:
        """Yield one state after another, and return the status; None is `Status.SOLVED`."""
        raise NotImplementedError

    def finish(self, state: State, status: Status, ctx: Context) -> Any:
        """Return the result of a run that ended with this state and status."""
        return ctx.certified(state, status, self.tol)

    def progress(self) -> Progress | None:
        """Return what to report between two states, or None."""
        return None

    def memory(self) -> Any:
        """Return, as plain data, what has to be restored after a replay; None if the last result is incomplete."""
        return {}

    def restore(self, memory: Any) -> None:
        """Restore what `memory` returned."""
