"""Many classes of a sample or two each: work that is bounded by counts, never by the clock."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from levelprox import MultinomialModel, OneVsRestModel, Problem, best_subset, solve
from levelprox.constraints import MCP
from levelprox.continuation import continues
from levelprox.losses import Multinomial


def data(classes, n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), np.r_[np.arange(classes), rng.integers(0, classes, n - classes)]


def problem(model):
    return Problem(model, MCP.from_threshold(1.0), 2.5)


def test_a_softmax_model_without_an_intercept_can_be_searched():
    found = best_subset(MultinomialModel(*data(20, 30, 3)), 1)
    assert found.support.size == 1


def test_a_search_takes_few_refits():
    found = best_subset(MultinomialModel(*data(60, 90, 10), fit_intercept=True), 1)
    assert found.support.size == 1
    assert found.n_refits <= 40


@pytest.mark.parametrize("kind", [MultinomialModel, OneVsRestModel])
def test_by_default_many_classes_start_directly(kind):
    X, label = data(60, 90, 10)
    assert not continues("auto", problem(kind(X, label)))
    assert continues("continuation", problem(kind(X, label)))
    assert continues("auto", problem(kind(X, label % 10)))


def test_a_direct_start_has_no_stages():
    found = solve(problem(OneVsRestModel(*data(60, 90, 10), fit_intercept=True)), tol=1e-3)
    assert found.stages == ()


def test_products_in_one_call_are_those_of_each_class():
    X, label = data(20, 40, 3)
    dense, sparse = MultinomialModel(X, label), MultinomialModel(scipy.sparse.csr_array(X), label)
    x = np.random.default_rng(1).standard_normal(dense.dimension)
    z = dense.margins(x)
    np.testing.assert_allclose(z, sparse.margins(x), atol=1e-14)
    np.testing.assert_allclose(dense.gradient_of(z), sparse.gradient_of(z), atol=1e-15)
    np.testing.assert_allclose(dense.hessian_of(z), sparse.hessian_of(z), atol=1e-15)
    along = dense.hessian_product_of(z)(x)
    np.testing.assert_allclose(along, dense.hessian_of(z) @ x, atol=1e-13)


def test_bends_have_their_digits_where_a_class_is_nearly_certain():
    p = Multinomial.probabilities(np.array([[40.0, 0.0, 1.0], [0.0, 0.5, -1.0]]))
    each = np.stack([Multinomial.bend(p, a, a) for a in range(3)], axis=1)
    np.testing.assert_allclose(Multinomial.bends(p), each, rtol=1e-14)
