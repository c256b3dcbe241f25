"""LCPP: levelprox itself, its default engine at points {"lam", "theta", "eta"}.

min ψ(x)   s.t.   Σ_j MCP_{λ,θ}(|x_j|) ≤ η
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from experiments.competitors.base import Competitor, Fit, Point, Samples, Vector, noted
from levelprox import Problem, Result, solve
from levelprox.constraints import MCP

#: The paper's 2000 iterations, in outer steps of ten spectral ones; Newton steps end long before.
MOST_OUTER = 200


class LCPP(Competitor):
    """Where `warm`, a fit starts where the last one ended, as long as λ and θ stay and η does not fall.

    Parameters
    ----------
    tol : float
        On the KKT residual.
    start : {"direct", "continuation"}
        "continuation" is what `levelprox.solve` does unless told otherwise: it looks for better KKT points by way of
        wider problems, at ten to a hundred times the cost of "direct". It starts every fit anew.
    time_limit : float, optional
        Seconds for one fit.
    warm : bool
        Otherwise, and where λ or θ change or η falls, a fit starts at the null fit.
    """

    name: ClassVar[str] = "LCPP"
    package: ClassVar[str] = "levelprox"

    def __init__(
        self, tol: float = 1e-4, start: str = "direct", time_limit: float | None = None, warm: bool = True
    ) -> None:
        self.tol, self.start, self.time_limit, self.warm = tol, start, time_limit, warm

    def fits(self, train: Samples, points: Sequence[Point]) -> Iterator[Fit]:
        model = train.model()
        last, x = None, None
        for point in points:
            began = time.perf_counter()
            problem = Problem(model, MCP(point["lam"], point["theta"]), point["eta"])
            with noted() as notes:
                result = self._solved(problem, x if self.warm and last is not None and _leads_to(last, point) else None)
            last, x = point, result.x
            yield Fit(point, x, time.perf_counter() - began, result.n_grad, "; ".join(notes))

    def _solved(self, problem: Problem, x0: Vector | None) -> Result:
        how: dict[str, Any] = {"start": self.start}
        if self.start == "direct" and x0 is not None:
            how = {"x0": x0}
        return solve(problem, tol=self.tol, time_limit=self.time_limit, max_iter=MOST_OUTER, **how)


def _leads_to(last: Point, point: Point) -> bool:
    """Whether the solution at the last point is feasible at the next."""
    return (last["lam"], last["theta"]) == (point["lam"], point["theta"]) and last["eta"] <= point["eta"]
