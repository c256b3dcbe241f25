"""The eight problems of Table 1: deterministic or stochastic, smooth or nonsmooth, convex or nonconvex.

    min ψ(x)   s.t.   Σ_j φ(|x_j|) ≤ η,   φ the MCP,   ψ a mean over the rows a_i of a small random matrix

=====================  ====================================================================================
smooth, convex         logistic loss log(1 + exp(−b⟨a, x⟩))
smooth, nonconvex      Cauchy loss ½ log(1 + (b − ⟨a, x⟩)²)
nonsmooth, convex      absolute loss |b − ⟨a, x⟩|
nonsmooth, nonconvex   absolute loss, less (μ/2) Σ_j log(1 + x_j²) (`ConcaveLift`)
=====================  ====================================================================================

A stochastic problem is the same ψ seen through one row i, drawn uniformly, at a time. Then
E‖Ψ' − ψ'‖² = E‖Ψ'‖² − ‖ψ'‖² ≤ E ℓ'(z_i)²‖a_i‖² ≤ (sup|ℓ'|)² mean‖a_i‖² = σ², which is `LinearModel.noise`; what
`ConcaveLift` takes off is not sampled and adds no noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from levelprox import Problem, Stochastic
from levelprox.constraints import MCP
from levelprox.objectives import LinearModel, Objective, Subgradients

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cell:
    """One entry of Table 1.

    Attributes
    ----------
    stochastic, smooth, convex : bool
        Which entry it is.
    problem : Problem
        What is run.
    exact : Problem
        The same with ψ known exactly: what is measured with.
    gamma : float or None
        γ where the corollary leaves it open (convex ψ); None for γ = 3μ.
    """

    stochastic: bool
    smooth: bool
    convex: bool
    problem: Problem
    exact: Problem
    gamma: float | None

    @property
    def name(self) -> str:
        """In the words of the table."""
        words = (
            "stochastic" if self.stochastic else "deterministic",
            "smooth" if self.smooth else "nonsmooth",
            "convex" if self.convex else "nonconvex",
        )
        return " ".join(words)

    @property
    def exponent(self) -> int:
        """p of the table's O(1/ε^p)."""
        return 1 if self.smooth and not self.stochastic else 2


class ConcaveLift(Objective):
    """ψ(x) = model(x) − (μ/2) Σ_j log(1 + x_j²).

    (½ log(1 + t²))'' = (1 − t²)/(1 + t²)² is in [−1/8, 1], so the second term is μ-weakly convex and adds μ/8 to L.

    Parameters
    ----------
    model : LinearModel
        Convex.
    mu : float
        μ > 0.
    """

    def __init__(self, model: LinearModel, mu: float) -> None:
        self.model = model
        self.mu = mu
        self.smooth = model.smooth

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.model.dimension

    @property
    def weak_convexity(self) -> float:
        """Weak-convexity constant μ."""
        return self.mu

    @property
    def smoothness(self) -> float:
        """Lipschitz constant of the smooth part's gradient."""
        return self.model.smoothness + self.mu / 8

    @property
    def nonsmoothness(self) -> float:
        """Largest jump of subgradients."""
        return self.model.nonsmoothness

    @property
    def noise(self) -> float:
        """Noise of sampled gradients."""
        return self.model.noise

    @property
    def curvature(self) -> float:
        """A typical curvature."""
        return self.model.curvature

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        """Return ψ(x) and a subgradient."""
        value, gradient = self.model.value_and_gradient(x)
        return value - self.mu / 2 * float(np.log1p(x * x).sum()), gradient + self.lift_gradient(x)

    def lift_gradient(self, x: Vector) -> Vector:
        """Gradient of the second term: −μ x/(1 + x²)."""
        return -self.mu * x / (1 + x * x)

    def subgradients(self, x: Vector, hint: Vector | None = None) -> Subgradients | None:
        """Return the subgradients at x."""
        of_model = self.model.subgradients(x, hint)
        if of_model is None:
            return None
        center = of_model.center + self.lift_gradient(x)
        of_kinks = (of_model.slopes, of_model.kinks, of_model.share)
        return Subgradients(center, of_model.rows, of_model.radius, of_model.guess, *of_kinks)

    def restrict(self, W: NDArray[np.intp]) -> ConcaveLift:
        """Return the same function of fewer features."""
        return ConcaveLift(self.model.restrict(W), self.mu)


#: ℓ'(z, b) of one sample, in plain Python: a single row is too little work for a kernel call.
SLOPES: dict[str, Callable[[float, float], float]] = {
    "logistic": lambda z, b: -b / (1 + math.exp(b * z)),
    "cauchy": lambda z, b: (z - b) / (1 + (z - b) ** 2),
    "absolute": lambda z, b: math.copysign(1.0, z - b),
}


def one_row(model: LinearModel, rows: Vector) -> Callable[[Vector, int], Vector]:
    """(x, i) ↦ ℓ'(⟨a_i, x⟩, b_i) a_i."""
    slope, targets = SLOPES[model.loss.name], model.target.tolist()
    return lambda x, i: slope(float(rows[i] @ x), targets[i]) * rows[i]


def sampled(objective: LinearModel | ConcaveLift, rows: Vector) -> Stochastic:
    """Return the same ψ through one row at a time."""
    lifted = isinstance(objective, ConcaveLift)
    row, n = one_row(objective.model if lifted else objective, rows), len(rows)

    def oracle(x: Vector, rng: np.random.Generator) -> Vector:
        gradient = row(x, int(rng.random() * n))
        return gradient + objective.lift_gradient(x) if lifted else gradient

    return Stochastic(
        oracle,
        objective.dimension,
        noise=objective.noise,
        smoothness=objective.smoothness,
        nonsmoothness=objective.nonsmoothness,
        weak_convexity=objective.weak_convexity,
        exact=objective.value_and_gradient,
    )


#: ‖a_i‖, so that σ = 4 sup|ℓ'| and T_k = K(M + σ) is a few K: subproblems are solved well enough from the first K on.
_ROW = 4.0


@dataclass(frozen=True)
class _Design:
    """What differs between the four objectives."""

    loss: str
    gamma: float | None = None  # the corollary for convex ψ leaves it open
    mu: float = 0.0  # of the `ConcaveLift`


_DESIGNS = {
    (True, True): _Design("logistic", gamma=0.4),  # γ = βL with β = 0.6
    (True, False): _Design("cauchy"),
    (False, True): _Design("absolute", gamma=0.8),
    (False, False): _Design("absolute", mu=0.3),
}


#: (stochastic, smooth, convex) of the eight, in the order of the table: rows first.
ENTRIES = [
    (stochastic, smooth, convex) for stochastic in (False, True) for convex in (True, False) for smooth in (True, False)
]


def cell(stochastic: bool, smooth: bool, convex: bool, seed: int = 0, n: int = 64, d: int = 10) -> Cell:
    """Return a problem for one entry, with random data: 5 of d features are relevant, the level allows 2.6 of them."""
    made = _DESIGNS[smooth, convex]
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d))
    rows *= _ROW / np.linalg.norm(rows, axis=1, keepdims=True)
    truth = np.zeros(d)
    truth[:5] = [1.0, -1.0, 0.8, -0.8, 0.6]
    target = rows @ truth + 0.2 * rng.standard_normal(n)
    if made.loss == "logistic":
        target = np.where(rng.random(n) < 0.1, -1.0, 1.0) * np.where(target > 0, 1.0, -1.0)
    model = LinearModel(rows, target, made.loss)
    objective = ConcaveLift(model, made.mu) if made.mu else model
    exact = Problem(objective, MCP.from_threshold(1.0), level=2.6)
    problem = replace(exact, objective=sampled(objective, rows)) if stochastic else exact
    return Cell(stochastic, smooth, convex, problem, exact, made.gamma)


def table(seed: int = 0) -> list[Cell]:
    """All eight."""
    return [cell(*entry, seed=seed) for entry in ENTRIES]
