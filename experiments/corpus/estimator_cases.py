"""The four estimators: losses, budgets, targets, storage of X, options of `fit`, choices by folds and by criteria."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from experiments.corpus.case import Case, SkipCase, case, samples
from experiments.corpus.describe import Told, hashed
from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV

_CLASSIFICATION = ("logistic", "squared_hinge", "hinge", "sigmoid")
_REGRESSION = ("squared", "huber", "absolute", "quantile", "cauchy", "poisson", "gamma")
_BUDGETS: dict[str, dict[str, Any]] = {"k": {"n_features": 3}, "level": {"level": 3.5}}
_COSTS = [0.5, 1.0, 2.0, 0.25] * 5
_NAMED_CONSTRAINTS = ("scad", "exp", "log", "lp", "negative_lp", "l1")

_STORAGE: dict[str, Any] = {
    "float32": lambda X: X.astype(np.float32),
    "fortran": np.asfortranarray,
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_array,
    "csr float32": lambda X: scipy.sparse.csr_matrix(X.astype(np.float32)),
    "integers": lambda X: np.round(3 * X).astype(np.int64),
    "lists": lambda X: X.tolist(),
    "units": lambda X: X * np.logspace(-6, 6, X.shape[1]) + 10.0,
}
_OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "ridge 0": {"n_features": 3, "ridge": 0},
    "ridge 0.1": {"n_features": 3, "ridge": 0.1},
    "level, ridge 0.1": {"level": 3.5, "ridge": 0.1},
    "positive": {"n_features": 3, "positive": True},
    "positive some": {"level": 3.5, "positive": [1, 3]},
    "keep": {"n_features": 2, "keep": [0]},
    "level, keep": {"level": 2.5, "keep": [0]},
    "feature_weight": {"level": 2.5, "feature_weight": {0: 0.0, 3: 2.0}},
    "budget": {"feature_cost": _COSTS, "budget": 2.25},
    "budget, k": {"feature_cost": _COSTS, "budget": 5, "n_features": 2},
    "no intercept": {"n_features": 3, "fit_intercept": False},
    "not standardised": {"n_features": 3, "standardize": False},
    "level, not standardised": {"level": 3.5, "standardize": False, "fit_intercept": False},
    "direct": {"level": 3.5, "start": "direct"},
    "svrg": {"level": 3.5, "standardize": False, "fit_intercept": False, "subsolver": "svrg", "random_state": 1},
    "unknown loss": {"loss": "logit"},
    "both budgets": {"n_features": 3, "level": 2.0},
    "too many": {"n_features": 21},
}


def cases() -> Iterator[Case]:
    """Return the cases of this area."""
    for budget, options in _BUDGETS.items():
        for loss in _CLASSIFICATION:
            yield case(f"classifier/{loss}/{budget}", _fit, SparseClassifier, "two", loss=loss, **options)
            more = {**options, "loss": loss, "multi_class": "ovr"}
            yield case(f"classifier/{loss}/one-vs-rest {budget}", _fit, SparseClassifier, "three", **more)
        yield case(f"classifier/logistic/softmax {budget}", _fit, SparseClassifier, "three", **options)
        for loss in _REGRESSION:
            target = {"poisson": "counts", "gamma": "positive"}.get(loss, "z")
            yield case(f"regressor/{loss}/{budget}", _fit, SparseRegressor, target, loss=loss, **options)
        for name in _STORAGE:
            yield case(f"classifier-storage/{name}/{budget}", _fit, SparseClassifier, "two", storage=name, **options)
    for name in _NAMED_CONSTRAINTS:
        yield case(f"regressor/{name}", _fit, SparseRegressor, "z", level=3.0, constraint=name)
    for name, options in _OPTIONS.items():
        yield case(f"classifier-options/{name}", _fit, SparseClassifier, "two", **options)
    for name in ("positive", "keep", "budget", "ridge 0.1", "no intercept", "not standardised", "defaults"):
        yield case(f"regressor-options/{name}", _fit, SparseRegressor, "z", **_OPTIONS[name])
    yield from _weighted()
    yield from _choices()
    yield from _others()


def _fit(kind: Any, target: str, storage: str | None = None, fit: tuple[str, ...] = (), **options: Any) -> Told:
    """Fit, and record predictions as well; `fit` names what is given to it from the data."""
    data = samples(80, 20, seed=6)
    X = data.X if storage is None else _STORAGE[storage](data.X)
    given = {name: values for name, values in _arguments(data).items() if name in fit}
    model = kind(**options).fit(X, getattr(data, target), **given)
    return predicted(model, X)


def predicted(model: Any, X: Any) -> Told:
    """Return a fitted model with hashes of what it predicts."""
    found = {"predict": hashed(model.predict(X))}
    if hasattr(model, "predict_proba"):
        found["predict_proba"] = hashed(model.predict_proba(X))
    if hasattr(model, "decision_function"):
        found["decision_function"] = hashed(model.decision_function(X))
    return Told(model, hashes=found)


def _arguments(data: Any) -> dict[str, Any]:
    return {"sample_weight": data.weight, "offset": data.offset, "exposure": data.weight}


def _weighted() -> Iterator[Case]:
    for budget, options in _BUDGETS.items():
        weights, offsets = ("sample_weight",), ("sample_weight", "offset")
        yield case(f"classifier-weights/{budget}", _fit, SparseClassifier, "two", fit=weights, **options)
        balanced = {**options, "class_weight": "balanced"}
        yield case(f"classifier-weights/balanced {budget}", _fit, SparseClassifier, "three", **balanced)
        yield case(f"regressor-weights/{budget}", _fit, SparseRegressor, "z", fit=offsets, **options)
        exposed = {**options, "loss": "poisson"}
        yield case(
            f"regressor-weights/exposure {budget}", _fit, SparseRegressor, "counts", fit=("exposure",), **exposed
        )
    weights_of_classes = {"n_features": 2, "class_weight": {0: 1.0, 1: 3.0}}
    yield case("classifier-weights/dict", _fit, SparseClassifier, "two", **weights_of_classes)


def _choices() -> Iterator[Case]:
    for name, grid in {"k": {"n_features": [1, 2, 3, 4]}, "level": {"level": [0.5, 1.5, 2.5]}}.items():
        yield case(f"classifier-cv/{name}", _fit, SparseClassifierCV, "two", cv=3, **grid)
        yield case(f"regressor-cv/{name}", _fit, SparseRegressorCV, "z", cv=3, **grid)
        yield case(f"classifier-cv/softmax {name}", _fit, SparseClassifierCV, "three", cv=2, **grid)
        for criterion in ("aic", "bic", "ebic"):
            yield case(
                f"classifier-cv/{criterion} {name}", _fit, SparseClassifierCV, "two", criterion=criterion, **grid
            )
            yield case(f"regressor-cv/{criterion} {name}", _fit, SparseRegressorCV, "z", criterion=criterion, **grid)
        rule = {**grid, "cv": 3, "one_standard_error": True}
        yield case(f"classifier-cv/one standard error {name}", _fit, SparseClassifierCV, "two", **rule)
    few = {"n_features": [1, 3], "cv": 3}
    yield case("classifier-cv/scoring", _fit, SparseClassifierCV, "two", scoring="roc_auc", **few)
    yield case("classifier-cv/ridges", _fit, SparseClassifierCV, "two", ridge=[0.001, 0.1], **few)
    yield case("classifier-cv/hinge", _fit, SparseClassifierCV, "two", loss="hinge", **few)
    yield case("classifier-cv/weights", _fit, SparseClassifierCV, "two", fit=("sample_weight",), **few)
    yield case("regressor-cv/ridges", _fit, SparseRegressorCV, "z", ridge=[0.0, 0.1], **few)
    yield case("regressor-cv/budgets", _fit, SparseRegressorCV, "z", feature_cost=_COSTS, budget=[1, 2.5], cv=3)
    yield case("regressor-cv/absolute", _fit, SparseRegressorCV, "z", loss="absolute", **few)


def _others() -> Iterator[Case]:
    yield case("classifier-others/separable", _separable)
    yield case("classifier-others/separable level", _separable, level=2.5)
    yield case("classifier-others/words as classes", _words)
    yield case("classifier-others/names of features", _names)
    yield case("classifier-others/warm start", _warm_start)
    yield case("classifier-others/one class", lambda: SparseClassifier().fit(samples().X, np.ones(60)))
    yield case("regressor-others/not finite", lambda: SparseRegressor().fit([[np.nan], [1.0]], [0.0, 1.0]))
    for memory in (None, 50.0):
        name = "" if memory is None else " memory"
        yield case(f"stream/classifier{name}", _stream, SparseClassifier, "two", {"classes": [0, 1]}, memory=memory)
        yield case(f"stream/regressor{name}", _stream, SparseRegressor, "z", {}, memory=memory)
    yield case("stream/softmax", _stream, SparseClassifier, "three", {"classes": [0, 1, 2]})
    yield case("stream/hinge", _stream, SparseClassifier, "two", {"classes": [0, 1]}, loss="hinge")
    yield case("stream/csr", _stream, SparseRegressor, "z", {}, storage=scipy.sparse.csr_array)


def _separable(**options: Any) -> Told:
    data = samples(80, 20, seed=6)
    return predicted(SparseClassifier(**options).fit(data.X, data.X[:, 1] > data.X[:, 3]), data.X)


def _words() -> Told:
    data = samples(80, 20, seed=6)
    return predicted(SparseClassifier(n_features=2).fit(data.X, np.array(["a", "b", "c"])[data.three]), data.X)


def _names() -> Told:
    try:
        import pandas as pd
    except ImportError:
        raise SkipCase("pandas is not installed") from None
    data = samples(80, 20, seed=6)
    X = pd.DataFrame(data.X, columns=[f"column {j}" for j in range(20)])
    told = predicted(SparseClassifier(n_features=3, keep=["column 0"], positive=["column 1"]).fit(X, data.two), X)
    return Told(told, words={"features": " ".join(told.value.get_feature_names_out()), "summary": str(told.value)})


def _warm_start() -> Told:
    data = samples(80, 20, seed=6)
    model = SparseClassifier(n_features=2, warm_start=True).fit(data.X, data.two)
    return predicted(model.set_params(n_features=3).fit(data.X, data.two), data.X)


def _stream(kind: Any, target: str, first: dict[str, Any], storage: Any = np.asarray, **options: Any) -> Told:
    data = samples(120, 20, seed=6)
    y, model = getattr(data, target), kind(n_features=3, **options)
    for begin in (0, 40, 80):
        rows = slice(begin, begin + 40)
        model.partial_fit(storage(data.X[rows]), y[rows], **(first if begin == 0 else {}))
    return predicted(model, data.X)
