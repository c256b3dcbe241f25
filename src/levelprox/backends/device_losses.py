"""The losses of samples on a device as functions of their margins, in float64."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from levelprox._typing import Vector
from levelprox.backends.array_namespace import Namespace
from levelprox.backends.partition import Form
from levelprox.losses import Multinomial

if TYPE_CHECKING:
    from levelprox.backends.device_source import DeviceSource

_DOUBLE = np.dtype(np.float64)


class Parcel:
    """What goes back to the host in one transfer."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.parts: list[Any] = []

    def put(self, array: Any) -> None:
        """Add an array of float64."""
        self.parts.append(array.reshape(-1))

    def opened(self, factor: float) -> list[Vector]:
        """The arrays on the host, flat, all times a factor."""
        whole = self.namespace.to_host(self.namespace.xp.concatenate(self.parts)) * factor
        ends = np.cumsum([int(part.shape[0]) for part in self.parts])
        return np.split(whole, ends[:-1])


class Losses:
    """F: the losses of all samples as a function of the margins, on the device, in float64.

    Sums are in units in which the largest weight is about 1; `total` is Σ s in them.
    """

    def __init__(self, samples: DeviceSource, form: Form) -> None:
        self.namespace, self.form, self.loss = samples.namespace, form, form.loss
        self.xp, self.n, self.width = samples.namespace.xp, samples.design.n, form.width
        weight, classes = samples.weight, form.classes
        codes = None if classes is None else samples.codes_of_counted(classes)
        self.weight, self.total = None, float(self.n)
        if weight is not None:
            largest = float(self.namespace.to_host(self.xp.amax(weight)))
            # Their unit does not matter; a power of two keeps products in range without rounding.
            self.weight = weight * float(np.ldexp(1.0, -int(np.frexp(largest)[1])))
            self.total = float(self.namespace.to_host(self.weight.sum()))
        self.offset = None if samples.offset is None else samples.offset.reshape(self.n, -1)
        if codes is None:
            self.target = samples.targets(self.loss)[:, None]
        elif self.width == 1:
            self.target = (2.0 * self.namespace.cast(codes, _DOUBLE) - 1.0)[:, None]
        else:
            own = codes[:, None] == self.namespace.counting(self.width)
            self.target = own if form.softmax else 2.0 * self.namespace.cast(own, _DOUBLE) - 1.0

    def at(self, z: Any) -> Evaluated:
        """All there is to know where the margins are z + o, of shape (n, K)."""
        return Evaluated(self, z if self.offset is None else z + self.offset)

    def pointwise(self, z: Any) -> tuple[Any, Any, Any]:
        """ℓ and ∂ℓ of every sample, and what its ∂²ℓ is made of, o being added to z."""
        kind: Any = Multinomial if self.form.softmax and self.width > 1 else self.loss
        z = z if self.offset is None else z + self.offset
        found: tuple[Any, Any, Any] = kind.pointwise(self.xp, z, self.target)
        return found

    def values(self, moves: list[Any]) -> Any:
        """Σ s ℓ at each of some margins, o being added to them."""
        if self.width > 1:
            return self.xp.stack([self.at(z).value for z in moves])
        z = self.xp.concatenate(moves, axis=1)
        z = z if self.offset is None else z + self.offset
        return self.weighted(self.loss.heights(self.xp, z, self.target)).sum(axis=0)

    def weighted(self, values: Any) -> Any:
        """Each sample's times its weight; one without weight has no effect."""
        if self.weight is None:
            return values
        s = self.weight if values.ndim == 1 else self.weight[:, None]
        return self.xp.where(s == 0, 0.0, values * s)

    def typical_bend(self) -> float:
        """As `Loss.typical_curvature`, about x = 0."""
        if self.form.softmax and self.width > 1:
            return (self.width - 1) / self.width**2
        if math.isfinite(self.loss.smoothness):
            return self.loss.smoothness
        zero = self.namespace.zeros((self.n, self.width), _DOUBLE)
        origin = zero if self.offset is None else zero + self.offset
        places = (origin, self.xp.log(self.target))
        sums = [self.weighted(self.loss.pointwise(self.xp, z, self.target)[2]).sum() for z in places]
        means = self.namespace.to_host(self.xp.stack(sums)) / self.total
        return min((float(mean) for mean in means if 0 < mean < math.inf), default=1.0)

    def middle(self) -> float:
        """Where the intercept begins: at the median, for a loss of residuals that is not a parabola."""
        if self.loss.kind != "regression" or self.loss.constant_curvature:
            return 0.0
        left = self.target[:, 0] if self.offset is None else self.target[:, 0] - self.offset[:, 0]
        weight = self.namespace.zeros((self.n,), _DOUBLE) + 1 if self.weight is None else self.weight
        return float(self.namespace.to_host(weighted_median(self.namespace, left, weight)))

    def accuracy(self, z: Any) -> float:
        """The share of the samples whose class has the largest margin, o being added to z."""
        z = z if self.offset is None else z + self.offset
        if self.width == 1:
            right = (z[:, 0] > 0) == (self.target[:, 0] > 0)
        else:
            own = self.namespace.cast(self.target, _DOUBLE)
            right = self.xp.argmax(z, axis=1) == self.xp.argmax(own, axis=1)
        return float(self.namespace.to_host(self.weighted(self.namespace.cast(right, _DOUBLE)).sum())) / self.total

    def ray_trend(self, direction: Any) -> tuple[bool, bool]:
        """Whether some losses decrease without bound along a direction of the margins, and whether some increase."""
        if self.form.softmax and self.width > 1:
            own = self.xp.where(self.target, direction, 0.0).sum(axis=1)[:, None]
            falls, rises = direction < own, direction > own
        elif self.loss.kind == "count":
            falls = (self.target == 0) & (direction < 0)
            rises = ~falls & (direction != 0)
        else:
            falls = self.target * direction > 0
            rises = ~falls & (direction != 0)
        if self.weight is not None:
            counts = (self.weight > 0)[:, None]
            falls, rises = falls & counts, rises & counts
        some = self.namespace.to_host(self.xp.stack([falls.any(), rises.any()]))
        return bool(some[0]), bool(some[1])


class Evaluated:
    """The losses at some margins: Σ s ℓ, and s ∂ℓ and s ∂²ℓ of every sample, not divided by Σ s."""

    def __init__(self, losses: Losses, z: Any) -> None:
        self.losses, self.softmax = losses, losses.form.softmax and losses.width > 1
        kind: Any = Multinomial if self.softmax else losses.loss
        value, slope, self.shape = kind.pointwise(losses.xp, z, losses.target)
        self.value = losses.weighted(value).sum()
        self.slope = losses.weighted(slope)

    def bend(self, a: int, b: int, convex: bool) -> Any:
        """s ∂²ℓ/∂z_a∂z_b of every sample; of one margin its absolute value where it must not be negative."""
        bend = Multinomial.bend(self.shape, a, b) if self.softmax else self.shape[:, a]
        if convex and not self.softmax and self.losses.loss.weak_convexity:
            bend = self.losses.xp.abs(bend)
        return self.losses.weighted(bend)

    def bent(self, moved: Any, convex: bool) -> Any:
        """s ∇²ℓ v of every sample, where v moves its margins so."""
        if self.softmax:
            return self.losses.weighted(Multinomial.product(self.shape, moved))
        if convex and self.losses.loss.weak_convexity:
            return self.losses.weighted(self.losses.xp.abs(self.shape) * moved)
        return self.losses.weighted(self.shape * moved)


def weighted_median(namespace: Namespace, values: Any, weight: Any) -> Any:
    """The first of the sorted values at which half of the weight is reached."""
    xp = namespace.xp
    order = xp.argsort(values)
    reached = xp.cumsum(weight[order], axis=0)
    place = (reached < 0.5 * reached[-1:]).sum()
    return values[order[place]]
