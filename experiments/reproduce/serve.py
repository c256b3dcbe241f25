"""A process that does tasks: `python -m experiments.reproduce.serve DESCRIPTOR PARENT`, started by `Worker` alone.

It receives tasks over a pipe and sends their results:

    begun               the clock starts: what the task needs has been imported
    row, text           one row, in JSON
    done | limit | skipped | failed, reason
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from experiments.reproduce.task import Task

_GIB = 2**30
_REASONS_TO_SKIP = {
    ("experiments.reproduce.task", "SkippedError"),
    ("experiments.datasets.errors", "DataError"),
    ("experiments.competitors.base", "MissingError"),
}
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def serve(pipe: Connection) -> None:
    """Run tasks until the pipe is closed."""
    while True:
        try:
            task: Task = pipe.recv()
        except (EOFError, ConnectionError):
            return
        pipe.send(_end(task, pipe))


def _end(task: Task, pipe: Connection) -> tuple[str, str]:
    """Do it and send its rows; how that ended, and why."""
    try:
        _do(task, pipe)
    except MemoryError as error:
        if task.memory is None:
            return _failure(task, error)
        return "limit", f"ran out of its {task.memory:g} GiB of memory"
    except Exception as error:
        return ("skipped", str(error)) if _is_reason_to_skip(error) else _failure(task, error)
    return "done", ""


def _do(task: Task, pipe: Connection) -> None:
    rows = task.rows()
    if task.memory is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = int(task.memory * _GIB)
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    pipe.send(("begun", ""))
    for row in rows:
        pipe.send(("row", json.dumps(row, default=_plain)))


def _plain(value: Any) -> Any:
    """Convert a NumPy number to a Python number."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"a row has a {type(value).__name__}, which JSON cannot hold")


def _failure(task: Task, error: Exception) -> tuple[str, str]:
    print(f"--- {task.name}", file=sys.stderr)
    traceback.print_exc()
    sys.stderr.flush()
    return "failed", f"{type(error).__name__}: {error}"


def _is_reason_to_skip(error: Exception) -> bool:
    # By name: importing what raises these takes seconds, and a task that raises another has not done so.
    return any((one.__module__, one.__name__) in _REASONS_TO_SKIP for one in type(error).__mro__)


def _die_with(parent: int) -> None:
    """Have this process killed when its parent ends."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:  # already
        os._exit(1)


if __name__ == "__main__":
    _die_with(int(sys.argv[2]))
    serve(Connection(int(sys.argv[1])))
