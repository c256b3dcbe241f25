"""What a user brings as X and y: what is refused, and the row, column or entry that an error is about.

Conversions are scikit-learn's, and so are its errors; here they learn where the culprit is.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse

from levelprox.designs.base import column_name, rounding
from levelprox.errors import InvalidInputError
from levelprox.objectives.survey import is_missing
from levelprox.validation import as_array, is_number

#: How X is read; the design says where it is not finite.
READING: dict[str, Any] = {
    "accept_sparse": ("csr", "csc"),
    "accept_large_sparse": True,
    "dtype": (np.float64, np.float32),
    "ensure_all_finite": False,
}


@contextmanager
def naming_the_place(X: object, y: object = None) -> Iterator[None]:
    """Errors of conversion, with the first entry that is not a number, or not finite."""
    for name, value in (("X", X), ("y", y)):
        if isinstance(value, np.ma.MaskedArray):
            as_array(name, value)  # scikit-learn would take what is behind the mask
    try:
        yield
    except (TypeError, ValueError) as error:
        place = _in_y(y) if _is_of_y(error) else _in_table(X) if _is_of_conversion(error) else ""
        if not place:
            raise
        kind = InvalidInputError if isinstance(error, ValueError) or _is_of_y(error) else TypeError
        raise kind(f"{str(error).rstrip('.')}, {place}") from error


def warn_of_rounding(X: object) -> None:
    """Say so where X holds numbers that float64 rounds: long double, and integers beyond 2^53."""
    values: list[Any]
    if scipy.sparse.issparse(X) or isinstance(X, np.ndarray):
        values = [np.asarray(getattr(X, "data", None)) if scipy.sparse.issparse(X) else X]
    elif hasattr(X, "dtypes"):  # a frame, by columns: of all together it would have to make a copy
        values = [np.asarray(column) for _, column in X.items()] if hasattr(X, "items") else []
    else:
        values = [np.asarray(X)] if isinstance(X, list | tuple) and np.ndim(X[:1]) == 2 else []
    message = next(filter(None, map(rounding, values)), None)
    if message is not None:
        warnings.warn(message, UserWarning, stacklevel=4)


def _is_of_y(error: Exception) -> bool:
    """X is not searched for NaN by scikit-learn, but here."""
    return any(words in str(error) for words in ("Input y contains", "Input contains NaN", "NA is ambiguous"))


def _is_of_conversion(error: Exception) -> bool:
    return "could not convert" in str(error) or "argument must be a string" in str(error)


def _in_table(X: object) -> str:
    """Where X first has something that is not a number."""
    table = np.asarray(X, dtype=object)
    if table.ndim != 2:
        return ""
    for j, column in enumerate(table.T):
        for i, entry in enumerate(column):
            if not is_number(entry):
                return f"at row {i}, {column_name(j, getattr(X, 'columns', None))} of X"
    return ""


def _in_y(y: object) -> str:
    """Where y first is not finite."""
    labels = np.asarray(y, dtype=object).ravel()
    bad = np.flatnonzero([is_missing(b) or (is_number(b) and math.isinf(float(b))) for b in labels])
    return f"at index {bad[0]} of y ({bad.size} in total)" if bad.size else ""
