"""Plain data are read back bit by bit, and all other data raise an error."""

from __future__ import annotations

import json
import math
import tracemalloc
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox.exceptions import FileFormatError
from levelprox.io import container


class Colour(Enum):
    """A kind of its own."""

    RED = 1


@dataclass(frozen=True)
class Point:
    """Another."""

    x: float
    name: str | None = None


KINDS = (Colour, Point)


def there_and_back(data: object) -> object:
    """By way of a file, too."""
    text, arrays = container.encode(data, KINDS)
    contents = container.unpack(b"".join(container.pack(container.Contents({"it": text}, arrays))), "file")
    return container.decode(contents.metadata["it"], contents.arrays, KINDS, "file")


def same(one: object, other: object) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        return same(one.tolist(), other.tolist()) if one.dtype.kind in "OU" else one.tobytes() == other.tobytes()
    if isinstance(one, float):
        return np.float64(one).tobytes() == np.float64(other).tobytes() or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.keys()), list(other.keys())) and same(list(one.values()), list(other.values()))
    return bool(one == other)


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([Colour.RED, Point(0.1)])
keys = st.text() | st.integers() | st.booleans()
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner),
    max_leaves=12,
)


@settings(max_examples=50)
@given(trees)
def test_any_plain_data_come_back_the_same(data):
    assert same(there_and_back(data), data)


@pytest.mark.parametrize(
    "array",
    [
        *(np.arange(6).reshape(2, 3).astype(kind) for kind in "bBhHiIlLqQfde?"),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([0.1, -0.0, math.inf, math.nan, 5e-324]),
        np.array(3.0),
        np.empty((0, 4)),
        np.array(["a", "", "αβγ", "\ud800"]),
        np.array(["short"], "<U20"),
        np.array(["no", 3, True, None, 0.5], object),
        np.array([f"feature {j}" for j in range(5000)], object),
        np.array([["a", "b"], ["c", "d"]]),
        np.empty(0, "<U3"),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_come_back_the_same(array):
    assert same(there_and_back(array), array)
    assert there_and_back([array, {"again": array}])[0].flags.writeable


def test_big_endian_numbers_come_back_as_native_ones():
    found = there_and_back(np.array([1, 2], ">i4"))
    assert found.dtype == np.int32 and found.tolist() == [1, 2]


def test_numbers_of_numpy_come_back_as_those_of_python():
    given = [np.float32(0.1), np.int8(3), np.bool_(True), np.longdouble(0.5), np.str_("word")]
    assert there_and_back(given) == [float(np.float32(0.1)), 3, True, 0.5, "word"]


@pytest.mark.parametrize("count", [1, 3, 100])
def test_records_come_back_the_same(count):
    records = tuple(Point(float(i) / 3, None if i % 2 else str(i)) for i in range(count))
    assert there_and_back(records) == records
    assert len(container.encode(records * 50, KINDS)[0]) < 12 * 50 * count + 300  # not every name again for each


def test_sparse_rows_come_back_the_same():
    rows = scipy.sparse.random_array((5, 7), density=0.4, format="csr", rng=np.random.default_rng(0))
    assert (there_and_back(rows) != rows).nnz == 0


@pytest.mark.parametrize(
    "data",
    [
        object(),
        {1, 2},
        b"bytes",
        1j,
        print,
        np.array([1j]),
        np.array([1.0], np.longdouble),
        np.array(["2020"], "M8"),
        [{"deep": (object(),)}],
        np.array([object()], object),
    ],
    ids=lambda data: type(data).__name__,
)
def test_anything_else_is_refused(data):
    with pytest.raises(TypeError, match="is not plain data"):
        container.encode(data, KINDS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        '{"float":"0"}',
        '{"array":"a9"}',
        '{"array":"a0","more":1}',
        '{"tuple":"abc"}',
        '{"dict":[1]}',
        '{"dict":{"a":1,"a":2}}',
        '{"pairs":[[1]]}',
        '{"pairs":[[[],1]]}',
        '{"kind":"Point","fields":{"y":1}}',
        '{"kind":"Point","value":1}',
        '{"kind":"Colour","value":7}',
        '{"kind":"Colour","fields":{}}',
        '{"kind":"os.system","fields":{"command":"true"}}',
        '{"records":"Point","columns":{"x":[1,2],"name":["a"]}}',
        '{"records":"Point","columns":{"x":3}}',
        '{"words":["abc"],"letters":2,"shape":[1]}',
        '{"words":["abc"],"letters":1000000000,"shape":[1]}',
        '{"words":["abc"],"letters":3,"shape":[2]}',
        '{"words":[1],"letters":3,"shape":[1]}',
        '{"words":"a0","letters":3,"shape":[1]}',
        '{"rows":[{"array":"a0"},{"array":"a0"},{"array":"a0"}],"shape":[3,3]}',
        '{"unheard":1}',
        "[" * 100_000,
        "[" * 50_000 + "]" * 50_000,
    ],
    ids=lambda text: text[:40],
)
def test_foreign_data_are_refused(text):
    with pytest.raises(FileFormatError, match=r"^some\.file: "):
        container.decode(text, {"a0": np.array([1.5, 2.5, 3.5])}, KINDS, "some.file")


WIDE = '{"words":["abc"],"letters":900000,"shape":[1]}'
AGAIN = '{"words":"words","letters":null,"shape":[20000]}'
RECORDS = '{"records":"Point","columns":{"x":{"array":"a0"},"name":{"array":"a0"}}}'


@pytest.mark.parametrize("part", [WIDE, AGAIN, RECORDS], ids=["wide", "words", "records"])
def test_a_small_file_never_takes_much_memory(part):
    """One budget for all of a file: what is there once may be there once, not a thousand times."""
    words = np.frombuffer(json.dumps(["a"] * 20000).encode(), np.uint8)
    arrays = {"a0": np.arange(20000.0), "words": words}
    container.decode(f"[{part}]", arrays, KINDS, "some.file")
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match="bytes are to become more than"):
            container.decode(f"[{','.join([part] * 200)}]", arrays, KINDS, "some.file")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50 * 2**20
