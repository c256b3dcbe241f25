"""Loss and time at skglm's own points: its λ path first, then levelprox with the same λ, θ and η = g at skglm's point.

Twenty λ, log-spaced from skglm's λ_max (left out) to λ_max/20, no intercept, data as loaded, both at a tolerance of
1e-6 relative to the gradient of the null fit. skglm walks down the path from fit to fit; `skglm from zero` are single
fits at the same λ. η is g by the judge, a relative 1e-13 up: where every coefficient is past the threshold, g is a
multiple of the cap, and the last bit of λ²θ/2 would decide whether skglm's own point is feasible. Penalties:

- mcp: θ = 3, skglm's default. On data whose columns are small every coefficient of a solution is past the threshold
  θλ, so that η is a multiple of the cap: the level counts features.
- scad: θ = 3.7, Fan and Li's.
- wide: MCP with θ = 30/L, L the largest curvature of ψ along a coordinate: ten times what θ = 3 is for columns of unit
  size, so that some coefficients lie below the threshold and levels are not multiples of the cap.
"""

from __future__ import annotations

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.judge import null_scale
from benchmarks.peers.base import Ask, column_scales
from benchmarks.session import Session, judged_fit

NAME = "skglm"
DATA = ("a9a", "reuters21578", "rcv1", "gisette_like", "news20", "mnist")
QUICK = ("reuters21578",)
STAND_INS = ("generated-dense",)
POINTS = 20
LOWEST = 0.05  # of λ_max
TOL = 1e-6
ROUNDING = 1e-13  # of η
STARTS = ("levelprox direct", "levelprox continuation")


def penalties(data: Dataset, quick: bool) -> dict[str, dict[str, float | str]]:
    """Name, and what θ is."""
    steepest = float(np.max(column_scales(data.X)) ** 2) * (0.25 if data.loss == "logistic" else 1.0)
    found: dict[str, dict[str, float | str]] = {
        "mcp": {"name": "mcp", "theta": 3.0},
        "scad": {"name": "scad", "theta": 3.7},
        "wide": {"name": "mcp", "theta": 30.0 / steepest},
    }
    return {"wide": found["wide"]} if quick else found


def measure(session: Session, name: str) -> None:
    """All penalties and points on one data set."""
    data = session.data(name)
    judged = judged_fit(data)
    largest = null_scale(data.X, data.b, data.loss) / (1.0 if data.loss == "logistic" else 2.0)
    lambdas = largest * np.geomspace(1.0, LOWEST, POINTS + 1)[1:]
    for kind, penalty in penalties(data, session.quick).items():
        asks: dict[str, Ask] = {
            f"{kind} {i:02d}": {"penalty": {**penalty, "lam": float(lam)}, "tol": TOL, "warm_start": i > 1}
            for i, lam in enumerate(lambdas, start=1)
        }
        theirs = session.measure(NAME, data, "skglm", asks, judged)
        shown = dict(list(asks.items())[3::4]) if session.quick else asks
        alone = {case: {**ask, "warm_start": False} for case, ask in shown.items()}
        session.measure(NAME, data, "skglm", alone, judged, label="skglm from zero")
        ours = {
            case: {**alone[case], "level": row["g"] * (1 + ROUNDING)}
            for case, row in zip(asks, theirs, strict=True)
            if case in shown and row is not None and row["status"] == "ok"
        }
        for start in STARTS:
            session.measure(NAME, data, start, ours, judged)
