"""What all estimators share: reading and fitting data; and those for one budget: warm starts, partial_fit."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.utils.metaestimators import available_if

from levelprox._typing import FloatArray, Vector
from levelprox._validation import positive
from levelprox.backends import RemoteObjective
from levelprox.designs import RunningMoments, as_design, is_remote
from levelprox.designs.moments import moments_of
from levelprox.driver import drive
from levelprox.estimators._budget_fits import FitPathMixin
from levelprox.estimators._callbacks import OF_A_FIT, CallbackSupportMixin, missing_attribute, observing
from levelprox.estimators._data import RemoteSamples, remote_samples
from levelprox.estimators._features import Standardization
from levelprox.estimators._fit import Task
from levelprox.estimators._fixed_ridge_fit import Solution
from levelprox.estimators._input import InputMixin, Prepared, Samples
from levelprox.estimators._parameters import Budget, boolean, constraint_of, loss_of
from levelprox.estimators._prediction import PredictionMixin, dispatched, selects
from levelprox.estimators._summary import SummaryMixin
from levelprox.estimators.persistence import SaveMixin
from levelprox.exceptions import InvalidInputError, warn
from levelprox.losses import Loss
from levelprox.objectives import LinearModel, Model
from levelprox.objectives.multiclass import ByClass
from levelprox.online import BatchUpdate, Stream
from levelprox.result import Status
from levelprox.subset.result import with_name


class SparseLinearModel(  # type: ignore[call-arg]  # scikit-learn has no types
    SummaryMixin, SaveMixin, CallbackSupportMixin, PredictionMixin, FitPathMixin, InputMixin, auto_wrap_output_keys=()
):
    """A sparse linear model under a budget, of classes or numbers."""

    # scikit-learn has wrapped the selector's for `set_output`, and would here wrap the condition away.
    transform = available_if(selects)(dispatched(PredictionMixin.transform))

    #: Names of the losses that the estimator takes.
    _losses: tuple[str, ...]

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
        samples = self._read_samples(X, y, sample_weight, {"offset": offset, "exposure": exposure})
        self.__dict__.pop("fitted_on_", None)  # these are on the host
        self.data_fingerprint_ = samples.fingerprint()
        return samples

    def _remote_offset(self, offset: Any, exposure: Any) -> Any:
        """Return what is added to the margins of remote samples."""
        return None

    def _prepare(self, samples: Samples | RemoteSamples) -> Prepared:
        """Return samples with known classes, weights and units; those of weight 0 are left out."""
        return self._prepare_source(samples) if isinstance(samples, RemoteSamples) else samples.prepared(self)

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
        n_outputs : int
            Coefficients of a feature.
        """

    @abstractmethod
    def _objective(
        self, standardization: Standardization, y: NDArray[Any], weight: Vector | None, **more: Any
    ) -> Model:
        """Return ψ of samples in memory."""

    def _check_objective(self, objective: Model | RemoteObjective, budget: Budget) -> None:
        """Raise where there is no solver for an objective."""
        if budget.features is None and objective.n_outputs > 1 and not objective.smooth:
            raise InvalidInputError(
                f"loss={self.loss!r} of more than two classes needs n_features: under a level it has no solver that "
                "ends soon. Use n_features, or loss='squared_hinge'"
            )

    def _fitted(self, task: Task, budget: Budget, solution: Solution) -> Self:
        """Set the attributes of a fitted estimator; Ctrl-C raises KeyboardInterrupt then."""
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

    def _set_coefficients(self, coef: FloatArray, intercept: FloatArray) -> None:
        several = is_classifier(self)
        self.coef_: FloatArray = coef if several else coef[0]
        self.intercept_: FloatArray = intercept if several else intercept[0]

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
    def loss_(self) -> Loss:
        """Loss, as an object of `levelprox.losses`."""
        return loss_of(self.loss, self._losses)

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


def counts_features(model: SingleBudgetMixin) -> bool:
    """Return whether the budget is a number of features, or pays for one; raise with the reason if not."""
    if model.budget is not None or model.feature_cost is not None:
        raise AttributeError("partial_fit counts features: give n_features, not a budget and feature_cost")
    if model.level is None or (isinstance(model.level, Real) and model.feature_weight is None):
        capped = model.level is None or math.isfinite(constraint_of(model.constraint, 1.0).cap)
        if capped:
            return True
    raise AttributeError(
        "partial_fit counts features: give n_features, or a level of a constraint with a cap, such as 'mcp', without "
        "feature_weight"
    )


@dataclass(eq=False, repr=False)
class SingleBudgetMixin(SparseLinearModel):
    """A model for one budget, which `partial_fit` updates from batches; the subclasses read a batch."""

    _: KW_ONLY
    warm_start: bool = False
    memory: float | None = None

    def _fit(self, samples: Samples | RemoteSamples) -> Self:
        """Fit the samples, from the last fit where that is to begin with."""
        known = getattr(self, "classes_", None)
        prepared = self._prepare(samples)
        budget = self._budget(self._sample_count(samples))
        if isinstance(samples, RemoteSamples) and self.checkpoint is not None and budget.features is not None:
            raise InvalidInputError("a checkpoint of a search for n_features is for data in memory; give a level")
        task = Task.of(self, prepared, budget)
        for name in ("_stream", "n_samples_seen_"):  # of an earlier stream
            self.__dict__.pop(name, None)
        same = known is None or self._same_classes(known)
        previous = self._previous(task) if same else None
        with observing(self, task) as observed:
            solution = observed.fit(budget, previous)
        return self._fitted(task, budget, solution)

    def _previous(self, task: Task) -> Vector | None:
        """Return x of the last fit for `warm_start`; None without one, or where its shape differs."""
        if boolean("warm_start", self.warm_start) and self.checkpoint is not None:
            raise InvalidInputError(
                "warm_start begins at the last fit, a checkpoint at the last state: give only one of them"
            )
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        coef = np.atleast_2d(self.coef_)
        if coef.shape != (task.standardization.n_outputs, task.standardization.scale.size):
            warn(
                f"warm_start: the last fit had coefficients of shape {coef.shape}, this one has "
                f"{(task.standardization.n_outputs, task.standardization.scale.size)}; the fit starts without it"
            )
            return None
        return task.standardization.inside(self.coef_, self.intercept_)

    def _update(
        self, X: Any, weight: Vector | None, n_outputs: int, objective: Callable[[Standardization], Model]
    ) -> Self:
        """Update the model with a batch; an error changes nothing."""
        design = self._design(X)
        d = design.shape[1]
        settings = self._settings()
        if hasattr(self, "n_samples_seen_") and not hasattr(self, "_stream"):
            raise InvalidInputError(
                "this model was read from a file, without the state of its stream: start "
                "another one, by `fit` or with a clone"
            )
        stream, moments, initial = copy.deepcopy(getattr(self, "_stream", None)) or (*self._new_stream(d), settings)
        for name, value in settings.items():
            if value != initial[name]:
                raise InvalidInputError(
                    f"the stream began with {name}={initial[name]}, now it is {value}: begin another one, by `fit` "
                    "or with a clone"
                )
        before = self._center_and_scale(moments)
        moments.update(design, weight)
        center, scale = self._center_and_scale(moments)
        standardization = Standardization(
            design, center, scale, boolean("fit_intercept", self.fit_intercept), n_outputs
        )
        model = self._with_ridge(objective(standardization))
        if scale is not None and before[1] is not None and stream.x is not None:
            shift = None if center is None else (center - before[0]) / before[1]
            stream.rescale(scale / before[1], shift)
        x = drive(BatchUpdate(stream), (model, float(design.shape[0] if weight is None else weight.sum())))
        self._set_coefficients(*standardization.outside(x))
        self._stream = stream, moments, settings
        self.scale_ = standardization.scale
        self.level_ = float(stream.k)
        self.ridge_ = self._ridge() or 0.0
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1 if hasattr(self, "n_samples_seen_") else 1
        self.n_samples_seen_ = moments.total
        for name in OF_A_FIT:
            self.__dict__.pop(name, None)
        return self

    def _with_ridge(self, model: Model) -> Model:
        """Return the model of a batch with the ridge; "auto" is none."""
        ridge = self._ridge()
        if not ridge:
            return model
        if not boolean("standardize", self.standardize):
            raise InvalidInputError("partial_fit takes a ridge with standardize=True: it needs deviations of X")
        assert isinstance(model, LinearModel | ByClass)
        weight = self._feature_weight(self._budget(math.inf), self.n_features_in_)
        return model.ridged(np.where(weight == 0, 0.0, ridge) if weight is not None else ridge)

    def _settings(self) -> dict[str, str]:
        """Return the parameters that must not change within a stream, as text."""
        names = ("loss", "n_features", "level", "constraint", "feature_weight", "fit_intercept", "standardize")
        return {name: repr(getattr(self, name)) for name in (*names, "keep", "ridge", "positive", "memory")}

    def _new_stream(self, d: int) -> tuple[Stream, RunningMoments]:
        k = self._most_features()
        weight = self._feature_weight(self._budget(math.inf), d)
        keep = None if weight is None else np.flatnonzero(weight == 0)
        positive_features = self._positive(d)
        signs = np.flatnonzero(np.broadcast_to(positive_features, d)) if np.any(positive_features) else None
        memory = math.inf if self.memory is None else positive("memory", self.memory)
        return Stream(k, keep, signs, memory), RunningMoments(d)

    def _most_features(self) -> int:
        """Return k; of a level, the number of whole features that it pays for."""
        budget = self._budget(math.inf)
        if budget.features is not None:
            return budget.features
        return int(budget.value / constraint_of(self.constraint, 1.0).cap)

    def _center_and_scale(self, moments: RunningMoments) -> tuple[Any, Any]:
        """Return c and s of all rows so far; None where columns are not centred or scaled."""
        if not boolean("standardize", self.standardize):
            return None, None
        if boolean("fit_intercept", self.fit_intercept):
            return moments.mean, moments.scale
        return None, moments.magnitude
