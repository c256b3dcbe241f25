"""One search for the best k features, where the loss has kinks.

There ψ is piecewise linear: it has no curvature that would tell which exchange gains. Its Moreau envelope has, as a
parabola takes the place of each kink, over a width of the size of the residuals. So

1. sets are found with the envelope at a few widths (`search.py`), and each is refitted exactly with the loss itself
   (`exact_refit.py`);
2. from the best of them exchanges are tried with the loss itself, in the order in which the envelope promises most, and
   taken for as long as ψ falls.

What comes back is a set that none of the exchanges tried improves; each was refitted exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from levelprox.exact_refit import ExactRefits
from levelprox.exchange import Exchange
from levelprox.journal import Journal
from levelprox.null_fit import NullFit, null_fit
from levelprox.objectives import LinearModel, OneVsRestModel
from levelprox.pieces import pieces_of
from levelprox.problem import Problem
from levelprox.refit import Fit
from levelprox.result import Status
from levelprox.search import Search
from levelprox.subset import Exchanges, Subset, SubsetRecord
from levelprox.swaps import known_as_arrays, known_of_arrays
from levelprox.watch import Watch

Vector = NDArray[np.float64]
Features = NDArray[np.intp]

_WIDTHS = (1.5, 0.3)  # of the size of the residuals at the null fit
_ROUGH = 1e-6  # how well the envelope is fitted
_TOP = 50  # exchanges that are tried where not all of them are
_ADDITIONS = 5  # that are tried for the best one
_LOWER = 1e-10  # of ψ: less is not an improvement
_PERFECT = 1e-9  # of ψ at the null fit: nothing is left to explain
_SECOND = 0.25  # that the certificate may take at the end, where there is no time left


@dataclass(eq=False)
class KinkedSearch:
    """One search: what is known, and what it cost.

    Parameters
    ----------
    problem : Problem
        ψ, a `LinearModel` or `OneVsRestModel` whose loss has kinks, with weights and signs; features of weight 0 are
        in every fit.
    k : int
    tol : float
        On the stationarity of the fit that is returned.
    prove : bool
        Whether to try all exchanges whatever that takes.
    watch : Watch
    start : ndarray of int, optional
        Features to begin with.
    journal : Journal
        Of what is found, to go on from.
    """

    problem: Problem
    k: int
    tol: float
    prove: bool
    watch: Watch
    start: Features | None = None
    journal: Journal = field(default_factory=Journal)

    def __call__(self) -> Subset:
        self.pieces = pieces_of(self.journal, self.as_state, self.take)
        self._begin()
        multiplier, addition, status = math.nan, None, Status.SOLVED
        self.watch.arm()
        try:
            self.watch.improved(self.best.psi, 0)
            self._search()
            multiplier, addition = (0.0, None) if self._is_perfect() else self.pieces.once(self._best_addition)
        except TimeoutError as error:
            if error is self.watch.raised:
                raise
            status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        finally:
            self.watch.disarm()
        return self._subset(multiplier, addition, status)

    def _begin(self) -> None:
        """The null fit, exactly."""
        problem = self.problem
        self.objective = cast("LinearModel | OneVsRestModel", problem.objective)
        self.refits = ExactRefits(problem)
        self.known: dict[bytes, float] = {}
        self.examined, self.n_grad = 0, 2
        self.smooth: Search | None = None
        self.null: NullFit = null_fit(problem, self.watch.left())
        exempt = problem.exempt
        x = self.null.x[problem.coordinates(exempt)]
        self.best: Fit = Fit(exempt, x, self.null.psi, self.objective.restrict(exempt).margins(x))
        if exempt.size and self.watch.left() > 0:
            self.best = self._fitted(exempt, self.best)
        self.rough = self.best
        self.size = self.refits.distance(self.best)

    def _search(self) -> None:
        everything = np.arange(self.problem.n_features)
        if self.problem.counted(everything).size <= self.k:
            self._keep(self._fitted_once(everything, self.best))
        elif self.k > 0 and not self._is_perfect():
            self._begin_with(self.start)
            for width in _WIDTHS if self.start is None else _WIDTHS[-1:]:
                for fit in self._sets(width):
                    if fit.features.tobytes() not in self.known:
                        self._keep(self._fitted_once(fit.features, fit))
                if self.watch.held_back or self._is_perfect():
                    break
            self.watch.enter("proof")
            self.examined = self._exchange()

    def _begin_with(self, start: Features | None) -> None:
        """The features that are given, where they are not too many."""
        if start is not None and self.problem.counted(start).size <= self.k:
            self._keep(self._fitted_once(np.union1d(start, self.problem.exempt).astype(np.intp), self.best))

    def as_state(self) -> dict[str, Any] | None:
        """What has been found and told, as plain data; None once a limit has cut that short."""
        if self.watch.cut_short or (self.smooth is not None and self.smooth.watch.cut_short):
            return None
        return {
            "best": self.best,
            "rough": self.rough,
            "known": known_as_arrays(self.known),
            "n_grad": self.n_grad,
            "watch": self.watch.as_state(),
            "smooth": None if self.smooth is None else self.smooth.as_state(),
        }

    def take(self, state: dict[str, Any]) -> None:
        """Go on from what `as_state` gave."""
        self.best, self.rough, self.n_grad = state["best"], state["rough"], state["n_grad"]
        self.known = known_of_arrays(state["known"])
        self.watch.take(state["watch"])
        if state["smooth"] is not None:
            if self.smooth is None:
                self.smooth = self._with_envelope(_WIDTHS[-1])
            self.smooth.take(state["smooth"])

    def _sets(self, width: float) -> Iterator[Fit]:
        """Sets that exchanges do not improve where the envelope takes the place of the loss."""
        search = self.smooth = self._with_envelope(width)
        try:
            for fit in search.sets():
                self._count(search)
                self._remember(fit)
                yield fit
            self._count(search)
            yield search.swaps.best  # from where nothing is left to explain no exchange begins
        except TimeoutError:
            self._remember(search.swaps.best_so_far())
            raise
        self.watch.held_back |= search.watch.held_back

    def _count(self, search: Search) -> None:
        """What a search with the envelope took, and how many exchanges are left to it."""
        self.n_grad, search.swaps.n_grad = self.n_grad + search.swaps.n_grad, 0
        self.watch.step, search.watch.step = self.watch.step + search.watch.step, 0
        search.watch.max_iter = self.watch.max_iter - self.watch.step

    def _with_envelope(self, width: float) -> Search:
        """A search with the envelope, begun."""
        smooth = self.objective.with_loss(self.objective.loss.smoothed(width * self.size))
        watch = Watch(self.watch.left(), self.watch.max_iter - self.watch.step, self._is_to_stop)
        search = Search(
            replace(self.problem, objective=smooth), self.k, _ROUGH, False, watch, self.start, pieces=self.pieces
        )
        search.begin()
        return search

    def _is_to_stop(self, inner: SubsetRecord) -> bool:
        """Pass on how far the search with the envelope has come; whether it is to stop."""
        if self.watch.phase != "proof":
            self.watch.done = inner.done
            if inner.phase != self.watch.phase:
                self.watch.enter(inner.phase)
        return self.watch.left() <= 0

    def _exchange(self) -> int:
        """Exchanges with the loss itself, those that the envelope promises most of first, for as long as ψ falls.

        How many of the last fit's do not help.
        """
        while not self._is_perfect():
            better, examined = self.pieces.once(self._better)
            if better is None:
                return examined
            self._keep(better)
        return self._total()

    def _better(self) -> tuple[Fit | None, int]:
        """A fit with one feature for another that is lower than the best; or none, and how many do not help."""
        fit, promising = self.best, self._promising(self.best)
        for tried, features in enumerate(promising):
            self.watch.done = tried / len(promising)
            if not self.watch.may_exchange():
                return None, 0
            better = self._lower(fit, features)
            if better is not None:
                self.watch.step += 1
                return better, 0
        return None, len(promising)

    def _lower(self, fit: Fit, features: Features) -> Fit | None:
        """The fit over other features, where its ψ is lower."""
        enough = fit.psi - _LOWER * abs(fit.psi)
        if self.known.get(features.tobytes(), -math.inf) >= enough:
            return None
        new = self._fitted(features, fit)
        return new if new.psi < enough else None

    def _promising(self, fit: Fit) -> list[Features]:
        """The sets with one feature for another that gain most by the envelope; all of them where all are asked for."""
        exchange, found = self._envelope(fit), list[tuple[float, int, int]]()
        most = self._total() if self.prove else _TOP
        for i in exchange.droppable:
            gain = exchange.gains(i)
            j = np.flatnonzero(np.isfinite(gain))
            j = j[np.argsort(-gain[j], kind="stable")[:most]]
            found += zip((-gain[j]).tolist(), [int(i)] * j.size, j.tolist(), strict=True)
        return [np.union1d(np.delete(fit.features, i), [j]).astype(np.intp) for _, i, j in sorted(found)[:most]]

    def _best_addition(self) -> tuple[float, int | None]:
        """What one more feature gains, and which."""
        fit = self.best
        gain = self._envelope(fit).additions()
        best: tuple[float, int | None] = (0.0, None)
        for j in np.argsort(-gain, kind="stable")[:_ADDITIONS]:
            if np.isfinite(gain[j]):
                gained = fit.psi - self._fitted(np.union1d(fit.features, [j]).astype(np.intp), fit).psi
                if gained > max(best[0], _LOWER * abs(fit.psi)):
                    best = gained, int(j)
        return best

    def _envelope(self, fit: Fit) -> Exchange:
        """Second-order estimates of the envelope around a set."""
        if self.smooth is None:
            self.smooth = self._with_envelope(_WIDTHS[-1])
        swaps = self.smooth.swaps
        exchange = swaps.exchange(swaps.fitted(fit.features, fit))
        self._count(self.smooth)
        return exchange

    def _fitted_once(self, features: Features, near: Fit) -> Fit:
        """The same as a piece of work of its own."""
        fit = self.pieces.once(lambda: self._fitted(features, near))
        self.known[features.tobytes()] = fit.psi
        return fit

    def _fitted(self, features: Features, near: Fit) -> Fit:
        """ψ minimised over these features, begun near the coefficients of another fit."""
        self._check_time()
        self.watch.n_refits += 1
        fit = self.refits(features, near, self.watch.left)
        self.known[features.tobytes()] = fit.psi
        return fit

    def _keep(self, fit: Fit) -> None:
        if fit.psi < self.best.psi:
            self.best = fit
            self.watch.improved(fit.psi, self.problem.counted(fit.features).size)

    def _remember(self, fit: Fit) -> None:
        """Keep a fit with the envelope, should there be no time for one with the loss itself."""
        psi = self.objective.value_of(fit.margins)
        if psi < min(self.rough.psi, self.best.psi):
            self.rough = replace(fit, psi=psi)
            self.watch.improved(psi, self.problem.counted(fit.features).size)

    def _is_perfect(self) -> bool:
        return self.best.psi <= _PERFECT * self.null.psi

    def _total(self) -> int:
        inside = self.problem.counted(self.best.features).size
        return inside * (self.problem.n_features - self.problem.exempt.size - inside)

    def _check_time(self) -> None:
        if self.watch.left() <= 0:
            raise TimeoutError

    def _subset(self, multiplier: float, addition: int | None, ended: Status) -> Subset:
        problem, fit = self.problem, self.best
        if ended is not Status.SOLVED and self.rough.psi < fit.psi:
            fit = self.best = self.rough
        x = np.zeros(problem.dimension)
        x[problem.coordinates(fit.features)] = fit.x
        psi = self.objective.value_and_gradient(x)[0]
        support = problem.counted(np.flatnonzero(problem.sizes(x)))
        exchanges = Exchanges(self.examined, self._total())
        figures = f"{support.size} features of at most {self.k}, psi = {psi:.6g}; {exchanges}"
        stationarity = self.refits.stationarity(fit, self.null, max(_SECOND, self.watch.left()))
        status, message = self.watch.conclude(ended, figures, self.objective, x, stationarity, self.tol)
        return Subset(
            x,
            psi,
            support,
            self.k,
            multiplier,
            addition,
            exchanges,
            stationarity,
            status,
            message,
            self.n_grad + 1,
            self.watch.n_refits,
            self.watch.elapsed,
            tuple(self.watch.history),
        )
