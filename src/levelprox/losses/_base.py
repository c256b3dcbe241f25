"""The interface of a loss: a function ℓ(z, b) of one margin z and one target b, averaged over the samples.

    value(z, b, s) = Σ s_i ℓ(z_i, b_i) / Σ s_i        with weights s, all 1 unless given

`derivative` and `curvature` are the gradient and the diagonal Hessian of that mean with respect to z,
so that a linear model needs only X'·derivative(Xx, b). The solvers use a few constants of ℓ as a
function of z: its smoothness, its weak convexity, its Lipschitz constant, and the jump of ℓ' at a kink.

All arithmetic is in float64 and in the order of the samples. Margins up to ±1e308 are safe: a number
overflows to infinity only if the exact value exceeds the float64 range, or if b - z does, in which
case the loss takes its limit. NaN margins give NaN.
"""

from __future__ import annotations

import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

import levelprox._kernels as _kernels
from levelprox._typing import Vector
from levelprox._validation import finite, option, real_array
from levelprox.exceptions import InvalidInputError, adopt_renamed

Kind = Literal["regression", "margin", "count", "positive"]

# For each kind: the condition on targets in words, as a test, and a hint for the error message.
_ALLOWED: dict[Kind, tuple[str, Callable[[Vector], NDArray[np.bool_]], str]] = {
    "regression": ("finite", np.isfinite, ""),
    "margin": ("-1 or +1", lambda b: np.abs(b) == 1, "; for 0/1 labels use 2*y - 1"),
    "count": ("nonnegative", lambda b: b >= 0, "; targets of loss='poisson' are counts or rates"),
    "positive": ("positive", lambda b: b > 0, "; targets of loss='gamma' are amounts above 0"),
}


@dataclass(frozen=True)
class Loss(ABC):
    """Base class of the losses ℓ(z, b); most subclasses only set class attributes.

    Attributes
    ----------
    name : str
        The name that `loss_by_name` takes.

    Examples
    --------
    >>> from levelprox.losses import Huber, Loss
    >>> loss = Huber(delta=1.0)
    >>> isinstance(loss, Loss)
    True
    >>> loss.name, loss.kind, loss.smoothness, loss.lipschitz
    ('huber', 'regression', 1.0, 1.0)
    """

    name: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        """Accept the names that hooks had in 0.1."""
        super().__init_subclass__(**options)
        adopt_renamed(cls, {"concordance": "self_concordance", "falls_for_ever": "decreases_forever"})

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """The kind of targets.

        "regression": any real targets, ℓ depends on r = b - z. "margin": targets -1 and +1, ℓ depends on bz.
        "count" and "positive": targets b ≥ 0 and b > 0, z is the log of the mean of b.
        """

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """sup |ℓ''|, the Lipschitz constant of ℓ'; infinite if ℓ has kinks or ℓ'' is unbounded (`Poisson`, `Gamma`)."""

    @property
    @abstractmethod
    def weak_convexity(self) -> float:
        """The least μ ≥ 0 for which ℓ + μ/2 z² is convex; 0 for a convex loss."""

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """sup |ℓ'|, the Lipschitz constant of ℓ; infinite for losses such as `Squared`."""

    @property
    def jump(self) -> float:
        """The largest jump of ℓ' at a kink, max (sup ∂ℓ - inf ∂ℓ); 0 for a smooth loss."""
        return 0.0

    @property
    def smooth(self) -> bool:
        """True if ℓ has no kinks."""
        return self.jump == 0

    @property
    def constant_curvature(self) -> bool:
        """True if ℓ'' is constant."""
        return False

    @property
    def self_concordance(self) -> float:
        """sup |ℓ‴|/ℓ″, the self-concordance constant: the largest change of log ℓ'' per unit of z; inf if unbounded."""
        return 0.0 if self.constant_curvature else math.inf

    @property
    def attained(self) -> bool:
        """True if ℓ(·, b) has a minimiser for every b; if not, see `decreases_forever`."""
        return True

    def decreases_forever(self, direction: Vector, b: Vector) -> NDArray[np.bool_]:
        """Return, for each sample, whether ℓ(z + t·direction, b) decreases for all t; used where not `attained`."""
        return b * direction > 0

    def infimum(self, b: Vector) -> Vector:
        """Return inf over z of ℓ(z, b) for each target."""
        return np.zeros_like(b)

    @property
    def convex_start(self) -> Loss | None:
        """For a nonconvex loss, a convex loss L whose solution is a good start; None for a convex loss.

        ℓ = f(L) with f increasing and concave: ℓ and L have the same minimisers, and near L₀, ℓ is at most
        f(L₀) + f'(L₀)(L − L₀), so that ℓ gives less weight than L to samples that L fits badly.
        """
        return None

    @property
    def parameter(self) -> float:
        """The parameter of the loss, 0.0 if it has none."""
        return 0.0

    @property
    def kernel(self) -> tuple[str, float, float]:
        """The arguments of the compiled kernels: name, parameter and smoothing width (0.0: not smoothed)."""
        return self.name, self.parameter, 0.0

    def smoothed(self, width: float) -> Loss:
        """Return the Moreau envelope of a loss with kinks (see `Smoothed`).

        Raises
        ------
        InvalidInputError
            If ℓ is smooth, or if `width` or its inverse is not positive and finite.
        """
        raise InvalidInputError(f"the loss '{self.name}' is smooth already; only losses with kinks can be smoothed")

    def value(self, z: ArrayLike, b: ArrayLike, weight: ArrayLike | None = None) -> float:
        """Return the weighted mean of the losses.

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
        """Return the gradient of `value` with respect to z: s_i ℓ'(z_i, b_i) / Σ s_i; at a kink, one subgradient."""
        z, b, s = self._arguments(z, b, weight)
        out = np.empty_like(z)
        _kernels.loss_derivative(*self.kernel, z, b, s, out)
        return out

    def curvature(self, z: ArrayLike, b: ArrayLike, weight: ArrayLike | None = None) -> Vector:
        """Return the diagonal of the Hessian of `value` with respect to z: s_i ℓ''(z_i, b_i) / Σ s_i."""
        if not self.smooth:
            raise InvalidInputError(f"the loss '{self.name}' has kinks and no curvature")
        z, b, s = self._arguments(z, b, weight)
        out = np.empty_like(z)
        _kernels.loss_curvature(*self.kernel, z, b, s, out)
        return out

    def typical_curvature(self, z: Vector, b: Vector, weight: Vector | None = None) -> float:
        """Return the size of ℓ'' near z, by which γ and first steps are scaled: sup |ℓ''| where it is finite."""
        return self.smoothness

    def subdifferential(self, z: ArrayLike, b: ArrayLike) -> tuple[Vector, Vector]:
        """Return the least and the largest element of ∂ℓ(z_i, b_i) for each sample, neither weighted nor averaged.

        They are equal where ℓ is differentiable.
        """
        z, b, _ = self._arguments(z, b, None)
        low = np.empty_like(z)
        _kernels.loss_slope(*self.kernel, z, b, low)
        return low, low.copy()

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample, neither weighted nor averaged, on arrays of any namespace.

        Parameters
        ----------
        xp : module
            The array namespace of `z` and `b`: numpy, torch or cupy.
        z, b : arrays of one shape and one type
            Margins, and validated targets.

        Raises
        ------
        InvalidInputError
            If ℓ has kinks.
        """
        raise InvalidInputError(f"the loss '{self.name}' has kinks, and is for data in memory only")

    def heights(self, xp: Any, z: Any, b: Any) -> Any:
        """Return ℓ of every sample, as `pointwise` does."""
        return self.pointwise(xp, z, b)[0]

    def check_targets(self, b: ArrayLike, name: str = "targets") -> Vector:
        """Return `b` as a float64 vector, or raise an `InvalidInputError` that names the first invalid entry."""
        targets = vector(name, b)
        finite("the vector of targets" if name == "targets" else name, targets)
        words, allowed, hint = _ALLOWED[self.kind]
        bad = np.flatnonzero(~allowed(targets))
        if bad.size:
            place = f"got {float(targets[bad[0]])} at index {bad[0]}"
            raise InvalidInputError(f"{name} must be {words}, {place}{hint}")
        return targets

    def _arguments(self, z: ArrayLike, b: ArrayLike, weight: ArrayLike | None) -> tuple[Vector, Vector, Vector | None]:
        """Validate the arguments and return them as the kernels need them: float64, contiguous, of one length."""
        z, b = vector("margins", z), self.check_targets(b)
        if z.size != b.size:
            raise InvalidInputError(f"margins and targets differ in length: {z.size} and {b.size}")
        return z, b, None if weight is None else check_weights(weight, b.size)


def check_weights(weight: ArrayLike, n: int, name: str = "sample weights") -> Vector:
    """Validate the weights of n samples.

    Parameters
    ----------
    weight : array of shape (n,)
        Nonnegative, finite, not all zero.
    n : int
        Number of samples.
    name : str
        Their name in error messages.

    Returns
    -------
    array of shape (n,)
        The same weights in float64.

    Raises
    ------
    InvalidInputError
        With the first invalid entry and its value.

    Examples
    --------
    >>> from levelprox.losses import check_weights
    >>> check_weights([1, 2, 0], 3)
    array([1., 2., 0.])
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


def relative_weights(sample_weight: ArrayLike | None, n: int) -> Vector | None:
    """Return the user's weights of n samples, checked, in units of a power of two: their unit does not matter.

    The unit keeps sums and products in range without rounding.
    """
    if sample_weight is None:
        return None
    weight = check_weights(sample_weight, n)
    return np.ldexp(weight, -int(np.frexp(weight.max())[1]))


def vector(name: str, value: ArrayLike) -> Vector:
    """Return `value` as a contiguous float64 vector that is not empty."""
    array = real_array(name, value)
    if array.ndim != 1:
        raise InvalidInputError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.size == 0:
        raise InvalidInputError(f"{name} must not be empty")
    return np.ascontiguousarray(array, dtype=np.float64)


#: Filled by the package from its table `LOSS_TYPES`.
LOSSES_BY_NAME: dict[str, type[Loss]] = {}


def loss_by_name(loss: str | Loss) -> Loss:
    """Return a loss by name, with its default parameter.

    Parameters
    ----------
    loss : str or Loss
        A name such as "logistic", or a `Loss`, which is returned unchanged.

    Returns
    -------
    Loss
        The loss.

    Raises
    ------
    InvalidInputError
        If there is no loss of that name.

    Examples
    --------
    >>> from levelprox.losses import loss_by_name
    >>> loss_by_name("huber")
    Huber(delta=1.35)
    """
    if isinstance(loss, Loss):
        return loss
    names = LOSSES_BY_NAME
    if not isinstance(loss, str):
        raise InvalidInputError(f"loss must be a Loss or one of the names {', '.join(names)}; got {loss!r}")
    if loss.lower() in ("multinomial", "softmax"):
        raise InvalidInputError(
            f"the loss {loss!r} takes a margin for each class, and a LinearModel has one for each sample; "
            "use objectives.MultinomialModel(X, labels)"
        )
    if option(loss) not in names:
        close = difflib.get_close_matches(loss.lower(), names)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {', '.join(names)}"
        raise InvalidInputError(f"unknown loss {loss!r}; {hint}")
    return names[option(loss)]()
