"""A softmax model over columns side by side: fits to a few digits, and second-order estimates of swaps.

Of fits of folds nothing is shown, so that neither bounds nor the last digits are needed here. Arrays have samples along
their last axis: columns are of shape (m, n), margins and probabilities of shape (K, n). A set of m features has m · K
coordinates, feature by feature.

Newton steps over many coordinates are solved by conjugate gradients, preconditioned by a factorised Hessian from
before: that at the fit of one set, without the rows of the feature that is left out and with those of the one that is
added, serves for the fit of the next set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor
from scipy.linalg.lapack import dpotrs

from levelprox._typing import Features, Matrix, Vector

_NEWTON_STEPS, _MOST_HALVINGS, _ARMIJO = 40, 12, 1e-4
_FRESH_HESSIAN_COORDINATES = 60  # coordinates up to which every step has its own Hessian
_CG_ITERATIONS, _CG_RESIDUAL_SHARE = 10, 1e-2  # of conjugate gradients, and what is left of the squared residual
_HOPE_SHARE = 1.0  # of twice the predicted reduction of a step: a fit that stays above `below` after that is stopped
_RIDGE_SHARE, _LARGEST_RIDGE_SHARE = 1e-10, 1e4  # of the curvature along a coordinate, against singular systems
_NO_LOSS_SHARE = 1e-6  # of ψ without features: separated samples have no loss left


@dataclass(frozen=True, eq=False)
class ClassSet:
    """A fit over some features.

    Attributes
    ----------
    features : ndarray of int of shape (m,)
        Sorted.
    x : ndarray of shape (m, K)
    psi : float
    p : ndarray of shape (K, n)
        Probabilities.
    """

    features: Features
    x: Matrix
    psi: float
    p: Matrix


class ClassNewton:
    """Fits of a softmax model over a few of its columns.

    Parameters
    ----------
    columns : ndarray of shape (d, n)
    labels : ndarray of int of shape (n,)
    share : ndarray of shape (n,)
        Weights, which add up to 1.
    offset : ndarray of shape (K, n)
    ridge : ndarray of shape (d,)

    Attributes
    ----------
    n_fits, n_passes : int
        Fits, and passes over all columns.
    """

    def __init__(
        self, columns: Matrix, labels: NDArray[np.int64], share: Vector, offset: Matrix, ridge: Vector
    ) -> None:
        self.columns, self.share, self.offset, self.ridge = columns, share, offset, ridge
        self.own = np.arange(offset.shape[0])[:, None] == labels
        self._places = self.own.argmax(axis=0), np.arange(offset.shape[1])
        self.rooted = np.sqrt(share)
        self.nonzero = np.flatnonzero(np.any(columns, axis=1))
        self.n_fits = self.n_passes = 0
        self.gone = _NO_LOSS_SHARE * self._loss(offset)[0]

    def fitted(
        self, features: Features, x: Matrix, accuracy: float, factor: Any = None, below: float = np.inf
    ) -> ClassSet | None:
        """Return ψ minimised over some features up to `accuracy` of ψ; None where it is not likely to be below a value.

        Parameters
        ----------
        features : ndarray of int
        x : ndarray of shape (m, K)
            Where to begin.
        accuracy : float
        factor : tuple, optional
            The factorised Hessian to begin with (`factorised`).
        below : float
        """
        self.n_fits += 1
        columns, ridge = self.columns[features], self.ridge[features][:, None]
        z = x.T @ columns + self.offset
        psi, p = self._value(z, x, ridge)
        few = x.size <= _FRESH_HESSIAN_COORDINATES
        for _ in range(_NEWTON_STEPS):
            gradient = columns @ (self.share * (p - self.own)).T + 2 * ridge * x
            fresh = factor is None
            if factor is None:
                factor = factorised(self.hessian(columns, ridge, p))
            step = -_solved(factor, gradient.ravel()).reshape(x.shape)
            if not fresh:
                conjugate = self._conjugate(columns, ridge, p, gradient, factor, step)
                if conjugate is None:
                    factor = None
                    continue
                step = conjugate
            gain = -float(np.sum(step * gradient))
            if not gain > 2 * accuracy * psi or psi <= self.gone:
                break
            if psi - _HOPE_SHARE * gain > below:
                return None
            along, t = step.T @ columns, 1.0
            for _ in range(_MOST_HALVINGS):
                new = x + t * step
                after, following = self._value(z + t * along, new, ridge)
                if after <= psi - _ARMIJO * t * gain:
                    break
                t /= 2
            else:
                break
            x, z, psi, p = new, z + t * along, after, following
            if few:
                factor = None
        return ClassSet(features, x, psi, p)

    def _conjugate(
        self, columns: Matrix, ridge: Matrix, p: Matrix, gradient: Matrix, factor: Any, step: Matrix
    ) -> Matrix | None:
        """Return about the Newton step by conjugate gradients, preconditioned by a factorised Hessian.

        `step` is that of the preconditioner alone. None where many iterations are needed.
        """
        found, rest = np.zeros_like(step), -gradient
        direction = solved = step
        begin = size = float(np.sum(rest * solved))
        for _ in range(_CG_ITERATIONS):
            moved = direction.T @ columns
            moved = p * (moved - np.einsum("kn,kn->n", p, moved))
            bent = columns @ (self.share * moved).T + 2 * ridge * direction
            curvature = float(np.sum(bent * direction))
            if not curvature > 0:
                return None
            found = found + size / curvature * direction
            rest = rest - size / curvature * bent
            solved = _solved(factor, rest.ravel()).reshape(step.shape)
            before, size = size, float(np.sum(rest * solved))
            if not size > _CG_RESIDUAL_SHARE * begin:
                return found
            direction = solved + size / before * direction
        return None

    def hessian(self, columns: Matrix, ridge: Matrix, p: Matrix) -> Matrix:
        """Return the Hessian over some columns, of shape (m · K, m · K)."""
        (m, n), K = columns.shape, p.shape[0]
        rows = (columns[:, None, :] * (self.rooted * p)).reshape(m * K, n)
        hessian = -(rows @ rows.T)
        by_class, classes = hessian.reshape(m, K, m, K), np.arange(K)
        by_class[:, classes, :, classes] = (columns * self._bend(p)[:, None]) @ columns.T
        return _held(hessian, np.repeat(2 * ridge, K), K)

    def around(self, at: ClassSet, kept: Features) -> ClassEstimates:
        """Return second-order estimates at a fit; features that are kept are not to be left out."""
        self.n_passes += 1
        p, inside, (K, n) = at.p, at.features, at.p.shape
        outside = np.setdiff1d(self.nonzero, inside)
        columns, others, classes = self.columns[inside], self.columns[outside], np.arange(K)
        rooted, bend, ridge = self.rooted * p, self._bend(p), self.ridge[outside][:, None]
        gradient = others @ (self.share * (p - self.own)).T
        rows = (columns[:, None, :] * rooted).reshape(inside.size * K, n)
        cross = -((others[:, None, :] * rooted).reshape(outside.size * K, n) @ rows.T)
        by_class = cross.reshape(outside.size, K, inside.size, K)
        by_class[:, classes, :, classes] = others @ (columns * bend[:, None]).swapaxes(1, 2)
        squares = others**2
        own = -(squares @ (rooted[:, None] * rooted).reshape(K * K, n).T).reshape(-1, K, K)
        own[:, classes, classes] = squares @ bend.T
        own = own + _shifts(own)[:, None, None]
        own[:, classes, classes] += 2 * ridge
        hessian = self.hessian(columns, self.ridge[inside][:, None], p)
        return ClassEstimates(at, kept, outside, gradient, hessian, cross, own)

    def _loss(self, z: Matrix) -> tuple[float, Matrix]:
        """Return the mean loss, and the probabilities."""
        z = z - z.max(axis=0)
        p = np.exp(z)
        total = p.sum(axis=0)
        p /= total
        return float(self.share @ (np.log(total) - z[self._places])), p

    def _value(self, z: Matrix, x: Matrix, ridge: Matrix) -> tuple[float, Matrix]:
        loss, p = self._loss(z)
        return loss + float(np.sum(ridge * x**2)), p

    def _bend(self, p: Matrix) -> Matrix:
        return np.asarray(self.share * p * (1 - p))


class ClassEstimates:
    """What features gain and cost at a fit, by the second-order model of ψ there (`swap_bounds.py` has the formulas).

    Parameters
    ----------
    at : ClassSet
    kept : ndarray of int
        Features that are not to be left out.
    outside : ndarray of int of shape (o,)
        Features that may be added.
    gradient : ndarray of shape (o, K)
        With respect to these.
    hessian : ndarray of shape (m · K, m · K)
        Over the features of the fit.
    cross : ndarray of shape (o · K, m · K)
        Of features outside with those of the fit.
    own : ndarray of shape (o, K, K)
        The diagonal blocks of features outside.
    """

    def __init__(
        self,
        at: ClassSet,
        kept: Features,
        outside: Features,
        gradient: Matrix,
        hessian: Matrix,
        cross: Matrix,
        own: Matrix,
    ) -> None:
        self.at, self.own, self.hessian, self.outside, self.gradient = at, own, hessian, outside, gradient
        (count, K), m = gradient.shape, at.features.size
        self.cross = cross.reshape(count, K, m * K)
        inverse = _inverse(hessian)
        self.across = (cross @ inverse).reshape(count, K, m * K)
        self.left = own - self.across @ self.cross.swapaxes(1, 2)
        self.left += _RIDGE_SHARE * np.einsum("jaa->j", own)[:, None, None] * np.eye(K)
        blocks = inverse.reshape(m, K, m, K)[np.arange(m), :, np.arange(m), :]
        self.stiffness = np.linalg.inv(blocks)
        self.pull = (self.stiffness @ at.x[:, :, None])[:, :, 0]
        self.cost = 0.5 * np.einsum("ia,ia->i", at.x, self.pull)
        self.cost[np.isin(at.features, kept)] = np.inf

    def additions(self) -> Vector:
        """Return what each feature of `outside` gains."""
        return _gains(self.left, self.gradient)

    def swaps(self) -> Matrix:
        """Return what each feature of `outside` gains in place of each one of the fit, of shape (m, outside)."""
        (count, K), gains = self.gradient.shape, np.full((self.cost.size, self.outside.size), -np.inf)
        across = self.across.reshape(count, K, self.cost.size, K)
        for i in np.flatnonzero(np.isfinite(self.cost)):
            mine = across[:, :, i]
            left = self.left + mine @ self.stiffness[i] @ mine.swapaxes(1, 2)
            gains[i] = _gains(left, self.gradient - mine @ self.pull[i]) - self.cost[i]
        return gains

    def changed(self, out: int | None, into: int | None) -> tuple[Features, Matrix, Any]:
        """Return features without that at the place `out` and with that at the place `into` of `outside`.

        Returned with x there, 0 for the new feature, and the factorised Hessian at this fit.
        """
        features, K = self.at.features, self.gradient.shape[1]
        stay = np.arange(features.size) if out is None else np.delete(np.arange(features.size), out)
        chosen = features[stay] if into is None else np.append(features[stay], self.outside[into])
        order = np.argsort(chosen)
        x = np.zeros((chosen.size, K))
        x[: stay.size] = self.at.x[stay]
        places = (stay[:, None] * K + np.arange(K)).ravel()
        hessian = np.empty((chosen.size * K,) * 2)
        hessian[: places.size, : places.size] = self.hessian[np.ix_(places, places)]
        if into is not None:
            hessian[places.size :, : places.size] = self.cross[into][:, places]
            hessian[: places.size, places.size :] = self.cross[into][:, places].T
            hessian[places.size :, places.size :] = self.own[into]
        whole = (order[:, None] * K + np.arange(K)).ravel()
        return chosen[order].astype(np.intp), x[order], factorised(hessian[np.ix_(whole, whole)])


def factorised(hessian: Matrix) -> Any:
    """Return a Cholesky factor; of a singular matrix that of a larger one, and of what is not finite the diagonal's."""
    diagonal, more = np.diagonal(hessian).copy(), _RIDGE_SHARE
    while more < _LARGEST_RIDGE_SHARE and np.all(np.isfinite(diagonal)):
        hessian.flat[:: hessian.shape[0] + 1] = (1 + more) * diagonal
        try:
            return cho_factor(hessian, check_finite=False)
        except np.linalg.LinAlgError:
            more *= 100.0
    size = np.where((diagonal > 0) & np.isfinite(diagonal), diagonal, 1.0)
    return np.diag(np.sqrt(size)), False


def _solved(factor: Any, right: Matrix) -> Matrix:
    """Return the solution of a factorised system; `cho_solve` without its checks, which take longer than small ones."""
    factor, lower = factor
    if not right.size:
        return right
    return np.asarray(dpotrs(factor, right, lower=lower)[0])


def _inverse(hessian: Matrix) -> Matrix:
    return _solved(factorised(hessian), np.eye(hessian.shape[0]))


def _gains(left: Matrix, gradient: Matrix) -> Vector:
    """½ g'S⁻¹g of several features."""
    step = np.linalg.solve(left, gradient[:, :, None])[:, :, 0]
    return np.asarray(0.5 * np.einsum("ja,ja->j", gradient, step))


def _shifts(blocks: Matrix) -> Vector:
    """Return curvatures for coefficients of all classes shifted alike, which the loss does not see."""
    curvature = np.einsum("jaa->j", blocks) / blocks.shape[1] ** 2
    return np.asarray(np.where(curvature > 0, curvature, 1.0))


def _held(hessian: Matrix, bend: Vector, K: int) -> Matrix:
    """Add a diagonal, and curvature along shifts of all classes; in place."""
    m = hessian.shape[0] // K
    blocks = hessian.reshape(m, K, m, K)
    places = np.arange(m)
    blocks[places, :, places, :] += _shifts(blocks[places, :, places, :])[:, None, None]
    hessian.flat[:: m * K + 1] += bend
    return hessian
