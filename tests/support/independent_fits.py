"""Fits of a given basis by kind of loss, without code of levelprox: smooth, softmax, and with kinks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize

from tests.support.independent_losses import loss_bend, loss_majorant, loss_slope, loss_value
from tests.support.subset_problems import NOT_CONVEX, Double

_STEPS = 4.0 ** np.arange(-12, 13)  # line search
_ENOUGH = 1e-13  # of the null loss: Newton decrement at which a refit ends
_PIECEWISE = ("squared_hinge", "huber")  # losses whose curvature is 0 on half-lines
_NEXT_TO = 1e-6  # relative distance to the end of such a half-line
_CURVED = 1e-9  # least eigenvalue of ΣsQQᵀ over samples with curvature: below, a small Newton decrement proves nothing
_GAP = 1e-9  # of the null loss: duality gap at which a linear program is solved


def smooth_fits(
    Q: Double,
    s: Double,
    offset: Double,
    b: Double,
    name: str,
    parameter: float,
    scale: float,
    start: Double | None = None,
    steps: int = 120,
) -> tuple[Double, NDArray[np.bool_]]:
    """Newton's method in many bases at once, with steps that are shortened or stretched according to ψ.

    Where curvature underflows, the direction with the curvature of a majorant is tried too.
    """
    S, _, p = Q.shape
    out = np.zeros((S, p)) if start is None else start.copy()
    proved = np.zeros(S, bool)
    alive, empty = np.arange(S), (Q == 0).all(axis=1)
    eye = np.eye(p)
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        a = out.copy()
        z = offset + np.einsum("snp,sp->sn", Q, a)
        psi = loss_value(name, parameter, z, b) @ s
        for _ in range(steps):
            part, hollow = Q[alive], empty[alive]
            g = np.einsum("snp,sn->sp", part, s * loss_slope(name, parameter, z, b))
            bend = loss_bend(name, parameter, z, b)
            H = part.transpose(0, 2, 1) @ ((s * np.nan_to_num(bend, posinf=1e300))[:, :, None] * part)
            if name in NOT_CONVEX:
                values, vectors = np.linalg.eigh(H)
                H = (vectors * np.maximum(abs(values), 1e-10)[:, None, :]) @ vectors.transpose(0, 2, 1)
            size = np.einsum("spp->s", H)
            H = H + (1e-15 * size + 1e-290)[:, None, None] * eye + np.where(hollow, 1.0, 0.0)[:, :, None] * eye
            step = -_solved(H, g)
            decrement = -(g * step).sum(axis=1)
            move = np.einsum("snp,sp->sn", part, step)
            trial = loss_value(name, parameter, z + move, b) @ s
            small = decrement <= _ENOUGH * scale
            good = (trial <= psi - 0.1 * decrement) | (small & (trial <= psi + 1e-12 * abs(psi)))
            t = np.where(good, 1.0, 0.0)
            bad = np.flatnonzero(~good & ~small)
            if bad.size:
                majorant = loss_majorant(name, parameter, z[bad], b[bad] if b.ndim > 1 else b)
                M = part[bad].transpose(0, 2, 1) @ ((s * majorant)[:, :, None] * part[bad])
                M = M + (1e-14 * np.einsum("spp->s", M) + 1e-290)[:, None, None] * eye
                M = M + np.where(hollow[bad], 1.0, 0.0)[:, :, None] * eye
                other = -_solved(M, g[bad])
                for direction in (step[bad], other, -g[bad]):
                    ahead = np.einsum("snp,sp->sn", part[bad], direction)
                    heights = loss_value(name, parameter, z[bad] + _STEPS[:, None, None] * ahead, b) @ s
                    heights = np.where(np.isnan(heights), np.inf, heights)
                    which = np.argmin(heights, axis=0)
                    reached = heights[which, np.arange(bad.size)]
                    better = reached < np.where(t[bad] > 0, trial[bad], psi[bad])
                    rows = bad[better]
                    t[rows] = _STEPS[which[better]]
                    step[rows], move[rows], trial[rows] = direction[better], ahead[better], reached[better]
            moved = t > 0
            a[alive[moved]] += t[moved, None] * step[moved]
            falls = psi - np.where(moved, trial, psi)
            z = np.where(moved[:, None], offset + np.einsum("snp,sp->sn", part, a[alive]), z)
            psi = np.where(moved, loss_value(name, parameter, z, b) @ s, psi)
            proved[alive] = small
            if name in _PIECEWISE and small.any():  # directions without curvature may still lower ψ
                proved[alive[small]] = _is_curved(name, parameter, part[small], s, z[small], b)
            going = ~small & (moved & (falls > 0))
            alive, z, psi = alive[going], z[going], psi[going]
            if not alive.size:
                break
    return a, proved


def _is_curved(name: str, parameter: float, Q: Double, s: Double, z: Double, b: Double) -> NDArray[np.bool_]:
    """Whether ψ is curved in all directions, with samples next to the end of a half-line counted as beyond it."""
    inside = 1 - b * z > _NEXT_TO if name == "squared_hinge" else abs(b - z) < (1 - _NEXT_TO) * parameter
    H = Q.transpose(0, 2, 1) @ ((s * inside)[:, :, None] * Q)
    H = H + np.where((Q == 0).all(axis=1), 1.0, 0.0)[:, :, None] * np.eye(Q.shape[2])
    return np.asarray(np.linalg.eigvalsh(H)[:, 0] > _CURVED)


def _solved(H: Double, g: Double) -> Double:
    try:
        return np.linalg.solve(H, g[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:
        return np.stack([np.linalg.lstsq(matrix, side, rcond=None)[0] for matrix, side in zip(H, g, strict=True)])


def slow_fit(
    Q: Double, s: Double, offset: Double, b: Double, name: str, parameter: float, scale: float, start: Double
) -> tuple[Double, bool]:
    """One fit by quasi-Newton steps from several starts, each followed by Newton's method; the lowest counts."""

    def height(a: Double) -> tuple[float, Double]:
        with np.errstate(over="ignore", invalid="ignore"):
            z = offset + Q @ a
            value = float(s @ loss_value(name, parameter, z, b))
            gradient = Q.T @ (s * loss_slope(name, parameter, z, b))
        if not math.isfinite(value):
            return 1e300, np.zeros_like(a)
        return value / scale, np.nan_to_num(gradient) / scale

    found = [(height(start)[0], start, False)]
    for begin in (start, np.zeros_like(start), 0.5 * start):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            end = minimize(
                height, begin, jac=True, method="L-BFGS-B", options={"maxiter": 300, "ftol": 0, "gtol": 1e-14}
            ).x
        again, sure = smooth_fits(Q[None], s, offset, b, name, parameter, scale, start=end[None])
        found.append((height(again[0])[0], again[0], bool(sure[0])))
        if sure[0]:
            break
    _, a, sure = min(found, key=lambda one: one[0])
    return a, sure


def softmax_fits(
    Q: Double, s: Double, offset: Double, label: NDArray[np.intp], scale: float
) -> tuple[Double, NDArray[np.bool_]]:
    """Several classes, one basis after the other: Newton's method, after quasi-Newton steps where it ends too early."""
    S, _, p = Q.shape
    n_outputs = offset.shape[1]
    out, proved = np.zeros((S, p, n_outputs)), np.zeros(S, bool)
    for i in range(S):
        inside = np.flatnonzero((Q[i] != 0).any(axis=0))
        basis = Q[i][:, inside]
        a, proved[i] = _softmax_fit(basis, s, offset, label, scale, np.zeros((inside.size, n_outputs)))
        for _ in range(0 if proved[i] else 3):

            def height(flat: Double, basis: Double = basis) -> tuple[float, Double]:
                value, slope = _softmax(offset + basis @ flat.reshape(basis.shape[1], n_outputs), label)
                return float(value @ s) / scale, (basis.T @ (s[:, None] * slope)).ravel() / scale

            end = minimize(
                height, a.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 500, "ftol": 0, "gtol": 1e-14}
            )
            a, proved[i] = _softmax_fit(basis, s, offset, label, scale, end.x.reshape(a.shape))
            if proved[i]:
                break
        out[i, inside] = a
    return out, proved


def _softmax(z: Double, label: NDArray[np.intp]) -> tuple[Double, Double]:
    """Losses and slopes of several classes."""
    top = z.max(axis=-1, keepdims=True)
    e = np.exp(z - top)
    total = e.sum(axis=-1, keepdims=True)
    slope = e / total
    rows = np.arange(label.size)
    value = (np.log(total) + top)[..., 0] - z[..., rows, label]
    slope[..., rows, label] -= 1
    return value, slope


def _softmax_fit(
    Q: Double, s: Double, offset: Double, label: NDArray[np.intp], scale: float, a: Double
) -> tuple[Double, bool]:
    n_outputs, size = offset.shape[1], a.size
    for _ in range(100):
        z = offset + Q @ a
        value, slope = _softmax(z, label)
        psi = float(value @ s)
        g = Q.T @ (s[:, None] * slope)
        P = np.exp(z - z.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        bend = P[:, :, None] * np.eye(n_outputs) - P[:, :, None] * P[:, None, :]
        H = np.einsum("np,nab,nq->paqb", Q * s[:, None], bend, Q).reshape(size, size)
        H += (1e-15 * np.trace(H) + 1e-290) * np.eye(size)
        # Rows of one number change nothing: slopes are orthogonal to them, up to rounding.
        g -= g.mean(axis=1, keepdims=True)
        step = -np.linalg.lstsq(H, g.ravel(), rcond=1e-16)[0].reshape(g.shape)
        step -= step.mean(axis=1, keepdims=True)
        decrement = -float((g * step).sum())
        trial = float(_softmax(z + Q @ step, label)[0] @ s)
        if decrement <= _ENOUGH * scale:
            return (a + step if trial <= psi else a), True
        if trial <= psi - 0.1 * decrement:
            a = a + step
            continue
        best, lowest = a, psi
        for direction in (step, -g):
            heights = _softmax(z + _STEPS[:, None, None] * (Q @ direction), label)[0] @ s
            t = int(np.argmin(np.nan_to_num(heights, nan=np.inf)))
            if heights[t] < lowest:
                best, lowest = a + _STEPS[t] * direction, float(heights[t])
        if best is a:
            return a, False
        a = best
    return a, False


def kinked_fits(
    Q: Double, s: Double, c: Double, low: Double, high: Double, scale: float
) -> tuple[Double, NDArray[np.bool_]]:
    """Losses max(low r, high r) of r = z − c in many bases at once, by a primal-dual interior-point method.

    The dual variables are w in [0, high − low] with Q'(low + w) = 0; r is the difference of two nonnegative parts.
    """
    S, n, p = Q.shape
    low, u = s * low, s * (high - low)
    unit = max(float(s @ abs(c)), float(np.max(abs(c))) * 1e-9, 1e-300)
    c, scale = c / unit, scale / unit
    empty = (Q == 0).all(axis=1)
    hollow = empty[:, :, None] * np.eye(p)
    a = np.einsum("snp,n->sp", Q, s * c)
    r = np.einsum("snp,sp->sn", Q, a) - c
    small = 0.1 * (abs(r) @ s)[:, None] + 1e-12
    plus, minus = np.maximum(r, 0) + small, np.maximum(-r, 0) + small
    w = np.broadcast_to(u / 2, (S, n)).copy()
    h = -np.einsum("snp,n->sp", Q, low)
    best = a.copy()
    proved, lowest = np.zeros(S, bool), np.full(S, np.inf)

    with np.errstate(all="ignore"):
        for _ in range(60):
            v = u - w
            r = np.einsum("snp,sp->sn", Q, a) - c
            mu = ((plus * v + minus * w).sum(axis=1) / (2 * n))[:, None]
            primal = (np.maximum(r, 0) * (low + u) + np.minimum(r, 0) * low).sum(axis=1)
            y = low + w
            y = y - s * np.einsum("snp,sp->sn", Q, np.einsum("snp,sn->sp", Q, y))
            outside = ((np.maximum(low - y, 0) + np.maximum(y - low - u, 0)) * np.maximum(abs(r), 1.0)).sum(axis=1)
            dual = -(y @ c)
            better = primal < lowest
            best[better], lowest[better] = a[better], primal[better]
            proved = (lowest - dual <= _GAP * scale) & (outside <= min(1e-9, 100 * _GAP * scale)) | proved
            if proved.all() or not np.isfinite(mu).any():
                break
            D = 1 / (plus / v + minus / w)
            rest = h - np.einsum("snp,sn->sp", Q, w)
            H = Q.transpose(0, 2, 1) @ (D[:, :, None] * Q) + hollow
            H = H + 1e-15 * np.einsum("spp->s", H)[:, None, None] * np.eye(p)
            if not np.isfinite(H).all():
                H = np.nan_to_num(H, nan=1.0, posinf=1e300)

            # Mehrotra: a step to complementarity 0 says how far to aim, and how far from a line the way there is.
            aim_v = aim_w = dw = dp = dm = np.zeros_like(w)
            for corrected in (False, True):
                if corrected:
                    dual_step, primal_step = _steps((w, dw), (v, -dw), (plus, dp), (minus, dm))
                    ahead = (plus + primal_step * dp) * (v - dual_step * dw)
                    ahead = ahead + (minus + primal_step * dm) * (w + dual_step * dw)
                    aim = mu * np.minimum((ahead.sum(axis=1)[:, None] / (2 * n) / mu) ** 3, 1.0)
                    aim_v, aim_w = aim + dp * dw, aim - dm * dw
                rho = r - aim_v / v + aim_w / w
                da = _solved(H, rest - np.einsum("snp,sn->sp", Q, D * rho))
                dw = D * (np.einsum("snp,sp->sn", Q, da) + rho)
                dp, dm = (aim_v - plus * v + plus * dw) / v, (aim_w - minus * w - minus * dw) / w
            dual_step, primal_step = (0.9995 * step for step in _steps((w, dw), (v, -dw), (plus, dp), (minus, dm)))
            a = a + primal_step * da
            plus, minus = plus + primal_step * dp, minus + primal_step * dm
            w = w + dual_step * dw
    return np.nan_to_num(best) * unit, proved


def _steps(*pairs: tuple[Double, Double]) -> tuple[Double, Double]:
    """How far to go, at most 1, until one of the first two or of the last two is no longer positive."""
    lengths = [np.where(change < 0, -value / change, np.inf).min(axis=1, keepdims=True) for value, change in pairs]
    return np.minimum(np.minimum(*lengths[:2]), 1.0), np.minimum(np.minimum(*lengths[2:]), 1.0)


def kinked_program(
    A: Double, s: Double, c: Double, low: Double, high: Double, signed: Sequence[bool] | None = None
) -> Double:
    """The same for one matrix as a linear program."""
    n, p = A.shape
    unit = max(float(np.max(abs(c))), 1e-300)
    cost = np.concatenate([np.zeros(p), s * high, -s * low]) / float(np.max(s))
    equal = np.hstack([A, -np.eye(n), np.eye(n)])
    bounds = [(0, None) if signed is not None and signed[j] else (None, None) for j in range(p)] + [(0, None)] * (2 * n)
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    result = linprog(cost, A_eq=equal, b_eq=c / unit, bounds=bounds, method="highs", options=options)
    if result.x is None:
        return np.zeros(p)
    x = result.x[:p] * unit
    return np.where(np.array(signed), np.maximum(x, 0), x) if signed is not None else x
