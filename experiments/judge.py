"""What a choice of features is worth: the smallest loss with them and an intercept; and the best of all choices.

    min_{w, w0}  mean_i ℓ(⟨x_i, w⟩ + w0, b_i),   w_j = 0 outside S

In float64 with NumPy's own linear algebra, from X and b alone: nothing here comes from levelprox or a competitor.
The squared loss is (b − z)², the logistic one log(1 + exp(−bz)), b = ±1.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Double = NDArray[np.float64]
Indices = NDArray[np.intp]

_NEWTON_STEPS = 100
_DECREMENT = 1e-13  # what a Newton step would still gain, relative to the loss
_SEPARATED = 1e-7  # a logistic loss this low tends to 0: the two classes are separable
_AT_ONCE = 20_000  # subsets in one batch of small systems
_SHORTLIST = 5  # subsets that are refitted in full: Gram matrices lose some digits


def loss_with(X: Double, b: Double, loss: str, support: Indices) -> float:
    """Return the smallest loss with the features of `support` and an intercept; 0 where they separate two classes."""
    return _REFITS[loss](_standardised(X[:, support]), b)


def best_support(X: Double, b: Double, loss: str, k: int) -> Indices:
    """Return the k features with the smallest loss of all choices of k."""
    return _SEARCHES[loss](X, b, k)


def _standardised(columns: Double) -> Double:
    """Centred, with variance 1: an intercept makes up for it, and systems are well conditioned."""
    centred = columns - columns.mean(axis=0)
    deviation = centred.std(axis=0)
    return np.asarray(centred / np.where(deviation > 0, deviation, 1.0), dtype=np.float64)


def _least_squares(Z: Double, b: Double) -> float:
    centred = b - b.mean()
    w = np.linalg.lstsq(Z, centred)[0]
    return float(np.mean((centred - Z @ w) ** 2))


def _newton(Z: Double, b: Double) -> float:
    """Newton's method with step halving, from the origin; where there is no minimum, until the loss is as good as 0."""
    A = np.column_stack([np.ones(len(Z)), Z])
    w, value = np.zeros(A.shape[1]), float(np.log(2.0))
    for _ in range(_NEWTON_STEPS):
        wrong = np.exp(-np.logaddexp(0.0, b * (A @ w)))  # the probability given to the other class
        gradient = -(A.T @ (b * wrong)) / len(b)
        hessian = (A.T * (wrong * (1 - wrong))) @ A / len(b)
        step = -np.linalg.lstsq(hessian, gradient)[0]
        expected = -float(gradient @ step)
        if expected <= _DECREMENT * value:
            break
        length = 1.0
        while (new := _logistic(A @ (w + length * step), b)) > value - 1e-4 * length * expected and length > 1e-10:
            length /= 2
        if new >= value:
            break
        w, value = w + length * step, new
        if value < _SEPARATED:
            return 0.0
    return value


def _logistic(z: Double, b: Double) -> float:
    return float(np.mean(np.logaddexp(0.0, -b * z)))


def _search_squared(X: Double, b: Double, k: int) -> Indices:
    """By Gram matrices: the loss falls by c_S'G_SS⁻¹c_S, all S in batches; the best few are refitted in full."""
    Z, centred = _standardised(X), b - b.mean()
    G, c = Z.T @ Z, Z.T @ centred
    subsets = np.array(list(itertools.combinations(range(X.shape[1]), k)), dtype=np.intp)
    gains = np.empty(len(subsets))
    for begin in range(0, len(subsets), _AT_ONCE):
        S = subsets[begin : begin + _AT_ONCE]
        w = np.linalg.solve(G[S[:, :, None], S[:, None, :]], c[S][:, :, None])[:, :, 0]
        gains[begin : begin + _AT_ONCE] = np.sum(c[S] * w, axis=1)
    shortlist = subsets[np.argsort(-gains, kind="stable")[:_SHORTLIST]]
    return min(shortlist, key=lambda S: _least_squares(Z[:, S], b))


def _search_logistic(X: Double, b: Double, k: int) -> Indices:
    """One Newton fit for every subset."""
    Z = _standardised(X)
    subsets = (np.array(S, dtype=np.intp) for S in itertools.combinations(range(X.shape[1]), k))
    return min(subsets, key=lambda S: _newton(Z[:, S], b))


_REFITS: dict[str, Callable[[Double, Double], float]] = {"squared": _least_squares, "logistic": _newton}
_SEARCHES: dict[str, Callable[[Double, Double, int], Indices]] = {
    "squared": _search_squared,
    "logistic": _search_logistic,
}
