"""`python -m experiments.corpus record OUT.json | compare A.json B.json | list`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str, default=sys.argv[1:]

    Returns
    -------
    int
        0; 1 where recordings differ.
    """
    parser = argparse.ArgumentParser(prog="python -m experiments.corpus", description="Same answers, before and after.")
    commands = parser.add_subparsers(required=True, dest="command")
    record = commands.add_parser("record", help="run the cases and write what they return")
    record.add_argument("out", type=Path)
    record.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    record.add_argument("--only", default="", metavar="PATTERN", help="cases whose name has a match of this expression")
    compare = commands.add_parser("compare", help="print where two recordings differ; exit code 1 where they do")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    compare.add_argument("--ignore", action="append", default=[], metavar="FIELD", help="such as message or warnings")
    commands.add_parser("list", help="print the names of the cases")
    parsed = parser.parse_args(arguments)
    return {"record": _record, "compare": _compare, "list": _list}[parsed.command](parsed)


def _record(parsed: argparse.Namespace) -> int:
    from experiments.corpus.record import recording

    found = recording(parsed.only, parsed.jobs, progress=True)
    parsed.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    entries = found["cases"].values()
    errors = sum(1 for entry in entries if entry.get("error"))
    skipped = [f"{name}: {entry['skipped']}" for name, entry in found["cases"].items() if "skipped" in entry]
    print(f"{len(entries)} cases, {errors} with an error, {len(skipped)} skipped, {found['seconds']:.0f} s")
    print(*skipped, sep="\n", end="\n" if skipped else "")
    return 0


def _compare(parsed: argparse.Namespace) -> int:
    from experiments.corpus.compare import compared, report

    before, after = (json.loads(path.read_text(encoding="utf-8")) for path in (parsed.before, parsed.after))
    found = compared(before, after, parsed.ignore)
    print(report(found))
    return 0 if found.same else 1


def _list(_: argparse.Namespace) -> int:
    from experiments.corpus.record import all_cases

    print(*all_cases(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
