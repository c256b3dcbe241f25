"""The driver: run a method under its limits.

`drive` alone knows of time limits, `max_iter`, Ctrl-C, SIGTERM, callbacks, checkpoints and statuses. A method is a
generator of states that knows a `Context` (`result.py`); see docs/driver.md for an example.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from levelprox._runtime.deadline import (
    TimeLimitError,
    end_now,
    finishing,
    interrupted,
    interruptible,
    limited,
    seconds_left,
    suspended,
)
from levelprox.certificate import certify
from levelprox.driver.checkpoint import Journal, keeping
from levelprox.driver.messages import sentence, warns
from levelprox.driver.replay import Remembered
from levelprox.exceptions import warn
from levelprox.io.checkpoint import Checkpoint
from levelprox.result import CUT_SHORT, Ending, Iterate, Limits, Method, Progress, Result, Status, Stop

Value = TypeVar("Value")
Place = str | os.PathLike[str]

PROGRESS_INTERVAL_SECONDS = 0.1  # between reports where no state is yielded
ACCEPTABLE_FACTOR = 100  # times tol: the residual of "solved_inaccurate"


def drive(
    method: Method[Any],
    problem: Any,
    *,
    limits: Limits | None = None,
    callback: Callable[..., Any] | None = None,
    checkpoint: Place | Checkpoint | Journal | None = None,
    resume: bool | Place = False,
    identity: Callable[[], Mapping[str, str]] = dict,
    kinds: Iterable[type] = (),
    rng: np.random.Generator | None = None,
) -> Any:
    """Run a method on a problem, and return what its `finish` returns.

    Parameters
    ----------
    method : Method
    problem : object
        What `method.init` takes.
    limits : Limits, optional
    callback : callable, optional
        Called with what the method reports; returning True ends the run.
    checkpoint, resume
        As in `solve`.
    identity : callable
        What the run is a function of, as text: a checkpoint of another run is refused.
    kinds : iterable of type
        Further types that states contain.
    rng : Generator, optional
    """
    limits = limits or Limits()
    with (
        limited(limits.seconds),
        keeping(checkpoint, resume, identity, (*method.kinds, *kinds)) as saved,
    ):
        return Run(method, problem, limits, callback, saved, rng)()


class Run:
    """One run of a method: the `Context` that it sees, and the loop around it."""

    def __init__(
        self,
        method: Method[Any],
        problem: Any,
        limits: Limits,
        callback: Callable[..., Any] | None,
        saved: Journal,
        rng: np.random.Generator | None,
    ) -> None:
        self.method, self.problem, self.limits, self.callback = method, problem, limits, callback
        self.rng = np.random.default_rng() if rng is None else rng
        self.saved = saved.part(method.saved_as) if method.saved_as else saved
        self.replay = Remembered(self.saved, method.memory, method.restore) if method.replays else None
        self.began = self.reported = time.monotonic()
        self.earlier = 0.0  # seconds of the calls that this one resumes
        self.warnings: list[str] = []
        self.stopped = self.held_back = False
        self.raised: BaseException | None = None  # by the callback

    def __call__(self) -> Any:
        """Run the method to its end, whatever brings that about."""
        state = self._resumed(self.method.init(self.problem, self))
        try:
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
        return self.earlier + time.monotonic() - self.began

    @property
    def cut_short(self) -> bool:
        return self.held_back or self.stopped or seconds_left() <= 0

    def check(self) -> None:
        if self.seconds_left() <= 0:
            raise Stop(Status.CALLBACK_STOP if self.stopped else Status.TIME_LIMIT)

    def seconds_left(self) -> float:
        if self.callback is not None and time.monotonic() - self.reported >= PROGRESS_INTERVAL_SECONDS:
            progress = self.method.progress()
            if progress is not None:
                self.report(progress)
        return 0.0 if self.stopped else seconds_left()

    def may_step(self, taken: int) -> bool:
        self.held_back = self.held_back or taken >= self.limits.max_iter
        return not self.held_back

    def report(self, progress: Progress) -> None:
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
            self.stopped = True
        except BaseException as error:
            self.raised = error
            raise
        self.reported = time.monotonic()

    def once(self, work: Callable[[], Value]) -> Value:
        return self.repeated(lambda _: (work(), True), None)  # type: ignore[return-value]  # work has no argument

    def repeated(self, step: Callable[[Value], tuple[Value, bool]], at: Value) -> Value:
        if self.replay is not None and not self.saved.idle:
            return self.replay.repeated(step, at)
        last = False
        while not last:
            at, last = step(at)
        return at

    def run(self, name: str, method: Method[Any], problem: Any, max_iter: float = math.inf) -> Any:
        limits = Limits(self.seconds_left(), max_iter)
        result = Run(method, problem, limits, None, self.saved.part(name), self.rng)()
        if not self.cut_short:
            self.saved.forget(name)
        return result

    def warn(self, message: str) -> None:
        self.warnings.append(message)
        warn(message)

    def message(self, ending: Ending) -> str:
        text = sentence(ending, self.limits.seconds)
        if ending.status in CUT_SHORT:
            text += self.saved.advice
        if warns(ending):
            self.warn(text)
        return text

    def certified(self, state: Any, status: Status, tol: float) -> Result:
        x = state.best.x if isinstance(state.best, Iterate) else state.best
        with finishing():
            certificate = certify(self.problem, x)
        if status in (Status.SOLVED, Status.MAX_ITER, Status.STALLED) and certificate.kkt <= tol:
            status = Status.SOLVED
        elif status is Status.SOLVED:
            status = Status.SOLVED_INACCURATE
        figures = f"KKT {certificate.kkt:.1e}, tol {tol:.1e}; g(x) = {certificate.g:.6g} <= {certificate.level:.6g}"
        message = self.message(Ending(status, figures))
        return Result(x, status, message, certificate, wall_s=self.elapsed, tol=tol, warnings=tuple(self.warnings))
