"""How tasks name a data set, and get it: each process keeps the last one it read."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from experiments.datasets import DataError, Places, Split, load, source
from experiments.reproduce.study import Scope
from experiments.reproduce.task import Row

#: Training rows of a quick run.
QUICK_ROWS = 400


def argument(name: str, scope: Scope) -> Row:
    """Return the description of a data set for a task: its name, its number of rows, and its source.

    Folders are left out, so that answers stay good where data are moved.
    """
    try:
        label = source(name, scope.places).label
    except DataError:
        label = name  # the task will say what is wrong
    if scope.quick:
        return {"name": name, "rows": QUICK_ROWS, "label": f"{label}, {QUICK_ROWS} rows"}
    return {"name": name, "rows": None, "label": label}


def chosen(names: Sequence[str], scope: Scope) -> list[str]:
    """Return the names that are part of the run."""
    return [name for name in names if not scope.sets or name in scope.sets]


@functools.lru_cache(maxsize=1)
def _split(name: str, rows: int | None, where: Places) -> Split:
    return load(name, where, rows)


def split(dataset: Row) -> Split:
    """Return the data an argument names."""
    return _split(dataset["name"], dataset["rows"], Places.from_environment())


def zero_one(z: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """0-1 error in per cent of the classes +1 where z > 0, else −1, as scikit-learn predicts them."""
    return float(100 * np.mean(np.where(z > 0, 1.0, -1.0) != b))
