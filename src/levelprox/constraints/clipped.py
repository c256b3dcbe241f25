"""MCP and SCAD, whose cost is constant from a threshold on.

A coefficient beyond the threshold costs the cap regardless of its size and is not shrunk, and the level counts such
coefficients in units of the cap. With t = |x|, the minimax concave penalty (MCP) has a slope that falls linearly from λ
to 0,

    φ(t) = λt − t²/(2θ)   for t ≤ θλ,      φ(t) = θλ²/2   beyond,

and the smoothly clipped absolute deviation (SCAD) is linear near 0, then quadratic as MCP, then constant:

    φ(t) = λt                                 for t ≤ κ,      κ = λ/f
    φ(t) = λt − f(t − κ)²/(2(θ−1))            for κ ≤ t ≤ θκ
    φ(t) = (θ+1)λκ/2                          beyond

The factor f is 1 in the paper, where λ is both the slope at 0 and the position of the first knee. Here f
multiplies the whole function and λ/f replaces the paper's λ, so that slope, knee κ and threshold θκ can be
chosen independently and `lam` is always the slope at 0.
Table 2 of the paper; Zhang (2010), Annals of Statistics 38(2); Fan and Li (2001), Journal of the American Statistical
Association 96(456).
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


@dataclass(frozen=True)
class SCAD(CompiledConstraint):
    """The smoothly clipped absolute deviation: linear, then quadratic, then constant.

    With knee = lam / factor, φ(t) = lam * t up to the knee,
    lam * t - factor * (t - knee)**2 / (2 * (theta - 1)) up to the threshold theta * knee, and the cap
    (theta + 1) * lam * knee / 2 from there on; that is `factor` times the paper's SCAD with lam / factor
    for its lam. Row "SCAD" of Table 2 of the paper. J. Fan and R. Li (2001), "Variable selection via
    nonconcave penalized likelihood and its oracle properties", Journal of the American Statistical
    Association 96(456), 1348-1360.

    Parameters
    ----------
    lam : float in (0, inf)
        The slope at 0, and up to the knee.
    theta : float in (1, inf)
        The threshold as a multiple of the knee; Fan and Li recommend 3.7.
    factor : float in (0, inf), default 1
        Scales the function; 1 is the paper's SCAD.

    Examples
    --------
    >>> from levelprox.constraints import SCAD
    >>> constraint = SCAD.from_threshold(0.5)  # each coefficient of size 0.5 or more costs 1
    >>> constraint.value([0.0, 0.5, -3.0])
    2.0
    """

    kernel_name: ClassVar[str] = "scad"

    lam: float
    theta: float
    factor: float = 1.0

    def __post_init__(self) -> None:
        self._check_parameters(lam=(0, np.inf), theta=(1, np.inf), factor=(0, np.inf))
        self._check_range("knee", "threshold", "cap", "lipschitz")

    @classmethod
    def from_threshold(cls, threshold: float, theta: float = 3.7) -> SCAD:
        """Build the SCAD with cap 1 that saturates at `threshold`, so that a level counts features.

        Its knee is threshold/theta and lam = 2/(threshold + knee), moved by ulps until the cap is exactly 1.

        Parameters
        ----------
        threshold : float in (0, inf)
            The size from which on a coefficient costs 1.
        theta : float in (1, inf), default 3.7
            The threshold as a multiple of the knee.

        Returns
        -------
        SCAD
            The constraint.
        """
        a = in_interval("threshold", threshold, 0, np.inf)
        theta = in_interval("theta", theta, 1, np.inf)
        lam = 2 / (a + a / theta)
        return unit_cap(lambda lam, factor: cls(lam, theta, factor), lam, lam * theta / a, a)

    @property
    def knee(self) -> float:
        """κ, the end of the linear part of φ."""
        return self.lam / self.factor

    @property
    def threshold(self) -> float:
        """θκ, where the slope reaches 0."""
        return self.theta * self.knee

    @cached_property
    def cap(self) -> float:
        """(θ+1)λκ/2, reached at the threshold; rounded up, so that m coefficients never cost more than m caps."""
        return above((Fraction(self.theta) + 1) * Fraction(self.lam) ** 2 / (2 * Fraction(self.factor)))

    @property
    def lipschitz(self) -> float:
        """f/(θ−1), the curvature between knee and threshold."""
        return self.factor / (self.theta - 1)

    def kernel_parameters(self) -> tuple[float, ...]:
        """Return the parameters of the formula."""
        return (self.lam, self.knee, self.threshold, self.cap, self.lipschitz)
