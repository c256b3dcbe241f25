"""Fits of subsamples, and the sets of features that they select."""

from __future__ import annotations

import math
import multiprocessing
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.parallel import Parallel, delayed

from levelprox._runtime.deadline import seconds_left
from levelprox._runtime.plurals import counted
from levelprox._solve import generator
from levelprox._typing import RandomState
from levelprox._validation import real, whole
from levelprox.designs import Design
from levelprox.estimators.contributions import Contributions
from levelprox.estimators.recomputed import task_of
from levelprox.estimators.scored import Samples, Share, fitted_under
from levelprox.estimators.soundness import budget_of
from levelprox.estimators.task import Budget
from levelprox.estimators.watching import check_watchers, with_estimator_warnings
from levelprox.exceptions import ConvergenceWarning, InvalidInputError, warn
from levelprox.report.fitted import feature_name, feature_names
from levelprox.report.model_summary import NEAR
from levelprox.report.progress import showing
from levelprox.report.stability import FeatureSet, Stability
from levelprox.result import Status

Rows = NDArray[np.intp]
Set = tuple[int, ...]

_COMPARED = 100  # sets that are refitted to all data
_FITS = 0.8  # of the time limit: what fits of subsamples may take, the rest is for refits to all data
_LATE = 0.3  # seconds after that at which processes are no longer waited for
_OWN = {"n_features", "level", "verbose", "callback", "checkpoint", "resume", "warm_start", "time_limit", "device"}


def resampled(
    model: Any,
    design: Design,
    samples: Samples,
    n_resamples: int,
    fraction: float,
    random_state: RandomState,
    n_jobs: int | None,
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
    found = list(_selected(model, samples, drawn, n_jobs))
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
    return _stability(model, design, samples, [one for one, _ in found], sum(sizes), tuple(notes))


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
    verbose, _ = check_watchers(model)
    single, budget = _single_of(model), budget_of(model)
    seconds, workers = _FITS * seconds_left(), effective_n_jobs(n_jobs)
    until = time.time() + seconds
    # A fit that is cut short does not count, so that each may take all that is left.
    work = (delayed(_fit)(Share(until, 1), single, samples, rows, budget) for rows in drawn)
    timeout = None if workers == 1 or math.isinf(seconds) else seconds + _LATE
    with ExitStack() as stack:
        title = f"{type(model).__name__}.stability"
        progress = stack.enter_context(showing(title, len(drawn), "subsamples")) if verbose else None
        try:
            for outcome in Parallel(n_jobs=n_jobs, return_as="generator", timeout=timeout)(work):
                if progress is not None:
                    progress.advance()
                if outcome is not None:
                    yield outcome
        except multiprocessing.TimeoutError:  # joblib's, which has ended the processes
            if time.time() < until:
                raise


@with_estimator_warnings
def _fit(share: Share, single: Any, samples: Samples, rows: Rows, budget: Budget) -> tuple[Set, bool] | None:
    """Return the features that a subsample selects, and whether its fit diverges; None where there is no time."""
    if share.seconds <= 0:
        return None
    ((model, _, diverging),) = fitted_under(share, single, samples, rows, [budget])
    if model.status_ is Status.TIME_LIMIT:
        return None
    return tuple(model.selected_features_.tolist()), diverging


def _single_of(model: Any) -> Any:
    """Return the estimator for one budget, with the same parameters, without progress and callbacks."""
    kind = getattr(type(model), "_single_type", type(model))
    shared = (set(kind._get_param_names()) & set(model._get_param_names())) - _OWN
    given = {name: getattr(model, name) for name in shared}
    given |= {name: value for name, value in getattr(model, "best_params_", {}).items() if name == "ridge"}
    return kind(**given)


def _stability(
    model: Any, design: Design, samples: Samples, found: list[Set], size: int, notes: tuple[str, ...]
) -> Stability:
    """Count what was found, and refit the sets to all data."""
    frequencies = np.zeros(model.n_features_in_)
    for features in found:
        frequencies[list(features)] += 1 / len(found)
    own = tuple(model.selected_features_.tolist())
    ordered = sorted(Counter(found).items(), key=lambda one: (-one[1], one[0]))
    sets, loss, scale, more = _compared(model, design, samples, ordered, own)
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
    model: Any, design: Design, samples: Samples, ordered: list[tuple[Set, int]], own: Set
) -> tuple[tuple[FeatureSet, ...], float, float, list[str]]:
    """Return the sets with their losses on all data, the model's loss and scale, and notes."""
    losses: dict[Set, tuple[float, bool]] = {}
    base = scale = math.nan
    notes, comparable, local = [], False, False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            task, _ = task_of(model, design, samples.y, samples.weight, samples.more)
            refits = Contributions(model, task)
            base, scale, local = refits.base.psi, refits.scale, refits.is_local
            comparable = scale > refits.enough
            for features, _ in ordered[: min(_COMPARED, refits.most_refits)] if comparable else []:
                one = refits.of_set(np.array(features, np.intp))
                losses[features] = (one.psi, one.checked)
    except TimeoutError:
        pass
    if not comparable:
        notes.append(
            "Losses on all data are not compared: that of the model is next to nothing, or time_limit ended before."
        )
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
