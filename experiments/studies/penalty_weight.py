"""The introduction's remark that, unlike for convex problems, a large weight of a penalty need not make it small.

    min ψ(x) + β g(x)   against   min ψ(x) s.t. g(x) ≤ η,      ψ the mean of (b − ⟨a, x⟩)², g the MCP

From the origin, the fit without a penalty and random points, for β from 1e-4 to 1e4 in units of β₀ = ‖∇ψ(0)‖_∞/λ, from
which on the origin is stationary:

- reweighted ℓ1: x⁺ = argmin ψ + β Σ φ'(|x_j|)|x_j|, what LCPP does to g done to the penalised problem;
- GIST, whose proximal map takes the best point of the whole line in each coordinate;
- ℓ1: GIST on ψ + βλ‖x‖₁, the convex problem;
- LCPP from the same points, scaled until g ≤ η, at levels of a few features.

A stationary point is known by dist_∞(0, ∇ψ(x) + β ∂g(x)), in units of ‖∇ψ(0)‖_∞. Beyond the threshold φ' = 0: where all
nonzeros of a fit are that large, no β moves it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments import paper
from experiments.competitors.gist import gist
from experiments.reproduce.study import Claim, Outcome, Scope, Study, Table
from experiments.reproduce.task import Row, Task
from experiments.results import COLORS, panels
from experiments.studies.sets import argument, chosen, split
from levelprox import LinearModel, Problem, solve
from levelprox.constraints import L1, MCP, Constraint

Vector = NDArray[np.float64]

REWEIGHTED, GIST, CONVEX, LCPP = "reweighted ℓ1", "GIST", "ℓ1", "LCPP"
PENALISED = (REWEIGHTED, GIST, CONVEX)
BETAS = tuple(10.0**k for k in range(-4, 5))  #: of β₀
FEATURES = (0.5, 1.5, 3.5, 7.5, 15.5)  #: η, of the cap: between degenerate levels
PLANTED, REAL = "planted", "YearPredictionMSD"
ROWS = 1000
STATIONARY = 1e-3
_GIST_TOL = 1e-12  # on f, of which βg may be by far the larger part
_ROUNDS, _STEPS, _STILL = 30, 3000, 1e-10


@dataclass(frozen=True, eq=False)
class Setting:
    """A least-squares problem and the paper's MCP; ψ = ½⟨x, Gx⟩ − ⟨c, x⟩ + const."""

    label: str
    model: LinearModel
    gram: Vector
    slope: Vector
    free: Vector  #: the fit without a penalty
    penalty: MCP

    @property
    def unit(self) -> float:
        """‖∇ψ(0)‖_∞."""
        return float(np.abs(self.slope).max())

    @property
    def beta_0(self) -> float:
        """The least β for which the origin is stationary."""
        return self.unit / self.penalty.lam

    def g(self, x: Vector) -> float:
        """Return the penalty, the MCP for every method."""
        return self.penalty.total(x, None)

    def starts(self) -> dict[str, Vector]:
        """Where runs begin; random points are of the size of the fit without a penalty."""
        rng = np.random.default_rng(0)
        size = max(float(np.abs(self.free).max()), self.penalty.lam * self.penalty.theta)
        random = {f"random {i}": size * rng.uniform(-1, 1, self.free.size) for i in (1, 2)}
        return {"origin": np.zeros(self.free.size), "unpenalised fit": self.free, **random}


def planted(n: int = 200, d: int = 40) -> Setting:
    """Eight of d features matter, and by far."""
    rng = np.random.default_rng(0)
    X, truth = rng.standard_normal((n, d)), np.zeros(d)
    truth[:8] = 3 * rng.choice((-1.0, 1.0), 8)
    return setting("planted model", X, X @ truth + rng.standard_normal(n))


def setting(label: str, X: Vector, b: Vector) -> Setting:
    """Return the problem on these samples."""
    gram, slope = 2 * X.T @ X / b.size, 2 * X.T @ b / b.size
    free = np.linalg.lstsq(X, b, rcond=None)[0]
    return Setting(label, LinearModel(X, b, "squared"), gram, slope, free, MCP(paper.LAM, paper.THETA_SPEED))


def given(dataset: Row | None) -> Setting:
    """Return the planted problem, or that on a data set, its targets of deviation 1."""
    if dataset is None:
        return planted()
    data = split(dataset)
    return setting(data.source.label, data.X, data.b / data.b.std())


def penalised(dataset: Row | None, method: str, betas: Sequence[float]) -> Iterator[Row]:
    """One row for each β, in units of β₀, and start; "most" is ψ(0)/β."""
    problem = given(dataset)
    phi: Constraint = L1(problem.penalty.lam) if method == CONVEX else problem.penalty
    for share in betas:
        beta = share * problem.beta_0
        for start, x0 in problem.starts().items():
            if method == REWEIGHTED:
                x = reweighted(problem, beta, x0)
            else:
                x = gist(problem.model, phi, beta, x0, paper.MOST_ITERATIONS, _GIST_TOL).x
            yield {
                "set": problem.label,
                "method": method,
                "start": start,
                "beta": share,
                "g": problem.g(x),
                "nonzeros": int(np.count_nonzero(x)),
                "psi": problem.model.value_and_gradient(x)[0],
                "residual": residual(problem, phi, beta, x) / problem.unit,
                "most": problem.model.value_and_gradient(np.zeros_like(x))[0] / beta,
            }


def constrained(dataset: Row | None) -> Iterator[Row]:
    """One row for each level and start."""
    problem = given(dataset)
    for features in FEATURES:
        asked = Problem(problem.model, problem.penalty, features * problem.penalty.cap)
        for start, x0 in problem.starts().items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # short of tol, a point is as feasible as any
                result = solve(asked, x0=scaled(asked, x0))
            yield {
                "set": problem.label,
                "method": LCPP,
                "start": start,
                "level": asked.level,
                "g": problem.g(result.x),
                "nonzeros": int(np.count_nonzero(result.x)),
                "psi": result.psi,
            }


def scaled(problem: Problem, x: Vector) -> Vector:
    """Return the largest x 2^−i that is within the level."""
    while problem.g(x) > problem.level:
        x = x / 2
    return x


def residual(problem: Setting, phi: Constraint, beta: float, x: Vector) -> float:
    """dist_∞(0, ∇ψ(x) + β ∂Σφ(|x_j|))."""
    gradient = problem.gram @ x - problem.slope
    at_zero = np.maximum(np.abs(gradient) - beta * phi.lam, 0)
    elsewhere = np.abs(gradient + beta * phi.slope(np.abs(x)) * np.sign(x))
    return float(np.where(x == 0, at_zero, elsewhere).max())


def reweighted(problem: Setting, beta: float, x: Vector) -> Vector:
    """Weighted ℓ1 problems, each with the slopes of φ at the solution of the last, until nothing moves."""
    for _ in range(_ROUNDS):
        new = weighted_l1(problem, beta * problem.penalty.slope(np.abs(x)), x)
        moved = float(np.abs(new - x).max())
        x = new
        if moved <= _STILL * float(np.abs(x).max()):
            break
    return x


def weighted_l1(problem: Setting, weights: Vector, x: Vector) -> Vector:
    """Argmin ψ + Σ w_j |x_j|: accelerated proximal gradient steps with restarts."""
    L = float(np.linalg.eigvalsh(problem.gram)[-1])
    y, t = x, 1.0
    for _ in range(_STEPS):
        u = y - (problem.gram @ y - problem.slope) / L
        new = np.sign(u) * np.maximum(np.abs(u) - weights / L, 0)
        moved = new - x
        if (y - new) @ moved > 0:
            y, t, x = new, 1.0, new
            continue
        faster = (1 + np.sqrt(1 + 4 * t * t)) / 2
        y, t, x = new + (t - 1) / faster * moved, faster, new
        if np.abs(moved).max() <= _STILL * np.abs(x).max():
            break
    return x


class PenaltyWeight(Study):
    """What a large β does to g, by method and start."""

    name: ClassVar[str] = "penalty-weight"
    title: ClassVar[str] = "A remark: a large penalty weight does not bound g"

    def tasks(self, scope: Scope, rows: Sequence[Row]) -> list[Task]:
        """Return the tasks."""
        betas = list(BETAS[::2] if scope.quick else BETAS)
        real = {name: argument(name, scope) | {"rows": ROWS} for name in chosen([REAL], scope)}
        tasks = []
        for name, dataset in ({PLANTED: None} | real).items():
            for method in PENALISED:
                asked = {"dataset": dataset, "method": method, "betas": betas}
                tasks.append(Task(self.name, (name, method), f"{__name__}:penalised", asked))
            tasks.append(Task(self.name, (name, LCPP), f"{__name__}:constrained", {"dataset": dataset}))
        return tasks

    def outcome(self, rows: Sequence[Row], scope: Scope) -> Outcome:
        """Return tables, figures and claims."""
        sets = {name: [row for row in rows if row["set"] == name] for name in dict.fromkeys(row["set"] for row in rows)}
        return Outcome(
            "ψ + βg and ψ subject to g ≤ η from the same starts: where each method ends, and what g is there. "
            f"Only stationary points count, to {STATIONARY:g} of ‖∇ψ(0)‖.",
            "Introduction: unlike for convex problems, large values of β do not necessarily imply a small value of the "
            "nonconvex penalty g(x); the constraint g(x) ≤ η does.",
            tables=[Table(f"g at the stationary points reached: {name}", *spread(here)) for name, here in sets.items()],
            figures=[("penalty-weight.png", draw(sets), "g against β, and g against η, by start")],
            claims=[claim for name, here in sets.items() for claim in verdicts(name, here)],
            notes=[
                "The remark is on stationary points, not on minimisers: a method that descends from the origin, and a "
                "global minimiser, has βg(x) ≤ ψ(0) (dotted).",
                "Beyond its threshold the MCP is flat: a fit whose nonzeros are all that large is a local minimiser of "
                "ψ + βg for every β that holds the others at zero, and methods that look at slopes stay there.",
                "GIST's proximal map minimises globally in each coordinate and jumps to 0 once β is large for its "
                "step: with β far beyond what a fit needs, its g is 0 too; for β around β₀ it depends on the start.",
            ],
        )


def stationary(rows: Sequence[Row], method: str) -> list[Row]:
    """Return the valid rows of a penalised method."""
    return [row for row in rows if row["method"] == method and row["residual"] <= STATIONARY]


def spread(rows: Sequence[Row]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return a line for each β: least and largest g over the starts."""
    lines = []
    for beta in sorted({row["beta"] for row in rows if row["method"] != LCPP}):
        found = [[row["g"] for row in stationary(rows, method) if row["beta"] == beta] for method in PENALISED]
        lines.append((f"{beta:g}", *(f"{min(g):.3g} to {max(g):.3g}" if g else "-" for g in found)))
    return ("β/β₀", *PENALISED), lines


def verdicts(name: str, rows: Sequence[Row]) -> Iterator[Claim]:
    """Return the claims about the remark, its convex counterpart, and the constraint, as far as there are rows."""
    beta = max((row["beta"] for row in rows if row["method"] != LCPP), default=None)
    largest = {
        method: max(here, key=lambda row: row["g"])
        for method in PENALISED
        if (here := [row for row in stationary(rows, method) if row["beta"] == beta])
    }
    if REWEIGHTED in largest or GIST in largest:
        told = [f"{m} {row['g']:.3g} (start: {row['start']})" for m, row in largest.items() if m != CONVEX]
        jumped = GIST in largest and largest[GIST]["g"] == 0
        yield Claim(
            f"{name}: β may be large and g not small",
            f"largest g at β = {beta:g} β₀: " + ", ".join(told),
            any(row["g"] > 0 for method, row in largest.items() if method != CONVEX),
            "With so large a β GIST, the paper's competitor, jumps to the origin from all starts." * jumped,
        )
    if CONVEX in largest:
        yield Claim(
            f"{name}: with the convex penalty a large β leaves nothing",
            f"ℓ1 at β = {beta:g} β₀: largest g = {largest[CONVEX]['g']:.3g}",
            largest[CONVEX]["g"] == 0,
        )
    levels = [row for row in rows if row["method"] == LCPP]
    if levels:
        yield Claim(
            f"{name}: the constraint bounds g for every start",
            f"largest g/η of {len(levels)} runs: {max(row['g'] / row['level'] for row in levels):.12g}",
            all(row["g"] <= row["level"] for row in levels),
        )


def draw(sets: dict[str, list[Row]]) -> Figure:
    """Draw a row of panels for each problem: g against β by method, then g against η."""
    figure, axes = panels(len(sets), len(PENALISED) + 1, width=2.9, height=2.6)
    for (name, rows), across in zip(sets.items(), axes, strict=True):
        starts = list(dict.fromkeys(row["start"] for row in rows))
        for axis, method in zip(across, PENALISED, strict=False):
            here = stationary(rows, method)
            _lines(axis, here, starts, "beta")
            bound = sorted({(row["beta"], row["most"]) for row in here})
            if bound:
                axis.plot(*zip(*bound, strict=True), ":", color="0.5", linewidth=1, label="ψ(0)/β")
            top = 1.15 * max((row["g"] for row in rows), default=1.0)
            axis.set(xscale="log", xlabel="β/β₀", ylabel="g(x)", ylim=(-0.03 * top, top))
            axis.set_title(f"{name}\n{method}", fontsize=8)
        _lines(across[-1], [row for row in rows if row["method"] == LCPP], starts, "level")
        across[-1].axline((0, 0), slope=1, color="0.5", linestyle=":", linewidth=1)
        across[-1].set(xlabel="η", ylabel="g(x)")
        across[-1].set_title(f"{name}\nLCPP, g ≤ η", fontsize=8)
    axes[0, 0].legend(fontsize=6)
    return figure


def _lines(axis: Axes, rows: Sequence[Row], starts: Sequence[str], across: str) -> None:
    """One line for each start; markers of different sizes, so that equal ones are seen."""
    for i, start in enumerate(starts):
        points = [(row[across], row["g"]) for row in rows if row["start"] == start]
        if points:
            size = 3 + 2 * (len(starts) - i)
            style = {"color": COLORS[i], "markersize": size, "fillstyle": "none", "linewidth": 0.8}
            axis.plot(*zip(*points, strict=True), "o-", label=start, **style)
