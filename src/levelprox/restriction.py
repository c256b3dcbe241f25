"""The problem restricted to a working set, solved as far as it is worth.

Two ways. By steps: LCPP with any subsolver, and for Newton's the polish of its last digits. By models: where ψ is
curved, its second-order model over W needs no data once it is formed; the level is kept exactly, by LCPP steps on the
model, and only where they lead is ψ asked again:

    x⁺ ≈ argmin  ⟨∇ψ(x), d⟩ + ½ d'(∇²ψ(x) + ρ diag ∇²ψ(x))d    s.t.  g(x + d) ≤ η

ρ = 0 is Newton's method; it is raised where ψ does not fall as the model foretold (Levenberg, Marquardt).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from levelprox.lcpp import lcpp, without_level
from levelprox.null_fit import NullFit
from levelprox.objectives import Curved, Quadratic
from levelprox.polish import polish
from levelprox.problem import Problem
from levelprox.residual import distance
from levelprox.result import Iterate
from levelprox.subsolvers import Newton, Subsolver
from levelprox.surrogate import Linearise

Vector = NDArray[np.float64]

INSIDE = 0.999  # of the level: here it does not hold x back yet
_MOST_STEPS = 500
_MOST_MODELS = 50
_ENOUGH = 0.1  # of the residual at which a model was made: it is no better than that
_FALLS = 0.1  # of what the model foretold: less is a failure
_FORETOLD = 0.1  # how far the fall may be from what was foretold for the model to serve again
_DAMPED = 1e-3  # ρ after the first failure
_MOST_DAMPED = 1e9
_LAST_DIGITS = 4 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Enough:
    """The residual at which the work may stop, for a multiplier y: max(least, offset − slope·y)."""

    least: float
    offset: float = 0.0
    slope: float = 0.0

    def __call__(self, y: float) -> float:
        return max(self.least, self.offset - self.slope * y)


@dataclass(frozen=True)
class How:
    """How restrictions are solved: what a run has settled on."""

    subsolver: Subsolver
    gamma: float
    surrogate: Linearise
    null: NullFit
    seconds_left: Callable[[], float]
    rng: np.random.Generator | None


def solve_restriction(problem: Problem, start: Iterate, enough: Enough, how: How) -> Iterate:
    """A point of the restriction whose residual is small enough, or the best found before the limits or Ctrl-C."""
    way = by_models if how.subsolver.forms_models(problem.objective) else by_steps
    at = start
    try:
        for at in way(problem, start, enough, how):
            pass
    except KeyboardInterrupt:
        return replace(at, stop="interrupted")
    return at


def by_models(problem: Problem, at: Iterate, enough: Enough, how: How) -> Iterator[Iterate]:
    """One second-order model after another, each solved over the level itself; every point that lowers ψ."""
    objective = cast(Curved, problem.objective)
    at = replace(at, margins=objective.margins(at.x), hessian=None)
    residual, y = distance(problem, at.x, at.psi, at.gradient, how.null)
    damping, steps = 0.0, 0
    while residual > enough(y) and steps < _MOST_MODELS and how.seconds_left() > 0 and damping < _MOST_DAMPED:
        if at.hessian is None:
            at = replace(at, hessian=objective.hessian_of(at.margins, True))
        model = _model(problem, at, damping)
        start = replace(at, margins=at.x, hessian=model.objective.hessian)
        goal = _last(by_steps(model, start, _for_model(enough, residual), how), start)
        steps += 1
        new = _moved(objective, at, goal)
        foretold, fell = at.psi - goal.psi, at.psi - new.psi
        if not fell >= _FALLS * foretold - _LAST_DIGITS * abs(at.psi):
            damping = max(10 * damping, _DAMPED)
            continue
        trusted = abs(fell - foretold) <= _FORETOLD * abs(foretold) + _LAST_DIGITS * abs(at.psi)
        damping = damping / 10 if damping > _DAMPED else 0.0
        before, last = at, residual
        at = new if trusted else replace(new, hessian=None)
        residual, y = distance(problem, at.x, at.psi, at.gradient, how.null)
        yield replace(at, n_inner=steps)
        if _at_the_floor(before, at, last, residual):
            break


def _at_the_floor(before: Iterate, at: Iterate, last: float, residual: float) -> bool:
    """Whether a step was rounding alone: it lowered neither the residual nor, but for its last digits, ψ."""
    return residual >= last and at.psi >= before.psi - _LAST_DIGITS * abs(before.psi)


def _last(points: Iterator[Iterate], start: Iterate) -> Iterate:
    """Where they lead."""
    for start in points:
        pass
    return start


def _for_model(enough: Enough, residual: float) -> Enough:
    """How far to solve a model that was made where the residual is so large."""
    return Enough(max(enough.least, _ENOUGH * residual) / 2, enough.offset / 2, enough.slope / 2)


def _model(problem: Problem, at: Iterate, damping: float) -> Problem:
    """The restriction with ψ replaced by its second-order model at x, and no data in it."""
    hessian = at.hessian
    if damping > 0:
        hessian = hessian.copy()
        hessian[np.diag_indices_from(hessian)] *= 1 + damping
    return replace(problem, objective=Quadratic(at.x, at.psi, at.gradient, hessian, problem.width))


def _moved(objective: Curved, at: Iterate, goal: Iterate) -> Iterate:
    """The iterate at the point where a model has its minimum."""
    margins = at.margins + objective.moved(goal.x - at.x)
    psi = objective.value_of(margins)
    if not psi <= at.psi + _LAST_DIGITS * abs(at.psi):
        return replace(at, psi=np.inf)
    gradient = objective.gradient_of(margins)
    return replace(at, x=goal.x, psi=psi, gradient=gradient, margins=margins, multiplier=goal.multiplier)


def by_steps(problem: Problem, at: Iterate, enough: Enough, how: How) -> Iterator[Iterate]:
    """LCPP steps from x, without the level where it cannot bind; x after each of them."""
    steps = 0
    residual, y = distance(problem, at.x, at.psi, at.gradient, how.null)
    if _is_vacuous(problem):
        for _, at in without_level(problem, at, how.gamma, how.subsolver, enough.least, how.seconds_left, how.rng):
            steps += 1
            residual, y = distance(problem, at.x, at.psi, at.gradient, how.null)
            yield replace(at, n_inner=steps)
            if residual <= enough(y) or how.seconds_left() <= 0:
                break
    while residual > enough(y) and steps < _MOST_STEPS and how.seconds_left() > 0:
        before, last = at, residual
        settings = (how.gamma, how.subsolver, how.surrogate, enough.least, how.seconds_left, how.rng)
        _, at = next(lcpp(problem, at, [problem.level], *settings))
        residual, y = distance(problem, at.x, at.psi, at.gradient, how.null)
        if residual > enough(y) and isinstance(how.subsolver, Newton):
            at, residual, y = _polished(problem, at, residual, y, enough, how.null)
        steps += 1
        yield replace(at, n_inner=steps)
        if _at_the_floor(before, at, last, residual):
            break


def _is_vacuous(problem: Problem) -> bool:
    """Whether every point obeys the level."""
    total = problem.n_features if problem.weights is None else float(problem.weights.sum())
    return total * problem.constraint.cap <= problem.level


def _polished(
    problem: Problem, at: Iterate, residual: float, y: float, enough: Enough, null: NullFit
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
