"""Choosing the budget for data that are elsewhere: folds are weights of 0 and 1, and the data stay where they are.

Of each chunk about as many rows are in every fold, by a seed: which are held out depends on nothing else. The score of
a fold is minus the mean loss of the rows held out, or their accuracy where fits diverge; a round for each candidate.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from levelprox.backends.data_source import DataSource
from levelprox.estimators.elsewhere import Prepared
from levelprox.estimators.information import check_likelihood
from levelprox.estimators.scored import Scored, diverges
from levelprox.estimators.task import Budget
from levelprox.estimators.watching import counting, quiet
from levelprox.exceptions import InvalidInputError
from levelprox.result import Status

_FOLDS = 5


class ChoosingElsewhere:
    """A model whose budget is chosen, for data that are elsewhere."""

    def _choose_elsewhere(self, X: Any, y: Any, weight: Any, params: dict[str, Any], offset: Any = None) -> Self:
        """The fit of all data under the best budget of the grid."""
        model: Any = self
        folds = self._folds_elsewhere(params)
        source = model._source(X, y, weight, offset)
        found = model._prepared(source)
        budgets = model._grid(found.statistics.count, source.n_features)
        if budgets[0].ridge is not None:
            raise InvalidInputError(f"a grid of ridges is for data in memory; give one, got ridge={model.ridge!r}")
        if model._criterion == "cv":
            if found.statistics.count < folds:
                raise InvalidInputError(f"cv={folds} is more than the {found.statistics.count} samples there are")
            results, best = self._by_folds_elsewhere(source, budgets, folds)
        else:
            results, best = self._by_criterion_elsewhere(found, budgets)
        model._set_choice(budgets, results, best)
        model._warn_at_the_edge(found.statistics.count, source.n_features)
        model._fit_chosen(model._task_elsewhere(found, budgets[best]), budgets[best])
        return self

    def _folds_elsewhere(self: Any, params: dict[str, Any]) -> int:
        """How many folds; an error for what only data in memory have."""
        self._check_criterion()
        if self._criterion != "cv":
            check_likelihood(self._criterion, self._loss().name)
        elif self.scoring is not None:
            raise InvalidInputError("scoring is for data in memory; elsewhere the loss judges, scoring=None")
        given = [name for name, value in params.items() if value is not None]
        if given or not (self.cv is None or (isinstance(self.cv, Integral) and int(self.cv) >= 2)):
            what = given[0] if given else f"cv={self.cv!r}"
            raise InvalidInputError(f"{what} is for data in memory; elsewhere cv is a number of folds of at least 2")
        if self.checkpoint is not None:
            raise InvalidInputError("a checkpoint of a choice is for data in memory; the fit at one level can have one")
        return _FOLDS if self.cv is None else int(self.cv)

    def _by_folds_elsewhere(
        self: Any, source: DataSource, budgets: list[Budget], folds: int
    ) -> tuple[dict[str, NDArray[Any]], int]:
        with counting(self, folds, "fold") as follow:
            columns = list(follow(self._scored_elsewhere(source, budgets, folds)))
        results: tuple[dict[str, NDArray[Any]], int] = self._by_scores(
            budgets, list(map(list, zip(*columns, strict=True)))
        )
        return results

    def _scored_elsewhere(self: Any, source: DataSource, budgets: list[Budget], folds: int) -> Iterator[list[Scored]]:
        """For each fold, the scores of every candidate."""
        seed = int(self.random_state) if isinstance(self.random_state, Integral) else 0
        for fold in range(folds):
            began, single = time.monotonic(), clone(self._single())
            single.set_params(**self._by_index(source.n_features))
            single.n_features_in_ = source.n_features
            found = self._prepared_fold(single, source.part(fold, folds, seed, False), fold)
            task = single._task_elsewhere(found, budgets[0])
            with quiet():
                fits = task.each(budgets)
            each = (time.monotonic() - began) / len(budgets)
            judge = source.part(fold, folds, seed, True).model(task.objective.form)
            may_diverge = is_classifier(self) and not task.objective.attained
            outcome = []
            for budget, fit in zip(budgets, fits, strict=True):
                x = task.border.inside(fit.coef.astype(np.float64), fit.intercept.astype(np.float64))
                count, solved = int(np.any(fit.coef, axis=0).sum()), fit.status.success
                diverging = diverges(task, budget, fit)
                outcome.append(
                    Scored(
                        -judge.value_and_gradient(x)[0],
                        count,
                        each,
                        solved or fit.status is Status.DIVERGING,
                        diverging=diverging,
                        by_label=judge.accuracy(x) if may_diverge else math.nan,
                        by_length=diverging,
                    )
                )
            yield outcome

    def _prepared_fold(self: Any, single: Any, rest: DataSource, fold: int) -> Prepared:
        """What a fold leaves to be fitted: samples of all classes."""
        try:
            found: Prepared = single._prepared(rest)
        except InvalidInputError as error:
            raise InvalidInputError(f"without fold {fold}: {error}") from None
        if is_classifier(self) and single.classes_.size < self.classes_.size:
            left = np.setdiff1d(self.classes_, single.classes_).tolist()
            raise InvalidInputError(f"without fold {fold}: no sample is left of class {left[0]!r}; use fewer folds")
        return found

    def _by_criterion_elsewhere(
        self: Any, found: Prepared, budgets: list[Budget]
    ) -> tuple[dict[str, NDArray[Any]], int]:
        loss = self._loss().name
        if loss == "gamma":
            raise InvalidInputError("criteria of gamma are for data in memory: they need the mean of log y")
        task = self._task_elsewhere(found, budgets[0])
        with quiet():
            fits = task.each(budgets)
        psi = np.array([fit.certificate.psi - fit.penalty for fit in fits])
        counts = np.array([int(np.any(fit.coef, axis=0).sum()) for fit in fits])
        width = found.form.width
        each = max(width - 1, 1) if found.form.softmax else width
        freedom = each * (counts + int(found.form.fit_intercept))
        diverging = np.array([diverges(task, budget, fit) for budget, fit in zip(budgets, fits, strict=True)])
        table: tuple[dict[str, NDArray[Any]], int] = self._by_price(
            budgets, psi, counts, freedom, diverging, found.total, found.source.n_features, 0.0
        )
        return table
