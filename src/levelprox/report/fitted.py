"""Facts about fitted estimators as text: names, axes, scores, the certificate, tables."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import numpy as np

from levelprox._typing import Features, Vector
from levelprox.certificate import Certificate
from levelprox.exceptions import InvalidInputError, counted
from levelprox.subset.result import SubsetCertificate

Axis = Literal["n_features", "level", "budget"]

_LABELS: dict[str, str] = {
    "n_features": "Number of features, at most",
    "level": "Level η",
    "budget": "Cost of the features, at most",
}


def check_axis(by: Axis) -> Axis:
    """Return `by`; raise InvalidInputError unless it is a kind of budget."""
    if by not in _LABELS:
        raise InvalidInputError(f"by must be one of {', '.join(_LABELS)}, got {by!r}")
    return by


def label_of(by: Axis) -> str:
    """Return the label of an axis of budgets."""
    return _LABELS[by]


_OF = "of held-out samples"
# Abbreviations in the names of scikit-learn.
_SIGNS = {"roc": "ROC", "auc": "AUC", "ovr": "OVR", "ovo": "OVO", "r2": "R²", "d2": "D²", "f1": "F1"}


def name_and_sign(scoring: Any) -> tuple[str, float]:
    """Return the name of a score and the sign with which it is drawn: negative losses are drawn as losses.

    Parameters
    ----------
    scoring : str, callable or None
        As estimators take it. A callable has the name of its function.
    """
    if scoring is None:
        return f"Loss {_OF}", -1.0
    if isinstance(scoring, str):
        words = [_SIGNS.get(word, word) for word in scoring.removeprefix("neg_").split("_")]
        words[0] = words[0][:1].upper() + words[0][1:]
        return f"{' '.join(words)} {_OF}", -1.0 if scoring.startswith("neg_") else 1.0
    # Scorers of make_scorer have a function and a sign.
    name = getattr(getattr(scoring, "_score_func", scoring), "__name__", "<none>")
    sign = -1.0 if getattr(scoring, "_sign", 1) < 0 else 1.0
    return f"{'Loss' if sign < 0 else 'Score'} {_OF}" if name.startswith("<") else f"{name} {_OF}", sign


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

    @property
    def html(self) -> list[str]:
        """Cells as HTML."""
        return list(self.cells) if self.is_html else [escape(cell) for cell in self.cells]


def as_text(columns: Sequence[Column], indent: str = "") -> str:
    """Return a table as text, with a header."""
    aligned = [_aligned(column) for column in columns]
    return "\n".join((indent + "  ".join(row)).rstrip() for row in zip(*aligned, strict=True))


def _aligned(column: Column) -> list[str]:
    cells = [column.name, *column.cells]
    width = max(map(len, cells))
    return [cell.rjust(width) if column.number else cell.ljust(width) for cell in cells]


def as_html(columns: Sequence[Column]) -> str:
    """Return a table as HTML; text is escaped."""
    kinds = [' class="number"' if column.number else "" for column in columns]
    head = "".join(f"<th{kind}>{escape(column.name)}</th>" for kind, column in zip(kinds, columns, strict=True))
    rows = zip(*(column.html for column in columns), strict=True)
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{cell}</td>' for kind, cell in zip(kinds, row, strict=True))}</tr>" for row in rows
    )
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


_MAX_LINES, _MAX_CLASSES = 20, 8  # in repr of an estimator


def check_ours(user: str, estimator: Any, chooses: bool = False) -> None:
    """Raise InvalidInputError unless `estimator` is one of levelprox.

    Parameters
    ----------
    user : str
        What needs the estimator, for the message.
    estimator : estimator
    chooses : bool, default=False
        Whether it must be an estimator that chooses its budget.
    """
    if not isinstance(estimator, type) and hasattr(estimator, "results_by_budget" if chooses else "fit_path"):
        return
    wanted = "SparseClassifierCV or SparseRegressorCV"
    wanted = wanted if chooses else f"SparseClassifier, SparseRegressor, {wanted}"
    if isinstance(estimator, type):
        got = f"the class {estimator.__name__}; did you forget ()?"
    else:
        got = type(estimator).__name__
    if hasattr(estimator, "named_steps"):
        got += ". Of a pipeline give its last step, pipeline[-1], and X as it comes to it, pipeline[:-1].transform(X)"
    raise InvalidInputError(f"{user} needs {wanted}, got {got}")


def feature_names(estimator: Any) -> list[str]:
    """Return the names of all features: those seen in `fit`, or x0, x1, ..."""
    return [feature_name(estimator, j) for j in range(estimator.n_features_in_)]


def feature_name(estimator: Any, j: int) -> str:
    """Return the name of a feature."""
    known = getattr(estimator, "feature_names_in_", None)
    return f"x{j}" if known is None else str(known[j])


def standardized(estimator: Any) -> Vector:
    """Return the standardised coefficients scale_ · coef_, of shape (n_outputs, d)."""
    return np.asarray(np.atleast_2d(estimator.coef_) * estimator.scale_, np.float64)


def in_one_figure(estimator: Any) -> Vector:
    """Return the standardised coefficient of each feature, or the norm of its several coefficients."""
    rows = standardized(estimator)
    return rows[0] if rows.shape[0] == 1 else np.asarray(np.linalg.norm(rows, axis=0))


def coefficient_name(estimator: Any) -> str:
    """Return the label of an axis of `in_one_figure`."""
    width = np.atleast_2d(estimator.coef_).shape[0]
    if width > 1:
        return f"Length of a feature's {width} coefficients"
    return "Coefficient × standard deviation" if estimator.standardize else "Coefficient"


def axis_of(estimator: Any) -> Axis:
    """Return the kind of the budget of a fit."""
    if hasattr(estimator, "budget_"):
        return "budget"
    return "level" if hasattr(estimator, "constraint_") else "n_features"


def budget_of_fit(estimator: Any) -> float:
    """Return the budget of a fit."""
    return float(getattr(estimator, "budget_", estimator.level_))


def by_size(estimator: Any) -> Features:
    """Return the selected features, the largest standardised coefficients first."""
    chosen: Features = estimator.selected_features_
    sizes = np.linalg.norm(standardized(estimator)[:, chosen], axis=0)
    return chosen[np.argsort(-sizes, kind="stable")]


def certificate_words(estimator: Any) -> list[tuple[str, str]]:
    """Return the facts about a fit as (name, text); the reason comes first if it did not succeed."""
    ended = [] if estimator.status_.success else [("why it ended", str(estimator.message_))]
    return [
        *ended,
        ("budget", budget_words(estimator)),
        ("loss", f"{estimator.certificate_.psi:.6g}"),
        *ridge_words(estimator),
        *optimality_words(estimator),
        ("shadow price", price_words(estimator)),
    ]


def ridge_words(estimator: Any) -> list[tuple[str, str]]:
    """Return the fact about the ridge, if there is one."""
    ridge = getattr(estimator, "ridge_", 0.0)
    return [("ridge", f"{ridge:.3g}; the loss includes its penalty")] if ridge else []


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


def budget_words(estimator: Any) -> str:
    """Return how much of the budget is used."""
    certificate = estimator.certificate_
    if isinstance(certificate, SubsetCertificate):
        used = f"{certificate.n_nonzero} of at most {_count(certificate.k)}{_kept(estimator, certificate.n_nonzero)}"
        if certificate.budget is None:
            return used
        if certificate.k >= estimator.n_features_in_:  # no limit on the number
            used = f"{_count(certificate.n_nonzero)}{_kept(estimator, certificate.n_nonzero)}"
        return f"cost {certificate.spent:.6g} ≤ {certificate.budget:.6g}; {used}"
    used = f"g = {certificate.g:.6g} ≤ {certificate.level:.6g}, {type(estimator.constraint_).__name__}"
    return f"{used}; {_count(certificate.n_nonzero)}{_kept(estimator, certificate.n_nonzero)}"


def optimality_words(estimator: Any) -> list[tuple[str, str]]:
    """Return the facts about optimality as (name, text)."""
    certificate = estimator.certificate_
    if isinstance(certificate, SubsetCertificate):
        return [
            ("stationarity", f"{certificate.stationarity:.1e}, relative to the fit without features"),
            ("swaps", str(certificate.exchanges)),
        ]
    against = "within" if certificate.kkt <= estimator.tol else "above"
    rows = [("KKT residual", f"{certificate.kkt:.1e}, {against} tol = {estimator.tol:.1e}")]
    if certificate.possible_gain is not None:
        rows.append(("possible gain", f"the loss can fall by at most {certificate.possible_gain:.1e} near this fit"))
    return rows


def price_words(estimator: Any) -> str:
    """Return the effect of a larger budget on the loss."""
    certificate: Certificate | SubsetCertificate = estimator.certificate_
    if isinstance(certificate, SubsetCertificate):
        if math.isnan(certificate.multiplier):
            return "not examined: the fit was stopped before"
        seen = certificate.additions
        partly = "" if seen is None or seen.proved else f" ({seen.examined} of {_count(seen.total)} were examined)"
        within = "" if certificate.budget is None else " within the budget"
        if certificate.addition is None:
            return f"no single further feature{within} was found that would lower the loss{partly}"
        name = feature_name(estimator, certificate.addition)
        return f"one more feature{within}, {name!r}, would lower the loss by {certificate.multiplier:.2g}{partly}"
    if certificate.multiplier == 0:
        return "none: the level is not binding"
    return f"the loss falls by about {certificate.multiplier:.2g} for each unit by which the level rises"


def _count(n: int) -> str:
    return counted(n, "feature")


def _kept(estimator: Any, counted: int) -> str:
    """Return the number of selected features that do not count, as text."""
    free = int(estimator.selected_features_.size) - counted
    return f", and {free} that {'does' if free == 1 else 'do'} not count" if free > 0 else ""
