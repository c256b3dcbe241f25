"""ψ with X on a device equals ψ in memory; on CPU tensors everywhere, on a GPU where there is one."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from levelprox._solve import solve
from levelprox.backends import array_namespace as namespace
from levelprox.backends import device_design as device
from levelprox.backends.array_namespace import on_device
from levelprox.backends.device_design import DeviceDesign
from levelprox.backends.device_source import DeviceSource
from levelprox.backends.gpu import DeviceModel
from levelprox.backends.partition import ComputeStatistics, Form, Partition, SelectFold
from levelprox.backends.query import AHEAD, Query
from levelprox.constraints import MCP
from levelprox.designs import ScaledDesign, as_design
from levelprox.exceptions import BackendError, InvalidInputError
from levelprox.losses import Absolute, Cauchy, Logistic, Loss, Squared
from levelprox.objectives import LinearModel, MultinomialModel, OneVsRestModel
from levelprox.objectives.leave_one_out import Point
from levelprox.problem import Problem
from tests.support.registries import LOSSES, targets_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")

SMOOTH = [loss for loss in LOSSES if loss.smooth and loss.name != "smoothed"]
STORED = ["rows", "columns", "csr"]
N, D = 400, 40


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def place(request: pytest.FixtureRequest) -> str:
    """Where tensors are."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    return str(request.param)


def tensor(X: np.ndarray, stored: str, place: str) -> torch.Tensor:
    if stored == "csr":
        return torch.tensor(X).to_sparse_csr().to(place)
    whole = torch.tensor(X, device=place)
    return whole if stored == "rows" else whole.T.contiguous().T


@functools.lru_cache(maxsize=4)
def drawn(seed: int, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, d)) < 0.4, 0.0, rng.normal(0.3, 1.0, (n, d))), rng.normal(size=n)


def some_data(dtype: Any = np.float64, seed: int = 0, n: int = N, d: int = D) -> tuple[np.ndarray, np.ndarray]:
    """X with many zeros and a noisy linear target."""
    X, noise = drawn(seed, n, d)
    X = X.astype(dtype)  # a copy
    z = X[:, :5].astype(float) @ np.array([1.0, -0.8, 0.6, -1.0, 0.5])
    return X, z + 0.5 * noise


def targets(loss: Loss, z: np.ndarray) -> np.ndarray:
    return targets_of(loss, np.exp(0.3 * z) if loss.kind in ("count", "positive") else z)


def close(ours: Any, theirs: Any, tolerance: float) -> None:
    size = max(float(np.max(np.abs(theirs), initial=0.0)), 1e-12)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * size)


def asked_everything(model: DeviceModel, W: np.ndarray, x: np.ndarray, v: np.ndarray, convex: bool) -> dict[str, Any]:
    kind: Any = "convex" if convex else "exact"
    here = model.partial_sums(Query(W, (x, 0.5 * x), "here", hessian=kind, diagonal=kind, step=0.01 * v, product=v))
    everywhere = model.partial_sums(Query(W, (x,), gradient="everywhere", diagonal=kind))
    return {**vars(here), "diagonal": everywhere.diagonal, "everywhere": everywhere.gradient}


def in_memory(local: Any, W: np.ndarray, x: np.ndarray, v: np.ndarray, convex: bool) -> dict[str, Any]:
    part = local.restrict(W)
    z, points = part.margins(x), (x, 0.5 * x, *(x + t * 0.01 * v for t in AHEAD))
    return {
        "values": np.array([part.value_of(part.margins(at)) for at in points]),
        "gradient": part.gradient_of(z),
        "hessian": part.hessian_of(z, convex),
        "diagonal": part.hessian_diagonal_of(z, convex),
        "product": part.hessian_product_of(z, convex)(v),
        "everywhere": local.gradient_of(z),
    }


def agree(model: DeviceModel, local: Any, tolerance: float, W: np.ndarray | None = None, seed: int = 3) -> None:
    rng = np.random.default_rng(seed)
    if W is None:
        W = np.sort(rng.choice(model.n_all, 9, replace=False))
        W = np.union1d(W, model.unpenalized)
    x, v = (rng.normal(0, 0.4, W.size * model.n_outputs) for _ in range(2))
    for convex in (True, False):
        ours, theirs = asked_everything(model, W, x, v, convex), in_memory(local, W, x, v, convex)
        for name in theirs:
            close(ours[name], theirs[name], tolerance)


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-11), (np.float32, 1e-6)], ids=["double", "single"])
def test_every_query(place: str, loss: Loss, stored: str, dtype: Any, tolerance: float) -> None:
    X, z = some_data(dtype)
    b = targets(loss, z)
    model = DeviceSource(tensor(X, stored, place), b).model(Form(loss))
    local = LinearModel(X, b, loss)
    agree(model, local, tolerance)
    np.testing.assert_allclose(model.curvature, local.curvature, rtol=1e-6)
    assert model.weak_convexity >= local.weak_convexity
    assert model.n_margins == local.n_margins


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("loss", [Logistic(), Cauchy()], ids=repr)
def test_centred_scaled_weighted_with_offset_and_intercept(place: str, stored: str, loss: Loss) -> None:
    X, z = some_data()
    rng = np.random.default_rng(5)
    b, offset = targets(loss, z), rng.normal(size=N)
    weight = np.where(rng.random(N) < 0.2, 0.0, 1e-3 * rng.random(N))
    center, scale = rng.normal(size=D), rng.uniform(0.5, 3.0, D)
    samples = DeviceSource(tensor(X, stored, place), b, weight, torch.tensor(offset, device=place))
    model = samples.model(Form(loss, True, center, scale))
    local = LinearModel(ScaledDesign(as_design(X), center, scale), b, loss, weight, offset, True)
    agree(model, local, 1e-11)
    np.testing.assert_allclose(model.first_guess(), local.first_guess(), rtol=1e-14)
    np.testing.assert_allclose(model.smoothness >= local.smoothness, True)
    np.testing.assert_array_equal(model.unpenalized, local.unpenalized)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("softmax", [True, False], ids=["softmax", "one against the rest"])
@pytest.mark.parametrize("weighted", [True, False])
def test_several_classes(place: str, stored: str, softmax: bool, weighted: bool) -> None:
    X, z = some_data()
    labels = np.array(["red", "green", "blue"])[np.digitize(z, [-0.5, 0.5])]
    rng = np.random.default_rng(2)
    weight = np.where(rng.random(N) < 0.2, 0.0, rng.random(N)) if weighted else None
    classes = np.unique(labels)
    model = DeviceSource(tensor(X, stored, place), labels, weight).model(
        Form(Logistic(), True, classes=classes, softmax=softmax)
    )
    kind: Any = MultinomialModel if softmax else OneVsRestModel
    local = kind(X, labels, sample_weight=weight, fit_intercept=True)
    agree(model, local, 1e-11)
    agree(model, local, 1e-11, np.array([0, 3, D]))  # of which all but one are kept
    x = np.zeros(model.dimension)
    x[:6] = [1.0, 0, 0, 0, -1.0, 0]
    assert model.is_separated(x) == local.is_separated(x)
    assert model.only_contrasts == softmax
    W = np.array([0, 3, D])
    part, known, x = model.restrict(W), local.restrict(W), rng.normal(0, 0.4, 9)
    bend = known.hessian_of(known.margins(x), True)
    before, after = (Point(t * x, np.linalg.inv(bend + t * np.eye(9))) for t in (1.0, 2.0))
    close(part.left_out_fall(before, after, 1 / N), known.left_out_fall(before, after, 1 / N), 1e-10)


def test_leave_one_out_losses(place: str) -> None:
    X, z = some_data()
    rng = np.random.default_rng(2)
    weight, b, W = rng.random(N), np.where(z > 0, 1.0, -1.0), np.array([1, 2, D])
    model = DeviceSource(tensor(X, "rows", place), b, weight).model(Form(Logistic(), True)).restrict(W)
    known = LinearModel(X, b, "logistic", weight, fit_intercept=True).restrict(W)
    bend = known.hessian_of(known.margins(np.ones(3)), True)
    before, after = (Point(t * np.ones(3), np.linalg.inv(bend + t * np.eye(3))) for t in (1.0, 2.0))
    close(model.left_out_fall(before, after, 1 / N), known.left_out_fall(before, after, 1 / N), 1e-10)


def test_class_weights_count(place: str) -> None:
    X, z = some_data()
    labels = np.where(z > 0, 7, 3)
    factors = np.array([0.3, 2.0])
    samples = DeviceSource(tensor(X, "rows", place), torch.tensor(labels, device=place))
    model = samples.weighted(np.array([3, 7]), factors).model(Form(Logistic(), classes=np.array([3, 7])))
    agree(model, LinearModel(X, np.sign(z), "logistic", factors[(z > 0).astype(int)]), 1e-11)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is done in several blocks, with something left over."""
    for name, size in {
        "_ADDED": 30,
        "_PARTS": 7,
        "_PASS": 90,
        "_PIECE": 1000,
        "_MEASURED": 9000,
        "_STORED": 700,
    }.items():
        monkeypatch.setattr(device, name, size)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_blocks_add_up(place: str, stored: str, dtype: Any) -> None:
    X, z = some_data(dtype)
    b = np.sign(z)
    model = DeviceSource(tensor(X, stored, place), b).model(Form(Logistic(), True))
    agree(model, LinearModel(X, b, "logistic", fit_intercept=True), 1e-11 if dtype == np.float64 else 1e-6)
    np.testing.assert_allclose(model.curvature, LinearModel(X, b, "logistic", fit_intercept=True).curvature, rtol=1e-6)


@pytest.mark.parametrize("stored", STORED)
def test_columns_are_read_once_while_they_are_needed(place: str, stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, z = some_data()
    model = DeviceSource(tensor(X, stored, place), z).model(Form(Squared(), True))
    local = LinearModel(X, z, "squared", fit_intercept=True)
    read: list[list[int]] = []
    original = DeviceDesign.gathered
    monkeypatch.setattr(DeviceDesign, "gathered", lambda own, W: (read.append(W.tolist()), original(own, W))[1])
    for W in ([1, 4, 6, 20], [4, 6, 30, D], [30], [4], [4, 6], [0, 2, 4], list(range(D + 1))):
        agree(model, local, 1e-11, np.array(W))
    assert read[0] == [1, 4, 6, 20] and read[1] == [30, D]
    assert len(read) == 4 and 4 not in read[2]


@pytest.mark.parametrize(
    ("loss", "stored"),
    [(Logistic(), "rows"), (Squared(), "columns"), (Logistic(), "csr"), (Cauchy(), "rows")],
    ids=repr,
)
def test_the_same_solution(place: str, loss: Loss, stored: str) -> None:
    X, z = some_data(n=500, d=60)
    b, constraint = targets(loss, z), MCP.from_threshold(0.3)
    local = solve(Problem(LinearModel(X, b, loss, fit_intercept=True), constraint, 6.5 * constraint.cap))
    model = DeviceSource(tensor(X, stored, place), b).model(Form(loss, True))
    found = solve(Problem(model, constraint, 6.5 * constraint.cap))
    assert found.status == local.status
    np.testing.assert_array_equal(np.flatnonzero(found.x), np.flatnonzero(local.x))
    assert abs(found.psi - local.psi) <= 1e-8 * abs(local.psi)
    close(found.x, local.x, 3e-7)
    single = DeviceSource(tensor(X.astype(np.float32), stored, place), b).model(Form(loss, True))
    rough = solve(Problem(single, constraint, 6.5 * constraint.cap), tol=1e-4)
    assert str(rough.status) == "solved"
    close(rough.x, local.x, 2e-3)


class Spy:
    """Sizes of the tensors that leave the device, however they do: each crossing is counted."""

    WAYS = ("cpu", "numpy", "item", "tolist", "__float__", "__int__", "__bool__", "__index__", "__array__")

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.depth = 0

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in (*self.WAYS, "to"):
            monkeypatch.setattr(torch.Tensor, name, self._noting(name, getattr(torch.Tensor, name)))

    def _noting(self, name: str, original: Any) -> Any:
        def noting(tensor: torch.Tensor, *args: Any, **options: Any) -> Any:
            moves = name != "to" or any(isinstance(one, str | torch.device) for one in (*args, *options.values()))
            # `.cpu().numpy()` is one crossing, and so are calls inside a method.
            if moves and self.depth == 0 and name != "numpy":
                self.sizes.append(tensor.numel())
            self.depth += 1
            try:
                out = original(tensor, *args, **options)
            finally:
                self.depth -= 1
            if name == "numpy" and self.depth == 0 and (not self.sizes or self.sizes[-1] < tensor.numel()):
                self.sizes.append(tensor.numel())
            return out

        return noting


@pytest.mark.parametrize(
    ("loss", "intercept", "stored"),
    [(Logistic(), False, "rows"), (Logistic(), True, "columns"), (Cauchy(), False, "csr"), (Cauchy(), True, "rows")],
    ids=repr,
)
def test_only_gradients_come_back(
    place: str, loss: Loss, intercept: bool, stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, d = 3000, 2500  # more than the squares of working sets
    X, z = some_data(np.float32, n=n, d=d)
    samples = DeviceSource(tensor(X, stored, place), torch.tensor(targets(loss, z), device=place))
    spy, before = Spy(), samples.transfers.bytes_to_host
    spy.watch(monkeypatch)
    model = samples.model(Form(loss, intercept))
    constraint = MCP.from_threshold(0.3)
    result = solve(Problem(model, constraint, 5.5 * constraint.cap), start="direct", tol=1e-4)
    monkeypatch.undo()
    assert str(result.status) == "solved"
    assert result.certificate.n_nonzero <= 25
    large = [size for size in spy.sizes if size >= d]
    # Sizes and means of columns come once, for the loss and for its convex start; they are no full passes.
    assert len(large) - 4 <= model.traffic.full_gradients <= len(large)
    assert max(large) <= d + 2
    # What the samples count is what has crossed, in float64 or less.
    counted = samples.transfers.bytes_to_host - before
    assert counted <= 8 * sum(spy.sizes) <= 1.2 * counted
    # One crossing back for each round, and a few more for facts.
    assert len(spy.sizes) <= model.traffic.rounds + 20


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.usefixtures("small_blocks")
def test_statistics(place: str, stored: str, weighted: bool) -> None:
    X, z = some_data()
    X[:, 3], X[:, 4] = 2.5, 0.0
    X[:, 5] += 1e6
    rng = np.random.default_rng(4)
    weight = np.where(rng.random(N) < 0.3, 0.0, rng.random(N)) if weighted else None
    labels = np.array(["a", "b", "c"])[np.digitize(z, [-1, 1])]
    for y, are_labels in ((z, False), (labels, True), (np.digitize(z, [-1, 1]) * 10, True)):
        theirs = ComputeStatistics(Squared(), are_labels)(Partition(0, as_design(X), y, weight))
        where = [y] if y.dtype.kind == "U" else [y, torch.tensor(y, device=place)]
        for given in where:
            ours = DeviceSource(tensor(X, stored, place), given, weight).statistics(Squared(), are_labels, True)
            assert ours.count == theirs.count
            np.testing.assert_allclose(ours.moments.total, theirs.moments.total, rtol=1e-14)
            np.testing.assert_allclose(ours.moments.mean, theirs.moments.mean, rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(ours.moments.scale, theirs.moments.scale, rtol=1e-9)
            np.testing.assert_array_equal(ours.classes, theirs.classes)
            np.testing.assert_allclose(ours.class_weights, theirs.class_weights, rtol=1e-13)
            np.testing.assert_allclose(ours.y_moments.mean, theirs.y_moments.mean, rtol=1e-12)
            np.testing.assert_allclose(ours.y_moments.scale, theirs.y_moments.scale, rtol=1e-12)
            np.testing.assert_allclose(ours.largest, theirs.largest, rtol=1e-15)


def test_spread_and_folds(place: str) -> None:
    X, z = some_data()
    samples = DeviceSource(tensor(X, "rows", place), z)
    assert samples.spread(N) == pytest.approx(np.mean(np.abs(z - np.sort(z)[N // 2 - 1])), rel=1e-13)
    for held_out in (False, True):
        theirs = SelectFold(1, 4, 9, held_out)(Partition(0, as_design(X), z))
        ours = samples.part(1, 4, 9, held_out)
        np.testing.assert_array_equal(namespace.Torch(place).to_host(ours.weight), theirs.weight)
        assert ours.total == theirs.total
        agree(ours.model(Form(Squared())), LinearModel(X, z, "squared", theirs.weight), 1e-11)


def test_separation_is_seen(place: str) -> None:
    X, z = some_data()
    b = np.sign(z)
    b[b == 0] = 1.0
    model = DeviceSource(tensor(np.column_stack([X, b]), "rows", place), b).model(Form(Logistic()))
    x = np.zeros(D + 1)
    x[-1] = 1.0
    assert model.is_separated(x)
    x[0] = 5.0
    assert not model.is_separated(x)


@pytest.mark.parametrize("stored", STORED)
def test_entries_that_are_no_numbers_are_named(place: str, stored: str) -> None:
    X, z = some_data()
    X[37, 11], X[300, 2] = np.nan, np.inf
    with pytest.raises(InvalidInputError, match=r"X contains NaN at row 37, column 11 \(2 in total\)"):
        DeviceSource(tensor(X, stored, place), z).statistics(Squared(), False, False)


def test_unsupported_input_is_refused(place: str) -> None:
    X, z = some_data()
    here = tensor(X, "rows", place)
    there = torch.tensor(z, device="meta")
    for bad, said in [
        (lambda: DeviceSource(X, z), "must be a tensor of torch"),
        (lambda: DeviceSource(here.half(), z), "float32 or float64"),
        (lambda: DeviceSource(here.bfloat16(), z), "float32 or float64"),
        (lambda: DeviceSource(here.to_sparse_coo(), z), "must be CSR"),
        (lambda: DeviceSource(here[0], z), "must be 2-D"),
        (lambda: DeviceSource(here, z[:-1]), "y has shape"),
        (lambda: DeviceSource(here, there), "another array is on meta"),
        (lambda: DeviceSource(here, z, -np.ones(N)), "must be nonnegative"),
        (lambda: DeviceSource(here, z, torch.tensor(z, device=place)), "nonnegative and finite, got -"),
        (lambda: DeviceSource(here, z, torch.zeros(N, device=place)), "all zero"),
        (lambda: DeviceSource(here, z, offset=np.full(N, np.nan)), "offset must be finite"),
        (lambda: DeviceSource(here, z).model(Form(Absolute())), "has kinks"),
        (lambda: DeviceSource(here, z).model(Form(Logistic())), "must be -1 or"),
        (lambda: DeviceSource(here, torch.tensor(z, device=place)).model(Form(Logistic())), r"index 0\) must be -1"),
        (lambda: DeviceSource(here, z > 0).model(Form(Logistic(), classes=np.array([5, 6]))), "among the classes"),
    ]:
        with pytest.raises(InvalidInputError, match=said):
            bad()


def test_out_of_memory_names_bytes(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, z = some_data()
    model = DeviceSource(tensor(X, "rows", place), np.sign(z)).model(Form(Logistic()))
    constraint = MCP.from_threshold(0.3)

    def full(*args: Any, **options: Any) -> Any:
        raise torch.OutOfMemoryError("no room")

    select = torch.index_select
    monkeypatch.setattr(torch, "index_select", lambda X, axis, W: full() if len(W) else select(X, axis, W))
    monkeypatch.setattr(namespace.Torch, "free_bytes", lambda self: 1234)
    with pytest.raises(
        BackendError, match=r"out of memory: .* needs about \d+ bytes more, and 1234 are free"
    ) as caught:
        solve(Problem(model, constraint, 5.5 * constraint.cap), start="direct")
    assert caught.value.result is not None
    monkeypatch.setattr(torch, "empty", full)
    with pytest.raises(BackendError, match=f"X needs about {X.nbytes} bytes more"):
        on_device(X, place)


def test_free_bytes_are_positive(place: str) -> None:
    assert namespace.Torch(place).free_bytes() > 2**20


def test_moved_or_refused(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, z = some_data()
    for given in (X, X.astype(np.float32), scipy.sparse.csr_array(X), (X > 0), torch.tensor(X)):
        moved = on_device(given, place)
        assert moved.device.type == place
        DeviceSource(moved, z).statistics(Squared(), False, True)
    assert on_device(scipy.sparse.coo_array(X), place).layout == torch.sparse_csr
    with pytest.raises(InvalidInputError, match=r"torch has no device 'cuda:77'"):
        on_device(X, "cuda:77")
    with pytest.raises(InvalidInputError, match="xp must be"):
        on_device(X, place, xp="jax")
    if "cupy" not in sys.modules:
        monkeypatch.setattr(namespace.importlib.util, "find_spec", lambda name: None)
        with pytest.raises(InvalidInputError, match="needs cupy, which is not installed"):
            on_device(X, 0, xp="cupy")


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Cupy itself where it works; else numpy under its name, so that the same code is run."""
    try:
        import cupy

        cupy.zeros(1)
        return cupy
    except Exception:
        return numpy_as_cupy(monkeypatch)


def numpy_as_cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    class Device(int):
        id = property(int)

        def __enter__(self) -> Device:
            return self

        def __exit__(self, *error: object) -> None:
            return None

    class Array(np.ndarray):
        device = Device(0)  # type: ignore[assignment]

    class Module(types.ModuleType):
        ndarray = Array

        def __getattr__(self, name: str) -> Any:
            made = getattr(np, name)
            if name not in ("zeros", "empty", "arange", "asarray"):
                return made
            return lambda *args, **options: made(*args, **options).view(Array)

    Array.__module__ = "cupy"
    module = Module("cupy")
    errors = types.SimpleNamespace(OutOfMemoryError=MemoryError)
    module.cuda = types.SimpleNamespace(Device=Device, memory=errors)  # type: ignore[attr-defined]
    module.asnumpy = np.asarray  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


@pytest.mark.parametrize("loss", [Logistic(), Cauchy()], ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_cupy_arrays(cupy: Any, loss: Loss, dtype: Any) -> None:
    X, z = some_data(dtype)
    b = targets(loss, z)
    samples = DeviceSource(cupy.asarray(X), cupy.asarray(b))
    agree(
        samples.model(Form(loss, True)),
        LinearModel(X, b, loss, fit_intercept=True),
        1e-6 if dtype == np.float32 else 1e-11,
    )
    theirs = ComputeStatistics(loss, False)(Partition(0, as_design(X), b))
    np.testing.assert_allclose(samples.statistics(loss, False, True).moments.scale, theirs.moments.scale, rtol=1e-9)


@pytest.mark.parametrize(
    ("dtype", "scale", "weighted"),
    [
        *((np.float32, scale, False) for scale in (1.0, 1e-25, 1e25, 0.0)),
        *((np.float64, scale, False) for scale in (1.0, 1e-153, 1e153, 0.0)),
        (np.float32, 1.0, True),
        (np.float64, 1.0, True),
    ],
    ids=repr,
)
@pytest.mark.usefixtures("small_blocks")
def test_squares_of_columns(place: str, dtype: Any, scale: float, weighted: bool) -> None:
    """One pass in the type of X where that serves; another way where squares leave its range."""
    X = some_data(dtype)[0]
    X[:, 3] *= dtype(scale)
    weight = np.random.default_rng(0).random(N) if weighted else np.ones(N)
    design = DeviceDesign(tensor(X, "rows", place)).formed(None, np.full(D, 2.0), True)
    found = design.namespace.to_host(design.column_squares(design.namespace.to_device(weight)))
    expected = np.append(weight @ (X.astype(np.float64) / 2) ** 2, weight.sum())
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == np.float32 else 1e-12)
    assert (design._plain_squares(design.namespace.to_device(weight)) is None) == (weighted or scale != 1.0)
