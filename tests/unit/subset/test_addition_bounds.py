"""What sparse columns gain at most in place of another, without a refit (`column_fits_additions.hpp`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from levelprox import LinearModel, best_subset
from levelprox._kernels import ColumnFits, FitEnd, SwapExamination
from levelprox.subset import swaps

N_PROBLEMS = 300


class Problem:
    """A small random problem: A is the columns of a fit, then those of newcomers."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        n, self.m, self.others = int(rng.integers(5, 80)), int(rng.integers(1, 6)), int(rng.integers(1, 5))
        count, share, kind = self.m + self.others, rng.choice([0.05, 0.1, 0.3, 0.6, 1.0]), rng.integers(4)
        values = [
            rng.standard_normal((count, n)),
            np.ones((count, n)),
            np.abs(rng.standard_normal((count, n))) * 10.0 ** rng.uniform(-3, 3, (count, 1)),
            rng.integers(-2, 3, (count, n)).astype(float),
        ][kind]
        self.A = np.where(rng.random((count, n)) < share, values, 0.0)
        if rng.random() < 0.5:
            self.A[0] = rng.choice([1.0, 0.5, -1.0])
        if rng.random() < 0.2 and self.m > 2:
            self.A[1] = self.A[2] * rng.choice([1, 1 + 1e-9, 2])
        z = self.A.T @ (rng.standard_normal(count) * rng.choice([0.3, 2, 10]))
        b = np.where(z + rng.logistic(size=n) * rng.choice([0.2, 1, 3]) > 0, 1.0, -1.0)
        weight = None if rng.random() < 0.5 else np.where(rng.random(n) < 0.2, 0.0, rng.exponential(size=n)) + 1e-300
        offset = None if rng.random() < 0.6 else rng.standard_normal(n) * rng.choice([0.1, 3])
        self.ridge: list[float] = []
        if rng.random() < 0.4:
            self.ridge = np.where(rng.random(count) < 0.3, 0.0, 10.0 ** rng.uniform(-6, 0, count)).tolist()
        self.fits = ColumnFits("logistic", 0.0, 0.0, 1.0, b, weight, offset)

    def stored(self, columns: list[int]) -> Any:
        """Return columns as the kernels take them; all but the first of the fit are sparse."""
        values, rows = list[np.ndarray](), list[np.ndarray | None]()
        for j in columns:
            places = np.flatnonzero(self.A[j])
            rows.append(None if j == 0 else places)
            values.append(self.A[j] if j == 0 else self.A[j][places])
        sizes = [float(np.abs(self.A[j]).max()) for j in columns]
        return values, rows, sizes, [self.ridge[j] for j in columns] if self.ridge else []

    def fitted(self, columns: list[int]) -> Any:
        values, rows, _, ridge = self.stored(columns)
        return self.fits.fit(values, rows, [0.0] * len(columns), 1e-12, math.inf, ridge=ridge)

    def shows(self, x: list[float], i: int, j: int, psi: float) -> bool:
        """Return whether bounds alone show that ψ with newcomer j in place of i is at least `psi`."""
        examination = SwapExamination(
            self.fits, self.stored(list(range(self.m))), x, psi, 0.0, 0.0, 1e-12, 1e-13, math.inf
        )
        _, _, _, shown, _ = examination.examine(self.stored([self.m + j]), [[i]], 1)  # the fit without i, and no other
        return bool(shown)


def test_bounds_are_below_refits():
    """300 problems with weights, offsets, ridges, separable and dependent columns; against refits of all swaps."""
    shown = possible = 0
    for seed in range(N_PROBLEMS):
        problem = Problem(seed)
        inside = list(range(problem.m))
        end, x, *_ = problem.fitted(inside)
        if end is not FitEnd.FITTED:
            continue
        for i in inside:
            less = [j for j in inside if j != i]
            without = problem.fitted(less)[2]
            for j in range(problem.others):
                psi = problem.fitted([*less, problem.m + j])[2]
                gain = without - psi
                for more in (1e-6, 1e-2, 0.3):
                    if more * gain > 1e-9 * psi + 1e-12:
                        assert not problem.shows(x.tolist(), i, j, psi + more * gain)
                if without > 4 * gain > 1e-8 * without:
                    shown += problem.shows(x.tolist(), i, j, without - 4 * gain)
                    possible += 1
    assert shown >= possible // 2 > 100  # the bound is at most four times what is gained


def words(n: int = 400, d: int = 600, seed: int = 0) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """Return columns with few entries, some of them in samples of one class alone, and two classes."""
    rng = np.random.default_rng(seed)
    X = scipy.sparse.random_array((n, d), density=0.03, rng=rng, format="csr", data_sampler=rng.exponential)
    truth = np.zeros(d)
    truth[:8] = np.resize([3.0, -4.0], 8)
    return X, np.where(X @ truth + 0.7 * rng.logistic(size=n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
def test_all_swaps_of_columns_with_few_entries_are_examined_with_few_refits(ridge: float):
    X, b = words()
    found = best_subset(LinearModel(X, b, "logistic", ridge=ridge, fit_intercept=True), 4)
    assert found.swaps.examined == found.swaps.total == 4 * 596
    assert found.additions is not None and found.additions.examined == found.additions.total == 596
    assert found.n_refits <= 400


def test_all_swaps_are_examined_as_refits_show():
    X, b = words(150, 60, seed=3)
    found = best_subset(LinearModel(X, b, "logistic", fit_intercept=True), 3)
    assert found.swaps.examined == found.swaps.total
    for leaves in found.support:
        for enters in np.setdiff1d(np.arange(60), found.support):
            support = [*np.setdiff1d(found.support, [leaves]), enters]
            other = best_subset(LinearModel(X[:, support], b, "logistic", fit_intercept=True), 3)
            assert other.psi >= found.psi * (1 - 1e-9)


def test_the_number_of_newcomers_that_a_bound_is_computed_for_is_limited(monkeypatch):
    tried, added = [], swaps.SwapSearch._added

    def counted(self, fit, newcomers, *rest):
        found = added(self, fit, newcomers, *rest)
        tried.append(found[1])
        return found

    monkeypatch.setattr(swaps.SwapSearch, "_added", counted)
    without_bounds = lambda self, *_: np.where(self.outside, np.inf, -np.inf)  # noqa: E731
    monkeypatch.setattr(swaps.SwapEstimates, "addition_bounds", without_bounds)
    monkeypatch.setattr(swaps, "_REFIT_WORK", 0)
    monkeypatch.setattr(swaps, "_TOP_SWAPS", 8)
    rng = np.random.default_rng(0)
    first = rng.standard_normal((600, 2))
    X = scipy.sparse.hstack([first, scipy.sparse.random_array((600, 2998), density=0.005, rng=rng)], format="csr")
    b = np.sign(first.sum(axis=1) + rng.logistic(size=600))
    found = best_subset(LinearModel(X, b, "logistic", fit_intercept=True), 2)
    additions = found.certificate.additions
    assert additions.examined < additions.total == 2998
    assert 0 < sum(tried) <= 8 * 16 + swaps._MOST_TOGETHER
