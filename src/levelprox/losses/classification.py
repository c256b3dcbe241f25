"""The losses of labels: of a margin m = bz for targets b = ±1, and of one margin for each of K classes.

`Logistic`, the negative log-likelihood of a label:

    ℓ = log(1 + exp(-m)),    ℓ' = -b / (1 + exp(m)),    ℓ'' = p(1 - p),    p = 1 / (1 + exp(-m))

`Hinge`, of support vector machines, 0 from m = 1 on:

    ℓ = max(0, 1 - m),    ℓ' = -b for m < 1, 0 for m > 1,    ∂ℓ = -b·[0, 1] at the kink m = 1, or z = b

`SquaredHinge`, its square:

    m < 1:   ℓ = (1 - m)²,    ℓ' = -2b(1 - m),    ℓ'' = 2
    m ≥ 1:   ℓ = 0,           ℓ' = 0,             ℓ'' = 0

`Sigmoid`, a smooth count of errors, at most 1 per sample. Not convex. The maximum of |ℓ''| is 1/(6√3), at
ℓ = (1 ± 1/√3)/2, that is m = ∓log(2 + √3), with both signs.

    ℓ = 1/(1 + exp(m)),    ℓ' = -b ℓ(1 - ℓ),    ℓ'' = ℓ(1 - ℓ)(1 - 2ℓ)

`Multinomial`, the negative log-likelihood of one of K classes: softmax regression. It is convex; its Hessian in z has
eigenvalues in [0, 1/2], and its gradient a norm of at most √2. It takes one margin per class, so it is not a `Loss`;
its model is `MultinomialModel`.

    ℓ(z, y) = log Σ_k exp(z_k) − z_y,    ∂ℓ/∂z_k = p_k − [k = y],    ∂²ℓ/∂z_a∂z_b = p_a([a = b] − p_b),
    p = exp(z)/Σ_k exp(z_k)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import levelprox._kernels as _kernels
from levelprox._typing import Matrix, Vector
from levelprox.losses._base import Loss
from levelprox.losses.moreau import Kinked

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Logistic(Loss):
    """ℓ(z, b) = log(1 + exp(-bz)), b = ±1; no parameter; smoothness 1/4 (at z = 0), convex, 1-Lipschitz.

    Examples
    --------
    >>> from levelprox.losses import Logistic
    >>> round(Logistic().value([0.0, 2.0], [1.0, -1.0]), 6)
    1.410038
    """

    name = "logistic"
    kind = "margin"
    smoothness = 0.25
    weak_convexity = 0.0
    lipschitz = 1.0
    attained = False
    self_concordance = 1.0  # |ℓ‴| = p(1 - p)|1 - 2p|

    def heights(self, xp: Any, z: Any, b: Any) -> Any:
        """Return ℓ of every sample, as `pointwise` does."""
        m = b * z
        return xp.log1p(xp.exp(-xp.abs(m))) + xp.where(m < 0, -m, 0.0)

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample; see `Loss.pointwise`."""
        m = b * z
        e = xp.exp(-xp.abs(m))  # at most 1 for every margin
        value = xp.log1p(e) + xp.where(m < 0, -m, 0.0)
        return value, -b * xp.where(m > 0, e, 1.0) / (1.0 + e), e / ((1.0 + e) * (1.0 + e))


@dataclass(frozen=True)
class Hinge(Kinked):
    """ℓ(z, b) = max(0, 1 - bz), b = ±1; no parameter; 1-Lipschitz, convex, not smooth: ℓ' jumps by 1 at z = b.

    `derivative` is 0 at the kink, an element of the subdifferential; `curvature` raises an error.

    Examples
    --------
    >>> from levelprox.losses import Hinge
    >>> Hinge().value([2.0, 0.0], [1.0, -1.0])
    0.5
    """

    name = "hinge"
    kind = "margin"
    lipschitz = 1.0
    jump = 1.0

    def slopes(self, b: Vector) -> tuple[Vector, Vector]:
        """Return -1 and 0 for b = 1, 0 and 1 for b = -1."""
        return np.minimum(-b, 0.0), np.maximum(-b, 0.0)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """ℓ(z, b) = max(0, 1 - bz)², b = ±1; no parameter; smoothness 2, convex, not Lipschitz.

    Examples
    --------
    >>> from levelprox.losses import SquaredHinge
    >>> SquaredHinge().value([2.0, 0.0, 1.0], [1.0, 1.0, -1.0])
    1.6666666666666667
    """

    name = "squared_hinge"
    kind = "margin"
    smoothness = 2.0
    weak_convexity = 0.0
    lipschitz = math.inf

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample; see `Loss.pointwise`."""
        lack = 1.0 - b * z
        lack = xp.where(lack < 0, 0.0, lack)  # in this order NaN stays NaN
        bend = xp.where(lack > 0, 2.0 * xp.ones_like(lack), xp.zeros_like(lack))
        return lack * lack, -2.0 * b * lack, xp.where(xp.isnan(z), z, bend)


@dataclass(frozen=True)
class Sigmoid(Loss):
    """ℓ(z, b) = 1/(1 + exp(bz)), b = ±1; no parameter; smoothness and weak convexity 1/(6√3), 1/4-Lipschitz.

    Examples
    --------
    >>> from levelprox.losses import Sigmoid
    >>> Sigmoid().value([0.0, 50.0, 50.0], [1.0, 1.0, -1.0])
    0.5
    """

    name = "sigmoid"
    kind = "margin"
    smoothness = math.sqrt(3) / 18
    weak_convexity = math.sqrt(3) / 18
    lipschitz = 0.25
    attained = False
    convex_start = Logistic()  # ℓ = 1 - exp(-L)

    def pointwise(self, xp: Any, z: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ℓ' and ℓ'' of every sample; see `Loss.pointwise`."""
        m = b * z
        e = xp.exp(-xp.abs(m))
        size = e / ((1.0 + e) * (1.0 + e))
        bend = size * -xp.expm1(-xp.abs(m)) / (1.0 + e)
        return xp.where(m > 0, e, 1.0) / (1.0 + e), -b * xp.where(size > 0.25, 0.25, size), xp.copysign(bend, m)


class Multinomial:
    """ℓ(z, y) = log Σ_k exp(z_k) − z_y, averaged over samples with weights s.

    Margins are float64 arrays of shape (n, K) in C order, labels integers 0..K−1, weights nonnegative and not
    all zero, or None. Margins up to ±1e308 are safe.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.losses import Multinomial
    >>> z = np.zeros((2, 4))
    >>> Multinomial.probabilities(z)[0].tolist()
    [0.25, 0.25, 0.25, 0.25]
    >>> round(Multinomial.value(z, np.array([0, 3])), 6)  # log 4
    1.386294
    """

    name: ClassVar[str] = "multinomial"
    #: The largest eigenvalue of ∇²ℓ: 1/2, where two classes share all of the probability.
    smoothness: ClassVar[float] = 0.5
    #: The largest ‖∇ℓ‖₂: √2, where a wrong class is certain.
    lipschitz: ClassVar[float] = 2**0.5
    #: As of a `Loss`: ℓ is smooth and convex, has no minimiser, and no bound on |ℓ‴|/ℓ″ is known.
    smooth: ClassVar[bool] = True
    weak_convexity: ClassVar[float] = 0.0
    attained: ClassVar[bool] = False
    self_concordance: ClassVar[float] = math.inf

    @staticmethod
    def value(z: Matrix, label: Labels, weight: Vector | None = None) -> float:
        """Return Σ s_i ℓ(z_i, y_i) / Σ s_i, by compensated summation; samples of weight 0 are ignored."""
        return _kernels.multinomial_value(z, label, weight)

    @staticmethod
    def derivative(z: Matrix, label: Labels, weight: Vector | None = None) -> Matrix:
        """Return the gradient of `value` with respect to z, of the shape of z: s_i (p_ik − [k = y_i]) / Σ s."""
        out = np.empty_like(z)
        _kernels.multinomial_derivative(z, label, weight, out)
        return out

    @staticmethod
    def probabilities(z: Matrix) -> Matrix:
        """Return the class probabilities p_ik = exp(z_ik) / Σ_l exp(z_il)."""
        out = np.empty_like(z)
        _kernels.multinomial_probabilities(z, out)
        return out

    @staticmethod
    def bend(p: Any, a: int, b: int) -> Any:
        """Return ∂²ℓ/∂z_a∂z_b of every sample from its probabilities, on any arrays: p_a([a = b] − p_b)."""
        if a != b:
            return -p[:, a] * p[:, b]
        # 1 − p_a as the sum of the others: the difference would cancel where p_a is nearly 1.
        others = p[:, :a].sum(axis=1) + p[:, a + 1 :].sum(axis=1)
        return p[:, a] * others

    @staticmethod
    def product(p: Any, v: Any) -> Any:
        """Return ∇²ℓ v of every sample, on arrays of any namespace: p_k (v_k − ⟨p, v⟩)."""
        return p * (v - (p * v).sum(axis=1)[:, None])

    @staticmethod
    def pointwise(xp: Any, z: Any, own: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ∂ℓ/∂z and the probabilities of every sample, not weighted or averaged, on arrays of any namespace.

        `own` is a mask of the shape of z: [k = y]. Exponentials are taken only of differences to the largest margin,
        so confident and correct predictions keep their digits.
        """
        largest = xp.amax(z, axis=1)[:, None]
        highest = z == largest
        e = xp.where(highest, 1.0, xp.exp(z - largest))
        others = xp.where(highest & (xp.cumsum(highest, axis=1) == 1), 0.0, e).sum(axis=1)
        lack = xp.where(highest | ~own, 0.0, largest - z).sum(axis=1)
        p = e / (1.0 + others)[:, None]
        wrong = xp.where(own, 0.0, p).sum(axis=1)
        return xp.log1p(others) + lack, xp.where(own, -wrong[:, None], p), p
