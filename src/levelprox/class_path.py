"""Sets for fits of folds of a softmax model: one path over the number of features, which all k share.

From the null fit on features are taken in one by one, and at each number of features swapped for as long as that lowers
ψ. From 4, 8, 16, … features on the way back leaves them out one by one, with swaps again; the lower of the two fits
counts. The answer for k is that of the way back from the next of these numbers above k. It depends on the data alone,
and not on which k are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from levelprox.class_newton import ClassEstimates, ClassNewton, ClassSet
from levelprox.objectives import MultinomialModel
from levelprox.problem import Problem
from levelprox.refit import Fit
from levelprox.shared import shared
from levelprox.swaps import Swaps

Features = NDArray[np.intp]

_SMALL = 2**24  # numbers of an array: columns times classes, pairs of classes
_ACCURACY, _LOWER = 1e-7, 1e-6  # of ψ: what a fit leaves to gain, and by how much another one is lower
_TRIES, _ADDITIONS = 6, 2  # swaps that are tried at one fit, and features of which the best is taken in
_PROMISING = 0.1  # of what leaving out costs: by how much an estimate may be off
_SHORTEST = 4  # features from which a way back begins


def has_class_path(problem: Problem) -> bool:
    """Return whether sets of a softmax model may come from a path over its columns side by side."""
    objective = problem.objective
    if not isinstance(objective, MultinomialModel) or np.any(problem.must_be_nonnegative()):
        return False
    (n, d), K = objective.design.shape, objective.width
    return n * d * K <= _SMALL and n * K**2 <= _SMALL


def best_on_class_path(swaps: Swaps, k: int) -> Fit:
    """Return the fit of at most k features on the path.

    Parameters
    ----------
    swaps : Swaps
        Of a problem that `has_class_path`.
    k : int
        Less than the number of features that count.
    """
    known = shared(swaps.problem)
    with known.lock:
        if known.path is None:
            known.path = _new_path(swaps.problem)
        found = known.path.at(k, swaps.check_time)
    swaps.n_refits += found.n_fits
    swaps.n_grad += found.n_passes
    fit = found.fit
    return swaps.fitted(fit.features, Fit(fit.features, fit.x.ravel(), fit.psi, fit.p))


def _new_path(problem: Problem) -> ClassPath:
    objective, kept = problem.objective, problem.exempt
    assert isinstance(objective, MultinomialModel)
    (n, d), K = objective.design.shape, objective.width
    columns = np.array([objective.design.matvec(unit) for unit in np.eye(d)]).reshape(d, n)
    offset = np.zeros((K, n)) if objective.offset is None else np.ascontiguousarray(objective.offset.T)
    ridge = np.zeros(d) if objective.ridge is None else objective.ridge.own
    newton = ClassNewton(columns, objective.target, objective.share, offset, ridge)
    return ClassPath(newton, kept.astype(np.intp), problem.n_features - kept.size)


@dataclass(frozen=True, eq=False)
class Step:
    """A fit on the path.

    Attributes
    ----------
    fit : ClassSet
    least : int
        The place of its least useful feature; −1 where it has none that counts.
    n_fits, n_passes : int
        What it took, with all before it.
    """

    fit: ClassSet
    least: int
    n_fits: int
    n_passes: int


@dataclass(eq=False)
class ClassPath:
    """The path, as far as it is known.

    Attributes
    ----------
    newton : ClassNewton
    kept : ndarray of int
        Features that never count.
    most : int
        How many others there are.
    rising : list of Step
        The fits of 0, 1, 2, … features on the way up.
    best : dict of int to Step
        The lower one of the two ways, with what all of the way back took.
    """

    newton: ClassNewton
    kept: Features
    most: int
    rising: list[Step] = field(default_factory=list)
    best: dict[int, Step] = field(default_factory=dict)
    _tried: set[bytes] = field(default_factory=set)
    _last: ClassEstimates | None = None
    _check: Callable[[], None] = lambda: None

    def at(self, k: int, check: Callable[[], None]) -> Step:
        """Return the fit of at most k features; `check` raises where there is no time left."""
        if k not in self.best:
            self._check, longest = check, _SHORTEST
            while longest <= k:
                longest *= 2
            self._rise(min(longest, self.most))
            self._return(min(longest, self.most), longest // 2 if longest > _SHORTEST else 0)
        return self.best[k]

    def _rise(self, longest: int) -> None:
        """Take in features until there are so many."""
        if not self.rising:
            null = self._fitted(self.kept, np.zeros((self.kept.size, self.newton.offset.shape[0])))
            assert null is not None
            self._last = self.newton.around(null, self.kept)
            self.rising.append(self._step(self._last, 1, 1))
        while len(self.rising) <= longest:
            before, last = self._spent(), self.rising[-1]
            assert self._last is not None
            larger = self._larger(self._last)
            if larger is not last.fit:
                self._last = self._improved(larger)
            fits, passes = (after - one for after, one in zip(self._spent(), before, strict=True))
            self.rising.append(self._step(self._last, last.n_fits + fits, last.n_passes + passes))

    def _return(self, longest: int, shortest: int) -> None:
        """Leave out features one by one, down to the shortest set of which there is no way back from fewer."""
        step, before, lower = self.rising[longest], self._spent(), dict[int, Step]()
        for k in range(longest - 1, shortest - 1, -1):
            risen = self.rising[k]
            found = self._smaller(step, risen.fit)
            step = risen if found is None else self._step(self._improved(found), 0, 0)
            lower[k] = step
        fits, passes = (after - one for after, one in zip(self._spent(), before, strict=True))
        spent = self.rising[longest].n_fits + fits, self.rising[longest].n_passes + passes
        self.best.update((k, replace(one, n_fits=spent[0], n_passes=spent[1])) for k, one in lower.items())

    def _larger(self, estimates: ClassEstimates) -> ClassSet:
        """Return the fit with one more feature; the same where none gains anything."""
        gain, found = estimates.additions(), estimates.at
        for place in np.argsort(-gain, kind="stable")[:_ADDITIONS]:
            if gain[place] > 0 and found.psi > self.newton.gone:
                below = estimates.at.psi if found is estimates.at else found.psi
                fit = self._fitted(*estimates.changed(None, int(estimates.outside[place])), below)
                found = fit if fit is not None and fit.psi < found.psi else found
        return found

    def _smaller(self, step: Step, risen: ClassSet) -> ClassSet | None:
        """Return the fit without the least useful feature, where it is lower than the one on the way up."""
        fit = step.fit
        if step.least < 0:
            return None
        features = np.delete(fit.features, step.least)
        if features.size != risen.features.size or np.array_equal(features, risen.features):
            return None
        found = self._fitted(features, np.delete(fit.x, step.least, axis=0), None, _lower(risen.psi))
        return found if found is not None and found.psi < _lower(risen.psi) else None

    def _improved(self, fit: ClassSet) -> ClassEstimates:
        """Swap features for as long as that lowers ψ; return estimates at the last fit."""
        while True:
            estimates = self.newton.around(fit, self.kept)
            new = None if fit.psi <= self.newton.gone else self._swapped(estimates)
            if new is None:
                return estimates
            fit = new

    def _swapped(self, estimates: ClassEstimates) -> ClassSet | None:
        """Return the first fit after a promising swap that is lower."""
        gains, fit, tries = estimates.swaps(), estimates.at, 0
        promising = gains > np.where(np.isfinite(estimates.cost), -_PROMISING * estimates.cost, np.inf)[:, None]
        order = np.argsort(-np.where(promising, gains, -np.inf), axis=None, kind="stable")
        for place in order[: np.count_nonzero(promising)].tolist():
            out, into = divmod(place, gains.shape[1])
            j = int(estimates.outside[into])
            key = np.sort(np.append(np.delete(fit.features, out), j)).tobytes()
            if key in self._tried:
                continue
            self._tried.add(key)
            new = self._fitted(*estimates.changed(out, j), _lower(fit.psi))
            if new is not None and new.psi < _lower(fit.psi):
                return new
            tries += 1
            if tries == _TRIES:
                break
        return None

    def _fitted(self, features: Features, x: NDArray[np.float64], factor: object = None, below: float = np.inf) -> ClassSet | None:
        self._check()
        return self.newton.fitted(features, x, _ACCURACY, factor, below)

    def _step(self, estimates: ClassEstimates, n_fits: int, n_passes: int) -> Step:
        cost = estimates.cost
        least = int(np.argmin(cost)) if np.any(np.isfinite(cost)) else -1
        return Step(estimates.at, least, n_fits, n_passes)

    def _spent(self) -> tuple[int, int]:
        return self.newton.n_fits, self.newton.n_passes


def _lower(psi: float) -> float:
    return psi - _LOWER * abs(psi)
