"""A run that is broken off between two steps and resumed ends with the same bits, and repeats no work."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse

from levelprox import (
    Function,
    LinearModel,
    MultinomialModel,
    Problem,
    SparseClassifier,
    SparseClassifierCV,
    SparseRegressor,
    SparseRegressorCV,
    Status,
    best_subset,
    constraints,
    path,
    solve,
    subset_path,
)
from levelprox._path import KINDS
from levelprox.driver.checkpoint import SavedState
from levelprox.estimators._budget_fits import Scored
from levelprox.io.checkpoint import Checkpoint
from levelprox.io.container import decode, encode
from tests.support.long_runs import LONG

pytestmark = pytest.mark.filterwarnings("ignore::levelprox.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 20))
SIGNAL = X[:, 3] - 2 * X[:, 7] + 0.5 * X[:, 9] + 0.3 * RNG.standard_normal(60)
SIGNS = np.where(SIGNAL > 0, 1.0, -1.0)
MCP = constraints.MCP.from_threshold(0.1)
BREAKS = 8 if LONG else 4

OBJECTIVES = {
    "squared": LinearModel(X, SIGNAL),
    "logistic": LinearModel(X, SIGNS, loss="logistic"),
    "logistic with an intercept": LinearModel(scipy.sparse.csc_array(X), SIGNS, loss="logistic", fit_intercept=True),
    "sigmoid": LinearModel(X, SIGNS, loss="sigmoid"),
    "cauchy": LinearModel(X, SIGNAL, loss="cauchy"),
    "hinge": LinearModel(X, SIGNS, loss="hinge"),
    "absolute": LinearModel(X, SIGNAL, loss="absolute"),
    "multinomial": MultinomialModel(X, RNG.integers(0, 3, 60)),
    "a function": Function(lambda x: (0.5 * float(np.sum((x - X[0]) ** 2)), x - X[0]), 20),
}


class Every(SavedState):
    """Stores each state of a run and of those inside it, in the form in which it would be written to a file."""

    def __init__(self, root: Every | None = None) -> None:
        super().__init__()
        self.root = root or self
        self.kept: list[tuple[str, dict]] = []

    @property
    def idle(self) -> bool:
        return False

    def keep(self, state: object) -> None:
        self.state = state
        self.root.kept.append(encode(self.root.as_tree(), (*KINDS, Scored)))

    def part(self, name: str) -> SavedState:
        return self.parts.setdefault(name, Every(self.root))

    @classmethod
    def of(cls, kept: tuple[str, dict]) -> Every:
        journal = cls()
        journal.take(decode(*kept, (*KINDS, Scored), "test"))
        return journal


def some(states: list) -> list[tuple[int, tuple]]:
    """At most `BREAKS` of them, the first and the last among them, with their places."""
    places = sorted({round(i) for i in np.linspace(0, len(states) - 1, min(BREAKS, len(states)))})
    return [(place, states[place]) for place in places]


def figures(result) -> tuple:
    return (
        *(result.psi, result.status, result.n_outer, result.n_inner, result.n_grad, result.n_proj, result.stages),
        *(result.certificate, tuple((r.k, r.psi, r.kkt, r.change) for r in result.history)),
    )


SOLVES = {
    "by default": {},
    "rising levels": {"start": "direct", "levels": "harmonic", "max_iter": 15},
    "nesterov": {"subsolver": "nesterov", "max_iter": 12},
    "spectral": {"subsolver": "spectral", "max_iter": 15},
    "acsa": {"subsolver": "acsa", "max_iter": 3},
    "svrg": {"subsolver": "svrg", "random_state": 3, "max_iter": 5},
    "sgd": {"subsolver": "sgd", "random_state": np.random.RandomState(3), "max_iter": 5},
    "the paper's": {"preset": "paper", "random_state": 3, "max_iter": 4, "gamma": 1.0},
}


@pytest.mark.parametrize("options", SOLVES)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_solve_is_resumed_from_any_of_its_steps(name, options):
    problem, how = Problem(OBJECTIVES[name], MCP, 3.5), SOLVES[options]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = solve(problem, **_fresh(how))
    except ValueError as error:
        pytest.skip(f"not for this objective: {error}")
    journal = Every()
    assert figures(solve(problem, checkpoint=journal, **_fresh(how))) == figures(whole)
    assert len(journal.kept) > whole.n_outer
    for place, state in some(journal.kept):
        steps: list[int] = []
        told = partial(_note, steps)
        rest = solve(problem, checkpoint=Every.of(state), callback=told, **_fresh(how))
        np.testing.assert_array_equal(rest.x, whole.x)
        assert figures(rest) == figures(whole)
        assert len(steps) < whole.n_outer or place <= 1 or not steps


def _note(steps: list[int], record, x) -> None:
    steps.append(record.k)


def _fresh(options: dict) -> dict:
    """The options, with a generator that has not been used yet."""
    seeded = isinstance(options.get("random_state"), np.random.RandomState)
    return {**options, "random_state": np.random.RandomState(3)} if seeded else options


SEARCHES = [
    *((name, {}) for name in OBJECTIVES if name != "a function"),
    *((name, {"start": [1, 2, 3, 7]}) for name in ("logistic", "sigmoid", "hinge", "multinomial")),
    *((name, {"keep": [5], "nonnegative": True}) for name in ("squared", "logistic", "absolute")),
]


@pytest.mark.parametrize(("name", "options"), SEARCHES, ids=[f"{name} {' '.join(how)}" for name, how in SEARCHES])
def test_a_search_is_resumed_from_any_checkpoint(name, options):
    objective = OBJECTIVES[name]
    k = 2 if name == "hinge" else 3
    whole, journal = best_subset(objective, k, **options), Every()
    assert_same_subset(best_subset(objective, k, checkpoint=journal, **options), whole)
    for place, state in some(journal.kept):
        again = Every.of(state)
        assert_same_subset(best_subset(objective, k, checkpoint=again, **options), whole)
        assert len(again.kept) == len(journal.kept) - place - 1


@pytest.mark.parametrize("seed", [114, 115])
def test_work_cut_short_by_a_limit_is_not_recorded_as_finished(tmp_path, seed):
    """A loss that is not convex begins with a search of its own for a convex one."""
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((60, 25))
    objective = LinearModel(data, data[:, :6] @ rng.standard_normal(6) + rng.standard_cauchy(60), loss="cauchy")
    whole = best_subset(objective, 5)
    best_subset(objective, 5, max_iter=0, checkpoint=tmp_path / "state")
    assert_same_subset(best_subset(objective, 5, checkpoint=tmp_path / "state", resume=True), whole)


def test_what_was_not_examined_is_not_claimed():
    stopped = best_subset(OBJECTIVES["logistic"], 2, time_limit=0)
    assert np.isnan(stopped.multiplier) and stopped.addition is None
    assert "not examined" in str(stopped.certificate) and "any of the 0" not in stopped.message


def assert_same_subset(found, whole):
    np.testing.assert_array_equal(found.x, whole.x)
    assert (found.psi, found.status, found.message) == (whole.psi, whole.status, whole.message)
    assert (found.certificate, found.n_refits) == (whole.certificate, whole.n_refits)
    assert [record.psi for record in found.history] == [record.psi for record in whole.history]


@pytest.mark.parametrize("name", ["squared", "logistic with an intercept", "multinomial", "a function"])
def test_a_path_is_resumed_from_any_checkpoint(name):
    problem, levels = Problem(OBJECTIVES[name], MCP, 1.0), [0.5, 1.5, 2.5]
    whole, journal = path(problem, levels), Every()
    assert_same_path(path(problem, levels, checkpoint=journal), whole)
    for _, state in some(journal.kept):
        again = Every.of(state)
        assert_same_path(path(problem, levels, checkpoint=again), whole)
        assert len(again.kept) < len(journal.kept)


def test_a_path_of_subsets_is_resumed_from_any_checkpoint():
    objective, counts = OBJECTIVES["logistic"], [0, 1, 3]
    whole, journal = subset_path(objective, counts), Every()
    assert_same_path(subset_path(objective, counts, checkpoint=journal), whole)
    for _, state in some(journal.kept):
        assert_same_path(subset_path(objective, counts, checkpoint=Every.of(state)), whole)


def assert_same_path(found, whole):
    np.testing.assert_array_equal(found.coefficients.todense(), whole.coefficients.todense())
    np.testing.assert_array_equal(found.losses, whole.losses)
    assert (found.certificates, found.statuses) == (whole.certificates, whole.statuses)


@pytest.mark.parametrize("broken_by", ["max_iter", "callback", "time_limit"])
@pytest.mark.parametrize("subsolver", ["auto", "nesterov"])
def test_a_run_ended_by_a_limit_is_resumed_as_if_there_had_been_none(tmp_path, broken_by, subsolver):
    problem, file = Problem(OBJECTIVES["hinge" if subsolver == "auto" else "logistic"], MCP, 3.5), tmp_path / "state"
    whole = solve(problem, subsolver=subsolver)
    limit = {
        "max_iter": {"max_iter": 5},
        "callback": {"callback": lambda record, x: record.k == 5},
        "time_limit": {"time_limit": 0.02},
    }[broken_by]
    first = solve(problem, subsolver=subsolver, checkpoint=Checkpoint(file, 0), **limit)
    assert f"resume={str(file)!r}" in first.message or first.status is Status.SOLVED
    rest = solve(problem, subsolver=subsolver, checkpoint=file, resume=True)
    np.testing.assert_array_equal(rest.x, whole.x)
    assert rest.n_outer == whole.n_outer


@pytest.mark.parametrize("name", ["squared", "logistic", "hinge", "cauchy"])
def test_a_search_ended_by_a_limit_is_resumed_as_if_there_had_been_none(tmp_path, name):
    objective = OBJECTIVES[name]
    whole = best_subset(objective, 2)
    for i, limit in enumerate(({"max_iter": 0}, {"max_iter": 1}, {"time_limit": 0.03})):
        file = tmp_path / str(i)
        best_subset(objective, 2, checkpoint=Checkpoint(file, 0), **limit)
        rest = best_subset(objective, 2, checkpoint=file, resume=True)
        np.testing.assert_array_equal(rest.x, whole.x)
        assert (rest.psi, rest.certificate, rest.status) == (whole.psi, whole.certificate, whole.status)


ESTIMATORS = {
    "classifier": SparseClassifier(n_features=3),
    "of a level": SparseClassifier(level=2.5),
    "three classes": SparseClassifier(n_features=3, multi_class="softmax"),
    "regressor": SparseRegressor(n_features=3),
    "classifier cv": SparseClassifierCV(n_features=[1, 2, 3], cv=3),
    "regressor cv": SparseRegressorCV(level=[1.5, 2.5], cv=3),
    "by bic": SparseRegressorCV(n_features=[1, 2, 3], criterion="bic"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_model_is_the_same_after_a_break_at_any_step(tmp_path, name, monkeypatch):
    """A fit that is killed at its i-th write, for every i, and is started again."""
    model = ESTIMATORS[name]
    y = (
        np.digitize(SIGNAL, [-1, 1])
        if name == "three classes"
        else SIGNS
        if "class" in name or "level" in name
        else SIGNAL
    )
    whole = _clone(model).fit(X, y)
    file, broken, begun = tmp_path / "state", Checkpoint(tmp_path / "state", 0), 0
    keep = SavedState.keep

    def dying(self, state):
        keep(self, state)
        if not self.idle:
            raise Died

    monkeypatch.setattr(SavedState, "keep", dying)
    while begun < 200:
        begun += 1
        try:
            found = _clone(model, checkpoint=broken, resume=True).fit(X, y)
            break
        except Died:
            assert file.exists()
    assert begun > 5
    np.testing.assert_array_equal(found.coef_, whole.coef_)
    np.testing.assert_array_equal(found.intercept_, whole.intercept_)
    assert found.certificate_ == whole.certificate_
    if hasattr(whole, "cv_results_"):
        names = [key for key in whole.cv_results_ if "time" not in key]
        assert all(np.array_equal(found.cv_results_[key], whole.cv_results_[key]) for key in names)


class Died(BaseException):
    """What nothing catches."""


def _clone(model, **options):
    return type(model)(**{**model.get_params(), **options})


def test_without_a_checkpoint_nothing_is_recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SparseClassifier(n_features=2).fit(X, SIGNS)
    solve(Problem(OBJECTIVES["squared"], MCP, 2.5))
    assert not list(tmp_path.iterdir())
