"""Whether what a fitted model claims of itself holds: all of it recomputed from data that are brought along.

Claimed are the figures of `certificate_`, the constraint, the status and the scale of the columns. Coefficients,
intercept and scale_ are the model's; ψ, its gradient, the null fit and the columns' deviations are computed afresh:

    ψ, scale of ∇ψ      within 1e-9 of themselves, ψ also within the rounding of margins
    g, level, features  g ≤ level and at most k exactly; g within 1e-9 of the level
    costs               no more than the budget, by exact sums
    KKT, stationarity   no more than claimed, but for 1e-9 and what rounding coef_ and intercept_ does to the margins
    multiplier          within 1000 times that, of itself; 1e-3 where the loss has kinks; complementarity likewise
    gain of one more    within 1e-6 of ψ, and no other feature that is refitted gains more than that above it
    columns             scale_ and the constraint's numbers within 1e-9

What is not recomputed is listed as not examined; so is a figure that differs by more than 1e-6 of ψ, and by less than
the rounding of the margins.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from levelprox._runtime.blas import one_blas_thread
from levelprox.driver.fingerprint import fingerprint
from levelprox.estimators.claims import Claim, Claims
from levelprox.estimators.level_claims import LevelClaims
from levelprox.estimators.recomputed import RELATIVE_TOLERANCE, task_of
from levelprox.estimators.subset_claims import SubsetClaims
from levelprox.exceptions import ConvergenceWarning, InvalidInputError
from levelprox.report.fitted import check_ours

Vector = NDArray[np.float64]


def certify_model(
    model: Any,
    X: object,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    prove: bool = False,
    **more: ArrayLike | None,
) -> Claims:
    """Recompute from the data what a fitted model claims of itself, and compare.

    Parameters
    ----------
    model : SparseClassifier, SparseRegressor or one of their CV twins
        Fitted, or loaded.
    X, y, sample_weight
        The data of the fit; of others with the same features and classes the same is computed, and does not agree.
    prove : bool, default=False
        Whether to refit with every further feature and to examine all swaps of one feature for another again, however
        long that takes. By default swaps are not examined again, and of further features as many as are little work.
    **more
        `offset` and `exposure`, as in `fit`.

    Returns
    -------
    Claims
        `claims.hold` says whether every claim holds that was examined, `claims.not_examined` names those that were
        not, `print(claims)` shows both.

    Raises
    ------
    InvalidInputError
        Where the data do not suit the model, or it claims nothing: after `partial_fit` there is no certificate.
    """
    check_ours("certify_model", model)
    check_is_fitted(model)
    if not hasattr(model, "certificate_"):
        raise InvalidInputError("a model fitted from a stream claims nothing: it has no certificate to recompute")
    target: NDArray[Any]
    data, target = model._read(X, y, reset=False, **({} if is_classifier(model) else {"y_numeric": True}))
    design, weight = model._design(data), model._weights(sample_weight, data.shape[0])
    given = {name: np.asarray(values) for name, values in more.items() if values is not None}
    known = getattr(model, "data_fingerprint_", None)
    differences = None if known is None else known.differences(fingerprint(design, target, weight, **given))
    _check_classes(model, target, weight)
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the figures say it
        task, scale = task_of(model, design, target, weight, given)
        if hasattr(model, "constraint_"):
            figures = LevelClaims(model, task).claims()
        else:
            figures = SubsetClaims(model, task).claims(prove)
    return Claims((*figures, _scale_claim(model, scale), *_claims_of_the_run(model)), differences)


def _check_classes(model: Any, y: NDArray[Any], weight: Vector | None) -> None:
    if not is_classifier(model):
        return
    present = np.unique(y if weight is None else y[weight > 0])
    if not np.array_equal(present, model.classes_):
        raise InvalidInputError(
            f"y has the classes {present.tolist()}, the model {model.classes_.tolist()}: it claims nothing of such data"
        )


def _scale_claim(model: Any, scale: Vector) -> Claim:
    with np.errstate(over="ignore"):
        apart = float(np.max(np.abs(model.scale_ / scale - 1), initial=0.0))
    found = f"within {apart:.1e}" if apart else "the same"
    return Claim("scale_ of the columns", "deviations of X", found, apart <= RELATIVE_TOLERANCE)


def _claims_of_the_run(model: Any) -> list[Claim]:
    """List what only the run knows: how it went, and how a budget was chosen."""
    names = ["message_, history_, n_iter_"]
    if hasattr(model, "cv_results_"):
        names.append("cv_results_, best_score_")
    return [Claim(name, "of the run", None, None) for name in names]
