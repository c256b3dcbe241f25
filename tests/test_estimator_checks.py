"""scikit-learn's own checks of estimators, on every estimator with every loss; none is expected to fail."""

from __future__ import annotations

import os

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV
from levelprox.estimators.classification import CLASSIFICATION_LOSSES
from levelprox.estimators.regression import REGRESSION_LOSSES

# The toy data of several checks are separable, where the coefficients of the best fit are infinite: the fit says so,
# and rightly. No other warning is let through.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FEW = {"n_features": [1, 2], "cv": 2}  # a grid that is over soon

SINGLE = [
    *(SparseClassifier(loss) for loss in CLASSIFICATION_LOSSES),
    *(SparseRegressor(loss) for loss in REGRESSION_LOSSES),
    # A ball that holds no perfect fit of the few samples of a check: there would be many of them.
    *(
        kind(level=level, constraint=constraint)
        for kind in (SparseClassifier, SparseRegressor)
        for constraint, level in (("mcp", 2.5), ("l1", 0.5))
    ),
    SparseClassifier(multi_class="ovr"),
    SparseClassifier(level=2.5, multi_class="ovr"),
    SparseClassifier("squared_hinge", standardize=False),
    SparseRegressor("huber", standardize=False),
    # No classifier: check_class_weight_classifiers wants nearly all samples put in one class, which none through the
    # origin can do.
    SparseRegressor(fit_intercept=False),
]

# Fits of these take long, and the checks of a choice have hundreds: `make test-long`. Single fits are checked above.
SLOW = () if os.environ.get("LEVELPROX_LONG_TESTS") else ("hinge", "sigmoid", "quantile", "absolute", "cauchy")

CHOOSING = [
    *(SparseClassifierCV(loss, **FEW) for loss in CLASSIFICATION_LOSSES if loss not in SLOW),
    *(SparseRegressorCV(loss, **FEW) for loss in REGRESSION_LOSSES if loss not in SLOW),
    SparseClassifierCV(level=[1.5, 2.5], cv=2),
    SparseRegressorCV(level=[0.3, 0.5], cv=2, constraint="l1"),
    SparseClassifierCV(n_features=[1, 2], criterion="bic"),
]


@parametrize_with_checks([*SINGLE, *CHOOSING])
def test_scikit_learn_accepts(estimator, check):
    check(estimator)
