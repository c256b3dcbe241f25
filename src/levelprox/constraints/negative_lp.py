"""NegativeLp, the ℓp function with p < 0: a smooth count of nonzeros with a heavier tail than Exp.

    φ(t) = 1 − (1 + θt)^p,      λ = −pθ,      t = |x|

It tends to 1 like a power of t, Exp exponentially, so the cost of large coefficients still grows a
little with their size. With −p → ∞ and pθ fixed it becomes Exp.
Table 2 of the paper; Rao and Kreutz-Delgado (1999), IEEE Transactions on Signal Processing 47(1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from levelprox.constraints._base import CompiledConstraint


@dataclass(frozen=True)
class NegativeLp(CompiledConstraint):
    """The ℓp function with p < 0, a smooth count of the nonzero coefficients.

    φ(t) = 1 - (1 + theta * t)**p, with supremum 1, not reached; the slope at 0 is lam = -p * theta. Row
    "ℓp, p<0" of Table 2 of the paper. B. D. Rao and K. Kreutz-Delgado (1999), "An affine scaling
    methodology for best basis selection", IEEE Transactions on Signal Processing 47(1), 187-200.

    Parameters
    ----------
    p : float in (-inf, 0)
        The power; the further from 0, the faster φ approaches 1.
    theta : float in (0, inf)
        The scale: φ(1/theta) = 1 - 2**p.

    Examples
    --------
    >>> from levelprox.constraints import NegativeLp
    >>> constraint = NegativeLp(p=-1.0, theta=1.0)
    >>> constraint.phi([0.0, 1.0, 3.0]).tolist()
    [0.0, 0.5, 0.75]
    """

    kernel_name: ClassVar[str] = "negative_lp"

    p: float
    theta: float

    def __post_init__(self) -> None:
        self._check_parameters(p=(-np.inf, 0), theta=(0, np.inf))
        self._check_range("lam", "lipschitz")

    @property
    def lam(self) -> float:
        """−pθ, the slope at 0."""
        return -self.p * self.theta

    @property
    def cap(self) -> float:
        """1, not reached."""
        return 1.0

    @property
    def lipschitz(self) -> float:
        """p(p−1)θ², the curvature at 0."""
        return (1 - self.p) * self.theta * self.lam

    def kernel_parameters(self) -> tuple[float, ...]:
        """Return the parameters of the formula."""
        return (self.p, self.theta)
