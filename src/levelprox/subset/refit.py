"""Refits: ψ minimised over a few features, without a level.

Newton's method on margins, compiled for linear predictions; near-equal columns are fitted in an orthonormal basis. With
signs, Lawson and Hanson's active-set method runs over fits without (fit.py). Where the compiled method fails, others
are tried: the vertex of δ|r| for Huber's loss, then Newton's method on the data, and working sets.

A fit carries a bound on what is left to gain (`Fit.gap`), from a point that is feasible in the dual problem. A fit that
is only of interest below some value ends as soon as that bound shows that it stays above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

import levelprox._kernels as _kernels
from levelprox._kernels import FitEnd
from levelprox._typing import Features, Matrix, Vector
from levelprox.losses import Absolute, Huber
from levelprox.methods.restricted import SolverOptions, Tolerance, solve_restriction
from levelprox.objectives import LinearModel, Model, MultinomialModel, OneVsRestModel
from levelprox.objectives.multiclass import ByClass
from levelprox.problem import FeatureProblem, Problem
from levelprox.result import Iterate
from levelprox.subset.column_cache import Columns
from levelprox.subset.far_fits import FarFits
from levelprox.subset.fit import (
    CLOSE_SHARE,
    EPS,
    LAST_DIGITS_SHARE,
    Fit,
    begun_at,
    better_known,
    fit_with_signs,
    gap_bound,
    held_back,
    joined,
    lower_of,
    lowest,
    rounding_of_coefficients,
    rounding_of_loss,
    rounding_of_margins,
)
from levelprox.subset.multiclass_fit import class_fit
from levelprox.subset.newton import Proximal, minimised
from levelprox.subset.nonsmooth_refit import exact_fit

#: Relative to ψ: how much a refit may leave to gain, and a rough one on the way.
ACCURACY, ROUGH_ACCURACY = 1e-13, 1e-6

_MANY_CLASSES, _MANY_COORDINATES = 16, 300  # beyond both, a softmax model is fitted in a basis from the start
_COMPILED_COORDINATES = 400  # up to which a softmax model of fewer classes is fitted by the kernel
_NO_LOSS_SHARE = 1e-6  # of ψ at the null fit: less is next to nothing
_ROUGH_GRADIENT_SHARE = 1e-3  # of the gradient of the null fit, where a convex loss is only a start

#: A way to fit some features, from another fit: how it ends, and the fit.
Way = Callable[[Features, Fit, float, float, float], tuple[FitEnd, Fit | None]]
_NOTHING = Fit(np.empty(0, np.intp), np.empty(0), math.inf, np.empty(0))


class Refits:
    """ψ minimised over one small set of features after another.

    Columns are kept from set to set: sets that differ in one feature share all others.

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
        self.stored = self.columns
        self.factorised, self.brief, self.far = 0, False, FarFits.of(problem)
        self.signs = problem.must_be_nonnegative()
        self.ridge = objective.ridge
        self.noise = None if isinstance(objective, MultinomialModel) else objective.design.column_noise()
        convex_part = isinstance(objective, LinearModel) and objective.loss.weak_convexity == 0
        if isinstance(objective, LinearModel | OneVsRestModel) and (convex_part or not np.any(self.signs)):
            self.parts = (objective,) if isinstance(objective, LinearModel) else objective.parts
            self.compiled = [_compiled(part) for part in self.parts]
            self.stored = self.columns if len(self.parts) == 1 else Columns(self.parts[0])  # of X, which they share
        self.of_classes: _kernels.ClassFits | None = None
        if isinstance(objective, MultinomialModel):
            self.stored = Columns(objective.one_class)
            if not np.any(self.signs):
                samples = objective.target, objective.sample_weight, objective.offset
                self.of_classes = _kernels.ClassFits(objective.n_outputs, *samples)
                self.rounding = EPS * objective.one_class.column_magnitudes()

    def __call__(
        self,
        features: Features,
        near: Fit,
        tolerance: float,
        below: float = math.inf,
        accuracy: float = ACCURACY,
        downhill: bool = False,
    ) -> Fit | None:
        """Return ψ minimised over these sorted features, from another fit; None if it is shown not to be `below`.

        `tolerance` is on ‖∇ψ‖∞ over these features, where no bound on the gap is known; `accuracy` is what may be left
        to gain, relative to ψ. Each way to fit them begins where the one before ended; the first one that does not fail
        is the last. `downhill` leaves out the start from the convex loss.
        """
        compared, far = math.isfinite(below) or accuracy >= ROUGH_ACCURACY, self.far
        starts = [near if far is None or downhill or not compared else far.nearer(near)]
        if self.convex is not None and not (downhill or (far is not None and far.begins_near and compared)):
            rough = max(tolerance, _ROUGH_GRADIENT_SHARE * self.how.null.scale)
            convex = self.convex(features, _NOTHING, rough, accuracy=ROUGH_ACCURACY)
            starts = starts if convex is None else [convex, *starts]
        found: list[Fit | None] = []
        for start in starts:
            best: Fit | None = None
            for way in self._ways(features):
                end, fit = way(features, best or start, tolerance, below, accuracy)
                if end is FitEnd.NOT_BELOW:
                    best = None
                    break
                best = fit if best is None or fit is None else lower_of(best, fit)
                if end is FitEnd.FITTED or (far is not None and best is not None):
                    break
            found.append(best)
        return lowest(found)

    def _ways(self, features: Features) -> list[Way]:
        """Return the ways to fit these features, the fastest first; the last one always ends with a fit."""
        ways: list[Way] = []
        objective, n_outputs, at_hand = self.objective, self.problem.n_outputs, self.stored.fit_in(features)
        most = _COMPILED_COORDINATES if n_outputs <= _MANY_CLASSES else _MANY_COORDINATES
        if self.compiled and at_hand:
            ways.append(partial(fit_with_signs, self) if np.any(self.signs[features]) else self.by_columns)
        if self.of_classes is not None and at_hand and features.size * n_outputs <= most:
            ways.append(self._by_kernel_of_classes)
        linear = self.ridge is None and isinstance(objective, LinearModel)
        if linear and at_hand and isinstance(cast(LinearModel, objective).loss, Huber):
            ways.append(self._by_vertex)
        return [*ways, self._over_data]

    def _by_kernel_of_classes(
        self, features: Features, near: Fit, tolerance: float, below: float, accuracy: float
    ) -> tuple[FitEnd, Fit | None]:
        """Return the compiled fit of a softmax model.

        Without a ridge, classes that are separated in part have no minimiser: the fit continues in a basis.
        """
        compiled = self.of_classes
        assert compiled is not None
        held: list[float] = [] if self.ridge is None else self.ridge.own[features].tolist()
        n = self.objective.design.shape[0]
        begun = x = begun_at(near, features, self.objective.n_outputs)
        columns = [column.dense(n) for column in self.stored(features)]
        least = accuracy if self.ridge is not None else math.inf
        limits = tolerance, below, least, self.rounding[features].tolist(), held
        found = compiled.fit(columns, x.tolist(), *limits)
        if found[0] is FitEnd.FAILED and np.any(x):  # as where large coefficients held one that is left out
            other = compiled.fit(columns, [0.0] * x.size, *limits)
            found = found if other[0] is FitEnd.FAILED else other
        end, x, psi, z, hessian, gap, resolution = found
        if end is FitEnd.NOT_BELOW:
            return end, None
        usable, objective = end is not FitEnd.FAILED, cast(MultinomialModel, self.objective.restrict(features))
        if self.brief and not usable and math.isfinite(psi):  # far out; not where it began, as with a column of zeros
            usable = psi < objective.value_of(objective.margins(begun))
        fit = Fit(features, x, psi, objective.with_tail(z, x), hessian, gap, resolution) if usable else None
        if fit is not None and self.brief:
            return FitEnd.FITTED, fit
        if fit is None and self.ridge is not None:
            return FitEnd.FAILED, None
        if fit is None or (not fit.gap <= accuracy * abs(fit.psi) + fit.resolution and self.ridge is None):
            model = self._with_columns(objective, features)
            fit = better_known(
                fit, self._by_class(features, objective, model, x if math.isfinite(psi) else begun, accuracy)
            )
        return FitEnd.FITTED, self._with_rounding(fit)

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

    def _by_vertex(
        self, features: Features, near: Fit, tolerance: float, below: float, accuracy: float
    ) -> tuple[FitEnd, Fit | None]:
        """Return where δ|r| has its minimum, for Huber's loss with residuals r far beyond δ, or a fit from there.

        Huber's loss is at most that, and at least δ|r| − δ²/2: this bounds what is left to gain.
        """
        objective = cast(LinearModel, self.objective)
        columns, delta = list(self.dense(features).T), cast(Huber, objective.loss).delta
        signs, begin = self.signs[features], begun_at(near, features, 1)
        noise = None if self.noise is None else self.noise[features]
        vertex = exact_fit(objective.with_loss(Absolute()), columns, signs, begin, self.how.seconds_left, noise=noise)
        psi = objective.value_of(vertex.margins)
        resolution = LAST_DIGITS_SHARE * (abs(psi) + rounding_of_loss(objective, vertex.margins))
        gap = max(psi - delta * (vertex.psi - vertex.error) + 0.5 * delta**2, 0.0)
        fit = Fit(features, vertex.x, psi, vertex.margins, None, gap, resolution + delta * vertex.rounding)
        if not np.any(signs):
            _, other = self.by_columns(features, fit, tolerance, math.inf, accuracy, raw=True)
            fit = fit if other is None else lower_of(fit, other)
        close = fit.gap <= CLOSE_SHARE * abs(fit.psi) + fit.resolution
        return FitEnd.FITTED if close else FitEnd.FAILED, fit

    def by_columns(
        self, features: Features, near: Fit, tolerance: float, below: float, accuracy: float, raw: bool = False
    ) -> tuple[FitEnd, Fit | None]:
        """Return how the compiled fits end, and the fit; None where it is not below a value, or not usable.

        Classes are fitted one by one: only the features tie them. A fit that failed has ψ as its coefficients attain
        it, unless it is `raw`.
        """
        begin = begun_at(near, features, len(self.compiled)).reshape(-1, len(self.compiled))
        columns = self.stored(features)
        stored = [column.values for column in columns], [column.rows for column in columns]
        noise = [] if self.noise is None else self.noise[features].tolist()
        ridge = None if self.ridge is None else self.ridge.restrict(features)
        held = [] if ridge is None else ridge.own.tolist()
        fits, together = list[Fit](), FitEnd.FITTED
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
            fits.append(fit if ridge is not None else held_back(self, k, fit, tolerance, accuracy))
            # A margin loss is nowhere negative: the other classes may have what this one is sure to leave.
            below -= max(psi - gap - resolution, 0.0)
        fit = fits[0] if len(fits) == 1 else joined(fits)
        if raw or together is not FitEnd.FAILED:
            return together, fit
        if not (math.isfinite(fit.psi) and np.all(np.isfinite(fit.x))):
            return together, None
        fit = self.as_attained(features, fit)  # not known to be optimal, but often the better one
        gone = self.brief and not self.objective.attained and fit.psi <= _NO_LOSS_SHARE * self.how.null.psi
        return FitEnd.FITTED if gone else together, fit

    def has_kernel(self, features: Features) -> bool:
        """Return whether fits over these features are compiled, without signs, and end with the kernel's result."""
        plain = len(self.compiled) == 1 and self.noise is None and self.convex is None
        return plain and self.stored.fit_in(features) and not np.any(self.signs[features])

    def least_along(self, features: Features, margins: Vector) -> Vector | None:
        """Return the least ψ along each feature by itself from given margins; None if columns do not fit in memory."""
        if len(self.compiled) != 1 or not self.stored.fit_in(features):
            return None
        objective, compiled, stored = cast(LinearModel, self.objective), self.compiled[0], self.stored.arrays(features)
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
        noise = None if self.noise is None else self.noise[fit.features]
        rounding += rounding_of_coefficients(self.objective, noise, fit.x, fit.margins)
        if self.problem.n_outputs > 1 and rounding > CLOSE_SHARE * abs(fit.psi):
            psi = objective.refined_value(fit.x, fit.psi, CLOSE_SHARE * abs(fit.psi))
            fit = replace(fit, psi=psi, gap=max(fit.gap + psi - fit.psi, 0.0))
        return replace(fit, resolution=fit.resolution + rounding)

    def _over_data(
        self, features: Features, near: Fit, tolerance: float, below: float, accuracy: float
    ) -> tuple[FitEnd, Fit]:
        """Return the fit over the data as they are: by Newton's method or, failing that, by working sets.

        Its margins are sums of products with the columns: what their rounding does to ψ is part of the resolution.
        """
        part = self.problem.restrict(features)
        objective = cast(Model, part.objective)
        x = begun_at(near, features, part.n_outputs)
        if not objective.value_of(objective.margins(x)) <= objective.value_of(objective.origin):
            x = np.zeros(part.dimension)  # large coefficients held each other; without one of them all bounds may break
        signs = bool(np.any(part.must_be_nonnegative()))
        fit = None if signs else self._by_newton(features, objective, x, tolerance, accuracy)
        if fit is None:
            free = Problem.unconstrained(objective, part.nonnegative)
            start = Iterate(x, *objective.value_and_gradient(x), step=1 / self.objective.curvature)
            end = solve_restriction(free, start, Tolerance(tolerance), self.how)
            if end.stop == "interrupted":
                raise KeyboardInterrupt
            margins = objective.margins(end.x) if end.margins is None else end.margins
            fit = Fit(features, end.x, end.psi, margins)
            if not signs:
                hessian = objective.hessian_of(margins, True)
                gap, resolution = gap_bound(objective, end.psi, margins, hessian)
                fit = replace(fit, hessian=hessian, gap=gap, resolution=resolution)
        return FitEnd.FITTED, self._with_rounding(fit)

    def _by_newton(
        self, features: Features, objective: Model, x: Vector, tolerance: float, accuracy: float
    ) -> Fit | None:
        """Return the fit by Newton's method, of several classes without a ridge in a basis if need be; None: failed."""
        model = self._with_columns(objective, features)
        several = isinstance(model, MultinomialModel) and model is not objective and self.ridge is None
        # Where classes are separated in part, more steps only lengthen coefficients, and rounding says by how much.
        if several and self.is_expensive(x.size):
            return self._by_class(features, objective, model, x, accuracy)
        found = minimised(Proximal(model), x, math.inf if several else accuracy, tolerance)
        fit = Fit(features, *found[:4], *self._gap(model, accuracy, *found[1:4])) if found.converged else None
        if several and (fit is None or not fit.gap <= accuracy * abs(fit.psi) + fit.resolution):
            return better_known(fit, self._by_class(features, objective, model, x, accuracy))
        return fit

    def finished(self, fit: Fit) -> Fit:
        """Return a fit of a softmax model of many classes after as many steps as it takes; others as they are."""
        features, objective = fit.features, self.objective.restrict(fit.features)
        model = self._with_columns(objective, features) if self.is_expensive(fit.x.size) else objective
        if model is objective or self.ridge is not None or np.any(self.signs[features]):
            return fit
        found = self._by_class(features, objective, model, fit.x, ACCURACY, finished=True)
        found = replace(found, resolution=found.resolution + rounding_of_margins(objective, found.x, found.margins))
        return found if found.psi < fit.psi else fit

    def is_expensive(self, size: int) -> bool:
        """Return whether systems of a softmax model over so many coordinates are expensive."""
        return self.ridge is None and self._is_large(size)

    def _is_large(self, size: int) -> bool:
        several = isinstance(self.objective, MultinomialModel) and self.objective.n_outputs > _MANY_CLASSES
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
        gap, resolution = self._gap(basis, accuracy, psi, z)
        return Fit(features, x, psi, z, model.hessian_of(z), min(gap, psi), resolution)

    def _gap(
        self, model: Model, accuracy: float, psi: float, z: Vector, hessian: Matrix | None = None
    ) -> tuple[float, float]:
        """Return `gap_bound`; of an intermediate fit of many classes all of ψ, which takes no eigenvalues."""
        if accuracy >= ROUGH_ACCURACY and self._is_large(model.dimension):
            return psi, LAST_DIGITS_SHARE * (abs(psi) + rounding_of_loss(model, z))
        return gap_bound(model, psi, z, model.hessian_of(z, True) if hessian is None else hessian)

    def dense(self, features: Features) -> Matrix:
        """Return the columns of these features side by side, of shape (n, m)."""
        n = self.objective.n_margins // self.objective.n_outputs
        return np.array([column.dense(n) for column in self.stored(features)]).T

    def _with_columns(self, objective: Model, features: Features) -> Model:
        """ψ over these features; of several classes with contiguous columns, because they are read often."""
        if isinstance(objective, ByClass) and features.size and self.stored.fit_in(features):
            return objective.over(self.dense(features))
        return objective


def _compiled(part: LinearModel) -> _kernels.ColumnFits:
    about, samples = (*part.loss.kernel, part.self_concordance), (part.target, part.sample_weight)
    convex, smoothness = part.loss.weak_convexity == 0, part.loss.smoothness
    return _kernels.ColumnFits(*about, *samples, part.offset, convex, part.attained, smoothness)
