"""Processes that do tasks, one after another each; a task can be ended without harm to the others.

A process keeps what it has loaded for the next task, dies with the program that started it, and is replaced when it was
ended or died. What tasks print goes to a file: the terminal has a progress bar.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path

from experiments.reproduce.task import Answer, Row, Task

_PATIENCE = 5.0  # seconds for a process that has closed its pipe to end
_START_UP = 120.0  # seconds to begin and import, which do not count to a limit
_ROOT = Path(__file__).resolve().parents[2]
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")


def answers(tasks: Sequence[Task], workers: int, threads: int, log: Path) -> Generator[tuple[Task, Answer]]:
    """Do all tasks, so many at a time; answers as they come. Close it to end what is at work.

    Parameters
    ----------
    tasks : sequence of Task
    workers : int
        Processes at work at a time.
    threads : int
        How many threads each may use.
    log : Path
        Where what they print is appended.
    """
    waiting = list(reversed(tasks))
    crew = [Worker(threads, log) for _ in range(min(workers, len(tasks)))]
    with _signals() as signals:
        try:
            while waiting or any(worker.task for worker in crew):
                for worker in crew:
                    if worker.task is None and waiting:
                        worker.give(waiting.pop())
                busy = [worker for worker in crew if worker.task]
                limits = [left for worker in busy if (left := worker.left) is not None]
                wait([*(worker.pipe for worker in busy), *signals], timeout=min(limits, default=None))
                for one in signals:
                    with suppress(BlockingIOError):
                        os.read(one, 4096)
                for worker in busy:
                    if answer := worker.hear():
                        yield worker.release(), answer
        finally:
            for worker in crew:
                worker.end()


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Descriptors that become readable when a signal comes, so that one just before a wait is not slept through."""
    if threading.current_thread() is not threading.main_thread():
        yield []  # signals are the main thread's
        return
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield [reader]
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)


class Worker:
    """One process, seen from outside.

    Parameters
    ----------
    threads, log
        As in `answers`.

    Attributes
    ----------
    task : Task or None
        What it is at.
    pipe : Connection
        Where it is heard; there once it was given a task.
    """

    pipe: Connection

    def __init__(self, threads: int, log: Path) -> None:
        self.threads, self.log = threads, log
        self.task: Task | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._found: list[Row] = []
        self._began, self._begun = 0.0, False

    def give(self, task: Task) -> None:
        """Have it do a task; it must have none."""
        if task.memory is not None:
            self.end()  # what earlier tasks have left in memory would count
        self.task, self._found, self._began, self._begun = task, [], time.monotonic(), False
        if self._process is not None:
            try:
                self.pipe.send(task)
            except ConnectionError:  # it died while it had nothing to do
                self.end()
        if self._process is None:
            self._start()
            with suppress(ConnectionError):  # it died at once: to be heard of next
                self.pipe.send(task)

    def _start(self) -> None:
        self.pipe, theirs = Pipe()
        paths = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            **dict.fromkeys(_THREADS, str(self.threads)),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        command = [sys.executable, "-m", "experiments.reproduce.serve", str(theirs.fileno()), str(os.getpid())]
        with self.log.open("ab") as log, theirs:
            self._process = subprocess.Popen(
                command,
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,  # Ctrl-C is the parent's business, and what it starts is ended with it
            )

    def release(self) -> Task:
        """Its task, which it has no longer."""
        task, self.task = self.task, None
        assert task is not None
        if task.memory is not None:
            self.end()  # the limit would hold for what comes next
        return task

    @property
    def left(self) -> float | None:
        """Seconds until its task must end; None if there is no hurry."""
        assert self.task is not None
        if self.task.limit is None:
            return None
        return max(0.0, self._began + self.task.limit + (not self._begun) * _START_UP - time.monotonic())

    def hear(self) -> Answer | None:
        """Take what has come; the answer, if that was all."""
        try:
            while self.pipe.poll():
                if answer := self._take():
                    return answer
                if self.left == 0:  # one that never ends to send rows must not keep this from being seen
                    break
        except (EOFError, OSError):
            return self._death()
        return self._cut() if self.left == 0 else None

    def _take(self) -> Answer | None:
        """One message."""
        kind, content = self.pipe.recv()
        if kind == "begun":
            self._began, self._begun = time.monotonic(), True
        elif kind == "row":
            self._found.append(json.loads(content))
        else:
            return self._answer(kind, content)
        return None

    def _cut(self) -> Answer:
        """End a task whose time is over; rows that are on their way still count."""
        assert self.task is not None
        answer = self._answer("limit", f"ended after {self.task.limit:g} s")
        self._kill()
        with suppress(EOFError, OSError):
            while True:
                self._take()
        self.end()
        return answer

    def _answer(self, ended: str, reason: str) -> Answer:
        return Answer(self._found, time.monotonic() - self._began, ended, reason)

    def _death(self) -> Answer:
        """Return how a process ended."""
        assert self._process is not None and self.task is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        code = self._process.poll()
        self.end()
        if code is None:
            return self._answer("failed", "the process hung")
        if code >= 0:
            return self._answer("failed", f"the process ended with status {code}")
        died = f"the process was ended by {signal.Signals(-code).name}"
        if self.task.memory is not None:
            # Compiled solvers abort when they get no memory: that is the limit, and would happen again.
            ended = "limit" if -code in (signal.SIGABRT, signal.SIGSEGV) else "failed"
            return self._answer(ended, f"{died}, with {self.task.memory:g} GiB of memory")
        return self._answer("failed", died + " (the machine may be out of memory)" * (-code == signal.SIGKILL))

    def end(self) -> None:
        """Stop the process at once, and those that it has started."""
        if self._process is not None:
            self._kill()
            self._process = None
            self.pipe.close()

    def _kill(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
