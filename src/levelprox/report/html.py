"""The certificate of a fitted estimator as HTML, for notebooks and pages."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox.report.fitted import (
    Column,
    as_html,
    by_size,
    certificate_words,
    facts_as_html,
    feature_name,
    notes_as_html,
    standardized,
)
from levelprox.result import Status

_MAX_FEATURES, _MAX_CLASSES = 30, 8

#: Style of all cards, readable on light and dark backgrounds.
STYLE = """
.levelprox-card{font:13px/1.5 system-ui,sans-serif;max-width:46em;margin:.6em 0;padding:.7em 1em;color:inherit;
border:1px solid rgba(128,128,128,.45);border-radius:6px}
.levelprox-card table{border-collapse:collapse;margin:.2em 0;background:none;font-size:inherit}
.levelprox-card th,.levelprox-card td{border:0;background:none;color:inherit;padding:.1em .9em .1em 0;text-align:left;
vertical-align:baseline;white-space:normal}
.levelprox-card th{font-weight:400;opacity:.72;white-space:nowrap}
.levelprox-card td.number,.levelprox-card th.number{text-align:right;font-variant-numeric:tabular-nums;
white-space:nowrap}
.levelprox-card .status{font-weight:600;border-radius:4px;padding:.05em .5em;margin-left:.5em;
border:1px solid currentColor}
.levelprox-card .good{background:rgba(0,158,115,.22)}
.levelprox-card .short{background:rgba(230,159,0,.3)}
.levelprox-card .bar{display:inline-block;position:relative;width:9em;height:.75em}
.levelprox-card .bar i{position:absolute;top:0;bottom:0;background:#0072b2;border-radius:1px}
.levelprox-card .bar i.minus{background:#d55e00}
.levelprox-card .bar b{position:absolute;top:-.15em;bottom:-.15em;left:50%;width:1px;background:rgba(128,128,128,.8)}
.levelprox-card .more{opacity:.72}
.levelprox-card .features{font-family:inherit;margin-top:.5em;padding-top:.4em;overflow-x:auto;
border-top:1px solid rgba(128,128,128,.3)}
"""


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
    return (
        f'<style>{STYLE}</style><div class="levelprox-card"><div>Certificate'
        f'<span class="status {kind}">{escape(str(status).replace("_", " "))}</span></div>'
        f"{facts_as_html(certificate_words(estimator))}{_features(estimator)}</div>"
    )


def _features(estimator: Any) -> str:
    """Return the table of the selected features, the largest standardised coefficients first."""
    coef, scaled = np.atleast_2d(estimator.coef_), standardized(estimator)
    order = by_size(estimator)
    if not order.size:
        return '<div class="features">No feature is selected: the intercept alone.</div>'
    shown = order[:_MAX_FEATURES]
    table = [Column("selected feature", [feature_name(estimator, j) for j in shown], False)]
    columns = _columns(estimator, coef.shape[0])
    table += [Column(label, [f"{coef[row, j]:.4g}" for j in shown]) for label, row in columns]
    if coef.shape[0] == 1:
        largest = float(np.linalg.norm(scaled[:, shown[0]]))
        bars = [_bar(float(scaled[0, j]) / largest) for j in shown]
        table.append(Column("standardised", bars, False, is_html=True))
    left, classes = order.size - shown.size, coef.shape[0] - len(columns)
    notes = [f"and {left} more"] if left else []
    notes += [f"and coefficients of {classes} more classes"] if classes else []
    return f'<div class="features">{as_html(table)}{notes_as_html(notes)}</div>'


def _columns(estimator: Any, width: int) -> list[tuple[str, int]]:
    """Return the labels of the coefficient columns and their rows of coef_."""
    if width == 1:
        return [("coefficient", 0)]
    classes: NDArray[Any] = estimator.classes_
    return [(str(classes[row]), row) for row in range(min(width, _MAX_CLASSES))]


def _bar(part: float) -> str:
    """Return a bar for a coefficient relative to the largest, to either side of zero."""
    length = 50 * min(abs(part), 1.0)
    side, kind = ("right", "minus") if part < 0 else ("left", "plus")
    return f'<span class="bar"><i class="{kind}" style="{side}:50%;width:{length:.1f}%"></i><b></b></span>'
