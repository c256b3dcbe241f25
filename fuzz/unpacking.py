"""Packed files with flipped, missing and added bytes: the text that was packed, or a named error."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import tempfile
import time
from pathlib import Path

from levelprox.exceptions import FileFormatError
from levelprox.io import read_libsvm

_TEXT = b"1 1:0.5 3:2\n-1 2:1\n" * 20


def fuzz(inputs: int, seed: int) -> None:
    """So many damaged files, read from a folder of their own."""
    rng = random.Random(seed)
    files = [gzip.compress(_TEXT, mtime=0), bz2.compress(_TEXT), lzma.compress(_TEXT), _TEXT]
    begin, read = time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data.svm")
        for _ in range(inputs):
            path.write_bytes(_damaged(rng, rng.choice(files)))
            try:
                X, y = read_libsvm(path, max_bytes=1 << 20)
                X.check_format(full_check=True)
                assert y.shape == X.shape[:1]
                read += 1
            except FileFormatError:
                pass
    print(f"packed files: {inputs} inputs in {time.perf_counter() - begin:.0f} s, {read} read, else FileFormatError")


def _damaged(rng: random.Random, file: bytes) -> bytes:
    data = bytearray(file)
    at = rng.randrange(len(data))
    kind = rng.randrange(4)
    if kind == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[at : at + rng.choice((1, 8, 10**9))]
    elif kind == 2:
        data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 8))))
    else:
        data += rng.choice((b"\0" * 8, b"junk", file, file[:at]))
    return bytes(data)
