"""Table 1: the exponent of each of its eight entries, measured on small problems (`experiments/rates.py`).

A task is one run of one entry for all its K: each with data and noise of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from typing import ClassVar

from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from experiments.cells import ENTRIES, Cell, cell, table
from experiments.measure import Measurement, measure
from experiments.rates import FULL, QUICK, Curve, Fit, curve, draw, fit, verdict
from experiments.reproduce.study import Claim, Outcome, Scope, Study, Table
from experiments.reproduce.task import Row, Task
from experiments.results import panels

LEAST_RUNS = 2  # for a spread
HOLDS = {"not worse": True, "undecided": None, "WORSE": False}


def measurements(entry: int, run: int, outer_steps: list[int], points: int) -> Iterator[Row]:
    """The (ε, δ)-KKT statements of one run of an entry, for every K."""
    problem = cell(*ENTRIES[entry], seed=run)
    with threadpool_limits(1):  # tiny matrices: more threads only get into each other's way
        for K in outer_steps:
            for found in measure(problem, K, run, points):
                yield asdict(found) | {"epsilon": found.epsilon}


class Rates(Study):
    """How many gradients an ε-KKT point costs."""

    name: ClassVar[str] = "rates"
    title: ClassVar[str] = "Table 1: gradients to an ε-KKT point"

    def tasks(self, scope: Scope, rows: Sequence[Row]) -> list[Task]:
        size = QUICK if scope.quick else FULL
        tasks = []
        # Stochastic entries are at the end of the table and take longest: they go first, to keep all processes busy.
        for entry, problem in reversed(list(enumerate(table()))):
            for run in range(size.runs):
                asked = {
                    "entry": entry,
                    "run": run,
                    "outer_steps": size.outer_steps(problem),
                    "points": size.points,
                }
                tasks.append(Task(self.name, (problem.name, str(run)), f"{__name__}:measurements", asked))
        return tasks

    def outcome(self, rows: Sequence[Row], scope: Scope) -> Outcome:
        entries = [entry for problem in table() if (entry := Entry(problem, rows)).known]
        header = ("entry", "paper", "slope", "95 % limits", "ε, first to last K", "Nε^p, first to last K", "verdict")
        return Outcome(
            "N = K T_k gradients for a geometric list of K, ε(K) of x^k̂ with the exact solution of its subproblem; the "
            "slope of log N against log(1/ε) with a term for the next order.",
            "Table 1 states O(1/ε) gradients for smooth deterministic ψ and O(1/ε²) for all others, convex or not.",
            tables=[Table("Slopes p of N ∝ ε^−p", header, [entry.line() for entry in entries])],
            figures=[("rates.png", drawn(entries), "Gradients against 1/ε, with the paper's slope")] if entries else [],
            claims=[entry.claim() for entry in entries],
            notes=[
                "The table is a statement on the worst case; a slope below the exponent does not contradict it.",
                "An entry is worse than the paper says where the lower limit of its slope is above the exponent, and "
                "undecided where the limits reach from below the exponent to beyond twice it.",
            ],
        )


class Entry:
    """What was measured of one entry of the table."""

    def __init__(self, problem: Cell, rows: Sequence[Row]) -> None:
        self.problem = problem
        names = [field.name for field in fields(Measurement)]
        found = [Measurement(**{name: row[name] for name in names}) for row in rows if row["cell"] == problem.name]
        self.runs = len({one.run for one in found})
        self.known = bool(found)
        if self.known:
            self.curve: Curve = curve(found)
            self.fit = fit(self.curve) if self.runs >= LEAST_RUNS else Fit(math.nan, math.nan, math.nan, math.nan)

    @property
    def verdict(self) -> str:
        """In a word."""
        return verdict(self.problem.exponent, self.fit) if self.runs >= LEAST_RUNS else "undecided"

    def line(self) -> tuple[str, ...]:
        """Of the table."""
        eps = self.curve.epsilon
        constant = self.curve.gradients * eps**self.problem.exponent
        return (
            self.problem.name,
            f"{self.problem.exponent}",
            f"{self.fit.slope:.2f}",
            f"[{self.fit.low:.2f}, {self.fit.high:.2f}]",
            f"{eps[0]:.1e} to {eps[-1]:.1e}",
            f"{constant[0]:.3g} to {constant[-1]:.3g}",
            self.verdict,
        )

    def claim(self) -> Claim:
        """On its exponent."""
        power = "" if self.problem.exponent == 1 else "²"
        return Claim(
            f"{self.problem.name}: O(1/ε{power}) gradients",
            f"slope {self.fit.slope:.2f} [{self.fit.low:.2f}, {self.fit.high:.2f}] over {self.runs} runs: "
            + self.verdict,
            HOLDS[self.verdict],
            "Too few runs to tell; a full run has more of them, and more decades of K." * (self.verdict == "undecided"),
        )


def drawn(entries: Sequence[Entry]) -> Figure:
    """A panel for each entry."""
    columns = min(4, len(entries))
    figure, axes = panels(math.ceil(len(entries) / columns), columns)
    for axis, entry in zip(axes.flat, entries, strict=False):
        draw(axis, entry.problem, entry.curve, entry.fit)
    figure.supxlabel("1/ε", size=9)
    figure.supylabel("gradients N", size=9)
    return figure
