"""solve() and minimize(): choose, run, certify.

The one place for policy: when to stop, whom to tell, what the status is called. The method itself is
in lcpp.py; the figures that come back are recomputed by certificate.py.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from levelprox.certificate import Certificate, assemble, certify, null_fit
from levelprox.constraints import Constraint
from levelprox.errors import InfeasibleError, InvalidInputError, NumericalError
from levelprox.lcpp import lcpp
from levelprox.levels import Levels, levels_by_name
from levelprox.objectives import Function
from levelprox.objectives.function import ValueAndGradient
from levelprox.problem import Problem
from levelprox.result import Iterate, Record, Result, Status
from levelprox.subproblem import Subproblem
from levelprox.subsolvers import Subsolver, choose
from levelprox.surrogate import Linearise, Surrogate, surrogate_by_name
from levelprox.validation import real

Vector = NDArray[np.float64]
Callback = Callable[[Record, Vector], "bool | None"]

_EPS = float(np.finfo(np.float64).eps)
_ACCEPTABLE = 100  # a point within this factor of tol is "solved_inaccurate"
_HISTORY = 1000
_PAST_ALL_BOUNDS = 1e100
_STILL = 10  # outer steps without any movement that make a stall


def solve(
    problem: Problem,
    *,
    subsolver: str | Subsolver = "auto",
    levels: str | Levels = "constant",
    gamma: float | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    time_limit: float | None = None,
    callback: Callback | None = None,
    x0: ArrayLike | None = None,
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
    surrogate: str = "paper",
    stopping: str = "kkt",
    **unknown: object,
) -> Result:
    """Minimise ψ(x) subject to g(x) ≤ η by LCPP, and certify what is returned.

    Every x that comes back obeys the level, whatever stopped the run: convergence, a limit, Ctrl-C
    or the callback.

    Parameters
    ----------
    problem : Problem
    subsolver : str or Subsolver, default="auto"
        How subproblems are solved; "auto" takes the first that can take the objective.
    levels : {"constant", "geometric", "harmonic"} or Levels, default="constant"
        The schedule η_k. "harmonic" is the paper's, `Harmonic(eta0=…)` sets its start.
    gamma : float, optional
        The proximal weight γ, above the weak-convexity constant μ of ψ. By default
        γ = 3μ for nonconvex ψ (the paper's) and 1e-3 · c for convex ψ, where c is a typical
        curvature of ψ: sup ℓ'' times the mean over the columns of Σ s_i X_ij² / Σ s_i.
    tol : float, default=1e-6
        On the KKT residual relative to ‖∇ψ‖∞ at the null fit (see `Certificate.kkt`).
    max_iter : int, default=1000
        Outer steps.
    time_limit : float, optional
        Seconds of wall-clock time.
    callback : callable, optional
        Called as callback(record, x) after each outer step; returning True stops the run.
    x0 : array-like of shape (d,), optional
        A feasible start; the origin by default.
    random_state : int, RandomState, Generator or None
        For stochastic subsolvers.
    surrogate : {"paper", "concave"}, default="paper"
        How g is majorised (see surrogate.py).
    stopping : {"kkt", "change"}, default="kkt"
        "kkt": stop when the certificate's residual is at most tol. "change": the paper's rule,
        ‖x^k − x^{k−1}‖ ≤ tol ‖x^k‖.

    Returns
    -------
    Result

    Raises
    ------
    InvalidInputError, InfeasibleError
        Before any work is done.
    NumericalError
        When ψ fails or is not finite; its `result` holds the last good point.

    Warns
    -----
    ConvergenceWarning
        When the run ended without reaching tol: with the residual, tol and the remedy.
    """
    if unknown:
        raise TypeError(_unknown_option(next(iter(unknown))))
    run = _Run(
        problem=problem,
        subsolver=choose(subsolver, problem.objective),
        levels=levels_by_name(levels),
        gamma=_proximal_weight(problem, gamma),
        tol=_nonnegative("tol", tol),
        max_iter=_count("max_iter", max_iter),
        time_limit=math.inf if time_limit is None else _nonnegative("time_limit", time_limit),
        callback=callback,
        surrogate=surrogate_by_name(surrogate),
        stopping=_one_of("stopping", stopping, ("kkt", "change")),
        random_state=_checked_random_state(random_state),
    )
    return run(problem.point("x0", np.zeros(problem.dimension) if x0 is None else x0))


def minimize(
    fun: ValueAndGradient,
    constraint: Constraint,
    level: float,
    x0: ArrayLike | None = None,
    *,
    n: int | None = None,
    weak_convexity: float = 0.0,
    weights: ArrayLike | None = None,
    nonnegative: bool | NDArray[np.bool_] | None = None,
    **options: Any,
) -> Result:
    """Minimise a function given as x ↦ (value, gradient) subject to g(x) ≤ η.

    Parameters
    ----------
    fun : callable
        x ↦ (ψ(x), ∇ψ(x)).
    constraint : Constraint
    level : float
        η.
    x0 : array-like of shape (d,), optional
        A feasible start. Give this or `n`.
    n : int, optional
        Number of coordinates; the start is then the origin.
    weak_convexity : float, default=0.0
        μ such that ψ + μ/2 ‖·‖² is convex.
    weights, nonnegative
        As in `Problem`.
    **options
        As in `solve`.

    Returns
    -------
    Result

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import constraints, minimize
    >>> b = np.array([3.0, -2.0, 0.1, 0.0])
    >>> fit = minimize(lambda x: (0.5 * np.sum((x - b) ** 2), x - b), constraints.L1(), 4.0, n=4)
    >>> fit.x.round(4).tolist()
    [2.5, -1.5, 0.0, 0.0]
    """
    if (x0 is None) == (n is None):
        raise InvalidInputError("give either x0 or n, the number of coordinates")
    dimension = np.size(x0) if x0 is not None else n
    objective = Function(fun, dimension, weak_convexity)  # type: ignore[arg-type]  # checks n itself
    return solve(Problem(objective, constraint, level, weights, nonnegative), x0=x0, **options)  # type: ignore[arg-type]


class _Run:
    """One run of LCPP under its limits."""

    def __init__(
        self,
        *,
        problem: Problem,
        subsolver: Subsolver,
        levels: Levels,
        gamma: float,
        tol: float,
        max_iter: int,
        time_limit: float,
        callback: Callback | None,
        surrogate: Linearise,
        stopping: str,
        random_state: object,
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
        self.began = time.monotonic()
        self.history: deque[Record] = deque(maxlen=_HISTORY)
        self.n_outer = self.n_inner = self.n_evaluations = 0
        self.still = 0

    def __call__(self, x0: Vector) -> Result:
        if not self.problem.is_feasible(x0):
            raise InfeasibleError(
                f"x0 is not feasible: g(x0) = {self.problem.g(x0):g}, level = {self.problem.level:g}"
                + (", or a coordinate is negative that must not be" if np.any(x0 < 0) else "")
            )
        if 0 < self.tol < 10 * _EPS:
            warnings.warn(f"tol={self.tol:g} is below the resolution of float64", ConvergenceWarning, stacklevel=3)
        self.best = Iterate(x0, math.nan, np.full(x0.shape, math.nan))
        try:
            self.best = start = self._start(x0)
            self.null = null_fit(self.problem)
            status = self._follow(self._without_level(start))
            if status is None:
                self.best, self.n_outer, self.still = start, 0, 0
                self.history.clear()
                status = self._follow(self._with_level(start))
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        except (InvalidInputError, NumericalError):
            raise
        except Exception as error:
            self._fail(f"the objective failed: {type(error).__name__}: {error}", error)
        assert status is not None  # levels never end
        if status is Status.NUMERICAL_ERROR:
            self._fail("the objective or its gradient is not finite near the last good point", None)
        return self._conclude(status)

    def _start(self, x0: Vector) -> Iterate:
        psi, gradient = self.problem.objective.value_and_gradient(x0)
        self.n_evaluations += 1
        if not (np.isfinite(psi) and np.all(np.isfinite(gradient))):
            raise NumericalError(f"the objective is not finite at the start: psi(x0) = {psi}")
        return Iterate(x0, psi, gradient, step=1 / self.problem.objective.curvature)

    def _with_level(self, start: Iterate) -> Iterator[tuple[float, Iterate]]:
        """LCPP itself."""
        problem = self.problem
        etas = self.levels.sequence(problem.level, problem.g(start.x))
        accuracy = 0.1 * self.tol * self.null.scale
        return lcpp(problem, start, etas, self.gamma, self.subsolver, self.surrogate, accuracy, self._left)

    def _without_level(self, start: Iterate) -> Iterator[tuple[float, Iterate]]:
        """Minimise ψ alone, for as long as g ≤ η holds by itself.

        A nonconvex problem can have KKT points with y > 0 although its unconstrained minimiser is
        feasible, and LCPP may stop at one. Where the level does hold x back, the first gradient
        steps leave it, and this has cost a few evaluations.
        """
        problem = self.problem
        if problem.constraint.lipschitz == 0 or problem.level == 0:  # convex, or a single point
            return
        everything = Surrogate(problem.weights, None, math.inf, problem.constraint.lam, math.inf)
        iterate, accuracy = start, 0.1 * self.tol * self.null.scale
        for steps in chain((1, 2, 4), repeat(10)):
            free = Subproblem(problem.objective, everything, iterate.x, problem.objective.weak_convexity, problem.signs)
            iterate = self.subsolver.limited_to(steps).solve(free, iterate, accuracy, self._left())
            if problem.g(iterate.x) > problem.level:
                self._count(iterate)
                return
            yield problem.level, iterate

    def _follow(self, steps: Iterator[tuple[float, Iterate]]) -> Status | None:
        """Take steps until there is a reason to stop; None when there are no more of them."""
        while True:
            if self.n_outer >= self.max_iter:
                return Status.MAX_ITER
            if self._left() <= 0:
                return Status.TIME_LIMIT
            if (step := next(steps, None)) is None:
                return None
            eta_k, iterate = step
            last, self.best = self.best, self._count(iterate)
            self.n_outer += 1
            status = self._judge(eta_k, last, iterate)
            if status is not None:
                return status

    def _judge(self, eta_k: float, last: Iterate, iterate: Iterate) -> Status | None:
        """Why to stop after this step, or None."""
        certificate = assemble(self.problem, iterate.x, iterate.psi, iterate.gradient, self.null)
        length = float(np.linalg.norm(iterate.x))
        change = float(np.linalg.norm(iterate.x - last.x)) / length if length > 0 else 0.0
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
        met = certificate.kkt <= self.tol if self.stopping == "kkt" else change <= self.tol
        if met and not (self.stopping == "change" and eta_k < self.problem.level and length == 0):
            return Status.SOLVED
        if float(np.max(np.abs(iterate.x), initial=0.0)) > _PAST_ALL_BOUNDS:
            return Status.DIVERGING
        self.still = self.still + 1 if change <= 4 * _EPS and eta_k == self.problem.level else 0
        if self.still >= _STILL and self.tol > 0:
            return Status.STALLED
        return None

    def _count(self, iterate: Iterate) -> Iterate:
        self.n_inner += iterate.n_inner
        self.n_evaluations += iterate.n_evaluations
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
                seconds=time.monotonic() - self.began,
            )
        )

    def _left(self) -> float:
        return self.time_limit - (time.monotonic() - self.began)

    def _conclude(self, status: Status) -> Result:
        """Certify the last point from the data, name the outcome, warn where it is not what was asked for."""
        certificate = certify(self.problem, self.best.x)
        if status in (Status.SOLVED, Status.MAX_ITER, Status.STALLED):
            if certificate.kkt <= self.tol:
                status = Status.SOLVED
            elif certificate.kkt <= max(_ACCEPTABLE * self.tol, 1e3 * _EPS) and self.tol > 0:
                status = Status.SOLVED_INACCURATE
            elif status is Status.SOLVED:
                status = Status.STALLED
        message = self._message(status, certificate)
        if status not in (Status.SOLVED, Status.CALLBACK_STOP, Status.INTERRUPTED):
            warnings.warn(message, ConvergenceWarning, stacklevel=4)
        if self._is_separated():
            warnings.warn(
                "the data are separable by coefficients that cost nothing more as they grow: the loss has no "
                "minimiser within the level, and their size is set by tol alone. Lower the level, or regularise.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return self._result(status, message, certificate)

    def _is_separated(self) -> bool:
        """Whether ψ falls for ever along the part of x that is exempt or past its threshold."""
        slope = self.problem.constraint.slope(np.abs(self.best.x))
        free = slope == 0 if self.problem.weights is None else (slope == 0) | (self.problem.weights == 0)
        return bool(np.any(free)) and self.problem.objective.is_separated(np.where(free, self.best.x, 0.0))

    def _message(self, status: Status, certificate: Certificate) -> str:
        relation = "<=" if certificate.kkt <= self.tol else ">"
        figures = (
            f"KKT {certificate.kkt:.1e} {relation} tol {self.tol:.1e}; "
            f"g(x) = {certificate.g:.6g} <= level = {certificate.level:.6g}"
        )
        steps = f"after {self.n_outer} outer steps"
        stopped = {
            Status.SOLVED: f"Solved {steps}: {figures}."
            + ("" if certificate.active else " The constraint is inactive."),
            Status.SOLVED_INACCURATE: f"Nearly solved {steps}: {figures}. Raise max_iter or tol.",
            Status.MAX_ITER: f"Stopped {steps}, max_iter: {figures}. Raise max_iter or tol.",
            Status.TIME_LIMIT: f"Stopped {steps}, time_limit {self.time_limit:g} s: {figures}. Raise it or tol.",
            Status.INTERRUPTED: f"Interrupted {steps}: {figures}.",
            Status.CALLBACK_STOP: f"Stopped by the callback {steps}: {figures}.",
            Status.STALLED: f"Stalled {steps}: {figures}. x no longer moves in float64; raise tol, or scale the data.",
            Status.DIVERGING: f"Diverging {steps}: {figures}. psi has no minimiser within the level; lower the level.",
        }
        return stopped[status]

    def _result(self, status: Status, message: str, certificate: Certificate) -> Result:
        return Result(
            x=self.best.x,
            status=status,
            message=message,
            certificate=certificate,
            history=tuple(self.history),
            n_outer=self.n_outer,
            n_inner=self.n_inner,
            n_evaluations=self.n_evaluations,
            seconds=time.monotonic() - self.began,
            gamma=self.gamma,
            subsolver=self.subsolver.name,
            levels=type(self.levels).__name__.lower(),
            tol=self.tol,
            random_state=self.random_state,
        )

    def _fail(self, message: str, cause: BaseException | None) -> None:
        """Raise, with the last good point attached."""
        result = None
        if math.isfinite(self.best.psi):
            certificate = assemble(self.problem, self.best.x, self.best.psi, self.best.gradient, self.null)
            result = self._result(Status.NUMERICAL_ERROR, message, certificate)
        raise NumericalError(message, result) from cause


def _proximal_weight(problem: Problem, gamma: float | None) -> float:
    mu = problem.objective.weak_convexity
    if gamma is None:
        return 3 * mu if mu > 0 else 1e-3 * problem.objective.curvature
    weight = real("gamma", gamma)
    if not 0 < weight < math.inf:
        raise InvalidInputError(f"gamma must be in (0, inf), got {gamma!r}")
    if weight <= mu:
        raise InvalidInputError(
            f"gamma must be above the weak-convexity constant {mu:g} of the objective, got {weight:g}"
        )
    return weight


def _nonnegative(name: str, value: object) -> float:
    number = real(name, value)
    if not number >= 0:
        raise InvalidInputError(f"{name} must be nonnegative, got {value!r}")
    return number


def _count(name: str, value: object) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 0:
        raise InvalidInputError(f"{name} must be a nonnegative integer, got {value!r}")
    return int(value)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise InvalidInputError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    return value


def _checked_random_state(random_state: object) -> object:
    integer = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if random_state is None or integer or isinstance(random_state, np.random.RandomState | np.random.Generator):
        return random_state
    raise InvalidInputError(f"random_state must be an int, RandomState, Generator or None, got {random_state!r}")


def _unknown_option(name: str) -> str:
    options = list(solve.__kwdefaults__ or {})
    near = get_close_matches(name, options, n=3)
    return f"unknown option {name!r}" + (f"; did you mean {' or '.join(map(repr, near))}?" if near else "")
