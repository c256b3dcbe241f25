"""ψ with kinks minimised exactly over one small set of features after another (`nonsmooth_refit.py`).

Where each class is fitted against the others, only the features tie the classes together: over a given set each class
is minimised by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from levelprox._typing import Features, Vector
from levelprox.certificate import certify
from levelprox.certificate.null_model import NullFit
from levelprox.objectives import LinearModel, OneVsRestModel
from levelprox.problem import FeatureProblem, Problem
from levelprox.subset.column_cache import Columns
from levelprox.subset.fit import Fit
from levelprox.subset.nonsmooth_refit import Coordinates, minimised

_AT_KINKS_SHARE = 0.01  # of the mean residual: then the median says nothing
_WEIGHT_ROUNDING_SHARE = 1e-9  # of all weights


@dataclass(frozen=True, eq=False)
class ExactFit(Fit):
    """ψ minimised exactly, and what shows it.

    Attributes
    ----------
    slopes : tuple of ndarray of shape (n,)
        Elements of ∂ℓ, one for each sample, with which ψ is stationary; one array for each class.
    error : float
        A bound on how far ψ is above its minimum over these features, rounding included.
    rounding : float
        How far ψ may be off by rounding.
    removal : ndarray
        For each feature, what the minimum rises by at least if it is left out.
    """

    slopes: tuple[Vector, ...] = field(default_factory=tuple)
    error: float = math.inf
    rounding: float = 0.0
    removal: Vector = field(default_factory=lambda: np.empty(0))


class ExactRefits:
    """Exact fits of a model whose loss has kinks.

    Parameters
    ----------
    problem : Problem
        ψ, a `LinearModel` or `OneVsRestModel`, and signs; its level does not matter.
    """

    def __init__(self, problem: FeatureProblem) -> None:
        objective = problem.objective
        assert isinstance(objective, LinearModel | OneVsRestModel)
        self.problem, self.objective = problem, objective
        self.parts = (objective,) if isinstance(objective, LinearModel) else objective.parts
        self.columns = Columns(self.parts[0])
        self.noise = self.parts[0].column_noise()

    def __call__(self, features: Features, near: Fit, seconds_left: Callable[[], float]) -> ExactFit:
        """Minimise ψ over these features, from the coefficients of another fit."""
        n, width = self.parts[0].n_margins, len(self.parts)
        columns = [column.dense(n) for column in self.columns(features)]
        begin = np.zeros((features.size, width))
        begin[np.isin(features, near.features)] = near.x.reshape(-1, width)[np.isin(near.features, features)]
        signs = self.problem.must_be_nonnegative()[features] if width == 1 else np.zeros(features.size, np.bool_)
        coordinates = dict[float, Coordinates]()  # of all classes
        noise = None if self.noise is None else self.noise[features]
        found = [
            minimised(part, columns, signs, np.ascontiguousarray(begin[:, k]), seconds_left, coordinates, noise)
            for k, part in enumerate(self.parts)
        ]
        x = np.stack([one.x for one in found], axis=1).ravel()
        margins = found[0].margins if width == 1 else np.stack([one.margins for one in found]).T
        return ExactFit(
            features,
            x,
            math.fsum(one.psi for one in found),
            margins,
            slopes=tuple(one.slopes for one in found),
            error=math.fsum(one.error for one in found),
            rounding=math.fsum(one.rounding for one in found),
            removal=np.sum([one.removal for one in found], axis=0),
        )

    def distance(self, fit: Fit) -> float:
        """Return how far margins are from their kinks: the weighted median, or the mean where most are at kinks."""
        margins = fit.margins.reshape(self.parts[0].n_margins, -1)
        off = np.concatenate([np.abs(margins[:, k] - part.target) for k, part in enumerate(self.parts)])
        weight = self.objective.sample_weight
        share = np.ones(margins.shape[0]) if weight is None else weight
        share = np.tile(share, len(self.parts))
        share = share / share.sum()
        order = np.argsort(off, kind="stable")
        middle = off[order[np.searchsorted(np.cumsum(share[order]), 0.5 - _WEIGHT_ROUNDING_SHARE)]]
        mean = float(np.sum(share * off))
        return (float(middle) if middle > _AT_KINKS_SHARE * mean else mean) or 1.0

    def stationarity(self, fit: Fit, null: NullFit, seconds: float) -> float:
        """Return dist∞(0, ∂ψ) over the features of a fit, from the data, relative to the null fit's gradient."""
        if not fit.features.size:
            return 0.0
        rows, worst = fit.x.reshape(-1, len(self.parts)), 0.0
        signs = self.problem.restrict(fit.features).must_be_nonnegative() if len(self.parts) == 1 else None
        for k, part in enumerate(self.parts):
            free = Problem.unconstrained(part.restrict(fit.features), signs)
            hint = fit.slopes[k] if isinstance(fit, ExactFit) else None
            own = replace(null, x=null.x.reshape(-1, len(self.parts))[fit.features, k])
            found = certify(free, np.ascontiguousarray(rows[:, k]), own, hint=hint, seconds=seconds)
            worst = max(worst, found.stationarity / null.scale)
        return worst
