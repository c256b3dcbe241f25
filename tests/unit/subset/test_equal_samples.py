"""Samples that are equal in all that a fit depends on are fitted as one row, with the same result."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import LinearModel, _kernels, best_subset
from levelprox._kernels import FitEnd, SwapEnd, SwapExamination

KINDS = ["squared", "logistic", "poisson", "huber", "squared_hinge"]


def columns_of(rng, n: int, m: int) -> tuple[list, list]:
    """Return dense and sparse columns of a few values each; some of the sparse ones have many values."""
    values, rows = [], []
    for _ in range(m):
        levels = rng.standard_normal(int(rng.integers(1, 6)))
        column = levels[rng.integers(0, levels.size, n)]
        if rng.random() < 0.5:
            values.append(column)
            rows.append(None)
            continue
        places = np.flatnonzero(rng.random(n) < rng.choice([0.0, 0.02, 0.2]))
        many = rng.random() < 0.3
        values.append(rng.standard_normal(places.size) if many else column[places])
        rows.append(places)
    return values, rows


def dense(values, rows, n: int) -> np.ndarray:
    """Return all entries of columns."""
    full = np.zeros((len(values), n))
    for j, (column, places) in enumerate(zip(values, rows, strict=True)):
        full[j, slice(None) if places is None else places] = column
    return full


def fits_of(loss: str, b, weight, offset) -> _kernels.ColumnFits:
    return _kernels.ColumnFits(loss, 1.0, 0.0, {"squared": 0.0, "logistic": 1.0}.get(loss, math.inf), b, weight, offset)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), loss=st.sampled_from(KINDS))
def test_fits_over_groups_are_those_over_all_samples(seed, loss):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(260, 700)), int(rng.integers(1, 5))
    values, rows = columns_of(rng, n, m)
    b = rng.choice([-1.0, 1.0], n) if loss in ("logistic", "squared_hinge") else rng.integers(0, 4, n).astype(float)
    weight = rng.integers(0, 3, n) + rng.choice([0.0, 0.5]) if rng.random() < 0.5 else None
    offset = rng.choice([0.0, 0.25], n) if rng.random() < 0.5 else None
    ridge = [0.01] * m if rng.random() < 0.5 else []
    # A last column that separates all samples, with the coefficient 0, keeps every row.
    whole, grouped = np.append(dense(values, rows, n), [np.arange(n) * 1e-3], axis=0), fits_of(loss, b, weight, offset)
    begin = (0.1 * rng.standard_normal(m)).tolist()
    first = grouped.fit(values, rows, begin, 1e300, -1e300, ridge=ridge)
    held = [*ridge, 0.0] if ridge else []
    every = grouped.fit(list(whole), [None] * (m + 1), [*begin, 0.0], 1e300, -1e300, ridge=held)
    if not (first[0] == every[0] == FitEnd.NOT_BELOW):
        return  # columns that depend on each other are fitted in a basis
    assert first[2] == pytest.approx(every[2], rel=1e-13)
    np.testing.assert_allclose(first[3][:n], every[3][:n], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(first[4], every[4][:m, :m], rtol=1e-11, atol=1e-14)
    assert first[6] == pytest.approx(every[6], rel=1e-9)
    end, x, psi, margins, *_ = grouped.fit(values, rows, begin, 1e-9, math.inf, ridge=ridge)
    if end is FitEnd.FITTED:
        assert margins.size == n + (m if ridge else 0)
        at = (0.0 if offset is None else offset) + x @ dense(values, rows, n)
        np.testing.assert_allclose(margins[:n], at, rtol=1e-9, atol=1e-9)
        assert psi <= first[2] * (1 + 1e-12) + 1e-12


@pytest.mark.parametrize("shift", [0.0, 1e-9])
def test_swaps_over_groups_are_those_over_all_samples(shift):
    """A shift of the offsets that separates all samples changes no answer."""
    rng = np.random.default_rng(5)
    n, m, others = 600, 4, 6
    A = (rng.random((m + others, n)) < 0.3).astype(float)
    b = np.where(A[:3].sum(axis=0) + rng.logistic(size=n) > 1, 1.0, -1.0)
    fits = fits_of("logistic", b, None, np.arange(n) * shift)
    inside, rest = ([*A[:m]], [None] * m, [1.0] * m, []), ([*A[m:]], [None] * others, [1.0] * others, [])
    _, x, psi, _, _, _, resolution = fits.fit(*inside[:2], [0.0] * m, 1e-9, math.inf)
    figures = psi, resolution, 1e-10 * psi, 1e-9, 1e-13
    examination = SwapExamination(fits, inside, x.tolist(), *figures, 1.0)
    end, last, _, shown, _ = examination.examine(rest, [list(range(m))] * others, 10**6)
    assert (end, last, shown) == (SwapEnd.LOWER, 0, 0) or (end, shown) == (SwapEnd.EXAMINED, m * others)
    best = fits.best_addition(inside, x.tolist(), rest, [math.inf] * others, 0.0, *figures, 10**6)
    _, tried, _, shown, place, gain = best
    assert tried == shown == others
    larger = [fits.fit([*A[:m], A[m + j]], [None] * (m + 1), [0.0] * (m + 1), 1e-9, math.inf)[2] for j in range(others)]
    assert place == int(np.argmin(larger)) and gain == pytest.approx(psi - min(larger), rel=1e-6)


def test_repeated_samples_have_the_answer_of_weights():
    rng = np.random.default_rng(0)
    X = (rng.random((80, 12)) < 0.3).astype(float)
    y = np.where(X[:, :3].sum(axis=1) + rng.logistic(size=80) > 1, 1.0, -1.0)
    times = rng.integers(5, 9, 80)
    repeated = best_subset(LinearModel(np.repeat(X, times, axis=0), np.repeat(y, times), "logistic"), 4)
    weighted = best_subset(LinearModel(X, y, "logistic", sample_weight=times), 4)
    assert repeated.support.tolist() == weighted.support.tolist()
    assert repeated.psi == pytest.approx(weighted.psi, rel=1e-12)
    np.testing.assert_allclose(repeated.x, weighted.x, rtol=1e-8)
