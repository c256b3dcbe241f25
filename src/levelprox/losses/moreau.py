"""The Moreau envelope of a loss with a kink: smooth, convex, and nowhere far from the loss.

    env(z) = min_w ℓ(w, b) + (z - w)²/(2 width)

For ℓ = max(lo·s, hi·s), s = z - b, the minimiser is w = z - width·env'(z), and

    env' = p,    env = ps - (width/2) p²,    env'' = 1/width where lo ≤ s/width ≤ hi, else 0,    p = s/width in [lo, hi]

(p is s/width clipped): a parabola instead of the kink, lines beyond. It lies below ℓ, by (width/2) sup|ℓ'|² at most:

    0 ≤ ℓ - env ≤ (width/2) lipschitz²

Moreau (1965), Bulletin de la Société Mathématique de France 93. The envelope of `Absolute` is `Huber`, up to scale:
with δ = width, env = huber/width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from levelprox._validation import positive
from levelprox.exceptions import InvalidInputError
from levelprox.losses._base import Kind, Loss


@dataclass(frozen=True)
class Smoothed(Loss):
    """The Moreau envelope of `loss`: smoothness 1/width, convex, as steep as `loss`.

    Parameters
    ----------
    loss : Loss
        A loss with kinks: `Absolute`, `Quantile` or `Hinge`.
    width : float
        How far the smoothing reaches, in the units of the margins; positive and finite, like its inverse.
        The parabola covers s = z - b from width·lo to width·hi.
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
        return self.loss.kind

    @property
    def smoothness(self) -> float:
        return 1 / float(self.width)

    @property
    def lipschitz(self) -> float:
        return self.loss.lipschitz

    @property
    def parameter(self) -> float:
        """That of the loss with kinks."""
        return self.loss.parameter

    @property
    def kernel(self) -> tuple[str, float, float]:
        return self.loss.name, self.loss.parameter, float(self.width)
