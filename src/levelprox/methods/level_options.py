"""The options of `solve`: check them, and choose those that are left open."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelprox._runtime import seconds_left
from levelprox._typing import RandomState, Vector
from levelprox._validation import nonnegative, option, real, whole
from levelprox.backends import RemoteObjective
from levelprox.exceptions import InvalidInputError
from levelprox.methods.continuation import continues
from levelprox.methods.lcpp import Constant, Levels, levels_by_name, surrogate_by_name
from levelprox.methods.level_method import LevelMethod
from levelprox.methods.subsolvers import ACSA, Subsolver, choose
from levelprox.problem import Problem
from levelprox.theory.paper_settings import paper_run

#: With room for more features than this systems as large as the support cost more than many gradients; on separable
#: data, where such levels lead, they are nearly singular as well.
MOST_FOR_NEWTON = 1000


@dataclass(frozen=True, eq=False)
class LevelOptions:
    """The options of `solve` that decide its answer, as given; their meaning is explained there."""

    subsolver: str | Subsolver = "auto"
    levels: str | Levels = "constant"
    gamma: float | None = None
    tol: float = 1e-6
    max_iter: int = 1000
    start: str = "auto"
    x0: Vector | None = None
    random_state: RandomState = None
    surrogate: str = "auto"
    working_set: bool | None = None
    stopping: str = "kkt"
    preset: str | None = None

    def __post_init__(self) -> None:
        for name in ("subsolver", "levels", "start", "surrogate", "stopping", "preset"):
            object.__setattr__(self, name, option(getattr(self, name)))

    def method(self, problem: Problem, rng: np.random.Generator) -> LevelMethod:
        """Return the method with all its options chosen for a problem; an error if they do not go together."""
        gamma, max_iter = _proximal_weight(problem, self.gamma), whole("max_iter", self.max_iter)
        chosen, schedule = _chosen(self.subsolver, problem), levels_by_name(self.levels)
        stopping, parameters = self.stopping, None
        if self.preset is not None:
            _one_of("preset", self.preset, ("paper",))
            levels = "constant" if self.levels == "harmonic" else self.levels
            _refuse(levels=levels, surrogate=self.surrogate, stopping=stopping)
            parameters, acsa, schedule, max_iter = paper_run(problem, max_iter, rng, _acsa(self.subsolver), gamma)
            chosen, gamma, stopping = choose(acsa, problem.objective), parameters.gamma, "never"
        else:
            _one_of("stopping", stopping, ("kkt", "change"))
        settled = self.x0 is not None or stopping != "kkt"
        free = parameters is None and _chooses_start(self.start, problem, chosen, schedule, settled)
        return LevelMethod(
            subsolver=chosen,
            levels=schedule,
            gamma=gamma,
            tol=nonnegative("tol", self.tol),
            max_iter=max_iter,
            surrogate=surrogate_by_name(_surrogate(self.surrogate, chosen, problem)),
            stopping=stopping,
            working_set=_working_set(self.working_set, chosen, problem) and parameters is None,
            continuation=free and continues(self.start, problem),
            from_convex=free,
            x0=None if self.x0 is None else problem.point("x0", self.x0),
            random_state=self.random_state,
            parameters=parameters,
        )


def _proximal_weight(problem: Problem, gamma: float | None) -> float | None:
    """Return γ as given, checked; None leaves the choice to the run."""
    if gamma is None:
        return None
    weight = real("gamma", gamma)
    if not 0 < weight < math.inf:
        raise InvalidInputError(f"gamma must be in (0, inf), got {gamma!r}")
    if seconds_left() <= 0:
        return weight
    mu = problem.objective.weak_convexity
    if weight <= mu and seconds_left() > 0:  # without time mu is a bound of itself, and says nothing
        raise InvalidInputError(
            f"gamma must be above the weak-convexity constant {mu:g} of the objective, got {weight:g}"
        )
    return weight


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise InvalidInputError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    return value


def _surrogate(name: str, subsolver: Subsolver, problem: Problem) -> str:
    """Return the surrogate that suits the subsolver and the problem, unless one is given."""
    if name != "auto":
        return name
    return "concave" if subsolver.on_working_sets or problem.n_outputs > 1 else "paper"


def _chosen(subsolver: str | Subsolver, problem: Problem) -> Subsolver:
    """Return the subsolver; "auto" depends on the level, too."""
    chosen = choose(subsolver, problem.objective)
    expensive = isinstance(problem.objective, RemoteObjective)  # a round for each gradient would be far too many
    if subsolver == "auto" and chosen.on_working_sets and not expensive and _room(problem) > MOST_FOR_NEWTON:
        return choose("spectral", problem.objective)
    return chosen


def _room(problem: Problem) -> float:
    """Return how many features can be past their threshold at once; 0 if φ has no cap, and so no such number."""
    if not math.isfinite(problem.constraint.cap):
        return 0.0
    paid = problem.weights[problem.weights > 0] if problem.weights is not None else np.ones(1)
    cheapest = problem.constraint.cap * float(np.min(paid, initial=math.inf))
    return min(problem.level / cheapest, problem.n_features)


def _chooses_start(start: str, problem: Problem, subsolver: Subsolver, levels: Levels, settled: bool) -> bool:
    """Return whether to reach the problem by way of simpler ones; an error if that was requested and is impossible."""
    _one_of("start", start, ("auto", "continuation", "direct"))
    possible = isinstance(levels, Constant) and not settled and not subsolver.is_random(problem.objective)
    if start == "continuation" and not possible:
        raise InvalidInputError(
            "start='continuation' chooses the start itself: not with x0, rising levels, stopping='change' or a "
            "subsolver that samples"
        )
    return start != "direct" and possible


def _working_set(requested: bool | None, subsolver: Subsolver, problem: Problem) -> bool:
    """Return whether to run on working sets; an error if that was requested and is impossible."""
    if requested is not None and not isinstance(requested, bool | np.bool_):
        raise InvalidInputError(f"working_set must be True, False or None, got {requested!r}")
    if requested and not (problem.objective.curved and not subsolver.is_random(problem.objective)):
        raise InvalidInputError(
            "working_set=True needs a model of a twice differentiable loss, and a subsolver that sees all samples"
        )
    return subsolver.on_working_sets if requested is None else bool(requested)


def _acsa(subsolver: str | Subsolver) -> ACSA | None:
    """Return the AC-SA that was given, None for the default."""
    if isinstance(subsolver, ACSA):
        return subsolver
    if subsolver in ("auto", "acsa"):
        return None
    raise InvalidInputError(f"preset='paper' runs the subsolver acsa, got subsolver={subsolver!r}")


def _refuse(**options: Any) -> None:
    """Raise an error for options that the preset sets, unless they have their default value."""
    for name, value in options.items():
        if value != getattr(LevelOptions, name):
            raise InvalidInputError(f"preset='paper' sets {name} itself, got {name}={value!r}")
