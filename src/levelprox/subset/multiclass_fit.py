"""Fits of a softmax model over columns side by side: to the last digits, or to a few.

`class_fit` works for any units, means and angles of columns: these are replaced by a basis that is orthonormal with the
weights of the samples, centred first where there is an intercept, then by a QR decomposition with pivoting. Newton
steps run over the coefficients of that basis. Where ψ hardly bends, as far from the data's own margins, a typical
curvature is added, and steps are doubled as long as ψ falls.

`ClassNewton` fits to a few digits, for fits of folds, of which nothing is shown. A set of m features has m · K
coordinates, feature by feature. Newton steps are solved by conjugate gradients, preconditioned by the inverse of the
Hessian at the fit of the set before (`kernels/algorithms/class_newton.hpp`).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import qr, solve_triangular

import levelprox._kernels as _kernels
from levelprox._runtime import TimeLimitError, seconds_left
from levelprox._typing import Features, Matrix, Vector
from levelprox.objectives import MultinomialModel
from levelprox.subset.fit import EPS, Fit
from levelprox.subset.newton import ARMIJO, solved

_SEPARATED_SHARE = 1e-6  # of ψ without features: separated samples have no loss left

#: Where to begin as well, the inverse of a Hessian from before, and how the set differs: see `ClassFits.quick_fit`.
Near = tuple[list[float], Matrix, int, Matrix, Matrix, Matrix]

_CLASS_NEWTON_STEPS = 200
_MANY_CLASSES, _FEW_STEPS = 16, 20  # of more classes and many coordinates, after the quasi-Newton method
_SPANNED_SHARE = 1e-12  # of the length of a column: what others leave of it
_CLASS_RIDGE_SHARE = 1e-9  # of the typical curvature
_LEAST_RIDGE_SHARE, _MOST_RIDGE_SHARE = 1e-12, 1e6
_DOUBLING_GAIN_SHARE = 0.1  # of what a step is predicted to gain, for a step twice as long
_SHORTEST_CLASS_STEP, _LONGEST_STEP = 2.0**-12, 2.0**40
_CLASS_PREDICTED_SHARE = 1e-15  # of ψ: what is predicted below it is rounding
_QUASI_NEWTON_COORDINATES = 300  # coordinates from which on a quasi-Newton method begins
_QUASI_CLASS_NEWTON_STEPS, _QUASI_NEWTON_PAIRS = 500, 20  # of it at most, and the number of stored pairs
_NO_LOSS_SHARE = 1e-17  # of ψ at 0: what is left of it no longer shows
_SEPARATING_SHARE = 1e-2  # of the largest margin: the least by which a class is ahead of the others
_ATTAINED_SHARE = 1e-8  # of ψ over the basis: by how much ψ over the columns may be above it
_LAST_STEP_SHARE = 0.1  # of what may be left to gain: its last step


class ClassNewton:
    """Fits of a softmax model over a few of its columns.

    Parameters
    ----------
    columns : ndarray of shape (d, n)
    fits : ClassFits
    ridge : ndarray of shape (d,)
    n_outputs : int
        K.

    Attributes
    ----------
    n_fits, n_passes : int
        Fits, and passes over all columns.
    """

    def __init__(self, columns: Matrix, fits: _kernels.ClassFits, ridge: Vector, n_outputs: int) -> None:
        self.columns, self.fits, self.ridge, self.n_outputs = list(columns), fits, ridge, n_outputs
        self.nonzero = np.flatnonzero(np.any(columns, axis=1))
        self.n_fits = self.n_passes = 0
        null = fits.quick_fit([], [], [], 1.0, math.inf, 0.0)
        assert null is not None
        self.gone = _SEPARATED_SHARE * null[1]

    def fitted(
        self, features: Features, x: Vector, accuracy: float, near: Near | None = None, below: float = math.inf
    ) -> Fit | None:
        """Return ψ minimised over some features up to `accuracy` of ψ; None where it is not likely to be below a value.

        Parameters
        ----------
        features : ndarray of int
        x : ndarray of shape (m · K,)
            Where to begin.
        accuracy : float
        near : tuple, optional
            What is known of the inverse Hessian (`ClassEstimates.changed`).
        below : float
        """
        self.n_fits += 1
        columns = [self.columns[j] for j in features]
        limits = accuracy, below, self.gone
        found = self.fits.quick_fit(columns, x.tolist(), self.ridge[features].tolist(), *limits, near)
        if found is None:
            return None
        order = np.argsort(features)
        x = found[0].reshape(features.size, self.n_outputs)[order].ravel()
        return Fit(features[order].astype(np.intp), x, *found[1:])


class Basis:
    """A basis of the span of columns, orthonormal with the weights of the samples.

    Parameters
    ----------
    columns : ndarray of shape (n, m)
    share : ndarray of shape (n,)
        The weights, which add up to 1.
    ones : ndarray of int
        Which columns are constant: the others are centred.

    Attributes
    ----------
    columns : ndarray of shape (n, r)
        The basis.
    noise : ndarray of shape (r,)
        The rounding error of each vector of the basis, relative to its length.
    """

    def __init__(self, columns: Matrix, share: Vector, ones: Features) -> None:
        self.ones = ones
        self.mean = np.zeros(columns.shape[1])
        self.size = np.max(np.abs(columns), axis=0, initial=0.0)
        self.size[self.size == 0] = 1.0
        centred = columns / self.size
        if ones.size:
            others = np.delete(np.arange(columns.shape[1]), ones)
            self.mean[others] = share @ centred[:, others]
            centred[:, others] -= self.mean[others]
            centred[:, others] -= share @ centred[:, others]  # what rounding has left of the mean
        weighted = np.sqrt(share)[:, None] * centred
        self.length = np.sqrt(np.sum(weighted**2, axis=0))
        # A column that is constant except for the last digits of its mean is not in the basis.
        seen = self.length > _SPANNED_SHARE * np.maximum(1.0, np.abs(self.mean))
        self.length[~seen] = 1.0
        _, R, order = qr(np.where(seen, weighted / self.length, 0.0), mode="economic", pivoting=True)
        rank = int(np.count_nonzero(np.abs(np.diagonal(R)) > _SPANNED_SHARE))
        self.R, self.kept = R[:rank, :rank], order[:rank]
        self.noise = EPS / np.abs(np.diagonal(self.R))
        self.columns = solve_triangular(self.R, (centred / self.length)[:, self.kept].T, trans="T").T

    def inside(self, share: Vector, moved: Matrix) -> Matrix:
        """Return the coefficients of the basis that move margins as given."""
        return np.asarray(self.columns.T @ (share[:, None] * moved))

    def outside(self, w: Matrix) -> Matrix:
        """Return the coefficients of the columns; zero for those that the others span."""
        x = np.zeros((self.size.size, w.shape[1]))
        x[self.kept] = solve_triangular(self.R, w) / self.length[self.kept, None]
        if self.ones.size:
            x[self.ones[0]] -= self.mean @ x
        return np.asarray(x / self.size[:, None], np.float64)


def class_fit(
    objective: MultinomialModel,
    columns: Matrix,
    ones: Features,
    x: Vector,
    accuracy: float,
    finished: bool = False,
) -> tuple[Vector, MultinomialModel | None, int]:
    """Return x that minimises ψ up to `accuracy` of ψ or rounding, ψ over the basis, and the number of Newton steps.

    Without a basis, as where no sample that has weight has an entry, x is 0, and None takes the place of ψ.

    Parameters
    ----------
    objective : MultinomialModel
        Over these columns.
    columns : ndarray of shape (n, m)
    ones : ndarray of int
        Which of them are the intercept's.
    x : ndarray of shape (m * K,)
        Where to begin.
    accuracy : float
    finished : bool
        Whether to take as many steps with many classes as with few.
    """
    K, share = objective.n_outputs, objective.share
    basis = Basis(columns, share, ones)
    if not basis.kept.size:
        return np.zeros_like(x), None, 0
    model = objective.over(np.asfortranarray(basis.columns))
    W = basis.inside(share, objective.moved(x))
    if not model.value_of(model.margins(W.ravel())) <= model.value_of(model.origin):
        W = np.zeros_like(W)
    w = _nearly_minimised(model, W.ravel(), accuracy) if W.size > _QUASI_NEWTON_COORDINATES else W.ravel()
    few = W.size > _QUASI_NEWTON_COORDINATES and K > _MANY_CLASSES and not finished
    begin = w
    w, steps = _minimised_over_basis(model, begin, accuracy, _FEW_STEPS if few else _CLASS_NEWTON_STEPS)
    x, psi, apart = _over_columns(objective, basis, model, w)
    if not apart <= _ATTAINED_SHARE * abs(psi):  # steps followed the rounding errors of the basis
        w, more = _minimised_over_basis(model, begin, accuracy, _CLASS_NEWTON_STEPS, basis.noise)
        other, other_psi, other_apart = _over_columns(objective, basis, model, w)
        x, steps = other if other_psi + other_apart < psi + apart else x, steps + more
    return x, model, steps


def _over_columns(
    objective: MultinomialModel, basis: Basis, model: MultinomialModel, w: Vector
) -> tuple[Vector, float, float]:
    """Return x of coefficients w of the basis, ψ there, and how far that is from ψ over the basis."""
    x = basis.outside(w.reshape(-1, model.n_outputs)).ravel()
    psi = objective.value_of(objective.margins(x))
    return x, psi, abs(psi - model.value_of(model.margins(w)))


def _nearly_minimised(model: MultinomialModel, w: Vector, accuracy: float) -> Vector:
    """Return where a quasi-Newton method from w ends.

    Over an orthonormal basis the curvature of ψ is nowhere above 1/2, and Newton steps for many classes are expensive:
    their systems have a row for each feature and class. A few of them from where this ends are enough.
    """
    from scipy import optimize

    best = (math.inf, w)

    def timed(at: Vector) -> tuple[float, Vector]:
        nonlocal best
        if seconds_left() <= 0:
            raise TimeLimitError
        value, gradient = model.value_and_gradient(at)
        best = (value, np.array(at)) if value < best[0] else best
        return value, gradient

    optimize.minimize(
        timed,
        w,
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": _QUASI_CLASS_NEWTON_STEPS,
            "ftol": max(_LAST_STEP_SHARE * accuracy, _CLASS_PREDICTED_SHARE),
            "gtol": 0.0,
            "maxcor": _QUASI_NEWTON_PAIRS,
        },
    )
    return best[1]


def _minimised_over_basis(
    model: MultinomialModel, w: Vector, accuracy: float, most: int, noise: Vector | None = None
) -> tuple[Vector, int]:
    """Return where Newton steps from w end, and how many there were.

    `noise` is the relative rounding error of each vector of the basis: steps end that gain no more than it explains.
    """
    K = model.n_outputs
    typical = (K - 1) / K**2
    z = model.margins(w)
    psi, ridge, many = model.value_of(z), _CLASS_RIDGE_SHARE, w.size > _QUASI_NEWTON_COORDINATES
    gone = _NO_LOSS_SHARE * model.value_of(model.origin) if many else -math.inf
    steps = 0
    for _ in range(most):
        if many and seconds_left() <= 0:
            raise TimeLimitError
        if many and psi > gone and (scale := _separating_scale(model, z, gone)) > 1:
            w, z = scale * w, scale * z
            psi = model.value_of(z)
        if psi <= gone:
            break
        steps += 1
        gradient, hessian = model.gradient_of(z), model.hessian_of(z)
        along, step, predicted = _direction(model, gradient, hessian, ridge * typical)
        if noise is not None and predicted <= _explained(model, z, (w + step).reshape(-1, K), noise):
            break
        if not predicted > max(accuracy, _CLASS_PREDICTED_SHARE) * abs(psi):
            if ridge <= _LEAST_RIDGE_SHARE or not predicted > 0:
                break
            ridge = max(ridge / 1e3, _LEAST_RIDGE_SHARE)  # with less of it, more may be predicted
            continue
        t, reached = 1.0, model.value_of(z + along)
        while not reached <= psi - ARMIJO * t * predicted and t > _SHORTEST_CLASS_STEP:
            t /= 2
            reached = model.value_of(z + t * along)
        if not reached < psi:
            if ridge >= _MOST_RIDGE_SHARE:
                break
            ridge *= 1e3
            continue
        worth = _DOUBLING_GAIN_SHARE * predicted  # rounding must not decide how far to go
        while 1 <= t < _LONGEST_STEP and (farther := model.value_of(z + 2 * t * along)) < reached - worth:
            t, reached = 2 * t, farther
        ridge = max(ridge / 1e3, _LEAST_RIDGE_SHARE) if t >= 1 else ridge
        w = w + t * step
        z, last = model.margins(w), psi
        psi = model.value_of(z)
        if not psi < last:
            break
    return w, steps


def _explained(model: MultinomialModel, z: Matrix, w: Matrix, noise: Vector) -> float:
    """Return by how much rounding errors of the basis change ψ at coefficients w."""
    slopes = model.loss.derivative(z, model.target, model.sample_weight)
    return float(np.sum(np.abs(slopes))) * float(np.max(noise @ np.abs(w)))


def _separating_scale(model: MultinomialModel, z: Matrix, gone: float) -> float:
    """Return by which factor margins that clearly separate all classes grow until ψ is gone; 1 for others."""
    counts = model.share > 0
    z, label = z[counts], model.target[counts]
    own = np.take_along_axis(z, label[:, None], axis=1)
    others = z - own
    np.put_along_axis(others, label[:, None], -np.inf, axis=1)
    least, largest = -float(np.max(others)), float(np.max(np.abs(z)))
    return math.log(model.n_outputs / gone) / least if gone > 0 and least > _SEPARATING_SHARE * largest else 1.0


def _direction(
    model: MultinomialModel, gradient: Vector, hessian: Matrix, ridge: float
) -> tuple[Matrix, Vector, float]:
    """Return how margins move along a Newton step, the step, and twice what it is predicted to gain."""
    K = model.n_outputs
    # ψ does not see coefficients of all classes shifted alike: what is added there moves nothing.
    m = gradient.size // K
    bent = hessian + ridge * np.eye(m * K)
    for j in range(m):
        bent[j * K : (j + 1) * K, j * K : (j + 1) * K] += 1.0 / K
    try:
        step = -solved(bent, gradient, K)
    except np.linalg.LinAlgError:
        step = -gradient
    if not np.all(np.isfinite(step)):
        step = -gradient
    return model.moved(step), step, -float(step @ gradient)
