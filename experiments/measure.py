"""How near to a KKT point a run of the paper's method ends: the (ε, δ)-KKT statement of x^k̂, in expectation.

The theorems speak of x^k̂, k̂ uniform on {⌊(K+1)/2⌋, …, K}, and of x̄^k̂, the exact solution of the subproblem that x^k̂
approximates. `solve(preset="paper")` draws k̂ first and stops there, so a run that drew k̂ = K passes through
every x^k that another draw would have returned: its figures at all these k are averaged, instead of one draw of k̂.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray

from experiments.cells import Cell, ConcaveLift
from levelprox import Problem, certify, nearby_kkt, solve
from levelprox.nearby import Nearby
from levelprox.result import Iterate, Record
from levelprox.subproblem import Subproblem
from levelprox.subsolvers import Smoothing
from levelprox.surrogate import linearise
from levelprox.theory import draw_k_hat

Vector = NDArray[np.float64]

_STILL = 1e-12  # relative change of x that ends an accurate solve


@dataclass(frozen=True)
class Measurement:
    """The (ε, δ)-KKT statement of one x^k of one run.

    Attributes
    ----------
    cell : str
        Which entry of the table.
    K, steps, seed : int
        K, T_k and the seed of the run.
    k : int
        The value of k̂ this is for.
    gradients : int
        N = K T_k: what the theorem charges for its output, whatever k̂ is.
    stationarity_squared, complementarity, delta : float
        dist(0, ∂ψ(x̄) + ȳ ∂g(x̄))², ȳ|g(x̄) − η| and ‖x − x̄‖².
    """

    cell: str
    K: int
    steps: int
    seed: int
    k: int
    gradients: int
    stationarity_squared: float
    complementarity: float
    delta: float

    @property
    def epsilon(self) -> float:
        """ε of this one point; the ε of a run is the larger of the two means."""
        return max(self.stationarity_squared, self.complementarity)


def measure(cell: Cell, K: int, runs: int, points: int) -> list[Measurement]:
    """The statements of `runs` runs at up to `points` values of k̂ each, evenly spaced.

    A deterministic cell needs one run.
    """
    chosen = sorted({round(k) for k in np.linspace((K + 1) // 2, K, points)})
    found = []
    for seed in islice(_seeds_that_draw_the_last(K), runs if cell.stochastic else 1):
        path = [np.zeros(cell.problem.dimension)]
        etas = [math.nan]

        def follow(record: Record, x: Vector, path: list[Vector] = path, etas: list[float] = etas) -> None:
            path.append(np.array(x))
            etas.append(record.eta_k)

        # Nothing is asked of the last certificate: tol = inf.
        run = solve(
            cell.problem, preset="paper", max_iter=K, gamma=cell.gamma, random_state=seed, tol=math.inf, callback=follow
        )
        assert run.parameters is not None and run.n_outer == K
        steps = run.parameters.steps
        for k in chosen:
            at = nearby(cell.exact, path[k], path[k - 1], etas[k], run.gamma)
            figures = (at.stationarity_squared, at.complementarity, at.delta)
            found.append(Measurement(cell.name, K, steps, seed, k, K * steps, *figures))
    return found


def nearby(problem: Problem, x: Vector, center: Vector, level: float, gamma: float) -> Nearby:
    """x̄^k and its figures, for ψ whose subgradients can be listed."""
    if not isinstance(problem.objective, ConcaveLift):
        return nearby_kkt(problem, x, center=center, level=level, gamma=gamma)
    x_bar = solve_lifted(problem, x, center, level, gamma)
    at = certify(problem, x_bar)
    apart = float(np.sum((x - x_bar) ** 2))
    return Nearby(x_bar, at.multiplier, at.stationarity_squared, at.complementarity, apart)


def solve_lifted(problem: Problem, start: Vector, center: Vector, level: float, gamma: float) -> Vector:
    """The solution of the subproblem of a `ConcaveLift`, to the last digits.

    The lift c is majorised at x by c(x) + ⟨∇c(x), · − x⟩ + μ/16 ‖· − x‖². What is left is the linear model with a
    proximal term of weight γ + μ/8 and another center, and each round is a contraction, by at least 9μ/(8γ + μ).
    """
    lift = problem.objective
    assert isinstance(lift, ConcaveLift)
    g_k = linearise(problem.constraint, center, level, problem.weights)
    bend = lift.mu / 8
    weight = gamma + bend
    iterate = Iterate(start, *lift.model.value_and_gradient(start), step=1 / lift.model.curvature)
    subsolver = Smoothing(max_steps=1000, accuracy=1e-2)
    for _ in range(1000):
        last = iterate
        moved_center = (gamma * center + bend * last.x - lift.lift_gradient(last.x)) / weight
        iterate = subsolver.solve(Subproblem(lift.model, g_k, moved_center, weight, problem.signs), last)
        moved = float(np.max(np.abs(iterate.x - last.x)))
        settled = iterate.kinks is not None and iterate.kinks.missed <= _STILL * iterate.kinks.scale
        if settled and moved <= _STILL * float(np.max(np.abs(iterate.x))):
            break
    return iterate.x


def _seeds_that_draw_the_last(K: int) -> Iterator[int]:
    """Seeds for which k̂ = K: it is drawn before anything else, so the noise is like that of any other seed."""
    return (seed for seed in count() if draw_k_hat(K, np.random.default_rng(seed)) == K)
