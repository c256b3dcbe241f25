"""The paper's six data sets as LIBSVM's site has them: their files, and what must be in them.

The counts are those of the paper's Table 3. No checksum is written here: who downloads a file pins it (`pins.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.datasets import pins
from experiments.datasets.errors import DataError
from experiments.datasets.split import Raw
from levelprox.exceptions import FileFormatError
from levelprox.io import read_libsvm

Double = NDArray[np.float64]

SITE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
SIGNS = frozenset({-1.0, 1.0})
DIGITS = frozenset(float(digit) for digit in range(10))


@dataclass(frozen=True)
class File:
    """One file, and what must be in it.

    Attributes
    ----------
    name : str
    folder : str
        Of the site.
    rows : int
    columns : int
        The largest index in a file for training; that of a file for the test may be less.
    labels : frozenset of float, or None
        All that must be there; None for a regression.
    nonzeros : str
        In percent of rows × `width`, as the paper writes it; empty for a file for the test.
    width : int
    """

    name: str
    folder: str
    rows: int
    columns: int
    labels: frozenset[float] | None
    nonzeros: str
    width: int


@dataclass(frozen=True)
class Original:
    """A row of the paper's Table 3, and where it is.

    Attributes
    ----------
    folder : str
        Of the site.
    names : tuple of str
        A file for training and one for the test, or one whose rows are divided at random.
    parts : tuple of int
        Rows for training and for the test.
    width : int
        Columns of X.
    nonzeros : str
        In percent.
    labels : frozenset of float, or None
        None for a regression.
    columns : int, optional
        The largest index in the file, where the last columns are empty.
    positive : float, optional
        The label that becomes +1, all others −1.
    unit : float
        By which values are divided.
    note : str
        As in `Source`.
    """

    folder: str
    names: tuple[str, ...]
    parts: tuple[int, int]
    width: int
    nonzeros: str
    labels: frozenset[float] | None
    columns: int | None = None
    positive: float | None = None
    unit: float = 1.0
    note: str = ""

    @property
    def files(self) -> tuple[File, ...]:
        """Those that must be there."""
        rows = self.parts if len(self.names) == 2 else (sum(self.parts),)
        return tuple(
            File(name, self.folder, n, self.columns or self.width, self.labels, nonzeros, self.width)
            for name, n, nonzeros in zip(self.names, rows, (self.nonzeros, ""), strict=False)
        )


ORIGINALS: dict[str, Original] = {
    "real-sim": Original(
        "binary",
        ("real-sim.bz2",),
        (50347, 21962),
        20958,
        "0.25",
        SIGNS,
        note="the paper's random split is not known: as many rows, drawn with seed 0",
    ),
    "rcv1.binary": Original(
        "binary", ("rcv1_train.binary.bz2", "rcv1_test.binary.bz2"), (20242, 677399), 47236, "0.16", SIGNS
    ),
    "mnist": Original(
        "multiclass",
        ("mnist.bz2", "mnist.t.bz2"),
        (60000, 10000),
        784,
        "19.12",
        DIGITS,
        columns=780,
        positive=5.0,
        unit=255.0,
    ),
    "gisette": Original("binary", ("gisette_scale.bz2", "gisette_scale.t.bz2"), (6000, 1000), 5000, "99.10", SIGNS),
    "E2006-tfidf": Original(
        "regression",
        ("E2006.train.bz2", "E2006.test.bz2"),
        (16087, 3308),
        150360,
        "0.83",
        None,
        note="targets centred by the training mean, of which the paper says nothing",
    ),
    "YearPredictionMSD": Original(
        "regression",
        ("YearPredictionMSD.bz2", "YearPredictionMSD.t.bz2"),
        (463715, 51630),
        90,
        "100",
        None,
        note="features standardised and targets centred on the training part, of which the paper says nothing",
    ),
}


def is_there(original: Original, folder: Path) -> bool:
    """Whether all files are in the folder; without a pin, or not of the pinned size, they are an error."""
    paths = [folder / name for name in original.names]
    if not all(path.is_file() for path in paths):
        return False
    known = pins.read(folder)
    for path in paths:
        pins.check_size(path, known)
    return True


def read(original: Original, folder: Path) -> Raw:
    """Both parts, from files whose bytes are those that were pinned."""
    known = pins.read(folder)
    parts = [_read(folder / name, known, original) for name in original.names]
    if len(parts) == 1:
        parts = _divided(*parts[0], original.parts[0])
    (X, b), (X_test, b_test) = parts
    return Raw(X, b, X_test, b_test)


def _read(path: Path, known: dict[str, pins.Pin], original: Original) -> tuple[Any, Double]:
    pins.check(path, known)
    try:
        X, y = read_libsvm(path, n_features=original.width)
    except (OSError, FileFormatError) as error:
        raise DataError(str(error)) from error
    X.data /= original.unit
    return X, y if original.positive is None else np.where(y == original.positive, 1.0, -1.0)


def _divided(X: Any, b: Double, n: int) -> list[tuple[Any, Double]]:
    """n random rows, and the rest."""
    order = np.random.default_rng(0).permutation(b.size)
    return [(X[rows], b[rows]) for rows in (np.sort(order[:n]), np.sort(order[n:]))]
