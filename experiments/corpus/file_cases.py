"""Model files: what is written, what certification says of it, and files that version 0.1 has written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.corpus.case import Case, case, samples
from experiments.corpus.describe import Told, file_hash, hashed
from experiments.corpus.estimator_cases import predicted
from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV, certify_model, load

FIXTURES = Path(__file__).parents[2] / "tests" / "fixtures"

#: Estimators by name: the class, its parameters, the target and what else `fit` takes.
_MODELS: dict[str, tuple[Any, dict[str, Any], str, tuple[str, ...]]] = {
    "classifier k": (SparseClassifier, {"n_features": 3}, "two", ()),
    "classifier level": (SparseClassifier, {"level": 3.5}, "two", ()),
    "classifier softmax": (SparseClassifier, {"n_features": 2}, "three", ()),
    "classifier one-vs-rest": (SparseClassifier, {"level": 2.5, "multi_class": "ovr"}, "three", ()),
    "classifier hinge": (SparseClassifier, {"loss": "hinge", "n_features": 2}, "two", ("sample_weight",)),
    "classifier budget": (SparseClassifier, {"feature_cost": [0.5, 1.0] * 10, "budget": 2.0}, "two", ()),
    "classifier-cv": (SparseClassifierCV, {"n_features": [1, 3], "cv": 3}, "two", ()),
    "regressor k": (SparseRegressor, {"n_features": 3}, "z", ("sample_weight", "offset")),
    "regressor level": (SparseRegressor, {"level": 3.5, "constraint": "scad"}, "z", ()),
    "regressor poisson": (SparseRegressor, {"loss": "poisson", "n_features": 2}, "counts", ("offset",)),
    "regressor-cv bic": (SparseRegressorCV, {"level": [1.5, 2.5, 3.5], "criterion": "bic"}, "z", ()),
}


def cases() -> Iterator[Case]:
    """Return the cases of this area."""
    for name, settings in _MODELS.items():
        yield Case(f"model-file/{name}", partial(_saved, settings))
    yield Case("model-file/not overwritten", _twice)
    yield Case("model-file/not a model", _other_file)
    yield Case("model-file/cut short", _cut)
    yield case("certify_model/other data", _other_data)
    yield case("certify_model/prove", _proved)
    for version in sorted(FIXTURES.glob("v*")):
        told = json.loads((version / "expected.json").read_text())
        for name in told["models"]:
            yield case(f"old-model/{version.name}/{name}", _loaded, version / f"{name}.levelprox", told["X"])


def _saved(settings: tuple[Any, dict[str, Any], str, tuple[str, ...]], folder: Path) -> Told:
    """Fit, save, load and certify."""
    kind, options, target, names = settings
    data = samples(80, 20, seed=8)
    given = {
        name: values for name, values in {"sample_weight": data.weight, "offset": data.offset}.items() if name in names
    }
    y = getattr(data, target)
    model = kind(**options).fit(data.X, y, **given)
    model.save(folder / "model.levelprox")
    again = load(folder / "model.levelprox")
    again.save(folder / "again.levelprox")
    claims = certify_model(again, data.X, y, **given)
    return Told(
        predicted(again, data.X),
        words={"claims": str(claims), "model": str(again)},
        hashes={"file": file_hash(folder / "model.levelprox")},
        counts={
            "claims hold": int(claims.hold),
            "same bits": int(model.coef_.tobytes() == again.coef_.tobytes()),
            "same file": int(file_hash(folder / "model.levelprox") == file_hash(folder / "again.levelprox")),
        },
    )


def _model() -> Any:
    data = samples(80, 20, seed=8)
    return SparseClassifier(n_features=2).fit(data.X, data.two)


def _twice(folder: Path) -> None:
    model = _model()
    model.save(folder / "model.levelprox")
    model.save(folder / "model.levelprox")


def _other_file(folder: Path) -> Any:
    (folder / "model.levelprox").write_text("no model\n")
    return load(folder / "model.levelprox")


def _cut(folder: Path) -> Any:
    _model().save(folder / "model.levelprox")
    content = (folder / "model.levelprox").read_bytes()
    (folder / "cut.levelprox").write_bytes(content[:-20])
    return load(folder / "cut.levelprox")


def _other_data() -> Told:
    data = samples(80, 20, seed=9)
    claims = certify_model(_model(), data.X, data.two)
    return Told(words={"claims": str(claims)}, counts={"claims hold": int(claims.hold)})


def _proved() -> Told:
    data = samples(80, 20, seed=8)
    claims = certify_model(_model(), data.X, data.two, prove=True)
    return Told(words={"claims": str(claims)}, counts={"claims hold": int(claims.hold)})


def _loaded(path: Path, rows: list[list[float]]) -> Told:
    model = load(path)
    X = np.array(rows).astype(model.coef_.dtype)
    return Told(predicted(model, X), words={"model": str(model), "input": hashed(X)})
