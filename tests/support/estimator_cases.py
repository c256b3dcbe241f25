"""Data for estimators of every loss, and their ψ written out in NumPy from X, y, coef_ and intercept_ alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import expit, logsumexp
from sklearn.exceptions import ConvergenceWarning

from levelprox import SparseClassifier, SparseRegressor
from levelprox.estimators._parameters import CLASSIFICATION_LOSSES, REGRESSION_LOSSES

Double = NDArray[np.float64]

# ℓ(z, y) of the docstrings, at the default parameters.
FORMULAS = {
    "squared": lambda z, y: (y - z) ** 2,
    "huber": lambda z, y: np.where(np.abs(y - z) <= 1.35, (y - z) ** 2 / 2, 1.35 * (np.abs(y - z) - 0.675)),
    "quantile": lambda z, y: np.maximum(0.5 * (y - z), 0.5 * (z - y)),
    "absolute": lambda z, y: np.abs(y - z),
    "poisson": lambda z, y: np.exp(z) - y * z,
    "gamma": lambda z, y: z + y * np.exp(-z),
    "cauchy": lambda z, y: np.log1p((y - z) ** 2) / 2,
    "logistic": lambda z, y: np.logaddexp(0, -y * z),
    "squared_hinge": lambda z, y: np.maximum(0, 1 - y * z) ** 2,
    "hinge": lambda z, y: np.maximum(0, 1 - y * z),
    "sigmoid": lambda z, y: expit(-y * z),
}

#: Every loss with its estimator; classifiers of more than two classes: softmax, and each class against the others.
TASKS: dict[str, tuple[type, dict[str, object]]] = {
    **{loss: (SparseRegressor, {"loss": loss}) for loss in REGRESSION_LOSSES},
    **{loss: (SparseClassifier, {"loss": loss}) for loss in CLASSIFICATION_LOSSES},
    "softmax": (SparseClassifier, {"loss": "logistic"}),
    **{f"{loss} ovr": (SparseClassifier, {"loss": loss, "multi_class": "ovr"}) for loss in CLASSIFICATION_LOSSES},
}


def estimator(task: str, **options):
    kind, given = TASKS[task]
    return kind(**{**given, **options})


def is_multi_class(task: str) -> bool:
    return task == "softmax" or task.endswith("ovr")


def targets(task: str, X: object, rng: np.random.Generator, size: float = 1.0) -> NDArray:
    """Targets that the first features of X explain in part; every class is there, more than once."""
    first = X[:, :3]
    first = first.toarray() if scipy.sparse.issparse(first) else np.asarray(first)
    signal = size * first @ np.array([1.0, -0.8, 0.6])[: first.shape[1]]
    n = signal.size
    if task in ("poisson", "gamma"):
        mean = np.exp(np.clip(0.5 * signal, -2, 2))
        return rng.poisson(mean).astype(float) if task == "poisson" else rng.gamma(2.0, mean / 2) + 1e-3
    if task in REGRESSION_LOSSES:
        return signal + 0.5 * rng.standard_normal(n)
    noisy = signal + rng.logistic(size=n)
    if not is_multi_class(task):
        y = np.where(noisy > 0, 1, -1)
        y[:4] = 1, -1, 1, -1
        return y
    y = np.digitize(noisy, [-0.7, 0.7])
    y[:6] = 0, 1, 2, 0, 1, 2
    return np.array(["a", "b", "c"])[y]


def psi(model, X: object, y: NDArray, weight: Double | None = None) -> float:
    """ψ of a fitted model, by the formulas of its docstring."""
    X = X.toarray() if scipy.sparse.issparse(X) else np.asarray(X)
    Z = X.astype(np.float64) @ np.atleast_2d(model.coef_).astype(np.float64).T + model.intercept_
    s = np.ones(y.size) if weight is None else weight
    loss = FORMULAS[model.loss]
    if isinstance(model, SparseRegressor):
        value = loss(Z[:, 0], y)
    elif Z.shape[1] == 1:
        value = loss(Z[:, 0], np.where(y == model.classes_[1], 1.0, -1.0))
    elif model.multi_class == "ovr" or model.loss != "logistic":
        value = sum(loss(Z[:, k], np.where(y == c, 1.0, -1.0)) for k, c in enumerate(model.classes_))
    else:
        value = logsumexp(Z, axis=1) - Z[np.arange(y.size), np.searchsorted(model.classes_, y)]
    scale = model.scale_
    if not model.standardize:
        center = s @ X / s.sum() if model.fit_intercept else 0.0
        scale = np.sqrt(s @ (X.astype(np.float64) - center) ** 2 / s.sum())
        scale[np.ptp(X, axis=0) == 0] = 1.0
    held = scale * np.atleast_2d(model.coef_).astype(np.float64)
    if model.feature_weight is not None:
        held[:, np.asarray(model.feature_weight) == 0] = 0.0  # features that are kept are free of the ridge
    return float(s @ value / s.sum()) + model.ridge_ * float(np.sum(held**2))


@contextmanager
def may_diverge() -> Iterator[None]:
    """Where the data may be separable: the coefficients of the best fit are then infinite, and the fit says so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def fitted(model, *args, **options):
    """The model, fitted; the data may be separable."""
    with may_diverge():
        return model.fit(*args, **options)


def bits(model) -> tuple[bytes, ...]:
    """All that must be the same in two fits."""
    return model.coef_.tobytes(), np.asarray(model.intercept_).tobytes(), repr(model.certificate_).encode()
