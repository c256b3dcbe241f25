"""Choice of the budget: by cross-validation over one set of folds, or by an information criterion.

Every candidate sees the same folds. For at most k features the fit of a fold is that of a shorter search which shows
nothing (`subset/starts.py`). No answer depends on which other candidates there are, on their order, or on how many
processes work on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain, islice
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.metadata_routing import MetadataRouter
from sklearn.utils.parallel import delayed
from sklearn.utils.validation import check_is_fitted

from levelprox._path import KINDS
from levelprox._validation import option
from levelprox.driver.checkpoint import SavedState, open_checkpoint
from levelprox.driver.run_identity import identity_without_level
from levelprox.estimators._automatic_ridge import FOLD_GRID
from levelprox.estimators._base import SparseLinearModel
from levelprox.estimators._budget_fits import LABELS, AllData, Folds, Scored
from levelprox.estimators._callbacks import observing, reported, results_in_time, seconds_to_choose, shares
from levelprox.estimators._data import RemoteSamples
from levelprox.estimators._fit import Task
from levelprox.estimators._folds import (
    RidgeFolds,
    SquaredLossFolds,
    hashed_folds,
    left_out_message,
    remote_splits,
    routing_of,
    scorer_and_splits,
)
from levelprox.estimators._input import Samples
from levelprox.estimators._parameters import (
    SAMPLES_PER_FEATURE,
    Budget,
    boolean,
    budgets_of,
    cost_budgets,
    default_budgets,
    ridges_of,
)
from levelprox.estimators._ranking import (
    CRITERIA,
    Ranking,
    check_likelihood,
    criterion_results,
    examined_budgets,
    groups_of,
    score_results,
    scores_of,
    unexamined_results,
)
from levelprox.exceptions import CheckpointError, InvalidInputError, warn
from levelprox.losses import Logistic

_WITHOUT_EFFECT = ("verbose", "callback", "checkpoint", "resume", "n_jobs")  # on the choice

#: Scores of fits by budget, ridge and fold.
Found = dict[tuple[float, float | None, int], Scored]
#: Candidates, the columns of `cv_results_`, and which candidate is the best.
Results = tuple[list[Budget], dict[str, NDArray[Any]], int]


@dataclass(eq=False, repr=False)
class BudgetChoiceMixin(SparseLinearModel):
    """A model whose budget is chosen from a grid."""

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
            return Task.of(self, self._prepare(samples), budget)

        def identity() -> dict[str, str]:
            options = {name: value for name, value in self.get_params().items() if name not in _WITHOUT_EFFECT}
            return identity_without_level(task(self._grid(*samples.shape)[0]).objective, **options)

        with open_checkpoint(self.checkpoint, self.resume, identity, (*KINDS, Scored)) as saved:
            budget = self._search(samples, params, saved.part("choosing"))
            return self._fit_chosen(replace(task(budget), checkpoint=saved.part("fit")), budget)

    def _check_remote(self, params: dict[str, Any]) -> None:
        """Raise where parameters are for data in memory."""
        self._check_criterion()
        if self.criterion_ == "cv" and self.scoring is not None:
            raise InvalidInputError("scoring is for data in memory; for remote data it is the loss, scoring=None")
        if self.criterion_ != "cv":
            check_likelihood(self.criterion_, self.loss_.name)
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
        if ridges_of(self.ridge):
            raise InvalidInputError(f"a grid of ridges is for data in memory; give one, got ridge={self.ridge!r}")

    def _search(self, samples: Samples | RemoteSamples, params: dict[str, Any], saved: SavedState) -> Budget:
        """Return the best of the grid, and set `cv_results_` and what goes with it."""
        n, d = samples.shape
        self._check_criterion()
        grid = self._grid(n, d)
        single = self._single().set_params(**self._by_index(d))
        if self.criterion_ != "cv":
            check_likelihood(self.criterion_, self.loss_.name)
            folds: Folds = AllData(single, samples, [(None, None)])
        elif isinstance(samples, RemoteSamples):
            folds = Folds(single, samples, remote_splits(self, n))
        else:
            scorer, splits, score_params = scorer_and_splits(self, samples, params)
            by_count, automatic = grid[0].features is not None, isinstance(self.ridge, str)
            kind = RidgeFolds if by_count and automatic and isinstance(self.loss_, Logistic) else Folds
            folds = kind(single, samples, splits, scorer, score_params)
            if kind is Folds and grid[0].ridge is None:
                folds = SquaredLossFolds.of(folds, grid, self.scoring) or folds
        if isinstance(folds, RidgeFolds):
            candidates, found = self._scores_with_ridges(folds, grid, saved)
        else:
            candidates, found = grid, self._scores_of_grid(folds, grid, saved)
        budgets, results, best = self._compared(folds, candidates, found)
        self._set_choice(budgets, results, best)
        self._warn_at_the_edge(n, d)
        chosen = budgets[best]
        return chosen if "ridge" in self.best_params_ else replace(chosen, ridge=None)

    def _fit_chosen(self, task: Task, budget: Budget) -> Self:
        """Fit all data with the chosen budget. `message_` says where it was not chosen as usual."""
        with observing(self, task) as observed:
            solution = observed.fit(budget)
        self._fitted(task, budget, solution)
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
        return str(option(self.criterion))

    def _check_criterion(self) -> None:
        if self.criterion_ not in ("cv", *CRITERIA):
            raise InvalidInputError(f"criterion must be one of cv, {', '.join(CRITERIA)}, got {self.criterion!r}")
        if boolean("one_standard_error", self.one_standard_error) and self.criterion_ != "cv":
            raise InvalidInputError(
                f"one_standard_error is for criterion='cv': {self.criterion_!r} has no standard error"
            )

    def _set_choice(self, budgets: list[Budget], results: dict[str, NDArray[Any]], best: int) -> None:
        self.cv_results_ = results
        self.best_index_ = best
        names = [budgets[0].name]
        if "ridge" in results and (results["ridge"][best] > 0 or not isinstance(self.ridge, str)):
            names.append("ridge")  # 0 of "auto" is decided by the fit of all data
        self.best_params_ = {name: results[name][best].item() for name in names}
        by = self.criterion_
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
        if self.criterion_ == "cv" and self.n_features is None and name == "n_features":
            self._edge = f" No more than {value} features were tried: n_features gives other numbers."
            return
        advice = f"A larger one may be better: give a wider grid by {name}"
        if self.criterion_ != "cv":
            advice += (
                f", or choose by criterion='cv'. {self.criterion_} needs many more samples than features; there are "
                f"{n} samples"
            )
        warn(f"the best {name} is {value:g}, the largest of the grid. {advice}", UserWarning)

    def _grid(self, n: float, d: int) -> list[Budget]:
        """Return the candidates for n samples of d features in ascending order, each once."""
        most = min(d, max(n / SAMPLES_PER_FEATURE, 1)) if self.criterion_ != "cv" else d
        costs = cost_budgets(self.budget, self.feature_cost, self.n_features, self.level, d)
        given = costs or budgets_of(self.n_features, self.level) or default_budgets(int(most))
        ridges = ridges_of(self.ridge)
        return [replace(one, ridge=ridge) for one in given for ridge in ridges] if ridges else given

    def _scores_of_grid(self, folds: Folds, budgets: list[Budget], saved: SavedState) -> Found:
        """Score each candidate on each fold; levels of a fold, and all budgets of remote data, are solved together."""
        together = isinstance(folds.samples, RemoteSamples) or budgets[0].features is None
        together |= isinstance(folds, SquaredLossFolds)
        ridges = dict.fromkeys(budget.ridge for budget in budgets)
        groups = [[budget] for budget in budgets]
        if together:
            groups = [[budget for budget in budgets if budget.ridge == ridge] for ridge in ridges]
        what = "fold" if together and not isinstance(folds, AllData) else "fit"
        return {
            (*budget.key, fold): one
            for (fold, group), outcome in self._scores(folds, groups, what, saved)
            for budget, one in zip(group, outcome, strict=False)  # fewer where a time limit ends them
        }

    def _scores_with_ridges(
        self, folds: RidgeFolds, budgets: list[Budget], saved: SavedState
    ) -> tuple[list[Budget], Found]:
        """Score each k with each ridge of `FOLD_GRID` on each fold, or without a ridge where no fold needs one.

        A fold that needs none refits its features with each ridge where another fold needs one; this takes little time.
        """
        outcomes = self._scores(folds, [[budget] for budget in budgets], "fit", saved)
        scores = {(budget, fold): outcome for (fold, (budget,)), outcome in outcomes}
        ridged = {budget for (budget, _), outcome in scores.items() if len(outcome) > 1}
        again = [key for key, outcome in scores.items() if key[0] in ridged and len(outcome) == 1]
        for share, (budget, fold) in zip(shares(len(again), self.n_jobs), again, strict=False):
            scores[budget, fold] = folds.score(share, fold, [budget], scores[budget, fold][0].features)
        largest = Task.of(self, self._prepare(folds.samples), budgets[0]).automatic_ridge
        candidates, found = list[Budget](), Found()
        for budget in budgets:
            factors = FOLD_GRID if budget in ridged else (0.0,)
            complete = [i for i in range(len(folds.splits)) if len(scores.get((budget, i), ())) == len(factors)]
            for place, factor in enumerate(factors):
                candidates.append(replace(budget, ridge=factor * largest))
                found |= {(*candidates[-1].key, fold): scores[budget, fold][place] for fold in complete}
        return candidates, found

    def _compared(self, folds: Folds, budgets: list[Budget], found: Found) -> Results:
        """Return the candidates that were examined, their results, and the best of them."""
        places, samples = range(len(folds.splits)), folds.samples
        examined = examined_budgets(budgets, [all((*one.key, fold) in found for fold in places) for one in budgets])
        if not examined:
            return budgets[:1], unexamined_results(self.criterion_, budgets[0], len(places)), 0
        table = [[found[*budget.key, fold] for fold in places] for budget in examined]
        if isinstance(folds, AllData):
            return examined, *criterion_results(self, examined, [one for (one,) in table], samples)
        left_out = sum(one.left_out for one in table[0])
        if left_out and isinstance(samples, Samples):
            warn(left_out_message(left_out, samples.y, folds.splits))
        return examined, *score_results(self, examined, table)

    def _scores(
        self, folds: Folds, groups: list[list[Budget]], what: str, saved: SavedState
    ) -> Iterator[tuple[tuple[int, list[Budget]], list[Scored]]]:
        """Yield each fold and group of budgets with their scores, in order and as far as there is time.

        Jobs whose scores are in the checkpoint `saved` are not done again; it must be of the same folds. Progress calls
        a job `what`.
        """
        remote = isinstance(folds.samples, RemoteSamples)  # which has workers of its own
        n_jobs = 1 if remote else self.n_jobs
        key = "none" if remote or isinstance(folds, AllData) else hashed_folds(folds.splits)
        jobs = [(fold, group) for group in groups for fold in range(len(folds.splits))]
        known = saved.state or {"folds": key, "scored": ()}
        if known["folds"] != key:
            raise CheckpointError(
                "the checkpoint is of other folds than those of now; give the splitter of cv a fixed random_state"
            )
        scored = list(known["scored"])
        work = zip(shares(len(jobs), n_jobs), jobs, strict=False)
        calls = (delayed(folds.score)(share, *job) for share, job in work)
        rest = results_in_time(islice(calls, len(scored), None), n_jobs, seconds_to_choose())
        outcomes = reported(self, chain(known["scored"], rest), len(jobs), what)
        for i, (outcome, job) in enumerate(zip(outcomes, jobs, strict=False)):
            if i == len(scored) and outcome and not any(one.cut_short for one in outcome):
                scored.append(outcome)
                saved.keep({"folds": key, "scored": tuple(scored)})
            yield job, outcome

    def results_by_budget(self) -> tuple[dict[str, NDArray[Any]], int]:
        """Return `cv_results_` with one row for each budget, and which of these was chosen.

        Of a given grid of ridges it is the row of the chosen one; of ridge="auto" that of the ridge for the budget.
        """
        results, best = self.cv_results_, self.best_index_
        if "ridge" not in results:
            return results, best
        if isinstance(self.ridge, str):
            values = results[next(iter(self.best_params_))]
            ranking = Ranking.of(scores_of(results))
            found = np.array([best]) if ranking is None else ranking.of_each(groups_of(values))
            rows = np.where(values[found] == values[best], best, found)
        else:
            rows = np.flatnonzero(results["ridge"] == results["ridge"][best])
        return {name: column[rows] for name, column in results.items()}, int(np.searchsorted(rows, best))

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what of the metadata given to `fit` goes where: to the fits, to the folds, to the scorer.

        Returns
        -------
        MetadataRouter
        """
        return routing_of(self)

    def _budgets(self, n: int, d: int) -> list[Budget]:
        return list(dict.fromkeys(replace(budget, ridge=None) for budget in self._grid(n, d)))

    def _single(self) -> Any:
        """Return the estimator for one budget, with the same parameters."""
        kind = type(self)._single_type
        own = {"n_features", "level", "budget", "verbose", "callback", "checkpoint", "resume"}
        shared = (set(kind._get_param_names()) & set(self._get_param_names())) - own
        given = {name: getattr(self, name) for name in shared}
        if ridges_of(self.ridge):  # each budget has its own
            given.pop("ridge")
        return kind(**given)
