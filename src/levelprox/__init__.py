"""Sparse models under an explicit budget, with a certificate.

    min ψ(x)   subject to   g(x) = Σ_j ω_j φ(x_j) ≤ η

See `solve` and `minimize` for the method, `constraints` for φ, `losses` and `objectives` for ψ,
`certify` for the proof of what came back.
"""

from importlib import metadata

from levelprox import constraints, designs, levels, losses, objectives, report, subsolvers, theory
from levelprox.budget import best_subset
from levelprox.certificate import Certificate, certify
from levelprox.errors import InfeasibleError, InvalidInputError, LevelproxError, NumericalError
from levelprox.nearby import Nearby, expected_kkt, nearby_kkt
from levelprox.objectives import Function, LinearModel, MultinomialModel, OneVsRestModel, Stochastic
from levelprox.path import Path, path, subset_path
from levelprox.problem import Problem
from levelprox.projection import project
from levelprox.result import Iterate, Record, Result, Status
from levelprox.solve import minimize, solve
from levelprox.subset import Exchanges, Subset, SubsetCertificate, SubsetRecord

__version__ = metadata.version("levelprox")

__all__ = [
    "Certificate",
    "Exchanges",
    "Function",
    "InfeasibleError",
    "InvalidInputError",
    "Iterate",
    "LevelproxError",
    "LinearModel",
    "MultinomialModel",
    "Nearby",
    "NumericalError",
    "OneVsRestModel",
    "Path",
    "Problem",
    "Record",
    "Result",
    "Status",
    "Stochastic",
    "Subset",
    "SubsetCertificate",
    "SubsetRecord",
    "best_subset",
    "certify",
    "constraints",
    "designs",
    "expected_kkt",
    "levels",
    "losses",
    "minimize",
    "nearby_kkt",
    "objectives",
    "path",
    "project",
    "report",
    "solve",
    "subset_path",
    "subsolvers",
    "theory",
]
