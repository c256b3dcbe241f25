"""Search for the best k features where the loss has kinks.

ψ is piecewise linear there: it has no curvature that shows which swap gains. Its Moreau envelope has, as a parabola
replaces each kink, over a width of the size of the residuals. So

1. sets are found with the envelope at a few widths (`smooth_search.py`), and each is refitted exactly with the loss
   itself (`nonsmooth_refit.py`);
2. from the best of them swaps are tried with the loss itself, and taken for as long as ψ falls; where fewer than k
   features are in the set, one more is added for as long as one gains more than rounding.

The last set is examined with exact refits alone. Each feature j outside is added, which gives its gain. The dual of
that refit bounds what leaving out another feature i then costs; where that is not less than the gain, the swap of i for
j is ruled out, else it is refitted. A refit counts as examined only if its error, computed from the data, is small.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from levelprox._runtime import TimeLimitError, end_now, finishing
from levelprox._typing import Features, Matrix, Vector
from levelprox.certificate.null_model import null_fit, null_fit_in_time
from levelprox.methods import Context, Progress, Stop
from levelprox.objectives import LinearModel, Model, OneVsRestModel
from levelprox.result import Status
from levelprox.subset.fit import Fit, known_as_arrays, known_of_arrays
from levelprox.subset.local_search import Answer, Monitor, Search
from levelprox.subset.nonsmooth_refit import ExactFit, ExactRefits, has_large_models, rooms
from levelprox.subset.result import Addition, Phase
from levelprox.subset.smooth_search import SmoothSearch
from levelprox.subset.starts import best_by_parabolas
from levelprox.subset.swap_bounds import SwapEstimates

_ENVELOPE_WIDTHS = (1.5, 0.3)  # of the size of the residuals at the null fit
_ENVELOPE_TOL = 1e-6  # how well the envelope is fitted
_ENUMERATED_REFITS = 64  # sets, times classes, up to which all of them are refitted
_SWAP_REFITS = 50  # where not all swaps are to be examined
_ADDITION_REFITS = 100  # where not all additions are to be examined
_LEAST_ADDITION_REFITS = 8  # where the work is spent
_MANY_CLASSES, _CLASS_REFITS = 16, 4000  # beyond so many classes, so many refits of one class in a search
_LOWER_SHARE = 1e-10  # of ψ: less is not an improvement
_CHECKED_ERROR_SHARE = 2.5e-7  # of ψ at the null fit: the error of a refit that shows something
_CERTIFICATE_SECONDS = 0.25  # for the certificate at the end, where no time is left


@dataclass(eq=False)
class NonsmoothSearch(Search):
    """A search where ψ is a `LinearModel` or `OneVsRestModel` whose loss has kinks; parameters: see `Search`."""

    def _begin(self) -> Fit:
        problem = self.problem
        self.objective = cast("LinearModel | OneVsRestModel", problem.objective)
        self.refits = ExactRefits(problem)
        self.standardised: LinearModel | None = None
        self.known: dict[bytes, float] = {}
        self.n_grad = 2
        self.smooth: SmoothSearch | None = None
        self._forget()
        unpenalized = problem.unpenalized
        try:
            with finishing():
                self.standardised = self.refits.parts[0].standardised()
                origin = Fit(unpenalized, np.zeros(problem.coordinates(unpenalized).size), math.inf, np.empty(0))
                self.best: Fit = self._fitted(unpenalized, origin)
                self.null = null_fit(problem, fitted=self.best.x)
        except (Stop, TimeLimitError, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt):
                end_now()
            self.null = null_fit_in_time(problem, 0.0)
            x = self.null.x[problem.coordinates(unpenalized)]
            self.best = Fit(unpenalized, x, self.null.psi, self.objective.restrict(unpenalized).margins(x))
        self.rough = self.best
        self.size = self.refits.distance(self.best)
        self.resolution = _CHECKED_ERROR_SHARE * self.best.psi + 8 * getattr(self.best, "rounding", 0.0)
        return self.best

    def _forget(self) -> None:
        """Reset what is shown of the best set."""
        self.examined = self.additions_examined = 0
        self.multiplier, self.addition = math.nan, cast("int | None", None)

    def steps(self, state: Fit, ctx: Context) -> Generator[Fit, None, Status | None]:
        """Find sets with envelopes and yield the best one; then swap and add features with the loss itself."""
        if not self.null.examined:
            return Status.TIME_LIMIT
        self.monitor.improved(self.best.psi, 0)
        self.monitor.check()
        everything = np.arange(self.problem.n_features)
        if self.problem.n_counted <= self.k and self.problem.allows(everything):
            self._keep(self._fitted_once(everything, self.best))
            if getattr(self.best, "error", math.inf) <= self.resolution:
                self.multiplier, self.complete = 0.0, True
                return None
        elif self.k > 0 and not self._is_perfect():
            start, counted = self.start, self.problem.counted(everything)
            if start is not None and self.problem.counted(start).size <= self.k and self.problem.allows(start):
                self._keep(self._fitted_once(self.problem.with_unpenalized(start), self.best))
            every = start is None and self.problem.costs is None
            if every and math.comb(counted.size, self.k) * self.problem.n_outputs <= _ENUMERATED_REFITS:
                self.monitor.enter("exchanges")
                for chosen in itertools.combinations(counted.tolist(), self.k):
                    self._keep(self._fitted_once(self.problem.with_unpenalized(np.array(chosen)), self.best))
            else:  # sets that are found with the envelope at a few widths
                for width in _ENVELOPE_WIDTHS if start is None else _ENVELOPE_WIDTHS[-1:]:
                    for fit in self._sets(width):
                        if fit.features.tobytes() not in self.known:
                            self._keep(self._fitted_once(fit.features, fit))
                    if self.monitor.held_back or self._is_perfect():
                        break
        yield self.best
        self.monitor.enter("proof")
        self._improve()
        self.complete = True
        return None

    def _improve(self) -> None:
        """Swap and add features for as long as ψ falls; a set that comes twice ends this."""
        visited = set[bytes]()
        while True:
            self.best = cast(ExactFit, self.best).without_zeros(self.problem)
            visited.add(self.best.features.tobytes())
            better, *figures = self.monitor.once(self._examine)
            if better is None:
                self.examined, self.additions_examined, self.multiplier, self.addition = cast(Any, figures)
                better = None if self.problem.costs is None else self.monitor.once(self._spent_otherwise)
                if better is None:
                    return
            self._keep(better)
            if better.without_zeros(self.problem).features.tobytes() in visited:
                self._forget()
                return

    def _spent_otherwise(self) -> ExactFit | None:
        """Return the fit after a move of several features within the budget, where its ψ is lower."""
        fit = cast(ExactFit, self.best)
        if self.start is not None or not self.k or self._is_perfect() or not self.monitor.may_swap():
            return None
        search = self._last_envelope()
        assert search.moves is not None
        near = search.swaps.fitted(fit.features, fit if self.standardised is None else None)
        for way in search.moves.ways(near):
            features = search.moves.after(near, way)
            self._count(search)
            if self.known.get(features.tobytes(), -math.inf) < fit.psi - _LOWER_SHARE * fit.psi:
                new = self._fitted(features, fit)
                if self._is_lower(new, fit):
                    self.monitor.step += 1
                    return new
        return None

    def memory(self) -> dict[str, Any] | None:
        """Return what has been found and reported, as plain data; None once a limit has cut the search short."""
        if self.monitor.cut_short:
            return None
        known, smooth = known_as_arrays(self.known), None if self.smooth is None else self.smooth.memory()
        found = {"best": self.best, "rough": self.rough, "known": known, "n_grad": self.n_grad}
        return {**found, "watch": self.monitor.as_state(), "smooth": smooth}

    def restore(self, memory: dict[str, Any]) -> None:
        """Resume from what `memory` returned."""
        self.best, self.rough, self.n_grad = memory["best"], memory["rough"], memory["n_grad"]
        self.known = known_of_arrays(memory["known"])
        self.monitor.take(memory["watch"])
        if memory["smooth"] is not None:
            self._last_envelope().restore(memory["smooth"])

    def progress(self) -> Progress:
        """Return how far the search has come, that with the envelope included."""
        if self.smooth is not None and self.monitor.phase != "proof":
            self.monitor.done = self.smooth.monitor.done
        return super().progress()

    def _sets(self, width: float) -> Iterator[Fit]:
        """Yield sets that swaps do not improve where the envelope takes the place of the loss."""
        search = self.smooth = self._with_envelope(width)
        try:
            models = self.start is None and has_large_models(self.problem)
            for fit in self._by_models(search) if models else search.sets():
                self._count(search)
                self._remember(fit)
                yield self._of_data(fit)
            while search.moves is not None and search.moves.by_several():
                self._count(search)
                yield self._of_data(search.swaps.best)
            self._count(search)
            yield self._of_data(search.swaps.best)  # from a perfect fit no swap begins
        except TimeoutError:
            self._remember(search.swaps.best_so_far())
            raise
        self.monitor.held_back |= search.monitor.held_back

    def _by_models(self, search: SmoothSearch) -> Iterator[Fit]:
        """Yield the best set that second-order models of the envelope lead to."""
        search.swaps.keep(self.monitor.once(lambda: best_by_parabolas(search.swaps, search.swaps.best, self.k, True)))
        yield search.swaps.best

    def _of_data(self, fit: Fit) -> Fit:
        """Return a fit with the envelope with coefficients for the columns as they are."""
        if self.standardised is None:
            return fit
        n_outputs = len(self.refits.parts)
        x = np.zeros((self.problem.n_features, n_outputs))
        x[fit.features] = fit.x.reshape(-1, n_outputs)
        x = np.stack([self.standardised.unstandardised(column) for column in x.T], axis=1)
        return replace(fit, x=x[fit.features].ravel())

    def _count(self, search: SmoothSearch) -> None:
        """Add the passes and swaps of a search with the envelope to those of this one."""
        self.n_grad, search.swaps.n_grad = self.n_grad + search.swaps.n_grad, 0
        self.monitor.step, search.monitor.step = self.monitor.step + search.monitor.step, 0

    def _last_envelope(self) -> SmoothSearch:
        """Return the last search with the envelope, or a new one."""
        self.smooth = self.smooth or self._with_envelope(_ENVELOPE_WIDTHS[-1])
        return self.smooth

    def _with_envelope(self, width: float) -> SmoothSearch:
        """Return a search with the envelope, begun."""
        loss, columns = self.objective.loss.smoothed(width * self.size), self.standardised
        smooth: Model = self.objective.with_loss(loss) if columns is None else columns.with_loss(loss)
        if columns is not None and isinstance(self.objective, OneVsRestModel):
            smooth = self.objective.with_loss(loss).over(cast(Matrix, columns.design))
        monitor = Monitor(self.monitor.ctx, self.monitor, self._enter)
        search = SmoothSearch(_ENVELOPE_TOL, start=self.start, monitor=monitor)
        search.brief = len(self.refits.parts) > _MANY_CLASSES
        search.begin(replace(self.problem, objective=smooth))
        return search

    def _enter(self, phase: Phase) -> None:
        if self.monitor.phase not in ("proof", phase):
            self.monitor.enter(phase)

    def _examine(self) -> tuple[ExactFit | None, int, int, float, int | None]:
        """Return a fit with lower ψ, by one swap or one more feature, if there is one; else what is shown.

        That is how many swaps and additions do not lower ψ, the largest gain of an addition, and its feature.
        """
        fit = cast(ExactFit, self.best)
        outside = self._outside(fit)
        self._forget()
        if self._is_perfect():  # no set has a ψ below 0
            return None, self.problem.count_swaps(self.best.features), self.additions_total, 0.0, None
        order, gains = self._promising(fit, outside)
        larger = dict[int, ExactFit]()
        better = self._added(fit, outside[order], larger)
        if better is None and self.problem.counted(fit.features).size and self.monitor.may_swap():
            better = self._swapped(fit, outside, gains, larger)
        return better, self.examined, self.additions_examined, self.multiplier, self.addition

    def _added(self, fit: ExactFit, candidates: Features, larger: dict[int, ExactFit]) -> ExactFit | None:
        """Add each of the first candidates; return the best result where there is room for it and ψ falls."""
        room = self.problem.counted(fit.features).size < self.k
        most = int(min(_ADDITION_REFITS, max(_LEAST_ADDITION_REFITS, self._refits_left())))
        affordable = np.ones(self.problem.n_features, np.bool_)
        if self.problem.costs is not None:  # a feature that the budget does not pay for may take the place of another
            affordable = self.problem.costs.affordable(fit.features)
            highest = max([-1.0, self.problem.costs.room(fit.features.tolist()), *rooms(self.problem, fit)])
            candidates = candidates[self.problem.costs.cost[candidates] <= highest]
            needed = self.prove | (room & affordable[candidates])
            candidates = candidates[needed | (np.arange(candidates.size) < most)]
        elif not (self.prove or room):
            candidates = candidates[:most]
        best: ExactFit | None = None
        self.multiplier = 0.0
        for tried, j in enumerate(candidates.tolist()):
            self.monitor.done = tried / (2 * candidates.size)
            new = self._fitted(np.union1d(fit.features, [j]).astype(np.intp), fit)
            self.additions_examined += bool(affordable[j]) and new.error <= self.resolution
            if affordable[j] and fit.psi - new.psi > self.multiplier and self._is_lower(new, fit):
                self.multiplier, self.addition, best = fit.psi - new.psi, j, new
            larger[j] = replace(new, margins=np.empty(0), slopes=())
            if room and best is not None and tried + 1 >= most:
                break
        return best if room else None

    def _swapped(self, fit: ExactFit, outside: Features, gains: Matrix, larger: dict[int, ExactFit]) -> ExactFit | None:
        """Try swaps, the most promising ones first; return the first result whose ψ is lower."""
        left = list[tuple[float, int, int]]()
        places, room = np.flatnonzero(self.problem.counts(fit.features)).tolist(), rooms(self.problem, fit)
        enough = fit.psi - _LOWER_SHARE * fit.psi
        for column, j in enumerate(outside.tolist()):
            if j in larger:
                least = larger[j].psi - larger[j].error + larger[j].removal[larger[j].features != j]
                for row, i in enumerate(places):
                    if self.problem.costs is not None and self.problem.costs.cost[j] > room[row]:
                        continue
                    if least[i] >= enough:
                        self.examined += 1
                    else:
                        left.append((-float(gains[row, column]), i, j))
        left = sorted(left) if self.prove else sorted(left)[: int(min(_SWAP_REFITS, self._refits_left()))]
        for tried, (_, i, j) in enumerate(left):
            self.monitor.done = (1 + tried / len(left)) / 2
            features = np.setdiff1d(larger[j].features, fit.features[[i]])
            if self.known.get(features.tobytes(), -math.inf) < enough:
                new = self._fitted(features, larger[j])
                if self._is_lower(new, fit):
                    self.monitor.step += 1
                    return new
                self.examined += new.error <= self.resolution
            else:
                self.examined += 1
        return None

    def _refits_left(self) -> float:
        """Return how many refits are left to examinations: with many classes each of them takes long."""
        n_outputs = len(self.refits.parts)
        many = n_outputs > _MANY_CLASSES and not self.prove
        return max(_CLASS_REFITS // n_outputs - self.monitor.n_refits, 0) if many else math.inf

    def _promising(self, fit: Fit, outside: Features) -> tuple[Features, Matrix]:
        """Return places in `outside`, the most promising first, and what swaps gain (droppable by outside).

        Gains are estimated by the envelope, unless all of them are computed exactly.
        """
        places = np.flatnonzero(self.problem.counts(fit.features)).tolist()
        if outside.size <= _ADDITION_REFITS and len(places) * outside.size <= _SWAP_REFITS:
            return np.arange(outside.size), np.zeros((len(places), outside.size))
        envelope = self._envelope(fit)
        estimates = [envelope.additions()[outside], *(envelope.gains(i)[outside] for i in places)]
        found = np.where(np.isfinite(estimates), estimates, -np.inf)
        best = found[0], np.max(found[1:], axis=0, initial=-np.inf)
        ranks = [np.argsort(np.argsort(-one, kind="stable")) for one in best]
        return np.argsort(np.minimum(*ranks), kind="stable"), found[1:]

    def _outside(self, fit: Fit) -> Features:
        return np.setdiff1d(self.problem.counted(np.arange(self.problem.n_features)), fit.features)

    def _is_lower(self, new: ExactFit, fit: ExactFit) -> bool:
        """Return whether ψ is lower by more than rounding."""
        return new.psi < fit.psi - _LOWER_SHARE * fit.psi - 2 * new.rounding

    def _envelope(self, fit: Fit) -> SwapEstimates:
        """Return second-order estimates of the envelope around a set."""
        search = self._last_envelope()
        swaps = search.swaps
        estimates = swaps.estimates(swaps.fitted(fit.features, fit if self.standardised is None else None))
        self._count(search)
        return estimates

    def _fitted_once(self, features: Features, near: Fit) -> ExactFit:
        """Minimise ψ over these features, and record the result."""
        fit = self.monitor.once(lambda: self._fitted(features, near))
        self.known[features.tobytes()] = fit.psi - fit.error
        return fit

    def _fitted(self, features: Features, near: Fit) -> ExactFit:
        """Minimise ψ over these features, from the coefficients of another fit."""
        self.monitor.check()
        self.monitor.n_refits += 1
        fit = self.refits(features, near, self.monitor.seconds_left)
        self.known[features.tobytes()] = fit.psi - fit.error
        return fit

    def _keep(self, fit: Fit) -> None:
        if fit.psi < self.best.psi:
            self.best = fit
            self.monitor.improved(fit.psi, self.problem.counted(fit.features).size)

    def _remember(self, fit: Fit) -> None:
        """Keep a fit with the envelope, should there be no time for one with the loss itself."""
        psi = self.objective.value_of(fit.margins)
        if psi < min(self.rough.psi, self.best.psi):
            self.rough = replace(self._of_data(fit), psi=psi)
            self.monitor.improved(psi, self.problem.counted(fit.features).size)

    def _is_perfect(self) -> bool:
        """Return whether ψ is 0 up to rounding: no set of features gains more."""
        return bool(self.best.psi <= 4 * getattr(self.best, "rounding", 0.0) <= self.resolution)

    @property
    def additions_total(self) -> int:
        """How many features can be added to the best set; within the budget, if there is one."""
        if self.problem.costs is not None:
            return int(np.count_nonzero(self.problem.costs.affordable(self.best.features)))
        return self._outside(self.best).size

    def _answer(self) -> Answer:
        if not self.complete and self.rough.psi < self.best.psi:
            self.best = self.rough
            self._forget()
        addition = None
        if not math.isnan(self.multiplier):
            addition = Addition(self.multiplier, self.addition, self.additions_examined, self.additions_total)
        return Answer(self.best, self.examined, addition, self.n_grad, self.monitor.n_refits)

    def _figures(self, fit: Fit, x: Vector) -> tuple[float, float]:
        psi = self.null.reported(self.objective, x, self.objective.value_and_gradient(x)[0])
        return psi, self.refits.stationarity(fit, self.null, max(_CERTIFICATE_SECONDS, self.monitor.seconds_left()))
