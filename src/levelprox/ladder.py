"""Sets for one k after another, each from the one below it: fits of folds, of which nothing is shown.

The rungs of the ladder are fixed numbers of features. The set of a rung begins with that of the rung below and the
features that are the most useful besides, or with what is left of twice as many features, taken in one by one from the
null fit, once the least useful have been left out again, whichever has the lower loss. It ends once promising exchanges
no longer lower the loss. A number of features that is no rung begins with the rung below it. So the set for a k is a
function of the data and k, whichever other k are asked for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from levelprox.exchange import costs
from levelprox.forward import forward
from levelprox.refit import Fit
from levelprox.shared import Shared, shared
from levelprox.swaps import Swaps

Features = NDArray[np.intp]

_RUNGS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30)
_GROWTH = 5  # beyond the last of them, each is larger than the one below by a part of this many


def rungs_up_to(k: int) -> list[int]:
    """Return the rungs below k, and k."""
    rungs, last = [rung for rung in _RUNGS if rung < k], _RUNGS[-1]
    while last < k and (last := last + last // _GROWTH) < k:
        rungs.append(last)
    return [*rungs, k] if k > 0 else []


def best_by_ladder(swaps: Swaps, null: Fit, k: int) -> Fit:
    """Return the fit at k.

    Parameters
    ----------
    swaps : Swaps
        Of a problem whose ψ is a loss of linear predictions.
    null : Fit
        The null fit.
    k : int
    """
    known, fit = shared(swaps.problem), null
    with known.lock:
        for rung in rungs_up_to(k):
            if rung not in known.rungs:
                known.rungs[rung] = _climbed(swaps, known, null, fit, rung)
            fit = known.rungs[rung]
            swaps.keep(fit)
    return fit


def _climbed(swaps: Swaps, known: Shared, null: Fit, below: Fit, k: int) -> Fit:
    """Return the fit at k from that of the rung below."""
    if swaps.is_perfect(below):
        return below
    problem = swaps.problem
    more = forward(swaps, below, k - problem.counted(below.features).size)
    fit = swaps.fitted(np.union1d(below.features, more).astype(np.intp), below)
    if k > 1 and not swaps.is_perfect(fit):
        other = _backward(swaps, known, null, k)
        fit = other if swaps.lowers(other, fit) else fit
    return swaps.improved(fit)


def _backward(swaps: Swaps, known: Shared, null: Fit, k: int) -> Fit:
    """Return the fit of k of the first 2k features of the path, once the least useful have been left out."""
    problem = swaps.problem
    most = min(2 * k, problem.n_features - problem.exempt.size, max(k, swaps.objective.n_margins - 1))
    if known.path is None or (known.path.size < most and known.asked < most):
        known.path, known.asked = forward(swaps, null, most), most
    features = np.union1d(known.path[:most], problem.exempt).astype(np.intp)
    fit = swaps.roughly(features, null)
    while (surplus := problem.counted(fit.features).size - k) > 0:
        least = np.argsort(costs(problem, fit), kind="stable")[: max(1, (surplus - k) // 2)]
        fit = swaps.roughly(np.delete(fit.features, least), fit)
    return swaps.fitted(fit.features, fit)
