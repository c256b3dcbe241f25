"""Refits with signs: the active-set method of Lawson and Hanson over fits without signs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from levelprox._kernels import FitEnd
from levelprox._typing import Features, Mask, Matrix, Vector
from levelprox.objectives import LinearModel
from levelprox.subset.fit import NOISE_SHARE, Fit, begun_at, lower_of
from levelprox.subset.newton import NEWTON_STEPS

if TYPE_CHECKING:
    from levelprox.subset.refit import Refits

_SLOPE_CORRECTIONS = 2


def fit_with_signs(refits: Refits, features: Features, near: Fit, tolerance: float, accuracy: float) -> Fit:
    """Return ψ minimised with signs, by Lawson and Hanson's method.

    Features that are not at their bound are fitted without signs. A step towards that fit ends at the first bound that
    it meets; at a fit that obeys all signs, the feature with the steepest descent leaves its bound.
    """
    signs, x = refits.signs[features], begun_at(near, features, 1)
    x[signs] = np.maximum(x[signs], 0.0)
    free, refused, left_out = ~signs | (x > 0), np.zeros(features.size, np.bool_), np.zeros(features.size, np.bool_)
    entered = -1
    unproved: Fit | None = None  # the best fit that obeys all signs and is not known to be optimal
    for _ in range(NEWTON_STEPS + 10 * features.size):
        end, fit = refits.by_columns(features[free], Fit(features, x, 0.0, x), tolerance, math.inf, accuracy)
        if fit is None:
            break
        to = np.zeros(features.size)
        to[free] = fit.x
        if end is not FitEnd.FITTED:
            if np.all(np.isfinite(to)) and np.all(to[signs] >= 0):
                failed = Fit(features, to, fit.psi, fit.margins, None, math.inf, fit.resolution)
                failed = refits.as_attained(features, failed)
                unproved = failed if unproved is None else lower_of(unproved, failed)
            if entered < 0:
                break
            left_out[entered], free[entered], entered = True, False, -1  # go on without it
            continue
        wrong = free & signs & (to < 0)
        if entered >= 0 and to[entered] <= 0:  # descends by rounding alone
            refused[entered], free[entered], entered = True, False, -1
            continue
        if np.any(wrong):
            ratio = np.where(wrong, x / np.where(wrong, x - to, 1.0), math.inf)
            x = np.maximum(x + float(ratio.min()) * (to - x), np.where(signs, 0.0, -math.inf))
            held = wrong & (ratio <= ratio.min())
            x[held], free[held], entered = 0.0, False, -1
            continue
        refused &= fit.psi >= near.psi
        x, entered = to, -1
        steepest = _steepest(refits, features, free, refused | left_out, fit.margins)
        found = Fit(features, x, fit.psi, fit.margins, None, fit.gap, fit.resolution)
        if steepest is None and not np.any(left_out):
            return found
        found = replace(found, gap=math.inf)
        unproved = found if unproved is None else lower_of(unproved, found)
        if steepest is None:
            break
        entered = steepest
        free[entered] = True
    other = refits.by_other_ways(features, near, tolerance, accuracy)
    return other if unproved is None else lower_of(other, unproved)


def _steepest(refits: Refits, features: Features, free: Mask, refused: Mask, z: Vector) -> int | None:
    """Return the feature at its bound along which ψ falls fastest, relative to the length of its column.

    Slopes are those after one more Newton step of the free features: of columns that nearly depend on these, what
    is left of the gradient of a fit hides which way ψ falls.
    """
    objective = cast(LinearModel, refits.objective)
    columns, slope, bend = refits.dense(features[free]), objective.slope_of(z), objective.bend_of(z, True)
    if refits.ridge is not None and np.any(free):
        ridge = refits.ridge.restrict(features[free])
        columns = np.vstack([columns, np.eye(columns.shape[1])])
        slope, bend = np.append(slope, ridge.gradient(objective.tail(z))), np.append(bend, ridge.curvatures())
    slope = objective.of_samples(_orthogonal(columns, slope, bend))
    without = free | refused
    best: tuple[float, int | None] = (0.0, None)
    for place in np.flatnonzero(~without):
        (column,) = refits.stored(features[[place]])
        pulls = column.values * (slope if column.rows is None else slope[column.rows])
        length = float(np.sqrt(np.sum((column.values / (np.max(np.abs(column.values), initial=0.0) or 1.0)) ** 2)))
        descent = -float(np.sum(pulls))
        if descent > NOISE_SHARE * float(np.sum(np.abs(pulls))) and length > 0:
            scale = length * float(np.max(np.abs(column.values)))
            best = max(best, (descent / scale, int(place)), key=lambda pair: pair[0])
    return best[1]


def _orthogonal(columns: Matrix, slope: Vector, bend: Vector) -> Vector:
    """Return slopes + bends ∘ (columns @ step), orthogonal to the columns but for rounding."""
    size = np.sqrt(np.sum(bend[:, None] * columns**2, axis=0))
    if not columns.size or not np.all(np.isfinite(size) & (size > 0)):
        return slope
    scaled = columns / size
    hessian = scaled.T @ (bend[:, None] * scaled)
    for _ in range(_SLOPE_CORRECTIONS):
        try:
            step = np.linalg.solve(hessian, scaled.T @ slope)
        except np.linalg.LinAlgError:
            return slope
        if not np.all(np.isfinite(step)):
            return slope
        slope = slope - bend * (scaled @ step)
    return slope
