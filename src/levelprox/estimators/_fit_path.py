"""Fits of one model under several budgets."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from levelprox.estimators._callbacks import (
    with_estimator_warnings,
)
from levelprox.estimators._data import Samples
from levelprox.estimators._fit import Task
from levelprox.estimators._parameters import Budget, Parameters, budgets_of
from levelprox.exceptions import InvalidInputError

#: Numbers of features, levels and costs of a path where none are given.
_MOST_COUNTS, _LEVELS = 30, 20


class FitPath(Parameters):
    """A model that can be fitted under several budgets."""

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
        data, target = model._read(X, y, **model._reading_of_y)
        samples = Samples(data, target, model._weights(sample_weight, data.shape[0]), dict(fit_params))
        if model.feature_cost is not None and (n_features is not None or level is not None):
            raise InvalidInputError(
                "the model has a budget of costs, and so have those beside it: neither n_features nor level"
            )
        budgets = budgets_of(n_features, level) or self._budgets(*data.shape)
        task: Task = model._task(model._prepare(samples), budgets[0])
        fits = []
        for budget, solution in zip(budgets, task.each(budgets), strict=True):
            fits.append(copy.copy(model))
            fits[-1]._keep(task, budget, solution)
        return fits

    def _single(self) -> Any:
        """Return the estimator for one budget, without callbacks, progress and checkpoints."""
        return clone(self).set_params(verbose=0, callback=None, checkpoint=None, resume=False)

    def _budgets(self, n: int, d: int) -> list[Budget]:
        """Return the budgets of a path by default: up to that of the estimator."""
        own = self._budget(n)
        if own.cost is not None:
            costs = np.unique(np.linspace(0, own.cost, _LEVELS + 1)).tolist()
            most = d if self.n_features is None else own.features
            return [Budget(features=most, cost=cost) for cost in costs]
        if own.level is not None:
            return [Budget(level=level) for level in np.unique(np.linspace(0, own.level, _LEVELS + 1)[1:]).tolist()]
        most = min(int(own.value), d)
        counts = np.unique(np.linspace(0, most, min(most, _MOST_COUNTS) + 1).astype(np.int64))
        return [Budget(features=k) for k in counts.tolist()]
