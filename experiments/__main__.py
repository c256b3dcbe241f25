"""`python -m experiments reproduce NAME... | list | data ...`: the paper's experiments, and the data they need.

NumPy and matplotlib are imported only by the commands that need them.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.datasets import Places
    from experiments.reproduce.study import Study

USAGE, INTERRUPTED = 2, 130
ALL = "all"
OUT, OUT_QUICK = Path("results/reproduce"), Path("results/reproduce-quick")

#: The experiments by name, imported when they are needed.
Studies = Callable[[], Mapping[str, "Study"]]


class UsageError(Exception):
    """An unknown experiment or data set."""


def all_studies() -> Mapping[str, Study]:
    """Every figure and table."""
    from experiments.studies import STUDIES

    return STUDIES


def main(arguments: Sequence[str] | None = None, studies: Studies = all_studies) -> int:
    """Run a command and return its exit status.

    Parameters
    ----------
    arguments : sequence of str, default=sys.argv[1:]
    studies : callable
        The experiments by name.

    Returns
    -------
    int
        0; 1 if something failed; 2 for invalid arguments; 130 after Ctrl-C.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    parsed = _parser(given, studies).parse_args(given)
    try:
        status: int = parsed.handler(parsed)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return INTERRUPTED
    return status


def _parser(given: Sequence[str], studies: Studies) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments", description="Reproduce the paper's experiments.")
    commands = parser.add_subparsers(required=True, metavar="reproduce|list|data")
    run = commands.add_parser(
        "reproduce", help="run experiments, or resume them; then write figures, tables and a page"
    )
    run.add_argument("names", nargs="+", metavar="NAME", help="all, or names that `python -m experiments list` gives")
    run.add_argument("--quick", action="store_true", help="small settings: all of it in ten minutes on two cores")
    run.add_argument("--out", type=Path, help=f"output folder (default: {OUT}, quick: {OUT_QUICK})")
    run.add_argument("--dir", type=Path, help="folder of downloaded originals (`python -m experiments data get`)")
    run.add_argument("--only", metavar="SET,SET", help="only these data sets")
    run.add_argument("--repeats", type=_positive, help="repetitions of table-errors (default: 5, quick: 1)")
    run.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, help="tasks at a time (default: cores)")
    run.set_defaults(handler=lambda parsed: _reproduce(parsed, studies()))
    listing = commands.add_parser("list", help="list the experiments")
    listing.set_defaults(handler=lambda parsed: _list(studies()))
    if given[:1] == ["data"]:
        from experiments.datasets.command import add_command

        add_command(commands)
    else:
        commands.add_parser("data", help="the paper's data sets: what is there, download, check")
    return parser


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def _list(studies: Mapping[str, Study]) -> int:
    for name, study in studies.items():
        print(f"{name:16} {study.title}")
    return 0


def _reproduce(parsed: argparse.Namespace, studies: Mapping[str, Study]) -> int:
    from experiments.datasets import Places
    from experiments.datasets.places import ORIGINALS
    from experiments.reproduce.parts import FolderError
    from experiments.reproduce.run import reproduce
    from experiments.reproduce.study import Scope

    asked = _known_studies(parsed.names, studies)
    if parsed.dir is not None:
        os.environ[ORIGINALS] = str(Path(parsed.dir).resolve())  # for the processes that do the work
    places = Places.from_environment()
    scope = Scope(places, parsed.quick, _known_sets(parsed.only), parsed.repeats)
    out = parsed.out or (OUT_QUICK if parsed.quick else OUT)
    _warn_of_missing_data(places)
    try:
        return reproduce(list(studies.values()), asked, scope, out, parsed.jobs)
    except FolderError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # a full disk, say; answers are whole or not there
        print(
            f"error: {error.filename or out}: {error.strerror or error}; run the same command again to resume",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print(f"\nstopped; run the same command again to resume: finished tasks are in {out}", file=sys.stderr)
        return INTERRUPTED


def _known_studies(names: Sequence[str], studies: Mapping[str, Study]) -> list[str]:
    for name in names:
        if name != ALL and name not in studies:
            near = difflib.get_close_matches(name, studies, n=1)
            meant = f"; did you mean {near[0]}?" if near else "."
            raise UsageError(f"no experiment {name!r}{meant} There are {', '.join(studies)}, and all")
    return list(studies) if ALL in names else list(names)


def _known_sets(only: str | None) -> tuple[str, ...]:
    """As in `Scope`: none named are all of them."""
    from experiments.datasets import DataError, known

    if only is None:
        return ()
    try:
        return tuple(dict.fromkeys(known(name.strip()) for name in only.split(",")))
    except DataError as error:
        raise UsageError(str(error)) from error


def _warn_of_missing_data(places: Places) -> None:
    """Once, at the top; what needs the data will be skipped."""
    from experiments.datasets import DataError

    checks = [places.downloaded] if places.stand_ins is None else [places.downloaded, places.loader]
    for check in checks:
        try:
            check()
        except DataError as error:
            print(f"warning: {error}; what needs these data is skipped", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
