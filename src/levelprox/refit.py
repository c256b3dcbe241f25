"""ψ minimised over a few features, without a level: Newton's method on margins.

One pass over the columns of these features gives margins, gradient and Hessian after a step; shorter steps cost none,
as margins are linear in the step. Where signs must hold, or Newton's method does not settle, the engine of working sets
takes over, with no feature counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from levelprox.objectives import Curved
from levelprox.problem import Problem
from levelprox.restriction import Enough, How, solve_restriction
from levelprox.result import Iterate

Vector = NDArray[np.float64]
Features = NDArray[np.intp]

_STEPS = 40
_SHOWS = 1e-12  # of ψ
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
    objective = cast(Curved, part.objective)
    x = np.zeros(part.dimension)
    _, mine, theirs = np.intersect1d(features, near.features, assume_unique=True, return_indices=True)
    x[part.coordinates(mine)] = near.x[part.coordinates(theirs)]
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


def _by_newton(objective: Curved, x: Vector, tolerance: float) -> tuple[Vector, float, Vector] | None:
    """x, ψ and margins where ‖∇ψ‖∞ or what is left to gain is small enough; None where that is not soon reached."""
    z = objective.margins(x)
    psi, gradient, hessian = objective.value_of(z), objective.gradient_of(z), objective.hessian_of(z, True)
    for _ in range(_STEPS):
        if float(np.max(np.abs(gradient), initial=0.0)) <= tolerance:
            return x, psi, z
        try:
            step = -np.asarray(np.linalg.solve(hessian, gradient), np.float64)
        except np.linalg.LinAlgError:
            return None
        foretold = -float(np.sum(step * gradient))
        if not (np.all(np.isfinite(step)) and foretold > 0):
            return None
        if foretold <= _SHOWS * abs(
            psi
        ):  # as where classes are separated: coefficients grow for ever, and gain nothing
            return x, psi, z
        new, gradient, following = objective.evaluated(z, step, True)
        psi_new, t = objective.value_of(new), 1.0
        while not psi_new <= psi - 1e-4 * t * foretold + _LAST_DIGITS * abs(psi):
            t /= 2
            if t < _SHORTEST:
                return None
            psi_new = objective.value_of(z + t * (new - z))
        if t < 1:
            new, gradient, following = objective.evaluated(z, t * step, True)
        if following is None or not np.all(np.isfinite(gradient)):
            return None
        x, z, psi, hessian = x + t * step, new, objective.value_of(new), following
    return None
