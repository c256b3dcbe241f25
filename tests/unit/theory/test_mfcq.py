"""Where MFCQ fails, as docs/theory.md says: at η = 0 for every φ, at whole numbers of caps for MCP and SCAD alone.

MFCQ at x with g(x) = η requires a direction along which g decreases to first order. Both g and its slope along a
direction are taken from values of g alone.
"""

from __future__ import annotations

import numpy as np
import pytest

from levelprox.constraints import L1, MCP, SCAD, Exp, Log, Lp, NegativeLp

EVERY = [L1(2.0), MCP(1.0, 2.0), SCAD(1.0, 3.0), Exp(1.5), Log(2.0), Lp(0.5, 0.2), NegativeLp(-1.5, 2.0)]
NOT_REACHED = [Exp(0.7), Exp(1.5), NegativeLp(-0.5, 1.0), NegativeLp(-2.0, 3.0)]
REACHED = [MCP(1.0, 2.0), MCP(2.0, 0.5), SCAD(1.0, 3.0)]
D = 5


def slope_along(constraint, x, direction, step=1e-7):
    """(g(x + s d) − g(x))/s for a small s."""
    return (constraint.value(x + step * direction) - constraint.value(x)) / step


def steepest(constraint, x):
    """The least slope of g at x over directions of ℓ∞-norm 1: g is a sum, so each coordinate for itself."""
    least = 0.0
    for j in range(x.size):
        unit = np.eye(x.size)[j]
        least += min(0.0, slope_along(constraint, x, unit), slope_along(constraint, x, -unit))
    return least


def on_level(constraint, level, rng):
    """A point with g(x) = level: a random direction, scaled by bisection."""
    direction = rng.standard_normal(D)
    low, high = 0.0, 1.0
    while constraint.value(high * direction) < level:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if constraint.value(middle * direction) < level else (low, middle)
    return low * direction


@pytest.mark.parametrize("constraint", [*EVERY, *NOT_REACHED], ids=str)
def test_at_level_0_the_origin_alone_is_feasible_and_mfcq_fails_there(constraint):
    origin, rng = np.zeros(D), np.random.default_rng(0)
    assert constraint.value(origin) == 0
    for size in (1e-9, 1e-3, 1.0, 1e3):
        assert all(constraint.value(size * rng.standard_normal(D)) > 0 for _ in range(20))
    assert steepest(constraint, origin) == 0
    # Along every direction g rises by λ‖d‖₁: the subdifferential is the cube [−λ, λ]^d, with 0 in its middle.
    for direction in rng.standard_normal((20, D)):
        expected = constraint.lam * np.sum(np.abs(direction))
        assert slope_along(constraint, origin, direction) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("caps", [0.01, 0.5, 1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("constraint", NOT_REACHED, ids=str)
def test_a_cap_that_is_not_reached_leaves_mfcq_at_every_level_above_0(constraint, caps):
    """At whole numbers of caps, too; there only the bound that holds for all points at once is lost."""
    rng = np.random.default_rng(1)
    for _ in range(10):
        x = on_level(constraint, caps * constraint.cap, rng)
        assert steepest(constraint, x) < -1e-4
        assert slope_along(constraint, x, -x / np.max(np.abs(x))) < 0


@pytest.mark.parametrize("constraint", [L1(2.0), Log(2.0), Lp(0.5, 0.2)], ids=str)
def test_without_a_cap_mfcq_holds_at_every_level_above_0(constraint):
    rng = np.random.default_rng(2)
    for level in (0.01, 1.0, 4.0):
        assert all(steepest(constraint, on_level(constraint, level, rng)) < -1e-4 for _ in range(10))


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("constraint", REACHED, ids=str)
def test_a_cap_that_is_reached_has_points_without_mfcq_at_whole_numbers_of_caps(constraint, count):
    x = np.where(np.arange(D) < count, 1e3, 0.0)
    assert constraint.value(x) == pytest.approx(count * constraint.cap)
    assert steepest(constraint, x) == 0
    between = on_level(constraint, (count - 0.5) * constraint.cap, np.random.default_rng(3))
    assert steepest(constraint, between) < -1e-4
