"""Small data and the four ways to fit them, for what every estimator does with its input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from levelprox import SparseClassifier, SparseRegressor

N, D = 60, 6
FEATURES, LEVEL = {"n_features": 2}, {"level": 2.5}


@dataclass(frozen=True)
class Way:
    """An estimator and its budget."""

    kind: Any
    budget: dict[str, float]

    def __call__(self, **params: Any) -> Any:
        return self.kind(**{**self.budget, **params})

    @property
    def y(self) -> np.ndarray:
        return labels() if self.kind is SparseClassifier else targets()

    def obeys(self, model: Any) -> bool:
        """Whether a fit is within its budget, with finite numbers."""
        coef = np.atleast_2d(model.coef_)
        assert np.all(np.isfinite(coef)) and np.all(np.isfinite(model.intercept_))
        assert not np.any(np.signbit(coef) & (coef == 0))
        if "level" not in self.budget:
            return model.selected_features_.size <= self.budget["n_features"]
        sizes = np.linalg.norm(coef * model.scale_, axis=0)
        return float(np.sum(model.constraint_.phi(sizes))) <= self.budget["level"]

    def __str__(self) -> str:
        return f"{self.kind.__name__[6:]}-{next(iter(self.budget))}"


CLASSIFIER, REGRESSOR = Way(SparseClassifier, FEATURES), Way(SparseRegressor, FEATURES)
ONE_OF_EACH = (CLASSIFIER, REGRESSOR)
WAYS = (*ONE_OF_EACH, Way(SparseClassifier, LEVEL), Way(SparseRegressor, LEVEL))


def samples() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((N, D))


def targets() -> np.ndarray:
    X = samples()
    return X[:, 0] - X[:, 2] + np.random.default_rng(1).standard_normal(N)


def labels() -> np.ndarray:
    return (targets() > 0).astype(int)


def with_entry(value: float, row: int = 3, column: int = 4) -> np.ndarray:
    X = samples()
    X[row, column] = value
    return X


def sparse_samples() -> np.ndarray:
    """Half of the entries are zero."""
    return np.where(np.random.default_rng(2).random((N, D)) < 0.5, samples(), 0.0)


_FITS: dict[tuple[str, bytes], Any] = {}


def plain_fit(way: Way, X: np.ndarray) -> Any:
    """The fit of an array, made once: many tests compare theirs with it."""
    key = str(way), X.tobytes()
    if key not in _FITS:
        _FITS[key] = way().fit(X, way.y)
    return _FITS[key]


def assert_same_fit(a: Any, b: Any, rtol: float = 1e-12) -> None:
    size = float(np.max(np.abs(b.coef_))) or 1.0
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=rtol, atol=rtol * size)
    np.testing.assert_allclose(a.intercept_, b.intercept_, rtol=rtol, atol=rtol)
