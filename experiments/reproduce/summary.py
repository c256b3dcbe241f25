"""What came of experiments, in print: tables and verdicts of each, then what was skipped and what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.reproduce.study import Claim, Report, Table

MARKS = {True: "holds", False: "MISSED", None: "open"}
_NAMED = 3  # tasks with the same trouble that are named


def tell(report: Report) -> None:
    """Tables and verdicts of one experiment."""
    if report.outcome is None:
        return
    print(f"\n{report.study.name}: {report.study.title}")
    for table in report.outcome.tables:
        print("\n" + in_columns(table))
    for claim in report.outcome.claims:
        print(f"\n[{MARKS[claim.holds]}] {claim.paper}\n  here: {claim.ours}")
        if claim.remark:
            print(f"  {claim.remark}")


def in_columns(table: Table) -> str:
    """Return a table in text, columns as wide as they must be."""
    rows = [table.header, *table.rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([table.caption, *lines])


def summarise(reports: Sequence[Report], log: Path) -> int:
    """Print results, verdicts, skipped and failed tasks; return 1 if something failed."""
    print("\nSummary")
    for report in reports:
        claims = report.outcome.claims if report.outcome else []
        print(f"  {report.study.name:16} {report.seconds:8.0f} s of work  {verdicts(claims)}")
        for word, what in troubles(report):
            for reason, names in by_reason(what).items():
                print(f"    {word}: {names}: {reason}")
    if any(report.failed for report in reports):
        print(f"  where what failed did so: {log}")
        return 1
    return 0


def verdicts(claims: Sequence[Claim]) -> str:
    """How many of each, in words."""
    counts = ((sum(claim.holds is holds for claim in claims), mark) for holds, mark in MARKS.items())
    return ", ".join(f"{n} {mark}" for n, mark in counts if n) or "nothing to claim"


def troubles(report: Report) -> list[tuple[str, Mapping[str, str]]]:
    """Return the tasks that did not finish, by their status; empty groups are omitted."""
    every = (("ended at a limit", report.limited), ("skipped", report.skipped), ("failed", report.failed))
    return [(word, what) for word, what in every if what]


def by_reason(what: Mapping[str, str]) -> dict[str, str]:
    """Reason → the tasks that give it: what is missing is mostly missing for many of them."""
    names: dict[str, list[str]] = {}
    for name, reason in what.items():
        names.setdefault(reason, []).append(name)
    return {reason: _listed(tasks) for reason, tasks in names.items()}


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
