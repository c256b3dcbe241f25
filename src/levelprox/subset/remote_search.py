"""At most k features where ψ is asked for in rounds: exchanges on second-order models, and refits where the data are.

A search exchanges features thousands of times, and no cluster answers as often. But over a few hundred candidates C
the second-order model of ψ at a fit is known after one round, and is a least-squares problem of its own
(`Asked.second_order`). So the whole search for the best k of C (`search.py`) runs on that, in this process. Its set is
refitted on the data; if ψ has fallen, the gradient over all features there says which candidates come next. For the
squared loss the model is ψ itself over C; for others it is as good as the fit is near.

Starts: the null fit, and a continuation in the threshold, as with data in memory.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from levelprox._runtime.deadline import interrupted
from levelprox._runtime.plurals import counted
from levelprox._typing import Features, Vector
from levelprox.backends import Asked
from levelprox.certificate.null_model import null_fit
from levelprox.constraints import MCP
from levelprox.driver.checkpoint import Journal
from levelprox.driver.search_monitor import Watch
from levelprox.exceptions import InvalidInputError
from levelprox.methods.continuation import continued
from levelprox.methods.restricted import Enough, How, solve_restriction
from levelprox.methods.subsolvers import Newton
from levelprox.methods.surrogate import surrogate_by_name
from levelprox.problem import Problem
from levelprox.result import Iterate, Status
from levelprox.subset.local_search import Search
from levelprox.subset.result import Additions, Exchanges, Subset

_CANDIDATES, _EACH = 100, 4  # at least so many, or so many for each feature that there may be
_MOST_MODELS = 20  # from each start
_FLAT = 1e-9  # of its curvature: a candidate that is all but a mixture of the others
_TRIED = 10  # exchanges that a model promises something of, or twice as many as there are features
_ROUGH = 3e-3
_SMALL = 2.0**-10  # of the largest coefficient: the last threshold
_LOWER = 1e-10  # of ψ: less is not worth another model


@dataclass(frozen=True, eq=False)
class _Fit:
    """The minimum of ψ over some features, with the gradient over all of them."""

    features: Features
    x: Vector
    psi: float
    gradient: Vector


class DistantSearch:
    """One search; the parameters are those of `Search`."""

    def __init__(
        self,
        problem: Problem,
        k: int,
        tol: float,
        prove: bool,
        watch: Watch,
        start: Features | None = None,
        journal: Journal | None = None,
    ) -> None:
        if problem.width > 1:
            raise InvalidInputError(
                "at most k features of more than two classes are found for data in memory only; give a level"
            )
        if prove:
            raise InvalidInputError("prove=True is for data in memory: bounds on all swaps need their columns")
        if journal is not None and not journal.idle:
            raise InvalidInputError("a checkpoint of a search for k features is for data in memory; give a level")
        self.problem, self.k, self.tol, self.watch, self.start = problem, k, tol, watch, start
        self.objective = cast(Asked, problem.objective)
        self.n_refits, self.n_grad = 0, 0
        self.best: _Fit | None = None
        self.shown = 0  # exchanges that were shown not to improve the best fit
        self.next: int | None = None  # the feature that would be taken in next, by the last model

    def __call__(self) -> Subset:
        problem = self.problem
        self.null = null_fit(problem, self.watch.left())
        assert self.null.gradient is not None
        self.how = How(Newton(), 0.0, surrogate_by_name("concave"), self.null, self.watch.left, None)
        exempt, status = problem.exempt, Status.SOLVED
        self.n_grad = 2 if exempt.size else 1
        null = _Fit(exempt, self.null.x[exempt], self.null.psi, self.null.gradient)
        multiplier, addition = math.nan, None
        self.watch.arm()
        try:
            self._keep(null)
            for start in self._starts(null):
                self.watch.enter("exchanges")
                self._improve(start)
            assert self.best is not None
            multiplier, addition = self._best_addition(self.best)
        except TimeoutError as error:
            if error is self.watch.raised:
                raise
            status = Status.INTERRUPTED if interrupted() else Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        finally:
            self.watch.disarm()
        assert self.best is not None
        return self._subset(self.best, multiplier, addition, status)

    def _starts(self, null: _Fit) -> Iterator[_Fit]:
        """Fits from whose second-order models exchanges begin."""
        if self.k == 0:
            return
        if self.start is not None:
            chosen = self.problem.counted(self.start)
            near = np.argsort(-self._gains(null)[chosen], kind="stable")[: self.k]
            yield self._fitted(np.union1d(chosen[near], null.features), null)
            return
        yield null
        assert self.best is not None
        if self.best.features.size > null.features.size:
            self.watch.enter("continuation")
            yield from self._on_the_way(null, self.best)

    def _on_the_way(self, null: _Fit, direct: _Fit) -> Iterator[_Fit]:
        """The best of the sets that a continuation in the threshold comes through."""
        problem = self.problem
        start = Iterate(self._everywhere(null), null.psi, null.gradient, step=1 / self.objective.curvature)
        at = replace(start, x=self._everywhere(direct), psi=direct.psi, gradient=direct.gradient)
        largest = float(np.max(np.abs(at.x[problem.counted(direct.features)]), initial=0.0))
        if not largest > 0:
            return
        small = replace(problem, constraint=MCP.from_threshold(_SMALL * largest))
        found, seen = [], {direct.features.tobytes()}
        for stage, end in continued(small, start, at, self.how, _ROUGH, count=self.k + 1):
            self.n_grad += stage.n_grad
            if end.stop == "interrupted":
                raise KeyboardInterrupt
            self._check_time()
            counted = problem.counted(np.flatnonzero(end.x))
            largest_k = counted[np.argsort(-np.abs(end.x[counted]), kind="stable")[: self.k]]
            features = np.union1d(largest_k, problem.exempt).astype(np.intp)
            if features.tobytes() not in seen:
                seen.add(features.tobytes())
                found.append(self._fitted(features, _point(features, end.x)))
        if found:
            yield min(found, key=lambda fit: fit.psi)

    def _improve(self, fit: _Fit) -> None:
        """Exchanges on one model after another, for as long as ψ falls."""
        self._keep(fit)
        for _ in range(_MOST_MODELS):
            self._check_time()
            candidates = self._candidates(fit)
            found, shown = self._best_of(candidates, fit)
            new = fit if np.array_equal(found.features, fit.features) else self._fitted(found.features, found)
            if new is fit and shown:
                self.shown = shown if fit is self.best else self.shown
                return
            if not self._lowers(new, fit):
                new = self._exchanged(candidates, fit)
            if not self._lowers(new, fit) or not self.watch.may_exchange():
                return
            self.watch.step += 1
            fit = new
            self._keep(fit)

    def _lowers(self, new: _Fit, fit: _Fit) -> bool:
        return new.psi < fit.psi - _LOWER * abs(fit.psi)

    def _exchanged(self, candidates: Features, fit: _Fit) -> _Fit:
        """The first of the exchanges of one feature for another that promise most which lowers ψ; else the same fit.

        Far from the fit the model is not ψ: what it thinks best may not be, but is seldom far from what is.
        """
        problem = self.problem
        inside = problem.counted(fit.features)
        if not inside.size or np.any(problem.must_be_nonnegative()):
            return fit
        part, x = self.objective.restrict(candidates), self._everywhere(fit)[candidates]
        hessian, gradient = part.hessian_of(part.margins(x), True), fit.gradient[candidates]
        promised = _promised(hessian, gradient, x, candidates, fit)
        held = np.isin(fit.features, problem.exempt)
        promised[held] = math.inf
        most = max(_TRIED, 2 * inside.size)
        for place in np.argsort(promised, axis=None, kind="stable")[:most]:
            out, into = np.unravel_index(place, promised.shape)
            if not math.isfinite(promised[out, into]):
                break
            features = np.sort(np.append(np.delete(fit.features, out), candidates[into])).astype(np.intp)
            near = self._by_model(candidates, hessian, gradient, x, features)
            if self._roughly(near) < fit.psi:
                new = self._fitted(features, near)
                if self._lowers(new, fit):
                    return new
        return fit

    def _by_model(self, candidates: Features, hessian: Vector, gradient: Vector, x: Vector, features: Features) -> _Fit:
        """The minimum of a second-order model over some of its features, the others being zero."""
        S = np.searchsorted(candidates, features)
        begin = np.zeros(x.size)
        begin[S] = x[S]
        slope = gradient + hessian @ (begin - x)
        everywhere = np.zeros(self.problem.dimension)
        everywhere[features] = begin[S] - np.linalg.pinv(hessian[np.ix_(S, S)], hermitian=True) @ slope[S]
        return _point(features, everywhere)

    def _roughly(self, near: _Fit) -> float:
        """About the minimum of ψ over the features of a point, from there; in as few rounds as that takes."""
        self._check_time()
        part = self.problem.restrict(near.features)
        start = Iterate(near.x, *part.objective.value_and_gradient(near.x), step=1 / self.objective.curvature)
        unweighted = replace(part, weights=np.zeros(near.features.size))
        end = solve_restriction(unweighted, start, Enough(_ROUGH * self.null.scale), self.how)
        if end.stop == "interrupted":
            raise KeyboardInterrupt
        return end.psi

    def _candidates(self, fit: _Fit) -> Features:
        """The features of a fit, and those that promise most."""
        most = min(max(_CANDIDATES, _EACH * self.k), self.problem.n_features)
        nearest = np.argsort(-self._gains(fit), kind="stable")[:most]
        return np.union1d(fit.features, nearest).astype(np.intp)

    def _gains(self, fit: _Fit) -> Vector:
        """By how much ψ would fall with each feature alone, were the others held and ℓ'' the same for all."""
        slope = fit.gradient
        slope = np.where(self.problem.must_be_nonnegative(), np.minimum(slope, 0.0), slope)
        squares = self.objective.column_squares
        gains: Vector = np.where(squares > 0, slope**2 / np.where(squares > 0, squares, 1.0), 0.0)
        return gains

    def _best_of(self, candidates: Features, fit: _Fit) -> tuple[_Fit, int]:
        """The best k of the candidates by the second-order model at a fit, and exchanges shown not to help."""
        problem = self.problem
        part = self.objective.restrict(candidates)
        x = self._everywhere(fit)[candidates]
        kept = np.flatnonzero(np.isin(candidates, problem.exempt))
        model = part.second_order(x, fit.gradient[candidates])
        weights = np.ones(candidates.size)
        weights[kept] = 0.0
        signs = problem.must_be_nonnegative()[candidates]
        small = Problem(model, MCP.from_threshold(1.0), self.k + 0.5, weights, signs if np.any(signs) else None)
        watch = Watch(self.watch.left(), callback=lambda record: self.watch.left() <= 0)
        with warnings.catch_warnings():  # what ends short here is told at the end
            warnings.simplefilter("ignore")
            found = Search(small, self.k, self.tol, False, watch)()
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        self._check_time()
        features = np.union1d(candidates[found.support], problem.exempt).astype(np.intp)
        everywhere = np.zeros(problem.dimension)
        everywhere[candidates] = found.x
        self.next = None if found.addition is None else int(candidates[found.addition])
        exact = self.objective.loss.constant_curvature and found.exchanges.proved
        return _point(features, everywhere), found.exchanges.total if exact else 0

    def _fitted(self, features: Features, near: _Fit) -> _Fit:
        """ψ minimised over some features, where the data are, from the coefficients of another fit."""
        self._check_time()
        part = self.problem.restrict(features)
        part = replace(part, weights=np.zeros(features.size))
        x = self._everywhere(near)[features]
        start = Iterate(x, *part.objective.value_and_gradient(x), step=1 / self.objective.curvature)
        end = solve_restriction(part, start, Enough(self.tol * self.null.scale), self.how)
        if end.stop == "interrupted":
            raise KeyboardInterrupt
        self.n_refits, self.n_grad = self.n_refits + 1, self.n_grad + 1
        self.watch.n_refits = self.n_refits
        fit = _Fit(features, end.x, end.psi, np.empty(0))
        psi, gradient = self.objective.value_and_gradient(self._everywhere(fit))
        return replace(fit, psi=psi, gradient=gradient)

    def _best_addition(self, fit: _Fit) -> tuple[float, int | None]:
        """What the most promising further feature gains, refitted; and which it is."""
        self._best_of(self._candidates(fit), fit)
        if self.next is None or self.next in fit.features:
            return 0.0, None
        with_it = self._fitted(np.union1d(fit.features, [self.next]).astype(np.intp), fit)
        gain = fit.psi - with_it.psi
        return (gain, self.next) if gain > 0 else (0.0, None)

    def _everywhere(self, fit: _Fit) -> Vector:
        x = np.zeros(self.problem.dimension)
        x[fit.features] = fit.x
        return x

    def _keep(self, fit: _Fit) -> None:
        if self.best is None or fit.psi < self.best.psi:
            self.best, self.shown = fit, 0
            self.watch.improved(fit.psi, self.problem.counted(fit.features).size)

    def _check_time(self) -> None:
        if self.watch.left() <= 0:
            raise TimeoutError

    def _subset(self, fit: _Fit, multiplier: float, addition: int | None, ended: Status) -> Subset:
        problem = self.problem
        x = self._everywhere(fit)
        psi, gradient = self.objective.value_and_gradient(x)
        support = problem.counted(np.flatnonzero(x))
        held = problem.must_be_nonnegative()[fit.features] & (fit.x == 0)
        slope = gradient[fit.features]
        stationarity = float(np.max(np.where(held, np.maximum(-slope, 0), np.abs(slope)), initial=0.0))
        stationarity /= self.null.scale
        outside = problem.n_features - problem.exempt.size - support.size
        total, local = support.size * outside, self.objective.convex_start is not None
        exchanges = Exchanges(min(self.shown, total), total, local)
        figures = f"{counted(support.size, 'feature')} of at most {self.k}, loss = {psi:.6g}; {exchanges}"
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
            self.n_refits,
            self.watch.elapsed,
            tuple(self.watch.history),
            None
            if math.isnan(multiplier)
            else Additions(min(1, outside), outside),  # the most promising one was refitted
        )


def _point(features: Features, x: Vector) -> _Fit:
    """A point over some features, of which ψ is not known yet."""
    return _Fit(features, x[features], math.inf, np.empty(0))


def _promised(hessian: Vector, gradient: Vector, x: Vector, candidates: Features, fit: _Fit) -> Vector:
    """By how much ψ changes with each feature of a fit (rows) exchanged for each candidate (columns), by its model.

    Without feature i the others move by −K_i x_i/K_ii, K = H_SS⁻¹, at the cost of x_i²/(2K_ii); candidate j then gains
    its slope squared over twice what is left of its curvature.
    """
    S = np.searchsorted(candidates, fit.features)
    K = np.linalg.pinv(hessian[np.ix_(S, S)], hermitian=True)
    own, across = np.maximum(np.diagonal(K), np.finfo(np.float64).tiny), hessian[:, S]
    moved = across @ K  # of every candidate, in units of the features of the fit
    slope = gradient[None, :] - (x[S] / own)[:, None] * moved.T
    left = np.diagonal(hessian)[None, :] - np.sum(moved * across, axis=1)[None, :] + (moved**2 / own).T
    bends = left > _FLAT * np.diagonal(hessian)
    gain = np.where(bends, slope**2 / (2 * np.where(bends, left, 1.0)), 0.0)
    change: Vector = (x[S] ** 2 / (2 * own))[:, None] - gain
    change[:, S] = math.inf
    return change
