"""Exchanges of one feature for another, for as long as ψ falls, and what is shown when it no longer does.

What is shown rests on refits whose optimality was checked (`Fit.gap`) or on bounds with their rounding (`exchange.py`).
An exchange for which there is neither counts as not examined. Where ψ is not convex a refit is a local one, and so is
what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Features, Vector
from levelprox.certificate.null_model import NullFit
from levelprox.methods.restricted import How
from levelprox.objectives._multiclass import ByClass
from levelprox.problem import FeatureProblem
from levelprox.subset.column_cache import Columns
from levelprox.subset.monitor import Monitor
from levelprox.subset.multiclass_newton import ClassNewton
from levelprox.subset.refit import ROUGH_ACCURACY, Fit, begun_at
from levelprox.subset.second_order import MANY_CLASSES, SecondOrder
from levelprox.subset.swap_bounds import SwapEstimates, least_costs

_ALL = 10**5  # exchanges up to which all of them are examined
_WORK, _ONE = 5 * 10**8, 10**5  # of all refits of an examination, in n (k + 1)², and what one takes besides
_TOP = 50  # that are tried where not all of them are
_FACTORS = 5 * 10**8  # of a softmax model of many classes: m³ for each refit over m coordinates
_SEARCH_FACTORS = 2 * 10**11  # of many classes: m³ for each Newton step, after which no more exchanges are tried
_ROUGH = 1e-3  # of the gradient of the null fit
_MANY_ROUGH = 150  # coordinates of a softmax model beyond which rough fits need no kernel
TRIES = 8  # exchanges that are tried for one that lowers ψ
_PROMISING = 0.1  # of what leaving out costs: by how much an estimate may be off
_LOWER = 1e-10  # of ψ: less is not an improvement
_ROUNDING = 4  # times the resolution of ψ
_CLOSE = 1e-9  # of ψ at the null fit: so much above the infimum is not worth a feature
_VAGUE = 1e-6  # of ψ at the null fit: a fit whose rounding is more than that is not perfect
_SEPARATED = 1e-15  # of ψ at the null fit: separated samples have no loss left
_FAR = 2.0**10  # times x


@dataclass(frozen=True)
class Addition:
    """The best single addition to a fit.

    Attributes
    ----------
    gain : float
        ψ of the fit less ψ with the feature, both refitted; 0 where no feature gains more than rounding.
    feature : int or None
    examined : int
        Features that are shown not to gain more: by a refit whose optimality was checked, or by a bound.
    total : int
        Features outside the fit.
    """

    gain: float
    feature: int | None
    examined: int
    total: int


class SwapSearch(SecondOrder):
    """A search by exchanges: the best fit so far, and what finding it cost.

    Parameters
    ----------
    problem : Problem
        ψ, weights and signs; features of weight 0 are in every fit. Its level does not matter.
    start : Fit
        The null fit, or any other.
    null : NullFit
    tolerance : float
        How well each set is fitted: on ‖∇ψ‖∞ over its features.
    how : How
    prove : bool
        Whether to examine all exchanges whatever that takes.
    tries : int
        How many exchanges that do not lower ψ are tried at one fit.
    columns : Columns, optional
        Of the same features, where they are at hand.

    Attributes
    ----------
    best : Fit
    rough : Fit
        The best of the fits on the way, to about three digits.
    n_grad : int
        Passes over all features.
    n_refits : int
        Fits over a few of them.
    monitor : Monitor
        Reports and limits; without any until another is set.
    newton : callable or None
        Returns the `ClassNewton` that fits large sets on the way of a softmax model.
    """

    def __init__(
        self,
        problem: FeatureProblem,
        start: Fit,
        null: NullFit,
        tolerance: float,
        how: How,
        prove: bool = False,
        tries: int = TRIES,
        columns: Columns | None = None,
    ) -> None:
        super().__init__(problem, how, columns)
        self.best, self.null = start, null
        self.tolerance, self.prove, self.tries = tolerance, prove, tries
        self.monitor = Monitor()
        self.newton: Callable[[], ClassNewton] | None = None
        self.rough = start
        self.n_refits = 0
        self.least = self.objective.infimum
        self.known: dict[bytes, float] = {}

    def fitted(self, features: Features, near: Fit | None = None) -> Fit:
        """ψ minimised over these features, begun at the coefficients of another fit."""
        fit = self.fitted_below(math.inf, features, near)
        assert fit is not None
        return fit

    def fitted_below(self, value: float, features: Features, near: Fit | None = None) -> Fit | None:
        """The same where ψ is below a value, as far as that can be told before the end; else None."""
        self._count_refit()
        return self.refits(features, near or self.best, self.tolerance, value)

    def finish(self) -> None:
        """Fit the best set as well as it can be, where fits on the way take few steps."""
        if self.refits.takes_few_steps(self.best.x.size):
            self.check_time()
            self.keep(self.monitor.once(lambda: self.refits.finished(self.best)))

    def downhill(self, near: Fit) -> Fit:
        """The minimum over the features of another fit that is found from its coefficients; not from anywhere else."""
        self._count_refit()
        fit = self.refits.downhill(near.features, near, self.tolerance, math.inf)
        assert fit is not None
        return fit

    def roughly(self, features: Features, near: Fit) -> Fit:
        """The same to about three digits, where it is but a step on the way."""
        self._count_refit()
        if self.newton is not None and features.size * self.problem.width > _MANY_ROUGH:
            return self._by_newton(self.newton(), features, near)
        fit = self.refits(features, near, max(self.tolerance, _ROUGH * self.null.scale), accuracy=ROUGH_ACCURACY)
        assert fit is not None
        return fit

    def _by_newton(self, newton: ClassNewton, features: Features, near: Fit) -> Fit:
        """A rough fit of a softmax model over columns side by side: nothing is shown of it."""
        width, columns = self.problem.width, newton.columns[features]
        begin = begun_at(near, features, width).reshape(-1, width)
        found = newton.fitted(features, begin, ROUGH_ACCURACY)
        assert found is not None
        z, x = np.ascontiguousarray((found.x.T @ columns + newton.offset).T), found.x.ravel()
        part = cast(ByClass, self.objective.restrict(features))
        return Fit(features, x, found.psi, part.with_tail(z, x))

    def improved(self, fit: Fit) -> Fit:
        """Exchange features one for another for as long as that lowers ψ.

        All that the estimates at one fit promise is tried, the best first, before there are new ones: they cost a pass
        for each feature.
        """
        self.keep(fit)
        if not self.is_perfect(fit) and not self.has_spent_its_work():
            fit = self.monitor.repeated(self._after_swaps, fit)
            self.keep(fit)
        return fit

    def _after_swaps(self, begin: Fit) -> tuple[Fit, bool]:
        """The fit after those promising exchanges that lower ψ, and whether to try more would be of no use."""
        fit, failures = begin, 0
        for leaves, enters in self._promising(fit):
            if leaves not in fit.features or enters in fit.features:
                continue
            costs = self.problem.costs
            if costs is not None and not costs.allows({*fit.features.tolist(), enters} - {leaves}):
                continue  # the budget pays for it no longer
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

    def has_spent_its_work(self) -> bool:
        """Return whether a softmax model of many classes has had all the work that exchanges are worth."""
        many = self.problem.width > MANY_CLASSES and self.objective.only_contrasts
        return many and not self.prove and self.refits.factorised > _SEARCH_FACTORS

    def _swapped(self, fit: Fit, leaves: int, enters: int) -> Fit | None:
        """The fit with one feature for another, where its ψ is lower."""
        features = np.union1d(np.setdiff1d(fit.features, [leaves]), [enters]).astype(np.intp)
        if self.known.get(features.tobytes(), -math.inf) >= fit.psi - self.threshold(fit):
            return None
        new = self.fitted_below(fit.psi, features, fit)
        self.known[features.tobytes()] = fit.psi if new is None else new.psi
        return new if new is not None and self.lowers(new, fit) else None

    def _promising(self, fit: Fit) -> list[tuple[int, int]]:
        """The exchanges (a feature of the fit, another) that gain by the estimates, the best first."""
        estimates = self.estimates(fit)
        found: list[tuple[float, int, int]] = []
        for i in estimates.droppable:
            gain, affordable = estimates.gains(i), self.problem.affordable(fit.features, i)
            if affordable is not None:
                gain[~affordable] = -np.inf
            most = min(TRIES, gain.size)
            top, allowed = np.argpartition(gain, -most)[-most:], self._allowance(estimates, i, fit)
            found += [(-float(gain[j]), int(fit.features[i]), int(j)) for j in top if gain[j] > allowed]
        return [(i, j) for _, i, j in sorted(found)]

    def _allowance(self, estimates: SwapEstimates, i: int, fit: Fit) -> float:
        """How little an exchange may gain by the estimates, to be tried all the same."""
        if self._estimates_are_exact():
            return self.threshold(fit)
        return -_PROMISING * estimates.cost(i)

    def _estimates_are_exact(self) -> bool:
        return self.objective.concordance == 0 and not np.any(self.problem.must_be_nonnegative())

    def examined(self) -> int:
        """Examine exchanges, taking those that lower ψ. Return how many are shown not to lower it in the end.

        ψ falls by more than rounding with each exchange that is taken, so no set comes twice; should refits of one set
        differ by more, a set that comes twice ends this.
        """
        visited = set[bytes]()
        while not self.monitor.held_back and self.best.features.tobytes() not in visited:
            visited.add(self.best.features.tobytes())
            examined, better = self.monitor.once(lambda: self._examine(self.best))
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
        """Return how many exchanges cannot lower ψ, and the fit after one that does, if there is one."""
        total = self.problem.count_swaps(fit.features)
        if self.is_perfect(fit):
            return total if self._is_at_infimum(fit) else 0, None  # nothing is left to gain
        if self.has_spent_its_work():
            return 0, None
        if self._is_convex() and not fit.gap <= self.threshold(fit):
            return 0, None  # nothing can be shown of a fit that is not known to be optimal
        shown, left = self._not_ruled_out(fit)
        tries = _Tries(self, fit)
        for tried, (i, j) in enumerate(left):
            self.monitor.done = tried / len(left)
            if tries.n_refits >= self._most_tries(fit):
                break
            better, excluded = tries(i, j)
            if better is not None:
                return 0, better
            shown += excluded
        return shown, None

    def _not_ruled_out(self, fit: Fit) -> tuple[int, list[tuple[int, int]]]:
        """Return how many exchanges a bound rules out, and the others, those that gain most by the estimates first.

        Those with the same newcomer j follow each other: it is then taken in only once.
        """
        estimates, magnitudes = self.estimates(fit), self.magnitudes
        few = self.problem.counted(fit.features).size * self.problem.n_features <= _ALL
        found: list[tuple[Vector, Features, Features]] = [(np.empty(0), np.empty(0, np.intp), np.empty(0, np.intp))]
        ruled_out = 0
        for i in estimates.droppable:
            gain = estimates.gains(i)
            left, affordable = estimates.outside, self.problem.affordable(fit.features, i)
            newcomers = self.problem.n_features - fit.features.size
            if affordable is not None:
                left, newcomers = left & affordable, int(np.count_nonzero(affordable))
            if self._estimates_are_exact():
                left = left & (estimates.exact_gains(i) > self.threshold(fit))
            elif self.has_bounds():
                left = left & (estimates.bounds(i, magnitudes, self.objective.concordance) > self.threshold(fit))
            ruled_out += newcomers - int(np.count_nonzero(left))
            j = np.flatnonzero(left)
            j = j if few else j[np.argsort(-gain[j], kind="stable")[:_TOP]]
            found.append((gain[j], np.full(j.size, i, np.intp), j))
        gain, out, into = (np.concatenate(part) for part in zip(*found, strict=True))
        best = np.full(self.problem.n_features, -np.inf)
        np.maximum.at(best, into, gain)
        order = np.lexsort((out, -gain, into, -best[into]))
        return ruled_out, list(zip(out[order].tolist(), into[order].tolist(), strict=True))

    def has_bounds(self) -> bool:
        one_sided = bool(np.any(self.problem.must_be_nonnegative()))
        return self.problem.width == 1 and not one_sided and math.isfinite(self.objective.concordance)

    def _most_tries(self, fit: Fit) -> float:
        """How many refits are worth it: all where there are few exchanges, unless that is a lot of work."""
        if self.prove:
            return math.inf
        many = self.problem.width > MANY_CLASSES and self.objective.only_contrasts  # else class by class
        least = min(_TOP, 1 + _FACTORS // (fit.x.size**3 + 1)) if many else _TOP
        if self.problem.counted(fit.features).size * self.problem.n_features > _ALL:
            return least
        return max(least, _WORK // (self.objective.n_margins * (fit.x.size + 1) ** 2 + _ONE))

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
            return Addition(0.0, None, total if self._is_at_infimum(fit) or not np.any(outside) else zero, total)
        estimates = self.estimates(fit)
        gains = estimates.additions()
        bound = np.where(outside, np.inf, -np.inf)
        if self._estimates_are_exact() or self.has_bounds():
            bound = estimates.addition_bounds(self.magnitudes, self.objective.concordance)
            bound = bound if affordable is None else np.where(outside, bound, -np.inf)
        best: tuple[float, int | None] = (0.0, None)
        shown = zero
        order = np.lexsort((-gains, -bound))[: total - zero]
        for place, j in enumerate(order.tolist()):
            if bound[j] <= max(best[0], self.threshold(fit)):
                shown += order.size - place
                break
            if place >= self._most_tries(fit):
                shown += int(np.count_nonzero(bound[order[place:]] <= max(best[0], self.threshold(fit))))
                break
            least = max(best[0], self.threshold(fit))
            larger = self.fitted_below(fit.psi - least, np.union1d(fit.features, [j]).astype(np.intp), fit)
            if larger is None:  # its dual bound shows that it gains no more
                shown += 1
                continue
            gain = fit.psi - larger.psi
            if gain > max(best[0], self.threshold(fit)) and gain > _coarser(larger, fit):
                best = (gain, j)
            shown += self.excludes(larger, fit, max(best[0], 0.0))
        return Addition(*best, shown, total)

    def keep(self, fit: Fit) -> None:
        """Record a fit if it is the best so far. Features whose coefficients are zero are left out of it."""
        lower = fit.psi < self.best.psi - _coarser(fit, self.best)
        if lower if self.refits.convex is None else self.lowers(fit, self.best):
            self.best = self._without_zeros(fit)
            self.monitor.improved(fit.psi, self.problem.counted(self.best.features).size)

    def _without_zeros(self, fit: Fit) -> Fit:
        width = self.problem.width
        counted = np.isin(fit.features, self.problem.counted(fit.features))
        used = ~counted | np.any(fit.x.reshape(-1, width) != 0, axis=1)
        if np.all(used):
            return fit
        places = np.repeat(used, width)
        hessian = None if fit.hessian is None else fit.hessian[np.ix_(places, places)]
        return replace(fit, features=fit.features[used], x=fit.x[places], hessian=hessian)

    def remember(self, fit: Fit) -> None:
        """Keep a fit on the way, for want of a better one."""
        if fit.psi < min(self.rough.psi, self.best.psi):
            self.rough = fit
            self.monitor.improved(fit.psi, self.problem.counted(fit.features).size)

    def best_so_far(self) -> Fit:
        """What to return where the search is cut short: a fit on the way, should that be the best."""
        return min(self.best, self.rough, key=lambda fit: fit.psi)

    def threshold(self, fit: Fit) -> float:
        """Return by how much ψ must fall below that of a fit to be lower: less is rounding."""
        above = fit.psi - self.least if math.isfinite(self.least) else abs(fit.psi)
        return _LOWER * max(above, 0.0) + _ROUNDING * fit.resolution

    def lowers(self, new: Fit, fit: Fit) -> bool:
        return new.psi < fit.psi - self.threshold(fit) - _coarser(new, fit)

    def excludes(self, new: Fit, fit: Fit, gain: float = 0.0) -> bool:
        """Return whether a refit shows that its features do not lower ψ of another fit by more than a gain."""
        if not self._is_convex():
            return True  # a local refit: what it shows is of its neighbourhood
        return new.psi - new.gap >= fit.psi - gain - 2 * self.threshold(fit)

    def _is_convex(self) -> bool:
        return self.objective.convex_start is None

    def is_perfect(self, fit: Fit) -> bool:
        """Return whether no fit is lower by more than rounding: ψ has reached the infimum 0 of the loss.

        Far out along x counts, where x separates the classes.
        """
        if not (self.objective.bounded_by_zero and self.null.psi > 0):
            return False
        if fit.psi <= min(self.threshold(fit), _VAGUE * self.null.psi):
            return True
        if self.objective.attained:
            return False
        origin = self.objective.origin
        with np.errstate(over="ignore", invalid="ignore"):
            far = self.objective.value_of(origin + _FAR * (fit.margins - origin))
        return far <= min(_SEPARATED * self.null.psi, fit.psi)

    def _is_at_infimum(self, fit: Fit) -> bool:
        """Return whether ψ of a perfect fit is next to nothing at x itself, and not only farther out along x."""
        return fit.psi - self.least <= max(_CLOSE * self.null.psi, min(self.threshold(fit), _VAGUE * self.null.psi))

    def as_state(self) -> dict[str, Any]:
        """What has been found, as plain data; columns are no part of it, they are what they are."""
        return {
            "best": self.best,
            "rough": self.rough,
            "known": known_as_arrays(self.known),
            "n_grad": self.n_grad,
            "n_refits": self.n_refits,
            "factorised": self.refits.factorised,
        }

    def take(self, state: dict[str, Any]) -> None:
        """Go on from what `as_state` gave."""
        self.best, self.rough = state["best"], state["rough"]
        self.known = known_of_arrays(state["known"])
        self.n_grad, self.n_refits = state["n_grad"], state["n_refits"]
        self.refits.factorised = state.get("factorised", 0)  # not in a state of version 0.1

    def _count_refit(self) -> None:
        self.check_time()
        self.n_refits += 1
        self.monitor.n_refits = self.n_refits


def _coarser(new: Fit, fit: Fit) -> float:
    """Return by how much more rounding may change ψ of one fit than of another: large coefficients that cancel do."""
    return new.resolution - fit.resolution if new.resolution > fit.resolution else 0.0


def known_as_arrays(known: dict[bytes, float]) -> tuple[Features, NDArray[np.int64], Vector]:
    """ψ of the sets that were tried, as plain data: their features one after another, how many bytes each has, ψ."""
    lengths = np.array([len(one) for one in known], np.int64)
    return np.frombuffer(b"".join(known), np.intp), lengths, np.array(list(known.values()), np.float64)


def known_of_arrays(arrays: tuple[Features, NDArray[np.int64], Vector]) -> dict[bytes, float]:
    """What `known_as_arrays` was given."""
    features, lengths, values = arrays
    ends, data = np.cumsum(lengths).tolist(), features.tobytes()
    return {data[a:b]: psi for a, b, psi in zip([0, *ends[:-1]], ends, values.tolist(), strict=True)} if ends else {}


class _Tries:
    """Exchanges of a fit, tried one after another.

    Feature j is taken in first, which bounds what leaving out any i then costs; only where that is not enough, i is
    left out.
    """

    def __init__(self, search: SwapSearch, fit: Fit) -> None:
        self.search, self.fit, self.n_refits = search, fit, 0
        self.taken_in: tuple[int, Fit, Vector] | None = None

    def __call__(self, i: int, j: int) -> tuple[Fit | None, bool]:
        """Return the fit with feature j for the i-th one if its ψ is lower, and whether it is shown not to be."""
        search, fit = self.search, self.fit
        larger, costs = self._with(j)
        dropped = fit.features[i]
        above = larger.lower_bound + costs[np.searchsorted(larger.features, dropped)] >= fit.psi - search.threshold(fit)
        if above and search.has_bounds():
            return None, True
        self.n_refits += 1
        new = search.fitted_below(fit.psi, larger.features[larger.features != dropped], larger)
        if new is None:
            return None, True
        return (new, False) if search.lowers(new, fit) else (None, search.excludes(new, fit))

    def _with(self, j: int) -> tuple[Fit, Vector]:
        """Return the fit with feature j as well, and what leaving out each of its features costs at least."""
        if self.taken_in is None or self.taken_in[0] != j:
            search = self.search
            place = int(np.searchsorted(self.fit.features, j))
            larger = search.fitted(np.insert(self.fit.features, place, j), self.fit)
            self.n_refits += 1
            costs = np.zeros(larger.features.size)
            if search.has_bounds():
                costs = least_costs(search.problem, larger, search.magnitudes, search.objective.concordance)
            self.taken_in = j, larger, costs
        return self.taken_in[1:]
