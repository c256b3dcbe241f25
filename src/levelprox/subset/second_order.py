"""Gradients and Hessians of ψ around a fit, over all features: what second-order estimates of swaps are made from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from levelprox import _kernels
from levelprox._typing import Features, Mask, Matrix, Vector
from levelprox.methods.restricted import How
from levelprox.objectives import LinearModel, Model
from levelprox.problem import FeatureProblem
from levelprox.result import Stop
from levelprox.subset.column_cache import Columns
from levelprox.subset.refit import Fit, Refits
from levelprox.subset.swap_bounds import SwapEstimates, condition

MANY_CLASSES = 16  # beyond which the work of a search is bounded
_ILL_CONDITIONED = 1e6  # condition number of a Hessian from which on estimates come from an orthonormal basis
_LINE_SEARCHES = 256  # features along which ψ is straight whose gain is computed by a line search
_CHEAP_COORDINATES = 512  # whose whole Hessian is cheap
_CHEAP_SHARE = 8  # times the coordinates of a fit: up to so many the whole Hessian is cheap
_CHEAP_MULTIPLICATIONS = 10**9  # of a whole Hessian of many classes, where columns take longer
_KEPT_NUMBERS = 2**25  # of columns of the Hessian


class SecondOrder:
    """Gradient and Hessian of ψ at fits over a few features.

    Parameters
    ----------
    problem : Problem or SubsetProblem
    how : How
    columns : Columns, optional
        Of the same features, where they are at hand.

    Attributes
    ----------
    refits : Refits
    n_grad : int
        Passes over all features.
    """

    def __init__(self, problem: FeatureProblem, how: How, columns: Columns | None = None) -> None:
        assert isinstance(problem.objective, Model)
        self.problem, self.objective, self.how = problem, problem.objective, how
        self.refits = Refits(problem, how, columns)
        self.n_grad = 0
        self._hessian_columns: dict[int, Vector] = {}
        self._own: Matrix | None = None
        self._magnitudes: Vector | None = None
        self._typical: Vector | None = None
        self._column_noise: Vector | None = None

    def estimates(self, fit: Fit) -> SwapEstimates:
        """Return second-order estimates at a fit."""
        constant = self.objective.concordance == 0
        if not constant or self._own is None:
            self._own = self.objective.feature_hessians_of(fit.margins)
            self.n_grad += 1
        gradient, cross = self.gradient(fit), self.columns_of(fit)
        basis = None
        if self.problem.width == 1 and condition(cross[fit.features]) > _ILL_CONDITIONED:
            cross, basis = self._in_basis(fit, cross)
        typical, outside = self._typical_curvature(), self.outside(fit)
        estimates = SwapEstimates(self.problem, fit, gradient, cross, self._own, outside, typical, basis, self._noise())
        self.look_along(estimates, fit)
        return estimates

    def _noise(self) -> Vector | None:
        """Return the relative error of products with each column, where columns are centred."""
        if self._column_noise is None and isinstance(self.objective, LinearModel):
            noise = self.objective.relative_column_noise()
            self._column_noise = np.zeros(self.problem.n_features) if noise is None else noise
        return self._column_noise

    def _in_basis(self, fit: Fit, cross: Matrix) -> tuple[Matrix, Matrix | None]:
        """Return A'∇²F v for an orthonormal basis v of the features of a fit, and their coordinates in it."""
        objective = self.objective
        if not isinstance(objective, LinearModel) or not self.refits.columns.fit_in(fit.features):
            return cross, None
        columns = self.refits.columns(fit.features)
        weight = np.ascontiguousarray(objective.bend_of(fit.margins, True))
        values, rows = [column.values for column in columns], [column.rows for column in columns]
        ridge = None if objective.ridge is None else objective.ridge.restrict(fit.features)
        if ridge is not None:  # below the samples a row for each feature
            n, m = objective.n_margins, len(columns)
            weight, rows = np.append(weight, ridge.curvatures()), [None] * m
            values = [np.append(column.dense(n), np.eye(m)[j]) for j, column in enumerate(columns)]
        vectors, coordinates = _kernels.orthonormal_basis(values, rows, weight)
        self.n_grad += vectors.shape[0]
        moves = iter(vectors) if ridge is None else (ridge.below(v[: objective.n_margins], v[n:]) for v in vectors)
        return objective.cross_hessian_of(fit.margins, self._timed(moves), vectors.shape[0], True), coordinates

    def look_along(self, estimates: SwapEstimates, fit: Fit) -> None:
        """Compute what features gain at least along which ψ is straight at a fit, by a line search along each."""
        straight = estimates.straight
        if not straight.size or not isinstance(self.objective, LinearModel):
            return
        if straight.size > _LINE_SEARCHES:
            size = np.abs(estimates.gradient[straight, 0]) / np.sqrt(estimates.own[straight, 0, 0])
            straight = np.sort(straight[np.argsort(-size, kind="stable")[:_LINE_SEARCHES]])
        self.check_time()
        least = self.refits.least_along(straight, fit.margins)
        estimates.least_gain[:] = 0.0
        if least is not None:
            gain = fit.psi - least
            signs = self.problem.must_be_nonnegative()[straight] & (estimates.gradient[straight, 0] >= 0)
            estimates.least_gain[straight] = np.where(signs | ~np.isfinite(gain), 0.0, np.maximum(gain, 0.0))

    def _typical_curvature(self) -> Vector | None:
        """Return a typical curvature of ψ along each feature, for a loss whose curvature changes."""
        objective = self.objective
        if not isinstance(objective, LinearModel) or objective.concordance == 0:
            return None if objective.concordance else np.zeros(self.problem.n_features)
        if self._typical is None:
            self._typical = objective.typical_curvatures()
        return self._typical

    @property
    def magnitudes(self) -> Vector:
        """By how much a coordinate of 1 changes a margin at most."""
        if self._magnitudes is None:
            self._magnitudes = self.objective.column_magnitudes()
        return self._magnitudes

    def outside(self, fit: Fit) -> Mask:
        """Return which features are not in a fit and have a column that is not zero."""
        size = np.max(self.magnitudes.reshape(self.problem.n_features, -1), axis=1)
        outside: Mask = size > 0
        outside[fit.features] = False
        return outside

    def columns_of(self, fit: Fit) -> Matrix:
        """The columns of ∇²ψ that belong to the fit; where they are the same everywhere, computed once each."""
        features, width = fit.features, self.problem.width
        changes = self.objective.concordance > 0 or width > 1
        if changes and self._whole_is_cheap(fit):
            self.n_grad += 1
            return self.objective.hessian_of(fit.margins, True)[:, self.problem.coordinates(features)]
        if changes:
            self.n_grad += features.size * width
            return self._cross(fit.margins, features)
        missing = np.array([j for j in features if j not in self._hessian_columns], np.intp)
        if len(self._hessian_columns) * self.problem.n_features > _KEPT_NUMBERS:
            self._hessian_columns, missing = {}, features
        if missing.size:
            self.n_grad += missing.size
            new = self._cross(fit.margins, missing)
            self._hessian_columns.update(zip(missing.tolist(), new.T, strict=True))
        return (
            np.array([self._hessian_columns[j] for j in features.tolist()])
            .reshape(features.size, self.problem.dimension)
            .T
        )

    def _whole_is_cheap(self, fit: Fit) -> bool:
        """Return whether the whole Hessian costs no more than the columns that belong to a fit."""
        d, width = self.problem.dimension, self.problem.width
        if self.objective.only_contrasts and width > MANY_CLASSES:  # each column takes a call for each class
            return d <= _CHEAP_SHARE * fit.x.size and self.objective.n_margins // width * d**2 <= _CHEAP_MULTIPLICATIONS
        return d <= min(_CHEAP_COORDINATES, _CHEAP_SHARE * fit.x.size)

    def _cross(self, margins: Vector, features: Features) -> Matrix:
        """The columns of ∇²ψ that belong to some features."""
        objective, count = self.objective, features.size * self.problem.width
        if not isinstance(objective, LinearModel) or not self.refits.columns.fit_in(features):
            return objective.cross_hessian_of(margins, self._moves(features), count, True)
        columns = (column.dense(objective.n_margins) for column in self.refits.columns(features))
        return objective.cross_hessian_over(margins, self._timed(columns), features, True)

    def _moves(self, features: Features) -> Iterator[Vector]:
        """Columns of the data, with a look at the clock before each: a product with all others follows."""
        yield from self._timed(self.refits.columns.moves(features))

    def _timed(self, moves: Iterator[Vector]) -> Iterator[Vector]:
        for move in moves:
            self.check_time()
            yield move

    def gradient(self, fit: Fit) -> Vector:
        self.check_time()
        self.n_grad += 1
        return self.objective.gradient_of(fit.margins)

    def check_time(self) -> None:
        """Raise `Stop` where no time is left."""
        if self.how.seconds_left() <= 0:
            raise Stop
