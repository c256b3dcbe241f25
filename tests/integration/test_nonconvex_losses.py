"""Nonconvex losses: starting points, and invariance to how the data are written."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from levelprox import LinearModel, Problem, best_subset, certify, solve
from levelprox.certificate.null_model import null_fit
from levelprox.constraints import L1, MCP
from levelprox.designs import ScaledDesign
from levelprox.exceptions import ConvergenceWarning
from levelprox.losses import Cauchy, Loss, Sigmoid
from tests.support.long_runs import LONG
from tests.support.registries import LOSSES, targets_of

NONCONVEX = [loss for loss in LOSSES if loss.weak_convexity > 0]
MANY = 30 if LONG else 3


def data(seed: int, loss: Loss) -> tuple[np.ndarray, np.ndarray, int]:
    """Few features that matter, an intercept, up to a fifth of the labels turned or of the targets far out; and k."""
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(40, 120)), int(rng.integers(5, 15)), int(rng.integers(1, 4))
    X = rng.standard_normal((n, d))
    z = X[:, :k] @ rng.choice([-2.0, 1.0, 3.0], k) + rng.standard_normal() + rng.standard_normal(n)
    odd = rng.random(n) < rng.uniform(0, 0.2)
    return X, targets_of(loss, np.where(odd, -z if loss.kind == "margin" else z + 30, z)), k


def model(X, b, loss: Loss, **options) -> LinearModel:
    return LinearModel(ScaledDesign.standardized(X), b, loss, fit_intercept=True, **options)


def downhill(objective: LinearModel, features: np.ndarray, x: np.ndarray) -> float:
    """ψ at the end of a descent over a few features, by an independent method."""
    part = objective.restrict(features)
    return float(optimize.minimize(part.value_and_gradient, x[features], jac=True, method="L-BFGS-B").fun)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_every_loss_that_is_not_convex_is_a_concave_function_of_its_convex_start(loss):
    convex = loss.convex_start
    if loss.weak_convexity == 0:
        assert convex is None
        return
    assert convex.weak_convexity == 0 and convex.kind == loss.kind
    for b in (-1.0, 1.0):
        z = np.linspace(-30, 30, 2001) + 1e-3
        targets = np.full(z.size, b)
        slope, straight = loss.subdifferential(z, targets)[0], convex.subdifferential(z, targets)[0]
        order = np.argsort([convex.value([at], [b]) for at in z], kind="stable")
        weight = (slope / straight)[order]  # f'
        assert np.all(weight > 0)
        assert np.all(np.diff(weight) <= 1e-9 * weight[:-1])


@pytest.mark.parametrize("loss", NONCONVEX, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_the_null_fit_is_where_features_still_pull(loss, seed):
    X, b, _ = data(seed, loss)
    objective = model(X, b, loss)
    null = null_fit(Problem(objective, L1(), 1.0))
    at_origin = np.max(np.abs(objective.value_and_gradient(np.zeros(objective.dimension))[1][:-1]))
    assert np.max(np.abs(null.gradient[:-1])) > 0.01 * at_origin
    if loss.attained:
        assert abs(null.gradient[-1]) <= 1e-7 * null.scale
    else:
        straight = null_fit(Problem(objective.convex_start, L1(), 1.0))
        assert np.array_equal(null.x, straight.x)


def test_the_null_fit_of_targets_far_away_is_among_them():
    b = 1e4 + np.random.default_rng(0).standard_normal(50)
    null = null_fit(Problem(LinearModel(np.ones((50, 1)), b, Cauchy(), fit_intercept=True), L1(), 1.0))
    assert null.x[-1] == pytest.approx(1e4, abs=1)


def test_best_subset_finds_the_features_of_a_sigmoid_loss():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 40))
    y = X[:, :5] @ [3, -2, 1, 1, 0.5] + rng.standard_normal(300)
    fit = best_subset(model(X, np.sign(y), Sigmoid()), 5)
    assert fit.support.size == 5
    assert fit.psi < 0.05
    assert fit.success


@pytest.mark.parametrize("loss", NONCONVEX, ids=repr)
@pytest.mark.parametrize("seed", range(min(MANY, 5)))
def test_best_subset_is_no_worse_than_by_way_of_the_convex_loss(loss, seed):
    X, b, k = data(seed, loss)
    objective = model(X, b, loss)
    convex = best_subset(objective.convex_start, k)
    kept = np.append(convex.support, objective.dimension - 1)
    assert best_subset(objective, k).psi <= downhill(objective, kept, convex.x) * (1 + 1e-9)


@pytest.mark.parametrize("loss", NONCONVEX, ids=repr)
@pytest.mark.parametrize("constraint", [L1(), MCP.from_threshold(0.3)], ids=repr)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore:the data are separable")
def test_solve_is_no_worse_than_by_way_of_the_convex_loss(loss, constraint, seed):
    X, b, k = data(seed, loss)
    problem = Problem(model(X, b, loss), constraint, k + 0.5)
    convex = solve(Problem(problem.objective.convex_start, constraint, k + 0.5))
    fit = solve(problem)
    assert fit.psi <= solve(problem, x0=convex.x).psi * (1 + 1e-9)
    assert fit.psi <= solve(problem, start="direct").psi * (1 + 1e-9)
    assert problem.is_feasible(fit.x)
    assert fit.success and certify(problem, fit.x).kkt <= 1e-6


def test_more_features_are_never_worse():
    X, b, _ = data(3, Sigmoid())
    psi = [best_subset(model(X, b, Sigmoid()), k).psi for k in range(5)]
    assert np.all(np.diff(psi) <= 1e-9)
    assert psi[0] == pytest.approx(min(np.mean(b > 0), np.mean(b < 0)), rel=1e-6)  # all samples in one class


def test_separable_data_are_fitted_with_finite_coefficients():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 8))
    b = np.sign(X[:, 0] - X[:, 1])
    with pytest.warns(ConvergenceWarning, match="separable"):
        fit = best_subset(model(X, b, Sigmoid()), 2)
    assert fit.psi <= 1e-6
    assert np.all(np.isfinite(fit.x)) and np.max(np.abs(fit.x)) < 1e8
    assert sorted(fit.support) == [0, 1]


@pytest.mark.parametrize("loss", [Sigmoid(), Cauchy()], ids=repr)
@pytest.mark.parametrize("seed", range(MANY))
def test_a_weight_of_two_is_a_repeated_sample(loss, seed):
    X, b, k = data(100 + seed, loss)
    twice = np.random.default_rng(seed).random(b.size) < 0.3
    again = np.concatenate([np.arange(b.size), np.flatnonzero(twice)])
    weighted = LinearModel(X, b, loss, sample_weight=1.0 + twice, fit_intercept=True)
    repeated = LinearModel(X[again], b[again], loss, fit_intercept=True)
    one, other = best_subset(weighted, k), best_subset(repeated, k)
    assert other.psi == pytest.approx(one.psi, rel=1e-9, abs=1e-12)
    if loss.attained:  # else ψ almost counts errors, and sets of features with as many of them are equally good
        assert np.array_equal(one.support, other.support)
        assert np.max(np.abs(weighted.margins(one.x) - weighted.margins(other.x))) <= 1e-7


@pytest.mark.parametrize("loss", [Sigmoid(), Cauchy()], ids=repr)
@pytest.mark.parametrize("seed", range(MANY))
def test_the_order_and_the_signs_of_columns_do_not_matter(loss, seed):
    X, b, k = data(200 + seed, loss)
    rng = np.random.default_rng(seed)
    order, signs = rng.permutation(X.shape[1]), rng.choice([-1.0, 1.0], X.shape[1])
    one, other = best_subset(model(X, b, loss), k), best_subset(model((X * signs)[:, order], b, loss), k)
    assert other.psi == pytest.approx(one.psi, rel=1e-9, abs=1e-12)
    assert np.array_equal(np.sort(order[other.support]), one.support)
