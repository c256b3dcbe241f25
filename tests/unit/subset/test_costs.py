"""Costs of features under a budget: the best set is found, no set costs more, and the claims are true."""

from __future__ import annotations

import copy
import math
import time
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from levelprox import (
    LinearModel,
    SparseClassifier,
    SparseClassifierCV,
    SparseRegressor,
    SparseRegressorCV,
    Status,
    best_subset,
    certify_model,
    load,
)
from levelprox.cli import main
from levelprox.constraints.costs import Costs
from levelprox.exceptions import FileFormatError, InvalidInputError
from levelprox.objectives import MultinomialModel
from levelprox.report.page import page
from levelprox.subset.smooth_search import SmoothSearch
from tests.support.cost_problems import cost_case, judged, searched
from tests.support.subset_problems import LOSSES

NOTHING = np.empty(0, np.intp)

#: How many problems of each loss belong to `make test`: 60. Those whose searches take longest have fewest.
FIRST = {
    "squared": 20,
    "logistic": 10,
    "poisson": 8,
    "gamma": 6,
    "huber": 6,
    "squared_hinge": 6,
    "one_vs_rest": 2,
    "absolute": 1,
    "hinge": 1,
}


def costs_of(cost, budget) -> Costs:
    return Costs.of(cost, budget, len(cost), NOTHING, NOTHING)


class TestSums:
    """Sums are exact: they are those of the float64 numbers given."""

    def test_costs_that_are_not_binary_fractions(self):
        assert not costs_of([0.1, 0.2], 0.3).allows([0, 1])  # 0.1 + 0.2 is 0.3000000000000000166
        assert costs_of([0.1, 0.2], 0.30000000000000004).allows([0, 1])
        assert costs_of([0.1] * 10, 1.0).spent(range(10)) > 1.0  # in float64, 0.1 + … + 0.1 is below 1
        assert not costs_of([0.1] * 10, 1.0).allows(range(10))
        assert costs_of([1, 2], 3).allows([0, 1])

    @pytest.mark.parametrize("seed", range(5))
    def test_affordable_sets_agree_with_exact_fractions(self, seed):
        rng = np.random.default_rng(seed)
        for _ in range(40):
            d = int(rng.integers(1, 8))
            cost = rng.choice([0.1, 0.2, 0.3, 0.7, 1.0, 1e-300, 5e-324, 1e16, 1e300, 0.0], d)
            cost = np.where(rng.random(d) < 0.3, rng.uniform(0, 1, d), cost)
            chosen = np.flatnonzero(rng.random(d) < 0.5)
            exact = sum((Fraction(float(c)) for c in cost[chosen]), Fraction(0))
            budget = float(exact) if rng.random() < 0.7 else float(rng.choice([0.3, 1.0, 1e16, 1.7e308]))
            costs = costs_of(cost, budget)
            assert costs.allows(chosen.tolist()) == (exact <= Fraction(budget))
            assert (costs.spent(chosen.tolist()) <= budget) == (exact <= Fraction(budget))
            others = [j for j in range(d) if j not in chosen]
            possible = [j for j in others if exact + Fraction(float(cost[j])) <= Fraction(budget)]
            assert np.flatnonzero(costs.affordable(chosen)).tolist() == possible
            swaps = [
                (i, j)
                for i in chosen
                for j in others
                if exact - Fraction(float(cost[i])) + Fraction(float(cost[j])) <= Fraction(budget)
            ]
            assert costs.count_swaps(chosen, chosen) == len(swaps)

    def test_sums_beyond_float64(self):
        costs = costs_of([1.7e308, 1.7e308, 1.0], 1.7e308)
        assert costs.allows([0]) and not costs.allows([0, 1]) and costs.spent([0, 1]) == math.inf
        assert not costs.allows([0, 2]) and costs.spent([0, 2]) > costs.budget

    @pytest.mark.parametrize(
        ("cost", "budget", "words"),
        [
            ([1.0, -1.0], 1.0, "negative, got -1 at index 1"),
            ([1.0, math.inf], 1.0, "inf at index 1"),
            ([1.0, math.nan], 1.0, "NaN at index 1"),
            ([1.0], 1.0, r"shape \(2,\)"),
            ([[1.0, 1.0]], 1.0, "shape"),
            (["a", "b"], 1.0, "feature_cost"),
            ([1.0, 1.0], -1.0, "budget must be at least 0"),
            ([1.0, 1.0], math.inf, "budget must be at least 0 and finite"),
            ([1.0, 1.0], math.nan, "budget"),
            ([1.0, 1.0], "all", "budget"),
        ],
    )
    def test_invalid_costs_are_refused(self, cost, budget, words):
        with pytest.raises(InvalidInputError, match=words):
            best_subset(LinearModel(np.eye(2), np.ones(2)), feature_cost=cost, budget=budget)


# --- enumeration


@pytest.mark.cpu_budget(6, "several searches, and refits of all sets")
@pytest.mark.parametrize("loss", FIRST)
def test_the_best_set_within_the_budget_is_found(loss):
    for place in range(FIRST[loss]):
        problem = cost_case(LOSSES.index(loss) + len(LOSSES) * place)
        assert problem.case.loss == loss
        outcome = judged(problem, searched(problem))
        assert not outcome.wrong, (problem.case, outcome.wrong)
        assert outcome.optimum, problem.case


@pytest.mark.extended
@pytest.mark.cpu_budget(60, "23 searches, and refits of all sets")
@pytest.mark.parametrize("loss", LOSSES)
def test_300_problems(loss):
    """At most one of 23 is missed: of 300 at least 95 % are found."""
    seeds = [seed for seed in range(300) if LOSSES[seed % len(LOSSES)] == loss]
    assert len(seeds) >= 23
    outcomes = [judged(problem, searched(problem)) for problem in map(cost_case, seeds)]
    assert not [(one.problem.case, one.wrong) for one in outcomes if one.wrong]
    assert sum(not one.optimum for one in outcomes) <= 1


def test_there_are_sixty_problems():
    assert sum(FIRST.values()) == 60 and set(FIRST) <= set(LOSSES)


# --- other options


def regression(seed=0, n=60, d=9):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + rng.standard_normal((n, 1))
    b = X @ rng.standard_normal(d) + rng.standard_normal(n)
    return X, b, rng.integers(1, 6, d).astype(float)


@pytest.mark.parametrize("loss", ["squared", "logistic", "absolute"])
def test_equal_costs_are_a_number_of_features(loss):
    for seed in range(2):
        X, b, _ = regression(seed, n=40)
        b = np.where(b > 0, 1.0, -1.0) if loss == "logistic" else b
        model = LinearModel(X, b, loss, fit_intercept=True)
        for k in (1, 3):
            by_count = best_subset(model, k)
            by_cost = best_subset(model, feature_cost=np.full(9, 0.7), budget=float(np.nextafter(0.7 * k, 3)))
            assert by_cost.support.tolist() == by_count.support.tolist()
            assert by_cost.psi == pytest.approx(by_count.psi, rel=1e-10)


def test_without_costs_nothing_is_said_of_a_budget():
    X, b, _ = regression()
    found = best_subset(LinearModel(X, b), 3)
    shown = found.certificate.as_dict()
    assert found.spent is found.budget is None and "budget" not in found.message + str(found.certificate)
    assert shown["spent"] is shown["budget"] is None and not shown["exchanges"]["within_budget"]


def test_features_that_cost_nothing_are_taken_if_they_gain():
    X, b, _ = regression()
    cost = np.array([0.0, 0.0, 0.0, *[5.0] * 6])
    found = best_subset(LinearModel(X, b), feature_cost=cost, budget=0)
    assert found.support.tolist() == [0, 1, 2] and found.spent == 0
    useless = np.column_stack([X[:, :2], np.zeros(60), X[:, 3]])
    found = best_subset(LinearModel(useless, b), feature_cost=[0, 0, 0, 1], budget=0)
    assert found.support.tolist() == [0, 1]


def test_kept_features_cost_nothing():
    X, b, cost = regression()
    model = LinearModel(X, b, fit_intercept=True)
    found = best_subset(model, feature_cost=cost, budget=0, keep=[4])
    assert found.x[4] != 0 and not found.support.size and found.spent == 0
    other = np.array(cost)
    other[4] = 100.0  # its value is ignored
    given = best_subset(model, feature_cost=other, budget=4.0, keep=[4])
    assert np.array_equal(given.x, best_subset(model, feature_cost=cost, budget=4.0, keep=[4]).x)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_a_number_of_features_and_a_budget_both_hold(loss):
    X, b, cost = regression(3)
    model = LinearModel(X, b, loss)
    found = best_subset(model, 2, feature_cost=cost, budget=9.0)
    assert found.support.size <= 2 and found.spent <= 9 and "of at most 2" in found.message
    assert found.psi >= best_subset(model, feature_cost=cost, budget=9.0).psi
    if found.additions.total:
        assert not math.isnan(found.multiplier)


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
@pytest.mark.parametrize("budget", [0.0, 1e-9])
def test_a_budget_that_pays_for_nothing(loss, budget):
    X, b, cost = regression()
    b = b if loss == "squared" else np.where(b > 0, 1.0, -1.0)
    found = best_subset(LinearModel(X, b, loss, fit_intercept=True), feature_cost=cost, budget=budget)
    assert not found.support.size and found.spent == 0 and found.status is Status.SOLVED
    assert found.additions.total == 0 and "the budget allows no further feature" in str(found.certificate)


def test_a_budget_that_pays_for_all():
    X, b, cost = regression()
    found = best_subset(LinearModel(X, b), feature_cost=cost, budget=math.fsum(cost))
    assert found.support.size == 9 and found.spent == found.budget


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_the_budget_holds_however_a_search_ends(loss):
    X, b, cost = regression(5, d=12)
    model = LinearModel(X, b, loss, fit_intercept=True)
    within = costs_of(cost, 11.0)
    whole = best_subset(model, feature_cost=cost, budget=11.0)
    for stop_after in (1, 3, 6, 12, 20):
        seen = []

        def stops(record, seen=seen, last=stop_after):
            seen.append(record)
            return len(seen) >= last

        found = best_subset(model, feature_cost=cost, budget=11.0, callback=stops)
        assert within.allows(found.support.tolist()) and found.psi >= whole.psi - 1e-9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for limit in ({"max_iter": 0}, {"max_iter": 1}, {"time_limit": 0.0}):
            assert within.allows(best_subset(model, feature_cost=cost, budget=11.0, **limit).support.tolist())


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_a_start_beyond_the_budget_is_cut(loss):
    X, b, cost = regression(2)
    model = LinearModel(X, b, loss)
    for start in (range(9), [0], []):
        found = best_subset(model, feature_cost=cost, budget=7.0, start=np.array(start, np.intp))
        assert costs_of(cost, 7.0).allows(found.support.tolist()) and found.support.size


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_a_search_is_resumed_with_the_same_bits(loss, tmp_path):
    X, b, cost = regression(7)
    model, path = LinearModel(X, b, loss), tmp_path / "state"
    whole = best_subset(model, feature_cost=cost, budget=8.0)
    calls = []

    def stops(record):
        calls.append(record)
        return len(calls) > 6

    from levelprox import Checkpoint

    state = Checkpoint(path, every=0)
    best_subset(model, feature_cost=cost, budget=8.0, callback=stops, checkpoint=state)
    again = best_subset(model, feature_cost=cost, budget=8.0, checkpoint=state, resume=True)
    assert np.array_equal(again.x, whole.x) and again.swaps == whole.swaps
    with pytest.raises(Exception, match="budget"):
        best_subset(model, feature_cost=cost, budget=9.0, checkpoint=state, resume=True)


def test_several_classes():
    X, b, cost = regression(1)
    labels = np.digitize(b, [-1.5, 1.5])
    found = best_subset(MultinomialModel(X, labels), feature_cost=cost, budget=6.0)
    assert costs_of(cost, 6.0).allows(found.support.tolist()) and found.swaps.within_budget


def test_options_that_need_one_another():
    X, b, cost = regression()
    model = LinearModel(X, b)
    for options in ({"feature_cost": cost}, {"budget": 3.0}):
        with pytest.raises(InvalidInputError, match="go together"):
            best_subset(model, 2, **options)
    with pytest.raises(InvalidInputError, match="give k"):
        best_subset(model)


def test_the_case_without_costs_takes_no_other_path(monkeypatch):
    """Only a search with costs is a search of another kind, and only there costs of sets are computed."""

    def never(*_):
        raise AssertionError("costs were asked for")

    for name in ("allows", "room", "spent", "affordable"):
        monkeypatch.setattr(Costs, name, never)
    X, b, _ = regression()
    for loss in ("squared", "absolute"):
        best_subset(LinearModel(X, b, loss), 2)
    assert not hasattr(SmoothSearch, "costs")


# --- estimators


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((100, 6)), columns=["age", "sex", "scan", "blood", "dose", "site"])
    y = X["age"] - 2 * X["scan"] + 0.7 * X["blood"] + 0.5 * X["dose"] + rng.standard_normal(100)
    return X, y, {"age": 1.0, "sex": 1.0, "scan": 6.0, "blood": 2.0, "dose": 1.5, "site": 0.5}


class TestEstimators:
    """By name or for each column; the budget holds for the returned, saved and certified model."""

    def test_by_name_by_column_and_as_a_series(self, table):
        X, y, cost = table
        model = SparseRegressor(feature_cost=cost, budget=7).fit(X, y)
        assert model.certificate_.spent <= 7 and model.budget_ == 7.0
        assert model.feature_cost_.tolist() == list(cost.values())
        for given in (list(cost.values()), pd.Series(cost)[::-1], np.array(list(cost.values()), np.float32)):
            other = SparseRegressor(feature_cost=given, budget=7).fit(X, y)
            assert np.array_equal(other.coef_, model.coef_)
        without_names = SparseRegressor(feature_cost={f"x{j}": c for j, c in enumerate(cost.values())}, budget=7)
        assert np.array_equal(without_names.fit(X.to_numpy(), y).coef_, model.coef_)
        assert model.certificate_.psi == pytest.approx(
            best_subset(
                LinearModel(X.to_numpy(), y, fit_intercept=True), feature_cost=list(cost.values()), budget=7
            ).psi
        )

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"feature_cost": {"height": 1.0}, "budget": 3}, "names 'height', and X has no such feature"),
            ({"feature_cost": {"age": 1.0}, "budget": 3}, "no cost for 'sex', 'scan', 'blood', 'dose', 'site'; give"),
            ({"feature_cost": dict.fromkeys("abcdefgh", 1), "budget": 3}, "'a', 'b', 'c', 'd', 'e' and 3 more"),
            ({"feature_cost": [1.0] * 6}, "feature_cost needs budget"),
            ({"budget": 3.0}, "budget needs feature_cost"),
            ({"feature_cost": [1.0] * 5, "budget": 3}, r"shape \(6,\)"),
            ({"feature_cost": [-1.0] * 6, "budget": 3}, "negative"),
            ({"feature_cost": [1.0] * 6, "budget": -3}, "at least 0"),
            ({"feature_cost": [1.0] * 6, "budget": [1, 2]}, "one number"),
            ({"feature_cost": [1.0] * 6, "budget": 3, "level": 2.0}, "not level"),
            ({"feature_cost": [1.0] * 6, "budget": 3, "constraint": "l1"}, "constraint"),
        ],
    )
    def test_invalid_input_is_refused(self, table, options, words):
        X, y, _ = table
        with pytest.raises(InvalidInputError, match=words):
            SparseRegressor(**options).fit(X, y)

    def test_a_wrong_number_by_name(self, table):
        X, y, cost = table
        for wrong in (-1.0, math.inf, math.nan, "much"):
            with pytest.raises(InvalidInputError, match="scan"):
                SparseRegressor(feature_cost={**cost, "scan": wrong}, budget=3).fit(X, y)

    def test_kept_features_need_no_cost(self, table):
        X, y, cost = table
        weight = [1, 0, 1, 1, 1, 1]
        rest = {name: c for name, c in cost.items() if name != "sex"}
        model = SparseRegressor(feature_cost=rest, budget=3, feature_weight=weight).fit(X, y)
        assert model.coef_[1] != 0 and model.certificate_.spent <= 3

    @pytest.mark.parametrize("loss", ["squared", "absolute"])
    @pytest.mark.parametrize("budget", [4.0, 7.5])
    def test_files_and_certificates(self, table, loss, budget, tmp_path):
        X, y, cost = table
        model = SparseRegressor(loss, feature_cost=cost, budget=budget, n_features=4).fit(X, y)
        model.save(tmp_path / "m.levelprox")
        back = load(tmp_path / "m.levelprox")
        assert back.feature_cost == cost and back.budget_ == budget
        assert back.certificate_ == model.certificate_ and np.array_equal(back.feature_cost_, model.feature_cost_)
        claims = certify_model(back, X, y, prove=True)
        assert claims.hold and {"cost", "budget"} <= {claim.name for claim in claims.claims}
        shown = model.certificate_
        swaps = replace(shown.swaps, total=shown.swaps.total + 1, examined=shown.swaps.total + 1)
        for lie in (replace(shown, spent=shown.spent / 2), replace(shown, swaps=swaps)):
            liar = copy.copy(model)
            liar.certificate_ = lie
            assert not certify_model(liar, X, y).hold

    def test_a_set_that_a_swap_improves_is_refuted(self, table):
        X, y, cost = table
        model = SparseRegressor(feature_cost=cost, budget=2.0).fit(X, y)
        (best,) = np.flatnonzero(model.coef_)[:1]
        worse = SparseRegressor(feature_cost={**cost, X.columns[best]: 50.0}, budget=2.0).fit(X, y)
        worse.feature_cost_, worse.feature_cost = model.feature_cost_, model.feature_cost
        total = certified = Costs(model.feature_cost_, 2.0).count_swaps(*[worse.selected_features_] * 2)
        shown = replace(worse.certificate_.swaps, examined=certified, total=total)
        worse.certificate_ = replace(
            worse.certificate_,
            swaps=shown,
            spent=Costs(model.feature_cost_, 2.0).spent(worse.selected_features_.tolist()),
        )
        claims = certify_model(worse, X, y, prove=True)
        assert not {claim.name: claim for claim in claims.claims}["swaps"].holds

    def test_a_file_beyond_its_budget_is_refused(self, table, tmp_path):
        X, y, cost = table
        model = SparseRegressor(feature_cost=cost, budget=7).fit(X, y)
        dear = copy.copy(model)
        dear.feature_cost_ = model.feature_cost_ * 2
        with pytest.raises((FileFormatError, InvalidInputError), match="more than budget_"):
            dear.save(tmp_path / "dear.levelprox")
        other = copy.copy(model)
        other.certificate_ = replace(model.certificate_, budget=8.0)
        with pytest.raises((FileFormatError, InvalidInputError), match="another budget"):
            other.save(tmp_path / "other.levelprox")

    def test_classes(self, table, tmp_path):
        X, y, cost = table
        for labels in (np.where(y > 0, "yes", "no"), np.digitize(y, [-1.5, 1.5])):
            model = SparseClassifier(feature_cost=cost, budget=3.5).fit(X, labels)
            assert model.certificate_.spent <= 3.5 and certify_model(model, X, labels).hold
            model.save(tmp_path / "m.levelprox", overwrite=True)
            assert np.array_equal(load(tmp_path / "m.levelprox").coef_, model.coef_)

    def test_another_fit_leaves_nothing_of_the_budget(self, table):
        X, y, cost = table
        model = SparseRegressor(feature_cost=cost, budget=7).fit(X, y)
        model.set_params(feature_cost=None, budget=None, n_features=2).fit(X, y)
        assert not hasattr(model, "budget_") and not hasattr(model, "feature_cost_")
        assert model.certificate_.budget is None

    def test_streams_and_remote_data_are_refused(self, table):
        X, y, cost = table
        model = SparseRegressor(feature_cost=cost, budget=7)
        with pytest.raises(AttributeError):
            model.partial_fit(X, y)
        da = pytest.importorskip("dask.array")
        with pytest.raises(InvalidInputError, match="data in memory"):
            model.fit(da.from_array(X.to_numpy(), chunks=50), da.from_array(y.to_numpy(), chunks=50))

    def test_a_budget_chosen_by_folds(self, table, tmp_path):
        X, y, cost = table
        model = SparseRegressorCV(feature_cost=cost, budget=[12.0, 1, 7], cv=3).fit(X, y)
        assert model.cv_results_["budget"].tolist() == [1.0, 7.0, 12.0]
        assert model.best_params_ == {"budget": model.budget_} and model.certificate_.spent <= model.budget_
        single = SparseRegressor(feature_cost=cost, budget=model.budget_).fit(X, y)
        assert np.array_equal(single.coef_, model.coef_)
        model.save(tmp_path / "m.levelprox")
        assert load(tmp_path / "m.levelprox").best_params_ == model.best_params_
        assert certify_model(model, X, y).hold

    def test_invalid_choices_are_refused(self, table):
        X, y, cost = table
        with pytest.raises(InvalidInputError, match="one n_features"):
            SparseRegressorCV(feature_cost=cost, budget=[1, 2], n_features=[1, 2]).fit(X, y)
        with pytest.raises(InvalidInputError, match="needs budget"):
            SparseClassifierCV(feature_cost=cost).fit(X, y > 0)

    def test_the_edge_of_the_grid(self, table):
        X, y, cost = table
        with pytest.warns(UserWarning, match="the best budget is 8, the largest of the grid"):
            SparseRegressorCV(feature_cost=cost, budget=[1, 8], cv=3, criterion="bic").fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            SparseRegressorCV(feature_cost=cost, budget=[1, 12], criterion="bic").fit(X, y)  # pays for all

    def test_pages_and_words(self, table):
        X, y, cost = table
        model = SparseRegressor(feature_cost=cost, budget=7).fit(X, y)
        assert "cost ≤ budget" in str(model.certificate_) and "within the budget" in model._repr_html_()
        text = page(model, X, y, fits=[])
        assert "at a cost of at most 7" in text
        with pytest.raises(InvalidInputError, match="n_features must be None: the model was fitted with budget"):
            page(model, X, y, n_features=[1, 2])


# --- the command line


@pytest.fixture
def files(table, tmp_path):
    X, y, cost = table
    X.assign(y=y).to_csv(tmp_path / "data.csv", index=False)
    lines = "".join(f"{name},{c}\n" for name, c in cost.items())
    (tmp_path / "costs.csv").write_text("feature,cost\n" + lines)
    return tmp_path


def test_the_command_line(files, table, capsys):
    X, y, cost = table
    words = ",".join(f"{name}={c}" for name, c in cost.items())
    for given, out in ((words, "a.levelprox"), (files / "costs.csv", "b.levelprox")):
        command = ["fit", files / "data.csv", "--feature-cost", given, "--budget", 7, "--out", files / out]
        assert main([str(word) for word in command]) == 0
        printed, _ = capsys.readouterr()
        assert "cost 7 ≤ 7" in printed
    model = SparseRegressor(feature_cost=cost, budget=7.0).fit(X, y)
    for out in ("a.levelprox", "b.levelprox"):
        assert np.array_equal(load(files / out).coef_, model.coef_)
    assert main([str(word) for word in ("certify", files / "a.levelprox", files / "data.csv")]) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--budget", "3"], "go together"),
        (["--feature-cost", "age=1"], "go together"),
        (["--feature-cost", "age=1", "--budget", "x"], "no budget"),
        (["--feature-cost", "age=1", "--budget", "-1"], "no budget"),
        (["--feature-cost", "age=much", "--budget", "1"], "'much' is no cost of 'age'"),
        (["--feature-cost", "age=1,age=2", "--budget", "1"], "two costs"),
        (["--feature-cost", "age=1", "--budget", "1,2"], "--cv"),
        (["--feature-cost", "age=1", "--budget", "1", "--level", "2"], "not --level"),
        (["--feature-cost", "age=1", "--budget", "1", "--chunked"], "in memory"),
        (["--feature-cost", "age=1", "--budget", "1", "--features", "1,2", "--cv", "3"], "one number of --features"),
        (["--feature-cost", "no.csv", "--budget", "1"], "no.csv"),
        (["--feature-cost", "age=1", "--budget", "1"], "no cost for 'sex'"),
        (["--feature-cost", "height=1", "--budget", "1"], "'height'"),
    ],
)
def test_what_the_command_line_refuses(files, capsys, options, words):
    assert main(["fit", str(files / "data.csv"), *options]) != 0
    assert words in capsys.readouterr().err


def test_a_large_search_ends_soon():
    """A thousand features: moves of several features are bounded in number."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 1000))
    b = X[:, :5] @ [3.0, -2.0, 2.0, 1.0, 1.0] + 0.1 * rng.standard_normal(80)
    cost = np.round(rng.uniform(0.5, 3.0, 1000), 1)
    began = time.process_time()
    found = best_subset(LinearModel(X, b), feature_cost=cost, budget=math.fsum(cost[:5]))
    assert found.psi <= best_subset(LinearModel(X, b), 5).psi * 1.5 and time.process_time() - began < 20
