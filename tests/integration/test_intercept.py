"""The intercept is never penalized, for any weights, signs and order of coordinates."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest
import scipy.sparse

from levelprox import InvalidInputError, LinearModel, Problem, Status, certify, constraints, solve
from levelprox.certificate.null_model import null_fit
from levelprox.designs import InterceptDesign, ScaledDesign, as_design

L1 = constraints.L1()


def data(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = scipy.sparse.random_array((n, d), density=0.6, rng=rng, format="csr")
    return X, X @ np.linspace(1, -1, d) + 4 + 0.1 * rng.standard_normal(n)


def model(loss="squared", **options):
    return LinearModel(*data(), loss, fit_intercept=True, **options)


def test_the_last_coordinate_is_the_intercept_and_is_unpenalized():
    psi = model()
    assert psi.dimension == 6 and psi.unpenalized.tolist() == [5] and psi.unpenalized.dtype == np.intp
    assert LinearModel(*data()).unpenalized.size == 0
    by_hand = LinearModel(InterceptDesign(as_design(data()[0])), data()[1])
    assert by_hand.unpenalized.tolist() == [5]
    fit = solve(Problem(psi, L1, 0.5))
    assert fit.status is Status.SOLVED and np.sum(np.abs(fit.x[:-1])) <= 0.5 < fit.x[-1]
    assert certify(Problem(psi, L1, 0.5), fit.x).kkt <= 1e-6


def test_weights_leave_the_intercept_out_however_they_are_given():
    psi = model()
    assert Problem(psi, L1, 1.0).weights.tolist() == [1, 1, 1, 1, 1, 0]
    assert Problem(psi, L1, 1.0, weights=[1, 2, 3, 4, 5]).weights.tolist() == [1, 2, 3, 4, 5, 0]
    assert Problem(psi, L1, 1.0, weights=[1, 2, 3, 4, 5, 6]).weights.tolist() == [1, 2, 3, 4, 5, 0]
    assert Problem(psi, L1, 1.0, weights=[0, 2, 3, 4, 5]).unpenalized.tolist() == [0, 5]
    given = np.ones(6)
    Problem(psi, L1, 1.0, weights=given)
    assert given[-1] == 1, "what was given is not changed"
    for bad in ([1.0] * 4, [1.0] * 7, [[1.0] * 6]):
        with pytest.raises(InvalidInputError, match=r"weights must have shape \(6,\)"):
            Problem(psi, L1, 1.0, weights=bad)
    with pytest.raises(InvalidInputError, match="index 2"):
        Problem(psi, L1, 1.0, weights=[1, 1, -1, 1, 1])
    assert Problem(LinearModel(*data()), L1, 1.0).weights is None


def test_signs_constrain_the_intercept_only_if_it_is_named():
    psi = LinearModel(data()[0], -data()[1], fit_intercept=True)
    free = [True] * 5 + [False]
    assert Problem(psi, L1, 1.0, nonnegative=True).must_be_nonnegative().tolist() == free
    assert Problem(psi, L1, 1.0, nonnegative=np.True_).must_be_nonnegative().tolist() == free
    assert Problem(psi, L1, 1.0, nonnegative=[True] * 5).must_be_nonnegative().tolist() == free
    assert Problem(psi, L1, 1.0, nonnegative=[True] * 6).must_be_nonnegative().all()
    for none in (None, False, [False] * 5, [False] * 6):
        assert not Problem(psi, L1, 1.0, nonnegative=none).must_be_nonnegative().any()
    with pytest.raises(InvalidInputError, match="nonnegative must be"):
        Problem(psi, L1, 1.0, nonnegative=[True] * 4)
    fit = solve(Problem(psi, L1, 1.0, nonnegative=True))
    assert fit.x[-1] < -3 and np.all(fit.x[:-1] >= 0)


@pytest.mark.parametrize("W", [[0, 2, 5], [5, 3, 1], [1, 4], [5], [2, 5, 0, 1]], ids=str)
def test_a_restriction_keeps_the_intercept_where_it_is(W):
    psi = model(sample_weight=np.arange(60.0), offset=np.linspace(-1, 1, 60))
    W = np.array(W)
    whole = Problem(psi, L1, 1.0, weights=[1, 2, 3, 4, 5], nonnegative=True)
    part = whole.restrict(W)
    assert part.objective.unpenalized.tolist() == np.flatnonzero(W == 5).tolist()
    assert (np.ones(W.size) if part.weights is None else part.weights).tolist() == whole.weights[W].tolist()
    assert part.must_be_nonnegative().tolist() == whole.must_be_nonnegative()[W].tolist()
    x = np.random.default_rng(1).standard_normal(W.size)
    padded = np.zeros(6)
    padded[W] = x
    (value, gradient), (want, slope) = part.objective.value_and_gradient(x), psi.value_and_gradient(padded)
    assert value == pytest.approx(want, rel=1e-13)
    np.testing.assert_allclose(gradient, slope[W], rtol=1e-12)
    again = part.restrict(np.arange(W.size)[::-1])
    np.testing.assert_allclose(again.objective.value_and_gradient(x[::-1])[1], slope[W][::-1], rtol=1e-12)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "absolute"])
def test_the_null_fit_is_the_best_constant(loss):
    X, b = data()
    b = np.where(b > 4.2, 1.0, -1.0) if loss == "logistic" else np.abs(b)
    null = null_fit(Problem(LinearModel(X, b, loss, fit_intercept=True), L1, 1.0))
    best = {"squared": np.mean, "poisson": lambda b: np.log(b.mean()), "logistic": lambda b: 2 * np.arctanh(b.mean())}
    assert np.all(null.x[:-1] == 0)
    if loss == "absolute":
        assert np.sum(b < null.x[-1] - 0.1) <= 30 and np.sum(b > null.x[-1] + 0.1) <= 30
    else:
        assert null.x[-1] == pytest.approx(best[loss](b), abs=1e-5)
        assert abs(null.gradient[-1]) < 1e-5


def test_a_level_of_zero_leaves_the_intercept_alone():
    fit = solve(Problem(model(), L1, 0.0))
    assert fit.status is Status.SOLVED and np.all(fit.x[:-1] == 0)
    assert fit.x[-1] == pytest.approx(data()[1].mean(), rel=1e-6)


def test_centring_changes_no_fit_that_has_an_intercept():
    X, b = data()
    centred = ScaledDesign.standardized(X, with_std=False)
    raw, lazy = (solve(Problem(LinearModel(A, b, fit_intercept=True), L1, 0.7), tol=1e-8) for A in (X, centred))
    assert lazy.psi == pytest.approx(raw.psi, rel=1e-9)
    coefficients, shift = centred.unscaled(lazy.x[:-1])
    np.testing.assert_allclose(np.append(coefficients, lazy.x[-1] + shift), raw.x, rtol=0, atol=1e-6)


def test_models_can_be_pickled_copied_and_outlive_their_parts():
    X, b = data()
    psi = LinearModel(ScaledDesign.standardized(X), b, "huber", fit_intercept=True)
    x = np.linspace(-1, 1, 6)
    value, gradient = psi.value_and_gradient(x)
    for twin in (pickle.loads(pickle.dumps(psi)), copy.deepcopy(psi)):
        assert twin.value_and_gradient(x)[0] == value and np.array_equal(twin.value_and_gradient(x)[1], gradient)
        assert twin.unpenalized.tolist() == [5]
    compiled = psi.compiled
    del psi, X, b, twin
    gc.collect()
    junk = [np.full(6, np.nan) for _ in range(1000)]
    out = np.empty(6)
    assert compiled.value_and_gradient(x, out) == value and np.array_equal(out, gradient) and len(junk) == 1000


def test_an_intercept_is_added_once():
    with pytest.raises(InvalidInputError, match="X has an intercept already"):
        LinearModel(InterceptDesign(as_design(data()[0])), data()[1], fit_intercept=True)
