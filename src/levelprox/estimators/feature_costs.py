"""Costs of features as estimators are given them: for each column, or by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox._validation import real
from levelprox.constraints.costs import checked_costs
from levelprox.exceptions import InvalidInputError

Vector = NDArray[np.float64]
_SHOWN = 5  # names in an error


def by_name(given: Any) -> dict[Any, Any] | None:
    """`given` as a dict where it has names: a mapping, or a Series with words as its index; else None."""
    if isinstance(given, Mapping):
        return dict(given)
    if hasattr(given, "to_dict") and hasattr(given, "index") and any(isinstance(name, str) for name in given.index):
        return dict(given.to_dict())
    return None


def costs_of(given: Any, d: int, names: Sequence[str] | None, kept: Iterable[int]) -> Vector:
    """One cost for each of d columns.

    Parameters
    ----------
    given : array-like of shape (d,), dict or Series
        By name, every feature must have a cost but those that are kept, which cost nothing.
    d : int
    names : sequence of str, optional
        Of the columns; x0, x1 and so on where they have none.
    kept : iterable of int
    """
    told = by_name(given)
    if told is None:
        costs = checked_costs(given)
        if costs.shape != (d,):
            raise InvalidInputError(f"feature_cost must have shape ({d},), one for each feature, got {costs.shape}")
        return np.array(costs)
    places = {str(name): j for j, name in enumerate([f"x{j}" for j in range(d)] if names is None else names)}
    unknown = [name for name in told if name not in places]
    if unknown:
        near = get_close_matches(str(unknown[0]), places, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidInputError(f"feature_cost names {_listed(unknown)}, and X has no such feature{hint}")
    known = np.zeros(d, np.bool_)
    known[list(kept)] = True
    known[[places[name] for name in told]] = True
    if not np.all(known):
        missing = [name for name, j in places.items() if not known[j]]
        raise InvalidInputError(
            f"feature_cost has no cost for {_listed(missing)}; give one for every feature, 0 for those that are free"
        )
    costs = np.zeros(d)
    for name, cost in told.items():
        number = real(f"feature_cost[{name!r}]", cost)
        if not 0 <= number < np.inf:
            raise InvalidInputError(f"feature_cost must be finite and not negative, got {cost!r} for {name!r}")
        costs[places[name]] = number
    return costs


def _listed(names: Sequence[object]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
