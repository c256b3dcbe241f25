"""The experiments that draw: what their rows say against formulas of their own, and that they run anywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments import constraints, subsolvers
from experiments.datasets import VARIABLE, generated
from experiments.studies import fig_constraints
from experiments.subsolvers import Budget, Curve, Panel, Point
from levelprox import LinearModel, Problem, solve
from levelprox.constraints import MCP, Exp

TINY = Budget(passes=12, seconds=5.0, seeds=2)


@pytest.fixture(scope="module")
def drawn():
    """All rows behind the pictures of the constraints."""
    return [row for part in fig_constraints.PARTS for row in fig_constraints.run(part)]


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def table(rows, part, **wanted):
    """The columns of a part, of the rows that match."""
    here = constraints.of(rows, part=part, **wanted)
    return {name: constraints.column(here, name) for name in here[0] if name not in {"part", *wanted}}


def test_graphs_are_the_papers_table_2(drawn):
    column = table(drawn, "graphs")
    t = np.abs(column["x"])
    scad = np.where(t <= 1, t, np.where(t <= 5, t - (t - 1) ** 2 / 8, 3))
    expected = {
        "L1": t,
        "MCP": np.where(t <= 5, t - t**2 / 10, 2.5),
        "SCAD": scad,
        "Exp": 1 - np.exp(-t),
        "Log": np.log(1 + 5 * t) / np.log(6),
        "Lp": np.sqrt(t + 0.1) - np.sqrt(0.1),
        "NegativeLp": 1 - 1 / (1 + 2 * t),
    }
    assert expected.keys() == column.keys() - {"x"}
    for name, phi in expected.items():
        np.testing.assert_allclose(column[name], phi, rtol=1e-13, atol=1e-15, err_msg=name)
    assert column["MCP"].max() == 2.5 and column["SCAD"].max() == 3
    assert t.max() > 5 and 0 in t


def test_z_is_the_papers_and_the_tighter_one_is_the_infimum_in_one_coordinate(drawn):
    a = table(drawn, "bounds", function="SCAD")
    rest = np.mod(a["alpha"], 3)
    np.testing.assert_allclose(a["z_paper"], np.where(rest <= 1, rest, rest * np.sqrt((3 - rest) / 2)), atol=1e-7)
    at_caps = np.isin(a["alpha"], [0, 3, 6])
    assert at_caps.sum() == 3 and np.all(a["z"][at_caps] == 0) and np.all(a["z_paper"][at_caps] == 0)
    assert np.all(a["z"][~at_caps] > 0) and np.all(a["z"] >= a["z_paper"] * (1 - 1e-12))

    a = table(drawn, "bounds", function="MCP")
    rest = np.mod(a["alpha"], 2.5)
    np.testing.assert_allclose(a["z_paper"], rest * np.sqrt(1 - rest / 2.5), atol=1e-7)

    # φ'(t)t over φ(t), t running: the graph of the tight z where one coordinate pays for all.
    t = np.linspace(0, 5, 20001)[:-1]
    for name, phi, kept in (
        ("MCP", t - t**2 / 10, (1 - t / 5) * t),
        ("SCAD", np.where(t <= 1, t, t - (t - 1) ** 2 / 8), np.where(t <= 1, t, (1 - (t - 1) / 4) * t)),
        ("Exp", 1 - np.exp(-t), np.exp(-t) * t),
        ("Log", np.log(1 + 5 * t) / np.log(6), 5 * t / (1 + 5 * t) / np.log(6)),
        ("Lp", np.sqrt(t + 0.1) - np.sqrt(0.1), t / np.sqrt(t + 0.1) / 2),
        ("NegativeLp", 1 - 1 / (1 + 2 * t), 2 * t / (1 + 2 * t) ** 2),
    ):
        a = table(drawn, "bounds", function=name)
        below = a["alpha"] <= phi[-1]
        assert below.sum() > 200
        np.testing.assert_allclose(a["z"][below], np.interp(a["alpha"][below], phi, kept), atol=2e-4, err_msg=name)
        assert name in ("MCP", "SCAD") or np.all(np.isnan(a["z_paper"]))


def test_at_the_cap_only_the_axes_are_feasible_beyond_the_threshold(drawn):
    at = table(drawn, "regions", level=3.0)
    beyond = np.abs(at["x1"]) >= 5
    assert beyond.sum() > 100
    assert np.all(at["reach"][beyond] == 0) and np.all(at["room"][beyond] == 0)
    before = ~beyond & (at["x1"] != 0)
    assert np.all(at["reach"][before] > 0) and np.all(at["room"][before] > 0)
    assert np.isinf(at["reach"][at["x1"] == 0])
    np.testing.assert_allclose(at["reach"][at["x1"] == 4], 1 / 8, rtol=1e-12)  # 3 − φ(4), on the straight part


def test_below_the_cap_these_points_are_infeasible_and_above_it_they_are_inside(drawn):
    below = table(drawn, "regions", level=2.8)
    ends = 5 - math.sqrt(8 * 0.2)
    np.testing.assert_array_equal(np.isnan(below["reach"]), np.abs(below["x1"]) > ends + 1e-12)
    above = table(drawn, "regions", level=3.2)
    np.testing.assert_allclose(above["reach"][np.abs(above["x1"]) >= 5], 0.2, rtol=1e-12)
    assert np.all(np.isinf(above["reach"][np.abs(above["x1"]) <= 0.19]))
    for rows, level in ((below, 2.8), (above, 3.2)):
        known = ~np.isnan(rows["room"])
        rest = level % 3
        least = rest if rest <= 1 else 5 * math.sqrt((3 - rest) / 2) - 2 * (3 - rest)
        assert rows["room"][known].min() == pytest.approx(least, rel=1e-3) and least > 0


def test_a_reach_is_found_for_a_function_that_never_reaches_its_cap():
    x2 = constraints.reach(Exp(1), 0.9, np.array([0.0, 1.0, 3.0]))
    np.testing.assert_allclose(x2[:2], [-math.log(0.1), -math.log(1.1 - math.exp(-1))], rtol=1e-12)
    assert np.isnan(x2[2])


def test_history_says_what_each_step_had_cost():
    X, b = generated.pixels(60, 20, seed=0)
    seen = []
    problem = Problem(LinearModel(X, b, "logistic"), MCP(2, 0.25), level=0.6)
    result = solve(problem, subsolver="spectral", callback=lambda record, x: seen.append(record.n_grad))
    assert [record.n_grad for record in result.history] == seen
    assert len(seen) > 2 and np.all(np.diff(seen) >= 0) and 1 < seen[0] < seen[-1] == result.n_grad


@pytest.fixture(scope="module")
def compared():
    """All four subsolvers on one small problem."""
    panel = Panel("rcv1.binary", 0.1, 1e-4)
    model = LinearModel(*generated.text(200, 200, length=20, seed=2), "logistic")
    problem = Problem(model, MCP(2, 0.25), level=20.0)
    return [
        subsolvers.run(panel, problem, "made up", name, seed, TINY)
        for name in subsolvers.CONTENDERS
        for seed in range(TINY.seeds if name in subsolvers.RANDOM else 1)
    ]


def test_subsolvers_are_compared_from_one_start_by_passes_and_time(compared):
    for curve in compared:
        first, *rest = curve.points
        assert first.passes == 0 and first.psi == pytest.approx(math.log(2))
        passes = [point.passes for point in rest]
        assert np.all(np.diff(passes) > 0) and 2 <= passes[0] < passes[-1] >= TINY.passes
        assert rest[-1].psi < 0.9 * first.psi
    by_seed = {curve.seed: curve.points[-1].psi for curve in compared if curve.name == "SGD"}
    assert by_seed[0] != by_seed[1]


@pytest.mark.parametrize("name", ["BB", "SVRG", "SGD"])
def test_a_first_step_that_is_not_cut_short_is_that_of_the_run(name):
    X, b = generated.text(150, 200, length=20, seed=2)
    problem = Problem(LinearModel(X, b, "logistic"), MCP(2, 0.25), level=20.0)
    subsolver, _ = subsolvers.CONTENDERS[name]
    whole = subsolvers.outer_steps(problem, subsolver, 1e-4, Budget(1, 5.0, 1), seed=3)[0]
    cuts = list(subsolvers.first_step(problem, subsolver, 1e-4, passes=10**9, seed=3))
    assert (whole.passes, whole.psi) in [(cut.passes, cut.psi) for cut in cuts]
    assert cuts[1].passes < whole.passes


def test_runs_are_the_same_again_from_their_rows(compared):
    rows = [row for curve in compared for row in subsolvers.rows_of(curve)]
    assert subsolvers.curves_of(rows) == compared


def curve(name, seed, *points):
    return Curve(Panel("rcv1.binary", 0.1, 1e-4), "made up", name, seed, tuple(Point(*point) for point in points))


def test_targets_are_medians_of_first_arrivals():
    curves = [
        curve("BB", 0, (0, 0.0, 1.0), (5, 0.5, 0.5045), (9, 0.9, 0.5)),
        curve("NAG", 0, (0, 0.0, 1.0), (20, 0.1, 0.54)),
        curve("SVRG", 0, (0, 0.0, 1.0), (4, 1.0, 0.5)),
        curve("SVRG", 1, (0, 0.0, 1.0), (6, 2.0, 0.5)),
        curve("SVRG", 2, (0, 0.0, 1.0), (8, 9.0, 0.9)),
        curve("SGD", 0, (0, 0.0, 1.0), (2, 1.0, 0.9)),
    ]
    rows = {row["subsolver"]: row for row in subsolvers.targets(curves)}
    assert rows["BB"]["passes to within 1 %"] == 5 and rows["BB"]["passes to within 0.1 %"] == 9
    assert rows["BB"]["seconds to 99 % of the way"] == 0.5
    assert rows["NAG"]["passes to 90 % of the way"] == 20 and rows["NAG"]["passes to 99 % of the way"] == math.inf
    assert rows["SVRG"]["passes to within 0.01 %"] == 6 and rows["SVRG"]["seconds to within 0.01 %"] == 2
    assert rows["SGD"]["seconds to 90 % of the way"] == math.inf
    # The shortest run took two passes: what the others had after so many is compared.
    assert [rows[name]["last psi"] for name in ("BB", "NAG", "SGD")] == [1, 1, 0.9]


def test_median_curve_is_straight_in_the_logarithms_and_ends_with_the_shortest_run():
    runs = [
        curve("SGD", 0, (0, 0, 9), (1, 0, 16), (4, 0, 1)).points,
        curve("SGD", 1, (0, 0, 9), (2, 0, 7), (8, 0, 7)).points,
        curve("SGD", 2, (0, 0, 9), (1, 0, 3), (5, 0, 2)).points,
    ]
    grid, psi = subsolvers.median_curve(runs, "passes")
    assert grid.tolist() == [2, 4]
    third_at_4 = 3 * (2 / 3) ** (math.log(4) / math.log(5))
    np.testing.assert_allclose(psi, [4, third_at_4], rtol=1e-12)


def test_points_out_of_order_in_time_are_drawn_in_order():
    points = curve("SVRG", 0, (0, 0.0, 9), (3, 0.5, 4), (5, 0.3, 5), (9, 1.0, 2)).points
    place, psi = subsolvers.series(points, "seconds")
    assert place.tolist() == [0.3, 0.5, 1.0] and psi.tolist() == [5, 4, 2]
