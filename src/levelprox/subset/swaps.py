"""Swaps of one feature for another for as long as ψ decreases, and the claims at the end.

What is shown rests on refits whose optimality was checked (`Fit.gap`) or on bounds with their rounding
(`swap_bounds.py`, `column_fits_additions.hpp`). A swap for which there is neither counts as not examined. Where ψ is
not convex a refit is a local one, and so is what it shows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from levelprox._kernels import GramSearch, SwapEnd, SwapExamination
from levelprox._typing import Features, Index, Mask, Vector
from levelprox.subset.fit import Fit
from levelprox.subset.forward import in_order
from levelprox.subset.refit import ACCURACY
from levelprox.subset.result import Addition
from levelprox.subset.second_order import MANY_CLASSES, TRIES, SetFits, coarser
from levelprox.subset.swap_bounds import MANY_FEATURES, SwapEstimates, least_costs

_ALL_SWAPS = 10**5  # up to which all of them are examined
_REFIT_WORK = 5 * 10**8  # of all refits of an examination, in n (k + 1)²
_REFIT_OVERHEAD, _RULED_OUT_SHARE = 10**5, 1 / 16  # what one takes besides; a bound on a newcomer, of a refit
_TOP_SWAPS = 50  # that are tried where not all of them are
_EXAMINATION_FACTOR_WORK = 5 * 10**8  # of a softmax model of many classes: m³ for each refit over m coordinates
_MOST_REFITS = 10**9  # of one call of the kernel
# Newcomers of an examination that the kernel is given at once, and where bounds rule most of them out.
_TOGETHER, _MOST_TOGETHER = 16, 256
_SAMPLED_FEATURES = 8  # of a large fit, whose bounds are tried first
_PROMISING_SHARE = 0.1  # of what leaving out costs: by how much an estimate may be off


class SwapsLeft:
    """Swaps that no bound rules out, by newcomers: those with the largest estimated gains first.

    Parameters
    ----------
    gain, leaves, enters : ndarray
        Of each swap: the estimated gain, the place in the fit of the feature that leaves (ascending), and the newcomer.

    Attributes
    ----------
    newcomers : ndarray of int
        In the order of the largest gains.
    """

    def __init__(self, gain: Vector, leaves: Features, enters: Features) -> None:
        order = np.lexsort((-gain, enters))
        gain, self._leaves = gain[order], leaves[order]
        newcomers, first = np.unique(enters[order], return_index=True)
        by_gain = np.argsort(-gain[first], kind="stable")
        self.newcomers = newcomers[by_gain]
        self._begin, self._end = first[by_gain], np.append(first[1:], enters.size)[by_gain]

    def listed(self, begin: int, end: int) -> list[tuple[int, list[int]]]:
        """Return some newcomers, each with the places in the fit of the features that may leave for it."""
        some = zip(self.newcomers[begin:end].tolist(), self._begin[begin:end], self._end[begin:end], strict=True)
        return [(j, self._leaves[a:b].tolist()) for j, a, b in some]


def _next_count(count: int, n_refits: int) -> int:
    """Return how many newcomers to examine next, after some that took so many refits."""
    return min(2 * count, _MOST_TOGETHER) if 2 * n_refits < count else _TOGETHER


class SwapSearch(SetFits):
    """A search by swaps; the parameters and attributes are those of `SetFits`.

    Attributes
    ----------
    most_refits : float
        After which no more swaps are tried.
    has_tried_elimination : bool
        Whether the start by elimination has been tried.
    latest_model : (Fit, GramSearch or None) or None
        The second-order model at a fit, from which starts come (`starts.py`).
    """

    most_refits = math.inf
    has_tried_elimination = False
    latest_model: tuple[Fit, GramSearch | None] | None = None
    _latest: tuple[Fit, SwapEstimates, bool] | None = None
    _examination: tuple[Fit, SwapExamination] | None = None

    def has_spent_its_work(self) -> bool:
        """Return whether a search for many features, or of many classes, has had all the work that swaps are worth."""
        return (self.n_refits >= self.most_refits and not self.prove) or super().has_spent_its_work()

    def estimates_of_swaps(self, fit: Fit, exact: bool = True) -> SwapEstimates:
        """Return second-order estimates at a fit, which are not to be changed; those of the last fit are kept."""
        exact = exact or not self._keeps_columns
        if self._latest is None or self._latest[0] is not fit or (exact and not self._latest[2]):
            self._latest = fit, self.estimates(fit, exact), exact
        return self._latest[1]

    def improved(self, fit: Fit) -> Fit:
        """Swap features for as long as that lowers ψ.

        All promising swaps of one set of estimates are tried, the best first, before the next estimates: these cost a
        pass for each feature.
        """
        self.keep(fit)
        if not self.is_perfect(fit) and not self.has_spent_its_work():
            fit = self.monitor.repeated(self._after_swaps, fit)
            self.keep(fit)
        return fit

    def _after_swaps(self, begin: Fit) -> tuple[Fit, bool]:
        """Return the fit after those promising swaps that lower ψ, and whether there is no use in trying more."""
        fit, failures = begin, 0
        promising = self._promising(fit, self.estimates_of_swaps(fit, exact=False))
        self.refits.stored.prefetch(np.array([enters for _, enters in promising[: 2 * self.tries]], np.intp))
        for leaves, enters in promising:
            if leaves not in fit.features or enters in fit.features:
                continue
            costs = self.problem.costs
            if costs is not None and not costs.allows({*fit.features.tolist(), enters} - {leaves}):
                continue  # the budget no longer pays for it
            if self.has_spent_its_work() or not self.monitor.may_swap():
                return fit, True
            new = self._swapped(fit, leaves, enters)
            if new is None:
                failures += 1
                if failures == self.tries:
                    break
            else:
                fit = new
                self.monitor.step += 1
                self.keep(fit)
        return fit, self.is_perfect(fit) or not fit.psi < begin.psi

    def _swapped(self, fit: Fit, leaves: int, enters: int) -> Fit | None:
        """Return the fit after a swap, where its ψ is lower."""
        features = np.union1d(np.setdiff1d(fit.features, [leaves]), [enters]).astype(np.intp)
        if self.known.get(features.tobytes(), -math.inf) >= fit.psi - self.threshold(fit):
            return None
        new = self.fitted_below(fit.psi, features, fit)
        self.known[features.tobytes()] = fit.psi if new is None else new.psi
        return new if new is not None and self.lowers(new, fit) else None

    def _promising(self, fit: Fit, estimates: SwapEstimates) -> list[tuple[int, int]]:
        """Return the swaps (a feature of the fit, another) that gain by the estimates, the best first."""
        found: list[tuple[float, int, int]] = []
        for i in estimates.droppable:
            gain, affordable = estimates.gains(i), self.problem.affordable(fit.features, i)
            if affordable is not None:
                gain[~affordable] = -np.inf
            most = min(TRIES, gain.size)
            top = np.argpartition(gain, -most)[-most:]
            least = self.threshold(fit) if self._estimates_are_exact() else -_PROMISING_SHARE * estimates.cost(i)
            found += [(-float(gain[j]), int(fit.features[i]), int(j)) for j in top if gain[j] > least]
        return [(i, j) for _, i, j in sorted(found)]

    def _estimates_are_exact(self) -> bool:
        return self.objective.self_concordance == 0 and not np.any(self.problem.must_be_nonnegative())

    def examined(self) -> int:
        """Examine swaps, taking those that lower ψ. Return how many are shown not to lower it in the end.

        ψ falls by more than rounding with each swap that is taken, so no set comes twice; should refits of one set
        differ by more, a set that comes twice ends this.
        """
        visited = set[bytes]()
        while not self.monitor.held_back and self.best.features.tobytes() not in visited:
            visited.add(self.best.features.tobytes())
            examined, better = self.monitor.once(partial(self._examine, self.best))
            if better is None:
                return examined
            if self.monitor.may_swap():
                self.monitor.step += 1
                before = self.best
                self.improved(better)
                if self.best is before:  # rounding: the set that seemed better is not
                    return 0
        return 0

    def _examine(self, fit: Fit) -> tuple[int, Fit | None]:
        """Return how many swaps cannot lower ψ, and the fit after one that does, if there is one."""
        total = self.problem.count_swaps(fit.features)
        if self.is_perfect(fit):
            return total if self.is_at_infimum(fit) else 0, None  # nothing is left to gain
        # Nothing can be shown of a fit that is not known to be optimal.
        if self.has_spent_its_work() or (self.is_convex and not fit.gap <= self.threshold(fit)):
            return 0, None
        estimates, late = self.estimates_of_swaps(fit), self._bounds_are_slow(fit)
        shown, left = self._not_ruled_out(fit, estimates, bounded=not late)
        most, n_refits, place, count = self._most_tries(fit), 0, 0, _TOGETHER
        while place < left.newcomers.size and n_refits < most:
            self.monitor.done = place / left.newcomers.size
            together = left.listed(place, place + count)
            examined, more, refits, leaves = self._by_kernel(fit, together, most - n_refits)
            count = _next_count(count, refits)
            shown, n_refits, place = shown + more, n_refits + refits, place + examined
            if examined < len(together) and n_refits < most:  # the next lowers ψ, or takes more than the kernel
                j, leaving = together[examined]
                better = self._swapped(fit, int(fit.features[leaves]), j) if leaves >= 0 else None
                if better is None:
                    more, refits, better = self._with_newcomer(fit, j, leaving, most - n_refits)
                if better is not None:
                    return 0, better
                shown, n_refits, place = shown + more, n_refits + refits, place + 1
        return max(shown, self._ruled_out(fit, estimates)) if late else shown, None

    def _by_kernel(self, fit: Fit, newcomers: list[tuple[int, list[int]]], most: float) -> tuple[int, int, int, int]:
        """Examine newcomers by compiled refits, until one lowers ψ, or a refit fails.

        Return how many newcomers were examined, how many swaps do not lower ψ, the number of refits, and the place of
        the feature for which the next newcomer lowers ψ, or −1.
        """
        features = np.array([j for j, _ in newcomers], np.intp)
        if not self.is_convex or not self.refits.has_kernel(np.append(fit.features, features)):
            return 0, 0, 0, -1
        self.check_time()
        columns, leaving = self._kernel_columns(features), [places for _, places in newcomers]
        found = self._examination_of(fit).examine(columns, leaving, int(min(most, _MOST_REFITS)))
        end, last, leaves, shown, n_refits = found
        self.n_refits += n_refits
        self.monitor.n_refits = self.n_refits
        return len(newcomers) if end is SwapEnd.EXAMINED else last, shown, n_refits, leaves

    def _examination_of(self, fit: Fit) -> SwapExamination:
        """Return the compiled examination of the swaps of a fit; that of the last fit is kept."""
        if self._examination is None or self._examination[0] is not fit:
            inside, figures = self._kernel_columns(fit.features), self._figures_of(fit)
            at = self.refits.compiled[0], inside, fit.x.tolist(), *figures, self.objective.self_concordance
            self._examination = fit, SwapExamination(*at)
        return self._examination[1]

    def _kernel_columns(self, features: Features) -> tuple[list[Vector], list[Index | None], list[float], list[float]]:
        ridge = self.refits.ridge
        held: list[float] = [] if ridge is None else ridge.restrict(features).own.tolist()
        return *self.refits.stored.arrays(features), self.magnitudes[features].tolist(), held

    def _figures_of(self, fit: Fit) -> tuple[float, float, float, float, float]:
        return fit.psi, fit.resolution, self.threshold(fit), self.tolerance, ACCURACY

    def _with_newcomer(self, fit: Fit, j: int, leaving: list[int], most: float) -> tuple[int, int, Fit | None]:
        """Return how many swaps for one newcomer cannot lower ψ, the number of refits, and a fit that is lower."""
        far, place = self.refits.far, int(np.searchsorted(fit.features, j))
        shown, n_refits, features = 0, int(far is None), np.insert(fit.features, place, j)
        larger = self.fitted(features, fit) if far is None else far.with_zero(fit, place, j)  # bounds costs of i
        costs = np.zeros(larger.features.size)
        if self.has_bounds():
            costs = least_costs(self.problem, larger, self.magnitudes, self.objective.self_concordance)
        for i in leaving:
            stays = larger.features != fit.features[i]
            if self.has_bounds() and larger.lower_bound + costs[~stays][0] >= fit.psi - self.threshold(fit):
                shown += 1
                continue
            if n_refits >= most:
                break
            n_refits += 1
            new = self.fitted_below(fit.psi, larger.features[stays], larger)
            if new is not None and self.lowers(new, fit):
                return 0, n_refits, new
            shown += new is None or self.excludes(new, fit)
        return shown, n_refits, None

    def _swaps_are_few(self, fit: Fit) -> bool:
        return self.problem.counted(fit.features).size * self.problem.n_features <= _ALL_SWAPS

    def _bounds_are_slow(self, fit: Fit) -> bool:
        """Return whether bounds of all swaps take longer than a few refits: of many features and changing curvature.

        Refits then come first: most often they find a swap that lowers ψ.
        """
        many = fit.features.size > MANY_FEATURES and not self._swaps_are_few(fit)
        return many and self.has_bounds() and not self._estimates_are_exact() and not self.prove

    def _ruled_out(self, fit: Fit, estimates: SwapEstimates) -> int:
        """Return how many swaps a bound rules out; 0 where those of a few features of the fit rule out none."""
        by_cost = sorted(estimates.droppable, key=estimates.cost)
        some = by_cost[:: max(1, len(by_cost) // _SAMPLED_FEATURES)]
        found = {i: self._left_for(fit, estimates, i, True)[1] for i in some}
        zero = min(self._left_for(fit, estimates, i, False)[1] for i in some)
        if max(found.values()) <= zero:
            return 0
        rest = (i for i in by_cost if i not in found)
        return sum(found.values()) + sum(self._left_for(fit, estimates, i, True)[1] for i in rest)

    def _left_for(self, fit: Fit, estimates: SwapEstimates, i: int, bounded: bool) -> tuple[Mask, int]:
        """Return which features may take the place of the i-th, and how many others zero columns or bounds rule out."""
        left, affordable = estimates.outside, self.problem.affordable(fit.features, i)
        newcomers = self.problem.n_features - fit.features.size
        if affordable is not None:
            left, newcomers = left & affordable, int(np.count_nonzero(affordable))
        if bounded and (bounds := self.gain_bounds(estimates, i)) is not None:
            left = left & (bounds > self.threshold(fit))
        return left, newcomers - int(np.count_nonzero(left))

    def _not_ruled_out(self, fit: Fit, estimates: SwapEstimates, bounded: bool) -> tuple[int, SwapsLeft]:
        """Return how many swaps a bound rules out, and the others."""
        few = self._swaps_are_few(fit)
        found: list[tuple[Vector, Features, Features]] = [(np.empty(0), np.empty(0, np.intp), np.empty(0, np.intp))]
        ruled_out = 0
        for i in estimates.droppable:
            gain = estimates.gains(i)
            left, more = self._left_for(fit, estimates, i, bounded)
            ruled_out += more
            j = np.flatnonzero(left)
            j = j if few else j[in_order(gain[j], _TOP_SWAPS)]
            found.append((gain[j], np.full(j.size, i, np.intp), j))
        return ruled_out, SwapsLeft(*(np.concatenate(part) for part in zip(*found, strict=True)))

    def gain_bounds(self, estimates: SwapEstimates, i: int) -> Vector | None:
        """Return what swapping the i-th feature of a fit for each other gains at most; None: there are no bounds."""
        if self._estimates_are_exact():
            return estimates.exact_gains(i)
        if not self.has_bounds():
            return None
        return estimates.bounds(i, self.magnitudes, self.objective.self_concordance)

    def has_bounds(self) -> bool:
        """Return whether there are bounds on what swaps and additions gain."""
        one_sided = bool(np.any(self.problem.must_be_nonnegative()))
        return self.problem.n_outputs == 1 and not one_sided and math.isfinite(self.objective.self_concordance)

    def _most_tries(self, fit: Fit) -> float:
        """Return how many refits are worth it: all where there are few swaps, unless that is a lot of work."""
        if self.prove:
            return math.inf
        many = self.problem.n_outputs > MANY_CLASSES and self.objective.only_contrasts  # else class by class
        least = min(_TOP_SWAPS, 1 + _EXAMINATION_FACTOR_WORK // (fit.x.size**3 + 1)) if many else _TOP_SWAPS
        if not self._swaps_are_few(fit):
            return min(least, max(TRIES, least * MANY_FEATURES // fit.features.size))
        work = _REFIT_WORK if self.refits.far is None else self.refits.far.work * _REFIT_WORK
        return max(least, work // (self.objective.n_margins * (fit.x.size + 1) ** 2 + _REFIT_OVERHEAD))

    def best_addition(self) -> Addition:
        """Return what one more feature gains.

        Features are refitted in the order of their bounds, until no bound of another is above the best gain, or the
        refits are more work than is worth it. Under a budget only features count that what is left of it pays for.
        """
        fit = self.best
        outside = self.outside(fit)
        total, affordable = self.problem.n_features - fit.features.size, self.problem.affordable(fit.features)
        if affordable is not None:
            outside, total = outside & affordable, int(np.count_nonzero(affordable))
        zero = total - int(np.count_nonzero(outside))  # columns of zeros gain nothing
        if self.is_perfect(fit) or not np.any(outside):
            return Addition(0.0, None, total if self.is_at_infimum(fit) or not np.any(outside) else zero, total)
        estimates = self.estimates_of_swaps(fit)
        gains = estimates.additions()
        bound = np.where(outside, np.inf, -np.inf)
        if self._estimates_are_exact() or self.has_bounds():
            bound = estimates.addition_bounds(self.magnitudes, self.objective.self_concordance)
            bound = bound if affordable is None else np.where(outside, bound, -np.inf)
        order = np.lexsort((-gains, -bound))[: total - zero]
        best, shown, place, most = Addition(0.0, None, 0, total), zero, 0, self._most_tries(fit)
        count = 1
        while place < order.size:
            least, some = max(best.gain, self.threshold(fit)), order[place : place + count]
            if bound[some[0]] <= least:
                shown += order.size - place
                break
            if most < 1:
                shown += int(np.count_nonzero(bound[order[place:]] <= least))
                break
            best, tried, n_refits = self._added(fit, some[bound[some] > least], bound, best, most)
            shown, place = shown + best.examined, place + tried
            most -= n_refits + _RULED_OUT_SHARE * (tried - n_refits)
            count = _next_count(count, n_refits)
        return replace(best, examined=shown)

    def best_of(self, fit: Fit, newcomers: Features, gain: float) -> int | None:
        """Return the feature of these that lowers ψ most, by more than a gain; None if there is none."""
        best, place, bound = Addition(gain, None, 0, 0), 0, np.full(self.problem.n_features, np.inf)
        while place < newcomers.size:
            best, tried, _ = self._added(fit, newcomers[place:], bound, best, math.inf)
            place += tried
        return best.feature

    def _added(self, fit: Fit, some: Features, bound: Vector, best: Addition, most: float) -> tuple[Addition, int, int]:
        """Return the best of an addition and of newcomers, how many of these were tried, and how many refitted."""
        failed, tried, n_refits, shown, place, gain = True, 0, 0, 0, -1, best.gain
        if self.is_convex and self.refits.has_kernel(np.append(fit.features, some)):
            self.check_time()
            inside, others = self._kernel_columns(fit.features), self._kernel_columns(some)
            figures = *self._figures_of(fit), int(min(most, _MOST_REFITS))
            failed, tried, n_refits, shown, place, gain = self.refits.compiled[0].best_addition(
                inside, fit.x.tolist(), others, bound[some].tolist(), best.gain, *figures
            )
            self.n_refits += n_refits
        best = replace(best, gain=gain, feature=best.feature if place < 0 else int(some[place]), examined=shown)
        if not failed:
            return best, tried, n_refits
        least, j = max(best.gain, self.threshold(fit)), int(some[tried])
        larger = self.fitted_below(fit.psi - least, np.union1d(fit.features, [j]).astype(np.intp), fit)
        if larger is None:  # its dual bound shows that it gains no more
            return replace(best, examined=shown + 1), tried + 1, n_refits + 1
        gain = fit.psi - larger.psi
        if gain > least and gain > coarser(larger, fit):
            best = replace(best, gain=gain, feature=j)
        examined = shown + self.excludes(larger, fit, max(best.gain, 0.0))
        return replace(best, examined=examined), tried + 1, n_refits + 1
