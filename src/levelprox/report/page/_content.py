"""The content of a page as plain data, used by the static part and by the script: tiles, tables, lines and charts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelprox._typing import Vector
from levelprox.report import fitted
from levelprox.report._drawing import COLOURS, largest, where_used
from levelprox.report.fitted import BUDGET_LABELS, Axis, budget_of_fit, name_and_sign
from levelprox.report.page._fits import Evaluation, PathFits, Samples, evaluate, predictions_of
from levelprox.result import Status

#: A cell of the table: a number, and the standardised coefficient in percent of the largest, or None.
Cell = list[Any]

_MAX_ROWS, _MAX_CLASSES, _MAX_LINES = 100, 8, 150
# Relative tolerances on ψ for the same data in float32: to ψ itself, and to that of the smallest fit.
_LOSS_TOLERANCE, _ROUNDING_TOLERANCE = 1e-4, 1e-6


def page_content(path: PathFits, train: Samples, test: Samples | None) -> dict[str, Any]:
    """Return the content of a page that depends on the model and the data."""
    train, test = train.checked_by(path.model), None if test is None else test.checked_by(path.model)
    predictions, record = predictions_of(path, train if test is None else test)
    errors = {"training": [evaluate(one, train, record if test is None else None) for one in path.fits]}
    if test is not None:
        errors["test"] = [evaluate(one, test, record) for one in path.fits]
    n_samples = {"training": train.rows_used.size, "test": 0 if test is None else test.rows_used.size}
    choice = choice_of(path)
    lines, rows = lines_of(path), [rows_of(one) for one in path.fits]
    shown = sorted({j for fit in rows for j, _ in fit} | set(lines["features"]))
    place = {j: i for i, j in enumerate(shown)}
    fits = [
        {
            "label": budget_label(path.by, budget_of_fit(one)),
            "status": [str(one.status_).replace("_", " "), "good" if one.status_ is Status.SOLVED else "short"],
            "tiles": [
                ["Features", str(one.selected_features_.size), f"of {one.n_features_in_} in the data"],
                *(_error(name, one, found[i], n_samples[name]) for name, found in errors.items()),
                *_choice_tiles(choice, i),
                _price(one),
            ],
            "rows": [[place[j], cells] for j, cells in rows[i]],
            "intercept": intercept_of(one),
            "left_out": left_out_of(one),
            "facts": [[name, text] for name, text in fitted.certificate_words(one)],
        }
        for i, one in enumerate(path.fits)
    ]
    return {
        "notice": _notice(path, train),
        "by": path.by,
        "axis": BUDGET_LABELS[path.by],
        "own": path.own,
        "sure": path.sure,
        "budgets": path.budgets,
        "features": [fitted.feature_name(path.model, j) for j in shown],
        "several": np.atleast_2d(path.model.coef_).shape[0] > 1,
        "columns": columns_of(path.model),
        "sign": sign_of(path.model),
        "fits": fits,
        "lines": {**lines, "features": [place[j] for j in lines["features"]]},
        "charts": charts_of(path, errors, choice),
        "outcome": {"of": "training" if test is None else "test", **predictions},
    }


def budget_label(by: Axis, budget: float) -> str:
    """Return a budget as text."""
    if by == "level":
        return f"level η = {budget:.4g}"
    if by == "budget":
        return f"at a cost of at most {budget:.4g}"
    return f"at most {budget:.0f} feature{'' if budget == 1 else 's'}"


def _choice_tiles(choice: Choice | None, i: int) -> list[list[str]]:
    """Return the tile of the score by which the budget was chosen, as [name, number, meaning]."""
    if choice is None:
        return []
    words = choice.words(i)
    note = f"{choice.name[0].lower()}{choice.name[1:]}" if choice.folds else choice.name
    over = f"; mean of {choice.folds} folds ± standard error" if choice.folds else ""
    name = "Held-out score" if choice.folds else "Criterion"
    return [[name, words or "–", f"{note}{over}" if words else "not among the budgets tried"]]


def _price(fit: Any) -> list[str]:
    """Return the tile of the shadow price, unknown if a search was stopped early."""
    if np.isnan(fit.multiplier_):
        return ["Shadow price", "—", "not examined: the fit was stopped"]
    return ["Shadow price", figure(fit.multiplier_, 3), fitted.price_words(fit)]


def _error(name: str, fit: Any, found: Evaluation, n_samples: int) -> list[str]:
    """Return the tile of the error on training or test data."""
    title = f"{name.capitalize()} error"
    if hasattr(fit, "classes_"):
        return [title, f"{100 * found.error:.3g} %", f"{found.wrong} of {n_samples} wrong"]
    loss = mean_loss_name(fit)
    explained = f"; R² {figure(found.explained, 3)}" if np.isfinite(found.explained) else ""
    return [title, figure(found.loss) if np.isfinite(found.loss) else "–", f"{loss[0].lower()}{loss[1:]}{explained}"]


def _notice(path: PathFits, train: Samples) -> str:
    """Return a warning if the loss on these data differs from that of the model: it was fitted to other data."""
    model = path.model
    if train.rows_used.size < train.y.size:  # removed samples may have classes or values that the fit has not seen
        return ""
    if hasattr(model, "classes_") and not np.all(np.isin(train.y, model.classes_)):
        return "These are not the data that the model was fitted to: they have other classes."
    psi = float(model.certificate_.psi)
    here = model.training_objective(train.X, train.y, train.weight, **train.more)
    least = abs(float(path.fits[0].certificate_.psi))
    if abs(psi - here) <= _LOSS_TOLERANCE * max(abs(psi), abs(here)) + _ROUNDING_TOLERANCE * least:
        return ""
    return f"These are not the data that the model was fitted to: here the loss is {here:.6g}, there it was {psi:.6g}."


# --- the table of features, and the lines of their coefficients


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
    order = fitted.by_size(fit)[:_MAX_ROWS]
    coef, scaled = np.atleast_2d(fit.coef_)[:, order], fitted.standardized(fit)[:, order]
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
    values = np.array([fitted.in_one_figure(one) for one in path.fits])
    sure = np.array(path.sure)
    size = np.max(np.abs(values[sure]), axis=0)
    used = np.array(largest(size, _MAX_LINES), np.intp)
    picked = values[:, used]
    names = len(COLOURS)
    named = list(dict.fromkeys([*largest(picked[path.own], names), *largest(picked[sure][-1], names)]))
    curves = where_used(picked)
    curves[~sure] = np.nan
    return {
        "title": fitted.coefficient_name(path.model),
        "features": [int(j) for j in used],
        "values": [_rounded(curves[:, i], 5) for i in range(used.size)],
        "colours": [named.index(i) if i in named else -1 for i in range(used.size)],
        "left_out": int(np.count_nonzero(size)) - int(used.size),
    }


def _rounded(values: Iterable[float], digits: int) -> list[float | None]:
    """Round to so many digits, more than can be drawn; numbers that are not finite become None."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values]


# --- charts of errors and scores

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
    values, errors : ndarray of shape (n_fits,)
        Scores and their standard errors; nan for what is not known.
    folds : int
        Number of folds; 0 for a criterion.
    """

    name: str
    joins: str
    values: Vector
    errors: Vector
    folds: int

    def words(self, i: int) -> str:
        """Return the score at one budget as text."""
        value, error = self.values[i], self.errors[i]
        if not np.isfinite(value):
            return ""
        return f"{figure(value)} ± {figure(error, 2)}" if np.isfinite(error) else figure(value)


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
    grid = results[path.by]
    if model.criterion_ != "cv":
        values = _at(path.budgets, grid, results[model.criterion_])
        return Choice(f"{model.criterion_.upper()}, lower is better", "", values, np.full(values.size, np.nan), 0)
    name, sign = name_and_sign(model.scoring_)
    scores, joins = sign * results["mean_test_score"], ""
    if model.scoring_ is None or _MEAN_LOSS.get(str(model.scoring_)) == model.loss_.name:
        joins = "loss"
    elif model.scoring_ in _ERROR_RATE:
        name, scores, joins = "Error rate of held-out samples", 1 - scores, "error"
    folds = sum(key.startswith("split") for key in results)
    errors = _at(path.budgets, grid, results["standard_error"])
    return Choice(name, joins, _at(path.budgets, grid, scores), errors, folds)


def charts_of(path: PathFits, errors: dict[str, list[Evaluation]], choice: Choice | None) -> list[dict[str, Any]]:
    """Return the charts, each with one unit; `errors` are those on training and on test data."""
    charts = [_chart("loss", mean_loss_name(path.model), errors, choice)]
    if hasattr(path.model, "classes_"):
        charts.append(_chart("error", "Error rate", errors, choice))
    if choice is not None and not choice.joins:
        charts.append({"title": choice.name, "percent": False, "series": [_chosen(choice)]})
    return charts


def _chart(what: str, title: str, errors: dict[str, list[Evaluation]], choice: Choice | None) -> dict[str, Any]:
    series = [
        {"name": name, "colour": i, "values": _rounded([getattr(one, what) for one in found], 6)}
        for i, (name, found) in enumerate(errors.items())
    ]
    if choice is not None and choice.joins == what:
        series.append(_chosen(choice))
    return {"title": title, "percent": what == "error", "series": series}


def _chosen(choice: Choice) -> dict[str, Any]:
    series = {"name": "held out" if choice.folds else "all data", "colour": 2, "values": _rounded(choice.values, 6)}
    return {**series, "errors": _rounded(choice.errors, 6)} if choice.folds else series


def _at(budgets: Sequence[float], grid: Any, values: Any) -> Vector:
    """Return the value of each budget; nan for budgets that are not in the grid of the values."""
    near = np.isclose(np.asarray(grid, np.float64), np.asarray(budgets)[:, None], rtol=1e-9, atol=0)
    return np.where(np.any(near, axis=1), np.asarray(values, np.float64)[np.argmax(near, axis=1)], np.nan)
