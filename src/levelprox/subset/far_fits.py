"""Fits of a bounded loss to many samples, whose coefficients grow until ψ is next to a count of errors.

There few samples have a slope, and ψ has local minima close to each other. A descent from so far out goes nowhere:
refits and estimates of swaps begin at coefficients that are smaller. Steps along coordinates, far out, lead from one
local minimum to a lower one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

import levelprox._kernels as _kernels
from levelprox._typing import Index, Matrix
from levelprox.objectives import LinearModel
from levelprox.objectives.reduced import is_dense
from levelprox.problem import FeatureProblem
from levelprox.subset.fit import Fit

_MANY_SAMPLES = 2**13  # FAR_ROWS of the kernels
_MEDIAN_MARGIN = 16.0  # from which descents begin
_EDGE = 24.0  # the largest margin of the samples that steps are for; beyond it the loss has no slope
#: Steps: the share of the samples, at most how many, and by how much margins change.
_STEPS = ((1 / 12, 2**13, 6.0), (1 / 12, 2**13, 2.0), (1 / 48, 2**11, 2.0))
_SPARSE_FACTOR = 16
_CLOSE_ERRORS = 2.0  # by how many errors more than the best one a local minimum over some samples is tried


@dataclass
class FarFits:
    """What refits of such a loss need; `of` returns None for other losses, and for few samples.

    Attributes
    ----------
    objective : LinearModel
    begins_near : bool
        Whether refits that are only compared begin at the fit before alone, and not at that of the convex loss, too:
        with dense columns, of which each pass takes long.
    """

    objective: LinearModel
    begins_near: bool
    _latest: tuple[Fit, Fit] | None = field(default=None, init=False)  # a fit, and the same nearer

    @classmethod
    def of(cls, problem: FeatureProblem) -> FarFits | None:
        """Return what refits of a bounded loss to many samples need."""
        objective = problem.objective
        if not isinstance(objective, LinearModel) or objective.convex_start is None or objective.attained:
            return None
        if objective.ridge is not None or np.any(problem.must_be_nonnegative()):
            return None
        if objective.design.shape[0] < _MANY_SAMPLES:
            return None
        return cls(objective, is_dense(objective.design))

    @property
    def work(self) -> int:
        """How many times as much work an examination may be; a refit of sparse columns takes passes over few rows."""
        return 1 if self.begins_near else _SPARSE_FACTOR

    def with_zero(self, fit: Fit, place: int, j: int) -> Fit:
        """Return a fit with one more feature whose coefficient is zero."""
        return replace(fit, features=np.insert(fit.features, place, j), x=np.insert(fit.x, place, 0.0), hessian=None)

    def nearer(self, fit: Fit) -> Fit:
        """Return a fit with its coefficients made so small that most samples have a slope."""
        if self._latest is None or self._latest[0] is not fit:
            self._latest = fit, self._made_nearer(fit)
        return self._latest[1]

    def _made_nearer(self, fit: Fit) -> Fit:
        size = float(np.median(np.abs(fit.margins)))
        if not size > _MEDIAN_MARGIN:
            return fit
        x, part = fit.x * (_MEDIAN_MARGIN / size), self.objective.restrict(fit.features)
        margins = part.margins(x)
        return Fit(fit.features, x, part.value_of(margins), margins)

    def best_nearby(self, best: Fit, columns: Matrix, downhill: Callable[[Fit], Fit]) -> Fit:
        """Return the best fit over the same features that descents from steps along each coordinate lead to.

        Only samples with small margins count; descents over these alone say which steps are worth one over all.
        """
        n, objective = columns.shape[0], self.objective.restrict(best.features)
        if not best.x.size or np.any(objective.origin):
            return best
        for share, most, size in _STEPS:
            rows = _smallest(np.abs(best.margins), min(math.ceil(share * n), most))
            reach = float(np.max(np.abs(best.margins[rows])))
            if not reach > 0:
                break
            some = [np.ascontiguousarray(column) for column in columns[rows].T]
            fits, nothing = self._over(rows), [None] * len(some)
            begin, least = _EDGE / reach * best.x, math.inf
            for j, column in enumerate(some):
                length = float(np.sqrt(np.mean(column**2)))
                for step in (size, -size) if length > 0 else ():
                    x = begin.copy()
                    x[j] += step / length
                    _, x, psi, *_ = fits.fit(some, nothing, x.tolist(), 0.0, math.inf, 0.0, [], [])
                    if not psi < least + _CLOSE_ERRORS / rows.size:
                        continue
                    least = min(psi, least)
                    if not objective.value_of(objective.margins(x)) < best.psi:
                        continue
                    fit = downhill(replace(best, x=x))
                    if fit.psi < best.psi:
                        best, begin = fit, float(np.linalg.norm(begin) / np.linalg.norm(fit.x)) * fit.x
        return best

    def _over(self, rows: Index) -> _kernels.ColumnFits:
        """Return compiled fits over some of the samples."""
        objective, weight = self.objective, self.objective.sample_weight
        about, samples = (*objective.loss.kernel, objective.self_concordance), (objective.target[rows],)
        chosen = None if weight is None else weight[rows]
        return _kernels.ColumnFits(*about, *samples, chosen, None, False, objective.attained, objective.loss.smoothness)


def _smallest(sizes: np.ndarray, count: int) -> Index:
    """Return the places of the smallest numbers, in their order."""
    return np.arange(sizes.size) if count >= sizes.size else np.sort(np.argpartition(sizes, count)[:count])
