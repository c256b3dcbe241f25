"""Fits of a fold with at most k features and each λ of a grid, and their scores: all folds together choose λ.

One search finds the features: without a ridge where the data determine their coefficients, else with a fixed λ. They
are refitted with each λ. λ = factor / (2 n), where n is that of the training part: folds have the factor in common.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox._runtime.blas import one_blas_thread
from levelprox._runtime.deadline import limited
from levelprox.estimators.automatic_ridge import FOLD_GRID
from levelprox.estimators.few_features import FewFeatures
from levelprox.estimators.scored import KeptTask, Samples, Scored, Share, diverges, prepared, scored, with_solution
from levelprox.estimators.task import SUBSET_TOLERANCE, Budget, Task
from levelprox.estimators.watching import quiet, with_estimator_warnings
from levelprox.objectives import LinearModel
from levelprox.objectives._multiclass import ByClass
from levelprox.result import Status
from levelprox.subset.column_cache import forget

Vector = NDArray[np.float64]
Features = NDArray[np.intp]


@with_estimator_warnings
@one_blas_thread()
def score_ridges(
    share: Share,
    single: Any,
    samples: Samples,
    train: Features,
    test: Features,
    budget: Budget,
    scorer: Any,
    score_params: dict[str, Any],
    kept: KeptTask | None = None,
    *,
    features: tuple[int, ...] | None = None,
) -> list[Scored]:
    """Return the scores of the fits of one fold with each λ of `FOLD_GRID`; none without time.

    Where the data determine the coefficients, there is one score, that of the fit without a ridge, with its features.

    Parameters
    ----------
    share, single, samples, train, test, scorer, score_params, kept
        As in `score_fold`.
    budget : Budget
        At most k features.
    features : tuple of int, optional
        Those of a fit without a ridge: no search is needed, and there is a score for each λ.
    """
    if share.seconds <= 0:
        return []
    began, found, undetermined = time.monotonic(), None, True
    with limited(share.seconds):
        model, task = prepared(single, samples, train, budget, kept)
        if features is None:
            with quiet():
                found, undetermined = task.searched(budget)
            if found.status is Status.INTERRUPTED:
                raise KeyboardInterrupt(found.message)
        chosen = np.array(features, np.intp) if found is None else task.features(task.inside(found))
        if found is None or undetermined:
            status = Status.SOLVED if found is None else found.status
            fits = [_refitted(model, task, budget, status, *one) for one in each_ridge(task, chosen)]
        else:
            fits = [with_solution(model, task, budget, found)]
        if kept is None:
            forget(task.objective)
    judged, each = samples.part(test), (time.monotonic() - began) / len(fits)
    diverging = found is not None and diverges(task, budget, found)
    scores = [scored(one, judged, each, diverging, scorer, score_params) for one in fits]
    return scores if undetermined else [replace(one, features=tuple(chosen.tolist())) for one in scores]


def _refitted(model: Any, task: Task, budget: Budget, status: Status, ridge: float, x: Vector) -> Any:
    """Return a model that can predict by x."""
    fitted = copy.copy(model)
    fitted._set_coefficients(*task.border.outside(x, np.dtype(np.float64)))
    fitted.scale_, fitted.level_, fitted.ridge_, fitted.status_ = task.border.scale, budget.at_most, ridge, status
    return fitted


def each_ridge(task: Task, features: Features) -> Iterator[tuple[float, Vector]]:
    """Yield each λ of `FOLD_GRID` and x that minimises ψ with it over some features."""
    objective, width = task.objective, task.border.width
    assert isinstance(objective, LinearModel | ByClass)
    inside = task.with_kept(features)
    unit, signs = task.unit_and_signs(inside)
    fit = FewFeatures(objective.restrict(inside), signs, SUBSET_TOLERANCE * task.tol)
    places = (inside[:, None] * width + np.arange(width)).ravel()
    own = np.zeros(places.size)
    for factor in FOLD_GRID:
        own, x = fit(own, factor * task.automatic_ridge * unit), np.zeros(objective.dimension)
        x[places] = own
        yield factor * task.automatic_ridge, x
