"""Newton steps: the second-order model of ψ_k over the surrogate set, and a line search on ψ_k.

    d = argmin  ⟨∇ψ_k, d⟩ + ½ d'(∇²ψ + γI)d    s.t.  x + d in the set,      x⁺ = x + t·d

Margins are linear in x, so one product A·d serves every t that the line search tries. Where the set has more
coordinates than there are samples the model is minimised through products with A and never formed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike

from levelprox import _kernels
from levelprox._validation import real, whole
from levelprox.exceptions import InvalidInputError
from levelprox.methods.subproblem import Subproblem
from levelprox.methods.subsolvers._base import Subsolver, Vector
from levelprox.objectives import Curved, Objective
from levelprox.projection import project
from levelprox.result import Iterate

_DECREASE = 1e-4  # of what the slope promises, Armijo's rule
_LAST_DIGITS = 4 * float(np.finfo(np.float64).eps)
_HALVINGS = 40
_RIDGE = 1e-12  # of the model's own diagonal: columns that repeat one another must not make it singular
_PRODUCTS = 500  # with the model; more of them where they are small,
_WORK, _MOST_PRODUCTS = 3e8, 5_000  # up to so many multiplications
_FORETOLD = 0.1  # how far the fall of ψ_k may be from what the model foretold
_SMALL = 1000  # a matrix of this order is always formed
_SHORTENINGS = 8


@dataclass(frozen=True)
class Newton(Subsolver):
    """Steps to the minimiser of the second-order model over the surrogate set.

    Parameters
    ----------
    max_steps : int, default=1
        Newton steps per outer step. The surrogate moves with every outer step, so more than one rarely pays.
    accuracy : float, default=1e-2
        By what factor the residual of the model falls before its minimisation stops.
    """

    name: ClassVar[str] = "newton"
    needs: ClassVar[str] = "a model of a twice differentiable loss"
    on_working_sets: ClassVar[bool] = True

    max_steps: int = 1
    accuracy: float = 1e-2

    def __post_init__(self) -> None:
        whole("max_steps", self.max_steps, 1, 2**31)
        if not 0 <= real("accuracy", self.accuracy) < 1:
            raise InvalidInputError(f"accuracy must be in [0, 1), got {self.accuracy!r}")

    @classmethod
    def can_take(cls, objective: Objective) -> bool:
        return objective.curved

    def forms_models(self, objective: Objective) -> bool:
        return objective.curved and _is_formed(cast(Curved, objective))

    def proximal_weight(self, objective: Objective) -> float:
        """0: the model bends by itself, and each coordinate by a little of its own curvature besides.

        One weight for all coordinates would hold back those of small columns.
        """
        return 0.0

    def limited_to(self, steps: int) -> Newton:
        return replace(self, max_steps=steps)

    def solve(
        self,
        subproblem: Subproblem,
        start: Iterate,
        tolerance: float = 0.0,
        seconds: float = 1e300,
        rng: np.random.Generator | None = None,
    ) -> Iterate:
        objective = cast(Curved, subproblem.objective)
        margins = objective.margins(start.x) if start.margins is None else start.margins
        at = replace(start, margins=margins, stop="steps", n_inner=0, n_grad=0, n_proj=0)
        for _ in range(self.max_steps):
            at = self._step(subproblem, objective, at)
            if at.stop != "steps":
                break
        return at

    def _step(self, subproblem: Subproblem, objective: Curved, at: Iterate) -> Iterate:
        assert at.margins is not None
        slope = at.gradient + subproblem.gamma * (at.x - subproblem.center)
        at, diagonal = _with_model(objective, at)
        assert at.margins is not None
        outcome = _kernels.quadratic(
            objective.hessian_product_of(at.margins, True) if at.hessian is None else at.hessian,
            subproblem.set,
            at.x,
            slope,
            diagonal,
            _RIDGE * diagonal + subproblem.gamma,
            at.multiplier * subproblem.surrogate.lam,
            self.accuracy,
            _PRODUCTS if at.hessian is None else int(np.clip(_WORK / at.x.size**2, _PRODUCTS, _MOST_PRODUCTS)),
        )
        at = replace(
            at,
            multiplier=outcome.multiplier / subproblem.surrogate.lam,
            n_inner=at.n_inner + 1,
            n_proj=at.n_proj + outcome.projections,
        )
        move = outcome.x - at.x
        if not np.any(move):
            return replace(at, stop="stationary")
        promised = min(float(np.sum(slope * move)), 0.0)  # rounding may hide how little is left
        new = _search(subproblem, objective, at, outcome.x, move, promised)
        return new if _foretold(subproblem, at, new, outcome.decrease) else replace(new, hessian=None)


def _is_formed(objective: Curved) -> bool:
    """Whether the Hessian is formed as a matrix: not where it is larger than the data that give its products."""
    return objective.dimension <= max(objective.n_margins, _SMALL)


def _with_model(objective: Curved, at: Iterate) -> tuple[Iterate, Vector]:
    """The iterate with the second-order model of ψ there, where a matrix is worth forming, and its diagonal."""
    assert at.margins is not None
    if not _is_formed(objective):
        return replace(at, hessian=None), objective.hessian_diagonal_of(at.margins, True)
    hessian = objective.hessian_of(at.margins, True) if at.hessian is None else at.hessian
    return replace(at, hessian=hessian), np.ascontiguousarray(np.diagonal(hessian))


def _foretold(subproblem: Subproblem, at: Iterate, new: Iterate, decrease: float) -> bool:
    """Whether the model foretold the step so well that it may serve for the next.

    The Gram matrix is by far the dearest thing that is asked of the data, and a Newton step does not mind a model
    that is a little old: the slope it follows is always new.
    """
    fell = subproblem.with_proximal(at.x, at.psi) - subproblem.with_proximal(new.x, new.psi)
    return new.step == 1 and abs(fell - decrease) <= _FORETOLD * decrease + _LAST_DIGITS * abs(at.psi)


def _search(
    subproblem: Subproblem, objective: Curved, at: Iterate, end: Vector, move: Vector, promised: float
) -> Iterate:
    """The first of x + d, x + d/2, x + d/4, … where ψ_k falls as Armijo asks, or does not rise in its last digits."""
    assert at.margins is not None
    along = objective.moved(move)
    before = subproblem.with_proximal(at.x, at.psi)
    t = 1.0
    for _ in range(_HALVINGS):
        x = end if t == 1 else _inside(subproblem, at.x + t * move)
        margins = at.margins + t * along
        psi = objective.value_of(margins)
        after = subproblem.with_proximal(x, psi)
        if after <= before + _DECREASE * t * promised + _LAST_DIGITS * abs(before):
            gradient = objective.gradient_of(margins)
            if np.all(np.isfinite(gradient)):
                return replace(at, x=x, psi=psi, gradient=gradient, margins=margins, step=t)
        t /= 2
    return replace(at, stop="no decrease", step=t)


def _inside(subproblem: Subproblem, x: Vector) -> Vector:
    """A point between two of the set, where rounding may have carried it out, back in.

    A shorter x is in the set as well, and every coordinate keeps its digits, whatever the units of columns; only where
    that does not help is it projected.
    """
    surrogate, (mask, all_nonnegative) = subproblem.surrogate, subproblem.signs
    if surrogate.tau == np.inf:
        return x
    nonnegative: ArrayLike | None = all_nonnegative if mask is None else mask.view(np.bool_)
    u = 0.0 if surrogate.u is None else surrogate.u
    width = subproblem.objective.width
    if width > 1:
        nonnegative = None
    counts = 1.0 if surrogate.weights is None else np.repeat(surrogate.weights > 0, width)
    inside, excess = project(x, u, surrogate.tau, weights=surrogate.weights, nonnegative=nonnegative, width=width)
    for _ in range(_SHORTENINGS):
        if not excess > 0:
            break
        x = x * (1 - _LAST_DIGITS * counts)
        inside, excess = project(x, u, surrogate.tau, weights=surrogate.weights, nonnegative=nonnegative, width=width)
    return cast(Vector, inside)
