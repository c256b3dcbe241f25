"""The levels η_1 ≤ η_2 ≤ … → η of Algorithm 1.

The paper raises the level gradually, so that every subproblem is strictly feasible. For the
functions of its Table 2 the origin is strictly feasible at every level (a footnote of the paper),
so a constant level is valid, and it is by far the fastest: with harmonic levels the complementarity
y(η − η_k) decreases only as 1/k.
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
    """Base class of the rules for η_k, k = 1, 2, ….

    Parameters
    ----------
    eta0 : float, optional
        η_0 with g(x^0) < η_0 < η (Assumption 2). By default the midpoint of g(x^0) and η.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from itertools import islice
    >>> from levelprox.methods.levels import Levels
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Linear(Levels):
    ...     def at(self, k, eta0, level):
    ...         return eta0 + (level - eta0) * k / 4
    >>> list(islice(Linear(eta0=0.0).sequence(level=2.0, g_start=0.0), 5))
    [0.5, 1.0, 1.5, 2.0, 2.0]
    """

    eta0: float | None = None

    def start(self, level: float, g_start: float) -> float:
        """Return η_0, after checking it against g(x^0) and η."""
        if self.eta0 is None:
            return (g_start + level) / 2
        eta0 = real("eta0", self.eta0)
        if not g_start <= eta0 <= level:
            raise InvalidInputError(f"eta0 must be in [g(x0), level] = [{g_start:g}, {level:g}], got {eta0:g}")
        return eta0

    def sequence(self, level: float, g_start: float) -> Iterator[float]:
        """Return the infinite sequence η_1, η_2, …, never above η."""
        eta0 = self.start(level, g_start)
        return (min(self.at(k, eta0, level), level) for k in count(1))

    @abstractmethod
    def at(self, k: int, eta0: float, level: float) -> float:
        """Return η_k."""


@dataclass(frozen=True, kw_only=True)
class Constant(Levels):
    """Constant levels, η_k = η.

    Parameters
    ----------
    eta0 : float, optional
        Not used by this rule.

    Examples
    --------
    >>> from levelprox.methods.levels import Constant
    >>> Constant().at(1, eta0=1.0, level=2.0)
    2.0
    """

    def at(self, k: int, eta0: float, level: float) -> float:
        """Return η."""
        return level


@dataclass(frozen=True, kw_only=True)
class Harmonic(Levels):
    """The paper's levels: δ_k = (η − η_0)/(k(k+1)), so η_k = η − (η − η_0)/(k+1) (Theorem "complexity_main").

    Parameters
    ----------
    eta0 : float, optional
        η_0. By default the midpoint of g(x^0) and η.

    Examples
    --------
    >>> from levelprox.methods.levels import Harmonic
    >>> [Harmonic().at(k, eta0=1.0, level=2.0) for k in (1, 3, 9)]
    [1.5, 1.75, 1.9]
    """

    def at(self, k: int, eta0: float, level: float) -> float:
        """Return η − (η − η_0)/(k+1)."""
        return level - (level - eta0) / (k + 1)


@dataclass(frozen=True, kw_only=True)
class Geometric(Levels):
    """Geometric levels, η_k = η − (η − η_0) ratio^k.

    Parameters
    ----------
    eta0 : float, optional
        η_0. By default the midpoint of g(x^0) and η.
    ratio : float, default=0.5
        In (0, 1).

    Examples
    --------
    >>> from levelprox.methods.levels import Geometric
    >>> [Geometric(ratio=0.5).at(k, eta0=1.0, level=2.0) for k in (1, 2, 3)]
    [1.5, 1.75, 1.875]
    """

    ratio: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < real("ratio", self.ratio) < 1:
            raise InvalidInputError(f"ratio must be in (0, 1), got {self.ratio}")

    def at(self, k: int, eta0: float, level: float) -> float:
        """Return η − (η − η_0) ratio^k."""
        return level - (level - eta0) * self.ratio**k


LEVELS: dict[str, type[Levels]] = {"constant": Constant, "geometric": Geometric, "harmonic": Harmonic}


def levels_by_name(levels: str | Levels) -> Levels:
    """Return a rule by name, with its default parameters.

    Parameters
    ----------
    levels : str or Levels
        "constant", "geometric" or "harmonic", or a rule, which is returned unchanged.

    Returns
    -------
    Levels
        The rule.

    Examples
    --------
    >>> from levelprox.methods.levels import levels_by_name
    >>> levels_by_name("geometric")
    Geometric(eta0=None, ratio=0.5)
    """
    if isinstance(levels, Levels):
        return levels
    if isinstance(levels, str) and option(levels) in LEVELS:
        return LEVELS[option(levels)]()
    near = get_close_matches(str(levels), LEVELS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidInputError(
        f"levels must be one of {', '.join(sorted(LEVELS))} or a Levels object, got {levels!r}{hint}"
    )
