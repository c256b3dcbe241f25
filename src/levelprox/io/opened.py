"""Files as blocks of bytes: plain, or decompressed from .gz, .bz2 and .xz, which are detected from the first bytes.

At most `BLOCK` bytes are in memory at once. It is an error if a compressed file unpacks to more than `RATIO` times its
size (after `FREE` bytes) or to more than `max_bytes`, or if a plain file changes while it is read.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Generator, Iterable, Iterator
from io import FileIO
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import PathLike
from levelprox.exceptions import BackendError, FileFormatError

BLOCK = 1 << 20
RATIO = 1000
FREE = 64 << 20
MAX_BYTES = 1 << 36
_XZ_MEMORY = 256 << 20  # bytes, four times the need of `xz -9`


class _Gzip:
    """zlib's decompressor with the interface of those of bz2 and lzma."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        piece = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = not self._inner.unconsumed_tail and len(piece) < max_length
        return piece


#: Kinds of packed files by their first bytes.
PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}


def _unpacker(kind: str) -> Any:
    """Return a decompressor; modules are imported when needed, because some builds of Python do not have them."""
    if kind == "gzip":
        return _Gzip()
    if kind == "bzip2":
        import bz2

        return bz2.BZ2Decompressor()
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


def blocks(path: PathLike, *, max_bytes: int = MAX_BYTES) -> Generator[NDArray[np.uint8]]:
    """Yield the bytes of a file, decompressed; each block is overwritten by the next one.

    Parameters
    ----------
    path : path
        Read once from beginning to end: it may be a pipe.
    max_bytes : int
        A compressed file that unpacks to more is an error; plain files may have any length.

    Raises
    ------
    BackendError
        After the last block, if the file was truncated or changed since it was opened.
    """
    with open(path, "rb", buffering=0) as file:
        raw = _raw(file, path)
        first = next(raw, None)
        if first is None:
            return
        begin, data = first[:8].tobytes(), chain([first], raw)
        kind = next((kind for magic, kind in PACKED.items() if begin.startswith(magic)), None)
        yield from data if kind is None else _unpacked(shown(path), kind, data, max_bytes)


def all_bytes(path: PathLike) -> bytes:
    """Return all bytes of a file, not decompressed; errors are those of `blocks`."""
    with open(path, "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        data = file.read()
        _check_unchanged(file, path, before, len(data))
    return data


def shown(path: PathLike) -> str:
    """Return a path for a message, with control characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in os.fsdecode(path))


def _raw(file: FileIO, path: PathLike) -> Iterator[NDArray[np.uint8]]:
    before = os.fstat(file.fileno())
    memory = bytearray(BLOCK)
    block = np.frombuffer(memory, np.uint8)
    size, taken = 1, 0
    while size:
        filled = 0  # a pipe gives a little at a time
        while filled < BLOCK and (size := file.readinto(memoryview(memory)[filled:])):
            filled += size
        taken += filled
        if filled:
            yield block[:filled]
    _check_unchanged(file, path, before, taken)


def _check_unchanged(file: FileIO, path: PathLike, before: os.stat_result, taken: int) -> None:
    """Raise if the file has changed since `before`, or fewer bytes than its size were read."""
    now = os.fstat(file.fileno())
    if not stat.S_ISREG(now.st_mode):  # a pipe
        return
    if taken < before.st_size or (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise BackendError(
            f"{shown(path)}: the file changed while it was read: it had {before.st_size} bytes, {taken} were read, and "
            f"it has {now.st_size} now"
        )


def _unpacked(path: str, kind: str, packed: Iterable[NDArray[np.uint8]], max_bytes: int) -> Iterator[NDArray[np.uint8]]:
    """Decompress one stream after another, as of `cat a.gz b.gz`; zeros between and after them are padding."""
    unpack: Any = None
    taken = made = 0
    for block in packed:
        data = block.tobytes()
        taken += len(data)
        while data or (unpack is not None and not unpack.needs_input):
            if unpack is None:
                data = data.lstrip(b"\0")
                if not data:
                    break
                unpack = _unpacker(kind)
            piece, data = _piece(path, kind, unpack, data), b""
            made += len(piece)
            _check_size(path, taken, made, max_bytes)
            if piece:
                yield np.frombuffer(piece, np.uint8)
            if unpack.eof:
                data, unpack = unpack.unused_data, None
    if unpack is not None:
        raise FileFormatError(f"{path}: the {kind} data end too early, after {taken} bytes: the file is not whole")


def _piece(path: str, kind: str, unpack: Any, data: bytes) -> bytes:
    try:
        return bytes(unpack.decompress(data, BLOCK))
    except MemoryError:
        raise
    except Exception as error:  # each of the three modules has its own exceptions
        raise FileFormatError(f"{path}: the {kind} data are damaged: {error}") from error


def _check_size(path: str, taken: int, made: int, max_bytes: int) -> None:
    if made > max_bytes:
        raise FileFormatError(f"{path}: unpacks to more than max_bytes={max_bytes} bytes")
    if made > FREE and made > RATIO * taken:
        raise FileFormatError(f"{path}: unpacks to more than {RATIO} times its size, {made} bytes from {taken}")
