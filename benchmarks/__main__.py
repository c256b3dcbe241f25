"""levelprox against other programs: every table, or some of them.

    python -m benchmarks [--quick] [--only TABLE,...] [--data NAME,...] [--out results/bench] [--resume] [--limit S]

Rows are written to OUT/measurements.csv as they are measured. The summary and the figures use that file alone;
`python -m benchmarks --report` writes them without new measurements.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks.measurements import Measurements, read
from benchmarks.session import Session
from benchmarks.summary import summary
from benchmarks.tables import TABLES

QUICK_LIMIT = 20.0


def options() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small data, few cases: under five minutes")
    parser.add_argument("--only", help=f"tables, of {', '.join(TABLES)}")
    parser.add_argument("--data", help="data sets, instead of those fixed for each table")
    parser.add_argument("--without", default="", help="competitors to leave out")
    parser.add_argument("--out", type=Path, default=Path("results/bench"))
    parser.add_argument("--limit", type=float, help="seconds for each fit (300; 20 with --quick)")
    parser.add_argument("--resume", action="store_true", help="keep existing rows")
    parser.add_argument("--report", action="store_true", help="only write the summary of the existing rows")
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Measure the chosen tables, then report."""
    given = options().parse_args(arguments)
    path = given.out / "measurements.csv"
    if not given.report:
        _measure(given, path)
    report(path)


def _measure(given: argparse.Namespace, path: Path) -> None:
    names = given.only.split(",") if given.only else list(TABLES)
    unknown = set(names) - set(TABLES)
    if unknown:
        raise SystemExit(f"no table {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    real = bool(os.environ.get("LEVELPROX_DATA"))
    limit = given.limit or (QUICK_LIMIT if given.quick else 300.0)
    with tempfile.TemporaryDirectory(prefix="levelprox-bench-data-") as folder:
        without = frozenset(filter(None, given.without.split(",")))
        session = Session(Measurements(path, given.resume), Path(folder), limit, given.quick, without)
        for name in names:
            table = TABLES[name]
            fixed = (table.quick if given.quick else table.full) if real else table.stand_ins
            for data in given.data.split(",") if given.data else fixed:
                table.measure(session, data)


def report(path: Path) -> None:
    """Write the Markdown summary and the figures next to the CSV file."""
    rows = read(path)
    text = summary(rows)
    (path.parent / "summary.md").write_text(text, encoding="utf-8")
    print(text.partition("Data set by data set")[0])
    print(f"written: {path.parent / 'summary.md'}")
    try:
        from benchmarks.figures import draw
    except ImportError as error:
        print(f"no figures: {error}")
    else:
        draw(rows, path.parent)


if __name__ == "__main__":
    # An exception, like Ctrl-C: only an exception ends the process of a competitor, which has its own session.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    main()
