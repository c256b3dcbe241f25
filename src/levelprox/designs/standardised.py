"""Columns that are centred and scaled where their means or units would cost digits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Vector
from levelprox.designs._base import Design
from levelprox.designs.dense import DenseDesign
from levelprox.designs.intercept import InterceptDesign
from levelprox.designs.moments import moments_of
from levelprox.designs.scaled import ScaledDesign
from levelprox.designs.sparse import SparseDesign

# Deviations from zero of a mean, and ratio of units, from which on columns are better standardised.
_FAR_MEAN, _FAR_UNITS = 100.0, 1000.0


def standardised(design: Design, sample_weight: Vector | None) -> Design | None:
    """Return the design with centred and scaled columns; None unless their means or units would cost digits.

    Dense columns are centred where there is an intercept, and divided by a power of two near their standard deviation.
    Of a sparse X only columns with a large mean are centred: these are stored in full, the others stay sparse.
    """
    base = design.base if isinstance(design, InterceptDesign) else design
    if not isinstance(base, DenseDesign | SparseDesign) or (
        design is not base and design.ones.tolist() != [base.shape[1]]
    ):
        return None
    moments = moments_of(base, sample_weight)
    intercept = design is not base
    far = (np.abs(moments.mean) > _FAR_MEAN * moments.deviation) & ~moments.constant & intercept
    centred = ~moments.constant & intercept if isinstance(base, DenseDesign) else far
    size = np.where(centred, moments.scale, moments.magnitude)
    varies = ~moments.constant if intercept else np.hypot(moments.mean, moments.deviation) > 0
    if not np.any(varies) or not (np.any(far) or size[varies].max() > _FAR_UNITS * size[varies].min()):
        return None
    scale = np.where(varies, np.ldexp(1.0, np.frexp(size)[1] - 1), 1.0)
    scaled = ScaledDesign(base, np.where(centred, moments.mean, 0.0) if np.any(centred) else None, scale)
    return InterceptDesign(scaled) if intercept else scaled


def unstandardised(design: Design, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coefficients for the data themselves, of coefficients for what `standardised` returned.

    `x` has a row for each feature, the last one for the intercept where there is one.
    """
    scaled = design.base if isinstance(design, InterceptDesign) else design
    assert isinstance(scaled, ScaledDesign)
    d = scaled.shape[1]
    both = [scaled.unscaled(column[:d]) for column in x.T]
    return np.stack(
        [np.concatenate([own, column[d:] + shift]) for (own, shift), column in zip(both, x.T, strict=True)]
    ).T


def units_of(design: Design) -> Vector:
    """Return factors from coefficients for what `standardised` returned to those for the data; 1 for the intercept."""
    scaled = design.base if isinstance(design, InterceptDesign) else design
    assert isinstance(scaled, ScaledDesign)
    factors = scaled.unscaled(np.ones(scaled.shape[1]))[0]
    return factors if design is scaled else np.append(factors, 1.0)
