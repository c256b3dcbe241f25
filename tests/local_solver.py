"""An independent local solver: how far ψ falls from a point, by moves within the level.

It shares nothing with levelprox but φ: losses are written out, columns are scaled to equal size, and the moves are those
of SciPy's SLSQP for smooth losses and of linear programs in a neighbourhood for losses with kinks.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize, special

SMOOTH = ("squared", "logistic", "huber", "poisson", "squared_hinge")
KINKED = ("absolute", "quantile", "hinge")
_DELTA = 1.35  # of huber
_QUANTILE = 0.5


def mean_loss(name, z, b):
    """ψ and its derivative with respect to the margins."""
    n = z.size
    if name == "squared":
        return float(np.mean((z - b) ** 2)), 2 * (z - b) / n
    if name == "logistic":
        return float(np.mean(np.logaddexp(0, -b * z))), -b * special.expit(-b * z) / n
    if name == "huber":
        r = z - b
        inside = np.abs(r) <= _DELTA
        value = np.where(inside, r**2 / 2, _DELTA * (np.abs(r) - _DELTA / 2))
        return float(np.mean(value)), np.clip(r, -_DELTA, _DELTA) / n
    if name == "poisson":
        with np.errstate(over="ignore"):
            e = np.exp(z)
            return float(np.mean(e - b * z)), (e - b) / n
    if name == "squared_hinge":
        m = np.maximum(1 - b * z, 0)
        return float(np.mean(m**2)), -2 * b * m / n
    s = z - b if name != "hinge" else b * z - 1
    low, high = {"absolute": (-1.0, 1.0), "quantile": (-_QUANTILE, 1 - _QUANTILE), "hinge": (-1.0, 0.0)}[name]
    slope = np.where(s < 0, low, high)
    return float(np.mean(slope * s)), slope * (b if name == "hinge" else 1.0) / n


class LocalProblem:
    """min ψ(x) s.t. Σ ω_j φ(|x_j|) ≤ η, over x in units in which all columns have the same size."""

    def __init__(self, A, b, loss, constraint, level, weights, nonnegative=None):
        self.A, self.b, self.loss = A, b, loss
        self.constraint, self.level, self.weights = constraint, level, np.asarray(weights, float)
        self.size = np.sqrt(np.mean(A**2, axis=0))
        self.size[self.size == 0] = 1.0
        self.nonnegative = np.zeros(A.shape[1], bool) if nonnegative is None else nonnegative

    def psi(self, x):
        return mean_loss(self.loss, self.A @ x, self.b)[0]

    def g(self, x):
        return float(np.sum(self.weights * np.asarray(self.constraint.phi(np.abs(x)))))

    def lowest_near(self, x):
        """ψ at the best feasible point that the local solver reaches from x."""
        best = self.psi(x)
        for found in self._moves(x):
            feasible = self._back_inside(x, found)
            if feasible is not None:
                best = min(best, self.psi(feasible))
        return best

    def _moves(self, x):
        if self.loss in KINKED:
            yield from self._by_linear_programs(x)
            return
        for smallest in (0.0, 1e-6):  # one start at x, one beside it
            yield self._by_slsqp(x, smallest)

    def _by_slsqp(self, x, beside):
        """x = p − n with p, n ≥ 0: smooth also where a coefficient is zero."""
        d, unit = x.size, np.max(np.abs(x * self.size), initial=0.0) or 1.0
        scaled = x * self.size
        start = np.concatenate([np.maximum(scaled, 0), np.maximum(-scaled, 0)]) + beside * unit * (self.weights > 0).repeat(1).tolist().__len__() * 0
        bounds = [(0, None)] * d + [(0, 0) if held else (0, None) for held in self.nonnegative]

        def value(v):
            psi, slope = mean_loss(self.loss, self.A @ ((v[:d] - v[d:]) / self.size), self.b)
            gradient = self.A.T @ slope / self.size
            return psi, np.concatenate([gradient, -gradient])

        def room(v):
            return self.level - self.g((v[:d] + v[d:]) / self.size)

        def room_slope(v):
            slope = self.weights * np.asarray(self.constraint.slope((v[:d] + v[d:]) / self.size)) / self.size
            return -np.concatenate([slope, slope])

        scale = max(self.level, 1e-300)
        held = {"type": "ineq", "fun": lambda v: room(v) / scale, "jac": lambda v: room_slope(v) / scale}
        end = optimize.minimize(
            value, start, jac=True, bounds=bounds, constraints=[held], method="SLSQP", options={"ftol": 1e-16, "maxiter": 200}
        )
        return (end.x[:d] - end.x[d:]) / self.size

    def _by_linear_programs(self, x):
        """Minimise ψ exactly over a box about x, with the constraint linearised from above."""
        n, d = self.A.shape
        low, high = {"absolute": (-1.0, 1.0), "quantile": (-_QUANTILE, 1 - _QUANTILE), "hinge": (-1.0, 0.0)}[self.loss]
        slope = self.weights * np.asarray(self.constraint.slope(np.abs(x)))
        sign = np.sign(x)
        room = self.level - self.g(x) + float(slope @ np.abs(x))
        typical = float(np.mean(np.abs(self.A @ x - self.b))) or 1.0
        for radius in (1e-3, 1e-1, 10.0):
            # variables: p, n (x = p − n), t (losses)
            cost = np.concatenate([np.zeros(2 * d), np.full(n, 1 / n)])
            rows, rhs = [], []
            direction = self.A if self.loss != "hinge" else self.b[:, None] * self.A
            shift = -self.b if self.loss != "hinge" else -np.ones(n)
            for line in (low, high):
                rows.append(np.hstack([line * direction / self.size, -line * direction / self.size, -np.eye(n)]))
                rhs.append(-line * shift)
            rows.append(np.concatenate([slope / self.size, slope / self.size, np.zeros(n)])[None])
            rhs.append(np.array([room]))
            reach = radius * typical
            at = x * self.size
            bounds = [(max(0.0, v - reach) if v > 0 else 0.0, max(v, 0) + reach) for v in at]
            bounds += [
                (0.0, 0.0) if held else (max(0.0, -v - reach) if v < 0 else 0.0, max(-v, 0) + reach)
                for v, held in zip(at, self.nonnegative, strict=True)
            ]
            bounds += [(None, None)] * n
            end = optimize.linprog(cost, np.vstack(rows), np.concatenate(rhs), bounds=bounds, method="highs")
            if end.status == 0:
                yield (end.x[:d] - end.x[d : 2 * d]) / self.size
        del sign

    def _back_inside(self, x, found):
        """The point found, or the one nearest to it on the way back to x, that obeys the level."""
        if not np.all(np.isfinite(found)):
            return None
        found = np.where(self.nonnegative, np.maximum(found, 0), found)
        found = np.where(np.abs(found * self.size) < 1e-15 * np.max(np.abs(found * self.size), initial=0.0), 0, found)
        if self.g(found) <= self.level:
            return found
        for back in np.geomspace(1e-14, 1, 60):
            point = found + back * (x - found)
            if self.g(point) <= self.level:
                return point
        return None
