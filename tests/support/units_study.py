"""Fits and solves with columns in units from 1e-8 to 1e8: the same answers, and nothing solved that can be improved.

`python -m tests.support.units_study --problems 500 --seed 0` draws as many of either kind and counts:

==========  ============================================================================================
fits        estimators with `standardize=True`, fitted to X and to X with columns in other units
status      ... with another status
answer      ... with other coefficients (times `scale_`), beyond 1e-5 of the largest, and another ψ, beyond 1e-7
flat        ... with other coefficients and the same ψ: it has several minimisers, or none
solves      `solve` on problems with columns in such units, unpenalized ones included
solved      ... with the status solved
improved    ... solved, and a local method lowers ψ by more than the possible gain that is reported
infeasible  ... whose x exceeds the level, or has a sign that is not permitted
psi         ... whose ψ is not that of x, beyond the rounding that the possible gain includes
null        ... where the certificate of the null fit shows less gain than the local methods find
==========  ============================================================================================

`--only SEED` repeats one fit and one solve in words. Local methods: `local_descent.py`.
"""

from __future__ import annotations

import argparse
import os
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from levelprox import (
    LinearModel,
    MultinomialModel,
    Problem,
    SparseClassifier,
    SparseRegressor,
    Status,
    certify,
    losses,
    solve,
)
from levelprox.certificate.null_model import null_fit
from levelprox.constraints import L1, MCP, SCAD, Constraint, Exp, Log, Lp, NegativeLp
from levelprox.objectives import OneVsRestModel
from tests.support.local_descent import Local

Double = NDArray[np.float64]

LOSSES = (
    "squared",
    "logistic",
    "huber",
    "poisson",
    "gamma",
    "squared_hinge",
    "absolute",
    "quantile",
    "hinge",
    "cauchy",
    "sigmoid",
    "multinomial",
    "one_vs_rest logistic",
    "one_vs_rest squared_hinge",
)
MARGINS = ("logistic", "squared_hinge", "hinge", "sigmoid")
HARD = (
    "near-equal columns",
    "hardly any noise",
    "large means",
    "few samples",
    "rare entries",
    "single precision",
)
KINDS = ("mcp", "scad", "exp", "log", "lp", "l1", "negative_lp")
SECONDS = 120.0  # of one solve or fit
ROUNDING = 1e-15  # of ψ: of the local methods, in extended precision


@dataclass
class Outcome:
    """One problem: what was wrong with its answer."""

    seed: int
    what: str
    loss: str
    status: str = ""
    failures: dict[str, float] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    seconds: float = 0.0
    recovered: float | None = None  # by local methods, from a point near the answer

    def fail(self, what: str, amount: float, words: str) -> None:
        self.failures[what] = amount
        self.words.append(f"{what}: {words}")


# --- data


@dataclass(frozen=True, eq=False)
class Data:
    """Columns in units of 1, targets, and the budget."""

    rng: np.random.Generator
    loss: str
    X: Double
    b: NDArray[Any]
    weight: Double | None
    offset: Double | None
    intercept: bool
    storage: str
    parameter: float

    @property
    def n_outputs(self) -> int:
        return 3 if self.loss == "multinomial" or self.loss.startswith("one") else 1

    @property
    def loss_object(self) -> Any:
        kinds = {"huber": losses.Huber, "quantile": losses.Quantile, "cauchy": losses.Cauchy}
        return kinds[self.loss](self.parameter) if self.loss in kinds else self.loss

    def stored(self, X: Double) -> Any:
        if self.storage == "rows":
            return scipy.sparse.csr_array(X)
        if self.storage == "columns":
            return scipy.sparse.csc_array(X)
        if self.storage == "single precision":
            return X.astype(np.float32)
        return np.asfortranarray(X) if self.storage == "dense columns" else X


def data(seed: int) -> Data:
    """Columns with zeros, means, few values, or none of these; targets that depend on some of them. Half are harder."""
    rng = np.random.default_rng(seed)
    loss = LOSSES[seed % len(LOSSES)]
    several = loss == "multinomial" or loss.startswith("one")
    n, d = int(rng.integers(40 if several else 25, 90)), int(rng.integers(2, 5 if several else 9))
    X = rng.standard_normal((n, d))
    kind = rng.random()
    if kind < 0.25:
        X = X * (rng.random((n, d)) < 0.4)
    elif kind < 0.45:
        X = X + rng.uniform(-5, 5, d)
    elif kind < 0.55:
        X = np.round(X)
    elif kind < 0.65:
        X = X + 0.9 * X[:, :1]
    intercept = bool(rng.random() < 0.6)
    if kind > 0.95 and intercept:
        X = X + 10.0 ** rng.uniform(0, 3, d)
    noise = rng.uniform(0.05, 1)
    storage = str(rng.choice(["dense", "dense columns", "rows", "columns"]))
    if seed // len(LOSSES) % 2:
        hard = str(rng.choice(HARD))
        if hard == "near-equal columns":
            X[:, 1:] = X[:, :1] + 10.0 ** rng.uniform(-5, -1) * X[:, 1:]
        elif hard == "hardly any noise":
            noise = 10.0 ** rng.uniform(-8, -3)
        elif hard == "large means" and intercept:
            X = X + 10.0 ** rng.uniform(1, 5, d) * (rng.random(d) < 0.5)
        elif hard == "few samples":
            n = int(rng.integers(6, 12)) if not several else 12
            X = X[:n]
        elif hard == "rare entries":
            X = X * (rng.random((n, d)) < 0.1)
        elif hard == "single precision":
            storage = "single precision"
    coefficients = rng.standard_normal(d) * (rng.random(d) < 0.6) * rng.uniform(0.3, 3)
    z = (X - X.mean(axis=0)) @ coefficients + rng.uniform(-2, 2) + noise * rng.standard_normal(n)
    b: NDArray[Any] = z
    if loss in MARGINS:
        b = np.where(rng.random(n) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
        b[:2] = [1.0, -1.0]
    elif loss == "poisson":
        b = rng.poisson(np.exp(np.clip(z / 3, -4, 3))).astype(float)
    elif loss == "gamma":
        b = np.exp(np.clip(z / 3, -4, 3)) * rng.gamma(2.0, 0.5, n) + 1e-3
    elif several:
        b = np.argmax(np.column_stack([z, -z, np.ones(n)]) + rng.gumbel(size=(n, 3)), axis=1)
        b[:3] = [0, 1, 2]
    elif rng.random() < 0.2:
        b = b * 10.0 ** rng.uniform(-3, 3)
    weight = rng.uniform(0.2, 3, n) if rng.random() < 0.2 else None
    offset = 0.3 * rng.standard_normal(n) if rng.random() < 0.15 and not several else None
    parameter = {"huber": 1.35, "quantile": float(rng.uniform(0.1, 0.9)), "cauchy": 2.0}.get(loss, 0.0)
    if loss in ("huber", "cauchy"):
        parameter *= float(np.std(b)) or 1.0
    return Data(rng, loss, X, b, weight, offset, intercept, storage, parameter)


def units_of(rng: np.random.Generator, d: int) -> Double:
    """Of all columns, or of some of them."""
    units = 10.0 ** rng.uniform(-8, 8, d)
    return np.where(rng.random(d) < 0.3, units, 1.0) if rng.random() < 0.3 else units


def constraint_of(rng: np.random.Generator, t: float) -> tuple[Constraint, tuple[Any, ...]]:
    """A constraint under which a coefficient of size t counts about one, and the same for the local methods."""
    kind = str(rng.choice(KINDS))
    if kind == "mcp":
        one = MCP.from_threshold(t)
        return one, (kind, one.lam, one.theta)
    if kind == "scad":
        two = SCAD.from_threshold(t)
        return two, (kind, two.lam, two.theta, two.factor)
    if kind == "exp":
        return Exp(3 / t), (kind, 3 / t)
    if kind == "log":
        return Log(1 / t), (kind, 1 / t)
    if kind == "lp":
        p = float(rng.uniform(0.2, 0.8))
        return Lp(p, t / 10), (kind, p, t / 10)
    if kind == "negative_lp":
        return NegativeLp(-1.0, 3 / t), (kind, -1.0, 3 / t)
    return L1(1 / t), (kind, 1 / t)


# --- fits


def fitted(seed: int) -> Outcome:
    """One estimator, fitted in units of 1 and in others."""
    one = data(seed)
    rng, d = one.rng, one.X.shape[1]
    outcome = Outcome(seed, "fit", one.loss)
    options: dict[str, Any] = {"fit_intercept": one.intercept, "standardize": True, "time_limit": SECONDS}
    if rng.random() < 0.5:
        options["n_features"] = int(rng.integers(1, d + 1))
    else:
        options["level"] = float(rng.integers(1, d + 1)) if rng.random() < 0.3 else float(rng.uniform(0.2, d))
        options["constraint"] = str(rng.choice(KINDS)) if rng.random() < 0.4 else constraint_of(rng, 0.3)[0]
    if rng.random() < 0.4:
        options["feature_weight"] = np.where(rng.random(d) < 0.3, 0.0, 1.0)
    if rng.random() < 0.15 and one.n_outputs == 1:
        options["positive"] = True
    estimator: Any = SparseRegressor
    loss = one.loss_object
    more: dict[str, Any] = {}
    if one.n_outputs > 1:
        estimator, loss = SparseClassifier, "logistic" if one.loss == "multinomial" else one.loss.split()[1]
        options["multi_class"] = "softmax" if one.loss == "multinomial" else "ovr"
    elif one.loss in MARGINS:
        estimator = SparseClassifier
    if one.offset is not None and estimator is SparseRegressor:
        more["offset"] = one.offset
    units = units_of(rng, d)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, other = (
            estimator(loss=loss, **options).fit(one.stored(X), one.b, sample_weight=one.weight, **more)
            for X in (one.X, one.X * units)
        )
    outcome.seconds = time.process_time() - began
    outcome.status = str(plain.status_)
    if plain.status_ is not other.status_:
        outcome.fail("status", 1.0, f"{plain.status_} and {other.status_}: {plain.message_} | {other.message_}")
    ours, theirs = (np.ravel(fit.coef_ * fit.scale_) for fit in (plain, other))
    apart = float(np.max(np.abs(ours - theirs)) / max(np.max(np.abs(ours), initial=0.0), 1e-3))
    psi = plain.certificate_.psi
    gap = abs(psi - other.certificate_.psi) / max(abs(psi), 1e-2 * _typical_loss(one))
    if apart > 1e-5:
        sort = "answer" if gap > 1e-7 and plain.status_ is not Status.DIVERGING else "flat"
        outcome.fail(sort, apart, f"coefficients {apart:.1e} apart, ψ {gap:.1e}, {plain.status_}: {ours} | {theirs}")
    return outcome


def _typical_loss(one: Data) -> float:
    """About the loss of a model without features."""
    if one.loss not in ("squared", "huber", "cauchy", "absolute", "quantile"):
        return 1.0
    away = float(np.mean(np.abs(one.b - np.median(one.b))))
    return away if one.loss in ("absolute", "quantile") else away**2


# --- solves


@dataclass(frozen=True, eq=False)
class Drawn:
    """A problem, and the same for the local methods."""

    problem: Problem
    local: Local


def drawn(seed: int) -> Drawn:
    """A problem with columns in units of 1e-8 … 1e8; some of them unpenalized."""
    one = data(10**6 + seed)
    rng, (n, d) = one.rng, one.X.shape
    units = units_of(rng, d)
    X = one.X * units
    if one.storage == "single precision":
        X = X.astype(np.float32).astype(np.float64)
    omega = np.where(rng.random(d) < 0.3, 0.0, units if rng.random() < 0.3 else 1.0)
    if not np.any(omega):
        omega[0] = 1.0
    t = 10.0 ** rng.uniform(-2, 1) / (float(np.median(units)) if rng.random() < 0.6 else 1.0)
    constraint, formula = constraint_of(rng, t)
    x = rng.standard_normal(d) * rng.uniform(0.1, 3) / units
    level = float(np.sum(omega * np.asarray(constraint.phi(np.abs(x))))) * rng.uniform(0.05, 1.2)
    if np.isfinite(constraint.cap) and rng.random() < 0.5:
        level = constraint.cap * float(omega[omega > 0].mean()) * rng.uniform(0.3, d)
    nonnegative = (rng.random(d) < 0.5) & (rng.random() < 0.15) & (one.n_outputs == 1)
    options: dict[str, Any] = {"sample_weight": one.weight, "fit_intercept": one.intercept}
    model: Any
    if one.loss == "multinomial":
        model = MultinomialModel(one.stored(X), one.b, **options)
    elif one.n_outputs > 1:
        model = OneVsRestModel(one.stored(X), one.b, one.loss.split()[1], **options)
    else:
        model = LinearModel(one.stored(X), one.b, one.loss_object, offset=one.offset, **options)
    signs = (np.append(nonnegative, False) if one.intercept else nonnegative) if np.any(nonnegative) else None
    problem = Problem(model, constraint, level, omega, signs)
    extra = [np.ones((n, 1))] if one.intercept else []
    tail = [0.0] if one.intercept else []
    local = Local(
        np.hstack([X, *extra]),
        np.asarray(one.b, float),
        one.loss,
        one.parameter,
        np.ones(n) if one.weight is None else one.weight,
        np.zeros(n) if one.offset is None else one.offset,
        formula,
        level,
        np.append(omega, tail),
        np.append(nonnegative, [False] * len(tail)).astype(np.bool_),
        one.intercept,
        one.n_outputs,
    )
    return Drawn(problem, local)


def solved(seed: int) -> Outcome:
    """One problem, and whether local methods find more than its certificate says is possible."""
    one = drawn(seed)
    problem, local = one.problem, one.local
    outcome = Outcome(seed, "solve", local.loss)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what does not converge says so
        fit = solve(problem, time_limit=SECONDS)
    outcome.seconds = time.process_time() - began
    outcome.status = str(fit.status)
    gain, certificate = fit.certificate.possible_gain, certify(problem, fit.x)
    if not local.obeys(fit.x):
        over = float(local.g(fit.x) - local.level) / max(local.level, 1e-300)
        if over > 1e-18 or local.level == 0 or over <= 0:
            outcome.fail("infeasible", over, f"level exceeded by {over:.1e} of it")
    assert gain is not None and certificate.possible_gain is not None
    psi = local.psi(fit.x)
    if abs(psi - fit.psi) > min(max(gain, 1e-13 * abs(fit.psi)), 1e-9 * (1 + abs(fit.psi))):
        outcome.fail("psi", float(abs(psi - fit.psi)), f"ψ is {psi}, said to be {fit.psi}; possible gain {gain}")
    if fit.status is Status.SOLVED:
        lowest, by = local.lowest_near(fit.x)
        beyond = float(psi - lowest) - max(gain, certificate.possible_gain) - ROUNDING * abs(float(psi))
        if beyond > 0:
            words = f"{by} lowers ψ = {float(psi):.10g} by {float(psi - lowest):.3e}, the possible gain is {gain:.3e}"
            outcome.fail("improved", beyond / max(abs(float(psi)), 1e-300), f"{words}, kkt {fit.certificate.kkt:.1e}")
    # Whether the local methods are any good: coefficients that are 3 % too small are feasible, and can be improved.
    near = 0.97 * fit.x
    lost = float(local.psi(near) - psi)
    if local.obeys(near) and lost > 1e-8 * abs(float(psi)):
        outcome.recovered = float(local.psi(near) - local.lowest_near(near)[0]) / lost
    x = null_fit(problem).x
    at_null = certify(problem, x)
    fell = float(local.psi(x) - local.lowest_near(x)[0])
    assert at_null.possible_gain is not None
    # The bound holds for all moves where loss and constraint are convex; else for moves near x.
    convex = local.constraint[0] == "l1" and local.loss not in ("cauchy", "sigmoid")
    if fell > 1e-6 * abs(float(local.psi(x))) and at_null.possible_gain < fell and (at_null.kkt <= 1e-6 or convex):
        outcome.fail("null", fell, f"ψ falls by {fell:.3e}; kkt {at_null.kkt:.1e}, gain {at_null.possible_gain:.3e}")
    return outcome


# --- the command


def attempted(work: Any, seed: int) -> Outcome:
    """An exception is a failure, too."""
    try:
        outcome: Outcome = work(seed)
    except Exception:
        outcome = Outcome(seed, "fit" if work is fitted else "solve", LOSSES[seed % len(LOSSES)])
        outcome.fail("exception", 1.0, traceback.format_exc())
    return outcome


def table_of(outcomes: Sequence[Outcome], columns: Sequence[str]) -> str:
    """Counts, a row for each loss."""
    lines = [f"{'loss':<26} {'all':>5} {'solved':>6} " + " ".join(f"{name:>10}" for name in columns) + f" {'s':>7}"]
    for loss in [*dict.fromkeys(outcome.loss for outcome in outcomes), None]:
        some = [outcome for outcome in outcomes if loss in (None, outcome.loss)]
        counts = Counter(what for outcome in some for what in outcome.failures)
        ended = sum(outcome.status == "solved" for outcome in some)
        lines.append(
            f"{loss or 'together':<26} {len(some):>5} {ended:>6} "
            + " ".join(f"{counts[name] or '.':>10}" for name in columns)
            + f" {sum(outcome.seconds for outcome in some):>7.1f}"
        )
    if recovered := [outcome.recovered for outcome in outcomes if outcome.recovered is not None]:
        share = float(np.mean(np.array(recovered) >= 0.9))
        lines.append(f"local methods recover at least 90 % of what is lost 3 % away: {share:.1%} of {len(recovered)}")
    lines.append("status: " + ", ".join(f"{n} {name}" for name, n in Counter(o.status for o in outcomes).items()))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code says whether anything failed."""
    assert __doc__
    parser = argparse.ArgumentParser(prog="python -m tests.support.units_study", description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=500, help="of either kind")
    parser.add_argument("--seed", type=int, default=0, help="of the first problem; the others follow")
    parser.add_argument("--what", choices=("both", "fits", "solves"), default="both")
    parser.add_argument("--only", type=int, help="one problem, in words")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    seeds = range(options.seed, options.seed + options.problems) if options.only is None else [options.only]
    failed = False
    halves = [("fits", fitted, ("status", "answer", "flat", "exception"))]
    halves += [("solves", solved, ("improved", "infeasible", "psi", "null", "exception"))]
    for name, work, columns in halves:
        if options.what not in ("both", name):
            continue
        outcomes = []
        for seed in seeds:
            outcome = attempted(work, seed)
            outcomes.append(outcome)
            if outcome.failures or options.only is not None:
                print(outcome.what, seed, outcome.loss, outcome.status, *outcome.words, sep=" · ", flush=True)
        print(f"\n{name}\n{table_of(outcomes, columns)}\n", flush=True)
        failed |= any(set(outcome.failures) - {"flat"} for outcome in outcomes)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
