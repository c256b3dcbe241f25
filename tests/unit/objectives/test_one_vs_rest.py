"""Each class against the others: ψ is the sum of K linear models over the same features, and a feature counts once."""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

from levelprox import (
    InvalidInputError,
    LinearModel,
    MultinomialModel,
    OneVsRestModel,
    Problem,
    Status,
    best_subset,
    certify,
    designs,
    solve,
)
from levelprox._kernels import FitEnd
from levelprox.certificate.null_model import null_fit
from levelprox.constraints import L1, MCP
from levelprox.designs import ScaledDesign
from levelprox.losses import Hinge, SquaredHinge
from levelprox.methods.restricted import SolverOptions
from levelprox.methods.subsolvers import SUBSOLVERS
from levelprox.objectives import one_vs_rest
from levelprox.subset.column_cache import Columns
from levelprox.subset.fit import Fit
from levelprox.subset.refit import ACCURACY, Refits
from levelprox.subset.swap_bounds import SwapEstimates, costs
from tests.support.registries import DESIGNS, ONE_VS_REST_OBJECTIVES
from tests.support.subset_cases import check_subset

SMOOTH = ["logistic", "squared_hinge", "sigmoid", Hinge().smoothed(0.5)]
NAMES = ["logistic", "squared_hinge", "sigmoid", "smoothed hinge"]


def data(seed=0, n=30, d=5, K=3):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.6, rng.standard_normal((n, d)), 0.0).astype(np.float32).astype(float)
    return X, np.append(np.arange(K), rng.integers(0, K, n - K)), rng.standard_normal(d * K)


def classes_told_apart(seed=0, n=150, d=20, K=3, size=1.5):
    """Labels that depend on the first three of d features."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.4 * rng.standard_normal((n, 1))
    return X, np.argmax(size * X[:, :3] @ rng.standard_normal((3, K)) + rng.gumbel(size=(n, K)), axis=1)


def models_of_the_classes(X, label, loss, weight=None, offset=None, fit_intercept=False):
    """The K linear models by themselves."""
    return [
        LinearModel(
            X, np.where(label == k, 1, -1), loss, weight, None if offset is None else offset[:, k], fit_intercept
        )
        for k in np.unique(label)
    ]


def by_classes(vectors):
    return np.stack(vectors, axis=1).ravel()


@pytest.mark.parametrize("storage", DESIGNS)
@pytest.mark.parametrize("extras", [False, True], ids=["plain", "weights, offsets and intercept"])
@pytest.mark.parametrize("loss", SMOOTH, ids=NAMES)
def test_it_is_the_sum_of_the_models_of_its_classes(storage, extras, loss):
    X, label, x = data()
    rng = np.random.default_rng(1)
    options = {}
    if extras:
        weight, offset = np.where(rng.random(30) < 0.2, 0, rng.random(30)), rng.standard_normal((30, 3))
        options, x = {"weight": weight, "offset": offset, "fit_intercept": True}, np.append(x, [0.1, -0.2, 0.3])
    alone = models_of_the_classes(X, label, loss, **options)
    if extras:
        options["sample_weight"] = options.pop("weight")
    model, columns = OneVsRestModel(DESIGNS[storage](X), label, loss, **options), x.reshape(-1, 3).T
    value, gradient = model.value_and_gradient(x)
    each = [part.value_and_gradient(column) for part, column in zip(alone, columns, strict=True)]
    assert value == pytest.approx(sum(v for v, _ in each), rel=1e-12)
    np.testing.assert_allclose(gradient, by_classes([g for _, g in each]), rtol=1e-12, atol=1e-14)
    z, margins = model.margins(x), [part.margins(column) for part, column in zip(alone, columns, strict=True)]
    np.testing.assert_allclose(z, np.stack(margins, axis=1), rtol=1e-12, atol=1e-13)
    assert model.value_of(z) == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(model.gradient_of(z), gradient, rtol=1e-12, atol=1e-14)
    for convex in (True, False):
        check_hessian(model, z, alone, margins, convex)


def check_hessian(model, z, alone, margins, convex):
    d = model.design.shape[1]
    hessian = model.hessian_of(z, convex).reshape(d, 3, d, 3)
    cross = model.cross_hessian_of(z, (model.moved(e) for e in np.eye(3 * d)), 3 * d, convex).reshape(d, 3, d, 3)
    for a, b in itertools.product(range(3), repeat=2):
        expected = alone[a].hessian_of(margins[a], convex) if a == b else np.zeros((d, d))
        np.testing.assert_allclose(hessian[:, a, :, b], expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(cross[:, a, :, b], expected, rtol=1e-12, atol=1e-14)
    # A change of the margins of all classes at once, such as of a sample's.
    move = np.random.default_rng(2).standard_normal(z.shape)
    expected = [
        p.cross_hessian_of(m, [v], 1, convex)[:, 0] for p, m, v in zip(alone, margins, move.T.copy(), strict=True)
    ]
    np.testing.assert_allclose(
        model.cross_hessian_of(z, [move], 1, convex)[:, 0], by_classes(expected), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("loss", [*SMOOTH, "hinge"], ids=[*NAMES, "hinge"])
def test_weights_are_repetitions(loss):
    X, label, x = data(6)
    weight = np.append([1, 1, 1], np.random.default_rng(0).integers(0, 4, 27))
    repeated = OneVsRestModel(np.repeat(X, weight, axis=0), np.repeat(label, weight), loss)
    weighted = OneVsRestModel(X, label, loss, 3.7 * weight)
    (value, gradient), (other, other_gradient) = repeated.value_and_gradient(x), weighted.value_and_gradient(x)
    assert other == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(other_gradient, gradient, rtol=1e-12, atol=1e-15)
    for name in ("smoothness", "noise", "curvature", "weak_convexity", "nonsmoothness"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), rel=1e-2)
    if weighted.smooth:
        z, z_repeated = weighted.margins(x), repeated.margins(x)
        np.testing.assert_allclose(weighted.hessian_of(z, True), repeated.hessian_of(z_repeated, True), atol=1e-14)


def test_a_sample_without_weight_is_not_there():
    X = np.array([[1e308], [0.0]])
    model = OneVsRestModel(X, [0, 1], "squared_hinge", [0.0, 2.0])
    value, gradient = model.value_and_gradient(np.array([-1e3, 1e3]))
    assert value == pytest.approx(2.0)
    np.testing.assert_array_equal(gradient, 0)


@pytest.mark.parametrize("loss", SMOOTH, ids=NAMES)
def test_scaled_is_with_columns_divided(loss):
    X, label, x = data(3)
    scale = np.array([1.0, 0.5, 4.0, 8.0, 0.25])
    model, divided = OneVsRestModel(X, label, loss), OneVsRestModel(X / scale, label, loss)
    model.value_and_gradient(x)  # what was computed of X must not be taken over
    assert model.smoothness > 0
    (value, gradient), (expected, slope) = model.scaled(scale).value_and_gradient(x), divided.value_and_gradient(x)
    assert value == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(gradient, slope, rtol=1e-12, atol=1e-15)
    assert model.scaled(scale).smoothness == pytest.approx(divided.smoothness, rel=1e-6)
    assert model.scaled(scale).curvature == pytest.approx(divided.curvature, rel=1e-12)


@pytest.mark.parametrize("loss", SMOOTH, ids=NAMES)
@pytest.mark.parametrize("to", [scipy.sparse.csr_array, np.ascontiguousarray], ids=["CSR", "dense"])
def test_blocks_of_rows_leave_no_seam(loss, to, monkeypatch):
    """In blocks, in one piece, and by products, as where X is very wide."""
    X, label, x = data(4, n=200)
    steps = 0.1 * x
    whole = OneVsRestModel(to(X), label, loss, fit_intercept=True)
    x, steps = np.append(x, [0.3, 0, -0.3]), np.append(steps, [0, 1, 0])
    expected, (z, slope, hessian) = whole.value_and_gradient(x), whole.evaluated(whole.margins(x), steps, True)
    monkeypatch.setattr(designs._base, "_CACHED", 512)
    model = OneVsRestModel(to(X), label, loss)
    assert len(list(model.design.row_blocks())) > 5
    _check_same(model.value_and_gradient(x[:-3]), OneVsRestModel(X.copy("F"), label, loss).value_and_gradient(x[:-3]))
    blocked = OneVsRestModel(to(X), label, loss, fit_intercept=True)
    _check_same(blocked.value_and_gradient(x), expected)
    for found, wanted in zip(blocked.evaluated(whole.margins(x), steps, True), (z, slope, hessian), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)
    monkeypatch.setattr(one_vs_rest, "_NARROW", 2)
    _check_same(whole.value_and_gradient(x), expected)


def _check_same(found, expected):
    assert found[0] == pytest.approx(expected[0], rel=1e-13)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-11, atol=1e-14)


def test_two_classes_are_twice_the_logistic_model():
    """With B = (−w, w) either class sees the same margins, with the other sign."""
    X, label, _ = data(7, 80, 6, 2)
    binary, model = LinearModel(X, 2.0 * label - 1, "logistic"), OneVsRestModel(X, label)
    w = np.random.default_rng(1).standard_normal(6)
    (value, gradient), (other, by_class) = binary.value_and_gradient(w), model.value_and_gradient(by_classes([-w, w]))
    assert other == pytest.approx(2 * value, rel=1e-14)
    np.testing.assert_allclose(by_class, by_classes([-gradient, gradient]), atol=1e-15)
    alone = solve(Problem(binary, L1(), 1.0), tol=1e-8)
    both = solve(Problem(model, L1(), math.sqrt(2)), tol=1e-8)
    assert both.psi == pytest.approx(2 * alone.psi, rel=1e-9)
    np.testing.assert_allclose(both.x.reshape(6, 2), np.column_stack([-alone.x, alone.x]), atol=1e-6)


# --- what is known of ψ


@pytest.mark.parametrize("loss", SMOOTH, ids=NAMES)
def test_the_smoothness_is_attained_or_nearly(loss):
    X, label, _ = data(5, 40, 4, 3)
    model = OneVsRestModel(X, label, loss)
    top = model.loss.smoothness * np.linalg.eigvalsh(X.T @ X / 40)[-1]
    assert top * (1 - 1e-9) <= model.smoothness <= 1.01 * top
    if model.loss.name != "squared_hinge":  # the largest |ℓ'| of all samples and classes at once
        slopes = [np.outer(X[i], np.full(3, model.loss.lipschitz)) for i in range(40)]
        assert sum(np.sum(s**2) for s in slopes) / 40 <= model.noise**2 * (1 + 1e-12)
    assert (model.weak_convexity > 0) == (loss == "sigmoid")
    assert model.self_concordance == (1 if loss == "logistic" else math.inf)


def test_subgradients_of_a_loss_with_kinks_jump_by_no_more_than_m():
    X, label, _ = data(5, 40, 4, 3)
    model, rng = OneVsRestModel(X, label, "hinge"), np.random.default_rng(0)
    assert model.smoothness == 0
    for _ in range(200):
        x, y = rng.standard_normal((2, 12))
        gap = model.value_and_gradient(x)[0] - model.value_and_gradient(y)[0] - model.value_and_gradient(y)[1] @ (x - y)
        assert 0 <= gap <= model.nonsmoothness * np.linalg.norm(x - y)
    # Attained where all samples of all classes sit at their kinks, and each class moves as far.
    model, y = OneVsRestModel(np.ones((4, 1)), [0] * 4, "hinge", classes=[0, 1, 2]), np.array([1.0, -1, -1])
    (value, slope), step = model.value_and_gradient(y), np.array([-0.5, 0.5, 0.5])
    gap = model.value_and_gradient(y + step)[0] - value - slope @ step
    assert gap == pytest.approx(model.nonsmoothness * np.linalg.norm(step), rel=1e-12)


def test_separable_classes_have_no_best_fit():
    X, label = np.array([[1.0], [2.0], [-1.0], [-3.0]]), [1, 1, 0, 0]
    model = OneVsRestModel(X, label)
    assert model.is_separated(np.array([-0.1, 0.1])) and not model.is_separated(np.array([0.1, -0.1]))
    assert not model.is_separated(np.zeros(2)) and not model.is_separated(np.array([0.1, 0.1]))
    assert model.is_separated(np.array([0.0, 0.1]))  # one class separates without bound, and the other stays
    mixed = np.vstack([X, [[0.5]]])
    assert not OneVsRestModel(mixed, [*label, 0]).is_separated(np.array([-0.1, 0.1]))
    assert OneVsRestModel(mixed, [*label, 0], sample_weight=[1, 1, 1, 1, 0]).is_separated(np.array([-0.1, 0.1]))
    for attained in ("squared_hinge", "hinge", Hinge().smoothed(0.1)):
        assert not OneVsRestModel(X, label, attained).is_separated(np.array([-0.1, 0.1]))
    bounded = OneVsRestModel(X, label, "sigmoid")
    assert bounded.is_separated(np.array([-0.1, 0.1])) and not bounded.is_separated(np.array([0.1, -0.1]))


def test_points_where_psi_is_not_finite_have_no_quadratic_model():
    model = OneVsRestModel(np.array([[1.0], [-1.0]]), [0, 1], "squared_hinge")
    for dx in (np.array([np.inf, 1.0]), np.array([1.0, np.nan])):
        with np.errstate(invalid="ignore"):
            z, gradient, hessian = model.evaluated(np.array([[-np.inf, 0.0], [0, np.inf]]), dx, True)
        assert np.all(np.isnan(z)) and np.all(np.isnan(gradient)) and hessian is None


# --- solved


@pytest.mark.parametrize("loss", SMOOTH, ids=NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_solve_ends_at_a_kkt_point_within_the_level(loss, seed):
    X, label = classes_told_apart(seed)
    model = OneVsRestModel(X, label, loss, fit_intercept=loss != "sigmoid")
    # Coefficients beyond the threshold cost nothing more, and those of a sigmoid would grow without bound.
    problem = Problem(model, MCP.from_threshold(0.5 if loss != "sigmoid" else 20.0), 3.5 if loss != "sigmoid" else 0.4)
    found = solve(problem)
    assert problem.g(found.x) <= problem.level
    assert found.status is Status.SOLVED
    assert certify(problem, found.x).kkt <= 1e-6
    assert 1 <= found.certificate.n_nonzero <= 20
    assert found.psi < null_fit(problem).psi


@pytest.mark.parametrize("subsolver", ["newton", "spectral", "nesterov"])
def test_subsolvers_agree_on_a_convex_problem(subsolver):
    X, label = classes_told_apart(1, n=80, d=6)
    problem = Problem(OneVsRestModel(X, label, "squared_hinge"), L1(), 0.6)
    assert solve(problem, subsolver=subsolver).psi == pytest.approx(solve(problem, tol=1e-9).psi, rel=1e-6)


@pytest.mark.parametrize("loss", SMOOTH, ids=NAMES)
@pytest.mark.parametrize("keep", [None, [5]], ids=["nothing kept", "one feature kept"])
def test_at_most_k_features_for_all_classes_together(loss, keep):
    size = {"n": 40, "d": 6} if loss == "sigmoid" else {}  # which takes longer, and has no best fit of an intercept
    for seed, k in itertools.product(range(1 if size else 2), (0, 1, 3)):
        X, label = classes_told_apart(seed, **size)
        model = OneVsRestModel(X, label, loss, fit_intercept=loss != "sigmoid")
        found = check_subset(best_subset(model, k, keep=keep), model, k, keep or ())
        assert found.status is Status.SOLVED and found.stationarity <= 1e-6
        assert found.support.size == k


def fitted_by_brute_force(model, features):
    """Σ_k min ψ_k over these features, each class by a quasi-Newton method of another library."""
    options = {"gtol": 1e-9, "ftol": 1e-14, "maxiter": 500}
    start = np.zeros(len(features))
    ends = [
        scipy.optimize.minimize(part.value_and_gradient, start, jac=True, method="L-BFGS-B", options=options).fun
        for part in model.restrict(np.array(features)).parts
    ]
    return sum(ends)


CONVEX = [loss for loss in SMOOTH if loss != "sigmoid"]


@pytest.mark.parametrize("loss", CONVEX, ids=[name for name in NAMES if name != "sigmoid"])
def test_the_best_pair_is_that_of_brute_force(loss):
    for seed in range(6):
        X, label = classes_told_apart(seed, n=60, d=7, size=0.8)
        model = OneVsRestModel(X, label, loss)
        best = min(fitted_by_brute_force(model, pair) for pair in itertools.combinations(range(7), 2))
        found = best_subset(model, 2)
        assert found.support.size == 2 and found.psi == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("loss", SMOOTH, ids=NAMES)
def test_refits_are_compiled_and_those_over_the_data_themselves(loss):
    X, label = classes_told_apart(2)
    model = OneVsRestModel(X, label, loss, sample_weight=np.random.default_rng(0).random(150), fit_intercept=True)
    problem = Problem(model, MCP.from_threshold(0.5), 3.5)
    how = SolverOptions(null_fit(problem), lambda: math.inf)
    refits, features = Refits(problem, how), np.array([0, 1, 7, 20])
    nothing = Fit(np.empty(0, np.intp), np.empty(0), math.inf, model.origin)
    assert len(refits.compiled) == 3
    end, fit = refits.by_columns(features, nothing, 1e-10, math.inf, 1e-10)
    assert end == FitEnd.FITTED or loss in ("sigmoid", Hinge().smoothed(0.5))  # whose curvature may be nothing
    if end == FitEnd.FITTED:
        part, plain = model.restrict(features), refits._over_data(features, nothing, 1e-10, math.inf, ACCURACY)[1]
        assert fit.psi == pytest.approx(plain.psi, rel=1e-9)
        assert fit.psi == pytest.approx(part.value_of(fit.margins), rel=1e-13)
        np.testing.assert_allclose(fit.margins, part.margins(fit.x), atol=1e-9)
        np.testing.assert_allclose(fit.hessian, part.hessian_of(fit.margins, True), rtol=1e-9, atol=1e-12)
        assert np.max(np.abs(part.gradient_of(fit.margins))) <= 2e-10 or fit.gap <= 1e-10 * fit.psi
        assert refits(features, nothing, 1e-10, fit.psi * (1 + 1e-6)) is not None
        # A bound is only known for the logistic loss; the others are fitted to their ends.
        assert refits(features, nothing, 1e-10, fit.psi * 0.9) is None or loss != "logistic"


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_estimates_of_swaps_are_the_sums_of_those_of_the_classes(loss):
    X, label = classes_told_apart(3)
    model, features = OneVsRestModel(X, label, loss, fit_intercept=True), np.array([0, 1, 7, 20])
    x = 0.3 * np.random.default_rng(0).standard_normal((4, 3))

    def estimates(objective, x):
        problem, z = Problem(objective, MCP.from_threshold(0.5), 3.5), objective.restrict(features).margins(x.ravel())
        fit = Fit(features, x.ravel(), objective.value_of(z), z)
        cross = objective.cross_hessian_of(z, Columns(objective).moves(features), x.size, True)
        found = SwapEstimates(problem, fit, objective.gradient_of(z), cross, objective.feature_hessians_of(z))
        swaps = np.array([found.gains(i) for i in found.droppable])
        return costs(problem, fit)[:3], *(np.where(found.outside, gain, 0) for gain in (found.additions(), swaps))

    ours, theirs = estimates(model, x), [estimates(part, column) for part, column in zip(model.parts, x.T, strict=True)]
    for found, *each in zip(ours, *theirs, strict=True):
        np.testing.assert_allclose(found, np.sum(each, axis=0), rtol=1e-6, atol=1e-9)


# --- kinks


def test_nonsmooth_losses_are_taken_by_subsolvers_that_support_them():
    X, label, x = data(8)
    model = OneVsRestModel(X, label, "hinge")
    assert not model.smooth and not model.curved
    assert {name for name, kind in SUBSOLVERS.items() if kind.can_take(model)} == {"acsa"}
    for name in ("newton", "spectral", "smoothing"):
        with pytest.raises(InvalidInputError, match=f"subsolver '{name}' needs .*acsa"):
            solve(Problem(model, L1(), 1.0), subsolver=name)
    assert best_subset(model, 2).support.size == 2
    each = [part.value_and_gradient(column) for part, column in zip(model.parts, x.reshape(-1, 3).T, strict=True)]
    value, gradient = model.value_and_gradient(x)
    assert value == pytest.approx(sum(v for v, _ in each), rel=1e-14)
    np.testing.assert_allclose(gradient, by_classes([g for _, g in each]), rtol=1e-12)


@pytest.mark.parametrize("model", ONE_VS_REST_OBJECTIVES, ids=str)
def test_the_parts_are_the_models_of_the_classes_and_share_x(model):
    assert [part.loss for part in model.parts] == [model.loss] * model.n_outputs
    for k, part in enumerate(model.parts):
        assert part.design is model.design and part.sample_weight is model.sample_weight
        np.testing.assert_array_equal(part.target == 1, model.target == k)
    x = np.linspace(-1, 1, model.dimension)
    each = zip(model.parts, x.reshape(-1, model.n_outputs).T, strict=True)
    values = [part.value_and_gradient(column)[0] for part, column in each]
    assert sum(values) == pytest.approx(model.value_and_gradient(x)[0], rel=1e-13)
    W = np.array([5, 0])
    for other in (model.restrict(W), pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model.scaled(np.ones(8))):
        assert all(part.design is other.design for part in other.parts)
    assert all(part.design is model.design for part in model.parts)


# --- classes and other arguments


@pytest.mark.parametrize("kind", [MultinomialModel, OneVsRestModel])
def test_batches_of_a_stream_add_up_where_the_classes_are_known(kind):
    X, label, x = data(9, 30, 5, 3)
    names = np.array(["a", "b", "c"])
    label = np.sort(label)  # the batches have one or two classes each
    whole = kind(X, names[label])
    batches = [kind(X[i], names[label[i]], classes=names[::-1]) for i in np.split(np.arange(30), 5)]
    assert [np.unique(batch.target).size for batch in batches] != [3] * 5
    for batch in batches:
        assert batch.classes_.tolist() == ["a", "b", "c"] and batch.n_outputs == 3
    values, gradients = zip(*[batch.value_and_gradient(x) for batch in batches], strict=True)
    assert np.mean(values) == pytest.approx(whole.value_and_gradient(x)[0], rel=1e-13)
    np.testing.assert_allclose(np.mean(gradients, axis=0), whole.value_and_gradient(x)[1], atol=1e-14)


@pytest.mark.parametrize("kind", [MultinomialModel, OneVsRestModel])
def test_labels_must_be_among_the_classes(kind):
    X = np.ones((3, 2))
    for labels, classes, words in (
        ([0, 1, 5], [0, 1, 2], "among the 3 classes, got .*5.* at index 2"),
        (["a", "b", "d"], ["a", "b"], "among the 2 classes, got .*'d'.* at index 2"),
        ([0, 1, 1], ["0", "1"], "of one type"),
        ([0, 1, 1], [1, 1], "classes must be of at least two classes"),
        ([0, 1, 1], [], "classes must be of at least two classes, got none"),
        ([0, 1, 1], [[0, 1]], r"classes must be one-dimensional, got shape \(1, 2\)"),
        ([0, 1, 1], [0, 0.5], "classes must be classes, got .*0.5"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            kind(X, labels, classes=classes)
    for labels, classes in (
        ([1.0, 1.0, 2.0], [1, 2, 3]),
        ([True, True, True], [False, True]),
        (np.array(["b", "a", "a"], dtype=object), ["a", "b"]),
        ([2, 2, 2], [7, 2]),
    ):
        model = kind(X, labels, classes=classes)
        assert model.classes_[model.target].tolist() == list(labels)
        assert model.classes_.tolist() == sorted(classes)


@pytest.mark.parametrize("kind", [MultinomialModel, OneVsRestModel])
def test_a_class_without_samples_is_no_obstacle(kind):
    """Its intercept keeps decreasing, and gains less and less."""
    X, label = classes_told_apart(3, K=3)
    with_it, without = (kind(X, label, fit_intercept=True, classes=classes) for classes in ([0, 1, 2, 3], [0, 1, 2]))
    found, expected = (best_subset(model, 2) for model in (with_it, without))
    assert found.support.tolist() == expected.support.tolist()
    assert found.psi == pytest.approx(expected.psi, abs=1e-6)
    assert np.all(np.isfinite(found.x))


@pytest.mark.parametrize("loss", ["squared", "huber", "poisson", "absolute"])
def test_only_margin_losses_tell_classes_apart(loss):
    with pytest.raises(InvalidInputError, match=f"needs a margin loss, one of logistic, .*sigmoid.* got '{loss}'"):
        OneVsRestModel(np.ones((4, 2)), [0, 1, 0, 1], loss)


def test_bad_arguments_are_named():
    X, label, _ = data()
    with pytest.raises(InvalidInputError, match="30 samples but 3 sample weights"):
        OneVsRestModel(X, label, sample_weight=[1, 2, 3])
    with pytest.raises(InvalidInputError, match=r"offset must have shape \(30, 3\)"):
        OneVsRestModel(X, label, offset=np.zeros(30))
    with pytest.raises(InvalidInputError, match=r"x must have shape \(15,\)"):
        OneVsRestModel(X, label).value_and_gradient(np.zeros(5))
    with pytest.raises(InvalidInputError, match="unknown loss 'logistc'; did you mean 'logistic'"):
        OneVsRestModel(X, label, "logistc")
    assert OneVsRestModel(X, label, SquaredHinge()).loss == SquaredHinge()


def test_repr_and_advice():
    assert "3 classes, loss=Logistic()" in repr(ONE_VS_REST_OBJECTIVES[0])
    assert "differ in scale" in OneVsRestModel(np.diag([1.0, 1e6, 1.0]), [0, 1, 0]).advice()


def test_the_data_are_never_copied():
    X = np.ones((1000, 50))
    X[::2] = 0
    model = OneVsRestModel(X, np.arange(1000) % 3, fit_intercept=True)
    model.value_and_gradient(np.zeros(153))
    assert all(np.shares_memory(part.design.base.array, X) for part in model.parts)
    thin = scipy.sparse.csr_array(X)
    assert np.shares_memory(OneVsRestModel(thin, np.arange(1000) % 3).design.data, thin.data)


def test_centred_and_scaled_lazily_it_is_the_same_as_in_advance():
    X, label = classes_told_apart(4, n=90, d=8)
    lazily = best_subset(OneVsRestModel(ScaledDesign.standardized(X), label, fit_intercept=True), 3)
    before = best_subset(OneVsRestModel((X - X.mean(axis=0)) / X.std(axis=0), label, fit_intercept=True), 3)
    assert lazily.support.tolist() == before.support.tolist()
    np.testing.assert_allclose(lazily.x, before.x, atol=1e-6)
