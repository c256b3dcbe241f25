"""Claims of best_subset for losses with kinks against linear programs: every set of k features of a few, enumerated.

One linear program refits many sets at once. Its dual has one variable per sample and one row per column, and the blocks
of different sets are independent. The value of a set is ψ at the primal point of its block, so it is never too low.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import linprog

from levelprox import LinearModel, OneVsRestModel, Status, Subset, best_subset, losses
from levelprox.subset import nonsmooth_refit, nonsmooth_search
from levelprox.subset import nonsmooth_refit as vertex
from tests.support.long_runs import LONG

PROBLEMS = 6000 if LONG else 300
BLOCK = 2  # problems per test
TOLERANCE = 1e-7  # of the loss without features
KINDS = ["dense", "rare", "twins", "units", "offset", "powers", "ties", "exact", "nearly exact"]


@dataclass(frozen=True, eq=False)
class Problem:
    """Data, a loss with kinks and the budget; `psi` is the minimum over each of some sets of features."""

    X: np.ndarray
    b: np.ndarray
    loss: losses.Loss
    k: int
    sample_weight: np.ndarray | None = None
    intercept: bool = True
    keep: tuple[int, ...] = ()
    nonnegative: bool = False
    known: dict[tuple[int, ...], float] = field(default_factory=dict, repr=False)

    @property
    def objective(self) -> LinearModel | OneVsRestModel:
        options = {"sample_weight": self.sample_weight, "fit_intercept": self.intercept}
        kind = OneVsRestModel if self.b.dtype.kind == "i" else LinearModel
        return kind(self.X, self.b, self.loss, **options)

    @property
    def counted(self) -> list[int]:
        return [j for j in range(self.X.shape[1]) if j not in self.keep]

    def psi(self, features) -> float:
        return self.psis([features])[0]

    def psis(self, sets) -> list[float]:
        """The minimum of ψ over each set, kept features and intercept included."""
        keys = [tuple(sorted({*map(int, features), *self.keep})) for features in sets]
        missing = [key for key in dict.fromkeys(keys) if key not in self.known]
        if missing:
            targets = [self.b] if self.b.dtype.kind != "i" else [np.where(self.b == c, 1.0, -1.0) for c in set(self.b)]
            values = np.sum([self._minima(missing, b) for b in targets], axis=0)
            self.known.update(zip(missing, values.tolist(), strict=True))
        return [self.known[key] for key in keys]

    def _minima(self, keys, b) -> np.ndarray:
        share = np.ones(b.size) if self.sample_weight is None else self.sample_weight
        rows = share > 0
        b, share = b[rows], share[rows] / share.sum()
        low, high = self.loss.slopes(b)
        designs = [self._design(key, rows) for key in keys]
        free = np.concatenate([np.zeros(0, bool), *(free for _, free in designs)])
        G = scipy.sparse.block_diag([A.T for A, _ in designs], format="csr")
        unit = np.mean(np.abs(b - np.mean(b))) or 1.0
        cost = np.tile(b / unit, len(keys))
        bounds = np.tile(np.column_stack([low, high]) * (share / share.mean())[:, None], (len(keys), 1))
        if not G.shape[0]:
            x = np.zeros(0)
        else:
            # A column of a coefficient that must not be negative has A'u >= 0, the others A'u = 0.
            equal = {"A_eq": G[free], "b_eq": np.zeros(np.count_nonzero(free))} if np.any(free) else {}
            above = {"A_ub": -G[~free], "b_ub": np.zeros(np.count_nonzero(~free))} if np.any(~free) else {}
            found = linprog(cost, **equal, **above, bounds=bounds, method="highs")
            assert found.status == 0, found.message
            x = np.zeros(G.shape[0])
            x[free] = found.eqlin.marginals if np.any(free) else 0.0
            x[~free] = np.maximum(-found.ineqlin.marginals, 0.0) if np.any(~free) else 0.0
        values, place = [], 0
        for A, _ in designs:
            s = A @ (unit * x[place : place + A.shape[1]]) - b
            values.append(float(np.sum(share * np.maximum(low * s, high * s))))
            place += A.shape[1]
        return np.array(values)

    def _design(self, key, rows) -> tuple[np.ndarray, np.ndarray]:
        """Columns that span those of a set, of norm 1, and which coefficients have any sign."""
        A = self.X[rows][:, list(key)]
        ones = np.ones((A.shape[0], int(self.intercept)))
        if self.intercept and A.size:
            A = A - A.mean(axis=0)
            A = A - A.mean(axis=0)
        norm = np.sqrt(np.sum(A**2, axis=0))
        A = A / np.where(norm > 1e-14 * np.sqrt(np.sum(self.X[rows][:, list(key)] ** 2, axis=0)), norm, np.inf)
        if self.nonnegative:
            return np.column_stack([A, ones]), np.arange(A.shape[1] + ones.shape[1]) >= A.shape[1]
        U, sizes, _ = np.linalg.svd(A, full_matrices=False)
        A = np.column_stack([U[:, sizes > 1e-12], ones])
        return A, np.ones(A.shape[1], bool)

    def swapped(self, support) -> list[list[int]]:
        outside = [j for j in self.counted if j not in support]
        return [[j, *(other for other in support if other != i)] for i, j in itertools.product(support, outside)]

    def extended(self, support) -> list[list[int]]:
        return [[*support, j] for j in self.counted if j not in support]


def problem(seed: int) -> Problem:
    """A small problem of one of the kinds that searches have failed on."""
    rng = np.random.default_rng(seed)
    kind, name = KINDS[seed % len(KINDS)], ("absolute", "quantile", "hinge", "classes")[seed // len(KINDS) % 4]
    n, d = int(rng.choice([5, 8, 12, 20, 40])), int(rng.integers(2, 7))
    X = rng.standard_normal((n, d))
    truth = rng.choice([0.0, 3.0, -3.0, 0.5], d)
    if kind == "rare":
        X = (rng.random((n, d)) < 2 / n) * rng.choice([1.0, rng.standard_normal()])
    if kind == "powers":
        X[:, :3] = rng.integers(1950, 2020, n)[:, None].astype(float) ** np.arange(1, min(d, 3) + 1)
        X[:, :3] *= 10.0 ** -rng.integers(0, 6)
        truth[:3] = truth[:3] / np.std(X[:, :3], axis=0)
    if kind == "ties":
        X = rng.integers(-1, 2, (n, d)).astype(float)
    signal = X @ truth
    if kind == "twins":
        apart = 10.0 ** rng.integers(-7, -2)
        X[:, 1::2] = X[:, : 2 * (d // 2) : 2] + apart * X[:, 1::2]
        signal = X[:, 0] + rng.choice([0.0, 1.0]) * (X[:, 1] - X[:, 0]) / apart
    if kind == "units":
        X = X * 10.0 ** rng.integers(-8, 9, d)
    if kind == "offset":
        X = X + 10.0 ** rng.integers(3, 7, d)
    noise = {"exact": 0.0, "nearly exact": 1e-12}.get(kind, 0.3)
    b = signal + noise * rng.standard_normal(n)
    if kind == "ties":
        b = np.round(b)
    if name == "hinge":
        b = np.where(b > np.median(b), 1.0, -1.0)
        b[rng.random(n) < 0.1 * (noise > 1e-9)] *= -1
    if name == "classes":
        b = np.digitize(b, np.quantile(b, [0.3, 0.7]))
        b[:3] = [0, 1, 2]
    loss = {"absolute": losses.Absolute(), "quantile": losses.Quantile(float(rng.choice([0.1, 0.5, 0.9])))}
    weight = None
    if rng.random() < 0.25:
        weight = np.where(rng.random(n) < 0.2, 0.0, rng.uniform(0.1, 3, n))
        weight[:3] = 1.0
    return Problem(
        X,
        b,
        loss.get(name, losses.Hinge()),
        int(rng.integers(1, d + (rng.random() < 0.1) + 1)),
        weight,
        intercept=bool(rng.random() < 0.8),
        keep=(int(rng.integers(d)),) if rng.random() < 0.15 else (),
        nonnegative=bool(rng.random() < 0.2) and name != "classes",
    )


def searched(whole: Problem) -> Subset:
    signs = {"nonnegative": np.arange(whole.objective.dimension) < whole.X.shape[1]} if whole.nonnegative else {}
    return best_subset(whole.objective, whole.k, keep=list(whole.keep) or None, **signs)


def complaints(whole: Problem, found: Subset) -> list[str]:
    """What is not true of an answer."""
    support = found.support.tolist()
    whole.psis([[], support, *whole.extended(support), *whole.swapped(support)])  # in one linear program
    small = TOLERANCE * whole.psi([]) + 1e-13 * float(np.mean(np.abs(whole.b)))
    wrong = []
    if found.status is not Status.SOLVED:
        wrong.append(f"status {found.status}")
    if len(support) > whole.k or (whole.nonnegative and np.any(found.x[: whole.X.shape[1]] < 0)):
        wrong.append(f"support {support}, x {found.x}")
    if abs(found.psi - whole.psi(support)) > small:
        wrong.append(f"psi {found.psi}, but {whole.psi(support)} over its features")
    gain = max([found.psi - value for value in whole.psis(whole.extended(support))], default=0.0)
    if len(support) < whole.k and gain > small:
        wrong.append(f"{len(support)} features of {whole.k}, and one more gains {gain}")
    if abs(found.multiplier - max(gain, 0.0)) > small:
        wrong.append(f"one more gains {gain}, not {found.multiplier}")
    if found.swaps.proved and support:
        best = min(whole.psis(whole.swapped(support)), default=found.psi)
        if best < found.psi - small:
            wrong.append(f"a swap lowers psi from {found.psi} to {best}")
    if not found.swaps.proved:
        wrong.append(f"only {found.swaps}")
    return wrong


def is_best(whole: Problem, found: Subset) -> bool:
    """Whether no set of k features is better."""
    sets = itertools.combinations(whole.counted, min(whole.k, len(whole.counted)))
    return found.psi <= min(whole.psis(list(sets))) + TOLERANCE * whole.psi([]) + 1e-13


def failures(seeds) -> dict[int, list[str]]:
    wrong = {seed: complaints(whole, searched(whole)) for seed in seeds for whole in [problem(seed)]}
    return {seed: text for seed, text in wrong.items() if text}


@pytest.mark.parametrize("first", range(0, PROBLEMS, BLOCK))
def test_claims_are_true(first):
    """All sets of k features are refitted on most of these problems, so the answer is also the best of them."""
    assert not failures(range(first, first + BLOCK))


@pytest.mark.parametrize("seed", range(PROBLEMS // 15))
def test_claims_are_true_where_sets_are_not_enumerated(seed, monkeypatch):
    monkeypatch.setattr(nonsmooth_search, "_ENUMERATED_REFITS", 0)
    whole = problem(10**6 + seed)
    found = searched(whole)
    assert not complaints(whole, found)
    assert is_best(whole, found)  # on these problems; in general no swap improves it


# --- refits


def refitted(whole: Problem, features, seconds_left=lambda: np.inf) -> vertex.Vertex:
    """Refit some features without a search; one class only."""
    model, d = whole.objective, whole.X.shape[1]
    places = [*sorted({*features, *whole.keep}), *([d] if whole.intercept else [])]
    columns = [model.moved(np.eye(model.dimension)[j]) for j in places]
    signs = np.array([whole.nonnegative and j < d for j in places], bool)
    return vertex.exact_fit(model, columns, signs, np.zeros(len(places)), seconds_left)


def one_class(seed: int) -> tuple[Problem, list[list[int]]]:
    """A problem with one margin per sample, and some sets of its features."""
    whole = problem(seed)
    rng = np.random.default_rng(seed)
    sets = [sorted(rng.permutation(whole.counted)[:size].tolist()) for size in range(len(whole.counted) + 1)]
    return whole, sets if whole.b.dtype.kind != "i" else []


@pytest.mark.parametrize("first", range(0, PROBLEMS // 3, BLOCK))
def test_errors_of_refits_and_costs_of_removal_are_bounded(first):
    for seed in range(first, first + BLOCK):
        whole, sets = one_class(seed)
        small = TOLERANCE * whole.psi([]) + 1e-13
        for features, least in zip(sets, whole.psis(sets), strict=True):
            found = refitted(whole, features)
            assert abs(found.psi - least) <= small
            assert found.error <= 3 * small
            for place, j in enumerate(sorted({*features, *whole.keep})):
                if j in features:
                    without = whole.psi([other for other in features if other != j])
                    assert found.psi + found.removal[place] <= without + small


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_refits_that_are_cut_short_say_by_how_much_they_miss(seed):
    whole, sets = one_class(seed)
    for features in sets:
        for edges in (1, 3):
            left = iter([1.0] * (edges + len(features) + 2))
            found = refitted(whole, features, lambda left=left: next(left, 0.0))
            assert found.psi - whole.psi(features) <= found.error + TOLERANCE * whole.psi([])


@pytest.mark.cpu_budget(10, "linear programs of twenty problems")
def test_a_linear_program_helps_where_edges_lead_nowhere(monkeypatch):
    """Without any step along edges nearly all refits are exact, and those that are not say so."""
    monkeypatch.setattr(nonsmooth_refit, "_LEAST_EDGES", 0)
    monkeypatch.setattr(nonsmooth_refit, "_EDGES_PER_FEATURE", 0)
    monkeypatch.setattr(vertex, "_PROGRAM_SECONDS", 60.0)  # of a machine that may be busy
    helped = []
    for seed in range(0, 60, 3):
        whole, sets = one_class(seed)
        for features in sets:
            found = refitted(whole, features)
            assert found.psi - whole.psi(features) <= found.error + 1e-9 * whole.psi([])
            helped.append(found.error <= 1e-6 * whole.psi([]) + 1e-12)
    assert np.mean(helped) >= 0.9


def test_no_claim_rests_on_a_refit_that_was_not_checked(monkeypatch):
    """Refits that end at their first vertex, without a linear program, show nothing."""
    monkeypatch.setattr(nonsmooth_refit, "_LEAST_EDGES", 1)
    monkeypatch.setattr(nonsmooth_refit, "_EDGES_PER_FEATURE", 0)
    monkeypatch.setattr(vertex, "_PROGRAM_ENTRIES", 0)
    for seed in range(0, 40, 3):
        whole = problem(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = searched(whole)
        support = found.support.tolist()
        best = min(whole.psis(whole.swapped(support)), default=found.psi)
        assert best >= found.psi - 1e-6 * whole.psi([]) - 1e-12 or not found.swaps.proved


def test_a_set_that_comes_twice_ends_the_search(monkeypatch):
    """Two sets of which each seems better than the other, as if rounding decided."""

    def alternate(search):
        other = [0, 1] if 2 in search.best.features else [2, 3]
        fit = search._fitted(np.array([*other, 4]), search.best)
        return replace(fit, psi=0.99 * search.best.psi), 0, 0, 0.0, None

    monkeypatch.setattr(nonsmooth_search.NonsmoothSearch, "_examine", alternate)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    found = best_subset(LinearModel(X, y, "absolute", None, None, True), 2)
    assert found.swaps.examined == 0 and np.isnan(found.multiplier)


LARGE_MEANS = np.array([109892.43906486, 17649.09650487, 66588.52598387]) + np.array(
    [
        [0, 0, 0],
        [-5, -1.2, -7],
        [-2, -1.1, -9],
        [-3, -1, -7],
        [-6, -0.7, -1],
        [-4, -1, -6],
        [-4, -0.5, -1],
        [-7, -0.8, -1],
    ]
)


def test_a_column_that_others_span_does_not_cost_digits():
    columns = [*LARGE_MEANS.T, np.ones(8)]
    for seed in range(20):
        b = np.random.default_rng(seed).standard_normal(8) / 30
        objective = LinearModel(LARGE_MEANS, b, "absolute", fit_intercept=True)
        # One column less: the third is ten times the second less the first, and a constant.
        fewer = vertex.exact_fit(objective, [*columns[:2], columns[3]], np.zeros(3, np.bool_), np.zeros(3))
        found = vertex.exact_fit(objective, columns, np.zeros(4, np.bool_), np.zeros(4))
        assert found.psi <= fewer.psi + 1e-9
        assert abs(found.psi - np.mean(np.abs(found.margins - b))) <= 1e-12
        assert found.rounding <= 1e-9
        assert found.error <= found.psi + found.rounding
