"""Choosing the budget: by cross-validation over one set of folds, or by an information criterion.

Every candidate sees the same folds, and for at most k features the fit of a fold is the single fit at that k: no answer
depends on which other candidates there are, on their order, or on how many processes work on them.
"""

from __future__ import annotations

import copy
import functools
import math
import multiprocessing
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice, takewhile
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.parallel import Parallel, delayed

from levelprox.errors import CheckpointError, InvalidInputError, warn
from levelprox.estimators.base import SparseLinearModel, Vector, boolean
from levelprox.estimators.choosing_elsewhere import ChoosingElsewhere
from levelprox.estimators.information import CRITERIA, check_likelihood, deviance, price
from levelprox.estimators.task import Budget, Solution, Task, budgets_of
from levelprox.estimators.watching import counting, quiet
from levelprox.identity import hashed, identity_without_level
from levelprox.journal import Journal, keeping
from levelprox.limits import limited, seconds_left
from levelprox.path import KINDS
from levelprox.result import Status

#: Numbers of features tried where neither n_features nor level is given, as far as there are features.
DEFAULT_GRID = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30)
_OF_NO_CONSEQUENCE = ("verbose", "callback", "checkpoint", "resume", "n_jobs")
_FINAL_FIT = 0.25  # of the time limit: what is kept for the fit of all data
_LATE = 0.3  # seconds after that at which processes are no longer waited for
_PERFECT = 1e-14  # of ψ of the smallest model: what a scale of errors is at least


@dataclass(frozen=True, eq=False)
class Samples:
    """What a model is fitted to or judged by.

    Attributes
    ----------
    X, y : the data, validated
    weight : ndarray of shape (n,), optional
    more : dict of str to ndarray of shape (n,)
        What else there is for each sample: offset, exposure.
    """

    X: Any
    y: NDArray[Any]
    weight: Vector | None
    more: dict[str, NDArray[Any]]

    def part(self, rows: NDArray[np.intp]) -> Samples:
        """Some of the samples."""
        more = {name: values[rows] for name, values in self.more.items()}
        return Samples(self.X[rows], self.y[rows], None if self.weight is None else self.weight[rows], more)


class Choosing(ChoosingElsewhere, SparseLinearModel):
    """A model whose budget is chosen from a grid; the subclasses say which model."""

    _n_subtasks = 2  # of a fit, for scikit-learn's callbacks: the search, and the fit of all data

    def _choose_and_fit(self, samples: Samples, params: dict[str, Any]) -> Self:
        """The fit of all data under the best budget of the grid."""

        def task(budget: Budget) -> Task:
            return self._task(samples.X, samples.y, samples.weight, budget, **samples.more)

        def identity() -> dict[str, str]:
            options = {name: value for name, value in self.get_params().items() if name not in _OF_NO_CONSEQUENCE}
            return identity_without_level(task(self._grid(samples.X.shape[1])[0]).objective, **options)

        with keeping(self.checkpoint, self.resume, identity, (*KINDS, _Scored)) as journal:
            budget = self._search(samples, params, journal.part("choosing"))
            return self._fit(replace(task(budget), checkpoint=journal.part("fit")), budget)

    def _search(self, samples: Samples, params: dict[str, Any], journal: Journal) -> Budget:
        """The best of the grid, with `cv_results_` and what goes with it."""
        d = samples.X.shape[1]
        self._check_criterion()
        if self.criterion == "cv":
            scorer, splits, score_params = self._judges(samples, params)
            budgets = self._grid(d)
            results, best = self._by_folds(samples, budgets, splits, scorer, score_params, journal)
        else:
            check_likelihood(self.criterion, self._loss().name)
            budgets = self._grid(d)
            results, best = self._by_criterion(samples, budgets, journal)
        self._set_choice(budgets, results, best)
        return budgets[best]

    def _check_criterion(self) -> None:
        if self.criterion not in ("cv", *CRITERIA):
            raise InvalidInputError(f"criterion must be one of cv, {', '.join(CRITERIA)}, got {self.criterion!r}")
        if boolean("one_standard_error", self.one_standard_error) and self.criterion != "cv":
            raise InvalidInputError(
                f"one_standard_error is for criterion='cv': {self.criterion!r} has no standard error"
            )

    def _set_choice(self, budgets: list[Budget], results: dict[str, NDArray[Any]], best: int) -> None:
        self.cv_results_ = results
        self.best_index_ = best
        name = "n_features" if budgets[0].features is not None else "level"
        self.best_params_ = {name: results[name][best].item()}
        self.best_score_ = float(results["mean_test_score" if self.criterion == "cv" else self.criterion][best])

    # --- the grid

    def _grid(self, d: int) -> list[Budget]:
        """The candidates in ascending order, each once."""
        return budgets_of(self.n_features, self.level) or [Budget(features=k) for k in DEFAULT_GRID if k <= d]

    # --- by folds

    def _judges(
        self, samples: Samples, params: dict[str, Any]
    ) -> tuple[Any, list[tuple[NDArray[np.intp], NDArray[np.intp]]], dict[str, Any]]:
        """Who scores, on which folds, and what a scorer is told besides."""
        splitter = check_cv(self.cv, samples.y, classifier=is_classifier(self))
        scorer = None if self.scoring is None else check_scoring(self._single(), scoring=self.scoring)
        weight = {} if samples.weight is None else {"sample_weight": samples.weight}
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", **weight, **params)
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
            raise InvalidInputError(f"cv has no folds: {self.cv!r}")
        return scorer, splits, score

    def _by_folds(
        self,
        samples: Samples,
        budgets: list[Budget],
        splits: list[tuple[NDArray[np.intp], NDArray[np.intp]]],
        scorer: Any,
        score_params: dict[str, Any],
        journal: Journal,
    ) -> tuple[dict[str, NDArray[Any]], int]:
        """Scores of each candidate on each fold; levels of a fold are solved together, one after another."""
        together = budgets[0].features is None
        groups = [budgets] if together else [[budget] for budget in budgets]
        jobs = [(group, fold) for group in groups for fold in range(len(splits))]
        single = self._single()
        work = (
            delayed(_score_fold)(
                share, single, samples, *splits[fold], group, scorer, _rows_of(score_params, splits[fold][1])
            )
            for share, (group, fold) in zip(self._shares(len(jobs)), jobs, strict=False)
        )
        found: dict[tuple[float, int], _Scored] = {}
        tests = np.concatenate([np.append(test, train.size) for train, test in splits])
        for (group, fold), outcome in zip(jobs, self._outcomes(work, len(jobs), "fold", tests, journal), strict=False):
            found.update({(budget.value, fold): one for budget, one in zip(group, outcome, strict=False)})
        folds = range(len(splits))
        first = budgets[:1]
        budgets = _examined(budgets, [all((one.value, fold) in found for fold in folds) for one in budgets])
        if not budgets:
            return self._unexamined(first, len(splits)), 0
        scores = np.array([[found[budget.value, fold].score for fold in folds] for budget in budgets])
        counts = np.array([[found[budget.value, fold].n_selected for fold in folds] for budget in budgets])
        seconds = np.array([[found[budget.value, fold].seconds for fold in folds] for budget in budgets])
        unsolved = np.array([sum(not found[budget.value, fold].solved for fold in folds) for budget in budgets])
        left_out = sum(found[budgets[0].value, fold].left_out for fold in folds)
        if left_out:
            warn(
                f"{left_out} samples are of classes that the training part of their fold does not have; they are left "
                "out of the score. Use stratified folds, or fewer of them"
            )
        results, best = self._table(budgets, scores, counts, seconds)
        results["n_unsolved"] = unsolved
        self._warn_of_unsolved(budgets, unsolved)
        return results, best

    def _warn_of_unsolved(self, budgets: list[Budget], unsolved: NDArray[Any]) -> None:
        if np.any(unsolved):
            which = ", ".join(f"{budget.value:g}" for budget, count in zip(budgets, unsolved, strict=True) if count)
            warn(
                f"of the budgets {which} some fits of folds did not end at a minimiser, as on separable data: "
                "their scores say little (cv_results_['n_unsolved']). Leave them out, or raise max_iter and time_limit"
            )

    def _table(
        self, budgets: list[Budget], scores: Vector, counts: NDArray[Any], seconds: Vector
    ) -> tuple[dict[str, NDArray[Any]], int]:
        n_folds = scores.shape[1]
        mean, spread = scores.mean(axis=1), scores.std(axis=1)
        error = scores.std(axis=1, ddof=1) / math.sqrt(n_folds) if n_folds > 1 else np.zeros(len(budgets))
        if np.all(np.isnan(mean)):
            raise InvalidInputError(f"scoring={self.scoring!r} gave no number for any candidate")
        ranked = np.where(np.isnan(mean), -np.inf, mean)
        best = int(np.argmax(ranked))  # of equal ones the smallest
        if self.one_standard_error:
            best = int(np.argmax(ranked >= ranked[best] - error[best]))
        rank = np.array([1 + int(np.count_nonzero(ranked > one)) for one in ranked], np.int32)
        return {
            **_values(budgets),
            **{f"split{i}_test_score": scores[:, i] for i in range(n_folds)},
            "mean_test_score": mean,
            "std_test_score": spread,
            "standard_error": error,
            "rank_test_score": rank,
            "mean_n_selected": counts.mean(axis=1),
            "mean_fit_time": seconds.mean(axis=1),
        }, best

    def _outcomes(
        self, work: Iterable[Any], total: int, what: str, splits: NDArray[Any] | None, journal: Journal
    ) -> Iterator[list[_Scored]]:
        """What comes of the pieces of work, in their order; those that the journal knows are not done again."""
        folds = "none" if splits is None else hashed(splits)
        known = journal.state or {"folds": folds, "scored": ()}
        if known["folds"] != folds:
            raise CheckpointError(
                "the checkpoint is of other folds than those of now; give the splitter of cv a fixed random_state"
            )
        scored = list(known["scored"])
        with counting(self, total, what) as follow:
            rest = _until_the_limit(self.n_jobs, islice(work, len(scored), None))
            for i, outcome in enumerate(follow(chain(known["scored"], rest))):
                if i == len(scored) and outcome and not any(one.cut_short for one in outcome):
                    scored.append(outcome)
                    journal.keep({"folds": folds, "scored": tuple(scored)})
                yield outcome

    def _shares(self, count: int) -> Iterator[Share]:
        """What each of so many pieces of work may take of the time that is left; no more once there is none.

        A part of it is for the fit of all data. Time that a piece leaves is there for those after it.
        """
        # Now, and not when joblib asks for a share: it does so in other threads, which have no limit.
        until = time.time() + _seconds_to_choose()
        workers = effective_n_jobs(self.n_jobs)
        shares = (Share(until, math.ceil((count - i) / workers)) for i in range(count))
        return takewhile(lambda share: share.seconds > 0, shares)

    def _unexamined(self, first: list[Budget], n_folds: int) -> dict[str, NDArray[Any]]:
        """The table of the first candidate, of which nothing is known: there was no time."""
        counts: dict[str, NDArray[Any]] = {}
        unknown = [self.criterion, "loss", "n_selected", "df"]
        if self.criterion == "cv":
            unknown = [f"split{i}_test_score" for i in range(n_folds)]
            unknown += ["mean_test_score", "std_test_score", "standard_error", "mean_n_selected", "mean_fit_time"]
            counts = {"rank_test_score": np.ones(1, np.int32), "n_unsolved": np.full(1, n_folds)}
        return {**_values(first), **{name: np.full(1, np.nan) for name in unknown}, **counts}

    # --- by a criterion

    def _by_criterion(
        self, samples: Samples, budgets: list[Budget], journal: Journal
    ) -> tuple[dict[str, NDArray[Any]], int]:
        single, loss = self._single(), self._loss().name
        groups = [budgets] if budgets[0].features is None else [[budget] for budget in budgets]
        work = (
            delayed(_fit_all)(share, single, samples, group)
            for share, group in zip(self._shares(len(groups)), groups, strict=False)
        )
        found = [one for outcome in self._outcomes(work, len(groups), "fit", None, journal) for one in outcome]
        first = budgets[:1]
        budgets = _examined(budgets, [i < len(found) for i in range(len(budgets))])
        if not budgets:
            return self._unexamined(first, 0), 0
        n = float(samples.y.size if samples.weight is None else samples.weight.sum())
        psi = np.array([one.score for one in found])
        counts = np.array([one.n_selected for one in found])
        freedom = np.array([one.freedom for one in found])
        log_y = float(np.average(np.log(samples.y), weights=samples.weight)) if loss == "gamma" else 0.0
        return self._by_price(budgets, psi, counts, freedom, n, samples.X.shape[1], log_y)

    def _by_price(
        self,
        budgets: list[Budget],
        psi: Vector,
        counts: NDArray[Any],
        freedom: NDArray[Any],
        n: float,
        d: int,
        log_y: float,
    ) -> tuple[dict[str, NDArray[Any]], int]:
        """The table of fits of all data, by what they lose and what their features cost."""
        loss = self._loss().name
        least = max(_PERFECT * float(np.max(psi)), np.finfo(np.float64).tiny)
        values = np.array(
            [
                deviance(loss, one, n, least, log_y) + price(self.criterion, int(df), n, int(count), d)
                for one, df, count in zip(psi, freedom, counts, strict=True)
            ]
        )
        results = {**_values(budgets), self.criterion: values, "loss": psi, "n_selected": counts, "df": freedom}
        return results, int(np.argmin(values))

    def get_metadata_routing(self) -> Any:
        """What of the metadata given to `fit` goes where: to the fits, to the folds, to the scorer."""
        router = (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                splitter=check_cv(self.cv, classifier=is_classifier(self)),
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        )
        if self.scoring is not None:
            router.add(
                scorer=check_scoring(self._single(), scoring=self.scoring),
                method_mapping=MethodMapping().add(caller="fit", callee="score"),
            )
        return router

    def _budgets(self, n: int, d: int) -> list[Budget]:
        return self._grid(d)

    def _single(self) -> Any:
        """The estimator for one budget, with the same parameters."""
        kind = type(self)._single_type
        own = {"n_features", "level", "verbose", "callback", "checkpoint", "resume"}
        shared = (set(kind._get_param_names()) & set(self._get_param_names())) - own
        return kind(**{name: getattr(self, name) for name in shared})


@dataclass(frozen=True)
class _Scored:
    """One candidate on one fold, or on all data: its score, or ψ, and what it used."""

    score: float
    n_selected: int
    seconds: float
    solved: bool
    freedom: int = 0
    left_out: int = 0
    cut_short: bool = False


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


def _until_the_limit(n_jobs: int | None, work: Iterator[Any]) -> Iterator[list[_Scored]]:
    """What comes of the pieces of work, as far as there is time; processes that are late are ended."""
    seconds = _seconds_to_choose()
    alone = effective_n_jobs(n_jobs) == 1  # then there is nobody to wait for, and joblib takes no timeout
    until, timeout = time.monotonic() + seconds, None if alone or math.isinf(seconds) else seconds + _LATE
    try:
        yield from Parallel(n_jobs=n_jobs, return_as="generator", timeout=timeout)(work)
    except multiprocessing.TimeoutError:  # joblib's, which has ended the processes, if it is not a scorer's own
        if time.monotonic() < until:
            raise


def _seconds_to_choose() -> float:
    """What is left of the time limit, but for a part that is kept for the fit of all data."""
    return (1 - _FINAL_FIT) * seconds_left()


def _examined(budgets: list[Budget], complete: list[bool]) -> list[Budget]:
    """The budgets that there was time for: those up to the first that is not complete."""
    count = complete.index(False) if False in complete else len(budgets)
    if count == 0:
        warn(
            f"there was no time to examine any of {len(budgets)} candidates: the smallest, {budgets[0].value:g}, is "
            "taken. Raise time_limit, or give fewer candidates"
        )
    elif count < len(budgets):
        warn(
            f"there was no time for {len(budgets) - count} of {len(budgets)} candidates, those above "
            f"{budgets[count - 1].value:g}: they are not in cv_results_. Raise time_limit, or give fewer candidates"
        )
    return budgets[:count]


def _score_fold(
    share: Share,
    single: Any,
    samples: Samples,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    budgets: list[Budget],
    scorer: Any,
    score_params: dict[str, Any],
) -> list[_Scored]:
    scored: list[_Scored] = []
    if share.seconds <= 0:
        return scored
    judged = samples.part(test)
    for model, seconds in _fitted(share, single, samples, train, budgets):
        known = np.isin(judged.y, model.classes_) if is_classifier(model) else np.ones(judged.y.size, np.bool_)
        if scorer is not None:
            score = float(scorer(_told(model, judged.more), judged.X, judged.y, **score_params))
        elif not np.any(known):
            raise InvalidInputError(
                f"cv has a fold with none of the classes of its training part, {model.classes_.tolist()}; use "
                "stratified folds"
            )
        elif np.all(known):
            score = -model._mean_loss(judged.X, judged.y, judged.weight, **judged.more)
        else:
            part = judged.part(np.flatnonzero(known))
            score = -model._mean_loss(part.X, part.y, part.weight, **part.more)
        left_out = 0 if scorer is not None else int(np.count_nonzero(~known))
        n_selected, status = model.selected_features_.size, model.status_
        cut_short = status is Status.TIME_LIMIT
        scored.append(_Scored(score, n_selected, seconds, status.success, left_out=left_out, cut_short=cut_short))
    return scored


def _told(model: Any, more: dict[str, NDArray[Any]]) -> Any:
    """The model, whose predictions know the offsets and exposures of the samples that it is judged by."""
    if not more:
        return model
    judged = copy.copy(model)
    judged.predict = functools.partial(model.predict, **more)
    judged.score = functools.partial(model.score, **more)
    return judged


def _fit_all(share: Share, single: Any, samples: Samples, budgets: list[Budget]) -> list[_Scored]:
    """ψ and degrees of freedom of the fits of all data."""
    scored: list[_Scored] = []
    if share.seconds <= 0:
        return scored
    for model, seconds in _fitted(share, single, samples, None, budgets):
        count = model.selected_features_.size
        rows = np.atleast_2d(model.coef_).shape[0]
        each = max(rows - 1, 1) if is_classifier(model) and model._softmax() else rows
        freedom = each * (count + int(model.fit_intercept))
        psi, status = model.certificate_.psi, model.status_
        cut_short = status is Status.TIME_LIMIT
        scored.append(_Scored(psi, count, seconds, status.success, freedom, cut_short=cut_short))
    return scored


def _fitted(
    share: Share, single: Any, samples: Samples, rows: NDArray[np.intp] | None, budgets: list[Budget]
) -> Iterator[tuple[Any, float]]:
    """Single models under each of the budgets, and the seconds each took.

    Parameters
    ----------
    share : Share
        Of the time that is left.
    single : estimator
    samples : Samples
    rows : ndarray of int, optional
        Those to be fitted; by default all.
    budgets : list of Budget
        All by levels or all by features.
    """
    began, model = time.monotonic(), clone(single)
    with limited(share.seconds):
        samples = samples if rows is None else samples.part(rows)
        model.n_features_in_ = samples.X.shape[1]
        task: Task = model._task(samples.X, samples.y, samples.weight, budgets[0], **samples.more)
        with quiet():
            solutions = task.each(budgets)
    each = (time.monotonic() - began) / len(budgets)
    for budget, solution in zip(budgets, solutions, strict=True):
        yield _with(model, task, budget, solution), each


def _with(model: Any, task: Task, budget: Budget, solution: Solution) -> Any:
    fitted = copy.copy(model)
    fitted._keep(task, budget, solution)
    return fitted


def _rows_of(params: dict[str, Any], rows: NDArray[np.intp]) -> dict[str, Any]:
    return {name: np.asarray(value)[rows] for name, value in params.items()}


def _values(budgets: list[Budget]) -> dict[str, NDArray[Any]]:
    """The grid, by its name."""
    if budgets[0].features is None:
        return {"level": np.array([budget.value for budget in budgets])}
    return {"n_features": np.array([budget.features for budget in budgets])}


def more_of(**given: ArrayLike | None) -> dict[str, NDArray[Any]]:
    """What was given for each sample besides its weight."""
    return {name: np.asarray(values) for name, values in given.items() if values is not None}
