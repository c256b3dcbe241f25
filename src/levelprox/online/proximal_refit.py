"""One batch's problem over a few features: its loss, what earlier batches would say, and how far x may move.

    F(x) = α ψ(x) + ⟨p, x − c⟩ + ½ (x − c)'Q(x − c),      x_j ≥ 0 where required,

with Q positive definite: F grows along every ray on which ψ does not fall without end, so a minimiser exists where
classes are separated, too. Newton's method on margins; at bounds, coordinates that would cross them stay there
(Bertsekas 1982, "Projected Newton methods for optimization problems with simple constraints").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levelprox.objectives import Model

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]

_STEPS = 30
_SHOWS = 1e-10  # of F
_ARMIJO = 1e-4
_HALVINGS = 40
_LAST_DIGITS = 16 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Minimum:
    """x, F(x), the margins there and a positive definite ∇²F."""

    x: Vector
    value: float
    margins: Vector
    hessian: Matrix


class Left(NamedTuple):
    """Where the model of F has its minimum over the features that are left, and which these are."""

    x: Vector
    features: Mask


@dataclass(frozen=True, eq=False)
class Proximal:
    """F.

    Attributes
    ----------
    model : Model
        ψ.
    share : float
        α.
    pull : ndarray of shape (d,)
        p.
    metric : ndarray of shape (d, d)
        Q.
    center : ndarray of shape (d,)
        c.
    nonnegative : ndarray of bool of shape (d,)
    steady : float
        What is added to the curvature of ψ where it is not convex: steps are shorter, the minimiser stays.
    """

    model: Model
    share: float
    pull: Vector
    metric: Matrix
    center: Vector
    nonnegative: Mask
    steady: float

    def value(self, x: Vector, z: Vector) -> float:
        """F(x), given the margins."""
        dx = x - self.center
        return self.share * self.model.value_of(z) + float(self.pull @ dx) + 0.5 * float(dx @ (self.metric @ dx))

    def minimised(self, x: Vector, free: Mask) -> Minimum | None:
        """The minimiser over the free coordinates, from x on, which is 0 at the others; None where that fails."""
        z = self.model.margins(x)
        value = self.value(x, z)
        if not np.isfinite(value):
            return None
        for _ in range(_STEPS):
            gradient = self.share * self.model.gradient_of(z) + self.pull + self.metric @ (x - self.center)
            hessian = self.share * self.model.hessian_of(z, True) + self.metric
            hessian[np.diag_indices_from(hessian)] += self.share * self.steady
            moving = free & ~(self.nonnegative & (x <= 0) & (gradient >= 0))
            step = _newton_step(hessian, gradient, moving)
            if step is None:
                return None
            if -float(gradient @ step) <= _SHOWS * abs(value):
                break
            following = self._searched(x, z, value, gradient, step)
            if following is None:
                break
            x, z, value = following
        return Minimum(x, value, z, hessian)

    def _searched(
        self, x: Vector, z: Vector, value: float, gradient: Vector, step: Vector
    ) -> tuple[Vector, Vector, float] | None:
        """A point along the step, bent where bounds are met, at which F is lower by enough; None if there is none."""
        t = 1.0
        for _ in range(_HALVINGS):
            end = x + t * step
            end[self.nonnegative] = np.maximum(end[self.nonnegative], 0.0)
            margins = z + self.model.moved(end - x)
            after = self.value(end, margins)
            if after <= value + _ARMIJO * float(gradient @ (end - x)) + _LAST_DIGITS * abs(value):
                return (end, margins, after) if after < value else None
            t /= 2
        return None

    def over_few(self, x: Vector, count: Mask, ready: Mask, k: int, price: float) -> Minimum | None:
        """The minimum over at most k features that count: those of x, unless ready ones are worth their price."""
        width = self.model.width
        inside = np.any(x.reshape(-1, width) != 0, axis=1) | ~count
        stay = self.minimised(x, np.repeat(inside, width))
        if stay is None or np.array_equal(inside, inside | ready):
            return stay
        free = inside | ready
        whole = self.minimised(stay.x, np.repeat(free, width))
        if whole is None or stay.value - whole.value <= price:
            return stay
        begin, left = self.without_the_least(whole, free, count, ~inside, k, price)
        if np.array_equal(inside, left):
            return stay
        begin[self.nonnegative] = np.maximum(begin[self.nonnegative], 0.0)
        best = self.minimised(begin, np.repeat(left, width))
        return stay if best is None or stay.value - best.value <= price else best

    def without_the_least(self, best: Minimum, left: Mask, count: Mask, new: Mask, k: int, price: float) -> Left:
        """Leave out the feature that costs least, by the model of F at its minimum, again and again.

        Leaving out feature j costs ½ x_j'K_jj⁻¹x_j and moves x by −K_·j K_jj⁻¹ x_j, with K the inverse Hessian.

        Parameters
        ----------
        best : Minimum
            Over the features that are left at the beginning.
        left, count, new : ndarray of bool
            Which features are left, which of them count, and which must be worth `price` to stay.
        k : int
            How many of those that count may stay.
        """
        width = self.model.width
        x, left, free = best.x.copy(), left.copy(), np.repeat(left, width)
        K = np.zeros_like(best.hessian)
        K[np.ix_(free, free)] = np.linalg.inv(best.hessian[np.ix_(free, free)])
        every = np.arange(left.size)
        while np.any(left & count):
            pulls = np.zeros((left.size, width))
            blocks = K.reshape(left.size, width, left.size, width)[every, :, every, :]
            pulls[left] = np.linalg.solve(blocks[left], x.reshape(-1, width, 1)[left])[:, :, 0]
            cost = np.where(left & count, 0.5 * np.sum(x.reshape(-1, width) * pulls, axis=1), np.inf)
            if np.count_nonzero(left & count) <= k:
                cost[~new | (cost >= price)] = np.inf
            out = int(np.argmin(cost))
            if not np.isfinite(cost[out]):
                break
            mine = slice(out * width, (out + 1) * width)
            x -= K[:, mine] @ pulls[out]
            K = K - K[:, mine] @ np.linalg.solve(K[mine, mine], K[mine, :])
            x[mine] = K[mine, :] = K[:, mine] = 0.0
            left[out] = False
        return Left(x, left)


def _newton_step(hessian: Matrix, gradient: Vector, moving: Mask) -> Vector | None:
    step = np.zeros_like(gradient)
    try:
        step[moving] = -np.linalg.solve(hessian[np.ix_(moving, moving)], gradient[moving])
    except np.linalg.LinAlgError:
        return None
    return step if np.all(np.isfinite(step)) else None
