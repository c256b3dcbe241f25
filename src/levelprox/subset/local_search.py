"""One search for the best set of features, wherever the data are and whatever the loss.

A search begins with the null model, finds sets to start from, improves them by swaps of one feature for another, and
examines the best set: which swaps are shown not to lower ψ, and what one more feature gains. The subclasses say how:

- `SmoothSearch` (smooth_search.py): ψ is twice differentiable and the data are in memory;
- `NonsmoothSearch` (nonsmooth_search.py): the loss has kinks;
- `RemoteSearch` (remote_search.py): the data are out of core, on a cluster or on a GPU, and ψ answers in rounds.

Each implements `begin` (the null model and the first fit), `_run` (starts, improvements, examination) and, for the
`Subset` at the end, `_answer` and `_figures`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from levelprox._runtime.deadline import interrupted
from levelprox._runtime.plurals import counted
from levelprox._typing import Features, Vector
from levelprox.certificate.null_model import NullFit
from levelprox.constraints import MCP
from levelprox.driver.checkpoint import Journal
from levelprox.driver.replay import Directly, Pieces, pieces_of
from levelprox.driver.search_monitor import Watch
from levelprox.methods.continuation import continued
from levelprox.methods.restricted import How
from levelprox.objectives import Objective
from levelprox.problem import SubsetProblem
from levelprox.result import Iterate, Status
from levelprox.subset.refit import Fit
from levelprox.subset.result import Additions, Exchanges, Subset
from levelprox.subset.swaps import Addition

_CONTINUATION_TOL = 3e-3
_LAST_THRESHOLD_SHARE = 2.0**-10  # of the largest coefficient


@dataclass(frozen=True, eq=False)
class Answer:
    """The best fit of a search, and what is shown of it.

    Attributes
    ----------
    fit : Fit
    examined : int
        Swaps that are shown not to lower ψ.
    addition : Addition or None
        The best single addition, where it was looked for.
    n_grad, n_refits : int
        Passes over all features, and fits over a few of them.
    note : str
        What to add to the summary of a search that came to its end.
    """

    fit: Fit
    examined: int
    addition: Addition | None
    n_grad: int
    n_refits: int
    note: str = ""


@dataclass(eq=False)
class Search:
    """The skeleton of a search.

    Parameters
    ----------
    problem : SubsetProblem
    tol : float
        How well each set is fitted: on the derivatives of ψ along its features, each relative to what the null fit
        leaves to its column.
    prove : bool
        Whether to examine all swaps, however long that takes.
    watch : Watch
        Limits and callback.
    start : ndarray of int, optional
        Features to begin with.
    journal : Journal
        Where results are recorded, to resume from.
    pieces : Pieces
        How pieces of work are done, where this is part of another search.
    """

    problem: SubsetProblem
    tol: float
    prove: bool
    watch: Watch
    start: Features | None = None
    journal: Journal = field(default_factory=Journal)
    pieces: Pieces = field(default_factory=Directly)

    null: NullFit = field(init=False)

    @property
    def k(self) -> int:
        """How many features may be nonzero."""
        return self.problem.k

    @property
    def reported_objective(self) -> Objective:
        """ψ in the units of the data."""
        return self.problem.objective

    def __call__(self) -> Subset:
        """Search, and return the best set that was found before the end or a limit."""
        self.pieces = pieces_of(self._own_journal(), self.as_state, self.take)
        self.begin_in_time()
        if not self.null.examined:
            return self._subset(Status.INTERRUPTED if interrupted() else Status.TIME_LIMIT)
        status = Status.SOLVED
        self.watch.arm()
        try:
            self._run()
        except TimeoutError as error:
            if error is self.watch.raised:
                raise
            status = Status.INTERRUPTED if interrupted() else Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        finally:
            self.watch.disarm()
        return self._subset(status)

    # --- what subclasses implement

    def begin_in_time(self) -> None:
        """Compute the null model, or what there is time for, and the first fit."""
        raise NotImplementedError

    def _run(self) -> None:
        """Find sets, improve them, examine the best one."""
        raise NotImplementedError

    def _answer(self, status: Status) -> Answer:
        """Return the best fit, and what is shown of it."""
        raise NotImplementedError

    def _figures(self, fit: Fit, x: Vector) -> tuple[float, float]:
        """Return ψ and the stationarity of a fit, from the data; x is that over all coordinates of the data."""
        raise NotImplementedError

    def as_state(self) -> dict[str, Any] | None:
        """Return what has been found and reported, as plain data; None once a limit has cut the search short."""
        raise NotImplementedError

    def take(self, state: dict[str, Any]) -> None:
        """Resume from what `as_state` returned."""
        raise NotImplementedError

    def _own_journal(self) -> Journal:
        return self.journal

    def _reported(self, x: Vector) -> Vector:
        """Return x in the units of the data."""
        return x

    def _attains(self, fit: Fit, psi: float) -> bool:
        """Return whether ψ, recomputed, is that of the fit, so that what is shown of the fit holds."""
        return True

    def _concludes(self) -> bool:
        """Return whether the answer is final; else another search continues from it."""
        return True

    # --- what they share

    def check_time(self) -> None:
        """Raise TimeoutError where no time is left."""
        if self.watch.left() <= 0:
            raise TimeoutError

    def whole(self, fit: Fit) -> Vector:
        """Return x over all coordinates, in the units of the data."""
        return self._reported(self.problem.spread(fit.features, fit.x))

    def _subset(self, ended: Status) -> Subset:
        """Recompute the figures of the answer from the data, and describe it."""
        problem, objective, answer = self.problem, self.reported_objective, self._answer(ended)
        fit, examined, addition = answer.fit, answer.examined, answer.addition
        x = self.whole(fit)
        support = problem.counted(problem.support(problem.spread(fit.features, fit.x)))
        wanted = self.null.examined and self._concludes()
        recomputed = self.watch.recomputed(ended, fit.psi, (lambda: self._figures(fit, x)) if wanted else None)
        ended, psi, stationarity, unknown = recomputed
        if not unknown and not self._attains(fit, psi):
            examined, addition = 0, None if addition is None else replace(addition, examined=0)
        features = fit.features
        if problem.costs is not None and not np.array_equal(support, problem.counted(features)):
            features = problem.with_exempt(support)  # what is shown is of another set
            examined, addition = 0, None
        swaps = Exchanges(
            examined,
            problem.count_swaps(features),
            local=objective.convex_start is not None,
            within_budget=problem.costs is not None,
        )
        summary = f"{self._used(support)}, loss = {psi:.6g}; {swaps}{unknown}"
        if ended is Status.SOLVED:
            summary += answer.note
        status, message = ended, summary
        if self._concludes():
            status, message = self.watch.conclude(ended, summary, objective, x, stationarity, self.tol)
        costs = problem.costs
        return Subset(
            x,
            psi,
            support,
            self.k,
            math.nan if addition is None else addition.gain,
            None if addition is None else addition.feature,
            swaps,
            stationarity,
            status,
            message,
            answer.n_grad + 1,
            answer.n_refits,
            self.watch.elapsed,
            tuple(self.watch.history),
            None if addition is None else Additions(addition.examined, addition.total),
            None if costs is None else costs.spent(support.tolist()),
            None if costs is None else costs.budget,
        )

    def _used(self, support: Features) -> str:
        """Return in words how much of what is allowed a set uses."""
        costs, words = self.problem.costs, counted(support.size, "feature")
        if costs is None:
            return f"{words} of at most {self.k}"
        if self.k < self.problem.n_counted:
            words += f" of at most {self.k}"
        return f"{words} at a cost of {costs.spent(support.tolist()):.6g} of at most {costs.budget:.6g}"


def sets_by_continuation(
    problem: SubsetProblem, start: Iterate, direct: Iterate, support: Features, how: How
) -> Iterator[tuple[Features, Iterate, int]]:
    """Yield the k largest features of each stage of a continuation in the threshold, with its end and its passes.

    Parameters
    ----------
    problem : SubsetProblem
    start : Iterate
        The null fit.
    direct : Iterate
        A fit over a set that was found otherwise.
    support : ndarray of int
        Its features.
    how : How
    """
    largest = float(np.max(problem.sizes(direct.x)[problem.counted(support)], initial=0.0))
    if not largest > 0:
        return
    relaxed = problem.relaxed(MCP.from_threshold(_LAST_THRESHOLD_SHARE * largest))
    for stage, end in continued(relaxed, start, direct, how, _CONTINUATION_TOL, count=problem.k + 1):
        sizes = problem.sizes(end.x)
        counted = problem.counted(np.flatnonzero(sizes))
        largest_k = counted[np.argsort(-sizes[counted], kind="stable")[: problem.k]]
        yield problem.with_exempt(largest_k), end, stage.n_grad
