"""One loss with kinks minimised over a few columns: the compiled simplex method, and a linear program where it fails.

The method, its bounds and their rounding are described in `kernels/algorithms/kinked_fits.hpp`. A fit whose error is
not small is repeated from the solution of a linear program (HiGHS).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from levelprox import _kernels
from levelprox._typing import Mask, Vector
from levelprox.losses.moreau import Kinked
from levelprox.objectives import LinearModel

_LEAST_EDGES, _EDGES_PER_FEATURE = 200, 50  # edges of a descent, and for each feature

#: x, ψ, margins, slopes of the samples, a bound on the error of ψ, its rounding, and costs of removal.
Found = tuple[Vector, float, Vector, Vector, float, float, Vector]


class KinkedModel:
    """Exact fits of ψ of one class over a few columns.

    Parameters
    ----------
    model : LinearModel
        ψ, with a loss with kinks; its design is not used.
    """

    def __init__(self, model: LinearModel) -> None:
        assert isinstance(model.loss, Kinked)
        self.model = model
        self.low, self.high = model.loss.slopes(model.target)
        self.origin = model.origin
        samples = model.target, model.sample_weight, self.origin, self.low, self.high
        self.fits = _kernels.KinkedFits(model.loss.name, model.loss.parameter, *samples)

    def columns(self, columns: list[Vector], nonnegative: Mask) -> _kernels.KinkedColumns:
        """Return columns for `fit`, with their coordinates; they must be kept by the caller."""
        signs = np.ascontiguousarray(nonnegative, np.uint8)
        return _kernels.KinkedColumns(self.model.n_margins, columns, self.model.sample_weight, signs)

    def fit(self, columns: _kernels.KinkedColumns, x: Vector, noise: Vector, slopes: Vector | None = None) -> Found:
        """Return the fit from a vertex near x; where slopes are given, these are tried as the dual solution."""
        limits = _LEAST_EDGES, _EDGES_PER_FEATURE
        return self.fits.fit(columns, x.tolist(), noise.tolist(), *limits, slopes)

    def by_linear_program(
        self, columns: list[Vector], nonnegative: Mask, seconds: float
    ) -> tuple[Vector, Vector] | None:
        """Return x and slopes of the samples from HiGHS; None where it fails."""
        from scipy.optimize import linprog  # a tenth of a second to import, and rarely needed

        weight = np.ones(self.model.n_margins) if self.model.sample_weight is None else self.model.sample_weight
        counts = np.flatnonzero(weight > 0)
        share = weight[counts] / weight[counts].sum()
        kinks = (self.model.target - self.origin)[counts]
        values = [np.ascontiguousarray(column[counts]) for column in columns]
        vectors, coordinates = _kernels.orthonormal_basis(values, [None] * len(values), share)
        signs = np.flatnonzero(nonnegative)
        by_sign = np.linalg.pinv(coordinates)[:, signs]  # the rows x_j of columns that do not depend on each other
        unit, size = float(np.sum(share * np.abs(kinks))) or 1.0, float(np.mean(share))
        low, high = share * self.low[counts] / size, share * self.high[counts] / size
        found: Any = linprog(
            np.append(kinks / unit, np.zeros(signs.size)),
            A_eq=np.hstack([vectors, by_sign]),
            b_eq=np.zeros(vectors.shape[0]),
            bounds=[*zip(low.tolist(), high.tolist(), strict=True), *[(None, 0.0)] * signs.size],
            method="highs",
            options={"time_limit": seconds},
        )
        if found.status != 0 or found.x is None:
            return None
        slopes = np.zeros(weight.size)
        slopes[counts] = found.x[: counts.size] * size / share
        x = np.linalg.lstsq(coordinates.T, unit * found.eqlin.marginals, rcond=None)[0]
        return np.asarray(x, np.float64), slopes
