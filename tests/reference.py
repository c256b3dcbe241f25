"""The slow, obvious twin of every compiled kernel. Nothing here is clever on purpose."""

from __future__ import annotations

import math

import numpy as np

# Designs: X is any matrix that indexes like a list of rows. Every sum is exact, rounded once.


def matvec(X: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.array([math.fsum(float(v) * float(w) for v, w in zip(row, x, strict=True)) for row in X])


def rmatvec(X: np.ndarray, r: np.ndarray) -> np.ndarray:
    return matvec(X.T, r)


def column_squares(X: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.array([math.fsum(w * float(v) ** 2 for v, w in zip(col, weight, strict=True)) for col in X.T])


def gram(X: np.ndarray, D: np.ndarray) -> np.ndarray:
    d = X.shape[1]
    out = np.zeros((d, d))
    for j in range(d):
        for k in range(d):
            out[j, k] = math.fsum(
                w * float(v) * float(u) for w, v, u in zip(D, X[:, j], X[:, k], strict=True)
            )
    return out


def columns(X: np.ndarray, W: list[int]) -> np.ndarray:
    return np.array([[row[j] for j in W] for row in X]).reshape(X.shape[0], len(W))


def rows(X: np.ndarray, B: list[int]) -> np.ndarray:
    return np.array([X[i] for i in B]).reshape(len(B), X.shape[1])
