"""What each feature of a fitted model contributes, computed from data: by refits without it, and with others instead.

All refits are of the model's problem without its level, over a few features. They are compared with the refit over the
model's own features, which for a model of at most k features is the model itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from levelprox._runtime.deadline import seconds_left
from levelprox.estimators.recomputed import RecomputedFit, subset_problem
from levelprox.estimators.task import SUBSET_TOLERANCE, Task
from levelprox.objectives import Model
from levelprox.subset.fit import Fit
from levelprox.subset.near_swaps import NearSwaps, near_swaps, near_swaps_with_kinks
from levelprox.subset.nonsmooth_sets import ExactFit, ExactRefits
from levelprox.subset.smooth_search import SmoothSearch

Features = NDArray[np.intp]

_WORK, _OVERHEAD = 2 * 10**9, 10**5  # of all refits, in n (k + 1)² multiplications, and of one besides
_KINKED = 10  # times as much work as without kinks
_FEWEST = 50
_CHECKED = 1e-6  # of the loss without features: what a refit that is known to be optimal may leave


@dataclass(frozen=True)
class Refit:
    """The loss refitted over a set of features.

    Attributes
    ----------
    psi : float
    checked : bool
        Whether it is known to be the least, up to 1e-6 of the loss without features; never where ψ is not convex.
    """

    psi: float
    checked: bool


class Contributions(RecomputedFit):
    """Refits of a fitted model's problem.

    Parameters
    ----------
    model : fitted estimator
    task : Task
        Of the data and the model's own scale.

    Attributes
    ----------
    own : ndarray of int
        The model's features, with those that are always in it and the intercept.
    counted : ndarray of int
        The model's features that count.
    base : Refit
        The loss refitted over `own`.
    null_loss : float
        The loss of the features that are always in the model, and the intercept.
    scale : float
        The loss of `base` above its least possible value.
    """

    def __init__(self, model: Any, task: Task) -> None:
        super().__init__(model, task, subset_problem(task, 0))  # all sets are given
        self.objective = cast(Model, self.problem.objective)
        self.counted = self.problem.counted(self.problem.support(self.x))
        self.own = np.union1d(self.problem.support(self.x), self.problem.exempt).astype(np.intp)
        self.fit: Fit = Fit(self.own, self.x[self.problem.coordinates(self.own)], self.psi, np.empty(0))
        self.enough = _CHECKED * abs(self.null.psi - self.objective.infimum)
        if self.objective.smooth:
            self.search = SmoothSearch(SUBSET_TOLERANCE * model.tol)
            self.search.begin(subset_problem(task, self.counted.size))
        else:
            self.exact_refits = ExactRefits(self.problem)
        self.null_loss = self.refitted(self.problem.exempt).psi
        self.fit = self._fitted(self.own)
        self.base = self._judged(self.fit)
        self.scale = self.base.psi - self.objective.infimum

    @property
    def penalty(self) -> float:
        """Return the ridge's part of ψ at the model's coefficients."""
        ridge = getattr(self.objective, "ridge", None)
        return 0.0 if ridge is None else float(ridge.value(self.x.reshape(-1, self.problem.width)))

    @property
    def is_local(self) -> bool:
        """Whether ψ is not convex, so that refits are local."""
        return self.objective.convex_start is not None

    @property
    def most_refits(self) -> int:
        """How many refits are done at most of each kind."""
        one = self.objective.n_margins * ((self.own.size + 1) * self.problem.width) ** 2 + _OVERHEAD
        return max(_FEWEST, _WORK // (one if self.objective.smooth else _KINKED * one))

    def refitted(self, features: Features) -> Refit:
        """Return the loss refitted over these features; those that are always in the model must be among them."""
        return self._judged(self._fitted(features))

    def _fitted(self, features: Features) -> Fit:
        if seconds_left() <= 0:
            raise TimeoutError
        if not features.size:
            origin = self.objective.origin
            return Fit(features, np.empty(0), self.objective.value_of(origin), origin, gap=0.0)
        if not self.objective.smooth:
            return self.exact_refits(features, self.fit, seconds_left)
        return self.search.swaps.fitted(features, self.fit)

    def _judged(self, fit: Fit) -> Refit:
        left = fit.error if isinstance(fit, ExactFit) else fit.gap + fit.resolution
        return Refit(fit.psi, not self.is_local and left <= self.enough)

    def without(self, feature: int) -> Refit:
        """Return the loss refitted without one feature of the model."""
        return self.refitted(np.setdiff1d(self.own, [feature]).astype(np.intp))

    def of_set(self, features: Features) -> Refit:
        """Return the loss refitted over these features and those that are always in the model."""
        return self.refitted(np.union1d(features, self.problem.exempt).astype(np.intp))

    def near_swaps(self, share: float, without: Mapping[int, float]) -> NearSwaps | None:
        """Return the swaps that raise the loss by at most this share of it; None where that is next to nothing.

        Parameters
        ----------
        share : float
        without : dict of int to float
            The loss refitted without each feature, where it is known.
        """
        if not self.counted.size or not self.scale > self.enough:
            return None
        most, n_refits = self.base.psi + share * self.scale, self.most_refits
        if self.objective.smooth:
            return near_swaps(self.search.swaps, self.fit, most, n_refits, without)
        assert isinstance(self.fit, ExactFit)
        outside = self._by_promise()
        return near_swaps_with_kinks(self.exact_refits, self.fit, outside, most, n_refits, seconds_left, without)

    def _by_promise(self) -> Features:
        """Return the features outside with a column that is not zero, the steepest relative to its size first."""
        outside = np.setdiff1d(np.arange(self.problem.n_features), self.own).astype(np.intp)
        size = self.objective.column_magnitudes()[:: self.problem.width][outside]
        slope = self.problem.sizes(self.gradient)[outside]
        outside, size, slope = outside[size > 0], size[size > 0], slope[size > 0]
        return outside[np.argsort(-slope / size, kind="stable")]
