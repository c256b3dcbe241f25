"""Columns of A, kept from one use to the next: sets of features that differ in one share all others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from levelprox.objectives import Model

Vector = NDArray[np.float64]
Features = NDArray[np.intp]

_KEPT = 2**25  # numbers


class Columns:
    """How margins change with each coordinate of a feature.

    Parameters
    ----------
    objective : Model
        ψ(x) = F(Ax + o).
    """

    def __init__(self, objective: Model) -> None:
        self.objective = objective
        self.known: dict[int, list[Vector]] = {}

    def __call__(self, features: Features) -> list[Vector]:
        """A·e for each coordinate of these features, in their order."""
        wanted = features.tolist()
        missing = [j for j in wanted if j not in self.known]
        size = self.objective.n_margins * self.objective.width**2
        if (len(self.known) + len(missing)) * size > _KEPT:
            self.known.clear()
            missing = wanted
        if missing:
            self._look_up(missing)
        return [column for j in wanted for column in self.known[j]]

    def fit_in(self, features: Features) -> bool:
        """Whether columns of so many features can be kept at all."""
        return features.size * self.objective.n_margins * self.objective.width**2 <= _KEPT

    def _look_up(self, missing: list[int]) -> None:
        part, width = self.objective.restrict(np.array(missing, np.intp)), self.objective.width
        units = np.eye(part.dimension)
        for place, j in enumerate(missing):
            self.known[j] = [part.moved(unit) for unit in units[place * width : (place + 1) * width]]
