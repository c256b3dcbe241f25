"""scikit-learn's own checks of estimators, on every estimator with every loss; none is expected to fail."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV
from levelprox.estimators.classification import CLASSIFICATION_LOSSES
from levelprox.estimators.regression import REGRESSION_LOSSES

# The toy data of several checks are separable, where the coefficients of the best fit are infinite: the fit says so, and
# rightly. No other warning is let through.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FEW = {"n_features": [1, 2], "cv": 3}  # a grid that is over soon

SINGLE = [
    *(SparseClassifier(loss) for loss in CLASSIFICATION_LOSSES),
    *(SparseRegressor(loss) for loss in REGRESSION_LOSSES),
    *(
        kind(level=2.5, constraint=constraint)
        for kind in (SparseClassifier, SparseRegressor)
        for constraint in ("mcp", "l1")
    ),
    SparseClassifier(multi_class="ovr"),
    SparseClassifier(level=2.5, multi_class="ovr"),
    SparseClassifier("squared_hinge", standardize=False),
    SparseClassifier(fit_intercept=False),
    SparseRegressor("huber", standardize=False),
    SparseRegressor(fit_intercept=False),
]

CHOOSING = [
    *(SparseClassifierCV(loss, **FEW) for loss in CLASSIFICATION_LOSSES),
    *(SparseRegressorCV(loss, **FEW) for loss in REGRESSION_LOSSES),
    SparseClassifierCV(level=[1.5, 2.5], cv=3),
    SparseRegressorCV(level=[1.5, 2.5], cv=3, constraint="l1"),
    SparseClassifierCV(n_features=[1, 2], criterion="bic"),
]


@parametrize_with_checks([*SINGLE, *CHOOSING])
def test_scikit_learn_accepts(estimator, check):
    check(estimator)
