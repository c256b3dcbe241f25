"""The columns of the last working set, which the next solves over these features, or some of them, use again."""

from __future__ import annotations

import numpy as np

from levelprox._typing import Features
from levelprox.designs.repeated_rows import by_distinct_rows
from levelprox.objectives import LinearModel, Model, Objective
from levelprox.problem import Problem

_SMALL_COPY, _SMALL_COPIES = 2**26, 8  # bytes of columns; or so many of them take less memory than X


class LastPart:
    """The restriction to the last working set, whose columns of X are copied once."""

    def __init__(self) -> None:
        self._kept: tuple[Objective, Features, Problem] | None = None

    def __call__(self, problem: Problem, W: Features) -> Problem:
        """Return the problem restricted to W.

        Columns of a subset of the last set are copied from the copy, if that is small. A restriction to another set is
        dropped before columns are copied.
        """
        kept = self._kept
        if kept is None or kept[0] is not problem.objective or not np.array_equal(kept[1], W):
            part = self._subset(problem, W)
            kept = self._kept = None
            part = problem.restrict(W) if part is None else part
            part = _grouped(part)
            kept = self._kept = problem.objective, W, part
        return kept[2].at_level(problem.level, problem.constraint)

    def _subset(self, problem: Problem, W: Features) -> Problem | None:
        """Return the restriction to W of the last restriction; None unless that has all of W and is small."""
        if self._kept is None or self._kept[0] is not problem.objective:
            return None
        _, features, last = self._kept
        whole, part = problem.objective, last.objective
        if not (isinstance(whole, Model) and isinstance(part, Model)) or not set(W.tolist()) <= set(features.tolist()):
            return None
        if part.design.nbytes > max(_SMALL_COPY, whole.design.nbytes // _SMALL_COPIES):
            return None
        return last.restrict(np.searchsorted(features, W).astype(np.intp))


def _grouped(part: Problem) -> Problem:
    """Return the problem with the columns by their different rows, where these are few."""
    objective = part.objective
    if not isinstance(objective, LinearModel):
        return part
    design = by_distinct_rows(objective.design)
    if design is objective.design:
        return part
    grouped = objective.over(design)
    grouped.__dict__["feature_scale"] = objective.feature_scale  # in units of a typical column of the whole
    return part.with_objective(grouped)
