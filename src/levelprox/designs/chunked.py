"""X in files, larger than memory perhaps: read some rows at a time.

| class           | file                                                       | module             |
|-----------------|------------------------------------------------------------|--------------------|
| `ChunkedArray`  | .npy in C order, mapped                                    | here               |
| `ChunkedSparse` | CSR: .npz or a folder of .npy, mapped; LIBSVM, converted   | chunked_sparse.py  |
| `ChunkedTable`  | Parquet, some row groups at a time                         | chunked_table.py   |

`levelprox.open_chunked` chooses. A chunk is a design as any other. What is in it is checked when it is first read.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox.designs.base import Design, check_shape, column_name
from levelprox.designs.dense import DenseDesign
from levelprox.errors import FileFormatError, InvalidInputError
from levelprox.io.mapped import FileState, MappedArray, map_npy
from levelprox.io.opened import shown

#: Bytes of a chunk, about.
CHUNK_BYTES = 2**27
_ALLOWED = (np.dtype(np.float32), np.dtype(np.float64))


class Chunked(ABC):
    """X, and targets where the file holds them, in chunks of rows.

    Parameters
    ----------
    path : path-like
        What errors name.
    states : sequence of FileState
        Of all files that are read.
    shape : (int, int)
    dtype : dtype
        float32 or float64.
    bounds : ndarray of shape (n_chunks + 1,)
        Chunk i has the rows bounds[i] to bounds[i + 1].
    names : list of str, optional
        Of the columns.

    Attributes
    ----------
    path, shape, dtype, bounds, names
    nbytes : int
        Of X as it is stored.
    """

    nbytes: int

    def __init__(
        self,
        path: str | os.PathLike[str],
        states: Sequence[FileState],
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        bounds: NDArray[np.int64],
        names: list[str] | None = None,
    ) -> None:
        self.path, self.shape, self.dtype, self.bounds, self.names = Path(path), shape, dtype, bounds, names
        self._states, self._checked = tuple(states), set[int]()
        try:
            check_shape(shape)
        except InvalidInputError as error:
            raise FileFormatError(f"{self.name}: {error}") from None

    @property
    def name(self) -> str:
        """The file as errors call it."""
        return shown(self.path)

    @property
    def n_chunks(self) -> int:
        return self.bounds.size - 1

    def rows(self, i: int) -> slice:
        """Which rows chunk i has."""
        return slice(int(self.bounds[i]), int(self.bounds[i + 1]))

    def n_rows(self, i: int) -> int:
        """How many rows chunk i has."""
        return int(self.bounds[i + 1] - self.bounds[i])

    def chunk(self, i: int) -> Design:
        """X of the rows of chunk i, in place where that is possible.

        Raises
        ------
        FileFormatError
            Where an entry is not finite, or is stored twice; the row is that of the whole file.
        BackendError
            Where the file is not any more what was opened.
        """
        design = self._chunk(i)
        if i not in self._checked:
            self._check(i, design)
            self._checked.add(i)
        return design

    @abstractmethod
    def chunk_bytes(self, i: int) -> int:
        """Bytes of X in chunk i as it is stored."""

    @property
    @abstractmethod
    def has_target(self) -> bool:
        """Whether the file holds targets."""

    @abstractmethod
    def target(self, i: int) -> NDArray[Any]:
        """Targets of the rows of chunk i."""

    @abstractmethod
    def bring(self, i: int) -> None:
        """Have chunk i read, so that nobody waits for it later; to be called from any thread."""

    @abstractmethod
    def leave(self, i: int) -> None:
        """Let go what is in memory of chunk i."""

    def check_unchanged(self) -> None:
        """Raise a `BackendError` where a file is not any more what was opened."""
        for state in self._states:
            state.check()

    @abstractmethod
    def _chunk(self, i: int) -> Design: ...

    def _check(self, i: int, design: Design) -> None:
        count, row, column, value = design.kernel.nonfinite()
        if count:
            what, rows = "NaN" if np.isnan(value) else f"{value}", self.rows(i)
            raise FileFormatError(
                f"{self.name}: X contains {what} at row {rows.start + row}, {column_name(column, self.names)} "
                f"({count} in rows {rows.start} to {rows.stop - 1})"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, shape={self.shape}, dtype={self.dtype}, n_chunks={self.n_chunks})"


class ChunkedArray(Chunked):
    """An .npy file.

    Parameters
    ----------
    path : path-like
        Of a matrix of float32 or float64 in C order.
    target : path-like, optional
        Of an .npy file with as many entries.
    chunk_bytes : int
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str | os.PathLike[str] | None = None,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._x = map_npy(path)
        shape, dtype = self._x.array.shape, self._x.array.dtype
        if len(shape) != 2:
            raise FileFormatError(f"{shown(path)}: X must have rows and columns, got shape {shape}")
        check_type(dtype, shown(path))
        self._y = None if target is None else Targets(map_npy(target), shown(target), shape[0], shown(path))
        states = [self._x.state] if self._y is None else [self._x.state, self._y.mapped.state]
        super().__init__(
            path, states, (shape[0], shape[1]), dtype, even_bounds(shape[0], self._x.row_bytes, chunk_bytes)
        )
        self.nbytes = self._x.array.nbytes

    def chunk_bytes(self, i: int) -> int:
        return self.n_rows(i) * self._x.row_bytes

    @property
    def has_target(self) -> bool:
        return self._y is not None

    def target(self, i: int) -> NDArray[Any]:
        return targets_of(self, self._y)[self.rows(i)]

    def bring(self, i: int) -> None:
        self._x.bring(self.rows(i).start, self.rows(i).stop)

    def leave(self, i: int) -> None:
        self._x.leave(self.rows(i).start, self.rows(i).stop)

    def _chunk(self, i: int) -> Design:
        return DenseDesign(self._x.rows(self.rows(i).start, self.rows(i).stop))


class Targets:
    """Targets in an array of a file, checked.

    Parameters
    ----------
    mapped : MappedArray
    name : str
        What errors call them.
    n : int
        How many there must be.
    of : str
        What errors call X.
    """

    def __init__(self, mapped: MappedArray, name: str, n: int, of: str) -> None:
        array = mapped.array
        if array.shape != (n,):
            raise FileFormatError(f"{of} has {n} rows, but the targets in {name} have shape {array.shape}")
        if array.dtype.kind not in "buifUS":
            raise FileFormatError(f"{name}: targets must be numbers, truth values or words, got {array.dtype}")
        self.mapped = mapped

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        return np.array(self.mapped.array[rows])


def targets_of(chunked: Chunked, targets: Targets | None) -> Targets:
    """The targets, or an error where there are none."""
    if targets is None:
        raise InvalidInputError(f"{chunked.name} holds no targets: give y")
    return targets


def check_type(dtype: np.dtype[Any], name: str) -> None:
    """Raise unless X can be used as it lies in the file."""
    if dtype not in _ALLOWED:
        raise FileFormatError(
            f"{name}: X has type {dtype}; float32 and float64 are read in place: save X.astype(np.float32)"
        )


def even_bounds(n: int, row_bytes: int, chunk_bytes: int) -> NDArray[np.int64]:
    """Bounds of chunks of about equally many rows, none larger than `chunk_bytes` unless it is one row."""
    step = max(1, chunk_bytes // max(row_bytes, 1))
    count = max(1, -(-n // step))
    return np.array([n * i // count for i in range(count + 1)], np.int64)
