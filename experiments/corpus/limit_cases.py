"""Runs that a limit or a callback ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from experiments.corpus.case import CONSTRAINTS, LOSSES, Case, case, samples
from levelprox import (
    LinearModel,
    MultinomialModel,
    Problem,
    SparseClassifier,
    SparseClassifierCV,
    SparseRegressor,
    best_subset,
    path,
    solve,
    subset_path,
)


def cases() -> Iterator[Case]:
    """Return the cases of this area."""
    for loss in ("squared", "logistic", "hinge", "cauchy"):
        for steps in (0, 1, 3):
            yield case(f"limits/solve/{loss}/max_iter {steps}", _solve, loss, max_iter=steps)
        yield case(f"limits/solve/{loss}/callback", _solve, loss, callback=_after_two)
        for steps in (0, 1):
            yield case(f"limits/subset/{loss}/max_iter {steps}", _subset, loss, max_iter=steps)
        yield case(f"limits/subset/{loss}/callback", _subset, loss, callback=_when_swapping)
    yield case("limits/solve/spectral", _solve, "logistic", max_iter=2, subsolver="spectral")
    yield case("limits/solve/tol 0", _solve, "logistic", tol=0.0, max_iter=8)
    yield case("limits/solve/callback raises", _solve, "logistic", callback=_fails)
    yield case("limits/subset/callback raises", _subset, "logistic", callback=_fails)
    yield case("limits/solve/no time", _solve, "logistic", time_limit=0)
    yield case("limits/subset/no time", _subset, "logistic", time_limit=0)
    yield case("limits/subset/budget", _subset, "logistic", k=None, feature_cost=[1.0] * 20, budget=3, max_iter=0)
    yield case("limits/subset/classes", _classes)
    yield case("limits/path/no time", _path)
    yield case("limits/subset-path/max_iter", _subset_path)
    for name, options in _ESTIMATORS.items():
        yield case(f"limits/classifier/{name}", _classifier, **options)
    yield case("limits/regressor/callback", _regressor)
    yield case("limits/classifier-cv/max_iter", _chosen)


_ESTIMATORS: dict[str, dict[str, Any]] = {
    "max_iter": {"n_features": 3, "max_iter": 1},
    "level, max_iter": {"level": 3.5, "max_iter": 1},
    "callback": {"n_features": 3, "callback": lambda record: record.phase == "exchanges"},
    "level, callback": {"level": 3.5, "callback": lambda record: record.k >= 2},
    "no time": {"level": 3.5, "time_limit": 0},
}


def _after_two(record: Any, x: Any) -> bool:
    return bool(record.k >= 2)


def _when_swapping(record: Any) -> bool:
    return bool(record.phase == "exchanges")


def _fails(*_: Any) -> bool:
    raise RuntimeError("from the callback")


def _model(loss: str) -> LinearModel:
    data = samples(seed=4)
    return LinearModel(data.X, getattr(data, LOSSES[loss]), loss, fit_intercept=True)


def _solve(loss: str, **options: Any) -> Any:
    constraint, level = CONSTRAINTS["mcp"]
    return solve(Problem(_model(loss), constraint, level), **options)


def _subset(loss: str, k: int | None = 4, **options: Any) -> Any:
    return best_subset(_model(loss), k, **options)


def _classes() -> Any:
    data = samples(seed=2)
    return best_subset(MultinomialModel(data.X, data.three), 3, max_iter=0)


def _path() -> Any:
    constraint, level = CONSTRAINTS["mcp"]
    return path(Problem(_model("logistic"), constraint, level), [1.0, 2.0], time_limit=0)


def _subset_path() -> Any:
    return subset_path(_model("logistic"), [1, 2], max_iter=0)


def _classifier(**options: Any) -> Any:
    data = samples(seed=4)
    return SparseClassifier(**options).fit(data.X, data.two)


def _regressor() -> Any:
    data = samples(seed=4)
    return SparseRegressor("huber", level=3.5, callback=lambda record: record.k >= 1).fit(data.X, data.z)


def _chosen() -> Any:
    data = samples(seed=4)
    return SparseClassifierCV(n_features=[1, 3], cv=2, max_iter=1).fit(data.X, data.two)
