"""Parsers of the options that are given as text. Errors name the option."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from levelprox.cli._process import UsageError, is_number, reading

LOSSES = {
    "classification": ("logistic", "squared_hinge", "hinge", "sigmoid"),
    "regression": ("squared", "huber", "quantile", "absolute", "poisson", "gamma", "cauchy"),
}
CONSTRAINTS = ("mcp", "scad", "exp", "negative_lp", "log", "lp", "l1")
SUBSOLVERS = ("auto", "newton", "spectral", "smoothing", "nesterov", "acsa", "sgd", "svrg")
_MAX_RANGE_LENGTH = 100_000


def counts(text: str) -> list[int]:
    """Parse numbers of features: "5", "1,2,5", "1:10" or "0:20:5", both ends included."""
    found: list[int] = []
    for part in text.split(","):
        try:
            first, *more = (int(number) for number in part.split(":"))
        except ValueError:
            raise UsageError(f"--features: {part!r} is not a number of features; give 5, 1,2,5 or 1:10") from None
        last, step = (more + [first, 1][len(more) :]) if len(more) <= 2 else (first, 0)
        if first < 0 or last < first or step < 1 or (last - first) // step >= _MAX_RANGE_LENGTH:
            raise UsageError(f"--features: {part!r} is no range of numbers of features; give 5, 1,2,5 or 1:10")
        found += range(first, last + 1, step)
    return sorted(set(found))


def amounts(what: str, example: str, reason: str) -> Callable[[str], list[float]]:
    """Return the parser of an option of nonnegative numbers: "2.5" or "0.5,1,2.5"."""

    def parse(text: str) -> list[float]:
        try:
            found = sorted({float(number) for number in text.split(",")})
        except ValueError:
            raise UsageError(f"--{what}: {text!r} is no {what}; give a number, {example}") from None
        if not all(0 <= one < math.inf for one in found):
            raise UsageError(f"--{what}: {text!r} is no {what}: {reason}")
        return found

    return parse


def ridges(text: str) -> list[float] | Literal["auto"]:
    """Parse ridge strengths: "auto", "0.01" or "0,0.01,0.1"."""
    parse = amounts("ridge", "several (0,0.01,0.1), or auto", "it is finite and at least 0")
    return "auto" if text.strip().lower() == "auto" else parse(text)


def names(option: str) -> Callable[[str], list[str]]:
    """Return the parser of names separated by commas; a name with a comma stands in double quotes."""

    def parse(text: str) -> list[str]:
        found = [name.strip() for name in _fields(option, text)]
        if not all(found):
            raise UsageError(f"{option}: a name is empty in {text!r}; give NAME,NAME,…")
        twice = next((name for name in found if found.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"{option}: {twice!r} is there twice")
        return found

    return parse


def categories(text: str) -> list[str] | Literal["auto"]:
    """Parse the columns of categories: "auto", or names."""
    return "auto" if text.strip().lower() == "auto" else names("--categorical")(text)


def separator(text: str) -> str:
    """Parse the separator of a CSV file: one character, or a name of the tabulator."""
    found = {"\\t": "\t", "tab": "\t"}.get(text, text)
    if len(found) != 1 or found in '\r\n"':
        raise UsageError(f"--separator must be one character, got {found!r}")
    return found


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
    pairs = _pairs("--feature-cost", text) if "=" in text else _cost_rows(Path(text))
    return _numbers("--feature-cost", "cost", pairs, "give NAME=COST,… or a file of NAME,COST lines")


def _cost_rows(path: Path) -> list[list[str]]:
    try:
        with reading(path), open(path, encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"--feature-cost: {path} is no text of names and costs: {error}") from None
    if any(len(row) != 2 for row in rows):
        place = next(i for i, row in enumerate(rows, 1) if len(row) != 2)
        raise UsageError(f"--feature-cost: {path}, row {place}: a name and a cost are expected, separated by a comma")
    has_titles = bool(rows) and not is_number(rows[0][1])
    return rows[has_titles:]


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
        if not name or not is_number(number) or not 0 <= float(number) < math.inf:
            raise UsageError(f"{option}: {number!r} is no {what} of {name!r}; {wanted}")
        if name in found:
            raise UsageError(f"{option}: {name!r} has two {what}s")
        found[name] = float(number)
    return found


def one_of(option: str, known: Sequence[str]) -> Callable[[str], str]:
    """Return the parser of a name, in lower case with underscores: "MCP" and "squared-hinge" are accepted."""
    return lambda text: _known_name(option, text, text, known)


def _known_name(option: str, text: str, given: str, known: Sequence[str]) -> str:
    name = given.strip().lower().replace("-", "_")
    if name not in known:
        raise UsageError(f"{option}: {text!r} is not one of {', '.join(known)}{_hint(given, known)}")
    return name


def loss(text: str) -> str:
    """Check the name of a loss and its parameter, if given: "huber", "quantile:0.9"."""
    given, colon, parameter = text.partition(":")
    name = _known_name("--loss", text, given or text, [name for group in LOSSES.values() for name in group])
    if colon:
        if name not in ("huber", "quantile"):
            raise UsageError(f"--loss: {name} has no parameter")
        if not is_number(parameter):
            raise UsageError(f"--loss: {parameter!r} is not a number; give, for example, {name}:0.9")
    return f"{name}{colon}{parameter}"


def check_scoring(text: str) -> None:
    """Raise UsageError unless this is the name of a scorer of scikit-learn."""
    from sklearn.metrics import get_scorer_names

    known = get_scorer_names()
    if text not in known:
        hint = _hint(text, known) or "; accuracy, neg_log_loss, roc_auc and r2 are some"
        raise UsageError(f"--scoring: {text!r} is no score of scikit-learn{hint}")


def _hint(text: str, names: Iterable[str]) -> str:
    near = get_close_matches(text.lower(), names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def task_of_loss(loss: str) -> str:
    """Return the task of a loss: classification or regression."""
    name = loss.partition(":")[0]
    return next(task for task, names in LOSSES.items() if name in names)


def loss_of(text: str) -> Any:
    """Return the loss with its parameter, or its name without one."""
    from levelprox import losses

    name, _, parameter = text.partition(":")
    if not parameter:
        return name
    return losses.Huber(float(parameter)) if name == "huber" else losses.Quantile(float(parameter))
