"""Degenerate levels: the common unit of weights, the nearest level, and the warning of a run."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import Function, Problem, solve, theory
from levelprox.constraints import MCP


@pytest.mark.parametrize(
    ("weights", "unit"),
    [
        ([2.0, 2.0], 2.0),
        ([0.0, 3.0, 1.0], 1.0),
        ([2.0, 3.0], 1.0),
        ([0.1, 0.3, 0.7], 0.1),
        ([6.0, 10.0, 15.0], 1.0),
        ([1.0, math.sqrt(2)], None),
        ([0.0], None),
    ],
)
def test_the_common_unit_of_weights(weights, unit):
    assert theory.common_unit(weights) == (None if unit is None else pytest.approx(unit, rel=1e-13))


@settings(max_examples=60, deadline=None)
@given(
    weights=st.lists(st.integers(0, 7), min_size=1, max_size=7),
    q=st.sampled_from([0.1, 1.0, 3.0]),
    share=st.floats(0, 40),
)
def test_the_nearest_degenerate_level_is_the_nearest_sum(weights, q, share):
    constraint = MCP(1.0, 2.0)  # cap 1
    problem = Problem(Function(lambda x: (0.0, 0 * x), len(weights)), constraint, q * share, q * np.array(weights))
    level, unit, check = theory.degenerate_level(problem)
    sums = {sum(part) for n in range(len(weights) + 1) for part in itertools.combinations(weights, n)}
    if not any(weights):
        assert (level, check) == (None, "no degenerate level")
        return
    assert check == "checked"
    assert unit == pytest.approx(q * math.gcd(*weights))
    assert abs(level - problem.level) == pytest.approx(min(abs(q * s - problem.level) for s in sums), abs=1e-12)
    assert min(abs(q * s - level) for s in sums) <= 1e-12


def test_degenerate_levels_of_large_problems_are_found_fast():
    weights = np.where(np.arange(200_000) % 2, 2.0, 3.0)
    problem = Problem(Function(lambda x: (0.0, 0 * x), weights.size), MCP(1.0, 2.0), 90_000.4, weights)
    assert theory.degenerate_distance(problem) == (pytest.approx(0.4), "checked")
    problem = Problem(Function(lambda x: (0.0, 0 * x), weights.size), MCP(1.0, 2.0), 150_000.4, weights)
    assert theory.degenerate_distance(problem)[0] == pytest.approx(0.4, abs=1e-9)
    unequal = Problem(problem.objective, MCP(1.0, 2.0), 5.0, weights + np.where(weights > 2, 0, 2e4))
    assert theory.degenerate_distance(unequal) == (None, "not checked: unequal weights")


@pytest.mark.parametrize(("caps", "warned"), [(2.0, False), (3.0, True), (7.0, False)])
def test_a_run_warns_of_a_level_that_weighted_coordinates_can_saturate(caps, warned):
    """With weights 1, 3, 3 a level of 2 caps is safe, one of 3 is not, and one of 7 holds nothing back."""
    target = np.array([0.3, -0.2, 0.1])
    fun = Function(lambda x: (0.5 * float((x - target) @ (x - target)), x - target), 3, smoothness=1.0)
    problem = Problem(fun, MCP(1.0, 2.0), caps, [1.0, 3.0, 3.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solve(problem, max_iter=0)
    assert any("multiplier may explode" in str(w.message) for w in caught) == warned


# --- bounds and the first level ----------------------------------------------------------------------
