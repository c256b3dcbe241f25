"""MCP, the minimax concave penalty, whose slope falls linearly from λ to 0.

    φ(t) = λt − t²/(2θ)   for t ≤ θλ,      φ(t) = θλ²/2   beyond,      t = |x|

The slope falls linearly and is 0 from the threshold θλ on: a coefficient beyond it costs the cap
regardless of its size and is not shrunk, and the level counts such coefficients in units of the cap.
Table 2 of the paper; Zhang (2010), Annals of Statistics 38(2).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from levelprox.constraints._base import CompiledConstraint, above, in_interval, unit_cap


@dataclass(frozen=True)
class MCP(CompiledConstraint):
    """The minimax concave penalty, quadratic up to a threshold and constant beyond it.

    φ(t) = lam * t - t**2 / (2 * theta) up to the threshold theta * lam, and the cap
    theta * lam**2 / 2 from there on. Row "MCP" of Table 2 of the paper. C.-H. Zhang (2010), "Nearly
    unbiased variable selection under minimax concave penalty", Annals of Statistics 38(2), 894-942.

    Parameters
    ----------
    lam : float in (0, inf)
        The slope at 0.
    theta : float in (0, inf)
        How slowly the slope falls: its derivative is -1/theta.

    Examples
    --------
    >>> from levelprox.constraints import MCP
    >>> constraint = MCP.from_threshold(0.5)  # each coefficient of size 0.5 or more costs 1
    >>> constraint.value([0.0, 0.5, -3.0, 0.25])
    2.75
    """

    kernel_name: ClassVar[str] = "mcp"

    lam: float
    theta: float

    def __post_init__(self) -> None:
        self._check_parameters(lam=(0, np.inf), theta=(0, np.inf))
        self._check_range("threshold", "cap", "lipschitz")

    @classmethod
    def from_threshold(cls, threshold: float) -> MCP:
        """Build the MCP with cap 1 that saturates at `threshold`, so that a level counts features.

        Its parameters are lam = 2/threshold and theta = threshold**2/2, moved by ulps until the cap is exactly 1.

        Parameters
        ----------
        threshold : float in (0, inf)
            The size from which on a coefficient costs 1.

        Returns
        -------
        MCP
            The constraint.
        """
        a = in_interval("threshold", threshold, 0, np.inf)
        return _with_unit_cap(cls, a)

    @cached_property
    def threshold(self) -> float:
        """θλ, where the slope reaches 0."""
        return self.theta * self.lam

    @cached_property
    def cap(self) -> float:
        """θλ²/2, reached at the threshold; rounded up, so that m coefficients never cost more than m caps."""
        return above(Fraction(self.theta) * Fraction(self.lam) ** 2 / 2)

    @property
    def lipschitz(self) -> float:
        """1/θ, the curvature up to the threshold."""
        return 1 / self.theta

    def kernel_parameters(self) -> tuple[float, ...]:
        """Return the parameters of the formula."""
        return (self.lam, self.theta, self.threshold, self.cap)


@lru_cache(maxsize=256)
def _with_unit_cap(kind: type[MCP], threshold: float) -> MCP:
    return unit_cap(kind, 2 / threshold, threshold / (2 / threshold), threshold)
