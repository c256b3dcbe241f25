"""What the tests run over: every constraint, loss, design and subsolver there is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from levelprox.constraints import L1, MCP, SCAD, Constraint, Custom, Exp, Log, Lp, NegativeLp

Double = NDArray[np.float64]


def random_point(seed: int, d: int = 30) -> Double:
    """Return a point as the method meets them: about half zeros, the rest of either sign and any size."""
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], d) * 10.0 ** rng.uniform(-3, 2, d)
    return np.where(rng.random(d) < 0.5, 0.0, x)


# Two convex h for Custom, at module level so that the constraints can be pickled.
def huber(t: Double) -> Double:
    return np.where(t <= 1, np.minimum(t, 1) ** 2 / 2, t - 0.5)


def huber_derivative(t: Double) -> Double:
    return np.minimum(t, 1)


def pseudo_huber(t: Double) -> Double:
    return t * (t / (1 + np.hypot(1, t)))  # sqrt(1 + t**2) - 1 without cancellation or overflow


def pseudo_huber_derivative(t: Double) -> Double:
    return t / np.hypot(1, t)


CONSTRAINTS: list[Constraint] = [
    L1(),
    L1(2.5),
    MCP(2, 5),
    MCP(2, 0.25),
    MCP.from_threshold(0.3),
    SCAD(1, 3.7),
    SCAD(2, 1.5, 3),
    SCAD.from_threshold(0.7),
    Exp(1),
    Exp(5),
    Log(1),
    Log(0.01),
    Log(1000),
    Lp(0.5, 0.1),
    Lp(0.9, 1e-3),
    Lp(0.1, 2),
    NegativeLp(-1, 1),
    NegativeLp(-0.1, 20),
    NegativeLp(-8, 0.5),
    Custom(1, huber, huber_derivative, 1, cap=0.5),
    Custom(1, pseudo_huber, pseudo_huber_derivative, 1, cap=1),
    Custom(1.5, pseudo_huber, pseudo_huber_derivative, 1),
]
