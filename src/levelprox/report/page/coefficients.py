"""Coefficients on a page: the rows of a table for one fit, and lines along all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox.report.drawing import COLOURS
from levelprox.report.fitted import by_size, coefficient_name, in_one_figure, standardized
from levelprox.report.lines import largest, where_used
from levelprox.report.page.family import Family

#: A cell of the table: a number, and the standardised coefficient as a part of the largest one, where that is shown.
Cell = list[Any]

_MOST_ROWS, _MOST_CLASSES, _MOST_LINES = 100, 8, 150


def figure(value: float, digits: int = 4) -> str:
    """A number as it is printed."""
    return f"{value:.{digits}g}".replace("-", "−")


def cell_figure(value: float) -> str:
    """The same in a column: all digits, so that numbers stand below one another."""
    return f"{value:#.4g}".rstrip(".").replace("-", "−")


def columns_of(model: Any) -> list[str]:
    """What the columns of the table are called, but for the first, which has the features."""
    width = np.atleast_2d(model.coef_).shape[0]
    if width == 1:
        return ["coefficient", "standardised"] if model.standardize else ["coefficient"]
    return [str(name) for name in model.classes_[:_MOST_CLASSES]]


def sign_of(model: Any) -> str:
    """Of two classes, for which one a positive coefficient speaks."""
    if not hasattr(model, "classes_") or model.classes_.size != 2:
        return ""
    negative, positive = model.classes_
    return f"Positive coefficients speak for class {positive}, negative ones for class {negative}."


def rows_of(fit: Any) -> list[tuple[int, list[Cell]]]:
    """The selected features and their cells, the largest first, as many as are shown."""
    order = by_size(fit)[:_MOST_ROWS]
    coef, scaled = np.atleast_2d(fit.coef_)[:, order], standardized(fit)[:, order]
    parts = 100 * scaled / np.max(np.abs(scaled), initial=0.0, where=np.isfinite(scaled)) if order.size else scaled
    if coef.shape[0] > 1:
        shown = range(min(coef.shape[0], _MOST_CLASSES))
        return [(int(j), [[cell_figure(coef[c, i]), _part(parts[c, i])] for c in shown]) for i, j in enumerate(order)]
    if not fit.standardize:
        return [(int(j), [[cell_figure(coef[0, i]), _part(parts[0, i])]]) for i, j in enumerate(order)]
    return [
        (int(j), [[cell_figure(coef[0, i]), None], [cell_figure(scaled[0, i]), _part(parts[0, i])]])
        for i, j in enumerate(order)
    ]


def _part(value: float) -> float:
    return round(float(value), 1) + 0.0


def intercept_of(fit: Any) -> list[Cell]:
    """The cells of the intercept, which has no standardised size; none where there is no intercept."""
    if not fit.fit_intercept:
        return []
    values = np.atleast_1d(fit.intercept_)
    if values.size > 1:
        return [[cell_figure(value), None] for value in values[:_MOST_CLASSES]]
    return [[cell_figure(values[0]), None], *([["", None]] if fit.standardize else [])]


def left_out_of(fit: Any) -> str:
    """What the table leaves out, in words."""
    features = int(fit.selected_features_.size) - _MOST_ROWS
    classes = np.atleast_2d(fit.coef_).shape[0] - _MOST_CLASSES
    words = [f"{features} more features"] if features > 0 else []
    words += [f"the coefficients of {classes} more classes"] if classes > 0 else []
    return f"and {' and '.join(words)}" if words else ""


def lines_of(family: Family) -> dict[str, Any]:
    """The lines of the figure: features, their values at each budget, and which of them have a colour.

    As `PathDisplay`: the largest of the model itself and of the largest fit have a colour, all others are grey. Fits of
    separable data, whose coefficients only precision limits, are left out.
    """
    values = np.array([in_one_figure(one) for one in family.fits])
    sure = np.array(family.sure)
    size = np.max(np.abs(values[sure]), axis=0)
    used = np.array(largest(size, _MOST_LINES), np.intp)
    picked = values[:, used]
    names = len(COLOURS)
    named = list(dict.fromkeys([*largest(picked[family.own], names), *largest(picked[sure][-1], names)]))
    curves = where_used(picked)
    curves[~sure] = np.nan
    return {
        "title": coefficient_name(family.model),
        "features": [int(j) for j in used],
        "values": [_rounded(curves[:, i]) for i in range(used.size)],
        "colours": [named.index(i) if i in named else -1 for i in range(used.size)],
        "left_out": int(np.count_nonzero(size)) - int(used.size),
    }


def _rounded(curve: NDArray[np.float64]) -> list[float | None]:
    """Five digits are more than can be drawn."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in curve]
