"""What a fit asks of the solver, and what comes back: at most k features, or g(x) ≤ η."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox._best_subset import Leave, guided_subset
from levelprox._path import KINDS, path
from levelprox._runtime.blas import one_blas_thread
from levelprox._runtime.deadline import TimeLimitError, end_now, finishing, limited, seconds_left, seconds_to_finish
from levelprox._solve import solve
from levelprox._typing import FloatArray
from levelprox._validation import finite, real_array, whole
from levelprox.backends import RemoteObjective
from levelprox.certificate import Certificate, certify
from levelprox.constraints import MCP, SCAD, Constraint
from levelprox.constraints.costs import checked_budget
from levelprox.driver.checkpoint import Journal, keeping
from levelprox.driver.run_identity import identity_without_level
from levelprox.estimators.automatic_ridge import (
    LARGEST_STANDARD_ERROR,
    MIDDLE,
    chosen_ridge,
    largest_standard_error,
    may_diverge,
    without_ridge,
)
from levelprox.estimators.border import Border
from levelprox.estimators.few_features import FewFeatures
from levelprox.exceptions import ConvergenceWarning, InfeasibleError, InvalidInputError, NumericalError
from levelprox.io.checkpoint import Checkpoint
from levelprox.objectives import LinearModel, Model
from levelprox.objectives._multiclass import ByClass
from levelprox.problem import Problem
from levelprox.result import CUT_SHORT, Record, Status
from levelprox.subset.result import SubsetCertificate, SubsetRecord

Vector = NDArray[np.float64]
Features = NDArray[np.intp]
#: Called with the record of each step; returning True stops the fit.
Callback = Callable[[Record | SubsetRecord], "bool | None"]
#: The same, also told x where it is known: under a level.
Observer = Callable[[Record | SubsetRecord, "Vector | None"], bool]

_MANY = 1000  # outer steps, which is no limit
_FLOAT32_RISE = 1e-7  # of ψ above its infimum: coefficients are float32 where rounding them raises ψ by no more
_ROUNDING = Fraction(1, 2**50)  # of the cap, for each coefficient: what rounding may take from a whole number of caps
_SHOWN = 1e-9  # of ψ: what the rounding of margins may change
_DIVERGES = "Diverging: |the data are separable, or the loss gains for ever"  # how such warnings begin
_CHOSEN, _FOUND = "The chosen features", "Features found without a ridge"
_UNDECIDED = "Whether a ridge is needed is not known: the last search without one was cut short."
_BY_LEAVE_ONE_OUT = ", chosen by an approximate leave-one-out loss"
_FEWEST_UNDETERMINED = 8  # features: twice as many are next
_SEARCHES = 3  # with a ridge, of which λ is chosen over the features found before
SUBSET_TOLERANCE = 1e-2  # of tol: Newton's method gets there in the same number of steps


@dataclass(frozen=True)
class Budget:
    """How much a model may use: exactly one of the first two.

    Attributes
    ----------
    features : int or None
        k: at most so many nonzero features.
    level : float or None
        η: g(scale_ · coef_) ≤ η.
    cost : float or None
        What the features may cost together, besides k; None where they have no costs.
    ridge : float or None
        λ, where it is chosen from a grid; None is that of the estimator.
    """

    features: int | None = None
    level: float | None = None
    cost: float | None = None
    ridge: float | None = None

    @property
    def key(self) -> tuple[float, float | None]:
        """What tells candidates of a grid apart."""
        return self.value, self.ridge

    @property
    def name(self) -> str:
        """The parameter of an estimator that says how much: what varies over a grid."""
        if self.cost is not None:
            return "budget"
        return "level" if self.features is None else "n_features"

    @property
    def value(self) -> float:
        """The cost, k or η."""
        return self.cost if self.cost is not None else self.at_most

    @property
    def at_most(self) -> float:
        """k or η."""
        return float(self.features if self.features is not None else self.level)  # type: ignore[arg-type]  # one is given


def cost_budgets(budget: Any, feature_cost: Any, n_features: Any, level: Any, d: int) -> list[Budget]:
    """The budgets of costs asked for in ascending order, each once; none where there are none.

    d is how many features there may be where n_features does not say it.
    """
    if (budget is None) != (feature_cost is None):
        one, other = ("budget", "feature_cost") if feature_cost is None else ("feature_cost", "budget")
        raise InvalidInputError(f"{one} needs {other}: feature_cost says what features cost, budget what may be spent")
    if budget is None:
        return []
    if level is not None:
        raise InvalidInputError(f"a budget is for whole features: give n_features or neither, not level={level!r}")
    if np.ndim(budget) > 1 or not np.size(budget):
        raise InvalidInputError(f"budget must be a number or a list of numbers, got shape {np.shape(budget)}")
    if np.ndim(n_features) > 0:
        raise InvalidInputError(f"with a budget give one n_features, or none, got {n_features!r}")
    k = d if n_features is None else whole("n_features", n_features)
    given = [budget] if np.ndim(budget) == 0 else list(budget)
    return [Budget(features=k, cost=cost) for cost in sorted({checked_budget(one) for one in given})]


def budgets_of(n_features: Any, level: Any) -> list[Budget]:
    """The budgets asked for in ascending order, each once; none where nothing is."""
    if n_features is not None and level is not None:
        raise InvalidInputError(
            f"give either n_features or level, not both; got n_features={n_features!r}, level={level!r}"
        )
    if level is not None:
        levels = np.atleast_1d(np.array(finite("level", real_array("level", level)), np.float64))
        if levels.ndim != 1 or not levels.size:
            raise InvalidInputError(f"level must be a list of numbers, got shape {levels.shape}")
        if np.any(levels < 0):
            raise InfeasibleError(f"no feasible point: g(x) >= 0 for all x, got level={levels.min():g}")
        return [Budget(level=float(one)) for one in np.unique(levels)]
    if n_features is None:
        return []
    if np.ndim(n_features) > 1 or not np.size(n_features):
        raise InvalidInputError(f"n_features must be a list of integers, got shape {np.shape(n_features)}")
    given = [n_features] if np.ndim(n_features) == 0 else list(n_features)
    return [Budget(features=k) for k in sorted({whole("n_features", k) for k in given})]


@dataclass(frozen=True, eq=False)
class Solution:
    """What a fit found, in the units of X.

    Attributes
    ----------
    coef : ndarray of shape (width, d)
    intercept : ndarray of shape (width,)
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
class Task:
    """One set of data, ready to be fitted under any budget.

    Attributes
    ----------
    objective : Model or RemoteObjective
        ψ of standardised features, perhaps with an intercept.
    border : Border
    constraint : Constraint
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
        Told of every step.
    checkpoint : path-like, Checkpoint or Journal, optional
    resume : bool or path-like
        As in `solve`.
    ridge : float
        λ, which `objective` has.
    automatic_ridge : float
        The largest λ of another fit, should the data not determine the coefficients without it; 0: none.
    deviations : ndarray of shape (d,), optional
        Standard deviations of the columns, where they are not standardised.
    feature_cost : ndarray of shape (d,), optional
        What features cost, for budgets of costs.
    examine : bool
        Whether swaps and additions are examined; fits of folds need no claims.
    """

    objective: Model | RemoteObjective
    border: Border
    constraint: Constraint
    feature_weight: Vector | None
    positive: bool | NDArray[np.bool_]
    tol: float
    max_iter: int
    time_limit: float | None
    options: dict[str, Any]
    observer: Observer | None
    checkpoint: str | os.PathLike[str] | Checkpoint | Journal | None = None
    resume: bool | str | os.PathLike[str] = False
    ridge: float = 0.0
    automatic_ridge: float = 0.0
    deviations: Vector | None = None
    feature_cost: Vector | None = None
    examine: bool = True
    _ridged: dict[float, Task] = field(default_factory=dict, repr=False)
    _undetermined: dict[int, bool] = field(default_factory=dict, repr=False)

    def fit(self, budget: Budget, previous: Vector | None = None) -> Solution:
        """The fit under a budget; `previous` is x of an earlier one to begin with."""
        if not self.automatic_ridge or not may_diverge(self.objective):
            return self._penalised(self._fitted(budget, previous))
        seconds = math.inf if self.time_limit is None else self.time_limit
        with limited(seconds), keeping(self.checkpoint, self.resume, lambda: self._identity(budget), KINDS) as journal:
            task = replace(self, checkpoint=journal, resume=False)
            return (task._with_levels_ridge if budget.features is None else task._automatic)(budget, previous)

    def _identity(self, budget: Budget) -> dict[str, str]:
        """What a fit with an automatic ridge is a function of."""
        given = {"feature_weight": self.feature_weight, "positive": self.positive, "feature_cost": self.feature_cost}
        how = {"constraint": self.constraint, "tol": self.tol, **self.options}
        return identity_without_level(self.objective, budget=budget, ridge=self.automatic_ridge, **given, **how)

    def _automatic(self, budget: Budget, previous: Vector | None) -> Solution:
        """The fit with at most k features; with a ridge where these separate the classes, or nearly so.

        The search without a ridge ends with the first set that does. Searches with a ridge follow: the first with the
        middle λ of the grid, the next ones with that chosen over the features found so far, three at most. The last one
        is complete, and all that it shows holds for its λ.
        """
        solution, first = self._until_undetermined(budget, previous)
        if first is None:
            return solution
        ridge, start, found, known = MIDDLE * self.automatic_ridge, None, first, dict[bytes, float]()

        def choose(features: Features) -> float:
            key = features.tobytes()
            known[key] = known[key] if key in known else self._chosen_ridge(features)
            return known[key]

        for place in range(_SEARCHES):
            choice = _Choice(choose, ridge, early=place == 0)
            ask = choice if place < _SEARCHES - 1 else None
            task = self._with_ridge(ridge, f"search {place}")
            solution = task._fitted(budget, previous, ask, start, found)
            if solution.status in CUT_SHORT:
                return self._told(task._penalised(solution), _FOUND, "")
            if ask is not None and choice.features is None:  # of data on Dask, in files or on a device
                choice(self.features(self.inside(solution)), np.empty(0), True)
            if choice.ridge == ridge:
                break
            ridge, found = choice.ridge, found if choice.features is None else choice.features
            start = choice.features if place or isinstance(self.objective, RemoteObjective) else None
        solution, whose = self._determined_after_all(budget, previous, solution, first)
        return solution if whose is None else self._told(task._penalised(solution), whose)

    def searched(self, budget: Budget) -> tuple[Solution, bool]:
        """Return a fit with at most k features, and whether the data do not determine its coefficients.

        Where they do not, the fit has the middle λ of the grid: its features are for refits with others.
        """
        seconds = math.inf if self.time_limit is None else self.time_limit
        with limited(seconds):
            first = None
            if not self._is_undetermined_with_fewer(budget):
                solution, first = self._until_undetermined(budget, None)
                if first is None:
                    return solution, False
            task = self._with_ridge(MIDDLE * self.automatic_ridge, "search 0")
            solution = task._penalised(task._fitted(budget, None, None, None, first))
            if first is None or solution.status in CUT_SHORT:
                return solution, True
            solution, whose = self._determined_after_all(budget, None, solution, first)
            return solution, whose is not None

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
                found = self._until_undetermined(replace(budget, features=count), None)[1]
                self._undetermined[count] = found is not None
            if self._undetermined[count]:
                return True
            count *= 2
        return False

    def _until_undetermined(self, budget: Budget, previous: Vector | None) -> tuple[Solution, Features | None]:
        """Return the fit without a ridge, and the first features whose coefficients the data do not determine.

        The search ends with these. None where there are none, or the search is cut short.
        """
        ended: list[Features] = []

        def leave(features: Features, x: Vector, last: bool) -> bool:
            if self.is_undetermined(x):
                ended.append(features)
            return bool(ended)

        solution = self._without_ridge(budget, previous, leave, "without a ridge")
        if solution.status in CUT_SHORT or not (ended or self.needs_ridge(budget, solution)):
            return solution, None
        return solution, ended[0] if ended else self.features(self.inside(solution))

    def _determined_after_all(
        self, budget: Budget, previous: Vector | None, solution: Solution, first: Features
    ) -> tuple[Solution, str | None]:
        """Return the fit without a ridge where it needs none, with None, else the fit with a ridge, and why it has one.

        A set on the way may need a ridge where the features found with one need none.
        """
        x = self.inside(solution)
        if np.array_equal(self.features(x), first) or self.is_undetermined(x, refit=True):
            return solution, _CHOSEN
        pure = self._without_ridge(budget, previous, None, "without a ridge after all", self.features(x))
        cut_short = pure.status in CUT_SHORT
        if not (self.is_undetermined(self.inside(pure)) if cut_short else self.needs_ridge(budget, pure)):
            return pure, None
        if cut_short:  # the fit with a ridge is complete, but whether there is one without is not known
            solution = replace(solution, status=pure.status, message=f"{solution.message} {_UNDECIDED}")
        return solution, _FOUND

    def _journal(self, name: str) -> Journal | None:
        """Return the journal of one of several searches."""
        return self.checkpoint.part(name) if isinstance(self.checkpoint, Journal) else None

    def _without_ridge(
        self, budget: Budget, previous: Vector | None, leave: Leave | None, part: str, known: Features | None = None
    ) -> Solution:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _DIVERGES, ConvergenceWarning)  # a fit with a ridge follows
            return replace(self, checkpoint=self._journal(part))._fitted(budget, previous, leave, known=known)

    def _with_levels_ridge(self, budget: Budget, previous: Vector | None) -> Solution:
        """The same under a level: λ is chosen over the features of the fit without a ridge."""
        solution = self._without_ridge(budget, previous, None, "without a ridge")
        return self._with_automatic_ridge(budget, solution) if self.needs_ridge(budget, solution) else solution

    def _with_automatic_ridge(self, budget: Budget, before: Solution) -> Solution:
        """The fit under a level with a ridge, after one whose loss has no minimiser."""
        task = self._with_ridge(self._chosen_ridge(self.features(self.inside(before))), "with a ridge")
        return self._told(task._penalised(task._fitted(budget, None)), _CHOSEN)

    def _told(self, solution: Solution, whose: str, how: str = _BY_LEAVE_ONE_OUT) -> Solution:
        words = (
            f" {whose} separate the classes, or nearly so: without a ridge the data do not determine their "
            f"coefficients. ridge={solution.ridge:.3g} is added{how}"
        )
        return replace(solution, message=f"{solution.message}{words}.")

    def _chosen_ridge(self, features: Features) -> float:
        """Return λ for some features."""
        objective = self.objective
        assert isinstance(objective, Model | RemoteObjective)
        inside = self.with_kept(features)
        unit, signs = self.unit_and_signs(inside)
        with one_blas_thread(isinstance(objective, Model)):
            return chosen_ridge(objective.restrict(inside), unit, self.automatic_ridge, signs)

    def with_kept(self, features: Features) -> Features:
        """Return these features, those that are kept and the intercept, sorted."""
        kept = np.empty(0, np.intp) if self.keep is None else self.keep
        return np.union1d(np.union1d(features, kept), self.objective.exempt).astype(np.intp)

    def unit_and_signs(self, features: Features) -> tuple[Vector, NDArray[np.bool_]]:
        """Return the ridge of these features where λ is 1, and which of them must not be negative."""
        unit, signs = np.zeros(features.size), np.zeros(features.size, np.bool_)
        counted = features < self.border.scale.size
        unit[counted] = self._strength(1.0)[features[counted]]
        signs[counted] = np.broadcast_to(self.positive, self.border.scale.shape)[features[counted]]
        return unit, signs

    def _with_ridge(self, ridge: float, part: str) -> Task:
        """The same with a ridge, and a journal of its own.

        There is one objective for each λ, as searches for different k share what it knows.
        """
        if ridge not in self._ridged:
            self._ridged[ridge] = self.ridged(ridge)
        objective = self._ridged[ridge].objective
        return replace(self, objective=objective, ridge=ridge, automatic_ridge=0.0, checkpoint=self._journal(part))

    def inside(self, solution: Solution) -> Vector:
        """Return x of a solution."""
        return self.border.inside(solution.coef.astype(np.float64), solution.intercept.astype(np.float64))

    def _fitted(
        self,
        budget: Budget,
        previous: Vector | None,
        leave: Leave | None = None,
        start: Features | None = None,
        known: Features | None = None,
    ) -> Solution:
        """The fit; with at most k features, what `leave`, features to begin with and known ones are there for."""
        if budget.features is not None:
            return self._at_most(budget.features, budget.cost, previous, leave, start, known)
        return self._within(float(budget.value), previous)

    def _penalised(self, solution: Solution) -> Solution:
        if not self.ridge:
            return solution
        rows = self.inside(solution).reshape(-1, self.border.width)[: self.border.scale.size]
        penalty = float(np.sum(self._strength(self.ridge)[:, None] * rows**2))
        return replace(solution, ridge=self.ridge, penalty=penalty)

    def ridged(self, ridge: float) -> Task:
        """The same with a ridge; features that are kept are free of it."""
        if not ridge:
            return self
        assert isinstance(self.objective, LinearModel | ByClass | RemoteObjective)
        return replace(self, objective=self.objective.ridged(self._strength(ridge)), ridge=ridge)

    def _strength(self, ridge: float) -> Vector:
        """λ s² of every feature, in units of A."""
        strength = ridge * self._deviations() ** 2
        if self.keep is not None:
            strength[self.keep] = 0.0
        return np.asarray(strength, np.float64)

    def _deviations(self) -> Vector:
        """Standard deviations of the columns of A: 1 where they are standardised."""
        return np.ones(self.border.scale.size) if self.deviations is None else self.deviations

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
            x = np.where(self._problem(float(budget.value)).free(x), x, 0.0)
            return bool(np.any(x)) and objective.is_separated(x)
        return self.is_undetermined(x)

    def is_undetermined(self, x: Vector, refit: bool = False) -> bool:
        """Return whether the data do not determine the coefficients x of a fit without a ridge.

        With `refit`, x is of a fit with a ridge, and its features are fitted without one first.
        """
        objective = self.objective
        assert isinstance(objective, Model | RemoteObjective)
        if objective.is_separated(x):
            return True
        part, own, wanted = self._part(x)
        if refit:
            with one_blas_thread(isinstance(objective, Model)):
                own = self._without_ridge_from(part, own)
            if part.is_separated(own):
                return True
        return largest_standard_error(part, own, wanted, self.automatic_ridge) > LARGEST_STANDARD_ERROR

    def _without_ridge_from(self, part: Model | RemoteObjective, x: Vector) -> Vector:
        """Return about the minimiser of ψ over few features from a point; far out where there is none."""
        if isinstance(part, LinearModel | ByClass):
            return FewFeatures(part, np.zeros(part.dimension, np.bool_), SUBSET_TOLERANCE * self.tol)(x)
        return without_ridge(part, x)

    def _part(self, x: Vector) -> tuple[Model | RemoteObjective, Vector, Features]:
        """Return ψ over the features of x and the intercept, x there, and which of these may have a ridge."""
        objective, width = self.objective, self.border.width
        assert isinstance(objective, Model | RemoteObjective)
        features = np.union1d(np.flatnonzero(np.any(x.reshape(-1, width), axis=1)), objective.exempt).astype(np.intp)
        places = (features[:, None] * width + np.arange(width)).ravel()
        held = np.setdiff1d(features, np.union1d(objective.exempt, [] if self.keep is None else self.keep))
        return objective.restrict(features), x[places], np.searchsorted(features, held)

    def fits(self, levels: Vector) -> list[Solution]:
        """The fits at several levels, each carried to the next; in ascending order of the levels.

        All of them: Ctrl-C is raised.
        """
        if self.time_limit is not None or self.options["subsolver"] != "auto" or self.max_iter < _MANY:
            return self._one_by_one([Budget(level=float(level)) for level in levels])  # each under its own limits
        if self.automatic_ridge and may_diverge(self.objective):
            return self._each_level_with_ridge(levels)
        found = path(self._problem(float(levels[0])), levels, tol=self.tol, start=self.options["start"])
        if len(found) < len(levels):  # nothing else ends a path without a limit
            raise KeyboardInterrupt
        solutions = []
        for i, certificate in enumerate(found.certificates):
            assert isinstance(certificate, Certificate)
            problem = self._problem(float(levels[i]))
            x = problem.obeying(self._shortest(found.x(i), problem))
            coef, intercept = self._handed_out(x, float(found.losses[i]), certificate.examined)
            status = found.statuses[i]
            solution = Solution(
                coef, intercept, certificate, certificate.multiplier, status, str(status), found.n_grad, ()
            )
            solutions.append(self._penalised(solution))
        return solutions

    def _each_level_with_ridge(self, levels: Vector) -> list[Solution]:
        """The same, with a ridge at those levels at which the loss has no minimiser without one."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _DIVERGES, ConvergenceWarning)
            solutions = replace(self, automatic_ridge=0.0).fits(levels)
        budgets = [Budget(level=float(level)) for level in levels]
        return [
            self._with_automatic_ridge(budget, solution) if self.needs_ridge(budget, solution) else solution
            for budget, solution in zip(budgets, solutions, strict=True)
        ]

    def each(self, budgets: list[Budget]) -> list[Solution]:
        """The fits under several budgets, all of one kind and in ascending order; all of them: Ctrl-C is raised."""
        if budgets[0].features is None:
            return self.fits(np.array([budget.value for budget in budgets]))
        return self._one_by_one(budgets)

    def _one_by_one(self, budgets: list[Budget]) -> list[Solution]:
        """The fits, each with its share of the time that is left, where there is a limit for all of them."""
        solutions = []
        for i, budget in enumerate(budgets):
            with limited(seconds_left() / (len(budgets) - i)):
                solutions.append(self.fit(budget))
            if solutions[-1].status is Status.INTERRUPTED:
                raise KeyboardInterrupt(solutions[-1].message)
        return solutions

    @property
    def keep(self) -> Features | None:
        """The features that never count."""
        return None if self.feature_weight is None else np.flatnonzero(self.feature_weight == 0)

    def _at_most(
        self,
        k: int,
        cost: float | None,
        previous: Vector | None,
        leave: Leave | None,
        start: Features | None,
        known: Features | None,
    ) -> Solution:
        observer = self.observer
        asked: dict[str, Any] = {
            "keep": self.keep,
            "nonnegative": self.positive,
            "tol": SUBSET_TOLERANCE * self.tol,
            "max_iter": self.max_iter,
            "time_limit": self.time_limit,
            "leave": leave,
            "known": known,
            "thorough": start is not None and previous is None,
            "start": start,
        }
        if self.examine or cost is not None:
            if start is None and previous is not None:
                asked["start"] = self.features(previous)
            if cost is not None:
                asked |= {"feature_cost": self.feature_cost, "budget": cost}
            asked |= {
                "callback": None if observer is None else lambda record: observer(record, None),
                "checkpoint": self.checkpoint,
                "resume": self.resume,
            }
        found = guided_subset(self.objective, k, examine=self.examine or cost is not None, **asked)
        certificate, message = found.certificate, found.message
        try:
            with _at_the_end(found.status):
                coef, intercept = self._handed_out(found.x, found.psi, certificate.examined)
                remote = (
                    isinstance(self.objective, RemoteObjective) and coef.dtype == np.float64
                )  # a round for the last digits
                psi = self._psi_of(coef, intercept) if certificate.examined and not remote else found.psi
            gain = certificate.multiplier + (0.0 if found.addition is None else psi - found.psi)
            certificate = replace(certificate, psi=psi, multiplier=max(gain, 0.0))
        except TimeLimitError:
            coef, intercept = self.border.outside(found.x, np.dtype(np.float64))
        return Solution(
            coef, intercept, certificate, certificate.multiplier, found.status, message, found.n_refits, found.history
        )

    def _within(self, level: float, previous: Vector | None) -> Solution:
        problem = self._problem(level)
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
        x = problem.obeying(self._shortest(found.x, problem))
        certificate, message = found.certificate, found.message
        try:
            with _at_the_end(found.status):
                coef, intercept = self._handed_out(x, found.psi, certificate.examined)
                if coef.dtype == np.float32 and certificate.examined:  # what is handed out is not what was certified
                    rounded = self.border.inside(coef.astype(np.float64), intercept.astype(np.float64))
                    certificate = certify(problem, rounded, found.null, seconds=max(seconds_to_finish(), 0.0))
        except TimeLimitError:
            coef, intercept = self.border.outside(x, np.dtype(np.float64))
        return Solution(
            coef,
            intercept,
            certificate,
            certificate.multiplier,
            found.status,
            message,
            found.n_outer,
            found.history,
        )

    def _handed_out(self, x: Vector, psi: float, examined: bool) -> tuple[FloatArray, FloatArray]:
        """Return coefficients and intercepts for x with ψ(x) = psi.

        They are of the precision of X, but float64 where rounding to float32 raises ψ: of columns with a large mean,
        and of near-equal ones, products of coefficients and X cancel, and their last digits decide. They are float64,
        too, where there was no time to look at the data (`examined`).
        """
        if self.border.dtype == np.float32 and examined:
            with suppress(NumericalError):  # beyond the range of float32
                coef, intercept = self.border.outside(x)
                infimum = self.objective.infimum
                above = psi - infimum if math.isfinite(infimum) else abs(psi)
                if self._psi_of(coef, intercept) <= psi + _FLOAT32_RISE * max(above, 0.0):
                    return coef, intercept
        return self.border.outside(x, np.dtype(np.float64))

    def _psi_of(self, coef: FloatArray, intercept: FloatArray) -> float:
        """Return ψ of coefficients as they are handed out."""
        x = self.border.inside(coef.astype(np.float64), intercept.astype(np.float64))
        if isinstance(self.objective, RemoteObjective):
            return self.objective.value_and_gradient(x)[0]
        psi = self.objective.value_of(self.objective.margins(x))
        return self.objective.refined_value(x, psi, _SHOWN * abs(psi))

    def _shortest(self, x: Vector, problem: Problem) -> Vector:
        """Of all x that are the same model the shortest: softmax sees only differences between classes.

        A feature that costs no more as it grows, and the intercepts, would keep whatever shift they happen to have.
        """
        if not self.objective.only_contrasts:
            return x
        rows = x.reshape(-1, self.border.width)
        centred = (rows - rows.mean(axis=1, keepdims=True)).ravel()
        return centred if problem.is_feasible(centred) else x

    def _feasible(self, problem: Problem, x: Vector) -> Vector:
        if np.any(self.positive):
            x = np.where(problem.must_be_nonnegative(), np.maximum(x, 0.0), x)
        return problem.cut(x)

    def constraint_at(self, level: float) -> Constraint:
        """Return the constraint, with a slope smaller by ulps where `level` is a whole number of caps but for rounding.

        m times the cap may round to less than m coefficients at the cap cost: then only m − 1 would fit.
        """
        constraint = self.constraint
        if not isinstance(constraint, MCP | SCAD):
            return constraint
        count = round(level / constraint.cap)
        while 0 < count * Fraction(constraint.cap) - Fraction(level) <= count * _ROUNDING * Fraction(constraint.cap):
            constraint = replace(constraint, lam=math.nextafter(constraint.lam, 0.0))
        return constraint

    def _problem(self, level: float) -> Problem:
        return Problem(self.objective, self.constraint_at(level), level, self.feature_weight, self.positive)

    def features(self, x: Vector) -> Features:
        """The features that are not zero, but for the intercept."""
        rows = x.reshape(-1, self.border.width)[: self.border.scale.size]
        return np.flatnonzero(np.any(rows, axis=1))

    def observed_by(self, observer: Observer | None) -> Task:
        """The same, with somebody to be told."""
        return replace(self, observer=observer)


class _Choice:
    """The λ chosen over the features that a search finds: over its first set, where `early`, and over its last."""

    def __init__(self, choose: Callable[[Features], float], ridge: float, early: bool) -> None:
        self.choose, self.now, self.early = choose, ridge, early
        self.ridge = ridge
        self.features: Features | None = None

    def __call__(self, features: Features, x: Vector, last: bool) -> bool:
        """Choose, and return whether that ends the search: λ is another one."""
        if last or self.early:
            self.ridge, self.features = self.choose(features), features
            self.early = False
        return self.ridge != self.now


@contextmanager
def _at_the_end(status: Status) -> Iterator[None]:
    """Do what is left to do after a fit that ended so, as far as there is time."""
    if status is Status.INTERRUPTED:
        end_now()
    with finishing():
        yield
