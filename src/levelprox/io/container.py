"""Named arrays and words in one file: safetensors, with a checksum over all of it.

    8 bytes     length of the header, little-endian
    header      JSON: {"__metadata__": {name: text, …}, name: {"dtype", "shape", "data_offsets"}, …}, padded with blanks
    the rest    the arrays, little-endian, C order, one after another without a gap

Any program that reads safetensors reads these files. Reading one runs no code, and allocates no more than the file has
bytes. `sha256` among the metadata is that of the whole file with 64 zeros in its place, so that no changed, missing or
added byte goes unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox.errors import FileFormatError

Array = NDArray[Any]

_NAMES = {
    "F64": "<f8",
    "F32": "<f4",
    "I64": "<i8",
    "I32": "<i4",
    "U64": "<u8",
    "U32": "<u4",
    "U8": "|u1",
    "BOOL": "|b1",
}
_CODES = {np.dtype(code): name for name, code in _NAMES.items()}
_LENGTH, _ALIGNED = 8, 8
_MOST = 100 * 2**20  # bytes of a header, as in safetensors itself
_SIGNED, _UNSIGNED = (
    b'{"__metadata__":{"sha256":"',
    "0" * 64,
)  # how a header begins, and the checksum before it is known
_DEEP = 20  # times the JSON may be nested


@dataclass(frozen=True, eq=False)
class Contents:
    """What a file holds.

    Attributes
    ----------
    metadata : dict of str to str
    arrays : dict of str to ndarray
        Of bool, uint8, uint32, uint64, int32, int64, float32 or float64.
    """

    metadata: Mapping[str, str]
    arrays: Mapping[str, Array]


def pack(contents: Contents) -> list[bytes | memoryview]:
    """The bytes of a file, in parts."""
    arrays = {name: np.asarray(array, order="C") for name, array in contents.arrays.items()}
    # Wide ones first: each begins at a multiple of its own width.
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


def unpack(data: bytes, name: str) -> Contents:
    """What the bytes of a file hold.

    Parameters
    ----------
    data : bytes
    name : str
        What the file is called in errors.

    Raises
    ------
    FileFormatError
        Where a byte is not as it was written, or is missing, or was added.
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
    if not (len(signature) == len(_UNSIGNED) and text.startswith(_SIGNED + signature.encode())):
        raise FileFormatError(f"{name}: there is no checksum; this is not a file of levelprox")
    rest = text[len(_SIGNED) + len(_UNSIGNED) :]
    if _digest(data[:_LENGTH], _SIGNED, _UNSIGNED.encode("ascii"), rest, body) != signature:
        raise FileFormatError(f"{name}: the checksum does not match: the file is damaged")
    return Contents(metadata, _arrays(header, body, name))


def _parsed(text: bytes, name: str) -> dict[str, Any]:
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_without_repetition, parse_constant=_not_a_number)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{name}: the header is not JSON: the file is damaged, or another kind") from error
    if not isinstance(header, dict):
        raise FileFormatError(f"{name}: the header is not a JSON object: the file is damaged, or another kind")
    return header


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _not_a_number(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


def _arrays(header: dict[str, Any], body: memoryview, name: str) -> dict[str, Array]:
    """The arrays, which must cover the rest of the file without gap or overlap."""
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
        arrays[key] = flat.reshape(shape).astype(flat.dtype.newbyteorder("="))
    if end != len(body):
        raise FileFormatError(f"{name}: {len(body) - end} bytes follow the last array")
    return arrays


def _place(entry: object, key: str, name: str) -> tuple[int, int, str, tuple[int, ...]]:
    """Begin, end, type and shape of an array, checked against each other."""
    try:
        assert isinstance(entry, dict) and entry.keys() == {"dtype", "shape", "data_offsets"}
        (begin, end), shape, code = entry["data_offsets"], tuple(entry["shape"]), entry["dtype"]
        assert all(type(one) is int and one >= 0 for one in (begin, end, *shape)) and len(shape) <= _DEEP
        assert end - begin == np.dtype(_NAMES[code]).itemsize * math.prod(shape)
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{name}: the header does not describe array {key!r}") from error
    return begin, end, code, shape


def _digest(*parts: bytes | memoryview) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
