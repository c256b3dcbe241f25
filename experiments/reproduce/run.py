"""Run experiments: the tasks that have no answer yet, then tables and figures, then the page, then a summary."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.reproduce.page import write_page
from experiments.reproduce.parts import Parts
from experiments.reproduce.study import Outcome, Report, Scope, Study, Table
from experiments.reproduce.task import Answer, Row, Task
from experiments.reproduce.workers import answers
from experiments.results import save
from levelprox.report.bar import showing

MARKS = {True: "holds", False: "MISSED", None: "open"}


def reproduce(studies: Sequence[Study], scope: Scope, out: Path, jobs: int) -> int:
    """Run all, write all, say what was skipped; 1 where a task failed."""
    reports = []
    for study in studies:
        report = Session(study, scope, Parts(out), jobs).run()
        if report.outcome is not None:
            tell(study, report.outcome)
        reports.append(report)
        # After each one: a long run can be read while it goes on.
        page = write_page(out / "index.html", reports, scope)
    print(f"\nwritten: {page}")
    return summarise(reports)


@dataclass
class Session:
    """One experiment, from its tasks to its figures.

    Parameters
    ----------
    study : Study
    scope : Scope
    parts : Parts
        What is known already, and where to keep what will be.
    jobs : int
        Tasks at a time, where seconds are not compared.
    """

    study: Study
    scope: Scope
    parts: Parts
    jobs: int
    #: name of a task → what came of it, for those without an answer that counts
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def run(self) -> Report:
        """Do what is left to do, write the CSV file, draw."""
        while left := [task for task in self._known()[0] if self._is_open(task)]:
            self._work(left)
        tasks, rows = self._known()
        seconds = sum(answer.seconds for task in tasks if (answer := self.parts.answer(task)))
        if not rows:
            return Report(self.study, None, self.skipped, self.failed, seconds, None)
        path = self.parts.write_csv(self.study.name, rows)
        print(f"written: {path}")
        outcome = self.study.outcome(rows, self.scope)
        for name, figure, _ in outcome.figures:
            save(figure, self.parts.out / name)
        return Report(self.study, outcome, self.skipped, self.failed, seconds, path)

    def _known(self) -> tuple[list[Task], list[Row]]:
        """All tasks that can be named by now, and the rows of those that have an answer."""
        tasks: list[Task] = []
        while True:
            rows = self.parts.rows(tasks)
            more = self.study.tasks(self.scope, rows)
            if len(more) == len(tasks):
                return more, self.parts.rows(more)
            tasks = more

    def _is_open(self, task: Task) -> bool:
        tried = task.name in self.skipped or task.name in self.failed
        return not tried and self.parts.answer(task) is None

    def _work(self, tasks: Sequence[Task]) -> None:
        cores = os.cpu_count() or 1
        workers = 1 if self.study.timed else min(self.jobs, len(tasks))
        with showing(self.study.name, len(tasks), "tasks") as progress:
            for task, answer in answers(tasks, workers, threads=max(1, cores // workers)):
                self._note(task, answer)
                progress.advance()

    def _note(self, task: Task, answer: Answer) -> None:
        if answer.counts:
            self.parts.keep(task, answer)
        else:
            (self.skipped if answer.ended == "skipped" else self.failed)[task.name] = answer.reason


def tell(study: Study, outcome: Outcome) -> None:
    """Tables and verdicts in print."""
    print(f"\n{study.name}: {study.title}")
    for table in outcome.tables:
        print("\n" + in_columns(table))
    for claim in outcome.claims:
        print(
            f"\n[{MARKS[claim.holds]}] {claim.paper}\n  here: {claim.ours}" + f"\n  {claim.remark}" * bool(claim.remark)
        )


def in_columns(table: Table) -> str:
    """A table in text, columns as wide as they must be."""
    rows = [table.header, *table.rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([table.caption, *lines])


def summarise(reports: Sequence[Report]) -> int:
    """What was done, what holds, what was skipped, what failed."""
    print("\nSummary")
    for report in reports:
        claims = report.outcome.claims if report.outcome else []
        verdicts = ", ".join(
            f"{n} {mark}" for holds, mark in MARKS.items() if (n := sum(c.holds is holds for c in claims))
        )
        rest = "; ".join(
            f"{len(what)} {word}" for what, word in ((report.skipped, "skipped"), (report.failed, "failed")) if what
        )
        print(
            f"  {report.study.name:16} {report.seconds:8.0f} s of work  {verdicts or 'nothing to claim'}"
            + f"  ({rest})" * bool(rest)
        )
        for word, what in (("skipped", report.skipped), ("failed", report.failed)):
            for name, reason in what.items():
                print(f"    {word}: {name}: {reason}")
    return 1 if any(report.failed for report in reports) else 0
