"""Residuals of the KKT system at x as a function of the multiplier y, the best y and subgradient, degenerate levels.

    |ψ'_j + y ω_j φ'(|x_j|) sign x_j|   where x_j ≠ 0,      max(|ψ'_j| − y λ ω_j, 0)   where x_j = 0

(max(−ψ'_j − y λ ω_j, 0) at a zero that may not be negative). Where a feature has the coefficients x_j and counts once,

    |ψ'_jc + y ω_j φ'(‖x_j‖₂) x_jc/‖x_j‖₂|   for each of them,      max(‖ψ'_j‖₂ − y λ ω_j, 0)   where all are 0.

Each is divided by the size u_j of its column, with ψ'_j taken after the intercept has taken up the column's mean
(`objectives/feature_scale.py`): the quotient does not depend on the unit of column j. All of these are convex and
piecewise linear in y.

With a multiplier y the level holds back the force f_j = min(y p_j, |ψ'_j|) on feature j, p_j = ω_j φ'(|x_j|). The move
that f_j stands for, f_j/c_j with c_j the curvature of ψ along column j, costs min(p_j f_j/c_j, ω_j (cap − φ(|x_j|))).
Complementarity is the largest part of a force f_j, in units of its column, for which the slack η − g(x) would pay:

    f_j · min(1, (η − g(x)) / min(η, cost_j)).

It rises with y, so the best y is found by bisection.

`LevelPart` has the derivatives of g over some features, with t_j = ‖x_j‖ and u_j = x_j/t_j:

    ∂g/∂x_j = ω_j φ'(t_j) u_j,      ∂²g/∂x_j² = ω_j [φ'(t_j)/t_j (I − u_j u_j') − h''(t_j) u_j u_j'].

For a feature with one coefficient u_j is its sign, and the second derivative is −ω_j h''(t_j).

At degenerate levels the multiplier may be unbounded. Where φ reaches its cap, points with some coordinates saturated
(φ' = 0) and the others 0 have 0 ∈ ∂g: MFCQ fails there. They are on the level η if η is a sum of cap·ω_j over some
coordinates; without weights, a whole number of caps.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike, NDArray

import levelprox._kernels as _kernels
from levelprox._runtime import one_blas_thread
from levelprox._typing import Features, Vector
from levelprox.certificate.null_model import NullFit
from levelprox.constraints import Constraint
from levelprox.exceptions import InvalidInputError
from levelprox.objectives import Subgradients
from levelprox.problem import Problem

_ROUNDING = 16 * float(np.finfo(np.float64).eps)  # of a level and of the cap, relative to the level
_FINEST = 1e-3  # a common unit of the weights below this share of the smallest says nothing
_LARGEST = 10_000  # weights, in common units, up to which their sums are searched
_MOST = 100_000  # a level above so many units has a sum within half a unit, near enough
_ROUNDING = 64 * float(np.finfo(np.float64).eps)  # of g, relative to the level: less slack is none


class Residual:
    """dist(0, ∂ψ_j + y ∂g_j), as a function of y: max over lines offset + slope·y, and 0.

    One for each coordinate of a feature that is not zero, and one for each feature that is.

    Parameters
    ----------
    problem : Problem
    x, gradient : ndarray of shape (d,)
    measured : bool, default=True
        Whether to divide by the size of columns; else figures are absolute.
    """

    def __init__(self, problem: Problem, x: Vector, gradient: Vector, measured: bool = True) -> None:
        self.lines = _kernels.KktLines(problem.compiled(), np.ascontiguousarray(x), gradient, measured)

    @property
    def support(self) -> Features:
        """The features that are not zero."""
        return self.lines.support

    def each(self, y: float) -> Vector:
        """Return the residuals that are not 0: of coordinates of the support, then of features at zero."""
        lines = self.lines
        on_support = np.abs(lines.support_offset + y * lines.support_slope)
        at_zero = lines.zero_offset + y * lines.zero_slope
        return np.concatenate([on_support, at_zero[at_zero > 0]])

    def squared(self, y: float) -> float:
        """Return the sum of their squares; beyond the range of float64 it is inf."""
        each = self.each(y)
        with np.errstate(over="ignore"):
            return float(np.sum(np.square(each, out=each)))

    def best(self, g: float, null: NullFit) -> tuple[float, float, float]:
        """Return the best multiplier y ≥ 0 where g(x) is g, with the residuals of stationarity and complementarity.

        y = 0 where the constraint clearly does not hold x back.
        """
        return self.lines.best(g, null.scale, null.curvature)


def in_units(problem: Problem, gradient: Vector) -> Vector:
    """Return ∇ψ feature by feature in units of its column; itself where nothing is known of columns."""
    scale = problem.objective.feature_scale
    return gradient if scale is None else scale.measured(gradient, problem.n_outputs, centred=problem.centred)


def pull(problem: Problem, gradient: Vector) -> Vector:
    """Return what draws a feature at zero away from it: |ψ'_j|, or −ψ'_j where x_j may not be negative."""
    size = problem.sizes(gradient)
    mask, all_nonnegative = problem.signs
    if all_nonnegative:
        np.negative(gradient, out=size)
    elif mask is not None:
        one_sided = mask.view(np.bool_)
        size[one_sided] = -gradient[one_sided]
    return size


def distance(problem: Problem, x: Vector, psi: float, gradient: Vector, null: NullFit) -> tuple[float, float]:
    """Return the KKT residual at x, in units of ∇ψ along a typical column, and the best multiplier."""
    y, stationarity, complementarity = problem.compiled().residual(x, gradient, null.scale, null.curvature)
    return max(stationarity, complementarity), y


def best_subgradient(
    problem: Problem, x: Vector, null: NullFit, subgradients: Subgradients, seconds: float, with_level: bool
) -> Vector:
    """Return ρ of the subgradient with the smallest KKT residual in the 2-norm, in the units of the features.

    Any subgradient makes a valid certificate; the best is sought by a bounded quasi-Newton method, in units in
    which everything is about 1.

    Parameters
    ----------
    problem : Problem
        Of features with one coefficient each.
    x : ndarray of shape (d,)
    null : NullFit
    subgradients : Subgradients
    seconds : float
        Time limit of the search.
    with_level : bool
        Whether the multiplier is free; else it is 0.
    """
    from scipy import optimize  # slow to import, and only losses with kinks need it

    rows, radius, center = subgradients.rows, subgradients.radius, subgradients.center
    residual, scale = Residual(problem, x, subgradients.gradient(subgradients.guess)), null.scale
    price = -np.broadcast_to(residual.lines.zero_slope, x.shape)  # λω_j in the unit of its column
    slope = np.zeros(problem.dimension)
    slope[residual.lines.support] = residual.lines.support_slope
    support, one_sided = x != 0, problem.must_be_nonnegative()
    unit = residual.best(problem.g(x), null)[0] or scale / (float(np.max(price, initial=0.0)) or 1.0)  # of y
    deadline = time.monotonic() + seconds
    best = (math.inf, subgradients.guess)

    def gap(parameters: Vector) -> tuple[float, Vector]:
        nonlocal best
        rho, y = parameters[:-1] * radius, float(parameters[-1]) * unit
        gradient = in_units(problem, center + rows.rmatvec(rho))
        below = np.minimum(gradient + y * price, 0)
        above = np.where(one_sided, 0.0, np.maximum(gradient - y * price, 0))
        off = np.where(support, gradient + y * slope, below + above) / scale
        by_y = float(off[support] @ slope[support])
        by_y += float(price[~support] @ ((below - above)[~support] / scale))
        value = 0.5 * float(off @ off)
        best = (value, rho) if value < best[0] else best
        if time.monotonic() > deadline:
            raise TimeoutError  # the best so far will have to do
        by_rho = rows.matvec(_pulled_back(problem, off)) * radius / scale
        return value, np.append(by_rho, by_y * unit / scale)

    with suppress(TimeoutError), one_blas_thread():
        optimize.minimize(
            gap,
            np.append(subgradients.guess / radius, float(with_level)),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-1.0, 1.0)] * radius.size + [(0.0, None if with_level else 0.0)],
            options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-28, "gtol": 1e-15},
        )
    return best[1]


def _pulled_back(problem: Problem, v: Vector) -> Vector:
    """Return L'v, where Lg is the gradient g in the units of its features."""
    scale = problem.objective.feature_scale
    if scale is None:
        return v
    return scale.pulled_back(v, centred=problem.centred)


class LevelPart:
    """Some features at x, one a row: sizes t_j, directions u_j = x_j / t_j, and ω_j φ'(t_j).

    Parameters
    ----------
    problem : Problem
    x : ndarray of shape (d,)
    support : ndarray of int
        The features.
    direction : ndarray of shape (d,), optional
        Where features that are zero go, 0 where they stay; by default all stay.
    """

    def __init__(self, problem: Problem, x: Vector, support: NDArray[np.intp], direction: Vector | None = None) -> None:
        self.problem = problem
        places = problem.coordinates(support)
        parts = x[places]
        self.t = t = problem.sizes(parts)
        self.u = parts.reshape(-1, problem.n_outputs) / np.where(t > 0, t, 1.0)[:, None]
        if direction is not None:
            ahead = direction[places]
            length = problem.sizes(ahead)
            ahead = ahead.reshape(-1, problem.n_outputs) / np.where(length > 0, length, 1.0)[:, None]
            self.u = np.where((t > 0)[:, None], self.u, ahead)
        self.weights = np.ones(support.size) if problem.weights is None else problem.weights[support]
        self.slope = self.weights * problem.constraint.slope(t)

    @property
    def slopes(self) -> Vector:
        """a = ∇g on the support: ω_j φ'(t_j) u_j."""
        return (self.slope[:, None] * self.u).ravel()

    def bent(self, hessian: Vector, y: float) -> Vector:
        """Return the matrix + y∇²g: y ω_j [φ'(t_j)/t_j (I − uu') − h''(t_j) uu'] for each feature."""
        count, n_outputs = self.u.shape
        along = -y * self.weights * self.problem.constraint.curvature(self.t)
        uu = self.u[:, :, None] * self.u[:, None, :]
        blocks = along[:, None, None] * uu
        if n_outputs > 1:  # there is nothing across a single coefficient
            across = y * self.slope / np.where(self.t > 0, self.t, np.inf)
            blocks += across[:, None, None] * (np.eye(n_outputs) - uu)
        matrix, each = hessian.copy().reshape(count, n_outputs, count, n_outputs), np.arange(count)
        matrix[each, :, each, :] += blocks
        return matrix.reshape(hessian.shape)


def cell(constraint: Constraint, alpha: ArrayLike) -> tuple[Vector, Vector]:
    """Return β and the rest α − β·cap in [0, cap), β the largest whole number; (0, α) without a cap.

    The cap and a level of so many caps are both rounded: an α within a few last digits of a whole number of caps is
    one, and has rest 0.
    """
    given = np.asarray(alpha, dtype=np.float64)
    if math.isinf(constraint.cap):
        return np.zeros_like(given), given
    rest = np.fmod(given, constraint.cap)  # exact
    whole = np.rint((given - rest) / constraint.cap)
    rounding = _ROUNDING * given
    above = constraint.cap - rest <= rounding
    return np.where(above, whole + 1, whole), np.where(above | ((rest <= rounding) & (whole > 0)), 0.0, rest)


def counted_weights(weights: ArrayLike) -> Vector:
    """Return the weights that are not 0, checked."""
    omega = np.asarray(weights, dtype=np.float64).ravel()
    if not np.all((omega >= 0) & np.isfinite(omega)):
        raise InvalidInputError("weights must be in [0, inf)")
    return omega[omega > 0]


def common_unit(weights: ArrayLike) -> float | None:
    """Return the largest q of which all positive weights are integer multiples, up to rounding; None if there is none.

    Euclid's algorithm on all weights at once: each round leaves a remainder of at most half of the last unit.

    Parameters
    ----------
    weights : array-like
        ω ≥ 0.

    Returns
    -------
    float or None
        The common unit.

    Examples
    --------
    >>> from levelprox import theory
    >>> theory.common_unit([1.0, 1.5, 0.0, 4.0])
    0.5
    """
    counted = counted_weights(weights)
    if not counted.size:
        return None
    unit = smallest = float(counted.min())
    rounding = _ROUNDING * float(counted.max())
    while unit >= _FINEST * smallest:
        rest = np.abs(counted - unit * np.rint(counted / unit))
        if np.all(rest <= rounding):
            return unit
        unit = float(rest[rest > rounding].min())
    return None


def degenerate_distance(problem: Problem) -> tuple[float | None, str]:
    """Return the distance of η to the nearest degenerate level, in units of cap·q, and whether it was checked.

    q is the common unit of the weights, 1 without weights.

    Parameters
    ----------
    problem : Problem
        The problem with its level η.

    Returns
    -------
    distance : float or None
        The distance; None if there is no degenerate level or it is not known.
    check : str
        "checked", or the reason why not.

    Examples
    --------
    >>> from levelprox import LinearModel, Problem, constraints, theory
    >>> model = LinearModel([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> theory.degenerate_distance(Problem(model, constraints.MCP(lam=2.0, theta=0.5), 1.25))
    (0.25, 'checked')
    """
    nearest, unit, check = degenerate_level(problem)
    return (None if nearest is None else abs(problem.level - nearest) / unit), check


def degenerate_level(problem: Problem) -> tuple[float | None, float, str]:
    """Return the degenerate level nearest to η: the nearest sum of cap·ω_j over some features.

    Parameters
    ----------
    problem : Problem
        The problem with its level η.

    Returns
    -------
    level : float or None
        The nearest degenerate level; None if there is none or it is not known.
    unit : float
        cap·q, with q the common unit of the weights.
    check : str
        "checked", or the reason why not.

    Examples
    --------
    >>> from levelprox import LinearModel, Problem, constraints, theory
    >>> model = LinearModel([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    >>> theory.degenerate_level(Problem(model, constraints.MCP(lam=2.0, theta=0.5), 1.25))
    (1.0, 1.0, 'checked')
    """
    cap, weights = problem.constraint.cap, problem.weights
    counted = None if weights is None else weights[weights > 0]
    if math.isinf(cap) or (counted is not None and not counted.size):
        return None, math.inf, "no degenerate level"
    if counted is None or np.all(counted == counted[0]):  # first, as it is the usual case and checked at every step
        unit = cap * (1.0 if counted is None else float(counted[0]))
        n = problem.n_features if counted is None else counted.size
        return round(min(problem.level / unit, n)) * unit, unit, "checked"
    q = common_unit(counted)
    if q is None or counted.max() > _LARGEST * q:
        return None, math.inf, "not checked: unequal weights"
    multiplicity = np.bincount(np.rint(counted / q).astype(np.intp))
    return _nearest_sum(multiplicity, problem.level / (cap * q)) * (cap * q), cap * q, "checked"


def _nearest_sum(multiplicity: NDArray[np.intp], target: float) -> int:
    """Return the sum of some of the numbers that is nearest to the target; n is there `multiplicity[n]` times."""
    total = int(multiplicity @ np.arange(multiplicity.size))
    if target >= total:
        return total
    if target > _MOST:
        return round(target)
    below = int(target)
    within = (1 << (2 * below + 2)) - 1  # 0 is a sum, so none beyond twice the target is nearer
    sums = 1  # bit s is set when s is a sum
    for number in np.flatnonzero(multiplicity):
        left, taken = int(multiplicity[number]), 1
        while left > 0:  # 1, 2, 4, … copies at a time: every count up to the multiplicity is made of these
            sums |= (sums << (int(number) * min(taken, left))) & within
            left, taken = left - taken, 2 * taken
    lower = (sums & ((2 << below) - 1)).bit_length() - 1
    above = sums >> (below + 1)
    upper = below + (above & -above).bit_length() if above else lower
    return min((lower, upper), key=lambda s: abs(s - target))
