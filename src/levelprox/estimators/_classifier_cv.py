"""SparseClassifierCV: SparseClassifier with the budget chosen by cross-validation or an information criterion."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, Self

from numpy.typing import ArrayLike

from levelprox._typing import RandomState
from levelprox.constraints import Constraint
from levelprox.estimators._callbacks import fit_method
from levelprox.estimators._classification import Classification
from levelprox.estimators._classifier import SparseClassifier
from levelprox.estimators._cross_validation import Choosing
from levelprox.estimators._fixed_ridge_fit import Callback
from levelprox.io.checkpoint import Checkpoint
from levelprox.losses import Loss
from levelprox.methods.subsolvers import Subsolver


class SparseClassifierCV(Classification, Choosing):
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
        As in `SparseClassifier`; what is kept are the scores of folds that are done, and the state of the last fit.
    device, random_state, verbose, callback
        As in `SparseClassifier`; `verbose` also shows the progress over folds, `callback` is told of the last fit.

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

    _single_type = SparseClassifier

    def __init__(
        self,
        loss: str | Loss = "logistic",
        *,
        n_features: ArrayLike | None = None,
        level: ArrayLike | None = None,
        criterion: str = "cv",
        cv: Any = None,
        scoring: Any = None,
        one_standard_error: bool = False,
        n_jobs: int | None = None,
        constraint: str | Constraint = "mcp",
        feature_weight: ArrayLike | dict[str, float] | dict[int, float] | None = None,
        keep: ArrayLike | None = None,
        feature_cost: ArrayLike | Mapping[str, float] | None = None,
        budget: ArrayLike | None = None,
        ridge: float | Literal["auto"] | ArrayLike = "auto",
        fit_intercept: bool = True,
        standardize: bool = True,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        multi_class: str = "auto",
        positive: bool | ArrayLike = False,
        tol: float = 1e-6,
        max_iter: int = 1000,
        time_limit: float | None = None,
        subsolver: str | Subsolver = "auto",
        start: str = "auto",
        device: str | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        resume: bool | str | os.PathLike[str] = False,
    ) -> None:
        self.loss = loss
        self.n_features = n_features
        self.level = level
        self.criterion = criterion
        self.cv = cv
        self.scoring = scoring
        self.one_standard_error = one_standard_error
        self.n_jobs = n_jobs
        self.constraint = constraint
        self.feature_weight = feature_weight
        self.keep = keep
        self.feature_cost = feature_cost
        self.budget = budget
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.positive = positive
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.subsolver = subsolver
        self.start = start
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.checkpoint = checkpoint
        self.resume = resume

    @fit_method
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
            `groups` for the folds; with metadata routing, whatever the folds and the score ask for.

        Returns
        -------
        self
        """
        return self._choose_and_fit(self._samples(X, y, sample_weight), params)
