"""The fits of all folds and all numbers of features with the squared loss, from one reading of the samples.

Each fold has the triangle of its samples (`objectives/reduced.py`). The triangles of the other folds, one below the
other, are the triangle of its training part. The sets for all k come from one search by the Gram matrix of the training
part. Each set is the one that a fit at that k alone finds. Swaps are not examined: scores of folds need no claims.
"""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from levelprox import _kernels
from levelprox._runtime.deadline import seconds_left
from levelprox._runtime.threads import one_blas_thread
from levelprox._typing import Matrix, Rows, Vector
from levelprox.estimators._data import Samples
from levelprox.estimators._fit import Task
from levelprox.estimators._fold_fits import Scored, Splits, told
from levelprox.estimators._parameters import Budget
from levelprox.objectives import LinearModel
from levelprox.objectives.reduced import blocks, centred, gram_search, is_reducible, is_trusted, triangle
from levelprox.result import Status

_MANY = 1000  # exchanges, which is no limit


@dataclass(frozen=True, eq=False)
class FoldFits:
    """What is known of the training parts of all folds.

    Attributes
    ----------
    task : Task
        Of all samples; its standardization has the units of the triangles.
    triangles : list of ndarray
        R of each training part.
    kept : ndarray of int
        Features that never count.
    """

    task: Task
    triangles: list[Matrix]
    kept: Rows
    _searches: dict[int, _kernels.GramSearch] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return FoldFits, (self.task, self.triangles, self.kept)

    def coefficients(self, fold: int, budgets: list[Budget]) -> tuple[Matrix, Vector]:
        """Return coefficients, one row for each budget, and intercepts, in the units of X."""
        standardization, factor = self.task.standardization, self.triangles[fold]
        inner, intercept = centred(factor, standardization.fit_intercept)
        columns, target = inner[:, :-1], np.ascontiguousarray(inner[:, -1])
        if fold not in self._searches:
            self._searches[fold] = gram_search(columns, target, self.kept)
        coef, constant = np.zeros((len(budgets), columns.shape[1])), np.zeros(len(budgets))
        for i, budget in enumerate(budgets):
            assert budget.features is not None
            features = np.array(self._searches[fold].best(budget.features), np.intp)
            x = np.zeros(columns.shape[1])
            if features.size:
                size = np.sqrt(np.sum(columns[:, features] ** 2, axis=0))  # features that are chosen are not zero
                x[features] = np.linalg.lstsq(columns[:, features] / size, target, rcond=None)[0] / size
            if intercept is not None:
                x = np.append(x, intercept[-1] - float(np.sum(intercept[:-1] * x)))
            own, shift = standardization.outside(x)
            coef[i], constant[i] = own[0], shift[0]
        return coef, constant


def fold_fits(single: Any, samples: Samples, splits: Splits, budgets: list[Budget], scorer: Any) -> FoldFits | None:
    """Return what is known of all training parts; None where each fit has to look at its samples itself.

    Parameters
    ----------
    single : estimator
        For one budget.
    samples : Samples
    splits : list of (training part, test part)
    budgets : list of Budget
    scorer : object
        What judges the fits, besides the loss; a name of scikit-learn's, or None, asks for no more than predictions.
    """
    plain = budgets[0].features is not None and budgets[0].cost is None and (scorer is None or isinstance(scorer, str))
    whole = samples.weight is None or bool(np.all(samples.weight > 0))
    if not plain or not whole or is_classifier(single) or not isinstance(samples.X, np.ndarray):
        return None
    if samples.X.dtype != np.float64 or not math.isinf(seconds_left()):  # then each fit has its share of the time
        return None
    model = clone(single)
    model.n_features_in_ = samples.X.shape[1]
    task: Task = model._task(model._prepare(samples), budgets[0])
    objective = task.objective
    if (
        not isinstance(objective, LinearModel)
        or not is_reducible(objective)
        or np.any(task.positive)
        or task.max_iter < _MANY
    ):
        return None
    if any(not is_reducible(objective, train.size) for train, _ in splits):
        return None
    with one_blas_thread():
        triangles = _training_triangles(objective, splits)
        if not all(is_trusted(one, task.standardization.fit_intercept) for one in triangles):
            return None
    kept = np.empty(0, np.intp) if task.keep is None else task.keep
    return FoldFits(task, triangles, kept)


def _training_triangles(objective: LinearModel, splits: Splits) -> list[Matrix]:
    n = objective.target.size
    if not _is_partition(splits, n):
        return [triangle(blocks(objective, train)) for train, _ in splits]
    parts = [triangle(blocks(objective, test)) for _, test in splits]
    return [triangle(iter(parts[:i] + parts[i + 1 :])) for i in range(len(parts))]


def _is_partition(splits: Splits, n: int) -> bool:
    """Return whether each sample is in the test part of one fold, and in the training parts of all others."""
    tests = np.concatenate([test for _, test in splits])
    if tests.size != n or len(splits) < 2 or not np.array_equal(np.sort(tests), np.arange(n)):
        return False
    return all(np.array_equal(np.sort(train), np.setdiff1d(np.arange(n), test)) for train, test in splits)


def score_quickly(
    known: FoldFits,
    fold: int,
    single: Any,
    samples: Samples,
    test: Rows,
    budgets: list[Budget],
    scorer: Any,
    score_params: dict[str, Any],
) -> list[Scored]:
    """Return the scores of the fits of one fold under each of the budgets."""
    began = time.monotonic()
    with one_blas_thread():
        coef, intercept = known.coefficients(fold, budgets)
    judged, scores = samples.part(test), []
    if scorer is None:
        model = clone(single)
        loss, offset = model.loss_, judged.more.get("offset")
        margins = judged.X @ coef.T + intercept
        if offset is not None:
            margins += np.asarray(offset, np.float64)[:, None]
        scores = [-loss.value(np.ascontiguousarray(z), judged.y, judged.weight) for z in margins.T]
    else:
        for own, shift, budget in zip(coef, intercept, budgets, strict=True):
            model = _fitted(single, known.task, own, shift, budget)
            scores.append(float(scorer(told(model, judged.more), judged.X, judged.y, **score_params)))
    each = (time.monotonic() - began) / len(budgets)
    counts = np.count_nonzero(coef, axis=1).tolist()
    return [Scored(score, count, each, solved=True) for score, count in zip(scores, counts, strict=True)]


def _fitted(single: Any, task: Task, coef: Vector, intercept: float, budget: Budget) -> Any:
    """Return a model that can predict."""
    model = copy.copy(clone(single))
    model.n_features_in_ = coef.size
    model._set_coefficients(coef[None], np.array([intercept]))
    model.scale_, model.level_, model.status_ = task.standardization.scale, budget.value, Status.SOLVED
    return model
