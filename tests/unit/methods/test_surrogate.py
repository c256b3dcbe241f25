"""g_k majorises g, touches it at x^{k−1}, and its set is what the projection is given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import LinearModel, Problem, solve
from levelprox.constraints import MCP, Exp, Log
from levelprox.exceptions import InvalidInputError
from levelprox.methods.lcpp import SURROGATES, linearise, majorise, surrogate_by_name
from tests.support.registries import CONSTRAINTS

EPS = np.finfo(float).eps


def points(seed, d=20):
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.uniform(-3, 2)
    at = np.where(rng.random(d) < 0.6, rng.standard_normal(d), 0) * size
    x = np.where(rng.random(d) < 0.5, at * rng.uniform(-2, 2, d), rng.standard_normal(d) * size)
    weights = np.where(rng.random(d) < 0.2, 0, rng.uniform(0.3, 3, d)) if rng.random() < 0.5 else None
    return at, x, weights


def check_majorises(surrogate, constraint, at, x, weights):
    """Check that g_k >= g everywhere and g_k(x^{k-1}) = g(x^{k-1})."""
    omega = 1 if weights is None else weights
    slack = 64 * EPS * (surrogate.level + constraint.lam * float(np.sum(omega * (np.abs(x) + np.abs(at)))))
    assert surrogate.value(x) >= constraint.value(x, weights) - slack
    assert surrogate.value(at) == pytest.approx(constraint.value(at, weights), abs=slack)


@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_surrogate_majorises_g_and_touches_it(constraint, name, seed):
    at, x, weights = points(seed)
    level = 1.5 * constraint.value(at, weights) + 0.1
    check_majorises(SURROGATES[name](constraint, at, level, weights), constraint, at, x, weights)


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_the_radius_is_the_level_less_g_k_of_the_origin(constraint):
    """λτ = η_k − g_k(0) = η_k − g(x) + Σ φ'(t)t: the denominator of the dual bound."""
    at, _, weights = points(4)
    level = 1.5 * constraint.value(at, weights) + 0.1
    omega = np.ones_like(at) if weights is None else weights
    t = np.abs(at)
    expected = level - constraint.value(at, weights) + float(np.sum(omega * constraint.slope(t) * t))
    for build in (linearise, majorise):
        surrogate = build(constraint, at, level, weights)
        assert constraint.lam * surrogate.tau == pytest.approx(expected, rel=1e-9)
        assert constraint.lam * surrogate.tau == pytest.approx(level - surrogate.value(np.zeros_like(at)), rel=1e-9)


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_u_is_minus_grad_h_over_lambda(constraint):
    at, *_ = points(2)
    u = linearise(constraint, at, 100.0).u
    expected = -(constraint.lam - constraint.slope(np.abs(at))) / constraint.lam * np.sign(at)
    np.testing.assert_allclose(u, expected, atol=4 * EPS)
    assert np.all(np.abs(u) <= 1)


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_concave_surrogate_is_tighter_and_equal_where_signs_are_kept(constraint, seed):
    at, x, weights = points(seed)
    level = 1.5 * constraint.value(at, weights) + 0.1
    paper, concave = (build(constraint, at, level, weights) for build in (linearise, majorise))
    slack = 1e-12 * (
        level + constraint.lam * float(np.sum(np.abs(x) + np.abs(at)) * (1 if weights is None else np.max(weights)))
    )
    assert concave.value(x) <= paper.value(x) + slack
    kept = np.where(at == 0, x, np.abs(x) * np.sign(at))
    assert concave.value(kept) == pytest.approx(paper.value(kept), abs=slack)


def test_an_invisible_slope_keeps_its_price():
    """Log has no cap: a price rounded to 0 would let the coordinate run off to infinity."""
    from levelprox.constraints import MCP

    at = np.array([1e20, 1.0])
    surrogate = linearise(Log(theta=2.0), at, 200.0)
    assert 0 < 1 - abs(surrogate.u[0]) < 1e-15
    assert linearise(MCP(1.0, 1.0), at, 200.0).u[0] == -1


@pytest.mark.parametrize("fault", ["u flipped", "lambda dropped"])
def test_planted_faults_are_caught(fault):
    constraint = MCP(2.0, 5.0)
    at, x, _ = np.array([1.0, -3.0, 0.0]), np.array([4.0, -6.0, 0.5]), None
    surrogate = linearise(constraint, at, 20.0)
    check_majorises(surrogate, constraint, at, x, None)
    wrong = replace(surrogate, u=-surrogate.u) if fault == "u flipped" else replace(surrogate, lam=1.0)
    with pytest.raises(AssertionError):
        check_majorises(wrong, constraint, at, x, None)


def test_names():
    assert surrogate_by_name("paper") is linearise
    with pytest.raises(InvalidInputError, match="concave, paper"):
        surrogate_by_name("convex")


def test_prices_of_cheap_features_far_out_are_not_too_small_to_project_with():
    rng = np.random.default_rng(37)
    X = rng.normal(size=(60, 8))
    b = X @ rng.normal(size=8) + rng.normal(size=60)
    problem = Problem(LinearModel(X, b), Exp(15.0), 1.3, np.full(8, 0.5))
    assert solve(problem).certificate.infeasibility == 0
