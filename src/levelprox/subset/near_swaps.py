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
from contextlib import suppress
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

    def sorted(self) -> NearSwaps:
        """Return the same with the swaps sorted by ψ, those with the lowest ψ first."""
        self.within.sort(key=lambda swap: (swap.psi, swap.leaves, swap.enters))
        return self


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
    estimates, known = swaps.estimates(fit), without or {}
    found = NearSwaps(most, int(np.count_nonzero(estimates.outside)))
    rounding, above = swaps.threshold(fit), math.nextafter(most, math.inf)
    has_bounds = swaps.is_convex and fit.gap <= rounding  # bounds are those at an optimal fit

    def swapped(leaves: int, enters: int) -> Fit | None:
        """Return the fit after a swap; None where it is shown to be above the value."""
        found.n_refits += 1
        features = np.union1d(np.setdiff1d(fit.features, [leaves]), [enters]).astype(np.intp)
        return swaps.fitted_below(above, features, fit)

    left = list[tuple[float, int, int]]()  # swaps that no bound rules out, and those of dispensable features to try
    better = list[tuple[int, int]]()
    for i in estimates.droppable:
        leaves, gain, possible = int(fit.features[i]), estimates.gains(i), estimates.outside
        if known.get(leaves, math.inf) <= most:
            found.dispensable.add(leaves)
            found.examined[leaves] = found.total
            most_promising = np.argsort(-gain, kind="stable")[: min(_REFITTED_PER_DISPENSABLE, found.total)]
            better += [(leaves, j) for j in most_promising.tolist()]
            continue
        if has_bounds and (bounds := swaps.gain_bounds(estimates, i)) is not None:
            possible = possible & (bounds >= fit.psi - most)
        found.examined[leaves] = found.total - int(np.count_nonzero(possible))
        left += [(-float(gain[j]), leaves, int(j)) for j in np.flatnonzero(possible)]
    with suppress(TimeoutError):  # the others are not examined
        for _, leaves, enters in sorted(left):
            if found.n_refits >= n_refits:
                break
            new = swapped(leaves, enters)
            if new is not None and new.psi <= most:
                found.within.append(NearSwap(leaves, enters, new.psi))
            elif new is not None and swaps.is_convex and not new.lower_bound > most:
                found.undecided += 1
                continue
            found.examined[leaves] += 1
        for leaves, enters in better:
            new = swapped(leaves, enters)
            if new is not None and new.psi < known[leaves] - rounding:
                found.within.append(NearSwap(leaves, enters, new.psi))
    return found.sorted()


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

    with suppress(TimeoutError):
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
    return found.sorted()
