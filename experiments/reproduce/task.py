"""One task of an experiment: its name, its arguments, and its rows.

A task is a function at the top level of a module, called by name in a process of its own, with arguments that JSON can
hold. It yields rows as it finds them, so that what it found before a limit of time ended it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

Row = dict[str, Any]


class SkippedError(Exception):
    """A task that cannot be done here, and why: a program, a licence or data are missing."""


@dataclass(frozen=True)
class Task:
    """What to run.

    Attributes
    ----------
    study : str
        The experiment it belongs to.
    key : tuple of str
        Its name within the experiment.
    function : str
        "module:name" of a generator function of rows.
    arguments : dict
        What to call it with. A stored answer to other arguments is not this task's.
    limit : float, optional
        Seconds, from when all it needs is imported, after which it is ended; its rows until then count.
    memory : float, optional
        GiB of address space it may take; where it gets no more of it, it is ended, and its rows until then count.
    """

    study: str
    key: tuple[str, ...]
    function: str
    arguments: dict[str, Any] = field(default_factory=dict)
    limit: float | None = None
    memory: float | None = None

    @property
    def name(self) -> str:
        """Return the name for messages."""
        return f"{self.study} {' '.join(self.key)}"

    def rows(self) -> Iterator[Row]:
        """Run it here."""
        module, _, name = self.function.partition(":")
        function: Callable[..., Iterator[Row]] = getattr(import_module(module), name)
        return function(**self.arguments)


@dataclass(frozen=True)
class Answer:
    """What came of a task.

    Attributes
    ----------
    rows : list of dict
    seconds : float
    ended : str
        "done", "limit" (of time or memory), "skipped" or "failed".
    reason : str
        Why it was not done.
    """

    rows: list[Row]
    seconds: float
    ended: str = "done"
    reason: str = ""

    @property
    def counts(self) -> bool:
        """Whether the rows are an answer; if not the task is tried again next time."""
        return self.ended in ("done", "limit")
