"""Tables and facts as text and as HTML: of a fitted estimator, its certificate and its summary."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from levelprox.exceptions import counted
from levelprox.report.fitted import by_size, certificate_words, feature_name, standardized
from levelprox.result import Status

if TYPE_CHECKING:
    from levelprox.report.model_summary import FeatureSummary, ModelSummary

_MAX_FEATURES, _MAX_LINES, _MAX_CLASSES = 30, 20, 8
_LINE_LENGTH = 118  # characters


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name : str
    cells : sequence of str
        One cell for each row.
    number : bool
        Whether the cells are aligned to the right.
    is_html : bool
        Whether the cells are HTML, not text to escape.
    """

    name: str
    cells: Sequence[str]
    number: bool = True
    is_html: bool = False


def as_text(columns: Sequence[Column], indent: str = "") -> str:
    """Return a table as text, with a header."""
    aligned = []
    for column in columns:
        cells = [column.name, *column.cells]
        width = max(map(len, cells))
        aligned.append([cell.rjust(width) if column.number else cell.ljust(width) for cell in cells])
    return "\n".join((indent + "  ".join(row)).rstrip() for row in zip(*aligned, strict=True))


def as_html(columns: Sequence[Column]) -> str:
    """Return a table as HTML; text is escaped."""
    head, texts = "", []
    for column in columns:
        kind = ' class="number"' if column.number else ""
        head += f"<th{kind}>{escape(column.name)}</th>"
        texts.append([f"<td{kind}>{cell if column.is_html else escape(cell)}</td>" for cell in column.cells])
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*texts, strict=True))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def titled_text(tables: Sequence[tuple[str, Sequence[Column]]]) -> list[str]:
    """Return tables as text, each below its title."""
    return [f"{title}\n{as_text(columns)}" if title else as_text(columns) for title, columns in tables]


def titled_html(tables: Sequence[tuple[str, Sequence[Column]]]) -> str:
    """Return tables as HTML, each below its title."""
    return "".join(
        f'<div class="features">{f"<div>{escape(title)}</div>" if title else ""}{as_html(columns)}</div>'
        for title, columns in tables
    )


def facts_as_text(facts: Sequence[tuple[str, str]]) -> str:
    """Return names and texts in two columns."""
    width = max((len(name) for name, _ in facts), default=0)
    return "\n".join(
        textwrap.fill(text, _LINE_LENGTH, initial_indent=f"{name:<{width}}  ", subsequent_indent=" " * (width + 2))
        for name, text in facts
    )


def facts_as_html(facts: Sequence[tuple[str, str]]) -> str:
    """Return names and texts as an HTML table."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts)
    return f"<table><tbody>{rows}</tbody></table>"


def notes_as_text(notes: Sequence[str]) -> str:
    """Return notes as a list in wrapped lines."""
    return "\n".join(textwrap.fill(note, _LINE_LENGTH, initial_indent="- ", subsequent_indent="  ") for note in notes)


def notes_as_html(notes: Sequence[str]) -> str:
    """Return notes as HTML."""
    return "".join(f'<div class="more">{escape(note)}</div>' for note in notes)


@cache
def resource(*path: str) -> str:
    """Return the text of a file of this package."""
    return resources.files("levelprox.report").joinpath(*path).read_text(encoding="utf-8")


def card(title: str, *parts: str, wide: bool = True) -> str:
    """Return HTML of a card with a title, which is HTML as well."""
    width = ' style="max-width:72em"' if wide else ""
    style = f"<style>\n{resource('card.css')}</style>"
    return f'{style}<div class="levelprox-card"{width}><div>{title}</div>{"".join(parts)}</div>'


def data_frame(columns: Mapping[str, Any]) -> Any:
    """Return columns as a pandas DataFrame; raise ImportError without pandas."""
    try:
        from pandas import DataFrame  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("to_frame() needs pandas: pip install pandas") from error
    return DataFrame(dict(columns))


def cut(name: str, longest: int = 32) -> str:
    """Return a name on one line, cut if it is long."""
    name = " ".join(name.split()) if any(sign.isspace() and sign != " " for sign in name) else name
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def fitted_words(estimator: Any) -> list[str]:
    """Return lines of text about a fitted estimator: its largest coefficients and its message."""
    coef, order = np.atleast_2d(estimator.coef_), by_size(estimator)
    shown = order if order.size <= _MAX_LINES else order[: _MAX_LINES - 1]
    several = coef.shape[0] > 1
    labels = [cut(str(label), 16) for label in estimator.classes_[:_MAX_CLASSES]] if several else ["coefficient"]
    intercept = np.atleast_1d(estimator.intercept_)
    columns = [Column("feature", [*(cut(feature_name(estimator, j)) for j in shown), "(intercept)"], False)]
    columns += [
        Column(label, [*(f"{coef[k, j]:.4g}" for j in shown), f"{intercept[k]:.4g}"]) for k, label in enumerate(labels)
    ]
    *lines, last = as_text(columns, "  ").split("\n")
    if shown.size < order.size:
        lines.append(f"  and {order.size - shown.size} more features")
    more = [last]
    if several and coef.shape[0] > len(labels):
        more.append(f"  and coefficients of {counted(coef.shape[0] - len(labels), 'more class', 'more classes')}")
    return [*lines, *more, *([str(estimator.message_)] if hasattr(estimator, "message_") else [])]


def certificate_html(estimator: Any) -> str:
    """Return the certificate of a fitted estimator as HTML: status, budget, optimality, shadow price and features.

    Parameters
    ----------
    estimator : SparseClassifier, SparseRegressor, SparseClassifierCV or SparseRegressorCV
        Fitted by `fit`.

    Returns
    -------
    str
        Self-contained HTML; names of features and classes are escaped.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import SparseRegressor
    >>> from levelprox.report import certificate_html
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> model = SparseRegressor(n_features=1).fit(X, 3 * X[:, 2])
    >>> html = certificate_html(model)
    >>> "1 of at most 1 feature" in html, "<td>x2</td>" in html
    (True, True)
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator, "certificate_")
    status: Status = estimator.status_
    kind = "good" if status is Status.SOLVED else "short"
    title = f'Certificate<span class="status {kind}">{escape(str(status).replace("_", " "))}</span>'
    return card(title, facts_as_html(certificate_words(estimator)), _features(estimator), wide=False)


def _features(estimator: Any) -> str:
    """Return the table of the selected features, the largest standardised coefficients first."""
    coef, scaled = np.atleast_2d(estimator.coef_), standardized(estimator)
    order = by_size(estimator)
    if not order.size:
        return '<div class="features">No feature is selected: the intercept alone.</div>'
    shown = order[:_MAX_FEATURES]
    table = [Column("selected feature", [feature_name(estimator, j) for j in shown], False)]
    labels = ["coefficient"] if coef.shape[0] == 1 else [str(label) for label in estimator.classes_[:_MAX_CLASSES]]
    table += [Column(label, [f"{coef[row, j]:.4g}" for j in shown]) for row, label in enumerate(labels)]
    if coef.shape[0] == 1:
        largest = float(np.linalg.norm(scaled[:, shown[0]]))
        bars = [_bar(float(scaled[0, j]) / largest) for j in shown]
        table.append(Column("standardised", bars, False, is_html=True))
    left, classes = order.size - shown.size, coef.shape[0] - len(labels)
    notes = [f"and {left} more"] if left else []
    notes += [f"and coefficients of {classes} more classes"] if classes else []
    return f'<div class="features">{as_html(table)}{notes_as_html(notes)}</div>'


def _bar(part: float) -> str:
    """Return a bar for a coefficient relative to the largest, to either side of zero."""
    length = 50 * min(abs(part), 1.0)
    side, kind = ("right", "minus") if part < 0 else ("left", "plus")
    return f'<span class="bar"><i class="{kind}" style="{side}:50%;width:{length:.1f}%"></i><b></b></span>'


_MAX_ROWS, _MAX_REPLACEMENTS = 40, 2
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
    return f"{one.swaps} of {one.examined}{'' if one.examined == one.total else ' examined'}"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _ratio(row: FeatureSummary, k: int) -> str:
    if row.ratio is None:
        return ""
    return f"{row.ratio[k]:.4g}" if math.isfinite(row.ratio[k]) else f"exp({row.coefficient[k]:.4g})"
