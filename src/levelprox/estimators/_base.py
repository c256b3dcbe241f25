"""What all estimators share: parameters, reading X and y, fitting, and the selector's methods.

Fits under one budget after another, for those who look at all of them.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from levelprox._solve import generator
from levelprox._typing import FloatArray, Vector
from levelprox._validation import as_array, option, whole
from levelprox._validation import nonnegative as at_least_zero
from levelprox.backends import RemoteObjective
from levelprox.backends.dispatch import is_remote
from levelprox.designs import Design, as_design
from levelprox.designs.moments import moments_of
from levelprox.driver.run_identity import fingerprint
from levelprox.estimators._automatic_ridge import automatic_ridge
from levelprox.estimators._callbacks import (
    CallbackSupportMixin,
    available_if,
    missing_attribute,
    observing,
)
from levelprox.estimators._data import Prepared, RemoteSamples, Samples, check_in_memory, remote_samples
from levelprox.estimators._fit import Task
from levelprox.estimators._fit_path import FitPath
from levelprox.estimators._fixed_ridge_fit import Solution
from levelprox.estimators._input import READING, check_numbers, naming_the_place, warn_of_rounding
from levelprox.estimators._names import constraint_of
from levelprox.estimators._parameters import Budget, boolean
from levelprox.estimators._prediction import Selector, dispatched, selects
from levelprox.estimators._standardization import Standardization
from levelprox.estimators._summary import NotebookCard, Summarising
from levelprox.estimators.persistence import Saving
from levelprox.exceptions import InvalidInputError, warn
from levelprox.losses import Loss, check_weights
from levelprox.objectives import Model
from levelprox.result import Status
from levelprox.subset.result import with_name


class SparseLinearModel(  # type: ignore[call-arg]  # scikit-learn has no types
    Summarising,
    NotebookCard,
    Saving,
    CallbackSupportMixin,
    Selector,
    FitPath,
    auto_wrap_output_keys=(),
):
    """A sparse linear model under a budget; the subclasses say of what."""

    # scikit-learn has wrapped the selector's for `set_output`, and would here wrap the condition away.
    transform = available_if(selects)(dispatched(Selector.transform))

    #: How scikit-learn reads y.
    _reading_of_y: dict[str, Any] = {}  # noqa: RUF012

    #: Subtasks of a fit, for scikit-learn's callbacks: steps, of which the number is not known in advance.
    _n_subtasks: int | None = None

    @property
    def takes_zeros(self) -> bool:
        """Whether a target may be 0."""
        return True

    # --- reading

    def _read(self, X: object, y: object, **checks: Any) -> tuple[Any, NDArray[Any]]:
        """X and y as scikit-learn reads them; that X is finite is not checked yet."""
        check_in_memory(X=X, y=y)
        with self._naming_the_preprocessing(X, not checks.get("reset", True)), naming_the_place(X, y):
            if checks.get("y_numeric"):
                check_numbers(y, type(self).__name__)
            data, target = validate_data(self, X, y, **READING, **checks)
        warn_of_rounding(X)
        return data, target

    @contextmanager
    def _naming_the_preprocessing(self, X: object, of_the_fit: bool = True) -> Iterator[None]:
        """Let errors of columns say how the columns of this model are made, where they were made."""
        try:
            yield
        except ValueError as error:
            made = getattr(self, "preprocessing_", None) if of_the_fit else None
            if made is None or list(getattr(X, "columns", ())) == list(made.features):
                raise
            raise InvalidInputError(
                f"{str(error).strip().rstrip('.')}. The model was fitted to columns that were prepared; give it "
                "model.preprocessing_.transform(X) instead of X"
            ) from error

    def _design(self, data: object) -> Design:
        """X, checked; errors call its columns by their names."""
        try:
            return as_design(data, getattr(self, "feature_names_in_", None))
        except InvalidInputError as error:
            if "X contains" not in str(error):
                raise
            remedy = "Replace infinite values, or leave out their rows"
            if "contains NaN" in str(error):
                remedy = "Fill in missing values, such as by sklearn.impute.SimpleImputer, or leave out their rows"
            raise InvalidInputError(f"{error}. {remedy}") from None

    def _seen(self, X: object) -> Design:
        """X of the same features as those of the fit."""
        check_is_fitted(self)
        if isinstance(X, Design):  # of a chunk of a file, which was looked at as a whole
            return X
        with self._naming_the_preprocessing(X), naming_the_place(X):
            data = validate_data(self, X, reset=False, **READING)
        return self._design(data)

    def _weights(self, sample_weight: ArrayLike | None, n: int) -> Vector | None:
        if sample_weight is None:
            return None
        check_in_memory(sample_weight=sample_weight)
        given = as_array("sample_weight", sample_weight)
        if given.shape not in ((), (n,)):
            raise InvalidInputError(f"sample_weight must have shape ({n},), one for each sample, got {given.shape}")
        return check_weights(np.full(n, given) if given.ndim == 0 else given, n, "sample_weight")

    # --- fitting

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

    @abstractmethod
    def _prepare(self, samples: Samples | RemoteSamples) -> Prepared:
        """Return samples with known classes, weights and units."""

    def _fit_samples(self, samples: Samples | RemoteSamples) -> Self:
        """Fit the samples under the budget of the estimator."""
        known = getattr(self, "classes_", None)
        prepared = self._prepare(samples)
        budget = self._budget(prepared.count(self))
        if isinstance(samples, RemoteSamples) and self.checkpoint is not None and budget.features is not None:
            raise InvalidInputError("a checkpoint of a search for n_features is for data in memory; give a level")
        task = self._task(prepared, budget)
        self._forget()
        same = known is None or self._same_classes(known)
        return self._fit(task, budget, self._previous(task) if same else None)

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
        standardization = prepared.standardization(self) if standardization is None else standardization
        objective = prepared.objective(self, standardization)
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

    def _standardization_of(self, X: object, weight: Vector | None, width: int) -> Standardization:
        intercept = boolean("fit_intercept", self.fit_intercept)
        names = getattr(self, "feature_names_in_", None)
        if boolean("standardize", self.standardize):
            return Standardization.standardized(X, weight, intercept, width, names)
        return Standardization(X, None, None, intercept, width, names)

    def _fit(self, task: Task, budget: Budget, previous: Vector | None = None) -> Self:
        """Fit, and set what a fitted estimator has."""
        with observing(self, task) as observer:
            solution = task.observed_by(observer).fit(budget, previous)
        self._keep(task, budget, solution)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt(solution.message)
        return self

    def _previous(self, task: Task) -> Vector | None:
        """x of the last fit, where it is to begin with and can be."""
        if boolean("warm_start", self.warm_start) and self.checkpoint is not None:
            raise InvalidInputError(
                "warm_start begins at the last fit, a checkpoint at the last state: give only one of them"
            )
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        coef = np.atleast_2d(self.coef_)
        if coef.shape != (task.standardization.width, task.standardization.scale.size):
            warn(
                f"warm_start: the last fit had coefficients of shape {coef.shape}, this one has "
                f"{(task.standardization.width, task.standardization.scale.size)}; it starts afresh"
            )
            return None
        return task.inside_of(self)

    def _keep(self, task: Task, budget: Budget, solution: Solution) -> None:
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
        """What the estimator would need in order to predict by x."""
        model = copy.copy(self)
        model._set_coefficients(*task.standardization.outside(x))
        return {"coef_": model.coef_, "intercept_": model.intercept_, "scale_": task.standardization.scale}

    @abstractmethod
    def _set_coefficients(self, coef: FloatArray, intercept: FloatArray) -> None: ...

    def _ridge_part(self, X: object, weight: Vector | None) -> float:
        """The ridge's part of the loss of the data that a model was fitted to."""
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
    def loss_(self) -> Loss:
        """The loss, as an object of `levelprox.losses`."""
        return self._loss()

    @abstractmethod
    def _loss(self) -> Loss: ...

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
        return self._budget(self._sample_count(target, self._weights(sample_weight, target.size))).value

    def _sample_count(self, y: NDArray[Any], weight: Vector | None) -> float:
        """Return what the default number of features depends on: the sum of the weights."""
        return float(y.size if weight is None else weight.sum())

    def check_features(self, X: object) -> Design:
        """Check that X has the features of the fit and finite entries.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Design
            X for several calls: methods of the fitted model take it in place of X, and do not check it again.
        """
        return self._seen(X)

    def mean_loss(
        self, X: object, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: ArrayLike | None
    ) -> float:
        """Return the mean loss of the predictions for X, without the ridge.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
            Or what `check_features` returns.
        y : array-like of shape (n_samples,)
            Of a classifier, classes of the fit.
        sample_weight : array-like of shape (n_samples,), optional
        **fit_params
            `offset` and `exposure` of a regressor, as in `fit`.

        Returns
        -------
        float
        """
        target = self._target(y)
        return float(self._mean_loss(X, target, self._weights(sample_weight, target.size), **fit_params))

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
        design = self._seen(X)
        return float(self._mean_loss(design, target, weight, **fit_params)) + self._ridge_part(design, weight)

    def _target(self, y: ArrayLike) -> NDArray[Any]:
        return np.asarray(y, np.float64)

    def _weighted(self, y: NDArray[Any], weight: Vector | None) -> Vector | None:
        """Return the weights of the samples in the loss."""
        return weight

    @abstractmethod
    def _mean_loss(self, X: object, y: NDArray[Any], weight: Vector | None, **more: Any) -> float:
        """ψ of other samples, at the fit."""

    def _margins(self, X: object) -> FloatArray:
        """Z = X coef' + intercept, of shape (n, width)."""
        design = self._seen(X)
        coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        used = np.flatnonzero(np.any(coef, axis=0))
        part = design.view(used) if used.size else None
        margins = np.empty((design.shape[0], coef.shape[0]))
        for k, row in enumerate(coef):
            margins[:, k] = intercept[k] if part is None else part.matvec(row[used].astype(np.float64)) + intercept[k]
        return margins.astype(design.dtype, copy=False)

    if not TYPE_CHECKING:  # else every attribute would be there

        def __getattr__(self, name: str) -> Any:
            """Raise an AttributeError that says why something is not there; only what is not found comes here."""
            missing_attribute(self, name)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
