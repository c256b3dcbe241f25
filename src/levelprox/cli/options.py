"""The options that commands share: their names, their help, and what they may be."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from levelprox.cli.exits import UsageError
from levelprox.cli.files import reading

#: Panels of the help.
DATA, MODEL, CHOICE, LIMITS, OUTPUT = "Data", "Model", "Choice of the budget", "Limits", "Output"

LOSSES = {
    "classification": ("logistic", "squared_hinge", "hinge", "sigmoid"),
    "regression": ("squared", "huber", "quantile", "absolute", "poisson", "gamma", "cauchy"),
}
CONSTRAINTS = ("mcp", "scad", "exp", "negative_lp", "log", "lp", "l1")
SUBSOLVERS = ("auto", "newton", "spectral", "smoothing", "nesterov", "acsa", "sgd", "svrg")
_MOST = 100_000  # budgets of one range


class Task(StrEnum):
    """What is to be learnt."""

    CLASSIFICATION = "classification"
    REGRESSION = "regression"


class Criterion(StrEnum):
    """What decides between budgets."""

    CV = "cv"
    AIC = "aic"
    BIC = "bic"
    EBIC = "ebic"


class MultiClass(StrEnum):
    """Losses of more than two classes."""

    AUTO = "auto"
    SOFTMAX = "softmax"
    OVR = "ovr"


class Start(StrEnum):
    """Where a fit under a level begins."""

    AUTO = "auto"
    CONTINUATION = "continuation"
    DIRECT = "direct"


class Imputing(StrEnum):
    """What missing values are replaced by."""

    MEDIAN = "median"
    MEAN = "mean"
    MOST_FREQUENT = "most-frequent"


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


def ridges(text: str) -> list[float] | Literal["auto"]:
    """Strengths of a ridge: "auto", "0.01" or "0,0.01,0.1"."""
    if text.strip().lower() == "auto":
        return "auto"
    try:
        found = sorted({float(number) for number in text.split(",")})
    except ValueError:
        raise UsageError(f"--ridge: {text!r} is no ridge; give a number, several (0,0.01,0.1), or auto") from None
    if not all(0 <= ridge < math.inf for ridge in found):
        raise UsageError(f"--ridge: {text!r} is no ridge: it is finite and at least 0")
    return found


def names(option: str, text: str) -> list[str]:
    """Names with commas between them; one that has a comma is put in double quotes."""
    found = [name.strip() for name in _fields(option, text)]
    if not all(found):
        raise UsageError(f"{option}: a name is empty in {text!r}; give NAME,NAME,…")
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{option}: {twice!r} is there twice")
    return found


def categorical(text: str | None) -> list[str] | Literal["auto"]:
    """Columns of categories: "auto", or names."""
    if text is None:
        return []
    return "auto" if text.strip().lower() == "auto" else names("--categorical", text)


def class_weights(text: str) -> dict[str, float] | Literal["balanced"]:
    """Weights of classes: "balanced", or "yes=5,no=1"."""
    if text.strip().lower() == "balanced":
        return "balanced"
    wanted = "give balanced, or CLASS=WEIGHT,… with weights above 0"
    found = _numbers("--class-weight", "weight", _pairs("--class-weight", text), wanted)
    if not all(found.values()):
        raise UsageError(f"--class-weight: a weight of {text!r} is 0; {wanted}")
    return found


def feature_weights(text: str) -> dict[str, float]:
    """What features count: "age=0,scan=2"."""
    wanted = "give NAME=WEIGHT,… with weights of at least 0"
    return _numbers("--feature-weight", "weight", _pairs("--feature-weight", text), wanted)


def feature_costs(text: str) -> dict[str, float]:
    """What features cost: "age=1,scan=250", or a file with a line "name,cost" for each; the first may be titles."""
    if "=" in text:
        return _costs(_pairs("--feature-cost", text))
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
    return _numbers("--feature-cost", "cost", pairs, "give NAME=COST,… or a file of NAME,COST lines")


def _pairs(option: str, text: str) -> Iterable[Sequence[str]]:
    """NAME=NUMBER,…: the last = of each divides it."""
    return (part.rpartition("=")[::2] for part in _fields(option, text))


def _fields(option: str, text: str) -> list[str]:
    try:
        return next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise UsageError(f"{option}: {text!r} has quotes that do not end ({error})") from None


def _numbers(option: str, what: str, pairs: Iterable[Sequence[str]], wanted: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, number in pairs:
        name = name.strip()
        if not name or not _is_number(number) or not 0 <= float(number) < math.inf:
            raise UsageError(f"{option}: {number!r} is no {what} of {name!r}; {wanted}")
        if name in found:
            raise UsageError(f"{option}: {name!r} has two {what}s")
        found[name] = float(number)
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
    given, colon, parameter = text.partition(":")
    name = _small(given)
    if name not in names:
        raise UsageError(f"--loss: {text!r} is none of {', '.join(names)}{_hint(given, names)}")
    if colon:
        if name not in ("huber", "quantile"):
            raise UsageError(f"--loss: {name} has no parameter")
        try:
            float(parameter)
        except ValueError:
            raise UsageError(f"--loss: {parameter!r} is no number; give, for example, {name}:0.9") from None
    return f"{name}{colon}{parameter}"


def constraint(text: str) -> str:
    """The name of a constraint."""
    if _small(text) not in CONSTRAINTS:
        raise UsageError(f"--constraint: {text!r} is none of {', '.join(CONSTRAINTS)}{_hint(text, CONSTRAINTS)}")
    return _small(text)


def subsolver(text: str) -> str:
    """The name of a subsolver."""
    if text.lower() not in SUBSOLVERS:
        raise UsageError(f"--subsolver: {text!r} is none of {', '.join(SUBSOLVERS)}{_hint(text, SUBSOLVERS)}")
    return text.lower()


def scoring(text: str) -> str:
    """The name of a score of scikit-learn; known to be one."""
    from sklearn.metrics import get_scorer_names

    known = get_scorer_names()
    if text in known:
        return text
    hint = _hint(text, known) or "; accuracy, neg_log_loss, roc_auc and r2 are some"
    raise UsageError(f"--scoring: {text!r} is no score of scikit-learn{hint}")


def _small(text: str) -> str:
    """A name in small letters with underscores, as estimators take it: "MCP", "squared-hinge"."""
    return text.strip().lower().replace("-", "_")


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
    list[str] | None,
    typer.Option(metavar="NAMES", rich_help_panel=DATA, help="Columns to leave out: id,name; may be repeated."),
]
Weight = Annotated[
    str | None, typer.Option(metavar="NAME", rich_help_panel=DATA, help="The column of weights of the rows.")
]
Exposure = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=DATA,
        help="The column of exposures, with --loss poisson or gamma: the mean is exposure × rate.",
    ),
]
Offset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", rich_help_panel=DATA, help="A column that is added to the linear prediction, in a regression."
    ),
]
Categorical = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        rich_help_panel=DATA,
        help="Columns that become features of 0 and 1, one for each category: city,sex; auto: all that hold text.",
    ),
]
Impute = Annotated[
    Imputing | None,
    typer.Option(
        "--impute",
        case_sensitive=False,
        rich_help_panel=DATA,
        help="Replace missing numbers by this value of their column, and missing text by the most frequent one.",
    ),
]
Test = Annotated[
    Path | None,
    typer.Option(
        readable=False, metavar="FILE", rich_help_panel=DATA, help="Data to judge the model by, not used in the fit."
    ),
]
FileFormat = Annotated[
    Format | None,
    typer.Option("--format", case_sensitive=False, rich_help_panel=DATA, help="Instead of what the file's name says."),
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
        help="With --feature-cost: what the features may cost together; several: 5,10,20.",
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", rich_help_panel=MODEL, help="Features that are always in the model and do not count: age,sex."
    ),
]
Positive = Annotated[bool, typer.Option("--positive", rich_help_panel=MODEL, help="No coefficient is negative.")]
PositiveFor = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", rich_help_panel=MODEL, help="The coefficients of these features are not negative: age,sex."
    ),
]
FeatureWeight = Annotated[
    str | None,
    typer.Option(
        metavar="WEIGHTS",
        rich_help_panel=MODEL,
        help="What features count under a level: age=0.5,scan=2; the others count 1.",
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        metavar="WEIGHTS",
        rich_help_panel=MODEL,
        help="Factors on the weights of classes: yes=5,no=1; balanced: all classes weigh the same.",
    ),
]
MultiClassOption = Annotated[
    MultiClass | None,
    typer.Option(
        "--multi-class", case_sensitive=False, rich_help_panel=MODEL, help="The loss of more than two classes."
    ),
]
Ridge = Annotated[
    str | None,
    typer.Option(
        metavar="LAMBDA",
        rich_help_panel=MODEL,
        help="λ of the penalty λ × sum of squared standardised coefficients: 0.01; auto, for classes: only where "
        "classes are separable. By default auto for classes, 0 for regression. Several, with --cv: 0,0.01,0.1.",
    ),
]
CriterionOption = Annotated[
    Criterion | None,
    typer.Option(
        "--criterion",
        case_sensitive=False,
        rich_help_panel=CHOICE,
        help="What decides: cv, the score over folds; aic, bic and ebic, an information criterion without folds.",
    ),
]
Scoring = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=CHOICE,
        help="The score over folds, by its name in scikit-learn: accuracy, roc_auc, r2. By default the loss.",
    ),
]
OneStandardError = Annotated[
    bool,
    typer.Option(
        "--one-standard-error",
        rich_help_panel=CHOICE,
        help="The smallest budget whose score is within one standard error of the best.",
    ),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", metavar="N", rich_help_panel=CHOICE, help="Processes that fit folds; -1: all.")
]
Memory = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="SAMPLES",
        rich_help_panel=DATA,
        help="With --stream: after so many samples the weight of those before them has fallen to 1/e.",
    ),
]
SubsolverOption = Annotated[
    str | None,
    typer.Option("--subsolver", metavar="NAME", rich_help_panel=LIMITS, help=f"With --level: {', '.join(SUBSOLVERS)}."),
]
StartOption = Annotated[
    Start | None,
    typer.Option("--start", case_sensitive=False, rich_help_panel=LIMITS, help="With --level: where the fit begins."),
]
TaskOption = Annotated[
    Task | None,
    typer.Option(
        "--task", case_sensitive=False, rich_help_panel=MODEL, help="By default guessed from the loss or the target."
    ),
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
