"""The first fit of a new process: interpreter, imports, compilation and all; reading the data does not count.

skglm at λ_max/4, MCP as in the table of its path (wide); levelprox at g of skglm's point. The others as in their
tables.
"""

from __future__ import annotations

from benchmarks.judge import null_scale
from benchmarks.processes import Ask
from benchmarks.session import Session, judged_fit
from benchmarks.tables.at_most_k import judged_support
from benchmarks.tables.skglm_path import ROUNDING, STARTS, penalties

NAME = "cold"
DATA = ("a9a", "reuters21578", "riboflavin", "rcv1")
QUICK = ("reuters21578",)
STAND_INS = ("generated-dense",)
SHARE = 4
PROCESSES = 3
K = 10
PEERS = ("levelprox best_subset", "abess k", "skscope", "omp")


def measure(session: Session, name: str) -> None:
    """Measure some processes for each competitor."""
    data = session.data(name)
    largest = null_scale(data.X, data.b, data.loss) / (1.0 if data.loss == "logistic" else 2.0)
    penalty = {**penalties(data, quick=True)["wide"], "lam": largest / SHARE}
    for number in range(1, 2 if session.quick else PROCESSES + 1):
        case = f"mcp #{number}"
        ask: Ask = {"penalty": penalty, "tol": 1e-6}
        (theirs,) = session.measure(NAME, data, "skglm", {case: ask}, judged_fit(data), cold=True)
        if theirs is not None and theirs["status"] == "ok":
            ours: dict[str, Ask] = {case: {**ask, "level": theirs["g"] * (1 + ROUNDING)}}
            for start in STARTS:
                session.measure(NAME, data, start, ours, judged_fit(data), cold=True)
        subset: dict[str, Ask] = {f"k={K} #{number}": {"k": K, "intercept": True}}
        for peer in PEERS[:2] if session.quick else PEERS:
            session.measure(NAME, data, peer, subset, judged_support(data), cold=True)
