"""What a run is a function of, in words that can be compared: the problem and the options that decide its bits.

Data are known by their fingerprint, targets, weights and offsets included, and by ψ and ∇ψ at one point to the last
bit: that tells how they are stored, which loss there is, and something of a function that has no data.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox.designs import InterceptDesign, ScaledDesign, SelectedDesign
from levelprox.driver.fingerprint import fingerprint
from levelprox.objectives import Model, Objective
from levelprox.problem import Problem

_GOLDEN = (np.sqrt(5.0) - 1) / 2
_SMALL = 2.0**-7
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # which another process has for the same


def identity_of(problem: Problem, **options: object) -> dict[str, str]:
    """The problem and the options, each as words."""
    weights, signs = problem.weights, problem.must_be_nonnegative()
    x = _test_point(problem.dimension)
    x = problem.cut(np.where(signs, np.abs(x), x))
    return {
        "the constraint": repr(problem.constraint),
        "level": repr(float(problem.level)),
        "the weights": "none" if weights is None else hashed(weights),
        "nonnegative": hashed(signs) if np.any(signs) else "none",
        **_of_objective(problem.objective, x),
        **{name: in_words(value) for name, value in options.items()},
    }


def identity_without_level(objective: Objective, **options: object) -> dict[str, str]:
    """ψ and the options, each as words, where there is no level, or more than one."""
    told = _of_objective(objective, _test_point(objective.dimension))
    return {**told, **{name: in_words(value) for name, value in options.items()}}


def _of_objective(objective: Objective, x: NDArray[np.float64]) -> dict[str, str]:
    return {
        "the objective": f"{type(objective).__name__} of {objective.dimension} coordinates",
        "the data": _data(objective),
        "ψ at a test point": _probed(objective, x),
    }


def in_words(value: object) -> str:
    """Arrays by their bytes, generators by their kind (where they are is part of the state), others as shown."""
    if isinstance(value, np.ndarray):
        return hashed(value)
    if isinstance(value, np.random.Generator | np.random.RandomState):
        bits = value.bit_generator if isinstance(value, np.random.Generator) else value._bit_generator
        return f"{type(value).__name__}({type(bits).__name__})"
    return _ADDRESS.sub("", repr(value))


def hashed(array: NDArray[Any]) -> str:
    """A short word that hardly any other array has."""
    data = np.ascontiguousarray(array)
    digest = hashlib.blake2b(f"{data.dtype}{data.shape}".encode() + data.tobytes(), digest_size=8)
    return f"#{digest.hexdigest()}"


def _data(objective: Objective) -> str:
    """The fingerprint of X, y, weights and offsets, with how X is centred and scaled."""
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
    """A point of which no coordinate is like another."""
    point: NDArray[np.float64] = _SMALL * (np.arange(1, dimension + 1) * _GOLDEN % 1 - 0.5)
    return point


def _probed(objective: Objective, x: NDArray[np.float64]) -> str:
    """ψ and ∇ψ at a point."""
    try:
        with np.errstate(all="ignore"):
            psi, gradient = objective.value_and_gradient(x)
    except Exception:  # a function of the user's need not take any point but those of a run
        return "not known"
    return hashed(np.append(np.asarray(gradient, np.float64), psi))
