"""What a page says, as plain data: the same for the part that is written out and for the part that a script draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from levelprox.report.fitted import Axis, budget_of_fit, certificate_words, feature_name, label_of, price_words
from levelprox.report.page._figures import (
    Choice,
    charts_of,
    choice_of,
    columns_of,
    figure,
    intercept_of,
    left_out_of,
    lines_of,
    mean_loss_name,
    outcomes_of,
    rows_of,
    sign_of,
)
from levelprox.report.page._fits import Family, Judged, Samples, judge
from levelprox.result import Status

# By how much ψ of the same data may differ: of float32 data it is known to so much of itself, or of the smallest fit's.
_SAME_LOSS, _ROUNDING = 1e-4, 1e-6


def page_content(family: Family, train: Samples, test: Samples | None) -> dict[str, Any]:
    """Everything on the page that depends on the model and the data."""
    train, test = train.read_by(family.model), None if test is None else test.read_by(family.model)
    outcomes = outcomes_of(family, train if test is None else test)
    in_training = [judge(one, train, outcomes.look if test is None else None) for one in family.fits]
    in_test = None if test is None else [judge(one, test, outcomes.look) for one in family.fits]
    seen = [one.seen for one in in_test or in_training]
    choice = choice_of(family)
    lines, rows = lines_of(family), [rows_of(one) for one in family.fits]
    shown = sorted({j for fit in rows for j, _ in fit} | set(lines["features"]))
    place = {j: i for i, j in enumerate(shown)}
    fits = [
        {
            "label": budget_label(family.by, budget_of_fit(one)),
            "status": [str(one.status_).replace("_", " "), "good" if one.status_ is Status.SOLVED else "short"],
            "tiles": _tiles(one, in_training[i], None if in_test is None else in_test[i], train, test, choice, i),
            "rows": [[place[j], cells] for j, cells in rows[i]],
            "intercept": intercept_of(one),
            "left_out": left_out_of(one),
            "facts": [[name, text] for name, text in certificate_words(one)],
        }
        for i, one in enumerate(family.fits)
    ]
    return {
        "notice": _notice(family, train),
        "by": family.by,
        "axis": label_of(family.by),
        "own": family.own,
        "sure": family.sure,
        "budgets": family.budgets,
        "features": [feature_name(family.model, j) for j in shown],
        "several": np.atleast_2d(family.model.coef_).shape[0] > 1,
        "columns": columns_of(family.model),
        "sign": sign_of(family.model),
        "fits": fits,
        "lines": {**lines, "features": [place[j] for j in lines["features"]]},
        "charts": charts_of(family, in_training, in_test, choice),
        "outcome": {"of": "training" if test is None else "test", **outcomes.with_all(seen)},
    }


def budget_label(by: Axis, budget: float) -> str:
    """A budget in words."""
    if by == "level":
        return f"level η = {budget:.4g}"
    if by == "budget":
        return f"at a cost of at most {budget:.4g}"
    return f"at most {budget:.0f} feature{'' if budget == 1 else 's'}"


def _tiles(
    fit: Any,
    train: Judged,
    test: Judged | None,
    training: Samples,
    testing: Samples | None,
    choice: Choice | None,
    i: int,
) -> list[list[str]]:
    """The figures that are read first: a name, a number, and what it means."""
    n = int(fit.selected_features_.size)
    tiles = [
        ["Features", str(n), f"of {fit.n_features_in_} in the data"],
        _error("Training error", fit, train, training),
    ]
    if test is not None and testing is not None:
        tiles.append(_error("Test error", fit, test, testing))
    if choice is not None:
        words = choice.words(i)
        note = f"{choice.name[0].lower()}{choice.name[1:]}" if choice.folds else choice.name
        over = f"; mean of {choice.folds} folds ± standard error" if choice.folds else ""
        name = "Held-out score" if choice.folds else "Criterion"
        tiles.append([name, words or "–", f"{note}{over}" if words else "not among the budgets tried"])
    return [*tiles, _price(fit)]


def _price(fit: Any) -> list[str]:
    """The shadow price; of a search that was cut short nobody knows it."""
    if np.isnan(fit.multiplier_):
        return ["Shadow price", "—", "not examined: the fit was stopped"]
    return ["Shadow price", figure(fit.multiplier_, 3), price_words(fit)]


def _error(name: str, fit: Any, judged: Judged, samples: Samples) -> list[str]:
    n = samples.there.size
    if judged.error is not None:
        return [name, f"{100 * judged.error:.3g} %", f"{judged.wrong} of {n} wrong"]
    loss = mean_loss_name(fit)
    explained = "" if judged.explained is None else f"; R² {figure(judged.explained, 3)}"
    return [name, "–" if judged.loss is None else figure(judged.loss), f"{loss[0].lower()}{loss[1:]}{explained}"]


def _notice(family: Family, train: Samples) -> str:
    """A warning where ψ of the data given is not that of the model: it was fitted to others."""
    model = family.model
    if train.there.size < train.y.size:  # removed samples may be of classes, or of sizes, that the fit has not seen
        return ""
    if hasattr(model, "classes_") and not np.all(np.isin(train.y, model.classes_)):
        return "These are not the data that the model was fitted to: they have classes that it does not know."
    psi = float(model.certificate_.psi)
    here = model.training_objective(train.X, train.y, train.weight, **train.more)
    rounding = _SAME_LOSS * max(abs(psi), abs(here)) + _ROUNDING * abs(float(family.fits[0].certificate_.psi))
    if abs(psi - here) <= rounding:
        return ""
    return f"These are not the data that the model was fitted to: here the loss is {here:.6g}, there it was {psi:.6g}."
