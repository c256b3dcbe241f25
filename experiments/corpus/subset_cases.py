"""At most k features, or a budget of costs: `best_subset` and `subset_path`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from experiments.corpus.case import LOSSES, Case, case, samples
from levelprox import LinearModel, MultinomialModel, OneVsRestModel, best_subset, subset_path

_COSTS = np.round(np.linspace(0.25, 3.0, 20), 2)
_SETTINGS: dict[str, dict[str, Any]] = {
    "k": {"k": 3},
    "keep": {"k": 2, "keep": [4]},
    "nonnegative": {"k": 3, "nonnegative": True},
    "budget": {"feature_cost": _COSTS, "budget": 2.5},
}
_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "prove": ("logistic", {"k": 3, "prove": True}),
    "prove kinks": ("absolute", {"k": 2, "prove": True}),
    "start": ("logistic", {"k": 3, "start": [0, 2, 4]}),
    "start of fewer": ("hinge", {"k": 2, "start": [2]}),
    "k is 0": ("logistic", {"k": 0}),
    "k is all": ("squared", {"k": 20}),
    "k is too large": ("squared", {"k": 21}),
    "k and budget": ("logistic", {"k": 2, "feature_cost": _COSTS, "budget": 4.0}),
    "budget, start": ("squared", {"feature_cost": _COSTS, "budget": 3.0, "start": [1]}),
    "costs without a budget": ("squared", {"k": 2, "feature_cost": _COSTS}),
    "tol": ("poisson", {"k": 3, "tol": 1e-4}),
    "keep mask": ("gamma", {"k": 2, "keep": np.arange(20) == 2}),
}


def cases() -> Iterator[Case]:
    """Return the cases of this area."""
    for loss in LOSSES:
        for name, options in _SETTINGS.items():
            yield case(f"subset/{loss}/{name}", _subset, loss, **options)
    for name, (loss, options) in _OPTIONS.items():
        yield case(f"subset-options/{name}", _subset, loss, **options)
    for kind in (MultinomialModel, OneVsRestModel):
        for name in ("k", "keep", "budget"):
            yield case(f"subset-classes/{kind.__name__}/{name}", _classes, kind, **_SETTINGS[name])
    yield case("subset-classes/hinge", _classes, OneVsRestModel, loss="hinge", k=2)
    for name, storage in {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array}.items():
        yield case(f"subset-model/{name}", _subset, "logistic", storage=storage, k=3)
    yield case("subset-model/weights", _subset, "logistic", model={"weighted": True, "fit_intercept": True}, k=3)
    yield case("subset-model/ridge", _subset, "logistic", model={"ridge": 0.1}, k=3)
    yield case("subset-model/separable", _separable)
    yield case("subset-model/wide", _wide)
    for loss in ("squared", "logistic", "hinge", "cauchy", "poisson"):
        yield case(f"subset-path/{loss}", _path, loss)
    yield case("subset-path/keep", _path, "logistic", keep=[4])
    yield case("subset-path/classes", _path_of_classes)


def _model(loss: str, storage: Any = np.asarray, weighted: bool = False, **options: Any) -> LinearModel:
    data = samples()
    if weighted:
        options |= {"sample_weight": data.weight, "offset": data.offset}
    X = data.X if storage is np.asarray else np.where(np.abs(data.X) > 0.5, data.X, 0.0)
    return LinearModel(storage(X), getattr(data, LOSSES[loss]), loss, **options)


def _subset(loss: str, storage: Any = np.asarray, model: dict[str, Any] | None = None, **options: Any) -> Any:
    return best_subset(_model(loss, storage, **(model or {"fit_intercept": True})), **options)


def _classes(kind: Any, loss: str | None = None, **options: Any) -> Any:
    data = samples(seed=2)
    more = {} if loss is None else {"loss": loss}
    return best_subset(kind(data.X, data.three, fit_intercept=True, **more), **options)


def _separable() -> Any:
    data = samples()
    return best_subset(LinearModel(data.X, np.sign(data.X[:, 1] - data.X[:, 3]), "logistic"), 2)


def _wide() -> Any:
    data = samples(40, 120, seed=3)
    return best_subset(LinearModel(data.X, data.signs, "logistic"), 3)


def _path(loss: str, **options: Any) -> Any:
    return subset_path(_model(loss), [0, 1, 3], **options)


def _path_of_classes() -> Any:
    data = samples(seed=2)
    return subset_path(MultinomialModel(data.X, data.three), [0, 1, 2])
