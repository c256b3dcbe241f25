"""What leaving a feature out costs, and what taking one in gains: second-order estimates around a fit.

At the fit of the features S, with the Hessian H over S and its inverse K = H⁻¹, the second-order model of ψ says

    leaving i out costs           x_i² / (2 K_ii),
    taking j in gains             g_j² / (2 s_j),      s_j = H_jj − H_jS K H_Sj,
    exchanging i for j gains      (g_j − x_i B_ji/K_ii)² / (2 (s_j + B_ji²/K_ii)) − x_i² / (2 K_ii),      B = H_jS K,

for all i in S and all j outside. Where a feature has several coefficients, numbers become small matrices. For a squared
loss the model is ψ itself and these figures are exact.

**A bound.** Where |ℓ‴| ≤ Mℓ″ (logistic, poisson and gamma have M = 1, squared M = 0), the fit of S with j for i has

    ψ ≥ ψ(S) − x_i e − ½ c'Hc / (1 − ρ),      Hc = e·e_i − g_j e_j,      ρ = M max |Xc| ≤ M Σ_l |c_l| max |X_l| < 1,

for any e, with H over S ∪ {j} at the *exact* fit of S. For r = ℓ'(z) + ℓ″(z) Xc is orthogonal to all features of the
new set, hence feasible in the dual of its fit, and on the way there from ℓ'(z) the curvature 1/ℓ″ of the conjugate
grows by at most 1/(1 − ρ). The best e for ρ = 0 gives the estimate above. So many exchanges are ruled out untried.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from levelprox.objectives import Model
from levelprox.problem import Problem
from levelprox.refit import Fit

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Features = NDArray[np.intp]

_DEPENDENT = 1e-10  # of H_jj: what is left of a column that the features of the fit all but span
_RIDGE = 1e-12  # of the diagonal of H, for features that depend on each other


def inverse_hessian(part: Model, fit: Fit) -> Matrix:
    """K, over the features of the fit; of those that depend on each other a pseudo-inverse."""
    return _inverse(part.hessian_of(fit.margins, True) if fit.hessian is None else fit.hessian, part)


def _inverse(hessian: Matrix, objective: Model) -> Matrix:
    if not objective.only_contrasts:
        return _regularised_inverse(hessian)
    width = objective.width
    contrasts = np.kron(np.eye(hessian.shape[0] // width), _contrasts(width))
    return np.asarray(contrasts @ _regularised_inverse(contrasts.T @ hessian @ contrasts) @ contrasts.T, np.float64)


def _regularised_inverse(hessian: Matrix) -> Matrix:
    """In units in which the diagonal is 1: a small unit of a column is not yet dependence on the others."""
    diagonal = np.diagonal(hessian)
    unit = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    hessian = unit[:, None] * ((hessian + hessian.T) / 2) * unit
    hessian[np.diag_indices_from(hessian)] *= 1 + _RIDGE
    return np.asarray(unit[:, None] * np.linalg.pinv(hessian, hermitian=True) * unit, np.float64)


def _contrasts(width: int) -> Matrix:
    """An orthonormal basis of the coefficients that add up to 0: ψ does not see all classes shifted alike.

    In that direction H is zero, and a ridge would fill its inverse with numbers that drown all others.
    """
    return np.asarray(np.linalg.qr(np.eye(width) - 1 / width)[0][:, : width - 1], np.float64)


def _stiffness(K: Matrix) -> Matrix:
    """The inverse of a block of K on its diagonal."""
    if K.size == 1:
        return 1 / K if K[0, 0] > 0 else np.zeros((1, 1))
    return np.asarray(np.linalg.pinv(K, hermitian=True), np.float64)


def _bent(objective: Model, gradient: Matrix, own: Matrix) -> Matrix:
    """The diagonal blocks of H, with a typical curvature where ψ is straight and steep.

    As a sigmoid in its middle, or a smoothed hinge beyond its bend: there the model has no minimum, and ψ has one.
    """
    straight = ~(np.einsum("jaa->j", own) > 0) & np.any(gradient != 0, axis=1)
    if not np.any(straight):
        return own
    squares = objective.column_magnitudes()[:: objective.width] ** 2
    typical = objective.curvature * squares / float(np.mean(squares[squares > 0]))
    return np.where(straight[:, None, None], typical[:, None, None] * np.eye(objective.width), own)


def costs(problem: Problem, fit: Fit) -> Vector:
    """What leaving out each feature of a fit costs, the exempt ones infinitely much; no pass over the others."""
    assert isinstance(problem.objective, Model)
    K, width = inverse_hessian(problem.objective.restrict(fit.features), fit), problem.width
    cost = np.full(fit.features.size, np.inf)
    for i in np.flatnonzero(np.ones(cost.size) if problem.weights is None else problem.weights[fit.features]):
        mine = slice(i * width, (i + 1) * width)
        cost[i] = 0.5 * float(fit.x[mine] @ (_stiffness(K[mine, mine]) @ fit.x[mine]))
    return cost


def least_costs(problem: Problem, fit: Fit, magnitudes: Vector, concordance: float) -> Vector:
    """What leaving out each feature of an exact fit costs at least, the exempt ones infinitely much.

    The bound of the module's text with e = −τx_i/K_ii and no j: x_i²/(2K_ii) · (2τ − τ²/(1 − τρ)) for the best τ.
    """
    assert isinstance(problem.objective, Model)
    K = inverse_hessian(problem.objective.restrict(fit.features), fit)
    own = np.diagonal(K)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = concordance * np.abs(fit.x) * (np.abs(K) @ magnitudes[fit.features]) / own
        u = 1 / np.sqrt(1 + 2 * rho)
        tau = np.where(rho > 1e-8, (1 - u) / rho, 1.0)
        cost = np.where(own > 0, fit.x**2 / (2 * own) * tau * (2 - tau / u), 0.0)
    return cost if problem.weights is None else np.where(problem.weights[fit.features] > 0, cost, np.inf)


class Exchange:
    """Estimates at a fit, for all features outside it at once.

    Parameters
    ----------
    problem : Problem
        ψ, weights and signs; a feature of weight 0 is not to be left out.
    fit : Fit
    gradient : ndarray of shape (d,)
        ∇ψ there.
    cross : ndarray of shape (d, fit.x.size)
        The columns of ∇²ψ there that belong to the fit.
    own : ndarray of shape (n_features, width, width)
        Its diagonal blocks.
    """

    def __init__(self, problem: Problem, fit: Fit, gradient: Vector, cross: Matrix, own: Matrix) -> None:
        width = problem.width
        assert isinstance(problem.objective, Model)
        self.problem, self.fit, self.width = problem, fit, width
        self.K = _inverse(cross[problem.coordinates(fit.features)], problem.objective)
        self.cross, self.B = cross, cross @ self.K
        d = problem.n_features
        self.gradient = gradient.reshape(d, width)
        self.own = _bent(problem.objective, self.gradient, own)
        self.left = self.own - np.einsum("jas,jbs->jab", self.B.reshape(d, width, -1), cross.reshape(d, width, -1))
        self.outside = np.einsum("jaa->j", self.own) > 0
        self.outside[fit.features] = False
        exempt = problem.weights is not None and problem.weights[fit.features] == 0
        self.droppable: list[int] = np.flatnonzero(~np.broadcast_to(exempt, fit.features.shape)).tolist()

    def cost(self, i: int) -> float:
        """What leaving out the i-th feature of the fit costs."""
        return self._without(i)[1]

    def additions(self) -> Vector:
        """What taking in each feature gains; −inf for those in the fit."""
        return self._gain(self.gradient, self.left)

    def gains(self, i: int) -> Vector:
        """What exchanging the i-th feature of the fit for each other feature gains; −inf for those in the fit."""
        (pull, stiffness), cost = self._without(i)
        across = self.B[:, self._of(i)]
        if self.width == 1:
            return self._gain(self.gradient - across * pull, self.left + (across**2 * stiffness)[:, :, None]) - cost
        across = across.reshape(-1, self.width, self.width)
        return self._gain(self.gradient - across @ pull, self.left + across @ stiffness @ across.swapaxes(1, 2)) - cost

    def unclear(self, i: int) -> NDArray[np.bool_]:
        """The features that the fit without its i-th one all but spans: there is no telling what they gain."""
        if self.width > 1:
            return np.asarray(self.outside, np.bool_)
        left = self.left[:, 0, 0] + self.B[:, i] ** 2 * _stiffness(self.K[[i]][:, [i]])[0, 0]
        spanned: NDArray[np.bool_] = self.outside & (left <= _DEPENDENT * self.own[:, 0, 0])
        return spanned

    def bounds(self, i: int, magnitudes: Vector, concordance: float) -> Vector:
        """What exchanging the i-th feature for each other can gain at most, where the fit is exact; inf: no telling."""
        bound = np.where(self.outside, np.inf, -np.inf)
        left = self.left[:, 0, 0]
        j = np.flatnonzero(self.outside & (left > _DEPENDENT * self.own[:, 0, 0]))
        s, g, B, K, x = left[j], self.gradient[j, 0], self.B[j], self.K, self.fit.x[i]
        inside, reach = magnitudes[self.fit.features], magnitudes[j]
        own, across = K[i, i] + B[:, i] ** 2 / s, -B[:, i] / s  # of the inverse of H over S and j
        best = (g * across - x) / own
        for tau in (1.0, 0.5, 0.25) if concordance > 0 else (1.0,):
            e = tau * best
            step = np.outer(e, K[i]) + (((e * B[:, i] + g) / s)[:, None] * B)
            rho = concordance * (np.abs(step) @ inside + np.abs((e * B[:, i] + g) / s) * reach)
            growth = e**2 * own - 2 * e * g * across + g**2 / s
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = np.where(rho < 1, x * e + growth / (2 * (1 - rho)), np.inf)
            bound[j] = np.minimum(bound[j], gain)
        return bound

    def _of(self, i: int) -> slice:
        """The coordinates of the i-th feature of the fit."""
        return slice(i * self.width, (i + 1) * self.width)

    def _without(self, i: int) -> tuple[tuple[Vector, Matrix], float]:
        """K_ii⁻¹x_i and K_ii⁻¹, and what leaving out the i-th feature costs."""
        mine = self._of(i)
        stiffness = _stiffness(self.K[mine, mine])
        x = self.fit.x[mine]
        pull = stiffness @ x
        return (pull, stiffness), 0.5 * float(x @ pull)

    def _gain(self, gradient: Matrix, left: Matrix) -> Vector:
        """½ g' s⁻¹ g for each feature outside the fit, where the signs allow it."""
        gain = np.full(self.problem.n_features, -np.inf)
        if self.width == 1:
            slope, s = gradient[:, 0], left[:, 0, 0]
            solid = self.outside & (s > _DEPENDENT * self.own[:, 0, 0])
            gain[solid] = slope[solid] ** 2 / (2 * s[solid])
            gain[self.outside & ~solid] = 0.0
            gain[self.outside & self.problem.must_be_nonnegative() & (slope >= 0)] = 0.0
            return gain
        j = np.flatnonzero(self.outside)
        ridge = _DEPENDENT * np.einsum("jaa->j", self.own[j])[:, None, None] * np.eye(self.width)
        step = np.linalg.solve(left[j] + ridge, gradient[j][:, :, None])[:, :, 0]
        gain[j] = 0.5 * np.einsum("ja,ja->j", gradient[j], step)
        return gain
