"""From what a user brings to the design that reads it in place."""

from __future__ import annotations

import scipy.sparse

from levelprox._typing import Names
from levelprox.designs._base import Design
from levelprox.designs.dense import DenseDesign
from levelprox.designs.sparse import SparseDesign
from levelprox.exceptions import InvalidInputError

_ELSEWHERE = ("dask", "dask_expr", "cupy", "cupyx")


def as_design(X: object, names: Names | None = None) -> Design:
    """Turn `X` into a design, in place wherever its layout allows.

    Parameters
    ----------
    X : Design, array-like or SciPy sparse matrix or array
        The samples in rows, the features in columns. A design is returned as it is.
    names : sequence of str, optional
        What an error calls the columns, besides their number.

    Returns
    -------
    Design

    Raises
    ------
    InvalidInputError
        If `X` is not a non-empty, two-dimensional, finite matrix of real numbers, or if it is a
        sparse matrix whose arrays contradict each other.
    """
    if isinstance(X, Design):
        return X
    if type(X).__module__.split(".")[0] in _ELSEWHERE:
        raise InvalidInputError(
            f"X is {type(X).__module__}.{type(X).__name__}, and would have to be brought here whole: "
            "linear_model(X, b, …) makes a model of it where it is, and estimators take it as it is"
        )
    if scipy.sparse.issparse(X):
        return SparseDesign.from_scipy(X, names)
    return DenseDesign.from_array(X, names)
