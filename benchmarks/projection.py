"""Time of one projection against a plain copy and against a sort-based NumPy version.

    python benchmarks/projection.py [--largest 10000000] [--csv projection.csv]

u is as MCP makes it: a tenth of the coordinates nonzero, some of them saturated. One thread. Each
figure is the median of several runs, interleaved, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from levelprox import project
from levelprox.constraints import MCP
from levelprox.methods.lcpp import linearise


def sort_based(v: np.ndarray, u: np.ndarray, tau: float) -> np.ndarray:
    """Project by the textbook method in NumPy: sort the breakpoints |v|/w, cumulate, find the piece."""
    size = np.abs(v)
    price = 1 + np.sign(v) * u
    if price @ size <= tau:
        return v.copy()
    counted = price > 0
    breakpoint = np.where(counted, size / np.where(counted, price, 1), np.inf)
    order = np.argsort(-breakpoint)
    spent = np.cumsum((price * size)[order])
    square = np.cumsum((price * price)[order])
    with np.errstate(divide="ignore", invalid="ignore"):
        y = (spent - tau) / square
    last = np.flatnonzero(y < breakpoint[order])[-1]
    return np.sign(v) * np.maximum(size - price * y[last], 0)


def problem(d: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return a point one gradient step away from a sparse iterate, and the surrogate set there."""
    rng = np.random.default_rng(d)
    at = np.where(rng.random(d) < 0.1, rng.standard_normal(d), 0.0)
    constraint = MCP(lam=2.0, theta=0.25)
    surrogate = linearise(constraint, at, 1.1 * constraint.value(at))
    assert surrogate.u is not None
    return at + 0.3 * rng.standard_normal(d), surrogate.u, surrogate.tau


def medians(jobs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each job, the jobs taking turns."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():
        job()
    for _ in range(repeats):
        for name, job in jobs.items():
            begin = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(times) for name, times in seconds.items()}


def main() -> None:
    """Print the table and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=10**7)
    parser.add_argument("--csv", default="build/projection.csv")
    arguments = parser.parse_args()
    columns = [
        "d",
        "copy_ms",
        "out_ms",
        "new_ms",
        "sort_ms",
        "out_over_copy",
        "new_over_copy",
        "sort_over_out",
        "ns_per_d",
    ]
    rows = []
    print(("{:>14}" * len(columns)).format(*columns))
    d = 10**3
    while d <= arguments.largest:
        v, u, tau = problem(d)
        out = np.empty(d)
        np.testing.assert_allclose(project(v, u, tau)[0], sort_based(v, u, tau), atol=1e-9)
        fast = medians(
            {
                "copy": lambda v=v, out=out: np.copyto(out, v),
                "out": lambda v=v, u=u, tau=tau, out=out: project(v, u, tau, out=out),
                "new": lambda v=v, u=u, tau=tau: project(v, u, tau),
            },
            repeats=max(11, min(201, 10**8 // d)),
        )
        slow = medians({"sort": lambda v=v, u=u, tau=tau: sort_based(v, u, tau)}, repeats=3)["sort"]
        row = [
            d,
            *(1e3 * fast[name] for name in ("copy", "out", "new")),
            1e3 * slow,
            fast["out"] / fast["copy"],
            fast["new"] / fast["copy"],
            slow / fast["out"],
            1e9 * fast["out"] / d,
        ]
        rows.append(row)
        print(f"{d:>14}" + "".join(f"{value:>14.3f}" for value in row[1:]))
        sys.stdout.flush()
        d *= 10
    with open(arguments.csv, "w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    print(f"written: {arguments.csv}")
    if arguments.largest >= 10**7:
        _, *_, out_over_copy, new_over_copy, sort_over_out, _ = rows[-1]
        print("\nAt the largest d: measured, required")
        print(f"  with out=, times a copy      {out_over_copy:7.1f}   at most   8")
        print(f"  without out=, times a copy   {new_over_copy:7.1f}   at most  10")
        print(f"  faster than sorting          {sort_over_out:7.1f}   at least 50")
        if out_over_copy > 8 or new_over_copy > 10 or sort_over_out < 50:
            sys.exit("a limit was missed")


if __name__ == "__main__":
    main()
