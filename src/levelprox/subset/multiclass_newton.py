"""A softmax model over columns side by side: fits to a few digits, and second-order estimates of swaps.

Of fits of folds nothing is shown, so that neither bounds nor the last digits are needed here. A set of m features has
m · K coordinates, feature by feature. Newton steps are solved by conjugate gradients, preconditioned by the inverse of
the Hessian at the fit of the set before (`kernels/algorithms/class_newton.hpp`).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

import levelprox._kernels as _kernels
from levelprox._typing import Features, Matrix, Vector
from levelprox.subset.fit import Fit

_RIDGE_SHARE, _LARGEST_RIDGE_SHARE = 1e-10, 1e4  # of the curvature along a coordinate, against singular systems
_NO_LOSS_SHARE = 1e-6  # of ψ without features: separated samples have no loss left

#: Where to begin as well, the inverse of a Hessian from before, and how the set differs: see `ClassFits.quick_fit`.
Near = tuple[list[float], Matrix, int, Matrix, Matrix, Matrix]


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
        self.gone = _NO_LOSS_SHARE * null[1]

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


class ClassEstimates:
    """What features gain and cost at a fit, by the second-order model of ψ there (`swap_bounds.py` has the formulas).

    Parameters
    ----------
    newton : ClassNewton
    at : Fit
        Of `newton.fitted`.
    kept : ndarray of int
        Features that are not to be left out.

    Attributes
    ----------
    outside : ndarray of int
        Features that may be added.
    cost : ndarray of shape (m,)
        What leaving out each feature of the fit costs.
    """

    def __init__(self, newton: ClassNewton, at: Fit, kept: Features) -> None:
        newton.n_passes += 1
        K, inside = newton.n_outputs, at.features
        rows, m = np.union1d(newton.nonzero, inside), inside.size
        places = np.searchsorted(rows, inside)
        columns = [newton.columns[j] for j in rows]
        gradient, cross, own = newton.fits.derivatives(columns, places.tolist(), at.margins)
        own += 2 * newton.ridge[rows][:, None, None] * np.eye(K) + _shifts(own)[:, None, None]
        cross = cross.reshape(rows.size, K, m * K)
        cross.reshape(rows.size, K, m, K)[places, :, np.arange(m)] = own[places]
        inverse = _inverse(cross[places].reshape(m * K, m * K))
        others = np.delete(np.arange(rows.size), places)
        self.at, self.n_outputs, self.outside, self.gradient = at, K, rows[others], gradient[others]
        self.inverse, own, cross = inverse, own[others], cross[others]
        self.across: Matrix = (cross.reshape(others.size * K, m * K) @ inverse).reshape(cross.shape)
        self.left = own - self.across @ cross.swapaxes(1, 2)
        self.left += _RIDGE_SHARE * np.einsum("jaa->j", own)[:, None, None] * np.eye(K)
        self.stiffness = np.linalg.inv(inverse.reshape(m, K, m, K)[np.arange(m), :, np.arange(m), :])
        self.x = at.x.reshape(m, K)
        self.pull = (self.stiffness @ self.x[:, :, None])[:, :, 0]
        self.cost = 0.5 * np.einsum("ia,ia->i", self.x, self.pull)
        self.cost[np.isin(inside, kept)] = np.inf

    def additions(self) -> Vector:
        """Return what each feature of `outside` gains."""
        return _gains(self.left, self.gradient)

    def swaps(self) -> Matrix:
        """Return what each feature of `outside` gains in place of each one of the fit, of shape (m, outside)."""
        gains = np.full((self.cost.size, self.outside.size), -np.inf)
        for i in np.flatnonzero(np.isfinite(self.cost)).tolist():
            mine = self.across[:, :, self._of(i)]
            left = self.left + mine @ self.stiffness[i] @ mine.swapaxes(1, 2)
            gains[i] = _gains(left, self.gradient - mine @ self.pull[i]) - self.cost[i]
        return gains

    def changed(self, out: int | None, into: int | None) -> tuple[Features, Vector, Near]:
        """Return features without that at the place `out` and with that at the place `into` of `outside`, at the end.

        Returned with x of the second-order model there, and with x as it is and what is known of the inverse Hessian.
        """
        features, x = self.at.features, self.at.x
        none, before = np.zeros((0, 0)), x
        held = stiffness = none
        if out is not None:
            mine, stiffness = self._of(out), self.stiffness[out]
            held = stiffness @ self.inverse[mine]  # K_ii⁻¹ K_i·
            x, features = np.delete(x - self.x[out] @ held, mine), np.delete(features, out)
            before = np.delete(before, mine)
        if into is None:
            return features, x, (before.tolist(), self.inverse, -1 if out is None else out, stiffness, none, none)
        left, slope, across = self.left[into], self.gradient[into], self.across[into]
        if out is not None:
            own = across[:, mine]
            left, slope, across = left + own @ stiffness @ own.T, slope - own @ self.pull[out], across - own @ held
            across[:, mine] = 0.0
        inverse = np.linalg.inv(left)
        added = -inverse @ slope
        moved = added @ across
        x = np.append(x - (moved if out is None else np.delete(moved, mine)), added)
        begin = [*before.tolist(), *[0.0] * added.size]
        near = begin, self.inverse, -1 if out is None else out, stiffness, np.ascontiguousarray(across), inverse
        return np.append(features, self.outside[into]), x, near

    def _of(self, i: int) -> slice:
        """Return the coordinates of the i-th feature of the fit."""
        return slice(i * self.n_outputs, (i + 1) * self.n_outputs)


def _inverse(hessian: Matrix) -> Matrix:
    """Return the inverse; of a singular matrix that of a larger one, and of what is not finite the diagonal's."""
    diagonal, more = np.diagonal(hessian).copy(), _RIDGE_SHARE
    while diagonal.size and more < _LARGEST_RIDGE_SHARE and np.all(np.isfinite(hessian)):
        hessian.flat[:: hessian.shape[0] + 1] = (1 + more) * diagonal
        factor, failed = dpotrf(hessian, lower=1)
        if not failed:
            lower = np.tril(dpotri(factor, lower=1)[0])
            return np.ascontiguousarray(lower + np.tril(lower, -1).T)
        more *= 100.0
    return np.diag(1 / np.where((diagonal > 0) & np.isfinite(diagonal), diagonal, 1.0))


def _gains(left: Matrix, gradient: Matrix) -> Vector:
    """½ g'S⁻¹g of several features."""
    step = np.linalg.solve(left, gradient[:, :, None])[:, :, 0]
    return np.asarray(0.5 * np.einsum("ja,ja->j", gradient, step))


def _shifts(blocks: Matrix) -> Vector:
    """Return curvatures for coefficients of all classes shifted alike, which the loss does not see."""
    curvature = np.einsum("jaa->j", blocks) / blocks.shape[1] ** 2
    return np.asarray(np.where(curvature > 0, curvature, 1.0))
