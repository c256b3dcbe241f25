"""Columns of X: their names, costs and units."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import FloatArray, Mask, Names, Vector
from levelprox._validation import as_array, finite, real, real_array
from levelprox.constraints.costs import checked_costs
from levelprox.designs import Design, RunningMoments, ScaledDesign, SparseDesign, as_design, column_name
from levelprox.designs.moments import moments_of
from levelprox.exceptions import InvalidInputError, NumericalError
from levelprox.projection import products_above

_SMALLEST = 2.0**-1022  # of a deviation: the inverse is a number, too
_CENTRED_STORED_SHARE = 0.5  # of the entries of a sparse column, beyond which it is centred
_LARGEST = 2.0**1000  # of a deviation: sums over the column are numbers, too
_SQUARES = 2.0**-960  # of a sum of squares: its products with weights and tolerances are numbers, too


@dataclass(frozen=True, eq=False)
class FeatureNames:
    """The features of X: what a parameter gives for some of them becomes an array over all of them.

    Parameters name features by column, by index or by a mask, and numbers by a dict: `keep=["age", "sex"]`,
    `feature_weight={"age": 0}`. Errors name the parameter, with the nearest name of a column.

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
        """Return the features of an estimator that has read X."""
        return cls(count, getattr(model, "feature_names_in_", None))

    def mask(self, parameter: str, given: Any) -> Mask:
        """Return a mask of features.

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
        """Return one finite number for each feature.

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
        """Return the index of one feature, given by name or index."""
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
        """Return the name of a feature in messages: that of its column, or its index."""
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
        hint = (
            f"did you mean {(same or near)[0]!r}?" if same or near else f"there are {_listed(self.names.tolist(), 8)}"
        )
        raise InvalidInputError(f"{parameter} has the name {name!r}, which is not a column of X; {hint}")


def by_name(given: Any) -> dict[Any, Any] | None:
    """Return a dict where values have names: of a mapping, or of a Series with strings as its index; else None."""
    if isinstance(given, Mapping):
        return dict(given)
    if hasattr(given, "to_dict") and hasattr(given, "index") and any(isinstance(name, str) for name in given.index):
        return dict(given.to_dict())
    return None


def costs_of(given: Any, d: int, names: Sequence[str] | None, kept: Iterable[int]) -> Vector:
    """Return one cost for each of d columns.

    Parameters
    ----------
    given : array-like of shape (d,), dict or Series
        By name, every feature must have a cost but those that are kept, which cost nothing.
    d : int
    names : sequence of str, optional
        Of the columns; x0, x1 and so on where they have none.
    kept : iterable of int
    """
    costs_by_name = by_name(given)
    if costs_by_name is None:
        costs = checked_costs(given)
        if costs.shape != (d,):
            raise InvalidInputError(f"feature_cost must have shape ({d},), one for each feature, got {costs.shape}")
        return np.array(costs)
    places = {str(name): j for j, name in enumerate([f"x{j}" for j in range(d)] if names is None else names)}
    unknown = [name for name in costs_by_name if name not in places]
    if unknown:
        near = get_close_matches(str(unknown[0]), places, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidInputError(f"feature_cost names {_listed(unknown)}, and X has no such feature{hint}")
    known = np.zeros(d, np.bool_)
    known[list(kept)] = True
    known[[places[name] for name in costs_by_name]] = True
    if not np.all(known):
        missing = [name for name, j in places.items() if not known[j]]
        raise InvalidInputError(
            f"feature_cost has no cost for {_listed(missing)}; give one for every feature, 0 for those that are free"
        )
    costs = np.zeros(d)
    for name, cost in costs_by_name.items():
        number = real(f"feature_cost[{name!r}]", cost)
        if not 0 <= number < np.inf:
            raise InvalidInputError(f"feature_cost must be finite and not negative, got {cost!r} for {name!r}")
        costs[places[name]] = number
    return costs


def _listed(names: Sequence[object], most: int = 5) -> str:
    """Return the first names of a list, and how many more there are."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


class Standardization:
    """Conversion between X, coef_, intercept_ and A, x: the only place where coefficients change their units.

        A = (X − 1c') diag(1/s),      scale_ = s,      x = (s ∘ coef, intercept + ⟨c, coef⟩)

    The constraint, its feasibility and every certificate are about x, that is about scale_ · coef_.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
    center, scale : ndarray of shape (d,), optional
        c and s; None leaves X as it is.
    fit_intercept : bool
        Whether x ends with an intercept.
    n_outputs : int
        How many coefficients a feature has.
    names : sequence of str, optional
        What errors call the columns.
    """

    def __init__(
        self,
        X: object,
        center: Vector | None,
        scale: Vector | None,
        fit_intercept: bool,
        n_outputs: int = 1,
        names: Names | None = None,
    ) -> None:
        self.base = base = as_design(X)
        self.names = names
        if scale is None:
            _check_range(base, names)
        self.design: Design = base if center is None and scale is None else ScaledDesign(base, center, scale)
        self.dtype = base.dtype
        self.center, self.fit_intercept, self.n_outputs = center, fit_intercept, n_outputs
        self.scale = np.ones(base.shape[1]) if scale is None else np.asarray(scale, np.float64)

    @classmethod
    def standardized(
        cls, X: object, weight: Vector | None, fit_intercept: bool, n_outputs: int = 1, names: Names | None = None
    ) -> Standardization:
        """Return the conversion to columns of deviation 1 about their mean; about zero, where there is no intercept.

        With an intercept, columns of a sparse X that are mostly zero are scaled, not centred: the answer is the same.
        """
        base = as_design(X)
        with np.errstate(over="ignore", invalid="ignore"):
            moments = moments_of(base, None if weight is None else weight / weight.max())
            center, scale = (moments.mean, moments.scale) if fit_intercept else (None, moments.magnitude)
        if center is not None and isinstance(base, SparseDesign):
            # The intercept has the same effect as centring, and these columns stay sparse in every refit.
            center = np.where(base.stored_shares() > _CENTRED_STORED_SHARE, center, 0.0)
            center = center if np.any(center) else None
        return cls(base, center, _usable(scale, names), fit_intercept, n_outputs, names)

    def deviations(self, weight: Vector | None) -> Vector:
        """Return deviations of the columns of X, about zero where there is no intercept; 1 for constant ones."""
        moments = moments_of(self.base, weight)
        return moments.scale if self.fit_intercept else moments.magnitude

    @classmethod
    def of_moments(
        cls,
        dtype: np.dtype[Any],
        d: int,
        moments: RunningMoments | None,
        fit_intercept: bool,
        n_outputs: int = 1,
        names: Names | None = None,
    ) -> Standardization:
        """Return the same for remote X, by the moments of its columns; without these X is left as it is."""
        found = cls.__new__(cls)
        found.dtype, found.fit_intercept, found.n_outputs, found.names = dtype, fit_intercept, n_outputs, names
        found.center, found.scale = None, np.ones(d)
        if moments is not None:
            found.center = moments.mean if fit_intercept else None
            found.scale = _usable(moments.scale if fit_intercept else moments.magnitude, names)
        return found

    def inside(self, coef: FloatArray, intercept: FloatArray) -> Vector:
        """Return x of coefficients of shape (n_outputs, d) or (d,) and intercepts of shape (n_outputs,) or ()."""
        coef64: Vector = np.atleast_2d(coef).astype(np.float64)
        last: Vector = np.atleast_1d(intercept).astype(np.float64)
        rows = (coef64 * self.scale).T
        if not self.fit_intercept:
            return np.ascontiguousarray(rows).ravel()
        if self.center is not None:
            last = last + coef64 @ self.center
        return np.vstack([rows, last]).ravel()

    def outside(self, x: Vector, dtype: np.dtype[Any] | None = None) -> tuple[FloatArray, FloatArray]:
        """Return coefficients of shape (n_outputs, d), in the precision of X or another, and as many intercepts.

        |scale_ · coef_| ≤ |x| holds in exact arithmetic, so that they satisfy the same constraints as x.
        """
        dtype = self.dtype if dtype is None else dtype
        rows = x.reshape(-1, self.n_outputs)
        inner = rows[: self.scale.size].T
        with np.errstate(over="ignore", under="ignore"):
            coef = (inner / self.scale).astype(dtype)
        self._check_coefficients(coef)
        used = np.nonzero(coef)
        found, scale, largest = coef[used], self.scale[used[1]], np.abs(inner[used])
        for _ in range(3):  # divisions, products and float32 round by at most an ulp each
            beyond = products_above(np.abs(found).astype(np.float64), scale) > largest
            found[beyond] = np.nextafter(found[beyond], np.zeros(1, dtype))
        coef[used] = found
        coef += 0.0  # no −0.0
        return coef, self._intercepts(rows, coef)

    def _check_coefficients(self, coef: FloatArray) -> None:
        if not np.all(np.isfinite(coef)):
            j = int(np.argmax(~np.isfinite(coef).all(axis=0)))
            raise NumericalError(
                f"the coefficient of {column_name(j, self.names)} of X is beyond the range of {coef.dtype}: the column "
                f"varies by {self.scale[j]:.3g} only; multiply it by a larger unit"
            )

    def _intercepts(self, rows: Vector, coef: NDArray[Any]) -> FloatArray:
        if not self.fit_intercept:
            return np.zeros(self.n_outputs, coef.dtype)
        last = rows[-1]
        if self.center is not None:
            used = np.flatnonzero(np.any(coef, axis=0))
            last = last - np.asarray(coef[:, used], np.float64) @ self.center[used]
        return np.asarray(last, coef.dtype) + np.zeros(1, coef.dtype)


def _usable(scale: Vector, names: Names | None = None) -> Vector:
    """Return deviations that columns can be divided by: 1 for those that vary too little to have a coefficient."""
    if not np.all(scale < _LARGEST):
        j = int(np.argmax(~(scale < _LARGEST)))
        raise InvalidInputError(
            f"the deviation of {column_name(j, names)} of X overflows; divide the column by a larger unit"
        )
    small = np.flatnonzero(scale < _SMALLEST)
    if small.size:
        j = int(small[0])
        columns = "1 such column" if small.size == 1 else f"{small.size} such columns"
        warnings.warn(
            f"{column_name(j, names)} of X varies by {scale[j]:.3g} only ({columns} in total), and float64 has no "
            "coefficients for that: it is taken as constant. Multiply it by a larger unit",
            UserWarning,
            stacklevel=2,
        )
    return np.where(scale < _SMALLEST, 1.0, scale)


def _check_range(design: Design, names: Names | None = None) -> None:
    """Raise where the sum of the squares of a column that is not zero is beyond float64."""
    squares = design.column_squares()
    if not np.all(np.isfinite(squares)):
        j = int(np.argmax(~np.isfinite(squares)))
        raise InvalidInputError(
            f"the norm of {column_name(j, names)} of X overflows; scale the columns, or set standardize=True"
        )
    small = np.flatnonzero(squares < _SQUARES)
    size = design.columns(small).column_magnitudes() if small.size else squares[:0]
    if np.any(size > 0):
        j = int(np.argmax(size > 0))
        raise InvalidInputError(
            f"{column_name(int(small[j]), names)} of X has entries of at most {size[j]:.3g}, whose squares vanish; "
            "scale the columns, or set standardize=True"
        )
