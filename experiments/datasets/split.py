"""A data set as an experiment takes it: a training and a test part, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from experiments.datasets.errors import DataError

Double = NDArray[np.float64]

#: Test rows there may be for each training row, where only some rows are taken.
TEST_ROWS = 5


@dataclass(frozen=True)
class Source:
    """What stands behind one of the paper's names.

    Attributes
    ----------
    name : str
        The paper's.
    kind : {"original", "exact", "stand-in", "generated"}
        The file that the paper names; the same data from another source; other data of the same kind; generated data.
    label : str
        What every table and figure prints.
    note : str
        How it differs from what the paper had, in a sentence; empty where it does not.
    """

    name: str
    kind: str
    label: str
    note: str


@dataclass(frozen=True, eq=False)
class Raw:
    """Both parts as they were read: any matrix, any labels."""

    X: Any
    b: Any
    X_test: Any
    b_test: Any


@dataclass(frozen=True, eq=False)
class Split:
    """Both parts, ready for a fit without an intercept.

    Attributes
    ----------
    source : Source
    loss : {"logistic", "squared"}
        b is ±1 for the first; for the second the mean of the training targets is subtracted from all.
    X, X_test : ndarray in C order, or csr_matrix with int32 indices, float64
    b, b_test : ndarray of float64
    """

    source: Source
    loss: str
    X: Any
    b: Double
    X_test: Any
    b_test: Double


@dataclass(frozen=True)
class Form:
    """Conversion of a set, the same for every source.

    Attributes
    ----------
    loss : {"logistic", "squared"}
    dense : bool
        Whether X is an ndarray.
    standardised : bool
        Whether columns get mean 0 and deviation 1 on the training part; those that are constant there are only centred.
    """

    loss: str
    dense: bool = False
    standardised: bool = False


def shape(raw: Raw, source: Source, form: Form, rows: int | None) -> Split:
    """Return the converted parts; with `rows`, that many random training rows and five times as many test rows."""
    X, b = _some(raw.X, raw.b, rows)
    X_test, b_test = _some(raw.X_test, raw.b_test, None if rows is None else TEST_ROWS * rows)
    X, X_test = matrix(X, form.dense), matrix(X_test, form.dense)
    if form.standardised:
        X, X_test = standardised(X, X_test)
    if form.loss == "squared":
        b, b_test = b - b.mean(), b_test - b.mean()
    return Split(source, form.loss, X, b, X_test, b_test)


def matrix(X: Any, dense: bool) -> Any:
    """As levelprox, scikit-learn and skglm all take it."""
    if dense:
        return np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    compressed = scipy.sparse.csr_matrix(X, dtype=np.float64)
    compressed.sum_duplicates()
    compressed.eliminate_zeros()
    compressed.indices = compressed.indices.astype(np.int32, copy=False)
    compressed.indptr = compressed.indptr.astype(np.int32, copy=False)
    return compressed


def standardised(X: Double, X_test: Double) -> tuple[Double, Double]:
    """Columns of mean 0 and deviation 1 on the first of the two."""
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0] = 1
    return (X - mean) / deviation, (X_test - mean) / deviation


def _some(X: Any, b: Any, rows: int | None) -> tuple[Any, Double]:
    """So many random rows, in their order; all where there are no more."""
    b = np.asarray(b, dtype=np.float64)
    if rows is not None and rows < 1:
        raise DataError(f"at least one row is needed, got rows={rows}")
    if rows is None or rows >= b.size:
        return X, b
    chosen = np.sort(np.random.default_rng(0).choice(b.size, rows, replace=False))
    return X[chosen], b[chosen]
