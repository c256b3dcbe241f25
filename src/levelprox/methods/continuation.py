"""Continuation: solve a sequence of rescaled problems, each started at the solution of the last one.

A nonconvex problem has many KKT points, and which one is found matters more than its last digit. If φ is rescaled far
enough, it is almost linear and the problem almost convex: its solution does not depend on the start. So

1. the problem is solved from the null model: the direct start. Its coefficients determine the factor c for which φ is
   almost linear over their range, its nonzeros the expected number of features;
2. the problem with φ(t/c) for φ(t) is solved roughly from the null model; if it has several times as many nonzeros
   (with more features than samples the model can interpolate), c is halved at once;
3. c is halved until it is 1; each time the smallest coefficients are dropped until the level holds again, and the
   working set of the last stage is solved before the next full gradient pass;
4. where the cost of a feature has a cap, features are swapped at both ends (`subset/swaps.py`), among those that are
   closest to entering.

The run continues from the lowest point, which is never above that of the direct start.

Where the loss is not convex, this is done first with its convex start (`Loss.convex_start`), and the direct start
begins at that solution: all samples then decide which local minimum of ψ is found, through a convex loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat
from typing import cast

import numpy as np

from levelprox._typing import Features, Vector
from levelprox.backends import RemoteObjective
from levelprox.certificate.null_model import null_fit
from levelprox.certificate.residual import distance, in_units
from levelprox.constraints import Rescaled
from levelprox.methods.restricted import SolverOptions
from levelprox.methods.working_set import resumed, steps
from levelprox.objectives import Model
from levelprox.problem import Problem
from levelprox.result import CUT_SHORT_STOPS, Iterate, Stage, StopReason, relative_change
from levelprox.subset.fit import Fit
from levelprox.subset.forward import FEW, forward
from levelprox.subset.swaps import SwapSearch

_ROUGH = 1e-3  # tol of all stages but the last
_HOPELESS = 0.05  # of what has been gained: too far above it for the last digits to matter
_STRAIGHT = 0.75  # of λ: a slope that has hardly bent
MOST_DOUBLINGS = 30  # of c
_FEW, _MANY = 10, 100  # nonzeros that a stage may have in any case, and up to which four times those at the end
_MOST_STEPS = 20  # of a stage
_MOST_ROUGH = 100  # inner steps of a rough stage; where curvature vanishes each gains little, and there is no end
_FROM_HERE, _FROM_DIRECT = 50, 20  # features: swaps among more take long, and rarely help
_CANDIDATES, _SHARE = 100, 4  # that may take the place of another feature, or so many times those there are


def continued(
    problem: Problem,
    start: Iterate,
    direct: Iterate,
    how: SolverOptions,
    tol: float,
    count: int = 0,
    after: tuple[Stage, Iterate] | None = None,
    most_doublings: int = MOST_DOUBLINGS,
) -> Iterator[tuple[Stage, Iterate]]:
    """Yield every stage from the largest factor to the problem itself, with the iterate at its end.

    There are none if φ is almost linear over the coefficients of the direct start, or if no rescaled problem is sparse.

    Parameters
    ----------
    problem : Problem
    start : Iterate
        The null fit.
    direct : Iterate
        What the direct start reached.
    how : SolverOptions
        The settings of the run.
    tol : float
        The tolerance of the problem itself.
    count : int
        The number of nonzeros, if it is known; by default that of the direct start.
    after : (Stage, Iterate), optional
        The last finished stage: continue with the next.
    most_doublings : int
        log2 of the largest factor.
    """
    takes_swaps = count == 0  # with a given count, the caller runs the swaps itself
    doublings, count = min(_doublings(problem, direct.x), most_doublings), count or _count(problem, direct.x)
    most = most_nonzeros(count)
    if doublings == 0 or count == 0:
        return
    at = None
    if after is not None:
        stage, at = after
        doublings = _following(problem, at.x, round(math.log2(stage.factor)), stage.n_nonzero, count)
    while doublings >= 0:
        factor = 2.0**doublings
        wider = rescaled(problem, factor)
        begin = start if at is None else (wider.cut(at.x), at.features)
        here = most if doublings else None
        at, n_grad = _stage(wider, begin, max(tol, _ROUGH), replace(how, most=here), here or math.inf)
        if doublings == 0 and at.psi <= direct.psi + _HOPELESS * (start.psi - direct.psi):
            at, more = _stage(problem, at, tol, how)
            n_grad += more
        if doublings == 0 and takes_swaps and at.stop not in CUT_SHORT_STOPS:
            better, more = _after_swaps(problem, start, at, direct, how, tol)
            n_grad += more
            at = at if better is None else better
        n_nonzero = _count(problem, at.x)
        yield Stage(factor, at.psi, n_nonzero, n_grad), replace(at, n_grad=n_grad)
        if at.stop in CUT_SHORT_STOPS or how.seconds_left() <= 0:
            return
        doublings = _following(problem, at.x, doublings, n_nonzero, count)


def convex_start(problem: Problem, null: Iterate, how: SolverOptions, tol: float) -> Iterate:
    """Return the start: the solution for the convex start of the loss (`Loss.convex_start`), or the null model.

    The one that leads to the lower ψ is chosen; the null model if the loss has no convex start.
    """
    if problem.objective.convex_start is None:
        return null
    x, n_grad = _convex_solution(problem.with_objective(problem.objective.convex_start), how, tol)
    n_grad += problem.objective.evaluation_cost
    at = Iterate(x, *problem.objective.value_and_gradient(x), step=null.step)
    (here, more), (there, most) = (_stage(problem, begin, tol, how) for begin in (at, null))
    if StopReason.INTERRUPTED in (here.stop, there.stop):
        raise KeyboardInterrupt
    return replace(null if there.psi < here.psi else at, n_grad=n_grad + more + most)


def _convex_solution(convex: Problem, how: SolverOptions, tol: float) -> tuple[Vector, int]:
    """Return the lower end of the direct start and of continuation, and the number of passes."""
    null, cost = null_fit(convex, how.seconds_left()), convex.objective.evaluation_cost
    assert null.gradient is not None
    how = replace(how, null=null, gamma=how.subsolver.proximal_weight(convex.objective))
    start = Iterate(null.x, null.psi, null.gradient, step=1 / convex.objective.curvature)
    best, n_grad = _stage(convex, start, tol, how)
    interrupted = best.stop == StopReason.INTERRUPTED
    for stage, at in () if interrupted else continued(convex, start, best, how, tol):
        n_grad, interrupted = n_grad + stage.n_grad, at.stop == StopReason.INTERRUPTED
        best = at if stage.factor == 1 and at.psi < best.psi and convex.is_feasible(at.x) else best
    if interrupted:
        raise KeyboardInterrupt
    return best.x, n_grad + 2 * cost


def _after_swaps(
    problem: Problem, start: Iterate, at: Iterate, direct: Iterate, how: SolverOptions, tol: float
) -> tuple[Iterate | None, int]:
    """Return a KKT point that is lower than both ends by swaps of features, if there is one, and the number of passes.

    A feature costs at most the cap for any size: as many as the level allows are refitted without the level, and others
    may replace them. Only features that are closest to entering are considered.
    """
    ends = [
        end for end, most in ((at, _FROM_HERE), (direct, _FROM_DIRECT)) if 0 < _largest(problem, end.x).size <= most
    ]
    possible = isinstance(problem.objective, Model) or (
        isinstance(problem.objective, RemoteObjective) and problem.n_outputs == 1
    )
    if not (how.working_sets and ends and possible):
        return None, 0
    few = _largest(problem, ends[-1].x).size <= FEW
    W = _candidates(problem, [*ends, start] if few else ends)
    searches = _SwapSearches(problem, W, how, tol)
    found, promised, improved = dict[bytes, Fit](), dict[bytes, float](), dict[bytes, Fit]()
    try:
        for end in ends:
            swaps, null, psi = searches.at(end)
            chosen = np.searchsorted(W, _largest(problem, end.x)).astype(np.intp)
            near = Fit(np.arange(W.size, dtype=np.intp), end.x[problem.coordinates(W)], psi, null.margins)
            before = swaps.fitted(np.union1d(null.features, chosen).astype(np.intp), near)
            if searches.at_hand and swaps.is_convex:  # both ends may have the same features
                after = improved.get(before.features.tobytes()) or swaps.improved(before)
                improved[before.features.tobytes()] = improved[after.features.tobytes()] = after
            else:
                after = swaps.improved(before)
            if after.psi < max(before.psi, psi):
                found[after.features.tobytes()] = after
                promised[after.features.tobytes()] = end.psi + after.psi - psi
        if few:
            after = swaps.improved(_without_the_first(swaps, null, chosen.size))
            if after.psi <= swaps.best.psi:
                found[after.features.tobytes()] = after
                promised[after.features.tobytes()] = end.psi + after.psi - psi
    except TimeoutError:
        return None, 0
    if not searches.at_hand and found:  # each costs many rounds: the one that promises most is tried
        most = min(promised, key=promised.__getitem__)
        found = {most: found[most]}
    return _lowest(problem, W, found, at, how, tol)


def _lowest(
    problem: Problem, W: Features, found: dict[bytes, Fit], at: Iterate, how: SolverOptions, tol: float
) -> tuple[Iterate | None, int]:
    """Return the lowest KKT point from these fits over features of W, if it is lower than `at`, and the passes.

    The lowest fit is solved first. The rest of the level lowers ψ by about the same amount for the others: those that
    would still be far above the best point are skipped.
    """
    best, passes, more = None, 0, math.inf
    for fit in sorted(found.values(), key=lambda fit: fit.psi):
        lowest = (at if best is None else best).psi
        if fit.psi - 2 * more > lowest + _HOPELESS * (how.null.psi - lowest):
            break
        x, features = np.zeros(problem.dimension), W[fit.features]
        x[problem.coordinates(features)] = fit.x
        features = features if at.features is None else np.union1d(features, at.features).astype(np.intp)
        end, n_grad = _stage(problem, (problem.cut(x), features), tol, how)
        if end.stop == StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        passes, more = passes + n_grad, max(fit.psi - end.psi, 0.0)
        best = end if end.psi < lowest else best
    return best, passes


def _candidates(problem: Problem, ends: list[Iterate]) -> Features:
    """Return the features of these points, and those closest to entering at each."""
    W = problem.unpenalized
    for end in ends:
        most = min(max(_CANDIDATES, _SHARE * _count(problem, end.x)), problem.n_features // 2)
        nearest = np.argsort(-problem.sizes(in_units(problem, end.gradient)), kind="stable")[:most]
        W = np.union1d(W, np.union1d(nearest, problem.support(end.x)))
    return W.astype(np.intp)


class _SwapSearches:
    """Swaps among the features in W: on ψ for data in memory, else on its second-order models."""

    def __init__(self, problem: Problem, W: Features, how: SolverOptions, tol: float) -> None:
        self.W, self.how, self.tol = W, how, tol
        self.part, self.at_hand = how.restricted(problem, W), isinstance(problem.objective, Model)
        self.x = how.null.x[problem.coordinates(problem.unpenalized)]
        if self.at_hand:
            self.swaps = self._begun(self.part, self.x, how.null.psi, how)
            self.null = self.swaps.best

    def at(self, end: Iterate) -> tuple[SwapSearch, Fit, float]:
        """Return the swaps at this end, the null model they start with, and ψ of the end in their model."""
        if self.at_hand:
            return self.swaps, self.null, end.psi
        model = cast(RemoteObjective, self.part.objective).second_order(end.x[self.W], end.gradient[self.W])
        small = self.part.with_objective(model)
        null = null_fit(small, self.how.seconds_left())
        swaps = self._begun(small, null.x[small.unpenalized], null.psi, replace(self.how, null=null))
        return swaps, swaps.best, model.value_of(model.margins(end.x[self.W]))

    def _begun(self, part: Problem, x: Vector, psi: float, how: SolverOptions) -> SwapSearch:
        margins = cast(Model, part.objective).restrict(part.unpenalized).margins(x)
        return SwapSearch(part, Fit(part.unpenalized, x, psi, margins), how.null, self.tol * how.null.scale, how)


def _without_the_first(swaps: SwapSearch, null: Fit, count: int) -> Fit:
    """Return a fit of as many features without the first one selected, which may have too much influence."""
    first = forward(swaps, null, 1)
    chosen = forward(swaps, null, count, without=int(first[0])) if first.size else first
    return swaps.fitted(np.union1d(null.features, chosen).astype(np.intp), null)


def _largest(problem: Problem, x: Vector) -> Features:
    """Return the largest features, as many as the level allows at the cap."""
    sizes = problem.sizes(x)
    support = problem.counted(problem.support(x))
    largest: Features = support[np.argsort(-sizes[support], kind="stable")][: affordable(problem)]
    return largest


def continues(start: str, problem: Problem) -> bool:
    """Return whether a start, "auto" or by name, uses continuation.

    A stage solves tens of models, and each takes hundreds of products with a matrix: "auto" uses none of high order.
    """
    by_name = start == "continuation"
    return start != "direct" and problem.constraint.lipschitz > 0 and (by_name or not problem.has_many_coordinates)


def affordable(problem: Problem) -> int:
    """Return the number of features that the level allows at the cap; 0 if features have different costs."""
    cost = feature_cost(problem)
    return int(min(problem.level / cost, problem.n_features)) if cost > 0 else 0


def feature_cost(problem: Problem) -> float:
    """Return what each feature costs at the cap; 0 if features have different costs, or there is no threshold."""
    weights, cap = problem.weights, problem.constraint.cap
    counted = np.ones(1) if weights is None else weights[weights > 0]
    if not (math.isfinite(problem.constraint.threshold) and counted.size and np.ptp(counted) == 0):
        return 0.0
    return cap * float(counted[0])


def rescaled(problem: Problem, factor: float) -> Problem:
    """Return the problem with φ(t/c) for φ(t), at the equivalent level."""
    if factor == 1:
        return problem
    constraint = Rescaled(problem.constraint, factor)
    return problem.at_level(constraint.level_of(problem.level), constraint)


def _stage(
    problem: Problem,
    begin: Iterate | tuple[Vector, Features | None],
    tol: float,
    how: SolverOptions,
    most: float = math.inf,
) -> tuple[Iterate, int]:
    """Return the end of LCPP, at a residual below tol or the first point with too many nonzeros, and the passes.

    It begins at an iterate, or at a point and a first working set.
    """
    tolerance, objective = tol * how.null.scale, problem.objective
    if isinstance(begin, Iterate):
        at = replace(begin, n_grad=0)
    elif begin[1] is not None:
        at = resumed(problem, begin[0], begin[1], tolerance, how).at
    else:
        at = Iterate(begin[0], *objective.value_and_gradient(begin[0]), n_grad=objective.evaluation_cost)
        at = replace(at, step=1 / objective.curvature)
    following, inner, n_grad = steps(problem, at, repeat(problem.level), tol, how), 0, at.n_grad
    for _ in range(_MOST_STEPS):
        if _count(problem, at.x) > most:
            break
        done = distance(problem, at.x, at.psi, at.gradient, how.null)[0] <= tolerance
        if done or at.stop in CUT_SHORT_STOPS or how.seconds_left() <= 0 or (tol >= _ROUGH and inner >= _MOST_ROUGH):
            break
        last, (_, at) = at, next(following)
        inner, n_grad = inner + at.n_inner, n_grad + at.n_grad
        if relative_change(last.x, at.x) <= tol and not how.working_sets:
            break
    return at, n_grad


def _following(problem: Problem, x: Vector, doublings: int, n_nonzero: int, count: int) -> int:
    """Return the stage after this one, negative after the last: the next whose level x violates.

    The stages in between would not move x. Once there are no more nonzeros than expected at the end, the next stages
    would change little, and the last one follows.
    """
    if n_nonzero <= count:
        return min(doublings - 1, 0)
    doublings -= 1
    while doublings > 0:
        wider = rescaled(problem, 2.0**doublings)
        if wider.g(x) > wider.level:
            break
        doublings -= 1
    return doublings


def most_nonzeros(count: int) -> int:
    """Return the number of nonzeros that a stage may have, given the expected number at the end; with more it ends.

    More nonzeros show more alternatives. But many nonzeros separate classes, or interpolate: then each model of a stage
    is nearly singular, takes long, and distinguishes features no better.
    """
    return max(_FEW, 2 * count, min(4 * count, _MANY))


def _doublings(problem: Problem, x: Vector) -> int:
    """Return how often c must be doubled for φ to be almost linear over the coefficients of x."""
    sizes = problem.sizes(x)
    largest = float(np.max(sizes if problem.weights is None else sizes[problem.weights > 0], initial=0.0))
    straight = _STRAIGHT * problem.constraint.lam
    for doublings in range(MOST_DOUBLINGS):
        if float(problem.constraint.slope(math.ldexp(largest, -doublings))) >= straight:
            return doublings
    return MOST_DOUBLINGS


def _count(problem: Problem, x: Vector) -> int:
    """Return the number of nonzero penalized features."""
    return problem.counted(problem.support(x)).size
