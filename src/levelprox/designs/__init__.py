"""Designs: the data matrix X, one file per storage.

| design         | holds                         | read in place                                      |
|----------------|-------------------------------|----------------------------------------------------|
| `DenseDesign`  | a NumPy array                 | C and Fortran order, float32 and float64           |
| `SparseDesign` | the arrays of a SciPy matrix  | CSR and CSC, float32 and float64, both index types |

`SelectedDesign` is some columns of another design, without a copy. Everything else is converted once, as the two
classes above say. `as_design` chooses and checks; what it returns is finite, two-dimensional and safe for the
kernels, and nobody asks its kind again.
"""

from __future__ import annotations

import scipy.sparse

from levelprox.designs.base import Design
from levelprox.designs.dense import DenseDesign
from levelprox.designs.selected import SelectedDesign
from levelprox.designs.sparse import SparseDesign

__all__ = ["DenseDesign", "Design", "SelectedDesign", "SparseDesign", "as_design"]


def as_design(X: object) -> Design:
    """Turn `X` into a design, in place wherever its layout allows.

    Parameters
    ----------
    X : Design, array-like or SciPy sparse matrix or array
        The samples in rows, the features in columns. A design is returned as it is.

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
    if scipy.sparse.issparse(X):
        return SparseDesign.from_scipy(X)
    return DenseDesign.from_array(X)
