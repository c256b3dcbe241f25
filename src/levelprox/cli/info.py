"""levelprox info: the contents of a file."""

from __future__ import annotations

import json as json_
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from levelprox.cli._data import (
    as_classes,
    check_files,
    container_header,
    format_of_file,
    infer_task_from_target,
    read,
    reading_options,
)
from levelprox.cli._options import Options, between, command
from levelprox.cli._output import as_document, print_facts, print_json, print_line, print_model
from levelprox.cli._process import Exit, reading
from levelprox.exceptions import counted

_MAX_CLASSES_SHOWN = 20


@command("file", "target", *between("format", "zero_based"), "json", "quiet")
def info(options: Options, warned: list[str]) -> int:
    """Show the contents of a model, a checkpoint or a data file.

    [bold]levelprox info model.levelprox[/bold]

    For a model: parameters, features, certificate and versions. For data: shape and target.
    """
    check_files((options.file,))
    how = reading_options(options)
    show = _data if options.format is not None else _kind(options.file)
    show(options.file, how, options.json, warned)
    return Exit.OK


def _kind(file: Path) -> Callable[[Path, Any, bool, list[str]], None]:
    """Return what shows a model, a checkpoint or data, by the header of the file."""
    header = container_header(file)
    if not header:
        return _data
    return _checkpoint if b"levelprox checkpoint" in header else _model


def _model(file: Path, how: Any, json: bool, warned: list[str]) -> None:
    from levelprox.estimators.persistence import read_model

    with reading(file):
        found = read_model(file)
    model = found.model
    parameters = {name: value for name, value in model.get_params(deep=False).items() if value is not None}
    if json:
        about = {"kind": "model", "path": file, "versions": found.versions, "parameters": parameters}
        print_json({"command": "info", **about, **as_document(model), "warnings": warned})
        return
    print_line(f"{file}: a model, {type(model).__name__} of {counted(model.n_features_in_, 'feature')}")
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    words = ", ".join(f"{name}={value!r:.60}" for name, value in parameters.items())
    data = getattr(model, "data_fingerprint_", None)
    samples = [] if data is None else [("fitted to", counted(data.shape[0], "sample"))]
    print_model(model, [*samples, ("parameters", words), ("made with", versions)])


def _checkpoint(file: Path, how: Any, json: bool, warned: list[str]) -> None:
    from levelprox.io import checkpoint

    contents = checkpoint.read(file)
    about = {name: value for name, value in contents.metadata.items() if name not in ("run", "journal")}
    about |= _run(contents.metadata.get("run", "{}"))
    arrays = {name: list(array.shape) for name, array in contents.arrays.items()}
    if json:
        shapes = {"metadata": about, "arrays": arrays, "warnings": warned}
        print_json({"command": "info", "kind": "checkpoint", "path": file, **shapes})
        return
    print_line(f"{file}: a checkpoint; --resume continues from it")
    print_facts([*about.items(), ("arrays", f"{len(arrays)}, {sum(a.nbytes for a in contents.arrays.values())} bytes")])


def _run(text: str) -> dict[str, str]:
    """Return the identity of the run, without the hashes of data."""
    with suppress(ValueError, AttributeError):  # written by another version
        found = {str(name): str(value) for name, value in json_.loads(text).items()}
        return {name: value for name, value in found.items() if not value.startswith("#")}
    return {}


def _data(file: Path, how: Any, json: bool, warned: list[str]) -> None:
    kind = format_of_file(file, how)
    from levelprox.io.data import MATRIX_FORMATS

    facts = _of_matrix(read(file, how)) if kind in MATRIX_FORMATS else _of_table(file, kind, how)
    if json:
        print_json({"command": "info", "kind": "data", "format": kind, "path": file, **facts, "warnings": warned})
        return
    print_line(f"{file}: data, {kind}")
    print_facts([(name.replace("_", " "), _words(value)) for name, value in facts.items() if value is not None])


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
