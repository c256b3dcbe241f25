"""SparseClassifier: classification with at most k features, or within a level; SparseClassifierCV chooses these."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from levelprox._typing import Vector
from levelprox._validation import check_labels, option
from levelprox.backends.partition import Form
from levelprox.estimators._base import SingleBudgetMixin, SparseLinearModel, counts_features
from levelprox.estimators._callbacks import fitting, updating, with_callbacks
from levelprox.estimators._data import RemoteSamples, class_factors, with_class_weight
from levelprox.estimators._features import Standardization
from levelprox.estimators._input import Prepared, Samples
from levelprox.estimators._parameters import CLASSIFICATION_LOSSES, boolean
from levelprox.estimators._prediction import ClassPredictionMixin
from levelprox.exceptions import InvalidInputError, warn
from levelprox.losses import Logistic, Loss, Multinomial
from levelprox.objectives import LinearModel, Model, MultinomialModel, OneVsRestModel

_MULTI_CLASS = ("auto", "softmax", "ovr")


@dataclass(eq=False, repr=False)
class ClassificationMixin(ClassPredictionMixin, SparseLinearModel):
    """A sparse linear model of classes."""

    loss: str | Loss = "logistic"
    _: KW_ONLY
    ridge: Any = "auto"
    class_weight: dict[Any, float] | Literal["balanced"] | None = None
    multi_class: str = "auto"

    _losses = CLASSIFICATION_LOSSES

    def _encode(self, y: NDArray[Any], weight: Vector | None) -> tuple[NDArray[Any], Vector | None, float, int]:
        self.classes_ = np.unique(y)
        self._check_two()
        return y, self._weighted(y, weight), 1.0, 1 if self.classes_.size == 2 else self.classes_.size

    def _prepare_source(self, samples: RemoteSamples) -> Prepared:
        loss, intercept = self.loss_, boolean("fit_intercept", self.fit_intercept)
        measured = boolean("standardize", self.standardize)
        statistics = samples.statistics(loss, True, measured and self.class_weight is None)
        self.classes_ = statistics.classes
        check_labels(self.classes_)
        self._check_two()
        total = statistics.total
        if self.class_weight is not None:
            samples = samples.weighted(
                self.classes_, class_factors(self.class_weight, self.classes_, statistics.class_weights)
            )
            statistics = samples.statistics(loss, True, measured)
        form = Form(
            loss, intercept, classes=self.classes_, softmax=self.multi_class_ == "softmax" and self.classes_.size > 2
        )
        return samples.prepared(self, form, statistics, total)

    def _check_two(self) -> None:
        if self.classes_.size < 2:
            raise InvalidInputError(
                f"{type(self).__name__} needs samples of at least 2 classes, but the data have only one class: "
                f"{self.classes_.tolist()}"
            )

    def _target(self, y: ArrayLike) -> NDArray[Any]:
        return np.asarray(y)

    def _weighted(self, y: NDArray[Any], weight: Vector | None) -> Vector | None:
        if self.class_weight is None:
            return weight
        return with_class_weight(self.class_weight, self.classes_, y, weight)

    def _sample_count(self, samples: Samples | RemoteSamples) -> float:
        """Return how many samples the rarest class has; a weight of 2 is a repeated sample."""
        if isinstance(samples, RemoteSamples):
            return samples.rarest
        _, places = np.unique(samples.y, return_inverse=True)
        counts = np.bincount(places, samples.weight)
        return float(counts[counts > 0].min())

    @property
    def multi_class_(self) -> str:
        """Model of more than two classes: "softmax", one likelihood of all of them, or "ovr"."""
        multi_class = option(self.multi_class)
        if multi_class not in _MULTI_CLASS:
            raise InvalidInputError(f"multi_class must be one of {', '.join(_MULTI_CLASS)}, got {self.multi_class!r}")
        logistic = isinstance(self.loss_, Logistic)
        if multi_class == "softmax" and not logistic:
            raise InvalidInputError(f"multi_class='softmax' is for loss='logistic', not for {self.loss!r}; use 'ovr'")
        return "softmax" if logistic and multi_class != "ovr" else "ovr"

    def _read(self, X: object, y: object, **checks: Any) -> tuple[Any, NDArray[Any]]:
        data, target = super()._read(X, y, **checks)
        check_labels(target)
        check_classification_targets(target)
        return data, target

    def _objective(
        self, standardization: Standardization, y: NDArray[Any], weight: Vector | None, **more: Any
    ) -> Model:
        loss, multi_class, intercept = self.loss_, self.multi_class_, standardization.fit_intercept
        if self.classes_.size == 2:
            b = np.where(y == self.classes_[1], 1.0, -1.0)
            return LinearModel(standardization.design, b, loss, weight, fit_intercept=intercept)
        if multi_class == "softmax":
            return MultinomialModel(standardization.design, y, weight, fit_intercept=intercept, classes=self.classes_)
        return OneVsRestModel(standardization.design, y, loss, weight, fit_intercept=intercept, classes=self.classes_)

    def _check_classes(self, classes: ArrayLike | None, first: bool) -> None:
        """Set all classes of a stream, given in its first call and the same in all others."""
        if classes is None and not hasattr(self, "classes_"):
            raise InvalidInputError(
                "classes must be given in the first call of partial_fit: all there will ever be, such as np.unique(y) "
                "of all data"
            )
        if classes is None:
            return
        given = np.unique(np.asarray(classes))
        if not first and not np.array_equal(given, self.classes_):
            raise InvalidInputError(f"classes={given.tolist()} are not those of before: {self.classes_.tolist()}")
        if given.size < 2:
            raise InvalidInputError(f"{type(self).__name__} needs at least 2 classes, got only {given.tolist()}")
        self.classes_ = given

    def _with_class_weight_of_a_batch(self, y: NDArray[Any], weight: Vector | None) -> Vector | None:
        check_classification_targets(y)
        unknown = np.flatnonzero(~np.isin(y, self.classes_))
        if unknown.size:
            i = int(unknown[0])
            label, classes = y[i : i + 1].tolist()[0], self.classes_.tolist()
            raise InvalidInputError(f"y has the class {label!r} at index {i}, which is not one of {classes}")
        if isinstance(self.class_weight, str):
            raise InvalidInputError("class_weight='balanced' needs all data at once; for partial_fit give a dict")
        return self._weighted(y, weight)

    def _same_classes(self, known: NDArray[Any] | None) -> bool:
        """Return whether the last fit, if any, had these classes, so that its coefficients are of use."""
        if known is None or self.warm_start is not True or np.array_equal(known, self.classes_):
            return True
        warn(
            f"warm_start: the last fit had the classes {known.tolist()}, this one has {self.classes_.tolist()}; the "
            "fit starts without it"
        )
        return False

    def _mean_loss(self, X: object, y: NDArray[Any], weight: Vector | None, **more: Any) -> float:
        z, loss = self._margins(X).astype(np.float64), self.loss_
        if z.shape[1] == 1:
            return loss.value(z[:, 0], np.where(y == self.classes_[1], 1.0, -1.0), weight)
        label = np.searchsorted(self.classes_, y)
        if self.multi_class_ == "softmax":
            return Multinomial.value(np.ascontiguousarray(z), label.astype(np.int64), weight)
        return sum(loss.value(z[:, k], np.where(label == k, 1.0, -1.0), weight) for k in range(z.shape[1]))


@dataclass(eq=False, repr=False)
class SparseClassifier(ClassificationMixin, SingleBudgetMixin):
    """Classification with at most k features, or under a level of a sparsity constraint.

    With z = X coef' + intercept, weights s and the loss ℓ it minimises

        ψ = Σ_i s_i ℓ(z_i, y_i) / Σ_i s_i      subject to

        at most n_features nonzero features,   or   g(scale_ · coef) = Σ_j ω_j φ(scale_j ‖coef_j‖) ≤ level.

    With more than two classes each has its own coefficients; ‖coef_j‖ is the length of those of feature j, which
    counts once. The intercepts never count. The fit satisfies the budget exactly, for every status.

    Parameters
    ----------
    loss : {"logistic", "squared_hinge", "hinge", "sigmoid"} or Loss, default="logistic"
        ℓ(z, y) with y = ±1: logistic log(1 + exp(−yz)); squared_hinge max(0, 1 − yz)²; hinge max(0, 1 − yz); sigmoid
        1/(1 + exp(yz)), a smooth count of the errors, not convex.
    n_features : int, optional
        k: at most so many features with nonzero coefficients, not counting features of weight 0. Without n_features
        and level it is one for every ten samples of the rarest class (by their weights), at least 1 and at most 10.
    level : float, optional
        η: g(scale_ · coef_) ≤ η.
    constraint : str or Constraint, default="mcp"
        φ, for fits under a level: "mcp", "scad", "exp", "log", "lp", "negative_lp", "l1" or an object of
        `levelprox.constraints`. By name, a feature with scale_j ‖coef_j‖ of 0.1 costs about one, so that a level
        counts features (docs/estimators.md); "l1" is Σ scale_j ‖coef_j‖.
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
    class_weight : dict or "balanced", optional
        Factors on the weights of the samples of each class; "balanced" makes all classes weigh the same.
    multi_class : {"auto", "softmax", "ovr"}, default="auto"
        Of more than two classes: "softmax" is the likelihood of all of them together, for the logistic loss; "ovr" adds
        up the losses of each class against the others. "auto" is "softmax" for the logistic loss. Either way the
        budget is on whole features.
    ridge : float or "auto", default="auto"
        λ ≥ 0: λ‖s ∘ coef_‖² is added to the mean loss, s the standard deviations of the columns; intercepts and
        features of weight 0 are free of it. "auto" is 0 unless the chosen features separate the classes, or nearly so:
        the standard error of a combination of them with variance 1 is above 2. λ is then 1/(2 n_samples), the default
        of scikit-learn's LogisticRegression and a standard normal prior on the coefficients of standardised features,
        or smaller by up to a factor of 100, where an approximate leave-one-out loss over the chosen features falls
        clearly (docs/estimators.md). `ridge_` and `message_` say which. For differentiable losses.
    positive : bool or array-like of str, int or bool, default=False
        Whether coefficients must not be negative, or of which features; for two classes.
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
    classes_ : ndarray of shape (n_classes,)
        The classes that have a sample of positive weight.
    coef_ : ndarray of shape (1, n_features_in_) or (n_classes, n_features_in_)
        In the units of X, and in its precision.
    intercept_ : ndarray of shape (1,) or (n_classes,)
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
    SparseClassifierCV : Chooses n_features or the level.
    levelprox.solve, levelprox.best_subset : The functions underneath.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from levelprox import SparseClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = SparseClassifier(n_features=3).fit(X, y)
    >>> model.get_feature_names_out().tolist()
    ['worst texture', 'worst area', 'worst concave points']
    """

    _: KW_ONLY
    n_features: int | None = None
    level: float | None = None
    budget: float | None = None
    ridge: float | Literal["auto"] = "auto"

    @with_callbacks
    def fit(self, X: object, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Classes: numbers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 is a repeated sample, a weight of 0 a removed one.

        Returns
        -------
        self
        """
        with fitting(self, X, y, sample_weight):
            return self._fit(self._samples(X, y, sample_weight))

    @available_if(counts_features)
    def partial_fit(
        self, X: object, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Update the model from a batch; at most `n_features` features are used after every call (docs/stream.md).

        Features are standardised by the means and deviations of all rows so far. There is no certificate: the data of
        earlier batches are not stored. After `fit`, a new stream starts.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All classes there will be; must be given in the first call, unless a `fit` has seen them.
        sample_weight : array-like of shape (n_samples,), optional
            In one unit for all batches, in which an ordinary sample weighs 1.

        Returns
        -------
        self
        """
        with updating(self):
            first = not hasattr(self, "_stream")
            data, target = self._read(X, y, reset=first)
            self._check_classes(classes, first)
            weight = self._with_class_weight_of_a_batch(target, self._weights(sample_weight, data.shape[0]))
            n_outputs = 1 if self.classes_.size == 2 else self.classes_.size
            return self._update(data, weight, n_outputs, lambda units: self._objective(units, target, weight))
