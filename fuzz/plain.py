"""The JSON inside model files and checkpoints: whatever it says, plain data or FileFormatError."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from enum import Enum

import numpy as np
import scipy.sparse

from fuzz.container import mutated
from levelprox.exceptions import FileFormatError
from levelprox.io.container import decode, encode


class Colour(Enum):
    """An enum that files may name."""

    RED = "red"


@dataclass(frozen=True)
class Point:
    """A dataclass that files may name."""

    x: float
    colour: Colour


def fuzz(inputs: int, seed: int) -> None:
    """So many mutated texts."""
    rng = random.Random(seed)
    matrix = scipy.sparse.csr_array(np.eye(3))
    data = {"p": Point(1.5, Colour.RED), "t": (1, None, True, float("inf")), "a": np.arange(3), "m": matrix}
    text, arrays = encode(data, (Colour, Point))
    begin, read = time.perf_counter(), 0
    for _ in range(inputs):
        try:
            decode(mutated(rng, text.encode()).decode("utf-8", "replace"), arrays, (Colour, Point), "file")
            read += 1
        except FileFormatError:
            pass
    print(f"plain data: {inputs} inputs in {time.perf_counter() - begin:.0f} s, {read} read, else FileFormatError")
