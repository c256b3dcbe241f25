"""Stability: how often features, and sets of them, are selected from subsamples, as text and as a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from levelprox._typing import Features, Vector
from levelprox.exceptions import InvalidInputError, counted
from levelprox.report import tables
from levelprox.report._drawing import COLOURS, INK, PALE, SMALL, new_axes, note, shortened
from levelprox.report.tables import Column, cut

_MOST_FEATURES, _MOST_SETS, _MOST_NAMES = 20, 5, 8
_BAR = 20  # characters of a full bar


@dataclass(frozen=True)
class FeatureSet:
    """A set of features that was selected from a subsample.

    Attributes
    ----------
    features : tuple of int
    names : tuple of str
    count : int
        Number of subsamples that selected it.
    is_model : bool
        Whether it is the set of the model.
    loss : float or None
        Loss of a refit to all data; None if not computed.
    checked : bool
        Whether the refit is known to be optimal.
    near : bool or None
        Whether the loss is at most 1 % above that of the model; None if not known.
    """

    features: tuple[int, ...]
    names: tuple[str, ...]
    count: int
    is_model: bool
    loss: float | None = None
    checked: bool = True
    near: bool | None = None


@dataclass(frozen=True, eq=False)
class Stability:
    """Selection frequencies over subsamples, returned by `model.stability(X, y)`.

    `print(stability)` shows it as text, a notebook as HTML, `stability.to_frame()` is a DataFrame, and
    `StabilityDisplay.from_stability(stability)` draws it.

    Attributes
    ----------
    title : str
    frequencies : ndarray of shape (n_features_in_,)
        Fraction of the subsamples that selected each feature.
    feature_names : tuple of str
        Names of all features.
    selected : ndarray of int
        Features of the model.
    sets : tuple of FeatureSet
        Selected sets, the most frequent first.
    n_resamples : int
        Number of fitted subsamples.
    n_samples : int
        Number of samples in each.
    loss : float
        Loss of the features of the model, refitted to all data.
    loss_scale : float
        Reference of percentages of the loss: the loss above its least possible value.
    notes : tuple of str

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import SparseRegressor
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> y = 3 * X[:, 0] - X[:, 2]
    >>> model = SparseRegressor(n_features=2).fit(X, y)
    >>> stability = model.stability(X, y, n_resamples=5, random_state=0)
    >>> stability.frequencies
    array([1., 0., 1., 0.])
    """

    title: str
    frequencies: Vector
    feature_names: tuple[str, ...]
    selected: Features
    sets: tuple[FeatureSet, ...]
    n_resamples: int
    n_samples: int
    loss: float = math.nan
    loss_scale: float = math.nan
    notes: tuple[str, ...] = ()

    @property
    def near_sets(self) -> tuple[FeatureSet, ...]:
        """Sets, other than that of the model, whose loss on all data is at most 1 % above that of the model."""
        near = [one for one in self.sets if one.near and not one.is_model]
        return tuple(sorted(near, key=lambda one: one.loss or 0.0))

    @property
    def order(self) -> Features:
        """Features that were selected at least once or are in the model, the most frequent first."""
        some = np.union1d(np.flatnonzero(self.frequencies), self.selected).astype(np.intp)
        outside = ~np.isin(some, self.selected)
        return some[np.lexsort((some, outside, -self.frequencies[some]))]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each feature that was selected at least once or is in the model.

        Columns: "feature", "frequency" and "in_model"; the most frequent features come first.

        Returns
        -------
        pandas.DataFrame
        """
        order = self.order
        return tables.data_frame(
            {
                "feature": [self.feature_names[j] for j in order],
                "frequency": self.frequencies[order],
                "in_model": np.isin(order, self.selected),
            }
        )

    def __str__(self) -> str:
        notes = tables.notes_as_text(self._sentences())
        return "\n\n".join([self.title, *tables.titled_text(self._tables(False)), notes])

    def _repr_html_(self) -> str:
        notes = f'<div class="features">{tables.notes_as_html(self._sentences())}</div>'
        return tables.card(escape(self.title), tables.titled_html(self._tables(True)), notes)

    def _tables(self, as_page: bool) -> list[tuple[str, list[Column]]]:
        order = self.order[:_MOST_FEATURES]
        if not order.size:
            return []
        share = self.frequencies[order]
        bars = [_html_bar(one) if as_page else "█" * round(_BAR * one) for one in share]
        columns = [
            Column("feature", [cut(self.feature_names[j]) for j in order], False),
            Column("selected", [f"{100 * one:.0f} %" for one in share]),
            Column("", bars, False, as_page),
            Column("in the model", ["yes" if j in self.selected else "" for j in order], False),
        ]
        titled = [("", columns), ("The most frequent sets", self._set_columns(self.sets[:_MOST_SETS]))]
        if self.near_sets:
            title = "Sets nearest in loss to the model's on all data, of those within 1 %"
            titled.append((title, self._set_columns(self.near_sets[:_MOST_SETS])))
        return titled

    def _set_columns(self, sets: tuple[FeatureSet, ...]) -> list[Column]:
        return [
            Column("times", [str(one.count) for one in sets]),
            Column("loss on all data", [self._rise(one) for one in sets]),
            Column("features", [_listed(one) for one in sets], False),
        ]

    def _rise(self, one: FeatureSet) -> str:
        """Return the increase of the loss of a set over that of the model."""
        if one.is_model:
            return "the model"
        if one.loss is None or not self.loss_scale > 0:
            return "not computed"
        share = 100 * (one.loss - self.loss) / self.loss_scale
        return f"{'' if one.checked else 'about '}{share:+.{0 if abs(share) >= 10 else 1}f} %"

    def _sentences(self) -> list[str]:
        own = next((one.count for one in self.sets if one.is_model), 0)
        words = [
            f"{counted(len(self.sets), 'different set')} of features from {counted(self.n_resamples, 'subsample')}; "
            f"the model's own set was selected {counted(own, 'time')}."
        ]
        known = [one for one in self.sets if one.near is not None and not one.is_model]
        if known:
            near, others = len(self.near_sets), counted(len(known), "other set")
            verb = "come" if near > 1 else "comes"
            words.append(f"{near or 'None'} of {others}, refitted to all data, {verb} within 1 % of the model's loss.")
        return [*words, *self.notes]


def _html_bar(share: float) -> str:
    inner = f'<i style="display:block;height:.75em;width:{100 * share:.0f}%;background:#0072b2;border-radius:1px"></i>'
    return f'<span style="display:inline-block;width:9em">{inner}</span>'


def _listed(one: FeatureSet) -> str:
    """Return the first names of a set."""
    if not one.names:
        return "(none)"
    more = len(one.names) - _MOST_NAMES
    return ", ".join(map(cut, one.names[:_MOST_NAMES])) + (f" and {more} more" if more > 0 else "")


_BLUE = COLOURS[0]
_INCH_FOR_A_BAR, _INCHES_BESIDES = 0.22, 1.0


class StabilityDisplay:
    """Plot the fraction of the subsamples that selected each feature, as bars.

    Features of the model are drawn in colour, others in grey, the most frequent on top.

    Parameters
    ----------
    frequencies : array-like of shape (m,)
        Between 0 and 1.
    feature_names : sequence of str of length m
    in_model : array-like of bool of shape (m,), optional
        Which features are in the model; by default none is marked.
    n_resamples : int, optional
        Number of subsamples, for the label of the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : BarContainer
    labels_ : list of Text
        Labels at the ends of the bars.

    See Also
    --------
    from_estimator : Fit the subsamples and draw.
    from_stability : Draw the result of `model.stability(X, y)`.

    Examples
    --------
    >>> from levelprox import StabilityDisplay
    >>> display = StabilityDisplay(frequencies=[1.0, 0.4], feature_names=["age", "sex"], in_model=[True, False])
    >>> display.plot()  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        frequencies: ArrayLike,
        feature_names: Sequence[str],
        in_model: ArrayLike | None = None,
        n_resamples: int | None = None,
    ) -> None:
        self.frequencies: Vector = np.asarray(frequencies, np.float64)
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
        """Draw the result of `model.stability(X, y)`.

        Parameters
        ----------
        stability : Stability
        ax : matplotlib Axes, optional
        **options
            As in `plot`.

        Returns
        -------
        StabilityDisplay
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
        """Fit subsamples and draw the frequencies.

        Parameters
        ----------
        estimator : SparseClassifier, SparseRegressor, SparseClassifierCV or SparseRegressorCV
            Fitted.
        X, y, n_resamples, fraction, random_state, n_jobs
            As in `estimator.stability`.
        ax : matplotlib Axes, optional
        most : int, default=20
            As in `plot`.
        **data
            `sample_weight`, `offset`, `exposure`, as in `estimator.stability`.

        Returns
        -------
        StabilityDisplay
        """
        found = estimator.stability(X, y, n_resamples, fraction, random_state, n_jobs, **data)
        return cls.from_stability(found, ax=ax, most=most)

    def plot(self, ax: Any = None, *, most: int = 20, bar_kw: dict[str, Any] | None = None) -> Self:
        """Draw the figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default those of a new figure.
        most : int, default=20
            Maximal number of features to draw.
        bar_kw : dict, optional
            Options of matplotlib's `barh`.

        Returns
        -------
        StabilityDisplay
            This display.
        """
        order = np.argsort(-self.frequencies, kind="stable")[:most]
        (panel,) = new_axes(ax, size=(7.0, _INCHES_BESIDES + _INCH_FOR_A_BAR * max(order.size, 4)))
        share, own = self.frequencies[order], self.in_model[order]
        style = {"height": 0.68, "color": [_BLUE if one else PALE for one in own], **(bar_kw or {})}
        self.bars_ = panel.barh(np.arange(order.size), share, **style)
        self.labels_ = [
            note(panel, f"{100 * one:.0f} %", one, place, INK, xytext=(4, 0), va="center", annotation_clip=False)
            for place, one in enumerate(share)
        ]
        panel.set_yticks(np.arange(order.size), [shortened(self.feature_names[j]) for j in order])
        for text, mine in zip(panel.get_yticklabels(), own, strict=True):
            text.set_color(_BLUE if mine else INK)
        panel.invert_yaxis()
        panel.set_xlim(0.0, 1.0)
        panel.set_xticks(np.linspace(0, 1, 6), [f"{100 * one:.0f} %" for one in np.linspace(0, 1, 6)])
        panel.tick_params(axis="y", length=0)
        whole = "subsamples" if self.n_resamples is None else f"{self.n_resamples} subsamples"
        panel.set_xlabel(f"Share of {whole} from which the feature is selected", color=INK)
        if np.any(own) and not np.all(own):
            self._legend(panel, self.frequencies.size - order.size)
        self.ax_, self.figure_ = panel, panel.figure
        return self

    def _legend(self, panel: Any, left: int) -> None:
        """Add a legend of the colours, with the number of features that are not drawn."""
        from matplotlib.patches import Patch

        handles = [Patch(color=_BLUE, label="in the model"), Patch(color=PALE, label="not in the model")]
        title = f"{left} more are not drawn" if left else None
        text: Any = {"fontsize": SMALL, "title_fontsize": SMALL}
        panel.legend(handles=handles, title=title, loc="lower right", frameon=False, **text)
