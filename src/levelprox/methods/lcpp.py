"""LCPP, the level-constrained proximal point method (Algorithm 1).

    x^k ≈ argmin  ψ(x) + γ/2 ‖x − x^{k−1}‖²   s.t.  g_k(x) ≤ η_k

g_k majorises g and touches it at x^{k−1}, so every x^k satisfies g(x^k) ≤ g_k(x^k) ≤ η_k ≤ η and is
feasible for the next step: whenever the iteration stops, the result is feasible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice, repeat

import numpy as np

from levelprox.methods.subproblem import Subproblem
from levelprox.methods.subsolvers import Subsolver
from levelprox.methods.surrogate import Linearise, Surrogate, linearise
from levelprox.problem import Problem
from levelprox.result import Iterate, StopReason


def lcpp(
    problem: Problem,
    start: Iterate,
    levels: Iterable[float],
    gamma: float,
    subsolver: Subsolver,
    surrogate: Linearise = linearise,
    tolerance: float = 0.0,
    seconds_left: Callable[[], float] = lambda: math.inf,
    rng: np.random.Generator | None = None,
) -> Iterator[tuple[float, Iterate]]:
    """Yield (η_1, x^1), (η_2, x^2), …; the caller decides when to stop.

    Parameters
    ----------
    problem : Problem
    start : Iterate
        x^0, feasible.
    levels : iterable of float
        η_1 ≤ η_2 ≤ … ≤ η.
    gamma : float
        γ.
    subsolver : Subsolver
    surrogate : callable
        The function that builds g_k.
    tolerance : float
        Residuals below this, in units of ∇ψ along a typical column, need not be improved.
    seconds_left : callable
        RemoteObjective before each step.
    rng : Generator, optional
        For subsolvers that sample.
    """
    iterate, coordinates = start, subsolver.coordinates(problem.objective, problem.centred)
    for eta_k in levels:
        g_k = surrogate(problem.constraint, iterate.x, eta_k, problem.weights)
        subproblem = Subproblem(problem.objective, g_k, iterate.x, gamma, problem.signs, coordinates)
        iterate = _feasible_step(problem, subproblem, subsolver, iterate, tolerance, seconds_left, rng)
        yield eta_k, iterate


def without_level(
    problem: Problem,
    start: Iterate,
    gamma: float,
    subsolver: Subsolver,
    tolerance: float = 0.0,
    seconds_left: Callable[[], float] = lambda: math.inf,
    rng: np.random.Generator | None = None,
    done: int = 0,
) -> Iterator[tuple[float, Iterate]]:
    """Minimise ψ alone, for as long as g ≤ η holds.

    A nonconvex problem can have KKT points with y > 0 although its unconstrained minimiser is
    feasible, and LCPP may stop at one. If the level is active, gradient steps soon leave the feasible
    set; LCPP then continues from the last point inside, which is yielded once more with the work of the step that left
    and the stop reason "left". `done` is the number of these steps that led to `start`.
    """
    everything = Surrogate(problem.weights, None, math.inf, problem.constraint.lam, math.inf, problem.width)
    iterate, coordinates = start, subsolver.coordinates(problem.objective, problem.centred)
    # Few inner steps at first: if the level is active, most of this work is repeated.
    for limited in islice(chain(map(subsolver.limited_to, (1, 2, 4)), repeat(subsolver)), done, None):
        free = Subproblem(problem.objective, everything, iterate.x, gamma, problem.signs, coordinates)
        step = limited.solve(free, iterate, tolerance, seconds_left(), rng)
        if problem.g(step.x) > problem.level:
            stop = step.stop if step.stop == StopReason.INTERRUPTED else StopReason.LEFT_LEVEL
            yield problem.level, replace(iterate, stop=stop).at_cost_of(step)
            return
        iterate = step
        yield problem.level, iterate


def _feasible_step(
    problem: Problem,
    subproblem: Subproblem,
    subsolver: Subsolver,
    iterate: Iterate,
    tolerance: float,
    seconds_left: Callable[[], float],
    rng: np.random.Generator | None,
) -> Iterate:
    """Return x^k with computed g(x^k) ≤ η_k.

    g_k ≥ g holds up to rounding. If rounding violates the level, which happens for large |x|, the step is repeated
    in a smaller set; in the worst case x^{k−1} stays.
    """
    for _ in range(3):
        step = subsolver.solve(subproblem, iterate, tolerance, seconds_left(), rng)
        excess = problem.g(step.x) - subproblem.surrogate.level
        if excess <= 0:
            return step
        if step.stop in (StopReason.INTERRUPTED, StopReason.NOT_FINITE, StopReason.SECONDS):
            return replace(step, x=iterate.x, psi=iterate.psi, gradient=iterate.gradient, margins=iterate.margins)
        subproblem = replace(subproblem, surrogate=subproblem.surrogate.tightened(4 * excess))
    return replace(iterate, stop=StopReason.STATIONARY, n_inner=0, n_grad=0, n_proj=0)
