"""Problems with a planted model: correlated features, a few of which matter, at a given signal-to-noise ratio.

    z = 1 + Xβ,   b = z + σε  (squared)   or   b = sign(cz + ε), ε logistic,

with rows of X normal with mean 0 and covariance Σ: "ar1" has Σ_ij = ρ^|i−j|, "blocks" has Σ_ij = ρ between features of
one block of ten. β has its nonzeros at random places, of random sign and of sizes uniform in 1 ± spread. The ratio

    SNR = Var(Xβ) / Var(noise) = β'Σβ / σ²   (squared),      c² β'Σβ / (π²/3)   (logistic)

is that of the population: σ, or c, follows from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Double = NDArray[np.float64]
Indices = NDArray[np.intp]

BLOCK = 10
STRUCTURES = ("ar1", "blocks")
LOSSES = ("squared", "logistic")
_INTERCEPT = 1.0
_LOGISTIC_VARIANCE = math.pi**2 / 3


@dataclass(frozen=True)
class Recipe:
    """What a problem is drawn from: the same recipe gives the same bits.

    Attributes
    ----------
    seed : int
    loss : "squared" or "logistic"
    n, d : int
        Samples and features.
    planted, asked : int
        Features that matter, and k: how many may be chosen.
    structure : "ar1" or "blocks"
    correlation : float
        ρ in [0, 1).
    snr : float
    spread : float
        Sizes of the coefficients are uniform in 1 ± spread.
    """

    seed: int
    loss: str
    n: int
    d: int
    planted: int
    asked: int
    structure: str
    correlation: float
    snr: float
    spread: float = 0.5


@dataclass(frozen=True, eq=False)
class Planted:
    """A drawn problem: X (columns stored one by one), b, and the features that matter, in order."""

    recipe: Recipe
    X: Double
    b: Double
    truth: Indices


def draw(recipe: Recipe) -> Planted:
    """Return the problem of a recipe."""
    rng = np.random.default_rng(recipe.seed)
    truth = np.sort(rng.choice(recipe.d, recipe.planted, replace=False))
    sizes = 1 + recipe.spread * rng.uniform(-1, 1, recipe.planted)
    beta = sizes * rng.choice((-1.0, 1.0), recipe.planted)
    X = features(recipe, rng)
    variance = float(beta @ covariance(recipe, truth) @ beta)
    signal = _INTERCEPT + X[:, truth] @ beta
    if recipe.loss == "squared":
        b = signal + math.sqrt(variance / recipe.snr) * rng.standard_normal(recipe.n)
    else:
        scale = math.sqrt(recipe.snr * _LOGISTIC_VARIANCE / variance)
        b = np.where(scale * signal + rng.logistic(size=recipe.n) > 0, 1.0, -1.0)
    return Planted(recipe, X, b, truth)


def features(recipe: Recipe, rng: np.random.Generator) -> Double:
    """X, each row with covariance Σ."""
    rho, own = recipe.correlation, math.sqrt(1 - recipe.correlation**2)
    noise = rng.standard_normal((recipe.d, recipe.n))
    if recipe.structure == "ar1":
        for j in range(1, recipe.d):
            noise[j] = rho * noise[j - 1] + own * noise[j]
    elif recipe.structure == "blocks":
        shared = rng.standard_normal((-(-recipe.d // BLOCK), recipe.n))
        noise = math.sqrt(rho) * shared[np.arange(recipe.d) // BLOCK] + math.sqrt(1 - rho) * noise
    else:
        raise ValueError(f"structure must be one of {', '.join(STRUCTURES)}, got {recipe.structure}")
    return noise.T


def covariance(recipe: Recipe, columns: Indices) -> Double:
    """Σ of some columns."""
    i, j = np.meshgrid(columns, columns, indexing="ij")
    if recipe.structure == "ar1":
        return np.asarray(recipe.correlation ** np.abs(i - j), dtype=np.float64)
    same = np.where(i // BLOCK == j // BLOCK, recipe.correlation, 0.0)
    return np.where(i == j, 1.0, same)
