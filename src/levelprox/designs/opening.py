"""From the name of a file to its chunks."""

from __future__ import annotations

import os
from pathlib import Path

from levelprox._validation import whole
from levelprox.designs.chunked import CHUNK_BYTES, Chunked, ChunkedArray
from levelprox.exceptions import FileFormatError, InvalidInputError
from levelprox.io.opened import shown

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
        The folder for what a LIBSVM file is converted to; by default it lies beside the file.
    n_features, zero_based : int and bool, optional
        Of a LIBSVM file, as `levelprox.io.read_libsvm` has them.

    Returns
    -------
    Chunked

    Raises
    ------
    FileFormatError
        Where the file is not of its kind, or of a kind that cannot be read in parts.
    """
    place, size = Path(path), whole("chunk_bytes", chunk_bytes, least=1)
    ending = place.suffix.lower()
    if ending in _PACKED:
        ending = place.with_suffix("").suffix.lower()
    if ending == ".npy":
        return ChunkedArray(place, target, size)
    if ending in _TEXTS:
        from levelprox.designs.chunked_sparse import ChunkedSparse

        if target is not None:
            raise InvalidInputError(f"{shown(path)}: the targets of a LIBSVM file are its labels; leave target out")
        return ChunkedSparse.from_libsvm(
            place, cache=cache, n_features=n_features, zero_based=zero_based, chunk_bytes=size
        )
    named = None if target is None else os.fspath(target)
    if ending in (".parquet", ".pq"):
        from levelprox.designs.chunked_table import ChunkedTable

        return ChunkedTable(place, named, size)
    if ending == ".npz" or place.is_dir():
        from levelprox.designs.chunked_sparse import ChunkedSparse

        read = ChunkedSparse.from_folder if place.is_dir() else ChunkedSparse.from_npz
        return read(place, named, size)
    raise FileFormatError(
        f"{shown(path)}: which kind of data is it? Names of files that are read in parts end in .npy, .npz, .parquet, "
        f".pq, {', '.join(_TEXTS)}, or name a folder of .npy files"
        + ("; convert CSV to Parquet" if ending in (".csv", ".tsv", ".tab") else "")
    )
