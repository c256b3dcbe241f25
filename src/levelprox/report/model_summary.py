"""ModelSummary: the features of a fitted model and how well it fits."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from levelprox.exceptions import counted
from levelprox.losses import Gamma, Logistic, Poisson, Squared
from levelprox.report import fitted, tables
from levelprox.report.fitted import budget_words, by_size, feature_name, name_and_sign, price_words, ridge_words
from levelprox.subset.result import SubsetCertificate

#: A swap is near-equal if it raises the loss by at most this fraction.
NEAR = 0.01
_LARGEST_EXPONENT = 700.0  # exp of larger numbers overflows
_DEVIANCES = (Logistic, Poisson, Gamma)  # losses that are half a deviance, up to a constant

_AFTER_SELECTION = (
    "Features were selected by the same data: classical confidence intervals, standard errors and p-values of these "
    "coefficients are not valid. stability(X, y) shows how the selection varies from subsample to subsample."
)


@dataclass(frozen=True)
class Contribution:
    """Contribution of a feature to the fit, from refits.

    Attributes
    ----------
    increase : float or None
        Increase of the loss if the feature is left out and the others are refitted; None if not computed.
    checked : bool
        Whether the refits behind `increase` are known to be optimal.
    swaps : int or None
        Number of swaps of this feature that raise the loss by at most 1 %; None if none was examined.
    examined, total : int
        Number of examined swaps, and of all swaps.
    instead : tuple of (int, float)
        Features of these swaps and the increase of the loss by each, the best first.
    dispensable : bool
        Whether leaving the feature out raises the loss by at most 1 %. Then all swaps do, and `instead` has the best
        refitted ones.
    """

    increase: float | None = None
    checked: bool = True
    swaps: int | None = None
    examined: int = 0
    total: int = 0
    instead: tuple[tuple[int, float], ...] = ()
    dispensable: bool = False


@dataclass(frozen=True)
class FeatureSummary:
    """A selected feature.

    Attributes
    ----------
    feature : int
        Index of its column.
    name : str
    coefficient : tuple of float
        In units of the data: one coefficient, or one for each class.
    standardized : tuple of float
        Coefficients for features of standard deviation 1 (scale_ · coef_).
    ratio : tuple of float or None
        Odds, rate or mean ratios for an increase of the feature by 1, if the loss has them.
    counts : bool
        Whether the feature counts towards the budget; features of weight 0 do not.
    contribution : Contribution or None
        Contribution to the fit, if it was computed from data.
    instead : tuple of str
        Names of the features of `contribution.instead`.
    """

    feature: int
    name: str
    coefficient: tuple[float, ...]
    standardized: tuple[float, ...]
    ratio: tuple[float, ...] | None
    counts: bool
    contribution: Contribution | None = None
    instead: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelSummary:
    """Summary of a fitted model, returned by `model.summary()`.

    `print(summary)` shows it as text, a notebook as HTML, `summary.to_frame()` is a DataFrame.

    Attributes
    ----------
    title : str
    features : tuple of FeatureSummary
        The selected features, the largest standardised coefficients first.
    intercept : tuple of float
    classes : tuple of str or None
        Class labels, if there are more than two.
    ratio_name : str or None
        Name of the ratios: "odds ratio", "rate ratio" or "mean ratio".
    statistics : dict
        Known statistics of the fit: "n_samples", "n_features_in", "n_features", "loss", "null_loss",
        "explained" (the fraction of the deviance or of the loss explained by the features), "accuracy", "auc", "r2",
        for an estimator that has chosen its budget "cv_score", "cv_standard_error", "cv_folds" and "cv_scoring", or
        the criterion by its name.
    facts : tuple of (str, str)
        The statistics as text.
    loss_scale : float
        Reference of percentages of the loss: the loss above its least possible value.
    notes : tuple of str
        What the numbers mean, and what was not computed.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import SparseRegressor
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> y = 3 * X[:, 0] - X[:, 2]
    >>> summary = SparseRegressor(n_features=2).fit(X, y).summary()
    >>> [(row.name, round(row.coefficient[0], 6)) for row in summary.features]
    [('x0', 3.0), ('x2', -1.0)]
    """

    title: str
    features: tuple[FeatureSummary, ...]
    intercept: tuple[float, ...]
    classes: tuple[str, ...] | None
    ratio_name: str | None
    statistics: Mapping[str, Any] = field(default_factory=dict)
    facts: tuple[tuple[str, str], ...] = ()
    loss_scale: float = math.nan
    notes: tuple[str, ...] = ()

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each feature, or for each feature and class.

        Columns: "feature", "class" where there are more than two, "coefficient", the ratio by its name ("odds_ratio",
        "rate_ratio", "mean_ratio"), "standardized", "loss_increase", "near_swaps", "swaps_examined", "swaps_total" and
        "instead", a list of names. Values that were not computed are missing. The intercept is the last row.

        Returns
        -------
        pandas.DataFrame
        """
        width = len(self.intercept)
        intercept = FeatureSummary(-1, "(intercept)", self.intercept, (math.nan,) * width, None, counts=False)
        rows = [(row, k) for row in (*self.features, intercept) for k in range(width)]
        data = [row.contribution or Contribution() for row, _ in rows]
        columns: dict[str, Any] = {"feature": [row.name for row, _ in rows]}
        if self.classes is not None:
            columns["class"] = [self.classes[k] for _, k in rows]
        columns["coefficient"] = [row.coefficient[k] for row, k in rows]
        if self.ratio_name is not None:
            ratios = [math.nan if row.ratio is None else row.ratio[k] for row, k in rows]
            columns[self.ratio_name.replace(" ", "_")] = ratios
        columns["standardized"] = [row.standardized[k] for row, k in rows]
        columns["loss_increase"] = [math.nan if one.increase is None else one.increase for one in data]
        columns["near_swaps"] = [one.swaps for one in data]
        columns["swaps_examined"] = [None if one.swaps is None else one.examined for one in data]
        columns["swaps_total"] = [None if one.swaps is None else one.total for one in data]
        columns["instead"] = [list(row.instead) for row, _ in rows]
        frame = tables.data_frame(columns)
        for name in ("near_swaps", "swaps_examined", "swaps_total"):
            frame[name] = frame[name].astype("Int64")
        return frame

    def __str__(self) -> str:
        parts = [self.title, tables.facts_as_text(self.facts), *tables.titled_text(tables.summary_tables(self))]
        notes = [tables.notes_as_text(self.notes)] if self.notes else []
        return "\n\n".join([*parts, *tables.rows_left_out(self), *notes])

    def _repr_html_(self) -> str:
        shown = tables.titled_html(tables.summary_tables(self)) + tables.notes_as_html(tables.rows_left_out(self))
        notes = f'<div class="features">{tables.notes_as_html(self.notes)}</div>'
        return tables.card(escape(self.title), tables.facts_as_html(self.facts), shown, notes)


def summary_of(
    model: Any,
    kept: Collection[int] = (),
    measured: Mapping[str, Any] | None = None,
    contributions: Mapping[int, Contribution] | None = None,
    loss_scale: float = math.nan,
    notes: tuple[str, ...] = (),
    same_data: bool = False,
) -> ModelSummary:
    """Return the summary of a fitted estimator.

    Parameters
    ----------
    model : SparseClassifier, SparseRegressor, SparseClassifierCV or SparseRegressorCV
        Fitted.
    kept : collection of int
        Features that do not count towards the budget.
    measured : dict, optional
        Statistics computed from data.
    contributions : dict of int to Contribution, optional
        Contributions of features, computed from data.
    loss_scale : float
    notes : tuple of str
        Further notes.
    same_data : bool
        Whether `measured` belongs to the training data.
    """
    coef, scaled = np.atleast_2d(model.coef_).astype(np.float64), fitted.standardized(model)
    ratio_name, ratios = _ratios(model, coef) if np.any(coef) else (None, None)
    rows = []
    for j in by_size(model).tolist():
        one = None if contributions is None else contributions.get(j)
        row = FeatureSummary(
            feature=j,
            name=feature_name(model, j),
            coefficient=tuple(coef[:, j].tolist()),
            standardized=tuple(scaled[:, j].tolist()),
            ratio=None if ratios is None else tuple(ratios[:, j].tolist()),
            counts=j not in kept,
            contribution=one,
            instead=() if one is None else tuple(feature_name(model, i) for i, _ in one.instead),
        )
        rows.append(row)
    statistics = {**_known_statistics(model), **(measured or {})}
    several = coef.shape[0] > 1
    return ModelSummary(
        f"{type(model).__name__}, {_loss_words(model, several)}",
        tuple(rows),
        tuple(np.atleast_1d(model.intercept_).astype(np.float64).tolist()),
        tuple(map(str, model.classes_.tolist())) if several else None,
        ratio_name,
        statistics,
        tuple(_facts(model, statistics, same_data, bool(kept))),
        loss_scale,
        (*_ratio_notes(model, ratio_name, several), *notes, *([_AFTER_SELECTION] if rows else [])),
    )


def _ratios(model: Any, coef: Any) -> tuple[str | None, Any]:
    """Return the name and values of exp(coefficient); None if it has no meaning for the loss."""
    loss = model.loss_
    name = {Logistic: "odds ratio", Poisson: "rate ratio", Gamma: "mean ratio"}.get(type(loss))
    if name is None:
        return None, None
    exponent = coef - coef.mean(axis=0) if coef.shape[0] > 1 and model.multi_class_ == "softmax" else coef
    return name, np.where(np.abs(exponent) < _LARGEST_EXPONENT, np.exp(np.clip(exponent, -700, 700)), np.inf)


def _loss_words(model: Any, several: bool) -> str:
    name = model.loss_.name.replace("_", " ")
    if not several:
        return f"{name} loss"
    how = "softmax" if model.multi_class_ == "softmax" else "one against the rest"
    return f"{name} loss of {model.classes_.size} classes, {how}"


def _ratio_notes(model: Any, name: str | None, several: bool) -> list[str]:
    if name is None:
        return []
    if not several:
        if name == "odds ratio":
            of = f"the odds of class {model.classes_[-1]!s}"
        else:
            of = "the expected count" if name == "rate ratio" else "the expected value"
        return [f"The {name} is the factor on {of} when the feature rises by 1, the others unchanged."]
    against = "the geometric mean of all classes" if model.multi_class_ == "softmax" else "the other classes"
    return [f"Odds ratios are of each class against {against}, when the feature rises by 1."]


def _known_statistics(model: Any) -> dict[str, Any]:
    """Return the statistics that the fitted model has without data."""
    known: dict[str, Any] = {}
    if hasattr(model, "data_fingerprint_"):
        known["n_samples"] = int(model.data_fingerprint_.shape[0])
    elif hasattr(model, "n_samples_seen_"):
        known["n_samples"] = model.n_samples_seen_
    known["n_features_in"] = int(model.n_features_in_)
    known["n_features"] = int(model.selected_features_.size)
    if hasattr(model, "certificate_"):
        known["loss"] = float(model.certificate_.psi)
    if not hasattr(model, "cv_results_"):
        return known
    if model.criterion != "cv":
        return {**known, model.criterion: model.best_score_}
    results, best = model.cv_results_, model.best_index_
    known["cv_score"] = model.best_score_
    known["cv_standard_error"] = float(results["standard_error"][best]) if "standard_error" in results else math.nan
    known["cv_folds"] = sum(name.startswith("split") and name.endswith("_test_score") for name in results)
    scoring = model.scoring_
    known["cv_scoring"] = scoring if scoring is None or isinstance(scoring, str) else str(name_and_sign(scoring)[0])
    return known


def _facts(model: Any, statistics: Mapping[str, Any], same_data: bool, kept: bool) -> list[tuple[str, str]]:
    """Return the statistics as (name, text)."""
    facts = [("status", str(model.status_).replace("_", " "))] if hasattr(model, "status_") else []
    from_stream = counted(statistics["n_features"], "feature") + ", from a stream"
    facts.append(("budget", budget_words(model) if hasattr(model, "certificate_") else from_stream))
    data = counted(statistics["n_features_in"], "feature")
    if "n_samples" in statistics:
        n = statistics["n_samples"]
        data = f"{counted(n, 'sample') if isinstance(n, int) else f'{n:,.6g} samples'}, {data}"
    facts.append(("data", data))
    if "loss" in statistics:
        facts.append(("loss", _loss_fact(model, statistics, kept)))
        facts += ridge_words(model)
    names = {"accuracy": "accuracy", "auc": "AUC", "r2": "R²"}
    scores = [f"{name} {statistics[key]:.4g}" for key, name in names.items() if key in statistics]
    if scores:
        facts.append(("training data" if same_data else "on these data", ", ".join(scores)))
    if "cv_score" in statistics or hasattr(model, "cv_results_"):
        facts.append(("cross-validation" if model.criterion == "cv" else "chosen by", _choice_fact(model, statistics)))
    certificate = getattr(model, "certificate_", None)
    if isinstance(certificate, SubsetCertificate):
        facts.append(("swaps", _swap_fact(certificate)))
    if certificate is not None:
        facts.append(("larger budget", price_words(model)))
    return facts


def _loss_fact(model: Any, statistics: Mapping[str, Any], kept: bool) -> str:
    words = f"{statistics['loss']:.6g}"
    if "null_loss" in statistics:
        features = "the features that are always kept" if kept else "no features"
        words += f"; {statistics['null_loss']:.6g} with {features}"
    if "explained" in statistics and not isinstance(model.loss_, Squared):  # for which it is R²
        deviance = isinstance(model.loss_, _DEVIANCES)
        percent = round(100 * statistics["explained"], 1) + 0.0  # no −0.0
        words += f"; {percent:.1f} % of the {'deviance' if deviance else 'loss'} explained"
    return words


def _swap_fact(certificate: SubsetCertificate) -> str:
    seen = certificate.swaps
    if not seen.total:
        return "there are no swaps of one feature for another"
    if not seen.examined:
        return "swaps of one feature for another were not examined"
    by = ", by local refits" if seen.local else ""
    if seen.proved:
        return f"none of the {counted(seen.total, 'swap')} of one feature for another lowers the loss{by}"
    return f"none of {counted(seen.examined, 'swap')} examined of {seen.total:,} lowers the loss{by}"


def _choice_fact(model: Any, statistics: Mapping[str, Any]) -> str:
    name = next(iter(model.best_params_))
    count = len(model.cv_results_[name])
    values = ", ".join(f"{name} = {value:g}" for name, value in model.best_params_.items())
    chosen = f"{values}, chosen from {counted(count, 'candidate')}"
    if model.criterion != "cv":
        return f"{model.criterion.upper()} {model.best_score_:.6g}, the lowest; {chosen}"
    label, sign = name_and_sign(model.scoring_)
    label = label if label.split()[0].isupper() else label[0].lower() + label[1:]
    middle = "median" if "median_test_score" in model.cv_results_ else "mean"
    error = statistics["cv_standard_error"]
    spread = f" ± {error:.2g}" if middle == "mean" and math.isfinite(error) else ""
    how = f"{middle}{' ± standard error' if spread else ''} of {counted(statistics['cv_folds'], 'fold')}"
    return f"{label} {sign * model.best_score_:.4g}{spread} ({how}); {chosen}"
