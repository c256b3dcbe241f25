"""Data and fitted models of the cases."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import levelprox
from levelprox import (
    SparseClassifier,
    SparseClassifierCV,
    SparseRegressor,
)

NAMES = ("age", "sex", "height", "weight", "income")
PANDAS, POLARS, PLOT = ("pandas",), ("polars", "pyarrow"), ("matplotlib", "pandas")  # packages that a case needs


@cache
def _people() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, len(NAMES)))
    return X, X[:, 0] - 2 * X[:, 3] + 0.5 * rng.standard_normal(80)


def frame(**columns: Any) -> Any:
    """Return a small table with names; columns may be replaced or added."""
    import pandas as pd

    return pd.DataFrame(_people()[0], columns=list(NAMES)).assign(**columns)


def polars_frame() -> Any:
    """Return the same table as a polars frame."""
    import polars as pl

    return pl.DataFrame(_people()[0], schema=list(NAMES))


def samples() -> np.ndarray:
    """Return the same table without names."""
    return _people()[0]


def target() -> np.ndarray:
    """Return a number for each row."""
    return _people()[1]


def labels() -> np.ndarray:
    """Two classes."""
    return np.where(target() > 0, "yes", "no")


def three() -> np.ndarray:
    """Three classes, in order: folds that are not shuffled miss some of them."""
    return np.repeat(["a", "b", "c"], (30, 30, 20))


def with_entry(value: Any, column: str = "height", row: int = 7) -> Any:
    """Return the table with one entry replaced."""
    X = frame()
    if isinstance(value, str):
        X[column] = X[column].astype(object)
    X.loc[row, column] = value
    return X


def dates() -> Any:
    """One date for each row."""
    import pandas as pd

    return pd.date_range("2024-01-01", periods=80)


@contextmanager
def _without_windows() -> Iterator[None]:
    """Draw to memory."""
    import matplotlib

    before = matplotlib.get_backend()
    matplotlib.use("agg")
    try:
        yield
    finally:
        import matplotlib.pyplot as plt

        plt.close("all")
        matplotlib.use(before)


def drawn(draw: Callable[[], Any]) -> Callable[[], str]:
    """Return a call that draws, and closes the figure."""

    def call() -> str:
        with _without_windows():
            return type(draw()).__name__

    return call


def printed(fit: Callable[[], Any]) -> Callable[[], str]:
    """Return a call whose result is what a fit writes to standard error."""

    def call() -> str:
        with redirect_stderr(io.StringIO()) as stream:
            fit()
        return stream.getvalue()

    return call


def fitted(kind: type = SparseRegressor, **options: Any) -> Any:
    """Return a model of the table."""
    y = labels() if kind in (SparseClassifier, SparseClassifierCV) else target()
    return kind(**options).fit(frame(), y)


def streamed() -> Any:
    """Return a model of batches."""
    model = SparseRegressor(n_features=2)
    for rows in np.array_split(np.arange(80), 4):
        model.partial_fit(samples()[rows], target()[rows])
    return model


def saved_and_loaded() -> list[str]:
    """Return the features of a model that was written to a file and read again."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.levelprox"
        fitted(n_features=2).save(path)
        return list(levelprox.load(path).get_feature_names_out())


def names_of(model: Any) -> list[str]:
    """Return the features of a fitted model."""
    return [str(name) for name in model.get_feature_names_out()]
