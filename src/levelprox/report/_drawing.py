"""Functions of the displays: axes, colours, names at the ends of lines, labels of marked points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from levelprox._typing import Vector
from levelprox.exceptions import InvalidInputError

#: Colours of Okabe and Ito, distinguishable with any colour vision, without their yellow, too light for a line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8C564B")
INK, GREY, PALE = "#333333", "#8A8A8A", "#CFCFCF"
SMALL = 8.5  # font size in points, of labels at lines
#: Phases of a search for features: name in legends, and colour.
PHASES = {
    "forward": ("forward selection", COLOURS[5]),
    "continuation": ("continuation", COLOURS[2]),
    "exchanges": ("swaps", COLOURS[0]),
    "proof": ("proof", COLOURS[1]),
}


def new_axes(ax: Any, heights: Sequence[float] = (1.0,), size: tuple[float, float] = (7.0, 4.3)) -> list[Any]:
    """Return axes to draw on, one above the other: those given, or those of a new figure.

    Parameters
    ----------
    ax : matplotlib Axes, sequence of Axes or None
    heights : sequence of float
        Relative heights of the panels; if a single Axes is given, only the first panel is drawn.
    size : tuple of float
        Size of a new figure, in inches.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("displays need matplotlib: pip install levelprox[plot]") from error
    if ax is None:
        _, made = pyplot.subplots(
            len(heights), 1, sharex=True, squeeze=False, figsize=size, layout="constrained", height_ratios=list(heights)
        )
        panels = list(made[:, 0])
    else:
        panels = list(np.atleast_1d(np.asarray(ax, dtype=object)).ravel())
        if len(panels) not in (1, len(heights)):
            raise InvalidInputError(f"ax must be one Axes or {len(heights)} of them, got {len(panels)}")
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.spines[["left", "bottom"]].set_color(GREY)
        panel.tick_params(colors=INK, length=3)
        panel.grid(False)
    return panels


def label_x(panel: Any, text: str, whole: bool) -> None:
    """Label the x axis; if `whole`, put its ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    panel.set_xlabel(text, color=INK)
    if whole:
        panel.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True))


def note(panel: Any, text: str, x: float, y: float, colour: str, **options: Any) -> Any:
    """Annotate a point, by default above it and to its right."""
    placed = {"xytext": (5, 5), "textcoords": "offset points", "fontsize": SMALL, **options}
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground=panel.get_facecolor())]  # separates text from lines below it
    return panel.annotate(text, (x, y), color=colour, path_effects=halo, **placed)


def name_lines(panel: Any, names: Sequence[str], ends: ArrayLike, colours: Sequence[str]) -> list[Any]:
    """Write names to the right of the panel, at the ends of their lines, moved apart where they would overlap.

    Parameters
    ----------
    panel : matplotlib Axes
        With its final limits.
    names : sequence of str
    ends : array-like of float
        Ends of the lines, in units of the y axis.
    colours : sequence of str
    """
    low, high = panel.get_ylim()
    heights = (np.asarray(ends, np.float64) - low) / (high - low)
    placed = spread(heights, 1.35 * SMALL / 72 / _size(panel)[1])
    leader = {"arrowstyle": "-", "lw": 0.6, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)}
    options: Any = {"xycoords": "axes fraction", "textcoords": "axes fraction", "va": "center"}
    texts = []
    for name, height, place, colour in zip(names, heights, placed, colours, strict=True):
        options |= {"xytext": (1.025, place), "arrowprops": {**leader, "color": colour}}
        texts.append(note(panel, shortened(name), 1.0, height, colour, annotation_clip=False, **options))
    return texts


def spread(places: ArrayLike, apart: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return positions at least `apart` from each other, in the same order and close to the given ones.

    Positions that collide form a block around the mean of their targets; blocks that collide are merged.
    """
    wanted = np.asarray(places, np.float64)
    order = np.argsort(wanted, kind="stable")
    blocks: list[tuple[float, int]] = []  # mean of (requested − offset within the block), size
    for place in wanted[order]:
        mean, size = float(place), 1
        while blocks and blocks[-1][0] + blocks[-1][1] * apart > mean:
            last, n = blocks.pop()
            mean, size = (last * n + (mean - n * apart) * size) / (n + size), n + size
        blocks.append((mean, size))
    ordered = np.concatenate([mean + apart * np.arange(size) for mean, size in blocks]) if blocks else wanted
    result = np.empty_like(wanted)
    result[order] = ordered
    return result


def shortened(name: str, longest: int = 28) -> str:
    """Return a name, cut if it is long, with the dollar signs that matplotlib would take for mathematics escaped."""
    text = name if len(name) <= longest else f"{name[: longest - 1]}…"
    return text.replace("$", r"\$")


_ROW = 1.5 * SMALL  # points between rows
_GAP = 0.9 * SMALL  # points between the data and the first row
_LETTER = 0.52 * SMALL / 72  # inches, mean width of a letter
#: Sides of a mark where its label may be, the preferred one first: part of the label to the left of the mark.
_SIDES = {"center": 0.5, "left": 0.0, "right": 1.0}


@dataclass(frozen=True)
class Mark:
    """A marked point and its label."""

    x: float
    y: float
    words: str
    colour: str
    short: str = ""  # if there is no room for the whole label


def room_for_labels(panel: Any, low: float, high: float, rows: int, below: bool) -> tuple[float, float]:
    """Return limits of the y axis that show `low` to `high`, with room for rows of labels below or above."""
    strip = min((_GAP + rows * _ROW) / 72 / _size(panel)[1], 0.5)
    margin = 0.05
    unit = (high - low) / (1 - strip - margin)
    return (low - strip * unit, high + margin * unit) if below else (low - margin * unit, high + strip * unit)


def label_marks(panel: Any, marks: Sequence[Mark], below: bool) -> list[Any]:
    """Write the label of each mark in its own row, with a thin line to the mark that crosses no other label.

    Parameters
    ----------
    panel : matplotlib Axes
        With its final limits, as from `room_for_labels`.
    marks : sequence of Mark
        One or two.
    below : bool
        Whether the labels are at the lower edge.
    """
    width = _size(panel)[0]
    marks = [
        replace(mark, words=mark.short) if mark.short and _LETTER * len(mark.words) > 0.8 * width else mark
        for mark in marks
    ]
    left, right = panel.get_xlim()
    sides = list(_SIDES)
    places = [(mark.x - left) / (right - left) for mark in marks]
    widths = [_LETTER * len(mark.words) / width for mark in marks]
    # The label of the inner row must not cross the line to the outer one.
    choices = [
        (_room(side, places[i], widths[i], places[1 - i] if len(marks) == 2 else None), -rank, i)
        for i in range(len(marks))
        for rank, side in enumerate(sides)
    ]
    _, rank, inner = max(choices)
    texts = []
    for i, (mark, place, share) in enumerate(zip(marks, places, widths, strict=True)):
        # The outer row takes the side with the most room.
        side = sides[-rank] if i == inner else max(sides, key=lambda side: _room(side, place, share, None))
        row = len(marks) - 1 if i == inner else 0
        start = None  # if the label fits on no side: aligned with an edge of the axes
        if _room(side, place, share, None) < 0:
            start = min(max(place - share / 2, 0.0), max(1 - share, 0.0))
        texts.append(_write(panel, mark, side, row, below, start))
    return texts


def _room(side: str, place: float, width: float, other: float | None) -> float:
    """Return the distance of a label on this side from the edges and from another mark, at most 0.01."""
    start = place - _SIDES[side] * width
    free = min(start, 1 - start - width)
    if other is not None:
        free = min(free, max(start - other, other - start - width))
    return min(free, 0.01)


def _write(panel: Any, mark: Mark, side: str, row: int, below: bool, start: float | None) -> Any:
    """Write a label in a row counted from the edge, at a distance in points, independent of the size of the figure."""
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    up = (row + 0.5) * _ROW / 72 * (1 if below else -1)
    edge = panel.transAxes + ScaledTranslation(0, up, panel.figure.dpi_scale_trans)
    across = panel.transData if start is None else panel.transAxes
    middle = 0.5 if start is not None else _SIDES[side]
    line = {"arrowstyle": "-", "lw": 0.7, "color": mark.colour, "shrinkA": 1, "shrinkB": 4.5}
    place: Any = {
        "xytext": (mark.x if start is None else start, 0.0 if below else 1.0),
        "textcoords": blended_transform_factory(across, edge),
        "ha": side if start is None else "left",
        "va": "center",
        "arrowprops": {**line, "relpos": (middle, 1.0 if below else 0.0)},
    }
    return note(panel, mark.words, mark.x, mark.y, mark.colour, zorder=5, **place)


def _size(panel: Any) -> tuple[float, float]:
    """Return the approximate width and height in inches: the layout is only known when the figure is drawn."""
    place, (width, height) = panel.get_position(), panel.figure.get_size_inches()
    return float(place.width * width), float(place.height * height)


def largest(row: Vector, most: int) -> list[int]:
    """Return the indices of the largest nonzero values, the largest first."""
    order = np.argsort(-np.abs(row), kind="stable")[:most]
    return [int(i) for i in order if row[i]]


def where_used(values: Vector) -> Vector:
    """Return the values with nan where a feature is unused, except next to a budget that uses it."""
    used = values != 0
    near = used.copy()
    near[:-1] |= used[1:]
    near[1:] |= used[:-1]
    return np.where(near, values, np.nan)


def span_of(values: Vector) -> tuple[float, float]:
    """Return the least and greatest finite value, apart if they are equal."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    half = 0.5 * (abs(low) or 1.0) * (high - low <= 1e-12 * abs(low))
    return low - half, high + half


def without_one_fold(scores: Vector, folds: Vector) -> Vector:
    """Clip the scores to the range of the folds without the one farthest from their median."""
    off = np.abs(folds - np.median(folds, axis=1, keepdims=True))
    rest = np.sort(np.take_along_axis(folds, np.argsort(off, axis=1)[:, :-1], axis=1), axis=1)
    return np.clip(scores, rest[:, 0], rest[:, -1])
