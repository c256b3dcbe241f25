"""LCPP on a second-order model, compiled: its ends are KKT points, with formulas and with calls of Python."""

from __future__ import annotations

import numpy as np
import pytest

from levelprox import LinearModel, Problem, _kernels, solve
from levelprox._runtime import TimeLimitError
from levelprox.certificate.null_model import null_fit
from levelprox.certificate.residual import distance
from levelprox.constraints import L1, MCP, SCAD, Exp, Log, Lp, NegativeLp, Rescaled
from levelprox.objectives import Quadratic

CONSTRAINTS = [
    L1(1.5),
    MCP(2.0, 0.5),
    SCAD(2.0, 3.7, 1.5),
    Exp(3.0),
    Log(9.0),
    Lp(0.5, 0.25),
    NegativeLp(-1.0, 2.0),
    Rescaled(MCP(2.0, 0.5), 4.0),
    Rescaled(Log(9.0), 2.0),
]


def problem_of(constraint, seed: int, d: int = 8, **options) -> Problem:
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((2 * d, d)) * 10.0 ** rng.uniform(-1, 1, d)
    hessian = half.T @ half / (2 * d)
    psi = Quadratic(np.zeros(d), 1.0, rng.standard_normal(d) * np.sqrt(np.diagonal(hessian)), hessian)
    level = 0.6 * float(constraint.value(np.linalg.solve(hessian, -psi.gradient)))
    return Problem(psi, constraint, level, **options)


def solved(problem: Problem, tol: float = 1e-9, surrogate=None) -> _kernels.LevelModelOutcome:
    psi, null = problem.objective, null_fit(problem)
    residual, y = distance(problem, psi.center, psi.value, psi.gradient, null)
    start = (psi.hessian, psi.center, psi.value, psi.gradient, 0.0, residual, y, (tol * null.scale, 0.0, 0.0))
    return _kernels.level_model(problem.compiled(), *start, null.scale, null.curvature, 0.0, 1e-2, 1, surrogate)


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_the_end_is_a_feasible_kkt_point_of_the_model(constraint, seed):
    weights = [None, np.linspace(0.5, 2, 8), np.array([0.0, *np.ones(7)]), None][seed]
    problem = problem_of(constraint, seed, weights=weights, nonnegative=np.arange(8) % 2 == 0 if seed == 3 else None)
    end = solved(problem)
    for _ in range(10):  # steps that hardly lower the residual end early: continue at the same model
        model = Quadratic(end.x, end.psi, end.gradient, problem.objective.hessian)
        end = solved(problem.with_objective(model))
    assert problem.is_feasible(end.x)
    psi, gradient = problem.objective.value_and_gradient(end.x)
    assert end.psi == pytest.approx(psi, rel=1e-12) and end.psi <= problem.objective.value
    np.testing.assert_allclose(end.gradient, gradient, rtol=1e-9, atol=1e-12)
    residual, y = distance(problem, end.x, psi, gradient, null_fit(problem))
    assert (end.residual, end.y) == (pytest.approx(residual, rel=1e-6, abs=1e-12), pytest.approx(y, rel=1e-6))
    assert end.residual <= 1e-5 * null_fit(problem).scale


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
def test_a_constraint_in_python_gives_the_same_bits(constraint):
    class InPython(type(constraint)):
        """The same functions, called by the kernel."""

        def _phi(self, t):
            return constraint._phi(t)

        def _slope(self, t):
            return constraint._slope(t)

        def _curvature(self, t):
            return constraint._curvature(t)

    other = object.__new__(InPython)
    other.__dict__.update(constraint.__dict__)
    assert isinstance(other.compiled, _kernels.PythonPenalty)
    assert not isinstance(constraint.compiled, _kernels.PythonPenalty)
    first, second = (solved(problem_of(kind, 1)) for kind in (constraint, other))
    assert np.array_equal(first.x, second.x) and first.steps == second.steps


def test_an_error_of_a_constraint_in_python_reaches_the_caller():
    class Fails(MCP):
        def _slope(self, t):
            raise RuntimeError("no slope")

    problem = problem_of(MCP(2.0, 0.5), 0)
    with pytest.raises(RuntimeError, match="no slope"):
        solved(problem.at_level(problem.level, Fails(2.0, 0.5)))


def test_a_level_that_cannot_bind_is_not_felt():
    problem = problem_of(MCP(2.0, 0.5), 2).at_level(100.0)
    end = solved(problem)
    free = np.linalg.solve(problem.objective.hessian, -problem.objective.gradient)
    np.testing.assert_allclose(end.x, free, rtol=1e-6, atol=1e-9 * np.max(np.abs(free)))
    assert end.y == 0


def test_arrays_of_another_shape_are_refused():
    level = problem_of(MCP(2.0, 0.5), 0).compiled()
    with pytest.raises(ValueError, match="dimension"):
        level.residual(np.zeros(3), np.zeros(8), 1.0, 1.0)
    with pytest.raises(ValueError, match="order"):
        level.newton(np.arange(2), np.eye(3), np.zeros(8), np.zeros(8), 1.0)
    with pytest.raises(ValueError, match="place"):
        level.newton(np.array([9]), np.eye(1), np.zeros(8), np.zeros(8), 1.0)
    with pytest.raises(ValueError, match="entry for each feature"):
        _kernels.LevelConstraint(MCP(2.0, 0.5).compiled, 3, 1, np.ones(2), None, False, 1.0)


@pytest.mark.parametrize("m", [1, 5, 48, 49, 64, 131])
def test_large_kkt_systems_are_solved_as_small_ones(m):
    """The factorisation by blocks of rows, against a dense solve."""
    rng = np.random.default_rng(m)
    half = rng.standard_normal((2 * m, m))
    hessian, x = half.T @ half / m, np.ones(m)
    gradient, y = 1e-7 * rng.standard_normal(m), 1e-7
    level = _kernels.LevelConstraint(L1().compiled, m, 1, None, None, False, float(m))
    system = np.block([[hessian, np.ones((m, 1))], [np.ones((1, m)), np.zeros((1, 1))]])
    expected = np.linalg.solve(system, np.append(-gradient - y, 0.0))[:-1]
    new = level.newton(np.arange(m), hessian, x, gradient, y)
    if m > 1:
        np.testing.assert_allclose(new - x, expected, atol=1e-4 * np.max(np.abs(expected)) + 1e-12)


def test_the_kernel_ends_at_a_time_limit():
    problem, before = problem_of(MCP(2.0, 0.5), 0, d=60), _kernels.set_deadline(0.0, 60.0)
    try:
        with pytest.raises(TimeLimitError):
            solved(problem)
    finally:
        _kernels.set_deadline(*before)


def test_a_linear_model_uses_it(monkeypatch):
    calls, kernel = [], _kernels.level_model
    monkeypatch.setattr(_kernels, "level_model", lambda *args: calls.append(args) or kernel(*args))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 6))
    solve(Problem(LinearModel(X, X[:, 0]), MCP.from_threshold(0.5), 1.5), start="direct")
    assert calls
