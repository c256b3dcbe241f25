"""A rescaled constraint: the same function of |x|, stretched by a factor.

    φ_c(t) = φ(t/c),      λ_c = λ/c,      c ≥ 1

The larger c, the closer φ_c is to a linear function: as c → ∞ the set {g_c ≤ η} becomes an ℓ1 ball and the problem
convex. MCP and SCAD keep their cap and multiply their threshold by c; Exp takes λ/c for λ, NegativeLp and Log take θ/c
for θ, Lp takes cε for ε.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from levelprox import _kernels
from levelprox.constraints._base import CompiledConstraint, Constraint, Double, compiled_penalty


@dataclass(frozen=True)
class Rescaled(Constraint):
    """The constraint φ(t/c) for another constraint φ.

    Parameters
    ----------
    constraint : Constraint
        φ.
    factor : float
        c > 0; 1 is φ itself.

    Examples
    --------
    >>> from levelprox.constraints import Log, Rescaled
    >>> Rescaled(Log(theta=9.0), factor=2.0).phi([0.0, 2.0, 22.0]).tolist()
    [0.0, 1.0, 2.0]
    """

    former_names: ClassVar[tuple[str, ...]] = ("Widened",)  # in model files

    constraint: Constraint
    factor: float

    @cached_property
    def lam(self) -> float:
        """λ/c."""
        return self.constraint.lam / self.factor

    @cached_property
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
        """Return the equivalent level: the same number of caps or, without a cap, of coefficients of size 1."""
        if math.isfinite(self.cap):
            return level
        return level * float(self.phi(1.0)) / float(self.constraint.phi(1.0))

    @property
    def compiled(self) -> _kernels.Penalty:
        """φ(t/c) in the form of the kernels."""
        inner = self.constraint
        if type(self) is Rescaled and isinstance(inner, CompiledConstraint) and inner.is_formula:
            return compiled_penalty(inner.kernel_name, inner.kernel_parameters(), self.factor)
        return super().compiled

    def _phi(self, t: Double) -> Double:
        return self.constraint._phi_from_zero(t / self.factor)

    def _slope(self, t: Double) -> Double:
        return self.constraint._slope(t / self.factor) / self.factor

    def _curvature(self, t: Double) -> Double:
        return self.constraint._curvature(t / self.factor) / self.factor / self.factor
