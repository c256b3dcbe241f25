"""The sparsity constraints g(x) = Σ_j ω_j φ(|x_j|): functions φ by how they end, constant or rising."""

from levelprox.constraints._base import Constraint, Rescaled
from levelprox.constraints.clipped import MCP, SCAD
from levelprox.constraints.custom import Custom
from levelprox.constraints.increasing import L1, Exp, Log, Lp, NegativeLp
from levelprox.exceptions import warn

CONSTRAINT_TYPES: tuple[type[Constraint], ...] = (L1, MCP, SCAD, Exp, Log, Lp, NegativeLp, Custom)

__all__ = [
    "CONSTRAINT_TYPES",
    "L1",
    "MCP",
    "SCAD",
    "Constraint",
    "Custom",
    "Exp",
    "Log",
    "Lp",
    "NegativeLp",
    "Rescaled",
]


def __getattr__(name: str) -> type[Constraint]:
    """Return a class by its name of version 0.1."""
    if name != "Widened":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn("constraints.Widened is deprecated: it is constraints.Rescaled", DeprecationWarning)
    return Rescaled
