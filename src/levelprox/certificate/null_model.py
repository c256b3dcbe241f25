"""The null model: the fit without penalized features, where runs start and scales are measured."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from levelprox._runtime import TimeLimitError, end_now, finishing
from levelprox._typing import Features, Vector
from levelprox.objectives import Curved, LinearModel, Model, Objective
from levelprox.problem import FeatureProblem

_ROUNDING = 1e-6  # of a fit by a quasi-Newton method
_NEWTON_STEPS = 2000
_GONE = 1e-10  # of a gradient
_SHOWS = 1e-15  # of ψ
_SHOWN = 1e-9  # of ψ above its infimum: what the rounding of margins may change in a figure that is reported
_GRADIENT_ROUNDING = 4 * float(np.finfo(np.float64).eps)
_CLOSE = 1e-3  # to the null fit, relative to its distance from the origin


@dataclass(frozen=True, eq=False)
class NullFit:
    """The fit without penalized features, where scales are measured.

    Attributes
    ----------
    x : ndarray of shape (d,)
    psi : float
        ψ there.
    gradient : ndarray of shape (d,), optional
        ∇ψ there; of use at the start only, and None afterwards: it may be large. Also None where there was no time for
        it.
    scale : float
        The largest entry of ∇ψ there over the features that count, each in units of its column, relative to a typical
        column (`objectives/feature_scale.py`): what a residual is compared with. NaN where there was no time for it.
    curvature : float
        Of ψ along a typical column; 0 where it is not known.
    """

    x: Vector
    psi: float
    gradient: Vector | None
    scale: float
    curvature: float = 0.0

    @property
    def examined(self) -> bool:
        """Whether there was time for the gradient and the scale."""
        return not math.isnan(self.scale)

    def reported(self, objective: Objective, x: Vector, psi: float) -> float:
        """Return ψ(x) as it is reported, where `psi` was computed for it: right to 1e-9 of what the null fit leaves.

        The terms of a margin may be far larger than their sum, as those of a column with a large mean and an intercept.
        """
        enough = _SHOWN * (self.psi - objective.infimum)
        return objective.refined_value(x, psi, enough) if math.isfinite(enough) else psi


def null_fit_in_time(problem: FeatureProblem, seconds: float = math.inf) -> NullFit:
    """Return the null fit under the time limit of this thread.

    It takes several passes over the data. Where the limit or Ctrl-C leaves no time for them, the result is the origin,
    or the first guess of an intercept, with ψ there, which needs no pass; its gradient and scale are not known
    (`NullFit.examined`).

    Parameters
    ----------
    problem : Problem or SubsetProblem
    seconds : float
        How long the unpenalized features may be fitted.
    """
    objective = problem.objective
    if not isinstance(objective, Model):
        return null_fit(problem, seconds)
    try:
        with finishing():
            return null_fit(problem, seconds)
    except TimeLimitError:
        return _not_examined(problem, objective)
    except KeyboardInterrupt:
        end_now()
        return _not_examined(problem, objective)


def _not_examined(problem: FeatureProblem, objective: Model) -> NullFit:
    """Return the first guess of the intercept, 0 for all other coordinates; not more than ψ is known there."""
    x, ones = np.zeros(problem.dimension), objective.unpenalized
    if not ones.size:
        return NullFit(x, objective.value_of(objective.origin), None, math.nan)
    places, part = problem.coordinates(ones), objective.restrict(ones)
    guess = part.first_guess()
    x[places] = np.where(problem.must_be_nonnegative()[places], np.maximum(guess, 0.0), guess)
    return NullFit(x, part.value_of(part.margins(x[places])), None, math.nan)


def null_fit(problem: FeatureProblem, seconds: float = math.inf, fitted: Vector | None = None) -> NullFit:
    """Return the origin, with fitted unpenalized features; scales are measured there.

    Where ψ is not convex, its convex start (`Loss.convex_start`) is fitted first, and from there ψ itself, unless its
    loss attains no minimum, as sigmoid: an intercept then keeps gaining, towards where all gradients vanish.
    There the fit of the convex start is the null fit. Either way it is a function of the problem alone.

    Where features have several coefficients, the scale is of the largest ‖∇ψ_j‖₂: what keeps a whole feature at zero.

    Parameters
    ----------
    problem : Problem or SubsetProblem
    seconds : float
        How long the unpenalized features may be fitted.
    fitted : ndarray, optional
        Their coefficients, where they are known.
    """
    x = np.zeros(problem.dimension)
    unpenalized = problem.unpenalized
    at_origin = 0.0
    if unpenalized.size:
        at_origin = _size(problem, problem.objective.value_and_gradient(x)[1])
        places = problem.coordinates(unpenalized)
        if fitted is None:
            fitted = _fit(problem.objective.restrict(unpenalized), problem.must_be_nonnegative()[places], seconds)
        x[places] = fitted
    psi, gradient = problem.objective.value_and_gradient(x)
    scale = _size(problem, gradient, counted=True)
    # Where the unpenalized features alone fit the data, what is left of the gradient is rounding, not a scale.
    if scale <= _ROUNDING * at_origin:
        scale = _scale_of_a_fit(problem, x, scale, at_origin)
    scale = scale if np.isfinite(scale) and scale > 0 else 1.0
    return NullFit(x, psi, gradient, scale, problem.objective.curvature)


def _scale_of_a_fit(problem: FeatureProblem, x: Vector, left: float, at_origin: float) -> float:
    """Return the scale where so little of the gradient at the origin is left at the null fit x that it may be rounding.

    Where the curvature of ψ has no bound, the gradient at the origin may be large only because x is far. What
    a parabola with the curvature of ψ at x would have there, ‖∇ψ((1−t)x)‖/t with small t, then takes its place;
    unless ψ keeps decreasing towards x, and has no curvature left.
    """
    objective = problem.objective
    if objective.bounded_curvature or objective.is_separated(x):
        return at_origin
    near = objective.value_and_gradient((1 - _CLOSE) * x)[1]
    close = _size(problem, near) / _CLOSE
    return min(at_origin, close) if left <= _ROUNDING * close else left


def _size(problem: FeatureProblem, gradient: Vector, counted: bool = False) -> float:
    """Return the largest entry of a gradient in units of its columns: of all features, or of those that count."""
    scale = problem.objective.feature_scale
    sizes = problem.sizes(gradient if scale is None else scale.measured(gradient, problem.n_outputs))
    if counted:
        sizes = np.delete(sizes, problem.unpenalized)
    return float(np.max(sizes, initial=0.0))


def _fit(objective: Objective, nonnegative: NDArray[np.bool_], seconds: float) -> Vector:
    """Return the minimiser of ψ alone, from its convex start if there is one; that start if ψ may have none."""
    convex, deadline = objective.convex_start, time.monotonic() + seconds
    x = objective.first_guess()
    if convex is not None:
        x = _fit_unconstrained(convex, x, nonnegative, deadline)
        if not objective.attained:
            return x
    return _fit_unconstrained(objective, x, nonnegative, deadline)


def _fit_unconstrained(objective: Objective, begin: Vector, nonnegative: NDArray[np.bool_], deadline: float) -> Vector:
    """Return the minimiser of ψ alone, or the best point found in the time given, over columns scaled to one size."""
    if objective.curved and objective.convex_start is None and not np.any(nonnegative):
        begin, left = _by_newton(cast(Curved, objective), begin, deadline)
        if left <= _GONE:
            return begin
    from scipy import optimize  # a tenth of a second to import

    bounds = [(0.0, None) if asked else (None, None) for asked in nonnegative]
    best = (math.inf, begin)

    unit = _working_units(objective)

    def timed(scaled: Vector) -> tuple[float, Vector]:
        nonlocal best
        if time.monotonic() > deadline:
            raise TimeoutError
        x = scaled / unit
        value, gradient = objective.value_and_gradient(x)
        best = (value, np.array(x)) if value < best[0] else best
        return value, gradient / unit

    with suppress(TimeoutError):
        optimize.minimize(
            timed,
            begin * unit,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 200, "ftol": 0.0, "gtol": 1e-12},
        )
    if objective.curved and not np.any(nonnegative) and not objective.is_separated(best[1]):
        return _by_newton(cast(Curved, objective), best[1], deadline)[0]
    return best[1]


def _working_units(objective: Objective) -> Vector:
    """Return sizes of columns, one for each coordinate; 1 for the largest."""
    scale = objective.feature_scale
    if scale is None or not scale.magnitude.size:
        return np.ones(objective.dimension)
    return np.asarray(np.repeat(scale.magnitude / scale.magnitude.max(), objective.n_outputs), np.float64)


def _by_newton(objective: Curved, x: Vector, deadline: float) -> tuple[Vector, float]:
    """Return the point after Newton steps from x, as long as they lower ψ by more than its rounding.

    Where targets are of the order of 1e250, or of 1e-40, the fit is hundreds of units away, and steps scaled by the
    gradient at the origin never get there. Also: which part of the gradient is left, none where no step would show.
    """
    z = objective.margins(x)
    unit = _working_units(objective)
    psi, first = objective.value_of(z), float(np.max(np.abs(objective.gradient_of(z) / unit)))
    for _ in range(_NEWTON_STEPS):
        gradient, hessian = objective.gradient_of(z), objective.hessian_of(z, True)
        if not (np.all(np.isfinite(gradient)) and np.all(np.isfinite(hessian))) or time.monotonic() > deadline:
            break
        gradient, hessian = gradient / unit, hessian / unit / unit[:, None]
        size = float(np.max(np.abs(hessian))) or 1.0  # squares of 1e250 are beyond all numbers
        step = -np.asarray(np.linalg.lstsq(hessian / size, gradient / size, rcond=None)[0], np.float64)
        if not -float(np.sum((gradient / size) * step)) * size > _SHOWS * abs(psi):
            return x, 0.0
        step /= unit
        new = z + objective.moved(step)
        after = objective.value_of(new)
        if not after < psi:
            break
        x, z, psi = x + step, new, after
    return x, float(np.max(np.abs(objective.gradient_of(z) / unit))) / first if first > 0 else 0.0


def relative_stationarity(problem: FeatureProblem, x: Vector, features: Features, null: NullFit) -> float:
    """Return the largest |∂ψ/∂x_j| over some features, each relative to what the null fit leaves to its column.

    For a linear model feature j is measured relative to Σ_i s_i |ℓ'_i| |a_ij| / Σ s with ℓ' at the null fit: the
    same for any unit of the column. With an intercept columns are centred first, so that their means do not matter
    either. What the rounding of margins explains is left out. For several classes the unit is the largest gradient of
    the null fit.

    Parameters
    ----------
    problem : Problem
    x : ndarray of shape (d,)
        Zero outside `features`.
    features : ndarray of int
    null : NullFit
    """
    places = problem.coordinates(features)
    signs = problem.must_be_nonnegative()[places] & (x[places] == 0)
    if not isinstance(problem.objective, LinearModel):
        gradient = problem.objective.restrict(features).value_and_gradient(x[places])[1]
        return _largest(gradient, np.zeros_like(gradient), signs) / null.scale
    part = problem.objective.restrict(features)
    z, at_null = part.margins(x[features]), problem.objective.margins(null.x)
    slope, bend = part.slope_of(z), np.abs(part.bend_of(z, True))
    pull = np.abs(problem.objective.slope_of(at_null))
    columns = np.array([part.moved(unit) for unit in np.eye(features.size)])
    columns = columns.reshape(features.size, z.size)[:, : part.n_margins]  # without what a ridge has below them
    rounding = _GRADIENT_ROUNDING * (np.abs(columns).T @ np.abs(x[features]) + np.abs(part.of_samples(part.origin)))
    centring = part.design.column_noise()  # of means, which are far larger than what is left of their columns
    if centring is not None:
        rounding += _GRADIENT_ROUNDING / np.finfo(np.float64).eps * float(centring @ np.abs(x[features]))
    ones = np.flatnonzero(np.isin(features, problem.objective.unpenalized))
    share = part.share
    if ones.size:
        others = np.delete(np.arange(features.size), ones)
        columns[others] -= (columns[others] @ share)[:, None]
    gradient = columns @ slope + (0.0 if part.ridge is None else part.ridge.gradient(part.tail(z)))
    noise = np.abs(columns) @ (bend * rounding + _GRADIENT_ROUNDING * np.abs(slope))
    size = np.abs(columns) @ pull
    typical = float(np.sum(pull)) or 1.0  # where the null fit leaves nothing to a column
    size = np.where(size > 0, size, typical * (np.abs(columns) @ share))
    return _largest(gradient / np.where(size > 0, size, 1.0), noise / np.where(size > 0, size, 1.0), signs)


def _largest(gradient: Vector, noise: Vector, at_bound: NDArray[np.bool_]) -> float:
    """Return the largest component beyond its noise; at a bound only one that points inwards counts."""
    size = np.where(at_bound, np.maximum(-gradient, 0.0), np.abs(gradient))
    return float(np.max(np.maximum(size - noise, 0.0), initial=0.0))
