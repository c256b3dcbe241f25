"""Figure 4, of the appendix "Solving the subproblems": ψ against passes over the data for BB, NAG, SVRG and SGD.

Every run has the machine to itself and uses one thread; `experiments/subsolvers.py` says what is run. Verdicts are on
medians over the seeds: ψ after as many passes as all runs on a panel took, passes to half of the way from ψ(0) to the
best ψ found, and seconds to 99 % of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from experiments import paper
from experiments.competitors.base import Samples
from experiments.reproduce.study import Claim, Outcome, Scope, Study, Table
from experiments.reproduce.task import Row, Task
from experiments.studies.sets import argument, chosen, split
from experiments.subsolvers import (
    CONTENDERS,
    FULL,
    PANELS,
    QUICK,
    RANDOM,
    TARGETS,
    TARGETS_OF_BEST,
    Budget,
    Panel,
    curves_of,
    draw,
    rows_of,
    run,
    targets,
)
from levelprox import Problem
from levelprox.constraints import MCP

#: Relative: ψ that are nearer to each other are equal.
EQUAL = 1e-4
GOALS = [*TARGETS, *(f"within {name}" for name in TARGETS_OF_BEST)]


def points(dataset: Row, panel: Row, subsolver: str, seed: int, budget: Row) -> Iterator[Row]:
    """One run, a row for each of its points."""
    data, problem_of = split(dataset), Panel(**panel)
    model = Samples(data.X, data.b, data.loss).model()
    problem = Problem(model, MCP(paper.LAM, paper.THETA_SPEED), problem_of.alpha * model.dimension)
    yield from rows_of(run(problem_of, problem, dataset["label"], subsolver, seed, Budget(**budget)))


class FigSubsolvers(Study):
    """Which subsolver is how far after how many passes."""

    name: ClassVar[str] = "fig-subsolvers"
    title: ClassVar[str] = "Figure 4: objective against passes, four subsolvers"
    timed: ClassVar[bool] = True

    def tasks(self, scope: Scope, rows: Sequence[Row]) -> list[Task]:
        """Return the tasks."""
        budget = QUICK if scope.quick else FULL
        names = chosen([panel.dataset for panel in PANELS], scope)
        tasks = []
        for panel in (panel for panel in PANELS if panel.dataset in names):
            known = {"dataset": argument(panel.dataset, scope), "panel": asdict(panel), "budget": asdict(budget)}
            for subsolver in CONTENDERS:
                for seed in range(budget.seeds if subsolver in RANDOM else 1):
                    key = (panel.dataset, f"{panel.alpha:g}", subsolver, str(seed))
                    asked = known | {"subsolver": subsolver, "seed": seed}
                    tasks.append(Task(self.name, key, f"{__name__}:points", asked))
        return tasks

    def outcome(self, rows: Sequence[Row], scope: Scope) -> Outcome:
        """Return tables, figures and claims."""
        curves = curves_of(rows)
        table = targets(curves)
        lines = [[line for line in table if line["panel"] == panel] for panel in dict.fromkeys(c.panel for c in curves)]
        header = ("set", "α", "subsolver", "ψ at the end", *GOALS)
        return Outcome(
            "ψ after each outer step, and within the first one, against passes and against seconds; "
            f"{FULL.passes} passes or {FULL.seconds:g} s for each run, {QUICK.passes} or {QUICK.seconds:g} s where "
            "quick. The stochastic ones run with several seeds where not.",
            "Figure 4 of the appendix: SGD and SVRG are ahead early on, BB (spectral gradient steps) ends lowest on "
            "all six panels, and in time the stochastic ones are much slower.",
            tables=[
                Table(
                    "Passes / seconds to shares of the way from ψ(0) to the best ψ found, and to within shares of it",
                    header,
                    [cells(line) for line in table],
                )
            ],
            figures=[
                ("fig-subsolvers.png", draw(curves, "passes", "effective passes"), "ψ against passes, as in Figure 4"),
                ("fig-subsolvers-seconds.png", draw(curves, "seconds", "seconds"), "ψ against seconds"),
            ],
            claims=[claim for panel in lines for claim in verdicts(panel)],
            notes=[
                "The paper does not name θ for this figure: 0.25, that of Figure 2, is taken.",
                "SVRG and SGD are those of levelprox: minibatches, projections that leave out coordinates proved to be "
                "zero. The paper does not say what its batches and steps were.",
                "The best ψ is the lowest that any run reached within its budget; where ψ still fell at the end, the "
                "last columns only say who led.",
            ],
        )


def cells(line: Row) -> tuple[str, ...]:
    """Return a line of the table, medians over the seeds."""
    arrivals = ((line[f"passes to {goal}"], line[f"seconds to {goal}"]) for goal in GOALS)
    return (
        line["label"],
        f"{line['panel'].alpha:g}",
        line["subsolver"],
        f"{line['last psi']:.6g}",
        *(f"{passes:.0f} / {seconds:.2f}" if passes < float("inf") else "-" for passes, seconds in arrivals),
    )


def verdicts(lines: Sequence[Row]) -> Iterator[Claim]:
    """Return the paper's three claims on one panel; open if a subsolver is missing."""
    complete = {line["subsolver"] for line in lines} == set(CONTENDERS)
    where = f"{lines[0]['label']}, α = {lines[0]['panel'].alpha:g}"

    def told(column: str) -> dict[str, Any]:
        return {line["subsolver"]: line[column] for line in lines}

    last, early, late = told("last psi"), told("passes to 50 % of the way"), told("seconds to 99 % of the way")
    first = min(last, key=lambda name: last[name])
    yield Claim(
        f"{where}: BB ends lowest of the four",
        f"ψ after {lines[0]['passes']:.0f} passes: " + listed(last, ".6g"),
        last["BB"] <= (1 + EQUAL) * last[first] if complete else None,
        "" if first == "BB" else "g is not convex: which KKT point a run comes to is also chance.",
    )
    yield Claim(
        f"{where}: a stochastic subsolver leads early on",
        "passes to half of the way: " + listed(early, ".0f"),
        min(early[name] for name in RANDOM) < min(early[name] for name in early if name not in RANDOM)
        if complete
        else None,
    )
    yield Claim(
        f"{where}: in time BB is ahead of the stochastic ones",
        "seconds to 99 % of the way: " + listed(late, ".2f"),
        late["BB"] < min(late[name] for name in RANDOM) if complete else None,
    )


def listed(figures: dict[str, float], form: str) -> str:
    """Return the figures in ascending order, with a dash for those that are not reached."""
    ordered = sorted(figures, key=lambda name: figures[name])
    told = {name: f"{figure:{form}}" if figure < float("inf") else "-" for name, figure in figures.items()}
    return ", ".join(f"{name} {told[name]}" for name in ordered)
