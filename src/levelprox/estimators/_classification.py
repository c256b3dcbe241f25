"""What classifiers share: classes, weights of classes, margins to classes and probabilities."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from levelprox._typing import FloatArray, Vector
from levelprox._validation import option, real
from levelprox.backends import RemoteObjective
from levelprox.backends.partition import Form
from levelprox.backends.statistics import check_labels
from levelprox.estimators._base import SparseLinearModel
from levelprox.estimators._callbacks import available_if
from levelprox.estimators._data import Prepared, RemoteSamples, Samples, in_memory
from levelprox.estimators._names import CLASSIFICATION_LOSSES, loss_of
from levelprox.estimators._parameters import Budget, boolean
from levelprox.estimators._prediction import dispatched
from levelprox.estimators._standardization import Standardization
from levelprox.exceptions import InvalidInputError, warn
from levelprox.losses import Logistic, Loss, Multinomial
from levelprox.objectives import LinearModel, Model, MultinomialModel, OneVsRestModel

_MULTI_CLASS = ("auto", "softmax", "ovr")


def _has_probabilities(model: Classification) -> bool:
    """Whether the loss is a likelihood; the error says why not."""
    if not isinstance(model.loss_, Logistic):
        raise AttributeError(
            f"loss={model.loss!r} is no likelihood and gives no probabilities; loss='logistic' does. Its margins are "
            "in decision_function"
        )
    return True


@dataclass(eq=False, repr=False)
class Classification(ClassifierMixin, SparseLinearModel):
    """A classifier's side of a sparse linear model."""

    loss: str | Loss = "logistic"
    _: KW_ONLY
    class_weight: dict[Any, float] | Literal["balanced"] | None = None
    multi_class: str = "auto"

    @dispatched
    def decision_function(self, X: object) -> FloatArray:
        """The margins z: of shape (n_samples,) for two classes, else (n_samples, n_classes).

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
        """
        z = self._margins(X)
        return z[:, 0] if z.shape[1] == 1 else z

    @dispatched
    def predict(self, X: object) -> NDArray[Any]:
        """The class of the largest margin.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
        """
        z = self.decision_function(X)
        return np.asarray(self.classes_[(z > 0).astype(np.intp) if z.ndim == 1 else np.argmax(z, axis=1)])

    @available_if(_has_probabilities)
    @dispatched
    def predict_proba(self, X: object) -> FloatArray:
        """Probability of each class, for the logistic loss; the columns are those of `classes_`.

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
        # Divided by the largest first: all of them may be too small to be told from 0.
        log_p = -np.logaddexp(0, -z.astype(np.float64))
        p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True), z.dtype)

    @available_if(_has_probabilities)
    @dispatched
    def predict_log_proba(self, X: object) -> FloatArray:
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def score(self, X: object, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The share of samples whose class is predicted.

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
        return y, self._with_class_weight(y, weight), 1.0, 1 if self.classes_.size == 2 else self.classes_.size

    def _prepare_source(self, samples: RemoteSamples) -> Prepared:
        loss, intercept = self.loss_, boolean("fit_intercept", self.fit_intercept)
        measured = boolean("standardize", self.standardize)
        statistics = samples.statistics(loss, True, measured and self.class_weight is None)
        self.classes_ = statistics.classes
        check_labels(self.classes_)
        self._check_two()
        total = statistics.total
        if self.class_weight is not None:
            samples = samples.weighted(self.classes_, self._class_factors(statistics.class_weights))
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
        return self._with_class_weight(y, weight)

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
        """All classes of a stream, told in its first call and the same in all others."""
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
        return self._with_class_weight(y, weight)

    def _same_classes(self, known: NDArray[Any] | None) -> bool:
        """Whether the last fit, if any, had these classes, so that its coefficients are of use."""
        if known is None or self.warm_start is not True or np.array_equal(known, self.classes_):
            return True
        warn(
            f"warm_start: the last fit had the classes {known.tolist()}, this one has {self.classes_.tolist()}; it "
            "starts afresh"
        )
        return False

    def _with_class_weight(self, y: NDArray[Any], weight: Vector | None) -> Vector | None:
        """Weights of the samples times those of their classes."""
        if self.class_weight is None:
            return weight
        places = np.searchsorted(self.classes_, y)
        own = np.ones(y.size) if weight is None else weight
        factors = self._class_factors(np.asarray(np.bincount(places, own), np.float64))
        with np.errstate(over="ignore", under="ignore"):
            product = own * factors[places]
            left = np.bincount(places, product)
            if not np.all(np.isfinite(left)) or np.min(left[places]) == 0:  # of these the ratios may still be in range
                product = (own / own.max()) * (factors / factors.max())[places]
                left = np.bincount(places, product)
        if np.min(left[places]) == 0:
            empty = self.classes_.tolist()[places[np.argmin(left[places])]]
            raise InvalidInputError(f"class_weight leaves class {empty!r} no weight")
        return np.asarray(product)

    def _class_factors(self, totals: Vector) -> Vector:
        """By what the weights of the samples of each class are multiplied; their sums are `totals`."""
        if option(self.class_weight) == "balanced":
            return np.asarray(totals.sum() / (self.classes_.size * totals), np.float64)
        if isinstance(self.class_weight, dict):
            return self._factors(self.class_weight)
        raise InvalidInputError(f"class_weight must be a dict, 'balanced' or None, got {self.class_weight!r}")

    def _factors(self, given: dict[Any, float]) -> Vector:
        classes = self.classes_.tolist()
        unknown = [key for key in given if key not in classes]
        if unknown and any(c not in given for c in classes):  # else it is of a class that these samples do not have
            raise InvalidInputError(f"class_weight has {unknown[0]!r}, which is none of the classes {classes}")
        factors = np.array([real(f"class_weight[{c!r}]", given.get(c, 1.0)) for c in classes])
        if np.any(factors <= 0) or not np.all(np.isfinite(factors)):
            bad = classes[int(np.argmax(~((factors > 0) & np.isfinite(factors))))]
            raise InvalidInputError(f"class_weight must be positive and finite, got {given[bad]!r} for class {bad!r}")
        return factors

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
