"""The command line: exit code, standard output and error of `python -m levelprox`."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from experiments.corpus.case import Case, SkipCase, samples
from experiments.corpus.describe import Told, file_hash

#: Commands by name; "|" separates those that run one after another in the same folder.
_COMMANDS = {
    "fit, predict, certify, info": (
        "fit data.csv --target y --features 3 --out model.levelprox | predict model.levelprox data.csv --proba"
        " | certify model.levelprox data.csv --target y | certify model.levelprox other.csv --target y"
        " | info model.levelprox"
    ),
    "fit json": "fit data.csv --target y --features 3 --json --quiet",
    "fit level": "fit data.csv --target y --level 3.5 --constraint scad --json",
    "fit cv": "fit data.csv --target y --features 1:3 --cv 3 --json",
    "fit regression": "fit numbers.csv --target y --features 2 --loss huber --keep x0 --out model.levelprox",
    "fit resume": (
        "fit data.csv --target y --level 3.5 --max-iter 1 --checkpoint state"
        " | fit data.csv --target y --level 3.5 --checkpoint state --resume --json"
    ),
    "fit without a file": "fit nothing.csv --features 3",
    "fit with a wrong option": "fit data.csv --feature 3",
    "fit without a target": "fit data.csv --target z --features 3",
    "fit stream": "fit data.svm --stream 40 --features 2 --json",
    "fit chunked": "fit data.svm --chunked --features 2 --json",
    "path": "path data.csv --target y --features 0:3",
    "path json": "path numbers.csv --target y --level 0.5,1.5 --json",
}


def cases() -> Iterator[Case]:
    """Return the cases of this area."""
    for name, commands in _COMMANDS.items():
        yield Case(f"command/{name}", partial(_run, commands))


def _run(commands: str, folder: Path) -> Told:
    for extra in ("typer", "rich", "polars"):
        try:
            __import__(extra)
        except ImportError:
            raise SkipCase(f"{extra} is not installed") from None
    _write_data(folder)
    texts, codes = {}, {}
    for command in commands.split(" | "):
        words = [sys.executable, "-m", "levelprox", *command.split()]
        ended = subprocess.run(words, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
        texts |= {f"output of {command}": ended.stdout, f"errors of {command}": ended.stderr}
        codes[f"exit code of {command}"] = ended.returncode
    model = folder / "model.levelprox"
    return Told(
        words=texts,
        counts=codes,
        hashes={"model": file_hash(model)} if model.exists() else {},
    )


@functools.cache
def _bytecode() -> tempfile.TemporaryDirectory[str]:
    """Make the folder of compiled modules that all commands share, removed at the end of this process."""
    return tempfile.TemporaryDirectory()


def _environment() -> dict[str, str]:
    """Return an environment of plain output, in which modules are compiled once."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    plain = {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "PYTHONWARNINGS": "ignore"}
    return {**inherited, **plain, "PYTHONPYCACHEPREFIX": _bytecode().name}


def _write_data(folder: Path) -> None:
    """Write data.csv (two classes), other.csv, numbers.csv (a regression) and data.svm."""
    for name, seed in (("data", 10), ("other", 11), ("numbers", 12)):
        data = samples(60, 12, seed=seed)
        y = data.z if name == "numbers" else data.two
        header = ",".join([*(f"x{j}" for j in range(data.X.shape[1])), "y"])
        lines = [
            ",".join([*map(repr, row), repr(target)]) for row, target in zip(data.X.tolist(), y.tolist(), strict=True)
        ]
        (folder / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
        if name == "data":
            pairs = [" ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row)) for row in data.X.tolist()]
            rows = [f"{int(2 * label - 1)} {row}" for label, row in zip(y, pairs, strict=True)]
            (folder / "data.svm").write_text("\n".join(rows) + "\n")
