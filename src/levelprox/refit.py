"""ψ minimised over a few features, without a level: Newton's method on margins.

One pass over the columns of these features gives margins, gradient and Hessian after a step; shorter steps cost none,
as margins are linear in the step. Where signs must hold, or Newton's method does not settle, the engine of working sets
takes over, with no feature counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from levelprox.objectives import Model
from levelprox.problem import Problem
from levelprox.restriction import Enough, How, solve_restriction
from levelprox.result import Iterate

Vector = NDArray[np.float64]
Features = NDArray[np.intp]

_STEPS = 40
_SHOWS = 1e-12  # of ψ
_RIDGE = 1e-9  # of the curvature at the start
_FAR = 8.0  # by how much the log of the curvature may change in a step
_ARMIJO = 1e-4
_SHORTEST = 2.0**-10  # of a Newton step
_LAST_DIGITS = 4 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Fit:
    """ψ minimised over a few features.

    Attributes
    ----------
    features : ndarray of int
        The features, sorted, exempt ones included.
    x : ndarray
        Their coefficients.
    psi : float
    margins : ndarray
    """

    features: Features
    x: Vector
    psi: float
    margins: Vector


def refit(problem: Problem, features: Features, near: Fit, tolerance: float, how: How) -> Fit:
    """ψ minimised over these features, begun at the coefficients of another fit.

    Parameters
    ----------
    problem : Problem
        ψ and signs; its level does not matter.
    features : ndarray of int
        Sorted.
    near : Fit
    tolerance : float
        On ‖∇ψ‖∞ over these features.
    how : How
    """
    part = problem.restrict(features)
    objective = cast(Model, part.objective)
    x = np.zeros(part.dimension)
    _, mine, theirs = np.intersect1d(features, near.features, assume_unique=True, return_indices=True)
    x[part.coordinates(mine)] = near.x[part.coordinates(theirs)]
    if not objective.value_of(objective.margins(x)) <= objective.value_of(objective.origin):
        x = np.zeros(part.dimension)  # large coefficients held each other; without one of them all bounds may break
    if not np.any(part.must_be_nonnegative()):
        found = _by_newton(objective, x, tolerance)
        if found is not None:
            return Fit(features, *found)
    part = replace(part, weights=np.zeros(features.size))
    start = Iterate(x, *objective.value_and_gradient(x), step=1 / problem.objective.curvature)
    end = solve_restriction(part, start, Enough(tolerance), how)
    if end.stop == "interrupted":
        raise KeyboardInterrupt
    return Fit(features, end.x, end.psi, objective.margins(end.x) if end.margins is None else end.margins)


def _by_newton(objective: Model, x: Vector, tolerance: float) -> tuple[Vector, float, Vector] | None:
    """x, ψ and margins where ‖∇ψ‖∞ or what is left to gain is small enough; None where that is not soon reached."""
    z = objective.margins(x)
    psi, gradient, hessian = objective.value_of(z), objective.gradient_of(z), objective.hessian_of(z, True)
    ridge = np.diag(_RIDGE * np.diagonal(hessian))
    for _ in range(_STEPS):
        if float(np.max(np.abs(gradient), initial=0.0)) <= tolerance:
            return x, psi, z
        step = _newton_step(hessian, gradient, ridge, objective.width)
        if step is None:
            return None
        foretold = -float(np.sum(step * gradient))
        if foretold <= _SHOWS * abs(psi):  # as where classes are separated: coefficients grow for ever and gain nothing
            return x, psi, z
        along = objective.moved(step)
        t = min(1.0, _FAR / (objective.concordance * float(np.max(np.abs(along))))) if _bends(objective) else 1.0
        while not objective.value_of(z + t * along) <= psi - _ARMIJO * t * foretold + _LAST_DIGITS * abs(psi):
            t /= 2
            if t < _SHORTEST:
                return None
        new, gradient, following = objective.evaluated(z, t * step, True)
        if following is None or not np.all(np.isfinite(gradient)):
            return None
        x, z, psi, hessian = x + t * step, new, objective.value_of(new), following
    return None


def _newton_step(hessian: Vector, gradient: Vector, ridge: Vector, width: int) -> Vector | None:
    """−(H + ridge)⁻¹∇ψ; where features have several coefficients, the shortest step.

    The ridge keeps features apart whose curvature is gone, as where they separate classes. ψ does not see all classes
    shifted alike: H is zero in that direction, and what is added there moves nothing.
    """
    hessian = hessian + ridge
    if width > 1:
        curvature = np.diagonal(hessian).reshape(-1, width).mean(axis=1)
        hessian = hessian + np.kron(np.diag(curvature), np.ones((width, width)))
    try:
        step = -np.asarray(np.linalg.solve(hessian, gradient), np.float64)
    except np.linalg.LinAlgError:
        return None
    return step if np.all(np.isfinite(step)) and np.sum(step * gradient) < 0 else None


def _bends(objective: Model) -> bool:
    """Whether the curvature is known to change, and how fast: then margins must not go far in a step."""
    return 0 < objective.concordance < math.inf
