"""The base class of losses with a log link: z is the log of the mean, so ℓ'' grows with exp(±z) and is unbounded."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from levelprox._typing import Vector
from levelprox.losses._base import Loss


@dataclass(frozen=True)
class LogLink(Loss):
    """A smooth convex loss with unbounded ℓ' and ℓ'' and its minimum at z = log b."""

    smoothness = math.inf
    weak_convexity = 0.0
    lipschitz = math.inf
    self_concordance = 1.0  # ℓ″ is an exponential

    def typical_curvature(self, z: Vector, b: Vector, weight: Vector | None = None) -> float:
        """Return the smaller of the means of ℓ'' at z and at the minimiser log b; the other one if it is 0.

        The curvature of a fit lies between them. Either alone may be wrong by a large factor if the data are badly
        centred. Too small a value costs a few halvings of the first step; too large a value shortens every step.
        """
        with np.errstate(divide="ignore"):
            best = np.log(b)
        means = [float(np.sum(self.curvature(at, b, weight))) for at in (z, best)]
        return min((mean for mean in means if 0 < mean < math.inf), default=1.0)
