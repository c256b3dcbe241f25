"""The paper's pictures of its constraints: the six functions φ, the lower bounds z, and where MFCQ fails.

Computed from `levelprox.constraints` and `levelprox.theory` alone, in a few seconds; `studies/fig_constraints.py` puts
them together.

- `graphs`: Figure 1, the functions of Table 2 and ℓ1, for ℓp with 0 < p < 1 at ε = 0.1. The paper's
  (|x| + ε)^p is shown less its value at 0, as the library has it.
- `bounds`, `samples`: Σ φ'(|x_i|)|x_i| ≥ z(g(x)), the denominator of the bound on the multipliers.
- `region`: {g ≤ η} in the plane for SCAD. At η = cap only the axes are feasible beyond the threshold, so that no
  direction leads into the set: MFCQ fails there. Below and above that level it does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.results import COLORS, panels
from levelprox.constraints import L1, MCP, SCAD, Constraint, Exp, Log, Lp, NegativeLp
from levelprox.theory import room, z, z_paper

Double = NDArray[np.float64]
Rows = Sequence[Mapping[str, Any]]

#: Table 2 in its order, with parameters at which all of them fit into one picture.
FUNCTIONS: dict[str, Constraint] = {
    "MCP": MCP(lam=1, theta=5),
    "SCAD": SCAD(lam=1, theta=5),
    "Exp": Exp(lam=1),
    "Log": Log(theta=5),
    "Lp": Lp(p=0.5, epsilon=0.1),
    "NegativeLp": NegativeLp(p=-1, theta=2),
}
LABELS = {
    "L1": "ℓ1",
    "MCP": "MCP, λ = 1, θ = 5",
    "SCAD": "SCAD, λ = 1, θ = 5",
    "Exp": "Exp, λ = 1",
    "Log": "Log, θ = 5",
    "Lp": "ℓp, p = 1/2, ε = 0.1",
    "NegativeLp": "ℓp, p = −1, θ = 2",
}
PAPER_HAS_Z = (MCP, SCAD)
LEVELS = (3.0, 2.8, 3.2)  # at, below and above the cap of SCAD
WINDOW = 8.0
_HALVINGS = 100  # from the window down to rounding


def graphs() -> Rows:
    """φ(|x|) of every function, and ℓ1, for x across the threshold of MCP and SCAD."""
    x = np.arange(-350, 351) / 50
    curves = {"L1": L1(), **FUNCTIONS}
    return _rows(x=x, **{name: c.phi(np.abs(x)) for name, c in curves.items()})


def bounds(constraint: Constraint) -> Rows:
    """Draw z over two caps (or as far, without a cap), and the paper's form of it if there is one."""
    end = 2 * constraint.cap if math.isfinite(constraint.cap) else 5.0
    alpha = end * np.arange(1001) / 1000
    paper = z_paper(constraint, alpha) if isinstance(constraint, PAPER_HAS_Z) else np.full(alpha.size, np.nan)
    return _rows(alpha=alpha, z=z(constraint, alpha), z_paper=paper)


def samples(constraint: Constraint, count: int = 300) -> Rows:
    """g(x), what is kept of it, Σ φ'(|x_i|)|x_i|, and both bounds, at points of the space of three coordinates.

    Each coordinate is zero, on the way to the threshold or (where there is one) beyond it, so that vertices of
    {Σ φ(|x_i|) = α}, where the bound is attained, are among the points.
    """
    rng = np.random.default_rng(0)
    x = rng.exponential(2.0, (count, 3)) * rng.integers(0, 2, (count, 3))
    x[rng.random((count, 3)) < 0.3] = 6.0
    g, kept = constraint.phi(x).sum(axis=1), (constraint.slope(x) * x).sum(axis=1)
    paper = z_paper(constraint, g) if isinstance(constraint, PAPER_HAS_Z) else np.full(count, np.nan)
    return _rows(g=g, kept=kept, z=z(constraint, g), z_paper=paper)


def reach(constraint: Constraint, level: float, x1: Double) -> Double:
    """Return the largest x2 with φ(|x1|) + φ(x2) ≤ η: inf where all are feasible, nan where none is.

    By bisection on φ itself, so that what is drawn needs no inverse of it.
    """
    left = level - constraint.phi(np.abs(x1))
    low, high = np.zeros_like(x1), np.full_like(x1, WINDOW)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        feasible = constraint.phi(middle) <= left
        low, high = np.where(feasible, middle, low), np.where(feasible, high, middle)
    return np.where(left >= constraint.cap, np.inf, np.where(left >= 0, low, np.nan))


def region(constraint: Constraint, level: float) -> Rows:
    """|x2| ≤ reach(x1), which is {g ≤ η}, and the room η − g_k(0) of the convex set drawn at its boundary."""
    uniform = np.arange(-400, 401) * (WINDOW / 400)
    # The set is its own mirror image: where it is steep as a graph over x1, it is flat over x2.
    mirrored = reach(constraint, level, uniform)
    mirrored = mirrored[np.isfinite(mirrored)]
    x1 = np.unique(np.concatenate([uniform, mirrored, -mirrored]))
    x2 = reach(constraint, level, x1)
    inside = [room(constraint, (a, b), level) if math.isfinite(b) else math.nan for a, b in zip(x1, x2, strict=True)]
    return _rows(x1=x1, reach=x2, room=np.array(inside))


def draw_graphs(rows: Rows) -> Figure:
    """Figure 1."""
    figure, axes = panels(1, 1, width=5.5, height=4)
    axis = axes[0, 0]
    x = column(rows, "x")
    axis.plot(x, column(rows, "L1"), color="0.4", dashes=(4, 2), label=LABELS["L1"])
    for name, color in zip(FUNCTIONS, COLORS, strict=False):
        axis.plot(x, column(rows, name), color=color, label=LABELS[name])
    axis.set(xlabel="x", ylabel="φ(|x|)", ylim=(0, 5.5))
    axis.legend(fontsize=7, loc="upper center", ncols=2)
    return figure


def draw_bounds(bounds: Rows, samples: Rows) -> Figure:
    """z of all functions, with what was sampled above it."""
    figure, axes = panels(2, 3)
    for axis, name in zip(axes.flat, FUNCTIONS, strict=True):
        lines, dots = of(bounds, function=name), of(samples, function=name)
        axis.plot(column(dots, "g"), column(dots, "kept"), ".", color="0.7", markersize=2, label="Σ φ'(|x|)|x|")
        _draw_bound(axis, lines, name)
    axes[0, 0].legend(fontsize=7)
    return figure


def draw_bound(bounds: Rows, name: str) -> Figure:
    """z of one function up to its cap: the paper's picture."""
    figure, axes = panels(1, 1, width=4, height=3)
    cap = FUNCTIONS[name].cap
    _draw_bound(axes[0, 0], [row for row in of(bounds, function=name) if row["alpha"] <= cap], name)
    axes[0, 0].legend(fontsize=7)
    return figure


def _draw_bound(axis: Axes, rows: Rows, name: str) -> None:
    """z, and the paper's where it has one."""
    alpha = column(rows, "alpha")
    axis.plot(alpha, column(rows, "z"), color=COLORS[0], label="z, tight")
    if isinstance(FUNCTIONS[name], PAPER_HAS_Z):
        axis.plot(alpha, column(rows, "z_paper"), color=COLORS[1], dashes=(4, 2), label="z, the paper's")
    axis.set(xlabel="α = g(x)", ylabel="z(α)", xlim=(0, alpha[-1]), ylim=(0, None))
    axis.set_title(LABELS[name], fontsize=9)


def draw_regions(rows: Rows) -> Figure:
    """Draw the feasible sets, side by side."""
    levels = list(dict.fromkeys(row["level"] for row in rows))
    figure, axes = panels(1, len(levels))
    for axis, level in zip(axes.flat, levels, strict=True):
        _draw_region(axis, of(rows, level=level), level)
    return figure


def _draw_region(axis: Axes, rows: Rows, level: float) -> None:
    """Draw the feasible set, with thick lines where MFCQ fails on its boundary."""
    x1, x2, inside = (column(rows, name) for name in ("x1", "reach", "room"))
    height = np.minimum(x2, WINDOW)
    axis.fill_between(x1, -height, height, where=~np.isnan(x2), color=COLORS[5], alpha=0.6, linewidth=0)
    boundary = np.where(np.isinf(x2), np.nan, x2)
    stuck = inside == 0
    for across, up in ((x1, boundary), (x1, -boundary), (boundary, x1), (-boundary, x1)):
        axis.plot(across, up, color=COLORS[0], linewidth=0.8)
        axis.plot(np.where(stuck, across, np.nan), np.where(stuck, up, np.nan), color=COLORS[1], linewidth=2.5)
    axis.set(xlabel="x₁", ylabel="x₂", xlim=(-WINDOW, WINDOW), ylim=(-WINDOW, WINDOW), aspect="equal")
    axis.set_title(f"η = {level:g}" + (": MFCQ fails on the thick part" if np.any(stuck) else ""), fontsize=9)


def of(rows: Rows, **wanted: Any) -> Rows:
    """Return the rows that match."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def column(rows: Rows, name: str) -> Double:
    """Return a column of the rows."""
    return np.array([row[name] for row in rows], dtype=np.float64)


def _rows(**columns: Double) -> Rows:
    return [dict(zip(columns, row, strict=True)) for row in zip(*(c.tolist() for c in columns.values()), strict=True)]
