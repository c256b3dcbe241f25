"""The (ε, δ)-KKT statement, and runs with exactly what the theorems assume."""

from __future__ import annotations

import math

import numpy as np
import pytest

from levelprox import Function, LinearModel, Problem, Stochastic, constraints, solve, theory
from levelprox.exceptions import InvalidInputError
from levelprox.methods.lcpp import linearise
from levelprox.methods.subsolvers import ACSA, Subproblem
from levelprox.theory.approximate_kkt import expected_kkt, nearby_kkt
from tests.support.registries import OBJECTIVES, ROUGH_OBJECTIVES, sampling_rows

MCP = constraints.MCP.from_threshold(0.5)
ABSOLUTE = ROUGH_OBJECTIVES[0]


def far_from_kinks(problem):
    """A solution, moved a little: no residual is at a kink any more."""
    x = solve(problem).x
    return x * (1 - 1e-4)


def test_next_to_a_kink_x_is_no_kkt_point_but_near_one():
    problem = Problem(ABSOLUTE, MCP, 2.5)
    x = far_from_kinks(problem)
    near = nearby_kkt(problem, x)
    at_x = nearby_at(problem, x)
    assert at_x > 1e-3  # the subgradients at x itself say nothing
    assert near.epsilon < 1e-6 and 0 < near.delta < 1e-6
    assert problem.is_feasible(near.x_bar)
    assert near.delta == pytest.approx(float(np.sum((x - near.x_bar) ** 2)))


def nearby_at(problem, x):
    from levelprox import certify

    return certify(problem, x).epsilon


def test_x_bar_solves_the_subproblem_that_x_came_from():
    problem = Problem(ABSOLUTE, MCP, 2.5)
    center, eta_k, gamma = np.zeros(10), 2.0, 0.5
    step = ACSA(steps=300).solve(
        Subproblem(ABSOLUTE, linearise(MCP, center, eta_k), center, gamma),
        _iterate(ABSOLUTE, center),
    )
    near = nearby_kkt(problem, step.x, center=center, level=eta_k, gamma=gamma)
    subproblem = Subproblem(ABSOLUTE, linearise(MCP, center, eta_k), center, gamma)
    assert subproblem.value(near.x_bar) <= subproblem.value(step.x)
    bound = theory.acsa_bound(300, float(np.sum(near.x_bar**2)), gamma=gamma, mu=0.0, L=0.0, M=ABSOLUTE.nonsmoothness)
    assert subproblem.value(step.x) - subproblem.value(near.x_bar) <= bound
    assert near.delta <= 2 / gamma * bound  # strong convexity


def _iterate(objective, x):
    from levelprox.result import Iterate

    psi, gradient = objective.value_and_gradient(x)
    return Iterate(x, psi, gradient)


def test_where_subgradients_cannot_be_listed_the_proof_bounds_them():
    known = Problem(ABSOLUTE, MCP, 2.5)
    own = Problem(ROUGH_OBJECTIVES[3], MCP, 2.5)  # the same ψ as a function of the user's
    center = solve(known).x * 0.9
    for gamma in (0.3, 3.0):
        exact = nearby_kkt(known, center, gamma=gamma)
        bounded = nearby_kkt(own, center, gamma=gamma)
        assert bounded.x_bar == pytest.approx(exact.x_bar, abs=1e-2)
        # What the proof bounds is at least the distance itself, up to the accuracy of AC-SA.
        assert bounded.stationarity_squared >= 0.9 * exact.stationarity_squared
        assert bounded.multiplier == pytest.approx(exact.multiplier, rel=0.2)


@pytest.mark.parametrize("objective", [OBJECTIVES[0], ROUGH_OBJECTIVES[4]], ids=["exact", "sampled"])
def test_smooth_and_sampled_objectives_have_an_approximate_kkt_point_too(objective):
    problem = Problem(objective, MCP, 1.5)
    near = nearby_kkt(problem, np.zeros(10))
    assert problem.is_feasible(near.x_bar) and near.delta > 0
    again = nearby_kkt(problem, near.x_bar)
    assert again.epsilon < near.epsilon


def test_gamma_must_be_above_the_weak_convexity():
    with pytest.raises(InvalidInputError, match="gamma must be above"):
        nearby_kkt(Problem(OBJECTIVES[3], MCP, 1.5), np.zeros(10), gamma=OBJECTIVES[3].weak_convexity)


def test_expectations_are_means_with_standard_errors():
    problem = Problem(ROUGH_OBJECTIVES[4], MCP, 1.5)
    runs = [nearby_kkt(problem, np.full(10, 0.01 * k)) for k in range(4)]
    expected = expected_kkt(runs)
    deltas = np.array([run.delta for run in runs])
    assert expected.delta == pytest.approx(deltas.mean())
    assert expected.delta_error == pytest.approx(deltas.std(ddof=1) / 2)
    assert expected.epsilon == max(expected.stationarity_squared, expected.complementarity)
    with pytest.raises(InvalidInputError, match="at least 2 runs"):
        expected_kkt(runs[:1])


def test_a_run_that_ends_beside_a_kink_reports_both_epsilon_and_delta():
    with pytest.warns(match=r"an \(ε, δ\)-KKT point with ε = .*, δ = "):
        fit = solve(Problem(ABSOLUTE, MCP, 2.5), subsolver="acsa", max_iter=30)
    certificate = fit.certificate
    assert certificate.epsilon == certificate.near_epsilon < 1e-3 < certificate.stationarity_squared
    assert certificate.delta == certificate.near_delta > 0
    assert f"δ = {certificate.delta:.2g}" in str(certificate)


# --- preset="paper"


@pytest.mark.parametrize("objective", [*OBJECTIVES[:4], *ROUGH_OBJECTIVES], ids=lambda of: type(of).__name__)
def test_the_preset_runs_what_the_corollaries_assume(objective):
    problem, K = Problem(objective, MCP, 1.5), 12
    with pytest.warns(match="Ran the paper's method"):
        fit = solve(problem, preset="paper", max_iter=K, random_state=3)
    p = fit.parameters
    sigma = objective.noise if objective.sampled else 0.0
    mu, L, M = objective.weak_convexity, objective.smoothness, objective.nonsmoothness
    assert fit.subsolver == "acsa" and fit.levels == "harmonic"
    assert fit.gamma == p.gamma == pytest.approx(3 * mu if mu else 0.1 * L if L else 0.1 * objective.curvature)
    assert p.steps == math.ceil(max(2 * math.sqrt((L + p.gamma) / p.rho), K * (M + sigma)))
    assert fit.n_inner == fit.n_outer * p.steps
    # k̂ is the first draw of the seed, uniform on {⌊(K+1)/2⌋, …, K}; η_k = (kη + η_0)/(k+1)
    assert fit.n_outer == theory.draw_k_hat(K, np.random.default_rng(3))
    eta0 = theory.eta0(MCP, 1.5)
    for record in fit.history:
        assert record.eta_k == pytest.approx((record.k * 1.5 + eta0) / (record.k + 1))
    again = solve_quietly(problem, preset="paper", max_iter=K, random_state=3)
    assert np.array_equal(again.x, fit.x)


def solve_quietly(problem, **options):
    with pytest.warns(match="KKT"):
        return solve(problem, **options)


def test_every_k_hat_is_drawn():
    problem = Problem(OBJECTIVES[0], MCP, 1.5)
    drawn = {solve_quietly(problem, preset="paper", max_iter=4, random_state=seed).n_outer for seed in range(30)}
    assert drawn == {2, 3, 4}


def test_gamma_may_be_chosen_with_the_preset():
    model = OBJECTIVES[0]
    fit = solve_quietly(Problem(model, MCP, 1.5), preset="paper", max_iter=5, gamma=2.0, random_state=0)
    assert fit.gamma == 2.0 and fit.parameters.rho == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": "constant", "surrogate": "concave"}, "sets surrogate itself"),
        ({"levels": "geometric"}, "sets levels itself"),
        ({"stopping": "change"}, "sets stopping itself"),
        ({"subsolver": "spectral"}, "runs the subsolver acsa"),
        ({"subsolver": ACSA(steps=5)}, "sets the steps of acsa itself"),
        ({"max_iter": 2}, "takes max_iter for K, which must be at least 3, got 2"),
        ({"gamma": -1.0}, "gamma must be in"),
        ({"preset": "fast"}, "preset must be one of paper"),
    ],
)
def test_the_paper_preset_refuses_what_the_theorems_exclude(options, message):
    with pytest.raises(InvalidInputError, match=message):
        solve(Problem(OBJECTIVES[0], MCP, 1.5), **{"preset": "paper", "max_iter": 10, **options})


def test_the_preset_needs_the_constants():
    unknown = Function(lambda x: (float(x @ x), 2 * x), 3)
    with pytest.raises(InvalidInputError, match="smoothness L"):
        solve(Problem(unknown, MCP, 1.5), preset="paper", max_iter=10)
    with pytest.raises(InvalidInputError, match="whole number of caps"):
        solve(Problem(OBJECTIVES[0], MCP, 2.0), preset="paper", max_iter=10)


def test_a_start_above_eta0_is_refused():
    x0 = np.zeros(10)
    x0[0] = 0.6  # spends one cap, and η_0 is 1.25
    problem = Problem(OBJECTIVES[0], MCP, 1.5)
    assert solve_quietly(problem, preset="paper", max_iter=5, x0=x0, random_state=0).g <= 1.5
    x0[1] = 0.1
    with pytest.raises(InvalidInputError, match="eta0"):
        solve(problem, preset="paper", max_iter=5, x0=x0, random_state=0)


def test_an_exact_objective_may_stand_beside_its_samples():
    model = LinearModel(np.eye(4), np.ones(4))
    objective = Stochastic(
        sampling_rows(model, 2), 4, noise=2.0, smoothness=model.smoothness, exact=model.value_and_gradient
    )
    fit = solve_quietly(Problem(objective, MCP, 1.5), preset="paper", max_iter=10, random_state=0)
    assert fit.certificate.gradient_error == 0
    assert fit.certificate.near_epsilon < 0.5 and fit.certificate.near_delta > 0
