"""Figure 2: objective against seconds, LCPP as the paper ran it against DCCP; and levelprox as it comes.

Logistic regression under MCP, λ = 2, θ = 0.25. LCPP: spectral steps, at most 10 for each subproblem and 1000
subproblems, γ = 1e-5 for gisette and 1e-4 for the others, until ‖x^k − x^{k−1}‖ ≤ ε ‖x^k‖. The paper names neither ε
nor the levels η_k; here ε = 1e-6 and η_k = η, which its footnote allows.

All start at the origin, one at a time. Seconds are those of the method alone: data are loaded, and ψ and g of every
point are recomputed with the clock stopped. What the solvers of DCCP return misses the level by their tolerance; where
g is above η by more than 1e-3 of it a point is drawn, but is no point to be compared with.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import paper
from experiments.competitors.base import Samples
from experiments.competitors.convex_concave import SOLVERS, steps
from experiments.reproduce.study import Claim, Outcome, Scope, Study, Table
from experiments.reproduce.task import Row, Task
from experiments.results import COLORS, legend_below, panels
from experiments.studies.sets import argument, chosen, split
from levelprox import Problem, solve
from levelprox.constraints import MCP
from levelprox.methods.subsolvers import Spectral
from levelprox.result import Record

LCPP, DEFAULT = "LCPP", "levelprox"
STOP = 1e-6
NEAR, FEASIBLE = 1e-4, 1e-3
AT_REST = 1e-6  # the relative change of ψ that ends DCCP
FLOOR = 1e-8  # of what is drawn
TINY = float(np.finfo(float).tiny)
#: Seconds for one method on one set.
LIMIT, QUICK_LIMIT = 300.0, 6.0
MEMORY = 12.0  # GiB
COLOR = {LCPP: COLORS[1], DEFAULT: COLORS[2], "CLARABEL": COLORS[0], "SCS": COLORS[3], "MOSEK": COLORS[4]}


def problem_of(dataset: Row) -> tuple[Samples, Problem]:
    """Return the samples, and the paper's problem on them."""
    data = split(dataset)
    train = Samples(data.X, data.b, data.loss)
    level = paper.DCCP_LEVELS[dataset["name"]] * data.X.shape[1]
    return train, Problem(train.model(), MCP(paper.LAM, paper.THETA_SPEED), level)


def run_lcpp(dataset: Row, method: str, seconds: float) -> Iterator[Row]:
    """One row per outer step of LCPP, as the paper ran it or as levelprox does."""
    _, problem = problem_of(dataset)
    found: list[tuple[float, float, float, int]] = []
    began = time.perf_counter()
    told = 0.0  # seconds spent in here

    def watch(record: Record, x: Any) -> None:
        nonlocal told
        now = time.perf_counter()
        found.append((now - began - told, record.psi, record.g, int(np.count_nonzero(x))))
        told += time.perf_counter() - now

    asked: dict[str, Any] = {}
    if method == LCPP:
        asked = {
            "subsolver": Spectral(max_steps=paper.INNER_STEPS, accuracy=0.0),
            "surrogate": "paper",
            "gamma": paper.GAMMA[dataset["name"]],
            "max_iter": paper.OUTER_STEPS,
            "stopping": "change",
            "start": "direct",
            "tol": STOP,
        }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what stopped it is in its last row
        result = solve(problem, callback=watch, time_limit=seconds, **asked)
    found.append((time.perf_counter() - began - told, result.psi, problem.g(result.x), int(np.count_nonzero(result.x))))
    psi_0, _ = problem.objective.value_and_gradient(np.zeros(problem.dimension))
    known = {"set": dataset["name"], "label": dataset["label"], "method": method, "level": problem.level}
    yield known | {"step": 0, "seconds": 0.0, "psi": psi_0, "g": 0.0, "nonzeros": 0, "status": ""}
    for step, (at, psi, g, nonzeros) in enumerate(found, 1):
        status = str(result.status) if step == len(found) else ""
        yield known | {"step": step, "seconds": at, "psi": psi, "g": g, "nonzeros": nonzeros, "status": status}


def run_dccp(dataset: Row, method: str) -> Iterator[Row]:
    """One row per convex problem."""
    train, problem = problem_of(dataset)
    known = {"set": dataset["name"], "label": dataset["label"], "method": method, "level": problem.level}
    for number, step in enumerate(steps(train, problem.constraint, problem.level, method), 1):
        yield known | {
            "step": number,
            "seconds": step.seconds,
            "psi": step.psi,
            "g": step.g,
            "nonzeros": int(np.count_nonzero(step.x)),
            "status": step.status,
        }


class FigDCCP(Study):
    """Who is near the best objective how soon."""

    name: ClassVar[str] = "fig-dccp"
    title: ClassVar[str] = "Figure 2: objective against seconds, LCPP and DCCP"
    timed: ClassVar[bool] = True

    def tasks(self, scope: Scope, rows: Sequence[Row]) -> list[Task]:
        """Return the tasks."""
        limit = QUICK_LIMIT if scope.quick else LIMIT
        tasks = []
        for name in chosen(list(paper.DCCP_LEVELS), scope):
            dataset = argument(name, scope)
            for method in (LCPP, DEFAULT):
                asked = {"dataset": dataset, "method": method, "seconds": limit}
                tasks.append(Task(self.name, (name, method), f"{__name__}:run_lcpp", asked, limit=3 * limit + 60))
            for method in SOLVERS:
                asked = {"dataset": dataset, "method": method}
                tasks.append(Task(self.name, (name, method), f"{__name__}:run_dccp", asked, limit, MEMORY))
        return tasks

    def outcome(self, rows: Sequence[Row], scope: Scope) -> Outcome:
        """Return tables, figures and claims."""
        names = list(dict.fromkeys(row["set"] for row in rows))
        races = [Race([row for row in rows if row["set"] == name], scope) for name in names]
        header = ("set", "method", "steps", "seconds", "first step", "last ψ", "g/η", "nonzeros", "ended")
        ends = Table("Where each method ended", header, [line for race in races for line in race.lines()])
        return Outcome(
            "ψ against seconds, one method at a time; what a method had when its time was up counts.",
            "Figure 2 shows LCPP ahead of DCCP with MOSEK on four sets, on some of them near the optimum before DCCP "
            "has taken its first step.",
            tables=[ends],
            figures=[
                (
                    "fig-dccp.png",
                    draw(races),
                    "ψ less the lowest ψ found, against seconds; a point above "
                    "the level, or of a solver that failed, is hollow",
                )
            ],
            claims=[claim for race in races for claim in race.claims()],
            notes=[
                "The paper's DCCP ran on MOSEK; here Clarabel and SCS stand for it, and MOSEK where it has a licence.",
                "The paper names neither ε nor the levels η_k of this figure: ε = 1e-6, η_k = η.",
                "levelprox with defaults searches for better KKT points by continuation; it may end lower than "
                "LCPP and DCCP, which stay where they come to from the origin.",
            ],
        )


class Race:
    """What all methods did on one set."""

    def __init__(self, rows: Sequence[Row], scope: Scope) -> None:
        self.name, self.label, self.level = rows[0]["set"], rows[0]["label"], rows[0]["level"]
        self.limit = QUICK_LIMIT if scope.quick else LIMIT
        methods = dict.fromkeys(row["method"] for row in rows)
        self.curves = {method: [row for row in rows if row["method"] == method] for method in methods}

    def sound(self, method: str) -> list[Row]:
        """Return the valid points: of a solver that finished, within the level."""
        return [
            row
            for row in self.curves.get(method, ())
            if row["g"] <= (1 + FEASIBLE) * self.level
            and (method in (LCPP, DEFAULT) or row["status"].startswith("optimal"))
        ]

    def best(self, methods: Sequence[str]) -> float:
        """Return the lowest ψ of all methods."""
        return min((row["psi"] for method in methods for row in self.sound(method)), default=float("nan"))

    def second_step(self) -> tuple[float, str]:
        """When the fastest DCCP had taken two steps, and which that was; the limit where none has."""
        solved = {m: [r for r in self.curves.get(m, ()) if r["status"].startswith("optimal")] for m in SOLVERS}
        times = {method: rows[1]["seconds"] for method, rows in solved.items() if len(rows) > 1}
        if not times:
            return self.limit, "no DCCP took two steps by then"
        fastest = min(times, key=lambda method: times[method])
        return times[fastest], f"DCCP on {fastest}"

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Where each method ended."""
        for method, rows in self.curves.items():
            last, steps_taken = rows[-1], [row for row in rows if row["step"]]
            first = f"{steps_taken[0]['seconds']:.2f}" if steps_taken else "-"
            yield (
                self.label,
                called(method),
                str(len(steps_taken)),
                f"{last['seconds']:.1f}",
                first,
                f"{last['psi']:.6g}",
                f"{last['g'] / self.level:.4f}",
                str(last["nonzeros"]),
                self.ended(method),
            )

    def ended(self, method: str) -> str:
        """Why a method took no more steps; of DCCP its rows tell whether ψ was at rest."""
        *_, before, last = [None, None, *self.curves[method]]
        if method in (LCPP, DEFAULT) or not last["status"].startswith("optimal"):
            return last["status"][:40]
        rests = before is not None and abs(before["psi"] - last["psi"]) <= AT_REST * abs(last["psi"])
        return "ψ at rest" if rests else "at a limit"

    def claims(self) -> Iterator[Claim]:
        """Whether LCPP, and levelprox, were near the lowest ψ before DCCP had taken two steps."""
        both = [LCPP, *SOLVERS]
        if any(self.sound(solver) for solver in SOLVERS):  # else LCPP would be compared with itself
            yield self.claim(LCPP, self.best(both), "LCPP and DCCP")
        else:
            yield Claim(f"{self.label}: LCPP and DCCP", "no DCCP has a point within the level", None)
        for method in (LCPP, DEFAULT):
            yield self.claim(method, self.best([*both, DEFAULT]), "all three")

    def claim(self, method: str, best: float, whose_best: str) -> Claim:
        """Of one method; open where it has no points."""
        said = f"{self.label}: {method} within {NEAR:g} of the best ψ of {whose_best} before DCCP's second step"
        points = self.sound(method)
        if not points:
            return Claim(said, f"no points of {method}", None)
        deadline, whose = self.second_step()
        lowest = min((row["psi"] for row in points if row["seconds"] <= deadline), default=float("inf"))
        gap = (lowest - best) / max(best, TINY)
        when = [row["seconds"] for row in points if row["psi"] <= (1 + NEAR) * best]
        return Claim(
            said,
            f"a share of {gap:.1e} above {best:.6g} after {deadline:.3g} s ({whose}); "
            + (f"within {NEAR:g} after {when[0]:.3g} s" if when else f"never within {NEAR:g}"),
            gap <= NEAR,
            self.remark(best) if gap > NEAR else "",
        )

    def remark(self, best: float) -> str:
        """Why relative figures may mean little."""
        if best < 0.01:
            return (
                "The level leaves room for features enough to separate the classes: inf ψ is 0, or nearly, and is not "
                "attained, so that a share of the best ψ is a share of next to nothing."
            )
        return (
            "These are different KKT points: LCPP stays where it comes to from the origin, and with γ as large as the "
            "small curvatures of ψ it still moves when its steps are used up."
        )


def called(method: str) -> str:
    """Return a method's name in tables and figures."""
    return method if method in (LCPP, DEFAULT) else f"DCCP, {method}"


def draw(races: Sequence[Race]) -> Figure:
    """ψ less the lowest one found, in logarithms, down to a floor on which the lowest one itself lies."""
    figure, axes = panels(1, len(races), width=3.2, height=3.2)
    for axis, race in zip(axes.flat, races, strict=True):
        best = race.best(list(race.curves))
        floor = max(best * NEAR / 10, FLOOR)
        for method in race.curves:
            _curve(axis, race, method, best, floor)
        if best * NEAR > floor:
            axis.axhline(best * NEAR, color="0.4", linewidth=0.8, linestyle=":", label=f"{NEAR:g} of the lowest ψ")
        axis.set(xscale="log", yscale="log", xlabel="seconds", ylabel="ψ − lowest ψ")
        axis.set_title(f"{race.label}\nη = {paper.DCCP_LEVELS[race.name]:g} d", fontsize=9)
    legend_below(figure, axes)
    return figure


def _curve(axis: Axes, race: Race, method: str, best: float, floor: float) -> None:
    """Draw a mark at every step of DCCP and at the last step of the others; hollow if the point is invalid."""
    rows, sound = [row for row in race.curves[method] if row["step"]], race.sound(method)
    if not rows or np.isnan(best):
        return
    times, gaps = [row["seconds"] for row in rows], [max(row["psi"] - best, floor) for row in rows]
    marks = {"marker": "o", "markersize": 4, "color": COLOR[method]}
    axis.plot(times, gaps, **marks, markevery=[-1] if method in (LCPP, DEFAULT) else None, label=called(method))
    hollow = [number for number, row in enumerate(rows) if row not in sound]
    axis.plot(times, gaps, **marks, linestyle="", markerfacecolor="white", markevery=hollow) if hollow else None
