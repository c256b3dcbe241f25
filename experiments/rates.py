"""Table 1, measured: how many (stochastic) gradients an ε-KKT point costs, for each of its eight entries.

For a geometric list of K, `solve(preset="paper", max_iter=K)` spends N = K T_k gradients and ends at x^k̂. With x̄ the
exact solution of its subproblem and ȳ its multiplier,

    ε(K) = max{E dist(0, ∂ψ(x̄) + ȳ ∂g(x̄))², E ȳ|g(x̄) − η|},      δ(K) = E ‖x^k̂ − x̄‖²,

means over k̂ and over a few runs, each with data and noise of its own. N ∝ ε^{−p} asks for

    log(1/ε) = a + (log N)/p + c/K.

K, and so N, is set and ε is measured, hence it is ε that is regressed; noise in it would flatten the slope of the
reverse regression, in favour of the claim. c/K is the next order: levels rise as 1/(k+1), not as 1/K, so that even for
ε = const/(k+1) the product εK still grows a little with K. The 95 % limits of p come from a jackknife over the runs
(Student's t) and, added in squares, the change of p when the three smallest K are left out: deterministic entries have
hardly any spread, and what is uncertain of them is where the asymptotic law begins. An entry is "not worse" than the
paper says when the lower limit of p is at most the exponent ("undecided": and the upper one is beyond twice it).
`studies/rates.py` puts the entries together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray
from scipy import stats

from experiments.cells import Cell
from experiments.measure import Measurement
from experiments.results import COLORS

Vector = NDArray[np.float64]

_CONFIDENCE = 0.95
_EARLY = 3  # how many of the smallest K are left out to see whether p depends on them


@dataclass(frozen=True)
class Size:
    """How much to run.

    Attributes
    ----------
    smallest, decades, values : int, float, int
        The list of K for stochastic entries, geometric. Deterministic ones show no noise but how x^k finds its support,
        and begin later, after that: at twice the K, or at five times where T_k does not grow with K.
    runs, points : int
        Runs for each K, and values of k̂ taken from each run.
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


FULL = Size(smallest=6, decades=1.6, values=10, runs=6, points=12)
QUICK = Size(smallest=6, decades=1.0, values=8, runs=3, points=6)


@dataclass(frozen=True, eq=False)
class Curve:
    """What one entry's runs amount to, one value per K.

    Attributes
    ----------
    K, gradients : ndarray of shape (m,)
        K, and N as a mean over the runs: M and σ, and so T_k, depend a little on the data.
    stationarity_squared, complementarity, delta : ndarray of shape (m, runs)
        Means over k̂ of each run.
    """

    K: Vector
    gradients: Vector
    stationarity_squared: Vector
    complementarity: Vector
    delta: Vector

    @property
    def epsilon(self) -> Vector:
        """ε(K)."""
        return np.maximum(self.stationarity_squared.mean(axis=1), self.complementarity.mean(axis=1))

    def of(self, values: slice | Vector, runs: slice | Vector) -> Curve:
        """Some of the K, some of the runs."""
        figures = (self.stationarity_squared, self.complementarity, self.delta)
        return Curve(self.K[values], self.gradients[values], *(figure[values][:, runs] for figure in figures))


@dataclass(frozen=True)
class Fit:
    """p of N ∝ ε^{−p}, with its confidence limits; `plain` is p without the term c/K."""

    slope: float
    low: float
    high: float
    plain: float


def curve(found: Sequence[Measurement]) -> Curve:
    """The measurements of one entry, averaged over k̂."""
    values, runs = sorted({m.K for m in found}), sorted({m.run for m in found})

    def means(name: str) -> Vector:
        cells: dict[tuple[int, int], list[float]] = {}
        for m in found:
            cells.setdefault((m.K, m.run), []).append(getattr(m, name))
        return np.array([[np.mean(cells[K, run]) for run in runs] for K in values])

    figures = [means(name) for name in ("stationarity_squared", "complementarity", "delta")]
    return Curve(np.array(values, float), means("gradients").mean(axis=1), *figures)


def rate(points: Curve, order: int = 2) -> float:
    """1/p by least squares: how fast ε falls with N; `order` 1 leaves out c/K."""
    columns = np.column_stack([np.log(points.gradients), np.ones_like(points.K), 1 / points.K][: order + 1])
    return float(np.linalg.lstsq(columns, -np.log(points.epsilon), rcond=None)[0][0])


def fit(points: Curve) -> Fit:
    """The slope, and limits that cover the spread of the runs and the choice of the smallest K."""
    best, runs, everything = rate(points), points.delta.shape[1], slice(None)
    without = [rate(points.of(everything, np.arange(runs) != run)) for run in range(runs)]
    error = math.sqrt((runs - 1) * float(np.var(without)))
    later = rate(points.of(slice(_EARLY, None), everything))
    reach = math.hypot(float(stats.t.ppf((1 + _CONFIDENCE) / 2, runs - 1)) * error, later - best)
    # Limits of 1/p, inverted; where ε may not fall at all, p may be infinite.
    slope, low, high, plain = (
        1 / r if r > 0 else math.inf for r in (best, best + reach, best - reach, rate(points, order=1))
    )
    return Fit(slope, low, high, plain)


def verdict(exponent: int, fitted: Fit) -> str:
    """In a word or two: "not worse" than the paper's exponent, "undecided" or "WORSE"."""
    if fitted.low > exponent:
        return "WORSE"
    return "undecided" if fitted.high > 2 * exponent else "not worse"


def draw(axis: Axes, cell: Cell, points: Curve, fitted: Fit) -> None:
    """N against 1/ε, with every run of a stochastic entry, and the paper's slope through the last point."""
    eps, p = points.epsilon, cell.exponent
    for run in range(points.delta.shape[1]):
        one = np.maximum(points.stationarity_squared[:, run], points.complementarity[:, run])
        axis.loglog(1 / one, points.gradients, ".", color="0.7", markersize=2)
    axis.loglog(1 / eps, points.gradients, "o-", color=COLORS[0], markersize=3.5, linewidth=1, label="measured")
    reference = points.gradients[-1] * (eps[-1] / eps) ** p
    axis.loglog(1 / eps, reference, "--", color=COLORS[1], linewidth=1, label=f"slope {p}, the paper's")
    axis.set_title(f"{cell.name}\nslope {fitted.slope:.2f} [{fitted.low:.2f}, {fitted.high:.2f}]", size=9)
    axis.legend(fontsize=7, frameon=False, loc="upper left")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_minor_formatter(NullFormatter())
