"""First and second derivatives of g at x over some features.

    ∂g/∂x_j = ω_j φ'(t_j) u_j,      ∂²g/∂x_j² = ω_j [φ'(t_j)/t_j (I − u_j u_j') − h''(t_j) u_j u_j'],

t_j = ‖x_j‖, u_j = x_j/t_j; for a feature of one coefficient u_j is its sign, and −ω_j h''(t_j) all that is left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Vector
from levelprox.problem import Problem


class LevelPart:
    """Some features at x, one a row: sizes t_j, directions u_j = x_j / t_j, and ω_j φ'(t_j).

    Parameters
    ----------
    problem : Problem
    x : ndarray of shape (d,)
    support : ndarray of int
        The features.
    direction : ndarray of shape (d,), optional
        Where features that are zero go, 0 where they stay; by default all stay.
    """

    def __init__(self, problem: Problem, x: Vector, support: NDArray[np.intp], direction: Vector | None = None) -> None:
        self.problem = problem
        places = problem.coordinates(support)
        parts = x[places]
        self.t = t = problem.sizes(parts)
        self.u = parts.reshape(-1, problem.width) / np.where(t > 0, t, 1.0)[:, None]
        if direction is not None:
            ahead = direction[places]
            length = problem.sizes(ahead)
            ahead = ahead.reshape(-1, problem.width) / np.where(length > 0, length, 1.0)[:, None]
            self.u = np.where((t > 0)[:, None], self.u, ahead)
        self.weights = np.ones(support.size) if problem.weights is None else problem.weights[support]
        self.slope = self.weights * problem.constraint.slope(t)

    @property
    def slopes(self) -> Vector:
        """a = ∇g on the support: ω_j φ'(t_j) u_j."""
        return (self.slope[:, None] * self.u).ravel()

    def bent(self, hessian: Vector, y: float) -> Vector:
        """The matrix + y∇²g: y ω_j [φ'(t_j)/t_j (I − uu') − h''(t_j) uu'] for each feature."""
        count, width = self.u.shape
        along = -y * self.weights * self.problem.constraint.curvature(self.t)
        uu = self.u[:, :, None] * self.u[:, None, :]
        blocks = along[:, None, None] * uu
        if width > 1:  # there is nothing across a single coefficient
            across = y * self.slope / np.where(self.t > 0, self.t, np.inf)
            blocks += across[:, None, None] * (np.eye(width) - uu)
        matrix, each = hessian.copy().reshape(count, width, count, width), np.arange(count)
        matrix[each, :, each, :] += blocks
        return matrix.reshape(hessian.shape)
