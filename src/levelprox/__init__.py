"""Sparse models under an explicit budget, with a certificate.

    min ψ(x)   subject to   g(x) = Σ_j ω_j φ(x_j) ≤ η

See `solve` and `minimize` for the method, `constraints` for φ, `losses` and `objectives` for ψ,
`certify` for the proof of what came back.
"""

from importlib import metadata

from levelprox import constraints, designs, levels, losses, objectives, report, subsolvers
from levelprox.certificate import Certificate, certify
from levelprox.errors import InfeasibleError, InvalidInputError, LevelproxError, NumericalError
from levelprox.objectives import Function, LinearModel
from levelprox.problem import Problem
from levelprox.projection import project
from levelprox.result import Iterate, Record, Result, Status
from levelprox.solve import minimize, solve

__version__ = metadata.version("levelprox")

__all__ = [
    "Certificate",
    "Function",
    "InfeasibleError",
    "InvalidInputError",
    "Iterate",
    "LevelproxError",
    "LinearModel",
    "NumericalError",
    "Problem",
    "Record",
    "Result",
    "Status",
    "certify",
    "constraints",
    "designs",
    "levels",
    "losses",
    "minimize",
    "objectives",
    "project",
    "report",
    "solve",
    "subsolvers",
]
