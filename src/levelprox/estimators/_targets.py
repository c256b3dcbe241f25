"""Classifiers and regressors: their targets, predictions and scores."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from levelprox._typing import FloatArray, Vector
from levelprox._validation import check_labels, option, real_array
from levelprox.backends import RemoteObjective
from levelprox.backends.partition import Form
from levelprox.designs import is_remote
from levelprox.estimators._base import SparseLinearModel
from levelprox.estimators._data import (
    Prepared,
    RemoteSamples,
    Samples,
    class_factors,
    elementwise,
    in_memory,
    unit_of,
    unit_of_source,
    with_class_weight,
)
from levelprox.estimators._features import Standardization
from levelprox.estimators._input import one_each
from levelprox.estimators._parameters import CLASSIFICATION_LOSSES, REGRESSION_LOSSES, Budget, boolean, loss_of
from levelprox.estimators._prediction import dispatched
from levelprox.exceptions import InvalidInputError, warn
from levelprox.losses import Logistic, LogLink, Loss, Multinomial
from levelprox.objectives import LinearModel, Model, MultinomialModel, OneVsRestModel

_MULTI_CLASS = ("auto", "softmax", "ovr")


def _has_probabilities(model: ClassificationMixin) -> bool:
    """Return whether the loss is a likelihood; raise with the reason if not."""
    if not isinstance(model.loss_, Logistic):
        raise AttributeError(
            f"loss={model.loss!r} is no likelihood and gives no probabilities; loss='logistic' does. Its margins are "
            "in decision_function"
        )
    return True


@dataclass(eq=False, repr=False)
class ClassificationMixin(ClassifierMixin, SparseLinearModel):
    """A sparse linear model of classes."""

    loss: str | Loss = "logistic"
    _: KW_ONLY
    class_weight: dict[Any, float] | Literal["balanced"] | None = None
    multi_class: str = "auto"

    @dispatched
    def decision_function(self, X: object) -> FloatArray:
        """Return the margins z: of shape (n_samples,) for two classes, else (n_samples, n_classes).

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
        """
        z = self._margins(X)
        return z[:, 0] if z.shape[1] == 1 else z

    @dispatched
    def predict(self, X: object) -> NDArray[Any]:
        """Return the class of the largest margin.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
        """
        z = self.decision_function(X)
        return np.asarray(self.classes_[(z > 0).astype(np.intp) if z.ndim == 1 else np.argmax(z, axis=1)])

    @available_if(_has_probabilities)
    @dispatched
    def predict_proba(self, X: object) -> FloatArray:
        """Return the probability of each class, for the logistic loss; the columns are those of `classes_`.

        Of more than two classes one against the others (multi_class="ovr"), the probabilities of each class are
        divided by their sum.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
        """
        z = self._margins(X)
        if z.shape[1] == 1:
            return np.hstack([expit(-z), expit(z)])
        if self.multi_class_ == "softmax":
            return Multinomial.probabilities(np.ascontiguousarray(z, np.float64)).astype(z.dtype)
        # Divided by the largest first: all of them may underflow.
        log_p = -np.logaddexp(0, -z.astype(np.float64))
        p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True), z.dtype)

    @available_if(_has_probabilities)
    @dispatched
    def predict_log_proba(self, X: object) -> FloatArray:
        """Return logarithms of `predict_proba`.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def score(self, X: object, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of samples whose class is predicted.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        """
        from sklearn.metrics import accuracy_score

        y, predicted, sample_weight = in_memory(y, self.predict(X), sample_weight)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def _encode(self, y: NDArray[Any], weight: Vector | None) -> tuple[NDArray[Any], Vector | None, float, int]:
        self.classes_ = np.unique(y)
        self._check_two()
        return y, self._weighted(y, weight), 1.0, 1 if self.classes_.size == 2 else self.classes_.size

    def _prepare_source(self, samples: RemoteSamples) -> Prepared:
        loss, intercept = self.loss_, boolean("fit_intercept", self.fit_intercept)
        measured = boolean("standardize", self.standardize)
        statistics = samples.statistics(loss, True, measured and self.class_weight is None)
        self.classes_ = statistics.classes
        check_labels(self.classes_)
        self._check_two()
        total = statistics.total
        if self.class_weight is not None:
            samples = samples.weighted(
                self.classes_, class_factors(self.class_weight, self.classes_, statistics.class_weights)
            )
            statistics = samples.statistics(loss, True, measured)
        form = Form(
            loss, intercept, classes=self.classes_, softmax=self.multi_class_ == "softmax" and self.classes_.size > 2
        )
        return samples.prepared(self, form, statistics, total)

    def _check_objective(self, objective: Model | RemoteObjective, budget: Budget) -> None:
        if budget.features is None and self.classes_.size > 2 and not objective.smooth:
            raise InvalidInputError(
                f"loss={self.loss!r} of more than two classes needs n_features: under a level it has no solver that "
                "ends soon. Use n_features, or loss='squared_hinge'"
            )

    def _check_two(self) -> None:
        if self.classes_.size < 2:
            raise InvalidInputError(
                f"{type(self).__name__} needs samples of at least 2 classes, but the data have only one class: "
                f"{self.classes_.tolist()}"
            )

    def _target(self, y: ArrayLike) -> NDArray[Any]:
        return np.asarray(y)

    def _weighted(self, y: NDArray[Any], weight: Vector | None) -> Vector | None:
        if self.class_weight is None:
            return weight
        return with_class_weight(self.class_weight, self.classes_, y, weight)

    def _sample_count(self, samples: Samples | RemoteSamples) -> float:
        """Return how many samples the rarest class has; a weight of 2 is a repeated sample."""
        if isinstance(samples, RemoteSamples):
            return samples.rarest
        _, places = np.unique(samples.y, return_inverse=True)
        counts = np.bincount(places, samples.weight)
        return float(counts[counts > 0].min())

    @property
    def loss_(self) -> Loss:
        """Loss, as an object of `levelprox.losses`."""
        return loss_of(self.loss, CLASSIFICATION_LOSSES)

    @property
    def multi_class_(self) -> str:
        """Model of more than two classes: "softmax", one likelihood of all of them, or "ovr"."""
        multi_class = option(self.multi_class)
        if multi_class not in _MULTI_CLASS:
            raise InvalidInputError(f"multi_class must be one of {', '.join(_MULTI_CLASS)}, got {self.multi_class!r}")
        logistic = isinstance(self.loss_, Logistic)
        if multi_class == "softmax" and not logistic:
            raise InvalidInputError(f"multi_class='softmax' is for loss='logistic', not for {self.loss!r}; use 'ovr'")
        return "softmax" if logistic and multi_class != "ovr" else "ovr"

    def _read(self, X: object, y: object, **checks: Any) -> tuple[Any, NDArray[Any]]:
        data, target = super()._read(X, y, **checks)
        check_labels(target)
        check_classification_targets(target)
        return data, target

    def _objective(
        self, standardization: Standardization, y: NDArray[Any], weight: Vector | None, **more: Any
    ) -> Model:
        loss, multi_class, intercept = self.loss_, self.multi_class_, standardization.fit_intercept
        if self.classes_.size == 2:
            b = np.where(y == self.classes_[1], 1.0, -1.0)
            return LinearModel(standardization.design, b, loss, weight, fit_intercept=intercept)
        if multi_class == "softmax":
            return MultinomialModel(standardization.design, y, weight, fit_intercept=intercept, classes=self.classes_)
        return OneVsRestModel(standardization.design, y, loss, weight, fit_intercept=intercept, classes=self.classes_)

    def _check_classes(self, classes: ArrayLike | None, first: bool) -> None:
        """Set all classes of a stream, given in its first call and the same in all others."""
        if classes is None and not hasattr(self, "classes_"):
            raise InvalidInputError(
                "classes must be given in the first call of partial_fit: all there will ever be, such as np.unique(y) "
                "of all data"
            )
        if classes is None:
            return
        given = np.unique(np.asarray(classes))
        if not first and not np.array_equal(given, self.classes_):
            raise InvalidInputError(f"classes={given.tolist()} are not those of before: {self.classes_.tolist()}")
        if given.size < 2:
            raise InvalidInputError(f"{type(self).__name__} needs at least 2 classes, got only {given.tolist()}")
        self.classes_ = given

    def _with_class_weight_of_a_batch(self, y: NDArray[Any], weight: Vector | None) -> Vector | None:
        check_classification_targets(y)
        unknown = np.flatnonzero(~np.isin(y, self.classes_))
        if unknown.size:
            i = int(unknown[0])
            label, classes = y[i : i + 1].tolist()[0], self.classes_.tolist()
            raise InvalidInputError(f"y has the class {label!r} at index {i}, which is none of {classes}")
        if isinstance(self.class_weight, str):
            raise InvalidInputError("class_weight='balanced' needs all data at once; for partial_fit give a dict")
        return self._weighted(y, weight)

    def _same_classes(self, known: NDArray[Any] | None) -> bool:
        """Return whether the last fit, if any, had these classes, so that its coefficients are of use."""
        if known is None or self.warm_start is not True or np.array_equal(known, self.classes_):
            return True
        warn(
            f"warm_start: the last fit had the classes {known.tolist()}, this one has {self.classes_.tolist()}; the "
            "fit starts without it"
        )
        return False

    def _mean_loss(self, X: object, y: NDArray[Any], weight: Vector | None, **more: Any) -> float:
        z, loss = self._margins(X).astype(np.float64), self.loss_
        if z.shape[1] == 1:
            return loss.value(z[:, 0], np.where(y == self.classes_[1], 1.0, -1.0), weight)
        label = np.searchsorted(self.classes_, y)
        if self.multi_class_ == "softmax":
            return Multinomial.value(np.ascontiguousarray(z), label.astype(np.int64), weight)
        return sum(loss.value(z[:, k], np.where(label == k, 1.0, -1.0), weight) for k in range(z.shape[1]))

    def _set_coefficients(self, coef: FloatArray, intercept: FloatArray) -> None:
        self.coef_ = coef
        self.intercept_ = intercept


@dataclass(eq=False, repr=False)
class RegressionMixin(RegressorMixin, SparseLinearModel):
    """A sparse linear model of numbers."""

    loss: str | Loss = "squared"

    _reading_of_y = {"y_numeric": True}  # noqa: RUF012

    @dispatched
    def predict(self, X: object, offset: ArrayLike | None = None, exposure: ArrayLike | None = None) -> FloatArray:
        """Return the expected value of y: z, or exp(z) for poisson and gamma.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
        offset, exposure : array-like of shape (n_samples,), optional
            As in `fit`; there is nothing to add unless they are given.
        """
        z = self._margins(X)[:, 0]
        known = self._known(offset, exposure, z.size)
        if known is not None:
            z = (z + known).astype(z.dtype)
        if not isinstance(self.loss_, LogLink):
            return z
        with np.errstate(over="ignore"):
            return np.exp(z)

    def score(
        self,
        X: object,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> float:
        """Return R²; for poisson and gamma D², the share of the deviance that is explained.

        Parameters
        ----------
        X, y, sample_weight, offset, exposure
            As in `fit`.
        """
        from sklearn.metrics import d2_tweedie_score, r2_score

        y, predicted, sample_weight = in_memory(y, self.predict(X, offset, exposure), sample_weight)
        loss = self.loss_
        if not isinstance(loss, LogLink):
            return float(r2_score(y, predicted, sample_weight=sample_weight))
        power = 1 if loss.kind == "count" else 2
        return float(d2_tweedie_score(y, predicted, sample_weight=sample_weight, power=power))

    def _remote_offset(self, offset: Any, exposure: Any) -> Any:
        """Return what is added to the margins of remote samples; it is checked where it is."""
        if exposure is None:
            return offset
        if not isinstance(self.loss_, LogLink):
            raise InvalidInputError(f"exposure is for poisson and gamma, not for loss={self.loss!r}; use offset")
        if offset is not None and is_remote(exposure) != is_remote(offset):
            raise InvalidInputError("exposure and offset must be arrays of the same library")
        known = elementwise(_log_exposure, exposure)
        return known if offset is None else known + (offset if is_remote(offset) else np.asarray(offset))

    @property
    def loss_(self) -> Loss:
        """Loss, as an object of `levelprox.losses`."""
        return loss_of(self.loss, REGRESSION_LOSSES)

    def _encode(self, y: NDArray[Any], weight: Vector | None) -> tuple[NDArray[Any], Vector | None, float, int]:
        loss = self.loss_
        y = loss.check_targets(y, "y")
        return y, weight, unit_of(loss, y, weight), 1

    def _prepare_source(self, samples: RemoteSamples) -> Prepared:
        loss = self.loss_
        statistics = samples.statistics(loss, False, boolean("standardize", self.standardize))
        form = Form(loss, boolean("fit_intercept", self.fit_intercept))
        unit = unit_of_source(loss, samples.source, statistics)
        return samples.prepared(self, form, statistics, statistics.total, unit)

    def _objective(
        self, standardization: Standardization, y: NDArray[Any], weight: Vector | None, **more: Any
    ) -> LinearModel:
        known = self._known(more.get("offset"), more.get("exposure"), y.size)
        return LinearModel(standardization.design, y, self.loss_, weight, known, standardization.fit_intercept)

    def _known(self, offset: ArrayLike | None, exposure: ArrayLike | None, n: int) -> Vector | None:
        """Return the offsets of the margins."""
        known = None if offset is None else one_each("offset", offset, n)
        if exposure is None:
            return known
        if not isinstance(self.loss_, LogLink):
            raise InvalidInputError(f"exposure is for poisson and gamma, not for loss={self.loss!r}; use offset")
        times = one_each("exposure", exposure, n)
        if np.any(times <= 0):
            i = int(np.argmax(times <= 0))
            raise InvalidInputError(f"exposure must be positive, got {times[i]:g} at index {i}")
        return np.log(times) if known is None else known + np.log(times)

    def _mean_loss(self, X: object, y: NDArray[Any], weight: Vector | None, **more: Any) -> float:
        z = self._margins(X)[:, 0].astype(np.float64)
        known = self._known(more.get("offset"), more.get("exposure"), z.size)
        return self.loss_.value(z if known is None else z + known, y, weight)

    def _set_coefficients(self, coef: FloatArray, intercept: FloatArray) -> None:
        self.coef_ = coef[0]
        self.intercept_ = intercept[0]

    @property
    def takes_zeros(self) -> bool:
        """Whether a target may be 0: not for gamma."""
        return bool(getattr(self.loss, "name", option(self.loss)) != "gamma")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        with suppress(InvalidInputError):  # a loss for which `fit` raises an error
            tags.target_tags.positive_only = self.loss_.kind in ("count", "positive")
        return tags


def _log_exposure(exposure: Any) -> Any:
    """Return log(exposure) of samples, of NumPy or of a library that has `log` as a method; they must be positive."""
    own = exposure if hasattr(exposure, "log") else np.asarray(real_array("exposure", exposure), np.float64)
    bad = ~(own > 0)
    if bad.any():
        i = int(bad.nonzero()[0].ravel()[0])
        raise InvalidInputError(f"exposure must be positive, got {float(own[i]):g} at index {i}")
    return own.log() if hasattr(own, "log") else np.log(own)
