"""ψ: the compiled linear model against slow code and differences; the user's function; restriction."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

from levelprox import Function, InvalidInputError, LinearModel, Problem, _kernels, certify, constraints, solve
from levelprox.losses import Logistic
from tests.support import reference
from tests.support.registries import DESIGNS, LOSSES, OBJECTIVES, targets_of


def data(loss, n=23, d=7, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.6, rng.standard_normal((n, d)), 0).astype(np.float32).astype(float)
    b = rng.standard_normal(n)
    return X, targets_of(loss, b), rng.integers(0, 3, n).astype(float), rng.standard_normal(d)


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
def test_gradients_agree_with_differences(objective):
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
    """The loss is finite or infinite as it should be, never NaN."""
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
        ((np.eye(3), [1.0, 2.0, 3.0], "squared", None, [1.0, 1.0]), "X has 3 samples, but offset has 2"),
        ((np.eye(3), [1.0, 2.0, 3.0], "squared", None, [1.0, np.nan, 0.0]), "offset contains NaN at index 1"),
        ((np.eye(3), [1.0, 2.0, 3.0], "squared", None, [1.0, 1.0, -np.inf]), "offset contains inf at index 2"),
        ((np.eye(3), [1.0, 2.0, 3.0], "squared", None, ["a", "b", "c"]), "offsets must hold real numbers"),
        ((np.eye(3), [1.0, 2.0, 3.0], "squared", None, np.ones((3, 1))), "offsets must be one-dimensional"),
        ((np.eye(3), [1.0, 2.0, 3.0], "squared", None, 1.0), "offsets must be one-dimensional"),
        ((np.full((2, 2), np.nan), [1.0, 2.0]), "X contains NaN at row 0, column 0"),
        ((scipy.sparse.csr_array(np.diag([1.0, np.inf])), [1.0, 2.0]), "X contains inf at row 1, column 1"),
        ((np.ones(3), [1.0, 2.0, 3.0]), "2-D"),
        ((np.ones((0, 3)), []), "0 sample"),
    ],
)
def test_bad_data_is_named(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        LinearModel(*arguments)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_an_offset_is_a_column_with_coefficient_one(loss, design):
    X, b, s, x = data(loss)
    offset = np.linspace(-2, 2, len(b)).astype(np.float32).astype(float)
    for weights in (None, s):
        model = LinearModel(DESIGNS[design](X), b, loss, weights, offset)
        value, gradient = model.value_and_gradient(x)
        wide = LinearModel(DESIGNS[design](np.column_stack([X, offset])), b, loss, weights)
        wide_value, wide_gradient = wide.value_and_gradient(np.append(x, 1.0))
        assert value == pytest.approx(wide_value, rel=1e-13)
        np.testing.assert_allclose(gradient, wide_gradient[:-1], rtol=0, atol=1e-13 * np.max(np.abs(wide_gradient)))
        assert value != pytest.approx(LinearModel(X, b, loss, weights).value_and_gradient(x)[0], rel=1e-6)


@pytest.mark.parametrize("rows", [1, 4095, 4096, 4097, 20_000])
@pytest.mark.parametrize("order", ["C", "F"])
def test_with_the_squared_loss_an_offset_is_a_shift_of_the_targets(rows, order):
    rng = np.random.default_rng(rows)
    X, b, offset = np.array(rng.standard_normal((rows, 3)), order=order), *rng.standard_normal((2, rows))
    x = np.array([0.3, -1.0, 2.0])
    value, gradient = LinearModel(X, b, offset=offset).value_and_gradient(x)
    shifted_value, shifted_gradient = LinearModel(X, b - offset).value_and_gradient(x)
    assert value == pytest.approx(shifted_value, rel=1e-13)
    np.testing.assert_allclose(gradient, shifted_gradient, rtol=1e-11, atol=1e-13)


def test_offsets_are_kept_wherever_the_model_goes():
    X, b, s, x = data(LOSSES[0])
    offset = np.linspace(-2, 2, len(b))
    model = LinearModel(X, b, "huber", s, offset)
    value, gradient = model.value_and_gradient(x)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert other.value_and_gradient(x)[0] == value
    W = np.array([4, 0])
    rest = np.setdiff1d(np.arange(7), W)
    x[rest] = 0
    value, gradient = model.value_and_gradient(x)
    part_value, part_gradient = model.restrict(W).value_and_gradient(x[W])
    assert part_value == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(part_gradient, gradient[W], rtol=1e-12)
    offset[:] = 7.0  # a copy, which the caller cannot change
    assert model.value_and_gradient(x)[0] == value
    np.testing.assert_array_equal(LinearModel(X, b, offset=np.zeros(len(b), int)).offset, np.zeros(len(b)))
    assert LinearModel(X, b).offset is None


def test_the_kernel_keeps_its_arrays_alive():
    arrays = [np.ones(3), np.ones(3), np.ones(3)]
    watched = [weakref.ref(array) for array in arrays]
    kernel = _kernels.LinearModel(LinearModel(np.eye(3), np.ones(3)).design.kernel, "squared", 0.0, 0.0, *arrays)
    arrays.clear()
    gc.collect()
    assert all(ref() is not None for ref in watched)
    assert kernel.value_and_gradient(np.zeros(3), np.empty(3)) == 0.0  # 0 + offset 1 against target 1
    del kernel
    gc.collect()
    assert all(ref() is None for ref in watched)


def test_a_fit_with_offsets_is_the_fit_of_an_unpenalized_column_held_at_one():
    rng = np.random.default_rng(5)
    X, offset = rng.standard_normal((60, 8)), 2 * rng.standard_normal(60)
    b = np.sign(X[:, 0] - X[:, 1] + offset + rng.logistic(size=60))
    problem = Problem(LinearModel(X, b, "logistic", offset=offset), constraints.L1(), 0.8)
    fit = solve(problem)
    assert fit.certificate.kkt <= 1e-6
    # Stationary in the wide problem, too: its gradient in the eight columns is the same.
    wide = LinearModel(np.column_stack([X, offset]), b, "logistic")
    _, gradient = wide.value_and_gradient(np.append(fit.x, 1.0))
    np.testing.assert_allclose(problem.objective.value_and_gradient(fit.x)[1], gradient[:-1], atol=1e-14)
    plain = solve(Problem(LinearModel(X, b, "logistic"), constraints.L1(), 0.8))
    assert np.max(np.abs(plain.x - fit.x)) > 0.01


def test_kinks_move_with_the_offsets():
    """The median of b - o = 1, 2, 4 is stationary, and no other point is."""
    o = np.array([3.0, -1.0, 5.0])
    model = LinearModel(np.ones((3, 1)), np.array([1.0, 2.0, 4.0]) + o, "absolute", offset=o)
    problem = Problem(model, constraints.L1(), 10.0)
    assert certify(problem, np.array([2.0])).kkt < 1e-12
    assert certify(problem, np.array([2.5])).kkt > 0.1
    np.testing.assert_allclose(model.subgradients(np.array([2.0])).radius, [1 / 3])


def test_a_kink_is_found_although_large_offsets_round_the_margin():
    offset = np.array([1e9 / 3])
    column = 0.7 - offset
    assert 1e-9 < abs(float((column + offset)[0]) - 0.7) < 1e-7
    model = LinearModel(column[:, None], [0.7], "absolute", offset=offset)
    np.testing.assert_array_equal(model.subgradients(np.ones(1)).radius, [1.0])


def test_the_quantile_and_the_hinge_have_their_certificates():
    best = Problem(LinearModel(np.ones((5, 1)), [1.0, 2.0, 3.0, 4.0, 5.0], "quantile"), constraints.L1(), 10.0)
    assert certify(best, np.array([3.0])).kkt < 1e-12
    assert certify(best, np.array([3.5])).kkt > 0.1
    rows = np.array([[1.0], [1.0], [-1.0], [1.0]])
    svm = Problem(LinearModel(rows, [1.0, 1.0, -1.0, -1.0], "hinge"), constraints.L1(), 10.0)
    assert certify(svm, np.array([1.0])).kkt < 1e-12
    assert certify(svm, np.array([0.5])).kkt > 0.1


@pytest.mark.parametrize("offset", [None, [5.0, -5.0, 5.0]])
def test_separable_data_have_no_best_fit_whatever_the_offsets(offset):
    """Along x all margins grow, so ψ keeps decreasing; the hinge has nothing left to gain from bz = 1 on."""
    X, b = np.array([[1.0], [-2.0], [3.0]]), np.array([1.0, -1.0, 1.0])
    x = np.array([0.1])
    separated = {
        loss for loss in LOSSES if loss.kind == "margin" and LinearModel(X, b, loss, None, offset).is_separated(x)
    }
    assert {loss.name for loss in separated} == {"logistic", "sigmoid"}
    for loss in separated:
        model = LinearModel(X, b, loss, None, offset)
        values = [model.value_and_gradient(t * x)[0] for t in (50.0, 100.0, 200.0, 400.0)]
        assert values == sorted(values, reverse=True) and values[-1] < 1e-10
        assert not model.is_separated(-x)


def test_weak_convexity_covers_the_sigmoid_loss():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 10))
    model = LinearModel(X, np.sign(rng.standard_normal(40)), "sigmoid")
    largest = np.linalg.eigvalsh(X.T @ X / 40)[-1] / (6 * np.sqrt(3))
    assert largest * (1 - 1e-9) <= model.weak_convexity <= 1.01 * largest


def test_one_class_is_a_problem_like_any_other():
    """Targets that are all +1 are rows with their signs folded in, a common trick."""
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
    np.testing.assert_array_equal(part.unpenalized, [2])
    assert part.level == 2.0
    assert Problem(OBJECTIVES[0], constraints.L1(), 2.0).unpenalized.size == 0


@pytest.mark.parametrize("loss", ["hinge", "absolute", "quantile", "squared_hinge"])
def test_a_reported_value_is_right_where_rounding_puts_a_margin_across_a_kink(loss):
    """One sample has nearly all of the weight, and its margin, whose terms are 1e7, is at the kink up to rounding."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        x = np.array([rng.uniform(0.05, 0.2), 0.0])
        X = np.full((3, 1), 1e8 * rng.uniform(0.5, 1)) + np.array([[0.0], [8.0], [-8.0]])
        x[1] = 1 - x[0] * X[0, 0]
        model = LinearModel(X, [1.0, -1.0, 1.0], loss, sample_weight=[1.0, 1e-12, 1e-12], fit_intercept=True)
        exact = [float(Fraction(x[0]) * Fraction(entry) + Fraction(x[1])) for entry in X[:, 0]]
        psi = model.value_of(np.array(exact))
        enough = 1e-3 * psi
        assert abs(model.refined_value(x, model.value_of(model.margins(x)), enough) - psi) <= 4 * enough


@pytest.mark.parametrize(("old", "new"), [("Asked", "RemoteObjective"), ("ShardedModel", "PartitionedModel")])
def test_names_of_version_0_1_are_deprecated(old, new):
    import levelprox.backends
    import levelprox.objectives

    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(levelprox.objectives, old) is getattr(levelprox.backends, new)


def test_an_objective_of_version_0_1_keeps_its_unpenalized_features():
    target = np.arange(5.0)

    def declare():
        class Distance(Function):
            def __init__(self):
                super().__init__(lambda x: (float((x - target) @ (x - target)), 2 * (x - target)), 5)

            @property
            def exempt(self):
                return np.array([4])

        return Distance

    with pytest.warns(DeprecationWarning, match=r"Distance.exempt is deprecated: its name is unpenalized"):
        distance = declare()
    x = solve(Problem(distance(), constraints.L1(), 2.0)).x
    np.testing.assert_allclose(x, [0, 0, 0.5, 1.5, 4], atol=1e-5)


@pytest.mark.parametrize("where", ["class", "instance", "property"])
def test_an_objective_of_version_0_1_keeps_its_number_of_outputs(where):
    target = np.array([3.0, 4.0, 0.6, 0.8])

    def declare():
        class Distance(Function):
            if where == "class":
                width = 2
            elif where == "property":

                @property
                def width(self):
                    return 2

            def __init__(self):
                super().__init__(lambda x: (float((x - target) @ (x - target)), 2 * (x - target)), 4)
                if where == "instance":
                    self.width = 2

        return Distance()

    with pytest.warns(DeprecationWarning, match=r"Distance.width is deprecated: its name is n_outputs"):
        distance = declare()
    assert distance.n_outputs == 2
    problem = Problem(distance, constraints.L1(), 3.0)
    with pytest.warns(DeprecationWarning, match=r"Problem.width is deprecated: its name is n_outputs"):
        assert problem.width == problem.n_outputs == problem.n_features == 2
    np.testing.assert_allclose(solve(problem).x, [1.8, 2.4, 0, 0], atol=1e-5)


def test_a_loss_of_version_0_1_keeps_its_hooks():
    def declare():
        class Mine(Logistic):
            concordance = 2.0

            def falls_for_ever(self, direction, b):
                return direction > 0

        return Mine()

    with pytest.warns(DeprecationWarning, match="its name is (self_concordance|decreases_forever)") as warned:
        loss = declare()
    assert len(warned) == 2
    assert loss.self_concordance == 2
    assert loss.decreases_forever(np.array([1.0, -1.0]), np.array([-1.0, -1.0])).tolist() == [True, False]
