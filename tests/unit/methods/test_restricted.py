"""The last digits: Newton's method on the KKT system converges quadratically, and never leaves the level."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from levelprox import LinearModel, MultinomialModel, Problem, _kernels, project, solve
from levelprox.certificate.null_model import null_fit
from levelprox.certificate.residual import LevelPart, distance
from levelprox.constraints import L1, MCP, SCAD, Constraint, Exp, Log, Lp, NegativeLp
from levelprox.methods.lcpp import majorise
from levelprox.methods.restricted import polish
from levelprox.objectives import Curved, Quadratic
from levelprox.result import Iterate, Status

RNG = np.random.default_rng(3)
X = RNG.standard_normal((200, 10))
Z = X[:, :3] @ [1.5, -1.0, 0.7]
LABELS = np.argmax(X[:, :3] @ RNG.standard_normal((3, 3)) * 2 + RNG.gumbel(size=(200, 3)), axis=1)
OBJECTIVES: dict[str, Curved] = {
    "logistic": LinearModel(X, np.sign(Z + RNG.logistic(size=200)), "logistic"),
    "intercept": LinearModel(X, np.sign(Z + 0.5 + RNG.logistic(size=200)), "logistic", fit_intercept=True),
    "cauchy": LinearModel(X, Z + RNG.standard_normal(200), "cauchy"),
    "poisson": LinearModel(X, RNG.poisson(np.exp(Z / 2)).astype(float), "poisson"),
    "groups": MultinomialModel(X, LABELS),
    "groups with intercepts": MultinomialModel(X, LABELS, fit_intercept=True),
}
CONSTRAINTS: list[Constraint] = [
    MCP(2, 5),
    MCP.from_threshold(3.0),
    SCAD(1, 3.7),
    Exp(1),
    Log(1),
    Lp(0.5, 0.1),
    NegativeLp(-1, 1),
    L1(),
]


def problem_of(objective: Curved, constraint: Constraint, **options) -> Problem:
    """At a level that three coefficients of middle size use up."""
    point = np.zeros(objective.dimension)
    point[: 3 * objective.n_outputs] = np.repeat([0.5, -0.4, 0.3], objective.n_outputs)
    level = Problem(objective, constraint, 1.0).g(point)
    return Problem(objective, constraint, level, **options)


def iterate(problem: Problem, x: np.ndarray) -> Iterate:
    psi, gradient = problem.objective.value_and_gradient(x)
    return Iterate(x, psi, gradient, margins=problem.objective.margins(x))


def beside(problem: Problem, x: np.ndarray, size: float, seed: int = 0) -> np.ndarray:
    """A feasible point near x with its support and signs, at the level."""
    moved = x * (1 + size * np.random.default_rng(seed).standard_normal(x.size))
    for _ in range(3):
        room = problem.level - problem.g(moved)
        support = np.union1d(np.flatnonzero(problem.sizes(moved)), problem.unpenalized)
        a = LevelPart(problem, moved, support).slopes
        moved[problem.coordinates(support)] += room / float(a @ a) * a
    near = majorise(problem.constraint, moved, problem.level, problem.weights)
    return project(moved, 0.0, near.tau, weights=near.weights, width=problem.n_outputs)[0]


def residuals(problem: Problem, x: np.ndarray, steps: int = 4) -> list[float]:
    """The residual before and after each step of polish, relative to the null fit's gradient."""
    null = null_fit(problem)
    at = iterate(problem, x)
    left, y = distance(problem, at.x, at.psi, at.gradient, null)
    found = [left / null.scale]
    for _ in range(steps):
        new = polish(problem, at, y)
        if new is None:
            break
        assert problem.is_feasible(new.x)
        assert new.psi <= at.psi + 8 * np.finfo(float).eps * abs(at.psi)
        assert new.psi == pytest.approx(problem.objective.value_and_gradient(new.x)[0], rel=1e-12)
        at = new
        left, y = distance(problem, at.x, at.psi, at.gradient, null)
        found.append(left / null.scale)
    return found


ACROSS = np.array([1.0, -1.0])
FLOOR = 1e-12  # of the residual: below it, rounding


def is_quadratic(found: list[float]) -> bool:
    """Whether the residual is about squared by every step, up to a constant, until rounding."""
    if min(found) > FLOOR or len(found) < 3:
        return False
    return all(after <= max(FLOOR, 100 * before**2) for before, after in pairwise(found))


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_residuals_are_squared_by_every_step(name, constraint):
    problem = problem_of(OBJECTIVES[name], constraint)
    fit = solve(problem, tol=1e-8)
    assert fit.multiplier > 0
    found = residuals(problem, beside(problem, fit.x, 1e-2))
    assert found[0] > 1e-5, "the start is no test"
    assert is_quadratic(found), found


@pytest.mark.parametrize("name", ["logistic", "groups"])
def test_weights_and_signs_are_kept(name):
    objective = OBJECTIVES[name]
    weights = np.linspace(0.5, 2, 10)
    weights[1] = 0  # unpenalized, and negative
    signs = {"nonnegative": np.arange(10) % 3 == 0} if objective.n_outputs == 1 else {}
    problem = problem_of(objective, MCP(2, 5), weights=weights, **signs)
    fit = solve(problem, tol=1e-8)
    assert is_quadratic(residuals(problem, beside(problem, fit.x, 1e-2)))


def test_the_curvature_of_the_level_is_that_of_differences():
    """y∇²g on the support against central differences of y∇g, for one coefficient a feature and for three."""
    for name in ("logistic", "groups"):
        for constraint in CONSTRAINTS:
            problem = problem_of(OBJECTIVES[name], constraint)
            x = np.zeros(problem.dimension)
            x[: 4 * problem.n_outputs] = np.random.default_rng(1).uniform(0.1, 0.4, 4 * problem.n_outputs)
            support, y, h = np.arange(4), 0.7, 1e-6
            bend = LevelPart(problem, x, support).bent(np.zeros((4 * problem.n_outputs,) * 2), y)
            for j in range(4 * problem.n_outputs):
                ahead, behind = x.copy(), x.copy()
                ahead[j] += h
                behind[j] -= h
                change = LevelPart(problem, ahead, support).slopes - LevelPart(problem, behind, support).slopes
                assert np.allclose(bend[:, j], y * change / (2 * h), atol=1e-6 * np.max(np.abs(bend)) + 1e-8)


def test_without_the_correction_steps_would_be_refused():
    """Maratos' effect: the plain step is short of the level, and ψ alone calls it bad."""

    def plain(problem: Problem, at: Iterate, y: float) -> np.ndarray:
        support = np.flatnonzero(at.x)
        part = LevelPart(problem, at.x, support)
        step = kkt_step(
            part.bent(problem.objective.hessian, y), part.slopes, at.gradient + y * part.slopes, problem, at.x
        )
        near = majorise(problem.constraint, at.x + step, problem.level, problem.weights)
        return project(at.x + step, 0.0, near.tau, weights=near.weights)[0]

    for bend in (2.1, 2.5, 3.0, 3.5):
        problem, x = near_a_minimum(bend)
        for side in (-0.03, -0.01, 0.01, 0.03):
            at = iterate(problem, beside(problem, x + side * ACROSS, 0.0))
            _, y = distance(problem, at.x, at.psi, at.gradient, null_fit(problem))
            assert polish(problem, at, y) is not None
            assert problem.objective.value_and_gradient(plain(problem, at, y))[0] > at.psi * (1 + 1e-15)


def kkt_step(matrix, a, gradient, problem, x) -> np.ndarray:
    """Return dx of the KKT system by a dense solve."""
    m = a.size
    system = np.block([[matrix, a[:, None]], [a[None, :], np.zeros((1, 1))]])
    return np.linalg.solve(system, np.append(-gradient, problem.level - problem.g(x)))[:m]


def near_a_minimum(bend: float) -> tuple[Problem, np.ndarray]:
    """A strict minimum where ψ bends by `bend` and the level by −2: the Lagrangian hardly bends along the level."""
    constraint, x = MCP(2, 0.5), np.array([0.4, 0.4])
    gradient = -np.asarray(constraint.slope(x))  # y = 1
    problem = Problem(Quadratic(x, 0.0, gradient, bend * np.eye(2)), constraint, constraint.value(x))
    return problem, x


def test_an_indefinite_matrix_is_refused():
    """At a maximum along the level ψ falls to both sides, and Newton's step would lead to the maximum."""
    for bend, is_polished in ((1.9, False), (1.0, False), (0.0, False), (2.1, True), (10.0, True)):
        problem, x = near_a_minimum(bend)
        at = iterate(problem, beside(problem, x + 0.01 * ACROSS, 0.0))
        _, y = distance(problem, at.x, at.psi, at.gradient, null_fit(problem))
        assert y > 0
        assert (polish(problem, at, y) is not None) == is_polished, bend


@pytest.mark.parametrize("name", ["logistic", "groups"])
def test_where_all_is_saturated_there_is_nothing_to_do(name):
    objective = OBJECTIVES[name]
    constraint = MCP.from_threshold(0.1)
    x = np.zeros(objective.dimension)
    x[: 2 * objective.n_outputs] = 0.8
    problem = Problem(objective, constraint, 2.5)
    assert polish(problem, iterate(problem, x), 0.3) is None
    x[: 2 * objective.n_outputs] = 0.0
    assert polish(problem, iterate(problem, x), 0.3) is None  # nor at the origin, where there is no support


@pytest.mark.parametrize("name", ["logistic", "groups"])
def test_a_step_that_would_change_a_sign_is_refused(name):
    problem = problem_of(OBJECTIVES[name], L1())
    fit = solve(problem, tol=1e-8)
    x = fit.x.copy()
    x[-problem.n_outputs :] = 1e-3  # of a feature that the solution does not have
    x = beside(problem, x, 0.0)
    at = iterate(problem, x)
    _, y = distance(problem, x, at.psi, at.gradient, null_fit(problem))
    assert polish(problem, at, y) is None


def test_a_step_that_raises_psi_is_refused():
    problem = problem_of(OBJECTIVES["logistic"], MCP(2, 5))
    fit = solve(problem, tol=1e-12)
    at = iterate(problem, fit.x)
    for y in (0.5 * fit.multiplier, 3 * fit.multiplier):
        new = polish(problem, at, y)
        assert new is None or new.psi <= at.psi * (1 + 1e-15)
    lied = replace(at, psi=at.psi / 2)  # for any value of ψ, it must not rise
    assert polish(problem, lied, fit.multiplier) is None


def test_exactly_feasible_from_random_starts():
    """Far from solutions, too: None, or a point within the level that is no worse."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        name = list(OBJECTIVES)[seed % len(OBJECTIVES)]
        problem = problem_of(OBJECTIVES[name], CONSTRAINTS[seed % len(CONSTRAINTS)])
        x = rng.standard_normal(problem.dimension) * (rng.random(problem.dimension) < 0.5)
        near = majorise(problem.constraint, np.zeros_like(x), problem.level, problem.weights)
        x = project(x, 0.0, near.tau, weights=near.weights, width=problem.n_outputs)[0]
        at = iterate(problem, x)
        new = polish(problem, at, float(rng.uniform(0, 0.5)))
        assert new is None or (problem.is_feasible(new.x) and new.psi <= at.psi * (1 + 1e-15))


def test_the_check_of_quadratic_convergence_can_fail():
    assert is_quadratic([1e-2, 1e-4, 1e-8, 1e-16])
    assert not is_quadratic([1e-2, 1e-3, 1e-4, 1e-5])
    assert not is_quadratic([1e-2, 1e-4, 1e-6, 1e-8])
    assert not is_quadratic([1e-3])


def test_the_kkt_system_is_solved_just_where_its_inertia_is_right():
    """Against eigenvalues and a dense solve, on random matrices with features that bend very differently.

    φ is L1, whose level has no curvature: the step is that of the system alone, up to its retraction.
    """
    rng = np.random.default_rng(2)
    applied = 0
    for m in (*range(1, 7), *range(1, 7)) * 10:
        half = rng.standard_normal((m + 1, m))
        matrix = half.T @ half - np.diag(rng.random(m) * 10.0 ** rng.uniform(-2, 2, m))
        weights, x = 10.0 ** rng.uniform(-2, 1, m), np.full(m, 1.0)
        level, gradient, y = float(weights.sum()), 1e-9 * rng.standard_normal(m), 1e-9
        system = np.block([[matrix, weights[:, None]], [weights[None, :], np.zeros((1, 1))]])
        constraint = _kernels.LevelConstraint(L1().compiled, m, 1, weights, None, False, level)
        new = constraint.newton(np.arange(m), matrix, x, gradient, y)
        is_minimum = np.sum(np.linalg.eigvalsh(system) > 0) == m
        if m > 1:  # the level alone determines one coordinate, which stays
            assert (new is not None) == is_minimum
        if new is not None:
            expected = np.linalg.solve(system, np.append(-gradient - y * weights, 0.0))[:-1]
            assert np.allclose(new - x, expected, rtol=1e-4, atol=1e-13 + 1e-4 * np.max(np.abs(expected)))
            applied += 1
    assert 30 < applied < 110


@pytest.fixture
def formed(monkeypatch) -> list[int]:
    """The numbers of coordinates of all Hessians that are formed over working sets."""
    found: list[int] = []
    evaluated, hessian_of = LinearModel.evaluated, LinearModel.hessian_of

    def spied_evaluated(self, z, dx, with_hessian):
        found.extend([self.dimension] * with_hessian)
        return evaluated(self, z, dx, with_hessian)

    def spied_hessian_of(self, z, convex):
        found.append(self.dimension)
        return hessian_of(self, z, convex)

    monkeypatch.setattr(LinearModel, "evaluated", spied_evaluated)
    monkeypatch.setattr(LinearModel, "hessian_of", spied_hessian_of)
    return found


@pytest.mark.filterwarnings("ignore:the data are separable")
def test_hessians_of_points_that_are_left_are_not_formed(formed):
    """On separable data many second-order steps fail. With the Hessian of every point tried there were 78."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((150, 200))
    b = np.sign(X @ rng.standard_normal(200) + 2 * rng.standard_normal(150))
    result = solve(Problem(LinearModel(X, b, "logistic"), MCP.from_threshold(2.0), 30.5), start="continuation")
    assert result.status == Status.SOLVED
    assert len(formed) <= 71


def test_the_hessian_of_the_squared_loss_is_formed_once_for_a_working_set(formed):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 400))
    b = X @ rng.standard_normal(400) + rng.standard_normal(300)
    result = solve(Problem(LinearModel(X, b, "squared"), L1(1.0), 40.0), start="direct")
    assert result.status == Status.SOLVED
    assert 1 < len(formed) == len(set(formed))
