"""What a loss is: a function ℓ(z, b) of one margin z and one target b, averaged over the samples.

    value(z, b, s) = Σ s_i ℓ(z_i, b_i) / Σ s_i        with weights s, all 1 unless given

`derivative` and `curvature` are the gradient and the diagonal Hessian of that mean with respect to z,
so that a linear model needs only X'·derivative(Xx, b). The solvers read a few facts about ℓ as a
function of z: how smooth it is, how far it is from convex, how steep, and how sharp its kinks are.

All arithmetic is in float64 and in the order of the samples. Margins up to ±1e308 are safe: a number
overflows to infinity only if the exact one exceeds the float64 range, or if b - z itself does, in which
case the loss takes its limit. NaN margins give NaN.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox import _kernels
from levelprox._typing import Vector
from levelprox._validation import finite, real_array
from levelprox.exceptions import InvalidInputError

Kind = Literal["regression", "margin", "count", "positive"]

# What each kind asks of its targets, in words and as a test; and what may help.
_ALLOWED: dict[Kind, tuple[str, Callable[[Vector], NDArray[np.bool_]], str]] = {
    "regression": ("finite", np.isfinite, ""),
    "margin": ("-1 or +1", lambda b: np.abs(b) == 1, "; for 0/1 labels use 2*y - 1"),
    "count": ("nonnegative", lambda b: b >= 0, "; targets of loss='poisson' are counts or rates"),
    "positive": ("positive", lambda b: b > 0, "; targets of loss='gamma' are amounts above 0"),
}


@dataclass(frozen=True)
class Loss(ABC):
    """A loss ℓ(z, b); the subclasses say which, most of them by plain class attributes.

    Attributes
    ----------
    name : str
        What `loss_by_name` calls it.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """What targets there are and how they enter.

        "regression": any real targets, ℓ depends on r = b - z. "margin": targets -1 and +1, ℓ depends on bz.
        "count" and "positive": targets b ≥ 0 and b > 0, z is the log of what is expected of b.
        """

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """sup |ℓ''|, the Lipschitz constant of ℓ'; infinite if ℓ has kinks, or ℓ'' no bound (`Poisson`, `Gamma`)."""

    @property
    @abstractmethod
    def weak_convexity(self) -> float:
        """The least μ ≥ 0 for which ℓ + μ/2 z² is convex; 0 for a convex loss."""

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """sup |ℓ'|, the Lipschitz constant of ℓ; infinite for losses that outgrow every line, such as `Squared`."""

    @property
    def jump(self) -> float:
        """The largest jump of ℓ' at a kink, max (sup ∂ℓ - inf ∂ℓ); 0 for a smooth loss."""
        return 0.0

    @property
    def smooth(self) -> bool:
        """ℓ has no kinks."""
        return self.jump == 0

    @property
    def constant_curvature(self) -> bool:
        """ℓ'' is the same everywhere."""
        return False

    @property
    def concordance(self) -> float:
        """sup |ℓ‴|/ℓ″: by how much the log of the curvature changes per unit of z; inf where that has no bound."""
        return 0.0 if self.constant_curvature else math.inf

    @property
    def attained(self) -> bool:
        """ℓ(·, b) has a minimiser whatever b; where not, `falls_for_ever` says which way ℓ falls."""
        return True

    def falls_for_ever(self, direction: Vector, b: Vector) -> NDArray[np.bool_]:
        """Whether ℓ(z + t·direction, b) falls for ever as t grows, sample by sample; asked where not `attained`."""
        return b * direction > 0

    def infimum(self, b: Vector) -> Vector:
        """inf over z of ℓ(z, b), for each target."""
        return np.zeros_like(b)

    @property
    def convex_start(self) -> Loss | None:
        """For a loss that is not convex, a convex one L that leads to good minima of it; None for a convex loss.

        ℓ = f(L) with f increasing and concave: ℓ and L are least at the same margins, and where L ≈ L₀, ℓ is at most
        f(L₀) + f'(L₀)(L − L₀), so that samples which L fits badly count less in ℓ, and the others as in L.
        """
        return None

    @property
    def parameter(self) -> float:
        """The loss's one number, 0.0 if none."""
        return 0.0

    @property
    def kernel(self) -> tuple[str, float, float]:
        """What the compiled kernels know it by: its name, its parameter, the width of its smoothing (0.0: none)."""
        return self.name, self.parameter, 0.0

    def smoothed(self, width: float) -> Loss:
        """Return the Moreau envelope of a loss with kinks (see `Smoothed`); a smooth loss has no use for one.

        Raises
        ------
        InvalidInputError
            If ℓ is smooth, or if `width` or its inverse is not positive and finite.
        """
        raise InvalidInputError(f"the loss '{self.name}' is smooth already; only losses with kinks can be smoothed")

    def value(self, z: ArrayLike, b: ArrayLike, weight: ArrayLike | None = None) -> float:
        """Weighted mean of the losses.

        Parameters
        ----------
        z : array of shape (n,)
            Margins.
        b : array of shape (n,)
            Targets, checked as by `check_targets`.
        weight : array of shape (n,), optional
            Weights of the samples, checked as by `check_weights`. A sample of weight 0 counts as absent,
            even if its loss is infinite.

        Returns
        -------
        float
            Σ s_i ℓ(z_i, b_i) / Σ s_i, by compensated summation.
        """
        z, b, s = self._arguments(z, b, weight)
        return _kernels.loss_value(*self.kernel, z, b, s)

    def derivative(self, z: ArrayLike, b: ArrayLike, weight: ArrayLike | None = None) -> Vector:
        """Gradient of `value` with respect to z: s_i ℓ'(z_i, b_i) / Σ s_i; at a kink, one subgradient."""
        z, b, s = self._arguments(z, b, weight)
        out = np.empty_like(z)
        _kernels.loss_derivative(*self.kernel, z, b, s, out)
        return out

    def curvature(self, z: ArrayLike, b: ArrayLike, weight: ArrayLike | None = None) -> Vector:
        """Diagonal of the Hessian of `value` with respect to z: s_i ℓ''(z_i, b_i) / Σ s_i."""
        if not self.smooth:
            raise InvalidInputError(f"the loss '{self.name}' has kinks and no curvature")
        z, b, s = self._arguments(z, b, weight)
        out = np.empty_like(z)
        _kernels.loss_curvature(*self.kernel, z, b, s, out)
        return out

    def typical_curvature(self, z: Vector, b: Vector, weight: Vector | None = None) -> float:
        """The size of ℓ'' that γ and first steps are scaled by, about the margins z: sup |ℓ''| where that is finite."""
        return self.smoothness

    def subdifferential(self, z: ArrayLike, b: ArrayLike) -> tuple[Vector, Vector]:
        """Least and largest element of ∂ℓ(z_i, b_i) for each sample, neither weighted nor averaged.

        The two are equal where ℓ is differentiable.
        """
        z, b, _ = self._arguments(z, b, None)
        low = np.empty_like(z)
        _kernels.loss_slope(*self.kernel, z, b, low)
        return low, low.copy()

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """ℓ, ℓ' and ℓ'' of every sample, neither weighted nor averaged, on arrays of any namespace.

        Parameters
        ----------
        xp : module
            numpy, torch, cupy: what `z` and `b` are arrays of.
        z, b : arrays of one shape and one type
            Margins, and targets that were checked.

        Raises
        ------
        InvalidInputError
            If ℓ has kinks.
        """
        raise InvalidInputError(f"the loss '{self.name}' has kinks, and is for data in memory only")

    def heights(self, xp: Any, z: Any, b: Any) -> Any:
        """ℓ alone, as `pointwise` has it."""
        return self.pointwise(xp, z, b)[0]

    def check_targets(self, b: ArrayLike, name: str = "targets") -> Vector:
        """`b` as a float64 vector, or an `InvalidInputError` that says which entry of `name` cannot be a target."""
        targets = vector(name, b)
        finite("the vector of targets" if name == "targets" else name, targets)
        words, allowed, hint = _ALLOWED[self.kind]
        bad = np.flatnonzero(~allowed(targets))
        if bad.size:
            place = f"got {float(targets[bad[0]])} at index {bad[0]}"
            raise InvalidInputError(f"{name} must be {words}, {place}{hint}")
        return targets

    def _arguments(self, z: ArrayLike, b: ArrayLike, weight: ArrayLike | None) -> tuple[Vector, Vector, Vector | None]:
        """Check the arguments and hand out what the kernels take: float64, contiguous, of one length."""
        z, b = vector("margins", z), self.check_targets(b)
        if z.size != b.size:
            raise InvalidInputError(f"margins and targets differ in length: {z.size} and {b.size}")
        return z, b, None if weight is None else check_weights(weight, b.size)


def check_weights(weight: ArrayLike, n: int, name: str = "sample weights") -> Vector:
    """Weights of n samples, fit for a mean.

    Parameters
    ----------
    weight : array of shape (n,)
        Nonnegative, finite, not all zero.
    n : int
        Number of samples.
    name : str
        What the caller calls them.

    Returns
    -------
    array of shape (n,)
        The same weights in float64.

    Raises
    ------
    InvalidInputError
        Naming the first offending entry and its value.
    """
    s = vector(name, weight)
    if s.size != n:
        raise InvalidInputError(f"there are {n} samples but {s.size} {name}")
    bad = np.flatnonzero(~((s >= 0) & (s < np.inf)))
    if bad.size:
        raise InvalidInputError(
            f"{name} must be nonnegative and finite, got {float(s[bad[0]])} at index {bad[0]} ({bad.size} in total)"
        )
    if not s.any():
        raise InvalidInputError(f"{name} must not be all zero")
    with np.errstate(over="ignore"):
        if not np.isfinite(s.sum()):
            raise InvalidInputError(f"the sum of the {name} overflows; divide by the largest")
    return s


def vector(name: str, value: ArrayLike) -> Vector:
    """`value` as a contiguous float64 vector that is not empty."""
    array = real_array(name, value)
    if array.ndim != 1:
        raise InvalidInputError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.size == 0:
        raise InvalidInputError(f"{name} must not be empty")
    return np.ascontiguousarray(array, dtype=np.float64)
