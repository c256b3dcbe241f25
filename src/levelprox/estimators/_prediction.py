"""A fitted model as a feature selector: scikit-learn's selector methods, on the model itself.

What a fitted model says of X on a device: computed there, and handed out as arrays of the same library and device.

A model that was fitted on a device is asked about X on that device only: nothing is moved unasked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from levelprox.backends.array_namespace import array_namespace
from levelprox.backends.device_design import DeviceDesign
from levelprox.designs import as_design
from levelprox.estimators._input import naming_the_place
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Logistic
from levelprox.losses.log_link import LogLink


def selects(model: Any) -> bool:
    """Any model does once fitted; before, those that can be fitted to any y ≥ 0, as a step of a pipeline may be."""
    return hasattr(model, "coef_") or model.takes_zeros


class Selector(TransformerMixin):
    """Which features have a nonzero coefficient, of any class; `transform` keeps their columns."""

    @property
    def selected_features_(self) -> NDArray[np.intp]:
        """The features with a nonzero coefficient, in ascending order; their names: `get_feature_names_out()`."""
        return np.flatnonzero(self.get_support())

    def get_support(self, indices: bool = False) -> NDArray[Any]:
        """Mask of the features with a nonzero coefficient, or their indices.

        Parameters
        ----------
        indices : bool, default=False
            Whether to return indices instead of a mask.
        """
        check_is_fitted(self)
        mask = np.any(np.atleast_2d(self.coef_) != 0, axis=0)  # the model's
        return np.flatnonzero(mask) if indices else mask

    def transform(self, X: Any) -> Any:
        """X with the columns of the selected features only.

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

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Names of the selected features.

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


def place_of(X: Any) -> str:
    """The library and device of X in words; that of NumPy's arrays is the host."""
    namespace = array_namespace(X)
    return "the host" if namespace is None else f"{namespace.xp.__name__} {namespace.device}"


def check_place(model: Any, X: Any) -> None:
    """Raise where X is on another device, or of another library, than the data that the model was fitted to."""
    fitted, given = getattr(model, "fitted_on_", "the host"), place_of(X)
    if fitted != given:
        instead = "" if fitted == "the host" else ", or take model.on_host(), which predicts for NumPy arrays"
        raise InvalidInputError(f"the model was fitted to data on {fitted}, but X is on {given}: move X there{instead}")


class OnDevice:
    """The methods of a fitted model of which X is on a device.

    Parameters
    ----------
    model : SparseLinearModel
        Fitted.
    X : tensor of torch or array of cupy of shape (n, d)
    """

    def __init__(self, model: Any, X: Any) -> None:
        check_place(model, X)
        namespace = array_namespace(X)
        assert namespace is not None
        if len(X.shape) != 2 or int(X.shape[1]) != model.n_features_in_:
            raise InvalidInputError(
                f"X has shape {tuple(X.shape)}, but {type(model).__name__} is expecting {model.n_features_in_} "
                "features as input"
            )
        design = DeviceDesign(X, namespace=namespace)
        design.check_finite()
        self.model, self.X, self.namespace = model, X, namespace
        self.dtype = design.dtype

    def transform(self) -> Any:
        """The columns of the selected features."""
        return self._columns(self.model.get_support(indices=True))

    def decision_function(self) -> Any:
        """The margins, of shape (n,) or (n, n_classes)."""
        z = self._margins()
        return z[:, 0] if z.shape[1] == 1 else z

    def predict(self) -> Any:
        """Classes, or what is expected of y; classes that are words come back as an array of NumPy."""
        z, xp = self._margins(), self.namespace.xp
        if not hasattr(self.model, "classes_"):
            return xp.exp(z[:, 0]) if isinstance(self.model._loss(), LogLink) else z[:, 0]
        chosen = self.namespace.cast(z[:, 0] > 0, np.dtype(np.int64)) if z.shape[1] == 1 else xp.argmax(z, axis=1)
        classes = np.asarray(self.model.classes_)
        if classes.dtype.kind not in "biuf":
            return classes[self.namespace.to_host(chosen)]
        return self.namespace.take(self.namespace.to_device(classes), chosen, 0)

    def predict_proba(self) -> Any:
        """Probability of each class."""
        assert isinstance(self.model._loss(), Logistic)
        z, xp = self._margins(), self.namespace.xp
        if z.shape[1] == 1:
            p = _expit(xp, z[:, 0])
            return xp.stack([_expit(xp, -z[:, 0]), p], axis=1)
        if self.model._softmax():
            e = xp.exp(z - xp.amax(z, axis=1)[:, None])
            return e / e.sum(axis=1)[:, None]
        log_p = -_softplus(xp, -z)
        p = xp.exp(log_p - xp.amax(log_p, axis=1)[:, None])
        return p / p.sum(axis=1)[:, None]

    def predict_log_proba(self) -> Any:
        """Logarithms of `predict_proba`."""
        return self.namespace.xp.log(self.predict_proba())

    def _margins(self) -> Any:
        model, namespace = self.model, self.namespace
        coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
        used = np.flatnonzero(np.any(coef, axis=0))
        known = namespace.to_device(np.asarray(intercept, self.dtype))
        if not used.size:
            return namespace.zeros((int(self.X.shape[0]), coef.shape[0]), self.dtype) + known
        part = namespace.to_device(np.ascontiguousarray(coef[:, used].T.astype(self.dtype)))
        return namespace.xp.matmul(self._columns(used), part) + known

    def _columns(self, features: Any) -> Any:
        if self.namespace.csr_parts(self.X) is not None:
            return DeviceDesign(self.X).gathered(np.asarray(features, np.intp))
        return self.namespace.take(self.X, self.namespace.to_device(np.asarray(features, np.int64)), 1)


def _expit(xp: Any, z: Any) -> Any:
    return xp.exp(-_softplus(xp, -z))


def _softplus(xp: Any, z: Any) -> Any:
    """log(1 + exp(z)), without overflow."""
    return xp.where(z > 0, z, 0 * z) + xp.log1p(xp.exp(-xp.abs(z)))
