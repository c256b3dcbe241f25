"""Ranking of candidates by their scores on folds, or by an information criterion.

A criterion is −2 log-likelihood and a price for each degree of freedom:

    AIC  = −2 log L + 2 ν
    BIC  = −2 log L + ν log n
    EBIC = −2 log L + ν log n + 2 log C(d, k)           (Chen and Chen 2008, with γ = 1)

n is the sum of the weights, ν the number of coefficients and intercepts that are fitted, k of d features. L is the
likelihood whose −log is the loss; where the loss leaves a scale open, it is the most likely one:

    logistic, softmax, poisson    −2 log L = 2nψ
    squared                       normal errors:   n log ψ
    absolute, quantile            Laplace errors:  2n log ψ
    gamma                         of shape a:      −2n max_a [a log a − log Γ(a) − aψ + (a − 1) mean(log y)]

up to constants that do not depend on the fit. Other losses are no likelihoods.

All three are expansions about the most likely coefficients. Where the loss has no minimiser, as on separable data,
there are none, and a criterion is not defined (`comparable`).

`score_results` and `criterion_results` make the columns of `cv_results_`, and warn of fits and scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import digamma, gammaln
from sklearn.base import is_classifier

from levelprox._typing import Rows, Vector
from levelprox.estimators._budget_fits import Scored
from levelprox.estimators._data import RemoteSamples
from levelprox.estimators._input import Samples
from levelprox.estimators._parameters import Budget
from levelprox.exceptions import InvalidInputError, warn

CRITERIA = ("aic", "bic", "ebic")
_PERFECT = 1e-14  # of ψ of the smallest model: a scale of errors is at least this
_LIKELIHOODS = ("squared", "absolute", "quantile", "logistic", "poisson", "gamma")


def check_likelihood(criterion: str, loss: str) -> None:
    """Raise unless the loss is a likelihood."""
    if loss not in _LIKELIHOODS:
        raise InvalidInputError(
            f"criterion={criterion!r} needs a likelihood, and the loss {loss!r} is none; use criterion='cv', or one of "
            f"the losses {', '.join(_LIKELIHOODS)}"
        )


def comparable(diverging: NDArray[np.bool_], counts: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which fits a criterion compares: those whose loss has a minimiser.

    If all of these are without features, the smallest of the other fits is compared too, at the loss it reached:
    features that separate the samples are then all there is besides the model without features.

    Parameters
    ----------
    diverging : ndarray of bool of shape (m,)
        Which fits have no minimiser, in ascending order of their budgets.
    counts : ndarray of int of shape (m,)
        Features that each fit uses.
    """
    usable = ~diverging
    if not np.any(usable & (counts > 0)) and np.any(diverging):
        usable[np.argmax(diverging)] = True
    return usable


def deviance(loss: str, psi: float, n: float, least: float, mean_log: float = 0.0) -> float:
    """Return −2 log L of a fit, up to a constant.

    Parameters
    ----------
    loss : str
    psi : float
        ψ, the mean loss.
    n : float
        The sum of the weights.
    least : float
        What ψ is taken to be at least, where it is the scale of the errors: a perfect fit has none.
    mean_log : float
        The mean of log y, for gamma.
    """
    if loss == "squared":
        return n * math.log(max(psi, least))
    if loss in ("absolute", "quantile"):
        return 2 * n * math.log(max(psi, least))
    if loss != "gamma":
        return 2 * n * psi
    # The most likely shape a has log a − digamma(a) = spread; the left side falls from inf to 0.
    spread = max(psi - mean_log - 1, 1e-14)
    a = float(brentq(lambda log_a: log_a - digamma(math.exp(log_a)) - spread, -700, 35))
    shape = math.exp(a)
    return -2 * n * (shape * a - float(gammaln(shape)) - shape * psi + (shape - 1) * mean_log)


def price(criterion: str, freedom: int, n: float, k: int, d: int) -> float:
    """Return what a criterion adds to −2 log L for ν = `freedom`."""
    if criterion == "aic":
        return 2.0 * freedom
    cost = math.log(n) * freedom
    if criterion == "ebic":
        cost += 2 * float(gammaln(d + 1) - gammaln(k + 1) - gammaln(d - k + 1))
    return cost


_TIE_TOLERANCE = 1e-12  # relative: scores that differ by less are equal, for any order of summation


@dataclass(frozen=True, eq=False)
class Ranking:
    """Candidates, ranked by the mean of their scores.

    A fold in which no candidate has a finite score is left out. If another score is not finite, candidates are ranked
    by a median over folds instead, in which such a score counts as the lowest: a minority of folds cannot decide. The
    median is that of the differences to the typical score of each fold, since some folds are harder than others.

    Attributes
    ----------
    scores : ndarray of shape (m, n_folds)
        Of m candidates, in ascending order of their budgets; higher is better.
    left_out : ndarray of int
        The folds that are left out.
    center : ndarray of shape (m,)
        What candidates are ranked by.
    """

    scores: Vector
    left_out: NDArray[np.intp]
    center: Vector

    @classmethod
    def of(cls, scores: Vector) -> Self | None:
        """Return the ranking; None where no score is finite."""
        finite = np.isfinite(scores)
        if not np.any(finite):
            return None
        left_out = np.flatnonzero(~np.any(finite, axis=0))
        kept = np.delete(scores, left_out, axis=1)
        every = bool(np.all(np.isfinite(kept)))
        return cls(scores, left_out, np.asarray(kept.mean(axis=1)) if every else _median_center(kept))

    @property
    def finite(self) -> NDArray[np.bool_]:
        """Mask of the scores that are finite; those of folds that are left out count as such."""
        finite = np.isfinite(self.scores)
        finite[:, self.left_out] = True
        return finite

    @property
    def by_median(self) -> bool:
        """Whether candidates are ranked by the median over folds."""
        return not bool(np.all(self.finite))

    @property
    def error(self) -> Vector:
        """Standard error of the mean of the finite scores; 0 where there are fewer than two."""
        return np.array([_standard_error(row[np.isfinite(row)]) for row in self.scores])

    def best(self, one_standard_error: bool, groups: list[Rows] | None = None) -> int:
        """Return the best candidate, of equal ones the smallest.

        Parameters
        ----------
        one_standard_error : bool
            Whether to take the smallest candidate within one standard error of the best.
        groups : list of ndarray of int, optional
            Candidates of one budget with different ridges, the largest first: only `of_each` may be the best.
        """
        rows = np.arange(self.center.size) if groups is None else self.of_each(groups)
        best = self._first_best(rows)
        return int(np.argmax(self._at_least(self.center[best] - self.error[best]))) if one_standard_error else best

    def of_each(self, groups: list[Rows]) -> Rows:
        """Return the first candidate of each group that is within a standard error of the best of the group.

        It is the standard error of the mean difference over folds. Where medians rank candidates, it is the best.
        """
        return np.array([self._first_of(rows) for rows in groups], np.intp)

    def _first_of(self, rows: Rows) -> int:
        best = self._first_best(rows)
        kept = np.delete(self.scores, self.left_out, axis=1)
        if self.by_median:
            return best
        errors = np.array([_standard_error(kept[row] - kept[best]) for row in rows])
        near = self.center[rows] >= self.center[best] - errors - _slack(float(self.center[best]))
        return int(rows[np.argmax(near)])

    def _first_best(self, rows: Rows) -> int:
        highest = float(np.max(self.center[rows]))
        return int(rows[np.argmax(self._at_least(highest)[rows])])

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns of `cv_results_`."""
        kept = np.delete(self.scores, self.left_out, axis=1)
        with np.errstate(invalid="ignore"):  # infinite scores have no mean and no deviation
            mean, spread = kept.mean(axis=1), kept.std(axis=1)
        found = {f"split{i}_test_score": column for i, column in enumerate(self.scores.T)}
        found |= {"mean_test_score": mean, "std_test_score": spread, "standard_error": self.error}
        if self.by_median:
            found["median_test_score"] = self.center
        rank = [1 + int(np.count_nonzero(~(self.center <= one + _slack(one)))) for one in self.center]
        return {**found, "rank_test_score": np.array(rank, np.int32)}

    def _at_least(self, value: float) -> NDArray[np.bool_]:
        """Return which candidates have this value or more, up to rounding."""
        return np.asarray(self.center >= value - _slack(value))


def groups_of(budgets: ArrayLike) -> list[Rows]:
    """Return the candidates of each budget, in their order."""
    values = np.asarray(budgets)
    return [np.flatnonzero(values == value) for value in dict.fromkeys(values.tolist())]


def scores_of(results: dict[str, NDArray[Any]]) -> Vector:
    """Return the scores of `cv_results_`, a row for each candidate."""
    count = sum(name.startswith("split") and name.endswith("_test_score") for name in results)
    return np.column_stack([results[f"split{i}_test_score"] for i in range(count)])


def _slack(value: float) -> float:
    return _TIE_TOLERANCE * abs(value) if math.isfinite(value) else 0.0


def _median_center(scores: Vector) -> Vector:
    """Return medians over folds, relative to the typical score of a fold; every fold has a finite score."""
    finite = np.isfinite(scores)
    typical = np.nanmedian(np.where(finite, scores, np.nan), axis=0)
    middle = np.median(np.where(finite, scores - typical, -np.inf), axis=1) + np.median(typical)
    if np.any(np.isfinite(middle)):
        return np.asarray(middle)
    # No candidate has a finite score in most folds: take those with the most finite ones, by the mean of these.
    counts = np.count_nonzero(finite, axis=1)
    mean = np.where(finite, scores, 0.0).sum(axis=1) / np.maximum(counts, 1)
    return np.where(counts == counts.max(), mean, -np.inf)


def _standard_error(scores: Vector) -> float:
    return float(scores.std(ddof=1)) / math.sqrt(scores.size) if scores.size > 1 else 0.0


# --- columns of cv_results_


def score_results(
    estimator: Any, budgets: list[Budget], table: list[list[Scored]]
) -> tuple[dict[str, NDArray[Any]], int]:
    """Return the results of all candidates on all folds, and the best of them; `table` has a row for each candidate."""

    def column(name: str) -> NDArray[Any]:
        return np.array([[getattr(one, name) for one in row] for row in table])

    diverging = column("diverging")
    by_label = estimator.scoring is None and is_classifier(estimator) and bool(np.any(diverging))
    ranking = Ranking.of(column("by_label" if by_label else "score"))
    if ranking is None:
        raise InvalidInputError(f"scoring={estimator.scoring!r} gave no finite score for any candidate")
    groups = groups_of([budget.value for budget in budgets]) if isinstance(estimator.ridge, str) else None
    best = ranking.best(estimator.one_standard_error, groups)
    results = {
        **_grid_columns(budgets),
        **ranking.columns(),
        "mean_n_selected": column("n_selected").mean(axis=1),
        "mean_fit_time": column("seconds").mean(axis=1),
        "n_unsolved": np.sum(~column("solved") | diverging, axis=1),
        "n_diverging": np.sum(diverging, axis=1),
    }
    _warn_of_fits(estimator, budgets, results, bool(np.any(column("by_length"))))
    _warn_of_scores(budgets, ranking)
    return results, best


def _warn_of_fits(estimator: Any, budgets: list[Budget], results: dict[str, NDArray[Any]], by_length: bool) -> None:
    """Warn of fits of folds that have no minimiser, or did not reach it; each with the remedy for its cause."""
    diverging = results["n_diverging"]
    early = results["n_unsolved"] - diverging
    if np.any(diverging):
        cause = (
            f"with {_listed_budgets(budgets, diverging > 0)} the loss of the training part of some folds has no "
            "minimiser, as on separable data, and coefficients grow without bound (cv_results_['n_diverging'])"
        )
        remedy = "Fewer features, or a level of constraint='l1', keep coefficients finite"
        if estimator.scoring is None and is_classifier(estimator):
            warn(
                f"{cause}. The held-out loss depends on where such a fit stops, so all budgets are scored by "
                f"accuracy. {remedy}; scoring sets another score"
            )
        elif by_length:
            labels = "; scoring='accuracy' depends on labels alone" if is_classifier(estimator) else ""
            warn(f"{cause}. Their scores depend on where the fit stops. {remedy}{labels}")
    if np.any(early):
        warn(
            f"with {_listed_budgets(budgets, early > 0)} some fits of folds stopped before they reached tol "
            "(cv_results_['n_unsolved']). Raise max_iter or time_limit, or tol"
        )


def _warn_of_scores(budgets: list[Budget], ranking: Ranking) -> None:
    """Warn of scores that are not finite, naming the folds."""
    if ranking.left_out.size:
        folds = ", ".join(map(str, ranking.left_out.tolist()))
        warn(f"no candidate has a finite score in fold {folds}; it is left out of the scores", UserWarning)
    if ranking.by_median:
        rows, places = np.nonzero(~ranking.finite)
        folds = ", ".join(map(str, np.unique(places).tolist()))
        warn(
            f"with {_listed_budgets(budgets, np.isin(np.arange(len(budgets)), rows))} the score of fold {folds} is not "
            "finite. Candidates are ranked by the median over folds, where such a score is the lowest "
            "(cv_results_['median_test_score'])",
            UserWarning,
        )


def criterion_results(
    estimator: Any, budgets: list[Budget], fits: list[Scored], samples: Samples | RemoteSamples
) -> tuple[dict[str, NDArray[Any]], int]:
    """Return the results of fits of all data by an information criterion, and the best of them."""
    loss, criterion, n, (_, d) = estimator.loss_.name, estimator.criterion_, samples.total, samples.shape
    mean_log = 0.0
    if loss == "gamma" and isinstance(samples, Samples):
        mean_log = float(np.average(np.log(samples.y), weights=samples.weight))
    psi, counts = np.array([one.score for one in fits]), np.array([one.n_selected for one in fits])
    freedom, diverging = np.array([one.freedom for one in fits]), np.array([one.diverging for one in fits])
    least = max(_PERFECT * float(np.max(psi)), np.finfo(np.float64).tiny)
    usable, values = comparable(diverging, counts), np.full(len(fits), np.nan)
    for i in np.flatnonzero(usable):
        values[i] = deviance(loss, psi[i], n, least, mean_log) + price(criterion, freedom[i], n, counts[i], d)
    if not np.all(usable):
        warn(
            f"with {_listed_budgets(budgets, ~usable)} the loss has no minimiser, as on separable data: {criterion} "
            "is not defined there, and these are left out. criterion='cv' compares them by accuracy"
        )
    results = {criterion: values, "loss": psi, "n_selected": counts, "df": freedom, "diverging": diverging}
    return {**_grid_columns(budgets), **results}, int(np.nanargmin(values))


def unexamined_results(criterion: str, first: Budget, n_folds: int) -> dict[str, NDArray[Any]]:
    """Return the results of the first candidate where there was no time to examine it."""
    counts: dict[str, NDArray[Any]] = {}
    unknown = [criterion, "loss", "n_selected", "df"]
    if criterion == "cv":
        unknown = [f"split{i}_test_score" for i in range(n_folds)]
        unknown += ["mean_test_score", "std_test_score", "standard_error", "mean_n_selected", "mean_fit_time"]
        counts = {"rank_test_score": np.ones(1, np.int32), "n_unsolved": np.full(1, n_folds)}
    return {**_grid_columns([first]), **{name: np.full(1, np.nan) for name in unknown}, **counts}


def examined_budgets(budgets: list[Budget], complete: list[bool]) -> list[Budget]:
    """Return the budgets that there was time for, those up to the first that is not complete; warn of the others."""
    count = complete.index(False) if False in complete else len(budgets)
    if count == 0:
        warn(
            f"there was no time to examine any of {len(budgets)} candidates: the smallest, {budgets[0].value:g}, is "
            "taken. Raise time_limit, or give fewer candidates"
        )
    elif count < len(budgets):
        warn(
            f"there was no time for {len(budgets) - count} of {len(budgets)} candidates, those above "
            f"{budgets[count - 1].value:g}: they are not in cv_results_. Raise time_limit, or give fewer candidates"
        )
    return budgets[:count]


def _listed_budgets(budgets: list[Budget], which: NDArray[np.bool_]) -> str:
    """Return some of the budgets, as messages name them."""
    name = budgets[0].name
    values = list(dict.fromkeys(f"{budget.value:g}" for budget, here in zip(budgets, which, strict=True) if here))
    return f"{name} {values[0]}" if len(values) == 1 else f"{name} {', '.join(values[:-1])} and {values[-1]}"


def _grid_columns(budgets: list[Budget]) -> dict[str, NDArray[Any]]:
    """Return the columns of the grid: budgets, and ridges where they are chosen."""
    name = budgets[0].name
    values = np.array([budget.features if name == "n_features" else budget.value for budget in budgets])
    ridges = {} if budgets[0].ridge is None else {"ridge": np.array([budget.ridge for budget in budgets])}
    return {name: values, **ridges}
