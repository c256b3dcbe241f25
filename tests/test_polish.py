"""Newton's method on the KKT system: its matrix is the right one, so it converges quadratically."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from experiments import convergence
from experiments.convergence import CONSTRAINTS
from levelprox import LinearModel, MultinomialModel, Problem, polish
from levelprox.designs import Design
from levelprox.null_fit import null_fit

RNG = np.random.default_rng(0)


def problem_of(constraint, width):
    """A small problem with a weight on each feature, one of them exempt."""
    X = RNG.standard_normal((30, 6))
    weights = np.array([1.0, 2.0, 0.0, 0.5, 1.0, 1.5])
    if width == 1:
        return Problem(LinearModel(X, np.sign(X[:, 0]), "logistic"), constraint, 3.0, weights)
    return Problem(MultinomialModel(X, np.arange(30) % width), constraint, 3.0, weights)


def slopes_error(problem):
    """How far `_bend` is from the differences of y ∇g, over the features that are not zero."""
    x = RNG.uniform(0.2, 0.6, problem.dimension) * RNG.choice([-1.0, 1.0], problem.dimension)
    support, y, h = np.array([0, 1, 2, 4, 5]), 0.7, 1e-6
    places = problem.coordinates(support)
    differences = np.empty((places.size, places.size))
    for k, place in enumerate(places):
        step = np.zeros(x.size)
        step[place] = h
        ahead, behind = (polish._slopes(problem, x + sign * step, support) for sign in (1, -1))
        differences[k] = y * (ahead - behind) / (2 * h)
    return float(np.max(np.abs(polish._bend(problem, x, y, support) - differences)))


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_the_bend_is_the_derivative_of_the_slopes(name, width):
    assert slopes_error(problem_of(CONSTRAINTS[name], width)) < 1e-7


def test_a_bend_across_a_single_coefficient_is_caught(monkeypatch):
    right = polish._bend
    problem = problem_of(CONSTRAINTS["MCP"], 1)
    monkeypatch.setattr(polish, "_bend", lambda p, x, y, S: right(p, x, y, S) - y * np.diag(1 / np.abs(x[S])))
    assert slopes_error(problem) > 0.1


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_the_last_digits_come_at_a_quadratic_rate(name):
    problem = convergence.generated(CONSTRAINTS[name], n=500)
    null = null_fit(problem)
    kkt = next(
        path
        for tol in convergence.TOLERANCES
        if min(path := list(convergence.newton_steps(problem, convergence.rough(problem, tol), null))) < 1e-11
    )
    assert 3 <= len(kkt) <= 6 and 1e-6 < kkt[0] < 1e-3
    for before, after in itertools.pairwise(kkt):
        assert after < max(100 * before**2, 1e-13)


def test_only_the_hessian_of_the_support_is_formed(monkeypatch):
    problem = convergence.generated(CONSTRAINTS["MCP"], n=500)
    at = convergence.rough(problem, 1e-4)
    orders, gram = [], Design.gram
    monkeypatch.setattr(Design, "gram", lambda X, D: orders.append(X.shape[1]) or gram(X, D))
    assert polish.polish(problem, at, convergence.certificate(problem, at, null_fit(problem)).multiplier) is not None
    assert orders == [np.count_nonzero(at.x)]
