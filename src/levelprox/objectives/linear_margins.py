"""ψ of a linear model as a function of its margins: value, gradient and Hessian products, with the ridge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import levelprox._kernels as _kernels
from levelprox._runtime import TimeLimitError, seconds_left
from levelprox._typing import Matrix, Vector
from levelprox.designs import Design
from levelprox.losses import Loss
from levelprox.objectives.model import LEAST_REMAINDER, Model

_LARGEST_SQUARE = 1e200  # squares beyond it count as this
_ALL_ROWS = slice(None)


@dataclass(frozen=True, eq=False)
class Subgradients:
    """{center + A'ρ : |ρ| ≤ radius}, the subdifferential of a sum of losses with kinks.

    Parameters
    ----------
    center : ndarray of shape (d,)
    rows : Design of shape (m, d)
        A: the samples that sit at a kink.
    radius : ndarray of shape (m,)
    guess : ndarray of shape (m,)
        Some ρ of the set, perhaps a good one.
    slopes : ndarray of shape (n,)
        The slopes of all samples at ρ = 0.
    kinks : ndarray of int of shape (m,)
        Which samples sit at a kink.
    share : ndarray of shape (m,)
        Their weights in the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.objectives import LinearModel
    >>> psi = LinearModel(np.array([[1.0], [1.0]]), [0.0, 2.0], "absolute")
    >>> found = psi.subgradients(np.array([0.0]))
    >>> found.kinks.tolist(), found.radius.tolist(), found.center.tolist()
    ([0], [0.5], [-0.5])
    """

    center: Vector
    rows: Design
    radius: Vector
    guess: Vector
    slopes: Vector
    kinks: NDArray[np.intp]
    share: Vector

    def gradient(self, rho: Vector) -> Vector:
        """Return the subgradient at ρ."""
        return np.asarray(self.center + self.rows.rmatvec(rho), np.float64)

    def slopes_at(self, rho: Vector) -> Vector:
        """Return the slopes of all samples at ρ."""
        slopes = self.slopes.copy()
        slopes[self.kinks] += rho / self.share
        return slopes


class LinearMargins(Model):
    """F of ψ(x) = F(Ax + o), the mean of losses of margins; with a ridge, the coefficients stand below the margins."""

    loss: Loss
    target: Vector

    def margins(self, x: Vector) -> Vector:
        """z_i = ⟨a_i, x⟩ + o_i; with a ridge, x below them."""
        z = self.design.matvec(x)
        return self.with_tail(z if self.offset is None else z + self.offset, x)

    @property
    def origin(self) -> Vector:
        """The margins at x = 0."""
        origin = np.zeros(self.n_margins) if self.offset is None else self.offset.copy()
        return self.with_tail(origin, np.zeros(self.dimension))

    def moved(self, dx: Vector) -> Vector:
        """Return A·dx: how the margins change with x."""
        return self.with_tail(self.design.matvec(dx), dx)

    def value_of(self, z: Vector) -> float:
        """Return F(z)."""
        psi = _kernels.loss_value(*self.loss.kernel, self.of_samples(z), self.target, self.sample_weight)
        return psi if self.ridge is None else psi + self.ridge.value(self.tail(z))

    def gradient_of(self, z: Vector) -> Vector:
        """Return A'∇F(z)."""
        gradient = self.design.rmatvec(self.slope_of(z))
        return gradient if self.ridge is None else gradient + self.ridge.gradient(self.tail(z))

    def evaluated(self, z: Vector, dx: Vector, with_hessian: bool) -> tuple[Vector, Vector, Matrix | None]:
        """Return margins, gradient and, if requested, the convex Hessian after a step dx, in few passes."""
        z, gradient = z.copy(), np.zeros(self.dimension)
        hessian = np.zeros((self.dimension, self.dimension)) if with_hessian else None
        for rows, block in self.design.row_blocks():
            z[rows] += block.matvec(dx)
            slope, bend = self.slope_of(z[rows], rows), self.bend_of(z[rows], True, rows)
            if not (np.all(np.isfinite(slope)) and np.all(np.isfinite(bend))):  # so far out that ψ itself is no number
                return np.full_like(z, np.nan), np.full_like(gradient, np.nan), None
            gradient += block.rmatvec(slope)
            if hessian is not None:
                hessian += block.gram(bend)
        if self.ridge is not None:
            self.tail(z)[self.ridge.places] += dx
            gradient += self.ridge.gradient(self.tail(z))
            if hessian is not None:
                hessian = self.bent_by_ridge(hessian)
        return z, gradient, hessian

    def hessian_of(self, z: Vector, convex: bool) -> Matrix:
        """Return A'∇²F(z)A, of shape (dimension, dimension); if `convex` with |ℓ''| for ℓ'', so that it is PSD."""
        return self.bent_by_ridge(self.design.gram(self.bend_of(z, convex)))

    def hessian_product_of(self, z: Vector, convex: bool) -> Callable[[Vector], Vector]:
        """Return v ↦ A'∇²F(z)Av, without forming the matrix."""
        bend = self.bend_of(z, convex)
        if self.ridge is None:
            return lambda v: self.design.rmatvec(bend * self.design.matvec(v))
        held = self.ridge.curvatures()
        return lambda v: self.design.rmatvec(bend * self.design.matvec(v)) + held * v

    def hessian_diagonal_of(self, z: Vector, convex: bool) -> Vector:
        """Return the diagonal of that matrix."""
        squares = self.design.column_squares(self.bend_of(z, convex))
        return squares if self.ridge is None else squares + self.ridge.curvatures()

    def cross_hessian_of(self, z: Vector, moves: Iterable[Vector], count: int, convex: bool) -> Matrix:
        """Return A'∇²F(z)v for each of `count` changes v of the margins; of shape (d, count)."""
        bend = self.bend_of(z, convex)
        cross = np.empty((self.dimension, count), order="F")
        for j, move in enumerate(moves):
            cross[:, j] = self.design.rmatvec(bend * self.of_samples(move))
            if self.ridge is not None:
                cross[:, j] += self.ridge.gradient(self.tail(move))
        return cross

    def cross_hessian_over(
        self, z: Vector, columns: Iterable[Vector], features: NDArray[np.intp], convex: bool
    ) -> Matrix:
        """Return the columns of the Hessian that belong to some features, whose columns of X are given."""
        bend = self.bend_of(z, convex)
        cross = np.empty((self.dimension, features.size), order="F")
        for j, column in enumerate(columns):
            cross[:, j] = self.design.rmatvec(bend * column)
        if self.ridge is not None:
            cross[features, np.arange(features.size)] += self.ridge.curvatures()[features]
        return cross

    def gradient_squares_of(self, z: Vector) -> Vector:
        """Return the mean over the samples, by weight, of the squares of their own gradients; of shape (d,)."""
        share = self.share
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            squares = np.where(share > 0, self.slope_of(z) ** 2 / share, 0.0)
        return self.design.column_squares(np.minimum(squares, _LARGEST_SQUARE))  # of an outlier they may overflow

    def feature_hessians_of(self, z: Vector) -> Matrix:
        """Return the diagonal blocks of A'∇²F(z)A, one per feature; of shape (n_features, n_outputs, n_outputs)."""
        return self.hessian_diagonal_of(z, True)[:, None, None]

    def _left_out(self, A: Matrix, z: Vector, rows: slice, inverse: Matrix, without: Vector) -> Vector:
        from scipy.special import expit  # slow to import

        sign = self.target[rows]
        miss = expit(-sign * z)
        spread = without * np.sum((A @ inverse) * A, axis=1)
        stays = np.maximum(1 - spread * miss * (1 - miss), LEAST_REMAINDER)
        return np.asarray(np.logaddexp(0.0, -sign * (z - sign * spread * miss / stays)), np.float64)

    def slope_of(self, z: Vector, rows: slice = _ALL_ROWS) -> Vector:
        """s_i ℓ'(z_i, b_i) / Σ s of these samples."""
        return self._weighted(_kernels.loss_derivative, z, rows)

    def bend_of(self, z: Vector, convex: bool, rows: slice = _ALL_ROWS) -> Vector:
        """s_i ℓ''(z_i, b_i) / Σ s of these samples; its absolute value where it must not be negative."""
        bend = self._weighted(_kernels.loss_curvature, z, rows)
        return np.abs(bend) if convex and self.loss.weak_convexity else bend

    def _weighted(self, kernel: Callable[..., None], z: Vector, rows: slice) -> Vector:
        """ℓ' or ℓ'' of some samples, as they enter the mean over all; the kernels take the mean of what they see."""
        share = self.share[rows]
        z = z[: share.size]  # below are coefficients, with a ridge
        out = np.empty_like(z)
        kernel(*self.loss.kernel, z, self.target[rows], None, out)
        with np.errstate(invalid="ignore"):
            out *= z.size * share
        out[share == 0] = 0.0  # a sample without weight has no effect
        return out


def largest_eigenvalue(design: Design, share: Vector, trace: float) -> float:
    """Return λ_max(X' diag(share) X) with the residual of Lanczos' method added; at most the trace.

    Raises `TimeLimitError` where the time limit is reached first.
    """
    from scipy.sparse.linalg import (  # slow to import, and only nonconvex losses need it
        ArpackError,
        LinearOperator,
        eigsh,
    )

    n, d = design.shape
    if min(n, d) < 3 or trace == 0:
        return trace
    root = np.sqrt(share)
    wide = d > n

    def multiply(p: Vector) -> Vector:
        if seconds_left() <= 0:
            raise TimeLimitError
        if wide:
            return root * design.matvec(design.rmatvec(root * p.ravel()))
        return design.rmatvec(share * design.matvec(p.ravel()))

    side = min(n, d)
    operator = LinearOperator((side, side), matvec=multiply, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(side)
    try:
        values, vectors = eigsh(operator, k=1, tol=1e-3, v0=start)
    except ArpackError:
        return trace
    residual = float(np.linalg.norm(multiply(vectors[:, 0]) - values[0] * vectors[:, 0]))
    return min(trace, float(values[0]) + 2 * residual)
