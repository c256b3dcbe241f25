"""Results on standard output: tables and text, JSON for programs, CSV for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from enum import Enum
from os import PathLike, fspath
from typing import Any

from levelprox.cli._process import is_number, printable

_DEFAULT_COLUMNS = 200  # if standard output is not a terminal


def print_json(document: dict[str, Any]) -> None:
    """Print a JSON document in ASCII, which every encoding of standard output has."""
    json.dump(plain(document), sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def heading(command: str) -> dict[str, Any]:
    """Return the first entries of the JSON document of a command."""
    from levelprox import __version__

    return {"levelprox": __version__, "command": command}


def plain(value: Any) -> Any:
    """Convert a value to what JSON has; numbers that are not finite become null."""
    if isinstance(value, Enum):
        return str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy
        return plain(value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__, **plain(asdict(value))}
    return printable(fspath(value)) if isinstance(value, PathLike) else repr(value)


def print_table(heads: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Print a table, numbers aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    body = [[_cell(entry) for entry in row] for row in rows]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=Text(title) if title else None, title_justify="left")
    for j, head in enumerate(heads):
        numbers = all(row[j] == "" or not isinstance(row[j], str) for row in body)
        table.add_column(Text(head), justify="right" if numbers else "left", overflow="fold", no_wrap=numbers)
    for row in body:
        table.add_row(*(Text(entry if isinstance(entry, str) else f"{entry:.6g}") for entry in row))
    _console().print(table)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print names and values in two columns."""
    from rich.text import Text

    rows = [(printable(name), printable(value)) for name, value in facts]
    width = max((len(name) for name, _ in rows), default=0)
    console = _console()
    for name, value in rows:
        console.print(Text.assemble((name.ljust(width), "dim"), f"  {value}"), soft_wrap=True)


def print_line(text: str) -> None:
    """Print a line."""
    print(printable(text))


def _cell(entry: object) -> str | float | int:
    return entry if isinstance(entry, float | int) and not isinstance(entry, bool) else printable(entry)


def _console() -> Any:
    from rich.console import Console

    width = None if sys.stdout.isatty() else _DEFAULT_COLUMNS
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


_FORMULA_SIGNS = "=+-@"
_FORMULA_STARTS = (*_FORMULA_SIGNS, *(chr(ord(sign) + 0xFEE0) for sign in _FORMULA_SIGNS))  # and their full-width forms


def csv_lines(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as lines of CSV; cells are quoted where needed."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def is_formula(word: str) -> bool:
    """Return whether a spreadsheet would evaluate a cell with this text as a formula.

    Excel, LibreOffice Calc and Google Sheets evaluate cells that begin with =, +, - or @, possibly after blanks; names
    of columns and classes come from the data. Numerals such as -0.5 or +1 are numbers, not formulas.

    >>> [is_formula(word) for word in ("=1+2", "@SUM(A1)", " -x", "-1", "+1.5e3", "a=b")]
    [True, True, True, False, False, False]
    """
    is_numeral = word.isascii() and "_" not in word and is_number(word) and math.isfinite(float(word))
    return word.lstrip().startswith(_FORMULA_STARTS) and not is_numeral


def safe(cell: Any) -> Any:
    """Return a cell that no spreadsheet evaluates: formulas get an apostrophe in front.

    >>> safe("=1+2"), safe("-1"), safe(-1.5)
    ("'=1+2", '-1', -1.5)
    """
    return f"'{cell}" if isinstance(cell, str) and is_formula(cell) else cell


_MAX_FEATURES_SHOWN, _MAX_CLASSES_SHOWN = 30, 6


def score_name(model: Any) -> str:
    """Return the name of `model.score`."""
    from sklearn.base import is_classifier

    if is_classifier(model):
        return "accuracy"
    return "D²" if model.loss_.name in ("poisson", "gamma") else "R²"


def status_word(model: Any) -> str:
    """Return the status of the fit; "streamed" for a model of a stream."""
    status = getattr(model, "status_", None)
    return "streamed" if status is None else str(status)


def as_document(model: Any) -> dict[str, Any]:
    """Return a fitted model as a dictionary for JSON."""
    import numpy as np

    from levelprox.report.fitted import feature_names

    names, coef = feature_names(model), np.atleast_2d(model.coef_)
    certificate = getattr(model, "certificate_", None)
    document = {
        "estimator": type(model).__name__,
        "status": status_word(model),
        "message": getattr(model, "message_", None),
        "n_features_in": int(model.n_features_in_),
        "features": [
            {"index": int(j), "name": names[j], "coefficient": coef[:, j].tolist()} for j in model.selected_features_
        ],
        "intercept": np.atleast_1d(model.intercept_).tolist(),
        "classes": getattr(model, "classes_", None),
        "budget": _budget(model),
        "ridge": getattr(model, "ridge_", None),
        "multiplier": getattr(model, "multiplier_", None),
        "certificate": None if certificate is None else certificate.as_dict(),
        "n_iter": int(model.n_iter_),
    }
    if hasattr(model, "preprocessing_"):
        document["preprocessing"] = model.preprocessing_.as_dict()
    if hasattr(model, "cv_results_"):
        document["chosen"] = model.best_params_
        document["cv"] = {key: values for key, values in model.cv_results_.items() if "split" not in key}
    if hasattr(model, "n_samples_seen_"):
        document["n_samples_seen"] = model.n_samples_seen_
    return document


def _budget(model: Any) -> dict[str, Any]:
    if hasattr(model, "constraint_"):
        return {"level": model.level_}
    costs = {"budget": model.budget_} if hasattr(model, "budget_") else {}
    return {"n_features": int(model.level_), **costs}


def print_model(model: Any, more: list[tuple[str, object]]) -> None:
    """Print the features with their coefficients, then the facts about the fit."""
    _print_features(model)
    print_facts([*_facts(model), *more])


def _print_features(model: Any) -> None:
    import numpy as np

    from levelprox.report.fitted import by_size, feature_name, standardized

    coef, scaled = np.atleast_2d(model.coef_), standardized(model)
    order = by_size(model)
    shown = range(min(coef.shape[0], _MAX_CLASSES_SHOWN))
    heads = (
        ["feature", "coefficient", "standardised"]
        if len(shown) == 1
        else ["feature", *(str(model.classes_[k]) for k in shown)]
    )
    rows: list[list[object]] = [
        [feature_name(model, j), *(float(coef[k, j]) for k in shown)] for j in order[:_MAX_FEATURES_SHOWN]
    ]
    intercept = np.atleast_1d(model.intercept_)
    if len(shown) == 1:
        rows = [[*row, float(scaled[0, j])] for row, j in zip(rows, order, strict=False)]
    if model.fit_intercept:
        rows.append(["(intercept)", *(float(intercept[k]) for k in shown), *([""] if len(shown) == 1 else [])])
    left = [(order.size - _MAX_FEATURES_SHOWN, "features"), (coef.shape[0] - len(shown), "classes")]
    print_table(heads, rows)
    for count, what in left:
        if count > 0:
            print_facts([("", f"and {count} more {what}: --json shows all")])


def _preprocessing(made: Any) -> list[tuple[str, object]]:
    """Return how text columns and missing values were processed."""
    facts: list[tuple[str, object]] = []
    one_hot = [f"{column.name} ({len(column.categories)})" for column in made.columns if column.categories]
    if one_hot:
        more = f" and {len(one_hot) - _MAX_CLASSES_SHOWN} more" if len(one_hot) > _MAX_CLASSES_SHOWN else ""
        facts.append(("categories of", ", ".join(one_hot[:_MAX_CLASSES_SHOWN]) + more))
    if made.impute is not None:
        facts.append(("missing values", f"replaced by the {made.impute.replace('-', ' ')} of their column"))
    return facts


def _facts(model: Any) -> list[tuple[str, object]]:
    from levelprox.report.fitted import fit_words

    facts: list[tuple[str, object]] = []
    if hasattr(model, "classes_") and model.classes_.size == 2:
        facts.append(("classes", f"positive is {model.classes_[1]}, negative {model.classes_[0]}"))
    if hasattr(model, "preprocessing_"):
        facts += _preprocessing(model.preprocessing_)
    if hasattr(model, "best_params_"):
        facts.append(("chosen", ", ".join(f"{name} = {value:g}" for name, value in model.best_params_.items())))
        by = str(model.criterion).lower()
        facts.append(("mean score over folds" if by == "cv" else by, f"{model.best_score_:.6g}"))
    if not hasattr(model, "certificate_"):
        seen = f"{model.n_samples_seen_:g} samples in {model.n_iter_} batches"
        return [*facts, ("streamed", seen), ("certificate", "none for a stream, whose data are not stored")]
    return [*facts, *fit_words(model), ("status", str(model.status_).replace("_", " "))]
