"""Newton steps: the second-order model of ψ_k over the surrogate set, and a line search on ψ_k.

    d = argmin  ⟨∇ψ_k, d⟩ + ½ d'(∇²ψ + γI)d    s.t.  x + d in the set,      x⁺ = x + t·d

Margins are linear in x, so one product A·d suffices for all t of the line search. If there are more coordinates than
samples, the model is minimised through products with A and its matrix is not formed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np

import levelprox._kernels as _kernels
from levelprox._typing import Rng, Vector
from levelprox.methods.subsolvers._base import SteppingSubsolver, Subproblem
from levelprox.objectives import Curved, Objective
from levelprox.result import Iterate, StopReason

_DECREASE = 1e-4  # of the decrease that the slope predicts, Armijo's rule
_LAST_DIGITS = 4 * float(np.finfo(np.float64).eps)
_HALVINGS = 40
_RIDGE = 1e-12  # of the diagonal of the model: equal columns must not make it singular
_PRODUCTS = 500  # with the model; more for small models,
_WORK, _MOST_PRODUCTS = 3e8, 5_000  # up to this number of multiplications
_PREDICTED = 0.1  # relative difference between the actual and the predicted reduction of ψ_k
_SMALL = 1000  # a matrix of this order is always formed
_SHORTENINGS = 8


@dataclass(frozen=True)
class Newton(SteppingSubsolver):
    """Steps to the minimiser of the second-order model over the surrogate set.

    Parameters
    ----------
    max_steps : int, default=1
        Newton steps per outer step. The surrogate changes with every outer step, so more than one rarely helps.
    accuracy : float, default=1e-2
        The factor by which the residual of the model decreases before its minimisation stops.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, constraints, solve, subsolvers
    >>> problem = Problem(LinearModel(np.eye(3), [3.0, 1.0, 0.5]), constraints.L1(), 2.0)
    >>> solve(problem, subsolver=subsolvers.Newton()).x.round(3).tolist()
    [2.0, 0.0, 0.0]
    """

    name: ClassVar[str] = "newton"
    needs: ClassVar[str] = "a model of a twice differentiable loss"
    on_working_sets: ClassVar[bool] = True

    max_steps: int = 1
    accuracy: float = 1e-2

    @classmethod
    def can_take(cls, objective: Objective) -> bool:
        """Return whether ψ is a model with a twice differentiable loss."""
        return objective.curved

    def forms_models(self, objective: Objective) -> bool:
        """Return whether the Hessian of ψ is formed as a matrix."""
        return objective.curved and _is_formed(cast(Curved, objective))

    def proximal_weight(self, objective: Objective) -> float:
        """Return 0: the model has its own curvature, and a small fraction of its diagonal is added.

        One weight for all coordinates would shorten the steps of those with small columns.
        """
        return 0.0

    def solve(
        self, subproblem: Subproblem, start: Iterate, tolerance: float = 0.0, seconds: float = 1e300, rng: Rng = None
    ) -> Iterate:
        """Return the point after the Newton steps; see `Subsolver.solve`."""
        objective = cast(Curved, subproblem.objective)
        margins = objective.margins(start.x) if start.margins is None else start.margins
        at = replace(start, margins=margins, stop=StopReason.STEPS, n_inner=0, n_grad=0, n_proj=0)
        for _ in range(self.max_steps):
            at = self._step(subproblem, objective, at)
            if at.stop != StopReason.STEPS:
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
            return replace(at, stop=StopReason.STATIONARY)
        promised = min(float(np.sum(slope * move)), 0.0)  # rounding may make a tiny decrease positive
        new = _search(subproblem, objective, at, outcome.x, move, promised)
        return new if _is_predicted(subproblem, at, new, outcome.decrease) else replace(new, hessian=None)


def _is_formed(objective: Curved) -> bool:
    """Return whether the Hessian is formed as a matrix: not if it is larger than the data."""
    return objective.dimension <= max(objective.n_margins, _SMALL)


def _with_model(objective: Curved, at: Iterate) -> tuple[Iterate, Vector]:
    """Return the iterate with the Hessian of ψ, if its matrix is formed, and the diagonal of the Hessian."""
    assert at.margins is not None
    if not _is_formed(objective):
        return replace(at, hessian=None), objective.hessian_diagonal_of(at.margins, True)
    hessian = objective.hessian_of(at.margins, True) if at.hessian is None else at.hessian
    return replace(at, hessian=hessian), np.ascontiguousarray(np.diagonal(hessian))


def _is_predicted(subproblem: Subproblem, at: Iterate, new: Iterate, decrease: float) -> bool:
    """Return whether the model predicted the step well enough to be used for the next one.

    The Gram matrix is by far the most expensive computation, and a Newton step tolerates a slightly outdated model:
    its gradient is always new.
    """
    fell = subproblem.with_proximal(at.x, at.psi) - subproblem.with_proximal(new.x, new.psi)
    return new.step == 1 and abs(fell - decrease) <= _PREDICTED * decrease + _LAST_DIGITS * abs(at.psi)


def _search(
    subproblem: Subproblem, objective: Curved, at: Iterate, end: Vector, move: Vector, promised: float
) -> Iterate:
    """Return the first of x + d, x + d/2, x + d/4, … that satisfies Armijo's rule for ψ_k, up to rounding."""
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
    return replace(at, stop=StopReason.NO_DECREASE, step=t)


def _inside(subproblem: Subproblem, x: Vector) -> Vector:
    """Return a feasible point next to x, a convex combination of feasible points that rounding may have moved out.

    A slightly shorter x is feasible, and every coordinate keeps its digits, for any units of columns. Only if that
    does not suffice, x is projected.
    """
    surrogate = subproblem.surrogate
    if surrogate.tau == np.inf:
        return x
    counts = 1.0 if surrogate.weights is None else np.repeat(surrogate.weights > 0, subproblem.objective.n_outputs)
    for _ in range(_SHORTENINGS):
        inside, excess = cast(tuple[Vector, float], subproblem.projected(x))  # x is finite
        if not excess > 0:
            return inside
        x = x * (1 - _LAST_DIGITS * counts)
    return cast(tuple[Vector, float], subproblem.projected(x))[0]
