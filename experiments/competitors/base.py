"""Competitors: a name, a package, and a fit for every point of a grid; without an intercept.

ψ(x) = (1/n) Σ_i ℓ(⟨a_i, x⟩, b_i),   ℓ = log(1 + exp(−bz)), b = ±1, or (b − z)², without ½
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from levelprox import LinearModel

Vector = NDArray[np.float64]

#: Hyperparameters by name; each competitor says which, and in which units.
Point = dict[str, float]


class MissingError(Exception):
    """A package or a licence is not there; the message says which, and how to get it."""


@dataclass(frozen=True, eq=False)
class Samples:
    """What is fitted.

    Attributes
    ----------
    X : ndarray or csr_matrix of shape (n, d)
    b : ndarray of shape (n,)
        ±1 for the logistic loss.
    loss : {"logistic", "squared"}
    """

    X: Any
    b: Vector
    loss: str

    def __post_init__(self) -> None:
        if self.loss not in ("logistic", "squared"):
            raise ValueError(f"loss must be 'logistic' or 'squared', got {self.loss!r}")
        if self.loss == "logistic" and not np.all(np.abs(self.b) == 1):
            raise ValueError("the logistic loss needs b = -1 or 1")

    @property
    def sparse(self) -> bool:
        """Whether X is a sparse matrix."""
        return hasattr(self.X, "tocsc")

    def by_columns(self) -> Any:
        """X stored by columns, in float64: what coordinate descent reads best. A copy where it is stored otherwise."""
        return self.X.tocsc().astype(np.float64) if self.sparse else np.asfortranarray(self.X, np.float64)

    def model(self) -> LinearModel:
        """ψ, as levelprox evaluates it."""
        return LinearModel(self.X, self.b, self.loss)


@dataclass(frozen=True, eq=False)
class Fit:
    """What came back for a point.

    Attributes
    ----------
    point : Point
    x : ndarray of shape (d,)
    seconds : float
        Wall-clock time of this fit.
    iterations : int
        In the competitor's own units.
    note : str
        What there is to tell; mostly nothing.
    intercept : float
        To be added to ⟨a, x⟩; 0 except for competitors that always fit an intercept.
    """

    point: Point
    x: Vector
    seconds: float
    iterations: int
    note: str = ""
    intercept: float = 0.0


class Competitor(ABC):
    """One method, with its settings given to the constructor."""

    name: ClassVar[str]
    package: ClassVar[str]  #: what is imported, and installed by pip under the same name unless `ready` says otherwise

    def ready(self) -> None:
        """Import what is needed, so that no fit pays for it; MissingError where that fails."""
        require(self.package, f"pip install {self.package}")

    @abstractmethod
    def fits(self, train: Samples, points: Sequence[Point]) -> Iterator[Fit]:
        """One fit per point, in the order given; a fit may start where the last one ended."""


def require(package: str, remedy: str) -> Any:
    """Import a module, or raise a MissingError with the remedy."""
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingError(f"{package} cannot be imported ({error}): {remedy}") from None


@contextmanager
def noted() -> Iterator[list[str]]:
    """Catch warnings; on leaving, the list has the text of each of them once."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    notes.extend(dict.fromkeys(" ".join(str(one.message).split()) for one in caught))
