"""PathDisplay: coefficients against the number of features, or against the level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from levelprox._path import Path
from levelprox.exceptions import InvalidInputError
from levelprox.report import _drawing as drawing
from levelprox.report import fitted
from levelprox.report._drawing import COLOURS, GREY, INK, PALE, SMALL
from levelprox.report.fitted import BUDGET_LABELS, Axis, check_axis
from levelprox.subset.result import Swaps


class PathDisplay:
    """Plot the coefficients against the budget.

    Features that are never used are not drawn. The largest coefficients of the largest model are drawn in colour, with
    names at the ends of their lines; the others are grey. If a budget was chosen, it is marked by a vertical line, and
    the features of that model are drawn in colour and named in a legend.

    Coefficients of numbers of features are dots joined by thin lines, or steps if the numbers are many.

    Parameters
    ----------
    budgets : array-like of shape (m,)
        Numbers of features k, or levels η, in ascending order.
    coefficients : array or sparse matrix of shape (m, d)
        Of each budget, in rows: scale_ · coef_, or ‖scale_j coef_j‖ where a feature has several coefficients.
    losses : array-like of shape (m,), optional
        ψ of each budget.
    feature_names : sequence of str, optional
        By default x0, x1, and so on.
    by : {"n_features", "level"}, default="level"
        Kind of the budgets.
    coefficient_name : str, default="Coefficient"
        Label of the y axis.
    chosen : float, optional
        The chosen budget.

    Attributes
    ----------
    ax_ : matplotlib Axes, or an array of two with `loss=True`
    figure_ : matplotlib Figure
    lines_ : dict of int to Line2D
        Line of each feature that is drawn.
    labels_ : list of Annotation
        Names at the ends of the lines.
    chosen_line_ : Line2D or None
        Vertical line at the chosen budget.
    chosen_labels_ : list of Text
        Names of the chosen features in the legend.
    loss_line_ : Line2D or None

    See Also
    --------
    from_estimator : Fit an estimator for each budget.
    from_path : Draw the result of `levelprox.path` or `levelprox.subset_path`.

    Examples
    --------
    >>> from levelprox import PathDisplay
    >>> display = PathDisplay(budgets=[0, 1, 2], coefficients=[[0, 0], [2.0, 0], [1.9, 0.5]], by="n_features")
    >>> display.coefficients.shape
    (3, 2)
    >>> display.plot()  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        budgets: ArrayLike,
        coefficients: Any,
        losses: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        by: Axis = "level",
        coefficient_name: str = "Coefficient",
        chosen: float | None = None,
    ) -> None:
        self.budgets = np.asarray(budgets, np.float64)
        self.coefficients = scipy.sparse.csc_array(coefficients)
        self.losses = None if losses is None else np.asarray(losses, np.float64)
        self.feature_names = feature_names
        self.by = check_axis(by)
        self.coefficient_name = coefficient_name
        self.chosen = chosen
        m, d = self.coefficients.shape
        if self.budgets.shape != (m,) or not m:
            raise InvalidInputError(
                f"coefficients must have a row for each budget, got {m} rows and {self.budgets.size} budgets"
            )
        if feature_names is not None and len(feature_names) != d:
            raise InvalidInputError(f"feature_names must have {d} names, got {len(feature_names)}")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: object,
        y: ArrayLike,
        *,
        n_features: Sequence[int] | ArrayLike | None = None,
        level: Sequence[float] | ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        fit_params: dict[str, Any] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Fit the model for each budget and draw the coefficients.

        Parameters
        ----------
        estimator : SparseClassifier, SparseRegressor, SparseClassifierCV or SparseRegressorCV
            Fitted or not; it is not changed. If it has chosen a budget, the choice is marked.
        X, y, sample_weight
            Data of the fits.
        n_features : sequence of int, optional
            Numbers of features. By default those of `estimator.path_budgets`.
        level : sequence of float, optional
            Levels; each fit starts from the previous one.
        fit_params : dict, optional
            Further arguments of `fit`: offset, exposure.
        ax : matplotlib Axes, optional
        **options
            As in `plot`.

        Returns
        -------
        PathDisplay
        """
        fitted.check_ours("PathDisplay", estimator)
        fits = estimator.fit_path(
            X, y, n_features=n_features, level=level, sample_weight=sample_weight, **(fit_params or {})
        )
        by = fitted.axis_of(fits[0])
        display = cls(
            budgets=[fitted.budget_of_fit(one) for one in fits],
            coefficients=scipy.sparse.csr_array(np.array([fitted.in_one_figure(one) for one in fits])),
            losses=[one.certificate_.psi for one in fits],
            feature_names=fitted.feature_names(fits[0]) if hasattr(fits[0], "feature_names_in_") else None,
            by=by,
            chosen=getattr(estimator, "best_params_", {}).get(by),
            coefficient_name=fitted.coefficient_name(fits[0]),
        )
        return display.plot(ax, **options)

    @classmethod
    def from_path(
        cls, path: Path, feature_names: Sequence[str] | None = None, *, ax: Any = None, **options: Any
    ) -> Self:
        """Draw a path.

        Parameters
        ----------
        path : levelprox.Path
            Path of models with one coefficient for each feature.
        feature_names : sequence of str, optional
            Names of all coefficients, or of all except the last, which is then an intercept and not drawn.
        ax : matplotlib Axes, optional
        **options
            As in `plot`.

        Returns
        -------
        PathDisplay
        """
        coefficients = scipy.sparse.csc_array(path.coefficients)
        if feature_names is not None and len(feature_names) == coefficients.shape[1] - 1:
            coefficients = coefficients[:, : len(feature_names)]
        counts = bool(path.certificates) and isinstance(path.certificates[0], Swaps)
        display = cls(
            budgets=path.levels,
            coefficients=coefficients,
            losses=path.losses,
            feature_names=feature_names,
            by="n_features" if counts else "level",
        )
        return display.plot(ax, **options)

    def plot(
        self, ax: Any = None, *, names: int = len(COLOURS), loss: bool = False, line_kw: dict[str, Any] | None = None
    ) -> Self:
        """Draw the figure.

        Parameters
        ----------
        ax : matplotlib Axes, or two of them with `loss=True`; optional
            By default those of a new figure.
        names : int, default=8
            Number of features of the largest model, and of the chosen one, to draw in colour with names.
        loss : bool, default=False
            Whether to draw ψ in a second panel below.
        line_kw : dict, optional
            Options of matplotlib's `plot` for the lines in colour.

        Returns
        -------
        PathDisplay
            This display.
        """
        if loss and self.losses is None:
            raise InvalidInputError("loss=True needs losses")
        panels = drawing.new_axes(ax, (3.0, 1.0) if loss else (1.0,), (7.0, 5.4) if loss else (7.0, 4.3))
        top = panels[0]
        self._draw(top, names, line_kw or {})
        top.set_ylabel(self.coefficient_name, color=INK)
        self.loss_line_ = None
        if loss and len(panels) == 2:
            (self.loss_line_,) = panels[1].plot(
                self.budgets, self.losses, **{"color": INK, "lw": 1.4, "ms": 3, **self._style()}
            )
            panels[1].set_ylabel("Loss", color=INK)
        for panel in panels:
            panel.margins(x=0.0)
        drawing.label_x(panels[-1], BUDGET_LABELS[self.by], whole=self.by == "n_features")
        self.ax_ = top if len(panels) == 1 else np.array(panels, dtype=object)
        self.figure_ = top.figure
        return self

    def _draw(self, panel: Any, names: int, line_kw: dict[str, Any]) -> None:
        used = np.flatnonzero(np.diff(self.coefficients.indptr))
        values = self.coefficients[:, used].toarray()
        curves, last = drawing.where_used(values), values[-1]
        order = np.argsort(-np.abs(last), kind="stable")
        ends = drawing.largest(last, names)
        picked = self._chosen_row()
        choice = [] if picked is None else drawing.largest(values[picked], names)
        named = list(dict.fromkeys([*choice, *ends]))
        panel.axhline(0, color=GREY, lw=0.7, zorder=1)
        self.lines_ = {}
        for i in order[::-1]:  # the largest are drawn last, on top
            if i in named:
                continue
            final = last[i] != 0
            grey = {"color": GREY if final else PALE, "lw": 1.0 if final else 0.8, "zorder": 2, "ms": 2}
            (self.lines_[int(used[i])],) = panel.plot(self.budgets, curves[:, i], **{**grey, **self._style()})
        colours = {i: COLOURS[rank % len(COLOURS)] for rank, i in enumerate(named)}
        for rank, (i, colour) in enumerate(colours.items()):
            style = {"color": colour, "lw": 1.8, "ms": 4.5, "zorder": 3, "clip_on": False, **self._style()}
            if rank >= len(COLOURS):
                style |= {"ls": (0, (4, 2)), "mfc": "white"}
            (self.lines_[int(used[i])],) = panel.plot(self.budgets, curves[:, i], **{**style, **line_kw})
        panel.margins(x=0.0, y=0.06)
        ended = [self._name(int(used[i])) for i in ends]
        self.labels_ = drawing.name_lines(panel, ended, last[ends], [colours[i] for i in ends])
        rest = 0 if picked is None else np.count_nonzero(values[picked]) - len(choice)
        self._mark_choice(panel, [int(used[i]) for i in choice], int(rest))

    def _mark_choice(self, panel: Any, features: list[int], rest: int) -> None:
        """Draw a vertical line at the chosen budget, if it is on the axis, and name the chosen features."""
        self.chosen_line_, self.chosen_labels_ = None, []
        if self.chosen is None or not self.budgets[0] <= self.chosen <= self.budgets[-1]:
            return
        limits = panel.get_xlim()
        self.chosen_line_ = panel.axvline(self.chosen, color=INK, lw=0.9, ls=(0, (4, 3)), zorder=1.5)
        panel.set_xlim(limits)
        above: Any = {"xycoords": ("data", "axes fraction"), "xytext": (0, 2), "ha": "center", "va": "bottom"}
        drawing.note(panel, f"chosen: {self.chosen:.6g}", self.chosen, 1.0, INK, annotation_clip=False, **above)
        if features:
            lines, names = [self.lines_[j] for j in features], [drawing.shortened(self._name(j)) for j in features]
            title = f"chosen, and {rest} more" if rest else "chosen"
            text: Any = {"fontsize": SMALL, "title_fontsize": SMALL, "labelcolor": "linecolor", "alignment": "left"}
            box: Any = {"frameon": True, "edgecolor": "none", "framealpha": 0.85, "handlelength": 1.6}
            legend = panel.legend(lines, names, title=title, loc="best", labelspacing=0.3, **text, **box)
            legend.set_zorder(6)
            self.chosen_labels_ = list(legend.get_texts())

    def _chosen_row(self) -> int | None:
        """Return the index of the chosen budget, or None."""
        if self.chosen is None:
            return None
        near = np.flatnonzero(np.isclose(self.budgets, self.chosen, rtol=1e-9, atol=0))
        return int(near[0]) if near.size else None

    def _name(self, j: int) -> str:
        return f"x{j}" if self.feature_names is None else str(self.feature_names[j])

    def _style(self) -> dict[str, Any]:
        """Return the line style: lines for levels, dots or steps for numbers of features."""
        if self.by == "level":
            return {}
        return {"marker": "o", "lw": 0.8} if self.budgets.size <= 40 else {"drawstyle": "steps-mid"}
