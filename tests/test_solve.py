"""solve() and minimize(): limits, statuses, bad input, faults in the user's function, Ctrl-C."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import levelprox
from levelprox import (
    Function,
    InfeasibleError,
    InvalidInputError,
    LevelproxError,
    LinearModel,
    NumericalError,
    Problem,
    Status,
    certify,
    constraints,
    minimize,
    report,
    solve,
)
from levelprox.subsolvers import Spectral
from tests.registries import CONSTRAINTS

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
    assert result.n_proj >= result.n_grad - 1 >= result.n_inner - 1
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


def test_f3_reported_figures_agree_with_a_recomputation(problem):
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


def test_c68_no_iterations_give_the_start_back(problem):
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        result = solve(problem, max_iter=0)
    assert result.status is Status.MAX_ITER
    np.testing.assert_array_equal(result.x, 0)


def test_max_iter_warns_with_residual_tolerance_and_remedy(problem):
    with pytest.warns(ConvergenceWarning, match=r"KKT .* > tol 1.0e-12; .*Raise max_iter or tol"):
        result = solve(problem, max_iter=3, tol=1e-12)
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


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_c66_tol_zero_runs_to_max_iter(problem):
    result = solve(problem, tol=0, max_iter=60)
    assert result.status in (Status.MAX_ITER, Status.SOLVED)
    assert result.n_outer == 60 or result.kkt == 0


def test_c67_tol_below_resolution_is_said_and_ends():
    with pytest.warns(ConvergenceWarning) as caught:
        result = minimize(quadratic, constraints.L1(), 3.3, n=4, tol=1e-17, max_iter=3000)
    assert "below the resolution" in str(caught[0].message)
    assert result.status in (Status.SOLVED, Status.SOLVED_INACCURATE)
    assert result.n_outer < 3000


def test_c70_time_limits(problem):
    with pytest.warns(ConvergenceWarning, match="time_limit 0 s"):
        result = solve(problem, time_limit=0)
    assert result.status is Status.TIME_LIMIT
    np.testing.assert_array_equal(result.x, 0)

    def slow(x):
        time.sleep(0.01)
        return quadratic(x)

    began = time.monotonic()
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        result = minimize(slow, constraints.Exp(1.0), 1.1, n=4, tol=0, max_iter=10**6, time_limit=0.3)
    assert result.status is Status.TIME_LIMIT
    assert time.monotonic() - began < 0.3 + 0.5


def test_callbacks_see_every_step_and_may_stop(problem):
    seen = []

    def watch(record, x):
        seen.append((record.k, problem.g(x), record.eta_k))
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 1
        return len(seen) == 4

    result = solve(problem, callback=watch, tol=1e-12)
    assert result.status is Status.CALLBACK_STOP
    assert result.success
    assert [k for k, *_ in seen] == [s + seen[0][0] for s in range(4)]
    assert all(g <= eta for _, g, eta in seen)


def test_the_progress_line_is_readable(problem, capsys):
    solve(problem, callback=report.ProgressLine(every=0.0))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 2
    assert all("KKT" in line and "nonzero" in line for line in lines)


def test_the_paper_s_stopping_rule(problem):
    result = solve(problem, stopping="change", tol=1e-6)
    assert result.history[-1].change <= 1e-6
    assert all(record.change > 1e-6 for record in result.history[:-1])


# --- levels and constraints at their edges -------------------------------------------------------------


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_c58_level_zero_gives_the_null_fit(constraint):
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


def test_exempt_features_are_free_and_nonnegativity_holds():
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


def test_a_vacuous_level_on_separable_data_is_said():
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


def test_c26_wide_data_and_c9_one_feature():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((10, 20_000))
    b = X[:, 5] * 3
    result = solve(Problem(LinearModel(X, b), MCP, 1.5), max_iter=3000)
    assert result.success
    one = solve(Problem(LinearModel(X[:, 5:6], b), MCP, 1.5))
    assert one.x[0] == pytest.approx(3, rel=1e-5)
    single = solve(Problem(LinearModel(X[:1, :3], b[:1]), MCP, 1.5))
    assert single.success


def test_c20_c23_zero_and_duplicated_columns():
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
def test_c28_c29_scales_give_finite_feasible_answers(scale):
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


def test_c37_rows_weighted_twice_are_rows_repeated():
    rng = np.random.default_rng(7)
    X, b = rng.standard_normal((30, 6)), rng.standard_normal(30)
    s = rng.integers(0, 4, 30)
    weighted = solve(Problem(LinearModel(X, b, sample_weight=s), MCP, 1.5), tol=1e-10)
    repeated = solve(Problem(LinearModel(np.repeat(X, s, axis=0), np.repeat(b, s)), MCP, 1.5), tol=1e-10)
    np.testing.assert_allclose(weighted.x, repeated.x, atol=1e-7)


@pytest.mark.parametrize("order", ["C", "F"])
def test_c84_two_threads_may_share_one_model(order):
    rng = np.random.default_rng(9)
    X = np.array(rng.standard_normal((4000, 40)), order=order)
    problem = Problem(LinearModel(X, np.sign(X[:, 0] + rng.standard_normal(4000)), "logistic"), MCP, 3.5)
    alone = solve(problem)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda _: solve(problem), range(8)))
    for result in together:
        np.testing.assert_array_equal(result.x, alone.x)


# --- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"level": -1.0}, InfeasibleError, r"no feasible point: g\(x\) >= 0 for all x, got level=-1"),
        ({"level": np.inf}, InvalidInputError, "unconstrained"),
        ({"level": np.nan}, InvalidInputError, "NaN"),
        ({"level": "3"}, InvalidInputError, "level must be a real number"),
        ({"level": True}, InvalidInputError, "level must be a real number"),
        ({"weights": [1.0, 2.0]}, InvalidInputError, "weights must have shape"),
        ({"weights": [-1.0] * 4}, InvalidInputError, "weights must be 0"),
        ({"nonnegative": [True]}, InvalidInputError, "nonnegative"),
        ({"constraint": "mcp"}, InvalidInputError, "constraint must be a levelprox Constraint, got str"),
        ({"objective": quadratic}, InvalidInputError, "objective must be a levelprox Objective"),
    ],
)
def test_c57_c60_bad_problems(change, error, message):
    arguments = {"objective": Function(quadratic, 4), "constraint": MCP, "level": 1.0} | change
    with pytest.raises(error, match=message) as caught:
        Problem(**arguments)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, LevelproxError)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": -1e-6}, "tol must be nonnegative"),
        ({"tol": np.nan}, "tol must be a number, got NaN"),
        ({"tol": "small"}, "tol must be a real number"),
        ({"max_iter": -1}, "max_iter must be a nonnegative integer, got -1"),
        ({"max_iter": 1.5}, "max_iter must be a nonnegative integer"),
        ({"max_iter": True}, "max_iter must be a nonnegative integer"),
        ({"time_limit": -1.0}, "time_limit must be nonnegative"),
        ({"time_limit": np.nan}, "time_limit"),
        ({"gamma": 0.0}, r"gamma must be in \(0, inf\)"),
        ({"gamma": np.nan}, "gamma"),
        ({"gamma": -1}, "gamma"),
        ({"subsolver": "spectrall"}, "did you mean 'spectral'"),
        ({"levels": "linear"}, "levels must be one of"),
        ({"surrogate": "tight"}, "surrogate must be one of concave, paper"),
        ({"stopping": "gap"}, "stopping must be one of kkt, change"),
        ({"random_state": "seed"}, "random_state must be"),
        ({"random_state": True}, "random_state must be"),
        ({"x0": np.zeros(5)}, r"x0 must have shape \(4,\), got \(5,\)"),
        ({"x0": [np.nan, 0, 0, 0]}, "x0 contains NaN at index 0"),
        ({"x0": ["a", "b", "c", "d"]}, "x0 must hold real numbers"),
    ],
)
def test_c63_c73_bad_options(options, message):
    with pytest.raises(InvalidInputError, match=message):
        solve(Problem(Function(quadratic, 4), MCP, 1.5), **options)


def test_c73_misspelt_options_get_a_hint():
    problem = Problem(Function(quadratic, 4), MCP, 1.5)
    with pytest.raises(TypeError, match="unknown option 'max_itr'; did you mean 'max_iter'"):
        solve(problem, max_itr=3)
    with pytest.raises(TypeError, match="unknown option 'zzz'"):
        solve(problem, zzz=3)


@pytest.mark.parametrize("state", [None, 3, np.int64(4), np.random.RandomState(0), np.random.default_rng(0)])
def test_c71_random_states_are_taken(state):
    assert solve(Problem(Function(quadratic, 4), MCP, 1.5), random_state=state).random_state is state


def test_c64_an_infeasible_start_is_refused():
    with pytest.raises(InfeasibleError, match=r"x0 is not feasible: g\(x0\) = 4, level = 1.5"):
        solve(Problem(Function(quadratic, 4), MCP, 1.5), x0=np.full(4, 9.0))
    with pytest.raises(InfeasibleError, match="negative"):
        solve(Problem(Function(quadratic, 4), MCP, 1.5, nonnegative=True), x0=[-0.01, 0, 0, 0])


def test_c63_gamma_must_exceed_the_weak_convexity():
    rng = np.random.default_rng(8)
    objective = LinearModel(rng.standard_normal((30, 4)), rng.standard_normal(30), "cauchy")
    assert objective.weak_convexity > 0
    with pytest.raises(InvalidInputError, match="gamma must be above the weak-convexity constant"):
        solve(Problem(objective, MCP, 1.5), gamma=objective.weak_convexity / 2)
    result = solve(Problem(objective, MCP, 1.5))
    assert result.gamma == pytest.approx(3 * objective.weak_convexity)
    assert result.success


def test_a_subsolver_that_cannot_take_the_objective_says_so():
    objective = LinearModel(np.ones((3, 1)), [1.0, 2.0, 4.0], "absolute")
    for subsolver in ("spectral", Spectral(), "auto"):
        with pytest.raises(InvalidInputError, match="needs a differentiable objective"):
            solve(Problem(objective, MCP, 1.5), subsolver=subsolver)


@pytest.mark.parametrize(
    "options", [{"max_steps": 0}, {"memory": 0}, {"accuracy": 1.5}, {"decrease": -1}, {"max_steps": True}]
)
def test_bad_subsolver_settings(options):
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        Spectral(**options)


def test_minimize_takes_x0_or_n():
    assert minimize(quadratic, constraints.L1(), 4.0, x0=np.zeros(4)).x == pytest.approx([2.5, -1.5, 0, 0], abs=1e-5)
    for arguments in ({}, {"x0": np.zeros(4), "n": 4}):
        with pytest.raises(InvalidInputError, match="either x0 or n"):
            minimize(quadratic, MCP, 1.5, **arguments)
    for n in (0, -1, 2.5, True):
        with pytest.raises(InvalidInputError, match="number of coordinates"):
            minimize(quadratic, MCP, 1.5, n=n)
    with pytest.raises(InvalidInputError, match="weak_convexity"):
        minimize(quadratic, MCP, 1.5, n=4, weak_convexity=-1)
    with pytest.raises(InvalidInputError, match="fun must be a function"):
        minimize(3, MCP, 1.5, n=4)
    with pytest.raises(TypeError, match="did you mean 'time_limit'"):
        minimize(quadratic, MCP, 1.5, n=4, timelimit=3)


# --- C74: functions that fail ------------------------------------------------------------------------


def fails_after(calls, how):
    count = 0

    def fun(x):
        nonlocal count
        count += 1
        return quadratic(x) if count <= calls else how(x)

    return fun


def raises(x):
    raise RuntimeError("sensor unplugged")


@pytest.mark.parametrize("calls", [6, 9])
@pytest.mark.parametrize(
    "how",
    [
        lambda x: (np.nan, np.zeros(4)),
        lambda x: (np.inf, np.zeros(4)),
        lambda x: (0.0, np.full(4, np.nan)),
        raises,
    ],
)
def test_c74_a_function_that_fails_keeps_the_last_good_point(calls, how):
    with pytest.raises(NumericalError) as caught:
        minimize(fails_after(calls, how), constraints.Log(3.0), 0.9, n=4, tol=1e-14)
    result = caught.value.result
    assert result.status is Status.NUMERICAL_ERROR
    assert np.isfinite(result.x).all()
    assert constraints.Log(3.0).value(result.x) <= 0.9
    if how is raises:
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert "sensor unplugged" in str(caught.value)


def test_c74_a_function_that_is_not_finite_at_the_start():
    with pytest.raises(NumericalError, match="not finite at the start"):
        minimize(lambda x: (np.nan, np.zeros(4)), MCP, 1.5, n=4)


@pytest.mark.parametrize(
    ("fun", "message"),
    [
        (lambda x: (0.0, np.zeros(3)), r"gradient must have shape \(4,\), got \(3,\)"),
        (lambda x: 0.0, r"fun must return \(value, gradient\)"),
        (lambda x: (np.zeros(2), np.zeros(4)), "value must be a real number"),
    ],
)
def test_c74_a_function_of_the_wrong_shape(fun, message):
    with pytest.raises(InvalidInputError, match=message):
        minimize(fun, MCP, 1.5, n=4)


def test_c74_a_wrong_gradient_ends_with_an_honest_status():
    with pytest.warns(ConvergenceWarning):
        result = minimize(lambda x: (quadratic(x)[0], -quadratic(x)[1]), MCP, 1.5, n=4, max_iter=50)
    assert not result.success
    assert MCP.value(result.x) <= 1.5


# --- C78: Ctrl-C -------------------------------------------------------------------------------------

INTERRUPTED = """
import sys, time, warnings
import numpy as np
import levelprox
from levelprox import LinearModel, Problem, constraints, minimize, solve
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
{setup}
print("ready", flush=True)
result = {run}
print(result.status, problem.g(result.x) <= problem.level, bool(np.isfinite(result.x).all()), flush=True)
"""

LINEAR = """
X = rng.standard_normal((20000, 1000))
b = X[:, 0] + rng.standard_normal(20000)
problem = Problem(LinearModel(X, b), constraints.Log(2.0), 3.0)
"""

PYTHON = """
c = rng.standard_normal(50)
def fun(x):
    time.sleep({pause})
    return float((x - c) @ (x - c)), 2 * (x - c)
problem = Problem(levelprox.Function(fun, 50), constraints.Log(2.0), 3.0)
"""


@pytest.mark.parametrize(
    "setup",
    [LINEAR, PYTHON.format(pause=0.0), PYTHON.format(pause=0.2)],
    ids=["compiled", "python", "sleeping"],
)
def test_c78_ctrl_c_returns_a_feasible_point_within_a_second(setup):
    run = "solve(problem, tol=0, max_iter=10**9)"
    script = INTERRUPTED.format(setup=textwrap.dedent(setup), run=run)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(0.7)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        answer = process.stdout.readline().split()
        waited = time.monotonic() - began
        process.wait(timeout=10)
    assert answer == ["interrupted", "True", "True"]
    assert waited < 1.0


# --- the package ---------------------------------------------------------------------------------------


def test_importing_costs_little_beyond_scikit_learn():
    script = "import time, sklearn; t = time.perf_counter(); import levelprox; print(time.perf_counter() - t)"
    seconds = [float(subprocess.check_output([sys.executable, "-c", script])) for _ in range(5)]
    assert sorted(seconds)[1] < 0.2


def test_the_public_names_are_there():
    for name in levelprox.__all__:
        assert hasattr(levelprox, name)


def test_no_warm_up(problem):
    """The first fit of a process costs what the second does: nothing is compiled at run time."""
    script = textwrap.dedent("""
        import time
        import numpy as np
        from levelprox import LinearModel, Problem, constraints, solve
        rng = np.random.default_rng(0)
        X = rng.standard_normal((300, 50)); b = X[:, 0] - X[:, 1] + 0.1 * rng.standard_normal(300)
        def fit():
            t = time.perf_counter()
            solve(Problem(LinearModel(X, b), constraints.MCP.from_threshold(0.5), 2.5))
            return time.perf_counter() - t
        print(fit(), min(fit() for _ in range(5)))
    """)
    first, later = map(float, subprocess.check_output([sys.executable, "-c", script]).split())
    assert first < later + 0.3
