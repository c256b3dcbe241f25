"""Words for one or two marked points of a curve, in rows of their own at the edge of the axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from levelprox.report.drawing import SMALL, note

_ROW = 1.5 * SMALL  # points from row to row
_GAP = 0.9 * SMALL  # points between the data and the first row
_LETTER = 0.52 * SMALL / 72  # inches, of a letter on average
_SIDES = ("center", "left", "right")


@dataclass(frozen=True)
class Mark:
    """A point, and what is to be said of it."""

    x: float
    y: float
    words: str
    colour: str
    short: str = ""  # where there is no room for all words


def room_for_labels(panel: Any, low: float, high: float, rows: int, below: bool) -> tuple[float, float]:
    """Limits of the y axis that leave the data from `low` to `high`, with so many rows of words below or above."""
    strip = min((_GAP + rows * _ROW) / 72 / _size(panel)[1], 0.5)
    margin = 0.05
    unit = (high - low) / (1 - strip - margin)
    return (low - strip * unit, high + margin * unit) if below else (low - margin * unit, high + strip * unit)


def label_marks(panel: Any, marks: Sequence[Mark], below: bool) -> list[Any]:
    """Words for each mark in a row of its own, with a thin line to the mark that crosses no other words.

    Parameters
    ----------
    panel : matplotlib Axes
        With its limits as they will be, as of `room_for_labels`.
    marks : sequence of Mark
        One or two.
    below : bool
        Whether the rows are at the lower edge.
    """
    width = _size(panel)[0]
    marks = [
        replace(mark, words=mark.short) if mark.short and _LETTER * len(mark.words) > 0.8 * width else mark
        for mark in marks
    ]
    left, right = panel.get_xlim()
    places = [(mark.x - left) / (right - left) for mark in marks]
    widths = [_LETTER * len(mark.words) / width for mark in marks]
    # The words of the inner row must leave the line to the outer one free.
    choices = [
        (_room(side, places[i], widths[i], places[1 - i] if len(marks) == 2 else None), -rank, i)
        for i in range(len(marks))
        for rank, side in enumerate(_SIDES)
    ]
    _, rank, inner = max(choices)
    texts = []
    for i, mark in enumerate(marks):
        side = _SIDES[-rank] if i == inner else _widest(places[i], widths[i])
        row = len(marks) - 1 if i == inner else 0
        start = None  # where words fit on no side, only beginning at the edge of the axes or ending there
        if _room(side, places[i], widths[i], None) < 0:
            start = min(max(places[i] - widths[i] / 2, 0.0), max(1 - widths[i], 0.0))
        texts.append(_write(panel, mark, side, row, below, start))
    return texts


def _widest(place: float, width: float) -> str:
    """The side with the most room, nothing else being there."""
    return max(_SIDES, key=lambda side: _room(side, place, width, None))


def _room(side: str, place: float, width: float, other: float | None) -> float:
    """How far words on this side of a place stay within the axes and away from another place; enough is enough."""
    start = place - {"left": 0.0, "center": 0.5, "right": 1.0}[side] * width
    free = min(start, 1 - start - width)
    if other is not None:
        free = min(free, max(start - other, other - start - width))
    return min(free, 0.01)


def _write(panel: Any, mark: Mark, side: str, row: int, below: bool, start: float | None) -> Any:
    """Words in a row counted from the edge, at a distance in points that stays when the figure is resized."""
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    up = (row + 0.5) * _ROW / 72 * (1 if below else -1)
    edge = panel.transAxes + ScaledTranslation(0, up, panel.figure.dpi_scale_trans)
    across = panel.transData if start is None else panel.transAxes
    middle = {"left": 0.0, "center": 0.5, "right": 1.0}[side] if start is None else 0.5
    return note(
        panel,
        mark.words,
        mark.x,
        mark.y,
        mark.colour,
        xytext=(mark.x if start is None else start, 0.0 if below else 1.0),
        textcoords=blended_transform_factory(across, edge),
        ha=side if start is None else "left",
        va="center",
        zorder=5,
        arrowprops={
            "arrowstyle": "-",
            "lw": 0.7,
            "color": mark.colour,
            "shrinkA": 1,
            "shrinkB": 4.5,
            "relpos": (middle, 1.0 if below else 0.0),
        },
    )


def _size(panel: Any) -> tuple[float, float]:
    """Width and height in inches, about: the layout is not known before a figure is drawn."""
    place, (width, height) = panel.get_position(), panel.figure.get_size_inches()
    return float(place.width * width), float(place.height * height)
