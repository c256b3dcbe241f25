"""ψ of samples on a device: X, targets, weights and all arrays of n entries stay there.

Results have the size of W, except for one gradient over all features in each full gradient pass; `query.py` says what
is sent when. Each query is one transfer there, of its points, and one back, of all its results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np

from levelprox._typing import Features, Matrix, Vector
from levelprox.backends._base import RemoteObjective, SharedState
from levelprox.backends.array_namespace import Transfers
from levelprox.backends.device_design import Columns
from levelprox.backends.device_source import DeviceSource, Losses, Parcel
from levelprox.backends.partition import Form
from levelprox.backends.query import AHEAD, PartialSums, Query
from levelprox.exceptions import InvalidInputError
from levelprox.losses import Loss
from levelprox.objectives.feature_scale import ColumnSquares
from levelprox.objectives.leave_one_out import LEAST_REMAINDER, Point

_DOUBLE = np.dtype(np.float64)


class DeviceModel(RemoteObjective):
    """ψ of samples on a device.

    Parameters
    ----------
    samples : DeviceSource
    form : Form
        How they become a model. Its loss must be smooth.
    """

    where = "data on a device"

    def __init__(self, samples: DeviceSource, form: Form) -> None:
        super().__init__(form, samples.n_features + form.fit_intercept)
        self.samples, self.namespace = samples, samples.namespace
        self.design = samples.design.formed(form.center, form.scale, form.fit_intercept)
        self.losses = Losses(samples, form)
        self._facts: dict[str, Any] = {}  # of all features, shared by all restrictions
        self._own: dict[str, ColumnSquares] = {}  # of the features of this one

    @property
    def transfers(self) -> Transfers:
        """What has crossed between the device and the host."""
        return self.namespace.transfers

    def partial_sums(self, query: Query) -> PartialSums:
        """Return means over all samples, Σ s_i … / Σ s."""
        needed = self.design.bytes_for(query.features.size)
        with self.namespace.within_memory(f"a query of {query.features.size} features", needed):
            return self._evaluated(query)

    def _evaluated(self, query: Query) -> PartialSums:
        K = self.n_outputs
        columns = self.design.columns(query.features, few=bool(query.hessian))
        sent = [*query.points, *(one for one in (query.step, query.product) if one is not None)]
        moved = columns.matvec(np.concatenate([x.reshape(-1, K) for x in sent], axis=1))
        moves = [moved[:, k : k + K] for k in range(0, len(sent) * K, K)]
        trials = moves[1 : len(query.points)]
        if query.step is not None:
            trials += [moves[0] + t * moves[len(query.points)] for t in AHEAD.tolist()]
        back, at = Parcel(self.namespace), self.losses.at(moves[0])
        back.put(at.value)
        if trials:
            back.put(self.losses.values(trials))
        if query.gradient == "here":
            back.put(columns.rmatvec(at.slope))
        elif query.gradient:
            back.put(self.design.rmatvec(at.slope[:, 0] if K == 1 else at.slope))
        if query.hessian:
            for a, b in self._pairs:
                back.put(columns.gram(at.curvature(a, b, query.hessian == "convex")))
        if query.product is not None:
            back.put(columns.rmatvec(at.hessian_product(moves[-1], query.diagonal != "exact")))
        elif query.diagonal:
            for a in range(K):
                back.put(columns.squares(at.curvature(a, a, query.diagonal == "convex")))
        return self._read(query, columns, back.opened(1 / self.losses.total), bool(trials))

    def left_out_fall(self, before: Point, after: Point, unit: float) -> Vector:
        """Return the decrease of leave-one-out losses between two fits, as `Model.left_out_fall`; one round."""
        with self.namespace.within_memory("leave-one-out losses", self.design.bytes_for(self.features.size)):
            fall = self._left_out(before, unit) - self._left_out(after, unit)
            sums = [self.losses.weighted(fall).sum(), self.losses.weighted(fall * fall).sum()]
            return self.namespace.to_host(self.namespace.xp.stack(sums)) / self.losses.total

    def _left_out(self, fit: Point, unit: float) -> Any:
        """Return the loss of every sample under a fit without it, as `left_out_losses` does."""
        xp, n, K, softmax = self.namespace.xp, self.design.n, self.n_outputs, self.only_contrasts
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
            step = spread * slope / xp.where(stays > LEAST_REMAINDER, stays, LEAST_REMAINDER)
        value = self.losses.pointwise(z + step)[0]
        return value if value.ndim == 1 else value.sum(axis=1)

    def _read(self, query: Query, columns: Columns, parts: list[Vector], with_trials: bool) -> PartialSums:
        """Return the results over the requested features, in the order of the query."""
        K, order, size = self.n_outputs, columns.order, query.features.size
        values = np.concatenate(parts[: 1 + with_trials])
        rest = iter(parts[1 + with_trials :])
        # So far out that ψ is no number, nothing else is, either.
        lost = not np.isfinite(values[0])
        gradient: Any = None
        hessian: Any = None
        diagonal = product = None
        if query.gradient:
            gradient = next(rest).reshape(-1, K)
            gradient = (gradient[order] if query.gradient == "here" else gradient).ravel()
        if query.hessian:
            square, in_order = np.ix_(order, order), np.array_equal(order, np.arange(columns.features.size))
            hessian = np.zeros((size, K, size, K))
            for a, b in self._pairs:
                block = next(rest).reshape(columns.features.size, -1)
                hessian[:, a, :, b] = hessian[:, b, :, a] = block if in_order else block[square]
            hessian = hessian.reshape(size * K, size * K)
        if query.product is not None:
            product = next(rest).reshape(-1, K)[order].ravel()
        elif query.diagonal:
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
            return [(k, k) for k in range(self.n_outputs)]
        return [(a, b) for a in range(self.n_outputs) for b in range(a, self.n_outputs)]

    @property
    def n_margins(self) -> int:
        """How many margins there are: the Hessian has at most this rank."""
        return self.design.n * self.n_outputs

    @property
    def curvature(self) -> float:
        """A typical ℓ'' times the mean square of the entries of the columns that are not zero, seen in some rows."""
        seen = self._once("typical", lambda: self.design.typical_squares(self.samples.weights))
        sums = self._sums("typical", seen)
        curvature = float(self._once("curvature", self.losses.typical_curvature))
        return curvature * sums.total / sums.nonzero if sums.nonzero else 1.0

    @property
    def column_squares(self) -> Vector:
        """Σ s_i a_ij² / Σ s of every feature that this is a function of."""
        whole = self._once("squares on the host", lambda: self.namespace.to_host(self._whole_squares))
        return np.asarray(whole[self.features], np.float64)

    @property
    def column_means(self) -> Vector:
        """Σ s_i a_ij / Σ s of every feature that this is a function of."""
        weights, total = self.samples.weights, self.samples.total
        whole = self._once("means", lambda: self.namespace.to_host(self.design.rmatvec(weights) / total))
        return np.asarray(whole[self.features], np.float64)

    @property
    def _whole_squares(self) -> Any:
        """Of all features, on the device; a pass over X at first use."""
        return self._once("squares", lambda: self.design.column_squares(self.samples.weights) / self.samples.total)

    @property
    def square_sums(self) -> ColumnSquares:
        """Sums over those entries of `column_squares` that are positive."""
        return self._sums("squares", self._whole_squares)

    def _once(self, name: str, made: Callable[[], Any]) -> Any:
        """Return a quantity of all features, computed at first use."""
        if name not in self._facts:
            self._facts[name] = made()
        return self._facts[name]

    def _sums(self, name: str, whole: Any) -> ColumnSquares:
        """Return the entries of a vector on the device for the features of this restriction."""
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
            self._own[name] = ColumnSquares(*self.namespace.to_host(xp.stack(figures)).tolist())
            if not math.isfinite(self._own[name].total):
                raise InvalidInputError("the norm of a column of X overflows; scale the columns")
        return self._own[name]

    def over(self, features: Features) -> Self:
        """Return ψ as a function of these features of the data."""
        part = super().over(features)
        part._own = {}
        return part

    def with_loss(self, loss: Loss) -> Self:
        """Return the same samples with another loss, over all features; columns that are kept serve both."""
        other = self.over(np.arange(self.n_all))
        other.form, other.loss = replace(self.form, loss=loss), loss
        other.losses, other.shared = Losses(self.samples, other.form), SharedState()
        other._facts, other._convex = {}, []
        return other

    def _middle(self) -> float:
        return float(self._once("middle", self.losses.middle))

    def _ray_trend(self, features: Features, x: Matrix) -> tuple[bool, bool]:
        return self.losses.ray_trend(self.design.columns(features).matvec(x))

    def _accuracy(self, features: Features, x: Matrix) -> float:
        return self.losses.accuracy(self.design.columns(features).matvec(x))

    def __repr__(self) -> str:
        return f"DeviceModel({self.samples!r}, loss={self.loss!r})"
