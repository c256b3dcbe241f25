"""levelprox predict and certify: a model file with data; levelprox info: the contents of any file."""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelprox.cli._data import (
    as_classes,
    check_files,
    container_header,
    errors_as_bad_data,
    features_for_model,
    format_of_file,
    infer_task_from_target,
    read,
    read_for_model,
    reading_options,
    write_text,
)
from levelprox.cli._options import Options, between, command
from levelprox.cli._output import (
    as_document,
    csv_lines,
    heading,
    print_facts,
    print_json,
    print_line,
    print_model,
    print_table,
    safe,
)
from levelprox.cli._process import CommandError, Exit, UsageError, print_notice, reading
from levelprox.exceptions import counted

if TYPE_CHECKING:
    from levelprox.estimators import Claims

_ROWS_PER_PART = 10_000  # formatted at a time
_MAX_CLASSES_SHOWN = 20


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


@command("file", "target", *between("format", "zero_based"), "json", "quiet")
def info(options: Options, warned: list[str]) -> int:
    """Show the contents of a model, a checkpoint or a data file.

    [bold]levelprox info model.levelprox[/bold]

    For a model: parameters, features, certificate and versions. For data: shape and target.
    """
    check_files((options.file,))
    header = b"" if options.format is not None else container_header(options.file)
    if not header:
        about = _info_of_data(options)
    elif b"levelprox checkpoint" in header:
        about = _info_of_checkpoint(options)
    else:
        about = _info_of_model(options)
    if options.json:
        print_json({"command": "info", **about, "warnings": warned})
    return Exit.OK


def _info_of_model(options: Options) -> dict[str, Any]:
    """Return what --json prints of a model; without --json, print it."""
    from levelprox.estimators.persistence import read_model

    with reading(options.file):
        found = read_model(options.file)
    model = found.model
    parameters = {name: value for name, value in model.get_params(deep=False).items() if value is not None}
    if not options.json:
        print_line(f"{options.file}: a model, {type(model).__name__} of {counted(model.n_features_in_, 'feature')}")
        versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
        words = ", ".join(f"{name}={value!r:.60}" for name, value in parameters.items())
        data = getattr(model, "data_fingerprint_", None)
        samples = [] if data is None else [("fitted to", counted(data.shape[0], "sample"))]
        print_model(model, [*samples, ("parameters", words), ("made with", versions)])
    about = {"kind": "model", "path": options.file, "versions": found.versions, "parameters": parameters}
    return {**about, **as_document(model)}


def _info_of_checkpoint(options: Options) -> dict[str, Any]:
    from levelprox.io import checkpoint

    contents = checkpoint.read(options.file)
    about = {name: value for name, value in contents.metadata.items() if name not in ("run", "journal")}
    about |= _run(contents.metadata.get("run", "{}"))
    arrays = {name: list(array.shape) for name, array in contents.arrays.items()}
    if not options.json:
        print_line(f"{options.file}: a checkpoint; --resume continues from it")
        n_bytes = sum(array.nbytes for array in contents.arrays.values())
        print_facts([*about.items(), ("arrays", f"{len(arrays)}, {n_bytes} bytes")])
    return {"kind": "checkpoint", "path": options.file, "metadata": about, "arrays": arrays}


def _run(text: str) -> dict[str, str]:
    """Return the identity of the run, without the hashes of data."""
    with suppress(ValueError, AttributeError):  # written by another version
        found = {str(name): str(value) for name, value in json_.loads(text).items()}
        return {name: value for name, value in found.items() if not value.startswith("#")}
    return {}


def _info_of_data(options: Options) -> dict[str, Any]:
    from levelprox.io.data import MATRIX_FORMATS

    file, how = options.file, reading_options(options)
    kind = format_of_file(file, how)
    facts = _of_matrix(read(file, how)) if kind in MATRIX_FORMATS else _of_table(file, kind, how)
    if not options.json:
        print_line(f"{file}: data, {kind}")
        print_facts([(name.replace("_", " "), _words(value)) for name, value in facts.items() if value is not None])
    return {"kind": "data", "format": kind, "path": file, **facts}


def _of_matrix(data: Any) -> dict[str, Any]:
    n, d = data.shape
    stored = data.n_nonzero
    facts = {"n_samples": n, "n_features": d, "n_nonzero": stored}
    return {**facts, "density": None if stored is None else stored / max(n * d, 1), "target": _target(data.y)}


def _of_table(file: Path, kind: str, how: Any) -> dict[str, Any]:
    """Return facts about a table; its target may be unknown."""
    from levelprox.io.data import read_table
    from levelprox.io.table import TARGETS

    with reading(file):
        table = read_table(file, kind, how)
    missing = {name: table.frame[name].null_count() for name in table.names}
    target = how.target or next((name for name in TARGETS if name in table.names), None)
    columns = {name: str(kind) for name, kind in table.frame.schema.items()}
    facts = {"n_rows": table.frame.height, "n_columns": len(columns), "columns": columns}
    facts["missing"] = {name: count for name, count in missing.items() if count} or None
    if target is not None and not missing.get(table.checked(target, "target")):
        facts["target"] = {"name": target, **_target(table.labels(table.checked(target, "target")))}
    return facts


def _target(y: Any) -> dict[str, Any]:
    import numpy as np

    task, _ = infer_task_from_target(y)
    y = as_classes(y)
    values, counts = np.unique(y.astype(str) if y.dtype.kind == "O" else y, return_counts=True)
    if values.size > _MAX_CLASSES_SHOWN:
        return {"looks_like": task, "different_values": int(values.size), "from": values[0], "to": values[-1]}
    return {"looks_like": task, "counts": {f"{value}": int(n) for value, n in zip(values, counts, strict=True)}}


def _words(value: Any) -> str:
    if isinstance(value, dict):
        words = [f"{name.replace('_', ' ')}: {_words(one)}" for name, one in value.items()]
        return "; ".join(words[:30]) + (f"; and {len(words) - 30} more" if len(words) > 30 else "")
    return f"{value:.6g}" if isinstance(value, float) else str(value)
