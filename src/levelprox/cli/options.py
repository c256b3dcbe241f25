"""The options that commands share: their names, their help, and what they may be."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from levelprox.cli.exits import UsageError
from levelprox.cli.files import reading

#: Panels of the help.
DATA, MODEL, LIMITS, OUTPUT = "Data", "Model", "Limits", "Output"

LOSSES = {
    "classification": ("logistic", "squared_hinge", "hinge", "sigmoid"),
    "regression": ("squared", "huber", "quantile", "absolute", "poisson", "gamma", "cauchy"),
}
CONSTRAINTS = ("mcp", "scad", "exp", "negative_lp", "log", "lp", "l1")
_MOST = 100_000  # budgets of one range


class Task(StrEnum):
    """What is to be learnt."""

    CLASSIFICATION = "classification"
    REGRESSION = "regression"


class Format(StrEnum):
    """Kinds of data files."""

    LIBSVM = "libsvm"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    NPZ = "npz"


def counts(text: str) -> list[int]:
    """Numbers of features: "5", "1,2,5", "1:10" or "0:20:5", both ends included."""
    found: list[int] = []
    for part in text.split(","):
        try:
            first, *more = (int(number) for number in part.split(":"))
        except ValueError:
            raise UsageError(f"--features: {part!r} is no number of features; give 5, 1,2,5 or 1:10") from None
        last, step = (more + [first, 1][len(more) :]) if len(more) <= 2 else (first, 0)
        if first < 0 or last < first or step < 1 or (last - first) // step >= _MOST:
            raise UsageError(f"--features: {part!r} is no range of numbers of features; give 5, 1,2,5 or 1:10")
        found += range(first, last + 1, step)
    return sorted(set(found))


def levels(text: str) -> list[float]:
    """Levels: "2.5" or "0.5,1,2.5"."""
    try:
        found = sorted({float(number) for number in text.split(",")})
    except ValueError:
        raise UsageError(f"--level: {text!r} is no level; give a number, or several: 0.5,1,2.5") from None
    if not all(0 <= level < math.inf for level in found):
        raise UsageError(f"--level: {text!r} is no level: g(x) is at least 0, and a budget is finite")
    return found


def budgets(text: str) -> list[float]:
    """Budgets of costs: "12.5" or "5,10,20"."""
    try:
        found = sorted({float(number) for number in text.split(",")})
    except ValueError:
        raise UsageError(f"--budget: {text!r} is no budget; give a number, or several: 5,10,20") from None
    if not all(0 <= budget < math.inf for budget in found):
        raise UsageError(f"--budget: {text!r} is no budget: costs are at least 0, and a budget is finite")
    return found


def feature_costs(text: str) -> dict[str, float]:
    """What features cost: "age=1,scan=250", or a file with a line "name,cost" for each; the first may be titles."""
    if "=" in text:
        return _costs(part.rpartition("=")[::2] for part in text.split(","))
    path = Path(text)
    try:
        with reading(path), open(path, encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"--feature-cost: {path} is no text of names and costs: {error}") from None
    if any(len(row) != 2 for row in rows):
        place = next(i for i, row in enumerate(rows, 1) if len(row) != 2)
        raise UsageError(f"--feature-cost: {path}, row {place}: a name and a cost are wanted, with a comma between")
    titles = bool(rows) and not _is_number(rows[0][1])
    return _costs((name, cost) for name, cost in rows[titles:])


def _costs(pairs: Iterable[Sequence[str]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, cost in pairs:
        name = name.strip()
        if not name or not _is_number(cost) or not 0 <= float(cost) < math.inf:
            raise UsageError(
                f"--feature-cost: {cost!r} is no cost of {name!r}; give NAME=COST,… or a file of NAME,COST lines"
            )
        if name in found:
            raise UsageError(f"--feature-cost: {name!r} has two costs")
        found[name] = float(cost)
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def loss(text: str) -> str:
    """The name of a loss, perhaps with its parameter: "huber", "quantile:0.9"."""
    names = [name for group in LOSSES.values() for name in group]
    name, colon, parameter = text.partition(":")
    if name not in names:
        raise UsageError(f"--loss: {text!r} is none of {', '.join(names)}{_hint(name, names)}")
    if colon:
        if name not in ("huber", "quantile"):
            raise UsageError(f"--loss: {name} has no parameter")
        try:
            float(parameter)
        except ValueError:
            raise UsageError(f"--loss: {parameter!r} is no number; give, for example, {name}:0.9") from None
    return text


def constraint(text: str) -> str:
    """The name of a constraint."""
    if text not in CONSTRAINTS:
        raise UsageError(f"--constraint: {text!r} is none of {', '.join(CONSTRAINTS)}{_hint(text, CONSTRAINTS)}")
    return text


def _hint(text: str, names: Iterable[str]) -> str:
    near = get_close_matches(text.lower(), names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


DataFile = Annotated[
    Path, typer.Argument(readable=False, metavar="DATA", help="LIBSVM, CSV, TSV, Parquet or npz.", show_default=False)
]
ModelFile = Annotated[
    Path, typer.Argument(readable=False, metavar="MODEL", help="A .levelprox file.", show_default=False)
]

Target = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=DATA,
        help='The column to learn (its number, with --no-header). By default the one called "target" or "y".',
    ),
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="NAME", rich_help_panel=DATA, help="A column to leave out; may be repeated.")
]
Weight = Annotated[str | None, typer.Option(metavar="NAME", rich_help_panel=DATA, help="The column of weights.")]
Test = Annotated[
    Path | None,
    typer.Option(
        readable=False, metavar="FILE", rich_help_panel=DATA, help="Data to judge the model by, not used in the fit."
    ),
]
FileFormat = Annotated[
    Format | None, typer.Option("--format", rich_help_panel=DATA, help="Instead of what the file's name says.")
]
NoHeader = Annotated[
    bool, typer.Option("--no-header", rich_help_panel=DATA, help="The first line of a CSV file holds data, no names.")
]
Separator = Annotated[
    str | None, typer.Option(metavar="CHAR", rich_help_panel=DATA, help="What separates the fields of a CSV file.")
]
ZeroBased = Annotated[
    bool, typer.Option("--zero-based", rich_help_panel=DATA, help="A LIBSVM file counts features from 0.")
]
Chunked = Annotated[
    bool,
    typer.Option(
        "--chunked",
        rich_help_panel=DATA,
        help="Leave the data in their file, and read some rows at a time: for more than fits into memory.",
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="CLUSTER",
        rich_help_panel=DATA,
        help="Have the data read and kept by a Dask cluster: tcp://HOST:PORT, tls://HOST:PORT, or local:WORKERS.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(metavar="NAME", rich_help_panel=LIMITS, help="Fit on a device of torch: cuda, cuda:1, cpu."),
]

Features = Annotated[
    str | None,
    typer.Option(
        metavar="K", rich_help_panel=MODEL, help="At most so many features: 5; several: 1,2,5, 1:10 or 0:20:5."
    ),
]
Level = Annotated[
    str | None,
    typer.Option(metavar="ETA", rich_help_panel=MODEL, help="Or g(x) ≤ η: 2.5; several: 0.5,1,2.5."),
]
FeatureCost = Annotated[
    str | None,
    typer.Option(
        metavar="COSTS", rich_help_panel=MODEL, help="What features cost: age=1,scan=250, or a file of NAME,COST lines."
    ),
]
BudgetOption = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="COST",
        rich_help_panel=MODEL,
        help="With --feature-cost: what the features may cost together; several, with --cv: 5,10,20.",
    ),
]
TaskOption = Annotated[
    Task | None, typer.Option("--task", rich_help_panel=MODEL, help="By default guessed from the loss or the target.")
]
LossOption = Annotated[
    str | None,
    typer.Option(
        "--loss",
        metavar="NAME",
        rich_help_panel=MODEL,
        help=f"{', '.join(LOSSES['classification'])}; {', '.join(LOSSES['regression'])}. Also huber:1.5, quantile:0.9.",
    ),
]
ConstraintOption = Annotated[
    str | None,
    typer.Option(
        "--constraint", metavar="NAME", rich_help_panel=MODEL, help=f"With --level: {', '.join(CONSTRAINTS)}."
    ),
]
Standardize = Annotated[
    bool, typer.Option("--standardize/--no-standardize", rich_help_panel=MODEL, help="Fit features of deviation 1.")
]
Intercept = Annotated[bool, typer.Option("--intercept/--no-intercept", rich_help_panel=MODEL)]
Seed = Annotated[int | None, typer.Option(min=0, rich_help_panel=MODEL, help="For subsolvers that sample.")]

Tol = Annotated[float, typer.Option(min=0, rich_help_panel=LIMITS, help="On the KKT residual.")]
MaxIter = Annotated[int, typer.Option(min=0, rich_help_panel=LIMITS, help="Outer steps, or swaps of features.")]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="SECONDS",
        rich_help_panel=LIMITS,
        help="For each fit, also those of --report; the best model so far is kept.",
    ),
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, rich_help_panel=LIMITS, help="By default all.")]

Json = Annotated[
    bool, typer.Option("--json", rich_help_panel=OUTPUT, help="One JSON document on standard output, nothing else.")
]
Force = Annotated[bool, typer.Option("--force", rich_help_panel=OUTPUT, help="Replace files that are there.")]
Accept = Annotated[
    bool, typer.Option("--accept-inaccurate", rich_help_panel=OUTPUT, help="End with 0 where it would be 3.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", rich_help_panel=OUTPUT, help="Only errors and results.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", rich_help_panel=OUTPUT, help="Show progress everywhere.")]
Report = Annotated[
    Path | None,
    typer.Option(
        readable=False, metavar="PAGE.html", rich_help_panel=OUTPUT, help="Write a page to look at in a browser."
    ),
]
