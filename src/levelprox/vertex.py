"""A loss with kinks over a few features, minimised exactly: from vertex to vertex of a piecewise linear ψ.

    ψ(x) = Σ_i p_i max(lo_i s_i, hi_i s_i),      s_i = ⟨a_i, x⟩ + o_i − b_i,      p_i = sample weight / Σ

has a minimiser at which as many margins as there are features are at their kinks: the basis B, with A_B invertible.
With g = Σ_{i∉B} p_i ℓ'_i a_i, such a vertex is a minimiser where

    y = −A_B⁻ᵀ g      has      p_i lo_i ≤ y_i ≤ p_i hi_i      for all i in B:

y are then subgradients with which Σ p ∂ℓ a = 0. Where y_i is beyond its bounds, ψ falls along the edge on which all of
B but i stay at their kinks; on it ψ is convex and piecewise linear, and its lowest point is a weighted median of the
places where other margins meet their kinks. The one met there takes the place of i in B.
That is the simplex method, past many vertices at a time: Barrodale and Roberts (1973), SIAM J. Numer. Anal. 10(5).

Two kinds of rows are added to the samples: |x_j| with a weight too small to show, so that there is always a vertex,
x = 0 among them; and where x_j ≥ 0 is asked a slope below zero so steep that no minimiser is there.
Kinks are moved by a billionth of the size of the residuals, each by another amount, so that no two are met at once; the
vertex that results is then taken with the kinks where they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levelprox.losses.kinked import Kinked
from levelprox.objectives import LinearModel

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Rows = NDArray[np.intp]

_TINY = 1e-13  # of the steepest ψ can be in a coordinate: the slope of |x_j|
_STEEP = 4.0  # times that: the slope where x_j < 0 must not be
_APART = 1e-9  # of the size of the residuals: by how much kinks are moved
_SMALLER = 0.1  # times the size at the start: then kinks were moved too far
_SMALLEST = 1e-3  # of the kinks: residuals that are smaller are not told apart
_GOLDEN = 0.6180339887498949
_SMALL = 1e-9  # of the largest: what a pivot must not be below
_FEASIBLE = 1e-11  # of the steepest ψ can be: by how much y may miss its bounds
_LONG, _EACH = 200, 50  # edges, and for each feature


@dataclass(frozen=True, eq=False)
class Vertex:
    """A minimiser of ψ over a few features.

    Attributes
    ----------
    x : ndarray
    margins : ndarray of shape (n,)
    slopes : ndarray of shape (n,)
        Elements of ∂ℓ, one for each sample, with which ψ is stationary at x.
    basis : ndarray of int
        The samples that are at their kinks.
    """

    x: Vector
    margins: Vector
    slopes: Vector
    basis: Rows


def minimised(
    model: LinearModel,
    columns: list[Vector],
    nonnegative: NDArray[np.bool_],
    near: Vector,
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> Vertex:
    """The minimiser of ψ, reached along edges.

    Parameters
    ----------
    model : LinearModel
        ψ over a few features, with a loss with kinks.
    columns : list of ndarray of shape (n,)
        The columns of its design.
    nonnegative : ndarray of bool
        Which coordinates must not be negative.
    near : ndarray
        Where to begin: at a vertex whose kinks are near to it.
    seconds_left : callable
        Asked before each edge; where there are none, the last vertex is returned.
    """
    return _Descent(model, columns, nonnegative, seconds_left)(near)


class _Descent:
    """Edges, one after another, in coordinates in which every column has about the same size."""

    def __init__(
        self,
        model: LinearModel,
        columns: list[Vector],
        nonnegative: NDArray[np.bool_],
        seconds_left: Callable[[], float],
    ) -> None:
        assert isinstance(model.loss, Kinked)
        self.model, self.columns, self.seconds_left = model, columns, seconds_left
        self.n, self.m = model.n_margins, model.dimension
        share = np.ones(self.n) if model.sample_weight is None else model.sample_weight
        self.share = share / share.sum()
        size = np.array([float(np.max(np.abs(column), initial=0.0)) for column in columns])
        self.unit = np.ldexp(1.0, np.frexp(np.where(size > 0, size, 1.0))[1])  # powers of two round nothing
        self.offset = model.origin
        low, high = model.loss.slopes(model.target)
        steepest = model.loss.lipschitz  # of ψ in these coordinates, at most
        below = np.where(nonnegative, -_STEEP * steepest, -_TINY * steepest)
        self.low = np.concatenate([self.share * low, below])
        self.high = np.concatenate([self.share * high, np.full(self.m, _TINY * steepest)])
        self.enough = _FEASIBLE * steepest
        self.kinks = np.concatenate([model.target - self.offset, np.zeros(self.m)])

    def __call__(self, near: Vector) -> Vertex:
        exact, x, size = self.kinks, near * self.unit, math.inf
        # Kinks are to be moved by a billionth of the residuals that are left, which are not known before the end.
        while self.m and (residuals := self._residuals(x, exact)) < _SMALLER * size:
            size = residuals
            self.kinks = exact + _APART * size * (0.5 + np.modf(_GOLDEN * np.arange(1, exact.size + 1))[0] / 2)
            basis, y, above = self._descend(self._basis_near(x))
            x = np.linalg.solve(self._rows(basis), exact[basis])
            x[basis[basis >= self.n] - self.n] = 0.0
        if not self.m or math.isinf(size):
            basis, y, above = np.empty(0, np.intp), np.empty(0), self._moved(x) > exact
        slopes = np.where(above, self.high, self.low)
        slopes[basis] = np.clip(y, self.low[basis], self.high[basis])
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(self.share > 0, slopes[: self.n] / self.share, 0.0)
        x = x / self.unit
        return Vertex(x, self.model.margins(x), each, np.sort(basis[basis < self.n]))

    def _residuals(self, x: Vector, kinks: Vector) -> float:
        """The size of the residuals; not below what rounding leaves of margins."""
        counts = self.share > 0
        off, about = np.abs(self._moved(x) - kinks)[: self.n][counts], np.abs(kinks)[: self.n][counts]
        return max(float(np.mean(off)), _SMALLEST * float(np.mean(about))) or 1.0

    def _descend(self, basis: Rows) -> tuple[Rows, Vector, NDArray[np.bool_]]:
        """Edges for as long as one falls; the last basis, its y, and which margins are above their kinks."""
        for _ in range(_LONG + _EACH * self.m):
            inverse = np.asarray(np.linalg.inv(self._rows(basis)), np.float64)
            s = self._moved(inverse @ self.kinks[basis]) - self.kinks
            above = s > 0
            slopes = np.where(above, self.high, self.low)
            slopes[basis] = 0.0
            gradient = self._pulled(slopes)
            y = -(gradient @ inverse)
            beyond = np.maximum(y - self.high[basis], self.low[basis] - y)
            leaves = int(np.argmax(beyond / np.sqrt(np.sum(inverse**2, axis=0))))
            if not beyond[leaves] > self.enough or self.seconds_left() <= 0:
                break
            up = y[leaves] > self.high[basis[leaves]]
            enters = self._met(s, inverse[:, leaves] * (1.0 if up else -1.0), basis, float(beyond[leaves]))
            if enters is None:
                break
            basis = basis.copy()
            basis[leaves] = enters
        return basis, y, above

    def _met(self, s: Vector, edge: Vector, basis: Rows, falls: float) -> int | None:
        """The row whose kink is at the lowest point of ψ along an edge; None where rounding leaves none."""
        v = self._moved(edge)
        v[basis] = 0.0
        ahead = np.flatnonzero((s * v < 0) & (np.abs(v) > _SMALL * np.max(np.abs(v))))
        t = -s[ahead] / v[ahead]
        order = np.argsort(t, kind="stable")
        rises = np.cumsum(((self.high - self.low)[ahead] * np.abs(v[ahead]))[order])
        place = int(np.searchsorted(rises, falls))
        return int(ahead[order[place]]) if place < order.size else None

    def _basis_near(self, x: Vector) -> Rows:
        """Independent rows that are near their kinks at x, the nearest first; x_j = 0 for what they leave open."""
        s = np.abs(self._moved(x) - self.kinks)
        s[: self.n][self.share == 0] = np.inf
        nearest = np.argsort(s[: self.n], kind="stable")[: 3 * self.m]
        candidates = np.concatenate([nearest[np.isfinite(s[nearest])], self.n + np.argsort(np.abs(x), kind="stable")])
        left, basis = self._rows(candidates.astype(np.intp)), list[int]()
        size = np.maximum(np.sqrt(np.sum(left**2, axis=1)), np.finfo(np.float64).tiny)
        for row in range(candidates.size):
            length = float(np.sqrt(np.sum(left[row] ** 2)))
            if length > 1e-3 * size[row]:
                basis.append(int(candidates[row]))
                along = left[row] / length
                left = left - np.outer(left @ along, along)
            if len(basis) == self.m:
                break
        return np.array(basis, np.intp)

    def _rows(self, rows: Rows) -> Matrix:
        """Rows of the samples, then of the coordinates."""
        found, samples = np.zeros((rows.size, self.m)), rows < self.n
        for j, column in enumerate(self.columns):
            found[samples, j] = column[rows[samples]] / self.unit[j]
        found[np.flatnonzero(~samples), rows[~samples] - self.n] = 1.0
        return found

    def _pulled(self, slopes: Vector) -> Vector:
        """The gradient with these slopes of all rows."""
        samples = slopes[: self.n]
        return slopes[self.n :] + np.array([np.sum(samples * column) for column in self.columns]) / self.unit

    def _moved(self, x: Vector) -> Vector:
        """How all rows change with x: column by column, for all columns are at hand and few."""
        moved = np.zeros(self.n + self.m)
        moved[self.n :] = x
        for column, step in zip(self.columns, x / self.unit, strict=True):
            if step != 0:
                moved[: self.n] += step * column
        return moved
