"""A fit over a few features: ψ minimised there, what is known of its error, and the rounding of ψ."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from levelprox._typing import Features, Matrix, Vector
from levelprox.objectives import LinearModel, Model, MultinomialModel, OneVsRestModel
from levelprox.objectives._multiclass import ByClass

#: Relative to ψ: a difference that counts where two fits over the same features are compared.
CLOSE_SHARE = 1e-8
EPS = float(np.finfo(np.float64).eps)
NOISE_SHARE = 32 * EPS  # of the absolute sum of a component of the gradient
_TIE_SHARE = 1e-10  # of ψ: fits that differ by less are equal


@dataclass(frozen=True, eq=False)
class Fit:
    """ψ minimised over a few features.

    Attributes
    ----------
    features : ndarray of int
        The features, sorted, unpenalized ones included.
    x : ndarray
        Their coefficients.
    psi : float
    margins : ndarray
    hessian : ndarray, optional
        ∇²ψ over these features, where it is at hand.
    gap : float
        ψ exceeds the minimum over these features by at most this much; inf where no bound is known.
    resolution : float
        By how much the rounding of margins may change ψ.
    """

    features: Features
    x: Vector
    psi: float
    margins: Vector
    hessian: Matrix | None = None
    gap: float = math.inf
    resolution: float = 0.0

    @property
    def lower_bound(self) -> float:
        """What ψ over these features is at least; −inf where no bound is known."""
        return self.psi - self.gap - self.resolution


def lowest(fits: Iterable[Fit | None]) -> Fit | None:
    """The fit with the least ψ, of equal ones the first: where ψ counts errors, rounding must not choose."""
    best: Fit | None = None
    for fit in fits:
        if fit is not None and (best is None or fit.psi < best.psi - _TIE_SHARE * abs(best.psi)):
            best = fit
    return best


def begun_at(near: Fit, features: Features, width: int) -> Vector:
    """The coefficients of another fit, for the features that both have; 0 for the others."""
    x = np.zeros((features.size, width))
    places = np.searchsorted(near.features, features)
    places[places == near.features.size] = 0
    shared = near.features[places] == features if near.features.size else np.zeros(features.size, np.bool_)
    x[shared] = near.x.reshape(-1, width)[places[shared]]
    return x.ravel()


def lower_of(fit: Fit, other: Fit) -> Fit:
    """Return the lower of two fits over the same features, with the better of their bounds.

    The other is the lower one only if it is so beyond its rounding.
    """
    lower = other if other.psi < fit.psi - max(other.resolution - fit.resolution, 0.0) else fit
    bound = max(fit.lower_bound, other.lower_bound)
    return replace(lower, gap=min(lower.gap, max(lower.psi - bound, 0.0)))


def better_known(fit: Fit | None, other: Fit) -> Fit:
    """Return the lower of two fits over the same features, with the better of their bounds."""
    if fit is None or other.psi < fit.psi - CLOSE_SHARE * abs(fit.psi):
        return other
    return replace(fit, gap=min(fit.gap, max(fit.psi - other.lower_bound, 0.0)))


def joined(fits: list[Fit]) -> Fit:
    """The fits of all classes, each with a coefficient of every feature, as one."""
    m, K = fits[0].features.size, len(fits)
    hessian = np.zeros((m, K, m, K))
    for k, fit in enumerate(fits):
        hessian[:, k, :, k] = fit.hessian
    x, margins = np.stack([fit.x for fit in fits], axis=1), np.stack([fit.margins for fit in fits]).T
    psi, gap, resolution = (math.fsum(getattr(fit, name) for fit in fits) for name in ("psi", "gap", "resolution"))
    return Fit(fits[0].features, x.ravel(), psi, margins, hessian.reshape(m * K, m * K), gap, resolution)


def of_samples(objective: Model, z: Vector) -> Vector:
    """Return the margins of the samples, without what a ridge has below them."""
    return objective.of_samples(z) if isinstance(objective, LinearModel | ByClass) else z


def slopes(objective: Model, z: Vector) -> Vector:
    """Return s_i ℓ'_i / Σ s at margins z; with several classes of shape (n, K)."""
    if isinstance(objective, MultinomialModel):
        z = objective.of_samples(z)
        return np.asarray(objective.loss.derivative(z, objective.target, objective.sample_weight), np.float64)
    if isinstance(objective, OneVsRestModel):
        return np.stack(
            [part.slope_of(np.ascontiguousarray(column)) for part, column in zip(objective.parts, z.T, strict=True)],
            axis=1,
        )
    return cast(LinearModel, objective).slope_of(z)


def rounding_of_loss(objective: Model, z: Vector) -> float:
    """Return Σ_i s_i |ℓ'_i z_i| / Σ s: what the last digits of margins do to ψ is a small part of it."""
    return float(np.sum(np.abs(slopes(objective, z) * of_samples(objective, z))))


def rounding_of_margins(objective: Model, x: Vector, z: Vector) -> float:
    """Return what an ulp of the terms of each margin does to ψ: Σ_i s_i |ℓ'_i| Σ_j |a_ij x_j| ε / Σ s."""
    design, by_class = cast("LinearModel | ByClass", objective).design, x.reshape(-1, objective.width).T
    size = np.stack([design.row_magnitudes(np.ascontiguousarray(row)) for row in by_class], axis=1)
    slope = np.abs(slopes(objective, z).reshape(size.shape))
    if not objective.smooth:  # next to a kink, the slopes on both of its sides
        change = NOISE_SHARE * size.reshape(z.shape)  # a loss with kinks has no ridge
        for sign in -1, 1:
            slope = np.maximum(slope, np.abs(slopes(objective, z + sign * change).reshape(size.shape)))
    return EPS * float(np.sum(slope * size))


def by_class(hessian: Matrix, width: int) -> Matrix:
    """Return the part of H that belongs to each class, of shape (width, m, m): where it is 0 between classes."""
    m, classes = hessian.shape[0] // width, np.arange(width)
    return np.asarray(hessian.reshape(m, width, m, width)[:, classes, :, classes])
