"""The content of a page as plain data, used by the static part and by the script."""

from __future__ import annotations

from typing import Any

import numpy as np

from levelprox.report.fitted import BUDGET_LABELS, Axis, budget_of_fit, certificate_words, feature_name, price_words
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
    prediction_display,
    rows_of,
    sign_of,
)
from levelprox.report.page._fits import Evaluation, PathFits, Samples, evaluate
from levelprox.result import Status

# Relative tolerances on ψ for the same data in float32: to ψ itself, and to that of the smallest fit.
_LOSS_TOLERANCE, _ROUNDING_TOLERANCE = 1e-4, 1e-6


def page_content(path: PathFits, train: Samples, test: Samples | None) -> dict[str, Any]:
    """Return the content of a page that depends on the model and the data."""
    train, test = train.checked_by(path.model), None if test is None else test.checked_by(path.model)
    outcomes = prediction_display(path, train if test is None else test)
    in_training = [evaluate(one, train, outcomes.record if test is None else None) for one in path.fits]
    in_test = None if test is None else [evaluate(one, test, outcomes.record) for one in path.fits]
    evaluated = [("Training error", in_training, train)]
    if in_test is not None and test is not None:
        evaluated.append(("Test error", in_test, test))
    recorded = [one.recorded for one in in_test or in_training]
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
                *(_error(name, one, found[i], samples) for name, found, samples in evaluated),
                *_choice_tiles(choice, i),
                _price(one),
            ],
            "rows": [[place[j], cells] for j, cells in rows[i]],
            "intercept": intercept_of(one),
            "left_out": left_out_of(one),
            "facts": [[name, text] for name, text in certificate_words(one)],
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
        "features": [feature_name(path.model, j) for j in shown],
        "several": np.atleast_2d(path.model.coef_).shape[0] > 1,
        "columns": columns_of(path.model),
        "sign": sign_of(path.model),
        "fits": fits,
        "lines": {**lines, "features": [place[j] for j in lines["features"]]},
        "charts": charts_of(path, in_training, in_test, choice),
        "outcome": {"of": "training" if test is None else "test", **outcomes.as_data(recorded)},
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
    return ["Shadow price", figure(fit.multiplier_, 3), price_words(fit)]


def _error(name: str, fit: Any, evaluation: Evaluation, samples: Samples) -> list[str]:
    n = samples.rows_used.size
    if evaluation.error is not None:
        return [name, f"{100 * evaluation.error:.3g} %", f"{evaluation.wrong} of {n} wrong"]
    loss = mean_loss_name(fit)
    explained = "" if evaluation.explained is None else f"; R² {figure(evaluation.explained, 3)}"
    return [
        name,
        "–" if evaluation.loss is None else figure(evaluation.loss),
        f"{loss[0].lower()}{loss[1:]}{explained}",
    ]


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
