"""Data sets by name, and the folder through which they reach the processes of competitors.

Real ones come from `load_data.py` in the folder that LEVELPROX_DATA names (`reuters21578:crude` is its topic crude,
`a9a@2000` its first 2000 samples). Generated ones need nothing: `generated-sparse`, `generated-dense`,
`generated-squared`, `generated-wide` (squared loss, 500 × 2000), `generated-tiny`.
"""

from __future__ import annotations

import importlib.util
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

GENERATED = ("generated-sparse", "generated-dense", "generated-squared", "generated-wide", "generated-tiny")


@dataclass(frozen=True)
class Dataset:
    """Samples, targets, and the loss that suits these."""

    name: str
    X: Any
    b: NDArray[np.float64]

    @property
    def loss(self) -> str:
        """Logistic for targets ±1, else squared."""
        return "logistic" if set(np.unique(self.b)) <= {-1.0, 1.0} else "squared"

    @property
    def sparse(self) -> bool:
        """Whether X stores only what is not zero."""
        return scipy.sparse.issparse(self.X)


def available(name: str) -> bool:
    """Whether the data set can be had here."""
    return name in GENERATED or bool(os.environ.get("LEVELPROX_DATA"))


def loader(name: str) -> Any:
    """Return the module load_data.py of the folder that LEVELPROX_DATA names."""
    folder = os.environ.get("LEVELPROX_DATA")
    if not folder:
        raise SystemExit(f"{name}: set LEVELPROX_DATA to the folder of load_data.py")
    spec = importlib.util.spec_from_file_location("load_data", Path(folder) / "load_data.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dataset(name: str) -> Dataset:
    """Return the training samples of a data set, float64, as loaded: no scaling, no intercept."""
    if name in GENERATED:
        return Dataset(name, *_generated(name))
    whole, _, samples = name.partition("@")
    kind, _, topic = whole.partition(":")
    X, b, _, _ = loader(name).load(kind, **({"topic": topic} if topic else {}))
    rows = slice(int(samples) if samples else None)
    X = X[rows].tocsr() if scipy.sparse.issparse(X) else np.ascontiguousarray(X[rows])
    return Dataset(name, X, _two_signs(np.asarray(b, dtype=np.float64)[rows]))


def _two_signs(b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return two classes as −1 and +1, with any labels; other targets unchanged."""
    values = np.unique(b)
    return np.where(b == values[1], 1.0, -1.0) if values.size == 2 else b


def _generated(name: str) -> tuple[Any, NDArray[np.float64]]:
    """Stand-ins with 20 features that matter, columns correlated where dense."""
    rng = np.random.default_rng(0)
    shapes = {"generated-sparse": (4000, 20000), "generated-wide": (500, 2000), "generated-tiny": (80, 12)}
    n, d = shapes.get(name, (1000, 400))
    if name == "generated-sparse":
        places = rng.integers(0, d, 100 * n), np.arange(0, 100 * n + 1, 100)  # a hundred entries a row
        X: Any = scipy.sparse.csr_matrix((rng.standard_normal(100 * n), *places), shape=(n, d))
        X.sum_duplicates()
    else:
        X = rng.standard_normal((n, d))
        for j in range(1, d):
            X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    truth = np.zeros(d)
    truth[:: max(d // 20, 1)][:20] = np.resize([1.0, -1.5, 2.0, -0.5], truth[:: max(d // 20, 1)][:20].size)
    z = X @ truth
    if name in ("generated-squared", "generated-wide"):
        return X, z + 2 * rng.standard_normal(n)
    return X, np.sign(z + rng.logistic(size=n))


def hand_over(data: Dataset, folder: Path) -> Path:
    """Write a data set where processes read it; at most once for each name."""
    place = folder / data.name.replace(":", "_")
    if not (place / "kind.json").exists():
        place.mkdir(parents=True, exist_ok=True)
        if data.sparse:
            for part in ("data", "indices", "indptr"):
                np.save(place / f"{part}.npy", getattr(data.X, part))
        else:
            np.save(place / "X.npy", data.X)
        np.save(place / "b.npy", data.b)
        kind = {"name": data.name, "sparse": data.sparse, "shape": list(data.X.shape), "loss": data.loss}
        (place / "kind.json").write_text(json.dumps(kind))
    return place


def taken(place: Path, by_columns: bool) -> Dataset:
    """Return the data of `hand_over`, by rows or by columns; a copy, because some peers reject read-only arrays."""
    kind = json.loads((place / "kind.json").read_text())
    b = np.load(place / "b.npy")
    if not kind["sparse"]:
        X: Any = np.load(place / "X.npy")
        return Dataset(kind["name"], np.asfortranarray(X) if by_columns else X, b)
    parts = tuple(np.load(place / f"{part}.npy") for part in ("data", "indices", "indptr"))
    rows = scipy.sparse.csr_matrix(parts, shape=tuple(kind["shape"]))
    return Dataset(kind["name"], rows.tocsc() if by_columns else rows, b)


def small_like(data: Dataset) -> Dataset:
    """Forty samples of ten features in the same storage: what code that compiles itself is warmed up with."""
    rng = np.random.default_rng(1)
    X: Any = rng.standard_normal((40, 10))
    z = X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(40)
    b = np.sign(z) if data.loss == "logistic" else z
    if not data.sparse:
        return Dataset("small", np.asarray(X, order="F" if data.X.flags.f_contiguous else "C"), b)
    return Dataset("small", type(data.X)(X), b)
