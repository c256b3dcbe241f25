"""Vertices over working sets: they are those over all features, and end runs on sparse data."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from levelprox import LinearModel, Problem, Status, solve
from levelprox.certificate.null_model import null_fit
from levelprox.constraints import L1, MCP
from levelprox.methods import nonsmooth_vertex
from levelprox.methods.nonsmooth_vertex import can_end_at_a_vertex, vertex_near


def sparse_classes(n: int, d: int, density: float) -> tuple[scipy.sparse.csc_array, np.ndarray]:
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((n, d), density=density, rng=rng, format="csc", data_sampler=rng.standard_normal)
    z = X[:, :8] @ np.full(8, 3.0) + 0.1 * rng.standard_normal(n)
    return X, np.where(z > 0, 1.0, -1.0)


@pytest.mark.parametrize("loss", ["hinge", "absolute"])
def test_working_sets_lead_to_the_vertex_over_all_features(loss: str, monkeypatch: pytest.MonkeyPatch):
    X, b = sparse_classes(60, 200, 0.1)
    problem = Problem(LinearModel(X, b, loss, fit_intercept=True), L1(), 2.0)
    every = vertex_near(problem, np.zeros(problem.dimension), True, 10.0)
    monkeypatch.setattr(nonsmooth_vertex, "_ENTRIES", 0)
    assert not can_end_at_a_vertex(problem)
    args = (problem, np.zeros(problem.dimension), True, null_fit(problem), 1e-9)
    found = nonsmooth_vertex._vertex_on_working_sets(*args, 10.0)
    assert every is not None and found is not None
    assert found.psi == pytest.approx(every.psi, rel=1e-9)
    assert problem.is_feasible(found.x)
    assert nonsmooth_vertex._vertex_on_working_sets(*args, 0.0) is None


def test_hinge_loss_of_sparse_data_ends_at_a_vertex():
    """Smoothing alone converges slowly: large coefficients cost nothing, and few samples decide each."""
    X, b = sparse_classes(1000, 500, 0.01)
    problem = Problem(LinearModel(X, b, "hinge"), MCP(1.0, 2.0), 17.0)
    assert not can_end_at_a_vertex(problem)
    result = solve(problem, tol=1e-6, max_iter=150)
    assert result.status is Status.SOLVED and result.certificate.kkt <= 1e-9
