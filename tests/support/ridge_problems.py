"""Small problems with a ridge, and refits of them that share no code with levelprox."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from levelprox import LinearModel, MultinomialModel
from levelprox.losses import Huber
from levelprox.objectives import OneVsRestModel
from tests.support.independent_losses import loss_bend, loss_majorant, loss_slope, loss_value

Double = NDArray[np.float64]

LOSSES = ("squared", "logistic", "poisson", "gamma", "huber", "squared_hinge", "multinomial", "one_vs_rest")
_DELTA = 1.35


@dataclass(frozen=True, eq=False)
class RidgeCase:
    """One problem: ψ(x) + Σ_j r_j ‖x_j‖², at most k features."""

    loss: str
    X: Double
    b: NDArray[Any]
    weight: Double | None
    intercept: bool
    ridge: Double
    k: int
    nonnegative: bool = False

    @property
    def objective(self) -> Any:
        options = {"sample_weight": self.weight, "fit_intercept": self.intercept, "ridge": self.ridge}
        if self.loss == "multinomial":
            return MultinomialModel(self.X, self.b, **options)
        if self.loss == "one_vs_rest":
            return OneVsRestModel(self.X, self.b, "logistic", **options)
        return LinearModel(self.X, self.b, Huber(_DELTA) if self.loss == "huber" else self.loss, **options)

    @property
    def n_outputs(self) -> int:
        return int(self.b.max()) + 1 if self.loss in ("multinomial", "one_vs_rest") else 1

    def psi(self, B: Double) -> float:
        """ψ at coefficients of shape (d + intercept, n_outputs)."""
        share = np.ones(self.X.shape[0]) if self.weight is None else self.weight
        share = share / share.sum()
        A = np.column_stack([self.X, np.ones(self.X.shape[0])]) if self.intercept else self.X
        z = A @ B
        penalty = float(np.sum(self.ridge[:, None] * B[: self.X.shape[1]] ** 2))
        if self.loss == "multinomial":
            own = np.take_along_axis(z, self.b[:, None], axis=1)[:, 0]
            return float(share @ (logsumexp(z, axis=1) - own)) + penalty
        if self.loss == "one_vs_rest":
            signs = np.where(self.b[:, None] == np.arange(self.n_outputs), 1.0, -1.0)
            return float(share @ np.logaddexp(0, -signs * z).sum(axis=1)) + penalty
        return float(share @ loss_value(self.loss, _DELTA, z[:, 0], self.b)) + penalty


def ridge_case(seed: int, loss: str, nonnegative: bool = False) -> RidgeCase:
    """A problem by its seed: separable classes, near-equal columns, columns in other units, rare features."""
    rng = np.random.default_rng([seed, LOSSES.index(loss)])
    n, d = int(rng.integers(8, 30)), int(rng.integers(4, 7))
    X = rng.standard_normal((n, d))
    kind = rng.choice(["plain", "twins", "units", "rare", "mean"])
    if kind == "twins":
        X[:, 1] = X[:, 0] + 10.0 ** -rng.integers(3, 9) * rng.standard_normal(n)
    if kind == "units":
        X = X * 10.0 ** rng.integers(-4, 5, d)
    if kind == "rare":
        X[:, 0] = 0.0
        X[rng.integers(0, n), 0] = 1.0
    if kind == "mean":
        X[:, 0] += 1e4
    scale = np.std(X, axis=0) + 1e-3
    strength = 10.0 ** rng.uniform(-5, 0)
    ridge = strength * scale**2
    if rng.random() < 0.3:
        ridge[int(rng.integers(d))] = 0.0 if loss in ("squared", "huber") else strength
    signal = (X / scale - np.mean(X / scale, axis=0)) @ (rng.standard_normal(d) * (rng.random(d) < 0.6))
    signal = float(rng.choice([1.0, 5.0])) * signal + 0.3 * rng.standard_normal(n)
    if loss in ("squared", "huber"):
        b: NDArray[Any] = signal
    elif loss == "poisson":
        b = rng.poisson(np.exp(np.clip(signal, -3, 3))).astype(float)
    elif loss == "gamma":
        b = np.exp(np.clip(signal, -3, 3)) * rng.gamma(2.0, 0.5, n) + 1e-3
    elif loss in ("multinomial", "one_vs_rest"):
        b = np.digitize(signal, np.quantile(signal, [1 / 3, 2 / 3])).astype(np.int64)
    else:
        b = np.where(signal > np.median(signal), 1.0, -1.0)
    weight = rng.integers(1, 4, n).astype(float) if rng.random() < 0.4 else None
    return RidgeCase(loss, X, b, weight, bool(rng.random() < 0.7), ridge, int(rng.integers(1, 4)), nonnegative)


class RidgeOracle:
    """The least ψ over sets of features: Newton's method in units in which the Hessian has a unit diagonal."""

    def __init__(self, case: RidgeCase) -> None:
        self.case = case
        self.known: dict[tuple[int, ...], float] = {}

    def value(self, features: tuple[int, ...]) -> float:
        """The least ψ over these features, with signs the least over subsets whose fits satisfy them."""
        if not self.case.nonnegative:
            return self._fit(features)[0]
        parts = (some for m in range(len(features) + 1) for some in itertools.combinations(features, m))
        fits = [self._fit(part) for part in parts]
        return min(psi for psi, x in fits if np.all(x[: self.case.X.shape[1]] >= 0))

    def _fit(self, features: tuple[int, ...]) -> tuple[float, Double]:
        case, d = self.case, self.case.X.shape[1]
        places = [*features, *([d] if case.intercept else [])]
        A = np.column_stack([case.X, np.ones(case.X.shape[0])])[:, places]
        centre = np.zeros(len(places))
        if case.intercept:
            share = np.ones(A.shape[0]) if case.weight is None else case.weight
            centre[:-1] = share @ A[:, :-1] / share.sum()
        C = A - centre
        size = np.where(np.std(C, axis=0) > 0, np.sqrt(np.mean(C**2, axis=0)), 1.0)
        C = C / size
        held = 2 * np.append(case.ridge, 0.0)[places] / size**2
        K = case.n_outputs
        share = np.ones(A.shape[0]) if case.weight is None else case.weight
        share = share / share.sum()
        w = np.zeros((len(places), K))

        def value(w: Double) -> float:
            return float(share @ self._losses(C @ w)) + float(np.sum(held[:, None] / 2 * w**2))

        psi = value(w)
        for _ in range(400):
            slopes, bends = self._derivatives(C @ w)
            g = (C.T @ (share[:, None] * slopes) + held[:, None] * w).ravel()
            H = np.einsum("i,ij,il,iab->jalb", share, C, C, bends).reshape(g.size, g.size)
            H += np.diag(np.repeat(held, K)) + 1e-14 * np.eye(g.size)
            if K > 1 and case.loss == "multinomial":
                H += np.kron(np.eye(len(places)), np.full((K, K), 1.0 / K))
            steps = [-np.linalg.lstsq(H, g, rcond=None)[0].reshape(w.shape)]
            if case.loss == "huber":  # beyond its parabola a step of the parabola above it
                above = loss_majorant("huber", _DELTA, (C @ w)[:, 0], case.b)
                H = C.T @ ((share * above)[:, None] * C) + np.diag(held) + 1e-14 * np.eye(g.size)
                steps.append(-np.linalg.solve(H, g).reshape(w.shape))
            moves = [t * step for step in steps for t in 2.0 ** np.arange(4, -30, -1)]
            values = [value(w + move) for move in moves]
            best = int(np.argmin(values))
            if not values[best] < psi - 1e-15 * abs(psi):
                break
            psi, w = values[best], w + moves[best]
        B = np.zeros((d + case.intercept, K))
        x = w / size[:, None]
        if case.intercept:
            x[-1] -= centre @ x
        B[places] = x
        return case.psi(B), B

    def _losses(self, z: Double) -> Double:
        case = self.case
        if case.loss == "multinomial":
            return logsumexp(z, axis=1) - np.take_along_axis(z, case.b[:, None], axis=1)[:, 0]
        if case.loss == "one_vs_rest":
            return np.logaddexp(0, -self._signs() * z).sum(axis=1)
        return np.asarray(loss_value(case.loss, _DELTA, z[:, 0], case.b))

    def _signs(self) -> Double:
        return np.where(self.case.b[:, None] == np.arange(self.case.n_outputs), 1.0, -1.0)

    def _derivatives(self, z: Double) -> tuple[Double, Double]:
        case, K = self.case, self.case.n_outputs
        if case.loss == "multinomial":
            p = np.exp(z - logsumexp(z, axis=1)[:, None])
            own = np.eye(K)[case.b]
            return p - own, p[:, :, None] * (np.eye(K) - p[:, None, :])
        if case.loss == "one_vs_rest":
            signs = self._signs()
            p = 1 / (1 + np.exp(np.clip(signs * z, -700, 700)))
            return -signs * p, (p * (1 - p))[:, :, None] * np.eye(K)
        slope = loss_slope(case.loss, _DELTA, z[:, 0], case.b)
        bend = loss_bend(case.loss, _DELTA, z[:, 0], case.b)
        return slope[:, None], bend[:, None, None]
