"""Subsolvers: each agrees with a slow implementation on the objectives it supports; others raise an error."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

from levelprox import LinearModel, Problem, _kernels, constraints, project, solve
from levelprox.exceptions import InvalidInputError, NumericalError
from levelprox.methods.lcpp import linearise
from levelprox.methods.subsolvers import ACSA, SUBSOLVERS, Nesterov, Smoothing, Spectral, Subproblem
from levelprox.methods.subsolvers._minibatch import draw
from levelprox.objectives import Function, Stochastic
from levelprox.result import Iterate
from tests.support import reference
from tests.support.registries import OBJECTIVES, ROUGH_OBJECTIVES, sampling_rows

MCP = constraints.MCP.from_threshold(0.5)
ACCURATE = Spectral(max_steps=20_000, accuracy=0.0)


def subproblem_of(objective, seed=0, center=None, weights=None, signs=(None, False), gamma=None):
    """A subproblem as a step of LCPP meets it, with its start; the center is feasible."""
    rng = np.random.default_rng(seed)
    d = objective.dimension
    if center is None:
        center = np.where(rng.random(d) < 0.4, 0.2 * rng.standard_normal(d), 0.0)
        center = np.abs(center) if signs[1] else center
    level = 1.3 * MCP.value(center, weights) + 0.2
    gamma = 3 * objective.weak_convexity or 0.2 * objective.curvature if gamma is None else gamma
    subproblem = Subproblem(objective, linearise(MCP, center, level, weights), center, gamma, signs)
    psi, gradient = objective.value_and_gradient(center)
    return subproblem, Iterate(center, psi, gradient, step=1 / objective.curvature)


def onto(subproblem):
    surrogate = subproblem.surrogate
    weights = np.ones(subproblem.center.size) if surrogate.weights is None else surrogate.weights
    nonnegative = np.full(subproblem.center.size, subproblem.signs[1])
    u = np.zeros(subproblem.center.size) if surrogate.u is None else surrogate.u
    return lambda v: project(v, u, surrogate.tau, weights=weights, nonnegative=nonnegative)[0]


def acsa_twin(subproblem, gradient, steps):
    mu, L = subproblem.objective.weak_convexity, subproblem.objective.smoothness
    return reference.acsa(gradient, subproblem.center, steps, onto(subproblem), subproblem.gamma, mu, L)


SMOOTH = [objective for objective in OBJECTIVES if math.isfinite(objective.smoothness)]


@pytest.mark.parametrize("objective", SMOOTH, ids=lambda of: type(of).__name__)
@pytest.mark.parametrize("signs", [(None, False), (None, True)], ids=["free", "nonnegative"])
def test_nesterov_is_its_twin(objective, signs):
    weights = np.linspace(0.5, 2, objective.dimension)
    weights[3] = 0.0
    subproblem, start = subproblem_of(objective, weights=weights, signs=signs)
    m, L = subproblem.gamma - objective.weak_convexity, objective.smoothness + subproblem.gamma
    for steps in (1, 2, 7, 30):
        fast = Nesterov(max_steps=steps, accuracy=0.0).solve(subproblem, start)
        slow = reference.nesterov(
            objective.value_and_gradient, subproblem.center, subproblem.gamma, onto(subproblem), L, m, steps
        )
        assert fast.n_inner <= steps
        assert fast.x == pytest.approx(slow, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    "objective", [*SMOOTH, ROUGH_OBJECTIVES[0], ROUGH_OBJECTIVES[3]], ids=lambda of: type(of).__name__
)
@pytest.mark.parametrize("signs", [(None, False), (None, True)], ids=["free", "nonnegative"])
def test_acsa_is_its_twin(objective, signs):
    subproblem, start = subproblem_of(objective, seed=1, signs=signs)
    for steps in (1, 2, 9, 40):
        slow = acsa_twin(subproblem, lambda x: objective.value_and_gradient(x)[1], steps)
        fast = ACSA(steps=steps).solve(subproblem, start)
        if subproblem.value(slow) > start.psi:  # then the start is the better point, and is kept
            slow = start.x
        assert fast.x == pytest.approx(slow, rel=1e-9, abs=1e-12)


def test_acsa_on_an_oracle_is_its_twin_with_the_same_samples():
    objective = ROUGH_OBJECTIVES[4]
    subproblem, start = subproblem_of(objective, seed=2)
    fast = ACSA(steps=50).solve(subproblem, start, rng=np.random.default_rng(5))
    rng = np.random.default_rng(5)
    slow = acsa_twin(subproblem, lambda x: objective.sample(x, rng), 50)
    assert fast.x == pytest.approx(slow, rel=1e-9, abs=1e-12)
    again = ACSA(steps=50).solve(subproblem, start, rng=np.random.default_rng(5))
    other = ACSA(steps=50).solve(subproblem, start, rng=np.random.default_rng(6))
    assert np.array_equal(again.x, fast.x) and not np.array_equal(other.x, fast.x)


LINEAR = [of for of in [*OBJECTIVES, *ROUGH_OBJECTIVES] if isinstance(of, LinearModel) and of.has_rows]


@pytest.mark.parametrize("objective", LINEAR, ids=lambda of: of.loss.name)
def test_acsa_on_batches_is_its_twin_with_the_same_rows(objective):
    subproblem, start = subproblem_of(objective, seed=6)
    fast = ACSA(steps=30, batch_size=7).solve(subproblem, start, rng=np.random.default_rng(8))
    rng, (n, d) = np.random.default_rng(8), objective.design.shape
    portion = 7 * (n // 7)
    samples = iter(np.concatenate([draw(objective, portion, rng) for _ in range(8)]).reshape(-1, 7))
    rows = np.column_stack([objective.design.matvec(e) for e in np.eye(d)])
    offset = np.zeros(n) if objective.offset is None else objective.offset

    def gradient(x):
        chosen = next(samples)
        slope, _ = objective.loss.subdifferential(rows[chosen] @ x + offset[chosen], objective.target[chosen])
        return rows[chosen].T @ slope / 7

    assert fast.x == pytest.approx(acsa_twin(subproblem, gradient, 30), rel=1e-9, abs=1e-12)
    again = ACSA(steps=30, batch_size=7).solve(subproblem, start, rng=np.random.default_rng(8))
    assert np.array_equal(fast.x, again.x)
    assert fast.n_grad == 1 + round(30 * 7 / n)


def test_batches_of_rows_have_the_noise_of_one_row_by_the_root_of_their_size():
    model = OBJECTIVES[1]
    assert ACSA(batch_size=4).noise(model) == pytest.approx(model.noise / 2)
    assert ACSA().noise(model) == 0
    assert math.isinf(ACSA(batch_size=4).noise(OBJECTIVES[0]))  # the slope of the squared loss has no bound
    with pytest.raises(InvalidInputError, match="noise sigma of the objective, which is unknown or unbounded"):
        solve(Problem(OBJECTIVES[0], MCP, 1.5), preset="paper", subsolver=ACSA(batch_size=4), max_iter=5)
    with pytest.warns(match="Ran the paper's method"):
        fit = solve(Problem(model, MCP, 1.5), preset="paper", subsolver=ACSA(batch_size=4), max_iter=5, random_state=0)
    assert fit.parameters.sigma == pytest.approx(model.noise / 2)


def test_batch_sizes_out_of_range():
    for wrong in (0, -3, 2.5, True):
        with pytest.raises(InvalidInputError, match="batch_size"):
            ACSA(batch_size=wrong)
    message = "batch_size=1000 is larger than the number of samples 40; using 40"
    assert ACSA(batch_size=1000).warning(OBJECTIVES[0]) == message


def test_the_kernel_refuses_samples_that_are_no_rows():
    subproblem, start = subproblem_of(OBJECTIVES[0])
    settings = _kernels.AcsaSettings(3, 1.0, 2.0, 1.0, 10.0)
    arguments = (subproblem.set, start.x, start.x, settings)
    model = OBJECTIVES[0].by_rows
    for samples, message in (
        ([0, 40], "not a row"),
        ([-1, 0], "not a row"),
        ([1, 2, 3], "whole number"),
        ([], "whole"),
    ):
        with pytest.raises(ValueError, match=message):
            _kernels.acsa_batches(model, *arguments, lambda samples=samples: np.array(samples, np.int64), 2)


@pytest.mark.parametrize("objective", SMOOTH, ids=lambda of: type(of).__name__)
@pytest.mark.parametrize(
    "subsolver", [Nesterov(max_steps=20_000, accuracy=0.0), ACSA(steps=20_000)], ids=["nag", "acsa"]
)
def test_every_smooth_subsolver_finds_the_same_solution_and_multiplier(objective, subsolver):
    subproblem, start = subproblem_of(objective, seed=3)
    best = ACCURATE.solve(subproblem, start)
    found = subsolver.solve(subproblem, start)
    gap = subproblem.value(found.x) - subproblem.value(best.x)
    assert -1e-12 <= gap <= 1e-7 * abs(best.psi)
    assert found.x == pytest.approx(best.x, abs=1e-4)
    assert found.multiplier == pytest.approx(best.multiplier, rel=1e-2, abs=1e-6)


@pytest.mark.parametrize("subsolver", [Spectral(), Nesterov(), ACSA()], ids=lambda s: s.name)
def test_a_start_away_from_the_center_changes_where_it_starts_not_what_is_solved(subsolver):
    objective = OBJECTIVES[0]
    subproblem, at_center = subproblem_of(objective, seed=4)
    best = ACCURATE.solve(subproblem, at_center)
    psi, gradient = objective.value_and_gradient(best.x)
    stays = subsolver.solve(subproblem, Iterate(best.x, psi, gradient, step=1 / objective.curvature))
    assert stays.x == pytest.approx(best.x, abs=1e-6)
    assert subproblem.value(stays.x) <= subproblem.value(best.x) * (1 + 1e-14)


# --- smoothing


@pytest.mark.parametrize("objective", ROUGH_OBJECTIVES[:3], ids=lambda of: type(of).__name__)
def test_smoothing_solves_a_subproblem_with_kinks_exactly(objective, cp):
    subproblem, iterate = subproblem_of(objective, seed=5)
    for _ in range(80):
        iterate = Smoothing(max_steps=500, accuracy=1e-3).solve(subproblem, iterate)
    x, surrogate = cp.Variable(objective.dimension), subproblem.surrogate
    rows = np.column_stack([objective.design.matvec(e) for e in np.eye(objective.dimension)])
    z = rows @ x + (0 if objective.offset is None else objective.offset)
    residual = objective.target - z
    losses = {
        "absolute": lambda: cp.abs(residual),
        "quantile": lambda: cp.maximum(0.8 * residual, -0.2 * residual),
        "hinge": lambda: cp.pos(1 - cp.multiply(objective.target, z)),
    }[objective.loss.name]()
    weight = np.ones(40) if objective.sample_weight is None else objective.sample_weight
    spent = cp.norm1(x) + surrogate.u @ x
    value = weight @ losses / weight.sum() + subproblem.gamma / 2 * cp.sum_squares(x - subproblem.center)
    cp.Problem(cp.Minimize(value), [spent <= surrogate.tau]).solve(
        solver="CLARABEL", tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13
    )
    assert iterate.x == pytest.approx(x.value, abs=1e-6)
    assert subproblem.value(iterate.x) <= subproblem.value(np.array(x.value)) + 1e-10
    assert iterate.kinks.missed <= 1e-10


@pytest.mark.parametrize("objective", ROUGH_OBJECTIVES[:3], ids=lambda of: type(of).__name__)
@pytest.mark.parametrize("constraint", [MCP, constraints.Log(2.0), constraints.L1()], ids=lambda of: type(of).__name__)
def test_losses_with_kinks_are_solved_to_a_certificate_by_default(objective, constraint):
    fit = solve(Problem(objective, constraint, 0.4 * constraint.value(np.full(10, 0.4))))
    assert fit.subsolver == "smoothing"
    assert fit.success and fit.kkt <= 1e-6 and fit.certificate.delta == 0


def test_without_the_shift_the_kinks_are_missed(monkeypatch):
    """Plain smoothing, ever narrower, is what the shift is better than."""
    objective = ROUGH_OBJECTIVES[0]
    problem = Problem(objective, MCP, 2.5)
    assert solve(problem, max_iter=60).kkt <= 1e-6
    shifted = LinearModel.with_envelope
    monkeypatch.setattr(LinearModel, "with_envelope", lambda self, width, slopes: shifted(self, width, 0 * slopes))
    with pytest.warns(match="KKT"):
        assert solve(problem, max_iter=60).kkt > 1e-3


# --- what they cannot take, and bad settings


def test_a_subsolver_names_those_that_can():
    kinked, unknown = ROUGH_OBJECTIVES[0], OBJECTIVES[-1]
    with pytest.raises(InvalidInputError, match=r"'spectral' needs a differentiable .* take it: smoothing, .*acsa"):
        solve(Problem(kinked, MCP, 1.5), subsolver="spectral")
    with pytest.raises(InvalidInputError, match=r"'nesterov' needs .* known L .*smoothness.*take it: spectral$"):
        solve(Problem(unknown, MCP, 1.5), subsolver="nesterov")
    with pytest.raises(InvalidInputError, match=r"'smoothing' needs a linear model whose loss has kinks.*acsa$"):
        solve(Problem(ROUGH_OBJECTIVES[4], MCP, 1.5), subsolver="smoothing")
    lost = Function(lambda x: (0.0, x), 3, nonsmoothness=1.0)
    with pytest.raises(InvalidInputError, match="no subsolver can take this objective: 'newton' needs"):
        solve(Problem(lost, MCP, 1.5))


@pytest.mark.parametrize("objective", [*OBJECTIVES, *ROUGH_OBJECTIVES], ids=lambda of: type(of).__name__)
def test_auto_takes_one_that_can(objective):
    able = [name for name, kind in SUBSOLVERS.items() if kind.can_take(objective)]
    assert able
    # Where subgradients cannot be listed x itself is no KKT point; the warning says what it is near to.
    black_box = isinstance(objective, Function) and not objective.smooth
    known = black_box or getattr(objective, "exact", None) is not None
    expected = pytest.warns(match=r"an \(ε, δ\)-KKT point" if known else "KKT")
    with np.errstate(all="raise"), expected if objective.sampled or black_box else nullcontext():
        fit = solve(Problem(objective, MCP, 1.5), max_iter=3 if objective.sampled else 1000, random_state=0)
    assert fit.subsolver == able[0]


@pytest.mark.parametrize(
    ("build", "options"),
    [
        (ACSA, {"steps": 0}),
        (ACSA, {"steps": 2.5}),
        (ACSA, {"steps": True}),
        (Nesterov, {"max_steps": 0}),
        (Nesterov, {"accuracy": 1.0}),
        (Smoothing, {"max_steps": -1}),
        (Smoothing, {"accuracy": "much"}),
    ],
)
def test_bad_settings(build, options):
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        build(**options)


def test_acsa_needs_a_gamma_above_the_weak_convexity():
    objective = ROUGH_OBJECTIVES[4]
    subproblem, start = subproblem_of(objective, gamma=objective.weak_convexity)
    with pytest.raises(InvalidInputError, match="gamma above the weak-convexity"):
        ACSA(steps=3).solve(subproblem, start, rng=np.random.default_rng(0))
    with pytest.raises(InvalidInputError, match="weak-convexity constant"):
        solve(Problem(objective, MCP, 1.5), gamma=0.5 * objective.weak_convexity)


# --- the user's oracle


def exact(x):
    return 0.5 * float(np.sum((x - 1) ** 2)), x - 1


def oracle(x, rng):
    return x - 1 + 0.1 * rng.standard_normal(x.size)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": -1.0}, r"noise must be in \[0, inf\), got -1.0"),
        ({"noise": math.nan}, "noise must be a number, got NaN"),
        ({"noise": "loud"}, "noise"),
        ({"noise": 1.0, "smoothness": -2.0}, r"smoothness must be in \[0, inf\)"),
        ({"noise": 1.0, "nonsmoothness": math.inf}, "nonsmoothness must be in"),
        ({"noise": 1.0, "weak_convexity": -1}, "weak_convexity must be in"),
        ({"noise": 1.0, "samples": 1}, "samples must be an integer of at least 2"),
        ({"noise": 1.0, "samples": 2.0}, "samples must be an integer of at least 2"),
    ],
)
def test_wrong_constants_are_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        Stochastic(oracle, 3, **{"smoothness": 1.0, **options})


def test_the_noise_must_be_declared():
    with pytest.raises(TypeError, match="noise"):
        Stochastic(oracle, 3)
    with pytest.raises(InvalidInputError, match="oracle must be a function"):
        Stochastic("oracle", 3, noise=1.0)
    with pytest.raises(InvalidInputError, match="number of coordinates must be an integer of at least 1"):
        Stochastic(oracle, 0, noise=1.0)
    with pytest.raises(InvalidInputError, match=r"declare smoothness \(L\) or nonsmoothness \(M\)"):
        Stochastic(oracle, 3, noise=1.0)


def broken(answer, after=5):
    calls = []

    def oracle(x, rng):
        calls.append(1)
        return answer if len(calls) > after else np.zeros(3)

    return oracle


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.zeros(2), r"shape \(3,\), got \(2,\)"),
        (np.zeros((3, 1)), r"shape \(3,\)"),
        ("gradient", "gradient"),
        ((1.0, np.zeros(3), 2.0), r"gradient or \(value, gradient\), got 3 things"),
        (("value", np.zeros(3)), "the value"),
    ],
)
def test_an_oracle_that_returns_nonsense_is_named(answer, message):
    objective = Stochastic(broken(answer, after=0), 3, noise=1.0, smoothness=1.0, exact=exact)
    with pytest.raises(InvalidInputError, match=message):
        solve(Problem(objective, MCP, 1.5), max_iter=5, random_state=0)
    objective = Stochastic(broken(answer, after=250), 3, noise=1.0, smoothness=1.0, exact=exact)
    with pytest.raises(NumericalError, match=message) as caught:
        solve(Problem(objective, MCP, 1.5), max_iter=5, random_state=0)
    assert MCP.value(caught.value.result.x) <= 1.5  # the last good point


@pytest.mark.parametrize("answer", [np.full(3, np.nan), np.array([0, np.inf, 0])])
def test_an_oracle_that_is_not_finite_ends_the_run_with_the_last_good_point(answer):
    objective = Stochastic(broken(answer, after=250), 3, noise=1.0, smoothness=1.0, exact=exact)
    with pytest.raises(NumericalError, match="not finite") as caught:
        solve(Problem(objective, MCP, 1.5), max_iter=5, random_state=0)
    result = caught.value.result
    assert np.all(np.isfinite(result.x)) and MCP.value(result.x) <= 1.5


def test_an_oracle_that_raises_is_chained():
    def oracle(x, rng):
        raise RuntimeError("no more data")

    objective = Stochastic(oracle, 3, noise=1.0, smoothness=1.0, exact=exact)
    with pytest.raises(NumericalError, match="no more data") as caught:
        solve(Problem(objective, MCP, 1.5), max_iter=5, random_state=0)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_without_an_exact_form_averages_and_their_error_are_reported():
    model = OBJECTIVES[0]
    objective = Stochastic(sampling_rows(model, 4), 10, noise=5.0, smoothness=model.smoothness, samples=1000)
    x = np.linspace(-0.5, 0.5, 10)
    value, gradient = objective.value_and_gradient(x)
    true, slope = model.value_and_gradient(x)
    error = objective.gradient_error(x)
    assert 0 < np.linalg.norm(gradient - slope) < 3 * error
    assert value == pytest.approx(true - model.value_and_gradient(0 * x)[0], abs=0.2)  # relative to ψ(0)

    def with_values(x, rng):
        return 7.0 + rng.standard_normal(), np.zeros(10)

    valued = Stochastic(with_values, 10, noise=1.0, smoothness=1.0, samples=1000)
    assert valued.value_and_gradient(x)[0] == pytest.approx(7.0, abs=0.2)

    def cheap(x, rng):  # the certificate of a nearby point takes thousands of samples
        return x - 0.5 + rng.standard_normal(10)

    few = Stochastic(cheap, 10, noise=math.sqrt(10), smoothness=1.0, samples=20)
    with pytest.warns(match="KKT"):
        fit = solve(Problem(few, MCP, 1.5), subsolver=ACSA(steps=200), max_iter=2, random_state=0)
    assert fit.certificate.gradient_error > 0
    assert "an average over samples" in str(fit.certificate)


def test_restricting_an_oracle_restricts_its_samples():
    objective = ROUGH_OBJECTIVES[4]
    W = np.array([2, 5, 7])
    part = objective.restrict(W)
    x = np.zeros(10)
    x[W] = [0.3, -0.2, 0.1]
    whole = objective.sample(x, np.random.default_rng(1))
    assert np.array_equal(part.sample(x[W], np.random.default_rng(1)), whole[W])
    value, gradient = part.value_and_gradient(x[W])
    true, slope = objective.value_and_gradient(x)
    assert value == true and np.array_equal(gradient, slope[W])


# --- the same bits for a seed, for any number of threads

BITS = """
import hashlib, sys, warnings
import numpy as np, scipy.sparse
from concurrent.futures import ThreadPoolExecutor
from levelprox import LinearModel, Problem, constraints, solve
from levelprox.methods.subsolvers import ACSA
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = scipy.sparse.random_array((400, 20_000), density=0.01, rng=rng, format="csr")
b = np.sign(X[:, :50] @ np.ones(50) + 0.01 * rng.standard_normal(400))
def bits(subsolver):
    loss = "hinge" if subsolver == "smoothing" else "logistic"
    problem = Problem(LinearModel(X, b, loss), constraints.MCP.from_threshold(0.5), 9.5)
    return hashlib.sha256(solve(problem, subsolver=subsolver, max_iter=2, random_state=7).x.tobytes()).hexdigest()
subsolvers = ["sgd", "svrg", "nesterov", "spectral", "smoothing", ACSA(steps=50, batch_size=30)]
with ThreadPoolExecutor(int(sys.argv[1])) as pool:
    print(*pool.map(bits, subsolvers))
"""


@pytest.mark.process
@pytest.mark.extended  # interpreters of their own
def test_a_seed_gives_the_same_bits_whatever_the_threads():
    seen = set()
    for at_once, blas in ((1, "1"), (4, "2")):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": blas, "OMP_NUM_THREADS": blas}
        seen.add(subprocess.check_output([sys.executable, "-c", BITS, str(at_once)], env=environment, text=True))
    assert len(seen) == 1


@pytest.mark.parametrize("subsolver", [Nesterov(), ACSA(steps=50)], ids=["nag", "acsa"])
def test_ctrl_c_is_not_hidden_by_a_step_that_is_rejected(subsolver):
    calls, H = [], np.array([100.0, 1.0, 1.0])

    def fun(x):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return 0.5 * float((x - 1) @ (H * (x - 1))), H * (x - 1)

    objective = Function(fun, 3, smoothness=1.0)  # a hundred times too small: every step overshoots
    center = np.zeros(3)
    subproblem = Subproblem(objective, linearise(constraints.L1(), center, 2.9), center, 0.1)
    step = subsolver.solve(subproblem, Iterate(center, 51.0, -H))
    assert step.stop == "interrupted" and np.array_equal(step.x, center)
