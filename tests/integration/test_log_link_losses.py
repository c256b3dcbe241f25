"""Whole fits with poisson, gamma and squared_hinge: weights, exposures, unpenalized intercepts, centring."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import GammaRegressor, PoissonRegressor

from levelprox import LinearModel, Problem, best_subset, certify, constraints, path, solve
from levelprox.exceptions import ConvergenceWarning
from levelprox.result import Status
from tests.support.long_runs import LONG

MCP = constraints.MCP.from_threshold(0.2)
TRUTH = np.array([0.5, -0.5, 0.4, -0.35, 0.3])
LOSSES = pytest.mark.parametrize("loss", ["poisson", "gamma", "squared_hinge"])
LOG_LOSSES = pytest.mark.parametrize("loss", ["poisson", "gamma"])
STORAGE = pytest.mark.parametrize(
    "storage", [np.asarray, np.asfortranarray, scipy.sparse.csr_array, scipy.sparse.csc_array]
)


def data(loss, intercept=0.5, n=300, d=40, seed=0):
    """X with a column of ones first, targets, weights (some 0), offsets: the log of an exposure."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.5, rng.standard_normal((n, d)), 0.0)
    offset = np.log(rng.uniform(0.5, 3, n))
    z = X[:, :5] @ TRUTH + intercept + offset
    targets = {
        "poisson": lambda: rng.poisson(np.exp(z)).astype(float),
        "gamma": lambda: np.exp(z) * rng.gamma(2.0, 0.5, n),
        "squared_hinge": lambda: np.where(z + 0.3 * rng.logistic(size=n) > 1, 1.0, -1.0),
    }
    return np.column_stack([np.ones(n), X]), targets[loss](), rng.integers(0, 3, n).astype(float), offset


def problem_of(loss, X, b, weight=None, offset=None, level=3.5):
    """The first column is unpenalized."""
    return Problem(LinearModel(X, b, loss, weight, offset), MCP, level, np.r_[0.0, np.ones(X.shape[1] - 1)])


def check_solved(problem, fit):
    """Solved, on a scale that the null fit itself does not meet."""
    assert fit.status is Status.SOLVED and fit.subsolver == "newton"
    certificate = certify(problem, fit.x)
    assert certificate.kkt <= 1e-6 and certificate.infeasibility == 0
    nothing = np.zeros_like(fit.x)
    nothing[0] = fit.x[0]
    assert certify(problem, nothing).kkt > 1e-2


@LOSSES
@STORAGE
def test_fits_with_weights_exposures_and_an_intercept(loss, storage):
    X, b, weight, offset = data(loss)
    problem = problem_of(loss, storage(X), b, weight, offset)
    fit = solve(problem)
    check_solved(problem, fit)
    assert fit.certificate.active and fit.certificate.n_nonzero >= 4
    assert set(np.flatnonzero(np.abs(fit.x) > 0.2)) <= set(range(6))
    # Another start may end in another KKT point; the dense fit is the one to compare with.
    np.testing.assert_allclose(fit.x, solve(problem_of(loss, X, b, weight, offset)).x, atol=1e-5)


@pytest.mark.parametrize(("loss", "other"), [("poisson", PoissonRegressor), ("gamma", GammaRegressor)])
def test_without_a_level_that_binds_they_are_the_maximum_likelihood_fits(loss, other):
    X, b, weight, _ = data(loss)
    fit = solve(problem_of(loss, X, b, weight, level=1e3), tol=1e-8)
    assert fit.status is Status.SOLVED and not fit.certificate.active
    peer = other(alpha=0.0, tol=1e-10, max_iter=10_000).fit(X[:, 1:], b, sample_weight=weight)
    np.testing.assert_allclose(fit.x, np.r_[peer.intercept_, peer.coef_], atol=1e-5)


@pytest.mark.parametrize("intercept", [5.0, 12.0, 30.0])
def test_large_counts(intercept):
    """Counts of 1e3, 1e6 and 1e13: ψ'' at the origin is 1, at the fit as large as they are."""
    X, b, weight, offset = data("poisson", intercept)
    problem = problem_of("poisson", X, b, weight, offset)
    fit = solve(problem)
    check_solved(problem, fit)
    assert fit.gamma < 1
    assert fit.x[0] == pytest.approx(intercept, abs=0.3)


@pytest.mark.parametrize("exposure", [1e3, 1e7, 1e12])
def test_rare_events_under_a_large_exposure(exposure):
    """At the origin the expected counts are as large as the exposure; their gradient there is no scale."""
    X, b, weight, offset = data("poisson")
    near = solve(problem_of("poisson", X, b, weight, offset))
    problem = problem_of("poisson", X, b, weight, offset + math.log(exposure))
    fit = solve(problem)
    check_solved(problem, fit)
    assert fit.certificate.scale == pytest.approx(near.certificate.scale, rel=1e-4)
    np.testing.assert_allclose(fit.x[1:], near.x[1:], atol=1e-5)
    assert fit.x[0] == pytest.approx(near.x[0] - math.log(exposure), abs=1e-5)


@pytest.mark.parametrize("unit", [1e-40, 1e-9, 1e6, 1e9, 1e40])
def test_the_unit_of_gamma_targets_goes_into_the_intercept(unit):
    X, b, weight, offset = data("gamma")
    problem = problem_of("gamma", X, b * unit, weight, offset)
    check_solved(problem, solve(problem))
    # What complementarity is worth depends on ψ, and so does the valley that Newton's steps end in.
    near = solve(problem_of("gamma", X, b, weight, offset), subsolver="spectral")
    fit = solve(problem, subsolver="spectral")
    np.testing.assert_allclose(fit.x[1:], near.x[1:], atol=1e-5)
    assert fit.x[0] == pytest.approx(near.x[0] + math.log(unit), abs=1e-5)


@LOG_LOSSES
@pytest.mark.parametrize("target", [1e-4, 1.0, 20.0, 1e9])
def test_targets_that_the_intercept_fits_leave_nothing_to_do(loss, target):
    """What is left of the gradient is rounding, and no scale, however far the intercept is."""
    X, _, weight, _ = data(loss)
    problem = problem_of(loss, X, np.full(300, target), weight)
    fit = solve(problem)
    assert fit.status is Status.SOLVED and fit.n_outer == 0
    assert fit.x[0] == pytest.approx(math.log(target), abs=1e-5)
    assert fit.certificate.scale > 1e-4 * min(target, 1.0)


@LOG_LOSSES
@pytest.mark.parametrize("centre", [-14.0, 14.0])
def test_badly_centred_data_without_an_intercept(loss, centre):
    X, b, weight, offset = data(loss, centre)
    problem = Problem(LinearModel(X[:, 1:], b, loss, weight, offset), MCP, 3.5)
    fit = solve(problem)
    assert fit.status is Status.SOLVED
    assert certify(problem, fit.x).kkt <= 1e-6 < certify(problem, np.zeros(40)).kkt


@pytest.mark.parametrize("subsolver", ["newton", "spectral"])
def test_targets_near_the_end_of_the_range_are_fitted_like_any_other(subsolver):
    X, b, weight, offset = data("gamma")
    near = solve(problem_of("gamma", X, b, weight, offset), subsolver=subsolver)
    problem = problem_of("gamma", X, b * 1e250, weight, offset)
    fit = solve(problem, subsolver=subsolver)
    assert fit.status is Status.SOLVED and certify(problem, fit.x).kkt <= 1e-6
    np.testing.assert_allclose(fit.x[1:], near.x[1:], atol=1e-5)
    assert fit.x[0] == pytest.approx(near.x[0] + math.log(1e250), abs=1e-5)


@LOG_LOSSES
@pytest.mark.parametrize("reach", [1e4, 1e6])
def test_a_sample_far_out_does_not_end_a_search(loss, reach):
    """Coefficients hold its margin; where one is left out on the way, exp of it is beyond all numbers."""
    X, b, *_ = data(loss, n=60, d=10, seed=3)
    X[7, 1:] = reach * np.linspace(-1, 1, 10)
    problem = Problem(LinearModel(X[:, 1:], b, loss, fit_intercept=True), constraints.MCP.from_threshold(0.1), 3.5)
    assert solve(problem).success
    assert path(problem, [0.5, 1.5, 2.5, 3.5, 4.5] if LONG else [0.5, 1.5, 2.5]).success
    assert best_subset(problem.objective, 3).success


def test_counts_that_are_all_zero_have_no_fit():
    X, _, weight, offset = data("poisson")
    problem = problem_of("poisson", X, np.zeros(300), weight, offset)
    with pytest.warns(ConvergenceWarning, match="no minimiser within the level"):
        fit = solve(problem)
    assert fit.status is Status.SOLVED and fit.x[0] < -10


def test_a_group_that_counts_nothing_drives_its_coefficient_off():
    """ψ keeps decreasing along a column that only samples without a count have, and along no other."""
    X = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0], [1.0, 0.0]])
    model = LinearModel(X, [3.0, 0.0, 0.0, 1.0], "poisson")
    assert model.is_separated(np.array([0.0, -1.0]))
    assert not model.is_separated(np.array([0.0, 1.0]))
    assert not model.is_separated(np.array([-1.0, -1.0]))
    assert not model.is_separated(np.zeros(2))
    without = LinearModel(X, [3.0, 0.0, 0.0, 1.0], "poisson", [0.0, 1.0, 1.0, 0.0])
    assert without.is_separated(np.array([1.0, -1.0]))
    assert not LinearModel(X, [3.0, 1.0, 1.0, 1.0], "gamma").is_separated(np.array([0.0, -1.0]))
