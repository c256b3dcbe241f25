"""Facts about fitted estimators as text: names, axes, scores, the certificate."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from levelprox._typing import Features, Vector
from levelprox.certificate import Certificate
from levelprox.exceptions import InvalidInputError, counted
from levelprox.subset.result import SubsetCertificate

Axis = Literal["n_features", "level", "budget"]

#: Labels of axes of budgets.
BUDGET_LABELS: dict[Axis, str] = {
    "n_features": "Number of features, at most",
    "level": "Level η",
    "budget": "Cost of the features, at most",
}


def check_axis(by: Axis) -> Axis:
    """Return `by`; raise InvalidInputError unless it is a kind of budget."""
    if by not in BUDGET_LABELS:
        raise InvalidInputError(f"by must be one of {', '.join(BUDGET_LABELS)}, got {by!r}")
    return by


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
        got += ". For a pipeline, give its last step, pipeline[-1], and that step's input, pipeline[:-1].transform(X)"
    raise InvalidInputError(f"{user} needs {wanted}, got {got}")


def check_fitted(user: str, estimator: Any, attribute: str, chooses: bool = False) -> None:
    """Raise an error unless `estimator` is one of levelprox, as in `check_ours`, and has an attribute of its fit."""
    from sklearn.utils.validation import check_is_fitted

    check_ours(user, estimator, chooses)
    check_is_fitted(estimator, attribute)


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
    return [*ended, *fit_words(estimator)]


def fit_words(estimator: Any) -> list[tuple[str, str]]:
    """Return the budget, the loss, the optimality and the shadow price of a fit as (name, text)."""
    return [
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


def budget_words(estimator: Any) -> str:
    """Return how much of the budget is used."""
    certificate = estimator.certificate_
    free = int(estimator.selected_features_.size) - certificate.n_nonzero  # selected, but not counted
    also = f", and {free} that {'does' if free == 1 else 'do'} not count" if free > 0 else ""
    used = f"{_count(certificate.n_nonzero)}{also}"
    if not isinstance(certificate, SubsetCertificate):
        return f"g = {certificate.g:.6g} ≤ {certificate.level:.6g}, {type(estimator.constraint_).__name__}; {used}"
    if certificate.budget is None or certificate.k < estimator.n_features_in_:  # there is a limit on the number
        used = f"{certificate.n_nonzero} of at most {_count(certificate.k)}{also}"
    return used if certificate.budget is None else f"cost {certificate.spent:.6g} ≤ {certificate.budget:.6g}; {used}"


def optimality_words(estimator: Any) -> list[tuple[str, str]]:
    """Return the facts about optimality as (name, text)."""
    certificate = estimator.certificate_
    if isinstance(certificate, SubsetCertificate):
        return [
            ("stationarity", f"{certificate.stationarity:.1e}, relative to the fit without features"),
            ("swaps", str(certificate.swaps)),
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
