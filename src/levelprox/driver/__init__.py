"""The driver: run a method under its limits.

`drive` alone handles time limits, `max_iter`, Ctrl-C, SIGTERM, callbacks, checkpoints and statuses. A method is a
generator of states that uses a `Context` (`result.py`); see docs/driver.md for an example.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from levelprox._runtime import (
    TimeLimitError,
    end_now,
    finishing,
    interrupted,
    interruptible,
    limited,
    seconds_left,
    suspended,
)
from levelprox.certificate import certify, not_examined
from levelprox.driver.checkpoint import Replay, SavedState, open_checkpoint
from levelprox.driver.run_identity import identity_of
from levelprox.exceptions import warn
from levelprox.io.checkpoint import Checkpoint
from levelprox.methods import Ending, Limits, Method, Progress, Stop
from levelprox.result import CUT_SHORT, Iterate, Result, Status

Value = TypeVar("Value")
Place = str | os.PathLike[str]

PROGRESS_INTERVAL_SECONDS = 0.1  # between reports where no state is yielded


def drive(
    method: Method[Any],
    problem: Any,
    *,
    limits: Limits | None = None,
    callback: Callable[..., Any] | None = None,
    checkpoint: Place | Checkpoint | SavedState | None = None,
    resume: bool | Place = False,
    identity: Callable[[], Mapping[str, str]] | None = None,
    kinds: Iterable[type] = (),
    rng: np.random.Generator | None = None,
) -> Any:
    """Run a method on a problem under limits.

    Parameters
    ----------
    method : Method
        A generator of states, and what it makes of the last one.
    problem : object
        What `method.init` takes.
    limits : Limits, optional
        Seconds and steps; by default none.
    callback : callable, optional
        Called with what the method reports; returning True ends the run.
    checkpoint : path-like or Checkpoint, optional
        A file to which states are written, as in `solve`.
    resume : bool or path-like, default=False
        Whether to continue from there, as in `solve`.
    identity : callable, optional
        Returns what the run is a function of, as a dict of str to str; a checkpoint of another run raises an error. By
        default that is the problem, a `Problem`, and the attributes of the method.
    kinds : iterable of type
        Further types that states consist of.
    rng : Generator, optional
        `Context.rng`.

    Returns
    -------
    object
        What `method.finish` returns; by default a `Result`.

    Examples
    --------
    docs/driver.md has a method with every part. The shortest one tries points, and its best one is certified:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from levelprox import LinearModel, Method, Problem, constraints, drive
    >>> @dataclass(frozen=True)
    ... class State:
    ...     best: np.ndarray
    >>> class Halving(Method[State]):
    ...     def init(self, problem, ctx):
    ...         return State(np.zeros(problem.dimension))
    ...     def steps(self, state, ctx):
    ...         for t in 0.5 ** np.arange(30):
    ...             ctx.check()
    ...             state = State(np.array([1 - t]))
    ...             yield state
    >>> problem = Problem(LinearModel([[1.0], [1.0]], [2.0, 2.0]), constraints.L1(), 1.0)
    >>> fit = drive(Halving(), problem)
    >>> fit.status.name, fit.x.round(6).tolist()
    ('SOLVED', [1.0])
    """

    def attributes() -> Mapping[str, str]:
        return identity_of(problem, method=type(method).__name__, **vars(method))

    limits, all_kinds = limits or Limits(), (*method.kinds, *kinds)
    with limited(limits.seconds), open_checkpoint(checkpoint, resume, identity or attributes, all_kinds) as saved:
        return Run(method, problem, limits, callback, saved, rng)()


class Run:
    """One run of a method: the `Context` that it sees, and the loop around it."""

    def __init__(
        self,
        method: Method[Any],
        problem: Any,
        limits: Limits,
        callback: Callable[..., Any] | None,
        saved: SavedState,
        rng: np.random.Generator | None = None,
        parent: Run | None = None,
    ) -> None:
        self.method, self.problem, self.limits, self.callback = method, problem, limits, callback
        self.rng = np.random.default_rng() if rng is None else rng
        self.saved = saved.part(method.saved_as) if method.saved_as else saved
        self.replay = Replay(self.saved, method.memory, method.restore) if method.replays else None
        self.began = self.reported = time.monotonic()
        self.earlier = 0.0  # seconds of the calls that this one resumes
        self.warnings: list[str] = []
        self.stopped = self.held_back = False
        self.raised: BaseException | None = None  # by the callback
        self.parent = parent  # the run that this one is part of: its callback may end both
        self.stepping = False

    def __call__(self) -> Any:
        """Run the method until it ends for any reason."""
        state = self._resumed(self.method.init(self.problem, self))
        try:
            self.stepping = True
            with interruptible():
                steps = self.method.steps(state, self)
                while not self.stopped:
                    state = next(steps)
                    self._keep(state)
                status = Status.CALLBACK_STOP
        except StopIteration as end:
            status = Status.SOLVED if end.value is None else end.value
        except KeyboardInterrupt:
            end_now()
            status = Status.INTERRUPTED
        except TimeoutError as error:
            if error is self.raised or not isinstance(error, Stop | TimeLimitError):
                raise
            status = error.status if isinstance(error, Stop) else Status.TIME_LIMIT
        except RuntimeError as error:
            if isinstance(error.__cause__, StopIteration):  # of a callback; generators replace it (PEP 479)
                raise error.__cause__ from None
            raise
        self.stepping = False
        return self.method.finish(state, self._named(status), self)

    def _named(self, status: Status) -> Status:
        """Return the status of the run: Ctrl-C and the callback come before what the method says."""
        if interrupted():
            return Status.INTERRUPTED
        if self.stopped and status is not Status.INTERRUPTED:
            return Status.CALLBACK_STOP
        return Status.MAX_ITER if self.held_back and status is Status.SOLVED else status

    # --- states

    def _resumed(self, first: Any) -> Any:
        """Return the last state of an earlier run, where there is one; else the first one of this run."""
        known = self.saved.state
        if known is None or self.method.replays:
            return first
        state = known["state"] if isinstance(known, dict) else known
        about = known if isinstance(known, dict) else vars(known)
        self.earlier = about["seconds"]
        self.rng.bit_generator.state = about["rng"]
        return state

    def _keep(self, state: Any) -> None:
        """Write a state to the checkpoint, from time to time, unless a limit has cut the last step short."""
        if self.saved.idle or self.method.replays or seconds_left() <= 0 or not getattr(state, "complete", True):
            return
        if not hasattr(state, "rng"):
            state = {"state": state, "seconds": self.elapsed, "rng": dict(self.rng.bit_generator.state)}
        self.saved.keep(state)

    # --- what a method sees of it: the `Context`

    @property
    def elapsed(self) -> float:
        """Seconds since the run began, earlier calls of a resumed run included."""
        return self.earlier + time.monotonic() - self.began

    @property
    def cut_short(self) -> bool:
        """True once a limit or the callback has ended the run."""
        above = self.parent is not None and self.parent.cut_short
        return self.held_back or self.stopped or above or seconds_left() <= 0

    def check(self) -> None:
        """Raise `Stop` if the time is up or the callback has returned True."""
        if self.seconds_left() <= 0:
            raise Stop(Status.CALLBACK_STOP if self.stopped else Status.TIME_LIMIT)

    def seconds_left(self) -> float:
        """Return the seconds left, and report progress from time to time."""
        if self.parent is not None:
            return self.parent.seconds_left()
        if self.callback is not None and time.monotonic() - self.reported >= PROGRESS_INTERVAL_SECONDS:
            progress = self.method.progress()
            if progress is not None:
                self.report(progress)
        return 0.0 if self.stopped else seconds_left()

    def may_step(self, taken: int) -> bool:
        """Return whether a step may follow the `taken` steps so far."""
        self.held_back = self.held_back or taken >= self.limits.max_iter
        return not self.held_back

    def report(self, progress: Progress) -> None:
        """Call the callback; what it raises ends the run."""
        if self.callback is None or self.stopped:
            return
        arguments = [progress.record]
        if progress.x is not None:
            arguments.append(progress.x.view())
            arguments[1].flags.writeable = False
        try:
            with suspended():
                if progress.record is not None:
                    self.stopped = bool(self.callback(*arguments))
                elif hasattr(self.callback, "meanwhile"):
                    self.callback.meanwhile(progress.text)
        except KeyboardInterrupt:
            end_now()
            if self.stepping and self.method.replays:
                raise
            self.stopped = True  # after the state that is reported
        except BaseException as error:
            self.raised = error
            raise
        self.reported = time.monotonic()

    def once(self, work: Callable[[], Value]) -> Value:
        """Return the result of `work`, from the checkpoint if it is there."""
        if self.replay is None or self.saved.idle:
            return work()
        return self.replay.repeated(lambda _: (work(), True), None)  # type: ignore[return-value]  # work has no argument

    def repeated(self, step: Callable[[Value], tuple[Value, bool]], at: Value) -> Value:
        """Apply `step` until its second result is True, after the steps in the checkpoint."""
        if self.replay is not None and not self.saved.idle:
            return self.replay.repeated(step, at)
        last = False
        while not last:
            at, last = step(at)
        return at

    def run(self, name: str, method: Method[Any], problem: Any, max_iter: float = math.inf) -> Any:
        """Drive another method inside this run, with its own part of the checkpoint."""
        limits = Limits(self.seconds_left(), max_iter)
        result = Run(method, problem, limits, None, self.saved.part(name), self.rng, parent=self)()
        if not self.cut_short:
            self.saved.forget(name)
        return result

    def warn(self, message: str) -> None:
        """Warn, and record the warning for the result."""
        self.warnings.append(message)
        warn(message)

    def message(self, ending: Ending) -> str:
        """Return the message of the result; warn if the run did not end as requested."""
        text = sentence(ending, self.limits.seconds)
        if ending.status in CUT_SHORT:
            text += self.saved.advice
        if warns(ending):
            self.warn(text)
        return text

    def certified(self, state: Any, status: Status, tol: float) -> Result:
        """Return the result with a certificate of the best point, recomputed from the data."""
        x = state.best.x if isinstance(state.best, Iterate) else state.best
        try:
            with finishing():
                certificate = certify(self.problem, x)
        except (TimeLimitError, KeyboardInterrupt):
            psi = state.best.psi if isinstance(state.best, Iterate) else math.nan
            certificate = not_examined(self.problem, x, psi)
        if status in (Status.SOLVED, Status.MAX_ITER, Status.STALLED) and certificate.kkt <= tol:
            status = Status.SOLVED
        elif status is Status.SOLVED:
            status = Status.SOLVED_INACCURATE
        figures = f"KKT {certificate.kkt:.1e}, tol {tol:.1e}; g(x) = {certificate.g:.6g} <= {certificate.level:.6g}"
        message = self.message(Ending(status, figures))
        return Result(x, status, message, certificate, wall_s=self.elapsed, tol=tol, warnings=tuple(self.warnings))


# --- the sentence that a user reads at the end of a run: one table for all methods

_OPENINGS = {
    Status.SOLVED: "Solved{steps}",
    Status.SOLVED_INACCURATE: "Nearly solved{steps}",
    Status.MAX_ITER: "Stopped{steps}, max_iter",
    Status.TIME_LIMIT: "Stopped{steps}, time_limit {seconds:g} s",
    Status.INTERRUPTED: "Interrupted{steps}",
    Status.CALLBACK_STOP: "Stopped by the callback{steps}",
    Status.STALLED: "Stalled{steps}",
    Status.DIVERGING: "Diverging{steps}",
}
#: Statuses that need no warning: the run ended as requested.
_REQUESTED = (Status.SOLVED, Status.CALLBACK_STOP, Status.INTERRUPTED)


def warns(ending: Ending) -> bool:
    """Return whether the end of a run needs a warning."""
    return ending.warns or ending.status not in _REQUESTED


def sentence(ending: Ending, seconds: float) -> str:
    """Return the message of a result.

    Parameters
    ----------
    ending : Ending
    seconds : float
        The time limit.
    """
    steps = f" {ending.steps}" if ending.steps else ""
    opening = _OPENINGS[ending.status].format(steps=steps, seconds=seconds)
    if ending.opening:
        opening = ending.opening + steps
    elif ending.status is Status.TIME_LIMIT and not steps:
        opening = f"Stopped after time_limit {seconds:g} s"
    parts = [f"{opening}: {ending.figures}.", ending.remedy, *ending.notes]
    if warns(ending):
        parts.append(ending.advice)
    return " ".join(filter(None, parts))
