"""One search for the best set of features, for all kinds of data and losses.

A search begins with the null model, finds sets to start from, improves them by swaps of one feature for another, and
examines the best set: which swaps are shown not to lower ψ, and what one more feature gains. The subclasses say how:

- `SmoothSearch` (smooth_search.py): ψ is twice differentiable and the data are in memory;
- `NonsmoothSearch` (nonsmooth_search.py): the loss has kinks;
- `RemoteSearch` (remote_search.py): the data are out of core, on a cluster or on a GPU, and ψ answers in rounds.

Each implements `_begin` (the null model and the first fit), `steps` (starts, improvements, examination) and, for the
`Subset` at the end, `_answer` and `_figures`. Time, callbacks and checkpoints are the driver's.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from levelprox._runtime import TimeLimitError, end_now, finishing, seconds_left
from levelprox._typing import Features, Vector
from levelprox.certificate.null_model import NullFit
from levelprox.exceptions import counted
from levelprox.methods import Context, Ending, Method, Progress, Stop
from levelprox.objectives import Objective
from levelprox.problem import SubsetProblem
from levelprox.result import Status
from levelprox.subset.fit import Fit
from levelprox.subset.nonsmooth_refit import ExactFit
from levelprox.subset.result import Addition, Additions, Phase, Subset, SubsetRecord, Swaps

Value = TypeVar("Value")

_ACCEPTABLE_FACTOR = 100  # times tol: a stationarity that needs no warning
_LEAST_ACCEPTABLE = 1e3 * 2.0**-52  # a stationarity that needs no warning, for any tol
_FAR_FACTOR = 128.0  # times x: where ψ is compared with ψ(x)
_FALLS_SHARE = 1e-9  # of ψ: less is rounding
_SEPARABLE = (
    "The data are separable: with these features the loss has no minimiser. It falls as coefficients grow, and only "
    "precision limits them: their sizes, and probabilities, are arbitrary. A ridge, fewer features, or a level of a "
    "constraint without a cap, such as l1, keep them finite."
)
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


class Answer(NamedTuple):
    """The best fit of a search, and what is shown of it.

    `examined` swaps are shown not to lower ψ; `note` is added to the summary of a search that came to its end.
    """

    fit: Fit
    examined: int
    addition: Addition | None
    n_grad: int
    n_refits: int
    note: str = ""


@dataclass(eq=False)
class Search(Method[Fit]):
    """The skeleton of a search, a method that the driver runs; it is resumed by replay.

    Parameters
    ----------
    tol : float
        How well each set is fitted: on the derivatives of ψ along its features, each relative to what the null fit
        leaves to its column.
    prove : bool
        Whether to examine all swaps, however long that takes.
    start : ndarray of int, optional
        Features to begin with.
    monitor : Monitor
        Reports and limits.
    saved_as : str
        The part of the checkpoint to use.

    Attributes
    ----------
    problem : SubsetProblem
    null : NullFit
    complete : bool
        True once the search has come to its end.
    """

    tol: float = 1e-8
    prove: bool = False
    start: Features | None = None
    monitor: Monitor = field(default_factory=Monitor)
    saved_as: str = ""

    problem: SubsetProblem = field(init=False)
    null: NullFit = field(init=False)
    complete: bool = field(default=False, init=False)

    kinds = (Fit, ExactFit, Addition, SubsetRecord)
    replays = True

    @property
    def k(self) -> int:
        """How many features may be nonzero."""
        return self.problem.k

    @property
    def reported_objective(self) -> Objective:
        """ψ in the units of the data."""
        return self.problem.objective

    def init(self, problem: SubsetProblem, ctx: Context) -> Fit:
        """Compute the null model, and return the first fit."""
        self.problem, self.monitor.ctx = problem, ctx
        return self._begin()

    def progress(self) -> Progress:
        """Return how far the search has come."""
        return Progress(self.monitor.record())

    # --- what subclasses implement, with `steps`, `memory` and `restore`

    def _begin(self) -> Fit:
        """Compute the null model, as far as there is time, and return the first fit."""
        raise NotImplementedError

    def _answer(self) -> Answer:
        """Return the best fit, and what is shown of it."""
        raise NotImplementedError

    def _figures(self, fit: Fit, x: Vector) -> tuple[float, float]:
        """Return ψ and the stationarity of a fit, from the data; x is that over all coordinates of the data."""
        raise NotImplementedError

    def _reported(self, x: Vector) -> Vector:
        """Return x in the units of the data."""
        return x

    def _attains(self, fit: Fit, psi: float) -> bool:
        """Return whether ψ, recomputed, is that of the fit, so that what is shown of the fit holds."""
        return True

    def _concludes(self) -> bool:
        """Return whether the answer is final; else another search continues from it."""
        return True

    # --- what they share

    def whole(self, fit: Fit) -> Vector:
        """Return x over all coordinates, in the units of the data."""
        return self._reported(self.problem.spread(fit.features, fit.x))

    def finish(self, state: Fit, status: Status, ctx: Context) -> Subset:
        """Recompute the figures of the answer from the data, and describe it."""
        problem, answer = self.problem, self._answer()
        fit, examined, addition = answer.fit, answer.examined, answer.addition
        x, features, costs = self.whole(fit), fit.features, problem.costs
        support = problem.counted(problem.support(problem.spread(features, fit.x)))
        psi, stationarity, unknown = fit.psi, math.inf, "; there was no time to recompute its figures"
        if self.null.examined and self._concludes():
            try:
                with finishing():
                    psi, stationarity = self._figures(fit, x)
                unknown = ""
            except TimeLimitError:
                pass
            except KeyboardInterrupt:
                end_now()
                status = Status.INTERRUPTED
        if not unknown and not self._attains(fit, psi):
            examined, addition = 0, None if addition is None else replace(addition, examined=0)
        if costs is not None and not np.array_equal(support, problem.counted(features)):
            features = problem.with_unpenalized(support)  # what is shown is of another set
            examined, addition = 0, None
        local = self.reported_objective.convex_start is not None
        swaps = Swaps(examined, problem.count_swaps(features), local, within_budget=costs is not None)
        summary = f"{self._used(support)}, loss = {psi:.6g}; {swaps}{unknown}"
        if self.complete and status is not Status.INTERRUPTED:
            summary += answer.note
        message = summary
        if self._concludes():
            ending = self._ending(status, summary, x, stationarity)
            status, message = ending.status, ctx.message(ending)
        found = Subset(x, psi, support, self.k, math.nan, None, swaps, stationarity, status, message)
        work: dict[str, Any] = {"n_grad": answer.n_grad + 1, "n_refits": answer.n_refits}
        found = replace(found, **work, wall_s=self.monitor.elapsed, history=tuple(self.monitor.history))
        if addition is not None:
            additions = Additions(addition.examined, addition.total)
            found = replace(found, multiplier=addition.gain, addition=addition.feature, additions=additions)
        return found if costs is None else replace(found, spent=costs.spent(support.tolist()), budget=costs.budget)

    def _ending(self, status: Status, figures: str, x: Vector, stationarity: float) -> Ending:
        """Return the status of the answer, and what the message says of it."""
        objective = self.reported_objective
        try:
            with finishing():
                separated = objective.is_separated(x) and _falls_farther_out(objective, x)
        except TimeLimitError:
            separated, figures = False, f"{figures}; whether the data are separable was not examined"
        if separated and status is Status.SOLVED:
            status = Status.DIVERGING
        if status is Status.SOLVED and stationarity > max(_ACCEPTABLE_FACTOR * self.tol, _LEAST_ACCEPTABLE):
            figures += f"; stationarity {stationarity:.1e} > tol {self.tol:.1e}"
            return Ending(Status.SOLVED_INACCURATE, figures, remedy="Raise tol.", advice=objective.advice())
        notes = (_SEPARABLE,) if separated else ()
        steps = f"after {counted(self.monitor.step, 'swap')}" if status is Status.MAX_ITER else ""
        remedy = {Status.MAX_ITER: "Raise max_iter.", Status.TIME_LIMIT: "Raise time_limit."}.get(status, "")
        return Ending(status, figures, steps=steps, remedy=remedy, notes=notes, warns=separated)

    def _used(self, support: Features) -> str:
        """Return in words how much of what is allowed a set uses."""
        costs, words = self.problem.costs, counted(support.size, "feature")
        if costs is None:
            return f"{words} of at most {self.k}"
        if self.k < self.problem.n_counted:
            words += f" of at most {self.k}"
        return f"{words} at a cost of {costs.spent(support.tolist()):.6g} of at most {costs.budget:.6g}"


def _falls_farther_out(objective: Objective, x: Vector) -> bool:
    """Return whether ψ is lower far out along x by more than its last digits; always for convex ψ.

    A bounded loss counts errors there: its fits are as far out as is of use.
    """
    if objective.convex_start is None:
        return True
    here, far = (objective.value_and_gradient(t * x)[0] for t in (1.0, _FAR_FACTOR))
    return here == 0 or here - far > _FALLS_SHARE * abs(here)
