"""LCPP, the level-constrained proximal point method (Algorithm 1).

    x^k ≈ argmin  ψ(x) + γ/2 ‖x − x^{k−1}‖²   s.t.  g_k(x) ≤ η_k

g_k majorises g and touches it at x^{k−1}, so every x^k satisfies g(x^k) ≤ g_k(x^k) ≤ η_k ≤ η and is
feasible for the next step: whenever the iteration stops, the result is feasible.

The paper's g_k linearises h at x^{k−1} (Algorithm 1, line 4):

    g_k(x) = λ‖x‖₁ − h(x^{k−1}) − ⟨∇h(x^{k−1}), x − x^{k−1}⟩  ≥  g(x),

so {g_k ≤ η_k} = {Σ ω_i(|x_i| + u_i x_i) ≤ τ} with u = −∇h(x^{k−1})/λ and
τ = (η_k − g(x^{k−1}))/λ + Σ ω_i w_i t_i, where t = |x^{k−1}| and w = 1 − |u| = φ'(t)/λ.

φ is concave in t, so φ(|x|) ≤ φ(t) + φ'(t)(|x| − t): a weighted ℓ1 ball that equals the paper's set
while no sign changes and is larger where a sign changes. It is the tighter surrogate of g. Where a feature has several
coefficients t_j = ‖x_j^{k−1}‖₂, and the set is a weighted group ball {Σ_j ω_j φ'(t_j)/λ ‖x_j‖₂ ≤ τ}.

`solve` uses the paper's set unless it runs Newton steps, or a feature has several coefficients: then h is no function
of each coordinate, and the group ball replaces the paper's set, also with preset="paper".

The paper raises the levels η_1 ≤ η_2 ≤ … → η gradually, so that every subproblem is strictly feasible. For the
functions of its Table 2 the origin is strictly feasible at every level (a footnote of the paper), so a constant level
is valid, and it is by far the fastest: with harmonic levels the complementarity y(η − η_k) decreases only as 1/k.

There is one weight for each feature. The number of coefficients per feature is the number of coordinates divided by the
number of weights.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, count, islice, repeat

import numpy as np

import levelprox._kernels as _kernels
from levelprox._typing import Features, Vector
from levelprox._validation import did_you_mean, option, real
from levelprox.constraints import Constraint
from levelprox.exceptions import InvalidInputError
from levelprox.methods.subsolvers import Subproblem, Subsolver, Surrogate
from levelprox.problem import Problem
from levelprox.result import Iterate, StopReason

#: The public names, those of `levelprox.levels`.
__all__ = ["LEVELS", "Constant", "Geometric", "Harmonic", "Levels", "levels_by_name"]

_EPS = float(np.finfo(np.float64).eps)
# φ, its sum and τ are rounded; the set is this many units in the last place inside the level.
_MARGIN = 16 * _EPS
_BELOW_ONE = 1 - _EPS / 2

Linearise = Callable[[Constraint, Vector, float, Vector | None], Surrogate]


def linearise(constraint: Constraint, at: Vector, level: float, weights: Vector | None = None) -> Surrogate:
    """Return the paper's surrogate: h linearised at `at`."""
    if _n_outputs(at, weights) > 1:
        raise InvalidInputError(
            "the paper's surrogate linearises h in each coordinate, which is not defined where a feature has several "
            "coefficients and counts once; use surrogate='concave'"
        )
    support = (at != 0).nonzero()[0]  # ∇h = 0 at the others
    slope = constraint.slope(np.abs(at[support]))
    # Where φ' > 0 is below the rounding of λ, keep the weight positive: with a weight of 0 the coordinate
    # could diverge to where φ is above its linearisation.
    size = np.where(slope > 0, np.minimum(1 - slope / constraint.lam, _BELOW_ONE), 1.0)
    u = np.zeros_like(at)
    u[support] = -np.copysign(size, at[support])
    return Surrogate(weights, u, _radius(constraint, at, support, 1 - size, level, weights), constraint.lam, level)


def majorise(constraint: Constraint, at: Vector, level: float, weights: Vector | None = None) -> Surrogate:
    """Return the tighter surrogate: the concave φ(|x|) majorised at |`at`|, a weighted ℓ1 ball or group ball."""
    width = _n_outputs(at, weights)
    touched = _kernels.LevelConstraint(constraint.compiled, at.size // width, width, weights, None, False, level)
    prices, tau = touched.majorised(np.ascontiguousarray(at))
    return Surrogate(prices, None, tau, constraint.lam, level, width)


def _n_outputs(at: Vector, weights: Vector | None) -> int:
    """Return the number of coefficients per weight."""
    if weights is None:
        return 1
    if weights.size == 0 or at.size % weights.size:
        raise InvalidInputError(f"weights must have an entry for each feature, got {weights.size} for x of {at.size}")
    return at.size // weights.size


def _radius(
    constraint: Constraint, at: Vector, support: Features, price: Vector, level: float, weights: Vector | None
) -> float:
    """Return τ of the set that touches g at `at` with the given weight of |x| on its support, rounded inwards."""
    spent = price * np.abs(at[support])
    inner = float(np.sum(spent if weights is None else weights[support] * spent))
    g = constraint.total(at, weights)
    return max(0.0, (level - g) / constraint.lam + inner - _MARGIN * (level / constraint.lam + inner))


SURROGATES: dict[str, Linearise] = {"concave": majorise, "paper": linearise}


def surrogate_by_name(name: str) -> Linearise:
    """Return the function that builds g_k, by name."""
    if not isinstance(name, str) or name not in SURROGATES:
        raise InvalidInputError(f"surrogate must be one of {', '.join(sorted(SURROGATES))}, got {name!r}")
    return SURROGATES[name]


def surrogate_used(build: Linearise, n_outputs: int) -> str:
    """Return the name for `Result.surrogate`: "paper", "concave" or, for features of several coefficients, "group"."""
    name = next(name for name, known in SURROGATES.items() if known is build)
    return "group" if name == "concave" and n_outputs > 1 else name


@dataclass(frozen=True, kw_only=True)
class Levels(ABC):
    """Base class of the rules for η_k, k = 1, 2, ….

    Parameters
    ----------
    eta0 : float, optional
        η_0 with g(x^0) < η_0 < η (Assumption 2). By default the midpoint of g(x^0) and η.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from itertools import islice
    >>> from levelprox.methods.lcpp import Levels
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Linear(Levels):
    ...     def at(self, k, eta0, level):
    ...         return eta0 + (level - eta0) * k / 4
    >>> list(islice(Linear(eta0=0.0).sequence(level=2.0, g_start=0.0), 5))
    [0.5, 1.0, 1.5, 2.0, 2.0]
    """

    eta0: float | None = None

    def start(self, level: float, g_start: float) -> float:
        """Return η_0, after checking it against g(x^0) and η."""
        if self.eta0 is None:
            return (g_start + level) / 2
        eta0 = real("eta0", self.eta0)
        if not g_start <= eta0 <= level:
            raise InvalidInputError(f"eta0 must be in [g(x0), level] = [{g_start:g}, {level:g}], got {eta0:g}")
        return eta0

    def sequence(self, level: float, g_start: float) -> Iterator[float]:
        """Return the infinite sequence η_1, η_2, …, never above η."""
        eta0 = self.start(level, g_start)
        return (min(self.at(k, eta0, level), level) for k in count(1))

    @abstractmethod
    def at(self, k: int, eta0: float, level: float) -> float:
        """Return η_k."""


@dataclass(frozen=True, kw_only=True)
class Constant(Levels):
    """Constant levels, η_k = η.

    Parameters
    ----------
    eta0 : float, optional
        Not used by this rule.

    Examples
    --------
    >>> from levelprox.methods.lcpp import Constant
    >>> Constant().at(1, eta0=1.0, level=2.0)
    2.0
    """

    def at(self, k: int, eta0: float, level: float) -> float:
        """Return η."""
        return level


@dataclass(frozen=True, kw_only=True)
class Harmonic(Levels):
    """The paper's levels: δ_k = (η − η_0)/(k(k+1)), so η_k = η − (η − η_0)/(k+1) (Theorem "complexity_main").

    Parameters
    ----------
    eta0 : float, optional
        η_0. By default the midpoint of g(x^0) and η.

    Examples
    --------
    >>> from levelprox.methods.lcpp import Harmonic
    >>> [Harmonic().at(k, eta0=1.0, level=2.0) for k in (1, 3, 9)]
    [1.5, 1.75, 1.9]
    """

    def at(self, k: int, eta0: float, level: float) -> float:
        """Return η − (η − η_0)/(k+1)."""
        return level - (level - eta0) / (k + 1)


@dataclass(frozen=True, kw_only=True)
class Geometric(Levels):
    """Geometric levels, η_k = η − (η − η_0) ratio^k.

    Parameters
    ----------
    eta0 : float, optional
        η_0. By default the midpoint of g(x^0) and η.
    ratio : float, default=0.5
        In (0, 1).

    Examples
    --------
    >>> from levelprox.methods.lcpp import Geometric
    >>> [Geometric(ratio=0.5).at(k, eta0=1.0, level=2.0) for k in (1, 2, 3)]
    [1.5, 1.75, 1.875]
    """

    ratio: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < real("ratio", self.ratio) < 1:
            raise InvalidInputError(f"ratio must be in (0, 1), got {self.ratio}")

    def at(self, k: int, eta0: float, level: float) -> float:
        """Return η − (η − η_0) ratio^k."""
        return level - (level - eta0) * self.ratio**k


LEVELS: dict[str, type[Levels]] = {"constant": Constant, "geometric": Geometric, "harmonic": Harmonic}


def levels_by_name(levels: str | Levels) -> Levels:
    """Return a rule by name, with its default parameters.

    Parameters
    ----------
    levels : str or Levels
        "constant", "geometric" or "harmonic", or a rule, which is returned unchanged.

    Returns
    -------
    Levels
        The rule.

    Examples
    --------
    >>> from levelprox.methods.lcpp import levels_by_name
    >>> levels_by_name("geometric")
    Geometric(eta0=None, ratio=0.5)
    """
    if isinstance(levels, Levels):
        return levels
    if isinstance(levels, str) and option(levels) in LEVELS:
        return LEVELS[option(levels)]()
    known = ", ".join(sorted(LEVELS))
    raise InvalidInputError(
        f"levels must be one of {known} or a Levels object, got {levels!r}{did_you_mean(levels, LEVELS)}"
    )


def lcpp(
    problem: Problem,
    start: Iterate,
    levels: Iterable[float],
    gamma: float,
    subsolver: Subsolver,
    surrogate: Linearise = linearise,
    tolerance: float = 0.0,
    seconds_left: Callable[[], float] = lambda: math.inf,
    rng: np.random.Generator | None = None,
) -> Iterator[tuple[float, Iterate]]:
    """Yield (η_1, x^1), (η_2, x^2), …; the caller decides when to stop.

    Parameters
    ----------
    problem : Problem
    start : Iterate
        x^0, feasible.
    levels : iterable of float
        η_1 ≤ η_2 ≤ … ≤ η.
    gamma : float
        γ.
    subsolver : Subsolver
    surrogate : callable
        The function that builds g_k.
    tolerance : float
        Residuals below this, in units of ∇ψ along a typical column, need not be improved.
    seconds_left : callable
        RemoteObjective before each step.
    rng : Generator, optional
        For subsolvers that sample.
    """
    iterate, coordinates = start, subsolver.coordinates(problem.objective, problem.centred)
    for eta_k in levels:
        g_k = surrogate(problem.constraint, iterate.x, eta_k, problem.weights)
        subproblem = Subproblem(problem.objective, g_k, iterate.x, gamma, problem.signs, coordinates)
        iterate = _feasible_step(problem, subproblem, subsolver, iterate, tolerance, seconds_left, rng)
        yield eta_k, iterate


def without_level(
    problem: Problem,
    start: Iterate,
    gamma: float,
    subsolver: Subsolver,
    tolerance: float = 0.0,
    seconds_left: Callable[[], float] = lambda: math.inf,
    rng: np.random.Generator | None = None,
    done: int = 0,
) -> Iterator[tuple[float, Iterate]]:
    """Minimise ψ alone, for as long as g ≤ η holds.

    A nonconvex problem can have KKT points with y > 0 although its unconstrained minimiser is
    feasible, and LCPP may stop at one. If the level is active, gradient steps soon leave the feasible
    set; LCPP then continues from the last point inside, which is yielded once more with the work of the step that left
    and the stop reason "left". `done` is the number of these steps that led to `start`.
    """
    everything = Surrogate(problem.weights, None, math.inf, problem.constraint.lam, math.inf, problem.n_outputs)
    iterate, coordinates = start, subsolver.coordinates(problem.objective, problem.centred)
    # Few inner steps at first: if the level is active, most of this work is repeated.
    for limited in islice(chain(map(subsolver.limited_to, (1, 2, 4)), repeat(subsolver)), done, None):
        free = Subproblem(problem.objective, everything, iterate.x, gamma, problem.signs, coordinates)
        step = limited.solve(free, iterate, tolerance, seconds_left(), rng)
        if problem.g(step.x) > problem.level:
            stop = step.stop if step.stop == StopReason.INTERRUPTED else StopReason.LEFT_LEVEL
            yield problem.level, replace(iterate, stop=stop).at_cost_of(step)
            return
        iterate = step
        yield problem.level, iterate


def _feasible_step(
    problem: Problem,
    subproblem: Subproblem,
    subsolver: Subsolver,
    iterate: Iterate,
    tolerance: float,
    seconds_left: Callable[[], float],
    rng: np.random.Generator | None,
) -> Iterate:
    """Return x^k with computed g(x^k) ≤ η_k.

    g_k ≥ g holds up to rounding. If rounding violates the level, which happens for large |x|, the step is repeated
    in a smaller set; in the worst case x^{k−1} stays.
    """
    for _ in range(3):
        step = subsolver.solve(subproblem, iterate, tolerance, seconds_left(), rng)
        excess = problem.g(step.x) - subproblem.surrogate.level
        if excess <= 0:
            return step
        if step.stop in (StopReason.INTERRUPTED, StopReason.NOT_FINITE, StopReason.SECONDS):
            return replace(step, x=iterate.x, psi=iterate.psi, gradient=iterate.gradient, margins=iterate.margins)
        subproblem = replace(subproblem, surrogate=subproblem.surrogate.tightened(4 * excess))
    return replace(iterate, stop=StopReason.STATIONARY, n_inner=0, n_grad=0, n_proj=0)
