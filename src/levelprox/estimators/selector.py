"""A fitted model as a feature selector: scikit-learn's selector methods, on the model itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from levelprox.designs import as_design
from levelprox.estimators.reading import naming_the_place
from levelprox.exceptions import InvalidInputError


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
