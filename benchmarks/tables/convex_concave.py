"""The convex-concave procedure with a conic solver on small data, and on two on which it times out."""

from __future__ import annotations

from benchmarks.processes import Ask
from benchmarks.session import Session, judged_fit

NAME = "convex-concave"
DATA = ("generated-dense", "generated-squared", "a9a@2000", "riboflavin", "ALLAML", "a9a", "reuters21578")
QUICK = ("riboflavin", "ALLAML")
STAND_INS = ("generated-dense",)
FEATURES = (5, 20)
THRESHOLD = 0.5
PEERS = ("levelprox direct", "levelprox continuation", "convex-concave")


def counting_mcp(threshold: float) -> dict[str, float | str]:
    """Return the MCP with cap 1 that saturates at the threshold: levels count features."""
    return {"name": "mcp", "lam": 2 / threshold, "theta": threshold**2 / 2}


def measure(session: Session, name: str) -> None:
    """Levels k + ½ of the counting MCP."""
    data = session.data(name)
    features = FEATURES[:1] if session.quick else FEATURES
    asks: dict[str, Ask] = {f"k={k}": {"penalty": counting_mcp(THRESHOLD), "level": k + 0.5} for k in features}
    for peer in PEERS:
        session.measure(NAME, data, peer, asks, judged_fit(data))
