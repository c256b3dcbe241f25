"""Set negligible coefficients to zero at the end of a run.

If the level is not active, or φ has no threshold, a solution may have tiny coefficients that are only
remainders of the iteration but would count as features. With x_0 the null model, features are removed as long as

    ψ(x') ≤ ψ(x) + 1e-2 tol (ψ(x_0) − ψ(x)),      kkt(x') ≤ max(kkt(x), tol/2)

hold without all of them together: for x with zeros in their place, or once the other features have been fitted again.
x' satisfies the level. Unpenalized features stay. The second-order model of ψ at x, over the features of x, predicts
where the level is not active which features can be removed. These are tried together, and each half of them if that
fails.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from levelprox._typing import Features, Matrix, Vector
from levelprox.backends import RemoteObjective
from levelprox.certificate import assemble, certify
from levelprox.methods.restricted import SolverOptions, Tolerance, solve_over
from levelprox.objectives import Model, Objective
from levelprox.problem import Problem

_SEEN = 1e-2  # of tol: the part of what all features gain together that can be seen
_ROUNDING = 64 * float(np.finfo(np.float64).eps)  # of ψ
_SMALL = 1e-3  # of the largest contribution to margins: others are not tried, unless kinks or a perfect fit are there
_TRIES, _FITS = 64, 8  # sets of features that are left out on trial, and of these, after which the others are fitted
_MOST_PREDICTED = 300  # features: the Schur complements of more take long
_CLOSE = 0.8  # of what ψ may rise and the KKT residual be, in predictions of them
_SINGULAR = 1e-10  # of the curvature along a column: with less it depends on others
_ENOUGH = 0.1  # of tol, for these fits
_HALVINGS = 6  # of the features that are left out together, for remote data
_KINKS = 1.0  # seconds that a subgradient may take


class Shortened(NamedTuple):
    """A point without its negligible features.

    Attributes
    ----------
    x : ndarray of shape (d,)
        The given array itself if no feature is negligible.
    n_grad : int
        The number of gradients that were computed.
    psi : float
        ψ(x); NaN where it is not known from the last trial.
    gradient : ndarray of shape (d,) or None
        ∇ψ(x); None where it is not known from the last trial.
    """

    x: Vector
    n_grad: int = 0
    psi: float = math.nan
    gradient: Vector | None = None

    def evaluated(self, objective: Objective) -> tuple[float, Vector]:
        """Return ψ(x) and ∇ψ(x), computed where they are not known."""
        return objective.value_and_gradient(self.x) if self.gradient is None else (self.psi, self.gradient)


def without_negligible(
    problem: Problem,
    x: Vector,
    tol: float,
    how: SolverOptions,
    hint: Vector | None = None,
    known: tuple[float, float] | None = None,
    psi: float | None = None,
) -> Shortened:
    """Return x without its negligible features; x itself if there are none.

    Parameters
    ----------
    problem : Problem
    x : ndarray of shape (d,)
        A feasible point.
    tol : float
        On the KKT residual.
    how : SolverOptions
        As in the run that led to x.
    hint : ndarray of shape (n,), optional
        As in `certify`, for losses with kinks.
    known : (float, float), optional
        The KKT residual of x and its multiplier, where they are known.
    psi : float, optional
        ψ(x), where it is known.
    """
    counted = problem.counted(problem.support(x))
    if not counted.size or not tol > 0 or not math.isfinite(how.null.psi):
        return Shortened(x)
    trial = _Trial(problem, x, tol, how, hint, known, psi)
    candidates, found = trial.candidates(counted), x
    if isinstance(problem.objective, RemoteObjective):
        found = trial.in_few_rounds(candidates)
        return trial.shortened(found)
    unseen = trial.unseen(candidates) if candidates.size else None
    if unseen is not None:
        return trial.shortened(trial.at_once(unseen) if unseen.size else x)
    while candidates.size:
        last, found = found, trial.without(found, candidates)
        if found is last:
            break
        # Without the others they may not be needed, either.
        candidates = candidates[problem.sizes(found)[candidates] > 0]
    return trial.shortened(found)


class _Trial:
    """Trials of removing features from x, and counts of work."""

    def __init__(
        self,
        problem: Problem,
        x: Vector,
        tol: float,
        how: SolverOptions,
        hint: Vector | None,
        known: tuple[float, float] | None,
        psi: float | None = None,
    ) -> None:
        self.problem, self.x, self.tol, self.how, self.hint = problem, x, tol, how, hint
        self.known, self.psi = known, psi
        self.redundant = False  # whether any feature may be
        self.tries = self.fits = self.gradients = 0
        self._last = Shortened(x)
        self._support = np.union1d(problem.support(x), problem.unpenalized)
        self._places = problem.coordinates(self._support)

    @cached_property
    def _part(self) -> Objective:
        """ψ over the features of x and the unpenalized ones."""
        return self.how.restricted(self.problem, self._support).objective

    def shortened(self, x: Vector) -> Shortened:
        """Return x with ψ and ∇ψ, where they are known, and the number of gradients."""
        known = self._last if x is self._last.x else Shortened(x)
        return known._replace(n_grad=self.gradients)

    def candidates(self, counted: Features) -> Features:
        """Return those of these features that may be negligible, the smallest first.

        For a perfect fit, and for a loss with kinks, any feature may be redundant.
        """
        objective, null = self.problem.objective, self.how.null
        scale = objective.feature_scale
        sizes = self.problem.sizes(self.x)[counted]
        if scale is not None:
            sizes = sizes * np.where(np.isinf(scale.size), 1.0, scale.size)[counted]
        order = np.argsort(sizes, kind="stable")
        if isinstance(objective, Model):
            above = _SEEN * self.tol * (null.psi - objective.infimum)
            psi = self._value(self.x) if self.psi is None else self.psi
            if not objective.smooth or psi - objective.infimum <= above < math.inf:
                self.redundant = True
                return counted[order]
        small: Features = counted[order[sizes[order] <= _SMALL * sizes.max()]]
        return small

    def unseen(self, features: Features) -> Features | None:
        """Return those of these features that tol is predicted not to tell from zero together; None without prediction.

        Where the level is not active, removing the features R and fitting the others again leaves the gradient S x_R on
        R and raises ψ by ½ x_R' S x_R, to second order, with S the Schur complement of the Hessian over R. The feature
        with the largest residual is kept, one after another, until all others can go.
        """
        part, m = self.problem.objective, self._support.size
        if self.known is None or self.known[1] != 0 or self.redundant or m > _MOST_PREDICTED:
            return None
        if not (isinstance(part, Model) and part.smooth and part.n_outputs == 1):
            return None
        part = cast(Model, self._part)
        z = part.margins(self.x[self._places])
        S, allowed = part.hessian_of(z, True), self._most - part.value_of(z)
        scale = self.problem.objective.feature_scale
        unit = self.how.null.scale * (np.ones(m) if scale is None else scale.size[self._support])
        R = np.isin(self._support, features)
        smallest = _SINGULAR * np.diagonal(S)
        for j in np.flatnonzero(~R):
            _eliminate(S, int(j), smallest[j])
        while np.any(R):
            x = np.where(R, self.x[self._places], 0.0)
            pull = np.sum(S * x, axis=1)
            residual = np.where(R, np.abs(pull) / unit, -1.0)
            worst = int(np.argmax(residual))
            if residual[worst] <= _CLOSE * self._bar and float(np.sum(pull * x)) / 2 <= _CLOSE * allowed:
                break
            R[worst] = False
            _eliminate(S, worst, smallest[worst])
        return features[np.isin(features, self._support[R])]

    def at_once(self, features: Features) -> Vector:
        """Return the fit without these features, which is predicted to do; if it does not, as `without`."""
        if self.how.seconds_left() <= 0:
            return self.x
        self.tries += 1
        x = self._fitted(self._shorter(self.x, features))
        return x if self._is_fine(x) else self.without(self.x, features)

    def _shorter(self, x: Vector, features: Features) -> Vector:
        shorter = x.copy()
        shorter[self.problem.coordinates(features)] = 0.0
        return shorter

    def without(self, x: Vector, features: Features) -> Vector:
        """Return x without as many of these features as possible: all of them, or some of each half."""
        if self.tries >= _TRIES or self.how.seconds_left() <= 0:
            return x
        self.tries += 1
        found = self._accepted(self._shorter(x, features))
        if found is not None:
            return found
        if features.size == 1:
            return x
        half = (features.size + 1) // 2
        x = self.without(x, features[:half])
        return self.without(x, features[half:])

    def in_few_rounds(self, features: Features) -> Vector:
        """Return x without the largest of some sets of the smallest of these features, if ψ and a fit allow it.

        For remote data: ψ without each of the sets is one round, and the residual of one fit is one full pass.
        """
        if not features.size or self.how.seconds_left() <= 0:
            return self.x
        counts = np.unique(-(-features.size // 2 ** np.arange(_HALVINGS)))[::-1]
        points = np.tile(self.x, (counts.size + 1, 1))
        for point, count in zip(points[1:], counts, strict=True):
            point[self.problem.coordinates(features[:count])] = 0.0
        psi, *values = cast(RemoteObjective, self.problem.objective).values(points).tolist()
        most = self._most_above(psi)
        for point, value in zip(points[1:], values, strict=True):
            if value <= most:
                x = self._fitted(point)
                fine = self.problem.is_feasible(x) and self._is_fine_within(x, most) and self._kkt(x) <= self.tol / 2
                return x if fine else self.x
        return self.x

    def _accepted(self, x: Vector) -> Vector | None:
        """Return x, or the fit of its features, if neither ψ nor the KKT residual shows that others are missing."""
        if not self._value(x) <= self._most:
            return None
        if self._kkt(x) <= self._bar:
            return x
        x = self._fitted(x)
        return x if self._is_fine(x) else None

    def _is_fine(self, x: Vector) -> bool:
        """Return whether the level holds, and neither ψ nor the KKT residual shows that features are missing."""
        return self.problem.is_feasible(x) and self._value(x) <= self._most and self._kkt(x) <= self._bar

    def _is_fine_within(self, x: Vector, most: float) -> bool:
        """Return whether ψ is at most this, and the KKT residual over the features of the first point small enough.

        It is at most that over all features, which needs a full pass.
        """
        at, part = x[self._places], self.problem.restrict(self._support)
        objective = cast(RemoteObjective, part.objective)
        point = objective.margins(at)
        psi, gradient = objective.value_of(point), objective.gradient_of(point)  # of one round
        return psi <= most and assemble(part, at, psi, gradient, self.how.null, bounded=False).kkt <= self.tol / 2

    @cached_property
    def _most(self) -> float:
        """What ψ may be."""
        return self._most_above(self._value(self.x))

    def _most_above(self, psi: float) -> float:
        null = self.how.null.psi
        return psi + _SEEN * self.tol * max(null - psi, 0.0) + _ROUNDING * abs(null)

    @cached_property
    def _bar(self) -> float:
        """What the KKT residual may be."""
        return max(self._kkt(self.x) if self.known is None else self.known[0], self.tol / 2)

    def _fitted(self, x: Vector) -> Vector:
        """Return the fit of the features of x and of the unpenalized ones, started at x."""
        problem, how = self.problem, self.how
        if self.fits >= _FITS or not how.subsolver.forms_models(problem.objective):
            return x
        self.fits += 1
        W = np.union1d(problem.support(x), problem.unpenalized)
        enough = Tolerance(_ENOUGH * self.tol * how.null.scale)
        return problem.spread(W, solve_over(problem, W, x, enough, how).x)

    def _value(self, x: Vector) -> float:
        if isinstance(self._part, Model):  # without the gradient
            return self._part.value_of(self._part.margins(x[self._places]))
        return self._part.value_and_gradient(x[self._places])[0]

    def _kkt(self, x: Vector) -> float:
        self.gradients += 1
        objective, null = self.problem.objective, self.how.null
        if not objective.smooth:
            seconds = min(max(self.how.seconds_left(), 0.0), _KINKS)
            return certify(self.problem, x, null, hint=self.hint, seconds=seconds).kkt
        psi, gradient = objective.value_and_gradient(x)
        self._last = Shortened(x, 0, psi, gradient)
        return assemble(self.problem, x, psi, gradient, null, bounded=False).kkt


def _eliminate(S: Matrix, j: int, smallest: float) -> None:
    """Replace S by its Schur complement without coordinate j, whose row and column become zeros."""
    pivot, row = S[j, j], S[j].copy()
    if pivot > smallest:
        S -= np.multiply.outer(row / pivot, row)
    S[j], S[:, j] = 0.0, 0.0
