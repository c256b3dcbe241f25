"""X on a device: a tensor of torch or an array of cupy, dense or CSR, read in place and never copied.

    A = (X − 1c') diag(1/s), and a column of ones where there is an intercept

Full products read X itself and correct the small result, A'r = (X'r − c Σ r)/s. Columns that are worked on are
gathered once, dense, centred and scaled; those that the next question has in common with the last are not read again.

Products are in the type of X, and sums of float32 are taken over some thousand rows at a time, which are added up in
float64. Vectors over the samples are float64: they are small relative to X.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from levelprox._typing import Features, Matrix, Vector
from levelprox.backends.array_namespace import Namespace, array_namespace
from levelprox.designs import check_shape
from levelprox.designs.moments import Moments, deviation, middle_and_unit
from levelprox.exceptions import InvalidInputError

_DOUBLE = np.dtype(np.float64)
_INDEX = np.dtype(np.int64)
_ADDED, _PARTS = 2**13, 128  # rows that are summed in the type of X, at least; parts, at most
_PANEL = 128  # columns of a symmetric product that are done at once: as many as a tile of a product has
_PASS = 2**17  # rows of X in one product of a full pass
_PIECE = 2**30  # bytes of a copy that is of use for a moment
_MEASURED = 2**28  # bytes in float64 of the rows that are measured at once
_STORED = 2**25  # entries of a CSR matrix that are checked at a time
_LEAST_NORM = {4: 1e-15, 8: 1e-150}  # of some thousand entries, above which their squares are in the range of the type
_TYPICAL = 2**10  # rows for an estimate of the typical size of entries


class DeviceDesign:
    """A, where X is on a device.

    Parameters
    ----------
    X : tensor or array of shape (n, d)
        float32 or float64; dense in any order, or CSR.
    namespace : Namespace, optional
        By default that of X.
    """

    def __init__(self, X: Any, namespace: Namespace | None = None) -> None:
        known = array_namespace(X) if namespace is None else namespace
        if known is None:
            raise InvalidInputError(f"X must be a tensor of torch or an array of cupy, got {type(X).__name__}")
        check_shape(tuple(X.shape))
        self.namespace = known
        self.X = X.detach() if hasattr(X, "detach") else X
        self._csr = known.csr_parts(self.X)
        self.dtype = known.dtype_of(X if self._csr is None else self._csr[0])
        if self.dtype not in (np.float32, np.float64):
            raise InvalidInputError(f"X must be of float32 or float64 on a device, got {self.dtype}")
        self.n, self.d = int(X.shape[0]), int(X.shape[1])
        self.shape, self.intercept = (self.n, self.d), False
        self._center: Any = None
        self._scale: Any = None
        self._rows: Any = None  # of the entries of a CSR matrix
        self._kept: Columns | None = None

    def formed(self, center: Vector | None, scale: Vector | None, intercept: bool) -> DeviceDesign:
        """Return (X − 1c') diag(1/s), with a last column of ones if `intercept`."""
        other, to_device = copy.copy(self), self.namespace.to_device
        other.shape, other.intercept, other._kept = (self.n, self.d + intercept), intercept, None
        other._center = None if center is None else to_device(np.asarray(center, _DOUBLE))
        other._scale = None if scale is None else to_device(np.asarray(scale, _DOUBLE))
        return other

    def _zeros(self) -> Any:
        """Return a zero for every column of X, in float64."""
        return self.namespace.zeros((self.d,), _DOUBLE)

    # --- products

    def rmatvec(self, r: Any) -> Any:
        """A'r, in float64, for r of shape (n,) or (n, K) in float64; one pass over X."""
        xp, cast = self.namespace.xp, self.namespace.cast
        if self._csr is None:
            own = cast(r, self.dtype)
            out = None
            for rows in self._blocks(_PASS):
                part = cast(xp.matmul(self.X[rows].T, own[rows]), _DOUBLE)
                out = part if out is None else out + part
        else:
            out = self._from_entries(r)
        total = r.sum(axis=0)
        column = (slice(None), None) if r.ndim == 2 else slice(None)
        if self._center is not None:
            out = out - self._center[column] * total
        if self._scale is not None:
            out = out / self._scale[column]
        return xp.concatenate([out, total.reshape((1, -1) if r.ndim == 2 else (1,))]) if self.intercept else out

    def columns(self, features: Features, few: bool = False) -> Columns:
        """Return these columns of A, gathered; what is kept of the last ones is used again.

        Where all are kept they are not copied: the others among those kept are then multiplied by 0, unless `few` says
        that a matrix over these alone is needed, and they are few.
        """
        kept = self._kept
        places = np.full(features.size, -1) if kept is None else kept.places(features)
        shared = places >= 0
        if kept is None or not np.any(shared):
            self._kept = kept = None  # its memory may be needed
            self._kept = Columns(self, features, self.gathered(features))
            return self._kept
        if np.all(shared) and (2 * features.size >= kept.features.size or not few):
            return Columns(self, kept.features, kept.matrix, places)
        old = self.namespace.take(kept.matrix, self.namespace.to_device(places[shared].astype(_INDEX)), 1)
        if np.all(shared):
            return Columns(self, features, old)
        self._kept = kept = None
        matrix = self.namespace.empty((self.n, features.size), self.dtype)
        matrix[:, : old.shape[1]] = old
        matrix[:, old.shape[1] :] = self.gathered(features[~shared])
        self._kept = kept = Columns(self, np.concatenate([features[shared], features[~shared]]), matrix)
        return Columns(self, kept.features, matrix, kept.places(features))

    def bytes_for(self, count: int) -> int:
        """Return the bytes of so many gathered columns, with a scaled copy of some of their rows."""
        size = self.n * count * self.dtype.itemsize
        return 2 * size + min(size, _PIECE)

    def gathered(self, features: Features) -> Any:
        """Columns of A, in their order."""
        real = features[features < self.d]
        index = self.namespace.to_device(real.astype(_INDEX))
        columns = self.namespace.take(self.X, index, 1) if self._csr is None else self._dense(index, real.size)
        if self._center is not None:
            columns -= self.namespace.cast(self._center[index], self.dtype)
        if self._scale is not None:
            columns /= self.namespace.cast(self._scale[index], self.dtype)
        if real.size == features.size:
            return columns
        place, ones = int(np.flatnonzero(features >= self.d)[0]), self.namespace.zeros((self.n, 1), self.dtype) + 1
        return self.namespace.xp.concatenate([columns[:, :place], ones, columns[:, place:]], axis=1)

    # --- CSR

    @property
    def rows(self) -> Any:
        """Which row each entry of a CSR matrix is in."""
        if self._rows is None:
            assert self._csr is not None
            ends = self._csr[2]
            self._rows = self.namespace.repeated(self.namespace.counting(self.n), ends[1:] - ends[:-1])
        return self._rows

    def _entries(self) -> Iterator[tuple[Any, Any, Any]]:
        """Values in float64, rows and columns of the entries of a CSR matrix, some at a time."""
        assert self._csr is not None
        values, columns, _ = self._csr
        for begin in range(0, values.shape[0], _STORED):
            piece = slice(begin, begin + _STORED)
            index = self.namespace.cast(columns[piece], _INDEX)
            yield self.namespace.cast(values[piece], _DOUBLE), self.rows[piece], index

    def _from_entries(self, r: Any) -> Any:
        by_class = r[:, None] if r.ndim == 1 else r
        sums = [self._zeros() for _ in range(by_class.shape[1])]
        for values, rows, columns in self._entries():
            for k, out in enumerate(sums):
                self.namespace.add_at(out, columns, values * by_class[:, k][rows])
        return sums[0] if r.ndim == 1 else self.namespace.xp.stack(sums, axis=1)

    def _dense(self, index: Any, count: int) -> Any:
        """Columns of a CSR matrix, with their zeros."""
        out = self.namespace.zeros((self.n * count,), self.dtype)
        place = self.namespace.zeros((self.d,), _INDEX) - 1
        if count:
            place[index] = self.namespace.cast(self.namespace.counting(count), _INDEX)
            for values, rows, columns in self._entries():
                to = place[columns]
                wanted = to >= 0
                entries = self.namespace.cast(values[wanted], self.dtype)
                self.namespace.add_at(out, rows[wanted] * count + to[wanted], entries)
        return out.reshape(self.n, count)

    # --- what is known of the columns

    def column_squares(self, weight: Any) -> Any:
        """Σ s_i a_ij² of every column of A, on the device; s in float64, there too. One pass over X."""
        xp, cast = self.namespace.xp, self.namespace.cast
        center = self._zeros() if self._center is None else self._center
        scale = self._zeros() + 1 if self._scale is None else self._scale
        squares, total = self._zeros(), weight.sum()
        if (plain := self._plain_squares(weight)) is not None:
            squares = plain / scale**2
        elif self._csr is None:
            for rows in self._blocks(max(1, _MEASURED // (8 * self.d))):
                off = (cast(self.X[rows], _DOUBLE) - center) / scale
                squares = squares + xp.matmul(weight[rows], off * off)
        else:
            held = self._zeros()
            for values, rows, columns in self._entries():
                off = (values - center[columns]) / scale[columns]
                self.namespace.add_at(squares, columns, weight[rows] * off * off)
                self.namespace.add_at(held, columns, weight[rows])
            squares = squares + (total - held) * (center / scale) ** 2  # of the entries that are not stored
        return xp.concatenate([squares, total.reshape(1)]) if self.intercept else squares

    def _plain_squares(self, weight: Any) -> Any:
        """Return Σ x_ij² of columns without weights and centres, read once; None where that does not serve."""
        if self._csr is not None or self._center is not None:
            return None
        xp, cast = self.namespace.xp, self.namespace.cast
        norms = [xp.linalg.norm(self.X[rows], axis=0) for rows in self._blocks(_ADDED)]
        norms = cast(xp.stack(norms), _DOUBLE)
        largest, squares = xp.amax(norms, axis=0), (norms**2).sum(axis=0)
        # Squares beyond the range of the type, and zeros that may be such squares, are left to the other way.
        fine = (weight == 1).all() & ((largest > _LEAST_NORM[self.dtype.itemsize]) & (squares < np.inf)).all()
        return squares if bool(self.namespace.to_host(fine)) else None

    def typical_squares(self, weight: Any) -> Any:
        """Return the same in units of Σ s; for dense X from evenly spaced rows, without a pass over X."""
        step = max(self.n // _TYPICAL, 1) if self._csr is None else 1
        if step == 1:
            return self.column_squares(weight) / weight.sum()
        some = copy.copy(self)
        some.X, some.n = self.X[::step], -(-self.n // step)
        seen = weight[::step] + 0
        return some.column_squares(seen) / self.namespace.xp.where(seen.sum() > 0, seen.sum(), 1.0)

    def moments(self, weight: Any) -> Moments:
        """Mean, deviation, least and largest entry of every column of X itself; as `moments.py` measures them."""
        measure = self._dense_moments if self._csr is None else self._csr_moments
        return Moments(*(self.namespace.to_host(one) for one in measure(weight, weight > 0, weight.sum())))

    def _dense_moments(self, weight: Any, counts: Any, total: Any) -> tuple[Any, Any, Any, Any]:
        xp, cast = self.namespace.xp, self.namespace.cast
        sums = self._zeros()
        low, high = sums + np.inf, sums - np.inf
        for rows in self._blocks(max(1, _MEASURED // (8 * self.d))):
            block, counted = cast(self.X[rows], _DOUBLE), counts[rows, None]
            sums = sums + xp.matmul(weight[rows], block)
            low = xp.minimum(low, xp.amin(xp.where(counted, block, np.inf), axis=0))
            high = xp.maximum(high, xp.amax(xp.where(counted, block, -np.inf), axis=0))
        mean, unit = middle_and_unit(xp, sums / total, low, high)
        first, second = self._zeros(), self._zeros()
        for rows in self._blocks(max(1, _MEASURED // (8 * self.d))):
            off = (cast(self.X[rows], _DOUBLE) - mean) / unit
            first = first + xp.matmul(weight[rows], off)
            second = second + xp.matmul(weight[rows], off * off)
        return mean, deviation(xp, first, second, total, unit), low, high

    def _csr_moments(self, weight: Any, counts: Any, total: Any) -> tuple[Any, Any, Any, Any]:
        xp, add_at, least_at = self.namespace.xp, self.namespace.add_at, self.namespace.least_at
        zeros = self._zeros()
        sums, held, stored, low, lowest = zeros + 0, zeros + 0, zeros + 0, zeros + np.inf, zeros + np.inf
        for values, rows, columns in self._entries():
            counted = counts[rows]
            add_at(sums, columns, weight[rows] * values)
            add_at(held, columns, weight[rows])
            add_at(stored, columns, self.namespace.cast(counted, _DOUBLE))
            least_at(low, columns, xp.where(counted, values, np.inf))
            least_at(lowest, columns, xp.where(counted, -values, np.inf))
        has_zeros = stored < counts.sum()
        low = xp.where(has_zeros & (low > 0), 0.0, low)
        high = xp.where(has_zeros & (lowest > 0), 0.0, -lowest)
        mean, unit = middle_and_unit(xp, sums / total, low, high)
        first, second = zeros + 0, zeros + 0
        for values, rows, columns in self._entries():
            off = (values - mean[columns]) / unit[columns]
            add_at(first, columns, weight[rows] * off)
            add_at(second, columns, weight[rows] * off * off)
        # The entries that are not stored; where all are, what is left of the weights is rounding.
        at_zero, left = -mean / unit, xp.where(has_zeros, total - held, 0.0)
        first = first + left * at_zero
        second = second + left * at_zero * at_zero
        return mean, deviation(xp, first, second, total, unit), low, high

    def check_finite(self) -> None:
        """Raise if an entry of X is NaN or infinite, and say where; one pass over X."""
        xp, whole = self.namespace.xp, self.X if self._csr is None else self._csr[0]
        length = whole.shape[0]
        at_once = max(1, _MEASURED // (self.d if self._csr is None else 1))
        pieces = [slice(begin, begin + at_once) for begin in range(0, length, at_once)]
        counts = [(~xp.isfinite(whole[piece])).sum() for piece in pieces]
        bad = self.namespace.to_host(xp.stack(counts)) if counts else np.zeros(0)
        if not np.any(bad):
            return
        first = int(np.argmax(bad > 0))
        piece = ~xp.isfinite(whole[pieces[first]])
        place = int(self.namespace.to_host(xp.argmax(self.namespace.cast(piece.reshape(-1), _INDEX))))
        if self._csr is None:
            row, column = first * at_once + place // self.d, place % self.d
            value = self.X[row, column]
        else:
            entry = first * at_once + place
            value = whole[entry]
            row, column = (int(self.namespace.to_host(one[entry])) for one in (self.rows, self._csr[1]))
        number = float(self.namespace.to_host(value))
        name = "NaN" if np.isnan(number) else f"{number}"
        raise InvalidInputError(f"X contains {name} at row {row}, column {column} ({int(bad.sum())} in total)")

    def _blocks(self, size: int) -> Iterator[slice]:
        return (slice(begin, min(begin + size, self.n)) for begin in range(0, self.n, size))

    def __repr__(self) -> str:
        return f"DeviceDesign(shape={self.shape}, dtype={self.dtype}, device={self.namespace.device})"


class Columns:
    """Some columns of A, gathered into a matrix of their own.

    Parameters
    ----------
    design : DeviceDesign
        Where they are from.
    features : ndarray of int
        Which they are, in the order of the matrix.
    matrix : array of shape (n, k)
        On the device.
    order : ndarray of int, optional
        Positions of the requested columns in the matrix, in order; all by default.
    """

    def __init__(self, design: DeviceDesign, features: Features, matrix: Any, order: Features | None = None) -> None:
        self.design, self.features, self.matrix = design, features, matrix
        self.order = np.arange(features.size) if order is None else order
        self.namespace, self.n = design.namespace, design.n

    def places(self, features: Features) -> Features:
        """Where these are in the matrix; −1 where they are not."""
        sorter = np.argsort(self.features, kind="stable")
        at = np.minimum(np.searchsorted(self.features, features, sorter=sorter), self.features.size - 1)
        found = sorter[at] if self.features.size else np.zeros(features.size, np.intp)
        return np.where(self.features[found] == features, found, -1) if self.features.size else found - 1

    def matvec(self, x: Matrix) -> Any:
        """Return A x in float64, of shape (n, m), for x of shape (features, m) on the host.

        Coordinates have all their digits where X is float32: they are sent in two parts, large and small.
        """
        whole = np.zeros((self.features.size, x.shape[1]))
        whole[self.order] = x
        dtype, cast, m = self.design.dtype, self.namespace.cast, x.shape[1]
        if dtype == _DOUBLE:
            return self.namespace.xp.matmul(self.matrix, self.namespace.to_device(whole))
        with np.errstate(over="ignore", invalid="ignore"):
            large = whole.astype(dtype)
            parts = np.concatenate([large, (whole - large).astype(dtype)], axis=1)
        # The other way round, for products with very few columns are slow.
        product = self.namespace.xp.matmul(self.namespace.to_device(np.ascontiguousarray(parts.T)), self.matrix.T)
        return (cast(product[:m], _DOUBLE) + cast(product[m:], _DOUBLE)).T

    def rmatvec(self, r: Any) -> Any:
        """A'r in float64, over all columns of the matrix, for r of shape (n, m) in float64."""
        return self._summed(self.matrix, self.namespace.cast(r, self.design.dtype))

    def gram(self, D: Any) -> Any:
        """Return A' diag(D) A in float64, over all columns of the matrix; D of shape (n,), of either sign."""
        D = self.namespace.cast(D, self.design.dtype)[:, None]
        return self._in_pieces(lambda rows: self._symmetric(self.matrix[rows], self.matrix[rows] * D[rows]))

    def _symmetric(self, left: Any, right: Any) -> Any:
        """left' right, which is symmetric: panel by panel, each from its own diagonal on, and mirrored."""
        k = int(left.shape[1])
        out = self.namespace.zeros((k, k), _DOUBLE)
        for begin in range(0, k, _PANEL):
            panel = slice(begin, min(begin + _PANEL, k))
            out[panel, begin:] = self._summed(left[:, panel], right[:, begin:])
        xp = self.namespace.xp
        return xp.triu(out) + xp.triu(out, 1).T

    def squares(self, D: Any) -> Any:
        """Return the diagonal of that matrix, of shape (k, 1)."""
        D = self.namespace.cast(D, self.design.dtype)[:, None]
        return self._in_pieces(lambda rows: self._summed(self.matrix[rows] * self.matrix[rows], D[rows]))

    def _in_pieces(self, part: Any) -> Any:
        """Return sums over rows of which a copy is made, not too many at a time."""
        width = max(self.matrix.shape[1] * self.design.dtype.itemsize, 1)
        size = max(_ADDED, _PIECE // width)
        out = part(slice(0, size))
        for begin in range(size, self.n, size):
            out = out + part(slice(begin, begin + size))
        return out

    def _summed(self, left: Any, right: Any) -> Any:
        """left' right: products over some thousand rows, added up in float64."""
        xp, cast = self.namespace.xp, self.namespace.cast
        n = left.shape[0]
        size = max(_ADDED, -(-n // _PARTS))
        whole = n // size * size
        if whole <= size:
            return cast(xp.matmul(left.T, right), _DOUBLE)
        shape = (n // size, size)
        parts = xp.matmul(
            xp.swapaxes(left[:whole].reshape(*shape, left.shape[1]), 1, 2),
            right[:whole].reshape(*shape, right.shape[1]),
        )
        out = cast(parts, _DOUBLE).sum(axis=0)
        return out if whole == n else out + cast(xp.matmul(left[whole:].T, right[whole:]), _DOUBLE)
