"""Figures and tables of the paper as studies: claims follow from the rows, and fall where the rows are others."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import import_module

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from experiments.constraints import of
from experiments.datasets import NAMES, VARIABLE, Places, generated
from experiments.datasets.places import ORIGINALS
from experiments.paper import TABLE_3
from experiments.reproduce.study import Scope
from experiments.studies import fig_constraints, penalty_weight, sets
from experiments.studies.fig_constraints import FigConstraints
from experiments.studies.fig_subsolvers import FigSubsolvers, points
from experiments.studies.penalty_weight import PenaltyWeight
from experiments.studies.rates import Rates
from experiments.studies.table_datasets import TableDatasets
from experiments.subsolvers import CONTENDERS, PANELS, RANDOM, Budget

SCOPE = Scope(Places(), quick=True)
STUDIES = [FigConstraints(), FigSubsolvers(), Rates(), TableDatasets(), PenaltyWeight()]


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv(ORIGINALS, raising=False)
    sets._split.cache_clear()


def stored(rows):
    """Rows as they come back from the disk."""
    return json.loads(json.dumps(list(rows)))


def doctored(rows, changes, **where):
    """The rows, some with other figures."""
    hit = [all(row.get(name) == value for name, value in where.items()) for row in rows]
    assert any(hit)
    return [row | changes if changed else row for row, changed in zip(rows, hit, strict=True)]


def holds(study, rows, words):
    """The verdict of the one claim with these words."""
    [claim] = [claim for claim in study.outcome(rows, SCOPE).claims if words in claim.paper]
    return claim.holds


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
@pytest.mark.parametrize(
    "scope", [SCOPE, Scope(Places()), Scope(Places(), sets=("mnist",))], ids=["quick", "full", "one"]
)
def test_tasks_have_names_of_their_own_and_functions_that_exist(study, scope):
    tasks = study.tasks(scope, [])
    assert len({task.key for task in tasks}) == len(tasks)
    assert all(task.study == study.name for task in tasks)
    for task in tasks:
        module, _, name = task.function.partition(":")
        assert callable(getattr(import_module(module), name))
        assert json.loads(json.dumps(task.arguments)) == task.arguments


# --- the constraints


@pytest.fixture(scope="module")
def pictures():
    return stored(row for part in fig_constraints.PARTS for row in fig_constraints.run(part))


def test_the_pictures_of_the_constraints_show_what_the_paper_says(pictures):
    outcome = FigConstraints().outcome(pictures, SCOPE)
    assert len(outcome.figures) == 4 and len(outcome.claims) == 9
    assert all(claim.holds for claim in outcome.claims)
    assert [len(figure.axes) for _, figure, _ in outcome.figures] == [1, 1, 6, 3]


def test_claims_on_the_constraints_fall_with_their_rows(pictures):
    def falls(words, part, changes, **where):
        return holds(FigConstraints(), doctored(of(pictures, part=part), changes, **where), words) is False

    low = min(of(pictures, part="samples", function="Exp"), key=lambda row: row["kept"] - row["z"])
    assert falls("Exp", "samples", {"kept": low["z"] - 1e-6}, g=low["g"])
    high = max(of(pictures, part="samples", function="MCP"), key=lambda row: row["z"])
    assert falls("MCP, λ", "samples", {"z_paper": high["z"] + 1e-6}, g=high["g"])
    assert falls("less a convex h", "graphs", {"Log": 0.0}, x=1.0)
    assert falls("z for SCAD", "bounds", {"z_paper": 0.0}, alpha=1.5)
    assert falls("MFCQ", "regions", {"room": 0.0}, level=2.8, x1=0.0)
    assert falls("MFCQ", "regions", {"room": 1.0}, level=3.0)


def test_a_part_of_the_pictures_is_drawn_without_the_others(pictures):
    outcome = FigConstraints().outcome(of(pictures, part="graphs"), SCOPE)
    assert len(outcome.figures) == len(outcome.claims) == 1


# --- the subsolvers


@pytest.fixture(scope="module")
def runs():
    """All four on one panel, one after the other."""
    tiny = asdict(Budget(passes=12, seconds=5.0, seeds=1))
    asked = {"dataset": {"name": "rcv1.binary", "rows": 100, "label": "a label"}, "panel": asdict(PANELS[2])}
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)
        patch.setitem(generated.GENERATED, "rcv1.binary", lambda: generated.text(200, 200, length=20, seed=2))
        sets._split.cache_clear()
        return stored(row for name in CONTENDERS for row in points(**asked, subsolver=name, seed=0, budget=tiny))


def test_subsolvers_are_compared_from_rows_alone(runs):
    outcome = FigSubsolvers().outcome(runs, SCOPE)
    assert [line[2] for line in outcome.tables[0].rows] == list(CONTENDERS)
    assert len(outcome.figures) == 2 and len(outcome.claims) == 3
    assert all(claim.paper.startswith("a label, α = 0.1: ") for claim in outcome.claims)


def test_claims_on_subsolvers_fall_with_their_rows(runs):
    study = FigSubsolvers()
    for name, ends, early in (("BB", True, False), ("SGD", False, True)):
        ahead = [row | {"psi": 0.01} if row["subsolver"] == name and row["passes"] else row for row in runs]
        assert holds(study, ahead, "BB ends lowest") is ends
        assert holds(study, ahead, "leads early") is early
        assert holds(study, ahead, "in time BB") is ends
    late = [row | {"passes": 100 * row["passes"]} if row["subsolver"] in RANDOM else row for row in ahead]
    assert holds(study, late, "leads early") is False
    three = [row for row in runs if row["subsolver"] != "NAG"]
    assert [claim.holds for claim in study.outcome(three, SCOPE).claims] == [None] * 3


# --- the data sets


def test_counts_of_data_that_are_not_the_papers_leave_the_claim_open():
    task = TableDatasets().tasks(Scope(Places(), quick=True, sets=("mnist",)), [])[0]
    [row] = stored(task.rows())
    assert (row["train"], row["dimension"], row["source"]) == (1500, 196, "generated")
    [claim] = TableDatasets().outcome([row], SCOPE).claims
    assert claim.holds is None and "generated data" in claim.remark and "generated" in claim.ours


@pytest.mark.parametrize("name", NAMES)
def test_counts_of_the_papers_data_must_be_the_papers(name):
    size = TABLE_3[name]
    row = {"set": name, "label": name, "source": "original", "note": "", **asdict(size)}
    row["nonzeros"] += 0.004
    study = TableDatasets()
    assert holds(study, [row], name)
    for count in ("train", "test", "dimension"):
        assert holds(study, [row | {count: row[count] - 1}], name) is False
    assert holds(study, [row | {"nonzeros": size.nonzeros - 0.01}], name) is False
    assert holds(study, [row | {"kind": "R" if size.kind == "C" else "C"}], name) is False
    assert study.outcome([row], SCOPE).tables[0].rows[0][2:7] == study.outcome([row], SCOPE).tables[0].rows[1][2:7]


# --- the weight of a penalty


@pytest.fixture(scope="module")
def weights():
    tasks = PenaltyWeight().tasks(SCOPE, [])
    return stored(row for task in tasks if task.arguments["dataset"] is None for row in task.rows())


def test_a_large_weight_does_not_bound_the_penalty_and_a_level_does(weights):
    outcome = PenaltyWeight().outcome(weights, SCOPE)
    assert len(outcome.claims) == 3 and all(claim.holds for claim in outcome.claims)
    assert len(outcome.tables[0].rows) == 5 and len(outcome.figures[0][1].axes) == 4
    # A method that descends from the origin has βg ≤ ψ(0).
    assert all(row["g"] <= row["most"] for row in weights if row["start"] == "origin" and "most" in row)
    # Eight planted features, each at the cap of ½: found again for every β.
    stuck = [row for row in weights if row["method"] == penalty_weight.REWEIGHTED and row["beta"] >= 1]
    assert {(row["g"], row["nonzeros"]) for row in stuck if row["start"] != "origin"} == {(4.0, 8)}


def test_claims_on_weights_fall_with_their_rows(weights):
    study = PenaltyWeight()
    nonconvex = {"method": penalty_weight.REWEIGHTED, "beta": 1e4}
    assert holds(study, doctored(weights, {"g": 0.0}, **nonconvex), "g not small") is False
    # A point that is not stationary says nothing.
    assert holds(study, doctored(weights, {"residual": 0.1}, **nonconvex), "g not small") is False
    assert (
        holds(study, doctored(weights, {"g": 0.1}, method="ℓ1", beta=1e4, start="random 1"), "convex penalty") is False
    )
    level = max(row["level"] for row in weights if "level" in row)
    above = doctored(weights, {"g": np.nextafter(level, 9)}, method="LCPP", level=level, start="random 2")
    assert holds(study, above, "constraint bounds") is False


def test_weighted_l1_is_the_lasso():
    problem = penalty_weight.planted(60, 10)
    x = penalty_weight.weighted_l1(problem, np.full(10, 0.8), np.ones(10))
    lasso = Lasso(alpha=0.4, fit_intercept=False, tol=1e-12).fit(*samples(60, 10))
    np.testing.assert_allclose(x, lasso.coef_, atol=1e-8)


def samples(n, d):
    """What `planted` draws."""
    rng = np.random.default_rng(0)
    X, truth = rng.standard_normal((n, d)), np.zeros(d)
    truth[:8] = 3 * rng.choice((-1.0, 1.0), 8)
    return X, X @ truth + rng.standard_normal(n)


def test_where_reweighting_stays_is_a_local_minimum_of_the_penalised_problem():
    problem, rng = penalty_weight.planted(60, 10), np.random.default_rng(0)
    beta = 1e4 * problem.beta_0
    x = penalty_weight.reweighted(problem, beta, problem.free)
    assert problem.g(x) > 0

    def f(at):
        return problem.model.value_and_gradient(at)[0] + beta * problem.g(at)

    assert all(f(x + 1e-3 * rng.standard_normal(10)) > f(x) for _ in range(50))
    assert penalty_weight.residual(problem, problem.penalty, beta, x) < 1e-8
    assert penalty_weight.residual(problem, problem.penalty, beta, x + 1e-3) > 1e-4
