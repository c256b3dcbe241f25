"""The simplex method for a sum of piecewise linear functions of a few coordinates.

    f(w) = Σ_i max(low_i s_i, high_i s_i),      s_i = ⟨q_i, w⟩ − kink_i

has a minimiser at which as many s_i as there are coordinates are 0: the basis B, with the rows of B independent. With
g = Σ_{i∉B} u_i q_i, u_i = low_i or high_i, such a vertex is a minimiser if

    u_B = −Q_B⁻ᵀ g      has      low_i ≤ u_i ≤ high_i      for all i in B.

Where u_i is beyond its bounds, f falls along the edge on which all of B but i stay at their kinks. On it f is convex
and piecewise linear, and its minimum is a weighted median of the places where other rows meet their kinks. The one met
there replaces i in B. This is the simplex method with long steps: Barrodale and Roberts (1973), SIAM Journal on
Numerical Analysis 10(5).

**Coordinates.** The method runs in coordinates w, x = Tw, in which the columns are orthonormal with the weights p
(Gram-Schmidt, twice). Units, large means with an intercept and nearly equal columns do not matter there. Columns that
depend on others are left out, unless their coefficients must not be negative. Rows x_j are added to the samples: with
slope 0, to begin with; or, where x_j ≥ 0 is required, with a slope below 0 that is steeper than ψ. The coefficients are
then computed from the columns as they are and the kinks where they are, with residuals in extended precision.

**Degenerate vertices.** Kinks are moved by a little, each by another amount, so that no two are met at once. u is
feasible wherever the kinks are.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from levelprox._typing import Mask, Matrix, Rows, Vector
from levelprox.methods import Stop

EPS = 2.0**-52
_REPLACED_SHARE = 1e-12  # the part of a column in another that depends on it
_GOLDEN = 0.6180339887498949
_PIVOT_SHARE = 1e-9  # of ‖row‖‖edge‖: what a pivot must not be below
_LEVEL_SHARE = 1e-10  # of the slope along an edge: beyond the last kink f may be level
_INDEPENDENT_SHARE = 1e-3  # of the norm of a row: the least part that is independent of others in the first basis
_LEAST_EDGES, _EDGES_PER_FEATURE = 200, 50  # edges, and for each feature
_FIRST_KINKS = 64  # that are sorted along an edge, for a start


class Coordinates:
    """T and the rows in the coordinates w: samples, then the coordinates x_j scaled to norm 1.

    Parameters
    ----------
    columns : list of ndarray of shape (n,)
        Of the samples of positive weight.
    share : ndarray of shape (n,)
        Their weights, which add up to 1.
    nonnegative : ndarray of bool
    seconds_left : callable
    dependent : float
        Of the norm of a column: the least part that is independent of the others.
    uncentred : ndarray, optional
        How large the entries of the columns are before they are centred, if these count in place of smaller norms.

    Raises
    ------
    Stop
        If no time is left.
    """

    def __init__(
        self,
        columns: list[Vector],
        share: Vector,
        nonnegative: Mask,
        seconds_left: Callable[[], float],
        dependent: float,
        uncentred: Vector | None = None,
    ) -> None:
        m, n = len(columns), share.size
        size = np.array([float(np.max(np.abs(column), initial=0.0)) for column in columns])
        self.unit = np.ldexp(1.0, np.frexp(np.where(size > 0, size, 1.0))[1])  # powers of two round nothing
        samples, T, beside = np.empty((m, n)), np.zeros((m, m)), list[Vector]()
        self.replaced = np.zeros(m, np.bool_)  # by columns that are left out
        rank = 0
        for j in np.argsort(nonnegative, kind="stable"):
            if not seconds_left() > 0:
                raise Stop
            column, combination = columns[j] / self.unit[j], np.zeros(m)
            combination[j] = 1.0
            norm = math.sqrt(float(np.sum(share * column**2)))
            for _ in range(2):
                along = np.einsum("ri,i->r", samples[:rank], share * column)
                column = column - np.einsum("r,ri->i", along, samples[:rank])
                combination = combination - T[:, :rank] @ along
            left = math.sqrt(float(np.sum(share * column**2)))
            whole = norm if uncentred is None else max(norm, float(uncentred[j] / self.unit[j]))
            if left > dependent * whole:
                samples[rank], T[:, rank] = column / left, combination / left
                rank += 1
            elif nonnegative[j] and norm > 0:
                beside.append(combination)
            else:
                self.replaced |= np.abs(combination) > _REPLACED_SHARE
        self.rank, self.dimension = rank, rank + len(beside)
        T[:, rank : self.dimension] = np.array(beside).reshape(len(beside), m).T
        self.T = T[:, : self.dimension]
        length = np.sqrt(np.sum(self.T**2, axis=1))
        self.kept = np.flatnonzero(length > 0)
        self.length = length[self.kept]
        self.rows = np.zeros((self.dimension, n + self.kept.size))
        self.rows[:rank, :n] = samples[:rank]
        self.rows[:, n:] = (self.T[self.kept] / self.length[:, None]).T
        self.row_length = np.sqrt(np.einsum("ri,ri->i", self.rows, self.rows))

    def of_coefficients(self, x: Vector, columns: list[Vector], share: Vector) -> Vector:
        """Return w with Tw = x, as near as the columns that are not left out allow."""
        w, margins = np.zeros(self.dimension), np.zeros(share.size)
        for column, step in zip(columns, x, strict=True):
            margins += step * column
        w[: self.rank] = np.einsum("ri,i->r", self.rows[: self.rank, : share.size], share * margins)
        if self.rank < self.dimension:
            rest = x * self.unit - self.T[:, : self.rank] @ w[: self.rank]
            w[self.rank :] = np.linalg.lstsq(self.T[:, self.rank :], rest, rcond=None)[0]
        return w


class Simplex:
    """Descents along edges.

    Parameters
    ----------
    coordinates : Coordinates
        Its rows are q_i: n samples, and then coordinates x_j.
    low, high, kinks : ndarray
        One number for each row.
    steepest : float
        The largest slope of the loss of a sample.
    seconds_left : callable
        Called before each edge; where it returns 0 or less, a descent ends.
    """

    def __init__(
        self,
        coordinates: Coordinates,
        low: Vector,
        high: Vector,
        kinks: Vector,
        steepest: float,
        seconds_left: Callable[[], float],
    ) -> None:
        self.at, self.low, self.high, self.kinks = coordinates, low, high, kinks
        self.n, self.dimension = kinks.size - coordinates.kept.size, coordinates.dimension
        self.rows, self.row_length = coordinates.rows, coordinates.row_length
        self.steepest, self.seconds_left = steepest, seconds_left

    def moved(self, w: Vector) -> Vector:
        """Return how all rows change with w."""
        return np.asarray(np.einsum("r,ri->i", w, self.rows), np.float64)

    def descended(self, basis: Rows, move: float) -> tuple[Rows, Vector]:
        """Follow edges for as long as f falls, with moved kinks; return the last basis and its u."""
        kinks = self.kinks + move * (0.5 + np.modf(_GOLDEN * np.arange(1, self.kinks.size + 1))[0] / 2)
        rounding = 4 * EPS * (math.sqrt(self.n) + 100)  # of a slope, relative to the terms that it is summed from
        u = np.zeros(kinks.size)
        for _ in range(_LEAST_EDGES + _EDGES_PER_FEATURE * self.dimension):
            matrix = self.rows[:, basis].T
            inverse = inverse_of(matrix)
            w = inverse @ kinks[basis]
            w = w + inverse @ (kinks[basis] - matrix @ w)
            s = self.moved(w) - kinks
            u = np.where(s > 0, self.high, self.low)
            u[basis] = 0.0
            gradient, terms = np.einsum("ri,i->r", self.rows, u), float(np.sum(np.abs(u) * self.row_length))
            y = -(gradient @ inverse)
            y = y - (gradient + y @ matrix) @ inverse
            low, high = self.low[basis], self.high[basis]
            beyond = np.maximum(y - high, low - y)
            slope = beyond / np.sqrt(np.sum(inverse**2, axis=0))  # of f along each edge
            u[basis] = np.clip(y, low, high)
            leaves = int(np.argmax(slope))
            # Samples with nearly all of the weight may have no slope left: it is then that of the others.
            flat = rounding * min(self.steepest, terms)
            if not slope[leaves] > flat or self.seconds_left() <= 0:
                break
            edge = inverse[:, leaves] * (1.0 if y[leaves] > high[leaves] else -1.0)
            enters = self._met(s, edge, basis, float(beyond[leaves]))
            if enters is None:
                break
            basis = basis.copy()
            basis[leaves] = enters
        return basis, u

    def _met(self, s: Vector, edge: Vector, basis: Rows, falls: float) -> int | None:
        """Return the row whose kink is at the minimum of f along an edge; None where rounding leaves none."""
        v = self.moved(edge)
        v[basis] = 0.0
        pivot = _PIVOT_SHARE * math.sqrt(float(np.sum(edge**2)))
        ahead = np.flatnonzero((s * v < 0) & (np.abs(v) > pivot * self.row_length))
        t = -s[ahead] / v[ahead]
        rise = (self.high - self.low)[ahead] * np.abs(v[ahead])
        count = min(_FIRST_KINKS, t.size)
        while count:
            first = np.flatnonzero(t <= np.partition(t, count - 1)[count - 1])
            first = first[np.argsort(t[first], kind="stable")]
            place = int(np.searchsorted(np.cumsum(rise[first]), (1 - _LEVEL_SHARE) * falls))
            if place < first.size:
                return int(ahead[first[place]])
            count = min(4 * count, t.size) if count < t.size else 0
        return None

    def basis_near(self, w: Vector) -> Rows:
        """Return independent rows that are near their kinks at w, the nearest first, completed by any others."""
        s = np.abs(self.moved(w) - self.kinks)
        nearest = np.argsort(s[: self.n], kind="stable")[: 3 * self.dimension]
        candidates = np.concatenate([nearest, self.n + np.argsort(s[self.n :], kind="stable")])
        left, size, basis = self.rows[:, candidates], self.row_length[candidates], list[int]()
        while len(basis) < self.dimension:
            norm = np.sqrt(np.sum(left**2, axis=0))
            suitable = norm > _INDEPENDENT_SHARE * size
            if not np.any(suitable):  # of all rows the most independent one
                candidates, left, size = np.arange(self.row_length.size), self._beside(basis), np.zeros(1)
                norm = np.sqrt(np.sum(left**2, axis=0))
                suitable = norm == np.max(norm)
            place = int(np.argmax(suitable))
            basis.append(int(candidates[place]))
            direction = left[:, place] / norm[place]
            left = left - np.outer(direction, np.einsum("r,ri->i", direction, left))
        return np.array(basis, np.intp)

    def _beside(self, basis: list[int]) -> Matrix:
        """Return the parts of all rows that are independent of a part of a basis."""
        left, directions = self.rows, np.linalg.qr(self.rows[:, basis])[0]
        for direction in (*directions.T, *directions.T):
            left = left - np.outer(direction, np.einsum("r,ri->i", direction, left))
        return np.asarray(left, np.float64)


def inverse_of(matrix: Matrix) -> Matrix:
    """Return the inverse of a small matrix; a pseudo-inverse where it has none."""
    try:
        return np.asarray(np.linalg.inv(matrix), np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(matrix), np.float64)


def solved(matrix: Matrix, right: Vector) -> Vector:
    """Solve a small linear system, with residuals in extended precision."""
    try:
        x = np.linalg.solve(matrix, right)
        for _ in range(2):
            residual = right.astype(np.longdouble) - matrix.astype(np.longdouble) @ x.astype(np.longdouble)
            x = x + np.linalg.solve(matrix, residual.astype(np.float64))
    except np.linalg.LinAlgError:
        x = np.linalg.lstsq(matrix, right, rcond=None)[0]
    return np.asarray(x, np.float64)
