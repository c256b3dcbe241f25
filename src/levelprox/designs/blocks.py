"""X' diag(D) X from dense blocks of rows, by BLAS.

    X'DX = S'S − R'R,

where the rows of S and R are those of X with D > 0 and D < 0, times √|D|. Both products are symmetric, so BLAS
computes half of each, in an order of summation of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

_BLOCK = 2**20  # entries of a block, which then stays in cache
_ROWS = 512  # rows that are worth a product of their own, even if fewer would fill a block
_PRODUCT = 2**33  # multiplications that Ctrl-C can wait for


def block_gram(
    weight: Vector, features: int, known: int, scaled_rows: Callable[[Index, Vector, Vector], None]
) -> Vector:
    """X' diag(weight) X, of shape (features, features).

    Parameters
    ----------
    weight : ndarray of shape (n,)
        D. Rows of weight 0 are never read.
    features : int
        Columns of X.
    known : int
        Rows and columns of the result before this one are known: their common block is left zero.
    scaled_rows : callable
        ``scaled_rows(rows, scale, out)`` writes diag(scale) X[rows] into `out`.
    """
    gram = np.zeros((features, features))
    old, new = slice(0, known), slice(known, features)
    buffer: Vector | None = None
    with np.errstate(over="ignore", invalid="ignore"):
        for sign, rows in row_blocks(weight, features):
            if buffer is None or buffer.shape[0] < rows.size:
                buffer = np.empty((rows.size, features))
            block = buffer[: rows.size]
            scaled_rows(rows, np.sqrt(np.abs(weight[rows])), block)
            accumulate(gram[new, new], sign, block[:, new].T @ block[:, new])
            if known:
                accumulate(gram[new, old], sign, block[:, new].T @ block[:, old])
    gram[old, new] = gram[new, old].T
    return gram


def accumulate(total: Vector, sign: float, part: Vector) -> None:
    """total += sign · part, in place."""
    (np.add if sign > 0 else np.subtract)(total, part, out=total)


def row_blocks(weight: Vector, features: int) -> Iterator[tuple[float, Index]]:
    """Rows of one sign of the weight, as many as BLAS wants and Ctrl-C allows."""
    d = max(features, 1)
    step = min(max(_BLOCK // d, _ROWS), max(128, _PRODUCT // d**2))
    for sign in (1.0, -1.0):
        rows = np.flatnonzero(sign * weight > 0).astype(np.int64, copy=False)
        yield from ((sign, rows[start : start + step]) for start in range(0, rows.size, step))
