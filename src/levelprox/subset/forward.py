"""Forward selection: features taken in one by one, the most useful first."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from levelprox.subset.refit import Fit
from levelprox.subset.swaps import Swaps

Vector = NDArray[np.float64]
Features = NDArray[np.intp]

FEW = 5  # features, of which the first one taken in may decide too much


def forward(
    swaps: Swaps,
    fit: Fit,
    most: int,
    without: int | None = None,
    shown: int = 0,
    worth: Callable[[Vector, Features], Vector] | None = None,
) -> Features:
    """Up to `most` features besides those of a fit, in the order in which they were taken in.

    The next one gains most by the second-order model, with the curvature of the fit that it began with: what is left of
    each column after those before it is kept up to date as a Cholesky factorisation would, one product for each
    feature taken in, and one for the gradient there.

    Parameters
    ----------
    swaps : Swaps
    fit : Fit
        What to begin with: the null fit, or that of features to which others are to be added.
    most : int
    without : int, optional
        A feature that is not to be taken in.
    shown : int
        How many features taken in make a fit that may be returned, should there be no time for a better one.
    worth : callable, optional
        Given what each feature gains and the features of the fit so far, returns by what to choose the next one: it
        is taken in where this is above 0.
    """
    problem, z, base = swaps.problem, fit.margins, fit.features
    chosen, exchange = np.empty(0, np.intp), swaps.exchange(fit)
    left, factors = exchange.left, list[Vector]()
    while chosen.size < most:
        swaps.watch.done = chosen.size / most
        exchange.left = left
        gain = exchange.additions()
        gain[chosen] = -np.inf
        if without is not None:
            gain[without] = -np.inf
        if worth is not None:
            gain = worth(gain, np.union1d(base, chosen).astype(np.intp))
        j = int(np.argmax(gain))
        if not gain[j] > 0:
            break
        chosen = np.append(chosen, j)
        fit = swaps.roughly(np.union1d(base, chosen).astype(np.intp), fit)
        if chosen.size <= shown:
            swaps.remember(fit)
        if swaps.is_perfect(fit) or chosen.size == most:
            break
        exchange.gradient = swaps.gradient(fit).reshape(problem.n_features, -1)
        swaps.look_along(exchange, fit)
        if problem.width == 1:
            column = swaps.columns_of(Fit(np.array([j], np.intp), np.zeros(1), 0.0, z))[:, 0]
            column = column - exchange.B @ exchange.cross[j]
            for factor in factors:
                column -= factor * factor[j]
            pivot = column[j]
            if pivot > 0:
                factors.append(column / math.sqrt(pivot))
                left = left - (factors[-1] ** 2)[:, None, None]
    return chosen
