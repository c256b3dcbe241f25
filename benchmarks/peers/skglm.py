"""skglm: coordinate descent with Anderson acceleration on working sets, for MCP and SCAD penalties.

    min ψ(x)/2 + Σ pen(|x_j|) for the squared loss, min ψ(x) + Σ pen(|x_j|) for the logistic one

Its tolerance is absolute, so that it gets tol times the gradient of the null fit: judged KKT residuals are comparable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.peers.base import Ask, Fit, Peer, Vector, column_scales, scaled

MOST_WORKING_SETS = 500  # its default of 50 ends before the tolerance on text
CUT_THETA = 3.0  # skglm's default, for columns of unit size
CUT_POINTS = 60  # from λ_max to λ_max/1000, until there are k nonzeros


class Skglm(Peer):
    """A penalised fit at (λ, θ), warm-started along a path where the ask says so."""

    package = "skglm"
    by_columns = True

    def refuses(self, data: Dataset, ask: Ask) -> str | None:
        """Return the reason if the case is not supported."""
        return None if ask["penalty"]["name"] in ("mcp", "scad") else "used for MCP and SCAD only"

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        """Fit the data."""
        x, criterion = solved(data.X, data, ask["penalty"], ask.get("tol", 1e-6), start, False)
        return Fit(x, "", {"own_criterion": criterion})


def solved(
    X: Any, data: Dataset, penalty: dict[str, Any], tol: float, start: Vector | None, intercept: bool
) -> tuple[Vector, float]:
    """Return coefficients, the intercept last if there is one, and skglm's own criterion."""
    from skglm.datafits import Logistic, Quadratic
    from skglm.penalties import SCAD, MCPenalty
    from skglm.solvers import AndersonCD
    from skglm.utils.jit_compilation import compiled_clone

    datafit = compiled_clone(Logistic() if data.loss == "logistic" else Quadratic())
    if data.sparse:
        datafit.initialize_sparse(X.data, X.indptr, X.indices, data.b)
    else:
        datafit.initialize(X, data.b)
    kind = {"mcp": MCPenalty, "scad": SCAD}[penalty["name"]]
    solver = AndersonCD(tol=tol * largest_lambda(X, data), max_iter=MOST_WORKING_SETS, fit_intercept=intercept)
    margins = None
    if start is not None:
        margins = X @ start[: X.shape[1]] + (start[-1] if intercept else 0.0)
    x, _, criterion = solver.solve(
        X, data.b, datafit, compiled_clone(kind(penalty["lam"], penalty["theta"])), start, margins
    )
    return np.asarray(x), float(criterion)


def largest_lambda(X: Any, data: Dataset) -> float:
    """From which λ on x = 0 is stationary, in skglm's units."""
    residual = data.b / 2 if data.loss == "logistic" else data.b
    return float(np.max(np.abs(X.T @ residual))) / data.b.size


class SkglmCut(Peer):
    """MCP with an intercept, columns of unit size, λ falling until k features are in; the k largest stay."""

    package = "skglm"
    by_columns = True

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        """Fit the data."""
        X = scaled(data.X, column_scales(data.X))
        d = X.shape[1]
        largest, x = largest_lambda(X, data), None
        for share in np.geomspace(1.0, 1e-3, CUT_POINTS):
            penalty = {"name": "mcp", "lam": float(share * largest), "theta": CUT_THETA}
            x, _ = solved(X, data, penalty, 1e-4, x, True)
            if np.count_nonzero(x[:d]) >= ask["k"]:
                break
        assert x is not None
        kept = np.argsort(-np.abs(x[:d]), kind="stable")[: ask["k"]]
        cut = np.zeros_like(x)
        cut[kept] = x[kept]
        return Fit(cut, f"{np.count_nonzero(x[:d])} nonzeros before the cut")


KINDS = {"skglm": Skglm, "skglm cut to k": SkglmCut}
