"""Accelerated methods: Nesterov's for smooth ψ, and AC-SA, the paper's method for every kind of ψ.

Nesterov's accelerated gradient method (NAG), projected:

    x⁺ = P(v − ∇ψ_k(v)/Λ),    v⁺ = x⁺ + β(x⁺ − x),    Λ = L + γ

with the momentum β of a (γ − μ)-strongly convex function, restarted when it points uphill.
Nesterov (2004), Introductory Lectures on Convex Optimization, scheme 2.2.19; O'Donoghue and Candès (2015).

AC-SA, accelerated stochastic approximation.
With m = γ − μ, Λ = L + γ, x and x^ag started at x^{k−1}, for t = 1, …, T: α = 2/(t+1), γ_t = 4Λ/(t(t+1)),

    x^md = [(1−α)(m+γ_t) x^ag + α((1−α)m+γ_t) x] / (γ_t + (1−α²)m),    G = Ψ'(x^md, ξ) + γ(x^md − x^{k−1}),
    x ← P([αm x^md + ((1−α)m+γ_t) x − αG] / (m+γ_t)),                    x^ag ← αx + (1−α) x^ag.

Proposition "AC-SA": E[ψ_k(x^ag) − ψ_k(x̄)] ≤ 2Λ/(T(T+1)) ‖x^{k−1} − x̄‖² + 8(M²+σ²)/(m(T+1)).
Ghadimi and Lan (2012), SIAM J. Optim. 22(4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

import levelprox._kernels as _kernels
from levelprox._typing import Rng
from levelprox._validation import whole
from levelprox.exceptions import InvalidInputError
from levelprox.methods.subsolvers._base import SteppingSubsolver, Subproblem, Subsolver, concluded
from levelprox.methods.subsolvers._minibatch import batch_size, batch_warning, check_batch_size, draw
from levelprox.objectives import LinearModel, Objective, Stochastic
from levelprox.result import Iterate

_FEWEST, _MOST = 100, 10_000  # steps where subgradients jump or are sampled: their error decreases only as 1/T


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


@dataclass(frozen=True)
class ACSA(Subsolver):
    """Accelerated stochastic approximation, compiled; deterministic unless ψ or its rows are sampled.

    A deterministic run returns the better of x^ag and x^{k−1} in ψ_k, so the bound holds and ψ never increases.

    Parameters
    ----------
    steps : int, optional
        T, inner steps per outer step. By default enough for the deterministic part of the bound to be at
        most a quarter of m‖x^{k−1} − x̄‖²; where ψ has kinks or is sampled, also enough for the rest of it to be at
        most a tenth of |ψ(x^{k−1})|, but between 100 and 10,000.
    batch_size : int, optional
        The number of rows of a linear model per step, drawn with replacement in proportion to their weights. By
        default all rows. A value above n is reduced to n, with a warning. A user's oracle draws its own samples.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, constraints, solve, subsolvers
    >>> problem = Problem(LinearModel(np.eye(3), [3.0, 1.0, 0.5]), constraints.L1(), 2.0)
    >>> solve(problem, subsolver=subsolvers.ACSA()).x.round(3).tolist()
    [2.0, 0.0, 0.0]
    """

    name: ClassVar[str] = "acsa"
    needs: ClassVar[str] = (
        "known constants L and M (declare smoothness and nonsmoothness of your own function; "
        "losses of unbounded curvature, such as poisson, have no L)"
    )

    steps: int | None = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        if self.steps is not None:
            whole("steps", self.steps, 1)
        check_batch_size(self.batch_size)

    @classmethod
    def can_take(cls, objective: Objective) -> bool:
        """Return whether the constants L and M of ψ are known."""
        return objective.bounded_curvature and objective.bounded_jumps

    def warning(self, objective: Objective) -> str:
        """Return the warning about a batch that is larger than the data; empty if it is not."""
        return batch_warning(self.batch_size, objective)

    def is_random(self, objective: Objective) -> bool:
        """Return whether ψ or its rows are sampled."""
        return objective.sampled or (self.batch_size is not None and isinstance(objective, LinearModel))

    def noise(self, objective: Objective) -> float:
        """Return σ, the noise of the gradients that are used."""
        if isinstance(objective, LinearModel) and self.batch_size is not None:
            return objective.noise / math.sqrt(batch_size(self.batch_size, objective))
        return objective.noise if objective.sampled else 0.0

    def proximal_weight(self, objective: Objective) -> float:
        """Return γ = 3μ, L/10, or L if ψ is sampled: the error decreases with γ − μ, so γ is not tiny relative to L."""
        share = 1.0 if self.is_random(objective) else 0.1
        return 3 * objective.weak_convexity or share * objective.smoothness or share * objective.curvature

    def limited_to(self, steps: int) -> ACSA:
        """Return the same subsolver with `steps` inner steps."""
        return replace(self, steps=steps)

    def solve(
        self, subproblem: Subproblem, start: Iterate, tolerance: float = 0.0, seconds: float = 1e300, rng: Rng = None
    ) -> Iterate:
        """Return x^ag after T steps; see `Subsolver.solve`."""
        objective = subproblem.objective
        strong_convexity = subproblem.gamma - objective.weak_convexity
        smoothness = objective.smoothness + subproblem.gamma or objective.curvature  # a linear ψ has curvature 0
        if self.batch_size is not None and not isinstance(objective, LinearModel):
            raise InvalidInputError("batch_size is for linear models; your own oracle draws its own samples")
        if self.batch_size is not None and isinstance(objective, LinearModel) and not objective.has_rows:
            raise InvalidInputError(
                "batch_size is for X itself: where X is centred, scaled or has an intercept, leave batch_size out, "
                "or take another of the subsolvers that see all of ψ (spectral, nesterov)"
            )
        # Without strong convexity the bound for smooth ψ still holds; the bound for kinks and noise does not.
        least = 0 if objective.smooth and not self.is_random(objective) else math.ulp(0)
        if not strong_convexity >= least:
            raise InvalidInputError(
                f"acsa needs gamma above the weak-convexity constant {objective.weak_convexity:g} of the objective, "
                f"got {subproblem.gamma:g}"
            )
        rough = objective.nonsmoothness**2 + self.noise(objective) ** 2
        steps = self.steps or _enough(smoothness, strong_convexity, rough, abs(start.psi))
        settings = _kernels.AcsaSettings(steps, strong_convexity, smoothness, subproblem.gamma, seconds)
        arguments = (subproblem.set, subproblem.center, start.x, settings)
        source = np.random.default_rng() if rng is None else rng
        evaluations = 1.0  # of ψ per step
        if isinstance(objective, Stochastic):
            outcome = _kernels.acsa_oracle(lambda x: objective.sample(x, source), *arguments)
        elif isinstance(objective, LinearModel) and self.batch_size is not None:
            n, batch = objective.design.shape[0], batch_size(self.batch_size, objective)
            portion = batch * max(1, n // batch)
            outcome = _kernels.acsa_batches(
                objective.by_rows, *arguments, lambda: draw(objective, portion, source), batch
            )
            evaluations = batch / n
        else:
            outcome = _kernels.acsa(objective.compiled, *arguments)
        evaluated = round(evaluations * outcome.steps)
        return concluded(subproblem, start, outcome, evaluated, keep_better=not self.is_random(objective))


def _enough(smoothness: float, strong_convexity: float, rough: float, psi: float) -> int:
    """Return T with 2Λ/T² ≤ m/4 as in the corollaries; if M² + σ² > 0, with 8(M² + σ²)/(mT) ≤ |ψ|/10, within limits."""
    steps = math.ceil(2 * math.sqrt(2 * smoothness / strong_convexity)) if strong_convexity > 0 else _FEWEST
    if rough == 0:
        return steps
    quiet = 80 * rough / (strong_convexity * psi) if psi > 0 else math.inf
    return max(steps, math.ceil(min(max(quiet, _FEWEST), _MOST)))
