"""StabilityDisplay: how often each feature is selected from subsamples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelprox.exceptions import InvalidInputError
from levelprox.report.drawing import COLOURS, GREY, INK, PALE, SMALL, new_axes, shortened
from levelprox.report.stability import Stability

_BLUE = COLOURS[0]
_INCH_FOR_A_BAR, _INCHES_BESIDES = 0.22, 1.0


class StabilityDisplay:
    """A bar for each feature: from which share of the subsamples it was selected.

    Features of the model are drawn in colour, others in grey; the most frequent one is on top.

    Parameters
    ----------
    frequencies : array-like of shape (m,)
        Between 0 and 1.
    feature_names : sequence of str of length m
    in_model : array-like of bool of shape (m,), optional
        Which features the model has; by default none is marked.
    n_resamples : int, optional
        How many subsamples there were, for the label of the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : BarContainer
    labels_ : list of Text
        The shares at the ends of the bars.

    See Also
    --------
    from_estimator : Fits the subsamples, too.
    from_stability : From what `model.stability(X, y)` returned.
    """

    def __init__(
        self,
        *,
        frequencies: ArrayLike,
        feature_names: Sequence[str],
        in_model: ArrayLike | None = None,
        n_resamples: int | None = None,
    ) -> None:
        self.frequencies: NDArray[np.float64] = np.asarray(frequencies, np.float64)
        m = self.frequencies.size
        self.feature_names = list(feature_names)
        self.in_model = np.zeros(m, np.bool_) if in_model is None else np.asarray(in_model, np.bool_)
        self.n_resamples = n_resamples
        if self.frequencies.ndim != 1 or len(self.feature_names) != m or self.in_model.shape != (m,):
            raise InvalidInputError(
                f"frequencies, feature_names and in_model must have the same length, got {m}, "
                f"{len(self.feature_names)} and {self.in_model.size}"
            )

    @classmethod
    def from_stability(cls, stability: Stability, *, ax: Any = None, **options: Any) -> Self:
        """Draw what `model.stability(X, y)` returned.

        Parameters
        ----------
        stability : Stability
        ax : matplotlib Axes, optional
        **options
            As in `plot`.
        """
        order = stability.order
        display = cls(
            frequencies=stability.frequencies[order],
            feature_names=[stability.feature_names[j] for j in order],
            in_model=np.isin(order, stability.selected),
            n_resamples=stability.n_resamples,
        )
        return display.plot(ax, **options)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: object,
        y: ArrayLike,
        *,
        n_resamples: int = 50,
        fraction: float = 0.5,
        random_state: Any = None,
        n_jobs: int | None = None,
        ax: Any = None,
        most: int = 20,
        **data: ArrayLike | None,
    ) -> Self:
        """Fit subsamples, and draw.

        Parameters
        ----------
        estimator : SparseClassifier, SparseRegressor or one of their CV twins
            Fitted.
        X, y, n_resamples, fraction, random_state, n_jobs
            As in `estimator.stability`.
        ax : matplotlib Axes, optional
        most : int, default=20
            As in `plot`.
        **data
            `sample_weight`, `offset`, `exposure`, as in `estimator.stability`.
        """
        found = estimator.stability(X, y, n_resamples, fraction, random_state, n_jobs, **data)
        return cls.from_stability(found, ax=ax, most=most)

    def plot(self, ax: Any = None, *, most: int = 20, bar_kw: dict[str, Any] | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.
        most : int, default=20
            How many features to draw, the most frequent ones.
        bar_kw : dict, optional
            For matplotlib's `barh`.
        """
        order = np.argsort(-self.frequencies, kind="stable")[:most]
        (panel,) = new_axes(ax, size=(7.0, _INCHES_BESIDES + _INCH_FOR_A_BAR * max(order.size, 4)))
        share, own = self.frequencies[order], self.in_model[order]
        places = np.arange(order.size)
        style = {"height": 0.68, "color": [_BLUE if one else PALE for one in own], **(bar_kw or {})}
        self.bars_ = panel.barh(places, share, **style)
        self.labels_ = [
            panel.annotate(
                f"{100 * one:.0f} %",
                (one, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=SMALL,
                color=INK,
                annotation_clip=False,
            )
            for one, place in zip(share, places, strict=True)
        ]
        panel.set_yticks(places, [shortened(self.feature_names[j]) for j in order])
        for text, mine in zip(panel.get_yticklabels(), own, strict=True):
            text.set_color(_BLUE if mine else INK)
        panel.invert_yaxis()
        panel.set_xlim(0.0, 1.0)
        panel.set_xticks(np.linspace(0, 1, 6), [f"{100 * one:.0f} %" for one in np.linspace(0, 1, 6)])
        panel.tick_params(axis="y", length=0)
        panel.spines["left"].set_color(GREY)
        whole = "subsamples" if self.n_resamples is None else f"{self.n_resamples} subsamples"
        panel.set_xlabel(f"Share of {whole} from which the feature is selected", color=INK)
        if np.any(own) and not np.all(own):
            left = self.frequencies.size - order.size
            self._legend(panel, left)
        self.ax_, self.figure_ = panel, panel.figure
        return self

    def _legend(self, panel: Any, left: int) -> None:
        """Say what the colours are, and how many features are not drawn."""
        from matplotlib.patches import Patch

        handles = [Patch(color=_BLUE, label="in the model"), Patch(color=PALE, label="not in the model")]
        title = f"{left} more are not drawn" if left else None
        panel.legend(
            handles=handles, title=title, loc="lower right", frameon=False, fontsize=SMALL, title_fontsize=SMALL
        )
