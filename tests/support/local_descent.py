"""How far ψ falls from a point by moves that satisfy the level: local methods that share no code with levelprox.

Losses (`independent_losses`), φ and its slope are written out. Columns are scaled to equal size and, with an
intercept, centred. Values of ψ are computed in extended precision. There are three methods:

- projected gradient steps onto the convex set inside the level set that touches it at the point (all smooth losses);
- SLSQP of SciPy (smooth losses with one coefficient for each feature);
- linear programs over boxes about the point (losses with kinks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import softmax

from tests.support.independent_losses import loss_slope, loss_value

Double = NDArray[np.float64]
Extended = NDArray[np.longdouble]

_LINES: dict[str, Callable[[float], tuple[float, float]]] = {  # slopes on either side of the kink, in z − b or bz − 1
    "absolute": lambda _: (-1.0, 1.0),
    "quantile": lambda q: (-q, 1.0 - q),
    "hinge": lambda _: (-1.0, 0.0),
}


# --- φ


def phi(kind: str, parameters: tuple[float, ...], t: Any) -> Any:
    """φ(t) in the precision of t, by the formulas of the paper's Table 2."""
    if kind == "l1":
        return parameters[0] * t
    if kind == "mcp":
        lam, theta = parameters
        inside = np.minimum(t, lam * theta)
        return lam * inside - inside**2 / (2 * theta)
    if kind == "scad":
        lam, theta, factor = parameters
        knee = lam / factor
        inside = np.minimum(t, theta * knee)
        return lam * inside - factor * np.maximum(inside - knee, 0) ** 2 / (2 * (theta - 1))
    if kind == "exp":
        return -np.expm1(-parameters[0] * t)
    if kind == "log":
        return np.log1p(parameters[0] * t) / np.log1p(t.dtype.type(parameters[0]))
    if kind == "lp":
        p, epsilon = parameters
        return epsilon**p * np.expm1(p * np.log1p(t / epsilon))
    assert kind == "negative_lp"
    p, theta = parameters
    return -np.expm1(p * np.log1p(theta * t))


def phi_slope(kind: str, parameters: tuple[float, ...], t: Double) -> Double:
    """φ'(t)."""
    if kind == "l1":
        return np.full_like(t, parameters[0])
    if kind == "mcp":
        lam, theta = parameters
        return np.maximum(lam - t / theta, 0)
    if kind == "scad":
        lam, theta, factor = parameters
        return np.clip(lam - factor * (t - lam / factor) / (theta - 1), 0, lam)
    if kind == "exp":
        return parameters[0] * np.exp(-parameters[0] * t)
    if kind == "log":
        return parameters[0] / (1 + parameters[0] * t) / np.log1p(parameters[0])
    if kind == "lp":
        p, epsilon = parameters
        return p * epsilon ** (p - 1) * np.exp((p - 1) * np.log1p(t / epsilon))
    assert kind == "negative_lp"
    p, theta = parameters
    return -p * theta * np.exp((p - 1) * np.log1p(theta * t))


# --- the problem


@dataclass(frozen=True, eq=False)
class Local:
    """min ψ(x) s.t. Σ_j ω_j φ(‖x_j‖) ≤ η and x_j ≥ 0 where required.

    Attributes
    ----------
    A : ndarray of shape (n, d)
        With the column of ones last, where there is an intercept.
    b : ndarray of shape (n,)
        Targets; for several classes their numbers.
    loss : str
        Or "multinomial", or "one_vs_rest NAME".
    parameter : float
        δ, q or c.
    weight, offset : ndarray of shape (n,)
    constraint : tuple
        The name of φ, then its parameters.
    level : float
    omega : ndarray of shape (d,)
    nonnegative : ndarray of bool, of shape (d,)
    intercept : bool
    n_outputs : int
        Coefficients of one feature.
    """

    A: Double
    b: Double
    loss: str
    parameter: float
    weight: Double
    offset: Double
    constraint: tuple[Any, ...]
    level: float
    omega: Double
    nonnegative: NDArray[np.bool_]
    intercept: bool
    n_outputs: int = 1

    @property
    def kinked(self) -> bool:
        return self.loss in _LINES

    # --- ψ and g

    def _losses(self, z: Any) -> Any:
        """Of every sample; z has shape (n, n_outputs)."""
        if self.loss == "multinomial":
            top = z.max(axis=1, keepdims=True)
            own = z[np.arange(z.shape[0]), self.b.astype(int)]
            return np.log(np.sum(np.exp(z - top), axis=1)) + top[:, 0] - own
        if self.n_outputs > 1:
            name = self.loss.split()[1]
            return sum(loss_value(name, 0.0, z[:, k], self._sides[:, k]) for k in range(self.n_outputs))
        return loss_value(self.loss, self.parameter, z[:, 0], self.b)

    def _slopes(self, z: Double) -> Double:
        if self.loss == "multinomial":
            return np.asarray(softmax(z, axis=1) - np.eye(self.n_outputs)[self.b.astype(int)])
        if self.n_outputs > 1:
            name = self.loss.split()[1]
            return np.column_stack([loss_slope(name, 0.0, z[:, k], self._sides[:, k]) for k in range(self.n_outputs)])
        return loss_slope(self.loss, self.parameter, z[:, 0], self.b)[:, None]

    @property
    def _sides(self) -> Double:
        return np.where(self.b[:, None] == np.arange(self.n_outputs), 1.0, -1.0)

    def psi(self, x: Double) -> float:
        """ψ in extended precision; inf where it is not a number."""
        rows = x.reshape(-1, self.n_outputs).astype(np.longdouble)
        with np.errstate(all="ignore"):
            z = self.A.astype(np.longdouble) @ rows + self.offset.astype(np.longdouble)[:, None]
            s = self.weight.astype(np.longdouble)
            value = np.sum(s * self._losses(z)) / np.sum(s)
        return value if np.isfinite(value) else np.longdouble(np.inf)  # type: ignore[no-any-return]

    def sizes(self, x: Double) -> Extended:
        rows = x.reshape(-1, self.n_outputs).astype(np.longdouble)
        return np.abs(rows[:, 0]) if self.n_outputs == 1 else np.sqrt(np.sum(rows * rows, axis=1))

    def g(self, x: Double) -> float:
        kind, *parameters = self.constraint
        return np.sum(self.omega.astype(np.longdouble) * phi(kind, tuple(parameters), self.sizes(x)))  # type: ignore[no-any-return]

    def obeys(self, x: Double) -> bool:
        signs = np.all(x[self.nonnegative] >= 0) if self.n_outputs == 1 else True
        return bool(np.all(np.isfinite(x)) and signs and self.g(x) <= self.level)

    # --- coordinates in which all columns have the same size

    @property
    def means(self) -> Double:
        """Of columns, where the intercept can take them up."""
        share = self.weight / self.weight.sum()
        means = share @ self.A if self.intercept else np.zeros(self.A.shape[1])
        if self.intercept:
            means[-1] = 0.0
        return means

    @property
    def columns(self) -> tuple[Double, Double]:
        """The columns, centred and scaled, and their sizes before that."""
        share = self.weight / self.weight.sum()
        centred = self.A - self.means
        size = np.sqrt(share @ centred**2)
        size = np.where(size > 1e-14 * np.abs(self.A).max(axis=0), size, 1.0)
        return centred / size, size

    def inside(self, x: Double) -> Double:
        """x in these coordinates, of shape (d, n_outputs)."""
        rows = x.reshape(-1, self.n_outputs)
        out = rows * self.columns[1][:, None]
        if self.intercept:
            out[-1] += self.means @ rows
        return out

    def outside(self, v: Double) -> Double:
        rows = v / self.columns[1][:, None]
        if self.intercept:
            rows[-1] -= self.means @ rows
        return rows.ravel()

    # --- moves

    def lowest_near(self, x: Double) -> tuple[float, str]:
        """ψ at the lowest point that is reached from x and satisfies the level, and how it was reached."""
        best, by = self.psi(x), "x"
        for name, point in self._moves(x):
            backed = self._back_inside(x, point)
            if backed is not None and (value := self.psi(backed)) < best:
                best, by = value, name
        return best, by

    def _moves(self, x: Double) -> Iterator[tuple[str, Double]]:
        if self.kinked:
            for radius in (1e-3, 1e-1, 5.0):
                if (point := self._linear_program(x, radius)) is not None:
                    yield f"linear program {radius:g}", point
            return
        yield "gradient steps", self._gradient_steps(x)
        if self.n_outputs == 1:
            yield "SLSQP", self._slsqp(x)

    def _price(self, x: Double) -> Double:
        kind, *parameters = self.constraint
        sizes = self.sizes(x).astype(float)
        return np.asarray(self.omega * phi_slope(kind, tuple(parameters), sizes))

    def _gradient_steps(self, x: Double, rounds: int = 4, steps: int = 250) -> Double:
        """Accelerated projected gradient steps, within a convex set that is computed again in every round."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._descent(x, rounds, steps)

    def _descent(self, x: Double, rounds: int, steps: int) -> Double:
        A, size = self.columns
        share = self.weight / self.weight.sum()
        held = self.nonnegative if self.n_outputs == 1 else np.zeros(size.size, np.bool_)

        def value(v: Double) -> float:
            with np.errstate(all="ignore"):
                found = float(np.sum(share * self._losses(A @ v + self.offset[:, None])))
            return found if np.isfinite(found) else np.inf

        def gradient(v: Double) -> Double:
            with np.errstate(all="ignore"):
                return np.asarray(A.T @ (share[:, None] * self._slopes(A @ v + self.offset[:, None])))

        at, L = self.inside(x), 1.0
        for _ in range(rounds):
            point = self.outside(at)
            price = self._price(point) / size
            room = float(self.level - self.g(point)) + float(np.sum(price * np.linalg.norm(at, axis=1) * (price > 0)))
            last, search, momentum, now = at, at, 1.0, value(at)
            for _ in range(steps):
                slope, here = gradient(search), value(search)
                L /= 2
                while L < 1e30:
                    new = _onto(search - slope / L, price, room, held)
                    move = new - search
                    if value(new) <= here + np.sum(slope * move) + L / 2 * np.sum(move * move) + 1e-16 * abs(here):
                        break
                    L *= 2
                if value(new) > now:
                    if search is last:
                        break
                    search, momentum = last, 1.0
                    continue
                following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
                search = new + (momentum - 1) / following * (new - last)
                moved, last, momentum, now = float(np.max(np.abs(new - last))), new, following, value(new)
                if moved <= 1e-15 * float(np.max(np.abs(new), initial=1e-300)):
                    break
            at = last
        return self.outside(at)

    def _slsqp(self, x: Double) -> Double:
        """x = p − q with p, q ≥ 0, so that g is smooth at zeros, too."""
        A, size = self.columns
        share, d, level = self.weight / self.weight.sum(), size.size, max(self.level, 1e-300)
        kind, *parameters = self.constraint

        def value(v: Double) -> tuple[float, Double]:
            with np.errstate(all="ignore"):
                z = A @ (v[:d] - v[d:]) + self.offset
                found = float(np.sum(share * self._losses(z[:, None])))
                slope = A.T @ (share * self._slopes(z[:, None])[:, 0])
            return (found if np.isfinite(found) else 1e300), np.nan_to_num(np.concatenate([slope, -slope]))

        def sizes(v: Double) -> Double:
            t = (v[:d] + v[d:]) / size
            return np.where(self.omega > 0, np.maximum(t, 0), 0.0)

        def room(v: Double) -> float:
            return (self.level - float(np.sum(self.omega * phi(kind, tuple(parameters), sizes(v))))) / level

        def room_slope(v: Double) -> Double:
            return -np.tile(self.omega * phi_slope(kind, tuple(parameters), sizes(v)) / size, 2) / level

        at = self.inside(x)[:, 0]
        start = np.concatenate([np.maximum(at, 0), np.maximum(-at, 0)])
        bounds = [(0, None)] * d + [(0, 0.0 if one else None) for one in self.nonnegative]
        end = optimize.minimize(
            value,
            start,
            jac=True,
            method="SLSQP",
            bounds=bounds,
            constraints=[{"type": "ineq", "fun": room, "jac": room_slope}],
            options={"ftol": 1e-16, "maxiter": 300},
        )
        return self.outside((end.x[:d] - end.x[d:])[:, None])

    def _linear_program(self, x: Double, radius: float) -> Double | None:
        """ψ minimised over a box about x, φ replaced by its tangent at |x|, which is above it."""
        A, size = self.columns
        n, d = A.shape
        hinge = self.loss == "hinge"
        across = self.b[:, None] * A if hinge else A
        shift = self.b * self.offset - 1 if hinge else self.offset - self.b
        lines = _LINES[self.loss](self.parameter)
        at, price = self.inside(x)[:, 0], self._price(x) / size
        room = float(self.level - self.g(x)) + float(np.sum(np.where(price > 0, price * np.abs(at), 0.0)))
        rows = [np.hstack([line * across, -line * across, -np.eye(n)]) for line in lines]
        unit = float(np.max(price, initial=0.0)) or 1.0
        rows.append(np.concatenate([price / unit, price / unit, np.zeros(n)])[None])
        typical = float(np.mean(np.abs(across @ at + shift))) or 1.0
        box = [(max(0.0, v - radius * typical), max(v, 0.0) + radius * typical) for v in at]
        other = [
            (max(0.0, v - radius * typical), 0.0 if one else max(v, 0.0) + radius * typical)
            for v, one in zip(-at, self.nonnegative, strict=True)
        ]
        end = optimize.linprog(
            np.concatenate([np.zeros(2 * d), self.weight / self.weight.sum()]),
            np.vstack(rows),
            np.concatenate([*(-line * shift for line in lines), [room / unit]]),
            bounds=[*box, *other, *[(None, None)] * n],
            method="highs",
        )
        return self.outside((end.x[:d] - end.x[d : 2 * d])[:, None]) if end.status == 0 else None

    def _back_inside(self, x: Double, found: Double) -> Double | None:
        """The point found, or the next one on the way back to x that satisfies the level."""
        for back in (0.0, *np.geomspace(1e-16, 1, 60)):
            point = found + back * (x - found)
            if self.obeys(point):
                return point
        return None


def _onto(v: Double, price: Double, room: float, held: NDArray[np.bool_]) -> Double:
    """The projection of v onto {Σ_j price_j ‖v_j‖ ≤ room, v_j ≥ 0 where held}."""
    v = np.where(held[:, None], np.maximum(v, 0), v)
    length = np.linalg.norm(v, axis=1)
    if float(np.sum(price * length)) <= room:
        return v
    unit = float(np.max(price))
    price, room = price / unit, room / unit
    used = (price > 1e-100) & (length > 0)  # lower prices are none
    ratio = np.sort(length[used] / price[used])[::-1]
    order = np.argsort(-(length[used] / price[used]), kind="stable")
    spent, square = np.cumsum((price * length)[used][order]), np.cumsum(price[used][order] ** 2)
    theta = (spent - max(room, 0.0)) / square
    last = int(np.flatnonzero(ratio > theta)[-1]) if np.any(ratio > theta) else 0
    shrink = np.where(used, np.maximum(1 - theta[last] * price / np.where(length > 0, length, 1.0), 0), 1.0)
    return np.asarray(v * shrink[:, None])
