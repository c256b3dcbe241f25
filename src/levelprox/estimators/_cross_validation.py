"""Choosing the budget: by cross-validation over one set of folds, or by an information criterion.

Every candidate sees the same folds. For at most k features the fit of a fold is that of a shorter search which shows
nothing (`subset/starts.py`). No answer depends on which other candidates there are, on their order, or on how many
processes work on them.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain, islice, takewhile
from numbers import Integral
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from levelprox._path import KINDS
from levelprox._runtime.deadline import seconds_left
from levelprox._typing import Vector
from levelprox._validation import finite, option, real_array
from levelprox.driver.checkpoint import SavedState, open_checkpoint
from levelprox.driver.run_identity import identity_without_level
from levelprox.estimators._base import SparseLinearModel
from levelprox.estimators._callbacks import counting
from levelprox.estimators._criteria import CRITERIA, Ranking, check_likelihood, comparable, deviance, groups_of, price
from levelprox.estimators._data import RemoteFold, RemoteSamples, Samples
from levelprox.estimators._fit import Task
from levelprox.estimators._fold_fits import (
    LABELS,
    Found,
    KeptTasks,
    Scored,
    Share,
    Splits,
    check_classes_of_folds,
    fit_all,
    hashed_folds,
    is_shared,
    left_out_words,
    rows_of,
    score_fold,
)
from levelprox.estimators._parameters import Budget, boolean, budgets_of, cost_budgets
from levelprox.estimators._ridge_selection import ChoosingRidges
from levelprox.estimators._squared_loss_folds import fold_fits, score_quickly
from levelprox.exceptions import CheckpointError, InvalidInputError, warn

#: Numbers of features tried where neither n_features nor level is given, as far as there are features. An information
#: criterion takes those with this many samples for each feature: it is for models with few features for their samples.
DEFAULT_GRID, SAMPLES_FOR_A_FEATURE = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30), 10
_OF_NO_CONSEQUENCE = ("verbose", "callback", "checkpoint", "resume", "n_jobs")
_FINAL_FIT = 0.25  # of the time limit: what is kept for the fit of all data
_LATE = 0.3  # seconds after that at which processes are no longer waited for
_REMOTE_FOLDS = 5  # of remote data by default
_PERFECT = 1e-14  # of ψ of the smallest model: what a scale of errors is at least


@dataclass(eq=False, repr=False)
class Choosing(ChoosingRidges, SparseLinearModel):
    """A model whose budget is chosen from a grid; the subclasses say which model."""

    _: KW_ONLY
    criterion: str = "cv"
    cv: Any = None
    scoring: Any = None
    one_standard_error: bool = False
    n_jobs: int | None = None

    _n_subtasks = 2  # of a fit, for scikit-learn's callbacks: the search, and the fit of all data

    def _choose_and_fit(self, samples: Samples | RemoteSamples, params: dict[str, Any]) -> Self:
        """Fit all data under the best budget of the grid."""
        if isinstance(samples, RemoteSamples):
            self._check_remote(params)
            self._prepare(samples)  # which gives their shape
        else:
            samples = replace(samples, design=None)  # training parts are rows of X

        def task(budget: Budget) -> Task:
            return self._task(self._prepare(samples), budget)

        def identity() -> dict[str, str]:
            options = {name: value for name, value in self.get_params().items() if name not in _OF_NO_CONSEQUENCE}
            return identity_without_level(task(self._grid(*samples.shape)[0]).objective, **options)

        with open_checkpoint(self.checkpoint, self.resume, identity, (*KINDS, Scored)) as journal:
            budget = self._search(samples, params, journal.part("choosing"))
            return self._fit_chosen(replace(task(budget), checkpoint=journal.part("fit")), budget)

    def _check_remote(self, params: dict[str, Any]) -> None:
        """Raise where parameters are for data in memory."""
        self._check_criterion()
        if self._criterion == "cv" and self.scoring is not None:
            raise InvalidInputError("scoring is for data in memory; for remote data it is the loss, scoring=None")
        if self._criterion != "cv":
            check_likelihood(self._criterion, self.loss_.name)
            if self.loss_.name == "gamma":
                raise InvalidInputError("criteria of gamma are for data in memory: they need the mean of log y")
        given = [name for name, value in params.items() if value is not None]
        if given or not (self.cv is None or (isinstance(self.cv, Integral) and int(self.cv) >= 2)):
            what = given[0] if given else f"cv={self.cv!r}"
            raise InvalidInputError(
                f"{what} is for data in memory; for remote data cv is a number of folds of at least 2"
            )
        if self.checkpoint is not None:
            raise InvalidInputError("a checkpoint of a choice is for data in memory; the fit at one level can have one")
        if self._ridges():
            raise InvalidInputError(f"a grid of ridges is for data in memory; give one, got ridge={self.ridge!r}")

    def _search(self, samples: Samples | RemoteSamples, params: dict[str, Any], journal: SavedState) -> Budget:
        """Return the best of the grid, and set `cv_results_` and what goes with it."""
        n, d = samples.shape
        self._check_criterion()
        if self._criterion == "cv":
            scorer, score_params = None, dict[str, Any]()
            if isinstance(samples, RemoteSamples):
                splits: Splits = self._remote_splits(n)
            else:
                scorer, splits, score_params = self._judges(samples, params)
            budgets, results, best = self._by_folds(samples, self._grid(n, d), splits, scorer, score_params, journal)
        else:
            check_likelihood(self._criterion, self.loss_.name)
            budgets = self._grid(n, d)
            results, best = self._by_criterion(samples, budgets, journal)
        self._set_choice(budgets, results, best)
        self._warn_at_the_edge(n, d)
        chosen = budgets[best]
        return chosen if "ridge" in self.best_params_ else replace(chosen, ridge=None)

    def _fit_chosen(self, task: Task, budget: Budget) -> Self:
        """Fit all data with the chosen budget. `message_` says where it was not chosen as usual."""
        self._fit(task, budget)
        if self.scoring_ != self.scoring:
            self.message_ += f" The budget was chosen by {self.scoring_}: fits of folds diverge."
        if isinstance(self.ridge, str) and "ridge" in self.best_params_:
            self.message_ += (
                f" ridge={self.ridge_:.3g} was chosen by cross-validation: without one the data of some folds do not "
                "determine coefficients."
            )
        self.message_ += self._edge
        return self

    @property
    def criterion_(self) -> str:
        """`criterion` in lower case: "cv" or the name of an information criterion."""
        return self._criterion

    @property
    def _criterion(self) -> str:
        """`criterion` in small letters."""
        return str(option(self.criterion))

    def _check_criterion(self) -> None:
        if self._criterion not in ("cv", *CRITERIA):
            raise InvalidInputError(f"criterion must be one of cv, {', '.join(CRITERIA)}, got {self.criterion!r}")
        if boolean("one_standard_error", self.one_standard_error) and self._criterion != "cv":
            raise InvalidInputError(
                f"one_standard_error is for criterion='cv': {self._criterion!r} has no standard error"
            )

    def _set_choice(self, budgets: list[Budget], results: dict[str, NDArray[Any]], best: int) -> None:
        self.cv_results_ = results
        self.best_index_ = best
        names = [budgets[0].name]
        if "ridge" in results and (results["ridge"][best] > 0 or not isinstance(self.ridge, str)):
            names.append("ridge")  # 0 of "auto" is decided by the fit of all data
        self.best_params_ = {name: results[name][best].item() for name in names}
        by = self._criterion
        if by == "cv":
            by = "median_test_score" if "median_test_score" in results else "mean_test_score"
        self.best_score_ = float(results[by][best])

    @property
    def scoring_(self) -> Any:
        """The score by which the budget was chosen: `scoring`, or "accuracy" where the held-out loss is undefined."""
        check_is_fitted(self, "cv_results_")
        diverging = self.scoring is None and is_classifier(self) and np.any(self.cv_results_.get("n_diverging", 0))
        return LABELS if diverging else self.scoring

    def _warn_at_the_edge(self, n: int, d: int) -> None:
        """Warn where the best budget is the largest of the grid and a larger one was possible.

        Of the default grid of a cross-validation `message_` says so.
        """
        self._edge = ""
        name, value = next(iter(self.best_params_.items()))
        tried = self.cv_results_[name]
        weight = self._feature_weight(Budget(features=d), d)
        counted = d if weight is None else int(np.count_nonzero(weight))
        if np.min(tried) == np.max(tried) or value < np.max(tried) or (name == "n_features" and value >= counted):
            return
        if name == "budget" and math.fsum(self._costs(d, self._feature_weight(Budget(features=d), d))) <= value:
            return  # it pays for all features
        if self._criterion == "cv" and self.n_features is None and name == "n_features":
            self._edge = f" No more than {value} features were tried: n_features gives other numbers."
            return
        advice = f"A larger one may be better: give a wider grid by {name}"
        if self._criterion != "cv":
            advice += (
                f", or choose by criterion='cv'. {self._criterion} needs many more samples than features; there are "
                f"{n} samples"
            )
        warn(f"the best {name} is {value:g}, the largest of the grid. {advice}", UserWarning)

    # --- the grid

    def _grid(self, n: float, d: int) -> list[Budget]:
        """The candidates for n samples of d features in ascending order, each once."""
        most = min(d, max(n / SAMPLES_FOR_A_FEATURE, 1)) if self._criterion != "cv" else d
        costs = cost_budgets(self.budget, self.feature_cost, self.n_features, self.level, d)
        given = costs or budgets_of(self.n_features, self.level)
        given = given or [Budget(features=k) for k in _default_grid(int(most))]
        ridges = self._ridges()
        return [replace(one, ridge=ridge) for one in given for ridge in ridges] if ridges else given

    def _ridges(self) -> list[float]:
        """The ridges to choose from, the largest first; none where there is no grid of them."""
        if isinstance(self.ridge, str) or np.ndim(self.ridge) == 0:
            return []
        given = np.asarray(finite("ridge", real_array("ridge", self.ridge)), np.float64)
        if given.ndim != 1 or not given.size:
            raise InvalidInputError(f"ridge must be a number, 'auto' or a list of numbers, got shape {given.shape}")
        if np.any(given < 0):
            raise InvalidInputError(f"ridge must not be negative, got {given.min():g}")
        return [float(one) for one in np.unique(given)[::-1]]

    # --- by folds

    def _remote_splits(self, n: int) -> Splits:
        """Return the folds of n remote samples: each has about as many rows of every partition, by a seed."""
        folds = _REMOTE_FOLDS if self.cv is None else int(self.cv)
        if n < folds:
            raise InvalidInputError(f"cv={folds} is more than the {n} samples there are")
        seed = int(self.random_state) if isinstance(self.random_state, Integral) else 0
        return [(RemoteFold(i, folds, seed, False), RemoteFold(i, folds, seed, True)) for i in range(folds)]

    def _judges(self, samples: Samples, params: dict[str, Any]) -> tuple[Any, Splits, dict[str, Any]]:
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
        if is_classifier(self):
            check_classes_of_folds(samples.y, samples.weight, splits)
        return scorer, splits, score

    def _by_folds(
        self,
        samples: Samples | RemoteSamples,
        budgets: list[Budget],
        splits: Splits,
        scorer: Any,
        score_params: dict[str, Any],
        journal: SavedState,
    ) -> tuple[list[Budget], dict[str, NDArray[Any]], int]:
        """Score each candidate on each fold; levels of a fold, and all budgets of remote data, are solved together."""
        together, known, folds = budgets[0].features is None, None, "none"
        single = self._single().set_params(**self._by_index(samples.shape[1]))
        if isinstance(samples, RemoteSamples):
            together = True
        else:
            if self._chooses_ridge(budgets[0]):
                return self._by_folds_and_ridges(samples, budgets, splits, scorer, score_params, journal)
            folds = hashed_folds(splits)
            known = fold_fits(single, samples, splits, budgets, self.scoring) if budgets[0].ridge is None else None
        groups = _of_one_ridge(budgets) if together else [[budget] for budget in budgets]
        jobs = [(group, fold) for group in groups for fold in range(len(splits))]
        tasks, n_jobs = KeptTasks(is_shared(samples)), self._jobs(samples)
        work = (
            delayed(score_fold)(
                share,
                single,
                samples,
                *splits[fold],
                group,
                scorer,
                rows_of(score_params, splits[fold][1]),
                tasks.of(fold, group[0].ridge),
            )
            if known is None
            else delayed(score_quickly)(
                known, fold, single, samples, splits[fold][1], group, scorer, rows_of(score_params, splits[fold][1])
            )
            for share, (group, fold) in zip(self._shares(len(jobs), n_jobs), jobs, strict=False)
        )
        found: Found = {}
        outcomes = self._outcomes(work, len(jobs), "fold" if together else "fit", folds, journal, n_jobs)
        for outcome, (group, fold) in zip(outcomes, jobs, strict=False):  # fewer where a time limit ends them
            found.update({(*budget.key, fold): one for budget, one in zip(group, outcome, strict=False)})
        return self._of_folds(budgets, found, samples, splits)

    def _of_folds(
        self, budgets: list[Budget], found: Found, samples: Samples | RemoteSamples, splits: Splits
    ) -> tuple[list[Budget], dict[str, NDArray[Any]], int]:
        """The candidates that were examined, their results, and the best of them."""
        folds = range(len(splits))
        examined = _examined(budgets, [all((*one.key, fold) in found for fold in folds) for one in budgets])
        if not examined:
            return budgets[:1], self._unexamined(budgets[:1], len(splits)), 0
        table = [[found[*budget.key, fold] for fold in folds] for budget in examined]
        left_out = sum(one.left_out for one in table[0])
        if left_out and isinstance(samples, Samples):
            warn(left_out_words(left_out, samples.y, splits))
        return examined, *self._by_scores(examined, table)

    def _by_scores(self, budgets: list[Budget], table: list[list[Scored]]) -> tuple[dict[str, NDArray[Any]], int]:
        """The results of all candidates on all folds, and the best of them; `table` has a row for each candidate."""

        def column(name: str) -> NDArray[Any]:
            return np.array([[getattr(one, name) for one in row] for row in table])

        diverging = column("diverging")
        by_label = self.scoring is None and is_classifier(self) and bool(np.any(diverging))
        ranking = Ranking.of(column("by_label" if by_label else "score"))
        if ranking is None:
            raise InvalidInputError(f"scoring={self.scoring!r} gave no finite score for any candidate")
        groups = groups_of([budget.value for budget in budgets]) if isinstance(self.ridge, str) else None
        best = ranking.best(self.one_standard_error, groups)
        results = {
            **_values(budgets),
            **ranking.columns(),
            "mean_n_selected": column("n_selected").mean(axis=1),
            "mean_fit_time": column("seconds").mean(axis=1),
            "n_unsolved": np.sum(~column("solved") | diverging, axis=1),
            "n_diverging": np.sum(diverging, axis=1),
        }
        self._warn_of_fits(budgets, results, bool(np.any(column("by_length"))))
        self._warn_of_scores(budgets, ranking)
        return results, best

    def _warn_of_fits(self, budgets: list[Budget], results: dict[str, NDArray[Any]], by_length: bool) -> None:
        """Warn of fits of folds that have no minimiser, or did not reach it; each with the remedy for its cause."""
        diverging = results["n_diverging"]
        early = results["n_unsolved"] - diverging
        if np.any(diverging):
            cause = (
                f"with {_names(budgets, diverging > 0)} the loss of the training part of some folds has no minimiser, "
                "as on separable data, and coefficients grow without bound (cv_results_['n_diverging'])"
            )
            remedy = "Fewer features, or a level of constraint='l1', keep coefficients finite"
            if self.scoring is None and is_classifier(self):
                warn(
                    f"{cause}. The held-out loss depends on where such a fit stops, so all budgets are scored by "
                    f"accuracy. {remedy}; scoring sets another score"
                )
            elif by_length:
                labels = "; scoring='accuracy' depends on labels alone" if is_classifier(self) else ""
                warn(f"{cause}. Their scores depend on where the fit stops. {remedy}{labels}")
        if np.any(early):
            warn(
                f"with {_names(budgets, early > 0)} some fits of folds stopped before they reached tol "
                "(cv_results_['n_unsolved']). Raise max_iter or time_limit, or tol"
            )

    def _warn_of_scores(self, budgets: list[Budget], ranking: Ranking) -> None:
        """Warn of scores that are not finite, naming the folds."""
        if ranking.left_out.size:
            warn(
                f"no candidate has a finite score in fold {_listed(ranking.left_out)}; it is left out of the scores",
                UserWarning,
            )
        if ranking.by_median:
            rows, folds = np.nonzero(~ranking.finite)
            warn(
                f"with {_names(budgets, np.isin(np.arange(len(budgets)), rows))} the score of fold "
                f"{_listed(np.unique(folds))} is not finite. Candidates are ranked by the median over folds, where "
                "such a score is the lowest (cv_results_['median_test_score'])",
                UserWarning,
            )

    def _outcomes(
        self, work: Iterable[Any], total: int, what: str, folds: str, journal: SavedState, n_jobs: int | None
    ) -> Iterator[list[Scored]]:
        """What comes of the pieces of work, in their order; those that the journal knows are not done again."""
        known = journal.state or {"folds": folds, "scored": ()}
        if known["folds"] != folds:
            raise CheckpointError(
                "the checkpoint is of other folds than those of now; give the splitter of cv a fixed random_state"
            )
        scored = list(known["scored"])
        with counting(self, total, what) as follow:
            rest = _until_the_limit(n_jobs, islice(work, len(scored), None))
            for i, outcome in enumerate(follow(chain(known["scored"], rest))):
                if i == len(scored) and outcome and not any(one.cut_short for one in outcome):
                    scored.append(outcome)
                    journal.keep({"folds": folds, "scored": tuple(scored)})
                yield outcome

    def _jobs(self, samples: Samples | RemoteSamples) -> int | None:
        """Return the number of processes: remote data are read by workers of their own."""
        return 1 if isinstance(samples, RemoteSamples) else self.n_jobs

    def _shares(self, count: int, n_jobs: int | None) -> Iterator[Share]:
        """What each of so many pieces of work may take of the time that is left; no more once there is none.

        A part of it is for the fit of all data. Time that a piece leaves is there for those after it.
        """
        # Now, and not when joblib asks for a share: it does so in other threads, which have no limit.
        until = time.time() + _seconds_to_choose()
        workers = effective_n_jobs(n_jobs)
        shares = (Share(until, math.ceil((count - i) / workers)) for i in range(count))
        return takewhile(lambda share: share.seconds > 0, shares)

    def _unexamined(self, first: list[Budget], n_folds: int) -> dict[str, NDArray[Any]]:
        """The table of the first candidate, of which nothing is known: there was no time."""
        counts: dict[str, NDArray[Any]] = {}
        unknown = [self._criterion, "loss", "n_selected", "df"]
        if self._criterion == "cv":
            unknown = [f"split{i}_test_score" for i in range(n_folds)]
            unknown += ["mean_test_score", "std_test_score", "standard_error", "mean_n_selected", "mean_fit_time"]
            counts = {"rank_test_score": np.ones(1, np.int32), "n_unsolved": np.full(1, n_folds)}
        return {**_values(first), **{name: np.full(1, np.nan) for name in unknown}, **counts}

    # --- by a criterion

    def _by_criterion(
        self, samples: Samples | RemoteSamples, budgets: list[Budget], journal: SavedState
    ) -> tuple[dict[str, NDArray[Any]], int]:
        single, loss = self._single().set_params(**self._by_index(samples.shape[1])), self.loss_.name
        together = budgets[0].features is None or isinstance(samples, RemoteSamples)
        groups = _of_one_ridge(budgets) if together else [[budget] for budget in budgets]
        ordered = [budget.key for group in groups for budget in group]
        n_jobs = self._jobs(samples)
        work = (
            delayed(fit_all)(share, single, samples, group)
            for share, group in zip(self._shares(len(groups), n_jobs), groups, strict=False)
        )
        outcomes = [
            one for outcome in self._outcomes(work, len(groups), "fit", "none", journal, n_jobs) for one in outcome
        ]
        known = dict(zip(ordered, outcomes, strict=False))  # fewer where a time limit ends them
        first = budgets[:1]
        budgets = _examined(budgets, [budget.key in known for budget in budgets])
        if not budgets:
            return self._unexamined(first, 0), 0
        found = [known[budget.key] for budget in budgets]
        psi = np.array([one.score for one in found])
        counts = np.array([one.n_selected for one in found])
        freedom = np.array([one.freedom for one in found])
        diverging = np.array([one.diverging for one in found])
        log_y = 0.0
        if loss == "gamma" and isinstance(samples, Samples):
            log_y = float(np.average(np.log(samples.y), weights=samples.weight))
        return self._by_price(budgets, psi, counts, freedom, diverging, samples.total, samples.shape[1], log_y)

    def _by_price(
        self,
        budgets: list[Budget],
        psi: Vector,
        counts: NDArray[Any],
        freedom: NDArray[Any],
        diverging: NDArray[np.bool_],
        n: float,
        d: int,
        log_y: float,
    ) -> tuple[dict[str, NDArray[Any]], int]:
        """The table of fits of all data, by what they lose and what their features cost."""
        loss = self.loss_.name
        least = max(_PERFECT * float(np.max(psi)), np.finfo(np.float64).tiny)
        usable = comparable(diverging, counts)
        values = np.array(
            [
                deviance(loss, one, n, least, log_y) + price(self._criterion, int(df), n, int(count), d)
                if has
                else np.nan
                for one, df, count, has in zip(psi, freedom, counts, usable, strict=True)
            ]
        )
        if not np.all(usable):
            warn(
                f"with {_names(budgets, ~usable)} the loss has no minimiser, as on separable data: {self._criterion} "
                "is not defined there, and these are left out. criterion='cv' compares them by accuracy"
            )
        results = {**_values(budgets), self._criterion: values, "loss": psi, "n_selected": counts, "df": freedom}
        return {**results, "diverging": diverging}, int(np.nanargmin(values))

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
        return list(dict.fromkeys(replace(budget, ridge=None) for budget in self._grid(n, d)))

    def _single(self) -> Any:
        """The estimator for one budget, with the same parameters."""
        kind = type(self)._single_type
        own = {"n_features", "level", "budget", "verbose", "callback", "checkpoint", "resume"}
        shared = (set(kind._get_param_names()) & set(self._get_param_names())) - own
        given = {name: getattr(self, name) for name in shared}
        if self._ridges():  # each budget has its own
            given.pop("ridge")
        if self.feature_cost is not None and hasattr(self, "n_features_in_"):  # names are those of all data
            d = self.n_features_in_
            given["feature_cost"] = self._costs(d, self._feature_weight(Budget(features=d), d))
        return kind(**given)


def _until_the_limit(n_jobs: int | None, work: Iterator[Any]) -> Iterator[list[Scored]]:
    """What comes of the pieces of work, as far as there is time; processes that are late are ended."""
    seconds = _seconds_to_choose()
    alone = effective_n_jobs(n_jobs) == 1  # joblib then takes no timeout
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


def _names(budgets: list[Budget], which: NDArray[np.bool_]) -> str:
    """Some of the budgets, as they are called in messages."""
    name = budgets[0].name
    values = list(dict.fromkeys(f"{budget.value:g}" for budget, here in zip(budgets, which, strict=True) if here))
    return f"{name} {values[0]}" if len(values) == 1 else f"{name} {', '.join(values[:-1])} and {values[-1]}"


def _listed(numbers: NDArray[Any]) -> str:
    return ", ".join(map(str, numbers.tolist()))


def _default_grid(most: int) -> list[int]:
    """Numbers of features up to a largest one, which is among them where it is small."""
    last = min(most, DEFAULT_GRID[-1])
    return [*(k for k in DEFAULT_GRID if k < last), last]


def _values(budgets: list[Budget]) -> dict[str, NDArray[Any]]:
    """The grid, by its name."""
    ridges = {} if budgets[0].ridge is None else {"ridge": np.array([budget.ridge for budget in budgets])}
    if budgets[0].name != "n_features":
        return {budgets[0].name: np.array([budget.value for budget in budgets]), **ridges}
    return {"n_features": np.array([budget.features for budget in budgets]), **ridges}


def _of_one_ridge(budgets: list[Budget]) -> list[list[Budget]]:
    """The budgets in groups, each of one ridge."""
    ridges = dict.fromkeys(budget.ridge for budget in budgets)
    return [[budget for budget in budgets if budget.ridge == ridge] for ridge in ridges]
