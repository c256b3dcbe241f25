"""One problem at rising levels, each solved from the last one's solution.

A solution for η obeys every larger level, so levels are run upward: x, the working set, its columns and its Hessian are
carried from one to the next, and most levels cost one look at all features.

Where the constraint is not convex, what is carried upward may not be the best KKT point there is. So

1. at every level features are exchanged among the candidates nearest to them (`candidates.py`): few tries;
2. at a few levels, the largest first and then halfway between the others, the problem is solved by continuation, too;
   where that is better, it replaces what was there, and is carried on from there, upward and downward, for as long as
   it is better. Downward the features that cost least are left out, and others exchanged.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import scipy.sparse

from levelprox._runtime.deadline import TimeLimitError, end_now, interrupted, interruptible
from levelprox._solve import solve
from levelprox.certificate import Certificate, assemble
from levelprox.certificate.null_model import null_fit_in_time
from levelprox.driver.checkpoint import Journal
from levelprox.driver.replay import pieces_of
from levelprox.methods.continuation import affordable
from levelprox.methods.negligible import without_negligible
from levelprox.methods.path_swaps import Candidates
from levelprox.methods.restricted import How
from levelprox.methods.subsolvers import choose
from levelprox.methods.surrogate import surrogate_by_name
from levelprox.methods.working_set import Tracker
from levelprox.problem import Problem
from levelprox.result import Iterate, Result, Status

_ANCHORS = 4  # levels at which the problem is solved by continuation, too
_LOWER = 1e-7  # of ψ: less is not better
_MOST_LOOKS = 50


@dataclass(frozen=True, eq=False)
class Solution:
    """A point with what is known of it; its gradient is not kept."""

    x: scipy.sparse.csr_array
    certificate: Certificate
    status: Status

    @property
    def psi(self) -> float:
        return self.certificate.psi


Found = tuple[list[tuple[Problem, Solution]], int]  # with the passes over all features that it took


class Levels:
    """Levels run upward on working sets, and better points carried on from where they were found.

    Parameters
    ----------
    problems : list of Problem
        The same one at rising levels.
    tol, seconds : float
        On the KKT residual of each, and for all of them together.
    journal : Journal
        Of what is found, to go on from.
    """

    def __init__(self, problems: list[Problem], tol: float, seconds: float, journal: Journal) -> None:
        self.problems, self.tol, self.seconds, self.began = problems, tol, seconds, time.monotonic()
        self.journal, self.pieces = journal, pieces_of(journal, self.as_state, self.take)
        self.tracker: Tracker | None = None
        problem = problems[-1]
        subsolver, self.null = choose("auto", problem.objective), null_fit_in_time(problem, seconds)
        gamma, surrogate = subsolver.proximal_weight(problem.objective), surrogate_by_name("concave")
        self.how = How(subsolver, gamma, surrogate, self.null, self._left, None)
        self.n_grad = 2 if problem.exempt.size else 1
        self.candidates = Candidates(self.how, tol * self.null.scale)
        self.best: list[Solution | None] = [None] * len(problems)

    def __call__(self, continuation: bool) -> Found:
        null = self.null
        if not null.examined:
            if interrupted():
                raise KeyboardInterrupt
            return [], 0
        assert null.gradient is not None
        start = Iterate(null.x, null.psi, null.gradient, step=1 / self.problems[0].objective.curvature)
        try:
            with interruptible():
                tracker = Tracker(self.problems[0], start, self.how)
                self._carry(tracker, range(len(self.problems)), exchanges=continuation)
                for i in _halfway(len(self.problems), _ANCHORS) if continuation else ():
                    if self._left() <= 0:
                        break
                    self._anchor(i)
        except KeyboardInterrupt:
            if self.best[0] is None:
                raise
            end_now()
        except TimeLimitError:
            if interrupted() and self.best[0] is None:
                raise KeyboardInterrupt from None
        with suppress(TimeLimitError), interruptible():
            self._level_out()
            self._leave_out()
        return [(p, s) for p, s in zip(self.problems, self.best, strict=True) if s is not None], self.n_grad

    def as_state(self) -> dict[str, Any] | None:
        """What is carried, as plain data; None once there is no time left."""
        if self._left() <= 0:
            return None
        tracker = None if self.tracker is None else self.tracker.as_state()
        return {"n_grad": self.n_grad, "tracker": tracker, "candidates": self.candidates.as_state()}

    def take(self, state: dict[str, Any]) -> None:
        """Go on from what `as_state` gave."""
        self.n_grad = state["n_grad"]
        self.candidates.take(state["candidates"], self.problems[-1])
        if self.tracker is not None and state["tracker"] is not None:
            self.tracker.take(state["tracker"])

    def _by_continuation(self, problem: Problem) -> Solution:
        result = solve(
            problem,
            tol=self.tol,
            start="continuation",
            time_limit=_limit(self._left()),
            checkpoint=self.journal.part("continuation"),
        )
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        self.journal.forget("continuation")
        self.n_grad += result.n_grad
        return Solution(scipy.sparse.csr_array(result.x[None]), result.certificate, result.status)

    def _anchor(self, i: int) -> None:
        """Solve level i by continuation; where that is better, carry it on, upward and downward."""
        self.tracker = None
        solution = self.pieces.once(lambda: self._by_continuation(self.problems[i]))
        if not self._is_better(i, solution):
            return
        self.best[i] = solution
        start = self._at(i)
        for others in (range(i + 1, len(self.problems)), range(i - 1, -1, -1)):
            self._carry(Tracker(self.problems[i], start, self.how), others, exchanges=True)

    def _level_out(self) -> None:
        """What a lower level has found serves the next one, too, where that has nothing lower: ψ never rises."""
        for i in range(1, len(self.problems)):
            below = self.best[i - 1]
            if self.best[i] is None or below is None:
                return
            if self._is_better(i, below):
                self.tracker = tracker = Tracker(self.problems[i - 1], self._at(i - 1), self.how)
                self.best[i] = self.pieces.once(partial(self._solved, tracker, self.problems[i], exchanges=False))

    def _leave_out(self) -> None:
        """Set coefficients that cannot be seen to zero, where a level is solved."""
        for i, (problem, solution) in enumerate(zip(self.problems, self.best, strict=True)):
            if solution is None or solution.status is not Status.SOLVED:
                continue
            known = solution.x.todense().ravel()
            x, gradients = without_negligible(problem, known, self.tol, self.how)
            self.n_grad += gradients
            if x is not known:
                psi, gradient = problem.objective.value_and_gradient(x)
                certificate = assemble(problem, x, psi, gradient, self.null)
                self.best[i] = Solution(scipy.sparse.csr_array(x[None]), certificate, solution.status)

    def _at(self, i: int) -> Iterate:
        """The solution at level i with ψ and its gradient, to be carried on."""
        problem, solution = self.problems[i], self.best[i]
        assert solution is not None
        x = solution.x.todense().ravel()
        self.n_grad += 1
        psi, gradient = problem.objective.value_and_gradient(x)
        return Iterate(x, psi, gradient, step=1 / problem.objective.curvature)

    def _carry(self, tracker: Tracker, order: range, exchanges: bool) -> None:
        """From level to level, for as long as that is better than what is there."""
        self.tracker = tracker
        for i in order:
            if self._left() <= 0:
                return
            solution = self.pieces.once(partial(self._solved, tracker, self.problems[i], exchanges))
            if not self._is_better(i, solution):
                return
            self.best[i] = solution

    def _solved(self, tracker: Tracker, problem: Problem, exchanges: bool) -> Solution:
        at = self._lowered(tracker, problem) if exchanges and problem.level < tracker.problem.level else None
        if at is None:
            at = self._counted(tracker.at_level(problem.level, self.tol, _MOST_LOOKS))
            x = self.candidates.exchanged(problem, at) if exchanges else None
            if x is not None:
                at = self._counted(tracker.moved(problem.level, x, self.tol, _MOST_LOOKS))
        certificate = assemble(problem, at.x, at.psi, at.gradient, self.null)
        status = Status.SOLVED if certificate.kkt <= self.tol else Status.MAX_ITER
        if status is not Status.SOLVED and self._left() <= 0:
            status = Status.TIME_LIMIT
        return Solution(scipy.sparse.csr_array(at.x[None]), certificate, status)

    def _lowered(self, tracker: Tracker, problem: Problem) -> Iterate | None:
        """The solution at a lower level by way of fewer features, None where they need not be fewer."""
        had = affordable(tracker.problem)
        x = self.candidates.exchanged(problem, tracker.state.at, had) if had > affordable(problem) else None
        return None if x is None else self._counted(tracker.moved(problem.level, x, self.tol, _MOST_LOOKS))

    def _counted(self, found: tuple[Iterate, int]) -> Iterate:
        at, looks = found
        self.n_grad += looks
        if at.stop == "interrupted":
            raise KeyboardInterrupt
        return at

    def _is_better(self, i: int, solution: Solution) -> bool:
        known = self.best[i]
        return known is None or solution.psi < known.psi - _LOWER * abs(known.psi)

    def _left(self) -> float:
        return self.seconds - (time.monotonic() - self.began)


def one_by_one(problems: list[Problem], tol: float, start: str, seconds: float, journal: Journal) -> Found:
    """For objectives without second-order models: each level is warm-started, and solved anew by continuation."""
    began, n_grad = time.monotonic(), 0
    found: list[tuple[Problem, Solution]] = []

    def left() -> float:
        return seconds - (time.monotonic() - began)

    def solved(problem: Problem) -> tuple[Solution, int]:
        results: list[Result] = []
        if found:
            x0, part = found[-1][1].x.todense().ravel(), journal.part("carried")
            results.append(solve(problem, tol=tol, x0=x0, time_limit=_limit(left()), checkpoint=part))
        if not found or start != "direct":
            part = journal.part("anew")
            results.append(solve(problem, tol=tol, start=start, time_limit=_limit(left()), checkpoint=part))
        if any(result.status is Status.INTERRUPTED for result in results):
            raise KeyboardInterrupt
        journal.forget("carried")
        journal.forget("anew")
        best = min(results, key=lambda result: result.psi)
        solution = Solution(scipy.sparse.csr_array(best.x[None]), best.certificate, best.status)
        return solution, sum(result.n_grad for result in results)

    pieces = pieces_of(journal, lambda: {} if left() > 0 else None, lambda state: None)
    try:
        for problem in problems:
            if left() <= 0:
                break
            solution, passes = pieces.once(partial(solved, problem))
            n_grad += passes
            found.append((problem, solution))
    except KeyboardInterrupt:
        if not found:
            raise
    return found, n_grad


def _halfway(m: int, most: int) -> Iterator[int]:
    """The last of m places, then the middle of the widest gap between those before, again and again."""
    taken = [-1, m - 1]
    yield m - 1
    for _ in range(min(most, m) - 1):
        gap, place = max((b - a, -a) for a, b in zip(sorted(taken)[:-1], sorted(taken)[1:], strict=True))
        if gap < 2:
            return
        middle = -place + gap // 2
        taken.append(middle)
        yield middle


def _limit(seconds: float) -> float | None:
    return None if math.isinf(seconds) else max(seconds, 0.0)
