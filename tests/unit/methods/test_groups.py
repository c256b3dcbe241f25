"""Features of several coefficients that count once: group balls, exactly feasible, and their certificate."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import replace
from fractions import Fraction
from itertools import islice, repeat
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import Function, LinearModel, MultinomialModel, Problem, _kernels, certify, project
from levelprox.certificate.null_model import null_fit
from levelprox.constraints import L1, MCP
from levelprox.exceptions import InfeasibleError, InvalidInputError
from levelprox.methods.lcpp import lcpp, linearise, majorise
from levelprox.methods.subsolvers import ACSA, Nesterov, Spectral, Subproblem
from levelprox.projection import group_norms
from levelprox.result import Iterate
from tests.support import reference
from tests.support.long_runs import LONG
from tests.support.projection_cases import EPS
from tests.support.registries import CONSTRAINTS, GROUPED_OBJECTIVES, MULTINOMIAL_OBJECTIVES, ONE_VS_REST_OBJECTIVES

EXAMPLES = 5000 if LONG else 300


class Case:
    """One random projection onto a group ball."""

    def __init__(self, seed, features, n_outputs, dtype=np.float64):
        rng = np.random.default_rng(seed)
        self.n_outputs = n_outputs
        v = rng.standard_normal(features * n_outputs) * 10.0 ** rng.uniform(-6, 6)
        if rng.random() < 0.3:
            v *= 10.0 ** rng.uniform(-12, 12, v.size)
        v[rng.random(v.size) < 0.2] = 0
        self.v = v.astype(dtype)
        self.weights = np.ones(features, dtype)
        if rng.random() < 0.5:
            self.weights = np.where(rng.random(features) < 0.2, 0, 10.0 ** rng.uniform(-3, 3, features)).astype(dtype)
        spent = float(np.sum(self.weights * group_norms(self.v.astype(float), n_outputs)))
        self.tau = 0.0 if rng.random() < 0.1 else spent * 10.0 ** rng.uniform(-6, 0.3)

    def project(self, **changes):
        arguments = {"v": self.v, "tau": self.tau, "weights": self.weights} | changes
        return project(arguments.pop("v"), 0.0, arguments.pop("tau"), width=self.n_outputs, **arguments)


cases = st.builds(Case, st.integers(0, 2**32), st.integers(1, 12), st.integers(2, 6))
single = st.builds(Case, st.integers(0, 2**32), st.integers(1, 12), st.integers(2, 6), dtype=st.just(np.float32))


def check_feasible(case, project):
    """The norms, rounded up, satisfy the level in rational arithmetic."""
    x, _ = project()
    norms = group_norms(x.astype(float), case.n_outputs)
    assert all(map(reference.is_norm_above, reference.rows_of(x, case.n_outputs), norms))
    spent = sum((Fraction(float(w)) * Fraction(r) for w, r in zip(case.weights, norms, strict=True)), Fraction(0))
    assert spent <= Fraction(case.tau)


def check_rows_are_no_longer_than_their_norms_projected(case, project_rows):
    x, _ = project_rows()
    weights = case.weights.astype(float)
    shorter, _ = project(group_norms(case.v.astype(float), case.n_outputs), 0.0, case.tau, weights=weights)
    assert np.all(group_norms(x.astype(float), case.n_outputs) <= shorter)


def check_idempotent(case, project):
    x, _ = project()
    again, y = case.project(v=x)
    np.testing.assert_array_equal(again.view(np.uint8), x.view(np.uint8))
    assert y == 0


def check_kkt(case, project):
    """v_j − x_j = y ω_j x_j/‖x_j‖, ‖v_j‖ <= y ω_j where x_j = 0, and y (level − τ) = 0, up to rounding."""
    x, y = project()
    eps = 4 * np.finfo(x.dtype).eps
    v, x, w = (np.asarray(a, float) for a in (case.v, x, case.weights))
    rows, parts = v.reshape(-1, case.n_outputs), x.reshape(-1, case.n_outputs)
    before, after = (group_norms(a, case.n_outputs) for a in (v, x))
    assert y >= 0
    live = after > 0
    expected = rows[live] * (np.maximum(before - y * w, 0) / np.where(before > 0, before, 1))[live, None]
    assert np.all(np.abs(parts[live] - expected) <= eps * before[live, None])
    assert np.all(before[~live] <= y * w[~live] * (1 + eps) + eps * before[~live])
    if y > 0:
        active = w * before * (before * (1 + eps) >= w * y)
        assert float(np.sum(w * after)) >= case.tau - 2 * eps * (case.tau + float(np.sum(active)))


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.one_of(cases, single))
def test_the_projection_is_feasible_stationary_and_idempotent(case):
    check_feasible(case, case.project)
    check_rows_are_no_longer_than_their_norms_projected(case, case.project)
    check_idempotent(case, case.project)
    check_kkt(case, case.project)


FAULTS = {
    "a few digits too long": lambda case, x, y: (x * (1 + 16 * EPS), y),
    "ordinary l1 ball": lambda case, x, y: project(
        case.v, 0.0, case.tau, weights=np.repeat(case.weights, case.n_outputs)
    ),
    "one group forgotten": lambda case, x, y: (np.append(case.v[: case.n_outputs], x[case.n_outputs :]), y),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault):
    caught = 0
    for seed in range(40):
        case = Case(seed, 6, 3)
        x, y = case.project()
        if y == 0:
            continue
        try:
            for check in (check_feasible, check_kkt):
                check(case, lambda case=case, x=x, y=y, **_: FAULTS[fault](case, x, y))
        except AssertionError:
            caught += 1
    assert caught >= 10


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(cases)
def test_it_agrees_with_bisection(case):
    x, y = case.project()
    twin, multiplier = reference.project_groups(case.v, case.tau, case.weights, case.n_outputs)
    assert np.max(np.abs(x - twin)) <= 64 * EPS * np.max(np.abs(case.v))
    assert y == pytest.approx(multiplier, rel=1e-9, abs=1e-300) or case.tau == 0


@pytest.mark.parametrize("seed", range(4))
def test_it_agrees_with_an_independent_solver(seed, cp):
    rng = np.random.default_rng(seed)
    v, weights = rng.standard_normal((5, 3)), rng.uniform(0.5, 2, 5)
    x = cp.Variable((5, 3))
    spent = cp.sum(cp.multiply(weights, cp.norm(x, 2, axis=1)))
    cp.Problem(cp.Minimize(cp.sum_squares(x - v)), [spent <= 2.0]).solve(solver="CLARABEL")
    ours, _ = project(v.ravel(), 0.0, 2.0, weights=weights, width=3)
    np.testing.assert_allclose(ours.reshape(5, 3), x.value, atol=1e-5)


EXTREMES = [0.0, 5e-324, 1e-310, 1e-300, 1e-160, 1e-8, 1.0, 1e16, 1e160, 1e300, 1.7e308]


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.sampled_from(EXTREMES), min_size=6, max_size=6), st.sampled_from(EXTREMES), st.integers(0, 63))
def test_the_ends_of_the_floating_point_range(entries, tau, signs):
    v = np.array(entries) * np.where([signs >> i & 1 for i in range(6)], -1.0, 1.0)
    x, y = project(v, 0.0, tau, width=3)
    assert np.all(np.isfinite(x)) and np.isfinite(y)
    squares = [sum((Fraction(a) ** 2 for a in row), Fraction(0)) for row in reference.rows_of(x, 3)]
    # √p + √q <= τ without a root: p + q <= τ² and 4pq <= (τ² − p − q)²
    left = Fraction(tau) ** 2 - sum(squares)
    assert left >= 0 and 4 * squares[0] * squares[1] <= left**2
    again, multiplier = project(x, 0.0, tau, width=3)
    np.testing.assert_array_equal(again, x)
    assert multiplier == 0
    assert np.all(np.abs(x) <= np.abs(v))


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.one_of(st.integers(-9, 9).map(float), st.floats(-1e300, 1e300)), min_size=1, max_size=6))
def test_norms_are_rounded_up_and_no_further(row):
    (size,) = group_norms(np.array(row), len(row))
    assert reference.is_norm_above(row, size)


def test_norms_keep_their_digits_at_both_ends():
    norms = group_norms(np.array([3e200, 4e200, 3e-200, 4e-200, 3.0, 4.0, 1.0, 1e-300, 0.0, -0.0]), 2)
    np.testing.assert_allclose(norms[:2], [5e200, 5e-200], rtol=1e-15)
    assert norms[2:].tolist() == [5.0, np.nextafter(1, 2), 0.0]
    np.testing.assert_array_equal(group_norms(np.array([np.inf, 1.0, np.nan, 1.0]), 2), [np.inf, np.nan])


def test_groups_of_one_coordinate_each_are_the_ordinary_projection():
    rng = np.random.default_rng(0)
    v, weights = rng.standard_normal(50), rng.uniform(0.1, 2, 50)
    x, y = project(v, 0.0, 3.0, weights=weights)
    padded = np.column_stack([np.zeros(50), v, np.zeros(50)]).ravel()
    wide, multiplier = project(padded, 0.0, 3.0, weights=weights, width=3)
    np.testing.assert_allclose(wide.reshape(50, 3)[:, 1], x, rtol=4 * EPS)
    assert multiplier == y
    same, _ = project(v, 0.0, 3.0, weights=weights, width=1)
    np.testing.assert_array_equal(same, x)


def test_free_and_zero_groups_are_left_alone():
    v = np.array([3.0, 4.0, 1e9, -2e9, 0.0, 0.0, -0.6, 0.8])
    x, y = project(v, 0.0, 2.0, weights=[1, 0, 1, 1], width=2)
    np.testing.assert_array_equal(x[2:6], v[2:6])
    np.testing.assert_allclose(x[[0, 1, 6, 7]], [1.2, 1.6, 0, 0], rtol=1e-14)
    assert y == pytest.approx(3.0)


def test_rows_starts_and_targets_are_those_of_the_ordinary_projection():
    rng = np.random.default_rng(1)
    V = rng.standard_normal((4, 12))
    X, Y = project(V, 0.0, [0.5, 1.0, 2.0, 50.0], width=3)
    for v, x, y, tau in zip(V, X, Y, [0.5, 1.0, 2.0, 50.0], strict=True):
        one, multiplier = project(v, 0.0, tau, width=3)
        np.testing.assert_array_equal(one, x)
        assert multiplier == y
        warm, _ = project(v, 0.0, tau, width=3, start=1.1 * y)
        np.testing.assert_allclose(warm, x, rtol=16 * EPS)
    out = V[0].copy()
    assert project(out, 0.0, 0.5, width=3, out=out)[0] is out
    np.testing.assert_array_equal(out, X[0])
    np.testing.assert_array_equal(project(V[0], 0.0, np.inf, width=3)[0], V[0])
    np.testing.assert_array_equal(project(V[0], np.zeros(12), 0.5, width=3, nonnegative=False)[0], X[0])


def test_bits_do_not_depend_on_the_instruction_set(instruction_sets):
    case = Case(3, 2000, 7)
    results = []
    for name in instruction_sets:
        _kernels.use_simd(name)
        results.append(case.project(tau=float(0.01 * np.sum(np.abs(case.v))))[0])
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"v": np.ones(7)}, "not a multiple of width=3"),
        ({"u": 0.5}, "u must be 0"),
        ({"nonnegative": True}, "nonnegative"),
        ({"weights": np.ones(6)}, r"weights must have shape \(2,\)"),
        ({"width": 0}, "width must be an integer of at least 1"),
        ({"width": 2.0}, "width must be an integer"),
        ({"v": [1.0, np.nan, 0, 0, 0, 0]}, "NaN at index 1"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    with pytest.raises(InvalidInputError, match=words):
        project(**({"v": np.ones(6), "u": 0.0, "tau": 1.0, "width": 3} | arguments))


def test_a_negative_level_is_infeasible():
    with pytest.raises(InfeasibleError):
        project(np.ones(6), 0.0, -1.0, width=3)


# --- the problem, the surrogate and the certificate -----------------------------------------------------


class Quadratic(Function):
    """½‖x − c‖², with features of `n_outputs` coefficients."""

    def __init__(self, c, n_outputs):
        super().__init__(lambda x: (0.5 * float((x - c) @ (x - c)), x - c), c.size)
        self.c, self.n_outputs = c, n_outputs

    def restrict(self, W):
        return Quadratic(self.c.reshape(-1, self.n_outputs)[W].ravel(), self.n_outputs)


def test_a_problem_speaks_of_features():
    model = GROUPED_OBJECTIVES[0]
    weights = np.array([0.0, 1, 2, 1, 1, 1, 1, 0])
    problem = Problem(model, MCP(1.0, 2.0), 3.0, weights)
    assert (problem.n_outputs, problem.n_features, problem.dimension) == (3, 8, 24)
    x = np.zeros(24)
    x[3:6], x[6:9], x[21:] = [3.0, 0.0, 4.0], [0.3, 0.4, 0.0], 1e200
    np.testing.assert_allclose(problem.sizes(x)[:3], [0, 5, 0.5], rtol=1e-15)
    assert problem.g(x) == pytest.approx(1 + 2 * (0.5 - 0.25 / 4))
    np.testing.assert_array_equal(problem.unpenalized, [0, 7])
    np.testing.assert_array_equal(problem.coordinates(problem.unpenalized), [0, 1, 2, 21, 22, 23])
    np.testing.assert_array_equal(np.flatnonzero(problem.free(x)), [0, 1, 2, 3, 4, 5, 21, 22, 23])
    part = problem.restrict(np.array([2, 7]))
    assert (part.dimension, part.n_features) == (6, 2)
    np.testing.assert_array_equal(part.weights, [2, 0])
    assert part.g(x[problem.coordinates(np.array([2, 7]))]) == pytest.approx(2 * (0.5 - 0.25 / 4))
    assert certify(problem, np.where(np.abs(x) < 1e10, x, 1.0)).n_nonzero == 2


def test_a_problem_of_single_coefficients_is_what_it_was():
    problem = Problem(LinearModel(np.eye(3), np.ones(3)), L1(), 1.0)
    assert problem.weights is None and problem.n_outputs == 1
    features = np.array([2, 0])
    assert problem.coordinates(features) is features
    np.testing.assert_array_equal(problem.free(np.ones(3)), False)


@pytest.mark.parametrize("nonnegative", [True, np.arange(24) > 3])
def test_groups_have_no_signs(nonnegative):
    with pytest.raises(InvalidInputError, match="nonnegative is for features with one coefficient"):
        Problem(GROUPED_OBJECTIVES[0], L1(), 1.0, nonnegative=nonnegative)
    assert Problem(GROUPED_OBJECTIVES[0], L1(), 1.0, nonnegative=False).n_features == 8


def test_weights_are_one_for_each_feature():
    with pytest.raises(InvalidInputError, match=r"weights must have shape \(8,\)"):
        Problem(GROUPED_OBJECTIVES[0], L1(), 1.0, weights=np.ones(24))


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_the_surrogate_majorises_and_touches(constraint):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        size = 10.0 ** rng.uniform(-3, 2)
        at = np.where(rng.random((8, 3)) < 0.6, rng.standard_normal((8, 3)), 0) * size
        at[rng.random(8) < 0.4] = 0
        x = np.where(rng.random((8, 1)) < 0.5, at * rng.uniform(-2, 2, (8, 1)), rng.standard_normal((8, 3)) * size)
        weights = np.where(rng.random(8) < 0.2, 0, rng.uniform(0.3, 3, 8))
        problem = Problem(Quadratic(np.zeros(24), 3), constraint, 1.0, weights)
        level = 1.5 * problem.g(at.ravel()) + 0.1
        surrogate = majorise(constraint, at.ravel(), level, problem.weights)
        assert surrogate.n_outputs == 3 and surrogate.u is None
        slack = 64 * EPS * (level + constraint.lam * float(weights @ (problem.sizes(x.ravel() + at.ravel()))))
        assert surrogate.value(x.ravel()) >= problem.g(x.ravel()) - slack
        assert surrogate.value(at.ravel()) == pytest.approx(problem.g(at.ravel()), abs=slack)
        tighter = surrogate.tightened(0.1)
        assert tighter.n_outputs == 3 and tighter.value(at.ravel()) == pytest.approx(problem.g(at.ravel()) + 0.1)


def test_the_paper_s_surrogate_says_that_it_has_no_groups():
    with pytest.raises(InvalidInputError, match="use surrogate='concave'"):
        linearise(MCP(1.0, 1.0), np.zeros(6), 1.0, np.ones(2))
    with pytest.raises(InvalidInputError, match="an entry for each feature"):
        majorise(MCP(1.0, 1.0), np.zeros(6), 1.0, np.ones(4))


def kkt_point(constraint, seed, n_outputs=3, features=7):
    """½‖x − c‖² with c such that x is a KKT point with multiplier y; some features are unpenalized."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((features, n_outputs))
    rows[rng.random(features) < 0.5] = 0
    rows[0] = rng.standard_normal(n_outputs)
    weights = np.where(rng.random(features) < 0.2, 0, rng.uniform(0.5, 2, features))
    weights[0], y = 1.0, rng.uniform(0.2, 2)
    sizes = np.linalg.norm(rows, axis=1)
    inside = rng.standard_normal((features, n_outputs))
    inside *= (rng.uniform(0, 0.99, features) / np.linalg.norm(inside, axis=1))[:, None]
    unit = rows / np.where(sizes > 0, sizes, 1)[:, None]
    subgradient = np.where(sizes > 0, weights * constraint.slope(sizes), weights * constraint.lam)[:, None]
    subgradient = subgradient * np.where(sizes[:, None] > 0, unit, inside)
    problem = Problem(Quadratic((rows + y * subgradient).ravel(), n_outputs), constraint, 1.0, weights)
    return dataclasses.replace(problem, level=problem.g(rows.ravel())), rows.ravel(), y


def check_zero_at_kkt_points(certificate):
    assert certificate.kkt <= 1e-14
    assert certificate.infeasibility == 0
    assert certificate.complementarity == 0
    assert certificate.stationarity_squared <= 1e-26


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_the_certificate_is_zero_at_hand_made_kkt_points_and_grows_beside_them(constraint):
    for seed in range(5):
        problem, x, y = kkt_point(constraint, seed)
        certificate = certify(problem, x)
        check_zero_at_kkt_points(certificate)
        sizes = problem.sizes(x)
        assert certificate.n_nonzero == np.count_nonzero((sizes > 0) & (problem.weights > 0))
        if np.any(constraint.slope(sizes[sizes > 0]) * problem.weights[sizes > 0] > 1e-3):
            assert certificate.multiplier == pytest.approx(y, rel=1e-9)
        direction = np.where(np.repeat(sizes > 0, 3), np.random.default_rng(seed).standard_normal(x.size), 0)
        points = [x + size * direction for size in (1e-6, 1e-5, 1e-4)]
        beside = [certify(replace(problem, level=problem.g(point)), point).kkt for point in points]
        assert beside[0] > 1e-9
        np.testing.assert_allclose(np.diff(np.log10(beside)), 1, atol=0.1)


@pytest.mark.parametrize("fault", ["slope at zero everywhere", "half of the slope at zero"])
def test_planted_faults_of_the_certificate_are_caught(fault, monkeypatch):
    problem, x, _ = kkt_point(MCP(2.0, 5.0), 1)
    check_zero_at_kkt_points(certify(problem, x))

    def faulty(self):
        phi = self.constraint
        wrong = SimpleNamespace(lam=phi.lam, cap=phi.cap, phi=phi.phi, slope=phi.slope, curvature=phi.curvature)
        if fault == "slope at zero everywhere":
            wrong.slope = lambda t: np.full_like(t, phi.lam)
        else:
            wrong.lam = 0.5 * phi.lam
        penalty = _kernels.PythonPenalty(wrong)
        return _kernels.LevelConstraint(penalty, self.n_features, 3, self.weights, None, False, self.level)

    monkeypatch.setattr(Problem, "compiled", faulty)
    with pytest.raises(AssertionError):
        check_zero_at_kkt_points(certify(problem, x))


def test_the_scale_is_the_largest_gradient_of_a_feature():
    c = np.array([3.0, 4.0, 4.5, 0.0, 0.0, 1.0])
    certificate = certify(Problem(Quadratic(c, 2), L1(), 1.0), np.zeros(6))
    assert certificate.scale == 5.0
    assert certificate.stationarity == pytest.approx(5.0 - certificate.multiplier)
    unpenalized = certify(Problem(Quadratic(c, 2), L1(), 1.0, weights=[0, 1, 1]), np.zeros(6))
    assert unpenalized.scale == pytest.approx(4.5)


def test_degenerate_levels_count_features():
    cap = MCP(2.0, 5.0).cap
    problem = Problem(Quadratic(np.ones(12), 3), MCP(2.0, 5.0), 2.5 * cap)
    assert certify(problem, np.zeros(12)).degenerate_distance == pytest.approx(0.5)
    beyond = dataclasses.replace(problem, level=5 * cap)  # four features cannot cost more than four caps
    assert certify(beyond, np.zeros(12)).degenerate_distance == pytest.approx(1.0)


def test_the_null_fit_fits_whole_unpenalized_features():
    c = np.arange(1.0, 7.0)
    null = null_fit(Problem(Quadratic(c, 2), L1(), 1.0, weights=[1, 0, 1]))
    np.testing.assert_allclose(null.x, [0, 0, 3, 4, 0, 0], atol=1e-6)
    assert null.scale == pytest.approx(np.hypot(5, 6), rel=1e-6)


# --- runs -------------------------------------------------------------------------------------------------


def steps_of(problem, subsolver, tol=1e-7, most=400, weight=None):
    """LCPP from the null fit until the certificate holds; every step is feasible and none raises ψ."""
    objective, null = problem.objective, null_fit(problem)
    gamma = weight or subsolver.proximal_weight(objective)
    iterate = Iterate(null.x, null.psi, null.gradient, step=1 / objective.curvature)
    run = lcpp(problem, iterate, repeat(problem.level), gamma, subsolver, majorise, 0.01 * tol * null.scale)
    for _, step in islice(run, most):
        assert problem.g(step.x) <= problem.level
        assert step.psi <= iterate.psi + 8 * EPS * abs(iterate.psi)
        iterate = step
        if certify(problem, step.x, null).kkt <= tol:
            break
    return iterate


def slopes_from_scratch(model, z):
    """∂ℓ/∂z of every sample and class, as in the docstrings of the losses."""
    hot = np.eye(model.n_outputs)[model.target]
    if isinstance(model, MultinomialModel):
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True) - hot
    b, name = 2 * hot - 1, model.loss.name
    sigmoid = 1 / (1 + np.exp(b * z))
    return {
        "logistic": -b * sigmoid,
        "sigmoid": -b * sigmoid * (1 - sigmoid),
        "squared_hinge": -2 * b * np.maximum(1 - b * z, 0),
        "smoothed": -b * np.clip((1 - b * z) / getattr(model.loss, "width", 1.0), 0, 1),
    }[name]


def kkt_from_scratch(problem, model, x):
    """The largest violation of the KKT system, with NumPy alone, at the best of many multipliers."""
    K, X = model.n_outputs, np.column_stack([model.design.matvec(e) for e in np.eye(model.design.shape[1])])
    B, s = x.reshape(-1, K), np.ones(len(X)) if model.sample_weight is None else model.sample_weight
    z = X @ B + (0 if model.offset is None else model.offset)
    G = X.T @ (slopes_from_scratch(model, z) * s[:, None]) / s.sum()
    t = np.sqrt(np.sum(B**2, axis=1))
    live, w, lam = t > 0, problem.weights, problem.constraint.lam
    A = (w * problem.constraint.slope(t) / np.where(live, t, 1))[:, None] * B

    def worst(y):
        on = np.max(np.abs(G + y * A)[live], initial=0.0)
        return max(on, np.max((np.sqrt(np.sum(G**2, axis=1)) - y * lam * w)[~live], initial=0.0))

    slopes = A[live].ravel()
    y = max(0.0, -float(slopes @ G[live].ravel()) / float(slopes @ slopes)) if np.any(slopes) else 0.0
    return min(worst(y), worst(0.0)), float(np.sum(w * problem.constraint.phi(t)))


# The sigmoid keeps decreasing along a feature that is unpenalized.
CONVEX = [MULTINOMIAL_OBJECTIVES, [model for model in ONE_VS_REST_OBJECTIVES if model.weak_convexity == 0]]


@pytest.mark.parametrize("models", CONVEX, ids=["multinomial", "one vs rest"])
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_spectral_steps_reach_kkt_points_on_every_constraint(models, constraint):
    model = models[CONSTRAINTS.index(constraint) % len(models)]
    weights = np.array([1.0, 1, 1, 2, 1, 1, 1, 0])
    level = 0.4 * constraint.value(np.full(8, 0.4), weights)
    problem = Problem(model, constraint, level, weights)
    found = steps_of(problem, Spectral(), weight=1e-2 * model.curvature)
    violation, g = kkt_from_scratch(problem, model, found.x)
    certificate = certify(problem, found.x)
    assert certificate.kkt <= 1e-7
    assert violation <= 3e-7 * certificate.scale
    assert g <= level * (1 + 8 * EPS)
    assert certificate.multiplier <= certificate.dual_bound * (1 + 1e-6)
    assert certificate.n_nonzero >= 1


@pytest.mark.parametrize("subsolver", [Spectral(), Nesterov(), ACSA()], ids=lambda s: s.name)
def test_all_full_gradient_subsolvers_run_on_groups(subsolver, cp):
    """The ℓ1 problem is convex: they all end at the same ψ."""
    problem = Problem(GROUPED_OBJECTIVES[0], L1(), 0.8, weights=[1, 1, 1, 1, 1, 1, 1, 0])
    found = steps_of(problem, subsolver, tol=1e-6)
    x = cp.Variable((8, 3))
    model = problem.objective
    X = np.column_stack([model.design.matvec(e) for e in np.eye(8)])
    loss = cp.sum(cp.log_sum_exp(X @ x, axis=1)) - cp.sum(cp.multiply(np.eye(3)[model.target], X @ x))
    cp.Problem(cp.Minimize(loss / 60), [cp.sum(cp.norm(x[:7], 2, axis=1)) <= 0.8]).solve(solver="CLARABEL")
    assert found.psi == pytest.approx(loss.value / 60, rel=1e-6)
    assert certify(problem, found.x).kkt <= 1e-6


def test_a_python_function_may_have_groups():
    c = np.array([3.0, 4.0, 0.3, 0.4, 0.0, 0.0])
    problem = Problem(Quadratic(c, 2), L1(), 2.0)
    found = steps_of(problem, Spectral())
    np.testing.assert_allclose(found.x, [1.2, 1.6, 0, 0, 0, 0], atol=1e-6)


def test_kernels_refuse_sets_that_do_not_fit():
    with pytest.raises(ValueError, match="multiple of the width"):
        _kernels.Set(7, None, None, None, False, 1.0, 3)
    with pytest.raises(ValueError, match="neither u nor signs"):
        _kernels.Set(6, None, np.zeros(6), None, False, 1.0, 3)
    with pytest.raises(ValueError, match="entry for each feature"):
        _kernels.Set(6, np.ones(6), None, None, False, 1.0, 3)
    with pytest.raises(ValueError, match="whole number of groups"):
        _kernels.group_norms(np.ones(7), np.empty(2))


def test_the_set_has_the_width_of_the_objective():
    model = copy.copy(GROUPED_OBJECTIVES[0])
    center = np.zeros(model.dimension)
    surrogate = majorise(L1(), center, 1.0, np.ones(8))
    psi, gradient = model.value_and_gradient(center)
    step = Spectral(max_steps=3).solve(Subproblem(model, surrogate, center, 0.1), Iterate(center, psi, gradient))
    assert 0 < surrogate.value(step.x) <= 1.0
