"""One case of the corpus, and the data that cases share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox import constraints

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """One fit.

    Attributes
    ----------
    name : str
        Area and settings, with slashes between them.
    run : callable
        Called with the path of an empty folder; returns what `described` accepts.
    """

    name: str
    run: Callable[[Path], Any]


class SkipCase(Exception):  # noqa: N818  # not an error
    """The case cannot run here; the text is the reason."""


def case(name: str, function: Callable[..., Any], *args: Any, **options: Any) -> Case:
    """Make a case of a call that needs no folder."""
    return Case(name, partial(_without_folder, function, args, options))


def _without_folder(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any], _: Path) -> Any:
    return function(*args, **options)


@dataclass(frozen=True, eq=False)
class Samples:
    """Data with four useful features.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
    z : ndarray of shape (n_samples,)
        Targets of a regression.
    signs, two, three : ndarray of shape (n_samples,)
        Targets ±1, labels 0 and 1, labels 0, 1 and 2.
    counts, positive : ndarray of shape (n_samples,)
        Counts, and numbers above 0.
    weight, offset : ndarray of shape (n_samples,)
    """

    X: Vector
    z: Vector
    signs: Vector
    two: NDArray[np.int64]
    three: NDArray[np.int64]
    counts: Vector
    positive: Vector
    weight: Vector
    offset: Vector


def samples(n: int = 60, d: int = 20, seed: int = 0) -> Samples:
    """Draw data of a fixed seed; each call gives new arrays."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[:, 5] += 0.7 * X[:, 1]  # correlated with a useful one
    z = X[:, [1, 3, 7, 9]] @ np.array([1.5, -1.0, 0.8, 0.5]) + 0.6 * rng.standard_normal(n)
    noisy = z + rng.logistic(size=n)
    return Samples(
        X=X,
        z=z,
        signs=np.where(noisy > 0, 1.0, -1.0),
        two=(noisy > 0).astype(np.int64),
        three=np.digitize(noisy, [-1.0, 1.0]).astype(np.int64),
        counts=rng.poisson(np.exp(0.5 * z)).astype(np.float64),
        positive=np.exp(0.4 * z) * rng.gamma(4.0, 0.25, n),
        weight=rng.uniform(0.5, 2.0, n),
        offset=0.3 * rng.standard_normal(n),
    )


#: Losses by name, with the field of `Samples` that has their targets.
LOSSES = {
    "squared": "z",
    "huber": "z",
    "absolute": "z",
    "quantile": "z",
    "cauchy": "z",
    "logistic": "signs",
    "hinge": "signs",
    "squared_hinge": "signs",
    "sigmoid": "signs",
    "poisson": "counts",
    "gamma": "positive",
}


def _pseudo_huber(t: Vector) -> Vector:
    return t * (t / (1 + np.hypot(1, t)))


def _pseudo_huber_derivative(t: Vector) -> Vector:
    return t / np.hypot(1, t)


#: Constraints by name, each with a level that about three features reach.
CONSTRAINTS = {
    "l1": (constraints.L1(), 2.0),
    "mcp": (constraints.MCP.from_threshold(0.3), 3.5),
    "scad": (constraints.SCAD.from_threshold(0.3), 3.5),
    "exp": (constraints.Exp(3.0), 2.5),
    "log": (constraints.Log(5.0), 1.5),
    "lp": (constraints.Lp(0.5, 0.1), 2.0),
    "negative_lp": (constraints.NegativeLp(-1.0, 2.0), 2.0),
    "custom": (constraints.Custom(1.0, _pseudo_huber, _pseudo_huber_derivative, 1.0, cap=1.0), 1.5),
}
