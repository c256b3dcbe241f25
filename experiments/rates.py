"""Table 1, measured: how many (stochastic) gradients an (ε, δ)-KKT point costs, for each of its eight entries.

For a geometric list of K, `solve(preset="paper", max_iter=K)` spends N = K T_k gradients and ends at x^k̂. With x̄ the
exact solution of its subproblem and ȳ its multiplier, three quantities are measured, each for itself:

    stationarity      E dist(0, ∂ψ(x̄) + ȳ ∂g(x̄))²
    complementarity   E ȳ|g(x̄) − η|
    δ                 E ‖x^k̂ − x̄‖²

means over k̂ and over a few runs, each with data and noise of its own. The paper bounds all three by const/K, so that
each of them, called q, is to fall as N ∝ q^{−p} with the table's p at most:

    log(1/q) = a + (log N)/p + c/K.

They must not be put into one ε: the schedule η_k = (kη + η_0)/(k+1) alone makes the complementarity fall as ȳ/(k+1), it
is the largest of the three, and so the slope of the largest one is arithmetic. What is left of the complementarity
without that part, E ȳ|g(x̄) − η_k|, is measured, too, and so is ȳ, which must stay bounded.

K, and so N, is set and q is measured, hence it is q that is regressed; noise in it would flatten the slope of the
reverse regression, in favour of the claim. c/K is the next order: levels rise as 1/(k+1), not as 1/K, so that even for
q = const/(k+1) the product qK still grows a little with K. K whose q is down to rounding are left out. The 95 % limits
of p come from a jackknife over the runs (Student's t) and, added in squares, the change of p when the three smallest K
are left out: deterministic entries have hardly any spread, and what is uncertain of them is where the asymptotic law
begins. A quantity is "not worse" than the paper says when the lower limit of p is at most the exponent ("undecided":
and the upper one is beyond twice it, or fewer than six K are above rounding). `studies/rates.py` puts the entries
together.
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
_LEAST = 6  # values of K for a slope with limits
_FLOOR = 1e-20  # squares below this are rounding: x̄ is known to twelve digits

#: What the paper bounds, by its name in `Measurement`, and what it is called.
QUANTITIES = {"stationarity_squared": "stationarity", "complementarity": "complementarity", "delta": "δ"}
#: All that has a slope: these three, and the complementarity without what the levels set.
MEASURED = {**QUANTITIES, "beyond": "complementarity beyond the levels"}


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
        """Return the list of K for one entry."""
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
    stationarity_squared, complementarity, delta, multiplier, beyond : ndarray of shape (m, runs)
        Means over k̂ of each run; see `Measurement`.
    """

    K: Vector
    gradients: Vector
    stationarity_squared: Vector
    complementarity: Vector
    delta: Vector
    multiplier: Vector
    beyond: Vector

    def mean(self, name: str) -> Vector:
        """One of the quantities, over the runs."""
        found: Vector = getattr(self, name).mean(axis=1)
        return found

    @property
    def share_of_schedule(self) -> float:
        """How much of the complementarity is ȳ(η − η_k), over all K: 1 where the schedule sets all of it."""
        return float(1 - np.mean(self.mean("beyond") / self.mean("complementarity")))

    def of(self, values: slice | Vector, runs: slice | Vector) -> Curve:
        """Return a smaller version: some of the K, some of the runs."""
        figures = (getattr(self, name)[values][:, runs] for name in _FIGURES)
        return Curve(self.K[values], self.gradients[values], *figures)


_FIGURES = ("stationarity_squared", "complementarity", "delta", "multiplier", "beyond")


@dataclass(frozen=True)
class Fit:
    """p of N ∝ q^{−p} from so many `values` of K, with its confidence limits; `plain` is p without the term c/K."""

    slope: float
    low: float
    high: float
    plain: float
    values: int


#: Nothing is known.
UNKNOWN = Fit(math.nan, math.nan, math.nan, math.nan, 0)


def curve(found: Sequence[Measurement]) -> Curve:
    """Return the measurements of one entry, averaged over k̂."""
    values, runs = sorted({m.K for m in found}), sorted({m.run for m in found})

    def means(name: str) -> Vector:
        cells: dict[tuple[int, int], list[float]] = {}
        for m in found:
            cells.setdefault((m.K, m.run), []).append(getattr(m, name))
        return np.array([[np.mean(cells[K, run]) for run in runs] for K in values])

    return Curve(np.array(values, float), means("gradients").mean(axis=1), *map(means, _FIGURES))


def rate(points: Curve, name: str, order: int = 2) -> float:
    """1/p by least squares: how fast a quantity falls with N; `order` 1 leaves out c/K."""
    columns = np.column_stack([np.log(points.gradients), np.ones_like(points.K), 1 / points.K][: order + 1])
    return float(np.linalg.lstsq(columns, -np.log(points.mean(name)), rcond=None)[0][0])


def above_rounding(points: Curve, name: str) -> Curve:
    """Return the K before the first at which a run's quantity is down to rounding."""
    low = np.any(getattr(points, name) < _FLOOR, axis=1)
    return points.of(slice(int(np.argmax(low)) if np.any(low) else None), slice(None))


def fit(points: Curve, name: str) -> Fit:
    """Return the slope of a quantity, and limits that cover the spread of the runs and the choice of the smallest K."""
    points = above_rounding(points, name)
    runs, everything = points.delta.shape[1], slice(None)
    if runs < 2 or points.K.size < _LEAST:
        return UNKNOWN
    best = rate(points, name)
    without = [rate(points.of(everything, np.arange(runs) != run), name) for run in range(runs)]
    error = math.sqrt((runs - 1) * float(np.var(without)))
    later = rate(points.of(slice(_EARLY, None), everything), name)
    reach = math.hypot(float(stats.t.ppf((1 + _CONFIDENCE) / 2, runs - 1)) * error, later - best)
    # Limits of 1/p, inverted; where q may not fall at all, p may be infinite.
    slope, low, high, plain = (
        1 / r if r > 0 else math.inf for r in (best, best + reach, best - reach, rate(points, name, order=1))
    )
    return Fit(slope, low, high, plain, points.K.size)


def verdict(exponent: int, fitted: Fit) -> str:
    """In a word or two: "not worse" than the paper's exponent, "undecided" or "WORSE"."""
    if math.isnan(fitted.slope):
        return "undecided"
    if fitted.low > exponent:
        return "WORSE"
    return "undecided" if fitted.high > 2 * exponent else "not worse"


def draw(axis: Axes, cell: Cell, points: Curve) -> None:
    """Draw the three quantities against N, a dot for each run, and the paper's rate through the first of each."""
    for color, (name, called) in zip(COLORS, QUANTITIES.items(), strict=False):
        shown = above_rounding(points, name)
        if not shown.K.size:
            continue
        mean = shown.mean(name)
        for each in getattr(shown, name).T:
            axis.loglog(shown.gradients, each, ".", color=color, alpha=0.3, markersize=2)
        axis.loglog(shown.gradients, mean, "o-", color=color, markersize=3.5, linewidth=1, label=called)
        reference = mean[0] * (shown.gradients[0] / shown.gradients) ** (1 / cell.exponent)
        label = "the paper's rate" if name == "delta" else None
        axis.loglog(shown.gradients, reference, "--", color="0.5", linewidth=0.8, label=label)
    axis.set_title(cell.name, size=9)
    axis.legend(fontsize=7, frameon=False, loc="lower left")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_minor_formatter(NullFormatter())
