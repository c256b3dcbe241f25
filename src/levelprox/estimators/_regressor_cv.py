"""SparseRegressorCV: SparseRegressor with the budget chosen by cross-validation or an information criterion."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

from numpy.typing import ArrayLike

from levelprox._typing import RandomState
from levelprox.constraints import Constraint
from levelprox.estimators._callbacks import fit_method
from levelprox.estimators._cross_validation import Choosing
from levelprox.estimators._fixed_ridge_fit import Callback
from levelprox.estimators._regression import Regression
from levelprox.estimators._regressor import SparseRegressor
from levelprox.io.checkpoint import Checkpoint
from levelprox.losses import Loss
from levelprox.methods.subsolvers import Subsolver


class SparseRegressorCV(Regression, Choosing):
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
        As in `SparseClassifier`; what is kept are the scores of folds that are done, and the state of the last fit.
    device, random_state, verbose, callback
        As in `SparseRegressor`; `verbose` also shows the progress over folds, `callback` is told of the last fit.

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

    _single_type = SparseRegressor

    def __init__(
        self,
        loss: str | Loss = "squared",
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
        ridge: ArrayLike = 0.0,
        fit_intercept: bool = True,
        standardize: bool = True,
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
            `groups` for the folds; with metadata routing, whatever the folds and the score ask for.

        Returns
        -------
        self
        """
        return self._choose_and_fit(self._samples(X, y, sample_weight, offset, exposure), params)
