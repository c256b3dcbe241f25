"""One run of LCPP under its limits: when to stop, whom to tell, what the outcome is called.

The method itself is in lcpp.py, and does not know of time, callbacks or statuses.
"""

from __future__ import annotations

import functools
import math
import platform
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import metadata
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from levelprox import _kernels
from levelprox.certificate import Certificate, assemble, certify
from levelprox.continuation import continued, convex_start
from levelprox.errors import InfeasibleError, InvalidInputError, NumericalError, warn
from levelprox.lcpp import without_level
from levelprox.levels import Constant, Levels
from levelprox.nearby import nearby_kkt
from levelprox.null_fit import null_fit
from levelprox.objectives.declared import Declared
from levelprox.problem import Problem
from levelprox.restriction import How
from levelprox.result import Iterate, Record, Result, Stage, Status, length_of, relative_change
from levelprox.subsolvers import Subsolver
from levelprox.surrogate import Linearise
from levelprox.theory import Parameters, degenerate_level
from levelprox.working_set import steps

Vector = NDArray[np.float64]
RandomState = int | np.random.RandomState | np.random.Generator | None
Callback = Callable[[Record, Vector], "bool | None"]

_EPS = float(np.finfo(np.float64).eps)
_ACCEPTABLE = 100  # a point within this factor of tol is "solved_inaccurate"
_HISTORY = 1000
_PAST_ALL_BOUNDS = 1e100
_DEGENERATE = 1e-3  # relative to the cost of one large coefficient
_NEARBY = 10.0  # seconds that the (ε, δ)-KKT statement may take; it rarely takes one
_CERTIFICATE = 0.25  # seconds that a certificate may always take
_MANY = 10**8  # inner steps of a preset run that are worth a warning
_STILL = 10  # outer steps without any movement that make a stall


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
    ) -> None:
        self.problem = problem
        self.subsolver = subsolver
        self.levels = levels
        self.gamma = gamma
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.callback = callback
        self.surrogate = surrogate
        self.stopping = stopping
        self.random_state = random_state
        self.rng = rng
        self.parameters = parameters
        self.working_set = working_set
        self.continuation = continuation
        self.from_convex = from_convex
        self.stages: list[Stage] = []
        self.began = time.monotonic()
        self.history: deque[Record] = deque(maxlen=_HISTORY)
        self.n_outer = self.n_inner = self.n_grad = self.n_proj = 0
        self.phase_s: dict[str, float] = {}
        self.warned: list[str] = []
        self.still = 0
        self.best: Iterate | None = None
        self.came_from: tuple[Vector, float] | None = None  # x^{k−1} and η_k of the last step

    def __call__(self, x0: Vector | None) -> Result:
        """Run from x0, or from the null fit."""
        if x0 is not None and not self.problem.is_feasible(x0):
            raise InfeasibleError(
                f"x0 is not feasible: g(x0) = {self.problem.g(x0):g}, level = {self.problem.level:g}"
                + (", or a coordinate is negative that must not be" if np.any(x0 < 0) else "")
            )
        if 0 < self.tol < 10 * _EPS:
            self._warn(f"tol={self.tol:g} is below the resolution of float64")
        self._warn_of_degenerate_level()
        if warning := self.subsolver.warning(self.problem.objective):
            self._warn(warning)
        p = self.parameters
        if p is not None and p.K * p.steps > _MANY:
            self._warn(f"preset='paper' takes T = {p.steps} steps in each of up to K = {p.K} outer steps")
        try:
            start = self.best = self._start(x0)
            if self.from_convex:
                self.best = self._from_convex(start)
            self._phase("start")
            status = self._solved(self.best)
            if status is None:
                status = self._follow(self._without_level(self.best))
            if status is None:
                status = self._follow(self._with_level(self.best))
            if status is Status.SOLVED and self._is_to_continue():
                status = self._continue(start, self.best)
                if status is None:
                    status = self._follow(self._with_level(self.best))
        except KeyboardInterrupt:
            if self.best is None:
                raise
            status = Status.INTERRUPTED
        assert status is not None  # levels never end
        self._phase("steps")
        if status is Status.NUMERICAL_ERROR:
            self._fail("the objective or its gradient is not finite near the last good point", None)
        return self._conclude(status)

    def _start(self, x0: Vector | None) -> Iterate:
        with self._blaming_the_objective():
            objective = self.problem.objective
            self.null = null_fit(self.problem, self._left())
            self.n_grad += objective.evaluation_cost * (2 if self.problem.exempt.size else 1)
            x, psi, gradient = self.null.x, self.null.psi, self.null.gradient
            self.null = replace(self.null, gradient=None)
            assert gradient is not None
            if x0 is not None:
                x, (psi, gradient) = x0, objective.value_and_gradient(x0)
                self.n_grad += objective.evaluation_cost
            if not (np.isfinite(psi) and np.all(np.isfinite(gradient))):
                raise NumericalError(f"the objective is not finite at the start: psi(x0) = {psi}")
            self.best = Iterate(x, psi, gradient)
            self.best = replace(self.best, step=1 / objective.curvature)
            if self.gamma is None:
                self.gamma = self.subsolver.proximal_weight(objective)
            if disagreement := objective.disagreement(x, psi, gradient):
                self._warn(disagreement)
        return self.best

    def _from_convex(self, null: Iterate) -> Iterate:
        """The solution for the convex loss that ψ's own starts from, if that leads lower than the null fit."""
        with self._blaming_the_objective():
            start = convex_start(self.problem, null, self._how(), self.tol)
        return replace(self._count(start), n_grad=0)

    def _solved(self, start: Iterate) -> Status | None:
        """SOLVED where there is nothing to do."""
        certificate = assemble(self.problem, start.x, start.psi, start.gradient, self.null)
        done = certificate.kkt <= self.tol and self.max_iter > 0 and self.time_limit > 0 and self.stopping != "never"
        return Status.SOLVED if done else None

    @contextmanager
    def _blaming_the_objective(self) -> Iterator[None]:
        """Whatever fails inside is the objective's fault: say so, with the last good point."""
        try:
            yield
        except NumericalError:
            raise
        except Exception as error:
            if isinstance(error, InvalidInputError) and self.n_outer == 0:
                raise  # nothing was done yet: it is the input that is wrong
            self._fail(f"the objective failed: {type(error).__name__}: {error}", error)

    def _with_level(self, start: Iterate) -> Iterator[tuple[float, Iterate]]:
        """LCPP itself."""
        etas = self.levels.sequence(self.problem.level, self.problem.g(start.x))
        return steps(self.problem, start, etas, self.tol, self._how())

    def _how(self) -> How:
        assert self.gamma is not None
        return How(self.subsolver, self.gamma, self.surrogate, self.null, self._left, self.rng, self.working_set)

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
            for stage, at in continued(self.problem, start, direct, self._how(), self.tol):
                self._count(at)
                self.stages.append(stage)
                if at.stop == "interrupted":
                    return Status.INTERRUPTED
                if stage.factor == 1 and at.psi < direct.psi and self._left() > 0 and self.problem.is_feasible(at.x):
                    self.best = replace(at, stop="")
                    self.n_outer += 1
                    self.came_from = direct.x, self.problem.level
                    return self._judge(self.problem.level, direct, self.best)
        if self._left() <= 0:
            self._warn(
                f"time_limit {self.time_limit:g} s ended the continuation: the KKT point is that of the direct start, "
                "and there may be a better one. Raise time_limit, or ask for start='direct'."
            )
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
        return without_level(problem, start, gamma, self.subsolver, accuracy, self._left, self.rng)

    def _follow(self, steps: Iterator[tuple[float, Iterate]]) -> Status | None:
        """Take steps until there is a reason to stop; None when there are no more of them."""
        while True:
            if self.n_outer >= self.max_iter:
                return Status.MAX_ITER
            if self._left() <= 0:
                return Status.TIME_LIMIT
            with self._blaming_the_objective():
                step = next(steps, None)
            if step is None:
                return None
            eta_k, iterate = step
            assert self.best is not None
            last, self.best = self.best, self._count(iterate)
            self.n_outer += 1
            self.came_from = last.x, eta_k
            status = self._judge(eta_k, last, iterate)
            del last  # with its gradient, a vector over all features
            if status is not None:
                return status

    def _judge(self, eta_k: float, last: Iterate, iterate: Iterate) -> Status | None:
        """Why to stop after this step, or None."""
        certificate = assemble(self.problem, iterate.x, iterate.psi, iterate.gradient, self.null)
        length, change = length_of(iterate.x), relative_change(last.x, iterate.x)
        self._record(eta_k, iterate, certificate, change)
        if self.callback is not None:
            shown = iterate.x.view()
            shown.flags.writeable = False
            if self.callback(self.history[-1], shown):
                return Status.CALLBACK_STOP
        if iterate.stop == "interrupted":
            return Status.INTERRUPTED
        if iterate.stop == "not finite":
            return Status.NUMERICAL_ERROR
        met = {"kkt": certificate.kkt <= self.tol, "change": change <= self.tol, "never": False}[self.stopping]
        if met and not (self.stopping == "change" and eta_k < self.problem.level and length == 0):
            return Status.SOLVED
        if np.max(iterate.x, initial=0.0) > _PAST_ALL_BOUNDS or np.min(iterate.x, initial=0.0) < -_PAST_ALL_BOUNDS:
            return Status.DIVERGING
        self.still = self.still + 1 if change <= 4 * _EPS and eta_k == self.problem.level else 0
        if self.still >= _STILL and self.tol > 0 and self.stopping != "never":
            return Status.STALLED
        return None

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

    def _phase(self, name: str) -> None:
        """Note how long the phase that ends here took."""
        self.phase_s[name] = time.monotonic() - self.began - sum(self.phase_s.values())

    def _left(self) -> float:
        return self.time_limit - (time.monotonic() - self.began)

    def _conclude(self, status: Status) -> Result:
        """Certify the last point from the data, name the outcome, warn where it is not what was asked for."""
        assert self.best is not None
        certificate, interrupted = self._certificate(self.best)
        status = Status.INTERRUPTED if interrupted else status
        if not interrupted and status not in (Status.INTERRUPTED, Status.TIME_LIMIT):
            try:
                certificate = self._with_neighbour(self.best, certificate)
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        self._phase("certificate")
        if status in (Status.SOLVED, Status.MAX_ITER, Status.STALLED):
            acceptable = max(_ACCEPTABLE * self.tol, 1e3 * _EPS) if self.tol > 0 else -math.inf
            if certificate.kkt <= self.tol:
                status = Status.SOLVED
            elif status is Status.SOLVED or certificate.kkt <= acceptable:
                status = Status.SOLVED_INACCURATE  # also where only the paper's milder rule was met
        message = self._message(status, certificate)
        if status not in (Status.SOLVED, Status.CALLBACK_STOP, Status.INTERRUPTED):
            message = f"{message} {self.problem.objective.advice()}".rstrip()
            self._warn(message)
        if self._is_separated(self.best.x):
            self._warn(
                "the data are separable, or the loss gains for ever, by coefficients that cost nothing more as they "
                "grow: it has no minimiser within the level, and their size is set by tol or max_iter alone. Lower "
                "the level, or take a constraint without a cap."
            )
        return self._result(status, message, certificate)

    def _certificate(self, best: Iterate) -> tuple[Certificate, bool]:
        """Recomputed from the data; what the run knew, should the objective fail or Ctrl-C (True) come now.

        The scale is that of the null fit, a function of the problem alone, and is not computed twice.
        """
        try:
            hint = None if best.kinks is None else best.kinks.slopes
            seconds = max(_CERTIFICATE, self._left())
            return certify(self.problem, best.x, self.null, hint=hint, seconds=seconds), False
        except (KeyboardInterrupt, Exception) as error:
            self._warn(f"the certificate is the run's own; recomputing it failed: {type(error).__name__}: {error}")
            known = assemble(self.problem, best.x, best.psi, best.gradient, self.null)
            return known, isinstance(error, KeyboardInterrupt)

    def _with_neighbour(self, best: Iterate, certificate: Certificate) -> Certificate:
        """The certificate with the (ε, δ)-KKT statement of the last subproblem's solution, where x itself has none."""
        objective = self.problem.objective
        rough = not objective.smooth or self.subsolver.is_random(objective)
        if not rough or certificate.kkt <= self.tol or self.came_from is None:
            return certificate
        center, eta_k = self.came_from
        try:
            near = nearby_kkt(
                self.problem,
                best.x,
                center=center,
                level=eta_k,
                gamma=self.gamma,
                surrogate=self.surrogate,
                seconds=min(self._left(), _NEARBY),
                rng=self.rng,
            )
        except Exception as error:
            self._warn(f"no (ε, δ)-KKT statement; looking for one failed: {type(error).__name__}: {error}")
            return certificate
        if near.epsilon >= certificate.epsilon:
            return certificate
        return replace(certificate, near_epsilon=near.epsilon, near_delta=near.delta)

    def _warn(self, message: str) -> None:
        """Warn, and remember it."""
        self.warned.append(message)
        warn(message)

    def _warn_of_degenerate_level(self) -> None:
        """At a whole number of saturated coordinates the multiplier may explode and the method stick."""
        problem = self.problem
        nearest, unit, _ = degenerate_level(problem)
        if nearest is None or abs(problem.level - nearest) > _DEGENERATE * unit:
            return
        total = problem.constraint.cap * (problem.dimension if problem.weights is None else problem.weights.sum())
        # 0: the null fit; all of them: the level holds nothing back
        if 0 < nearest < total - unit / 2 and np.isfinite(problem.constraint.threshold):
            self._warn(
                f"level = {problem.level:g} is {round(nearest / unit)} times {unit:g}, just what some large "
                f"coefficients cost: there the multiplier may explode and the last coefficient stick at its threshold. "
                f"Use level = {nearest - unit / 2:g} or {nearest + unit / 2:g} instead."
            )

    def _is_separated(self, x: Vector) -> bool:
        """Whether ψ falls for ever along the part of x that is exempt or past its threshold."""
        free = self.problem.free(x)
        return bool(np.any(free)) and self.problem.objective.is_separated(np.where(free, x, 0.0))

    def _message(self, status: Status, certificate: Certificate) -> str:
        relation = "<=" if certificate.kkt <= self.tol else ">"
        figures = (
            f"KKT {certificate.kkt:.1e} {relation} tol {self.tol:.1e}; "
            f"g(x) = {certificate.g:.6g} <= level = {certificate.level:.6g}"
        )
        if certificate.near_epsilon is not None:
            figures += f"; an (ε, δ)-KKT point with ε = {certificate.epsilon:.1e}, δ = {certificate.delta:.1e}"
        steps = f"after {self.n_outer} outer steps"
        nearly, remedy = "Nearly solved", "Raise max_iter or tol."
        if self.subsolver.is_random(self.problem.objective):
            remedy = "Raise max_iter or tol, or lower the noise: more steps or larger batches, a larger gamma."
        if self.stopping == "change" and self.history and self.history[-1].change <= self.tol:
            nearly, remedy = "x changes by less than tol", "Lower tol, or stop by the KKT residual."
        elif self.still >= _STILL:
            remedy = "x no longer moves in float64."
        if self.parameters is not None:
            nearly = f"Ran the paper's method (k̂ of K = {self.parameters.K}, T = {self.parameters.steps})"
            remedy = "Raise max_iter, which is K."
        stopped = {
            Status.SOLVED: f"Solved {steps}: {figures}."
            + ("" if certificate.active else " The constraint is inactive."),
            Status.SOLVED_INACCURATE: f"{nearly} {steps}: {figures}. {remedy}",
            Status.MAX_ITER: f"Stopped {steps}, max_iter: {figures}. {remedy}"
            if self.parameters is None
            else f"{nearly} {steps}: {figures}. {remedy}",
            Status.TIME_LIMIT: f"Stopped {steps}, time_limit {self.time_limit:g} s: {figures}. Raise it or tol.",
            Status.INTERRUPTED: f"Interrupted {steps}: {figures}.",
            Status.CALLBACK_STOP: f"Stopped by the callback {steps}: {figures}.",
            Status.STALLED: f"Stalled {steps}: {figures}. {self._why_stalled()}",
            Status.DIVERGING: f"Diverging {steps}: {figures}. psi has no minimiser within the level; lower the level.",
        }
        return stopped[status]

    def _why_stalled(self) -> str:
        objective = self.problem.objective
        if isinstance(objective, Declared) and not objective.smooth:
            return "No step lowers psi. Beside a kink the residual at x itself says little: look at ε and δ."
        if isinstance(objective, Declared) and self.best is not None and self.best.stop == "no decrease":
            return "No step lowers psi: the smoothness declared for it may be too small."
        return "x no longer moves in float64; raise tol, or scale the data."

    def _result(self, status: Status, message: str, certificate: Certificate) -> Result:
        best = self.best
        assert best is not None
        return Result(
            x=best.x,
            status=status,
            message=message,
            certificate=certificate,
            history=tuple(self.history),
            n_outer=self.n_outer,
            n_inner=self.n_inner,
            n_grad=self.n_grad,
            n_proj=self.n_proj,
            wall_s=time.monotonic() - self.began,
            phase_s=dict(self.phase_s),
            gamma=self.gamma or 0.0,
            subsolver=self.subsolver.name,
            parameters=self.parameters,
            levels=type(self.levels).__name__.lower(),
            start="continuation" if self.continuation else "direct",
            stages=tuple(self.stages),
            tol=self.tol,
            random_state=self.random_state,
            warnings=tuple(self.warned),
            environment={**_environment(), "threads": str(_kernels.thread_count())},
        )

    def _fail(self, message: str, cause: BaseException | None) -> NoReturn:
        """Raise, with the last good point attached."""
        result = None
        if self.best is not None:
            certificate = assemble(self.problem, self.best.x, self.best.psi, self.best.gradient, self.null)
            result = self._result(Status.NUMERICAL_ERROR, message, certificate)
        raise NumericalError(message, result) from cause


@functools.cache
def _environment() -> dict[str, str]:
    versions = {
        "levelprox": metadata.version("levelprox"),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    return {"dtype": "float64", "backend": "cpu", **versions}
