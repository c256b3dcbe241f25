"""What is in a file against what must be in it: rows, columns, labels, nonzeros. A few megabytes at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from experiments.datasets.errors import DataError
from experiments.datasets.originals import File
from levelprox.exceptions import FileFormatError
from levelprox.io import libsvm_batches

_BATCH = 2000
_LABELS = 100  # more are not distinguished


@dataclass
class Counts:
    """What was found."""

    rows: int = 0
    columns: int = 0
    nonzeros: int = 0
    labels: set[float] = field(default_factory=set)


def check(path: Path, file: File) -> Counts:
    """Return the counts if they are as expected, else raise an error."""
    try:
        found = count(path, file.columns)
    except FileFormatError as error:
        raise DataError(f"{file.name} cannot be read: {error}") from error
    trouble = next(_differences(found, file), None)
    if trouble is not None:
        raise DataError(f"{file.name} is not the file of the paper: {trouble}")
    return found


def count(path: Path, columns: int) -> Counts:
    """Everything in one pass; an index beyond `columns` is an error."""
    found = Counts()
    for X, y in libsvm_batches(path, _BATCH, n_features=columns):
        found.rows += y.size
        found.columns = max(found.columns, int(X.indices.max(initial=-1)) + 1)
        found.nonzeros += int(np.count_nonzero(X.data))
        if len(found.labels) < _LABELS:
            found.labels.update(np.unique(y).tolist())
    return found


def _differences(found: Counts, file: File) -> Iterator[str]:
    if found.rows != file.rows:
        yield f"expected {file.rows} rows, found {found.rows}"
    if file.nonzeros and found.columns != file.columns:
        yield f"expected {file.columns} columns, found {found.columns}"
    if file.labels is not None and found.labels != file.labels:
        yield f"expected the labels {_listed(file.labels)}, found {_listed(found.labels)}"
    if file.nonzeros:
        share = 100 * found.nonzeros / (file.rows * file.width)
        if abs(share - float(file.nonzeros)) > _last_digit(file.nonzeros):
            yield f"expected {file.nonzeros} % nonzeros, found {share:.4g} %"


def _last_digit(number: str) -> float:
    """One unit of it: the paper rounds, and not always to the nearest."""
    return 10.0 ** -len(number.partition(".")[2])


def _listed(labels: set[float] | frozenset[float]) -> str:
    first = [f"{label:g}" for label in sorted(labels)[:12]]
    return ", ".join(first) + (", ..." if len(labels) > 12 else "")
