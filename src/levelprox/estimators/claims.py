"""What a model claims of itself, beside what its data say."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Figure = float | int | str | None

_WORDS = {True: "holds", False: "DOES NOT HOLD", None: "not examined"}


@dataclass(frozen=True)
class Claim:
    """One claim.

    Attributes
    ----------
    name : str
    claimed, found : float, int, str or None
        What the model says, None where it claims nothing; and what the data say.
    holds : bool or None
        None where it was not examined, or not so far that it could be decided.
    """

    name: str
    claimed: Figure
    found: Figure
    holds: bool | None

    def __post_init__(self) -> None:
        for name in ("claimed", "found", "holds"):
            value = getattr(self, name)
            if isinstance(value, np.generic):  # JSON knows Python's own only
                object.__setattr__(self, name, value.item())

    @property
    def words(self) -> tuple[str, str, str, str]:
        """As a row of a table."""
        if self.claimed is None and self.holds is None:
            return self.name, "—", "", "not claimed"
        return self.name, _shown(self.claimed), _shown(self.found), _WORDS[self.holds]


@dataclass(frozen=True)
class Claims:
    """What a model claims, and what its data say.

    Attributes
    ----------
    claims : tuple of Claim
    differences : tuple of str or None
        In what the data differ from those of the fit; None where the model does not know which these were.
    """

    claims: tuple[Claim, ...]
    differences: tuple[str, ...] | None

    @property
    def hold(self) -> bool:
        """Whether every claim holds that was examined."""
        return all(claim.holds is not False for claim in self.claims)

    @property
    def not_examined(self) -> tuple[str, ...]:
        """The claims that were not examined, or not so far that they could be decided."""
        return tuple(claim.name for claim in self.claims if claim.holds is None and claim.claimed is not None)

    @property
    def same_data(self) -> bool | None:
        """Whether the data are those of the fit; None where that is not known."""
        return None if self.differences is None else not self.differences

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "hold": self.hold,
            "not_examined": list(self.not_examined),
            "same_data": self.same_data,
            "differences": None if self.differences is None else list(self.differences),
            "claims": [asdict(claim) for claim in self.claims],
        }

    def __str__(self) -> str:
        rows = [("", "claimed", "found", "")]
        rows += [one.words for one in self.claims]
        name, claimed, found = (max(len(row[i]) for row in rows) for i in range(3))
        lines = [f"{row[0]:<{name}}  {row[1]:<{claimed}}  {row[2]:<{found}}  {row[3]}".rstrip() for row in rows]
        return "\n".join([self._about_the_data(), *lines])

    def _about_the_data(self) -> str:
        if self.differences is None:
            return "The model does not know to which data it was fitted."
        if not self.differences:
            return "The data are those of the fit."
        return f"Other data than those of the fit: they differ in {', '.join(self.differences)}."


def _shown(figure: Figure) -> str:
    if figure is None:
        return ""
    return f"{figure:.10g}" if isinstance(figure, float) else str(figure)
