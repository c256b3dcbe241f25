"""scikit-learn estimators: sparse models under a budget, `fit` and `predict`."""

from levelprox.estimators.certifying import certify_model
from levelprox.estimators.claims import Claim, Claims
from levelprox.estimators.classifier import SparseClassifier
from levelprox.estimators.classifier_cv import SparseClassifierCV
from levelprox.estimators.regressor import SparseRegressor
from levelprox.estimators.regressor_cv import SparseRegressorCV
from levelprox.estimators.saving import load

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
