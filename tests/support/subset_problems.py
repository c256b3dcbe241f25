"""Random small problems of many kinds: a seed, a loss and a kind say which."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from levelprox import losses

Double = NDArray[np.float64]
Set = tuple[int, ...]

LOSSES = (
    "squared",
    "logistic",
    "poisson",
    "gamma",
    "huber",
    "squared_hinge",
    "absolute",
    "quantile",
    "hinge",
    "multinomial",
    "one_vs_rest",
    "cauchy",
    "sigmoid",
)
KINKED = ("absolute", "quantile", "hinge")
NOT_CONVEX = ("cauchy", "sigmoid")
CLASSES = ("multinomial", "one_vs_rest")
RESIDUALS = ("squared", "huber", "absolute", "quantile", "cauchy")
MARGINS = ("logistic", "squared_hinge", "hinge", "sigmoid")


@dataclass(frozen=True, eq=False)
class Case:
    """One problem: data, loss, and the budget."""

    seed: int
    kinds: tuple[str, ...]
    loss: str
    parameter: float
    X: Double  # values that are exact in the precision that the library is given
    b: NDArray[Any]
    k: int
    weight: Double | None = None
    offset: Double | None = None
    intercept: bool = False
    keep: Set = ()
    nonnegative: NDArray[np.bool_] | None = None  # of the features
    storage: str = "dense"
    prove: bool = False
    start: Set | None = None
    standardize: bool | None = None  # not None: through an estimator

    @property
    def n_outputs(self) -> int:
        return len(np.unique(self.b)) if self.loss in CLASSES else 1

    @property
    def given(self) -> Any:
        """X as the library is given it."""
        if self.storage == "sparse":
            return scipy.sparse.csr_array(self.X)
        if self.storage == "sparse columns":
            return scipy.sparse.csc_array(self.X)
        if self.storage == "float32":
            return self.X.astype(np.float32)
        if self.storage == "integers" and np.all(np.round(self.X) == self.X) and np.all(abs(self.X) < 2**62):
            return self.X.astype(np.int64)
        return np.asfortranarray(self.X) if self.storage == "columns" else self.X

    @property
    def loss_object(self) -> Any:
        if self.loss == "huber":
            return losses.Huber(self.parameter)
        if self.loss == "quantile":
            return losses.Quantile(self.parameter)
        return losses.Cauchy(self.parameter) if self.loss == "cauchy" else self.loss

    def __str__(self) -> str:
        n, d = self.X.shape
        parts = [f"{self.loss}({self.parameter:g})" if self.parameter else self.loss, "+".join(self.kinds)]
        parts += [f"n={n} d={d} k={self.k}"]
        parts += ["intercept"] * self.intercept + [f"keep={list(self.keep)}"] * bool(self.keep)
        parts += ["weights"] * (self.weight is not None) + ["offset"] * (self.offset is not None)
        parts += ["nonnegative"] * (self.nonnegative is not None) + ["prove"] * self.prove
        parts += [f"start={list(self.start)}"] * (self.start is not None) if self.start is not None else []
        parts += [f"standardize={self.standardize}"] * (self.standardize is not None)
        return " ".join([*parts, self.storage])


class _Draft:
    """A problem in the making: each kind changes some of it."""

    def __init__(self, rng: np.random.Generator, loss: str) -> None:
        self.rng, self.loss = rng, loss
        slow = loss in CLASSES or loss in NOT_CONVEX or loss in KINKED
        self.n = int(
            rng.choice([8, 12, 20, 30, 60], p=[0.3, 0.3, 0.3, 0.1, 0.0] if slow else [0.25, 0.25, 0.25, 0.15, 0.1])
        )
        self.d = int(rng.integers(3, 6 if slow else 8))
        self.k = int(rng.integers(1, min(3, self.d - 1) + 1))
        self.X = rng.standard_normal((self.n, self.d))
        if rng.random() < 0.3:
            self.X += 0.7 * rng.standard_normal((self.n, 1))
        self.coef = np.where(
            rng.random(self.d) < 0.5, rng.choice([-1.0, 1.0], self.d) * rng.uniform(0.3, 1.5, self.d), 0
        )
        self.signal: Double | None = None  # where it is not X @ coef
        self.noise = float(rng.choice([0.1, 0.5, 1.0]))
        self.scale = 1.0  # of targets
        self.shift = 0.0
        self.delta = 1.35
        self.strength = 1.0
        self.weight: Double | None = None
        self.offset: Double | None = None
        self.intercept = bool(rng.random() < 0.6)
        self.keep: Set = ()
        self.nonnegative: NDArray[np.bool_] | None = None
        self.storage = "dense"
        self.change_targets: list[Any] = []

    # --- kinds, each a method of that name

    def plain(self) -> None:
        """Nothing special."""

    def rare(self) -> None:
        """Features of few samples, as of a rare category; their effects are large."""
        some = self.rng.random(self.d) < 0.7
        for j in np.flatnonzero(some):
            rows = self.rng.choice(self.n, int(self.rng.integers(1, 4)), replace=False)
            column = np.zeros(self.n)
            column[rows] = 1.0 if self.rng.random() < 0.6 else self.rng.standard_normal(rows.size)
            self.X[:, j] = column
        self.coef[some] *= float(self.rng.choice([2.0, 8.0, 30.0]))

    def one_sample(self) -> None:
        """Each of some features is nonzero in one sample, some in the same one."""
        for j in range(self.d):
            if self.rng.random() < 0.6:
                self.X[:, j] = 0
                self.X[int(self.rng.integers(0, max(2, self.n // 2))), j] = self.rng.choice([1.0, -1.0, 1e-3, 50.0])
        self.strength = float(self.rng.choice([1.0, 10.0]))

    def units(self) -> None:
        """Columns in units of 1e-8 … 1e8."""
        unit = 10.0 ** self.rng.integers(-8, 9, self.d)
        self.signal = self._signal()
        self.X = self.X * unit

    def twins(self) -> None:
        """Columns that differ by 1e-3 … 1e-8 of their size; the signal may be in the difference."""
        apart = 10.0 ** -float(self.rng.integers(3, 9))
        half = max(1, self.d // 2)
        difference = self.rng.standard_normal((self.n, half))
        base = self.X[:, self.rng.integers(0, half, half)] if self.rng.random() < 0.5 else self.X[:, :half].copy()
        size = np.std(base, axis=0) + 1e-300
        self.X[:, :half] = base
        self.X[:, half : 2 * half] = base + apart * size * difference
        self.signal = self._signal()
        if self.rng.random() < 0.7:
            self.signal = self.signal + difference @ self.rng.standard_normal(half)

    def equal(self) -> None:
        """Equal columns, some with the opposite sign or in other units."""
        for j in range(1, self.d):
            if self.rng.random() < 0.4:
                self.X[:, j] = self.X[:, int(self.rng.integers(0, j))] * self.rng.choice([1.0, -1.0, 3.0, 1e6])

    def strong(self) -> None:
        """Strong signals: R² up to 1 − 1e-12, with coefficients far apart."""
        self.noise = 10.0 ** -float(self.rng.uniform(2, 6))
        self.coef = self.coef * 10.0 ** -self.rng.uniform(0, 5, self.d)
        self.strength = float(self.rng.choice([1.0, 3.0]))

    def exact(self) -> None:
        """Targets that some features explain exactly, or up to 1e-9 of them."""
        self.noise = float(self.rng.choice([0.0, 1e-9]))
        self.coef = np.where(self.rng.random(self.d) < 0.6, self.rng.uniform(-1, 1, self.d), 0)
        self.coef = self.coef * 10.0 ** -self.rng.uniform(0, 7, self.d)

    def far(self) -> None:
        """A row so far out that curvature underflows there."""
        size = float(self.rng.choice([30.0, 500.0, 1500.0]))
        rows = self.rng.choice(self.n, int(self.rng.integers(1, 3)), replace=False)
        self.signal = self._signal()
        j = int(self.rng.integers(0, self.d))
        other = (j + 1) % self.d
        side = self.rng.choice([-1.0, 1.0], rows.size)
        self.X[rows] = 0.0
        self.X[rows, j] = size * side
        self.X[:, other] = 0.0
        self.X[rows[0], other] = 1.0
        self.coef[j] = 1.0
        if self.rng.random() < 0.5:
            self.X[rows, (j + 2) % self.d] = 1.0
        if self.weight is None and self.rng.random() < 0.5:  # as among thousands of samples
            self.weight = np.full(self.n, 100.0)
            self.weight[rows] = 1.0

        def contrary(b: Double) -> Double:
            if self.loss in MARGINS:
                b[rows] = -side
            elif self.loss in ("poisson", "gamma"):
                b[rows] = self.rng.choice([1.0, 3.0], rows.size)
            else:
                b[rows] = self.rng.choice([-1.0, 1.0, 100.0], rows.size)
            return b

        if self.loss not in CLASSES:
            self.change_targets.append(contrary)

    def weights(self) -> None:
        """Sample weights, some of them 0."""
        self.weight = np.where(self.rng.random(self.n) < 0.15, 0.0, self.rng.uniform(0.1, 3.0, self.n))
        self.weight[:4] = 1.0

    def extreme_weights(self) -> None:
        """Sample weights of 1e-12 … 1e12."""
        self.weight = 10.0 ** self.rng.uniform(-12, 12, self.n)
        if self.rng.random() < 0.5:
            self.weight[self.rng.random(self.n) < 0.7] = 1.0
        self.weight[:4] = 1.0

    def unseen(self) -> None:
        """Samples of weight 0 with values far from all others; a feature is nonzero in those alone."""
        weight = np.ones(self.n) if self.weight is None else self.weight
        rows = self.rng.choice(np.arange(4, self.n), min(3, self.n - 4), replace=False) if self.n > 4 else []
        self.signal = self._signal()
        self.weight = weight.copy()
        self.weight[rows] = 0.0
        self.X[rows] = 1e8 * self.rng.standard_normal((len(rows), self.d))
        j = int(self.rng.integers(0, self.d))
        self.X[self.weight > 0, j] = 0.0

        def strange(b: Double) -> Double:
            if self.loss in RESIDUALS:
                b[rows] = 1e6
            elif self.loss in ("poisson", "gamma"):
                b[rows] = 1e4
            return b

        if self.loss not in CLASSES:
            self.change_targets.append(strange)

    def kept(self) -> None:
        """Features that are always in the fit."""
        self.keep = tuple(sorted(map(int, self.rng.choice(self.d, int(self.rng.integers(1, 3)), replace=False))))

    def signs(self) -> None:
        """Coefficients that must not be negative: of all features, or of some."""
        self.nonnegative = np.ones(self.d, bool) if self.rng.random() < 0.6 else self.rng.random(self.d) < 0.5

    def large_mean(self) -> None:
        """Columns with a large mean, as of dates and coordinates, and an intercept."""
        self.signal = self._signal()
        mean = 10.0 ** float(self.rng.integers(3, 8)) * (
            1.0 if self.rng.random() < 0.7 else self.rng.uniform(0.5, 2, self.d)
        )
        self.X = self.X + mean
        self.intercept = bool(self.rng.random() < 0.9)

    def powers(self) -> None:
        """Powers of a year."""
        t = self.rng.uniform(1990, 2020, self.n)
        if self.rng.random() < 0.5:
            t = np.round(t)
        most = min(self.d, 5)
        self.X[:, :most] = np.column_stack([t**p for p in range(1, most + 1)])
        u = (t - 2005) / 15
        basis = np.column_stack([u, u**2 - 0.3, u**3 - 0.6 * u])
        self.signal = basis @ self.rng.uniform(-2, 2, 3)
        self.intercept = bool(self.rng.random() < 0.9)

    def offsets(self) -> None:
        """Something known adds to every margin."""
        size = float(self.rng.choice([0.3, 3.0, 50.0]))
        self.offset = size * self.rng.standard_normal(self.n)

    def separable(self) -> None:
        """Targets that are a function of the features: classes without an overlap, counts of nothing."""
        self.noise = 0.0
        self.strength = 3.0

    def constant(self) -> None:
        """Columns that are constant or zero."""
        self.signal = self._signal()
        for j in self.rng.choice(self.d, 2, replace=False):
            self.X[:, j] = self.rng.choice([0.0, 1.0, -3.0, 1e-9, 1e9])

    def k_zero(self) -> None:
        """No feature may be chosen."""
        self.k = 0

    def k_all(self) -> None:
        """All features may be chosen."""
        self.k = self.d + int(self.rng.integers(-1, 3))

    def few_samples(self) -> None:
        """Fewer samples than features."""
        self.n = int(self.rng.integers(3, 6))
        self.X = self.X[: self.n]
        self.signal = None if self.signal is None else self.signal[: self.n]
        self.k = min(3, self.d)
        for name in ("weight", "offset"):
            values = getattr(self, name)
            setattr(self, name, None if values is None else values[: self.n])

    def spanned(self) -> None:
        """Columns that kept ones, others or the intercept span, up to rounding."""
        j = int(self.rng.integers(0, self.d))
        others = [i for i in range(self.d) if i != j]
        pair = self.rng.choice(others, 2, replace=False)
        self.X[:, j] = self.X[:, pair] @ self.rng.choice([1.0, -1.0, 0.1, 3.0], 2)
        if self.rng.random() < 0.6:
            self.X[:, j] += self.rng.choice([1.0, 100.0])
            self.intercept = True
        self.keep = tuple(sorted({*self.keep, int(pair[0])} | ({int(pair[1])} if self.rng.random() < 0.5 else set())))

    def categories(self) -> None:
        """All the categories of a factor: with an intercept they are one too many."""
        label = self.rng.integers(0, self.d, self.n)
        self.X = (label[:, None] == np.arange(self.d)).astype(float)
        self.coef = self.rng.choice([0.0, 1.0, 8.0, -8.0], self.d)

    def target_units(self) -> None:
        """Targets in units of 1e-8 … 1e8, or far from zero."""
        self.scale = 10.0 ** float(self.rng.integers(-8, 9))
        if self.rng.random() < 0.5:
            self.shift = float(self.rng.choice([1e3, 1e6]))
        if self.rng.random() < 0.5:
            self.delta = 1.35 * self.scale

    def wild_units(self) -> None:
        """Columns in units of 1e-60 … 1e60: nothing overflows, but products of several columns do."""
        self.signal = self._signal()
        self.X = self.X * 10.0 ** self.rng.uniform(-60, 60, self.d)

    def jointly(self) -> None:
        """Features that matter together and hardly alone: differences of columns that are much alike."""
        common = self.rng.standard_normal((self.n, 1))
        self.X = common + 10.0 ** -float(self.rng.uniform(0.5, 2)) * self.rng.standard_normal(self.X.shape)
        pair = self.rng.choice(self.d, 2, replace=False)
        difference = self.X[:, pair[0]] - self.X[:, pair[1]]
        self.signal = 2 * difference / (np.std(difference) + 1e-300)
        if self.rng.random() < 0.5:
            self.signal = self.signal + self.X[:, int(self.rng.integers(0, self.d))]

    def outliers(self) -> None:
        """Some targets far from the others, beyond the range of most losses of residuals."""
        rows = self.rng.choice(self.n, int(self.rng.integers(1, 3)), replace=False)
        size = float(self.rng.choice([30.0, 1e4]))

        def far(b: Double) -> Double:
            if self.loss in RESIDUALS:
                b[rows] += size * self.rng.choice([-1.0, 1.0], rows.size)
            elif self.loss in ("poisson", "gamma"):
                b[rows] = np.round(b[rows] * size) + 1
            return b

        self.change_targets.append(far)

    def ties(self) -> None:
        """Few different values in X and in the targets."""
        self.X = np.round(self.X)
        self.change_targets.append(lambda b: np.round(b) if self.loss in RESIDUALS else b)

    def same_target(self) -> None:
        """All targets are the same, or all but one."""

        def same(b: Double) -> Double:
            if self.loss not in CLASSES:
                b[:] = abs(b[0]) if self.loss in ("poisson", "gamma") else b[0]
                if self.rng.random() < 0.7:
                    b[-1] = -b[0] if self.loss in MARGINS else b[0] + 1
            return b

        self.change_targets.append(same)

    def float32(self) -> None:
        """X in float32."""
        self.storage = "float32"

    def sparse(self) -> None:
        """X as a sparse matrix, mostly zeros."""
        self.X = np.where(self.rng.random(self.X.shape) < 0.3, self.X, 0.0)
        self.storage = str(self.rng.choice(["sparse", "sparse columns"]))

    def integers(self) -> None:
        """X of integers."""
        self.X = np.round(3 * self.X)
        self.storage = "integers"

    # ---

    def _signal(self) -> Double:
        if self.signal is not None:
            return self.signal
        # Columns in large units do not make targets large.
        size = np.sqrt(np.mean((self.X - self.X.mean(axis=0)) ** 2, axis=0))
        return self.strength * (self.X @ (self.coef / np.maximum(size, 1.0)))

    def targets(self) -> NDArray[Any]:
        rng, loss = self.rng, self.loss
        signal = self._signal()
        size = float(np.std(signal))
        limit = 4.0 if loss in ("poisson", "gamma") else math.inf
        if size > limit:
            signal = signal * (limit / size)
        noise = self.noise * (size if self.noise < 0.05 and size > 0 else 1.0)
        if loss in RESIDUALS:
            b = signal + noise * rng.standard_normal(self.n)
        elif loss in MARGINS:
            b = np.where(signal + self.noise * rng.logistic(size=self.n) > np.median(signal), 1.0, -1.0)
            b[:2] = (1.0, -1.0) if np.all(b == b[0]) else b[:2]
        elif loss == "poisson":
            b = rng.poisson(np.exp(np.clip(signal, -20, 6))).astype(float)
        elif loss == "gamma":
            spread = rng.gamma(2.0, 0.5, self.n) if self.noise >= 0.05 else np.exp(noise * rng.standard_normal(self.n))
            b = np.exp(np.clip(signal, -20, 20)) * spread + 1e-12
        else:
            classes = int(rng.integers(2, 4)) if loss == "one_vs_rest" else 3
            label = np.digitize(
                signal + self.noise * rng.logistic(size=self.n), np.quantile(signal, [0.3, 0.7])[: classes - 1]
            )
            label[:classes] = np.arange(classes)
            return label
        for change in self.change_targets:
            b = change(b)
        if loss in RESIDUALS:
            b = self.scale * (b + self.shift)
        elif loss == "gamma":
            b = self.scale * b
        elif loss == "poisson" and self.scale > 1:
            b = np.round(b * min(self.scale, 1e6))
        return b


KINDS = (
    "plain",
    "rare",
    "one_sample",
    "units",
    "twins",
    "equal",
    "strong",
    "exact",
    "far",
    "weights",
    "extreme_weights",
    "unseen",
    "kept",
    "signs",
    "large_mean",
    "powers",
    "offsets",
    "separable",
    "constant",
    "k_zero",
    "k_all",
    "few_samples",
    "spanned",
    "categories",
    "target_units",
    "wild_units",
    "jointly",
    "outliers",
    "ties",
    "same_target",
    "float32",
    "sparse",
    "integers",
)
# Kinds that make X come first: those that change units or the storage come last.
_ORDER = (
    "few_samples",
    "categories",
    "powers",
    "rare",
    "one_sample",
    "ties",
    "sparse",
    "strong",
    "exact",
    "separable",
    "twins",
)
_LAST = ("far", "unseen", "large_mean", "units", "wild_units", "equal", "spanned", "constant", "float32")


def case(seed: int, loss: str | None = None, kind: str | None = None) -> Case:
    """The problem of that seed; its loss and its first kind may be given."""
    rng = np.random.default_rng([seed, 20])
    drawn_loss = LOSSES[int(rng.choice(len(LOSSES), p=_SHARES))]
    loss = drawn_loss if loss is None else loss
    first = str(rng.choice(KINDS))
    first = first if kind is None else kind
    more = int(rng.choice([0, 1, 2], p=[0.4, 0.4, 0.2]))
    others = [str(other) for other in rng.choice(KINDS, more, replace=False) if other not in (first, "k_zero")]
    kinds = (first, *others)
    draft = _Draft(rng, loss)
    for name in sorted(
        kinds,
        key=lambda name: _ORDER.index(name) if name in _ORDER else 50 + _LAST.index(name) * 50 if name in _LAST else 20,
    ):
        getattr(draft, name)()
    b = draft.targets()
    X = draft.X if draft.storage != "float32" else np.clip(draft.X, -1e30, 1e30).astype(np.float32).astype(np.float64)
    X = np.where(np.isfinite(X) & (abs(X) >= 1e-290), X, 0.0)  # smaller entries may count as zeros
    nonnegative = None if loss in CLASSES else draft.nonnegative
    offset = draft.offset
    if loss in CLASSES and offset is not None:
        offset = offset[:, None] * np.linspace(-1, 1, len(np.unique(b)))
    if loss in ("poisson", "gamma") and offset is not None:
        offset = np.clip(offset, -10, 10)
    weight = draft.weight
    d = X.shape[1]
    start = (
        tuple(sorted(map(int, rng.choice(d, int(rng.integers(1, d + 1)), replace=False))))
        if rng.random() < 0.25
        else None
    )
    standardize = bool(rng.random() < 0.5) if rng.random() < 0.08 else None
    estimator = standardize is not None and offset is None and draft.k >= 1 and X.shape[0] >= 6
    estimator = estimator and draft.storage != "float32" and (nonnegative is None or bool(nonnegative.all()))
    estimator = estimator and not (loss == "one_vs_rest" and len(np.unique(b)) == 2)  # which is logistic
    estimator = estimator and (loss not in MARGINS or len(np.unique(b if weight is None else b[weight > 0])) == 2)
    if estimator:
        start = None
    return Case(
        seed,
        kinds,
        loss,
        {"huber": draft.delta, "cauchy": draft.delta, "quantile": float(rng.choice([0.5, 0.9, 0.2]))}.get(loss, 0.0),
        X,
        b,
        draft.k,
        weight,
        offset,
        draft.intercept,
        draft.keep,
        nonnegative,
        draft.storage if draft.storage != "dense" or rng.random() < 0.7 else "columns",
        bool(rng.random() < 0.5),
        start,
        standardize if estimator else None,
    )


_SHARES = np.array([6, 4, 4, 4, 4, 3, 1.5, 1.5, 1.5, 1, 1, 1, 1])
_SHARES = _SHARES / _SHARES.sum()
