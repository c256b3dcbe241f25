"""The problem of one batch: its loss, a quadratic model of the batches before it, and how far x may move.

**The past.** A stream keeps a quadratic model of the losses of earlier batches about the current point,

    Σ_t ψ_t(x)  ≈  const + M [ ⟨g, x − x°⟩ + ½ (x − x°)'H(x − x°) ]

M is the weight of the previous samples, g the mean of their gradients as it would be at x°, H that of their
Hessians. g and the diagonal of H are kept for all features. The other entries of H are kept for a pool of features, the
current support and some that may enter it: entry (i, j) is the mean since the later of the two came into the pool,
and stands for the time before as well. Where that is not positive semidefinite, entries that were not seen in full are
halved until it is; zero would do.

When x° moves by dx, g moves by H dx: exactly over the pool; outside it, by the change of the gradient of the latest
batch (Cutkosky and Orabona 2019, "Momentum-based variance reduction in non-convex SGD").

**The refit** over a few features minimises

    F(x) = α ψ(x) + ⟨p, x − c⟩ + ½ (x − c)'Q(x − c),      x_j ≥ 0 where required,

with Q positive definite: F grows along every ray on which ψ does not fall without end, so a minimiser exists where
classes are separated, too. Newton's method on margins; at bounds, coordinates that would cross them stay there
(Bertsekas 1982, "Projected Newton methods for optimization problems with simple constraints").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from levelprox._typing import Features, Mask, Matrix, Vector
from levelprox.subset.newton import Minimum, Proximal, minimised

_SEEN_IN_FULL_SHARE = 1 - 1e-9  # of M
_HESSIAN_HALVINGS = 6
_NEWTON_STEPS = 30
_DECREASE_TOLERANCE = 1e-10  # of F
_STEP_HALVINGS = 40
_LAST_DIGITS = 16 * float(np.finfo(np.float64).eps)


def coordinates(features: Features, n_outputs: int) -> Features:
    """Return where the coefficients of these features are in x."""
    return (features[:, None] * n_outputs + np.arange(n_outputs)).ravel()


class PastBatches:
    """The quadratic model of earlier batches.

    Parameters
    ----------
    dimension : int
        Of x.
    n_outputs : int
        Coefficients of a feature.

    Attributes
    ----------
    weight : float
        M.
    reliable : float
        At most M: how many samples the gradient outside the support is as good as.
    noise : float
        The variance of one sample's gradient along a coordinate, over the curvature there.
    curvature : float
        A typical curvature of ψ along a coordinate.
    """

    def __init__(self, dimension: int, n_outputs: int) -> None:
        self.n_outputs = n_outputs
        self.weight = self.reliable = self.noise = self.curvature = 0.0
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
        seen, total = np.zeros(pool.size), np.zeros((pool.size * self.n_outputs,) * 2)
        seen[places] = self.seen[stay]
        old, new = coordinates(np.flatnonzero(stay), self.n_outputs), coordinates(places, self.n_outputs)
        total[np.ix_(new, new)] = self._sum[np.ix_(old, old)]
        self.pool, self.seen, self._sum = pool, seen, total

    def hessian(self, batch: Matrix, weight: float) -> Matrix:
        """Return H over the pool; entries that were not seen before are those of a batch of that weight and Hessian."""
        if self.weight == 0:
            return np.zeros_like(batch)
        both = self._seen_together()
        known = both >= _SEEN_IN_FULL_SHARE * self.weight
        mean = (self._sum + weight * batch) / (
            both + weight + self.pool.size
        )  # of few samples, correlations are mostly chance
        H = (self._sum + np.where(known, 0.0, (self.weight - both) * mean)) / self.weight
        own = np.diag_indices_from(H)
        H[own] = np.where(known[own], H[own], self.diagonal[coordinates(self.pool, self.n_outputs)])
        for _ in range(_HESSIAN_HALVINGS):
            if _is_semidefinite(H):
                return H
            H = np.where(known | np.eye(len(H), dtype=np.bool_), H, H / 2)
        return np.where(known | np.eye(len(H), dtype=np.bool_), H, 0.0)

    def _seen_together(self) -> Matrix:
        """Return the weight of the samples that each entry of H over the pool is a mean of."""
        seen = np.repeat(self.seen, self.n_outputs)
        return np.minimum(seen[:, None], seen)

    def follow(self, gradient: Vector, H: Matrix, dx: Vector, change: Vector, weight: float) -> None:
        """Move x° by dx over the pool, where gradient and H are given; for other features g changes as that of a batch.

        Both are estimates, and what they add to the error is taken off the weights: where x moves by dx, a mean over n
        samples errs in Hdx as if it were a gradient of n/ν samples, ν = dx'Hdx/noise.
        """
        places = coordinates(self.pool, self.n_outputs)
        here = gradient + H @ dx
        self.gradient += change
        self.gradient[places] = here
        costs = (np.diagonal(H) * dx**2).reshape(-1, self.n_outputs).sum(axis=1)
        chance = min(1.0, float(np.sum(dx * (H @ dx))) / self.noise) if self.noise > 0 else 1.0
        self.reliable /= 1 + self.reliable * chance / weight if np.any(dx) else 1.0
        new = (self.seen < _SEEN_IN_FULL_SHARE * self.weight) & (costs > 0)
        if np.any(new):
            unseen = float(np.sum(costs[new] * (1 - self.seen[new] / self.weight)))
            chance = min(1.0, unseen / self.noise) if self.noise > 0 else 1.0
            self.fade(1 / (1 + self.weight * chance / (float(np.min(self.seen[new])) + weight)))

    def take_in(self, batch: Matrix, gradient: Vector, diagonal: Vector, inside: Mask, weight: float) -> None:
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
        n_outputs, ones = self.n_outputs, coordinates(intercept, self.n_outputs)
        if ones.size:
            by_feature = shift.reshape(-1, n_outputs)
            of_ones = self.gradient[ones].reshape(-1, n_outputs).sum(axis=0)
            self.gradient -= (by_feature * of_ones).ravel()
            self.diagonal += (by_feature**2 * self.diagonal[ones].reshape(-1, n_outputs).sum(axis=0)).ravel()
        self.gradient /= ratio
        self.diagonal /= ratio**2
        places = coordinates(self.pool, n_outputs)
        change = np.eye(places.size)
        for one in np.flatnonzero(np.isin(self.pool, intercept)):
            for c in range(n_outputs):
                change[one * n_outputs + c, c::n_outputs] -= shift[places[c::n_outputs]]
        change /= ratio[places]
        both = np.maximum(self._seen_together(), np.finfo(np.float64).tiny)
        self._sum = both * (change.T @ (self._sum / both) @ change)


def _is_semidefinite(H: Matrix) -> bool:
    """Return whether H is positive semidefinite, up to rounding, in units in which its diagonal is 1."""
    unit = 1 / np.sqrt(np.where(np.diagonal(H) > 0, np.diagonal(H), 1.0))
    scaled = unit[:, None] * H * unit
    scaled[np.diag_indices_from(scaled)] += 1e-9
    try:
        np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        return False
    return True


class Left(NamedTuple):
    """Where the model of F has its minimum over the features that are left, and which these are."""

    x: Vector
    features: Mask


class BatchProblem(Proximal):
    """F over few features."""

    def minimised(self, x: Vector, free: Mask) -> Minimum | None:
        """Return the minimiser over the free coordinates, from x on, which is 0 at the others; None if that fails."""
        found = minimised(self, x, _DECREASE_TOLERANCE / 2, free=free, most=_NEWTON_STEPS, halvings=_STEP_HALVINGS)
        return found if np.isfinite(found.value) and np.all(np.isfinite(found.hessian)) else None

    def over_few(self, x: Vector, count: Mask, ready: Mask, k: int, price: float) -> Minimum | None:
        """Return the minimum over at most k features that count; ready ones replace those of x if worth their price."""
        n_outputs = self.model.n_outputs
        inside = np.any(x.reshape(-1, n_outputs) != 0, axis=1) | ~count
        stay = self.minimised(x, np.repeat(inside, n_outputs))
        if stay is None or np.array_equal(inside, inside | ready):
            return stay
        free = inside | ready
        whole = self.minimised(stay.x, np.repeat(free, n_outputs))
        if whole is None or stay.value - whole.value <= price:
            return stay
        begin, left = self.without_the_least(whole, free, count, ~inside, k, price)
        if np.array_equal(inside, left):
            return stay
        begin[self.nonnegative] = np.maximum(begin[self.nonnegative], 0.0)
        best = self.minimised(begin, np.repeat(left, n_outputs))
        return stay if best is None or stay.value - best.value <= price else best

    def without_the_least(self, best: Minimum, left: Mask, count: Mask, new: Mask, k: int, price: float) -> Left:
        """Leave out the feature that costs least, by the model of F at its minimum, again and again.

        Leaving out feature j costs ½ x_j'K_jj⁻¹x_j and moves x by −K_·j K_jj⁻¹ x_j, with K the inverse Hessian.

        Parameters
        ----------
        best : Minimum
            Over the features that are left at the beginning.
        left, count, new : ndarray of bool
            Which features are left, which of them count, and which must be worth `price` to stay.
        k : int
            How many of those that count may stay.
        """
        n_outputs = self.model.n_outputs
        x, left, free = best.x.copy(), left.copy(), np.repeat(left, n_outputs)
        K = np.zeros_like(best.hessian)
        K[np.ix_(free, free)] = np.linalg.inv(best.hessian[np.ix_(free, free)])
        every = np.arange(left.size)
        while np.any(left & count):
            pulls = np.zeros((left.size, n_outputs))
            blocks = K.reshape(left.size, n_outputs, left.size, n_outputs)[every, :, every, :]
            pulls[left] = np.linalg.solve(blocks[left], x.reshape(-1, n_outputs, 1)[left])[:, :, 0]
            cost = np.where(left & count, 0.5 * np.sum(x.reshape(-1, n_outputs) * pulls, axis=1), np.inf)
            if np.count_nonzero(left & count) <= k:
                cost[~new | (cost >= price)] = np.inf
            out = int(np.argmin(cost))
            if not np.isfinite(cost[out]):
                break
            mine = slice(out * n_outputs, (out + 1) * n_outputs)
            x -= K[:, mine] @ pulls[out]
            K = K - K[:, mine] @ np.linalg.solve(K[mine, mine], K[mine, :])
            x[mine] = K[mine, :] = K[:, mine] = 0.0
            left[out] = False
        return Left(x, left)
