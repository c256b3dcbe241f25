"""X in files, possibly larger than memory, read some rows at a time.

| class           | file                                                       | module             |
|-----------------|------------------------------------------------------------|--------------------|
| `ChunkedArray`  | .npy in C order                                            | here               |
| `ChunkedSparse` | CSR: .npz or a folder of .npy; LIBSVM, converted           | chunked_formats.py |
| `ChunkedTable`  | Parquet, some row groups at a time                         | chunked_formats.py |

`levelprox.open_chunked` chooses by the name of the file. A chunk is a design as any other, and is checked when it is
first read. Chunks are copied to memory, not mapped: a file that is truncated meanwhile is an error, not a signal.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from levelprox._validation import whole
from levelprox.designs._base import Design, check_shape, column_name
from levelprox.designs.dense import DenseDesign
from levelprox.exceptions import FileFormatError, InvalidInputError
from levelprox.io.arrays import FileState, StoredArray, open_npy, open_npz
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

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from levelprox import open_chunked
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder) / "X.npy", np.arange(12.0).reshape(4, 3))
    ...     X = open_chunked(Path(folder) / "X.npy", chunk_bytes=48)
    ...     X.shape, X.n_chunks
    ((4, 3), 2)
    """

    nbytes: int
    #: Distinguishes it from arrays: see `is_remote`.
    is_chunked: Literal[True] = True
    _y: StoredArray | None = None

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
        self._ready: dict[int, Any] = {}
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
        """Number of chunks."""
        return self.bounds.size - 1

    def rows(self, i: int) -> slice:
        """Which rows chunk i has."""
        return slice(int(self.bounds[i]), int(self.bounds[i + 1]))

    def n_rows(self, i: int) -> int:
        """How many rows chunk i has."""
        return int(self.bounds[i + 1] - self.bounds[i])

    def chunk(self, i: int) -> Design:
        """X of the rows of chunk i, read unless `bring` has done so.

        Raises
        ------
        FileFormatError
            Where an entry is not finite, or is stored twice; the row is that of the whole file.
        BackendError
            Where the file is not any more what was opened.
        """
        ready = self._ready.get(i)
        design = self._design(i, self._read(i) if ready is None else ready)
        if i not in self._checked:
            self._check(i, design)
            self._checked.add(i)
        return design

    @abstractmethod
    def chunk_bytes(self, i: int) -> int:
        """Bytes of X in chunk i as it is stored."""

    @property
    def has_target(self) -> bool:
        """Whether the file holds targets."""
        return self._y is not None

    def target(self, i: int) -> NDArray[Any]:
        """Return the targets of the rows of chunk i."""
        if self._y is None:
            raise InvalidInputError(f"{self.name} holds no targets: give y")
        rows = self.rows(i)
        return np.array(self._y.rows(rows.start, rows.stop))

    def bring(self, i: int) -> None:
        """Read chunk i ahead, for `chunk`; to be called from any thread."""
        self._ready[i] = self._read(i)

    def leave(self, i: int) -> None:
        """Let go what `bring` has read; its memory is free once no design refers to it."""
        self._ready.pop(i, None)

    def check_unchanged(self) -> None:
        """Raise a `BackendError` where a file is not any more what was opened."""
        for state in self._states:
            state.check()

    @abstractmethod
    def _read(self, i: int) -> Any:
        """Return what the file holds of chunk i; to be called from any thread."""

    @abstractmethod
    def _design(self, i: int, read: Any) -> Design:
        """X of the rows of chunk i, from what was read."""

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
        self._x = open_npy(path)
        shape, dtype = self._x.shape, self._x.dtype
        if len(shape) != 2:
            raise FileFormatError(f"{shown(path)}: X must have rows and columns, got shape {shape}")
        check_type(dtype, shown(path))
        self._y = None if target is None else checked_targets(open_npy(target), shown(target), shape[0], shown(path))
        states = [self._x.state] if self._y is None else [self._x.state, self._y.state]
        super().__init__(
            path, states, (shape[0], shape[1]), dtype, even_bounds(shape[0], self._x.row_bytes, chunk_bytes)
        )
        self.nbytes = self._x.nbytes

    def chunk_bytes(self, i: int) -> int:
        """Return bytes of X in chunk i as it is stored."""
        return self.n_rows(i) * self._x.row_bytes

    def _read(self, i: int) -> NDArray[Any]:
        return self._x.rows(self.rows(i).start, self.rows(i).stop)

    def _design(self, i: int, read: NDArray[Any]) -> Design:
        return DenseDesign(read)


def checked_targets(stored: StoredArray, name: str, n: int, of: str) -> StoredArray:
    """Return the array of a file that holds n targets, or raise; errors call it `name`, and X `of`."""
    if stored.shape != (n,):
        raise FileFormatError(f"{of} has {n} rows, but the targets in {name} have shape {stored.shape}")
    if stored.dtype.kind not in "buifUS":
        raise FileFormatError(f"{name}: targets must be numbers, truth values or words, got {stored.dtype}")
    return stored


def check_type(dtype: np.dtype[Any], name: str) -> None:
    """Raise unless X can be used as it is stored."""
    if dtype not in _ALLOWED:
        raise FileFormatError(
            f"{name}: X has type {dtype}; only float32 and float64 are read: save X.astype(np.float32)"
        )


def even_bounds(n: int, row_bytes: int, chunk_bytes: int) -> NDArray[np.int64]:
    """Bounds of chunks of about equally many rows, none larger than `chunk_bytes` unless it is one row."""
    step = max(1, chunk_bytes // max(row_bytes, 1))
    count = max(1, -(-n // step))
    return np.array([n * i // count for i in range(count + 1)], np.int64)


_PACKED = (".gz", ".bz2", ".xz")
_TEXTS = (".svm", ".libsvm", ".svmlight", ".txt")


def open_chunked(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    cache: str | os.PathLike[str] | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
) -> Chunked:
    """X in a file that may be larger than memory, to be read some rows at a time.

    Parameters
    ----------
    path : path-like
        By its ending: `.npy` (C order, float32 or float64), `.npz` (uncompressed CSR of `scipy.sparse.save_npz`), a
        folder (data.npy, indices.npy, indptr.npy, perhaps shape.npy), `.parquet` or `.pq` (numbers in all columns),
        `.svm`, `.libsvm`, `.svmlight` or `.txt` (LIBSVM, perhaps packed; converted once to a binary form).
    target : str or path-like, optional
        Where the targets are: another .npy file for `.npy`, an array for `.npz` and folders (default: "y", where
        there is one), a column for Parquet (default: "target" or "y", where there is one). LIBSVM has no others than
        its labels.
    chunk_bytes : int
        About how much is read at a time.
    cache : path-like, optional
        The folder for what a LIBSVM file is converted to; by default next to the file.
    n_features, zero_based : int and bool, optional
        Of a LIBSVM file, as `levelprox.io.read_libsvm` has them.

    Returns
    -------
    Chunked

    Raises
    ------
    FileFormatError
        Where the file is not of its kind, or of a kind that cannot be read in parts.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from levelprox import open_chunked
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder) / "X.npy", np.arange(12.0).reshape(4, 3))
    ...     X = open_chunked(Path(folder) / "X.npy", chunk_bytes=48)
    ...     X.shape, X.n_chunks
    ((4, 3), 2)
    """
    place, size = Path(path), whole("chunk_bytes", chunk_bytes, least=1)
    ending = place.suffix.lower()
    if ending in _PACKED:
        ending = place.with_suffix("").suffix.lower()
    if ending == ".npy":
        return ChunkedArray(place, target, size)
    if ending in _TEXTS:
        from levelprox.designs.chunked_formats import ChunkedSparse

        if target is not None:
            raise InvalidInputError(f"{shown(path)}: the targets of a LIBSVM file are its labels; leave target out")
        from levelprox.io.libsvm import converted_libsvm  # other files do without the parser

        form = converted_libsvm(place, cache=cache, n_features=n_features, zero_based=zero_based, dtype=np.float64)
        return ChunkedSparse(os.fsdecode(place), form.arrays, form.shape, form.arrays["y"], size)
    named = None if target is None else os.fspath(target)
    if ending in (".parquet", ".pq"):
        from levelprox.designs.chunked_formats import ChunkedTable

        return ChunkedTable(place, named, size)
    if ending == ".npz" or place.is_dir():
        from levelprox.designs.chunked_formats import ChunkedSparse

        # data.npy, indices.npy, indptr.npy, and perhaps shape.npy and y.npy; or what scipy.sparse.save_npz writes
        files = sorted(place.glob("*.npy")) if place.is_dir() else []
        members = {one.stem: open_npy(one) for one in files} if place.is_dir() else open_npz(place)
        return ChunkedSparse.of_members(place, members, named, size)
    raise FileFormatError(
        f"{shown(path)}: which kind of data is it? Names of files that are read in parts end in .npy, .npz, .parquet, "
        f".pq, {', '.join(_TEXTS)}, or name a folder of .npy files"
        + ("; convert CSV to Parquet" if ending in (".csv", ".tsv", ".tab") else "")
    )
