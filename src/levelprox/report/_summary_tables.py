"""The tables of a ModelSummary."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from levelprox.exceptions import counted
from levelprox.report.fitted import Column, cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from levelprox.report.model_summary import FeatureSummary, ModelSummary

_MAX_ROWS, _MAX_CLASSES, _MAX_REPLACEMENTS = 40, 8, 2
_MAX_RELATIVE_INCREASE = 1e4  # of the loss: larger ones are not given in percent


def rows_left_out(summary: ModelSummary) -> list[str]:
    """Return a sentence on the rows and columns that the tables leave out, if there are any."""
    rows, classes = len(summary.features) - _MAX_ROWS, len(summary.classes or ()) - _MAX_CLASSES
    left = [counted(rows, "more feature")] if rows > 0 else []
    left += [f"coefficients of {counted(classes, 'more class', 'more classes')}"] if classes > 0 else []
    return [f"and {' and '.join(left)}: to_frame() has all of them"] if left else []


def summary_tables(summary: ModelSummary) -> list[tuple[str, list[Column]]]:
    """Return the tables with their titles: one, or for more than two classes one for each kind of figure."""
    rows = summary.features[:_MAX_ROWS]
    if not rows:
        labels = summary.classes or ("coefficient",)
        cells = [Column(cut(label, 16), [_number(one)]) for label, one in zip(labels, summary.intercept, strict=True)]
        return [("", [Column("feature", ["(intercept)"], False), *cells[:_MAX_CLASSES]])]
    if summary.classes is None:
        return [("", [*_coefficient_columns(summary, rows), *_data_columns(summary, rows, 1)])]
    classes = summary.classes[:_MAX_CLASSES]
    names = Column("feature", [cut(row.name) for row in rows], False)
    length = [_number(math.hypot(*row.standardized)) for row in rows]
    first = [names, Column("size, standardised", length), *_data_columns(summary, rows, 0)]
    with_intercept = Column("feature", [*names.cells, "(intercept)"], False)
    coefficients = [
        Column(cut(label, 16), [*(_number(row.coefficient[k]) for row in rows), _number(summary.intercept[k])])
        for k, label in enumerate(classes)
    ]
    tables = [("", first), ("Coefficients of each class", [with_intercept, *coefficients])]
    if summary.ratio_name is not None:
        ratios = [Column(cut(label, 16), [_ratio(row, k) for row in rows]) for k, label in enumerate(classes)]
        tables.append((f"{summary.ratio_name.capitalize()}s of each class", [names, *ratios]))
    return tables


def _coefficient_columns(summary: ModelSummary, rows: Sequence[FeatureSummary]) -> list[Column]:
    """Return the columns of a model with one coefficient for each feature, the intercept below."""
    columns = [
        Column("feature", [*(cut(row.name) for row in rows), "(intercept)"], False),
        Column("coefficient", [*(_number(row.coefficient[0]) for row in rows), _number(summary.intercept[0])]),
    ]
    if summary.ratio_name is not None:
        columns.append(Column(summary.ratio_name, [*(_ratio(row, 0) for row in rows), ""]))
    columns.append(Column("standardised", [*(_number(row.standardized[0]) for row in rows), ""]))
    return columns


def _data_columns(summary: ModelSummary, rows: Sequence[FeatureSummary], n_empty: int) -> list[Column]:
    """Return the columns that were computed from data, with empty cells below."""
    known = [row.contribution for row in rows if row.contribution is not None]
    empty, scale = [""] * n_empty, summary.loss_scale
    columns = []
    if any(one.increase is not None for one in known):
        columns.append(Column("loss if left out", [*(_increase(row, scale) for row in rows), *empty]))
    if any(one.swaps is not None for one in known):
        columns.append(Column("swaps within 1 %", [*map(_swaps, rows), *empty]))
    if any(row.instead for row in rows):
        columns.append(Column("or instead", [*(_replacements(row, scale) for row in rows), *empty], False))
    return columns


def _increase(row: FeatureSummary, scale: float) -> str:
    one = row.contribution
    if one is None or one.increase is None:
        return "not computed"
    about = "" if one.checked else "about "
    share = f" ({_percent(one.increase, scale)})" if one.increase < _MAX_RELATIVE_INCREASE * scale else ""
    return f"{about}+{max(one.increase, 0.0):.3g}{share}"


def _percent(increase: float, scale: float) -> str:
    share = 100 * max(increase, 0.0) / scale
    return f"+{share:,.0f} %" if share >= 10 else f"+{share:.1f} %"


def _replacements(row: FeatureSummary, scale: float) -> str:
    if row.contribution is None or not row.instead:
        return ""
    shown = [
        f"{cut(name)} ({_percent(increase, scale)})"
        for name, (_, increase) in zip(row.instead, row.contribution.instead, strict=True)
    ][:_MAX_REPLACEMENTS]
    return ", ".join(shown) + (", …" if (row.contribution.swaps or 0) > len(shown) else "")


def _swaps(row: FeatureSummary) -> str:
    """Return how many swaps raise the loss by at most 1 %."""
    one = row.contribution
    if not row.counts:
        return "always kept"
    if one is None or one.swaps is None or (one.total and not one.examined):
        return "not examined"
    if one.dispensable and one.total:
        return f"any of {one.total}"
    if one.examined == one.total:
        return f"{one.swaps} of {one.total}"
    return f"{one.swaps} of {one.examined} examined"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _ratio(row: FeatureSummary, k: int) -> str:
    if row.ratio is None:
        return ""
    return f"{row.ratio[k]:.4g}" if math.isfinite(row.ratio[k]) else f"exp({row.coefficient[k]:.4g})"
