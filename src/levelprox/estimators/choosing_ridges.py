"""Choosing the number of features and the ridge together, by folds: ridge="auto" of classifiers.

Where the fit of no fold with k features needs a ridge, k is one candidate, without a ridge. Where one does, there is a
candidate for each ridge of `FOLD_GRID`, the same for all folds: each fold refits the features that its search found.

For each k the largest ridge is taken whose mean score is not below the best for this k by more than one standard error
of the difference; k is the best with these ridges.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.parallel import delayed

from levelprox.driver.checkpoint import Journal
from levelprox.estimators.automatic_ridge import FOLD_GRID
from levelprox.estimators.fold_ridges import score_ridges
from levelprox.estimators.folds import Splits, hashed_folds, rows_of
from levelprox.estimators.ranking import Ranking, groups_of, scores_of
from levelprox.estimators.scored import Found, KeptTasks, Samples, is_shared
from levelprox.estimators.task import Budget
from levelprox.losses import Logistic

Table = tuple[list[Budget], dict[str, NDArray[Any]], int]


class ChoosingRidges:
    """A model whose number of features and ridge are chosen."""

    def _chooses_ridge(self: Any, budget: Budget) -> bool:
        """Whether folds choose the ridge together with k."""
        automatic = isinstance(self.ridge, str) and is_classifier(self) and isinstance(self._loss(), Logistic)
        return automatic and budget.features is not None

    def _by_folds_and_ridges(
        self: Any,
        samples: Samples,
        budgets: list[Budget],
        splits: Splits,
        scorer: Any,
        score_params: dict[str, Any],
        journal: Journal,
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
            for share, job in zip(self._shares(len(jobs)), jobs, strict=False)
        )
        outcomes = self._outcomes(work, len(jobs), "fit", hashed_folds(splits), journal)
        scores = dict(zip(jobs, outcomes, strict=False))  # fewer where a time limit ends them
        ridged = {budget for (budget, _), scored in scores.items() if len(scored) > 1}
        again = [job for job, scored in scores.items() if job[0] in ridged and len(scored) == 1]
        for share, job in zip(self._shares(len(again)), again, strict=False):
            scores[job] = score_ridges(share, *arguments(*job), features=scores[job][0].features)
        largest = self._task(samples.X, samples.y, samples.weight, budgets[0], **samples.more).automatic_ridge
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
