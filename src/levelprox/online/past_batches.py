"""What a stream keeps of the batches it has seen: a quadratic model of their losses about the current point.

    Σ_t ψ_t(x)  ≈  const + M [ ⟨g, x − x°⟩ + ½ (x − x°)'H(x − x°) ]

M is the weight of the previous samples, g the mean of their gradients as it would be at x°, H that of their
Hessians. g and the diagonal of H are kept for all features. The other entries of H are kept for a pool of features, the
current support and some that may enter it: entry (i, j) is the mean since the later of the two came into the pool,
and stands for the time before as well. Where that is not positive semidefinite, what was not seen in full is halved
until it is; zero would do.

When x° moves by dx, g moves by H dx: exactly over the pool; outside it, by the change of the gradient of the latest
batch (Cutkosky and Orabona 2019, "Momentum-based variance reduction in non-convex SGD").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Features = NDArray[np.intp]

_IN_FULL = 1 - 1e-9  # of M
_HALVINGS = 6


def coordinates(features: Features, width: int) -> Features:
    """Where the coefficients of these features are in x."""
    return (features[:, None] * width + np.arange(width)).ravel()


class Recollection:
    """The quadratic model of the past.

    Parameters
    ----------
    dimension : int
        Of x.
    width : int
        Coefficients of a feature.

    Attributes
    ----------
    weight : float
        M.
    reliable : float
        At most M: how many samples the gradient outside the support is as good as.
    noise : float
        The variance of one sample's gradient along a coordinate, over the curvature there.
    bend : float
        A typical curvature of ψ along a coordinate.
    """

    def __init__(self, dimension: int, width: int) -> None:
        self.width = width
        self.weight = self.reliable = self.noise = self.bend = 0.0
        self.gradient = np.zeros(dimension)  # g
        self.diagonal = np.zeros(dimension)  # of H
        self.pool: Features = np.empty(0, np.intp)
        self.seen: Vector = np.empty(0)  # the weight of the samples since each of the pool came into it
        self._sum: Matrix = np.empty((0, 0))  # of Hessians over the pool, each entry since both were in it

    def fade(self, share: float) -> None:
        """Discount the weight of every sample."""
        self.weight *= share
        self.reliable *= share
        self.seen *= share
        self._sum *= share

    def choose(self, pool: Features) -> None:
        """Keep H over these features, sorted, from now on; of those that leave the pool it is forgotten."""
        stay = np.isin(self.pool, pool, assume_unique=True)
        places = np.searchsorted(pool, self.pool[stay])
        seen, total = np.zeros(pool.size), np.zeros((pool.size * self.width,) * 2)
        seen[places] = self.seen[stay]
        old, new = coordinates(np.flatnonzero(stay), self.width), coordinates(places, self.width)
        total[np.ix_(new, new)] = self._sum[np.ix_(old, old)]
        self.pool, self.seen, self._sum = pool, seen, total

    def hessian(self, batch: Matrix, weight: float) -> Matrix:
        """H over the pool; a batch of that weight, with that Hessian, gives the entries that are not known yet."""
        if self.weight == 0:
            return np.zeros_like(batch)
        both = self._seen_together()
        known = both >= _IN_FULL * self.weight
        told = both + weight
        mean = (self._sum + weight * batch) / (told + self.pool.size)  # of few samples, correlations are mostly chance
        H = (self._sum + np.where(known, 0.0, (self.weight - both) * mean)) / self.weight
        own = np.diag_indices_from(H)
        H[own] = np.where(known[own], H[own], self.diagonal[coordinates(self.pool, self.width)])
        for _ in range(_HALVINGS):
            if _is_semidefinite(H):
                return H
            H = np.where(known | np.eye(len(H), dtype=np.bool_), H, H / 2)
        return np.where(known | np.eye(len(H), dtype=np.bool_), H, 0.0)

    def _seen_together(self) -> Matrix:
        """The weight of the samples that each entry of H over the pool is a mean of."""
        seen = np.repeat(self.seen, self.width)
        return np.minimum(seen[:, None], seen)

    def follow(self, gradient: Vector, H: Matrix, dx: Vector, change: Vector, weight: float) -> None:
        """Move x° by dx over the pool, where gradient and H are given; for other features g changes as that of a batch.

        Both are estimates, and what they add to the error is taken off the weights: where x moves by dx, a mean over n
        samples errs in Hdx as if it were a gradient of n/ν samples, ν = dx'Hdx/noise.
        """
        places = coordinates(self.pool, self.width)
        here = gradient + H @ dx
        self.gradient += change
        self.gradient[places] = here
        costs = (np.diagonal(H) * dx**2).reshape(-1, self.width).sum(axis=1)
        chance = min(1.0, float(np.sum(dx * (H @ dx))) / self.noise) if self.noise > 0 else 1.0
        self.reliable /= 1 + self.reliable * chance / weight if np.any(dx) else 1.0
        new = (self.seen < _IN_FULL * self.weight) & (costs > 0)
        if np.any(new):
            unseen = float(np.sum(costs[new] * (1 - self.seen[new] / self.weight)))
            chance = min(1.0, unseen / self.noise) if self.noise > 0 else 1.0
            self.fade(1 / (1 + self.weight * chance / (float(np.min(self.seen[new])) + weight)))

    def take_in(
        self, batch: Matrix, gradient: Vector, diagonal: Vector, inside: NDArray[np.bool_], weight: float
    ) -> None:
        """Add a batch: its Hessian over the pool, its gradient and the diagonal of its Hessian at x°."""
        self.weight += weight
        self.reliable += weight
        share = weight / self.weight
        self.gradient += np.where(inside, share, weight / self.reliable) * (gradient - self.gradient)
        self.diagonal += share * (diagonal - self.diagonal)
        self._sum += weight * batch
        self.seen += weight

    def rescale(self, ratio: Vector, shift: Vector, intercept: Features) -> None:
        """Columns a become (a − shift)/ratio: g and H of the new coordinates, one number for each of them.

        The entry of H for the intercept and a column outside the pool is taken for 0, as it is about for centred ones.
        """
        width, ones = self.width, coordinates(intercept, self.width)
        if ones.size:
            by_feature = shift.reshape(-1, width)
            of_ones = self.gradient[ones].reshape(-1, width).sum(axis=0)
            self.gradient -= (by_feature * of_ones).ravel()
            self.diagonal += (by_feature**2 * self.diagonal[ones].reshape(-1, width).sum(axis=0)).ravel()
        self.gradient /= ratio
        self.diagonal /= ratio**2
        places = coordinates(self.pool, width)
        change = np.eye(places.size)
        for one in np.flatnonzero(np.isin(self.pool, intercept)):
            for c in range(width):
                change[one * width + c, c::width] -= shift[places[c::width]]
        change /= ratio[places]
        both = np.maximum(self._seen_together(), np.finfo(np.float64).tiny)
        self._sum = both * (change.T @ (self._sum / both) @ change)


def _is_semidefinite(H: Matrix) -> bool:
    """Up to rounding, in units in which the diagonal is 1."""
    unit = 1 / np.sqrt(np.where(np.diagonal(H) > 0, np.diagonal(H), 1.0))
    scaled = unit[:, None] * H * unit
    scaled[np.diag_indices_from(scaled)] += 1e-9
    try:
        np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        return False
    return True
