"""Swaps of one feature for another that hardly change the loss: those with a loss of at most a given value.

A swap is counted where a refit attains a loss of at most that value. It is ruled out where a bound (`swap_bounds.py`)
or a refit whose optimality was checked shows that the loss stays above. All others count as not examined: those for
which neither is known, and those that would take more refits than are allowed. Where ψ is not convex, refits are local.

A feature without which the loss is at most that value, refitted, can be swapped for any other: the same coefficients
attain it. Only a few of these swaps are then refitted, those that gain most by the estimates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from levelprox._typing import Features
from levelprox.subset.fit import Fit
from levelprox.subset.nonsmooth_refit import ExactFit, ExactRefits
from levelprox.subset.swaps import SwapSearch

_LOWER_SHARE = 1e-10  # of ψ: less is rounding
_REFITTED_PER_DISPENSABLE = 3  # swaps of a feature that can be left out


@dataclass(frozen=True)
class NearSwap:
    """One swap.

    Attributes
    ----------
    leaves, enters : int
        The features.
    psi : float
        ψ after the swap, refitted.
    """

    leaves: int
    enters: int
    psi: float


@dataclass
class NearSwaps:
    """The swaps of a fit that leave ψ at most at a value.

    Attributes
    ----------
    most : float
        That value.
    total : int
        Swaps of each feature of the fit.
    dispensable : set of int
        Features of the fit without which ψ is at most that value: all of their swaps leave it there.
    within : list of NearSwap
        Those that do and were refitted, the lowest ψ first; of dispensable features only some of them, and only such
        that lower ψ below what it is without either feature.
    examined : dict of int to int
        For each feature of the fit that counts, how many of its swaps were examined.
    n_refits : int
    undecided : int
        Swaps that were refitted, but whose refit is above `most` and not known to be optimal.
    """

    most: float
    total: int
    dispensable: set[int] = field(default_factory=set)
    within: list[NearSwap] = field(default_factory=list)
    examined: dict[int, int] = field(default_factory=dict)
    n_refits: int = 0
    undecided: int = 0

    def sort(self) -> None:
        """Sort the swaps by ψ, those with the lowest ψ first."""
        self.within.sort(key=lambda swap: (swap.psi, swap.leaves, swap.enters))


def near_swaps(
    swaps: SwapSearch, fit: Fit, most: float, n_refits: float, without: Mapping[int, float] | None = None
) -> NearSwaps:
    """Return the swaps of a fit that leave ψ at most at `most`, where ψ is twice differentiable.

    Parameters
    ----------
    swaps : SwapSearch
        Of the problem.
    fit : Fit
        Where ψ is convex and the fit is known to be optimal, bounds rule swaps out.
    most : float
    n_refits : float
        How many refits are allowed. Swaps that gain most by the estimates are refitted first.
    without : dict of int to float, optional
        ψ refitted without each feature of the fit, where that is known.
    """
    return _Enumeration(swaps, fit, most, n_refits, without or {})()


class _Enumeration:
    """The swaps of one fit, examined one after another."""

    def __init__(self, swaps: SwapSearch, fit: Fit, most: float, n_refits: float, without: Mapping[int, float]) -> None:
        self.swaps, self.fit, self.n_refits, self.without = swaps, fit, n_refits, without
        self.estimates = swaps.estimates(fit)
        self.found = NearSwaps(most, int(np.count_nonzero(self.estimates.outside)))
        self.convex = swaps.objective.convex_start is None
        self.rounding = swaps.threshold(fit)

    def __call__(self) -> NearSwaps:
        try:
            for leaves, enters in self._not_ruled_out():
                if self.found.n_refits >= self.n_refits:
                    break
                self._examine(leaves, enters)
            self._look_for_better()
        except TimeoutError:  # the others are not examined
            pass
        self.found.sort()
        return self.found

    def _not_ruled_out(self) -> list[tuple[int, int]]:
        """Return the swaps that no bound at the fit rules out, those that gain most by the estimates first."""
        estimates, found = self.estimates, self.found
        margin = found.most - self.fit.psi
        known = self.convex and self.fit.gap <= self.rounding  # bounds are those at an optimal fit
        left = list[tuple[float, int, int]]()
        for i in estimates.droppable:
            leaves = int(self.fit.features[i])
            if self.without.get(leaves, math.inf) <= found.most:
                found.dispensable.add(leaves)
                found.examined[leaves] = found.total
                continue
            gain, possible = estimates.gains(i), estimates.outside
            if known and (bounds := self.swaps.gain_bounds(estimates, i)) is not None:
                possible = possible & (bounds >= -margin)
            found.examined[leaves] = found.total - int(np.count_nonzero(possible))
            left += [(-float(gain[j]), leaves, int(j)) for j in np.flatnonzero(possible)]
        return [(leaves, enters) for _, leaves, enters in sorted(left)]

    def _examine(self, leaves: int, enters: int) -> None:
        """Refit one swap."""
        new, found = self._swapped(leaves, enters), self.found
        if new is not None and new.psi <= found.most:
            found.within.append(NearSwap(leaves, enters, new.psi))
        elif new is not None and self.convex and not new.lower_bound > found.most:
            found.undecided += 1
            return
        found.examined[leaves] += 1

    def _look_for_better(self) -> None:
        """Refit a few swaps of features that can be left out: those that lower ψ below what it is without them."""
        estimates = self.estimates
        for i in estimates.droppable:
            leaves = int(self.fit.features[i])
            if leaves in self.found.dispensable:
                gain = estimates.gains(i)
                for j in np.argsort(-gain, kind="stable")[: min(_REFITTED_PER_DISPENSABLE, self.found.total)].tolist():
                    new = self._swapped(leaves, j)
                    if new is not None and new.psi < self.without[leaves] - self.rounding:
                        self.found.within.append(NearSwap(leaves, j, new.psi))

    def _swapped(self, leaves: int, enters: int) -> Fit | None:
        """Return the fit after a swap; None where it is shown to be above the value."""
        features = np.union1d(np.setdiff1d(self.fit.features, [leaves]), [enters]).astype(np.intp)
        self.found.n_refits += 1
        return self.swaps.fitted_below(math.nextafter(self.found.most, math.inf), features, self.fit)


def near_swaps_with_kinks(
    refits: ExactRefits,
    fit: ExactFit,
    outside: Features,
    most: float,
    n_refits: float,
    seconds_left: Callable[[], float],
    without: Mapping[int, float] | None = None,
) -> NearSwaps:
    """Return the same where the loss has kinks.

    Each feature outside is added first: the dual solution of that refit bounds what leaving out another feature then
    costs at least.

    Parameters
    ----------
    refits : ExactRefits
        Of the problem.
    fit : ExactFit
    outside : ndarray of int
        Features to add, those first that are to be examined first.
    most : float
    n_refits : float
    seconds_left : callable
    without : dict of int to float, optional
        As in `near_swaps`.
    """
    known, counted = without or {}, refits.problem.counted(fit.features).tolist()
    found = NearSwaps(most, int(outside.size), examined=dict.fromkeys(counted, 0))
    found.dispensable = {leaves for leaves in counted if known.get(leaves, math.inf) <= most}
    found.examined.update(dict.fromkeys(found.dispensable, found.total))

    def refitted(features: Features, near: Fit) -> ExactFit:
        if seconds_left() <= 0:
            raise TimeoutError
        found.n_refits += 1
        return refits(features, near, seconds_left)

    try:
        for tried, enters in enumerate(outside.tolist()):
            leaving = [i for i in counted if tried < _REFITTED_PER_DISPENSABLE or i not in found.dispensable]
            if found.n_refits + 1 + len(leaving) > n_refits or not leaving:
                break
            larger = refitted(np.union1d(fit.features, [enters]).astype(np.intp), fit)
            least = larger.psi - larger.error + larger.removal
            for leaves in leaving:
                limit = known[leaves] if leaves in found.dispensable else most
                if not least[np.searchsorted(larger.features, leaves)] > limit:
                    new = refitted(np.setdiff1d(larger.features, [leaves]).astype(np.intp), larger)
                    if leaves in found.dispensable:
                        if new.psi < limit - _LOWER_SHARE * abs(limit) - 2 * new.rounding:
                            found.within.append(NearSwap(leaves, enters, new.psi))
                        continue
                    if new.psi <= most:
                        found.within.append(NearSwap(leaves, enters, new.psi))
                    elif not new.psi - new.error > most:
                        found.undecided += 1
                        continue
                found.examined[leaves] += leaves not in found.dispensable
    except TimeoutError:
        pass
    found.sort()
    return found
