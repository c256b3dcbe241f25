"""Small generated substitutes of the paper's data sets, so that every experiment runs anywhere.

Text is drawn by Zipf's law and weighted by tf-idf; pictures are dense or four fifths empty. Labels and targets follow a
planted model of few columns, with noise, except the digits, where a class is a drawing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from experiments.datasets.split import Raw

Double = NDArray[np.float64]
Labelled = tuple[Any, Double]


def words(n: int, d: int, length: int, rng: np.random.Generator) -> Any:
    """Documents of about so many different words, frequent ones first by Zipf's law, as unit rows of tf-idf."""
    share = 1 / np.arange(1, d + 1)
    drawn = rng.choice(d, size=n * length, p=share / share.sum())
    counts = scipy.sparse.csr_array((np.ones(drawn.size), (np.repeat(np.arange(n), length), drawn)), shape=(n, d))
    counts.sum_duplicates()
    rarity = np.log((1 + n) / (1 + np.bincount(counts.indices, minlength=d))) + 1
    counts.data = np.log1p(counts.data) * rarity[counts.indices]
    lengths = np.sqrt((counts * counts).sum(axis=1))
    return scipy.sparse.csr_array(scipy.sparse.diags_array(1 / lengths) @ counts)


def text(n: int, d: int, length: int, seed: int) -> Labelled:
    """Documents with labels ±1."""
    rng = np.random.default_rng(seed)
    X = words(n, d, length, rng)
    return X, _labels(X, rng)


def rated_text(n: int, d: int, length: int, seed: int) -> Labelled:
    """Documents with a number each."""
    rng = np.random.default_rng(seed)
    X = words(n, d, length, rng)
    return X, _targets(X, rng)


def pixels(n: int, d: int, seed: int) -> Labelled:
    """Dense features in [−1, 1]: products of a few hidden ones, and as many shuffled copies that say nothing."""
    rng = np.random.default_rng(seed)
    hidden = rng.random((n, 40)) * (rng.random((n, 40)) < 0.4)
    real = hidden[:, rng.integers(40, size=d // 2)] * hidden[:, rng.integers(40, size=d // 2)]
    real /= real.max(axis=0)
    X = 2 * np.hstack([real, rng.permuted(real, axis=0)]) - 1
    return X, _labels(X[:, : d // 2], rng)


def digits(n: int, d: int, seed: int) -> Labelled:
    """Pictures in [0, 1] of ten drawings, about a fifth of the pixels lit; one drawing against the rest."""
    rng = np.random.default_rng(seed)
    drawing = rng.integers(10, size=n)
    lit = rng.random((10, d)) < 0.2
    lit = lit[drawing] ^ (rng.random((n, d)) < 0.08)
    X = lit * rng.uniform(0.2, 1, (n, d))
    return scipy.sparse.csr_array(X), np.where(drawing == 5, 1.0, -1.0)


def measurements(n: int, d: int, seed: int) -> Labelled:
    """Dense, correlated columns of different scales with a number each: far more rows than columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + rng.standard_normal((n, 8)) @ rng.standard_normal((8, d))
    return 5 + X * np.geomspace(0.1, 100, d), 1998 + 10 * _targets(X, rng)


def _planted(d: int, rng: np.random.Generator) -> Double:
    """One coefficient in twenty is not zero."""
    relevant = -(-d // 20)
    chosen = rng.choice(d, relevant, replace=False)
    x = np.zeros(d)
    x[chosen] = rng.standard_normal(relevant)
    return x


def _labels(X: Any, rng: np.random.Generator) -> Double:
    """±1 by a planted model, one label in twenty wrong."""
    margins = X @ _planted(X.shape[1], rng)
    return np.where(margins > np.median(margins), 1.0, -1.0) * np.where(rng.random(X.shape[0]) < 0.05, -1, 1)


def _targets(X: Any, rng: np.random.Generator) -> Double:
    """Return a planted model with standard deviation 1, plus noise of half that size."""
    fitted = X @ _planted(X.shape[1], rng)
    targets: Double = fitted / fitted.std() + 0.5 * rng.standard_normal(X.shape[0])
    return targets


def generate(name: str) -> Raw:
    """Return the substitute of the set of that name; its last quarter of rows is the test part."""
    X, b = GENERATED[name]()
    n = 3 * b.size // 4
    return Raw(X[:n], b[:n], X[n:], b[n:])


GENERATED: dict[str, Callable[[], Labelled]] = {
    "real-sim": lambda: text(2000, 3300, length=130, seed=3),
    "rcv1.binary": lambda: text(2667, 4700, length=75, seed=2),
    "mnist": lambda: digits(2000, 196, seed=4),
    "gisette": lambda: pixels(800, 500, seed=1),
    "E2006-tfidf": lambda: rated_text(1200, 6000, length=150, seed=5),
    "YearPredictionMSD": lambda: measurements(4000, 90, seed=6),
}
