"""Spectral projected gradient, and smoothing for losses with kinks, which takes spectral steps on envelopes.

`Spectral`, the paper's default, takes Barzilai–Borwein steps with a nonmonotone line search:

    x⁺ = P(x − t ∇ψ_k(x)),   t = ⟨Δx, Δx⟩ / ⟨Δx, Δ∇ψ_k⟩,

accepted if ψ_k(x⁺) ≤ max of the last 5 values − σ/(2t) ‖x⁺ − x‖², else t is halved. If columns differ much in size,
or have large means with an intercept, the steps are taken in coordinates in which they do not.
Gong et al. (2013), ICML; Birgin, Martínez, Raydan (2000), SIAM J. Optim. 10(4).

`Smoothing` is a continuation for losses with kinks, by Moreau envelopes that are shifted to the kinks. The envelope
env_w of ℓ (losses/moreau.py) is smooth, but minimising it for smaller and smaller w leads to ever worse conditioned
problems, and misses the kinks by w. Shifted by the slopes s of the previous step, it need not be narrow to be exact:

    x⁺ ≈ argmin Σ p_i env_w(⟨a_i, x⟩ + w s_i, b_i) + γ/2 ‖x − x^{k−1}‖²   s.t.  g_k(x) ≤ η_k,
    s_i⁺ = env_w'(⟨a_i, x⁺⟩ + w s_i, b_i).

This is the method of multipliers, the proximal point method on the dual: s converges to the subgradients of the
solution, and margins miss their kinks only by w|s⁺ − s| → 0. The first widths decrease quickly from the size of the
residuals; later ones only while this distance does not decrease.
Moreau (1965); Rockafellar (1976), Math. Oper. Res. 1(2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

import levelprox._kernels as _kernels
from levelprox._typing import Rng, Vector
from levelprox._validation import fraction, whole
from levelprox.exceptions import InvalidInputError
from levelprox.methods.subsolvers._base import SteppingSubsolver, Subproblem
from levelprox.objectives import Coordinates, LinearModel, Objective
from levelprox.result import Iterate, Kinks, StopReason

_WIDE, _NARROWEST = 1e-2, 1e-8  # of the size of the residuals at the start
_SLOW, _STILL = 0.9, 0.1


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


@dataclass(frozen=True)
class Smoothing(SteppingSubsolver):
    """Spectral steps on shifted Moreau envelopes; margins at kinks are accurate to the last digits.

    Parameters
    ----------
    max_steps : int, default=200
        Spectral steps per outer step.
    accuracy : float, default=0.1
        Stop earlier once the residual has decreased by this factor.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, constraints, solve, subsolvers
    >>> X = np.random.default_rng(0).standard_normal((30, 3))
    >>> problem = Problem(LinearModel(X, X[:, 0], loss="absolute"), constraints.L1(), 1.5)
    >>> solve(problem, subsolver=subsolvers.Smoothing()).x.round(3).tolist()
    [1.0, 0.0, 0.0]
    """

    name: ClassVar[str] = "smoothing"
    needs: ClassVar[str] = "a linear model whose loss has kinks"
    monotone: ClassVar[bool] = False

    max_steps: int = 200

    @classmethod
    def can_take(cls, objective: Objective) -> bool:
        """Return whether ψ is a linear model whose loss has kinks."""
        return isinstance(objective, LinearModel) and not objective.smooth

    def coordinates(self, objective: Objective, centred: bool) -> Coordinates | None:
        """Return the coordinates of the spectral steps."""
        return self._inner().coordinates(objective, centred)

    def _inner(self) -> Spectral:
        return Spectral(max_steps=self.max_steps, accuracy=self.accuracy)

    def solve(
        self, subproblem: Subproblem, start: Iterate, tolerance: float = 0.0, seconds: float = 1e300, rng: Rng = None
    ) -> Iterate:
        """Return the point after the spectral steps, with the shifted envelope of the next step."""
        model = subproblem.objective
        if not isinstance(model, LinearModel):
            raise InvalidInputError(f"subsolver {self.name!r} needs {self.needs}")
        kinks = start.kinks or _at_first(model, start.x)
        smooth = model.with_envelope(kinks.width, kinks.slopes)
        psi, gradient = smooth.value_and_gradient(start.x)
        at = replace(start, psi=psi, gradient=gradient)
        step = self._inner().solve(replace(subproblem, objective=smooth), at, tolerance, seconds)

        slopes = smooth.slopes(step.x)
        missed = model.counted(kinks.width * np.abs(slopes - kinks.slopes))
        moved = float(np.max(np.abs(model.counted(model.design.matvec(step.x - start.x)))))
        # At the kinks the gradient of the envelope is a subgradient of ψ at x; otherwise only of ψ near x.
        psi, gradient = model.value_and_gradient(step.x)
        if np.all(missed <= model.counted(model.near_a_kink(step.x))):
            gradient = step.gradient
        return replace(
            step,
            psi=psi,
            gradient=gradient,
            kinks=_next(kinks, slopes, float(missed.max()), moved, narrow=step.stop != StopReason.STEPS),
            n_grad=step.n_grad + 2,
        )


def _at_first(model: LinearModel, x: Vector) -> Kinks:
    """Return no shift and a width of the size of the median residual, or of a higher quantile if most are near 0."""
    off = model.counted(np.abs(model.margins(x) - model.target))
    *sizes, large = np.quantile(off, [0.5, 0.75, 0.9, 0.95])
    scale = next((size for size in sizes if size > 0.01 * large), large) or float(off.mean()) or 1.0
    return Kinks(np.zeros(model.target.size), float(scale), np.inf, float(scale))


def _next(kinks: Kinks, slopes: Vector, missed: float, moved: float, narrow: bool) -> Kinks:
    """Return the next width: half of it if it is wide, or if kinks do not get closer although margins do not move.

    The width stays after an unfinished step, which needs a better conditioning, not a worse one.
    """
    width = kinks.width
    if narrow and (width > _WIDE * kinks.scale or (missed > _SLOW * kinks.missed and missed > _STILL * moved)):
        width = max(width / 2, _NARROWEST * kinks.scale)
    return Kinks(slopes, width, missed, kinks.scale)
