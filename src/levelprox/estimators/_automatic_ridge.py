"""ridge="auto": no ridge where the data determine the coefficients of the chosen features, a small one where not.

Where the chosen features separate the classes, or some samples of them, the logistic loss decreases as coefficients
grow, and has no minimiser. Where they nearly do, it has one far out that predicts other samples badly. The ridge is
then

    mean loss + λ ‖s ∘ coef‖²,      λ = 10^(−j/2) / (2 n),      j = 0, 1, …, 4

That is a normal prior on the coefficients of standardised features with a standard deviation from 1, scikit-learn's
default for LogisticRegression (C = 1), to 10. From the largest λ on, λ falls for as long as the approximate
leave-one-out loss over the chosen features (`objectives/model.py`) falls by more than twice the standard
error of that fall: the features were chosen on the same samples, so that a small fall says nothing. n is the sum of
the weights, as a weight of 2 is a repeated sample, or the number of samples where that is more, as of weights that
add up to 1.

Features nearly separate the classes where the standard error of the coefficient of a combination of them with variance
1 is above 2: its odds ratio is then not known within a factor of e⁴.

ψ minimised over all features of a model of few, with one ridge after another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from levelprox._runtime import seconds_left
from levelprox._typing import Features, Matrix, Vector
from levelprox.backends import RemoteObjective
from levelprox.certificate.null_model import NullFit
from levelprox.losses import Logistic
from levelprox.methods.restricted import SolverOptions
from levelprox.objectives import Curved, LinearModel, Model, MultinomialModel
from levelprox.objectives.leave_one_out import Point
from levelprox.objectives.multiclass import ByClass
from levelprox.problem import SubsetProblem
from levelprox.subset.column_cache import Columns
from levelprox.subset.fit import Fit
from levelprox.subset.newton import Minimum, Proximal, minimised
from levelprox.subset.refit import Refits
from levelprox.subset.swap_bounds import contrasts, of_each_feature

LARGEST_STANDARD_ERROR = 2.0  # of the coefficient of a combination of features with variance 1
#: What λ may be, of the largest.
GRID = tuple(10.0 ** (-j / 2) for j in range(5))
#: The same where folds choose it together with the number of features.
FOLD_GRID = tuple(10.0 ** (-j / 2) for j in range(-1, 4))
CLEARLY = 2.0  # standard errors of a fall
MIDDLE = GRID[len(GRID) // 2]
_SINGULAR = 1e-12  # eigenvalue of a Hessian with a unit diagonal
_STEPS, _HALVINGS, _ENOUGH = 50, 30, 1e-9  # of Newton's method, and what is left to gain, of ψ
_MOST = 5 * 10**9  # multiplications of a leave-one-out loss


def automatic_ridge(n: int, total: float | None) -> float:
    """Return the largest λ for n samples whose weights, where they have some, add up to `total`."""
    return 0.5 / (n if total is None else max(n, total))


def may_diverge(objective: Model | RemoteObjective) -> bool:
    """Return whether the loss may have no minimiser: a logistic loss without a ridge."""
    if isinstance(objective, RemoteObjective):
        return objective.strength is None and isinstance(objective.loss, Logistic)
    logistic = isinstance(objective, MultinomialModel) or isinstance(getattr(objective, "loss", None), Logistic)
    return logistic and getattr(objective, "ridge", None) is None


def largest_standard_error(objective: Curved, x: Vector, wanted: Features, ridge: float) -> float:
    """Return the largest standard error of the coefficient of a combination of features that has variance 1.

    With the covariance G of the columns and the block K of the inverse Hessian of the sum of losses it is the root of
    the largest eigenvalue of KG: it depends neither on units nor on correlations of features, but on how little
    curvature the losses have left. inf where the Hessian is singular.

    Parameters
    ----------
    objective : Curved
        A logistic loss over the features of the fit, perhaps of several classes.
    x : ndarray
        The fit.
    wanted : ndarray of int
        Places of the features that may have a ridge.
    ridge : float
        λ of `automatic_ridge`: 2λ is one over the number of samples.
    """
    if not wanted.size:
        return 0.0
    n_outputs, m = objective.n_outputs, x.size // objective.n_outputs
    covariance = _covariance(objective, m, wanted)
    hessian = objective.hessian_of(objective.margins(x), True)
    basis = contrasts(n_outputs) if objective.only_contrasts else np.eye(n_outputs)  # ψ sees only differences then
    hessian = of_each_feature(hessian, basis)
    diagonal = np.diagonal(hessian)
    if covariance is None or not (np.all(np.isfinite(hessian)) and np.all(diagonal > 0)):
        return math.inf
    unit = 1 / np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(unit[:, None] * hessian * unit)
    if values[0] <= _SINGULAR:
        return math.inf
    root = basis @ (unit[:, None] * vectors / np.sqrt(values)).reshape(m, basis.shape[1], -1)
    largest = 0.0
    for one in root.swapaxes(0, 1):
        inverse = one[wanted] @ one[wanted].T
        largest = max(largest, float(np.max(np.real(np.linalg.eigvals(inverse @ covariance)))))
    return math.sqrt(2 * ridge * largest)


def chosen_ridge(objective: Curved, unit: Vector, largest: float, signs: NDArray[np.bool_]) -> float:
    """Return the first λ of the grid, from the largest on, after which the leave-one-out loss does not fall clearly.

    Parameters
    ----------
    objective : Curved
        A logistic loss over the chosen features, perhaps of several classes, without a ridge.
    unit : ndarray
        s² of every feature: its part of the penalty where λ is 1; 0 for those free of it.
    largest : float
        λ of `automatic_ridge`.
    signs : ndarray of bool
        Features whose coefficients must not be negative. Those that would be are left out.

    Returns
    -------
    float
        The largest where leave-one-out losses would take too long: of many classes.
    """
    n, n_outputs, m = objective.n_margins // objective.n_outputs, objective.n_outputs, unit.size
    if not np.any(unit) or n * (m * n_outputs) ** 2 > _MOST:
        return largest
    if isinstance(objective, ByClass):
        objective = objective.over(objective.dense_columns())  # contiguous columns: they are read often
    chosen, x, before = largest, np.zeros(m * n_outputs), None
    for factor in GRID:
        bend = np.repeat(2 * factor * largest * unit, n_outputs)
        found = _minimised(objective, x, bend)
        while n_outputs == 1 and np.any(negative := signs & (found.x < 0)):
            kept = np.flatnonzero(~negative)
            objective = cast(Curved, objective.restrict(kept))
            unit, signs, bend = unit[kept], signs[kept], bend[kept]
            found = _minimised(objective, found.x[kept], bend)
            before = None if before is None else Point(before.x[kept], before.inverse[np.ix_(kept, kept)])
        x, after = found.x, _point(objective, found)
        if before is not None:
            assert isinstance(objective, RemoteObjective | Model)
            mean, square = objective.left_out_fall(before, after, 2 * largest)
            if not mean > CLEARLY * math.sqrt(max(square - mean**2, 0.0) * 2 * largest):
                break
        chosen, before = factor * largest, after
    return chosen


def without_ridge(objective: Curved, x: Vector) -> Vector:
    """Return about the minimiser of a logistic loss, from a point; far out where there is none."""
    return _minimised(objective, x, np.zeros(x.size)).x


def _minimised(objective: Curved, x: Vector, bend: Vector) -> Minimum:
    """Return the minimum of ψ(x) + ½ Σ bend_j x_j²."""
    return minimised(Proximal(objective, np.diag(bend)), x, _ENOUGH / 2, most=_STEPS, halvings=_HALVINGS)


def _point(objective: Curved, found: Minimum) -> Point:
    """Return a minimum with its inverse Hessian; a softmax model is curved along shifts of all classes."""
    hessian = found.hessian
    if objective.only_contrasts:
        size = np.maximum(np.diagonal(hessian)[:: objective.n_outputs], np.finfo(np.float64).tiny)
        hessian = hessian + np.kron(np.diag(size), np.full((objective.n_outputs,) * 2, 1 / objective.n_outputs))
    return Point(found.x, _inverse(hessian))


def _inverse(hessian: Matrix) -> Matrix:
    """Return the inverse, in units in which the diagonal is 1; of what is singular, that of the rest."""
    diagonal = np.diagonal(hessian)
    unit = np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)
    values, vectors = np.linalg.eigh(unit[:, None] * hessian * unit)
    root = unit[:, None] * vectors[:, values > _SINGULAR] / np.sqrt(values[values > _SINGULAR])
    return np.asarray(root @ root.T, np.float64)


def _covariance(objective: Curved, m: int, wanted: Features) -> Matrix | None:
    """Return the covariance of some columns, from the Hessian at 0, where all probabilities are alike."""
    n_outputs = objective.n_outputs
    zero = objective.hessian_of(objective.margins(np.zeros(m * n_outputs)), True).reshape(m, n_outputs, m, n_outputs)[
        :, 0, :, 0
    ]
    gram = zero / ((n_outputs - 1) / n_outputs**2 if objective.only_contrasts else 0.25)
    ones = objective.unpenalized
    if ones.size:
        gram = gram - np.outer(gram[:, ones[0]], gram[ones[0]]) / gram[ones[0], ones[0]]
    return gram[np.ix_(wanted, wanted)] if np.all(np.isfinite(gram)) else None


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
            self.data = objective.over(objective.dense_columns())  # contiguous columns: they are read often
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
        m = standard.dimension // standard.n_outputs
        problem = SubsetProblem(standard, m, nonnegative=self.signs)
        null = NullFit(np.zeros(standard.dimension), standard.value_of(standard.origin), None, 1.0)
        refits = Refits(problem, SolverOptions(null, seconds_left), self.columns)
        refits.brief, self.columns = True, refits.columns if self.is_standard else None
        everything = np.arange(m)
        begin = x if self.is_standard else np.zeros_like(x)
        fit = refits(everything, Fit(everything, begin, np.inf, np.empty(0)), self.tolerance, accuracy=_ACCURACY)
        assert fit is not None  # only a value to undercut gives None
        return fit.x if self.is_standard else standard.unstandardised(fit.x)


class RidgeChoice:
    """The λ chosen over the features that a search finds: over its first set, where `early`, and over its last."""

    def __init__(self, choose: Callable[[Features], float], ridge: float, early: bool) -> None:
        self.choose, self.now, self.early = choose, ridge, early
        self.ridge = ridge
        self.features: Features | None = None

    def __call__(self, features: Features, x: Vector, last: bool) -> bool:
        """Choose, and return whether that ends the search: λ is another one."""
        if last or self.early:
            self.ridge, self.features = self.choose(features), features
            self.early = False
        return self.ridge != self.now
