"""g(scale_ · coef_) ≤ level in exact arithmetic, for the results of estimators and of `solve`."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from levelprox import SparseClassifier, SparseRegressor
from levelprox.constraints import L1, MCP, SCAD, Constraint, Exp, Log, Lp, NegativeLp, Rescaled
from tests.support.constraint_cases import PAPER
from tests.support.estimator_cases import may_diverge
from tests.support.long_runs import LONG

DIGITS = 60


def exact_phi(constraint: Constraint, t: mpmath.mpf) -> mpmath.mpf:
    """φ(t) by the formulas of the paper."""
    if isinstance(constraint, Rescaled):
        return exact_phi(constraint.constraint, t / mpmath.mpf(constraint.factor))
    lam, h = PAPER[type(constraint)](constraint)
    return lam * t - h(t)[0]


def exact_level(constraint: Constraint, sizes: list[mpmath.mpf], weights) -> mpmath.mpf:
    return mpmath.fsum(
        mpmath.mpf(float(w)) * exact_phi(constraint, t) for t, w in zip(sizes, weights, strict=True) if t
    )


def excess(model) -> float:
    """By how much g(scale_ · coef_) exceeds the level, relative to it: 0 or less where the level holds."""
    with mpmath.workdps(DIGITS):
        coef = np.atleast_2d(model.coef_).astype(float)
        squares = [
            sum((Fraction(float(c)) * Fraction(float(s))) ** 2 for c in coef[:, j]) for j, s in enumerate(model.scale_)
        ]
        sizes = [mpmath.sqrt(mpmath.mpf(q.numerator) / mpmath.mpf(q.denominator)) for q in squares]
        weights = np.ones(len(sizes)) if model.feature_weight is None else model.feature_weight
        above = exact_level(model.constraint_, sizes, weights) - mpmath.mpf(model.level_)
        return float(above / mpmath.mpf(model.level_ or 1.0)) if above > mpmath.mpf(10) ** (10 - DIGITS) else 0.0


def objects(rng: np.random.Generator) -> list[Constraint]:
    """Constraints with parameters as they come, whose cap is no round number."""
    a, b = 10.0 ** rng.uniform(-1.5, 0.5, 2)
    return [MCP(a, b), SCAD(a, 1.5 + b), SCAD(a, 3.7, b), Exp(3 / a), NegativeLp(-b, 1 / a), L1(a), Log(b), Lp(0.4, a)]


NAMES = ["mcp", "scad", "exp", "negative_lp", "log", "lp", "l1"]


def drawn(seed: int):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(20, 60)), int(rng.integers(2, 9))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-2, 2, d) + rng.standard_normal(d)
    signal = X / X.std(axis=0) @ (rng.standard_normal(d) * 10.0 ** rng.uniform(-1, 1, d)) + rng.standard_normal(n)
    constraint = NAMES[seed % len(NAMES)] if seed % 2 else objects(rng)[seed // 2 % 8]
    cap = getattr(constraint, "cap", 1.0)
    unit = cap if np.isfinite(cap) else 1.0
    level = float(int(rng.integers(1, d + 1)) * unit if rng.random() < 0.7 else rng.uniform(0.2, d) * unit)
    options = {
        "constraint": constraint,
        "level": level,
        "standardize": bool(rng.random() < 0.5),
        "fit_intercept": bool(rng.random() < 0.7),
    }
    if rng.random() < 0.25:
        options["feature_weight"] = rng.choice([0.0, 0.3, 1.0, 1.0, 1.7], d)
    dtype = np.float32 if rng.random() < 0.2 else np.float64
    kind = rng.random()
    if kind < 0.5:
        return SparseRegressor(tol=1e-5, **options), X.astype(dtype), signal
    y = (signal > np.median(signal)).astype(int) if kind < 0.8 else np.digitize(signal, np.quantile(signal, [0.3, 0.7]))
    return SparseClassifier(tol=1e-4, **options), X.astype(dtype), y


@pytest.mark.cpu_budget(8, "twenty fits, and their levels in 60 digits")
@pytest.mark.parametrize("part", range(8))
def test_the_level_holds_in_exact_arithmetic(part):
    for seed in range(part, 2000 if LONG else 160, 8):
        model, X, y = drawn(seed)
        with may_diverge():
            model.fit(X, y)
        above = excess(model)
        assert above <= 0, f"seed {seed}: {model} exceeds its level by {above:.2g} of it"
