"""How time and memory of a fit grow with the features d and with the stored entries of X.

    python -m benchmarks.growth [--quick] [--largest] [--out results]

Generated CSR problems, logistic and squared, with a true support of 20 features; MCP that counts features, level 20.5,
all settings as they come, one thread:

- d: d from 1e3 to 1e7 features at a fixed number of stored entries,
- entries: 1e5 stored entries and up at d = 1e5; with --largest up to what 19 GB hold,
- both: both together, 30 entries a column,
- threads: two threads against one, the whole fit and a pass, on the largest sparse problem and on a dense one.

Each fit runs in a process of its own: `peak` is the high-water mark of that whole process, interpreter and libraries
included, and X is drawn piece by piece into the arrays it is kept in. `data` are these arrays and the targets. Seconds
are medians of 3 where a fit is short, else of one; a pass is ψ and its whole gradient at the solution.

Slopes are those of log seconds against log size, least squares, over sizes of at least a hundredth of the largest:
below that, the constant part of the cost dominates.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from levelprox import LinearModel, Problem, solve
from levelprox.constraints import MCP

Row = dict[str, Any]

PER_ROW = 50  # entries
SUPPORT = 20  # features that matter; each row has one of the first ten and one of the others
LOSSES = ("logistic", "squared")
SMALLEST_COUNTED = 1 / 100  # of the largest size: the rest is overhead
LARGEST = 1.3e9  # entries: 16 GB
SHORT = 5.0  # seconds: a fit this short is repeated
STEEPEST = 1.1  # slope that still is called linear
PIECE = 1 << 15  # rows drawn at a time
NAMES = ("series", "loss", "n", "d", "entries", "dtype", "seconds", "pass_s", "passes", "steps", "nonzero", "kkt")
WIDTHS = (15, 10, 11, 10, 12, 9, 10, 9, 7, 6, 8, 9)


@dataclass(frozen=True)
class Case:
    """A problem to be generated: n rows with so many entries each, over d features; dense where these are equal."""

    series: str
    loss: str
    n: int
    d: int
    per_row: int
    dtype: str = "float64"
    threads: int = 1  # several would blur the slopes on a busy machine, where they wait for one another

    @property
    def entries(self) -> int:
        """How many are stored."""
        return self.n * self.per_row


def of_entries(series: str, loss: str, d: int, entries: float, per_row: int, dtype: str = "float64") -> Case:
    """Return a sparse case of about so many stored entries."""
    return Case(series, loss, max(int(entries) // per_row, 1), d, per_row, dtype)


def cases(quick: bool, largest: bool) -> Iterator[Case]:
    """Yield all fits, except the comparison of threads."""
    for loss in LOSSES:
        for power in range(3, 7 if quick else 8):
            yield of_entries("d", loss, 10**power, 1e6 if quick else 1e8, PER_ROW)
        for power in range(5, 8 if quick else 9):
            yield of_entries("entries", loss, 10**5, 10**power, PER_ROW)
        for power in range(3, 6 if quick else 8):
            yield of_entries("both", loss, 10**power, 30 * 10**power, PER_ROW, "float32" if power == 7 else "float64")
    if largest:
        yield of_entries("entries", "logistic", 10**5, LARGEST, PER_ROW)


def threaded(quick: bool) -> Iterator[Case]:
    """Return the cases that are fitted with one thread and with two."""
    for threads in (1, 2):
        sparse = of_entries("threads, sparse", "logistic", 10**6, 1e6 if quick else 1e8, PER_ROW)
        yield replace(sparse, threads=threads)
        n, d = (20_000, 200) if quick else (500_000, 1000)
        yield Case("threads, dense", "logistic", n, d, d, "float64", threads)


def generate(case: Case) -> tuple[Any, np.ndarray]:
    """X and b. The entries of a row are in ranges of equal length, one in each, so that none is drawn twice."""
    rng = np.random.default_rng(case.n + case.d)
    truth = np.where(np.arange(SUPPORT) % 2 == 0, 1.0, -1.0) * np.linspace(1, 2, SUPPORT)
    dense = case.per_row == case.d
    data = np.empty((case.n, case.per_row), dtype=case.dtype)
    indices = np.empty((case.n, 0 if dense else case.per_row), dtype=np.int32)
    b = np.empty(case.n)
    low, high = _ranges(case)
    for begin in range(0, case.n, PIECE):
        rows = slice(begin, min(begin + PIECE, case.n))
        m = rows.stop - begin
        rng.standard_normal(out=data[rows], dtype=case.dtype)
        if not dense:
            indices[rows] = rng.integers(low, high, (m, case.per_row), dtype=np.int32)
        z = data[rows, :SUPPORT] @ truth if dense else np.sum(data[rows, :2] * truth[indices[rows, :2]], axis=1)
        b[rows] = np.sign(z + rng.logistic(size=m)) if case.loss == "logistic" else z + rng.standard_normal(m)
    if dense:
        return data, b
    indptr = np.arange(0, case.entries + 1, case.per_row)
    X = scipy.sparse.csr_array((case.n, case.d), dtype=case.dtype)
    X.data, X.indices, X.indptr = data.reshape(-1), indices.reshape(-1), indptr  # the constructor would copy them
    return X, b


def _ranges(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return the range of each entry of a row: the first two are among the relevant features."""
    rest = np.linspace(SUPPORT, case.d, max(case.per_row - 1, 2)).astype(np.int64)
    ends = np.concatenate([[0, SUPPORT // 2], rest])
    return ends[:-1], ends[1:]


def memory(name: str) -> float:
    """VmRSS or VmHWM of this process, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name)) * 1024 / 1e6


def measure(case: Case) -> Row:
    """Generate, fit, and tell what it took; in this process, which should do nothing else."""
    X, b = generate(case)
    arrays = (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr)
    data = (sum(array.nbytes for array in arrays) + b.nbytes) / 1e6
    before = memory("VmRSS")

    def fit() -> Any:
        return solve(Problem(LinearModel(X, b, case.loss), MCP.from_threshold(0.5), SUPPORT + 0.5), start="direct")

    seconds, result = _timed(fit)
    peak = memory("VmHWM")
    if seconds < SHORT:
        seconds = statistics.median([seconds, _timed(fit)[0], _timed(fit)[0]])
    model = LinearModel(X, b, case.loss)
    passes = sorted(_timed(lambda: model.value_and_gradient(result.x))[0] for _ in range(3 if seconds < 30 else 1))
    return {
        **asdict(case),
        "entries": case.entries,
        "status": str(result.status),
        "kkt": result.certificate.kkt,
        "nonzero": result.certificate.n_nonzero,
        "seconds": seconds,
        "pass_s": passes[len(passes) // 2],
        "passes": result.n_grad,
        "steps": result.n_inner,
        "data_mb": data,
        "before_mb": before,
        "peak_mb": peak,
    }


def _timed(job: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = job()
    return time.perf_counter() - begin, result


def in_a_process(case: Case) -> Row:
    """`measure` in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(case.threads)}
    command = [sys.executable, "-m", "benchmarks.growth", "--case", json.dumps(asdict(case))]
    out = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    row: Row = json.loads(out.splitlines()[-1])
    return row


def allowed(row: Row) -> float:
    """Memory a fit may have taken at its peak, in MB."""
    return float(1.25 * row["data_mb"] + 200)


def slope(rows: list[Row], size: str) -> float:
    """Of log seconds against log size, without the smaller end."""
    counted = [row for row in rows if row[size] >= SMALLEST_COUNTED * max(row[size] for row in rows)]
    return float(np.polyfit(np.log([row[size] for row in counted]), np.log([row["seconds"] for row in counted]), 1)[0])


def tell(row: Row) -> None:
    """One line of the table."""
    print(
        f"{row['series']:>15}{row['loss']:>10}{row['n']:>11}{row['d']:>10}{row['entries']:>12.1e}{row['dtype']:>9}"
        f"{row['seconds']:>10.3f}{row['pass_s']:>9.4f}{row['passes']:>7}{row['steps']:>6}{row['nonzero']:>8}"
        f"{row['kkt']:>9.1e}{row['data_mb']:>9.0f}{row['peak_mb']:>9.0f}{allowed(row):>9.0f}",
        flush=True,
    )


def verdicts(rows: list[Row]) -> list[str]:
    """Return the verdicts on the figures."""
    lines = []
    for series, size, words in (
        ("entries", "entries", "entries"),
        ("d", "d", "d"),
        ("both", "entries", "both together"),
    ):
        for loss in LOSSES:
            found = slope([row for row in rows if row["series"] == series and row["loss"] == loss], size)
            judged = "" if found <= STEEPEST else f"; more than {STEEPEST:g}, not linear"
            lines.append(f"linear in {words}, {loss}: slope {found:.2f}{judged}")
    for row in rows:
        case = f"{row['series']}, {row['loss']}, d = {row['d']:.0e}, {row['entries']:.0e} entries"
        held = "yes" if row["peak_mb"] <= allowed(row) else "no"
        lines.append(
            f"peak memory ≤ data + 25 % + 200 MB: {held} ({case}: {row['peak_mb']:.0f} of {allowed(row):.0f} MB)"
        )
    for series in ("threads, sparse", "threads, dense"):
        one, two = (next(row for row in rows if row["series"] == series and row["threads"] == k) for k in (1, 2))
        fit, single = one["seconds"] / two["seconds"], one["pass_s"] / two["pass_s"]
        lines.append(f"{series}: {fit:.2f} times faster with two, a pass {single:.2f} times")
    return lines


def draw(rows: list[Row], path: Path) -> None:
    """Draw seconds and memory against size, with a line of slope 1."""
    from experiments.results import COLORS, panels, save  # not where memory is measured: Matplotlib is large

    figure, axes = panels(2, 3)
    for (top, bottom), (series, size, label) in zip(
        axes.T,
        (
            ("d", "d", "features"),
            ("entries", "entries", "stored entries"),
            ("both", "entries", "stored entries, 30 a feature"),
        ),
        strict=True,
    ):
        for loss, color in zip(LOSSES, COLORS, strict=False):
            found = [row for row in rows if row["series"] == series and row["loss"] == loss]
            x = [row[size] for row in found]
            top.loglog(x, [row["seconds"] for row in found], "o-", color=color, label=loss, markersize=3)
            bottom.loglog(x, [row["peak_mb"] for row in found], "o-", color=color, markersize=3)
        bottom.loglog(x, [row["data_mb"] for row in found], color="0.4", dashes=(4, 2), label="data")
        bottom.loglog(x, [allowed(row) for row in found], color="0.4", dashes=(1, 1), label="data + 25 % + 200 MB")
        last = found[-1]
        top.loglog(
            x, [last["seconds"] * value / last[size] for value in x], color="0.4", dashes=(4, 2), label="slope 1"
        )
        top.set(xlabel=label, ylabel="seconds", ylim=(1e-3, None))
        bottom.set(xlabel=label, ylabel="peak memory, MB")
    axes[0, 0].legend(fontsize=7)
    axes[1, 0].legend(fontsize=7)
    save(figure, path)


def main() -> None:
    """Print the table and the verdicts, write the CSV file and the figure."""
    if sys.argv[1:2] == ["--case"]:
        print(json.dumps(measure(Case(**json.loads(sys.argv[2])))))
        return
    from experiments.results import options, write_csv

    parser = options(__doc__ or "")
    parser.add_argument("--largest", action="store_true", help="also the largest problem that 19 GB hold")
    arguments = parser.parse_args()
    print("".join(f"{name:>{width}}" for name, width in zip(NAMES, WIDTHS, strict=True)), " data_mb  peak_mb  allowed")
    rows = []
    for case in [*cases(arguments.quick, arguments.largest), *threaded(arguments.quick)]:
        rows.append(in_a_process(case))
        tell(rows[-1])
    write_csv(arguments.out / "growth.csv", rows)
    draw(rows, arguments.out / "growth.png")
    print(*verdicts(rows), sep="\n")


if __name__ == "__main__":
    main()
