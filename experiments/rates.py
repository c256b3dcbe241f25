"""Table 1, measured: how many (stochastic) gradients an ε-KKT point costs, for each of its eight entries.

For a geometric list of K, `solve(preset="paper", max_iter=K)` spends N = K T_k gradients and ends at x^k̂. With x̄ the
exact solution of its subproblem and ȳ its multiplier,

    ε(K) = max{E dist(0, ∂ψ(x̄) + ȳ ∂g(x̄))², E ȳ|g(x̄) − η|},      δ(K) = E ‖x^k̂ − x̄‖².

N ∝ ε^{−p} asks for log(1/ε) = a + (log N)/p + c/K. K, and so N, is set and ε is measured, hence it is ε that is
regressed; noise in it would flatten the slope of the reverse regression, in favour of the claim. c/K is the next
order: levels rise as 1/(k+1), not 1/K, so that even ε = const/(k+1) has εK grow a little with K. Confidence limits (95 %)
are those of the regression, or for stochastic entries the percentiles of a bootstrap over the runs. An entry
is "not worse" than the paper says when the lower limit of p is at most the paper's exponent.

    python -m experiments.rates [--quick] [--out DIR]
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats
from threadpoolctl import threadpool_limits

from experiments.cells import Cell, table
from experiments.measure import Measurement, measure
from experiments.results import COLORS, options, panels, save, write_csv

Vector = NDArray[np.float64]

_LIMITS = (2.5, 97.5)
_BOOTSTRAPS = 2000


@dataclass(frozen=True)
class Size:
    """How much to run.

    Attributes
    ----------
    smallest, decades, values : float, float, int
        The list of K for stochastic entries, geometric. Deterministic ones, whose gradients are compiled, begin twice
        as far on; where T_k does not grow with K, five times.
    runs, points : int
        Runs of stochastic entries for each K, and values of k̂ taken from each run.
    """

    smallest: int
    decades: float
    values: int
    runs: int
    points: int

    def outer_steps(self, cell: Cell) -> list[int]:
        """The list of K for one entry."""
        first = self.smallest * (1 if cell.stochastic else 2 if cell.exponent == 2 else 5)
        return [round(K) for K in np.geomspace(first, first * 10**self.decades, self.values)]


FULL = Size(smallest=6, decades=1.6, values=10, runs=8, points=16)
QUICK = Size(smallest=6, decades=1.0, values=8, runs=4, points=8)


@dataclass(frozen=True, eq=False)
class Curve:
    """What one entry's runs amount to, one value per K.

    Attributes
    ----------
    K, gradients : ndarray of shape (m,)
        K and N.
    stationarity_squared, complementarity, delta : ndarray of shape (m, runs)
        Means over k̂ of each run.
    """

    K: Vector
    gradients: Vector
    stationarity_squared: Vector
    complementarity: Vector
    delta: Vector

    def epsilon(self, runs: NDArray[np.intp] | None = None) -> Vector:
        """ε(K), from all runs, or for each K from those of its row of `runs`."""
        both = (self.stationarity_squared, self.complementarity)
        if runs is not None:
            both = tuple(np.take_along_axis(figure, runs, axis=1) for figure in both)
        return np.maximum(*(figure.mean(axis=1) for figure in both))


@dataclass(frozen=True)
class Fit:
    """p of N ∝ ε^{−p}, with its confidence limits; `plain` is p without the term c/K."""

    slope: float
    low: float
    high: float
    plain: float


def curve(found: Sequence[Measurement]) -> Curve:
    """The measurements of one entry, averaged over k̂."""
    list_of_K = sorted({m.K for m in found})
    gradients = {m.K: m.gradients for m in found}

    def means(name: str) -> Vector:
        by_run: dict[tuple[int, int], list[float]] = {}
        for m in found:
            by_run.setdefault((m.K, m.seed), []).append(getattr(m, name))
        return np.array([[np.mean(v) for (of, _), v in by_run.items() if of == K] for K in list_of_K])

    figures = [means(name) for name in ("stationarity_squared", "complementarity", "delta")]
    return Curve(np.array(list_of_K, float), np.array([gradients[K] for K in list_of_K], float), *figures)


def fit(points: Curve, rng: np.random.Generator) -> Fit:
    """The slope and its limits: from the regression where there is one run, else from a bootstrap over runs."""
    corrected = np.column_stack([np.log(points.gradients), np.ones_like(points.K), 1 / points.K])
    response = -np.log(points.epsilon())
    rate = _least_squares(corrected, response)[0]
    plain = _least_squares(corrected[:, :2], response)[0]
    m, runs = points.delta.shape
    if runs == 1:
        off = response - corrected @ _least_squares(corrected, response)
        variance = float(off @ off) / (m - 3) * np.linalg.inv(corrected.T @ corrected)[0, 0]
        reach = float(stats.t.ppf(_LIMITS[1] / 100, m - 3)) * math.sqrt(variance)
        rates = np.array([rate - reach, rate + reach])
    else:
        drawn = (points.epsilon(rng.integers(runs, size=(m, runs))) for _ in range(_BOOTSTRAPS))
        rates = np.percentile([_least_squares(corrected, -np.log(eps))[0] for eps in drawn], _LIMITS)
    high, low = (1 / r if r > 0 else math.inf for r in rates)
    return Fit(1 / rate if rate > 0 else math.inf, low, high, 1 / plain if plain > 0 else math.inf)


def _least_squares(columns: Vector, response: Vector) -> Vector:
    return np.asarray(np.linalg.lstsq(columns, response, rcond=None)[0])


def report(cell: Cell, points: Curve, fitted: Fit) -> bool:
    """Print one entry; whether it is not worse than the paper says."""
    p, eps = cell.exponent, points.epsilon()
    constant = points.gradients * eps**p
    good = fitted.low <= p
    last = {
        "dist²": points.stationarity_squared.mean(axis=1)[-1],
        "compl.": points.complementarity.mean(axis=1)[-1],
        "δ": points.delta.mean(axis=1)[-1],
    }
    print(
        f"{cell.name:34}{p:2d}  {fitted.slope:5.2f} [{fitted.low:.2f}, {fitted.high:.2f}] {fitted.plain:5.2f}"
        f"  {eps[0]:8.1e} {eps[-1]:8.1e} {math.log10(eps.max() / eps.min()):4.1f}  "
        f"{constant[0]:8.3g} {constant[-1]:8.3g} {constant.max():8.3g}  "
        + " ".join(f"{figure:8.1e}" for figure in last.values())
        + ("  not worse" if good else "  WORSE"),
        flush=True,
    )
    return good


_HEADER = f"""
p: the paper's exponent; slope: measured, with 95 % limits; plain: without the term c/K; dec.: decades of ε;
dist², compl., δ: means at the last K.

{"entry of Table 1":34}{"p":>2}  {"slope":>5} {"limits":12} {"plain":>5}  {"ε first":>8} {"ε last":>8} {"dec.":>4}  \
{"Nε^p 1st":>8} {"last":>8} {"largest":>8}  {"dist²":>8} {"compl.":>8} {"δ":>8}"""


def draw(axis: Axes, cell: Cell, points: Curve, fitted: Fit) -> None:
    """N against 1/ε, with every run of a stochastic entry, and the paper's slope through the last point."""
    eps, p = points.epsilon(), cell.exponent
    for run in range(points.delta.shape[1]):
        one = np.maximum(points.stationarity_squared[:, run], points.complementarity[:, run])
        axis.loglog(1 / one, points.gradients, ".", color="0.7", markersize=2)
    axis.loglog(1 / eps, points.gradients, "o-", color=COLORS[0], markersize=3.5, linewidth=1, label="measured")
    reference = points.gradients[-1] * (eps[-1] / eps) ** p
    axis.loglog(1 / eps, reference, "--", color=COLORS[1], linewidth=1, label=f"slope {p}, the paper's")
    axis.set_title(f"{cell.name}\np = {fitted.slope:.2f} [{fitted.low:.2f}, {fitted.high:.2f}]")
    axis.legend(fontsize=7, frameon=False, loc="upper left")


def _task(of: tuple[int, int, Size]) -> tuple[int, list[Measurement]]:
    entry, K, size = of
    with threadpool_limits(1):  # tiny matrices: more threads only get into each other's way
        return entry, measure(table()[entry], K, size.runs, size.points)


def study(size: Size, workers: int) -> list[list[Measurement]]:
    """All measurements, one list per entry of the table; long runs first, to keep all workers busy."""
    tasks = [(entry, K, size) for entry, cell in enumerate(table()) for K in size.outer_steps(cell)]
    tasks.sort(key=lambda of: -(of[1] ** table()[of[0]].exponent))
    found: list[list[Measurement]] = [[] for _ in table()]
    if workers == 1:
        answers = list(map(_task, tasks))
    else:
        with ProcessPoolExecutor(workers) as pool:
            answers = list(pool.map(_task, tasks))
    for entry, measurements in answers:
        found[entry] += measurements
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, write, print; 1 where an entry is worse than the paper says."""
    chosen = options(__doc__).parse_args(arguments)
    size, began = QUICK if chosen.quick else FULL, time.monotonic()
    found = study(size, workers=os.cpu_count() or 1)
    rows = [asdict(m) | {"epsilon": m.epsilon} for entry in found for m in entry]
    write_csv(chosen.out / "rates.csv", rows)
    figure, axes = panels(2, 4)
    print(_HEADER)
    good = True
    for cell, measurements, axis in zip(table(), found, axes.flat, strict=True):
        points = curve(measurements)
        fitted = fit(points, np.random.default_rng(0))
        good &= report(cell, points, fitted)
        draw(axis, cell, points, fitted)
    figure.supxlabel("1/ε", size=9)
    figure.supylabel("gradients N", size=9)
    save(figure, chosen.out / "rates.png")
    print(f"{len(rows)} measurements in {time.monotonic() - began:.0f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
