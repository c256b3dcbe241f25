"""Softmax fits over a few columns: the minimum of an independent method, in any units and with any means; systems."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from levelprox import MultinomialModel
from levelprox.subset.multiclass_fit import Basis, class_fit
from levelprox.subset.newton import shortest_solution


def data(seed: int, n: int = 60, m: int = 3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, m))
    margins = X @ rng.standard_normal((m, 3)) + rng.gumbel(size=(n, 3))
    return X, np.argmax(margins, axis=1), rng.random(n) + 0.1


def fitted(X, label, weight, x=None):
    model = MultinomialModel(X, label, weight, fit_intercept=True)
    columns = np.column_stack([X, np.ones(len(X))])
    start = np.zeros(model.dimension) if x is None else x
    x, *_ = class_fit(model.over(columns), columns, np.array([X.shape[1]]), start, 1e-13)
    return model.value_and_gradient(x)[0], x


@pytest.mark.parametrize("seed", range(5))
def test_the_refit_is_the_minimum_of_an_independent_method(seed):
    X, label, weight = data(seed)
    model = MultinomialModel(X, label, weight, fit_intercept=True)
    found = minimize(
        model.value_and_gradient, np.zeros(model.dimension), jac=True, method="BFGS", options={"gtol": 1e-9}
    )
    assert fitted(X, label, weight)[0] == pytest.approx(found.fun, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_units_means_and_nearly_equal_columns_do_not_matter(seed):
    X, label, weight = data(seed)
    psi, x = fitted(X, label, weight)
    units = X * np.array([1e-8, 1.0, 1e8]) + np.array([1e-4, 1e5, 0.0])
    assert fitted(units, label, weight)[0] == pytest.approx(psi, rel=1e-10)
    near = np.column_stack([X[:, 0], X[:, 0] + 1e-7 * X[:, 1], X[:, 2]])
    assert fitted(near, label, weight)[0] == pytest.approx(psi, rel=1e-8)
    assert fitted(X, label, weight, 1e6 * x)[0] == pytest.approx(psi, rel=1e-12)  # a start that is far off


def test_columns_that_others_span_get_no_coefficients():
    X, label, weight = data(0)
    psi, _ = fitted(X, label, weight)
    again, x = fitted(np.column_stack([X, X[:, 0] + X[:, 1], np.full(len(X), 7.0)]), label, weight)
    assert again == pytest.approx(psi, rel=1e-12)
    assert np.sum(np.any(x.reshape(-1, 3) != 0, axis=1)) == 4


def test_separable_classes_end_near_zero():
    X, _, weight = data(1)
    psi, x = fitted(X, np.digitize(X[:, 0], [-0.5, 0.5]), weight)
    assert 0 <= psi < 1e-9 and np.all(np.isfinite(x))


def test_the_basis_is_orthonormal_and_centred():
    X, _, weight = data(2)
    share = weight / weight.sum()
    columns = np.column_stack([1e6 + X, np.ones(len(X))])
    basis = Basis(columns, share, np.array([3]))
    np.testing.assert_allclose(basis.columns.T @ (share[:, None] * basis.columns), np.eye(4), atol=1e-12)
    w = np.random.default_rng(0).standard_normal((4, 3))
    np.testing.assert_allclose(columns @ basis.outside(w), basis.columns @ w, atol=1e-8)


@pytest.mark.parametrize("rank", [1, 3, 6])
@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_systems_without_one_solution_have_the_shortest(rank, size):
    rng = np.random.default_rng(rank)
    root = rng.standard_normal((rank, 6))
    matrix = size * root.T @ root
    right = matrix @ rng.standard_normal(6)
    expected = np.linalg.lstsq(matrix, right, rcond=1e-12)[0]
    np.testing.assert_allclose(shortest_solution(matrix, right), expected, rtol=1e-6, atol=1e-8)


def test_well_conditioned_systems_need_no_eigenvalues(monkeypatch):
    monkeypatch.setattr(np.linalg, "pinv", None)
    matrix = np.eye(3) + 0.5
    np.testing.assert_allclose(shortest_solution(matrix, matrix @ [1.0, 2.0, 3.0]), [1, 2, 3], rtol=1e-12)
