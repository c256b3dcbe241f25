"""The slow, obvious twin of every compiled kernel. Nothing here is clever on purpose."""

from __future__ import annotations

import math

# --- losses: one sample at a time, formulas as in the docstrings, moderate margins only -------------


def loss(name, parameter, z, b):
    """ℓ(z, b)."""
    r = b - z
    if name == "squared":
        return r**2
    if name == "logistic":
        return math.log(1 + math.exp(-b * z))
    if name == "huber":
        return r**2 / 2 if abs(r) <= parameter else parameter * (abs(r) - parameter / 2)
    if name == "absolute":
        return abs(r)
    assert name == "cauchy"
    return parameter**2 / 2 * math.log(1 + (r / parameter) ** 2)


def loss_slope(name, parameter, z, b):
    """dℓ/dz."""
    r = b - z
    if name == "squared":
        return -2 * r
    if name == "logistic":
        return -b / (1 + math.exp(b * z))
    if name == "huber":
        return -r if abs(r) <= parameter else -parameter * r / abs(r)
    if name == "absolute":
        return 0.0 if r == 0 else -r / abs(r)
    assert name == "cauchy"
    return -r / (1 + (r / parameter) ** 2)


def loss_bend(name, parameter, z, b):
    """d²ℓ/dz²."""
    r = b - z
    if name == "squared":
        return 2.0
    if name == "logistic":
        p = 1 / (1 + math.exp(-z))
        return p * (1 - p)
    if name == "huber":
        return 1.0 if abs(r) <= parameter else 0.0
    assert name == "cauchy"
    q = r / parameter
    return (1 - q**2) / (1 + q**2) ** 2


def loss_value(name, parameter, z, b, weight):
    """Σ s_i ℓ(z_i, b_i) / Σ s_i."""
    total = math.fsum(s * loss(name, parameter, zi, bi) for zi, bi, s in zip(z, b, weight, strict=True))
    return total / math.fsum(weight)


def loss_derivative(name, parameter, z, b, weight):
    """Gradient of `loss_value` with respect to z."""
    total = math.fsum(weight)
    return [s * loss_slope(name, parameter, zi, bi) / total for zi, bi, s in zip(z, b, weight, strict=True)]


def loss_curvature(name, parameter, z, b, weight):
    """Diagonal of the Hessian of `loss_value` with respect to z."""
    total = math.fsum(weight)
    return [s * loss_bend(name, parameter, zi, bi) / total for zi, bi, s in zip(z, b, weight, strict=True)]
