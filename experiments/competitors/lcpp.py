"""LCPP: levelprox itself, by its default engine or by the paper's spectral steps.

min ψ(x)   s.t.   Σ_j MCP_{λ,θ}(|x_j|) ≤ η
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from experiments import paper
from experiments.competitors.base import Competitor, Fit, Point, Samples, Vector, noted
from levelprox import Problem, Result, solve
from levelprox.constraints import MCP
from levelprox.methods.subsolvers import Spectral

#: The paper's 2000 iterations, in outer steps of ten spectral ones; Newton steps end long before.
MOST_OUTER = 200


class LCPP(Competitor):
    """The default engine at points {"lam", "theta", "eta"}.

    Where `warm`, a fit starts where the last one ended, as long as λ and θ stay and η does not fall.

    Parameters
    ----------
    tol : float
        On the KKT residual.
    start : {"direct", "continuation"}
        "continuation" is the default of `levelprox.solve`: it searches for better KKT points through
        rescaled problems, at ten to a hundred times the cost of "direct". It has no warm starts.
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
        """Yield a fit for each point."""
        model = train.model()
        last, x = None, None
        for point in points:
            began = time.perf_counter()
            problem = Problem(model, MCP(point["lam"], point["theta"]), point["eta"])
            with noted() as notes:
                start = x if self.warm and last is not None and _leads_to(last, point) else None
                result = self._solved(problem, start, point)
            last, x = point, result.x
            yield Fit(point, x, time.perf_counter() - began, result.n_grad, "; ".join(notes))

    def _solved(self, problem: Problem, x0: Vector | None, point: Point) -> Result:
        how: dict[str, Any] = {"start": self.start}
        if self.start == "direct" and x0 is not None:
            how = {"x0": x0}
        return solve(problem, tol=self.tol, time_limit=self.time_limit, max_iter=MOST_OUTER, **how)


class LCPPBB(LCPP):
    """The paper's LCPP-BB at points {"lam", "theta", "eta", "gamma"}: spectral steps on the paper's surrogate.

    At most ten steps for each subproblem and 2000 in all. A run ends when ‖x^k − x^{k−1}‖ ≤ tol ‖x^k‖, the paper's
    rule. The paper gives γ for its Figure 2 alone, and neither tol nor the levels η_k: here γ is that of Figure 2 and
    η_k = η.

    Parameters
    ----------
    tol : float
        The paper's ε.
    warm : bool
        As in `LCPP`.
    """

    name: ClassVar[str] = "LCPP-BB"

    def __init__(self, tol: float = 1e-4, warm: bool = True) -> None:
        super().__init__(tol, warm=warm)

    def _solved(self, problem: Problem, x0: Vector | None, point: Point) -> Result:
        return solve(
            problem,
            subsolver=Spectral(max_steps=paper.INNER_STEPS, accuracy=0.0),
            surrogate="paper",
            gamma=point["gamma"],
            stopping="change",
            start="direct",
            tol=self.tol,
            max_iter=MOST_OUTER,
            x0=x0,
        )


def _leads_to(last: Point, point: Point) -> bool:
    """Whether the solution at the last point is feasible at the next."""
    return (last["lam"], last["theta"]) == (point["lam"], point["theta"]) and last["eta"] <= point["eta"]
