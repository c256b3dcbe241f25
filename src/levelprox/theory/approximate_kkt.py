"""The paper's (ε, δ)-KKT statement about a point x: x is near a point x̄ that is approximately a KKT point.

    ‖x − x̄‖² ≤ δ,    g(x̄) ≤ η,    dist(0, ∂ψ(x̄) + ȳ ∂g(x̄))² ≤ ε,    ȳ|g(x̄) − η| ≤ ε

Where ψ has a gradient and x is accurate, x̄ = x suffices (`certify`). Next to a kink it does not: subgradients jump
there, and x is at none of the jumps. Then x̄ is the point of the theory, the exact solution of the subproblem that
gave x, computed accurately. Where ψ is a black box with kinks, the subgradients at x̄ cannot be listed, and the
values are an estimate from the inequality of the proof. For stochastic runs the statement is about means over seeds
(`expected_kkt`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from levelprox._typing import Vector
from levelprox.certificate import certify
from levelprox.certificate.null_model import NullFit
from levelprox.certificate.residual import Residual
from levelprox.exceptions import InfeasibleError, InvalidInputError
from levelprox.methods.lcpp import Linearise, linearise
from levelprox.methods.subsolvers import ACSA, Smoothing, Spectral, Subproblem, Subsolver
from levelprox.objectives import Objective, Stochastic
from levelprox.problem import Problem
from levelprox.result import Iterate, StopReason

_ROUNDS = 300
_STILL = 1e-12  # relative change of x that ends an accurate solve
_ACSA_STEPS = 10_000


@dataclass(frozen=True, eq=False)
class Nearby:
    """The (ε, δ)-KKT statement: x is within √δ of `x_bar`, where the KKT system holds up to ε.

    Parameters
    ----------
    x_bar : ndarray of shape (d,)
        x̄, with g(x̄) ≤ η.
    multiplier : float
        ȳ.
    stationarity_squared, complementarity : float
        dist(0, ∂ψ(x̄) + ȳ ∂g(x̄))² and ȳ|g(x̄) − η|.
    delta : float
        δ = ‖x − x̄‖².

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import Nearby
    >>> near = Nearby(np.zeros(2), 1.0, stationarity_squared=1e-8, complementarity=1e-6, delta=1e-10)
    >>> near.epsilon
    1e-06
    """

    x_bar: Vector
    multiplier: float
    stationarity_squared: float
    complementarity: float
    delta: float

    @property
    def epsilon(self) -> float:
        """ε, the larger of the two residuals."""
        return max(self.stationarity_squared, self.complementarity)


@dataclass(frozen=True)
class ExpectedKKT:
    """The (ε, δ)-KKT statement in expectation: means over runs, each with its standard error.

    Attributes
    ----------
    stationarity_squared, complementarity, delta : float
        Means of the fields of `Nearby`.
    stationarity_error, complementarity_error, delta_error : float
        Their standard errors.
    runs : int
        Number of runs.
    """

    stationarity_squared: float
    complementarity: float
    delta: float
    stationarity_error: float
    complementarity_error: float
    delta_error: float
    runs: int

    @property
    def epsilon(self) -> float:
        """ε: E dist² and E ȳ|g − η| are at most this, up to their standard errors."""
        return max(self.stationarity_squared, self.complementarity)


def nearby_kkt(
    problem: Problem,
    x: object,
    *,
    center: object = None,
    level: float | None = None,
    gamma: float | None = None,
    surrogate: Linearise = linearise,
    seconds: float = math.inf,
    rng: np.random.Generator | None = None,
) -> Nearby:
    """Solve the subproblem that gave x accurately, and certify its solution x̄.

    Parameters
    ----------
    problem : Problem
        The problem.
    x : array-like of shape (d,)
        The point.
    center : array-like of shape (d,), optional
        x^{k−1}; by default x itself.
    level : float, optional
        η_k; by default η.
    gamma : float, optional
        γ > μ; by default the value that `solve` uses.
    surrogate : callable
        The function that builds g_k.
    seconds : float
        Time limit for the search for a better x̄.
    rng : Generator, optional
        Needed only if ψ is sampled and has no exact form.

    Returns
    -------
    Nearby
        x̄ with its multiplier and the residuals of the KKT system.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, constraints, nearby_kkt, solve
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 5))
    >>> b = X[:, 0] + 0.1 * rng.standard_normal(60)
    >>> problem = Problem(LinearModel(X, b, loss="absolute"), constraints.L1(), 0.8)
    >>> near = nearby_kkt(problem, solve(problem).x)
    >>> problem.is_feasible(near.x_bar), near.epsilon < 1e-6, near.delta < 1e-6
    (True, True, True)
    """
    point = problem.point("x", x)
    middle = point if center is None else problem.point("center", center)
    eta_k = problem.level if level is None else level
    if eta_k > problem.level:
        raise InvalidInputError(f"level must be at most that of the problem, {problem.level:g}, got {eta_k:g}")
    objective = _exact(problem.objective)
    subsolver = _accurate(objective)
    weight = subsolver.proximal_weight(objective) if gamma is None else gamma
    if not weight > objective.weak_convexity:
        raise InvalidInputError(f"gamma must be above the weak convexity {objective.weak_convexity:g}, got {weight:g}")
    g_k = surrogate(problem.constraint, middle, eta_k, problem.weights)
    coordinates = subsolver.coordinates(objective, problem.centred)
    subproblem = Subproblem(objective, g_k, middle, weight, problem.signs, coordinates)
    deadline = time.monotonic() + seconds
    solution = _feasible_solution(problem, subproblem, point, subsolver, deadline, rng)
    if isinstance(subsolver, ACSA):
        again = _go_on(subproblem, solution, subsolver, deadline, rng)
        return _by_the_proof(problem, subproblem, point, solution, again)
    delta = float(np.sum((point - solution.x) ** 2))
    left = max(0.0, deadline - time.monotonic())
    return min(_at(problem.with_objective(objective), solution, delta, left), key=lambda near: near.epsilon)


def expected_kkt(runs: Sequence[Nearby]) -> ExpectedKKT:
    """Return means over independent runs with their standard errors.

    Parameters
    ----------
    runs : sequence of Nearby
        At least two runs, with different seeds.

    Returns
    -------
    ExpectedKKT
        The means and standard errors.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import Nearby, expected_kkt
    >>> runs = [Nearby(np.zeros(2), 1.0, s, 0.0, 0.0) for s in (1.0, 2.0, 3.0)]
    >>> expected = expected_kkt(runs)
    >>> expected.epsilon, expected.runs
    (2.0, 3)
    """
    if len(runs) < 2:
        raise InvalidInputError(f"an expectation needs at least 2 runs, got {len(runs)}")
    figures = np.array([(run.stationarity_squared, run.complementarity, run.delta) for run in runs])
    stationarity, complementarity, delta = figures.mean(axis=0).tolist()
    of_s, of_c, of_d = (figures.std(axis=0, ddof=1) / math.sqrt(len(runs))).tolist()
    return ExpectedKKT(stationarity, complementarity, delta, of_s, of_c, of_d, len(runs))


def _exact(objective: Objective) -> Objective:
    return objective.exact if isinstance(objective, Stochastic) and objective.exact is not None else objective


def _accurate(objective: Objective) -> Subsolver:
    """Return the most accurate subsolver for ψ."""
    if Spectral.can_take(objective):
        return Spectral(max_steps=1000, accuracy=1e-6)
    if Smoothing.can_take(objective):
        return Smoothing(max_steps=1000, accuracy=1e-2)
    return ACSA(steps=_ACSA_STEPS)


def _feasible_solution(
    problem: Problem,
    subproblem: Subproblem,
    x: Vector,
    subsolver: Subsolver,
    deadline: float,
    rng: np.random.Generator | None,
) -> Iterate:
    """Return an accurate solution with computed g ≤ η_k, as in a step of LCPP."""
    # x^{k−1} is feasible for its own subproblem; so is x, unless it came from another method.
    inside = subproblem.surrogate.value(x) <= subproblem.surrogate.level
    start = x if inside else subproblem.center
    objective = subproblem.objective
    psi, gradient = objective.value_and_gradient(start)
    first = Iterate(start, psi, gradient, step=1 / objective.curvature)
    for _ in range(3):
        solution = _go_on(subproblem, first, subsolver, deadline, rng)
        excess = problem.g(solution.x) - subproblem.surrogate.level
        if excess <= 0:
            return solution
        subproblem = replace(subproblem, surrogate=subproblem.surrogate.tightened(4 * excess))
    raise InfeasibleError(
        f"no solution of the subproblem satisfies its level {subproblem.surrogate.level:g} in float64"
    )


def _go_on(
    subproblem: Subproblem, start: Iterate, subsolver: Subsolver, deadline: float, rng: np.random.Generator | None
) -> Iterate:
    """Repeat the subsolver on the same subproblem until x does not change; only once for AC-SA."""
    iterate = start
    for _ in range(1 if isinstance(subsolver, ACSA) else _ROUNDS):
        last, iterate = iterate, subsolver.solve(subproblem, iterate, seconds=deadline - time.monotonic(), rng=rng)
        if iterate.stop == StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        moved = float(np.max(np.abs(iterate.x - last.x), initial=0.0))
        settled = iterate.kinks is None or iterate.kinks.missed <= _STILL * iterate.kinks.scale
        if settled and moved <= _STILL * float(np.max(np.abs(iterate.x), initial=0.0)):
            break
        if time.monotonic() > deadline:
            break
    return iterate


def _at(problem: Problem, solution: Iterate, delta: float, seconds: float) -> tuple[Nearby, Nearby]:
    """Return the statement at x̄ with the multiplier and gradient of the subproblem, and with those of `certify`."""
    x, y = solution.x, solution.multiplier
    slack = abs(problem.g(x) - problem.level)
    apart = Residual(problem, x, solution.gradient, measured=False).squared(y)
    # The scale does not matter for absolute residuals.
    hint = None if solution.kinks is None else solution.kinks.slopes
    at = certify(problem, x, NullFit(x, solution.psi, solution.gradient, 1.0), hint=hint, seconds=seconds)
    return (
        Nearby(x, y, apart, y * slack, delta),
        Nearby(x, at.multiplier, at.stationarity_squared, at.complementarity, delta),
    )


def _by_the_proof(problem: Problem, subproblem: Subproblem, x: Vector, first: Iterate, again: Iterate) -> Nearby:
    """Return an estimate for the case that the subgradients at x̄ cannot be listed and x̄ is known only up to r.

    At the exact solution dist ≤ γ‖x̄ − x^{k−1}‖ + ȳ‖∇h(x̄) − ∇h(x^{k−1})‖. x̄ is assumed to be within r of the second
    of two successive solutions, r twice their distance, and every value is increased accordingly.
    """

    def gradient_of_h(point: Vector) -> Vector:
        slope = (problem.constraint.lam - problem.constraint.slope(np.abs(point))) * np.sign(point)
        return np.asarray(slope if problem.weights is None else problem.weights * slope)

    largest = 1.0 if problem.weights is None else float(np.max(problem.weights, initial=0.0))
    r = 2 * float(np.linalg.norm(again.x - first.x))
    y = max(first.multiplier, again.multiplier)
    moved = float(np.linalg.norm(again.x - subproblem.center)) + r
    bent = float(np.linalg.norm(gradient_of_h(again.x) - gradient_of_h(subproblem.center)))
    distance = subproblem.gamma * moved + y * (bent + problem.constraint.lipschitz * largest * r)
    slack = abs(problem.g(again.x) - problem.level) + problem.constraint.lam * largest * r * math.sqrt(x.size)
    delta = (float(np.linalg.norm(x - again.x)) + r) ** 2
    return Nearby(again.x, y, distance**2, y * slack, delta)
