"""An upper bound of the decrease of ψ by feasible moves near x.

With residuals ρ = ∇ψ + y ∂g, y ≥ 0 and slack s = η − g(x), every move d with g(x + d) ≤ η has

    ψ(x) − ψ(x + d)  ≤  ys − ⟨ρ, d⟩ − ½ d'Md  ≤  ys + ½ ρ'M⁻¹ρ,      M = ∇²ψ + y∇²g,

up to third order in d. M is formed over the features F that may move: those that are not zero or unpenalized, zeros
with a residual, and zeros that the step of the others comes near to freeing: |ψ'_j| stays below yλω_j as long as the
gain stays below (yλω_j − |ψ'_j|)²/(2H_jj), by Cauchy and Schwarz. Where M is not positive definite, it is along the
level.

Where the curvature of a loss changes, M is formed from the least curvature that each sample has within the reach of
the step: moves with d'Hd ≤ r² change a margin by at most r/√(s_i ℓ''_i). For convex losses and constraints the bound
then holds for all moves; where φ is concave it holds near x. For several classes, and for data outside memory, the
curvature within the step is taken to be at least half of that at x.

For losses with kinks, slopes v_i between those of the two lines of each sample give lower bounds of ψ: by linear
programming duality, over all moves within the convex set inside {g ≤ η} that touches g at x (`surrogate.majorise`),

    ψ(x) − ψ(x + d)  ≤  ψ(x) − Σ s_i v_i (o_i − b_i) − min ⟨G, x + d⟩,      G = A'(sv),

the minimum over Σ_j ω_j φ'(|x_j|) |x_j + d_j| ≤ τ, and d that change margins by no more than ten typical residuals.

No move gains more than ψ(x) − inf ψ: that is the bound where no other is found, or none in time.
"""

from __future__ import annotations

import math
import time
from typing import cast

import numpy as np

from levelprox._typing import Features, Vector
from levelprox.certificate.residual import LevelPart, pull
from levelprox.objectives import Curved, LinearModel, MultinomialModel, Objective, OneVsRestModel
from levelprox.problem import Problem

_EPS = float(np.finfo(np.float64).eps)
_ROUNDING = 16 * _EPS  # of what is summed
_MOST_FEATURES = 2000
_WORK_PER_SECOND = 5e8  # multiplications
_OVERHEAD = 0.02  # seconds of a measurement of the speed
_MOST_DECOMPOSED = 1000  # coordinates: more eigenvectors take too long without a check of the time
_DECOMPOSITION = 30.0  # times m³ multiplications: those of eigenvectors of m coordinates
_ROUNDS = 5
_KEPT = 0.9  # of the curvature of a sample: where less may be left within reach, none is counted on
_ALLOWED = 0.5  # of the curvature, where that of single samples is not known
_WELL = 1e-6  # pivots of a matrix with unit diagonal: solved as it is
_SMALLEST = 1e-13  # eigenvalues of such a matrix, for each coordinate, that are rounding
_TINY = float(np.finfo(np.float64).tiny)
_FAR = 10.0  # typical residuals, by which a move may change margins
_MENDINGS = 5


def possible_gain(
    problem: Problem,
    x: Vector,
    psi: float,
    gradient: Vector,
    y: float,
    slopes: Vector | None = None,
    seconds: float = math.inf,
    part: Objective | None = None,
) -> float | None:
    """Return an upper bound of ψ(x) − ψ(x + d) over feasible moves d near x.

    Parameters
    ----------
    problem : Problem
    x : ndarray of shape (d,)
    psi : float
        ψ(x).
    gradient : ndarray of shape (d,)
        ∇ψ(x), or the subgradient.
    y : float
        The multiplier.
    slopes : ndarray of shape (n,), optional
        Slopes of the samples that make the subgradient, where the loss has kinks.
    seconds : float
        Time left; what would take longer is not tried.
    part : LinearModel, optional
        ψ over the nonzero and the unpenalized features of x, where it is at hand.

    Returns
    -------
    float or None
        None where nothing is known of the curvature of ψ, nor of its infimum.
    """
    objective = problem.objective
    rounding = _rounding(problem, x, psi, part)
    most = psi - objective.infimum + rounding
    bound = math.inf
    if isinstance(objective, LinearModel) and not objective.smooth:
        if slopes is not None:
            bound = _by_duality(problem, objective, x, psi, y, slopes) + rounding
    elif objective.curved and problem.g(x) < math.inf:
        with np.errstate(over="ignore", invalid="ignore"):  # in units beyond 1e±150 no bound is found
            bound = _Model(problem, x, psi, gradient, y, time.monotonic() + seconds, part).bound() + rounding
    least = most if math.isnan(bound) else min(most, bound)
    return max(least, 0.0) if math.isfinite(least) else None


def _rounding(problem: Problem, x: Vector, psi: float, part: Objective | None) -> float:
    """Return the rounding error of ψ(x): that of margins counts with the slopes of their losses."""
    objective = problem.objective
    if isinstance(part, LinearModel):
        terms = _terms(part, x[features_of(problem, x)])
    elif isinstance(objective, LinearModel):
        terms = _terms(objective, x)
    elif isinstance(objective, OneVsRestModel):
        by_class = x.reshape(-1, objective.n_outputs).T
        terms = sum(_terms(part, column) for part, column in zip(objective.parts, by_class, strict=True))
    elif isinstance(objective, MultinomialModel):  # whose slopes are at most 1
        by_class = x.reshape(-1, objective.n_outputs).T
        terms = sum(float(np.sum(objective.share * objective.design.row_magnitudes(column))) for column in by_class)
    else:
        terms = 0.0
    return _ROUNDING * (abs(psi) + terms)


def features_of(problem: Problem, x: Vector) -> Features:
    """Return the nonzero and the unpenalized features of x."""
    return np.union1d(problem.support(x), problem.unpenalized).astype(np.intp)


def _terms(model: LinearModel, x: Vector) -> float:
    """Return the terms that margins are summed from, with the slopes of their losses."""
    slopes = np.abs(model.slope_of(model.margins(x)))
    return float(np.sum(slopes * model.margin_magnitudes(x)))


class _Model:
    """The second-order model of the Lagrangian over the features that may move."""

    def __init__(
        self,
        problem: Problem,
        x: Vector,
        psi: float,
        gradient: Vector,
        y: float,
        deadline: float,
        part: Objective | None = None,
    ) -> None:
        self.objective = cast(Curved, problem.objective)
        scale = self.objective.feature_scale
        if scale is not None and np.any(np.isinf(scale.size)):  # the gradient of a column of zeros is rounding
            gradient = np.where(np.repeat(np.isinf(scale.size), problem.n_outputs), 0.0, gradient)
        self.problem, self.x, self.psi, self.gradient = problem, x, psi, gradient
        self.y, self.deadline, self.speed, self.part = y, deadline, _WORK_PER_SECOND, part
        self.slack = max(problem.level - problem.g(x), 0.0)
        weights = np.ones(problem.n_features) if problem.weights is None else problem.weights
        # How much of the price a feature at zero has left before it moves; negative where it does already.
        self.margin = y * problem.constraint.lam * weights - pull(problem, gradient)
        self.margin[problem.support(x)] = -math.inf
        self.curvatures = self._curvatures()

    def _curvatures(self) -> Vector:
        """Return an upper bound of the curvature of ψ along every feature, or about that."""
        scale, curvature = self.objective.feature_scale, self.objective.curvature
        if isinstance(self.objective, LinearModel) and not math.isfinite(self.objective.loss.smoothness):
            model = self.objective
            bend = model.loss.curvature(model.of_samples(model.margins(self.x)), model.target) * model.target.size
            curvature *= float(np.max(bend)) / (
                model.loss.typical_curvature(model.of_samples(model.origin), model.target, model.sample_weight) or 1.0
            )
        sizes = np.ones(self.problem.n_features) if scale is None else scale.magnitude**2
        curvatures = (1 if self.problem.n_outputs == 1 else 4) * curvature * sizes
        ridge = getattr(self.objective, "ridge", None)
        return np.asarray(curvatures if ridge is None else curvatures + ridge.curvatures())

    def bound(self) -> float:
        """Return ys + ½ρ'M⁻¹ρ with all features that may move; inf where that is not found."""
        held = np.zeros(self.problem.n_features, np.bool_)
        if self.problem.n_outputs == 1:
            held = self.problem.must_be_nonnegative() & (self.x == 0) & (self.margin >= 0)
        moves = self.margin < 0
        unpenalized = self.problem.unpenalized
        moves[unpenalized] = True
        moves &= ~held
        for _ in range(_ROUNDS):
            gain = self._over(np.flatnonzero(moves).astype(np.intp))
            if not math.isfinite(gain):
                return math.inf
            freed = ~moves & (np.maximum(self.margin, 0) ** 2 <= 2 * gain * self.curvatures)
            if not np.any(freed):
                return self.y * self.slack + gain
            moves |= freed
        return math.inf

    def _over(self, F: Features) -> float:
        """Return ½ρ'M⁻¹ρ over some features; inf where M is not positive definite, or takes too long."""
        problem, places = self.problem, self.problem.coordinates(F)
        rho = self._residuals(F)
        if not np.any(rho):
            return 0.0
        work = float(self.objective.n_margins) * places.size**2
        if places.size > _MOST_FEATURES or not self._is_time_for(work + 2.0 * places.size**3):
            return math.inf
        began = time.monotonic()
        direction = np.zeros(problem.dimension)
        direction[places] = -rho
        part = LevelPart(problem, self.x, F, direction)
        at_hand = isinstance(self.part, LinearModel) and np.array_equal(F, features_of(problem, self.x))
        objective = cast(Curved, self.part if at_hand else self.objective.restrict(F))
        margins = objective.margins(self.x[places])
        if not isinstance(objective, LinearModel):
            hessian = objective.hessian_of(margins, False)
            allowed = 1.0 if _is_parabola(objective) else _ALLOWED
            return self._half_square(part, allowed * hessian, rho)
        bend = objective.bend_of(margins, False)
        hessian = objective.bent_by_ridge(objective.design.gram(bend))
        taken = max(time.monotonic() - began, _OVERHEAD)
        self.speed = min(self.speed, (work + _OVERHEAD * _WORK_PER_SECOND) / taken)  # under load it is less
        gain = self._half_square(part, hessian, rho)
        if objective.loss.constant_curvature:
            return gain
        for _ in range(_ROUNDS):
            if not math.isfinite(gain) or not self._is_time_for(work):
                return math.inf
            reach = 2 * gain
            gain = self._half_square(part, _least_hessian(objective, margins, bend, hessian, reach), rho)
            if gain <= reach:
                return gain
        return math.inf

    def _is_time_for(self, work: float) -> bool:
        """Return whether there is time for so many multiplications."""
        return work / self.speed <= self.deadline - time.monotonic()

    def _inverse_square(self, matrix: Vector, force: Vector, error: Vector) -> float:
        work = _DECOMPOSITION * force.size**3
        decompose = force.size <= _MOST_DECOMPOSED and self._is_time_for(work)
        return _inverse_square(matrix, force, error, decompose)

    def _residuals(self, F: Features) -> Vector:
        """Return ρ over some features: 0 at zeros that stay there."""
        problem, part = self.problem, LevelPart(self.problem, self.x, F)
        shape = (-1, problem.n_outputs)
        rho = self.gradient[problem.coordinates(F)].reshape(shape) + self.y * part.slopes.reshape(shape)
        size = problem.sizes(np.ascontiguousarray(rho.ravel()))
        over = np.maximum(size - self.y * problem.constraint.lam * part.weights, 0.0)
        left = np.where(part.t > 0, 1.0, over / np.where(size > 0, size, 1.0))
        return np.asarray((left[:, None] * rho).ravel())

    def _half_square(self, part: LevelPart, hessian: Vector, rho: Vector) -> float:
        """Return ½ρ'M⁻¹ρ with M = H + y∇²g; along the level alone where M bends down across it."""
        diagonal = np.diagonal(hessian)
        if not np.all(np.isfinite(hessian)) or np.any((diagonal <= 0) & (rho != 0)):
            return math.inf
        unit = np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)
        matrix = part.bent(hessian, self.y) * unit * unit[:, None]
        force, normal = rho * unit, part.slopes * unit
        error = np.full(unit.size, _ROUNDING * math.sqrt(2 * abs(self.psi)))
        found = self._inverse_square(matrix, force, error)
        square = float(np.sum(normal * normal))
        if math.isfinite(found) or not (self.y > 0 and square > 0 and self._is_binding(part, diagonal)):
            return found / 2
        across = abs(float(np.sum(normal * force))) / square  # what the multiplier is off by
        turned, (force,) = _turned(matrix, normal), _reflected(normal, force)
        along = self._inverse_square(turned, force[1:], np.full(force.size - 1, _length(error)))
        return 2 * across * self.slack + along / 2 if across < self.y else math.inf

    def _is_binding(self, part: LevelPart, diagonal: Vector) -> bool:
        """Return whether the slack would take no feature far whose price falls faster than ψ bends."""
        problem = self.problem
        bends = self.y * part.weights * problem.constraint.curvature(part.t)
        falling = bends > diagonal.reshape(-1, problem.n_outputs).min(axis=1) / 2
        if math.isinf(problem.constraint.cap) or not np.any(falling):
            return True
        room = part.weights * (problem.constraint.cap - problem.constraint.phi(part.t))
        return bool(2 * self.slack <= np.min(room[falling]))


def _is_parabola(objective: Curved) -> bool:
    loss = getattr(objective, "loss", None)
    return bool(getattr(loss, "constant_curvature", False))


def _least_hessian(model: LinearModel, margins: Vector, bend: Vector, hessian: Vector, reach: float) -> Vector:
    """Return the Hessian with no more curvature of any sample than it has wherever ½d'Hd ≤ `reach`."""
    with np.errstate(divide="ignore", over="ignore"):
        step = np.where(bend > 0, np.sqrt(2 * reach / (_KEPT * np.abs(bend))), 0.0)
    ends = [model.bend_of(np.nan_to_num(model.of_samples(margins) + side * step), False) for side in (1.0, -1.0)]
    kept = np.minimum(*ends) >= _KEPT * bend
    kept &= bend >= 0
    if np.all(kept):
        return _KEPT * hessian
    lowest = -model.loss.weak_convexity * model.share
    return model.bent_by_ridge(model.design.gram(np.where(kept, _KEPT * bend, np.minimum(lowest, 0.0))))


def _reflected(normal: Vector, *rows: Vector) -> list[Vector]:
    """Return vectors, or rows of a matrix, after the reflection that maps `normal` to the first axis."""
    mirror = normal / _length(normal)
    mirror[0] += math.copysign(1.0, mirror[0])
    factor = 2 / float(np.sum(mirror * mirror))
    return [row - factor * np.multiply.outer(row @ mirror, mirror) for row in rows]


def _turned(matrix: Vector, normal: Vector) -> Vector:
    """Return a symmetric matrix in an orthonormal basis of what is orthogonal to `normal`."""
    (half,) = _reflected(normal, matrix)
    (whole,) = _reflected(normal, half.T)
    inner = whole[1:, 1:]
    return np.asarray((inner + inner.T) / 2, np.float64)


def _inverse_square(matrix: Vector, force: Vector, error: Vector, decompose: bool = True) -> float:
    """Return force' matrix⁻¹ force; inf where the matrix is not positive definite.

    Along directions without curvature, up to rounding, a force that is rounding itself counts for nothing. That takes
    eigenvectors: without `decompose`, the result is inf where curvatures are that small.
    """
    if not force.size:
        return 0.0
    if not np.all(np.isfinite(matrix)):
        return math.inf
    factor = _cholesky(matrix)
    if factor is not None and float(np.min(np.diagonal(factor))) ** 2 > _WELL:
        half = np.linalg.solve(factor, force)
        return float(np.sum(half * half))
    # With more than rounding added to its diagonal, a matrix that is not positive definite bends down somewhere.
    size = max(float(np.max(np.sum(np.abs(matrix), axis=1))), 1.0)
    if not decompose or _cholesky(matrix + _SMALLEST * force.size * size * np.eye(force.size)) is None:
        return math.inf
    values, vectors = np.linalg.eigh(matrix)
    smallest = _SMALLEST * values.size * max(float(values[-1]), 1.0)
    if values[0] < -smallest:
        return math.inf
    along, flat = np.abs(vectors.T @ force), values <= smallest
    if np.any(along[flat] > (np.abs(vectors.T) @ error)[flat]):
        return math.inf
    bends = ~flat
    return float(np.sum(along[bends] ** 2 / (values[bends] - smallest / 2)))


def _cholesky(matrix: Vector) -> Vector | None:
    try:
        return np.asarray(np.linalg.cholesky(matrix), np.float64)
    except np.linalg.LinAlgError:
        return None


def _length(v: Vector) -> float:
    return math.sqrt(float(np.sum(v * v)))


def _by_duality(problem: Problem, model: LinearModel, x: Vector, psi: float, y: float, slopes: Vector) -> float:
    """Return ψ(x) less the lower bound of ψ that slopes near the given ones show, over the convex set near x."""
    price = LevelPart(problem, x, np.arange(problem.n_features)).slope
    tau = max(problem.level - problem.g(x), 0.0) + float(np.sum(price * np.abs(x)))
    support = np.union1d(problem.support(x), problem.unpenalized).astype(np.intp)
    v = _mended(model, support, slopes, -y * (price * np.sign(x))[support])
    share, offset = model.share, 0.0 if model.offset is None else model.offset
    G = model.design.rmatvec(share * v)
    draw = np.maximum(pull(problem, G), np.where(x != 0, np.abs(G), 0.0))
    typical = float(np.sum(share * np.abs(model.margins(x) - model.target)))
    reach = np.abs(x) + _FAR * typical / (model.feature_scale.magnitude * model.feature_scale.typical)
    return psi - float(np.sum(share * v * (offset - model.target))) + _most_drawn(draw, price, reach, tau)


def _most_drawn(draw: Vector, price: Vector, reach: Vector, tau: float) -> float:
    """Return max ⟨draw, t⟩ s.t. ⟨price, t⟩ ≤ τ, 0 ≤ t ≤ reach: those that draw most for their price go first."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        order = np.argsort(-np.where(draw > 0, draw / price, 0.0), kind="stable")
        each = (price * reach)[order]
        cost = np.cumsum(each)
        paid = np.where(cost <= tau, 1.0, np.clip(1 - (cost - tau) / np.maximum(each, _TINY), 0.0, 1.0))
    return float(np.sum(paid * draw[order] * reach[order]))


def _mended(model: LinearModel, features: Features, slopes: Vector, wanted: Vector) -> Vector:
    """Return slopes within their bounds near the given ones, with a gradient nearer to the requested one."""
    low, high = model.loss.subdifferential(model.target, model.target)
    part, share = model.design.view(features), model.share
    v = best = np.clip(slopes, low, high)
    least = math.inf
    for _ in range(_MENDINGS):
        off = part.rmatvec(share * v) - wanted
        unit = 1 / np.sqrt(np.maximum(part.column_squares(share), _TINY))
        if not _length(off * unit) < least:
            break
        best, least = v, _length(off * unit)
        give = np.minimum(v - low, high - v)  # those at a bound stay there
        gram = part.gram(share * give) * unit * unit[:, None]
        step = np.linalg.lstsq(gram, off * unit, rcond=_SMALLEST)[0] * unit
        v = np.clip(v - give * part.matvec(step), low, high)
    return best
