"""What all displays share: axes to draw on, colours, and names at the ends of lines instead of a legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from levelprox.exceptions import InvalidInputError

#: Okabe and Ito's colours, which people with any colour vision can tell apart; their yellow is too light for a line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8C564B")
INK, GREY, PALE = "#333333", "#8A8A8A", "#CFCFCF"
SMALL = 8.5  # points: names at lines, notes


def new_axes(ax: Any, heights: Sequence[float] = (1.0,), size: tuple[float, float] = (7.0, 4.3)) -> list[Any]:
    """Axes to draw on, one above the other: those given, or those of a new figure.

    Parameters
    ----------
    ax : matplotlib Axes, sequence of Axes or None
    heights : sequence of float
        Relative heights of the panels that are wanted; of one that is given alone, only the first is drawn.
    size : tuple of float
        Of a new figure, in inches.
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
        _plain(panel)
    return panels


def _plain(panel: Any) -> None:
    """Nothing but the two axes that say something."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["left", "bottom"]].set_color(GREY)
    panel.tick_params(colors=INK, length=3)
    panel.grid(False)


def whole_numbers(panel: Any) -> None:
    """Ticks of the x axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    panel.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True))


def note(panel: Any, text: str, x: float, y: float, colour: str, **options: Any) -> Any:
    """A few words beside a point of the data, a little above it and to its right."""
    placed = {"xytext": (5, 5), "textcoords": "offset points", "fontsize": SMALL, **options}
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground=panel.get_facecolor())]  # keeps words apart from the lines below them
    return panel.annotate(text, (x, y), color=colour, path_effects=halo, **placed)


def name_lines(panel: Any, names: Sequence[str], ends: ArrayLike, colours: Sequence[str]) -> list[Any]:
    """Names to the right of the panel, each at the height where its line ends, moved apart where they would overlap.

    Parameters
    ----------
    panel : matplotlib Axes
        With its limits as they will be.
    names : sequence of str
    ends : array-like of float
        Where the lines end, in units of the y axis.
    colours : sequence of str
    """
    low, high = panel.get_ylim()
    heights = (np.asarray(ends, np.float64) - low) / (high - low)
    inches = panel.get_position().height * panel.figure.get_size_inches()[1]
    placed = spread(heights, 1.35 * SMALL / 72 / inches)
    leader = {"arrowstyle": "-", "lw": 0.6, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)}
    texts = []
    for name, height, place, colour in zip(names, heights, placed, colours, strict=True):
        texts.append(
            panel.annotate(
                shortened(name),
                (1.0, height),
                xytext=(1.025, place),
                xycoords="axes fraction",
                textcoords="axes fraction",
                color=colour,
                fontsize=SMALL,
                va="center",
                ha="left",
                annotation_clip=False,
                arrowprops={**leader, "color": colour},
            )
        )
    return texts


def spread(places: ArrayLike, apart: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Places at least so far apart, in the same order, near to where they were.

    Places that collide form a block about the mean of what they wanted; blocks that collide are joined.
    """
    wanted = np.asarray(places, np.float64)
    order = np.argsort(wanted, kind="stable")
    blocks: list[tuple[float, int]] = []  # mean of (wanted − offset within the block), size
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
    """A name, cut where it is very long; signs that matplotlib would take for mathematics are kept as they are."""
    text = name if len(name) <= longest else f"{name[: longest - 1]}…"
    return text.replace("$", r"\$")
