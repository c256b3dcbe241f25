"""Swaps of one feature for another that hardly change the loss: which of them leave it at most at a given value.

A swap is counted where a refit attains a loss of at most that value, and one below that without either feature: a
feature that lowers nothing is no alternative. It is ruled out where a bound (`exchange.py`) or a
refit whose optimality was checked shows that the loss stays above. All others count as not examined: those for which
neither is known, and those that would take more refits than are allowed. Where ψ is not convex, refits are local.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from levelprox.exact_refit import ExactFit, ExactRefits
from levelprox.refit import Fit
from levelprox.swaps import Swaps

Vector = NDArray[np.float64]
Features = NDArray[np.intp]

_LOWER = 1e-10  # of ψ: less is rounding


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
        Swaps of each feature of the fit: features outside whose columns are not zero.
    within : list of NearSwap
        Those that do, the lowest ψ first.
    examined : dict of int to int
        For each feature of the fit that counts, how many of its swaps were examined.
    n_refits : int
    undecided : int
        Swaps that were refitted, but whose refit is above `most` and not known to be optimal.
    """

    most: float
    total: int
    within: list[NearSwap] = field(default_factory=list)
    examined: dict[int, int] = field(default_factory=dict)
    n_refits: int = 0
    undecided: int = 0

    def add(self, leaves: int, enters: int, psi: float, without: Mapping[int, float] | None, rounding: float) -> None:
        """Add a swap if ψ after it is below that without either feature, by more than rounding."""
        if psi < (without or {}).get(leaves, math.inf) - rounding:
            self.within.append(NearSwap(leaves, enters, psi))

    def sort(self) -> None:
        self.within.sort(key=lambda swap: (swap.psi, swap.leaves, swap.enters))


def near_swaps(
    swaps: Swaps, fit: Fit, most: float, n_refits: float, without: Mapping[int, float] | None = None
) -> NearSwaps:
    """Return the swaps of a fit that leave ψ at most at `most`, where ψ is twice differentiable.

    Parameters
    ----------
    swaps : Swaps
        Of the problem.
    fit : Fit
        Where ψ is convex and the fit is known to be optimal, bounds rule swaps out.
    most : float
    n_refits : float
        How many refits are allowed. Swaps that gain most by the estimates are refitted first.
    without : dict of int to float, optional
        ψ refitted without each feature of the fit: what a swap must undercut.
    """
    exchange, problem = swaps.exchange(fit), swaps.problem
    found = NearSwaps(most, int(np.count_nonzero(exchange.outside)))
    convex, margin = swaps.objective.convex_start is None, most - fit.psi
    exact = problem.width == 1 and swaps.objective.concordance == 0 and not np.any(problem.must_be_nonnegative())
    known = convex and fit.gap <= swaps.threshold(fit)  # bounds are those at an optimal fit
    left = list[tuple[float, int, int]]()
    for i in exchange.droppable:
        gain, possible = exchange.gains(i), exchange.outside
        if known and exact:
            possible = possible & (exchange.exact_gains(i) >= -margin)
        elif known and swaps.has_bounds():
            possible = possible & (exchange.bounds(i, swaps.magnitudes, swaps.objective.concordance) >= -margin)
        leaves = int(fit.features[i])
        found.examined[leaves] = found.total - int(np.count_nonzero(possible))
        left += [(-float(gain[j]), leaves, int(j)) for j in np.flatnonzero(possible)]
    left.sort()
    try:
        for _, leaves, enters in left:
            if found.n_refits >= n_refits:
                break
            features = np.union1d(np.setdiff1d(fit.features, [leaves]), [enters]).astype(np.intp)
            new = swaps.fitted_below(math.nextafter(most, math.inf), features, fit)
            found.n_refits += 1
            if new is not None and new.psi <= most:
                found.add(leaves, enters, new.psi, without, swaps.threshold(fit))
            elif new is not None and convex and not new.lower_bound > most:
                found.undecided += 1
                continue
            found.examined[leaves] += 1
    except TimeoutError:  # the others are not examined
        pass
    found.sort()
    return found


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
        Features to take in, those first that are to be examined first.
    most : float
    n_refits : float
    seconds_left : callable
    without : dict of int to float, optional
        As in `near_swaps`.
    """
    counted = refits.problem.counted(fit.features).tolist()
    found = NearSwaps(most, int(outside.size), examined=dict.fromkeys(counted, 0))

    def refitted(features: Features, near: Fit) -> ExactFit:
        if seconds_left() <= 0:
            raise TimeoutError
        found.n_refits += 1
        return refits(features, near, seconds_left)

    try:
        for enters in outside.tolist():
            if found.n_refits + 1 + len(counted) > n_refits:
                break
            larger = refitted(np.union1d(fit.features, [enters]).astype(np.intp), fit)
            least = larger.psi - larger.error + larger.removal
            for leaves in counted:
                if not least[np.searchsorted(larger.features, leaves)] > most:
                    new = refitted(np.setdiff1d(larger.features, [leaves]).astype(np.intp), larger)
                    if new.psi <= most:
                        rounding = _LOWER * abs(most) + 2 * new.rounding
                        found.add(leaves, enters, new.psi, without, rounding)
                    elif not new.psi - new.error > most:
                        found.undecided += 1
                        continue
                found.examined[leaves] += 1
    except TimeoutError:
        pass
    found.sort()
    return found
