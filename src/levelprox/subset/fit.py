"""A fit over a few features: the minimum of ψ, a bound of its error, and the rounding of ψ.

With signs, the active-set method of Lawson and Hanson runs over fits without signs (`fit_with_signs`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

import levelprox._kernels as _kernels
from levelprox._kernels import FitEnd
from levelprox._typing import Features, Index, Mask, Matrix, Vector
from levelprox.objectives import LinearModel, Model, MultinomialModel, OneVsRestModel

if TYPE_CHECKING:
    from levelprox.subset.refit import Refits

#: Relative to ψ: a difference that counts where two fits over the same features are compared.
CLOSE_SHARE = 1e-8
EPS = float(np.finfo(np.float64).eps)
NOISE_SHARE = 32 * EPS  # of the absolute sum of a component of the gradient
LAST_DIGITS_SHARE = 4 * EPS  # of ψ
NEWTON_STEPS = 40
WELL_CONDITIONED = 1e-7  # least eigenvalue of a Hessian with a unit diagonal: fits on Gram matrices are exact enough
_SLOPE_CORRECTIONS = 2
#: Of ψ: a predicted reduction below it is rounding.
PREDICTED_SHARE = 1e-12
#: Steps that only add digits.
LAST_STEPS = 3
_LAST_MARGIN_CHANGE = 1e-3  # at most, of a step that only adds digits
_COEFFICIENT_ROUNDING_SHARE = 1e-7  # of ψ: rounding of coefficients beyond which shorter ones are tried
_TIE_SHARE = 1e-10  # of ψ: fits that differ by less are equal


@dataclass(frozen=True, eq=False)
class Fit:
    """ψ minimised over a few features.

    Attributes
    ----------
    features : ndarray of int
        The features, sorted, unpenalized ones included.
    x : ndarray
        Their coefficients.
    psi : float
    margins : ndarray
    hessian : ndarray, optional
        ∇²ψ over these features, where it is at hand.
    gap : float
        ψ exceeds the minimum over these features by at most this much; inf where no bound is known.
    resolution : float
        By how much the rounding of margins may change ψ.
    """

    features: Features
    x: Vector
    psi: float
    margins: Vector
    hessian: Matrix | None = None
    gap: float = math.inf
    resolution: float = 0.0

    @property
    def lower_bound(self) -> float:
        """What ψ over these features is at least; −inf where no bound is known."""
        return self.psi - self.gap - self.resolution


def lowest(fits: Iterable[Fit | None]) -> Fit | None:
    """Return the fit with the least ψ, of equal ones the first: where ψ counts errors, rounding must not choose."""
    best: Fit | None = None
    for fit in fits:
        if fit is not None and (best is None or fit.psi < best.psi - _TIE_SHARE * abs(best.psi)):
            best = fit
    return best


def known_as_arrays(known: dict[bytes, float]) -> tuple[Features, Index, Vector]:
    """Return ψ of the sets that were tried as arrays: their features one after another, their sizes in bytes, ψ."""
    lengths = np.array([len(one) for one in known], np.int64)
    return np.frombuffer(b"".join(known), np.intp), lengths, np.array(list(known.values()), np.float64)


def known_of_arrays(arrays: tuple[Features, Index, Vector]) -> dict[bytes, float]:
    """Return what `known_as_arrays` was given."""
    features, lengths, values = arrays
    ends, data = np.cumsum(lengths).tolist(), features.tobytes()
    return {data[a:b]: psi for a, b, psi in zip([0, *ends[:-1]], ends, values.tolist(), strict=True)} if ends else {}


def begun_at(near: Fit, features: Features, n_outputs: int) -> Vector:
    """Return the coefficients of another fit, for the features that both have; 0 for the others."""
    x = np.zeros((features.size, n_outputs))
    places = np.searchsorted(near.features, features)
    places[places == near.features.size] = 0
    shared = near.features[places] == features if near.features.size else np.zeros(features.size, np.bool_)
    x[shared] = near.x.reshape(-1, n_outputs)[places[shared]]
    return x.ravel()


def lower_of(fit: Fit, other: Fit) -> Fit:
    """Return the lower of two fits over the same features, with the better of their bounds.

    The other is the lower one only if it is so beyond its rounding.
    """
    lower = other if other.psi < fit.psi - max(other.resolution - fit.resolution, 0.0) else fit
    bound = max(fit.lower_bound, other.lower_bound)
    return replace(lower, gap=min(lower.gap, max(lower.psi - bound, 0.0)))


def better_known(fit: Fit | None, other: Fit) -> Fit:
    """Return the lower of two fits over the same features, with the better of their bounds."""
    if fit is None or other.psi < fit.psi - CLOSE_SHARE * abs(fit.psi):
        return other
    return replace(fit, gap=min(fit.gap, max(fit.psi - other.lower_bound, 0.0)))


def joined(fits: list[Fit]) -> Fit:
    """Join the fits of all classes, each with a coefficient of every feature, as one."""
    m, K = fits[0].features.size, len(fits)
    hessian = np.zeros((m, K, m, K))
    for k, fit in enumerate(fits):
        hessian[:, k, :, k] = fit.hessian
    x, margins = np.stack([fit.x for fit in fits], axis=1), np.stack([fit.margins for fit in fits]).T
    psi, gap, resolution = (math.fsum(getattr(fit, name) for fit in fits) for name in ("psi", "gap", "resolution"))
    return Fit(fits[0].features, x.ravel(), psi, margins, hessian.reshape(m * K, m * K), gap, resolution)


def rounding_of_loss(objective: Model, z: Vector) -> float:
    """Return Σ_i s_i |ℓ'_i z_i| / Σ s: what the last digits of margins do to ψ is a small part of it."""
    return float(np.sum(np.abs(objective.slope_of(z) * objective.of_samples(z))))


def rounding_of_margins(objective: Model, x: Vector, z: Vector) -> float:
    """Return what an ulp of the terms of each margin does to ψ: Σ_i s_i |ℓ'_i| Σ_j |a_ij x_j| ε / Σ s."""
    design, by_class = objective.design, x.reshape(-1, objective.n_outputs).T
    size = np.stack([design.row_magnitudes(np.ascontiguousarray(row)) for row in by_class], axis=1)
    slope = np.abs(objective.slope_of(z).reshape(size.shape))
    if not objective.smooth:  # next to a kink, the slopes on both of its sides
        change = NOISE_SHARE * size.reshape(z.shape)  # a loss with kinks has no ridge
        for sign in -1, 1:
            slope = np.maximum(slope, np.abs(objective.slope_of(z + sign * change).reshape(size.shape)))
    return EPS * float(np.sum(slope * size))


def rounding_of_coefficients(objective: Model, noise: Vector | None, x: Vector, z: Vector) -> float:
    """Return what rounding of coefficients does to ψ where columns are centred: those of the data multiply means.

    `noise` is that of each column. All margins are off by the same number e: Σ_i s_i (|ℓ'_i| e + ℓ''_i e²/2) / Σ s.
    """
    if noise is None:
        return 0.0
    error = noise @ np.abs(x.reshape(noise.size, -1))
    change = float(np.sum(np.abs(objective.slope_of(z)) * error))
    if isinstance(objective, LinearModel) and objective.smooth:
        change += 0.5 * float(np.sum(np.abs(objective.bend_of(z, True)))) * float(error[0]) ** 2
    return change


def by_class(hessian: Matrix, n_outputs: int) -> Matrix:
    """Return the part of H that belongs to each class, of shape (n_outputs, m, m): where it is 0 between classes."""
    m, classes = hessian.shape[0] // n_outputs, np.arange(n_outputs)
    return np.asarray(hessian.reshape(m, n_outputs, m, n_outputs)[:, classes, :, classes])


def gap_bound(objective: Model, psi: float, z: Vector, hessian: Matrix) -> tuple[float, float]:
    """Return a bound on what is left to gain at margins z, and the rounding of ψ; inf where no bound is known.

    The bound is that of `swap_bounds.py`: g'H⁻¹g times a factor of how far the Newton step changes margins.
    """
    self_concordance = 1.0 if isinstance(objective, MultinomialModel) else objective.self_concordance
    resolution = LAST_DIGITS_SHARE * (abs(psi) + rounding_of_loss(objective, z))
    if not math.isfinite(self_concordance) or not hessian.size:
        return (math.inf if hessian.size else 0.0), resolution
    gradient, n_outputs = objective.gradient_of(z), objective.n_outputs if objective.only_contrasts else 1
    diagonal = np.diagonal(hessian)
    if not np.all(diagonal > 0):
        return math.inf, resolution
    unit = 1 / np.sqrt(diagonal)
    hessian = unit[:, None] * ((hessian + hessian.T) / 2) * unit
    classes = objective.n_outputs if isinstance(objective, OneVsRestModel) else 1
    values, vectors = np.linalg.eigh(by_class(hessian, classes))
    seen = values > WELL_CONDITIONED
    if np.count_nonzero(~seen) > (_unseen_shifts(objective) if n_outputs > 1 else 0):
        return math.inf, resolution  # other directions than those that ψ does not see
    coordinates = ((unit * gradient).reshape(-1, classes).T[:, None, :] @ vectors)[:, 0, :]
    scaled = np.where(seen, coordinates / np.where(seen, values, 1.0), 0.0)
    step = -unit * (vectors @ scaled[:, :, None])[:, :, 0].T.ravel()
    moved = objective.of_samples(objective.moved(step))
    change = float(np.max(np.ptp(moved, axis=1) if moved.ndim > 1 and n_outputs > 1 else np.abs(moved), initial=0.0))
    factor = float(_kernels.self_concordant_factor(np.array([self_concordance * change]))[0])
    decrement = float(np.sum(coordinates[seen] ** 2 / values[seen]))
    return (0.5 if self_concordance == 0 else factor) * decrement, resolution


def _unseen_shifts(objective: Model) -> int:
    """Return of how many features ψ does not see all classes shifted alike: of those without a ridge."""
    ridge, n_features = objective.ridge, objective.dimension // objective.n_outputs
    return n_features if ridge is None else int(np.count_nonzero(ridge.own == 0))


def fit_with_signs(
    refits: Refits, features: Features, near: Fit, tolerance: float, below: float, accuracy: float
) -> tuple[FitEnd, Fit | None]:
    """Return how Lawson and Hanson's method ends, and ψ minimised with signs.

    Features that are not at their bound are fitted without signs. A step towards that fit ends at the first bound that
    it meets; at a fit that satisfies all signs, the feature with the steepest descent leaves its bound.
    """
    signs, x = refits.signs[features], begun_at(near, features, 1)
    x[signs] = np.maximum(x[signs], 0.0)
    free, refused, left_out = ~signs | (x > 0), np.zeros(features.size, np.bool_), np.zeros(features.size, np.bool_)
    entered = -1
    unproved: Fit | None = None  # the best fit that satisfies all signs and is not known to be optimal
    for _ in range(NEWTON_STEPS + 10 * features.size):
        begin = Fit(features, x, 0.0, x)
        end, fit = refits.by_columns(features[free], begin, tolerance, math.inf, accuracy, raw=True)
        if fit is None:
            break
        to = np.zeros(features.size)
        to[free] = fit.x
        if end is not FitEnd.FITTED:
            if np.all(np.isfinite(to)) and np.all(to[signs] >= 0):
                failed = Fit(features, to, fit.psi, fit.margins, None, math.inf, fit.resolution)
                failed = refits.as_attained(features, failed)
                unproved = failed if unproved is None else lower_of(unproved, failed)
            if entered < 0:
                break
            left_out[entered], free[entered], entered = True, False, -1  # continue without it
            continue
        wrong = free & signs & (to < 0)
        if entered >= 0 and to[entered] <= 0:  # descends by rounding alone
            refused[entered], free[entered], entered = True, False, -1
            continue
        if np.any(wrong):
            ratio = np.where(wrong, x / np.where(wrong, x - to, 1.0), math.inf)
            x = np.maximum(x + float(ratio.min()) * (to - x), np.where(signs, 0.0, -math.inf))
            held = wrong & (ratio <= ratio.min())
            x[held], free[held], entered = 0.0, False, -1
            continue
        refused &= fit.psi >= near.psi
        x, entered = to, -1
        steepest = _steepest(refits, features, free, refused | left_out, fit.margins)
        found = Fit(features, x, fit.psi, fit.margins, None, fit.gap, fit.resolution)
        if steepest is None and not np.any(left_out):
            return FitEnd.FITTED, found
        found = replace(found, gap=math.inf)
        unproved = found if unproved is None else lower_of(unproved, found)
        if steepest is None:
            break
        entered = steepest
        free[entered] = True
    return FitEnd.FAILED, unproved


def _steepest(refits: Refits, features: Features, free: Mask, refused: Mask, z: Vector) -> int | None:
    """Return the feature at its bound along which ψ falls fastest, relative to the length of its column.

    Slopes are those after one more Newton step of the free features: of columns that nearly depend on these, what
    is left of the gradient of a fit hides which way ψ falls.
    """
    objective = cast(LinearModel, refits.objective)
    columns, slope, bend = refits.dense(features[free]), objective.slope_of(z), objective.bend_of(z, True)
    if refits.ridge is not None and np.any(free):
        ridge = refits.ridge.restrict(features[free])
        columns = np.vstack([columns, np.eye(columns.shape[1])])
        slope, bend = np.append(slope, ridge.gradient(objective.tail(z))), np.append(bend, ridge.curvatures())
    slope = objective.of_samples(_orthogonal(columns, slope, bend))
    without = free | refused
    best: tuple[float, int | None] = (0.0, None)
    for place in np.flatnonzero(~without):
        (column,) = refits.stored(features[[place]])
        pulls = column.values * (slope if column.rows is None else slope[column.rows])
        length = float(np.sqrt(np.sum((column.values / (np.max(np.abs(column.values), initial=0.0) or 1.0)) ** 2)))
        descent = -float(np.sum(pulls))
        if descent > NOISE_SHARE * float(np.sum(np.abs(pulls))) and length > 0:
            scale = length * float(np.max(np.abs(column.values)))
            best = max(best, (descent / scale, int(place)), key=lambda pair: pair[0])
    return best[1]


def _orthogonal(columns: Matrix, slope: Vector, bend: Vector) -> Vector:
    """Return slopes + bends ∘ (columns @ step), orthogonal to the columns up to rounding."""
    size = np.sqrt(np.sum(bend[:, None] * columns**2, axis=0))
    if not columns.size or not np.all(np.isfinite(size)):
        return slope
    scaled = columns[:, size > 0] / size[size > 0]
    values, vectors = np.linalg.eigh(scaled.T @ (bend[:, None] * scaled))
    if not np.min(values, initial=1.0) > WELL_CONDITIONED:  # the digits of a product of columns do not suffice
        _, values, rows = np.linalg.svd(np.sqrt(bend)[:, None] * scaled, full_matrices=False)
        seen = values > EPS * max(scaled.shape) * np.max(values, initial=0.0)
        values, vectors = values[seen] ** 2, rows[seen].T
    for _ in range(_SLOPE_CORRECTIONS):
        step = vectors @ ((scaled.T @ slope @ vectors) / values)
        slope = slope - bend * (scaled @ step)
    return slope


def held_back(refits: Refits, k: int, fit: Fit, tolerance: float, accuracy: float) -> Fit:
    """Return the fit of a class, with shorter coefficients where rounding costs these more than they gain.

    Columns with a large mean are centred, and ψ may fall by a trifle for as long as coefficients grow. An error e
    of all margins costs about ℓ''e²/2, and e ≤ Σ_j noise_j |x_j|: a ridge says what is worth that.
    """
    if refits.noise is None or not math.isfinite(fit.psi):
        return fit
    part, noise = refits.parts[k], refits.noise[fit.features]
    cost = _cost_of_rounding(part, noise, fit)
    if not _COEFFICIENT_ROUNDING_SHARE * abs(fit.psi) + fit.resolution < cost < math.inf:
        return fit
    bend = float(np.sum(np.abs(part.bend_of(fit.margins, True))))
    ridge = 0.5 * bend * fit.features.size * noise**2
    held = np.where(noise > 0, np.maximum(ridge, np.finfo(np.float64).tiny), 0.0).tolist()
    columns, nothing = refits.stored.arrays(fit.features), [0.0] * fit.x.size
    found = refits.compiled[k].fit(*columns, nothing, tolerance, math.inf, accuracy, [], held)
    x, margins = found[1], found[3][: part.n_margins]
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(margins))):
        return fit
    psi = part.value_of(margins)
    other = replace(fit, x=x, psi=psi, margins=margins, hessian=found[4], gap=max(psi - fit.psi + fit.gap, 0.0))
    return other if psi + _cost_of_rounding(part, noise, other) < fit.psi + cost / 2 else fit


def _cost_of_rounding(part: LinearModel, noise: Vector, fit: Fit) -> float:
    """Return what rounding of coefficients does to ψ of a class where columns are centred.

    All margins are off by the same number.
    """
    size = np.abs(fit.x)
    counts = (noise > 0) & (size > 0)  # noise of a column that hardly varies may be infinite
    error = float(noise[counts] @ size[counts])
    change = error * abs(float(np.sum(part.slope_of(fit.margins))))
    if part.smooth:
        change += 0.5 * error**2 * float(np.sum(np.abs(part.bend_of(fit.margins, True))))
    return change


def sharpened(refits: Refits, fit: Fit) -> Fit:
    """Return the same fit after Newton steps over its columns, for as long as ‖∇ψ‖∞ falls.

    Coefficients of a fit have half the digits that ψ has. A fit that has no Hessian, or is not known to be
    optimal, is returned as it is.
    """
    objective, hessian, features = refits.objective, fit.hessian, fit.features
    if not isinstance(objective, LinearModel) or refits.convex is not None or hessian is None or not features.size:
        return fit
    if not fit.gap <= PREDICTED_SHARE * abs(fit.psi) + fit.resolution or np.any(refits.signs[features]):
        return fit
    if not refits.compiled or not refits.stored.fit_in(features):
        return fit
    columns, x, z = refits.dense(features), fit.x, objective.of_samples(fit.margins)
    ridge = None if refits.ridge is None else refits.ridge.restrict(features)
    held = 0.0 if ridge is None else 2 * ridge.own

    def gradient_at(x: Vector, z: Vector) -> Vector:
        return np.asarray(objective.slope_of(z) @ columns + held * x)

    gradient = gradient_at(x, z)
    for _ in range(LAST_STEPS):
        try:
            step = -np.linalg.solve(hessian, gradient)
        except np.linalg.LinAlgError:
            break
        along = columns @ step
        if not float(np.max(np.abs(along))) <= _LAST_MARGIN_CHANGE:
            break
        following = gradient_at(x + step, z + along)
        if not np.max(np.abs(following)) < np.max(np.abs(gradient)):
            break
        x, z, gradient = x + step, z + along, following
    margins = z if ridge is None else ridge.below(z, x)
    psi = objective.value_of(margins) if x is not fit.x else fit.psi
    return replace(fit, x=x, margins=margins, psi=psi) if psi <= fit.psi + fit.resolution else fit
