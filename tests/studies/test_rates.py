"""The experiment on Table 1: its problems are what they say, its figures are the paper's, its verdict can fall."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from experiments import finite_sum, rates
from experiments.cells import table
from experiments.datasets import Places
from experiments.measure import Path, distance_squared, seeds_that_draw_the_last, solution
from experiments.reproduce.study import Scope
from experiments.studies import rates as studies_rates
from levelprox.certificate.residual import Residual
from levelprox.objectives import Subgradients
from levelprox.theory import draw_k_hat

CELLS = table()
STOCHASTIC = CELLS[4:]


class Row:
    """Stands in for a generator: every draw is row i of n."""

    def __init__(self, i, n):
        self.i, self.n = i, n

    def random(self):
        return (self.i + 0.5) / self.n


def points(count=20):
    return np.random.default_rng(1).standard_normal((count, 10))


def test_the_eight_entries_are_different_and_have_the_exponents_of_the_table():
    assert len({cell.name for cell in CELLS}) == 8
    assert [cell.exponent for cell in CELLS] == [1, 2, 1, 2, 2, 2, 2, 2]
    for cell in CELLS:
        objective = cell.problem.objective
        assert (objective.sampled, objective.smooth, objective.weak_convexity == 0) == (
            cell.stochastic,
            cell.smooth,
            cell.convex,
        )


@pytest.mark.parametrize("cell", STOCHASTIC, ids=lambda cell: cell.name)
def test_the_oracle_is_unbiased_and_its_noise_at_most_sigma(cell):
    n, oracle = 64, cell.problem.objective
    for x in points():
        _, gradient = cell.exact.objective.value_and_gradient(x)
        samples = np.array([oracle.sample(x, Row(i, n)) for i in range(n)])
        np.testing.assert_allclose(samples.mean(axis=0), gradient, atol=1e-13)
        assert np.mean(np.sum((samples - gradient) ** 2, axis=1)) <= oracle.noise**2


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_the_declared_constants_hold(cell):
    psi, declared = cell.exact.objective.value_and_gradient, cell.problem.objective
    for y, d in zip(points(200), points(400)[200:], strict=True):
        for size in (0.01, 1.0):
            apart = size * float(np.linalg.norm(d))
            above = psi(y + size * d)[0] - psi(y)[0] - size * float(psi(y)[1] @ d)
            assert above >= -declared.weak_convexity / 2 * apart**2 - 1e-13
            assert above <= declared.smoothness / 2 * apart**2 + declared.nonsmoothness * apart + 1e-13


def shifted(problem, shift):
    """The arguments of `distance_squared`, with a linear function added to ψ."""

    def value_and_gradient(x):
        value, gradient = problem.objective.value_and_gradient(x)
        return value + shift @ x, gradient + shift

    def subgradients(x):
        found = problem.objective.subgradients(x)
        return found and Subgradients(**{**vars(found), "center": found.center + shift})

    objective = SimpleNamespace(value_and_gradient=value_and_gradient, subgradients=subgradients)
    return SimpleNamespace(objective=objective, constraint=problem.constraint)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_the_solution_and_its_multiplier_solve_the_subproblem(cell):
    """0 ∈ ∂ψ(x̄) + ȳ ∂g(x̄) + γ(x̄ − x^{k−1}) + ȳ(∇h(x̄) − ∇h(x^{k−1})): the proof's bound on the distance is the shift."""
    path, phi = Path(cell, 6, seed=next(seeds_that_draw_the_last(6))), cell.exact.constraint

    def gradient_of_h(x):
        return (phi.lam - phi.slope(np.abs(x))) * np.sign(x)

    for k in (4, 5, 6):
        x, center, level, gamma = path.step(k)
        x_bar, y_bar = solution(cell.exact, x, center, level, gamma)
        assert cell.exact.g(x_bar) <= level
        shift = gamma * (x_bar - center) + y_bar * (gradient_of_h(x_bar) - gradient_of_h(center))
        assert distance_squared(shifted(cell.exact, shift), x_bar, y_bar) < 1e-16
        assert distance_squared(shifted(cell.exact, shift), x_bar, 1.01 * y_bar) > 1e-12
        assert distance_squared(cell.exact, x_bar, y_bar) <= shift @ shift * (1 + 1e-6)


def test_the_distance_of_a_smooth_objective_is_the_residual_of_the_certificate():
    problem = CELLS[0].exact
    for x in points(5):
        x[::2] = 0
        _, gradient = problem.objective.value_and_gradient(x)
        for y in (0.0, 0.1, 1.0):
            expected = float(np.sum(Residual(problem, x, gradient, measured=False).each(y) ** 2))
            assert distance_squared(problem, x, y) == pytest.approx(expected, rel=1e-9)


def test_a_run_that_draws_the_last_step_passes_through_all_other_answers():
    cell, K = CELLS[4], 5
    long = Path(cell, K, next(seeds_that_draw_the_last(K)))
    assert len(long.x) == K + 1 and long.eta[1:] == sorted(long.eta[1:])
    assert draw_k_hat(K, np.random.default_rng(next(seeds_that_draw_the_last(K)))) == K


def planted(p, runs=4, spread=0.02, correction=-1.0):
    """A curve whose quantities all have N = q^{−p}, up to a factor, a next order and the spread of the runs."""
    K = np.geomspace(6, 240, 10)
    gradients = 3 * K**2
    eps = gradients ** (-1 / p) * np.exp(correction / K)
    each = eps[:, None] * np.exp(spread * np.random.default_rng(0).standard_normal((10, runs)))
    return rates.Curve(K, gradients, each, each / 2, each / 3, np.ones_like(each), each / 8)


@pytest.mark.parametrize("name", rates.MEASURED)
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_the_fit_finds_a_planted_exponent(p, name):
    fitted = rates.fit(planted(p), name)
    assert fitted.low <= p <= fitted.high
    assert fitted.high - fitted.low < 0.5 * p
    assert fitted.slope == pytest.approx(p, rel=0.1) and fitted.values == 10
    exact = rates.fit(planted(p, spread=0.0), name)
    assert abs(exact.slope - p) < 1e-9 < abs(exact.plain - p)


def test_the_verdict_falls_where_the_exponent_is_larger_than_the_papers():
    not_falling = replace(planted(2.0), stationarity_squared=np.ones((10, 4)))
    noisy = planted(2.0, spread=1.0)
    found = [rates.fit(curve, "stationarity_squared") for curve in (planted(2.0), planted(2.5), not_falling, noisy)]
    assert [rates.verdict(2, fitted) for fitted in found] == ["not worse", "WORSE", "WORSE", "undecided"]


def test_one_quantity_does_not_speak_for_another():
    """The largest of them, falling as it should, must not hide that a smaller one does not fall at all."""
    still = replace(planted(1.0), delta=np.full((10, 4), 1e-12))
    words = {name: rates.verdict(1, rates.fit(still, name)) for name in rates.QUANTITIES}
    assert words == {"stationarity_squared": "not worse", "complementarity": "not worse", "delta": "WORSE"}


def test_what_is_down_to_rounding_is_left_out():
    falling = planted(1.0, spread=0.0)
    low = np.where(np.arange(10)[:, None] < 7, falling.delta, 1e-27)
    cut = rates.fit(replace(falling, delta=low), "delta")
    assert cut.values == 7 and cut.slope == pytest.approx(1.0)
    early = np.where(np.arange(10)[:, None] < 5, falling.delta, 0.0)  # too few K are left, and no log of 0 is taken
    assert rates.verdict(1, rates.fit(replace(falling, delta=early), "delta")) == "undecided"


def test_the_share_of_the_schedule_is_what_is_not_beyond_it():
    assert planted(1.0).share_of_schedule == pytest.approx(0.75)
    assert replace(planted(1.0), beyond=np.zeros((10, 4))).share_of_schedule == 1.0


@pytest.fixture(scope="module")
def measured():
    """A small study of all eight entries: two runs for six K each."""
    size = rates.Size(smallest=6, decades=0.5, values=6, runs=2, points=2)
    return [
        row
        for entry, cell in enumerate(CELLS)
        for run in range(size.runs)
        for row in studies_rates.statements(entry, run, size.outer_steps(cell), size.points)
    ]


def test_three_times_as_many_steps_bring_the_complementarity_down(measured):
    """And not by much more than the paper says."""
    for row in measured:
        assert row["gradients"] == row["K"] * row["steps"]
        assert (row["K"] + 1) // 2 <= row["k"] <= row["K"]
    for cell in CELLS:
        own = [row for row in measured if row["cell"] == cell.name]
        first, last = ([r["complementarity"] for r in own if r["K"] == K] for K in (own[0]["K"], own[-1]["K"]))
        assert 1.5 < np.mean(first) / np.mean(last) < 40


def test_complementarity_is_what_the_levels_set_and_what_is_beyond(measured):
    """ȳ(η − g(x̄)) = ȳ(η − η_k) + ȳ(η_k − g(x̄)), with η − η_k = (η − η_0)/(k+1) and η_0 half-way in η's cell."""
    problem = CELLS[0].exact
    eta, cap = problem.level, problem.constraint.cap
    eta_0 = eta - (eta % cap) / 2
    for row in measured:
        scheduled = row["multiplier"] * (eta - eta_0) / (row["k"] + 1)
        assert row["complementarity"] == pytest.approx(scheduled + row["beyond"], rel=1e-9)


@pytest.mark.parametrize("cell", CELLS[:4], ids=lambda cell: cell.name)
def test_in_deterministic_entries_the_schedule_sets_nearly_all_of_the_complementarity(measured, cell):
    """So its slope is no measurement of the method."""
    entry = studies_rates.Entry(cell, measured)
    [line] = [row for row in entry.lines() if row[1] == "complementarity"]
    assert entry.curve.share_of_schedule > 0.9 and float(line[6].rstrip("%")) > 90


def test_every_entry_has_lines_a_panel_and_claims_that_can_fall(measured):
    study, scope = studies_rates.Rates(), Scope(Places(), quick=True)
    outcome = study.outcome(measured, scope)
    names = [cell.name for cell in CELLS]
    called = [(name, quantity) for name in names for quantity in rates.MEASURED.values()]
    assert [line[:2] for line in outcome.tables[0].rows] == called
    assert [line[0] for line in outcome.tables[1].rows] == names
    claimed = [f"{name}: {quantity} at most" for name in names for quantity in rates.QUANTITIES.values()]
    assert [claim.paper.partition(" ε")[0] for claim in outcome.claims] == claimed
    [(_, figure, _)] = outcome.figures
    assert [axis.get_title() for axis in figure.axes] == names
    # Each quantity of the first entry, as if it did not fall any more: its own claim falls, and no other changes.
    assert False not in [claim.holds for claim in outcome.claims[:3]]
    for place, quantity in enumerate(rates.QUANTITIES):
        doctored = [row | {quantity: 1.0} for row in measured]
        claims = list(studies_rates.Entry(CELLS[0], doctored).claims())
        assert claims[place].holds is False
        others = [i for i in range(3) if i != place]
        assert [claims[i].holds for i in others] == [outcome.claims[i].holds for i in others]
    # One run alone has no spread, and decides nothing.
    alone = [row for row in measured if row["run"] == 0]
    assert [claim.holds for cell in CELLS for claim in studies_rates.Entry(cell, alone).claims()] == [None] * 24


def test_a_complementarity_that_the_schedule_sets_is_said_to_be_no_measurement(measured):
    for beyond, said in ((0.0, True), (0.5, False)):
        rows = [row | {"beyond": beyond * row["complementarity"]} for row in measured]
        [claim] = [c for c in studies_rates.Entry(CELLS[0], rows).claims() if "complementarity" in c.paper]
        assert ("the schedule sets" in claim.remark) is said


def test_tasks_of_the_rates_name_every_run_once():
    tasks = studies_rates.Rates().tasks(Scope(Places(), quick=True), [])
    assert len({task.key for task in tasks}) == len(tasks) == 8 * rates.QUICK.runs


def test_svrg_and_nesterov_cost_what_the_remark_says():
    easy, hard = (finite_sum.count(200, kappa, seeds=1) for kappa in (10.0, 300.0))
    for found in (easy, hard):
        assert 0.5 < found["nesterov_over_bound"] < np.log(2e6)
        assert 1 < found["svrg_over_bound"] < 100
    assert 3 < hard["nesterov"] / easy["nesterov"] < 12  # √30 = 5.5
