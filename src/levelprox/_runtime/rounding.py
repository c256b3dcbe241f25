"""Products and sums of floating-point numbers, rounded to one side: bounds that hold in exact arithmetic."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Double = NDArray[np.float64]

_SPLIT = 134217729.0  # 2^27 + 1
_LARGE, _SMALL = 2.0**970, 2.0**-900  # beyond these the parts of a product leave the floating-point range


def product_tail(a: Double, b: Double, product: Double) -> Double:
    """Return a·b − product without rounding, for product = a·b rounded (Dekker); NaN if it cannot be computed."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        a_head, b_head = _head(a), _head(b)
        a_tail, b_tail = a - a_head, b - b_head
        tail = ((a_head * b_head - product) + a_head * b_tail + a_tail * b_head) + a_tail * b_tail
        in_range = (np.maximum(np.abs(a), np.abs(b)) < _LARGE) & (np.abs(product) > _SMALL)
    return np.where(in_range, tail, np.where((a == 0) | (b == 0), 0.0, np.nan))


def products_above(a: Double, b: Double) -> Double:
    """Return a·b ≥ 0, each rounded up."""
    with np.errstate(over="ignore", under="ignore"):
        product = a * b
    tail = product_tail(a, b, product)
    return np.where(tail <= 0, product, np.nextafter(product, np.inf))


def sum_above(terms: Double) -> float:
    """Return the sum of nonnegative numbers, rounded up."""
    values: list[float] = terms.tolist()
    try:
        total = math.fsum(values)
        above = math.isfinite(total) and math.fsum([*values, -total]) > 0
    except OverflowError:
        return math.inf
    return math.nextafter(total, math.inf) if above else total


def _head(a: Double) -> Double:
    scaled = _SPLIT * a
    return np.asarray(scaled - (scaled - a), np.float64)
