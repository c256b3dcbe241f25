"""Partitions of a data file for workers: byte ranges of text, row groups of Parquet, chunks of `open_chunked`.

A partition is read and checked like data in memory; errors name the partition.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from levelprox import open_chunked
from levelprox.cli._process import CommandError, Exit
from levelprox.exceptions import BackendError, FileFormatError
from levelprox.io.data import SEPARATORS, Reading, format_of, of_table, read_table
from levelprox.io.opened import PACKED, shown
from levelprox.io.table import Table, parse_csv, polars_for

_MIN_PART_BYTES, _MAX_PART_BYTES = 2**16, 2**26
_PARTS_PER_WORKER = 2  # of a small file
_SAMPLE_SIZE = 2**18  # bytes of text or rows of Parquet, read first to find the columns


@dataclass(frozen=True)
class Part(ABC):
    """A partition: some rows of a file."""

    path: str
    how: Reading

    @abstractmethod
    def read(self, targets_only: bool = False) -> tuple[Any, Any, Any]:
        """Read X (None with `targets_only`), the targets, and the weights or None."""


@dataclass(frozen=True)
class Parts:
    """The partitions of a file.

    Attributes
    ----------
    parts : sequence of Part
    n_features : int
    names : list of str, optional
        Names of the features.
    target : str, optional
        The target column, if columns have names.
    dtype : dtype
        Type of X.
    """

    parts: Sequence[Part]
    n_features: int
    names: list[str] | None
    target: str | None
    dtype: Any


class _TablePart(Part):
    """A partition of a table."""

    @abstractmethod
    def table(self, columns: list[str] | None = None) -> Table:
        """Read at least these columns."""

    def read(self, targets_only: bool = False) -> tuple[Any, Any, Any]:
        if not targets_only:
            data = of_table(self.table(), None, True, self.how, Path(self.path))
            return np.ascontiguousarray(data.X.to_numpy()), data.y, data.weight
        target, weight = self.how.target, self.how.weight
        assert target is not None  # `_tabular` has found it
        table = self.table([name for name in (target, weight) if name is not None])
        return None, table.labels(target), None if weight is None else table.numbers(weight)


@dataclass(frozen=True)
class TextPart(_TablePart):
    """Lines of a CSV file: bytes `begin` to `end`, with the header in front; the whole file if `end` is None."""

    first: bytes
    begin: int
    end: int | None

    def table(self, columns: list[str] | None = None) -> Table:
        if self.end is None:
            return read_table(self.path, self.how.format or format_of(self.path), self.how)
        with open(self.path, "rb") as file:
            file.seek(self.begin)
            text = file.read(self.end - self.begin)
        name = f"{shown(self.path)} from byte {self.begin} on"
        if len(text) < self.end - self.begin:
            raise BackendError(f"{name}: the file was cut short since it was opened: {len(text)} bytes are left")
        return _parsed(self.first + text, name, self.path, self.how)


@dataclass(frozen=True)
class RowGroups(_TablePart):
    """Row groups of a Parquet file."""

    groups: tuple[int, ...]

    def table(self, columns: list[str] | None = None) -> Table:
        from pyarrow import parquet

        with parquet.ParquetFile(self.path) as file:
            read = file.read_row_groups(list(self.groups), columns=columns)
        return _of_arrow(read, f"{shown(self.path)}, row groups {self.groups[0]} to {self.groups[-1]}")


@dataclass(frozen=True)
class ChunkPart(Part):
    """A chunk of a file that `open_chunked` reads."""

    size: int
    index: int

    def read(self, targets_only: bool = False) -> tuple[Any, Any, Any]:
        chunked = _opened(self.path, self.how, self.size)
        X: Any = None
        if not targets_only:
            design: Any = chunked.chunk(self.index)
            if hasattr(design, "indptr"):
                stored = (np.array(one) for one in (design.data, design.indices, design.indptr))
                X = scipy.sparse.csr_matrix(tuple(stored), shape=design.shape)
            else:
                X = np.array(design.array)
        return X, chunked.target(self.index), None


def parts_of(path: Path, how: Reading, workers: int) -> Parts:
    """Divide a file into partitions for a number of workers."""
    place, how = os.path.abspath(path), replace(how, is_whole=False)
    files = sorted(str(one) for one in Path(place).glob("*.parquet")) if path.is_dir() else [place]
    size = sum(os.stat(one).st_size for one in files)
    each = min(max(size // (_PARTS_PER_WORKER * workers), _MIN_PART_BYTES), _MAX_PART_BYTES)
    if path.is_dir():
        kind = "parquet" if files else "arrays"
    else:
        kind = "arrays" if path.suffix.lower() == ".npy" else how.format or format_of(path)
    if kind == "parquet":
        return _parquet(files, how, each)
    if kind in ("csv", "tsv"):
        return _text(place, how, each)
    chunked = _opened(place, how, each)
    parts = [ChunkPart(place, how, each, i) for i in range(chunked.n_chunks)]
    return Parts(parts, chunked.shape[1], None, how.target, chunked.dtype)


def _opened(path: str, how: Reading, size: int) -> Any:
    target = how.target
    if target is not None and path.endswith(".npy"):  # the targets are in a file of their own
        target = os.path.abspath(target)
    return open_chunked(path, target, chunk_bytes=size, zero_based=how.zero_based)


def _text(path: str, how: Reading, size: int) -> Parts:
    with open(path, "rb") as file:
        if file.read(6).startswith(tuple(PACKED)):
            whole = TextPart(path, how, b"", 0, None)
            return _tabular([whole], whole.table(), how)
        file.seek(0)
        first = file.readline() if how.header else b""
        begins, end = [file.tell()], file.seek(0, os.SEEK_END)
        length = end - begins[0]
        count = max(1, -(-length // size))
        for i in range(1, count):
            file.seek(begins[0] + length * i // count - 1)
            file.readline()
            begins.append(file.tell())
        file.seek(0)
        sample = file.read(begins[0] + _SAMPLE_SIZE)
    if len(sample) < end:
        sample = sample[: sample.rfind(b"\n") + 1]
    table = _parsed(sample, shown(path), path, how)
    spans = [(begin, stop) for begin, stop in zip(begins, [*begins[1:], end], strict=True) if begin < stop]
    return _tabular([TextPart(path, how, first, *span) for span in spans], table, how)


def _parsed(text: bytes, name: str, path: str, how: Reading) -> Table:
    if text.count(b'"') % 2:  # a partition that ends inside quotes has an odd number of quotes
        raise FileFormatError(f"{name}: a line ends within quotes, and cannot be cut there: convert it to Parquet")
    return parse_csv(text, name, how.separator or SEPARATORS[how.format or format_of(path)], how.header)


def _parquet(files: list[str], how: Reading, size: int) -> Parts:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError("reading row groups of Parquet needs pyarrow: pip install 'levelprox[io]'") from None
    parts: list[Part] = []
    sample = None
    for path in files:
        try:
            with parquet.ParquetFile(path) as file:
                sample = next(file.iter_batches(batch_size=_SAMPLE_SIZE), None) if sample is None else sample
                parts += [RowGroups(path, how, groups) for groups in _grouped(file.metadata, size)]
        except pyarrow.ArrowException as error:
            raise CommandError(f"{path}: this is not a Parquet file, or it is damaged: {error}", Exit.DATA) from error
    if sample is None:
        raise CommandError(f"{files[0]}: there are no rows", Exit.DATA)
    table = _of_arrow(pyarrow.Table.from_batches([sample]), shown(files[0]))
    return _tabular(parts, table, how)


def _grouped(metadata: Any, size: int) -> list[tuple[int, ...]]:
    """Group row groups into partitions of about `size` bytes."""
    found: list[tuple[int, ...]] = []
    filled = size
    for i in range(metadata.num_row_groups):
        if metadata.row_group(i).num_rows == 0:
            continue
        length = metadata.row_group(i).total_byte_size
        if filled + length > size:
            found, filled = [*found, ()], 0
        found[-1] = (*found[-1], i)
        filled += length
    return found


def _tabular(parts: Sequence[Part], sample: Table, how: Reading) -> Parts:
    """Return the partitions of a table, with the columns found in its first rows."""
    read = of_table(sample, None, True, how, Path(sample.name))
    weight = None if how.weight is None else sample.checked(how.weight, "weight")
    resolved = replace(how, target=read.target_name, weight=weight)
    float64 = np.dtype(np.float64)
    own = [replace(part, how=resolved) for part in parts]
    return Parts(own, read.shape[1], read.feature_names, read.target_name, float64)


def _of_arrow(table: Any, name: str) -> Table:
    return Table(polars_for("Parquet", name).from_arrow(table), name)


MAX_LABELS = 1000  # of different targets that are kept


@dataclass(frozen=True, eq=False)
class TargetSummary:
    """Summary of the targets of remote data.

    Attributes
    ----------
    rows : sequence of int
        Rows of each partition.
    labels : ndarray
        The different targets; not all of them if there are more than `MAX_LABELS`.
    weights : ndarray
        Total weight of each label.
    """

    rows: Sequence[int]
    labels: NDArray[Any]
    weights: NDArray[Any]

    @property
    def has_all(self) -> bool:
        """Whether `labels` has all different targets."""
        return self.labels.size <= MAX_LABELS


def read_part(part: Part, dtype: Any) -> tuple[Any, Any, Any]:
    """Read a partition; its targets get the type of all targets."""
    X, y, weight = part.read()
    return X, y.astype(dtype), weight


def summarize_part(part: Part) -> TargetSummary:
    """Read and summarise the targets of a partition."""
    _, y, weight = part.read(targets_only=True)
    return target_summary(plain_targets(y), weight)


def plain_targets(y: NDArray[Any]) -> NDArray[Any]:
    """Return targets as booleans, float64 or objects."""
    return y.astype(object) if y.dtype.kind in "US" else y if y.dtype.kind in "bO" else y.astype(np.float64)


def listed(*found: TargetSummary) -> list[TargetSummary]:
    """Return the summaries as a list, for a task graph."""
    return list(found)


def target_summary(y: NDArray[Any], weight: NDArray[Any] | None) -> TargetSummary:
    """Return the summary of the targets of one partition."""
    return TargetSummary([y.size], *_totals(y, weight))


def combined(found: Sequence[TargetSummary]) -> TargetSummary:
    """Return the summary of all partitions."""
    if len({one.labels.dtype.kind for one in found}) > 1:
        raise CommandError("the target holds text in some rows and numbers in others", Exit.DATA)
    labels, weights = (np.concatenate(each) for each in zip(*((one.labels, one.weights) for one in found), strict=True))
    return TargetSummary([n for one in found for n in one.rows], *_totals(labels, weights))


def _totals(labels: NDArray[Any], weights: NDArray[Any] | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the different labels, at most one more than `MAX_LABELS`, and the total weight of each."""
    different, places = np.unique(labels, return_inverse=True)
    totals = np.bincount(places, weights, different.size).astype(np.float64)
    return different[: MAX_LABELS + 1], totals[: MAX_LABELS + 1]
