"""A subsolver returns a feasible, better point of one LCPP subproblem.

Whatever stops it, the point it returns is in the surrogate set; and, where it sees all of ψ and not only
samples of it, ψ_k there is not above ψ_k(x^{k−1}). How accurate the point is, each says itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from levelprox.methods.subproblem import Subproblem
from levelprox.objectives import Coordinates, Objective
from levelprox.result import Iterate

Vector = NDArray[np.float64]

_LAST_DIGITS = 4 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Subsolver(ABC):
    """Solves subproblems."""

    name: ClassVar[str]
    #: What it asks of ψ, in words.
    needs: ClassVar[str]
    #: Whether ψ_k never rises, unless ψ is sampled.
    monotone: ClassVar[bool] = True
    #: Whether it is at its best on a few features at a time.
    on_working_sets: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def can_take(cls, objective: Objective) -> bool:
        """Whether ψ has the traits this subsolver needs."""

    def is_random(self, objective: Objective) -> bool:
        """Whether only samples of ψ are looked at, so that the answer depends on `rng`."""
        return objective.sampled

    def warning(self, objective: Objective) -> str:
        """What to warn of before a run on ψ; may be empty."""
        return ""

    def forms_models(self, objective: Objective) -> bool:
        """Whether it works with second-order models of ψ that can be held as matrices."""
        return False

    def coordinates(self, objective: Objective, centred: bool) -> Coordinates | None:
        """In which coordinates it measures lengths; None is x itself.

        Parameters
        ----------
        objective : Objective
        centred : bool
            Whether the intercept, where there is one, may take up the means of columns.
        """
        return None

    def proximal_weight(self, objective: Objective) -> float:
        """γ where none is asked for: 3μ for nonconvex ψ (the paper's), else a small part of its curvature."""
        return 3 * objective.weak_convexity or 1e-3 * objective.curvature

    @abstractmethod
    def limited_to(self, steps: int) -> Subsolver:
        """The same subsolver with at most so many inner steps."""

    @abstractmethod
    def solve(
        self,
        subproblem: Subproblem,
        start: Iterate,
        tolerance: float = 0.0,
        seconds: float = 1e300,
        rng: np.random.Generator | None = None,
    ) -> Iterate:
        """A better point, started from x^{k−1}.

        Parameters
        ----------
        subproblem : Subproblem
        start : Iterate
            x^{k−1} with ψ and ∇ψ there.
        tolerance : float
            No need to go below this residual, in units of ∇ψ.
        seconds : float
            Time left.
        rng : Generator, optional
            Where samples come from; only subsolvers that sample ask for it.
        """


def arrived(subproblem: Subproblem, start: Iterate, x: Vector, keep_better: bool) -> Iterate:
    """The iterate at x, with ψ evaluated there; `start` where ψ is not finite at x or, if asked, ψ_k higher."""
    if np.array_equal(x, start.x):
        return replace(start, stop="", n_grad=0)
    (psi, gradient), cost = subproblem.objective.value_and_gradient(x), subproblem.objective.evaluation_cost
    if not (np.isfinite(psi) and np.all(np.isfinite(gradient))):
        return replace(start, stop="not finite", n_grad=cost)
    before, after = subproblem.with_proximal(start.x, start.psi), subproblem.with_proximal(x, psi)
    if keep_better and after > before + _LAST_DIGITS * abs(before):
        return replace(start, stop="no decrease", n_grad=cost)
    return replace(start, x=x, psi=psi, gradient=gradient, stop="", n_grad=cost)
