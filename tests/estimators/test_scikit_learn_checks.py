"""scikit-learn's own checks of estimators, on every estimator with every loss; none is expected to fail."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV
from levelprox.estimators._parameters import CLASSIFICATION_LOSSES, REGRESSION_LOSSES
from tests.support.long_runs import LONG

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
    SparseClassifier(level=2.5, multi_class="ovr", tol=1e-10),
    SparseClassifier("squared_hinge", standardize=False),
    SparseRegressor("huber", standardize=False),
    # No classifier: check_class_weight_classifiers requires nearly all samples in one class, which none through the
    # origin can do.
    SparseRegressor(fit_intercept=False),
]


# A choice has hundreds of fits in its checks: here both kinds by folds, a grid of levels, and a criterion. The losses
# and the budgets of a choice are those of single fits, which are all checked above.
CHOOSING = [
    SparseClassifierCV("squared_hinge", **FEW),
    SparseRegressorCV(**FEW),
    SparseRegressorCV(level=[0.3, 0.5], cv=2, constraint="l1"),
    SparseRegressorCV(n_features=[1, 2], criterion="bic"),
]

# Every loss, levels and criteria of both: `make test-long`.
CHOOSING_LONG = [
    *(SparseClassifierCV(loss, **FEW) for loss in CLASSIFICATION_LOSSES if loss != "squared_hinge"),
    *(SparseRegressorCV(loss, **FEW) for loss in REGRESSION_LOSSES if loss != "squared"),
    SparseClassifierCV(level=[1.5, 2.5], cv=2),
    SparseClassifierCV(n_features=[1, 2], criterion="bic"),
]

# Checks of a dozen fits each that say the same again where fits take long: an array in the same formats is checked for
# a choice, and test_estimator_symmetries has sparse data and weights for every loss.
SLOW = ("hinge", "sigmoid", "quantile", "absolute")
AGAIN = ("check_estimator_sparse_matrix",)
AGAIN_IF_SLOW = (*AGAIN, "check_estimator_sparse_array", "check_sample_weight_equivalence_on_sparse_data")


def is_left_out(estimator, check) -> bool:
    chooses = isinstance(estimator, SparseClassifierCV | SparseRegressorCV)
    return check in (AGAIN if chooses else AGAIN_IF_SLOW if estimator.loss in SLOW else ()) and not LONG


# Both kinds, counts and levels, a loss with kinks, one of counts, data as they are, a choice.
EIGHT = [
    SparseClassifier(),
    SparseClassifier(level=0.5, constraint="l1"),
    SparseClassifier("squared_hinge", standardize=False),
    SparseRegressor(),
    SparseRegressor("absolute"),
    SparseRegressor("poisson"),
    SparseRegressor(level=2.5, constraint="mcp"),
    SparseRegressorCV(level=[0.3, 0.5], cv=2, constraint="l1"),
]
REPRS = {repr(one) for one in EIGHT}


def not_defined(estimator):
    """Checks of figures that are not defined on their data.

    The best feature of the 15 samples of three classes separates one class: the probabilities of a fit without a
    minimiser depend on where it stops.
    """
    names = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return dict.fromkeys(names, "the loss has no minimiser") if repr(estimator) == "SparseClassifier()" else {}


@parametrize_with_checks(EIGHT, expected_failed_checks=not_defined)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


def test_the_eight_are_some_of_all():
    assert len(REPRS & {repr(one) for one in (*SINGLE, *CHOOSING)}) == 8


@pytest.mark.extended
@parametrize_with_checks(
    [one for one in (*SINGLE, *CHOOSING, *(CHOOSING_LONG if LONG else [])) if repr(one) not in REPRS]
)
def test_scikit_learn_accepts_the_others(estimator, check):
    if is_left_out(estimator, check.func.__name__):
        pytest.skip("needs --long")
    check(estimator)
