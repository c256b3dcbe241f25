"""The identity of a run as text: the problem and the options that determine its bits.

Data are compared by their fingerprint, targets, weights and offsets included, and by ψ and ∇ψ at one point to the last
bit: that depends on how they are stored, on the loss, and on a function that has no data.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import levelprox._kernels as _kernels
from levelprox.designs import Design, InterceptDesign, ScaledDesign, SelectedDesign
from levelprox.objectives import Model, Objective
from levelprox.problem import Problem

_GOLDEN_RATIO = (np.sqrt(5.0) - 1) / 2
_TEST_POINT_SIZE = 2.0**-7
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # differs between processes


HASH_BYTES = 8  # of a hash

#: Parts of a fingerprint, and their names in messages.
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
    """Data fingerprint: shape, dtype, nonzero count and hashes, the same for the same data in any storage format.

        X                     Σ mix(i, j, X_ij) mod 2^64 over the entries that are not zero (`fingerprint.hpp`)
        y and other columns   BLAKE2b of their numbers as float64, or of their text as UTF-8, in order

    It detects differences between data, except for deliberately constructed collisions.

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
        """Return the names of the parts in which the data differ."""
        ours, theirs = asdict(self), asdict(other)
        return tuple(name for part, name in _NAMES.items() if ours[part] != theirs[part])


def fingerprint(
    design: Design,
    y: NDArray[Any],
    sample_weight: NDArray[Any] | None = None,
    offset: NDArray[Any] | None = None,
    exposure: NDArray[Any] | None = None,
) -> Fingerprint:
    """Return the fingerprint of data, after a pass over X.

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
    return Fingerprint(
        design.shape, str(design.dtype), n_nonzero, f"{entries:0{2 * HASH_BYTES}x}", _hash_of(y), *others
    )


def _hash_of(column: NDArray[Any]) -> str:
    """Return the hash of a column, of numbers as float64 or of text, in its order."""
    digest = hashlib.blake2b(digest_size=HASH_BYTES)
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


def identity_of(problem: Problem, **options: object) -> dict[str, str]:
    """Return the problem and the options, each as text."""
    weights, signs = problem.weights, problem.must_be_nonnegative()
    x = _test_point(problem.dimension)
    x = problem.cut(np.where(signs, np.abs(x), x))
    return {
        "the constraint": repr(problem.constraint),
        "level": repr(float(problem.level)),
        "the weights": "none" if weights is None else hashed(weights),
        "nonnegative": hashed(signs) if np.any(signs) else "none",
        **_of_objective(problem.objective, x),
        **{name: as_text(value) for name, value in options.items()},
    }


def identity_without_level(objective: Objective, **options: object) -> dict[str, str]:
    """Return ψ and the options, each as text, where there is no level, or more than one."""
    described = _of_objective(objective, _test_point(objective.dimension))
    return {**described, **{name: as_text(value) for name, value in options.items()}}


def _of_objective(objective: Objective, x: NDArray[np.float64]) -> dict[str, str]:
    return {
        "the objective": f"{type(objective).__name__} of {objective.dimension} coordinates",
        "the data": _data(objective),
        "ψ at a test point": _probed(objective, x),
    }


def as_text(value: object) -> str:
    """Return an option as text: arrays by their bytes, generators by their kind, others by their repr."""
    if isinstance(value, np.ndarray):
        return hashed(value)
    if isinstance(value, np.random.Generator | np.random.RandomState):
        bits = value.bit_generator if isinstance(value, np.random.Generator) else value._bit_generator
        return f"{type(value).__name__}({type(bits).__name__})"
    return _ADDRESS.sub("", repr(value))


def hashed(array: NDArray[Any]) -> str:
    """Return a hash of an array."""
    data = np.ascontiguousarray(array)
    digest = hashlib.blake2b(f"{data.dtype}{data.shape}".encode() + data.tobytes(), digest_size=8)
    return f"#{digest.hexdigest()}"


def _data(objective: Objective) -> str:
    """Return the fingerprint of X, y, weights and offsets, with how X is centred and scaled."""
    if not isinstance(objective, Model):
        return "none"
    design, around = objective.design, list[NDArray[Any]]()
    while isinstance(design, InterceptDesign | ScaledDesign | SelectedDesign):
        parts = (getattr(design, name, None) for name in ("center_", "scale_", "ones", "chosen"))
        around += [np.asarray(part) for part in parts if part is not None]
        design = design.base
    samples = (getattr(objective, name) for name in ("target", "sample_weight", "offset"))
    known = fingerprint(design, *samples)
    return "#" + " ".join([*map(str, asdict(known).values()), *map(hashed, around)])


def _test_point(dimension: int) -> NDArray[np.float64]:
    """Return a point of which all coordinates differ."""
    point: NDArray[np.float64] = _TEST_POINT_SIZE * (np.arange(1, dimension + 1) * _GOLDEN_RATIO % 1 - 0.5)
    return point


def _probed(objective: Objective, x: NDArray[np.float64]) -> str:
    """Return a hash of ψ and ∇ψ at a point."""
    try:
        with np.errstate(all="ignore"):
            psi, gradient = objective.value_and_gradient(x)
    except Exception:  # a function of the user's need not take any point but those of a run
        return "not known"
    return hashed(np.append(np.asarray(gradient, np.float64), psi))
