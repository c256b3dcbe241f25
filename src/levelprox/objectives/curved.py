"""ψ with second-order information: ψ(x) = F(Ax + o), F simple and A the data.

    ∇ψ = A'∇F(z),      ∇²ψ = A'∇²F(z)A,      z = Ax + o      (the margins)

Margins are linear in x: one product A·dx serves every point x + t·dx of a line search. Everything that a
Newton step needs of the data is here, and nothing else: A·dx, A'r and A'DA.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from levelprox._typing import Matrix, Vector
from levelprox.objectives._base import Objective


class Curved(Objective):
    """ψ(x) = F(Ax + o).

    Margins are arrays of shape (n,), or (n, width) where a feature has several coefficients; points and gradients are
    always flat.
    """

    #: Whether one evaluation is expensive (remote or out-of-core data): Newton steps come before first-order methods.
    expensive: bool = False

    #: Whether ψ sees only differences between the coefficients of a feature: all shifted alike, it stays the same.
    only_contrasts: bool = False

    @property
    @abstractmethod
    def n_margins(self) -> int:
        """How many margins there are: the Hessian has at most this rank."""

    @abstractmethod
    def margins(self, x: Vector) -> Vector:
        """z = Ax + o."""

    @property
    def origin(self) -> Vector:
        """The margins at x = 0."""
        return self.margins(np.zeros(self.dimension))

    @abstractmethod
    def moved(self, dx: Vector) -> Vector:
        """A·dx: how the margins change with x."""

    @abstractmethod
    def value_of(self, z: Vector) -> float:
        """F(z)."""

    @abstractmethod
    def gradient_of(self, z: Vector) -> Vector:
        """A'∇F(z)."""

    def evaluated(self, z: Vector, dx: Vector, with_hessian: bool) -> tuple[Vector, Vector, Matrix | None]:
        """Margins, gradient and, if asked for, the convex Hessian after a step dx, in as few passes as that takes.

        From the margins before it: the rounding of A·dx is that of a small number, so ψ at both ends can be compared.
        """
        z = z + self.moved(dx)
        bends = with_hessian and bool(np.all(np.isfinite(z)))
        return z, self.gradient_of(z), self.hessian_of(z, True) if bends else None

    def along(self, before: Vector, after: Vector) -> Callable[[float], float]:
        """t ↦ F(z + t(z⁺ − z)) for margins z before and z⁺ after a step: margins are linear in the step."""
        step = after - before
        return lambda t: self.value_of(before + t * step)

    @abstractmethod
    def hessian_of(self, z: Vector, convex: bool) -> Matrix:
        """A'∇²F(z)A, of shape (dimension, dimension); where `convex` with |ℓ''| instead of ℓ'', so that it is PSD."""

    @abstractmethod
    def hessian_product_of(self, z: Vector, convex: bool) -> Callable[[Vector], Vector]:
        """v ↦ A'∇²F(z)Av, without forming the matrix."""

    @abstractmethod
    def hessian_diagonal_of(self, z: Vector, convex: bool) -> Vector:
        """The diagonal of that matrix."""
