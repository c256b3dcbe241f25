"""Vertex solutions of losses with kinks under a level, by linear programs; first-order steps converge slowly to them.

    min ψ(x)      s.t.      Σ_j ω_j φ'(|x_j⁰|) |x_j| ≤ τ

is a linear program: the set is the convex one inside {g ≤ η} that touches g at x⁰. Its solution is a vertex, at which
some margins are at their kinks and some coefficients are 0. HiGHS finds which; the coefficients are then computed from
the equations of these kinks and of the level, as its own have the digits of its tolerances only. φ is concave, so the
program is repeated at the vertex for as long as ψ falls. The duals are the slopes of the samples that certify it.
Of large data the programs are over working sets: the features of x, and those that the duals show to be missing.

Columns have one size, and with an intercept small means; margins are in units of a typical residual.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from levelprox._typing import Vector
from levelprox.certificate import certify
from levelprox.certificate.null_model import NullFit
from levelprox.certificate.residual import LevelPart, distance
from levelprox.methods.working_set import violation_of
from levelprox.objectives import LinearModel
from levelprox.problem import Problem
from levelprox.result import Iterate, StopReason

_ENTRIES = 200_000  # of X, up to which the programs are over all features
_ENTRIES_OF_SET, _SAMPLES = 2_000_000, 20_000  # of the columns of a working set
_ADDED = 10  # features at least
_SLOW_STEPS, _SLOW_STEPS_OF_LARGE = 100, 25  # outer steps of a phase before programs, of large data doubled each time
_FAR = 0.1  # deviations: columns with larger means are centred
_PROGRAMS = 20
_SECONDS = 5.0  # that the programs, and the certificate of their end, may take
_TOLERANCE = 1e-10  # of HiGHS
_INSIDE = 1e-7  # of the jump of a slope: by how much it is within its bounds at a kink
_FALLS = 1e-12  # of ψ


@dataclass(frozen=True, eq=False)
class Vertex:
    """A vertex, with the slopes of the samples that show it to be a minimiser near itself."""

    x: Vector
    psi: float
    slopes: Vector


def can_end_at_a_vertex(problem: Problem) -> bool:
    """Return whether ψ has kinks and is small enough for linear programs over all features."""
    model = problem.objective
    if not isinstance(model, LinearModel) or model.smooth:
        return False
    return model.design.shape[0] * model.design.shape[1] <= _ENTRIES


def is_slow(problem: Problem, steps: int) -> bool:
    """Return whether programs are tried after so many outer steps: of large data, whose steps take long, earlier."""
    if can_end_at_a_vertex(problem):
        return steps % _SLOW_STEPS == 0
    return steps % _SLOW_STEPS_OF_LARGE == 0 and (steps // _SLOW_STEPS_OF_LARGE).bit_count() == 1


def kkt_vertex(
    problem: Problem, at: Iterate, null: NullFit, tol: float, with_and_without: bool, seconds_left: Callable[[], float]
) -> Iterate | None:
    """Return the iterate at a vertex near x that is certified to be a KKT point; None if none is found.

    Parameters
    ----------
    problem : Problem
    at : Iterate
        x, with the slopes of smoothing.
    null : NullFit
    tol : float
        On the KKT residual.
    with_and_without : bool
        Whether to try without the level first.
    seconds_left : callable
        Returns the time that is left.
    """
    if at.kinks is None:
        return None
    found = None
    for with_level in (False, True) if with_and_without else (True,):
        found = found or _vertex_on_working_sets(problem, at.x, with_level, null, tol, min(seconds_left(), _SECONDS))
    if found is None or seconds_left() <= 0:
        return None
    certificate = certify(problem, found.x, null, hint=found.slopes, seconds=min(seconds_left(), _SECONDS))
    if not certificate.kkt <= tol:
        return None
    model = cast(LinearModel, problem.objective)
    gradient = model.design.rmatvec(model.share * found.slopes)
    kinks = replace(at.kinks, slopes=found.slopes)
    end = replace(at, x=found.x, psi=found.psi, gradient=gradient, kinks=kinks, margins=None)
    return replace(end, stop=StopReason.STATIONARY, n_inner=0, n_grad=0, n_proj=0)


def _vertex_on_working_sets(
    problem: Problem, x: Vector, with_level: bool, null: NullFit, tol: float, seconds: float
) -> Vertex | None:
    """Return the vertex near x over all features, where these are many by way of working sets."""
    if not isinstance(problem.objective, LinearModel) or problem.objective.smooth:
        return None
    if can_end_at_a_vertex(problem):
        return vertex_near(problem, x, with_level, seconds)
    model, n, deadline = problem.objective, problem.objective.design.shape[0], time.monotonic() + seconds
    W = np.union1d(problem.support(x), problem.unpenalized).astype(np.intp)
    while n <= _SAMPLES and n * W.size <= _ENTRIES_OF_SET:
        part, places = problem.restrict(W), problem.coordinates(W)
        small = vertex_near(part, x[places], with_level, deadline - time.monotonic())
        if small is None:
            return None
        x = np.zeros(problem.dimension)
        x[places] = small.x
        gradient = model.design.rmatvec(model.share * small.slopes)
        y = distance(part, small.x, small.psi, gradient[places], null)[1]
        violation = violation_of(problem, x, gradient, y)
        violation[W] = -np.inf
        violators = np.flatnonzero(violation > tol * null.scale)
        if violators.size == 0:
            return replace(small, x=x, psi=model.value_and_gradient(x)[0])
        most = violators[np.argsort(-violation[violators], kind="stable")[: max(_ADDED, W.size // 2)]]
        W = np.union1d(W, most).astype(np.intp)
    return None


def vertex_near(problem: Problem, x: Vector, with_level: bool, seconds: float) -> Vertex | None:
    """Return the vertex that linear programs lead to from x; None where there is none, or no time.

    Parameters
    ----------
    problem : Problem
        For which `can_end_at_a_vertex` holds.
    x : ndarray of shape (d,)
        Feasible.
    with_level : bool
        Whether to keep to the level; if not, a vertex beyond it is none.
    seconds : float
    """
    deadline, program = time.monotonic() + seconds, _Program(problem)
    found: Vertex | None = None
    psi = problem.objective.value_and_gradient(x)[0]
    for _ in range(_PROGRAMS):
        new = program.solve(x, with_level, deadline - time.monotonic())
        if new is None:
            return found
        if found is None or new.psi < psi:
            found = new
        if not new.psi < psi - _FALLS * abs(psi):
            return found
        x, psi = new.x, new.psi
    return found


class _Program:
    """The linear program, in columns of one size."""

    def __init__(self, problem: Problem) -> None:
        assert isinstance(problem.objective, LinearModel)
        self.problem, self.model = problem, problem.objective
        model, d = self.model, problem.dimension
        share = model.share
        self.columns = np.stack([model.moved(unit) for unit in np.eye(d)], axis=1)
        self.means = np.zeros(d)
        scale = model.feature_scale
        self.intercept = scale.intercept if problem.centred else None
        if self.intercept is not None:
            means = share @ self.columns
            means[self.intercept] = 0.0
            far = np.abs(means) > _FAR * np.sqrt(share @ (self.columns - means) ** 2)
            self.means = np.where(far, means, 0.0)  # zeros of columns with small means stay zeros
        self.columns = self.columns - self.means
        size = np.sqrt(share @ self.columns**2)
        self.size = np.where(size > 1e-12 * np.abs(self.means), size, 1.0)
        self.columns = np.where(size > 1e-12 * np.abs(self.means), self.columns / self.size, 0.0)
        self.low, self.high = model.loss.subdifferential(model.target, model.target)
        self.wanted = model.target - model.origin
        away = np.abs(self.wanted - float(np.median(self.wanted)) * (self.intercept is not None))
        self.unit = float(np.sum(share * away)) or 1.0

    def solve(self, x: Vector, with_level: bool, seconds: float) -> Vertex | None:
        """Return the solution of the program that is drawn at x."""
        from scipy import optimize, sparse  # slow to import, and only losses with kinks need it

        if not seconds > 0:
            return None
        problem, (n, d), share = self.problem, self.columns.shape, self.model.share
        price = LevelPart(problem, x, np.arange(d)).slope / self.size * self.unit
        tau = max(problem.level - problem.g(x), 0.0)
        tau += float(np.sum(price * np.abs(x) * self.size / self.unit))
        most = float(np.max(price, initial=0.0)) or 1.0
        parts: list[Any] = [self.columns, -self.columns, -sparse.eye_array(n), sparse.eye_array(n)]
        rows: Any = sparse.hstack(parts)
        cost = np.concatenate([np.zeros(2 * d), n * share * self.high, -n * share * self.low])
        bounds = [(0, None)] * d + [(0, 0 if one else None) for one in problem.must_be_nonnegative()]
        level = np.concatenate([price, price, np.zeros(2 * n)])[None] / most
        end: Any = optimize.linprog(
            cost,
            A_ub=level if with_level else None,
            b_ub=[tau / most] if with_level else None,
            A_eq=rows.tocsc(),
            b_eq=self.wanted / self.unit,
            bounds=[*bounds, *[(0, None)] * (2 * n)],
            method="highs-ds",
            options={
                "primal_feasibility_tolerance": _TOLERANCE,
                "dual_feasibility_tolerance": _TOLERANCE,
                "time_limit": min(seconds, 1e6),
            },
        )
        if end.status != 0:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.where(share > 0, -end.eqlin.marginals / (n * share), self.low)
        binds = with_level and bool(end.ineqlin.marginals[0] < 0)
        w = self._to_the_last_digits(end.x[:d] - end.x[d : 2 * d], slopes, price / most, tau / most if binds else None)
        return self._vertex(w, np.clip(slopes, self.low, self.high))

    def _to_the_last_digits(self, w: Vector, slopes: Vector, price: Vector, tau: float | None) -> Vector:
        """W with its margins at the kinks, and with the level where it binds, up to rounding."""
        jump = _INSIDE * (self.high - self.low)
        kinks = np.flatnonzero((slopes > self.low + jump) & (slopes < self.high - jump) & (self.model.share > 0))
        support = np.flatnonzero(w)
        matrix, right = self.columns[np.ix_(kinks, support)], self.wanted[kinks] / self.unit
        if tau is not None:
            matrix = np.vstack([matrix, price[support] * np.sign(w[support])])
            right = np.append(right, tau)
        out = w.copy()
        for _ in range(2 if matrix.size else 0):
            out[support] += np.linalg.lstsq(matrix, right - matrix @ out[support], rcond=None)[0]
        return out if np.all(np.sign(out) == np.sign(w)) else w

    def _vertex(self, w: Vector, slopes: Vector) -> Vertex | None:
        problem = self.problem
        x = w / self.size * self.unit
        if self.intercept is not None:
            x[self.intercept] -= float(np.sum(self.means * x))
        if not np.all(np.isfinite(x)):
            return None
        x = problem.obeying(x)
        if not problem.is_feasible(x):
            return None
        psi = problem.objective.value_and_gradient(x)[0]
        return Vertex(x, psi, slopes) if math.isfinite(psi) else None
