"""Facts about fitted estimators as text: names, axes, scores, the certificate, tables."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from levelprox._runtime.plurals import counted
from levelprox.certificate import Certificate
from levelprox.exceptions import InvalidInputError
from levelprox.subset.result import SubsetCertificate

Axis = Literal["n_features", "level", "budget"]

_LABELS: dict[str, str] = {
    "n_features": "Number of features, at most",
    "level": "Level η",
    "budget": "Cost of the features, at most",
}


def check_axis(by: Axis) -> Axis:
    """`by`, which must be one of them."""
    if by not in _LABELS:
        raise InvalidInputError(f"by must be one of {', '.join(_LABELS)}, got {by!r}")
    return by


def label_of(by: Axis) -> str:
    """The label of an axis of budgets."""
    return _LABELS[by]


_OF = "of held-out samples"
# Parts of scikit-learn's names that are not words.
_SIGNS = {"roc": "ROC", "auc": "AUC", "ovr": "OVR", "ovo": "OVO", "r2": "R²", "d2": "D²", "f1": "F1"}


def name_and_sign(scoring: Any) -> tuple[str, float]:
    """What a score is called, and the sign with which it is drawn: negative losses are drawn as losses.

    Parameters
    ----------
    scoring : str, callable or None
        As estimators take it. Of a callable the name is that of the function, as it is.
    """
    if scoring is None:
        return f"Loss {_OF}", -1.0
    if isinstance(scoring, str):
        words = [_SIGNS.get(word, word) for word in scoring.removeprefix("neg_").split("_")]
        words[0] = words[0][:1].upper() + words[0][1:]
        return f"{' '.join(words)} {_OF}", -1.0 if scoring.startswith("neg_") else 1.0
    # What make_scorer returns has a function and a sign.
    name = getattr(getattr(scoring, "_score_func", scoring), "__name__", "<none>")
    sign = -1.0 if getattr(scoring, "_sign", 1) < 0 else 1.0
    return f"{'Loss' if sign < 0 else 'Score'} {_OF}" if name.startswith("<") else f"{name} {_OF}", sign


_WIDTH = 118  # characters of a line of text


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name : str
    cells : sequence of str
        One for each row.
    number : bool
        Whether the cells are numbers, which are aligned to the right.
    is_html : bool
        Whether the cells are HTML, and not text to be escaped.
    """

    name: str
    cells: Sequence[str]
    number: bool = True
    is_html: bool = False

    @property
    def html(self) -> list[str]:
        """The cells as HTML."""
        return list(self.cells) if self.is_html else [escape(cell) for cell in self.cells]


def as_text(columns: Sequence[Column], indent: str = "") -> str:
    """Return the table in lines of text, with the names of the columns above."""
    aligned = [_aligned(column) for column in columns]
    return "\n".join((indent + "  ".join(row)).rstrip() for row in zip(*aligned, strict=True))


def _aligned(column: Column) -> list[str]:
    cells = [column.name, *column.cells]
    width = max(map(len, cells))
    return [cell.rjust(width) if column.number else cell.ljust(width) for cell in cells]


def as_html(columns: Sequence[Column]) -> str:
    """Return the table as HTML; what is in it is escaped."""
    kinds = [' class="number"' if column.number else "" for column in columns]
    head = "".join(f"<th{kind}>{escape(column.name)}</th>" for kind, column in zip(kinds, columns, strict=True))
    rows = zip(*(column.html for column in columns), strict=True)
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{cell}</td>' for kind, cell in zip(kinds, row, strict=True))}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def titled_text(tables: Sequence[tuple[str, Sequence[Column]]]) -> list[str]:
    """Return tables as text, each with its title above."""
    return [f"{title}\n{as_text(columns)}" if title else as_text(columns) for title, columns in tables]


def titled_html(tables: Sequence[tuple[str, Sequence[Column]]]) -> str:
    """Return the same as HTML, for a card."""
    return "".join(
        f'<div class="features">{f"<div>{escape(title)}</div>" if title else ""}{as_html(columns)}</div>'
        for title, columns in tables
    )


def facts_as_text(facts: Sequence[tuple[str, str]]) -> str:
    """Return names and what they are, in two columns."""
    width = max((len(name) for name, _ in facts), default=0)
    return "\n".join(
        textwrap.fill(text, _WIDTH, initial_indent=f"{name:<{width}}  ", subsequent_indent=" " * (width + 2))
        for name, text in facts
    )


def facts_as_html(facts: Sequence[tuple[str, str]]) -> str:
    """Return the same as HTML."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts)
    return f"<table><tbody>{rows}</tbody></table>"


def notes_as_text(notes: Sequence[str]) -> str:
    """Return notes, one after another, in lines that are not too long."""
    return "\n".join(textwrap.fill(note, _WIDTH, initial_indent="- ", subsequent_indent="  ") for note in notes)


def notes_as_html(notes: Sequence[str]) -> str:
    """Return the same as HTML."""
    return "".join(f'<div class="more">{escape(note)}</div>' for note in notes)


def data_frame(columns: Mapping[str, Any]) -> Any:
    """Return columns as a DataFrame of pandas, which must be installed."""
    try:
        from pandas import DataFrame  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("to_frame() needs pandas: pip install pandas") from error
    return DataFrame(dict(columns))


def cut(name: str, longest: int = 32) -> str:
    """A name, cut where it is very long, on one line."""
    name = " ".join(name.split()) if any(sign.isspace() and sign != " " for sign in name) else name
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


_MOST_LINES, _MOST_CLASSES = 20, 8  # of a printed estimator


def check_ours(user: str, estimator: Any, chooses: bool = False) -> None:
    """Raise unless `estimator` is one of levelprox; `user` is what it was given to.

    Parameters
    ----------
    user : str
    estimator : estimator
    chooses : bool, default=False
        Whether it must be one that chooses its budget.
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
    """Names of all features: those seen in `fit`, or x0, x1 and so on."""
    return [feature_name(estimator, j) for j in range(estimator.n_features_in_)]


def feature_name(estimator: Any, j: int) -> str:
    """The name of one feature."""
    known = getattr(estimator, "feature_names_in_", None)
    return f"x{j}" if known is None else str(known[j])


def standardized(estimator: Any) -> NDArray[np.float64]:
    """scale_ · coef_, of shape (width, d): what the budget and the certificate speak of."""
    return np.asarray(np.atleast_2d(estimator.coef_) * estimator.scale_, np.float64)


def in_one_figure(estimator: Any) -> NDArray[np.float64]:
    """The standardised coefficient of each feature, or the length of its several ones: what is drawn along a path."""
    rows = standardized(estimator)
    return rows[0] if rows.shape[0] == 1 else np.asarray(np.linalg.norm(rows, axis=0))


def coefficient_name(estimator: Any) -> str:
    """What an axis of `in_one_figure` is called."""
    width = np.atleast_2d(estimator.coef_).shape[0]
    if width > 1:
        return f"Length of a feature's {width} coefficients"
    return "Coefficient × standard deviation" if estimator.standardize else "Coefficient"


def axis_of(estimator: Any) -> Axis:
    """What the budget of a fit is."""
    if hasattr(estimator, "budget_"):
        return "budget"
    return "level" if hasattr(estimator, "constraint_") else "n_features"


def budget_of_fit(estimator: Any) -> float:
    """How much a fit was allowed, along that axis."""
    return float(getattr(estimator, "budget_", estimator.level_))


def by_size(estimator: Any) -> NDArray[np.intp]:
    """The selected features, the largest standardised coefficients first."""
    chosen: NDArray[np.intp] = estimator.selected_features_
    sizes = np.linalg.norm(standardized(estimator)[:, chosen], axis=0)
    return chosen[np.argsort(-sizes, kind="stable")]


def certificate_words(estimator: Any) -> list[tuple[str, str]]:
    """All that is shown of a fit: names of figures, and the figures; where it ended short, why comes first."""
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
    """The ridge, where there is one: nothing else tells why the loss is above that of the data."""
    ridge = getattr(estimator, "ridge_", 0.0)
    return [("ridge", f"{ridge:.3g}; the loss includes its penalty")] if ridge else []


def fitted_words(estimator: Any) -> list[str]:
    """A fitted estimator in a few lines: its features, the largest standardised coefficients first, and its end."""
    coef, order = np.atleast_2d(estimator.coef_), by_size(estimator)
    shown = order if order.size <= _MOST_LINES else order[: _MOST_LINES - 1]
    several = coef.shape[0] > 1
    labels = [cut(str(label), 16) for label in estimator.classes_[:_MOST_CLASSES]] if several else ["coefficient"]
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
    """How much of the budget is used."""
    certificate = estimator.certificate_
    if isinstance(certificate, SubsetCertificate):
        used = f"{certificate.n_nonzero} of at most {_count(certificate.k)}{_kept(estimator, certificate.n_nonzero)}"
        if certificate.budget is None:
            return used
        if certificate.k >= estimator.n_features_in_:  # any number
            used = f"{_count(certificate.n_nonzero)}{_kept(estimator, certificate.n_nonzero)}"
        return f"cost {certificate.spent:.6g} ≤ {certificate.budget:.6g}; {used}"
    used = f"g = {certificate.g:.6g} ≤ {certificate.level:.6g}, {type(estimator.constraint_).__name__}"
    return f"{used}; {_count(certificate.n_nonzero)}{_kept(estimator, certificate.n_nonzero)}"


def optimality_words(estimator: Any) -> list[tuple[str, str]]:
    """What is shown of the fit: names of figures, and the figures."""
    certificate = estimator.certificate_
    if isinstance(certificate, SubsetCertificate):
        return [
            ("stationarity", f"{certificate.stationarity:.1e}, relative to the fit without features"),
            ("one for another", str(certificate.exchanges)),
        ]
    against = "within" if certificate.kkt <= estimator.tol else "above"
    rows = [("KKT residual", f"{certificate.kkt:.1e}, {against} tol = {estimator.tol:.1e}")]
    if certificate.possible_gain is not None:
        rows.append(("possible gain", f"the loss can fall by at most {certificate.possible_gain:.1e} near this fit"))
    return rows


def price_words(estimator: Any) -> str:
    """What a larger budget would bring."""
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
        return "none: the level does not hold the fit back"
    return f"the loss falls by about {certificate.multiplier:.2g} for each unit by which the level rises"


def _count(n: int) -> str:
    return counted(n, "feature")


def _kept(estimator: Any, counted: int) -> str:
    """How many features are there besides, without counting."""
    free = int(estimator.selected_features_.size) - counted
    return f", and {free} that {'does' if free == 1 else 'do'} not count" if free > 0 else ""
