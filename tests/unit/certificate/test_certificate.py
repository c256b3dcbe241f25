"""The certificate: zero at KKT points made by hand, positive away from them, independent of units."""

from __future__ import annotations

import dataclasses
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse

from levelprox import Function, LinearModel, Problem, _kernels, certify, solve
from levelprox.certificate.null_model import null_fit
from levelprox.certificate.residual import Residual
from levelprox.constraints import L1, MCP, SCAD, Exp
from levelprox.designs import SparseDesign
from tests.support.registries import CONSTRAINTS


def kkt_point(constraint, seed, *, weights=None, nonnegative=None, d=12):
    """A problem min 1/2|x - c|² s.t. g <= η with c chosen so that x is a KKT point with multiplier y."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(d) < 0.5, rng.standard_normal(d), 0.0)
    omega = np.ones(d) if weights is None else weights
    positive = np.zeros(d, bool) if nonnegative is None else nonnegative
    x = np.where(positive, np.abs(x), x)
    y = rng.uniform(0.2, 2)
    inside = rng.uniform(-0.9, 0.9, d)
    inside = np.where(positive & (x == 0), rng.uniform(-5, 0.9, d), inside)
    inside = np.where((omega == 0) & ~positive, 0, inside)
    free_side = np.where((omega == 0) & positive & (x == 0), -rng.random(d), 0.0)
    subgradient = np.where(x != 0, omega * constraint.slope(np.abs(x)) * np.sign(x), omega * constraint.lam * inside)
    c = x + y * subgradient + free_side
    objective = Function(lambda z: (0.5 * float((z - c) @ (z - c)), z - c), d)
    return Problem(objective, constraint, constraint.total(x, weights), weights, nonnegative), x, y


def check_zero_at_kkt_points(certificate):
    assert certificate.kkt <= 1e-14
    assert certificate.stationarity <= 1e-14
    assert certificate.complementarity == 0
    assert certificate.infeasibility == 0
    assert certificate.epsilon <= 1e-26


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
@pytest.mark.parametrize("kind", ["plain", "weights", "nonnegative", "both"])
def test_residuals_are_zero_at_hand_made_kkt_points(constraint, kind):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        weights = np.where(rng.random(12) < 0.2, 0, rng.uniform(0.5, 2, 12)) if kind in ("weights", "both") else None
        nonnegative = rng.random(12) < 0.5 if kind in ("nonnegative", "both") else None
        problem, x, y = kkt_point(constraint, seed, weights=weights, nonnegative=nonnegative)
        certificate = certify(problem, x)
        check_zero_at_kkt_points(certificate)
        slopes = constraint.slope(np.abs(x[x != 0])) * (1 if weights is None else weights[x != 0])
        if np.any(slopes > 1e-3):
            assert certificate.multiplier == pytest.approx(y, rel=1e-10)


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_residuals_grow_linearly_under_perturbation(constraint):
    problem, x, _ = kkt_point(constraint, 3)
    rng = np.random.default_rng(0)
    direction = np.where(x != 0, rng.standard_normal(x.size), 0)
    sizes = np.array([1e-6, 1e-5, 1e-4])
    points = [x + size * direction for size in sizes]
    binding = [dataclasses.replace(problem, level=problem.g(point)) for point in points]
    residuals = np.array([certify(*pair).kkt for pair in zip(binding, points, strict=True)])
    assert np.all(residuals > 1e-3 * sizes * np.linalg.norm(direction))
    slopes = np.diff(np.log(residuals)) / np.diff(np.log(sizes))
    np.testing.assert_allclose(slopes, 1, atol=0.1)


@pytest.mark.parametrize("fault", ["slope sign flipped", "lambda dropped"])
def test_planted_faults_are_caught(fault, monkeypatch):
    problem, x, _ = kkt_point(MCP(2.0, 5.0), 3)

    def faulty(self):
        phi = self.constraint
        wrong = SimpleNamespace(lam=phi.lam, cap=phi.cap, phi=phi.phi, slope=phi.slope, curvature=phi.curvature)
        if fault == "slope sign flipped":
            wrong.slope = lambda t: -phi.slope(t)
        else:
            wrong.lam = 1.0
        penalty = _kernels.PythonPenalty(wrong)
        return _kernels.LevelConstraint(penalty, self.n_features, 1, self.weights, None, False, self.level)

    check_zero_at_kkt_points(certify(problem, x))
    monkeypatch.setattr(Problem, "compiled", faulty)
    with pytest.raises(AssertionError):
        check_zero_at_kkt_points(certify(problem, x))


@pytest.mark.parametrize("seed", range(30))
def test_the_multiplier_is_the_best_one(seed):
    """No y on a fine grid gives a smaller residual."""
    rng = np.random.default_rng(seed)
    constraint = CONSTRAINTS[seed % len(CONSTRAINTS)]
    problem, x, y = kkt_point(constraint, seed, weights=rng.uniform(0.5, 2, 12) if seed % 2 else None)
    x = x + 0.01 * rng.standard_normal(12) * (x != 0)
    problem = dataclasses.replace(problem, level=problem.g(x) * rng.uniform(1, 1.01))
    certificate = certify(problem, x)
    _, gradient = problem.objective.value_and_gradient(x)
    residual, weights = Residual(problem, x, gradient), np.ones(12) if problem.weights is None else problem.weights
    price = weights * constraint.slope(np.abs(x))
    room = weights * (constraint.cap - constraint.phi(np.abs(x)))
    curvature = problem.objective.curvature

    def complementarity(t):
        held = np.minimum(t * price, np.abs(gradient))
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = np.minimum(np.minimum(problem.level, room), price * held / curvature)
            return float(np.nanmax(held * np.minimum(1, certificate.slack / cost)))

    grid = np.concatenate([[0], np.geomspace(1e-6, 1e3, 4000), y * np.linspace(0.9, 1.1, 2000)])
    best = min(max(residual.lines.largest(t), complementarity(t)) for t in grid) / certificate.scale
    assert certificate.kkt <= best * (1 + 1e-9) or certificate.multiplier == 0


def test_the_figures_agree_with_a_calculation_from_scratch():
    rng = np.random.default_rng(0)
    X, b, s = rng.standard_normal((40, 8)), np.sign(rng.standard_normal(40)), rng.uniform(0, 2, 40)
    constraint, x = MCP(1.5, 2.0), np.array([0.3, 0, -0.7, 0, 9.0, 0, 0, 0.1])
    problem = Problem(LinearModel(X, b, "logistic", s), constraint, 5.0)
    certificate = certify(problem, x)
    z = X @ x
    psi = np.sum(s * np.log1p(np.exp(-b * z))) / s.sum()
    gradient = X.T @ (-s * b / (1 + np.exp(b * z))) / s.sum()
    g = sum(1.5 * t - t**2 / 4 if t <= 3 else 2.25 for t in np.abs(x))
    y = certificate.multiplier
    slope = np.where(np.abs(x) < 3, 1.5 - np.abs(x) / 2, 0)
    off = np.where(x != 0, np.abs(gradient + y * slope * np.sign(x)), np.maximum(np.abs(gradient) - 1.5 * y, 0))
    squares = s @ X**2 / s.sum()
    unit = np.sqrt(squares / squares.mean())
    null = np.max(np.abs(X.T @ (-s * b / 2) / s.sum()) / unit)
    price, room = slope / unit, np.where(np.abs(x) < 3, 2.25 - (1.5 * np.abs(x) - x**2 / 4), 0)
    held = np.minimum(y * price, np.abs(gradient) / unit)
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = np.minimum(np.minimum(5, room), price * held / (squares.mean() / 4))
        excused = np.nanmax(held * np.minimum(1, (5 - g) / cost))
    for found, expected in [
        (certificate.psi, psi),
        (certificate.g, g),
        (certificate.slack, 5 - g),
        (certificate.stationarity, (off / unit).max()),
        (certificate.stationarity_squared, off @ off),
        (certificate.complementarity, y * (5 - g)),
        (certificate.scale, null),
        (certificate.kkt, max((off / unit).max(), excused) / null),
    ]:
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-14)
    assert certificate.n_nonzero == 4


def test_a_nearly_saturated_coordinate_does_not_spoil_the_multiplier():
    constraint, x = Exp(5.0), np.array([16.0, 0.1])
    gradient = np.array([-1e-3, -10 * constraint.slope(0.1)])
    objective = Function(
        lambda z: (0.5 * float(np.sum((z - x) ** 2)) + float(gradient @ (z - x)) + 1, gradient + z - x), 2
    )
    certificate = certify(Problem(objective, constraint, constraint.value(x)), x)
    assert certificate.multiplier == pytest.approx(10, rel=1e-3)
    assert certificate.kkt < 1e-4


@pytest.mark.parametrize("unit", [1e-30, 1e-3, 1e6, 1e40])
def test_the_unit_of_weights_and_level_does_not_matter(unit):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 5))
    model = LinearModel(X, 1e4 + X @ [2.0, 0, -1, 0, 0])
    for x in (np.zeros(5), np.array([1e-4, 0, 2e-4, 0, 0])):
        plain = certify(Problem(model, L1(), 1e-3), x)
        scaled = certify(Problem(model, L1(), 1e-3 * unit, weights=np.full(5, unit)), x)
        assert scaled.kkt == pytest.approx(plain.kkt, rel=1e-9)
        assert scaled.multiplier == pytest.approx(plain.multiplier / unit, rel=1e-9)


def test_the_null_fit_keeps_signs():
    X = np.column_stack([np.ones(20), np.linspace(-1, 1, 20)])
    b = -2.0 + 0.5 * X[:, 1]
    problem = Problem(LinearModel(X, b), MCP(1.0, 1.0), 1.2, weights=[0, 1], nonnegative=[True, False])
    assert null_fit(problem).x[0] == 0
    assert null_fit(Problem(LinearModel(X, b), MCP(1.0, 1.0), 1.2, weights=[0, 1])).x[0] == pytest.approx(-2, rel=1e-6)


def test_the_scale_is_measured_with_unpenalized_coordinates_fitted():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.standard_normal((60, 4)), np.ones(60)])
    b = 3 + X[:, 0] + 0.1 * rng.standard_normal(60)
    problem = Problem(LinearModel(X, b), MCP(1.0, 1.0), 1.2, weights=[1, 1, 1, 1, 0])
    unit = np.sqrt(np.mean(X**2, axis=0) / np.mean(X**2))
    expected = np.max(np.abs(-2 * X.T @ (b - b.mean()) / 60)[:4] / unit[:4])
    assert certify(problem, np.zeros(5)).scale == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("constraint", "level", "weights", "distance", "check"),
    [
        (MCP(2.0, 5.0), 25.0, None, 0.5, "checked"),
        (MCP(2.0, 5.0), 20.0, None, 0.0, "checked"),
        (SCAD.from_threshold(1.0), 3.25, None, 0.25, "checked"),
        (MCP(2.0, 5.0), 25.0, [2.0, 2.0, 2.0, 0.0], 0.25, "checked"),
        (MCP(2.0, 5.0), 25.0, [1.0, 2.0, 1.0, 1.0], 0.5, "checked"),
        (MCP(2.0, 5.0), 20.0, [1.0, 3.0, 3.0, 0.0], 1.0, "checked"),  # 0, 1, 3, 4, 6, 7 caps can be saturated
        (MCP(2.0, 5.0), 25.0, [1.0, math.sqrt(2), 1.0, 1.0], None, "not checked: unequal weights"),
        (L1(), 3.0, None, None, "no degenerate level"),
        (MCP(2.0, 5.0), 25.0, [0.0, 0.0, 0.0, 0.0], None, "no degenerate level"),
    ],
)
def test_degenerate_levels(constraint, level, weights, distance, check):
    problem = Problem(Function(lambda x: (float(x @ x), 2 * x), 4), constraint, level, weights)
    certificate = certify(problem, np.zeros(4))
    assert certificate.degenerate_check == check
    assert ("whole number of caps" in str(certificate)) == (distance == 0)
    assert certificate.degenerate_distance == (None if distance is None else pytest.approx(distance, abs=1e-12))


def test_an_inactive_constraint_has_no_multiplier():
    c = np.array([0.3, -0.2, 0.0])
    problem = Problem(Function(lambda x: (0.5 * float((x - c) @ (x - c)), x - c), 3), L1(), 10.0)
    certificate = certify(problem, c + 1e-9)
    assert not certificate.active
    assert certificate.multiplier == 0
    assert "inactive" in str(certificate)
    infeasible = certify(dataclasses.replace(problem, level=0.1), c)
    assert infeasible.infeasibility == pytest.approx(0.4)


def test_a_negative_coordinate_is_infeasible_where_it_must_not_be():
    problem = Problem(Function(lambda x: (float(x @ x), 2 * x), 2), L1(), 10.0, nonnegative=[False, True])
    assert certify(problem, [-1.0, 1.0]).infeasibility == 0
    assert certify(problem, [-1.0, -0.25]).infeasibility == 0.25


def test_kinks_give_a_choice_of_subgradients():
    """The median of 1, 2, 4 minimises Σ|b - x|: stationary, although the middle term has a kink there."""
    problem = Problem(LinearModel(np.ones((3, 1)), [1.0, 2.0, 4.0], "absolute"), L1(), 10.0)
    assert certify(problem, [2.0]).kkt <= 1e-9
    assert certify(problem, [2.1]).kkt == pytest.approx(1 / 3, rel=1e-6)


def test_subgradients_are_chosen_at_the_solution_of_another_solver(cp):
    rng = np.random.default_rng(0)
    X, b = rng.standard_normal((30, 3)), rng.standard_normal(30)
    x = cp.Variable(3)
    cp.Problem(cp.Minimize(cp.norm1(b - X @ x) / 30), [cp.norm1(x) <= 0.2]).solve(
        solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    exact = np.where(np.abs(x.value) < 1e-9, 0, x.value)
    exact *= 0.2 / np.abs(exact).sum()
    problem = Problem(LinearModel(X, b, "absolute"), L1(), 0.2)
    near, far = certify(problem, exact), certify(problem, 0.5 * exact)
    assert near.kkt <= 1e-5
    assert far.kkt > 1e-3


def test_the_dual_bound_holds_at_solutions():
    rng = np.random.default_rng(5)
    X, b = rng.standard_normal((80, 12)), rng.standard_normal(80)
    for constraint in CONSTRAINTS:
        level = 0.4 * constraint.value(np.full(12, 0.2))
        certificate = solve(Problem(LinearModel(X, b), constraint, level), tol=1e-8).certificate
        assert certificate.multiplier <= certificate.dual_bound * (1 + 1e-6), str(constraint)
        assert certificate.dual_bound <= 100 * certificate.multiplier, "the bound says nothing"


def test_the_certificate_prints_and_serialises():
    problem, x, _ = kkt_point(MCP(2.0, 5.0), 3)
    certificate = certify(problem, x)
    text = str(certificate)
    for word in ("KKT residual", "loss", "constraint", "multiplier", "stationarity", "degenerate"):
        assert word in text
    assert json.loads(json.dumps(certificate.as_dict()))["kkt"] == certificate.kkt


def test_columns_of_the_support_are_copied_once(monkeypatch):
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((800, 60), density=0.2, rng=rng, format="csr")
    b = np.sign(X[:, [0, 1, 2]].sum(axis=1) + rng.logistic(size=800))
    problem = Problem(LinearModel(X, b, "logistic"), MCP.from_threshold(0.5), 3.5)
    x = solve(problem, start="direct").x
    null = null_fit(problem)
    calls = []
    for name in ("_columns", "matvec", "_piece"):
        method = getattr(SparseDesign, name)
        count = lambda self, *a, name=name, method=method: calls.append((name, self.shape[1])) or method(self, *a)  # noqa: E731
        monkeypatch.setattr(SparseDesign, name, count)
    assert certify(problem, x, null).possible_gain < 1e-6
    of_all = [name for name, d in calls if d == 60]
    assert of_all == ["_columns"]  # besides ψ and its gradient, in a kernel
