"""GIST: proximal gradient steps of Barzilai–Borwein length with a nonmonotone line search, for penalised problems.

    min f(x) = ψ(x) + α Σ_j φ(|x_j|)

Each step: x⁺ = prox_{αφ/t}(x − ∇ψ(x)/t), t doubled until f(x⁺) ≤ max of the last five f − (σ/2) t ‖x⁺ − x‖².
P. Gong, C. Zhang, Z. Lu, J. Huang and J. Ye (2013), "A general iterative shrinkage and thresholding algorithm for
non-convex regularized optimization problems", ICML.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from experiments.competitors.base import Competitor, Fit, Point, Samples, Vector
from experiments.competitors.proximal_maps import authors_prox, prox
from levelprox.constraints import MCP, Constraint
from levelprox.objectives import Objective

# The authors' settings.
_SIGMA = 1e-5
_MEMORY = 5
_MOST_TRIALS = 20
_LOW, _HIGH = 1e-20, 1e20
_QUIET = 3  # small changes in a row that end a run


@dataclass(frozen=True, eq=False)
class Descent:
    """Where a run of GIST ended.

    Attributes
    ----------
    x : ndarray of shape (d,)
    value : float
        f(x).
    iterations, evaluations : int
        Steps, and passes over the data, each for ψ and ∇ψ at once.
    converged : bool
        Whether f came to rest before the cap on steps.
    refused : int
        Steps taken although none of 20 trials fell enough, as the authors do: rare but with their scaling.
    """

    x: Vector
    value: float
    iterations: int
    evaluations: int
    converged: bool
    refused: int


@dataclass(frozen=True, eq=False)
class _State:
    x: Vector
    gradient: Vector
    value: float


class _Penalised:
    """F = ψ + αg, evaluated together with ∇ψ in one pass over the data, and its proximal step."""

    def __init__(self, objective: Objective, constraint: Constraint, alpha: float, authors_scaling: bool) -> None:
        self.objective, self.constraint, self.alpha = objective, constraint, alpha
        self.authors_scaling = authors_scaling
        self.evaluations = 0

    def at(self, x: Vector) -> _State:
        self.evaluations += 1
        psi, gradient = self.objective.value_and_gradient(x)
        return _State(x, gradient, psi + self.alpha * self.constraint.total(x, None))

    def step(self, now: _State, t: float) -> Vector:
        u = now.x - now.gradient / t
        if self.authors_scaling:
            return authors_prox(self.constraint, u, self.alpha, t)
        return prox(self.constraint, u, self.alpha / t)


def gist(
    objective: Objective,
    constraint: Constraint,
    alpha: float,
    x0: Vector,
    max_iter: int = 1000,
    tol: float = 1e-5,
    authors_scaling: bool = False,
) -> Descent:
    """Minimise ψ + αg from x0.

    Parameters
    ----------
    objective : Objective
        ψ, by its `value_and_gradient`.
    constraint : Constraint
        φ.
    alpha : float
        α > 0.
    x0 : ndarray of shape (d,)
    max_iter : int
        Cap on the steps.
    tol : float
        The run ends when |Δf|/f < tol three times in a row.
    authors_scaling : bool
        Take the authors' maps, which are not those of αφ/t for MCP and SCAD (`authors_prox`).
    """
    problem = _Penalised(objective, constraint, alpha, authors_scaling)
    now = problem.at(np.asarray(x0, np.float64))
    recent = deque([now.value], maxlen=_MEMORY)
    t, quiet, refused, iteration = 1.0, 0, 0, 0
    for iteration in range(1, max_iter + 1):
        new, fell = _line_search(problem, now, t, max(recent))
        refused += not fell
        quiet = quiet + 1 if abs(new.value - now.value) < tol * abs(now.value) else 0
        moved, bent = new.x - now.x, new.gradient - now.gradient
        length = float(moved @ moved)
        now = new
        recent.append(now.value)
        if quiet == _QUIET or length == 0:
            return Descent(now.x, now.value, iteration, problem.evaluations, True, refused)
        t = float(moved @ bent) / length
    return Descent(now.x, now.value, iteration, problem.evaluations, False, refused)


def _line_search(problem: _Penalised, now: _State, t: float, reference: float) -> tuple[_State, bool]:
    """Return the first trial point with sufficient decrease, or the last one; and whether it decreased."""
    t = min(max(t, _LOW), _HIGH)
    for _ in range(_MOST_TRIALS):
        new = problem.at(problem.step(now, t))
        moved = new.x - now.x
        if new.value <= reference - _SIGMA / 2 * t * float(moved @ moved):
            return new, True
        t *= 2
    return new, False


class GIST(Competitor):
    """min ψ + α MCP_{λ,θ} at points {"alpha", "lam", "theta"}, each from the origin as its authors do.

    Parameters
    ----------
    max_iter : int
        The paper's 2000.
    tol : float
        On the relative change of f, three times in a row.
    warm : bool
        Start each fit where the last one ended; not what the authors did.
    """

    name: ClassVar[str] = "GIST"
    package: ClassVar[str] = "levelprox"
    authors_scaling: ClassVar[bool] = False

    def __init__(self, max_iter: int = 2000, tol: float = 1e-5, warm: bool = False) -> None:
        self.max_iter, self.tol, self.warm = max_iter, tol, warm

    def fits(self, train: Samples, points: Sequence[Point]) -> Iterator[Fit]:
        """Yield a fit for each point."""
        model = train.model()
        origin = np.zeros(model.dimension)
        x = origin
        for point in points:
            began = time.perf_counter()
            constraint = MCP(point["lam"], point["theta"])
            end = gist(
                model,
                constraint,
                point["alpha"],
                x if self.warm else origin,
                self.max_iter,
                self.tol,
                self.authors_scaling,
            )
            x = end.x
            yield Fit(point, x, time.perf_counter() - began, end.iterations, _note(end))


class AuthorsGIST(GIST):
    """The same with the authors' scaling: λ/t, θ left as it is."""

    name: ClassVar[str] = "GIST (authors' scaling)"
    authors_scaling: ClassVar[bool] = True


def _note(end: Descent) -> str:
    notes = [] if end.converged else [f"{end.iterations} iterations, not converged"]
    if end.refused:
        notes.append(f"{end.refused} steps on which the objective did not fall enough")
    return "; ".join(notes)
