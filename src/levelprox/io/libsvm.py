r"""LIBSVM files, also called svmlight: one sample a line, a label and the features that are not zero.

    label [qid:n] index:value index:value ...   # comment

A compiled parser reads them in one pass, in blocks: a matrix at once (`read_libsvm`) or batches of rows
(`libsvm_batches`). Memory is what is returned and a few megabytes more; lines may have any length.

`converted_libsvm` keeps a binary form that can be read in parts:

    16 bytes    "levelprox CSR 1\n"
    arrays      data, indices, indptr, y, each beginning at a multiple of 64 bytes
    JSON        of which file this is the form, how it was read, the shape, and where the arrays are
    8 bytes     length of that, little-endian

It is written atomically and used while the text has the same size and time of change; else it is made again. Another
process that needs the same form waits for it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

import levelprox._kernels as _kernels
from levelprox._typing import PathLike
from levelprox._validation import whole
from levelprox.exceptions import FileFormatError, InvalidInputError
from levelprox.io import atomic
from levelprox.io.arrays import FileState, StoredArray
from levelprox.io.opened import MAX_BYTES, blocks, shown

MAX_FEATURES = 10**9
_FEATURES = 2**59  # never more: an index has at most 18 digits
_SHOWN = 40  # bytes of a token in a message

Rows = tuple["csr_array[Any]", NDArray[np.float64]]


def read_libsvm(
    path: PathLike,
    *,
    n_features: int | None = None,
    zero_based: bool = False,
    dtype: DTypeLike = np.float64,
    max_features: int = MAX_FEATURES,
    max_bytes: int = MAX_BYTES,
) -> Rows:
    r"""Read a LIBSVM file as a CSR matrix and its labels.

    Numbers are rounded correctly: the same bits as Python's `float`. Zeros that are written in the file are stored.
    `qid:n` after the label is ignored. Blank lines and comments are no samples.

    Parameters
    ----------
    path : path
        Plain, or compressed by gzip, bzip2 or xz, which is detected from the first bytes.
    n_features : int, optional
        The number of columns; a larger index in the file is an error. Default: the largest index.
    zero_based : bool
        Whether indices count from 0. Index 0 is an error otherwise.
    dtype : numpy.float64 or numpy.float32
        Of the values; float32 is float64 rounded once more, and what it cannot hold is an error.
    max_features : int
        Without `n_features`, a larger index is an error, so that a typo makes no matrix of a trillion columns.
    max_bytes : int
        A compressed file that unpacks to more than this, or to more than 1000 times its size, is an error.

    Returns
    -------
    X : scipy.sparse.csr_array of shape (n_samples, n_features)
        Indices ascend in each row; they are int32 if that is enough, else int64.
    y : ndarray of float64

    Raises
    ------
    FileFormatError
        `file:line:column: what`, columns counted in bytes from 1. Labels and values must be finite decimal numbers,
        indices must ascend, and there must be at least one sample.
    BackendError
        The file was truncated or changed while it was read.
    OSError
        The file does not exist, may not be read, or is a directory.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from levelprox.io import read_libsvm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "data.svm"
    ...     _ = path.write_text("1 1:2 3:4\n-1 2:1\n")
    ...     X, y = read_libsvm(path)
    >>> X.shape, y.tolist()
    ((2, 3), [1.0, -1.0])
    """
    reading = LibsvmPass(path, n_features, zero_based, dtype, max_features)
    with closing(blocks(path, max_bytes=max_bytes)) as text:
        for block in text:
            reading.feed(block)
    reading.finish()
    return reading.take()


def libsvm_batches(
    path: PathLike,
    rows: int,
    *,
    n_features: int,
    zero_based: bool = False,
    dtype: DTypeLike = np.float64,
    max_bytes: int = MAX_BYTES,
) -> Iterator[Rows]:
    """Read a LIBSVM file in batches of `rows` samples, in order; the last one may be shorter.

    >>> for X, y in libsvm_batches("big.svm.gz", 10_000, n_features=47_236):  # doctest: +SKIP
    ...     model.partial_fit(X, y, classes=[-1, 1])

    One batch is in memory at a time, and a row has at most `n_features` entries. Parameters and errors are those of
    `read_libsvm`; lines before an error are yielded as far as they fill batches.
    """
    rows = whole("rows", rows, least=1)
    return batches(LibsvmPass(path, whole("n_features", n_features), zero_based, dtype, MAX_FEATURES), rows, max_bytes)


def batches(reading: LibsvmPass, rows: int, max_bytes: int = MAX_BYTES) -> Iterator[Rows]:
    """Yield the samples of a pass, `rows` rows at a time."""
    with closing(blocks(reading.path, max_bytes=max_bytes)) as text:
        for block in text:
            used = 0
            while used < block.size:
                used += reading.feed(block[used:], rows)
                if reading.parser.rows == rows:
                    yield reading.take()
    reading.finish()
    if reading.parser.rows:
        yield reading.take()


class LibsvmPass:
    """One pass over a file: the parser, with errors that name the line and the column."""

    def __init__(
        self, path: PathLike, n_features: int | None, zero_based: bool, dtype: DTypeLike, max_features: int
    ) -> None:
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise InvalidInputError(f"dtype must be float32 or float64, got {dtype!r}")
        self.path, self.n_features = path, n_features
        if n_features is None:
            self.limit = whole("max_features", max_features, least=1, below=_FEATURES)
        else:
            self.limit = whole("n_features", n_features, below=_FEATURES)
        self.parser = _kernels.LibsvmParser(self.limit, bool(zero_based), np.dtype(dtype) == np.float32)
        self._taken = 0

    def feed(self, block: NDArray[np.uint8], rows: int = -1) -> int:
        """Parse until there are `rows` rows; return how many bytes were used."""
        used = self.parser.feed(block, rows)
        self._check()
        return used

    def finish(self) -> None:
        """End the text; a file without samples is an error."""
        self.parser.finish()
        self._check()
        if self._taken + self.parser.rows == 0:
            raise self._error(1, 1, "no samples: the file is empty, or has only blank lines and comments")

    def take(self) -> Rows:
        """Return the rows since the last call."""
        rows, columns = self.parser.rows, self.parser.features if self.n_features is None else self.n_features
        self._taken += rows
        data, indices, indptr, y = self.parser.take(columns)
        return csr_array((data, indices, indptr), shape=(rows, columns)), y

    def _check(self) -> None:
        if self.parser.trouble is not None:
            fault, line, column, before, token = self.parser.trouble
            known = "max_features" if self.n_features is None else "n_features"
            what = _FAULTS[fault.name.lower()].format(token=_token(token), before=before, limit=f"{known}={self.limit}")
            raise self._error(line, column, what)

    def _error(self, line: int, column: int, what: str) -> FileFormatError:
        return FileFormatError(f"{shown(self.path)}:{line}:{column}: {what}")


def _token(token: bytes) -> str:
    """Return a token for a message: short, without control characters."""
    text = repr(token[:_SHOWN])[1:]
    return text if len(token) <= _SHOWN else f"{text}... ({len(token)} bytes)"


_FAULTS = {
    "label": "the label must be a number, got {token}",
    "label_not_finite": "the label must be finite, got {token}",
    "no_label": "the line begins with {token}, not with a label",
    "several_labels": "one label is needed, got {token}; files with several labels a line are not read",
    "no_colon": "index:value is needed, got {token} without a colon",
    "no_index": "there is no index before the colon in {token}",
    "index": "the index must be a whole number, got {token}",
    "negative_index": "the index must not be negative, got {token}",
    "zero_index": "index 0 in {token}, but indices count from 1; zero_based=True reads files that count from 0",
    "index_too_large": "the index in {token} is beyond {limit}",
    "order": "indices must ascend, got {token} behind index {before}",
    "repeated": "index {before} is there twice: {token}",
    "no_value": "there is no value behind the colon",
    "value": "the value must be a decimal number, got {token}",
    "value_not_finite": "the value must be finite, got {token}",
    "value_too_large": "the value {token} is larger than the floating-point type can hold",
    "query": "qid: needs a whole number, got {token}",
    "token_too_long": f"no label and no index:value has more than {_kernels.LIBSVM_TOKEN_LIMIT} bytes, got {{token}}",
}


ENDING = ".csr-form"
_MAGIC = b"levelprox CSR 1\n"
_ALIGNED, _LENGTH = 64, 8
_ROWS = 2**15  # read at a time
_COPIED = 2**22  # entries that are copied at a time
_MOST = 2**20  # bytes of JSON
_NAMES = ("data", "indices", "indptr", "y")


@dataclass(frozen=True, eq=False)
class Converted:
    """The binary form of a LIBSVM file.

    Attributes
    ----------
    arrays : dict of str to StoredArray
        "data", "indices", "indptr" and "y".
    shape : (int, int)
    """

    arrays: dict[str, StoredArray]
    shape: tuple[int, int]


def converted_libsvm(
    path: PathLike,
    *,
    cache: str | os.PathLike[str] | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
    dtype: DTypeLike = np.float64,
) -> Converted:
    """Return the binary form of a LIBSVM file, which is made unless it exists and is up to date.

    Parameters
    ----------
    path : path
    cache : path-like, optional
        The folder to keep it in. By default that of the file, under its name and `.csr-form`.
    n_features, zero_based, dtype
        As in `levelprox.io.read_libsvm`.
    """
    text = Path(os.fsdecode(path))
    state = FileState(text)
    key = {
        "size": state.size,
        "mtime_ns": state.mtime_ns,
        "n_features": n_features,
        "zero_based": bool(zero_based),
        "dtype": np.dtype(dtype).name,
    }
    place = _place(text, cache)
    form = _found(place, key)
    if form is not None:
        return form
    with _alone(place.parent) as is_alone:
        form = _found(place, key)  # made by another process meanwhile
        if form is None:
            if is_alone:
                atomic.sweep(place)
            reading = LibsvmPass(path, n_features, zero_based, dtype, MAX_FEATURES)
            atomic.write(place, _parts(reading, key, place.parent))
            state.check()
            form = _found(place, key)
    if form is None:
        raise FileFormatError(f"{shown(place)}: what was written there cannot be read")
    return form


def _place(text: Path, cache: str | os.PathLike[str] | None) -> Path:
    if cache is None:
        return text.with_name(text.name + ENDING)
    folder = Path(cache)
    folder.mkdir(parents=True, exist_ok=True)
    # files of the same name in several folders
    digest = hashlib.sha256(os.fsencode(os.path.abspath(text))).hexdigest()[:12]
    return folder / f"{text.name}-{digest}{ENDING}"


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Wait until no other process converts a file in this folder; yield False if files cannot be locked."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def _found(place: Path, key: dict[str, Any]) -> Converted | None:
    """Return the form that exists, if it is that of this text, read in this way; else None, and it is replaced."""
    try:
        with open(place, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            if file.read(len(_MAGIC)) != _MAGIC or size < len(_MAGIC) + _LENGTH:
                return None
            file.seek(size - _LENGTH)
            length = int.from_bytes(file.read(_LENGTH), "little")
            if length > min(_MOST, size - _LENGTH - len(_MAGIC)):
                return None
            file.seek(size - _LENGTH - length)
            header = json.loads(file.read(length))
        if header["of"] != key:
            return None
        arrays = {
            name: StoredArray(place, int(at), np.dtype(kind), (int(count),), shown(place))
            for name, (at, kind, count) in header["arrays"].items()
        }
        n, d = header["shape"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):  # another kind of file, or damaged
        return None
    return Converted(arrays, (int(n), int(d))) if set(arrays) == set(_NAMES) else None


def _parts(reading: LibsvmPass, key: dict[str, Any], folder: Path) -> Iterator[bytes | memoryview]:
    """Yield the contents of the file: values as they are read, then the rest, from temporary files without a name."""
    yield _MAGIC + bytes(-len(_MAGIC) % _ALIGNED)
    begin = len(_MAGIC) + -len(_MAGIC) % _ALIGNED
    pieces: list[tuple[np.dtype[Any], int]] = []  # type and number of the indices of each batch
    stored = n = d = 0
    kind = np.dtype(key["dtype"])
    with (
        tempfile.TemporaryFile(dir=folder) as spooled,
        tempfile.TemporaryFile(dir=folder) as ends,
        tempfile.TemporaryFile(dir=folder) as labels,
    ):
        ends.write(np.zeros(1, np.int64).data)
        for X, y in batches(reading, _ROWS):
            yield X.data.data
            spooled.write(X.indices.data)
            ends.write((X.indptr[1:].astype(np.int64) + stored).data)
            labels.write(y.data)
            pieces.append((X.indices.dtype, X.indices.size))
            stored, n, d = stored + X.data.size, n + y.size, max(d, X.shape[1])
        wide = np.dtype(np.int64 if any(one.itemsize == 8 for one, _ in pieces) else np.int32)
        places: dict[str, tuple[int, str, int]] = {"data": (begin, kind.str, stored)}
        end = begin + stored * kind.itemsize
        for name, dtype, count, parts in (
            ("indices", wide, stored, _widened(spooled, pieces, wide)),
            ("indptr", np.dtype(np.int64), n + 1, _copied(ends)),
            ("y", np.dtype(np.float64), n, _copied(labels)),
        ):
            yield bytes(-end % _ALIGNED)
            at = end + -end % _ALIGNED
            places[name], end = (at, dtype.str, count), at + count * dtype.itemsize
            yield from parts
    text = json.dumps({"of": key, "shape": [n, d], "arrays": places}).encode("ascii")
    yield text
    yield len(text).to_bytes(_LENGTH, "little")


def _widened(file: Any, pieces: list[tuple[np.dtype[Any], int]], wide: np.dtype[Any]) -> Iterator[bytes | memoryview]:
    """Yield the indices, converted to one type."""
    file.seek(0)
    for kind, count in pieces:
        for begin in range(0, count, _COPIED):
            part = np.frombuffer(file.read(min(_COPIED, count - begin) * kind.itemsize), kind)
            yield part.astype(wide).data


def _copied(file: Any) -> Iterator[bytes]:
    file.seek(0)
    while block := file.read(_COPIED):
        yield block
