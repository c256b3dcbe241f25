"""The search where ψ is twice differentiable and the data are in memory.

As the threshold of MCP shrinks, g/cap tends to the number of nonzeros, so continuation in the threshold, at the level
(k + ½) cap, leads to a set of k features. Several such sets are found:

- at every stage of the continuation, over columns scaled to equal curvature, the k largest;
- by forward selection of up to 2k features and backward elimination; for a few features without the first one, too.

Each is refitted, and the best of either kind is improved by swaps for as long as ψ falls; then by leaving one feature
out, swapping those left, and adding one. Under a budget of costs the starts and moves are those of moves.py.
For more than `MANY_FEATURES` only the better of forward selection of k and continuation is improved, with bounded work.
Other starts are the Gram matrix of a squared loss, second-order models (starts.py) and, where nothing has to be shown,
one path for all k of a softmax model. Features that are given are the only start.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from levelprox._runtime import TimeLimitError, finishing
from levelprox._typing import Features, Vector
from levelprox.certificate.null_model import NullFit, null_fit, null_fit_in_time, relative_stationarity
from levelprox.methods import Context
from levelprox.methods.restricted import SolverOptions
from levelprox.objectives import LinearModel, Model, MultinomialModel, Objective
from levelprox.objectives.multiclass import ByClass
from levelprox.objectives.reduced import ReducedModel
from levelprox.problem import SubsetProblem
from levelprox.result import Status
from levelprox.subset.column_cache import Columns, shared
from levelprox.subset.fit import Fit, sharpened
from levelprox.subset.forward import FEW, eliminated, forward
from levelprox.subset.local_search import Answer, Monitor, Search
from levelprox.subset.moves import CostMoves, best_by_continuation, best_far_out, best_from_convex
from levelprox.subset.multiclass_path import best_on_class_path, newton_of
from levelprox.subset.newton import to_the_last_digits
from levelprox.subset.nonsmooth_refit import has_large_models
from levelprox.subset.result import Addition
from levelprox.subset.second_order import TRIES
from levelprox.subset.starts import (
    best_by_gram,
    best_by_narrowing,
    best_by_parabolas,
    can_be_narrowed,
    has_class_path,
    has_gram,
    has_parabolas,
    is_found_by_models,
    is_lowered_by_elimination,
)
from levelprox.subset.swap_bounds import MANY_FEATURES, costs, gap_before_last_step
from levelprox.subset.swaps import SwapSearch

_ATTAINED_SHARE = 1e-8  # of ψ of the fit and of the null fit: by how much x may miss ψ of the fit
_ATTAINED_RESOLUTIONS = 64  # or so many times the resolution of ψ
_OPTIMAL_GAP_SHARE = 1e-6  # of the null loss: a gap up to which a fit is taken to be optimal
_MANY_FEATURES_WORK = 1.25e10  # of all refits of a search for many features: n k² multiplications each
_TRIES_WHERE_EXPENSIVE = 2  # swaps that are tried for one that lowers ψ, where a refit takes long


@dataclass(eq=False)
class SmoothSearch(Search):
    """A search over columns in memory; the first parameters are those of `Search`.

    Parameters
    ----------
    data : LinearModel or ByClass, optional
        ψ over the columns as they are, where those of `problem` are standardised: what is returned is in its units.
    brief : bool
        Whether to leave out the start by continuation.
    examine : bool
        Whether to show anything of the set that is found; where not, the search may end once promising swaps no longer
        lower ψ (`_is_quick`), and softmax models leave out the start by continuation.
    leave : callable, optional
        Called as leave(features, x, last) with a set of features and x over all coordinates of the data: once there are
        k features, after each start, and after the last. True ends the search, before anything is shown.
    thorough : bool
        Whether to look further than swaps where features are given to begin with, too.
    columns : Columns, optional
        A cache of the columns of the problem.
    known : ndarray of int, optional
        At most k features whose fit is returned where the search is cut short before it finds a better one.
    """

    data: LinearModel | ByClass | None = None
    brief: bool = False
    examine: bool = True
    leave: Callable[[Features, Vector, bool], bool] | None = None
    thorough: bool = False
    known: Features | None = None
    columns: Columns | None = None
    _ended: bool = field(default=False, init=False)
    _examined: int = field(default=0, init=False)
    _addition: Addition | None = field(default=None, init=False)
    _of_gram: Features | None = field(default=None, init=False)  # the set that a Gram matrix leads to

    @property
    def objective(self) -> Model:
        """ψ, over columns that may be standardised."""
        return cast(Model, self.problem.objective)

    @property
    def reported_objective(self) -> Objective:
        """ψ in the units of the data."""
        return self.objective if self.data is None else self.data

    # --- the null model

    def _begin(self) -> Fit:
        known = shared(self.problem) if self._shares() else None  # searches of the same data for other k may have it
        null = (known and known.null) or null_fit_in_time(self.problem, self.monitor.seconds_left())
        if known is not None and null.examined:
            known.null = null
        return self.begin(self.problem, null)

    def begin(self, problem: SubsetProblem, null_fitted: NullFit | None = None) -> Fit:
        """Begin with the null model; where it is given, unpenalized features are yet to be refitted."""
        self.problem, left, unpenalized = problem, self.monitor.seconds_left, problem.unpenalized
        self.null = null_fitted or null_fit(problem, left())
        x = self.null.x[problem.coordinates(unpenalized)]
        null = Fit(unpenalized, x, self.null.psi, self.objective.restrict(unpenalized).margins(x))
        how = SolverOptions(self.null, left)
        tries = _TRIES_WHERE_EXPENSIVE if problem.has_many_coordinates else TRIES
        columns = shared(problem).columns if self._shares() else self.columns
        self.swaps = SwapSearch(problem, null, self.null, self.tol * self.null.scale, how, self.prove, tries, columns)
        self.swaps.monitor = self.monitor
        self.swaps.refits.brief = self._is_quick()
        self.moves = None if problem.costs is None else CostMoves(self, problem.costs)
        if self.examine and has_class_path(problem, 2 * self.k):
            self.swaps.newton = functools.cache(lambda: newton_of(problem))
        if null_fitted is None:
            with suppress(TimeoutError):  # the search itself says that there is no time
                self._fit_unpenalized()
        self.swaps.n_grad = 2 if unpenalized.size else 1
        return self.swaps.best

    def _fit_unpenalized(self) -> None:
        """Fit the unpenalized features as all others are."""
        if self.objective.convex_start is None:
            null = self.swaps.best
            self.swaps.best = self.swaps.rough = self.swaps.fitted(null.features, null)

    # --- the search

    def steps(self, state: Fit, ctx: Context) -> Generator[Fit, None, Status | None]:
        """Yield one improved set after another, then examine the best one."""
        if not self.null.examined:
            return Status.TIME_LIMIT
        once, swaps = self.monitor.once, self.swaps
        try:
            self._fit_unpenalized()
            if self.known is not None:
                known = self.problem.with_unpenalized(self.known)
                swaps.remember(once(lambda: swaps.roughly(known, swaps.best)))
        finally:
            if swaps.best_so_far() is swaps.best:
                self.monitor.improved(swaps.best.psi, 0)
        for fit in self.sets():
            yield fit
            if self.may_end(swaps.best):
                break
        if not self.may_end(swaps.best, last=True):
            examined, addition = 0, None
            while not self._is_quick() and (addition is None or self._takes_in(addition)):
                if self.k > 0:
                    self.monitor.enter("proof")
                    examined = swaps.examined()
                    while self._one_less_and_one_more() if self.moves is None else self.moves.by_several():
                        examined = swaps.examined()
                    swaps.finish()  # a lower ψ of the same set is not improved by these swaps either
                    swaps.keep(swaps.best if swaps.refits.far is None else once(lambda: best_far_out(swaps)))
                addition = once(swaps.best_addition)
            self._examined, self._addition = examined, addition
            if self.examine or not (isinstance(self.objective, LinearModel) or self._has_path()):
                swaps.best = to_the_last_digits(self.problem, swaps.best, self.null)
            else:
                swaps.best = sharpened(swaps.refits, swaps.best)
        self.complete = True
        return None

    def sets(self) -> Iterator[Fit]:
        """Yield sets that swaps no longer improve, according to estimates, one for each start."""
        problem, everything = self.problem, np.arange(self.problem.n_features)
        if problem.n_counted <= self.k and problem.allows(everything):
            self.swaps.keep(self.monitor.once(lambda: self.swaps.fitted(everything)))
        elif self.k > 0 or self.objective.convex_start is not None:
            for start in self._starts():
                self.monitor.enter("exchanges")
                if self.moves is not None:
                    yield self.moves.improved(start)
                elif self._has_path() or (self._is_quick() and has_parabolas(problem)):  # no swap gains there
                    self.swaps.keep(start)
                    yield start
                else:
                    yield self.swaps.improved(start)
        if self.objective.convex_start is not None:
            self.swaps.keep(self.monitor.once(lambda: best_far_out(self.swaps)))

    def may_end(self, fit: Fit, last: bool = False) -> bool:
        """Return whether the caller ends the search with a set (`leave`)."""
        if self.leave is not None and not self._ended and not self.monitor.cut_short:
            self._ended = self.leave(self.problem.counted(fit.features), self.whole(fit), last)
        return self._ended

    def _takes_in(self, addition: Addition) -> bool:
        """Add one more feature if there is room for it and it gains more than rounding; return whether it was added."""
        best = self.swaps.best
        if addition.feature is None or self.problem.counted(best.features).size >= self.k:
            return False
        features = np.union1d(best.features, [addition.feature]).astype(np.intp)
        self.swaps.keep(self.monitor.once(lambda: self.swaps.fitted(features, best)))
        return self.swaps.best is not best

    def _one_less_and_one_more(self) -> bool:
        """Return whether one feature less, swaps there, and one more feature, or many more at first, lead lower.

        This leads out of sets that no swap improves and that are worse than others.
        """
        best, begun = self.swaps.best, self.start is not None and not self.thorough
        if begun or self.problem.counted(best.features).size < max(self.k, 2) or self.swaps.is_perfect(best):
            return False
        tried = self._of_gram is not None and np.array_equal(best.features, self._of_gram)  # by the Gram matrix
        if tried or self.swaps.has_tried_elimination or self.swaps.has_spent_its_work():
            return False
        self.monitor.enter("exchanges")
        least, once = int(np.argmin(costs(self.problem, best))), self.monitor.once
        less = self.swaps.improved(once(lambda: self.swaps.fitted(np.delete(best.features, least), best)))
        more = once(lambda: forward(self.swaps, less, 1))
        fit = once(lambda: self.swaps.fitted(np.union1d(less.features, more).astype(np.intp), less))
        if self.swaps.lowers(self.swaps.improved(fit), best):
            return True
        self.swaps.best = best  # whose swaps were examined; what is lower by rounding alone is not better
        return has_parabolas(self.problem) and is_lowered_by_elimination(self.swaps, self.k)

    # --- which kind of search

    def _is_quick(self) -> bool:
        """Return whether nothing is to be shown, and the search may end earlier for it.

        Swaps of a squared loss with signs are examined quickly, and those that lower it are taken.
        """
        some = self.objective.self_concordance != 0 or can_be_narrowed(self.problem)
        return not self.examine and (some or is_found_by_models(self.problem))

    def _is_narrowed(self) -> bool:
        """Return whether sets come from second-order models over some of the features, as for fits of folds."""
        return self._is_quick() and not is_found_by_models(self.problem) and can_be_narrowed(self.problem)

    def _shares(self) -> bool:
        """Return whether searches of the same data for other k have computed some of what this one needs."""
        return has_parabolas(self.problem) or has_gram(self.problem) or self._is_narrowed() or self._has_path()

    def _has_path(self) -> bool:
        """Return whether sets of a softmax model come from one path for all k, as for fits of folds."""
        return self._is_quick() and self.start is None and has_class_path(self.problem, self.k)

    # --- starts

    def _starts(self) -> Iterator[Fit]:
        """Yield sets of k features from which swaps begin."""
        once, null, problem, objective = self.monitor.once, self.swaps.best, self.problem, self.objective
        if self.start is not None:
            start = problem.counted(self.start)
            yield once(lambda: self._completed(start) if self.moves is None else self.moves.completed(start))
            return
        if self.moves is not None:
            yield from self._convex_starts(null)
            yield from self.moves.starts(null)
            return
        if has_gram(problem):  # what the Gram matrix finds is as good as what the others do
            fit = best_by_gram(self.swaps, self.k, self._is_quick())
            self._of_gram = fit.features
            yield fit
            return
        if self._has_path():
            yield best_on_class_path(self.swaps, self.k)
            return
        if self._is_narrowed():
            yield best_by_narrowing(self.swaps, null, self.k)
            return
        if has_parabolas(problem):
            yield once(functools.partial(best_by_parabolas, self.swaps, null, self.k, self._is_quick()))
            return
        yield from self._convex_starts(null)
        if has_large_models(problem):  # which say enough, followed by swaps
            if objective.convex_start is None:
                yield once(functools.partial(best_by_parabolas, self.swaps, null, self.k, True))
            return
        many = problem.n_outputs == 1 and self.k > MANY_FEATURES
        if many:
            self.swaps.most_refits = _MANY_FEATURES_WORK / (objective.n_margins * self.k**2)
        most = min(self.k if many else 2 * self.k, problem.n_counted, max(self.k, objective.n_margins - 1))
        chosen = once(lambda: forward(self.swaps, null, most, shown=self.k))
        first = once(lambda: self.swaps.fitted(problem.with_unpenalized(chosen[: self.k])))
        self.swaps.keep(first)
        if self.swaps.is_perfect(first) or self.may_end(first):
            return
        self.monitor.enter("continuation")
        brief = self.brief or (self._is_quick() and isinstance(objective, MultinomialModel))
        yield once(lambda: first if brief else best_by_continuation(self.swaps, first))
        if many:
            return
        self.monitor.enter("forward")
        yield once(lambda: eliminated(self.swaps, chosen, self.k))
        yield first
        if chosen.size and self.k <= FEW and not problem.has_many_coordinates:
            self.monitor.enter("forward")
            others = once(lambda: forward(self.swaps, null, self.k, without=int(chosen[0])))
            yield once(lambda: self.swaps.fitted(problem.with_unpenalized(others)))

    def _convex_starts(self, null: Fit) -> Iterator[Fit]:
        """Yield the fit of the unpenalized features, and that of the answer for the convex start of the loss."""
        convex = self.objective.convex_start
        if convex is not None:
            yield self.monitor.once(lambda: self.swaps.fitted(null.features, null))
            yield self.monitor.once(lambda: self._found_by(convex))

    def _found_by(self, convex: Model) -> Fit:
        """Return the best fit over the features of the answer for a convex loss."""
        search = SmoothSearch(self.tol, monitor=Monitor(parent=self.monitor))
        search.begin(replace(self.problem, objective=convex))
        deque(search.sets(), maxlen=0)
        self.monitor.step += search.monitor.step
        self.swaps.n_grad += search.swaps.n_grad
        self.swaps.n_refits += search.swaps.n_refits
        return best_from_convex(self.swaps, search.swaps.best)

    def _completed(self, features: Features) -> Fit:
        """Return the fit over k features: the most useful of these, or these with the most useful others."""
        if features.size == self.k:
            return self.swaps.fitted(self.problem.with_unpenalized(features), self.swaps.best)
        if features.size > self.k:
            return eliminated(self.swaps, features, self.k)
        fit = self.swaps.fitted(self.problem.with_unpenalized(features))
        self.swaps.keep(fit)
        more = forward(self.swaps, fit, self.k - features.size, shown=self.k)
        return self.swaps.fitted(np.union1d(fit.features, more).astype(np.intp), fit)

    # --- the end

    def _answer(self) -> Answer:
        fit = self.swaps.best if self.complete else self.swaps.best_so_far()
        optimal = self._is_known_to_be_optimal(fit)
        note = "" if optimal else "; these coefficients are not proved to be the best of these features"
        return Answer(fit, self._examined, self._addition, self.swaps.n_grad, self.swaps.n_refits, note)

    def _is_known_to_be_optimal(self, fit: Fit) -> bool:
        """Return whether ψ of a fit is within 1e-6 of the null loss, or its rounding, of a lower bound.

        Losses that are not convex have no such bound, and their swaps are said to be local.
        """
        if self.objective.convex_start is not None:
            return True
        above = self.null.psi - self.objective.infimum
        scale = above if math.isfinite(above) else abs(self.null.psi)
        enough = max(_OPTIMAL_GAP_SHARE * scale, _ATTAINED_RESOLUTIONS * fit.resolution)
        gap = fit.gap
        if self.complete and math.isinf(gap) and math.isinf(self.objective.self_concordance):
            with suppress(TimeLimitError, KeyboardInterrupt), finishing():
                gap = gap_before_last_step(self.objective.restrict(fit.features), fit.margins)
        return gap <= enough

    def _figures(self, fit: Fit, x: Vector) -> tuple[float, float]:
        if not self.examine and fit.gap <= self.swaps.threshold(fit):
            return fit.psi, 0.0
        objective, problem, inside = self.reported_objective, self.problem, self.problem.spread(fit.features, fit.x)
        psi = self.null.reported(objective, x, objective.value_and_gradient(x)[0])
        if not isinstance(self.objective, ReducedModel):
            return psi, relative_stationarity(problem, inside, fit.features, self.null)
        standard, over = self.objective.standard, self.objective.over_columns  # the samples themselves
        places = np.append(fit.features, standard.unpenalized).astype(np.intp)
        null = replace(self.null, x=over(self.null.x))
        return psi, relative_stationarity(SubsetProblem(standard, 0), over(inside), places, null)

    def _attains(self, fit: Fit, psi: float) -> bool:
        rounding = max(_ATTAINED_SHARE * max(abs(fit.psi), abs(self.null.psi)), _ATTAINED_RESOLUTIONS * fit.resolution)
        return not psi > fit.psi + rounding

    def _concludes(self) -> bool:
        return not self._ended

    def _reported(self, x: Vector) -> Vector:
        return x if self.data is None else self.objective.unstandardised(x)

    def memory(self) -> dict[str, Any] | None:
        """Return what has been found and reported, as plain data; None once a limit has cut the search short."""
        return None if self.monitor.cut_short else {"swaps": self.swaps.as_state(), "watch": self.monitor.as_state()}

    def restore(self, memory: dict[str, Any]) -> None:
        """Resume from what `memory` returned."""
        self.swaps.take(memory["swaps"])
        self.monitor.take(memory["watch"])
