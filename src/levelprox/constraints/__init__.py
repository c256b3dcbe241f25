"""The sparsity constraints g(x) = Σ_j ω_j φ(|x_j|), one file per function φ."""

from levelprox.constraints._base import Constraint
from levelprox.constraints.custom import Custom
from levelprox.constraints.exponential import Exp
from levelprox.constraints.l1 import L1
from levelprox.constraints.logarithm import Log
from levelprox.constraints.lp import Lp
from levelprox.constraints.mcp import MCP
from levelprox.constraints.negative_lp import NegativeLp
from levelprox.constraints.rescaled import Widened
from levelprox.constraints.scad import SCAD

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
    "Widened",
]
