"""Queries to partitions of the data: the sum of their answers is the answer for all samples."""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import Problem, best_subset, certify, constraints, solve
from levelprox.backends import PartitionedModel
from levelprox.backends.partition import Form, Partition, median, number_of, ordered_bits
from levelprox.backends.query import Query
from levelprox.certificate.null_model import null_fit
from levelprox.designs import DenseDesign, RunningMoments, ScaledDesign, as_design
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Hinge, Logistic, Loss, Squared
from levelprox.objectives import LinearModel, MultinomialModel, OneVsRestModel
from levelprox.objectives.leave_one_out import Point
from tests.support.in_memory_partitions import InMemory
from tests.support.registries import LOSSES, targets_of

SMOOTH = [loss for loss in LOSSES if loss.smooth]
N, D = 60, 12
STORAGES = {"dense": np.asarray, "float32": lambda X: X.astype(np.float32), "csr": scipy.sparse.csr_array}


def data(loss: Loss | None = None, seed: int = 0, n: int = N, d: int = D):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.4, 0.0, rng.standard_normal((n, d)))
    z = X @ np.where(np.arange(d) % 4 == 0, 1.0, 0.0) + 0.3 * rng.standard_normal(n)
    return X, z if loss is None else targets_of(loss, z)


def close(a, b, relative: float = 1e-12) -> None:
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    assert np.max(np.abs(a - b), initial=0.0) <= relative * max(float(np.max(np.abs(b), initial=0.0)), 1e-300)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("parts", [1, 2, 7, N])
@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_queries_of_partitions_equal_those_of_all_data(loss: Loss, parts: int, storage: str) -> None:
    X, b = data(loss)
    rng = np.random.default_rng(1)
    weight, offset = rng.integers(0, 3, N).astype(float), 0.1 * rng.standard_normal(N)
    stored = STORAGES[storage](X)
    center, scale = rng.standard_normal(D), rng.uniform(0.5, 2, D)
    far = InMemory.cut(stored, b, parts, weight, offset).model(Form(loss, True, center, scale))
    near = LinearModel(ScaledDesign(as_design(stored), center, scale), b, loss, weight, offset, fit_intercept=True)
    x = 0.3 * np.where(rng.random(D + 1) < 0.5, 0.0, rng.standard_normal(D + 1))

    psi, gradient = far.value_and_gradient(x)
    close(psi, near.value_and_gradient(x)[0])
    close(gradient, near.value_and_gradient(x)[1])

    W = np.array([0, 3, 4, 8, D])
    part, known = far.restrict(W), near.restrict(W)
    place, z, v = part.margins(x[W]), known.margins(x[W]), rng.standard_normal(W.size)
    close(part.value_of(place), known.value_of(z))
    close(part.gradient_of(place), known.gradient_of(z))
    for convex in (True, False):
        close(part.hessian_of(place, convex), known.hessian_of(z, convex))
        close(part.hessian_diagonal_of(place, convex), known.hessian_diagonal_of(z, convex))
        close(part.hessian_product_of(place, convex)(v), known.hessian_product_of(z, convex)(v))
    dx = 0.1 * v
    moved, slope, bend = part.evaluated(place, dx, True)
    there, known_slope, known_bend = known.evaluated(z, dx, True)
    close(part.value_of(moved), known.value_of(there))
    close(slope, known_slope)
    close(bend, known_bend)
    ahead, along = part.along(place, moved), known.along(z, there)
    close([ahead(t) for t in (0.5, 2.0, 4.0, 64.0)], [along(t) for t in (0.5, 2.0, 4.0, 64.0)], 1e-9)

    assert np.count_nonzero(weight) <= far.n_margins <= near.n_margins  # of source that have a weight
    assert far.unpenalized.tolist() == near.unpenalized.tolist()
    close(far.column_squares, near.design.column_squares(weight) / weight.sum())
    assert far.weak_convexity >= near.weak_convexity * (1 - 1e-12)
    assert far.smoothness >= near.smoothness * (1 - 1e-12)
    assert far.is_separated(x) == near.is_separated(x)


@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("parts", [1, 7])
def test_several_classes(parts: int, softmax: bool) -> None:
    X, z = data()
    labels = np.array(["b", "a", "c"])[np.digitize(z, [-0.5, 0.5])]
    form = Form(Logistic(), True, classes=np.unique(labels), softmax=softmax)
    far = InMemory.cut(X, labels, parts).model(form)
    near = (
        MultinomialModel(X, labels, fit_intercept=True)
        if softmax
        else OneVsRestModel(X, labels, Logistic(), fit_intercept=True)
    )
    x = np.random.default_rng(0).standard_normal(near.dimension) * 0.3
    psi, gradient = far.value_and_gradient(x)
    close(psi, near.value_and_gradient(x)[0])
    close(gradient, near.value_and_gradient(x)[1])
    W = np.array([1, 5, D])
    part, known, short = far.restrict(W), near.restrict(W), x[:9]
    close(part.hessian_of(part.margins(short), True), known.hessian_of(known.margins(short), True))
    before, after = (
        Point(t * short, np.linalg.inv(known.hessian_of(known.margins(short), True) + t * np.eye(9))) for t in (1, 2)
    )
    close(part.left_out_fall(before, after, 1 / N), known.left_out_fall(before, after, 1 / N), 1e-10)
    constraint = constraints.MCP.from_threshold(1.0)
    a, b = (solve(Problem(psi, constraint, 3.5 * constraint.cap), start="direct", tol=1e-10) for psi in (far, near))
    assert a.status == b.status
    np.testing.assert_array_equal(np.flatnonzero(a.x), np.flatnonzero(b.x))
    assert abs(a.certificate.psi - b.certificate.psi) <= 1e-8 * abs(b.certificate.psi)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(("parts", "start"), [(1, "direct"), (2, "auto"), (7, "direct"), (7, "auto"), (200, "direct")])
def test_the_solved_model_is_the_same(parts: int, storage: str, start: str) -> None:
    X, b = data(Logistic(), 3, 200, 40)
    stored, constraint = STORAGES[storage](X), constraints.MCP.from_threshold(0.5)
    far = InMemory.cut(stored, b, parts).model(Form(Logistic(), True))
    near = LinearModel(stored, b, "logistic", fit_intercept=True)
    a, c = (solve(Problem(psi, constraint, 4.5 * constraint.cap), start=start) for psi in (far, near))
    assert a.status == c.status
    np.testing.assert_array_equal(np.flatnonzero(a.x), np.flatnonzero(c.x))
    assert abs(a.certificate.psi - c.certificate.psi) <= 1e-8 * c.certificate.psi
    # What is reported is what the data in one piece say of the point.
    told = certify(Problem(near, constraint, 4.5 * constraint.cap), a.x)
    assert abs(told.psi - a.certificate.psi) <= 1e-12 * told.psi
    assert told.infeasibility == 0
    assert told.kkt <= 1e-6


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_every_smooth_loss_is_solved_as_in_one_piece(loss: Loss) -> None:
    X, b = data(loss, 5, 150, 20)
    constraint = constraints.MCP.from_threshold(0.5)
    far, near = InMemory.cut(X, b, 4).model(Form(loss, True)), LinearModel(X, b, loss, fit_intercept=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the sigmoid has no minimiser here, for any method
        a, c = (solve(Problem(psi, constraint, 2.5 * constraint.cap), start="direct") for psi in (far, near))
    assert a.certificate.psi <= c.certificate.psi * (1 + 1e-8)
    if loss.attained or loss.weak_convexity == 0:
        np.testing.assert_array_equal(np.flatnonzero(a.x), np.flatnonzero(c.x))


def test_rounds_are_few_and_bytes_do_not_grow_with_the_samples() -> None:
    traffic = []
    constraint = constraints.MCP.from_threshold(0.5)
    for n in (1000, 10000):
        X, b = data(Logistic(), 2, n, 50)
        far = InMemory.cut(X, b, 8).model(Form(Logistic(), True))
        far_solved = solve(Problem(far, constraint, 5.5 * constraint.cap))
        assert far_solved.success
        traffic.append(far.traffic)
    assert max(one.rounds for one in traffic) <= 80
    small, large = traffic
    assert large.bytes_out + large.bytes_back <= 2 * (small.bytes_out + small.bytes_back)
    assert large.bytes_back < 1_000_000


def test_one_round_gives_everything_of_a_step() -> None:
    X, b = data(Logistic(), 1, 100, 30)
    source = InMemory.cut(X, b, 3)
    far = source.model(Form(Logistic()))
    part = far.restrict(np.arange(20))
    _ = part.summary
    before = part.traffic.rounds
    place, *_ = part.evaluated(part.margins(np.zeros(20)), np.full(20, 0.1), True)
    part.value_of(place), part.gradient_of(place), part.hessian_of(place, True)
    ahead = part.along(part.margins(np.zeros(20)), place)
    values = [ahead(t) for t in (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)]
    assert part.traffic.rounds == before + 1
    known = [part.value_of(part.margins(np.full(20, 0.1 * t))) for t in (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)]
    np.testing.assert_allclose(values, known, rtol=1e-12)


def test_only_features_that_are_not_zero_go_out() -> None:
    X, b = data(Logistic(), 1, 100, 30)
    far = InMemory.cut(X, b, 3).model(Form(Logistic()))
    asked: list[Query] = []
    answer = far.partial_sums
    far.partial_sums = lambda query: (asked.append(query), answer(query))[1]
    x = np.zeros(30)
    x[[2, 7]] = 1.0
    far.value_and_gradient(x)
    assert asked[0].features.tolist() == [2, 7]
    assert asked[0].nbytes == 2 * 8 + 2 * 8


@pytest.mark.parametrize("name", ["squared", "logistic", "huber", "poisson", "squared_hinge", "gamma"])
@pytest.mark.parametrize("seed", range(2))
def test_at_most_k_features(name: str, seed: int) -> None:
    from levelprox.losses import loss_by_name

    loss = loss_by_name(name)
    rng = np.random.default_rng(seed)
    n, d, k = 400, 120, 5
    X = rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n, 8)) @ rng.standard_normal((8, d))
    truth = np.where(np.arange(d) % 24 == 0, rng.choice([-0.4, 0.4], d), 0.0)
    b = targets_of(loss, X @ truth + 0.5 * rng.standard_normal(n))
    far, near = InMemory.cut(X, b, 5).model(Form(loss, True)), LinearModel(X, b, loss, fit_intercept=True)
    a, c = best_subset(far, k), best_subset(near, k)
    np.testing.assert_array_equal(a.support, c.support)
    assert a.psi <= c.psi * (1 + 1e-10)
    assert a.addition == c.addition
    assert abs(a.multiplier - c.multiplier) <= 1e-6 * max(abs(c.multiplier), 1e-12)
    assert a.stationarity <= 1e-6
    if name == "squared":  # the model is ψ itself, so that swaps among the candidates are shown not to help
        assert 0 < a.swaps.examined <= a.swaps.total
    else:
        assert a.swaps.examined == 0
        assert "not examined" in str(a.swaps)


@pytest.mark.parametrize("k", [2, 3])
def test_at_most_k_features_where_the_curvature_changes_with_every_fit(k: int) -> None:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    X, b = (X - X.mean(axis=0)) / X.std(axis=0), 2.0 * y - 1
    weight = np.random.default_rng(0).integers(1, 4, b.size).astype(float)
    far = InMemory.cut(X, b, 2, weight).model(Form(Logistic(), True))
    a, c = best_subset(far, k), best_subset(LinearModel(X, b, "logistic", weight, fit_intercept=True), k)
    assert a.psi <= c.psi * (1 + 1e-9)


def test_features_that_are_kept_and_signs() -> None:
    X, b = data(Squared(), 4, 200, 40)
    far, near = InMemory.cut(X, b, 3).model(Form(Squared(), True)), LinearModel(X, b, fit_intercept=True)
    a, c = (best_subset(psi, 3, keep=[5, 6], nonnegative=True) for psi in (far, near))
    np.testing.assert_array_equal(a.support, c.support)
    assert np.all(a.x[:-1] >= 0)
    assert abs(a.psi - c.psi) <= 1e-9 * c.psi


def test_methods_for_data_in_memory_are_refused() -> None:
    X, b = data(Logistic())
    source = InMemory.cut(X, b, 2)
    with pytest.raises(InvalidInputError, match="has kinks"):
        PartitionedModel(source, Form(Hinge()))
    far = source.model(Form(Logistic()))
    with pytest.raises(InvalidInputError, match="prove=True is for data in memory"):
        best_subset(far, 2, prove=True)
    three = InMemory.cut(X, np.arange(N) % 3, 2).model(Form(Logistic(), classes=np.arange(3), softmax=True))
    with pytest.raises(InvalidInputError, match="more than two classes"):
        best_subset(three, 2)


def test_points_where_the_loss_overflows() -> None:
    from levelprox.losses import Poisson

    X, b = data(Poisson())
    far = InMemory.cut(X, b, 3).model(Form(Poisson()))
    part = far.restrict(np.arange(4))
    place, gradient, hessian = part.evaluated(part.margins(np.zeros(4)), np.full(4, 1e4), True)
    assert not np.isfinite(part.value_of(place))
    assert not np.any(np.isfinite(gradient))
    assert hessian is not None


def test_the_null_fit_takes_few_rounds() -> None:
    X, b = data(Logistic(), 6, 500, 10)
    far = InMemory.cut(X, b, 3).model(Form(Logistic(), True))
    near = LinearModel(X, b, "logistic", fit_intercept=True)
    constraint = constraints.MCP(1, 1)
    a, c = (null_fit(Problem(psi, constraint, 1.0)) for psi in (far, near))
    close(a.x, c.x, 1e-8)
    assert far.traffic.rounds <= 10


def test_data_that_go_in_the_last_round_leave_the_answer() -> None:
    from levelprox.exceptions import BackendError

    X, b = data(Logistic(), 3, 200, 20)
    far, near = (InMemory.cut(X, b, 3).model(Form(Logistic())) for _ in range(2))
    constraint = constraints.MCP.from_threshold(0.5)
    known = solve(Problem(near, constraint, 2.5 * constraint.cap), start="direct")

    def gone(x: object) -> bool:
        raise BackendError("no worker is left")

    far.is_separated = gone
    with pytest.warns(UserWarning, match="whether the data are separable was not examined: no worker is left"):
        found = solve(Problem(far, constraint, 2.5 * constraint.cap), start="direct")
    np.testing.assert_array_equal(found.x, known.x)
    assert found.success


def test_data_that_go_in_the_middle_leave_the_best_point() -> None:
    from levelprox.exceptions import BackendError

    X, b = data(Logistic(), 3, 200, 20)
    far, constraint = InMemory.cut(X, b, 3).model(Form(Logistic())), constraints.MCP.from_threshold(0.5)
    problem, answer = Problem(far, constraint, 2.5 * constraint.cap), far.partial_sums
    rounds = solve(problem, start="direct").certificate and far.traffic.rounds
    asked = []

    def dying(query: Query) -> object:
        asked.append(query)
        if len(asked) > rounds // 2:
            raise BackendError("no worker is left")
        return answer(query)

    PartitionedModel.partial_sums, original = lambda self, query: dying(query), PartitionedModel.partial_sums
    try:
        with pytest.raises(BackendError, match="no worker is left") as caught:
            solve(problem, start="direct")
    finally:
        PartitionedModel.partial_sums = original
    assert caught.value.result is not None
    assert problem.is_feasible(caught.value.result.x)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=40), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_the_median_in_rounds_is_the_median(values: list[float], parts: int) -> None:
    y = np.array(values)
    source = InMemory.cut(np.ones((y.size, 1)), y, min(parts, y.size))
    found = median(source, float(y.size))
    assert np.sum(y < found) <= y.size / 2 <= np.sum(y <= found)
    assert found in y


@given(st.floats(allow_nan=False))
def test_bits_in_order_come_back(value: float) -> None:
    assert number_of(int(ordered_bits(np.array([value]))[0])) == value


def test_bits_are_in_the_order_of_the_numbers() -> None:
    y = np.array([-np.inf, -1e300, -1.5, -1e-310, 0.0, 1e-310, 2.0, 1e300, np.inf])
    assert np.all(np.diff(ordered_bits(y).astype(object)) > 0)


def test_weighted_spread() -> None:
    rng = np.random.default_rng(0)
    y, weight = rng.standard_normal(101), rng.integers(0, 4, 101).astype(float)
    repeated = np.repeat(y, weight.astype(int))
    expected = np.mean(np.abs(repeated - np.sort(repeated)[(repeated.size - 1) // 2]))
    assert InMemory.cut(np.ones((101, 1)), y, 4, weight).spread(weight.sum()) == pytest.approx(expected, rel=1e-12)


def test_statistics_describe_the_data() -> None:
    X, z = data(None, 1, 90)
    labels, weight = np.digitize(z, [-0.5, 0.5]), np.random.default_rng(0).integers(0, 3, 90).astype(float)
    found = InMemory.cut(X, labels, 5, weight).statistics(Logistic(), True, True)
    moments = RunningMoments(D)
    moments.update(as_design(X), weight)
    close(found.moments.mean, moments.mean)
    close(found.moments.scale, moments.scale)
    assert found.classes.tolist() == [0, 1, 2]
    close(found.class_weights, [weight[labels == one].sum() for one in range(3)])
    assert (found.count, found.total) == (90, weight.sum())


def test_an_error_in_statistics_names_the_chunk() -> None:
    X, b = data(Logistic())
    X[45, 3] = np.nan
    with pytest.raises(InvalidInputError, match=r"chunk 1: X contains NaN at row 15, column 3"):
        InMemory([Partition(i, DenseDesign(X[30 * i : 30 * i + 30]), b[:30]) for i in range(2)], D).statistics(
            Logistic(), True, True
        )
    X, b = data(Squared())
    b[2] = np.inf
    with pytest.raises(InvalidInputError, match=r"chunk 0: .*index 2"):
        InMemory.cut(X, b, 2).statistics(Squared(), False, True)


@pytest.mark.parametrize("folds", [2, 5])
def test_folds_share_the_samples_out(folds: int) -> None:
    X, b = data(Squared())
    weight = np.random.default_rng(1).integers(1, 4, N).astype(float)
    source = InMemory.cut(X, b, 3, weight)
    held = [source.part(fold, folds, 7, True) for fold in range(folds)]
    kept = [source.part(fold, folds, 7, False) for fold in range(folds)]
    out = np.array([np.concatenate([partition.weight for partition in one.partitions]) for one in held])
    rest = np.array([np.concatenate([partition.weight for partition in one.partitions]) for one in kept])
    np.testing.assert_array_equal(out.sum(axis=0), weight)
    np.testing.assert_array_equal(out + rest, np.broadcast_to(weight, out.shape))
    assert np.ptp(np.count_nonzero(out, axis=1)) <= 3  # one a partition
    again = np.concatenate([partition.weight for partition in source.part(0, folds, 7, True).partitions])
    np.testing.assert_array_equal(out[0], again)
    other = np.concatenate([partition.weight for partition in source.part(0, folds, 8, True).partitions])
    assert not np.array_equal(out[0], other)


def test_weights_of_classes() -> None:
    X, b = data(Logistic())
    weight = np.random.default_rng(1).integers(1, 4, N).astype(float)
    far = InMemory.cut(X, b, 3, weight).weighted(np.array([-1.0, 1.0]), np.array([0.5, 3.0]))
    near = LinearModel(X, b, "logistic", weight * np.where(b > 0, 3.0, 0.5))
    x = np.random.default_rng(0).standard_normal(D)
    close(far.model(Form(Logistic())).value_and_gradient(x)[0], near.value_and_gradient(x)[0])


def test_partitions_without_weight_do_not_count() -> None:
    X, b = data(Logistic())
    weight = np.ones(N)
    weight[:20] = 0.0  # the first of three
    far = InMemory.cut(X, b, 3, weight).model(Form(Logistic(), True))
    near = LinearModel(X[20:], b[20:], "logistic", fit_intercept=True)
    x = np.random.default_rng(0).standard_normal(D + 1)
    close(far.value_and_gradient(x)[1], near.value_and_gradient(x)[1])


def test_the_second_order_model_is_a_least_squares_problem() -> None:
    X, b = data(Logistic())
    far = InMemory.cut(X, b, 3).model(Form(Logistic(), True))
    rng = np.random.default_rng(0)
    x, step = 0.2 * rng.standard_normal(D + 1), 0.3 * rng.standard_normal(D + 1)
    gradient = far.value_and_gradient(x)[1]
    hessian = far.hessian_of(far.margins(x), True)
    model = far.second_order(x, gradient)
    at, there = (model.value_and_gradient(point)[0] for point in (x, x + step))
    assert there - at == pytest.approx(gradient @ step + step @ hessian @ step / 2, rel=1e-10)


@pytest.mark.parametrize("place", ["dask", pytest.param("torch", marks=pytest.mark.torch)])
def test_a_linear_model_of_anything(place: str) -> None:
    import dask.array as da

    from levelprox import linear_model
    from levelprox.backends import RemoteObjective

    X, b = data(Logistic(), 2, 120, 15)
    constraint = constraints.MCP.from_threshold(0.5)
    near = linear_model(X, b, "logistic", fit_intercept=True)
    assert isinstance(near, LinearModel)
    known = solve(Problem(near, constraint, 2.5 * constraint.cap), start="direct")
    given_X = da.from_array(X, chunks=(50, 15)) if place == "dask" else importlib.import_module("torch").tensor(X)
    far = linear_model(given_X, b, "logistic", fit_intercept=True)
    assert isinstance(far, RemoteObjective)
    found = solve(Problem(far, constraint, 2.5 * constraint.cap), start="direct")
    np.testing.assert_array_equal(np.flatnonzero(found.x), np.flatnonzero(known.x))
    assert abs(found.certificate.psi - known.certificate.psi) <= 1e-10 * known.certificate.psi
    with pytest.raises(InvalidInputError, match="would have to be copied into memory as a whole: linear_model"):
        LinearModel(da.from_array(X), b)
