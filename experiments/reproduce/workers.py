"""Processes that do tasks, one after another each; a task can be ended without harm to the others.

A process keeps what it has loaded for the next task, dies with the program that started it, and is replaced when it was
ended or died.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait

from experiments.reproduce.task import Answer, Row, SkippedError, Task

_GIB = 2**30
_PATIENCE = 5.0  # seconds for a process to obey


def answers(tasks: Sequence[Task], workers: int, threads: int) -> Iterator[tuple[Task, Answer]]:
    """Do all tasks, so many at a time; answers as they come.

    Parameters
    ----------
    tasks : sequence of Task
    workers : int
        Processes at work at a time.
    threads : int
        How many threads each may use.
    """
    waiting = list(reversed(tasks))
    crew = [_Worker(threads) for _ in range(min(workers, len(tasks)))]
    try:
        while waiting or any(worker.task for worker in crew):
            for worker in crew:
                if worker.task is None and waiting:
                    worker.give(waiting.pop())
            wait([worker.pipe for worker in crew if worker.task], timeout=min(w.left for w in crew if w.task))
            for worker in crew:
                if worker.task and (answer := worker.hear()):
                    yield worker.release(), answer
    finally:
        for worker in crew:
            worker.end()


@dataclass
class _Worker:
    """One process, seen from outside."""

    threads: int
    task: Task | None = None
    found: list[Row] = field(default_factory=list)
    began: float = 0.0

    def __post_init__(self) -> None:
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # a forked child must not use OpenMP
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, self.threads, os.getpid()), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, task: Task) -> None:
        if not self.process.is_alive():
            self._start()
        self.task, self.found, self.began = task, [], time.monotonic()
        self.pipe.send(task)

    def release(self) -> Task:
        task, self.task = self.task, None
        assert task is not None
        if task.memory is not None:
            self.end()  # a limit of memory cannot be taken back
        return task

    @property
    def left(self) -> float:
        """Seconds until its task must end."""
        assert self.task is not None
        limit = 3600.0 if self.task.limit is None else self.task.limit
        return max(0.0, self.began + limit - time.monotonic())

    def hear(self) -> Answer | None:
        """Take the rows that have come; the answer, if that was all."""
        assert self.task is not None
        try:
            while self.pipe.poll():
                kind, content = self.pipe.recv()
                if kind == "row":
                    self.found.append(content)
                else:
                    return self._answer(kind, content)
        except (EOFError, ConnectionError):
            self.process.join(_PATIENCE)
            code = self.process.exitcode
            died = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with status {code}"
            return self._answer("failed", f"the process ended {died}" + (" (memory?)" if self.task.memory else ""))
        if self.task.limit is not None and self.left <= 0:
            self.end()
            return self._answer("limit", f"ended after {self.task.limit:g} s")
        return None

    def _answer(self, ended: str, reason: str) -> Answer:
        return Answer(self.found, time.monotonic() - self.began, ended, reason)

    def end(self) -> None:
        """Stop the process, obedient or not."""
        self.process.terminate()
        self.process.join(_PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def _serve(pipe: Connection, threads: int, parent: int) -> None:
    """Do tasks as they come, until nobody sends any."""
    from threadpoolctl import threadpool_limits

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    with threadpool_limits(threads):
        while os.getppid() == parent:
            try:
                task: Task = pipe.recv()
            except (EOFError, ConnectionError):
                return
            if task.memory is not None:
                resource.setrlimit(resource.RLIMIT_AS, (int(task.memory * _GIB),) * 2)
            try:
                for row in task.rows():
                    pipe.send(("row", row))
                pipe.send(("done", ""))
            except SkippedError as why:
                pipe.send(("skipped", str(why)))
            except Exception as error:
                traceback.print_exc()
                pipe.send(("failed", f"{type(error).__name__}: {error}"))
