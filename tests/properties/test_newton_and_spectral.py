"""Newton's steps on working sets and the paper's method end in the same points, for every constraint and loss."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import threadpool_limits

from levelprox import Function, LinearModel, MultinomialModel, Problem, Status, _kernels, certify, solve
from levelprox.constraints import L1, MCP, SCAD
from levelprox.exceptions import ConvergenceWarning
from levelprox.methods.subsolvers import Spectral
from tests.support.registries import CONSTRAINTS

TOL = 1e-9
RNG = np.random.default_rng(5)
X = RNG.standard_normal((60, 15))
BETA = np.where(np.arange(15) < 4, 1 - 0.2 * np.arange(15), 0.0) * (-1.0) ** np.arange(15)
Z = X @ BETA
TARGETS = {
    "squared": Z + 0.5 * RNG.standard_normal(60),
    "huber": Z + 0.5 * RNG.standard_t(2, 60),
    "cauchy": Z + 0.5 * RNG.standard_t(2, 60),
    "poisson": RNG.poisson(np.exp(Z)).astype(float),
    "gamma": np.exp(Z) * RNG.gamma(2, 0.5, 60),
    "logistic": np.sign(Z + RNG.logistic(size=60)),
    "squared_hinge": np.sign(Z + RNG.logistic(size=60)),
    "sigmoid": np.sign(Z + RNG.logistic(size=60)),
    "multinomial": np.argmax(X[:, :3] @ RNG.standard_normal((3, 3)) * 2 + RNG.gumbel(size=(60, 3)), axis=1),
}
WEIGHTS, OFFSET = RNG.uniform(0.5, 2, 60), 0.3 * RNG.standard_normal(60)


def problem_of(loss, place):
    """A constraint of the registry at a level that binds; sample weights, offsets and intercepts in turn."""
    constraint = CONSTRAINTS[place]
    options = [{}, {"sample_weight": WEIGHTS}, {"fit_intercept": True}][place % 3]
    if loss == "sigmoid":  # an intercept alone keeps gaining: nothing would be left to fit
        options.pop("fit_intercept", None)
    if loss == "multinomial":
        objective = MultinomialModel(X, TARGETS[loss], **options)
    else:
        objective = LinearModel(X, TARGETS[loss], loss, **options, **({"offset": OFFSET} if place % 2 else {}))
    return Problem(objective, constraint, 0.45 * constraint.value(BETA))


def patient(problem, tol, **options):
    """The paper's steps, as many as are reasonable."""
    objective = problem.objective
    if objective.weak_convexity > 0:  # γ = 3μ, which is safe, is slow: say that μ is 0, and ψ is watched anyway
        objective = Function(objective.value_and_gradient, objective.dimension)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        same = Problem(objective, problem.constraint, problem.level, problem.weights)
        return solve(same, subsolver=Spectral(max_steps=100), tol=tol, max_iter=300, **options)


@pytest.mark.parametrize("loss", TARGETS)
@pytest.mark.parametrize("place", range(len(CONSTRAINTS)), ids=lambda place: repr(CONSTRAINTS[place]))
def test_newton_and_spectral_agree(place, loss):
    problem = problem_of(loss, place)
    rough = patient(problem, 1e-3)  # so that both are in the same valley
    with warnings.catch_warnings():
        if loss == "sigmoid":  # keeps gaining beyond the threshold; not part of this test
            warnings.filterwarnings("ignore", "the data are separable", ConvergenceWarning)
        newton = solve(problem, tol=TOL, x0=rough.x)
    assert newton.subsolver == "newton" and newton.status is Status.SOLVED
    assert certify(problem, newton.x).kkt <= TOL
    spectral = patient(problem, TOL, x0=rough.x)
    if spectral.status is Status.SOLVED:
        assert newton.psi == pytest.approx(spectral.psi, rel=1e-8)
        assert newton.multiplier == pytest.approx(spectral.multiplier, rel=1e-4, abs=1e-8)
    else:
        # With γ = 3μ the steps of nonconvex losses are short; what they reached is no better.
        assert loss in ("sigmoid", "cauchy"), spectral.message
        assert newton.psi <= spectral.psi * (1 + 1e-8)


def large(storage):
    rng = np.random.default_rng(6)
    if storage in ("csr", "csc"):
        return scipy.sparse.random_array((20_000, 400), density=0.05, rng=rng, format=storage)
    return np.array(rng.standard_normal((20_000, 40)), order="F" if storage == "F" else "C")


@pytest.mark.parametrize("storage", ["C", "F", "csr", "csc", "classes"])
def test_the_number_of_threads_does_not_show(storage):
    design = large(storage)
    signal = design @ np.where(np.arange(design.shape[1]) < 8, 1.0, 0.0)
    noise = np.random.default_rng(7).logistic(size=20_000)
    if storage == "classes":
        objective = MultinomialModel(design, np.digitize(signal + noise, [-2, 2]))
    else:
        objective = LinearModel(design, np.sign(signal + noise), "logistic", fit_intercept=True)
    problem = Problem(objective, MCP.from_threshold(0.4), 5.5)
    fits = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            assert _kernels.thread_count() == threads
            fits.append(solve(problem, tol=1e-7))
    one, two = fits
    assert one.success and two.success
    assert np.array_equal(one.x != 0, two.x != 0)
    assert two.psi == pytest.approx(one.psi, rel=1e-12)
    assert (one.n_outer, one.n_grad) == (two.n_outer, two.n_grad)


@pytest.mark.parametrize("constraint", [L1(), MCP(2, 5), SCAD(1, 3.7)], ids=repr)
def test_a_model_given_by_products_agrees_with_one_that_is_formed(constraint, monkeypatch):
    """Where there are more coordinates than samples, or a model would be larger than the data."""
    from levelprox.methods.subsolvers import newton

    problem = Problem(LinearModel(X, TARGETS["logistic"], "logistic"), constraint, 0.45 * constraint.value(BETA))
    formed = solve(problem, tol=TOL)
    monkeypatch.setattr(newton, "_is_formed", lambda objective: False)
    products = solve(problem, tol=TOL, x0=formed.x * (1 - 1e-2))
    assert products.success and products.psi == pytest.approx(formed.psi, rel=1e-8)
    cold = solve(problem, tol=1e-7)
    assert cold.success and cold.kkt <= 1e-7
