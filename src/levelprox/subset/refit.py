"""Refits: ψ minimised over a few features, without a level.

Newton's method on margins, compiled where ψ is a loss of linear predictions. Near-equal columns are fitted in an
orthonormal
basis. Where signs must hold, the active-set method of Lawson and Hanson runs over fits without signs; other cases go
to the engine of working sets, with no feature counted.

A fit carries a bound on what is left to gain (`Fit.gap`), from a point that is feasible in the dual problem. A fit that
is only of interest below some value ends as soon as that bound shows that it stays above.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from levelprox import _kernels
from levelprox._typing import Features, Mask, Matrix, Vector
from levelprox.losses import Absolute, Huber
from levelprox.methods.restricted import Enough, How, solve_restriction
from levelprox.objectives import LinearModel, Model, MultinomialModel, OneVsRestModel
from levelprox.objectives._multiclass import ByClass
from levelprox.problem import FeatureProblem, Problem
from levelprox.result import Iterate
from levelprox.subset.column_cache import Columns
from levelprox.subset.multiclass_refit import class_fit
from levelprox.subset.nonsmooth_refit import minimised

#: Relative to ψ: how much a refit may leave to gain, and a rough one on the way.
ACCURACY, ROUGH_ACCURACY = 1e-13, 1e-6

_STEPS = 40
_MANY_CLASSES, _MANY_COORDINATES = 16, 300  # beyond both, a softmax model is fitted in a basis from the start
_COMPILED = 400  # coordinates up to which a softmax model of fewer classes is fitted by the kernel
_SHOWS = 1e-12  # of ψ
_GONE = 1e-6  # of ψ at the null fit
_RIDGE = 1e-9  # of the curvature at the start
_FAR = 8.0  # by how much the log of the curvature may change in a step
_ARMIJO = 1e-4
_SHORTEST = 2.0**-10  # of a Newton step
_NOISE = 32 * float(np.finfo(np.float64).eps)  # of the absolute sum of a component of the gradient
_LAST_STEPS, _NEAR = 3, 1e-3  # and by how much margins may change for the last digits
_CORRECTIONS = 2  # of slopes
_ROUGH = 1e-3  # of the gradient of the null fit, where a convex loss is but a start
_EQUAL = 1e-10  # of ψ
_CLOSE = 1e-8  # of ψ
_FELT = 1e-7  # of ψ: rounding of coefficients beyond which shorter ones are tried
_WELL_CONDITIONED = 1e-7  # least eigenvalue of a Hessian with a unit diagonal: fits on Gram matrices are exact enough
_EPS = float(np.finfo(np.float64).eps)
_LAST_DIGITS = 4 * _EPS


@dataclass(frozen=True, eq=False)
class Fit:
    """ψ minimised over a few features.

    Attributes
    ----------
    features : ndarray of int
        The features, sorted, exempt ones included.
    x : ndarray
        Their coefficients.
    psi : float
    margins : ndarray
    hessian : ndarray, optional
        ∇²ψ over these features, where it is at hand.
    gap : float
        ψ exceeds the minimum over these features by at most this much; inf where no bound is known.
    resolution : float
        By how much the rounding of margins may change ψ.
    """

    features: Features
    x: Vector
    psi: float
    margins: Vector
    hessian: Matrix | None = None
    gap: float = math.inf
    resolution: float = 0.0

    @property
    def lower_bound(self) -> float:
        """What ψ over these features is at least; −inf where no bound is known."""
        return self.psi - self.gap - self.resolution


_NOTHING = Fit(np.empty(0, np.intp), np.empty(0), math.inf, np.empty(0))


def lowest(fits: Iterable[Fit | None]) -> Fit | None:
    """The fit with the least ψ, of equal ones the first: where ψ counts errors, rounding must not choose."""
    best: Fit | None = None
    for fit in fits:
        if fit is not None and (best is None or fit.psi < best.psi - _EQUAL * abs(best.psi)):
            best = fit
    return best


class Refits:
    """ψ minimised over one small set of features after another.

    Where ψ is a loss of linear predictions, or a sum of such over classes, this is compiled, and columns are kept from
    set to set: sets that differ in one feature share all others.

    Parameters
    ----------
    problem : Problem
        ψ and signs; its level does not matter.
    how : How
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

    def __init__(self, problem: FeatureProblem, how: How, columns: Columns | None = None) -> None:
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
                self.rounding = _EPS * objective.one_class.column_magnitudes()

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
        convex = self.convex(features, _NOTHING, max(tolerance, _ROUGH * self.how.null.scale), accuracy=ROUGH_ACCURACY)
        starts = (convex, near) if convex is not None else (near,)
        return lowest(self.downhill(features, start, tolerance, below, accuracy) for start in starts)

    def downhill(
        self, features: Features, near: Fit, tolerance: float, below: float, accuracy: float = ACCURACY
    ) -> Fit | None:
        """Return the minimum found from the coefficients of another fit; the only one where ψ is convex."""
        if self.compiled and self.stored.fit_in(features):
            if np.any(self.signs[features]):
                return self._with_signs(features, near, tolerance, accuracy)
            end, fit = self._by_columns(features, near, tolerance, below, accuracy)
            if end != "failed":
                return fit
            usable = fit is not None and math.isfinite(fit.psi) and bool(np.all(np.isfinite(fit.x)))
            if fit is not None and usable:  # not known to be optimal, but often the better one
                fit = self._as_attained(features, fit)
                if self.brief and not self.objective.attained and fit.psi <= _GONE * self.how.null.psi:
                    return fit
                return _lower_of(fit, self._otherwise(features, fit, tolerance, accuracy))
        size = features.size * self.problem.width
        most = _COMPILED if self.problem.width <= _MANY_CLASSES else _MANY_COORDINATES
        if self.of_classes is not None and size <= most and self.stored.fit_in(features):
            return self._by_columns_of_classes(self.of_classes, features, near, tolerance, below, accuracy)
        return self._otherwise(features, near, tolerance, accuracy)

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

        Without a ridge, classes that are separated in part have no minimiser: the fit goes on in a basis.
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
        if found[0] == "failed" and np.any(x):  # as where large coefficients held one that is left out
            found = min(found, compiled.fit(columns, [0.0] * x.size, *limits), key=_failed)
        end, x, psi, z, hessian, gap, resolution = found
        if end == "not below":
            return None
        usable = end != "failed"
        if self.brief and not usable and math.isfinite(psi):  # far out; not where it began, as with a column of zeros
            usable = psi < objective.value_of(objective.margins(begun))
        fit = Fit(features, x, psi, objective.with_tail(z, x), hessian, gap, resolution) if usable else None
        if fit is not None and self.brief:
            return fit
        if fit is None and self.ridge is not None:
            return self._otherwise(features, near, tolerance, accuracy)
        if fit is None or (not fit.gap <= accuracy * abs(fit.psi) + fit.resolution and self.ridge is None):
            model = self._with_columns(objective, features)
            begin = x if math.isfinite(psi) else begun_at(near, features, objective.width)
            fit = _better_known(fit, self._by_class(features, objective, model, begin, accuracy))
        return self._with_rounding(fit)

    def _as_attained(self, features: Features, fit: Fit) -> Fit:
        """Return the fit with ψ of its coefficients, where large ones that cancel do not reach that of the basis."""
        part = self.objective.restrict(features)
        with np.errstate(over="ignore", invalid="ignore"):
            z = part.margins(fit.x)
        if not np.all(np.isfinite(z)):
            return fit
        enough = _CLOSE * abs(fit.psi) + fit.resolution
        psi = part.refined_value(fit.x, part.value_of(z), enough)
        if psi <= fit.psi + enough:
            return fit
        return replace(fit, psi=psi, margins=z, hessian=None, gap=psi - fit.lower_bound)

    def _otherwise(self, features: Features, near: Fit, tolerance: float, accuracy: float) -> Fit:
        """Return the fit where Newton's method on the columns has failed."""
        objective = self.objective
        if self.ridge is not None or not (
            isinstance(objective, LinearModel) and isinstance(objective.loss, Huber) and self.stored.fit_in(features)
        ):
            return self._by_itself(features, near, tolerance, accuracy)
        fit = self._by_vertex(features, near, objective, objective.loss)
        if not np.any(self.signs[features]):
            _, other = self._by_columns(features, fit, tolerance, math.inf, accuracy)
            fit = fit if other is None else _lower_of(fit, other)
        enough = _CLOSE * abs(fit.psi) + fit.resolution
        return fit if fit.gap <= enough else _lower_of(fit, self._by_itself(features, fit, tolerance, accuracy))

    def _by_vertex(self, features: Features, near: Fit, objective: LinearModel, loss: Huber) -> Fit:
        """Return where δ|r| has its minimum, for Huber's loss with residuals r far beyond δ.

        Huber's loss is at most that, and at least δ|r| − δ²/2: this bounds what is left to gain.
        """
        columns = list(self._dense(features).T)
        signs, begin = self.signs[features], begun_at(near, features, 1)
        noise = None if self.noise is None else self.noise[features]
        vertex = minimised(objective.with_loss(Absolute()), columns, signs, begin, self.how.seconds_left, noise=noise)
        psi, delta = objective.value_of(vertex.margins), loss.delta
        resolution = _LAST_DIGITS * (abs(psi) + _rounding(objective, vertex.margins)) + delta * vertex.rounding
        gap = max(psi - delta * (vertex.psi - vertex.error) + 0.5 * delta**2, 0.0)
        return Fit(features, vertex.x, psi, vertex.margins, None, gap, resolution)

    def _by_columns(
        self, features: Features, near: Fit, tolerance: float, below: float, accuracy: float
    ) -> tuple[str, Fit | None]:
        """Return how the compiled fits end, and the fit; None where it is not below a value.

        Classes are fitted one by one: only the features tie them.
        """
        begin = begun_at(near, features, len(self.compiled)).reshape(-1, len(self.compiled))
        stored = self._stored(features)
        noise = [] if self.noise is None else self.noise[features].tolist()
        ridge = None if self.ridge is None else self.ridge.restrict(features)
        held = [] if ridge is None else ridge.own.tolist()
        fits, together = [], "fitted"
        for k, compiled in enumerate(self.compiled):
            start = begin[:, k].tolist()
            found = compiled.fit(*stored, start, tolerance, below, accuracy, noise, held)
            end, x, psi, margins, hessian, gap, resolution = found
            if end not in ("fitted", "failed"):
                return end, None
            together = end if end == "failed" else together
            if ridge is not None:
                margins = ridge.below(margins[: margins.size - features.size], x)
            fit = Fit(features, x, psi, margins, hessian, gap, resolution)
            fits.append(fit if ridge is not None else self._held_back(k, fit, tolerance, accuracy))
            # A margin loss is nowhere negative: the other classes may have what this one is sure to leave.
            below -= max(psi - gap - resolution, 0.0)
        return together, fits[0] if len(fits) == 1 else _together(fits)

    def _held_back(self, k: int, fit: Fit, tolerance: float, accuracy: float) -> Fit:
        """Return the fit of a class, with shorter coefficients where rounding costs these more than they gain.

        Columns with a large mean are centred, and ψ may fall by a trifle for as long as coefficients grow. An error e
        of all margins costs about ℓ''e²/2, and e ≤ Σ_j noise_j |x_j|: a ridge says what is worth that.
        """
        cost = self._rounding_of_part(k, fit) if math.isfinite(fit.psi) else 0.0
        if not _FELT * abs(fit.psi) + fit.resolution < cost < math.inf:
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

    def _with_signs(self, features: Features, near: Fit, tolerance: float, accuracy: float) -> Fit:
        """Return ψ minimised with signs, by Lawson and Hanson's method.

        Features that are not at their bound are fitted without signs. A step towards that fit ends at the first
        bound that
        it meets; at a fit that obeys all signs, the feature with the steepest descent leaves its bound.
        """
        signs, x = self.signs[features], begun_at(near, features, 1)
        x[signs] = np.maximum(x[signs], 0.0)
        free, refused, left_out = ~signs | (x > 0), np.zeros(features.size, np.bool_), np.zeros(features.size, np.bool_)
        entered = -1
        unproved: Fit | None = None  # the best fit that obeys all signs and is not known to be optimal
        for _ in range(_STEPS + 10 * features.size):
            end, fit = self._by_columns(features[free], Fit(features, x, 0.0, x), tolerance, math.inf, accuracy)
            if fit is None:
                break
            to = np.zeros(features.size)
            to[free] = fit.x
            if end != "fitted":
                if np.all(np.isfinite(to)) and np.all(to[signs] >= 0):
                    failed = Fit(features, to, fit.psi, fit.margins, None, math.inf, fit.resolution)
                    failed = self._as_attained(features, failed)
                    unproved = failed if unproved is None else _lower_of(unproved, failed)
                if entered < 0:
                    break
                left_out[entered], free[entered], entered = True, False, -1  # go on without it
                continue
            wrong = free & signs & (to < 0)
            if entered >= 0 and to[entered] <= 0:  # descends by rounding alone
                refused[entered], free[entered], entered = True, False, -1
                continue
            if np.any(wrong):
                ratio = np.where(wrong, x / np.where(wrong, x - to, 1.0), math.inf)
                x = np.maximum(x + float(ratio.min()) * (to - x), np.where(signs, 0.0, -math.inf))
                held = wrong & (ratio <= ratio.min())
                x[held], free[held], entered = 0.0, False, -1
                continue
            refused &= fit.psi >= near.psi
            x, entered = to, -1
            steepest = self._steepest(features, free, refused | left_out, fit.margins)
            found = Fit(features, x, fit.psi, fit.margins, None, fit.gap, fit.resolution)
            if steepest is None and not np.any(left_out):
                return found
            found = replace(found, gap=math.inf)
            unproved = found if unproved is None else _lower_of(unproved, found)
            if steepest is None:
                break
            entered = steepest
            free[entered] = True
        other = self._otherwise(features, near, tolerance, accuracy)
        return other if unproved is None else _lower_of(other, unproved)

    def _steepest(self, features: Features, free: Mask, refused: Mask, z: Vector) -> int | None:
        """Return the feature at its bound along which ψ falls fastest, relative to the length of its column.

        Slopes are those after one more Newton step of the free features: of columns that nearly depend on these, what
        is left of the gradient of a fit hides which way ψ falls.
        """
        objective = cast(LinearModel, self.objective)
        columns, slope, bend = self._dense(features[free]), objective.slope_of(z), objective.bend_of(z, True)
        if self.ridge is not None and np.any(free):
            ridge = self.ridge.restrict(features[free])
            columns = np.vstack([columns, np.eye(columns.shape[1])])
            slope, bend = np.append(slope, ridge.gradient(objective.tail(z))), np.append(bend, ridge.curvatures())
        slope = objective.of_samples(_orthogonal(columns, slope, bend))
        without = free | refused
        best: tuple[float, int | None] = (0.0, None)
        for place in np.flatnonzero(~without):
            (column,) = self.stored(features[[place]])
            pulls = column.values * (slope if column.rows is None else slope[column.rows])
            length = float(np.sqrt(np.sum((column.values / (np.max(np.abs(column.values), initial=0.0) or 1.0)) ** 2)))
            descent = -float(np.sum(pulls))
            if descent > _NOISE * float(np.sum(np.abs(pulls))) and length > 0:
                scale = length * float(np.max(np.abs(column.values)))
                best = max(best, (descent / scale, int(place)), key=lambda pair: pair[0])
        return best[1]

    def _by_itself(self, features: Features, near: Fit, tolerance: float, accuracy: float = ACCURACY) -> Fit:
        """Return the fit over the data as they are: by Newton's method or, failing that, by working sets.

        Its margins are sums of products with the columns: what their rounding does to ψ is part of the resolution.
        """
        return self._with_rounding(self._over_data(features, near, tolerance, accuracy))

    def _with_rounding(self, fit: Fit) -> Fit:
        """Return the fit with what rounding of its margins and coefficients does to ψ.

        Where that is more than its last digits, ψ is computed again from margins in extended precision.
        """
        objective = self.objective.restrict(fit.features)
        rounding = rounding_of_margins(objective, fit.x, fit.margins)
        rounding += self._rounding_of_coefficients(fit.features, fit.x, fit.margins)
        if self.problem.width > 1 and rounding > _CLOSE * abs(fit.psi):
            psi = objective.refined_value(fit.x, fit.psi, _CLOSE * abs(fit.psi))
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
            found = _by_newton(model, x, tolerance, math.inf if several else accuracy)
            fit = None if found is None else Fit(features, *found, *_gap(model, *found[1:]))
            if several and (fit is None or not fit.gap <= accuracy * abs(fit.psi) + fit.resolution):
                return _better_known(fit, self._by_class(features, objective, model, x, accuracy))
            if fit is not None:
                return fit
        start = Iterate(x, *objective.value_and_gradient(x), step=1 / self.objective.curvature)
        end = solve_restriction(Problem.unconstrained(objective, part.nonnegative), start, Enough(tolerance), self.how)
        if end.stop == "interrupted":
            raise KeyboardInterrupt
        margins = objective.margins(end.x) if end.margins is None else end.margins
        if np.any(part.must_be_nonnegative()):
            return Fit(features, end.x, end.psi, margins)
        hessian = objective.hessian_of(margins, True)
        return Fit(features, end.x, end.psi, margins, hessian, *_gap(objective, end.psi, margins, hessian))

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
        if not fit.gap <= _SHOWS * abs(fit.psi) + fit.resolution or np.any(self.signs[features]):
            return fit
        if not self.compiled or not self.stored.fit_in(features):
            return fit
        columns, x, z = self._dense(features), fit.x, objective.of_samples(fit.margins)
        ridge = None if self.ridge is None else self.ridge.restrict(features)
        held = 0.0 if ridge is None else 2 * ridge.own

        def gradient_at(x: Vector, z: Vector) -> Vector:
            return np.asarray(objective.slope_of(z) @ columns + held * x)

        gradient = gradient_at(x, z)
        for _ in range(_LAST_STEPS):
            try:
                step = -np.linalg.solve(hessian, gradient)
            except np.linalg.LinAlgError:
                break
            along = columns @ step
            if not float(np.max(np.abs(along))) <= _NEAR:
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
        ones = np.flatnonzero(np.isin(features, self.objective.exempt)).astype(np.intp)
        assert isinstance(model, MultinomialModel)
        x, basis, steps = class_fit(model, self._dense(features), ones, x, accuracy, finished)
        self.factorised += steps * x.size**3
        z = objective.margins(x)
        psi = objective.value_of(z)
        if basis is None:
            return Fit(features, x, psi, z, model.hessian_of(z), 0.0, 0.0)
        if accuracy >= ROUGH_ACCURACY and self.takes_few_steps(x.size):  # but a step on the way: no eigenvalues for it
            return Fit(features, x, psi, z, model.hessian_of(z), psi, _LAST_DIGITS * (abs(psi) + _rounding(basis, z)))
        gap, resolution = _gap(basis, psi, z, basis.hessian_of(z))
        return Fit(features, x, psi, z, model.hessian_of(z), min(gap, psi), resolution)

    def _dense(self, features: Features) -> Matrix:
        n = self.objective.n_margins // self.objective.width
        return np.array([column.dense(n) for column in self.stored(features)]).T

    def _with_columns(self, objective: Model, features: Features) -> Model:
        """ψ over these features; of several classes with their columns side by side, for they are looked at often."""
        if isinstance(objective, ByClass) and features.size and self.stored.fit_in(features):
            return objective.over(self._dense(features))
        return objective


def _orthogonal(columns: Matrix, slope: Vector, bend: Vector) -> Vector:
    """Return slopes + bends ∘ (columns @ step), orthogonal to the columns but for rounding."""
    size = np.sqrt(np.sum(bend[:, None] * columns**2, axis=0))
    if not columns.size or not np.all(np.isfinite(size) & (size > 0)):
        return slope
    scaled = columns / size
    hessian = scaled.T @ (bend[:, None] * scaled)
    for _ in range(_CORRECTIONS):
        try:
            step = np.linalg.solve(hessian, scaled.T @ slope)
        except np.linalg.LinAlgError:
            return slope
        if not np.all(np.isfinite(step)):
            return slope
        slope = slope - bend * (scaled @ step)
    return slope


def _failed(found: tuple[Any, ...]) -> bool:
    return bool(found[0] == "failed")


def _compiled(part: LinearModel) -> _kernels.ColumnFits:
    about, samples = (*part.loss.kernel, part.concordance), (part.target, part.sample_weight)
    convex, smoothness = part.loss.weak_convexity == 0, part.loss.smoothness
    return _kernels.ColumnFits(*about, *samples, part.offset, convex, part.attained, smoothness)


def _together(fits: list[Fit]) -> Fit:
    """The fits of all classes, each with a coefficient of every feature, as one."""
    m, K = fits[0].features.size, len(fits)
    hessian = np.zeros((m, K, m, K))
    for k, fit in enumerate(fits):
        hessian[:, k, :, k] = fit.hessian
    x, margins = np.stack([fit.x for fit in fits], axis=1), np.stack([fit.margins for fit in fits]).T
    psi, gap, resolution = (math.fsum(getattr(fit, name) for fit in fits) for name in ("psi", "gap", "resolution"))
    return Fit(fits[0].features, x.ravel(), psi, margins, hessian.reshape(m * K, m * K), gap, resolution)


def begun_at(near: Fit, features: Features, width: int) -> Vector:
    """The coefficients of another fit, for the features that both have; 0 for the others."""
    x = np.zeros((features.size, width))
    places = np.searchsorted(near.features, features)
    places[places == near.features.size] = 0
    shared = near.features[places] == features if near.features.size else np.zeros(features.size, np.bool_)
    x[shared] = near.x.reshape(-1, width)[places[shared]]
    return x.ravel()


def _by_newton(
    objective: Model, x: Vector, tolerance: float, accuracy: float
) -> tuple[Vector, float, Vector, Matrix] | None:
    """Return x, ψ, margins and Hessian once ‖∇ψ‖∞ and what is left to gain are small; None if that takes many steps."""
    z = objective.margins(x)
    psi, gradient, hessian = objective.value_of(z), objective.gradient_of(z), objective.hessian_of(z, True)
    ridge = np.diag(_RIDGE * np.diagonal(hessian))
    for _ in range(_STEPS):
        flat = float(np.max(np.abs(gradient), initial=0.0)) <= tolerance
        step = _newton_step(objective, hessian, gradient, ridge)
        if step is None:
            return (x, psi, z, hessian) if flat else None
        foretold = -float(np.sum(step * gradient))
        if flat and foretold <= 2 * accuracy * abs(psi):
            return x, psi, z, hessian
        if foretold <= _SHOWS * abs(psi):  # as where classes are separated: coefficients grow for ever and gain nothing
            return x, psi, z, hessian
        along = objective.moved(step)
        far = objective.concordance * float(np.max(np.abs(of_samples(objective, along)))) if _bends(objective) else 0.0
        t = min(1.0, _FAR / far) if far > 0 else 1.0
        while not objective.value_of(z + t * along) <= psi - _ARMIJO * t * foretold + _LAST_DIGITS * abs(psi):
            t /= 2
            if t < _SHORTEST:
                return None
        new, gradient, following = objective.evaluated(z, t * step, True)
        if following is None or not np.all(np.isfinite(gradient)):
            return None
        x, z, psi, hessian = x + t * step, new, objective.value_of(new), following
    return None


def _gap(objective: Model, psi: float, z: Vector, hessian: Matrix) -> tuple[float, float]:
    """Return a bound on what is left to gain at margins z, and the rounding of ψ; inf where no bound is known.

    The bound is that of `exchange.py`: g'H⁻¹g times a factor of how far the Newton step changes margins.
    """
    concordance = 1.0 if isinstance(objective, MultinomialModel) else objective.concordance
    resolution = _LAST_DIGITS * (abs(psi) + _rounding(objective, z))
    if not math.isfinite(concordance) or not hessian.size:
        return (math.inf if hessian.size else 0.0), resolution
    gradient, width = objective.gradient_of(z), objective.width if objective.only_contrasts else 1
    diagonal = np.diagonal(hessian)
    if not np.all(diagonal > 0):
        return math.inf, resolution
    unit = 1 / np.sqrt(diagonal)
    hessian = unit[:, None] * ((hessian + hessian.T) / 2) * unit
    classes = objective.width if isinstance(objective, OneVsRestModel) else 1
    values, vectors = np.linalg.eigh(by_class(hessian, classes))
    seen = values > _WELL_CONDITIONED
    if np.count_nonzero(~seen) > (_unseen_shifts(objective) if width > 1 else 0):
        return math.inf, resolution  # other directions than those that ψ does not see
    coordinates = ((unit * gradient).reshape(-1, classes).T[:, None, :] @ vectors)[:, 0, :]
    scaled = np.where(seen, coordinates / np.where(seen, values, 1.0), 0.0)
    step = -unit * (vectors @ scaled[:, :, None])[:, :, 0].T.ravel()
    moved = of_samples(objective, objective.moved(step))
    change = float(np.max(np.ptp(moved, axis=1) if moved.ndim > 1 and width > 1 else np.abs(moved), initial=0.0))
    factor = float(_kernels.self_concordant_factor(np.array([concordance * change]))[0])
    decrement = float(np.sum(coordinates[seen] ** 2 / values[seen]))
    return (0.5 if concordance == 0 else factor) * decrement, resolution


def _unseen_shifts(objective: Model) -> int:
    """Return of how many features ψ does not see all classes shifted alike: of those without a ridge."""
    ridge = objective.ridge if isinstance(objective, ByClass) else None
    return objective.dimension // objective.width if ridge is None else int(np.count_nonzero(ridge.own == 0))


def _lower_of(fit: Fit, other: Fit) -> Fit:
    """Return the lower of two fits over the same features, with the better of their bounds.

    The other is the lower one only if it is so beyond its rounding.
    """
    lower = other if other.psi < fit.psi - max(other.resolution - fit.resolution, 0.0) else fit
    bound = max(fit.lower_bound, other.lower_bound)
    return replace(lower, gap=min(lower.gap, max(lower.psi - bound, 0.0)))


def _better_known(fit: Fit | None, other: Fit) -> Fit:
    """Return the lower of two fits over the same features, with the better of their bounds."""
    if fit is None or other.psi < fit.psi - _CLOSE * abs(fit.psi):
        return other
    return replace(fit, gap=min(fit.gap, max(fit.psi - other.lower_bound, 0.0)))


def _rounding(objective: Model, z: Vector) -> float:
    """Return Σ_i s_i |ℓ'_i z_i| / Σ s: what the last digits of margins do to ψ is a small part of it."""
    return float(np.sum(np.abs(slopes(objective, z) * of_samples(objective, z))))


def rounding_of_margins(objective: Model, x: Vector, z: Vector) -> float:
    """Return what an ulp of the terms of each margin does to ψ: Σ_i s_i |ℓ'_i| Σ_j |a_ij x_j| ε / Σ s."""
    design, by_class = cast("LinearModel | ByClass", objective).design, x.reshape(-1, objective.width).T
    size = np.stack([design.row_magnitudes(np.ascontiguousarray(row)) for row in by_class], axis=1)
    slope = np.abs(slopes(objective, z).reshape(size.shape))
    if not objective.smooth:  # next to a kink, the slopes on both of its sides
        change = _NOISE * size.reshape(z.shape)  # a loss with kinks has no ridge
        for sign in -1, 1:
            slope = np.maximum(slope, np.abs(slopes(objective, z + sign * change).reshape(size.shape)))
    return _EPS * float(np.sum(slope * size))


def of_samples(objective: Model, z: Vector) -> Vector:
    """Return the margins of the samples, without what a ridge has below them."""
    return objective.of_samples(z) if isinstance(objective, LinearModel | ByClass) else z


def slopes(objective: Model, z: Vector) -> Vector:
    """Return s_i ℓ'_i / Σ s at margins z; with several classes of shape (n, K)."""
    if isinstance(objective, MultinomialModel):
        z = objective.of_samples(z)
        return np.asarray(objective.loss.derivative(z, objective.target, objective.sample_weight), np.float64)
    if isinstance(objective, OneVsRestModel):
        return np.stack(
            [part.slope_of(np.ascontiguousarray(column)) for part, column in zip(objective.parts, z.T, strict=True)],
            axis=1,
        )
    return cast(LinearModel, objective).slope_of(z)


def last_digits(objective: Model, x: Vector) -> dict[str, Any]:
    """x, ψ and margins after Newton steps for as long as ‖∇ψ‖∞ falls: what they gain shows in x, if not in ψ."""
    z = objective.margins(x)
    psi, gradient, hessian = objective.value_of(z), objective.gradient_of(z), objective.hessian_of(z, True)
    ridge = np.diag(_RIDGE * np.diagonal(hessian))
    for _ in range(_LAST_STEPS):
        step = _newton_step(objective, hessian, gradient, ridge)
        if step is None or _goes_far(objective, step):
            break
        new, following, bend = objective.evaluated(z, step, True)
        value = objective.value_of(new)
        falls = bool(np.max(np.abs(following), initial=0.0) < np.max(np.abs(gradient), initial=0.0))
        if bend is None or not falls or not value <= psi + _LAST_DIGITS * abs(psi):
            break
        x, z, psi, gradient, hessian = x + step, new, value, following, bend
    return {"x": x, "psi": psi, "margins": z, "hessian": hessian}


def _newton_step(objective: Model, hessian: Vector, gradient: Vector, ridge: Vector) -> Vector | None:
    """−(H + ridge)⁻¹∇ψ; where ψ sees only differences between coefficients of classes, the shortest step.

    The ridge keeps features apart whose curvature is gone, as where they separate classes. Where ψ does not see all
    classes shifted alike, H is zero in that direction, and what is added there moves nothing.
    """
    hessian, width = hessian + ridge, objective.width
    if objective.only_contrasts:
        curvature = np.diagonal(hessian).reshape(-1, width).mean(axis=1)
        hessian = hessian + np.kron(np.diag(curvature), np.ones((width, width)))
    try:
        if isinstance(objective, OneVsRestModel):
            solved = np.linalg.solve(by_class(hessian, width), gradient.reshape(-1, width).T[:, :, None])
            step = -np.asarray(solved[:, :, 0].T.ravel(), np.float64)
        else:
            step = -np.asarray(np.linalg.solve(hessian, gradient), np.float64)
    except np.linalg.LinAlgError:
        return None
    return step if np.all(np.isfinite(step)) and np.sum(step * gradient) < 0 else None


def by_class(hessian: Matrix, width: int) -> Matrix:
    """Return the part of H that belongs to each class, of shape (width, m, m): where it is 0 between classes."""
    m, classes = hessian.shape[0] // width, np.arange(width)
    return np.asarray(hessian.reshape(m, width, m, width)[:, classes, :, classes])


def _goes_far(objective: Model, step: Vector) -> bool:
    """Whether a step is no matter of digits: curvature is gone, as of a sample that one feature alone fits."""
    if not _bends(objective):
        return False
    weight = cast("LinearModel | ByClass", objective).sample_weight
    along = of_samples(objective, objective.moved(step))
    along = along if weight is None else along[weight > 0]
    return not objective.concordance * float(np.max(np.abs(along), initial=0.0)) <= 1


def _bends(objective: Model) -> bool:
    """Whether the curvature is known to change, and how fast: then margins must not go far in a step."""
    return 0 < objective.concordance < math.inf
