"""levelprox itself: from the null fit, by continuation, at most k features, a path."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.datasets import Dataset
from benchmarks.peers.base import Ask, Fit, Peer, Vector


def constraint(ask: Ask) -> Any:
    """φ by the name and parameters of the ask; "threshold" gives the MCP whose levels count features."""
    from levelprox.constraints import L1, MCP, SCAD

    penalty = ask["penalty"]
    if "threshold" in penalty:
        return MCP.from_threshold(penalty["threshold"])
    if penalty["name"] == "l1":
        return L1(penalty["lam"])
    return {"mcp": MCP, "scad": SCAD}[penalty["name"]](penalty["lam"], penalty["theta"])


class _Levelprox(Peer):
    package = "levelprox"
    start = "direct"

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        from levelprox import LinearModel, Problem, solve

        problem = Problem(LinearModel(data.X, data.b, data.loss), constraint(ask), ask["level"])
        options: dict[str, Any] = {"tol": ask.get("tol", 1e-6), "start": self.start}
        if ask.get("count"):
            return _counted_fit(problem, options)
        result = solve(problem, **options)
        note = "" if str(result.status) == "solved" else str(result.status)
        return Fit(result.x, note, {"passes": result.n_grad, "steps": result.n_inner})


def _counted_fit(problem: Any, options: dict[str, Any]) -> Fit:
    """Fit with passes and bytes counted in the products of designs; slower, so never timed."""
    from benchmarks.engine import counted
    from levelprox import solve

    with counted(problem.objective.design) as counter:
        result = solve(problem, **options)
    note = "counted" if str(result.status) == "solved" else f"counted, {result.status}"
    share = counter.bytes / problem.objective.design.nbytes
    return Fit(result.x, note, {"passes": counter.passes, "steps": result.n_inner, "bytes": share})


class Direct(_Levelprox):
    """levelprox with start="direct"."""


class Continuation(_Levelprox):
    """levelprox with start="continuation"."""

    start = "continuation"


class BestSubset(Peer):
    """At most k features."""

    package = "levelprox"

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        """Fit the data."""
        import levelprox

        model = levelprox.LinearModel(data.X, data.b, data.loss, fit_intercept=bool(ask.get("intercept")))
        subset = levelprox.best_subset(model, ask["k"])
        return Fit(np.asarray(subset.x), "", {"passes": int(subset.n_grad)})


class SubsetPath(Peer):
    """At most k features for each k of the ask; coefficients come back one row after another."""

    package = "levelprox"

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        """Fit the data."""
        import levelprox

        model = levelprox.LinearModel(data.X, data.b, data.loss, fit_intercept=True)
        path = levelprox.subset_path(model, ask["ks"])
        return Fit(path.coefficients.toarray().ravel(), "", {"passes": int(np.sum(path.n_grad))})


class LevelPath(Peer):
    """All levels of the ask in one call; coefficients come back one row after another, for the levels in `sampled`."""

    package = "levelprox"

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        """Fit the data."""
        import levelprox

        model = levelprox.LinearModel(data.X, data.b, data.loss)
        problem = levelprox.Problem(model, constraint(ask), ask["levels"][-1])
        path = levelprox.path(problem, np.asarray(ask["levels"]))
        rows = scipy.sparse.csr_array(path.coefficients)[list(ask.get("sampled", [-1]))]
        return Fit(np.asarray(rows.todense()).ravel(), "", {"passes": int(np.sum(path.n_grad))})

    def small_ask(self, ask: Ask) -> Ask:
        """Return the same request for a small problem."""
        return {**super().small_ask(ask), "sampled": [-1]}


KINDS = {
    "levelprox direct": Direct,
    "levelprox continuation": Continuation,
    "levelprox best_subset": BestSubset,
    "levelprox path": LevelPath,
    "levelprox subset_path": SubsetPath,
}
