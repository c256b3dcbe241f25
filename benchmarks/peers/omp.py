"""Orthogonal matching pursuit: add the feature with the steepest descent, refit, k times.

scikit-learn's for the squared loss and dense data; for the logistic loss and for sparse data the same loop with
Newton's method for the refit. Columns count with unit size (standard deviation where dense).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.datasets import Dataset
from benchmarks.judge import curvature, derivative, mean_loss
from benchmarks.peers.base import Ask, Fit, Peer, Vector, column_scales

NEWTON_STEPS = 30


class MatchingPursuit(Peer):
    """scikit-learn's OrthogonalMatchingPursuit where it takes the data, else the loop below."""

    package = "sklearn"
    distribution = "scikit-learn"
    by_columns = True

    def fit(self, data: Dataset, ask: Ask, start: Vector | None) -> Fit:
        """Fit the data."""
        if data.loss == "squared" and not data.sparse:
            return _scikit_learn(data, ask["k"])
        return Fit(pursued(data.X, data.b, data.loss, ask["k"]), "generic loop")


def _scikit_learn(data: Dataset, k: int) -> Fit:
    from sklearn.linear_model import OrthogonalMatchingPursuit

    center, spread = data.X.mean(axis=0), data.X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    model = OrthogonalMatchingPursuit(n_nonzero_coefs=k).fit((data.X - center) / spread, data.b)
    x = model.coef_ / spread
    return Fit(np.append(x, model.intercept_ - center @ x), "scikit-learn")


def pursued(X: Any, b: Vector, loss: str, k: int) -> Vector:
    """Coefficients and the intercept after k steps."""
    scales, d = column_scales(X), X.shape[1]
    chosen: list[int] = []
    A = np.ones((b.size, 1))
    beta = np.zeros(1)
    for _ in range(min(k, d)):
        beta = _refitted(A, b, loss, beta)
        pull = np.abs(np.asarray(X.T @ derivative(A @ beta, b, loss)).ravel()) / scales
        pull[chosen] = -1.0
        chosen.append(int(np.argmax(pull)))
        column = X[:, [chosen[-1]]]
        A = np.column_stack([A, column.toarray() if hasattr(column, "toarray") else column])
        beta = np.append(beta, 0.0)
    beta = _refitted(A, b, loss, beta)
    x = np.zeros(d + 1)
    x[chosen], x[d] = beta[1:], beta[0]
    return x


def _refitted(A: Vector, b: Vector, loss: str, beta: Vector) -> Vector:
    """Newton steps, halved while the loss would rise."""
    value = mean_loss(A @ beta, b, loss)
    for _ in range(NEWTON_STEPS):
        z = A @ beta
        hessian = A.T @ (curvature(z, b, loss)[:, None] * A)
        hessian[np.diag_indices_from(hessian)] += 1e-12 * np.max(np.diag(hessian)) + 1e-300
        gradient = A.T @ derivative(z, b, loss)
        step = np.linalg.solve(hessian, gradient)
        if gradient @ step <= 1e-8 * value:
            break
        t = 1.0
        while (after := mean_loss(A @ (beta - t * step), b, loss)) > value and t > 1e-10:
            t /= 2
        if not after < value:
            break
        beta, value = beta - t * step, after
    return beta


KINDS = {"omp": MatchingPursuit}
