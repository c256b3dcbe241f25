"""Losses by name: value, slope and curvature in z, written out without code of levelprox."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from tests.support.subset_problems import Double


def loss_value(name: str, parameter: float, z: Any, b: Any) -> Any:
    """ℓ(z, b) of every sample, in the precision of z."""
    r = b - z
    if name == "squared":
        return r * r
    if name == "logistic":
        return np.logaddexp(0, -b * z)
    if name == "poisson":
        return np.exp(z) - b * z
    if name == "gamma":
        return z + b * np.exp(-z)
    if name == "huber":
        return np.where(abs(r) <= parameter, r * r / 2, parameter * (abs(r) - parameter / 2))
    if name == "squared_hinge":
        return np.maximum(1 - b * z, 0) ** 2
    if name == "absolute":
        return abs(r)
    if name == "quantile":
        return np.maximum(parameter * r, (parameter - 1) * r)
    if name == "hinge":
        return np.maximum(1 - b * z, 0)
    if name == "sigmoid":
        e = np.exp(-abs(z))
        return np.where(b * z > 0, e, 1) / (1 + e)
    assert name == "cauchy"
    return parameter**2 / 2 * np.log1p((r / parameter) ** 2)


def loss_slope(name: str, parameter: float, z: Double, b: Double) -> Double:
    """dℓ/dz; at a kink one of the subgradients."""
    r = b - z
    if name == "squared":
        return -2 * r
    if name == "logistic":
        return -b * expit(-b * z)
    if name == "poisson":
        return np.exp(z) - b
    if name == "gamma":
        return 1 - b * np.exp(-z)
    if name == "huber":
        return -np.clip(r, -parameter, parameter)
    if name == "squared_hinge":
        return -2 * b * np.maximum(1 - b * z, 0)
    if name == "absolute":
        return -np.sign(r)
    if name == "quantile":
        return np.where(r > 0, -parameter, 1 - parameter)
    if name == "hinge":
        return np.where(b * z < 1, -b, 0.0)
    if name == "sigmoid":
        return -b * expit(z) * expit(-z)
    assert name == "cauchy"
    return -r / (1 + (r / parameter) ** 2)


def loss_bend(name: str, parameter: float, z: Double, b: Double) -> Double:
    """d²ℓ/dz²."""
    if name == "squared":
        return np.full_like(z, 2.0)
    if name == "logistic":
        return expit(z) * expit(-z)
    if name == "poisson":
        return np.exp(z)
    if name == "gamma":
        return b * np.exp(-z)
    if name == "huber":
        return (abs(b - z) <= parameter).astype(float)
    if name == "squared_hinge":
        return 2.0 * (b * z < 1)
    if name == "sigmoid":
        p = expit(-b * z)
        return p * (1 - p) * (1 - 2 * p)
    assert name == "cauchy"
    q = ((b - z) / parameter) ** 2
    return (1 - q) / (1 + q) ** 2


def loss_majorant(name: str, parameter: float, z: Double, b: Double) -> Double:
    """A curvature that is not far too small where ℓ'' underflows: of a parabola above ℓ, where there is one."""
    size = np.maximum(abs(z), 1e-8)
    if name == "logistic":
        return np.tanh(size / 2) / (2 * size)
    if name == "poisson":
        return np.maximum(np.exp(np.minimum(z, 600)), b)
    if name == "gamma":
        return np.maximum(b * np.exp(np.minimum(-z, 600)), 1.0)
    if name == "huber":
        return parameter / np.maximum(abs(b - z), parameter)
    if name == "squared_hinge":
        return np.full_like(z, 2.0)
    if name == "sigmoid":
        return expit(size) * expit(-size) / size + 1e-3
    assert name == "cauchy"
    return 1 / (1 + ((b - z) / parameter) ** 2)


def least_loss(name: str, b: Double) -> Double:
    """The infimum of ℓ(·, b)."""
    if name == "poisson":
        return b - b * np.log(np.where(b > 0, b, 1.0))
    if name == "gamma":
        return 1 + np.log(b)
    return np.zeros(b.shape)


def kink_slopes(name: str, parameter: float, b: Double) -> tuple[Double, Double]:
    """Slopes of ℓ left and right of its kink z = b."""
    if name == "hinge":
        return np.minimum(-b, 0.0), np.maximum(-b, 0.0)
    q, size = (0.5, 2.0) if name == "absolute" else (parameter, 1.0)
    return np.full_like(b, -q * size), np.full_like(b, (1 - q) * size)
