"""The fits that a page goes through, in ascending order of their budgets, and which of them is the model itself."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from levelprox.exceptions import ConvergenceWarning, InvalidInputError, warn
from levelprox.report.budgets import Axis
from levelprox.report.fitted import axis_of, budget_of_fit, check_ours
from levelprox.result import Status

_SAME = 1e-9  # of a budget


@dataclass(frozen=True, eq=False)
class Family:
    """Fits of the same model under one budget after another.

    Attributes
    ----------
    fits : list of fitted estimators
    own : int
        Which of them is the model that the page is of.
    by : {"n_features", "level"}
        What the budgets are.
    """

    fits: list[Any]
    own: int
    by: Axis

    @property
    def model(self) -> Any:
        """The model itself."""
        return self.fits[self.own]

    @property
    def sure(self) -> list[bool]:
        """Which fits have coefficients that mean something: all but the diverging ones, and the model itself."""
        return [one.status_ is not Status.DIVERGING or i == self.own for i, one in enumerate(self.fits)]

    @property
    def budgets(self) -> list[float]:
        """k or η of each fit."""
        return [budget_of_fit(one) for one in self.fits]


def family_of(
    model: Any,
    X: object,
    y: ArrayLike,
    *,
    n_features: ArrayLike | None = None,
    level: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    fit_params: dict[str, Any] | None = None,
    fits: Sequence[Any] | None = None,
) -> Family:
    """The model among fits under other budgets: those given, or those that it makes itself of X and y.

    Fits that end short of their tolerance are told of in one warning.
    """
    from sklearn.utils.validation import check_is_fitted

    check_ours("a page", model)
    check_is_fitted(model, "coef_")
    if not hasattr(model, "certificate_"):
        raise InvalidInputError("a model kept up to date by partial_fit has no certificate, and so no page: use fit")
    if fits is not None and (n_features is not None or level is not None):
        raise InvalidInputError("give either fits or the budgets to fit, not both")
    by = axis_of(model)
    given = {"level": level, "n_features": n_features}
    if any(value is not None for name, value in given.items() if name != by):
        other = next(name for name, value in given.items() if name != by and value is not None)
        raise InvalidInputError(f"the model was fitted with {by}, and so are the others on its page: no {other} here")
    if fits is None:
        _check_classes(model, y, sample_weight)
        others = _along(model, X, y, n_features, level, sample_weight, fit_params or {})
    else:
        others = [_checked(one, model, by, i) for i, one in enumerate(fits)]
    own = budget_of_fit(model)
    together = [one for one in others if not np.isclose(budget_of_fit(one), own, rtol=_SAME, atol=0)] + [model]
    together.sort(key=budget_of_fit)
    return Family(together, next(i for i, one in enumerate(together) if one is model), by)


def _check_classes(model: Any, y: ArrayLike, weight: ArrayLike | None) -> None:
    """Fits of other classes have other coefficients than the model: the two do not go into one figure."""
    if not hasattr(model, "classes_"):
        return
    labels = np.ravel(np.asarray(y))
    there = slice(None) if weight is None else np.broadcast_to(np.asarray(weight, np.float64), labels.shape) > 0
    present = np.unique(labels[there])
    if not np.array_equal(present, model.classes_):
        raise InvalidInputError(
            f"y has the classes {present.tolist()}, the model {model.classes_.tolist()}: to fit the other budgets the "
            "page needs the data of the fit; fits=[] shows the model alone"
        )


def _along(model: Any, X: object, y: ArrayLike, n_features: Any, level: Any, weight: Any, more: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fits: list[Any] = model._along(X, y, n_features, level, weight, more)
    short = [f"{budget_of_fit(one):g}" for one in fits if not one.status_.success]
    if short:
        warn(f"of the {len(fits)} fits along the budgets some ended short, at {', '.join(short)}: the page says why")
    return fits


def _checked(fit: Any, model: Any, by: Axis, i: int) -> Any:
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(fit, "certificate_")
    if axis_of(fit) != by:
        raise InvalidInputError(f"fits[{i}] was fitted with {axis_of(fit)}, the model with {by}")
    if np.shape(fit.coef_) != np.shape(model.coef_):
        raise InvalidInputError(
            f"fits[{i}] has coefficients of shape {np.shape(fit.coef_)}, the model {np.shape(model.coef_)}"
        )
    if not np.array_equal(getattr(fit, "classes_", []), getattr(model, "classes_", [])):
        raise InvalidInputError(f"fits[{i}] was fitted to other classes than the model")
    return fit
