"""Data fingerprint: shape and hashes, the same for the same data in any storage format.

    X                     Σ mix(i, j, X_ij) mod 2^64 over the entries that are not zero (`fingerprint.hpp`)
    y and other columns   BLAKE2b of their numbers as float64, or of their words as UTF-8, in the order of the samples

They tell data apart that differ by accident or by care, not data that somebody made to look alike.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox import _kernels
from levelprox.designs import Design

_BYTES = 8  # of a hash

#: Parts of a fingerprint, and what a person calls them.
_NAMES = {
    "shape": "shape of X",
    "dtype": "type of X",
    "n_nonzero": "nonzero entries of X",
    "X": "entries of X",
    "y": "y",
    "sample_weight": "sample_weight",
    "offset": "offset",
    "exposure": "exposure",
}


@dataclass(frozen=True)
class Fingerprint:
    """What was fitted, without the data themselves.

    Attributes
    ----------
    shape : (int, int)
        Samples and features.
    dtype : str
        "float32" or "float64", as X was read.
    n_nonzero : int
        Entries of X that are not zero.
    X, y : str
        Hashes, in hexadecimal digits.
    sample_weight, offset, exposure : str or None
        The same of what was given besides; None where it was not.
    """

    shape: tuple[int, int]
    dtype: str
    n_nonzero: int
    X: str
    y: str
    sample_weight: str | None = None
    offset: str | None = None
    exposure: str | None = None

    def differences(self, other: Fingerprint) -> tuple[str, ...]:
        """In what the data differ, in words; nothing where they are the same."""
        ours, theirs = asdict(self), asdict(other)
        return tuple(name for part, name in _NAMES.items() if ours[part] != theirs[part])


def fingerprint(
    design: Design,
    y: NDArray[Any],
    sample_weight: NDArray[Any] | None = None,
    offset: NDArray[Any] | None = None,
    exposure: NDArray[Any] | None = None,
) -> Fingerprint:
    """The fingerprint of data; a pass over X.

    Parameters
    ----------
    design : DenseDesign or SparseDesign
        X.
    y : ndarray of shape (n,)
        Numbers, booleans or words.
    sample_weight, offset, exposure : ndarray of shape (n,), optional
    """
    n_nonzero, entries = _kernels.fingerprint(design.kernel)
    others = (None if one is None else _hash_of(one) for one in (sample_weight, offset, exposure))
    return Fingerprint(design.shape, str(design.dtype), n_nonzero, f"{entries:0{2 * _BYTES}x}", _hash_of(y), *others)


def _hash_of(column: NDArray[Any]) -> str:
    """Of numbers as float64, else of words; the order counts."""
    digest = hashlib.blake2b(digest_size=_BYTES)
    if column.dtype.kind == "O" and not any(isinstance(one, str) for one in column):
        with suppress(TypeError, ValueError):
            column = column.astype(np.float64)
    if column.dtype.kind in "buif":
        numbers = np.ascontiguousarray(column, "<f8") + 0.0  # no −0.0
        digest.update(numbers.data)
    else:
        words = [str(one) for one in column.tolist()]
        digest.update("\0".join([str(len(words)), *words]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
