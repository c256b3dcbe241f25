"""Scripts in child processes: signals and faults go there, never to the process that runs the tests.

Children are forked from a server that has imported levelprox, so that one starts in milliseconds. A forked child
runs the kernels on one thread; a test of threads needs `subprocess`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import textwrap
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["levelprox", "levelprox.estimators", "tests.support.children"])
_LIMIT = 100.0  # seconds until a child is killed, in any case

#: Processor time of children that ended, in seconds. The fork server reaps them, so getrusage does not count them.
processor_time = 0.0


@dataclass(frozen=True)
class Ended:
    """Exit code, standard output and standard error of a child."""

    returncode: int
    stdout: str
    stderr: str


class Child:
    """A Python script in a child process, killed when the `with` block or its time is over.

    Parameters
    ----------
    script : str
        Source code; it is dedented.
    argv : str
        What the script finds in ``sys.argv[1:]``.
    cwd : path-like, optional
        Working directory.
    limit : float
        Seconds after which the child is killed.
    """

    def __init__(self, script: str, *argv: object, cwd: os.PathLike[str] | str = ".", limit: float = _LIMIT) -> None:
        ours, theirs = os.pipe()
        self._err = tempfile.TemporaryFile()  # noqa: SIM115  # closed in __exit__
        self._seconds, seconds = _SERVER.Pipe(duplex=False)
        with Connection(theirs, readable=False) as out, Connection(os.dup(self._err.fileno())) as err, seconds:
            arguments = (textwrap.dedent(script), [str(one) for one in argv], os.path.abspath(cwd), out, err, seconds)
            self._process = _SERVER.Process(target=_run, args=arguments, daemon=True)
            self._process.start()
        self.stdout = os.fdopen(ours, encoding="utf-8")
        self._used = 0.0
        self._watch = threading.Timer(limit, self._process.kill)
        self._watch.daemon = True
        self._watch.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.is_alive()

    def line(self) -> str:
        """Return the next line of standard output without its end, "" once the child has ended."""
        return self.stdout.readline().rstrip("\n")

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def cpu(self) -> float:
        """Return the processor time used so far, in seconds."""
        return cpu_of(self.pid)

    def work(self, seconds: float) -> None:
        """Wait until the child has used so much more processor time: that it is at work does not depend on the load."""
        end = self.cpu() + seconds
        while self._process.is_alive() and self.cpu() < end:
            time.sleep(0.01)

    def interrupt(self) -> float:
        """Send Ctrl-C; return the processor time until the script printed its ``time.process_time()``, in seconds."""
        before = self.cpu()
        self.send_signal(signal.SIGINT)
        return float(self.line()) - before

    def wait(self) -> int:
        """Wait for the end; return the exit code, minus the signal's number where one ended it."""
        self._process.join()
        return self._process.exitcode

    def stderr(self) -> str:
        """Return what is on standard error so far."""
        return os.pread(self._err.fileno(), 2**20, 0).decode()

    def ended(self) -> Ended:
        """Wait for the end, and return everything that was printed and not read."""
        out = self.stdout.read()
        return Ended(self.wait(), out, self.stderr())

    def seconds(self) -> float:
        """Return the processor time that the child took, at its end."""
        self._process.join()
        with contextlib.suppress(EOFError):  # it was killed
            self._used = self._seconds.recv()
        return self._used

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        global processor_time
        self._watch.cancel()
        if self._process.is_alive():
            self._used = self.cpu()
            self._process.kill()
        processor_time += self.seconds()
        self._process.close()
        self._seconds.close()
        self.stdout.close()
        self._err.close()


def run(script: str, *argv: object, **options: object) -> Ended:
    """Run a script in a child to its end; parameters as of `Child`."""
    with Child(script, *argv, **options) as child:
        return child.ended()


def cpu_of(pid: int) -> float:
    """Return the processor time of a running process in seconds, 0 once it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _run(script: str, argv: list[str], cwd: str, out: Connection, err: Connection, seconds: Connection) -> None:
    """What the child does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(cwd)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    out.close()
    err.close()
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    sys.argv = ["-c", *argv]
    try:
        exec(compile(script, "<script>", "exec"), {"__name__": "__main__"})
    finally:
        sys.stdout.flush()
        seconds.send(time.process_time())
