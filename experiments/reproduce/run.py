"""Run experiments: the tasks that have no answer yet, then tables and figures, then the page."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from experiments.competitors import MissingError
from experiments.datasets import DataError
from experiments.reproduce.page import write_page
from experiments.reproduce.parts import Parts
from experiments.reproduce.study import Report, Scope, Study
from experiments.reproduce.summary import summarise, tell
from experiments.reproduce.task import Answer, SkippedError, Task
from experiments.reproduce.workers import answers
from experiments.results import save
from levelprox.report.progress import showing


def reproduce(studies: Sequence[Study], asked: Sequence[str], scope: Scope, out: Path, jobs: int) -> int:
    """Run the chosen studies, write all results, report skipped tasks; return 1 if a task failed.

    Parameters
    ----------
    studies : sequence of Study
        All there are: the page also shows what earlier runs have left in the folder.
    asked : sequence of str
        Names of those to run.
    scope : Scope
    out : Path
    jobs : int
        Tasks at a time, where seconds are not compared.

    Raises
    ------
    FolderError
        Nothing can be written, or another run does.
    """
    parts = Parts(out)
    with parts.held():
        sessions = {study.name: Session(study, scope, parts, jobs) for study in studies}
        reports = {name: session.look() for name, session in sessions.items() if name not in asked}
        for name in [study.name for study in studies if study.name in asked]:
            reports[name] = sessions[name].run()
            tell(reports[name])
            # After each one, so that the results of a long run can be read before it ends.
            there = [reports[one] for one in sessions if one in reports and not reports[one].is_empty]
            page = write_page(out / "index.html", there, scope)
    print(f"\nwritten: {page}")
    return summarise([reports[name] for name in sessions if name in asked], parts.log)


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
        As in `reproduce`.
    """

    study: Study
    scope: Scope
    parts: Parts
    jobs: int
    #: name of a task → what came of it, for those without an answer that counts
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def run(self) -> Report:
        """Do what is left to do, then report."""
        return self._guarded(self._work_and_report)

    def look(self) -> Report:
        """Report on what earlier runs have left, if they have."""
        return self._guarded(self._report) if self.parts.has(self.study.name) else self._empty()

    def _guarded(self, work: Callable[[], Report]) -> Report:
        """Run one experiment; an error in it does not stop the others."""
        try:
            return work()
        except (SkippedError, DataError, MissingError) as error:
            self.skipped[self.study.name] = str(error)
        except Exception as error:
            self._blame(error)
        return self._empty()

    def _work_and_report(self) -> Report:
        tried: set[str] = set()
        while left := [
            task for task in self._known(self.scope) if task.name not in tried and not self.parts.answer(task)
        ]:
            tried.update(task.name for task in left)
            self._work(left)
        return self._report()

    def _known(self, scope: Scope) -> list[Task]:
        """All tasks that can be named by now."""
        tasks: list[Task] = []
        while True:
            more = self.study.tasks(scope, self.parts.rows(tasks))
            keys = [task.key for task in more]
            if len(set(keys)) < len(keys):
                raise ValueError(f"two tasks of {self.study.name} have the same key")
            if keys == [task.key for task in tasks]:
                return more
            tasks = more

    def _work(self, tasks: Sequence[Task]) -> None:
        workers = 1 if self.study.timed else min(self.jobs, len(tasks))
        threads = max(1, _cores() // workers)
        with (
            showing(self.study.name, len(tasks), "tasks") as progress,
            closing(answers(tasks, workers, threads, self.parts.log)) as coming,
        ):
            for task, answer in coming:
                self._note(task, answer)
                progress.advance()

    def _note(self, task: Task, answer: Answer) -> None:
        if answer.counts:
            self.parts.keep(task, answer)
        else:
            (self.skipped if answer.ended == "skipped" else self.failed)[task.name] = answer.reason

    def _report(self) -> Report:
        """Write the CSV file and the figures from the results on disk: all sets, not only those of this run."""
        everything = replace(self.scope, sets=(), repeats=None)
        scopes = (everything, replace(everything, repeats=self.scope.repeats))  # more repetitions than usual, too
        tasks = {task.name: task for scope in scopes for task in self._known(scope)}.values()
        known = {task.name: answer for task in tasks if (answer := self.parts.answer(task))}
        rows = [row for answer in known.values() for row in answer.rows]
        report = self._empty()
        report.seconds = sum(answer.seconds for answer in known.values())
        report.limited = {name: answer.reason for name, answer in known.items() if answer.ended == "limit"}
        report.left = sum(task.name not in {*known, *self.skipped, *self.failed} for task in tasks)
        if rows:
            report.csv = self.parts.write_csv(self.study.name, rows)
            report.outcome = self.study.outcome(rows, everything)
            for name, figure, _ in report.outcome.figures:
                save(figure, self.parts.out / name)
        return report

    def _empty(self) -> Report:
        return Report(self.study, None, self.skipped, self.failed, 0.0, None)

    def _blame(self, error: Exception) -> None:
        """Report an error of the experiment itself, not of one of its tasks."""
        self.failed[self.study.name] = f"{type(error).__name__}: {error}"
        with self.parts.log.open("a", encoding="utf-8") as log:
            print(f"--- {self.study.name}", file=log)
            traceback.print_exc(file=log)
        print(f"{self.study.name} failed: {type(error).__name__}: {error}", file=sys.stderr)


def _cores() -> int:
    """As many as there are, or as many as OMP_NUM_THREADS grants."""
    there = os.cpu_count() or 1
    granted = os.environ.get("OMP_NUM_THREADS", "")
    return min(there, int(granted)) if granted.isdigit() and int(granted) else there
