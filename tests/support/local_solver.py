"""An independent local solver: how far ψ falls from a point by moves that satisfy the level.

Losses are written out, columns are scaled to equal size, and moves are those of SciPy's SLSQP for smooth losses and of
linear programs in a neighbourhood for losses with kinks. Of levelprox only φ and its slope are used.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize, special

KINKED = {"absolute": (-1.0, 1.0), "quantile": (-0.5, 0.5), "hinge": (-1.0, 0.0)}  # slopes on either side of the kink
_DELTA = 1.35  # of huber


def mean_loss(name, z, b):
    """The mean loss and its derivative with respect to the margins."""
    n = z.size
    with np.errstate(over="ignore"):
        if name == "squared":
            return float(np.mean((z - b) ** 2)), 2 * (z - b) / n
        if name == "logistic":
            return float(np.mean(np.logaddexp(0, -b * z))), -b * special.expit(-b * z) / n
        if name == "huber":
            r = z - b
            far = _DELTA * (np.abs(r) - _DELTA / 2)
            return float(np.mean(np.where(np.abs(r) <= _DELTA, r**2 / 2, far))), np.clip(r, -_DELTA, _DELTA) / n
        if name == "poisson":
            return float(np.mean(np.exp(z) - b * z)), (np.exp(z) - b) / n
        if name == "squared_hinge":
            m = np.maximum(1 - b * z, 0)
            return float(np.mean(m**2)), -2 * b * m / n
    s, (low, high) = (b * z - 1 if name == "hinge" else z - b), KINKED[name]
    return float(np.mean(np.maximum(low * s, high * s))), np.where(s < 0, low, high) * (b if name == "hinge" else 1) / n


class LocalProblem:
    """min ψ(x) s.t. Σ ω_j φ(|x_j|) ≤ η, in units in which all columns have the same size."""

    def __init__(self, A, b, loss, constraint, level, weights):
        self.A, self.b, self.loss = A, b, loss
        self.constraint, self.level, self.weights = constraint, level, np.asarray(weights, float)
        size = np.sqrt(np.mean(A**2, axis=0))
        self.size = np.where(size > 0, size, 1.0)

    def psi(self, x):
        return mean_loss(self.loss, self.A @ x, self.b)[0]

    def g(self, x):
        return float(np.sum(self.weights * np.asarray(self.constraint.phi(np.abs(x)))))

    def slope(self, x):
        return self.weights * np.asarray(self.constraint.slope(np.abs(x)))

    def lowest_near(self, x):
        """ψ at the best point that the local solver reaches from x and that satisfies the level."""
        moves = self._linear_programs(x) if self.loss in KINKED else [self._slsqp(x)]
        inside = (self._inside(x, move) for move in moves)
        return min([self.psi(x), *(self.psi(point) for point in inside if point is not None)])

    def _slsqp(self, x):
        """x = p − n with p, n ≥ 0: ψ and g are smooth also where a coefficient is zero."""
        d, level = x.size, max(self.level, 1e-300)

        def at(v):
            return (v[:d] - v[d:]) / self.size

        def value(v):
            psi, slope = mean_loss(self.loss, self.A @ at(v), self.b)
            if not np.isfinite(psi):  # a step so long that the loss overflows: SLSQP shortens it
                return np.finfo(float).max, np.zeros(2 * d)
            gradient = self.A.T @ slope / self.size
            return psi, np.concatenate([gradient, -gradient])

        def room(v):
            return (self.level - self.g((v[:d] + v[d:]) / self.size)) / level

        def room_slope(v):
            return -np.tile(self.slope((v[:d] + v[d:]) / self.size) / self.size, 2) / level

        start = np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)]) * np.tile(self.size, 2)
        return at(
            optimize.minimize(
                value,
                start,
                jac=True,
                method="SLSQP",
                bounds=[(0, None)] * (2 * d),
                constraints=[{"type": "ineq", "fun": room, "jac": room_slope}],
                options={"ftol": 1e-16, "maxiter": 300},
            ).x
        )

    def _linear_programs(self, x):
        """ψ minimised over boxes about x, φ replaced by its tangent at |x|, which is above it."""
        n, d = self.A.shape
        across, shift = (self.b[:, None] * self.A, -np.ones(n)) if self.loss == "hinge" else (self.A, -self.b)
        across = across / self.size
        slope, at = self.slope(x), x * self.size
        typical = float(np.mean(np.abs(self.A @ x - self.b))) or 1.0
        lines = KINKED[self.loss]
        rows = [np.hstack([line * across, -line * across, -np.eye(n)]) for line in lines]
        rows.append(np.concatenate([np.tile(slope / self.size, 2), np.zeros(n)])[None])
        room = self.level - self.g(x) + float(slope @ np.abs(x))
        bounds_on_rows = np.concatenate([*(-line * shift for line in lines), [room]])
        for radius in (1e-3, 1e-1, 5.0):
            reach = radius * typical
            box = [(max(0.0, v - reach), max(v, 0.0) + reach) for v in (*at, *(-at))]
            end = optimize.linprog(
                np.concatenate([np.zeros(2 * d), np.full(n, 1 / n)]),
                np.vstack(rows),
                bounds_on_rows,
                bounds=[*box, *[(None, None)] * n],
                method="highs",
            )
            if end.status == 0:
                yield (end.x[:d] - end.x[d : 2 * d]) / self.size

    def _inside(self, x, found):
        """The point found, or the next one on the way back to x that satisfies the level."""
        for back in (0.0, *np.geomspace(1e-14, 1, 50)):
            point = found + back * (x - found)
            if np.all(np.isfinite(point)) and self.g(point) <= self.level:
                return point
        return None
