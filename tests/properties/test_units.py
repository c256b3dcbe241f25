"""Fits and solves with columns in units of 1e-8 … 1e8, one of either for each loss; `make test-long` runs 500."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from levelprox import LinearModel, Problem, solve
from levelprox.constraints import L1, MCP
from levelprox.methods.nonsmooth_vertex import can_end_at_a_vertex, vertex_near
from levelprox.result import Status
from tests.support.local_descent import Local
from tests.support.long_runs import LONG
from tests.support.unit_cases import KINKED, targets
from tests.support.units_study import LOSSES, drawn, fitted, solved

COUNT = 36 if LONG else 1


@pytest.mark.parametrize("loss", range(len(LOSSES)), ids=lambda i: LOSSES[i])
def test_fits_are_the_same_in_any_unit(loss):
    for i in range(COUNT):
        outcome = fitted(loss + len(LOSSES) * i)
        assert not set(outcome.failures) - {"flat"}, outcome.words


@pytest.mark.parametrize("loss", range(len(LOSSES)), ids=lambda i: LOSSES[i])
def test_nothing_is_solved_that_local_methods_improve(loss):
    for i in range(COUNT):
        outcome = solved(loss + len(LOSSES) * i)
        assert not outcome.failures, outcome.words


@pytest.mark.parametrize("seed", [437])
def test_the_rounding_of_margins_is_part_of_the_gain_for_several_classes(seed):
    outcome = solved(seed)
    assert not outcome.failures, outcome.words


# --- losses with kinks


@pytest.mark.parametrize("seed", [2178, 2248, 2316, 2400])
def test_slow_steps_end_at_a_vertex(seed):
    """Near-equal columns, or few samples: smoothing alone stalled, or ended at max_iter, in one unit or in both."""
    outcome = fitted(seed)
    assert outcome.status == "solved"
    assert not set(outcome.failures) - {"flat"}, outcome.words


def near_equal(loss, seed):
    """Columns that differ by 1e-3 of their size, in other units."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((40, 1)) + 1e-3 * rng.standard_normal((40, 4))
    b = targets(loss, Z[:, 0] + 1e3 * (Z[:, 1] - Z[:, 2]) + 0.3 * rng.standard_normal(40), rng)
    units = 10.0 ** rng.uniform(-4, 4, 4)
    return Z * units, b, units


@pytest.mark.parametrize("loss", KINKED)
@pytest.mark.parametrize("constraint", ["l1", "mcp"])
def test_a_vertex_is_the_least_of_its_convex_set(loss, constraint):
    """No box about it has a lower point, by linear programs of another form."""
    for seed in range(2):
        X, b, units = near_equal(loss, seed)
        phi = L1() if constraint == "l1" else MCP.from_threshold(300.0)
        formula = ("l1", 1.0) if constraint == "l1" else ("mcp", phi.lam, phi.theta)
        omega = np.append(units, 0.0) if constraint == "l1" else np.append(np.ones(4), 0.0)
        level = 500.0 if constraint == "l1" else 2.3
        problem = Problem(LinearModel(X, b, loss, fit_intercept=True), phi, level, omega)
        A = np.column_stack([X, np.ones(40)])
        local = Local(
            A, b, loss, 0.5, np.ones(40), np.zeros(40), formula, level, omega, np.zeros(5, np.bool_), intercept=True
        )
        vertex = vertex_near(problem, np.zeros(5), True, 10.0)
        assert local.obeys(vertex.x)
        assert float(local.psi(vertex.x) - local.lowest_near(vertex.x)[0]) <= 1e-9 * abs(vertex.psi)
        fit = solve(problem)
        assert fit.status is Status.SOLVED
        if constraint == "l1":
            assert fit.psi == pytest.approx(vertex.psi, rel=1e-9)


def test_no_vertex_without_time_or_where_the_level_would_be_left():
    X, b, _ = near_equal("absolute", 0)
    problem = Problem(LinearModel(X, b, "absolute", fit_intercept=True), L1(), 1e-6)
    assert can_end_at_a_vertex(problem)
    assert vertex_near(problem, np.zeros(5), True, 0.0) is None
    assert vertex_near(problem, np.zeros(5), False, 10.0) is None
    assert vertex_near(problem, np.zeros(5), True, 10.0) is not None
    assert not can_end_at_a_vertex(Problem(LinearModel(X, b), L1(), 1.0))


def test_the_study_finds_what_is_planted():
    """A solver that stops early is found out: the local methods lower ψ beyond the gain of a false certificate."""
    one = drawn(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = 0.9 * solve(one.problem).x
    lowest, _ = one.local.lowest_near(x)
    assert float(one.local.psi(x) - lowest) > 1e-6 * abs(float(one.local.psi(x)))
