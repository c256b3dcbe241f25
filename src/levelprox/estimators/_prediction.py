"""Predictions and feature selection by a fitted model, for X in memory, on Dask, in files or on a device.

`dispatched` decorates the methods. On a device results are computed there, and are arrays of the same library. A model
that was fitted on a device takes X on that device: data are never moved implicitly.
"""

from __future__ import annotations

import copy
import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from levelprox._typing import FloatArray, Vector
from levelprox.designs import as_design, is_dask, is_remote
from levelprox.designs.chunked import Chunked
from levelprox.estimators._data import OnDevice, check_collection, check_place, in_memory
from levelprox.estimators._input import check_in_memory, naming_the_place
from levelprox.exceptions import InvalidInputError, warn
from levelprox.losses import Logistic, Multinomial

Method = TypeVar("Method", bound=Callable[..., Any])


def dispatched(method: Method) -> Method:
    """Decorate a method of X: the result is of the library of X.

    Of a Dask X it is a lazy Dask array, of X on a device an array there, of X in files an array in memory, computed
    chunk by chunk.
    """

    @functools.wraps(method)
    def there(self: Any, X: Any, *rest: Any, **more: Any) -> Any:
        if not is_remote(X):
            if hasattr(self, "fitted_on_"):
                check_place(self, X)
            return method(self, X, *rest, **more)
        if any(one is not None for one in (*rest, *more.values())):
            raise InvalidInputError(f"{method.__name__} takes X alone here; add what is known to its result")
        check_is_fitted(self)
        if isinstance(X, Chunked):
            check_place(self, X)
            return _by_chunks(self, method, X)
        if is_dask(X):
            check_place(self, X)
            return _mapped(self, method.__name__, X)
        return getattr(OnDevice(self, X), method.__name__)()

    return cast(Method, there)


def selects(model: Any) -> bool:
    """Return whether `transform` is available: for fitted models, and for those that can be fitted to any y ≥ 0."""
    return hasattr(model, "coef_") or model.takes_zeros


class PredictionMixin(TransformerMixin):
    """The predictions of a fitted model, and its features: `transform` keeps their columns."""

    @property
    def takes_zeros(self) -> bool:
        """Whether a target may be 0."""
        return True

    def _margins(self, X: object) -> FloatArray:
        """Return Z = X coef' + intercept, of shape (n, n_outputs)."""
        design = self.check_features(X)
        coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        used = np.flatnonzero(np.any(coef, axis=0))
        part = design.view(used) if used.size else None
        margins = np.empty((design.shape[0], coef.shape[0]))
        for k, row in enumerate(coef):
            margins[:, k] = intercept[k] if part is None else part.matvec(row[used].astype(np.float64)) + intercept[k]
        return margins.astype(design.dtype, copy=False)

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

    def _target(self, y: ArrayLike) -> NDArray[Any]:
        return np.asarray(y, np.float64)

    @abstractmethod
    def _mean_loss(self, X: object, y: NDArray[Any], weight: Vector | None, **more: Any) -> float:
        """Return ψ of other samples, at the fit."""

    @property
    def selected_features_(self) -> NDArray[np.intp]:
        """Features with a nonzero coefficient, in ascending order; their names: `get_feature_names_out()`."""
        return np.flatnonzero(self.get_support())

    def get_support(self, indices: bool = False) -> NDArray[Any]:
        """Return a mask of the features with a nonzero coefficient, or their indices.

        Parameters
        ----------
        indices : bool, default=False
            Whether to return indices instead of a mask.
        """
        check_is_fitted(self)
        mask = np.any(np.atleast_2d(self.coef_) != 0, axis=0)  # the model's
        return np.flatnonzero(mask) if indices else mask

    def transform(self, X: Any) -> Any:
        """Return X with the columns of the selected features only.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        with naming_the_place(X):
            data = validate_data(
                self, X, reset=False, accept_sparse=("csr", "csc"), dtype=None, ensure_all_finite=False
            )
            if data.dtype.kind not in "biu":
                numbers = data if data.dtype.kind == "f" else data.astype(np.float64)
                as_design(numbers, getattr(self, "feature_names_in_", None))  # says where it is not finite
        return data[:, self.get_support(indices=True)]

    def inverse_transform(self, X: ArrayLike) -> Any:
        """Put the columns of the selected features back in their places, among columns of zeros.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_selected_features)
        """
        check_in_memory(X=X)
        places = self.get_support(indices=True)
        data = check_array(X, accept_sparse=("csr", "csc"), dtype=None, ensure_min_features=0, ensure_all_finite=False)
        if data.shape[1] != places.size:
            raise InvalidInputError(f"X has {data.shape[1]} features, but {places.size} are selected")
        shape = (data.shape[0], self.n_features_in_)
        if scipy.sparse.issparse(data):
            sparse: Any = data
            entries = sparse.tocoo()
            kind = scipy.sparse.csr_array if isinstance(data, scipy.sparse.sparray) else scipy.sparse.csr_matrix
            return kind((entries.data, (entries.row, places[entries.col])), shape=shape)
        out = np.zeros(shape, data.dtype)
        out[:, places] = data
        return out

    def on_host(self) -> Self:
        """Return the same model for NumPy arrays, where it was fitted to data on a device.

        Returns
        -------
        SparseClassifier, SparseRegressor, SparseClassifierCV or SparseRegressorCV
            With the same coefficients.
        """
        model = copy.copy(self)
        model.__dict__.pop("fitted_on_", None)
        return model

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the selected features.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of all features; by default those seen in `fit`, or x0, x1, …
        """
        check_is_fitted(self)
        known = getattr(self, "feature_names_in_", None)
        names = known if input_features is None else np.asarray(input_features, dtype=object)
        if names is None:
            names = np.array([f"x{j}" for j in range(self.n_features_in_)], dtype=object)
        if names.shape != (self.n_features_in_,):
            raise InvalidInputError("input_features should have length equal to number of features")
        if known is not None and not np.array_equal(known, names):
            raise InvalidInputError("input_features is not equal to feature_names_in_")
        return np.asarray(names[self.get_support()], dtype=object)


def _has_probabilities(model: ClassPredictionMixin) -> bool:
    """Return whether the loss is a likelihood; raise with the reason if not."""
    if not isinstance(model.loss_, Logistic):
        raise AttributeError(
            f"loss={model.loss!r} is no likelihood and gives no probabilities; loss='logistic' does. Its margins are "
            "in decision_function"
        )
    return True


class ClassPredictionMixin(ClassifierMixin, PredictionMixin):
    """The predictions of a fitted classifier."""

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


def _mapped(model: Any, name: str, X: Any) -> Any:
    """Call a method of a fitted model on every block of rows."""
    blocks = _as_blocks(model, X)
    if name == "transform":
        return blocks[:, model.get_support(indices=True)]
    lean = _lean(model)
    example = getattr(lean, name)(np.zeros((1, model.n_features_in_), _float(blocks.dtype)))
    form = {"drop_axis": 1} if example.ndim == 1 else {"chunks": (blocks.chunks[0], (example.shape[1],))}
    of_block = functools.partial(_of_block, lean, name)  # it travels with every task
    return blocks.map_blocks(of_block, token=f"levelprox-{name}", meta=example[:0], dtype=example.dtype, **form)


def _of_block(model: Any, name: str, rows: Any) -> Any:
    """Call a method of a model on one block of rows, which may have none."""
    if rows.shape[0] == 0:
        return getattr(model, name)(np.zeros((1, rows.shape[1]), _float(rows.dtype)))[:0]
    return getattr(model, name)(rows)


def _by_chunks(model: Any, method: Callable[..., Any], X: Chunked) -> Any:
    """Call a method of a fitted model on one chunk of a file after another."""
    if method.__name__ == "transform":
        raise InvalidInputError("transform takes X in memory: the columns of a file may not fit there")
    _check_features(model, X.shape[1], X.names)
    found = []
    for i in range(X.n_chunks):
        X.check_unchanged()
        X.bring(i)
        found.append(method(model, X.chunk(i)))
        X.leave(i)
    return np.concatenate(found)


def _as_blocks(model: Any, X: Any) -> Any:
    """Return X as a Dask array with all columns in every block."""
    check_collection(X)
    columns = list(X.columns) if hasattr(X, "columns") else None
    _check_features(model, X.shape[1] if columns is None else len(columns), columns)
    X = X if columns is None else X.to_dask_array()
    return X if len(X.chunks[1]) == 1 else X.rechunk({1: -1})


def _lean(model: Any) -> Any:
    """Return the model with what predictions need: no history, names (which were checked) or checkpoints."""
    kept = type(model)(**{**model.get_params(deep=False), "callback": None, "checkpoint": None, "resume": False})
    for name in ("coef_", "intercept_", "classes_", "scale_", "n_features_in_"):
        if hasattr(model, name):
            setattr(kept, name, getattr(model, name))
    return kept


def _check_features(model: Any, count: int, names: list[Any] | None) -> None:
    """Raise unless X has the features of the fit; warn where only one of the two has names."""
    known, called = getattr(model, "feature_names_in_", None), type(model).__name__
    if names is not None and not all(isinstance(name, str) for name in names):
        names = None
    if known is not None and names is not None and names != list(known):
        j = next((j for j, (a, b) in enumerate(zip(names, known, strict=False)) if a != b), min(count, len(known)))
        here, there = (f"{of[j]!r}" if j < len(of) else "nothing" for of in (names, known))
        raise InvalidInputError(
            f"The feature names should match those that were passed during fit: column {j} is {here}, and was {there}"
        )
    if count != model.n_features_in_:
        raise InvalidInputError(
            f"X has {count} features, but {called} is expecting {model.n_features_in_} features as input"
        )
    if known is not None and names is None:
        warn(f"X does not have valid feature names, but {called} was fitted with feature names", UserWarning)
    if known is None and names is not None:
        warn(f"X has feature names, but {called} was fitted without feature names", UserWarning)


def _float(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype in (np.float32, np.float64) else np.dtype(np.float64)
