"""Newton's method on the KKT system of the nonzero coordinates, for the last digits.

On S = supp(x), with the level binding and a_j = ω_j φ'(|x_j|) sign x_j = ∂g/∂x_j,

    [ ∇²ψ_SS − y diag(ω h'')   a ] [dx]      [ ∇ψ_S + y a ]
    [ a'                       0 ] [dy]  = − [ g(x) − η   ]

converges quadratically near a solution where the matrix has inertia (|S|, 1, 0). The step violates the level by about
½ dx'h''dx, so a test on ψ alone would often reject it (Maratos effect). Hence a second-order correction along a, and a
retraction: the surrogate set of the new point is inside {g ≤ η}, and the new point is projected onto it. Both use
columns scaled to one size; otherwise the correction would change mainly small coefficients.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from levelprox.objectives import Curved
from levelprox.problem import Problem
from levelprox.result import Iterate

_LAST_DIGITS = 4 * float(np.finfo(np.float64).eps)
_RIDGE = 1e-10  # where the Hessian has a unit diagonal


def polish(problem: Problem, at: Iterate, y: float) -> Iterate | None:
    """Return the point after one Newton step on the KKT system; None if it does not apply or does not lower ψ.

    Parameters
    ----------
    problem : Problem
        With a `Curved` objective.
    at : Iterate
        A feasible point, with its margins.
    y : float
        The multiplier there.
    """
    assert at.margins is not None
    objective = cast(Curved, problem.objective)
    support = problem.support(at.x)
    if problem.weights is not None:
        support = np.union1d(support, problem.unpenalized)
    places = problem.coordinates(support).astype(np.int64, copy=False)
    if at.hessian is None or not objective.convex:  # the model has |ℓ''| where it must be convex
        hessian = cast(Curved, objective.restrict(support)).hessian_of(at.margins, False)
    else:
        hessian = at.hessian[np.ix_(places, places)]
    x = problem.compiled().newton(places, np.ascontiguousarray(hessian), at.x, at.gradient, y)
    if x is None:
        return None
    margins = at.margins + objective.moved(x - at.x)
    psi = objective.value_of(margins)
    if not psi <= at.psi + _LAST_DIGITS * (abs(at.psi) + 8 * y * problem.level):
        return None
    gradient = objective.gradient_of(margins)
    if not np.all(np.isfinite(gradient)):
        return None
    return replace(at, x=x, psi=psi, gradient=gradient, margins=margins, multiplier=y)
