"""The fits of a page, one for each budget, and how well each does on samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox.exceptions import ConvergenceWarning, InvalidInputError, warn
from levelprox.report.fitted import Axis, axis_of, budget_of_fit, check_ours
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
        fits: list[Any] = model.fit_path(X, y, n_features=n_features, level=level, sample_weight=weight, **more)
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


Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Samples:
    """What fits are judged by.

    Attributes
    ----------
    X : the data, or the design made of them
    y : ndarray of shape (n,)
    weight : ndarray of shape (n,), optional
        A weight of 0 is a removed sample.
    more : dict
        What else `predict` takes: offset, exposure.
    """

    X: Any
    y: NDArray[Any]
    weight: Vector | None
    more: dict[str, Any]

    def read_by(self, model: Any) -> Samples:
        """The same with X as a design that is read and checked once, for fits of this model."""
        return replace(self, X=model.check_features(self.X))

    @property
    def there(self) -> NDArray[np.intp]:
        """The rows that are not removed."""
        return np.arange(self.y.size) if self.weight is None else np.flatnonzero(self.weight > 0)


@dataclass(frozen=True, eq=False)
class Judged:
    """How a fit did.

    Attributes
    ----------
    seen : Any
        What was made of the predictions, which are not kept: there is one for each sample and each fit.
    loss : float or None
        The mean loss, class weights left aside; None where a class is there that the fit does not know.
    error : float or None
        Of classifiers the share of wrong answers, by weight.
    wrong : int or None
        How many these are.
    explained : float or None
        R² of other models than classifiers, where y varies: 1 − Σ(y − ŷ)² / Σ(y − ȳ)².
    """

    seen: Any
    loss: float | None
    error: float | None = None
    wrong: int | None = None
    explained: float | None = None


def samples_of(X: Any, y: ArrayLike, weight: ArrayLike | None, more: dict[str, Any] | None) -> Samples:
    """The same, with y and the weights as arrays of one number for each sample."""
    target = np.asarray(y)
    target = target.ravel() if target.ndim == 2 and target.shape[1] == 1 else target
    if target.ndim != 1 or not target.size:
        raise InvalidInputError(f"y must have one value for each sample, got shape {target.shape}")
    weights = None if weight is None else np.array(np.broadcast_to(np.asarray(weight, np.float64), target.shape))
    return Samples(X, target, weights, dict(more or {}))


def held_out(test: Sequence[Any] | None, more: dict[str, Any] | None) -> Samples | None:
    """Samples that no fit has seen, from (X, y) or (X, y, weight)."""
    if test is None:
        return None
    if not isinstance(test, tuple | list) or len(test) not in (2, 3):
        raise InvalidInputError("test must be (X_test, y_test) or (X_test, y_test, weight)")
    X, y, *weight = test
    samples = samples_of(X, y, weight[0] if weight else None, more)
    given = samples.weight
    if given is not None and not (np.all(np.isfinite(given) & (given >= 0)) and np.any(given > 0)):
        raise InvalidInputError("the weights of test samples must be finite, at least 0, and not all 0")
    return samples


def judge(fit: Any, samples: Samples, look: Callable[[NDArray[Any]], Any] | None = None) -> Judged:
    """How a fit does on samples that were read; `look` is shown the predictions."""
    predicted = np.asarray(fit.predict(samples.X, **samples.more))
    if predicted.shape != samples.y.shape:
        raise InvalidInputError(f"X and y must have as many samples, got {predicted.size} and {samples.y.size}")
    seen = None if look is None else look(predicted)
    if not hasattr(fit, "classes_"):
        loss = fit.mean_loss(samples.X, samples.y, samples.weight, **samples.more)
        return Judged(seen, _number(loss), explained=_explained(samples, predicted))
    wrong = predicted != samples.y
    error = float(np.average(wrong, weights=samples.weight))
    known = bool(np.all(np.isin(samples.y[samples.there], fit.classes_)))
    loss = fit.mean_loss(samples.X, samples.y, samples.weight) if known else np.inf
    return Judged(seen, _number(loss), error, int(np.count_nonzero(wrong[samples.there])))


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _explained(samples: Samples, predicted: NDArray[Any]) -> float | None:
    y, at = np.asarray(samples.y, np.float64), predicted.astype(np.float64)
    with np.errstate(all="ignore"):
        off = np.average((y - np.average(y, weights=samples.weight)) ** 2, weights=samples.weight)
        left = np.average((y - at) ** 2, weights=samples.weight)
        return _number(float(1 - left / off)) if off > 0 else None
