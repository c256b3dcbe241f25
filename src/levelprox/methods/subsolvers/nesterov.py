"""Nesterov's accelerated gradient method (NAG), projected.

    x⁺ = P(v − ∇ψ_k(v)/Λ),    v⁺ = x⁺ + β(x⁺ − x),    Λ = L + γ

with the momentum β of a (γ − μ)-strongly convex function, restarted when it points uphill.
Nesterov (2004), Introductory Lectures on Convex Optimization, scheme 2.2.19; O'Donoghue and Candès (2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import levelprox._kernels as _kernels
from levelprox._typing import Rng
from levelprox.methods.subsolvers._base import SteppingSubsolver, Subproblem, concluded
from levelprox.objectives import Objective
from levelprox.result import Iterate


@dataclass(frozen=True)
class Nesterov(SteppingSubsolver):
    """Accelerated projected gradient steps on ψ_k, compiled; one evaluation of ψ per step.

    Parameters
    ----------
    max_steps : int, default=100
        Inner steps per outer step; each outer step starts without momentum.
    accuracy : float, default=0.1
        Stop earlier once the residual Λ‖x⁺ − v‖∞ has decreased by this factor.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, constraints, solve, subsolvers
    >>> problem = Problem(LinearModel(np.eye(3), [3.0, 1.0, 0.5]), constraints.L1(), 2.0)
    >>> solve(problem, subsolver=subsolvers.Nesterov(max_steps=50)).x.round(3).tolist()
    [2.0, 0.0, 0.0]
    """

    name: ClassVar[str] = "nesterov"
    needs: ClassVar[str] = (
        "a differentiable objective with a known L (declare smoothness of your own function; "
        "losses of unbounded curvature, such as poisson, have none)"
    )

    most_steps: ClassVar[int] = 2**62

    max_steps: int = 100

    @classmethod
    def can_take(cls, objective: Objective) -> bool:
        """Return whether ψ is differentiable, not sampled, and has a known L."""
        return objective.smooth and not objective.sampled and objective.bounded_curvature

    def solve(
        self, subproblem: Subproblem, start: Iterate, tolerance: float = 0.0, seconds: float = 1e300, rng: Rng = None
    ) -> Iterate:
        """Return the better of the last point and x^{k−1}; see `Subsolver.solve`."""
        objective, surrogate = subproblem.objective, subproblem.surrogate
        outcome = _kernels.nesterov(
            objective.compiled,
            subproblem.set,
            subproblem.center,
            start.x,
            start.gradient,
            start.multiplier * surrogate.lam,
            subproblem.gamma,
            self.max_steps,
            max(0.0, subproblem.gamma - objective.weak_convexity),
            objective.smoothness + subproblem.gamma or objective.curvature,  # a linear ψ has curvature 0
            self.accuracy,
            tolerance,
            seconds,
        )
        return concluded(subproblem, start, outcome, outcome.evaluations)
