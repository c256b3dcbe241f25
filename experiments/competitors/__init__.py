"""The paper's competitors and today's, each with the settings of the paper's experiments: one file each."""

from __future__ import annotations

from experiments.competitors.abess_subset import Abess
from experiments.competitors.base import Competitor, Fit, MissingError, Point, Samples
from experiments.competitors.gist import GIST, AuthorsGIST
from experiments.competitors.lasso import Lasso
from experiments.competitors.lcpp import LCPP, LCPPBB
from experiments.competitors.skglm_mcp import SkglmMCP

COMPETITORS: dict[str, Competitor] = {
    one.name: one for one in (LCPP(), LCPPBB(), GIST(), AuthorsGIST(), Lasso(), SkglmMCP(), Abess())
}


def competitor(name: str) -> Competitor:
    """By its name."""
    if name not in COMPETITORS:
        raise ValueError(f"no competitor is called {name!r}; there are {', '.join(COMPETITORS)}")
    return COMPETITORS[name]


__all__ = ["COMPETITORS", "Competitor", "Fit", "MissingError", "Point", "Samples", "competitor"]
