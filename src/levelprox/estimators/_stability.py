"""Fits of subsamples, and the sets of features that they select.

What each feature of a fitted model contributes, computed from data: by refits without it, and with others instead.

All refits are of the model's problem without its level, over a few features. They are compared with the refit over the
model's own features, which for a model of at most k features is the model itself.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.parallel import delayed

from levelprox._runtime import seconds_left
from levelprox._typing import Features, RandomState, Rows
from levelprox._validation import generator, real, whole
from levelprox.estimators._budget_fits import fits_under, prepared
from levelprox.estimators._callbacks import Share, check_verbose_and_callback, results_in_time, with_estimator_warnings
from levelprox.estimators._claims import RefittableFit, task_of
from levelprox.estimators._fit import Task
from levelprox.estimators._input import Samples
from levelprox.estimators._parameters import Budget
from levelprox.estimators._soundness import budget_of
from levelprox.exceptions import ConvergenceWarning, InvalidInputError, counted, warn
from levelprox.objectives import Model
from levelprox.report.fitted import feature_name, feature_names
from levelprox.report.model_summary import NEAR
from levelprox.report.progress import showing
from levelprox.report.stability import FeatureSet, Stability
from levelprox.subset.fit import Fit
from levelprox.subset.near_swaps import NearSwaps, near_swaps, near_swaps_with_kinks
from levelprox.subset.nonsmooth_refit import ExactFit

Set = tuple[int, ...]

_COMPARED = 100  # sets that are refitted to all data
_FITS = 0.8  # of the time limit: what fits of subsamples may take, the rest is for refits to all data


def resampled(
    model: Any, samples: Samples, n_resamples: int, fraction: float, random_state: RandomState, n_jobs: int | None
) -> Stability:
    """Return what fits of subsamples select, as `stability` of a fitted model does."""
    count, part = whole("n_resamples", n_resamples), real("fraction", fraction)
    if count < 1:
        raise InvalidInputError(f"n_resamples must be at least 1, got {n_resamples!r}")
    if not 0 < part < 1:
        raise InvalidInputError(f"fraction must be above 0 and below 1, got {fraction!r}")
    rng = generator(random_state)
    groups = _groups(model, samples)
    sizes = [max(1, round(part * group.size)) for group in groups]
    if sum(sizes) < 2:
        raise InvalidInputError(f"fraction={part:g} leaves {counted(sum(sizes), 'sample')} for a fit; raise it")
    drawn = [_drawn(rng, groups, sizes) for _ in range(count)]
    found = list(_selected(model, replace(samples, design=None), drawn, n_jobs))
    if not found:
        raise TimeoutError(f"time_limit={model.time_limit:g} ended before any of {count} subsamples was fitted")
    notes = []
    if len(found) < count:
        warn(
            f"there was time for {len(found)} of {count} subsamples: frequencies are of these. Raise time_limit, or "
            "lower n_resamples"
        )
        notes.append(f"There was time for {len(found)} of {counted(count, 'subsample')}: time_limit ended before.")
    diverging = sum(diverges for _, diverges in found)
    if diverging:
        notes.append(
            f"The fit of {counted(diverging, 'subsample')} has no minimiser, as on separable data; which features it "
            "selects is then in part arbitrary."
        )
    return _stability(model, samples, [one for one, _ in found], sum(sizes), tuple(notes))


def _groups(model: Any, samples: Samples) -> list[Rows]:
    """Return the rows of each class, or all rows; those of weight 0 are left out."""
    rows = np.arange(samples.y.size) if samples.weight is None else np.flatnonzero(samples.weight > 0)
    if not is_classifier(model):
        return [rows]
    return [rows[samples.y[rows] == label] for label in model.classes_]


def _drawn(rng: np.random.Generator, groups: list[Rows], sizes: list[int]) -> Rows:
    """Return the rows of one subsample, in ascending order."""
    parts = [rng.choice(rows, size, replace=False) for rows, size in zip(groups, sizes, strict=True)]
    return np.sort(np.concatenate(parts))


def _selected(model: Any, samples: Samples, drawn: list[Rows], n_jobs: int | None) -> Iterator[tuple[Set, bool]]:
    """Return what each subsample selects, and whether its fit diverges, as far as there is time."""
    verbose, _ = check_verbose_and_callback(model)
    single = model._single().set_params(time_limit=None, device=None, warm_start=False)
    single.set_params(**model._by_index(model.n_features_in_))
    if "ridge" in (chosen := getattr(model, "best_params_", {})):
        single.set_params(ridge=chosen["ridge"])
    budget, seconds = budget_of(model), _FITS * seconds_left()
    # A fit that is cut short does not count, so that each may take all that is left.
    share = Share(time.time() + seconds, 1)
    work = (delayed(_fit)(share, single, samples, rows, budget) for rows in drawn)
    title = f"{type(model).__name__}.stability"
    with showing(title, len(drawn), "subsamples") if verbose else nullcontext() as progress:
        for outcome in results_in_time(work, n_jobs, seconds):
            if progress is not None:
                progress.advance()
            if outcome is not None:
                yield outcome


@with_estimator_warnings
def _fit(share: Share, single: Any, samples: Samples, rows: Rows, budget: Budget) -> tuple[Set, bool] | None:
    """Return the features that a subsample selects, and whether its fit diverges; None where there is no time."""
    if share.seconds <= 0:
        return None
    _, ((model, fit),) = fits_under(share, lambda: prepared(single, samples, rows, budget), [budget])
    return None if fit.cut_short else (tuple(model.selected_features_.tolist()), fit.diverging)


def _stability(model: Any, samples: Samples, found: list[Set], size: int, notes: tuple[str, ...]) -> Stability:
    """Count what was found, and refit the sets to all data."""
    frequencies = np.zeros(model.n_features_in_)
    for features in found:
        frequencies[list(features)] += 1 / len(found)
    own = tuple(model.selected_features_.tolist())
    ordered = sorted(Counter(found).items(), key=lambda one: (-one[1], one[0]))
    sets, loss, scale, more = _compared(model, samples, ordered, own)
    return Stability(
        f"Stability of {type(model).__name__}, {_budget(model)}: {counted(len(found), 'subsample')} of {size:,} of "
        f"{samples.y.size:,} samples",
        np.minimum(frequencies, 1.0),
        tuple(feature_names(model)),
        model.selected_features_,
        sets,
        len(found),
        size,
        loss,
        scale,
        (*more, *notes),
    )


def _budget(model: Any) -> str:
    budget = budget_of(model)
    return f"level {budget.value:g}" if budget.features is None else f"at most {counted(budget.features, 'feature')}"


def _compared(
    model: Any, samples: Samples, ordered: list[tuple[Set, int]], own: Set
) -> tuple[tuple[FeatureSet, ...], float, float, list[str]]:
    """Return the sets with their losses on all data, the model's loss and scale, and notes."""
    losses: dict[Set, tuple[float, bool]] = {}
    base = scale = math.nan
    notes, comparable, local = [], False, False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            task, _ = task_of(model, samples)
            refits = Contributions(model, task)
            base, scale, local = refits.base.psi, refits.scale, refits.is_local
            comparable = scale > refits.enough
            for features, _ in ordered[: min(_COMPARED, refits.most_refits)] if comparable else []:
                one = refits.of_set(np.array(features, np.intp))
                losses[features] = (one.psi, one.checked)
    except TimeoutError:
        pass
    if not comparable:
        notes.append("Losses on all data are not compared: that of the model is almost 0, or time_limit ended before.")
    elif len(losses) < len(ordered):
        words = f"{len(losses)} of {counted(len(ordered), 'set')} were refitted to all data, the most frequent first."
        notes.append(words)
    sets = []
    for features, count in ordered:
        loss, checked = losses.get(features, (None, True))
        near = None if loss is None else loss <= base + NEAR * scale
        near = None if near is False and not (checked or local) else near
        names = tuple(feature_name(model, j) for j in features)
        sets.append(FeatureSet(features, names, count, features == own, loss, checked, near))
    return tuple(sets), base, scale, notes


_WORK = 2 * 10**9  # multiplications of all refits
_CHECKED = 1e-6  # of the loss without features: what a refit that is known to be optimal may leave


@dataclass(frozen=True)
class Refit:
    """The loss refitted over a set of features.

    Attributes
    ----------
    psi : float
    checked : bool
        Whether it is known to be the least, up to 1e-6 of the loss without features; never where ψ is not convex.
    """

    psi: float
    checked: bool


class Contributions(RefittableFit):
    """Refits of a fitted model's problem.

    Parameters
    ----------
    model : fitted estimator
    task : Task
        Of the data and the model's own scale.

    Attributes
    ----------
    base : Refit
        The loss refitted over `own`.
    null_loss : float
        The loss of the features that are always in the model, and the intercept.
    scale : float
        The loss of `base` above its least possible value.
    """

    def __init__(self, model: Any, task: Task) -> None:
        super().__init__(model, task, None)
        self.objective = cast(Model, self.problem.objective)
        self.enough = _CHECKED * abs(self.null.psi - self.objective.infimum)
        self.null_loss = self.refitted(self.problem.unpenalized).psi
        self.fit = self._fitted(self.own)
        self.base = self._judged(self.fit)
        self.scale = self.base.psi - self.objective.infimum

    @property
    def penalty(self) -> float:
        """Return the ridge's part of ψ at the model's coefficients."""
        ridge = getattr(self.objective, "ridge", None)
        return 0.0 if ridge is None else float(ridge.value(self.x.reshape(-1, self.problem.n_outputs)))

    @property
    def is_local(self) -> bool:
        """Whether ψ is not convex, so that refits are local."""
        return self.objective.convex_start is not None

    @property
    def most_refits(self) -> int:
        """How many refits are done at most of each kind."""
        return self.refits_within(_WORK)

    def refitted(self, features: Features) -> Refit:
        """Return the loss refitted over these features; those that are always in the model must be among them."""
        return self._judged(self._fitted(features))

    def _fitted(self, features: Features) -> Fit:
        if seconds_left() <= 0:
            raise TimeoutError
        if not features.size:
            origin = self.objective.origin
            return Fit(features, np.empty(0), self.objective.value_of(origin), origin, gap=0.0)
        return self.fitted(features, seconds_left)

    def _judged(self, fit: Fit) -> Refit:
        left = fit.error if isinstance(fit, ExactFit) else fit.gap + fit.resolution
        return Refit(fit.psi, not self.is_local and left <= self.enough)

    def without(self, feature: int) -> Refit:
        """Return the loss refitted without one feature of the model."""
        return self.refitted(np.setdiff1d(self.own, [feature]).astype(np.intp))

    def of_set(self, features: Features) -> Refit:
        """Return the loss refitted over these features and those that are always in the model."""
        return self.refitted(np.union1d(features, self.problem.unpenalized).astype(np.intp))

    def near_swaps(self, share: float, without: Mapping[int, float]) -> NearSwaps | None:
        """Return the swaps that raise the loss by at most this share of it; None where that is next to nothing.

        Parameters
        ----------
        share : float
        without : dict of int to float
            The loss refitted without each feature, where it is known.
        """
        if not self.counted.size or not self.scale > self.enough:
            return None
        most, n_refits = self.base.psi + share * self.scale, self.most_refits
        if self.objective.smooth:
            return near_swaps(self.search.swaps, self.fit, most, n_refits, without)
        assert isinstance(self.fit, ExactFit)
        outside = self._by_promise()
        return near_swaps_with_kinks(self.exact_refits, self.fit, outside, most, n_refits, seconds_left, without)

    def _by_promise(self) -> Features:
        """Return the features outside with a column that is not zero, the steepest relative to its size first."""
        outside = np.setdiff1d(np.arange(self.problem.n_features), self.own).astype(np.intp)
        size = self.objective.column_magnitudes()[:: self.problem.n_outputs][outside]
        slope = self.problem.sizes(self.gradient)[outside]
        outside, size, slope = outside[size > 0], size[size > 0], slope[size > 0]
        return outside[np.argsort(-slope / size, kind="stable")]
