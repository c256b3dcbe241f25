"""Stochastic gradient methods on minibatches: SGD, and SVRG, whose noise vanishes at the solution.

Projected stochastic gradient (`SGD`):

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

Proximal SVRG (Xiao, Zhang 2014, SIAM J. Optim. 24(4)). At a snapshot x̃ the slopes r_i = ℓ'(⟨a_i, x̃⟩, b_i) and the
gradient q = ∇ψ(x̃) are stored; then

    x⁺ = P(x − t (mean over a batch of (ℓ'(⟨a_i, x⟩, b_i) − r_i) a_i + q + γ(x − x^{k−1})))

for about 2n rows, and the last x is the next snapshot. The paper's finite-sum variant of LCPP.

t = 1 / (L + γ + L_max/B), L_max = sup|ℓ''| max ‖a_i‖². The noise of a batch is at most 4 L_max/B times the
gaps of x and x̃ (their Lemma 1, for the mean of B draws), and their proof, for convex losses and the mean of
the inner points as next snapshot, requires t ≤ 1/L and about a tenth of this t where L_max/B dominates. Steps
ten times as long are faster on all tested data, and they are safeguarded: a snapshot with a larger ψ_k than the
best one is rejected and t halved, so t soon becomes as short as the proof requires. The last inner point is used
because it is sparse; a mean is not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

import levelprox._kernels as _kernels
from levelprox._runtime import TimeLimitError
from levelprox._typing import Rng, Vector
from levelprox._validation import fraction, positive, whole
from levelprox.methods.subsolvers._base import Subproblem
from levelprox.methods.subsolvers._minibatch import (
    MinibatchSubsolver,
    Progress,
    batch_size,
    full_step,
    largest_row,
    random_steps,
)
from levelprox.objectives import LinearModel, Objective
from levelprox.result import Iterate, StopReason

_FLAT = 4 * float(np.finfo(np.float64).eps)  # relative rounding error of ψ_k


def _ended(steps: Callable[[], StopReason]) -> StopReason:
    """Take steps that change their point in place, and return why they ended: also by Ctrl-C or the time limit."""
    try:
        return steps()
    except KeyboardInterrupt:
        return StopReason.INTERRUPTED
    except TimeLimitError:
        return StopReason.SECONDS


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
        super().__post_init__()
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
        carried = start.step if start.stop else math.inf  # t_max of the previous outer step, if there was one
        longest = min(self._longest_step(subproblem, model, start, batch), carried)
        stop = StopReason.STATIONARY
        if 0 < longest < math.inf:
            lengths, source = self._lengths(subproblem, model, batch, longest), rng or np.random.default_rng()
            stop = _ended(lambda: random_steps(subproblem, model, progress, batch, lengths, seconds, source))
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


@dataclass(frozen=True)
class SVRG(MinibatchSubsolver):
    """Variance-reduced minibatch steps on a linear model with a differentiable loss, compiled.

    Converges linearly on a subproblem. It returns its best snapshot, where ψ and ∇ψ are known.

    Parameters
    ----------
    batch_size : int, optional
        As in `SGD`.
    max_epochs : int, default=5
        Snapshots per outer step.
    inner_passes : float, default=2
        Rows per snapshot, in units of n.
    accuracy : float, default=0.1
        Stop earlier once the residual ‖x − P(x − t∇ψ_k)‖∞/t at a snapshot has decreased by this factor.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, constraints, solve, subsolvers
    >>> X = np.random.default_rng(0).standard_normal((200, 4))
    >>> problem = Problem(LinearModel(X, X[:, 0]), constraints.L1(), 0.8)
    >>> solve(problem, subsolver=subsolvers.SVRG(), random_state=0).x.round(3).tolist()
    [0.8, 0.0, 0.0, 0.0]
    """

    name: ClassVar[str] = "svrg"
    needs: ClassVar[str] = (
        "a linear model (`LinearModel`) with a differentiable loss of bounded curvature (so not poisson), "
        "over X itself (neither centred nor scaled, without an intercept)"
    )

    max_epochs: int = 5
    inner_passes: float = 2.0
    accuracy: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("inner_passes", self.inner_passes)
        whole("max_epochs", self.max_epochs, 1, 2**31)
        fraction("accuracy", self.accuracy)

    @classmethod
    def can_take(cls, objective: Objective) -> bool:
        """Return whether ψ is a linear model over X itself with a differentiable loss of bounded curvature."""
        return SGD.can_take(objective) and objective.smooth

    def limited_to(self, steps: int) -> SVRG:
        """Return the same subsolver with at most `steps` snapshots."""
        return replace(self, max_epochs=min(self.max_epochs, steps))

    def solve(
        self, subproblem: Subproblem, start: Iterate, tolerance: float = 0.0, seconds: float = 1e300, rng: Rng = None
    ) -> Iterate:
        """Return the best snapshot; `n_grad` counts rows / n, evaluations, and 1/2 per set of slopes, rounded."""
        model = subproblem.objective
        assert isinstance(model, LinearModel)
        run = _Run(subproblem, model, start, batch_size(self.batch_size, model), rng or np.random.default_rng())
        return run.iterate(_ended(lambda: self._epochs(run, tolerance, seconds)))

    def _epochs(self, run: _Run, tolerance: float, seconds: float) -> StopReason:
        """Run epochs until one is accurate, and return why they ended."""
        began = time.monotonic()
        if not 0 < run.step < math.inf:
            return StopReason.NO_DECREASE
        goal = max(tolerance, self.accuracy * run.residual())
        for _ in range(self.max_epochs):
            stop = run.epoch(self.inner_passes, seconds - (time.monotonic() - began))
            if stop != StopReason.STEPS:
                return stop
            if run.residual() <= goal:
                return StopReason.ACCURATE
        return StopReason.STEPS


class _Run:
    """One run on one subproblem: the best snapshot, its slopes, and counts of work."""

    def __init__(
        self, subproblem: Subproblem, model: LinearModel, start: Iterate, batch: int, rng: np.random.Generator
    ) -> None:
        self.subproblem, self.model, self.batch, self.rng = subproblem, model, batch, rng
        bend = model.loss.smoothness * largest_row(model) / batch
        self.step = 1 / (model.smoothness + subproblem.gamma + bend)
        self.x, self.psi, self.gradient = start.x, start.psi, start.gradient
        self.value = subproblem.with_proximal(start.x, start.psi)
        self.progress = Progress(start.x.copy(), np.array([start.multiplier * subproblem.surrogate.lam]))
        self.multiplier = float(self.progress.multiplier[0])
        self.slopes: Vector | None = None
        self.cost = 0.0  # full evaluations besides rows
        self.projections = 0

    def epoch(self, passes: float, seconds: float) -> StopReason:
        """Run steps from the best snapshot; their last point is the next one, unless ψ_k is larger there."""
        n = self.model.design.shape[0]
        if self.slopes is None:
            slopes = np.empty(n)
            _kernels.sample_slopes(self.model.by_rows, self.x, slopes)
            self.slopes, self.cost = slopes, self.cost + 0.5
        steps = math.ceil(passes * n / self.batch)
        self.progress.x[:] = self.x
        lengths, snapshot = np.full(steps, self.step), (self.slopes, self.gradient)
        stop = random_steps(
            self.subproblem, self.model, self.progress, self.batch, lengths, seconds, self.rng, snapshot
        )
        psi, gradient = self.model.value_and_gradient(self.progress.x)
        self.cost += 1
        value = self.subproblem.with_proximal(self.progress.x, psi)
        if np.all(np.isfinite(gradient)) and value <= self.value + _FLAT * abs(self.value):
            self.x, self.psi, self.gradient, self.value = self.progress.x.copy(), psi, gradient, value
            self.slopes = None
        else:
            self.step /= 2
        return stop

    def residual(self) -> float:
        """Return the residual at the best snapshot."""
        self.projections += 1
        ahead = full_step(self.subproblem, self.x, self.gradient, self.step, self.multiplier)
        if ahead is None:
            return math.inf
        point, self.multiplier = ahead
        return float(np.max(np.abs(point - self.x))) / self.step

    def iterate(self, stop: StopReason) -> Iterate:
        """Return the best snapshot."""
        return Iterate(
            x=self.x,
            psi=self.psi,
            gradient=self.gradient,
            multiplier=self.multiplier / self.subproblem.surrogate.lam,
            step=self.step,
            stop=stop,
            n_inner=self.progress.steps,
            n_grad=round(self.cost + self.progress.rows / self.model.design.shape[0]),
            n_proj=self.progress.projections + self.projections,
        )
