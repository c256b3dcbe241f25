"""Files of arrays: any reader of safetensors reads them, and every changed byte is detected."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import numpy as safetensors
from safetensors import safe_open

from levelprox.exceptions import FileFormatError
from levelprox.io import container

ARRAYS = {
    "a": np.linspace(0, 1, 7),
    "b": np.arange(6, dtype=np.int32).reshape(2, 3),
    "empty": np.empty((0, 2), np.float32),
    "flags": np.array([True, False, True]),
    "one": np.array(2.5),
    "narrow": np.array([1, -1], np.int8),
}
CONTENTS = container.Contents({"format": "test", "words": 'ä "quoted" \\ \n'}, ARRAYS)


def packed(contents: container.Contents = CONTENTS) -> bytes:
    return b"".join(container.pack(contents))


def signed(header: bytes, body: bytes = b"") -> bytes:
    """A file with any header, and the checksum that belongs to it."""
    text = header.replace(b"DIGEST", b"0" * 64)
    whole = len(text).to_bytes(8, "little") + text + body
    return whole.replace(b"0" * 64, container._digest(whole).encode(), 1)


def test_what_is_packed_is_unpacked():
    found = container.unpack(packed(), "file")
    assert found.metadata == CONTENTS.metadata
    assert found.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found.arrays[name].dtype == array.dtype and found.arrays[name].shape == array.shape
        assert found.arrays[name].tobytes() == array.tobytes()
    assert container.begins(packed()) and not container.begins(packed()[1:])


def test_the_public_reader_reads_them(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(packed())
    for name, array in safetensors.load_file(path).items():
        assert array.dtype == ARRAYS[name].dtype and np.array_equal(array, ARRAYS[name])
    with safe_open(path, "numpy") as file:
        assert file.metadata().items() >= CONTENTS.metadata.items()


def test_the_same_contents_have_the_same_bytes():
    assert packed() == packed(container.Contents(CONTENTS.metadata, dict(reversed(ARRAYS.items()))))


def test_every_byte_and_every_length_counts():
    data = packed()
    for i in range(len(data)):
        with pytest.raises(FileFormatError):
            container.unpack(data[:i], "file")
        for bit in range(8):
            changed = bytearray(data)
            changed[i] ^= 1 << bit
            with pytest.raises(FileFormatError):
                container.unpack(bytes(changed), "file")
    with pytest.raises(FileFormatError):
        container.unpack(data + b"\0", "file")


def test_the_checksum_of_our_own_forgeries_is_right():
    """Else the tests below would show nothing."""
    header = b'{"__metadata__":{"sha256":"DIGEST"},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}'
    assert container.unpack(signed(header, b"\1\2"), "file").arrays["a"].tolist() == [1, 2]


FORGED = {
    "a gap": [{"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}],
    "an overlap": [{"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}] * 2,
    "beyond the end": [{"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}],
    "bytes left": [{"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}],
    "another size": [{"dtype": "F64", "shape": [2], "data_offsets": [0, 2]}],
    "an unknown type": [{"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}],
    "no type": [{"dtype": ["U8"], "shape": [2], "data_offsets": [0, 2]}],
    "a negative size": [{"dtype": "U8", "shape": [-2, -1], "data_offsets": [0, 2]}],
    "a boolean size": [{"dtype": "U8", "shape": [True, 2], "data_offsets": [0, 2]}],
    "many dimensions": [{"dtype": "U8", "shape": [1] * 60 + [2], "data_offsets": [0, 2]}],
    "more than is known": [{"dtype": "U8", "shape": [2], "data_offsets": [0, 2], "x": 1}],
    "not an object": [[1, 2]],
    "other booleans": [{"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}],
}


@pytest.mark.parametrize("fault", FORGED)
def test_headers_that_do_not_describe_the_file_are_refused(fault):
    entries = {f"a{i}": entry for i, entry in enumerate(FORGED[fault])}
    header = json.dumps({"__metadata__": {"sha256": "DIGEST"}, **entries}, separators=(",", ":")).encode()
    with pytest.raises(FileFormatError, match=r"^file: ") as caught:
        container.unpack(signed(header, b"\2\1"), "file")
    assert "checksum" not in str(caught.value)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b"{}",
        b'{"__metadata__":[]}',
        b'{"__metadata__":{"x":1}}',
        b'{"__metadata__":{"x":"no checksum"}}',
        b'{"__metadata__":{"x":"","sha256":"DIGEST"}}',
        b'{"__metadata__":{"sha256":"DIGEST","a":NaN}}',
        b'{"__metadata__":{"sha256":"DIGEST","a":"1","a":"2"}}',
        b'{"__metadata__":{"sha256":"\\ud800' + b"0" * 63 + b'"}}',
        b'{"__metadata__":{"sha256":"DIGEST"},"a":' + b"[" * 50_000 + b"}",
        b"\xff\xfe",
    ],
    ids=lambda header: repr(header[:45]),
)
def test_other_headers_are_refused(header):
    with pytest.raises(FileFormatError, match=r"^file: "):
        container.unpack(signed(header), "file")


def test_an_array_that_files_have_no_name_for_is_refused():
    with pytest.raises(TypeError, match="'a' is of complex128"):
        container.pack(container.Contents({}, {"a": np.ones(2) * 1j}))
