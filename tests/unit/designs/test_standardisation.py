"""Means and standard deviations of columns: weighted, sparse, and for numbers of any size."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from levelprox import InvalidInputError, _kernels
from levelprox.designs import InterceptDesign, ScaledDesign, as_design
from tests.support.registries import DESIGNS

STORAGES = ["dense C", "dense Fortran", "dense C float32", "CSR", "CSC", "CSC float32", "CSR explicit zeros"]


def data(n=50, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.5, 3 + rng.standard_normal((n, d)), 0.0)
    X[:, 1] = rng.standard_normal(n)
    return X.astype(np.float32).astype(float)


def twin(X, weight=None):
    """Mean and standard deviation by their definitions, in long double."""
    X, s = X.astype(np.longdouble), np.ones(len(X)) if weight is None else np.asarray(weight, np.longdouble)
    mean = s @ X / s.sum()
    return mean.astype(float), np.sqrt(s @ (X - mean) ** 2 / s.sum()).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("storage", STORAGES)
def test_columns_have_mean_zero_and_deviation_one(storage, weighted):
    X = data()
    weight = np.random.default_rng(1).random(50) * (np.arange(50) % 5 > 0) * 1e250 if weighted else None
    base = DESIGNS[storage](X)
    A = ScaledDesign.standardized(base, sample_weight=weight)
    assert A.base is base, "X is neither copied nor densified"
    mean, deviation = twin(X, weight if weight is None else weight / 1e250)
    np.testing.assert_allclose(A.center_, mean, rtol=1e-15, atol=1e-16)
    np.testing.assert_allclose(A.scale_, deviation, rtol=1e-14)
    share = np.full(50, 1 / 50) if weight is None else weight / weight.sum()
    np.testing.assert_allclose(A.rmatvec(share), 0, rtol=0, atol=1e-14)
    np.testing.assert_allclose(A.column_squares(share), 1, rtol=1e-14)


@pytest.mark.parametrize("storage", ["dense C", "dense Fortran", "CSR", "CSC"])
def test_a_weight_repeats_its_sample(storage):
    X, weight = data(), np.random.default_rng(2).integers(0, 4, 50)
    weight[X[:, 0] == 0] = 0  # so that in column 0 nothing that counts is zero
    for given in (weight, weight * 1e-300, weight / 3):
        lazy = ScaledDesign.standardized(DESIGNS[storage](X), sample_weight=given)
        repeated = ScaledDesign.standardized(DESIGNS[storage](np.repeat(X, weight, axis=0)))
        np.testing.assert_allclose(lazy.center_, repeated.center_, rtol=1e-14)
        np.testing.assert_allclose(lazy.scale_, repeated.scale_, rtol=1e-13)


CONSTANT = [0.0, 0.1, -0.1, 1e8, 1 / 3, 1e300, -1.7e308, 1e-300, 5e-324]


@pytest.mark.parametrize("storage", ["dense C", "dense Fortran", "CSR", "CSC", "CSR explicit zeros"])
@pytest.mark.parametrize("n", [1, 3, 10, 997])
def test_a_constant_column_has_scale_one_and_its_value_as_center(storage, n):
    X = np.tile(CONSTANT, (n, 1))
    weights = np.random.default_rng(3).random(n) + 0.1
    for weight in (None, weights):
        A = ScaledDesign.standardized(DESIGNS[storage](X), sample_weight=weight)
        assert np.array_equal(A.scale_, np.ones(len(CONSTANT)))
        assert np.array_equal(A.center_, CONSTANT)
        assert np.array_equal(A.column_squares(), np.zeros(len(CONSTANT)))
    # Samples without weight may differ as they like.
    wild = np.vstack([X, np.full((2, len(CONSTANT)), 7.0)])
    A = ScaledDesign.standardized(DESIGNS[storage](wild), sample_weight=np.append(np.ones(n), [0, 0]))
    assert np.array_equal(A.scale_, np.ones(len(CONSTANT))) and np.array_equal(A.center_, CONSTANT)


def test_a_column_that_differs_in_its_last_digits_only_is_constant():
    above = 0.1 + 0.2  # one unit in the last place above 0.3
    X = np.array([[above, 1e8], [0.3, 1e8 * (1 + 4e-16)], [0.3, 1e8]])
    assert np.array_equal(ScaledDesign.standardized(X).scale_, [1, 1])
    # Anything more is a column like any other.
    assert ScaledDesign.standardized(np.array([[1.0], [1 + 1e-14]])).scale_[0] == pytest.approx(5e-15, rel=0.1)
    assert ScaledDesign.standardized(np.array([[0.0], [5e-300]])).scale_[0] == 2.5e-300


@pytest.mark.parametrize("power", [-1000, -340, 340, 1000, 1019])
@pytest.mark.parametrize("storage", ["dense C", "dense Fortran", "CSR", "CSC"])
def test_a_power_of_two_passes_through_without_rounding(storage, power):
    X = data()
    A, B = (ScaledDesign.standardized(DESIGNS[storage](np.ldexp(X, p))) for p in (0, power))
    assert np.array_equal(B.center_, np.ldexp(A.center_, power))
    assert np.array_equal(B.scale_, np.ldexp(A.scale_, power))


@pytest.mark.parametrize("storage", ["dense C", "dense Fortran", "CSR", "CSC"])
@pytest.mark.parametrize("ratio", [1e3, 1e6, 1e10])
def test_a_far_mean_costs_the_deviation_no_digits(storage, ratio):
    X = ratio + np.random.default_rng(4).standard_normal((300, 3))
    mean, deviation = twin(X)
    A = ScaledDesign.standardized(DESIGNS[storage](X))
    np.testing.assert_allclose(A.center_, mean, rtol=2.3e-16)
    np.testing.assert_allclose(A.scale_, deviation, rtol=1e-14)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("storage", STORAGES)
def test_a_single_column_has_all_its_digits_whatever_its_mean(storage, scaled):
    X = np.random.default_rng(2).standard_normal((40, 3)).astype(np.float32).astype(float)
    X[:, 1] = 1 + np.arange(40) * 2.0**-20  # exact in float32
    A = ScaledDesign.standardized(DESIGNS[storage](X), with_std=scaled)
    exact = X[:, 1].astype(np.longdouble) - np.longdouble(A.center_[1])
    exact = exact / A.scale_[1] if scaled else exact
    for design, place in (A, 1), (InterceptDesign(A), 1), (A.view(np.array([1])), 0):
        unit = np.zeros(design.shape[1])
        unit[place] = 2.0
        np.testing.assert_allclose(design.matvec(unit), (2 * exact).astype(float), rtol=4e-16)


def test_integers_have_exact_means():
    X = np.array([[2.0**52, 1], [2.0**52 + 2, 2], [2.0**52 + 4, 3]])
    assert ScaledDesign.standardized(X).center_.tolist() == [2.0**52 + 2, 2]


def test_centring_and_scaling_can_be_had_alone():
    X = data()
    mean, deviation = twin(X)
    only_scaled = ScaledDesign.standardized(X, with_mean=False)
    only_centred = ScaledDesign.standardized(X, with_std=False)
    assert only_scaled.center_ is None and only_centred.scale_ is None
    np.testing.assert_allclose(only_scaled.scale_, deviation)
    np.testing.assert_allclose(only_centred.center_, mean)
    np.testing.assert_allclose(only_scaled.matvec(np.ones(5)), X @ (1 / deviation))
    np.testing.assert_allclose(only_centred.matvec(np.ones(5)), (X - mean).sum(axis=1), atol=1e-13)


def test_coefficients_go_back_to_the_scale_of_the_data():
    X, rng = data(), np.random.default_rng(5)
    A = ScaledDesign.standardized(scipy.sparse.csr_array(X))
    x, many = rng.standard_normal(5), rng.standard_normal((5, 3))
    coefficients, shift = A.unscaled(x)
    assert isinstance(shift, float)
    np.testing.assert_allclose(X @ coefficients + shift, A.matvec(x), rtol=0, atol=1e-14)
    coefficients, shift = A.unscaled(many)
    assert shift.shape == (3,)
    want = np.column_stack([A.matvec(column) for column in many.T])
    np.testing.assert_allclose(X @ coefficients + shift, want, rtol=0, atol=1e-14)
    same, none = ScaledDesign(as_design(X)).unscaled(x)
    assert np.array_equal(same, x) and same is not x and none == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: ScaledDesign(X, scale=[1, 0, 1, 1, 1]), "scale must be positive, got 0 at index 1"),
        (lambda X: ScaledDesign(X, scale=[1, 1, 1, 1, -2]), "scale must be positive, got -2 at index 4"),
        (lambda X: ScaledDesign(X, center=[0, np.nan, 0, 0, 0]), "center contains NaN at index 1"),
        (lambda X: ScaledDesign(X, center=[0]), r"center must have shape \(5,\), got \(1,\)"),
        (lambda X: ScaledDesign(ScaledDesign(X)), r"InterceptDesign\(ScaledDesign\(X"),
        (lambda X: ScaledDesign(InterceptDesign(X)), r"InterceptDesign\(ScaledDesign\(X"),
        (lambda X: ScaledDesign.standardized(InterceptDesign(X)), "already"),
        (lambda X: InterceptDesign(InterceptDesign(X)), "X has an intercept already"),
        (lambda X: InterceptDesign(X, ones=np.array([6])), r"ones must ascend within 0..5, got \[6\]"),
        (lambda X: InterceptDesign(X, ones=np.array([3, 3])), r"ones must ascend within 0..6, got \[3, 3\]"),
        (lambda X: ScaledDesign.standardized(X, sample_weight=[1.0] * 49 + [-1]), "must not be negative"),
        (lambda X: ScaledDesign.standardized(X, sample_weight=[0] * 50), "nor 0 for every sample"),
        (lambda X: ScaledDesign.standardized(X, sample_weight=[1]), r"shape \(50,\), got \(1,\)"),
        (lambda X: ScaledDesign(X).unscaled([1.0]), r"x must have shape \(5,\), got \(1,\)"),
        (lambda X: ScaledDesign(X).kernel, "no rows"),
        (lambda X: ScaledDesign(X).matvec([1.0]), r"x must have shape \(5,\), got \(1,\)"),
        (lambda X: InterceptDesign(X).linear_model(None, None, None, None, np.array([0])), "already"),
    ],
)
def test_invalid_input_is_named(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call(as_design(data()))


def test_kernels_check_what_they_are_given():
    X, ones, few = as_design(data()).kernel, np.ones(5), np.ones(4)
    weight, out = np.ones(50), np.empty(5)
    model = _kernels.LinearModel(X, "squared", 0.0, 0.0, weight, None, None)
    for call, message in [
        (lambda: _kernels.column_sums(X, few, 1.0, out, out, out), "weights do not fit"),
        (lambda: _kernels.column_sums(X, None, 1.0, out, few, out), "sums do not fit"),
        (lambda: _kernels.column_moments(X, few, None, weight, out, out), "centers do not fit"),
        (lambda: _kernels.column_moments(X, None, few, weight, out, out), "scales do not fit"),
        (lambda: _kernels.column_moments(X, None, None, few, out, out), "weights do not fit"),
        (lambda: _kernels.column_moments(X, None, None, weight, out, few), "moments do not fit"),
        (lambda: _kernels.affine_row_squares(X, None, None, out), "out does not fit"),
        (lambda: _kernels.AffineModel(model, few, None, None), "centers do not fit"),
        (lambda: _kernels.AffineModel(model, None, few, None), "scales do not fit"),
        (lambda: _kernels.AffineModel(model, None, None, np.array([6])), "outside A"),
        (lambda: _kernels.AffineModel(model, None, None, np.array([-1])), "outside A"),
        (lambda: _kernels.AffineModel(model, None, None, np.array([2, 2])), "must ascend"),
        (lambda: _kernels.AffineModel(model, ones, ones, None).value_and_gradient(few, out), "dimension of the model"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
