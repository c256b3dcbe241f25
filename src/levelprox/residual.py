"""How far the KKT system is from holding at x, as a function of the multiplier y, and the best y and subgradient.

    |ψ'_j + y ω_j φ'(|x_j|) sign x_j|   where x_j ≠ 0,      max(|ψ'_j| − y λ ω_j, 0)   where x_j = 0

(max(−ψ'_j − y λ ω_j, 0) at a zero that may not be negative). Where a feature has the coefficients x_j and counts once,

    |ψ'_jc + y ω_j φ'(‖x_j‖₂) x_jc/‖x_j‖₂|   for each of them,      max(‖ψ'_j‖₂ − y λ ω_j, 0)   where all are 0.

All of these, and the complementarity y|g(x) − η|, are convex and piecewise linear in y, so the best y is found exactly.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from levelprox import _kernels
from levelprox.null_fit import NullFit
from levelprox.objectives import Subgradients
from levelprox.problem import Problem

Vector = NDArray[np.float64]

CLEARLY = 1e-6  # relative: what counts as inside the level, and as stationary


def price_of(problem: Problem, g: float, psi: float, null: NullFit) -> float:
    """What a unit of y costs in complementarity, in units of stationarity, where g(x) is g.

    Relative to ψ, and relative to the multiplier scale/λ and the level η themselves: the first alone would call the
    null fit solved where ψ is large beside its gradient.
    """
    slack = abs(problem.level - g)
    share = slack / problem.level if problem.level > 0 else 0.0
    largest_weight = 1.0 if problem.weights is None else float(np.max(problem.weights, initial=0.0))
    return max(slack * null.scale / max(abs(psi), null.scale), problem.constraint.lam * largest_weight * share)


class Residual:
    """dist(0, ∂ψ_j + y ∂g_j), as a function of y: max over lines offset + slope·y, and 0.

    One for each coordinate of a feature that is not zero, and one for each feature that is.
    """

    def __init__(self, problem: Problem, x: Vector, gradient: Vector) -> None:
        # Of the vectors over all features only zero_offset is made, and those of weights that differ: d may be large.
        sizes = x if problem.width == 1 else problem.sizes(x)
        self.support = problem.support(x)
        self.t = t = np.abs(sizes[self.support])
        slope = np.asarray(problem.constraint.slope(t), np.float64)
        if problem.weights is not None:
            slope = problem.weights[self.support] * slope
        places = problem.coordinates(self.support)
        self.support_offset = gradient[places]
        if problem.width == 1:
            self.support_slope = slope * np.sign(x[places])
        else:
            self.support_slope = np.repeat(slope, problem.width) * (x[places] / np.repeat(t, problem.width))
        self.zero_offset = _pull(problem, gradient)
        self.zero_offset[self.support] = -np.inf
        self.zero_slope = -problem.constraint.lam * (np.ones(1) if problem.weights is None else problem.weights)

    def each(self, y: float) -> Vector:
        """The residuals that are not 0: of coordinates of the support, then of features at zero."""
        on_support = np.abs(self.support_offset + y * self.support_slope)
        over = np.flatnonzero(self.zero_offset > -y * self.zero_slope)  # at a solution few, or none
        slope = self.zero_slope if self.zero_slope.size == 1 else self.zero_slope[over]
        return np.concatenate([on_support, self.zero_offset[over] + y * slope])

    def squared(self, y: float) -> float:
        """dist₂(0, ∂ψ + y ∂g)²; beyond the range of float64 it is inf."""
        each = self.each(y)
        with np.errstate(over="ignore"):
            return float(np.sum(np.square(each, out=each)))

    def largest(self, y: float) -> float:
        """The largest residual."""
        return _kernels.largest_residual(*self._lines, y)

    def best_multiplier(self, price: float) -> float:
        """The smallest y ≥ 0 minimising max(residual(y), price·y), exactly."""
        return _kernels.best_multiplier(*self._lines, price)

    @property
    def _lines(self) -> tuple[Vector, Vector, Vector, Vector]:
        return self.support_offset, self.support_slope, self.zero_offset, self.zero_slope


def _pull(problem: Problem, gradient: Vector) -> Vector:
    """What draws a feature at zero away from it: |ψ'_j|, or −ψ'_j where x_j may not be negative."""
    pull = problem.sizes(gradient)
    mask, all_nonnegative = problem.signs
    if all_nonnegative:
        np.negative(gradient, out=pull)
    elif mask is not None:
        one_sided = mask.view(np.bool_)
        pull[one_sided] = -gradient[one_sided]
    return pull


def distance(problem: Problem, x: Vector, psi: float, gradient: Vector, null: NullFit) -> tuple[float, float]:
    """How far the KKT system is from holding at x, in units of ∇ψ, and the multiplier with which it is nearest."""
    residual, g = Residual(problem, x, gradient), problem.g(x)
    price = price_of(problem, g, psi, null)
    y = residual.best_multiplier(price)
    # Clearly below the level and stationary without it: the constraint does not hold x back.
    if problem.level - g > CLEARLY * problem.level and residual.largest(0.0) <= CLEARLY * null.scale:
        y = 0.0
    return max(residual.largest(y), y * price), y


def best_subgradient(
    problem: Problem, x: Vector, psi: float, null: NullFit, subgradients: Subgradients, seconds: float
) -> Vector:
    """The subgradient of ψ that brings the KKT system nearest to 0 in the 2-norm, with y free.

    Any subgradient makes a valid certificate; the best is sought by a bounded quasi-Newton method, in units in
    which everything is about 1.
    """
    from scipy import optimize  # slow to import, and only losses with kinks need it
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    rows, radius, center = subgradients.rows, subgradients.radius, subgradients.center
    weights = np.ones(problem.dimension) if problem.weights is None else problem.weights
    lam, price, scale = problem.constraint.lam, price_of(problem, problem.g(x), psi, null), null.scale
    unit = scale / (lam * (float(np.max(weights)) or 1.0))  # of y
    support = x != 0
    slope = weights * problem.constraint.slope(np.abs(x)) * np.sign(x)
    one_sided = problem.must_be_nonnegative()
    deadline = time.monotonic() + seconds
    best = (math.inf, subgradients.guess)

    def gap(parameters: Vector) -> tuple[float, Vector]:
        nonlocal best
        rho, y = parameters[:-1] * radius, float(parameters[-1]) * unit
        gradient = center + rows.rmatvec(rho)
        below = np.minimum(gradient + y * lam * weights, 0)
        above = np.where(one_sided, 0.0, np.maximum(gradient - y * lam * weights, 0))
        off = np.where(support, gradient + y * slope, below + above) / scale
        by_y = float(off[support] @ slope[support])
        by_y += lam * float(weights[~support] @ ((below - above)[~support] / scale))
        cost = y * price / scale
        value = 0.5 * float(off @ off) + 0.5 * cost**2
        best = (value, rho) if value < best[0] else best
        if time.monotonic() > deadline:
            raise TimeoutError  # the best so far will have to do
        return value, np.append(rows.matvec(off) * radius / scale, (by_y + cost * price) * unit / scale)

    # Threads of BLAS wait for one another on matrices this small, on a busy machine for seconds.
    with suppress(TimeoutError), threadpool_limits(1, user_api="blas"):
        optimize.minimize(
            gap,
            np.append(subgradients.guess / radius, 0.0),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-1.0, 1.0)] * radius.size + [(0.0, None)],
            options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-28, "gtol": 1e-15},
        )
    return np.asarray(center + rows.rmatvec(best[1]), dtype=np.float64)
