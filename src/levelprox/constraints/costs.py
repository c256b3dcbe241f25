"""Costs of whole features under a budget: Σ cost_j over the features of a set is at most the budget, exactly.

Costs and budget are taken as the float64 numbers they are, and sums are exact: 0.1 + 0.2 is more than 0.3, as
the number nearest to 0.1 plus that nearest to 0.2 is more than that nearest to 0.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._typing import Features, Vector
from levelprox._validation import finite, real, real_array
from levelprox.exceptions import InvalidInputError

_UNIT = 2**1074  # every float64 is a whole multiple of 1 / _UNIT


@dataclass(frozen=True, eq=False)
class Costs:
    """What features cost, and the budget for all of them.

    Attributes
    ----------
    cost : ndarray of shape (n_features,)
        What each feature costs; 0 for those that are in every fit.
    budget : float
        What the features of a set may cost together.
    """

    cost: Vector
    budget: float
    _units: dict[int, int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, cost: ArrayLike, budget: object, n_features: int, own: Features, kept: Features) -> Costs:
        """Check costs and a budget.

        Parameters
        ----------
        cost : array-like
            One for each feature; entries for the features of `own` may be left out.
        budget : float
        n_features : int
        own : ndarray of int
            Features that are the model's own: its intercept.
        kept : ndarray of int
            All features that are in every fit, those of `own` included: they cost nothing.
        """
        given = np.array(checked_costs(cost))
        if given.shape == (n_features - own.size,):
            given = np.insert(given, own - np.arange(own.size), 0.0)
        if given.shape != (n_features,):
            raise InvalidInputError(
                f"feature_cost must have shape ({n_features - own.size},), one for each feature, got {np.shape(cost)}"
            )
        given[kept] = 0.0
        return cls(given, checked_budget(budget))

    def spent(self, features: Iterable[int]) -> float:
        """Return the exact cost of a set, rounded to the nearest float64; above the budget if the exact sum is."""
        units = self._sum(features)
        try:
            nearest = units / _UNIT
        except OverflowError:
            return math.inf
        return nearest if units <= self._exact(self.budget) else max(nearest, math.nextafter(self.budget, math.inf))

    def allows(self, features: Iterable[int]) -> bool:
        """Return whether the exact sum of the costs of a set is at most the budget."""
        return self._sum(features) <= self._exact(self.budget)

    def room(self, features: Iterable[int]) -> float:
        """Return what is left of the budget besides a set: a cost fits in just where it is at most this number."""
        left = self._exact(self.budget) - self._sum(features)
        if left < 0:
            return -math.inf
        nearest = left / _UNIT
        return nearest if self._exact(nearest) <= left else math.nextafter(nearest, -math.inf)

    def affordable(self, features: Features) -> NDArray[np.bool_]:
        """Return which features the budget allows besides a set."""
        mask: NDArray[np.bool_] = self.cost <= self.room(features.tolist())
        mask[features] = False
        return mask

    def count_swaps(self, features: Features, counted: Features) -> int:
        """Return how many swaps of one of the counted features of a set for another outside it are allowed."""
        outside, inside = np.delete(self.cost, features), set(features.tolist())
        return sum(int(np.count_nonzero(outside <= self.room(inside - {i}))) for i in counted.tolist())

    def _sum(self, features: Iterable[int]) -> int:
        units = self._units
        total = 0
        for j in features:
            one = units.get(j)
            if one is None:
                one = units[j] = self._exact(float(self.cost[j]))
            total += one
        return total

    @staticmethod
    def _exact(value: float) -> int:
        """Return a finite number in units of 1 / _UNIT."""
        numerator, denominator = value.as_integer_ratio()
        return numerator * (_UNIT // denominator)


def checked_costs(cost: object) -> Vector:
    """Return `cost` as a float64 array of nonnegative finite numbers."""
    given = np.asarray(finite("feature_cost", real_array("feature_cost", cost)), np.float64)
    if given.ndim != 1:
        raise InvalidInputError(f"feature_cost must be a list of numbers, got shape {given.shape}")
    if np.any(given < 0):
        j = int(np.argmax(given < 0))
        raise InvalidInputError(f"feature_cost must not be negative, got {given[j]:g} at index {j}")
    return given


def checked_budget(budget: object) -> float:
    """Return `budget` as a nonnegative finite float."""
    number = real("budget", budget)
    if not 0 <= number < math.inf:
        raise InvalidInputError(f"budget must be at least 0 and finite, got {budget!r}")
    return number
