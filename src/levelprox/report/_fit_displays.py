"""Displays of one fit: ConvergenceDisplay, its history, and CVDisplay, the choice of its budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from levelprox.exceptions import InvalidInputError
from levelprox.report import _drawing as drawing
from levelprox.report._drawing import COLOURS, GREY, INK, PALE, Mark
from levelprox.report.fitted import BUDGET_LABELS, Axis, check_axis, check_fitted, check_ours, name_and_sign
from levelprox.result import Record
from levelprox.subset.result import SubsetRecord


class ConvergenceDisplay:
    """Plot the loss ψ, and the KKT residual if it is known, against time or steps.

    Parameters
    ----------
    history : sequence of Record or of SubsetRecord
        `history_` of an estimator, or `history` of what `solve` or `best_subset` returned.
    tol : float, optional
        Tolerance, drawn as a line next to the KKT residual.

    Attributes
    ----------
    ax_ : matplotlib Axes, or an array of two with a KKT residual
    figure_ : matplotlib Figure
    lines_ : list of Line2D
        ψ, and the KKT residual.
    phases_ : dict of str to Line2D
        Markers of the phases of a feature search.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import ConvergenceDisplay, SparseRegressor
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> y = 3 * X[:, 0] - X[:, 2]
    >>> model = SparseRegressor(level=1.0).fit(X, y)
    >>> display = ConvergenceDisplay.from_estimator(model)  # doctest: +SKIP
    >>> ConvergenceDisplay(model.history_, tol=model.tol).tol
    1e-06
    """

    def __init__(self, history: Sequence[Record] | Sequence[SubsetRecord], *, tol: float | None = None) -> None:
        self.history: tuple[Record | SubsetRecord, ...] = tuple(history)
        self.tol = tol
        if not self.history:
            raise InvalidInputError(
                "the fit has no history: it took no step, or was solved together with the other levels of a path"
            )

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> Self:
        """Draw the history of a fitted estimator.

        Parameters
        ----------
        estimator : SparseClassifier, SparseRegressor, SparseClassifierCV or SparseRegressorCV
            Fitted.
        ax : matplotlib Axes, or two of them; optional
        **options
            As in `plot`.

        Returns
        -------
        ConvergenceDisplay
        """
        check_ours("ConvergenceDisplay", estimator)
        if hasattr(estimator, "n_samples_seen_") and not hasattr(estimator, "history_"):
            raise InvalidInputError(
                f"partial_fit stores no history: this {type(estimator).__name__} was fitted by partial_fit, not by fit"
            )
        check_fitted("ConvergenceDisplay", estimator, "history_")
        return cls(estimator.history_, tol=estimator.tol).plot(ax, **options)

    def plot(
        self, ax: Any = None, *, against: Literal["seconds", "steps"] = "seconds", line_kw: dict[str, Any] | None = None
    ) -> Self:
        """Draw the figure.

        Parameters
        ----------
        ax : matplotlib Axes, or two of them for ψ and the KKT residual; optional
            By default those of a new figure. With a single one, only ψ is drawn.
        against : {"seconds", "steps"}, default="seconds"
            Steps are outer steps; for a feature search, improvements of the best fit.
        line_kw : dict, optional
            Options of matplotlib's `plot`.

        Returns
        -------
        ConvergenceDisplay
            This display.
        """
        if against not in ("seconds", "steps"):
            raise InvalidInputError(f"against must be one of seconds, steps, got {against!r}")
        levels = [record for record in self.history if isinstance(record, Record)]
        panels = drawing.new_axes(ax, (1.0, 1.0) if levels else (1.0,), (7.0, 5.0) if levels else (7.0, 4.0))
        t = self._times(against)
        self.phases_: dict[str, Any] = {}
        self.lines_ = [self._psi(panels[0], t, bool(levels), line_kw or {})]
        if levels and len(panels) == 2:
            self.lines_.append(self._kkt(panels[1], t, np.array([record.kkt for record in levels]), line_kw or {}))
        steps = "Outer steps" if levels else "Improvements of the best fit"
        drawing.label_x(panels[-1], "Seconds" if against == "seconds" else steps, whole=against == "steps")
        self.ax_ = panels[0] if len(panels) == 1 else np.array(panels, dtype=object)
        self.figure_ = panels[0].figure
        return self

    def _times(self, against: str) -> Any:
        if against == "seconds":
            return np.array([record.seconds for record in self.history])
        return np.array([r.k if isinstance(r, Record) else i + 1 for i, r in enumerate(self.history)])

    def _psi(self, panel: Any, t: Any, dots: bool, line_kw: dict[str, Any]) -> Any:
        psi = np.array([record.psi for record in self.history])
        # The best fit of a search is constant until it improves.
        style = {"marker": "o", "ms": 3.5} if dots else {"drawstyle": "steps-post"}
        (line,) = panel.plot(t, psi, **{"color": COLOURS[0] if dots else GREY, "lw": 1.6, **style, **line_kw})
        panel.set_ylabel("Loss", color=INK)
        if not dots:
            self._mark_phases(panel, t, psi)
        drawing.note(panel, f"{psi[-1]:.5g}", t[-1], psi[-1], INK, ha="right", xytext=(0, 9))
        return line

    def _mark_phases(self, panel: Any, t: Any, psi: Any) -> None:
        """Mark the improvements of each phase of a search."""
        phases = np.array([record.phase for record in self.history if isinstance(record, SubsetRecord)])
        for phase, (name, colour) in drawing.PHASES.items():
            at = np.flatnonzero(phases == phase)
            if at.size:
                (self.phases_[phase],) = panel.plot(t[at], psi[at], "o", ms=5, color=colour, label=name, zorder=3)
        panel.legend(frameon=False, fontsize="small", title="found while", title_fontsize="small", labelcolor=INK)

    def _kkt(self, panel: Any, t: Any, kkt: Any, line_kw: dict[str, Any]) -> Any:
        """Draw the residuals on a logarithmic axis; those that are exactly 0 are left out."""
        shown = np.where(kkt > 0, kkt, np.nan)
        style = {"color": COLOURS[1], "lw": 1.6, "marker": "o", "ms": 3.5, **line_kw}
        (line,) = panel.plot(t, shown, **style)
        panel.set_yscale("log")
        panel.set_ylabel("KKT residual", color=INK)
        if self.tol:
            panel.axhline(self.tol, color=GREY, lw=0.9, ls=(0, (4, 3)), zorder=1)
            at_the_right: Any = {"xycoords": ("axes fraction", "data"), "xytext": (0, 3), "ha": "right"}
            drawing.note(panel, f"tol {self.tol:.0e}", 1, self.tol, GREY, **at_the_right)
        return line


_BLUE, _ORANGE = COLOURS[:2]
_TIE_TOLERANCE = 1e-12  # relative, as in the choice of the budget


class CVDisplay:
    """Plot the cross-validation scores or the information criterion of each budget, and mark the chosen one.

    Parameters
    ----------
    budgets : array-like of shape (m,)
        Numbers of features k, or levels η, in ascending order.
    scores : array-like of shape (m,)
        Mean score or information criterion of each budget.
    errors : array-like of shape (m,), optional
        Standard errors of the mean scores.
    folds : array-like of shape (m, n_folds), optional
        Scores of each fold.
    chosen : int
        Index of the chosen budget.
    by : {"n_features", "level", "budget"}, default="n_features"
        Kind of the budgets.
    diverging : array-like of bool of shape (m,), optional
        Budgets for which some fits have no minimiser; their markers are open.
    score_name : str, default="Score"
        Label of the y axis.
    lower_is_better : bool, default=False
        Whether the best score is the lowest.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : Line2D
        Line of the scores.
    lines_ : list of Line2D
        Lines of the folds.
    band_ : FillBetweenPolyCollection or None
        Band of one standard error.
    diverging_ : Line2D or None
        Markers of budgets for which some fits diverge.
    chosen_ : Line2D
        Marker of the chosen budget.
    other_ : Line2D or None
        Marker of the best budget, or of the smallest one within one standard error of it, if that is not chosen.
    labels_ : list of Annotation
        Labels of the markers.

    Examples
    --------
    >>> from levelprox import CVDisplay
    >>> display = CVDisplay(budgets=[1, 2, 3], scores=[0.5, 0.9, 0.91], errors=[0.02, 0.02, 0.02], chosen=2)
    >>> display.best, display.within_one_standard_error
    (2, 1)
    >>> display.plot()  # doctest: +SKIP
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
        diverging: ArrayLike | None = None,
        score_name: str = "Score",
        lower_is_better: bool = False,
    ) -> None:
        self.budgets = np.asarray(budgets, np.float64)
        self.scores = np.asarray(scores, np.float64)
        self.errors = None if errors is None else np.asarray(errors, np.float64)
        self.folds = None if folds is None else np.asarray(folds, np.float64)
        self.chosen = chosen
        self.by = check_axis(by)
        none = np.zeros(self.budgets.shape, np.bool_)
        self.diverging = none if diverging is None else np.asarray(diverging, np.bool_)
        self.score_name = score_name
        self.lower_is_better = lower_is_better
        if self.scores.shape != self.budgets.shape or not self.budgets.size:
            raise InvalidInputError(
                f"scores must have one for each of the budgets, got {self.scores.shape} and {self.budgets.shape}"
            )

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> Self:
        """Draw the scores of a fitted estimator.

        Negative losses, such as the default score and "neg_…" of scikit-learn, are drawn as losses. The limits of the y
        axis include the means (or medians, if the choice used them) and their errors; outlying folds may be cut off.
        A fit without a minimiser has no information criterion and no marker.

        Parameters
        ----------
        estimator : SparseClassifierCV or SparseRegressorCV
            Fitted.
        ax : matplotlib Axes, optional
        **options
            As in `plot`.

        Returns
        -------
        CVDisplay
        """
        check_fitted("CVDisplay", estimator, "cv_results_", chooses=True)
        results, chosen = estimator.results_by_budget()
        by = next(name for name in BUDGET_LABELS if name in results)
        shared = {"budgets": results[by], "by": by, "chosen": chosen}
        if estimator.criterion_ != "cv":
            name, scores = f"{estimator.criterion_.upper()}, lower is better", results[estimator.criterion_]
            shared |= {"diverging": results.get("diverging"), "score_name": name, "lower_is_better": True}
            return cls(scores=scores, **shared).plot(ax, **options)
        name, sign = name_and_sign(estimator.scoring_)
        n_folds = sum(key.startswith("split") for key in results)
        display = cls(
            scores=sign * results.get("median_test_score", results["mean_test_score"]),
            errors=results["standard_error"],
            folds=sign * np.column_stack([results[f"split{i}_test_score"] for i in range(n_folds)]),
            diverging=results.get("n_diverging", np.zeros(len(results[by]))) > 0,
            score_name=name,
            lower_is_better=sign < 0,
            **shared,
        )
        return display.plot(ax, **options)

    @property
    def best(self) -> int:
        """Index of the best score; of ties up to rounding, the smallest budget."""
        values = -self.scores if self.lower_is_better else self.scores
        highest = float(np.nanmax(values))
        return int(np.argmax(values >= highest - (_TIE_TOLERANCE * abs(highest) if np.isfinite(highest) else 0.0)))

    @property
    def within_one_standard_error(self) -> int:
        """Index of the smallest budget whose score is within one standard error of the best."""
        if self.errors is None:
            return self.best
        sign = -1.0 if self.lower_is_better else 1.0
        least = sign * self.scores[self.best] - self.errors[self.best]
        return int(np.argmax(sign * self.scores >= least))

    def plot(self, ax: Any = None, *, show_folds: bool = True, line_kw: dict[str, Any] | None = None) -> Self:
        """Draw the figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.
        show_folds : bool, default=True
            Whether to draw the lines of the folds.
        line_kw : dict, optional
            Options of matplotlib's `plot` for the line of the scores.

        Returns
        -------
        CVDisplay
            This display.
        """
        (panel,) = drawing.new_axes(ax)
        before = panel.get_ylim() if panel.has_data() else None
        self.lines_ = []
        if show_folds and self.folds is not None:
            self.lines_ = panel.plot(self.budgets, self.folds, color=PALE, lw=0.8, zorder=1)
        self.band_ = None
        if self.errors is not None:
            low, high = self.scores - self.errors, self.scores + self.errors
            self.band_ = panel.fill_between(self.budgets, low, high, color=_BLUE, alpha=0.16, lw=0, zorder=2)
        style = {"color": _BLUE, "lw": 1.8, "marker": "o", "ms": 3.5, "zorder": 3, **(line_kw or {})}
        (self.line_,) = panel.plot(self.budgets, self.scores, **style)
        self.diverging_ = None
        if np.any(self.diverging):
            points = self.budgets[self.diverging], self.scores[self.diverging]
            open_circles = {"mfc": "white", "mec": style["color"], "ms": 4.5, "zorder": 3.5}
            (self.diverging_,) = panel.plot(*points, "o", label="some fits diverge", **open_circles)
            panel.legend(handles=[self.diverging_], frameon=False, fontsize="small", labelcolor=INK)
        panel.margins(x=0.03)
        self._mark(panel, before)
        drawing.label_x(panel, BUDGET_LABELS[self.by], whole=self.by == "n_features")
        panel.set_ylabel(self.score_name, color=INK)
        self.ax_, self.figure_ = panel, panel.figure
        return self

    def _mark(self, panel: Any, before: tuple[float, float] | None) -> None:
        """Mark the chosen budget and the alternative; `before` are the limits of earlier drawings on the axes."""
        thrifty = self.within_one_standard_error
        why = ", within one standard error" if self.chosen == thrifty != self.best else ""
        marks = [self._as_mark(self.chosen, "chosen: {}" + why, _ORANGE)]
        if self.chosen == thrifty != self.best:
            marks.append(self._as_mark(self.best, "best: {}", INK))
        elif self.chosen == self.best != thrifty:
            marks.append(self._as_mark(thrifty, "within one standard error: {}", INK))
        low, high = self._heights()
        if before is not None:
            low, high = min(low, *before), max(high, *before)
        # Labels go to the better side of the curve, where there is room.
        panel.set_ylim(*drawing.room_for_labels(panel, low, high, len(marks), self.lower_is_better))
        dots = [
            panel.plot([at.x], [at.y], "o", ms=8, mfc=fill, mec=at.colour, mew=1.4, zorder=4)[0]
            for at, fill in zip(marks, (_ORANGE, "white"), strict=False)
        ]
        self.chosen_, self.other_ = dots[0], dots[1] if len(dots) > 1 else None
        self.labels_ = drawing.label_marks(panel, marks, self.lower_is_better)

    def _as_mark(self, i: int, words: str, colour: str) -> Mark:
        full = words.format(f"{self.budgets[i]:g}")
        short = full.replace("one standard error", "1 s.e.")
        return Mark(float(self.budgets[i]), float(self.scores[i]), full, colour, short)

    def _heights(self) -> tuple[float, float]:
        """Return the limits of the y axis without its labels.

        They include the means with two standard errors to either side; very large errors are cut. A mean that a single
        fold moves beyond all other folds may be outside if it would take more than half of the axis.
        """
        errors = np.zeros_like(self.scores) if self.errors is None else np.nan_to_num(self.errors)
        reach = 2 * np.minimum(errors, 3 * np.median(errors))
        low, high = drawing.span_of(np.concatenate([self.scores - reach, self.scores + reach]))
        if self.folds is None or self.folds.shape[1] < 3:
            return low, high
        centres = drawing.without_one_fold(self.scores, self.folds)
        marked = self.scores[[self.chosen, self.best, self.within_one_standard_error]]
        tight = drawing.span_of(np.concatenate([centres - reach, centres + reach, marked]))
        return tight if high - low > 2 * (tight[1] - tight[0]) else (low, high)
