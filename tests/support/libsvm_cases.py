"""LIBSVM text to try a parser with: regular, nearly so, and not at all; shared by tests and fuzzing."""

from __future__ import annotations

import random

import numpy as np

from levelprox import _kernels
from tests.support import libsvm_twin

# Pieces of text from which mutations are made: together they reach every branch of the parser.
_TOKENS = b"""
1 -1 +1 0 2.5 nan inf 1e999 -1e-999 1,2 1x +inf 3 e + 1:1 2:0.5 3:-1e-3 10:7 17:1 2147483648:1 4000000000:1
0:1 -3:1 -x:1 a:1 :1 : 1: 007:1 99999999999999999999:1 0000000000000000000001:1 qid:3 qid: qid:x qid:-1
1:nan 1:-inf 2:Infinity 2:+inf 5:1e999 6:0x1p3 7:1e 8:. 9:.5 10:5. 11:1e39 11:1e+2 12:1E2 12:1_0 1:2:3
1:0.1234567890123456789 2:123456789012345678901234567890 3:9007199254740993 4:1e23 5:1e-400
8:0e99999999999 9:1e99999999999 9:1e-99999999999
"""
PIECES = [
    *_TOKENS.split(),
    *(b"6:0." + b"0" * 400 + b"1", b"7:" + b"9" * 400),
    *(b"x" * 5000, b"1:" + b"0" * 5000, b"1:" + b"1" * 4094, b"1:" + b"1" * 4095),
    *(b" ", b" ", b"\t", b"\n", b"\n", b"\r\n", b"\r", b"#", b" # a comment\n"),
    *(b"\0", b"\xef\xbb\xbf", b"\xff", b"\x0b"),
]

SEEDS = [
    b"1 1:0.5 3:-2e-3 # one\n-1 2:1\n",
    b"\xef\xbb\xbf+1 1:1\r\n-1\r\n\r\n# nothing\n2.5 10:7",
    b"3 qid:1 1:1 2:2\n1 qid:2 2:0\n",
    b"3 qid:1 qid:2 1:1\n",
    b"3 1:1 qid:2\n",
    b"1\n" * 1500,
    b"1 " + b" ".join(b"%d:1" % k for k in range(1, 1500)),
    b"1 2147483647:1 2147483648:2 4000000000:3\n2 1:1\n",
    *(b"1 " + piece + b"\n" for piece in PIECES),
    *(b"1 1:1 " + piece + b" 20:1\n" for piece in PIECES),
    *(piece + b" 1:1\n" for piece in PIECES),
]


def mutated(rng: random.Random, corpus: list[bytes]) -> bytes:
    """A text of the corpus with a few bytes or pieces changed, taken out, repeated or put in."""
    text = bytearray(rng.choice(corpus))
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, size = rng.randint(0, len(text)), rng.choice((0, 1, 1, 4))
        kind = rng.randrange(5)
        if kind == 0:
            text[at : at + size] = bytes(rng.randrange(256) for _ in range(size))
        elif kind == 1:
            text[at : at + size] = rng.choice(PIECES)
        elif kind == 2:
            text[at:at] = b" " + rng.choice(PIECES) + b" "
        elif kind == 3:
            del text[at : at + rng.choice((1, 3, 20))]
        else:
            text[at:at] = rng.choice(corpus)[: rng.randrange(40)]
    return bytes(text[:20_000])


def kernel(texts: list[bytes], features: int, zero_based: bool, single: bool) -> object:
    """What the compiled parser makes of the text, pushed in these pieces: bytes of the arrays, or fault and place."""
    parser = _kernels.LibsvmParser(features, zero_based, single)
    for text in texts:
        parser.feed(np.frombuffer(text, np.uint8))
    parser.finish()
    if parser.trouble is not None:
        fault, line, column, *_ = parser.trouble
        return fault.name.lower(), line, column
    wide = max(parser.features, parser.rows) > 2**31 - 1
    arrays = parser.take(parser.features)
    assert [a.dtype for a in arrays[1:3]] == 2 * [np.int64 if wide else np.int32]
    return tuple(array.astype(array.dtype if array.dtype.kind == "f" else np.int64).tobytes() for array in arrays)


def twin(text: bytes, features: int, zero_based: bool, single: bool) -> object:
    """The same of the slow one."""
    try:
        rows = libsvm_twin.parse(text, features, zero_based, single)
    except libsvm_twin.WrongError as wrong:
        return wrong.fault, wrong.line, wrong.column
    pairs = [pair for _, row in rows for pair in row]
    return (
        np.array([value for _, value in pairs], np.float32 if single else np.float64).tobytes(),
        np.array([column for column, _ in pairs], np.int64).tobytes(),
        np.cumsum([0] + [len(row) for _, row in rows]).astype(np.int64).tobytes(),
        np.array([label for label, _ in rows], np.float64).tobytes(),
    )


def cut(text: bytes, places: list[int]) -> list[bytes]:
    """The text in pieces, cut at these places."""
    ends = sorted(place % (len(text) + 1) for place in places)
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]
