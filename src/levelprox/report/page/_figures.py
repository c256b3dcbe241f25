"""Data of the tables and figures of a page: coefficients, curves over the budgets, predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Vector
from levelprox.report._drawing import COLOURS, largest, where_used
from levelprox.report.fitted import by_size, coefficient_name, in_one_figure, name_and_sign, standardized
from levelprox.report.page._fits import Evaluation, PathFits, Samples

#: A cell of the table: a number, and the standardised coefficient in percent of the largest, or None.
Cell = list[Any]

_MAX_ROWS, _MAX_CLASSES, _MAX_LINES = 100, 8, 150


def figure(value: float, digits: int = 4) -> str:
    """Return a number as text."""
    return f"{value:.{digits}g}".replace("-", "−")


def cell_figure(value: float) -> str:
    """Return a number with all its digits, for a column."""
    return f"{value:#.4g}".rstrip(".").replace("-", "−")


def columns_of(model: Any) -> list[str]:
    """Return the names of the columns of the table after the first, which has the features."""
    width = np.atleast_2d(model.coef_).shape[0]
    if width == 1:
        return ["coefficient", "standardised"] if model.standardize else ["coefficient"]
    return [str(name) for name in model.classes_[:_MAX_CLASSES]]


def sign_of(model: Any) -> str:
    """Return a sentence on the class of positive coefficients, for two classes."""
    if not hasattr(model, "classes_") or model.classes_.size != 2:
        return ""
    negative, positive = model.classes_
    return f"Positive coefficients favour class {positive}, negative ones class {negative}."


def rows_of(fit: Any) -> list[tuple[int, list[Cell]]]:
    """Return the selected features and their cells, the largest first."""
    order = by_size(fit)[:_MAX_ROWS]
    coef, scaled = np.atleast_2d(fit.coef_)[:, order], standardized(fit)[:, order]
    parts = 100 * scaled / np.max(np.abs(scaled), initial=0.0, where=np.isfinite(scaled)) if order.size else scaled
    with_scaled = coef.shape[0] == 1 and fit.standardize  # the bar is then in a column of its own
    rows = []
    for i, j in enumerate(order):
        shown = range(min(coef.shape[0], _MAX_CLASSES))
        cells: list[Cell] = [[cell_figure(coef[c, i]), None if with_scaled else _part(parts[c, i])] for c in shown]
        if with_scaled:
            cells.append([cell_figure(scaled[0, i]), _part(parts[0, i])])
        rows.append((int(j), cells))
    return rows


def _part(value: float) -> float:
    return round(float(value), 1) + 0.0


def intercept_of(fit: Any) -> list[Cell]:
    """Return the cells of the intercept, if there is one."""
    if not fit.fit_intercept:
        return []
    values = np.atleast_1d(fit.intercept_)
    if values.size > 1:
        return [[cell_figure(value), None] for value in values[:_MAX_CLASSES]]
    return [[cell_figure(values[0]), None], *([["", None]] if fit.standardize else [])]


def left_out_of(fit: Any) -> str:
    """Return a text on the rows and columns that the table leaves out."""
    features = int(fit.selected_features_.size) - _MAX_ROWS
    classes = np.atleast_2d(fit.coef_).shape[0] - _MAX_CLASSES
    words = [f"{features} more features"] if features > 0 else []
    words += [f"the coefficients of {classes} more classes"] if classes > 0 else []
    return f"and {' and '.join(words)}" if words else ""


def lines_of(path: PathFits) -> dict[str, Any]:
    """Return the lines of the figure: features, their values at each budget, and their colours.

    As in `PathDisplay`, the largest ones of the model and of the largest fit have a colour, the others are grey. Fits
    of separable data, whose coefficients are limited only by precision, are left out.
    """
    values = np.array([in_one_figure(one) for one in path.fits])
    sure = np.array(path.sure)
    size = np.max(np.abs(values[sure]), axis=0)
    used = np.array(largest(size, _MAX_LINES), np.intp)
    picked = values[:, used]
    names = len(COLOURS)
    named = list(dict.fromkeys([*largest(picked[path.own], names), *largest(picked[sure][-1], names)]))
    curves = where_used(picked)
    curves[~sure] = np.nan
    return {
        "title": coefficient_name(path.model),
        "features": [int(j) for j in used],
        "values": [_rounded(curves[:, i]) for i in range(used.size)],
        "colours": [named.index(i) if i in named else -1 for i in range(used.size)],
        "left_out": int(np.count_nonzero(size)) - int(used.size),
    }


def _rounded(curve: Vector) -> list[float | None]:
    """Round to five digits, more than can be drawn."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in curve]


#: Scores that another curve shows already, up to their sign or 1 - score.
_ERROR_RATE, _MEAN_LOSS = ("accuracy",), {"neg_mean_squared_error": "squared", "neg_mean_absolute_error": "absolute"}
_NAMES = {"squared": "Mean squared error", "absolute": "Mean absolute error"}


@dataclass(frozen=True, eq=False)
class Choice:
    """Scores by which a model has chosen its budget, at each budget of the page.

    Attributes
    ----------
    name : str
    joins : {"loss", "error", ""}
        Chart of the same unit; "" for a separate chart.
    values, errors : list of float or None
        Scores and their standard errors (None for a criterion).
    folds : int
        Number of folds; 0 for a criterion.
    """

    name: str
    joins: str
    values: list[float | None]
    errors: list[float | None]
    folds: int

    def words(self, i: int) -> str:
        """Return the score at one budget as text."""
        value, error = self.values[i], self.errors[i]
        if value is None:
            return ""
        return figure(value) if error is None else f"{figure(value)} ± {figure(error, 2)}"


def mean_loss_name(model: Any) -> str:
    """Return the name of the mean loss."""
    name = str(model.loss_.name)
    return _NAMES.get(name, f"Mean {name.replace('_', ' ')} loss")


def choice_of(path: PathFits) -> Choice | None:
    """Return the scores of the choice of the budget, or None."""
    model = path.model
    if not hasattr(model, "cv_results_"):
        return None
    results, _ = model.results_by_budget()
    rows = [_row(results[path.by], budget) for budget in path.budgets]
    if model.criterion_ != "cv":
        values = _picked(results[model.criterion_], rows)
        return Choice(f"{model.criterion_.upper()}, lower is better", "", values, [None] * len(rows), 0)
    name, sign = name_and_sign(model.scoring_)
    scores, joins = sign * results["mean_test_score"], ""
    if model.scoring_ is None or _MEAN_LOSS.get(str(model.scoring_)) == model.loss_.name:
        joins = "loss"
    elif model.scoring_ in _ERROR_RATE:
        name, scores, joins = "Error rate of held-out samples", 1 - scores, "error"
    folds = sum(key.startswith("split") for key in results)
    return Choice(name, joins, _picked(scores, rows), _picked(results["standard_error"], rows), folds)


def charts_of(
    path: PathFits, train: Sequence[Evaluation], test: Sequence[Evaluation] | None, choice: Choice | None
) -> list[dict[str, Any]]:
    """Return the charts, each with one unit."""
    charts = [_chart("loss", mean_loss_name(path.model), train, test, choice)]
    if train[0].error is not None:
        charts.append(_chart("error", "Error rate", train, test, choice))
    if choice is not None and not choice.joins:
        charts.append({"title": choice.name, "percent": False, "series": [_chosen(choice)]})
    return charts


def _chart(
    what: str, title: str, train: Sequence[Evaluation], test: Sequence[Evaluation] | None, choice: Choice | None
) -> dict[str, Any]:
    series = [{"name": "training", "colour": 0, "values": [_short(getattr(one, what)) for one in train]}]
    if test is not None:
        series.append({"name": "test", "colour": 1, "values": [_short(getattr(one, what)) for one in test]})
    if choice is not None and choice.joins == what:
        series.append(_chosen(choice))
    return {"title": title, "percent": what == "error", "series": series}


def _chosen(choice: Choice) -> dict[str, Any]:
    series = {
        "name": "held out" if choice.folds else "all data",
        "colour": 2,
        "values": list(map(_short, choice.values)),
    }
    return {**series, "errors": list(map(_short, choice.errors))} if choice.folds else series


def _row(grid: Any, budget: float) -> int | None:
    near = np.flatnonzero(np.isclose(np.asarray(grid, np.float64), budget, rtol=1e-9, atol=0))
    return int(near[0]) if near.size else None


def _picked(values: Any, rows: Sequence[int | None]) -> list[float | None]:
    return [None if i is None or not np.isfinite(values[i]) else float(values[i]) for i in rows]


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


_MAX_MATRIX_CLASSES = 12
_MAX_POINTS, _MAX_TOTAL_POINTS, _MIN_POINTS = 2000, 30_000, 250
_GRID_STEPS = 1000
_OTHER, _UNKNOWN = "other", "not seen in training"


@dataclass(frozen=True, eq=False)
class PredictionDisplay:
    """What a page shows of the predictions of each fit.

    Attributes
    ----------
    record : callable
        Returns what is kept of the predictions of a fit.
    about : dict
        Data that all fits share.
    name : str
        Name of the list of what is recorded.
    """

    record: Callable[[NDArray[Any]], Any]
    about: dict[str, Any]
    name: str

    def as_data(self, recorded: list[Any]) -> dict[str, Any]:
        """Return the data of all fits."""
        return {**self.about, self.name: recorded}


def prediction_display(path: PathFits, samples: Samples) -> PredictionDisplay:
    """Return the display of predictions: a confusion matrix for classes, residuals for numbers."""
    if hasattr(path.model, "classes_"):
        return _confusion_matrix(path.model.classes_, samples)
    return _residual_points(samples, len(path.fits))


def _confusion_matrix(known: NDArray[Any], samples: Samples) -> PredictionDisplay:
    """Return the confusion matrix for these samples and classes: rows are actual classes, columns predicted ones.

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

    def record(predicted: NDArray[Any]) -> list[list[int]]:
        table = np.zeros((len(rows), len(names)), np.int64)
        np.add.at(table, (actual, column[np.searchsorted(known, predicted[rows_used])]), 1)
        return [[int(n) for n in row] for row in table]

    return PredictionDisplay(record, {"kind": "classes", "names": names, "rows": rows}, "counts")


def _residual_points(samples: Samples, n_fits: int) -> PredictionDisplay:
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
    shown = {"kind": "residuals", "low": low, "high": high, "shown": int(rows.size), "all": int(rows_used.size)}
    about = {**shown, "actual": _grid_indices(y, low, high)}
    return PredictionDisplay(lambda predicted: _grid_indices(predicted[rows], low, high), about, "predicted")


def _grid_indices(values: NDArray[Any], low: float, high: float) -> list[int]:
    inside = np.nan_to_num(np.clip(values.astype(np.float64), low, high), nan=low)
    return [int(i) for i in np.rint((inside - low) / (high - low) * _GRID_STEPS)]
