"""LCPP with Barzilai–Borwein steps and the paper's settings, against Newton steps on working sets."""

from __future__ import annotations

from benchmarks.processes import Ask
from benchmarks.session import Session, judged_fit
from benchmarks.tables.convex_concave import counting_mcp

NAME = "paper"
DATA = ("a9a", "reuters21578", "rcv1", "gisette_like", "news20", "riboflavin")
QUICK = ("riboflavin",)
STAND_INS = ("generated-dense",)
FEATURES = (20, 50)
THRESHOLD = 2.0
PEERS = ("levelprox direct", "spectral")


def measure(session: Session, name: str) -> None:
    """Levels k + ½ of the counting MCP."""
    data = session.data(name)
    features = FEATURES[:1] if session.quick else FEATURES
    asks: dict[str, Ask] = {f"k={k}": {"penalty": counting_mcp(THRESHOLD), "level": k + 0.5} for k in features}
    for peer in PEERS:
        session.measure(NAME, data, peer, asks, judged_fit(data), repeats=2)
