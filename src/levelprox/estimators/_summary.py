"""Summaries of fitted models: `summary`, `print`, `stability`, and the HTML of notebooks."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from levelprox._runtime import limited, one_blas_thread
from levelprox._typing import RandomState
from levelprox._validation import nonnegative
from levelprox.estimators._callbacks import with_estimator_warnings
from levelprox.estimators._claims import data_of, task_of
from levelprox.estimators._input import Samples
from levelprox.estimators._soundness import budget_of
from levelprox.estimators._stability import Contributions, resampled
from levelprox.exceptions import ConvergenceWarning, InvalidInputError, counted
from levelprox.losses import LogLink
from levelprox.report.model_summary import NEAR, Contribution, ModelSummary, summary_of
from levelprox.report.stability import Stability
from levelprox.report.tables import certificate_html, fitted_words
from levelprox.subset.near_swaps import NearSwaps

_WITHOUT_DATA = (
    "Without data: summary(X, y) adds scores on these data, the rise of the loss if a feature is left out, and swaps "
    "of one feature for another that change the loss by at most 1 %."
)

_MORE = (
    '<div style="font:13px/1.5 system-ui,sans-serif;opacity:.72"><code>summary(X, y)</code> shows what each feature '
    "contributes, <code>stability(X, y)</code> how often it is selected from subsamples.</div>"
)


class SummaryMixin:
    """A fitted model that can be read, as text and in notebooks.

    The hooks of notebooks have the names of scikit-learn since 1.6. `sklearn.set_config(display="text")` turns HTML
    off, as everywhere.
    """

    def __str__(self) -> str:
        """Return the estimator as scikit-learn shows it and, once it is fitted, its features and how the fit ended."""
        return "\n".join([repr(self), *fitted_words(self)]) if hasattr(self, "coef_") else repr(self)

    def summary(
        self: Any,
        X: object = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **more: ArrayLike | None,
    ) -> ModelSummary:
        """Summarise the fitted model, feature by feature (docs/summary.md).

        Without data it shows coefficients, odds or rate ratios, and what the fit and cross-validation found. With the
        data of the fit it adds, by refits: the rise of the loss if a feature is left out, the swaps of one feature for
        another that raise the loss by at most 1 %, and scores on these data. The work is bounded, also by
        `time_limit`; the summary says what was not computed.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features), optional
            In memory, wherever the model was fitted.
        y : array-like of shape (n_samples,), optional
            Given with X.
        sample_weight : array-like of shape (n_samples,), optional
            As in `fit`.
        **more
            `offset` and `exposure` of a regressor, as in `fit`.

        Returns
        -------
        ModelSummary
            `print` shows it as text, a notebook as HTML; `to_frame()` is a DataFrame of pandas.
        """
        check_is_fitted(self)
        if X is None and y is None:
            if sample_weight is not None or any(value is not None for value in more.values()):
                raise InvalidInputError("summary() takes sample_weight, offset and exposure together with X and y")
            return summary_of(self, _kept(self), notes=(_WITHOUT_DATA,))
        samples = data_of(self, f"{type(self).__name__}.summary", X, y, sample_weight, more)
        with limited(_seconds(self)), warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the notes say it
            return _summary_of_data(self, samples)

    def _html_repr(self) -> str:
        """Return the diagram, with the certificate below."""
        diagram = str(estimator_html_repr(self))
        return diagram + certificate_html(self) + _MORE if hasattr(self, "certificate_") else diagram

    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            shown["text/html"] = self._html_repr()
        return shown

    @with_estimator_warnings
    def stability(
        self: Any,
        X: object,
        y: ArrayLike,
        n_resamples: int = 50,
        fraction: float = 0.5,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        **more: ArrayLike | None,
    ) -> Stability:
        """Fit subsamples of the data, and count how often each feature is selected (docs/summary.md).

        Each subsample is drawn without replacement, of each class the same part, and fitted by a copy of this model
        with its budget: the same number of features or level, the chosen one of an estimator that chooses. The sets of
        features that are found are then refitted to all data and compared with the model's.

        Parameters
        ----------
        X : array-like, dataframe or sparse matrix of shape (n_samples, n_features)
            In memory, wherever the model was fitted.
        y : array-like of shape (n_samples,)
        n_resamples : int, default=50
            How many subsamples.
        fraction : float, default=0.5
            Which part of the samples each has.
        random_state : int, RandomState, Generator or None, default=None
            Draws the subsamples. With an int the result is the same in every call, for any `n_jobs`.
        n_jobs : int, optional
            Processes that fit subsamples (joblib).
        sample_weight : array-like of shape (n_samples,), optional
            As in `fit`; samples of weight 0 are left out.
        **more
            `offset` and `exposure` of a regressor, as in `fit`.

        Returns
        -------
        Stability
            `print` shows it as text, a notebook as HTML; `to_frame()` is a DataFrame of pandas, and
            `StabilityDisplay.from_stability` draws it.
        """
        check_is_fitted(self)
        samples = data_of(self, f"{type(self).__name__}.stability", X, y, sample_weight, more)
        with limited(_seconds(self)), one_blas_thread():
            return resampled(self, samples, n_resamples, fraction, random_state, n_jobs)


def _kept(model: Any) -> set[int]:
    """Return the features that never count."""
    weight = model._feature_weight(budget_of(model), model.n_features_in_)
    return set() if weight is None else set(np.flatnonzero(weight == 0).tolist())


def _seconds(model: Any) -> float:
    return math.inf if model.time_limit is None else nonnegative("time_limit", model.time_limit)


def _summary_of_data(model: Any, samples: Samples) -> ModelSummary:
    notes, same = _notes_on_data(model, samples)
    measured: dict[str, Any] = {"n_samples": int(samples.y.size), **_scores(model, samples)}
    try:
        task, _ = task_of(model, samples)
        found = Contributions(model, task)
    except TimeoutError:
        why = "time_limit ended before any refit: no feature was examined."
        return summary_of(model, _kept(model), measured, notes=(*notes, why), same_data=same)
    measured["loss"], measured["null_loss"] = found.psi, found.null_loss
    infimum = found.objective.infimum
    if found.null_loss > infimum:
        measured["explained"] = 1 - (found.psi - found.penalty - infimum) / (found.null_loss - infimum)
    contributions, more = _contributions(model, found)
    return summary_of(model, _kept(model), measured, contributions, found.scale, (*notes, *more), same)


def _notes_on_data(model: Any, samples: Samples) -> tuple[list[str], bool]:
    """Return notes where these are not the data of the fit, or that is not known; and whether they are."""
    known = getattr(model, "data_fingerprint_", None)
    if known is None:
        return ["The model has no fingerprint of the data of its fit: figures are those of the data given here."], False
    differences = known.differences(samples.fingerprint())
    if not differences:
        return [], True
    words = f"Other data than those of the fit: they differ in {', '.join(differences)}. Figures are of these data."
    return [words], False


def _scores(model: Any, samples: Samples) -> dict[str, float]:
    """Return scores of the model on data: accuracy and AUC, or R²."""
    from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

    here = model.on_host()
    design, y, weight = samples.design, samples.y, samples.weight
    if not is_classifier(model):
        if isinstance(model.loss_, LogLink):  # the share of the deviance that is explained takes its place
            return {}
        return {"r2": float(r2_score(y, here.predict(design, **samples.more), sample_weight=weight))}
    scores = {"accuracy": float(accuracy_score(y, here.predict(design), sample_weight=weight))}
    rows = slice(None) if weight is None else weight > 0
    options = {"sample_weight": None if weight is None else weight[rows]}
    if model.classes_.size == 2:
        z = here.decision_function(design)[rows]
        scores["auc"] = float(roc_auc_score(y[rows] == model.classes_[1], z, **options))
    elif hasattr(here, "predict_proba"):
        p = here.predict_proba(design)[rows].astype(np.float64)
        p /= p.sum(axis=1, keepdims=True)  # float32 adds up to 1 up to rounding
        scores["auc"] = float(roc_auc_score(y[rows], p, multi_class="ovr", labels=model.classes_, **options))
    return scores


def _contributions(model: Any, found: Contributions) -> tuple[dict[int, Contribution], list[str]]:
    """Return what each feature contributes, and notes on what was not computed."""
    selected = model.selected_features_.tolist()
    if not selected:
        return {}, []
    notes = _notes_on_refits(model, found)
    left_out: dict[int, Contribution] = {}
    try:
        for j in selected[: found.most_refits]:
            refit = found.without(j)
            checked = refit.checked and found.base.checked
            left_out[j] = Contribution(refit.psi - found.base.psi, checked)
    except TimeoutError:
        pass
    if len(left_out) < len(selected):
        notes.append(
            f"The rise of the loss was computed for {len(left_out)} of {counted(len(selected), 'feature')}: more "
            "refits would take long."
        )
    if not found.is_local and not all(one.checked for one in left_out.values()):
        notes.append('Rises marked with "about" come from refits that are not known to be optimal.')
    try:
        without = {j: found.base.psi + one.increase for j, one in left_out.items() if one.increase is not None}
        swaps = found.near_swaps(NEAR, without)
    except TimeoutError:
        swaps = None
    if swaps is None:
        if found.counted.size:
            nothing = not found.scale > found.enough
            why = "the loss is almost 0, and 1 % of it says little." if nothing else "time_limit ended before."
            notes.append(f"Swaps of one feature for another were not examined: {why}")
        return left_out, notes
    notes += _notes_on_swaps(swaps)
    if swaps.dispensable and swaps.total:
        notes.append(
            "A feature that can be left out within 1 % can be swapped for any other; the best found are named."
        )
    for j, examined in swaps.examined.items():
        instead = tuple((one.enters, one.psi - found.base.psi) for one in swaps.within if one.leaves == j)
        before = left_out.get(j, Contribution())
        dispensable = j in swaps.dispensable
        count = swaps.total if dispensable else len(instead)
        left_out[j] = Contribution(before.increase, before.checked, count, examined, swaps.total, instead, dispensable)
    return left_out, notes


def _notes_on_refits(model: Any, found: Contributions) -> list[str]:
    """Return what the refits are, where that is not obvious."""
    notes = []
    if hasattr(model, "constraint_"):
        notes.append(
            f"Refits are over the selected features without the level: the loss is then {found.base.psi:.6g}, with "
            "which refits without a feature, and with another one instead, are compared."
        )
    elif abs(found.psi - found.base.psi) > found.enough:
        notes.append(
            f"Refitted to these data the loss of the selected features is {found.base.psi:.6g}, with which refits "
            "without a feature, and with another one instead, are compared."
        )
    if found.objective.infimum != 0:
        notes.append("Percentages are of the loss above its least possible value, that of predictions equal to y.")
    if found.is_local:
        notes.append('The loss is not convex: refits are local, and figures marked with "about" may be off.')
    return notes


def _notes_on_swaps(swaps: NearSwaps) -> list[str]:
    """Return how many swaps are not decided, and why."""
    examined, total = sum(swaps.examined.values()), swaps.total * len(swaps.examined)
    left = total - examined
    if not left:
        return []
    why = "more refits would take long; those that promise most came first"
    if left == swaps.undecided:
        why = "their refits are not known to be optimal, as where classes are separated in part"
    elif swaps.undecided:
        why = f"{swaps.undecided:,} refits are not known to be optimal, and more would take long"
    return [f"{examined:,} of {counted(total, 'swap')} were examined; whether others come within 1 % is open: {why}."]
