"""Features by name: what a user gives for some of them, as an array over all of them.

Wherever a parameter speaks of features it may use their names (columns of X), their indices or a mask, and a dict for
numbers: `keep=["age", "sex"]`, `feature_weight={"age": 0}`. `FeatureNames` turns these into arrays. Errors name the
parameter and what it holds, with the nearest name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox._validation import as_array, finite, real, real_array
from levelprox.exceptions import InvalidInputError

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class FeatureNames:
    """The features of X.

    Attributes
    ----------
    count : int
        How many there are.
    names : ndarray of str of shape (count,), optional
        What they are called, where X has names.
    """

    count: int
    names: NDArray[Any] | None = None

    @classmethod
    def of(cls, model: Any, count: int) -> FeatureNames:
        """Those of an estimator that has seen X."""
        return cls(count, getattr(model, "feature_names_in_", None))

    def mask(self, parameter: str, given: Any) -> Mask:
        """Which features are meant.

        Parameters
        ----------
        parameter : str
            What errors call it.
        given : str, int, or array-like of str, int or bool
            One feature, or several, by name or index; or a mask of all of them.
        """
        mask = np.zeros(self.count, np.bool_)
        values = [given] if isinstance(given, str | int | np.integer) and not isinstance(given, bool) else given
        if isinstance(values, Mapping) or not isinstance(values, Iterable):
            raise InvalidInputError(
                f"{parameter} must be a list of features, by name or index, or a mask of all {self.count}, got "
                f"{given!r}"
            )
        array = as_array(parameter, values) if isinstance(values, np.ndarray) else np.array(list(values), dtype=object)
        if array.ndim != 1:
            raise InvalidInputError(f"{parameter} must have one dimension, got shape {array.shape}")
        entries = array.tolist()
        if entries and all(isinstance(one, bool) for one in entries):
            if len(entries) != self.count:
                raise InvalidInputError(
                    f"{parameter} is a mask of {len(entries)} features, and X has {self.count} of them"
                )
            return np.array(entries, np.bool_)
        mask[[self.place(parameter, one) for one in entries]] = True
        return mask

    def values(self, parameter: str, given: Any, default: float = 1.0) -> Vector:
        """One finite number for each feature.

        Parameters
        ----------
        parameter : str
            What errors call it.
        given : dict of str or int to float, or array-like of shape (count,)
            Of some features, by name or index; or of all of them.
        default : float, default=1.0
            For features that a dict does not have.
        """
        if isinstance(given, Mapping):
            values = np.full(self.count, default)
            for key, value in given.items():
                values[self.place(parameter, key)] = real(f"{parameter}[{key!r}]", value)
        else:
            values = np.array(real_array(parameter, given), np.float64)
            if values.shape != (self.count,):
                raise InvalidInputError(
                    f"{parameter} must have shape ({self.count},), one for each feature, got {values.shape}; of some "
                    "features give a dict"
                )
        finite(parameter, values)
        return values

    def place(self, parameter: str, key: Any) -> int:
        """The index of one feature, by name or index."""
        if isinstance(key, str):
            return self._named(parameter, key)
        if isinstance(key, bool | np.bool_) or not isinstance(key, int | np.integer):
            raise InvalidInputError(f"{parameter} must hold names or indices of features, got {key!r}")
        if not 0 <= key < self.count:
            raise InvalidInputError(
                f"{parameter} has the feature {int(key)}, and indices are from 0 to {self.count - 1}"
            )
        return int(key)

    def called(self, j: int) -> str:
        """What a message calls a feature: its name, or its index."""
        return f"feature {j}" if self.names is None else repr(str(self.names[j]))

    def _named(self, parameter: str, name: str) -> int:
        if self.names is None:
            raise InvalidInputError(
                f"{parameter} has the name {name!r}, and X has no names of columns: give a DataFrame, or indices. "
                "Behind other steps of a pipeline, pipeline.set_output(transform='pandas') keeps the names"
            )
        found = np.flatnonzero(self.names == name)
        if found.size:
            return int(found[0])
        near = get_close_matches(name, [str(one) for one in self.names], n=1, cutoff=0.5)
        same = [str(one) for one in self.names if str(one).lower() == name.lower()]
        hint = f"did you mean {(same or near)[0]!r}?" if same or near else f"there are {_some(self.names)}"
        raise InvalidInputError(f"{parameter} has the name {name!r}, which is no column of X; {hint}")


def _some(names: NDArray[Any]) -> str:
    """The first few names."""
    shown = ", ".join(repr(str(name)) for name in names[:8])
    return shown if names.size <= 8 else f"{shown} and {names.size - 8} more"
