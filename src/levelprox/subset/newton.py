"""Newton's method on ψ over a few features: steps, fits, last digits, and a bound on what is left to gain.

With signs, the active-set method of Lawson and Hanson runs over fits without signs (`fit_with_signs`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from levelprox import _kernels
from levelprox._kernels import FitEnd
from levelprox._typing import Features, Mask, Matrix, Vector
from levelprox.objectives import LinearModel, Model, MultinomialModel, OneVsRestModel
from levelprox.objectives._multiclass import ByClass
from levelprox.subset.fit import (
    EPS,
    NOISE_SHARE,
    Fit,
    begun_at,
    by_class,
    lower_of,
    of_samples,
    rounding_of_loss,
)

if TYPE_CHECKING:
    from levelprox.subset.refit import Refits

LAST_DIGITS_SHARE = 4 * EPS  # of ψ
NEWTON_STEPS = 40
#: Of ψ: a predicted reduction below it is rounding.
PREDICTED_SHARE = 1e-12
#: Steps that only add digits.
LAST_STEPS = 3
_RIDGE_SHARE = 1e-9  # of the curvature at the start
_LOG_CURVATURE_CHANGE = 8.0  # at most, in a step
_ARMIJO = 1e-4
_SLOPE_CORRECTIONS = 2
_SHORTEST_STEP = 2.0**-10  # of a Newton step
_WELL_CONDITIONED = 1e-7  # least eigenvalue of a Hessian with a unit diagonal: fits on Gram matrices are exact enough


def newton_fit(
    objective: Model, x: Vector, tolerance: float, accuracy: float
) -> tuple[Vector, float, Vector, Matrix] | None:
    """Return x, ψ, margins and Hessian once ‖∇ψ‖∞ and what is left to gain are small; None if that takes many steps."""
    z = objective.margins(x)
    psi, gradient, hessian = objective.value_of(z), objective.gradient_of(z), objective.hessian_of(z, True)
    ridge = np.diag(_RIDGE_SHARE * np.diagonal(hessian))
    for _ in range(NEWTON_STEPS):
        flat = float(np.max(np.abs(gradient), initial=0.0)) <= tolerance
        step = newton_step(objective, hessian, gradient, ridge)
        if step is None:
            return (x, psi, z, hessian) if flat else None
        predicted = -float(np.sum(step * gradient))
        if flat and predicted <= 2 * accuracy * abs(psi):
            return x, psi, z, hessian
        if predicted <= PREDICTED_SHARE * abs(psi):  # as where classes are separated: coefficients grow without end
            return x, psi, z, hessian
        along = objective.moved(step)
        far = (
            objective.self_concordance * float(np.max(np.abs(of_samples(objective, along))))
            if _bends(objective)
            else 0.0
        )
        t = min(1.0, _LOG_CURVATURE_CHANGE / far) if far > 0 else 1.0
        while not objective.value_of(z + t * along) <= psi - _ARMIJO * t * predicted + LAST_DIGITS_SHARE * abs(psi):
            t /= 2
            if t < _SHORTEST_STEP:
                return None
        new, gradient, following = objective.evaluated(z, t * step, True)
        if following is None or not np.all(np.isfinite(gradient)):
            return None
        x, z, psi, hessian = x + t * step, new, objective.value_of(new), following
    return None


def last_digits(objective: Model, x: Vector) -> dict[str, Any]:
    """x, ψ and margins after Newton steps for as long as ‖∇ψ‖∞ falls: what they gain shows in x, if not in ψ."""
    z = objective.margins(x)
    psi, gradient, hessian = objective.value_of(z), objective.gradient_of(z), objective.hessian_of(z, True)
    ridge = np.diag(_RIDGE_SHARE * np.diagonal(hessian))
    for _ in range(LAST_STEPS):
        step = newton_step(objective, hessian, gradient, ridge)
        if step is None or _goes_far(objective, step):
            break
        new, following, bend = objective.evaluated(z, step, True)
        value = objective.value_of(new)
        falls = bool(np.max(np.abs(following), initial=0.0) < np.max(np.abs(gradient), initial=0.0))
        if bend is None or not falls or not value <= psi + LAST_DIGITS_SHARE * abs(psi):
            break
        x, z, psi, gradient, hessian = x + step, new, value, following, bend
    return {"x": x, "psi": psi, "margins": z, "hessian": hessian}


def newton_step(objective: Model, hessian: Vector, gradient: Vector, ridge: Vector) -> Vector | None:
    """−(H + ridge)⁻¹∇ψ; where ψ sees only differences between coefficients of classes, the shortest step.

    The ridge keeps features apart whose curvature is gone, as where they separate classes. Where ψ does not see all
    classes shifted alike, H is zero in that direction, and what is added there moves nothing.
    """
    hessian, width = hessian + ridge, objective.width
    if objective.only_contrasts:
        curvature = np.diagonal(hessian).reshape(-1, width).mean(axis=1)
        hessian = hessian + np.kron(np.diag(curvature), np.ones((width, width)))
    try:
        if isinstance(objective, OneVsRestModel):
            solved = np.linalg.solve(by_class(hessian, width), gradient.reshape(-1, width).T[:, :, None])
            step = -np.asarray(solved[:, :, 0].T.ravel(), np.float64)
        else:
            step = -np.asarray(np.linalg.solve(hessian, gradient), np.float64)
    except np.linalg.LinAlgError:
        return None
    return step if np.all(np.isfinite(step)) and np.sum(step * gradient) < 0 else None


def _goes_far(objective: Model, step: Vector) -> bool:
    """Whether a step is no matter of digits: curvature is gone, as of a sample that one feature alone fits."""
    if not _bends(objective):
        return False
    weight = cast("LinearModel | ByClass", objective).sample_weight
    along = of_samples(objective, objective.moved(step))
    along = along if weight is None else along[weight > 0]
    return not objective.self_concordance * float(np.max(np.abs(along), initial=0.0)) <= 1


def _bends(objective: Model) -> bool:
    """Whether the curvature is known to change, and how fast: then margins must not go far in a step."""
    return 0 < objective.self_concordance < math.inf


def gap_bound(objective: Model, psi: float, z: Vector, hessian: Matrix) -> tuple[float, float]:
    """Return a bound on what is left to gain at margins z, and the rounding of ψ; inf where no bound is known.

    The bound is that of `swap_bounds.py`: g'H⁻¹g times a factor of how far the Newton step changes margins.
    """
    self_concordance = 1.0 if isinstance(objective, MultinomialModel) else objective.self_concordance
    resolution = LAST_DIGITS_SHARE * (abs(psi) + rounding_of_loss(objective, z))
    if not math.isfinite(self_concordance) or not hessian.size:
        return (math.inf if hessian.size else 0.0), resolution
    gradient, width = objective.gradient_of(z), objective.width if objective.only_contrasts else 1
    diagonal = np.diagonal(hessian)
    if not np.all(diagonal > 0):
        return math.inf, resolution
    unit = 1 / np.sqrt(diagonal)
    hessian = unit[:, None] * ((hessian + hessian.T) / 2) * unit
    classes = objective.width if isinstance(objective, OneVsRestModel) else 1
    values, vectors = np.linalg.eigh(by_class(hessian, classes))
    seen = values > _WELL_CONDITIONED
    if np.count_nonzero(~seen) > (_unseen_shifts(objective) if width > 1 else 0):
        return math.inf, resolution  # other directions than those that ψ does not see
    coordinates = ((unit * gradient).reshape(-1, classes).T[:, None, :] @ vectors)[:, 0, :]
    scaled = np.where(seen, coordinates / np.where(seen, values, 1.0), 0.0)
    step = -unit * (vectors @ scaled[:, :, None])[:, :, 0].T.ravel()
    moved = of_samples(objective, objective.moved(step))
    change = float(np.max(np.ptp(moved, axis=1) if moved.ndim > 1 and width > 1 else np.abs(moved), initial=0.0))
    factor = float(_kernels.self_concordant_factor(np.array([self_concordance * change]))[0])
    decrement = float(np.sum(coordinates[seen] ** 2 / values[seen]))
    return (0.5 if self_concordance == 0 else factor) * decrement, resolution


def _unseen_shifts(objective: Model) -> int:
    """Return of how many features ψ does not see all classes shifted alike: of those without a ridge."""
    ridge = objective.ridge if isinstance(objective, ByClass) else None
    return objective.dimension // objective.width if ridge is None else int(np.count_nonzero(ridge.own == 0))


def fit_with_signs(refits: Refits, features: Features, near: Fit, tolerance: float, accuracy: float) -> Fit:
    """Return ψ minimised with signs, by Lawson and Hanson's method.

    Features that are not at their bound are fitted without signs. A step towards that fit ends at the first bound that
    it meets; at a fit that satisfies all signs, the feature with the steepest descent leaves its bound.
    """
    signs, x = refits.signs[features], begun_at(near, features, 1)
    x[signs] = np.maximum(x[signs], 0.0)
    free, refused, left_out = ~signs | (x > 0), np.zeros(features.size, np.bool_), np.zeros(features.size, np.bool_)
    entered = -1
    unproved: Fit | None = None  # the best fit that satisfies all signs and is not known to be optimal
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
    """Return slopes + bends ∘ (columns @ step), orthogonal to the columns up to rounding."""
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
