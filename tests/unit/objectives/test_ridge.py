"""A ridge: derivatives, claims against enumeration, estimators, and where "auto" adds one."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from levelprox import (
    InvalidInputError,
    LinearModel,
    MultinomialModel,
    Problem,
    SparseClassifier,
    SparseClassifierCV,
    SparseRegressor,
    SparseRegressorCV,
    Status,
    best_subset,
    certify,
    certify_model,
    load,
    open_chunked,
    solve,
)
from levelprox.constraints import MCP
from levelprox.estimators._automatic_ridge import GRID, _minimised, _point, chosen_ridge
from levelprox.estimators._fit import Task
from levelprox.objectives import OneVsRestModel
from levelprox.objectives.leave_one_out import left_out_losses
from levelprox.subset.swaps import SwapSearch
from tests.support.ridge_problems import LOSSES, RidgeOracle, ridge_case

CASES = [(loss, seed) for seed in range(60) for loss in LOSSES]


def separable(n: int = 60, d: int = 8, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (X[:, 1] - X[:, 4] > 0).astype(int)


# --- derivatives


@pytest.mark.parametrize("loss", LOSSES)
def test_values_gradients_and_hessians_are_those_of_the_loss_with_the_ridge(loss: str) -> None:
    case = ridge_case(3, loss)
    objective, rng = case.objective, np.random.default_rng(0)
    x = 0.1 * rng.standard_normal(objective.dimension)
    z = objective.margins(x)
    psi, gradient = objective.value_and_gradient(x)
    assert psi == pytest.approx(case.psi(x.reshape(-1, case.n_outputs)), rel=1e-12)
    assert objective.value_of(z) == pytest.approx(psi, rel=1e-12)
    np.testing.assert_allclose(objective.gradient_of(z), gradient, rtol=1e-9, atol=1e-12)
    hessian = objective.hessian_of(z, True)
    free = case.objective.ridged(0.0)
    held = np.repeat(2 * np.append(case.ridge, [0.0] * case.intercept), case.n_outputs)
    np.testing.assert_allclose(hessian, free.hessian_of(free.margins(x), True) + np.diag(held), rtol=1e-12)
    step = rng.standard_normal(x.size)
    np.testing.assert_allclose(objective.hessian_product_of(z, True)(step), hessian @ step, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(objective.hessian_diagonal_of(z, True), np.diagonal(hessian), rtol=1e-12)
    moves = [objective.moved(unit) for unit in np.eye(x.size)]
    np.testing.assert_allclose(objective.cross_hessian_of(z, moves, x.size, True), hessian, rtol=1e-9, atol=1e-12)
    after, slope, bend = objective.evaluated(z, step, True)
    np.testing.assert_allclose(after, objective.margins(x + step), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(slope, objective.value_and_gradient(x + step)[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(bend, objective.hessian_of(after, True), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_part_and_other_units_have_the_same_ridge(loss: str) -> None:
    case = ridge_case(5, loss)
    objective, n_outputs = case.objective, case.n_outputs
    d = objective.dimension // n_outputs
    W = np.array([0, 2, d - 1])
    part = objective.restrict(W)
    x = np.random.default_rng(1).standard_normal((3, n_outputs))
    whole = np.zeros((d, n_outputs))
    whole[W] = x
    assert part.value_of(part.margins(x.ravel())) == pytest.approx(case.psi(whole), rel=1e-12)
    assert objective.value_of(part.margins(x.ravel())) == pytest.approx(case.psi(whole), rel=1e-12)
    scale = np.where(np.isin(np.arange(d), objective.unpenalized), 1.0, np.exp2(np.arange(d)))
    scaled = objective.scaled(scale)
    assert scaled.value_and_gradient((scale[:, None] * whole).ravel())[0] == pytest.approx(case.psi(whole), rel=1e-12)


def test_a_ridge_needs_a_differentiable_loss_and_is_not_negative() -> None:
    X, b = np.eye(3), np.array([1.0, -1.0, 1.0])
    with pytest.raises(InvalidInputError, match="differentiable losses, not for 'hinge'; use 'squared_hinge'"):
        LinearModel(X, b, "hinge", ridge=1.0)
    with pytest.raises(InvalidInputError, match="'absolute'; use 'huber' or 'squared'"):
        LinearModel(X, b, "absolute", ridge=1.0)
    with pytest.raises(InvalidInputError, match="ridge must not be negative, got -1"):
        LinearModel(X, b, ridge=-1.0)
    with pytest.raises(InvalidInputError, match="one for each of 3 features, got"):
        LinearModel(X, b, ridge=[1.0, 2.0])
    assert LinearModel(X, b, "hinge", ridge=0.0).ridge is None


# --- claims, against enumeration


@pytest.mark.parametrize(("loss", "seed"), CASES)
def test_claims_hold_with_a_ridge(loss: str, seed: int) -> None:
    case = ridge_case(seed, loss, loss not in ("multinomial", "one_vs_rest") and seed % 4 == 3)
    found, oracle = best_subset(case.objective, case.k, nonnegative=case.nonnegative), RidgeOracle(case)
    d = case.X.shape[1]
    S, null = tuple(found.support.tolist()), oracle.value(())
    tolerance = 1e-6 * abs(null) + 1e-9
    outside = [j for j in range(d) if j not in S]
    assert found.status.success
    assert found.psi == pytest.approx(case.psi(found.x.reshape(-1, case.n_outputs)), rel=1e-9, abs=1e-9 * abs(null))
    assert found.psi == pytest.approx(oracle.value(S), abs=tolerance)
    if found.swaps.proved:
        swaps = [oracle.value(tuple(sorted({*S, j} - {i}))) for i in S for j in outside]
        assert found.psi <= min(swaps, default=np.inf) + tolerance
    gain = max([0.0, *(found.psi - oracle.value(tuple(sorted({*S, j}))) for j in outside)])
    if found.additions is not None and found.additions.proved:
        assert found.multiplier == pytest.approx(gain, abs=tolerance)
    if len(S) < min(case.k, d):
        assert gain <= tolerance
    best = min(oracle.value(every) for every in itertools.combinations(range(d), min(case.k, d)))
    assert found.psi <= best + 10 * tolerance  # seen in all of 416


@pytest.mark.parametrize("loss", LOSSES)
def test_a_level_with_a_ridge_is_solved(loss: str) -> None:
    case = ridge_case(0, loss)
    problem = Problem(case.objective, MCP(lam=1.0, theta=2.0), 1.5)
    found = solve(problem)
    assert found.success and problem.is_feasible(found.x)
    shown = certify(problem, found.x)
    assert shown.kkt <= 1e-5
    assert shown.psi == pytest.approx(case.psi(found.x.reshape(-1, case.n_outputs)), rel=1e-9)


def test_squared_loss_with_a_ridge_is_that_of_rows_below() -> None:
    """Σ (b − Xx)²/n + λ‖x‖² is the mean square of data with √(nλ) I below X, times (n + d)/n."""
    rng = np.random.default_rng(2)
    X, b, lam = rng.standard_normal((40, 12)), rng.standard_normal(40), 0.3
    n, d = X.shape
    below = LinearModel(np.vstack([X, np.sqrt(n * lam) * np.eye(d)]), np.append(b, np.zeros(d)))
    one, other = best_subset(LinearModel(X, b, ridge=lam), 4), best_subset(below, 4)
    np.testing.assert_array_equal(one.support, other.support)
    np.testing.assert_allclose(one.x, other.x, rtol=1e-9, atol=1e-12)
    assert one.psi == pytest.approx(other.psi * (n + d) / n)


# --- estimators


def test_regressors_are_ridge_regression_on_their_features() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 10)) * 10.0 ** np.arange(-4, 6)
    y = X[:, 2] / np.std(X[:, 2]) - 2 * X[:, 7] / np.std(X[:, 7]) + rng.standard_normal(80)
    for standardize in (True, False):
        model = SparseRegressor(n_features=3, ridge=0.1, standardize=standardize).fit(X, y)
        S, s = model.selected_features_, np.std(X[:, model.selected_features_], axis=0)
        twin = Ridge(alpha=0.1 * len(y)).fit((X[:, S] - X[:, S].mean(axis=0)) / s, y)
        np.testing.assert_allclose(model.coef_[S] * s, twin.coef_, rtol=1e-7)
        assert model.ridge_ == 0.1 and certify_model(model, X, y, prove=True).hold


def test_a_ridge_of_separable_classes_is_that_of_scikit_learn() -> None:
    X, y = separable()
    model = SparseClassifier(n_features=2).fit(X, y)
    S = model.selected_features_
    Z = (X[:, S] - X[:, S].mean(axis=0)) / X[:, S].std(axis=0)
    twin = LogisticRegression(C=0.5 / (60 * model.ridge_), tol=1e-10, max_iter=1000).fit(Z, y)
    assert S.tolist() == [1, 4] and model.ridge_ in [factor * (0.5 / 60) for factor in GRID]
    np.testing.assert_allclose(model.coef_[0, S] * X[:, S].std(axis=0), twin.coef_[0], rtol=1e-4)
    assert model.status_.success and f"ridge={model.ridge_:.3g} is added" in model.message_
    assert np.all(np.isfinite(model.predict_log_proba(X)))


def test_auto_is_0_where_classes_overlap() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6))
    y = (X[:, 0] + rng.logistic(size=200) > 0).astype(int)
    model, pure = SparseClassifier(n_features=3).fit(X, y), SparseClassifier(n_features=3, ridge=0).fit(X, y)
    assert model.ridge_ == pure.ridge_ == 0 and "ridge" not in model.message_
    assert model.coef_.tobytes() == pure.coef_.tobytes()


def test_ridge_0_is_the_pure_problem() -> None:
    X, y = separable()
    with pytest.warns(UserWarning, match="separable"):
        model = SparseClassifier(n_features=2, ridge=0).fit(X, y)
    assert str(model.status_) == "diverging" and model.ridge_ == 0


@pytest.mark.parametrize("multi_class", ["softmax", "ovr"])
def test_several_separable_classes_have_finite_probabilities(multi_class: str) -> None:
    X, y = load_wine(return_X_y=True)
    model = SparseClassifier(n_features=3, multi_class=multi_class).fit(X, y)
    assert 0.005 / len(y) <= model.ridge_ <= 0.5 / len(y) and np.abs(model.coef_ * model.scale_).max() < 20
    assert certify_model(model, X, y).hold


def test_a_level_of_separable_classes_is_finite() -> None:
    X, y = separable()
    model = SparseClassifier(level=2.5).fit(X, y)
    assert model.ridge_ > 0 and model.status_.success and np.abs(model.coef_).max() < 100
    assert certify_model(model, X, y).hold


def test_kept_features_are_free_of_the_ridge() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 5))
    y = X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(50)
    weight = np.array([0.0, 1, 1, 1, 1])
    model = SparseRegressor(n_features=1, ridge=100.0, feature_weight=weight).fit(X, y)
    assert abs(model.coef_[0] - 1) < 0.3 and abs(model.coef_[1]) < 0.05
    assert certify_model(model, X, y, prove=True).hold


def test_weights_count_as_samples_in_auto() -> None:
    X, y = separable()
    once = SparseClassifier(n_features=2).fit(X, y)
    twice = SparseClassifier(n_features=2).fit(X, y, sample_weight=np.full(60, 2.0))
    repeated = SparseClassifier(n_features=2).fit(np.vstack([X, X]), np.append(y, y))
    some = SparseClassifier(n_features=2).fit(np.vstack([X, X]), np.append(y, 1 - y), sample_weight=[1] * 60 + [0] * 60)
    shares = SparseClassifier(n_features=2).fit(X, y, sample_weight=np.full(60, 1 / 60))
    assert once.ridge_ == some.ridge_ == pytest.approx(shares.ridge_) and 0 < twice.ridge_ <= once.ridge_ / 2
    assert twice.ridge_ == repeated.ridge_
    np.testing.assert_allclose(twice.coef_, repeated.coef_, rtol=1e-6)


def test_a_model_file_has_the_ridge(tmp_path: Path) -> None:
    X, y = separable()
    model = SparseClassifier(n_features=2).fit(X, y)
    model.save(tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    assert loaded.ridge_ == model.ridge_ and loaded.ridge == "auto" and certify_model(loaded, X, y).hold
    loaded.ridge_ = 2 * model.ridge_
    assert not certify_model(loaded, X, y).hold


def test_cross_validation_of_separable_data_needs_no_warning() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SparseClassifierCV(n_features=[2, 10], cv=3).fit(X[:200, :10], y[:200])
    assert not np.any(model.cv_results_["n_diverging"]) and model.scoring_ is None
    assert np.all(model.cv_results_["mean_test_score"] > -0.5)


def test_a_grid_of_ridges_is_chosen_from_with_the_budget(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    y = X[:, 0] - X[:, 3] + rng.standard_normal(60)
    model = SparseRegressorCV(n_features=[1, 2, 6], ridge=[0.0, 0.1, 10.0], cv=3).fit(X, y)
    table = model.cv_results_
    assert table["n_features"].tolist() == [1] * 3 + [2] * 3 + [6] * 3 and table["ridge"].tolist() == [10, 0.1, 0] * 3
    best = int(np.argmax(table["mean_test_score"]))
    assert model.best_params_ == {"n_features": table["n_features"][best], "ridge": table["ridge"][best]}
    assert model.ridge_ == table["ridge"][best] and certify_model(model, X, y).hold
    one = SparseRegressorCV(n_features=[2], ridge=0.1, cv=3).fit(X, y)
    assert one.cv_results_["mean_test_score"][0] == pytest.approx(table["mean_test_score"][4], rel=1e-9)
    simple = SparseRegressorCV(n_features=[1, 2, 6], ridge=[0.0, 0.1, 10.0], cv=3, one_standard_error=True).fit(X, y)
    within = table["mean_test_score"] >= table["mean_test_score"][best] - table["standard_error"][best]
    assert simple.best_index_ == int(np.argmax(within))  # the fewest features, of these the largest ridge
    model.save(tmp_path / "model.safetensors")
    assert load(tmp_path / "model.safetensors").best_params_ == model.best_params_
    results, chosen = model.results_by_budget()
    assert results["n_features"].tolist() == [1, 2, 6]
    assert results["n_features"][chosen] == model.best_params_["n_features"]


def test_a_grid_of_ridges_goes_with_levels_and_criteria() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 5))
    y = (X[:, 0] + rng.logistic(size=80) > 0).astype(int)
    model = SparseClassifierCV(level=[0.5, 1.3], ridge=[0.0, 0.05], cv=2).fit(X, y)
    assert model.best_params_.keys() == {"level", "ridge"} and len(model.cv_results_["ridge"]) == 4
    chosen = SparseClassifierCV(n_features=[1, 2], ridge=[0.0, 0.05], criterion="bic").fit(X, y)
    assert chosen.best_params_["ridge"] == 0.0  # the likelihood falls with a ridge


@pytest.mark.parametrize("ridge", [-1.0, np.inf, np.nan, "some", None, [1.0, 2.0]])
def test_other_ridges_are_refused(ridge: Any) -> None:
    X, y = separable()
    with pytest.raises((InvalidInputError, TypeError), match="ridge"):
        SparseClassifier(n_features=2, ridge=ridge).fit(X, y)


@pytest.mark.parametrize("ridge", [0.05, "auto"])
def test_files_have_the_same_ridge(ridge: Any, tmp_path: Path) -> None:
    X, y = separable()
    np.save(tmp_path / "X.npy", X)
    here = SparseClassifier(n_features=2, ridge=ridge).fit(X, y)
    there = SparseClassifier(n_features=2, ridge=ridge).fit(open_chunked(tmp_path / "X.npy", chunk_bytes=2000), y)
    assert there.ridge_ == here.ridge_ > 0
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-5)
    assert there.certificate_.psi == pytest.approx(here.certificate_.psi)


@pytest.mark.parametrize("multi_class", ["softmax", "ovr"])
def test_several_classes_in_files_have_the_same_ridge_under_a_level(multi_class: str, tmp_path: Path) -> None:
    X, y = load_wine(return_X_y=True)
    np.save(tmp_path / "X.npy", X)
    data = open_chunked(tmp_path / "X.npy", chunk_bytes=4000)
    model = SparseClassifier(level=1.7, ridge=0.05, multi_class=multi_class)
    here, there = clone(model).fit(X, y), clone(model).fit(data, y)
    assert there.ridge_ == here.ridge_ == 0.05
    assert there.certificate_.psi == pytest.approx(here.certificate_.psi, rel=1e-4)
    assert certify_model(here, X, y).hold


def test_a_stream_with_a_ridge_is_shorter() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4))
    y = X @ [2.0, 0, 0, -1] + 0.1 * rng.standard_normal(400)
    free, held = SparseRegressor(n_features=2), SparseRegressor(n_features=2, ridge=1.0)
    for begin in range(0, 400, 100):
        free.partial_fit(X[begin : begin + 100], y[begin : begin + 100])
        held.partial_fit(X[begin : begin + 100], y[begin : begin + 100])
    np.testing.assert_allclose(held.coef_, free.coef_ / 2, atol=0.1)


# --- λ of "auto"


def exact_left_out(X: Any, y: Any, count: Any, ridge: float, multinomial: bool) -> float:
    """The mean loss of samples under refits without one of each, by scikit-learn's Newton method."""
    total, losses = count.sum(), []
    for i in range(len(y)):
        weight = count.astype(float)
        weight[i] -= 1
        fit = LogisticRegression(C=0.5 / (total * ridge), solver="newton-cholesky", tol=1e-9, max_iter=500)
        if multinomial:
            p = fit.fit(X, y, sample_weight=weight).predict_log_proba(X[i : i + 1])[0]
            losses.append(-p[y[i]])
        else:
            signs = [(y == k).astype(int) for k in range(1 if y.max() == 1 else 0, y.max() + 1)]
            each = [fit.fit(X, own, sample_weight=weight).predict_log_proba(X[i : i + 1])[0, own[i]] for own in signs]
            losses.append(-sum(each))
    return float(np.sum(count * losses) / total)


@pytest.mark.parametrize(("model", "classes"), [(LinearModel, 2), (MultinomialModel, 3), (OneVsRestModel, 3)])
@pytest.mark.parametrize("repeated", [False, True])
def test_leave_one_out_losses_are_those_of_refits(model: Any, classes: int, repeated: bool) -> None:
    rng = np.random.default_rng(0)
    n = 16
    X = rng.standard_normal((n, 2))
    signal = X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(n)
    y = np.digitize(signal, np.quantile(signal, np.arange(1, classes) / classes))
    count = rng.integers(1, 4, n) if repeated else np.ones(n, int)
    target = 2.0 * y - 1 if classes == 2 else y
    loss = () if model is MultinomialModel else ("logistic",)
    objective = model(X, target, *loss, sample_weight=count / 7, fit_intercept=True)
    for factor, within in ((1.0, 0.02), (0.1, 0.08)):
        ridge = factor / (2 * count.sum())
        bend = np.repeat([2 * ridge, 2 * ridge, 0.0], objective.n_outputs)
        at = _point(objective, _minimised(objective, np.zeros(bend.size), bend))
        losses = left_out_losses(objective, at, 1 / count.sum())
        found = float(np.sum(count * losses) / count.sum())
        exact = exact_left_out(X, y, count, ridge, model is MultinomialModel)
        in_sample = objective.value_of(objective.margins(at.x))
        assert found == pytest.approx(exact, rel=within)
        assert abs(found - exact) < 0.2 * abs(in_sample - exact)  # it corrects what a fit knows of its own samples


def test_the_chosen_ridge_predicts_samples_that_are_left_out() -> None:
    for seed, noise in ((0, 0.0), (1, 0.3)):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((30, 2))
        y = (X[:, 0] + X[:, 1] + noise * rng.standard_normal(30) > 0).astype(int)
        objective = LinearModel(X, 2.0 * y - 1, "logistic", fit_intercept=True)
        ridge = chosen_ridge(objective, np.array([1.0, 1.0, 0.0]), 1 / 60, np.zeros(3, np.bool_))
        ridges = [factor * (1 / 60) for factor in GRID]
        exact = {one: exact_left_out(X, y, np.ones(30, int), one, False) for one in ridges}
        assert exact[ridge] < 0.9 * exact[1 / 60] and exact[ridge] <= 1.5 * min(exact.values())


def test_signs_are_obeyed_where_the_ridge_is_chosen() -> None:
    X, y = separable()
    objective = LinearModel(X[:, [1, 4]], 2.0 * y - 1, "logistic", fit_intercept=True)
    unit, signs = np.array([1.0, 1.0, 0.0]), np.array([True, True, False])
    alone = LinearModel(X[:, [1]], 2.0 * y - 1, "logistic", fit_intercept=True)
    expected = chosen_ridge(alone, unit[1:], 1 / 120, signs[1:])
    assert chosen_ridge(objective, unit, 1 / 120, signs) == expected  # the second coefficient would be negative
    model = SparseClassifier(n_features=2, positive=True).fit(np.column_stack([X, -X[:, 4]]), y)
    assert model.ridge_ > 0 and np.all(model.coef_ >= 0)


def held_out_losses(model: Any, X: Any, y: Any) -> Any:
    losses = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        fitted = clone(model).fit(X[train], y[train])
        losses.append(log_loss(y[test], fitted.predict_proba(X[test])))
    return np.array(losses)


def test_held_out_losses_of_iris_are_those_of_the_best_l2_penalty() -> None:
    """λ = 1/(2n) had 0.157, and this 0.07."""
    X, y = load_iris(return_X_y=True)
    found = held_out_losses(SparseClassifier(n_features=4), X, y)
    others = [held_out_losses(make_pipeline(StandardScaler(), LogisticRegression(C=C)), X, y) for C in (1, 10, 100)]
    best = min(others, key=np.mean)
    assert found.mean() <= best.mean() + best.std(ddof=1) / np.sqrt(5)
    assert found.mean() < 0.6 * others[0].mean()


@pytest.mark.parametrize(("loss", "seed"), [(loss, seed) for loss in ("logistic", "multinomial") for seed in range(4)])
def test_claims_hold_for_the_chosen_ridge(loss: str, seed: int) -> None:
    case = ridge_case(seed, loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SparseClassifier(n_features=case.k).fit(case.X, case.b, sample_weight=case.weight)
    share = np.ones(len(case.b)) if case.weight is None else case.weight
    largest = 0.5 / share.sum()
    assert model.ridge_ == 0 or model.ridge_ in [factor * largest for factor in GRID]
    spread = np.average((case.X - np.average(case.X, axis=0, weights=share)) ** 2, axis=0, weights=share)
    oracle = RidgeOracle(replace(case, intercept=True, ridge=model.ridge_ * spread))
    S, d = tuple(model.selected_features_.tolist()), case.X.shape[1]
    tolerance = 1e-6 * oracle.value(()) + 1e-9
    psi = model.certificate_.psi
    assert psi == pytest.approx(oracle.value(S), abs=tolerance)
    every = [oracle.value(one) for one in itertools.combinations(range(d), min(case.k, d))]
    assert psi <= min(every) + 10 * tolerance
    assert ("is added" in model.message_) == (model.ridge_ > 0) and certify_model(
        model, case.X, case.b, sample_weight=case.weight
    ).hold


def test_a_separable_fit_examines_swaps_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both searches, with and without a ridge, used to do all."""
    examining: list[SwapSearch] = []
    plain = SwapSearch.examined

    def noted(self: SwapSearch) -> int:
        if self not in examining:
            examining.append(self)
        return plain(self)

    monkeypatch.setattr(SwapSearch, "examined", noted)
    X, y = load_breast_cancer(return_X_y=True)
    model = SparseClassifier(n_features=8).fit(X[:200], y[:200])
    assert model.ridge_ > 0 and len(examining) == 1 and examining[0].objective.ridge is not None
    X, y = separable(60, 20)
    examining.clear()
    model = SparseClassifier(n_features=2).fit(X, y)
    assert model.ridge_ > 0 and len(examining) == 1 and examining[0].objective.ridge is not None


def test_features_that_need_no_ridge_with_one_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set on the way that separates classes decides nothing, should those in the end not do so."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6))
    y = (X[:, 0] + rng.logistic(size=200) > 0).astype(int)
    pure = SparseClassifier(n_features=3, ridge=0).fit(X, y)
    plain, calls = Task.is_undetermined, []

    def at_first(self: Task, x: Any, refit: bool = False) -> bool:
        calls.append(x)
        return len(calls) == 1 or plain(self, x, refit)

    monkeypatch.setattr(Task, "is_undetermined", at_first)
    monkeypatch.setattr(Task, "features", lambda self, x: np.flatnonzero(x[:6]) if len(calls) > 1 else np.arange(1))
    model = SparseClassifier(n_features=3).fit(X, y)
    assert calls and model.ridge_ == 0 and model.coef_.tobytes() == pure.coef_.tobytes()


# --- what a review found


@pytest.mark.parametrize("constant", [3.0, 0.0])
def test_a_kept_column_that_does_not_vary(constant: float) -> None:
    """Sparse and without a ridge, it had no entry at all: the kernel read through a null pointer."""
    X, y = separable(40, 5)
    X[:, 0] = constant
    y = (X[:, 1] > 0).astype(int)
    assert SparseClassifier(n_features=1, keep=[0]).fit(X, y).ridge_ > 0
    assert SparseRegressor(n_features=1, keep=[0], ridge=0.1).fit(X, X[:, 1]).status_.success


@pytest.mark.parametrize("criterion", ["aic", "bic"])
def test_the_chosen_level_and_ridge_are_those_fitted(criterion: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    y = X[:, 0] + 0.5 * X[:, 1] + rng.standard_normal(60)
    model = SparseRegressorCV(level=[1.5, 2.5, 3.5, 4.5], ridge=[0, 1e-3, 1.0], criterion=criterion).fit(X, y)
    assert model.best_params_ == {"level": model.level_, "ridge": model.ridge_}
    values = model.cv_results_[criterion]
    single = SparseRegressor(level=model.level_, ridge=model.ridge_).fit(X, y)
    assert model.best_index_ == np.argmin(values)
    np.testing.assert_allclose(single.coef_, model.coef_, atol=1e-6)


def test_large_means_do_not_change_the_ridge_of_columns_as_they_are() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    y = X[:, 0] + 0.5 * X[:, 1] + rng.standard_normal(60)
    near, far = (SparseRegressor(n_features=2, ridge=0.1, standardize=False).fit(X + mean, y) for mean in (0, 1e7))
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-6)
    assert certify_model(far, X + 1e7, y).hold


def test_correlated_features_need_no_ridge() -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((300, 4))
    X[:, 1] = X[:, 0] + 0.02 * rng.standard_normal(300)
    y = (rng.random(300) < 1 / (1 + np.exp(-60 * (X[:, 1] - X[:, 0])))).astype(int)
    model = SparseClassifier(n_features=2).fit(X, y)
    assert model.ridge_ == 0 and model.selected_features_.tolist() == [0, 1]


@pytest.mark.parametrize("model", [SparseRegressor("poisson"), SparseClassifier()], ids=["poisson", "logistic"])
def test_no_feature_and_no_intercept(model: Any) -> None:
    X, y = separable(40, 5)
    model = clone(model).set_params(n_features=0, fit_intercept=False, ridge=0.1).fit(X, y)
    assert not np.any(model.coef_)


@pytest.mark.parametrize("budget", [{"n_features": 1}, {"level": 1.5}], ids=str)
def test_estimators_of_losses_with_kinks_refuse_a_ridge(budget: dict[str, Any]) -> None:
    X, y = separable(40, 5)
    with pytest.raises(InvalidInputError, match="not for 'hinge'; use 'squared_hinge' or 'logistic'"):
        SparseClassifier("hinge", ridge=0.1, **budget).fit(X, y)
    with pytest.raises(InvalidInputError, match="not for 'absolute'; use 'huber' or 'squared'"):
        SparseRegressor("absolute", ridge=0.1, **budget).fit(X, y)


@pytest.mark.filterwarnings("ignore::levelprox.exceptions.ConvergenceWarning")
def test_kept_features_that_separate_classes_diverge_with_a_ridge_too() -> None:
    X, _ = separable(40, 5)
    model = SparseClassifierCV(n_features=[0, 1], keep=[0], cv=2).fit(X, X[:, 0] > 0)
    assert np.all(model.cv_results_["n_diverging"] > 0) and model.scoring_ == "accuracy"


def test_the_ridge_is_no_deviance() -> None:
    X, y = separable()
    model = SparseClassifier(n_features=1, ridge=0.2).fit(X, y)
    probability = model.predict_proba(X)[np.arange(len(y)), y]
    share = y.mean()
    entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    explained = 1 + np.mean(np.log(probability)) / entropy
    assert model.summary(X, y).statistics["explained"] == pytest.approx(explained, rel=1e-9)


def test_a_fit_that_is_stopped_keeps_what_its_earlier_searches_found() -> None:
    X, y = separable(80, 15)
    records: list[Any] = []
    SparseClassifier(n_features=4, callback=lambda record: records.append(record) or False).fit(X, y)
    found = 0
    for stop in range(1, len(records) + 1):
        left = iter(range(1, stop + 1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is cut short
            model = SparseClassifier(n_features=4, callback=lambda _, left=left, stop=stop: next(left) >= stop).fit(
                X, y
            )
        assert model.selected_features_.size >= min(found, 2)  # a later search begins with what an earlier one found
        found = max(found, model.selected_features_.size)
    assert found >= 2


class Events:
    """A callback that counts phases and improvements, and not records that depend on the time; True from one on."""

    def __init__(self, stop: float = math.inf) -> None:
        self.count, self.stop, self.last = 0, stop, None

    def __call__(self, record: Any) -> bool:
        event = record.phase, record.psi
        self.count += event != self.last
        self.last = event
        return self.count >= self.stop


def test_a_fit_that_is_stopped_in_its_last_search_is_not_said_to_be_solved() -> None:
    """With a ridge other features are found, which do not separate the classes: a last search without one follows."""
    rng = np.random.default_rng(23)
    n, d = int(rng.integers(20, 60)), int(rng.integers(5, 40))
    X = rng.standard_normal((n, d)) + rng.standard_normal((n, 1)) * rng.choice([0, 1, 3])
    z = X[:, :3] @ rng.standard_normal(3) * rng.choice([1, 5])
    z -= z.mean()
    rng.choice([2, 3])
    y = np.digitize(z + rng.choice([0, 0.1, 1]) * rng.logistic(size=n), np.quantile(z, [0.3, 0.7]))
    options: dict[str, Any] = {"n_features": 2, "standardize": False}
    events = Events()
    whole = SparseClassifier(callback=events, **options).fit(X, y)
    assert whole.status_ is Status.SOLVED and "Features found without a ridge" in whole.message_
    for stop in (events.count - 3, events.count):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is cut short
            model = SparseClassifier(callback=Events(stop), **options).fit(X, y)
        assert model.status_ is Status.CALLBACK_STOP and model.selected_features_.size == 2
        assert model.ridge_ == 0 or "Whether a ridge is needed is not known" in model.message_
