"""What a run is a function of, in words that can be compared: the problem and the options that decide its bits."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox.problem import Problem

_GOLDEN = (np.sqrt(5.0) - 1) / 2
_SMALL = 2.0**-7
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # which another process has for the same


def identity_of(problem: Problem, **options: object) -> dict[str, str]:
    """The problem and the options, each as words.

    ψ is known by its value and gradient at one point, to the last bit: other data, another loss or another function
    would hardly have the same.
    """
    weights, signs = problem.weights, problem.must_be_nonnegative()
    return {
        "the objective": f"{type(problem.objective).__name__} of {problem.dimension} coordinates",
        "the constraint": repr(problem.constraint),
        "level": repr(float(problem.level)),
        "the weights": "none" if weights is None else fingerprint(weights),
        "nonnegative": fingerprint(signs) if np.any(signs) else "none",
        "the data": _probed(problem),
        **{name: in_words(value) for name, value in options.items()},
    }


def in_words(value: object) -> str:
    """Arrays by their bytes, generators by their kind (where they are is part of the state), others as shown."""
    if isinstance(value, np.ndarray):
        return fingerprint(value)
    if isinstance(value, np.random.Generator | np.random.RandomState):
        bits = value.bit_generator if isinstance(value, np.random.Generator) else value._bit_generator
        return f"{type(value).__name__}({type(bits).__name__})"
    return _ADDRESS.sub("", repr(value))


def fingerprint(array: NDArray[Any]) -> str:
    """A short word that hardly any other array has."""
    data = np.ascontiguousarray(array)
    digest = hashlib.blake2b(f"{data.dtype}{data.shape}".encode() + data.tobytes(), digest_size=8)
    return f"#{digest.hexdigest()}"


def _probed(problem: Problem) -> str:
    """ψ and ∇ψ at a point of which no coordinate is like another, within the level and the signs."""
    x = _SMALL * (np.arange(1, problem.dimension + 1) * _GOLDEN % 1 - 0.5)
    x = problem.cut(np.where(problem.must_be_nonnegative(), np.abs(x), x))
    try:
        with np.errstate(all="ignore"):
            psi, gradient = problem.objective.value_and_gradient(x)
    except Exception:  # a function of the user's need not take any point but those of a run
        return "not known"
    return fingerprint(np.append(np.asarray(gradient, np.float64), psi))
