"""SparseRegressor: regression with at most k features, or within a level; SparseRegressorCV chooses these."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if

from levelprox._typing import FloatArray, Vector
from levelprox._validation import option, real_array
from levelprox.backends.partition import Form
from levelprox.designs import is_remote
from levelprox.estimators._base import SingleBudgetMixin, SparseLinearModel, counts_features
from levelprox.estimators._callbacks import fitting, updating, with_callbacks
from levelprox.estimators._data import RemoteSamples, elementwise, in_memory, unit_of, unit_of_source
from levelprox.estimators._features import Standardization
from levelprox.estimators._input import Prepared, one_each
from levelprox.estimators._parameters import REGRESSION_LOSSES, boolean
from levelprox.estimators._prediction import dispatched
from levelprox.exceptions import InvalidInputError
from levelprox.losses import LogLink, Loss
from levelprox.objectives import LinearModel


@dataclass(eq=False, repr=False)
class RegressionMixin(RegressorMixin, SparseLinearModel):
    """A sparse linear model of numbers."""

    loss: str | Loss = "squared"

    _losses = REGRESSION_LOSSES
    _reading_of_y = {"y_numeric": True}  # noqa: RUF012

    @dispatched
    def predict(self, X: object, offset: ArrayLike | None = None, exposure: ArrayLike | None = None) -> FloatArray:
        """Return the expected value of y: z, or exp(z) for poisson and gamma.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
        offset, exposure : array-like of shape (n_samples,), optional
            As in `fit`; there is nothing to add unless they are given.
        """
        z = self._margins(X)[:, 0]
        known = self._known(offset, exposure, z.size)
        if known is not None:
            z = (z + known).astype(z.dtype)
        if not isinstance(self.loss_, LogLink):
            return z
        with np.errstate(over="ignore"):
            return np.exp(z)

    def score(
        self,
        X: object,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> float:
        """Return R²; for poisson and gamma D², the share of the deviance that is explained.

        Parameters
        ----------
        X, y, sample_weight, offset, exposure
            As in `fit`.
        """
        from sklearn.metrics import d2_tweedie_score, r2_score

        y, predicted, sample_weight = in_memory(y, self.predict(X, offset, exposure), sample_weight)
        loss = self.loss_
        if not isinstance(loss, LogLink):
            return float(r2_score(y, predicted, sample_weight=sample_weight))
        power = 1 if loss.kind == "count" else 2
        return float(d2_tweedie_score(y, predicted, sample_weight=sample_weight, power=power))

    def _remote_offset(self, offset: Any, exposure: Any) -> Any:
        """Return what is added to the margins of remote samples; it is checked where it is."""
        if exposure is None:
            return offset
        if not isinstance(self.loss_, LogLink):
            raise InvalidInputError(f"exposure is for poisson and gamma, not for loss={self.loss!r}; use offset")
        if offset is not None and is_remote(exposure) != is_remote(offset):
            raise InvalidInputError("exposure and offset must be arrays of the same library")
        known = elementwise(_log_exposure, exposure)
        return known if offset is None else known + (offset if is_remote(offset) else np.asarray(offset))

    def _encode(self, y: NDArray[Any], weight: Vector | None) -> tuple[NDArray[Any], Vector | None, float, int]:
        loss = self.loss_
        y = loss.check_targets(y, "y")
        return y, weight, unit_of(loss, y, weight), 1

    def _prepare_source(self, samples: RemoteSamples) -> Prepared:
        loss = self.loss_
        statistics = samples.statistics(loss, False, boolean("standardize", self.standardize))
        form = Form(loss, boolean("fit_intercept", self.fit_intercept))
        unit = unit_of_source(loss, samples.source, statistics)
        return samples.prepared(self, form, statistics, statistics.total, unit)

    def _objective(
        self, standardization: Standardization, y: NDArray[Any], weight: Vector | None, **more: Any
    ) -> LinearModel:
        known = self._known(more.get("offset"), more.get("exposure"), y.size)
        return LinearModel(standardization.design, y, self.loss_, weight, known, standardization.fit_intercept)

    def _known(self, offset: ArrayLike | None, exposure: ArrayLike | None, n: int) -> Vector | None:
        """Return the offsets of the margins."""
        known = None if offset is None else one_each("offset", offset, n)
        if exposure is None:
            return known
        if not isinstance(self.loss_, LogLink):
            raise InvalidInputError(f"exposure is for poisson and gamma, not for loss={self.loss!r}; use offset")
        times = one_each("exposure", exposure, n)
        if np.any(times <= 0):
            i = int(np.argmax(times <= 0))
            raise InvalidInputError(f"exposure must be positive, got {times[i]:g} at index {i}")
        return np.log(times) if known is None else known + np.log(times)

    def _mean_loss(self, X: object, y: NDArray[Any], weight: Vector | None, **more: Any) -> float:
        z = self._margins(X)[:, 0].astype(np.float64)
        known = self._known(more.get("offset"), more.get("exposure"), z.size)
        return self.loss_.value(z if known is None else z + known, y, weight)

    @property
    def takes_zeros(self) -> bool:
        """Whether a target may be 0: not for gamma."""
        return bool(getattr(self.loss, "name", option(self.loss)) != "gamma")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        with suppress(InvalidInputError):  # a loss for which `fit` raises an error
            tags.target_tags.positive_only = self.loss_.kind in ("count", "positive")
        return tags


def _log_exposure(exposure: Any) -> Any:
    """Return log(exposure) of samples, of NumPy or of a library that has `log` as a method; they must be positive."""
    own = exposure if hasattr(exposure, "log") else np.asarray(real_array("exposure", exposure), np.float64)
    bad = ~(own > 0)
    if bad.any():
        i = int(bad.nonzero()[0].ravel()[0])
        raise InvalidInputError(f"exposure must be positive, got {float(own[i]):g} at index {i}")
    return own.log() if hasattr(own, "log") else np.log(own)


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
            return self._fit(self._samples(X, y, sample_weight, offset, exposure))

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
