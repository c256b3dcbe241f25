"""At most k features for losses with kinks: refits against linear programs, sets against brute force."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import linprog
from threadpoolctl import threadpool_limits

from levelprox import InvalidInputError, LinearModel, Status, best_subset, losses, subset_path
from levelprox.subset import nonsmooth_refit as vertex
from tests.support.clocks import each
from tests.support.long_runs import LONG
from tests.support.subset_cases import Double, bits, searched

SEEDS = 4 if LONG else 2
KINKED = {"absolute": losses.Absolute(), "quantile": losses.Quantile(0.3), "hinge": losses.Hinge()}


@dataclass(frozen=True, eq=False)
class Kinked:
    """Data and a loss; `psi` is the minimum over some features, by a linear program."""

    X: Double
    b: Double
    loss: str
    sample_weight: Double | None = None
    offset: Double | None = None
    intercept: bool = True
    keep: tuple[int, ...] = ()
    nonnegative: bool = False

    @property
    def objective(self) -> LinearModel:
        return LinearModel(self.X, self.b, KINKED[self.loss], self.sample_weight, self.offset, self.intercept)

    def psi(self, features) -> float:
        n, chosen = self.b.size, sorted({*map(int, features), *self.keep})
        A = np.column_stack([self.X[:, chosen], *([np.ones(n)] if self.intercept else [])])
        share = np.ones(n) if self.sample_weight is None else self.sample_weight
        share, o = share / share.sum(), np.zeros(n) if self.offset is None else self.offset
        bounds = [(0 if self.nonnegative else None, None)] * len(chosen) + [(None, None)] * self.intercept
        if self.loss == "hinge":
            return linprog(
                np.concatenate([np.zeros(A.shape[1]), share]),
                A_ub=-np.column_stack([self.b[:, None] * A, np.eye(n)]),
                b_ub=self.b * o - 1,
                bounds=bounds + [(0, None)] * n,
            ).fun
        above, below = (1.0, 1.0) if self.loss == "absolute" else (0.3, 0.7)
        return linprog(
            np.concatenate([np.zeros(A.shape[1]), above * share, below * share]),
            A_eq=np.column_stack([A, np.eye(n), -np.eye(n)]),
            b_eq=self.b - o,
            bounds=bounds + [(0, None)] * (2 * n),
        ).fun

    def best(self, k: int) -> float:
        counted = [j for j in range(self.X.shape[1]) if j not in self.keep]
        return min(self.psi(chosen) for chosen in itertools.combinations(counted, k))


def kinked(loss: str, seed: int = 0, n: int = 40, d: int = 8, **options) -> Kinked:
    """Correlated columns of which the first three matter, and noise with heavy tails."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.6 * rng.standard_normal((n, 1))
    signal = X[:, :3] @ np.array([0.7, -0.56, 0.42])
    b = signal + 0.5 * rng.standard_t(2, n) if loss != "hinge" else np.sign(signal + rng.logistic(size=n))
    return Kinked(X, b, loss, **options)


def weighted(whole: Kinked) -> Kinked:
    rng, n = np.random.default_rng(1), whole.b.size
    weight = np.where(rng.random(n) < 0.1, 0.0, rng.uniform(0.2, 2, n))
    return replace(whole, sample_weight=weight, offset=0.3 * rng.standard_normal(n))


def fitted(whole: Kinked, k: int, **options):
    """A subset whose fit is the linear program's over the same features, and which is well fitted."""
    signs = {"nonnegative": True} if whole.nonnegative else {}
    found = searched(whole.objective, k, whole.keep, **signs, **options)
    assert found.psi == pytest.approx(whole.psi(found.support), rel=1e-9, abs=1e-13)
    assert found.stationarity <= 1e-8 and not (whole.nonnegative and np.any(found.x[: whole.X.shape[1]] < 0))
    return found


# --- refits


@pytest.mark.parametrize("loss", KINKED)
@pytest.mark.parametrize("seed", range(6))
def test_refits_are_as_low_as_the_linear_program(loss, seed):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(10, 150)), int(rng.integers(1, 8))
    whole = weighted(kinked(loss, seed, n, max(m, 3), intercept=bool(seed % 2), nonnegative=seed % 3 == 0))
    model = whole.objective
    columns = [model.moved(unit) for unit in np.eye(model.dimension)]
    signs = np.arange(model.dimension) < whole.X.shape[1] if whole.nonnegative else np.zeros(model.dimension, bool)
    for near in (np.zeros(model.dimension), rng.standard_normal(model.dimension), np.full(model.dimension, 1e6)):
        found = vertex.exact_fit(model, columns, signs, near)
        value = model.value_and_gradient(found.x)[0]
        assert value == pytest.approx(whole.psi(range(whole.X.shape[1])), rel=1e-10)
        assert np.all(found.x[signs] >= 0)
        low, high = model.loss.slopes(model.target)
        assert np.all((found.slopes[0] >= low - 1e-12) & (found.slopes[0] <= high + 1e-12) | (whole.sample_weight == 0))
        share = whole.sample_weight / whole.sample_weight.sum()
        gradient = model.design.rmatvec(share * found.slopes[0])
        assert np.all(np.abs(gradient[~signs]) <= 1e-9) and np.all(gradient[signs] >= -1e-9)


@pytest.mark.parametrize("loss", KINKED)
def test_ties_and_dependent_columns_do_not_hold_refits_up(loss):
    """Few different values: many margins meet their kinks at once. And columns that say the same twice."""
    rng = np.random.default_rng(0)
    X = rng.integers(-1, 2, (120, 4)).astype(float)
    X = np.column_stack([X, X[:, 0], X[:, 1] - X[:, 2], np.ones(120), np.zeros(120)])
    b = np.sign(X[:, 0] + rng.integers(-2, 3, 120) + 0.5) if loss == "hinge" else rng.integers(0, 4, 120).astype(float)
    for k in (1, 3, 8):
        fitted(Kinked(X, b, loss), k)


@pytest.mark.parametrize("loss", KINKED)
def test_units_do_not_matter(loss):
    whole = kinked(loss, 1)
    expected = fitted(whole, 3)
    for spread in (3, 8):
        scale = 10.0 ** np.linspace(-spread, spread, 8)
        found = searched(replace(whole, X=whole.X * scale).objective, 3)
        assert found.psi == pytest.approx(whole.psi(found.support), rel=1e-9)
        assert np.array_equal(found.support, expected.support)


# --- sets


@pytest.mark.parametrize("loss", KINKED)
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_best_of_all_sets_is_found(loss, k, seed):
    """On these data always; in general it is a set that no swap improves."""
    whole = kinked(loss, seed)
    found = fitted(whole, k)
    assert found.psi == pytest.approx(whole.best(k), rel=1e-9)
    assert found.swaps.proved and found.support.size == k
    rest = [j for j in range(8) if j not in found.support]
    gain = found.psi - min(whole.psi([*found.support, j]) for j in rest)
    assert found.multiplier == pytest.approx(gain, rel=0.2, abs=1e-9) and found.multiplier <= gain + 1e-9


@pytest.mark.parametrize("loss", KINKED)
@pytest.mark.parametrize("special", ["weighted", "signs", "kept", "no intercept"])
def test_weights_signs_kept_features_and_no_intercept(loss, special):
    whole = kinked(loss, 2)
    whole = {
        "weighted": weighted(whole),
        "signs": replace(whole, nonnegative=True),
        "kept": replace(whole, keep=(4, 6)),
        "no intercept": replace(whole, intercept=False),
    }[special]
    found = fitted(whole, 2)
    assert found.psi == pytest.approx(whole.best(2), rel=1e-9)
    assert special != "kept" or np.all(found.x[[4, 6]] != 0)


@pytest.mark.parametrize("loss", KINKED)
def test_proofs_are_true(loss):
    whole = kinked(loss, 3, n=20, d=12)
    some, every = fitted(whole, 3), fitted(whole, 3, prove=True)
    assert 20 <= some.swaps.examined <= some.swaps.total == 27 and every.swaps.proved
    for i, j in itertools.product(every.support, set(range(12)) - {*every.support.tolist()}):
        assert whole.psi({*every.support.tolist(), j} - {i}) >= every.psi * (1 - 1e-9)


@pytest.mark.parametrize("loss", KINKED)
def test_no_feature_and_all_features(loss):
    whole = kinked(loss, n=30, d=4)
    nothing = fitted(whole, 0)
    assert nothing.support.size == 0 and nothing.multiplier > 0 and nothing.addition is not None
    for k in (4, 9):
        everything = fitted(whole, k)
        assert everything.multiplier == 0 and everything.swaps.proved
        assert everything.psi == pytest.approx(whole.psi(range(4)), rel=1e-9)


@pytest.mark.parametrize("loss", KINKED)
def test_a_weight_of_two_is_a_repeated_sample(loss):
    whole = kinked(loss, 4)
    weight = np.where(np.arange(40) < 10, 2.0, 1.0)
    twice = replace(whole, X=np.vstack([whole.X, whole.X[:10]]), b=np.append(whole.b, whole.b[:10]))
    first, second = fitted(replace(whole, sample_weight=weight), 3), fitted(twice, 3)
    assert np.array_equal(first.support, second.support) and first.psi == pytest.approx(second.psi, rel=1e-9)


def test_perfect_fits_leave_nothing_to_gain():
    X = np.random.default_rng(0).standard_normal((30, 12))
    for b, loss in ((X[:, [2, 5]] @ [1.0, -2.0], "absolute"), (np.sign(X[:, 2] - 2 * X[:, 5]), "hinge")):
        found = searched(LinearModel(X, b, loss), 3)
        assert {2, 5} <= set(found.support.tolist()) and found.psi <= 1e-12 and found.swaps.proved
        assert found.status is Status.SOLVED and found.multiplier == 0


# --- limits


@pytest.mark.parametrize("loss", KINKED)
def test_the_same_bits_with_any_other_options(loss):
    whole = kinked(loss, n=40, d=9)
    objective = whole.objective
    first, records = bits(best_subset(objective, 3)), []
    best_subset(objective, 5)
    with threadpool_limits(1):
        assert bits(best_subset(objective, 3, callback=records.append)) == first
    assert {record.phase for record in records} == {"forward", "continuation", "exchanges", "proof"}
    values = [record.psi for record in records]
    assert values == sorted(values, reverse=True) and values[-1] == pytest.approx(first[1], rel=1e-12)
    path = subset_path(objective, [3, 5])
    assert path.losses[0] == first[1]


def test_every_storage_gives_the_same_set():
    whole = kinked("hinge", 5)
    X = np.where(np.abs(whole.X) > 0.5, whole.X, 0.0)
    expected = fitted(replace(whole, X=X), 3)
    for storage in (scipy.sparse.csr_array, scipy.sparse.csc_array, np.asfortranarray):
        found = searched(LinearModel(storage(X), whole.b, "hinge", fit_intercept=True), 3)
        assert np.array_equal(found.support, expected.support) and found.psi == pytest.approx(expected.psi, rel=1e-10)


def test_starts_limits_and_callbacks():
    whole = kinked("absolute", 6, n=40, d=14)
    cold = fitted(whole, 4)
    warm = fitted(whole, 4, start=cold.support)
    assert np.array_equal(warm.support, cold.support) and warm.n_grad < cold.n_grad
    for start in ([], [11], range(14), [10, 11, 12, 13]):
        assert fitted(whole, 4, start=list(start)).status is Status.SOLVED
    limited = fitted(whole, 4, start=[10, 11, 12, 13], max_iter=0)
    assert limited.status is Status.MAX_ITER and limited.support.tolist() == [10, 11, 12, 13]
    calls = []
    stopped = searched(whole.objective, 4, callback=lambda record: calls.append(record) or len(calls) == 6)
    assert stopped.status is Status.CALLBACK_STOP and len(calls) == 6
    with pytest.raises(TimeoutError, match="mine"):
        best_subset(whole.objective, 4, callback=lambda record: (_ for _ in ()).throw(TimeoutError("mine")))


@pytest.mark.usefixtures("processor_clock")
@pytest.mark.parametrize("limit", [0.0, 0.05, 0.4])
def test_the_time_limit_is_kept(limit):
    whole = kinked("hinge", n=3000, d=400)
    found = searched(whole.objective, 30, time_limit=limit, callback=each(0.02))
    assert found.status is Status.TIME_LIMIT and found.wall_s <= limit + 0.5
    assert found.support.size > 0 or limit < 0.4


def test_oracles_are_refused():
    with pytest.raises(InvalidInputError, match="best_subset needs a LinearModel or MultinomialModel; for others"):
        best_subset(object(), 2)


@pytest.mark.parametrize("loss", KINKED)
def test_no_feature_may_be_chosen_whatever_they_cost(loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 5))
    b = np.where(X[:, 0] + rng.standard_normal(30) > 0, 1.0, -1.0)
    found = best_subset(LinearModel(X, b, KINKED[loss], fit_intercept=True), 0, feature_cost=np.ones(5), budget=4)
    assert found.status is Status.SOLVED and not found.support.size
