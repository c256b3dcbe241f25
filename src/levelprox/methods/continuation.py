"""Continuation: reach the problem by way of wider ones, each started where the last one ended.

A nonconvex problem has many KKT points, and which one is reached matters more than its last digit. Widened far enough,
φ is all but straight and the problem all but convex: its solution does not depend on where the search began. So

1. the problem is solved from the null fit: the direct start. Its coefficients show how wide φ must be to be
   straight as far as they reach, its nonzeros about how many there are to be;
2. the problem widened that far, with φ(t/c) for φ(t), is solved from the null fit, roughly; where that takes several
   times as many nonzeros (with more features than samples a wide set lets the model interpolate), c is halved at once;
3. c is halved until it is 1; each time the smallest coefficients are dropped until the level holds again, and the
   working set of the last stage is tried before all features are looked at;
4. where a feature costs at most a cap, features are exchanged one for another at both ends (`swaps.py`), among those
   that come nearest to being taken in.

The lowest point is where the run goes on: never above what the direct start reached.

Where the loss is not convex, the same is done with its convex start (`Loss.convex_start`) for the loss, and the direct
start is from that solution: which valley of ψ is reached is then decided by all samples, as a convex loss sees them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat
from typing import cast

import numpy as np
from numpy.typing import NDArray

from levelprox.backends import RemoteObjective
from levelprox.certificate.null_model import null_fit
from levelprox.certificate.residual import distance, in_units
from levelprox.constraints import Widened
from levelprox.methods.restricted import How
from levelprox.methods.working_set import resumed, steps
from levelprox.objectives import Model
from levelprox.problem import Problem
from levelprox.result import CUT_SHORT_STOPS, Iterate, Stage, StopReason, relative_change
from levelprox.subset.forward import FEW, forward
from levelprox.subset.refit import Fit
from levelprox.subset.swaps import Swaps

Vector = NDArray[np.float64]
Features = NDArray[np.intp]
_ROUGH = 1e-3  # tol of all stages but the last
_HOPELESS = 0.05  # of what has been gained: too far above it for the last digits to matter
_STRAIGHT = 0.75  # of λ: a slope that has hardly bent
_WIDEST = 30  # times c may be doubled
_FEW, _MANY = 10, 100  # nonzeros that a stage may have in any case, and up to which four times those at the end
_MOST_STEPS = 20  # of a stage
_MOST_ROUGH = 100  # inner steps of a rough stage; where curvature vanishes each gains little, and there is no end
_FROM_HERE, _FROM_DIRECT = 50, 20  # features: exchanges among more take long, and rarely pay
_CANDIDATES, _SHARE = 100, 4  # that may take the place of another feature, or so many times those there are
_WORKING, _EXPENSIVE = 10, 500  # features of a working set, and coordinates of theirs from which on stages take long


def continued(
    problem: Problem,
    start: Iterate,
    direct: Iterate,
    how: How,
    tol: float,
    count: int = 0,
    after: tuple[Stage, Iterate] | None = None,
) -> Iterator[tuple[Stage, Iterate]]:
    """Every stage from the widest to the problem itself, with the iterate at its end.

    None where φ is straight already as far as the direct start reaches, or where no wider problem is sparse.

    Parameters
    ----------
    problem : Problem
    start : Iterate
        The null fit.
    direct : Iterate
        What the direct start reached.
    how : How
        How the problem of a stage is solved.
    tol : float
        How well the problem itself is to be solved.
    count : int
        How many nonzeros there are to be, where that is known; else as many as the direct start has.
    after : (Stage, Iterate), optional
        The last stage that is done already: go on with the next.
    """
    exchanges = count == 0  # else whoever counts does them, and knows more
    doublings, count = _doublings(problem, direct.x), count or _count(problem, direct.x)
    most = _most(count)
    if doublings == 0 or count == 0:
        return
    at = None
    if after is not None:
        stage, at = after
        doublings = _following(problem, at.x, round(math.log2(stage.factor)), stage.n_nonzero, count)
    while doublings >= 0:
        factor = 2.0**doublings
        wider = widened(problem, factor)
        begin = start if at is None else (wider.cut(at.x), at.features)
        steps_here = _iterates(wider, begin, max(tol, _ROUGH), replace(how, most=most if doublings else None))
        at, n_grad = _stage(wider, steps_here, most if doublings else problem.n_features)
        if doublings == 0 and at.psi <= direct.psi + _HOPELESS * (start.psi - direct.psi):
            at, more = _stage(problem, _iterates(problem, replace(at, n_grad=0), tol, how), problem.n_features)
            n_grad += more
        if doublings == 0 and exchanges and at.stop not in CUT_SHORT_STOPS:
            better, more = _exchanged(problem, start, at, direct, how, tol)
            n_grad += more
            at = at if better is None else better
        n_nonzero = _count(problem, at.x)
        yield Stage(factor, at.psi, n_nonzero, n_grad), replace(at, n_grad=n_grad)
        if at.stop in CUT_SHORT_STOPS or how.seconds_left() <= 0:
            return
        doublings = _following(problem, at.x, doublings, n_nonzero, count)


def convex_start(problem: Problem, null: Iterate, how: How, tol: float) -> Iterate:
    """Where to begin: the solution for the convex start of the loss (`Loss.convex_start`), or the null fit.

    Whichever leads lower, and the null fit where ψ has no such loss; at the cost of finding out.
    """
    if problem.objective.convex_start is None:
        return null
    x, n_grad = _convex_solution(replace(problem, objective=problem.objective.convex_start), how, tol)
    n_grad += problem.objective.evaluation_cost
    at = Iterate(x, *problem.objective.value_and_gradient(x), step=null.step)
    (here, more), (there, most) = (
        _stage(problem, _iterates(problem, begin, tol, how), problem.n_features) for begin in (at, null)
    )
    if StopReason.INTERRUPTED in (here.stop, there.stop):
        raise KeyboardInterrupt
    return replace(null if there.psi < here.psi else at, n_grad=n_grad + more + most)


def _convex_solution(convex: Problem, how: How, tol: float) -> tuple[Vector, int]:
    """The lower end of the direct start and of continuation, and the passes that took."""
    null, cost = null_fit(convex, how.seconds_left()), convex.objective.evaluation_cost
    assert null.gradient is not None
    how = replace(how, null=null, gamma=how.subsolver.proximal_weight(convex.objective))
    start = Iterate(null.x, null.psi, null.gradient, step=1 / convex.objective.curvature)
    best, n_grad = _stage(convex, _iterates(convex, start, tol, how), convex.n_features)
    interrupted = best.stop == StopReason.INTERRUPTED
    for stage, at in () if interrupted else continued(convex, start, best, how, tol):
        n_grad, interrupted = n_grad + stage.n_grad, at.stop == StopReason.INTERRUPTED
        best = at if stage.factor == 1 and at.psi < best.psi and convex.is_feasible(at.x) else best
    if interrupted:
        raise KeyboardInterrupt
    return best.x, n_grad + 2 * cost


def _exchanged(
    problem: Problem, start: Iterate, at: Iterate, direct: Iterate, how: How, tol: float
) -> tuple[Iterate | None, int]:
    """A KKT point lower than both ends by exchanges of features, if there is one, and the passes that took.

    A feature costs at most the cap, whatever its size: as many as the level can pay for may be refitted without it, and
    others may take their place. Those that come nearest to being taken in are considered, without a look at the others.
    """
    ends = [
        end for end, most in ((at, _FROM_HERE), (direct, _FROM_DIRECT)) if 0 < _largest(problem, end.x).size <= most
    ]
    possible = isinstance(problem.objective, Model) or (
        isinstance(problem.objective, RemoteObjective) and problem.width == 1
    )
    if not (how.working_sets and ends and possible):
        return None, 0
    few = _largest(problem, ends[-1].x).size <= FEW
    W = _candidates(problem, [*ends, start] if few else ends)
    exchanges = _Exchanges(problem, W, how, tol)
    found, promised = dict[bytes, Fit](), dict[bytes, float]()
    try:
        for end in ends:
            swaps, null, psi = exchanges.at(end)
            chosen = np.searchsorted(W, _largest(problem, end.x)).astype(np.intp)
            near = Fit(np.arange(W.size, dtype=np.intp), end.x[problem.coordinates(W)], psi, null.margins)
            before = swaps.fitted(np.union1d(null.features, chosen).astype(np.intp), near)
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
    if not exchanges.at_hand and found:  # each costs many rounds: the one that promises most is tried
        most = min(promised, key=promised.__getitem__)
        found = {most: found[most]}
    return _lowest(problem, W, found, at, how, tol)


def _lowest(
    problem: Problem, W: Features, found: dict[bytes, Fit], at: Iterate, how: How, tol: float
) -> tuple[Iterate | None, int]:
    """The lowest KKT point from these fits over features of W, if it is lower than `at`, and the passes that took.

    The lowest fit comes first. What the level pays for beyond its features lowers ψ by about as much for the others:
    those that are far above the best point even then are left out.
    """
    best, passes, more = None, 0, math.inf
    for fit in sorted(found.values(), key=lambda fit: fit.psi):
        lowest = (at if best is None else best).psi
        if fit.psi - 2 * more > lowest + _HOPELESS * (how.null.psi - lowest):
            break
        x, features = np.zeros(problem.dimension), W[fit.features]
        x[problem.coordinates(features)] = fit.x
        end, n_grad = _stage(problem, _iterates(problem, (problem.cut(x), features), tol, how), problem.n_features)
        if end.stop == StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        passes, more = passes + n_grad, max(fit.psi - end.psi, 0.0)
        best = end if end.psi < lowest else best
    return best, passes


def _candidates(problem: Problem, ends: list[Iterate]) -> Features:
    """The features of these points, and those nearest to being taken in at each."""
    W = problem.exempt
    for end in ends:
        most = min(max(_CANDIDATES, _SHARE * _count(problem, end.x)), problem.n_features // 2)
        nearest = np.argsort(-problem.sizes(in_units(problem, end.gradient)), kind="stable")[:most]
        W = np.union1d(W, np.union1d(nearest, problem.support(end.x)))
    return W.astype(np.intp)


class _Exchanges:
    """Exchanges among the features in W: on ψ itself where its data are at hand, else on its second-order models."""

    def __init__(self, problem: Problem, W: Features, how: How, tol: float) -> None:
        self.W, self.how, self.tol = W, how, tol
        self.part, self.at_hand = problem.restrict(W), isinstance(problem.objective, Model)
        self.x = how.null.x[problem.coordinates(problem.exempt)]
        if self.at_hand:
            self.swaps = self._begun(self.part, self.x, how.null.psi, how)
            self.null = self.swaps.best

    def at(self, end: Iterate) -> tuple[Swaps, Fit, float]:
        """What makes exchanges at this end, the null fit it begins with, and ψ of the end as it sees it."""
        if self.at_hand:
            return self.swaps, self.null, end.psi
        model = cast(RemoteObjective, self.part.objective).second_order(end.x[self.W], end.gradient[self.W])
        small = replace(self.part, objective=model)
        null = null_fit(small, self.how.seconds_left())
        swaps = self._begun(small, null.x[small.exempt], null.psi, replace(self.how, null=null))
        return swaps, swaps.best, model.value_of(model.margins(end.x[self.W]))

    def _begun(self, part: Problem, x: Vector, psi: float, how: How) -> Swaps:
        margins = cast(Model, part.objective).restrict(part.exempt).margins(x)
        return Swaps(part, Fit(part.exempt, x, psi, margins), how.null, self.tol * how.null.scale, how)


def _without_the_first(swaps: Swaps, null: Fit, count: int) -> Fit:
    """Of few features the first one taken in may decide too much: as many without it."""
    first = forward(swaps, null, 1)
    chosen = forward(swaps, null, count, without=int(first[0])) if first.size else first
    return swaps.fitted(np.union1d(null.features, chosen).astype(np.intp), null)


def _largest(problem: Problem, x: Vector) -> Features:
    """The largest features, as many as the level can pay for at the cap."""
    sizes = problem.sizes(x)
    support = problem.counted(problem.support(x))
    largest: Features = support[np.argsort(-sizes[support], kind="stable")][: affordable(problem)]
    return largest


def is_expensive(problem: Problem) -> bool:
    """Return whether stages take long: with many classes, models over a few features have many coordinates.

    A stage solves tens of models, and each takes hundreds of products with a matrix of that order.
    """
    return problem.width > 1 and problem.width * min(problem.n_features, _WORKING) > _EXPENSIVE


def continues(start: str, problem: Problem) -> bool:
    """Return whether a start, "auto" or by name, is to go by way of wider problems."""
    by_name = start == "continuation"
    return start != "direct" and problem.constraint.lipschitz > 0 and (by_name or not is_expensive(problem))


def affordable(problem: Problem) -> int:
    """How many features the level can pay for at the cap; none where one may cost more than another."""
    weights, cap = problem.weights, problem.constraint.cap
    counted = np.ones(1) if weights is None else weights[weights > 0]
    if not (math.isfinite(problem.constraint.threshold) and counted.size and np.ptp(counted) == 0):
        return 0
    cost = cap * float(counted[0])
    return int(min(problem.level / cost, problem.n_features)) if cost > 0 else 0


def widened(problem: Problem, factor: float) -> Problem:
    """The problem with φ(t/c) for φ(t), at the level that means the same there."""
    if factor == 1:
        return problem
    constraint = Widened(problem.constraint, factor)
    return replace(problem, constraint=constraint, level=constraint.level_of(problem.level))


def _stage(problem: Problem, steps: Iterator[Iterate], most: int) -> tuple[Iterate, int]:
    """The end of a stage: its rough solution, or the first point with more nonzeros than there may be."""
    n_grad = 0
    for at in steps:
        n_grad += at.n_grad
        if _count(problem, at.x) > most:
            break
    return at, n_grad


def _iterates(
    problem: Problem, begin: Iterate | tuple[Vector, Features | None], tol: float, how: How
) -> Iterator[Iterate]:
    """LCPP from an iterate, or from a point and the working set to try first, until the residual is at most tol."""
    tolerance, objective = tol * how.null.scale, problem.objective
    if isinstance(begin, Iterate):
        at = replace(begin, n_grad=0)
    elif begin[1] is not None:
        at = resumed(problem, begin[0], begin[1], tolerance, how).at
    else:
        at = Iterate(begin[0], *objective.value_and_gradient(begin[0]), n_grad=objective.evaluation_cost)
        at = replace(at, step=1 / objective.curvature)
    yield at
    following, inner = steps(problem, at, repeat(problem.level), tol, how), 0
    for _ in range(_MOST_STEPS):
        done = distance(problem, at.x, at.psi, at.gradient, how.null)[0] <= tolerance
        if done or at.stop in CUT_SHORT_STOPS or how.seconds_left() <= 0 or (tol >= _ROUGH and inner >= _MOST_ROUGH):
            return
        last, (_, at) = at, next(following)
        inner += at.n_inner
        yield at
        if relative_change(last.x, at.x) <= tol and not how.working_sets:
            return


def _following(problem: Problem, x: Vector, doublings: int, n_nonzero: int, count: int) -> int:
    """The stage after this one, negative after the last: the next whose level x does not obey.

    Those in between would leave x where it is. Once there are no more nonzeros than at the end, the next stages would
    change little, and the last one follows.
    """
    if n_nonzero <= count:
        return min(doublings - 1, 0)
    doublings -= 1
    while doublings > 0:
        wider = widened(problem, 2.0**doublings)
        if wider.g(x) > wider.level:
            break
        doublings -= 1
    return doublings


def _most(count: int) -> int:
    """How many nonzeros a stage may have where there are to be so many at the end.

    More show more of what might be better. But many separate classes, or interpolate: then each model of a stage is
    nearly singular, takes long, and tells features apart no better.
    """
    return max(_FEW, 2 * count, min(4 * count, _MANY))


def _doublings(problem: Problem, x: Vector) -> int:
    """How often φ must be widened twofold to be straight as far as x reaches."""
    sizes = problem.sizes(x)
    largest = float(np.max(sizes if problem.weights is None else sizes[problem.weights > 0], initial=0.0))
    straight = _STRAIGHT * problem.constraint.lam
    for doublings in range(_WIDEST):
        if float(problem.constraint.slope(math.ldexp(largest, -doublings))) >= straight:
            return doublings
    return _WIDEST


def _count(problem: Problem, x: Vector) -> int:
    """The features that count and are not zero."""
    return problem.counted(np.flatnonzero(x if problem.width == 1 else problem.sizes(x))).size
