"""Small tables of data, and what is true of their subsets by brute force: every set refitted in plain NumPy."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from levelprox import LinearModel, MultinomialModel, Problem, Status, Subset, best_subset
from levelprox.constraints import MCP
from levelprox.exceptions import ConvergenceWarning
from levelprox.objectives import Model
from levelprox.result import CUT_SHORT
from levelprox.subset.fit import Fit

Double = NDArray[np.float64]

LOSSES = ["squared", "logistic", "poisson", "gamma", "multinomial"]

# ℓ, ℓ' and ℓ'' as in the docstrings of the losses.
DERIVATIVES = {
    "squared": lambda z, b: ((b - z) ** 2, 2 * (z - b), np.full_like(z, 2.0)),
    "logistic": lambda z, b: (
        np.logaddexp(0, -b * z),
        -b / (1 + np.exp(b * z)),
        1 / (2 + np.exp(z) + np.exp(-z)),
    ),
    "poisson": lambda z, b: (np.exp(z) - b * z, np.exp(z) - b, np.exp(z)),
    "gamma": lambda z, b: (z + b * np.exp(-z), 1 - b * np.exp(-z), b * np.exp(-z)),
}


def softmax_derivatives(Z: Double, label: NDArray[np.intp]) -> tuple[Double, Double, Double]:
    P = np.exp(Z - Z.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    rows = np.arange(label.size)
    slope = P.copy()
    slope[rows, label] -= 1
    return -np.log(P[rows, label]), slope, P[:, :, None] * np.eye(Z.shape[1]) - P[:, :, None] * P[:, None, :]


@dataclass(frozen=True, eq=False)
class Table:
    """Data and a loss; `refit` is the minimum of ψ over some features, by damped Newton steps on whole matrices."""

    X: Double
    b: NDArray
    loss: str = "squared"
    sample_weight: Double | None = None
    offset: Double | None = None
    intercept: bool = False
    keep: tuple[int, ...] = ()
    known: dict[tuple[int, ...], tuple[Double, float]] = field(default_factory=dict, repr=False)

    @property
    def objective(self) -> LinearModel | MultinomialModel:
        options = {"sample_weight": self.sample_weight, "offset": self.offset, "fit_intercept": self.intercept}
        if self.loss == "multinomial":
            return MultinomialModel(self.X, self.b, **options)
        return LinearModel(self.X, self.b, self.loss, **options)

    @property
    def problem(self) -> Problem:
        objective = self.objective
        weights = np.ones(objective.dimension // objective.n_outputs)
        weights[list(self.keep)] = 0.0
        return Problem(objective, MCP.from_threshold(1.0), 1.5, weights)

    @property
    def columns(self) -> Double:
        X = np.asarray(self.X, np.float64)
        return np.column_stack([X, np.ones(X.shape[0])]) if self.intercept else X

    @property
    def unpenalized(self) -> tuple[int, ...]:
        return (*self.keep, *([self.X.shape[1]] if self.intercept else []))

    @property
    def counted(self) -> list[int]:
        return [j for j in range(self.X.shape[1]) if j not in self.keep]

    @property
    def n_outputs(self) -> int:
        return len(set(self.b)) if self.loss == "multinomial" else 1

    def refit(self, features) -> tuple[Double, float]:
        """Coefficients, one row for each feature of the sorted set with the unpenalized ones, and ψ."""
        chosen = tuple(sorted({*map(int, features), *self.unpenalized}))
        if chosen not in self.known:
            with np.errstate(over="ignore"):  # far out, where data are separable
                self.known[chosen] = self._newton(self.columns[:, chosen])
        return self.known[chosen]

    def psi(self, features) -> float:
        return self.refit(features)[1]

    def fit(self, features) -> Fit:
        """The same as what the library calls a fit."""
        chosen = np.array(sorted({*map(int, features), *self.unpenalized}), np.intp)
        x, psi = self.refit(chosen)
        z = self.columns[:, chosen] @ x + self._offset()
        return Fit(chosen, x.ravel(), psi, z if self.n_outputs > 1 else z[:, 0])

    def best(self, k: int) -> tuple[tuple[int, ...], float]:
        """The best of all sets of k features."""
        sets = itertools.combinations(self.counted, min(k, len(self.counted)))
        return min(((chosen, self.psi(chosen)) for chosen in sets), key=lambda pair: pair[1])

    def _offset(self) -> Double:
        n = self.X.shape[0]
        return np.zeros((n, self.n_outputs)) if self.offset is None else np.reshape(self.offset, (n, self.n_outputs))

    def _derivatives(self, Z: Double) -> tuple[Double, Double, Double]:
        if self.loss == "multinomial":
            return softmax_derivatives(Z, np.unique(self.b, return_inverse=True)[1])
        value, slope, bend = DERIVATIVES[self.loss](Z[:, 0], self.b)
        return value, slope[:, None], bend[:, None, None]

    def _hessian(self, A: Double, bend: Double) -> Double:
        """Σ_i (a_i a_i') ⊗ bend_i, block by block."""
        m, n_outputs = A.shape[1], self.n_outputs
        hessian = np.empty((m, n_outputs, m, n_outputs))
        for a, b in itertools.product(range(n_outputs), repeat=2):
            hessian[:, a, :, b] = (A.T * bend[:, a, b]) @ A
        return hessian.reshape(m * n_outputs, m * n_outputs)

    def _newton(self, A: Double) -> tuple[Double, float]:
        s = np.ones(A.shape[0]) if self.sample_weight is None else self.sample_weight
        s, x = s / s.sum(), np.zeros((A.shape[1], self.n_outputs))
        for _ in range(100):
            Z = A @ x + self._offset()
            value, slope, bend = self._derivatives(Z)
            psi, gradient = s @ value, A.T @ (s[:, None] * slope)
            hessian = self._hessian(A, s[:, None, None] * bend)
            step = -np.linalg.lstsq(hessian, gradient.ravel(), rcond=1e-12)[0].reshape(x.shape)
            falls, t = -np.sum(step * gradient), 1.0
            while t > 1e-6 and not s @ self._derivatives(Z + t * (A @ step))[0] <= psi - 1e-4 * t * falls:
                t /= 2
            if t <= 1e-6 or falls <= 1e-16 * abs(psi):
                return x, float(psi)
            x = x + t * step
        return x, float(psi)


def table(loss: str = "squared", seed: int = 0, n: int = 60, d: int = 8, size: float = 0.7, **options) -> Table:
    """Correlated columns, of which the first three matter; `size` says how much."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.6 * rng.standard_normal((n, 1))
    signal = X[:, :3] @ (size * np.array([1.0, -0.8, 0.6])[: min(3, d)])
    return Table(X, _target(loss, signal, rng), loss, **options)


def _target(loss: str, signal: Double, rng: np.random.Generator) -> NDArray:
    if loss == "squared":
        return signal + 0.5 * rng.standard_normal(signal.size)
    if loss == "logistic":
        b = np.sign(signal + rng.logistic(size=signal.size))
        b[:2] = 1.0, -1.0
        return b
    if loss == "poisson":
        return rng.poisson(np.exp(np.clip(signal, -3, 3))).astype(float)
    if loss == "gamma":
        return rng.gamma(2.0, np.exp(np.clip(signal, -3, 3)) / 2) + 1e-3
    label = np.digitize(signal + rng.logistic(size=signal.size), [-0.7, 0.7])
    label[:3] = 0, 1, 2
    return label


def weighted(whole: Table, seed: int = 1) -> Table:
    """With sample weights, some of them 0, and offsets."""
    rng = np.random.default_rng(seed)
    n = whole.X.shape[0]
    weight = np.where(rng.random(n) < 0.1, 0.0, rng.uniform(0.2, 2, n))
    offset = 0.3 * rng.standard_normal((n, whole.n_outputs) if whole.n_outputs > 1 else n)
    return replace(whole, sample_weight=weight, offset=offset, known={})


# --- what is promised of every subset


def check_subset(found: Subset, objective: Model, k: int, kept=()) -> Subset:
    """What is promised for all data."""
    n_outputs, unpenalized = objective.n_outputs, {*map(int, kept), *objective.unpenalized.tolist()}
    sizes = np.abs(found.x).reshape(-1, n_outputs).max(axis=1)
    counted = np.array([j for j in np.flatnonzero(sizes) if j not in unpenalized], int)
    assert np.array_equal(found.support, counted) and counted.size <= k == found.k
    assert np.all(np.isfinite(found.x))
    assert found.psi == objective.value_and_gradient(found.x)[0]
    assert 0 <= found.swaps.examined <= found.swaps.total
    assert found.swaps.proved == (found.swaps.examined == found.swaps.total)
    if np.isnan(found.multiplier):  # not examined
        assert found.status in CUT_SHORT and found.addition is None
    else:
        assert found.multiplier >= 0 and (found.addition is None) == (found.multiplier == 0)
    assert found.addition is None or (sizes[found.addition] == 0 and found.addition not in unpenalized)
    assert (
        found.success == (found.status in (Status.SOLVED, Status.CALLBACK_STOP)) and str(found.swaps) in found.message
    )
    return found


def searched(objective: Model, k: int, kept=(), **options) -> Subset:
    """The subset, checked, with one warning if it is not as requested, and none if it is."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = best_subset(objective, k, **({"keep": list(kept)} if kept else {}), **options)
    separated = objective.is_separated(found.x)
    short = found.status not in (Status.SOLVED, Status.CALLBACK_STOP, Status.INTERRUPTED)
    assert [(w.category, str(w.message)) for w in caught] == [(ConvergenceWarning, found.message)] * (
        short or separated
    )
    assert not (separated and found.status is Status.SOLVED) and (separated or found.status is not Status.DIVERGING)
    assert separated == ("The data are separable" in found.message)
    assert all(w.filename == __file__ for w in caught)
    return check_subset(found, objective, k, kept)


def solved(whole: Table, k: int, **options) -> Subset:
    """The subset of a table, which must be found and be well fitted."""
    keep = {"keep": list(whole.keep)} if whole.keep else {}
    found = check_subset(best_subset(whole.objective, k, **keep, **options), whole.objective, k, whole.keep)
    assert found.status is Status.SOLVED and found.stationarity <= 1e-6
    return found


def bits(found: Subset) -> tuple[object, ...]:
    """All that must be the same in two runs."""
    return found.x.tobytes(), found.psi, found.multiplier, found.addition, found.swaps, found.n_refits, found.n_grad
