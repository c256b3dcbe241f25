"""Choosing the number of features and the ridge together, by folds: ridge="auto" of classifiers.

Where the fit of no fold with k features needs a ridge, k is one candidate, without a ridge. Where one does, there is a
candidate for each ridge of `FOLD_GRID`, the same for all folds: each fold refits the features that its search found.

For each k the largest ridge is taken whose mean score is not below the best for this k by more than one standard error
of the difference; k is the best with these ridges.

Fits of a fold with at most k features and each λ of a grid, and their scores: all folds together choose λ.

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
from sklearn.base import is_classifier
from sklearn.utils.parallel import delayed

from levelprox._runtime.deadline import limited
from levelprox._runtime.threads import one_blas_thread
from levelprox._typing import Features, Vector
from levelprox.driver.checkpoint import SavedState
from levelprox.estimators._automatic_ridge import FOLD_GRID, FewFeatures
from levelprox.estimators._callbacks import quiet, with_estimator_warnings
from levelprox.estimators._criteria import Ranking, groups_of, scores_of
from levelprox.estimators._data import Samples
from levelprox.estimators._fit import Task
from levelprox.estimators._fixed_ridge_fit import SUBSET_TOLERANCE
from levelprox.estimators._fold_fits import (
    Found,
    KeptTask,
    KeptTasks,
    Scored,
    Share,
    Splits,
    diverges,
    hashed_folds,
    is_shared,
    prepared,
    rows_of,
    scored,
    with_solution,
)
from levelprox.estimators._parameters import Budget
from levelprox.losses import Logistic
from levelprox.objectives import LinearModel
from levelprox.objectives._multiclass import ByClass
from levelprox.result import Status
from levelprox.subset.column_cache import forget

Table = tuple[list[Budget], dict[str, NDArray[Any]], int]


class ChoosingRidges:
    """A model whose number of features and ridge are chosen."""

    def _chooses_ridge(self: Any, budget: Budget) -> bool:
        """Whether folds choose the ridge together with k."""
        automatic = isinstance(self.ridge, str) and is_classifier(self) and isinstance(self.loss_, Logistic)
        return automatic and budget.features is not None

    def _by_folds_and_ridges(
        self: Any,
        samples: Samples,
        budgets: list[Budget],
        splits: Splits,
        scorer: Any,
        score_params: dict[str, Any],
        journal: SavedState,
    ) -> Table:
        """The table of all candidates.

        What a fold without a ridge needs besides is a refit of its features with each ridge, which takes little time.
        """
        single = self._single().set_params(**self._by_index(samples.X.shape[1]))
        tasks, folds = KeptTasks(is_shared(samples)), range(len(splits))

        def arguments(budget: Budget, fold: int) -> tuple[Any, ...]:
            params = rows_of(score_params, splits[fold][1])
            return single, samples, *splits[fold], budget, scorer, params, tasks.of(fold, None)

        jobs = [(budget, fold) for budget in budgets for fold in folds]
        work = (
            delayed(score_ridges)(share, *arguments(*job))
            for share, job in zip(self._shares(len(jobs), self.n_jobs), jobs, strict=False)
        )
        outcomes = self._outcomes(work, len(jobs), "fit", hashed_folds(splits), journal, self.n_jobs)
        scores = dict(zip(jobs, outcomes, strict=False))  # fewer where a time limit ends them
        ridged = {budget for (budget, _), scored in scores.items() if len(scored) > 1}
        again = [job for job, scored in scores.items() if job[0] in ridged and len(scored) == 1]
        for share, job in zip(self._shares(len(again), self.n_jobs), again, strict=False):
            scores[job] = score_ridges(share, *arguments(*job), features=scores[job][0].features)
        largest = self._task(self._prepare(samples), budgets[0]).automatic_ridge
        candidates, found = list[Budget](), Found()
        for budget in budgets:
            factors = FOLD_GRID if budget in ridged else (0.0,)
            for place, factor in enumerate(factors):
                candidates.append(replace(budget, ridge=factor * largest))
                complete = [fold for fold in folds if len(scores.get((budget, fold), ())) == len(factors)]
                found |= {(*candidates[-1].key, fold): scores[budget, fold][place] for fold in complete}
        table: Table = self._of_folds(candidates, found, samples, splits)
        return table

    def results_by_budget(self: Any) -> tuple[dict[str, NDArray[Any]], int]:
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
    fitted._set_coefficients(*task.standardization.outside(x, np.dtype(np.float64)))
    fitted.scale_, fitted.level_, fitted.ridge_, fitted.status_ = (
        task.standardization.scale,
        budget.at_most,
        ridge,
        status,
    )
    return fitted


def each_ridge(task: Task, features: Features) -> Iterator[tuple[float, Vector]]:
    """Yield each λ of `FOLD_GRID` and x that minimises ψ with it over some features."""
    objective, width = task.objective, task.standardization.width
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
