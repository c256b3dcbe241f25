"""Projected stochastic gradient with minibatches.

    x⁺ = P(x − t_k (mean over a batch of ℓ'(⟨a_i, x⟩, b_i) a_i + γ(x − x^{k−1}))),

    t_k = min(t_max, 2 / (m (k + 1))) (1 − k/K),     k = 0, …, K − 1,     m = γ − μ.

P is the full projection, although it visits few coordinates (docs/subsolvers.md), so every x is feasible.
The step lengths need no tuning:

- t_max = 1 / (2 (L + L_max/B) + γ) for a loss with a curvature bound, L_max = sup|ℓ''| max ‖a_i‖²: half of
  what expected smoothness allows for B samples with replacement (Gower et al. 2019, ICML). For a loss with
  kinks Polyak's step with the lower bound 0 of ψ: t_max = ψ / (‖ψ'‖² + G²/B) at x^{k−1}, G² the mean of
  |ℓ'|² ‖a_i‖² there. Both scale correctly with the units of X and b.
- 2 / (m (k + 1)) is the rule for the strong convexity m of ψ_k (Lacoste-Julien, Schmidt, Bach 2012).
- (1 − k/K): under a linear decay to 0 the last point is as good as any average can be, up to constants
  (Zamani, Glineur 2023; Defazio et al. 2023). So the last point is returned: an average is dense, and in
  the set only up to rounding.
- The last step, if ψ is differentiable, is P(x − ∇ψ_k(x) / (L + γ)), which cannot increase ψ_k: it sets to
  zero the many small coordinates that are nonzero only because of the noise of the last batches.
- If an outer step ends with a higher ψ_k than it started with, the noise dominates: the next one uses t_max/2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from levelprox._runtime import TimeLimitError
from levelprox._typing import Rng, Vector
from levelprox._validation import positive
from levelprox.methods.subsolvers._base import Subproblem
from levelprox.methods.subsolvers._minibatch import (
    MinibatchSubsolver,
    Progress,
    batch_size,
    check_batch_size,
    full_step,
    largest_row,
    random_steps,
)
from levelprox.objectives import LinearModel, Objective
from levelprox.result import Iterate, StopReason


@dataclass(frozen=True)
class SGD(MinibatchSubsolver):
    """Projected minibatch gradient steps on a linear model, compiled; for losses with kinks or bounded curvature.

    ψ may increase from one outer step to the next, and the accuracy is that of a stochastic method.

    Parameters
    ----------
    batch_size : int, optional
        Rows per step, drawn with replacement in proportion to their weights. By default about
        d / (entries per row), at least 16: then a step costs a few times its gradient. A value above n is
        reduced to n, with a warning.
    passes : float, default=5
        Rows per outer step, in units of n.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, constraints, solve, subsolvers
    >>> X = np.random.default_rng(0).standard_normal((200, 4))
    >>> problem = Problem(LinearModel(X, X[:, 0]), constraints.L1(), 0.8)
    >>> x = solve(problem, subsolver=subsolvers.SGD(batch_size=32), random_state=0, tol=1e-2).x
    >>> x.round(1).tolist()
    [0.8, 0.0, 0.0, 0.0]
    """

    name: ClassVar[str] = "sgd"
    needs: ClassVar[str] = (
        "a linear model (`LinearModel`) whose loss has kinks or bounded curvature (so not poisson), "
        "over X itself (neither centred nor scaled, without an intercept)"
    )

    passes: float = 5.0

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size)
        positive("passes", self.passes)

    @classmethod
    def can_take(cls, objective: Objective) -> bool:
        """Return whether ψ is a linear model over X itself whose loss has kinks or bounded curvature."""
        if not (isinstance(objective, LinearModel) and objective.has_rows):
            return False
        return not objective.smooth or math.isfinite(objective.loss.smoothness)

    def limited_to(self, steps: int) -> SGD:
        """Return the same subsolver with at most `steps` passes."""
        return replace(self, passes=min(self.passes, float(steps)))

    def solve(
        self, subproblem: Subproblem, start: Iterate, tolerance: float = 0.0, seconds: float = 1e300, rng: Rng = None
    ) -> Iterate:
        """Return the last point; `n_grad` counts rows / n, rounded, and the one or two evaluations at the end."""
        model = subproblem.objective
        assert isinstance(model, LinearModel)
        batch = batch_size(self.batch_size, model)
        progress = Progress(start.x.copy(), np.array([start.multiplier * subproblem.surrogate.lam]))
        longest = min(self._longest_step(subproblem, model, start, batch), _carried(start))
        stop = StopReason.STATIONARY
        try:
            if 0 < longest < math.inf:
                lengths = self._lengths(subproblem, model, batch, longest)
                stop = random_steps(
                    subproblem, model, progress, batch, lengths, seconds, rng or np.random.default_rng()
                )
        except KeyboardInterrupt:
            stop = StopReason.INTERRUPTED
        except TimeLimitError:
            stop = StopReason.SECONDS
        return _conclude(subproblem, model, start, progress, stop, longest)

    def _longest_step(self, subproblem: Subproblem, model: LinearModel, start: Iterate, batch: int) -> float:
        """Return t_max of the module docstring."""
        if model.smooth:
            bend = model.smoothness + model.loss.smoothness * largest_row(model) / batch
            return 1 / (2 * bend + subproblem.gamma)
        low, high = model.loss.subdifferential(model.margins(start.x), model.target)
        squares = np.maximum(np.abs(low), np.abs(high)) ** 2 * model.row_squares
        noise = float(np.average(squares, weights=model.sample_weight))
        length = float(start.gradient @ start.gradient) + noise / batch
        return start.psi / length if length > 0 else 0.0

    def _lengths(self, subproblem: Subproblem, model: LinearModel, batch: int, longest: float) -> Vector:
        """Return t_k of the module docstring."""
        steps = math.ceil(self.passes * model.design.shape[0] / batch)
        k = np.arange(steps, dtype=np.float64)
        m = subproblem.gamma - model.weak_convexity
        strongly_convex = 2 / (m * (k + 1)) if m > 0 else math.inf
        return np.minimum(longest, strongly_convex) * (1 - k / steps)


def _carried(start: Iterate) -> float:
    """Return t_max of the previous outer step; inf if x^{k−1} does not come from a subsolver."""
    return start.step if start.stop else math.inf


def _conclude(
    subproblem: Subproblem, model: LinearModel, start: Iterate, progress: Progress, stop: StopReason, longest: float
) -> Iterate:
    """Return the last point with ψ and ∇ψ; x^{k−1} if they are not finite or after a second Ctrl-C."""
    x, multiplier, evaluations = progress.x, float(progress.multiplier[0]), 1
    try:
        psi, gradient = model.value_and_gradient(x)
        polished = None
        if stop == StopReason.STEPS and model.smooth and np.isfinite(psi):
            polished = full_step(subproblem, x, gradient, 1 / (model.smoothness + subproblem.gamma), multiplier)
        if polished is not None:
            x, multiplier = polished
            psi, gradient = model.value_and_gradient(x)
            evaluations = 2
    except (KeyboardInterrupt, TimeLimitError) as error:
        stop = StopReason.SECONDS if isinstance(error, TimeLimitError) else StopReason.INTERRUPTED
        x, psi, gradient = start.x, start.psi, start.gradient
    if not (np.isfinite(psi) and np.all(np.isfinite(gradient))):
        stop = StopReason.NOT_FINITE
        x, psi, gradient = start.x, start.psi, start.gradient
    worse = subproblem.with_proximal(x, psi) > subproblem.with_proximal(start.x, start.psi)
    return Iterate(
        x=x,
        psi=psi,
        gradient=gradient,
        multiplier=multiplier / subproblem.surrogate.lam,
        step=longest / 2 if worse and stop == StopReason.STEPS else longest,
        stop=stop,
        n_inner=progress.steps,
        n_grad=round(progress.rows / model.design.shape[0]) + evaluations,
        n_proj=progress.projections + evaluations - 1,
    )
