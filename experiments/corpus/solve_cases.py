"""Fits under a level: every loss and constraint, options of problems and of `solve`, paths, `minimize`, `project`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from experiments.corpus.case import CONSTRAINTS, LOSSES, Case, case, samples
from experiments.corpus.describe import Told
from levelprox import (
    LinearModel,
    MultinomialModel,
    OneVsRestModel,
    Problem,
    certify,
    constraints,
    levels,
    losses,
    minimize,
    nearby_kkt,
    path,
    project,
    solve,
)


def cases() -> Iterator[Case]:
    """Return the cases of this area."""
    for loss in LOSSES:
        for name in CONSTRAINTS:
            yield case(f"solve/{loss}/{name}", _level, loss, name)
    for name, change in _MODELS.items():
        yield case(f"solve-model/{name}", _model, change)
    for kind in (MultinomialModel, OneVsRestModel):
        for name in CONSTRAINTS:
            yield case(f"solve-classes/{kind.__name__}/{name}", _classes, kind, name)
    for name, (loss, options) in _OPTIONS.items():
        yield case(f"solve-options/{name}", _level, loss, "mcp", **options)
    for loss in ("squared", "logistic", "hinge", "absolute", "cauchy", "poisson"):
        yield case(f"path/{loss}/mcp", _path, loss, "mcp")
    for name in CONSTRAINTS:
        yield case(f"path/huber/{name}", _path, "huber", name)
    yield case("path/squared/direct", _path, "squared", "mcp", start="direct")
    yield case("path/classes", _path_of_classes)
    for name in _FUNCTIONS:
        yield case(f"minimize/{name}", _minimize, name)
    for name in _PROJECTIONS:
        yield case(f"project/{name}", _project, **_PROJECTIONS[name])
    yield case("certify/mcp", _certify)
    yield case("nearby_kkt/mcp", _nearby)
    for name, options in _MISTAKES.items():
        yield case(f"solve-mistakes/{name}", _level, "squared", "mcp", **options)
    yield case("solve-mistakes/level below 0", lambda: Problem(_linear("squared"), constraints.L1(), -1.0))


def _linear(loss: str, **options: Any) -> LinearModel:
    data = samples()
    return LinearModel(data.X, getattr(data, LOSSES[loss]), loss, **options)


def _level(loss: str, name: str, **options: Any) -> Any:
    constraint, level = CONSTRAINTS[name]
    limited = {"max_iter": 60, **options}  # a few kinked ones converge slowly
    return solve(Problem(_linear(loss, fit_intercept=loss != "squared"), constraint, level), **limited)


_MODELS: dict[str, dict[str, Any]] = {
    "csr": {"storage": scipy.sparse.csr_array},
    "csc": {"storage": scipy.sparse.csc_array},
    "csc intercept": {"storage": scipy.sparse.csc_array, "fit_intercept": True},
    "fortran": {"storage": np.asfortranarray},
    "float32": {"storage": np.float32},
    "strided": {"storage": lambda X: np.repeat(X, 2, axis=0)[::2]},
    "weights and offsets": {"sample_weight": "weight", "offset": "offset", "fit_intercept": True},
    "ridge": {"ridge": 0.1},
    "feature weights": {"problem": {"weights": np.linspace(0.0, 2.0, 20)}},
    "nonnegative": {"problem": {"nonnegative": True}},
    "some nonnegative": {"problem": {"nonnegative": np.arange(20) % 2 == 0}, "fit_intercept": True},
    "huber 0.1": {"loss": losses.Huber(0.1), "target": "z"},
    "quantile 0.9": {"loss": losses.Quantile(0.9), "target": "z"},
    "cauchy 3": {"loss": losses.Cauchy(3.0), "target": "z"},
    "smoothed hinge": {"loss": losses.Hinge().smoothed(0.5)},
    "level 0": {"level": 0.0},
    "a large level": {"level": 50.0},
    "more features than samples": {"n": 25, "d": 60},
}


def _model(change: dict[str, Any]) -> Any:
    options = dict(change)
    data = samples(options.pop("n", 60), options.pop("d", 20), seed=1)
    storage, more = options.pop("storage", np.asarray), options.pop("problem", {})
    target, loss = getattr(data, options.pop("target", "signs")), options.pop("loss", "logistic")
    level = options.pop("level", 3.5)
    for name in ("sample_weight", "offset"):
        if name in options:
            options[name] = getattr(data, options[name])
    X = np.where(np.abs(data.X) > 0.5, data.X, 0.0) if storage in _SPARSE else data.X
    model = LinearModel(storage(X), target, loss, **options)
    return solve(Problem(model, constraints.MCP.from_threshold(0.3), level, **more), max_iter=60)


_SPARSE = (scipy.sparse.csr_array, scipy.sparse.csc_array)


def _classes(kind: Any, name: str) -> Any:
    data = samples(seed=2)
    constraint, level = CONSTRAINTS[name]
    return solve(Problem(kind(data.X, data.three, fit_intercept=True), constraint, level), max_iter=60)


_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "harmonic": ("logistic", {"levels": "harmonic"}),
    "harmonic eta0": ("squared", {"levels": levels.Harmonic(eta0=0.5)}),
    "geometric": ("logistic", {"levels": "geometric"}),
    "direct": ("logistic", {"start": "direct"}),
    "direct cauchy": ("cauchy", {"start": "direct"}),
    "continuation": ("sigmoid", {"start": "continuation"}),
    "x0": ("squared", {"x0": np.r_[np.zeros(3), 0.2, np.zeros(16)]}),
    "paper surrogate": ("logistic", {"surrogate": "paper"}),
    "concave surrogate": ("huber", {"surrogate": "concave", "subsolver": "spectral"}),
    "no working set": ("logistic", {"working_set": False}),
    "working set": ("logistic", {"working_set": True, "subsolver": "spectral"}),
    "stopping by change": ("logistic", {"stopping": "change", "tol": 1e-4}),
    "gamma": ("logistic", {"gamma": 0.5}),
    "tol": ("poisson", {"tol": 1e-3}),
}

_MISTAKES: dict[str, dict[str, Any]] = {
    "unknown option": {"max_iters": 3},
    "unknown subsolver": {"subsolver": "newtn"},
    "gamma": {"gamma": -1.0},
    "x0": {"x0": np.full(20, 9.0)},
    "callback": {"callback": 3},
    "unknown preset": {"preset": "papers"},
}


def _path(loss: str, name: str, **options: Any) -> Any:
    constraint, level = CONSTRAINTS[name]
    return path(Problem(_linear(loss), constraint, level), [0.3 * level, 0.6 * level, level], **options)


def _path_of_classes() -> Any:
    data = samples(seed=2)
    problem = Problem(MultinomialModel(data.X, data.three), constraints.MCP.from_threshold(0.3), 1.0)
    return path(problem, [0.5, 1.5, 2.5])


_CENTRE = np.array([3.0, -2.0, 0.1, 0.0, 1.0, -0.3])
_FUNCTIONS: dict[str, tuple[Any, Any, float, dict[str, Any]]] = {
    "l1": (lambda x: (0.5 * float(np.sum((x - _CENTRE) ** 2)), x - _CENTRE), constraints.L1(), 4.0, {"n": 6}),
    "mcp": (
        lambda x: (0.5 * float(np.sum((x - _CENTRE) ** 2)), x - _CENTRE),
        constraints.MCP.from_threshold(0.5),
        2.5,
        {"n": 6},
    ),
    "x0": (
        lambda x: (float(np.sum(np.cosh(x - _CENTRE))), np.sinh(x - _CENTRE)),
        constraints.Log(2.0),
        2.0,
        {"x0": np.zeros(6), "nonnegative": True},
    ),
    "nonconvex": (
        lambda x: (float(np.sum(np.cos(x - _CENTRE))), -np.sin(x - _CENTRE)),
        constraints.SCAD.from_threshold(0.5),
        2.5,
        {"n": 6, "weak_convexity": 1.0, "smoothness": 1.0, "max_iter": 50},
    ),
    "kinks": (
        lambda x: (float(np.sum(np.abs(x - _CENTRE))), np.sign(x - _CENTRE)),
        constraints.L1(),
        3.0,
        {"n": 6, "smoothness": 0.0, "nonsmoothness": 2.5, "max_iter": 5, "random_state": 0},
    ),
    "weights": (
        lambda x: (0.5 * float(np.sum((x - _CENTRE) ** 2)), x - _CENTRE),
        constraints.Exp(2.0),
        1.5,
        {"n": 6, "weights": [0.0, 1.0, 2.0, 1.0, 1.0, 0.5]},
    ),
    "not finite": (lambda x: (float("nan"), x), constraints.L1(), 1.0, {"n": 6}),
}


def _minimize(name: str) -> Any:
    function, constraint, level, options = _FUNCTIONS[name]
    return minimize(function, constraint, level, **options)


_PROJECTIONS: dict[str, dict[str, Any]] = {
    "ball": {"u": 0.0},
    "tilted": {"u": "tilted"},
    "weights": {"u": "tilted", "weights": np.linspace(0.0, 2.0, 30)},
    "nonnegative": {"u": "tilted", "nonnegative": True},
    "groups": {"u": 0.0, "width": 3, "weights": np.linspace(0.5, 2.0, 10)},
    "inside": {"u": 0.0, "tau": 1e6},
}


def _project(u: Any, tau: float = 4.0, **options: Any) -> Any:
    rng = np.random.default_rng(5)
    v, tilt = 2 * rng.standard_normal(30), rng.uniform(-0.9, 0.9, 30)
    x, multiplier = project(v, tilt if u == "tilted" else np.zeros(30), tau, **options)
    return Told(x, figures={"multiplier": float(multiplier)})


def _certify() -> Any:
    constraint, level = CONSTRAINTS["mcp"]
    problem = Problem(_linear("logistic"), constraint, level)
    x = np.zeros(20)
    x[[1, 3]] = 0.9, -0.4
    found = certify(problem, x)
    return Told(x, words={"certificate": str(found)}, figures={"psi": found.psi, "kkt": found.kkt, "g": found.g})


def _nearby() -> Any:
    constraint, level = CONSTRAINTS["mcp"]
    problem = Problem(_linear("logistic"), constraint, level)
    found = nearby_kkt(problem, solve(problem).x)
    figures = {name: getattr(found, name) for name in ("multiplier", "epsilon", "delta")}
    return Told(found.x_bar, figures=figures)
