"""Losses of samples under fits without them, to first order: one Newton step from the fit of all samples.

With the Hessian H of the mean loss and its penalty over n samples, the rows A_i, slope g_i and curvature W_i of
sample i, all at the fit of all samples,

    z_i without sample i  ≈  z_i + L (I − W_i L)⁻¹ g_i,      L = A_i H⁻¹ A_i' / n

so that no fit is repeated. W_i and L are numbers where there is one margin for each sample, and K × K matrices for a
softmax model of K classes. The penalty of the sum of losses stays as it is. A sample that counts c times loses one of
these, or all of it where c < 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from levelprox._typing import Matrix, Vector

if TYPE_CHECKING:
    from levelprox.objectives.model import Model

#: Least value of 1 less the leverage of a sample, which rounding may lose.
LEAST_REMAINDER = 1e-12
_BLOCK_NUMBERS = 2**20  # in a block of samples whose losses are computed at once


class Point(NamedTuple):
    """A fit.

    Attributes
    ----------
    x : ndarray of shape (dimension,)
    inverse : ndarray of shape (dimension, dimension)
        The inverse Hessian of the mean loss of all samples with its penalty.
    """

    x: Vector
    inverse: Matrix


def left_out_fall(model: Model, before: Point, after: Point, unit: float, part: float = 1.0) -> Vector:
    """Return by how much losses of samples under fits without them fall: the sum, and the sum of squares.

    Parameters
    ----------
    model : Model
        With the logistic or softmax loss, without a ridge.
    before, after : Point
        Fits of it.
    unit : float
        The share that one sample has of the mean loss of all samples: what is left out.
    part : float
        The share that the samples of this model have of all: sums are of what they contribute to means.
    """
    share = part * model.share
    counts = share > 0
    fall = left_out_losses(model, before, unit, part)[counts] - left_out_losses(model, after, unit, part)[counts]
    return np.array([np.sum(share[counts] * fall), np.sum(share[counts] * fall**2)])


def left_out_losses(model: Model, fit: Point, unit: float, part: float = 1.0) -> Vector:
    """Return the loss of each sample under a fit without it; see `left_out_fall`."""
    share, z, label = part * model.share, model.of_samples(model.margins(fit.x)), model.target
    columns, d, K = model.dense_columns(), model.design.shape[1], model.n_outputs
    block = max(1, _BLOCK_NUMBERS // (d * (K**2 if model.only_contrasts else 1)))
    found = []
    for begin in range(0, share.size, block):
        rows = slice(begin, begin + block)
        A, without = columns[rows], np.minimum(share[rows], unit)
        if model.only_contrasts:
            found.append(_softmax(A, z[rows], label[rows], fit.inverse, without))
        elif K == 1:
            found.append(_logistic(A, z[rows], label[rows], fit.inverse, without))
        else:
            own = fit.inverse.reshape(d, K, d, K)
            signs = [np.where(label[rows] == k, 1.0, -1.0) for k in range(K)]
            each = [_logistic(A, z[rows, k], signs[k], own[:, k, :, k], without) for k in range(K)]
            found.append(np.asarray(np.sum(each, axis=0), np.float64))
    return np.concatenate(found)


def _logistic(A: Matrix, z: Vector, sign: Vector, inverse: Matrix, without: Vector) -> Vector:
    """Return the losses of some samples: A and z are their rows of X and margins, `without` what is left out."""
    from scipy.special import expit  # slow to import

    miss = expit(-sign * z)
    spread = without * np.sum((A @ inverse) * A, axis=1)
    stays = np.maximum(1 - spread * miss * (1 - miss), LEAST_REMAINDER)
    return np.asarray(np.logaddexp(0.0, -sign * (z - sign * spread * miss / stays)), np.float64)


def _softmax(A: Matrix, z: Matrix, label: Any, inverse: Matrix, without: Vector) -> Vector:
    """Return the same for classes that share one likelihood."""
    from scipy.special import logsumexp  # slow to import

    (n, m), K = A.shape, z.shape[1]
    half = (A @ inverse.reshape(m, -1)).reshape(n, K, m, K)
    spread = without[:, None, None] * np.einsum("nkml,nm->nkl", half, A)
    p = np.exp(z - logsumexp(z, axis=1, keepdims=True))
    bend = p[:, :, None] * (np.eye(K) - p[:, None, :])
    slope = p - np.eye(K)[label]
    step = spread @ np.linalg.solve(np.eye(K) - bend @ spread, slope[:, :, None])
    moved = z + step[:, :, 0]
    return np.asarray(logsumexp(moved, axis=1) - moved[np.arange(n), label], np.float64)
