"""Exp, a smooth approximation of the count of nonzero coefficients.

    φ(t) = 1 − e^{−λt},      t = |x|

It tends to 1 without reaching it, so a level of m allows a little more than m coefficients;
a coefficient costs at least 0.95 from t = 3/λ on.
Table 2 of the paper; Bradley and Mangasarian (1998), ICML.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from levelprox.constraints._base import CompiledConstraint


@dataclass(frozen=True)
class Exp(CompiledConstraint):
    """The exponential function, a smooth count of the nonzero coefficients.

    φ(t) = 1 - exp(-lam * t), with supremum 1, not reached. Row "Exp" of Table 2 of the paper.
    P. S. Bradley and O. L. Mangasarian (1998), "Feature selection via concave minimization and support
    vector machines", Proceedings of the 15th International Conference on Machine Learning, 82-90.

    Parameters
    ----------
    lam : float in (0, inf)
        The slope at 0; a coefficient of 1/lam costs 1 - 1/e.

    Examples
    --------
    >>> from levelprox.constraints import Exp
    >>> round(Exp(lam=3.0).value([0.0, 10.0, -20.0]), 6)  # the number of nonzero coefficients
    2.0
    """

    kernel_name: ClassVar[str] = "exponential"

    lam: float

    def __post_init__(self) -> None:
        self._check_parameters(lam=(0, np.inf))
        self._check_range("lipschitz")

    @property
    def cap(self) -> float:
        """1, not reached."""
        return 1.0

    @property
    def lipschitz(self) -> float:
        """λ², the curvature at 0."""
        return self.lam * self.lam

    def kernel_parameters(self) -> tuple[float, ...]:
        """Return the parameters of the formula."""
        return (self.lam,)
