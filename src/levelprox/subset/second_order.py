"""Fits over one set of features after another, and the second-order estimates of swaps around them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np

import levelprox._kernels as _kernels
from levelprox._typing import Features, Mask, Matrix, Vector
from levelprox.certificate.null_model import NullFit
from levelprox.methods import Stop
from levelprox.methods.restricted import SolverOptions
from levelprox.objectives import LinearModel, Model, MultinomialModel
from levelprox.problem import FeatureProblem
from levelprox.subset.column_cache import Columns, HessianColumns, is_near
from levelprox.subset.fit import Fit, begun_at, known_as_arrays, known_of_arrays
from levelprox.subset.local_search import Monitor
from levelprox.subset.multiclass_fit import ClassNewton
from levelprox.subset.refit import ACCURACY, ROUGH_ACCURACY, Refits
from levelprox.subset.swap_bounds import MANY_FEATURES, SwapEstimates, condition

MANY_CLASSES = 16  # beyond which the work of a search is bounded
_ILL_CONDITIONED = 1e6  # condition number of a Hessian from which on estimates come from an orthonormal basis
# Features along which ψ is straight whose gain is computed by a line search: at fits of few features, and of many.
_LINE_SEARCHES, _FEW_LINE_SEARCHES = 256, 32
_CHEAP_COORDINATES = 512  # whose whole Hessian is cheap
_CHEAP_SHARE = 8  # times the coordinates of a fit: up to so many the whole Hessian is cheap
_CHEAP_MULTIPLICATIONS = 10**9  # of a whole Hessian of many classes, where columns take longer
_EXPENSIVE_ENTRIES = 2**24  # stored of X, from which on columns of the Hessian are kept
_CURVATURE_CHANGE = 0.1  # share of the curvature of the samples by which estimates of swaps may be off
TRIES = 8  # swaps that are tried for one that lowers ψ
_SEARCH_FACTOR_WORK = 2 * 10**11  # of many classes: m³ for each Newton step, after which no more swaps are tried
_ROUGH_GRADIENT_SHARE = 1e-3  # of the gradient of the null fit
_ROUGH_KERNEL_COORDINATES = 150  # of a softmax model: beyond them rough fits need no kernel
_LOWER_SHARE = 1e-10  # of ψ: less is not an improvement
_LOWER_RESOLUTIONS = 4  # times the resolution of ψ: less is not an improvement
_AT_INFIMUM_SHARE = 1e-9  # of ψ at the null fit: so much above the infimum is not worth a feature
_PERFECT_ROUNDING_SHARE = 1e-6  # of ψ at the null fit: a fit whose rounding is more than that is not perfect
_SEPARATED_SHARE = 1e-15  # of ψ at the null fit: separated samples have no loss left
_FAR_FACTOR = 2.0**10  # times x: where separated samples have no loss left


class SecondOrder:
    """Gradient and Hessian of ψ at fits over a few features; `columns` are those of the same features, if at hand.

    Attributes
    ----------
    refits : Refits
    n_grad : int
        Passes over all features.
    newton : callable or None
        Returns the `ClassNewton` of a softmax model whose columns are side by side.
    """

    def __init__(self, problem: FeatureProblem, how: SolverOptions, columns: Columns | None = None) -> None:
        assert isinstance(problem.objective, Model)
        self.problem, self.how = problem, how
        self.objective = model = problem.objective
        self.refits, self.n_grad = Refits(problem, how, columns), 0
        self._hessian_columns = HessianColumns()
        self._keeps_columns = isinstance(model, LinearModel) and model.design.stored >= _EXPENSIVE_ENTRIES
        self._own: tuple[Vector, Matrix] | None = None
        self.newton: Callable[[], ClassNewton] | None = None

    def estimates(self, fit: Fit, exact: bool = True) -> SwapEstimates:
        """Return second-order estimates at a fit; unless `exact`, of large data with curvatures of a fit nearby."""
        fit = fit if self.refits.far is None else self.refits.far.nearer(fit)
        if self.newton is not None:
            self.check_time()
            self.n_grad += 1
            model = cast(MultinomialModel, self.objective)
            gradient, cross, own = model.derivatives_over(fit.margins, self.newton().columns, fit.features)
        else:
            change, bend = 0.0 if exact or not self._keeps_columns else _CURVATURE_CHANGE, self._bend(fit)
            gradient, cross = self.gradient(fit), self.columns_of(fit, change)
            if self._own is None or not is_near(self._own[0], bend, change):
                self._own = bend, self.objective.feature_hessians_of(fit.margins)
                self.n_grad += 1
            own = self._own[1]
        basis = None
        if self.problem.n_outputs == 1 and condition(cross[fit.features]) > _ILL_CONDITIONED:
            cross, basis = self._in_basis(fit, cross)
        figures = self.outside(fit), self._typical_curvature, basis, self._noise
        estimates = SwapEstimates(self.problem, fit, gradient, cross, own, *figures)
        self.look_along(estimates, fit)
        return estimates

    @cached_property
    def _noise(self) -> Vector | None:
        """The relative error of products with each column, where columns are centred."""
        if not isinstance(self.objective, LinearModel):
            return None
        noise = self.objective.relative_column_noise()
        return np.zeros(self.problem.n_features) if noise is None else noise

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
        most = _LINE_SEARCHES if self.problem.counted(fit.features).size <= MANY_FEATURES else _FEW_LINE_SEARCHES
        if straight.size > most:
            size = np.abs(estimates.gradient[straight, 0]) / np.sqrt(estimates.own[straight, 0, 0])
            straight = np.sort(straight[np.argsort(-size, kind="stable")[:most]])
        self.check_time()
        least = self.refits.least_along(straight, fit.margins)
        estimates.least_gain[:] = 0.0
        if least is not None:
            gain = fit.psi - least
            signs = self.problem.must_be_nonnegative()[straight] & (estimates.gradient[straight, 0] >= 0)
            estimates.least_gain[straight] = np.where(signs | ~np.isfinite(gain), 0.0, np.maximum(gain, 0.0))

    @cached_property
    def _typical_curvature(self) -> Vector | None:
        """A typical curvature of ψ along each feature, for a loss whose curvature changes."""
        objective = self.objective
        if objective.self_concordance == 0:
            return np.zeros(self.problem.n_features)
        return objective.typical_curvatures() if isinstance(objective, LinearModel) else None

    @cached_property
    def magnitudes(self) -> Vector:
        """By how much a coordinate of 1 changes a margin at most."""
        return self.objective.column_magnitudes()

    def outside(self, fit: Fit) -> Mask:
        """Return which features are not in a fit and have a column that is not zero."""
        outside: Mask = np.max(self.magnitudes.reshape(self.problem.n_features, -1), axis=1) > 0
        outside[fit.features] = False
        return outside

    def columns_of(self, fit: Fit, change: float = 0.0) -> Matrix:
        """Return the columns of ∇²ψ that belong to the fit; curvatures may differ by a share of at most `change`."""
        features, changes = fit.features, self.objective.self_concordance > 0 or self.problem.n_outputs > 1
        if changes and self._whole_is_cheap(fit):
            self.n_grad += 1
            hessian = self.objective.hessian_of(fit.margins, True)
            if self.problem.n_outputs == 1:
                self._own = self._bend(fit), np.diagonal(hessian).reshape(-1, 1, 1).copy()
            return hessian[:, self.problem.coordinates(features)]
        if changes and not self._keeps_columns:
            return self._cross(fit.margins, features)
        at = self.problem.dimension, self._bend(fit), change
        return self._hessian_columns(features, *at, partial(self._cross, fit.margins))

    def _bend(self, fit: Fit) -> Vector:
        """Return what ∇²ψ depends on at a fit; empty where it is the same everywhere."""
        z = fit.margins if self.objective.self_concordance > 0 else np.empty(0)
        return self.objective.bend_of(z, True) if isinstance(self.objective, LinearModel) and z.size else z

    def _whole_is_cheap(self, fit: Fit) -> bool:
        """Return whether the whole Hessian costs no more than the columns that belong to a fit."""
        d, n_outputs = self.problem.dimension, self.problem.n_outputs
        if self.objective.only_contrasts and n_outputs > MANY_CLASSES:  # each column takes a call for each class
            multiplications = self.objective.n_margins // n_outputs * d**2
            return d <= _CHEAP_SHARE * fit.x.size and multiplications <= _CHEAP_MULTIPLICATIONS
        return d <= min(_CHEAP_COORDINATES, _CHEAP_SHARE * fit.x.size)

    def _cross(self, margins: Vector, features: Features) -> Matrix:
        """Return the columns of ∇²ψ that belong to some features."""
        objective, count = self.objective, features.size * self.problem.n_outputs
        self.n_grad += count
        if not isinstance(objective, LinearModel) or not self.refits.columns.fit_in(features):
            return objective.cross_hessian_of(margins, self._timed(self.refits.columns.moves(features)), count, True)
        columns = (column.dense(objective.n_margins) for column in self.refits.columns(features))
        return objective.cross_hessian_over(margins, self._timed(columns), features, True)

    def _timed(self, moves: Iterator[Vector]) -> Iterator[Vector]:
        """Yield columns of the data, with a check of the time before each: a product with all others follows."""
        for move in moves:
            self.check_time()
            yield move

    def gradient(self, fit: Fit) -> Vector:
        """Return ∇ψ at a fit, over all features."""
        self.check_time()
        self.n_grad += 1
        return self.objective.gradient_of(fit.margins)

    def check_time(self) -> None:
        """Raise `Stop` where no time is left."""
        if self.how.seconds_left() <= 0:
            raise Stop


class SetFits(SecondOrder):
    """Fits over one set of features after another: the best so far, and the work that they took.

    Parameters
    ----------
    problem : Problem
        ψ, weights and signs; features of weight 0 are in every fit. Its level does not matter.
    start : Fit
        The null fit, or any other.
    null : NullFit
    tolerance : float
        On ‖∇ψ‖∞ over the features of each set.
    how : SolverOptions
    prove : bool
        Whether to examine all swaps, however long that takes.
    tries : int
        How many swaps that do not lower ψ are tried at one fit.
    columns : Columns, optional
        Of the same features, where they are at hand.

    Attributes
    ----------
    best, rough : Fit
        The best fit, and the best of the rough fits, to about three digits.
    accuracy : float
        What a refit may leave to gain, of ψ.
    n_grad, n_refits : int
        Passes over all features, and fits over a few of them.
    monitor : Monitor
        Reports and limits; without any until another is set.
    """

    def __init__(
        self,
        problem: FeatureProblem,
        start: Fit,
        null: NullFit,
        tolerance: float,
        how: SolverOptions,
        prove: bool = False,
        tries: int = TRIES,
        columns: Columns | None = None,
    ) -> None:
        super().__init__(problem, how, columns)
        self.best, self.rough, self.null = start, start, null
        self.tolerance, self.prove, self.tries = tolerance, prove, tries
        self.monitor, self.n_refits = Monitor(), 0
        self.accuracy = ACCURACY
        self.least = self.objective.infimum
        self.known: dict[bytes, float] = {}

    def fitted(self, features: Features, near: Fit | None = None) -> Fit:
        """Minimise ψ over these features, from the coefficients of another fit."""
        fit = self.fitted_below(math.inf, features, near)
        assert fit is not None
        return fit

    def fitted_below(self, value: float, features: Features, near: Fit | None = None) -> Fit | None:
        """Return the same where ψ is below a value, as far as that is known before the end; else None."""
        self._count_refit()
        return self.refits(features, near or self.best, self.tolerance, value, self.accuracy)

    def finish(self) -> None:
        """Fit the best set as well as it can be, where other fits take few steps."""
        if self.refits.is_expensive(self.best.x.size):
            self.check_time()
            self.keep(self.monitor.once(lambda: self.refits.finished(self.best)))

    def downhill(self, near: Fit) -> Fit:
        """Return the minimum over the features of another fit that is found from its coefficients alone."""
        self._count_refit()
        fit = self.refits(near.features, near, self.tolerance, downhill=True)
        assert fit is not None
        return fit

    def roughly(self, features: Features, near: Fit) -> Fit:
        """Return the same to about three digits, for intermediate sets."""
        self._count_refit()
        if self.newton is not None and features.size * self.problem.n_outputs > _ROUGH_KERNEL_COORDINATES:
            return self._by_newton(self.newton(), features, near)
        tolerance = max(self.tolerance, _ROUGH_GRADIENT_SHARE * self.null.scale)
        fit = self.refits(features, near, tolerance, accuracy=ROUGH_ACCURACY)
        assert fit is not None
        return fit

    def _by_newton(self, newton: ClassNewton, features: Features, near: Fit) -> Fit:
        """Return a rough fit of a softmax model over columns side by side, without any bound."""
        found = newton.fitted(features, begun_at(near, features, self.problem.n_outputs), ROUGH_ACCURACY)
        assert found is not None
        part = cast(MultinomialModel, self.objective.restrict(features))
        return replace(found, margins=part.with_tail(found.margins, found.x))

    def has_spent_its_work(self) -> bool:
        """Return whether a softmax model of many classes has had all the work that swaps are worth."""
        many = self.problem.n_outputs > MANY_CLASSES and self.objective.only_contrasts
        return many and not self.prove and self.refits.factorised > _SEARCH_FACTOR_WORK

    def keep(self, fit: Fit) -> None:
        """Record a fit if it is the best so far. Features whose coefficients are zero are left out of it."""
        lower = fit.psi < self.best.psi - coarser(fit, self.best)
        if lower if self.refits.convex is None else self.lowers(fit, self.best):
            self.best = self._without_zeros(fit)
            self.monitor.improved(fit.psi, self.problem.counted(self.best.features).size)

    def _without_zeros(self, fit: Fit) -> Fit:
        n_outputs = self.problem.n_outputs
        counted = np.isin(fit.features, self.problem.counted(fit.features))
        used = ~counted | np.any(fit.x.reshape(-1, n_outputs) != 0, axis=1)
        if np.all(used):
            return fit
        places = np.repeat(used, n_outputs)
        hessian = None if fit.hessian is None else fit.hessian[np.ix_(places, places)]
        return replace(fit, features=fit.features[used], x=fit.x[places], hessian=hessian)

    def remember(self, fit: Fit) -> None:
        """Keep a rough fit, for a search that is cut short."""
        if fit.psi < min(self.rough.psi, self.best.psi):
            self.rough = fit
            self.monitor.improved(fit.psi, self.problem.counted(fit.features).size)

    def best_so_far(self) -> Fit:
        """Return the answer of a search that is cut short: a rough fit, if that is the best."""
        return min(self.best, self.rough, key=lambda fit: fit.psi)

    def threshold(self, fit: Fit) -> float:
        """Return by how much ψ must fall below that of a fit to be lower: less is rounding."""
        above = fit.psi - self.least if math.isfinite(self.least) else abs(fit.psi)
        return _LOWER_SHARE * max(above, 0.0) + _LOWER_RESOLUTIONS * fit.resolution

    def lowers(self, new: Fit, fit: Fit) -> bool:
        """Return whether ψ of a fit is lower than that of another by more than rounding."""
        return new.psi < fit.psi - self.threshold(fit) - coarser(new, fit)

    def excludes(self, new: Fit, fit: Fit, gain: float = 0.0) -> bool:
        """Return whether a refit shows that its features do not lower ψ of another fit by more than a gain."""
        if not self.is_convex:
            return True  # a local refit: what it shows is of its neighbourhood
        return new.psi - new.gap >= fit.psi - gain - 2 * self.threshold(fit)

    @property
    def is_convex(self) -> bool:
        """True unless ψ has a convex start: then refits are local."""
        return self.objective.convex_start is None

    def is_perfect(self, fit: Fit) -> bool:
        """Return whether no fit is lower by more than rounding: ψ has reached the infimum 0 of the loss.

        Far out along x counts, where x separates the classes.
        """
        if not (self.objective.bounded_by_zero and self.null.psi > 0):
            return False
        if fit.psi <= min(self.threshold(fit), _PERFECT_ROUNDING_SHARE * self.null.psi):
            return True
        if self.objective.attained:
            return False
        origin = self.objective.origin
        with np.errstate(over="ignore", invalid="ignore"):
            far = self.objective.value_of(origin + _FAR_FACTOR * (fit.margins - origin))
        return far <= min(_SEPARATED_SHARE * self.null.psi, fit.psi)

    def is_at_infimum(self, fit: Fit) -> bool:
        """Return whether ψ of a perfect fit is next to nothing at x itself, and not only farther out along x."""
        rounding = min(self.threshold(fit), _PERFECT_ROUNDING_SHARE * self.null.psi)
        return fit.psi - self.least <= max(_AT_INFIMUM_SHARE * self.null.psi, rounding)

    def as_state(self) -> dict[str, Any]:
        """Return what has been found, as plain data, without the columns."""
        return {
            "best": self.best,
            "rough": self.rough,
            "known": known_as_arrays(self.known),
            "n_grad": self.n_grad,
            "n_refits": self.n_refits,
            "factorised": self.refits.factorised,
        }

    def take(self, state: dict[str, Any]) -> None:
        """Resume from what `as_state` returned."""
        self.best, self.rough = state["best"], state["rough"]
        self.known = known_of_arrays(state["known"])
        self.n_grad, self.n_refits = state["n_grad"], state["n_refits"]
        self.refits.factorised = state.get("factorised", 0)  # not in a state of version 0.1

    def _count_refit(self) -> None:
        self.check_time()
        self.n_refits += 1
        self.monitor.n_refits = self.n_refits


def coarser(new: Fit, fit: Fit) -> float:
    """Return by how much more rounding may change ψ of one fit than of another: large coefficients that cancel do."""
    return new.resolution - fit.resolution if new.resolution > fit.resolution else 0.0
