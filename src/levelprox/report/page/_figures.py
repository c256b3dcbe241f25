"""Data of the tables and figures of a page: coefficients, curves over the budgets, predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox.report._drawing import COLOURS, largest, where_used
from levelprox.report.fitted import by_size, coefficient_name, in_one_figure, name_and_sign, standardized
from levelprox.report.page._fits import Family, Judged, Samples

#: A cell of the table: a number, and the standardised coefficient as a part of the largest one, where that is shown.
Cell = list[Any]

_MOST_ROWS, _MOST_CLASSES, _MOST_LINES = 100, 8, 150


def figure(value: float, digits: int = 4) -> str:
    """A number as it is printed."""
    return f"{value:.{digits}g}".replace("-", "−")


def cell_figure(value: float) -> str:
    """The same in a column: all digits, so that numbers stand below one another."""
    return f"{value:#.4g}".rstrip(".").replace("-", "−")


def columns_of(model: Any) -> list[str]:
    """What the columns of the table are called, but for the first, which has the features."""
    width = np.atleast_2d(model.coef_).shape[0]
    if width == 1:
        return ["coefficient", "standardised"] if model.standardize else ["coefficient"]
    return [str(name) for name in model.classes_[:_MOST_CLASSES]]


def sign_of(model: Any) -> str:
    """Of two classes, for which one a positive coefficient speaks."""
    if not hasattr(model, "classes_") or model.classes_.size != 2:
        return ""
    negative, positive = model.classes_
    return f"Positive coefficients speak for class {positive}, negative ones for class {negative}."


def rows_of(fit: Any) -> list[tuple[int, list[Cell]]]:
    """The selected features and their cells, the largest first, as many as are shown."""
    order = by_size(fit)[:_MOST_ROWS]
    coef, scaled = np.atleast_2d(fit.coef_)[:, order], standardized(fit)[:, order]
    parts = 100 * scaled / np.max(np.abs(scaled), initial=0.0, where=np.isfinite(scaled)) if order.size else scaled
    if coef.shape[0] > 1:
        shown = range(min(coef.shape[0], _MOST_CLASSES))
        return [(int(j), [[cell_figure(coef[c, i]), _part(parts[c, i])] for c in shown]) for i, j in enumerate(order)]
    if not fit.standardize:
        return [(int(j), [[cell_figure(coef[0, i]), _part(parts[0, i])]]) for i, j in enumerate(order)]
    return [
        (int(j), [[cell_figure(coef[0, i]), None], [cell_figure(scaled[0, i]), _part(parts[0, i])]])
        for i, j in enumerate(order)
    ]


def _part(value: float) -> float:
    return round(float(value), 1) + 0.0


def intercept_of(fit: Any) -> list[Cell]:
    """The cells of the intercept, which has no standardised size; none where there is no intercept."""
    if not fit.fit_intercept:
        return []
    values = np.atleast_1d(fit.intercept_)
    if values.size > 1:
        return [[cell_figure(value), None] for value in values[:_MOST_CLASSES]]
    return [[cell_figure(values[0]), None], *([["", None]] if fit.standardize else [])]


def left_out_of(fit: Any) -> str:
    """What the table leaves out, in words."""
    features = int(fit.selected_features_.size) - _MOST_ROWS
    classes = np.atleast_2d(fit.coef_).shape[0] - _MOST_CLASSES
    words = [f"{features} more features"] if features > 0 else []
    words += [f"the coefficients of {classes} more classes"] if classes > 0 else []
    return f"and {' and '.join(words)}" if words else ""


def lines_of(family: Family) -> dict[str, Any]:
    """The lines of the figure: features, their values at each budget, and which of them have a colour.

    As `PathDisplay`: the largest of the model itself and of the largest fit have a colour, all others are grey. Fits of
    separable data, whose coefficients only precision limits, are left out.
    """
    values = np.array([in_one_figure(one) for one in family.fits])
    sure = np.array(family.sure)
    size = np.max(np.abs(values[sure]), axis=0)
    used = np.array(largest(size, _MOST_LINES), np.intp)
    picked = values[:, used]
    names = len(COLOURS)
    named = list(dict.fromkeys([*largest(picked[family.own], names), *largest(picked[sure][-1], names)]))
    curves = where_used(picked)
    curves[~sure] = np.nan
    return {
        "title": coefficient_name(family.model),
        "features": [int(j) for j in used],
        "values": [_rounded(curves[:, i]) for i in range(used.size)],
        "colours": [named.index(i) if i in named else -1 for i in range(used.size)],
        "left_out": int(np.count_nonzero(size)) - int(used.size),
    }


def _rounded(curve: NDArray[np.float64]) -> list[float | None]:
    """Five digits are more than can be drawn."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in curve]


#: Scores that are, but for their sign or their distance to 1, what another curve shows already.
_ERROR_RATE, _MEAN_LOSS = ("accuracy",), {"neg_mean_squared_error": "squared", "neg_mean_absolute_error": "absolute"}
_NAMES = {"squared": "Mean squared error", "absolute": "Mean absolute error"}


@dataclass(frozen=True, eq=False)
class Choice:
    """What a model that has chosen its budget chose by, at each budget of a family.

    Attributes
    ----------
    name : str
    joins : {"loss", "error", ""}
        The chart in whose unit it is; else it has its own.
    values, errors : list of float or None
        Scores and their standard errors; a criterion has none.
    folds : int
        How many; 0 for a criterion.
    """

    name: str
    joins: str
    values: list[float | None]
    errors: list[float | None]
    folds: int

    def words(self, i: int) -> str:
        """The score at one budget."""
        value, error = self.values[i], self.errors[i]
        if value is None:
            return ""
        return figure(value) if error is None else f"{figure(value)} ± {figure(error, 2)}"


def mean_loss_name(model: Any) -> str:
    """What the mean loss is called."""
    name = str(model.loss_.name)
    return _NAMES.get(name, f"Mean {name.replace('_', ' ')} loss")


def choice_of(family: Family) -> Choice | None:
    """How the model's budget was chosen, if it was."""
    model = family.model
    if not hasattr(model, "cv_results_"):
        return None
    results, _ = model.results_by_budget()
    rows = [_row(results[family.by], budget) for budget in family.budgets]
    if model.criterion_ != "cv":
        values = _picked(results[model.criterion_], rows)
        return Choice(f"{model.criterion_.upper()}, lower is better", "", values, [None] * len(rows), 0)
    name, sign = name_and_sign(model.scoring_)
    scores, joins = sign * results["mean_test_score"], ""
    if model.scoring_ is None or _MEAN_LOSS.get(str(model.scoring_)) == model.loss_.name:
        joins = "loss"
    elif model.scoring_ in _ERROR_RATE:
        name, scores, joins = "Share of wrong answers of held-out samples", 1 - scores, "error"
    folds = sum(key.startswith("split") for key in results)
    return Choice(name, joins, _picked(scores, rows), _picked(results["standard_error"], rows), folds)


def charts_of(
    family: Family, train: Sequence[Judged], test: Sequence[Judged] | None, choice: Choice | None
) -> list[dict[str, Any]]:
    """The charts, one below the other, each of one unit."""
    charts = [_chart("loss", mean_loss_name(family.model), train, test, choice)]
    if train[0].error is not None:
        charts.append(_chart("error", "Share of wrong answers", train, test, choice))
    if choice is not None and not choice.joins:
        charts.append({"title": choice.name, "percent": False, "series": [_chosen(choice)]})
    return charts


def _chart(
    what: str, title: str, train: Sequence[Judged], test: Sequence[Judged] | None, choice: Choice | None
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
_MOST_POINTS, _ALL_POINTS, _LEAST_POINTS = 2000, 30_000, 250
_STEPS = 1000
_OTHER, _UNKNOWN = "other", "not seen in training"


@dataclass(frozen=True, eq=False)
class Classes:
    """A table of classes: rows are what was, columns what was predicted.

    Attributes
    ----------
    names : list of str
        Of the columns: the most frequent classes, and all others together where they are many.
    rows : list of str
        The same, and one more where a class is there that no fit knows.
    """

    names: list[str]
    rows: list[str]
    _place: NDArray[np.intp]
    _actual: NDArray[np.intp]
    _known: NDArray[Any]
    _there: NDArray[np.intp]

    def look(self, predicted: NDArray[Any]) -> list[list[int]]:
        """How often each was taken for each."""
        guessed = self._place[np.searchsorted(self._known, predicted[self._there])]
        table = np.zeros((len(self.rows), len(self.names)), np.int64)
        np.add.at(table, (self._actual, guessed), 1)
        return [[int(n) for n in row] for row in table]

    def with_all(self, seen: list[list[list[int]]]) -> dict[str, Any]:
        """As data, with the counts of each fit."""
        return {"kind": "classes", "names": self.names, "rows": self.rows, "counts": seen}


def outcomes_of(family: Family, samples: Samples) -> Classes | Points:
    """How what the fits predict of these samples is shown."""
    if hasattr(family.model, "classes_"):
        return classes_of(family.model.classes_, samples)
    return points_of(samples, len(family.fits))


def classes_of(known: NDArray[Any], samples: Samples) -> Classes:
    """The table for these samples of these classes."""
    there = samples.there
    y = samples.y[there]
    seen = np.isin(y, known)
    places = np.searchsorted(known, y[seen])
    order = np.arange(known.size)
    if known.size > _MAX_MATRIX_CLASSES:
        often = np.argsort(-np.bincount(places, minlength=known.size), kind="stable")
        order = np.sort(often[: _MAX_MATRIX_CLASSES - 1])
    place = np.full(known.size, order.size, np.intp)
    place[order] = np.arange(order.size)
    names = [str(known[i]) for i in order] + ([_OTHER] if order.size < known.size else [])
    actual = np.full(y.size, len(names), np.intp)
    actual[seen] = place[places]
    return Classes(names, names if np.all(seen) else [*names, _UNKNOWN], place, actual, known, there)


@dataclass(frozen=True, eq=False)
class Points:
    """Samples to be drawn: a number of steps from `low` stands for low + steps · (high − low)/1000.

    Attributes
    ----------
    low, high : float
        Targets lie between them; predictions beyond are drawn at the edge.
    shown, all : int
        How many of the samples are drawn, and how many there are.
    actual : list of int
        The targets, in steps.
    """

    low: float
    high: float
    shown: int
    all: int
    actual: list[int]
    _rows: NDArray[np.intp]

    def look(self, predicted: NDArray[Any]) -> list[int]:
        """What a fit predicts of them, in steps."""
        return _steps(predicted[self._rows], self.low, self.high)

    def with_all(self, seen: list[list[int]]) -> dict[str, Any]:
        """As data, with what each fit predicts."""
        shown = {"kind": "residuals", "low": self.low, "high": self.high, "shown": self.shown, "all": self.all}
        return {**shown, "actual": self.actual, "predicted": seen}


def points_of(samples: Samples, n_fits: int) -> Points:
    """Some of the samples, the fewer the more fits there are."""
    there = samples.there
    most = min(_MOST_POINTS, max(_LEAST_POINTS, _ALL_POINTS // n_fits))
    rows = there if there.size <= most else there[np.linspace(0, there.size - 1, most).astype(np.intp)]
    y = np.asarray(samples.y[rows], np.float64)
    low, high = float(y.min()), float(y.max())
    room = 0.25 * (high - low) or 0.5 * (abs(high) or 1.0)
    low, high = low - room, high + room
    return Points(low, high, int(rows.size), int(there.size), _steps(y, low, high), rows)


def _steps(values: NDArray[Any], low: float, high: float) -> list[int]:
    inside = np.nan_to_num(np.clip(values.astype(np.float64), low, high), nan=low)
    return [int(i) for i in np.rint((inside - low) / (high - low) * _STEPS)]
