"""A CSR matrix in files: an .npz or a folder of .npy, or what a LIBSVM file was converted to.

Row i has the entries data[p] at indices[p] for indptr[i] ≤ p < indptr[i + 1].
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import PathLike
from levelprox.designs._base import Design
from levelprox.designs.chunked import CHUNK_BYTES, Chunked, Targets, check_type, targets_of
from levelprox.designs.sparse import SparseDesign
from levelprox.exceptions import FileFormatError, InvalidInputError
from levelprox.io.opened import shown
from levelprox.io.stored import StoredArray, open_npy, open_npz

_MEMBERS = ("data", "indices", "indptr", "shape")
_BLOCK = 2**20  # rows whose bounds are looked at at a time


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
                f"{self._indptr.shape}, which is no CSR matrix of {shape[0]} rows"
            )
        self._y = None if target is None else Targets(target, "the same file", shape[0], name)
        used = [self._data, self._indices, self._indptr, *([] if target is None else [target])]
        states = {one.state.path: one.state for one in used}
        bounds, self._begins = _bounds(self._indptr, stored[0], self._entry_bytes, chunk_bytes, name)
        super().__init__(path, list(states.values()), shape, self._data.dtype, bounds)
        self.nbytes = sum(one.nbytes for one in (self._data, self._indices, self._indptr))

    @classmethod
    def from_npz(cls, path: str | os.PathLike[str], target: str | None = None, chunk_bytes: int = CHUNK_BYTES) -> Self:
        """A file of `scipy.sparse.save_npz(..., compressed=False)`, perhaps with an array "y" besides."""
        return cls._of_members(path, open_npz(path), target, chunk_bytes)

    @classmethod
    def from_folder(
        cls, path: str | os.PathLike[str], target: str | None = None, chunk_bytes: int = CHUNK_BYTES
    ) -> Self:
        """data.npy, indices.npy, indptr.npy, and perhaps shape.npy and y.npy."""
        members = {one.stem: open_npy(one) for one in sorted(Path(path).glob("*.npy"))}
        return cls._of_members(path, members, target, chunk_bytes)

    @classmethod
    def from_libsvm(
        cls,
        path: PathLike,
        *,
        cache: str | os.PathLike[str] | None = None,
        n_features: int | None = None,
        zero_based: bool = False,
        dtype: Any = np.float64,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> Self:
        """A LIBSVM file, converted once; see `levelprox.io.converted`."""
        from levelprox.io.converted import converted_libsvm  # other files do without the parser

        form = converted_libsvm(path, cache=cache, n_features=n_features, zero_based=zero_based, dtype=dtype)
        return cls(os.fsdecode(path), form.arrays, form.shape, form.arrays["y"], chunk_bytes)

    @classmethod
    def _of_members(
        cls, path: str | os.PathLike[str], members: Mapping[str, StoredArray], target: str | None, chunk_bytes: int
    ) -> Self:
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
        entries = self._entries(i)
        return int(entries.stop - entries.start) * self._entry_bytes + self.n_rows(i) * self._indptr.row_bytes

    @property
    def has_target(self) -> bool:
        return self._y is not None

    def target(self, i: int) -> NDArray[Any]:
        return targets_of(self, self._y)[self.rows(i)]

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
            place = max(place, bounds[-1] + 1 - begin)  # a row of its own, however large
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
    """The largest index; all of them are looked at, some at a time."""
    if len(indices.shape) != 1 or indices.dtype.kind not in "iu":
        raise FileFormatError(f"{name}: indices must be a vector of int32 or int64, got {indices.dtype}")
    blocks = (indices.rows(p, min(p + _BLOCK, indices.size)) for p in range(0, indices.size, _BLOCK))
    return max((int(block.max()) for block in blocks), default=-1)


def _word(array: StoredArray) -> str:
    word = array.all().item() if array.size == 1 else ""
    return word.decode("ascii", "replace") if isinstance(word, bytes) else str(word)
