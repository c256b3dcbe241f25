"""The data sets of the experiments: the real ones where there are any, generated ones of the same kind where not.

The environment variable LEVELPROX_DATA names a folder whose `load_data.py` offers
`load(name) -> X_train, y_train, X_test, y_test`. Without it every name gives generated data, smaller but of a
similar shape, so that every experiment runs anywhere.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Double = NDArray[np.float64]
Labelled = tuple[Any, Double]

VARIABLE = "LEVELPROX_DATA"
#: The paper's sets that are not to be had, and what is taken instead.
STANDS_IN_FOR = {"gisette_like": "gisette", "news20": "real-sim"}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training samples X with labels b = ±1.

    Attributes
    ----------
    name : str
    label : str
        The name as a figure should say it: what is a stand-in, or generated, says so.
    X : ndarray or CSR array of shape (n, d)
    b : ndarray of shape (n,)
    """

    name: str
    label: str
    X: Any
    b: Double


def load(name: str) -> Dataset:
    """The set of that name from the folder of LEVELPROX_DATA, or one generated in its likeness."""
    folder = os.environ.get(VARIABLE)
    original = STANDS_IN_FOR.get(name)
    if not folder:
        X, b = GENERATED[name]()
        return Dataset(name, f"generated, like {original or name}", X, b)
    X, b = _loader(Path(folder))(name)[:2]
    return Dataset(name, f"{name} (stands in for {original})" if original else name, X, b)


def _loader(folder: Path) -> Callable[[str], tuple[Any, ...]]:
    """The folder's own `load`."""
    path = folder / "load_data.py"
    if not path.is_file():
        raise FileNotFoundError(f"{VARIABLE} must name a folder with a load_data.py, got {folder}")
    spec = importlib.util.spec_from_file_location("load_data", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    loader: Callable[[str], tuple[Any, ...]] = module.load
    return loader


def text(n: int, d: int, words: int, seed: int) -> Labelled:
    """Documents of about so many different words, frequent ones first by Zipf's law, as unit rows of tf-idf."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, d + 1)
    drawn = rng.choice(d, size=n * words, p=share / share.sum())
    counts = scipy.sparse.csr_array((np.ones(drawn.size), (np.repeat(np.arange(n), words), drawn)), shape=(n, d))
    counts.sum_duplicates()
    rarity = np.log((1 + n) / (1 + np.bincount(counts.indices, minlength=d))) + 1
    counts.data = np.log1p(counts.data) * rarity[counts.indices]
    lengths = np.sqrt((counts * counts).sum(axis=1))
    X = scipy.sparse.csr_array(scipy.sparse.diags_array(1 / lengths) @ counts)
    return X, _labels(X, rng)


def pixels(n: int, d: int, seed: int) -> Labelled:
    """Dense features in [−1, 1]: products of a few hidden ones, and as many shuffled copies that say nothing."""
    rng = np.random.default_rng(seed)
    hidden = rng.random((n, 40)) * (rng.random((n, 40)) < 0.4)
    real = hidden[:, rng.integers(40, size=d // 2)] * hidden[:, rng.integers(40, size=d // 2)]
    real /= real.max(axis=0)
    X = 2 * np.hstack([real, rng.permuted(real, axis=0)]) - 1
    return X, _labels(X[:, : d // 2], rng)


def _labels(X: Any, rng: np.random.Generator) -> Double:
    """±1 from a planted model of one column in twenty, one label in twenty wrong."""
    relevant = -(-X.shape[1] // 20)
    chosen = rng.choice(X.shape[1], relevant, replace=False)
    x = np.zeros(X.shape[1])
    x[chosen] = rng.standard_normal(relevant)
    margins = X @ x
    return np.where(margins > np.median(margins), 1.0, -1.0) * np.where(rng.random(X.shape[0]) < 0.05, -1, 1)


GENERATED: dict[str, Callable[[], Labelled]] = {
    "gisette_like": lambda: pixels(600, 500, seed=1),
    "rcv1": lambda: text(2000, 4700, words=75, seed=2),
    "news20": lambda: text(1500, 3300, words=130, seed=3),
}
