"""Path following: one problem at rising levels, each solved from the last one's solution.

A solution for η satisfies every larger level, so levels are run upward: x, the working set, its columns and its Hessian
start the next level, and most levels cost one full gradient pass.

Where the constraint is not convex, the path that is followed upward may not have the best KKT points. So

1. at every level features are swapped for the candidates nearest to them (`Candidates`), with few tries;
2. at a few levels, the largest first and then halfway between the others, the problem is solved by continuation, too;
   where that is better, it replaces what was there, and the path is followed from there, upward and downward, for as
   long as it is better. Downward the features that cost least are left out, and others swapped.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from levelprox._runtime import TimeLimitError, interrupted, interruptible
from levelprox._typing import Features, Vector
from levelprox.certificate import Certificate, assemble
from levelprox.certificate.null_model import null_fit_in_time
from levelprox.methods import Context, Method
from levelprox.methods.continuation import affordable
from levelprox.methods.lcpp import surrogate_by_name
from levelprox.methods.level_options import LevelOptions
from levelprox.methods.negligible import without_negligible
from levelprox.methods.restricted import SolverOptions
from levelprox.methods.subsolvers import choose
from levelprox.methods.working_set import Tracker
from levelprox.objectives import Model
from levelprox.problem import FeatureProblem, Problem
from levelprox.result import Iterate, Result, Status, StopReason
from levelprox.subset.fit import Fit
from levelprox.subset.refit import ROUGH_ACCURACY
from levelprox.subset.swap_bounds import costs
from levelprox.subset.swaps import SwapSearch

ANCHORS = 4  # levels at which the problem is solved by continuation, too
LOWER_SHARE = 1e-7  # of ψ: less is not better
MAX_GRADIENT_PASSES = 50  # at one level
_NEAREST = 100  # features outside the solution that are candidates
_CLOSEST = 20  # of them: where one of these is not among the candidates, they are chosen again
_MOSTLY = 1.5  # times the features that the level can pay for at the cap: with more, most are below the threshold
_TRIES = 3  # that may fail, before the next level

Steps = Generator["list[Solution | None]", None, None]


@dataclass(frozen=True, eq=False)
class Solution:
    """A point with what is known of it; its gradient is not kept."""

    x: scipy.sparse.csr_array
    certificate: Certificate
    status: Status

    @classmethod
    def at(cls, x: Vector, certificate: Certificate, status: Status) -> Solution:
        """Return the solution at a point."""
        return cls(scipy.sparse.csr_array(x[None]), certificate, status)

    @property
    def psi(self) -> float:
        """ψ at the solution."""
        return self.certificate.psi

    @property
    def dense(self) -> Vector:
        """The point as a dense array."""
        return np.asarray(self.x.todense(), np.float64).ravel()


Reached = list[tuple[Problem, Solution]]
Found = tuple[Reached, int]  # with the passes over all features that it took


class PathFollowing(Method["list[Solution | None]"]):
    """Follow a path of levels upward on working sets, and better points from where they were found.

    The state is the list of solutions by level; `finish` returns those that there are, with the gradient passes.

    Parameters
    ----------
    tol : float
        On the KKT residual of each level.
    continuation : bool
        Whether to try for better KKT points.
    """

    replays = True

    def __init__(self, tol: float, continuation: bool) -> None:
        self.tol, self.continuation = tol, continuation

    def init(self, problem: list[Problem], ctx: Context) -> list[Solution | None]:
        """Take the problems, the same one at rising levels, and fit the null model."""
        self.problems, self.ctx = problem, ctx
        self.tracker: Tracker | None = None
        last = problem[-1]
        subsolver, self.null = choose("auto", last.objective), null_fit_in_time(last, ctx.seconds_left())
        gamma, surrogate = subsolver.proximal_weight(last.objective), surrogate_by_name("concave")
        self.how = SolverOptions(self.null, ctx.seconds_left, subsolver, gamma, surrogate)
        self.n_grad = 2 if last.unpenalized.size else 1
        self.candidates = Candidates(self.how, self.tol * self.null.scale)
        self.best: list[Solution | None] = [None] * len(problem)
        return self.best

    def steps(self, state: list[Solution | None], ctx: Context) -> Steps:
        """Follow the path upward, then from a few levels that are solved by continuation."""
        null = self.null
        if not null.examined:
            return
        assert null.gradient is not None
        start = Iterate(null.x, null.psi, null.gradient, step=1 / self.problems[0].objective.curvature)
        everything = range(len(self.problems))
        yield from self._follow(Tracker(self.problems[0], start, self.how), everything, swaps=self.continuation)
        for i in _halfway(len(self.problems), ANCHORS) if self.continuation else ():
            ctx.check()
            yield from self._anchor(i)

    def finish(self, state: list[Solution | None], status: Status, ctx: Context) -> Found:
        """Return the levels that were reached, with coefficients set to zero that tol cannot distinguish from zero."""
        if self.best[0] is None and (status is Status.INTERRUPTED or interrupted()):
            raise KeyboardInterrupt
        if not self.null.examined:
            return [], 0
        with suppress(TimeLimitError), interruptible():
            self._level_out()
            self._leave_out_negligible()
        return [(p, s) for p, s in zip(self.problems, self.best, strict=True) if s is not None], self.n_grad

    def memory(self) -> dict[str, Any] | None:
        """Return the tracker, the candidates and the counts; None once there is no time left."""
        if self.ctx.cut_short:
            return None
        tracker = None if self.tracker is None else self.tracker.as_state()
        return {"n_grad": self.n_grad, "tracker": tracker, "candidates": self.candidates.as_state()}

    def restore(self, memory: dict[str, Any]) -> None:
        """Continue from what `memory` returned."""
        self.n_grad = memory["n_grad"]
        self.candidates.take(memory["candidates"], self.problems[-1])
        if self.tracker is not None and memory["tracker"] is not None:
            self.tracker.take(memory["tracker"])

    def _by_continuation(self, problem: Problem) -> Solution:
        method = LevelOptions(tol=self.tol, start="continuation").method(problem, self.ctx.rng)
        result: Result = self.ctx.run("continuation", method, problem, method.max_iter)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        self.n_grad += result.n_grad
        return Solution.at(result.x, result.certificate, result.status)

    def _anchor(self, i: int) -> Steps:
        """Solve level i by continuation; where that is better, follow the path from there, upward and downward."""
        self.tracker = None
        solution = self.ctx.once(lambda: self._by_continuation(self.problems[i]))
        if not self._is_better(i, solution):
            return
        self.best[i] = solution
        start = self._at(i)
        for others in (range(i + 1, len(self.problems)), range(i - 1, -1, -1)):
            yield from self._follow(Tracker(self.problems[i], start, self.how), others, swaps=True)

    def _level_out(self) -> None:
        """Use the solution of a lower level for the next one if it is better there: ψ never increases."""
        for i in range(1, len(self.problems)):
            below = self.best[i - 1]
            if self.best[i] is None or below is None:
                return
            if self._is_better(i, below):
                self.tracker = tracker = Tracker(self.problems[i - 1], self._at(i - 1), self.how)
                self.best[i] = self.ctx.once(partial(self._solved, tracker, self.problems[i], swaps=False))

    def _leave_out_negligible(self) -> None:
        """Set coefficients that cannot be seen to zero, where a level is solved."""
        for i, (problem, solution) in enumerate(zip(self.problems, self.best, strict=True)):
            if solution is None or solution.status is not Status.SOLVED:
                continue
            x, known = solution.dense, (solution.certificate.kkt, solution.certificate.multiplier)
            found = without_negligible(problem, x, self.tol, self.how, known=known)
            self.n_grad += found.n_grad
            if found.x is not x:
                certificate = assemble(problem, found.x, *found.evaluated(problem.objective), self.null)
                self.best[i] = Solution.at(found.x, certificate, solution.status)

    def _at(self, i: int) -> Iterate:
        """Return the solution at level i with ψ and its gradient, as a start for the next level."""
        problem, solution = self.problems[i], self.best[i]
        assert solution is not None
        x = solution.dense
        self.n_grad += 1
        return Iterate(x, *problem.objective.value_and_gradient(x), step=1 / problem.objective.curvature)

    def _follow(self, tracker: Tracker, order: range, swaps: bool) -> Steps:
        """Solve one level after another, for as long as that is better than what is there."""
        self.tracker = tracker
        for i in order:
            self.ctx.check()
            solution = self.ctx.once(partial(self._solved, tracker, self.problems[i], swaps))
            if not self._is_better(i, solution):
                return
            self.best[i] = solution
            yield self.best

    def _solved(self, tracker: Tracker, problem: Problem, swaps: bool) -> Solution:
        at = self._lowered(tracker, problem) if swaps and problem.level < tracker.problem.level else None
        if at is None:
            at = self._counted(tracker.at_level(problem.level, self.tol, MAX_GRADIENT_PASSES))
            x = self.candidates.after_swaps(problem, at) if swaps else None
            if x is not None:
                at = self._counted(tracker.moved(problem.level, x, self.tol, MAX_GRADIENT_PASSES))
        certificate = assemble(problem, at.x, at.psi, at.gradient, self.null)
        status = Status.SOLVED if certificate.kkt <= self.tol else Status.MAX_ITER
        if status is not Status.SOLVED and self.ctx.seconds_left() <= 0:
            status = Status.TIME_LIMIT
        return Solution.at(at.x, certificate, status)

    def _lowered(self, tracker: Tracker, problem: Problem) -> Iterate | None:
        """Return the solution at a lower level after removing features; None if none need be removed."""
        had = affordable(tracker.problem)
        x = self.candidates.after_swaps(problem, tracker.state.at, had) if had > affordable(problem) else None
        return None if x is None else self._counted(tracker.moved(problem.level, x, self.tol, MAX_GRADIENT_PASSES))

    def _counted(self, found: tuple[Iterate, int]) -> Iterate:
        at, looks = found
        self.n_grad += looks
        if at.stop == StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        return at

    def _is_better(self, i: int, solution: Solution) -> bool:
        known = self.best[i]
        return known is None or solution.psi < known.psi - LOWER_SHARE * abs(known.psi)


class LevelByLevel(Method[Reached]):
    """For objectives without second-order models: each level is warm-started, and solved again by continuation.

    Parameters
    ----------
    tol : float
    start : {"auto", "continuation", "direct"}
    """

    replays = True

    def __init__(self, tol: float, start: str) -> None:
        self.tol, self.start = tol, start

    def init(self, problem: list[Problem], ctx: Context) -> Reached:
        """Take the problems, the same one at rising levels."""
        self.problems, self.ctx = problem, ctx
        self.found: Reached = []
        self.n_grad = 0
        return self.found

    def steps(self, state: Reached, ctx: Context) -> Generator[Reached, None, None]:
        """Solve one level after another."""
        for problem in self.problems:
            ctx.check()
            solution, n_grad = ctx.once(partial(self._solved, problem))
            self.n_grad += n_grad
            self.found.append((problem, solution))
            yield self.found

    def finish(self, state: Reached, status: Status, ctx: Context) -> Found:
        """Return the levels that were reached, and the gradient passes."""
        if status is Status.INTERRUPTED and not self.found:
            raise KeyboardInterrupt
        return self.found, self.n_grad

    def memory(self) -> dict[str, Any] | None:
        """Return nothing but whether the last level is complete."""
        return None if self.ctx.cut_short else {}

    def _solved(self, problem: Problem) -> tuple[Solution, int]:
        starts: dict[str, LevelOptions] = {}
        if self.found:
            starts["carried"] = LevelOptions(tol=self.tol, x0=self.found[-1][1].dense)
        if not self.found or self.start != "direct":
            starts["anew"] = LevelOptions(tol=self.tol, start=self.start)
        results = list[Result]()
        for name, options in starts.items():
            method = options.method(problem, self.ctx.rng)
            results.append(self.ctx.run(name, method, problem, method.max_iter))
        if any(result.status is Status.INTERRUPTED for result in results):
            raise KeyboardInterrupt
        best = min(results, key=lambda result: result.psi)
        return Solution.at(best.x, best.certificate, best.status), sum(result.n_grad for result in results)


def _halfway(m: int, most: int) -> Iterator[int]:
    """Return the last of m places, then repeatedly the middle of the widest gap between those before."""
    taken = [-1, m - 1]
    yield m - 1
    for _ in range(min(most, m) - 1):
        gap, place = max((b - a, -a) for a, b in zip(sorted(taken)[:-1], sorted(taken)[1:], strict=True))
        if gap < 2:
            return
        middle = -place + gap // 2
        taken.append(middle)
        yield middle


class Candidates:
    """The features nearest to being taken in, with their columns.

    Parameters
    ----------
    how : SolverOptions
    tolerance : float
        How well each set is fitted: on ‖∇ψ‖∞ over its features.
    """

    def __init__(self, how: SolverOptions, tolerance: float) -> None:
        self.how, self.tolerance = how, tolerance
        self.features, self.settled = np.empty(0, np.intp), np.empty(0, np.intp)
        self.swaps: SwapSearch | None = None

    def as_state(self) -> dict[str, Any]:
        """Return the state of the candidates as plain data, without their columns."""
        swaps = None if self.swaps is None else self.swaps.as_state()
        return {"features": self.features, "settled": self.settled, "swaps": swaps}

    def take(self, state: dict[str, Any], problem: Problem) -> None:
        """Go on from what `as_state` gave."""
        self.features, self.settled, self.swaps = state["features"], state["settled"], None
        if state["swaps"] is not None:
            self.swaps = self._among(problem, state["swaps"]["best"])
            self.swaps.take(state["swaps"])

    def after_swaps(self, problem: Problem, at: Iterate, had: int = 0) -> Vector | None:
        """Return a better feasible point with features removed and swapped; None if few trials find none.

        As many features as the level allows at the cap are refitted, of any size. `at` has its gradient and need not
        satisfy the level; with a larger number `had`, so many of its features are tried, and those with the least cost
        are left out.
        """
        most, sizes = affordable(problem), problem.sizes(at.x)
        if not (most and isinstance(problem.objective, Model)):
            return None
        support = problem.counted(np.flatnonzero(sizes))
        chosen = support[np.argsort(-sizes[support], kind="stable")][: max(most, had)]
        chosen = np.union1d(chosen, problem.unpenalized).astype(np.intp)
        few = 0 < support.size <= _MOSTLY * max(most, had) + 1  # else refits, which leave out the level, say little
        if not few or (had <= most and np.array_equal(chosen, self.settled)):
            return None
        try:
            return self._improved(problem, at, chosen, most)
        except TimeoutError:
            return None

    def _improved(self, problem: Problem, at: Iterate, chosen: Features, most: int) -> Vector | None:
        swaps = self._around(problem, at, chosen)
        begin = swaps.fitted(np.searchsorted(self.features, chosen).astype(np.intp), self._fit(problem, at.x))
        kept = _dearest(swaps.problem, begin, most)
        before = begin if kept.size == begin.features.size else swaps.fitted(kept, begin)
        after = swaps.improved(before)
        self.settled = self.features[after.features]
        if after is begin and not after.psi < at.psi:
            return None
        return problem.cut(problem.spread(self.settled, after.x))

    def _around(self, problem: Problem, at: Iterate, chosen: Features) -> SwapSearch:
        """Swap features among the chosen features and those outside with the largest gradients."""
        size = problem.sizes(at.gradient).copy()
        size[chosen] = np.inf
        nearest = np.argsort(-size, kind="stable")[: chosen.size + _NEAREST]
        if self.swaps is None or not np.all(np.isin(nearest[: chosen.size + _CLOSEST], self.features)):
            self.features = np.sort(nearest)
            self.swaps = self._among(problem, self._fit(problem, at.x))
        return self.swaps

    def _among(self, problem: Problem, start: Fit) -> SwapSearch:
        part = problem.restrict(self.features)
        swaps = SwapSearch(part, start, self.how.null, self.tolerance, self.how, tries=_TRIES)
        swaps.accuracy = ROUGH_ACCURACY  # the solution at the level follows
        return swaps

    def _fit(self, problem: Problem, x: Vector) -> Fit:
        """Return the candidates' part of a point, as the start of a refit."""
        x = x[problem.coordinates(self.features)]
        inside = np.flatnonzero(problem.sizes(x))
        return Fit(inside, x[problem.coordinates(inside)], np.inf, np.empty(0))


def _dearest(part: FeatureProblem, fit: Fit, most: int) -> Features:
    """Return the features of a fit without those that cost least to remove, so that `most` penalized ones are left."""
    surplus = part.counted(fit.features).size - most
    if surplus <= 0:
        return fit.features
    return np.delete(fit.features, np.argsort(costs(part, fit), kind="stable")[:surplus])
