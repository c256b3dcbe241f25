"""ψ of samples on a device: X, targets and weights stay there, and so does everything that is as long as they are.

What comes back is W-sized, but for one gradient over all features in each look; see `asked.py` for what is asked when.
Each query is one transfer there, of its points, and one back, of all that it asks for.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Vector
from levelprox.backends._base import AHEAD, DataSource, PartialSums, Query, RemoteObjective, SharedState, Traffic
from levelprox.backends.array_namespace import Namespace, Transfers, array_namespace
from levelprox.backends.device_design import Columns, DeviceDesign
from levelprox.backends.partition import Form
from levelprox.backends.statistics import Statistics, check_few, check_labels
from levelprox.designs.moments import Moments, RunningMoments
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Loss, Multinomial, check_weights
from levelprox.objectives.leave_one_out import LEAST, Point
from levelprox.objectives.linear_model import FARTHER, keeps_decreasing

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
        y, weight = self.numbers(self.y), self.weights
        middle = weighted_median(self.namespace, y, weight)
        return self._number((weight * self.namespace.xp.abs(y - middle)).sum()) / total

    def model(self, form: Form) -> DeviceModel:
        return DeviceModel(self, form)

    def weighted(self, classes: NDArray[Any], factors: Vector) -> Self:
        own = self.namespace.to_device(np.asarray(factors, np.float64))
        return self._weighing(self.weights * own[self.codes_of_counted(classes)])

    def part(self, fold: int, folds: int, seed: int, held_out: bool) -> Self:
        order = np.random.default_rng([seed, 0]).permutation(self.design.n)
        counts = self.namespace.to_device((order % folds == fold) == held_out)
        return self._weighing(self.namespace.xp.where(counts, self.weights, 0.0))

    def _weighing(self, weight: Any) -> Self:
        """The same samples with other weights."""
        other = copy.copy(self)
        other.weight, other.total = weight, self._number(weight.sum())
        return other

    @property
    def weights(self) -> Any:
        """s, also where none are given."""
        return self.namespace.zeros((self.design.n,), _DOUBLE) + 1 if self.weight is None else self.weight

    def numbers(self, values: Any) -> Any:
        """A vector of the host or of the device, on the device and in float64."""
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
        """The place of every label among the classes, on the device."""
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


class DeviceModel(RemoteObjective):
    """ψ of samples on a device.

    Parameters
    ----------
    samples : DeviceSource
    form : Form
        How they become a model. Its loss must be smooth.
    """

    def __init__(self, samples: DeviceSource, form: Form) -> None:
        if not form.loss.smooth:
            raise InvalidInputError(
                f"the loss {form.loss.name!r} has kinks, and is for data in memory only; data on a device take "
                "squared, huber, logistic, squared_hinge, cauchy, sigmoid, poisson and gamma"
            )
        self.samples, self.form, self.loss, self.width = samples, form, form.loss, form.width
        self.namespace = samples.namespace
        self.design = samples.design.formed(form.center, form.scale, form.fit_intercept)
        self.only_contrasts = form.softmax and form.width > 1
        self.n_all = self.design.shape[1]
        self.features = np.arange(self.n_all)
        self.shared = SharedState()
        self.losses = Losses(samples, form)
        self._facts: dict[str, Any] = {}  # of all features, shared by all restrictions
        self._own: dict[str, Sums] = {}  # of those of this one

    @property
    def transfers(self) -> Transfers:
        """What has crossed between the device and the host."""
        return self.namespace.transfers

    @property
    def traffic(self) -> Traffic:
        convex = self._facts.get("convex start")
        return self.shared.traffic if convex is None else self.shared.traffic + convex.traffic

    def partial_sums(self, query: Query) -> PartialSums:
        needed = self.design.bytes_for(query.features.size)
        with self.namespace.within_memory(f"a query of {query.features.size} features", needed):
            return self._answer(query)

    def _answer(self, asked: Query) -> PartialSums:
        K = self.width
        columns = self.design.columns(asked.features, few=bool(asked.hessian))
        sent = [*asked.points, *(one for one in (asked.step, asked.product) if one is not None)]
        moved = columns.matvec(np.concatenate([x.reshape(-1, K) for x in sent], axis=1))
        moves = [moved[:, k : k + K] for k in range(0, len(sent) * K, K)]
        trials = moves[1 : len(asked.points)]
        if asked.step is not None:
            trials += [moves[0] + t * moves[len(asked.points)] for t in AHEAD.tolist()]
        back, at = Parcel(self.namespace), self.losses.at(moves[0])
        back.put(at.value)
        if trials:
            back.put(self.losses.values(trials))
        if asked.gradient == "here":
            back.put(columns.rmatvec(at.slope))
        elif asked.gradient:
            back.put(self.design.rmatvec(at.slope[:, 0] if K == 1 else at.slope))
        if asked.hessian:
            for a, b in self._pairs:
                back.put(columns.gram(at.bend(a, b, asked.hessian == "convex")))
        if asked.product is not None:
            back.put(columns.rmatvec(at.bent(moves[-1], asked.diagonal != "exact")))
        elif asked.diagonal:
            for a in range(K):
                back.put(columns.squares(at.bend(a, a, asked.diagonal == "convex")))
        return self._read(asked, columns, back.opened(1 / self.losses.total), bool(trials))

    def left_out_fall(self, before: Point, after: Point, unit: float) -> Vector:
        with self.namespace.within_memory("leave-one-out losses", self.design.bytes_for(self.features.size)):
            fall = self._left_out(before, unit) - self._left_out(after, unit)
            sums = [self.losses.weighted(fall).sum(), self.losses.weighted(fall * fall).sum()]
            return self.namespace.to_host(self.namespace.xp.stack(sums)) / self.losses.total

    def _left_out(self, fit: Point, unit: float) -> Any:
        """The loss of every sample under a fit without it, as in `left_out.py`."""
        xp, n, K, softmax = self.namespace.xp, self.design.n, self.width, self.only_contrasts
        columns = self.design.columns(self.features, few=True)
        z = columns.matvec(fit.x.reshape(-1, K))
        values, vectors = np.linalg.eigh(fit.inverse)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))).reshape(self.features.size, K, -1)
        spread = self.namespace.zeros((n, K, K) if softmax else (n, K), _DOUBLE)
        for q in range(root.shape[2]):
            moved = columns.matvec(np.ascontiguousarray(root[:, :, q]))
            spread = spread + (moved[:, :, None] * moved[:, None, :] if softmax else moved * moved)
        share = self.losses.weighted(self.namespace.zeros((n,), _DOUBLE) + 1.0) / self.losses.total
        without = xp.where(share < unit, share, unit)
        _, slope, shape = self.losses.pointwise(z)
        if softmax:
            one = self.namespace.to_device(np.eye(K))
            spread = without[:, None, None] * spread
            bend = shape[:, :, None] * (one - shape[:, None, :])
            step = (spread @ xp.linalg.solve(one - bend @ spread, slope[:, :, None]))[:, :, 0]
        else:
            spread = without[:, None] * spread
            stays = 1 - spread * shape
            step = spread * slope / xp.where(stays > LEAST, stays, LEAST)
        value = self.losses.pointwise(z + step)[0]
        return value if value.ndim == 1 else value.sum(axis=1)

    def _read(self, asked: Query, columns: Columns, parts: list[Vector], with_trials: bool) -> PartialSums:
        """What came back, over the features that were asked for, in the order of the query."""
        K, order, size = self.width, columns.order, asked.features.size
        values = np.concatenate(parts[: 1 + with_trials])
        rest = iter(parts[1 + with_trials :])
        # So far out that ψ is no number, nothing else is, either.
        lost = not np.isfinite(values[0])
        gradient: Any = None
        hessian: Any = None
        diagonal = product = None
        if asked.gradient:
            gradient = next(rest).reshape(-1, K)
            gradient = (gradient[order] if asked.gradient == "here" else gradient).ravel()
        if asked.hessian:
            square, in_order = np.ix_(order, order), np.array_equal(order, np.arange(columns.features.size))
            hessian = np.zeros((size, K, size, K))
            for a, b in self._pairs:
                block = next(rest).reshape(columns.features.size, -1)
                hessian[:, a, :, b] = hessian[:, b, :, a] = block if in_order else block[square]
            hessian = hessian.reshape(size * K, size * K)
        if asked.product is not None:
            product = next(rest).reshape(-1, K)[order].ravel()
        elif asked.diagonal:
            diagonal = np.stack([next(rest)[order] for _ in range(K)], axis=1).ravel()
        if lost:
            for array in (gradient, hessian, diagonal, product):
                if array is not None:
                    array[:] = np.nan
        return PartialSums(values, gradient, hessian, diagonal, product)

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        """Pairs of classes with a block of the Hessian between them."""
        if not self.only_contrasts:
            return [(k, k) for k in range(self.width)]
        return [(a, b) for a in range(self.width) for b in range(a, self.width)]

    @property
    def n_margins(self) -> int:
        return self.design.n * self.width

    @property
    def curvature(self) -> float:
        """A typical ℓ'' times the mean square of the entries of the columns that are not zero, seen in some rows."""
        seen = self._once("typical", lambda: self.design.typical_squares(self.samples.weights))
        sums = self._sums("typical", seen)
        return (
            float(self._once("bend", self.losses.typical_bend)) * sums.total / sums.positive if sums.positive else 1.0
        )

    @property
    def column_squares(self) -> Vector:
        whole = self._once("squares on the host", lambda: self.namespace.to_host(self._whole_squares))
        return np.asarray(whole[self.features], np.float64)

    @property
    def column_means(self) -> Vector:
        weights, total = self.samples.weights, self.samples.total
        whole = self._once("means", lambda: self.namespace.to_host(self.design.rmatvec(weights) / total))
        return np.asarray(whole[self.features], np.float64)

    @property
    def _whole_squares(self) -> Any:
        """Of all features, on the device; a pass over X, the first time it is asked for."""
        return self._once("squares", lambda: self.design.column_squares(self.samples.weights) / self.samples.total)

    @property
    def _squares(self) -> Sums:
        """Of Σ s_i a_ij² / Σ s."""
        return self._sums("squares", self._whole_squares)

    def _once(self, name: str, made: Callable[[], Any]) -> Any:
        """What is a fact of all features, made when it is asked for first."""
        if name not in self._facts:
            self._facts[name] = made()
        return self._facts[name]

    def _sums(self, name: str, whole: Any) -> Sums:
        """What is asked of a vector over all features on the device, over those of this restriction."""
        if name not in self._own:
            part = whole
            if self.features.size < self.n_all:
                part = self.namespace.take(whole, self.namespace.to_device(self.features.astype(np.int64)), 0)
            xp, positive = self.namespace.xp, part > 0
            small = xp.amin(xp.where(positive, part, math.inf))
            figures = [
                self.namespace.cast(positive.sum(), _DOUBLE),
                xp.where(positive, part, 0.0).sum(),
                small,
                xp.amax(part),
            ]
            self._own[name] = Sums(*self.namespace.to_host(xp.stack(figures)).tolist())
            if not math.isfinite(self._own[name].total):
                raise InvalidInputError("the norm of a column of X overflows; scale the columns")
        return self._own[name]

    def restrict(self, W: NDArray[np.intp]) -> Self:
        part = super().restrict(W)
        part._own = {}
        return part

    @property
    def weak_convexity(self) -> float:
        """μ_ℓ times the trace of A'diag(s)A / Σ s, no less than its largest eigenvalue."""
        if self.only_contrasts or self.loss.weak_convexity == 0:
            return 0.0
        return self.loss.weak_convexity * self._squares.total

    @property
    def smoothness(self) -> float:
        """sup |ℓ''| times that trace; inf where ℓ'' has no bound."""
        return (
            math.inf
            if math.isinf(self.loss.smoothness)
            else self.loss.smoothness * self._squares.total + self.steepest_ridge()
        )

    @property
    def convex_start(self) -> DeviceModel | None:
        """The same samples with the loss's own convex start for its loss."""
        start = self.loss.convex_start
        if start is None:
            return None
        whole: DeviceModel = self._once("convex start", lambda: self._with_loss(start))
        convex = copy.copy(whole)
        convex.features, convex.strength, convex._own = self.features, self.strength, {}
        return convex

    def _with_loss(self, loss: Loss) -> DeviceModel:
        """All features with another loss; columns that are kept serve both."""
        other = copy.copy(self)
        other.form, other.loss = replace(self.form, loss=loss), loss
        other.losses, other.shared = Losses(self.samples, other.form), SharedState()
        other._facts, other._own = {}, {}
        return other

    def first_guess(self) -> Vector:
        x = np.zeros(self.dimension)
        if self.exempt.size and self.width == 1:
            x[self.exempt[0]] = self._once("middle", self.losses.middle)
        return x

    def is_separated(self, x: Vector) -> bool:
        if self.loss.attained or self.is_held(x):
            return False
        rows = np.asarray(x, np.float64).reshape(-1, self.width)
        used = np.flatnonzero(np.any(rows, axis=1))
        features, point = self.features[used], rows[used]
        if self.weak_convexity > 0:
            far = Query(features, tuple((t * point).ravel() for t in FARTHER))
            return keeps_decreasing(self.evaluate(far).values.tolist())
        falls, rises = self.losses.ray_trend(self.design.columns(features).matvec(point))
        return falls and not rises

    def accuracy(self, x: Vector) -> float:
        rows = np.asarray(x, np.float64).reshape(-1, self.width)
        used = np.flatnonzero(np.any(rows, axis=1))
        used = used if used.size else np.arange(1)  # x = 0: margins that are 0, of any feature
        return self.losses.accuracy(self.design.columns(self.features[used]).matvec(rows[used]))

    def advice(self) -> str:
        squares = self._squares
        spread = math.sqrt(squares.largest / squares.smallest) if squares.positive else 1.0
        return f"The columns of X differ in scale by a factor of {spread:.0e}: scale them." if spread > 100 else ""

    def __repr__(self) -> str:
        return f"DeviceModel({self.samples!r}, loss={self.loss!r})"


class Sums(NamedTuple):
    """Of the entries of a vector that are positive."""

    positive: float
    total: float
    smallest: float
    largest: float


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
        """Each sample's times its weight; one without weight is not there, whatever its loss."""
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
        """Whether some losses fall for ever as margins move in a direction, and whether some rise."""
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
