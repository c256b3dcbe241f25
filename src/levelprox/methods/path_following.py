"""Path following: solutions at fixed levels, the rungs of a ladder, from which the requested levels start.

The ladder is climbed from the null model. A solution satisfies every larger level, so x, the working set, its columns
and its Hessian start the next rung, and most rungs cost one full gradient pass. A requested level is
solved from the highest rung below it, and from the one above if that seems better; rungs do not depend on the request,
so neither does the answer at a level.

Where the constraint is not convex, a ladder that is climbed may not have the best KKT points. So

1. at every rung features are swapped for the candidates nearest to them (`Candidates`), with few tries;
2. the last rung of every block is solved by continuation, too; where that is better, it replaces what was there, and
   the others of the block are solved from there, downward, for as long as that is better: the features that cost least
   are left out, and others swapped. Blocks have four rungs; two, where the last continuation paid, and from 24 features
   on a fit of its own at their end.

Where features have the same cost and it has a cap, rungs are at multiples of it: a rung is a number of features. Others
are at powers of √2.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Generator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from levelprox._runtime import TimeLimitError, interrupted, interruptible
from levelprox._typing import Vector
from levelprox.certificate import Certificate, assemble
from levelprox.certificate.null_model import null_fit_in_time
from levelprox.methods import Context, Method
from levelprox.methods.continuation import MOST_DOUBLINGS, affordable, continued, most_nonzeros
from levelprox.methods.ladder import LONGEST_BLOCK, Candidates, are_few, rungs_of
from levelprox.methods.lcpp import surrogate_by_name
from levelprox.methods.level_options import LevelOptions
from levelprox.methods.negligible import without_negligible
from levelprox.methods.restricted import SolverOptions
from levelprox.methods.subsolvers import choose
from levelprox.methods.working_set import Tracker
from levelprox.problem import Problem
from levelprox.result import Iterate, Result, Status, StopReason

LOWER_SHARE = 1e-7  # of ψ: less is not better
MAX_GRADIENT_PASSES = 50  # at one level
_SHORTEST_BLOCK = 2  # rungs, where continuation pays
_PAYS = 1e-3  # of ψ: what continuation must gain for the next block to be shorter
_WHOLE_FITS = 24  # features, from which on the last rung of a short block is a fit of its own
_ROUGH = 1e-3  # tol of the continuation; the solution of the rung follows
_UP, _DOWN = "up", "down"  # the trackers that follow the ladder; others have stayed at a rung

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
        support = np.flatnonzero(x)
        row = x[support], support, np.array([0, support.size])
        return cls(scipy.sparse.csr_array(row, (1, x.size)), certificate, status)

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
    """Climb a ladder of fixed levels on working sets, and solve each requested level from the rung below it.

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
        self.trackers: dict[str, Tracker] = {}
        last = problem[-1]
        subsolver, self.null = choose("auto", last.objective), null_fit_in_time(last, ctx.seconds_left())
        gamma, surrogate = subsolver.proximal_weight(last.objective), surrogate_by_name("concave")
        self.how = SolverOptions(self.null, ctx.seconds_left, subsolver, gamma, surrogate)
        self.n_grad = 2 if last.unpenalized.size else 1
        self.candidates = Candidates(self.how, self.tol * self.null.scale)
        self.solutions: list[Solution | None] = [None] * len(problem)
        return self.solutions

    def steps(self, state: list[Solution | None], ctx: Context) -> Steps:
        """Climb the ladder a block of rungs at a time, and solve the levels above each rung once it is final."""
        null, last = self.null, self.problems[-1]
        if not null.examined:
            return
        assert null.gradient is not None
        self.start = Iterate(null.x, null.psi, null.gradient, step=1 / last.objective.curvature)
        self._set_up(list(rungs_of(last, null.gradient, in_blocks=self.continuation)))
        yield from self._answered(-1)
        begin = 0
        while begin < len(self.rungs) and self.lowest[begin] <= last.level:
            size = self.size if self.continuation else 1
            yield from self._climb(range(begin, min(begin + size, len(self.rungs))))
            block = range(begin, min(begin + size, len(self.rungs)))
            if self.continuation and len(block) == size:
                yield from self._from_above(block)
            for i in block:
                yield from self._answered(i)
            begin += size

    def finish(self, state: list[Solution | None], status: Status, ctx: Context) -> Found:
        """Return the levels that were reached, with coefficients set to zero that tol cannot distinguish from zero."""
        if not any(self.solutions) and (status is Status.INTERRUPTED or interrupted()):
            raise KeyboardInterrupt
        if not self.null.examined:
            return [], 0
        with suppress(TimeLimitError), interruptible():
            self._leave_out_negligible()
        return [(p, s) for p, s in zip(self.problems, self.solutions, strict=True) if s is not None], self.n_grad

    def memory(self) -> dict[str, Any] | None:
        """Return the trackers, the candidates and the counts; None once there is no time left."""
        if self.ctx.cut_short:
            return None
        trackers = {name: tracker.as_state() for name, tracker in self.trackers.items()}
        others = {"candidates": self.candidates.as_state(), "most_doublings": self.most_doublings}
        return {"n_grad": self.n_grad, "trackers": trackers, **others}

    def restore(self, memory: dict[str, Any]) -> None:
        """Continue from what `memory` returned."""
        self.n_grad, self.most_doublings = memory["n_grad"], memory["most_doublings"]
        self.candidates.take(memory["candidates"], self.problems[-1])
        self.trackers = {name: self._tracker_at_null() for name in memory["trackers"]}
        for name, tracker in self.trackers.items():
            tracker.take(memory["trackers"][name])

    def _set_up(self, rungs: list[tuple[float, float]]) -> None:
        """Take the lowest level that starts from each rung, and the level of the rung itself."""
        self.lowest = [low for low, _ in rungs]
        self.rungs = [self.problems[-1].at_level(level) for _, level in rungs]
        self.best: list[Solution | None] = [None] * len(rungs)
        self.below = [bisect_right(self.lowest, problem.level) - 1 for problem in self.problems]
        self.size = LONGEST_BLOCK
        self.most_doublings = MOST_DOUBLINGS

    def _tracker_at_null(self) -> Tracker:
        return Tracker(self.problems[0], self.start, self.how)

    # Units of work: all that they leave behind, besides their results, is in `memory`.

    def _climb(self, block: range) -> Steps:
        """Solve one rung after another; the ladder ends where the level is no longer active."""
        for i in block:
            self.ctx.check()
            self.best[i] = found = self.ctx.once(partial(self._next_rung, i, block[0]))
            yield self.solutions
            if found.status is Status.SOLVED and not found.certificate.active:
                del self.rungs[i + 1 :]
                self.below = [min(rung, i) for rung in self.below]
                return

    def _from_above(self, block: range) -> Steps:
        """Solve the last rung by continuation; where that is better, solve the others from there, downward."""
        for way, i in ((self._by_continuation, block[-1]), *((self._lower_rung, i) for i in reversed(block[:-1]))):
            self.ctx.check()
            found, known = self.ctx.once(partial(way, i)), self.best[i]
            yield self.solutions
            if i == block[-1]:
                assert known is not None
                pays = found is not None and found.psi < known.psi - _PAYS * abs(known.psi)
                self.size = max(self.size // 2, _SHORTEST_BLOCK) if pays else min(2 * self.size, LONGEST_BLOCK)
            if found is None:
                return
            self.best[i] = found

    def _answered(self, i: int) -> Steps:
        """Solve the levels that start from a rung; from the null model, for −1."""
        for j, rung in enumerate(self.below):
            if rung == i:
                self.ctx.check()
                self.solutions[j] = self.ctx.once(partial(self._answer, self.problems[j], i))
                yield self.solutions

    def _next_rung(self, i: int, begin: int) -> Solution:
        if i == begin:
            self.trackers = {_UP: self.trackers[_UP] if i else self._tracker_at_null()}
        solution = self._rung(self.trackers[_UP], i)
        self.trackers[str(i)] = copy(self.trackers[_UP])
        return solution

    def _by_continuation(self, i: int) -> Solution | None:
        """Return the solution of a rung by way of wider problems from the null model, if that is better."""
        problem, known = self.rungs[i], self.best[i]
        assert known is not None
        few = affordable(problem) < _WHOLE_FITS or self.size == LONGEST_BLOCK
        end = self._by_stages(problem, known) if few else self._whole_fit(problem)
        if end is None or (end.psi > known.psi and not are_few(problem, end.x, affordable(problem))):
            return None
        tracker = Tracker(problem, end, self.how)
        solution = self._rung(tracker, i)
        if not self._is_better(i, solution):
            return None
        for name in (_UP, _DOWN, str(i)):
            self.trackers[name] = copy(tracker)
        return solution

    def _by_stages(self, problem: Problem, known: Solution) -> Iterate | None:
        """Return the end of a rough continuation; None if there are no stages.

        Factors begin with twice the first one that had few nonzeros at an earlier rung.
        """
        direct, sparse = Iterate(known.dense, known.psi, np.empty(0)), list[float]()
        count, end = problem.counted(problem.support(direct.x)).size, None
        settings = direct, self.how, max(self.tol, _ROUGH), count
        for stage, end in continued(problem, self.start, *settings, most_doublings=self.most_doublings):
            self.n_grad += stage.n_grad
            if end.stop == StopReason.INTERRUPTED:
                raise KeyboardInterrupt
            if stage.n_nonzero <= most_nonzeros(count):
                sparse.append(stage.factor)
        if sparse and sparse[0] > 1:
            self.most_doublings = round(math.log2(sparse[0])) + 1
        return end

    def _whole_fit(self, problem: Problem) -> Iterate:
        """Return the end of a fit of its own, with swaps from both its ends."""
        method = LevelOptions(tol=self.tol, start="continuation").method(problem, self.ctx.rng)
        result: Result = self.ctx.run("continuation", method, problem, method.max_iter)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        self.n_grad += result.n_grad + problem.objective.evaluation_cost
        step = 1 / problem.objective.curvature
        return Iterate(result.x, *problem.objective.value_and_gradient(result.x), step=step)

    def _lower_rung(self, i: int) -> Solution | None:
        """Return the solution of a rung from the one above, if that is better."""
        solution = self._rung(self.trackers[_DOWN], i)
        if not self._is_better(i, solution):
            return None
        self.trackers[str(i)] = copy(self.trackers[_DOWN])
        return solution

    def _answer(self, problem: Problem, i: int) -> Solution:
        tracker = self._tracker_at_null() if i < 0 else copy(self.trackers[str(i)])
        at = self._counted(tracker.at_level(problem.level, self.tol, MAX_GRADIENT_PASSES))
        if i + 1 < len(self.rungs) and str(i + 1) in self.trackers:
            above = copy(self.trackers[str(i + 1)])
            psi = at.psi - LOWER_SHARE * abs(at.psi)
            other, looks = above.below(psi, problem.level, self.tol, MAX_GRADIENT_PASSES)
            if other is not None:
                other = self._counted((other, looks))
                at = other if other.psi < at.psi else at
        return self._judged(problem, at)

    def _leave_out_negligible(self) -> None:
        """Set coefficients that cannot be seen to zero, where a level is solved."""
        for j, (problem, solution) in enumerate(zip(self.problems, self.solutions, strict=True)):
            if solution is None or solution.status is not Status.SOLVED:
                continue
            x, known = solution.dense, (solution.certificate.kkt, solution.certificate.multiplier)
            found = without_negligible(problem, x, self.tol, self.how, known=known, psi=solution.psi)
            self.n_grad += found.n_grad
            if found.x is not x:
                certificate = assemble(problem, found.x, *found.evaluated(problem.objective), self.null)
                self.solutions[j] = Solution.at(found.x, certificate, solution.status)

    def _rung(self, tracker: Tracker, i: int) -> Solution:
        """Return the solution of a rung from that of another."""
        problem, at = self.rungs[i], None
        if self.continuation and problem.level < tracker.problem.level:
            at = self._lowered(tracker, problem)
        if at is None:
            at = self._counted(tracker.at_level(problem.level, self.tol, MAX_GRADIENT_PASSES))
            x = self.candidates.after_swaps(problem, at) if self.continuation else None
            if x is not None:
                at = self._counted(tracker.moved(problem.level, x, self.tol, MAX_GRADIENT_PASSES))
        return self._judged(problem, at)

    def _judged(self, problem: Problem, at: Iterate) -> Solution:
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

    def _is_better(self, i: int, found: Solution) -> bool:
        known = self.best[i]
        return known is None or found.psi < known.psi - LOWER_SHARE * abs(known.psi)


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
