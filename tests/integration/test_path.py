"""Paths over levels and over k: every point certified, losses monotone, each answer independent of the others."""

from __future__ import annotations

import math
import pickle
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

from levelprox import (
    Function,
    InvalidInputError,
    LinearModel,
    MultinomialModel,
    Problem,
    Status,
    Swaps,
    best_subset,
    certify,
    constraints,
    path,
    solve,
    subset_path,
)
from levelprox.constraints import L1, MCP, SCAD, Exp, Log
from levelprox.exceptions import ConvergenceWarning
from levelprox.methods import path_following
from levelprox.methods.ladder import ladder, rungs_of
from levelprox.methods.working_set import Tracker
from tests.support.clocks import until

FAMILIES = [MCP.from_threshold(0.2), SCAD.from_threshold(0.2), Exp(8.0), Log(30.0), L1()]


def model(loss: str = "logistic", n: int = 150, d: int = 40, seed: int = 0, sparse: bool = False, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ (np.eye(d) + 0.3 * np.eye(d, k=1))
    z = X[:, :8] @ rng.standard_normal(8)
    b = {
        "squared": z + 0.5 * rng.standard_normal(n),
        "logistic": np.where(z + rng.logistic(size=n) > 0, 1.0, -1.0),
        "poisson": rng.poisson(np.exp(np.clip(z, -3, 2))).astype(float),
    }[loss]
    return LinearModel(scipy.sparse.csr_array(X) if sparse else X, b, loss, **options)


@pytest.mark.parametrize("constraint", FAMILIES, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_every_level_is_certified_and_losses_never_rise(constraint, loss):
    objective = model(loss, fit_intercept=True)
    levels = np.linspace(0.7, 6.7, 7)
    found = path(Problem(objective, constraint, 1.0), levels)
    assert found.success and len(found) == 7
    np.testing.assert_array_equal(found.levels, levels)
    for i, level in enumerate(levels):
        problem = Problem(objective, constraint, level)
        certificate = certify(problem, found.x(i))
        assert certificate.g <= level
        assert certificate.kkt <= 1.01e-6
        assert certificate.psi == pytest.approx(found.losses[i], rel=1e-12)
        assert found.nonzeros[i] == certificate.n_nonzero == np.count_nonzero(found.x(i)[:-1])
        assert found.multipliers[i] == pytest.approx(certificate.multiplier, rel=1e-6, abs=1e-12)
    assert np.all(np.diff(found.losses) <= 1e-7 * np.abs(found.losses[1:]))


def test_levels_far_beyond_what_all_features_cost():
    """η/cap is beyond all numbers: every feature can be paid for."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 8))
    problem = Problem(LinearModel(X, X[:, 0] - X[:, 3] + 0.1 * rng.standard_normal(40)), MCP(1.0, 1e-100), 1.0)
    found = path(problem, [1.0, 1e300])
    assert found.nonzeros.tolist() == [8, 8]


def test_the_last_level_is_as_good_as_a_single_fit():
    """It is one of the levels that are solved by continuation, too."""
    for seed in range(2):
        problem = Problem(model(seed=seed, d=20), MCP.from_threshold(0.1), 6.5)
        found = path(problem, np.arange(1.5, 7.0))
        assert found.losses[-1] <= solve(problem).psi * (1 + 1e-6)


def correlated(seed: int, n: int = 200, d: int = 120) -> LinearModel:
    """Features in strong groups, of which a few matter: upward alone the wrong ones are taken in first."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 1.5 * np.repeat(rng.standard_normal((n, d // 10)), 10, axis=1)
    z = X[:, ::9] @ rng.choice([-2.0, 1.0, 2.0], size=X[:, ::9].shape[1])
    return LinearModel(X, z + rng.standard_normal(n), "squared")


@pytest.mark.parametrize("seed", range(3))
def test_levels_are_as_good_as_single_fits(seed):
    """In between, too; a path without swaps is not."""
    problem = Problem(correlated(seed), MCP.from_threshold(0.3), 1.0)
    levels = np.arange(1.5, 21.0)
    single = np.array([solve(replace(problem, level=level)).psi for level in levels])
    over = path(problem, levels).losses / single - 1
    direct = path(problem, levels, start="direct").losses / single - 1
    assert np.median(over) <= 1e-6
    assert np.mean(np.maximum(over, 0)) <= 0.25 * np.mean(np.maximum(direct, 0))
    assert np.max(over) < np.max(direct)


@pytest.mark.cpu_budget(2, "on smaller data losses do not rise without `Levels._level_out` either")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.extended) for seed in (1, 2))])
def test_losses_never_rise_where_features_are_left_out_on_the_way_down(seed):
    problem = Problem(correlated(seed, 60), MCP.from_threshold(0.3), 1.0)
    losses = path(problem, np.arange(1.3, 25.0, 0.5)).losses
    assert np.all(np.diff(losses) <= 1e-7 * np.abs(losses[1:]))


def test_a_convex_path_is_that_of_single_fits():
    problem = Problem(model("squared"), L1(), 1.0)
    levels = [0.3, 1.0, 2.0, 4.0]
    found = path(problem, levels)
    single = [solve(Problem(problem.objective, L1(), level)).psi for level in levels]
    np.testing.assert_allclose(found.losses, single, rtol=1e-7)


def test_each_level_starts_from_the_one_before():
    """Fifty levels take far fewer passes than fifty fits; most take one."""
    problem = Problem(model(n=400, d=200, sparse=True), MCP.from_threshold(0.3), 1.0)
    direct = path(problem, np.linspace(0.7, 20.7, 50), start="direct")
    assert direct.success
    assert direct.n_grad <= 100
    one = solve(Problem(problem.objective, problem.constraint, 10.5), start="direct").n_grad
    assert direct.n_grad <= 25 * one


def test_order_and_repeats_of_levels_do_not_matter():
    problem = Problem(model(), MCP.from_threshold(0.2), 1.0)
    once, again = path(problem, [1.5, 3.5, 2.5]), path(problem, [3.5, 2.5, 1.5, 2.5])
    np.testing.assert_array_equal(once.levels, [1.5, 2.5, 3.5])
    np.testing.assert_array_equal(once.coefficients.todense(), again.coefficients.todense())


def test_weights_signs_and_unpenalized_features():
    objective = model("squared", fit_intercept=True)
    weights = np.ones(40)
    weights[[3, 5]] = 0.0, 2.0
    problem = Problem(objective, MCP.from_threshold(0.2), 1.0, weights, True)
    found = path(problem, [0.5, 2.5, 4.5])
    for i, level in enumerate(found.levels):
        x = found.x(i)
        assert np.all(x[:-1] >= 0)
        assert Problem(objective, problem.constraint, level, weights, True).is_feasible(x)
    assert np.all(found.coefficients.todense()[:, 3] != 0)


def test_groups():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 15))
    objective = MultinomialModel(X, np.argmax(X[:, :3] + 0.5 * rng.standard_normal((120, 3)), axis=1))
    found = path(Problem(objective, MCP.from_threshold(0.5), 1.0), [0.5, 1.5, 3.5])
    assert found.success
    assert list(found.nonzeros) == sorted(found.nonzeros)


def test_any_objective_has_a_path():
    """One without second-order models is solved level by level."""
    center = np.array([3.0, -2.0, 0.5, 0.1])
    objective = Function(lambda x: (0.5 * np.sum((x - center) ** 2), x - center), 4)
    found = path(Problem(objective, MCP.from_threshold(1.0), 1.0), [0.5, 1.5, 2.5])
    assert found.success
    assert np.all(np.diff(found.losses) <= 0)


def test_over_k_every_answer_is_its_own():
    objective = model("squared", fit_intercept=True)
    found = subset_path(objective, [5, 1, 3, 3])
    assert found.levels.tolist() == [1, 3, 5]
    for i, k in enumerate((1, 3, 5)):
        single = best_subset(objective, k)
        np.testing.assert_array_equal(found.x(i), single.x)
        assert found.nonzeros[i] == single.support.size <= k
        assert isinstance(found.certificates[i], Swaps)
    assert found.success and np.all(np.diff(found.losses) < 0)


def test_over_k_the_data_are_standardised_and_reduced_once(monkeypatch):
    module, made = sys.modules["levelprox._best_subset"], []
    reduced = module.reduced
    monkeypatch.setattr(module, "reduced", lambda *models: made.append(models) or reduced(*models))
    found = subset_path(model("squared", n=300, d=10, fit_intercept=True), range(1, 6))
    assert len(found) == 5 and len(made) == 1


def test_options_over_k_are_those_of_best_subset():
    for loss in ("squared", "absolute"):
        with pytest.raises(TypeError, match="examine"):
            subset_path(LinearModel(np.eye(3), [1.0, 2.0, 3.0], loss), [1], examine=False)


def test_a_path_is_pickled_and_printed():
    found = path(Problem(model(), MCP.from_threshold(0.2), 1.0), [1.5, 2.5])
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(found.losses, again.losses)
    assert repr(found).startswith("Path(2 levels: 1.5 … 2.5, 2 solved")


@pytest.mark.usefixtures("processor_clock")
def test_time_runs_out(monkeypatch):
    """A full gradient pass takes a millisecond, so that there is no time for 400 levels."""
    evaluated = LinearModel.value_and_gradient
    monkeypatch.setattr(LinearModel, "value_and_gradient", lambda self, x: (until(0.001)(), evaluated(self, x))[1])
    problem = Problem(model(n=300, d=100), MCP.from_threshold(0.2), 1.0)
    with pytest.warns(ConvergenceWarning, match="levels were not reached"):
        found = path(problem, np.linspace(0.5, 20.5, 400), time_limit=0.1)
    assert 0 < len(found) < 400
    for i in range(len(found)):
        assert Problem(problem.objective, problem.constraint, found.levels[i]).is_feasible(found.x(i))


class Interrupting(LinearModel):
    """A model that is interrupted by Ctrl-C during its n-th full gradient pass."""

    looks = 0
    at = 0

    def value_and_gradient(self, x):
        if self.dimension == 40:
            Interrupting.looks += 1
            if Interrupting.looks == Interrupting.at:
                raise KeyboardInterrupt
        return super().value_and_gradient(x)


@pytest.mark.parametrize("at", [8, 14, 40])
def test_ctrl_c_keeps_what_is_there(at):
    """In the levels, or in a continuation after them: the levels that were solved come back, each of them feasible."""
    whole = model("logistic")
    objective = Interrupting(whole.design, whole.target, "logistic")
    problem = Problem(objective, MCP.from_threshold(0.2), 1.0)
    Interrupting.looks, Interrupting.at = 0, at
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = path(problem, np.linspace(0.7, 8.7, 9))
    assert Interrupting.looks >= at, "it was never pressed"
    assert 0 < len(found) <= 9
    for i in range(len(found)):
        assert Problem(whole, problem.constraint, found.levels[i]).is_feasible(found.x(i))


def test_ctrl_c_ends_a_path_over_k(monkeypatch):
    asked = []

    def interrupted(objective, k, **options):
        asked.append(k)
        return replace(best_subset(objective, k), status=Status.INTERRUPTED if k == 2 else Status.SOLVED)

    monkeypatch.setattr(sys.modules["levelprox._path"], "best_subset", interrupted)
    found = subset_path(model("squared"), [1, 2, 3])
    assert asked == [1, 2] and found.levels.tolist() == [1, 2] and not found.success


def test_bad_input_is_refused():
    problem = Problem(model(), MCP.from_threshold(0.2), 1.0)
    for levels, words in (([], "list of numbers"), ([[1.0]], "list of numbers"), ([np.nan], "levels")):
        with pytest.raises(InvalidInputError, match=words):
            path(problem, levels)
    with pytest.raises(ValueError, match="no feasible point"):
        path(problem, [-1.0, 1.0])
    with pytest.raises(InvalidInputError, match="start must be one of"):
        path(problem, [1.0], start="warm")
    with pytest.raises(InvalidInputError, match="must be a Problem"):
        path(constraints.L1(), [1.0])
    for wrong in (math.nan, -1.0, "1"):
        for start in ("direct", "auto"):
            with pytest.raises(InvalidInputError, match="tol must be"):
                path(problem, [1.0], tol=wrong, start=start)
        with pytest.raises(InvalidInputError, match="time_limit must be"):
            path(problem, [1.0], time_limit=wrong)
        with pytest.raises(InvalidInputError, match="time_limit must be"):
            subset_path(problem.objective, [1], time_limit=wrong)
    with pytest.raises(InvalidInputError, match="k must be a list"):
        subset_path(problem.objective, [])
    with pytest.raises(InvalidInputError, match="k must be"):
        subset_path(problem.objective, [1.5])


def test_rungs_do_not_depend_on_the_level():
    """Every number of features up to 16, then eight for every doubling; powers of √2 where features have no cap."""
    problem = Problem(model(d=100), MCP.from_threshold(0.2), 1.0)
    gradient, cap = problem.objective.value_and_gradient(np.zeros(100))[1], problem.constraint.cap
    counts = [round(lowest / cap) for lowest, _ in ladder(problem, gradient)]
    assert counts == [*range(1, 17), *range(18, 33, 2), *range(36, 65, 4), *range(72, 101, 8)]
    below = replace(problem, level=21.5 * cap)
    assert [round(lowest / cap) for lowest, _ in rungs_of(below, gradient, True)] == [*range(1, 17), 18, 20, 22, 24, 26]
    assert [round(lowest / cap) for lowest, _ in rungs_of(below, gradient, False)] == [*range(1, 17), 18, 20]
    convex = replace(problem, constraint=L1(), level=3.0)
    levels = np.array([level for _, level in rungs_of(convex, gradient, False)])
    np.testing.assert_allclose(levels[1:] / levels[:-1], np.sqrt(2))
    assert levels[-1] <= 3.0 < levels[-1] * 1.42
    assert [level for _, level in rungs_of(replace(convex, level=1.0), gradient, False)] == levels[
        levels <= 1.0
    ].tolist()


@pytest.mark.parametrize("constraint", [*FAMILIES, "weights"], ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("start", ["auto", "direct"])
def test_the_answer_at_a_level_has_the_same_bits_whatever_else_is_asked_for(constraint, start):
    objective, weights = model(fit_intercept=True), None
    if constraint == "weights":
        constraint, weights = FAMILIES[0], np.linspace(0.5, 2.0, 40)
    problem = Problem(objective, constraint, 1.0, weights)
    levels = np.linspace(0.7, 12.7, 13)
    whole = path(problem, levels, start=start)
    for asked in ([3], [12], [0, 5, 6], [4, 11]):
        some = path(problem, levels[asked], start=start)
        np.testing.assert_array_equal(some.coefficients.todense(), whole.coefficients[asked].todense())
        np.testing.assert_array_equal(some.losses, whole.losses[asked])
        assert some.certificates == tuple(whole.certificates[i] for i in asked)


@pytest.mark.parametrize("seed", [2, 4, 5])
def test_levels_start_from_the_better_of_two_rungs(seed, monkeypatch):
    """A start from the rung above that is not better takes no pass; where it is better, the level is lower."""
    problem, levels = Problem(correlated(seed), MCP.from_threshold(0.3), 1.0), np.arange(1.3, 21.0, 0.5)
    trials, below = list[tuple[bool, int]](), Tracker.below

    def counted(self, *limits):
        found, passes = below(self, *limits)
        trials.append((found is not None, passes))
        return found, passes

    monkeypatch.setattr(Tracker, "below", counted)
    both = path(problem, levels)
    monkeypatch.setattr(Tracker, "below", lambda *_: (None, 0))
    one = path(problem, levels)
    assert len(trials) >= 10 and any(better for better, _ in trials)
    assert all(passes == 0 for better, passes in trials if not better)
    assert both.n_grad - one.n_grad == sum(passes for _, passes in trials)
    assert np.all(both.losses <= one.losses * (1 + 1e-9))
    assert np.any(both.losses < one.losses * (1 - 1e-4))


@pytest.mark.parametrize("helps", [True, False])
def test_blocks_are_short_where_continuation_pays(helps, monkeypatch):
    """Others take few continuations; their stages begin where earlier ones had few nonzeros."""
    rng, begun, continued = np.random.default_rng(0), list[float](), path_following.continued
    factors = rng.standard_normal((200, 8))
    X = np.maximum(factors @ rng.standard_normal((8, 100)) + rng.standard_normal((200, 100)), 0.0)
    target = factors @ rng.standard_normal(8) + rng.standard_normal(200) if helps else X[:, :8] @ np.arange(1.0, 9.0)

    def counted(*settings, **options):
        stages = list(continued(*settings, **options))
        begun.append(stages[0][0].factor if stages else 1.0)
        assert math.log2(begun[-1]) <= options["most_doublings"]
        return iter(stages)

    monkeypatch.setattr(path_following, "continued", counted)
    assert path(Problem(LinearModel(X, target), MCP.from_threshold(0.3), 1.0), [16.5]).success
    assert len(begun) == (5 if helps else 2)


def test_more_levels_take_about_one_pass_each():
    """The rungs are climbed once, whatever is requested."""
    problem = Problem(model(n=400, d=200, sparse=True), MCP.from_threshold(0.3), 1.0)
    few, many = (path(problem, np.linspace(0.7, 20.7, count)).n_grad for count in (2, 102))
    assert many - few <= 150
