"""Fits of candidates to the training part of a fold, or to all data, and their scores.

Folds: their identity, and errors and warnings for classes that they do not have.
"""

from __future__ import annotations

import copy
import functools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from levelprox._runtime.deadline import limited
from levelprox._runtime.threads import one_blas_thread
from levelprox._typing import Rows
from levelprox.backends import RemoteObjective
from levelprox.designs import as_design
from levelprox.driver.run_identity import hashed
from levelprox.estimators._callbacks import quiet, with_estimator_warnings
from levelprox.estimators._data import RemoteFold, RemoteSamples, Samples
from levelprox.estimators._fit import Task
from levelprox.estimators._fixed_ridge_fit import Solution
from levelprox.estimators._parameters import Budget
from levelprox.exceptions import InvalidInputError
from levelprox.problem import Problem
from levelprox.result import Status
from levelprox.subset.column_cache import forget

#: The score in place of the held-out loss where fits of classes diverge: labels do not depend on where a fit stops.
LABELS = "accuracy"
_SMALL = 2**22  # entries of X that are stored
_SHORTER = 2.0**-10  # a score that is the same so much nearer to 0 does not depend on the length of coefficients


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
        Those of a fit without a ridge, which may be refitted with one (`_ridge_selection.py`).
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


#: Samples of a training or test part.
Part = Rows | RemoteFold

#: The scores of fits by budget, ridge and fold.
Found = dict[tuple[float, float | None, int], Scored]


class KeptTask:
    """A model and its task, made once for all budgets of a fold; another process makes its own.

    Attributes
    ----------
    made : (estimator, Task) or None
    """

    def __init__(self) -> None:
        self.made: tuple[Any, Task] | None = None

    def __reduce__(self) -> tuple[type[KeptTask], tuple[()]]:
        return KeptTask, ()


class KeptTasks:
    """Those of all folds; none where `wanted` is false."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self.folds: dict[tuple[int, float | None], KeptTask] = {}

    def of(self, fold: int, ridge: float | None) -> KeptTask | None:
        """Return that of one fold and one ridge."""
        return self.folds.setdefault((fold, ridge), KeptTask()) if self.wanted else None


@dataclass(frozen=True)
class Share:
    """What a piece of work may take of the time that is left, also in another process.

    Attributes
    ----------
    until : float
        When the time is up, by `time.time`; inf without a limit.
    parts : int
        How many pieces are to be done until then, one after another, this one included.
    """

    until: float
    parts: int

    @property
    def seconds(self) -> float:
        """Seconds for this piece, if it begins now."""
        return (self.until - time.time()) / self.parts


@with_estimator_warnings
@one_blas_thread()
def score_fold(
    share: Share,
    single: Any,
    samples: Samples | RemoteSamples,
    train: Part,
    test: Part,
    budgets: list[Budget],
    scorer: Any,
    score_params: dict[str, Any],
    kept: KeptTask | None = None,
) -> list[Scored]:
    """Fit the training part under each of the budgets, and score the fits on the test part; none without time.

    Products of the test part with coefficients, as all that fits do, are too small for threads of BLAS.
    """
    if share.seconds <= 0:
        return []
    judged = _part(samples, test)
    fits = fitted_under(share, single, samples, train, budgets, kept)
    if isinstance(judged, RemoteSamples):
        return _scored_remotely(judged, list(fits))
    return [scored(fit.model, judged, fit.seconds, fit.diverging, scorer, score_params) for fit in fits]


def _part(samples: Samples | RemoteSamples, rows: Part | None) -> Samples | RemoteSamples:
    """Return some of the samples, or all."""
    if rows is None:
        return samples
    if isinstance(samples, RemoteSamples):
        assert isinstance(rows, RemoteFold)
        return samples.part(rows)
    assert not isinstance(rows, RemoteFold)
    return samples.part(rows)


def _scored_remotely(judged: RemoteSamples, fits: list[FoldFit]) -> list[Scored]:
    """Return how fits do on remote samples, by the mean loss; the accuracy is computed where fits may diverge."""
    objective = fits[0].task.objective
    assert isinstance(objective, RemoteObjective)
    judge = judged.source.model(objective.form)
    found = []
    for fit in fits:
        model, x = fit.model, fit.task.standardization.inside(fit.model.coef_, fit.model.intercept_)
        score = Scored(
            -judge.value_and_gradient(x)[0],
            model.selected_features_.size,
            fit.seconds,
            model.status_.success or model.status_ is Status.DIVERGING,
            diverging=fit.diverging,
            by_label=judge.accuracy(x) if is_classifier(model) and not objective.attained else math.nan,
            by_length=fit.diverging,
            cut_short=model.status_ is Status.TIME_LIMIT,
        )
        found.append(score)
    return found


def scored(
    model: Any, judged: Samples, seconds: float, diverging: bool, scorer: Any, score_params: dict[str, Any]
) -> Scored:
    """Return how a fit does on the held-out samples of a fold."""
    classifies, by_label, by_length = is_classifier(model), math.nan, False
    known = np.isin(judged.y, model.classes_) if classifies else np.ones(judged.y.size, np.bool_)
    if scorer is not None:
        score = float(scorer(told(model, judged.more), judged.X, judged.y, **score_params))
        if diverging:
            shorter = float(scorer(told(_shortened(model), judged.more), judged.X, judged.y, **score_params))
            by_length = not math.isclose(score, shorter, rel_tol=1e-9, abs_tol=1e-12)
    elif not np.any(known):
        raise InvalidInputError(
            f"cv has a fold with none of the classes of its training part, {model.classes_.tolist()}; use "
            "stratified folds"
        )
    else:
        part = judged if np.all(known) else judged.part(np.flatnonzero(known))
        part = replace(part, X=as_design(part.X))  # which was checked before
        score = -model._mean_loss(part.X, part.y, part.weight, **part.more)
        by_label, by_length = _accuracy(model, part) if classifies else math.nan, diverging
    return Scored(
        score,
        model.selected_features_.size,
        seconds,
        model.status_.success or model.status_ is Status.DIVERGING,
        left_out=0 if scorer is not None else int(np.count_nonzero(~known)),
        diverging=diverging,
        by_label=by_label,
        by_length=by_length,
        cut_short=model.status_ is Status.TIME_LIMIT,
    )


def _accuracy(model: Any, samples: Samples) -> float:
    """Return what `score` of a classifier does, without its checks of samples that were checked before."""
    return float(np.average(model.predict(samples.X) == samples.y, weights=samples.weight))


def _shortened(model: Any) -> Any:
    """The model with much smaller coefficients and intercepts: the same labels and order of margins."""
    shorter = copy.copy(model)
    shorter.coef_, shorter.intercept_ = _SHORTER * model.coef_, _SHORTER * model.intercept_
    return shorter


def told(model: Any, more: dict[str, NDArray[Any]]) -> Any:
    """The model, whose predictions know the offsets and exposures of the samples that it is judged by."""
    if not more:
        return model
    judged = copy.copy(model)
    judged.predict = functools.partial(model.predict, **more)
    judged.score = functools.partial(model.score, **more)
    return judged


@with_estimator_warnings
def fit_all(share: Share, single: Any, samples: Samples | RemoteSamples, budgets: list[Budget]) -> list[Scored]:
    """Return ψ and degrees of freedom of the fits of all data; none without time."""
    found: list[Scored] = []
    if share.seconds <= 0:
        return found
    for fit in fitted_under(share, single, samples, None, budgets):
        model = fit.model
        count = model.selected_features_.size
        rows = np.atleast_2d(model.coef_).shape[0]
        each = max(rows - 1, 1) if is_classifier(model) and model.multi_class_ == "softmax" else rows
        freedom = each * (count + int(model.fit_intercept))
        psi, status = model.certificate_.psi - model._penalty, model.status_
        cut_short = status is Status.TIME_LIMIT
        found.append(
            Scored(psi, count, fit.seconds, status.success, freedom, diverging=fit.diverging, cut_short=cut_short)
        )
    return found


@dataclass(frozen=True, eq=False)
class FoldFit:
    """One fit of several under different budgets.

    Attributes
    ----------
    model : estimator
        Fitted.
    task : Task
        The same for all of them.
    seconds : float
    diverging : bool
        Whether the loss has no minimiser.
    """

    model: Any
    task: Task
    seconds: float
    diverging: bool


def fitted_under(
    share: Share,
    single: Any,
    samples: Samples | RemoteSamples,
    rows: Part | None,
    budgets: list[Budget],
    kept: KeptTask | None = None,
) -> Iterator[FoldFit]:
    """Fit single models under each of the budgets, all by levels or all by features.

    Parameters
    ----------
    share : Share
        Of the time that is left.
    single : estimator
    samples : Samples or RemoteSamples
    rows : ndarray of int or RemoteFold, optional
        Those to be fitted; by default all.
    budgets : list of Budget
    kept : KeptTask, optional
        Where the model and its task are kept for other budgets.
    """
    began = time.monotonic()
    with limited(share.seconds):
        model, task = prepared(single, samples, rows, budgets[0], kept)
        with quiet():
            solutions = task.each(budgets)
        if kept is None:
            forget(task.objective)
    each = (time.monotonic() - began) / len(budgets)
    for budget, solution in zip(budgets, solutions, strict=True):
        diverging = diverges(task, budget, solution)
        yield FoldFit(with_solution(model, task, budget, solution), task, each, diverging)


def prepared(
    single: Any, samples: Samples | RemoteSamples, rows: Part | None, budget: Budget, kept: KeptTask | None
) -> tuple[Any, Task]:
    """Return a model and its task for some samples; see `fitted_under`."""
    if kept is not None and kept.made is not None:
        return kept.made
    model = clone(single)
    model.n_features_in_ = samples.shape[1]
    part = _part(samples, rows)
    remote = isinstance(part, RemoteSamples)
    made = _prepared_fold(model, part, rows) if isinstance(part, RemoteSamples) else model._prepare(part)
    task: Task = replace(model._task(made, budget), examine=remote)  # fits of folds in memory need no claims
    if kept is not None:
        kept.made = model, task
    return model, task


def _prepared_fold(model: Any, part: RemoteSamples, rows: Part | None) -> Any:
    """Return remote samples to be fitted; of a fold that leaves none of a class, raise an error that names it."""
    if not isinstance(rows, RemoteFold):
        return model._prepare(part)
    try:
        found = model._prepare(part)
    except InvalidInputError as error:
        raise InvalidInputError(f"without fold {rows.fold}: {error}") from None
    if is_classifier(model) and part.whole is not None and model.classes_.size < part.whole.classes.size:
        left = np.setdiff1d(part.whole.classes, model.classes_).tolist()
        raise InvalidInputError(f"without fold {rows.fold}: no sample is left of class {left[0]!r}; use fewer folds")
    return found


def with_solution(model: Any, task: Task, budget: Budget, solution: Solution) -> Any:
    """Return the model with what a fit found."""
    fitted = copy.copy(model)
    fitted._set_solution(task, budget, solution)
    fitted._penalty = solution.penalty
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
        return False  # the search has looked at it
    if solution.status is Status.DIVERGING:
        return True
    x = task.inside(solution)
    if budget.features is None:
        problem = Problem(objective, task.constraint, budget.value, task.feature_weight, task.positive)
        x = np.where(problem.free(x), x, 0.0)
    return bool(np.any(x)) and objective.is_separated(x)


def is_shared(samples: Samples | RemoteSamples) -> bool:
    """Return whether training parts of all folds may be kept: X is small, and fits for different k share much."""
    return isinstance(samples, Samples) and bool(
        samples.X.size <= _SMALL
    )  # of a sparse matrix, entries that are stored


#: Training and test part of each fold: rows, or folds of remote data.
Splits = Sequence[tuple[Any, Any]]

_REMEDY = "Use stratified folds, such as cv=StratifiedKFold(5, shuffle=True), or fewer of them"


def hashed_folds(splits: Splits) -> str:
    """Return a key that identifies the folds."""
    return hashed(np.concatenate([np.append(test, train.size) for train, test in splits]))


def rows_of(params: dict[str, Any], rows: NDArray[np.intp]) -> dict[str, Any]:
    """What is given for each sample, of some samples."""
    return {name: np.asarray(value)[rows] for name, value in params.items()}


def check_classes_of_folds(y: NDArray[Any], weight: NDArray[Any] | None, splits: Splits) -> None:
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


def missing_classes(y: NDArray[Any], splits: Splits) -> str:
    """Say which classes the training parts of folds do not have although their test parts do."""
    found = []
    for fold, (train, test) in enumerate(splits):
        missing = np.setdiff1d(y[test], y[train]).tolist()
        if missing:
            classes = ", ".join(map(repr, missing))
            found.append(f"fold {fold} has no sample of {'class' if len(missing) == 1 else 'classes'} {classes}")
    more = f" and {len(found) - 3} more folds alike" if len(found) > 3 else ""
    return f"the training part of {'; that of '.join(found[:3])}{more}"


def left_out_words(count: int, y: NDArray[Any], splits: Splits) -> str:
    """Say that so many held-out samples are not scored, in which folds and why."""
    samples = "1 held-out sample of such a class is" if count == 1 else f"{count} held-out samples of such classes are"
    return f"{missing_classes(y, splits)}. {samples} left out of the score. {_REMEDY}"
