"""An experiment: its tasks, and what follows from their rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from matplotlib.figure import Figure

from experiments.datasets import Places
from experiments.reproduce.task import Row, Task


@dataclass(frozen=True)
class Scope:
    """Scope of a run of the experiments.

    Attributes
    ----------
    places : Places
        Locations of the data.
    quick : bool
        Small settings: all of them in ten minutes on two cores.
    sets : tuple of str
        The data sets to use; all of them by default.
    repeats : int, optional
        Repetitions, where an experiment has any; by default its own number.
    """

    places: Places
    quick: bool = False
    sets: tuple[str, ...] = ()
    repeats: int | None = None


@dataclass(frozen=True)
class Table:
    """Figures in rows, for print and page."""

    caption: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


@dataclass(frozen=True)
class Claim:
    """What the paper says, what was found, and the sentence on the difference.

    Attributes
    ----------
    paper, ours : str
    holds : bool or None
        None if the data do not decide.
    remark : str
        Why it differs, or in what the comparison is not the paper's.
    """

    paper: str
    ours: str
    holds: bool | None
    remark: str = ""


@dataclass
class Outcome:
    """What an experiment amounts to.

    Attributes
    ----------
    summary : str
        What was done, for the page.
    paper : str
        Where in the paper, and what it shows there.
    tables : list of Table
    figures : list of (file name, Figure, what it shows)
    claims : list of Claim
    notes : list of str
        Sentences on every difference from the paper.
    """

    summary: str
    paper: str
    tables: list[Table] = field(default_factory=list)
    figures: list[tuple[str, Figure, str]] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Study(ABC):
    """One figure or table of the paper.

    `tasks` is called again with the rows so far, until all of its tasks have results: later tasks may depend
    on the rows of earlier ones.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    #: Whether seconds are compared: then one task at a time has the machine to itself.
    timed: ClassVar[bool] = False

    @abstractmethod
    def tasks(self, scope: Scope, rows: Sequence[Row]) -> list[Task]:
        """Return the tasks to run, given the rows so far."""

    @abstractmethod
    def outcome(self, rows: Sequence[Row], scope: Scope) -> Outcome:
        """Tables, figures and verdicts from the rows alone."""


@dataclass
class Report:
    """A study that was run, for the page and the summary.

    Attributes
    ----------
    study : Study
    outcome : Outcome or None
        None where no task has an answer.
    skipped, failed : dict
        Names of tasks without an answer, and why.
    seconds : float
        Time all tasks took, those of earlier runs included.
    csv : Path or None
    limited : dict
        Names of tasks that a limit of time or memory ended, whose rows until then count, and which limit.
    left : int
        Tasks that are not part of this run and have no result yet.
    """

    study: Study
    outcome: Outcome | None
    skipped: dict[str, str]
    failed: dict[str, str]
    seconds: float
    csv: Path | None
    limited: dict[str, str] = field(default_factory=dict)
    left: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return self.outcome is None and not self.skipped and not self.failed
