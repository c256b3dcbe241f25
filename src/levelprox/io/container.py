"""Named arrays and text in one file: safetensors, with a checksum of the whole file.

    8 bytes     length of the header, little-endian
    header      JSON: {"__metadata__": {name: text, …}, name: {"dtype", "shape", "data_offsets"}, …}, padded with blanks
    the rest    the arrays, little-endian, C order, contiguous

Any program that reads safetensors reads these files. Reading one runs no code, and allocates no more than the file has
bytes. `sha256` in the metadata is that of the whole file with 64 zeros in its place, so that every changed, missing or
added byte is detected.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelprox._typing import Array
from levelprox.exceptions import FileFormatError
from levelprox.io.plain import parsed

_NAMES = {
    "F64": "<f8",
    "F32": "<f4",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "F16": "<f2",
    "BOOL": "|b1",
}
_CODES = {np.dtype(code): name for name, code in _NAMES.items()}
_LENGTH, _ALIGNED = 8, 8
_MOST = 100 * 2**20  # bytes of a header, as in safetensors itself
# How a header begins, and the checksum before it is known.
_SIGNED, _UNSIGNED = b'{"__metadata__":{"sha256":"', "0" * 64
FIRST_BYTES = _LENGTH + len(_SIGNED)
_DIMENSIONS = 20  # of an array, at most


@dataclass(frozen=True, eq=False)
class Contents:
    """Contents of a file.

    Attributes
    ----------
    metadata : dict of str to str
    arrays : dict of str to ndarray
        Of booleans, integers of 8 to 64 bits, or floats of 16 to 64 bits.
    """

    metadata: Mapping[str, str]
    arrays: Mapping[str, Array]


def pack(contents: Contents) -> list[bytes | memoryview]:
    """Return the bytes of a file, in parts."""
    arrays = {name: _stored(name, array) for name, array in contents.arrays.items()}
    # The widest types first: each array begins at a multiple of its item size.
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": {"sha256": _UNSIGNED, **contents.metadata}}
    end = 0
    for name in order:
        array = arrays[name]
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": _CODES[array.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    text += b" " * (-len(text) % _ALIGNED)
    data = [arrays[name].reshape(-1).view(np.uint8).data for name in order]
    length = len(text).to_bytes(_LENGTH, "little")
    digest = _digest(length, text, *data).encode("ascii")
    return [length, _SIGNED + digest + text[len(_SIGNED) + len(digest) :], *data]


def _stored(name: str, array: Array) -> Array:
    """Return the array in C order and little-endian, as in files."""
    kind = array.dtype.newbyteorder("<")
    if kind not in _CODES:
        raise TypeError(f"array {name!r} is of {array.dtype}, which files of arrays have no name for")
    return np.asarray(array, kind, order="C")


def begins(data: bytes) -> bool:
    """Return whether the first bytes of a file are those of a file written by `pack`."""
    return data[_LENGTH:FIRST_BYTES] == _SIGNED


def unpack(data: bytes, name: str) -> Contents:
    """Return the contents of a file from its bytes.

    Parameters
    ----------
    data : bytes
    name : str
        Name of the file for error messages.

    Raises
    ------
    FileFormatError
        If a byte was changed, removed or added.
    """
    if len(data) < _LENGTH:
        raise FileFormatError(f"{name}: {len(data)} bytes are too few; the file was cut short, or is another kind")
    size = int.from_bytes(data[:_LENGTH], "little")
    if size > _MOST or size > len(data) - _LENGTH:
        raise FileFormatError(
            f"{name}: a header of {size} bytes in a file of {len(data)}: it was cut short, or is another kind"
        )
    text, body = data[_LENGTH : _LENGTH + size], memoryview(data)[_LENGTH + size :]
    header = _parsed(text, name)
    metadata = header.pop("__metadata__", None)
    if not (isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())):
        raise FileFormatError(f"{name}: the header has no metadata; this is not a file of levelprox")
    signature = metadata.pop("sha256", "")
    if not (len(signature) == len(_UNSIGNED) and text.startswith(_SIGNED + signature.encode("ascii", "replace"))):
        raise FileFormatError(f"{name}: there is no checksum; this is not a file of levelprox")
    rest = text[len(_SIGNED) + len(_UNSIGNED) :]
    if _digest(data[:_LENGTH], _SIGNED, _UNSIGNED.encode("ascii"), rest, body) != signature:
        raise FileFormatError(f"{name}: the checksum does not match: the file is damaged")
    return Contents(metadata, _arrays(header, body, name))


def _parsed(text: bytes, name: str) -> dict[str, Any]:
    try:
        header = parsed(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{name}: the header is not JSON: the file is damaged, or another kind") from error
    if not isinstance(header, dict):
        raise FileFormatError(f"{name}: the header is not a JSON object: the file is damaged, or another kind")
    return header


def _arrays(header: dict[str, Any], body: memoryview, name: str) -> dict[str, Array]:
    """Return the arrays, which must cover the rest of the file without gap or overlap."""
    arrays: dict[str, Array] = {}
    places = sorted((_place(entry, key, name), key) for key, entry in header.items())
    end = 0
    for (begin, stop, code, shape), key in places:
        if begin != end:
            raise FileFormatError(f"{name}: array {key!r} begins at byte {begin}, not at {end}")
        end = stop
        if stop > len(body):
            raise FileFormatError(f"{name}: array {key!r} ends at byte {stop} of {len(body)}; the file was cut short")
        flat = np.frombuffer(body[begin:stop], np.dtype(_NAMES[code]))
        if code == "BOOL" and np.any(flat.view(np.uint8) > 1):
            raise FileFormatError(f"{name}: array {key!r} is to hold booleans, and holds other bytes than 0 and 1")
        arrays[key] = flat.reshape(shape).astype(flat.dtype.newbyteorder("="))
    if end != len(body):
        raise FileFormatError(f"{name}: {len(body) - end} bytes follow the last array")
    return arrays


def _place(entry: object, key: str, name: str) -> tuple[int, int, str, tuple[int, ...]]:
    """Return begin, end, type and shape of an array, checked against each other."""
    match entry:
        case {"dtype": str(code), "shape": list(shape), "data_offsets": [begin, end], **rest} if not rest:
            whole = all(type(one) is int and one >= 0 for one in (begin, end, *shape))
            known = whole and len(shape) <= _DIMENSIONS and code in _NAMES
            if known and end - begin == np.dtype(_NAMES[code]).itemsize * math.prod(shape):
                return begin, end, code, tuple(shape)
    raise FileFormatError(f"{name}: the header does not describe array {key!r}")


def _digest(*parts: bytes | memoryview) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
