"""LCPP with Barzilai–Borwein steps and the paper's settings: 10 inner and at most 1000 outer steps, harmonic levels."""

from __future__ import annotations

from benchmarks.datasets import Dataset
from benchmarks.peers.base import Ask, Fit, Peer, Vector
from benchmarks.peers.levelprox import constraint


class PaperSpectral(Peer):
    """γ = 1e-4, for gisette 1e-5; until KKT `tol`, or 1000 outer steps."""

    package = "levelprox"

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        """Fit the data."""
        from levelprox import LinearModel, Problem, solve
        from levelprox.methods.subsolvers import Spectral

        result = solve(
            Problem(LinearModel(data.X, data.b, data.loss), constraint(ask), ask["level"]),
            subsolver=Spectral(max_steps=10, accuracy=0.0),
            levels="harmonic",
            surrogate="paper",
            gamma=1e-5 if data.name.startswith("gisette") else 1e-4,
            max_iter=1000,
            tol=ask.get("tol", 1e-6),
            start="direct",
        )
        return Fit(result.x, str(result.status), {"passes": result.n_grad})


KINDS = {"spectral": PaperSpectral}
