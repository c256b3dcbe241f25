"""The fits of a page, one for each budget, with their errors and predictions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox._typing import Features, Vector
from levelprox.exceptions import ConvergenceWarning, InvalidInputError, warn
from levelprox.report.fitted import Axis, axis_of, budget_of_fit, check_fitted
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
    check_fitted("a page", model, "coef_")
    if not hasattr(model, "certificate_"):
        raise InvalidInputError("a page needs a certificate, and a model updated by partial_fit has none: use fit")
    if fits is not None and (n_features is not None or level is not None):
        raise InvalidInputError("give either fits or the budgets to fit, not both")
    by = axis_of(model)
    given = {"level": level, "n_features": n_features}
    for name, value in given.items():
        if name != by and value is not None:
            raise InvalidInputError(f"{name} must be None: the model was fitted with {by}, as all fits of its page")
    if fits is None:
        _check_classes(model, data)
        others = _fitted_path(model, data, given)
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


def _fitted_path(model: Any, data: Samples, budgets: dict[str, Any]) -> list[Any]:
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
    loss : float
        Mean loss without class weights; not finite if the samples have classes that the fit has not seen.
    error : float
        Weighted fraction of wrong predictions of a classifier.
    wrong : int
        Number of wrong predictions of a classifier.
    explained : float
        R² of a regressor: 1 − Σ(y − ŷ)² / Σ(y − ȳ)²; nan if y is constant.
    """

    loss: float
    error: float = math.nan
    wrong: int = 0
    explained: float = math.nan


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


def evaluate(fit: Any, samples: Samples, record: Record | None = None) -> Evaluation:
    """Evaluate a fit on samples; `record` receives the predictions."""
    predicted = np.asarray(fit.predict(samples.X, **samples.more))
    if predicted.shape != samples.y.shape:
        raise InvalidInputError(f"X and y must have as many samples, got {predicted.size} and {samples.y.size}")
    if record is not None:
        record(predicted)
    if not hasattr(fit, "classes_"):
        loss = fit.mean_loss(samples.X, samples.y, samples.weight, **samples.more)
        return Evaluation(loss, explained=_explained(samples, predicted))
    wrong = predicted != samples.y
    error = float(np.average(wrong, weights=samples.weight))
    known = bool(np.all(np.isin(samples.y[samples.rows_used], fit.classes_)))
    loss = fit.mean_loss(samples.X, samples.y, samples.weight) if known else np.inf
    return Evaluation(loss, error, int(np.count_nonzero(wrong[samples.rows_used])))


def _explained(samples: Samples, predicted: NDArray[Any]) -> float:
    y, at = np.asarray(samples.y, np.float64), predicted.astype(np.float64)
    with np.errstate(all="ignore"):
        off = np.average((y - np.average(y, weights=samples.weight)) ** 2, weights=samples.weight)
        left = np.average((y - at) ** 2, weights=samples.weight)
        return float(1 - left / off) if off > 0 else math.nan


# --- the predictions of all fits

_MAX_MATRIX_CLASSES = 12
_MAX_POINTS, _MAX_TOTAL_POINTS, _MIN_POINTS = 2000, 30_000, 250
_GRID_STEPS = 1000
_OTHER, _UNKNOWN = "other", "not seen in training"


#: Takes the predictions of one fit.
Record = Callable[[NDArray[Any]], None]


def predictions_of(path: PathFits, samples: Samples) -> tuple[dict[str, Any], Record]:
    """Return what a page shows of the predictions of all fits, and the function that adds those of the next fit.

    That is a confusion matrix for classes, and a residual plot for numbers. The predictions are not kept.
    """
    if hasattr(path.model, "classes_"):
        return _confusion_matrices(path.model.classes_, samples)
    return _residual_points(samples, len(path.fits))


def _confusion_matrices(known: NDArray[Any], samples: Samples) -> tuple[dict[str, Any], Record]:
    """Return the confusion matrices for these samples and classes: rows are actual classes, columns predicted ones.

    Of many classes the most frequent ones have columns, the others share one. Classes that no fit has seen share a row.
    """
    rows_used = samples.rows_used
    y = samples.y[rows_used]
    is_known = np.isin(y, known)
    places = np.searchsorted(known, y[is_known])
    order = np.arange(known.size)
    if known.size > _MAX_MATRIX_CLASSES:
        often = np.argsort(-np.bincount(places, minlength=known.size), kind="stable")
        order = np.sort(often[: _MAX_MATRIX_CLASSES - 1])
    column = np.full(known.size, order.size, np.intp)
    column[order] = np.arange(order.size)
    names = [str(known[i]) for i in order] + ([_OTHER] if order.size < known.size else [])
    rows = names if np.all(is_known) else [*names, _UNKNOWN]
    actual = np.full(y.size, len(names), np.intp)
    actual[is_known] = column[places]

    shown: dict[str, Any] = {"kind": "classes", "names": names, "rows": rows, "counts": []}

    def record(predicted: NDArray[Any]) -> None:
        table = np.zeros((len(rows), len(names)), np.int64)
        np.add.at(table, (actual, column[np.searchsorted(known, predicted[rows_used])]), 1)
        shown["counts"].append(table.tolist())

    return shown, record


def _residual_points(samples: Samples, n_fits: int) -> tuple[dict[str, Any], Record]:
    """Return the points of a residual plot, on a grid: i stands for low + i · (high − low)/1000.

    Of many samples some are drawn, evenly spaced, the fewer the more fits there are, so that the page stays small and
    is reproducible. Predictions outside the range of the targets are drawn at the edge.
    """
    rows_used = samples.rows_used
    most = min(_MAX_POINTS, max(_MIN_POINTS, _MAX_TOTAL_POINTS // n_fits))
    rows = rows_used if rows_used.size <= most else rows_used[np.linspace(0, rows_used.size - 1, most).astype(np.intp)]
    y = np.asarray(samples.y[rows], np.float64)
    low, high = float(y.min()), float(y.max())
    room = 0.25 * (high - low) or 0.5 * (abs(high) or 1.0)
    low, high = low - room, high + room
    shown: dict[str, Any] = {"kind": "residuals", "low": low, "high": high}
    shown |= {"shown": int(rows.size), "all": int(rows_used.size), "actual": _grid_indices(y, low, high)}
    shown["predicted"] = []
    return shown, lambda predicted: shown["predicted"].append(_grid_indices(predicted[rows], low, high))


def _grid_indices(values: NDArray[Any], low: float, high: float) -> list[int]:
    inside = np.nan_to_num(np.clip(values.astype(np.float64), low, high), nan=low)
    return [int(i) for i in np.rint((inside - low) / (high - low) * _GRID_STEPS)]
