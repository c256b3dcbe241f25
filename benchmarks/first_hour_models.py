"""Data sets and models of `benchmarks.first_hour`.

Twelve data sets: two of two classes, three of several, three regressions, counts, text, and two of genes. Those that
scikit-learn does not bring come from `load_data.py` in the folder that LEVELPROX_DATA names; without it, generated data
of the same shape take their place, and `Data.source` says so.

Models have the settings of a new user: levelprox by default, abess with five folds (over its own numbers of features,
and over those of the CV estimators, since its own are all up to 100 on 5,000 × 100), and scikit-learn and skglm on
standardised columns with five folds. scikit-learn's solvers may take 1,000 steps: 100, the default, are too few for
saga.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.linear_model import LassoCV, LogisticRegressionCV, PoissonRegressor
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.datasets import loader
from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV

Array = NDArray[np.float64]
HELD_OUT, SEED, FOLDS = 0.3, 0, 5
A9A_ROWS, TEXT_ROWS, TEXT_DOCUMENTS = 3000, 2000, 3
GRID = np.geomspace(1.0, 1e-3, 30)  # of the penalty at which skglm selects the first feature
RIDGES = np.geomspace(1e-4, 10.0, 10)  # for PoissonRegressor


@dataclass(frozen=True)
class Data:
    """A data set.

    Attributes
    ----------
    name : str
    task : {"binary", "classes", "regression", "counts"}
    source : str
        "scikit-learn", "LEVELPROX_DATA", "generated", or "substitute": generated since LEVELPROX_DATA is not set.
    X : ndarray or csr_matrix
    y : ndarray
        Classes are 0, 1, ….
    """

    name: str
    task: str
    source: str
    X: Any
    y: NDArray[Any]

    def split(self) -> tuple[Any, Any, NDArray[Any], NDArray[Any]]:
        """Training and held-out rows of X and y: 70 and 30 %, classes in proportion, always the same."""
        classes = self.y if self.task in ("binary", "classes") else None
        return tuple(train_test_split(self.X, self.y, test_size=HELD_OUT, random_state=SEED, stratify=classes))


# --- data


def _correlated(rng: np.random.Generator, n: int, d: int) -> Array:
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    return X


def _factors(rng: np.random.Generator, n: int, d: int) -> Array:
    """Columns in groups that move together, as genes do."""
    return rng.standard_normal((n, 30)) @ rng.standard_normal((30, d)) / 4 + rng.standard_normal((n, d))


def _slopes(d: int, count: int) -> Array:
    slopes = np.zeros(d)
    slopes[:: max(d // count, 1)][:count] = np.resize([1.0, -1.5, 2.0, -0.5], count)
    return slopes


def _large_regression() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = _correlated(rng, 5000, 100)
    return X, X @ _slopes(100, 10) + 3 * rng.standard_normal(5000)


def _counts() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = _correlated(rng, 2000, 40)
    return X, rng.poisson(np.exp(0.5 + 0.3 * X @ _slopes(40, 6))).astype(float)


def _like_a9a() -> tuple[Any, Any]:
    """One of several values in each of 14 fields, one column a value."""
    rng = np.random.default_rng(0)
    X = np.hstack([np.eye(9)[np.minimum(rng.geometric(0.3, A9A_ROWS) - 1, 8)] for _ in range(14)])[:, :123]
    z = X @ (_slopes(123, 20) * 1.5)
    return scipy.sparse.csr_matrix(X), z + rng.logistic(size=A9A_ROWS) > np.quantile(z, 0.75)


def _like_housing() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = np.exp(0.6 * _correlated(rng, 20640, 8))
    return X, X @ np.array([0.6, 0.2, -0.3, 0.4, 0.0, -0.1, -0.5, -0.4]) + 1.3 * rng.standard_normal(20640)


def _like_text() -> tuple[Any, Any]:
    """Rows of unit length with about 60 words, the frequent ones in many rows."""
    rng = np.random.default_rng(0)
    n, d = TEXT_ROWS, 5000
    words = np.minimum(d - 1, np.exp(rng.uniform(0, np.log(d), (n, 60))).astype(int))
    X = scipy.sparse.csr_matrix((np.ones(words.size), words.ravel(), np.arange(0, words.size + 1, 60)), shape=(n, d))
    X.sum_duplicates()
    X = scipy.sparse.diags(1 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X
    slopes = np.zeros(d)
    slopes[5:200:12] = np.resize([15.0, -12.0, 20.0], slopes[5:200:12].size)
    z = X @ slopes
    return X.tocsr(), z + rng.logistic(size=n) > np.median(z)


def _like_allaml() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = _factors(rng, 72, 7129)
    z = X[:, :3] @ np.array([3.0, -3.0, 2.0])
    return X, z + rng.logistic(size=72) > np.quantile(z, 0.65)


def _like_riboflavin() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = _factors(rng, 71, 4088)
    return X, X[:, :6] @ np.array([0.4, -0.3, 0.3, -0.2, 0.2, 0.1]) + 0.4 * rng.standard_normal(71)


def _stored(name: str, rows: int | None = None, **options: Any) -> tuple[Any, Any]:
    """Return samples of LEVELPROX_DATA: all, or `rows` of the training part, drawn at random."""
    X, y, X_test, y_test = loader(name).load(name, **options)
    if rows is None and X_test is not None:
        return np.vstack([X, X_test]), np.concatenate([y, y_test])
    drawn = np.sort(np.random.default_rng(SEED).permutation(y.size)[:rows])
    return X[drawn], y[drawn]


def _stored_text() -> tuple[Any, Any]:
    X, y = _stored("reuters21578", TEXT_ROWS, topic="earn")
    return X[:, np.bincount(X.indices, minlength=X.shape[1]) >= TEXT_DOCUMENTS], y


Load = Callable[[], tuple[Any, Any]]


def _from(bunch: Callable[..., Any]) -> Load:
    return lambda: bunch(return_X_y=True)


#: name → task, source, how to get it, and what takes its place without LEVELPROX_DATA.
SETS: dict[str, tuple[str, str, Load, Load | None]] = {
    "breast_cancer": ("binary", "scikit-learn", _from(load_breast_cancer), None),
    "a9a": ("binary", "LEVELPROX_DATA", lambda: _stored("a9a", A9A_ROWS), _like_a9a),
    "wine": ("classes", "scikit-learn", _from(load_wine), None),
    "iris": ("classes", "scikit-learn", _from(load_iris), None),
    "digits": ("classes", "scikit-learn", _from(load_digits), None),
    "diabetes": ("regression", "scikit-learn", _from(load_diabetes), None),
    "housing": ("regression", "LEVELPROX_DATA", lambda: _stored("california_housing"), _like_housing),
    "regression": ("regression", "generated", _large_regression, None),
    "counts": ("counts", "generated", _counts, None),
    "text": ("binary", "LEVELPROX_DATA", _stored_text, _like_text),
    "ALLAML": ("binary", "LEVELPROX_DATA", lambda: _stored("ALLAML"), _like_allaml),
    "riboflavin": ("regression", "LEVELPROX_DATA", lambda: _stored("riboflavin"), _like_riboflavin),
}
QUICK = ("breast_cancer", "iris", "diabetes")


def data(name: str) -> Data:
    """Return a data set by name."""
    task, source, load, substitute = SETS[name]
    if substitute is not None and not os.environ.get("LEVELPROX_DATA"):
        source, load = "substitute", substitute
    X, y = load()
    if task in ("binary", "classes"):
        y = np.unique(y, return_inverse=True)[1]
    X = scipy.sparse.csr_matrix(X) if scipy.sparse.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
    return Data(name, task, source, X, np.asarray(y))


def small(task: str, sparse: bool) -> tuple[Any, Any]:
    """Sixty samples of six features: what imports and code that compiles itself are warmed up with."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 6))
    z = X[:, 0] - X[:, 1] + rng.standard_normal(60)
    y = {"regression": z, "counts": np.floor(np.abs(z)), "binary": (z > 0).astype(int)}.get(task)
    return (scipy.sparse.csr_matrix(X) if sparse else X), np.digitize(z, [-0.7, 0.7]) if y is None else y


# --- models


@dataclass(frozen=True)
class Model:
    """How an estimator is built and evaluated.

    Attributes
    ----------
    package : str
        What must be installed.
    tasks : tuple of str
        What it can do.
    make : callable
        The unfitted estimator, of the task, X and y.
    """

    package: str
    tasks: tuple[str, ...]
    make: Callable[[str, Any, Any], Any]


def _ours(classifier: Any, regressor: Any) -> Callable[[str, Any, Any], Any]:
    def make(task: str, X: Any, y: Any) -> Any:
        if task in ("binary", "classes"):
            return classifier()
        return regressor("poisson") if task == "counts" else regressor()

    return make


def _standardised(estimator: Any, X: Any) -> Any:
    return Pipeline([("scale", StandardScaler(with_mean=not scipy.sparse.issparse(X))), ("fit", estimator)])


def _logistic_cv(ratio: float) -> Callable[[str, Any, Any], Any]:
    def make(task: str, X: Any, y: Any) -> Any:
        solver = "lbfgs" if ratio == 0 else "liblinear" if task == "binary" else "saga"
        options: dict[str, Any] = {"penalty": "l1" if ratio else "l2"}
        if "use_legacy_attributes" in inspect.signature(LogisticRegressionCV).parameters:  # scikit-learn 1.8 and later
            options = {"l1_ratios": (ratio,), "use_legacy_attributes": False}
        return _standardised(
            LogisticRegressionCV(
                solver=solver, cv=FOLDS, scoring="neg_log_loss", max_iter=1000, random_state=SEED, **options
            ),
            X,
        )

    return make


def _poisson_ridge(task: str, X: Any, y: Any) -> Any:
    search = GridSearchCV(
        PoissonRegressor(max_iter=1000), {"alpha": RIDGES}, cv=FOLDS, scoring="neg_mean_poisson_deviance"
    )
    return _standardised(search, X)


def _abess(sizes: tuple[int, ...] | None = None) -> Callable[[str, Any, Any], Any]:
    def make(task: str, X: Any, y: Any) -> Any:
        import abess

        kinds = {
            "binary": abess.LogisticRegression,
            "classes": abess.MultinomialRegression,
            "regression": abess.LinearRegression,
            "counts": abess.PoissonRegression,
        }
        few = None if sizes is None else [k for k in sizes if k <= X.shape[1]]
        return kinds[task](cv=FOLDS, support_size=few)

    return make


def _skglm(task: str, X: Any, y: Any) -> Any:
    """MCP for regression, ℓ1 for two classes; the penalty by five folds, down from that of the first feature."""
    import skglm

    scaled = StandardScaler(with_mean=not scipy.sparse.issparse(X)).fit_transform(X)
    target = y - y.mean() if task == "regression" else y - 0.5
    largest = float(np.max(np.abs(scaled.T @ target))) / y.size
    kind = skglm.MCPRegression if task == "regression" else skglm.SparseLogisticRegression
    scoring = "r2" if task == "regression" else "neg_log_loss"
    return _standardised(GridSearchCV(kind(), {"alpha": largest * GRID}, cv=FOLDS, scoring=scoring), X)


CLASSES, NUMBERS = ("binary", "classes"), ("regression", "counts")
OURS, OURS_CV, ABESS, ABESS_GRID = "levelprox", "levelprox CV", "abess CV", "abess CV our grid"
SIZES = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30)  # the grid of the CV estimators
MODELS: dict[str, Model] = {
    OURS: Model("levelprox", CLASSES + NUMBERS, _ours(SparseClassifier, SparseRegressor)),
    OURS_CV: Model("levelprox", CLASSES + NUMBERS, _ours(SparseClassifierCV, SparseRegressorCV)),
    ABESS: Model("abess", CLASSES + NUMBERS, _abess()),
    ABESS_GRID: Model("abess", CLASSES + NUMBERS, _abess(SIZES)),
    "LogisticRegressionCV l1": Model("sklearn", CLASSES, _logistic_cv(1.0)),
    "LogisticRegressionCV l2": Model("sklearn", CLASSES, _logistic_cv(0.0)),
    "LassoCV": Model("sklearn", ("regression",), lambda task, X, y: _standardised(LassoCV(cv=FOLDS), X)),
    "PoissonRegressor CV": Model("sklearn", ("counts",), _poisson_ridge),
    "skglm CV": Model("skglm", ("binary", "regression"), _skglm),
}
PEERS = tuple(name for name in MODELS if name not in (OURS, OURS_CV))


def features(model: Any, d: int) -> int:
    """How many features have a coefficient that is not zero."""
    if isinstance(model, Pipeline):
        model = model[-1]
    coefficients = np.asarray(getattr(model, "best_estimator_", model).coef_)
    across = coefficients if coefficients.shape[0] == d else coefficients.T  # abess has a row for each feature
    return int(np.count_nonzero(across.reshape(d, -1).any(axis=1)))


def losses(task: str, model: Any, X: Any, y: Any) -> Array:
    """Return the loss of each held-out sample: log loss, squared error, or Poisson deviance.

    Probabilities are kept between 1e-15 and 1 - 1e-15, and rates above 1e-15.
    """
    if task in CLASSES:
        chosen = np.asarray(model.predict_proba(X), dtype=np.float64)[np.arange(y.size), y]
        return -np.log(np.clip(chosen, 1e-15, 1 - 1e-15))
    predicted = np.asarray(model.predict(X), dtype=np.float64).ravel()
    if task == "regression":
        return np.asarray((y - predicted) ** 2)
    rates = np.maximum(predicted, 1e-15)
    return np.asarray(2 * (np.where(y > 0, y * np.log(np.maximum(y, 1) / rates), 0.0) - (y - rates)))
