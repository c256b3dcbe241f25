"""Solve the problem restricted to a working set, to the accuracy that is useful.

There are two ways. By steps: LCPP with any subsolver, and for `Newton` also Newton steps on the KKT system. By models:
if ψ is twice differentiable, its second-order model over W needs no data once it is formed; LCPP steps on the model
satisfy the level exactly, and ψ is evaluated only at their end:

    x⁺ ≈ argmin  ⟨∇ψ(x), d⟩ + ½ d'(∇²ψ(x) + ρ(diag ∇²ψ(x) + c))d    s.t.  g(x + d) ≤ η

c_j is a typical curvature of ψ along column j. ρ = 0 is Newton's method; ρ is raised if ψ does not decrease as the
model predicted (Levenberg, Marquardt).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import cast

import numpy as np

import levelprox._kernels as _kernels
from levelprox._runtime import TimeLimitError, end_now
from levelprox._typing import Features, Matrix, Vector
from levelprox.certificate.null_model import NullFit
from levelprox.certificate.residual import distance
from levelprox.methods.last_part import LastPart
from levelprox.methods.lcpp import SURROGATES, Linearise, lcpp, majorise, without_level
from levelprox.methods.subsolvers import Newton, Subsolver
from levelprox.objectives import Curved, LinearModel
from levelprox.problem import Problem
from levelprox.result import Iterate, StopReason

INSIDE = 0.999  # of the level: below this the level is not active
_MOST_STEPS = 500
_MOST_MODELS = 50
_LARGE_MODEL = 500  # coordinates: a model takes about as long as many passes over the columns
_ENOUGH = 0.1  # of the residual at which a model was made: it is no better than that
_FALLS = 0.1  # of what the model predicted: less is a failure
_TRUSTED_RELATIVE_ERROR = 0.1  # how far the fall may be from what was predicted for the model to serve again
_LONGEST, _WORTH_A_PASS = 64.0, 4.0  # times the step of the model
_DAMPED = 1e-3  # ρ after the first failure
_MOST_DAMPED = 1e30
_FLAT = 1e-8  # of a typical curvature
_LAST_DIGITS = 4 * float(np.finfo(np.float64).eps)
_LEVEL_DIGITS = 8 * _LAST_DIGITS
_NEWTON = Newton()


@dataclass(frozen=True)
class Tolerance:
    """The residual at which to stop, for a multiplier y: max(least, offset − slope·y)."""

    least: float
    offset: float = 0.0
    slope: float = 0.0

    def __call__(self, y: float) -> float:
        """Return the residual at which to stop."""
        return max(self.least, self.offset - self.slope * y)


@dataclass(frozen=True)
class SolverOptions:
    """The settings of a run.

    Attributes
    ----------
    null : NullFit
        The null model.
    seconds_left : callable
        Returns the remaining time.
    subsolver : Subsolver
    gamma : float
        γ.
    surrogate : Linearise
        The function that builds g_k.
    rng : Generator, optional
        For subsolvers that sample.
    working_sets : bool
        Whether to use working sets.
    most : int, optional
        A point on a working set with more nonzero penalized features ends the solve; its full gradient is not computed.
        With models of more than 500 coordinates the first such point ends it; with fewer, the last one.
    restricted : LastPart
        Restricts problems of this run, which differ in their levels and constraints alone.
    """

    null: NullFit
    seconds_left: Callable[[], float]
    subsolver: Subsolver = _NEWTON
    gamma: float = 0.0
    surrogate: Linearise = majorise
    rng: np.random.Generator | None = None
    working_sets: bool = True
    most: int | None = None
    restricted: LastPart = field(default_factory=LastPart)


def solve_restriction(problem: Problem, start: Iterate, enough: Tolerance, how: SolverOptions) -> Iterate:
    """Return a point of the restriction with a small residual, or the best one before the limits or Ctrl-C."""
    way = by_models if how.subsolver.forms_models(problem.objective) else by_steps
    at = start = start if np.isfinite(start.psi) else _from_zero(problem, start)
    try:
        residual, y = distance(problem, start.x, start.psi, start.gradient, how.null)
        for step in way(problem, start, residual, y, enough, how):
            at = step
    except KeyboardInterrupt:
        end_now()
        return replace(at, stop=StopReason.INTERRUPTED)
    except TimeLimitError:
        pass  # the limit has passed, and the caller sees that
    return at


def solve_over(problem: Problem, W: Features, x: Vector, enough: Tolerance, how: SolverOptions) -> Iterate:
    """Return the solution of the restriction to the features in W, started at x: an iterate over these features."""
    part, point, step = how.restricted(problem, W), x[problem.coordinates(W)], 1 / problem.objective.curvature
    if how.subsolver.forms_models(part.objective):
        start = _with_model(cast(Curved, part.objective), point, step)
    else:
        start = Iterate(point, *part.objective.value_and_gradient(point), step=step)
    return solve_restriction(part, start, enough, how)


def fit_without_level(problem: Problem, x: Vector, tolerance: float, how: SolverOptions) -> Vector | None:
    """Return the fit of the features of x, and of the unpenalized ones, without a level, if it satisfies the level.

    None if φ has no cap, so that a level is always felt.
    """
    W = np.union1d(problem.support(x), problem.unpenalized)
    total = problem.constraint.cap * (W.size if problem.weights is None else float(problem.weights[W].sum()))
    if not np.isfinite(total):
        return None
    fitted = problem.spread(W, solve_over(problem.at_level(total + 1), W, x, Tolerance(tolerance), how).x)
    return fitted if problem.is_feasible(fitted) else None


def _from_zero(problem: Problem, start: Iterate) -> Iterate:
    """Return the origin, for a start at which ψ is infinite: without the removed features exp may overflow."""
    x = np.zeros(problem.dimension)
    psi, gradient = problem.objective.value_and_gradient(x)
    return Iterate(x, psi, gradient, start.multiplier, start.step)


def _with_model(objective: Curved, x: Vector, step: float) -> Iterate:
    """Return the iterate at x with its second-order model, from one reading of the columns."""
    margins, gradient, hessian = objective.evaluated(objective.origin, x, True)
    return Iterate(x, objective.value_of(margins), gradient, step=step, margins=margins, hessian=hessian)


def by_models(
    problem: Problem, at: Iterate, residual: float, y: float, enough: Tolerance, how: SolverOptions
) -> Iterator[Iterate]:
    """One second-order model after another, each solved over the level itself; every point that lowers ψ.

    A point is tried by one pass over the columns in W, from which come its margins, the gradient and, unless the
    model predicted the last step so well that it may serve again, the next model.
    """
    objective = cast(Curved, problem.objective)
    if at.margins is None:
        at = replace(at, margins=objective.margins(at.x) if np.any(at.x) else objective.origin, hessian=None)
    if at.hessian is None:
        assert at.margins is not None
        at = replace(at, hessian=objective.hessian_of(at.margins, True))
    assert at.hessian is not None
    # Sigmoid and huber losses have almost no curvature for some margins.
    is_flat = float(np.max(np.diagonal(at.hessian), initial=0.0)) < _FLAT * objective.curvature
    same_everywhere = isinstance(objective, LinearModel) and objective.loss.constant_curvature
    damping, steps, projections, trusted, failed = _DAMPED if is_flat else 0.0, 0, 0, same_everywhere, False
    while residual > enough(y) and steps < _MOST_MODELS and how.seconds_left() > 0 and damping < _MOST_DAMPED:
        model = _model(problem, at, damping)
        goal = _minimised(problem, at, model, residual, y, enough, how)
        steps, projections = steps + 1, projections + goal.projections
        if damping == 0 and np.array_equal(goal.x, at.x):
            # Along a coordinate without curvature and without a price the model has no minimum; a damped one has.
            damping, trusted = _DAMPED, True
            continue
        last_digits, predicted = rounding_of(problem, at.psi, y), at.psi - goal.psi
        assert at.margins is not None
        wanted = not trusted and _ENOUGH * residual > enough(y)
        # After a failure others are likely, and the Hessian of a point that is left would be wasted.
        margins, gradient, hessian = objective.evaluated(at.margins, goal.x - at.x, wanted and not failed)
        psi = objective.value_of(margins)
        psi = psi if np.isfinite(psi) and np.all(np.isfinite(gradient)) else np.inf
        new = Iterate(goal.x, psi, gradient, goal.multiplier, at.step, at.stop, margins=margins, hessian=hessian)
        fell = at.psi - new.psi
        if not fell >= max(_FALLS * predicted, 0.0) - last_digits:
            # The model of this point is still there. Tenfolds alone would take long where ψ bends far more a step away.
            damping, trusted, failed = max((10 if damping < 1 else 1000) * damping, _DAMPED), True, True
            continue
        if fell > (1 + _TRUSTED_RELATIVE_ERROR) * predicted:
            new = _further(problem, objective, at, new)
        damping = damping / 10 if damping > _DAMPED else 0.0
        off = abs(fell - predicted)
        trusted = same_everywhere or off <= _TRUSTED_RELATIVE_ERROR * abs(predicted) + last_digits
        before, last = at, residual
        residual, y = distance(problem, new.x, new.psi, new.gradient, how.null)
        if new.hessian is None and residual > enough(y):
            assert new.margins is not None
            again = trusted and not wanted
            new = replace(new, hessian=at.hessian if again else objective.hessian_of(new.margins, True))
        at = new
        if not objective.convex:  # its models have |ℓ''|, and cannot give the last digits
            at, residual, y = _polished(problem, at, residual, y, enough, how.null)
        yield replace(at, n_inner=steps, n_proj=projections)
        if _at_the_floor(before, at, last, residual) or _is_too_large(problem, at.x, how.most):
            break


def _is_too_large(problem: Problem, x: Vector, most: int | None) -> bool:
    """Return whether x has too many nonzeros, and models take so long that they are not solved further for that."""
    if most is None or problem.dimension <= _LARGE_MODEL:
        return False
    return problem.counted(problem.support(x)).size > most


def _at_the_floor(before: Iterate, at: Iterate, last: float, residual: float) -> bool:
    """Return whether a step was only rounding: it lowered neither the residual nor, up to its last digits, ψ."""
    return residual >= last and at.psi >= before.psi - _LAST_DIGITS * abs(before.psi)


def rounding_of(problem: Problem, psi: float, y: float) -> float:
    """Return the last digits of ψ, with what it costs that points are a few of them inside the level."""
    return _LAST_DIGITS * abs(psi) + _LEVEL_DIGITS * y * problem.level


def _further(problem: Problem, objective: Curved, at: Iterate, new: Iterate) -> Iterate:
    """Beyond the minimum of a model where ψ decreases faster than predicted, as on separable data.

    Margins are linear in the step, so the search costs no data; what it finds is taken where it is worth a pass.
    """
    assert at.margins is not None and new.margins is not None
    psi_at, best, t = objective.along(at.margins, new.margins), new, 2.0
    while t <= _LONGEST:
        x, psi = at.x + t * (new.x - at.x), psi_at(t)
        if not psi < best.psi or not problem.is_feasible(x):
            break
        best, t = replace(new, x=x, psi=psi), 2 * t
    if t <= _WORTH_A_PASS:
        return new
    margins, gradient, hessian = objective.evaluated(at.margins, best.x - at.x, True)
    return replace(best, psi=objective.value_of(margins), margins=margins, gradient=gradient, hessian=hessian)


def _minimised(
    problem: Problem, at: Iterate, hessian: Matrix, residual: float, y: float, enough: Tolerance, how: SolverOptions
) -> _kernels.LevelModelOutcome:
    """Return the end of LCPP on the second-order model of ψ at x, which does not refer to the data.

    `residual` is the one at x, `enough` the residual of ψ at which to stop: the model is solved to a part of both.
    """
    newton, surrogate = cast(Newton, how.subsolver), None
    least = max(enough.least, _ENOUGH * residual)
    if how.surrogate is SURROGATES["paper"]:

        def surrogate(x: Vector) -> tuple[Vector | None, Vector | None, float]:
            g_k = how.surrogate(problem.constraint, x, problem.level, problem.weights)
            return g_k.weights, g_k.u, g_k.tau

    return _kernels.level_model(
        problem.compiled(),
        hessian,
        at.x,
        at.psi,
        at.gradient,
        at.multiplier,
        residual,
        y,
        (least / 2, enough.offset / 2, enough.slope / 2),
        how.null.scale,
        how.null.curvature,
        how.gamma,
        newton.accuracy,
        newton.max_steps,
        surrogate,
    )


def _model(problem: Problem, at: Iterate, damping: float) -> Matrix:
    """Return the matrix of the second-order model of ψ at x."""
    hessian = at.hessian
    assert hessian is not None
    if damping > 0:
        # Where ψ has no curvature its diagonal is no measure; a typical curvature is added.
        hessian = hessian.copy()
        hessian[np.diag_indices_from(hessian)] += damping * (np.diagonal(hessian) + _typical_curvature(problem))
    return hessian


def _typical_curvature(problem: Problem) -> Vector:
    """Return a typical curvature of ψ along each coordinate, proportional to the squares of its column."""
    scale = problem.objective.feature_scale
    if scale is None:
        return np.full(problem.dimension, problem.objective.curvature)
    squares = np.repeat(scale.magnitude**2, problem.n_outputs)
    return np.asarray(problem.objective.curvature / float(np.mean(squares)) * squares)


def by_steps(
    problem: Problem, at: Iterate, residual: float, y: float, enough: Tolerance, how: SolverOptions
) -> Iterator[Iterate]:
    """Yield x after each LCPP step, without the level if it cannot be active."""
    levels, projections = repeat(problem.level), 0
    limits = (enough.least, how.seconds_left, how.rng)
    free = without_level(problem, at, how.gamma, how.subsolver, *limits) if _is_vacuous(problem) else None
    for steps in range(1, _MOST_STEPS + 1):
        if residual <= enough(y) or how.seconds_left() <= 0:
            return
        before, last = at, residual
        steps_from_here = free or lcpp(problem, at, levels, how.gamma, how.subsolver, how.surrogate, *limits)
        step = next(steps_from_here, None)
        if step is None:
            return
        at, projections = step[1], projections + step[1].n_proj
        residual, y = distance(problem, at.x, at.psi, at.gradient, how.null)
        if free is None and residual > enough(y) and isinstance(how.subsolver, Newton):
            at, residual, y = _polished(problem, at, residual, y, enough, how.null)
        yield replace(at, n_inner=steps, n_proj=projections)
        if _at_the_floor(before, at, last, residual):
            return


def _is_vacuous(problem: Problem) -> bool:
    """Return whether every point satisfies the level."""
    total = problem.n_features if problem.weights is None else float(problem.weights.sum())
    return total * problem.constraint.cap <= problem.level


def polish(problem: Problem, at: Iterate, y: float) -> Iterate | None:
    """Return the point after one Newton step on the KKT system; None if it does not apply or does not lower ψ.

    On S = supp(x), with the level binding and a_j = ω_j φ'(|x_j|) sign x_j = ∂g/∂x_j,

        [ ∇²ψ_SS − y diag(ω h'')   a ] [dx]      [ ∇ψ_S + y a ]
        [ a'                       0 ] [dy]  = − [ g(x) − η   ]

    converges quadratically near a solution where the matrix has inertia (|S|, 1, 0). The step violates the level by
    about ½ dx'h''dx, so a test on ψ alone would often reject it (Maratos effect). Hence a second-order correction along
    a, and a retraction: the surrogate set of the new point is inside {g ≤ η}, and the new point is projected onto it.
    Both use columns scaled to one size; otherwise the correction would change mainly small coefficients.

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


def _polished(
    problem: Problem, at: Iterate, residual: float, y: float, enough: Tolerance, null: NullFit
) -> tuple[Iterate, float, float]:
    """Polish for as long as the residual halves."""
    while residual > enough(y) and y > 0:
        new = polish(problem, at, y)
        if new is None:
            break
        last = residual
        at = new
        residual, y = distance(problem, at.x, at.psi, at.gradient, null)
        if residual > last / 2:
            break
    return at, residual, y
