"""Candidates: the features closest to entering, and swaps among them from level to level.

Along a path one solution differs from the next by about a feature, and so do the sets that are better. So a few tries
at each level keep up with them, where a single fit needs many. The columns of the candidates stay where they are until
others come nearer, and so does what is known of the sets that were tried.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from levelprox._typing import Features, Vector
from levelprox.methods.continuation import affordable
from levelprox.methods.restricted import SolverOptions
from levelprox.objectives import Model
from levelprox.problem import FeatureProblem, Problem
from levelprox.result import Iterate
from levelprox.subset.fit import Fit
from levelprox.subset.swap_bounds import costs
from levelprox.subset.swaps import SwapSearch

_NEAREST = 100  # features outside the solution that are candidates
_CLOSEST = 20  # of them: where one of these is not among the candidates, they are chosen again
_MOSTLY = 1.5  # times the features that the level can pay for at the cap: with more, most are below the threshold
_TRIES = 3  # that may fail, before the next level


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
        self.features: Features = np.empty(0, np.intp)
        self.swaps: SwapSearch | None = None
        self.settled: Features = np.empty(0, np.intp)

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

    def exchanged(self, problem: Problem, at: Iterate, had: int = 0) -> Vector | None:
        """Return a better feasible point with features removed and swapped; None if few trials find none.

        As many features as the level allows at the cap are refitted, of any size.

        Parameters
        ----------
        problem : Problem
        at : Iterate
            A point with its gradient; it need not satisfy the level.
        had : int
            How many of its features are used if there are more: those with the least cost are left out.
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
        x = np.zeros(problem.dimension)
        x[problem.coordinates(self.settled)] = after.x
        return problem.cut(x)

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
        return SwapSearch(part, start, self.how.null, self.tolerance, self.how, tries=_TRIES)

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
