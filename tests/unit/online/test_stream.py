"""A model updated from batches: within its budget, finite, near the fit of all data, and following drift."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import scipy.sparse

from levelprox import InvalidInputError, LinearModel, MultinomialModel, SparseRegressor, best_subset
from levelprox.designs import InterceptDesign, RunningMoments, ScaledDesign, as_design
from levelprox.losses import LOSS_TYPES, loss_by_name
from levelprox.online import Stream
from levelprox.online.batch_problem import PastBatches

NAMES = [kind.name for kind in LOSS_TYPES]


class Online:
    """A stream over standardised columns, as an estimator keeps it; `coef` and `intercept` are for X itself."""

    def __init__(self, d, k, loss, **options):
        self.moments, self.stream, self.loss = RunningMoments(d), Stream(k, **options), loss
        self.coef, self.intercept = np.zeros(d), 0.0

    def update(self, X, y, weight=None):
        mean, scale, known = self.moments.mean, self.moments.scale, self.moments.total
        self.moments.update(as_design(X), weight)
        if known:
            self.stream.rescale(self.moments.scale / scale, (self.moments.mean - mean) / scale)
        design = InterceptDesign(ScaledDesign(as_design(X), self.moments.mean, self.moments.scale))
        multinomial = self.loss == "multinomial"
        model = MultinomialModel(design, y, weight) if multinomial else LinearModel(design, y, self.loss, weight)
        x = self.stream.step(model, float(len(y) if weight is None else np.sum(weight))).reshape(-1, model.n_outputs)
        coef = x[:-1] / self.moments.scale[:, None]
        intercept = x[-1] - self.moments.mean @ coef
        self.coef, self.intercept = (coef, intercept) if multinomial else (coef[:, 0], intercept[0])
        return x

    def margins(self, X):
        return X @ self.coef + self.intercept


def targets(loss, z, rng):
    kind = loss_by_name(loss).kind
    if kind == "regression":
        return z + 0.5 * rng.standard_normal(z.size)
    if kind == "margin":
        return np.where(rng.random(z.size) < 1 / (1 + np.exp(-2 * z)), 1.0, -1.0)
    if kind == "count":
        return rng.poisson(np.exp(z / 3)).astype(float)
    return np.exp(z / 3) * rng.gamma(2.0, 0.5, z.size)


def data(loss, n=4000, d=50, seed=0):
    """Correlated columns of very different units, of which every ninth counts."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, d))
    for j in range(1, d):
        Z[:, j] = 0.5 * Z[:, j - 1] + math.sqrt(0.75) * Z[:, j]
    support = np.arange(3, d, 10)[:5]
    z = Z[:, support] @ np.array([1.0, -0.8, 0.7, 1.1, -0.6])[: support.size] + 0.3
    return Z * 10.0 ** rng.uniform(-2, 2, d) + rng.uniform(-3, 3, d), targets(loss, z, rng), support


def batches(n, size):
    return [slice(begin, begin + size) for begin in range(0, n, size)]


@pytest.mark.parametrize("size", [1, 7, 60])
@pytest.mark.parametrize("loss", NAMES)
def test_the_budget_and_signs_hold_after_every_batch(loss, size):
    X, y, _ = data(loss, n=60 if size == 1 else 300, d=20)
    online = Online(20, 4, loss, keep=[2], nonnegative=np.arange(20) % 3 == 0)
    for part in batches(len(y), size):
        x = online.update(X[part], y[part])[:, 0]
        assert np.all(np.isfinite(x))
        assert np.count_nonzero(np.delete(x[:-1], 2)) <= 4
        assert np.all(x[:-1][::3] >= 0)


@pytest.mark.parametrize("loss", [name for name in NAMES if name != "sigmoid"])
def test_a_stationary_stream_approaches_the_fit_of_all_data(loss):
    X, y, support = data(loss)
    online, ell = Online(50, 5, loss), loss_by_name(loss)
    for part in batches(4000, 200):
        online.update(X[part], y[part])
    whole = LinearModel(InterceptDesign(ScaledDesign.standardized(X)), y, loss)
    smooth = whole if whole.smooth else whole.with_envelope(0.1, np.zeros(4000))
    null, best = (ell.value(whole.margins(best_subset(smooth, k).x), y) for k in (0, 5))
    assert np.flatnonzero(online.coef).tolist() == support.tolist()
    assert ell.value(online.margins(X), y) - best <= 0.05 * (null - best)


def test_the_sigmoid_loss_finds_its_features_and_its_intercept_stays():
    X, y, support = data("sigmoid")
    online = Online(50, 5, "sigmoid")
    for part in batches(4000, 200):
        x = online.update(X[part], y[part])
    assert len(set(np.flatnonzero(online.coef)) & set(support)) >= 4
    assert abs(x[-1, 0]) < 10
    assert np.mean(np.sign(online.margins(X)) == y) > 0.8


@pytest.mark.parametrize("size", [20, 200])
@pytest.mark.parametrize("loss", ["squared", "logistic", "absolute"])
def test_features_that_are_swapped_half_way_are_followed(loss, size):
    rng, ell = np.random.default_rng(1), loss_by_name(loss)
    X = rng.standard_normal((4000, 30))
    y = targets(loss, np.where(np.arange(4000) < 2000, X[:, :4].sum(axis=1), X[:, 4:8].sum(axis=1)), rng)
    online, null = Online(30, 4, loss, memory=500), Online(30, 0, loss, memory=500)
    total = np.zeros(2)
    for part in batches(4000, size):
        if part.start:
            total += [ell.value(model.margins(X[part]), y[part]) for model in (online, null)]
        online.update(X[part], y[part])
        null.update(X[part], y[part])
        if part.stop == 2000:
            assert np.flatnonzero(online.coef).tolist() == [0, 1, 2, 3]
    assert np.flatnonzero(online.coef).tolist() == [4, 5, 6, 7]
    assert total[0] < 0.8 * total[1]


def test_with_all_features_and_a_squared_loss_it_is_least_squares():
    X, y, _ = data("squared", n=600, d=6)
    online = Online(6, 6, "squared")
    for part in batches(600, 60):
        online.update(X[part], y[part])
    exact = np.linalg.lstsq(np.column_stack([X, np.ones(600)]), y, rcond=None)[0]
    used = np.flatnonzero(online.coef)
    part = np.linalg.lstsq(np.column_stack([X[:, used], np.ones(600)]), y, rcond=None)[0]
    np.testing.assert_allclose(online.coef[used] * X.std(axis=0)[used], part[:-1] * X.std(axis=0)[used], atol=2e-3)
    assert used.size < 6 or np.allclose(exact[:-1], part[:-1])


@pytest.mark.parametrize("loss", NAMES)
def test_a_weight_repeats_its_sample_and_none_removes_it(loss):
    X, y, _ = data(loss, n=240, d=12)
    weight = np.random.default_rng(3).integers(0, 3, 240)
    weighted, repeated = Online(12, 3, loss), Online(12, 3, loss)
    for part in batches(240, 80):
        x = weighted.update(X[part], y[part], weight[part])
        again = np.repeat(np.arange(part.start, part.stop), weight[part])
        np.testing.assert_allclose(x, repeated.update(X[again], y[again]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loss", NAMES)
@pytest.mark.parametrize("case", ["constant", "one class", "separable", "outlier", "two rows"])
def test_hard_batches_leave_the_model_finite(loss, case):
    X, y, _ = data(loss, n=200, d=8)
    kind = loss_by_name(loss).kind
    if case == "constant":
        X[:, ::2] = 3.0
    if case == "one class":
        y = np.abs(y) if kind != "regression" else np.ones(200)
    if case == "separable":
        y = np.where(X[:, 0] > X[:, 0].mean(), 1.0, -1.0 if kind in ("regression", "margin") else 1e-3)
    if case == "outlier":
        X[50, 3] += 1e6 * X[:, 3].std()
    online = Online(8, 3, loss)
    for part in batches(200, 2 if case == "two rows" else 40):
        x = online.update(X[part], y[part])
        assert np.all(np.isfinite(x)) and np.all(np.abs(x) < 1e7)
    assert np.all(np.isfinite(online.margins(X)))


def test_constant_columns_are_never_used():
    X, y, _ = data("squared", n=400, d=8)
    X[:, :4] = 0.1
    online = Online(8, 8, "squared")
    for part in batches(400, 50):
        online.update(X[part], y[part])
        assert not np.any(online.coef[:4])


def test_several_classes_count_a_feature_once():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 12))
    scores = X[:, :3] @ np.array([[2.0, 0, -2], [0, 2, -2], [-2, 1, 1]]) + rng.gumbel(size=(1000, 3))
    y = np.argmax(scores, axis=1)
    online = Online(12, 3, "multinomial")
    for part in batches(1000, 125):
        x = online.update(X[part], y[part])
        assert np.count_nonzero(np.any(x[:-1] != 0, axis=1)) <= 3
    assert np.flatnonzero(np.any(online.coef != 0, axis=1)).tolist() == [0, 1, 2]
    whole = MultinomialModel(X, y, fit_intercept=True)
    best = best_subset(whole, 3)
    psi = whole.value_of(np.ascontiguousarray(online.margins(X)))
    assert psi - best.psi < 0.02 * (math.log(3) - best.psi)


def test_sparse_batches_give_what_dense_ones_do():
    X, y, _ = data("logistic", n=400, d=15)
    X = np.where(np.abs(X - X.mean(axis=0)) > X.std(axis=0), X, 0.0)
    dense, sparse = Online(15, 4, "logistic"), Online(15, 4, "logistic")
    for part in batches(400, 100):
        x = dense.update(X[part], y[part])
        np.testing.assert_allclose(sparse.update(scipy.sparse.csr_array(X[part]), y[part]), x, rtol=1e-6, atol=1e-8)


def test_other_units_of_the_data_change_nothing():
    X, y, _ = data("logistic", n=600, d=15)
    one, other = Online(15, 4, "logistic"), Online(15, 4, "logistic")
    factor = 2.0 ** np.arange(-7, 8)
    for part in batches(600, 100):
        x = one.update(X[part], y[part])
        np.testing.assert_allclose(other.update(X[part] * factor, y[part]), x, rtol=1e-9, atol=1e-12)


def test_a_change_of_coordinates_keeps_the_model():
    X, y, _ = data("logistic", n=300, d=10)
    online = Online(10, 4, "logistic")
    online.update(X, y)
    before, stream = online.margins(X), online.stream
    ratio, shift = np.linspace(0.5, 2, 10), np.linspace(-1, 1, 10)
    stream.rescale(ratio, shift)
    scale, mean = online.moments.scale * ratio, online.moments.mean + shift * online.moments.scale
    after = (X - mean) / scale @ stream.x[:-1] + stream.x[-1]
    np.testing.assert_allclose(after, before, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("multinomial", [False, True])
def test_gradients_and_hessians_are_transformed_to_new_coordinates(multinomial):
    rng = np.random.default_rng(4)
    X, b = rng.standard_normal((80, 4)), rng.integers(0, 3, 80)
    ratio, shift = np.array([0.5, 2.0, 1.5, 0.1]), np.array([0.3, -1.0, 0.0, 2.0])

    def model(A):
        A = InterceptDesign(as_design(A))
        return MultinomialModel(A, b) if multinomial else LinearModel(A, b.astype(float), "poisson")

    old, new = model(X), model((X - shift) / ratio)
    z, n_outputs = old.margins(0.3 * rng.standard_normal(old.dimension)), old.n_outputs
    past = PastBatches(old.dimension, n_outputs)
    past.choose(np.arange(5))
    whole = np.ones(old.dimension, np.bool_)
    past.take_in(old.hessian_of(z, True), old.gradient_of(z), old.hessian_diagonal_of(z, True), whole, 80.0)
    past.rescale(np.repeat([*ratio, 1.0], n_outputs), np.repeat([*shift, 0.0], n_outputs), old.unpenalized)
    np.testing.assert_allclose(past.gradient, new.gradient_of(z), rtol=1e-10, atol=1e-12)
    H = past.hessian(np.zeros((old.dimension, old.dimension)), 1.0)
    np.testing.assert_allclose(H, new.hessian_of(z, True), rtol=1e-9, atol=1e-11)


def test_the_same_stream_gives_the_same_bits_and_pickles_half_way():
    X, y, _ = data("huber", n=400, d=15)
    first, second = Online(15, 4, "huber"), Online(15, 4, "huber")
    for part in batches(400, 50):
        np.testing.assert_array_equal(first.update(X[part], y[part]), second.update(X[part], y[part]))
        second = pickle.loads(pickle.dumps(second))


def test_without_an_intercept_columns_are_scaled_only():
    X, y, _ = data("squared", n=300, d=10)
    stream = Stream(3)
    for part in batches(300, 100):
        x = stream.step(LinearModel(ScaledDesign(as_design(X[part]), None, X.std(axis=0)), y[part]), 100.0)
        stream.rescale(np.ones(10))
        assert x.size == 10 and np.count_nonzero(x) <= 3
    with pytest.raises(InvalidInputError, match="intercept"):
        stream.rescale(np.ones(10), np.ones(10))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": -1}, "k must be"),
        ({"k": 1, "memory": 0.0}, "memory"),
        ({"k": 1, "keep": [7]}, "keep must be within"),
        ({"k": 1, "nonnegative": [0.5]}, "nonnegative must be"),
    ],
)
def test_unsupported_requests_are_named(options, words):
    model = LinearModel(np.eye(3), np.ones(3))
    with pytest.raises(InvalidInputError, match=words):
        Stream(**options).step(model, 3.0)


def test_batches_must_fit_those_before_them():
    stream = Stream(2)
    stream.rescale(np.ones(5))  # before the first batch there is nothing to rescale
    stream.step(LinearModel(np.eye(3), np.ones(3)), 3.0)
    with pytest.raises(InvalidInputError, match="coordinates"):
        stream.step(LinearModel(np.eye(4), np.ones(4)), 4.0)
    with pytest.raises(InvalidInputError, match="weight"):
        stream.step(LinearModel(np.eye(3), np.ones(3)), 0.0)
    with pytest.raises(InvalidInputError, match="shape"):
        stream.rescale(np.ones(4))
    with pytest.raises(InvalidInputError, match="positive"):
        stream.rescale(np.zeros(3))


@pytest.mark.parametrize("size", [1e3, 1e4, 1e8])
@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_a_batch_with_an_outlying_row_leaves_finite_coefficients(loss, size):
    rng = np.random.default_rng(0)

    def batch(n):
        X = rng.standard_normal((n, 3))
        return X, rng.poisson(np.exp(0.8 * X[:, 0])) + (0.5 if loss == "gamma" else 0.0)

    model = SparseRegressor(loss, n_features=1).partial_fit(*batch(200))
    X, y = batch(50)
    X[7, 0] = size if loss == "poisson" else -size
    model.partial_fit(X, y)
    assert np.all(np.isfinite(model.coef_)) and np.all(np.isfinite(model.predict(X[:7])))
