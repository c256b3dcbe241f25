"""What is known on disk: one file for each finished task, whole or not at all, so that a killed run goes on.

OUT/parts/<study>/<key>.json    arguments, rows and seconds of one task
OUT/<study>.csv                 the rows of all tasks of a study, put together anew whenever it is looked at
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from experiments.reproduce.task import Answer, Row, Task
from levelprox.io import atomic


class Parts:
    """The answers in a folder.

    Parameters
    ----------
    out : Path
    """

    def __init__(self, out: Path) -> None:
        self.out = out

    def answer(self, task: Task) -> Answer | None:
        """The stored answer to exactly this task, if there is one."""
        try:
            stored = json.loads(self._place(task).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        if stored.get("asked") != _asked(task):
            return None
        return Answer(stored["rows"], stored["seconds"], stored["ended"], stored["reason"])

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
        """The rows of those tasks that have an answer."""
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
        digest = hashlib.sha256("\0".join(task.key).encode()).hexdigest()[:8]  # keys that differ in odd letters alone
        return self.out / "parts" / task.study / f"{words[:80]}-{digest}.json"


def _asked(task: Task) -> Row:
    """What an answer must be an answer to; by way of JSON, which knows no tuples."""
    asked: Row = json.loads(json.dumps({"function": task.function, "arguments": task.arguments, "limit": task.limit}))
    return asked
