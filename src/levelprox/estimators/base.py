"""What all estimators share: parameters, reading X and y, fitting, and the selector's methods."""

from __future__ import annotations

import copy
import functools
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from levelprox.designs import Design, as_design
from levelprox.errors import InfeasibleError, InvalidInputError, warn
from levelprox.estimators.along import Along
from levelprox.estimators.border import Border
from levelprox.estimators.elsewhere import Elsewhere, check_in_memory, where_it_is
from levelprox.estimators.named_constraints import constraint_of
from levelprox.estimators.notebook_card import NotebookCard
from levelprox.estimators.reading import READING, naming_the_place, warn_of_rounding
from levelprox.estimators.saving import Saving
from levelprox.estimators.selector import Selector, selects
from levelprox.estimators.sklearn_callbacks import CallbackSupportMixin
from levelprox.estimators.summarising import Summarising
from levelprox.estimators.task import Budget, Solution, Task
from levelprox.estimators.watching import watching
from levelprox.fingerprint import fingerprint
from levelprox.limits import limited
from levelprox.losses import check_weights
from levelprox.objectives import Asked, Model
from levelprox.result import Status
from levelprox.solve import generator
from levelprox.validation import Array, as_array, finite, real, real_array, whole
from levelprox.validation import nonnegative as at_least_zero

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
        if self.level is None:
            by_rule = int(max(1, min(n / SAMPLES_FOR_A_FEATURE, DEFAULT_FEATURES)))
            return Budget(features=by_rule if self.n_features is None else whole("n_features", self.n_features))
        level = real("level", self.level)
        if level < 0:
            raise InfeasibleError(f"no feasible point: g(x) >= 0 for all x, got level={level:g}")
        if math.isinf(level):
            raise InvalidInputError("level must be finite, got inf; without a budget, set n_features to X.shape[1]")
        return Budget(level=level)

    def _check_for(self, budget: Budget) -> None:
        """Refuse parameters that would have no effect."""
        if budget.features is None:
            return
        for name, default in (("constraint", "mcp"), ("subsolver", "auto"), ("start", "auto")):
            value = getattr(self, name)
            if not (isinstance(value, str) and value == default):
                raise InvalidInputError(
                    f"{name}={value!r} is for fits under a level; at most n_features={budget.features} features are "
                    f"found without it. Set level, or leave {name} at {default!r}"
                )

    def _feature_weight(self, budget: Budget, d: int) -> Vector | None:
        if self.feature_weight is None:
            return None
        weight = np.array(real_array("feature_weight", self.feature_weight), np.float64)
        if weight.shape != (d,):
            raise InvalidInputError(f"feature_weight must have shape ({d},), one for each feature, got {weight.shape}")
        finite("feature_weight", weight)
        if np.any(weight < 0):
            j = int(np.argmax(weight < 0))
            raise InvalidInputError(f"feature_weight must not be negative, got {weight[j]:g} at index {j}")
        if budget.features is not None and np.unique(weight[weight > 0]).size > 1:
            raise InvalidInputError(
                "with n_features every feature counts as one: feature_weight must be 0 (kept in any case) or one "
                "positive value; unequal weights are for level"
            )
        return weight

    @property
    def takes_zeros(self) -> bool:
        """Whether a target may be 0."""
        return True

    # --- reading

    def _read(self, X: object, y: object, **checks: Any) -> tuple[Any, NDArray[Any]]:
        """X and y as scikit-learn reads them; that X is finite is not checked yet."""
        check_in_memory(X=X, y=y)
        with naming_the_place(X, y):
            data, target = validate_data(self, X, y, **READING, **checks)
        warn_of_rounding(X)
        return data, target

    def _design(self, data: object) -> Design:
        """X, checked; errors call its columns by their names."""
        return as_design(data, getattr(self, "feature_names_in_", None))

    def _seen(self, X: object) -> Design:
        """X of the same features as those of the fit."""
        check_is_fitted(self)
        if isinstance(X, Design):  # of a chunk of a file, which was looked at as a whole
            return X
        with naming_the_place(X):
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

    def _new_task(self, border: Border, objective: Model | Asked, budget: Budget, unit: float) -> Task:
        constraint = constraint_of(self.constraint, unit if budget.features is None else 1.0)
        self._check_for(budget)
        generator(self.random_state)
        positive = boolean("positive", self.positive)
        if positive and border.width > 1:
            raise InvalidInputError(
                f"positive=True is for models with one coefficient for each feature, not for {border.width} classes"
            )
        return Task(
            objective=objective,
            border=border,
            constraint=constraint,
            feature_weight=self._feature_weight(budget, border.scale.size),
            positive=positive,
            tol=at_least_zero("tol", self.tol),
            max_iter=whole("max_iter", self.max_iter),
            time_limit=None if self.time_limit is None else at_least_zero("time_limit", self.time_limit),
            options={"subsolver": self.subsolver, "start": self.start, "random_state": self.random_state},
            observer=None,
            checkpoint=self.checkpoint,
            resume=self.resume,
        )

    def _border(self, X: object, weight: Vector | None, width: int) -> Border:
        intercept = boolean("fit_intercept", self.fit_intercept)
        if boolean("standardize", self.standardize):
            return Border.standardized(X, weight, intercept, width)
        return Border(X, None, None, intercept, width)

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
        self.certificate_ = solution.certificate
        self.multiplier_ = solution.multiplier
        self.level_ = budget.value
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
    def _set_coefficients(self, coef: Array, intercept: Array) -> None: ...

    @abstractmethod
    def _mean_loss(self, X: object, y: NDArray[Any], weight: Vector | None, **more: Any) -> float:
        """ψ of other samples, at the fit."""

    def _margins(self, X: object) -> Array:
        """Z = X coef' + intercept, of shape (n, width)."""
        design = self._seen(X)
        coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        used = np.flatnonzero(np.any(coef, axis=0))
        part = design.view(used) if used.size else None
        margins = np.empty((design.shape[0], coef.shape[0]))
        for k, row in enumerate(coef):
            margins[:, k] = intercept[k] if part is None else part.matvec(row[used].astype(np.float64)) + intercept[k]
        return margins.astype(design.dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def unchanged_if_refused(method: Method) -> Method:
    """Decorate a fit: what an earlier one has left is put back, should this one be refused."""

    @functools.wraps(method)
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
