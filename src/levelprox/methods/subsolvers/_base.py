"""The interface of a subsolver, which returns a better feasible point of one LCPP subproblem.

The returned point is always in the surrogate set. If the subsolver uses all of ψ and not only samples of it,
ψ_k at this point is not above ψ_k(x^{k−1}). Each subsolver documents its accuracy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from levelprox.methods.subproblem import Subproblem
from levelprox.objectives import Coordinates, Objective
from levelprox.result import Iterate, StopReason

Vector = NDArray[np.float64]

_LAST_DIGITS = 4 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Subsolver(ABC):
    """Base class of the subsolvers.

    Examples
    --------
    >>> from levelprox.methods.subsolvers import Spectral, Subsolver
    >>> subsolver = Spectral(max_steps=50)
    >>> isinstance(subsolver, Subsolver), subsolver.needs
    (True, 'a differentiable objective that is not sampled')
    """

    name: ClassVar[str]
    #: The requirements on ψ, for error messages.
    needs: ClassVar[str]
    #: True if ψ_k never increases, unless ψ is sampled.
    monotone: ClassVar[bool] = True
    #: True if it is fastest on working sets of a few features.
    on_working_sets: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def can_take(cls, objective: Objective) -> bool:
        """Return whether this subsolver supports ψ."""

    def is_random(self, objective: Objective) -> bool:
        """Return whether the subsolver uses samples of ψ, so that the result depends on `rng`."""
        return objective.sampled

    def warning(self, objective: Objective) -> str:
        """Return the warning to issue before a run on ψ; may be empty."""
        return ""

    def forms_models(self, objective: Objective) -> bool:
        """Return whether the subsolver uses second-order models of ψ that can be stored as matrices."""
        return False

    def coordinates(self, objective: Objective, centred: bool) -> Coordinates | None:
        """Return the coordinates in which the subsolver measures lengths; None means x itself.

        Parameters
        ----------
        objective : Objective
            ψ.
        centred : bool
            Whether the intercept, if there is one, may absorb the means of columns.
        """
        return None

    def proximal_weight(self, objective: Objective) -> float:
        """Return the default γ: 3μ for nonconvex ψ, as in the paper, else a small fraction of its curvature."""
        return 3 * objective.weak_convexity or 1e-3 * objective.curvature

    @abstractmethod
    def limited_to(self, steps: int) -> Subsolver:
        """Return the same subsolver with at most `steps` inner steps."""

    @abstractmethod
    def solve(
        self,
        subproblem: Subproblem,
        start: Iterate,
        tolerance: float = 0.0,
        seconds: float = 1e300,
        rng: np.random.Generator | None = None,
    ) -> Iterate:
        """Return a better point, starting from x^{k−1}.

        Parameters
        ----------
        subproblem : Subproblem
            The subproblem.
        start : Iterate
            x^{k−1} with ψ and ∇ψ at this point.
        tolerance : float
            Residual at which to stop, in units of ∇ψ.
        seconds : float
            Time limit.
        rng : Generator, optional
            The random number generator; only stochastic subsolvers use it.

        Returns
        -------
        Iterate
            The point, with ψ, ∇ψ, the multiplier and the counts of evaluations.
        """


def arrived(subproblem: Subproblem, start: Iterate, x: Vector, keep_better: bool) -> Iterate:
    """Return the iterate at x; `start` if ψ is not finite at x or, with `keep_better`, ψ_k is higher there."""
    if np.array_equal(x, start.x):
        return replace(start, stop=StopReason.NONE, n_grad=0)
    (psi, gradient), cost = subproblem.objective.value_and_gradient(x), subproblem.objective.evaluation_cost
    if not (np.isfinite(psi) and np.all(np.isfinite(gradient))):
        return replace(start, stop=StopReason.NOT_FINITE, n_grad=cost)
    before, after = subproblem.with_proximal(start.x, start.psi), subproblem.with_proximal(x, psi)
    if keep_better and after > before + _LAST_DIGITS * abs(before):
        return replace(start, stop=StopReason.NO_DECREASE, n_grad=cost)
    return replace(start, x=x, psi=psi, gradient=gradient, stop=StopReason.NONE, n_grad=cost)
