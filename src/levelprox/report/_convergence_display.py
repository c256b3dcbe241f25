"""ConvergenceDisplay: the history of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from levelprox.exceptions import InvalidInputError
from levelprox.report._drawing import COLOURS, GREY, INK, label_x, new_axes, note
from levelprox.report.fitted import check_ours
from levelprox.result import Record
from levelprox.subset.result import SubsetRecord

_PHASES = {
    "forward": ("forward selection", COLOURS[5]),
    "continuation": ("continuation", COLOURS[2]),
    "exchanges": ("swaps", COLOURS[0]),
    "proof": ("proof", COLOURS[1]),
}


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
            raise InvalidInputError("there is no history: levels solved together, as along a path, keep none")

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
        from sklearn.utils.validation import check_is_fitted

        check_ours("ConvergenceDisplay", estimator)
        if hasattr(estimator, "n_samples_seen_") and not hasattr(estimator, "history_"):
            raise InvalidInputError(
                f"partial_fit stores no history: this {type(estimator).__name__} was fitted by partial_fit, not by fit"
            )
        check_is_fitted(estimator, "history_")
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
        panels = new_axes(ax, (1.0, 1.0) if levels else (1.0,), (7.0, 5.0) if levels else (7.0, 4.0))
        t = self._times(against)
        self.phases_: dict[str, Any] = {}
        self.lines_ = [self._psi(panels[0], t, bool(levels), line_kw or {})]
        if levels and len(panels) == 2:
            self.lines_.append(self._kkt(panels[1], t, np.array([record.kkt for record in levels]), line_kw or {}))
        steps = "Outer steps" if levels else "Improvements of the best fit"
        label_x(panels[-1], "Seconds" if against == "seconds" else steps, whole=against == "steps")
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
        note(panel, f"{psi[-1]:.5g}", t[-1], psi[-1], INK, ha="right", xytext=(0, 9))
        return line

    def _mark_phases(self, panel: Any, t: Any, psi: Any) -> None:
        """Mark the improvements of each phase of a search."""
        phases = np.array([record.phase for record in self.history if isinstance(record, SubsetRecord)])
        for phase, (name, colour) in _PHASES.items():
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
            at_the_right: Any = ("axes fraction", "data")
            note(panel, f"tol {self.tol:.0e}", 1, self.tol, GREY, xycoords=at_the_right, xytext=(0, 3), ha="right")
        return line
