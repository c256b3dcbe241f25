"""Minimise a loss with kinks over a few features exactly, and bound the error of the result.

    ψ(x) = Σ_i p_i max(lo_i s_i, hi_i s_i),      s_i = ⟨a_i, x⟩ + o_i − b_i,      p_i = sample weight / Σ

is minimised by the simplex method, in coordinates in which the columns are orthonormal (`simplex.py`). Where each class
is fitted against the others, only the features tie the classes together: over a given set each class is minimised by
itself.

**Error.** For any u within its bounds and any x*,

    ψ(x) − ψ(x*) ≤ Σ_i (p_i ℓ_i(s_i) − u_i s_i) + ⟨A'u, x − x*⟩.

Every term of the sum is at least 0, and A'u is 0 up to rounding. What is left of it, r = T'A'u, costs at most
max_i |⟨q_i, r⟩| Σ p_i |s_i − s*_i|, q_i the rows in the coordinates w; and Σ p_i |s*_i| ≤ ψ(x)/min(|lo|, hi). For the
hinge loss, where that minimum is 0, Σ p_i |s_i − s*_i| is taken to be at most 16 times the mean of |s| and |b|: u is
then feasible for columns that differ from these by rounding.
A refit whose error is not small is repeated with smaller moves of the kinks, and then with a linear program (HiGHS).

**Nearly dependent columns.** Their coefficients may be so large that the rounding of their products with the columns
changes ψ. The margins are then summed in extended precision, and the refit is repeated without columns of which little
is left after projection on the others. The vertex with the lower ψ, its rounding included, is returned. Its error is
computed from the bound on ψ over all columns. For the hinge loss the margins of the basis are also put a little beyond
their kinks, where the loss is flat: their rounding then costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from levelprox._typing import Features, Mask, Matrix, Rows, Vector
from levelprox.certificate import certify
from levelprox.certificate.null_model import NullFit
from levelprox.losses.moreau import Kinked
from levelprox.methods import Stop
from levelprox.objectives import LinearModel, OneVsRestModel
from levelprox.problem import FeatureProblem, Problem
from levelprox.subset.column_cache import Columns
from levelprox.subset.fit import Fit, begun_at
from levelprox.subset.simplex import EPS, Coordinates, Simplex, inverse_of, solved

_DEPENDENT_SHARE = 2.0**-43  # of the norm of a column: the least part that is independent of the others
_NEARLY_DEPENDENT_SHARES = (2.0**-36, 2.0**-26, 2.0**-16)  # the same, where rounding of coefficients matters
_ROUNDING_SHARE = 1e-9  # of ψ: rounding beyond which it does
_NO_LOSS_SHARE = 1e-13  # of the mean of |b| and |o|: no vertex has a ψ that is lower than such a one by more
_BARRIER_FACTOR = 4.0  # times the steepest ψ can be in x_j: the slope where x_j < 0 must not be
_KINK_MOVE_SHARE = 1e-9  # of the mean residual: by how much kinks are moved
_LEAST_KINK_MOVE_SHARE = 2.0**-44  # of the largest kink
_SMALLER_MOVE_FACTOR = 1e-3  # times that: where it was too far
_REPETITIONS = 3
_EXACT_ERROR_SHARE = 1e-11  # of ψ: an error that needs no repetition
_POOR_ERROR_SHARE = 1e-7  # of ψ: an error that needs a linear program
_HINGE_REACH_FACTOR = 16.0
_BEYOND_KINK_FACTOR = 4.0  # times the rounding of a margin: how far from its kink it is safe
_PROGRAM_ENTRIES, _PROGRAM_SECONDS = 2 * 10**6, 0.5  # of a linear program: it does not answer Ctrl-C
_AT_KINKS_SHARE = 0.01  # of the mean residual: then the median says nothing
_WEIGHT_ROUNDING_SHARE = 1e-9  # of all weights


@dataclass(frozen=True, eq=False)
class ExactFit(Fit):
    """ψ minimised exactly, and what shows it.

    Attributes
    ----------
    slopes : tuple of ndarray of shape (n,)
        Elements of ∂ℓ, one for each sample, with which ψ is stationary; one array for each class.
    error : float
        A bound on how far ψ is above its minimum over these features, rounding included.
    rounding : float
        How far ψ may be off by rounding.
    removal : ndarray
        For each feature, what the minimum rises by at least if it is left out.
    """

    slopes: tuple[Vector, ...] = field(default_factory=tuple)
    error: float = math.inf
    rounding: float = 0.0
    removal: Vector = field(default_factory=lambda: np.empty(0))

    def without_zeros(self, problem: FeatureProblem) -> ExactFit:
        """Leave out features whose coefficients are 0: ψ is the same, and bounds on it hold for fewer features."""
        x = self.x.reshape(self.features.size, problem.n_outputs)
        stays = np.any(x != 0, axis=1) | ~problem.counts(self.features)
        return replace(self, features=self.features[stays], x=x[stays].ravel(), removal=self.removal[stays])


class ExactRefits:
    """Exact fits of a model whose loss has kinks.

    Parameters
    ----------
    problem : Problem
        ψ, a `LinearModel` or `OneVsRestModel`, and signs; its level does not matter.
    """

    def __init__(self, problem: FeatureProblem) -> None:
        objective = problem.objective
        assert isinstance(objective, LinearModel | OneVsRestModel)
        self.problem, self.objective = problem, objective
        self.parts = (objective,) if isinstance(objective, LinearModel) else objective.parts
        self.columns = Columns(self.parts[0])
        self.noise = self.parts[0].column_noise()

    def __call__(self, features: Features, near: Fit, seconds_left: Callable[[], float]) -> ExactFit:
        """Minimise ψ over these features, from the coefficients of another fit."""
        n, n_outputs = self.parts[0].n_margins, len(self.parts)
        columns = [column.dense(n) for column in self.columns(features)]
        begin = begun_at(near, features, n_outputs).reshape(-1, n_outputs)
        signs = self.problem.must_be_nonnegative()[features] if n_outputs == 1 else np.zeros(features.size, np.bool_)
        coordinates = dict[float, Coordinates]()  # of all classes
        noise = None if self.noise is None else self.noise[features]
        found = [
            minimised(part, columns, signs, np.ascontiguousarray(begin[:, k]), seconds_left, coordinates, noise)
            for k, part in enumerate(self.parts)
        ]
        x = np.stack([one.x for one in found], axis=1).ravel()
        margins = found[0].margins if n_outputs == 1 else np.stack([one.margins for one in found]).T
        psi, error, rounding = (math.fsum(getattr(one, name) for one in found) for name in ("psi", "error", "rounding"))
        slopes, removal = tuple(one.slopes[0] for one in found), np.sum([one.removal for one in found], axis=0)
        return ExactFit(features, x, psi, margins, slopes=slopes, error=error, rounding=rounding, removal=removal)

    def distance(self, fit: Fit) -> float:
        """Return how far margins are from their kinks: the weighted median, or the mean where most are at kinks."""
        margins = fit.margins.reshape(self.parts[0].n_margins, -1)
        off = np.concatenate([np.abs(margins[:, k] - part.target) for k, part in enumerate(self.parts)])
        weight = self.objective.sample_weight
        share = np.ones(margins.shape[0]) if weight is None else weight
        share = np.tile(share, len(self.parts))
        share = share / share.sum()
        order = np.argsort(off, kind="stable")
        middle = off[order[np.searchsorted(np.cumsum(share[order]), 0.5 - _WEIGHT_ROUNDING_SHARE)]]
        mean = float(np.sum(share * off))
        return (float(middle) if middle > _AT_KINKS_SHARE * mean else mean) or 1.0

    def stationarity(self, fit: Fit, null: NullFit, seconds: float) -> float:
        """Return dist∞(0, ∂ψ) over the features of a fit, from the data, relative to the null fit's gradient."""
        if not fit.features.size:
            return 0.0
        rows, worst = fit.x.reshape(-1, len(self.parts)), 0.0
        signs = self.problem.restrict(fit.features).must_be_nonnegative() if len(self.parts) == 1 else None
        for k, part in enumerate(self.parts):
            free = Problem.unconstrained(part.restrict(fit.features), signs)
            hint = fit.slopes[k] if isinstance(fit, ExactFit) else None
            own = replace(null, x=null.x.reshape(-1, len(self.parts))[fit.features, k])
            found = certify(free, np.ascontiguousarray(rows[:, k]), own, hint=hint, seconds=seconds)
            worst = max(worst, found.stationarity / null.scale)
        return worst


def minimised(
    model: LinearModel,
    columns: list[Vector],
    nonnegative: Mask,
    near: Vector,
    seconds_left: Callable[[], float] = lambda: math.inf,
    coordinates: dict[float, Coordinates] | None = None,
    noise: Vector | None = None,
) -> ExactFit:
    """Minimise ψ of one class over a few features.

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
    whole = best = _VertexRefit(model, columns, nonnegative, seconds_left, known, noise=noise)(near)
    for dependent in _NEARLY_DEPENDENT_SHARES:
        no_loss = whole.psi + whole.rounding <= _NO_LOSS_SHARE * _size_of_targets(model)
        if no_loss or not whole.rounding > _ROUNDING_SHARE * whole.psi:
            break
        try:
            refit = _VertexRefit(model, columns, nonnegative, seconds_left, known, dependent, noise)
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


class _VertexRefit(Simplex):
    """One refit: the vertex, its coefficients and its error.

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
        self.model, self.whole, self.nonnegative = model, columns, nonnegative
        self.noise = np.zeros(len(columns)) if noise is None else noise
        share = np.ones(model.n_margins) if model.sample_weight is None else model.sample_weight
        self.counts = slice(None) if np.all(share > 0) else np.flatnonzero(share > 0)
        self.columns = [column[self.counts] for column in columns]
        self.share = share[self.counts] / share.sum()
        low, high = model.loss.slopes(model.target[self.counts])
        self.flattest = float(min(np.min(-low), np.min(high)))
        kinks = (model.target - model.origin)[self.counts]
        if dependent not in known:
            uncentred = self.noise / EPS if dependent > _DEPENDENT_SHARE else None
            known[dependent] = Coordinates(self.columns, self.share, nonnegative, seconds_left, dependent, uncentred)
        at, steepest = known[dependent], model.loss.lipschitz
        self.unit, self.T, self.rank, self.kept = at.unit, at.T, at.rank, at.kept
        # The slopes where x_j < 0 must not be: ψ is less steep in x_j.
        steep = [_BARRIER_FACTOR * float(np.sum(self.share * np.abs(self.columns[j]))) / at.unit[j] for j in at.kept]
        held = np.where(nonnegative[at.kept], steepest * np.array(steep) * at.length, 0.0)
        none = np.zeros(at.kept.size)
        low, high = np.concatenate([self.share * low, -held]), np.concatenate([self.share * high, none])
        super().__init__(at, low, high, np.concatenate([kinks, none]), steepest, seconds_left)

    def __call__(self, near: Vector) -> ExactFit:
        if not self.dimension:
            return self._vertex(np.empty(0, np.intp), np.where(self.kinks < 0, self.high, self.low))
        w = self.at.of_coefficients(near, self.columns, self.share)
        # Moves below the last digits of the kinks move none, as where only samples with little weight have residuals.
        least = _LEAST_KINK_MOVE_SHARE * float(np.max(np.abs(self.kinks), initial=0.0))
        move = max(_KINK_MOVE_SHARE * self._size(self.moved(w) - self.kinks), least)
        basis, u = self.descended(self.basis_near(w), move)
        best = self._vertex(basis, u)
        for _ in range(_REPETITIONS):
            if best.error <= _EXACT_ERROR_SHARE * best.psi + 8 * best.rounding or self.seconds_left() <= 0:
                break
            # ψ may be far smaller than at the start, and the moves of the kinks too large for it.
            move = min(
                _SMALLER_MOVE_FACTOR * move, _KINK_MOVE_SHARE * self._size(best.margins[self.counts] - self._targets())
            )
            basis, u = self.descended(basis, move)
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

    def _vertex(self, basis: Rows, u: Vector) -> ExactFit:
        """Return the vertex of a basis, with the kinks where they are, and its error by u."""
        x = self._coefficients(basis)
        margins, psi, rounding = self._values(x)
        if self.flattest == 0 and rounding > _ROUNDING_SHARE * psi:  # of margins on the flat side it costs nothing
            beyond = self._coefficients(basis, _BEYOND_KINK_FACTOR * self._changes(x))
            others = self._values(beyond)
            if others[1] + others[2] < psi + rounding:
                x, (margins, psi, rounding) = beyond, others
        inverse = inverse_of(self.rows[:, basis].T)
        for _ in range(2):
            u = u.copy()
            u[basis] = np.clip(u[basis] - self._imbalance(u) @ inverse, self.low[basis], self.high[basis])
        slopes = np.zeros(self.model.n_margins)
        slopes[self.counts] = u[: self.n] / self.share
        gap = self._gap(x, margins, psi, u)
        removal = self._removal(x, basis, inverse, u) if gap < psi else np.zeros(x.size)
        error, places = min(gap, psi) + rounding, np.arange(x.size)  # no ψ is below 0
        return ExactFit(places, x, psi, margins, slopes=(slopes,), error=error, rounding=rounding, removal=removal)

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
            x[free] = solved(matrix, kinks)
        x[self.nonnegative] = np.maximum(x[self.nonnegative], 0.0)
        return np.asarray(x / self.unit, np.float64)

    def _imbalance(self, u: Vector) -> Vector:
        """Return the sum of all rows times u, from the columns as they are."""
        sums = np.array([float(np.sum(u[: self.n] * column)) for column in self.columns]) / self.unit
        return np.asarray(self.T.T @ sums + self.rows[:, self.n :] @ u[self.n :], np.float64)

    def _gap(self, x: Vector, margins: Vector, psi: float, u: Vector) -> float:
        """Return a bound on ψ(x) − min ψ, up to the rounding of ψ(x)."""
        s = margins[self.counts] - self._targets()
        low, high = self.low[: self.n], self.high[: self.n]
        gap = float(np.sum(np.maximum(low * s, high * s) - u[: self.n] * s))
        gap += float(np.sum(-u[self.n :] * (x * self.unit)[self.kept] / self.at.length))
        if self.flattest > 0:
            reach = 2 * psi / self.flattest
        else:
            reach = _HINGE_REACH_FACTOR * (self._size(s) + self._size(self.kinks))
        left = self._imbalance(u)
        gap += 2 * float(np.sum(np.abs(left[self.rank :])) * np.max(np.abs(x * self.unit), initial=0.0))
        return gap + reach * float(np.max(np.abs(self.moved(left)[: self.n]), initial=0.0))

    def _rounding(self, x: Vector, margins: Vector) -> float:
        """Return how far ψ(x) may be off by rounding."""
        s, change = margins[self.counts] - self._targets(), self._changes(x)
        low, high = self.low[: self.n], self.high[: self.n]
        value, below, above = (np.maximum(low * at, high * at) for at in (s, s - change, s + change))
        return float(np.sum(np.maximum(below, above) - value))

    def _changes(self, x: Vector) -> Vector:
        """Return how far rounding may move the margins at x, one number for each sample."""
        terms = np.abs(self._targets()) + np.abs(self.model.origin[self.counts]) + self.noise @ np.abs(x) / EPS
        for column, coefficient in zip(self.columns, x, strict=True):
            terms = terms + np.abs(coefficient * column)
        return np.asarray(2 * EPS * terms, np.float64)

    def _removal(self, x: Vector, basis: Rows, inverse: Matrix, u: Vector) -> Vector:
        """Return a bound on what min ψ rises by where one coefficient is set to 0.

        Any u with Σ_i u_i a_i = t e_j bounds ψ where x_j = 0, by −t x_j more than u with t = 0. u_B is changed until
        the first of its numbers reaches a bound.
        """
        found = np.zeros(x.size)
        low, high = np.maximum(u - self.low, 0.0)[basis], np.maximum(self.high - u, 0.0)[basis]
        places = np.flatnonzero((x != 0) & ~self.at.replaced)
        if places.size:
            step = -np.sign(x[places])[:, None] * (self.T[places] @ inverse)
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(step > 0, high / step, np.where(step < 0, -low / step, np.inf))
            found[places] = np.abs(x[places]) * self.unit[places] * np.min(room, axis=1)
        return np.where(np.isfinite(found), found * (1 - _KINK_MOVE_SHARE), 0.0)

    def _by_linear_program(self, best: ExactFit) -> ExactFit:
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
        basis = self.basis_near(unit * found.eqlin.marginals)
        at_optimum = self._vertex(basis, np.clip(share * found.x, self.low, self.high))
        descended = self._vertex(*self.descended(basis, 0.0))
        return min(best, at_optimum, descended, key=lambda vertex: vertex.error)
