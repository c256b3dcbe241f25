"""The remark on finite sums, measured: what a subproblem costs in gradients of single rows, by SVRG and by NAG.

For a sum of n terms the paper counts n + κ gradients of single terms for SVRG and n√κ for Nesterov's method (NAG),
κ = (L + γ)/(γ − μ), up to constants and the logarithm of the accuracy. Here the subproblem is

    min mean (b_i − ⟨a_i, x⟩)² + γ/2 ‖x‖²   s.t.   ‖x‖₁ ≤ η,

with a spectrum that falls from 1 to 1e-6, so that γ alone makes it strongly convex, and γ = L/(κ − 1). Counted is what
it takes to reduce ψ_k − min ψ_k by a factor of 1e6 from x = 0; for SVRG the mean over a few seeds. A full gradient
counts n, a row of a step 1, the slopes kept at a snapshot n/2 (they are half of a gradient's work).

    python -m experiments.finite_sum [--quick] [--out DIR]
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats

from experiments.results import COLORS, options, panels, save, write_csv
from levelprox import LinearModel
from levelprox.constraints import L1
from levelprox.methods.lcpp import linearise
from levelprox.methods.subsolvers import SVRG, Nesterov, Spectral, Subproblem
from levelprox.result import Iterate

Vector = NDArray[np.float64]

_REDUCTION = 1e-6


def subproblem(n: int, kappa: float, d: int = 40) -> Subproblem:
    """Return the problem above, with the same data for every κ; the level is half of g at the solution without one."""
    rng = np.random.default_rng(n)
    scales = np.geomspace(1, 1e-3, d)
    rows = rng.standard_normal((n, d)) * scales
    truth = rng.standard_normal(d) / scales
    model = LinearModel(rows, rows @ truth + 0.1 * rng.standard_normal(n), "squared")
    gamma = model.smoothness / (kappa - 1)
    gram = 2 * rows.T @ rows / n + gamma * np.eye(d)
    free = np.linalg.solve(gram, 2 * rows.T @ model.target / n)
    g_k = linearise(L1(), np.zeros(d), float(np.abs(free).sum()) / 2)
    return Subproblem(model, g_k, np.zeros(d), gamma)


def rows_needed(attempt: Callable[[int], Iterate], target: float, value: Callable[[Vector], float], n: int) -> float:
    """Rows of the shortest attempt that reaches the target: doubling, then bisection.

    `attempt(t)` takes t steps (epochs) from the same start with the same seed, so longer attempts contain shorter ones.
    """
    low, high = 0, 1
    while value((reached := attempt(high)).x) > target:
        low, high = high, 2 * high
        if high > 10**7:
            raise RuntimeError("the target is out of reach")
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        trial = attempt(middle)
        if value(trial.x) > target:
            low = middle
        else:
            high, reached = middle, trial
    return n * reached.n_grad


def count(n: int, kappa: float, seeds: int) -> dict[str, float]:
    """Rows for both methods on one subproblem."""
    problem = subproblem(n, kappa)
    zero = np.zeros(problem.center.size)
    psi, gradient = problem.objective.value_and_gradient(zero)
    start = Iterate(zero, psi, gradient, step=1 / problem.objective.curvature)
    best = start
    for _ in range(50):
        best = Spectral(max_steps=1000, accuracy=0.0).solve(problem, best)
    least = problem.value(best.x)
    target = least + _REDUCTION * (problem.value(zero) - least)

    def svrg(seed: int) -> Callable[[int], Iterate]:
        return lambda epochs: SVRG(batch_size=1, max_epochs=epochs, accuracy=0.0).solve(
            problem, start, rng=np.random.default_rng(seed)
        )

    nag = rows_needed(
        lambda steps: Nesterov(max_steps=steps, accuracy=0.0).solve(problem, start), target, problem.value, n
    )
    each = [rows_needed(svrg(seed), target, problem.value, n) for seed in range(seeds)]
    return {
        "n": n,
        "kappa": kappa,
        "nesterov": nag,
        "svrg": float(np.mean(each)),
        "nesterov_over_bound": nag / (n * kappa**0.5),
        "svrg_over_bound": float(np.mean(each)) / (n + kappa),
    }


def slope(bound: Vector, rows: Vector) -> tuple[float, float, float]:
    """Return the log-log slope of rows against the bound, with 95 % limits."""
    line = stats.linregress(np.log(bound), np.log(rows))
    reach = float(stats.t.ppf(0.975, rows.size - 2)) * line.stderr
    return line.slope, line.slope - reach, line.slope + reach


def draw(axis: Axes, found: Sequence[dict[str, float]]) -> None:
    """Rows against κ for one n, with the paper's counts through the last point of each."""
    n = found[0]["n"]
    kappa = np.array([f["kappa"] for f in found])
    for name, label, color, bound in (
        ("nesterov", "n√κ", COLORS[1], n * np.sqrt(kappa)),
        ("svrg", "n + κ", COLORS[0], n + kappa),
    ):
        rows = np.array([f[name] for f in found])
        axis.loglog(kappa, rows, "o-", color=color, markersize=3.5, linewidth=1, label=name)
        axis.loglog(kappa, rows[-1] / bound[-1] * bound, "--", color=color, linewidth=0.8, label=label)
    axis.set_title(f"n = {n:g}", size=9)
    axis.set_xlabel("κ")
    axis.legend(fontsize=7, frameon=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, write, print."""
    chosen = options(__doc__).parse_args(arguments)
    began = time.monotonic()
    sizes, values, seeds = ((200, 2000), 4, 1) if chosen.quick else ((200, 2000, 20000), 7, 3)
    found = {n: [count(n, float(kappa), seeds) for kappa in np.geomspace(10, 1e4, values)] for n in sizes}
    rows = [row for of_n in found.values() for row in of_n]
    write_csv(chosen.out / "finite_sum.csv", rows)
    print(f"{'n':>6} {'κ':>8} {'nesterov':>10} {'svrg':>10} {'ratio':>7} {'/(n√κ)':>8} {'/(n+κ)':>8}")
    for r in rows:
        print(
            f"{r['n']:6.0f} {r['kappa']:8.0f} {r['nesterov']:10.3g} {r['svrg']:10.3g} {r['nesterov'] / r['svrg']:7.2f}"
            f" {r['nesterov_over_bound']:8.2f} {r['svrg_over_bound']:8.2f}"
        )
    n, kappa = (np.array([r[name] for r in rows]) for name in ("n", "kappa"))
    for name, words, bound in (("nesterov", "n√κ", n * np.sqrt(kappa)), ("svrg", "n + κ", n + kappa)):
        middle, low, high = slope(bound, np.array([r[name] for r in rows]))
        print(f"{name:8} rows ∝ ({words})^{middle:.2f}, 95 % limits [{low:.2f}, {high:.2f}]")
    bound, largest = math.log(2 / _REDUCTION), max(r["nesterov_over_bound"] for r in rows)
    print(
        f"nesterov: at most {largest:.1f} n√κ rows; the textbook's bound is log(2/{_REDUCTION:g}) n√κ = {bound:.1f} n√κ"
    )
    figure, axes = panels(1, len(sizes))
    for axis, of_n in zip(axes.flat, found.values(), strict=True):
        draw(axis, of_n)
    axes[0, 0].set_ylabel("single-row gradients")
    save(figure, chosen.out / "finite_sum.png")
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
