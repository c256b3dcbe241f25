"""The fits of a page, one for each budget, and their scores."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._typing import Features, Vector
from levelprox.exceptions import ConvergenceWarning, InvalidInputError, warn
from levelprox.report.fitted import Axis, axis_of, budget_of_fit, check_ours
from levelprox.result import Status

_BUDGET_TOLERANCE = 1e-9  # relative


@dataclass(frozen=True, eq=False)
class PathFits:
    """Fits of the same model for several budgets.

    Attributes
    ----------
    fits : list of fitted estimators
    own : int
        Index of the model of the page.
    by : {"n_features", "level"}
        Kind of the budgets.
    """

    fits: list[Any]
    own: int
    by: Axis

    @property
    def model(self) -> Any:
        """The model of the page."""
        return self.fits[self.own]

    @property
    def sure(self) -> list[bool]:
        """Which fits have meaningful coefficients: all except the diverging ones, and the model itself."""
        return [one.status_ is not Status.DIVERGING or i == self.own for i, one in enumerate(self.fits)]

    @property
    def budgets(self) -> list[float]:
        """Budget of each fit."""
        return [budget_of_fit(one) for one in self.fits]


def path_fits(
    model: Any, data: Samples, n_features: ArrayLike | None, level: ArrayLike | None, fits: Sequence[Any] | None
) -> PathFits:
    """Return the model among fits for other budgets: the given ones, or those of `model.fit_path`.

    One warning names the fits that did not reach their tolerance.
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
        _check_classes(model, data)
        others = _fitted_path(model, data, n_features, level)
    else:
        others = [_checked(one, model, by, i) for i, one in enumerate(fits)]
    own = budget_of_fit(model)
    others = [one for one in others if not np.isclose(budget_of_fit(one), own, rtol=_BUDGET_TOLERANCE, atol=0)]
    together = sorted([*others, model], key=budget_of_fit)
    return PathFits(together, next(i for i, one in enumerate(together) if one is model), by)


def _check_classes(model: Any, data: Samples) -> None:
    """Raise InvalidInputError unless y has the classes of the model."""
    if not hasattr(model, "classes_"):
        return
    present = np.unique(data.y[data.rows_used])
    if not np.array_equal(present, model.classes_):
        raise InvalidInputError(
            f"y has the classes {present.tolist()}, the model {model.classes_.tolist()}: to fit the other budgets the "
            "page needs the data of the fit; fits=[] shows the model alone"
        )


def _fitted_path(model: Any, data: Samples, n_features: Any, level: Any) -> list[Any]:
    budgets = {"n_features": n_features, "level": level}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fits: list[Any] = model.fit_path(data.X, data.y, sample_weight=data.weight, **budgets, **data.more)
    short = [f"{budget_of_fit(one):g}" for one in fits if not one.status_.success]
    if short:
        warn(
            f"of the {len(fits)} fits at all budgets some ended before their tolerance, at {', '.join(short)}: "
            "the page gives the reasons"
        )
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


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples on which fits are evaluated.

    Attributes
    ----------
    X : array-like or Design
    y : ndarray of shape (n,)
    weight : ndarray of shape (n,), optional
        Samples of weight 0 are removed.
    more : dict
        Further arguments of `predict`: offset, exposure.
    """

    X: Any
    y: NDArray[Any]
    weight: Vector | None
    more: dict[str, Any]

    def checked_by(self, model: Any) -> Samples:
        """Return the samples with X checked once, for all fits of this model."""
        return replace(self, X=model.check_features(self.X))

    @property
    def rows_used(self) -> Features:
        """Rows with positive weight."""
        return np.arange(self.y.size) if self.weight is None else np.flatnonzero(self.weight > 0)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Evaluation of a fit on samples.

    Attributes
    ----------
    recorded : Any
        Result of `record` for the predictions, which are not kept.
    loss : float or None
        Mean loss without class weights; None if the samples have classes that the fit has not seen.
    error : float or None
        Weighted fraction of wrong predictions of a classifier.
    wrong : int or None
        Number of wrong predictions.
    explained : float or None
        R² of a regressor, if y is not constant: 1 − Σ(y − ŷ)² / Σ(y − ȳ)².
    """

    recorded: Any
    loss: float | None
    error: float | None = None
    wrong: int | None = None
    explained: float | None = None


def samples_of(X: Any, y: ArrayLike, weight: ArrayLike | None, more: dict[str, Any] | None) -> Samples:
    """Return samples with y and the weights as arrays."""
    target = np.asarray(y)
    target = target.ravel() if target.ndim == 2 and target.shape[1] == 1 else target
    if target.ndim != 1 or not target.size:
        raise InvalidInputError(f"y must have one value for each sample, got shape {target.shape}")
    weights = None if weight is None else np.array(np.broadcast_to(np.asarray(weight, np.float64), target.shape))
    return Samples(X, target, weights, dict(more or {}))


def test_samples(test: Sequence[Any] | None, more: dict[str, Any] | None) -> Samples | None:
    """Return the test samples from (X, y) or (X, y, weight)."""
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


def evaluate(fit: Any, samples: Samples, record: Callable[[NDArray[Any]], Any] | None = None) -> Evaluation:
    """Evaluate a fit on samples; `record` receives the predictions."""
    predicted = np.asarray(fit.predict(samples.X, **samples.more))
    if predicted.shape != samples.y.shape:
        raise InvalidInputError(f"X and y must have as many samples, got {predicted.size} and {samples.y.size}")
    recorded = None if record is None else record(predicted)
    if not hasattr(fit, "classes_"):
        loss = fit.mean_loss(samples.X, samples.y, samples.weight, **samples.more)
        return Evaluation(recorded, _number(loss), explained=_explained(samples, predicted))
    wrong = predicted != samples.y
    error = float(np.average(wrong, weights=samples.weight))
    known = bool(np.all(np.isin(samples.y[samples.rows_used], fit.classes_)))
    loss = fit.mean_loss(samples.X, samples.y, samples.weight) if known else np.inf
    return Evaluation(recorded, _number(loss), error, int(np.count_nonzero(wrong[samples.rows_used])))


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _explained(samples: Samples, predicted: NDArray[Any]) -> float | None:
    y, at = np.asarray(samples.y, np.float64), predicted.astype(np.float64)
    with np.errstate(all="ignore"):
        off = np.average((y - np.average(y, weights=samples.weight)) ** 2, weights=samples.weight)
        left = np.average((y - at) ** 2, weights=samples.weight)
        return _number(float(1 - left / off)) if off > 0 else None
