"""Plain data: nested lists, dictionaries, numbers, strings, arrays and some dataclasses, as JSON and arrays.

Numbers keep all their bits. Reading builds only these types: a file cannot name another one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import scipy.sparse

from levelprox._typing import Array
from levelprox.exceptions import FileFormatError

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
