"""How far a fit over a few features is from stationary, in units that do not depend on those of the columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Features, Vector
from levelprox.certificate.null_model import NullFit
from levelprox.objectives import LinearModel
from levelprox.problem import FeatureProblem

_ROUNDING = 4 * float(np.finfo(np.float64).eps)


def relative_stationarity(problem: FeatureProblem, x: Vector, features: Features, null: NullFit) -> float:
    """Return the largest |∂ψ/∂x_j| over some features, each relative to what the null fit leaves to its column.

    For a linear model feature j is measured relative to Σ_i s_i |ℓ'_i| |a_ij| / Σ s with ℓ' at the null fit: the
    same for any
    unit of the column. With an intercept columns are centred first, so that their means do not matter either. What the
    rounding of margins explains is left out. For several classes the unit is the largest gradient of the null fit.

    Parameters
    ----------
    problem : Problem or SubsetProblem
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
    rounding = _ROUNDING * (np.abs(columns).T @ np.abs(x[features]) + np.abs(part.of_samples(part.origin)))
    ones = np.flatnonzero(np.isin(features, problem.objective.exempt))
    share = part.share
    if ones.size:
        others = np.delete(np.arange(features.size), ones)
        columns[others] -= (columns[others] @ share)[:, None]
    gradient = columns @ slope + (0.0 if part.ridge is None else part.ridge.gradient(part.tail(z)))
    noise = np.abs(columns) @ (bend * rounding + _ROUNDING * np.abs(slope))
    size = np.abs(columns) @ pull
    typical = float(np.sum(pull)) or 1.0  # where the null fit leaves nothing to a column
    size = np.where(size > 0, size, typical * (np.abs(columns) @ share))
    return _largest(gradient / np.where(size > 0, size, 1.0), noise / np.where(size > 0, size, 1.0), signs)


def _largest(gradient: Vector, noise: Vector, at_bound: NDArray[np.bool_]) -> float:
    """Return the largest component beyond its noise; at a bound only one that points inwards counts."""
    size = np.where(at_bound, np.maximum(-gradient, 0.0), np.abs(gradient))
    return float(np.max(np.maximum(size - noise, 0.0), initial=0.0))
