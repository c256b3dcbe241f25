"""Folds of an estimator: its splits and scorer, and folds whose fits share work.

`SquaredLossFolds`: each fold has the triangle of its samples (`objectives/reduced.py`). The triangles of the other
folds, one below the other, are the triangle of its training part. The sets for all k come from one search by the Gram
matrix of the training part. Each set is the one that a fit at that k alone finds.

`RidgeFolds`, for ridge="auto" of classifiers: one search finds the features, without a ridge where the data determine
their coefficients, else with a fixed λ. They are refitted with each λ. λ = factor / (2 n), where n is that of the
training part: folds have the factor in common.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from levelprox._runtime import limited, one_blas_thread, seconds_left
from levelprox._typing import Features, Matrix, Vector
from levelprox.driver.run_identity import hashed
from levelprox.estimators._automatic_ridge import FOLD_GRID, FewFeatures
from levelprox.estimators._budget_fits import (
    Folds,
    LocalCache,
    Scored,
    Splits,
    diverges,
    fitted_model,
    predictor,
    unscored,
)
from levelprox.estimators._callbacks import Share, quiet, with_estimator_warnings
from levelprox.estimators._data import RemoteFold
from levelprox.estimators._fit import Task
from levelprox.estimators._fixed_ridge_fit import SUBSET_TOLERANCE
from levelprox.estimators._input import Samples
from levelprox.estimators._parameters import Budget
from levelprox.exceptions import InvalidInputError
from levelprox.objectives import LinearModel
from levelprox.objectives.multiclass import ByClass
from levelprox.objectives.reduced import blocks, centred, gram_search, is_reducible, is_trusted, triangle
from levelprox.result import Status
from levelprox.subset.column_cache import forget

_NO_LIMIT = 1000  # swaps
_REMOTE_FOLDS = 5  # of remote data by default
_REMEDY = "Use stratified folds, such as cv=StratifiedKFold(5, shuffle=True), or fewer of them"


@dataclass(frozen=True, eq=False)
class SquaredLossFolds(Folds):
    """Folds of which all fits for at most k features come from one search for each training part.

    Attributes
    ----------
    task_of_all : Task
        Of all samples; its standardization has the units of the triangles.
    triangles : list of ndarray
        R of each training part.
    """

    task_of_all: Any = None
    triangles: list[Matrix] = field(default_factory=list)
    _searches: LocalCache = field(default_factory=LocalCache)  # by fold

    @classmethod
    def of(cls, folds: Folds, budgets: list[Budget], scoring: Any) -> SquaredLossFolds | None:
        """Return the triangles of all training parts; None where each fit has to read its samples itself.

        Parameters
        ----------
        folds : Folds
        budgets : list of Budget
        scoring : object
            Parameter of the estimator; a name of scikit-learn's, or None, uses no more than predictions.
        """
        single, samples, splits, first = folds.single, folds.samples, folds.splits, budgets[0]
        if first.features is None or first.cost is not None or not (scoring is None or isinstance(scoring, str)):
            return None
        if not isinstance(samples, Samples) or is_classifier(single) or not isinstance(samples.X, np.ndarray):
            return None
        if samples.X.dtype != np.float64 or (samples.weight is not None and not np.all(samples.weight > 0)):
            return None
        if not math.isinf(seconds_left()):  # then each fit has its share of the time
            return None
        model = clone(single)
        model.n_features_in_ = samples.X.shape[1]
        task: Task = Task.of(model, model._prepare(samples), first)
        objective = task.objective
        if not isinstance(objective, LinearModel) or not is_reducible(objective):
            return None
        if np.any(task.positive) or task.max_iter < _NO_LIMIT:
            return None
        if any(not is_reducible(objective, train.size) for train, _ in splits):
            return None
        with one_blas_thread():
            triangles = _training_triangles(objective, splits)
            if not all(is_trusted(one, task.standardization.fit_intercept) for one in triangles):
                return None
        return cls(single, samples, splits, folds.scorer, folds.score_params, task_of_all=task, triangles=triangles)

    def score(self, share: Share, fold: int, budgets: list[Budget]) -> list[Scored]:
        """Return the scores of the fits of one fold under each of the budgets."""
        began = time.monotonic()
        with one_blas_thread():
            coef, intercept = self._coefficients(fold, budgets)
        model = clone(self.single)
        assert isinstance(self.samples, Samples)
        judged, scores = self.samples.part(self.splits[fold][1]), []
        if self.scorer is None:
            loss, offset = model.loss_, judged.more.get("offset")
            known = 0.0 if offset is None else np.asarray(offset, np.float64)
            for own, shift in zip(coef, intercept, strict=True):  # one product of all would round by their number
                used = np.flatnonzero(own)
                z = judged.X[:, used] @ own[used] + shift + known
                scores.append(-loss.value(z, judged.y, judged.weight))
        else:
            model.n_features_in_ = coef.shape[1]
            for own, shift, budget in zip(coef, intercept, budgets, strict=True):
                coefficients = own[None], np.array([shift])
                fitted = predictor(model, self.task_of_all, budget, coefficients, Status.SOLVED, 0.0)
                scores.append(self.score_of(fitted, fold, judged))
        each = (time.monotonic() - began) / len(budgets)
        counts = np.count_nonzero(coef, axis=1).tolist()
        return [Scored(score, count, each, solved=True) for score, count in zip(scores, counts, strict=True)]

    def _coefficients(self, fold: int, budgets: list[Budget]) -> tuple[Matrix, Vector]:
        """Return coefficients, one row for each budget, and intercepts, in the units of X."""
        standardization, factor = self.task_of_all.standardization, self.triangles[fold]
        inner, intercept = centred(factor, standardization.fit_intercept)
        columns, target = inner[:, :-1], np.ascontiguousarray(inner[:, -1])
        if fold not in self._searches:
            kept = np.empty(0, np.intp) if self.task_of_all.keep is None else self.task_of_all.keep
            self._searches[fold] = gram_search(columns, target, kept)
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


class RidgeFolds(Folds):
    """Folds that are fitted with at most k features and each λ of `FOLD_GRID`."""

    @with_estimator_warnings
    @one_blas_thread()
    def score(
        self, share: Share, fold: int, budgets: list[Budget], features: tuple[int, ...] | None = None
    ) -> list[Scored]:
        """Return the scores of the fits of one fold with each λ; none without time.

        Where the data determine the coefficients, there is one score, that of the fit without a ridge, with its
        features.

        Parameters
        ----------
        share : Share
        fold : int
        budgets : list of Budget
            One: at most k features.
        features : tuple of int, optional
            Those of a fit without a ridge: no search is needed, and there is a score for each λ.
        """
        if share.seconds <= 0:
            return []
        (budget,) = budgets
        began, found, undetermined = time.monotonic(), None, True
        with limited(share.seconds):
            model, task = self.task(fold, budget)
            if features is None:
                with quiet():
                    found, undetermined = task.searched(budget)
                if found.status is Status.INTERRUPTED:
                    raise KeyboardInterrupt(found.message)
            chosen = np.array(features, np.intp) if found is None else task.features(task.inside(found))
            status = Status.SOLVED if found is None else found.status
            if undetermined:
                models = [
                    predictor(model, task, budget, task.standardization.outside(x, np.dtype(np.float64)), status, ridge)
                    for ridge, x in each_ridge(task, chosen)
                ]
            else:
                assert found is not None
                models = [fitted_model(model, task, budget, found)]
            if not self.caches_tasks:
                forget(task.objective)
        assert isinstance(self.samples, Samples)
        judged, each = self.samples.part(self.splits[fold][1]), (time.monotonic() - began) / len(models)
        diverging = found is not None and diverges(task, budget, found)
        scores = [self.scored(one, unscored(one, each, diverging), fold, judged) for one in models]
        return scores if undetermined else [replace(one, features=tuple(chosen.tolist())) for one in scores]


def each_ridge(task: Task, features: Features) -> Iterator[tuple[float, Vector]]:
    """Yield each λ of `FOLD_GRID` and x that minimises ψ with it over some features."""
    objective, n_outputs = task.objective, task.standardization.n_outputs
    assert isinstance(objective, LinearModel | ByClass)
    inside = task.with_kept(features)
    unit, signs = task.unit_and_signs(inside)
    fit = FewFeatures(objective.restrict(inside), signs, SUBSET_TOLERANCE * task.tol)
    places = (inside[:, None] * n_outputs + np.arange(n_outputs)).ravel()
    own = np.zeros(places.size)
    for factor in FOLD_GRID:
        own, x = fit(own, factor * task.automatic_ridge * unit), np.zeros(objective.dimension)
        x[places] = own
        yield factor * task.automatic_ridge, x


# --- splits and scorers of an estimator


def remote_splits(estimator: Any, n: int) -> Splits:
    """Return the folds of n remote samples: each has about as many rows of every partition, by a seed."""
    folds = _REMOTE_FOLDS if estimator.cv is None else int(estimator.cv)
    if n < folds:
        raise InvalidInputError(f"cv={folds} is more than the {n} samples there are")
    seed = int(estimator.random_state) if isinstance(estimator.random_state, Integral) else 0
    return [(RemoteFold(i, folds, seed, False), RemoteFold(i, folds, seed, True)) for i in range(folds)]


def scorer_and_splits(estimator: Any, samples: Samples, params: dict[str, Any]) -> tuple[Any, Splits, dict[str, Any]]:
    """Return the scorer, the folds, and metadata for the scorer, of samples in memory."""
    splitter = check_cv(estimator.cv, samples.y, classifier=is_classifier(estimator))
    scorer = None if estimator.scoring is None else check_scoring(estimator._single(), scoring=estimator.scoring)
    weight = {} if samples.weight is None else {"sample_weight": samples.weight}
    if get_config()["enable_metadata_routing"]:
        routed = process_routing(estimator, "fit", **weight, **params)
        split, score = dict(routed.splitter.split), dict(routed.get("scorer", {}).get("score", {}))
    else:
        unknown = set(params) - {"groups"}
        if unknown:
            raise TypeError(
                f"fit got {sorted(unknown)}, which only metadata routing can pass on: "
                "sklearn.set_config(enable_metadata_routing=True)"
            )
        split, score = params, weight
    splits = [(np.asarray(a), np.asarray(b)) for a, b in splitter.split(samples.X, samples.y, **split)]
    if not splits:
        raise InvalidInputError(f"cv has no folds: {estimator.cv!r}")
    if is_classifier(estimator):
        _check_classes(samples.y, samples.weight, splits)
    return scorer, splits, score


def routing_of(estimator: Any) -> MetadataRouter:
    """Return the routing of metadata to the fits, to the folds and to the scorer."""
    router = (
        MetadataRouter(owner=estimator)
        .add_self_request(estimator)
        .add(
            splitter=check_cv(estimator.cv, classifier=is_classifier(estimator)),
            method_mapping=MethodMapping().add(caller="fit", callee="split"),
        )
    )
    if estimator.scoring is not None:
        router.add(
            scorer=check_scoring(estimator._single(), scoring=estimator.scoring),
            method_mapping=MethodMapping().add(caller="fit", callee="score"),
        )
    return router


def hashed_folds(splits: Splits) -> str:
    """Return a key that identifies the folds."""
    return hashed(np.concatenate([np.append(test, train.size) for train, test in splits]))


def _check_classes(y: NDArray[Any], weight: NDArray[Any] | None, splits: Splits) -> None:
    """Raise where the training part of a fold has fewer than two classes, and name the fold.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Classes.
    weight : ndarray of shape (n,), optional
        Samples of weight 0 do not count.
    splits : sequence of (train, test)
    """
    for fold, (train, _) in enumerate(splits):
        present = np.unique(y[train] if weight is None else y[train][weight[train] > 0]).tolist()
        if len(present) < 2:
            only = f"only the class {present[0]!r}" if present else "no sample"
            raise InvalidInputError(
                f"cv: the training part of fold {fold} has {only}, and two classes are needed. {_REMEDY}"
            )


def left_out_message(count: int, y: NDArray[Any], splits: Splits) -> str:
    """Return a sentence on held-out samples that are not scored, with the folds and classes."""
    found = []
    for fold, (train, test) in enumerate(splits):
        missing = np.setdiff1d(y[test], y[train]).tolist()
        if missing:
            classes = ", ".join(map(repr, missing))
            found.append(f"fold {fold} has no sample of {'class' if len(missing) == 1 else 'classes'} {classes}")
    more = f" and {len(found) - 3} more folds alike" if len(found) > 3 else ""
    samples = "1 held-out sample of such a class is" if count == 1 else f"{count} held-out samples of such classes are"
    folds = f"the training part of {'; that of '.join(found[:3])}{more}"
    return f"{folds}. {samples} left out of the score. {_REMEDY}"
