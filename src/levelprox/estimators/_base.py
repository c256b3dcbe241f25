"""Base class of all estimators: reading X and y, fitting under one or several budgets, margins and mean losses."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from levelprox._solve import generator
from levelprox._typing import FloatArray, Vector
from levelprox._validation import nonnegative as at_least_zero
from levelprox._validation import option, whole
from levelprox.backends import RemoteObjective
from levelprox.designs import as_design, is_remote
from levelprox.designs.moments import moments_of
from levelprox.driver.run_identity import fingerprint
from levelprox.estimators._automatic_ridge import automatic_ridge
from levelprox.estimators._callbacks import (
    CallbackSupportMixin,
    available_if,
    missing_attribute,
    observing,
    with_estimator_warnings,
)
from levelprox.estimators._data import Prepared, RemoteSamples, Samples, remote_samples
from levelprox.estimators._features import Standardization
from levelprox.estimators._fit import Task
from levelprox.estimators._fixed_ridge_fit import Solution
from levelprox.estimators._input import Reading, one_each
from levelprox.estimators._parameters import Budget, boolean, budgets_of, constraint_of
from levelprox.estimators._prediction import Selector, dispatched, selects
from levelprox.estimators._summary import NotebookCard, Summarising
from levelprox.estimators.persistence import Saving
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Loss
from levelprox.objectives import Model
from levelprox.result import Status
from levelprox.subset.result import with_name


class SparseLinearModel(  # type: ignore[call-arg]  # scikit-learn has no types
    Summarising,
    NotebookCard,
    Saving,
    CallbackSupportMixin,
    Selector,
    Reading,
    auto_wrap_output_keys=(),
):
    """A sparse linear model under a budget; the subclasses say of what."""

    # scikit-learn has wrapped the selector's for `set_output`, and would here wrap the condition away.
    transform = available_if(selects)(dispatched(Selector.transform))

    #: How scikit-learn reads y.
    _reading_of_y: dict[str, Any] = {}  # noqa: RUF012

    #: Subtasks of a fit, for scikit-learn's callbacks: steps, of which the number is not known in advance.
    _n_subtasks: int | None = None

    def _fitted_state(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name.endswith("_") or name == "_stream"}

    def _samples(
        self, X: Any, y: Any, sample_weight: Any, offset: Any = None, exposure: Any = None
    ) -> Samples | RemoteSamples:
        """Read the data of a fit, wherever they are; set the attributes that describe them."""
        if self.device is not None or is_remote(X):
            return remote_samples(self, X, y, sample_weight, self._remote_offset(offset, exposure))
        data, target = self._read(X, y, **self._reading_of_y)
        weight, design = self._weights(sample_weight, data.shape[0]), self._design(data)
        more = {name: values for name, values in (("offset", offset), ("exposure", exposure)) if values is not None}
        self.__dict__.pop("fitted_on_", None)  # these are on the host
        given = {name: np.asarray(values) for name, values in more.items()}
        self.data_fingerprint_ = fingerprint(design, target, weight, **given)
        return Samples(data, target, weight, more, design)

    def _remote_offset(self, offset: Any, exposure: Any) -> Any:
        """Return what is added to the margins of remote samples."""
        return None

    def _prepare(self, samples: Samples | RemoteSamples) -> Prepared:
        """Return samples with known classes, weights and units; those of weight 0 are left out."""
        if isinstance(samples, RemoteSamples):
            return self._prepare_source(samples)
        X, y, weight, more = (
            samples.X if samples.design is None else samples.design,
            samples.y,
            samples.weight,
            samples.more,
        )
        if weight is not None and not np.all(weight > 0):
            rows = np.flatnonzero(weight > 0)
            more = {name: one_each(name, values, y.size)[rows] for name, values in more.items() if values is not None}
            X, y, weight = as_design(X).rows(rows), y[rows], weight[rows]
        total = None if weight is None else float(weight.sum())
        y, weight, unit, width = self._encode(y, weight)

        def standardization() -> Standardization:
            intercept = boolean("fit_intercept", self.fit_intercept)
            names = getattr(self, "feature_names_in_", None)
            if boolean("standardize", self.standardize):
                return Standardization.standardized(X, weight, intercept, width, names)
            return Standardization(X, None, None, intercept, width, names)

        return Prepared(unit, total, standardization, lambda units: self._objective(units, y, weight, **more))

    @abstractmethod
    def _prepare_source(self, samples: RemoteSamples) -> Prepared:
        """Return the same for remote samples."""

    @abstractmethod
    def _encode(self, y: NDArray[Any], weight: Vector | None) -> tuple[NDArray[Any], Vector | None, float, int]:
        """Check the targets of samples that have a weight; set the classes.

        Returns
        -------
        y, weight : ndarray, ndarray or None
            The targets, and the weights of the samples times those of their classes.
        unit : float
            The unit of the coefficients of standardised features.
        width : int
            Coefficients of a feature.
        """

    @abstractmethod
    def _objective(
        self, standardization: Standardization, y: NDArray[Any], weight: Vector | None, **more: Any
    ) -> Model:
        """Return ψ of samples in memory."""

    def _task(self, prepared: Prepared, budget: Budget, standardization: Standardization | None = None) -> Task:
        """Return the objective and the settings of fits.

        Parameters
        ----------
        prepared : Prepared
        budget : Budget
            One of those that the task is for: all are of one kind.
        standardization : Standardization, optional
            By default that of the data.
        """
        standardization = prepared.standardization() if standardization is None else standardization
        objective = prepared.objective(standardization)
        self._check_objective(objective, budget)
        constraint = constraint_of(self.constraint, prepared.unit if budget.features is None else 1.0)
        self._check_for(budget)
        generator(self.random_state)
        positive = self._positive(standardization.scale.size)
        if np.any(positive) and standardization.width > 1:
            raise InvalidInputError(
                f"positive={self.positive!r} is for models with one coefficient for each feature, not for "
                f"{standardization.width} classes"
            )
        weight = self._feature_weight(budget, standardization.scale.size)
        task = Task(
            objective=objective,
            standardization=standardization,
            constraint=constraint,
            feature_weight=weight,
            feature_cost=None if budget.cost is None else self._costs(standardization.scale.size, weight),
            positive=positive,
            tol=at_least_zero("tol", self.tol),
            max_iter=whole("max_iter", self.max_iter),
            time_limit=None if self.time_limit is None else at_least_zero("time_limit", self.time_limit),
            options={
                "subsolver": option(self.subsolver),
                "start": option(self.start),
                "random_state": self.random_state,
            },
            observer=None,
            checkpoint=self.checkpoint,
            resume=self.resume,
        )
        ridge = self._ridge() if budget.ridge is None else budget.ridge
        if ridge == 0:
            return task
        if not boolean("standardize", self.standardize):
            if isinstance(objective, RemoteObjective):
                if ridge is None:
                    return task
                raise InvalidInputError("a ridge with standardize=False is for data in memory: it needs deviations")
            task = replace(task, deviations=standardization.deviations(getattr(objective, "sample_weight", None)))
        if ridge is not None:
            return task.ridged(ridge)
        return replace(task, automatic_ridge=automatic_ridge(objective.n_margins // objective.width, prepared.total))

    def _check_objective(self, objective: Model | RemoteObjective, budget: Budget) -> None:
        """Raise where there is no solver for an objective."""

    def _fit(self, task: Task, budget: Budget, previous: Vector | None = None) -> Self:
        """Fit, and set the attributes of a fitted estimator."""
        with observing(self, task) as observer:
            solution = replace(task, observer=observer).fit(budget, previous)
        self._set_solution(task, budget, solution)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt(solution.message)
        return self

    def _set_solution(self, task: Task, budget: Budget, solution: Solution) -> None:
        self._set_coefficients(solution.coef, solution.intercept)
        self.scale_ = task.standardization.scale
        self.certificate_ = with_name(solution.certificate, getattr(self, "feature_names_in_", None))
        self.multiplier_ = solution.multiplier
        self.level_ = budget.at_most
        self.ridge_ = solution.ridge
        for name in ("budget_", "feature_cost_", "preprocessing_"):
            self.__dict__.pop(name, None)
        if budget.cost is not None:
            self.budget_, self.feature_cost_ = budget.cost, task.feature_cost
        self.status_ = solution.status
        self.message_ = solution.message
        self.n_iter_ = solution.n_iter
        self.history_ = solution.history
        self.__dict__.pop("constraint_", None)
        if budget.features is None:
            self.constraint_ = task.constraint_at(budget.value)

    def _as_of(self, task: Task, x: Vector) -> dict[str, Any]:
        """Return the attributes with which the estimator predicts by x."""
        model = copy.copy(self)
        model._set_coefficients(*task.standardization.outside(x))
        return {"coef_": model.coef_, "intercept_": model.intercept_, "scale_": task.standardization.scale}

    @abstractmethod
    def _set_coefficients(self, coef: FloatArray, intercept: FloatArray) -> None: ...

    def _ridge_part(self, X: object, weight: Vector | None) -> float:
        """Return the ridge's part of the loss of the data that a model was fitted to."""
        ridge = getattr(self, "ridge_", 0.0)
        if not ridge:
            return 0.0
        sizes = self.scale_
        if not self.standardize:
            moments = moments_of(as_design(X), weight)
            sizes = moments.scale if self.fit_intercept else moments.magnitude
        counts = self._feature_weight(Budget(level=1.0), self.n_features_in_)
        held = np.ones(self.n_features_in_, np.bool_) if counts is None else counts > 0
        return float(ridge * np.sum((np.atleast_2d(self.coef_) * sizes)[:, held] ** 2))

    @property
    @abstractmethod
    def loss_(self) -> Loss:
        """Loss, as an object of `levelprox.losses`."""

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
                "the model has a budget of costs, so the other fits need one too: neither n_features nor level"
            )
        budgets = budgets_of(n_features, level) or self._budgets(*data.shape)
        task: Task = model._task(model._prepare(samples), budgets[0])
        fits = []
        for budget, solution in zip(budgets, task.each(budgets), strict=True):
            fits.append(copy.copy(model))
            fits[-1]._set_solution(task, budget, solution)
        return fits

    def _single(self) -> Any:
        """Return the estimator for one budget, without callbacks, progress and checkpoints."""
        return clone(self).set_params(verbose=0, callback=None, checkpoint=None, resume=False)

    def budget_for(self, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the budget of a fit to this target: `n_features`, `level` or `budget`, or the default number.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float
        """
        target = np.asarray(y)
        return self._budget(
            self._sample_count(Samples(None, target, self._weights(sample_weight, target.size), {}))
        ).value

    def _sample_count(self, samples: Samples | RemoteSamples) -> float:
        """Return what the default number of features depends on: the sum of the weights."""
        return samples.total

    def training_objective(
        self, X: object, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: ArrayLike | None
    ) -> float:
        """Return the objective that the fit minimises, for these data: mean loss with class weights, and the ridge.

        For the data of the fit it is `certificate_.psi`, up to rounding.

        Parameters
        ----------
        X, y, sample_weight, **fit_params
            As in `mean_loss`.

        Returns
        -------
        float
        """
        target = self._target(y)
        weight = self._weighted(target, self._weights(sample_weight, target.size))
        design = self.check_features(X)
        return float(self._mean_loss(design, target, weight, **fit_params)) + self._ridge_part(design, weight)

    def _weighted(self, y: NDArray[Any], weight: Vector | None) -> Vector | None:
        """Return the weights of the samples in the loss."""
        return weight

    if not TYPE_CHECKING:  # else every attribute would be there

        def __getattr__(self, name: str) -> Any:
            """Raise an AttributeError that says why something is not there; only what is not found comes here."""
            missing_attribute(self, name)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
