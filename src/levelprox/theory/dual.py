"""Bounds on the multipliers of the subproblems, and the functions z that they are based on.

    ȳ^k ≤ (ψ_k(0) − ψ_k(x̄^k)) / (η_k − g(x^{k−1}) + Σ ω_i φ'(|x_i^{k−1}|)|x_i^{k−1}|)        (Lemma "dual_bound")

and the sum is at least z(g(x^{k−1})) for every x^{k−1}. The paper shows this for MCP and SCAD; docs/theory.md
proves it for all six functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from levelprox._typing import Vector
from levelprox.certificate.residual import cell, common_unit, counted_weights
from levelprox.constraints import L1, MCP, SCAD, Constraint, Exp, Log, Lp, NegativeLp
from levelprox.exceptions import InvalidInputError

# --- z: a lower bound of Σ φ'(|x_i|)|x_i| where g(x) = α. Each is φ'(t)t at the t with φ(t) = a, for a in [0, cap).


def _mcp(c: MCP, a: Vector) -> Vector:
    share = _mcp_slope(c, a)  # 1 − share² = a/cap, so 2·cap·share·(1 − share) loses no digits in this form
    return 2 * a * share / (1 + share)


def _mcp_slope(c: MCP, a: Vector) -> Vector:
    """Return φ'/λ at the point where φ = a."""
    return np.sqrt((c.cap - a) / c.cap)


def _scad(c: SCAD, a: Vector) -> Vector:
    slope, past = _scad_slope(c, a), np.maximum(a - c.lam * c.knee, 0)
    return np.where(past > 0, slope * (c.knee + 2 * past / (c.lam + slope)), a)


def _scad_slope(c: SCAD, a: Vector) -> Vector:
    """Return φ' at the point where φ = a, beyond the knee."""
    return np.sqrt(2 * c.lipschitz * (c.cap - a))


def _exp(c: Exp, a: Vector) -> Vector:
    return -(1 - a) * np.log1p(-a)


def _log(c: Log, a: Vector) -> Vector:
    scale = math.log1p(c.theta)
    rest: Vector = -np.expm1(-a * scale)
    return rest / scale


def _lp(c: Lp, a: Vector) -> Vector:
    at_zero = math.pow(c.epsilon, c.p)
    return -c.p * (a + at_zero) * np.expm1(-np.log1p(a / at_zero) / c.p)


def _negative_lp(c: NegativeLp, a: Vector) -> Vector:
    return c.p * (1 - a) * np.expm1(-np.log1p(-a) / c.p)


Z: dict[type[Constraint], Callable[[Any, Vector], Vector]] = {
    L1: lambda c, a: a,
    MCP: _mcp,
    SCAD: _scad,
    Exp: _exp,
    Log: _log,
    Lp: _lp,
    NegativeLp: _negative_lp,
}
#: The weaker forms of the paper, with φ(t)/λ ≤ t in place of t.
Z_PAPER: dict[type[Constraint], Callable[[Any, Vector], Vector]] = {
    MCP: lambda c, a: a * _mcp_slope(c, a),
    SCAD: lambda c, a: np.where(a > c.lam * c.knee, a / c.lam * _scad_slope(c, a), a),
}


def z(constraint: Constraint, alpha: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """Return a lower bound of Σ ω_i φ'(|x_i|)|x_i| over all x of any dimension with g(x) = α, the largest known.

    Parameters
    ----------
    constraint : Constraint
        Any constraint except `Custom`, whose z is not known.
    alpha : array-like
        α ≥ 0.
    weights : array-like, optional
        ω ≥ 0. There is a bound for equal weights, for weights that are integer multiples of one unit, and for any
        weights of a function without a cap. For other weights the known bound is 0; use `dual_bound` instead.

    Returns
    -------
    float or ndarray
        With q the common unit of the weights (1 without weights), q·z((α mod q·cap)/q); for a function without a cap
        ω_min·z(α/ω_min), ω_min the smallest positive weight.

    Examples
    --------
    >>> from levelprox import theory
    >>> from levelprox.constraints import MCP
    >>> float(theory.z(MCP(lam=2.0, theta=0.5), 2.75))
    0.5
    """
    return _bounded_below(Z, constraint, alpha, weights)


def z_paper(constraint: Constraint, alpha: ArrayLike) -> Any:
    """Return the paper's z of MCP (Theorem "mcp_y_bd_val") or SCAD (Theorem "dual_bd_value"), which is at most `z`.

    Parameters
    ----------
    constraint : MCP or SCAD
        The constraint.
    alpha : array-like
        α ≥ 0.

    Returns
    -------
    float or ndarray
        The bound.

    Examples
    --------
    >>> from levelprox import theory
    >>> from levelprox.constraints import MCP
    >>> float(theory.z_paper(MCP(lam=2.0, theta=0.5), 2.75))
    0.375
    """
    return _bounded_below(Z_PAPER, constraint, alpha, None)


def _bounded_below(
    table: dict[type[Constraint], Callable[[Any, Vector], Vector]],
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
    """Return the unit in which the weights are counted for a lower bound; 0 if there is none."""
    if weights is None:
        return 1.0
    counted = counted_weights(weights)
    if not counted.size:
        return 0.0
    return float(counted.min()) if math.isinf(constraint.cap) else common_unit(counted) or 0.0


# --- the bounds themselves


def room(constraint: Constraint, x: ArrayLike, eta_k: float, weights: ArrayLike | None = None) -> float:
    """Return η_k − g_k(0) = η_k − g(x) + Σ ω_i φ'(|x_i|)|x_i|, where g_k linearises h at x.

    Parameters
    ----------
    constraint : Constraint
        φ.
    x : array-like
        x^{k−1}; for features with several coefficients, their sizes ‖x_j‖₂ (`Problem.sizes`).
    eta_k : float
        η_k.
    weights : array-like, optional
        ω.

    Returns
    -------
    float
        The denominator of `dual_bound`.

    Examples
    --------
    >>> from levelprox import theory
    >>> from levelprox.constraints import L1
    >>> theory.room(L1(), [0.5, -1.0, 0.0], eta_k=2.0)
    2.0
    """
    t = np.abs(np.asarray(x, dtype=np.float64))
    kept = constraint.slope(t) * t
    kept_in_all = float(np.sum(kept if weights is None else np.asarray(weights) * kept))
    return eta_k - constraint.value(x, weights) + kept_in_all


def dual_bound(
    descent: float, constraint: Constraint, x: ArrayLike, eta_k: float, weights: ArrayLike | None = None
) -> float:
    """Return the upper bound of Lemma "dual_bound" on the multiplier ȳ^k of the step from x = x^{k−1}.

    Parameters
    ----------
    descent : float
        ψ_k(0) − ψ_k(x̄^k). Any point whose nonzeros are unpenalized (ω_i = 0) may replace 0.
    constraint, x, eta_k, weights
        φ, x^{k−1}, η_k, ω.

    Returns
    -------
    float
        The bound; inf if the denominator is not positive.

    Examples
    --------
    >>> from levelprox import theory
    >>> from levelprox.constraints import L1
    >>> theory.dual_bound(3.0, L1(), [0.5, -1.0, 0.0], eta_k=2.0)
    1.5
    """
    return _ratio(descent, room(constraint, x, eta_k, weights))


def uniform_dual_bound(descent: float, constraint: Constraint, eta_k: float, weights: ArrayLike | None = None) -> float:
    """Return the bound (ψ_k(0) − ψ_k(x̄^k))/z(η_k mod cap), which holds for every x^{k−1} with g(x^{k−1}) ≤ η_k.

    Parameters
    ----------
    descent : float
        ψ_k(0) − ψ_k(x̄^k).
    constraint, eta_k, weights
        φ, η_k, ω.

    Returns
    -------
    float
        The bound; inf if z is 0.

    Examples
    --------
    >>> from levelprox import theory
    >>> from levelprox.constraints import MCP
    >>> theory.uniform_dual_bound(3.0, MCP(lam=2.0, theta=0.5), eta_k=2.75)
    6.0
    """
    return _ratio(descent, float(z(constraint, eta_k, weights)))


def _ratio(descent: float, least: float) -> float:
    return max(descent, 0.0) / least if least > 0 else math.inf


# --- the first level --------------------------------------------------------------------------------


def eta0(constraint: Constraint, level: float, weights: ArrayLike | None = None) -> float:
    """Return the η_0 for which the denominator of the dual bound is at least z(η)/2 at every step.

    Parameters
    ----------
    constraint : Constraint
        φ.
    level : float
        η.
    weights : array-like, optional
        ω.

    Returns
    -------
    float
        β·q·cap + η̃/2, where η = β·q·cap + η̃ and q is the common unit of the weights; η/2 without a cap.

    Examples
    --------
    >>> from levelprox import theory
    >>> from levelprox.constraints import MCP
    >>> theory.eta0(MCP(lam=2.0, theta=0.5), 2.5)
    2.25
    """
    if constraint.cap == math.inf or (weights is not None and not counted_weights(weights).size):
        return level / 2
    unit = _unit(constraint, weights)
    if unit == 0:
        raise InvalidInputError("weights must be whole multiples of one unit for eta0 to be known")
    whole, rest = _within_cell(constraint, level, unit)
    return unit * (whole * constraint.cap + rest / 2)


def eta0_scad(constraint: SCAD, level: float) -> float:
    """Return the η_0 of Proposition "SCAD_eta_setting": the denominator is at least min{λκ, z(η̃)/2} at every step.

    Parameters
    ----------
    constraint : SCAD
        φ.
    level : float
        η.

    Returns
    -------
    float
        β·cap + η̃/2 for η̃ ≤ λκ, else β·cap + min{λκ, z(η̃)}, with the paper's z; κ = λ in the paper.

    Examples
    --------
    >>> from levelprox import theory
    >>> from levelprox.constraints import SCAD
    >>> theory.eta0_scad(SCAD(lam=1.0, theta=3.0), 5.0)  # cap 2
    4.5
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
