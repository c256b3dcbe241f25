"""States of a run of `LevelMethod`, and its end: the last point certified from the data, the figures of the message."""

from __future__ import annotations

import functools
import math
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import levelprox._kernels as _kernels
from levelprox._runtime import TimeLimitError, end_now, finishing, interrupted, seconds_left, seconds_to_finish
from levelprox._typing import Vector
from levelprox.certificate import Certificate, assemble, certify, not_examined
from levelprox.certificate.residual import degenerate_level, distance
from levelprox.exceptions import BackendError, InvalidInputError, NumericalError, counted
from levelprox.methods import Ending, Stop
from levelprox.methods.last_part import LastPart
from levelprox.methods.lcpp import surrogate_used
from levelprox.methods.negligible import without_negligible
from levelprox.objectives.user import Declared
from levelprox.problem import Problem
from levelprox.result import CUT_SHORT_STOPS, Iterate, Record, Result, Stage, Status, StopReason
from levelprox.theory.approximate_kkt import nearby_kkt

if TYPE_CHECKING:
    from levelprox.methods.level_method import LevelMethod

STALLED_STEPS = 10  # outer steps without any movement that make a stall
_EPS = float(np.finfo(np.float64).eps)
_ACCEPTABLE_FACTOR = 100  # a point within this factor of tol is "solved_inaccurate"
_APPROXIMATE_KKT_SECONDS = 10.0  # that the (ε, δ)-KKT statement may take; it rarely takes one
_CERTIFICATE_SECONDS = 0.25  # that a certificate may always take
_DEGENERATE_DISTANCE = 1e-3  # relative to the cost of one large coefficient
_GROUP = "The paper's surrogate is not defined where a feature has several coefficients: the group surrogate was used."
_SEPARABLE = (
    "the data are separable, or the loss keeps decreasing as coefficients beyond their threshold grow: it has no "
    "minimiser within the level, and their size is set by tol or max_iter alone. Lower the level, or choose a "
    "constraint without a cap."
)

Phase = Literal["free", "level", "continuation", "last"]  # of a run of `solve`


@dataclass(frozen=True, eq=False)
class RunState:
    """The state of a run of `solve` between two steps: all that is needed to continue from there, as plain data.

    Attributes
    ----------
    phase : str
    done : int
        Steps of the phase.
    status : Status or None
        The status that the last step has reached; None if steps follow.
    at : Iterate
        The best point.
    g_begin : float
        g where the phase began: schedules of levels begin there.
    direct : Iterate or None
        What the direct start has reached, during a continuation and after it.
    after : (Stage, Iterate) or None
        The last stage of the continuation that is done.
    came_from : (ndarray, float) or None
        x^{k−1} and η_k of the last step.
    still : int
        Steps without any movement.
    counts : tuple of int
        Outer steps, inner steps, evaluations of ψ with its gradient, projections.
    history : tuple of Record
    stages : tuple of Stage
    seconds : float
        Wall-clock time so far.
    rng : dict
        The state of the generator of random numbers.
    """

    phase: Phase
    done: int = 0
    status: Status | None = None
    at: Iterate = field(kw_only=True)
    g_begin: float = 0.0
    direct: Iterate | None = None
    after: tuple[Stage, Iterate] | None = None
    came_from: tuple[Vector, float] | None = None
    still: int = 0
    counts: tuple[int, int, int, int] = (0, 0, 0, 0)
    history: tuple[Record, ...] = ()
    stages: tuple[Stage, ...] = ()
    seconds: float = 0.0
    rng: dict[str, Any] = field(default_factory=dict)

    @property
    def best(self) -> Iterate:
        """The best point, feasible."""
        return self.at

    @property
    def n_outer(self) -> int:
        """Outer steps."""
        return self.counts[0]

    @property
    def complete(self) -> bool:
        """False if Ctrl-C or a value that is not finite has cut the last step short."""
        return self.at.stop not in CUT_SHORT_STOPS

    def counted(self, work: Iterate, outer: int = 0, **changes: Any) -> RunState:
        """Return the state with the work of an iterate and so many outer steps added."""
        more = (outer, work.n_inner, work.n_grad, work.n_proj)
        counts = tuple(a + b for a, b in zip(self.counts, more, strict=True))
        return replace(self, counts=counts, done=self.done + outer, **changes)  # type: ignore[arg-type]  # four of them


class Conclusion:
    """The end of one run.

    Parameters
    ----------
    method : LevelMethod
    state : RunState
        The last one.
    """

    def __init__(self, method: LevelMethod, state: RunState) -> None:
        self.method, self.state, self.best = method, state, state.at
        self.problem, self.ctx, self.tol = method.problem, method.ctx, method.tol
        self.n_grad = state.counts[2]
        self.notes: list[str] = []  # what there was no time for

    def __call__(self, status: Status) -> Result:
        """Certify the last point from the data, and return the result with its message."""
        if not self.method.null.examined:
            certificate = not_examined(self.problem, self.best.x, self.best.psi)
            self.method.note_phase("certificate")
            figures = (
                f"there was no time to compute a gradient, and the KKT residual is not known; {_level(certificate)}"
            )
            remedy = "Raise time_limit." if status is Status.TIME_LIMIT else ""
            ending = Ending(status, figures, self._steps(), remedy=remedy)
            return self.result(status, self.ctx.message(ending), certificate)
        if status is Status.SOLVED:
            self._leave_out_negligible()
        self.method.restricted = LastPart()  # the certificate reads the data themselves
        certificate, stopped = self._certificate()
        status = Status.INTERRUPTED if stopped or interrupted() else status
        if status not in (Status.INTERRUPTED, Status.TIME_LIMIT):
            try:
                certificate = self._with_approximate_kkt(certificate)
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        self.method.note_phase("certificate")
        status = self._judged(status, certificate.kkt)
        separated = self._is_separated()
        message = self.ctx.message(self._ending(status, certificate))
        if separated:
            self.ctx.warn(_SEPARABLE)
        return self.result(status, message, certificate)

    def _judged(self, status: Status, kkt: float) -> Status:
        """Return the status by the residual of the certificate."""
        if status not in (Status.SOLVED, Status.MAX_ITER, Status.STALLED):
            return status
        acceptable = max(_ACCEPTABLE_FACTOR * self.tol, 1e3 * _EPS) if self.tol > 0 else -math.inf
        if kkt <= self.tol:
            return Status.SOLVED
        # The paper's milder rule may have been met alone.
        return Status.SOLVED_INACCURATE if status is Status.SOLVED or kkt <= acceptable else status

    def _leave_out_negligible(self) -> None:
        """Set coefficients that are zero within tol to zero, unless the paper's rule stops or ψ is sampled."""
        method, objective, best = self.method, self.problem.objective, self.best
        if method.stopping != "kkt" or method.subsolver.is_random(objective):
            return
        hint = None if best.kinks is None else best.kinks.slopes
        try:
            with suppress(Exception), finishing():  # if ψ fails, its certificate reports that
                at_end = distance(self.problem, best.x, best.psi, best.gradient, method.null)
                # Of a loss with kinks it is that of another subgradient.
                known = (at_end[0] / method.null.scale, at_end[1]) if objective.smooth else None
                found = without_negligible(self.problem, best.x, self.tol, method.how(), hint, known)
                self.n_grad += found.n_grad * objective.evaluation_cost
                if found.x is not best.x:
                    known_there = None if found.gradient is None else (found.psi, found.gradient)
                    psi, gradient = known_there or objective.value_and_gradient(found.x)
                    self.best = replace(best, x=found.x, psi=psi, gradient=gradient, margins=None)
        except KeyboardInterrupt:
            end_now()

    def _certificate(self) -> tuple[Certificate, bool]:
        """Return the certificate recomputed from the data, and whether Ctrl-C ended that.

        If the objective fails, the time ends, or Ctrl-C is pressed, it is what the run knew.
        """
        best, null = self.best, self.method.null
        try:
            hint = None if best.kinks is None else best.kinks.slopes
            seconds = max(min(_CERTIFICATE_SECONDS, seconds_to_finish()), seconds_left())
            with finishing():
                return certify(self.problem, best.x, null, hint=hint, seconds=seconds), False
        except (KeyboardInterrupt, Exception) as error:
            if isinstance(error, TimeLimitError):
                self.notes.append("The certificate was not recomputed: there was no time.")
            else:
                failed = f"recomputing it failed: {type(error).__name__}: {error}"
                self.ctx.warn(f"the certificate was not recomputed; {failed}")
            if isinstance(error, KeyboardInterrupt):
                end_now()
            known = assemble(self.problem, best.x, best.psi, best.gradient, null)
            return known, isinstance(error, KeyboardInterrupt)

    def _with_approximate_kkt(self, certificate: Certificate) -> Certificate:
        """Return the certificate with the (ε, δ)-KKT statement of the last subproblem's solution, if x has none."""
        objective, method = self.problem.objective, self.method
        rough = not objective.smooth or method.subsolver.is_random(objective)
        if not rough or certificate.kkt <= self.tol or self.state.came_from is None:
            return certificate
        center, eta_k = self.state.came_from
        try:
            with finishing():
                near = nearby_kkt(
                    self.problem,
                    self.best.x,
                    center=center,
                    level=eta_k,
                    gamma=method.gamma,
                    surrogate=method.surrogate,
                    seconds=min(seconds_left(), _APPROXIMATE_KKT_SECONDS),
                    rng=self.ctx.rng,
                )
        except TimeLimitError:
            self.notes.append("There was no time for an (ε, δ)-KKT statement.")
            return certificate
        except Exception as error:
            self.ctx.warn(f"no (ε, δ)-KKT statement; its computation failed: {type(error).__name__}: {error}")
            return certificate
        if near.epsilon >= certificate.epsilon:
            return certificate
        return replace(certificate, near_epsilon=near.epsilon, near_delta=near.delta)

    def _is_separated(self) -> bool:
        """Return whether ψ is unbounded below, or not attained, along the part of x that is free or saturated."""
        x = self.best.x
        free = self.problem.free(x)
        try:
            with finishing():
                return bool(np.any(free)) and self.problem.objective.is_separated(np.where(free, x, 0.0))
        except TimeLimitError:
            self.notes.append("There was no time to see whether the data are separable.")
            return False
        except BackendError as error:  # the answer is there, and certified
            self.ctx.warn(f"whether the data are separable was not examined: {error}")
            return False

    # --- the message

    def _steps(self) -> str:
        return f"after {counted(self.state.n_outer, 'outer step')}"

    def _ending(self, status: Status, certificate: Certificate) -> Ending:
        relation = "<=" if certificate.kkt <= self.tol else ">"
        figures = f"KKT {certificate.kkt:.1e} {relation} tol {self.tol:.1e}{_gain(certificate)}; {_level(certificate)}"
        if certificate.near_epsilon is not None:
            figures += f"; an (ε, δ)-KKT point with ε = {certificate.epsilon:.1e}, δ = {certificate.delta:.1e}"
        opening, remedy = "", ""
        if status in (Status.SOLVED_INACCURATE, Status.MAX_ITER):
            opening, remedy = self._opening_and_remedy(status)
        remedy = {
            Status.SOLVED: "" if certificate.active else "The constraint is inactive.",
            Status.TIME_LIMIT: "Raise it or tol.",
            Status.STALLED: self._why_stalled(),
            Status.DIVERGING: "The loss has no minimiser within the level; lower it.",
        }.get(status, remedy)
        notes = [_GROUP] if self.method.parameters is not None and self.problem.n_outputs > 1 else []
        advice = ""
        if status not in (Status.SOLVED, Status.CALLBACK_STOP, Status.INTERRUPTED):
            advice = f"{self.problem.objective.advice()} {degenerate_words(self.problem)}".strip()
        return Ending(status, figures, self._steps(), opening, remedy, (*notes, *self.notes), advice)

    def _opening_and_remedy(self, status: Status) -> tuple[str, str]:
        """Return how the message begins, where not as usual, and what to change where tol was not reached."""
        method, history = self.method, self.state.history
        parameters = method.parameters
        if parameters is not None:
            ran = f"Ran the paper's method (k̂ of K = {parameters.K}, T = {parameters.steps})"
            return ran, "Raise max_iter, which is K."
        if method.stopping == "change" and history and history[-1].change <= self.tol:
            opening = "x changes by less than tol" if status is Status.SOLVED_INACCURATE else ""
            return opening, "Lower tol, or stop by the KKT residual."
        if self.state.still >= STALLED_STEPS:
            return "", "x no longer moves in float64."
        if method.subsolver.is_random(self.problem.objective):
            return "", "Raise max_iter or tol, or lower the noise: more steps or larger batches, a larger gamma."
        return "", "Raise max_iter or tol."

    def _why_stalled(self) -> str:
        objective = self.problem.objective
        if isinstance(objective, Declared) and not objective.smooth:
            return "No step lowers the loss. Next to a kink the residual at x itself says little: use ε and δ."
        if isinstance(objective, Declared) and self.best.stop == StopReason.NO_DECREASE:
            return "No step lowers the loss: the smoothness declared for it may be too small."
        return "x no longer moves in float64; raise tol, or scale the data."

    def result(self, status: Status, message: str, certificate: Certificate) -> Result:
        """Return the result."""
        method, state, ctx = self.method, self.state, self.ctx
        n_outer, n_inner, _, n_proj = state.counts
        return Result(
            x=self.best.x,
            status=status,
            message=message,
            certificate=certificate,
            history=state.history,
            n_outer=n_outer,
            n_inner=n_inner,
            n_grad=self.n_grad,
            n_proj=n_proj,
            wall_s=ctx.elapsed,
            phase_s=dict(method.phase_s),
            gamma=method.gamma or 0.0,
            subsolver=method.subsolver.name,
            parameters=method.parameters,
            levels=type(method.levels).__name__.lower(),
            start="continuation" if method.continuation else "direct",
            stages=state.stages,
            tol=self.tol,
            random_state=method.random_state,
            warnings=tuple(ctx.warnings),
            environment={**_environment(), "threads": str(_kernels.thread_count())},
            surrogate=surrogate_used(method.surrogate, self.problem.n_outputs),
            null=method.null,
        )


@contextmanager
def failures_of_objective(method: LevelMethod, state: RunState | None) -> Iterator[None]:
    """Attribute exceptions inside to the objective, and attach the last good point."""
    try:
        yield
    except (NumericalError, TimeLimitError, Stop):
        raise
    except BackendError as error:
        error.result = _so_far(method, state, str(error))
        raise
    except Exception as error:
        if isinstance(error, InvalidInputError) and (state is None or state.n_outer == 0):
            raise  # before the first step the input is wrong
        raise failure(method, state, f"the objective failed: {type(error).__name__}: {error}") from error


def failure(method: LevelMethod, state: RunState | None, message: str) -> NumericalError:
    """Return the error to raise, with the last good point attached."""
    return NumericalError(message, _so_far(method, state, message))


def _so_far(method: LevelMethod, state: RunState | None, message: str) -> Result | None:
    """Return the last good point, if there is one."""
    if state is None:
        return None
    certificate = assemble(method.problem, state.at.x, state.at.psi, state.at.gradient, method.null)
    return Conclusion(method, state).result(Status.NUMERICAL_ERROR, message, certificate)


def degenerate_words(problem: Problem) -> str:
    """Return a sentence if the level pays for a whole number of saturated coordinates; else nothing.

    The multiplier may explode there and the method stick. A run that ends solved has not met that.
    """
    nearest, unit, _ = degenerate_level(problem)
    if nearest is None or abs(problem.level - nearest) > _DEGENERATE_DISTANCE * unit:
        return ""
    total = problem.constraint.cap * (problem.dimension if problem.weights is None else problem.weights.sum())
    # 0: the null fit; all of them: the level holds nothing back
    if not (0 < nearest < total - unit / 2 and np.isfinite(problem.constraint.threshold)):
        return ""
    return (
        f"level = {problem.level:g} is {round(nearest / unit)} times {unit:g}, the cost of a whole "
        f"number of large coefficients: the multiplier may be unbounded there, and convergence slow. "
        f"Use level = {nearest - unit / 2:g} or {nearest + unit / 2:g} instead."
    )


def _gain(certificate: Certificate) -> str:
    return "" if certificate.possible_gain is None else f", possible gain {certificate.possible_gain:.1e}"


def _level(certificate: Certificate) -> str:
    return f"g(x) = {certificate.g:.6g} <= level = {certificate.level:.6g}"


@functools.cache
def _environment() -> dict[str, str]:
    ours, python = metadata.version("levelprox"), platform.python_version()
    versions = {"levelprox": ours, "numpy": np.__version__, "python": python}
    return {"dtype": "float64", "backend": "cpu", **versions}
