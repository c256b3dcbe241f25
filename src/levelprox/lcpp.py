"""LCPP, the level-constrained proximal point method (Algorithm 1).

    x^k ≈ argmin  ψ(x) + γ/2 ‖x − x^{k−1}‖²   s.t.  g_k(x) ≤ η_k

g_k majorises g and touches it at x^{k−1}, so every x^k obeys g(x^k) ≤ g_k(x^k) ≤ η_k ≤ η and is
feasible for the next step: stop anywhere and the answer obeys the level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from levelprox.problem import Problem
from levelprox.result import Iterate
from levelprox.subproblem import Subproblem
from levelprox.subsolvers import Subsolver
from levelprox.surrogate import Linearise, Surrogate, linearise


def lcpp(
    problem: Problem,
    start: Iterate,
    levels: Iterable[float],
    gamma: float,
    subsolver: Subsolver,
    surrogate: Linearise = linearise,
    budget: Budget | None = None,
) -> Iterator[tuple[float, Iterate]]:
    """Yield (η_1, x^1), (η_2, x^2), …; the caller decides when it has seen enough."""
    budget = budget or Budget()
    iterate = start
    for eta_k in levels:
        g_k = surrogate(problem.constraint, iterate.x, eta_k, problem.weights)
        subproblem = Subproblem(problem.objective, g_k, iterate.x, gamma, problem.signs)
        iterate = _feasible_step(problem, subproblem, subsolver, iterate, eta_k, budget)
        yield eta_k, iterate


class Budget:
    """What the caller lets the next step spend; the caller may change it between steps."""

    tolerance: float = 0.0
    deadline_in: float = 1e300


def _feasible_step(
    problem: Problem,
    subproblem: Subproblem,
    subsolver: Subsolver,
    iterate: Iterate,
    eta_k: float,
    budget: Budget,
) -> Iterate:
    """The subsolver's point; where rounding in g_k let g exceed η_k (enormous |x|), a tighter set; at worst x^{k−1}."""
    for _ in range(3):
        step = subsolver.solve(subproblem, iterate, budget.tolerance, budget.deadline_in)
        excess = problem.g(step.x) - eta_k
        if excess <= 0:
            return step
        tighter: Surrogate = subproblem.surrogate.tightened(4 * excess)
        subproblem = replace(subproblem, surrogate=tighter)
    return replace(iterate, stop="stationary", n_inner=0, n_evaluations=0)
