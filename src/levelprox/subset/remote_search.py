"""The search for remote data: swaps on second-order models, and refits on the data in rounds.

A search tries thousands of swaps, too many for a cluster or a pass over a file. But over a few hundred candidates C the
second-order model of ψ at a fit is known after one round, and the best k of C are found from its matrix in this process
(`kernels/algorithms/gram_search.hpp`). They are refitted on the data; if ψ has fallen, the gradient over all features
gives the next candidates. For the squared loss the model is ψ itself over C, and the search of smooth_search.py shows
that no swap lowers it; for others the model is as good as the fit is near. Where it does not find a lower set, ψ itself
is evaluated after the most promising swaps, many in a round.

Starts: the null fit, a continuation in the threshold, as with data in memory, and forward selection on the first model.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

import levelprox._kernels as _kernels
from levelprox._typing import Features, Mask, Matrix, Vector
from levelprox.backends import RemoteObjective
from levelprox.certificate.null_model import null_fit
from levelprox.exceptions import InvalidInputError
from levelprox.methods import Context
from levelprox.methods.restricted import SolverOptions, Tolerance, solve_restriction
from levelprox.problem import Problem, SubsetProblem
from levelprox.result import Iterate, Status
from levelprox.subset.fit import Fit
from levelprox.subset.local_search import Answer, Search
from levelprox.subset.moves import sets_by_continuation
from levelprox.subset.newton import shortest_solution
from levelprox.subset.result import Addition
from levelprox.subset.smooth_search import SmoothSearch
from levelprox.subset.starts import search_by_model
from levelprox.subset.swap_bounds import SwapEstimates

_LEAST_CANDIDATES, _CANDIDATES_PER_FEATURE = 100, 4
_MODELS_PER_START, _STARTS_OF_CONTINUATION = 20, 5
_LEAST_SWAPS_TRIED, _SWAPS_TRIED_PER_FEATURE = 32, 2  # of those that a model predicts to gain
_SWAPS_PER_ROUND, _SWAPS_REFITTED = 32, 4  # for which ψ is evaluated at once; of these, refitted
_ROUGH_TOL = 3e-3
_LOWER_SHARE = 1e-10  # of ψ: less is not worth another model
_BRIEF_WORK = 2e6  # k |C|²: searches of larger models are brief, a fraction of a second
_SEPARATED_SHARE = 1e-3  # of the null loss: at a lower one the data may be separable


@dataclass(frozen=True, eq=False)
class RemoteFit(Fit):
    """ψ minimised over some features, with its gradient over all of them in place of margins."""

    @property
    def gradient(self) -> Vector:
        """∇ψ over all features."""
        return self.margins


class SecondOrderModel:
    """The second-order model of ψ at a fit, over candidates C that contain the features of the fit.

    Parameters
    ----------
    problem : SubsetProblem
        Of all features.
    fit : RemoteFit
    candidates : ndarray of int
        C, sorted.
    hessian : ndarray of shape (|C|, |C|)
        At the fit.
    """

    def __init__(self, problem: SubsetProblem, fit: RemoteFit, candidates: Features, hessian: Matrix) -> None:
        self.fit, self.candidates, self.hessian = fit, candidates, hessian
        self.gradient = fit.gradient[candidates]
        self.places = np.searchsorted(candidates, fit.features)
        self.x = np.zeros(candidates.size)
        self.x[self.places] = fit.x
        own, typical = np.diagonal(hessian)[:, None, None], np.zeros(candidates.size)
        at = replace(fit, features=self.places)
        cross = hessian[:, self.places]
        self.estimates = SwapEstimates(problem.restrict(candidates), at, self.gradient, cross, own, typical=typical)

    def is_large(self, k: int) -> bool:
        """Return whether a search for k features has to be brief."""
        return k * self.x.size**2 > _BRIEF_WORK

    def best(self, k: int, kept: Features) -> Features | None:
        """Return the best k candidates besides those that are kept; None where there is no minimum."""
        search = self._search(kept)
        if search is None:
            return None
        begin = self.places.tolist() if self.fit.features.size - kept.size == k else None
        return self.candidates[search.best(k, begin, self.is_large(k))]

    def forward(self, k: int, kept: Features) -> Features | None:
        """Return the first k candidates of forward selection, and those that are kept; None as above."""
        search = self._search(kept)
        return None if search is None else np.union1d(kept, self.candidates[search.forward(k)]).astype(np.intp)

    def _search(self, kept: Features) -> _kernels.GramSearch | None:
        return search_by_model(self.gradient, self.hessian, self.x, np.searchsorted(self.candidates, kept))

    def minimum(self, features: Features) -> RemoteFit:
        """Return the minimum over some of the candidates, the others being zero."""
        S = np.searchsorted(self.candidates, features)
        begin = np.zeros(self.x.size)
        begin[S] = self.x[S]
        slope = self.gradient + self.hessian @ (begin - self.x)
        values = begin[S] - shortest_solution(self.hessian[np.ix_(S, S)], slope[S])
        return RemoteFit(features, values, math.inf, np.empty(0))

    def best_addition(self) -> int | None:
        """Return the candidate that gains most, if any does; those with a sign only upwards."""
        gain = self.estimates.additions()
        best = int(np.argmax(gain))
        return int(self.candidates[best]) if gain[best] > 0 else None

    def swaps(self, most: int) -> Iterator[RemoteFit]:
        """Yield the minimum after each swap, those first that lower the model most."""
        droppable = self.estimates.droppable
        gains = np.array([self.estimates.gains(i) for i in droppable])
        cost = np.array([self.estimates.cost(i) for i in droppable])
        gains[~(gains > -cost[:, None])] = -math.inf
        for place in np.argsort(-gains, axis=None, kind="stable")[:most]:
            row, j = np.unravel_index(place, gains.shape)
            if not math.isfinite(gains[row, j]):
                return
            others = np.delete(self.fit.features, droppable[row])
            yield self.minimum(np.union1d(others, self.candidates[[j]]).astype(np.intp))


@dataclass(eq=False)
class RemoteSearch(Search):
    """A search over data out of core, on a cluster or on a GPU; the parameters are those of `Search`."""

    def init(self, problem: SubsetProblem, ctx: Context) -> Fit:
        """Compute the null model, and return the first fit."""
        if problem.n_outputs > 1:
            raise InvalidInputError(
                "at most k features of more than two classes are found for data in memory only; give a level"
            )
        if self.prove:
            raise InvalidInputError("prove=True is for data in memory: bounds on all swaps need their columns")
        return super().init(problem, ctx)

    def _begin(self) -> Fit:
        problem, self.objective = self.problem, cast(RemoteObjective, self.problem.objective)
        self.null = null_fit(problem, self.monitor.seconds_left())
        assert self.null.gradient is not None
        left = self.monitor.seconds_left
        self.how = SolverOptions(self.null, left)
        unpenalized = problem.unpenalized
        self.n_grad, self.n_refits = 2 if unpenalized.size else 1, 0
        self.best = RemoteFit(unpenalized, self.null.x[unpenalized], self.null.psi, self.null.gradient)
        self.shown = 0  # swaps that were shown not to improve the best fit
        self.model: SecondOrderModel | None = None  # the last one
        self.visited: set[bytes] = set()  # sets of features at whose fits there was a model
        self.addition: Addition | None = None
        return self.best

    def steps(self, state: Fit, ctx: Context) -> Generator[Fit, None, Status | None]:
        """Yield the best set after each start, then search for the best addition."""
        if not self.null.examined:
            return Status.TIME_LIMIT
        self.monitor.improved(self.best.psi, self.problem.counted(self.best.features).size)
        for start in self._starts(self.best):
            self.monitor.enter("exchanges")
            self._improve(start)
            yield self.best
            if self._is_separated(self.best):
                break
        self.addition = self._best_addition(self.best)
        self.complete = True
        return None

    def _starts(self, null: RemoteFit) -> Iterator[RemoteFit]:
        """Yield fits from whose second-order models swaps begin."""
        if self.k == 0:
            return
        if self.start is not None:
            chosen = self.problem.counted(self.start)
            near = np.argsort(-self._gains(null)[chosen], kind="stable")[: self.k]
            yield self._fitted(self.problem.with_unpenalized(chosen[near]), null)
            return
        model = self._model_at(null)
        yield null
        if self.best.features.size > null.features.size:
            self.monitor.enter("continuation")
            direct = self.best
            yield from self._best_of_continuation(null, direct)
            yield from self._by_forward_selection(model)
            if self.best is not direct and not self.objective.loss.constant_curvature and not model.is_large(self.k):
                self.monitor.enter("continuation")  # its thresholds depend on the coefficients of the best fit
                yield from self._best_of_continuation(null, self.best)

    def _best_of_continuation(self, null: RemoteFit, direct: RemoteFit) -> Iterator[RemoteFit]:
        """Yield the best of the sets that a continuation in the threshold passes, from which no swaps began."""
        start = Iterate(self.whole(null), null.psi, null.gradient, step=1 / self.objective.curvature)
        at = replace(start, x=self.whole(direct), psi=direct.psi, gradient=direct.gradient)
        found, seen = [], {direct.features.tobytes()}
        for features, end, n_grad in sets_by_continuation(self.problem, start, at, direct.features, self.how):
            self.n_grad += n_grad
            if end.stop == "interrupted":
                raise KeyboardInterrupt
            self.monitor.check()
            if features.tobytes() not in seen:
                seen.add(features.tobytes())
                rough = self._minimised(_point(features, end.x), _ROUGH_TOL)
                found.append(RemoteFit(features, rough.x, rough.psi, np.empty(0)))
        most = 1 if self.objective.loss.constant_curvature else _STARTS_OF_CONTINUATION
        for best in sorted(found, key=lambda fit: fit.psi)[:most]:
            if best.features.tobytes() not in self.visited:
                yield self._fitted(best.features, best)

    def _by_forward_selection(self, model: SecondOrderModel) -> Iterator[RemoteFit]:
        """Yield the set that forward selection finds on a model which is not ψ, if it is another one."""
        if self.objective.loss.constant_curvature or model.is_large(self.k):
            return
        if np.any(self.problem.must_be_nonnegative()):
            return
        features = model.forward(self.k, self.problem.unpenalized)
        if features is not None and features.tobytes() not in self.visited:
            yield self._fitted(features, model.minimum(features))

    def _improve(self, fit: RemoteFit) -> None:
        """Take swaps on one model after another, for as long as ψ falls."""
        self._keep(fit)
        for _ in range(_MODELS_PER_START):
            if self._is_separated(fit):
                return
            self.visited.add(fit.features.tobytes())
            model = self._model_at(fit)
            found, shown = self._best_of(model)
            new = fit if np.array_equal(found.features, fit.features) else self._fitted(found.features, found)
            if new is fit and shown:
                self.shown = shown if fit is self.best else self.shown
                return
            if not _lowers(new, fit):
                new = self._swapped(model)
            if not _lowers(new, fit) or not self.monitor.may_swap():
                return
            if new.features.tobytes() in self.visited:
                return
            self.monitor.step += 1
            fit = new
            self._keep(fit)

    def _is_separated(self, fit: RemoteFit) -> bool:
        """Return whether ψ falls without end along a fit, which then is as good as any: no swap is worth a round."""
        objective = self.objective
        near_zero = objective.loss.weak_convexity == 0 and fit.psi <= _SEPARATED_SHARE * self.null.psi
        return near_zero and objective.is_separated(self.whole(fit))

    def _model_at(self, fit: RemoteFit) -> SecondOrderModel:
        """Return the second-order model at a fit over its features and the most promising others; one round."""
        self.monitor.check()
        if self.model is None or self.model.fit is not fit:
            candidates = self._candidates(fit)
            part = self.objective.restrict(candidates)
            hessian = part.hessian_of(part.margins(self.whole(fit)[candidates]), True)
            self.model = SecondOrderModel(self.problem, fit, candidates, hessian)
        return self.model

    def _swapped(self, model: SecondOrderModel) -> RemoteFit:
        """Return a fit after one of the most promising swaps that lowers ψ; else the same fit.

        Far from the fit the model is not ψ: what it ranks first may not be best, but is seldom far from it.
        """
        problem, fit = self.problem, model.fit
        inside = problem.counted(fit.features).size
        if not inside or np.any(problem.must_be_nonnegative()):
            return fit
        swaps = model.swaps(max(_LEAST_SWAPS_TRIED, _SWAPS_TRIED_PER_FEATURE * inside))
        while some := list(itertools.islice(swaps, _SWAPS_PER_ROUND)):
            self.monitor.check()
            values = self.objective.values(self.whole(near) for near in some)
            for place in np.argsort(values, kind="stable")[:_SWAPS_REFITTED]:
                near = replace(some[place], psi=float(values[place]))
                if near.psi < fit.psi or self._minimised(near, _ROUGH_TOL).psi < fit.psi:
                    new = self._fitted(near.features, near)
                    if _lowers(new, fit):
                        return new
        return fit

    def _candidates(self, fit: RemoteFit) -> Features:
        """Return the features of a fit, and the most promising others."""
        most = min(max(_LEAST_CANDIDATES, _CANDIDATES_PER_FEATURE * self.k), self.problem.n_features)
        nearest = np.argsort(-self._gains(fit), kind="stable")[:most]
        return np.union1d(fit.features, nearest).astype(np.intp)

    def _gains(self, fit: RemoteFit) -> Vector:
        """Return by how much ψ would fall with each feature alone, were the others held and ℓ'' the same for all."""
        slope = fit.gradient
        slope = np.where(self.problem.must_be_nonnegative(), np.minimum(slope, 0.0), slope)
        squares = self.objective.column_squares
        gains: Vector = np.where(squares > 0, slope**2 / np.where(squares > 0, squares, 1.0), 0.0)
        return gains

    def _best_of(self, model: SecondOrderModel) -> tuple[RemoteFit, int]:
        """Return the best k of the candidates by a model, and how many swaps are shown not to help."""
        problem = self.problem
        signs = problem.must_be_nonnegative()[model.candidates]
        found = None if np.any(signs) else model.best(self.k, problem.unpenalized)
        if np.any(signs) or self.objective.loss.constant_curvature:
            return self._searched(model, signs, found)
        if found is None:
            return model.fit, 0
        return model.minimum(found), 0

    def _searched(self, model: SecondOrderModel, signs: Mask, start: Features | None) -> tuple[RemoteFit, int]:
        """Return the result of a search as in memory on a model, from given features or its own starts."""
        problem, ctx, candidates = self.problem, self.monitor.ctx, model.candidates
        assert ctx is not None
        keep = np.flatnonzero(~problem.counts(candidates))
        samples = self.objective.restrict(candidates).second_order(model.x, model.gradient, model.hessian)
        small = SubsetProblem(samples, self.k, keep, signs if np.any(signs) else None)
        begin = None if start is None else np.searchsorted(candidates, start)
        with warnings.catch_warnings():  # a model that is not solved to the end is no news to the user
            warnings.simplefilter("ignore")
            found = ctx.run("model", SmoothSearch(self.tol, start=begin), small)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        self.monitor.check()
        features = problem.with_unpenalized(candidates[found.support])
        exact = self.objective.loss.constant_curvature and found.swaps.proved
        return _point(features, problem.spread(candidates, found.x)), found.swaps.total if exact else 0

    def _fitted(self, features: Features, near: RemoteFit) -> RemoteFit:
        """Minimise ψ over some features, where the data are, from the coefficients of another fit."""
        begin = RemoteFit(features, self.whole(near)[features], near.psi, near.margins)
        end = self._minimised(begin, self.tol)
        if not end.psi < self.null.psi:  # far out the loss may have no curvature; the null fit is a point of every set
            other = self._minimised(replace(begin, x=self.null.x[features]), self.tol)
            end = other if other.psi < end.psi else end
        self.n_refits, self.n_grad = self.n_refits + 1, self.n_grad + 1
        self.monitor.n_refits = self.n_refits
        return RemoteFit(features, end.x, *self.objective.value_and_gradient(self.problem.spread(features, end.x)))

    def _minimised(self, near: RemoteFit, tol: float) -> Iterate:
        """Minimise ψ over the features of a fit, from its coefficients."""
        self.monitor.check()
        part = self.problem.restrict(near.features)
        free = Problem.unconstrained(part.objective, part.nonnegative)
        start = Iterate(near.x, *part.objective.value_and_gradient(near.x), step=1 / self.objective.curvature)
        with np.errstate(over="ignore", invalid="ignore"):  # steps of separable data
            end = solve_restriction(free, start, Tolerance(tol * self.null.scale), self.how)
        if end.stop == "interrupted":
            raise KeyboardInterrupt
        return end

    def _best_addition(self, fit: RemoteFit) -> Addition:
        """Return what the most promising further feature gains, refitted."""
        feature = self._model_at(fit).best_addition()
        gain = 0.0
        if feature is not None:
            gain = fit.psi - self._fitted(np.union1d(fit.features, [feature]).astype(np.intp), fit).psi
        outside = self.problem.n_counted - self.problem.counted(self.problem.support(self.whole(fit))).size
        gain, feature = (gain, feature) if gain > 0 else (0.0, None)
        return Addition(gain, feature, min(1, outside), outside)

    def _keep(self, fit: RemoteFit) -> None:
        if fit.psi < self.best.psi:
            self.best, self.shown = fit, 0
            self.monitor.improved(fit.psi, self.problem.counted(fit.features).size)

    def _answer(self) -> Answer:
        x = self.whole(self.best)
        features = self.problem.with_unpenalized(self.problem.support(x))  # swaps are counted without zeros
        fit = replace(self.best, features=features, x=x[features])
        return Answer(
            fit, min(self.shown, self.problem.count_swaps(features)), self.addition, self.n_grad, self.n_refits
        )

    def _figures(self, fit: Fit, x: Vector) -> tuple[float, float]:
        psi, gradient = self.objective.value_and_gradient(x)
        best, slope = self.best, gradient[self.best.features]
        held = self.problem.must_be_nonnegative()[best.features] & (best.x == 0)
        largest = float(np.max(np.where(held, np.maximum(-slope, 0), np.abs(slope)), initial=0.0))
        return psi, largest / self.null.scale


def _point(features: Features, x: Vector) -> RemoteFit:
    """Return a point over some features, of which ψ is not known yet."""
    return RemoteFit(features, x[features], math.inf, np.empty(0))


def _lowers(new: Fit, fit: Fit) -> bool:
    return new.psi < fit.psi - _LOWER_SHARE * abs(fit.psi)
