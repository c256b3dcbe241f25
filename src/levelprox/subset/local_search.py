"""One search for the best k features, where ψ is twice differentiable.

As the threshold of MCP shrinks, g/cap tends to the number of nonzeros, so continuation in the threshold, at the level
(k + ½) cap, leads to a set of k features. Several such sets are found:

- at every stage of the continuation, over columns scaled to equal curvature, the k largest;
- by taking in up to 2k features one by one, the most useful first, and leaving out the least useful again;
- for a few features the same without the most useful one, which then decides too much;

each is refitted, and the best of either kind improved by exchanges of one feature for another, as long as ψ falls; then
by leaving one out, exchanging those left, and taking one in.
Where nothing is to be shown, as of fits of folds, second-order models over some of the features do (`narrowed.py`), and
for softmax models one path for all k (`class_path.py`).
Of few features with many samples none of this is needed. For a squared loss the Gram matrix finds a set
(`objectives/reduced.py`), for other convex losses second-order models over all features do (`parabolas.py`); exchanges
begin there.
Where features are given to begin with, exchanges begin from these alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from levelprox._runtime.deadline import interrupted
from levelprox._runtime.plurals import counted
from levelprox.certificate.null_model import NullFit, null_fit, null_fit_in_time
from levelprox.certificate.residual import relative_stationarity
from levelprox.constraints import MCP
from levelprox.driver.checkpoint import Journal
from levelprox.driver.replay import Directly, Pieces, pieces_of
from levelprox.driver.search_monitor import Watch
from levelprox.methods.continuation import continued, is_expensive
from levelprox.methods.restricted import How
from levelprox.methods.subsolvers import Newton
from levelprox.methods.surrogate import surrogate_by_name
from levelprox.objectives import LinearModel, Model, MultinomialModel
from levelprox.objectives._multiclass import ByClass
from levelprox.objectives.reduced import ReducedModel
from levelprox.problem import Problem
from levelprox.result import Iterate, Status
from levelprox.subset.costs import Costs
from levelprox.subset.forward import FEW, forward
from levelprox.subset.multiclass_path import best_on_class_path, has_class_path, newton_of
from levelprox.subset.narrowed import best_by_narrowing, can_be_narrowed
from levelprox.subset.quadratic_models import best_by_parabolas, has_parabolas
from levelprox.subset.refit import Fit, last_digits, lowest
from levelprox.subset.result import Additions, Exchanges, Subset
from levelprox.subset.shared_cache import shared
from levelprox.subset.swap_bounds import costs
from levelprox.subset.swaps import TRIES, Addition, Swaps

Vector = NDArray[np.float64]
Features = NDArray[np.intp]

_ROUGH = 3e-3
_SMALL = 2.0**-10  # of the largest coefficient: the last threshold
_REACHED, _ULPS = 1e-8, 64  # of ψ of the fit and of the null fit, and of the resolution: by how much x may miss it
_OPTIMAL = 1e-6  # of the null loss: a gap up to which a fit is taken to be optimal
_FEW_TRIES = 2  # exchanges that are tried for one that lowers ψ, where a refit takes long
_REACHES = 2.0 ** (np.arange(-4, 11) / 2)  # median margins from which descents along a ray begin


@dataclass(eq=False)
class Search:
    """One search: what is known, and what it cost.

    Parameters
    ----------
    problem : Problem
        ψ, weights and signs; features of weight 0 are in every fit.
    k : int
    tol : float
        How well each set is fitted: on the derivatives of ψ along its features, each relative to what the null fit
        leaves to its column.
    prove : bool
        Whether to examine all exchanges whatever that takes.
    watch : Watch
    start : ndarray of int, optional
        Features to begin with.
    journal : Journal
        Of what is found, to go on from.
    pieces : Pieces
        How pieces of work are done, where this is part of another search.
    data : LinearModel or ByClass, optional
        ψ over the columns as they are, where `problem` has them standardised (`standardised`): what is returned is in
        its units.
    brief : bool
        Whether to leave out the start by continuation.
    examine : bool
        Whether to show anything of the set that is found; where not, and ψ is not a squared loss of many features, the
        search ends once promising exchanges no longer lower ψ, and softmax models leave out the start by continuation.
    leave : callable, optional
        Called as leave(features, x, last) with the features of a set and x over all coordinates of the data: as soon as
        there is a set of k features, after each start, and after the last. Returning True ends the search there, before
        anything is shown.
    thorough : bool
        Whether to look further than exchanges where features are given to begin with, too.
    known : ndarray of int, optional
        At most k features whose fit is returned where the search is cut short before it finds a better one.
    """

    problem: Problem
    k: int
    tol: float
    prove: bool
    watch: Watch
    start: Features | None = None
    journal: Journal = field(default_factory=Journal)
    pieces: Pieces = field(default_factory=Directly)
    data: LinearModel | ByClass | None = None
    brief: bool = False
    examine: bool = True
    leave: Callable[[Features, Vector, bool], bool] | None = None
    thorough: bool = False
    known: Features | None = None
    _ended: bool = field(default=False, init=False)

    def __call__(self) -> Subset:
        # Of other pieces than those of version 0.1, whose states are of no use here.
        journal = self.journal.part("models") if self._is_found_by_models() else self.journal
        self.pieces = pieces_of(journal, self.as_state, self.take)
        self.begin(self._null_fit())
        if not self.null.examined:
            return self._subset(self.swaps.best, 0, None, Status.INTERRUPTED if interrupted() else Status.TIME_LIMIT)
        examined, addition, status = 0, None, Status.SOLVED
        self.watch.arm()
        try:
            try:
                self._fit_exempt()
                if self.known is not None:
                    known = self._with_exempt(self.known)
                    self.swaps.remember(self.pieces.once(lambda: self.swaps.roughly(known, self.swaps.best)))
            finally:
                if self.swaps.best_so_far() is self.swaps.best:
                    self.watch.improved(self.swaps.best.psi, 0)
            for _ in self.sets():
                if self._leaves(self.swaps.best):
                    break
            if not self._leaves(self.swaps.best, last=True):
                if not self._is_quick():
                    examined, addition = self._shown()
                if self.examine or not (isinstance(self.objective, LinearModel) or self._has_path()):
                    self.swaps.best = self._to_the_last_digits(self.swaps.best)
                else:
                    self.swaps.best = self.swaps.refits.sharpened(self.swaps.best)
        except TimeoutError as error:
            if error is self.watch.raised:
                raise
            status = Status.INTERRUPTED if interrupted() else Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        finally:
            self.watch.disarm()
        fit = self.swaps.best if status is Status.SOLVED else self.swaps.best_so_far()
        return self._subset(fit, examined, addition, status)

    def _leaves(self, fit: Fit, last: bool = False) -> bool:
        """Return whether the search is to end with a set."""
        if self.leave is not None and not self._ended and not self.watch.cut_short:
            x = self._whole(fit)
            self._ended = self.leave(self.problem.counted(fit.features), x, last)
        return self._ended

    def _whole(self, fit: Fit) -> Vector:
        """Return x over all coordinates, in the units of the data."""
        x = np.zeros(self.problem.dimension)
        x[self.problem.coordinates(fit.features)] = fit.x
        return x if self.data is None else cast(LinearModel | ByClass, self.objective).unstandardised(x)

    def _shown(self) -> tuple[int, Addition]:
        """Return how many exchanges are shown not to lower ψ, and the best addition, after taking all that lower it."""
        examined = self._examined() if self.k > 0 else 0
        addition = self.pieces.once(self.swaps.best_addition)
        while self._takes_in(addition):
            examined = self._examined()
            addition = self.pieces.once(self.swaps.best_addition)
        return examined, addition

    def _is_found_by_models(self) -> bool:
        """Return whether sets come from second-order models over all features."""
        return isinstance(self.problem.objective, ReducedModel) or has_parabolas(self.problem)

    def _is_quick(self) -> bool:
        """Return whether nothing is to be shown, and the search may end earlier for it.

        Swaps of a squared loss with signs are examined quickly, and those that lower it are taken.
        """
        curved = cast(Model, self.problem.objective).self_concordance != 0
        return not self.examine and (self._is_found_by_models() or curved or can_be_narrowed(self.problem))

    def _is_narrowed(self) -> bool:
        """Return whether sets come from second-order models over some of the features, as for fits of folds."""
        return self._is_quick() and not self._is_found_by_models() and can_be_narrowed(self.problem)

    def _shares(self) -> bool:
        """Return whether searches of the same data for other k know some of what this one needs."""
        return has_parabolas(self.problem) or self._is_narrowed() or self._has_path()

    def _has_path(self) -> bool:
        """Return whether sets of a softmax model come from one path for all k, as for fits of folds."""
        return self._is_quick() and self.start is None and has_class_path(self.problem, self.k)

    def _examined(self) -> int:
        """Return how many exchanges are shown not to lower ψ, after taking all that do."""
        self.watch.enter("proof")
        examined = self.swaps.examined()
        while self._one_less_and_one_more():
            examined = self.swaps.examined()
        self.swaps.finish()  # a lower ψ of the same set is not improved by these exchanges either
        return examined

    def _null_fit(self) -> NullFit:
        """Return the null fit, which searches of the same data for other k may know."""
        if not self._shares():
            return null_fit_in_time(self.problem, self._left())
        known = shared(self.problem)
        if known.null is None:
            null = null_fit_in_time(self.problem, self._left())
            if not null.examined:
                return null
            known.null = null
        return known.null

    def _takes_in(self, addition: Addition) -> bool:
        """Take in one more feature if there is room for it and it gains more than rounding. Return whether it is so."""
        best = self.swaps.best
        if addition.feature is None or self.problem.counted(best.features).size >= self.k:
            return False
        features = np.union1d(best.features, [addition.feature]).astype(np.intp)
        self.swaps.keep(self.pieces.once(lambda: self.swaps.fitted(features, best)))
        return self.swaps.best is not best

    def begin(self, null_fitted: NullFit | None = None) -> None:
        """The null fit, from which everything begins; where it is given, exempt features are yet to be refitted."""
        problem = self.problem
        self.objective = cast(Model, problem.objective)
        self.null = null_fitted or null_fit(problem, self._left())
        exempt = problem.exempt
        null = Fit(exempt, self.null.x[problem.coordinates(exempt)], self.null.psi, self._margins(exempt))
        tolerance = self.tol * self.null.scale
        tries = _FEW_TRIES if is_expensive(problem) else TRIES
        columns = shared(problem).columns if self._shares() else None
        self.swaps = Swaps(problem, null, self.null, tolerance, self._how(), self.prove, tries, columns)
        self.swaps.watch, self.swaps.pieces = self.watch, self.pieces
        self.swaps.refits.brief = self._is_quick()
        if self.examine and has_class_path(problem, 2 * self.k):
            self.swaps.newton = functools.cache(lambda: newton_of(problem))
        if null_fitted is None:
            with suppress(TimeoutError):  # the search itself says that there is no time
                self._fit_exempt()
        self.swaps.n_grad = 2 if exempt.size else 1

    def _fit_exempt(self) -> None:
        """Fit the exempt features as all others are."""
        if self.objective.convex_start is None:
            null = self.swaps.best
            self.swaps.best = self.swaps.rough = self.swaps.fitted(null.features, null)

    def sets(self) -> Iterator[Fit]:
        """Sets that exchanges no longer improve, as far as estimates tell, one for each start."""
        everything = np.arange(self.problem.n_features)
        if self.problem.counted(everything).size <= self.k:
            self.swaps.keep(self.pieces.once(lambda: self.swaps.fitted(everything)))
        elif self.k > 0 or self.objective.convex_start is not None:
            for start in self._starts():
                self.watch.enter("exchanges")
                if self._has_path() or (self._is_quick() and has_parabolas(self.problem)):  # no exchange gains there
                    self.swaps.keep(start)
                    yield start
                else:
                    yield self.swaps.improved(start)
        if self.objective.convex_start is not None:
            self.swaps.keep(self.pieces.once(lambda: self._along_its_ray(self.swaps.best, self.swaps.best)))

    def as_state(self) -> dict[str, Any] | None:
        """What has been found and told, as plain data; None once a limit has cut that short."""
        if self.watch.cut_short:
            return None
        return {"swaps": self.swaps.as_state(), "watch": self.watch.as_state()}

    def take(self, state: dict[str, Any]) -> None:
        """Go on from what `as_state` gave."""
        self.swaps.take(state["swaps"])
        self.watch.take(state["watch"])

    def _starts(self) -> Iterator[Fit]:
        """Sets of k features from which exchanges begin."""
        if self.start is not None:
            start = self.problem.counted(self.start)
            yield self.pieces.once(lambda: self._completed(start))
            return
        once, null, problem = self.pieces.once, self.swaps.best, self.problem
        objective = self.objective
        if isinstance(objective, ReducedModel):  # what the Gram matrix finds is as good as what the others do
            yield once(lambda: self.swaps.fitted(objective.best_features(self.k, problem.exempt)))
            return
        if self._has_path():
            yield best_on_class_path(self.swaps, self.k)
            return
        if self._is_narrowed():
            yield best_by_narrowing(self.swaps, null, self.k)
            return
        if has_parabolas(problem):
            yield once(lambda: best_by_parabolas(self.swaps, null, self.k, self._is_quick()))
            return
        convex = self.objective.convex_start
        if convex is not None:
            yield from self._by_convex_start(null, convex)
        counted = problem.n_features - problem.exempt.size
        most = min(2 * self.k, counted, max(self.k, self.objective.n_margins - 1))
        chosen = once(lambda: forward(self.swaps, null, most, shown=self.k))
        first = once(lambda: self.swaps.fitted(self._with_exempt(chosen[: self.k])))
        self.swaps.keep(first)
        if self.swaps.is_perfect(first) or self._leaves(first):
            return
        self.watch.enter("continuation")
        yield once(lambda: self._best_on_the_way(first))
        self.watch.enter("forward")
        yield once(lambda: self._backward(chosen))
        yield first
        if chosen.size and self.k <= FEW and not is_expensive(problem):
            self.watch.enter("forward")
            others = once(lambda: forward(self.swaps, null, self.k, without=int(chosen[0])))
            yield once(lambda: self.swaps.fitted(self._with_exempt(others)))

    def _by_convex_start(self, null: Fit, convex: Model) -> Iterator[Fit]:
        """The fits of exempt features alone, and of the answer for the convex loss that this one starts from."""
        yield self.pieces.once(lambda: self.swaps.fitted(null.features, null))
        yield self.pieces.once(lambda: self._found_by(convex))

    def _found_by(self, convex: Model) -> Fit:
        """The best fit over the features of the answer for a convex loss."""
        watch = Watch(self.watch.left(), self.watch.max_iter - self.watch.step, lambda record: self.watch.left() <= 0)
        search = self._for(convex, watch)
        search.begin()
        for _ in search.sets():
            pass
        self.watch.step += watch.step
        self.watch.held_back |= watch.held_back
        self.swaps.n_grad += search.swaps.n_grad
        self.swaps.n_refits += search.swaps.n_refits
        found = search.swaps.best
        return self._along_its_ray(found, self.swaps.fitted(found.features, found))

    def _for(self, objective: Model, watch: Watch) -> Search:
        """Return the same search for another ψ."""
        return Search(replace(self.problem, objective=objective), self.k, self.tol, False, watch)

    def _along_its_ray(self, ray: Fit, best: Fit) -> Fit:
        """The best fit over the same features from any point of a ray, where ψ may fall for ever along it.

        How far out a descent begins then decides where it ends: most samples should still pull, but some no longer.
        """
        size = 0.0 if self.objective.attained else float(np.median(np.abs(ray.margins)))
        starts = [replace(ray, x=reach / size * ray.x) for reach in _REACHES] if size > 0 else []
        fit = lowest([best, *map(self.swaps.downhill, starts)])
        return best if fit is None or fit is best else self._along_its_ray(fit, fit)

    def _one_less_and_one_more(self) -> bool:
        """Whether the way round by one feature less, improved by exchanges there, leads to a lower fit.

        A set that no exchange improves may still be worse than one of fewer features and another: this leads out of it.
        """
        best = self.swaps.best
        inside = self.problem.counted(best.features).size
        begun = self.start is not None and not self.thorough
        if begun or inside < max(self.k, 2) or self.swaps.is_perfect(best):
            return False
        if self.swaps.has_spent_its_work():  # of many classes
            return False
        self.watch.enter("exchanges")
        least = int(np.argmin(costs(self.problem, best)))
        once = self.pieces.once
        less = self.swaps.improved(once(lambda: self.swaps.fitted(np.delete(best.features, least), best)))
        more = once(lambda: forward(self.swaps, less, 1))
        fit = once(lambda: self.swaps.fitted(np.union1d(less.features, more).astype(np.intp), less))
        if self.swaps.lowers(self.swaps.improved(fit), best):
            return True
        self.swaps.best = best  # whose exchanges were examined; what is lower by rounding alone is not better
        return False

    def _completed(self, features: Features) -> Fit:
        """The fit over k features: the most useful of these, or these with the most useful others."""
        if features.size >= self.k:
            return self._backward(features)
        fit = self.swaps.fitted(self._with_exempt(features))
        self.swaps.keep(fit)
        more = forward(self.swaps, fit, self.k - features.size, shown=self.k)
        return self.swaps.fitted(np.union1d(fit.features, more).astype(np.intp), fit)

    def _backward(self, features: Features) -> Fit:
        """Leave out the least useful feature until k are left; of far more than k first half of them at once."""
        fit = self.swaps.roughly(self._with_exempt(features), self.swaps.best)
        while (surplus := fit.features.size - self.problem.exempt.size - self.k) > 0:
            least = np.argsort(costs(self.problem, fit), kind="stable")[: max(1, (surplus - self.k) // 2)]
            fit = self.swaps.roughly(np.delete(fit.features, least), fit)
        return self.swaps.fitted(fit.features, fit)

    def _best_on_the_way(self, direct: Fit) -> Fit:
        """The best of the sets that a continuation in the threshold comes through."""
        problem, objective = self.problem, self.objective
        brief = self.brief or (self._is_quick() and isinstance(objective, MultinomialModel))
        if brief or self._is_piecewise_linear() or is_expensive(problem):
            return direct
        curvature = np.einsum("jaa->j", objective.feature_hessians_of(self._margins(problem.exempt)))
        scale = np.sqrt(np.where(curvature > 0, curvature, 1.0))
        scale[objective.exempt] = 1.0
        wide = np.repeat(scale, problem.width)
        start = Iterate(wide * self.null.x, self.null.psi, self._null_gradient() / wide)
        x = np.zeros(problem.dimension)
        x[problem.coordinates(direct.features)] = direct.x
        at = Iterate(wide * x, direct.psi, start.gradient)
        largest = float(np.max(problem.sizes(at.x)[problem.counted(direct.features)], initial=0.0))
        if not largest > 0:
            return direct
        scaled = replace(
            problem,
            objective=objective.scaled(scale),
            constraint=MCP.from_threshold(_SMALL * largest),
        )
        size = float(np.max(problem.sizes(start.gradient), initial=0.0))
        how = replace(self._how(), null=NullFit(start.x, start.psi, None, size or 1.0), gamma=self._gamma(scaled))
        best, columns = direct, self.swaps.refits.columns
        columns.forget()  # the stages have others
        for stage, end in continued(scaled, start, at, how, _ROUGH, count=self.k + 1):
            self.swaps.n_grad += stage.n_grad
            self.swaps.check_time()
            if end.stop == "interrupted":
                raise KeyboardInterrupt
            sizes = problem.sizes(end.x)
            counted = problem.counted(np.flatnonzero(sizes))
            largest_k = counted[np.argsort(-sizes[counted], kind="stable")[: self.k]]
            fit = self.swaps.fitted(self._with_exempt(largest_k))
            columns.forget()
            best = fit if fit.psi < best.psi else best
        return best

    def _is_piecewise_linear(self) -> bool:
        """Return whether no more samples bend at the null fit than it has coefficients.

        So it is for Huber's loss with residuals far beyond its parabola: second-order models say nothing there.
        """
        objective = self.objective
        if not isinstance(objective, LinearModel) or math.isfinite(objective.self_concordance):
            return False
        bend = objective.bend_of(self._margins(self.problem.exempt), True)
        return int(np.count_nonzero(bend)) <= self.problem.exempt.size

    def _to_the_last_digits(self, fit: Fit) -> Fit:
        """The same set, fitted as well as it can be: coefficients have half the digits that ψ has."""
        part = self.problem.restrict(fit.features)
        objective = cast(Model, part.objective)
        if np.any(part.must_be_nonnegative()) or objective.is_separated(fit.x):
            return fit
        digits = last_digits(objective, fit.x)
        # Of near-equal columns, or columns with a large mean, terms are large and cancel: margins from a fit in a basis
        # have more digits than these.
        if self.null.reported(objective, digits["x"], digits["psi"]) != digits["psi"]:
            return fit
        return replace(fit, **digits) if digits["psi"] <= fit.psi + fit.resolution else fit

    def _is_known_to_be_optimal(self, fit: Fit) -> bool:
        """Return whether ψ of a fit is within 1e-6 of the null loss, or its rounding, of a lower bound.

        Losses that are not convex have no such bound, and their exchanges are said to be local.
        """
        if self.objective.convex_start is not None:
            return True
        above = self.null.psi - self.objective.infimum
        scale = above if math.isfinite(above) else abs(self.null.psi)
        return fit.gap <= max(_OPTIMAL * scale, _ULPS * fit.resolution)

    def _how(self) -> How:
        surrogate = surrogate_by_name("concave")
        return How(Newton(), self._gamma(self.problem), surrogate, self.null, self._left, None)

    def _gamma(self, problem: Problem) -> float:
        return Newton().proximal_weight(problem.objective)

    def _null_gradient(self) -> Vector:
        assert self.null.gradient is not None
        return self.null.gradient

    def _margins(self, features: Features) -> Vector:
        part = self.objective.restrict(features)
        return part.margins(self.null.x[self.problem.coordinates(features)])

    def _with_exempt(self, features: Features) -> Features:
        return np.union1d(features, self.problem.exempt).astype(np.intp)

    def _left(self) -> float:
        return self.watch.left()

    def _subset(self, fit: Fit, examined: int, addition: Addition | None, ended: Status) -> Subset:
        x = np.zeros(self.problem.dimension)
        places = self.problem.coordinates(fit.features)
        x[places] = fit.x
        support = self.problem.counted(np.flatnonzero(self.problem.sizes(x)))
        inside = x
        if self.data is not None:
            x = cast(LinearModel | ByClass, self.objective).unstandardised(x)
        objective = self.objective if self.data is None else self.data

        def figures() -> tuple[float, float]:
            if not self.examine and fit.gap <= self.swaps.threshold(fit):
                return fit.psi, 0.0
            psi = self.null.reported(objective, x, objective.value_and_gradient(x)[0])
            if isinstance(self.objective, ReducedModel):
                return psi, _stationarity_over_data(self.objective, self.problem, inside, fit.features, self.null)
            return psi, relative_stationarity(self.problem, inside, fit.features, self.null)

        wanted = self.null.examined and not self._ended
        recomputed = self.watch.recomputed(ended, fit.psi, figures if wanted else None)
        ended, psi, stationarity, unknown = recomputed
        rounding = max(_REACHED * abs(fit.psi), _ULPS * fit.resolution, _REACHED * abs(self.null.psi))
        if not unknown and psi > fit.psi + rounding:  # x does not attain ψ of the fit: claims of the fit do not hold
            examined = 0
            addition = None if addition is None else replace(addition, examined=0)
        if self.swaps.costs is not None and not np.array_equal(support, self.problem.counted(fit.features)):
            fit = replace(fit, features=self._with_exempt(support))  # what is shown is of another set
            examined, addition = 0, None
        total, local = self.swaps.total(fit), self.objective.convex_start is not None
        exchanges = Exchanges(examined, total, local=local, within_budget=self.swaps.costs is not None)
        used = in_words(support, self.problem, self.k, self.swaps.costs)
        summary = f"{used}, loss = {psi:.6g}; {exchanges}{unknown}"
        if ended is Status.SOLVED and not self._is_known_to_be_optimal(fit):
            summary += "; these coefficients are not proved to be the best of these features"
        if self._ended:  # another search goes on from this set: there is nothing to conclude
            status, message = ended, summary
        else:
            status, message = self.watch.conclude(ended, summary, objective, x, stationarity, self.tol)
        return Subset(
            x,
            psi,
            support,
            self.k,
            math.nan if addition is None else addition.gain,
            None if addition is None else addition.feature,
            exchanges,
            stationarity,
            status,
            message,
            self.swaps.n_grad + 1,
            self.swaps.n_refits,
            self.watch.elapsed,
            tuple(self.watch.history),
            None if addition is None else Additions(addition.examined, addition.total),
            *spending(support, self.swaps.costs),
        )


def in_words(support: Features, problem: Problem, k: int, costs: Costs | None) -> str:
    """Return how much of what is allowed a set uses."""
    if costs is None:
        return f"{counted(support.size, 'feature')} of at most {k}"
    count = counted(support.size, "feature")
    if k < problem.n_features - problem.exempt.size:
        count += f" of at most {k}"
    return f"{count} at a cost of {costs.spent(support.tolist()):.6g} of at most {costs.budget:.6g}"


def spending(support: Features, costs: Costs | None) -> tuple[float | None, float | None]:
    """Return what a set costs, and the budget, where there is one."""
    return (None, None) if costs is None else (costs.spent(support.tolist()), costs.budget)


def _stationarity_over_data(
    objective: ReducedModel, problem: Problem, x: Vector, features: Features, null: NullFit
) -> float:
    """Return the stationarity of a fit of a reduced model, from the samples themselves."""
    standard = objective.standard
    whole = replace(problem, objective=standard, weights=None, nonnegative=None)
    places = np.append(features, standard.exempt).astype(np.intp)
    return relative_stationarity(
        whole, objective.over_columns(x), places, replace(null, x=objective.over_columns(null.x))
    )
