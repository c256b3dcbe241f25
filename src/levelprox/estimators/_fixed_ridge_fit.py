"""Fits with a given ridge: at most k features, or g(x) ≤ η, by one call of the solver."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from levelprox._best_subset import Leave, unchecked_subset
from levelprox._path import path
from levelprox._runtime import TimeLimitError, end_now, finishing, seconds_to_finish
from levelprox._solve import solve
from levelprox._typing import Features, FloatArray, Vector
from levelprox.backends import RemoteObjective
from levelprox.certificate import Certificate, certify
from levelprox.certificate.null_model import null_fit
from levelprox.constraints import MCP, SCAD, Constraint
from levelprox.driver.checkpoint import SavedState
from levelprox.estimators._features import Standardization
from levelprox.estimators._parameters import Budget
from levelprox.exceptions import NumericalError
from levelprox.io.checkpoint import Checkpoint
from levelprox.objectives import LinearModel, Model
from levelprox.objectives.multiclass import ByClass
from levelprox.problem import Problem, SubsetProblem
from levelprox.result import Record, Status
from levelprox.subset.result import Subset, SubsetCertificate, SubsetRecord

#: Called with the record of each step, and x where it is known: under a level. Returning True stops the fit.
Observer = Callable[[Record | SubsetRecord, "Vector | None"], bool]

SUBSET_TOLERANCE = 1e-2  # of tol: Newton's method gets there in the same number of steps
_FLOAT32_RISE = 1e-7  # of ψ above its infimum: coefficients are float32 where rounding them raises ψ by no more
_RISE_SHARE = 1e-7  # of ψ, or of the null model's: where rounding raises ψ by more, claims about swaps are left out
_CAP_ROUNDING = Fraction(1, 2**50)  # of the cap, for each coefficient: the rounding of a whole number of caps
_PSI_ROUNDING = 1e-9  # of ψ: what the rounding of margins may change


@dataclass(frozen=True, eq=False)
class Solution:
    """What a fit found, in the units of X.

    Attributes
    ----------
    coef : ndarray of shape (n_outputs, d)
    intercept : ndarray of shape (n_outputs,)
    certificate : Certificate or SubsetCertificate
        Of scale_ · coef_.
    multiplier : float
        The shadow price: y of the level, or what the best single further feature gains.
    status : Status
    message : str
    n_iter : int
        Outer steps; for at most k features, refits.
    history : tuple of Record or of SubsetRecord
    ridge : float
        λ of the fit.
    penalty : float
        λ‖scale_ ∘ coef_‖², which is part of ψ.
    """

    coef: FloatArray
    intercept: FloatArray
    certificate: Certificate | SubsetCertificate
    multiplier: float
    status: Status
    message: str
    n_iter: int
    history: tuple[Record, ...] | tuple[SubsetRecord, ...]
    ridge: float = 0.0
    penalty: float = 0.0


@dataclass(frozen=True, eq=False)
class FixedRidgeFit:
    """Data and settings of a fit with a given ridge, or none, under any budget.

    Attributes
    ----------
    objective : Model or RemoteObjective
        ψ of standardised features, perhaps with an intercept.
    standardization : Standardization
    constraint : Constraint or None
        For levels.
    feature_weight : ndarray of shape (d,), optional
        ω; 0 is kept in any case.
    positive : bool or ndarray of bool of shape (d,)
    tol : float
    max_iter : int
    time_limit : float, optional
    options : dict
        What `solve` alone takes: subsolver, start, random_state.
    observer : callable, optional
        Called with the record of every step.
    checkpoint : path-like, Checkpoint or SavedState, optional
    resume : bool or path-like
        As in `solve`.
    ridge : float
        λ, which `objective` has.
    deviations : ndarray of shape (d,), optional
        Standard deviations of the columns, where they are not standardised.
    feature_cost : ndarray of shape (d,), optional
        What features cost, for budgets of costs.
    examine : bool
        Whether swaps and additions are examined; fits of folds need no claims.
    """

    objective: Model | RemoteObjective
    standardization: Standardization
    constraint: Constraint | None
    feature_weight: Vector | None
    positive: bool | NDArray[np.bool_]
    tol: float
    max_iter: int
    time_limit: float | None
    options: dict[str, Any]
    observer: Observer | None
    checkpoint: str | os.PathLike[str] | Checkpoint | SavedState | None = None
    resume: bool | str | os.PathLike[str] = False
    ridge: float = 0.0
    deviations: Vector | None = None
    feature_cost: Vector | None = None
    examine: bool = True

    def with_kept(self, features: Features) -> Features:
        """Return these features, those that are kept and the intercept, sorted."""
        kept = np.empty(0, np.intp) if self.keep is None else self.keep
        return np.union1d(np.union1d(features, kept), self.objective.unpenalized).astype(np.intp)

    def unit_and_signs(self, features: Features) -> tuple[Vector, NDArray[np.bool_]]:
        """Return the ridge of these features where λ is 1, and which of them must not be negative."""
        unit, signs = np.zeros(features.size), np.zeros(features.size, np.bool_)
        counted = features < self.standardization.scale.size
        unit[counted] = self._strength(1.0)[features[counted]]
        signs[counted] = np.broadcast_to(self.positive, self.standardization.scale.shape)[features[counted]]
        return unit, signs

    def inside(self, solution: Solution) -> Vector:
        """Return x of a solution."""
        return self.standardization.inside(solution.coef, solution.intercept)

    def solve(
        self,
        budget: Budget,
        previous: Vector | None = None,
        leave: Leave | None = None,
        start: Features | None = None,
        known: Features | None = None,
    ) -> Solution:
        """Return the fit under a budget, by one call of a solver.

        Parameters
        ----------
        budget : Budget
        previous : ndarray, optional
            x of an earlier fit to begin with.
        leave, start, known : optional
            For at most k features, as the guidance of `best_subset`.
        """
        if budget.features is None:
            return self._solve_level(float(budget.value), previous)
        observer = self.observer
        found = unchecked_subset(
            self.objective,
            budget.features,
            feature_cost=None if budget.cost is None else self.feature_cost,
            budget=budget.cost,
            keep=self.keep,
            nonnegative=self.positive,
            tol=SUBSET_TOLERANCE * self.tol,
            start=self.features(previous) if start is None and previous is not None else start,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            callback=None if observer is None else lambda record: observer(record, None),
            checkpoint=self.checkpoint,
            resume=self.resume,
            _guidance={
                "examine": self.examine or budget.cost is not None,
                "leave": leave,
                "known": known,
                "thorough": start is not None and previous is None,
            },
        )
        certificate, message = found.certificate, found.message
        try:
            with _at_the_end(found.status):
                coef, intercept = self.rounded(found.x, found.psi, certificate.examined)
                # For remote data the last digits of ψ would need a round of their own.
                rounded = coef.dtype != np.float64 or not isinstance(self.objective, RemoteObjective)
                psi = self._psi_of(coef, intercept) if certificate.examined and rounded else found.psi
            gain = certificate.multiplier + (0.0 if found.addition is None else psi - found.psi)
            certificate = replace(certificate, psi=psi, multiplier=max(gain, 0.0))
            if self._is_raised(found, psi):
                additions = certificate.additions and replace(certificate.additions, examined=0)
                certificate = replace(certificate, swaps=replace(certificate.swaps, examined=0), additions=additions)
                message = message.replace(str(found.swaps), str(certificate.swaps))
        except TimeLimitError:
            coef, intercept = self.standardization.outside(found.x, np.dtype(np.float64))
        figures = certificate, certificate.multiplier, found.status, message
        return self.penalized(Solution(coef, intercept, *figures, found.n_refits, found.history))

    def _solve_level(self, level: float, previous: Vector | None) -> Solution:
        problem = self.problem(level)
        options = self.options if previous is None else {**self.options, "x0": self._feasible(problem, previous)}
        found = solve(
            problem,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            callback=self.observer,
            checkpoint=self.checkpoint,
            resume=self.resume,
            **options,
        )
        x = problem.obeying(self.shortest(found.x, problem))
        certificate = found.certificate
        try:
            with _at_the_end(found.status):
                coef, intercept = self.rounded(x, found.psi, certificate.examined)
                if coef.dtype == np.float32 and certificate.examined:  # the certificate is of the rounded coefficients
                    rounded = self.standardization.inside(coef, intercept)
                    certificate = certify(problem, rounded, found.null, seconds=max(seconds_to_finish(), 0.0))
        except TimeLimitError:
            coef, intercept = self.standardization.outside(x, np.dtype(np.float64))
        figures = certificate, certificate.multiplier, found.status, found.message
        return self.penalized(Solution(coef, intercept, *figures, found.n_outer, found.history))

    def follow_path(self, levels: Vector) -> list[Solution]:
        """Return the fits at several levels in ascending order, by path following; Ctrl-C raises KeyboardInterrupt."""
        found = path(self.problem(float(levels[0])), levels, tol=self.tol, start=self.options["start"])
        if len(found) < len(levels):  # nothing else ends a path without a limit
            raise KeyboardInterrupt
        solutions = []
        for i, certificate in enumerate(found.certificates):
            assert isinstance(certificate, Certificate)
            problem, status = self.problem(float(levels[i])), found.statuses[i]
            x = problem.obeying(self.shortest(found.x(i), problem))
            coef, intercept = self.rounded(x, float(found.losses[i]), certificate.examined)
            figures = certificate, certificate.multiplier, status, str(status)
            solutions.append(self.penalized(Solution(coef, intercept, *figures, found.n_grad, ())))
        return solutions

    def penalized(self, solution: Solution) -> Solution:
        """Return the solution with the ridge and its part of ψ."""
        if not self.ridge:
            return solution
        rows = self.inside(solution).reshape(-1, self.standardization.n_outputs)[: self.standardization.scale.size]
        penalty = float(np.sum(self._strength(self.ridge)[:, None] * rows**2))
        return replace(solution, ridge=self.ridge, penalty=penalty)

    def ridged(self, ridge: float) -> Self:
        """Return the same with a ridge; features that are kept are free of it."""
        if not ridge:
            return self
        assert isinstance(self.objective, LinearModel | ByClass | RemoteObjective)
        return replace(self, objective=self.objective.ridged(self._strength(ridge)), ridge=ridge)

    def _strength(self, ridge: float) -> Vector:
        """Return λ s² of every feature, in units of A."""
        size = self.standardization.scale.size
        strength = ridge * (np.ones(size) if self.deviations is None else self.deviations) ** 2
        if self.keep is not None:
            strength[self.keep] = 0.0
        return np.asarray(strength, np.float64)

    @property
    def keep(self) -> Features | None:
        """Features that never count."""
        return None if self.feature_weight is None else np.flatnonzero(self.feature_weight == 0)

    def rounded(self, x: Vector, psi: float, examined: bool) -> tuple[FloatArray, FloatArray]:
        """Return coefficients and intercepts for x with ψ(x) = psi.

        They are of the precision of X, but float64 where rounding to float32 raises ψ: of columns with a large mean,
        and of near-equal ones, products of coefficients and X cancel, and their last digits decide. They are float64,
        too, if there was no time for the data (`examined`).
        """
        if self.standardization.dtype == np.float32 and examined:
            with suppress(NumericalError):  # beyond the range of float32
                coef, intercept = self.standardization.outside(x)
                infimum = self.objective.infimum
                above = psi - infimum if math.isfinite(infimum) else abs(psi)
                if self._psi_of(coef, intercept) <= psi + _FLOAT32_RISE * max(above, 0.0):
                    return coef, intercept
        return self.standardization.outside(x, np.dtype(np.float64))

    def _psi_of(self, coef: FloatArray, intercept: FloatArray) -> float:
        """Return ψ of rounded coefficients."""
        x = self.standardization.inside(coef, intercept)
        if isinstance(self.objective, RemoteObjective):
            return self.objective.value_and_gradient(x)[0]
        psi = self.objective.value_of(self.objective.margins(x))
        return self.objective.refined_value(x, psi, _PSI_ROUNDING * abs(psi))

    def _is_raised(self, found: Subset, psi: float) -> bool:
        """Return whether ψ of the rounded coefficients is so far above that of the fit that a swap may be better."""
        if not psi > found.psi + _RISE_SHARE * abs(found.psi):
            return False
        null = null_fit(SubsetProblem(self.objective, 0, np.empty(0, np.intp) if self.keep is None else self.keep))
        return psi > found.psi + _RISE_SHARE * max(abs(found.psi), abs(null.psi))

    def shortest(self, x: Vector, problem: Problem) -> Vector:
        """Return the shortest of all x that are the same model: softmax depends on differences between classes only.

        Where a larger coefficient costs no more, and for intercepts, the shift of all classes is arbitrary.
        """
        if not self.objective.only_contrasts:
            return x
        rows = x.reshape(-1, self.standardization.n_outputs)
        centred = (rows - rows.mean(axis=1, keepdims=True)).ravel()
        return centred if problem.is_feasible(centred) else x

    def _feasible(self, problem: Problem, x: Vector) -> Vector:
        if np.any(self.positive):
            x = np.where(problem.must_be_nonnegative(), np.maximum(x, 0.0), x)
        return problem.cut(x)

    def constraint_at(self, level: float) -> Constraint:
        """Return the constraint, with a slope smaller by ulps if `level` is an integer number of caps up to rounding.

        m times the cap may round to less than m coefficients at the cap cost: then only m − 1 would fit.
        """
        constraint = self.constraint
        assert constraint is not None
        if not isinstance(constraint, MCP | SCAD):
            return constraint
        count = round(level / constraint.cap)
        while (
            0 < count * Fraction(constraint.cap) - Fraction(level) <= count * _CAP_ROUNDING * Fraction(constraint.cap)
        ):
            constraint = replace(constraint, lam=math.nextafter(constraint.lam, 0.0))
        return constraint

    def problem(self, level: float) -> Problem:
        """Return the problem under a level."""
        return Problem(self.objective, self.constraint_at(level), level, self.feature_weight, self.positive)

    def features(self, x: Vector) -> Features:
        """Return the features of x that are not zero, without the intercept."""
        rows = x.reshape(-1, self.standardization.n_outputs)[: self.standardization.scale.size]
        return np.flatnonzero(np.any(rows, axis=1))


@contextmanager
def _at_the_end(status: Status) -> Iterator[None]:
    """Limit the time of the work after a fit that ended with this status."""
    if status is Status.INTERRUPTED:
        end_now()
    with finishing():
        yield
