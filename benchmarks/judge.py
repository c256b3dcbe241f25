"""Figures of a fit recomputed in float64 from data and coefficients, independently of all programs.

    loss   Σ_i ℓ(⟨a_i, x⟩ + c, b_i) / n,  ℓ = log(1 + exp(−bz)) or (b − z)²
    g      Σ_j φ(|x_j|)
    KKT    min over y ≥ 0 of the largest of  dist∞(0, ∇ψ + y ∂g)/s,  y|g − η|/max(|ψ|, s)  and  (yλ/s)·|g − η|/η,
           where s = ‖∇ψ‖∞ at the null fit
    refit  the loss of a support, fitted with an intercept

For a penalised fit η is its own g, so that only the first term is left; y may also be given, and is not sought then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

SEPARATED = 1e-8  # a logistic loss below this counts as 0: the data are separated, and the infimum is not attained
NEWTON_STEPS = 200
ACCURACY = 1e-10  # of a refit: twice the Newton decrement, relative to the loss
RIDGE = 1e-13  # of the largest curvature: keeps Newton's system solvable where columns repeat one another


@dataclass(frozen=True)
class Penalty:
    """φ of one coordinate by its name and the parameters λ and θ that peers and papers use.

    l1:   λt.
    mcp:  λt − t²/(2θ) up to t = θλ, then θλ²/2.
    scad: λt up to λ, λt − (t − λ)²/(2(θ − 1)) up to θλ, then (θ + 1)λ²/2.
    """

    name: str
    lam: float = 1.0
    theta: float = np.inf

    def phi(self, t: Vector) -> Vector:
        """φ(t), t ≥ 0."""
        if self.name == "l1":
            return self.lam * t
        if self.name == "mcp":
            return np.where(t < self.theta * self.lam, self.lam * t - t**2 / (2 * self.theta), self.cap)
        past = np.maximum(t - self.lam, 0.0)
        return np.where(t < self.theta * self.lam, self.lam * t - past**2 / (2 * (self.theta - 1)), self.cap)

    def slope(self, t: Vector) -> Vector:
        """φ'(t), t > 0."""
        if self.name == "l1":
            return np.full_like(t, self.lam)
        if self.name == "mcp":
            return np.maximum(self.lam - t / self.theta, 0.0)
        return np.maximum(self.lam - np.maximum(t - self.lam, 0.0) / (self.theta - 1), 0.0)

    @property
    def cap(self) -> float:
        """sup φ."""
        if self.name == "l1":
            return np.inf
        return self.lam**2 * (self.theta if self.name == "mcp" else self.theta + 1) / 2


def g(x: Vector, penalty: Penalty) -> float:
    """Σ_j φ(|x_j|), rounded once."""
    return math.fsum(penalty.phi(np.abs(x[x != 0.0])))


def margins(X: Any, x: Vector, intercept: float = 0.0) -> Vector:
    """Xx + c."""
    return np.asarray(X @ np.asarray(x, dtype=np.float64), dtype=np.float64).ravel() + intercept


def mean_loss(z: Vector, b: Vector, loss: str) -> float:
    """Return the average of ℓ(z_i, b_i)."""
    return float(np.mean(np.logaddexp(0.0, -b * z) if loss == "logistic" else (b - z) ** 2))


def derivative(z: Vector, b: Vector, loss: str) -> Vector:
    """ℓ'(z_i, b_i)/n."""
    if loss == "logistic":
        return -b * _expit(-b * z) / b.size
    return 2 * (z - b) / b.size


def curvature(z: Vector, b: Vector, loss: str) -> Vector:
    """ℓ''(z_i, b_i)/n."""
    if loss == "logistic":
        return _expit(z) * _expit(-z) / b.size
    return np.full(b.size, 2 / b.size)


def _expit(z: Vector) -> Vector:
    return np.exp(-np.logaddexp(0.0, -z))


def null_scale(X: Any, b: Vector, loss: str, fit_intercept: bool = False) -> float:
    """‖∇ψ‖∞ at the origin, or where only the intercept is fitted; 1 where that is 0."""
    z = np.zeros(b.size)
    if fit_intercept:
        z += np.log(np.sum(b > 0) / np.sum(b < 0)) if loss == "logistic" else np.mean(b)
    return float(np.max(np.abs(X.T @ derivative(z, b, loss)), initial=0.0)) or 1.0


@dataclass(frozen=True)
class Judgement:
    """Figures of a point."""

    loss: float
    g: float
    nonzeros: int
    kkt: float
    multiplier: float


def judge(
    X: Any,
    b: Vector,
    loss: str,
    x: Vector,
    penalty: Penalty,
    level: float | None = None,
    multiplier: float | None = None,
) -> Judgement:
    """All figures of a point without an intercept; the level is the point's own g where None.

    With a multiplier given the KKT residual is that of min ψ + y g, the problem of a penalised fit.
    """
    if x.shape != (X.shape[1],) or not np.all(np.isfinite(x)):
        raise ValueError("not a finite vector with a coefficient for each feature")
    z = margins(X, x)
    value, size = mean_loss(z, b, loss), g(x, penalty)
    gradient = np.asarray(X.T @ derivative(z, b, loss)).ravel()
    scale = null_scale(X, b, loss)
    slack = 0.0 if level is None else abs(level - size)
    price = slack / max(abs(value), scale)
    if slack > 0 and level:
        price = max(price, penalty.lam * slack / level / scale)
    offsets, slopes = _lines(gradient / scale, x, penalty, scale)
    if multiplier is None:
        kkt, y = _best_multiplier(offsets, slopes, price)
    else:
        kkt, y = max(0.0, float(np.max(offsets + slopes * multiplier))), multiplier
    return Judgement(value, size, int(np.count_nonzero(x)), kkt, y)


def _lines(gradient: Vector, x: Vector, penalty: Penalty, scale: float) -> tuple[Vector, Vector]:
    """Offsets and slopes of the lines in y whose maximum is the stationarity, relative to the scale."""
    on = np.flatnonzero(x)
    slope = penalty.slope(np.abs(x[on])) * np.sign(x[on]) / scale
    off = np.delete(np.abs(gradient), on)
    offsets = np.concatenate([gradient[on], -gradient[on], [np.max(off, initial=0.0)]])
    return offsets, np.concatenate([slope, -slope, [-penalty.lam / scale]])


def _best_multiplier(offsets: Vector, slopes: Vector, price: float) -> tuple[float, float]:
    """Return the minimum of max(0, offset + slope·y, price·y) over y ≥ 0, and the minimiser, by bisection."""
    offsets, slopes = np.append(offsets, [0.0, 0.0]), np.append(slopes, [price, 0.0])

    def rises(y: float) -> bool:
        return bool(slopes[np.argmax(offsets + slopes * y)] >= 0)

    low, high = 0.0, 1.0
    while not rises(high) and high < 1e300:
        low, high = high, 2 * high
    for _ in range(2000):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if rises(middle) else (middle, high)
    values = [(float(np.max(offsets + slopes * y)), y) for y in (0.0, low, high)]
    return min(values)


def refit(X: Any, b: Vector, loss: str, support: NDArray[np.int64]) -> float:
    """Return the smallest loss over coefficients of the support and an intercept.

    Newton's method with step halving, to a relative `ACCURACY`. On separated data the infimum 0 is not attained: a
    logistic loss below `SEPARATED` counts as 0, for every program.
    """
    columns = X[:, support]
    A = np.asarray(columns.todense() if hasattr(columns, "todense") else columns, dtype=np.float64)
    center, spread = A.mean(axis=0), A.std(axis=0)
    A = np.column_stack([(A - center) / np.where(spread > 0, spread, 1.0), np.ones(b.size)])
    if loss == "squared":
        return mean_loss(A @ np.linalg.lstsq(A, b, rcond=None)[0], b, loss)
    return _newton(A, b, lambda z: mean_loss(z, b, loss), loss)


def _newton(A: Any, b: Vector, value_of: Callable[[Vector], float], loss: str) -> float:
    z = np.zeros(b.size)
    value = value_of(z)
    for _ in range(NEWTON_STEPS):
        gradient = A.T @ derivative(z, b, loss)
        hessian = A.T @ (curvature(z, b, loss)[:, None] * A)
        hessian[np.diag_indices_from(hessian)] += RIDGE * np.max(np.diag(hessian)) + 1e-300
        step = -np.linalg.solve(hessian, gradient)
        if -float(gradient @ step) <= ACCURACY * value:
            break
        along, t = A @ step, 1.0
        while (after := value_of(z + t * along)) > value and t > 1e-12:
            t /= 2
        if not after < value:
            break
        z, value = z + t * along, after
        if value < SEPARATED:
            return 0.0
    return value
