"""Files as blocks of bytes: plain, or unpacked from .gz, .bz2 and .xz, which are known by their first bytes.

At most `BLOCK` bytes are in memory at once, for any content of the file. A packed file ends in an error where
it unpacks to more than `RATIO` times its size (after `FREE` bytes) or to more than `max_bytes`. So does a plain file
that changes while it is read.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Callable, Generator, Iterator
from io import FileIO
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import PathLike
from levelprox.exceptions import BackendError, FileFormatError

BLOCK = 1 << 20
RATIO = 1000
FREE = 64 << 20
MAX_BYTES = 1 << 36
_XZ_MEMORY = 256 << 20  # four times the memory of `xz -9`


class _Unpacker(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Gzip:
    """zlib's decompressor with the manners of those of bz2 and lzma."""

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


# Imported where they are needed: some builds of Python go without them.
def _bzip2() -> _Unpacker:
    import bz2

    return bz2.BZ2Decompressor()


def _xz() -> _Unpacker:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


_KINDS: dict[bytes, tuple[str, Callable[[], _Unpacker]]] = {
    b"\x1f\x8b": ("gzip", _Gzip),
    b"BZh": ("bzip2", _bzip2),
    b"\xfd7zXZ\0": ("xz", _xz),
}


def blocks(path: PathLike, *, max_bytes: int = MAX_BYTES) -> Generator[NDArray[np.uint8]]:
    """The bytes of the file, unpacked; each block is overwritten by the next one.

    Parameters
    ----------
    path : path
        Opened as it is given, and read once from beginning to end: it may be a pipe.
    max_bytes : int
        A packed file that unpacks to more is an error; plain files may have any length.

    Raises
    ------
    BackendError
        After the last block, where the file was cut short or written to since it was opened.
    """
    with open(path, "rb", buffering=0) as file:
        raw = _raw(file, path)
        first = next(raw, None)
        if first is None:
            return
        for magic, (kind, unpacker) in _KINDS.items():
            if first[: len(magic)].tobytes() == magic:
                yield from _unpacked(shown(path), kind, unpacker, _then(first, raw), max_bytes)
                return
        yield from _then(first, raw)


def all_bytes(path: PathLike) -> bytes:
    """All bytes of the file as they are; errors as of `blocks`."""
    with open(path, "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        data = file.read()
        _check_unchanged(file, path, before, len(data))
    return data


def shown(path: PathLike) -> str:
    """Return the path for a message, with control characters escaped."""
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
    """Raise where a file of this state before it was read is not what was read: `taken` bytes of it."""
    now = os.fstat(file.fileno())
    if not stat.S_ISREG(now.st_mode):  # a pipe
        return
    if taken < before.st_size or (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise BackendError(
            f"{shown(path)}: the file changed while it was read: it had {before.st_size} bytes, {taken} were read, and "
            f"it has {now.st_size} now"
        )


def _then(first: NDArray[np.uint8], rest: Iterator[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    yield first
    yield from rest


def _unpacked(
    path: str, kind: str, unpacker: Callable[[], _Unpacker], packed: Iterator[NDArray[np.uint8]], max_bytes: int
) -> Iterator[NDArray[np.uint8]]:
    """One stream after another, as `cat a.gz b.gz` makes them; zeros between and behind them are padding."""
    unpack: _Unpacker | None = None
    taken = made = 0
    for block in packed:
        data = block.tobytes()
        taken += len(data)
        while data or (unpack is not None and not unpack.needs_input):
            if unpack is None:
                data = data.lstrip(b"\0")
                if not data:
                    break
                unpack = unpacker()
            piece, data = _piece(path, kind, unpack, data), b""
            made += len(piece)
            _check_size(path, taken, made, max_bytes)
            if piece:
                yield np.frombuffer(piece, np.uint8)
            if unpack.eof:
                data, unpack = unpack.unused_data, None
    if unpack is not None:
        raise FileFormatError(f"{path}: the {kind} data end too early, after {taken} bytes: the file is not whole")


def _piece(path: str, kind: str, unpack: _Unpacker, data: bytes) -> bytes:
    try:
        return unpack.decompress(data, BLOCK)
    except MemoryError:
        raise
    except Exception as error:  # each of the three modules has its own
        raise FileFormatError(f"{path}: the {kind} data are damaged: {error}") from error


def _check_size(path: str, taken: int, made: int, max_bytes: int) -> None:
    if made > max_bytes:
        raise FileFormatError(f"{path}: unpacks to more than max_bytes={max_bytes} bytes")
    if made > FREE and made > RATIO * taken:
        raise FileFormatError(f"{path}: unpacks to more than {RATIO} times its size, {made} bytes from {taken}")
