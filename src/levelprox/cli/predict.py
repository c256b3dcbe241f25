"""levelprox predict and levelprox certify: a model file with data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelprox.cli._data import (
    as_classes,
    check_files,
    errors_as_bad_data,
    features_for_model,
    read_for_model,
    reading_options,
    write_text,
)
from levelprox.cli._options import Options, between, command
from levelprox.cli._output import csv_lines, heading, print_json, print_line, print_table, safe
from levelprox.cli._process import CommandError, Exit, UsageError, print_notice, reading

if TYPE_CHECKING:
    from levelprox.estimators import Claims

_ROWS_PER_PART = 10_000  # formatted at a time


@command(
    "model",
    "data",
    *between("out", "spreadsheet_safe"),
    *between("exposure", "offset"),
    *between("format", "zero_based"),
    "threads",
    "json",
    "force",
    "quiet",
    out=("PREDICTIONS.csv", "By default standard output."),
)
def predict(options: Options, warned: list[str]) -> int:
    """Predict new data; the result is CSV with a header.

    [bold]levelprox predict model.levelprox new.csv --out predictions.csv[/bold]

    Columns are found by name; only those with a coefficient are needed, and no target. Give the raw data: categories
    and missing values are processed as in the fit. A category that the fit has not seen gives a warning and is encoded
    as zeros.
    """
    model, data, out = options.model, options.data, options.out
    if options.json and out is not None:
        raise UsageError("give --json or --out, not both")
    if options.json and options.spreadsheet_safe:
        raise UsageError("--spreadsheet-safe is for CSV: give it without --json")
    check_files((model, data), (out,), options.force)
    how = reading_options(options)
    fitted = _restricted_to_used_features(_load(model))
    _check_columns(fitted, model, how, options.quiet)
    columns = _columns(fitted, read_for_model(fitted, data, how, needs_target=False), options.proba)
    if options.json:
        print_json({**heading("predict"), **columns, "warnings": warned})
    elif out is None:
        for part in _lines(columns, options.spreadsheet_safe):
            sys.stdout.write(part)
    else:
        write_text(out, _lines(columns, options.spreadsheet_safe), options.force)
        if not options.quiet:
            print_notice(f"levelprox: wrote {out}")
    return Exit.OK


def _load(path: Path) -> Any:
    """Load a model file."""
    import levelprox

    with reading(path):
        return levelprox.load(path)


def _restricted_to_used_features(model: Any) -> Any:
    """Return a copy with only the features that have coefficients, if they have names: data need no others."""
    import copy

    import numpy as np

    names = getattr(model, "feature_names_in_", None)
    used = np.flatnonzero(np.atleast_2d(model.coef_).any(axis=0))
    if names is None or not used.size:
        return model
    small = copy.copy(model)
    small.coef_, small.feature_names_in_, small.n_features_in_ = model.coef_[..., used], names[used], used.size
    if hasattr(model, "preprocessing_"):
        small.preprocessing_ = model.preprocessing_.restricted(names[used])
    if hasattr(model, "scale_"):
        small.scale_ = model.scale_[used]
    return small


def _check_columns(model: Any, path: Path, how: Any, quiet: bool) -> None:
    """Raise UsageError for exposures and offsets that the model does not take; note if those of the fit are missing."""
    from sklearn.base import is_classifier

    loss = getattr(model.loss, "name", str(model.loss).lower())
    if how.exposure is not None and loss not in ("poisson", "gamma"):
        raise UsageError(f"--exposure is for poisson and gamma; the loss of {path} is {loss}")
    if how.offset is not None and is_classifier(model):
        raise UsageError(f"--offset is for regression; {path} is a classifier")
    known = getattr(model, "data_fingerprint_", None)
    for name, meaning in (("exposure", "for an exposure of 1"), ("offset", "without an offset")):
        if getattr(known, name, None) is not None and getattr(how, name) is None and not quiet:
            print_notice(f"levelprox: the model was fitted with --{name}; these predictions are {meaning}")


def _columns(model: Any, data: Any, proba: bool) -> dict[str, Any]:
    X = features_for_model(model, data)
    with errors_as_bad_data():
        columns = {"prediction": model.predict(X, **data.more)}
        if proba:
            if not hasattr(model, "predict_proba"):
                raise CommandError(f"{type(model).__name__} with loss={model.loss!r} has no probabilities", Exit.DATA)
            for label, column in zip(model.classes_, model.predict_proba(X).T, strict=True):
                columns[f"probability_{label}"] = column
    return columns


def _lines(columns: dict[str, Any], spreadsheet_safe: bool) -> Iterator[str]:
    """Yield the lines of a CSV file, many at a time; numbers have all their digits."""
    heads, values = list(columns), list(columns.values())
    yield csv_lines([heads])
    for begin in range(0, len(values[0]), _ROWS_PER_PART):
        parts = [column[begin : begin + _ROWS_PER_PART].tolist() for column in values]
        if spreadsheet_safe:
            parts = [[safe(cell) for cell in part] for part in parts]
        yield csv_lines(zip(*parts, strict=True))


@command(
    "model",
    "data",
    "target",
    "weight",
    *between("exposure", "offset"),
    *between("format", "zero_based"),
    "prove",
    "threads",
    "json",
    "quiet",
)
def certify(options: Options, warned: list[str]) -> int:
    """Recompute the certificate of a model from the data and compare it with the file.

    [bold]levelprox certify model.levelprox train.csv --target price[/bold]

    The exit code is 0 if every examined claim holds, else 4.
    """
    model, data = options.model, options.data
    check_files((model, data))
    how = reading_options(options)
    from levelprox import certify_model

    fitted = _load(model)
    read = read_for_model(fitted, data, how, needs_target=True, quiet=True)
    y: Any = as_classes(read.y) if hasattr(fitted, "classes_") and read.y is not None else read.y
    with errors_as_bad_data():
        X = features_for_model(fitted, read)
        found = certify_model(fitted, X, y, read.weight, prove=options.prove, **read.more)
    if options.json:
        print_json({**heading("certify"), "model": model, "data": data, **found.as_dict(), "warnings": warned})
    else:
        _print_claims(model, found)
    return Exit.OK if found.hold else Exit.FAILED


def _print_claims(model: Path, found: Claims) -> None:
    print_line(str(found).splitlines()[0])  # the line about the data
    print_table(["claim", "in the file", "from the data", ""], [one.words for one in found.claims])
    verdict = "every claim that was examined holds" if found.hold else "NOT every claim holds"
    rest = f"; not examined: {', '.join(found.not_examined)}" if found.not_examined else ""
    print_line(f"{model}: {verdict}{rest}.")
