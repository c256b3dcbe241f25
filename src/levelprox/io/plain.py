"""Plain data: nested lists, dictionaries, numbers, words, arrays and a few named dataclasses, as JSON and arrays.

Numbers keep all their bits. What is read back is built from these kinds alone: nothing in a file can name any other.
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
from numpy.typing import NDArray

from levelprox.errors import FileFormatError

Array = NDArray[Any]

_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode(data: object, kinds: Iterable[type]) -> tuple[str, dict[str, Array]]:
    """JSON, and the arrays that it refers to.

    Parameters
    ----------
    data : object
        None, bool, int, float, str, list, tuple, dict of str, ndarray, csr_array, or a dataclass or enum of `kinds`.
    kinds : iterable of type
    """
    arrays = _Arrays()
    tree = _tree(data, {kind.__name__: kind for kind in kinds}, arrays)
    return json.dumps(tree, separators=(",", ":"), allow_nan=False), arrays.by_name


def decode(text: str, arrays: Mapping[str, Array], kinds: Iterable[type], name: str) -> Any:
    """What `encode` was given; `name` is what the file is called in errors."""
    try:
        return _built(json.loads(text), {kind.__name__: kind for kind in kinds}, arrays)
    except FileFormatError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FileFormatError(
            f"{name}: {type(error).__name__}: {error}; the file is damaged, or of another version"
        ) from error


class _Arrays:
    """Arrays by the names they get; one that is there twice gets one."""

    def __init__(self) -> None:
        self.by_name: dict[str, Array] = {}
        self.names: dict[int, str] = {}

    def name_of(self, array: Array) -> str:
        name = self.names.setdefault(id(array), f"a{len(self.names)}")
        self.by_name[name] = array
        return name


def _tree(data: object, kinds: dict[str, type], arrays: _Arrays) -> Any:
    if isinstance(data, Enum) and type(data).__name__ in kinds:
        return {"kind": type(data).__name__, "value": data.value}
    if data is None or isinstance(data, bool | str) or type(data) is int:
        return data
    if isinstance(data, np.bool_ | np.integer | np.floating):
        return _tree(data.item(), kinds, arrays)
    if isinstance(data, float):
        return data if math.isfinite(data) else {"float": str(data)}
    if isinstance(data, np.ndarray):
        return {"array": arrays.name_of(data)}
    if isinstance(data, scipy.sparse.csr_array):
        parts = (data.data, data.indices, data.indptr)
        return {"rows": [_tree(part, kinds, arrays) for part in parts], "shape": list(data.shape)}
    if isinstance(data, list):
        return [_tree(one, kinds, arrays) for one in data]
    if isinstance(data, tuple):
        return {"tuple": [_tree(one, kinds, arrays) for one in data]}
    if isinstance(data, dict) and all(isinstance(key, str) for key in data):
        return {"dict": {key: _tree(value, kinds, arrays) for key, value in data.items()}}
    if is_dataclass(data) and kinds.get(type(data).__name__) is type(data):
        inside = {field.name: _tree(getattr(data, field.name), kinds, arrays) for field in fields(data)}
        return {"kind": type(data).__name__, "fields": inside}
    raise TypeError(f"{type(data).__name__} is not plain data: {data!r}"[:200])


def _built(tree: Any, kinds: dict[str, type], arrays: Mapping[str, Array]) -> Any:
    if isinstance(tree, list):
        return [_built(one, kinds, arrays) for one in tree]
    if not isinstance(tree, dict):
        return tree
    match tree:
        case {"float": word}:
            return _WORDS[word]
        case {"array": key}:
            return arrays[key]
        case {"rows": parts, "shape": shape}:
            rows = scipy.sparse.csr_array(tuple(_built(one, kinds, arrays) for one in parts), shape=tuple(shape))
            rows.check_format()
            return rows
        case {"tuple": parts}:
            return tuple(_built(one, kinds, arrays) for one in parts)
        case {"dict": parts}:
            return {key: _built(value, kinds, arrays) for key, value in parts.items()}
        case {"kind": kind, "value": value}:
            return kinds[kind](value)
        case {"kind": kind, "fields": inside}:
            return kinds[kind](**{key: _built(value, kinds, arrays) for key, value in inside.items()})
    raise ValueError(f"{sorted(tree)} is no kind of data")
