"""scikit-learn estimators: sparse models under a budget, `fit` and `predict`."""

from levelprox.estimators._claims import Claim, Claims
from levelprox.estimators._classifier import SparseClassifier
from levelprox.estimators._cv import SparseClassifierCV, SparseRegressorCV
from levelprox.estimators._regressor import SparseRegressor
from levelprox.estimators.persistence import load
from levelprox.estimators.verification import certify_model

__all__ = [
    "Claim",
    "Claims",
    "SparseClassifier",
    "SparseClassifierCV",
    "SparseRegressor",
    "SparseRegressorCV",
    "certify_model",
    "load",
]
