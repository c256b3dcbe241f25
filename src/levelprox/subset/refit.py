"""Refits: ψ minimised over a few features, without a level.

Newton's method on margins, compiled where ψ is a loss of linear predictions; near-equal columns are fitted in an
orthonormal basis. Where signs must hold, the active-set method of Lawson and Hanson runs over fits without signs
(newton.py). Where the compiled method fails, other ways are tried in turn, until a fit is known to be optimal:
the vertex of δ|r| for Huber's loss, then Newton's method on the data, and working sets with no feature counted.

A fit carries a bound on what is left to gain (`Fit.gap`), from a point that is feasible in the dual problem. A fit that
is only of interest below some value ends as soon as that bound shows that it stays above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from levelprox import _kernels
from levelprox._kernels import FitEnd
from levelprox._typing import Features, Matrix, Vector
from levelprox.losses import Absolute, Huber
from levelprox.methods.restricted import SolverOptions, Tolerance, solve_restriction
from levelprox.objectives import LinearModel, Model, MultinomialModel, OneVsRestModel
from levelprox.objectives._multiclass import ByClass
from levelprox.problem import FeatureProblem, Problem
from levelprox.result import Iterate
from levelprox.subset.column_cache import Columns
from levelprox.subset.fit import (
    CLOSE_SHARE,
    EPS,
    Fit,
    begun_at,
    better_known,
    joined,
    lower_of,
    lowest,
    rounding_of_loss,
    rounding_of_margins,
    slopes,
)
from levelprox.subset.multiclass_refit import class_fit
from levelprox.subset.newton import (
    LAST_DIGITS_SHARE,
    LAST_STEPS,
    PREDICTED_SHARE,
    fit_with_signs,
    gap_bound,
    newton_fit,
)
from levelprox.subset.nonsmooth_refit import minimised

#: Relative to ψ: how much a refit may leave to gain, and a rough one on the way.
ACCURACY, ROUGH_ACCURACY = 1e-13, 1e-6

_MANY_CLASSES, _MANY_COORDINATES = 16, 300  # beyond both, a softmax model is fitted in a basis from the start
_COMPILED_COORDINATES = 400  # up to which a softmax model of fewer classes is fitted by the kernel
_NO_LOSS_SHARE = 1e-6  # of ψ at the null fit: less is next to nothing
_LAST_MARGIN_CHANGE = 1e-3  # at most, of a step that only adds digits
_ROUGH_GRADIENT_SHARE = 1e-3  # of the gradient of the null fit, where a convex loss is only a start
_COEFFICIENT_ROUNDING_SHARE = 1e-7  # of ψ: rounding of coefficients beyond which shorter ones are tried


_NOTHING = Fit(np.empty(0, np.intp), np.empty(0), math.inf, np.empty(0))


class Refits:
    """ψ minimised over one small set of features after another.

    Where ψ is a loss of linear predictions, or a sum of such over classes, this is compiled, and columns are kept from
    set to set: sets that differ in one feature share all others.

    Parameters
    ----------
    problem : Problem
        ψ and signs; its level does not matter.
    how : SolverOptions
    columns : Columns, optional
        Of the same features, where they are at hand.

    Attributes
    ----------
    factorised : int
        m³ for each Newton step of a softmax model over m coordinates.
    brief : bool
        Whether fits end where next to nothing of the loss is left and there is no minimiser, as on separable data;
        nothing is shown of them.
    """

    def __init__(self, problem: FeatureProblem, how: SolverOptions, columns: Columns | None = None) -> None:
        self.problem, self.how = problem, how
        self.objective = objective = cast(Model, problem.objective)
        self.columns = columns or Columns(objective)
        convex = objective.convex_start
        self.convex = None if convex is None else Refits(problem.with_objective(convex), how, self.columns)
        self.compiled: list[_kernels.ColumnFits] = []
        self.factorised = 0
        self.brief = False
        self.signs = problem.must_be_nonnegative()
        self.ridge = objective.ridge if isinstance(objective, LinearModel | ByClass) else None
        linear = objective.parts[0] if isinstance(objective, OneVsRestModel) else objective
        self.noise = linear.column_noise() if isinstance(linear, LinearModel) else None
        convex_part = isinstance(objective, LinearModel) and objective.loss.weak_convexity == 0
        if isinstance(objective, LinearModel | OneVsRestModel) and (convex_part or not np.any(self.signs)):
            parts = (objective,) if isinstance(objective, LinearModel) else objective.parts
            self.parts, self.compiled = parts, [_compiled(part) for part in parts]
            self.stored = self.columns if len(parts) == 1 else Columns(parts[0])  # of X, which they share
        self.of_classes: _kernels.ClassFits | None = None
        if isinstance(objective, MultinomialModel):
            self.stored = Columns(objective.one_class)
            if not np.any(self.signs):
                samples = objective.target, objective.sample_weight, objective.offset
                self.of_classes = _kernels.ClassFits(objective.width, *samples)
                self.rounding = EPS * objective.one_class.column_magnitudes()

    def __call__(
        self, features: Features, near: Fit, tolerance: float, below: float = math.inf, accuracy: float = ACCURACY
    ) -> Fit | None:
        """Return ψ minimised over these features; None if it is shown not to be below a value.

        Parameters
        ----------
        features : ndarray of int
            Sorted.
        near : Fit
            At whose coefficients to begin.
        tolerance : float
            On ‖∇ψ‖∞ over these features, where no bound on the gap is known.
        below : float
            The value to undercut; by default the fit is always of interest.
        accuracy : float
            How much may be left to gain, relative to ψ.
        """
        if self.convex is None:
            return self.downhill(features, near, tolerance, below, accuracy)
        convex = self.convex(
            features, _NOTHING, max(tolerance, _ROUGH_GRADIENT_SHARE * self.how.null.scale), accuracy=ROUGH_ACCURACY
        )
        starts = (convex, near) if convex is not None else (near,)
        return lowest(self.downhill(features, start, tolerance, below, accuracy) for start in starts)

    def downhill(
        self, features: Features, near: Fit, tolerance: float, below: float, accuracy: float = ACCURACY
    ) -> Fit | None:
        """Return the minimum found from the coefficients of another fit; the only one where ψ is convex."""
        if self.compiled and self.stored.fit_in(features):
            if np.any(self.signs[features]):
                return fit_with_signs(self, features, near, tolerance, accuracy)
            end, fit = self.by_columns(features, near, tolerance, below, accuracy)
            if end is not FitEnd.FAILED:
                return fit
            usable = fit is not None and math.isfinite(fit.psi) and bool(np.all(np.isfinite(fit.x)))
            if fit is not None and usable:  # not known to be optimal, but often the better one
                fit = self.as_attained(features, fit)
                if self.brief and not self.objective.attained and fit.psi <= _NO_LOSS_SHARE * self.how.null.psi:
                    return fit
                return lower_of(fit, self.by_other_ways(features, fit, tolerance, accuracy))
        size = features.size * self.problem.width
        most = _COMPILED_COORDINATES if self.problem.width <= _MANY_CLASSES else _MANY_COORDINATES
        if self.of_classes is not None and size <= most and self.stored.fit_in(features):
            return self._by_columns_of_classes(self.of_classes, features, near, tolerance, below, accuracy)
        return self.by_other_ways(features, near, tolerance, accuracy)

    def _by_columns_of_classes(
        self,
        compiled: _kernels.ClassFits,
        features: Features,
        near: Fit,
        tolerance: float,
        below: float,
        accuracy: float,
    ) -> Fit | None:
        """Return the compiled fit of a softmax model; None where it is not below a value.

        Without a ridge, classes that are separated in part have no minimiser: the fit continues in a basis.
        """
        objective = cast(MultinomialModel, self.objective.restrict(features))
        held: list[float] = [] if self.ridge is None else self.ridge.own[features].tolist()
        n, x = objective.design.shape[0], begun_at(near, features, objective.width)
        begun = x
        columns = [column.dense(n) for column in self.stored(features)]
        least = accuracy if self.ridge is not None else math.inf
        noise = self.rounding[features].tolist()
        limits = tolerance, below, least, noise, held
        found = compiled.fit(columns, x.tolist(), *limits)
        if found[0] is FitEnd.FAILED and np.any(x):  # as where large coefficients held one that is left out
            found = min(found, compiled.fit(columns, [0.0] * x.size, *limits), key=_failed)
        end, x, psi, z, hessian, gap, resolution = found
        if end is FitEnd.NOT_BELOW:
            return None
        usable = end is not FitEnd.FAILED
        if self.brief and not usable and math.isfinite(psi):  # far out; not where it began, as with a column of zeros
            usable = psi < objective.value_of(objective.margins(begun))
        fit = Fit(features, x, psi, objective.with_tail(z, x), hessian, gap, resolution) if usable else None
        if fit is not None and self.brief:
            return fit
        if fit is None and self.ridge is not None:
            return self.by_other_ways(features, near, tolerance, accuracy)
        if fit is None or (not fit.gap <= accuracy * abs(fit.psi) + fit.resolution and self.ridge is None):
            model = self._with_columns(objective, features)
            begin = x if math.isfinite(psi) else begun_at(near, features, objective.width)
            fit = better_known(fit, self._by_class(features, objective, model, begin, accuracy))
        return self._with_rounding(fit)

    def as_attained(self, features: Features, fit: Fit) -> Fit:
        """Return the fit with ψ of its coefficients, where large ones that cancel do not reach that of the basis."""
        part = self.objective.restrict(features)
        with np.errstate(over="ignore", invalid="ignore"):
            z = part.margins(fit.x)
        if not np.all(np.isfinite(z)):
            return fit
        enough = CLOSE_SHARE * abs(fit.psi) + fit.resolution
        psi = part.refined_value(fit.x, part.value_of(z), enough)
        if psi <= fit.psi + enough:
            return fit
        return replace(fit, psi=psi, margins=z, hessian=None, gap=psi - fit.lower_bound)

    def by_other_ways(self, features: Features, near: Fit, tolerance: float, accuracy: float) -> Fit:
        """Return the fit where Newton's method on the columns has failed.

        Each way begins where the one before ended. The first fit that is known to be optimal ends this.
        """
        best: Fit | None = None
        for way in self._other_ways(features):
            fit = way(features, near if best is None else best, tolerance, accuracy)
            best = fit if best is None else lower_of(best, fit)
            if best.gap <= CLOSE_SHARE * abs(best.psi) + best.resolution:
                break
        assert best is not None
        return best

    def _other_ways(self, features: Features) -> list[Callable[[Features, Fit, float, float], Fit]]:
        objective = self.objective
        huber = self.ridge is None and isinstance(objective, LinearModel) and isinstance(objective.loss, Huber)
        return [self._by_vertex, self._over_data] if huber and self.stored.fit_in(features) else [self._over_data]

    def _by_vertex(self, features: Features, near: Fit, tolerance: float, accuracy: float) -> Fit:
        """Return where δ|r| has its minimum, for Huber's loss with residuals r far beyond δ, or a fit from there.

        Huber's loss is at most that, and at least δ|r| − δ²/2: this bounds what is left to gain.
        """
        objective = cast(LinearModel, self.objective)
        columns, delta = list(self.dense(features).T), cast(Huber, objective.loss).delta
        signs, begin = self.signs[features], begun_at(near, features, 1)
        noise = None if self.noise is None else self.noise[features]
        vertex = minimised(objective.with_loss(Absolute()), columns, signs, begin, self.how.seconds_left, noise=noise)
        psi = objective.value_of(vertex.margins)
        resolution = LAST_DIGITS_SHARE * (abs(psi) + rounding_of_loss(objective, vertex.margins))
        gap = max(psi - delta * (vertex.psi - vertex.error) + 0.5 * delta**2, 0.0)
        fit = Fit(features, vertex.x, psi, vertex.margins, None, gap, resolution + delta * vertex.rounding)
        if np.any(signs):
            return fit
        _, other = self.by_columns(features, fit, tolerance, math.inf, accuracy)
        return fit if other is None else lower_of(fit, other)

    def by_columns(
        self, features: Features, near: Fit, tolerance: float, below: float, accuracy: float
    ) -> tuple[FitEnd, Fit | None]:
        """Return how the compiled fits end, and the fit; None where it is not below a value.

        Classes are fitted one by one: only the features tie them.
        """
        begin = begun_at(near, features, len(self.compiled)).reshape(-1, len(self.compiled))
        stored = self._stored(features)
        noise = [] if self.noise is None else self.noise[features].tolist()
        ridge = None if self.ridge is None else self.ridge.restrict(features)
        held = [] if ridge is None else ridge.own.tolist()
        fits: list[Fit] = []
        together = FitEnd.FITTED
        for k, compiled in enumerate(self.compiled):
            start = begin[:, k].tolist()
            found = compiled.fit(*stored, start, tolerance, below, accuracy, noise, held)
            end, x, psi, margins, hessian, gap, resolution = found
            if end is FitEnd.NOT_BELOW:
                return end, None
            together = end if end is FitEnd.FAILED else together
            if ridge is not None:
                margins = ridge.below(margins[: margins.size - features.size], x)
            fit = Fit(features, x, psi, margins, hessian, gap, resolution)
            fits.append(fit if ridge is not None else self._held_back(k, fit, tolerance, accuracy))
            # A margin loss is nowhere negative: the other classes may have what this one is sure to leave.
            below -= max(psi - gap - resolution, 0.0)
        return together, fits[0] if len(fits) == 1 else joined(fits)

    def _held_back(self, k: int, fit: Fit, tolerance: float, accuracy: float) -> Fit:
        """Return the fit of a class, with shorter coefficients where rounding costs these more than they gain.

        Columns with a large mean are centred, and ψ may fall by a trifle for as long as coefficients grow. An error e
        of all margins costs about ℓ''e²/2, and e ≤ Σ_j noise_j |x_j|: a ridge says what is worth that.
        """
        cost = self._rounding_of_part(k, fit) if math.isfinite(fit.psi) else 0.0
        if not _COEFFICIENT_ROUNDING_SHARE * abs(fit.psi) + fit.resolution < cost < math.inf:
            return fit
        assert self.noise is not None
        part, noise = self.parts[k], self.noise[fit.features]
        bend = float(np.sum(np.abs(part.bend_of(fit.margins, True))))
        ridge = 0.5 * bend * fit.features.size * noise**2
        held = np.where(noise > 0, np.maximum(ridge, np.finfo(np.float64).tiny), 0.0).tolist()
        nothing = [0.0] * fit.x.size
        found = self.compiled[k].fit(*self._stored(fit.features), nothing, tolerance, math.inf, accuracy, [], held)
        x, margins = found[1], found[3][: part.n_margins]
        if not (np.all(np.isfinite(x)) and np.all(np.isfinite(margins))):
            return fit
        psi = part.value_of(margins)
        other = replace(fit, x=x, psi=psi, margins=margins, hessian=found[4], gap=max(psi - fit.psi + fit.gap, 0.0))
        return other if psi + self._rounding_of_part(k, other) < fit.psi + cost / 2 else fit

    def _rounding_of_part(self, k: int, fit: Fit) -> float:
        """Return what rounding of coefficients does to ψ of a class where columns are centred; 0 where they are not.

        All margins are off by the same number.
        """
        if self.noise is None:
            return 0.0
        part, noise, size = self.parts[k], self.noise[fit.features], np.abs(fit.x)
        counts = (noise > 0) & (size > 0)  # noise of a column that hardly varies may be infinite
        error = float(noise[counts] @ size[counts])
        change = error * abs(float(np.sum(part.slope_of(fit.margins))))
        if part.smooth:
            change += 0.5 * error**2 * float(np.sum(np.abs(part.bend_of(fit.margins, True))))
        return change

    def _stored(self, features: Features) -> tuple[list[Vector], list[NDArray[np.int64] | None]]:
        """Return the columns of these features as the kernels take them."""
        columns = self.stored(features)
        return [column.values for column in columns], [column.rows for column in columns]

    def least_along(self, features: Features, margins: Vector) -> Vector | None:
        """Return the least ψ along each feature by itself from given margins; None if columns do not fit in memory."""
        if len(self.compiled) != 1 or not self.stored.fit_in(features):
            return None
        objective, compiled, stored = cast(LinearModel, self.objective), self.compiled[0], self._stored(features)
        if self.ridge is None:
            return compiled.least_along(*stored, np.ascontiguousarray(margins))
        held = self.ridge.restrict(features).own.tolist()
        least = compiled.least_along(*stored, np.ascontiguousarray(objective.of_samples(margins)), held)
        return least + self.ridge.value(objective.tail(margins))

    def _with_rounding(self, fit: Fit) -> Fit:
        """Return the fit with what rounding of its margins and coefficients does to ψ.

        Where that is more than its last digits, ψ is computed again from margins in extended precision.
        """
        objective = self.objective.restrict(fit.features)
        rounding = rounding_of_margins(objective, fit.x, fit.margins)
        rounding += self._rounding_of_coefficients(fit.features, fit.x, fit.margins)
        if self.problem.width > 1 and rounding > CLOSE_SHARE * abs(fit.psi):
            psi = objective.refined_value(fit.x, fit.psi, CLOSE_SHARE * abs(fit.psi))
            fit = replace(fit, psi=psi, gap=max(fit.gap + psi - fit.psi, 0.0))
        return replace(fit, resolution=fit.resolution + rounding)

    def _rounding_of_coefficients(self, features: Features, x: Vector, z: Vector) -> float:
        """Return what rounding of coefficients does to ψ where columns are centred: those of the data multiply means.

        All margins are off by the same number e: Σ_i s_i (|ℓ'_i| e + ℓ''_i e²/2) / Σ s.
        """
        if self.noise is None:
            return 0.0
        objective = self.objective
        error = self.noise[features] @ np.abs(x.reshape(features.size, -1))
        change = float(np.sum(np.abs(slopes(objective, z)) * error))
        if isinstance(objective, LinearModel) and objective.smooth:
            change += 0.5 * float(np.sum(np.abs(objective.bend_of(z, True)))) * float(error[0]) ** 2
        return change

    def _over_data(self, features: Features, near: Fit, tolerance: float, accuracy: float) -> Fit:
        """Return the fit over the data as they are: by Newton's method or, failing that, by working sets.

        Its margins are sums of products with the columns: what their rounding does to ψ is part of the resolution.
        """
        return self._with_rounding(self._by_newton_or_working_sets(features, near, tolerance, accuracy))

    def _by_newton_or_working_sets(self, features: Features, near: Fit, tolerance: float, accuracy: float) -> Fit:
        part = self.problem.restrict(features)
        objective = cast(Model, part.objective)
        x = begun_at(near, features, part.width)
        if not objective.value_of(objective.margins(x)) <= objective.value_of(objective.origin):
            x = np.zeros(part.dimension)  # large coefficients held each other; without one of them all bounds may break
        if not np.any(part.must_be_nonnegative()):
            model = self._with_columns(objective, features)
            several = isinstance(model, MultinomialModel) and model is not objective and self.ridge is None
            # Where classes are separated in part, more steps only lengthen coefficients, and rounding says by how much.
            if several and self.takes_few_steps(x.size):
                return self._by_class(features, objective, model, x, accuracy)
            found = newton_fit(model, x, tolerance, math.inf if several else accuracy)
            fit = None if found is None else Fit(features, *found, *gap_bound(model, *found[1:]))
            if several and (fit is None or not fit.gap <= accuracy * abs(fit.psi) + fit.resolution):
                return better_known(fit, self._by_class(features, objective, model, x, accuracy))
            if fit is not None:
                return fit
        start = Iterate(x, *objective.value_and_gradient(x), step=1 / self.objective.curvature)
        end = solve_restriction(
            Problem.unconstrained(objective, part.nonnegative), start, Tolerance(tolerance), self.how
        )
        if end.stop == "interrupted":
            raise KeyboardInterrupt
        margins = objective.margins(end.x) if end.margins is None else end.margins
        if np.any(part.must_be_nonnegative()):
            return Fit(features, end.x, end.psi, margins)
        hessian = objective.hessian_of(margins, True)
        return Fit(features, end.x, end.psi, margins, hessian, *gap_bound(objective, end.psi, margins, hessian))

    def finished(self, fit: Fit) -> Fit:
        """Return a fit of a softmax model of many classes after as many steps as it takes; others as they are."""
        features, objective = fit.features, self.objective.restrict(fit.features)
        model = self._with_columns(objective, features) if self.takes_few_steps(fit.x.size) else objective
        if model is objective or self.ridge is not None or np.any(self.signs[features]):
            return fit
        found = self._by_class(features, objective, model, fit.x, ACCURACY, finished=True)
        found = replace(found, resolution=found.resolution + rounding_of_margins(objective, found.x, found.margins))
        return found if found.psi < fit.psi else fit

    def sharpened(self, fit: Fit) -> Fit:
        """Return the same fit after Newton steps over its columns, for as long as ‖∇ψ‖∞ falls.

        Coefficients of a fit have half the digits that ψ has. A fit that has no Hessian, or is not known to be
        optimal, is returned as it is.
        """
        objective, hessian, features = self.objective, fit.hessian, fit.features
        if not isinstance(objective, LinearModel) or self.convex is not None or hessian is None or not features.size:
            return fit
        if not fit.gap <= PREDICTED_SHARE * abs(fit.psi) + fit.resolution or np.any(self.signs[features]):
            return fit
        if not self.compiled or not self.stored.fit_in(features):
            return fit
        columns, x, z = self.dense(features), fit.x, objective.of_samples(fit.margins)
        ridge = None if self.ridge is None else self.ridge.restrict(features)
        held = 0.0 if ridge is None else 2 * ridge.own

        def gradient_at(x: Vector, z: Vector) -> Vector:
            return np.asarray(objective.slope_of(z) @ columns + held * x)

        gradient = gradient_at(x, z)
        for _ in range(LAST_STEPS):
            try:
                step = -np.linalg.solve(hessian, gradient)
            except np.linalg.LinAlgError:
                break
            along = columns @ step
            if not float(np.max(np.abs(along))) <= _LAST_MARGIN_CHANGE:
                break
            following = gradient_at(x + step, z + along)
            if not np.max(np.abs(following)) < np.max(np.abs(gradient)):
                break
            x, z, gradient = x + step, z + along, following
        margins = z if ridge is None else ridge.below(z, x)
        psi = objective.value_of(margins) if x is not fit.x else fit.psi
        return replace(fit, x=x, margins=margins, psi=psi) if psi <= fit.psi + fit.resolution else fit

    def takes_few_steps(self, size: int) -> bool:
        """Return whether systems of a softmax model over so many coordinates are expensive."""
        several = isinstance(self.objective, MultinomialModel) and self.objective.width > _MANY_CLASSES
        several = several and self.ridge is None
        return several and size > _MANY_COORDINATES

    def _by_class(
        self, features: Features, objective: Model, model: Model, x: Vector, accuracy: float, finished: bool = False
    ) -> Fit:
        """Return the fit of a softmax model over columns that are at hand."""
        ones = np.flatnonzero(np.isin(features, self.objective.unpenalized)).astype(np.intp)
        assert isinstance(model, MultinomialModel)
        x, basis, steps = class_fit(model, self.dense(features), ones, x, accuracy, finished)
        self.factorised += steps * x.size**3
        z = objective.margins(x)
        psi = objective.value_of(z)
        if basis is None:
            return Fit(features, x, psi, z, model.hessian_of(z), 0.0, 0.0)
        if accuracy >= ROUGH_ACCURACY and self.takes_few_steps(x.size):  # an intermediate fit needs no eigenvalues
            return Fit(
                features,
                x,
                psi,
                z,
                model.hessian_of(z),
                psi,
                LAST_DIGITS_SHARE * (abs(psi) + rounding_of_loss(basis, z)),
            )
        gap, resolution = gap_bound(basis, psi, z, basis.hessian_of(z))
        return Fit(features, x, psi, z, model.hessian_of(z), min(gap, psi), resolution)

    def dense(self, features: Features) -> Matrix:
        n = self.objective.n_margins // self.objective.width
        return np.array([column.dense(n) for column in self.stored(features)]).T

    def _with_columns(self, objective: Model, features: Features) -> Model:
        """ψ over these features; of several classes with contiguous columns, because they are read often."""
        if isinstance(objective, ByClass) and features.size and self.stored.fit_in(features):
            return objective.over(self.dense(features))
        return objective


def _failed(found: tuple[Any, ...]) -> bool:
    return found[0] is FitEnd.FAILED


def _compiled(part: LinearModel) -> _kernels.ColumnFits:
    about, samples = (*part.loss.kernel, part.self_concordance), (part.target, part.sample_weight)
    convex, smoothness = part.loss.weak_convexity == 0, part.loss.smoothness
    return _kernels.ColumnFits(*about, *samples, part.offset, convex, part.attained, smoothness)
