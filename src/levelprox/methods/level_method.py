"""The method of `solve`: LCPP in phases, as a generator of states.

    free          ψ alone, for as long as g ≤ η holds by itself
    level         LCPP with the level
    continuation  by way of wider problems from the null fit; kept if that leads lower
    last          LCPP from the end of the continuation

The end of a run is in level_ending.py, the choice of options in level_options.py.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from levelprox._runtime import TimeLimitError, finishing
from levelprox._typing import RandomState, Vector
from levelprox.certificate import Certificate, assemble
from levelprox.certificate.null_model import NullFit, null_fit_in_time
from levelprox.exceptions import InfeasibleError, NumericalError
from levelprox.methods import Context, Method, Progress, Stop
from levelprox.methods.continuation import continued, convex_start
from levelprox.methods.last_part import LastPart
from levelprox.methods.lcpp import Constant, Levels, Linearise, without_level
from levelprox.methods.level_ending import STALLED_STEPS, Conclusion, Phase, RunState, failure, failures_of_objective
from levelprox.methods.nonsmooth_vertex import is_slow, kkt_vertex
from levelprox.methods.restricted import SolverOptions, fit_without_level
from levelprox.methods.subsolvers import Smoothing, Subsolver
from levelprox.methods.working_set import steps
from levelprox.objectives import Model
from levelprox.problem import Problem
from levelprox.result import Iterate, Kinks, Record, Result, Stage, Status, StopReason, length_of, relative_change
from levelprox.theory import Parameters

#: What the state of a run consists of.
KINDS: tuple[type, ...] = (RunState, Iterate, Kinks, Record, Stage, Status, Certificate)
States = Generator["RunState", None, "RunState"]
_PHASE_TEXTS = {"free": "first steps", "level": "steps", "continuation": "continuation", "last": "last steps"}

HISTORY_LENGTH = 1000
_EPS = float(np.finfo(np.float64).eps)
_DIVERGING_COEFFICIENT = 1e100
_MANY_INNER_STEPS = 10**8  # of a preset run that are worth a warning


@dataclass(eq=False, kw_only=True)
class LevelMethod(Method[RunState]):
    """LCPP with all its options chosen (`level_options.py`).

    Attributes
    ----------
    subsolver : Subsolver
    levels : Levels
    gamma : float or None
        None takes the subsolver's own.
    tol : float
    max_iter : int
        Outer steps.
    surrogate : callable
    stopping : {"kkt", "change", "never"}
    working_set, continuation, from_convex : bool
    x0 : ndarray, optional
        The start; the null fit by default.
    random_state : object
        As given, for the result.
    parameters : theory.Parameters, optional
        Those of the paper's preset.
    """

    subsolver: Subsolver
    levels: Levels
    gamma: float | None
    tol: float
    max_iter: int
    surrogate: Linearise
    stopping: str
    working_set: bool
    continuation: bool
    from_convex: bool
    x0: Vector | None = None
    random_state: RandomState = None
    parameters: Parameters | None = None

    kinds = KINDS

    def init(self, problem: Problem, ctx: Context) -> RunState:
        """Return the state at x0, or at the null fit."""
        self.problem, self.ctx, self.phase_s = problem, ctx, dict[str, float]()
        self.restricted = LastPart()
        self.state: RunState | None = None  # the last one, for `progress`
        if self.x0 is not None and not problem.is_feasible(self.x0):
            raise InfeasibleError(
                f"x0 is not feasible: g(x0) = {problem.g(self.x0):g}, level = {problem.level:g}"
                + (", or a coordinate is negative where nonnegative=True" if np.any(self.x0 < 0) else "")
            )
        if 0 < self.tol < 10 * _EPS:
            ctx.warn(f"tol={self.tol:g} is below the resolution of float64")
        p = self.parameters
        if p is not None and p.K * p.steps > _MANY_INNER_STEPS:
            ctx.warn(f"preset='paper' takes T = {p.steps} steps in each of up to K = {p.K} outer steps")
        with failures_of_objective(self, None):
            at, n_grad = self._start()
        self.first = self.state = RunState("free", at=at, counts=(0, 0, n_grad, 0))
        return self.first

    def steps(self, state: RunState, ctx: Context) -> Generator[RunState, None, Status | None]:
        """Yield the state after each step of each phase."""
        self.state = state
        if not self.null.examined:
            self.note_phase("start")
            return Status.TIME_LIMIT
        is_first = state is self.first
        self._prepare()
        if is_first:
            state = self._begun(self.first)
            yield self._now(state)
        self.note_phase("start")
        if state.phase == "free" and state.status is None:
            state = yield from self._follow(state, self._without_level(state))
            if state.status is None:
                state = self._entered(state, "level")
                yield self._now(state)
        if state.phase == "level" and state.status is None:
            state = yield from self._follow(state, self._with_level(state))
        if self._is_to_continue(state):
            state = self._entered(replace(state, direct=state.at, status=None), "continuation")
            yield self._now(state)
        if state.phase == "continuation" and state.status is None:
            state = yield from self._continue(state)
        if state.phase == "last" and state.status is None:
            state = yield from self._follow(state, self._with_level(state))
        if state.status is Status.NUMERICAL_ERROR:
            raise failure(self, state, "the objective or its gradient is not finite near the last good point")
        return state.status

    def finish(self, state: RunState, status: Status, ctx: Context) -> Result:
        """Return the result, certified from the data."""
        self.note_phase("steps")
        return Conclusion(self, state)(status)

    def progress(self) -> Progress:
        """Return the phase, the stage of a continuation and the seconds so far, as text."""
        phase, stages = ("free", ()) if self.state is None else (self.state.phase, self.state.stages)
        stage = f", stage {len(stages) + 1}" if phase == "continuation" else ""
        return Progress(text=f"{_PHASE_TEXTS[phase]}{stage}, {self.ctx.elapsed:.1f} s")

    def how(self) -> SolverOptions:
        """Return how problems are solved in this run."""
        assert self.gamma is not None
        ctx = self.ctx
        return SolverOptions(
            self.null,
            ctx.seconds_left,
            self.subsolver,
            self.gamma,
            self.surrogate,
            ctx.rng,
            self.working_set,
            restricted=self.restricted,
        )

    def note_phase(self, name: str) -> None:
        """Note how long the part of the run that ends here took."""
        self.phase_s[name] = self.ctx.elapsed - sum(self.phase_s.values())

    # --- the start

    def _start(self) -> tuple[Iterate, int]:
        """Return the start with ψ and its gradient, and the evaluations that took."""
        problem, objective, x0 = self.problem, self.problem.objective, self.x0
        self.null: NullFit = null_fit_in_time(problem, self.ctx.seconds_left())
        if not self.null.examined:
            return self._not_examined(), 0
        n_grad = objective.evaluation_cost * (2 if problem.unpenalized.size else 1)
        x, psi, gradient = self.null.x, self.null.psi, self.null.gradient
        self.null = replace(self.null, gradient=None)
        assert gradient is not None
        if x0 is not None:
            x, (psi, gradient) = x0, objective.value_and_gradient(x0)
            n_grad += objective.evaluation_cost
        if not (np.isfinite(psi) and np.all(np.isfinite(gradient))):
            raise NumericalError(f"the objective is not finite at the start: it is {psi} at x0")
        return Iterate(x, psi, gradient), n_grad

    def _not_examined(self) -> Iterate:
        """Return x0, or the null fit, with ψ alone; the null fit, too, if there is no time for ψ(x0)."""
        objective, x0 = self.problem.objective, self.x0
        x, psi, unknown = self.null.x, self.null.psi, np.full(self.problem.dimension, np.nan)
        if x0 is not None and isinstance(objective, Model):
            support = self.problem.support(x0)
            with suppress(TimeLimitError, KeyboardInterrupt), finishing():
                part = objective.restrict(support)
                x, psi = x0, part.value_of(part.margins(x0[self.problem.coordinates(support)]))
        return Iterate(x, psi, unknown)

    def _prepare(self) -> None:
        """Choose the first step size and γ, and warn of what is known before the first step."""
        objective, at = self.problem.objective, self.first.at
        with failures_of_objective(self, self.first):
            self.first = replace(self.first, at=replace(at, step=1 / objective.curvature))
            if self.gamma is None:
                self.gamma = self.subsolver.proximal_weight(objective)
            if disagreement := objective.disagreement(at.x, at.psi, at.gradient):
                self.ctx.warn(disagreement)
        if warning := self.subsolver.warning(objective):
            self.ctx.warn(warning)

    def _begun(self, state: RunState) -> RunState:
        """Return where to begin; solved if there is nothing to do.

        With `from_convex` that is the solution for the convex loss from which ψ's own starts, if it leads lower than
        the null fit.
        """
        if self.from_convex:
            with failures_of_objective(self, state):
                start = convex_start(self.problem, state.at, self.how(), self.tol)
            state = state.counted(start, at=replace(start, n_grad=0))
        at, limits = state.at, self.ctx.limits
        kkt = assemble(self.problem, at.x, at.psi, at.gradient, self.null, bounded=False).kkt
        done = kkt <= self.tol and limits.max_iter > 0 and limits.seconds > 0 and self.stopping != "never"
        return replace(state, status=Status.SOLVED if done else None)

    # --- steps

    def _now(self, state: RunState) -> RunState:
        """Return the state with the time and the random numbers as they are now, as it is written."""
        self.state = state
        return replace(state, seconds=self.ctx.elapsed, rng=dict(self.ctx.rng.bit_generator.state))

    def _entered(self, state: RunState, phase: Phase) -> RunState:
        """Return the state at the beginning of another phase."""
        return replace(state, phase=phase, done=0, g_begin=self.problem.g(state.at.x))

    def _with_level(self, state: RunState) -> Iterator[tuple[float, Iterate]]:
        """LCPP itself."""
        etas = islice(self.levels.sequence(self.problem.level, state.g_begin), state.done, None)
        return steps(self.problem, state.at, etas, self.tol, self.how(), state.done)

    def _without_level(self, state: RunState) -> Iterator[tuple[float, Iterate]]:
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
        accuracy, ctx = 0.1 * self.tol * self.null.scale, self.ctx
        return without_level(problem, state.at, gamma, self.subsolver, accuracy, ctx.seconds_left, ctx.rng, state.done)

    def _follow(self, state: RunState, steps: Iterator[tuple[float, Iterate]]) -> States:
        """Take steps until one reaches a status, or there are no more of them."""
        while state.status is None:
            if not self.ctx.may_step(state.n_outer):
                raise Stop(Status.MAX_ITER)
            self.ctx.check()
            with failures_of_objective(self, state):
                step = next(steps, None)
            if step is None:
                return state
            eta_k, iterate = step
            state = self._judged(state.counted(iterate, 1), eta_k, state.at, iterate)
            if state.phase == "free" and iterate.stop == StopReason.LEFT_LEVEL and state.status is None:
                return state
            if not self.ctx.stopped:
                state = self._past_the_charge(state, eta_k) if state.still == 1 else state
                state = self._at_a_vertex(state, eta_k)
            yield self._now(state)
        return state

    def _is_to_continue(self, state: RunState) -> bool:
        """Return whether the level holds x back, so that another KKT point may be better, and a step may follow."""
        return (
            self.continuation
            and state.phase in ("free", "level")
            and state.status is Status.SOLVED
            and state.n_outer < self.ctx.limits.max_iter
            and bool(state.history)
            and state.history[-1].multiplier > 0
        )

    def _continue(self, state: RunState) -> States:
        """By way of wider problems from the null fit; what the direct start reached stays unless the end is lower."""
        direct, problem = state.direct, self.problem
        assert direct is not None
        stages = continued(problem, self.first.at, direct, self.how(), self.tol, after=state.after)
        while True:
            with failures_of_objective(self, state):
                stage, at = next(stages, (None, direct))
            if stage is None:
                break
            state = state.counted(at, stages=(*state.stages, stage))
            self.state = state
            if at.stop == StopReason.INTERRUPTED:
                raise Stop(Status.INTERRUPTED)
            is_last = stage.factor == 1 and at.psi < direct.psi
            if is_last and self.ctx.seconds_left() > 0 and problem.is_feasible(at.x):
                at = replace(at, stop=StopReason.NONE)
                state = replace(self._entered(replace(state, at=at), "last"), after=None)
                state = self._judged(replace(state.counted(_NO_WORK, 1), done=0), problem.level, direct, at)
                yield self._now(state)
                return state
            state = replace(state, after=(stage, at))
            yield self._now(state)
        if self.ctx.seconds_left() <= 0:
            self.ctx.warn(
                f"time_limit {self.ctx.limits.seconds:g} s ended the continuation: the KKT point is that of the direct "
                "start, and there may be a better one. Raise time_limit, or ask for start='direct'."
            )
        state = replace(state, after=None, status=Status.SOLVED)
        yield self._now(state)
        return state

    def _past_the_charge(self, state: RunState, eta_k: float) -> RunState:
        """If x does not move: SOLVED if the fit of the features of x without a level satisfies it and is a KKT point.

        Exp and NegativeLp keep increasing, but soon by less than the last digit of g. Then no step within a
        surrogate set moves such a coefficient, and yet all of its values cost the same.
        """
        problem, last = self.problem, state.at
        if state.status is not None or self.stopping != "kkt" or eta_k < problem.level:
            return state
        if not self.subsolver.forms_models(problem.objective):
            return state
        x = fit_without_level(problem, last.x, 0.1 * self.tol * self.null.scale, self.how())
        if x is None:
            return state
        psi, gradient = problem.objective.value_and_gradient(x)
        state = state.counted(replace(_NO_WORK, n_grad=problem.objective.evaluation_cost))
        if not assemble(problem, x, psi, gradient, self.null, bounded=False).kkt <= self.tol:
            return state
        end = replace(last, x=x, psi=psi, gradient=gradient, margins=None, stop=StopReason.STATIONARY)
        state = self._judged(state.counted(_NO_WORK, 1), eta_k, last, end)
        return state if state.status is not None else replace(state, status=Status.SOLVED)

    def _at_a_vertex(self, state: RunState, eta_k: float) -> RunState:
        """If steps on a loss with kinks converge slowly: SOLVED if linear programs lead to a KKT point."""
        problem, last = self.problem, state.at
        if not isinstance(self.subsolver, Smoothing) or self.stopping != "kkt" or eta_k != problem.level:
            return state
        if not (state.status is Status.STALLED or (state.status is None and is_slow(problem, state.done))):
            return state
        end = kkt_vertex(problem, last, self.null, self.tol, state.phase == "free", self.ctx.seconds_left)
        if end is None:
            return state
        state = self._judged(state.counted(_NO_WORK, 1), eta_k, last, end)
        return replace(state, status=Status.SOLVED) if state.status in (None, Status.STALLED) else state

    # --- after a step

    def _judged(self, state: RunState, eta_k: float, last: Iterate, iterate: Iterate) -> RunState:
        """Return the state at a new iterate, with its record and its status, after a report to the callback."""
        problem = self.problem
        certificate = assemble(problem, iterate.x, iterate.psi, iterate.gradient, self.null, bounded=False)
        length, change = length_of(iterate.x), relative_change(last.x, iterate.x)
        figures = (certificate.g, certificate.kkt, certificate.multiplier, change)
        record = Record(state.n_outer, eta_k, iterate.psi, *figures, state.counts[2], self.ctx.elapsed)
        history = (*state.history, record)[-HISTORY_LENGTH:]
        state = replace(state, at=iterate, came_from=(last.x, eta_k), history=history)
        self.state = state
        self.ctx.report(Progress(record, iterate.x))
        if iterate.stop == StopReason.INTERRUPTED:
            return replace(state, status=Status.INTERRUPTED)
        if iterate.stop == StopReason.NOT_FINITE:
            return replace(state, status=Status.NUMERICAL_ERROR)
        stands = change <= self.tol and iterate.stop != StopReason.LEFT_LEVEL  # else it left the level and returned
        met = {"kkt": certificate.kkt <= self.tol, "change": stands, "never": False}[self.stopping]
        if met and not (self.stopping == "change" and eta_k < problem.level and length == 0):
            return replace(state, status=Status.SOLVED)
        if max(np.max(iterate.x, initial=0.0), -np.min(iterate.x, initial=0.0)) > _DIVERGING_COEFFICIENT:
            return replace(state, status=Status.DIVERGING)
        stands = change <= 4 * _EPS and self._change_of_margins(last.x, iterate.x) <= 4 * _EPS
        still = state.still + 1 if stands and eta_k == problem.level else 0
        stalled = still >= STALLED_STEPS and self.tol > 0 and self.stopping != "never"
        return replace(state, still=still, status=Status.STALLED if stalled else None)

    def _change_of_margins(self, last: Vector, x: Vector) -> float:
        """Return the relative change of x in units of its columns, which large coefficients of small columns hide."""
        scale = self.problem.objective.feature_scale
        if scale is None:
            return relative_change(last, x)
        sizes = np.repeat(scale.magnitude, self.problem.n_outputs)
        return relative_change(sizes * last, sizes * x)


_NO_WORK = Iterate(np.empty(0), 0.0, np.empty(0))  # of which only the counts are used
