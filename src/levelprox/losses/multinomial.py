"""The multinomial loss of K margins, minus the log-likelihood of a class: softmax regression.

    ℓ(z, y) = log Σ_k exp(z_k) − z_y,    ∂ℓ/∂z_k = p_k − [k = y],    ∂²ℓ/∂z_a∂z_b = p_a([a = b] − p_b),

p = exp(z)/Σ_k exp(z_k). ℓ is convex; its Hessian in z has eigenvalues in [0, 1/2], and its gradient a length of at
most √2. It takes a margin for every class, so it is no `Loss`, and has a model of its own (`MultinomialModel`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from levelprox import _kernels
from levelprox._typing import Vector

Margins = NDArray[np.float64]
Labels = NDArray[np.int64]


class Multinomial:
    """ℓ(z, y) = log Σ_k exp(z_k) − z_y, averaged over samples with weights s.

    Margins are float64 arrays of shape (n, K) in C order, labels whole numbers 0..K−1, weights nonnegative and not
    all zero, or None. Margins up to ±1e308 are safe.
    """

    name: ClassVar[str] = "multinomial"
    #: The largest eigenvalue of ∇²ℓ: 1/2, where two classes share all of the probability.
    smoothness: ClassVar[float] = 0.5
    #: The largest ‖∇ℓ‖₂: √2, where a wrong class is certain.
    lipschitz: ClassVar[float] = 2**0.5

    @staticmethod
    def value(z: Margins, label: Labels, weight: Vector | None = None) -> float:
        """Σ s_i ℓ(z_i, y_i) / Σ s_i, by compensated summation; a sample of weight 0 counts as absent."""
        return _kernels.multinomial_value(z, label, weight)

    @staticmethod
    def derivative(z: Margins, label: Labels, weight: Vector | None = None) -> Margins:
        """Gradient of `value` with respect to z, of its shape: s_i (p_ik − [k = y_i]) / Σ s."""
        out = np.empty_like(z)
        _kernels.multinomial_derivative(z, label, weight, out)
        return out

    @staticmethod
    def probabilities(z: Margins) -> Margins:
        """p_ik = exp(z_ik) / Σ_l exp(z_il)."""
        out = np.empty_like(z)
        _kernels.multinomial_probabilities(z, out)
        return out

    @staticmethod
    def bending(z: Margins, share: Vector) -> tuple[Margins, Margins]:
        """Return √s_i p_ik and s_i p_ik (1 − p_ik), of the shape of z."""
        rooted, bend = np.empty_like(z), np.empty_like(z)
        _kernels.multinomial_bends(z, share, rooted, bend)
        return rooted, bend

    @staticmethod
    def bend(p: Any, a: int, b: int) -> Any:
        """∂²ℓ/∂z_a∂z_b of every sample from its probabilities, on any arrays: p_a([a = b] − p_b)."""
        if a != b:
            return -p[:, a] * p[:, b]
        # 1 − p_a as the sum of the others: the difference has no digits where p_a is nearly 1.
        others = p[:, :a].sum(axis=1) + p[:, a + 1 :].sum(axis=1)
        return p[:, a] * others

    @staticmethod
    def bends(p: Margins) -> Margins:
        """Return ∂²ℓ/∂z_a² of every sample and class from its probabilities, of their shape; sums as in `bend`."""
        before, after = np.zeros_like(p), np.zeros_like(p)
        before[:, 1:] = np.cumsum(p[:, :-1], axis=1)
        after[:, :-1] = np.cumsum(p[:, :0:-1], axis=1)[:, ::-1]
        return np.asarray(p * (before + after), np.float64)

    @staticmethod
    def product(p: Any, v: Any) -> Any:
        """∇²ℓ v of every sample, on arrays of any namespace: p_k (v_k − ⟨p, v⟩)."""
        return p * (v - (p * v).sum(axis=1)[:, None])

    @staticmethod
    def pointwise(xp: Any, z: Any, own: Any) -> tuple[Any, Any, Any]:
        """ℓ and ∂ℓ/∂z of every sample and its probabilities, not weighted or averaged, on arrays of any namespace.

        `own` is a mask of the shape of z: [k = y]. Only differences to the largest margin are raised to powers; a sure
        and right prediction keeps its digits.
        """
        largest = xp.amax(z, axis=1)[:, None]
        highest = z == largest
        e = xp.where(highest, 1.0, xp.exp(z - largest))
        others = xp.where(highest & (xp.cumsum(highest, axis=1) == 1), 0.0, e).sum(axis=1)
        lack = xp.where(highest | ~own, 0.0, largest - z).sum(axis=1)
        p = e / (1.0 + others)[:, None]
        wrong = xp.where(own, 0.0, p).sum(axis=1)
        return xp.log1p(others) + lack, xp.where(own, -wrong[:, None], p), p
