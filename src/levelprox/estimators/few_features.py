"""ψ minimised over all features of a model of few, with one ridge after another."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from levelprox._runtime.deadline import seconds_left
from levelprox.certificate.null_model import NullFit
from levelprox.methods.restricted import How
from levelprox.methods.subsolvers import Newton
from levelprox.methods.surrogate import surrogate_by_name
from levelprox.objectives import LinearModel
from levelprox.objectives._multiclass import ByClass
from levelprox.objectives.leave_one_out import entries_of
from levelprox.problem import SubsetProblem
from levelprox.subset.column_cache import Columns
from levelprox.subset.fit import Fit
from levelprox.subset.refit import Refits

Vector = NDArray[np.float64]

_ACCURACY = 1e-10  # of ψ


class FewFeatures:
    """Compiled fits over the features of a model.

    Parameters
    ----------
    objective : LinearModel or ByClass
        ψ over few features, without a ridge.
    signs : ndarray of bool of shape (m,)
        Features whose coefficients must not be negative.
    tolerance : float
        On ‖∇ψ‖∞, where no bound on what is left to gain is known.
    """

    def __init__(self, objective: LinearModel | ByClass, signs: NDArray[np.bool_], tolerance: float) -> None:
        self.data, self.tolerance = objective, tolerance
        self.signs = signs if np.any(signs) else None
        self.is_standard = objective.standardised() is None
        if isinstance(objective, ByClass) and self.is_standard:
            self.data = objective.over(entries_of(objective))  # columns side by side: they are looked at often
        self.columns: Columns | None = None

    def __call__(self, x: Vector, ridge: Vector | None = None) -> Vector:
        """Return the minimiser, from a point; without a ridge, far out where there is none.

        Parameters
        ----------
        x : ndarray of shape (dimension,)
        ridge : ndarray of shape (m,), optional
            What is added to ψ: Σ_j ridge_j x_j².
        """
        objective = self.data if ridge is None else self.data.ridged(ridge)
        standard = objective if self.is_standard else cast(LinearModel | ByClass, objective.standardised())
        m = standard.dimension // standard.width
        problem = SubsetProblem(standard, m, nonnegative=self.signs)
        null = NullFit(np.zeros(standard.dimension), standard.value_of(standard.origin), None, 1.0)
        newton, surrogate = Newton(), surrogate_by_name("concave")
        how = How(newton, newton.proximal_weight(standard), surrogate, null, seconds_left, None)
        refits = Refits(problem, how, self.columns)
        refits.brief, self.columns = True, refits.columns if self.is_standard else None
        everything = np.arange(m)
        begin = x if self.is_standard else np.zeros_like(x)
        fit = refits(everything, Fit(everything, begin, np.inf, np.empty(0)), self.tolerance, accuracy=_ACCURACY)
        assert fit is not None  # only a value to undercut gives None
        return fit.x if self.is_standard else standard.unstandardised(fit.x)
