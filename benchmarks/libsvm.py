"""Time and memory of reading LIBSVM files, against scikit-learn's load_svmlight_file.

    python benchmarks/libsvm.py [--megabytes 100] [--repeats 3] [--memory 1000]

Files are generated: 20 to 120 entries a row, with six digits, with all digits of a float64, or ones. Each figure is the
median of several runs, taking turns. Memory is the peak of a process of its own that reads one file of `--memory`
megabytes, over that of the arrays that come back: data, indices, indptr and y.
"""

from __future__ import annotations

import argparse
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
FASTER, PEAK = 5, 1.6  # what is wanted


def generate(path: Path, kind: str, megabytes: float) -> None:
    """2000 different rows, over and over."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(2000):
        columns = np.sort(rng.choice(100_000, rng.integers(20, 120), replace=False)) + 1
        values = map(KINDS[kind], rng.standard_normal(columns.size).tolist())
        pairs = " ".join(f"{column}:{value}" for column, value in zip(columns, values, strict=True))
        lines.append(f"{rng.choice(['+1', '-1'])} {pairs}\n")
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
    """The most bytes this process ever had in memory."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def read_alone(path: str) -> None:
    """What one reading takes, in a process that does nothing else."""
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


if __name__ == "__main__":
    main()
