"""The files of models and checkpoints: named arrays and text, and how plain data become these.

`pack` and `unpack` write and read safetensors, with a checksum of the whole file:

    8 bytes     length of the header, little-endian
    header      JSON: {"__metadata__": {name: text, …}, name: {"dtype", "shape", "data_offsets"}, …}, padded with blanks
    the rest    the arrays, little-endian, C order, contiguous

Any program that reads safetensors reads these files. Reading one runs no code, and allocates no more than the file has
bytes. `sha256` in the metadata is that of the whole file with 64 zeros in its place, so that every changed, missing or
added byte is detected.

`encode` and `decode` convert nested lists, dictionaries, numbers, strings, arrays and some dataclasses to JSON and
arrays. Numbers keep all their bits. Reading builds only these types: a file cannot name another one.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import scipy.sparse

from levelprox._typing import Array
from levelprox.exceptions import FileFormatError

_TYPES = {
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
_CODES = {np.dtype(code): name for name, code in _TYPES.items()}
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
    header = _header(text, name)
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


def _header(text: bytes, name: str) -> dict[str, Any]:
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
        flat = np.frombuffer(body[begin:stop], np.dtype(_TYPES[code]))
        if code == "BOOL" and np.any(flat.view(np.uint8) > 1):
            raise FileFormatError(f"{name}: array {key!r} must hold booleans: bytes 0 and 1 only")
        arrays[key] = flat.reshape(shape).astype(flat.dtype.newbyteorder("="))
    if end != len(body):
        raise FileFormatError(f"{name}: {len(body) - end} bytes follow the last array")
    return arrays


def _place(entry: object, key: str, name: str) -> tuple[int, int, str, tuple[int, ...]]:
    """Return begin, end, type and shape of an array, checked against each other."""
    match entry:
        case {"dtype": str(code), "shape": list(shape), "data_offsets": [begin, end], **rest} if not rest:
            whole = all(type(one) is int and one >= 0 for one in (begin, end, *shape))
            known = whole and len(shape) <= _DIMENSIONS and code in _TYPES
            if known and end - begin == np.dtype(_TYPES[code]).itemsize * math.prod(shape):
                return begin, end, code, tuple(shape)
    raise FileFormatError(f"{name}: the header does not describe array {key!r}")


def _digest(*parts: bytes | memoryview) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_FEW = 1000  # strings in the JSON; more are an array of their own
_SHORT = 16  # numbers of a column of records in the JSON
_LONGEST = 8  # bytes of a number
_ROOM, _TIMES = 2**22, 32  # memory of the result: at most so many bytes, plus so many times those of the file
_PARSED, _LISTED = 16, 8  # bytes of memory, at most, for one byte of strings and of numbers that become objects


def encode(data: object, kinds: Iterable[type]) -> tuple[str, dict[str, Array]]:
    """Return JSON, and the arrays that it refers to.

    Parameters
    ----------
    data : object
        None, bool, int, float, str, list, tuple, dict of such keys, ndarray of numbers, words or such objects,
        csr_array, or a dataclass or enum of `kinds`.
    kinds : iterable of type
    """
    arrays = _Arrays()
    tree = _tree(data, {_name_of(kind): kind for kind in kinds}, arrays)
    return json.dumps(tree, separators=(",", ":"), allow_nan=False), arrays.by_name


def decode(text: str, arrays: Mapping[str, Array], kinds: Iterable[type], name: str) -> Any:
    """Return the data that `encode` received; `name` is the file in error messages."""
    try:
        named = {word: kind for kind in kinds for word in (*getattr(kind, "former_names", ()), _name_of(kind))}
        return _built(parsed(text), named, _Source(text, arrays))
    except FileFormatError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise FileFormatError(
            f"{name}: {type(error).__name__}: {error}; the file is damaged, or of another version"
        ) from error


def parsed(text: str) -> Any:
    """Parse JSON; a repeated name, or text that is no JSON, is a ValueError."""
    return json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_not_a_number)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _not_a_number(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


def _tree(data: object, kinds: dict[str, type], arrays: _Arrays) -> Any:
    if isinstance(data, Enum) and type(data).__name__ in kinds:
        return {"kind": type(data).__name__, "value": data.value}
    if data is None or isinstance(data, bool | str) or type(data) is int:
        return data
    if isinstance(data, np.bool_ | np.integer):
        return data.item()
    if isinstance(data, float | np.floating):
        number = float(data)
        return number if math.isfinite(number) else {"float": str(number)}
    if isinstance(data, np.ndarray) and data.dtype.kind in "UO":
        return _words(data, kinds, arrays)
    if isinstance(data, np.ndarray) and data.dtype.kind in "biuf" and data.dtype.itemsize <= _LONGEST:
        return {"array": arrays.name_of(data)}
    if isinstance(data, scipy.sparse.csr_array):
        parts = (data.data, data.indices, data.indptr)
        return {"rows": [_tree(part, kinds, arrays) for part in parts], "shape": list(data.shape)}
    if isinstance(data, list):
        return [_tree(one, kinds, arrays) for one in data]
    if isinstance(data, tuple):
        return _records(data, kinds, arrays) or {"tuple": [_tree(one, kinds, arrays) for one in data]}
    if isinstance(data, dict) and all(isinstance(key, str) for key in data):
        return {"dict": {key: _tree(value, kinds, arrays) for key, value in data.items()}}
    if isinstance(data, dict):
        return {"pairs": [[_tree(one, kinds, arrays) for one in pair] for pair in data.items()]}
    if is_dataclass(data) and kinds.get(_name_of(type(data))) is type(data):
        inside = {name: _tree(getattr(data, attribute), kinds, arrays) for name, attribute in _fields(type(data))}
        return {"kind": _name_of(type(data)), "fields": inside}
    raise TypeError(f"{type(data).__name__} is not plain data: {data!r}"[:200])


class _Arrays:
    """Arrays by name; an array that occurs twice has one name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Array] = {}
        self.names: dict[int, str] = {}

    def name_of(self, array: Array) -> str:
        """Return the name of an array; a reference is kept, so that its id is not reused."""
        name = self.names.setdefault(id(array), f"a{len(self.names)}")
        self.by_name[name] = array
        return name


def _words(array: Array, kinds: dict[str, type], arrays: _Arrays) -> dict[str, Any]:
    """Encode an array of strings or of objects; if they are many, outside the JSON."""
    tree = _tree(array.ravel().tolist(), kinds, arrays)
    if array.size > _FEW:
        text = json.dumps(tree, separators=(",", ":"), allow_nan=False).encode("ascii")
        tree = arrays.name_of(np.frombuffer(text, np.uint8))
    letters = array.dtype.itemsize // 4 if array.dtype.kind == "U" else None
    return {"words": tree, "letters": letters, "shape": list(array.shape)}


def _records(data: tuple[object, ...], kinds: dict[str, type], arrays: _Arrays) -> dict[str, Any] | None:
    """Encode a tuple of dataclasses of one type field by field; return None for other tuples."""
    kind = type(data[0]) if data else None
    if kind is None or kinds.get(_name_of(kind)) is not kind or not is_dataclass(kind):
        return None
    if any(type(one) is not kind for one in data):
        return None
    columns = {name: [getattr(one, attribute) for one in data] for name, attribute in _fields(kind)}
    return {"records": _name_of(kind), "columns": {name: _column(c, kinds, arrays) for name, c in columns.items()}}


def _column(values: list[Any], kinds: dict[str, type], arrays: _Arrays) -> Any:
    types = {type(value) for value in values}
    if len(values) >= _SHORT and (types <= {float} or (types <= {int} and all(abs(v) < 2**63 for v in values))):
        return _tree(np.array(values), kinds, arrays)
    return _tree(values, kinds, arrays)


class _Source:
    """The arrays of a file, and how many bytes may still be allocated for it: a small file never takes much memory."""

    def __init__(self, text: str, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays
        self.size = len(text) + sum(array.nbytes for array in arrays.values())
        self.left = _ROOM + _TIMES * self.size

    def take(self, n_bytes: int) -> None:
        """Count bytes before they are allocated; raise ValueError if they are more than are left."""
        self.left -= n_bytes
        if self.left < 0:
            raise ValueError(f"{self.size} bytes are to become more than {_ROOM + _TIMES * self.size}")


def _built(tree: Any, kinds: dict[str, type], source: _Source) -> Any:
    if isinstance(tree, list):
        return [_built(one, kinds, source) for one in tree]
    if not isinstance(tree, dict):
        return tree
    match tree:
        case {"float": word, **rest} if not rest:
            return _WORDS[word]
        case {"array": key, **rest} if not rest:
            return source.arrays[key]
        case {"rows": [data, indices, indptr], "shape": [n, d], **rest} if not rest:
            parts = tuple(_built(one, kinds, source) for one in (data, indices, indptr))
            source.take(sum(np.asarray(part).nbytes for part in parts))
            rows = scipy.sparse.csr_array(parts, shape=(n, d))
            rows.check_format()
            return rows
        case {"words": words, "letters": letters, "shape": list(shape), **rest} if not rest:
            return _array_of(words, letters, shape, kinds, source)
        case {"tuple": list(parts), **rest} if not rest:
            return tuple(_built(one, kinds, source) for one in parts)
        case {"dict": dict(parts), **rest} if not rest:
            return {key: _built(value, kinds, source) for key, value in parts.items()}
        case {"pairs": list(pairs), **rest} if not rest:
            return {_built(key, kinds, source): _built(value, kinds, source) for key, value in pairs}
        case {"kind": kind, "value": value, **rest} if not rest and issubclass(kinds[kind], Enum):
            return kinds[kind](value)
        case {"kind": kind, "fields": dict(inside), **rest} if not rest and is_dataclass(kinds[kind]):
            found = {name: _built(one, kinds, source) for name, one in inside.items()}
            return kinds[kind](**_renamed(kinds[kind], found))
        case {"records": kind, "columns": dict(columns), **rest} if not rest and is_dataclass(kinds[kind]):
            found = {name: _built(column, kinds, source) for name, column in columns.items()}
            return _one_by_one(kinds[kind], _renamed(kinds[kind], found), source)
    raise ValueError(f"{sorted(tree)} is no kind of data")


def _name_of(kind: type) -> str:
    """Return the name of a kind in files: `stored_as`, if it has had another name before."""
    return getattr(kind, "stored_as", kind.__name__)


def _fields(kind: Any) -> list[tuple[str, str]]:
    """Return the fields of a dataclass: their names in files (`stored_fields` has those that differ) and in Python."""
    stored = getattr(kind, "stored_fields", {})
    return [(stored.get(field.name, field.name), field.name) for field in fields(kind)]


def _renamed(kind: type, parts: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a dataclass, read from a file, by their names in Python."""
    attributes = dict(_fields(kind))
    return {attributes.get(name, name): value for name, value in parts.items()}


def _array_of(words: Any, letters: Any, shape: list[Any], kinds: dict[str, type], source: _Source) -> Array:
    """Return an array of strings, or of objects if there is no number of letters."""
    if isinstance(words, str):
        source.take(_PARSED * source.arrays[words].nbytes)
        words = parsed(source.arrays[words].tobytes().decode("ascii"))
    found = _built(words, kinds, source)
    if letters is None:
        array = np.empty(len(found), object)
        array[:] = found
        return array.reshape(shape)
    longest = max(map(len, found), default=0)
    if not longest <= letters:
        raise ValueError(f"words of up to {longest} letters in an array for {letters}")
    source.take(4 * letters * len(found))
    return np.array(found, f"<U{letters}").reshape(shape)


def _one_by_one(kind: type, columns: dict[str, Any], source: _Source) -> tuple[Any, ...]:
    source.take(_LISTED * sum(one.nbytes for one in columns.values() if isinstance(one, np.ndarray)))
    lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values()]
    return tuple(kind(**dict(zip(columns, values, strict=True))) for values in zip(*lists, strict=True))
