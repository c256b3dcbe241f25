"""ψ of a table of samples and features: what an exchange of features asks of it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Matrix, Vector
from levelprox.designs import Design
from levelprox.objectives.curved import Curved


class Model(Curved):
    """ψ(x) = F(Ax + o) with the features of a data matrix in A."""

    #: The data matrix, whose columns are features, perhaps with one of ones.
    design: Design

    @property
    def convex_start(self) -> Self | None:
        return None

    @property
    def self_concordance(self) -> float:
        """sup |ℓ‴|/ℓ″ of the loss; inf where that has no bound, or is not known."""
        return math.inf

    @property
    def bounded_by_zero(self) -> bool:
        """Whether ψ ≥ 0 everywhere."""
        return True

    @abstractmethod
    def column_magnitudes(self) -> Vector:
        """By how much a coordinate of 1 can change a margin; of shape (d,)."""

    @abstractmethod
    def ray_trend(self, x: Vector) -> tuple[bool, bool]:
        """Far out along x, whether the loss of some sample falls for ever, and whether that of one rises.

        For convex losses; the samples are those that have a weight.
        """

    @abstractmethod
    def restrict(self, W: NDArray[np.intp]) -> Self: ...

    @abstractmethod
    def scaled(self, scale: Vector) -> Self:
        """ψ(x/scale): as if the columns of the data were divided by `scale`, one number for each feature."""

    @abstractmethod
    def feature_hessians_of(self, z: Vector) -> Matrix:
        """The diagonal blocks of A'∇²F(z)A, one for each feature; of shape (n_features, width, width)."""

    @abstractmethod
    def gradient_squares_of(self, z: Vector) -> Vector:
        """The mean over the samples, by their weights, of the squares of their own gradients; of shape (d,)."""

    @abstractmethod
    def cross_hessian_of(self, z: Vector, moves: Iterable[Vector], count: int, convex: bool) -> Matrix:
        """A'∇²F(z)v for each of `count` changes v of the margins; of shape (d, count).

        With columns of A for v these are columns of A'∇²F(z)A.
        """
