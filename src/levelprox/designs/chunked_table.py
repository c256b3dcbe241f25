"""Parquet: some row groups at a time, read by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox.designs._base import Design
from levelprox.designs.chunked import CHUNK_BYTES, Chunked
from levelprox.designs.dense import DenseDesign
from levelprox.exceptions import BackendError, FileFormatError, InvalidInputError
from levelprox.io.opened import shown
from levelprox.io.stored import FileState
from levelprox.io.table import TARGETS, listed

_NARROW = ("float", "halffloat", "int8", "uint8", "int16", "uint16", "bool")  # what float32 holds without rounding
_WIDE = ("double", "int32", "uint32", "int64", "uint64")


class ChunkedTable(Chunked):
    """A Parquet file.

    Parameters
    ----------
    path : path-like
        All columns but the target must be numbers.
    target : str, optional
        The column of the targets. By default "target" or "y", where there is one of them.
    chunk_bytes : int
        Of numbers in memory; a row group is never split.
    """

    def __init__(self, path: str | os.PathLike[str], target: str | None = None, chunk_bytes: int = CHUNK_BYTES) -> None:
        name = shown(path)
        arrow, parquet = _pyarrow(name)
        state = FileState(path)
        try:
            # a file for each chunk that is read: two threads may do so at once
            self._open: Callable[[], Any] = lambda: parquet.ParquetFile(path)
            with self._open() as file:
                groups, schema = file.metadata, file.schema_arrow
                rows = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
        except (arrow.ArrowException, OSError) as error:
            if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
                raise
            raise FileFormatError(f"{name}: this is no Parquet file, or it is damaged: {error}") from error
        self._errors = (arrow.ArrowException, OSError)
        self.target_name = _target(target, schema.names, name)
        names = [one for one in schema.names if one != self.target_name]
        kinds = {one: str(schema.field(one).type) for one in names}
        words = [one for one in names if kinds[one] not in (*_NARROW, *_WIDE)]
        if words:
            raise FileFormatError(f"{name}: {listed(words)}: {kinds[words[0]]}, no numbers; leave them out of the file")
        dtype = np.dtype(np.float32 if all(kind in _NARROW for kind in kinds.values()) else np.float64)
        self._groups = _grouped(rows, len(names) * dtype.itemsize, chunk_bytes)
        bounds = np.cumsum([0, *(sum(rows[i] for i in some) for some in self._groups)], dtype=np.int64)
        super().__init__(path, [state], (int(bounds[-1]), len(names)), dtype, bounds, names)
        self.nbytes = self.shape[0] * self.shape[1] * dtype.itemsize

    def chunk_bytes(self, i: int) -> int:
        return self.n_rows(i) * self.shape[1] * self.dtype.itemsize

    @property
    def has_target(self) -> bool:
        return self.target_name is not None

    def target(self, i: int) -> NDArray[Any]:
        if self.target_name is None:
            raise InvalidInputError(f"{self.name} holds no targets: name the column, or give y")
        column = self._column(i, self._table(i, [self.target_name]), self.target_name)
        if column.dtype.kind == "O":
            column = np.asarray(column.tolist())
        if column.dtype.kind not in "buifUS":
            raise FileFormatError(f"{self.name}: column {self.target_name!r} holds neither numbers nor words")
        return column

    def _read(self, i: int) -> NDArray[Any]:
        assert self.names is not None
        table = self._table(i, self.names)
        X = np.empty((table.num_rows, self.shape[1]), self.dtype)
        for j, name in enumerate(self.names):
            X[:, j] = self._column(i, table, name)
        return X

    def _design(self, i: int, read: NDArray[Any]) -> Design:
        return DenseDesign(read)

    def _table(self, i: int, columns: list[str]) -> Any:
        self.check_unchanged()
        try:
            with self._open() as file:
                table = file.read_row_groups(self._groups[i], columns=columns)
        except self._errors as error:
            self.check_unchanged()
            raise BackendError(f"{self.name}: row groups {self._groups[i]} cannot be read: {error}") from error
        self.check_unchanged()
        return table

    def _column(self, i: int, table: Any, name: str) -> NDArray[Any]:
        column = table.column(name)
        if column.null_count:
            row = self.rows(i).start + int(np.argmax(column.is_null().to_numpy()))
            raise FileFormatError(
                f"{self.name}: row {row}, column {name!r} is missing ({column.null_count} in these row groups)"
            )
        return np.asarray(column.to_numpy())


def _target(target: str | None, names: list[str], name: str) -> str | None:
    if target is not None:
        if target not in names:
            raise InvalidInputError(f"{name}: no column {target!r} for the target; there are {listed(names)}")
        return target
    found = [one for one in TARGETS if one in names]
    if len(found) > 1:
        raise InvalidInputError(f"{name}: which column is the target? Both {found[0]!r} and {found[1]!r} are there")
    return found[0] if found else None


def _grouped(rows: list[int], row_bytes: int, chunk_bytes: int) -> list[list[int]]:
    """Row groups that are read together."""
    groups: list[list[int]] = []
    size = 0
    for i, count in enumerate(rows):
        if not count:
            continue
        if groups and size + count * row_bytes <= chunk_bytes:
            groups[-1].append(i)
            size += count * row_bytes
        else:
            groups.append([i])
            size = count * row_bytes
    return groups


def _pyarrow(name: str) -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError(f"{name}: reading row groups of Parquet needs pyarrow: pip install pyarrow") from None
    return pyarrow, parquet
