"""Samples on a device: X, targets, weights and offsets, checked on the device, and losses as functions of margins."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Vector
from levelprox._validation import check_labels
from levelprox.backends.array_namespace import Namespace, Transfers, array_namespace
from levelprox.backends.device_design import DeviceDesign
from levelprox.backends.partition import DataSource, Form, Statistics, check_few
from levelprox.designs.moments import Moments, RunningMoments
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Loss, Multinomial, check_weights

if TYPE_CHECKING:
    from levelprox.backends.gpu import DeviceModel

_DOUBLE = np.dtype(np.float64)


class DeviceSource(DataSource):
    """X, targets, weights and offsets on a device.

    Parameters
    ----------
    X : tensor of torch or array of cupy, of shape (n, d)
        float32 or float64, dense or CSR; never copied.
    y : array of shape (n,), optional
        Targets, or labels: an array of the same device, or of the host, from where it is moved once.
    weight, offset : array of shape (n,), optional
        As y. The offsets of several classes are of shape (n, K).
    """

    def __init__(self, X: Any, y: Any = None, weight: Any = None, offset: Any = None) -> None:
        self.design = DeviceDesign(X)
        self.namespace = self.design.namespace
        self.n_features, self.dtype = self.design.d, self.design.dtype
        self.y = y if y is None or self._is_here(y) else np.asarray(y)
        self._check_length("y", self.y)
        self.weight = self._checked_weight(weight)
        self.offset = self._checked_offset(offset)
        share = self.weight
        self.total = float(self.design.n) if share is None else self._number(share.sum())

    @property
    def transfers(self) -> Transfers:
        """What has crossed between the device and the host."""
        return self.namespace.transfers

    def statistics(self, loss: Loss, labels: bool, with_moments: bool) -> Statistics:
        """Return what must be known before there is a model; X and y are checked on the way."""
        self.design.check_finite()
        weight = self.weights
        d, one = self.n_features, np.zeros(1)
        moments, of_y = RunningMoments(d), RunningMoments(1)
        if with_moments:
            moments = RunningMoments.of(self.total, self.design.moments(weight))
        classes, class_weights, largest = np.empty(0), np.empty(0), 0.0
        if labels:
            classes, class_weights = self._classes()
        else:
            y, xp = self.targets(loss), self.namespace.xp
            sized = xp.where(weight > 0, y, y[xp.argmax(weight)])
            mean = (weight * y).sum() / weight.sum()
            deviation = xp.sqrt((weight * (y - mean) ** 2).sum() / weight.sum())
            figures = [mean, deviation, xp.amin(sized), xp.amax(sized)]
            mean, deviation, low, high = self.namespace.to_host(xp.stack(figures))
            of_y = RunningMoments.of(self.total, Moments(mean + one, deviation + one, low + one, high + one))
            largest = max(abs(float(low)), abs(float(high)))
        return Statistics(self.design.n, self.total, moments, classes, class_weights, of_y, largest)

    def spread(self, total: float) -> float:
        """Return Σ s |y − median| / Σ s."""
        y, weight = self.numbers(self.y), self.weights
        middle = weighted_median(self.namespace, y, weight)
        return self._number((weight * self.namespace.xp.abs(y - middle)).sum()) / total

    def model(self, form: Form) -> DeviceModel:
        """Return ψ of these samples."""
        from levelprox.backends.gpu import DeviceModel

        return DeviceModel(self, form)

    def weighted(self, classes: NDArray[Any], factors: Vector) -> Self:
        """Return the same samples, their weights multiplied by a factor for their class."""
        own = self.namespace.to_device(np.asarray(factors, np.float64))
        return self._weighing(self.weights * own[self.codes_of_counted(classes)])

    def part(self, fold: int, folds: int, seed: int, held_out: bool) -> Self:
        """Return the samples of one fold, or all others: those of a weight of 0 do not count."""
        order = np.random.default_rng([seed, 0]).permutation(self.design.n)
        counts = self.namespace.to_device((order % folds == fold) == held_out)
        return self._weighing(self.namespace.xp.where(counts, self.weights, 0.0))

    def _weighing(self, weight: Any) -> Self:
        """Return the same samples with other weights."""
        other = copy.copy(self)
        other.weight, other.total = weight, self._number(weight.sum())
        return other

    @property
    def weights(self) -> Any:
        """s, also where none are given."""
        return self.namespace.zeros((self.design.n,), _DOUBLE) + 1 if self.weight is None else self.weight

    def numbers(self, values: Any) -> Any:
        """Return a vector of the host or of the device, on the device and in float64."""
        if self._is_here(values):
            return self.namespace.cast(values, _DOUBLE)
        return self.namespace.to_device(np.asarray(values, np.float64))

    def targets(self, loss: Loss) -> Any:
        """y as the loss allows it, or an error that names an entry."""
        assert self.y is not None
        if not self._is_here(self.y):
            return self.namespace.to_device(loss.check_targets(self.y, "y"))
        y, xp = self.numbers(self.y), self.namespace.xp
        allowed = {"regression": y == y, "margin": xp.abs(y) == 1, "count": y >= 0, "positive": y > 0}[loss.kind]
        bad = ~(xp.isfinite(y) & allowed)
        place = xp.argmax(self.namespace.cast(bad, np.dtype(np.int64)))
        cast = self.namespace.cast
        found, at, value = self.namespace.to_host(xp.stack([cast(bad.sum(), _DOUBLE), cast(place, _DOUBLE), y[place]]))
        if found:
            loss.check_targets(np.array([value]), f"y (at index {int(at)})")
        return y

    def codes(self, classes: NDArray[Any]) -> Any:
        """Return the place of every label among the classes, on the device."""
        if not self._is_here(self.y):
            places = np.minimum(np.searchsorted(classes, self.y), classes.size - 1)
            unknown = np.flatnonzero(classes[places] != self.y)
            if unknown.size:
                raise InvalidInputError(f"y must be among the classes, got {self.y[unknown[0]]!r}")
            return self.namespace.to_device(places.astype(np.int64))
        codes = self.namespace.zeros((self.design.n,), np.dtype(np.int64)) - 1
        for k, label in enumerate(classes.tolist()):
            codes = self.namespace.xp.where(self.y == label, k, codes)
        if self._number(self.namespace.xp.amin(codes)) < 0:
            raise InvalidInputError("y has labels that are not among the classes")
        return codes

    def _classes(self) -> tuple[NDArray[Any], Vector]:
        weight = self.weights
        if not self._is_here(self.y):
            check_labels(self.y)
        elif self._number(self.namespace.cast(self.y != self.y, _DOUBLE).sum()):
            raise InvalidInputError("y contains NaN")
        if self._is_here(self.y):
            classes = self.namespace.to_host(self.namespace.xp.unique(self.y[weight > 0]))
        elif self.weight is None:
            classes = np.unique(self.y)
        else:
            everything = np.unique(self.y)
            check_few(everything)
            sums = self._by_class(self.codes(everything), everything.size)
            return everything[sums > 0], sums[sums > 0]
        check_few(classes)
        return classes, self._by_class(self.codes_of_counted(classes), classes.size)

    def codes_of_counted(self, classes: NDArray[Any]) -> Any:
        """As `codes`; labels of samples without weight may be any."""
        if not self._is_here(self.y) or self.weight is None:
            return self.codes(classes)
        stand_in = copy.copy(self)
        stand_in.y = self.namespace.xp.where(self.weight > 0, self.y, self.y[self.namespace.xp.argmax(self.weight)])
        return stand_in.codes(classes)

    def _by_class(self, codes: Any, count: int) -> Vector:
        out = self.namespace.zeros((count,), _DOUBLE)
        self.namespace.add_at(out, codes, self.weights)
        return self.namespace.to_host(out)

    def _is_here(self, values: Any) -> bool:
        own = array_namespace(values)
        if own is None:
            return False
        if type(own) is not type(self.namespace) or own.device != self.namespace.device:
            raise InvalidInputError(f"X is on {self.namespace.device}, but another array is on {own.device}")
        return True

    def _number(self, value: Any) -> float:
        return float(self.namespace.to_host(value))

    def _check_length(self, name: str, values: Any) -> None:
        if values is not None and tuple(values.shape) != (self.design.n,):
            raise InvalidInputError(f"X has {self.design.n} samples, but {name} has shape {tuple(values.shape)}")

    def _checked_weight(self, weight: Any) -> Any:
        if weight is None:
            return None
        n, xp = self.design.n, self.namespace.xp
        if not self._is_here(weight):
            return self.namespace.to_device(check_weights(weight, n))
        self._check_length("sample_weight", weight)
        own = self.numbers(weight)
        bad = ~(xp.isfinite(own) & (own >= 0))
        place = xp.argmax(self.namespace.cast(bad, np.dtype(np.int64)))
        largest, value, at = self.namespace.to_host(
            xp.stack([xp.amax(own), own[place], self.namespace.cast(place, _DOUBLE)])
        )
        if not 0 <= value < math.inf:
            raise InvalidInputError(f"sample weights must be nonnegative and finite, got {value} at index {int(at)}")
        if largest == 0:
            raise InvalidInputError("sample weights must not be all zero")
        return own

    def _checked_offset(self, offset: Any) -> Any:
        if offset is None:
            return None
        own = self.numbers(offset)
        if int(own.shape[0]) != self.design.n:
            raise InvalidInputError(f"X has {self.design.n} samples, but offset has shape {tuple(own.shape)}")
        if not self._number(self.namespace.xp.isfinite(own).all()):
            raise InvalidInputError("offset must be finite")
        return own

    def __repr__(self) -> str:
        return f"DeviceSource({self.design!r})"


class Parcel:
    """Arrays that go back to the host in one transfer."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.parts: list[Any] = []

    def put(self, array: Any) -> None:
        """Add an array of float64."""
        self.parts.append(array.reshape(-1))

    def opened(self, factor: float) -> list[Vector]:
        """Return the arrays on the host, flat, all times a factor."""
        whole = self.namespace.to_host(self.namespace.xp.concatenate(self.parts)) * factor
        ends = np.cumsum([int(part.shape[0]) for part in self.parts])
        return np.split(whole, ends[:-1])


class Losses:
    """F: the losses of all samples as a function of the margins, on the device, in float64.

    Sums are in units in which the largest weight is about 1; `total` is Σ s in them.
    """

    def __init__(self, samples: DeviceSource, form: Form) -> None:
        self.namespace, self.form, self.loss = samples.namespace, form, form.loss
        self.xp, self.n, self.n_outputs = samples.namespace.xp, samples.design.n, form.n_outputs
        self.softmax = form.softmax and form.n_outputs > 1
        self.kind: Any = Multinomial if self.softmax else form.loss
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
        elif self.n_outputs == 1:
            self.target = (2.0 * self.namespace.cast(codes, _DOUBLE) - 1.0)[:, None]
        else:
            own = codes[:, None] == self.namespace.counting(self.n_outputs)
            self.target = own if form.softmax else 2.0 * self.namespace.cast(own, _DOUBLE) - 1.0

    def _shifted(self, z: Any) -> Any:
        return z if self.offset is None else z + self.offset

    def at(self, z: Any) -> Evaluated:
        """Return the losses and their derivatives at the margins z + o, of shape (n, K)."""
        return Evaluated(self, self._shifted(z))

    def pointwise(self, z: Any) -> tuple[Any, Any, Any]:
        """Return ℓ and ∂ℓ of every sample at z + o, and ∂²ℓ, or probabilities where classes share a likelihood."""
        found: tuple[Any, Any, Any] = self.kind.pointwise(self.xp, self._shifted(z), self.target)
        return found

    def values(self, moves: list[Any]) -> Any:
        """Return Σ s ℓ at each of some margins, o being added to them."""
        if self.n_outputs > 1:
            return self.xp.stack([self.at(z).value for z in moves])
        z = self._shifted(self.xp.concatenate(moves, axis=1))
        return self.weighted(self.loss.heights(self.xp, z, self.target)).sum(axis=0)

    def weighted(self, values: Any) -> Any:
        """Return values times weights; samples without weight are 0."""
        if self.weight is None:
            return values
        s = self.weight if values.ndim == 1 else self.weight[:, None]
        return self.xp.where(s == 0, 0.0, values * s)

    def typical_curvature(self) -> float:
        """Return the same as `Loss.typical_curvature`, about x = 0."""
        if self.softmax:
            return (self.n_outputs - 1) / self.n_outputs**2
        if math.isfinite(self.loss.smoothness):
            return self.loss.smoothness
        zero = self.namespace.zeros((self.n, self.n_outputs), _DOUBLE)
        places = (self._shifted(zero), self.xp.log(self.target))
        sums = [self.weighted(self.loss.pointwise(self.xp, z, self.target)[2]).sum() for z in places]
        means = self.namespace.to_host(self.xp.stack(sums)) / self.total
        return min((float(mean) for mean in means if 0 < mean < math.inf), default=1.0)

    def middle(self) -> float:
        """Return the start of the intercept: the median, for a loss of residuals that is not a parabola."""
        if self.loss.kind != "regression" or self.loss.constant_curvature:
            return 0.0
        left = self.target[:, 0] if self.offset is None else self.target[:, 0] - self.offset[:, 0]
        weight = self.namespace.zeros((self.n,), _DOUBLE) + 1 if self.weight is None else self.weight
        return float(self.namespace.to_host(weighted_median(self.namespace, left, weight)))

    def accuracy(self, z: Any) -> float:
        """Return the share of the samples whose class has the largest margin, o being added to z."""
        z = self._shifted(z)
        if self.n_outputs == 1:
            right = (z[:, 0] > 0) == (self.target[:, 0] > 0)
        else:
            own = self.namespace.cast(self.target, _DOUBLE)
            right = self.xp.argmax(z, axis=1) == self.xp.argmax(own, axis=1)
        return float(self.namespace.to_host(self.weighted(self.namespace.cast(right, _DOUBLE)).sum())) / self.total

    def ray_trend(self, direction: Any) -> tuple[bool, bool]:
        """Return whether some losses fall forever as margins move in a direction, and whether some rise."""
        if self.softmax:
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
        self.losses = losses
        value, slope, self.shape = losses.kind.pointwise(losses.xp, z, losses.target)
        self.value = losses.weighted(value).sum()
        self.slope = losses.weighted(slope)

    def curvature(self, a: int, b: int, convex: bool) -> Any:
        """Return s ∂²ℓ/∂z_a∂z_b of every sample; of one margin its absolute value if `convex`."""
        if self.losses.softmax:
            return self.losses.weighted(Multinomial.bend(self.shape, a, b))
        return self.losses.weighted(self._convex(self.shape[:, a], convex))

    def hessian_product(self, moved: Any, convex: bool) -> Any:
        """Return s ∇²ℓ v of every sample, where v are changes of its margins."""
        if self.losses.softmax:
            return self.losses.weighted(Multinomial.product(self.shape, moved))
        return self.losses.weighted(self._convex(self.shape, convex) * moved)

    def _convex(self, curvature: Any, convex: bool) -> Any:
        return self.losses.xp.abs(curvature) if convex and self.losses.loss.weak_convexity else curvature


def weighted_median(namespace: Namespace, values: Any, weight: Any) -> Any:
    """Return the first of the sorted values at which half of the weight is reached."""
    xp = namespace.xp
    order = xp.argsort(values)
    reached = xp.cumsum(weight[order], axis=0)
    place = (reached < 0.5 * reached[-1:]).sum()
    return values[order[place]]
