"""Requirements (bars) and verdicts on them, from the rows alone.

A case that levelprox did not solve misses every bar. A case that a competitor did not solve is not used to compare
losses; in comparisons of times a timeout counts as its limit.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace

from benchmarks.measurements import Row

DIRECT, CONTINUATION, SUBSET, PATH = (
    "levelprox direct",
    "levelprox continuation",
    "levelprox best_subset",
    "levelprox path",
)
SUBSET_PATH = "levelprox subset_path"
SHORT = 0.05  # seconds: a shorter time meets every bar
SKGLM_LOSS, SUBSET_LOSS, PATH_LOSS = 1e-6, 1e-9, 1e-3  # relative
EQUAL_KKT = 1e-6


@dataclass(frozen=True)
class Case:
    """One comparison: the value found, and whether it meets the bar; nan if levelprox has no result."""

    label: str
    value: float
    met: bool
    data: str = ""


@dataclass(frozen=True)
class Bar:
    """A claim, its requirement and its cases: each must meet it, or their median if `median` is given."""

    claim: str
    required: str
    cases: list[Case]
    median: float | None = None
    unit: str = ".3g"

    @property
    def value(self) -> float:
        """The median, or the worst."""
        values = [case.value for case in self.cases if case.value == case.value]
        if not values:
            return float("nan")
        return statistics.median(values) if self.median is not None else max(values)

    def on(self, data: str) -> Bar:
        """Return the same bar on one data set."""
        return replace(self, cases=[case for case in self.cases if case.data == data])

    @property
    def missed(self) -> list[Case]:
        """The cases that miss it; for a median, those without an answer."""
        return [case for case in self.cases if not case.met]

    @property
    def verdict(self) -> str:
        """Return "met", "missed" or "not measured"."""
        if not self.cases:
            return "not measured"
        if self.median is not None:
            return "met" if self.value <= self.median and not self.missed else "missed"
        return "missed" if self.missed else "met"


def answered(row: Row) -> bool:
    """Whether there are figures."""
    return bool(row["status"] == "ok")


def pairs(rows: Iterable[Row], table: str, ours: str, theirs: str) -> list[tuple[Row, Row]]:
    """Return the rows of levelprox and of a competitor for each case of both."""
    kept = [row for row in rows if row["table"] == table]
    found = {(row["data"], row["case"]): row for row in kept if row["peer"] == theirs}
    return [
        (row, found[row["data"], row["case"]])
        for row in kept
        if row["peer"] == ours and (row["data"], row["case"]) in found
    ]


def label(row: Row) -> str:
    """Return the label of a row: data and case."""
    return f"{row['data']} {row['case']}"


def losses(compared: list[tuple[Row, Row]], rounding: float) -> list[Case]:
    """Return the ratio of the losses of levelprox and the competitor, minus one."""
    cases = []
    for ours, theirs in compared:
        if not answered(theirs):
            continue
        if not answered(ours):
            cases.append(Case(f"{label(ours)}: {ours['status']}", float("nan"), False, ours["data"]))
            continue
        excess = ours["loss"] - theirs["loss"]
        against = f"{label(ours)} ({theirs['peer']}): {ours['loss']:.6g} against {theirs['loss']:.6g}"
        relative = excess / theirs["loss"] if theirs["loss"] > 0 else (0.0 if excess <= 0 else float("inf"))
        cases.append(Case(against, relative, relative <= rounding, ours["data"]))
    return cases


def times(compared: list[tuple[Row, Row]], limit: float | None, short: float = 0.0) -> list[Case]:
    """Return the ratio of seconds; met within the limit, or if short. Without a limit every result meets it."""
    cases = []
    for ours, theirs in compared:
        if not (answered(theirs) or theirs["status"] == "timeout"):
            continue
        if not answered(ours):
            cases.append(Case(f"{label(ours)}: {ours['status']}", float("nan"), False, ours["data"]))
            continue
        ratio = ours["seconds"] / theirs["seconds"]
        against = f"{label(ours)} ({theirs['peer']}): {ours['seconds']:.3g} s against {theirs['seconds']:.3g} s"
        cases.append(Case(against, ratio, limit is None or ratio <= limit or ours["seconds"] <= short, ours["data"]))
    return cases


def figures(rows: Iterable[Row], name: str, limit: float) -> list[Case]:
    """Compare a column with a limit."""
    cases = []
    for row in rows:
        if not answered(row):
            cases.append(Case(f"{label(row)}: {row['status']}", float("nan"), False, row["data"]))
        elif row[name] != "":
            cases.append(Case(f"{label(row)}: {row[name]:.3g}", row[name], row[name] <= limit, row["data"]))
    return cases


def bars(rows: list[Row]) -> list[Bar]:
    """All of them, in the order of the tables."""
    return [*_skglm(rows), *_subsets(rows), *_convex_concave(rows), *_l1(rows), *_counts(rows), *_cold(rows)]


def _skglm(rows: list[Row]) -> list[Bar]:
    found = []
    for start in (CONTINUATION, DIRECT):
        short = start.removeprefix("levelprox ")
        at = pairs(rows, "skglm", start, "skglm")
        alone = pairs(rows, "skglm", start, "skglm from zero")
        claim = f"loss at skglm's λ, θ, η, {short}: relative excess"
        found.append(Bar(claim, "≤ 1e-6, every case", losses(at, SKGLM_LOSS), unit=".2e"))
        limit = 0.1 if start == DIRECT else 0.5
        for what, compared in (("single fits", alone), ("fits warm-started along its path", at)):
            claim = f"time, {short} over skglm's {what}"
            found.append(Bar(claim, f"median ≤ {limit:g}", times(compared, None), median=limit))
            if start == DIRECT:
                every = times(compared, 0.5, SHORT)
                found.append(Bar(claim, "≤ 0.5 or 50 ms, every case", every))
    return found


def _subsets(rows: list[Row]) -> list[Bar]:
    found = []
    for peer in ("abess k", "abess 1..k", "l0learn", "l0learn swaps", "skscope", "omp", "skglm cut to k"):
        cases = losses(pairs(rows, "at most k", SUBSET, peer), SUBSET_LOSS)
        found.append(Bar(f"loss at equal k, over {peer}: relative excess", "≤ 1e-9, every case", cases, unit=".2e"))
    both = [pair for peer in ("abess k", "abess 1..k") for pair in pairs(rows, "at most k", SUBSET, peer)]
    found.append(Bar("time at equal k, over abess", "≤ 1 or 50 ms, every case", times(both, 1.0, SHORT)))
    text = [(ours, theirs) for ours, theirs in both if ours["kind"] == "sparse logistic"]
    found.append(Bar("time at equal k, over abess, sparse logistic", "≤ 0.05, every case", times(text, 0.05)))
    pursuit = times(pairs(rows, "at most k", SUBSET, "omp"), 5.0)
    found.append(Bar("time at equal k, over matching pursuit", "≤ 5, every case", pursuit))
    return [*found, *_subset_paths(rows)]


def _timed(compared: list[tuple[Row, Row]]) -> list[tuple[Row, Row]]:
    """Return the pairs of whole paths; rows for single points of a path have no time."""
    return [pair for pair in compared if " k=" not in pair[0]["case"]]


def _subset_paths(rows: list[Row]) -> list[Bar]:
    """Compare subset_path with its single fits and with the paths of other programs."""
    name = "k path"
    found = []
    for peer, limit in (("l0learn", 3.0), ("abess path", 1.0)):
        claim = f"time of the best subsets of 1..k, over {peer}"
        found.append(Bar(claim, f"≤ {limit:g}, every case", times(_timed(pairs(rows, name, SUBSET_PATH, peer)), limit)))
    singles = {(row["data"], row["case"]): row for row in rows if row["table"] == name and row["peer"] == SUBSET}
    whole = [row for row in rows if row["peer"] == SUBSET_PATH and " k=" not in row["case"]]
    last = [(row, f"{row['case']} k={row['case'].partition('..')[2]}") for row in whole]
    largest = [(row, singles[row["data"], case]) for row, case in last if (row["data"], case) in singles]
    found.append(Bar("time of the best subsets of 1..k, in single fits", "≤ 6, every case", times(largest, 6.0)))
    for peer, rounding in ((SUBSET, PATH_LOSS), ("l0learn", SUBSET_LOSS), ("l0learn swaps", SUBSET_LOSS)):
        compared = [pair for pair in pairs(rows, name, SUBSET_PATH, peer) if " k=" in pair[0]["case"]]
        claim = f"loss on the path of k, over {'single fits' if peer == SUBSET else peer}: relative excess"
        found.append(Bar(claim, f"≤ {rounding:g}, every case", losses(compared, rounding), unit=".2e"))
    return found


def _convex_concave(rows: list[Row]) -> list[Bar]:
    found = []
    for start in (DIRECT, CONTINUATION):
        compared = pairs(rows, "convex-concave", start, "convex-concave")
        done = [pair for pair in compared if answered(pair[1])]
        late = [pair for pair in compared if pair[1]["status"] == "timeout"]
        short = start.removeprefix("levelprox ")
        found.append(Bar(f"time, {short} over convex-concave", "≤ 0.01, every case", times(done, 0.01)))
        found.append(Bar(f"time, {short} over convex-concave's limit", "≤ 0.001, every case", times(late, 0.001)))
    return found


def _l1(rows: list[Row]) -> list[Bar]:
    found = []
    for peer in ("celer", "liblinear", "adelie"):
        convex, concave, lower = [], [], []
        for ours in (row for row in rows if row["table"] == "l1" and row["peer"] in (DIRECT, CONTINUATION)):
            share, _, mcp = ours["case"].partition(" ")
            theirs = equally_accurate(rows, ours["data"], share, peer)
            if theirs is None:
                continue
            (concave if mcp else convex).append((ours, theirs))
            if mcp:
                lower.append((ours, theirs))
        found.append(Bar(f"time, ℓ1 constraint over {peer} at equal KKT", "≤ 1, every case", times(convex, 1.0)))
        found.append(Bar(f"time, MCP by continuation over {peer}", "≤ 3, every case", times(concave, 3.0)))
        cases = losses(lower, 0.0)
        found.append(Bar(f"loss, MCP at {peer}'s nonzeros: relative excess", "≤ 0, every case", cases, unit=".2e"))
    return found


def equally_accurate(rows: list[Row], data: str, share: str, peer: str) -> Row | None:
    """Return the fastest fit of a peer with equal accuracy, else its most accurate one; None if it has no result."""
    tried = [
        row
        for row in rows
        if row["table"] == "l1"
        and row["data"] == data
        and row["peer"] == peer
        and row["case"].startswith(f"{share} tol=")
        and answered(row)
    ]
    mine = [row for row in rows if (row["table"], row["data"], row["case"]) == ("l1", data, share) and answered(row)]
    enough = max([EQUAL_KKT, *(row["kkt"] for row in mine)])
    good = [row for row in tried if row["kkt"] <= enough]
    if good:
        return min(good, key=_seconds)
    return min(tried, key=lambda row: float(row["kkt"]), default=None)


def _seconds(row: Row) -> float:
    return float(row["seconds"])


def _counts(rows: list[Row]) -> list[Bar]:
    counted = [row for row in rows if row["table"] == "counts" and row["case"].startswith("k=")]
    continued = [row for row in counted if row["peer"] == CONTINUATION]
    found = [
        Bar("passes over X, continuation", "≤ 30, every case", figures(continued, "passes", 30)),
        Bar("bytes of X read over its size, continuation", "≤ 60, every case", figures(continued, "bytes", 60)),
    ]
    for name, unit in (("seconds", "time"), ("passes", "passes")):
        cases = []
        for path in (row for row in rows if row["peer"] == PATH and row["case"].startswith("path of")):
            single = [row for row in _singles(rows, path["data"]) if answered(row)]
            if not answered(path):
                cases.append(Case(f"{label(path)}: {path['status']}", float("nan"), False, path["data"]))
            elif single:
                fits = path[name] / max(single, key=_level)[name]
                cases.append(Case(f"{label(path)}: {fits:.3g} fits", fits, fits <= 6, path["data"]))
        claim = f"{unit} of a path of 100 levels, in single fits at the largest level"
        found.append(Bar(claim, "≤ 6, every case", cases))
    compared = [pair for pair in pairs(rows, "counts", PATH, CONTINUATION) if pair[0]["case"].startswith("level")]
    cases = losses(compared, PATH_LOSS)
    found.append(Bar("loss on the path over single fits: relative excess", "≤ 1e-3, every case", cases, unit=".2e"))
    return found


def _level(row: Row) -> float:
    return float(row["level"])


def _singles(rows: list[Row], data: str) -> list[Row]:
    own = [row for row in rows if (row["table"], row["data"], row["peer"]) == ("counts", data, CONTINUATION)]
    return [row for row in own if row["case"].startswith("level")]


def _cold(rows: list[Row]) -> list[Bar]:
    return [
        Bar(
            f"cold start, {start.removeprefix('levelprox ')} over skglm",
            "≤ 0.15, every case",
            times(pairs(rows, "cold", start, "skglm"), 0.15),
        )
        for start in (DIRECT, CONTINUATION)
    ]
