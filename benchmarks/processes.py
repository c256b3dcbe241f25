"""One competitor in its own process, under a wall-clock limit.

The parent writes a request and reads the answers:

    request.json     {"peer", "data", "fits": [{...}, ...], "repeat_s", "most_repeats", "cold"}
    answer-I.npy     the coefficients of fit I, the intercept last where one is fitted
    answer-I.json    {"status": "ok" | "refused" | "not installed" | "error", "seconds": [...], "note", ...}, last

The limit is for each fit: the clock starts again when an answer arrives. A process that exceeds it is killed with its
children; the current fit is a `timeout`, and the remaining fits run in a new process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ask = dict[str, Any]
ONE_THREAD = {
    **dict.fromkeys(
        (
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "MKL_NUM_THREADS",
            "NUMBA_NUM_THREADS",
            "BLIS_NUM_THREADS",
            "VECLIB_MAXIMUM_THREADS",
            "NUMEXPR_NUM_THREADS",
            "RAYON_NUM_THREADS",
        ),
        "1",
    ),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_X64": "1",
    "PYTHONWARNINGS": "ignore",
}
LOOK_EVERY = 0.01  # seconds between checks for an answer
START_UP = 120.0  # seconds a process may take to import, read its data and compile, in addition to the limit of a fit


@dataclass(frozen=True)
class Answer:
    """What came of one fit."""

    status: str  #: "ok", "refused", "not installed", "error" or "timeout"
    coefficients: NDArray[np.float64] | None = None
    seconds: list[float] = field(default_factory=list)  #: of each repetition; a timeout counts as its limit
    note: str = ""
    version: str = ""
    extra: dict[str, Any] = field(default_factory=dict)  #: further figures of the peer: passes, bytes, cold seconds


def run(
    peer: str,
    place: Path,
    fits: list[Ask],
    limit: float = 300.0,
    repeat_s: float = 1.0,
    most_repeats: int = 5,
    cold: bool = False,
    command: list[str] | None = None,
) -> Generator[Answer]:
    """Yield the answers of a competitor to a list of fits.

    If later fits depend on earlier ones ("warm_start"), the fits after a timeout or a crash are not run: they have the
    same status.
    """
    done = 0
    while done < len(fits):
        with tempfile.TemporaryDirectory(prefix="levelprox-bench-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            request = {
                "peer": peer,
                "data": str(place),
                "fits": fits[done:],
                "repeat_s": repeat_s,
                "most_repeats": most_repeats,
                "cold": cold,
            }
            (folder / "request.json").write_text(json.dumps(request))
            with closing(_answers(folder, len(fits) - done, limit, command)) as stream:
                for answer in stream:
                    yield answer
                    done += 1
                    failed = answer.status in ("timeout", "error")
                    if failed and done < len(fits) and fits[done].get("warm_start"):
                        note = f"not run, no start: a fit before it ended in {answer.status}"
                        yield from [replace(answer, note=note) for _ in fits[done:]]
                        return


def _answers(folder: Path, count: int, limit: float, command: list[str] | None) -> Generator[Answer]:
    """Answers of one process, up to the one at which it failed."""
    environment = {**os.environ, **ONE_THREAD, "LEVELPROX_BENCH_BEGAN": repr(time.monotonic())}
    root = str(Path(__file__).resolve().parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            [*(command or [sys.executable, "-m", "benchmarks.child"]), str(folder)],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        for index in range(count):
            answer = _wait_for(folder, index, process, limit)
            yield answer
            if answer.status == "timeout" or (answer.status == "error" and process.poll() is not None):
                return
    finally:
        _kill(process)


def _wait_for(folder: Path, index: int, process: subprocess.Popen[bytes], limit: float) -> Answer:
    """Return the next answer, or how the process ended."""
    ready = folder / "ready"
    deadline = time.monotonic() + limit + START_UP
    counts = False  # whether the clock of the fit runs: once data are read and code is compiled
    while True:
        ended = process.poll() is not None
        if (folder / f"answer-{index}.json").exists():
            return _read(folder, index)
        if ended:
            tail = (folder / "output.txt").read_text(errors="replace").strip().splitlines()[-1:]
            return Answer("error", note=f"process ended with {process.returncode}: {' '.join(tail)}"[:300])
        if not counts and (index or ready.exists()):
            deadline, counts = time.monotonic() + limit, True
        if time.monotonic() > deadline:
            return Answer("timeout", seconds=[limit], note=f"killed after {limit:g} s")
        time.sleep(LOOK_EVERY)


def _read(folder: Path, index: int) -> Answer:
    """Read an answer; an unreadable one has the status "error"."""
    try:
        told = json.loads((folder / f"answer-{index}.json").read_text())
        file = folder / f"answer-{index}.npy"
        coefficients = np.asarray(np.load(file, allow_pickle=False), np.float64) if told["status"] == "ok" else None
        return Answer(
            str(told["status"]),
            coefficients,
            [float(second) for second in told.get("seconds", [])],
            str(told.get("note", "")),
            str(told.get("version", "")),
            dict(told.get("extra", {})),
        )
    except (ValueError, KeyError, TypeError, OSError, EOFError) as error:
        return Answer("error", note=f"unreadable answer: {type(error).__name__}: {error}"[:300])


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and all that it started; they share a session of their own."""
    for _ in range(2):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            break
        process.wait()
