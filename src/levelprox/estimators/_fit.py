"""Fits of an estimator, with a ridge that is given or, by ridge="auto", chosen where the data need one.

`Task.fit` and `Task.each` are what estimators call; one fit with a given ridge is in `_fixed_ridge_fit`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from levelprox._path import KINDS
from levelprox._runtime import TimeLimitError, limited, one_blas_thread, seconds_left
from levelprox._typing import Features, Vector
from levelprox._validation import generator, option, whole
from levelprox._validation import nonnegative as at_least_zero
from levelprox.backends import RemoteObjective
from levelprox.driver.checkpoint import SavedState, open_checkpoint
from levelprox.driver.run_identity import identity_without_level
from levelprox.estimators._automatic_ridge import (
    LARGEST_STANDARD_ERROR,
    MIDDLE,
    FewFeatures,
    RidgeChoice,
    automatic_ridge,
    chosen_ridge,
    largest_standard_error,
    may_diverge,
    without_ridge,
)
from levelprox.estimators._features import Standardization
from levelprox.estimators._fixed_ridge_fit import SUBSET_TOLERANCE, FixedRidgeFit, Solution
from levelprox.estimators._input import Prepared
from levelprox.estimators._parameters import Budget, boolean, constraint_of
from levelprox.exceptions import ConvergenceWarning, InvalidInputError
from levelprox.objectives import LinearModel, Model
from levelprox.objectives.multiclass import ByClass
from levelprox.result import CUT_SHORT, Status

_NO_LIMIT = 1000  # outer steps
_DIVERGES = "Diverging: |the data are separable, or the loss keeps decreasing"  # how such warnings begin
_CHOSEN, _FOUND = "The chosen features", "Features found without a ridge"
_UNDECIDED = "Whether a ridge is needed is not known: the last search without one was cut short."
_BY_LEAVE_ONE_OUT = ", chosen by an approximate leave-one-out loss"
_FEWEST_UNDETERMINED = 8  # features: twice as many are next
_SEARCHES = 3  # with a ridge, of which λ is chosen over the features found before


@dataclass(frozen=True, eq=False)
class Task(FixedRidgeFit):
    """One set of data, ready to be fitted under any budget.

    Attributes
    ----------
    automatic_ridge : float
        The largest λ of another fit, should the data not determine the coefficients without it; 0: none.

    The others are those of `FixedRidgeFit`.
    """

    automatic_ridge: float = 0.0
    _ridged: dict[float, Task] = field(default_factory=dict, repr=False)
    _undetermined: dict[int, bool] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, estimator: Any, prepared: Prepared, budget: Budget, standardization: Standardization | None = None
    ) -> Task:
        """Return the objective and the settings of fits, with the parameters of an estimator checked.

        Parameters
        ----------
        estimator : estimator
        prepared : Prepared
        budget : Budget
            One of those that the task is for: all are of one kind.
        standardization : Standardization, optional
            By default that of the data.
        """
        standardization = prepared.standardization() if standardization is None else standardization
        objective = prepared.objective(standardization)
        estimator._check_objective(objective, budget)
        estimator._check_for(budget)
        constraint = constraint_of(estimator.constraint, prepared.unit) if budget.features is None else None
        generator(estimator.random_state)
        positive = estimator._positive(standardization.scale.size)
        if np.any(positive) and standardization.n_outputs > 1:
            raise InvalidInputError(
                f"positive={estimator.positive!r} is for models with one coefficient for each feature, not for "
                f"{standardization.n_outputs} classes"
            )
        weight = estimator._feature_weight(budget, standardization.scale.size)
        task = cls(
            objective=objective,
            standardization=standardization,
            constraint=constraint,
            feature_weight=weight,
            feature_cost=None if budget.cost is None else estimator._costs(standardization.scale.size, weight),
            positive=positive,
            tol=at_least_zero("tol", estimator.tol),
            max_iter=whole("max_iter", estimator.max_iter),
            time_limit=None if estimator.time_limit is None else at_least_zero("time_limit", estimator.time_limit),
            options={
                "subsolver": option(estimator.subsolver),
                "start": option(estimator.start),
                "random_state": estimator.random_state,
            },
            observer=None,
            checkpoint=estimator.checkpoint,
            resume=estimator.resume,
        )
        ridge = estimator._ridge() if budget.ridge is None else budget.ridge
        if ridge == 0:
            return task
        if not boolean("standardize", estimator.standardize):
            if isinstance(objective, RemoteObjective):
                if ridge is None:
                    return task
                raise InvalidInputError("a ridge with standardize=False is for data in memory: it needs deviations")
            task = replace(task, deviations=standardization.deviations(getattr(objective, "sample_weight", None)))
        if ridge is not None:
            return task.ridged(ridge)
        return replace(
            task, automatic_ridge=automatic_ridge(objective.n_margins // objective.n_outputs, prepared.total)
        )

    def fit(self, budget: Budget, previous: Vector | None = None) -> Solution:
        """Return the fit under a budget; `previous` is x of an earlier fit to begin with."""
        if not self.automatic_ridge or not may_diverge(self.objective):
            return self.solve(budget, previous)
        seconds = math.inf if self.time_limit is None else self.time_limit
        with (
            limited(seconds),
            open_checkpoint(self.checkpoint, self.resume, lambda: self._identity(budget), KINDS) as saved,
        ):
            task = replace(self, checkpoint=saved, resume=False)
            with task._without_ridge() as (pure, leave):
                solution = pure.solve(budget, previous, leave)
            features = leave.needing_ridge(budget, solution)
            if features is None:
                return solution
            if budget.features is None:
                return task._with_chosen_ridge(budget, features)
            return task._with_searched_ridge(budget, previous, features)

    def _identity(self, budget: Budget) -> dict[str, str]:
        """Return what a fit with an automatic ridge depends on."""
        given = {"feature_weight": self.feature_weight, "positive": self.positive, "feature_cost": self.feature_cost}
        constraint = constraint_of("mcp", 1.0) if self.constraint is None else self.constraint  # as in older files
        how = {"constraint": constraint, "tol": self.tol, **self.options}
        return identity_without_level(self.objective, budget=budget, ridge=self.automatic_ridge, **given, **how)

    def _with_searched_ridge(self, budget: Budget, previous: Vector | None, first: Features) -> Solution:
        """Return the fit with at most k features and a ridge; `first` are features that need one.

        The first search has the middle λ of the grid, the next ones that chosen over the features found so far; there
        are three at most. The last one is complete, and all that it shows holds for its λ.
        """
        ridge, start, found, known = MIDDLE * self.automatic_ridge, None, first, dict[bytes, float]()

        def choose(features: Features) -> float:
            key = features.tobytes()
            known[key] = known[key] if key in known else self._chosen_ridge(features)
            return known[key]

        for place in range(_SEARCHES):
            choice = RidgeChoice(choose, ridge, early=place == 0)
            leave = choice if place < _SEARCHES - 1 else None
            solution = self._with_ridge(ridge, f"search {place}").solve(budget, previous, leave, start, found)
            if solution.status in CUT_SHORT:
                return _with_ridge_message(solution, _FOUND, "")
            if leave is not None and choice.features is None:  # of data on Dask, in files or on a device
                choice(self.features(self.inside(solution)), np.empty(0), True)
            if choice.ridge == ridge:
                break
            ridge, found = choice.ridge, found if choice.features is None else choice.features
            start = choice.features if place or isinstance(self.objective, RemoteObjective) else None
        solution, subject = self._determined_after_all(budget, previous, solution, first)
        return solution if subject is None else _with_ridge_message(solution, subject)

    def searched(self, budget: Budget) -> tuple[Solution, bool]:
        """Return a fit with at most k features, and whether the data do not determine its coefficients.

        Where they do not, the fit has the middle λ of the grid: its features are for refits with others.
        """
        seconds = math.inf if self.time_limit is None else self.time_limit
        with limited(seconds):
            first = None
            if not self._is_undetermined_with_fewer(budget):
                with self._without_ridge() as (pure, leave):
                    solution = pure.solve(budget, leave=leave)
                first = leave.needing_ridge(budget, solution)
                if budget.cost is None and budget.features is not None and solution.status not in CUT_SHORT:
                    self._undetermined[budget.features] = first is not None
                if first is None:
                    return solution, False
            solution = self._with_ridge(MIDDLE * self.automatic_ridge, "search 0").solve(budget, known=first)
            if first is None or solution.status in CUT_SHORT:
                return solution, True
            solution, subject = self._determined_after_all(budget, None, solution, first)
            return solution, subject is not None

    def _is_undetermined_with_fewer(self, budget: Budget) -> bool:
        """Return whether the data do not determine coefficients of 8, 16, 32, … features, fewer than k.

        With more features coefficients are determined less, so that k needs no search without a ridge. The numbers are
        fixed: what is found for k does not depend on other k.
        """
        if budget.cost is not None or budget.features is None:
            return False
        count = _FEWEST_UNDETERMINED
        while count < budget.features:
            if count not in self._undetermined:
                fewer = replace(budget, features=count)
                with self._without_ridge() as (pure, leave):
                    solution = pure.solve(fewer, leave=leave)
                self._undetermined[count] = leave.needing_ridge(fewer, solution) is not None
            if self._undetermined[count]:
                return True
            count *= 2
        return False

    @contextmanager
    def _without_ridge(self) -> Iterator[tuple[Task, _Undetermined]]:
        """Yield the fit without a ridge, and what ends its search where the data do not determine coefficients."""
        with _ignored_divergence():
            yield replace(self, checkpoint=self._part_of_checkpoint("without a ridge")), _Undetermined(self)

    def _determined_after_all(
        self, budget: Budget, previous: Vector | None, solution: Solution, first: Features
    ) -> tuple[Solution, str | None]:
        """Return the fit without a ridge where it needs none, with None, else the fit with a ridge, and why it has one.

        A set on the way may need a ridge where the features found with one need none.
        """
        x = self.inside(solution)
        try:
            undetermined = np.array_equal(self.features(x), first) or self.is_undetermined(x, refit=True)
        except TimeLimitError:  # not known; the fit with a ridge is complete
            undetermined = True
        if undetermined:
            return solution, _CHOSEN
        task = replace(self, checkpoint=self._part_of_checkpoint("without a ridge after all"))
        with _ignored_divergence():
            pure = task.solve(budget, previous, known=self.features(x))
        cut_short = pure.status in CUT_SHORT
        if not (self.is_undetermined(self.inside(pure)) if cut_short else self.needs_ridge(budget, pure)):
            return pure, None
        if cut_short:  # the fit with a ridge is complete, but whether there is one without is not known
            solution = replace(solution, status=pure.status, message=f"{solution.message} {_UNDECIDED}")
        return solution, _FOUND

    def _part_of_checkpoint(self, name: str) -> SavedState | None:
        """Return the saved state of one of several searches."""
        return self.checkpoint.part(name) if isinstance(self.checkpoint, SavedState) else None

    def _with_chosen_ridge(self, budget: Budget, features: Features) -> Solution:
        """Return the fit under a level with a ridge, chosen over the features of a fit without one."""
        task = self._with_ridge(self._chosen_ridge(features), "with a ridge")
        return _with_ridge_message(task.solve(budget), _CHOSEN)

    def _chosen_ridge(self, features: Features) -> float:
        """Return λ for some features."""
        objective = self.objective
        inside = self.with_kept(features)
        unit, signs = self.unit_and_signs(inside)
        with one_blas_thread(isinstance(objective, Model)):
            return chosen_ridge(objective.restrict(inside), unit, self.automatic_ridge, signs)

    def _with_ridge(self, ridge: float, part: str) -> Task:
        """Return the same with a ridge, and a part of the checkpoint.

        There is one objective for each λ, as searches for different k share its cached results.
        """
        if ridge not in self._ridged:
            self._ridged[ridge] = self.ridged(ridge)
        objective = self._ridged[ridge].objective
        return replace(
            self, objective=objective, ridge=ridge, automatic_ridge=0.0, checkpoint=self._part_of_checkpoint(part)
        )

    def needs_ridge(self, budget: Budget, solution: Solution) -> bool:
        """Return whether a fit came to its end, and the data do not determine its coefficients."""
        objective = self.objective
        if not may_diverge(objective):
            return False
        if solution.status is Status.DIVERGING:
            return True
        if solution.status in CUT_SHORT or not solution.certificate.examined:
            return False
        x = self.inside(solution)
        if budget.features is None:
            x = np.where(self.problem(float(budget.value)).free(x), x, 0.0)
            return bool(np.any(x)) and objective.is_separated(x)
        return self.is_undetermined(x)

    def is_undetermined(self, x: Vector, refit: bool = False) -> bool:
        """Return whether the data do not determine the coefficients x of a fit without a ridge.

        With `refit`, x is of a fit with a ridge, and its features are fitted without one first.
        """
        objective = self.objective
        if objective.is_separated(x):
            return True
        part, own, wanted = self._part(x)
        if refit:
            with one_blas_thread(isinstance(objective, Model)):
                if isinstance(part, LinearModel | ByClass):
                    own = FewFeatures(part, np.zeros(part.dimension, np.bool_), SUBSET_TOLERANCE * self.tol)(own)
                else:
                    own = without_ridge(part, own)
            if part.is_separated(own):
                return True
        return largest_standard_error(part, own, wanted, self.automatic_ridge) > LARGEST_STANDARD_ERROR

    def _part(self, x: Vector) -> tuple[Model | RemoteObjective, Vector, Features]:
        """Return ψ over the features of x and the intercept, x there, and which of these may have a ridge."""
        objective, n_outputs = self.objective, self.standardization.n_outputs
        features = np.union1d(np.flatnonzero(np.any(x.reshape(-1, n_outputs), axis=1)), objective.unpenalized).astype(
            np.intp
        )
        places = (features[:, None] * n_outputs + np.arange(n_outputs)).ravel()
        held = np.setdiff1d(features, np.union1d(objective.unpenalized, [] if self.keep is None else self.keep))
        return objective.restrict(features), x[places], np.searchsorted(features, held)

    def each(self, budgets: list[Budget]) -> list[Solution]:
        """Return the fits under several budgets, all of one kind and in ascending order.

        Levels are fitted by path following unless each fit has its own limits; other budgets one by one, each with
        its share of the time that is left. All fits are returned: Ctrl-C raises KeyboardInterrupt.
        """
        limits = self.time_limit is not None or self.options["subsolver"] != "auto" or self.max_iter < _NO_LIMIT
        if budgets[0].features is not None or limits:
            return self._one_by_one(budgets)
        if self.automatic_ridge and may_diverge(self.objective):
            with _ignored_divergence():
                found = replace(self, automatic_ridge=0.0).each(budgets)
            return [
                self._with_chosen_ridge(budget, self.features(self.inside(one)))
                if self.needs_ridge(budget, one)
                else one
                for budget, one in zip(budgets, found, strict=True)
            ]
        return self.follow_path(np.array([budget.value for budget in budgets]))

    def _one_by_one(self, budgets: list[Budget]) -> list[Solution]:
        solutions = []
        for i, budget in enumerate(budgets):
            with limited(seconds_left() / (len(budgets) - i)):
                solutions.append(self.fit(budget))
            if solutions[-1].status is Status.INTERRUPTED:
                raise KeyboardInterrupt(solutions[-1].message)
        return solutions


@contextmanager
def _ignored_divergence() -> Iterator[None]:
    """Ignore warnings of a loss without a minimiser: a fit with a ridge follows."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _DIVERGES, ConvergenceWarning)
        yield


def _with_ridge_message(solution: Solution, subject: str, how: str = _BY_LEAVE_ONE_OUT) -> Solution:
    """Return the solution, whose message gives the reason for the ridge."""
    reason = (
        f" {subject} separate the classes, or nearly so: without a ridge the data do not determine their "
        f"coefficients. ridge={solution.ridge:.3g} is added{how}"
    )
    return replace(solution, message=f"{solution.message}{reason}.")


class _Undetermined:
    """Ends a search for k features at the first ones whose coefficients the data do not determine."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.features: Features | None = None

    def __call__(self, features: Features, x: Vector, last: bool) -> bool:
        if self.features is None and self.task.is_undetermined(x):
            self.features = features
        return self.features is not None

    def needing_ridge(self, budget: Budget, solution: Solution) -> Features | None:
        """Return the features that need a ridge; None where there are none, or the fit is cut short."""
        if solution.status in CUT_SHORT or not (self.features is not None or self.task.needs_ridge(budget, solution)):
            return None
        return self.task.features(self.task.inside(solution)) if self.features is None else self.features
