"""The multinomial model: against reference implementations, many digits, scikit-learn and the logistic loss."""

from __future__ import annotations

import copy
import pickle

import mpmath
import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression

from levelprox import InvalidInputError, LinearModel, MultinomialModel, Problem, Status, _kernels, best_subset, certify
from levelprox.certificate.null_model import null_fit
from levelprox.constraints import L1, MCP
from levelprox.designs import DenseDesign
from levelprox.exceptions import ConvergenceWarning
from levelprox.losses import Multinomial, loss_by_name
from levelprox.methods.subsolvers import SUBSOLVERS, Spectral
from tests.support import reference
from tests.support.children import Child
from tests.support.registries import DESIGNS, GROUPED_OBJECTIVES, MULTINOMIAL_OBJECTIVES
from tests.unit.methods.test_groups import steps_of

MARGINS = [0.0, -1e-300, 0.5, -3.0, 40.0, -700.0, 1e4, -1e16, 1e300, -1e308, 1e308]


def data(seed=0, n=30, d=5, K=3):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.6, rng.standard_normal((n, d)), 0.0)
    return X, rng.integers(0, K, n), rng.standard_normal(d * K)


@pytest.mark.parametrize("storage", DESIGNS)
@pytest.mark.parametrize("extras", [False, True], ids=["plain", "weights and offsets"])
def test_value_and_gradient_agree_with_the_twin_on_every_design(storage, extras):
    X, label, x = data()
    X = X.astype(np.float32).astype(float)
    rng = np.random.default_rng(1)
    weight = np.where(rng.random(30) < 0.2, 0, rng.random(30)) if extras else np.ones(30)
    offset = rng.standard_normal((30, 3)) if extras else np.zeros((30, 3))
    model = MultinomialModel(DESIGNS[storage](X), label, *((weight, offset) if extras else ()))
    value, gradient = model.value_and_gradient(x)
    twin, twin_gradient = reference.multinomial(X, label, x.reshape(5, 3), weight, offset)
    assert value == pytest.approx(twin, rel=1e-14)
    np.testing.assert_allclose(gradient, twin_gradient.ravel(), rtol=1e-12, atol=1e-15)
    z = model.margins(x)
    assert z.shape == (30, 3)
    assert model.value_of(z) == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(model.gradient_of(z), gradient, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("rows", [2, 4095, 4096, 4097, 20_000])
@pytest.mark.parametrize("order", ["C", "F"])
def test_blocks_of_rows_leave_no_seam(rows, order):
    X, label, x = data(2, rows, 3, 2)
    label[:2] = 0, 1
    one_hot, z = np.eye(2)[label], X @ x.reshape(3, 2)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    value, gradient = MultinomialModel(np.array(X, order=order), label).value_and_gradient(x)
    assert value == pytest.approx(float(np.mean(-np.log(p[one_hot == 1]))), rel=1e-13)
    np.testing.assert_allclose(gradient, (X.T @ (p - one_hot) / rows).ravel(), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("model", GROUPED_OBJECTIVES, ids=str)
def test_derivatives_agree_with_differences(model):
    x, step = 0.5 * np.random.default_rng(3).standard_normal(model.dimension), 1e-5
    z = model.margins(x)
    _, gradient = model.value_and_gradient(x)
    hessian = model.hessian_of(z, False)
    for j, e in enumerate(step * np.eye(model.dimension)):
        (up, slope_up), (down, slope_down) = model.value_and_gradient(x + e), model.value_and_gradient(x - e)
        assert gradient[j] == pytest.approx((up - down) / (2 * step), rel=1e-6, abs=1e-9)
        np.testing.assert_allclose(hessian[j], (slope_up - slope_down) / (2 * step), rtol=1e-5, atol=1e-9)
    v = np.random.default_rng(4).standard_normal(model.dimension)
    np.testing.assert_array_equal(hessian, hessian.T)
    np.testing.assert_allclose(model.hessian_product_of(z, False)(v), hessian @ v, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(model.hessian_diagonal_of(z, False), np.diag(hessian), rtol=1e-12, atol=1e-16)
    assert np.linalg.eigvalsh(hessian)[-1] <= model.smoothness * (1 + 1e-12)
    assert np.linalg.eigvalsh(hessian)[0] >= -model.weak_convexity - 1e-14
    check_convex_hessians(model, z, v)
    np.testing.assert_allclose(model.margins(x + 0.3 * v), z + 0.3 * model.moved(v), rtol=1e-12, atol=1e-13)


def check_convex_hessians(model, z, v):
    """All forms in which a Newton step or a swap needs the Hessian are one matrix, without negative bends."""
    hessian, units = model.hessian_of(z, True), np.eye(model.dimension)
    assert np.linalg.eigvalsh(hessian)[0] >= -1e-14
    np.testing.assert_allclose(model.hessian_product_of(z, True)(v), hessian @ v, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(model.hessian_diagonal_of(z, True), np.diag(hessian), rtol=1e-12)
    cross = model.cross_hessian_of(z, (model.moved(e) for e in units), len(units), True)
    np.testing.assert_allclose(cross, hessian, rtol=1e-10, atol=1e-14)
    each = np.arange(len(units) // model.n_outputs)
    blocks = hessian.reshape(each.size, model.n_outputs, each.size, model.n_outputs)[each, :, each, :]
    np.testing.assert_allclose(model.feature_hessians_of(z), blocks, rtol=1e-10, atol=1e-15)
    new, gradient, after = model.evaluated(z, 0.1 * v, True)
    np.testing.assert_allclose(new, z + 0.1 * model.moved(v), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(gradient, model.gradient_of(new), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(after, model.hessian_of(new, True), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("model", MULTINOMIAL_OBJECTIVES, ids=str)
def test_a_constant_added_to_a_row_changes_nothing(model):
    x = 0.5 * np.random.default_rng(3).standard_normal(model.dimension)
    ray = x.reshape(-1, model.n_outputs) + 7.0  # no reference class: a constant added to a row changes nothing
    assert model.value_and_gradient(ray.ravel())[0] == pytest.approx(model.value_and_gradient(x)[0], rel=1e-11)


def test_smoothness_is_attained_where_two_classes_share_everything():
    X, label, _ = data(5, 40, 4, 3)
    model = MultinomialModel(X, label)
    z = np.where(np.arange(3) < 2, 0.0, -800.0) * np.ones((40, 3))
    top = np.linalg.eigvalsh(model.hessian_of(z, True))[-1]
    assert top == pytest.approx(np.linalg.eigvalsh(X.T @ X / 40)[-1] / 2, rel=1e-12)
    assert top <= model.smoothness <= 1.01 * top
    assert (model.weak_convexity, model.nonsmoothness) == (0, 0)
    slopes = [np.outer(X[i], p - np.eye(3)[label[i]]) for i in range(40) for p in np.eye(3)]
    assert max(map(np.linalg.norm, slopes)) ** 2 / 40 <= model.noise**2


@pytest.mark.parametrize("first", MARGINS)
def test_extreme_margins_keep_their_digits(first):
    """Against 60 digits: values, slopes and probabilities, down to the tail of a sure prediction."""
    mpmath.mp.dps = 60
    for second in MARGINS:
        for label in (0, 1, 2):
            z = np.array([[first, second, 0.25]])
            exact = [mpmath.mpf(a) for a in z[0]]
            top = max(exact)
            powers = [mpmath.exp(max(a - top, -(mpmath.mpf(10) ** 6))) for a in exact]
            p = [a / sum(powers) for a in powers]
            best = powers.index(max(powers))
            others = sum(a for k, a in enumerate(powers) if k != best)
            loss = mpmath.log1p(others) + (top - exact[label])
            labels = np.array([label])
            assert Multinomial.value(z, labels) == pytest.approx(float(loss), rel=4e-15, abs=1e-300)
            assert Multinomial.probabilities(z)[0].tolist() == pytest.approx(
                [float(a) for a in p], rel=1e-14, abs=1e-300
            )
            slopes = [a if k != label else -sum(b for c, b in enumerate(p) if c != k) for k, a in enumerate(p)]
            found = Multinomial.derivative(z, labels)[0].tolist()
            assert found == pytest.approx([float(a) for a in slopes], rel=1e-14, abs=1e-300)


def test_margins_that_overflow_have_the_limits():
    z = np.array([[np.inf, 0.0, 1.0]])
    assert Multinomial.value(z, np.array([0])) == 0
    assert Multinomial.value(z, np.array([1])) == np.inf
    assert np.isnan(Multinomial.value(np.array([[np.nan, 0.0, 1.0]]), np.array([0])))
    # A sample of weight 0 counts as absent, even where its loss is infinite.
    both = np.vstack([z, [[0.0, 0.0, 0.0]]])
    weight = np.array([0.0, 2.0])
    assert Multinomial.value(both, np.array([1, 1]), weight) == pytest.approx(np.log(3))
    np.testing.assert_array_equal(Multinomial.derivative(both, np.array([1, 1]), weight)[0], 0)
    X = np.array([[1e308], [0.0]])
    model = MultinomialModel(X, [0, 1], weight)
    value, gradient = model.value_and_gradient(np.array([-1e3, 1e3]))
    assert value == pytest.approx(np.log(2))
    np.testing.assert_array_equal(gradient, 0)


def test_weights_are_repetitions():
    X, label, x = data(6)
    weight = np.random.default_rng(0).integers(0, 4, 30)
    repeated = MultinomialModel(np.repeat(X, weight, axis=0), np.repeat(label, weight))
    weighted = MultinomialModel(X, label, 3.7 * weight)
    (value, gradient), (other, other_gradient) = repeated.value_and_gradient(x), weighted.value_and_gradient(x)
    assert other == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(other_gradient, gradient, rtol=1e-12, atol=1e-15)
    z, z_repeated = weighted.margins(x), repeated.margins(x)
    np.testing.assert_allclose(weighted.hessian_of(z, True), repeated.hessian_of(z_repeated, True), atol=1e-14)
    for name in ("smoothness", "noise", "curvature"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), rel=1e-2)


def test_two_classes_are_the_logistic_model():
    """With B = (−w, w)/2 the margins differ by ⟨a, w⟩, and ‖B_j‖ = |w_j|/√2."""
    X, label, _ = data(7, 80, 6, 2)
    binary, model = LinearModel(X, 2.0 * label - 1, "logistic"), MultinomialModel(X, label)
    w = np.random.default_rng(1).standard_normal(6)
    value, gradient = binary.value_and_gradient(w)
    other, by_class = model.value_and_gradient(np.column_stack([-w, w]).ravel() / 2)
    assert other == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(by_class.reshape(6, 2), np.column_stack([-gradient, gradient]), atol=1e-15)
    assert model.curvature == pytest.approx(binary.curvature, rel=1e-14)
    plain = steps_of(Problem(binary, L1(), 1.0), Spectral(), tol=1e-8)
    grouped = steps_of(Problem(model, L1(), 1 / np.sqrt(2)), Spectral(), tol=1e-8)
    assert grouped.psi == pytest.approx(plain.psi, rel=1e-10)
    np.testing.assert_allclose(grouped.x.reshape(6, 2), np.column_stack([-plain.x, plain.x]) / 2, atol=1e-6)


def test_without_a_level_it_is_scikit_learn_s():
    X, label, _ = data(8, 300, 4, 3)
    X = np.column_stack([X, np.ones(300)])
    model = MultinomialModel(X, np.array(["red", "green", "blue"])[label])
    theirs = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000, fit_intercept=False).fit(X, model.target)
    problem = Problem(model, L1(), 100.0, weights=[1, 1, 1, 1, 0])
    ours = steps_of(problem, Spectral(), tol=1e-9)
    assert ours.psi == pytest.approx(model.value_and_gradient(theirs.coef_.T.ravel())[0], rel=1e-8)
    assert not certify(problem, ours.x).active
    apart = ours.x.reshape(5, 3) - theirs.coef_.T
    np.testing.assert_allclose(apart, apart.mean(axis=1, keepdims=True) * np.ones(3), atol=1e-4)


def test_the_null_fit_of_an_intercept_has_the_shares_of_the_classes():
    X, label, _ = data(9, 50, 3, 3)
    problem = Problem(MultinomialModel(np.column_stack([np.ones(50), X]), label), MCP(1.0, 1.0), 1.2, [0, 1, 1, 1])
    null = null_fit(problem)
    p = Multinomial.probabilities(null.x[None, :3].copy())[0]
    np.testing.assert_allclose(p, np.bincount(label) / 50, atol=1e-6)
    np.testing.assert_array_equal(null.x[3:], 0)
    gradient = X.T @ (np.bincount(label) / 50 - np.eye(3)[label]) / 50
    squares = np.append(1.0, np.mean(X**2, axis=0))
    unit = np.sqrt(squares / squares.mean())[1:]
    assert null.scale == pytest.approx(np.max(np.linalg.norm(gradient, axis=1) / unit), rel=1e-6)


def test_restriction_is_the_model_with_zeros():
    for model in GROUPED_OBJECTIVES:
        K, W = model.n_outputs, np.array([5, 0, 3])
        part = model.restrict(W)
        assert part.dimension == 3 * K and part.n_outputs == K
        x = np.zeros(model.dimension)
        x_w = np.random.default_rng(0).standard_normal(3 * K)
        places = (W[:, None] * K + np.arange(K)).ravel()
        x[places] = x_w
        (value, gradient), (of_part, part_gradient) = model.value_and_gradient(x), part.value_and_gradient(x_w)
        assert of_part == pytest.approx(value, rel=1e-14)
        np.testing.assert_allclose(part_gradient, gradient[places], rtol=1e-11, atol=1e-15)


class WithoutKernel(DenseDesign):
    """As of a design that is made of another: products, and nothing that kernels could read."""

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.nbytes = array, array.shape, array.dtype, array.nbytes

    @property
    def kernel(self):
        raise InvalidInputError("no kernel")

    def matvec(self, x):
        return self.array @ x

    def rmatvec(self, r):
        return self.array.T @ r

    def row_magnitudes(self, x):
        return abs(self.array) @ abs(x)

    def column_squares(self, weight=None):
        return self.array.T**2 @ weight

    def gram(self, D=None, known=None):
        return self.array.T @ (D[:, None] * self.array)

    def view(self, W):
        return WithoutKernel(np.ascontiguousarray(self.array[:, W]))


def test_products_will_do_where_there_is_no_kernel():
    X, label, x = data(10)
    model, plain = MultinomialModel(WithoutKernel(X), label), MultinomialModel(X, label)
    (value, gradient), (expected, slope) = model.value_and_gradient(x), plain.value_and_gradient(x)
    assert value == pytest.approx(expected, rel=1e-14)
    np.testing.assert_allclose(gradient, slope, rtol=1e-12, atol=1e-15)
    weights = [1.0, 1, 1, 1, 0]
    (ours, theirs) = (steps_of(Problem(of, L1(), 0.5, weights), Spectral(), tol=1e-7) for of in (model, plain))
    assert ours.psi == pytest.approx(theirs.psi, rel=1e-9)


def test_separable_classes_have_no_best_fit():
    X = np.array([[1.0], [2.0], [-1.0], [-3.0]])
    model = MultinomialModel(X, [1, 1, 0, 0])
    x = np.array([-0.1, 0.1])
    assert model.is_separated(x) and not model.is_separated(-x) and not model.is_separated(np.zeros(2))
    values = [model.value_and_gradient(t * x)[0] for t in (10.0, 100.0, 1000.0)]
    assert values == sorted(values, reverse=True) and values[-1] < 1e-40
    mixed = MultinomialModel(np.vstack([X, [[0.5]]]), [1, 1, 0, 0, 0])
    assert not mixed.is_separated(x)
    assert MultinomialModel(np.vstack([X, [[0.5]]]), [1, 1, 0, 0, 0], [1, 1, 1, 1, 0]).is_separated(x)
    # One class separates without bound, which does not change the samples of the others.
    third = MultinomialModel(np.array([[1.0, 0], [1, 0], [0, 1], [0, -1]]), [0, 1, 2, 2])
    assert not third.is_separated(np.array([0, 0, 0, 0, 0, 1.0]))
    lone = MultinomialModel(np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]]), [0, 1, 2, 2])
    assert lone.is_separated(np.array([0, 0, 0, 0, 0, 1.0]))


@pytest.mark.parametrize("k", [3, 6])
def test_separable_classes_take_no_more_features_than_separate_them(k):
    """With two features nothing is left to gain; any others would be taken in by chance."""
    rng = np.random.default_rng(0)
    label = np.arange(30) % 3
    X = rng.standard_normal((30, 8))
    X[:, 0] += 12 * (label == 1)
    X[:, 1] += 12 * (label == 2)
    model = MultinomialModel(X, label, fit_intercept=True)
    assert not model.attained
    with pytest.warns(ConvergenceWarning, match="Diverging"):
        found = best_subset(model, k)
    np.testing.assert_array_equal(found.support, [0, 1])
    assert found.status is Status.DIVERGING


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([0, 1, 0.5, 1], "0.5.* at index 2; a target that is no whole number is for regression"),
        ([0, 1, np.nan, 1], "labels contains NaN at index 2"),
        ([3, 3, 3, 3], "at least two classes, got only .*3"),
        ([0, 1, 2], r"labels must have shape \(4,\), one for each sample, got \(3,\)"),
        (np.eye(4), r"labels must have shape \(4,\)"),
        ([1j, 2, 3, 4], "dtype complex128"),
        (np.array([1, "a", 2, "b"], dtype=object), "of one type"),
    ],
)
def test_bad_labels_are_named(labels, words):
    with pytest.raises(InvalidInputError, match=words):
        MultinomialModel(np.ones((4, 2)), labels)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([7, -1, 7, 3], [-1, 3, 7]),
        ([2.0, 1.0, 1.0, 2.0], [1.0, 2.0]),
        (["x", "a", "x", "q"], ["a", "q", "x"]),
        ([True, False, True, True], [False, True]),
        (np.array(["b", "a", "b", "b"], dtype=object), ["a", "b"]),
    ],
)
def test_labels_may_be_anything_that_sorts(labels, classes):
    model = MultinomialModel(np.ones((4, 2)), labels)
    assert model.classes_.tolist() == classes
    np.testing.assert_array_equal(model.classes_[model.target], labels)
    assert model.n_outputs == len(classes) and model.dimension == 2 * len(classes)


def test_bad_arguments_are_named():
    X, label, _ = data()
    with pytest.raises(InvalidInputError, match="30 samples but 3 sample weights"):
        MultinomialModel(X, label, [1, 2, 3])
    with pytest.raises(InvalidInputError, match=r"offset must have shape \(30, 3\)"):
        MultinomialModel(X, label, offset=np.zeros(30))
    with pytest.raises(InvalidInputError, match="offset contains inf at index 0, 1"):
        MultinomialModel(X, label, offset=np.where(np.eye(30, 3, 1) == 1, np.inf, 0))
    with pytest.raises(InvalidInputError, match=r"x must have shape \(15,\)"):
        MultinomialModel(X, label).value_and_gradient(np.zeros(5))
    for name in ("multinomial", "softmax"):
        with pytest.raises(InvalidInputError, match="MultinomialModel"):
            loss_by_name(name)
    with pytest.raises(InvalidInputError, match="MultinomialModel"):
        LinearModel(X, np.ones(30), "multinomial")


def test_kernels_refuse_labels_outside_the_classes():
    X, label, x = data()
    kernel = MultinomialModel(X, label).design.kernel
    with pytest.raises(ValueError, match="a label is not a class"):
        _kernels.MultinomialModel(kernel, 2, label, None, None)
    with pytest.raises(ValueError, match="do not fit the samples"):
        _kernels.multinomial_value(np.zeros((4, 2)), label, None)
    model = _kernels.MultinomialModel(kernel, 3, label, None, None)
    with pytest.raises(ValueError, match="dimension of the model"):
        model.value_and_gradient(x[:-1].copy(), np.empty(15))


def test_it_pickles_copies_and_says_what_it_is():
    for model in GROUPED_OBJECTIVES:
        x = np.linspace(-1, 1, model.dimension)
        value, _ = model.value_and_gradient(x)
        assert model.smoothness > 0  # caches are not pickled
        for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
            assert twin.value_and_gradient(x)[0] == value
            assert twin.classes_.tolist() == model.classes_.tolist()
    assert "3 classes" in repr(GROUPED_OBJECTIVES[0])
    assert "differ in scale" in MultinomialModel(np.diag([1.0, 1e6, 1.0]), [0, 1, 0]).advice()


def test_subsolvers_that_sample_rows_say_that_they_cannot_take_it():
    model = GROUPED_OBJECTIVES[0]
    takers = {name for name, kind in SUBSOLVERS.items() if kind.can_take(model)}
    assert {"spectral", "nesterov", "acsa"} <= takers
    assert not takers & {"sgd", "svrg", "smoothing"}


def test_the_data_are_never_copied():
    X = np.ones((1000, 50))
    X[::2] = 0
    model = MultinomialModel(X, np.arange(1000) % 3)
    model.value_and_gradient(np.zeros(150))
    assert np.shares_memory(model.design.array, X)
    thin = scipy.sparse.csr_array(X)
    assert np.shares_memory(MultinomialModel(thin, np.arange(1000) % 3).design.data, thin.data)


@pytest.mark.process
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_signal_is_seen_within_a_second(order):
    script = """
        import sys, time
        import numpy as np
        from levelprox import MultinomialModel
        model = MultinomialModel(np.full((400_000, 20), 0.5, order=sys.argv[1]), np.arange(400_000) % 30)
        print("ready", flush=True)
        try:
            while True:
                model.compiled.value_and_gradient(np.zeros(600), np.empty(600))
        except KeyboardInterrupt:
            print(time.process_time())
    """
    with Child(script, order) as child:
        assert child.line() == "ready"
        child.work(0.06)
        assert child.interrupt() < 1


def test_columns_of_small_data_are_computed_once(monkeypatch):
    X, labels = data(n=60, d=6)[:2]
    model, calls = MultinomialModel(X, labels), []
    product = DenseDesign.matvec
    monkeypatch.setattr(DenseDesign, "matvec", lambda self, x: calls.append(1) or product(self, x))
    z = np.zeros((60, model.n_outputs))
    first = model.hessian_of(z)
    assert len(calls) == 6
    np.testing.assert_array_equal(model.hessian_of(z), first)
    assert len(calls) == 6
    part = model.restrict(np.array([1, 3]))
    assert part.hessian_of(z).shape == (2 * model.n_outputs,) * 2  # with columns of its own
    assert len(calls) == 8
    assert "_kept_columns" not in copy.copy(model).__dict__
