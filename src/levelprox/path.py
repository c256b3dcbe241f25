"""Paths: the same problem at many levels, and at most k features for many k.

A solution for η obeys every larger level, so levels are run upward: x, the working set, its columns and its Hessian are
carried from one to the next, and most levels cost one look at all features.

Where the constraint is not convex, what is carried upward may not be the best KKT point there is. So at a few levels,
the largest first and then halfway between the others, the problem is solved by continuation, too; where that is better,
it replaces what was there, and is carried on from there, upward and downward, for as long as it is better.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from levelprox.budget import Exchanges, best_subset
from levelprox.candidates import Candidates
from levelprox.certificate import Certificate, assemble
from levelprox.continuation import affordable
from levelprox.errors import InvalidInputError
from levelprox.null_fit import null_fit
from levelprox.objectives import Objective
from levelprox.problem import Problem
from levelprox.restriction import How
from levelprox.result import Iterate, Result, Status
from levelprox.run import warn
from levelprox.solve import solve
from levelprox.subsolvers import choose
from levelprox.surrogate import surrogate_by_name
from levelprox.validation import finite, real, real_array, whole
from levelprox.working_set import Tracker

Vector = NDArray[np.float64]

_ANCHORS = 4  # levels at which the problem is solved by continuation, too
_LOWER = 1e-7  # of ψ: less is not better
_MOST_LOOKS = 50


@dataclass(frozen=True, eq=False)
class Path:
    """Solutions for one level after another, or for one k after another.

    Attributes
    ----------
    levels : ndarray of shape (m,)
        η, or k, in ascending order.
    coefficients : scipy.sparse.csr_array of shape (m, d)
        The solution of each, in rows.
    losses : ndarray of shape (m,)
        ψ.
    nonzeros : ndarray of int of shape (m,)
        Features that count and are not zero.
    multipliers : ndarray of shape (m,)
        y, or for k what the best single addition gains.
    certificates : tuple of Certificate, or of Exchanges for k
        What is shown of each.
    statuses : tuple of Status
    n_grad : int
        Passes over all features.
    wall_s : float
        Seconds of wall-clock time.
    """

    levels: Vector
    coefficients: scipy.sparse.csr_array
    losses: Vector
    nonzeros: NDArray[np.int64]
    multipliers: Vector
    certificates: tuple[Certificate, ...] | tuple[Exchanges, ...]
    statuses: tuple[Status, ...]
    n_grad: int
    wall_s: float

    def __len__(self) -> int:
        return int(self.levels.size)

    def x(self, i: int) -> Vector:
        """The i-th solution as a dense array."""
        return np.asarray(self.coefficients[[i]].todense(), np.float64).ravel()

    @property
    def success(self) -> bool:
        """Whether every solution is what was asked for."""
        return all(status.success for status in self.statuses)

    def __repr__(self) -> str:
        solved = sum(status.success for status in self.statuses)
        ends = f"{self.levels[0]:g} … {self.levels[-1]:g}" if len(self) else "none"
        return f"Path({len(self)} levels: {ends}, {solved} solved, {self.n_grad} passes, {self.wall_s:.2f} s)"


def path(
    problem: Problem,
    levels: ArrayLike,
    *,
    tol: float = 1e-6,
    start: str = "auto",
    time_limit: float | None = None,
) -> Path:
    """Solve min ψ(x) s.t. g(x) ≤ η for many η.

    Parameters
    ----------
    problem : Problem
        ψ, φ, weights and signs; its own level does not matter.
    levels : array-like of shape (m,)
        η ≥ 0; sorted, equal ones taken once.
    tol : float, default=1e-6
        On the KKT residual of each, as in `solve`.
    start : {"auto", "continuation", "direct"}, default="auto"
        "direct" runs the levels upward, and that is all; "continuation" tries for better KKT points at some of them.
        "auto" is "continuation" where the constraint is not convex.
    time_limit : float, optional
        Seconds of wall-clock time; levels not reached by then, or by Ctrl-C, are left out of the path, with a warning.

    Returns
    -------
    Path

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, constraints, path
    >>> X = np.random.default_rng(0).standard_normal((100, 30))
    >>> problem = Problem(LinearModel(X, X[:, 3] - 2 * X[:, 7]), constraints.MCP.from_threshold(0.1), 2.5)
    >>> path(problem, [0.5, 1.5, 2.5]).nonzeros.tolist()
    [1, 2, 2]
    """
    if not isinstance(problem, Problem):
        raise InvalidInputError(f"problem must be a Problem, got {type(problem).__name__}")
    if start not in ("auto", "continuation", "direct"):
        raise InvalidInputError(f"start must be one of auto, continuation, direct, got {start!r}")
    given = finite("levels", real_array("levels", levels)).astype(np.float64)
    if given.ndim != 1 or not given.size:
        raise InvalidInputError(f"levels must be a list of numbers, got shape {given.shape}")
    problems = [replace(problem, level=float(level)) for level in np.unique(given)]
    seconds = math.inf if time_limit is None else real("time_limit", time_limit)
    continuation = start != "direct" and problem.constraint.lipschitz > 0
    if choose("auto", problem.objective).on_working_sets:
        return _Levels(problems, tol, seconds)(continuation)
    return _one_by_one(problems, tol, start, seconds)


def subset_path(objective: Objective, k: Sequence[int] | ArrayLike, **options: Any) -> Path:
    """At most k features for many k: `best_subset` for each, so that no answer depends on which others are asked for.

    Parameters
    ----------
    objective : LinearModel or MultinomialModel
        ψ.
    k : sequence of int
        How many features may be nonzero; sorted, equal ones taken once.
    **options
        As in `best_subset`; `time_limit` is for all of them together.

    Returns
    -------
    Path
        With `Exchanges` for certificates.
    """
    counts = sorted({whole("k", one) for one in np.atleast_1d(np.asarray(k)).tolist()})
    began, limit = time.monotonic(), options.pop("time_limit", None)
    found = []
    for count in counts:
        left = None if limit is None else max(0.0, limit - (time.monotonic() - began))
        found.append(best_subset(objective, count, time_limit=left, **options))
        if found[-1].status is Status.INTERRUPTED:
            break
    return Path(
        levels=np.array(counts[: len(found)], np.float64),
        coefficients=scipy.sparse.csr_array(np.array([one.x for one in found]).reshape(len(found), -1)),
        losses=np.array([one.psi for one in found]),
        nonzeros=np.array([one.support.size for one in found], np.int64),
        multipliers=np.array([one.multiplier for one in found]),
        certificates=tuple(one.exchanges for one in found),
        statuses=tuple(one.status for one in found),
        n_grad=sum(one.n_grad for one in found),
        wall_s=time.monotonic() - began,
    )


@dataclass(frozen=True, eq=False)
class _Solution:
    """A point with what is known of it; its gradient is not kept."""

    x: scipy.sparse.csr_array
    certificate: Certificate
    status: Status

    @property
    def psi(self) -> float:
        return self.certificate.psi


class _Levels:
    """Levels run upward on working sets, and better points carried on from where they were found."""

    def __init__(self, problems: list[Problem], tol: float, seconds: float) -> None:
        self.problems, self.tol, self.seconds, self.began = problems, tol, seconds, time.monotonic()
        problem = problems[-1]
        subsolver, self.null = choose("auto", problem.objective), null_fit(problem, seconds)
        gamma, surrogate = subsolver.proximal_weight(problem.objective), surrogate_by_name("concave")
        self.how = How(subsolver, gamma, surrogate, self.null, self._left, None)
        self.n_grad = 2 if problem.exempt.size else 1
        self.candidates = Candidates(self.how, tol * self.null.scale)
        self.best: list[_Solution | None] = [None] * len(problems)

    def __call__(self, continuation: bool) -> Path:
        null = self.null
        assert null.gradient is not None
        start = Iterate(null.x, null.psi, null.gradient, step=1 / self.problems[0].objective.curvature)
        try:
            tracker = Tracker(self.problems[0], start, self.how)
            self._carry(tracker, range(len(self.problems)), exchanges=continuation)
            for i in _halfway(len(self.problems), _ANCHORS) if continuation else ():
                if self._left() <= 0:
                    break
                self._anchor(i)
        except KeyboardInterrupt:
            if self.best[0] is None:
                raise
        self._level_out()
        return self._path()

    def _anchor(self, i: int) -> None:
        """Solve level i by continuation; where that is better, carry it on, upward and downward."""
        result = solve(self.problems[i], tol=self.tol, start="continuation", time_limit=_limit(self._left()))
        self.n_grad += result.n_grad
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        solution = _Solution(scipy.sparse.csr_array(result.x[None]), result.certificate, result.status)
        if not self._is_better(i, solution):
            return
        self.best[i] = solution
        for others in (range(i + 1, len(self.problems)), range(i - 1, -1, -1)):
            self._carry(self._from(i), others, exchanges=True)

    def _level_out(self) -> None:
        """What a lower level has found serves the next one, too, where that has nothing lower: ψ never rises."""
        for i in range(1, len(self.problems)):
            below = self.best[i - 1]
            if self.best[i] is None or below is None:
                return
            if self._is_better(i, below):
                self.best[i] = self._solved(self._from(i - 1), self.problems[i], exchanges=False)

    def _from(self, i: int) -> Tracker:
        """The solution at level i, to be carried on."""
        problem, solution = self.problems[i], self.best[i]
        assert solution is not None
        x = solution.x.todense().ravel()
        self.n_grad += 1
        psi, gradient = problem.objective.value_and_gradient(x)
        return Tracker(problem, Iterate(x, psi, gradient, step=1 / problem.objective.curvature), self.how)

    def _carry(self, tracker: Tracker, order: range, exchanges: bool) -> None:
        """From level to level, for as long as that is better than what is there."""
        for i in order:
            if self._left() <= 0:
                return
            solution = self._solved(tracker, self.problems[i], exchanges)
            if not self._is_better(i, solution):
                return
            self.best[i] = solution

    def _solved(self, tracker: Tracker, problem: Problem, exchanges: bool) -> _Solution:
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
        return _Solution(scipy.sparse.csr_array(at.x[None]), certificate, status)

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

    def _is_better(self, i: int, solution: _Solution) -> bool:
        known = self.best[i]
        return known is None or solution.psi < known.psi - _LOWER * abs(known.psi)

    def _left(self) -> float:
        return self.seconds - (time.monotonic() - self.began)

    def _path(self) -> Path:
        found = [(p, s) for p, s in zip(self.problems, self.best, strict=True) if s is not None]
        return _assembled(found, len(self.problems), self.tol, self.n_grad, time.monotonic() - self.began)


def _one_by_one(problems: list[Problem], tol: float, start: str, seconds: float) -> Path:
    """For objectives without second-order models: each level is warm-started, and solved anew by continuation."""
    began, n_grad = time.monotonic(), 0
    found: list[tuple[Problem, _Solution]] = []
    for problem in problems:
        left = seconds - (time.monotonic() - began)
        if left <= 0:
            break
        results: list[Result] = []
        if found:
            results.append(solve(problem, tol=tol, x0=found[-1][1].x.todense().ravel(), time_limit=_limit(left)))
        if not found or start != "direct":
            results.append(solve(problem, tol=tol, start=start, time_limit=_limit(left)))
        n_grad += sum(result.n_grad for result in results)
        if any(result.status is Status.INTERRUPTED for result in results):
            break
        best = min(results, key=lambda result: result.psi)
        found.append((problem, _Solution(scipy.sparse.csr_array(best.x[None]), best.certificate, best.status)))
    return _assembled(found, len(problems), tol, n_grad, time.monotonic() - began)


def _assembled(found: list[tuple[Problem, _Solution]], asked: int, tol: float, n_grad: int, wall_s: float) -> Path:
    if not found:
        raise InvalidInputError("there was no time for the first level; raise time_limit")
    missed = [p.level for p, s in found if not s.status.success]
    if missed or len(found) < asked:
        cut_short = f" and {asked - len(found)} levels were not reached" if len(found) < asked else ""
        warn(f"{len(missed)} of {len(found)} levels did not reach tol {tol:.1e}{cut_short}. Raise time_limit or tol.")
    certificates = tuple(s.certificate for _, s in found)
    return Path(
        levels=np.array([p.level for p, _ in found]),
        coefficients=scipy.sparse.csr_array(scipy.sparse.vstack([s.x for _, s in found])),
        losses=np.array([one.psi for one in certificates]),
        nonzeros=np.array([one.n_nonzero for one in certificates], np.int64),
        multipliers=np.array([one.multiplier for one in certificates]),
        certificates=certificates,
        statuses=tuple(s.status for _, s in found),
        n_grad=n_grad,
        wall_s=wall_s,
    )


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
