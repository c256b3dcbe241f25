"""Claims of a fitted model, and its problem and point recomputed from data: shared by the checks of all budgets."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier

from levelprox._typing import Features, Vector
from levelprox.certificate.null_model import NullFit, null_fit
from levelprox.estimators._features import Standardization
from levelprox.estimators._fit import Task
from levelprox.estimators._fixed_ridge_fit import SUBSET_TOLERANCE
from levelprox.estimators._input import Samples
from levelprox.estimators._soundness import budget_of
from levelprox.exceptions import InvalidInputError
from levelprox.objectives import LinearModel, Model
from levelprox.problem import FeatureProblem, SubsetProblem
from levelprox.subset.fit import Fit, rounding_of_margins
from levelprox.subset.nonsmooth_refit import ExactRefits
from levelprox.subset.smooth_search import SmoothSearch

Figure = float | int | str | None

_WORDS = {True: "holds", False: "DOES NOT HOLD", None: "not examined"}


@dataclass(frozen=True)
class Claim:
    """One claim.

    Attributes
    ----------
    name : str
    claimed, found : float, int, str or None
        What the model says, None where it claims nothing; and what the data say.
    holds : bool or None
        None where it was not examined, or not so far that it could be decided.
    """

    name: str
    claimed: Figure
    found: Figure
    holds: bool | None

    def __post_init__(self) -> None:
        for name in ("claimed", "found", "holds"):
            value = getattr(self, name)
            if isinstance(value, np.generic):  # JSON supports Python types only
                object.__setattr__(self, name, value.item())

    @property
    def words(self) -> tuple[str, str, str, str]:
        """As a row of a table."""
        if self.claimed is None and self.holds is None:
            return self.name, "—", "", "not claimed"
        return self.name, _shown(self.claimed), _shown(self.found), _WORDS[self.holds]


@dataclass(frozen=True)
class Claims:
    """What a model claims, and what its data say.

    Attributes
    ----------
    claims : tuple of Claim
    differences : tuple of str or None
        In what the data differ from those of the fit; None if the model has no fingerprint of these.
    """

    claims: tuple[Claim, ...]
    differences: tuple[str, ...] | None

    @property
    def hold(self) -> bool:
        """Whether every claim holds that was examined."""
        return all(claim.holds is not False for claim in self.claims)

    @property
    def not_examined(self) -> tuple[str, ...]:
        """The claims that were not examined, or not so far that they could be decided."""
        return tuple(claim.name for claim in self.claims if claim.holds is None and claim.claimed is not None)

    @property
    def same_data(self) -> bool | None:
        """Whether the data are those of the fit; None where that is not known."""
        return None if self.differences is None else not self.differences

    def as_dict(self) -> dict[str, Any]:
        """Return the claims as a dict for JSON."""
        return {
            "hold": self.hold,
            "not_examined": list(self.not_examined),
            "same_data": self.same_data,
            "differences": None if self.differences is None else list(self.differences),
            "claims": [asdict(claim) for claim in self.claims],
        }

    def __str__(self) -> str:
        rows = [("", "claimed", "found", "")]
        rows += [one.words for one in self.claims]
        name, claimed, found = (max(len(row[i]) for row in rows) for i in range(3))
        lines = [f"{row[0]:<{name}}  {row[1]:<{claimed}}  {row[2]:<{found}}  {row[3]}".rstrip() for row in rows]
        return "\n".join([self._about_the_data(), *lines])

    def _about_the_data(self) -> str:
        if self.differences is None:
            return "The model has no fingerprint of the data of its fit."
        if not self.differences:
            return "The data are those of the fit."
        return f"Other data than those of the fit: they differ in {', '.join(self.differences)}."


def _shown(figure: Figure) -> str:
    if figure is None:
        return ""
    return f"{figure:.10g}" if isinstance(figure, float) else str(figure)


RELATIVE_TOLERANCE = 1e-9  # for figures that must agree
NULL_TOLERANCE = 1e-12  # of psi at the null fit: what psi may be off by where it is nearly 0
_CONFIRMED = 1e-6  # of psi: what may differ, if rounding explains it, of a psi that is confirmed
_ULPS = 64  # that coefficients may be off, in the gradient
_ULPS_OF_MARGINS = 8  # of the terms that margins are summed from
_REFIT_OVERHEAD = 10**5  # multiplications: what a refit takes besides n (k + 1)²
_KINKED_REFIT = 10  # times as much work as without kinks
_FEWEST_REFITS = 50


def data_of(
    model: Any, method: str, X: object, y: Any, sample_weight: ArrayLike | None, more: dict[str, Any]
) -> Samples:
    """Return data for a fitted model, checked as in `fit`; X must have the same features, y the same classes.

    Parameters
    ----------
    model : fitted estimator
    method : str
        The function that takes the data, for errors.
    X, y, sample_weight : array-like
    more : dict
        `offset` and `exposure` of a regressor.
    """
    if X is None or y is None:
        raise InvalidInputError(f"{method} needs X and y together, got {'y' if X is None else 'X'} alone")
    unknown = [name for name in more if is_classifier(model) or name not in ("offset", "exposure")]
    if unknown:
        raise TypeError(f"{method}() got an unexpected keyword argument {unknown[0]!r}")
    samples: Samples = model._read_samples(X, y, sample_weight, more, reset=False)
    if is_classifier(model):
        present = np.unique(samples.y if samples.weight is None else samples.y[samples.weight > 0])
        if not np.array_equal(present, model.classes_):
            raise InvalidInputError(
                f"y has the classes {present.tolist()}, the model {model.classes_.tolist()}: give data of the same "
                "classes"
            )
    return samples


def task_of(model: Any, samples: Samples) -> tuple[Task, Vector]:
    """Return the task of the fit with the model's own scale and constraint, and the scale of the data's columns."""
    judge = copy.copy(model)
    judge.ridge = getattr(model, "ridge_", 0.0)  # of version 0.1 there is none
    if hasattr(model, "feature_cost_"):
        judge.feature_cost = model.feature_cost_
    prepared = judge._prepare(samples)
    fresh = prepared.standardization()
    scale = model.scale_ if model.standardize else None
    own = Standardization(fresh.base, fresh.center, scale, fresh.fit_intercept, fresh.n_outputs)
    return Task.of(judge, prepared, budget_of(model), own), fresh.scale


def subset_problem(task: Task, k: int) -> SubsetProblem:
    """Return the problem of at most k features of a task, without costs."""
    kept = np.empty(0, np.intp) if task.keep is None else task.keep
    return SubsetProblem(task.objective, k, kept, task.positive)


class RecomputedFit:
    """The problem of a fit, with psi, its gradient and the null fit computed from the data.

    Parameters
    ----------
    model : fitted estimator
    task : Task
        Of the data and the model's own scale.
    problem : Problem or SubsetProblem
        That of the task.
    """

    def __init__(self, model: Any, task: Task, problem: FeatureProblem) -> None:
        self.model, self.task, self.problem = model, task, problem
        self.x = task.standardization.inside(model.coef_, model.intercept_)
        self.null: NullFit = null_fit(self.problem)
        psi, self.gradient = self.problem.objective.value_and_gradient(self.x)
        self.psi = self.null.reported(self.problem.objective, self.x, psi)

    def null_of_the_run(self, scale: float | None = None) -> NullFit:
        """Return the null fit of a run that was cut short: a limit may have ended that fit, too.

        Where no feature that counts is in the model, the model itself is that null fit. Else its scale is taken from
        the model.
        """
        unpenalized = self.problem.unpenalized
        if not self.problem.counted(self.problem.support(self.x)).size:
            return null_fit(self.problem, fitted=self.x[self.problem.coordinates(unpenalized)])
        return self.null if scale is None else replace(self.null, scale=scale)

    def psi_claim(self, claimed: float) -> Claim:
        """Compare psi; it is not decided where the rounding of margins hides more than 1e-6 of it."""
        # Where ψ is nearly 0, what rounding of margins does to it by curvature; where no curvature is at hand, 1e-12 of
        # ψ at the null fit, which is more where targets are far from 0.
        digits = min(self._rounding_by_curvature(), NULL_TOLERANCE * abs(self.null.psi))
        allowed = RELATIVE_TOLERANCE * abs(claimed) + digits + self._rounding_of_psi
        if not self.problem.objective.smooth:  # with kinks, what rounding does to margins is not of second order
            allowed += _ULPS_OF_MARGINS * float(np.finfo(np.float64).eps) * self._shift()
        apart = abs(self.psi - claimed)
        holds: bool | None = apart <= allowed < math.inf
        if holds and apart > _CONFIRMED * abs(claimed) + digits:
            holds = None
        return Claim("loss", claimed, self.psi, holds)

    @cached_property
    def _rounding_of_psi(self) -> float:
        """Return what the rounding of coefficients does to ψ: much, where products with columns cancel in margins."""
        objective = cast(Model, self.problem.objective)
        return _ULPS_OF_MARGINS * rounding_of_margins(objective, self.x, objective.margins(self.x))

    def _rounding_by_curvature(self) -> float:
        """Return what rounding of margins does to ψ by curvature; inf where no curvature is at hand."""
        objective = self.problem.objective
        if not (isinstance(objective, LinearModel) and objective.smooth):
            return math.inf
        change = _ULPS_OF_MARGINS * float(np.finfo(np.float64).eps) * objective.margin_magnitudes(self.x)
        z = objective.of_samples(objective.margins(self.x))
        with np.errstate(over="ignore", invalid="ignore"):
            # A loss may bend on one side only.
            bend = np.max([np.abs(objective.bend_of(at, True)) for at in (z, z - change, z + change)], axis=0)
            left = 0.5 * float(np.sum(np.where(bend > 0, bend * change**2, 0.0)))
        return left if math.isfinite(left) else math.inf

    def other_claims(self, compared: set[str]) -> list[Claim]:
        """List the figures of `certificate_` that are not compared."""
        claimed = self.model.certificate_
        names = [field.name for field in fields(claimed) if field.name not in compared]
        return [Claim(name, str(getattr(claimed, name)), None, None) for name in names]

    def sign_claims(self) -> list[Claim]:
        """Check `positive`, where the model has it."""
        signs = self.task.positive
        if not np.any(signs):
            return []
        coef = np.atleast_2d(self.model.coef_)
        least = float(np.min(coef if signs is True else coef[:, signs]))
        return [Claim("positive", "no coefficient < 0", f"smallest {least:.6g}", least >= 0)]

    def residual_tolerance(self, eps: float) -> float:
        """Return what rounding does to a residual: more where intercept and centre exceed the coefficients by far."""
        largest = float(np.max(np.abs(self.x), initial=0.0))
        return RELATIVE_TOLERANCE + _ULPS * eps * (1 + self._shift() / largest if largest > 0 else 1.0)

    def _shift(self) -> float:
        """Return the size of what cancels in the margins: the intercept and the products with the columns' centres."""
        center = self.task.standardization.center
        shift = float(np.max(np.abs(np.atleast_1d(self.model.intercept_)), initial=0.0))
        if center is not None:
            shift += float(np.max(np.abs(np.atleast_2d(self.model.coef_)) @ np.abs(center), initial=0.0))
        return shift


def close(found: float, claimed: float, size: float, tolerance: float = RELATIVE_TOLERANCE) -> bool:
    """Return whether two figures differ by at most `tolerance` times `size`."""
    return abs(found - claimed) <= tolerance * abs(size) < math.inf


class RefittableFit(RecomputedFit):
    """A recomputed fit that can be refitted over other sets of features.

    Parameters
    ----------
    model : fitted estimator
    task : Task
        Of the data and the model's own scale.
    k : int, optional
        The most features of the model; where all sets are given, None.

    Attributes
    ----------
    own : ndarray of int
        The model's features, with those that are always in it and the intercept.
    counted : ndarray of int
        The model's features that count.
    fit : Fit
        The model, from which refits begin.
    """

    def __init__(self, model: Any, task: Task, k: int | None) -> None:
        super().__init__(model, task, subset_problem(task, 0 if k is None else k))
        support = self.problem.support(self.x)
        self.counted = self.problem.counted(support)
        self.own = np.union1d(support, self.problem.unpenalized).astype(np.intp)
        self.fit = Fit(self.own, self.x[self.problem.coordinates(self.own)], self.psi, np.empty(0))
        self.tol = SUBSET_TOLERANCE * model.tol
        if self.problem.objective.smooth:
            self.search = SmoothSearch(self.tol)
            self.search.begin(subset_problem(task, self.counted.size if k is None else k))
        else:
            self.exact_refits = ExactRefits(self.problem)

    def refits_within(self, work: int) -> int:
        """Return how many refits with one more feature take at most this many multiplications; at least 50."""
        objective = cast(Model, self.problem.objective)
        one = objective.n_margins * ((self.own.size + 1) * self.problem.n_outputs) ** 2 + _REFIT_OVERHEAD
        return max(_FEWEST_REFITS, work // (one if objective.smooth else _KINKED_REFIT * one))

    def fitted(self, features: Features, seconds: Callable[[], float]) -> Fit:
        """Return the fit over these features, begun at the model; `seconds` limits it where the loss has kinks."""
        if not self.problem.objective.smooth:
            return self.exact_refits(features, self.fit, seconds)
        return self.search.swaps.fitted(features, self.fit)
