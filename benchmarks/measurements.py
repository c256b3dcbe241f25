"""The CSV file of a run: a line for each measurement, written at once; resumed runs and reports read it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

Row = dict[str, Any]

COLUMNS = (
    "table", "data", "case", "peer", "version", "status",
    "loss", "level", "g", "nonzeros", "kkt", "seconds", "repeats", "passes", "bytes", "n", "d", "kind", "note",
)  # fmt: skip
_KEY = ("table", "data", "case", "peer")
_NUMBERS = ("loss", "level", "g", "nonzeros", "kkt", "seconds", "repeats", "passes", "bytes", "n", "d")


class Measurements:
    """Rows by (table, data, case, peer); a row that is there is not measured again."""

    def __init__(self, path: Path, resume: bool = False) -> None:
        self.path = path
        self.rows: dict[tuple[str, ...], Row] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if resume and path.exists():
            # Failures and missing programs are measured again; timeouts and unsupported cases are results.
            kept = [row for row in read(path) if row["status"] not in ("error", "not installed")]
            self.rows = {_key(row): row for row in kept}
        with path.open("w", newline="", encoding="utf-8") as file:  # also drops a line that was cut in the middle
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(self.rows.values())

    def add(self, row: Row) -> None:
        """Keep it, and have it on disk before anything else happens."""
        whole = {name: row.get(name, "") for name in COLUMNS}
        self.rows[_key(whole)] = whole
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, COLUMNS).writerow(whole)

    def get(self, table: str, data: str, case: str, peer: str) -> Row | None:
        """Return a row measured before."""
        return self.rows.get((table, data, case, peer))


def _key(row: Row) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in _KEY)


def read(path: Path) -> list[Row]:
    """All whole rows, numbers as numbers; what is empty or cut off is left out."""
    rows = []
    with path.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            if line.get("note") is None:  # cut off by a kill
                continue
            row: Row = {name: line.get(name, "") for name in COLUMNS}
            for name in _NUMBERS:
                row[name] = float(row[name]) if row[name] != "" else ""
            rows.append(row)
    return rows
