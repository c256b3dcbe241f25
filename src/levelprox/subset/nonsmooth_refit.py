"""Minimise a loss with kinks over a few features exactly, and bound the error of the result.

Where each class is fitted against the others, only the features tie the classes together: over a given set each class
is minimised by itself, by the compiled simplex method. The method, its bounds and their rounding are described in
`kernels/algorithms/kinked_fits.hpp`. A fit whose error is not small is repeated from the solution of a linear program
(HiGHS).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import levelprox._kernels as _kernels
from levelprox._typing import Features, Mask, Vector
from levelprox.certificate import certify
from levelprox.certificate.null_model import NullFit
from levelprox.losses.moreau import Kinked
from levelprox.methods import Stop
from levelprox.objectives import LinearModel, OneVsRestModel
from levelprox.problem import FeatureProblem, Problem, SubsetProblem
from levelprox.subset.column_cache import Columns
from levelprox.subset.fit import Fit, begun_at

_LEAST_EDGES, _EDGES_PER_FEATURE = 200, 50  # edges of a descent, and for each feature
_POOR_ERROR_SHARE = 1e-7  # of ψ: an error that needs a linear program
_POOR_ROUNDINGS = 64
_MODEL_ENTRIES, _MODEL_FEATURES, _MODEL_SAMPLES_PER_FEATURE = 10**6, 400, 50  # of X, for second-order models
_PROGRAM_ENTRIES, _PROGRAM_SECONDS = 2 * 10**6, 0.5  # of a linear program: it does not answer Ctrl-C
_AT_KINKS_SHARE = 0.01  # of the mean residual: then the median says nothing
_WEIGHT_ROUNDING_SHARE = 1e-9  # of all weights

#: x, ψ, margins, slopes of the samples, a bound on the error of ψ, its rounding, and costs of removal.
Found = tuple[Vector, float, Vector, Vector, float, float, Vector]


class KinkedModel:
    """Exact fits of ψ of one class over a few columns.

    Parameters
    ----------
    model : LinearModel
        ψ, with a loss with kinks; its design is not used.
    """

    def __init__(self, model: LinearModel) -> None:
        assert isinstance(model.loss, Kinked)
        self.model = model
        self.low, self.high = model.loss.slopes(model.target)
        self.origin = model.origin
        samples = model.target, model.sample_weight, self.origin, self.low, self.high
        self.fits = _kernels.KinkedFits(model.loss.name, model.loss.parameter, *samples)

    def columns(self, columns: list[Vector], nonnegative: Mask) -> _kernels.KinkedColumns:
        """Return columns for `fit`, with their coordinates; they must be kept by the caller."""
        signs = np.ascontiguousarray(nonnegative, np.uint8)
        return _kernels.KinkedColumns(self.model.n_margins, columns, self.model.sample_weight, signs)

    def fit(self, columns: _kernels.KinkedColumns, x: Vector, noise: Vector, slopes: Vector | None = None) -> Found:
        """Return the fit from a vertex near x; where slopes are given, these are tried as the dual solution."""
        limits = _LEAST_EDGES, _EDGES_PER_FEATURE
        return self.fits.fit(columns, x.tolist(), noise.tolist(), *limits, slopes)

    def by_linear_program(
        self, columns: list[Vector], nonnegative: Mask, seconds: float
    ) -> tuple[Vector, Vector] | None:
        """Return x and slopes of the samples from HiGHS; None where it fails."""
        from scipy.optimize import linprog  # a tenth of a second to import, and rarely needed

        weight = np.ones(self.model.n_margins) if self.model.sample_weight is None else self.model.sample_weight
        counts = np.flatnonzero(weight > 0)
        share = weight[counts] / weight[counts].sum()
        kinks = (self.model.target - self.origin)[counts]
        values = [np.ascontiguousarray(column[counts]) for column in columns]
        vectors, coordinates = _kernels.orthonormal_basis(values, [None] * len(values), share)
        signs = np.flatnonzero(nonnegative)
        by_sign = np.linalg.pinv(coordinates)[:, signs]  # the rows x_j of columns that do not depend on each other
        unit, size = float(np.sum(share * np.abs(kinks))) or 1.0, float(np.mean(share))
        low, high = share * self.low[counts] / size, share * self.high[counts] / size
        found: Any = linprog(
            np.append(kinks / unit, np.zeros(signs.size)),
            A_eq=np.hstack([vectors, by_sign]),
            b_eq=np.zeros(vectors.shape[0]),
            bounds=[*zip(low.tolist(), high.tolist(), strict=True), *[(None, 0.0)] * signs.size],
            method="highs",
            options={"time_limit": seconds},
        )
        if found.status != 0 or found.x is None:
            return None
        slopes = np.zeros(weight.size)
        slopes[counts] = found.x[: counts.size] * size / share
        x = np.linalg.lstsq(coordinates.T, unit * found.eqlin.marginals, rcond=None)[0]
        return np.asarray(x, np.float64), slopes


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
        self.kinked = [KinkedModel(part) for part in self.parts]
        self.columns = Columns(self.parts[0])
        self.noise = self.parts[0].design.column_noise()

    def __call__(self, features: Features, near: Fit, seconds_left: Callable[[], float]) -> ExactFit:
        """Minimise ψ over these features, from the coefficients of another fit."""
        n, n_outputs = self.parts[0].n_margins, len(self.parts)
        columns = [column.dense(n) for column in self.columns(features)]
        begin = begun_at(near, features, n_outputs).reshape(-1, n_outputs)
        signs = self.problem.must_be_nonnegative()[features] if n_outputs == 1 else np.zeros(features.size, np.bool_)
        shared = self.kinked[0].columns(columns, signs)  # with coordinates, for all classes
        noise = None if self.noise is None else self.noise[features]
        found = [
            exact_fit(kinked, columns, signs, np.ascontiguousarray(begin[:, k]), seconds_left, noise, shared)
            for k, kinked in enumerate(self.kinked)
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


def rooms(problem: SubsetProblem, fit: Fit) -> list[float]:
    """Return what a feature may cost that takes the place of each that may be left out; inf without a budget."""
    places = np.flatnonzero(problem.counts(fit.features)).tolist()
    if problem.costs is None:
        return [math.inf] * len(places)
    return [problem.costs.room(np.delete(fit.features, i).tolist()) for i in places]


def has_large_models(problem: FeatureProblem) -> bool:
    """Return whether the data are so large that second-order models say enough: of a loss with kinks, its envelope.

    Of a bounded loss they do not: ψ has many local minima.
    """
    model = problem.objective
    if problem.costs is not None or not isinstance(model, LinearModel) or not model.loss.attained:
        return False
    n, d = model.design.shape
    large = n * d >= _MODEL_ENTRIES and d <= _MODEL_FEATURES and n >= _MODEL_SAMPLES_PER_FEATURE * d
    return large and not np.any(problem.must_be_nonnegative())


def exact_fit(
    model: LinearModel | KinkedModel,
    columns: list[Vector],
    nonnegative: Mask,
    near: Vector,
    seconds_left: Callable[[], float] = lambda: math.inf,
    noise: Vector | None = None,
    shared: _kernels.KinkedColumns | None = None,
) -> ExactFit:
    """Minimise ψ of one class over a few features.

    Parameters
    ----------
    model : LinearModel or KinkedModel
        ψ, with a loss with kinks; its design is not used.
    columns : list of ndarray of shape (n,)
        The columns of these features.
    nonnegative : ndarray of bool
        Which coordinates must not be negative.
    near : ndarray
        Where to begin: at a vertex whose kinks are near to it.
    seconds_left : callable
        Returns the time that is left.
    noise : ndarray, optional
        What rounding a coefficient of 1 does to margins besides, one number for each column: where columns are centred.
    shared : KinkedColumns, optional
        The same columns, with coordinates that classes share.

    Raises
    ------
    Stop
        If no time is left.
    """
    if not seconds_left() > 0:
        raise Stop
    kinked = model if isinstance(model, KinkedModel) else KinkedModel(model)
    noise = np.zeros(len(columns)) if noise is None else noise
    columns = [np.ascontiguousarray(column) for column in columns]
    shared = shared or kinked.columns(columns, nonnegative)
    best = _exact(kinked.fit(shared, near, noise))
    limit = min(_PROGRAM_SECONDS, seconds_left())
    poor = best.error > _POOR_ERROR_SHARE * best.psi + _POOR_ROUNDINGS * best.rounding
    if poor and len(columns) * kinked.model.n_margins <= _PROGRAM_ENTRIES and limit > 0:
        found = kinked.by_linear_program(columns, nonnegative, limit)
        if found is not None:
            best = min(best, _exact(kinked.fit(shared, found[0], noise, found[1])), key=lambda fit: fit.error)
    return best


def _exact(found: Found) -> ExactFit:
    x, psi, margins, slopes, error, rounding, removal = found
    places = np.arange(x.size)
    return ExactFit(places, x, psi, margins, slopes=(slopes,), error=error, rounding=rounding, removal=removal)
