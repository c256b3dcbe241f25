"""What the losses with a log link share: z is the log of the mean, so ℓ'' grows with exp(±z) and has no bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from levelprox._typing import Vector
from levelprox.losses._base import Loss


@dataclass(frozen=True)
class LogLink(Loss):
    """A smooth convex loss without a bound on ℓ' or ℓ'', least at z = log b."""

    smoothness = math.inf
    weak_convexity = 0.0
    lipschitz = math.inf
    concordance = 1.0  # ℓ″ is an exponential

    def typical_curvature(self, z: Vector, b: Vector, weight: Vector | None = None) -> float:
        """The smaller of the means of ℓ'' at z and at log b, where ℓ is least; the other one where that is 0.

        A fit is somewhere between. Either alone may be off by the factor that the data are badly centred by;
        too small a figure costs a few halvings of the first step, too large a one holds every step back.
        """
        with np.errstate(divide="ignore"):
            best = np.log(b)
        means = [float(np.sum(self.curvature(at, b, weight))) for at in (z, best)]
        return min((mean for mean in means if 0 < mean < math.inf), default=1.0)
