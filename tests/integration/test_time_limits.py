"""Time limits and Ctrl-C where one gradient takes longer than the limit, and work that takes long for its size."""

from __future__ import annotations

import math
import time
from itertools import count

import numpy as np
import pytest

from levelprox import (
    LinearModel,
    MultinomialModel,
    OneVsRestModel,
    Problem,
    Status,
    best_subset,
    certify_model,
    constraints,
    load,
    path,
    solve,
)
from levelprox import _runtime as limits
from levelprox.certificate import possible_gain
from levelprox.designs._base import Design
from levelprox.exceptions import InvalidInputError
from levelprox.methods import restricted as restriction
from levelprox.objectives import multinomial
from levelprox.subset.multiclass_fit import class_fit
from tests.support.input_cases import WAYS, samples

N, D = 60, 8
REGRESSION = ("squared", "huber", "absolute", "quantile", "cauchy", "poisson", "gamma")
MARGIN = ("logistic", "hinge", "squared_hinge", "sigmoid")


def model(name: str, intercept: bool = True):
    """A model of each kind, over correlated columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)) + rng.standard_normal((N, 1))
    z = X[:, 0] - X[:, 3] + rng.standard_normal(N)
    labels = np.digitize(z, [-1.0, 1.0])
    if name == "softmax":
        return MultinomialModel(X, labels, fit_intercept=intercept)
    if name.startswith("ovr "):
        return OneVsRestModel(X, labels, name[4:], fit_intercept=intercept)
    target = np.where(z > 0, 1.0, -1.0) if name in MARGIN else np.exp(z / 4) if name in ("poisson", "gamma") else z
    return LinearModel(X, target, name, fit_intercept=intercept)


MODELS = (*REGRESSION, *MARGIN, "softmax", *(f"ovr {loss}" for loss in MARGIN))


def solved(objective, **options):
    return solve(Problem(objective, constraints.MCP.from_threshold(0.1), 2.5 * 0.1**2 / 2), **options)


def searched(objective, **options):
    return best_subset(objective, 2, **options)


@pytest.fixture
def no_time(monkeypatch):
    """Compiled code stops at the first check of the time after a limit."""
    monkeypatch.setattr(limits, "_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(limits, "_GRACE_SHARE", 0.0)


def is_point_without_a_look(found, objective):
    assert np.all(np.isfinite(found.x)) and not np.any(found.x[: -objective.n_outputs])
    assert found.psi == pytest.approx(objective.value_and_gradient(found.x)[0], rel=1e-12)
    assert not found.certificate.examined and "not known: there was no time" in str(found.certificate)


@pytest.mark.usefixtures("no_time")
@pytest.mark.filterwarnings("ignore::levelprox.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("run", [solved, searched])
@pytest.mark.parametrize("name", MODELS)
def test_a_limit_that_leaves_no_time_for_a_gradient_gives_a_feasible_point(name, run, intercept):
    objective = model(name, intercept)
    found = run(objective, time_limit=0)
    assert found.status is Status.TIME_LIMIT and "time_limit 0 s" in found.message and "no time" in found.message
    is_point_without_a_look(found, objective)


@pytest.mark.filterwarnings("ignore::levelprox.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("run", [solved, searched])
@pytest.mark.parametrize("name", MODELS)
def test_no_pass_over_all_features_is_done_where_a_limit_could_not_end_it(name, run, monkeypatch):
    """At any time until the end, a pass over X can be interrupted."""
    objective, loose = model(name), list[str]()
    for kind in ("matvec", "rmatvec", "column_squares", "gram"):
        method = getattr(Design, kind)

        def looked_at(self, *args, kind=kind, method=method):
            limit = limits._state.limit
            if self.shape[1] >= D and (limit is None or not limit.armed):
                loose.append(kind)
            return method(self, *args)

        monkeypatch.setattr(Design, kind, looked_at)
    run(objective, time_limit=0)
    slow = (name, run) == ("ovr hinge", solved)  # thousands of steps, all of one kind
    run(objective, time_limit=0.3 if slow else 1e6)
    assert not loose


@pytest.mark.parametrize("run", [solved, searched])
@pytest.mark.parametrize("name", ["squared", "logistic", "absolute", "softmax", "ovr hinge", "ovr logistic"])
def test_ctrl_c_during_the_null_fit_gives_a_point(name, run, monkeypatch):
    objective, calls = model(name), count()
    squares = Design.column_squares

    def interrupted(self, *args):
        if next(calls) == 0:
            raise KeyboardInterrupt
        return squares(self, *args)

    monkeypatch.setattr(Design, "column_squares", interrupted)
    monkeypatch.setattr(limits, "_GRACE_SECONDS", 0.0)
    found = run(objective)
    assert found.status is Status.INTERRUPTED and found.message.startswith("Interrupted")
    monkeypatch.undo()
    is_point_without_a_look(found, objective)


@pytest.mark.filterwarnings("ignore::levelprox.exceptions.ConvergenceWarning")
def test_a_start_that_is_given_comes_back(monkeypatch):
    def too_late(self, *args):
        raise limits.TimeLimitError

    monkeypatch.setattr(Design, "column_squares", too_late)
    objective, x0 = model("squared"), np.zeros(D + 1)
    x0[[2, D]] = 0.05, 0.1
    found = solve(Problem(objective, constraints.MCP.from_threshold(0.1), 2.5), time_limit=0, x0=x0)
    assert np.array_equal(found.x, x0) and found.status is Status.TIME_LIMIT
    assert found.psi == pytest.approx(objective.value_and_gradient(x0)[0], rel=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("no_time")
def test_a_path_without_time_is_reported():
    problem = Problem(model("logistic"), constraints.MCP.from_threshold(0.1), 1.0)
    with pytest.raises(InvalidInputError, match="no time for the first level"):
        path(problem, [0.01, 0.02], time_limit=0)


@pytest.mark.filterwarnings("ignore::levelprox.exceptions.ConvergenceWarning")
@pytest.mark.usefixtures("no_time")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_models_without_a_full_gradient_pass_are_saved_and_claim_nothing_false(way, dtype, tmp_path):
    X = samples().astype(dtype)
    fitted = way(time_limit=0).fit(X, way.y)
    assert fitted.status_ is Status.TIME_LIMIT and way.obeys(fitted) and not fitted.certificate_.examined
    fitted.save(tmp_path / "model.levelprox")
    again = load(tmp_path / "model.levelprox")
    assert np.array_equal(again.coef_, fitted.coef_)
    claims = certify_model(again, X, way.y)
    assert claims.hold


def test_ctrl_c_within_a_part_of_a_search_is_no_time_limit(monkeypatch):
    calls, models = count(), restriction.by_models

    def interrupted(*args, **options):
        if next(calls) == 0:
            raise KeyboardInterrupt
        return models(*args, **options)

    monkeypatch.setattr(restriction, "by_models", interrupted)
    found = best_subset(model("huber"), 3)
    assert found.status is Status.INTERRUPTED and next(calls) > 0


# --- possible gains


def test_the_basis_along_a_level_is_that_of_a_decomposition():
    rng = np.random.default_rng(0)
    for m in (2, 5, 30):
        half, normal, force = rng.standard_normal((m, m)), rng.standard_normal(m), rng.standard_normal(m)
        matrix, error = half @ half.T, np.full(m - 1, 1e-15)
        basis = np.linalg.qr(np.column_stack([normal, np.eye(m)]))[0][:, 1:m]
        expected = possible_gain._inverse_square(basis.T @ matrix @ basis, basis.T @ force, error)
        (turned,) = possible_gain._reflected(normal, force)
        found = possible_gain._inverse_square(possible_gain._turned(matrix, normal), turned[1:], error)
        assert found == pytest.approx(expected, rel=1e-9)


def test_eigenvectors_are_computed_only_where_they_decide_and_time_allows(monkeypatch):
    rng = np.random.default_rng(0)
    half = rng.standard_normal((6, 4))
    flat, error = half @ half.T, np.full(6, 1e-12)
    along = flat @ rng.standard_normal(6)
    assert math.isfinite(possible_gain._inverse_square(flat, along, error))
    assert possible_gain._inverse_square(flat, along, error, decompose=False) == math.inf

    def fail(_):
        raise AssertionError("decomposed")

    monkeypatch.setattr(np.linalg, "eigh", fail)
    assert math.isfinite(possible_gain._inverse_square(flat + np.eye(6), along, error))
    assert possible_gain._inverse_square(flat - np.eye(6), along, error) == math.inf


# --- many classes


def many_classes(K: int = 40, n: int = 60, d: int = 9):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), np.concatenate([np.arange(K), rng.integers(0, K, n - K)])


@pytest.mark.parametrize("n", [50, 700, 9000], ids=["a block", "several blocks of rows", "several chunks of blocks"])
def test_hessians_of_many_classes_are_those_of_their_pairs(n, monkeypatch):
    X, y = many_classes(20, n, 4)
    rng = np.random.default_rng(1)
    objective = MultinomialModel(X, y, fit_intercept=True, sample_weight=rng.random(n))
    z = 5 * rng.standard_normal((n, 20))
    found = objective.hessian_of(z)
    monkeypatch.setattr(MultinomialModel, "class_fits", property(lambda _: pytest.fail("not by pairs")))
    monkeypatch.setattr(multinomial, "_MANY_CLASSES", 20)
    monkeypatch.setattr(multinomial, "_SMALL", 0)
    expected = objective.hessian_of(z)
    assert np.array_equal(found, found.T)
    assert np.max(np.abs(found - expected)) <= 1e-15 * np.max(np.abs(expected))


def test_many_separated_classes_take_few_newton_steps(monkeypatch):
    X, y = many_classes(40, 45, 30)
    A = np.column_stack([X, np.ones(45)])
    calls, hessian = count(), MultinomialModel.hessian_of

    def counted(self, z, convex=True):
        next(calls)
        return hessian(self, z, convex)

    monkeypatch.setattr(MultinomialModel, "hessian_of", counted)
    objective = MultinomialModel(A, y)
    x, *_ = class_fit(objective, A, np.array([30]), np.zeros(objective.dimension), 1e-13)
    assert objective.value_and_gradient(x)[0] <= 1e-16 * math.log(40) and next(calls) <= 5


@pytest.mark.filterwarnings("ignore::levelprox.exceptions.ConvergenceWarning")
@pytest.mark.usefixtures("processor_clock")
@pytest.mark.parametrize("loss", ["softmax", *MARGIN])
def test_many_classes_end_at_their_limit(loss):
    """A limit of processor time; what is not interruptible takes less than a second."""
    X, y = many_classes(100, 150, 12)
    objective = MultinomialModel(X, y, fit_intercept=True) if loss == "softmax" else OneVsRestModel(X, y, loss)
    for run in (solved, searched):
        began = time.process_time()
        found = run(objective, time_limit=0.05)
        assert found.status in (Status.TIME_LIMIT, Status.SOLVED) and time.process_time() - began < 1.05
