"""Starts and moves besides forward selection and swaps: continuation, rays, and those within a budget of costs.

As the threshold of MCP shrinks, the level (k + ½) cap leads to sets of k features. Along a ray on which a bounded loss
falls, descents begin at several lengths.

With a budget of costs every set that may be returned is within it: Σ cost_j ≤ budget, in exact arithmetic
(`costs.py`), and has at most k features. Sets are found

- by adding the feature that gains most, of those that the rest of the budget pays for, or the one that gains most for
  its cost, for as long as there is one;
- by adding more than the budget pays for, and leaving out those that are worth least for their cost;
- by the first way without one of the first features added.

Each is improved by swaps within the budget, and by adding more where there is room. Then there are moves of several
features: one is left out, and its cost is spent on others; one that is too expensive is added, and others make room for
it. This is repeated until no move lowers ψ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from levelprox._typing import Features, Vector
from levelprox.certificate.null_model import NullFit
from levelprox.constraints import MCP
from levelprox.constraints.costs import Costs
from levelprox.methods.continuation import continued
from levelprox.methods.restricted import SolverOptions
from levelprox.objectives import LinearModel
from levelprox.problem import SubsetProblem
from levelprox.result import Iterate
from levelprox.subset.fit import Fit, lowest
from levelprox.subset.forward import forward
from levelprox.subset.swap_bounds import MANY_FEATURES
from levelprox.subset.swap_bounds import costs as losses_without
from levelprox.subset.swaps import SwapSearch

if TYPE_CHECKING:
    from levelprox.subset.smooth_search import SmoothSearch

#: What a feature gains and the features of the fit so far, to what it is worth.
Worth = Callable[[Vector, Features], Vector]
#: A move of several features: one of them; whether it is added, and others make room for it, or left out, and its cost
#: is spent on others; whether features are chosen by what they gain relative to their cost.
Way = tuple[int, bool, bool]

_RAY_STARTS = 2.0 ** (np.arange(-4, 11) / 2)  # median margins from which descents along a ray begin
_CONTINUATION_TOL = 3e-3
_LAST_THRESHOLD_SHARE = 2.0**-10  # of the largest coefficient
_LEAST_THRESHOLD = 2.0**-500  # whose square is in the range of float64
_STARTS_WITHOUT = 3  # starts, each without one of the first features added
_MOVES, _MOVES_WHERE_EXPENSIVE = 12, 2  # features that are left out, and added, to spend the budget otherwise
_IMPROVED_AGAIN = 3  # of the sets found so that are not lower: how many are improved by swaps


def sets_by_continuation(
    problem: SubsetProblem, start: Iterate, direct: Iterate, support: Features, how: SolverOptions
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
    how : SolverOptions
    """
    largest = float(np.max(problem.sizes(direct.x)[problem.counted(support)], initial=0.0))
    threshold = _LAST_THRESHOLD_SHARE * largest
    if not threshold > _LEAST_THRESHOLD:
        return
    relaxed = problem.relaxed(MCP.from_threshold(threshold))
    for stage, end in continued(relaxed, start, direct, how, _CONTINUATION_TOL, count=problem.k + 1):
        sizes = problem.sizes(end.x)
        counted = problem.counted(np.flatnonzero(sizes))
        largest_k = counted[np.argsort(-sizes[counted], kind="stable")[: problem.k]]
        yield problem.with_unpenalized(largest_k), end, stage.n_grad


def best_by_continuation(swaps: SwapSearch, direct: Fit) -> Fit:
    """Return the best of a fit and the sets that a continuation in the threshold passes."""
    problem, objective, null = cast(SubsetProblem, swaps.problem), swaps.objective, swaps.null
    margins = objective.restrict(problem.unpenalized).margins(null.x[problem.coordinates(problem.unpenalized)])
    if _is_piecewise_linear(problem, margins) or problem.has_many_coordinates or swaps.refits.far is not None:
        return direct
    curvature = np.einsum("jaa->j", objective.feature_hessians_of(margins))
    scale = np.sqrt(np.where(curvature > 0, curvature, 1.0))
    scale[objective.unpenalized] = 1.0
    wide = np.repeat(scale, problem.n_outputs)
    assert null.gradient is not None
    start = Iterate(wide * null.x, null.psi, null.gradient / wide)
    at = Iterate(wide * problem.spread(direct.features, direct.x), direct.psi, start.gradient)
    scaled = replace(problem, objective=objective.scaled(scale))
    size = float(np.max(problem.sizes(start.gradient), initial=0.0))
    null = NullFit(start.x, start.psi, None, size or 1.0)
    how = replace(swaps.how, null=null)
    best, columns = direct, swaps.refits.columns
    columns.forget_many()  # the stages have others
    for features, end, n_grad in sets_by_continuation(scaled, start, at, direct.features, how):
        swaps.n_grad += n_grad
        swaps.check_time()
        if end.stop == "interrupted":
            raise KeyboardInterrupt
        fit = swaps.fitted(features) if problem.k <= MANY_FEATURES else swaps.roughly(features, best)
        columns.forget_many()
        best = fit if fit.psi < best.psi else best
    return best if problem.k <= MANY_FEATURES else swaps.fitted(best.features, best)


def best_along_ray(swaps: SwapSearch, ray: Fit, best: Fit) -> Fit:
    """Return the best fit over the same features from any point of a ray, where ψ may fall without end along it.

    How far out a descent begins then decides where it ends: most samples should still pull, but some no longer.
    """
    size = 0.0 if swaps.objective.attained else float(np.median(np.abs(ray.margins)))
    starts = [replace(ray, x=reach / size * ray.x) for reach in _RAY_STARTS] if size > 0 else []
    fit = lowest([best, *map(swaps.downhill, starts)])
    return best if fit is None or fit is best else best_along_ray(swaps, fit, fit)


def best_from_convex(swaps: SwapSearch, found: Fit) -> Fit:
    """Return the best fit over the features of the answer for the convex start of the loss."""
    if swaps.refits.far is not None:  # a descent from farther out ends in the same place
        return swaps.downhill(found)
    return best_along_ray(swaps, found, swaps.fitted(found.features, found))


def best_far_out(swaps: SwapSearch) -> Fit:
    """Return the best fit over the features of the best one, for a loss whose coefficients may grow far out."""
    best, far = swaps.best, swaps.refits.far
    if far is None:
        return best_along_ray(swaps, best, best)
    return far.best_nearby(best, swaps.refits.dense(best.features), swaps.downhill)


def _is_piecewise_linear(problem: SubsetProblem, margins: Vector) -> bool:
    """Return whether no more samples bend at the null fit than it has coefficients.

    So it is for Huber's loss with residuals far beyond its parabola: second-order models say nothing there.
    """
    objective = problem.objective
    if not isinstance(objective, LinearModel) or math.isfinite(objective.self_concordance):
        return False
    return int(np.count_nonzero(objective.bend_of(margins, True))) <= problem.unpenalized.size


class CostMoves:
    """Starts and moves of a search within a budget of costs.

    Parameters
    ----------
    search : SmoothSearch
        Begun.
    costs : Costs
        Of all features, 0 for unpenalized ones.
    """

    def __init__(self, search: SmoothSearch, costs: Costs) -> None:
        self.search, self.costs = search, costs
        self.problem, self.swaps, self.k = search.problem, search.swaps, search.k

    # --- starts

    def starts(self, null: Fit) -> Iterator[Fit]:
        """Yield sets within the budget from which moves begin."""
        once = self.search.monitor.once
        first = once(lambda: self._added(null, self._affordable_gain, shown=True))
        fit = once(lambda: self._over(null, first))
        self.swaps.keep(fit)
        if self.swaps.is_perfect(fit) or not first.size or self.search.may_end(fit):
            return
        yield fit
        by_cost = once(lambda: self._added(null, self._gain_for_cost))
        yield once(lambda: self._over(null, by_cost))
        yield once(lambda: self._from_above(null, first.size))
        if self.problem.has_many_coordinates:
            return
        for j in dict.fromkeys([*first[:_STARTS_WITHOUT].tolist(), *by_cost[:1].tolist()]):
            self.search.monitor.enter("forward")
            others = once(partial(self._added, null, self._affordable_gain, without=j))
            yield once(partial(self._over, null, others))

    def _over(self, fit: Fit, more: Features) -> Fit:
        return self.swaps.fitted(np.union1d(fit.features, more).astype(np.intp), fit)

    def _added(self, fit: Fit, worth: Worth, without: int | None = None, shown: bool = False) -> Features:
        """Return features that the budget allows besides those of a fit, in the order in which they are added."""
        most = self.k - self.problem.counted(fit.features).size
        return forward(self.swaps, fit, most, without, most if shown else 0, worth)

    def _affordable_gain(self, gain: Vector, features: Features) -> Vector:
        return np.where(self.costs.affordable(features), gain, -np.inf)

    def _gain_for_cost(self, gain: Vector, features: Features) -> Vector:
        """Return what features gain for their cost; those that cost nothing come first."""
        gain = self._affordable_gain(gain, features)
        free = (self.costs.cost == 0) & (gain > 0)
        if np.any(free):
            return np.where(free, gain, -np.inf)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(gain > 0, gain / self.costs.cost, -np.inf)

    def _from_above(self, null: Fit, count: int) -> Fit:
        """Add more than the budget allows, and leave out what is worth least for its cost."""
        possible = self.costs.cost <= self.costs.budget
        most = min(2 * count + 2, max(count, self.search.objective.n_margins - 1))
        more = forward(self.swaps, null, most, worth=lambda gain, _: np.where(possible, gain, -np.inf))
        fit = self._cut(self.swaps.roughly(np.union1d(null.features, more).astype(np.intp), null), True)
        return self._over(fit, self._added(fit, self._affordable_gain))

    def completed(self, features: Features) -> Fit:
        """Return the fit over the most useful of given features that the budget allows, and the most useful others."""
        fit = self._cut(self.swaps.roughly(self.problem.with_unpenalized(features), self.swaps.best), True)
        fit = self.swaps.fitted(fit.features, fit)
        self.swaps.keep(fit)
        return self._over(fit, self._added(fit, self._affordable_gain))

    def _cut(self, fit: Fit, by_cost: bool, held: int | None = None) -> Fit:
        """Remove features, except a fixed one, until the budget allows the others.

        Those go first that are worth least for their cost or, without `by_cost`, the one that is worth least of those
        that are enough.
        """
        while (over := self.problem.counted(fit.features).size > self.k) or not self.problem.allows(fit.features):
            worth, price = losses_without(self.problem, fit), self.costs.cost[fit.features]
            if held is not None:
                worth = np.where(fit.features == held, np.inf, worth)
            places = np.flatnonzero(np.isfinite(worth) & ((price > 0) | over))
            enough = [i for i in places.tolist() if self.problem.allows(np.delete(fit.features, i))]
            if not by_cost and enough:
                leaves = min(enough, key=lambda i: worth[i])
            elif over and self.problem.allows(fit.features):
                leaves = int(places[np.argmin(worth[places])])
            else:
                with np.errstate(divide="ignore", over="ignore"):
                    leaves = int(places[np.argmin(worth[places] / price[places])])
            fit = self.swaps.roughly(np.delete(fit.features, leaves), fit)
        return fit

    # --- moves

    def improved(self, fit: Fit) -> Fit:
        """Swap features, and add more, for as long as that lowers ψ."""
        while True:
            fit = self.swaps.improved(fit)
            if self.swaps.is_perfect(fit) or self.swaps.has_spent_its_work():
                return fit
            more = self.search.monitor.once(partial(self._added, fit, self._affordable_gain))
            if not more.size:
                return fit
            larger = self.search.monitor.once(partial(self._over, fit, more))
            if not self.swaps.lowers(larger, fit):
                return fit
            self.swaps.keep(larger)
            fit = larger

    def by_several(self) -> bool:
        """Return whether a move of several features leads to a lower fit."""
        best = self.swaps.best
        if self.search.start is not None or self.swaps.is_perfect(best) or self.swaps.has_spent_its_work():
            return False
        self.search.monitor.enter("exchanges")
        others: list[Fit] = []
        for way in self.search.monitor.once(lambda: self.ways(best)):
            if not self.search.monitor.may_swap():
                others = []
                break
            fit = self.search.monitor.once(partial(self._by_way, best, way))
            if fit is None:
                continue
            if self.swaps.lowers(fit, best):
                self.search.monitor.step += 1
                self.improved(fit)
                if self.swaps.lowers(self.swaps.best, best):
                    return True
            others.append(fit)
        for fit in sorted(others, key=lambda fit: fit.psi)[:_IMPROVED_AGAIN]:
            self.improved(fit)
            if self.swaps.lowers(self.swaps.best, best):
                return True
        self.swaps.best = best  # whose swaps were examined; what is lower by rounding alone is not better
        return False

    def ways(self, fit: Fit) -> tuple[Way, ...]:
        """Return moves of several features, the most promising first."""
        most = _MOVES_WHERE_EXPENSIVE if self.problem.has_many_coordinates else _MOVES
        worth = losses_without(self.problem, fit)
        droppable = np.flatnonzero(np.isfinite(worth))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rate = worth[droppable] / self.costs.cost[fit.features[droppable]]
        least = droppable[np.argsort(np.where(np.isnan(rate), np.inf, rate), kind="stable")[:most]]
        leave = fit.features[least].tolist()
        gain = self.swaps.estimates(fit).additions()
        gain[~(self.costs.cost <= self.costs.budget)] = -np.inf
        enter = [int(j) for j in np.argsort(-gain, kind="stable")[:most] if gain[j] > 0]
        ways = [(j, False, by_cost) for j in leave for by_cost in (False, True)]
        return (*ways, *((j, True, by_cost) for j in enter for by_cost in (False, True)))

    def _by_way(self, best: Fit, way: Way) -> Fit | None:
        """Return the fit after a move; None where its set was tried before."""
        features = self.after(best, way)
        if features.tobytes() in self.swaps.known or np.array_equal(features, best.features):
            return None
        fit = self.swaps.fitted(features, best)
        self.swaps.known[features.tobytes()] = fit.psi
        return fit

    def after(self, best: Fit, way: Way) -> Features:
        """Return the set to which a move leads."""
        j, is_added, by_cost = way
        if is_added:
            more = self.swaps.roughly(np.union1d(best.features, [j]).astype(np.intp), best)
            fit = self._cut(more, by_cost, held=j)
            new = self._added(fit, self._affordable_gain)
        else:
            fit = self.swaps.roughly(np.setdiff1d(best.features, [j]), best)
            new = self._added(fit, self._gain_for_cost if by_cost else self._affordable_gain, without=j)
        return np.union1d(fit.features, new).astype(np.intp)
