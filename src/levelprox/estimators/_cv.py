"""SparseClassifierCV and SparseRegressorCV: the number of features, or the level, is chosen from a grid."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

from numpy.typing import ArrayLike

from levelprox.estimators._callbacks import fitting, with_callbacks
from levelprox.estimators._classifier import ClassificationMixin, SparseClassifier
from levelprox.estimators._cross_validation import BudgetChoiceMixin
from levelprox.estimators._regressor import RegressionMixin, SparseRegressor


@dataclass(eq=False, repr=False)
class SparseClassifierCV(ClassificationMixin, BudgetChoiceMixin):
    """SparseClassifier with the number of features, or the level, chosen from a grid.

    Every candidate is scored on the same folds. Levels of one fold are solved one after another, each starting from the
    last. For at most k features the fit of a fold does not depend on the other candidates; its search is shorter than
    that of a single fit, and shows nothing. The best candidate is fitted to all data. Coefficients are never averaged.

    Parameters
    ----------
    loss
        As in `SparseClassifier`.
    n_features : int or sequence of int, optional
        Numbers of features to choose from, in any order. Without n_features and level: 0, 1, 2, 3, 4, 5, 6, 8, 10, 12,
        15, 20, 25 and 30, as far as there are features; for an information criterion at most one for every ten samples.
    level : float or sequence of float, optional
        Levels to choose from.
    budget : float or sequence of float, optional
        Budgets of costs to choose from, with `feature_cost`; `n_features` is then one number, or None.
    ridge : float, "auto" or sequence of float, default="auto"
        Of several the best is chosen together with the budget. "auto" chooses n_features and the ridge together by the
        folds: none where no fold needs one, else one for all folds, of several the largest whose score is within one
        standard error of the best for the same n_features (docs/estimators.md). With levels, an information criterion
        or data outside memory each fit with "auto" chooses as in `SparseClassifier`. `one_standard_error` chooses the
        smallest budget within one standard error of the best and, for it, the largest ridge. A sequence is for data in
        memory.
    criterion : {"cv", "aic", "bic", "ebic"}, default="cv"
        "cv" chooses the highest mean score over folds; the others the lowest information criterion of the fits of all
        data, without folds, for losses that are likelihoods (docs/estimators.md). Fits without a minimiser, as on
        separable data, have no criterion and are left out.
    cv : int, splitter or iterable, optional
        Folds, as everywhere in scikit-learn; 5 by default, stratified.
    scoring : str or callable, optional
        A scorer, as everywhere in scikit-learn. By default the negative mean loss ψ of the held-out samples; if the fit
        of some fold has no minimiser, as on separable data, the accuracy of all candidates instead, with a warning.
        Where scores are not finite, candidates are ranked by the median over folds, with a warning.
    one_standard_error : bool, default=False
        Whether to choose the smallest budget whose mean score is within one standard error of the best.
    n_jobs : int, optional
        Processes that fit folds (joblib); the answer does not depend on it.
    constraint, feature_weight, keep, feature_cost, fit_intercept, standardize, class_weight
        As in `SparseClassifier`.
    multi_class, positive
        As in `SparseClassifier`.
    tol, max_iter, time_limit, subsolver, start
        As in `SparseClassifier`; `time_limit` is for each fit.
    checkpoint, resume
        As in `SparseClassifier`; the file has the scores of finished folds, and the state of the last fit.
    device, random_state, verbose, callback
        As in `SparseClassifier`; `verbose` also shows the progress over folds, `callback` is called for the last fit.

    Attributes
    ----------
    cv_results_ : dict of ndarrays
        "n_features", "budget" or "level", "ridge" where it is chosen, and for criterion="cv" "split0_test_score", …,
        "mean_test_score",
        "std_test_score", "standard_error", "rank_test_score", "mean_n_selected", "mean_fit_time", "n_unsolved", the
        number of folds whose fit did not end at a minimiser, and "n_diverging", the number of those that have none;
        where scores are not finite also "median_test_score". Else the criterion by its name, nan where it is not
        defined, "loss" (ψ), "n_selected", "df" and "diverging".
    best_index_ : int
        The row of `cv_results_` that was chosen.
    best_params_ : dict
        {"n_features": …}, {"budget": …} or {"level": …}, with "ridge" where that was chosen, too; with "auto" and
        without "ridge", the fit of all data decides whether it needs one.
    best_score_ : float
        Its mean score, or its criterion.
    scoring_ : str, callable or None
        The score by which it was chosen: `scoring`, or "accuracy" where fits diverge.
    coef_, intercept_, classes_, certificate_, multiplier_, level_, ridge_, scale_, constraint_
        Of the fit of all data, as in `SparseClassifier`.
    status_, message_, n_iter_, history_
        Of the fit of all data, as in `SparseClassifier`.
    selected_features_, n_features_in_, feature_names_in_, data_fingerprint_
        As in `SparseClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import SparseClassifierCV
    >>> X = np.random.default_rng(0).standard_normal((120, 30))
    >>> y = X[:, 3] - 2 * X[:, 7] + np.random.default_rng(1).standard_normal(120) > 0
    >>> model = SparseClassifierCV(n_features=[1, 2, 3, 4]).fit(X, y)
    >>> model.best_params_, model.selected_features_.tolist()
    ({'n_features': 2}, [3, 7])
    """

    _: KW_ONLY
    n_features: ArrayLike | None = None
    level: ArrayLike | None = None
    budget: ArrayLike | None = None
    ridge: float | Literal["auto"] | ArrayLike = "auto"

    _single_type = SparseClassifier

    @with_callbacks
    def fit(self, X: object, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any) -> Self:
        """Choose the budget, then fit all data with it.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Classes: numbers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 is a repeated sample, a weight of 0 a removed one; used by fits and by scores.
        **params
            `groups` for the folds; with metadata routing, the metadata that folds and score require.

        Returns
        -------
        self
        """
        with fitting(self, X, y, sample_weight):
            return self._choose_and_fit(self._samples(X, y, sample_weight), params)


@dataclass(eq=False, repr=False)
class SparseRegressorCV(RegressionMixin, BudgetChoiceMixin):
    """SparseRegressor with the number of features, or the level, chosen from a grid.

    Every candidate is scored on the same folds. Levels of one fold are solved one after another, each starting from the
    last. For at most k features the fit of a fold does not depend on the other candidates; its search is shorter than
    that of a single fit, and shows nothing. The best candidate is fitted to all data. Coefficients are never averaged.

    Parameters
    ----------
    loss
        As in `SparseRegressor`.
    n_features : int or sequence of int, optional
        Numbers of features to choose from, in any order. Without n_features and level: 0, 1, 2, 3, 4, 5, 6, 8, 10, 12,
        15, 20, 25 and 30, as far as there are features; for an information criterion at most one for every ten samples.
    level : float or sequence of float, optional
        Levels to choose from.
    budget : float or sequence of float, optional
        Budgets of costs to choose from, with `feature_cost`; `n_features` is then one number, or None.
    ridge : float or sequence of float, default=0
        As in `SparseRegressor`; of several the best is chosen together with the budget. `one_standard_error` chooses
        the smallest budget within one standard error of the best and, for it, the largest ridge. A sequence is for
        data in memory.
    criterion : {"cv", "aic", "bic", "ebic"}, default="cv"
        "cv" chooses the highest mean score over folds; the others the lowest information criterion of the fits of all
        data, without folds, for losses that are likelihoods (docs/estimators.md).
    cv : int, splitter or iterable, optional
        Folds, as everywhere in scikit-learn; 5 by default.
    scoring : str or callable, optional
        A scorer, as everywhere in scikit-learn. By default the negative mean loss ψ of the held-out samples. Where
        scores are not finite, candidates are ranked by the median over folds, with a warning.
    one_standard_error : bool, default=False
        Whether to choose the smallest budget whose mean score is within one standard error of the best.
    n_jobs : int, optional
        Processes that fit folds (joblib); the answer does not depend on it.
    constraint, feature_weight, keep, feature_cost, fit_intercept, standardize, positive
        As in `SparseRegressor`.
    tol, max_iter, time_limit, subsolver, start
        As in `SparseRegressor`; `time_limit` is for each fit.
    checkpoint, resume
        As in `SparseClassifier`; the file has the scores of finished folds, and the state of the last fit.
    device, random_state, verbose, callback
        As in `SparseRegressor`; `verbose` also shows the progress over folds, `callback` is called for the last fit.

    Attributes
    ----------
    cv_results_ : dict of ndarrays
        "n_features", "budget" or "level", and for criterion="cv" "split0_test_score", …, "mean_test_score",
        "std_test_score", "standard_error", "rank_test_score", "mean_n_selected", "mean_fit_time", "n_unsolved", the
        number of folds whose fit did not end at a minimiser, and "n_diverging", the number of those that have none;
        where scores are not finite also "median_test_score". Else the criterion by its name, nan where it is not
        defined, "loss" (ψ), "n_selected", "df" and "diverging".
    best_index_ : int
        The row of `cv_results_` that was chosen.
    best_params_ : dict
        {"n_features": …}, {"budget": …} or {"level": …}, with "ridge" where that was chosen, too.
    best_score_ : float
        Its mean score, or its criterion.
    scoring_ : str, callable or None
        The score by which it was chosen: `scoring`.
    coef_, intercept_, certificate_, multiplier_, level_, ridge_, scale_, constraint_
        Of the fit of all data, as in `SparseRegressor`.
    status_, message_, n_iter_, history_
        Of the fit of all data, as in `SparseRegressor`.
    selected_features_, n_features_in_, feature_names_in_, data_fingerprint_
        As in `SparseRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import SparseRegressorCV
    >>> X = np.random.default_rng(0).standard_normal((120, 30))
    >>> y = X[:, 3] - 2 * X[:, 7] + np.random.default_rng(1).standard_normal(120)
    >>> model = SparseRegressorCV(n_features=[1, 2, 3, 4], criterion="ebic").fit(X, y)
    >>> model.best_params_, model.selected_features_.tolist()
    ({'n_features': 2}, [3, 7])
    """

    _: KW_ONLY
    n_features: ArrayLike | None = None
    level: ArrayLike | None = None
    budget: ArrayLike | None = None
    ridge: ArrayLike = 0.0

    _single_type = SparseRegressor

    @with_callbacks
    def fit(
        self,
        X: object,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Choose the budget, then fit all data with it.

        Parameters
        ----------
        X, y, sample_weight, offset, exposure
            As in `SparseRegressor.fit`; weights are used by fits and by scores.
        **params
            `groups` for the folds; with metadata routing, the metadata that folds and score require.

        Returns
        -------
        self
        """
        with fitting(self, X, y, sample_weight):
            return self._choose_and_fit(self._samples(X, y, sample_weight, offset, exposure), params)
