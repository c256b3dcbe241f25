"""`python -m experiments data list | get NAME --dir D | check --dir D`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from experiments.datasets import NAMES, DataError, Places, folder, known, source
from experiments.datasets.download import AGAIN
from experiments.datasets.originals import ORIGINALS, SITE, File

INTERRUPTED = 130


def add_command(subparsers: Any) -> None:
    """Add `data` to a program's commands; `parsed.handler(parsed)` gives the exit status."""
    data = subparsers.add_parser("data", help="the paper's data sets: what is there, download, check")
    commands = data.add_subparsers(dest="data_command", required=True, metavar="list|get|check")
    listing = commands.add_parser("list", help="what every name of the paper stands for here")
    listing.add_argument("--dir", type=Path, help="folder of downloaded originals")
    listing.set_defaults(handler=_list)
    get = commands.add_parser("get", help="download originals; resumes an interrupted download")
    get.add_argument("name", metavar="NAME", help=f"{', '.join(NAMES)}, or all")
    get.add_argument("--dir", type=Path, required=True, help="folder for the files and their checksums")
    get.add_argument("--base-url", default=SITE, help="a mirror of LIBSVM's site (default: %(default)s)")
    get.set_defaults(handler=_get)
    check = commands.add_parser("check", help="compare downloaded originals with their checksums")
    check.add_argument("--dir", type=Path, required=True, help="folder of downloaded originals")
    check.set_defaults(handler=_check)


def _list(parsed: argparse.Namespace) -> int:
    """One line a name; what cannot be had says why."""
    places, troubles = Places.from_environment(parsed.dir), {}
    for name in NAMES:
        try:
            found = source(name, places)
        except DataError as error:
            troubles[str(error)] = error  # a folder that is not there is one trouble, not six
        else:
            print(f"{found.label}: {found.kind}" + (f"; {found.note}" if found.note else ""))
    return max(map(_complain, troubles.values()), default=0)


def _get(parsed: argparse.Namespace) -> int:
    """Download what is not there; the trouble of one file does not keep the others."""
    try:
        names = NAMES if parsed.name == "all" else (known(parsed.name),)
        with folder.held(parsed.dir):
            return _each(_files(names), lambda file: folder.get(file, parsed.dir, parsed.base_url))
    except DataError as error:
        return _complain(error)
    except KeyboardInterrupt:
        print(f"stopped; {AGAIN}", file=sys.stderr)
        return INTERRUPTED


def _check(parsed: argparse.Namespace) -> int:
    """Compare what is there; what is not there is no trouble."""
    try:
        there = Places(originals=parsed.dir).downloaded()
    except DataError as error:
        return _complain(error)
    assert there is not None
    return _each(_files(NAMES), lambda file: folder.state(file, there))


def _each(files: Iterable[File], work: Callable[[File], str]) -> int:
    """Print the result for every file."""
    status = 0
    for file in files:
        try:
            print(f"{file.name}: {work(file)}", flush=True)
        except DataError as error:
            status = _complain(error)
        except OSError as error:
            status = _complain(DataError(f"{file.name}: {error}"))
    return status


def _files(names: Iterable[str]) -> Iterable[File]:
    return (file for name in names for file in ORIGINALS[name].files)


def _complain(error: DataError) -> int:
    print(f"error: {error}", file=sys.stderr, flush=True)
    return 1
