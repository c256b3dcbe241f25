"""The check of every step in conftest.py is in effect: it finds planted faults."""

from __future__ import annotations

import numpy as np
import pytest

from levelprox import LinearModel, Problem, constraints, solve


@pytest.mark.parametrize(
    ("name", "fault"),
    [("is_feasible", lambda self, x: False), ("g", lambda self, x: 1e9)],
    ids=["signs or level", "level of the step"],
)
def test_a_step_that_breaks_its_level_fails_the_test(monkeypatch, name, fault):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6))
    model = LinearModel(X, X[:, 0] - X[:, 1] + 0.1 * rng.standard_normal(40))
    problem = Problem(model, constraints.MCP.from_threshold(0.5), 1.5)
    assert solve(problem, start="direct").success
    monkeypatch.setattr(Problem, name, fault)
    with pytest.raises(AssertionError) as caught:
        solve(problem, start="direct")
    assert any(entry.name == "watched" for entry in caught.traceback)
