"""Stability: how often features, and sets of them, are selected from subsamples of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelprox._runtime.plurals import counted
from levelprox.report.html import STYLE
from levelprox.report.tables import (
    Column,
    cut,
    data_frame,
    notes_as_html,
    notes_as_text,
    titled_html,
    titled_text,
)

_MOST_FEATURES, _MOST_SETS, _MOST_NAMES = 20, 5, 8
_BAR = 20  # characters


@dataclass(frozen=True)
class FeatureSet:
    """A set of features that was selected from a subsample.

    Attributes
    ----------
    features : tuple of int
    names : tuple of str
    count : int
        From how many subsamples.
    is_model : bool
        Whether it is that of the model.
    loss : float or None
        Refitted to all data; None where that was not computed.
    checked : bool
        Whether that refit is known to be optimal.
    near : bool or None
        Whether that loss is above the model's by at most 1 %; None where it is not known.
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
    """Selection frequencies over subsamples; what `model.stability(X, y)` returns.

    `print(stability)` shows it as text, a notebook as HTML, `stability.to_frame()` is a DataFrame, and
    `StabilityDisplay.from_stability(stability)` draws it.

    Attributes
    ----------
    title : str
    frequencies : ndarray of shape (n_features_in_,)
        From which share of the subsamples each feature was selected.
    feature_names : tuple of str
        Of all features.
    selected : ndarray of int
        The features of the model.
    sets : tuple of FeatureSet
        All sets that were selected, the most frequent first.
    n_resamples : int
        Subsamples that were fitted.
    n_samples : int
        Samples of each.
    loss : float
        Of the model's features, refitted to all data.
    loss_scale : float
        What percentages of the loss are of: the loss, above its least possible value.
    notes : tuple of str
    """

    title: str
    frequencies: NDArray[np.float64]
    feature_names: tuple[str, ...]
    selected: NDArray[np.intp]
    sets: tuple[FeatureSet, ...]
    n_resamples: int
    n_samples: int
    loss: float = math.nan
    loss_scale: float = math.nan
    notes: tuple[str, ...] = ()

    @property
    def near_sets(self) -> tuple[FeatureSet, ...]:
        """The sets, other than the model's, whose loss on all data is above the model's by at most 1 %."""
        near = [one for one in self.sets if one.near and not one.is_model]
        return tuple(sorted(near, key=lambda one: one.loss or 0.0))

    @property
    def order(self) -> NDArray[np.intp]:
        """The features that were selected at least once or are in the model, the most frequent first."""
        some = np.union1d(np.flatnonzero(self.frequencies), self.selected).astype(np.intp)
        outside = ~np.isin(some, self.selected)
        return some[np.lexsort((some, outside, -self.frequencies[some]))]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each feature that was selected at least once or is in the model.

        Columns: "feature", "frequency" and "in_model"; the most frequent features come first.
        """
        order = self.order
        return data_frame(
            {
                "feature": [self.feature_names[j] for j in order],
                "frequency": self.frequencies[order],
                "in_model": np.isin(order, self.selected),
            }
        )

    def __str__(self) -> str:
        return "\n\n".join([self.title, *titled_text(self._tables(False)), notes_as_text(self._sentences())])

    def _repr_html_(self) -> str:
        return (
            f'<style>{STYLE}</style><div class="levelprox-card" style="max-width:72em"><div>{escape(self.title)}</div>'
            f'{titled_html(self._tables(True))}<div class="features">{notes_as_html(self._sentences())}</div></div>'
        )

    def _tables(self, as_page: bool) -> list[tuple[str, list[Column]]]:
        order = self.order[:_MOST_FEATURES]
        if not order.size:
            return []
        share = self.frequencies[order]
        columns = [
            Column("feature", [cut(self.feature_names[j]) for j in order], False),
            Column("selected", [f"{100 * one:.0f} %" for one in share]),
            Column("in the model", ["yes" if j in self.selected else "" for j in order], False),
        ]
        bars = [_html_bar(one) if as_page else "█" * round(_BAR * one) for one in share]
        columns.insert(2, Column("", bars, False, as_page))
        tables = [("", columns), ("The most frequent sets", self._set_columns(self.sets[:_MOST_SETS]))]
        if self.near_sets:
            title = "Sets nearest in loss to the model's on all data, of those within 1 %"
            tables.append((title, self._set_columns(self.near_sets[:_MOST_SETS])))
        return tables

    def _set_columns(self, sets: tuple[FeatureSet, ...]) -> list[Column]:
        return [
            Column("times", [str(one.count) for one in sets]),
            Column("loss on all data", [self._rise(one) for one in sets]),
            Column("features", [_listed(one) for one in sets], False),
        ]

    def _rise(self, one: FeatureSet) -> str:
        """By how much the loss of a set is above the model's."""
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
    """The names of a set, the first of them."""
    if not one.names:
        return "(none)"
    more = len(one.names) - _MOST_NAMES
    return ", ".join(map(cut, one.names[:_MOST_NAMES])) + (f" and {more} more" if more > 0 else "")
