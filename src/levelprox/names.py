"""The public names of the package, and where each of them comes from; `levelprox` hands them on."""

from importlib import import_module
from typing import TYPE_CHECKING

from levelprox import constraints, designs, levels, losses, objectives, report, subsolvers, theory
from levelprox.budget import best_subset
from levelprox.certificate import Certificate, certify
from levelprox.designs import open_chunked
from levelprox.errors import (
    BackendError,
    CheckpointError,
    FileFormatError,
    InfeasibleError,
    InvalidInputError,
    LevelproxError,
    NumericalError,
)
from levelprox.io.checkpoint import Checkpoint
from levelprox.nearby import Nearby, expected_kkt, nearby_kkt
from levelprox.objectives import Function, LinearModel, MultinomialModel, OneVsRestModel, Stochastic
from levelprox.objectives.anywhere import linear_model
from levelprox.path import Path, path, subset_path
from levelprox.problem import Problem
from levelprox.projection import project
from levelprox.report import ConvergenceDisplay, CVDisplay, ModelSummary, PathDisplay, Stability, StabilityDisplay
from levelprox.result import Iterate, Record, Result, Status
from levelprox.solve import minimize, solve
from levelprox.subset import Additions, Exchanges, Subset, SubsetCertificate, SubsetRecord

if TYPE_CHECKING:
    from levelprox import estimators
    from levelprox.estimators import (
        SparseClassifier,
        SparseClassifierCV,
        SparseRegressor,
        SparseRegressorCV,
        certify_model,
        load,
    )

__all__ = [
    "Additions",
    "BackendError",
    "CVDisplay",
    "Certificate",
    "Checkpoint",
    "CheckpointError",
    "ConvergenceDisplay",
    "Exchanges",
    "FileFormatError",
    "Function",
    "InfeasibleError",
    "InvalidInputError",
    "Iterate",
    "LevelproxError",
    "LinearModel",
    "ModelSummary",
    "MultinomialModel",
    "Nearby",
    "NumericalError",
    "OneVsRestModel",
    "Path",
    "PathDisplay",
    "Problem",
    "Record",
    "Result",
    "SparseClassifier",
    "SparseClassifierCV",
    "SparseRegressor",
    "SparseRegressorCV",
    "Stability",
    "StabilityDisplay",
    "Status",
    "Stochastic",
    "Subset",
    "SubsetCertificate",
    "SubsetRecord",
    "best_subset",
    "certify",
    "certify_model",
    "constraints",
    "designs",
    "estimators",
    "expected_kkt",
    "levels",
    "linear_model",
    "load",
    "losses",
    "minimize",
    "nearby_kkt",
    "objectives",
    "open_chunked",
    "path",
    "project",
    "report",
    "solve",
    "subset_path",
    "subsolvers",
    "theory",
]

# What needs more of scikit-learn than the solver does is imported when it is first asked for.
_LATER = (
    "SparseClassifier",
    "SparseClassifierCV",
    "SparseRegressor",
    "SparseRegressorCV",
    "certify_model",
    "estimators",
    "load",
)


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'levelprox' has no attribute {name!r}")
    module = import_module("levelprox.estimators")
    return module if name == "estimators" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
