"""How near to a KKT point a run of the paper's method ends: the (ε, δ)-KKT statement of x^k̂, in expectation.

The theorems are about x^k̂, k̂ uniform on {⌊(K+1)/2⌋, …, K}, and of the exact solution x̄^k̂ of the subproblem that x^k̂
approximates, with its multiplier ȳ^k̂. `solve(preset="paper")` draws k̂ first and stops there, so a run that drew k̂ = K
passes through every x^k that another draw would have returned: its figures at these k are averaged, instead of one
draw of k̂. (`nearby_kkt` takes the same x̄, but the y that suits it best: figures that are smaller, up to a factor of 3
here, and that jump with the support of x̄.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from experiments.cells import Cell, ConcaveLift
from levelprox import LinearModel, Problem, solve
from levelprox.methods.lcpp import linearise
from levelprox.methods.subsolvers import Smoothing, Spectral, Subproblem, Subsolver
from levelprox.result import Iterate, Record
from levelprox.theory import draw_k_hat

Vector = NDArray[np.float64]

_STILL = 1e-12  # relative change of x that ends an accurate solve
_ROUNDS = 1000


@dataclass(frozen=True)
class Measurement:
    """The (ε, δ)-KKT statement of one x^k of one run.

    Attributes
    ----------
    cell : str
        Which entry of the table.
    K, run, seed, steps : int
        K, which run for this K, its seed, and T_k.
    k : int
        The value of k̂ this is for.
    gradients : int
        N = K T_k: the cost of its output in the theorem, for every k̂.
    stationarity_squared, complementarity, delta : float
        dist(0, ∂ψ(x̄) + ȳ ∂g(x̄))², ȳ|g(x̄) − η| and ‖x − x̄‖².
    multiplier : float
        ȳ.
    beyond : float
        ȳ|g(x̄) − η_k|, the complementarity without ȳ(η − η_k), the part that the schedule of levels sets.
    """

    cell: str
    K: int
    run: int
    seed: int
    steps: int
    k: int
    gradients: int
    stationarity_squared: float
    complementarity: float
    delta: float
    multiplier: float
    beyond: float


def measure(cell: Cell, K: int, run: int, points: int) -> list[Measurement]:
    """Return the statements of one run at up to `points` values of k̂, evenly spaced."""
    seed = next(islice(seeds_that_draw_the_last(K), run, None))
    path = Path(cell, K, seed)
    found = []
    for k in sorted({round(k) for k in np.linspace((K + 1) // 2, K, points)}):
        x_bar, y_bar = solution(cell.exact, *path.step(k))
        figures = (
            distance_squared(cell.exact, x_bar, y_bar),
            y_bar * abs(cell.exact.g(x_bar) - cell.exact.level),
            float(np.sum((path.x[k] - x_bar) ** 2)),
            y_bar,
            y_bar * abs(cell.exact.g(x_bar) - path.eta[k]),
        )
        found.append(Measurement(cell.name, K, run, seed, path.steps, k, K * path.steps, *figures))
    return found


class Path:
    """The iterates x^0, …, x^K of one run and their levels."""

    def __init__(self, cell: Cell, K: int, seed: int) -> None:
        self.x = [np.zeros(cell.problem.dimension)]
        self.eta = [math.nan]
        # The certificate of the last point is not compared with a tolerance: tol = inf.
        run = solve(
            cell.problem,
            preset="paper",
            max_iter=K,
            gamma=cell.gamma,
            random_state=seed,
            tol=math.inf,
            callback=self._note,
        )
        assert run.parameters is not None and run.n_outer == K
        self.gamma, self.steps = run.gamma, run.parameters.steps

    def _note(self, record: Record, x: Vector) -> None:
        self.x.append(np.array(x))
        self.eta.append(record.eta_k)

    def step(self, k: int) -> tuple[Vector, Vector, float, float]:
        """x^k, x^{k−1}, η_k and γ."""
        return self.x[k], self.x[k - 1], self.eta[k], self.gamma


def solution(problem: Problem, start: Vector, center: Vector, level: float, gamma: float) -> tuple[Vector, float]:
    """x̄ and ȳ: min ψ(x) + γ/2 ‖x − center‖² s.t. g_k(x) ≤ level, to the last digits.

    Of a `ConcaveLift` the lift c is majorised at the last x by c(x) + ⟨∇c(x), · − x⟩ + μ/16 ‖· − x‖². What is left is
    the linear model with a proximal term of weight γ + μ/8 and another center; rounds contract by 9μ/(8γ + μ).
    """
    objective = problem.objective
    lift = objective if isinstance(objective, ConcaveLift) else None
    model = objective.model if isinstance(objective, ConcaveLift) else objective
    assert isinstance(model, LinearModel)
    bend = lift.mu / 8 if lift else 0.0
    subsolver: Subsolver = Spectral(1000, accuracy=1e-6) if model.smooth else Smoothing(1000, accuracy=1e-2)
    g_k = linearise(problem.constraint, center, level, problem.weights)
    subproblem = Subproblem(model, g_k, center, gamma + bend, problem.signs)
    iterate = Iterate(start, *model.value_and_gradient(start), step=1 / model.curvature)
    for _ in range(_ROUNDS):
        last = iterate
        if lift:
            middle = (gamma * center + bend * last.x - lift.lift_gradient(last.x)) / (gamma + bend)
            subproblem = replace(subproblem, center=middle)
        iterate = subsolver.solve(subproblem, last)
        if _is_still(last, iterate):
            break
    return iterate.x, iterate.multiplier


def _is_still(last: Iterate, iterate: Iterate) -> bool:
    settled = iterate.kinks is None or iterate.kinks.missed <= _STILL * iterate.kinks.scale
    return settled and bool(np.max(np.abs(iterate.x - last.x)) <= _STILL * np.max(np.abs(iterate.x)))


def distance_squared(problem: Problem, x: Vector, y: float) -> float:
    """dist(0, ∂ψ(x) + y ∂g(x))²: least squares over the subgradients of ψ at its kinks and of |x_j| at 0."""
    at_kinks = problem.objective.subgradients(x)
    _, gradient = problem.objective.value_and_gradient(x)
    columns = [y * problem.constraint.lam * np.eye(x.size)[:, x == 0]]
    if at_kinks is not None:
        gradient = at_kinks.center
        columns.append(np.column_stack([at_kinks.rows.rmatvec(e) for e in np.diag(at_kinks.radius)]))
    known = gradient + y * problem.constraint.slope(np.abs(x)) * np.sign(x)
    free = np.hstack(columns)
    if not free.size:
        return float(known @ known)
    best = lsq_linear(free, -known, bounds=(-1, 1), method="bvls")
    return float(2 * best.cost)


def seeds_that_draw_the_last(K: int) -> Iterator[int]:
    """Seeds for which k̂ = K: it is drawn before anything else, so the noise is like that of any other seed."""
    return (seed for seed in count() if draw_k_hat(K, np.random.default_rng(seed)) == K)
