"""What is to be said of a fitted estimator, in words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox._runtime.plurals import counted
from levelprox.certificate import Certificate
from levelprox.exceptions import InvalidInputError
from levelprox.report.budgets import Axis
from levelprox.report.tables import Column, as_text, cut
from levelprox.subset.result import SubsetCertificate

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
    if not isinstance(estimator, type) and hasattr(estimator, "_choose_and_fit" if chooses else "_along"):
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
