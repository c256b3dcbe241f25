"""The ladder of a path: the levels of its rungs, and swaps of features at each rung.

Features are swapped for those nearest to being taken in, whose columns are kept from rung to rung.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from levelprox._typing import Features, Vector
from levelprox.methods.continuation import affordable, feature_cost
from levelprox.methods.restricted import SolverOptions
from levelprox.objectives import Model
from levelprox.problem import FeatureProblem, Problem
from levelprox.result import Iterate
from levelprox.subset.fit import Fit
from levelprox.subset.refit import ROUGH_ACCURACY
from levelprox.subset.swap_bounds import SwapEstimates, costs
from levelprox.subset.swaps import SwapSearch

LONGEST_BLOCK = 4  # rungs, of which the last one is solved by continuation, too
_EVERY_BITS = 4  # of a number of features, up to which each is a rung; then eight for every doubling
_ABOVE = 0.25  # of a feature: how far a rung is above its number of features
_LARGEST_POWER = 2000  # of √2, for a level
_NEAREST = 100  # features outside the solution that are candidates
_CLOSEST = 20  # of them: where one of these is not among the candidates, they are chosen again
_MOSTLY = 1.5  # times the features that the level can pay for at the cap: with more, most are below the threshold
_LARGEST_FALL = 2.0  # times what Newton's step predicts: a swap that then lowers nothing is given up
_TRIES = 10  # that may fail, before the next rung


class _OneByOne(SwapSearch):
    """A search that tries the best swap of each feature of the fit before the second best of any.

    What is wrong in the estimate of what a feature costs is wrong in all of its swaps.
    """

    def _promising(self, fit: Fit, estimates: SwapEstimates) -> list[tuple[int, int]]:
        tried: Counter[int] = Counter()
        ranked = list[tuple[int, int, tuple[int, int]]]()
        for place, swap in enumerate(super()._promising(fit, estimates)):
            tried[swap[0]] += 1
            ranked.append((tried[swap[0]], place, swap))
        return [swap for _, _, swap in sorted(ranked)]


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
        if not (most and isinstance(problem.objective, Model) and are_few(problem, at.x, max(most, had))):
            return None  # refits of many, which leave out the level, say little
        support = problem.counted(np.flatnonzero(sizes))
        chosen = support[np.argsort(-sizes[support], kind="stable")][: max(most, had)]
        chosen = np.union1d(chosen, problem.unpenalized).astype(np.intp)
        if had <= most and np.array_equal(chosen, self.settled):
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
        swaps = _OneByOne(part, start, self.how.null, self.tolerance, self.how, tries=_TRIES)
        swaps.accuracy = ROUGH_ACCURACY  # the solution at the level follows
        for compiled in swaps.refits.compiled:
            compiled.largest_fall = _LARGEST_FALL
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


def are_few(problem: Problem, x: Vector, most: int) -> bool:
    """Return whether a point has about as many features as the level allows at the cap, and not none."""
    return 0 < problem.counted(problem.support(x)).size <= _MOSTLY * most + 1


def rungs_of(problem: Problem, gradient: Vector, in_blocks: bool) -> Iterator[tuple[float, float]]:
    """Yield, for each rung up to the level of a problem, the lowest level that starts there and the rung's own.

    In blocks, so many more rungs follow that the last block can be complete. The gradient is that at the null model.
    """
    more = LONGEST_BLOCK - 1 if in_blocks else 0
    for lowest, level in ladder(problem, gradient):
        if lowest > problem.level:
            if more == 0:
                return
            more -= 1
        yield lowest, level


def ladder(problem: Problem, gradient: Vector) -> Iterator[tuple[float, float]]:
    """Yield every rung; they depend on the problem, but not on its level."""
    cost = feature_cost(problem)
    if cost > 0:
        count = 1
        while count <= problem.n_features:
            yield count * cost, (count + _ABOVE) * cost
            count += max(1, 2 ** (count.bit_length() - _EVERY_BITS))
        return
    weights = 1.0 if problem.weights is None else problem.weights
    first = np.max(weights * problem.constraint.phi(problem.sizes(gradient) / problem.objective.curvature), initial=0.0)
    if 0 < first < math.inf:
        power = math.floor(2 * math.log2(first))
        while power < _LARGEST_POWER:
            yield 2 ** (power / 2), 2 ** (power / 2)
            power += 1
