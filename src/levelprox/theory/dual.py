"""Bounds on the multipliers of the subproblems, and the functions z they rest on.

    ȳ^k ≤ (ψ_k(0) − ψ_k(x̄^k)) / (η_k − g(x^{k−1}) + Σ ω_i φ'(|x_i^{k−1}|)|x_i^{k−1}|)        (Lemma "dual_bound")

and the sum is at least z(g(x^{k−1})), whatever x^{k−1} is. The paper shows this for MCP and SCAD; docs/theory.md
proves it for all six functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox.certificate.degenerate import cell, common_unit, counted_weights
from levelprox.constraints import L1, MCP, SCAD, Constraint, Exp, Log, Lp, NegativeLp
from levelprox.exceptions import InvalidInputError

Double = NDArray[np.float64]


# --- z: what Σ φ'(|x_i|)|x_i| is at least where g(x) = α. Each is φ'(t)t at the t with φ(t) = a, for a in [0, cap).


def _mcp(c: MCP, a: Double) -> Double:
    share = _mcp_slope(c, a)  # 1 − share² = a/cap, so 2·cap·share·(1 − share) loses no digits in this form
    return 2 * a * share / (1 + share)


def _mcp_slope(c: MCP, a: Double) -> Double:
    """φ'/λ where φ = a."""
    return np.sqrt((c.cap - a) / c.cap)


def _scad(c: SCAD, a: Double) -> Double:
    slope, past = _scad_slope(c, a), np.maximum(a - c.lam * c.knee, 0)
    return np.where(past > 0, slope * (c.knee + 2 * past / (c.lam + slope)), a)


def _scad_slope(c: SCAD, a: Double) -> Double:
    """φ' where φ = a, past the knee."""
    return np.sqrt(2 * c.lipschitz * (c.cap - a))


def _exp(c: Exp, a: Double) -> Double:
    return -(1 - a) * np.log1p(-a)


def _log(c: Log, a: Double) -> Double:
    scale = math.log1p(c.theta)
    rest: Double = -np.expm1(-a * scale)
    return rest / scale


def _lp(c: Lp, a: Double) -> Double:
    at_zero = math.pow(c.epsilon, c.p)
    return -c.p * (a + at_zero) * np.expm1(-np.log1p(a / at_zero) / c.p)


def _negative_lp(c: NegativeLp, a: Double) -> Double:
    return c.p * (1 - a) * np.expm1(-np.log1p(-a) / c.p)


Z: dict[type[Constraint], Callable[[Any, Double], Double]] = {
    L1: lambda c, a: a,
    MCP: _mcp,
    SCAD: _scad,
    Exp: _exp,
    Log: _log,
    Lp: _lp,
    NegativeLp: _negative_lp,
}
#: The paper's own, weaker forms: t ≥ φ(t)/λ in place of t.
Z_PAPER: dict[type[Constraint], Callable[[Any, Double], Double]] = {
    MCP: lambda c, a: a * _mcp_slope(c, a),
    SCAD: lambda c, a: np.where(a > c.lam * c.knee, a / c.lam * _scad_slope(c, a), a),
}


def z(constraint: Constraint, alpha: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """The largest known lower bound of Σ ω_i φ'(|x_i|)|x_i| over all x with g(x) = α, whatever the dimension.

    Parameters
    ----------
    constraint : Constraint
        Any but Custom, whose z is not known.
    alpha : array-like
        α ≥ 0.
    weights : array-like, optional
        ω ≥ 0. Equal weights, weights that are whole multiples of one unit, and any weights of a function without
        a cap have a bound; for other weights nothing better than 0 is known, and `dual_bound` is the one to use.

    Returns
    -------
    float or ndarray
        With q the common unit of the weights (1 without weights), q·z((α mod q·cap)/q); for a function without a cap
        ω_min·z(α/ω_min), ω_min the smallest positive weight.
    """
    return _bounded_below(Z, constraint, alpha, weights)


def z_paper(constraint: Constraint, alpha: ArrayLike) -> Any:
    """The paper's own z of MCP (Theorem "mcp_y_bd_val") and SCAD (Theorem "dual_bd_value"); at most `z`."""
    return _bounded_below(Z_PAPER, constraint, alpha, None)


def _bounded_below(
    table: dict[type[Constraint], Callable[[Any, Double], Double]],
    constraint: Constraint,
    alpha: ArrayLike,
    weights: ArrayLike | None,
) -> Any:
    if type(constraint) not in table:
        known = ", ".join(kind.__name__ for kind in table)
        raise InvalidInputError(f"z is known for {known}, not for {type(constraint).__name__}; use dual_bound")
    given = np.asarray(alpha, dtype=np.float64)
    if not np.all(given >= 0) or np.any(np.isinf(given)):
        raise InvalidInputError(f"alpha must be in [0, inf), got {alpha!r}")
    unit = _unit(constraint, weights)
    if unit == 0:
        return np.zeros_like(given)[()]
    return (unit * table[type(constraint)](constraint, cell(constraint, given / unit)[1]))[()]


def _unit(constraint: Constraint, weights: ArrayLike | None) -> float:
    """The weight all coordinates can be counted in for a lower bound; 0 where there is none."""
    if weights is None:
        return 1.0
    counted = counted_weights(weights)
    if not counted.size:
        return 0.0
    return float(counted.min()) if math.isinf(constraint.cap) else common_unit(counted) or 0.0


# --- the bounds themselves


def room(constraint: Constraint, x: ArrayLike, eta_k: float, weights: ArrayLike | None = None) -> float:
    """η_k − g_k(0) = η_k − g(x) + Σ ω_i φ'(|x_i|)|x_i|, where g_k linearises h at x.

    Where features have several coefficients, x stands for their sizes ‖x_j‖₂ (`Problem.sizes`).
    """
    t = np.abs(np.asarray(x, dtype=np.float64))
    kept = constraint.slope(t) * t
    kept_in_all = float(np.sum(kept if weights is None else np.asarray(weights) * kept))
    return eta_k - constraint.value(x, weights) + kept_in_all


def dual_bound(
    descent: float, constraint: Constraint, x: ArrayLike, eta_k: float, weights: ArrayLike | None = None
) -> float:
    """Lemma "dual_bound": what the multiplier ȳ^k of the step from x = x^{k−1} is at most.

    Parameters
    ----------
    descent : float
        ψ_k(0) − ψ_k(x̄^k). Any point whose nonzeros are exempt (ω_i = 0) may stand for 0.
    constraint, x, eta_k, weights
        φ, x^{k−1}, η_k, ω.
    """
    return _ratio(descent, room(constraint, x, eta_k, weights))


def uniform_dual_bound(descent: float, constraint: Constraint, eta_k: float, weights: ArrayLike | None = None) -> float:
    """The same whatever x^{k−1} with g(x^{k−1}) ≤ η_k is: (ψ_k(0) − ψ_k(x̄^k))/z(η_k mod cap)."""
    return _ratio(descent, float(z(constraint, eta_k, weights)))


def _ratio(descent: float, least: float) -> float:
    return max(descent, 0.0) / least if least > 0 else math.inf


# --- the first level --------------------------------------------------------------------------------


def eta0(constraint: Constraint, level: float, weights: ArrayLike | None = None) -> float:
    """The η_0 with which the denominator of the dual bound is at least z(η)/2 at every step.

    β·q·cap + η̃/2 where η = β·q·cap + η̃ and q is the common unit of the weights; η/2 without a cap.
    """
    if constraint.cap == math.inf or (weights is not None and not counted_weights(weights).size):
        return level / 2
    unit = _unit(constraint, weights)
    if unit == 0:
        raise InvalidInputError("weights must be whole multiples of one unit for eta0 to be known")
    whole, rest = _within_cell(constraint, level, unit)
    return unit * (whole * constraint.cap + rest / 2)


def eta0_scad(constraint: SCAD, level: float) -> float:
    """Proposition "SCAD_eta_setting": with this η_0 the denominator is at least min{λκ, z(η̃)/2} at every step.

    β·cap + η̃/2 for η̃ ≤ λκ, else β·cap + min{λκ, z(η̃)}, with the paper's z; κ = λ in the paper.
    """
    whole, rest = _within_cell(constraint, level)
    straight = constraint.lam * constraint.knee
    return whole * constraint.cap + (rest / 2 if rest <= straight else min(straight, float(z_paper(constraint, rest))))


def _within_cell(constraint: Constraint, level: float, unit: float = 1.0) -> tuple[float, float]:
    whole, rest = (float(part) for part in cell(constraint, level / unit))
    if rest == 0:
        raise InvalidInputError(
            f"level must not be a whole number of caps ({unit * constraint.cap:g}), got {level:g}: the multiplier has "
            f"no bound"
        )
    return whole, rest
