"""Sets for fits of folds of a softmax model: one path over the number of features, which all k share.

From the null fit, features are added one by one. At each number of features, swaps follow for as long as they lower
ψ. From 4, 8, 16, … features on, features are left out one by one, with swaps where that leads to a lower fit, down to
half as many. The answer for k is that of the way back from the next of these numbers above k. It depends on the data
alone, not on which k are requested.

Fits on the path leave up to 1e-7 of ψ to gain. The fit that is returned is fitted as all others are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from levelprox._typing import Features, Matrix, Vector
from levelprox.designs import Design
from levelprox.objectives import MultinomialModel
from levelprox.problem import FeatureProblem
from levelprox.subset.column_cache import shared
from levelprox.subset.fit import Fit
from levelprox.subset.multiclass_fit import ClassNewton, Near
from levelprox.subset.swaps import SwapSearch

_RIDGE_SHARE, _LARGEST_RIDGE_SHARE = 1e-10, 1e4  # of the curvature along a coordinate, against singular systems
_ACCURACY, _LOWER_SHARE = 1e-7, 1e-6  # of ψ: what a fit leaves to gain, and by how much another one is lower
_CHEAP_COORDINATES = 60  # coordinates: fits over no more are cheap, and more are tried
_TRIES, _TRIES_WHERE_CHEAP = 3, 12  # swaps that are tried at one fit
_NEXT_TRIED = 3  # features that are tried next for small fits
_PROMISING_SHARE = 0.1  # of what leaving out costs: by how much an estimate may be off
_PASSES = 3  # down and up again
_COLUMNS_AT_ONCE = 32  # columns that are copied at a time: each is a product with all of them
_LEAST_LONGEST = 4  # features from which a way back begins


def best_on_class_path(swaps: SwapSearch, k: int) -> Fit:
    """Return the fit of at most k features on the path.

    Parameters
    ----------
    swaps : SwapSearch
        Of a problem that `has_class_path`.
    k : int
        Less than the number of features that count.
    """
    known = shared(swaps.problem)
    with known.lock:
        if known.path is None:
            kept, d = swaps.problem.unpenalized.astype(np.intp), swaps.problem.n_features
            known.path = ClassPath(newton_of(swaps.problem), kept, d - kept.size)
        found = known.path.at(k, swaps.check_time)
    swaps.n_refits += found.n_fits
    swaps.n_grad += found.n_passes
    fit = found.fit
    return swaps.fitted(fit.features, fit)


def newton_of(problem: FeatureProblem) -> ClassNewton:
    """Return what fits the sets of a problem that `has_class_path`."""
    objective, known = problem.objective, shared(problem)
    assert isinstance(objective, MultinomialModel)
    if known.entries is None:
        known.entries = _columns_of(objective.design).T
    ridge = np.zeros(objective.design.shape[1]) if objective.ridge is None else objective.ridge.own
    return ClassNewton(np.ascontiguousarray(known.entries.T), objective.class_fits, ridge, objective.n_outputs)


def _columns_of(design: Design) -> Matrix:
    """Return all columns of a design, of shape (d, n)."""
    n, d = design.shape
    columns = np.empty((d, n))
    for begin in range(0, d, _COLUMNS_AT_ONCE):
        chosen = np.arange(begin, min(begin + _COLUMNS_AT_ONCE, d))
        part = design.columns(chosen)
        for j, unit in zip(chosen, np.eye(chosen.size), strict=True):
            columns[j] = part.matvec(unit)
    return columns


class ClassEstimates:
    """What features gain and cost at a fit, by the second-order model of ψ there (`swap_bounds.py` has the formulas).

    Parameters
    ----------
    newton : ClassNewton
    at : Fit
        Of `newton.fitted`.
    kept : ndarray of int
        Features that are not to be left out.

    Attributes
    ----------
    outside : ndarray of int
        Features that may be added.
    cost : ndarray of shape (m,)
        What leaving out each feature of the fit costs.
    """

    def __init__(self, newton: ClassNewton, at: Fit, kept: Features) -> None:
        newton.n_passes += 1
        K, inside = newton.n_outputs, at.features
        rows, m = np.union1d(newton.nonzero, inside), inside.size
        places = np.searchsorted(rows, inside)
        columns = [newton.columns[j] for j in rows]
        gradient, cross, own = newton.fits.derivatives(columns, places.tolist(), at.margins)
        own += 2 * newton.ridge[rows][:, None, None] * np.eye(K) + _shifts(own)[:, None, None]
        cross = cross.reshape(rows.size, K, m * K)
        cross.reshape(rows.size, K, m, K)[places, :, np.arange(m)] = own[places]
        inverse = _inverse(cross[places].reshape(m * K, m * K))
        others = np.delete(np.arange(rows.size), places)
        self.at, self.n_outputs, self.outside, self.gradient = at, K, rows[others], gradient[others]
        self.inverse, own, cross = inverse, own[others], cross[others]
        self.across: Matrix = (cross.reshape(others.size * K, m * K) @ inverse).reshape(cross.shape)
        self.left = own - self.across @ cross.swapaxes(1, 2)
        self.left += _RIDGE_SHARE * np.einsum("jaa->j", own)[:, None, None] * np.eye(K)
        self.stiffness = np.linalg.inv(inverse.reshape(m, K, m, K)[np.arange(m), :, np.arange(m), :])
        self.x = at.x.reshape(m, K)
        self.pull = (self.stiffness @ self.x[:, :, None])[:, :, 0]
        self.cost = 0.5 * np.einsum("ia,ia->i", self.x, self.pull)
        self.cost[np.isin(inside, kept)] = np.inf

    def additions(self) -> Vector:
        """Return what each feature of `outside` gains."""
        return _gains(self.left, self.gradient)

    def swaps(self) -> Matrix:
        """Return what each feature of `outside` gains in place of each one of the fit, of shape (m, outside)."""
        gains = np.full((self.cost.size, self.outside.size), -np.inf)
        for i in np.flatnonzero(np.isfinite(self.cost)).tolist():
            mine = self.across[:, :, self._of(i)]
            left = self.left + mine @ self.stiffness[i] @ mine.swapaxes(1, 2)
            gains[i] = _gains(left, self.gradient - mine @ self.pull[i]) - self.cost[i]
        return gains

    def changed(self, out: int | None, into: int | None) -> tuple[Features, Vector, Near]:
        """Return features without that at the place `out` and with that at the place `into` of `outside`, at the end.

        Returned with x of the second-order model there, and with x as it is and what is known of the inverse Hessian.
        """
        features, x = self.at.features, self.at.x
        none, before = np.zeros((0, 0)), x
        held = stiffness = none
        if out is not None:
            mine, stiffness = self._of(out), self.stiffness[out]
            held = stiffness @ self.inverse[mine]  # K_ii⁻¹ K_i·
            x, features = np.delete(x - self.x[out] @ held, mine), np.delete(features, out)
            before = np.delete(before, mine)
        if into is None:
            return features, x, (before.tolist(), self.inverse, -1 if out is None else out, stiffness, none, none)
        left, slope, across = self.left[into], self.gradient[into], self.across[into]
        if out is not None:
            own = across[:, mine]
            left, slope, across = left + own @ stiffness @ own.T, slope - own @ self.pull[out], across - own @ held
            across[:, mine] = 0.0
        inverse = np.linalg.inv(left)
        added = -inverse @ slope
        moved = added @ across
        x = np.append(x - (moved if out is None else np.delete(moved, mine)), added)
        begin = [*before.tolist(), *[0.0] * added.size]
        near = begin, self.inverse, -1 if out is None else out, stiffness, np.ascontiguousarray(across), inverse
        return np.append(features, self.outside[into]), x, near

    def _of(self, i: int) -> slice:
        """Return the coordinates of the i-th feature of the fit."""
        return slice(i * self.n_outputs, (i + 1) * self.n_outputs)


def _inverse(hessian: Matrix) -> Matrix:
    """Return the inverse; of a singular matrix that of a larger one, and of what is not finite the diagonal's."""
    diagonal, more = np.diagonal(hessian).copy(), _RIDGE_SHARE
    while diagonal.size and more < _LARGEST_RIDGE_SHARE and np.all(np.isfinite(hessian)):
        hessian.flat[:: hessian.shape[0] + 1] = (1 + more) * diagonal
        factor, failed = dpotrf(hessian, lower=1)
        if not failed:
            lower = np.tril(dpotri(factor, lower=1)[0])
            return np.ascontiguousarray(lower + np.tril(lower, -1).T)
        more *= 100.0
    return np.diag(1 / np.where((diagonal > 0) & np.isfinite(diagonal), diagonal, 1.0))


def _gains(left: Matrix, gradient: Matrix) -> Vector:
    """½ g'S⁻¹g of several features."""
    step = np.linalg.solve(left, gradient[:, :, None])[:, :, 0]
    return np.asarray(0.5 * np.einsum("ja,ja->j", gradient, step))


def _shifts(blocks: Matrix) -> Vector:
    """Return curvatures for coefficients of all classes shifted alike, which the loss does not see."""
    curvature = np.einsum("jaa->j", blocks) / blocks.shape[1] ** 2
    return np.asarray(np.where(curvature > 0, curvature, 1.0))


@dataclass(frozen=True, eq=False)
class Step:
    """A fit on the path.

    Attributes
    ----------
    fit : Fit
    least : int
        The place of its least useful feature; −1 where it has none that counts.
    n_fits, n_passes : int
        What it took, with all before it.
    """

    fit: Fit
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
    _tried: dict[bytes, float] = field(default_factory=dict)
    _last: ClassEstimates | None = None
    _check: Callable[[], None] = lambda: None

    def at(self, k: int, check: Callable[[], None]) -> Step:
        """Return the fit of at most k features; `check` raises where there is no time left."""
        if k not in self.best:
            self._check, longest = check, _LEAST_LONGEST
            while longest <= k:
                longest *= 2
            self._rise(min(longest, self.most))
            self._return(min(longest, self.most), longest // 2 if longest > _LEAST_LONGEST else 0)
        return self.best[k]

    def _rise(self, longest: int) -> None:
        """Add features until there are so many."""
        if not self.rising:
            null = self._fitted(self.kept, np.zeros(self.kept.size * self.newton.n_outputs))
            assert null is not None
            self._last = ClassEstimates(self.newton, null, self.kept)
            self.rising.append(self._step(self._last, 1, 1))
        while len(self.rising) <= longest:
            before, last = self._spent(), self.rising[-1]
            self._last = self._risen(last)
            fits, passes = (after - one for after, one in zip(self._spent(), before, strict=True))
            self.rising.append(self._step(self._last, last.n_fits + fits, last.n_passes + passes))

    def _risen(self, last: Step) -> ClassEstimates:
        """Return estimates at the fit with one more feature, after swaps; of small fits several are tried."""
        estimates = found = self._estimates(last)
        if last.fit.x.size > _CHEAP_COORDINATES:
            larger = self._larger(last, last.fit.psi)
            return estimates if larger is None else self._improved(larger)
        gain = estimates.additions()
        for place in np.argsort(-gain, kind="stable")[:_NEXT_TRIED]:
            if gain[place] > 0 and last.fit.psi > self.newton.gone:
                fit = self._fitted(*estimates.changed(None, int(place)))
                assert fit is not None
                if fit.psi < last.fit.psi:
                    other = self._improved(fit)
                    found = other if other.at.psi < found.at.psi else found
        return found

    def _return(self, longest: int, shortest: int) -> None:
        """Leave out features one by one, down to the shortest set, and take them in again, for as long as that helps.

        The longest set stays as it is: longer paths begin there.
        """
        before, lowest = self._spent(), {k: self.rising[k] for k in range(shortest, longest + 1)}
        for _ in range(_PASSES):
            if not self._lowered(lowest, range(longest, shortest, -1)):
                break
            if not self._lowered(lowest, range(shortest, longest - 1)):
                break
        fits, passes = (after - one for after, one in zip(self._spent(), before, strict=True))
        spent = self.rising[longest].n_fits + fits, self.rising[longest].n_passes + passes
        steps = ((k, replace(step, n_fits=spent[0], n_passes=spent[1])) for k, step in lowest.items())
        self.best.update((k, step) for k, step in steps if k < longest)

    def _lowered(self, lowest: dict[int, Step], way: range) -> bool:
        """Go from each number of features to the next one, and return whether that has led to a lower fit."""
        any_lower = False
        for k in way:
            other = lowest[k + way.step].fit
            found = (self._smaller if way.step < 0 else self._larger)(lowest[k], _lower(other.psi))
            if found is not None:
                lowest[k + way.step] = self._step(self._improved(found), 0, 0)
                any_lower = True
        return any_lower

    def _larger(self, step: Step, below: float) -> Fit | None:
        """Return the fit with the feature that gains most, where it is below a value."""
        estimates = self._estimates(step)
        gain = estimates.additions()
        if step.fit.psi <= self.newton.gone or not np.any(gain > 0):
            return None
        found = self._fitted(*estimates.changed(None, int(np.argmax(gain))), below)
        return found if found is not None and found.psi < below else None

    def _smaller(self, step: Step, below: float) -> Fit | None:
        """Return the fit without the least useful feature, where it is below a value."""
        fit = step.fit
        if step.least < 0:
            return None
        K = self.newton.n_outputs
        x = np.delete(fit.x, slice(step.least * K, (step.least + 1) * K))
        found = self._fitted(np.delete(fit.features, step.least), x, None, below)
        return found if found is not None and found.psi < below else None

    def _estimates(self, step: Step) -> ClassEstimates:
        if self._last is None or self._last.at is not step.fit:
            return ClassEstimates(self.newton, step.fit, self.kept)
        return self._last

    def _improved(self, fit: Fit) -> ClassEstimates:
        """Swap features for as long as that lowers ψ; return estimates at the last fit."""
        while True:
            estimates = ClassEstimates(self.newton, fit, self.kept)
            new = None if fit.psi <= self.newton.gone else self._swapped(estimates)
            if new is None:
                return estimates
            fit = new

    def _swapped(self, estimates: ClassEstimates) -> Fit | None:
        """Return the first fit after a promising swap that is lower."""
        gains, fit, tries = estimates.swaps(), estimates.at, 0
        promising = gains > np.where(np.isfinite(estimates.cost), -_PROMISING_SHARE * estimates.cost, np.inf)[:, None]
        order = np.argsort(-np.where(promising, gains, -np.inf), axis=None, kind="stable")
        for place in order[: np.count_nonzero(promising)].tolist():
            out, into = divmod(place, gains.shape[1])
            j = int(estimates.outside[into])
            key = np.sort(np.append(np.delete(fit.features, out), j)).tobytes()
            if self._tried.get(key, -np.inf) >= fit.psi:
                continue
            new = self._fitted(*estimates.changed(out, into), _lower(fit.psi))
            if new is not None and new.psi < _lower(fit.psi):
                return new
            self._tried[key] = fit.psi
            tries += 1
            if tries == (_TRIES if fit.x.size > _CHEAP_COORDINATES else _TRIES_WHERE_CHEAP):
                break
        return None

    def _fitted(self, features: Features, x: Vector, near: Near | None = None, below: float = np.inf) -> Fit | None:
        self._check()
        return self.newton.fitted(features, x, _ACCURACY, near, below)

    def _step(self, estimates: ClassEstimates, n_fits: int, n_passes: int) -> Step:
        cost = estimates.cost
        least = int(np.argmin(cost)) if np.any(np.isfinite(cost)) else -1
        return Step(estimates.at, least, n_fits, n_passes)

    def _spent(self) -> tuple[int, int]:
        return self.newton.n_fits, self.newton.n_passes


def _lower(psi: float) -> float:
    return psi - _LOWER_SHARE * abs(psi)
