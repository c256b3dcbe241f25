"""Newton's method over a few features, for losses and data without a compiled fit.

One loop minimises ψ over some features, alone or with a quadratic term: a ridge, or what a stream knows of the batches
before. At bounds, coordinates that would cross them stay there (Bertsekas 1982, "Projected Newton methods for
optimization problems with simple constraints"). multiclass_fit.py has the fits of softmax models over a basis of their
columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from levelprox._typing import Mask, Matrix, Vector
from levelprox.certificate.null_model import NullFit
from levelprox.objectives import Curved, Model, OneVsRestModel
from levelprox.problem import FeatureProblem
from levelprox.subset.fit import (
    LAST_DIGITS_SHARE,
    LAST_STEPS,
    NEWTON_STEPS,
    PREDICTED_SHARE,
    Fit,
    by_class,
)

_RIDGE_SHARE = 1e-9  # of the curvature at the start
_LOG_CURVATURE_CHANGE = 8.0  # at most, in a step
ARMIJO = 1e-4
_HALVINGS = 10  # of a Newton step
_LEAST_PIVOT = 1e-8  # of a Cholesky factor, in units of the diagonal: columns are nearly dependent below it
_MANY_CLASSES = 16  # whose systems are solved by a Cholesky factor


class Minimum(NamedTuple):
    """Where Newton's method ends: x, F(x), margins and a positive semidefinite ∇²F there, and the number of steps."""

    x: Vector
    value: float
    margins: Vector
    hessian: Matrix
    n_steps: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Proximal:
    """F(x) = α ψ(x) + ⟨p, x − c⟩ + ½ (x − c)'Q(x − c); ψ itself where there is no Q.

    Attributes
    ----------
    model : Curved
        ψ.
    metric : ndarray of shape (d, d), optional
        Q.
    pull, center : ndarray of shape (d,), optional
        p and c; None is 0.
    share : float
        α.
    nonnegative : ndarray of bool of shape (d,), optional
        Coordinates that must not be negative.
    steady : float
        What is added to the curvature of ψ where it is not convex: steps are shorter, the minimiser stays.
    hessian_of : callable, optional
        Returns ∇²ψ at margins, where there is a faster way than that of the model.
    """

    model: Curved
    metric: Matrix | None = None
    pull: Vector | None = None
    center: Vector | None = None
    share: float = 1.0
    nonnegative: Mask | None = None
    steady: float = 0.0
    hessian_of: Callable[[Vector], Matrix] | None = None

    def value(self, x: Vector, z: Vector) -> float:
        """Return F(x), given the margins."""
        psi = self.model.value_of(z)
        if self.metric is None:
            return psi
        dx = x if self.center is None else x - self.center
        linear = 0.0 if self.pull is None else float(self.pull @ dx)
        return self.share * psi + linear + 0.5 * float(dx @ (self.metric @ dx))

    def derivatives(self, x: Vector, gradient: Vector, hessian: Matrix) -> tuple[Vector, Matrix]:
        """Return those of F, given those of ψ."""
        if self.metric is None:
            return gradient, hessian
        dx = x if self.center is None else x - self.center
        gradient = self.share * gradient + (0.0 if self.pull is None else self.pull) + self.metric @ dx
        hessian = self.share * hessian + self.metric
        hessian[np.diag_indices_from(hessian)] += self.share * self.steady
        return gradient, hessian

    def hessian(self, z: Vector) -> Matrix:
        """Return the positive semidefinite ∇²ψ at margins."""
        return self.model.hessian_of(z, True) if self.hessian_of is None else self.hessian_of(z)

    def evaluated(self, z: Vector, dx: Vector) -> tuple[Vector, Vector, Matrix | None]:
        """Return margins after a step, and gradient and Hessian of ψ there."""
        if self.metric is None:
            return self.model.evaluated(z, dx, True)
        z = z + self.model.moved(dx)
        hessian = self.hessian(z)  # first: for remote data one round answers for all three
        return z, self.model.gradient_of(z), hessian

    def step(self, x: Vector, gradient: Vector, hessian: Matrix, ridge: Vector, free: Mask | None) -> Vector | None:
        """Return the Newton step over free coordinates that do not cross their bound; None if there is none."""
        if self.nonnegative is None or free is None:
            return newton_step(self.model, hessian, gradient, ridge)
        moving = free & ~(self.nonnegative & (x <= 0) & (gradient >= 0))
        step = np.zeros_like(gradient)
        try:
            step[moving] = -np.linalg.solve(hessian[np.ix_(moving, moving)], gradient[moving])
        except np.linalg.LinAlgError:
            return None
        return step if np.all(np.isfinite(step)) else None

    def inside(self, x: Vector, dx: Vector) -> Vector:
        """Return a step from x, shortened where it would cross a bound."""
        return dx if self.nonnegative is None else np.where(self.nonnegative, np.maximum(x + dx, 0.0), x + dx) - x

    def longest(self, step: Vector) -> float:
        """Return how much of a step to take at most: where the curvature changes, margins must not go far."""
        if self.nonnegative is not None or not isinstance(self.model, Model) or not _bends(self.model):
            return 1.0
        along = self.model.of_samples(self.model.moved(step))
        far = self.model.self_concordance * float(np.max(np.abs(along)))
        return min(1.0, _LOG_CURVATURE_CHANGE / far) if far > 0 else 1.0


def minimised(
    F: Proximal,
    x: Vector,
    accuracy: float,
    tolerance: float = math.inf,
    free: Mask | None = None,
    most: int = NEWTON_STEPS,
    halvings: int = _HALVINGS,
    check: Callable[[], None] = lambda: None,
) -> Minimum:
    """Minimise F by Newton's method with Armijo's rule.

    It has converged once ‖∇F‖∞ is at most `tolerance` and what is left to gain at most `accuracy` of F; or where more
    steps gain nothing, as where classes are separated: coefficients grow without end.

    Parameters
    ----------
    F : Proximal
    x : ndarray of shape (d,)
        Where to begin.
    accuracy, tolerance : float
    free : ndarray of bool of shape (d,), optional
        Coordinates that may change, for F with signs.
    most, halvings : int
        The largest number of steps, and of halvings of each.
    check : callable
        Called before every step; may raise an error.
    """
    model, z = F.model, F.model.margins(x)
    hessian = F.hessian(z)  # first: for remote data one round answers for all three
    gradient, hessian = F.derivatives(x, model.gradient_of(z), hessian)
    value, n_steps, together = F.value(x, z), 0, model.expensive or F.metric is not None
    ridge = np.diag(_RIDGE_SHARE * np.diagonal(hessian))
    while n_steps < most:
        check()
        n_steps += 1
        flat = float(np.max(np.abs(gradient), initial=0.0)) <= tolerance
        step = F.step(x, gradient, hessian, ridge, free)
        if step is None:
            return Minimum(x, value, z, hessian, n_steps, flat)
        predicted = -float(np.sum(step * gradient))
        if predicted <= max(2 * accuracy if flat else 0.0, PREDICTED_SHARE) * abs(value):
            return Minimum(x, value, z, hessian, n_steps, True)
        t = F.longest(step)
        for _ in range(halvings):
            dx = F.inside(x, t * step)
            after = F.evaluated(z, dx) if together else None
            reached = F.value(x + dx, z + model.moved(dx) if after is None else after[0])
            if reached <= value + ARMIJO * float(np.sum(gradient * dx)) + LAST_DIGITS_SHARE * abs(value):
                break
            t /= 2
        else:
            break
        new, gradient, following = after or F.evaluated(z, dx)
        if following is None or not np.all(np.isfinite(gradient)):
            break
        x, z = x + dx, new
        value, (gradient, hessian) = F.value(x, z), F.derivatives(x, gradient, following)
    return Minimum(x, value, z, hessian, n_steps, False)


def to_the_last_digits(problem: FeatureProblem, fit: Fit, null: NullFit) -> Fit:
    """Return the same set, fitted as well as it can be: coefficients have half the digits that ψ has.

    Newton steps follow for as long as ‖∇ψ‖∞ falls: what they gain shows in x, if not in ψ.
    """
    part = problem.restrict(fit.features)
    objective = cast(Model, part.objective)
    if np.any(part.must_be_nonnegative()) or objective.is_separated(fit.x):
        return fit
    x, z = fit.x, objective.margins(fit.x)
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
    # Of near-equal columns, or columns with a large mean, terms are large and cancel: margins from a fit in a basis
    # have more digits than these.
    if null.reported(objective, x, psi) != psi or not psi <= fit.psi + fit.resolution:
        return fit
    return replace(fit, x=x, psi=psi, margins=z, hessian=hessian)


def newton_step(objective: Curved, hessian: Vector, gradient: Vector, ridge: Vector) -> Vector | None:
    """−(H + ridge)⁻¹∇ψ; where ψ sees only differences between coefficients of classes, the shortest step.

    The ridge keeps features apart whose curvature is gone, as where they separate classes. Where ψ does not see all
    classes shifted alike, H is zero in that direction, and what is added there moves nothing.
    """
    hessian, n_outputs = hessian + ridge, objective.n_outputs
    if objective.only_contrasts:
        curvature = np.diagonal(hessian).reshape(-1, n_outputs).mean(axis=1)
        hessian = hessian + np.kron(np.diag(curvature), np.ones((n_outputs, n_outputs)))
    try:
        if isinstance(objective, OneVsRestModel):
            steps = np.linalg.solve(by_class(hessian, n_outputs), gradient.reshape(-1, n_outputs).T[:, :, None])
            step = -np.asarray(steps[:, :, 0].T.ravel(), np.float64)
        else:
            step = -solved(hessian, gradient, n_outputs)
    except np.linalg.LinAlgError:
        return None
    return step if np.all(np.isfinite(step)) and np.sum(step * gradient) < 0 else None


def _goes_far(objective: Model, step: Vector) -> bool:
    """Return whether a step is no matter of digits: curvature is gone, as of a sample that one feature alone fits."""
    if not _bends(objective):
        return False
    weight = objective.sample_weight
    along = objective.of_samples(objective.moved(step))
    along = along if weight is None else along[weight > 0]
    return not objective.self_concordance * float(np.max(np.abs(along), initial=0.0)) <= 1


def _bends(objective: Model) -> bool:
    """Return whether the curvature is known to change, and how fast: then margins must not go far in a step."""
    return 0 < objective.self_concordance < math.inf


def solved(matrix: Matrix, right: Vector, K: int) -> Vector:
    """Return the solution of a symmetric system; for many classes by a Cholesky factor, where there is one."""
    if K > _MANY_CLASSES:
        with suppress(np.linalg.LinAlgError):
            return np.asarray(cho_solve(cho_factor(matrix, check_finite=False), right, check_finite=False), np.float64)
    return np.asarray(np.linalg.solve(matrix, right), np.float64)


def shortest_solution(matrix: Matrix, right: Vector) -> Vector:
    """Return the solution of a positive semidefinite system; the shortest one, where it is nearly singular."""
    with suppress(np.linalg.LinAlgError):
        factor, lower = cho_factor(matrix, check_finite=False)
        if np.all(np.diagonal(factor) ** 2 > _LEAST_PIVOT * np.diagonal(matrix)):
            return np.asarray(cho_solve((factor, lower), right, check_finite=False), np.float64)
    return np.asarray(np.linalg.pinv(matrix, hermitian=True) @ right, np.float64)
