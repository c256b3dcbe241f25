"""The convex-concave procedure (DCCP) on cvxpy: linearise h at the last point x̄, solve the rest exactly, repeat.

    min ψ(x)   s.t.   λ‖x‖₁ − Σ_j (h(x̄_j) + h'(x̄_j)(x_j − x̄_j)) ≤ η,      h(t) = λ|t| − φ(|t|)

From the origin, where that is the ℓ1 ball of radius η/λ, until the relative change of ψ is at most 1e-6.

X. Shen, S. Diamond, Y. Gu and S. Boyd (2016), "Disciplined convex-concave programming", CDC. Their package `dccp` has,
as the paper says, trouble with MCP: version 1.1.1 does not recognise λ‖x‖₁ − h(x) ≤ η nor the minimum of a concave
parabola and its cap. It recognises λ‖x‖₁ ≤ η + h(x) with h = huber(x, θλ)/(2θ), but then fails on three variables: with
a ValueError about object arrays from the origin, with "Damping did not yield valid parameters" from other points. The
loop is therefore implemented here, as by the paper's authors.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.competitors.base import MissingError, Samples, Vector, noted, require
from levelprox.constraints import Constraint

SOLVERS = ("CLARABEL", "SCS", "MOSEK")


@dataclass(frozen=True, eq=False)
class Step:
    """After one convex problem.

    Attributes
    ----------
    x : ndarray of shape (d,)
        As the solver gave it: it has no zeros of its own, and may miss the level by the solver's tolerance. The last
        point where the solver gave none.
    psi, g : float
        ψ(x) and g(x), recomputed by levelprox.
    seconds : float
        Since the start, with the time cvxpy takes to compile; without the time of recomputing ψ and g.
    status : str
        cvxpy's: "optimal" where all is well, "optimal_inaccurate" with its warning; others end the procedure.
    """

    x: Vector
    psi: float
    g: float
    seconds: float
    status: str


def solver_ready(name: str) -> None:
    """MissingError where the solver is not installed, or its licence not found."""
    if name not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, got {name!r}")
    require("cvxpy", "pip install cvxpy")
    package = name.lower()
    if name != "MOSEK":
        require(package, f"pip install {package}")
        return
    mosek = require(package, "pip install mosek, and ask for a licence at www.mosek.com, free for academic use")
    try:
        with mosek.Env() as environment:
            environment.checkoutlicense(mosek.feature.pts)
    except mosek.Error as error:
        # Its own text is empty for some of these; the code is always there.
        raise MissingError(
            f"mosek is installed, but no licence can be checked out ({' '.join(str(error).split()).rstrip(': ')}): "
            "put one from www.mosek.com, free for academic use, at ~/mosek/mosek.lic or where MOSEKLM_LICENSE_FILE says"
        ) from None


def steps(
    train: Samples,
    constraint: Constraint,
    level: float,
    solver: str = "CLARABEL",
    *,
    max_steps: int = 200,
    change: float = 1e-6,
    start: Vector | None = None,
    **options: Any,
) -> Iterator[Step]:
    """One step after another, until ψ changes by at most `change` relative to itself, or the solver fails.

    Parameters
    ----------
    train : Samples
    constraint : Constraint
        φ.
    level : float
        η.
    solver : {"CLARABEL", "SCS", "MOSEK"}
    max_steps : int
        Convex problems to solve at most.
    change : float
        On |Δψ|/|ψ|.
    start : ndarray of shape (d,), optional
        The first x̄; the origin where it is left out.
    **options
        For the solver, by way of cvxpy.

    Raises
    ------
    MissingError
        Before the first step, as `solver_ready`.
    """
    solver_ready(solver)
    model = train.model()
    x = np.zeros(model.dimension) if start is None else np.asarray(start, np.float64)
    psi, seconds = model.value_and_gradient(x)[0], 0.0
    for _ in range(max_steps):
        began = time.perf_counter()
        found, status = _solved(train, constraint, level, x, solver, options)
        seconds += time.perf_counter() - began
        last, x = psi, x if found is None else found
        psi = model.value_and_gradient(x)[0]
        yield Step(x, psi, constraint.total(x, None), seconds, status)
        if not status.startswith("optimal") or abs(last - psi) <= change * abs(psi):
            return


def _solved(
    train: Samples, constraint: Constraint, level: float, at: Vector, solver: str, options: dict[str, Any]
) -> tuple[Vector | None, str]:
    """Return the minimiser with h linearised at a point, and a status.

    The problem is built again for each step. With parameters for the linearisation cvxpy compiles once, but as a map
    of d + 1 parameters, which takes as long as compiling fifteen times: on 5000 × 800 sparse data 0.9 s against 0.06 s,
    of steps that take 3 s.
    """
    import cvxpy

    t = np.abs(at)
    h, rate = constraint.lam * t - constraint.phi(t), constraint.lam - constraint.slope(t)
    x = cvxpy.Variable(at.size)
    room = level + float(np.sum(h - rate * t))
    surrogate = constraint.lam * cvxpy.norm1(x) - (rate * np.sign(at)) @ x <= room
    problem = cvxpy.Problem(cvxpy.Minimize(_psi(train, x)), [surrogate])
    with noted() as notes:
        try:
            problem.solve(solver=solver, **options)
        except cvxpy.SolverError as error:
            return None, f"solver error: {' '.join(str(error).split())}"
    status = problem.status if problem.status == cvxpy.OPTIMAL else "; ".join([problem.status, *notes])
    return None if x.value is None else np.asarray(x.value, np.float64), status


def _psi(train: Samples, x: Any) -> Any:
    import cvxpy

    z = train.X @ x
    if train.loss == "squared":
        return cvxpy.sum_squares(z - train.b) / train.b.size
    return cvxpy.sum(cvxpy.logistic(cvxpy.multiply(-train.b, z))) / train.b.size
