"""The loss of each sample under a fit without it, to first order: one Newton step from the fit of all samples.

With the Hessian H of the mean loss and its penalty over n samples, the rows A_i, slope g_i and curvature W_i of sample
i, all at the fit of all samples,

    z_i without sample i  ≈  z_i + L (I − W_i L)⁻¹ g_i,      L = A_i H⁻¹ A_i' / n

so that no fit is repeated. W_i and L are numbers where there is one margin for each sample, and K × K matrices
for a softmax model of K classes. The penalty of the sum of losses stays as it is. A sample that counts c times loses
one of these, or all of it where c < 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from levelprox._typing import Matrix, Vector
from levelprox.objectives._multiclass import ByClass
from levelprox.objectives.linear_model import LinearModel
from levelprox.objectives.multinomial import MultinomialModel

_AT_ONCE = 2**20  # numbers of a block of samples
LEAST = 1e-12  # of 1 less the leverage, which rounding may lose


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


def left_out_fall(model: LinearModel | ByClass, before: Point, after: Point, unit: float, part: float = 1.0) -> Vector:
    """Return by how much losses of samples under fits without them fall: the sum, and the sum of squares.

    Parameters
    ----------
    model : LinearModel or ByClass
        The logistic or softmax loss over the features of the fits, without a ridge.
    before, after : Point
    unit : float
        The share that one sample has of the mean loss of all samples: what is left out.
    part : float
        The share that the samples of this model have of all: sums are of what they contribute to means.
    """
    share = part * model.share
    counts = share > 0
    fall = left_out_losses(model, before, unit, part)[counts] - left_out_losses(model, after, unit, part)[counts]
    return np.array([np.sum(share[counts] * fall), np.sum(share[counts] * fall**2)])


def left_out_losses(model: LinearModel | ByClass, fit: Point, unit: float, part: float = 1.0) -> Vector:
    """Return the logistic loss of each sample of a model under a fit without it; see `left_out_fall`."""
    share, z = part * model.share, model.of_samples(model.margins(fit.x))
    m, K = model.design.shape[1], model.width
    entries = entries_of(model)
    block = max(1, _AT_ONCE // (m * K * K if isinstance(model, MultinomialModel) else m))
    found = []
    for begin in range(0, share.size, block):
        rows = slice(begin, begin + block)
        without, A = np.minimum(share[rows], unit), entries[rows]
        if isinstance(model, LinearModel):
            found.append(_of_one_margin(A, z[rows], model.target[rows], fit.inverse, without))
        elif isinstance(model, MultinomialModel):
            found.append(_of_softmax(A, z[rows], model.target[rows], fit.inverse, without))
        else:
            own = fit.inverse.reshape(m, K, m, K)
            signs = np.where(model.target[rows, None] == np.arange(K), 1.0, -1.0)
            each = [_of_one_margin(A, z[rows, a], signs[:, a], own[:, a, :, a], without) for a in range(K)]
            found.append(np.sum(each, axis=0))
    return np.concatenate(found)


def entries_of(model: LinearModel | ByClass) -> Matrix:
    """Return all columns of a model, of shape (n, m)."""
    return np.stack([model.design.matvec(one) for one in np.eye(model.design.shape[1])], axis=1)


def _of_one_margin(A: Matrix, z: Vector, sign: Vector, inverse: Matrix, without: Vector) -> Vector:
    miss = expit(-sign * z)
    spread = without * np.sum((A @ inverse) * A, axis=1)
    stays = np.maximum(1 - spread * miss * (1 - miss), LEAST)
    return np.asarray(np.logaddexp(0.0, -sign * (z - sign * spread * miss / stays)), np.float64)


def _of_softmax(A: Matrix, z: Matrix, label: NDArray[np.int64], inverse: Matrix, without: Vector) -> Vector:
    (n, m), K = A.shape, z.shape[1]
    values, vectors = np.linalg.eigh(inverse)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    spread = (A @ root.reshape(m, -1)).reshape(n, K, -1)
    spread = without[:, None, None] * (spread @ spread.swapaxes(1, 2))
    p = np.exp(z - logsumexp(z, axis=1, keepdims=True))
    bend = p[:, :, None] * (np.eye(K) - p[:, None, :])
    slope = p - np.eye(K)[label]
    step = spread @ np.linalg.solve(np.eye(K) - bend @ spread, slope[:, :, None])
    moved = z + step[:, :, 0]
    return np.asarray(logsumexp(moved, axis=1) - moved[np.arange(n), label], np.float64)
