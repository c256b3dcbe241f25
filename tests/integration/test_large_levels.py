"""The default method at levels with room for thousands of features."""

from __future__ import annotations

import numpy as np
import pytest

from levelprox import LinearModel, Problem
from levelprox.constraints import MCP, Log
from levelprox.methods.level_options import MOST_FOR_NEWTON, _chosen


def model(d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, d))
    return LinearModel(X, np.sign(X[:, 0] + rng.logistic(size=60)), "logistic")


@pytest.mark.parametrize(
    ("d", "constraint", "caps", "weights", "name"),
    [
        (1200, MCP(1.0, 0.1), 999.5, None, "newton"),
        (1200, MCP(1.0, 0.1), 1000.5, None, "spectral"),
        (900, MCP(1.0, 0.1), 1e6, None, "newton"),  # no more features than that
        (1200, MCP(1.0, 0.1), 600.5, 0.5, "spectral"),  # at half the price
        (1200, MCP(1.0, 0.1), 600.5, 0.0, "newton"),  # for nothing
        (1200, Log(2.0), 1e6, None, "newton"),
    ],
)
def test_the_automatic_start_depends_on_the_room_of_the_level(d, constraint, caps, weights, name):
    level = caps * (constraint.cap if np.isfinite(constraint.cap) else 1.0)
    prices = None if weights is None else np.full(d, weights) if weights else np.where(np.arange(d) == 3, 0.0, 1.0)
    problem = Problem(model(d), constraint, level, weights=prices)
    assert MOST_FOR_NEWTON == 1000
    assert _chosen("auto", problem).name == name
    assert _chosen("newton", problem).name == "newton"
