"""Samples in memory: reading X and y, with errors that name the row, column or entry.

An estimator reads X and y once, into `Samples` (or `RemoteSamples`, `_data.py`), and prepares them: classes, weights of
classes, units. All that follows, from the objective to the certificate, is the same for both. Conversions and their
errors are those of scikit-learn; the place of the first bad entry is added here.
"""

from __future__ import annotations

import datetime
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from levelprox._typing import Rows, Vector
from levelprox._validation import as_array, finite, is_missing, is_number, real_array, rounding
from levelprox.backends import RemoteObjective
from levelprox.designs import Design, as_design, column_name, is_remote, library_of
from levelprox.driver.run_identity import Fingerprint, fingerprint
from levelprox.estimators._features import Standardization
from levelprox.estimators._parameters import Parameters, boolean
from levelprox.exceptions import InvalidInputError
from levelprox.losses import check_weights
from levelprox.objectives import Model

_ENCODING = "Encode a column of categories as numbers, such as by sklearn.preprocessing.OneHotEncoder, or leave it out"
#: By kind of a NumPy type: what it holds, and how it becomes days or seconds.
_OF_TIME = {
    "M": ("dates", "({0} - {0}.min()).dt.total_seconds() / 86400, the days since the first"),
    "m": ("durations", "{0}.dt.total_seconds()"),
    "P": ("periods", "{0}.astype('int64'), which counts periods"),
}

#: How X is read; the design says where it is not finite.
READING: dict[str, Any] = {
    "accept_sparse": ("csr", "csc"),
    "accept_large_sparse": True,
    "dtype": (np.float64, np.float32),
    "ensure_all_finite": False,
}


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples in memory, validated.

    Attributes
    ----------
    X : ndarray or sparse matrix of shape (n, d)
    y : ndarray of shape (n,)
    weight : ndarray of shape (n,), optional
    more : dict of str to array-like of shape (n,)
        Further values for each sample: offset, exposure.
    design : Design, optional
        X, where it was checked as a design already.
    """

    X: Any
    y: NDArray[Any]
    weight: Vector | None
    more: dict[str, Any]
    design: Design | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and of features."""
        n, d = self.X.shape
        return n, d

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.y.size if self.weight is None else self.weight.sum())

    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint of the data."""
        more = {name: np.asarray(values) for name, values in self.more.items()}
        return fingerprint(as_design(self.X if self.design is None else self.design), self.y, self.weight, **more)

    def part(self, rows: Rows) -> Samples:
        """Return some of the samples."""
        more = {name: np.asarray(values)[rows] for name, values in self.more.items()}
        return Samples(self.X[rows], self.y[rows], None if self.weight is None else self.weight[rows], more)

    def prepared(self, estimator: Any) -> Prepared:
        """Return the samples with known classes, weights and units; those of weight 0 are left out."""
        X, y, weight, more = self.X if self.design is None else self.design, self.y, self.weight, self.more
        if weight is not None and not np.all(weight > 0):
            rows = np.flatnonzero(weight > 0)
            more = {name: one_each(name, values, y.size)[rows] for name, values in more.items() if values is not None}
            X, y, weight = as_design(X).rows(rows), y[rows], weight[rows]
        total = None if weight is None else float(weight.sum())
        y, weight, unit, n_outputs = estimator._encode(y, weight)

        def standardization() -> Standardization:
            intercept = boolean("fit_intercept", estimator.fit_intercept)
            names = getattr(estimator, "feature_names_in_", None)
            if boolean("standardize", estimator.standardize):
                return Standardization.standardized(X, weight, intercept, n_outputs, names)
            return Standardization(X, None, None, intercept, n_outputs, names)

        return Prepared(unit, total, standardization, lambda units: estimator._objective(units, y, weight, **more))


@dataclass(frozen=True, eq=False)
class Prepared:
    """Samples of which classes, weights and units are known: what a model is made of.

    Attributes
    ----------
    unit : float
        The unit of the coefficients of standardised features.
    total : float or None
        The sum of the weights without those of classes; None where samples have none.
    standardization : callable
        Returns the center and scale of the columns.
    objective : callable
        Returns ψ of the columns with a given standardization.
    """

    unit: float
    total: float | None
    standardization: Callable[[], Standardization]
    objective: Callable[[Standardization], Model | RemoteObjective]


class InputMixin(Parameters):
    """An estimator that reads X, y and weights of samples in memory."""

    #: How scikit-learn reads y.
    _reading_of_y: dict[str, Any] = {}  # noqa: RUF012

    def _read(self, X: object, y: object, **checks: Any) -> tuple[Any, NDArray[Any]]:
        """Return X and y as scikit-learn reads them; that X is finite is not checked yet."""
        check_in_memory(X=X, y=y)
        with self._naming_the_preprocessing(X, not checks.get("reset", True)), naming_the_place(X, y):
            if checks.get("y_numeric"):
                check_numbers(y, type(self).__name__)
            data, target = validate_data(self, X, y, **READING, **checks)
        warn_of_rounding(X)
        return data, target

    def _read_samples(self, X: object, y: object, sample_weight: Any, more: dict[str, Any], **checks: Any) -> Samples:
        """Return samples, with those of `more` that are not None."""
        data, target = self._read(X, y, **self._reading_of_y, **checks)
        weight = self._weights(sample_weight, data.shape[0])
        given = {name: values for name, values in more.items() if values is not None}
        return Samples(data, target, weight, given, self._design(data))

    @contextmanager
    def _naming_the_preprocessing(self, X: object, of_the_fit: bool = True) -> Iterator[None]:
        """Let errors about columns name the preprocessing of the fit, where there was one."""
        try:
            yield
        except ValueError as error:
            made = getattr(self, "preprocessing_", None) if of_the_fit else None
            if made is None or list(getattr(X, "columns", ())) == list(made.features):
                raise
            raise InvalidInputError(
                f"{str(error).strip().rstrip('.')}. The model was fitted to columns that were prepared; give it "
                "model.preprocessing_.transform(X) instead of X"
            ) from error

    def _design(self, data: object) -> Design:
        """Return X, checked; errors name its columns."""
        try:
            return as_design(data, getattr(self, "feature_names_in_", None))
        except InvalidInputError as error:
            if "X contains" not in str(error):
                raise
            remedy = "Replace infinite values, or leave out their rows"
            if "contains NaN" in str(error):
                remedy = "Fill in missing values, such as by sklearn.impute.SimpleImputer, or leave out their rows"
            raise InvalidInputError(f"{error}. {remedy}") from None

    def check_features(self, X: object) -> Design:
        """Check that X has the features of the fit and finite entries.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Design
            X for several calls: methods of the fitted model take it in place of X, and do not check it again.
        """
        check_is_fitted(self)
        if isinstance(X, Design):  # checked before
            return X
        with self._naming_the_preprocessing(X), naming_the_place(X):
            data = validate_data(self, X, reset=False, **READING)
        return self._design(data)

    def _weights(self, sample_weight: ArrayLike | None, n: int) -> Vector | None:
        """Return the weights of n samples, checked."""
        if sample_weight is None:
            return None
        check_in_memory(sample_weight=sample_weight)
        given = as_array("sample_weight", sample_weight)
        if given.shape not in ((), (n,)):
            raise InvalidInputError(f"sample_weight must have shape ({n},), one for each sample, got {given.shape}")
        return check_weights(np.full(n, given) if given.ndim == 0 else given, n, "sample_weight")


def check_in_memory(**given: Any) -> None:
    """Raise where a value is remote that must be in memory: nothing is moved or computed implicitly."""
    for name, values in given.items():
        if is_remote(values):
            raise InvalidInputError(
                f"{name} must be in memory here, got {type(values).__name__} of {library_of(values)}"
            )


@contextmanager
def naming_the_place(X: object, y: object = None) -> Iterator[None]:
    """Add the first entry that is not a number, or not finite, to errors of conversion."""
    for name, value in (("X", X), ("y", y)):
        if isinstance(value, np.ma.MaskedArray):
            as_array(name, value)  # scikit-learn would take what is behind the mask
        _check_kind(name, value)
    _check_names(X)
    _check_no_dates("X", X)
    try:
        yield
    except (TypeError, ValueError) as error:
        of_conversion = "could not convert" in str(error) or "argument must be a string" in str(error)
        place = _in_y(y) if _is_of_y(error) else _in_table(X) if of_conversion else ""
        if "Expected 2D array, got 1D array" in str(error) and np.ndim(y) == 2:  # type: ignore[arg-type]
            raise InvalidInputError("X has one dimension and y two; are they swapped? The call is fit(X, y)") from error
        place = place or _hint(str(error), y)
        if not place:
            raise
        if "NA is ambiguous" in str(error):  # of pandas; the other words are scikit-learn's
            raise InvalidInputError(f"Input y contains NaN, {place}. Leave out samples without a label") from error
        kind = InvalidInputError if isinstance(error, ValueError) or _is_of_y(error) else TypeError
        raise kind(f"{str(error).rstrip('.')}, {place}") from error


def _check_kind(name: str, value: object) -> None:
    """Raise where X or y is none of the things that can hold numbers, and say what to do."""
    kind = type(value)
    if isinstance(value, str | bytes | os.PathLike):
        raise InvalidInputError(
            f"{name} must hold numbers, got {value!r}; read a file first, such as by levelprox.io.read_data(path)"
        )
    if isinstance(value, Mapping) and not scipy.sparse.issparse(value):  # dok matrices are dicts
        raise InvalidInputError(
            f"{name} must be an array or a table, got a {kind.__name__}; give pandas.DataFrame({name})"
        )
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        raise InvalidInputError(
            f"{name} must be an array or a table, got a list of dicts; give pandas.DataFrame({name})"
        )
    if kind.__module__.partition(".")[0] == "polars" and kind.__name__ == "LazyFrame":
        raise InvalidInputError(f"{name} is a polars LazyFrame, a query without its result; give {name}.collect()")


def _check_names(X: object) -> None:
    """Raise where two columns of a table have one name: features are named in all that is reported."""
    names = getattr(X, "columns", None)
    if names is None or callable(names):
        return
    first: dict[str, int] = {}
    for j, name in enumerate(names):
        if isinstance(name, str) and first.setdefault(name, j) != j:
            raise InvalidInputError(
                f"columns {first[name]} and {j} of X are both named {name!r}; give columns different names"
            )


def _check_no_dates(name: str, value: object) -> None:
    """Raise where a column holds dates or durations, which scikit-learn may read as nanoseconds."""
    for j, dtype in enumerate(_dtypes(value)):
        of_time = _time_words(dtype)
        if of_time is None:
            continue
        names = getattr(value, "columns", None)
        place = f"{column_name(j, names)} of {name}" if np.ndim(value) == 2 else name  # type: ignore[arg-type]
        what, remedy = of_time
        if isinstance(value, np.ndarray):
            remedy = (
                "{0} / np.timedelta64(1, 'D')" if what == "durations" else "({0} - {0}.min()) / np.timedelta64(1, 'D')"
            )
        column = name if names is None else f"{name}[{str(names[j])!r}]"
        raise InvalidInputError(
            f"{place} holds {what} (dtype {dtype}), not numbers. Convert it, such as by {remedy.format(column)}, or "
            "leave it out"
        )


def check_numbers(y: object, called: str) -> None:
    """Raise where y of a regressor holds something that is not a number; `called` is the regressor."""
    _check_no_dates("y", y)
    labels = np.asarray(y)
    if labels.dtype.kind not in "OUS" or labels.ndim > 2:
        return
    for i, entry in enumerate(labels.ravel()):
        if not (is_number(entry) or is_missing(entry)):
            classifier = called.replace("Regressor", "Classifier")
            raise InvalidInputError(
                f"y must hold numbers for {called}, got {entry.item() if hasattr(entry, 'item') else entry!r} at index "
                f"{i}. To predict classes, use {classifier}; otherwise convert y to numbers"
            )


def _dtypes(value: object) -> list[Any]:
    """Return the types of the columns of a table, or of an array; none where that is not known."""
    if isinstance(value, np.ndarray):
        return [value.dtype]
    found = getattr(value, "dtypes", getattr(value, "dtype", None))
    if found is None or callable(found):
        return []
    return list(found) if isinstance(found, Iterable) else [found]


def _time_words(dtype: Any) -> tuple[str, str] | None:
    """Return what a type of dates or durations holds, and how to convert it to numbers; None for other types."""
    temporal = getattr(dtype, "is_temporal", None)  # of polars
    text = str(dtype).lower()
    if temporal is not None and callable(temporal):
        if not temporal():
            return None
        kind = "m" if text.startswith("duration") else "" if text.startswith("time") else "M"
    else:
        kind = "P" if text.startswith("period") else getattr(dtype, "kind", "")
    return _OF_TIME.get(kind)


def warn_of_rounding(X: object) -> None:
    """Warn where X holds numbers that float64 rounds: long double, and integers beyond 2^53."""
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


def _hint(error: str, y: object) -> str:
    """Return what to add to an error of scikit-learn about shapes."""
    if "inconsistent numbers of samples" in error:
        return "of X and of y"
    if "y should be a 1d array" in error and np.ndim(y) == 2:  # type: ignore[arg-type]
        return "and a model has one target: fit one for each column of y"
    return ""


def _is_of_y(error: Exception) -> bool:
    """Return whether an error of scikit-learn is about y; it does not search X for NaN."""
    return any(words in str(error) for words in ("Input y contains", "Input contains NaN", "NA is ambiguous"))


def _in_table(X: object) -> str:
    """Return the place of the first entry of X that is not a number."""
    table = np.asarray(X, dtype=object)
    if table.ndim != 2:
        return ""
    for j, column in enumerate(table.T):
        for i, entry in enumerate(column):
            if not is_number(entry):
                place = f"at row {i}, {column_name(j, getattr(X, 'columns', None))} of X"
                if isinstance(entry, datetime.date | datetime.timedelta | datetime.time | np.datetime64):
                    raise InvalidInputError(
                        f"X holds {entry!r} {place}, and dates and times are not numbers. Convert the column, such as "
                        "to days since its first date, or leave it out"
                    )
                return f"{place}. {_ENCODING}" if isinstance(entry, str) else place
    return ""


def _in_y(y: object) -> str:
    """Return the place of the first entry of y that is not finite."""
    labels = np.asarray(y, dtype=object).ravel()
    bad = np.flatnonzero([is_missing(b) or (is_number(b) and math.isinf(float(b))) for b in labels])
    return f"at index {bad[0]} of y ({bad.size} in total)" if bad.size else ""


def one_each(name: str, values: ArrayLike, n: int) -> Vector:
    """Return one finite number for each of n samples."""
    array = np.asarray(real_array(name, values), np.float64)
    if array.shape != (n,):
        raise InvalidInputError(f"{name} must have shape ({n},), one for each sample, got {array.shape}")
    finite(name, array)
    return array
