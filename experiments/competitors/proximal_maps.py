"""The proximal maps of the constraint functions, each coordinate by itself.

    prox(φ, u, s) = argmin_w ½(w − u)² + s φ(|w|)

For u ≥ 0, the sign restored afterwards; one of the minimisers where there are several. Where sφ bends less than the
parabola (s L_h < 1) the function is convex and the map continuous; otherwise it jumps, from 0 or from the branch of
small w to the branch of large w, at the u where both are equally good.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import lambertw

from levelprox.constraints import L1, MCP, SCAD, Constraint, Exp, Log, Lp, NegativeLp

Double = NDArray[np.float64]

_NEWTON_STEPS = 100  # of which about ten are taken, but where two roots are about to meet


def prox(constraint: Constraint, u: ArrayLike, s: float) -> Double:
    """Return the minimiser of ½(w − u)² + s φ(|w|), coordinate by coordinate, for s > 0."""
    given = np.asarray(u, np.float64)
    return np.copysign(_MAPS[type(constraint)](constraint, np.abs(given), s), given)


def authors_prox(constraint: Constraint, u: ArrayLike, alpha: float, t: float) -> Double:
    """Return the map that the code of GIST's authors uses for αφ/t: λ is divided by t, θ is unchanged.

    αφ has λ' = αλ, and θ' = θ/α for MCP, θ' = θ for SCAD. Dividing λ' alone also moves the threshold θ'λ'
    to θ'λ'/t: not the map of αφ/t but of a function with the same slope αλ/t at 0, which is flat sooner where t > 1 and
    later where t < 1. For the other functions a factor is a factor, and this is the right map.
    """
    if isinstance(constraint, MCP):
        return prox(MCP(alpha * constraint.lam / t, constraint.theta / alpha), u, 1.0)
    if isinstance(constraint, SCAD):
        return prox(SCAD(alpha * constraint.lam / t, constraint.theta, alpha * constraint.factor), u, 1.0)
    return prox(constraint, u, alpha / t)


def _l1(constraint: L1, u: Double, s: float) -> Double:
    return np.maximum(u - s * constraint.lam, 0)


def _mcp(constraint: MCP, u: Double, s: float) -> Double:
    lam, theta = constraint.lam, constraint.theta
    if s >= theta:
        return np.where(u > lam * np.sqrt(s * theta), u, 0)
    inner = np.maximum(u - s * lam, 0) / (1 - s / theta)
    return np.where(u <= theta * lam, inner, u)


def _scad(constraint: SCAD, u: Double, s: float) -> Double:
    # f times the paper's SCAD with λ/f for λ: the factor belongs to s.
    lam, theta, s = constraint.knee, constraint.theta, constraint.factor * s
    soft = np.maximum(u - s * lam, 0)
    if s >= theta - 1:
        jump = (theta + 1 + s) * lam / 2 if s <= theta + 1 else lam * np.sqrt(s * (theta + 1))
        return np.where(u > jump, u, soft)
    middle = ((theta - 1) * u - s * theta * lam) / (theta - 1 - s)
    return np.where(u <= (1 + s) * lam, soft, np.where(u <= theta * lam, middle, u))


def _log(constraint: Log, u: Double, s: float) -> Double:
    """Return the larger root of θw² + (1 − θu)w + sλ − u = 0, or 0."""
    theta = constraint.theta
    under = (1 + theta * u) ** 2 - 4 * theta * s * constraint.lam
    root = ((theta * u - 1) + np.sqrt(np.maximum(under, 0))) / (2 * theta)
    return _or_zero(constraint, u, s, np.where(under >= 0, np.maximum(root, 0), 0))


def _exponential(constraint: Exp, u: Double, s: float) -> Double:
    """W = u + W₀(−sλ² e^{−λu})/λ, or 0: y = λ(w − u) has y e^y = −sλ² e^{−λu}."""
    lam = constraint.lam
    argument = -s * lam * lam * np.exp(-lam * u)
    real = argument >= -np.exp(-1)
    root = u + lambertw(np.where(real, argument, 0)).real / lam
    return _or_zero(constraint, u, s, np.where(real, np.maximum(root, 0), 0))


def _by_newton(constraint: Constraint, u: Double, s: float) -> Double:
    """Return the larger root of q(w) = w − u + sφ'(w), or 0.

    φ' is convex, hence so is q, and q(u) > 0: Newton's steps from u fall towards the larger root and never pass it.
    Where they get to q' ≤ 0 or w < 0 there is none.
    """
    w, there = np.array(u), u > 0
    for _ in range(_NEWTON_STEPS):
        rate = 1 - s * constraint.curvature(w)
        there &= rate > 0
        step = np.where(there, (w - u + s * constraint.slope(w)) / np.where(there, rate, 1.0), 0.0)
        w = w - step
        there &= w >= 0
        w = np.where(there, w, 0)
        if np.all(np.abs(step) <= 4 * np.finfo(float).eps * w):
            break
    return _or_zero(constraint, u, s, w)


def _or_zero(constraint: Constraint, u: Double, s: float, w: Double) -> Double:
    """W where it is better than 0: ½(w − u)² + sφ(w) < ½u², in a form that does not cancel."""
    return np.where(s * constraint.phi(w) < w * (u - w / 2), w, 0)


_MAPS: dict[type[Constraint], Callable[[Any, Double, float], Double]] = {
    L1: _l1,
    MCP: _mcp,
    SCAD: _scad,
    Log: _log,
    Exp: _exponential,
    Lp: _by_newton,
    NegativeLp: _by_newton,
}
