"""Curves over the budgets: loss and error on training, test and held-out samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelprox.report.page.coefficients import figure
from levelprox.report.page.family import Family
from levelprox.report.page.judged import Judged
from levelprox.report.scores import name_and_sign

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
    name = str(model._loss().name)
    return _NAMES.get(name, f"Mean {name.replace('_', ' ')} loss")


def choice_of(family: Family) -> Choice | None:
    """How the model's budget was chosen, if it was."""
    model = family.model
    if not hasattr(model, "cv_results_"):
        return None
    results, _ = model.results_by_budget()
    rows = [_row(results[family.by], budget) for budget in family.budgets]
    if model._criterion != "cv":
        values = _picked(results[model._criterion], rows)
        return Choice(f"{model._criterion.upper()}, lower is better", "", values, [None] * len(rows), 0)
    name, sign = name_and_sign(model.scoring_)
    scores, joins = sign * results["mean_test_score"], ""
    if model.scoring_ is None or _MEAN_LOSS.get(str(model.scoring_)) == model._loss().name:
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
