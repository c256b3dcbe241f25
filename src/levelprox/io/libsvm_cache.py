r"""A LIBSVM file in a binary form that can be read in parts: converted once, in one pass and little memory, and kept.

    16 bytes    "levelprox CSR 1\n"
    arrays      data, indices, indptr, y, each beginning at a multiple of 64 bytes
    JSON        of which file this is the form, how it was read, the shape, and where the arrays are
    8 bytes     length of that, little-endian

It is written whole or not at all (atomic.py), and used as long as the text has the size and the time of change that it
had; else it is made anew. Who else wants the same form meanwhile waits for it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from levelprox._typing import PathLike
from levelprox.exceptions import FileFormatError
from levelprox.io import atomic
from levelprox.io.arrays import FileState, StoredArray
from levelprox.io.libsvm import MAX_FEATURES, LibsvmPass, batches
from levelprox.io.opened import shown

ENDING = ".csr-form"
_MAGIC = b"levelprox CSR 1\n"
_ALIGNED, _LENGTH = 64, 8
_ROWS = 2**15  # read at a time
_COPIED = 2**22  # entries that are copied at a time
_MOST = 2**20  # bytes of JSON
_NAMES = ("data", "indices", "indptr", "y")


@dataclass(frozen=True, eq=False)
class Converted:
    """The binary form of a file.

    Attributes
    ----------
    arrays : dict of str to StoredArray
        "data", "indices", "indptr" and "y".
    shape : (int, int)
    path : Path
        Where it is.
    """

    arrays: dict[str, StoredArray]
    shape: tuple[int, int]
    path: Path


def converted_libsvm(
    path: PathLike,
    *,
    cache: str | os.PathLike[str] | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
    dtype: DTypeLike = np.float64,
) -> Converted:
    """The binary form of a LIBSVM file, made where there is none that is up to date.

    Parameters
    ----------
    path : path
    cache : path-like, optional
        The folder to keep it in. By default that of the file itself, under its name and `.csr-form`.
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
        form = _found(place, key)  # perhaps that is what we waited for
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
    # files of one name in several folders
    digest = hashlib.sha256(os.fsencode(os.path.abspath(text))).hexdigest()[:12]
    return folder / f"{text.name}-{digest}{ENDING}"


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Wait until no other process converts a file in this folder; False where that cannot be known."""
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
    """The form that is there, if it is one of this text, read in this way; whatever else is there is replaced."""
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
            told = json.loads(file.read(length))
        if told["of"] != key:
            return None
        arrays = {
            name: StoredArray(place, int(at), np.dtype(kind), (int(count),), shown(place))
            for name, (at, kind, count) in told["arrays"].items()
        }
        n, d = told["shape"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):  # not ours, or damaged
        return None
    return Converted(arrays, (int(n), int(d)), place) if set(arrays) == set(_NAMES) else None


def _parts(reading: LibsvmPass, key: dict[str, Any], folder: Path) -> Iterator[bytes | memoryview]:
    """What the file is to hold: values as they are read, the rest behind them by way of files without a name."""
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
        told: dict[str, tuple[int, str, int]] = {"data": (begin, kind.str, stored)}
        end = begin + stored * kind.itemsize
        for name, dtype, count, parts in (
            ("indices", wide, stored, _widened(spooled, pieces, wide)),
            ("indptr", np.dtype(np.int64), n + 1, _copied(ends)),
            ("y", np.dtype(np.float64), n, _copied(labels)),
        ):
            yield bytes(-end % _ALIGNED)
            at = end + -end % _ALIGNED
            told[name], end = (at, dtype.str, count), at + count * dtype.itemsize
            yield from parts
    text = json.dumps({"of": key, "shape": [n, d], "arrays": told}).encode("ascii")
    yield text
    yield len(text).to_bytes(_LENGTH, "little")


def _widened(file: Any, pieces: list[tuple[np.dtype[Any], int]], wide: np.dtype[Any]) -> Iterator[bytes | memoryview]:
    """Indices of one type."""
    file.seek(0)
    for kind, count in pieces:
        for begin in range(0, count, _COPIED):
            part = np.frombuffer(file.read(min(_COPIED, count - begin) * kind.itemsize), kind)
            yield part.astype(wide).data


def _copied(file: Any) -> Iterator[bytes]:
    file.seek(0)
    while block := file.read(_COPIED):
        yield block
