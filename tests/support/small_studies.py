"""Small experiments, each with its trouble: `python -m tests.support.small_studies reproduce NAME...` runs them.

Imports nothing heavy at the top: what does the tasks imports this file again.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.reproduce.task import SkippedError, Task

if TYPE_CHECKING:
    from experiments.reproduce.study import Study


def rows(values: list[Any], note: str = "") -> Iterator[dict[str, Any]]:
    if note:
        with Path(note).open("a") as file:
            print(os.getpid(), *values, file=file)
    for value in values:
        yield {"value": value}


def threads() -> Iterator[dict[str, Any]]:
    import resource

    import numpy as np

    memory = resource.getrlimit(resource.RLIMIT_AS)[0]
    threads = os.environ["OMP_NUM_THREADS"]
    yield {"pid": np.int64(os.getpid()), "threads": threads, "share": np.float32(0.5), "memory": memory}


def hangs(note: str = "", every: float = 60.0) -> Iterator[dict[str, Any]]:
    if note:
        Path(note, str(os.getpid())).touch()
    for value in range(1_000_000):
        yield {"value": value}
        if every:
            time.sleep(every)


def ends(how: str) -> Iterator[dict[str, Any]]:
    yield {"value": 0}
    if how == "raises":
        raise ArithmeticError("one over zero")
    if how == "skips":
        raise SkippedError("no such program here")
    if how == "exits":
        os._exit(7)
    if how == "exits python":
        sys.exit("goodbye")
    if how == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "aborts":
        os.abort()
    if how == "object":
        yield {"value": object()}
    if how == "memory":
        yield {"value": len(bytearray(2**34))}
    if how == "data":
        from experiments.datasets import DataError

        raise DataError("no folder of data")
    if how == "package":
        from experiments.competitors.base import MissingError

        raise MissingError("no licence: get one")


def task(function: str, *key: str, limit: float | None = None, memory: float | None = None, **arguments: Any) -> Task:
    return Task("small", key or (function,), f"tests.support.small_studies:{function}", arguments, limit, memory)


def studies() -> dict[str, Study]:
    """An experiment of the tasks that a file names, and one without any."""
    import json

    from experiments.reproduce.study import Claim, Outcome, Scope, Study, Table
    from experiments.results import panels

    class Small(Study):
        name, title = "small", "A small <experiment>"

        def tasks(self, scope: Scope, rows: Any) -> list[Task]:
            return [Task("small", tuple(key), *rest) for key, *rest in json.loads(os.environ["SMALL_TASKS"])]

        def outcome(self, rows: Any, scope: Scope) -> Outcome:
            figure, axes = panels(1, 1)
            axes[0, 0].plot([row.get("value", 0) for row in rows])
            values = Table("Values & more", ("value",), [(str(row.get("value")),) for row in rows])
            claim = Claim("it is <b>3</b>", f"{len(rows)} rows", len(rows) >= 3, "counted")
            return Outcome("done here", "shown there", [values], [("small.png", figure, "a line")], [claim], ["none"])

    class Broken(Study):
        name, title = "broken", "An experiment that cannot be drawn"

        def tasks(self, scope: Scope, rows: Any) -> list[Task]:
            return [Task("broken", ("one",), "tests.support.small_studies:rows", {"values": [1]})]

        def outcome(self, rows: Any, scope: Scope) -> Outcome:
            raise ZeroDivisionError("nothing to draw")

    return {"small": Small(), "broken": Broken()}


if __name__ == "__main__":
    from experiments.__main__ import main

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job would inherit "ignore"
    sys.exit(main(studies=studies))
