"""At most k features with hard columns or targets: large means, float32, powers, large residuals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import linprog

from levelprox import LinearModel, OneVsRestModel, SparseClassifier, SparseRegressor, best_subset, certify_model
from levelprox.estimators._features import Standardization
from levelprox.estimators._subset_claims import SubsetClaims

YEARS = np.array(
    [2013, 1985, 1994, 2023, 2010, 1994, 1993, 2006, 2013, 1998, 1987, 1988, 2019, 2012, 2020, 2001, 1998], np.float64
)


def mean_square(X, y):
    """The least mean of squares, with an intercept."""
    centred = X.astype(np.longdouble) - X.mean(axis=0, dtype=np.longdouble)
    size = np.sqrt(np.mean(centred**2, axis=0))
    basis = np.linalg.qr((centred / size).astype(np.float64))[0]
    left = y - y.mean()
    return float(np.mean((left - basis @ (basis.T @ left)) ** 2))


def coordinates(seed, n=40, d=5):
    rng = np.random.default_rng(seed)
    X = (np.array([4.5e6, 5e5, 2e6, 1e7, 0.0])[:d] + 30 * rng.standard_normal((n, d))).astype(np.float32)
    shape = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    return X, shape @ rng.standard_normal(d) / 30 + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize("seed", range(4))
def test_float32_data_with_large_means_have_the_fit_that_is_claimed(seed):
    X, y = coordinates(seed)
    model = SparseRegressor(n_features=3).fit(X, y)
    chosen = np.flatnonzero(model.coef_)
    z = X.astype(np.longdouble) @ model.coef_.astype(np.longdouble) + np.longdouble(model.intercept_)
    psi = float(np.mean((y - z) ** 2))
    assert np.isclose(model.certificate_.psi, psi, rtol=1e-6)
    assert psi <= mean_square(X[:, chosen].astype(np.float64), y) * (1 + 1e-6)
    assert certify_model(model, X, y).hold


def test_coefficients_of_plain_float32_data_stay_float32():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5)).astype(np.float32)
    model = SparseRegressor(n_features=2).fit(X, X[:, 0] - X[:, 3] + 0.1 * rng.standard_normal(40))
    assert model.coef_.dtype == np.float32 and np.asarray(model.intercept_).dtype == np.float32


def test_coefficients_in_another_precision():
    standardization = Standardization(np.ones((3, 2), np.float32), None, None, True)
    coef, intercept = standardization.outside(np.array([0.1, 0.2, 0.3]), np.dtype(np.float64))
    assert coef.dtype == intercept.dtype == np.float64 and coef.tolist() == [[0.1, 0.2]]


@pytest.mark.filterwarnings("ignore::levelprox.exceptions.ConvergenceWarning")  # the last digits are those of the means
@pytest.mark.parametrize("seed", range(6))
def test_models_of_columns_with_large_means_are_confirmed(seed):
    rng = np.random.default_rng(seed)
    X = np.array([1.7e9, 2459000.5, 4.5e6, 0.0, 3.0]) + [1e-2, 1.0, 1e-2, 1.0, 1.0] * rng.standard_normal((60, 5))
    y = 1e9 * (X[:, 3] + 50 * (X[:, 0] - X[:, 0].mean()) + rng.standard_normal(60))
    model = SparseRegressor("absolute" if seed % 2 else "squared", n_features=3).fit(X, y)
    claims = certify_model(model, X, y)
    assert claims.hold, str(claims)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("loss", ["squared", "gamma", "logistic"])
def test_a_large_mean_in_a_sparse_matrix(loss, positive):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((120, 6))
    X[:, 3:] *= rng.random((120, 3)) < 0.2
    X[:, 0] = 1.7e9 + X[:, 0]
    signal = 1.5 * (X[:, 0] - 1.7e9) + 0.3 * X[:, 1]
    b = {
        "squared": signal + rng.standard_normal(120),
        "gamma": np.exp(0.3 * signal) * rng.gamma(2.0, 0.5, 120),
        "logistic": np.where(signal + rng.logistic(size=120) > 0, 1.0, -1.0),
    }[loss]
    options = {"nonnegative": np.array([True] * 6 + [False])} if positive else {}
    dense = best_subset(LinearModel(X, b, loss, fit_intercept=True), 1, **options)
    sparse = best_subset(LinearModel(scipy.sparse.csr_array(X), b, loss, fit_intercept=True), 1, **options)
    assert dense.support.tolist() == sparse.support.tolist() == [0]
    assert np.isclose(sparse.psi, dense.psi, rtol=1e-6)
    assert np.isclose(sparse.multiplier, dense.multiplier, rtol=1e-4)
    assert sparse.swaps == dense.swaps


@pytest.mark.filterwarnings("ignore::levelprox.exceptions.ConvergenceWarning")
def test_a_class_that_newtons_method_does_not_finish_keeps_its_fit():
    X = np.column_stack([YEARS**power for power in [3, 1, 5, 2, 4, 6]])
    label = np.array([0, 2, 2, 3, 1, 2, 2, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2])
    found = best_subset(OneVsRestModel(X, label, "logistic", fit_intercept=True), 5)
    each = 0.0
    for k in range(4):
        one = LinearModel(X, np.where(label == k, 1.0, -1.0), "logistic", fit_intercept=True)
        each += best_subset(one, 5, start=found.support).psi
    assert found.psi <= each * (1 + 1e-3) + 1e-9


def least_absolute(X, y):
    """The least mean of |y − Xβ − β₀|, by a linear program."""
    n, d = X.shape
    size, unit = np.abs(X).max(axis=0), np.abs(y).max()
    A = np.hstack([X / size, np.ones((n, 1)), np.eye(n), -np.eye(n)])
    costs = np.concatenate([np.zeros(d + 1), np.ones(2 * n)])
    free = [(None, None)] * (d + 1) + [(0, None)] * (2 * n)
    return unit * linprog(costs, A_eq=A, b_eq=y / unit, bounds=free, method="highs").fun / n


@pytest.mark.parametrize("unit", [1e3, 1e6, 1e12])
@pytest.mark.parametrize("seed", range(4))
def test_residuals_far_beyond_the_parabola_of_hubers_loss(seed, unit):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(1.5, (40, 6))
    X[:, 5] = 0
    X[:2, 5] = 1e-3
    y = X @ rng.standard_normal(6) + rng.standard_normal(40)
    y[:2] += 500
    found = best_subset(LinearModel(X, unit * y, "huber", fit_intercept=True), 3)
    least = 1.35 * least_absolute(X[:, found.support], unit * y)
    assert least - 1.35**2 / 2 <= found.psi * (1 + 1e-9)
    assert found.psi <= least * (1 + 1e-6)
    assert found.swaps.proved and found.additions.proved
    swaps = [
        1.35 * least_absolute(X[:, sorted({*found.support} - {i} | {j})], unit * y)
        for i in found.support
        for j in set(range(6)) - {*found.support}
    ]
    assert min(swaps) >= found.psi * (1 - 1e-5)


def test_residuals_far_beyond_the_parabola_with_signs():
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 9, (28, 9)).astype(float)
    y = 1e9 * (X[:, 0] - X[:, 1] + 0.02 * rng.standard_normal(28))
    signs = np.array([True] * 9 + [False])
    found = best_subset(LinearModel(X, y, "huber", fit_intercept=True), 3, nonnegative=signs)
    assert np.all(found.x[:9] >= 0) and found.swaps.proved
    assert found.psi <= 1.35 * least_absolute(X[:, found.support], y) * 2


@pytest.mark.parametrize("loss", ["cauchy", "sigmoid"])
def test_another_local_minimum_does_not_refute_a_model_of_a_nonconvex_loss(loss, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    signal = X[:, 0] + rng.standard_normal(40)
    kind = SparseRegressor if loss == "cauchy" else SparseClassifier
    y = signal if loss == "cauchy" else signal > 0
    model = kind(loss, n_features=1).fit(X, y)
    refitted = SubsetClaims._refitted_and_bounded

    def elsewhere(self, features):
        psi, least = refitted(self, features)
        return 0.9 * psi, least

    monkeypatch.setattr(SubsetClaims, "_refitted_and_bounded", elsewhere)
    claims = certify_model(model, X, y)
    assert claims.hold and "one more would gain" in claims.not_examined


def test_a_column_with_a_large_mean_does_not_hide_what_near_equal_columns_gain():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    apart = rng.standard_normal(40)
    X[:, 1] = X[:, 0] + 3e-8 * apart
    X[:, 2] = 1.7e9 + 1e-2 * X[:, 2]
    y = 3 * apart + 100 * (X[:, 2] - 1.7e9) + 0.1 * rng.standard_normal(40)
    found = best_subset(LinearModel(X, y, fit_intercept=True), 3)
    assert found.support.tolist() == [0, 1, 2] and found.psi <= mean_square(X[:, :3], y) * (1 + 1e-3)


@pytest.mark.filterwarnings("ignore::levelprox.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", ["squared", "gamma", "poisson"])
@pytest.mark.parametrize("seed", range(6))
def test_honest_models_of_powers_of_a_year_are_confirmed(loss, seed):
    """Products of coefficients and columns cancel there: residuals are rounding, and differ from those of the fit."""
    rng = np.random.default_rng(seed)
    year = rng.integers(1950, 2020, 60).astype(float)
    X = year[:, None] ** np.arange(1, 7)
    signal = np.sin((year - 1985) / 12) + 0.1 * rng.standard_normal(60)
    y = (
        signal
        if loss == "squared"
        else np.exp(signal)
        if loss == "gamma"
        else rng.poisson(np.exp(signal)).astype(float)
    )
    model = SparseRegressor(loss, n_features=5).fit(X, y)
    claims = certify_model(model, X, y)
    assert claims.hold, str(claims)


def test_a_feature_inside_whose_coefficient_is_zero_does_not_refute_a_model():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((8, 3)), rng.standard_normal(8)
    X = np.column_stack([X, X.sum(axis=1)])  # all features are in the fit, and one of them is not needed
    model = SparseRegressor("absolute", n_features=4, standardize=False).fit(X, y)
    assert np.count_nonzero(model.coef_) == 3
    assert certify_model(model, X, y).hold


def test_a_gain_that_a_refit_does_not_reach_is_refuted_only_if_the_refit_is_optimal(monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 3))
    y = X @ [3.0, 2.0, 1.0] + rng.standard_normal(30)
    model = SparseRegressor("squared", n_features=1).fit(X, y)
    refitted = SubsetClaims._refitted_and_bounded

    def missed(self, features):
        psi, least = refitted(self, features)
        return psi + 1e-3 * abs(psi), least

    assert certify_model(model, X, y).hold
    monkeypatch.setattr(SubsetClaims, "_refitted_and_bounded", missed)
    claims = certify_model(model, X, y)
    assert claims.hold
    assert "one more would gain" in claims.not_examined
    monkeypatch.setattr(SubsetClaims, "_refitted_and_bounded", lambda *given: (missed(*given)[0],) * 2)
    assert not certify_model(model, X, y).hold


@pytest.mark.filterwarnings("ignore::levelprox.exceptions.ConvergenceWarning")
def test_near_constant_columns_without_an_intercept_lower_the_loss():
    """Along their differences a fit in a basis may have coefficients that do not reach its loss."""
    first = [4, 6, 4, 5, 4, 5, 5, 5, 3, 5, 5, 4]
    second = [4, 4, 5, 6, 5, 5, 4, 4, 4, 6, 5, 4]
    third = [0, 1, 0, 1, 2, 1, 1, 1, -1, 1, 2, 1]
    last = [10, 8, 10, 10, 10, 9, 8, 9, 9, 8, 9, 10]
    means = [199480.92812412, 136520.3053693, 50320.92626645, 57970.20713207]
    X = np.column_stack([first, second, third, last]) + np.array(means)
    y = np.array([1.0, -1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1])
    found = best_subset(LinearModel(X, y, "logistic"), 3, prove=True)
    assert found.psi <= best_subset(LinearModel(X, y, "logistic"), 1).psi
