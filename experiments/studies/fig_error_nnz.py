"""Figure 3: test error against nonzeros on all six sets, for LCPP, GIST, Lasso, skglm's MCP and abess.

0-1 error in per cent for classification, mean squared error for regression. MCP has λ = 2 and θ = 5, as in the paper,
which does not give its grids. Here every method gets one that follows from the data:

- Lasso, min ψ(x) + α‖x‖₁: α from 0.7 to 1/300 of the least α whose solution is 0; three times as many points on the
  sparse half, where errors fall in steps as features come in.
- GIST, min ψ(x) + (α/2) MCP(x): its slope at 0 is Lasso's, at the same α. skglm's MCP solves the same problems. GIST
  also with its authors' scaling, whose map is not the proximal one.
- LCPP, min ψ(x) s.t. MCP(x) ≤ η: η = MCP(x_Lasso) for each of Lasso's solutions, the same budget.
- abess: at most k features, k = 1, 2, 5, …, 200.

LCPP starts every fit at the origin; GIST, skglm and the Lasso of a squared loss where the last fit ended. At most 2000
iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments import paper
from experiments.competitors import Competitor, Point, Samples
from experiments.competitors.abess_subset import Abess
from experiments.competitors.gist import GIST, AuthorsGIST
from experiments.competitors.lasso import Lasso
from experiments.competitors.lcpp import LCPP
from experiments.competitors.skglm_mcp import SkglmMCP, penalised
from experiments.datasets import NAMES, Split
from experiments.reproduce.study import Claim, Outcome, Scope, Study, Table
from experiments.reproduce.task import Row, Task
from experiments.results import COLORS, legend_below, panels
from experiments.studies.sets import argument, chosen, split, zero_one
from levelprox.constraints import MCP

Vector = NDArray[np.float64]

POINTS, QUICK_POINTS = 16, 8
LARGEST, SMALLEST = 0.7, 1 / 300  # of the least α whose solution is 0
SIZES = (1, 2, 5, 10, 20, 50, 100, 200)
AUTHORS = AuthorsGIST.name
#: Seconds for one method on one set: abess takes hours on wide data, and the line search of GIST with its authors'
#: scaling rejects most steps. A curve ends where its time did.
LIMIT, QUICK_LIMIT = 120.0, 8.0
LIMITS = {AUTHORS: 40.0}
QUICK_LIMITS = {"skglm MCP": 30.0}  # most of it to compile itself
#: How far above Lasso LCPP may be anywhere: points of 0-1 error, share of a squared error.
SLACK = {"logistic": 0.4, "squared": 0.02}

REMARK = {
    "logistic": "Coefficients past the threshold cost nothing more, so that with features enough to separate classes "
    "they diverge, and an exact fit has a larger error than one that stops early; Lasso still shrinks them. See "
    "docs/reproduce.md.",
    "squared": "With this many features a fit that does not shrink them overfits; Lasso still shrinks them.",
}
FEW = (
    "At so small a level MCP is almost linear, and LCPP is the Lasso with other numbers of features: which is better "
    "is a matter of a few test rows."
)

METHODS: dict[str, Competitor] = {
    "LCPP": LCPP(tol=1e-4, time_limit=60.0, warm=False),
    "GIST": GIST(max_iter=paper.MOST_ITERATIONS, warm=True),
    "Lasso": Lasso(max_iter=paper.MOST_ITERATIONS),
    "skglm MCP": SkglmMCP(),
    "abess": Abess(),
    AUTHORS: AuthorsGIST(max_iter=paper.MOST_ITERATIONS, warm=True),
}
COLOR = dict(zip(METHODS, COLORS, strict=False))
MARKER = dict(zip(METHODS, "os^vDx", strict=True))


def weights(train: Samples, count: int) -> Vector:
    """Lasso's α, from many zeros to few."""
    _, gradient = train.model().value_and_gradient(np.zeros(train.X.shape[1]))
    return float(np.max(np.abs(gradient))) * np.geomspace(LARGEST, SMALLEST, count)


def lasso_points(train: Samples, count: int) -> list[Point]:
    """In scikit-learn's units: C for a sum of logistic losses, α for half a mean of squares."""
    return _in_units(train, weights(train, count))


def points_between(train: Samples, count: int) -> list[Point]:
    """Two more between any two of the sparse half: with few features errors fall in steps, not along a line."""
    steps = weights(train, 3 * count - 2)[: 3 * count // 2]
    return _in_units(train, [alpha for place, alpha in enumerate(steps) if place % 3])


def _in_units(train: Samples, alphas: Iterable[float]) -> list[Point]:
    if train.loss == "logistic":
        return [{"C": float(1 / (train.b.size * alpha))} for alpha in alphas]
    return [{"alpha": float(alpha / 2)} for alpha in alphas]


def gist_points(train: Samples, count: int) -> list[Point]:
    """α/2 times MCP with slope 2 at 0."""
    return [
        {"alpha": float(a / paper.LAM), "lam": paper.LAM, "theta": paper.THETA_ERROR} for a in weights(train, count)
    ]


def skglm_points(train: Samples, count: int) -> list[Point]:
    """GIST's problems in skglm's units."""
    return [penalised(point, train.loss) for point in gist_points(train, count)]


def abess_points(train: Samples, count: int) -> list[Point]:
    """k, as far as there are features."""
    return [{"k": k} for k in SIZES if k < train.X.shape[1]]


GRIDS: dict[str, Callable[[Samples, int], list[Point]]] = {
    "GIST": gist_points,
    "Lasso": lasso_points,
    "skglm MCP": skglm_points,
    "abess": abess_points,
    AUTHORS: gist_points,
}


def errors_of(dataset: Row, method: str, count: int) -> Iterator[Row]:
    """Yield a row for every point of the grid of a method."""
    data = split(dataset)
    train = Samples(data.X, data.b, data.loss)
    yield from judged(dataset, data, method, train, GRIDS[method](train, count))


def errors_between(dataset: Row, count: int) -> Iterator[Row]:
    """Further rows of Lasso, from which no levels are made."""
    data = split(dataset)
    train = Samples(data.X, data.b, data.loss)
    for row in judged(dataset, data, "Lasso", train, points_between(train, count)):
        yield row | {"between": True}


def errors_of_lcpp(dataset: Row, levels: Sequence[float]) -> Iterator[Row]:
    """Yield a row for every level."""
    data = split(dataset)
    train = Samples(data.X, data.b, data.loss)
    points = [{"lam": paper.LAM, "theta": paper.THETA_ERROR, "eta": level} for level in levels]
    yield from judged(dataset, data, "LCPP", train, points)


def judged(dataset: Row, data: Split, method: str, train: Samples, points: Sequence[Point]) -> Iterator[Row]:
    """Fit, then recompute nonzeros, test error, ψ and g from x."""
    competitor = METHODS[method]
    competitor.ready()
    model, g = train.model(), MCP(paper.LAM, paper.THETA_ERROR)
    for number, fit in enumerate(competitor.fits(train, points)):
        yield {
            "set": dataset["name"],
            "label": dataset["label"],
            "loss": data.loss,
            "method": method,
            "number": number,
            "nonzeros": int(np.count_nonzero(fit.x)),
            "error": error_of(data, data.X_test @ fit.x + fit.intercept),
            "psi": float(model.value_and_gradient(fit.x)[0]),
            "g": float(g.total(fit.x, None)),
            "seconds": fit.seconds,
            "iterations": fit.iterations,
            "note": fit.note,
            **{f"at {name}": value for name, value in fit.point.items()},
        }


def error_of(data: Split, z: Vector) -> float:
    """Of predictions for the test part."""
    if data.loss == "logistic":
        return zero_one(z, data.b_test)
    return float(np.mean((data.b_test - z) ** 2))


class FigErrorNnz(Study):
    """Who errs least with how many features."""

    name: ClassVar[str] = "fig-error-nnz"
    title: ClassVar[str] = "Figure 3: test error against nonzeros"

    def tasks(self, scope: Scope, rows: Sequence[Row]) -> list[Task]:
        """Return the tasks."""
        count, limit, limits = (QUICK_POINTS, QUICK_LIMIT, QUICK_LIMITS) if scope.quick else (POINTS, LIMIT, LIMITS)
        tasks = []
        for name in chosen(NAMES, scope):
            dataset = argument(name, scope)
            for method in GRIDS:
                asked: dict[str, Any] = {"dataset": dataset, "method": method, "count": count}
                key = (name, method)
                tasks.append(Task(self.name, key, f"{__name__}:errors_of", asked, limits.get(method, limit)))
            asked = {"dataset": dataset, "count": count}
            tasks.append(Task(self.name, (name, "Lasso", "between"), f"{__name__}:errors_between", asked, limit))
            lasso = [row for row in rows if row["set"] == name and row["method"] == "Lasso" and not row.get("between")]
            levels = [row["g"] for row in lasso if row["g"] > 0]
            if levels:
                asked = {"dataset": dataset, "levels": sorted(set(levels))}
                tasks.append(Task(self.name, (name, "LCPP"), f"{__name__}:errors_of_lcpp", asked, limit))
        return tasks

    def outcome(self, rows: Sequence[Row], scope: Scope) -> Outcome:
        """Return tables, figures and claims."""
        contests = [
            Contest([row for row in rows if row["set"] == name]) for name in dict.fromkeys(r["set"] for r in rows)
        ]
        header = ("set", "method", "fits", "nonzeros", "least error", "at nonzeros", "seconds")
        return Outcome(
            "Errors on the test part along a grid of budgets or penalties, the same MCP for LCPP, GIST and skglm.",
            "Figure 3: nonconvex models err less than Lasso over a wide range of sparsity; Lasso overfits as features "
            "are added, LCPP less so.",
            tables=[Table("Along each grid", header, [line for contest in contests for line in contest.lines()])],
            figures=[("fig-error-nnz.png", draw(contests), "Test error against nonzeros")],
            claims=[claim for contest in contests for claim in contest.claims()],
            notes=[
                "The paper does not give its grids of α and η; here they follow from the data.",
                "LCPP's error is compared with Lasso's at as many nonzeros, straight between Lasso's points over "
                "the logarithm of nonzeros; where Lasso has two models of a size, the better one counts.",
                "skglm and abess are not in the paper's figure. skglm solves GIST's problems by coordinate descent.",
                f"A method has {LIMIT:.0f} s for a set, GIST with its authors' scaling {LIMITS[AUTHORS]:.0f} s; a "
                "curve ends where its time did, and a method without one had no fit by then.",
            ],
        )


class Contest:
    """All methods on one set."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.label, self.loss = rows[0]["label"], rows[0]["loss"]
        methods = [method for method in METHODS if any(row["method"] == method for row in rows)]
        self.curves = {
            method: sorted(
                (row["nonzeros"], row["error"]) for row in rows if row["method"] == method and row["nonzeros"]
            )
            for method in methods
        }
        self.seconds = {m: sum(row["seconds"] for row in rows if row["method"] == m) for m in methods}

    def lines(self) -> Iterator[tuple[str, ...]]:
        """One for each method."""
        for method, points in self.curves.items():
            if points:
                nonzeros, error = min(points, key=lambda point: point[1])
                reach = f"{points[0][0]} to {points[-1][0]}"
                cells = (str(len(points)), reach, f"{error:.4g}", str(nonzeros), f"{self.seconds[method]:.1f}")
                yield (self.label, method, *cells)

    def above_lasso(self) -> list[tuple[int, float]]:
        """(nonzeros, by how much LCPP errs more than Lasso there), in points or as a share."""
        places, errors = np.array(self.curves["Lasso"], float).T
        places, first = np.unique(places, return_index=True)
        found = []
        for nonzeros, error in self.curves["LCPP"]:
            if places[0] <= nonzeros <= places[-1]:
                lasso = float(np.interp(np.log(nonzeros), np.log(places), errors[first]))
                excess = error - lasso if self.loss == "logistic" else error / lasso - 1
                found.append((nonzeros, round(excess, 9)))
        return found

    def claims(self) -> Iterator[Claim]:
        """At or below Lasso on the sparse half, and nowhere far above."""
        if not (self.curves.get("LCPP") and self.curves.get("Lasso")):
            return
        above = self.above_lasso()
        if not above:
            yield Claim(f"{self.label}: LCPP errs at most as much as Lasso", "no model is as large as Lasso's", None)
            return
        half, beyond = above[: -(-len(above) // 2)], len(self.curves["LCPP"]) - len(above)
        unit = "points" if self.loss == "logistic" else "of Lasso's"
        worst_half, worst = (max(part, key=lambda pair: pair[1]) for part in (half, above))
        yield Claim(
            f"{self.label}: LCPP errs at most as much as Lasso on the sparse half",
            f"at {sum(excess <= 0 for _, excess in half)} of {len(half)} points; "
            f"at most {worst_half[1]:+.3g} {unit} ({worst_half[0]} nonzeros)",
            worst_half[1] <= 0,
            FEW if worst_half[1] > 0 else "",
        )
        yield Claim(
            f"{self.label}: LCPP is nowhere more than {SLACK[self.loss]:g} {unit} above Lasso",
            f"at most {worst[1]:+.3g} {unit} ({worst[0]} nonzeros)"
            + (f"; models of LCPP smaller or larger than all of Lasso's: {beyond}" if beyond else ""),
            worst[1] <= SLACK[self.loss],
            "" if worst[1] <= SLACK[self.loss] else FEW if worst in half else REMARK[self.loss],
        )


def draw(contests: Sequence[Contest]) -> Figure:
    """Draw a panel for each set, three in a row."""
    figure, axes = panels(-(-len(contests) // 3), min(3, len(contests)), width=3.3, height=2.7)
    for axis, contest in zip(axes.flat, contests, strict=False):
        _panel(axis, contest)
    for axis in axes.flat[len(contests) :]:
        axis.set_axis_off()
    legend_below(figure, axes)
    return figure


def _panel(axis: Axes, contest: Contest) -> None:
    for method, points in contest.curves.items():
        if points:
            style = {"marker": MARKER[method], "color": COLOR[method], "linestyle": "--" if method == AUTHORS else "-"}
            on_top = 3 if method == "LCPP" else 2
            axis.plot(*zip(*points, strict=True), **style, markersize=4, linewidth=1.2, label=method, zorder=on_top)
    errors = [error for points in contest.curves.values() for _, error in points]
    if errors and (high := float(np.quantile(errors, 0.9))) > (low := min(errors)):
        margin = 0.05 * (high - low)
        axis.set_ylim(low - margin, high + margin)  # the emptiest models would flatten all the rest
    axis.set(xscale="log", xlabel="nonzeros")
    axis.set_ylabel("test error, %" if contest.loss == "logistic" else "mean squared error")
    axis.set_title(contest.label, fontsize=9)
