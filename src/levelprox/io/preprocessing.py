"""Columns of a table as features: text is one-hot encoded and missing values are filled in, as learnt in a fit.

The categories and the fill value of each column are plain data, which a model file can hold. A category that the fit
has not seen is encoded as zeros, with a warning.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from levelprox.exceptions import InvalidInputError

Impute = Literal["median", "mean", "most-frequent"]
IMPUTES: tuple[Impute, ...] = ("median", "mean", "most-frequent")
_SHOWN = 5  # names in a message
_WHOLE = 2.0**53  # up to which float64 has all whole numbers


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes
    ----------
    name : str
    categories : tuple of str, optional
        Categories of a one-hot column, in order; None for numbers.
    fill : float or str, optional
        Replacement of a missing value; None if missing values are errors.
    """

    name: str
    categories: tuple[str, ...] | None = None
    fill: float | str | None = None

    @property
    def encoded(self) -> tuple[str, ...]:
        """Categories with a feature each: all of three or more, the second of two, none of one."""
        categories = self.categories or ()
        return categories if len(categories) > 2 else categories[1:]

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features of this column."""
        if self.categories is None:
            return (self.name,)
        return tuple(f"{self.name}={category}" for category in self.encoded)


@dataclass(frozen=True)
class Preprocessing:
    """How the columns of a table become features.

    Attributes
    ----------
    columns : tuple of Column
    impute : {"median", "mean", "most-frequent"}, optional
        Replacement of missing numbers; missing text is replaced by the most frequent category.
    wanted : tuple of str, optional
        The features that `transform` returns; all by default.
    """

    columns: tuple[Column, ...]
    impute: Impute | None = None
    wanted: tuple[str, ...] | None = None

    @classmethod
    def learn(cls, frame: Any, names: Sequence[str], categorical: Iterable[str], impute: Impute | None) -> Self:
        """Learn categories and fill values from the data of a fit; all rows have the same weight.

        Parameters
        ----------
        frame : pandas or polars DataFrame
        names : sequence of str
            Columns of the features.
        categorical : iterable of str
            The one-hot columns among them.
        impute : {"median", "mean", "most-frequent"}, optional
        """
        one_hot = set(categorical)
        found = cls(tuple(_learnt(frame, name, name in one_hot, impute) for name in names), impute)
        counts = Counter(found.features)
        twice = next((name for name, count in counts.items() if count > 1), None)
        if twice is not None:
            raise InvalidInputError(f"two features would be called {twice!r}; rename a column")
        if not counts:
            raise InvalidInputError("every column has one category only: no feature is left to learn from")
        return found

    @property
    def features(self) -> tuple[str, ...]:
        """The features, in the order of the columns."""
        every = tuple(name for column in self.columns for name in column.features)
        return every if self.wanted is None else tuple(name for name in every if name in set(self.wanted))

    @property
    def names(self) -> list[str]:
        """The columns of the table."""
        return [column.name for column in self.columns]

    @property
    def categorical(self) -> list[str]:
        """The one-hot columns."""
        return [column.name for column in self.columns if column.categories is not None]

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The features of each one-hot column."""
        return {column.name: column.features for column in self.columns if column.categories is not None}

    def restricted(self, features: Iterable[str]) -> Preprocessing:
        """Return the preprocessing of some features; columns without any of them are not needed."""
        wanted = tuple(features)
        known = set(wanted)
        columns = tuple(column for column in self.columns if known.intersection(column.features))
        return Preprocessing(columns, self.impute, wanted)

    def transform(self, X: Any) -> Any:
        """Return the features of a table.

        Parameters
        ----------
        X : pandas or polars DataFrame
            With the raw columns of the fit; other columns are ignored.

        Returns
        -------
        DataFrame of the same library
            One column of float64 for each feature.

        Raises
        ------
        InvalidInputError
            If a column does not exist, has another type than in the fit, or has a missing value without a fill value.
        """
        kind = type(X).__module__.partition(".")[0]
        if kind not in ("pandas", "polars") or not hasattr(X, "columns"):
            raise InvalidInputError(f"X must be a pandas or polars DataFrame, got {type(X).__name__}")
        missing = [name for name in self.names if name not in X.columns]
        if missing:
            raise InvalidInputError(f"the table has no column {_listed(missing)}")
        wanted = set(self.features)
        made: dict[str, NDArray[np.float64]] = {}
        for column in self.columns:
            made |= {name: values for name, values in _made(column, X[column.name]).items() if name in wanted}
        return type(X)(made, index=X.index) if kind == "pandas" else type(X)(made)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        columns = []
        for column in self.columns:
            entry: dict[str, Any] = {"name": column.name}
            if column.categories is not None:
                entry["categories"] = list(column.categories)
            if column.fill is not None:
                entry["fill"] = column.fill
            columns.append(entry)
        return {"columns": columns, "impute": self.impute}

    @classmethod
    def of_dict(cls, entry: Any) -> Self:
        """Return the preprocessing from the result of `as_dict`; invalid data are a ValueError."""
        match entry:
            case {"columns": list(columns), "impute": impute, **rest} if not rest and impute in (None, *IMPUTES):
                found = cls(tuple(_of_dict(one) for one in columns), impute)
            case _:
                raise ValueError("columns and impute are required")
        for every in (found.names, found.features):
            if len(set(every)) != len(every):
                raise ValueError("a name is there twice")
        return found


def texts(values: Any) -> list[str | None]:
    """Return categories as text without surrounding blanks; None if missing. Whole numbers have no decimal point."""
    array = np.asarray(values)
    if array.dtype.kind not in "biufOUST":
        array = array.astype(object)
    return [_text(value) for value in array.tolist()]


def _text(value: Any) -> str | None:
    if value is None or _is_nan(value):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value == math.floor(value) and abs(value) < _WHOLE else repr(value)
    return str(value).strip() or None


def _is_nan(value: Any) -> bool:
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas.NA is neither equal to itself nor not
        return True


def _numbers(name: str, values: Any) -> NDArray[np.float64]:
    """Return numbers; NaN if missing."""
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        found = array.astype(np.float64)
    else:
        found = np.empty(array.size)
        for i, value in enumerate(array.tolist()):
            if value is None or _is_nan(value):
                found[i] = math.nan
            elif isinstance(value, bool | int | float):
                found[i] = value
            else:
                raise InvalidInputError(
                    f"column {name!r} holds {str(value)[:40]!r} at row {i}, and numbers are expected"
                )
    if np.any(np.isinf(found)):
        raise InvalidInputError(f"column {name!r} is infinite at row {int(np.argmax(np.isinf(found)))}")
    return found


def _learnt(frame: Any, name: str, is_categorical: bool, impute: Impute | None) -> Column:
    values = frame[name]
    if is_categorical:
        counts = Counter(text for text in texts(values) if text is not None)
        if not counts:
            raise InvalidInputError(f"column {name!r} is missing in every row: drop it")
        categories = tuple(sorted(counts))
        fill = None if impute is None else max(categories, key=lambda one: counts[one])
        return Column(name, categories, fill)
    if impute is None:
        return Column(name)
    numbers = _numbers(name, values)
    there = numbers[~np.isnan(numbers)]
    if not there.size:
        raise InvalidInputError(f"column {name!r} is missing in every row: drop it")
    return Column(name, None, _central(there, impute))


def _central(numbers: NDArray[np.float64], impute: Impute) -> float:
    if impute == "most-frequent":
        values, counts = np.unique(numbers, return_counts=True)
        return float(values[np.argmax(counts)])
    size = float(np.max(np.abs(numbers))) or 1.0  # sums stay in range
    scaled = numbers / size
    return float((np.median(scaled) if impute == "median" else np.mean(scaled)) * size)


def _made(column: Column, values: Any) -> dict[str, NDArray[np.float64]]:
    """Return the features of one column and their values."""
    if column.categories is None:
        numbers = _numbers(column.name, values)
        return {column.name: np.where(np.isnan(numbers), _filling(column, np.isnan(numbers)), numbers)}
    found = texts(values)
    if None in found:
        fill = _filling(column, np.array([text is None for text in found]))
        found = [fill if text is None else text for text in found]
    new = [str(text) for text in dict.fromkeys(found) if text not in column.categories]
    if new:
        are = f"{len(new)} categories" if len(new) > 1 else "the category"
        warnings.warn(
            f"column {column.name!r} has {are} {_listed(new)}, which the fit has not seen: its features are 0 there",
            UserWarning,
            stacklevel=3,
        )
    array = np.array(found, object)
    return {
        name: np.asarray(array == category, np.float64)
        for name, category in zip(column.features, column.encoded, strict=True)
    }


def _filling(column: Column, missing: NDArray[np.bool_]) -> Any:
    """Return the fill value; missing values without one are an error."""
    if column.fill is None and np.any(missing):
        raise InvalidInputError(
            f"column {column.name!r} is missing at row {int(np.argmax(missing))} ({int(missing.sum())} in this "
            "column), and the fit had no value for that: fill in or remove such rows"
        )
    return math.nan if column.fill is None else column.fill


def _of_dict(entry: Any) -> Column:
    if not (
        isinstance(entry, dict)
        and entry.keys() <= {"name", "categories", "fill"}
        and isinstance(entry.get("name"), str)
    ):
        raise ValueError("a column has a name, and perhaps categories and a fill value")
    categories, fill = entry.get("categories"), entry.get("fill")
    if categories is None:
        if not (fill is None or (isinstance(fill, int | float) and not isinstance(fill, bool) and math.isfinite(fill))):
            raise ValueError(f"the fill value of {entry['name']!r:.60} is no number")
        return Column(entry["name"], None, None if fill is None else float(fill))
    if not (isinstance(categories, list) and categories and all(map(_is_word, categories))):
        raise ValueError(f"the categories of {entry['name']!r:.60} are no words")
    if len(set(categories)) != len(categories) or fill not in (None, *categories):
        raise ValueError(f"the categories of {entry['name']!r:.60} are not each there once, with the fill value")
    return Column(entry["name"], tuple(categories), cast("str | None", fill))


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
