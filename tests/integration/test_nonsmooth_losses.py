"""Losses with kinks from end to end: units, outliers, samples of weight zero, and certificates next to a kink."""

from __future__ import annotations

import functools
import signal
import warnings

import numpy as np
import pytest

from levelprox import Function, LinearModel, Problem, Stochastic, certify, constraints, solve
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Absolute, Hinge, Quantile
from levelprox.methods.subsolvers import ACSA
from levelprox.theory.approximate_kkt import nearby_kkt
from tests.support.children import Child, Ended
from tests.support.clocks import until

KINKED = [Absolute(), Quantile(0.9), Hinge()]


def data(seed=0, n=100, d=20):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X[:, :3] @ [2.0, -1.5, 1.0] + 0.3 * rng.standard_normal(n)


def targets(loss, b):
    return np.sign(b) if loss.kind == "margin" else b


@pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.name)
@pytest.mark.parametrize("garbage", [1.0, 1e20, 1e30])
def test_samples_of_weight_zero_change_nothing(loss, garbage):
    X, b = data()
    b = targets(loss, b)
    problem = Problem(LinearModel(X, b, loss), constraints.MCP(1, 3), 2.5 * 1.5)
    rubbish = np.sign(b) if loss.kind == "margin" else garbage * np.sign(b)
    weight = np.repeat([1.0, 0.0], b.size)
    padded = LinearModel(np.vstack([X, garbage * X]), np.concatenate([b, rubbish]), loss, sample_weight=weight)
    with_rubbish = Problem(padded, problem.constraint, problem.level)
    for x in (np.zeros(20), np.linspace(-0.1, 0.1, 20)):
        assert certify(with_rubbish, x).kkt == pytest.approx(certify(problem, x).kkt, rel=1e-6)
    fit, same = solve(problem), solve(with_rubbish)
    assert fit.success and same.success
    assert same.psi == pytest.approx(fit.psi, rel=1e-9)


@pytest.mark.parametrize("outlier", [1e3, 1e6, 1e9])
def test_an_outlier_hides_nothing(outlier):
    """What the absolute loss is for: one wild target neither moves the fit nor blurs the other residuals."""
    X, b = data()
    clean = solve(Problem(LinearModel(X[1:], b[1:], Absolute()), constraints.MCP(1, 3), 2.5 * 1.5))
    b[0] = 1e13  # float64 then has no digit of the other samples in ψ: a fit may fail, not report a wrong value
    hidden = Problem(LinearModel(X, b, Absolute()), constraints.MCP(1, 3), 2.5 * 1.5)
    assert certify(hidden, np.zeros(20)).kkt > 0.1
    b[0] = outlier
    problem = Problem(LinearModel(X, b, Absolute()), constraints.MCP(1, 3), 2.5 * 1.5)
    assert certify(problem, np.zeros(20)).kkt > 0.1
    fit = solve(problem)
    assert fit.kkt <= 1e-6
    assert fit.x == pytest.approx(clean.x, abs=0.3)
    residual = np.abs(b - X @ fit.x)
    at_kinks = residual[1:] <= 1e-9
    assert 1 <= np.count_nonzero(at_kinks) <= np.count_nonzero(fit.x)


@pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.name)
@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1e4, 1e8])
@pytest.mark.parametrize("what", ["X", "b"])
def test_units_do_not_matter(loss, scale, what):
    """X·c with x/c, and b·c with x·c: the same problem in other units, with the constraint's threshold moved along."""
    X, b = data(1)
    b = targets(loss, b)
    if what == "b" and loss.kind == "margin":
        pytest.skip("targets of a margin loss have no unit")
    unit = 1 / scale if what == "X" else scale
    fit = solve(Problem(LinearModel(X, b, loss), constraints.MCP.from_threshold(0.8), 2.5))
    scaled = LinearModel(scale * X, b, loss) if what == "X" else LinearModel(X, scale * b, loss)
    other = solve(Problem(scaled, constraints.MCP.from_threshold(0.8 * unit), 2.5))
    assert fit.success and other.success
    assert other.psi == pytest.approx(fit.psi * (scale if what == "b" else 1), rel=1e-6)


@pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.name)
@pytest.mark.parametrize("far", [30.0, 200.0, 3e3])
def test_a_time_stamp_beside_an_intercept_is_no_obstacle(loss, far):
    """Its mean is many deviations; the fit is that of the deviations alone."""
    fit = _beside_an_intercept(loss, far)
    assert fit.success
    assert fit.psi == pytest.approx(_beside_an_intercept(loss).psi, rel=1e-7)


@functools.cache
def _beside_an_intercept(loss, far=None):
    """The fit with the first column as it is, or as a time stamp in far units."""
    X, b = data(d=4)
    column = X[:, 0] if far is None else 1e10 * X[:, 0] + far * 1e10
    model = LinearModel(np.column_stack([column, X[:, 1:]]), targets(loss, b + 0.5), loss, fit_intercept=True)
    return solve(Problem(model, constraints.MCP.from_threshold(0.3), 2.5, [0, 1, 1, 1]), max_iter=300)


@pytest.mark.parametrize("loss", KINKED[:2], ids=lambda loss: loss.name)
def test_house_prices(loss):
    """Targets of 2e5 ± 5e4 and an unpenalized intercept, all defaults."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.standard_normal((200, 20)), np.ones(200)])
    b = 2e5 + 5e4 * (X[:, :3] @ [1.0, -0.8, 0.5] + 0.1 * rng.standard_normal(200))
    weights = np.append(np.ones(20), 0.0)
    fit = solve(Problem(LinearModel(X, b, loss), constraints.MCP.from_threshold(1e4), 3.5, weights=weights))
    assert fit.success
    assert set(np.flatnonzero(np.abs(fit.x[:20]) > 1e4)) == {0, 1, 2}


@pytest.mark.usefixtures("processor_clock")
def test_a_certificate_keeps_to_its_time():
    X, b = data(2, n=300, d=100)
    problem = Problem(LinearModel(1e-4 * X, b, Absolute()), constraints.MCP.from_threshold(1e4), 20.5)
    with pytest.warns(match="KKT"):
        fit = solve(problem, time_limit=0.02, callback=until(0.02))
    assert fit.wall_s < 1.0


# --- what may be said next to a kink


def test_a_better_statement_is_not_replaced_by_a_worse_one():
    X, b = data(4)
    problem = Problem(LinearModel(X, np.sign(b), "logistic"), constraints.MCP(1, 3), 2.5 * 1.5)
    for seed in range(5):
        with pytest.warns(match="KKT"):
            fit = solve(problem, subsolver="sgd", max_iter=3, random_state=seed)
        certificate = fit.certificate
        assert certificate.epsilon <= max(certificate.stationarity_squared, certificate.complementarity)


def test_x_bar_obeys_the_level_of_the_problem():
    X, b = data(5)
    problem = Problem(LinearModel(X, b, Absolute()), constraints.MCP(1, 3), 2.5 * 1.5)
    with pytest.raises(InvalidInputError, match="level must be at most that of the problem"):
        nearby_kkt(problem, np.zeros(20), level=10 * problem.level)
    assert problem.is_feasible(nearby_kkt(problem, np.zeros(20)).x_bar)


@pytest.mark.parametrize("gamma", [0.01, 0.1, 1.0])
def test_the_estimate_for_a_black_box_is_not_below_the_truth(gamma):
    X, b = data(6, n=30, d=10)
    model = LinearModel(X, b, Absolute())
    known = Problem(model, constraints.MCP(1, 3), 2.5 * 1.5)
    box = Function(model.value_and_gradient, 10, smoothness=0.0, nonsmoothness=model.nonsmoothness)
    unknown = Problem(box, known.constraint, known.level)
    center = 0.9 * solve(known).x
    truth = nearby_kkt(known, center, gamma=gamma)
    estimate = nearby_kkt(unknown, center, gamma=gamma)
    assert estimate.stationarity_squared >= truth.stationarity_squared
    assert estimate.delta >= 0.99 * truth.delta


def test_black_boxes_take_their_unit_from_their_values():
    """The default γ must not hang on a kink that happens to lie next to the origin."""
    X, b = data(7, n=30, d=10)
    gammas = []
    for first in (1e-3, 0.0):
        b[0] = first
        model = LinearModel(X, b, Absolute())
        box = Function(model.value_and_gradient, 10, smoothness=0.0, nonsmoothness=model.nonsmoothness)
        gammas.append(ACSA().proximal_weight(box))
    assert gammas[0] == pytest.approx(gammas[1], rel=0.1)


def test_a_linear_objective_bends_nowhere():
    slope = np.array([1.0, -2.0, 0.5])
    problem = Problem(Function(lambda x: (float(slope @ x), slope), 3, smoothness=0.0), constraints.MCP(1, 3), 0.75)
    best = solve(problem)
    for subsolver in ("nesterov", "acsa"):
        assert solve(problem, subsolver=subsolver).psi == pytest.approx(best.psi, rel=1e-6)


def test_a_declared_constant_that_is_too_small_is_suspected():
    H = np.diag([100.0, 1.0, 1.0])
    fun = lambda x: (0.5 * float((x - 1) @ H @ (x - 1)), H @ (x - 1))  # noqa: E731
    problem = Problem(Function(fun, 3, smoothness=1.0), constraints.L1(), 2.9)
    for subsolver in ("nesterov", "acsa"):
        with pytest.warns(match="the smoothness declared for it may be too small"):
            solve(problem, subsolver=subsolver)


def test_a_batch_size_above_n_is_said_once_by_the_run():
    X, b = data(8)
    problem = Problem(LinearModel(X, np.sign(b), "logistic"), constraints.MCP(1, 3), 2.5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = solve(problem, subsolver=ACSA(batch_size=1000), max_iter=3, random_state=0)
    assert sum("batch_size" in str(warning.message) for warning in caught) == 1
    assert any("batch_size=1000" in warning for warning in fit.warnings)
    assert all(warning.filename == __file__ for warning in caught)
    box = Function(problem.objective.value_and_gradient, 20, smoothness=1.0)
    with pytest.raises(InvalidInputError, match="batch_size is for linear models"):
        solve(Problem(box, problem.constraint, 2.5), subsolver=ACSA(batch_size=3))


INTERRUPTED = """
import warnings
import numpy as np
from levelprox import Problem, Stochastic, constraints, solve
from levelprox.methods import level_ending as conclusion
from levelprox.theory import approximate_kkt as nearby
warnings.simplefilter("ignore")
find = nearby.nearby_kkt
def slow(*args, **kwargs):
    print("ready", flush=True)
    while True:
        find(*args, **kwargs)
conclusion.nearby_kkt = slow
rng = np.random.default_rng(0)
X = rng.standard_normal((50, 10)); b = X[:, 0]
exact = lambda x: (float(np.mean(np.abs(X @ x - b))), X.T @ np.sign(X @ x - b) / 50)
objective = Stochastic(lambda x, rng: exact(x)[1], 10, noise=0.0, nonsmoothness=3.0, exact=exact)
fit = solve(Problem(objective, constraints.MCP(1, 3), 1.0), max_iter=2)
print(fit.status, bool(np.any(fit.x)), flush=True)
"""


@pytest.mark.process
def test_ctrl_c_while_a_neighbour_is_sought_keeps_the_result():
    with Child(INTERRUPTED) as run:
        assert run.line() == "ready"
        run.work(0.1)
        run.send_signal(signal.SIGINT)
        assert run.ended() == Ended(0, "interrupted True\n", "")


# --- what a new user met


@pytest.mark.parametrize("loss", ["hinge", "quantile"])
@pytest.mark.parametrize("shape", [(100, 300), (300, 30), (100, 30)])
@pytest.mark.parametrize("constraint", [constraints.L1(), constraints.MCP.from_threshold(0.5)], ids=["l1", "mcp"])
@pytest.mark.parametrize("seed", [0, 1])
def test_an_unpenalized_intercept_and_one_class_in_the_majority(loss, shape, constraint, seed):
    """At the null fit most margins sit at their kink: no measure of the residuals' size."""
    rng = np.random.default_rng(seed)
    X = np.c_[rng.standard_normal(shape), np.ones(shape[0])]
    b = 1.5 * X[:, :5].sum(axis=1) - 0.7 + rng.standard_normal(shape[0])
    b = np.sign(b) if loss == "hinge" else b
    weights = np.append(np.ones(shape[1]), 0.0)
    level = 2.0 if constraint == constraints.L1() else 4.5
    assert solve(Problem(LinearModel(X, b, loss), constraint, level, weights=weights)).success


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_level_that_does_not_bind(seed):
    """The unconstrained phase must be as able as the rest."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((120, 30))
    b = X[:, :3] @ [2.0, -1.5, 1.0] + 0.1 * rng.standard_normal(120)
    fit = solve(Problem(LinearModel(X, b, "absolute"), constraints.MCP.from_threshold(0.5), 30.5))
    assert fit.success and fit.multiplier == 0


def test_an_oracle_makes_progress_by_default():
    truth = np.zeros(30)
    truth[:3] = [2.0, -1.5, 1.0]

    def oracle(x, rng):
        a = rng.standard_normal(30)
        return 2 * a * (a @ (x - truth) - 0.1 * rng.standard_normal())

    exact = lambda x: (float(np.sum((x - truth) ** 2)) + 0.01, 2 * (x - truth))  # noqa: E731
    objective = Stochastic(oracle, 30, noise=30.0, smoothness=2.0, exact=exact)
    with pytest.warns(match="lower the noise"):
        fit = solve(Problem(objective, constraints.MCP.from_threshold(0.5), 2.5), max_iter=4, random_state=0)
    best = solve(Problem(Function(exact, 30), constraints.MCP.from_threshold(0.5), 2.5))
    assert fit.psi <= best.psi + 0.1 * (exact(np.zeros(30))[0] - best.psi)


def test_settings_of_subsolvers_are_pointed_to():
    X, b = data(9)
    problem = Problem(LinearModel(X, b), constraints.L1(), 2.0)
    with pytest.raises(
        TypeError, match=r"'batch_size' is a setting of a subsolver: subsolver=subsolvers.ACSA\(batch_size"
    ):
        solve(problem, batch_size=3)
