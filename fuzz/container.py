"""The reader of levelprox's own files: whatever the bytes are, contents or FileFormatError."""

from __future__ import annotations

import random
import re
import time
from collections import Counter

import numpy as np

from levelprox.exceptions import FileFormatError
from levelprox.io import container
from levelprox.io.container import Contents, pack, unpack

_WORDS = [
    *(
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"0",
        b"-1",
        b"1e400",
        b"NaN",
        b"null",
        b"true",
        b"[" * 3000,
        b"\\ud800",
    ),
    *(b'"F64"', b'"F32"', b'"I8"', b'"shape":[]', b'"shape":[0]', b'"data_offsets":[0,8]', b"18446744073709551616"),
    *(b"\\ud800", b"9" * 5000, b"\xff", b"\0", b'"__metadata__":{}', b'"__metadata__"', b'"sha256"', b'"a"', b'"b"'),
]


def fuzz(inputs: int, seed: int) -> None:
    """So many files with mutations; half of them with a checksum that fits, so that what lies behind it is reached."""
    rng = random.Random(seed)
    files = [b"".join(bytes(part) for part in pack(contents)) for contents in _contents()]
    assert all(isinstance(unpack(file, "file"), Contents) for file in files)
    begin = time.perf_counter()
    ends: Counter[str] = Counter()
    for _ in range(inputs):
        file = rng.choice(files)
        try:
            unpack(_signed(rng, file) if rng.random() < 0.5 else mutated(rng, file), "file")
            ends["read"] += 1
        except FileFormatError as error:
            ends[re.sub(r"'.*'|[0-9]+", "*", str(error))] += 1
    seconds = time.perf_counter() - begin
    print(f"container: {inputs} inputs in {seconds:.0f} s, read or FileFormatError, in {len(ends)} ways")
    for end, times in ends.most_common():
        print(f"  {times:7} {end}")


def _contents() -> list[Contents]:
    arrays = {"a": np.arange(3.0), "b": np.ones((2, 2), np.int32), "c": np.array([True]), "d": np.zeros(0, np.float32)}
    return [Contents({}, {}), Contents({"kind": "model", "text": "ä"}, arrays)]


def mutated(rng: random.Random, file: bytes) -> bytes:
    """Return the bytes with some changed, removed or inserted, or truncated."""
    data = bytearray(file)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randint(0, len(data))
        kind = rng.randrange(5)
        if kind == 0:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del data[at : at + rng.choice((1, 4, 40))]
        elif kind == 2:
            data[at : at + rng.choice((0, 1, 3, 8))] = rng.choice(_WORDS)
        elif kind == 3:
            data[at : at + 1] = b"%d" % rng.choice((0, 1, 7, 8, 9, 24, 2**31, 2**63, 2**64))
        else:
            del data[at:]
    return bytes(data)


def _signed(rng: random.Random, file: bytes) -> bytes:
    """Header or arrays mutated, and a length and a checksum that fit."""
    size = int.from_bytes(file[:8], "little")
    begin, empty = container._SIGNED, container._UNSIGNED.encode("ascii")
    rest, body = file[8 + len(begin) + len(empty) : 8 + size], file[8 + size :]
    if rng.random() < 0.8:
        rest = mutated(rng, rest)
    else:
        body = mutated(rng, body)
    head = (len(begin) + len(empty) + len(rest)).to_bytes(8, "little")
    digest = container._digest(head, begin, empty, rest, body).encode("ascii")
    return head + begin + digest + rest + body
