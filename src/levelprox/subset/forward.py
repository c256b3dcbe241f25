"""Forward selection and backward elimination, with few refits where features are many.

A refit over m columns takes time in proportion to m². Beyond `MANY_FEATURES` a refit follows when the size of the
set has changed by a share of it: in between, the second-order model at the last refit is updated after each feature, as
for a parabola.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from levelprox._typing import Features, Vector
from levelprox.objectives import LinearModel
from levelprox.subset.fit import Fit
from levelprox.subset.second_order import SetFits
from levelprox.subset.swap_bounds import MANY_FEATURES, SwapEstimates, costs, inverse_over

FEW = 5  # features: of no more, the first one added may decide too much
RUNNERS_UP = 16  # features that gain most besides the one that is added
_REFIT_DIVISOR = 8  # of more features, those by this divisor are added or removed between two refits


def features_per_refit(size: int) -> int:
    """Return how many features are added to a set of this size, or removed from it, between two refits."""
    return 1 if size <= MANY_FEATURES else size // _REFIT_DIVISOR


def forward(
    swaps: SetFits,
    fit: Fit,
    most: int,
    without: int | None = None,
    shown: int = 0,
    worth: Callable[[Vector, Features], Vector] | None = None,
) -> Features:
    """Return up to `most` features besides those of a fit, in the order in which they are added.

    The next one gains most by the second-order model, with the curvature of the fit that it began with: what is left of
    each column after those before it is kept up to date as a Cholesky factorisation would, one product for each
    feature added, and one for the gradient there. Between two refits the gradient is that of the model. Sets of more
    than `MANY_FEATURES` leave out those that leave ψ without a minimiser.

    Parameters
    ----------
    swaps : SetFits
    fit : Fit
        What to begin with: the null fit, or that of features to which others are to be added.
    most : int
    without : int, optional
        A feature that is not to be added.
    shown : int
        How many features added make a fit that may be returned, should there be no time for a better one.
    worth : callable, optional
        Given what each feature gains and the features of the fit so far, returns by what to choose the next one: it
        is added where this is above 0.
    """
    problem, z, base = swaps.problem, fit.margins, fit.features
    chosen, estimates = np.empty(0, np.intp), swaps.estimates(fit, exact=False)
    left, factors = estimates.left, list[Vector]()
    while chosen.size < most:
        swaps.monitor.done = chosen.size / most
        estimates.left = left
        gain = estimates.additions()
        gain[chosen] = -np.inf
        if without is not None:
            gain[without] = -np.inf
        if worth is not None:
            gain = worth(gain, np.union1d(base, chosen).astype(np.intp))
        j = int(np.argmax(gain))
        if not gain[j] > 0:
            break
        if shown > MANY_FEATURES and has_no_minimiser(swaps, fit, j):
            estimates.outside[j] = False
            continue
        chosen = np.append(chosen, j)
        swaps.refits.stored.prefetch(largest(gain, RUNNERS_UP))
        together = features_per_refit(problem.counted(base).size + chosen.size) if problem.n_outputs == 1 else 1
        if chosen.size < most and base.size + chosen.size - fit.features.size < together:
            factor = next_factor(swaps, estimates, factors, j, z)
            if factor is not None:
                factors.append(factor)
                left = left - (factor**2)[:, None, None]
                estimates.gradient = estimates.gradient - (factor * (estimates.gradient[j, 0] / factor[j]))[:, None]
            continue
        fit = swaps.roughly(np.union1d(base, chosen).astype(np.intp), fit)
        if chosen.size <= shown:
            swaps.remember(fit)
        if swaps.is_perfect(fit) or chosen.size == most:
            break
        estimates.gradient = swaps.gradient(fit).reshape(problem.n_features, -1)
        swaps.look_along(estimates, fit)
        if problem.n_outputs == 1:
            factor = next_factor(swaps, estimates, factors, j, z)
            if factor is not None:
                factors.append(factor)
                left = left - (factor**2)[:, None, None]
    return chosen


def largest(gain: Vector, count: int) -> Features:
    """Return the features that gain most, and more than nothing."""
    some = in_order(gain, count)
    return some[gain[some] > 0]


def next_factor(fits: SetFits, estimates: SwapEstimates, factors: list[Vector], j: int, z: Vector) -> Vector | None:
    """Return what is left of the j-th column of the Hessian at margins z after those before it, as in a factorisation.

    None where nothing is left.
    """
    column = fits.columns_of(Fit(np.array([j], np.intp), np.zeros(1), 0.0, z))[:, 0]
    column = column - estimates.B @ estimates.cross[j]
    for factor in factors:
        column -= factor * factor[j]
    pivot = column[j]
    return column / math.sqrt(pivot) if pivot > 0 else None


def has_no_minimiser(fits: SetFits, fit: Fit, j: int) -> bool:
    """Return whether ψ over sets with the j-th feature has no minimiser, as where it occurs in one class only.

    Each refit of such a set takes as many steps as it may.
    """
    objective, stored = fits.objective, fits.refits.stored
    if not isinstance(objective, LinearModel) or objective.attained or objective.ridge is not None:
        return False
    feature = np.array([j], np.intp)
    if not stored.fit_in(feature):
        return False
    column = stored(feature)[0]
    slope = objective.slope_of(fit.margins)
    slope = column.values * (slope if column.rows is None else slope[column.rows])
    return bool(np.all(slope >= 0) or np.all(slope <= 0))


def in_order(gain: Vector, count: int) -> Features:
    """Return the places of the largest numbers, the largest first; of equal ones the first."""
    if count >= gain.size:
        return np.argsort(-gain, kind="stable")
    least = np.partition(gain, gain.size - count)[gain.size - count]
    some = np.flatnonzero(gain >= least)
    return some[np.argsort(-gain[some], kind="stable")[:count]]


def eliminated(fits: SetFits, features: Features, k: int) -> Fit:
    """Return the fit after leaving out the least useful feature until k are left.

    Of far more than k, first half of the surplus is left out at once.
    """
    return eliminated_from(fits, fits.roughly(fits.problem.with_unpenalized(features), fits.best), k)


def eliminated_from(fits: SetFits, fit: Fit, k: int, by_halves: bool = False) -> Fit:
    """Return the same from a rough fit; `by_halves`, a refit follows whenever half of the surplus is left out."""
    problem = fits.problem
    while (surplus := fit.features.size - problem.unpenalized.size - k) > 0:
        count = max(1, (surplus - k) // 2)
        several = (surplus + 1) // 2 if by_halves else min(surplus, features_per_refit(fit.features.size))
        if problem.n_outputs == 1 and several > count:
            least = least_useful(fits, fit, several)
        else:
            least = np.argsort(costs(problem, fit), kind="stable")[:count]
        fit = fits.roughly(np.delete(fit.features, least), fit)
    return fits.fitted(fit.features, fit)


def least_useful(fits: SetFits, fit: Fit, count: int) -> Features:
    """Return the places of so many features of a fit, left out one by one, by the second-order model there."""
    K, x = inverse_over(fits.problem, fit), fit.x.copy()
    counted = fits.problem.counts(fit.features)
    places: list[int] = []
    for _ in range(count):
        diagonal = np.diagonal(K)
        cost = np.full(x.size, np.inf)
        left = counted & (diagonal > 0)
        cost[left] = x[left] ** 2 / diagonal[left]
        i = int(np.argmin(cost)) if np.any(left) else int(np.flatnonzero(counted)[0])
        places.append(i)
        if left[i]:
            x = x - K[i] * (x[i] / K[i, i])
            K = K - np.outer(K[i], K[i]) / K[i, i]
        counted[i] = False
    return np.array(places, np.intp)
