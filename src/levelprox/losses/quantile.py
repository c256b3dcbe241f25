"""The losses of conditional quantiles, linear on both sides of the target: `Quantile` and, for the median, `Absolute`.

Quantile, the pinball loss; a fraction q of the targets is below the fit:

    ℓ = max(qr, (q - 1)r),      ℓ' = -q for r > 0, 1 - q for r < 0,      ∂ℓ = [-q, 1 - q] at r = 0,      r = b - z

Absolute, twice that of q = 1/2:

    ℓ = |r|,      ℓ' = -sign r,      ∂ℓ = [-1, 1] at r = 0

Koenker and Bassett (1978), Econometrica 46(1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levelprox._typing import Vector
from levelprox._validation import real
from levelprox.exceptions import InvalidInputError
from levelprox.losses.moreau import Kinked


@dataclass(frozen=True)
class Quantile(Kinked):
    """ℓ(z, b) = max(qr, (q - 1)r), r = b - z; max(q, 1 - q)-Lipschitz, convex, not smooth: ℓ' jumps by 1 at z = b.

    `derivative` is 0 at the kink, an element of the subdifferential; `curvature` raises an error.

    Parameters
    ----------
    q : float, default 0.5
        The quantile, in (0, 1): a target above the fit costs q per unit, one below it 1 - q.

    Examples
    --------
    >>> from levelprox.losses import Quantile
    >>> Quantile(q=0.75).value([0.0, 0.0], [2.0, -2.0])
    1.0
    """

    q: float = 0.5

    name = "quantile"
    kind = "regression"
    jump = 1.0

    def __post_init__(self) -> None:
        if not 0 < real("q", self.q) < 1:
            raise InvalidInputError(f"q must be in (0, 1), got {self.q!r}")

    @property
    def lipschitz(self) -> float:
        """max(q, 1 - q)."""
        return max(self.parameter, 1 - self.parameter)

    @property
    def parameter(self) -> float:
        """The fraction q."""
        return float(self.q)

    def slopes(self, b: Vector) -> tuple[Vector, Vector]:
        """Return -q and 1 - q."""
        return np.full_like(b, -self.parameter), np.full_like(b, 1 - self.parameter)


@dataclass(frozen=True)
class Absolute(Kinked):
    """ℓ(z, b) = |b - z|; no parameter; 1-Lipschitz, convex, not smooth: ℓ' jumps by 2 at z = b.

    `derivative` is 0 at the kink, an element of the subdifferential; `curvature` raises an error.

    Examples
    --------
    >>> from levelprox.losses import Absolute
    >>> Absolute().value([0.0, 3.0], [1.0, 1.0])
    1.5
    """

    name = "absolute"
    kind = "regression"
    lipschitz = 1.0
    jump = 2.0

    def slopes(self, b: Vector) -> tuple[Vector, Vector]:
        """Return -1 and 1."""
        return np.full_like(b, -1.0), np.full_like(b, 1.0)
