"""A subsolver returns a feasible, better point of one LCPP subproblem.

It promises two things whatever stops it: the point it returns is in the surrogate set, and ψ_k there
is not above ψ_k(x^{k−1}) (deterministic subsolvers). How accurate the point is, each says itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from levelprox.objectives import Objective
from levelprox.result import Iterate
from levelprox.subproblem import Subproblem


@dataclass(frozen=True)
class Subsolver(ABC):
    """Solves subproblems."""

    name: ClassVar[str]
    #: What it asks of ψ, in words.
    needs: ClassVar[str]

    @classmethod
    @abstractmethod
    def can_take(cls, objective: Objective) -> bool:
        """Whether ψ has the traits this subsolver needs."""

    def is_monotone(self, objective: Objective) -> bool:
        """Whether ψ_k never rises: true unless only samples of ψ are looked at."""
        return True

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
