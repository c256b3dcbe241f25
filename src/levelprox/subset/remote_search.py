"""The search for remote data: swaps on second-order models, and refits on the data in rounds.

A search tries thousands of swaps, too many for a cluster or a pass over a file. But over a few hundred candidates C the
second-order model of ψ at a fit is known after one round, and is a least-squares problem
(`RemoteObjective.second_order`). So the whole search for the best k of C (smooth_search.py) runs on that, in this
process. Its set is refitted on the data; if ψ has fallen, the gradient over all features gives the next candidates. For
the squared loss the model is ψ itself over C; for others it is as good as the fit is near.

Starts: the null fit, and a continuation in the threshold, as with data in memory.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from levelprox._typing import Features, Matrix, Vector
from levelprox.backends import RemoteObjective
from levelprox.certificate.null_model import null_fit
from levelprox.exceptions import InvalidInputError
from levelprox.methods import Context
from levelprox.methods.lcpp import surrogate_by_name
from levelprox.methods.restricted import SolverOptions, Tolerance, solve_restriction
from levelprox.methods.subsolvers import Newton
from levelprox.problem import Problem, SubsetProblem
from levelprox.result import Iterate, Status
from levelprox.subset.fit import Fit
from levelprox.subset.local_search import Answer, Search, sets_by_continuation
from levelprox.subset.smooth_search import SmoothSearch
from levelprox.subset.swaps import Addition

_LEAST_CANDIDATES, _CANDIDATES_PER_FEATURE = 100, 4
_MODELS_PER_START = 20
_FLAT_SHARE = 1e-9  # of its curvature: the rest of a candidate that is almost a combination of the others
_LEAST_SWAPS_TRIED, _SWAPS_TRIED_PER_FEATURE = 10, 2  # of those that a model predicts to gain
_ROUGH_TOL = 3e-3
_LOWER_SHARE = 1e-10  # of ψ: less is not worth another model


@dataclass(frozen=True, eq=False)
class RemoteFit(Fit):
    """ψ minimised over some features, with its gradient over all of them in place of margins."""

    @property
    def gradient(self) -> Vector:
        """∇ψ over all features."""
        return self.margins


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
        self.how = SolverOptions(Newton(), 0.0, surrogate_by_name("concave"), self.null, left, None)
        unpenalized = problem.unpenalized
        self.n_grad, self.n_refits = 2 if unpenalized.size else 1, 0
        self.best = RemoteFit(unpenalized, self.null.x[unpenalized], self.null.psi, self.null.gradient)
        self.shown = 0  # swaps that were shown not to improve the best fit
        self.next: int | None = None  # the feature that would be added next, by the last model
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
        yield null
        if self.best.features.size > null.features.size:
            self.monitor.enter("continuation")
            yield from self._best_of_continuation(null, self.best)

    def _best_of_continuation(self, null: RemoteFit, direct: RemoteFit) -> Iterator[RemoteFit]:
        """Yield the best of the sets that a continuation in the threshold passes."""
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
                found.append(self._fitted(features, _point(features, end.x)))
        if found:
            yield min(found, key=lambda fit: fit.psi)

    def _improve(self, fit: RemoteFit) -> None:
        """Take swaps on one model after another, for as long as ψ falls."""
        self._keep(fit)
        for _ in range(_MODELS_PER_START):
            self.monitor.check()
            candidates = self._candidates(fit)
            found, shown = self._best_of(candidates, fit)
            new = fit if np.array_equal(found.features, fit.features) else self._fitted(found.features, found)
            if new is fit and shown:
                self.shown = shown if fit is self.best else self.shown
                return
            if not _lowers(new, fit):
                new = self._swapped(candidates, fit)
            if not _lowers(new, fit) or not self.monitor.may_swap():
                return
            self.monitor.step += 1
            fit = new
            self._keep(fit)

    def _swapped(self, candidates: Features, fit: RemoteFit) -> RemoteFit:
        """Return the first of the most promising swaps that lowers ψ; else the same fit.

        Far from the fit the model is not ψ: what it ranks first may not be best, but is seldom far from it.
        """
        problem = self.problem
        inside = problem.counted(fit.features)
        if not inside.size or np.any(problem.must_be_nonnegative()):
            return fit
        part, x = self.objective.restrict(candidates), self.whole(fit)[candidates]
        hessian, gradient = part.hessian_of(part.margins(x), True), fit.gradient[candidates]
        predicted = _predicted_changes(hessian, gradient, x, candidates, fit)
        predicted[~problem.counts(fit.features)] = math.inf
        most = max(_LEAST_SWAPS_TRIED, _SWAPS_TRIED_PER_FEATURE * inside.size)
        for place in np.argsort(predicted, axis=None, kind="stable")[:most]:
            out, into = np.unravel_index(place, predicted.shape)
            if not math.isfinite(predicted[out, into]):
                break
            features = np.sort(np.append(np.delete(fit.features, out), candidates[into])).astype(np.intp)
            near = self._by_model(candidates, hessian, gradient, x, features)
            if self._minimised(near, _ROUGH_TOL).psi < fit.psi:
                new = self._fitted(features, near)
                if _lowers(new, fit):
                    return new
        return fit

    def _by_model(
        self, candidates: Features, hessian: Matrix, gradient: Vector, x: Vector, features: Features
    ) -> RemoteFit:
        """Return the minimum of a second-order model over some of its features, the others being zero."""
        S = np.searchsorted(candidates, features)
        begin = np.zeros(x.size)
        begin[S] = x[S]
        slope = gradient + hessian @ (begin - x)
        values = begin[S] - np.linalg.pinv(hessian[np.ix_(S, S)], hermitian=True) @ slope[S]
        return RemoteFit(features, values, math.inf, np.empty(0))

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

    def _best_of(self, candidates: Features, fit: RemoteFit) -> tuple[RemoteFit, int]:
        """Return the best k of the candidates by the second-order model at a fit, and swaps shown not to help."""
        problem, ctx = self.problem, self.monitor.ctx
        assert ctx is not None
        part = self.objective.restrict(candidates)
        model = part.second_order(self.whole(fit)[candidates], fit.gradient[candidates])
        signs = problem.must_be_nonnegative()[candidates]
        keep = np.flatnonzero(~problem.counts(candidates))
        small = SubsetProblem(model, self.k, keep, signs if np.any(signs) else None)
        with warnings.catch_warnings():  # a model that is not solved to the end is no news to the user
            warnings.simplefilter("ignore")
            found = ctx.run("model", SmoothSearch(self.tol), small)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        self.monitor.check()
        features = problem.with_unpenalized(candidates[found.support])
        self.next = None if found.addition is None else int(candidates[found.addition])
        exact = self.objective.loss.constant_curvature and found.swaps.proved
        return _point(features, problem.spread(candidates, found.x)), found.swaps.total if exact else 0

    def _fitted(self, features: Features, near: RemoteFit) -> RemoteFit:
        """Minimise ψ over some features, where the data are, from the coefficients of another fit."""
        begin = RemoteFit(features, self.whole(near)[features], near.psi, near.margins)
        end = self._minimised(begin, self.tol)
        self.n_refits, self.n_grad = self.n_refits + 1, self.n_grad + 1
        self.monitor.n_refits = self.n_refits
        return RemoteFit(features, end.x, *self.objective.value_and_gradient(self.problem.spread(features, end.x)))

    def _minimised(self, near: RemoteFit, tol: float) -> Iterate:
        """Minimise ψ over the features of a fit, from its coefficients."""
        self.monitor.check()
        part = self.problem.restrict(near.features)
        free = Problem.unconstrained(part.objective, part.nonnegative)
        start = Iterate(near.x, *part.objective.value_and_gradient(near.x), step=1 / self.objective.curvature)
        end = solve_restriction(free, start, Tolerance(tol * self.null.scale), self.how)
        if end.stop == "interrupted":
            raise KeyboardInterrupt
        return end

    def _best_addition(self, fit: RemoteFit) -> Addition:
        """Return what the most promising further feature gains, refitted."""
        self._best_of(self._candidates(fit), fit)
        gain, feature = 0.0, self.next
        if feature is not None and feature not in fit.features:
            gain = fit.psi - self._fitted(np.union1d(fit.features, [feature]).astype(np.intp), fit).psi
        outside = self.problem.n_counted - self.problem.counted(self.problem.support(self.whole(fit))).size
        return (
            Addition(gain, feature, min(1, outside), outside)
            if gain > 0
            else Addition(0.0, None, min(1, outside), outside)
        )

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


def _predicted_changes(hessian: Matrix, gradient: Vector, x: Vector, candidates: Features, fit: Fit) -> Matrix:
    """Return what swapping each feature of a fit (rows) for each candidate (columns) changes ψ by, by its model.

    Without feature i the others move by −K_i x_i/K_ii, K = H_SS⁻¹, at the cost of x_i²/(2K_ii); candidate j then gains
    its slope squared over twice what is left of its curvature.
    """
    S = np.searchsorted(candidates, fit.features)
    K = np.linalg.pinv(hessian[np.ix_(S, S)], hermitian=True)
    own, across = np.maximum(np.diagonal(K), np.finfo(np.float64).tiny), hessian[:, S]
    moved = across @ K  # of every candidate, in units of the features of the fit
    slope = gradient[None, :] - (x[S] / own)[:, None] * moved.T
    left = np.diagonal(hessian)[None, :] - np.sum(moved * across, axis=1)[None, :] + (moved**2 / own).T
    bends = left > _FLAT_SHARE * np.diagonal(hessian)
    gain = np.where(bends, slope**2 / (2 * np.where(bends, left, 1.0)), 0.0)
    change: Matrix = (x[S] ** 2 / (2 * own))[:, None] - gain
    change[:, S] = math.inf
    return change
