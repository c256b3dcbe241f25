"""Counts, which no other load on the machine can change: passes and bytes of X; and a path of 100 levels.

The path is compared with single fits at ten of its levels: time and passes against their mean, losses one by one.
"""

from __future__ import annotations

from benchmarks.judge import Penalty, judge
from benchmarks.measurements import Row
from benchmarks.processes import Answer, Ask
from benchmarks.session import Session, judged_fit
from benchmarks.tables.convex_concave import counting_mcp

NAME = "counts"
DATA = ("riboflavin", "a9a", "reuters21578", "rcv1", "gisette_like", "news20", "mnist")
QUICK = ("riboflavin", "reuters21578")
STAND_INS = ("generated-dense",)
FEATURES = (5, 20, 50, 100)
THRESHOLDS = (0.5, 2.0)
LEVELS = [1.3 + 0.5 * i for i in range(100)]  # none is a whole number of features
SAMPLED = list(range(9, 100, 10))
STARTS = ("levelprox direct", "levelprox continuation")


def measure(session: Session, name: str) -> None:
    """Measure counted fits, then the path and single fits at its levels."""
    data = session.data(name)
    asks: dict[str, Ask] = {
        f"k={k} a={threshold:g}": {"penalty": counting_mcp(threshold), "level": k + 0.5, "count": True}
        for threshold in THRESHOLDS
        for k in (FEATURES[:2] if session.quick else FEATURES)
        if k <= min(data.X.shape) / 2
    }
    for start in STARTS:
        session.measure(NAME, data, start, asks, judged_fit(data), repeats=1)
    _path(session, name)


def _path(session: Session, name: str) -> None:
    data = session.data(name)
    levels = [level for level in LEVELS if level <= min(data.X.shape) / 2]
    sampled = [index for index in SAMPLED if index < len(levels)] or [len(levels) - 1]
    mcp = counting_mcp(THRESHOLDS[1])
    singles: dict[str, Ask] = {f"level {levels[i]:.1f}": {"penalty": mcp, "level": levels[i]} for i in sampled}
    session.measure(NAME, data, "levelprox continuation", singles, judged_fit(data), repeats=3)

    def judged(ask: Ask, answer: Answer) -> Row:
        assert answer.coefficients is not None
        rows = answer.coefficients.reshape(len(sampled), data.X.shape[1])
        points = [judge(data.X, data.b, data.loss, row, Penalty(**mcp)) for row in rows]  # type: ignore[arg-type]
        for index, point in zip(sampled, points, strict=True):
            within = point.g <= levels[index] * (1 + 1e-12)
            session.measurements.add(
                {"table": NAME, "data": name, "case": f"level {levels[index]:.1f}", "peer": "levelprox path"}
                | {"status": "ok" if within else "error", "level": levels[index], "loss": point.loss, "g": point.g}
                | {"nonzeros": point.nonzeros, "version": answer.version}
            )
        return {"loss": points[-1].loss, "nonzeros": points[-1].nonzeros}

    whole: dict[str, Ask] = {f"path of {len(levels)}": {"penalty": mcp, "levels": levels, "sampled": sampled}}
    session.measure(NAME, data, "levelprox path", whole, judged, repeats=3)
