"""Working sets: choose features, solve the restriction to them, check all features by a full gradient pass.

A sparse solution needs few columns of X; the others are needed only to check that they can stay at zero. A full pass
X'r gives the gradient, from which a working set W is chosen; the problem is solved over the coordinates in W alone,
and the next full pass shows which features were missed. Zero coordinates outside W cost nothing, so every point is
feasible.

The solve on W stops when its residual is a tenth of the violation outside W: more digits would be wasted on a problem
that is about to change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from levelprox._typing import Features, Vector
from levelprox.certificate.null_model import NullFit
from levelprox.certificate.residual import distance, in_units, pull
from levelprox.methods.lcpp import lcpp
from levelprox.methods.restricted import INSIDE, SolverOptions, Tolerance, rounding_of, solve_over, solve_restriction
from levelprox.objectives import Model
from levelprox.problem import Problem
from levelprox.result import Iterate, StopReason

_SMALLEST = 10  # features to begin with
_MANY_LOOKS = 4
_ROOM = 2  # times the features that the level can pay for
_LAST_DIGITS = 4 * float(np.finfo(np.float64).eps)
_LARGE_WORKING_SET_SHARE = 0.1  # of all features
_FULL_GRADIENT_RESIDUAL_SHARE = 0.1  # of the residual at the last full gradient pass
_SPREAD = 1e4  # ratio of sizes of columns up to which features are compared in units of the level
_FULL_SET_TOLERANCE_SHARE = 0.9  # of the tolerance, where W is all there is
_ENOUGH = 0.1  # of the residual outside W, or of the tolerance
_ROUGH = 1e-2  # residual of a trial
_MOST_KEPT = 4  # times the features that would be chosen anew


@dataclass(frozen=True, eq=False)
class WorkingSet:
    """The state between two full gradient passes: plain arrays and numbers.

    Attributes
    ----------
    at : Iterate
        The point, with ψ and ∇ψ over all features.
    features : ndarray of int
        W, sorted; empty before the first pass.
    residual, multiplier : float
        The KKT residual and its multiplier y.
    looks : int
        Number of full gradient passes since the start.
    """

    at: Iterate
    features: Features
    residual: float
    multiplier: float
    looks: int = 0


def steps(
    problem: Problem, start: Iterate, levels: Iterable[float], tol: float, how: SolverOptions, done: int = 0
) -> Iterator[tuple[float, Iterate]]:
    """Yield (η_k, x^k) of LCPP with the settings of the run, on working sets or on all features at once.

    `done` is the number of steps that led to `start`; `levels` are those that follow.
    """
    tolerance = tol * how.null.scale
    if how.working_sets:
        return on_working_sets(problem, start, levels, tolerance, how, done)
    limits = (0.1 * tolerance, how.seconds_left, how.rng)
    return lcpp(problem, start, levels, how.gamma, how.subsolver, how.surrogate, *limits)


def on_working_sets(
    problem: Problem, start: Iterate, levels: Iterable[float], tolerance: float, how: SolverOptions, looks: int = 0
) -> Iterator[tuple[float, Iterate]]:
    """Yield (η_k, x^k), with ψ and its whole gradient, after each working set."""
    state = replace(first(problem, start, how.null), looks=looks)
    del start  # with its gradient, a vector over all features
    for eta_k in levels:
        state = advance(problem, state, eta_k, tolerance, how)
        yield eta_k, state.at
        if _is_unseen(state.at):
            return


def first(problem: Problem, start: Iterate, null: NullFit) -> WorkingSet:
    """Return the state at the start."""
    residual, y = distance(problem, start.x, start.psi, start.gradient, null)
    return WorkingSet(start, np.empty(0, np.intp), residual, y)


def advance(problem: Problem, state: WorkingSet, eta_k: float, tolerance: float, how: SolverOptions) -> WorkingSet:
    """Choose W, solve the restriction to it, and compute the full gradient."""
    at = state.at
    W, enough = _look(problem, state, tolerance)
    places = problem.coordinates(W)
    x, gradient = state.at.x[places], state.at.gradient[places]
    start = replace(state.at, x=x, gradient=gradient, multiplier=state.multiplier, hessian=None)
    end = solve_restriction(how.restricted(problem, W).at_level(eta_k), start, enough, how)
    new = _seen(problem, W, end, how.most)
    if new.psi <= at.psi + rounding_of(problem, at.psi, state.multiplier):
        judged = _judged(problem, W, new, state.looks, how)
        if new.psi <= at.psi + _LAST_DIGITS * abs(at.psi) or judged.residual < state.residual:
            return judged
    # Steps that gained nothing can add up their rounding.
    stays = replace(at, stop=new.stop, features=W).at_cost_of(new)
    return replace(state, at=stays, features=W, looks=state.looks + 1)


class Tracker:
    """One solution followed from level to level; the columns of W and the Hessian over them are reused.

    Parameters
    ----------
    problem : Problem
    start : Iterate
        Any feasible point, with ψ and ∇ψ over all features.
    how : SolverOptions
    """

    def __init__(self, problem: Problem, start: Iterate, how: SolverOptions) -> None:
        self.how, self.problem = how, problem
        self.state = first(problem, start, how.null)
        self.part: Problem | None = None
        self.small: Iterate | None = None

    def as_state(self) -> dict[str, Any]:
        """Where it has come to, as plain data; the columns of W are what they are."""
        return {"level": self.problem.level, "state": self.state, "begun": self.part is not None, "small": self.small}

    def take(self, state: dict[str, Any]) -> None:
        """Go on from what `as_state` gave."""
        self.problem = self.problem.at_level(state["level"])
        self.state, self.small = state["state"], state["small"]
        self.part = self.problem.restrict(self.state.features) if state["begun"] else None

    def at_level(self, level: float, tol: float, most_looks: int) -> tuple[Iterate, int]:
        """Return the solution at this level, and the number of full gradient passes."""
        self.problem = problem = self.problem.at_level(level)
        tolerance, looks = tol * self.how.null.scale, 0
        x = problem.cut(self.state.at.x)
        same = x is self.state.at.x
        if self.small is not None or not same:
            self._work_on(x, same, Tolerance(_ENOUGH * tolerance))
            looks += 1
        else:
            self.state = first(problem, self.state.at, self.how.null)
        return self._settled(tolerance, looks, most_looks)

    def moved(self, level: float, x: Vector, tol: float, most_looks: int) -> tuple[Iterate, int]:
        """Return the solution from another feasible point; the current one is kept if it is feasible and lower."""
        kept = self.state, self.part, self.small
        self.problem = problem = self.problem.at_level(level)
        tolerance, before = tol * self.how.null.scale, self.state.at
        self._restrict_to(np.union1d(self.state.features, problem.support(x)).astype(np.intp))
        self._work_on(x, False, Tolerance(_ENOUGH * tolerance))
        at, looks = self._settled(tolerance, 1, most_looks)
        if at.stop == StopReason.INTERRUPTED or at.psi < before.psi or not problem.is_feasible(before.x):
            return at, looks
        self.state, self.part, self.small = kept
        return before, looks

    def below(self, psi: float, level: float, tol: float, most_looks: int) -> tuple[Iterate | None, int]:
        """Return the solution at a lower level and the passes; None if ψ is not below a value, which is roughly tried.

        The trial is the restriction to W, without a full gradient pass.
        """
        self.problem = problem = self.problem.at_level(level)
        self._solve(problem.cut(self.state.at.x), False, Tolerance(_ROUGH * self.how.null.scale))
        assert self.small is not None
        if not self.small.psi < psi and self.small.stop != StopReason.INTERRUPTED:
            return None, 0
        tolerance = tol * self.how.null.scale
        self._work_on(self.small.x, True, Tolerance(_ENOUGH * tolerance))
        return self._settled(tolerance, 1, most_looks)

    def _settled(self, tolerance: float, looks: int, most_looks: int) -> tuple[Iterate, int]:
        """Alternate solves on W and full passes until the residual is small."""
        while self.state.residual > tolerance and looks < most_looks and self.how.seconds_left() > 0:
            W, enough = _look(self.problem, self.state, tolerance)
            self._restrict_to(W)
            self._work_on(self.state.at.x, True, enough)
            looks += 1
            if self.state.at.stop == StopReason.INTERRUPTED:
                break
        return self.state.at, looks

    def _restrict_to(self, W: Features) -> None:
        if self.part is None or not np.array_equal(W, self.state.features):
            self.part, self.small = self.problem.restrict(W), None
            self.state = replace(self.state, features=W)

    def _work_on(self, x: Vector, same: bool, enough: Tolerance) -> None:
        """Solve the restriction to W from x, which may be the end of the last solve, and compute the full gradient."""
        self._solve(x, same, enough)
        assert self.small is not None
        W = self.state.features
        new = replace(_seen(self.problem, W, self.small), n_inner=0)
        self.state = _judged(self.problem, W, new, 0, self.how)

    def _solve(self, x: Vector, same: bool, enough: Tolerance) -> None:
        """Solve the restriction to W from x, which may be the end of the last solve."""
        problem, W = self.problem, self.state.features
        if self.part is None:
            W = problem.support(self.state.at.x) if not W.size else W
            W = np.union1d(W, problem.unpenalized).astype(np.intp)
            self.part, self.state = problem.restrict(W), replace(self.state, features=W)
        part, places = self.part.at_level(problem.level), problem.coordinates(W)
        if same and self.small is not None:
            start = self.small
        else:
            psi, gradient = part.objective.value_and_gradient(x[places])
            start = Iterate(x[places], psi, gradient, step=self.state.at.step)
        self.small = solve_restriction(part, replace(start, multiplier=self.state.multiplier), enough, self.how)


def resumed(problem: Problem, x: Vector, W: Features, tolerance: float, how: SolverOptions) -> WorkingSet:
    """Solve the restriction to a given working set from x, and compute the full gradient."""
    small = solve_over(problem, W, x, Tolerance(_ENOUGH * tolerance), how)
    return _judged(problem, W, _seen(problem, W, small, how.most), 0, how)


def _judged(problem: Problem, W: Features, new: Iterate, looks: int, how: SolverOptions) -> WorkingSet:
    """Return the state at the end of a solve on W, after so many full gradient passes and perhaps one more."""
    if _is_unseen(new):
        return WorkingSet(new, W, math.inf, new.multiplier, looks)
    residual, y = distance(problem, new.x, new.psi, new.gradient, how.null)
    return WorkingSet(new, W, residual, y, looks + 1)


def _is_unseen(at: Iterate) -> bool:
    """Return whether the full gradient was not computed at this point."""
    return at.gradient.size < at.x.size


def _seen(problem: Problem, W: Features, small: Iterate, most: int | None = None) -> Iterate:
    """Return the end of the solve on W as a point over all features, with ψ and ∇ψ.

    With more than `most` nonzero penalized features the full gradient is not computed: ∇ψ is empty.
    """
    margins = small.margins if isinstance(problem.objective, Model) else None  # features outside W are at zero
    x = np.zeros(problem.dimension)  # pages that are not written take no memory
    nonzero = np.flatnonzero(small.x)
    x[problem.coordinates(W)[nonzero]] = small.x[nonzero]
    if W.size == problem.n_features:  # each step had the full gradient
        psi, gradient, looks = small.psi, small.gradient, small.n_inner
    elif most is not None and problem.counted(problem.support(x)).size > most:
        psi, gradient, looks = small.psi, np.empty(0), 0
    else:
        (psi, gradient), looks = problem.objective.value_and_gradient(x), 1
    end = Iterate(x, psi, gradient, small.multiplier, small.step, small.stop, margins=margins, features=W)
    return end.at_cost_of(replace(small, n_grad=looks))


def _look(problem: Problem, state: WorkingSet, tolerance: float) -> tuple[Features, Tolerance]:
    """Return W and the tolerance of the solve on it."""
    violation = violation_of(problem, state.at.x, state.at.gradient, state.multiplier)
    W = _choose(problem, state.at, violation, state.looks)
    # On a large W the last digits of a problem that may still change cost more than a full pass.
    if _LARGE_WORKING_SET_SHARE * problem.n_features < W.size < problem.n_features:
        tolerance = max(tolerance, _FULL_GRADIENT_RESIDUAL_SHARE * state.residual)
    return W, _enough(problem, state.multiplier, violation, W, tolerance)


def _enough(problem: Problem, y: float, violation: Vector, W: Features, tolerance: float) -> Tolerance:
    """Return the tolerance of the solve on W, as a function of the multiplier there.

    With a lower multiplier more features outside W violate the KKT system; the closest one represents them.
    """
    violation[W] = -np.inf
    worst = int(np.argmax(violation))
    if violation[worst] == -np.inf:
        return Tolerance(_FULL_SET_TOLERANCE_SHARE * tolerance)  # nothing is outside
    price = problem.constraint.lam * (1.0 if problem.weights is None else float(problem.weights[worst]))
    scale = problem.objective.feature_scale
    price = price if scale is None else price / float(scale.size[worst])
    return Tolerance(_ENOUGH * tolerance, _ENOUGH * (float(violation[worst]) + y * price), _ENOUGH * price)


def violation_of(problem: Problem, x: Vector, gradient: Vector, y: float) -> Vector:
    """Return |ψ'_j| − yλω_j, in units of its column, at features that are zero.

    −inf for all others, and for columns of zeros.
    """
    size = np.maximum(pull(problem, in_units(problem, gradient)), 0)
    price = y * problem.constraint.lam * (np.ones(1) if problem.weights is None else problem.weights)
    scale = problem.objective.feature_scale
    size -= price if scale is None else price / scale.size
    size[problem.support(x)] = -np.inf
    if scale is not None:
        size[np.isinf(scale.size)] = -np.inf
    return size


def _choose(problem: Problem, at: Iterate, violation: Vector, looks: int) -> Features:
    """Return supp(x), the unpenalized features, and those with the largest violations.

    While the level is not active the set at least doubles, up to the number of features that the level allows. When it
    is active, all violating features are added, up to doubling the set, and some more, so that the next full pass
    finds none missing. If passes keep finding new ones, the sets grow until none can be missing.

    Violations are compared in units of the level, |ψ'_j| − yλω_j: the gain per unit of cost at zero. If columns have
    very different sizes, they are compared in units of columns instead.
    """
    scale = problem.objective.feature_scale
    if scale is not None and scale.spread <= _SPREAD:
        violation = np.where(violation > -np.inf, violation * scale.size, -np.inf)
    kept = np.union1d(problem.support(at.x), problem.unpenalized)
    violators = int(np.count_nonzero(violation > 0))
    spare = int(kept.size * 2.0 ** max(-1, (looks - _MANY_LOOKS) // 2))
    more = max(_SMALLEST, spare, min(violators, kept.size))
    if problem.g(at.x) < INSIDE * problem.level:
        affordable = math.ceil(min(_ROOM * (problem.level / problem.constraint.cap), problem.n_features))
        more = max(more, affordable - kept.size if affordable else kept.size)
    more = min(more, problem.n_features - kept.size)
    nearest = np.argpartition(violation, violation.size - more)[violation.size - more :] if more > 0 else kept
    W = np.union1d(kept, nearest[violation[nearest] > -np.inf])
    return at.features if at.features is not None and _serves_again(problem, at, at.features, violation, W) else W


def _serves_again(problem: Problem, at: Iterate, last: Features, violation: Vector, W: Features) -> bool:
    """Return whether the last working set, whose columns are at hand, serves again: no feature outside it violates."""
    whole = last.size == problem.n_features
    if whole or last.size > _MOST_KEPT * W.size or problem.g(at.x) < INSIDE * problem.level:
        return False
    outside = np.ones(problem.n_features, np.bool_)
    outside[last] = False
    return not np.any(violation[outside] > 0)
