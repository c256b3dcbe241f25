"""The KKT certificate of a point, recomputed from the data and trusting no solver.

x is a KKT point of min ψ s.t. g ≤ η when there is a multiplier y ≥ 0 with

    0 ∈ ∂ψ(x) + y ∂g(x),      y (g(x) − η) = 0,      g(x) ≤ η.

For a given y the distance of the first from holding is, coordinate by coordinate,

    |ψ'_j + y ω_j φ'(|x_j|) sign x_j|   where x_j ≠ 0,      max(|ψ'_j| − y λ ω_j, 0)   where x_j = 0

(max(−ψ'_j − y λ ω_j, 0) at a zero that may not be negative). All of these, and the complementarity
y|g(x) − η|, are convex and piecewise linear in y, so the best y is found exactly.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox.errors import InvalidInputError, NumericalError
from levelprox.objectives import Objective, Subgradients
from levelprox.problem import Problem
from levelprox.theory import degenerate_distance

Vector = NDArray[np.float64]

_CLEARLY = 1e-6
_ROUNDING = 1e-6  # of a fit by a quasi-Newton method
_CLOSE = 1e-3  # to the null fit, relative to its distance from the origin


@dataclass(frozen=True)
class Certificate:
    """How near a point is to a KKT point, in figures anyone can recompute.

    Attributes
    ----------
    kkt : float
        What `tol` is compared with: the largest of stationarity/scale, complementarity/max(|ψ|, scale)
        and (yλ max ω/scale)·(|slack|/η), free of units.
    psi, g, level : float
        ψ(x), g(x), η.
    slack : float
        η − g(x).
    infeasibility : float
        max(0, g(x) − η, −x_j where x_j ≥ 0 is asked); 0 for everything levelprox returns.
    multiplier : float
        y ≥ 0, the best one. It is also the weight at which x is stationary for the penalised
        problem min ψ + y g, and the rate at which ψ falls as the level rises.
    stationarity : float
        dist∞(0, ∂ψ + y ∂g), absolute.
    stationarity_squared : float
        dist₂(0, ∂ψ + y ∂g)², the paper's figure.
    complementarity : float
        y |g(x) − η|.
    scale : float
        ‖∇ψ‖∞ at the null fit (only exempt coordinates fitted); where that is 0 up to rounding, at the
        origin (extrapolated from the null fit if ψ has no L); 1 where that is 0, too.
    active : bool
        Whether the constraint holds x back (y > 0).
    n_nonzero : int
        Nonzero coordinates that count (ω_j > 0).
    degenerate_distance : float or None
        Distance of η to the nearest sum of cap·ω_j, at which the multiplier may explode, relative to cap times
        the common unit of the weights; None when not checked or when there is no such level.
    degenerate_check : str
        "checked", "no degenerate level" or "not checked: unequal weights".
    dual_bound : float
        An upper bound on the multiplier of an exact KKT point at x (Lemma "dual_bound" at its fixed point).
    gradient_error : float
        Standard error of ‖∇ψ‖ where ψ is known through samples only; 0 where it is exact.
    near_epsilon, near_delta : float or None
        The paper's (ε, δ)-KKT statement with an x̄ ≠ x, where that says more than x̄ = x: for ψ with kinks and for
        sampled ψ (`nearby_kkt`).
    """

    kkt: float
    psi: float
    g: float
    level: float
    slack: float
    infeasibility: float
    multiplier: float
    stationarity: float
    stationarity_squared: float
    complementarity: float
    scale: float
    active: bool
    n_nonzero: int
    degenerate_distance: float | None
    degenerate_check: str
    dual_bound: float
    gradient_error: float = 0.0
    near_epsilon: float | None = None
    near_delta: float | None = None

    @property
    def epsilon(self) -> float:
        """ε of the paper's (ε, δ)-KKT definition: at x itself, unless an x̄ near it is known."""
        at_x = max(self.stationarity_squared, self.complementarity)
        return at_x if self.near_epsilon is None else self.near_epsilon

    @property
    def delta(self) -> float:
        """δ = ‖x − x̄‖² of that definition; 0 at x itself."""
        return 0.0 if self.near_delta is None else self.near_delta

    def as_dict(self) -> dict[str, Any]:
        """Every figure, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        if self.degenerate_distance is None:
            degenerate = self.degenerate_check
        elif self.degenerate_distance < 1e-3:
            degenerate = "η is a whole number of caps: the multiplier says little here"
        else:
            degenerate = f"η is {self.degenerate_distance:.3g} caps from the nearest one"
        rows = [
            ("KKT residual (scaled)", f"{self.kkt:.2e}"),
            ("objective ψ(x)", f"{self.psi:.10g}"),
            ("constraint g(x) ≤ η", f"{self.g:.10g} ≤ {self.level:.10g}"),
            ("infeasibility", f"{self.infeasibility:g}"),
            ("multiplier y", f"{self.multiplier:.6g}" if self.active else "0 (constraint inactive)"),
            ("stationarity", f"{self.stationarity:.2e}  (scale {self.scale:.3g})"),
            ("complementarity", f"{self.complementarity:.2e}"),
            ("(ε, δ)-KKT", f"ε = {self.epsilon:.2e}, δ = {self.delta:.2g}"),
            ("degenerate levels", degenerate),
        ]
        if self.gradient_error:
            rows.insert(6, ("error of the gradient", f"{self.gradient_error:.2e}  (an average over samples)"))
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def certify(
    problem: Problem,
    x: object,
    null: NullFit | None = None,
    *,
    hint: Vector | None = None,
    seconds: float = math.inf,
) -> Certificate:
    """The certificate of any point, computed from (problem, x) alone.

    Parameters
    ----------
    problem : Problem
    x : array-like of shape (d,)
        Any point, feasible or not.
    null : NullFit, optional
        The null fit of the same problem, where it is known already; it only sets the scale.
    hint : ndarray of shape (n,), optional
        Slopes of the samples from which to look for the best subgradient, where the loss has kinks. Not trusted.
    seconds : float
        How long to look for it.

    Returns
    -------
    Certificate
    """
    if not isinstance(problem, Problem):
        raise InvalidInputError(f"problem must be a Problem, got {type(problem).__name__}")
    point = problem.point("x", x)
    psi, gradient = problem.objective.value_and_gradient(point)
    if not (np.isfinite(psi) and np.all(np.isfinite(gradient))):
        raise NumericalError("the objective or its gradient is not finite at x")
    null = null or null_fit(problem)
    subgradients = problem.objective.subgradients(point, hint)
    if subgradients is not None:
        gradient = _best_subgradient(problem, point, psi, null, subgradients, seconds)
    return assemble(problem, point, psi, gradient, null, problem.objective.gradient_error(point))


@dataclass(frozen=True, eq=False)
class NullFit:
    """The fit without any feature that counts: where scales are measured."""

    x: Vector
    psi: float
    gradient: Vector
    scale: float


def null_fit(problem: Problem, seconds: float = math.inf) -> NullFit:
    """The origin, but for the exempt coordinates, which are fitted; the scale is ‖∇ψ‖∞ there."""
    x = np.zeros(problem.dimension)
    exempt = problem.exempt
    at_origin = 0.0
    if exempt.size:
        at_origin = _size(problem.objective.value_and_gradient(x)[1])
        x[exempt] = _fit_unconstrained(
            problem.objective.restrict(exempt), problem.must_be_nonnegative()[exempt], seconds
        )
    psi, gradient = problem.objective.value_and_gradient(x)
    scale = _size(gradient)
    # Where the exempt coordinates alone fit the data, what is left of the gradient is rounding, not a scale.
    if scale <= _ROUNDING * at_origin:
        scale = _scale_of_a_fit(problem.objective, x, scale, at_origin)
    return NullFit(x, psi, gradient, scale if np.isfinite(scale) and scale > 0 else 1.0)


def _scale_of_a_fit(objective: Objective, x: Vector, left: float, at_origin: float) -> float:
    """The scale where so little of the gradient at the origin is left at the null fit x that it may be rounding.

    Where the curvature of ψ has no bound, the gradient at the origin may be large only because x is far. What
    a parabola with the curvature of ψ at x would have there, ‖∇ψ((1−t)x)‖/t with small t, then takes its place;
    unless ψ falls for ever towards x, and has no curvature left.
    """
    if math.isfinite(objective.smoothness) or objective.is_separated(x):
        return at_origin
    close = _size(objective.value_and_gradient((1 - _CLOSE) * x)[1]) / _CLOSE
    return min(at_origin, close) if left <= _ROUNDING * close else left


def _size(gradient: Vector) -> float:
    return float(np.max(np.abs(gradient), initial=0.0))


def _fit_unconstrained(objective: Objective, nonnegative: NDArray[np.bool_], seconds: float) -> Vector:
    """The minimiser of ψ alone, or the best point found in the time given."""
    from scipy import optimize  # a tenth of a second to import, and only exempt coordinates need it

    bounds = [(0.0, None) if asked else (None, None) for asked in nonnegative]
    deadline = time.monotonic() + seconds
    best = (math.inf, np.zeros(objective.dimension))

    def timed(x: Vector) -> tuple[float, Vector]:
        nonlocal best
        if time.monotonic() > deadline:
            raise TimeoutError
        value, gradient = objective.value_and_gradient(x)
        best = (value, np.array(x)) if value < best[0] else best
        return value, gradient

    with suppress(TimeoutError):
        optimize.minimize(
            timed,
            np.zeros(objective.dimension),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 200, "ftol": 0.0, "gtol": 1e-12},
        )
    return best[1]


def assemble(
    problem: Problem, x: Vector, psi: float, gradient: Vector, null: NullFit, gradient_error: float = 0.0
) -> Certificate:
    """The certificate from ψ and a (sub)gradient at x that are already known."""
    g = problem.g(x)
    slack = problem.level - g
    residual = Residual(problem, x, gradient)
    price = _price(problem, x, psi, null)
    y = _best_multiplier(residual, price)
    # Clearly below the level and stationary without it: the constraint does not hold x back.
    if slack > _CLEARLY * problem.level and residual.largest(0.0) <= _CLEARLY * null.scale:
        y = 0.0
    stationarity = residual.largest(y)
    distance, check = degenerate_distance(problem)
    negative = -np.min(x[problem.must_be_nonnegative()], initial=0.0)
    return Certificate(
        kkt=max(stationarity, y * price) / null.scale,
        psi=psi,
        g=g,
        level=problem.level,
        slack=slack,
        infeasibility=max(0.0, -slack, float(negative)),
        multiplier=y,
        stationarity=stationarity,
        stationarity_squared=_squared(residual.each(y)),
        complementarity=y * abs(slack),
        scale=null.scale,
        active=y > 0,
        n_nonzero=int(np.count_nonzero(x if problem.weights is None else x[problem.weights > 0])),
        degenerate_distance=distance,
        degenerate_check=check,
        dual_bound=_dual_bound(problem, x, psi, null),
        gradient_error=gradient_error,
    )


def _price(problem: Problem, x: Vector, psi: float, null: NullFit) -> float:
    """What a unit of y costs in complementarity, in units of stationarity.

    Relative to ψ, and relative to the multiplier scale/λ and the level η themselves: the first alone would call the
    null fit solved where ψ is large beside its gradient.
    """
    slack = abs(problem.level - problem.g(x))
    share = slack / problem.level if problem.level > 0 else 0.0
    largest_weight = 1.0 if problem.weights is None else float(np.max(problem.weights, initial=0.0))
    return max(slack * null.scale / max(abs(psi), null.scale), problem.constraint.lam * largest_weight * share)


class Residual:
    """dist(0, ∂ψ_j + y ∂g_j) of every coordinate, as a function of y: max over lines offset + slope·y, and 0."""

    def __init__(self, problem: Problem, x: Vector, gradient: Vector) -> None:
        weights = np.ones(problem.dimension) if problem.weights is None else problem.weights
        support = x != 0
        self.support_offset = gradient[support]
        self.support_slope = weights[support] * problem.constraint.slope(np.abs(x[support])) * np.sign(x[support])
        one_sided = problem.must_be_nonnegative()[~support]
        at_zero = gradient[~support]
        self.zero_offset = np.where(one_sided, -at_zero, np.abs(at_zero))
        self.zero_slope = -problem.constraint.lam * weights[~support]
        if self.zero_slope.size and np.all(self.zero_slope == self.zero_slope[0]):
            # Equal weights, the usual case: only the largest of them can matter for the maximum.
            self._zero_offset = self.zero_offset.max(keepdims=True)
            self._zero_slope = self.zero_slope[:1]
        else:
            self._zero_offset, self._zero_slope = self.zero_offset, self.zero_slope

    def each(self, y: float) -> Vector:
        """The residual of every coordinate (support first)."""
        return np.concatenate(
            [
                np.abs(self.support_offset + y * self.support_slope),
                np.maximum(self.zero_offset + y * self.zero_slope, 0),
            ]
        )

    def largest(self, y: float) -> float:
        """The largest residual."""
        return self.line(y)[0]

    def line(self, y: float) -> tuple[float, float, float]:
        """The largest residual at y, and the line offset + slope·y that it lies on."""
        best, offset, slope = 0.0, 0.0, 0.0
        if self.support_offset.size:
            signed = self.support_offset + y * self.support_slope
            j = int(np.argmax(np.abs(signed)))
            if abs(signed[j]) > best:
                sign = float(np.copysign(1, signed[j]))
                best = float(abs(signed[j]))
                offset, slope = sign * float(self.support_offset[j]), sign * float(self.support_slope[j])
        if self._zero_offset.size:
            at_zero = self._zero_offset + y * self._zero_slope
            j = int(np.argmax(at_zero))
            if at_zero[j] > best:
                best, offset, slope = float(at_zero[j]), float(self._zero_offset[j]), float(self._zero_slope[j])
        return best, offset, slope


def _best_multiplier(residual: Residual, price: float) -> float:
    """The smallest y ≥ 0 minimising max(residual(y), price·y), by cutting planes: exact after a few looks.

    The maximum of lines is bracketed by one falling and one rising line; each look at their crossing
    finds a higher line there, which replaces one of the two, or finds none, and the crossing is best.
    """
    _, *fall = residual.line(0.0)  # offset, slope < 0
    rise = [0.0, price]  # offset, slope ≥ 0
    if fall[1] >= 0:
        return 0.0
    y = 0.0
    for _ in range(200):
        crossing = (fall[0] - rise[0]) / (rise[1] - fall[1])
        height = fall[0] + fall[1] * crossing
        value, *line = residual.line(crossing)
        if price * crossing > value:
            value, line = price * crossing, [0.0, price]
        y = crossing
        if value <= height * (1 + 1e-14) + 1e-300:
            return y
        if line[1] < 0:
            fall = line
        else:
            rise = line
    return y


def _best_subgradient(
    problem: Problem, x: Vector, psi: float, null: NullFit, subgradients: Subgradients, seconds: float
) -> Vector:
    """The subgradient of ψ that brings the KKT system nearest to 0 in the 2-norm, with y free.

    Any subgradient makes a valid certificate; the best is sought by a bounded quasi-Newton method, in units in
    which everything is about 1.
    """
    from scipy import optimize  # as above: only losses with kinks need it

    rows, radius, center = subgradients.rows, subgradients.radius, subgradients.center
    weights = np.ones(problem.dimension) if problem.weights is None else problem.weights
    lam, price, scale = problem.constraint.lam, _price(problem, x, psi, null), null.scale
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

    with suppress(TimeoutError):
        optimize.minimize(
            gap,
            np.append(subgradients.guess / radius, 0.0),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-1.0, 1.0)] * radius.size + [(0.0, None)],
            options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-28, "gtol": 1e-15},
        )
    return np.asarray(center + rows.rmatvec(best[1]), dtype=np.float64)


def _squared(vector: Vector) -> float:
    with np.errstate(over="ignore"):  # beyond the range of float64 it is inf
        return float(np.sum(vector**2))


def _dual_bound(problem: Problem, x: Vector, psi: float, null: NullFit) -> float:
    """Y ≤ (ψ(x_0) − ψ(x) + μ/2 ‖x_0 − x‖²) / (η − g_x(x_0)), x_0 the null fit, g_x the surrogate at x."""
    support = np.flatnonzero(x)
    t = np.abs(x[support])
    spent = problem.constraint.slope(t) * t
    if problem.weights is not None:
        spent = problem.weights[support] * spent
    room = problem.level - problem.g(x) + float(np.sum(spent))
    if room <= 0 or not np.isfinite(null.psi):
        return np.inf
    apart = _squared(null.x - x)
    return max(0.0, null.psi - psi + problem.objective.weak_convexity / 2 * apart) / room
