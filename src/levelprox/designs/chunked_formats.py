"""Formats of files that are read in chunks: CSR matrices and Parquet tables.

A CSR matrix is an .npz, a folder of .npy files, or a converted LIBSVM file: row i has the entries data[p] at indices[p]
for indptr[i] ≤ p < indptr[i + 1]. Of Parquet some row groups are read at a time, by pyarrow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from levelprox.designs._base import Design
from levelprox.designs.chunked import CHUNK_BYTES, Chunked, check_type, checked_targets
from levelprox.designs.dense import DenseDesign
from levelprox.designs.sparse import SparseDesign
from levelprox.exceptions import BackendError, FileFormatError, InvalidInputError
from levelprox.io.arrays import FileState, StoredArray
from levelprox.io.opened import shown
from levelprox.io.table import TARGETS, listed

_MEMBERS = ("data", "indices", "indptr", "shape")
_BLOCK = 2**20  # rows whose bounds are checked at a time


class ChunkedSparse(Chunked):
    """A CSR matrix in files.

    Parameters
    ----------
    path : path-like
        What errors name.
    arrays : mapping of str to StoredArray
        "data", "indices" and "indptr".
    shape : (int, int)
    target : StoredArray, optional
    chunk_bytes : int
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        arrays: Mapping[str, StoredArray],
        shape: tuple[int, int],
        target: StoredArray | None = None,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        name = shown(path)
        self._data, self._indices, self._indptr = (arrays[key] for key in _MEMBERS[:3])
        check_type(self._data.dtype, name)
        for key in ("indices", "indptr"):
            kind = arrays[key].dtype
            if kind not in (np.dtype(np.int32), np.dtype(np.int64)):
                raise FileFormatError(f"{name}: {key} must be int32 or int64, got {kind}")
        stored = self._data.shape
        if len(stored) != 1 or self._indices.shape != stored or self._indptr.shape != (shape[0] + 1,):
            raise FileFormatError(
                f"{name}: data, indices and indptr have shapes {stored}, {self._indices.shape} and "
                f"{self._indptr.shape}, which is not a CSR matrix of {shape[0]} rows"
            )
        self._y = None if target is None else checked_targets(target, "the same file", shape[0], name)
        used = [self._data, self._indices, self._indptr, *([] if target is None else [target])]
        states = {one.state.path: one.state for one in used}
        bounds, self._begins = _bounds(self._indptr, stored[0], self._entry_bytes, chunk_bytes, name)
        super().__init__(path, list(states.values()), shape, self._data.dtype, bounds)
        self.nbytes = sum(one.nbytes for one in (self._data, self._indices, self._indptr))

    @classmethod
    def of_members(
        cls, path: str | os.PathLike[str], members: Mapping[str, StoredArray], target: str | None, chunk_bytes: int
    ) -> Self:
        """Return the matrix in arrays by name: data, indices, indptr, and perhaps format, shape and targets."""
        name = shown(path)
        missing = [key for key in _MEMBERS[:3] if key not in members]
        if missing:
            raise FileFormatError(
                f"{name}: there is no array {missing[0]!r} of a CSR matrix, but "
                f"{', '.join(sorted(members)) or 'nothing'}"
            )
        kind = _word(members["format"]) if "format" in members else "csr"
        if kind != "csr":
            raise FileFormatError(f"{name}: the matrix is {kind}, and is read some rows at a time: save X.tocsr()")
        if target is not None and target not in members:
            raise InvalidInputError(
                f"{name}: there is no array {target!r} for the target, but {', '.join(sorted(members))}"
            )
        y = members.get("y" if target is None else target)
        return cls(path, members, _shape(members, name), y, chunk_bytes)

    @property
    def _entry_bytes(self) -> int:
        return self._data.row_bytes + self._indices.row_bytes

    def _entries(self, i: int) -> slice:
        return slice(int(self._begins[i]), int(self._begins[i + 1]))

    def chunk_bytes(self, i: int) -> int:
        """Return bytes of X in chunk i as it is stored."""
        entries = self._entries(i)
        return int(entries.stop - entries.start) * self._entry_bytes + self.n_rows(i) * self._indptr.row_bytes

    def _read(self, i: int) -> tuple[NDArray[Any], ...]:
        rows, entries = self.rows(i), self._entries(i)
        indptr = self._indptr.rows(rows.start, rows.stop + 1).astype(np.int64)
        indptr -= entries.start
        data, indices = self._data.rows(entries.start, entries.stop), self._indices.rows(entries.start, entries.stop)
        return data, indices, indptr

    def _design(self, i: int, read: tuple[NDArray[Any], ...]) -> Design:
        rows, (data, indices, indptr) = self.rows(i), read
        try:
            return SparseDesign(data, indices, indptr, (self.n_rows(i), self.shape[1]), True)
        except InvalidInputError as error:
            raise FileFormatError(f"{self.name}: rows {rows.start} to {rows.stop - 1}: {error}") from None

    def _check(self, i: int, design: Design) -> None:
        assert isinstance(design, SparseDesign)
        if design.kernel.has_duplicates():
            rows = self.rows(i)
            raise FileFormatError(
                f"{self.name}: among rows {rows.start} to {rows.stop - 1} an entry is stored twice: save the matrix "
                "after X.sum_duplicates()"
            )
        super()._check(i, design)


def _bounds(
    indptr: StoredArray, stored: int, entry_bytes: int, chunk_bytes: int, name: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Chunks of about `chunk_bytes`, of at least one row each: where rows and where entries of each begin."""
    n, bounds, begins, begun, last = indptr.size - 1, [0], [0], 0, 0
    for begin in range(0, n, _BLOCK):
        ends = indptr.rows(begin, min(begin + _BLOCK, n) + 1).astype(np.int64)
        if int(ends[0]) != last or np.any(np.diff(ends) < 0) or int(ends[-1]) > stored:
            raise FileFormatError(f"{name}: indptr does not ascend from 0 to the {stored} entries that are stored")
        last = int(ends[-1])
        # what rows up to each one take, indptr included
        size = entry_bytes * ends + indptr.dtype.itemsize * np.arange(begin, begin + ends.size)
        place = 0
        while (place := int(np.searchsorted(size, begun + chunk_bytes, side="right")) - 1) < ends.size - 1:
            place = max(place, bounds[-1] + 1 - begin)  # a single row, of any size
            if place >= ends.size - 1:
                break
            bounds.append(begin + place)
            begins.append(int(ends[place]))
            begun = int(size[place])
    if last != stored:
        raise FileFormatError(f"{name}: indptr ends at {last}, but {stored} entries are stored")
    if not n:
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    return np.array([*bounds, n], np.int64), np.array([*begins, stored], np.int64)


def _shape(members: Mapping[str, StoredArray], name: str) -> tuple[int, int]:
    n = members["indptr"].size - 1
    if "shape" not in members:
        return n, _largest(members["indices"], name) + 1
    stored = members["shape"]
    if stored.dtype.kind not in "iu" or stored.size != 2:
        raise FileFormatError(f"{name}: the shape must be two whole numbers, got {stored.size} of {stored.dtype}")
    shape = tuple(int(length) for length in stored.all().ravel())
    if shape[0] != n:
        raise FileFormatError(f"{name}: the shape is {shape}, but indptr says {n} rows")
    return n, shape[1]


def _largest(indices: StoredArray, name: str) -> int:
    """Return the largest index; all are checked, some at a time."""
    if len(indices.shape) != 1 or indices.dtype.kind not in "iu":
        raise FileFormatError(f"{name}: indices must be a vector of int32 or int64, got {indices.dtype}")
    blocks = (indices.rows(p, min(p + _BLOCK, indices.size)) for p in range(0, indices.size, _BLOCK))
    return max((int(block.max()) for block in blocks), default=-1)


def _word(array: StoredArray) -> str:
    word = array.all().item() if array.size == 1 else ""
    return word.decode("ascii", "replace") if isinstance(word, bytes) else str(word)


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
            raise FileFormatError(f"{name}: this is not a Parquet file, or it is damaged: {error}") from error
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
        """Return bytes of X in chunk i as it is stored."""
        return self.n_rows(i) * self.shape[1] * self.dtype.itemsize

    @property
    def has_target(self) -> bool:
        """Whether the file holds targets."""
        return self.target_name is not None

    def target(self, i: int) -> NDArray[Any]:
        """Return the targets of the rows of chunk i."""
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
