"""A constraint seen through a wider lens: the same function of |x|, stretched.

    φ_c(t) = φ(t/c),      λ_c = λ/c,      c ≥ 1

The wider, the longer φ stays close to its straight beginning: with c → ∞ the set {g_c ≤ η} becomes an ℓ1 ball, and the
problem convex. MCP and SCAD keep their cap and move their threshold to c times it, Exp has λ/c for λ, NegativeLp and
Log θ/c for θ, Lp cε for ε.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from levelprox.constraints._base import Constraint, Double


@dataclass(frozen=True)
class Widened(Constraint):
    """φ(t/c) for another φ.

    Parameters
    ----------
    constraint : Constraint
        φ.
    factor : float
        c > 0; 1 is φ itself.
    """

    constraint: Constraint
    factor: float

    @property
    def lam(self) -> float:
        """λ/c."""
        return self.constraint.lam / self.factor

    @property
    def lipschitz(self) -> float:
        """L_h/c²."""
        return self.constraint.lipschitz / self.factor / self.factor

    @property
    def cap(self) -> float:
        """That of φ."""
        return self.constraint.cap

    @property
    def threshold(self) -> float:
        """c times that of φ."""
        return self.constraint.threshold * self.factor

    def level_of(self, level: float) -> float:
        """The level that means the same here: as many caps, or as many coefficients of 1 where there is no cap."""
        if math.isfinite(self.cap):
            return level
        return level * float(self.phi(1.0)) / float(self.constraint.phi(1.0))

    def _phi(self, t: Double) -> Double:
        return self.constraint._phi_from_zero(t / self.factor)

    def _slope(self, t: Double) -> Double:
        return self.constraint._slope(t / self.factor) / self.factor

    def _curvature(self, t: Double) -> Double:
        return self.constraint._curvature(t / self.factor) / self.factor / self.factor
