"""Arrays in .npy and .npz files, read whole (`read_npz`) or in parts along the first axis (`StoredArray`).

Files are not mapped: a process that touches a page of a map that the file no longer has is killed by SIGBUS. A read of
a truncated file is an error. Nothing is unpickled. `read_npz` decompresses a member only if its header, its declared
size and its compressed size agree: it allocates at most a thousand times the size of the file.
"""

from __future__ import annotations

import errno
import math
import os
import struct
import zipfile
import zlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from levelprox.exceptions import BackendError, FileFormatError
from levelprox.io.opened import shown

_PIECE = 2**25  # bytes that are read by one call: signals are handled between calls
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
        found = os.stat(path)
        self.size, self.mtime_ns, self._inode = found.st_size, found.st_mtime_ns, found.st_ino

    def check(self) -> None:
        """Raise a `BackendError` if the file has changed since it was opened."""
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise self._gone(error) from error
        self._compare(found)

    def read(self, offset: int, memory: memoryview) -> None:
        """Fill memory with the bytes from `offset` on; thread-safe.

        Raises
        ------
        BackendError
            If the file has changed since it was opened, before or after the read, or cannot be read.
        """
        try:
            file = open(self.path, "rb", buffering=0)  # noqa: SIM115  # closed below
        except OSError as error:
            raise self._gone(error) from error
        with file:
            self._compare(os.fstat(file.fileno()))
            try:
                file.seek(offset)
                done = 0
                while done < memory.nbytes and (size := file.readinto(memory[done : done + _PIECE])):
                    done += size
            except OSError as error:
                raise BackendError(f"{shown(self.path)}: the file cannot be read: {error.strerror}") from error
        self.check()
        if done < memory.nbytes:
            raise BackendError(f"{shown(self.path)}: the file ended at byte {offset + done} while it was read")

    def _compare(self, now: os.stat_result) -> None:
        if now.st_size != self.size:
            raise BackendError(
                f"{shown(self.path)}: the file had {self.size} bytes when it was opened and has {now.st_size} now: "
                "open it again"
            )
        if (now.st_mtime_ns, now.st_ino) != (self.mtime_ns, self._inode):
            raise BackendError(f"{shown(self.path)}: the file has changed since it was opened: open it again")

    def _gone(self, error: OSError) -> BackendError:
        return BackendError(f"{shown(self.path)}: the file is gone: {error.strerror}")


class StoredArray:
    """An array in C order in a file.

    Parameters
    ----------
    path : path-like
    offset : int
        Position of its first byte in the file.
    dtype : dtype
    shape : tuple of int
    name : str
        Name for error messages.

    Attributes
    ----------
    dtype, shape, state : dtype, tuple of int, FileState
    size, nbytes : int
        Number of entries and of bytes, as of an ndarray.
    row_bytes : int
        Bytes of one entry along the first axis.
    """

    def __init__(
        self, path: str | os.PathLike[str], offset: int, dtype: np.dtype[Any], shape: Sequence[int], name: str
    ) -> None:
        self.state, self.dtype, self.shape = FileState(path), dtype, tuple(shape)
        self.size = math.prod(shape)
        self.nbytes, self.row_bytes = self.size * dtype.itemsize, math.prod(self.shape[1:]) * dtype.itemsize
        end = offset + self.nbytes
        if min(shape, default=0) < 0 or end > self.state.size:
            raise FileFormatError(
                f"{name}: an array of shape {self.shape} and type {dtype} ends at byte {end}, the file at "
                f"{self.state.size}: it was cut short"
            )
        self._offset = offset
        self._spare: deque[NDArray[np.uint8]] = deque(maxlen=1)

    def rows(self, begin: int, end: int) -> NDArray[Any]:
        """Read some entries along the first axis; thread-safe.

        Returns
        -------
        ndarray
            Read-only. Its memory is reused for another read when no array refers to it any more.
        """
        size = (end - begin) * self.row_bytes
        memory = self._memory(size)
        self.state.read(self._offset + begin * self.row_bytes, memory.data[:size])
        flat = np.asarray(_Lent(memory, self._spare))[:size].view(self.dtype)
        return flat.reshape(end - begin, *self.shape[1:])

    def all(self) -> NDArray[Any]:
        """Read the whole array."""
        flat = np.empty(self.nbytes, np.uint8)
        self.state.read(self._offset, flat.data)
        return flat.view(self.dtype).reshape(self.shape)

    def _memory(self, size: int) -> NDArray[np.uint8]:
        """Return at least so many bytes of memory, reused: new pages cost more than the copy from the page cache."""
        try:
            spare = self._spare.pop()
        except IndexError:
            spare = np.empty(0, np.uint8)
        return spare if spare.size >= size else np.empty(size + size // 8, np.uint8)


class _Lent:
    """Memory that arrays refer to; it is reused when the last of them is deleted."""

    def __init__(self, memory: NDArray[np.uint8], spare: deque[NDArray[np.uint8]]) -> None:
        self._memory, self._spare = memory, spare
        interface = memory.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], True)}

    def __del__(self) -> None:
        self._spare.append(self._memory)


def open_npy(path: str | os.PathLike[str]) -> StoredArray:
    """Return the array of an .npy file."""
    with open(path, "rb") as file:
        return _stored(file, path, 0, shown(path))


def open_npz(path: str | os.PathLike[str]) -> dict[str, StoredArray]:
    """Return the arrays of an .npz file by their names."""
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
            arrays[key] = _stored(file, path, begin, f"{name}: array {key!r}")
    return arrays


def _header(file: Any, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an array: its shape, whether it is in Fortran order, and its type."""
    try:
        version = np.lib.format.read_magic(file)
        shape, fortran, dtype = _HEADERS[version](file, max_header_size=_HEADER)
    except (KeyError, ValueError, SyntaxError, TypeError) as error:
        raise FileFormatError(f"{name} has no header of an array: {error}") from error
    if dtype.hasobject:
        raise FileFormatError(f"{name} holds Python objects, which are not read: they could run code")
    return shape, fortran, dtype


def _stored(file: BinaryIO, path: str | os.PathLike[str], begin: int, name: str) -> StoredArray:
    file.seek(begin)
    shape, fortran, dtype = _header(file, name)
    if dtype.itemsize == 0:
        raise FileFormatError(f"{name} has entries of type {dtype}, which have no bytes")
    if fortran and len(shape) > 1 and min(shape) > 1:
        raise FileFormatError(
            f"{name} is stored column after column (Fortran order), and is read some rows at a time: save "
            "np.ascontiguousarray(X)"
        )
    return StoredArray(path, file.tell(), dtype, shape, name)


_MEMBERS = 64  # in one file
_RATIO = 1000  # bytes of an array for each byte on the disk
_ALWAYS = 2**20  # bytes of an array that are accepted at any ratio
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error)
_SPARSE = ("format", "shape", "data", "indices", "indptr")


def read_npz(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the members of an npz file by their names; a sparse matrix is "X".

    Parameters
    ----------
    path : path-like

    Returns
    -------
    dict of str to ndarray or csr_array

    Raises
    ------
    FileFormatError
        If the file is of another kind, is damaged, holds Python objects, or declares more than a file of its size can
        hold.
    """
    name = shown(path)
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = _members(archive, name)
        except (*_DAMAGED, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.EINVAL:  # that is a place before the file begins
                raise
            raise FileFormatError(f"{name}: this is no npz file, or it is damaged: {error}") from error
    if "format" in members and "indptr" in members:
        return {"X": _sparse(members, name), **{key: value for key, value in members.items() if key not in _SPARSE}}
    return members


def _members(archive: zipfile.ZipFile, name: str) -> dict[str, NDArray[Any]]:
    infos = archive.infolist()
    if len(infos) > _MEMBERS:
        raise FileFormatError(f"{name}: {len(infos)} arrays; at most {_MEMBERS} are read")
    members: dict[str, NDArray[Any]] = {}
    for info in infos:
        key = info.filename.removesuffix(".npy")
        if key in members:
            raise FileFormatError(f"{name}: array {key!r} is there twice")
        members[key] = _array(archive, info, f"{name}: array {key!r}")
    return members


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str) -> NDArray[Any]:
    if info.file_size > max(_ALWAYS, _RATIO * info.compress_size):
        raise FileFormatError(f"{where} would be {info.file_size} bytes, of {info.compress_size} on the disk")
    with archive.open(info) as member:
        shape, fortran, dtype = _header(member, where)
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or size != info.file_size - member.tell():
            raise FileFormatError(f"{where} of shape {shape} and type {dtype} does not fill its {info.file_size} bytes")
        data = member.read()
    if len(data) != size:
        raise FileFormatError(f"{where} was cut short")
    flat = np.frombuffer(data, dtype)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _sparse(members: dict[str, NDArray[Any]], name: str) -> Any:
    missing = [key for key in _SPARSE if key not in members]
    kind = members["format"].item() if members["format"].size == 1 else b""
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    if missing or kind not in ("csr", "csc"):
        raise FileFormatError(f"{name}: the sparse matrix is not CSR or CSC ({', '.join(missing) or kind})")
    made: Any = scipy.sparse.csr_array if kind == "csr" else scipy.sparse.csc_array
    shape = tuple(int(length) for length in members["shape"].ravel())
    try:
        matrix = made((members["data"], members["indices"], members["indptr"]), shape=shape)
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise FileFormatError(f"{name}: the parts of the sparse matrix do not agree: {error}") from error
    return matrix
