"""Run the cases: `python -m benchmarks.first_use [--all]`."""

from __future__ import annotations

import argparse
import sys

from benchmarks import first_use
from benchmarks.first_use import CASES, run


def main(arguments: list[str] | None = None) -> int:
    """Run all cases; return how many do not do what is expected."""
    parser = argparse.ArgumentParser(
        description=first_use.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="print the text of each case")
    options = parser.parse_args(arguments)
    left_out = [case for case in CASES if not case.can_run()]
    wrong = 0
    for case in CASES:
        if case in left_out:
            continue
        done = run(case)
        wrong += bool(done.wrong)
        if options.all or done.wrong:
            print(f"{'WRONG' if done.wrong else 'ok   '}  {case.name}\n       {done.text[:1000]}")
        if done.wrong:
            print(f"       -> {done.wrong}")
    print(f"{len(CASES) - len(left_out)} cases, {wrong} not as expected, {len(left_out)} left out (packages missing)")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main()))
