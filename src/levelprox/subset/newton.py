"""Newton's method on ψ over a few features: steps, fits, last digits, and a bound on what is left to gain."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from levelprox import _kernels
from levelprox._typing import Matrix, Vector
from levelprox.objectives import LinearModel, Model, MultinomialModel, OneVsRestModel
from levelprox.objectives._multiclass import ByClass
from levelprox.subset.fit import EPS, by_class, of_samples, rounding_of_loss

LAST_DIGITS_SHARE = 4 * EPS  # of ψ
NEWTON_STEPS = 40
#: Of ψ: a predicted reduction below it is rounding.
PREDICTED_SHARE = 1e-12
#: Steps that only add digits.
LAST_STEPS = 3
_RIDGE_SHARE = 1e-9  # of the curvature at the start
_LOG_CURVATURE_CHANGE = 8.0  # at most, in a step
_ARMIJO = 1e-4
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
