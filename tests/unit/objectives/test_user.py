"""A user's ψ as a subclass of `Function` or `Stochastic`."""

from __future__ import annotations

import numpy as np
import pytest

from levelprox import Function, Problem, Stochastic, constraints, solve


def quadratic(x):
    return float((x - 1) @ (x - 1)), 2 * (x - 1)


@pytest.mark.parametrize(
    ("name", "value"), [("dimension", 3), ("weak_convexity", 0.0), ("smoothness", 2.0), ("nonsmoothness", 0.0)]
)
def test_a_constant_may_be_a_property_of_a_subclass(name, value):
    kind = type("Own", (Function,), {name: property(lambda self: value)})
    objective = kind(quadratic, 3)
    assert getattr(objective, name) == value
    result = solve(Problem(objective, constraints.L1(), 1.5))
    np.testing.assert_allclose(result.x, 0.5, atol=1e-6)


def test_the_noise_may_be_a_property_of_a_subclass():
    kind = type("Own", (Stochastic,), {"noise": property(lambda self: 0.5)})
    objective = kind(lambda x, rng: 2 * (x - 1), 3, noise=1.0, smoothness=2.0)
    assert objective.noise == 0.5
    assert Stochastic(objective.oracle, 3, noise=1.0, smoothness=2.0).noise == 1.0
