"""The levels η_1 ≤ η_2 ≤ … → η of Algorithm 1.

The paper raises the level little by little, so that every subproblem is strictly feasible. For the
functions of its Table 2 the origin is strictly feasible at every level anyway (its own footnote),
so a constant level is sound, and it is by far the fastest: with harmonic levels the complementarity
y(η − η_k) falls only as 1/k.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import count

from levelprox._validation import option, real
from levelprox.exceptions import InvalidInputError


@dataclass(frozen=True, kw_only=True)
class Levels(ABC):
    """A rule that names η_k for k = 1, 2, ….

    Parameters
    ----------
    eta0 : float, optional
        η_0 with g(x^0) < η_0 < η (Assumption 2). By default half-way between g(x^0) and η.
    """

    eta0: float | None = None

    def start(self, level: float, g_start: float) -> float:
        """η_0, checked against the start."""
        if self.eta0 is None:
            return (g_start + level) / 2
        eta0 = real("eta0", self.eta0)
        if not g_start <= eta0 <= level:
            raise InvalidInputError(f"eta0 must be in [g(x0), level] = [{g_start:g}, {level:g}], got {eta0:g}")
        return eta0

    def sequence(self, level: float, g_start: float) -> Iterator[float]:
        """η_1, η_2, … for ever; never above η."""
        eta0 = self.start(level, g_start)
        return (min(self.at(k, eta0, level), level) for k in count(1))

    @abstractmethod
    def at(self, k: int, eta0: float, level: float) -> float:
        """η_k."""


@dataclass(frozen=True, kw_only=True)
class Constant(Levels):
    """η_k = η."""

    def at(self, k: int, eta0: float, level: float) -> float:
        return level


@dataclass(frozen=True, kw_only=True)
class Harmonic(Levels):
    """The paper's: δ_k = (η − η_0)/(k(k+1)), so η_k = η − (η − η_0)/(k+1) (Theorem "complexity_main")."""

    def at(self, k: int, eta0: float, level: float) -> float:
        return level - (level - eta0) / (k + 1)


@dataclass(frozen=True, kw_only=True)
class Geometric(Levels):
    """η_k = η − (η − η_0) ratio^k.

    Parameters
    ----------
    ratio : float, default=0.5
        In (0, 1).
    """

    ratio: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < real("ratio", self.ratio) < 1:
            raise InvalidInputError(f"ratio must be in (0, 1), got {self.ratio}")

    def at(self, k: int, eta0: float, level: float) -> float:
        return level - (level - eta0) * self.ratio**k


LEVELS: dict[str, type[Levels]] = {"constant": Constant, "geometric": Geometric, "harmonic": Harmonic}


def levels_by_name(levels: str | Levels) -> Levels:
    """The rule itself, or the one of that name with its defaults."""
    if isinstance(levels, Levels):
        return levels
    if isinstance(levels, str) and option(levels) in LEVELS:
        return LEVELS[option(levels)]()
    near = get_close_matches(str(levels), LEVELS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidInputError(
        f"levels must be one of {', '.join(sorted(LEVELS))} or a Levels object, got {levels!r}{hint}"
    )
