"""The cost of removing a feature and the gain of adding one: second-order estimates around a fit.

At the fit of the features S, with the Hessian H over S and its inverse K = H⁻¹, the second-order model of ψ says

    leaving i out costs           x_i² / (2 K_ii),
    adding j gains                g_j² / (2 s_j),      s_j = H_jj − H_jS K H_Sj,
    swapping i for j gains        (g_j − x_i B_ji/K_ii)² / (2 (s_j + B_ji²/K_ii)) − x_i² / (2 K_ii),      B = H_jS K,

for all i in S and all j outside. Where a feature has several coefficients, numbers become small matrices. For a squared
loss the model is ψ itself and these figures are exact.

**A bound.** Where |ℓ‴| ≤ Mℓ″ (logistic, poisson and gamma have M = 1, squared M = 0), the fit of S with j for i has

    ψ ≥ ψ(S) − x_i e − κ(ρ) c'Hc,      Hc = e·e_i − g_j e_j,      ρ = M max |Xc| ≤ M Σ_l |c_l| max |X_l| ≤ 1,

for any e, with H over S ∪ {j} at the *exact* fit of S and κ(ρ) = (ρ + (1 − ρ) ln(1 − ρ))/ρ², κ(0) = ½. For r = ℓ'(z) +
ℓ″(z) Xc is orthogonal to all features of the new set, hence feasible in the dual problem of its fit, and at the part t
of the way there from ℓ'(z) the curvature 1/ℓ″ of the conjugate has grown by at most 1/(1 − ρt); κ is
∫₀¹ (1 − t)/(1 − ρt) dt. The best e for ρ = 0 gives the estimate above.

**Rounding.** Figures that come from H lose digits with its condition number, and with what is left of a column after
the others: both are measured here, an error term is added to each bound, and where that is large there is no bound.
With near-equal columns in S, K and B come from an orthonormal basis of S instead of H.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import cast

import numpy as np

import levelprox._kernels as _kernels
from levelprox._typing import Features, Mask, Matrix, Vector
from levelprox.objectives import Curved, LinearModel, Model, OneVsRestModel
from levelprox.problem import FeatureProblem
from levelprox.subset.fit import EPS, WELL_CONDITIONED, Fit, by_class

#: Features of a set, up to which a search takes all the steps that it takes for a few.
MANY_FEATURES = 60
STRAIGHT = 1e-6  #: of the typical curvature: with less, second-order estimates say little

_DEPENDENT_SHARE = 1e-13  # of H_jj: the rest of a column that the features of the fit almost span
_RIDGE_SHARE = 1e-12  # of the diagonal of H, for features that depend on each other
_ROUNDING = 2.0**-46  # of a figure that comes from well-conditioned columns
_UNRELIABLE_ERROR = 1e-4  # relative error from which on there is no bound
_LEAST_LENGTH = 2.0**-480  # of a column in a basis: the inverse of its square would overflow, and it counts as zero
_SLOPE_DIGITS = 16  # units in the last place of ℓ', of its terms


def _hessian(objective: Model, fit: Fit) -> Matrix:
    """Return H over the features of the fit; ψ is of all features."""
    known = fit.hessian
    return objective.restrict(fit.features).hessian_of(fit.margins, True) if known is None else known


def _inverse(hessian: Matrix, objective: Curved, ridge: float = _RIDGE_SHARE) -> Matrix:
    """Return K over the features of a fit; of those that depend on each other a pseudo-inverse."""
    if isinstance(objective, OneVsRestModel):
        return _inverse_by_class(hessian, objective.n_outputs)
    if not objective.only_contrasts:
        return _regularised_inverse(hessian, ridge)
    basis = contrasts(objective.n_outputs)
    return of_each_feature(_regularised_inverse(of_each_feature(hessian, basis)), basis.T)


def _inverse_by_class(hessian: Matrix, n_outputs: int) -> Matrix:
    """Return the inverse of H where classes are fitted one by one: H is 0 between them."""
    m, classes = hessian.shape[0] // n_outputs, np.arange(n_outputs)
    inverse = np.zeros((m, n_outputs, m, n_outputs))
    inverse[:, classes, :, classes] = _regularised_inverse(by_class(hessian, n_outputs))
    return inverse.reshape(hessian.shape)


def _pseudo_inverse(matrix: Matrix) -> Matrix:
    """Return that of one symmetric matrix or several; entries out of range, as where curvature underflows, are 0."""
    try:
        return np.asarray(np.linalg.pinv(matrix, hermitian=True), np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(np.nan_to_num(matrix, posinf=0.0, neginf=0.0)), np.float64)


def _regularised_inverse(hessian: Matrix, ridge: float = _RIDGE_SHARE) -> Matrix:
    """In units in which the diagonal is 1: a small unit of a column is not yet dependence on the others.

    Of one matrix, or of several of shape (…, m, m).
    """
    diagonal = np.diagonal(hessian, axis1=-2, axis2=-1)
    unit = 1 / np.sqrt(np.where(diagonal > _LEAST_LENGTH**2, diagonal, 1.0))
    hessian = unit[..., :, None] * ((hessian + hessian.swapaxes(-2, -1)) / 2) * unit[..., None, :]
    own = np.arange(hessian.shape[-1])
    hessian[..., own, own] *= 1 + ridge
    inverse = _pseudo_inverse(hessian)
    return np.asarray(unit[..., :, None] * inverse * unit[..., None, :], np.float64)


def of_each_feature(matrix: Matrix, basis: Matrix) -> Matrix:
    """Return (I ⊗ Q)'M(I ⊗ Q), with Q = `basis` for the coefficients of each feature, without that large matrix."""
    (before, after), m = basis.shape, matrix.shape[0] // basis.shape[0]
    half = (basis.T @ matrix.reshape(m, before, m * before)).reshape(m * after * m, before)
    return np.asarray((half @ basis).reshape(m * after, m * after), np.float64)


def contrasts(n_outputs: int) -> Matrix:
    """Return an orthonormal basis of the coefficients that add up to 0: ψ does not see all classes shifted alike.

    In that direction H is zero, and a ridge would fill its inverse with numbers that drown all others.
    """
    return np.asarray(np.linalg.qr(np.eye(n_outputs) - 1 / n_outputs)[0][:, : n_outputs - 1], np.float64)


def _stiffness(K: Matrix) -> Matrix:
    """Return the inverse of a block of K on its diagonal."""
    if K.size == 1:
        return 1 / K if K[0, 0] > 0 else np.zeros((1, 1))
    return _pseudo_inverse(K)


def condition(hessian: Matrix) -> float:
    """Return the condition number of a Hessian in units in which its diagonal is 1; inf where it is singular."""
    diagonal = np.diagonal(hessian)
    if not diagonal.size:
        return 1.0
    if not np.all(diagonal > 0):
        return math.inf
    unit = 1 / np.sqrt(diagonal)
    values = np.linalg.eigvalsh(unit[:, None] * ((hessian + hessian.T) / 2) * unit)
    return float(values[-1] / values[0]) if values[0] > 0 else math.inf


def _bent(objective: Model, gradient: Matrix, own: Matrix, typical: Vector | None) -> Matrix:
    """Return the diagonal blocks of H, with a typical curvature where ψ is straight and steep.

    As a sigmoid in its middle, or Huber's loss beyond its parabola: there the model has no minimum, and ψ has one.
    """
    curvature = np.einsum("jaa->j", own)
    if typical is None:
        squares = objective.column_magnitudes()[:: objective.n_outputs] ** 2
        mean = float(np.mean(squares[squares > 0])) if np.any(squares > 0) else 1.0
        typical = objective.curvature * squares / mean
    straight = ~(curvature > STRAIGHT * typical) & np.any(gradient != 0, axis=1)
    if not np.any(straight):
        return own
    return np.where(straight[:, None, None], typical[:, None, None] * np.eye(objective.n_outputs), own)


def gap_before_last_step(objective: Model, z: Vector) -> float:
    """Return a bound on ψ − min ψ at margins z where a Newton step p ends at a minimum; inf where that is not shown.

    It does where ℓ' is linear between z and z + Ap for every sample, as on one piece of a piecewise quadratic loss:
    A'ℓ'(z + Ap) = A'ℓ'(z) + A'diag(ℓ''(z))Ap = 0. ψ is convex, so the step lowers it by at most −⟨∇ψ, p⟩.
    """
    if isinstance(objective, OneVsRestModel):
        of_classes = zip(objective.parts, np.ascontiguousarray(z.T), strict=True)
        return math.fsum(gap_before_last_step(part, margins) for part, margins in of_classes)
    if not isinstance(objective, LinearModel) or not objective.convex:
        return math.inf
    gradient, hessian = objective.gradient_of(z), objective.hessian_of(z, True)
    diagonal = np.diagonal(hessian)
    if not (np.all(diagonal > 0) and np.all(np.isfinite(hessian)) and np.all(np.isfinite(gradient))):
        return math.inf
    unit = 1 / np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(unit[:, None] * hessian * unit)
    if np.min(values, initial=1.0) <= WELL_CONDITIONED:
        return math.inf
    step = -unit * (vectors @ ((unit * gradient) @ vectors / values))
    move = objective.moved(step)
    slope, bend, after = objective.slope_of(z), objective.bend_of(z, True), objective.slope_of(z + move)
    at, along = objective.of_samples(z), objective.of_samples(move)
    rounding = _SLOPE_DIGITS * EPS * (np.abs(slope) + bend * (np.abs(at) + np.abs(objective.target)))
    is_linear = bool(np.all(np.abs(after - slope - bend * along) <= rounding))
    return -float(np.sum(gradient * step)) if is_linear else math.inf


def costs(problem: FeatureProblem, fit: Fit) -> Vector:
    """Return what leaving out each feature of a fit costs, inf for unpenalized ones, without a pass over the others."""
    K, n_outputs = inverse_over(problem, fit), problem.n_outputs
    cost = np.full(fit.features.size, np.inf)
    for i in np.flatnonzero(problem.counts(fit.features)):
        mine = slice(i * n_outputs, (i + 1) * n_outputs)
        cost[i] = 0.5 * float(fit.x[mine] @ (_stiffness(K[mine, mine]) @ fit.x[mine]))
    return cost


def inverse_over(problem: FeatureProblem, fit: Fit) -> Matrix:
    """Return the inverse of the Hessian over the features of a fit."""
    assert isinstance(problem.objective, Model)
    return _inverse(_hessian(problem.objective, fit), problem.objective)


def least_costs(problem: FeatureProblem, fit: Fit, magnitudes: Vector, self_concordance: float) -> Vector:
    """Return what leaving out each feature of an exact fit costs at least, inf for unpenalized ones.

    The bound of the module's text with e = −τx_i/K_ii and no j: x_i²/K_ii · (τ − κ(τρ)τ²) for the best of a few τ.
    0 where the features of the fit nearly depend on each other.
    """
    assert isinstance(problem.objective, Model)
    hessian = np.ascontiguousarray(_hessian(problem.objective, fit))
    reach = magnitudes[fit.features].tolist()
    cost = _kernels.least_costs(fit.x.tolist(), hessian, reach, self_concordance)
    return np.where(problem.counts(fit.features), cost, np.inf)


def _inverse_coordinates(basis: Matrix) -> tuple[Matrix, float]:
    """Return the (pseudo-)inverse of the coordinates of columns in an orthonormal basis, and their condition number."""
    length = np.sqrt(np.sum(basis**2, axis=1))
    curved = length > _LEAST_LENGTH
    unit = np.where(curved, 1 / np.where(curved, length, 1.0), 0.0)
    values = np.linalg.svd(unit[:, None] * basis, compute_uv=False)
    inverse = np.linalg.pinv(unit[:, None] * basis, rcond=1e-15) * unit
    full = values.size == basis.shape[0] and values[-1] > 0
    return np.asarray(inverse, np.float64), float(values[0] / values[-1]) if full else math.inf


class SwapEstimates:
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
    own : ndarray of shape (n_features, n_outputs, n_outputs)
        Its diagonal blocks.
    outside : ndarray of bool of shape (n_features,), optional
        The features that may be added: not in the fit, and their columns not zero. By default those that have
        curvature.
    typical : ndarray of shape (n_features,), optional
        A typical curvature of ψ along each feature, for those along which it is straight at the fit.
    basis : ndarray of shape (fit.x.size, rank), optional
        The coordinates of the features of the fit in vectors that are orthonormal for ∇²ψ; `cross` then has columns
        A'∇²F v for these vectors v. Of n_outputs 1.
    noise : ndarray of shape (n_features,), optional
        The relative error of products with each column, besides that of well-conditioned ones: where columns are
        centred whose means are large.
    """

    def __init__(
        self,
        problem: FeatureProblem,
        fit: Fit,
        gradient: Vector,
        cross: Matrix,
        own: Matrix,
        outside: Mask | None = None,
        typical: Vector | None = None,
        basis: Matrix | None = None,
        noise: Vector | None = None,
    ) -> None:
        n_outputs = problem.n_outputs
        self.problem, self.fit, self.n_outputs = problem, fit, n_outputs
        d = problem.n_features
        self.gradient = gradient.reshape(d, n_outputs)
        self.own = _bent(cast(Model, problem.objective), self.gradient, own, typical)
        if basis is None:
            hessian = cross[problem.coordinates(fit.features)]
            conditioned = condition(hessian) if n_outputs == 1 else math.inf
            ridge = 0.0 if conditioned * WELL_CONDITIONED <= 1 else _RIDGE_SHARE
            self.inexactness = (_ROUNDING + EPS * math.sqrt(fit.margins.size) + ridge) * conditioned  # of sums, and K
            self.K = _inverse(hessian, cast(Curved, problem.objective), ridge)
            self.cross, self.B = cross, cross @ self.K
            by_feature = self.B.reshape(d, n_outputs, -1), cross.reshape(d, n_outputs, -1)
            if n_outputs == 1:
                spanned = np.einsum("jas,jbs->jab", *by_feature)
            else:
                spanned = by_feature[0] @ by_feature[1].swapaxes(1, 2)
        else:
            inverse, conditioned = _inverse_coordinates(basis)
            self.inexactness = _ROUNDING * conditioned
            self.K, self.B, self.cross = inverse.T @ inverse, cross @ inverse, cross @ basis.T
            spanned = np.einsum("js,js->j", cross, cross)[:, None, None]
        self.left = self.own - spanned
        self.noise = np.zeros(d) if noise is None else 2 * (noise + np.max(noise[fit.features], initial=0.0))
        if outside is None:
            outside = np.einsum("jaa->j", self.own) > 0
            outside[fit.features] = False
        self.straight = np.flatnonzero(np.any(self.own != own, axis=(1, 2)) & outside)
        self.least_gain = np.zeros(d)  # what a feature gains at least, where that is known
        self.outside = outside
        self.droppable: list[int] = np.flatnonzero(problem.counts(fit.features)).tolist()

    def cost(self, i: int) -> float:
        """Return what leaving out the i-th feature of the fit costs."""
        return self._without(i)[1]

    def additions(self) -> Vector:
        """Return what adding each feature gains; −inf for those in the fit."""
        return np.where(self.outside, np.maximum(self._gain(self.gradient, self.left), self.least_gain), -np.inf)

    def addition_bounds(self, magnitudes: Vector, self_concordance: float) -> Vector:
        """Return what adding each feature gains at most; inf where there is no bound, −inf for those in the fit."""
        bound = np.where(self.outside, np.inf, -np.inf)
        left, (error, j) = self.left[:, 0, 0], self._reliable
        s, g, B = left[j], self.gradient[j, 0], self.B[j]
        step = np.abs(g / s)
        rho = self_concordance * step * (np.abs(B) @ magnitudes[self.fit.features] + magnitudes[j])
        gain = g**2 / s * _kernels.self_concordant_factor(np.ascontiguousarray(rho))
        bound[j] = gain + error[j] * (np.where(np.isfinite(gain), gain, 0.0) + abs(self.fit.psi)) + self._inexact(gain)
        return bound

    def _error(self, left: Vector) -> Vector:
        """Return the relative error of figures about features of whose curvature so much is left."""
        own = self.own[:, 0, 0]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            error = np.where(left > 0, (self.inexactness + self.noise) * own / left, np.inf)
        error[self.straight] = np.inf  # the curvature is not that of ψ
        return np.where(np.isnan(error), np.inf, error)

    def _inexact(self, gain: Vector) -> Vector:
        """Return by how much more may be gained because the fit itself is not exact."""
        gap = self.fit.gap if math.isfinite(self.fit.gap) else 0.0
        gained = np.maximum(np.where(np.isfinite(gain), gain, 0.0), 0.0)
        return gap + 2 * math.sqrt(gap) * np.sqrt(gained + abs(self.fit.psi))

    def gains(self, i: int) -> Vector:
        """Return what swapping the i-th feature of the fit for each other feature gains; −inf for those in the fit."""
        (pull, stiffness), cost = self._without(i)
        across = self.B[:, self._of(i)]
        if self.n_outputs == 1:
            gain = self._gain(self.gradient - across * pull, self.left + (across**2 * stiffness)[:, :, None])
        else:
            across = across.reshape(-1, self.n_outputs, self.n_outputs)
            gain = self._gain(self.gradient - across @ pull, self.left + across @ stiffness @ across.swapaxes(1, 2))
        return np.where(self.outside, np.maximum(gain, self.least_gain), -np.inf) - cost

    def exact_gains(self, i: int) -> Vector:
        """Return what swapping the i-th feature for each other gains at most, for a squared loss; inf: no bound."""
        left = self.left[:, 0, 0] + self.B[:, i] ** 2 * _stiffness(self.K[[i]][:, [i]])[0, 0]
        gain, error = self.gains(i), self._error(left)
        size = np.abs(gain) + 2 * self.cost(i) + abs(self.fit.psi)
        with np.errstate(invalid="ignore"):
            bound = np.where(error <= _UNRELIABLE_ERROR, gain + error * size + self._inexact(size), np.inf)
        return np.where(self.outside, bound, -np.inf)

    def bounds(self, i: int, magnitudes: Vector, self_concordance: float) -> Vector:
        """Return what swapping the i-th feature for each other gains at most at an exact fit; inf: no bound."""
        bound, (error, newcomers) = np.where(self.outside, np.inf, -np.inf), self._reliable
        bound[newcomers] = _kernels.bound_gains(
            i,
            float(self.fit.x[i]),
            np.ascontiguousarray(self.K[i]),
            magnitudes[self.fit.features],
            np.ascontiguousarray(self.B),
            self.gradient.ravel(),
            self.left.ravel(),
            magnitudes,
            error,
            self_concordance,
            self.fit.psi,
            self.fit.gap if math.isfinite(self.fit.gap) else 0.0,
            newcomers,
        )
        return bound

    @cached_property
    def _reliable(self) -> tuple[Vector, Features]:
        """The relative error of figures about each feature, and the newcomers of which figures are reliable."""
        error = self._error(self.left[:, 0, 0])
        return error, np.flatnonzero(self.outside & (error <= _UNRELIABLE_ERROR)).astype(np.int64, copy=False)

    def _of(self, i: int) -> slice:
        """Return the coordinates of the i-th feature of the fit."""
        return slice(i * self.n_outputs, (i + 1) * self.n_outputs)

    def _without(self, i: int) -> tuple[tuple[Vector, Matrix], float]:
        """Return K_ii⁻¹x_i and K_ii⁻¹, and what leaving out the i-th feature costs."""
        mine = self._of(i)
        stiffness = _stiffness(self.K[mine, mine])
        x = self.fit.x[mine]
        pull = stiffness @ x
        return (pull, stiffness), 0.5 * float(x @ pull)

    def _gain(self, gradient: Matrix, left: Matrix) -> Vector:
        """Return ½ g' s⁻¹ g for each feature outside the fit, where the signs allow it."""
        gain = np.full(self.problem.n_features, -np.inf)
        if self.n_outputs == 1:
            slope, s = gradient[:, 0], left[:, 0, 0]
            solid = self.outside & (s > _DEPENDENT_SHARE * self.own[:, 0, 0])
            gain[solid] = slope[solid] ** 2 / (2 * s[solid])
            gain[self.outside & ~solid] = 0.0
            gain[self.outside & self.problem.must_be_nonnegative() & (slope >= 0)] = 0.0
            return gain
        j = np.flatnonzero(self.outside & (np.einsum("jaa->j", self.own) > 0))
        ridge = _DEPENDENT_SHARE * np.einsum("jaa->j", self.own[j])[:, None, None] * np.eye(self.n_outputs)
        step = _solved(left[j] + ridge, gradient[j][:, :, None])[:, :, 0]
        gain[j] = 0.5 * np.einsum("ja,ja->j", gradient[j], step)
        return gain


def _solved(A: Matrix, b: Matrix) -> Matrix:
    """Return A⁻¹b of several matrices; the shortest solutions where one is singular."""
    try:
        return np.asarray(np.linalg.solve(A, b), np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(_pseudo_inverse(A) @ b, np.float64)
