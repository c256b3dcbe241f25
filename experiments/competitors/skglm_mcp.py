"""skglm: coordinate descent with Anderson acceleration on working sets, for the MCP penalty.

    logistic   min ψ(x) + Σ_j MCP_{λ,γ}(|x_j|)
    squared    min ψ(x)/2 + Σ_j MCP_{λ,γ}(|x_j|)

Bertrand, Klopfenstein, Bannier, Gidel and Massias (2022), "Beyond L1: faster and better sparse models with skglm",
NeurIPS.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csc_matrix

from experiments.competitors.base import Competitor, Fit, Point, Samples, Vector, noted

_HALF = {"logistic": 1.0, "squared": 0.5}  # skglm's loss in units of ψ
_BEND = {"logistic": 0.25, "squared": 1.0}  # sup of the second derivative of skglm's loss


def penalised(point: Point, loss: str) -> Point:
    """Return the point of skglm that minimises the function of GIST at {"alpha", "lam", "theta"}: ψ + α MCP_{λ,θ}."""
    weight = _HALF[loss] * point["alpha"]
    return {"lam": weight * point["lam"], "gamma": point["theta"] / weight}


def largest_lambda(train: Samples) -> float:
    """From which λ on x = 0 is stationary: ‖∇ψ(0)‖∞ in skglm's units."""
    return _HALF[train.loss] * float(np.max(_pulls(train)))


def smallest_gamma(train: Samples, features: int | None = None) -> float:
    """Above which γ the subproblem of a coordinate is convex: the largest 1/L_j, L_j = sup ℓ'' · mean_i X_ij².

    Of all coordinates; or of the `features` with the largest |∇ψ(0)|, for rare words have so small an L_j that at a γ
    fit for all of them MCP is as good as straight.
    """
    bends = _bends(train)
    chosen = bends if features is None else bends[np.argsort(-_pulls(train), kind="stable")[:features]]
    return float(1 / np.min(chosen[chosen > 0]))


def _pulls(train: Samples) -> Vector:
    return np.abs(train.model().value_and_gradient(np.zeros(train.X.shape[1]))[1])


def _bends(train: Samples) -> Vector:
    squares = train.X.multiply(train.X).sum(axis=0) if train.sparse else np.einsum("ij,ij->j", train.X, train.X)
    return _BEND[train.loss] * np.asarray(squares, np.float64).ravel() / train.b.size


class SkglmMCP(Competitor):
    """{"lam", "gamma"} in skglm's units, each fit from the last one's solution: give points with λ falling.

    skglm's proximal map is that of a convex subproblem, which coordinate j has for γ L_j > 1 only (`smallest_gamma`);
    a fit with nonzero coefficients beyond says so in its note.

    Parameters
    ----------
    tol : float
        On skglm's criterion relative to `largest_lambda`; skglm's own tolerance is absolute.
    max_iter : int
        Working sets; skglm's default of 50 ends before the tolerance on text.
    warm : bool
        Start each fit where the last one ended.
    """

    name: ClassVar[str] = "skglm MCP"
    package: ClassVar[str] = "skglm"

    def __init__(self, tol: float = 1e-4, max_iter: int = 500, warm: bool = True) -> None:
        self.tol, self.max_iter, self.warm = tol, max_iter, warm

    def fits(self, train: Samples, points: Sequence[Point]) -> Iterator[Fit]:
        """Yield a fit for each point."""
        self.ready()
        X, bends, tol = train.by_columns(), _bends(train), self.tol * largest_lambda(train)
        self._compile(train.loss, train.sparse)
        x: Vector | None = None
        for point in points:
            began = time.perf_counter()
            x, iterations, notes = self._fitted(X, train.b, train.loss, point, tol, x if self.warm else None)
            undefined = int(np.count_nonzero(point["gamma"] * bends[x != 0] <= 1))
            if undefined:
                notes.append(f"{undefined} coefficients with gamma * L_j <= 1")
            yield Fit(point, x, time.perf_counter() - began, iterations, "; ".join(notes))

    def _compile(self, loss: str, sparse: bool) -> None:
        """Run a small fit, which triggers the compilation of skglm."""
        X = np.array([[1.0, 0.5], [-1.0, 0.5], [0.5, 1.0]], order="F")
        b = np.array([1.0, -1.0, 1.0])
        self._fitted(csc_matrix(X) if sparse else X, b, loss, {"lam": 0.1, "gamma": 50.0}, 1e-3, np.zeros(2))

    def _fitted(
        self, X: Any, b: Vector, loss: str, point: Point, tol: float, start: Vector | None
    ) -> tuple[Vector, int, list[str]]:
        from skglm.datafits import Logistic, Quadratic
        from skglm.penalties import MCPenalty
        from skglm.solvers import AndersonCD

        solver = AndersonCD(tol=tol, max_iter=self.max_iter, fit_intercept=False)
        datafit, penalty = Logistic() if loss == "logistic" else Quadratic(), MCPenalty(point["lam"], point["gamma"])
        # A copy of the start: it works in place on what it is given.
        at = (None, None) if start is None else (start.copy(), X @ start)
        with noted() as notes:
            x, values, _ = solver.solve(X, b, datafit, penalty, *at)
        return np.array(x, np.float64), len(values), notes
