"""sgd and svrg: fixed by their seed, feasible however they stop, and convergent."""

from __future__ import annotations

import math
import pickle
import signal
import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

from levelprox import Function, LinearModel, Problem, constraints, solve
from levelprox.exceptions import ConvergenceWarning, InvalidInputError
from levelprox.losses import loss_by_name
from levelprox.methods.lcpp import linearise
from levelprox.methods.subsolvers import SGD, SVRG, Newton, Spectral, Subproblem, choose
from levelprox.methods.subsolvers._minibatch import batch_size, draw
from levelprox.result import Iterate, Status
from tests.support import reference
from tests.support.children import Child, Ended
from tests.support.registries import BOUNDED_LOSSES, targets_of

MCP = constraints.MCP(lam=2.0, theta=0.25)
STOCHASTIC = pytest.mark.parametrize("kind", [SGD, SVRG], ids=lambda kind: kind.name)


def sparse_model(seed=0, n=300, d=200, loss="logistic", storage=scipy.sparse.csr_array, **options):
    rng = np.random.default_rng(seed)
    X = scipy.sparse.random_array((n, d), density=0.05, rng=rng, data_sampler=rng.standard_normal)
    truth = np.where(rng.random(d) < 0.1, 2 * rng.standard_normal(d), 0.0)
    b = X @ truth + 0.3 * rng.standard_normal(n)
    return LinearModel(storage(X), targets_of(loss_by_name(loss), b), loss, **options)


def subproblem_of(model, level=4.2, gamma=None, signs=(None, False)):
    """The first subproblem from a sparse point, and that point."""
    rng = np.random.default_rng(9)
    center = np.where(rng.random(model.dimension) < 0.02, np.abs(rng.standard_normal(model.dimension)), 0.0)
    center *= min(1.0, 0.5 * level / MCP.value(center))
    psi, gradient = model.value_and_gradient(center)
    gamma = 3 * model.weak_convexity or 0.05 * model.smoothness or 1e-3 if gamma is None else gamma
    return Subproblem(model, linearise(MCP, center, level), center, gamma, signs), Iterate(center, psi, gradient)


def check_feasible(subproblem, x):
    surrogate = subproblem.surrogate
    ones = np.ones_like(x)
    assert reference.exact_level(x, surrogate.u, ones) <= Fraction(surrogate.tau)


@pytest.mark.parametrize("loss", [loss for loss in BOUNDED_LOSSES if loss.smooth], ids=str)
def test_svrg_converges_to_the_solution(loss):
    subproblem, start = subproblem_of(sparse_model(loss=loss))
    best = Spectral(max_steps=20_000, accuracy=0.0).solve(subproblem, start)
    found = SVRG(max_epochs=150, accuracy=0.0, batch_size=20).solve(subproblem, start, rng=np.random.default_rng(1))
    np.testing.assert_allclose(found.x, best.x, rtol=0, atol=1e-8)
    assert found.multiplier == pytest.approx(best.multiplier, abs=1e-7)
    check_feasible(subproblem, found.x)


@pytest.mark.parametrize("loss", BOUNDED_LOSSES, ids=str)
def test_sgd_comes_near_the_solution_without_tuning(loss):
    """In any units: data a thousand times as large lead to coefficients a thousand times as small."""
    for unit in (1.0, 1e3):
        plain = sparse_model(loss=loss)
        model = LinearModel(plain.design._scipy() * unit, plain.target, loss)
        subproblem, start = subproblem_of(plain)
        center = start.x / unit
        gamma, constraint = subproblem.gamma * unit**2, constraints.MCP(lam=2.0 * unit, theta=0.25 / unit**2)
        start = Iterate(center, *model.value_and_gradient(center))
        subproblem = Subproblem(model, linearise(constraint, center, 4.2), center, gamma)
        best = subproblem.value(solve_well(subproblem, start).x)
        first, found = subproblem.value(center), SGD(passes=20).solve(subproblem, start, rng=np.random.default_rng(2))
        assert subproblem.value(found.x) - best <= 0.4 * (first - best)


def solve_well(subproblem, start):
    if subproblem.objective.smooth:
        return Spectral(max_steps=2000, accuracy=0.0).solve(subproblem, start)
    return choose("smoothing", subproblem.objective).solve(subproblem, start)


@STOCHASTIC
def test_the_answer_comes_with_psi_and_its_gradient(kind):
    model = sparse_model()
    subproblem, start = subproblem_of(model)
    found = kind().solve(subproblem, start, rng=np.random.default_rng(3))
    psi, gradient = model.value_and_gradient(found.x)
    assert found.psi == psi
    np.testing.assert_array_equal(found.gradient, gradient)
    assert found.n_inner > 0 and found.n_proj >= found.n_inner and found.n_grad > 1
    assert psi < start.psi
    check_feasible(subproblem, found.x)


@STOCHASTIC
def test_a_seed_fixes_every_bit_and_another_one_does_not(kind):
    problem = Problem(sparse_model(), MCP, 4.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        runs = [solve(problem, subsolver=kind(), max_iter=3, random_state=seed).x for seed in (5, 5, 6)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert np.any(runs[0] != runs[2])


@STOCHASTIC
@pytest.mark.parametrize("storage", [scipy.sparse.csc_array, lambda X: X.toarray(order="F")], ids=["CSC", "Fortran"])
def test_column_storage_is_copied_once_and_gives_the_same_points(kind, storage):
    answers = []
    for model in (sparse_model(), sparse_model(storage=storage)):
        subproblem, start = subproblem_of(model, gamma=0.01)
        answers.append(kind(batch_size=20).solve(subproblem, start, rng=np.random.default_rng(7)).x)
        assert model.by_rows is model.by_rows
        pickle.loads(pickle.dumps(model)).value_and_gradient(start.x)
    np.testing.assert_allclose(answers[0], answers[1], rtol=0, atol=1e-9)


def test_one_column_counts_as_rows_too():
    X, b = np.linspace(-1, 1, 30)[:, None], np.linspace(-2, 2, 30)
    found = solve(Problem(LinearModel(X, b), constraints.L1(), 1.5), subsolver="svrg", random_state=0)
    assert found.x == pytest.approx([1.5])


def test_samples_are_drawn_in_proportion_to_their_weights():
    weight = np.array([0.0, 1.0, 3.0, 0.0, 6.0, 0.0])
    model = LinearModel(np.eye(6), np.ones(6), sample_weight=weight)
    drawn = np.bincount(draw(model, 100_000, np.random.default_rng(0)), minlength=6) / 100_000
    assert np.all(drawn[weight == 0] == 0)
    np.testing.assert_allclose(drawn, weight / 10, atol=0.01)
    even = draw(LinearModel(np.eye(6), np.ones(6)), 60_000, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(even) / 60_000, 1 / 6, atol=0.01)


@STOCHASTIC
@pytest.mark.parametrize("size", [0, -3, True, 2.0, "many"])
def test_a_bad_batch_size_is_refused(kind, size):
    with pytest.raises(InvalidInputError, match="batch_size must be an integer of at least 1"):
        kind(batch_size=size)


@STOCHASTIC
def test_a_batch_larger_than_the_data_is_cut_with_a_warning(kind):
    model = sparse_model()
    subproblem, start = subproblem_of(model)
    message = "batch_size=5000 is larger than the number of samples 300; using 300"
    assert kind(batch_size=5000).warning(subproblem.objective) == message
    assert kind(batch_size=300).warning(subproblem.objective) == ""
    cut = kind(batch_size=5000).solve(subproblem, start, rng=np.random.default_rng(0))
    whole = kind(batch_size=300).solve(subproblem, start, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(cut.x, whole.x)


def test_the_automatic_batch_holds_as_many_entries_as_there_are_coordinates():
    assert batch_size(None, sparse_model(n=300, d=200)) == 20  # 10 entries a row
    assert batch_size(None, LinearModel(np.ones((50, 3)), np.ones(50))) == 16  # at least
    wide = LinearModel(scipy.sparse.eye_array(100, 1000, format="csr"), np.ones(100))
    assert batch_size(None, wide) == 100  # 1000 rows of one entry, but there are only 100
    assert batch_size(7, wide) == 7


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (SGD, {"passes": 0}),
        (SGD, {"passes": True}),
        (SVRG, {"max_epochs": 0}),
        (SVRG, {"max_epochs": 1.5}),
        (SVRG, {"inner_passes": -1.0}),
        (SVRG, {"accuracy": 1.0}),
    ],
)
def test_bad_settings_are_named(kind, options):
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        kind(**options)


def test_unsupported_objectives_are_refused():
    function = Function(lambda x: (float(x @ x), 2 * x), 3)
    with pytest.raises(InvalidInputError, match=r"'sgd' needs a linear model.*spectral"):
        choose("sgd", function)
    kinked = LinearModel(np.eye(3), np.ones(3), "absolute")
    with pytest.raises(InvalidInputError, match=r"'svrg' needs a linear model.*differentiable loss.*sgd"):
        choose("svrg", kinked)
    assert isinstance(choose("sgd", kinked), SGD)
    assert not isinstance(choose("auto", kinked), SGD)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_a_loss_of_unbounded_curvature_is_for_the_line_search_alone(loss):
    """Every other subsolver divides by L: each raises an error that names those that support it."""
    model = LinearModel(np.eye(3), np.ones(3), loss)
    assert model.smooth and model.smoothness == math.inf
    assert LinearModel(np.zeros((3, 2)), np.ones(3), loss).smoothness == math.inf
    assert isinstance(choose("auto", model), Newton) and isinstance(choose("spectral", model), Spectral)
    for name in ("nesterov", "acsa", "svrg", "sgd"):
        with pytest.raises(
            InvalidInputError, match=f"'{name}' needs .*poisson.*; subsolvers that can take it: newton, spectral$"
        ):
            choose(name, model)
    with pytest.raises(InvalidInputError, match="preset='paper' needs the smoothness L of the objective, which is un"):
        solve(Problem(model, constraints.L1(), 1.0), preset="paper")


@STOCHASTIC
@pytest.mark.usefixtures("processor_clock")
def test_limits_are_kept(kind):
    subproblem, start = subproblem_of(sparse_model())
    late = kind().solve(subproblem, start, seconds=-1.0, rng=np.random.default_rng(0))
    assert late.stop == "seconds" and late.n_inner == 0
    one = kind().limited_to(1).solve(subproblem, start, rng=np.random.default_rng(0))
    assert one.n_grad <= 4
    long = SGD(passes=1e5) if kind is SGD else SVRG(inner_passes=1e5)
    stopped = long.solve(subproblem, start, seconds=0.05, rng=np.random.default_rng(0))
    assert stopped.stop == "seconds" and stopped.n_inner > 0
    check_feasible(subproblem, stopped.x)


INTERRUPTED = """
import sys
import numpy as np
from tests.unit.methods.subsolvers.test_stochastic_subsolvers import SGD, SVRG, check_feasible
from tests.unit.methods.subsolvers.test_stochastic_subsolvers import sparse_model, subproblem_of
subproblem, start = subproblem_of(sparse_model())
long = SGD(passes=1e5) if sys.argv[1] == "SGD" else SVRG(inner_passes=1e5)
type(long)().limited_to(1).solve(subproblem, start)  # what is computed once is computed now
print("ready", flush=True)
stopped = long.solve(subproblem, start, rng=np.random.default_rng(0))
assert stopped.stop == "interrupted" and stopped.n_inner > 0
if stopped.x is not start.x:
    check_feasible(subproblem, stopped.x)
psi, gradient = subproblem.objective.value_and_gradient(stopped.x)
assert stopped.psi == psi and np.array_equal(stopped.gradient, gradient)
"""


@pytest.mark.process
@STOCHASTIC
def test_ctrl_c_ends_the_steps_with_a_feasible_point(kind):
    with Child(INTERRUPTED, kind.__name__) as child:
        assert child.line() == "ready"
        child.work(0.2)
        child.send_signal(signal.SIGINT)
        assert child.ended() == Ended(0, "", "")


@STOCHASTIC
def test_lcpp_gets_to_a_kkt_point(kind):
    """At a tolerance no finer than the method: sgd ends in its noise, svrg has none."""
    problem, tol = Problem(sparse_model(loss="squared"), constraints.L1(), 3.0), {SGD: 0.05, SVRG: 1e-7}[kind]
    result = solve(problem, subsolver=kind(), tol=tol, max_iter=100, random_state=0)
    assert result.status is Status.SOLVED
    assert result.kkt <= tol and result.g <= 3.0
