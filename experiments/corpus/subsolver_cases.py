"""Subsolvers, oracles that sample, and the paper's preset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from experiments.corpus.case import CONSTRAINTS, LOSSES, Case, Vector, case, samples
from levelprox import Function, LinearModel, MultinomialModel, Problem, Stochastic, solve, subsolvers

#: Subsolvers by name, with the losses that each runs on and the number of outer steps.
_RUNS: dict[str, tuple[tuple[str, ...], int]] = {
    "newton": (("squared", "logistic", "poisson", "cauchy"), 60),
    "spectral": (("squared", "logistic", "gamma", "sigmoid"), 60),
    "smoothing": (("hinge", "absolute", "quantile"), 30),
    "nesterov": (("squared", "logistic", "cauchy"), 12),
    "acsa": (("squared", "logistic", "hinge"), 3),
    "svrg": (("squared", "logistic", "huber"), 5),
    "sgd": (("squared", "logistic", "absolute"), 5),
}


def cases() -> Iterator[Case]:
    """Return the cases of this area."""
    for name, (chosen, steps) in _RUNS.items():
        for loss in chosen:
            for constraint in ("mcp", "l1"):
                options = {"subsolver": name, "max_iter": steps, "random_state": 3}
                yield case(f"subsolver/{name}/{loss}/{constraint}", _solve, loss, constraint, **options)
    for name, chosen_object in _OBJECTS.items():
        options = {"subsolver": chosen_object, "max_iter": 4, "random_state": 3}
        yield case(f"subsolver-object/{name}", _solve, "logistic", "mcp", **options)
    yield case("subsolver/newton/hinge/refused", _solve, "hinge", "mcp", subsolver="newton")
    yield case("subsolver/generator", _generator)
    for exact in (True, False):
        for kinks in (True, False):
            name = f"stochastic/{'exact' if exact else 'sampled'} {'kinks' if kinks else 'smooth'}"
            yield case(name, _stochastic, exact, kinks)
    for loss in ("squared", "logistic", "cauchy", "hinge"):
        yield case(f"paper/{loss}", _solve, loss, "mcp", preset="paper", max_iter=4, random_state=3)
    yield case("paper/gamma", _solve, "logistic", "scad", preset="paper", max_iter=4, random_state=3, gamma=1.0)
    yield case("paper/classes", _paper_of_classes)
    yield case("paper/function", _paper_of_a_function)


_OBJECTS = {
    "svrg": subsolvers.SVRG(batch_size=5, max_epochs=2),
    "sgd": subsolvers.SGD(batch_size=4, passes=2.0),
    "acsa": subsolvers.ACSA(steps=40, batch_size=10),
    "nesterov": subsolvers.Nesterov(max_steps=20, accuracy=0.3),
    "spectral": subsolvers.Spectral(max_steps=5, memory=2),
    "newton": subsolvers.Newton(max_steps=3, accuracy=0.1),
}


def _solve(loss: str, name: str, **options: Any) -> Any:
    data, (constraint, level) = samples(), CONSTRAINTS[name]
    return solve(Problem(LinearModel(data.X, getattr(data, LOSSES[loss]), loss), constraint, level), **options)


def _generator() -> Any:
    rng = np.random.default_rng(4)
    return _solve("logistic", "mcp", subsolver="svrg", max_iter=3, random_state=rng)


def _stochastic(exact: bool, kinks: bool) -> Any:
    data, (constraint, level) = samples(), CONSTRAINTS["mcp"]
    model = LinearModel(data.X, data.z, "absolute" if kinks else "squared")

    def oracle(x: Vector, rng: np.random.Generator) -> Vector:
        rows = rng.integers(0, data.X.shape[0], 4)
        left = data.X[rows] @ x - data.z[rows]
        return data.X[rows].T @ (np.sign(left) if kinks else left) / 4

    constants = {"nonsmoothness": 10.0} if kinks else {"smoothness": 5.0}
    more = {"exact": model.value_and_gradient} if exact else {"samples": 50}
    objective = Stochastic(oracle, data.X.shape[1], noise=10.0, **constants, **more)
    return solve(Problem(objective, constraint, level), max_iter=2, random_state=3)


def _paper_of_classes() -> Any:
    data, (constraint, level) = samples(seed=2), CONSTRAINTS["mcp"]
    problem = Problem(MultinomialModel(data.X, data.three), constraint, level)
    return solve(problem, preset="paper", max_iter=4, random_state=3)


def _paper_of_a_function() -> Any:
    centre, (constraint, level) = np.linspace(-2, 2, 6), CONSTRAINTS["mcp"]
    objective = Function(lambda x: (0.5 * float(np.sum((x - centre) ** 2)), x - centre), 6, smoothness=1.0)
    return solve(Problem(objective, constraint, level), preset="paper", max_iter=4, random_state=3)
