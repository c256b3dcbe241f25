"""Time and memory of reading LIBSVM files, against scikit-learn's load_svmlight_file.

    python benchmarks/libsvm.py [--megabytes 100] [--repeats 3] [--memory 1000]

Files are generated: 20 to 120 entries a row, with six digits, with all digits of a float64, or ones. Each figure is the
median of several runs, taking turns. Memory is the peak of a process of its own that reads one file of `--memory`
megabytes, over that of the arrays that come back: data, indices, indptr and y. Then `levelprox fit` runs on the same
file, and its whole peak, Python and its modules included, is compared with these arrays.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from levelprox.io import read_libsvm

KINDS: dict[str, Callable[[float], str]] = {
    "six digits": "{:.6g}".format,
    "all digits": repr,
    "ones": lambda value: "1",
}
FASTER, PEAK = 5, 1.6  # the bars


def generate(path: Path, kind: str, megabytes: float) -> None:
    """6000 different rows, over and over; a fifth of their entries are in columns that the label depends on."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(100_001) * (np.arange(100_001) < 1000)
    lines = []
    for _ in range(6000):
        columns = np.unique(np.r_[rng.choice(1000, 14), rng.choice(100_000, rng.integers(10, 100))]) + 1
        values = rng.standard_normal(columns.size)
        label = "+1" if weights[columns] @ (values if kind != "ones" else np.ones(columns.size)) > 0 else "-1"
        words = map(KINDS[kind], values.tolist())
        pairs = " ".join(f"{column}:{word}" for column, word in zip(columns, words, strict=True))
        lines.append(f"{label} {pairs}\n")
    block = "".join(lines).encode("ascii")
    with open(path, "wb") as file:
        while file.tell() < 1e6 * megabytes:
            file.write(block)


def seconds(job: Callable[[], object]) -> float:
    """How long it takes."""
    begin = time.perf_counter()
    job()
    return time.perf_counter() - begin


def compare(path: Path, repeats: int) -> tuple[float, float]:
    """Median seconds of both readers, which must read the same bits."""
    (X, y), (other, labels) = read_libsvm(path), load_svmlight_file(str(path))
    assert X.data.tobytes() == other.data.tobytes() and np.array_equal(y, labels)
    assert np.array_equal(X.indices, other.indices) and np.array_equal(X.indptr, other.indptr)
    del X, other
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(seconds(lambda: read_libsvm(path)))
        theirs.append(seconds(lambda: load_svmlight_file(str(path))))
    return statistics.median(ours), statistics.median(theirs)


def peak_memory() -> int:
    """Return the most bytes this process ever had in memory."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def read_alone(path: str) -> None:
    """Measure one reading in its own process."""
    before = peak_memory()
    X, y = read_libsvm(path)
    after = peak_memory()
    csr = sum(array.nbytes for array in (X.data, X.indices, X.indptr, y))
    print(
        f"CSR {csr / 1e6:.0f} MB; peak {after / 1e6:.0f} MB = {after / csr:.2f} CSR, "
        f"{(after - before) / csr:.2f} CSR without the {before / 1e6:.0f} MB of Python and its modules"
    )
    if after - before > PEAK * csr:
        sys.exit("a limit was missed")


def fit_alone(path: Path) -> None:
    """Measure the peak memory of `levelprox fit` on a file relative to its matrix."""
    with subprocess.Popen(
        [sys.executable, "-m", "levelprox", "fit", path, "--json", "--quiet"], stdout=subprocess.PIPE
    ) as fit:
        told, (_, status, used) = json.load(fit.stdout), os.wait4(fit.pid, 0)
        fit.returncode = os.waitstatus_to_exitcode(status)
    n, entries = told["data"]["n_samples"], told["data"]["n_nonzero"]
    csr = 12 * entries + 4 * (n + 1) + 8 * n
    ratio = 1024 * used.ru_maxrss / csr
    print(f"            levelprox fit: {told['status']} in {told['seconds']:.0f} s, peak {ratio:.2f} CSR", flush=True)
    if ratio > PEAK:
        sys.exit("a limit was missed")


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", type=float, default=1000)
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        read_alone(arguments.peak)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data.svm")
        for kind in KINDS:
            generate(path, kind, arguments.megabytes)
            ours, theirs = compare(path, arguments.repeats)
            size = path.stat().st_size / 1e6
            print(
                f"{kind:>10}: {size:.0f} MB in {ours:.3f} s, {size / ours:.0f} MB/s; scikit-learn {theirs:.3f} s: "
                f"{theirs / ours:.1f} times"
            )
            if theirs < FASTER * ours:
                sys.exit("a limit was missed")
        for kind in KINDS:
            generate(path, kind, arguments.memory)
            print(f"{kind:>10}: {path.stat().st_size / 1e6:.0f} MB, ", end="", flush=True)
            subprocess.run([sys.executable, __file__, "--peak", str(path)], check=True)
            fit_alone(path)


if __name__ == "__main__":
    main()
