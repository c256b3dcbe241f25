"""solve() and minimize(): bad input, and functions that fail."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from levelprox import (
    Function,
    InfeasibleError,
    InvalidInputError,
    LevelproxError,
    LinearModel,
    NumericalError,
    Problem,
    Status,
    _kernels,
    certify,
    constraints,
    minimize,
    solve,
)
from levelprox.exceptions import ConvergenceWarning
from levelprox.methods.subsolvers import Spectral

MCP = constraints.MCP.from_threshold(0.5)


def quadratic(x):
    c = np.array([3.0, -2.0, 0.1, 0.0])
    return 0.5 * float((x - c) @ (x - c)), x - c


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
        ({"constraint": "mcp"}, InvalidInputError, "constraint must be a levelprox Constraint, got 'mcp'; give"),
        ({"objective": quadratic}, InvalidInputError, "objective must be a levelprox Objective"),
    ],
)
def test_bad_problems_are_refused(change, error, message):
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
        ({"max_iter": -1}, "max_iter must be an integer of at least 0, got -1"),
        ({"max_iter": 1.5}, "max_iter must be an integer of at least 0"),
        ({"max_iter": True}, "max_iter must be an integer of at least 0"),
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
def test_bad_options_are_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        solve(Problem(Function(quadratic, 4), MCP, 1.5), **options)


def test_misspelt_options_get_a_hint():
    problem = Problem(Function(quadratic, 4), MCP, 1.5)
    with pytest.raises(TypeError, match="unknown option 'max_itr'; did you mean 'max_iter'"):
        solve(problem, max_itr=3)
    with pytest.raises(TypeError, match="unknown option 'zzz'"):
        solve(problem, zzz=3)


@pytest.mark.parametrize("state", [None, 3, np.int64(4), np.random.RandomState(0), np.random.default_rng(0)])
def test_random_states_are_taken(state):
    assert solve(Problem(Function(quadratic, 4), MCP, 1.5), random_state=state).random_state is state


def test_an_infeasible_start_is_refused():
    with pytest.raises(InfeasibleError, match=r"x0 is not feasible: g\(x0\) = 4, level = 1.5"):
        solve(Problem(Function(quadratic, 4), MCP, 1.5), x0=np.full(4, 9.0))
    with pytest.raises(InfeasibleError, match="negative"):
        solve(Problem(Function(quadratic, 4), MCP, 1.5, nonnegative=True), x0=[-0.01, 0, 0, 0])


def test_gamma_must_exceed_the_weak_convexity():
    rng = np.random.default_rng(8)
    objective = LinearModel(rng.standard_normal((30, 4)), rng.standard_normal(30), "cauchy")
    assert objective.weak_convexity > 0
    with pytest.raises(InvalidInputError, match="gamma must be above the weak-convexity constant"):
        solve(Problem(objective, MCP, 1.5), gamma=objective.weak_convexity / 2)
    result = solve(Problem(objective, MCP, 1.5), subsolver="spectral")
    assert result.gamma == pytest.approx(3 * objective.weak_convexity)
    assert result.success
    assert solve(Problem(objective, MCP, 1.5)).success  # its model is convex for every γ


def test_a_subsolver_that_cannot_take_the_objective_says_so():
    objective = LinearModel(np.ones((3, 1)), [1.0, 2.0, 4.0], "absolute")
    for subsolver in ("spectral", Spectral()):
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


# --- functions that fail -----------------------------------------------------------------------------


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
def test_a_function_that_fails_keeps_the_last_good_point(calls, how):
    with pytest.raises(NumericalError) as caught:
        minimize(fails_after(calls, how), constraints.Log(3.0), 0.9, n=4, tol=1e-14)
    result = caught.value.result
    assert result.status is Status.NUMERICAL_ERROR
    assert np.isfinite(result.x).all()
    assert constraints.Log(3.0).value(result.x) <= 0.9
    if how is raises:
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert "sensor unplugged" in str(caught.value)


def test_a_function_that_is_not_finite_at_the_start():
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
def test_a_function_of_the_wrong_shape(fun, message):
    with pytest.raises(InvalidInputError, match=message):
        minimize(fun, MCP, 1.5, n=4)


def test_a_wrong_gradient_is_not_called_solved():
    with pytest.warns(ConvergenceWarning):
        result = minimize(lambda x: (quadratic(x)[0], -quadratic(x)[1]), MCP, 1.5, n=4, max_iter=50)
    assert not result.success
    assert MCP.value(result.x) <= 1.5


def test_a_function_may_overwrite_its_argument_and_reuse_its_gradient():
    c = np.array([3.0, -2.0, 1.0])
    buffer = np.empty(3)

    def overwrites(x):
        x -= c
        return 0.5 * float(x @ x), x

    def reuses(x):
        np.subtract(x, c, out=buffer)
        return 0.5 * float(buffer @ buffer), buffer

    plain = minimize(lambda x: (0.5 * float((x - c) @ (x - c)), x - c), MCP, 1.5, n=3)
    for fun in (overwrites, reuses):
        result = minimize(fun, MCP, 1.5, n=3)
        np.testing.assert_array_equal(result.x, plain.x)
        assert MCP.value(result.x) <= 1.5


@pytest.mark.parametrize("calls", range(8))
def test_an_exception_at_any_call_is_blamed_on_the_function(calls):
    with pytest.raises(NumericalError, match="sensor unplugged") as caught:
        minimize(fails_after(calls, raises), constraints.Log(3.0), 0.9, n=4, tol=1e-14)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert caught.value.result is None or np.isfinite(caught.value.result.x).all()


def test_a_function_that_fails_only_at_the_end_does_not_lose_the_run():
    total = 0

    def counted(x):
        nonlocal total
        total += 1
        return quadratic(x)

    minimize(counted, constraints.Log(3.0), 0.9, n=4)
    with pytest.warns(ConvergenceWarning, match="recomputing it failed: RuntimeError: sensor unplugged"):
        result = minimize(fails_after(total - 1, raises), constraints.Log(3.0), 0.9, n=4)
    assert result.status is Status.SOLVED


@pytest.mark.filterwarnings("ignore:(Stopped|Stalled)")
@pytest.mark.parametrize("factor", [-1.0, 2.0, 0.5])
def test_a_gradient_that_contradicts_the_value_is_noticed(factor):
    with pytest.warns(ConvergenceWarning, match="the gradient does not agree with the value"):
        minimize(lambda x: (quadratic(x)[0], factor * quadratic(x)[1]), MCP, 1.5, n=4, max_iter=20)


def test_callbacks_fail_under_their_own_name():
    problem = Problem(Function(quadratic, 4), MCP, 1.5)

    def broken(record, x):
        raise KeyError("no such column")

    with pytest.raises(KeyError, match="no such column"):
        solve(problem, callback=broken)

    def interrupts(record, x):
        raise KeyboardInterrupt

    assert solve(problem, callback=interrupts, tol=1e-14).status is Status.INTERRUPTED


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: solve(None), "problem must be a Problem, got NoneType"),
        (lambda: certify(np.eye(2), [0.0, 0.0]), "problem must be a Problem, got ndarray"),
        (lambda: solve(Problem(Function(quadratic, 4), MCP, 1.5), callback=3), "callback must be a function"),
        (lambda: solve(Problem(Function(quadratic, 4), MCP, 1.5), levels=[1]), "levels must be one of"),
        (lambda: solve(Problem(Function(quadratic, 4), MCP, 1.5), surrogate=["paper"]), "surrogate must be one of"),
        (lambda: solve(Problem(Function(quadratic, 4), MCP, 1.5), subsolver={}), "subsolver must be one of"),
        (lambda: Problem(Function(quadratic, 4), constraints.MCP, 1.5), "did you forget"),
        (lambda: Problem(Function(quadratic, 4), MCP, 1.5).g(np.zeros(3)), r"x must have shape \(4,\)"),
        (lambda: Problem(Function(quadratic, 4), MCP, 1.5, weights=[[1.0], [1.0, 2.0]]), "weights cannot be read"),
        (lambda: minimize(lambda x: ("a", np.zeros(4)), MCP, 1.5, n=4), "the value must hold real numbers"),
        (lambda: minimize(lambda x: (0.0, ["a"] * 4), MCP, 1.5, n=4), "the gradient must hold real numbers"),
        (lambda: LinearModel(np.eye(3), np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])), "masked"),
        (lambda: LinearModel(np.eye(2), [[1.0], [1.0, 2.0]]), "cannot be read as an array"),
        (lambda: LinearModel(np.array([[1.0, None]], dtype=object), [1.0]), None),
    ],
)
def test_arguments_of_the_wrong_type_are_named(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_warnings_point_at_the_caller():
    with pytest.warns(ConvergenceWarning) as caught:
        minimize(quadratic, constraints.Log(3.0), 0.9, n=4, max_iter=0)
    assert caught[0].filename == __file__
    with pytest.warns(ConvergenceWarning) as caught:
        solve(Problem(Function(quadratic, 4), constraints.Log(3.0), 0.9), max_iter=0)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("constraint", [constraints.Log(3.0), constraints.MCP.from_threshold(5.0)], ids=str)
def test_an_interrupt_at_any_evaluation_keeps_the_best_point(constraint):
    """At any point of the run, it ends with a feasible point no worse than its start."""

    def interrupts(x):
        raise KeyboardInterrupt

    statuses = set()
    for calls in range(80):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # an interrupted certificate is the run's own
            try:
                result = minimize(fails_after(calls, interrupts), constraint, 0.9, n=4, tol=1e-12)
            except KeyboardInterrupt:
                assert calls < 10  # the null fit, and the curvature there: no step is taken yet
                continue
        statuses.add(result.status)
        assert constraint.value(result.x) <= 0.9
        assert quadratic(result.x)[0] <= quadratic(np.zeros(4))[0]
    assert Status.INTERRUPTED in statuses
    assert statuses <= {Status.INTERRUPTED, Status.SOLVED}


def test_a_function_that_is_not_defined_everywhere_can_be_minimised():
    """ψ need only be defined where x may be: probes that fail are not held against it."""
    c = np.array([1.0, 2.0, 0.0])

    def on_nonnegative_x(x):
        if np.any(x < 0):
            raise ValueError("negative")
        return 0.5 * float((x - c) @ (x - c)), x - c

    result = minimize(on_nonnegative_x, constraints.L1(), 2.0, n=3, nonnegative=True)
    np.testing.assert_allclose(result.x, [0.5, 1.5, 0], atol=1e-5)


def test_time_limits_hold_while_unpenalized_coordinates_are_fitted(clock):
    scales = np.logspace(0, 4, 6)

    def stiff(x):
        clock.now += 0.1
        return float(scales @ (x - 1) ** 2), 2 * scales * (x - 1)

    began = clock.now
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        result = minimize(stiff, MCP, 1.5, n=6, weights=[1, 0, 0, 0, 0, 0], time_limit=0.3, tol=1e-14)
    assert clock.now - began < 0.3 + 1.0  # ten evaluations
    assert result.status is Status.TIME_LIMIT


def test_kernels_refuse_arrays_that_do_not_fit():
    model = LinearModel(np.ones((5, 4)), np.ones(5))
    with pytest.raises(InvalidInputError, match=r"x must have shape \(4,\)"):
        model.value_and_gradient(np.zeros(2))
    with pytest.raises(ValueError, match="dimension of the model"):
        model.compiled.value_and_gradient(np.zeros(2), np.zeros(4))
    with pytest.raises(ValueError, match="targets"):
        _kernels.LinearModel(model.design.kernel, "squared", 0.0, 0.0, np.ones(3), None, None)
    with pytest.raises(ValueError, match="weights"):
        _kernels.LinearModel(model.design.kernel, "squared", 0.0, 0.0, np.ones(5), np.ones(3), None)
    with pytest.raises(ValueError, match="offsets"):
        _kernels.LinearModel(model.design.kernel, "squared", 0.0, 0.0, np.ones(5), None, np.ones(3))
    for arrays in ((np.ones(3), None, None), (None, np.ones(5), None), (None, None, np.ones(2, np.uint8))):
        with pytest.raises(ValueError, match="dimension of x"):
            _kernels.Set(4, *arrays, False, 1.0)
    x, wrong, whole = np.zeros(4), np.zeros(3), _kernels.Set(4, None, None, None, False, 1.0)
    for points in ((wrong, x, x), (x, wrong, x), (x, x, wrong)):
        with pytest.raises(ValueError, match="dimension of the set"):
            _kernels.spectral(model.compiled, whole, *points, 0.0, 1.0, 0.0, 1.0, 1, 5, 0.0, 0.0, 0.0, 1.0)
        with pytest.raises(ValueError, match="dimension of the set"):
            _kernels.nesterov(model.compiled, whole, *points, 0.0, 1.0, 1, 1.0, 1.0, 0.0, 0.0, 1.0)
    settings = _kernels.AcsaSettings(1, 1.0, 1.0, 1.0, 1.0)
    for points in ((wrong, x), (x, wrong)):
        with pytest.raises(ValueError, match="dimension of the set"):
            _kernels.acsa(model.compiled, whole, *points, settings)
    small = _kernels.Set(3, None, None, None, False, 1.0)
    with pytest.raises(ValueError, match="the model does not have the dimension of x"):
        _kernels.acsa(model.compiled, small, wrong, wrong, settings)
