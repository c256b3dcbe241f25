"""At most k features of large data: second-order models and swaps, without other starts, and passes over few rows."""

from __future__ import annotations

import numpy as np
import pytest

from levelprox import LinearModel, Status, _kernels, best_subset
from levelprox.losses import Cauchy, Huber, Loss, Sigmoid, SquaredHinge
from levelprox.subset import smooth_search

SUPPORT = np.array([1, 4, 8])


@pytest.mark.parametrize("loss", [Huber(1.0), SquaredHinge(), Cauchy(1.0)], ids=lambda loss: loss.name)
def test_large_data_need_no_other_starts(loss: Loss, monkeypatch: pytest.MonkeyPatch):
    """ψ and the features are those that all starts lead to, without a continuation; the rule is applied to few data."""
    rng = np.random.default_rng(5)
    n, d = 3000, 10
    X = rng.standard_normal((n, d)) + rng.standard_normal((n, 1))  # correlated columns
    z = X[:, SUPPORT] @ [1.0, -1.0, 0.3] + rng.standard_normal(n)
    objective = LinearModel(X, np.sign(z) if loss.kind == "margin" else z, loss, fit_intercept=True)
    with monkeypatch.context() as few:
        few.setattr(smooth_search, "has_large_models", lambda problem: True)
        few.setattr(smooth_search, "best_by_continuation", lambda *args: pytest.fail("a continuation"))
        found = best_subset(objective, SUPPORT.size)
    every = best_subset(objective, SUPPORT.size)
    assert found.status is Status.SOLVED and found.support.tolist() == every.support.tolist() == SUPPORT.tolist()
    assert found.psi <= every.psi * (1 + 1e-12)


def test_rows_without_slope_are_left_out_of_sums():
    """Far from 0 most samples of a bounded loss have no slope: the end has the ψ and the gradient of all samples."""
    rng = np.random.default_rng(1)
    n, m, loss = 40_000, 3, Sigmoid()
    A = rng.standard_normal((m, n))
    b = np.where(A.sum(axis=0) + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    kernel = _kernels.ColumnFits(*loss.kernel, loss.self_concordance, b, None, None, False, False, loss.smoothness)
    columns = list(A)
    end, x, psi, margins, hessian, *_ = kernel.fit(columns, [None] * m, [40.0] * m, 1e-9, np.inf)
    assert end is _kernels.FitEnd.FITTED
    assert np.mean(np.abs(margins) > 60) > 0.5  # most rows are left out
    np.testing.assert_allclose(margins, x @ A, rtol=1e-9, atol=1e-7)
    assert psi == pytest.approx(loss.value(margins, b), rel=1e-14)
    assert np.max(np.abs(A @ loss.derivative(margins, b))) <= 1e-9
    bend = np.abs(loss.curvature(margins, b))
    np.testing.assert_allclose(hessian, (A * bend) @ A.T, rtol=1e-9, atol=1e-18)
    assert psi < loss.value(40.0 * A.sum(axis=0), b)
