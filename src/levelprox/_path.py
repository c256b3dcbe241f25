"""path() and subset_path(): the same problem at many levels, and at most k features for many k."""

from __future__ import annotations

import inspect
import math
import os
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from levelprox import _best_subset as budget
from levelprox._best_subset import best_subset
from levelprox._runtime import one_blas_thread
from levelprox._typing import Vector
from levelprox._validation import finite, of_a_model, option, real_array, whole
from levelprox._validation import nonnegative as at_least_zero
from levelprox.certificate import Certificate
from levelprox.driver import Run, drive
from levelprox.driver.checkpoint import SavedState
from levelprox.driver.run_identity import identity_of, identity_without_level
from levelprox.exceptions import InvalidInputError, warn
from levelprox.io.checkpoint import Checkpoint
from levelprox.methods import Context, Limits, Method, level_method
from levelprox.methods.continuation import continues
from levelprox.methods.path_following import LevelByLevel, PathFollowing, Solution
from levelprox.methods.subsolvers import choose
from levelprox.methods.working_set import WorkingSet
from levelprox.objectives import Model, Objective
from levelprox.problem import Problem
from levelprox.result import CUT_SHORT, Status
from levelprox.subset.result import Additions, Subset, Swaps

#: What the state of a path is made of.
KINDS: tuple[type, ...] = (*level_method.KINDS, *budget.KINDS, Solution, WorkingSet, Subset, Swaps, Additions)


@dataclass(frozen=True, eq=False)
class Path:
    """Solutions for increasing levels, or for increasing k.

    Attributes
    ----------
    levels : ndarray of shape (m,)
        η, or k, in ascending order.
    coefficients : scipy.sparse.csr_array of shape (m, d)
        One solution per row.
    losses : ndarray of shape (m,)
        ψ.
    nonzeros : ndarray of int of shape (m,)
        Nonzero penalized features.
    multipliers : ndarray of shape (m,)
        y, or for k the gain of the best single addition.
    certificates : tuple of Certificate, or of Swaps for k
        Certificate of each solution.
    statuses : tuple of Status
        Status of each solution.
    n_grad : int
        Passes over all features.
    wall_s : float
        Wall-clock time in seconds.

    Examples
    --------
    >>> from levelprox import LinearModel, Problem, constraints, path
    >>> model = LinearModel([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [3.0, 2.0, 1.0])
    >>> found = path(Problem(model, constraints.L1(), 4.0), [1.0, 2.0, 4.0])
    >>> found.nonzeros.tolist(), found.coefficients.shape
    ([1, 2, 3], (3, 3))
    """

    levels: Vector
    coefficients: scipy.sparse.csr_array
    losses: Vector
    nonzeros: NDArray[np.int64]
    multipliers: Vector
    certificates: tuple[Certificate, ...] | tuple[Swaps, ...]
    statuses: tuple[Status, ...]
    n_grad: int
    wall_s: float

    def __len__(self) -> int:
        return int(self.levels.size)

    def x(self, i: int) -> Vector:
        """Return the i-th solution as a dense array."""
        return np.asarray(self.coefficients[[i]].todense(), np.float64).ravel()

    @property
    def success(self) -> bool:
        """Whether every solution has a successful status."""
        return all(status.success for status in self.statuses)

    def __repr__(self) -> str:
        solved = sum(status.success for status in self.statuses)
        ends = f"{self.levels[0]:g} … {self.levels[-1]:g}" if len(self) else "none"
        return f"Path({len(self)} levels: {ends}, {solved} solved, {self.n_grad} passes, {self.wall_s:.2f} s)"


@of_a_model("a Problem", "path(Problem(LinearModel(X, y), MCP.from_threshold(0.5), level), levels)")
def path(
    problem: Problem,
    levels: ArrayLike,
    *,
    tol: float = 1e-6,
    start: str = "auto",
    time_limit: float | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | SavedState | None = None,
    resume: bool | str | os.PathLike[str] = False,
) -> Path:
    """Solve min ψ(x) s.t. g(x) ≤ η for many η.

    All levels start from the solutions at fixed levels below them, so the answer at one does not depend on the others
    (but for objectives without second-order models: there each level starts from the one before).

    Parameters
    ----------
    problem : Problem
        ψ, φ, weights and signs; its own level does not matter.
    levels : array-like of shape (m,)
        η ≥ 0; sorted, equal ones taken once.
    tol : float, default=1e-6
        On the KKT residual of each, as in `solve`.
    start : {"auto", "continuation", "direct"}, default="auto"
        "direct" runs fixed levels upward, and that is all; "continuation" tries for better KKT points at some of them.
        "auto" is "continuation" where the constraint is not convex and there are not many classes, as in `solve`.
    time_limit : float, optional
        Seconds of wall-clock time; levels not reached by then, or by Ctrl-C, are left out of the path, with a warning.
    checkpoint : path-like or Checkpoint, optional
        File for the results so far, as in `solve`.
    resume : bool or path-like, default=False
        Whether to resume from it, as in `solve`; the result has the same bits.

    Returns
    -------
    Path

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, constraints, path
    >>> X = np.random.default_rng(0).standard_normal((100, 30))
    >>> problem = Problem(LinearModel(X, X[:, 3] - 2 * X[:, 7]), constraints.MCP.from_threshold(0.1), 2.5)
    >>> path(problem, [0.5, 1.5]).nonzeros.tolist()
    [1, 2]
    """
    if not isinstance(problem, Problem):
        raise InvalidInputError(f"problem must be a Problem, got {type(problem).__name__}")
    start = option(start)
    if start not in ("auto", "continuation", "direct"):
        raise InvalidInputError(f"start must be one of auto, continuation, direct, got {start!r}")
    given = finite("levels", real_array("levels", levels)).astype(np.float64)
    if given.ndim != 1 or not given.size:
        raise InvalidInputError(f"levels must be a list of numbers, got shape {given.shape}")
    problems = [replace(problem, level=float(level)) for level in np.unique(given)]
    seconds = math.inf if time_limit is None else at_least_zero("time_limit", time_limit)
    tol = at_least_zero("tol", tol)
    method: PathFollowing | LevelByLevel = LevelByLevel(tol, start)
    if choose("auto", problem.objective).on_working_sets:
        method = PathFollowing(tol, continues(start, problem))
    began = time.monotonic()
    with one_blas_thread(isinstance(problem.objective, Model)):
        found, n_grad = drive(
            method,
            problems,
            limits=Limits(seconds),
            checkpoint=checkpoint,
            resume=resume,
            identity=lambda: identity_of(problems[-1], levels=np.unique(given), tol=tol, start=start, follows="blocks"),
            kinds=KINDS,
        )
    return _assembled(found, len(problems), tol, n_grad, time.monotonic() - began)


@of_a_model("a LinearModel or MultinomialModel", "subset_path(LinearModel(X, y), [1, 2, 3])")
def subset_path(objective: Objective, k: Sequence[int] | ArrayLike, **options: Any) -> Path:
    """Fit at most k features for several k.

    Each fit is that of `best_subset` for its k and does not depend on the other k.

    Parameters
    ----------
    objective : LinearModel or MultinomialModel
        ψ.
    k : sequence of int
        Numbers of features; sorted, duplicates removed.
    **options
        Options of `best_subset`. `time_limit` and `checkpoint` apply to all fits together. k that are not reached in
        time are omitted from the path, with a warning; so are those after Ctrl-C.

    Returns
    -------
    Path
        Its certificates are `Swaps`.

    Examples
    --------
    >>> from levelprox import LinearModel, subset_path
    >>> model = LinearModel([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [3.0, 2.0, 1.0])
    >>> found = subset_path(model, [1, 2])
    >>> found.levels.tolist(), found.coefficients.toarray().tolist()
    ([1.0, 2.0], [[3.0, 0.0, 0.0], [3.0, 2.0, 0.0]])
    """
    counts = sorted({whole("k", one) for one in np.atleast_1d(np.asarray(k)).tolist()})
    if not counts:
        raise InvalidInputError("k must be a list of integers, got none")
    inspect.signature(best_subset).bind(objective, 1, **options)  # a TypeError where there is no such option
    limit = options.pop("time_limit", None)
    seconds = math.inf if limit is None else at_least_zero("time_limit", limit)
    decisive = {name: value for name, value in options.items() if name not in ("max_iter", "callback", *_OF_RUN)}
    path: Path = drive(
        _SubsetPath(objective, {name: value for name, value in options.items() if name not in _OF_RUN}),
        counts,
        limits=Limits(seconds),
        checkpoint=options.get("checkpoint"),
        resume=options.get("resume", False),
        identity=lambda: identity_without_level(objective, k=counts, **decisive),
        kinds=KINDS,
    )
    return path


_OF_RUN = ("checkpoint", "resume")  # options of all searches together


class _SubsetPath(Method[list[Subset]]):
    """One search for each k."""

    replays = True

    def __init__(self, objective: Objective, options: dict[str, Any]) -> None:
        self.objective, self.options = objective, {**options, "_guidance": {"forms": {}, "columns": []}}

    def init(self, problem: list[int], ctx: Context) -> list[Subset]:
        self.counts, self.ctx = problem, cast(Run, ctx)
        self.found: list[Subset] = []
        return self.found

    def steps(self, state: list[Subset], ctx: Context) -> Generator[list[Subset], None, Status | None]:
        for count in self.counts:
            self.found.append(ctx.once(partial(self._searched, count)))
            yield self.found
            if self.found[-1].status is Status.INTERRUPTED:
                return Status.INTERRUPTED
            ctx.check()
        return None

    def memory(self) -> dict[str, Any] | None:
        return None if self.ctx.saved.parts else {}

    def _searched(self, count: int) -> Subset:
        saved, left = self.ctx.saved, self.ctx.seconds_left()
        limit = None if math.isinf(left) else max(0.0, left)
        part = saved.part(f"k={count}")
        subset = best_subset(self.objective, count, time_limit=limit, checkpoint=part, **self.options)
        if subset.status not in CUT_SHORT:
            saved.forget(f"k={count}")
        return subset

    def finish(self, state: list[Subset], status: Status, ctx: Context) -> Path:
        found, counts = self.found, self.counts
        if not found:  # only Ctrl-C ends a search without a result
            raise KeyboardInterrupt
        if len(found) < len(counts) and status is not Status.INTERRUPTED:
            warn(f"{len(counts) - len(found)} of {len(counts)} numbers of features were not reached. Raise time_limit.")
        return Path(
            levels=np.array(counts[: len(found)], np.float64),
            coefficients=scipy.sparse.csr_array(np.array([one.x for one in found]).reshape(len(found), -1)),
            losses=np.array([one.psi for one in found]),
            nonzeros=np.array([one.support.size for one in found], np.int64),
            multipliers=np.array([one.multiplier for one in found]),
            certificates=tuple(one.swaps for one in found),
            statuses=tuple(one.status for one in found),
            n_grad=sum(one.n_grad for one in found),
            wall_s=ctx.elapsed,
        )


def _assembled(found: list[tuple[Problem, Solution]], asked: int, tol: float, n_grad: int, wall_s: float) -> Path:
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
