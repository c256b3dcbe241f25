"""What all estimators share: parameters, reading X and y, fitting, and the selector's methods."""

from __future__ import annotations

import copy
import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from levelprox._runtime.deadline import limited
from levelprox._solve import generator
from levelprox._typing import FloatArray
from levelprox._validation import as_array, option, real, whole
from levelprox._validation import nonnegative as at_least_zero
from levelprox.backends import RemoteObjective
from levelprox.designs import Design, as_design
from levelprox.designs.moments import moments_of
from levelprox.driver.fingerprint import fingerprint
from levelprox.estimators.along import Along
from levelprox.estimators.automatic_ridge import automatic_ridge
from levelprox.estimators.available import available_if, missing_attribute
from levelprox.estimators.border import Border
from levelprox.estimators.by_name import FeatureNames
from levelprox.estimators.elsewhere import Elsewhere, check_in_memory, where_it_is
from levelprox.estimators.feature_costs import costs_of
from levelprox.estimators.named_constraints import constraint_of
from levelprox.estimators.notebook_card import NotebookCard
from levelprox.estimators.reading import READING, check_numbers, naming_the_place, warn_of_rounding
from levelprox.estimators.saving import Saving
from levelprox.estimators.selector import Selector, selects
from levelprox.estimators.sklearn_callbacks import CallbackSupportMixin
from levelprox.estimators.summarising import Summarising
from levelprox.estimators.task import Budget, Solution, Task, cost_budgets
from levelprox.estimators.watching import watching, with_estimator_warnings
from levelprox.exceptions import InfeasibleError, InvalidInputError, warn
from levelprox.losses import Loss, check_weights
from levelprox.objectives import Model
from levelprox.result import Status
from levelprox.subset.result import with_name

Vector = NDArray[np.float64]
Method = TypeVar("Method", bound=Callable[..., Any])

#: Where neither n_features nor level is given: one feature for this many samples or, of classes, samples of the rarest
#: one (the rule of ten events for each variable), but no more than so many.
SAMPLES_FOR_A_FEATURE, DEFAULT_FEATURES = 10, 10


class SparseLinearModel(  # type: ignore[call-arg]  # scikit-learn has no types
    Summarising,
    NotebookCard,
    Along,
    Elsewhere,
    Saving,
    CallbackSupportMixin,
    Selector,
    BaseEstimator,
    auto_wrap_output_keys=(),
):
    """A sparse linear model under a budget; the subclasses say of what."""

    # scikit-learn has wrapped the selector's for `set_output`, and would here wrap the condition away.
    transform = available_if(selects)(where_it_is(Selector.transform))

    #: Subtasks of a fit, for scikit-learn's callbacks: steps, of which the number is not known in advance.
    _n_subtasks: int | None = None

    # --- parameters

    def _budget(self, n: float) -> Budget:
        """Exactly one of n_features and level; with neither, one for every ten of n, at least 1 and at most 10."""
        if self.n_features is not None and self.level is not None:
            raise InvalidInputError(
                f"give either n_features or level, not both; got n_features={self.n_features!r}, level={self.level!r}"
            )
        costs = cost_budgets(self.budget, self.feature_cost, self.n_features, self.level, self._most())
        if costs:
            if len(costs) > 1:
                raise InvalidInputError(f"budget must be one number, got {self.budget!r}; the CV twin chooses")
            return costs[0]
        if self.level is None:
            by_rule = int(max(1, min(n / SAMPLES_FOR_A_FEATURE, DEFAULT_FEATURES)))
            self._check_one("n_features", self.n_features)
            return Budget(features=by_rule if self.n_features is None else whole("n_features", self.n_features))
        self._check_one("level", self.level)
        level = real("level", self.level)
        if level < 0:
            raise InfeasibleError(f"no feasible point: g(x) >= 0 for all x, got level={level:g}")
        if math.isinf(level):
            raise InvalidInputError("level must be finite, got inf; without a budget, set n_features to X.shape[1]")
        return Budget(level=level)

    def _most(self) -> int:
        """How many features there are, once that is known."""
        return int(getattr(self, "n_features_in_", 0))

    def _costs(self, d: int, weight: Vector | None) -> Vector:
        """What each of d features costs; 0 for those that are kept."""
        kept = np.empty(0, np.intp) if weight is None else np.flatnonzero(weight == 0)
        costs = costs_of(self.feature_cost, d, getattr(self, "feature_names_in_", None), kept)
        costs[kept] = 0.0
        return costs

    def _check_one(self, name: str, value: object) -> None:
        """Refuse several budgets, and words that ask for a choice: another class chooses."""
        if isinstance(value, str) or np.ndim(value) > 0 or isinstance(value, range):  # type: ignore[arg-type]
            kind = "an integer of at least 0" if name == "n_features" else "a real number"
            raise InvalidInputError(
                f"{name} must be {kind}, got {value!r}. {type(self).__name__}CV chooses among several: "
                f"{type(self).__name__}CV({name}=[...])"
            )

    def _check_for(self, budget: Budget) -> None:
        """Refuse parameters that would have no effect."""
        if budget.features is None:
            return
        for name, default in (("constraint", "mcp"), ("subsolver", "auto"), ("start", "auto")):
            value = getattr(self, name)
            if not (isinstance(value, str) and option(value) == default):
                raise InvalidInputError(
                    f"{name}={value!r} is for fits under a level; at most n_features={budget.features} features are "
                    f"found without it. Set level, or leave {name} at {default!r}"
                )

    def _feature_weight(self, budget: Budget, d: int) -> Vector | None:
        """ω: what each feature counts, 0 for those that are kept; None where all count one."""
        if self.feature_weight is None and self.keep is None:
            return None
        features = FeatureNames.of(self, d)
        weight = np.ones(d) if self.feature_weight is None else features.values("feature_weight", self.feature_weight)
        if np.any(weight < 0):
            j = int(np.argmax(weight < 0))
            name = "" if features.names is None else f", {features.called(j)}"
            raise InvalidInputError(f"feature_weight must not be negative, got {weight[j]:g} at index {j}{name}")
        if self.keep is not None:
            weight[features.mask("keep", self.keep)] = 0.0
        if budget.features is not None and np.unique(weight[weight > 0]).size > 1:
            raise InvalidInputError(
                "with n_features every feature counts as one: feature_weight must be 0 (kept in any case) or one "
                "positive value; unequal weights are for level"
            )
        return weight

    def _positive(self, d: int) -> bool | NDArray[np.bool_]:
        """Which coefficients must not be negative: all, none, or those of a mask."""
        if isinstance(self.positive, bool | np.bool_):
            return bool(self.positive)
        if self.positive is None or isinstance(self.positive, int | float | str | np.number):
            raise InvalidInputError(f"positive must be True or False, or a list of features, got {self.positive!r}")
        return FeatureNames.of(self, d).mask("positive", self.positive)

    def _by_index(self, d: int) -> dict[str, Any]:
        """Parameters that may name features, as arrays over all of them: for fits of data without names."""
        features, found = FeatureNames.of(self, d), dict[str, Any]()
        if self.keep is not None:
            found["keep"] = features.mask("keep", self.keep)
        if isinstance(self.feature_weight, Mapping):
            found["feature_weight"] = features.values("feature_weight", self.feature_weight)
        if not isinstance(self.positive, bool | np.bool_):
            found["positive"] = self._positive(d)
        return found

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

    @abstractmethod
    def _task(self, X: object, y: NDArray[Any], weight: Vector | None, budget: Budget, **more: Any) -> Task:
        """The data, encoded and standardised."""

    def _new_task(
        self, border: Border, objective: Model | RemoteObjective, budget: Budget, unit: float, total: float | None
    ) -> Task:
        constraint = constraint_of(self.constraint, unit if budget.features is None else 1.0)
        self._check_for(budget)
        generator(self.random_state)
        positive = self._positive(border.scale.size)
        if np.any(positive) and border.width > 1:
            raise InvalidInputError(
                f"positive={self.positive!r} is for models with one coefficient for each feature, not for "
                f"{border.width} classes"
            )
        weight = self._feature_weight(budget, border.scale.size)
        task = Task(
            objective=objective,
            border=border,
            constraint=constraint,
            feature_weight=weight,
            feature_cost=None if budget.cost is None else self._costs(border.scale.size, weight),
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
            task = replace(task, deviations=border.deviations(getattr(objective, "sample_weight", None)))
        if ridge is not None:
            return task.ridged(ridge)
        return replace(task, automatic_ridge=automatic_ridge(objective.n_margins // objective.width, total))

    def _ridge(self) -> float | None:
        """λ ≥ 0; None for "auto"."""
        if isinstance(self.ridge, str):
            if option(self.ridge) == "auto":
                return None
            raise InvalidInputError(f"ridge must be a number or 'auto', got {self.ridge!r}")
        self._check_one("ridge", self.ridge)
        ridge = at_least_zero("ridge", self.ridge)
        if math.isinf(ridge):
            raise InvalidInputError("ridge must be finite, got inf")
        return ridge

    def _border(self, X: object, weight: Vector | None, width: int) -> Border:
        intercept = boolean("fit_intercept", self.fit_intercept)
        names = getattr(self, "feature_names_in_", None)
        if boolean("standardize", self.standardize):
            return Border.standardized(X, weight, intercept, width, names)
        return Border(X, None, None, intercept, width, names)

    def _remember(self, design: Design, y: NDArray[Any], weight: Vector | None, **more: ArrayLike | None) -> None:
        """By what the data of this fit are known again."""
        given = {name: np.asarray(values) for name, values in more.items() if values is not None}
        self.__dict__.pop("fitted_on_", None)  # these are on the host
        self.data_fingerprint_ = fingerprint(design, y, weight, **given)

    def _fit(self, task: Task, budget: Budget, previous: Vector | None = None) -> Self:
        """Fit, and set what a fitted estimator has."""
        with watching(self, task) as observer:
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
        coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        if coef.shape != (task.border.width, task.border.scale.size):
            warn(
                f"warm_start: the last fit had coefficients of shape {coef.shape}, this one has "
                f"{(task.border.width, task.border.scale.size)}; it starts afresh"
            )
            return None
        return task.border.inside(coef.astype(np.float64), intercept.astype(np.float64))

    def _keep(self, task: Task, budget: Budget, solution: Solution) -> None:
        self._set_coefficients(solution.coef, solution.intercept)
        self.scale_ = task.border.scale
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
        model._set_coefficients(*task.border.outside(x))
        return {"coef_": model.coef_, "intercept_": model.intercept_, "scale_": task.border.scale}

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


def unchanged_if_refused(method: Method) -> Method:
    """Decorate a fit: what an earlier one has left is put back, should this one be refused."""

    @functools.wraps(method)
    @with_estimator_warnings
    def kept(self: SparseLinearModel, *args: Any, **options: Any) -> Any:
        before = self._fitted_state()
        try:
            return method(self, *args, **options)
        except Exception:
            for name in self._fitted_state():
                del self.__dict__[name]
            self.__dict__.update(before)
            raise

    return cast(Method, kept)


def within_time_limit(method: Method) -> Method:
    """Decorate a fit: `time_limit` is for all of it, from reading the data to the certificate."""

    @functools.wraps(method)
    def within(self: SparseLinearModel, *args: Any, **options: Any) -> Any:
        with limited(math.inf if self.time_limit is None else at_least_zero("time_limit", self.time_limit)):
            return method(self, *args, **options)

    return cast(Method, within)


def boolean(name: str, value: object) -> bool:
    """`value`, which must be a bool."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name} must be True or False, got {value!r}")
    return bool(value)
