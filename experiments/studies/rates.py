"""Table 1: the exponents of its eight entries, measured on small problems (`experiments/rates.py`).

Stationarity, complementarity and δ have a slope and a claim each. A task is one run of one entry for all its K: each
with data and noise of its own.
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
from experiments.rates import FULL, MEASURED, QUANTITIES, QUICK, UNKNOWN, Curve, curve, draw, fit, verdict
from experiments.reproduce.study import Claim, Outcome, Scope, Study, Table
from experiments.reproduce.task import Row, Task
from experiments.results import panels

LEAST_RUNS = 2  # for a spread
HOLDS = {"not worse": True, "undecided": None, "WORSE": False}
NEARLY_ALL = 0.95  # of the complementarity


def statements(entry: int, run: int, outer_steps: list[int], points: int) -> Iterator[Row]:
    """Yield the (ε, δ)-KKT statements of one run of an entry, for every K."""
    problem = cell(*ENTRIES[entry], seed=run)
    with threadpool_limits(1):  # tiny matrices: more threads only get into each other's way
        for K in outer_steps:
            for found in measure(problem, K, run, points):
                yield asdict(found)


class Rates(Study):
    """How many gradients an ε-KKT point costs."""

    name: ClassVar[str] = "rates"
    title: ClassVar[str] = "Table 1: gradients to an ε-KKT point"

    def tasks(self, scope: Scope, rows: Sequence[Row]) -> list[Task]:
        """Return the tasks."""
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
                tasks.append(Task(self.name, (problem.name, str(run)), f"{__name__}:statements", asked))
        return tasks

    def outcome(self, rows: Sequence[Row], scope: Scope) -> Outcome:
        """Return tables, figures and claims."""
        entries = [entry for problem in table() if (entry := Entry(problem, rows)).known]
        header = (
            "entry",
            "quantity",
            "paper",
            "slope",
            "95 % limits",
            "first to last K",
            "set by the levels",
            "verdict",
        )
        return Outcome(
            "N = K T_k gradients for a geometric list of K. Stationarity, complementarity and δ of x^k̂ with the exact "
            "solution of its subproblem, each for itself: the slope of log N against the logarithm of its inverse, "
            "with a term for the next order.",
            "Table 1 states O(1/ε) gradients for smooth deterministic ψ and O(1/ε²) for all others, convex or not.",
            tables=[
                Table("Slopes p of N ∝ q^−p", header, [line for entry in entries for line in entry.lines()]),
                Table(
                    "The multiplier ȳ",
                    ("entry", "K, first to last", "ȳ, first to last", "ȳ, largest"),
                    [entry.multipliers() for entry in entries],
                ),
            ],
            figures=[("rates.png", drawn(entries), "The three quantities against gradients")] if entries else [],
            claims=[claim for entry in entries for claim in entry.claims()],
            notes=[
                "The table is a statement on the worst case; a slope below the exponent does not contradict it.",
                "A quantity is worse than the paper says where the lower limit of its slope is above the exponent, and "
                "undecided where the limits reach from below the exponent to beyond twice it.",
                "The levels rise as η − η_k = (η − η_0)/(k+1), so that ȳ(η − η_k), a part of the complementarity, "
                "decreases as 1/K for any steps, if ȳ is bounded. Where it is nearly all of it the slope "
                "is that of the schedule, and no measurement of the method; what is beyond it has its own slope.",
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
            enough = self.runs >= LEAST_RUNS
            self.fits = {name: fit(self.curve, name) if enough else UNKNOWN for name in MEASURED}

    def verdict(self, name: str) -> str:
        """In a word."""
        return verdict(self.problem.exponent, self.fits[name])

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Of the table, one for each quantity."""
        for name, called in MEASURED.items():
            fitted, mean = self.fits[name], self.curve.mean(name)
            share = f"{self.curve.share_of_schedule:.1%}" if name == "complementarity" else ""
            yield (
                self.problem.name,
                called,
                f"{self.problem.exponent}" if name in QUANTITIES else "",
                f"{fitted.slope:.2f}",
                f"[{fitted.low:.2f}, {fitted.high:.2f}]",
                f"{mean[0]:.1e} to {mean[-1]:.1e}",
                share,
                self.verdict(name) if name in QUANTITIES else "",
            )

    def multipliers(self) -> tuple[str, ...]:
        """ȳ, which the bounds ask to stay bounded."""
        y, K = self.curve.mean("multiplier"), self.curve.K
        return (self.problem.name, f"{K[0]:.0f} to {K[-1]:.0f}", f"{y[0]:.3g} to {y[-1]:.3g}", f"{y.max():.3g}")

    def claims(self) -> Iterator[Claim]:
        """On the exponent of each quantity."""
        power = "" if self.problem.exponent == 1 else "²"
        for name, called in QUANTITIES.items():
            fitted, word = self.fits[name], self.verdict(name)
            yield Claim(
                f"{self.problem.name}: {called} at most ε after O(1/ε{power}) gradients",
                f"slope {fitted.slope:.2f} [{fitted.low:.2f}, {fitted.high:.2f}] over {self.runs} runs: {word}",
                HOLDS[word],
                self._remark(name, word),
            )

    def _remark(self, name: str, word: str) -> str:
        if word == "undecided":
            return "Its limits are too wide to tell; a run with --quick has fewer runs, and fewer decades of K."
        share = self.curve.share_of_schedule
        if name == "complementarity" and share >= NEARLY_ALL:
            return f"{share:.1%} of it is ȳ(η − η_k), which the schedule sets: the slope only shows that ȳ is bounded."
        return ""


def drawn(entries: Sequence[Entry]) -> Figure:
    """Draw a panel for each entry."""
    columns = min(4, len(entries))
    figure, axes = panels(math.ceil(len(entries) / columns), columns)
    for axis, entry in zip(axes.flat, entries, strict=False):
        draw(axis, entry.problem, entry.curve)
    figure.supxlabel("gradients N", size=9)
    figure.supylabel("mean over k̂ and runs", size=9)
    return figure
