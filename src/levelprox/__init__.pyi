"""The public names for type checkers; `__init__.py` imports each at its first use."""

from levelprox import constraints as constraints
from levelprox import designs as designs
from levelprox import estimators as estimators
from levelprox import losses as losses
from levelprox import objectives as objectives
from levelprox import report as report
from levelprox import theory as theory
from levelprox._best_subset import best_subset as best_subset
from levelprox._path import Path as Path
from levelprox._path import path as path
from levelprox._path import subset_path as subset_path
from levelprox._solve import minimize as minimize
from levelprox._solve import solve as solve
from levelprox.backends import linear_model as linear_model
from levelprox.certificate import Certificate as Certificate
from levelprox.certificate import certify as certify
from levelprox.designs import open_chunked as open_chunked
from levelprox.driver import drive as drive
from levelprox.estimators import SparseClassifier as SparseClassifier
from levelprox.estimators import SparseClassifierCV as SparseClassifierCV
from levelprox.estimators import SparseRegressor as SparseRegressor
from levelprox.estimators import SparseRegressorCV as SparseRegressorCV
from levelprox.estimators import certify_model as certify_model
from levelprox.estimators import load as load
from levelprox.exceptions import BackendError as BackendError
from levelprox.exceptions import CheckpointError as CheckpointError
from levelprox.exceptions import ConvergenceWarning as ConvergenceWarning
from levelprox.exceptions import FileFormatError as FileFormatError
from levelprox.exceptions import InfeasibleError as InfeasibleError
from levelprox.exceptions import InvalidInputError as InvalidInputError
from levelprox.exceptions import LevelproxError as LevelproxError
from levelprox.exceptions import NumericalError as NumericalError
from levelprox.io.checkpoint import Checkpoint as Checkpoint
from levelprox.methods import Limits as Limits
from levelprox.methods import Method as Method
from levelprox.methods import Progress as Progress
from levelprox.methods import lcpp as _lcpp
from levelprox.methods import subsolvers as subsolvers
from levelprox.objectives import Function as Function
from levelprox.objectives import LinearModel as LinearModel
from levelprox.objectives import MultinomialModel as MultinomialModel
from levelprox.objectives import OneVsRestModel as OneVsRestModel
from levelprox.objectives import Stochastic as Stochastic
from levelprox.problem import Problem as Problem
from levelprox.projection import project as project
from levelprox.report import ConvergenceDisplay as ConvergenceDisplay
from levelprox.report import CVDisplay as CVDisplay
from levelprox.report import ModelSummary as ModelSummary
from levelprox.report import PathDisplay as PathDisplay
from levelprox.report import Stability as Stability
from levelprox.report import StabilityDisplay as StabilityDisplay
from levelprox.result import Iterate as Iterate
from levelprox.result import Record as Record
from levelprox.result import Result as Result
from levelprox.result import Status as Status
from levelprox.subset.result import Additions as Additions
from levelprox.subset.result import Subset as Subset
from levelprox.subset.result import SubsetCertificate as SubsetCertificate
from levelprox.subset.result import SubsetRecord as SubsetRecord
from levelprox.subset.result import Swaps as Swaps
from levelprox.theory.approximate_kkt import Nearby as Nearby
from levelprox.theory.approximate_kkt import expected_kkt as expected_kkt
from levelprox.theory.approximate_kkt import nearby_kkt as nearby_kkt

levels = _lcpp

__version__: str
__all__: list[str]
