"""The multinomial loss of K margins, the negative log-likelihood of a class: softmax regression.

    ℓ(z, y) = log Σ_k exp(z_k) − z_y,    ∂ℓ/∂z_k = p_k − [k = y],    ∂²ℓ/∂z_a∂z_b = p_a([a = b] − p_b),

p = exp(z)/Σ_k exp(z_k). ℓ is convex; its Hessian in z has eigenvalues in [0, 1/2], and its gradient a norm of at
most √2. It takes one margin per class, so it is not a `Loss`; its model is `MultinomialModel`.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import levelprox._kernels as _kernels
from levelprox._typing import Vector

Margins = NDArray[np.float64]
Labels = NDArray[np.int64]


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
    def value(z: Margins, label: Labels, weight: Vector | None = None) -> float:
        """Return Σ s_i ℓ(z_i, y_i) / Σ s_i, by compensated summation; samples of weight 0 are ignored."""
        return _kernels.multinomial_value(z, label, weight)

    @staticmethod
    def derivative(z: Margins, label: Labels, weight: Vector | None = None) -> Margins:
        """Return the gradient of `value` with respect to z, of the shape of z: s_i (p_ik − [k = y_i]) / Σ s."""
        out = np.empty_like(z)
        _kernels.multinomial_derivative(z, label, weight, out)
        return out

    @staticmethod
    def probabilities(z: Margins) -> Margins:
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
