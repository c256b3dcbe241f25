"""One step's convex problem: min ψ_k(x) = ψ(x) + γ/2 ‖x − x^{k−1}‖² over the surrogate set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from levelprox import _kernels
from levelprox.objectives import Objective
from levelprox.surrogate import Surrogate

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Subproblem:
    """min ψ(x) + γ/2 ‖x − center‖² s.t. x in the surrogate set, x_j ≥ 0 where asked.

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
    """

    objective: Objective
    surrogate: Surrogate
    center: Vector
    gamma: float
    signs: tuple[NDArray[np.uint8] | None, bool] = (None, False)

    @cached_property
    def set(self) -> _kernels.Set:
        """The set as the kernels take it."""
        s, (mask, all_nonnegative) = self.surrogate, self.signs
        return _kernels.Set(self.center.size, s.weights, s.u, mask, all_nonnegative, s.tau, width=self.objective.width)

    def value(self, x: Vector) -> float:
        """ψ_k(x)."""
        return self.with_proximal(x, self.objective.value_and_gradient(x)[0])

    def with_proximal(self, x: Vector, psi: float) -> float:
        """ψ_k(x), given ψ(x)."""
        if self.gamma == 0:
            return psi
        return psi + self.gamma / 2 * float(np.sum((x - self.center) ** 2))
