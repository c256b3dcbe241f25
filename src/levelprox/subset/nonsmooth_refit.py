"""Minimise a loss with kinks over a few features exactly, and bound the error of the result.

    ψ(x) = Σ_i p_i max(lo_i s_i, hi_i s_i),      s_i = ⟨a_i, x⟩ + o_i − b_i,      p_i = sample weight / Σ

has a minimiser at which as many margins as there are features are at their kinks: the basis B, with A_B invertible.
With g = Σ_{i∉B} u_i a_i, u_i = p_i lo_i or p_i hi_i, such a vertex is a minimiser if

    u_B = −A_B⁻ᵀ g      has      p_i lo_i ≤ u_i ≤ p_i hi_i      for all i in B.

Where u_i is beyond its bounds, ψ falls along the edge on which all of B but i stay at their kinks. On it ψ is convex
and piecewise linear, and its minimum is a weighted median of the places where other margins meet their kinks. The one
met there replaces i in B. This is the simplex method with long steps: Barrodale and Roberts (1973), SIAM Journal on
Numerical Analysis 10(5).

**Coordinates.** The method runs in coordinates w, x = Tw, in which the columns are orthonormal with the weights p
(Gram-Schmidt, twice). Units, large means beside an intercept and nearly equal columns do not matter there. Columns that
depend on others are left out, unless their coefficients must not be negative. Rows x_j are added to the samples: with
slope 0, to begin with; or, where x_j ≥ 0 is required, with a slope below 0 that is steeper than ψ.
The coefficients are then computed from the columns as they are, with residuals in extended precision.

**Degenerate vertices.** Kinks are moved by 1e-9 of the mean residual, each by another amount, so that no two are met at
once. u is feasible wherever the kinks are; the vertex is computed with the kinks where they are.

**Error.** For any u within its bounds and any x*,

    ψ(x) − ψ(x*) ≤ Σ_i (p_i ℓ_i(s_i) − u_i s_i) + ⟨A'u, x − x*⟩.

Every term of the sum is at least 0, and A'u is 0 up to rounding. What is left of it, r = T'A'u, costs at most
max_i |⟨q_i, r⟩| Σ p_i |s_i − s*_i|, q_i the rows in the coordinates w; and Σ p_i |s*_i| ≤ ψ(x)/min(|lo|, hi). For the
hinge loss, where that minimum is 0, Σ p_i |s_i − s*_i| is taken to be at most 16 times the mean of |s| and |b|: u is
then feasible for columns that differ from these by rounding.
A refit whose error is not small is repeated with smaller moves of the kinks, and then with a linear program (HiGHS).

**Nearly dependent columns.** Their coefficients may be so large that the rounding of their products with the columns
changes ψ. The margins are then summed in extended precision, and the refit is repeated without columns of which little
is left beside the others. The vertex with the lower ψ, its rounding included, is returned. Its error is computed from
the bound on ψ over all columns. For the hinge loss the margins of the basis are also put a little beyond their kinks,
where the loss is flat: their rounding then costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from levelprox._typing import Mask, Matrix, Rows, Vector
from levelprox.losses.moreau import Kinked
from levelprox.methods import Stop
from levelprox.objectives import LinearModel

_EPS = 2.0**-52
_DEPENDENT_SHARE = 2.0**-43  # of the norm of a column: what must be left of it beside the others
_NEARLY_DEPENDENT_SHARES = (
    2.0**-36,
    2.0**-26,
    2.0**-16,
)  # the same, where coefficients are so large that rounding matters
_ROUNDING_SHARE = 1e-9  # of ψ: rounding beyond which it does
_NO_LOSS_SHARE = 1e-13  # of the mean of |b| and |o|: no vertex has a ψ that is lower than such a one by more
_REPLACED_SHARE = 1e-12  # the part of a column in another that depends on it
_BARRIER_FACTOR = 4.0  # times the steepest ψ can be in x_j: the slope where x_j < 0 must not be
_KINK_MOVE_SHARE = 1e-9  # of the mean residual: by how much kinks are moved
_LEAST_KINK_MOVE_SHARE = 2.0**-44  # of the largest kink
_SMALLER_MOVE_FACTOR = 1e-3  # times that: where it was too far
_REPETITIONS = 3
_GOLDEN = 0.6180339887498949
_PIVOT_SHARE = 1e-9  # of ‖row‖‖edge‖: what a pivot must not be below
_LEVEL_SHARE = 1e-10  # of the slope along an edge: beyond the last kink ψ may be level
_INDEPENDENT_SHARE = 1e-3  # of the norm of a row: what must be left of it beside others of the first basis
_EXACT_ERROR_SHARE = 1e-11  # of ψ: an error that needs no repetition
_POOR_ERROR_SHARE = 1e-7  # of ψ: an error that needs a linear program
_LEAST_EDGES, _EDGES_PER_FEATURE = 200, 50  # edges, and for each feature
_FIRST_KINKS = 64  # that are sorted along an edge, for a start
_HINGE_REACH_FACTOR = 16.0
_BEYOND_KINK_FACTOR = 4.0  # times the rounding of a margin: how far from its kink it is safe
_PROGRAM_ENTRIES, _PROGRAM_SECONDS = 2 * 10**6, 0.5  # of a linear program: it does not answer Ctrl-C


@dataclass(frozen=True, eq=False)
class Vertex:
    """A minimiser of ψ over a few features.

    Attributes
    ----------
    x : ndarray
    psi : float
    margins : ndarray of shape (n,)
    slopes : ndarray of shape (n,)
        Elements of ∂ℓ, one for each sample, with which ψ is stationary at x.
    error : float
        A bound on ψ(x) − min ψ, rounding included.
    rounding : float
        How far ψ(x) may be off by rounding.
    removal : ndarray
        For each coordinate, what min ψ rises by at least if it is set to 0.
    """

    x: Vector
    psi: float
    margins: Vector
    slopes: Vector
    error: float
    rounding: float
    removal: Vector


def minimised(
    model: LinearModel,
    columns: list[Vector],
    nonnegative: Mask,
    near: Vector,
    seconds_left: Callable[[], float] = lambda: math.inf,
    coordinates: dict[float, Coordinates] | None = None,
    noise: Vector | None = None,
) -> Vertex:
    """Minimise ψ over a few features.

    Parameters
    ----------
    model : LinearModel
        ψ, with a loss with kinks; its design is not used.
    columns : list of ndarray of shape (n,)
        The columns of these features.
    nonnegative : ndarray of bool
        Which coordinates must not be negative.
    near : ndarray
        Where to begin: at a vertex whose kinks are near to it.
    seconds_left : callable
        Called before each edge; where it returns 0 or less, the last vertex is returned, with its error.
    coordinates : dict, optional
        Coordinates that were computed for other targets, of the same columns, weights and signs; new ones are added.
    noise : ndarray, optional
        What rounding a coefficient of 1 does to margins besides, one number for each column: where columns are centred.

    Raises
    ------
    Stop
        If no time is left before there is a vertex.
    """
    known = {} if coordinates is None else coordinates
    whole = best = _Refit(model, columns, nonnegative, seconds_left, known, noise=noise)(near)
    for dependent in _NEARLY_DEPENDENT_SHARES:
        if (
            not whole.rounding > _ROUNDING_SHARE * whole.psi
            or whole.psi + whole.rounding <= _NO_LOSS_SHARE * _size_of_targets(model)
        ):
            break
        try:
            refit = _Refit(model, columns, nonnegative, seconds_left, known, dependent, noise)
        except Stop:
            break
        fewer = refit(near)
        if fewer.psi + fewer.rounding < best.psi + best.rounding:
            error = min(fewer.psi - (whole.psi - whole.error), fewer.psi)  # no ψ is below 0
            best = replace(fewer, error=max(error, 0.0) + fewer.rounding, removal=whole.removal)
    return best


def _size_of_targets(model: LinearModel) -> float:
    """Return the mean of |b| and |o|, times the steepest slope of the loss."""
    share = np.ones(model.n_margins) if model.sample_weight is None else model.sample_weight
    sizes = np.abs(model.target) + np.abs(model.origin)
    return model.loss.lipschitz * float(np.sum(share * sizes) / share.sum())


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
        Of the norm of a column: what must be left of it beside the others.
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


class _Refit:
    """One refit.

    Rows are the samples of positive weight, n of them, and then the coordinates x_j that are not left out.
    """

    def __init__(
        self,
        model: LinearModel,
        columns: list[Vector],
        nonnegative: Mask,
        seconds_left: Callable[[], float],
        known: dict[float, Coordinates],
        dependent: float = _DEPENDENT_SHARE,
        noise: Vector | None = None,
    ) -> None:
        assert isinstance(model.loss, Kinked)
        self.model, self.whole, self.nonnegative, self.seconds_left = model, columns, nonnegative, seconds_left
        self.noise = np.zeros(len(columns)) if noise is None else noise
        share = np.ones(model.n_margins) if model.sample_weight is None else model.sample_weight
        self.counts = slice(None) if np.all(share > 0) else np.flatnonzero(share > 0)
        self.columns = [column[self.counts] for column in columns]
        self.share = share[self.counts] / share.sum()
        self.n = self.share.size
        low, high = model.loss.slopes(model.target[self.counts])
        self.flattest = float(min(np.min(-low), np.min(high)))
        kinks = (model.target - model.origin)[self.counts]
        if dependent not in known:
            uncentred = self.noise / _EPS if dependent > _DEPENDENT_SHARE else None
            known[dependent] = Coordinates(self.columns, self.share, nonnegative, seconds_left, dependent, uncentred)
        found = known[dependent]
        self.unit, self.T, self.rank, self.dimension = found.unit, found.T, found.rank, found.dimension
        self.kept, self.length, self.replaced = found.kept, found.length, found.replaced
        self.rows, self.row_length = found.rows, found.row_length
        # The slopes where x_j < 0 must not be: ψ is less steep in x_j.
        steep = [
            _BARRIER_FACTOR * float(np.sum(self.share * np.abs(self.columns[j]))) / self.unit[j] for j in self.kept
        ]
        held = np.where(nonnegative[self.kept], model.loss.lipschitz * np.array(steep) * self.length, 0.0)
        self.low = np.concatenate([self.share * low, -held])
        self.high = np.concatenate([self.share * high, np.zeros(self.kept.size)])
        self.kinks = np.concatenate([kinks, np.zeros(self.kept.size)])

    def __call__(self, near: Vector) -> Vertex:
        if not self.dimension:
            return self._vertex(np.empty(0, np.intp), np.where(self.kinks < 0, self.high, self.low))
        w = self._coordinates(near)
        # Moves below the last digits of the kinks move none, as where only samples with little weight have residuals.
        least = _LEAST_KINK_MOVE_SHARE * float(np.max(np.abs(self.kinks), initial=0.0))
        move = max(_KINK_MOVE_SHARE * self._size(self._moved(w) - self.kinks), least)
        basis, u = self._descended(self._basis_near(w), move)
        best = self._vertex(basis, u)
        for _ in range(_REPETITIONS):
            if best.error <= _EXACT_ERROR_SHARE * best.psi + 8 * best.rounding or self.seconds_left() <= 0:
                break
            # ψ may be far smaller than at the start, and the moves of the kinks too large for it.
            move = min(
                _SMALLER_MOVE_FACTOR * move, _KINK_MOVE_SHARE * self._size(best.margins[self.counts] - self._targets())
            )
            basis, u = self._descended(basis, move)
            vertex = self._vertex(basis, u)
            if not vertex.error < best.error / 2:
                break
            best = vertex
        if best.error > _POOR_ERROR_SHARE * best.psi + 64 * best.rounding:
            best = self._by_linear_program(best)
        return best

    def _targets(self) -> Vector:
        return self.model.target[self.counts]

    def _size(self, residuals: Vector) -> float:
        """Return the mean residual."""
        return float(np.sum(self.share * np.abs(residuals[: self.n])))

    def _coordinates(self, x: Vector) -> Vector:
        """Return w with Tw = x, as near as the columns that are not left out allow."""
        w, scaled = np.zeros(self.dimension), x * self.unit
        margins = np.zeros(self.n)
        for column, step in zip(self.columns, x, strict=True):
            margins += step * column
        w[: self.rank] = np.einsum("ri,i->r", self.rows[: self.rank, : self.n], self.share * margins)
        if self.rank < self.dimension:
            rest = scaled - self.T[:, : self.rank] @ w[: self.rank]
            w[self.rank :] = np.linalg.lstsq(self.T[:, self.rank :], rest, rcond=None)[0]
        return w

    def _moved(self, w: Vector) -> Vector:
        """Return how all rows change with w."""
        return np.asarray(np.einsum("r,ri->i", w, self.rows), np.float64)

    def _descended(self, basis: Rows, move: float) -> tuple[Rows, Vector]:
        """Follow edges for as long as ψ falls, with moved kinks; return the last basis and its u."""
        kinks = self.kinks + move * (0.5 + np.modf(_GOLDEN * np.arange(1, self.kinks.size + 1))[0] / 2)
        rounding = 4 * _EPS * (math.sqrt(self.n) + 100)  # of a slope, relative to the terms that it is summed from
        u = np.zeros(kinks.size)
        for _ in range(_LEAST_EDGES + _EDGES_PER_FEATURE * self.dimension):
            matrix = self.rows[:, basis].T
            inverse = _inverse(matrix)
            w = inverse @ kinks[basis]
            w = w + inverse @ (kinks[basis] - matrix @ w)
            s = self._moved(w) - kinks
            u = np.where(s > 0, self.high, self.low)
            u[basis] = 0.0
            gradient, terms = np.einsum("ri,i->r", self.rows, u), float(np.sum(np.abs(u) * self.row_length))
            y = -(gradient @ inverse)
            y = y - (gradient + y @ matrix) @ inverse
            low, high = self.low[basis], self.high[basis]
            beyond = np.maximum(y - high, low - y)
            slope = beyond / np.sqrt(np.sum(inverse**2, axis=0))  # of ψ along each edge
            u[basis] = np.clip(y, low, high)
            leaves = int(np.argmax(slope))
            # Samples with nearly all of the weight may have no slope left: it is then that of the others.
            flat = rounding * min(self.model.loss.lipschitz, terms)
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
        """Return the row whose kink is at the minimum of ψ along an edge; None where rounding leaves none."""
        v = self._moved(edge)
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

    def _basis_near(self, w: Vector) -> Rows:
        """Return independent rows that are near their kinks at w, the nearest first, completed by any others."""
        s = np.abs(self._moved(w) - self.kinks)
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
        """Return what is left of all rows beside those of a part of a basis."""
        left, directions = self.rows, np.linalg.qr(self.rows[:, basis])[0]
        for direction in (*directions.T, *directions.T):
            left = left - np.outer(direction, np.einsum("r,ri->i", direction, left))
        return np.asarray(left, np.float64)

    def _vertex(self, basis: Rows, u: Vector) -> Vertex:
        """Return the vertex of a basis, with the kinks where they are, and its error by u."""
        x = self._coefficients(basis)
        margins, psi, rounding = self._values(x)
        if (
            self.flattest == 0 and rounding > _ROUNDING_SHARE * psi
        ):  # rounding of margins on the flat side costs nothing
            beyond = self._coefficients(basis, _BEYOND_KINK_FACTOR * self._changes(x))
            others = self._values(beyond)
            if others[1] + others[2] < psi + rounding:
                x, (margins, psi, rounding) = beyond, others
        inverse = _inverse(self.rows[:, basis].T)
        for _ in range(2):
            u = u.copy()
            u[basis] = np.clip(u[basis] - self._imbalance(u) @ inverse, self.low[basis], self.high[basis])
        slopes = np.zeros(self.model.n_margins)
        slopes[self.counts] = u[: self.n] / self.share
        gap = self._gap(x, margins, psi, u)
        removal = self._removal(x, basis, inverse, u) if gap < psi else np.zeros(x.size)
        return Vertex(x, psi, margins, slopes, min(gap, psi) + rounding, rounding, removal)  # no ψ is below 0

    def _values(self, x: Vector) -> tuple[Vector, float, float]:
        """Return margins, ψ and how far ψ may be off by rounding."""
        margins = self.model.origin
        for column, coefficient in zip(self.whole, x, strict=True):
            margins += coefficient * column
        psi, rounding = self.model.value_of(margins), self._rounding(x, margins)
        if rounding > _ROUNDING_SHARE * psi:
            exact = self.model.origin.astype(np.longdouble)
            for column, coefficient in zip(self.whole, x, strict=True):
                exact += np.longdouble(coefficient) * column
            margins = exact.astype(np.float64)
            psi, rounding = self.model.value_of(margins), self._rounding(x, margins)
        return margins, psi, rounding

    def _coefficients(self, basis: Rows, beyond: Vector | None = None) -> Vector:
        """Return the coefficients at which all rows of a basis are at their kinks; or beyond, where ψ is flat."""
        x, samples = np.zeros(len(self.columns)), basis[basis < self.n]
        free = np.setdiff1d(self.kept, self.kept[basis[basis >= self.n] - self.n])
        if free.size:
            matrix = np.array([self.columns[j][samples] / self.unit[j] for j in free]).T
            kinks = self.kinks[samples]
            if beyond is not None:
                kinks = kinks + np.where(self.low[samples] == 0, -beyond[samples], beyond[samples])
            x[free] = _solved(matrix, kinks)
        x[self.nonnegative] = np.maximum(x[self.nonnegative], 0.0)
        return np.asarray(x / self.unit, np.float64)

    def _imbalance(self, u: Vector) -> Vector:
        """Return the sum of all rows times u, from the columns as they are."""
        sums = np.array([float(np.sum(u[: self.n] * column)) for column in self.columns]) / self.unit
        return np.asarray(self.T.T @ sums + self.rows[:, self.n :] @ u[self.n :], np.float64)

    def _gap(self, x: Vector, margins: Vector, psi: float, u: Vector) -> float:
        """Return a bound on ψ(x) − min ψ, but for the rounding of ψ(x)."""
        s = margins[self.counts] - self._targets()
        low, high = self.low[: self.n], self.high[: self.n]
        gap = float(np.sum(np.maximum(low * s, high * s) - u[: self.n] * s))
        gap += float(np.sum(-u[self.n :] * (x * self.unit)[self.kept] / self.length))
        if self.flattest > 0:
            reach = 2 * psi / self.flattest
        else:
            reach = _HINGE_REACH_FACTOR * (self._size(s) + self._size(self.kinks))
        left = self._imbalance(u)
        gap += 2 * float(np.sum(np.abs(left[self.rank :])) * np.max(np.abs(x * self.unit), initial=0.0))
        return gap + reach * float(np.max(np.abs(self._moved(left)[: self.n]), initial=0.0))

    def _rounding(self, x: Vector, margins: Vector) -> float:
        """Return how far ψ(x) may be off by rounding."""
        s, change = margins[self.counts] - self._targets(), self._changes(x)
        low, high = self.low[: self.n], self.high[: self.n]
        value, below, above = (np.maximum(low * at, high * at) for at in (s, s - change, s + change))
        return float(np.sum(np.maximum(below, above) - value))

    def _changes(self, x: Vector) -> Vector:
        """Return how far rounding may move the margins at x, one number for each sample."""
        terms = np.abs(self._targets()) + np.abs(self.model.origin[self.counts]) + self.noise @ np.abs(x) / _EPS
        for column, coefficient in zip(self.columns, x, strict=True):
            terms = terms + np.abs(coefficient * column)
        return np.asarray(2 * _EPS * terms, np.float64)

    def _removal(self, x: Vector, basis: Rows, inverse: Matrix, u: Vector) -> Vector:
        """Return a bound on what min ψ rises by where one coefficient is set to 0.

        Any u with Σ_i u_i a_i = t e_j bounds ψ where x_j = 0, by −t x_j more than u with t = 0. u_B is changed until
        the first of its numbers reaches a bound.
        """
        found = np.zeros(x.size)
        low, high = np.maximum(u - self.low, 0.0)[basis], np.maximum(self.high - u, 0.0)[basis]
        places = np.flatnonzero((x != 0) & ~self.replaced)
        if places.size:
            step = -np.sign(x[places])[:, None] * (self.T[places] @ inverse)
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(step > 0, high / step, np.where(step < 0, -low / step, np.inf))
            found[places] = np.abs(x[places]) * self.unit[places] * np.min(room, axis=1)
        return np.where(np.isfinite(found), found * (1 - _KINK_MOVE_SHARE), 0.0)

    def _by_linear_program(self, best: Vertex) -> Vertex:
        """Return the best of a vertex and those that HiGHS leads to, where there is time for it."""
        limit = min(_PROGRAM_SECONDS, self.seconds_left())
        if self.rows.size > _PROGRAM_ENTRIES or not limit > 0:
            return best
        from scipy.optimize import linprog  # a tenth of a second to import, and rarely needed

        unit, share = self._size(self.kinks) or 1.0, float(np.mean(self.share))
        found = linprog(
            self.kinks / unit,
            A_eq=self.rows,
            b_eq=np.zeros(self.dimension),
            bounds=list(zip((self.low / share).tolist(), (self.high / share).tolist(), strict=True)),
            method="highs",
            options={"time_limit": limit},
        )
        if found.status != 0 or found.x is None:
            return best
        basis = self._basis_near(unit * found.eqlin.marginals)
        at_optimum = self._vertex(basis, np.clip(share * found.x, self.low, self.high))
        descended = self._vertex(*self._descended(basis, 0.0))
        return min(best, at_optimum, descended, key=lambda vertex: vertex.error)


def _inverse(matrix: Matrix) -> Matrix:
    """Return the inverse of a small matrix; a pseudo-inverse where it has none."""
    try:
        return np.asarray(np.linalg.inv(matrix), np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(matrix), np.float64)


def _solved(matrix: Matrix, right: Vector) -> Vector:
    """Solve a small linear system, with residuals in extended precision."""
    try:
        x = np.linalg.solve(matrix, right)
        for _ in range(2):
            residual = right.astype(np.longdouble) - matrix.astype(np.longdouble) @ x.astype(np.longdouble)
            x = x + np.linalg.solve(matrix, residual.astype(np.float64))
    except np.linalg.LinAlgError:
        x = np.linalg.lstsq(matrix, right, rcond=None)[0]
    return np.asarray(x, np.float64)
