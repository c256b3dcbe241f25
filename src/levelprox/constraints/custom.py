"""Custom, any concave constraint, given by λ, h and h'.

    φ(t) = λt − h(t),      h convex and C¹ on t ≥ 0,   h(0) = h'(0) = 0,   0 ≤ h' ≤ λ,      t = |x|

The general g of Assumption 1 of the paper, for one coordinate. φ has no closed form here: it is computed
as the difference, and loses digits where λt is much larger than φ(t). For full accuracy, write a
subclass of `Constraint`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox.constraints._base import EPS, Constraint, Double, in_interval
from levelprox.exceptions import InvalidInputError

# Tolerated errors of the user's functions, relative to λ and to λt.
SLACK = 1e-9
SLACK_OF_H = 4 * EPS


@dataclass(frozen=True, repr=False)
class Custom(Constraint):
    """A constraint given by its slope at 0 and its convex part h.

    φ(t) = lam * t - h(t) for any convex, continuously differentiable h of t = |x| >= 0 with h(0) = 0,
    h'(0) = 0 and h' <= lam: Assumption 1 of the paper. Both functions are called with float64 arrays
    t >= 0 and return arrays of the same shape. The constructor evaluates them on a grid from 1e-6 to
    1e6 times lam / lipschitz, and raises `InvalidInputError` if they violate one of these conditions or
    do not fit together.

    φ is computed as the difference, so its error is about 1e-16 * lam * t, not relative to φ. Where
    grad_h(t) equals lam it is the cap exactly. `curvature` is a difference quotient of grad_h.

    Parameters
    ----------
    lam : float in (0, inf)
        The slope of φ at 0, and a bound on grad_h.
    h : callable
        The convex part, h(t).
    grad_h : callable
        Its derivative, h'(t).
    lipschitz : float in (0, inf)
        The Lipschitz constant of grad_h.
    cap : float in (0, inf], default inf
        The supremum of φ; required if it is finite.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.constraints import Custom
    >>> def h(t):
    ...     return t * (t / (1 + np.hypot(1, t)))  # sqrt(1 + t**2) - 1, without its cancellation
    >>> def grad_h(t):
    ...     return t / np.hypot(1, t)
    >>> constraint = Custom(lam=1, h=h, grad_h=grad_h, lipschitz=1, cap=1)
    >>> constraint.value([0.0, 0.75, -0.75])
    1.0
    """

    lam: float
    h: Callable[[Double], ArrayLike]
    grad_h: Callable[[Double], ArrayLike]
    lipschitz: float
    cap: float = math.inf

    def __post_init__(self) -> None:
        self._check_parameters(lam=(0, np.inf), lipschitz=(0, np.inf))
        if not (isinstance(self.cap, float) and self.cap == math.inf):
            object.__setattr__(self, "cap", in_interval("cap", self.cap, 0, np.inf))
        for name in ("h", "grad_h"):
            if not callable(getattr(self, name)):
                raise InvalidInputError(f"{name} must be a function of t, got {getattr(self, name)!r}")
        with np.errstate(over="ignore", under="ignore"):
            self._check_functions()

    def __repr__(self) -> str:
        h, grad_h = (getattr(f, "__name__", type(f).__name__) for f in (self.h, self.grad_h))
        return f"Custom(lam={self.lam}, h={h}, grad_h={grad_h}, lipschitz={self.lipschitz}, cap={self.cap})"

    def _phi(self, t: Double) -> Double:
        difference = np.clip(self.lam * t - self._call("h", t), 0, self.cap)
        if math.isinf(self.cap):
            return difference
        return np.where(self._call("grad_h", t) >= self.lam, self.cap, difference)

    def _phi_above(self, t: Double) -> Double:
        # Valid if the user's h is correct up to its last digits.
        return np.minimum(self._phi_from_zero(t) + SLACK_OF_H * self.lam * t, self.cap)

    def _slope(self, t: Double) -> Double:
        # λ at 0 by definition: grad_h may have a rounding error there.
        return np.where(t == 0, self.lam, np.clip(self.lam - self._call("grad_h", t), 0, self.lam))

    def _curvature(self, t: Double) -> Double:
        step = EPS ** (1 / 3) * np.maximum(t, self.lam / self.lipschitz)
        low, high = np.maximum(t - step, 0), np.minimum(t + step, np.finfo(np.float64).max)
        rise = self._call("grad_h", high) - self._call("grad_h", low)
        quotient: Double = np.clip(rise / (high - low), 0, self.lipschitz)
        return quotient

    def _call(self, name: str, t: Double) -> Double:
        """Call h or grad_h and raise an error for values that are not possible at t."""
        result = np.asarray(getattr(self, name)(t))
        if result.shape != t.shape:
            raise InvalidInputError(f"{name} must return the shape of t, {t.shape}, got {result.shape}")
        if result.dtype.kind not in "buif":
            raise InvalidInputError(f"{name} must return real numbers, got dtype {result.dtype}")
        bad = ~np.isfinite(result) & np.isfinite(t)
        if bad.any():
            raise InvalidInputError(f"{name} must be finite, got {result[bad][0]} at t = {t[bad][0]:g}")
        return result.astype(np.float64, copy=False)

    def _check_functions(self) -> None:
        lam, t = self.lam, np.concatenate(([0.0], self.lam / self.lipschitz * np.geomspace(1e-6, 1e6, 241)))
        h, grad = self._call("h", t), self._call("grad_h", t)
        _refuse(abs(h[:1]) > SLACK * lam * t[1], "h(0) must be 0", h, t)
        _refuse(abs(grad[:1]) > SLACK * lam, "grad_h(0) must be 0", grad, t)
        outside = (grad < -SLACK * lam) | (grad > (1 + SLACK) * lam)
        _refuse(outside, f"grad_h must be in [0, lam] = [0, {lam:g}]", grad, t)

        step, rise, end = np.diff(t), np.diff(grad), t[1:]
        _refuse(rise < -SLACK * lam, "grad_h must not decrease, for h to be convex", grad[1:], end)
        steep = rise > (1 + SLACK) * self.lipschitz * step + SLACK * lam
        _refuse(steep, f"grad_h must not rise faster than lipschitz = {self.lipschitz:g}", rise / step, end)

        # Between two points, a convex h rises at least as fast as its left slope and at most as fast as its right one.
        gain, slack = np.diff(h), SLACK * lam * end
        apart = (gain < grad[:-1] * step - slack) | (gain > grad[1:] * step + slack)
        _refuse(apart, "h must rise as its derivative grad_h says", gain / step, end)
        phi = lam * t - h
        above = phi > self.cap + SLACK * lam * t
        _refuse(above, f"lam * t - h(t) must not exceed cap = {self.cap:g}", phi, t)
        if math.isinf(self.cap):  # a flat phi needs its cap: for large t the difference is only rounding error
            flat = grad >= (1 - SLACK) * lam
            if flat.any():
                reached = f"phi = {phi[flat][0]:g} at t = {t[flat][0]:g}"
                raise InvalidInputError(f"grad_h reaches lam and phi its cap, so cap must be given; {reached}")


def _refuse(bad: NDArray[np.bool_], rule: str, values: Double, t: Double) -> None:
    if bad.any():
        first = int(np.argmax(bad))
        raise InvalidInputError(f"{rule}, got {values[first]:g} at t = {t[first]:g}")
