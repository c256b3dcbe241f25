"""solve() on problems at their edges: levels, unpenalized features, separable, wide, repeated and badly scaled data."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

from levelprox import (
    InvalidInputError,
    LinearModel,
    Problem,
    Status,
    certify,
    constraints,
    minimize,
    solve,
)
from levelprox.exceptions import ConvergenceWarning
from tests.support.registries import CONSTRAINTS

MCP = constraints.MCP.from_threshold(0.5)


# --- levels and constraints at their edges -------------------------------------------------------------


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_level_zero_gives_the_null_fit(constraint):
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.standard_normal((40, 3)), np.ones(40)])
    b = 2 + rng.standard_normal(40)
    result = solve(Problem(LinearModel(X, b), constraint, 0.0, weights=[1, 1, 1, 0]))
    assert result.success
    np.testing.assert_array_equal(result.x[:3], 0)
    assert result.x[3] == pytest.approx(b.mean(), rel=1e-5)
    plain = solve(Problem(LinearModel(X, b), constraint, 0.0))
    np.testing.assert_array_equal(plain.x, 0)
    assert plain.success


def test_unpenalized_features_are_free_and_nonnegativity_holds():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((100, 8))
    b = X @ [3, -2, 1, 0, 0, 0, 0, -1.5] + 0.1 * rng.standard_normal(100)
    nonnegative = np.array([True, True, False, False, False, False, False, False])
    weights = np.array([1.0, 1, 1, 1, 1, 1, 1, 0])
    problem = Problem(LinearModel(X, b), MCP, 2.5, weights, nonnegative)
    result = solve(problem)
    assert result.success
    assert result.x[7] == pytest.approx(-1.5, abs=0.3)
    assert result.x[1] == 0
    assert result.x[0] > 2
    assert problem.g(result.x) <= 2.5


def test_a_bounded_loss_without_a_minimiser_is_reported():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((80, 5))
    b = np.sign(X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(80))
    sigmoid = LinearModel(X, b, "sigmoid")
    with pytest.warns(ConvergenceWarning) as caught:
        solve(Problem(sigmoid, constraints.MCP.from_threshold(0.5), 3.5), max_iter=200)
    assert any("the loss keeps decreasing" in str(warning.message) for warning in caught)
    assert solve(Problem(sigmoid, constraints.L1(), 2.0)).success


def test_a_vacuous_level_on_separable_data_is_reported():
    X = np.array([[1.0], [2.0], [-1.0], [-3.0]])
    b = np.array([1.0, 1.0, -1.0, -1.0])
    with pytest.warns(ConvergenceWarning, match="separable"):
        result = solve(Problem(LinearModel(X, b, "logistic"), constraints.MCP(1.0, 1.0), 5.0))
    assert np.isfinite(result.x).all()
    held = solve(Problem(LinearModel(X, b, "logistic"), constraints.L1(), 2.0))
    assert held.success
    assert held.multiplier > 0


def test_an_unbounded_objective_is_called_diverging():
    with pytest.warns(ConvergenceWarning, match="Diverging"):
        result = minimize(lambda x: (-float(x.sum()), -np.ones(2)), constraints.MCP(1.0, 1.0), 1.5, n=2)
    assert result.status is Status.DIVERGING
    assert np.isfinite(result.x).all()


def test_wide_data_and_one_feature():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((10, 20_000))
    b = X[:, 5] * 3
    result = solve(Problem(LinearModel(X, b), MCP, 1.5), max_iter=3000)
    assert result.success
    one = solve(Problem(LinearModel(X[:, 5:6], b), MCP, 1.5))
    assert one.x[0] == pytest.approx(3, rel=1e-5)
    single = solve(Problem(LinearModel(X[:1, :3], b[:1]), MCP, 1.5))
    assert single.success


def test_zero_and_duplicated_columns():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((50, 4))
    b = X @ [2.0, 0, -1, 0]
    padded = np.column_stack([X, np.zeros(50)])
    plain, more = (
        solve(Problem(LinearModel(X, b), MCP, 2.5)),
        solve(Problem(LinearModel(padded, b), MCP, 2.5)),
    )
    assert more.x[4] == 0
    np.testing.assert_allclose(more.x[:4], plain.x, atol=1e-12)
    nothing = solve(Problem(LinearModel(np.zeros((50, 4)), b), MCP, 2.5))
    np.testing.assert_array_equal(nothing.x, 0)
    twice = np.column_stack([X, X])
    doubled = solve(Problem(LinearModel(twice, b), constraints.L1(), 2.0))
    single = solve(Problem(LinearModel(X, b), constraints.L1(), 2.0))
    np.testing.assert_allclose(twice @ doubled.x, X @ single.x, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-160, 1e-8, 1e8])
def test_scales_give_finite_feasible_answers(scale):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((50, 5))
    b = X @ [2.0, 0, -1, 0, 0] + 0.1 * rng.standard_normal(50)
    objective = LinearModel(X * scale, b)
    level = constraints.MCP.from_threshold(0.5 / scale if scale > 1e-100 else 0.5)
    problem = Problem(objective, level, 2.5)
    if scale < 1e-100:
        with pytest.warns(ConvergenceWarning, match="KKT"):
            result = solve(problem)
    else:
        result = solve(problem, max_iter=5000)
        assert result.success
        assert set(np.flatnonzero(result.x)) >= {0, 2}
    assert np.isfinite(result.x).all()
    assert problem.g(result.x) <= 2.5


def test_rows_weighted_twice_are_rows_repeated():
    rng = np.random.default_rng(7)
    X, b = rng.standard_normal((30, 6)), rng.standard_normal(30)
    s = rng.integers(0, 4, 30)
    weighted = solve(Problem(LinearModel(X, b, sample_weight=s), MCP, 1.5), tol=1e-10)
    repeated = solve(Problem(LinearModel(np.repeat(X, s, axis=0), np.repeat(b, s)), MCP, 1.5), tol=1e-10)
    np.testing.assert_allclose(weighted.x, repeated.x, atol=1e-7)


@pytest.mark.parametrize("order", ["C", "F"])
def test_two_threads_may_share_one_model(order):
    rng = np.random.default_rng(9)
    X = np.array(rng.standard_normal((4000, 12)), order=order)
    problem = Problem(LinearModel(X, np.sign(X[:, 0] + rng.standard_normal(4000)), "logistic"), MCP, 3.5)
    alone = solve(problem)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda _: solve(problem), range(8)))
    for result in together:
        np.testing.assert_array_equal(result.x, alone.x)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("constant", [0.0, 1.0, 7.0, 22.4, 7e10])
def test_a_constant_target_is_fitted_by_the_intercept_alone(constant, kind):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((50, 20)), np.ones(50)])
    model = LinearModel(X if kind == "dense" else scipy.sparse.csr_array(X), np.full(50, constant))
    result = solve(Problem(model, MCP, 2.5, weights=np.append(np.ones(20), 0.0)))
    assert result.success
    np.testing.assert_array_equal(result.x[:20], 0)
    assert result.x[20] == pytest.approx(constant, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber", "cauchy"])
def test_all_zero_data_give_zero(loss):
    b = np.where(np.arange(30) % 3, 1.0, -1.0)
    for X in (np.zeros((30, 6)), scipy.sparse.csr_array((30, 6))):
        result = solve(Problem(LinearModel(X, b, loss), MCP, 2.5))
        assert result.success
        np.testing.assert_array_equal(result.x, 0)


def test_weak_convexity_is_found_where_a_constant_start_would_miss_it():
    """X orthogonal to a vector of ones: Lanczos from ones would see nothing."""
    e = np.zeros(10)
    e[:2] = [1, -1]
    model = LinearModel(np.outer(e, e), np.ones(10), "cauchy")
    assert model.weak_convexity >= 4 / 10 / 8 * (1 - 1e-9)


def test_one_class_with_an_intercept_is_reported_as_separable():
    X = np.column_stack([np.random.default_rng(1).standard_normal((40, 5)), np.ones(40)])
    problem = Problem(LinearModel(X, np.ones(40), "logistic"), MCP, 2.5, weights=[1, 1, 1, 1, 1, 0])
    with pytest.warns(ConvergenceWarning, match="separable"):
        result = solve(problem)
    assert np.isfinite(result.x).all()
    assert result.kkt <= 1e-4 or not result.success


def test_collinear_columns():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 4))
    X = np.column_stack([X, X[:, 0] + X[:, 1], 2 * X[:, 2]])
    for constraint in (constraints.L1(), MCP, constraints.Log(2.0)):
        result = solve(Problem(LinearModel(X, X @ [1, 0, 1, 0, 1, 0]), constraint, 0.7), max_iter=5000)
        assert result.success
        assert np.isfinite(result.x).all()


def test_badly_scaled_columns_are_solved_or_get_the_right_advice():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 6)) * np.logspace(-4, 4, 6)
    b = X @ (rng.standard_normal(6) / np.logspace(-4, 4, 6))
    problem = Problem(LinearModel(X, b), constraints.Exp(1.0), 1.5)
    assert solve(problem, max_iter=20, subsolver="spectral").success
    with pytest.warns(ConvergenceWarning, match=r"columns of X differ in scale by a factor of .e\+0.: scale them"):
        solve(problem, max_iter=0, subsolver="spectral")


@pytest.mark.parametrize("loss", ["squared", "logistic", "cauchy"])
def test_columns_whose_norm_overflows_are_named(loss):
    X = np.ones((10, 3))
    X[4, 1] = 1.7e308
    with pytest.raises(InvalidInputError, match="the norm of column 1 of X overflows"):
        solve(Problem(LinearModel(X, np.ones(10), loss), MCP, 1.5))


@pytest.mark.parametrize("factor", [1e-6, 1e3, 1e7])
def test_solved_means_the_same_in_every_unit(factor):
    """b → cb with the threshold scaled along gives cx, and the same kkt at corresponding points."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 20))
    b = X[:, :3] @ [2, -1.5, 1] + 0.1 * rng.standard_normal(60)
    plain = Problem(LinearModel(X, b), MCP, 2.5)
    scaled = Problem(LinearModel(X, b * factor), constraints.MCP.from_threshold(0.5 * factor), 2.5)
    x, y = solve(plain, tol=1e-8).x, solve(scaled, tol=1e-8).x
    np.testing.assert_allclose(y, x * factor, rtol=1e-5, atol=1e-6 * factor)
    at_zero, at_scaled_zero = certify(plain, 0 * x).kkt, certify(scaled, 0 * x).kkt
    assert at_zero == pytest.approx(at_scaled_zero, rel=1e-6)
    assert at_zero > 0.1


def test_the_null_fit_is_never_called_solved_because_psi_is_large():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60, 20))
    problem = Problem(LinearModel(X, 1e7 * X[:, 0]), constraints.Exp(5.0), 2.5)
    assert certify(problem, np.zeros(20)).kkt > 0.1


def test_a_degenerate_level_is_pointed_out_where_the_run_does_not_end_solved():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((60, 20))
    model = LinearModel(X, X[:, 0] - X[:, 1] + X[:, 2])
    assert solve(Problem(model, MCP, 2.0), tol=1e-3).status is Status.SOLVED
    with pytest.warns(ConvergenceWarning, match=r"level = 2 is 2 times .* Use level = 1.5 or 2.5 instead"):
        solve(Problem(model, MCP, 2.0), max_iter=0)
    solve(Problem(model, constraints.Exp(1.0), 2.0), tol=1e-3)  # no threshold, no warning
    solve(Problem(model.restrict(np.array([0, 1])), MCP, 2.0))  # a level that holds nothing back, neither


def test_a_wide_level_gives_the_plain_fit_with_sparse_and_float32_data():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((80, 4)).astype(np.float32)
    b = X @ np.array([1.0, 2.0, 0, 0]) + rng.standard_normal(80)
    expected = np.linalg.lstsq(X.astype(float), b, rcond=None)[0]
    for design in (X, np.asfortranarray(X), scipy.sparse.csc_array(X)):
        result = solve(Problem(LinearModel(design, b), MCP, 4.5), tol=1e-9)
        np.testing.assert_allclose(result.x, expected, rtol=1e-7)
        assert not result.certificate.active


def test_many_empty_columns_cost_little():
    X = scipy.sparse.csr_array(([1.0, 2.0, 3.0], ([0, 1, 2], [5, 77, 125_000])), shape=(3, 2**17))
    began = time.process_time()
    result = solve(Problem(LinearModel(X, [1.0, 2.0, 3.0]), MCP, 1.5))
    assert result.success
    assert time.process_time() - began < 1.25


def test_a_wide_level_with_signs_gives_nonnegative_least_squares():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((60, 6))
    b = X @ [1.0, -1.0, 0.5, -0.2, 0, 2.0] + 0.1 * rng.standard_normal(60)
    result = solve(Problem(LinearModel(X, b), MCP, 6.5, nonnegative=True), tol=1e-9)
    np.testing.assert_allclose(result.x, scipy.optimize.nnls(X, b)[0], atol=1e-6)


def test_the_unit_of_sample_weights_does_not_matter():
    rng = np.random.default_rng(9)
    X, b, s = rng.standard_normal((20, 3)), rng.standard_normal(20), rng.random(20)
    x = np.array([0.5, -1.0, 0.25])
    plain, slope = LinearModel(X, b, sample_weight=s).value_and_gradient(x)
    for unit in (2.0**-1000, 2.0**1015, 3e300):
        value, gradient = LinearModel(X, b, sample_weight=s * unit).value_and_gradient(x)
        assert value == pytest.approx(plain, rel=1e-13)
        np.testing.assert_allclose(gradient, slope, rtol=1e-12)


def test_later_changes_to_the_input_change_nothing():
    """Targets and masks are the problem's own; X is read in place, as documented."""
    rng = np.random.default_rng(10)
    X, b, mask, weights = (
        rng.standard_normal((20, 3)),
        rng.standard_normal(20),
        np.array([True, False, True]),
        np.ones(3),
    )
    problem = Problem(LinearModel(X, b), MCP, 1.5, weights, mask)
    before = solve(problem).x
    b[:], mask[:], weights[:] = 0, False, 7
    np.testing.assert_array_equal(solve(problem).x, before)
