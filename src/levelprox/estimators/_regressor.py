"""SparseRegressor: regression with at most k features, or within a level; SparseRegressorCV chooses these."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from levelprox.estimators._base import SingleBudgetMixin, counts_features
from levelprox.estimators._callbacks import fitting, observing, updating, with_callbacks
from levelprox.estimators._cross_validation import BudgetChoiceMixin
from levelprox.estimators._targets import RegressionMixin


@dataclass(eq=False, repr=False)
class SparseRegressor(RegressionMixin, SingleBudgetMixin):
    """Regression with at most k features, or under a level of a sparsity constraint.

    With z = X coef + intercept + offset, weights s and the loss ℓ it minimises

        ψ = Σ_i s_i ℓ(z_i, y_i) / Σ_i s_i      subject to

        at most n_features nonzero coefficients,   or   g(scale_ · coef) = Σ_j ω_j φ(|scale_j coef_j|) ≤ level.

    The intercept never counts. The fit satisfies the budget exactly, for every status.

    Parameters
    ----------
    loss : {"squared", "huber", "quantile", "absolute", "poisson", "gamma", "cauchy"} or Loss, default="squared"
        ℓ(z, y): squared (y − z)²; huber, quantile, absolute and cauchy as in `levelprox.losses`, whose objects
        set their parameter: `losses.Quantile(0.9)`, `losses.Huber(2.0)`; poisson and gamma are negative
        log-likelihoods with z the log of the mean.
    n_features : int, optional
        k: at most so many nonzero coefficients, not counting features of weight 0. Without n_features
        and level it is one for every ten samples (by their weights), at least 1 and at most 10.
    level : float, optional
        η: g(scale_ · coef_) ≤ η.
    constraint : str or Constraint, default="mcp"
        φ, for fits under a level: "mcp", "scad", "exp", "log", "lp", "negative_lp", "l1" or an object of
        `levelprox.constraints`. By name, a coefficient with |scale_j coef_j| of 0.1 u costs about one, so that a
        level counts features (docs/estimators.md); u is the unit of y: its standard deviation for the squared
        loss, its mean distance from its median for the others, 1 for poisson and gamma. "l1" is Σ |scale_j coef_j|.
    feature_cost : array-like of shape (n_features,), or dict of str to float, optional
        What each feature costs, for a `budget`: numbers of at least 0, for each column or by its name (x0, x1, … where
        columns have no names). By name every feature must have one. A feature of cost 0 is free to take, and used if
        it lowers ψ. Those of `feature_weight` 0 are kept and cost nothing; their given costs are ignored.
    budget : float, optional
        What the features with nonzero coefficients may cost together: a sum of whole costs, however small a coefficient
        is. With `n_features` both hold; without it there may be any number. The sum is exact: 0.1 and 0.2 exceed
        a budget of 0.3, as float64 numbers do (docs/costs.md). For data in memory, and not for `partial_fit`.
    feature_weight : array-like of shape (n_features,) or dict, optional
        ω ≥ 0: what a feature counts; 0 is kept in any case. With `n_features` all others count one. A dict gives those
        of some features by name or index, {"age": 0}; the others count one.
    keep : array-like of str, int or bool, optional
        Features that are in the model in any case and do not count, by name, by index or as a mask.
    fit_intercept : bool, default=True
    standardize : bool, default=True
        Whether to fit with features of standard deviation 1 (about zero, where there is no intercept). X is neither
        copied nor changed, and coef_ is in its units.
    ridge : float, default=0
        λ ≥ 0: λ‖s ∘ coef_‖² is added to the mean loss, s the standard deviations of the columns; intercepts and
        features of weight 0 are free of it. For differentiable losses.
    positive : bool or array-like of str, int or bool, default=False
        Whether coefficients must not be negative, or of which features.
    tol : float, default=1e-6
        On the KKT residual under a level: that of each feature in units of its column, relative to the fit without
        features. With n_features each set is fitted to tol/100.
    max_iter : int, default=1000
        Outer steps under a level; swaps of one feature for another with n_features.
    time_limit : float, optional
        Seconds; the best model by then is kept, with a warning.
    subsolver : str or Subsolver, default="auto"
        For fits under a level, as in `levelprox.solve`.
    start : {"auto", "continuation", "direct"}, default="auto"
        For fits under a level, as in `levelprox.solve`.
    warm_start : bool, default=False
        Whether to begin at the last fit. Faster, but the answer then depends on it.
    memory : float, optional
        For `partial_fit`: after so many samples the weight of those before them has fallen to 1/e. None discards
        nothing; on a drifting stream choose about as many samples as the drift takes to matter.
    device : str, optional
        Where to work, such as "cuda": X is moved there as a tensor of torch, or an error is raised; never somewhere
        else. None works where X is: in this process, or on the device of a tensor of torch or an array of cupy.
    random_state : int, RandomState, Generator or None, default=None
        For subsolvers that sample; nothing else is random.
    verbose : int, default=0
        Above 0 progress is shown while fitting.
    callback : callable, optional
        Called with a record of each step, `Record` under a level and `SubsetRecord` with n_features; returning True
        stops the fit.
    checkpoint : path-like or Checkpoint, optional
        File for the state of the fit, written every minute, or as set by `Checkpoint`, and when the fit ends
        for any reason, Ctrl-C and SIGTERM included (docs/checkpoints.md). Not for `partial_fit`.
    resume : bool or path-like, default=False
        Whether to resume from the state in `checkpoint`, if there is one; or from another file, which must exist.
        The model has the same bits as one whose fit was never broken off.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features_in_,)
        In the units of X, and in its precision.
    intercept_ : float
    certificate_ : Certificate or SubsetCertificate
        What is shown of the fit: recomputed from the data, about scale_ · coef_.
    multiplier_ : float
        The shadow price of the budget: how fast ψ falls as the level rises; with n_features, by how much ψ would fall
        with the best single further feature that was found.
    level_ : float
        η, or k: with a budget and without n_features, the number of all features.
    scale_ : ndarray of shape (n_features_in_,)
        What columns were divided by; 1 without `standardize`.
    ridge_ : float
        λ of the fit.
    constraint_ : Constraint
        φ, where there is a level.
    budget_, feature_cost_ : float, ndarray of shape (n_features_in_,)
        The budget and what features cost, where there is one; `certificate_.spent` is what those of the model cost.
    status_ : Status
        Why the fit ended.
    message_ : str
        The same in a sentence.
    n_iter_ : int
        Outer steps; with n_features, how many sets were fitted.
    history_ : tuple of Record or of SubsetRecord
    selected_features_ : ndarray of int
        The features with a nonzero coefficient.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X has names.
    data_fingerprint_ : Fingerprint
        Fingerprint of the data: shape, type, number of nonzero entries and hashes; not after `partial_fit`.

    See Also
    --------
    SparseRegressorCV : Chooses n_features or the level.
    levelprox.solve, levelprox.best_subset : The functions underneath.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import SparseRegressor
    >>> X = np.random.default_rng(0).standard_normal((100, 30))
    >>> y = X[:, 3] - 2 * X[:, 7] + 1
    >>> model = SparseRegressor(n_features=2).fit(X, y)
    >>> model.selected_features_.tolist(), model.coef_[[3, 7]].round(6).tolist(), round(float(model.intercept_), 6)
    ([3, 7], [1.0, -2.0], 1.0)

    Features 0 to 9 cost 1 and the others 2, with 3 to spend:

    >>> cost = np.where(np.arange(30) < 10, 1, 2)
    >>> model = SparseRegressor(feature_cost=cost, budget=3).fit(X, y + 0.1 * X[:, 20])
    >>> model.selected_features_.size, model.certificate_.spent, model.budget_
    (3, 3.0, 3.0)
    """

    _: KW_ONLY
    n_features: int | None = None
    level: float | None = None
    budget: float | None = None
    ridge: float = 0.0

    @with_callbacks
    def fit(
        self,
        X: object,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            At least 0 for poisson, positive for gamma.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 is a repeated sample, a weight of 0 a removed one.
        offset : array-like of shape (n_samples,), optional
            What is known to add to z.
        exposure : array-like of shape (n_samples,), optional
            For poisson and gamma: what the mean is proportional to; log(exposure) is added to z.

        Returns
        -------
        self
        """
        with fitting(self, X, y, sample_weight):
            task, budget, previous = self._prepare_fit(self._samples(X, y, sample_weight, offset, exposure))
            with observing(self, task) as observed:
                solution = observed.fit(budget, previous)
            return self._fitted(task, budget, solution)

    @available_if(counts_features)
    def partial_fit(
        self,
        X: object,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Self:
        """Update the model from a batch; at most `n_features` features are used after every call (docs/stream.md).

        Features are standardised by the means and deviations of all rows so far. There is no certificate: the data of
        earlier batches are not stored. After `fit`, a new stream starts.

        Parameters
        ----------
        X, y, offset, exposure
            As in `fit`.
        sample_weight : array-like of shape (n_samples,), optional
            In one unit for all batches, in which an ordinary sample weighs 1.

        Returns
        -------
        self
        """
        with updating(self):
            data, read = self._read(X, y, y_numeric=True, reset=not hasattr(self, "_stream"))
            target = self.loss_.check_targets(read, "y")
            weight = self._weights(sample_weight, data.shape[0])
            return self._update(
                data, weight, 1, lambda units: self._objective(units, target, weight, offset=offset, exposure=exposure)
            )


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
