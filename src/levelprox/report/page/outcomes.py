"""What a fit predicted beside what was: a table of classes, or points of residuals.

Points are drawn on a grid of a thousand steps, and of many samples some at even distances, so that a page stays small
and is the same each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox.report.page.family import Family
from levelprox.report.page.judged import Samples

_MOST_CLASSES = 12
_MOST_POINTS, _ALL_POINTS, _LEAST_POINTS = 2000, 30_000, 250
_STEPS = 1000
_OTHER, _UNKNOWN = "other", "not seen in training"


@dataclass(frozen=True, eq=False)
class Classes:
    """A table of classes: rows are what was, columns what was predicted.

    Attributes
    ----------
    names : list of str
        Of the columns: the most frequent classes, and all others together where they are many.
    rows : list of str
        The same, and one more where a class is there that no fit knows.
    """

    names: list[str]
    rows: list[str]
    _place: NDArray[np.intp]
    _actual: NDArray[np.intp]
    _known: NDArray[Any]
    _there: NDArray[np.intp]

    def look(self, predicted: NDArray[Any]) -> list[list[int]]:
        """How often each was taken for each."""
        guessed = self._place[np.searchsorted(self._known, predicted[self._there])]
        table = np.zeros((len(self.rows), len(self.names)), np.int64)
        np.add.at(table, (self._actual, guessed), 1)
        return [[int(n) for n in row] for row in table]

    def with_all(self, seen: list[list[list[int]]]) -> dict[str, Any]:
        """As data, with the counts of each fit."""
        return {"kind": "classes", "names": self.names, "rows": self.rows, "counts": seen}


def outcomes_of(family: Family, samples: Samples) -> Classes | Points:
    """How what the fits predict of these samples is shown."""
    if hasattr(family.model, "classes_"):
        return classes_of(family.model.classes_, samples)
    return points_of(samples, len(family.fits))


def classes_of(known: NDArray[Any], samples: Samples) -> Classes:
    """The table for these samples of these classes."""
    there = samples.there
    y = samples.y[there]
    seen = np.isin(y, known)
    places = np.searchsorted(known, y[seen])
    order = np.arange(known.size)
    if known.size > _MOST_CLASSES:
        often = np.argsort(-np.bincount(places, minlength=known.size), kind="stable")
        order = np.sort(often[: _MOST_CLASSES - 1])
    place = np.full(known.size, order.size, np.intp)
    place[order] = np.arange(order.size)
    names = [str(known[i]) for i in order] + ([_OTHER] if order.size < known.size else [])
    actual = np.full(y.size, len(names), np.intp)
    actual[seen] = place[places]
    return Classes(names, names if np.all(seen) else [*names, _UNKNOWN], place, actual, known, there)


@dataclass(frozen=True, eq=False)
class Points:
    """Samples to be drawn: a number of steps from `low` stands for low + steps · (high − low)/1000.

    Attributes
    ----------
    low, high : float
        Targets lie between them; predictions beyond are drawn at the edge.
    shown, all : int
        How many of the samples are drawn, and how many there are.
    actual : list of int
        The targets, in steps.
    """

    low: float
    high: float
    shown: int
    all: int
    actual: list[int]
    _rows: NDArray[np.intp]

    def look(self, predicted: NDArray[Any]) -> list[int]:
        """What a fit predicts of them, in steps."""
        return _steps(predicted[self._rows], self.low, self.high)

    def with_all(self, seen: list[list[int]]) -> dict[str, Any]:
        """As data, with what each fit predicts."""
        shown = {"kind": "residuals", "low": self.low, "high": self.high, "shown": self.shown, "all": self.all}
        return {**shown, "actual": self.actual, "predicted": seen}


def points_of(samples: Samples, n_fits: int) -> Points:
    """Some of the samples, the fewer the more fits there are."""
    there = samples.there
    most = min(_MOST_POINTS, max(_LEAST_POINTS, _ALL_POINTS // n_fits))
    rows = there if there.size <= most else there[np.linspace(0, there.size - 1, most).astype(np.intp)]
    y = np.asarray(samples.y[rows], np.float64)
    low, high = float(y.min()), float(y.max())
    room = 0.25 * (high - low) or 0.5 * (abs(high) or 1.0)
    low, high = low - room, high + room
    return Points(low, high, int(rows.size), int(there.size), _steps(y, low, high), rows)


def _steps(values: NDArray[Any], low: float, high: float) -> list[int]:
    inside = np.nan_to_num(np.clip(values.astype(np.float64), low, high), nan=low)
    return [int(i) for i in np.rint((inside - low) / (high - low) * _STEPS)]
