"""CVDisplay: how a budget was chosen."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from levelprox.errors import InvalidInputError
from levelprox.report.budgets import Axis, check_axis, label_of
from levelprox.report.drawing import COLOURS, INK, PALE, new_axes, note, whole_numbers

_BLUE, _ORANGE = COLOURS[:2]


class CVDisplay:
    """Scores of the candidates on held-out samples, or an information criterion, and which one was chosen.

    Parameters
    ----------
    budgets : array-like of shape (m,)
        Numbers of features k, or levels η, in ascending order.
    scores : array-like of shape (m,)
        The mean score of each, or its criterion.
    errors : array-like of shape (m,), optional
        Standard errors of the mean scores.
    folds : array-like of shape (m, n_folds), optional
        Scores of each fold.
    chosen : int
        Which one was chosen.
    by : {"n_features", "level"}, default="n_features"
        What the budgets are.
    score_name : str, default="Score"
        What the y axis is called.
    lower_is_better : bool, default=False
        Whether the best score is the lowest.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : Line2D
        The scores.
    lines_ : list of Line2D
        Those of the folds.
    band_ : FillBetweenPolyCollection or None
        One standard error to either side.
    chosen_ : Line2D
        The mark of the chosen one.
    other_ : Line2D or None
        The mark of the best one, where that is not the chosen one; or of the smallest one within one standard error of
        the best, where that is not the chosen one.
    """

    def __init__(
        self,
        *,
        budgets: ArrayLike,
        scores: ArrayLike,
        chosen: int,
        errors: ArrayLike | None = None,
        folds: ArrayLike | None = None,
        by: Axis = "n_features",
        score_name: str = "Score",
        lower_is_better: bool = False,
    ) -> None:
        self.budgets = np.asarray(budgets, np.float64)
        self.scores = np.asarray(scores, np.float64)
        self.errors = None if errors is None else np.asarray(errors, np.float64)
        self.folds = None if folds is None else np.asarray(folds, np.float64)
        self.chosen = chosen
        self.by = check_axis(by)
        self.score_name = score_name
        self.lower_is_better = lower_is_better
        if self.scores.shape != self.budgets.shape or not self.budgets.size:
            raise InvalidInputError(
                f"scores must have one for each of the budgets, got {self.scores.shape} and {self.budgets.shape}"
            )

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> Self:
        """Draw what a fitted estimator chose from.

        Scores that are negative losses, as the default and scikit-learn's "neg_…", are drawn as losses.

        Parameters
        ----------
        estimator : SparseClassifierCV or SparseRegressorCV
            Fitted.
        ax : matplotlib Axes, optional
        **options
            As in `plot`.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator, "cv_results_")
        results = estimator.cv_results_
        by: Axis = "n_features" if "n_features" in results else "level"
        shared = {"budgets": results[by], "by": by, "chosen": estimator.best_index_}
        if estimator.criterion != "cv":
            name = f"{estimator.criterion.upper()}, lower is better"
            display = cls(scores=results[estimator.criterion], score_name=name, lower_is_better=True, **shared)
            return display.plot(ax, **options)
        name, sign = _score_name(estimator.scoring)
        n_folds = sum(key.startswith("split") for key in results)
        display = cls(
            scores=sign * results["mean_test_score"],
            errors=results["standard_error"],
            folds=sign * np.column_stack([results[f"split{i}_test_score"] for i in range(n_folds)]),
            score_name=name,
            lower_is_better=sign < 0,
            **shared,
        )
        return display.plot(ax, **options)

    @property
    def best(self) -> int:
        """The best score; of equal ones the smallest budget."""
        return int(np.nanargmin(self.scores) if self.lower_is_better else np.nanargmax(self.scores))

    @property
    def within_one_standard_error(self) -> int:
        """The smallest budget whose score is within one standard error of the best."""
        if self.errors is None:
            return self.best
        sign = -1.0 if self.lower_is_better else 1.0
        least = sign * self.scores[self.best] - self.errors[self.best]
        return int(np.argmax(sign * self.scores >= least))

    def plot(self, ax: Any = None, *, show_folds: bool = True, line_kw: dict[str, Any] | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.
        show_folds : bool, default=True
            Whether to draw the folds, too.
        line_kw : dict, optional
            For matplotlib's `plot`, for the line of the scores.
        """
        (panel,) = new_axes(ax)
        self.lines_ = []
        if show_folds and self.folds is not None:
            self.lines_ = panel.plot(self.budgets, self.folds, color=PALE, lw=0.8, zorder=1)
        self.band_ = None
        if self.errors is not None:
            low, high = self.scores - self.errors, self.scores + self.errors
            self.band_ = panel.fill_between(self.budgets, low, high, color=_BLUE, alpha=0.16, lw=0, zorder=2)
        style = {"color": _BLUE, "lw": 1.8, "marker": "o", "ms": 3.5, "zorder": 3, **(line_kw or {})}
        (self.line_,) = panel.plot(self.budgets, self.scores, **style)
        panel.margins(x=0.03, y=0.12)
        self._mark(panel)
        panel.set_xlabel(label_of(self.by), color=INK)
        panel.set_ylabel(self.score_name, color=INK)
        if self.by == "n_features":
            whole_numbers(panel)
        self.ax_, self.figure_ = panel, panel.figure
        return self

    def _mark(self, panel: Any) -> None:
        """Mark the chosen one, and the other that might have been."""
        thrifty = self.within_one_standard_error
        why = ", within one standard error" if self.chosen == thrifty != self.best else ""
        self.chosen_ = self._dot(panel, self.chosen, f"chosen: {self.budgets[self.chosen]:g}{why}", _ORANGE)
        self.other_ = None
        if self.chosen not in (self.best, thrifty):
            return
        if self.chosen != self.best:
            self.other_ = self._dot(panel, self.best, f"best: {self.budgets[self.best]:g}", None)
        elif self.chosen != thrifty:
            self.other_ = self._dot(panel, thrifty, f"within one standard error: {self.budgets[thrifty]:g}", None)

    def _dot(self, panel: Any, i: int, words: str, fill: str | None) -> Any:
        x, y = self.budgets[i], self.scores[i]
        colour = fill or INK
        (dot,) = panel.plot([x], [y], "o", ms=8, mfc=fill or "white", mec=colour, mew=1.4, zorder=4)
        up = -1 if self.lower_is_better else 1  # away from the curve, which is worse everywhere else
        note(
            panel,
            words,
            x,
            y,
            colour,
            xytext=(0, 12 * up),
            ha="center",
            va="bottom" if up > 0 else "top",
            zorder=5,
        )
        return dot


def _score_name(scoring: Any) -> tuple[str, float]:
    """What a score is called, and the sign with which it is drawn."""
    if scoring is None:
        return "Loss ψ of held-out samples", -1.0
    if not isinstance(scoring, str):
        return "Score of held-out samples", 1.0
    plain = scoring.removeprefix("neg_").replace("_", " ")
    return f"{plain[0].upper()}{plain[1:]} of held-out samples", -1.0 if scoring.startswith("neg_") else 1.0
