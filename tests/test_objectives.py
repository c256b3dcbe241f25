"""ψ: the compiled linear model against its twin and against differences; the user's function; restriction."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse

from levelprox import Function, InvalidInputError, LinearModel, Problem, constraints
from tests import reference
from tests.registries import DESIGNS, LOSSES, OBJECTIVES


def data(loss, n=23, d=7, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.6, rng.standard_normal((n, d)), 0).astype(np.float32).astype(float)
    b = rng.standard_normal(n)
    return X, np.sign(b) if loss.kind == "margin" else b, rng.integers(0, 3, n).astype(float), rng.standard_normal(d)


def twin(loss, X, b, s, x):
    z = reference.matvec(X, x)
    value = sum(w * reference.loss(*loss.kernel, zi, bi) for w, zi, bi in zip(s, z, b, strict=True))
    slope = [w * reference.loss_slope(*loss.kernel, zi, bi) for w, zi, bi in zip(s, z, b, strict=True)]
    return value / sum(s), reference.rmatvec(X, np.array(slope)) / sum(s)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_linear_model_agrees_with_its_twin(loss, design):
    X, b, s, x = data(loss)
    for weights in (None, s):
        model = LinearModel(DESIGNS[design](X), b, loss, weights)
        value, gradient = model.value_and_gradient(x)
        slow_value, slow_gradient = twin(loss, X, b, np.ones(len(b)) if weights is None else weights, x)
        assert value == pytest.approx(slow_value, rel=1e-13)
        np.testing.assert_allclose(gradient, slow_gradient, rtol=0, atol=1e-13 * np.max(np.abs(slow_gradient)))


@pytest.mark.parametrize("rows", [1, 4095, 4096, 4097, 20_000])
@pytest.mark.parametrize("order", ["C", "F"])
def test_blocks_of_rows_leave_no_seam(rows, order):
    rng = np.random.default_rng(rows)
    X, b = np.array(rng.standard_normal((rows, 3)), order=order), rng.standard_normal(rows)
    x = np.array([0.3, -1.0, 2.0])
    value, gradient = LinearModel(X, b).value_and_gradient(x)
    residual = b - X @ x
    assert value == pytest.approx(float(np.mean(residual**2)), rel=1e-13)
    np.testing.assert_allclose(gradient, -2 * X.T @ residual / rows, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: getattr(o, "loss", type(o)).__class__.__name__)
def test_f5_gradients_agree_with_differences(objective):
    rng = np.random.default_rng(1)
    x, step = rng.standard_normal(objective.dimension), 1e-6
    _, gradient = objective.value_and_gradient(x)
    for j in range(objective.dimension):
        e = np.zeros_like(x)
        e[j] = step
        slope = (objective.value_and_gradient(x + e)[0] - objective.value_and_gradient(x - e)[0]) / (2 * step)
        assert gradient[j] == pytest.approx(slope, rel=5e-6, abs=1e-9)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: getattr(o, "loss", type(o)).__class__.__name__)
def test_restriction_is_the_objective_with_zeros(objective):
    W = np.array([7, 2, 3])
    x_w = np.array([0.5, -1.0, 0.25])
    x = np.zeros(objective.dimension)
    x[W] = x_w
    value, gradient = objective.value_and_gradient(x)
    part_value, part_gradient = objective.restrict(W).value_and_gradient(x_w)
    assert part_value == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(part_gradient, gradient[W], rtol=1e-12)


def test_weak_convexity_makes_psi_convex():
    """ψ + μ/2 |x|² has no negative curvature along random lines, and μ is not far too large."""
    objective = OBJECTIVES[3]
    assert objective.loss.name == "cauchy"
    mu = objective.weak_convexity
    rng = np.random.default_rng(2)
    bends = []
    for _ in range(2000):
        x, e = 3 * rng.standard_normal(10), rng.standard_normal(10)
        e *= 1e-3 / np.linalg.norm(e)
        _, ahead = objective.value_and_gradient(x + e)
        _, behind = objective.value_and_gradient(x - e)
        bends.append(float((ahead - behind) @ e) / (2 * float(e @ e)))
    assert min(bends) >= -mu
    share = np.full(40, 1 / 40)
    largest = np.linalg.eigvalsh(objective.design.gram(share))[-1]
    assert largest / 8 <= mu <= 1.01 * largest / 8
    for n, d in ((2, 50), (50, 2), (5, 50)):  # few samples, few features
        X = rng.standard_normal((n, d))
        mu = LinearModel(X, np.zeros(n), "cauchy").weak_convexity
        assert np.linalg.eigvalsh(X.T @ X / n)[-1] / 8 <= mu * (1 + 1e-9)


def test_margins_of_1e308_are_survived():
    """C30, C32: the loss is finite or infinite as it should be, never NaN."""
    for loss in LOSSES:
        model = LinearModel(np.array([[1e308], [-1e308]]), [1.0, 1.0], loss)
        value, gradient = model.value_and_gradient(np.array([1.0]))
        assert not np.isnan(value)
        assert not np.isnan(gradient).any()
        assert np.isfinite(model.value_and_gradient(np.array([1e-308]))[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.eye(3), [1.0, 2.0]), "X has 3 samples, but b has 2"),
        ((np.eye(3), [1.0, np.nan, 2.0]), "NaN at index 1"),
        ((np.eye(3), [1.0, np.inf, 2.0]), "inf at index 1"),
        ((np.eye(3), [1.0, 0.0, 1.0], "logistic"), "-1 or \\+1, got 0.0 at index 1"),
        ((np.eye(3), [1.0, 2.0, 3.0], "squarred"), "squared"),
        ((np.eye(3), ["a", "b", "c"]), "real numbers"),
        ((np.eye(3), [1.0, 2.0, 3.0], "squared", [1.0, -1.0, 1.0]), "-1.0 at index 1"),
        ((np.eye(3), [1.0, 2.0, 3.0], "squared", [0.0, 0.0, 0.0]), "zero"),
        ((np.eye(3), [1.0, 2.0, 3.0], "squared", [1.0, np.nan, 0.0]), "nan at index 1"),
        ((np.eye(3), [1.0, 2.0, 3.0], "squared", [1.0, 1.0]), "shape|length|samples"),
        ((np.full((2, 2), np.nan), [1.0, 2.0]), "X contains NaN at row 0, column 0"),
        ((scipy.sparse.csr_array(np.diag([1.0, np.inf])), [1.0, 2.0]), "X contains inf at row 1, column 1"),
        ((np.ones(3), [1.0, 2.0, 3.0]), "2-D"),
        ((np.ones((0, 3)), []), "0 sample"),
    ],
)
def test_bad_data_is_named(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        LinearModel(*arguments)


def test_one_class_is_a_problem_like_any_other():
    """C13 in the core: targets that are all +1 are rows with their signs folded in, a common trick."""
    rng = np.random.default_rng(3)
    X, b = rng.standard_normal((30, 4)), np.sign(rng.standard_normal(30))
    x = rng.standard_normal(4)
    folded = LinearModel(X * b[:, None], np.ones(30), "logistic")
    assert folded.value_and_gradient(x)[0] == pytest.approx(LinearModel(X, b, "logistic").value_and_gradient(x)[0])


@pytest.mark.parametrize("objective", OBJECTIVES[:4], ids=lambda o: o.loss.name)
def test_objectives_pickle_and_copy(objective):
    x = np.linspace(-1, 1, objective.dimension)
    value, _ = objective.value_and_gradient(x)
    for twin_objective in (pickle.loads(pickle.dumps(objective)), copy.deepcopy(objective), copy.copy(objective)):
        assert twin_objective.value_and_gradient(x)[0] == value


def test_the_user_s_function_and_its_curvature():
    c = np.array([1.0, -2.0])
    quadratic = Function(lambda x: (1.5 * float((x - c) @ (x - c)), 3 * (x - c)), 2)
    assert quadratic.curvature == pytest.approx(3, rel=1e-6)
    assert Function(lambda x: (0.0, np.zeros(2)), 2).curvature == 1
    assert Function(lambda x: (0.0, np.zeros(2)), 2, weak_convexity=4.0).curvature == 4


def test_problem_restricts_weights_and_signs():
    problem = Problem(OBJECTIVES[0], constraints.L1(), 2.0, np.arange(10.0), np.arange(10) % 2 == 0)
    part = problem.restrict(np.array([1, 4, 0]))
    np.testing.assert_array_equal(part.weights, [1, 4, 0])
    np.testing.assert_array_equal(part.must_be_nonnegative(), [False, True, True])
    np.testing.assert_array_equal(part.exempt, [2])
    assert part.level == 2.0
    assert Problem(OBJECTIVES[0], constraints.L1(), 2.0).exempt.size == 0
