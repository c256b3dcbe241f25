"""One round over remote data: the query that is sent, the sums that are returned, and the traffic of both."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np

from levelprox._typing import Features, Matrix, Vector
from levelprox.exceptions import warn

#: Times a step: how much further a search along it may go.
AHEAD = 2.0 ** np.arange(1, 7) - 1


@dataclass(frozen=True, eq=False)
class Query:
    """A query to the data, evaluated in one round.

    Attributes
    ----------
    features : ndarray of int
        W: the features that are not zero at any of the points.
    points : tuple of ndarray
        Coordinates of these features. ψ is computed at each, all other quantities at the first.
    gradient : {"", "here", "everywhere"}
        Whether to compute ∇ψ: over W, or over all features.
    hessian : {"", "convex", "exact"}
        Whether to compute ∇²ψ over W; "convex" with |ℓ''| for ℓ''.
    diagonal : {"", "convex", "exact"}
        The same of its diagonal alone.
    step : ndarray, optional
        dx, to compute ψ also at points[0] + t·dx for the lengths t of `AHEAD`: all a search along a step may try.
    product : ndarray, optional
        v, to compute ∇²ψ v over W; with |ℓ''| where `diagonal` is not "exact".

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.backends import Query
    >>> Query(np.array([0, 3]), (np.array([1.0, -1.0]),), gradient="everywhere").nbytes
    32
    """

    features: Features
    points: tuple[Vector, ...]
    gradient: Literal["", "here", "everywhere"] = ""
    hessian: Literal["", "convex", "exact"] = ""
    diagonal: Literal["", "convex", "exact"] = ""
    step: Vector | None = None
    product: Vector | None = None

    @property
    def nbytes(self) -> int:
        """What goes out."""
        sent = (*self.points, self.features, self.step, self.product)
        return sum(array.nbytes for array in sent if array is not None)


@dataclass(frozen=True, eq=False)
class PartialSums:
    """Sums over samples, each weighted by s_i.

    Attributes
    ----------
    values : ndarray of shape (number of points + lengths along a step,)
        Σ s_i ℓ_i.
    gradient, hessian, diagonal, product : ndarray, optional
        In the order of the query.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.backends import PartialSums
    >>> (PartialSums(np.array([1.0])) + PartialSums(np.array([2.0]))).times(0.5).values.tolist()
    [1.5]
    """

    values: Vector
    gradient: Vector | None = None
    hessian: Matrix | None = None
    diagonal: Vector | None = None
    product: Vector | None = None

    def __add__(self, other: PartialSums) -> PartialSums:
        theirs = vars(other)
        sums = {name: one + theirs[name] for name, one in vars(self).items() if one is not None}
        return replace(self, **sums)

    def with_ridge(self, query: Query, strength: Vector) -> PartialSums:
        """Return the same means with Σ_j r_j x_j² added to ψ; `strength` is r of all features."""
        n_outputs = query.points[0].size // max(query.features.size, 1) if query.features.size else 1
        held = np.repeat(strength[query.features], n_outputs)
        first = query.points[0]
        points = [*query.points, *(first + t * query.step for t in AHEAD if query.step is not None)]
        values = self.values + [float(np.sum(held * point**2)) for point in points]
        gradient, hessian, diagonal, product = self.gradient, self.hessian, self.diagonal, self.product
        if gradient is not None and gradient.size == first.size:
            gradient = gradient + 2 * held * first
        elif gradient is not None:
            gradient = gradient.copy()
            gradient.reshape(strength.size, -1)[query.features] += (2 * held * first).reshape(-1, n_outputs)
        if hessian is not None:
            hessian = hessian + np.diag(2 * held)
        if diagonal is not None:
            diagonal = diagonal + 2 * held
        if product is not None and query.product is not None:
            product = product + 2 * held * query.product
        return PartialSums(values, gradient, hessian, diagonal, product)

    def times(self, factor: float) -> PartialSums:
        """Return the same sums in another unit."""
        return replace(self, **{name: factor * one for name, one in vars(self).items() if one is not None})

    @property
    def nbytes(self) -> int:
        """Size of the result."""
        return sum(one.nbytes for one in vars(self).values() if one is not None)


@dataclass(frozen=True)
class Traffic:
    """Communication with the data so far.

    Attributes
    ----------
    rounds : int
        Queries.
    full_gradients : int
        Those for the gradient over all features.
    bytes_out, bytes_back : int
        Of queries, and of sums.

    Examples
    --------
    >>> from levelprox.backends import Traffic
    >>> Traffic(1, 0, 32, 8) + Traffic(1, 1, 16, 64)
    Traffic(rounds=2, full_gradients=1, bytes_out=48, bytes_back=72)
    """

    rounds: int = 0
    full_gradients: int = 0
    bytes_out: int = 0
    bytes_back: int = 0

    @property
    def looks(self) -> int:
        """Deprecated name of `full_gradients`."""
        warn("traffic.looks is deprecated: its name is full_gradients", DeprecationWarning)
        return self.full_gradients

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def and_round(self, query: Query, answer: PartialSums) -> Traffic:
        """Return the traffic with that of one more round."""
        full = self.full_gradients + (query.gradient == "everywhere")
        return Traffic(self.rounds + 1, full, self.bytes_out + query.nbytes, self.bytes_back + answer.nbytes)
