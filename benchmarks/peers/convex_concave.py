"""The convex-concave procedure on cvxpy and Clarabel: linearise h at the last point, solve the rest exactly, repeat.

    min ψ(x)   s.t.   λ‖x‖₁ − Σ_j (h(x̄_j) + h'(x̄_j)(x_j − x̄_j)) ≤ η

Until the relative change of ψ is at most 1e-6. This is what the `dccp` package does for constraints it accepts; with
MCP it fails (experiments/competitors/convex_concave.py), hence this loop.
"""

from __future__ import annotations

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.judge import Penalty, margins, mean_loss
from benchmarks.peers.base import Ask, Fit, Peer, Vector

CHANGE = 1e-6
MOST_STEPS = 200
ZERO = 1e-6  # of the largest coefficient: an interior-point solution has no zeros of its own


class ConvexConcave(Peer):
    """From the origin, where linearising h gives the ℓ1 ball."""

    package = "cvxpy"

    def load(self) -> None:
        """Import the packages."""
        import clarabel
        import cvxpy

        assert clarabel and cvxpy

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        """Fit the data."""
        import cvxpy as cp

        penalty = Penalty(**ask["penalty"])
        n, d = data.X.shape
        x, slope, room = cp.Variable(d), cp.Parameter(d), cp.Parameter()
        z = data.X @ x
        psi = cp.sum(cp.logistic(cp.multiply(-data.b, z))) if data.loss == "logistic" else cp.sum_squares(z - data.b)
        problem = cp.Problem(cp.Minimize(psi / n), [penalty.lam * cp.norm1(x) - slope @ x <= room])
        at, value, step = np.zeros(d), mean_loss(np.zeros(n), data.b, data.loss), 0
        for step in range(1, MOST_STEPS + 1):
            t = np.abs(at)
            h, rate = penalty.lam * t - penalty.phi(t), penalty.lam - penalty.slope(t)
            slope.value = rate * np.sign(at)
            room.value = ask["level"] + float(np.sum(h - rate * t))
            problem.solve(solver=cp.CLARABEL)
            if x.value is None:
                return Fit(at, f"{problem.status} after {step} steps")
            at, last, value = x.value, value, mean_loss(margins(data.X, x.value), data.b, data.loss)
            if abs(last - value) <= CHANGE * abs(value):
                break
        return Fit(np.where(np.abs(at) > ZERO * np.max(np.abs(at)), at, 0.0), f"{step} convex problems")


KINDS = {"convex-concave": ConvexConcave}
