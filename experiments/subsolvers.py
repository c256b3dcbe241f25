"""The paper's comparison of subsolvers: ψ against passes over the data, and against time, for BB, NAG, SVRG and SGD.

Sparse logistic regression with MCP, λ = 2, at η = αd, as in the appendix "Solving the subproblems"; γ = 1e-5 for
gisette and 1e-4 for the others are the paper's. It does not name θ for this figure: 0.25 is that of its other
comparison of speed and is taken here, 5 that of its comparison of errors. `studies/fig_subsolvers.py` puts the runs
together.

One pass is one gradient of ψ, or n gradients of single rows. All start at the origin, work with the paper's surrogate
at the full level, on one thread, as the library has them by default; the stochastic ones several times, with
different seeds. ψ is known after each outer step; before the end of the first, a point is what a run gives
whose first step is cut short.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from experiments.results import COLORS, panels
from levelprox import Problem, solve
from levelprox.exceptions import ConvergenceWarning
from levelprox.methods.lcpp import Harmonic, lcpp
from levelprox.methods.subsolvers import SGD, SVRG, Nesterov, Spectral, Subsolver
from levelprox.result import Iterate, Record

Double = NDArray[np.float64]

#: With the paper's colours: red, green, blue, orange.
CONTENDERS: dict[str, tuple[Subsolver, str]] = {
    "BB": (Spectral(), COLORS[1]),
    "NAG": (Nesterov(), COLORS[2]),
    "SVRG": (SVRG(), COLORS[0]),
    "SGD": (SGD(), COLORS[4]),
}
RANDOM = ("SVRG", "SGD")  # those a seed matters to
CUTS = (1, 2, 5, 10, 20, 50)  # inner steps of a first outer step that is cut short
#: How near to the best ψ* found: as a share of ψ(0) − ψ*, then of ψ* itself.
TARGETS = {"50 % of the way": 0.5, "90 % of the way": 0.1, "99 % of the way": 0.01}
TARGETS_OF_BEST = {"1 %": 1e-2, "0.1 %": 1e-3, "0.01 %": 1e-4}


@dataclass(frozen=True)
class Budget:
    """What a run may cost, whichever ends first, and how often those with a seed run."""

    passes: int
    seconds: float
    seeds: int


@dataclass(frozen=True)
class Panel:
    """One problem of the figure."""

    dataset: str
    alpha: float
    gamma: float


@dataclass(frozen=True)
class Point:
    """ψ after so many passes and seconds."""

    passes: float
    seconds: float
    psi: float


@dataclass(frozen=True)
class Curve:
    """One run: a contender with a seed on a panel."""

    panel: Panel
    label: str
    name: str
    seed: int
    points: tuple[Point, ...]


PANELS = (
    Panel("gisette", 0.05, 1e-5),
    Panel("gisette", 0.10, 1e-5),
    Panel("rcv1.binary", 0.10, 1e-4),
    Panel("rcv1.binary", 0.20, 1e-4),
    Panel("real-sim", 0.10, 1e-4),
    Panel("real-sim", 0.20, 1e-4),
)
FULL, QUICK = Budget(passes=1000, seconds=7.0, seeds=3), Budget(passes=60, seconds=0.8, seeds=1)


def run(panel: Panel, problem: Problem, label: str, name: str, seed: int, budget: Budget) -> Curve:
    """One contender on one problem, on one thread."""
    subsolver, _ = CONTENDERS[name]
    rest = outer_steps(problem, subsolver, panel.gamma, budget, seed)
    early = first_step(problem, subsolver, panel.gamma, rest[0].passes, seed)
    return Curve(panel, label, name, seed, (*early, *rest))


def outer_steps(problem: Problem, subsolver: Subsolver, gamma: float, budget: Budget, seed: int) -> list[Point]:
    """Return the points of a run after each outer step."""
    points: list[Point] = []

    def watch(record: Record, x: Double) -> bool:
        points.append(Point(record.n_grad, record.seconds, record.psi))
        return record.n_grad >= budget.passes

    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)  # no run ends at tol
        solve(
            problem,
            subsolver=subsolver,
            # η_k = η. The schedule "constant" would let BB and NAG, but not SVRG and SGD, begin without the level.
            levels=Harmonic(eta0=problem.level),
            gamma=gamma,
            tol=0,
            max_iter=10**9,
            time_limit=budget.seconds,
            callback=watch,
            random_state=seed,
        )
    return points


def first_step(problem: Problem, subsolver: Subsolver, gamma: float, passes: int, seed: int) -> Iterator[Point]:
    """Return the origin and shortened first outer steps, which take fewer passes than the whole step."""
    model, origin = problem.objective, np.zeros(problem.dimension)
    psi, gradient = model.value_and_gradient(origin)
    start = Iterate(origin, psi, gradient, step=1 / model.curvature)
    yield Point(0, 0.0, psi)
    for steps in CUTS:
        with threadpool_limits(1):
            began, rng = time.monotonic(), np.random.default_rng(seed)
            cut = subsolver.limited_to(steps)
            _, iterate = next(lcpp(problem, start, [problem.level], gamma, cut, rng=rng))
            seconds = time.monotonic() - began
        if 1 + iterate.n_grad >= passes:
            return
        yield Point(1 + iterate.n_grad, seconds, iterate.psi)


def reached(points: Iterable[Point], psi: float) -> Point:
    """Return the first point at or below ψ; at infinity if there is none."""
    return next((point for point in points if point.psi <= psi), Point(math.inf, math.inf, math.inf))


def after(points: Iterable[Point], passes: float) -> float:
    """ψ of the last point within so many passes."""
    return [point.psi for point in points if point.passes <= passes][-1]


def targets(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """Return passes and seconds to each target, and ψ after the passes of the shortest run; medians over the seeds.

    Infinite where fewer than half of them arrived.
    """
    rows: list[dict[str, Any]] = []
    for panel in dict.fromkeys(curve.panel for curve in curves):
        here = [curve for curve in curves if curve.panel == panel]
        start, best = here[0].points[0].psi, min(point.psi for curve in here for point in curve.points)
        goals = {name: best + share * (start - best) for name, share in TARGETS.items()}
        common = min(curve.points[-1].passes for curve in here)
        goals |= {f"within {name}": best * (1 + share) for name, share in TARGETS_OF_BEST.items()}
        for name in dict.fromkeys(curve.name for curve in here):
            runs = [curve.points for curve in here if curve.name == name]
            row: dict[str, Any] = {"panel": panel, "label": here[0].label, "best psi": best, "subsolver": name}
            row["last psi"] = float(np.median([after(points, common) for points in runs]))
            row["passes"] = common
            for goal, psi in goals.items():
                arrivals = [reached(points, psi) for points in runs]
                row[f"passes to {goal}"] = float(np.median([point.passes for point in arrivals]))
                row[f"seconds to {goal}"] = float(np.median([point.seconds for point in arrivals]))
            rows.append(row)
    return rows


def series(points: Iterable[Point], axis: str) -> tuple[Double, Double]:
    """Places on an axis after the start, in order (first steps cut short were timed one by one), and ψ there."""
    pairs = sorted((getattr(point, axis), point.psi) for point in points if point.passes > 0)
    place, psi = np.array(pairs, dtype=np.float64).T
    return place, psi


def median_curve(runs: Sequence[Sequence[Point]], axis: str) -> tuple[Double, Double]:
    """Return the median of ψ over runs, as far as all runs go, with linear interpolation of logarithms."""
    known = [series(points, axis) for points in runs]
    begin, end = max(place[0] for place, _ in known), min(place[-1] for place, _ in known)
    grid = np.unique(np.concatenate([place for place, _ in known]))
    grid = grid[(grid >= begin) & (grid <= end)]
    between = [np.exp(np.interp(np.log(grid), np.log(place), np.log(psi))) for place, psi in known]
    return grid, np.median(between, axis=0)


def draw(curves: Sequence[Curve], axis_name: str, title: str) -> Figure:
    """Two panels a row, as in the paper."""
    problems = list(dict.fromkeys(curve.panel for curve in curves))
    figure, axes = panels(math.ceil(len(problems) / 2), 2, width=4, height=2.6)
    for axis, panel in zip(axes.flat, problems, strict=False):
        here = [curve for curve in curves if curve.panel == panel]
        for name, (_, color) in CONTENDERS.items():
            runs = [curve.points for curve in here if curve.name == name]
            if not runs:
                continue
            for points in runs if len(runs) > 1 else ():
                axis.plot(*series(points, axis_name), color=color, alpha=0.25)
            axis.plot(*median_curve(runs, axis_name), color=color, label=f"LCPP-{name}")
        axis.set(xscale="log", yscale="log", xlabel=title, ylabel="ψ")
        for ticks in (axis.xaxis, axis.yaxis):
            ticks.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ticks.set_major_formatter("{x:g}")
            ticks.set_minor_formatter(NullFormatter())
        axis.set_title(f"{here[0].label}, α = {panel.alpha:g}", fontsize=9)
    axes[0, 0].legend(fontsize=7)
    return figure


def rows_of(curve: Curve) -> Iterator[dict[str, Any]]:
    """Every point of a run."""
    for point in curve.points:
        yield {
            "set": curve.panel.dataset,
            "label": curve.label,
            "alpha": curve.panel.alpha,
            "gamma": curve.panel.gamma,
            "subsolver": curve.name,
            "seed": curve.seed,
            "passes": point.passes,
            "seconds": point.seconds,
            "psi": point.psi,
        }


def curves_of(rows: Iterable[Mapping[str, Any]]) -> list[Curve]:
    """Return the runs from the rows of all of them."""
    points: dict[tuple[Panel, str, str, int], list[Point]] = {}
    for row in rows:
        panel = Panel(row["set"], row["alpha"], row["gamma"])
        found = points.setdefault((panel, row["label"], row["subsolver"], row["seed"]), [])
        found.append(Point(row["passes"], row["seconds"], row["psi"]))
    return [Curve(*key, tuple(found)) for key, found in points.items()]
