"""Xx in twice the precision, for values that are reported: terms of a margin may be far larger than their sum."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from levelprox._runtime.rounding import product_tail
from levelprox._typing import Vector
from levelprox.designs._base import Design
from levelprox.designs.intercept import InterceptDesign
from levelprox.designs.scaled import ScaledDesign


def precise_matvec(design: Design, x: Vector, offset: Vector | None = None) -> Vector:
    """Return Xx + offset, summed in double-double arithmetic; one pass over the columns with x_j ≠ 0.

    Entries of centred columns are centred before they are multiplied, and have a relative error of an ulp or two.
    """
    total = np.zeros(design.shape[0]) if offset is None else offset.astype(np.float64)
    rest = np.zeros(design.shape[0])
    for column, factor in _terms(design, x):
        product = column * factor
        tail = product_tail(column, np.full_like(column, factor), product)
        new = total + product
        of_total = new - product
        rest += (total - of_total) + (product - (new - of_total)) + np.where(np.isnan(tail), 0.0, tail)
        total = new
    return np.asarray(total + rest, np.float64)


def _terms(design: Design, x: Vector) -> Iterator[tuple[Vector, float]]:
    """Columns with what they are multiplied by; that of ones first."""
    if isinstance(design, InterceptDesign):
        yield from ((np.ones(design.shape[0]), float(x[j])) for j in design.ones if x[j] != 0)
        yield from _terms(design.base, np.delete(x, design.ones))
        return
    center, scale, base = None, None, design
    if isinstance(design, ScaledDesign):
        center, scale, base = design.center_, design.scale_, design.base
    for j in np.flatnonzero(x):
        column = base.columns([j]).matvec([1.0])
        column = column if center is None else column - center[j]
        yield column, float(x[j] if scale is None else x[j] / scale[j])
