"""Losses with a kink, and their Moreau envelopes: smooth, convex, and uniformly close to the loss.

    env(z) = min_w ℓ(w, b) + (z - w)²/(2 width)

For ℓ = max(lo·s, hi·s), s = z - b, the minimiser is w = z - width·env'(z), and

    env' = p,    env = ps - (width/2) p²,    env'' = 1/width where lo ≤ s/width ≤ hi, else 0,    p = s/width in [lo, hi]

(p is s/width clipped): a parabola in place of the kink, lines beyond. It is below ℓ by at most (width/2) sup|ℓ'|²:

    0 ≤ ℓ - env ≤ (width/2) lipschitz²

Moreau (1965), Bulletin de la Société Mathématique de France 93. The envelope of `Absolute` is `Huber`, up to scale:
with δ = width, env = huber/width.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from levelprox._typing import Vector
from levelprox._validation import positive
from levelprox.exceptions import InvalidInputError
from levelprox.losses._base import Kind, Loss


@dataclass(frozen=True)
class Smoothed(Loss):
    """The Moreau envelope of `loss`: smoothness 1/width, convex, with the Lipschitz constant of `loss`.

    Parameters
    ----------
    loss : Loss
        A loss with kinks: `Absolute`, `Quantile` or `Hinge`.
    width : float
        The width of the smoothing, in the units of the margins; positive and finite, like its inverse.
        The parabola covers s = z - b from width·lo to width·hi.

    Examples
    --------
    >>> from levelprox.losses import Absolute, Smoothed
    >>> loss = Smoothed(Absolute(), width=0.5)
    >>> loss.smoothness, loss.value([0.0], [1.0])
    (2.0, 0.75)
    """

    loss: Loss
    width: float

    name = "smoothed"
    weak_convexity = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Loss) or self.loss.smooth:
            raise InvalidInputError(f"only losses with kinks can be smoothed, got {self.loss!r}")
        positive("width", self.width)
        if math.isinf(self.smoothness):
            raise InvalidInputError(f"width must have a finite inverse, got {self.width!r}")

    @property
    def kind(self) -> Kind:
        """The kind of targets, that of `loss`."""
        return self.loss.kind

    @property
    def smoothness(self) -> float:
        """1/width."""
        return 1 / float(self.width)

    @property
    def lipschitz(self) -> float:
        """The Lipschitz constant of `loss`."""
        return self.loss.lipschitz

    @property
    def parameter(self) -> float:
        """The parameter of `loss`."""
        return self.loss.parameter

    @property
    def kernel(self) -> tuple[str, float, float]:
        """The arguments of the compiled kernels: name and parameter of `loss`, and the width."""
        return self.loss.name, self.loss.parameter, float(self.width)


@dataclass(frozen=True)
class Kinked(Loss):
    """Base class of convex losses with one kink: two lines that meet at z = b, where ℓ has its minimum 0.

    ℓ = max(lo·s, hi·s),      ∂ℓ = lo for s < 0,  [lo, hi] at s = 0,  hi for s > 0,      s = z - b,  lo ≤ 0 ≤ hi

    `derivative` is 0 at the kink, an element of the subdifferential; `curvature` raises an error.
    """

    smoothness = math.inf
    weak_convexity = 0.0

    @property
    @abstractmethod
    def jump(self) -> float:
        """hi - lo."""

    @abstractmethod
    def slopes(self, b: Vector) -> tuple[Vector, Vector]:
        """Return the slopes lo and hi before and after the kink, for each target."""

    def typical_curvature(self, z: Vector, b: Vector, weight: Vector | None = None) -> float:
        """Return sup |ℓ'| divided by the mean of |z − b|: the jump of ℓ' spread over the residuals."""
        return self.lipschitz / (float(np.average(np.abs(z - b), weights=weight)) or 1.0)

    def subdifferential(self, z: ArrayLike, b: ArrayLike) -> tuple[Vector, Vector]:
        """Return the bounds of ∂ℓ for each sample: the two slopes at z = b, the derivative twice at other points."""
        z, b, _ = self._arguments(z, b, None)
        low, high = super().subdifferential(z, b)
        before, after = self.slopes(b)
        return np.where(z == b, before, low), np.where(z == b, after, high)

    def smoothed(self, width: float) -> Smoothed:
        """Return the Moreau envelope min_w ℓ(w, b) + (z - w)²/(2 width), see `Smoothed`."""
        return Smoothed(self, width)
