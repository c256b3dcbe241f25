"""npz: arrays X and y, or a matrix of `scipy.sparse.save_npz` and y, read without pickle and within limits.

A member is decompressed only where its header, its declared size and its compressed size agree: what is allocated is
at most a thousand times what the file has on the disk.
"""

from __future__ import annotations

import errno
import math
import os
import struct
import zipfile
import zlib
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from levelprox.exceptions import FileFormatError
from levelprox.io.opened import shown

_MEMBERS = 64  # in one file
_RATIO = 1000  # bytes of an array for each byte on the disk
_ALWAYS = 2**20  # bytes of an array that need no such excuse
_HEADER = 10_000  # bytes
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error)
_SPARSE = ("format", "shape", "data", "indices", "indptr")


def read_npz(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The members of an npz file by their names; a sparse matrix is "X".

    Parameters
    ----------
    path : path-like

    Returns
    -------
    dict of str to ndarray or csr_array

    Raises
    ------
    FileFormatError
        Where it is no such file, or damaged, or holds Python objects, or claims more than a file of its size can hold.
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
        try:
            version = np.lib.format.read_magic(member)
            shape, fortran, dtype = _HEADERS[version](member, max_header_size=_HEADER)
        except (KeyError, ValueError, SyntaxError, TypeError) as error:
            raise FileFormatError(f"{where} has no header of an array") from error
        if dtype.hasobject:
            raise FileFormatError(f"{where} holds Python objects, which are not read: they could run code")
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
        raise FileFormatError(f"{name}: the sparse matrix does not hold together: {error}") from error
    return matrix
