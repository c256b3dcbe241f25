"""Fits under one budget after another, for those who look at all of them."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier

from levelprox.estimators.task import Budget, Task, budgets_of
from levelprox.estimators.watching import with_estimator_warnings
from levelprox.exceptions import InvalidInputError

_MOST, _LEVELS = 30, 20  # numbers of features, levels tried where none are given


class Along:
    """A model that can be fitted under several budgets at once."""

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
        return self._along(X, y, n_features, level, sample_weight, fit_params)

    @with_estimator_warnings
    def _along(
        self,
        X: object,
        y: ArrayLike,
        n_features: ArrayLike | None,
        level: ArrayLike | None,
        sample_weight: ArrayLike | None,
        more: dict[str, Any],
    ) -> list[Any]:
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
