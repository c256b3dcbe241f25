"""Sets for fits of folds, where there are too many features for second-order models over all of them.

Of all features some are chosen, W: those that gain most by themselves, those that are taken in one by one from the null
fit, and those that were nearly taken in instead. W does not depend on k. Sets of k features come from second-order
models over W (`parabolas.py`); exchanges for any other feature follow.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from levelprox.certificate.null_model import NullFit
from levelprox.objectives import LinearModel
from levelprox.problem import Problem
from levelprox.subset.forward import forward
from levelprox.subset.quadratic_models import best_by_parabolas
from levelprox.subset.refit import Fit
from levelprox.subset.shared_cache import shared
from levelprox.subset.swaps import Swaps

Vector = NDArray[np.float64]
Features = NDArray[np.intp]

_ALONE, _PATH, _NEARLY = 64, 64, 16  # features: by themselves, one by one, and instead of these


def can_be_narrowed(problem: Problem) -> bool:
    """Return whether sets may come from second-order models over some of the features."""
    objective = problem.objective
    curved = (
        isinstance(objective, LinearModel) and objective.convex and objective.curved and objective.self_concordance >= 0
    )
    return curved and not np.any(problem.must_be_nonnegative())


def best_by_narrowing(swaps: Swaps, null: Fit, k: int) -> Fit:
    """Return the best fit over sets of at most k features that second-order models over W lead to.

    Parameters
    ----------
    swaps : Swaps
        Of a problem that `can_be_narrowed`.
    null : Fit
        The null fit.
    k : int
    """
    known = shared(swaps.problem)
    with known.lock:
        length = _PATH
        while length < k:
            length *= 2
        if length not in known.narrowed:
            features = _most_useful(swaps, null, length)
            known.narrowed[length] = features, swaps.problem.restrict(features)
        features, part = known.narrowed[length]
        inner = _over(swaps, part, features, null)
        fit = best_by_parabolas(inner, inner.best, k, brief=True)
    swaps.n_grad += inner.n_grad
    swaps.n_refits += inner.n_refits
    return replace(fit, features=features[fit.features])


def _most_useful(swaps: Swaps, null: Fit, length: int) -> Features:
    """Return W, for k up to `length`."""
    problem, found = swaps.problem, [null.features]
    exchange = swaps.exchange(null)
    found.append(_largest(exchange.additions(), length // _PATH * _ALONE))

    def watched(gain: Vector, features: Features) -> Vector:
        taken = features.size - null.features.size
        if taken & (taken - 1) == 0:  # 0, 1, 2, 4, 8, …
            found.append(_largest(gain, _NEARLY))
        return gain

    most = min(length, problem.n_features - problem.exempt.size, max(swaps.objective.n_margins - 1, 1))
    found.append(forward(swaps, null, most, worth=watched))
    return np.unique(np.concatenate(found)).astype(np.intp)


def _largest(gain: Vector, count: int) -> Features:
    """Return the features that gain most, and more than nothing."""
    some = np.argsort(-gain, kind="stable")[:count]
    return some[gain[some] > 0]


def _over(swaps: Swaps, part: Problem, features: Features, null: Fit) -> Swaps:
    """Return a search by exchanges over W."""
    whole, known = swaps.null, shared(part)
    coordinates = swaps.problem.coordinates(features)
    gradient = None if whole.gradient is None else whole.gradient[coordinates]
    known.null = known.null or NullFit(whole.x[coordinates], whole.psi, gradient, whole.scale, whole.curvature)
    start = replace(null, features=np.searchsorted(features, null.features).astype(np.intp))
    inner = Swaps(part, start, known.null, swaps.tolerance, replace(swaps.how, null=known.null), columns=known.columns)
    inner.watch, inner.refits.brief = swaps.watch, True
    return inner
