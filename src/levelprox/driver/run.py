"""One run of LCPP under its limits: when to stop, whom to tell, what the outcome is called.

The method itself is in lcpp.py, and does not know of time, callbacks or statuses.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from typing import NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from levelprox._runtime.deadline import (
    TimeLimitError,
    end_now,
    finishing,
    interrupted,
    interruptible,
    seconds_left,
    suspended,
)
from levelprox.certificate import Certificate, assemble, certify
from levelprox.certificate.null_model import null_fit_in_time
from levelprox.driver.checkpoint import Journal
from levelprox.driver.conclusion import STILL, Conclusion
from levelprox.driver.state import Phase, RunState
from levelprox.exceptions import BackendError, InfeasibleError, InvalidInputError, NumericalError, warn
from levelprox.methods.continuation import continued, convex_start
from levelprox.methods.lcpp import LEFT, without_level
from levelprox.methods.levels import Constant, Levels
from levelprox.methods.nonsmooth_vertex import can_end_at_a_vertex, vertex_near
from levelprox.methods.restricted import Enough, How, solve_restriction
from levelprox.methods.subsolvers import Smoothing, Subsolver
from levelprox.methods.surrogate import Linearise
from levelprox.methods.working_set import steps
from levelprox.objectives import LinearModel, Model
from levelprox.problem import Problem
from levelprox.result import Iterate, Record, Result, Stage, Status, length_of, relative_change
from levelprox.theory import Parameters, degenerate_level

Vector = NDArray[np.float64]
RandomState = int | np.random.RandomState | np.random.Generator | None
Callback = Callable[[Record, Vector], "bool | None"]
_OFTEN = 0.2  # seconds between words of progress where no step ends
_MEANWHILE = {"free": "first steps", "level": "steps", "continuation": "continuation", "last": "last steps"}

_EPS = float(np.finfo(np.float64).eps)
_HISTORY = 1000
_PAST_ALL_BOUNDS = 1e100
_DEGENERATE = 1e-3  # relative to the cost of one large coefficient
_SLOW = 100  # outer steps of a phase after which linear programs are tried, where a loss has kinks
_PROGRAM = 5.0  # seconds that they may take
_MANY = 10**8  # inner steps of a preset run that are worth a warning


class Run:
    """One run of LCPP under its limits."""

    def __init__(
        self,
        *,
        problem: Problem,
        subsolver: Subsolver,
        levels: Levels,
        gamma: float | None,
        tol: float,
        max_iter: int,
        time_limit: float,
        callback: Callback | None,
        surrogate: Linearise,
        stopping: str,
        random_state: RandomState,
        rng: np.random.Generator,
        parameters: Parameters | None,
        working_set: bool = False,
        continuation: bool = False,
        from_convex: bool = False,
        journal: Journal | None = None,
    ) -> None:
        self.problem = problem
        self.subsolver = subsolver
        self.levels = levels
        self.gamma = gamma
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.callback = callback
        self._meanwhile: Callable[[str], None] | None = getattr(callback, "meanwhile", None)
        self._told = time.monotonic()
        self.surrogate = surrogate
        self.stopping = stopping
        self.random_state = random_state
        self.rng = rng
        self.parameters = parameters
        self.working_set = working_set
        self.continuation = continuation
        self.from_convex = from_convex
        self.journal = Journal() if journal is None else journal
        self.stages: list[Stage] = []
        self.began = self.called = time.monotonic()
        self.history: deque[Record] = deque(maxlen=_HISTORY)
        self.n_outer = self.n_inner = self.n_grad = self.n_proj = 0
        self.phase_s: dict[str, float] = {}
        self.warned: list[str] = []
        self.still = 0
        self.best: Iterate | None = None
        self.came_from: tuple[Vector, float] | None = None  # x^{k−1} and η_k of the last step
        self.phase: Phase = "free"
        self.done = 0  # steps of the phase
        self.g_begin = 0.0  # g where the phase with the level began
        self.direct: Iterate | None = None
        self.after: tuple[Stage, Iterate] | None = None  # the last stage of a continuation that is done

    def __call__(self, x0: Vector | None) -> Result:
        """Run from x0, or from the null fit."""
        if x0 is not None and not self.problem.is_feasible(x0):
            raise InfeasibleError(
                f"x0 is not feasible: g(x0) = {self.problem.g(x0):g}, level = {self.problem.level:g}"
                + (", or a coordinate is negative that must not be" if np.any(x0 < 0) else "")
            )
        if 0 < self.tol < 10 * _EPS:
            self.warn(f"tol={self.tol:g} is below the resolution of float64")
        p = self.parameters
        if p is not None and p.K * p.steps > _MANY:
            self.warn(f"preset='paper' takes T = {p.steps} steps in each of up to K = {p.K} outer steps")
        try:
            start = self.best = self._start(x0)
            if not self.null.examined:
                return self._without_a_look()
            with interruptible():
                if warning := self.subsolver.warning(self.problem.objective):
                    self.warn(warning)
                status = self._go_on() if self.journal.state is not None else self._begin(start)
                self.note_phase("start")
                status = self._through_the_phases(start, status)
        except (KeyboardInterrupt, TimeLimitError) as error:
            if self.best is None:
                raise
            if isinstance(error, KeyboardInterrupt):
                end_now()
            if "start" not in self.phase_s and self.journal.state is not None:
                self._go_on()
            status = Status.TIME_LIMIT
        status = Status.INTERRUPTED if interrupted() else status
        self.note_phase("steps")
        if status is Status.NUMERICAL_ERROR:
            self._fail("the objective or its gradient is not finite near the last good point", None)
        return Conclusion(self)(status)

    def _without_a_look(self) -> Result:
        """The end of a run without time for a single gradient: where it began, or where an earlier call stopped."""
        if self.journal.state is not None:
            self._go_on()
        self.note_phase("start")
        return Conclusion(self)(Status.INTERRUPTED if interrupted() else Status.TIME_LIMIT)

    def _begin(self, start: Iterate) -> Status | None:
        """Where to begin; a status where there is nothing to do."""
        self.best = self._from_convex(start) if self.from_convex else start
        status = self._solved(self.best)
        self._keep(status)
        return status

    def _through_the_phases(self, start: Iterate, status: Status | None) -> Status:
        """ψ alone, while the level holds by itself; with the level; by way of wider problems, and on from there."""
        assert self.best is not None
        if self.phase == "free":
            status = self._follow(self._without_level(self.best)) if status is None else status
            if status is None:
                self._enter("level")
        if self.phase == "level":
            status = self._follow(self._with_level(self.best)) if status is None else status
        if self.phase in ("free", "level") and status is Status.SOLVED and self._is_to_continue():
            self.direct = self.best
            self._enter("continuation")
            status = None
        if self.phase == "continuation" and status is None:
            assert self.direct is not None
            status = self._continue(start, self.direct)
        if self.phase == "last" and status is None:
            status = self._follow(self._with_level(self.best))
        assert status is not None  # levels never end
        return status

    def _enter(self, phase: Phase) -> None:
        """Another phase begins, at the best point so far."""
        assert self.best is not None
        self.phase, self.done, self.g_begin = phase, 0, self.problem.g(self.best.x)
        self._keep(None)

    def _keep(self, status: Status | None) -> None:
        """Tell the journal what would be needed to go on from here, unless a limit cut the last step short."""
        assert self.best is not None
        if self.journal.idle or self.left() <= 0 or self.best.stop in ("interrupted", "not finite"):
            return
        self.journal.keep(
            RunState(
                phase=self.phase,
                done=self.done,
                status=status,
                at=self.best,
                g_begin=self.g_begin,
                direct=self.direct,
                after=self.after,
                came_from=self.came_from,
                still=self.still,
                counts=(self.n_outer, self.n_inner, self.n_grad, self.n_proj),
                history=tuple(self.history),
                stages=tuple(self.stages),
                seconds=time.monotonic() - self.began,
                rng=dict(self.rng.bit_generator.state),
            )
        )

    def _go_on(self) -> Status | None:
        """Take up the state of an earlier run, and the status that its last step had earned."""
        state: RunState = self.journal.state
        self.phase, self.done, self.best, self.g_begin = state.phase, state.done, state.at, state.g_begin
        self.direct, self.after, self.came_from, self.still = state.direct, state.after, state.came_from, state.still
        self.n_outer, self.n_inner, self.n_grad, self.n_proj = state.counts
        self.history.extend(state.history)
        self.stages = list(state.stages)
        self.began -= state.seconds
        self.rng.bit_generator.state = state.rng
        return state.status

    def _start(self, x0: Vector | None) -> Iterate:
        with self._blaming_the_objective():
            objective = self.problem.objective
            self.null = null_fit_in_time(self.problem, self.left())
            if not self.null.examined:
                return self._not_examined(x0)
            self.n_grad += objective.evaluation_cost * (2 if self.problem.exempt.size else 1)
            x, psi, gradient = self.null.x, self.null.psi, self.null.gradient
            self.null = replace(self.null, gradient=None)
            assert gradient is not None
            if x0 is not None:
                x, (psi, gradient) = x0, objective.value_and_gradient(x0)
                self.n_grad += objective.evaluation_cost
            if not (np.isfinite(psi) and np.all(np.isfinite(gradient))):
                raise NumericalError(f"the objective is not finite at the start: it is {psi} at x0")
            self.best = Iterate(x, psi, gradient)
            self.best = replace(self.best, step=1 / objective.curvature)
            if self.gamma is None:
                self.gamma = self.subsolver.proximal_weight(objective)
            if disagreement := objective.disagreement(x, psi, gradient):
                self.warn(disagreement)
        return self.best

    def _not_examined(self, x0: Vector | None) -> Iterate:
        """x0, or the null fit, with ψ alone; the null fit, too, where there is no time for ψ(x0)."""
        objective = self.problem.objective
        x, psi, unknown = self.null.x, self.null.psi, np.full(self.problem.dimension, np.nan)
        if x0 is not None and isinstance(objective, Model):
            support = self.problem.support(x0)
            with suppress(TimeLimitError, KeyboardInterrupt), finishing():
                part = objective.restrict(support)
                x, psi = x0, part.value_of(part.margins(x0[self.problem.coordinates(support)]))
        return Iterate(x, psi, unknown)

    def _from_convex(self, null: Iterate) -> Iterate:
        """The solution for the convex loss that ψ's own starts from, if that leads lower than the null fit."""
        with self._blaming_the_objective():
            start = convex_start(self.problem, null, self.how(), self.tol)
        return replace(self._count(start), n_grad=0)

    def _solved(self, start: Iterate) -> Status | None:
        """SOLVED where there is nothing to do."""
        certificate = assemble(self.problem, start.x, start.psi, start.gradient, self.null, bounded=False)
        done = certificate.kkt <= self.tol and self.max_iter > 0 and self.time_limit > 0 and self.stopping != "never"
        return Status.SOLVED if done else None

    @contextmanager
    def _blaming_the_objective(self) -> Iterator[None]:
        """Whatever fails inside is the objective's fault: say so, with the last good point."""
        try:
            yield
        except (NumericalError, TimeLimitError):
            raise
        except BackendError as error:
            error.result = self._so_far(str(error))
            raise
        except Exception as error:
            if isinstance(error, InvalidInputError) and self.n_outer == 0:
                raise  # nothing was done yet: it is the input that is wrong
            self._fail(f"the objective failed: {type(error).__name__}: {error}", error)

    def _with_level(self, start: Iterate) -> Iterator[tuple[float, Iterate]]:
        """LCPP itself."""
        etas = islice(self.levels.sequence(self.problem.level, self.g_begin), self.done, None)
        return steps(self.problem, start, etas, self.tol, self.how(), self.done)

    def how(self) -> How:
        """How problems are solved in this run."""
        assert self.gamma is not None
        return How(self.subsolver, self.gamma, self.surrogate, self.null, self.left, self.rng, self.working_set)

    def _is_to_continue(self) -> bool:
        """Whether the level holds x back, so that another KKT point may be better, and there is a step left to take."""
        return (
            self.continuation
            and self.n_outer < self.max_iter
            and bool(self.history)
            and self.history[-1].multiplier > 0
        )

    def _continue(self, start: Iterate, direct: Iterate) -> Status | None:
        """By way of wider problems from the null fit; what the direct start reached stays unless the end is lower."""
        with self._blaming_the_objective():
            for stage, at in continued(self.problem, start, direct, self.how(), self.tol, after=self.after):
                self._count(at)
                self.stages.append(stage)
                if at.stop == "interrupted":
                    return Status.INTERRUPTED
                if stage.factor == 1 and at.psi < direct.psi and self.left() > 0 and self.problem.is_feasible(at.x):
                    self.best, self.after = replace(at, stop=""), None
                    self.phase, self.done, self.g_begin = "last", 0, self.problem.g(at.x)
                    self.n_outer += 1
                    self.came_from = direct.x, self.problem.level
                    status = self._judge(self.problem.level, direct, self.best)
                    self._keep(_final(status))
                    return status
                self.after = stage, at
                self._keep(None)
        if self.left() <= 0:
            self.warn(
                f"time_limit {self.time_limit:g} s ended the continuation: the KKT point is that of the direct start, "
                "and there may be a better one. Raise time_limit, or ask for start='direct'."
            )
        self.after = None
        self._keep(Status.SOLVED)
        return Status.SOLVED

    def _without_level(self, start: Iterate) -> Iterator[tuple[float, Iterate]]:
        """Minimise ψ alone, for as long as g ≤ η holds by itself; rising levels are run as they are.

        On working sets that is done, where it can be of use, on each of them.
        """
        problem = self.problem
        convex = problem.constraint.lipschitz == 0
        if self.working_set or convex or problem.level == 0 or not isinstance(self.levels, Constant):
            return iter(())
        if self.subsolver.is_random(problem.objective):  # noise alone would carry x across the level
            return iter(())
        assert self.gamma is not None
        gamma = problem.objective.weak_convexity if problem.objective.smooth else self.gamma
        accuracy = 0.1 * self.tol * self.null.scale
        return without_level(problem, start, gamma, self.subsolver, accuracy, self.left, self.rng, self.done)

    def _follow(self, steps: Iterator[tuple[float, Iterate]]) -> Status | None:
        """Take steps until there is a reason to stop; None when there are no more of them."""
        while True:
            if self.n_outer >= self.max_iter:
                return Status.MAX_ITER
            if self.left() <= 0:
                return Status.TIME_LIMIT
            with self._blaming_the_objective():
                step = next(steps, None)
            if step is None:
                return None
            eta_k, iterate = step
            assert self.best is not None
            last, self.best = self.best, self._count(iterate)
            self.n_outer += 1
            self.done += 1
            self.came_from = last.x, eta_k
            status = self._judge(eta_k, last, iterate)
            del last  # with its gradient, a vector over all features
            if self.phase == "free" and iterate.stop == LEFT:
                return status
            if status is None and self.still == 1:
                status = self._past_the_charge(eta_k)
            if status is Status.STALLED or (status is None and self.done % _SLOW == 0):
                status = self._at_a_vertex(eta_k, status)
            self._keep(_final(status))
            if status is not None:
                return status

    def _past_the_charge(self, eta_k: float) -> Status | None:
        """Where x does not move: SOLVED, if the fit of the features of x without a level obeys it and is a KKT point.

        Exp and NegativeLp charge for growth for ever, but soon by less than the last digit of g. Then no step within a
        surrogate set moves such a coefficient, and yet all of its values cost the same.
        """
        problem, last = self.problem, self.best
        assert last is not None
        if self.stopping != "kkt" or not self.subsolver.forms_models(problem.objective) or eta_k < problem.level:
            return None
        W = np.union1d(problem.support(last.x), problem.exempt)
        part, places = problem.restrict(W), problem.coordinates(W)
        total = problem.constraint.cap * (W.size if part.weights is None else float(part.weights.sum()))
        if not np.isfinite(total):
            return None
        psi, gradient = part.objective.value_and_gradient(last.x[places])
        start = Iterate(last.x[places], psi, gradient, step=1 / problem.objective.curvature)
        enough = Enough(0.1 * self.tol * self.null.scale)
        x = np.zeros_like(last.x)
        x[places] = solve_restriction(replace(part, level=total + 1), start, enough, self.how()).x
        if not problem.is_feasible(x):
            return None
        psi, gradient = problem.objective.value_and_gradient(x)
        self.n_grad += problem.objective.evaluation_cost
        if not assemble(problem, x, psi, gradient, self.null, bounded=False).kkt <= self.tol:
            return None
        self.best = replace(last, x=x, psi=psi, gradient=gradient, margins=None, stop="stationary")
        self.n_outer += 1
        self.done += 1
        self.came_from = last.x, eta_k
        judged = self._judge(eta_k, last, self.best)
        return Status.SOLVED if judged is None else judged

    def _at_a_vertex(self, eta_k: float, status: Status | None) -> Status | None:
        """Where steps on a loss with kinks converge slowly: SOLVED, if linear programs lead to a KKT point."""
        problem, last = self.problem, self.best
        assert last is not None
        by_smoothing = isinstance(self.subsolver, Smoothing) and self.stopping == "kkt" and eta_k == problem.level
        if not (by_smoothing and can_end_at_a_vertex(problem)) or last.kinks is None:
            return status
        found = None
        for with_level in (False, True) if self.phase == "free" else (True,):
            found = found or vertex_near(problem, last.x, with_level, min(self.left(), _PROGRAM))
        if found is None or self.left() <= 0:
            return status
        known = certify(problem, found.x, self.null, hint=found.slopes, seconds=min(self.left(), _PROGRAM))
        if not known.kkt <= self.tol:
            return status
        model = cast(LinearModel, problem.objective)
        gradient = model.design.rmatvec(model.share * found.slopes)
        kinks = replace(last.kinks, slopes=found.slopes)
        end = replace(last, x=found.x, psi=found.psi, gradient=gradient, kinks=kinks, margins=None)
        self.best = replace(end, stop="stationary", n_inner=0, n_grad=0, n_proj=0)
        self.n_outer += 1
        self.done += 1
        self.came_from = last.x, eta_k
        judged = self._judge(eta_k, last, self.best)
        return Status.SOLVED if judged is None or judged is Status.STALLED else judged

    def _judge(self, eta_k: float, last: Iterate, iterate: Iterate) -> Status | None:
        """Why to stop after this step, or None."""
        certificate = assemble(self.problem, iterate.x, iterate.psi, iterate.gradient, self.null, bounded=False)
        length, change = length_of(iterate.x), relative_change(last.x, iterate.x)
        self._record(eta_k, iterate, certificate, change)
        if self.callback is not None:
            shown = iterate.x.view()
            shown.flags.writeable = False
            with suspended():
                wants_end = self.callback(self.history[-1], shown)
            if wants_end:
                return Status.CALLBACK_STOP
        if iterate.stop == "interrupted":
            return Status.INTERRUPTED
        if iterate.stop == "not finite":
            return Status.NUMERICAL_ERROR
        stands = change <= self.tol and iterate.stop != LEFT  # else it had left the level, and came back
        met = {"kkt": certificate.kkt <= self.tol, "change": stands, "never": False}[self.stopping]
        if met and not (self.stopping == "change" and eta_k < self.problem.level and length == 0):
            return Status.SOLVED
        if np.max(iterate.x, initial=0.0) > _PAST_ALL_BOUNDS or np.min(iterate.x, initial=0.0) < -_PAST_ALL_BOUNDS:
            return Status.DIVERGING
        stands = change <= 4 * _EPS and self._change_of_margins(last.x, iterate.x) <= 4 * _EPS
        self.still = self.still + 1 if stands and eta_k == self.problem.level else 0
        if self.still >= STILL and self.tol > 0 and self.stopping != "never":
            return Status.STALLED
        return None

    def _change_of_margins(self, last: Vector, x: Vector) -> float:
        """The relative change of x in units of its columns: what large coefficients of small columns would hide."""
        scale = self.problem.objective.feature_scale
        if scale is None:
            return relative_change(last, x)
        sizes = np.repeat(scale.magnitude, self.problem.width)
        return relative_change(sizes * last, sizes * x)

    def _count(self, iterate: Iterate) -> Iterate:
        self.n_inner += iterate.n_inner
        self.n_grad += iterate.n_grad
        self.n_proj += iterate.n_proj
        return iterate

    def _record(self, eta_k: float, iterate: Iterate, certificate: Certificate, change: float) -> None:
        self.history.append(
            Record(
                k=self.n_outer,
                eta_k=eta_k,
                psi=iterate.psi,
                g=certificate.g,
                kkt=certificate.kkt,
                multiplier=certificate.multiplier,
                change=change,
                n_grad=self.n_grad,
                seconds=time.monotonic() - self.began,
            )
        )

    def note_phase(self, name: str) -> None:
        """Note how long the phase that ends here took."""
        self.phase_s[name] = time.monotonic() - self.began - sum(self.phase_s.values())

    def left(self) -> float:
        """Seconds left of this call; whoever shows progress is told of work between steps by that question."""
        if self._meanwhile is not None and time.monotonic() - self._told >= _OFTEN:
            self._told = time.monotonic()
            stage = f", stage {len(self.stages) + 1}" if self.phase == "continuation" else ""
            with suspended():
                self._meanwhile(f"{_MEANWHILE[self.phase]}{stage}, {self._told - self.began:.1f} s")
        return min(self.time_limit - (time.monotonic() - self.called), seconds_left())

    def warn(self, message: str) -> None:
        """Warn, and remember it."""
        self.warned.append(message)
        warn(message)

    def degenerate_words(self) -> str:
        """Return a sentence where the level pays for a whole number of saturated coordinates; else nothing.

        The multiplier may explode there and the method stick. A run that ends solved has not met that.
        """
        problem = self.problem
        nearest, unit, _ = degenerate_level(problem)
        if nearest is None or abs(problem.level - nearest) > _DEGENERATE * unit:
            return ""
        total = problem.constraint.cap * (problem.dimension if problem.weights is None else problem.weights.sum())
        # 0: the null fit; all of them: the level holds nothing back
        if not (0 < nearest < total - unit / 2 and np.isfinite(problem.constraint.threshold)):
            return ""
        return (
            f"level = {problem.level:g} is {round(nearest / unit)} times {unit:g}, just what some large "
            f"coefficients cost: there the multiplier may explode and the last coefficient stick at its threshold. "
            f"Use level = {nearest - unit / 2:g} or {nearest + unit / 2:g} instead."
        )

    def _fail(self, message: str, cause: BaseException | None) -> NoReturn:
        """Raise, with the last good point attached."""
        raise NumericalError(message, self._so_far(message)) from cause

    def _so_far(self, message: str) -> Result | None:
        """The last good point, where there is one."""
        if self.best is None:
            return None
        certificate = assemble(self.problem, self.best.x, self.best.psi, self.best.gradient, self.null)
        return Conclusion(self).result(Status.NUMERICAL_ERROR, message, certificate)


def _final(status: Status | None) -> Status | None:
    """The status, where going on would not change it."""
    return None if status in (Status.CALLBACK_STOP, Status.INTERRUPTED) else status
