"""The ℓ1 constraint at the level ‖x‖₁ of the most accurate peer, against celer, liblinear and adelie; and MCP.

MCP is fitted at as many features as that peer found.
λ = λ_max/5, /20 and /50, no intercept. The peers run at every tolerance of a ladder, and the table takes the
fastest fit whose judged KKT residual is at most that of levelprox, or 1e-6: equal accuracy, not equal settings. Each is
judged by its own problem: theirs by λ, which fixes the multiplier, levelprox by the level. (With the multiplier free,
the origin would be perfect at its own level 0.)
"""

from __future__ import annotations

from benchmarks.judge import null_scale
from benchmarks.measurements import Row
from benchmarks.processes import Ask
from benchmarks.session import Session, judged_fit
from benchmarks.tables.convex_concave import counting_mcp

NAME = "l1"
DATA = ("a9a", "reuters21578", "rcv1", "gisette_like", "news20", "mnist", "riboflavin", "we8there")
QUICK = ("riboflavin", "reuters21578")
STAND_INS = ("generated-dense", "generated-squared")
SHARES = (5, 20, 50)
LADDER = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
THRESHOLD = 2.0
PEERS = ("celer", "liblinear", "adelie")


def measure(session: Session, name: str) -> None:
    """All tolerances of the peers, then levelprox at the level and the number of features they found."""
    data = session.data(name)
    judged = judged_fit(data)
    largest = null_scale(data.X, data.b, data.loss)
    levels, features = {}, {}
    for share in SHARES[:1] if session.quick else SHARES:
        penalty = {"name": "l1", "lam": largest / share}
        asks: dict[str, Ask] = {
            f"/{share} tol={tol:g}": {"penalty": penalty, "multiplier": 1.0, "own_tol": tol}
            for tol in (LADDER[1::2] if session.quick else LADDER)
        }
        rows = [row for peer in PEERS for row in session.measure(NAME, data, peer, asks, judged)]
        best = most_accurate(rows)
        if best is not None and best["g"] > 0:
            # The judge's g of λ|x|; the constraint has λ = 1.
            levels[f"/{share}"] = {"penalty": {"name": "l1", "lam": 1.0}, "level": best["g"] / penalty["lam"]}
            features[f"/{share} mcp"] = {"penalty": counting_mcp(THRESHOLD), "level": best["nonzeros"] + 0.5}
    session.measure(NAME, data, "levelprox direct", levels, judged)
    session.measure(NAME, data, "levelprox continuation", features, judged)


def most_accurate(rows: list[Row | None]) -> Row | None:
    """Return the row with the least KKT residual."""
    good = [row for row in rows if row is not None and row["status"] == "ok"]
    return min(good, key=lambda row: float(row["kkt"]), default=None)
