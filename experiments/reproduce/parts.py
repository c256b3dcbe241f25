"""Results on disk: one complete file for each finished task, so that a killed run can resume.

OUT/parts/<study>/<key>.json    arguments, rows and seconds of one task
OUT/<study>.csv                 the rows of all tasks of a study, written again for every report
OUT/log.txt                     what tasks printed, and where those that failed did so
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from experiments.reproduce.task import Answer, Row, Task
from levelprox.io import atomic


class FolderError(Exception):
    """Results cannot be written where they should, and why."""


class Parts:
    """The answers in a folder.

    Parameters
    ----------
    out : Path
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.log = out / "log.txt"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder, and let no other run into it meanwhile."""
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            lock = (self.out / ".lock").open("wb")
        except OSError as error:
            raise FolderError(f"{self.out} cannot be written to: {error.strerror or error}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise FolderError(f"another run uses {self.out}; `--out DIR` chooses another folder") from error
            yield

    def has(self, study: str) -> bool:
        """Whether a run has left anything of that experiment."""
        return (self.out / "parts" / study).is_dir()

    def answer(self, task: Task) -> Answer | None:
        """Return the stored result of this task, if there is one."""
        try:
            stored = json.loads(self._place(task).read_text(encoding="utf-8"))
            if stored["asked"] != _asked(task):
                return None
            return Answer(list(stored["rows"]), float(stored["seconds"]), stored["ended"], stored["reason"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):  # missing, or written by another program
            return None

    def keep(self, task: Task, answer: Answer) -> None:
        """Store an answer that counts."""
        place = self._place(task)
        place.parent.mkdir(parents=True, exist_ok=True)
        stored = {
            "asked": _asked(task),
            "ended": answer.ended,
            "reason": answer.reason,
            "seconds": answer.seconds,
            "rows": answer.rows,
        }
        atomic.write(place, [json.dumps(stored, indent=0).encode()])

    def rows(self, tasks: Iterable[Task]) -> list[Row]:
        """Return the rows of the tasks with a result."""
        return [row for task in tasks if (answer := self.answer(task)) for row in answer.rows]

    def write_csv(self, name: str, rows: Sequence[Row]) -> Path:
        """All rows, under all names that any of them has."""
        columns = list(dict.fromkeys(column for row in rows for column in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{name}.csv"
        atomic.write(path, [text.getvalue().encode()])
        return path

    def _place(self, task: Task) -> Path:
        words = re.sub(r"[^A-Za-z0-9.=-]+", "_", "-".join(task.key))
        # The answer to another question (other rows, a stand-in for an original) must not take this one's place.
        digest = hashlib.sha256("\0".join([*task.key, _asked(task)]).encode()).hexdigest()[:12]
        return self.out / "parts" / task.study / f"{words[:80]}-{digest}.json"


def _asked(task: Task) -> str:
    """Return the identity of a task as text, in which NaN equals NaN, and tuples equal lists."""
    asked = {"function": task.function, "arguments": task.arguments, "limit": task.limit, "memory": task.memory}
    return json.dumps(asked, sort_keys=True)
