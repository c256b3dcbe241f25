"""LCPP: levelprox itself, its default engine at points {"lam", "theta", "eta"}.

min ψ(x)   s.t.   Σ_j MCP_{λ,θ}(|x_j|) ≤ η
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import ClassVar

import numpy as np

from experiments.competitors.base import Competitor, Fit, Point, Samples, noted
from levelprox import LinearModel, Path, Problem, path
from levelprox.constraints import MCP


class LCPP(Competitor):
    """Consecutive points with the same λ and θ are solved together, as a path of levels, and share its time evenly.

    Parameters
    ----------
    tol : float
        On the KKT residual of each level.
    start : {"auto", "continuation", "direct"}
        As `levelprox.path` has it.
    """

    name: ClassVar[str] = "LCPP"
    package: ClassVar[str] = "levelprox"

    def __init__(self, tol: float = 1e-4, start: str = "auto") -> None:
        self.tol, self.start = tol, start

    def fits(self, train: Samples, points: Sequence[Point]) -> Iterator[Fit]:
        model = train.model()
        for (lam, theta), group in groupby(points, key=lambda point: (point["lam"], point["theta"])):
            yield from self._family(model, MCP(lam, theta), list(group))

    def _family(self, model: LinearModel, constraint: MCP, points: list[Point]) -> Iterator[Fit]:
        began = time.perf_counter()
        levels = [point["eta"] for point in points]
        with noted():  # what a path warns of is in its statuses
            found = path(Problem(model, constraint, max(levels)), levels, tol=self.tol, start=self.start)
        seconds = (time.perf_counter() - began) / len(points)
        for point in points:
            i = int(np.searchsorted(found.levels, point["eta"]))
            yield Fit(point, found.x(i), seconds, round(found.n_grad / len(found)), _note(found, i))


def _note(found: Path, i: int) -> str:
    status, certificate = found.statuses[i], found.certificates[i]
    return "" if status.success else f"{status}, KKT residual {certificate.kkt:.1e}"
