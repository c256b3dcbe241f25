"""Claims of estimators on small tables that look like real ones, against enumeration with NumPy and SciPy.

`python -m tests.support.realistic_claims --problems 3000 --seed 0` fits as many tables and prints false claims.
Columns are levels of factors, some of them rare, powers of a date, amounts with their logarithms and roots, heavy
tails and counts; rows are repeated; weights are counts of up to 1e6; there are ridges, costs, kept features and signs.
Neither the tables nor the refits share code with `subset_problems.py` and `independent_refits.py`.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import math
import traceback
import warnings
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize
from scipy.special import expit, logsumexp

from levelprox import SparseClassifier, SparseRegressor, Status, certify_model

Double = NDArray[np.float64]
Set = tuple[int, ...]

TOLERANCE = 1e-6  # of the null loss
SMOOTH = ("squared", "huber", "poisson", "gamma", "logistic", "squared_hinge", "softmax")
KINKED = ("absolute", "hinge")
CLASSES = ("logistic", "squared_hinge", "hinge", "softmax")


@dataclass(frozen=True)
class Table:
    """A table and the parameters of a fit to it."""

    seed: int
    loss: str
    X: Double
    y: NDArray[Any]
    k: int
    weight: Double | None
    ridge: float
    cost: Double | None
    budget: float | None
    keep: Set
    positive: bool
    standardize: bool
    sparse: bool

    def __str__(self) -> str:
        n, d = self.X.shape
        words = [f"{self.loss} n={n} d={d} k={self.k} ridge={self.ridge:.1g}"]
        words += [f"keep={list(self.keep)}"] if self.keep else []
        words += [name for name in ("positive", "standardize", "sparse") if getattr(self, name)]
        words += ["weights"] if self.weight is not None else []
        words += [f"budget={self.budget} of {self.cost}"] if self.cost is not None else []
        return " ".join(words)

    @property
    def given(self) -> Any:
        return scipy.sparse.csr_array(self.X.astype(np.float32)) if self.sparse else self.X


def table(seed: int) -> Table:
    """The table of a seed."""
    rng = np.random.default_rng([seed, 77])
    loss = str(rng.choice([*SMOOTH, *KINKED], p=[0.2, 0.1, 0.12, 0.12, 0.2, 0.06, 0.06, 0.08, 0.06]))
    n = int(rng.integers(14, 70))
    pieces = [_piece(rng, n) for _ in range(4)]
    X = np.column_stack(pieces)[:, : int(rng.integers(4, 8))]
    X = X[:, rng.permutation(X.shape[1])]
    d = X.shape[1]
    if rng.random() < 0.3:  # repeated rows
        rows = rng.integers(0, n, n)
        rows[: n // 2] = np.arange(n // 2)
        X = X[rows]
    sparse = bool(rng.random() < 0.2)
    if sparse:
        X = X.astype(np.float32).astype(np.float64)
    spread = X - X.mean(axis=0)
    size = np.sqrt(np.mean(spread**2, axis=0))
    signal = spread @ (rng.standard_normal(d) * (rng.random(d) < 0.6) / np.where(size > 0, size, 1))
    signal = np.clip(signal, -4, 4) * float(rng.choice([0.3, 1.0, 2.0]))
    y = _targets(rng, loss, signal)
    weight = None
    if rng.random() < 0.3:
        weight = np.round(10.0 ** rng.uniform(0, rng.choice([1, 3, 6]), n))
    ridge = 0.0 if loss in KINKED or rng.random() < 0.5 else float(10.0 ** rng.uniform(-8, 2))
    cost, budget = None, None
    if rng.random() < 0.3:
        cost = rng.choice([0.1, 0.2, 0.3, 0.7, 1.0, 2.5], d)
        budget = float(rng.choice([0.3, 0.6, 1.0, 1.1, 3.0]))
    keep = tuple(sorted(map(int, rng.choice(d, int(rng.integers(1, 3)), replace=False)))) if rng.random() < 0.25 else ()
    positive = bool(rng.random() < 0.2) and loss != "softmax"
    k = int(rng.integers(1, 4))
    return Table(seed, loss, X, y, k, weight, ridge, cost, budget, keep, positive, bool(rng.random() < 0.6), sparse)


def _piece(rng: np.random.Generator, n: int) -> Double:
    kind = str(rng.choice(["factor", "date", "amount", "tails", "counts", "noise", "copies"]))
    if kind == "factor":
        share = 0.5 ** np.arange(1, 5)
        level = rng.choice(4, n, p=share / share.sum())
        return (level[:, None] == np.arange(1, 4)).astype(float)
    if kind == "date":
        day = np.floor(rng.uniform(18000, 19500, n))
        return np.column_stack([day, day**2, day**3])[:, : int(rng.integers(1, 4))]
    if kind == "amount":
        amount = np.exp(rng.normal(3, 2, n))
        return np.column_stack([amount, np.log(amount), np.sqrt(amount)])[:, : int(rng.integers(1, 4))]
    if kind == "tails":
        return np.column_stack([rng.standard_t(1.2, n), rng.pareto(1.1, n)])
    if kind == "counts":
        return np.column_stack([rng.poisson(0.3, n), rng.poisson(20, n)]).astype(float)
    base = rng.standard_normal(n)
    if kind == "copies":
        return np.column_stack([base, np.round(base, 1), 1000 + 0.01 * base])
    return base[:, None]


def _targets(rng: np.random.Generator, loss: str, signal: Double) -> NDArray[Any]:
    n = signal.size
    if loss in ("squared", "huber", "absolute"):
        return signal + float(rng.choice([0.01, 0.5, 2.0])) * rng.standard_t(3, n) + float(rng.choice([0, 300.0]))
    if loss == "poisson":
        return rng.poisson(np.exp(signal / 2)).astype(float) + (np.arange(n) == 0)
    if loss == "gamma":
        return np.exp(signal / 2) * rng.gamma(2.0, 0.5, n) + 1e-3
    noisy = signal + float(rng.choice([0.0, 0.5, 1.0])) * rng.logistic(size=n)
    if loss == "softmax":
        label = np.digitize(noisy, np.quantile(noisy, [0.4, 0.8]))
        label[:3] = np.arange(3)
        return label
    label = np.where(noisy > np.quantile(noisy, 0.6), 1, -1)
    label[:2] = 1, -1
    return label


# --- refits


def _value(loss: str, z: Any, y: Any) -> Any:
    r = y - z
    if loss == "squared":
        return r**2
    if loss == "huber":
        return np.where(abs(r) <= 1.35, r**2 / 2, 1.35 * (abs(r) - 0.675))
    if loss == "absolute":
        return abs(r)
    if loss == "poisson":
        return np.exp(z) - y * z
    if loss == "gamma":
        return z + y * np.exp(-z)
    if loss == "logistic":
        return np.logaddexp(0, -y * z)
    return np.maximum(1 - y * z, 0) ** (2 if loss == "squared_hinge" else 1)


def _slope_and_bend(loss: str, z: Double, y: Double) -> tuple[Double, Double]:
    r = y - z
    if loss == "squared":
        return -2 * r, np.full_like(z, 2.0)
    if loss == "huber":
        return -np.clip(r, -1.35, 1.35), (abs(r) <= 1.35).astype(float)
    if loss == "poisson":
        return np.exp(z) - y, np.exp(z)
    if loss == "gamma":
        return 1 - y * np.exp(-z), y * np.exp(-z)
    if loss == "logistic":
        p = expit(-y * z)
        return -y * p, p * (1 - p)
    return -2 * y * np.maximum(1 - y * z, 0), 2.0 * (y * z < 1)


class Judge:
    """The least ψ over sets of columns of a table, with an intercept."""

    def __init__(self, one: Table) -> None:
        self.table = one
        n = one.y.size
        weight = np.ones(n) if one.weight is None else one.weight
        self.share = weight / weight.sum()
        self.mean = self.share @ one.X
        self.spread = one.X - self.mean
        self.size = np.sqrt(self.share @ self.spread**2)
        self.y = one.y if one.loss == "softmax" else one.y.astype(float)
        self.n_outputs = 3 if one.loss == "softmax" else 1
        self.known: dict[Set, float] = {}
        self.null = self.least(())
        lowest = 0.0
        if one.loss == "poisson":
            lowest = float(self.share @ (self.y - self.y * np.log(np.where(self.y > 0, self.y, 1))))
        elif one.loss == "gamma":
            lowest = float(self.share @ (1 + np.log(self.y)))
        self.scale = max(self.null - lowest, 1e-12 * abs(self.null))
        self.tolerance = TOLERANCE * self.scale

    def psi(self, coef: Double, intercept: Double) -> float:
        """ψ of coefficients of shape (n_outputs, d), in extended precision."""
        X, long = self.table.X.astype(np.longdouble), coef.astype(np.longdouble)
        z = X @ long.T + intercept.astype(np.longdouble)
        if self.table.loss == "softmax":
            top = z.max(axis=1, keepdims=True)
            losses = np.log(np.exp(z - top).sum(axis=1)) + top[:, 0] - z[np.arange(z.shape[0]), self.y]
        else:
            losses = _value(self.table.loss, z[:, 0], self.y.astype(np.longdouble))
        held = np.array([0.0 if j in self.table.keep else 1.0 for j in range(X.shape[1])]) * self.size**2
        return float(self.share.astype(np.longdouble) @ losses + self.table.ridge * (long**2 @ held).sum())

    def rounding(self, coef: Double, intercept: Double) -> float:
        """What float64 margins may change in ψ: 1e-15 of the terms that cancel, times a typical slope."""
        terms = abs(self.table.X) @ abs(coef).T + abs(intercept)
        if self.table.loss in ("squared", "huber", "absolute"):
            terms = terms + abs(self.y)[:, None]
        slope = 1.0 + (math.sqrt(max(self.null, 0)) if self.table.loss == "squared" else 0.0)
        return 2e-15 * slope * float(self.share @ terms.sum(axis=1))

    def least(self, features: Set) -> float:
        """The least ψ over some features and those that are kept."""
        chosen = tuple(sorted({*features, *self.table.keep}))
        if chosen not in self.known:
            if not self.table.positive or self.table.loss in KINKED:
                self.known[chosen] = self._program(chosen) if self.table.loss in KINKED else self._fit(chosen)[0]
            else:
                fits = [self._fit(part) for m in range(len(chosen) + 1) for part in itertools.combinations(chosen, m)]
                self.known[chosen] = min(psi for psi, coef in fits if np.all(coef >= 0))
        return self.known[chosen]

    def _basis(self, chosen: Set) -> tuple[Double, Double]:
        columns = [j for j in chosen if self.size[j] > 1e-13 * abs(self.mean[j])]
        A = self.spread[:, columns] / self.size[columns]
        return A, np.array([0.0 if j in self.table.keep else self.table.ridge for j in columns])

    def _fit(self, chosen: Set) -> tuple[float, Double]:
        """ψ and the coefficients of scaled columns."""
        A, held = self._basis(chosen)
        rows = np.vstack([np.sqrt(self.share)[:, None] * A, np.diag(np.sqrt(held))])
        _, values, V = np.linalg.svd(rows, full_matrices=False)
        inside = values > 1e-10 * max(values.max(initial=0.0), 1e-300)
        back = V[inside].T / values[inside]
        Q = np.column_stack([np.ones(A.shape[0]), A @ back])
        penalty = np.zeros((Q.shape[1], Q.shape[1]))
        penalty[1:, 1:] = back.T @ (held[:, None] * back)
        if self.table.loss == "softmax":
            return self._softmax(Q, penalty), np.zeros(0)
        a = self._newton(Q, penalty)
        return self._height(Q, penalty, a), back @ a[1:]

    def _height(self, Q: Double, penalty: Double, a: Double) -> float:
        with np.errstate(over="ignore"):
            return float(self.share @ _value(self.table.loss, Q @ a, self.y) + a @ penalty @ a)

    def _newton(self, Q: Double, penalty: Double) -> Double:
        loss, a = self.table.loss, np.zeros(Q.shape[1])
        if loss == "squared":
            a[0] = self.share @ self.y
        if loss in ("poisson", "gamma"):
            a[0] = math.log(self.share @ self.y)
        if loss == "huber":
            a[0] = np.median(self.y)
        psi = self._height(Q, penalty, a)
        for _ in range(300):
            slope, bend = _slope_and_bend(loss, Q @ a, self.y)
            g = Q.T @ (self.share * slope) + 2 * penalty @ a
            H = Q.T @ ((self.share * bend)[:, None] * Q) + 2 * penalty
            step = -np.linalg.lstsq(H + 1e-15 * np.trace(H) * np.eye(a.size) + 1e-300, g, rcond=None)[0]
            if not -g @ step > 1e-14 * self._unit():
                break
            heights = [
                (self._height(Q, penalty, a + t * way), t, way)
                for way in (step, -g)
                for t in 2.0 ** np.arange(4, -30, -1)
            ]
            best = min(heights, key=lambda one: one[0])
            if not best[0] < psi:
                break
            psi, a = best[0], a + best[1] * best[2]
        if loss in ("huber", "squared_hinge"):  # curvature that is 0 in parts
            end = minimize(
                lambda at: self._height(Q, penalty, at),
                a,
                jac=lambda at: Q.T @ (self.share * _slope_and_bend(loss, Q @ at, self.y)[0]) + 2 * penalty @ at,
                method="BFGS",
                options={"gtol": 1e-11},
            )
            a = end.x if end.fun < psi else a
        return a

    def _unit(self) -> float:
        return getattr(self, "scale", 1.0)

    def _softmax(self, Q: Double, penalty: Double) -> float:
        p, rows = Q.shape[1], np.arange(Q.shape[0])

        def height(flat: Double) -> tuple[float, Double]:
            a = flat.reshape(p, 3)
            z = Q @ a
            total = logsumexp(z, axis=1)
            slope = np.exp(z - total[:, None])
            slope[rows, self.y] -= 1
            value = self.share @ (total - z[rows, self.y]) + np.sum(a * (penalty @ a))
            return float(value), (Q.T @ (self.share[:, None] * slope) + 2 * penalty @ a).ravel()

        flat = np.zeros(p * 3)
        exactly = {"maxiter": 3000, "maxfun": 20000, "ftol": 0, "gtol": 1e-13}
        for _ in range(6):
            flat = minimize(height, flat, jac=True, method="L-BFGS-B", options=exactly).x
        return height(flat)[0]

    def _program(self, chosen: Set) -> float:
        A, _ = self._basis(chosen)
        n, m = A.shape
        A = np.column_stack([A, np.ones(n)])
        sign = (0, None) if self.table.positive else (None, None)
        bounds = [sign] * m + [(None, None)]
        unit = float(self.share.max())
        if self.table.loss == "hinge":
            found = linprog(
                np.append(np.zeros(m + 1), self.share / unit),
                A_ub=-np.column_stack([self.y[:, None] * A, np.eye(n)]),
                b_ub=-np.ones(n),
                bounds=[*bounds, *[(0, None)] * n],
            )
        else:
            middle = float(np.median(self.y))
            found = linprog(
                np.concatenate([np.zeros(m + 1), self.share / unit, self.share / unit]),
                A_eq=np.column_stack([A, np.eye(n), -np.eye(n)]),
                b_eq=self.y - middle,
                bounds=[*bounds, *[(0, None)] * (2 * n)],
            )
        return float(found.fun) * unit if found.status == 0 else math.inf


# --- what is wrong


@dataclass
class Verdict:
    """What a fit claims falsely."""

    table: Table
    words: list[str] = field(default_factory=list)
    status: str = ""
    proved: bool = False
    optimum: bool = False


def fitted(one: Table) -> Any:
    """The estimator, fitted."""
    options: dict[str, Any] = {
        "n_features": one.k,
        "standardize": one.standardize,
        "ridge": one.ridge,
        "positive": one.positive,
        "keep": list(one.keep) or None,
        "time_limit": 30.0,
    }
    if one.cost is not None:
        options |= {"feature_cost": one.cost, "budget": one.budget}
    if one.loss in CLASSES:
        loss = "logistic" if one.loss == "softmax" else one.loss
        model = SparseClassifier(loss, multi_class="softmax" if one.loss == "softmax" else "ovr", **options)
    else:
        model = SparseRegressor(one.loss, **options)
    return model.fit(one.given, one.y, sample_weight=one.weight)


def judged(one: Table) -> Verdict:
    """Fit a table, and judge what the model says of itself."""
    verdict = Verdict(one)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fitted(one)
            _judge(one, model, verdict)
            if model.status_ is Status.SOLVED:
                _certified(one, model, verdict)
    except Exception:
        verdict.words.append("exception: " + traceback.format_exc(limit=-3))
    return verdict


def _judge(one: Table, model: Any, verdict: Verdict) -> None:
    judge, told = Judge(one), model.certificate_
    coef, intercept = np.atleast_2d(model.coef_).astype(float), np.atleast_1d(model.intercept_).astype(float)
    d, wrong = one.X.shape[1], verdict.words
    S = tuple(j for j in range(d) if np.any(coef[:, j]) and j not in one.keep)
    free = [j for j in range(d) if j not in one.keep]
    verdict.status = str(model.status_)

    def allowed(features: Set) -> bool:
        if len(features) > one.k:
            return False
        return one.cost is None or sum(Fraction(one.cost[j]) for j in features) <= Fraction(one.budget)

    if not allowed(S):
        wrong.append(f"budget: {S} is not allowed")
    if one.positive and np.any(coef < 0):
        wrong.append(f"sign: {coef}")
    psi, rounding = judge.psi(coef, intercept), judge.rounding(coef, intercept)
    tolerance = judge.tolerance + rounding
    if not abs(psi - told.psi) <= 1e-9 * judge.scale + rounding:
        wrong.append(f"point: ψ is said to be {told.psi!r}, and is {psi!r}")
    if judge.least(S) < psi - tolerance:
        wrong.append(f"refit: ψ = {psi!r} over {S}, but {judge.least(S)!r} is possible; {model.status_}")
    outside = [j for j in free if j not in S]
    swaps = told.swaps
    verdict.proved = swaps.examined == swaps.total
    swaps = [tuple(sorted({*S, j} - {i})) for i in S for j in outside]
    swaps = [swap for swap in swaps if allowed(swap)]
    if verdict.proved and swaps:
        best = min(swaps, key=judge.least)
        if judge.least(best) < psi - tolerance:
            wrong.append(f"false: ψ = {psi!r} over {S}, but {judge.least(best)!r} over {best}; {swaps}")
    more = [(psi - judge.least((*S, j)), j) for j in outside if one.cost is None or _affordable(one, S, j)]
    gain, feature = max(more, default=(0.0, None))
    if gain > tolerance and len(S) < one.k:
        wrong.append(f"room: {S}, but {feature} gains {gain!r} of {judge.scale!r}")
    claimed, additions = told.multiplier, told.additions
    if not math.isnan(claimed):
        words = f"one more is said to gain {claimed!r} ({told.addition}); {gain!r} ({feature}); {additions}"
        if gain > claimed + tolerance and additions.examined == additions.total:
            wrong.append(f"low: {words}")
        named = {j: amount for amount, j in more}.get(told.addition, 0.0)
        if claimed > max(named, 0.0) + tolerance:
            wrong.append(f"high: {words}; that one gains {named!r}")
    sets = [s for m in range(min(one.k, len(free)) + 1) for s in itertools.combinations(free, m) if allowed(s)]
    verdict.optimum = psi <= min(map(judge.least, sets)) + tolerance


def _affordable(one: Table, S: Set, j: int) -> bool:
    assert one.cost is not None
    return sum(Fraction(one.cost[i]) for i in (*S, j)) <= Fraction(one.budget)


def _certified(one: Table, model: Any, verdict: Verdict) -> None:
    """A correct model is confirmed, a changed one is not."""
    data = one.given, one.y, one.weight
    claims = certify_model(model, *data, prove=True)
    if not claims.hold:
        verdict.words.append(f"certify: a correct model is refuted\n{claims}")
    told = model.certificate_
    size = abs(told.psi) + told.multiplier + 1e-3
    lies = {"psi": replace(told, psi=told.psi - 1e-3 * size), "features": replace(told, n_nonzero=told.n_nonzero + 1)}
    lies["swaps"] = replace(told, swaps=replace(told.swaps, examined=1000, total=1000))
    if told.multiplier > 1e-3 * size and told.additions.examined == told.additions.total:
        lies["gain"] = replace(told, multiplier=0.0, addition=None)
        lies["more"] = replace(told, multiplier=1.01 * told.multiplier)
    if told.spent is not None:
        lies["spent"] = replace(told, spent=told.spent - 0.05)
        lies["budget"] = replace(told, budget=told.budget + 1)
    for name, lie in lies.items():
        liar = copy.copy(model)
        liar.certificate_, liar.multiplier_ = lie, lie.multiplier
        claims = certify_model(liar, *data, prove=True)
        if claims.hold and not (name in ("gain", "more") and "one more would gain" in claims.not_examined):
            verdict.words.append(f"lie: about {name} is confirmed: {lie}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.realistic_claims")
    parser.add_argument("--problems", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    if options.only is not None:
        verdict = judged(table(options.only))
        print(verdict.table, verdict.status, *verdict.words, sep="\n  ")
        return bool(verdict.words)
    wrong = proved = optimum = 0
    for seed in range(options.seed, options.seed + options.problems):
        one = table(seed)
        verdict = judged(one)
        wrong, proved, optimum = wrong + bool(verdict.words), proved + verdict.proved, optimum + verdict.optimum
        if verdict.words:
            print(f"{seed}: {one} {verdict.status}", *verdict.words, sep="\n  ", flush=True)
        if (seed - options.seed + 1) % 250 == 0:
            count = seed - options.seed + 1
            print(f"{count} tables, {wrong} with something wrong, {proved} proved, {optimum} optimal", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
