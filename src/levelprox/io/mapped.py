"""Arrays in files, mapped into memory: nothing is read before it is used, and what was used can be let go.

What lies in a map is the system's page cache, no memory of this process. But whoever touches a page that the file no
longer has is killed by the system, so pages are brought in beforehand, by a call that answers with an error instead.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import sys
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from levelprox.errors import BackendError, FileFormatError
from levelprox.io.opened import shown

_POPULATE_READ = 22  # Linux's MADV_POPULATE_READ, which Python has no name for
_PIECE = 2**25  # bytes that are brought in by one call
_HEADER = 10_000  # bytes
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_LOCAL_HEADER, _LENGTHS = 30, 26  # of a zip member: its fixed part, and where in it the lengths of the rest are


class FileState:
    """A file as it was when it was opened.

    Parameters
    ----------
    path : path-like
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.size, self.mtime_ns, self._inode = self._now()

    def check(self) -> None:
        """Raise where it is another one now."""
        try:
            now = self._now()
        except OSError as error:
            raise BackendError(f"{shown(self.path)}: the file is gone: {error.strerror}") from error
        if now[0] != self.size:
            raise BackendError(
                f"{shown(self.path)}: the file had {self.size} bytes when it was opened and has {now[0]} now: open it "
                "again"
            )
        if now != (self.size, self.mtime_ns, self._inode):
            raise BackendError(f"{shown(self.path)}: the file has changed since it was opened: open it again")

    def _now(self) -> tuple[int, int, int]:
        found = os.stat(self.path)
        return found.st_size, found.st_mtime_ns, found.st_ino


class MappedArray:
    """An array in C order in a file.

    Parameters
    ----------
    path : path-like
    offset : int
        Where in the file its first byte is.
    dtype : dtype
    shape : tuple of int
    name : str
        What errors call it.

    Attributes
    ----------
    array : ndarray
        Read-only.
    state : FileState
    """

    def __init__(
        self, path: str | os.PathLike[str], offset: int, dtype: np.dtype[Any], shape: Sequence[int], name: str
    ) -> None:
        self.state = FileState(path)
        count = math.prod(shape)
        end = offset + count * dtype.itemsize
        if min(shape, default=0) < 0 or end > self.state.size:
            raise FileFormatError(
                f"{name}: an array of shape {tuple(shape)} and type {dtype} ends at byte {end}, the file at "
                f"{self.state.size}: it was cut short"
            )
        with open(path, "rb") as file:
            whole: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if count else b""
        self.array: NDArray[Any] = np.frombuffer(whole, dtype, count, offset if count else 0).reshape(shape)

    @property
    def row_bytes(self) -> int:
        """Of one entry along the first axis."""
        return math.prod(self.array.shape[1:]) * self.array.dtype.itemsize

    def rows(self, begin: int, end: int) -> NDArray[Any]:
        """Some entries along the first axis: a view, unless they begin at an odd place of the file."""
        part = self.array[begin:end]
        return part if part.flags.aligned else np.array(part, order="C")

    def bring(self, begin: int, end: int) -> None:
        """Have these entries read; to be called from any thread."""
        self.state.check()
        address, length = self._pages(begin, end)
        if not length or not sys.platform.startswith("linux"):
            return
        for start in range(0, length, _PIECE):
            fault = _advise(address + start, min(_PIECE, length - start), _POPULATE_READ)
            if fault in (22, 38):  # an old kernel, which reads them when they are touched
                _advise(address, length, mmap.MADV_WILLNEED)
                return
            if fault:
                self.state.check()
                raise BackendError(f"{shown(self.state.path)}: the file cannot be read: {os.strerror(fault)}")

    def leave(self, begin: int, end: int) -> None:
        """Let these entries go; whoever touches them has them read again."""
        address, length = self._pages(begin, end)
        if length and sys.platform.startswith("linux"):
            _advise(address, length, mmap.MADV_DONTNEED)

    def _pages(self, begin: int, end: int) -> tuple[int, int]:
        """Address and length in whole pages."""
        if end <= begin or not self.row_bytes:
            return 0, 0
        base = int(self.array.__array_interface__["data"][0])
        first, last = base + begin * self.row_bytes, base + end * self.row_bytes
        page = first - first % mmap.PAGESIZE
        return page, last - page


def map_npy(path: str | os.PathLike[str]) -> MappedArray:
    """The array of an .npy file."""
    with open(path, "rb") as file:
        return _mapped(file, path, 0, shown(path))


def map_npz(path: str | os.PathLike[str]) -> dict[str, MappedArray]:
    """The arrays of an .npz file by their names, where they are."""
    name, arrays = shown(path), {}
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                infos = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError, OSError) as error:
            raise FileFormatError(f"{name}: this is no npz file, or it is damaged: {error}") from error
        for info in infos:
            key = info.filename.removesuffix(".npy")
            if info.compress_type != zipfile.ZIP_STORED:
                raise FileFormatError(
                    f"{name}: array {key!r} is compressed, and cannot be read in parts: save it uncompressed "
                    "(np.savez, scipy.sparse.save_npz(..., compressed=False))"
                )
            file.seek(info.header_offset + _LENGTHS)
            lengths = file.read(4)
            if len(lengths) < 4:
                raise FileFormatError(f"{name}: array {key!r} is cut short")
            named, extra = int.from_bytes(lengths[:2], "little"), int.from_bytes(lengths[2:], "little")
            begin = info.header_offset + _LOCAL_HEADER + named + extra
            arrays[key] = _mapped(file, path, begin, f"{name}: array {key!r}")
    return arrays


def _mapped(file: BinaryIO, path: str | os.PathLike[str], begin: int, name: str) -> MappedArray:
    file.seek(begin)
    try:
        version = np.lib.format.read_magic(file)
        shape, fortran, dtype = _HEADERS[version](file, max_header_size=_HEADER)
    except (KeyError, ValueError, SyntaxError, TypeError) as error:
        raise FileFormatError(f"{name} has no header of an array: {error}") from error
    if dtype.hasobject:
        raise FileFormatError(f"{name} holds Python objects, which are not read: they could run code")
    if fortran and len(shape) > 1 and min(shape) > 1:
        raise FileFormatError(
            f"{name} is stored column after column (Fortran order), and is read some rows at a time: save "
            "np.ascontiguousarray(X)"
        )
    return MappedArray(path, file.tell(), dtype, shape, name)


def _advise(address: int, length: int, advice: int) -> int:
    """The error number of madvise, which Python's own calls with all other threads waiting; 0 if there is none."""
    if _madvise()(ctypes.c_void_p(address), ctypes.c_size_t(length), ctypes.c_int(advice)) == 0:
        return 0
    return ctypes.get_errno()


@cache
def _madvise() -> Any:
    return ctypes.CDLL(None, use_errno=True).madvise
