"""Newton's method on the KKT system of the nonzero coordinates, for the last digits.

On S = supp(x), with the level binding and a_j = ω_j φ'(|x_j|) sign x_j = ∂g/∂x_j,

    [ ∇²ψ_SS − y diag(ω h'')   a ] [dx]      [ ∇ψ_S + y a ]
    [ a'                       0 ] [dy]  = − [ g(x) − η   ]

converges quadratically near a solution where the matrix has inertia (|S|, 1, 0). The step violates the level by about
½ dx'h''dx, so a test on ψ alone would often reject it (Maratos effect). Hence a second-order correction along a, and a
retraction: the surrogate set of the new point is inside {g ≤ η}, and the new point is projected onto it. Both use
columns scaled to one size; otherwise the correction would change mainly small coefficients.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf as potrf
from scipy.linalg.lapack import dpotrs as potrs

from levelprox._typing import Vector
from levelprox.certificate.residual import LevelPart
from levelprox.methods.lcpp import majorise
from levelprox.objectives import Curved
from levelprox.problem import Problem
from levelprox.projection import LARGEST_WEIGHT, SMALLEST_WEIGHT, project
from levelprox.result import Iterate

_LAST_DIGITS = 4 * float(np.finfo(np.float64).eps)
_RIDGE = 1e-10  # where the Hessian has a unit diagonal


def polish(problem: Problem, at: Iterate, y: float) -> Iterate | None:
    """Return the point after one Newton step on the KKT system; None if it does not apply or does not lower ψ.

    Parameters
    ----------
    problem : Problem
        With a `Curved` objective.
    at : Iterate
        A feasible point, with its margins.
    y : float
        The multiplier there.
    """
    assert at.margins is not None
    objective = cast(Curved, problem.objective)
    support = problem.support(at.x)
    if problem.weights is not None:
        support = np.union1d(support, problem.unpenalized)
    with np.errstate(over="ignore", invalid="ignore"):  # in units of 1e-160 squares are nothing, and their inverses inf
        step = _newton_step(problem, objective, at, y, support)
        if step is None or not np.all(np.isfinite(step)):
            return None
        x = _retract(problem, at.x, step, support)
    if x is None or np.array_equal(x, at.x):
        return None
    margins = at.margins + objective.moved(x - at.x)
    psi = objective.value_of(margins)
    if not psi <= at.psi + _LAST_DIGITS * abs(at.psi):
        return None
    gradient = objective.gradient_of(margins)
    if not np.all(np.isfinite(gradient)):
        return None
    return replace(at, x=x, psi=psi, gradient=gradient, margins=margins, multiplier=y)


def _newton_step(
    problem: Problem, objective: Curved, at: Iterate, y: float, support: NDArray[np.intp]
) -> Vector | None:
    """Return dx on the support; None if the KKT matrix does not have the inertia of a strict local minimum."""
    assert at.margins is not None
    places, parts = problem.coordinates(support), LevelPart(problem, at.x, support)
    a = parts.slopes
    if not np.any(a):
        return None  # all slopes are 0: the level is not an equation in these coordinates
    if at.hessian is None or not objective.convex:  # the model has |ℓ''| where it must be convex
        hessian = cast(Curved, objective.restrict(support)).hessian_of(at.margins, False)
    else:
        hessian = at.hessian[np.ix_(places, places)]
    # In units in which the Hessian has a unit diagonal, the scales of columns do not matter.
    diagonal = np.diagonal(hessian)
    unit = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    matrix = parts.bent(hessian, y)
    matrix *= unit[:, None] * unit
    a, gradient = a * unit, (at.gradient[places] + y * a) * unit
    gap = problem.g(at.x) - problem.level
    along = _within_level(matrix, a, gradient, gap)
    if along is None:
        return None
    return along * unit


def _within_level(matrix: Vector, a: Vector, gradient: Vector, gap: float) -> Vector | None:
    """Return dx of the KKT system; on the null space of a' the matrix is positive definite iff the inertia is right.

    A Householder reflection maps a to the first axis, and the other axes to a basis of that null space.
    """
    square = float(np.sum(a * a))
    v = a.copy()
    v[0] += np.copysign(np.sqrt(square), a[0])
    length = float(np.sum(v * v))
    if not length > 0 or not square > 0:  # slopes whose squares are below the smallest number
        return None
    twice = 2 / length

    def reflected(w: Vector) -> Vector:
        return w - twice * float(np.sum(v * w)) * v

    bent = twice * np.sum(matrix * v, axis=1)
    bent -= twice / 2 * float(np.sum(v * bent)) * v
    inside = (matrix - np.outer(v, bent) - np.outer(bent, v))[1:, 1:]
    # Along what changes neither ψ nor g, such as a constant added to the intercepts of all classes, it is singular.
    inside[np.diag_indices_from(inside)] += _RIDGE
    if not np.all(np.isfinite(inside)):
        return None
    to_level = -gap / square * a
    if not inside.size:
        return to_level
    factor, failed = potrf(inside, lower=True, overwrite_a=True)
    if failed:
        return None
    slope = reflected(gradient + np.sum(matrix * to_level, axis=1))[1:]
    return to_level + reflected(np.append(0.0, potrs(factor, -slope, lower=True)[0]))


def _retract(problem: Problem, x: Vector, step: Vector, support: NDArray[np.intp]) -> Vector | None:
    """Return x + step, corrected to second order and projected onto its surrogate set; None if a sign changes."""
    new, places = x.copy(), problem.coordinates(support)
    new[places] += step
    if _turned(problem, x, new, support):
        return None
    scale = problem.objective.feature_scale
    unit = None if scale is None else scale.working_units
    unit = np.ones(problem.n_features) if unit is None else unit
    of_coordinates = np.repeat(unit, problem.n_outputs)
    a = LevelPart(problem, new, support).slopes / of_coordinates[places]
    square = float(np.sum(a * a))
    if square > 0:
        new[places] += (problem.level - problem.g(new)) / square * a / of_coordinates[places]
        if _turned(problem, x, new, support):
            return None
    if not np.all(np.isfinite(new)):
        return None
    surrogate = majorise(problem.constraint, new, problem.level, problem.weights)
    assert surrogate.weights is not None
    weights = surrogate.weights / unit
    weights[(weights > 0) & (weights < SMALLEST_WEIGHT)] = SMALLEST_WEIGHT  # a larger price is a smaller set
    if np.max(weights, initial=0.0) > LARGEST_WEIGHT:  # columns hardly bend ψ where samples are far out
        return None
    inside = project(
        new * of_coordinates,
        0.0,
        surrogate.tau,
        weights=weights,
        nonnegative=problem.must_be_nonnegative() if problem.n_outputs == 1 else None,
        width=problem.n_outputs,
    )[0].astype(np.float64, copy=False)
    inside = inside / of_coordinates
    return inside if problem.is_feasible(inside) else None


def _turned(problem: Problem, x: Vector, new: Vector, support: NDArray[np.intp]) -> bool:
    """Return whether a penalized feature would change its sign."""
    counts = support if problem.weights is None else support[problem.weights[support] > 0]
    places = problem.coordinates(counts)
    return bool(np.any(np.sum((x[places] * new[places]).reshape(-1, problem.n_outputs), axis=1) <= 0))
