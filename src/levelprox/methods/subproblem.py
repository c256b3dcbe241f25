"""The convex problem of one step: min ψ_k(x) = ψ(x) + γ/2 ‖x − x^{k−1}‖² over the surrogate set.

If columns have very different sizes, or means of many deviations beside an intercept, lengths are measured in the
coordinates w of `objectives.Coordinates` instead of x: the same problem in other coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from levelprox import _kernels
from levelprox.methods.surrogate import Surrogate
from levelprox.objectives import Coordinates, Objective
from levelprox.projection import SMALLEST_WEIGHT

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Subproblem:
    """min ψ(x) + γ/2 ‖x − center‖² s.t. x in the surrogate set, x_j ≥ 0 for some j.

    Attributes
    ----------
    objective : Objective
        ψ.
    surrogate : Surrogate
        {g_k ≤ η_k}.
    center : ndarray of shape (d,)
        x^{k−1}.
    gamma : float
        γ.
    signs : (mask or None, bool)
        As `Problem.signs`.
    coordinates : Coordinates, optional
        w; None means x itself. Only some subsolvers support others.
    """

    objective: Objective
    surrogate: Surrogate
    center: Vector
    gamma: float
    signs: tuple[NDArray[np.uint8] | None, bool] = (None, False)
    coordinates: Coordinates | None = None

    @cached_property
    def set(self) -> _kernels.Set:
        """The set in the form of the kernels, in coordinates w."""
        s, (mask, all_nonnegative) = self.surrogate, self.signs
        weights = s.weights
        if self.coordinates is not None:
            of_features = self.coordinates.units[:: self.objective.width]
            weights = 1 / of_features if weights is None else weights / of_features
            weights[(weights > 0) & (weights < SMALLEST_WEIGHT)] = SMALLEST_WEIGHT  # a larger price is a smaller set
        return _kernels.Set(self.center.size, weights, s.u, mask, all_nonnegative, s.tau, width=self.objective.width)

    def value(self, x: Vector) -> float:
        """Return ψ_k(x)."""
        return self.with_proximal(x, self.objective.value_and_gradient(x)[0])

    def with_proximal(self, x: Vector, psi: float) -> float:
        """Return ψ_k(x), given ψ(x)."""
        if self.gamma == 0:
            return psi
        move = x - self.center if self.coordinates is None else self.coordinates.of(x - self.center)
        return psi + self.gamma / 2 * float(np.sum(move**2))
