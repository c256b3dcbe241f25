"""Residuals of the KKT system at x as a function of the multiplier y, the best y and the best subgradient.

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
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import levelprox._kernels as _kernels
from levelprox._runtime import one_blas_thread
from levelprox._typing import Features, Vector
from levelprox.certificate.null_model import NullFit
from levelprox.objectives import Subgradients
from levelprox.problem import Problem

CLEARLY = 1e-6  # relative: what counts as inside the level, and as stationary
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

    def largest(self, y: float) -> float:
        """Return the largest residual."""
        return self.lines.largest(y)

    def best(self, g: float, null: NullFit) -> Best:
        """Return the best multiplier y ≥ 0 where g(x) is g, and its residuals.

        y = 0 where the constraint clearly does not hold x back.
        """
        return Best(*self.lines.best(g, null.scale, null.curvature))


@dataclass(frozen=True)
class Best:
    """The best multiplier, and the residuals with it."""

    y: float
    stationarity: float
    complementarity: float

    @property
    def largest(self) -> float:
        """The larger of the two residuals."""
        return max(self.stationarity, self.complementarity)


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
    unit = residual.best(problem.g(x), null).y or scale / (float(np.max(price, initial=0.0)) or 1.0)  # of y
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
