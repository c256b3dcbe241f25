"""LIBSVM files, also called svmlight: one sample a line, a label and the features that are not zero.

    label [qid:n] index:value index:value ...   # comment

Read by a compiled parser in one pass, in blocks: a matrix at once (`read_libsvm`) or rows as they come
(`libsvm_batches`). Memory is what is returned and a few megabytes more; lines may have any length.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from levelprox import _kernels
from levelprox._typing import PathLike
from levelprox._validation import whole
from levelprox.exceptions import FileFormatError, InvalidInputError
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
    r"""A LIBSVM file as a CSR matrix and its labels.

    Numbers are rounded correctly: the same bits as Python's `float`. Zeros that are written in the file are stored.
    `qid:n` behind the label is passed over. Blank lines and comments are no samples.

    Parameters
    ----------
    path : path
        Plain or packed by gzip, bzip2 or xz, which is seen from its first bytes.
    n_features : int, optional
        The number of columns; a larger index in the file is an error. Default: the largest index.
    zero_based : bool
        Whether indices count from 0. Index 0 is an error otherwise.
    dtype : numpy.float64 or numpy.float32
        Of the values; float32 is float64 rounded once more, and what it cannot hold is an error.
    max_features : int
        Without `n_features`, an index beyond is an error: a typo makes no matrix of a trillion columns.
    max_bytes : int
        A packed file that unpacks to more than this, or to more than 1000 times its size, is an error.

    Returns
    -------
    X : scipy.sparse.csr_array of shape (n_samples, n_features)
        Indices ascend in each row; they are int32 where that is enough, else int64.
    y : ndarray of float64

    Raises
    ------
    FileFormatError
        `file:line:column: what`, columns counted in bytes from 1. Labels and values must be finite decimal numbers,
        indices must ascend, and there must be at least one sample.
    BackendError
        The file was cut short, or written to, while it was read.
    OSError
        The file is not there, may not be read, or is a directory.

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
    """The same file in batches of `rows` samples, in order, the last one maybe shorter.

    >>> for X, y in libsvm_batches("big.svm.gz", 10_000, n_features=47_236):  # doctest: +SKIP
    ...     model.partial_fit(X, y, classes=[-1, 1])

    One batch is in memory at a time, and a row has at most `n_features` entries. Parameters and errors are those of
    `read_libsvm`; lines before an error have been yielded, as far as they fill batches.
    """
    rows = whole("rows", rows, least=1)
    return batches(LibsvmPass(path, whole("n_features", n_features), zero_based, dtype, MAX_FEATURES), rows, max_bytes)


def batches(reading: LibsvmPass, rows: int, max_bytes: int = MAX_BYTES) -> Iterator[Rows]:
    """What is read, `rows` rows at a time."""
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
    """One pass over a file: the parser, and what its troubles are called."""

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
        """Read on until there are `rows` rows; how many bytes were used."""
        used = self.parser.feed(block, rows)
        self._check()
        return used

    def finish(self) -> None:
        """No more text."""
        self.parser.finish()
        self._check()
        if self._taken + self.parser.rows == 0:
            raise self._error(1, 1, "no samples: the file is empty, or has only blank lines and comments")

    def take(self) -> Rows:
        """What was read since the last time."""
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
    """The token as it is shown: short, and nothing in it that a terminal would obey."""
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
