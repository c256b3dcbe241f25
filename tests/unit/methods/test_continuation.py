"""Continuation: never above the direct start, feasible and certified, and sometimes much better."""

from __future__ import annotations

import itertools
import pickle
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import threadpool_limits

from levelprox import Function, InvalidInputError, LinearModel, MultinomialModel, Problem, Status, certify, solve
from levelprox.constraints import L1, MCP, SCAD, Constraint, Exp, Log, Lp
from levelprox.exceptions import ConvergenceWarning
from levelprox.losses import loss_by_name
from levelprox.methods import continuation as module
from levelprox.methods import level_method
from levelprox.methods.continuation import rescaled
from levelprox.result import Result
from tests.support.registries import CONSTRAINTS, targets_of

NONCONVEX = [constraint for constraint in CONSTRAINTS if constraint.lipschitz > 0]
every_nonconvex = pytest.mark.parametrize("constraint", NONCONVEX, ids=str)


def data(n=80, d=40, planted=5, correlation=0.6, seed=0):
    """Correlated columns, a few of which make the signal."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n, 1))
    X = np.sqrt(1 - correlation) * rng.standard_normal((n, d)) + np.sqrt(correlation) * common
    truth = np.sort(rng.choice(d, planted, replace=False))
    signal = X[:, truth] @ np.linspace(2, 1, planted)
    return X, signal, truth, rng


def model(loss="squared", seed=0, n=80, d=40, **options):
    X, signal, _, rng = data(n, d, seed=seed)
    noise = rng.logistic(size=n)
    if loss == "multinomial":
        return MultinomialModel(X, np.digitize(signal + noise, [-1.5, 1.5]), **options)
    if loss in ("poisson", "gamma"):
        signal, noise = signal / 4, noise / 4
    b = np.exp(signal + noise) if loss in ("poisson", "gamma") else targets_of(loss_by_name(loss), signal + noise)
    return LinearModel(X, b, loss, **options)


def level_of(constraint: Constraint, features: float = 4.4) -> float:
    """A level at which about that many features fit, of size 1 where there is no cap."""
    return features * (constraint.cap if np.isfinite(constraint.cap) else float(constraint.phi(1.0)))


def check_run(problem: Problem, tol: float = 1e-6, **options) -> tuple[Result, Result]:
    """The direct start and the continuation, and what is promised of them."""
    direct = solve(problem, start="direct", tol=tol, **options)
    fit = solve(problem, tol=tol, **options)
    assert (direct.start, fit.start) == ("direct", "continuation") and direct.stages == ()
    for result in (direct, fit):
        assert result.status is Status.SOLVED, result.message
        assert problem.is_feasible(result.x)
        certificate = certify(problem, result.x)
        assert certificate.kkt <= tol and certificate.infeasibility == 0
    assert fit.psi <= direct.psi
    factors = [stage.factor for stage in fit.stages]
    assert all(a > b for a, b in itertools.pairwise(factors))
    assert not factors or factors[-1] == 1
    assert fit.n_grad >= direct.n_grad + sum(stage.n_grad for stage in fit.stages)
    if fit.stages and fit.stages[-1].psi < direct.psi:
        assert fit.psi <= fit.stages[-1].psi + 1e-12 * abs(direct.psi)
    elif problem.objective.convex_start is None:  # else its solution may have led lower than the null fit
        assert np.array_equal(fit.x, direct.x)
    return direct, fit


# --- constraints × losses -----------------------------------------------------------------------------


@every_nonconvex
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_every_constraint_ends_feasible_certified_and_no_worse(constraint, loss):
    check_run(Problem(model(loss), constraint, level_of(constraint)))


@pytest.mark.parametrize("constraint", [MCP.from_threshold(0.5), Log(10), Lp(0.5, 0.1)], ids=str)
@pytest.mark.parametrize("loss", ["huber", "squared_hinge", "poisson", "gamma", "cauchy", "multinomial"])
def test_every_kind_of_loss_does(loss, constraint):
    check_run(Problem(model(loss), constraint, level_of(constraint)))


SETTINGS: dict[str, Callable[[Constraint], Problem]] = {
    "intercept": lambda phi: Problem(model("logistic", fit_intercept=True), phi, level_of(phi)),
    "unpenalized features": lambda phi: Problem(model(), phi, level_of(phi), np.where(np.arange(40) % 13, 1.0, 0.0)),
    "weights": lambda phi: Problem(model(), phi, level_of(phi), np.linspace(0.2, 2, 40)),
    "nonnegative": lambda phi: Problem(model(), phi, level_of(phi), None, True),
    "some nonnegative": lambda phi: Problem(model(), phi, level_of(phi), None, np.arange(40) % 2 == 0),
    "groups and intercept": lambda phi: Problem(model("multinomial", fit_intercept=True), phi, level_of(phi)),
    "groups with weights": lambda phi: Problem(
        model("multinomial"), phi, level_of(phi), np.where(np.arange(40) % 9, 1.5, 0.0)
    ),
    "more features than samples": lambda phi: Problem(model(n=40, d=120), phi, level_of(phi)),
    "sparse": lambda phi: Problem(
        LinearModel(scipy.sparse.csr_array(np.where(np.abs(data()[0]) > 1, data()[0], 0)), data()[1]),
        phi,
        level_of(phi),
    ),
}


@pytest.mark.parametrize("constraint", [MCP.from_threshold(0.5), SCAD.from_threshold(0.5), Exp(5), Log(100)], ids=str)
@pytest.mark.parametrize("name", SETTINGS)
def test_options_of_the_problem_are_obeyed(name, constraint):
    check_run(SETTINGS[name](constraint))


@pytest.mark.parametrize("name", ["intercept", "nonnegative", "groups and intercept", "more features than samples"])
def test_stages_are_taken(name):
    """The tests above are about something."""
    _, fit = check_run(SETTINGS[name](MCP.from_threshold(0.1)))
    assert len(fit.stages) >= 2 and fit.stages[0].factor >= 4


@pytest.mark.parametrize("subsolver", ["spectral", "nesterov"])
def test_first_order_subsolvers(subsolver):
    _, fit = check_run(Problem(model("logistic"), MCP.from_threshold(0.5), 4.5), subsolver=subsolver, tol=1e-4)
    assert fit.stages


def test_functions_and_losses_with_kinks():
    smooth = model("huber")
    function = Function(smooth.value_and_gradient, smooth.dimension)
    check_run(Problem(function, MCP.from_threshold(0.5), 4.5), tol=1e-4)
    check_run(Problem(model("absolute"), MCP.from_threshold(0.5), 4.5), tol=1e-4)


# --- what it is for -----------------------------------------------------------------------------------


def trap(seed: int):
    """A decoy is best alone, as the sum of the planted features; with all of them it is of no use."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 60))
    X[:, 0] = X[:, 1:5].sum(axis=1) / 2 + 0.5 * rng.standard_normal(200)
    return X, X[:, 1:5].sum(axis=1) + 0.1 * rng.standard_normal(200)


def largest(x, k):
    return np.sort(np.argsort(-np.abs(x))[:k]).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_a_planted_support_that_the_direct_start_misses(seed):
    X, b = trap(seed)
    direct, fit = check_run(Problem(LinearModel(X, b), MCP.from_threshold(0.2), 4.5))
    assert largest(fit.x, 4) == [1, 2, 3, 4] and largest(direct.x, 4) != [1, 2, 3, 4]
    assert direct.psi > 2 * fit.psi


def wide_problem(seed: int) -> Problem:
    """Far more features than samples."""
    X, signal, _, rng = data(n=50, d=2000, planted=4, correlation=0.3, seed=seed)
    return Problem(LinearModel(X, signal + 0.5 * rng.standard_normal(50)), MCP.from_threshold(0.05), 4.5)


def sizes_on_the_way(problem: Problem, monkeypatch) -> tuple[Result, list[int], list[int]]:
    """The result, and the working sets and nonzeros at every point of every stage."""
    working, nonzero, steps = [], [], module.steps

    def noted(at):
        working.append(0 if at.features is None else at.features.size)
        nonzero.append(np.count_nonzero(at.x))
        return at

    def watched(part, start, *arguments):
        following = steps(part, noted(start), *arguments)
        return ((level, noted(at)) for level, at in following)

    with monkeypatch.context() as patch:
        patch.setattr(module, "steps", watched)
        return solve(problem), working, nonzero


@pytest.mark.parametrize("seed", range(3))
def test_interpolation_is_a_trap_that_is_left_at_once(seed, monkeypatch):
    """With n < d a wide problem can fit anything by n features: stages are left before that, and work on few."""
    fit, working, nonzero = sizes_on_the_way(wide_problem(seed), monkeypatch)
    assert fit.success and len(fit.stages) >= 2
    assert max(nonzero) < 45 and max(working) <= 200
    assert all(stage.psi > 1e-3 for stage in fit.stages)
    monkeypatch.setattr(
        module, "most_nonzeros", lambda count: 10**9
    )  # the fault: the nonzeros of a stage are not counted
    _, working, nonzero = sizes_on_the_way(wide_problem(seed), monkeypatch)
    assert max(nonzero) >= 45 or max(working) > 200


@pytest.mark.parametrize("constraint", [MCP.from_threshold(0.3), SCAD.from_threshold(0.3), Exp(5), Log(10)], ids=str)
def test_runs_repeat_to_the_last_bit_whatever_the_threads(constraint):
    problem = Problem(model("logistic", n=200, d=100), constraint, level_of(constraint))
    seen = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            fit = solve(problem)
            seen.append((fit.x.tobytes(), fit.stages, fit.n_grad, fit.n_inner))
    assert seen[0] == seen[1]


# --- who may ask for it -------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_crowded_stages_save_full_gradient_passes_and_end_at_the_same_point(loss, monkeypatch):
    """A stage with more nonzeros than it may have ends at once: its full gradient is not needed."""
    X, signal, _, rng = data(120, 300, planted=6, correlation=0.3)
    b = signal + 4 * rng.standard_normal(120)
    objective = LinearModel(X, np.sign(b) if loss == "logistic" else b, loss)
    problem = Problem(objective, MCP.from_threshold(0.2), 3.5)
    result = solve(problem)
    most = module.most_nonzeros(3)
    crowded = [stage for stage in result.stages if stage.n_nonzero > most and stage.factor > 1]
    assert any(stage.n_grad == 0 for stage in crowded[1:]) and crowded
    original = module._stage
    monkeypatch.setattr(
        module,
        "_stage",
        lambda wider, begin, tol, how, *most: original(wider, begin, tol, replace(how, most=None), *most),
    )
    looked = solve(problem)
    np.testing.assert_array_equal(result.x, looked.x)
    assert result.n_grad < looked.n_grad and result.n_inner == looked.n_inner
    assert [stage.n_nonzero for stage in result.stages] == [stage.n_nonzero for stage in looked.stages]


def test_convex_constraints_have_no_stages():
    fit = solve(Problem(model(), L1(), 3.0))
    assert fit.stages == () and fit.start == "direct"
    asked = solve(Problem(model(), L1(), 3.0), start="continuation")
    assert asked.stages == () and np.array_equal(asked.x, fit.x)


def test_levels_that_hold_nothing_back_or_all_have_no_stages():
    for level in (0.0, 41.0):
        fit = solve(Problem(model(), MCP.from_threshold(0.5), level))
        assert fit.status is Status.SOLVED and fit.stages == ()


@pytest.mark.parametrize(
    "options",
    [
        {"x0": np.zeros(40)},
        {"levels": "harmonic", "tol": 1e-2},
        {"levels": "geometric"},
        {"stopping": "change"},
        {"subsolver": "sgd", "random_state": 0, "max_iter": 2},
        {"subsolver": "svrg", "random_state": 0, "max_iter": 2},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_that_choose_the_start_exclude_continuation(options):
    problem = Problem(model("logistic"), MCP.from_threshold(0.5), 4.5)
    with pytest.raises(InvalidInputError, match="start='continuation' chooses the start itself: not with x0, rising"):
        solve(problem, start="continuation", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = solve(problem, **options)
        same = solve(problem, start="direct", **options)
    assert fit.start == "direct" and fit.stages == () and np.array_equal(fit.x, same.x)


def test_unknown_starts_are_refused():
    with pytest.raises(InvalidInputError, match="start must be one of auto, continuation, direct, got 'warm'"):
        solve(Problem(model(), MCP.from_threshold(0.5), 4.5), start="warm")


# --- limits, Ctrl-C, pickles --------------------------------------------------------------------------


class Interrupting(LinearModel):
    """A model in whose n-th evaluation of ψ Ctrl-C is pressed."""

    calls, at = 0, -1

    def value_and_gradient(self, x):
        self._count()
        return super().value_and_gradient(x)

    def evaluated(self, z, dx, with_hessian):
        self._count()
        return super().evaluated(z, dx, with_hessian)

    def _count(self):
        kind = type(self)
        kind.calls += 1
        if kind.calls == kind.at:
            raise KeyboardInterrupt


def interrupting_problem() -> Problem:
    return Problem(Interrupting(*trap(0)), MCP.from_threshold(0.2), 4.5)


def test_ctrl_c_in_a_stage_leaves_the_direct_start():
    problem = interrupting_problem()
    Interrupting.calls, Interrupting.at = 0, -1
    direct = solve(problem, start="direct")
    begins = Interrupting.calls
    Interrupting.calls = 0
    whole = solve(problem)
    ends = Interrupting.calls
    assert ends > begins + 5 and whole.psi < direct.psi
    kept = 0
    for at in range(begins, ends + 1):
        Interrupting.calls, Interrupting.at = 0, at
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # where the certificate is interrupted
            fit = solve(problem)
        assert fit.status is Status.INTERRUPTED and problem.is_feasible(fit.x)
        assert fit.psi <= direct.psi
        kept += np.array_equal(fit.x, direct.x)
    Interrupting.at = -1
    assert kept >= 3


def test_time_limits_leave_a_feasible_point_at_every_stage(monkeypatch):
    """The clock runs out after so many checks."""
    problem = Problem(LinearModel(*trap(0)), MCP.from_threshold(0.2), 4.5)
    direct, fit = check_run(problem)
    psis = []
    for looks in (0, 5, 10, 15, 20, 25, 30, 40, 60, 100, 400):
        left = iter([1.0] * looks)
        monkeypatch.setattr("levelprox.driver.Run.seconds_left", lambda self, left=left: next(left, 0.0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            short = solve(problem)
        assert problem.is_feasible(short.x)
        assert short.status in (Status.TIME_LIMIT, Status.SOLVED)
        assert (short.status is Status.SOLVED) == (certify(problem, short.x).kkt <= 1e-6)
        psis.append(short.psi)
    assert min(psis) == fit.psi and direct.psi in psis
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(psis))


def test_few_outer_steps():
    problem = Problem(LinearModel(*trap(0)), MCP.from_threshold(0.2), 4.5)
    direct, whole = check_run(problem)
    for steps in range(whole.n_outer + 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit = solve(problem, max_iter=steps)
        assert problem.is_feasible(fit.x)
        assert (fit.status is Status.SOLVED) == (certify(problem, fit.x).kkt <= 1e-6)
        assert fit.n_outer <= steps + 1
    assert fit.psi == whole.psi < direct.psi


def test_results_with_stages_pickle():
    fit = solve(Problem(LinearModel(*trap(0)), MCP.from_threshold(0.2), 4.5))
    copy = pickle.loads(pickle.dumps(fit))
    assert copy.stages == fit.stages != () and copy.start == "continuation"
    assert copy.x.tobytes() == fit.x.tobytes() and repr(copy) == repr(fit)


def test_the_callback_sees_falling_psi_through_the_stages():
    seen = []
    fit = solve(
        Problem(LinearModel(*trap(0)), MCP.from_threshold(0.2), 4.5),
        callback=lambda record, x: seen.append((record.k, record.psi)),
    )
    steps, psis = zip(*seen, strict=True)
    assert steps == tuple(range(1, fit.n_outer + 1))
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(psis)) and psis[-1] == fit.psi


def test_a_callback_can_stop_before_the_stages():
    problem = Problem(LinearModel(*trap(0)), MCP.from_threshold(0.2), 4.5)
    fit = solve(problem, callback=lambda record, x: True)
    assert fit.status is Status.CALLBACK_STOP and fit.stages == () and problem.is_feasible(fit.x)


# --- its parts ----------------------------------------------------------------------------------------


@every_nonconvex
def test_truncated_points_obey_the_level_and_lose_no_more_than_needed(constraint):
    rng = np.random.default_rng(3)
    weights = np.where(rng.random(40) < 0.1, 0.0, rng.uniform(0.5, 2, 40))
    for omega in (None, weights):
        problem = Problem(model(), constraint, level_of(constraint, 3.3), omega)
        x = rng.standard_normal(40) * 10.0 ** rng.uniform(-2, 1, 40)
        cut = problem.cut(x)
        assert problem.is_feasible(cut)
        kept = cut != 0
        assert np.array_equal(cut[kept], x[kept])
        counted = np.ones(40, bool) if omega is None else omega > 0
        assert np.all(kept[~counted])
        dropped = np.flatnonzero(counted & ~kept)
        assert dropped.size and np.abs(x[dropped]).max() <= np.abs(x[counted & kept]).min(initial=np.inf)
        back = cut.copy()
        largest = dropped[np.argmax(np.abs(x[dropped]))]
        back[largest] = x[largest]
        assert problem.g(back) > problem.level * (1 - 1e-12)


@every_nonconvex
def test_rescaled_problems_mean_the_same_level(constraint):
    problem = Problem(model(), constraint, level_of(constraint), np.linspace(0, 2, 40), True)
    assert rescaled(problem, 1.0) is problem
    wide = rescaled(problem, 8.0)
    assert wide.level == wide.constraint.level_of(problem.level)
    assert wide.objective is problem.objective and np.array_equal(wide.weights, problem.weights)
    assert np.array_equal(wide.must_be_nonnegative(), problem.must_be_nonnegative())
    x = np.ones(40)
    assert wide.g(x) / wide.level <= problem.g(x) / problem.level * (1 + 1e-12)


def test_unpenalized_features_do_not_count():
    weights = np.where(np.arange(40) % 13, 1.0, 0.0)
    x = np.where(np.arange(40) < 15, 1.0, 0.0)
    assert module._count(Problem(model(), MCP.from_threshold(0.5), 4.4, weights), x) == 13
    groups = model("multinomial", fit_intercept=True)
    x = np.zeros(groups.dimension)
    x[[3, 5, 9, -1]] = 1.0  # two coefficients of feature 1, one of feature 3, an intercept
    assert module._count(Problem(groups, MCP.from_threshold(0.5), 4.4), x) == 2


def test_a_time_limit_that_ends_the_continuation_is_reported(monkeypatch, clock):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 20))
    b = X[:, :8] @ rng.standard_normal(8) + rng.standard_normal(100)
    problem = Problem(LinearModel(X, b), MCP.from_threshold(0.2), 3.5)
    direct = solve(problem, start="direct")

    def too_slow(*args, **options):
        clock.now += 1.1
        return iter(())

    monkeypatch.setattr(level_method, "continued", too_slow)
    with pytest.warns(ConvergenceWarning, match="ended the continuation"):
        fit = solve(problem, time_limit=1.0)
    assert fit.status is Status.SOLVED and fit.psi == pytest.approx(direct.psi, rel=1e-9)
