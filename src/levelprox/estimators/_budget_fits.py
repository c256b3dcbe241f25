"""Fits under several budgets: `fit_path`, and fits of candidates to folds or to all data, with their scores.

`Folds.score` fits and scores one fold. `_folds.py` has the folds whose fits share work.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier

from levelprox._runtime import limited, one_blas_thread
from levelprox._typing import FloatArray, Rows
from levelprox.backends import RemoteObjective
from levelprox.designs import as_design
from levelprox.estimators._callbacks import Share, quiet, with_estimator_warnings
from levelprox.estimators._data import RemoteFold, RemoteSamples
from levelprox.estimators._fit import Task
from levelprox.estimators._fixed_ridge_fit import Solution
from levelprox.estimators._input import Samples
from levelprox.estimators._parameters import Budget, Parameters, budgets_of
from levelprox.exceptions import InvalidInputError
from levelprox.problem import Problem
from levelprox.result import Status
from levelprox.subset.column_cache import forget

#: The score in place of the held-out loss where fits of classes diverge: labels do not depend on where a fit stops.
LABELS = "accuracy"
_MOST_CACHED_ENTRIES = 2**22  # of X that are stored
_SHORTER = 2.0**-10  # a score that is the same so much nearer to 0 does not depend on the length of coefficients

#: Samples of a training or test part.
Part = Rows | RemoteFold
#: Training and test part of each fold.
Splits = Sequence[tuple[Any, Any]]


class FitPathMixin(Parameters):
    """An estimator that can be fitted under several budgets."""

    def path_budgets(self, n_samples: int, n_features: int) -> list[float]:
        """Return the budgets that `fit_path` takes by default, for data of this shape.

        Parameters
        ----------
        n_samples, n_features : int
            The shape of X.

        Returns
        -------
        list of float
            Numbers of features, levels or costs, in ascending order: up to the budget of the estimator, or those that
            it chooses from.
        """
        return [budget.value for budget in self._budgets(n_samples, n_features)]

    @with_estimator_warnings
    def fit_path(
        self,
        X: object,
        y: ArrayLike,
        *,
        n_features: ArrayLike | None = None,
        level: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **fit_params: ArrayLike | None,
    ) -> list[Any]:
        """Fit the model under several budgets. The estimator itself is not changed.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        n_features : array-like of int, optional
            Numbers of features; give these or `level`. By default those of `path_budgets`.
        level : array-like of float, optional
            Levels; each fit starts at the one before.
        sample_weight : array-like of shape (n_samples,), optional
        **fit_params
            `offset` and `exposure` of a regressor, as in `fit`.

        Returns
        -------
        list of SparseClassifier or SparseRegressor
            Fitted, in ascending order of the budgets.
        """
        model: Any = self._single()
        if "ridge" in (chosen := getattr(self, "best_params_", {})):
            model.set_params(ridge=chosen["ridge"])
        samples = model._read_samples(X, y, sample_weight, fit_params)
        if model.feature_cost is not None and (n_features is not None or level is not None):
            raise InvalidInputError(
                "the model has a budget of costs, so the other fits need one too: neither n_features nor level"
            )
        budgets = budgets_of(n_features, level) or self._budgets(*samples.shape)
        task: Task = Task.of(model, model._prepare(samples), budgets[0])
        fits = []
        for budget, solution in zip(budgets, task.each(budgets), strict=True):
            fits.append(fitted_model(model, task, budget, solution))
        return fits

    def _single(self) -> Any:
        """Return the estimator for one budget, without callbacks, progress and checkpoints."""
        return clone(self).set_params(verbose=0, callback=None, checkpoint=None, resume=False)


@dataclass(frozen=True)
class Scored:
    """One candidate on one fold, or on all data.

    Attributes
    ----------
    score : float
        On the held-out samples; of a fit of all data, ψ.
    n_selected : int
    seconds : float
    solved : bool
    freedom : int
        Degrees of freedom, of a fit of all data.
    left_out : int
        Held-out samples of classes that the training part does not have.
    diverging : bool
        Whether the loss has no minimiser.
    by_label : float
        Accuracy of a classifier; nan where `score` is never replaced by it.
    by_length : bool
        Whether the fit diverges and `score` depends on the length of its coefficients.
    cut_short : bool
        Whether the time limit ended the fit.
    features : tuple of int
        Those of a fit without a ridge, which may be refitted with one (`RidgeFolds`).
    """

    score: float
    n_selected: int
    seconds: float
    solved: bool
    freedom: int = 0
    left_out: int = 0
    diverging: bool = False
    by_label: float = math.nan
    by_length: bool = False
    cut_short: bool = False
    features: tuple[int, ...] = ()


class LocalCache(dict[Any, Any]):
    """A cache whose copy in another process is empty."""

    def __reduce__(self) -> tuple[type[LocalCache], tuple[()]]:
        return LocalCache, ()


@dataclass(frozen=True, eq=False)
class Folds:
    """Folds of samples, on which candidates are scored."""

    single: Any  # the estimator for one budget
    samples: Samples | RemoteSamples
    splits: Splits
    scorer: Any = None  # by default the score is the negative mean loss
    score_params: dict[str, Any] = field(default_factory=dict)  # metadata for the scorer, of all samples
    _cache: LocalCache = field(default_factory=LocalCache)  # models and tasks by fold and ridge

    @property
    def caches_tasks(self) -> bool:
        """Whether tasks of all folds are cached: X is small, and fits for different k share much."""
        return isinstance(self.samples, Samples) and bool(self.samples.X.size <= _MOST_CACHED_ENTRIES)

    def task(self, fold: int, budget: Budget) -> tuple[Any, Task]:
        """Return a model and its task for the training part of a fold."""
        key = fold, budget.ridge
        made: tuple[Any, Task] = self._cache.get(key) or prepared(
            self.single, self.samples, self.splits[fold][0], budget
        )
        if self.caches_tasks:
            self._cache[key] = made
        return made

    @with_estimator_warnings
    @one_blas_thread()
    def score(self, share: Share, fold: int, budgets: list[Budget]) -> list[Scored]:
        """Fit the training part under each of the budgets, and score the fits on the test part; none without time.

        Products of the test part with coefficients, as all that fits do, are too small for threads of BLAS.
        """
        if share.seconds <= 0:
            return []
        judged = _part(self.samples, self.splits[fold][1])
        task, fits = fits_under(share, lambda: self.task(fold, budgets[0]), budgets, self.caches_tasks)
        if isinstance(judged, RemoteSamples):
            return _scored_remotely(judged, task, fits)
        return [self.scored(model, fit, fold, judged) for model, fit in fits]

    def scored(self, model: Any, fit: Scored, fold: int, judged: Samples) -> Scored:
        """Return the fit of a model with its score on the held-out samples of a fold."""
        if self.scorer is not None:
            score, by_length = self.score_of(model, fold, judged), False
            if fit.diverging:
                shorter = copy.copy(model)  # with the same labels and order of margins
                shorter.coef_, shorter.intercept_ = _SHORTER * model.coef_, _SHORTER * model.intercept_
                by_length = not math.isclose(score, self.score_of(shorter, fold, judged), rel_tol=1e-9, abs_tol=1e-12)
            return replace(fit, score=score, by_length=by_length)
        classifies = is_classifier(model)
        known = np.isin(judged.y, model.classes_) if classifies else np.ones(judged.y.size, np.bool_)
        if not np.any(known):
            raise InvalidInputError(
                f"cv has a fold with none of the classes of its training part, {model.classes_.tolist()}; use "
                "stratified folds"
            )
        part = judged if np.all(known) else judged.part(np.flatnonzero(known))
        part = replace(part, X=as_design(part.X))  # which was checked before
        score, by_label = -model._mean_loss(part.X, part.y, part.weight, **part.more), math.nan
        if classifies:  # as `score` of the model, without its checks
            by_label = float(np.average(model.predict(part.X) == part.y, weights=part.weight))
        left_out = int(np.count_nonzero(~known))
        return replace(fit, score=score, left_out=left_out, by_label=by_label, by_length=fit.diverging)

    def score_of(self, model: Any, fold: int, judged: Samples) -> float:
        """Return the score of a model by the scorer."""
        rows = self.splits[fold][1]
        params = {name: np.asarray(value)[rows] for name, value in self.score_params.items()}
        judge = _WithOffsets(model, judged.more) if judged.more else model
        return float(self.scorer(judge, judged.X, judged.y, **params))


class _WithOffsets:
    """A fitted regressor whose predictions take the offsets and exposures of the samples that it is scored on."""

    def __init__(self, model: Any, more: dict[str, Any]) -> None:
        self._model, self._more = model, more

    def predict(self, X: object) -> FloatArray:
        predictions: FloatArray = self._model.predict(X, **self._more)
        return predictions

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        return float(self._model.score(X, y, sample_weight, **self._more))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def _part(samples: Samples | RemoteSamples, rows: Any) -> Samples | RemoteSamples:
    """Return some of the samples, or all."""
    return samples if rows is None else samples.part(rows)


def _scored_remotely(judged: RemoteSamples, task: Task, fits: list[tuple[Any, Scored]]) -> list[Scored]:
    """Return the scores of fits on remote samples, by the mean loss; accuracies where fits may diverge."""
    objective = task.objective
    assert isinstance(objective, RemoteObjective)
    judge = judged.source.model(objective.form)
    found = []
    for model, fit in fits:
        x = task.standardization.inside(model.coef_, model.intercept_)
        score = -judge.value_and_gradient(x)[0]
        by_label = judge.accuracy(x) if is_classifier(model) and not objective.attained else math.nan
        found.append(replace(fit, score=score, by_label=by_label, by_length=fit.diverging))
    return found


class AllData(Folds):
    """All samples as the training part of one fold, without a test part: for information criteria."""

    @with_estimator_warnings
    def score(self, share: Share, fold: int, budgets: list[Budget]) -> list[Scored]:
        """Return ψ and degrees of freedom of the fit under each of the budgets; none without time."""
        if share.seconds <= 0:
            return []
        found = []
        for model, fit in fits_under(share, lambda: prepared(self.single, self.samples, None, budgets[0]), budgets)[1]:
            rows = np.atleast_2d(model.coef_).shape[0]
            each = max(rows - 1, 1) if is_classifier(model) and model.multi_class_ == "softmax" else rows
            freedom = each * (fit.n_selected + int(model.fit_intercept))
            found.append(replace(fit, freedom=freedom, solved=model.status_.success))
        return found


def fits_under(
    share: Share, make: Callable[[], tuple[Any, Task]], budgets: list[Budget], cached: bool = False
) -> tuple[Task, list[tuple[Any, Scored]]]:
    """Return the task, and a fitted model and its `unscored` fit under each of the budgets.

    Parameters
    ----------
    share : Share
        Of the time that is left.
    make : callable
        Returns a model and its task, as `prepared`.
    budgets : list of Budget
        All levels, or all numbers of features.
    cached : bool
        Whether the task is cached for other budgets.
    """
    began = time.monotonic()
    with limited(share.seconds):
        model, task = make()
        with quiet():
            solutions = task.each(budgets)
        if not cached:
            forget(task.objective)
    each, fits = (time.monotonic() - began) / len(budgets), []
    for budget, solution in zip(budgets, solutions, strict=True):
        fitted = fitted_model(model, task, budget, solution)
        psi = solution.certificate.psi - solution.penalty
        fits.append((fitted, unscored(fitted, each, diverges(task, budget, solution), psi)))
    return task, fits


def unscored(model: Any, seconds: float, diverging: bool, psi: float = math.nan) -> Scored:
    """Return a fit before it is scored on held-out samples."""
    status = model.status_
    return Scored(
        score=psi,
        n_selected=model.selected_features_.size,
        seconds=seconds,
        solved=status.success or status is Status.DIVERGING,
        diverging=diverging,
        cut_short=status is Status.TIME_LIMIT,
    )


def prepared(single: Any, samples: Samples | RemoteSamples, rows: Part | None, budget: Budget) -> tuple[Any, Task]:
    """Return a model and its task for some samples, or all; of data in memory fits examine no swaps."""
    model = clone(single)
    model.n_features_in_ = samples.shape[1]
    part = _part(samples, rows)
    try:
        made = model._prepare(part)
    except InvalidInputError as error:
        if isinstance(rows, RemoteFold):
            raise InvalidInputError(f"without fold {rows.fold}: {error}") from None
        raise
    if isinstance(samples, RemoteSamples) and isinstance(rows, RemoteFold) and is_classifier(model):
        left = np.setdiff1d(samples.classes, model.classes_).tolist()
        if left:
            raise InvalidInputError(
                f"without fold {rows.fold}: no sample is left of class {left[0]!r}; use fewer folds"
            )
    task = replace(Task.of(model, made, budget), examine=isinstance(part, RemoteSamples))
    return model, task


def fitted_model(model: Any, task: Task, budget: Budget, solution: Solution) -> Any:
    """Return a fitted copy of the model."""
    fitted = copy.copy(model)
    fitted._set_solution(task, budget, solution)
    return fitted


def predictor(
    model: Any, task: Task, budget: Budget, coefficients: tuple[FloatArray, FloatArray], status: Status, ridge: float
) -> Any:
    """Return a model that can predict, with coefficients and intercepts."""
    fitted = copy.copy(model)
    fitted._set_coefficients(*coefficients)
    fitted.scale_, fitted.level_ = task.standardization.scale, budget.at_most
    fitted.ridge_, fitted.status_ = ridge, status
    return fitted


def diverges(task: Task, budget: Budget, solution: Solution) -> bool:
    """Return whether the loss has no minimiser under the budget, so that only the solver bounds the coefficients.

    A loss with a bound, such as sigmoid, never diverges in this sense: its mean over other samples hardly depends on
    the length of coefficients that are long already.
    """
    objective = task.objective
    if objective.convex_start is not None:
        return False
    if solution.ridge > 0:  # then only features that are kept may separate classes
        return solution.status is Status.DIVERGING
    if budget.features is not None and solution.status in (Status.SOLVED, Status.SOLVED_INACCURATE):
        return False  # the search has examined it
    if solution.status is Status.DIVERGING:
        return True
    x = task.inside(solution)
    if budget.features is None:
        assert task.constraint is not None
        problem = Problem(objective, task.constraint, budget.value, task.feature_weight, task.positive)
        x = np.where(problem.free(x), x, 0.0)
    return bool(np.any(x)) and objective.is_separated(x)
