"""The last digits: the KKT residual after each Newton step on the KKT system, and after each step of LCPP.

    python -m experiments.convergence [--quick] [--out DIR]

Sparse logistic regression under five constraints. The start is where LCPP with spectral steps stops at a loose
tolerance, the loosest of `TOLERANCES` from which the Newton steps of levelprox/polish.py go through. From there on
either these steps, for as long as they lower ψ, or further outer steps of LCPP, with the spectral subsolver as it
comes.
The residual is the certificate's, relative to ‖∇ψ‖∞ at the origin.

Generated data, and with LEVELPROX_DATA also rcv1 at a level of 20.5 caps, for the constraints that have a cap.

A quadratic rate shows as digits that double from step to step, a linear one as a straight line.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat

import numpy as np
from numpy.typing import NDArray

from experiments.datasets import Places, load
from experiments.results import COLORS, options, panels, save, write_csv
from levelprox import LinearModel, Problem, solve
from levelprox.certificate import Certificate, assemble
from levelprox.certificate.null_model import NullFit, null_fit
from levelprox.constraints import MCP, SCAD, Constraint, Exp, Log, Lp
from levelprox.exceptions import ConvergenceWarning
from levelprox.methods.lcpp import lcpp, linearise
from levelprox.methods.restricted import polish
from levelprox.methods.subsolvers import Spectral
from levelprox.result import Iterate

Vector = NDArray[np.float64]

#: With parameters at which coefficients of the generated problem, about 1, are on the bent part of φ.
CONSTRAINTS: dict[str, Constraint] = {
    "MCP": MCP.from_threshold(2.0),
    "SCAD": SCAD(lam=1.0, theta=3.7),
    "Exp": Exp(lam=1.0),
    "Log": Log(theta=2.0),
    "Lp": Lp(p=0.5, epsilon=0.1),
}
TOLERANCES = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
CONVERGED, ALL_DIGITS = 1e-11, 1e-14
MOST_NEWTON, MOST_LCPP = 12, 20


@dataclass(frozen=True)
class Path:
    """KKT residuals after 0, 1, 2, … steps of a method on a problem."""

    data: str
    constraint: str
    method: str
    kkt: tuple[float, ...]
    passes: tuple[int, ...]


def generated(constraint: Constraint, n: int = 2000, d: int = 300) -> Problem:
    """Ten features of d matter; the level is two thirds of what they cost, so that it binds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    truth = np.zeros(d)
    truth[:10] = np.where(np.arange(10) % 2 == 0, 1.0, -1.0) * np.linspace(0.5, 1.5, 10)
    b = np.sign(X @ truth + rng.logistic(size=n))
    return Problem(LinearModel(X, b, "logistic"), constraint, 2 / 3 * constraint.value(truth))


def problems(quick: bool) -> Iterator[tuple[str, str, Problem]]:
    """Name of the data, name of the constraint, and the problem."""
    for name, constraint in CONSTRAINTS.items():
        yield "generated", name, generated(constraint, 500 if quick else 2000)
    places = Places.from_environment()
    if places.stand_ins is not None and not quick:
        data = load("rcv1.binary", places)
        model = LinearModel(data.X, data.b, data.loss)
        for name, constraint in CONSTRAINTS.items():
            if np.isfinite(constraint.cap):
                yield data.source.label, name, Problem(model, constraint, 20.5 * constraint.cap)


def certificate(problem: Problem, at: Iterate, null: NullFit) -> Certificate:
    """Of a point whose gradient is known."""
    return assemble(problem, at.x, at.psi, at.gradient, null)


def newton_steps(problem: Problem, at: Iterate, null: NullFit) -> Iterator[float]:
    """Return the residual at the start, and after each step of `polish` until one does not lower ψ."""
    known = certificate(problem, at, null)
    yield known.kkt
    for _ in range(MOST_NEWTON):
        new = polish(problem, at, known.multiplier)
        if new is None:
            return
        at, known = new, certificate(problem, new, null)
        yield known.kkt
        if known.kkt <= ALL_DIGITS:
            return


def lcpp_steps(problem: Problem, at: Iterate, null: NullFit) -> Iterator[tuple[float, int]]:
    """Return the residual at the start, and after each outer step, with its passes over the data."""
    yield certificate(problem, at, null).kkt, 0
    subsolver, passes = Spectral(), 0
    gamma = subsolver.proximal_weight(problem.objective)
    for _, step in islice(lcpp(problem, at, repeat(problem.level), gamma, subsolver, linearise), MOST_LCPP):
        passes += step.n_grad
        yield certificate(problem, step, null).kkt, passes


def rough(problem: Problem, tol: float) -> Iterate:
    """Where LCPP with spectral steps stops at that tolerance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        x = solve(problem, subsolver="spectral", tol=tol, max_iter=5000, start="direct").x
    psi, gradient = problem.objective.value_and_gradient(x)
    start = Iterate(x, psi, gradient, step=1 / problem.objective.curvature)
    assert isinstance(problem.objective, LinearModel)
    return replace(start, margins=problem.objective.margins(x))


def compare(data: str, name: str, problem: Problem) -> list[Path]:
    """Both methods from one start."""
    null = null_fit(problem)
    for tol in TOLERANCES:
        start = rough(problem, tol)
        newton = tuple(newton_steps(problem, start, null))
        if min(newton) <= CONVERGED:
            break
    steps, passes = zip(*lcpp_steps(problem, start, null), strict=True)
    return [
        Path(data, name, "Newton", newton, tuple(range(len(newton)))),
        Path(data, name, "LCPP", steps, passes),
    ]


def draw(paths: Sequence[Path], file: object) -> None:
    """One panel for each set of data: full lines are Newton's, dashed ones LCPP's."""
    sets = list(dict.fromkeys(path.data for path in paths))
    figure, axes = panels(1, len(sets), width=4.2, height=3.4)
    for axis, data in zip(axes.flat, sets, strict=True):
        for path in (path for path in paths if path.data == data):
            color = COLORS[list(CONSTRAINTS).index(path.constraint)]
            newton = path.method == "Newton"
            axis.semilogy(
                np.maximum(path.kkt, 1e-17),
                "o-" if newton else "--",
                color=color,
                markersize=3,
                linewidth=1.4 if newton else 0.9,
                label=path.constraint if newton else None,
            )
        axis.set(xlabel="steps (Newton: full, LCPP: dashed)", ylabel="KKT residual", title=data)
        axis.title.set_size(9)
        axis.legend(fontsize=7)
    save(figure, file)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the CSV file and the figure, and print each path."""
    parsed = options(__doc__ or "").parse_args(arguments)
    paths = []
    for case in problems(parsed.quick):
        for path in compare(*case):
            shown = path.kkt if path.method == "Newton" else path.kkt[:: MOST_LCPP // 4]
            digits = " ".join(f"{kkt:.0e}" for kkt in shown)
            print(f"{path.data:>12} {path.constraint:>5} {path.method:>7}  {digits}", flush=True)
            paths.append(path)
    rows = [
        {"data": path.data, "constraint": path.constraint, "method": path.method, "step": k, "kkt": kkt, "passes": cost}
        for path in paths
        for k, (kkt, cost) in enumerate(zip(path.kkt, path.passes, strict=True))
    ]
    write_csv(parsed.out / "convergence.csv", rows)
    draw(paths, parsed.out / "convergence.png")


if __name__ == "__main__":
    main()
