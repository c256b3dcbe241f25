"""What is to be said of a fitted model: for people and for programs."""

from __future__ import annotations

from typing import Any

from levelprox.cli.output import print_facts, print_table

_MOST_FEATURES, _MOST_CLASSES = 30, 6


def score_name(model: Any) -> str:
    """What `model.score` is called."""
    from sklearn.base import is_classifier

    if is_classifier(model):
        return "accuracy"
    return "D²" if model._loss().name in ("poisson", "gamma") else "R²"


def status_word(model: Any) -> str:
    """Why the fit ended; a model of a stream has no such thing."""
    status = getattr(model, "status_", None)
    return "streamed" if status is None else str(status)


def as_document(model: Any) -> dict[str, Any]:
    """Everything about a fitted model that a program may want."""
    import numpy as np

    from levelprox.report.fitted import feature_names

    names, coef = feature_names(model), np.atleast_2d(model.coef_)
    certificate = getattr(model, "certificate_", None)
    document = {
        "estimator": type(model).__name__,
        "status": status_word(model),
        "message": getattr(model, "message_", None),
        "n_features_in": int(model.n_features_in_),
        "features": [
            {"index": int(j), "name": names[j], "coefficient": coef[:, j].tolist()} for j in model.selected_features_
        ],
        "intercept": np.atleast_1d(model.intercept_).tolist(),
        "classes": getattr(model, "classes_", None),
        "budget": _budget(model),
        "ridge": getattr(model, "ridge_", None),
        "multiplier": getattr(model, "multiplier_", None),
        "certificate": None if certificate is None else certificate.as_dict(),
        "n_iter": int(model.n_iter_),
    }
    if hasattr(model, "preprocessing_"):
        document["preprocessing"] = model.preprocessing_.as_dict()
    if hasattr(model, "cv_results_"):
        document["chosen"] = model.best_params_
        document["cv"] = {key: values for key, values in model.cv_results_.items() if "split" not in key}
    if hasattr(model, "n_samples_seen_"):
        document["n_samples_seen"] = model.n_samples_seen_
    return document


def _budget(model: Any) -> dict[str, Any]:
    at_most = "level" if hasattr(model, "constraint_") else "n_features"
    if hasattr(model, "budget_"):
        return {"n_features": int(model.level_), "budget": model.budget_}
    return {at_most: model.level_ if at_most == "level" else int(model.level_)}


def print_model(model: Any, more: list[tuple[str, object]]) -> None:
    """The features with their coefficients, then what is shown of the fit."""
    _print_features(model)
    print_facts([*_facts(model), *more])


def _print_features(model: Any) -> None:
    import numpy as np

    from levelprox.report.fitted import feature_names, standardized

    coef, scaled, names = np.atleast_2d(model.coef_), standardized(model), feature_names(model)
    chosen = model.selected_features_
    order = chosen[np.argsort(-np.linalg.norm(scaled[:, chosen], axis=0), kind="stable")]
    shown = range(min(coef.shape[0], _MOST_CLASSES))
    heads = ["feature", "coefficient", "standardised"] if len(shown) == 1 else ["feature", *_classes(model, shown)]
    rows: list[list[object]] = [[names[j], *(float(coef[k, j]) for k in shown)] for j in order[:_MOST_FEATURES]]
    intercept = np.atleast_1d(model.intercept_)
    if len(shown) == 1:
        rows = [[*row, float(scaled[0, j])] for row, j in zip(rows, order, strict=False)]
    if model.fit_intercept:
        rows.append(["(intercept)", *(float(intercept[k]) for k in shown), *([""] if len(shown) == 1 else [])])
    left = [(order.size - _MOST_FEATURES, "features"), (coef.shape[0] - len(shown), "classes")]
    print_table(heads, rows)
    for count, what in left:
        if count > 0:
            print_facts([("", f"and {count} more {what}: --json shows all")])


def _preprocessing(made: Any) -> list[tuple[str, object]]:
    """What became of columns that hold text, and of missing values."""
    facts: list[tuple[str, object]] = []
    one_hot = [f"{column.name} ({len(column.categories)})" for column in made.columns if column.categories]
    if one_hot:
        more = f" and {len(one_hot) - _MOST_CLASSES} more" if len(one_hot) > _MOST_CLASSES else ""
        facts.append(("categories of", ", ".join(one_hot[:_MOST_CLASSES]) + more))
    if made.impute is not None:
        facts.append(("missing values", f"replaced by the {made.impute.replace('-', ' ')} of their column"))
    return facts


def _classes(model: Any, shown: range) -> list[str]:
    return [str(model.classes_[k]) for k in shown]


def _facts(model: Any) -> list[tuple[str, object]]:
    from levelprox.report.fitted import budget_words, optimality_words, price_words, ridge_words

    facts: list[tuple[str, object]] = []
    if hasattr(model, "classes_") and model.classes_.size == 2:
        facts.append(("classes", f"positive is {model.classes_[1]}, negative {model.classes_[0]}"))
    if hasattr(model, "preprocessing_"):
        facts += _preprocessing(model.preprocessing_)
    if hasattr(model, "best_params_"):
        facts.append(("chosen", ", ".join(f"{name} = {value:g}" for name, value in model.best_params_.items())))
        by = str(model.criterion).lower()
        facts.append(("mean score over folds" if by == "cv" else by, f"{model.best_score_:.6g}"))
    if not hasattr(model, "certificate_"):
        seen = f"{model.n_samples_seen_:g} samples in {model.n_iter_} batches"
        return [*facts, ("streamed", seen), ("certificate", "none: the data of a stream are gone")]
    return [
        *facts,
        ("budget", budget_words(model)),
        ("loss", f"{model.certificate_.psi:.6g}"),
        *ridge_words(model),
        *optimality_words(model),
        ("shadow price", price_words(model)),
        ("status", str(model.status_).replace("_", " ")),
    ]
