"""solve() and minimize(): results and limits."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from levelprox import (
    LinearModel,
    Problem,
    Status,
    certify,
    constraints,
    minimize,
    report,
    solve,
)
from levelprox.exceptions import ConvergenceWarning
from levelprox.methods.lcpp import Geometric
from levelprox.methods.subsolvers import Spectral
from tests.support.paper_cases import SIX, problem_for, proximal_weight

MCP = constraints.MCP.from_threshold(0.5)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 30))
    b = X[:, :3] @ [2.0, -1.5, 1.0] + 0.3 * rng.standard_normal(80)
    return Problem(LinearModel(X, b), MCP, 3.5)


def quadratic(x):
    c = np.array([3.0, -2.0, 0.1, 0.0])
    return 0.5 * float((x - c) @ (x - c)), x - c


# --- what comes back ---------------------------------------------------------------------------------


def test_a_solved_run_says_so_in_figures(problem):
    result = solve(problem, tol=1e-7)
    assert result.status is Status.SOLVED
    assert result.success
    assert result.code == 0
    assert result.kkt <= 1e-7
    assert result.message.startswith("Solved after")
    assert "KKT" in result.message
    assert "solved" in repr(result)
    assert set(np.flatnonzero(np.abs(result.x) > 0.5)) == {0, 1, 2}
    assert result.history[-1].kkt == pytest.approx(result.kkt, rel=1e-6, abs=1e-12)
    assert result.n_inner >= result.n_outer > 0
    looks = sum(stage.n_grad for stage in result.stages)
    assert result.n_grad - 1 - looks in (result.n_outer, result.n_outer - 1)  # one after each working set
    assert result.n_proj >= result.n_inner
    assert (result.eta, result.slack) == (3.5, 3.5 - result.g)
    assert (result.kkt_stat, result.kkt_comp, result.kkt_feas) == (
        result.certificate.stationarity,
        result.certificate.complementarity,
        0.0,
    )
    assert sum(result.phase_s.values()) <= result.wall_s
    assert set(result.phase_s) == {"start", "steps", "certificate"}
    assert result.environment["backend"] == "cpu"
    assert result.warnings == ()
    values = np.array([record.psi for record in result.history])
    assert np.all(np.diff(values) <= 8 * np.finfo(float).eps * values[1:])


def test_reported_figures_agree_with_a_recomputation(problem):
    result = solve(problem)
    fresh = certify(problem, result.x)
    for name, value in result.certificate.as_dict().items():
        other = getattr(fresh, name)
        assert other == value or other == pytest.approx(value, abs=1e-10, rel=1e-9)
    X, b = (
        np.asarray(problem.objective.design.columns(np.arange(30)).matvec(result.x)),
        problem.objective.target,
    )
    assert result.psi == pytest.approx(float(np.mean((b - X) ** 2)), rel=1e-9)
    assert result.history[-1].kkt == pytest.approx(fresh.kkt, abs=1e-10)


def test_results_are_reproducible_and_pickle(problem):
    first, second = solve(problem), solve(problem)
    np.testing.assert_array_equal(first.x, second.x)
    copy = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(copy.x, first.x)
    assert copy.certificate == first.certificate
    assert copy.status is Status.SOLVED
    again = solve(pickle.loads(pickle.dumps(problem)))
    np.testing.assert_array_equal(again.x, first.x)


def test_the_input_is_not_modified():
    rng = np.random.default_rng(1)
    X, b, s, x0 = rng.standard_normal((20, 6)), rng.standard_normal(20), rng.random(20), np.zeros(6)
    before = [a.tobytes() for a in (X, b, s, x0)]
    solve(Problem(LinearModel(X, b, sample_weight=s), MCP, 1.5), x0=x0)
    assert [a.tobytes() for a in (X, b, s, x0)] == before


def test_the_statuses_are_a_closed_list():
    codes = {
        0: "solved",
        1: "solved_inaccurate",
        2: "max_iter",
        3: "time_limit",
        4: "interrupted",
        5: "callback_stop",
    }
    codes |= {
        6: "stalled",
        10: "infeasible",
        11: "diverging",
        12: "numerical_error",
        13: "resource_error",
        99: "not_started",
    }
    assert {int(status): str(status) for status in Status} == codes
    assert {status for status in Status if status.success} == {Status.SOLVED, Status.CALLBACK_STOP}


# --- limits ------------------------------------------------------------------------------------------


def test_no_iterations_give_the_start_back(problem):
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        result = solve(problem, max_iter=0)
    assert result.status is Status.MAX_ITER
    np.testing.assert_array_equal(result.x, 0)


def test_max_iter_warns_with_residual_tolerance_and_remedy(problem):
    with pytest.warns(ConvergenceWarning, match=r"KKT .* > tol 1.0e-12, possible gain .*; .*Raise max_iter or tol"):
        result = solve(problem, max_iter=3, tol=1e-12, subsolver="spectral")
    assert result.status is Status.MAX_ITER
    assert result.warnings == (result.message,)
    assert result.n_outer == 3
    assert problem.g(result.x) <= problem.level


def test_nearly_solved_has_its_own_name(problem):
    needed = solve(problem, tol=1e-8).n_outer
    reached = [record.kkt for record in solve(problem, tol=1e-8).history]
    with pytest.warns(ConvergenceWarning, match="Nearly solved"):
        result = solve(problem, tol=reached[-2] / 10, max_iter=needed - 1)
    assert result.status is Status.SOLVED_INACCURATE


@pytest.mark.filterwarnings("ignore::levelprox.exceptions.ConvergenceWarning")
def test_tol_zero_runs_to_max_iter(problem):
    for subsolver, steps in (("auto", 20), ("spectral", 60)):
        result = solve(problem, tol=0, max_iter=steps, subsolver=subsolver)
        assert result.status in (Status.MAX_ITER, Status.SOLVED)
        assert result.n_outer == steps or result.kkt == 0


def test_tol_below_resolution_is_said_and_ends():
    with pytest.warns(ConvergenceWarning) as caught:
        result = minimize(quadratic, constraints.L1(), 3.3, n=4, tol=1e-17, max_iter=3000)
    assert "below the resolution" in str(caught[0].message)
    assert result.status in (Status.SOLVED, Status.SOLVED_INACCURATE)
    assert result.n_outer < 3000


def test_time_limits(problem, clock):
    with pytest.warns(ConvergenceWarning, match="time_limit 0 s"):
        result = solve(problem, time_limit=0)
    assert result.status is Status.TIME_LIMIT
    np.testing.assert_array_equal(result.x, 0)

    def slow(x):
        clock.now += 0.05
        return quadratic(x)

    # Some 30 evaluations reach a fixed point; steps there evaluate nothing, and this clock stands still for them.
    began = clock.now
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        result = minimize(slow, constraints.Exp(1.0), 1.1, n=4, tol=0, max_iter=1000, time_limit=0.15)
    assert result.status is Status.TIME_LIMIT
    assert clock.now - began < 0.15 + 0.5  # ten evaluations


def test_callbacks_see_every_step_and_may_stop(problem):
    seen = []

    def watch(record, x):
        seen.append((record.k, problem.g(x), record.eta_k))
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 1
        return len(seen) == 4

    result = solve(problem, subsolver="spectral", callback=watch, tol=1e-12)  # Newton steps need but two
    assert result.status is Status.CALLBACK_STOP
    assert result.success
    assert [k for k, *_ in seen] == [s + seen[0][0] for s in range(4)]
    assert all(g <= eta for _, g, eta in seen)


def test_the_progress_line_is_readable(problem, capsys):
    solve(problem, callback=report.ProgressLine(every=0.0), subsolver="spectral")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 2
    assert all("KKT" in line and "nonzero" in line for line in lines)


def test_the_paper_s_stopping_rule(problem):
    result = solve(problem, stopping="change", tol=1e-6)
    assert result.history[-1].change <= 1e-6
    assert all(record.change > 1e-6 for record in result.history[:-1])


@pytest.mark.filterwarnings("ignore:x changes by less than tol")  # the rule is milder than the certificate
@pytest.mark.parametrize("subsolver", ["newton", "spectral", "nesterov", "acsa"])
@pytest.mark.parametrize("levels", ["constant", "harmonic"])
def test_the_paper_s_stopping_rule_is_not_met_where_the_level_holds_x_back(problem, subsolver, levels):
    """Steps without a level that leave it bring nothing new, but they are not the end."""
    result = solve(problem, stopping="change", tol=1e-3, subsolver=subsolver, levels=levels, start="direct")
    assert result.certificate.kkt < 0.1


@pytest.mark.parametrize("seed", [2, 3, 4, 5])
def test_steps_at_the_floor_of_rounding_leave_no_negligible_coefficients(seed):
    """Far beyond any tolerance x still has the support of the solution, and its certificate stays small."""
    problem, residuals = problem_for(SIX[0], "squared", seed=seed), []
    with pytest.warns(match="KKT"):
        solve(
            problem,
            tol=0,
            max_iter=200,
            gamma=proximal_weight(problem),
            levels=Geometric(eta0=problem.level / 2, ratio=0.7),
            subsolver=Spectral(max_steps=30),
            callback=lambda record, x: residuals.append(record.kkt),
        )
    assert max(residuals[100:]) <= 1e-9
