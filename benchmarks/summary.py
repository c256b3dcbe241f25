"""The summary of a run in Markdown, from its rows alone: every bar, what misses it, and the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from benchmarks.bars import Bar, bars
from benchmarks.measurements import Row

MOST_MISSED = 40  # cases named for each bar
PEERLESS = "·"
Cell = Callable[[Row], str]


def summary(rows: list[Row]) -> str:
    """Return the whole text."""
    judged = bars(rows)
    parts = [
        "# Benchmarks",
        _overview(rows),
        "## Requirements and results",
        _bars(judged),
        _by_data(judged),
        _missed(judged),
        *_tables(rows),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _overview(rows: list[Row]) -> str:
    statuses = Counter(str(row["status"]) for row in rows)
    versions = sorted({f"{row['peer'].split()[0]} {row['version']}" for row in rows if row["version"]})
    counted = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    return f"{len(rows)} measurements: {counted}. Versions: {', '.join(versions)}."


def _bars(judged: list[Bar]) -> str:
    lines = ["| comparison | found | required | cases | missed by | verdict |", "|---|---:|---|---:|---:|---|"]
    for bar in judged:
        lines.append(
            f"| {bar.claim} | {_found(bar)} | {bar.required} | {len(bar.cases)} | {len(bar.missed)} | {bar.verdict} |"
        )
    return "\n".join(lines)


def _found(bar: Bar) -> str:
    """Return the deciding figure, and whether it is a median or a worst case."""
    if not bar.cases:
        return "-"
    if bar.value != bar.value:
        return "no answer"
    return f"{'median' if bar.median is not None else 'worst'} {bar.value:{bar.unit}}"


def _by_data(judged: list[Bar]) -> str:
    """Return the figures of each data set, with the number of cases that miss the bar."""
    judged = [bar for bar in judged if bar.cases]
    names = list(dict.fromkeys(case.data for bar in judged for case in bar.cases))
    if not names:
        return ""
    lines = ["| | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for bar in judged:
        parts = [bar.on(name) for name in names]
        cells = [f"{_found(part)} ({len(part.missed)}/{len(part.cases)})" if part.cases else "" for part in parts]
        lines.append(f"| {bar.claim}, {bar.required} | " + " | ".join(cells) + " |")
    return "Data set by data set (cases that miss the bar, of all):\n\n" + "\n".join(lines)


def _missed(judged: list[Bar]) -> str:
    parts = []
    for bar in judged:
        if not bar.missed:
            continue
        worst = sorted(bar.missed, key=lambda case: -case.value if case.value == case.value else float("-inf"))
        named = [f"- {case.label}" for case in worst[:MOST_MISSED]]
        if len(worst) > MOST_MISSED:
            named.append(f"- and {len(worst) - MOST_MISSED} more")
        parts.append("\n".join([f"**Missed: {bar.claim}** ({bar.required})", "", *named]))
    return "\n\n".join(["## Missed", *parts]) if parts else "No case missed its bar."


def _tables(rows: list[Row]) -> list[str]:
    """Return the results of each table: a line for each case, a column for each competitor."""
    parts = []
    for table in dict.fromkeys(row["table"] for row in rows):
        own = [row for row in rows if row["table"] == table]
        parts.append(f"## {table}")
        for title, cell in (("Loss (nonzeros)", _loss), ("KKT residual", _kkt), ("Seconds", _seconds)):
            grid = _grid(own, cell)
            if grid:
                parts.append(f"{title}:\n\n{grid}")
        if any(row["passes"] != "" for row in own):
            parts.append(f"Passes over X (bytes read, in sizes of X):\n\n{_grid(own, _passes)}")
        unanswered = [
            f"- {row['data']} {row['case']}, {row['peer']}: {row['status']}. {row['note']}" for row in own if _odd(row)
        ]
        if unanswered:
            parts.append("Without an answer:\n\n" + "\n".join(unanswered))
    return parts


def _odd(row: Row) -> bool:
    return bool(row["status"] != "ok")


def _grid(rows: Iterable[Row], cell: Cell) -> str:
    """Return a table of cases and competitors; empty if no competitor has the figure."""
    rows = list(rows)
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    cells = {(row["data"], row["case"], row["peer"]): cell(row) for row in rows}
    if not any(_is_figure(text) for text in cells.values()):
        return ""
    lines = ["| data | case | " + " | ".join(peers) + " |", "|---|---|" + "---:|" * len(peers)]
    for data, case in dict.fromkeys((row["data"], row["case"]) for row in rows):
        found = [cells.get((data, case, peer), PEERLESS) for peer in peers]
        lines.append(f"| {data} | {case} | " + " | ".join(found) + " |")
    return "\n".join(lines)


def _is_figure(text: str) -> bool:
    return text[:1].isdigit()


def _shown(row: Row, name: str, text: Callable[[float], str]) -> str:
    if row["status"] != "ok":
        return str(row["status"])
    return text(row[name]) if row[name] != "" else PEERLESS


def _loss(row: Row) -> str:
    nonzeros = f" ({row['nonzeros']:g})" if row["nonzeros"] != "" else ""
    return _shown(row, "loss", lambda value: f"{value:.6f}{nonzeros}")


def _kkt(row: Row) -> str:
    return _shown(row, "kkt", lambda value: f"{value:.0e}")


def _seconds(row: Row) -> str:
    if row["status"] == "timeout":
        return f"> {row['seconds']:g}"
    return _shown(row, "seconds", lambda value: f"{value:.3g}")


def _passes(row: Row) -> str:
    size = f" ({row['bytes']:.1f})" if row["bytes"] != "" else ""
    return _shown(row, "passes", lambda value: f"{value:g}{size}")
