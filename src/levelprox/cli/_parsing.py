"""Values of options: what each of them may be, and the parsers of their text."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Literal

from levelprox.cli._process import UsageError, reading

LOSSES = {
    "classification": ("logistic", "squared_hinge", "hinge", "sigmoid"),
    "regression": ("squared", "huber", "quantile", "absolute", "poisson", "gamma", "cauchy"),
}
CONSTRAINTS = ("mcp", "scad", "exp", "negative_lp", "log", "lp", "l1")
SUBSOLVERS = ("auto", "newton", "spectral", "smoothing", "nesterov", "acsa", "sgd", "svrg")
_MAX_RANGE_LENGTH = 100_000


class Task(StrEnum):
    """The task of a model."""

    CLASSIFICATION = "classification"
    REGRESSION = "regression"


class Criterion(StrEnum):
    """What the choice of the budget is based on."""

    CV = "cv"
    AIC = "aic"
    BIC = "bic"
    EBIC = "ebic"


class MultiClass(StrEnum):
    """Loss for more than two classes."""

    AUTO = "auto"
    SOFTMAX = "softmax"
    OVR = "ovr"


class Start(StrEnum):
    """Starting point of a fit under a level."""

    AUTO = "auto"
    CONTINUATION = "continuation"
    DIRECT = "direct"


class Imputing(StrEnum):
    """Replacement of missing values."""

    MEDIAN = "median"
    MEAN = "mean"
    MOST_FREQUENT = "most-frequent"


class Format(StrEnum):
    """Formats of data files."""

    LIBSVM = "libsvm"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    NPZ = "npz"


def counts(text: str) -> list[int]:
    """Parse numbers of features: "5", "1,2,5", "1:10" or "0:20:5", both ends included."""
    found: list[int] = []
    for part in text.split(","):
        try:
            first, *more = (int(number) for number in part.split(":"))
        except ValueError:
            raise UsageError(f"--features: {part!r} is no number of features; give 5, 1,2,5 or 1:10") from None
        last, step = (more + [first, 1][len(more) :]) if len(more) <= 2 else (first, 0)
        if first < 0 or last < first or step < 1 or (last - first) // step >= _MAX_RANGE_LENGTH:
            raise UsageError(f"--features: {part!r} is no range of numbers of features; give 5, 1,2,5 or 1:10")
        found += range(first, last + 1, step)
    return sorted(set(found))


def levels(text: str) -> list[float]:
    """Parse levels: "2.5" or "0.5,1,2.5"."""
    try:
        found = sorted({float(number) for number in text.split(",")})
    except ValueError:
        raise UsageError(f"--level: {text!r} is no level; give a number, or several: 0.5,1,2.5") from None
    if not all(0 <= level < math.inf for level in found):
        raise UsageError(f"--level: {text!r} is no level: g(x) is at least 0, and a budget is finite")
    return found


def budgets(text: str) -> list[float]:
    """Parse budgets of costs: "12.5" or "5,10,20"."""
    try:
        found = sorted({float(number) for number in text.split(",")})
    except ValueError:
        raise UsageError(f"--budget: {text!r} is no budget; give a number, or several: 5,10,20") from None
    if not all(0 <= budget < math.inf for budget in found):
        raise UsageError(f"--budget: {text!r} is no budget: costs are at least 0, and a budget is finite")
    return found


def ridges(text: str) -> list[float] | Literal["auto"]:
    """Parse ridge strengths: "auto", "0.01" or "0,0.01,0.1"."""
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
    """Parse names separated by commas; a name with a comma stands in double quotes."""
    found = [name.strip() for name in _fields(option, text)]
    if not all(found):
        raise UsageError(f"{option}: a name is empty in {text!r}; give NAME,NAME,…")
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{option}: {twice!r} is there twice")
    return found


def categorical(text: str | None) -> list[str] | Literal["auto"]:
    """Parse categorical columns: "auto", or names."""
    if text is None:
        return []
    return "auto" if text.strip().lower() == "auto" else names("--categorical", text)


def class_weights(text: str) -> dict[str, float] | Literal["balanced"]:
    """Parse class weights: "balanced", or "yes=5,no=1"."""
    if text.strip().lower() == "balanced":
        return "balanced"
    wanted = "give balanced, or CLASS=WEIGHT,… with weights above 0"
    found = _numbers("--class-weight", "weight", _pairs("--class-weight", text), wanted)
    if not all(found.values()):
        raise UsageError(f"--class-weight: a weight of {text!r} is 0; {wanted}")
    return found


def feature_weights(text: str) -> dict[str, float]:
    """Parse feature weights: "age=0,scan=2"."""
    wanted = "give NAME=WEIGHT,… with weights of at least 0"
    return _numbers("--feature-weight", "weight", _pairs("--feature-weight", text), wanted)


def feature_costs(text: str) -> dict[str, float]:
    """Parse feature costs: "age=1,scan=250", or a file of lines "name,cost", with or without a header."""
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
    """Split NAME=NUMBER,… into pairs, at the last = of each."""
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
    """Check the name of a loss and its parameter, if given: "huber", "quantile:0.9"."""
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
    """Check the name of a constraint."""
    if _small(text) not in CONSTRAINTS:
        raise UsageError(f"--constraint: {text!r} is none of {', '.join(CONSTRAINTS)}{_hint(text, CONSTRAINTS)}")
    return _small(text)


def subsolver(text: str) -> str:
    """Check the name of a subsolver."""
    if text.lower() not in SUBSOLVERS:
        raise UsageError(f"--subsolver: {text!r} is none of {', '.join(SUBSOLVERS)}{_hint(text, SUBSOLVERS)}")
    return text.lower()


def scoring(text: str) -> str:
    """Check the name of a scorer of scikit-learn."""
    from sklearn.metrics import get_scorer_names

    known = get_scorer_names()
    if text in known:
        return text
    hint = _hint(text, known) or "; accuracy, neg_log_loss, roc_auc and r2 are some"
    raise UsageError(f"--scoring: {text!r} is no score of scikit-learn{hint}")


def _small(text: str) -> str:
    """Return a name in lower case with underscores: "MCP" and "squared-hinge" are accepted."""
    return text.strip().lower().replace("-", "_")


def _hint(text: str, names: Iterable[str]) -> str:
    near = get_close_matches(text.lower(), names, n=1)
    return f"; did you mean {near[0]}?" if near else ""
