"""Spectral projected gradient: Barzilai–Borwein steps, nonmonotone line search; the paper's default.

    x⁺ = P(x − t ∇ψ_k(x)),   t = ⟨Δx, Δx⟩ / ⟨Δx, Δ∇ψ_k⟩,

accepted if ψ_k(x⁺) ≤ max of the last 5 values − σ/(2t) ‖x⁺ − x‖², else t is halved. If columns differ much in size,
or have large means with an intercept, the steps are taken in coordinates in which they do not.
Gong et al. (2013), ICML; Birgin, Martínez, Raydan (2000), SIAM J. Optim. 10(4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import levelprox._kernels as _kernels
from levelprox._typing import Rng
from levelprox._validation import fraction, whole
from levelprox.methods.subsolvers._base import SteppingSubsolver, Subproblem
from levelprox.objectives import Coordinates, Objective
from levelprox.result import Iterate


@dataclass(frozen=True)
class Spectral(SteppingSubsolver):
    """Barzilai–Borwein steps on ψ_k, compiled; for linear models all of it runs in compiled code.

    Parameters
    ----------
    max_steps : int, default=10
        Inner steps per outer step, as in the paper.
    accuracy : float, default=0.1
        Stop earlier once the residual ‖x − P(x − t∇ψ_k)‖∞/t has decreased by this factor.
    memory : int, default=5
        The number of previous values that the nonmonotone line search compares with.
    decrease : float, default=1e-5
        σ of the sufficient decrease.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, constraints, solve, subsolvers
    >>> problem = Problem(LinearModel(np.eye(3), [3.0, 1.0, 0.5]), constraints.L1(), 2.0)
    >>> solve(problem, subsolver=subsolvers.Spectral(max_steps=50)).x.round(3).tolist()
    [2.0, 0.0, 0.0]
    """

    name: ClassVar[str] = "spectral"
    needs: ClassVar[str] = "a differentiable objective that is not sampled"

    memory: int = 5
    decrease: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("memory", self.memory, 1, 2**31)
        fraction("decrease", self.decrease)

    @classmethod
    def can_take(cls, objective: Objective) -> bool:
        """Return whether ψ is differentiable and not sampled."""
        return objective.smooth and not objective.sampled

    def coordinates(self, objective: Objective, centred: bool) -> Coordinates | None:
        """Return coordinates in which columns have one size if ψ is convex; else None, because γ > μ refers to x."""
        scale = objective.feature_scale
        return (
            None if scale is None or objective.weak_convexity > 0 else scale.coordinates(objective.n_outputs, centred)
        )

    def solve(
        self, subproblem: Subproblem, start: Iterate, tolerance: float = 0.0, seconds: float = 1e300, rng: Rng = None
    ) -> Iterate:
        """Return the point after the spectral steps; see `Subsolver.solve`."""
        surrogate, w = subproblem.surrogate, subproblem.coordinates
        outcome = _kernels.spectral(
            subproblem.objective.compiled,
            subproblem.set,
            subproblem.center if w is None else w.of(subproblem.center),
            start.x if w is None else w.of(start.x),
            start.gradient if w is None else w.gradient(start.gradient),
            start.psi,
            start.step,
            start.multiplier * surrogate.lam,
            subproblem.gamma,
            self.max_steps,
            self.memory,
            self.decrease,
            self.accuracy,
            tolerance,
            seconds,
            None if w is None else w.units,
            None if w is None else w.means,
            -1 if w is None or w.intercept is None else w.intercept,
        )
        return Iterate(
            x=outcome.x if w is None else w.back(outcome.x),
            psi=outcome.psi,
            gradient=outcome.gradient if w is None else w.gradient_back(outcome.gradient),
            # The projection's multiplier is per unit step and of the constraint divided by λ.
            multiplier=outcome.multiplier / surrogate.lam,
            step=outcome.step,
            stop=outcome.stop,
            n_inner=outcome.steps,
            n_grad=outcome.evaluations,
            n_proj=outcome.projections,
        )
