"""Fits under one budget after another, for those who look at all of them."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier

from levelprox.estimators.task import Budget, Task, budgets_of
from levelprox.estimators.watching import with_estimator_warnings
from levelprox.exceptions import InvalidInputError

_MOST, _LEVELS = 30, 20  # numbers of features, levels tried where none are given


class Along:
    """A model that can be fitted under several budgets at once."""

    @with_estimator_warnings
    def _along(
        self,
        X: object,
        y: ArrayLike,
        n_features: ArrayLike | None,
        level: ArrayLike | None,
        sample_weight: ArrayLike | None,
        more: dict[str, Any],
    ) -> list[Self]:
        """Fitted copies, in ascending order of the budgets; levels are carried from one to the next."""
        model: Any = self._single()
        if "ridge" in (chosen := getattr(self, "best_params_", {})):
            model.set_params(ridge=chosen["ridge"])
        data, target = model._read(X, y, **({} if is_classifier(model) else {"y_numeric": True}))
        weight = model._weights(sample_weight, data.shape[0])
        if model.feature_cost is not None and (n_features is not None or level is not None):
            raise InvalidInputError(
                "the model has a budget of costs, and so have those beside it: neither n_features nor level"
            )
        budgets = budgets_of(n_features, level) or self._budgets(*data.shape)
        task: Task = model._task(data, target, weight, budgets[0], **more)
        fits = []
        for budget, solution in zip(budgets, task.each(budgets), strict=True):
            fits.append(copy.copy(model))
            fits[-1]._keep(task, budget, solution)
        return fits

    def _single(self) -> Any:
        """The estimator for one budget, without anybody to tell."""
        return clone(self).set_params(verbose=0, callback=None, checkpoint=None, resume=False)

    def _budgets(self, n: int, d: int) -> list[Budget]:
        """Where none are given: up to what the estimator asks for."""
        asked = self._budget(n)
        if asked.cost is not None:
            costs = np.unique(np.linspace(0, asked.cost, _LEVELS + 1)).tolist()
            most = d if self.n_features is None else asked.features
            return [Budget(features=most, cost=cost) for cost in costs]
        if asked.level is not None:
            return [Budget(level=level) for level in np.unique(np.linspace(0, asked.level, _LEVELS + 1)[1:]).tolist()]
        most = min(int(asked.value), d)
        counts = np.unique(np.linspace(0, most, min(most, _MOST) + 1).astype(np.int64))
        return [Budget(features=k) for k in counts.tolist()]

    n_features: Any

    @abstractmethod
    def _budget(self, n: float) -> Budget: ...
