"""Features with a negligible contribution are not reported (negligible.py)."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from levelprox import (
    LinearModel,
    Problem,
    SparseClassifier,
    SparseRegressor,
    SparseRegressorCV,
    certify,
    certify_model,
    constraints,
    minimize,
    path,
    solve,
)
from levelprox.backends.partition import Form
from levelprox.certificate.null_model import null_fit
from levelprox.losses import Logistic
from levelprox.methods import negligible
from levelprox.methods.negligible import without_negligible
from levelprox.methods.restricted import SolverOptions
from levelprox.methods.subsolvers import choose
from tests.support.in_memory_partitions import InMemory

MCP = constraints.MCP.from_threshold(0.1)


def data(noise=0.0, n=100, d=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, 3 * X[:, 2] - X[:, 5] + noise * rng.standard_normal(n)


def how_to(problem):
    subsolver = choose("auto", problem.objective)
    gamma = subsolver.proximal_weight(problem.objective)
    return SolverOptions(null_fit(problem), lambda: np.inf, subsolver, gamma)


@pytest.mark.parametrize("level", [2, 2.5, 5, 10, 20])
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_level_reports_only_features_that_matter(level, loss):
    X, y = data()
    model = SparseRegressor(loss, level=level).fit(X, y)
    assert str(model.status_) == "solved"
    assert model.selected_features_.tolist() == [2, 5]
    assert model.certificate_.n_nonzero == 2
    assert certify_model(model, X, y).hold


@pytest.mark.parametrize("seed", range(5))
def test_several_columns_that_move_together(seed):
    rng = np.random.default_rng(seed)
    X, _ = data(seed=seed)
    X = X + 2 * rng.standard_normal((100, 1))
    model = SparseRegressor(level=10).fit(X, 2 * X[:, 0] - X[:, 1])
    assert str(model.status_) == "solved" and model.selected_features_.tolist() == [0, 1]


def test_a_choice_of_levels_and_a_path_report_only_them():
    X, y = data()
    assert SparseRegressorCV(level=[2, 5, 10], cv=3).fit(X, y).selected_features_.tolist() == [2, 5]
    found = path(Problem(LinearModel(X, y), MCP, 1.0), [2, 5, 10])
    assert found.nonzeros.tolist() == [2, 2, 2] and found.success
    for i, certificate in enumerate(found.certificates):
        again = certify(Problem(LinearModel(X, y), MCP, found.levels[i]), found.x(i))
        assert again.psi == pytest.approx(certificate.psi, abs=1e-20) and again.n_nonzero == certificate.n_nonzero


def test_a_constraint_that_never_stops_charging_leaves_no_remainder():
    X, y = load_diabetes(return_X_y=True)
    model = SparseRegressor(level=1, constraint="exp").fit(X, y)
    assert str(model.status_) == "solved" and model.selected_features_.size == 1


def test_any_feature_of_a_perfect_separation_is_needed():
    X, y = data(d=12)
    model = SparseClassifier("hinge", level=10, standardize=False).fit(X, y > 0)
    coef, b, signs = model.coef_[0], model.intercept_[0], np.where(y > 0, 1, -1)

    def loss(coef):
        return np.mean(np.maximum(0, 1 - signs * (X @ coef + b)))

    assert loss(coef) == pytest.approx(0, abs=1e-12) and 0 < model.selected_features_.size < 12
    for j in model.selected_features_:
        assert loss(np.where(np.arange(12) == j, 0.0, coef)) > 1e-9


def test_the_certificate_is_that_of_what_is_returned():
    X, y = data()
    problem = Problem(LinearModel(X, y), MCP, 7.0)
    found = solve(problem)
    again = certify(problem, found.x)
    assert found.certificate == again
    assert np.count_nonzero(found.x) == 2 and found.kkt <= 1e-6


def test_features_that_are_left_out_change_psi_within_tol():
    """Loss and residual at most as much worse as negligible.py says, and the level holds."""
    X, y = data(noise=0.5)
    problem = Problem(LinearModel(X, y, fit_intercept=True), MCP, 2.5)
    x = solve(problem).x
    rng = np.random.default_rng(1)
    blurred = np.where(x == 0, 1e-8 * rng.standard_normal(x.size), x)
    loose = Problem(problem.objective, MCP, 3.0)
    how = how_to(loose)
    found = without_negligible(loose, blurred, 1e-6, how)
    cleaned, gradients = found.x, found.n_grad
    kept = np.flatnonzero(x)
    assert np.flatnonzero(cleaned).tolist() == kept.tolist() and gradients >= 1
    before, after = certify(loose, blurred), certify(loose, cleaned)
    assert after.psi <= before.psi + 1e-8 * (how.null.psi - before.psi)
    assert after.kkt <= max(before.kkt, 5e-7) and after.g <= 3.0


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_what_tol_cannot_tell_from_zero_is_left_out_by_one_fit(loss, monkeypatch):
    """The model of ψ predicts which features go: small ones that matter among them cost no trial."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((200, 30)) + rng.standard_normal((200, 1))
    y = 3 * X[:, 2] - X[:, 5] + 2e-3 * X[:, 7] + rng.standard_normal(200)
    problem = Problem(LinearModel(X, np.sign(y) if loss == "logistic" else y, loss), MCP, 100.0)
    how, least = how_to(problem), solve(problem.restrict(np.array([2, 5, 7]))).x
    x = problem.spread(np.array([2, 5, 7]), least)
    x[10:20] = 1e-9 * rng.standard_normal(10)
    loose = 1.5 * certify(problem, x).kkt  # the fit of three features is a solution within it
    fits = []
    solve_over = negligible.solve_over
    monkeypatch.setattr(negligible, "solve_over", lambda *given: fits.append(given[1]) or solve_over(*given))
    found = negligible.without_negligible(problem, x, loose, how, known=(loose, 0.0))
    assert np.flatnonzero(found.x).tolist() == [2, 5, 7] and len(fits) == 1 and found.n_grad == 1
    psi, gradient = problem.objective.value_and_gradient(found.x)
    assert found.psi == psi and np.array_equal(found.gradient, gradient)


@pytest.mark.parametrize("level", [1.001, 2.01, 2.5])
def test_a_small_coefficient_that_the_level_pays_for_stays(level):
    X, y = data(noise=0.5)
    found = solve(Problem(LinearModel(X, y), MCP, level))
    assert np.count_nonzero(found.x) == int(level) + 1
    assert found.g == pytest.approx(level)


def test_features_that_never_count_stay():
    X, y = data()
    tiny = 1e-9 * y / np.abs(y).max()
    model = SparseRegressor(level=5, keep=[7]).fit(X, y + tiny * X[:, 7])
    assert 7 in model.selected_features_


def test_a_function_of_the_users_loses_remainders_too():
    b = np.array([3.0, -2.0, 1e-12, 0.0])
    found = minimize(lambda x: (0.5 * np.sum((x - b) ** 2), x - b), constraints.L1(), 10.0, n=4)
    assert np.flatnonzero(found.x).tolist() == [0, 1]


def test_the_papers_rule_and_its_preset_return_what_they_reached():
    X, y = data()
    problem = Problem(LinearModel(X, y), MCP, 5.0)
    found = solve(problem, stopping="change", tol=1e-4)
    assert found.psi == found.history[-1].psi


def test_a_run_gone_on_with_leaves_out_the_same(tmp_path):
    X, y = data()
    problem = Problem(LinearModel(X, y), MCP, 5.0)
    whole = solve(problem)
    solve(problem, checkpoint=tmp_path / "state", callback=lambda record, x: record.k >= 1)
    again = solve(problem, checkpoint=tmp_path / "state", resume=True)
    assert np.array_equal(whole.x, again.x) and whole.certificate == again.certificate


def test_ctrl_c_meanwhile_keeps_the_point(monkeypatch):
    import levelprox.methods.level_ending as conclusion

    def interrupts(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(conclusion, "without_negligible", interrupts)
    X, y = data()
    found = solve(Problem(LinearModel(X, y), MCP, 5.0))
    assert str(found.status) == "interrupted" and found.g <= 5.0


@pytest.mark.parametrize("level", [1, 3])
@pytest.mark.parametrize("constraint", ["mcp", "scad", "exp", "negative_lp", "log", "lp"])
def test_whole_levels_are_solved_without_a_warning(constraint, level):
    """Warnings are errors here; coefficients far past the threshold cost no more than the last digit of g."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((150, 8))
    y = X @ [4.0, -3.0, 2.0, 1.0, 0, 0, 0, 0] + rng.logistic(size=150) > 0
    model = SparseClassifier(level=level, constraint=constraint).fit(X, y)
    assert str(model.status_) == "solved" and model.certificate_.g <= level


@pytest.mark.parametrize("level", [2, 3, 5, 3.5])
def test_large_coefficients_are_not_shrunk(level):
    """As the README says: at a whole level they are those of least squares; half-way the level holds the model back."""
    X, y = load_diabetes(return_X_y=True)
    model = SparseRegressor(level=level).fit(X, y)
    large = np.abs(model.scale_ * model.coef_) > 0.1 * y.std()
    assert large.sum() == int(level)
    rest = y - X[:, ~large] @ model.coef_[~large]
    best = np.linalg.lstsq(np.c_[X[:, large], np.ones(y.size)], rest, rcond=None)[0][:-1]
    assert model.coef_[large] == pytest.approx(best, rel=1e-6)
    held_back = level != int(level)
    assert model.selected_features_.size == int(level) + held_back
    assert (model.multiplier_ > 0) or not held_back


def test_remote_features_that_matter_are_kept_without_a_full_pass(monkeypatch):
    X, y = data(noise=0.3)
    far = InMemory.cut(X, np.where(y > 0, 1.0, -1.0), 3).model(Form(Logistic()))
    problem = Problem(far, MCP, 4.5 * MCP.cap)
    result = solve(problem, start="direct")
    trial = negligible._Trial(problem, result.x, 1e-6, how_to(problem), None, None)
    monkeypatch.setattr(trial, "_most_above", lambda psi: np.inf)
    before = far.traffic
    assert trial.in_few_rounds(np.flatnonzero(result.x)) is result.x
    assert far.traffic.full_gradients == before.full_gradients
    assert far.traffic.rounds > before.rounds
