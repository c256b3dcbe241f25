"""The convex set inside {g ≤ η} of one step of LCPP.

The paper linearises h at x^{k−1} (Algorithm 1, line 4):

    g_k(x) = λ‖x‖₁ − h(x^{k−1}) − ⟨∇h(x^{k−1}), x − x^{k−1}⟩  ≥  g(x),

so {g_k ≤ η_k} = {Σ ω_i(|x_i| + u_i x_i) ≤ τ} with u = −∇h(x^{k−1})/λ and
τ = (η_k − g(x^{k−1}))/λ + Σ ω_i w_i t_i, where t = |x^{k−1}| and w = 1 − |u| = φ'(t)/λ.

φ is concave in t, so φ(|x|) ≤ φ(t) + φ'(t)(|x| − t): a weighted ℓ1 ball that equals the paper's set
while no sign changes and is larger where a sign changes. It is the tighter surrogate of g. Where a feature has several
coefficients t_j = ‖x_j^{k−1}‖₂, and the set is a weighted group ball {Σ_j ω_j φ'(t_j)/λ ‖x_j‖₂ ≤ τ}.

`solve` uses the paper's set unless it runs Newton steps, or a feature has several coefficients: then h is no function
of each coordinate, and the group ball replaces the paper's set, also with preset="paper".

There is one weight for each feature. The number of coefficients per feature is the number of coordinates divided by the
number of weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from levelprox.constraints import Constraint
from levelprox.exceptions import InvalidInputError
from levelprox.projection import SMALLEST_WEIGHT, group_norms

Vector = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
# φ, its sum and τ are rounded; the set is this many units in the last place inside the level.
_MARGIN = 16 * _EPS
_BELOW_ONE = 1 - _EPS / 2


@dataclass(frozen=True, eq=False)
class Surrogate:
    """{x : Σ ω_i (|x_i| + u_i x_i) ≤ τ}, or {x : Σ_j ω_j ‖x_j‖₂ ≤ τ}, inside {g ≤ level}.

    Attributes
    ----------
    weights : ndarray of shape (d / width,) or None
        ω; None means 1 everywhere.
    u : ndarray of shape (d,) or None
        None means 0 everywhere.
    tau : float
    lam : float
        λ, by which the constraint was divided: a multiplier of the set is λ times one of g.
    level : float
        η_k.
    width : int
        Coefficients per feature; above 1 there is no u.
    """

    weights: Vector | None
    u: Vector | None
    tau: float
    lam: float
    level: float
    width: int = 1

    def value(self, x: Vector) -> float:
        """Return g_k(x), which is at most `level` exactly if x is in the set."""
        sizes = np.abs(x) if self.width == 1 else group_norms(x, self.width)
        spent = sizes if self.u is None else sizes + self.u * x
        total = float(np.sum(spent if self.weights is None else self.weights * spent))
        return self.level + self.lam * (total - self.tau)

    def tightened(self, excess: float) -> Surrogate:
        """Return the set for a level lower by `excess`."""
        return replace(self, tau=max(0.0, self.tau - excess / self.lam))


Linearise = Callable[[Constraint, Vector, float, Vector | None], Surrogate]


def linearise(constraint: Constraint, at: Vector, level: float, weights: Vector | None = None) -> Surrogate:
    """Return the paper's surrogate: h linearised at `at`."""
    if _width(at, weights) > 1:
        raise InvalidInputError(
            "the paper's surrogate linearises h in each coordinate, which is not defined where a feature has several "
            "coefficients and counts once; use surrogate='concave'"
        )
    support = (at != 0).nonzero()[0]  # ∇h = 0 at the others
    slope = constraint.slope(np.abs(at[support]))
    # Where φ' > 0 is below the rounding of λ, keep the weight positive: with a weight of 0 the coordinate
    # could diverge to where φ is above its linearisation.
    size = np.where(slope > 0, np.minimum(1 - slope / constraint.lam, _BELOW_ONE), 1.0)
    u = np.zeros_like(at)
    u[support] = -np.copysign(size, at[support])
    return Surrogate(weights, u, _radius(constraint, at, support, 1 - size, level, weights), constraint.lam, level)


def majorise(constraint: Constraint, at: Vector, level: float, weights: Vector | None = None) -> Surrogate:
    """Return the tighter surrogate: the concave φ(|x|) majorised at |`at`|, a weighted ℓ1 ball or group ball."""
    width = _width(at, weights)
    t = np.abs(at) if width == 1 else group_norms(at, width)
    support = (t != 0).nonzero()[0]  # φ' = λ at the others
    slope = constraint.slope(t[support])
    price = np.where(slope > 0, np.maximum(slope / constraint.lam, SMALLEST_WEIGHT), 0.0)
    prices = np.ones_like(t) if weights is None else weights.copy()
    prices[support] *= price
    prices[(prices > 0) & (prices < SMALLEST_WEIGHT)] = SMALLEST_WEIGHT  # of ω < 1: a larger price is a smaller set
    tau = _radius(constraint, t, support, price, level, weights)
    return Surrogate(prices, None, tau, constraint.lam, level, width)


def _width(at: Vector, weights: Vector | None) -> int:
    """Return the number of coefficients per weight."""
    if weights is None:
        return 1
    if weights.size == 0 or at.size % weights.size:
        raise InvalidInputError(f"weights must have an entry for each feature, got {weights.size} for x of {at.size}")
    return at.size // weights.size


def _radius(
    constraint: Constraint,
    at: Vector,
    support: NDArray[np.intp],
    price: Vector,
    level: float,
    weights: Vector | None,
) -> float:
    """Return τ of the set that touches g at `at` with the given weight of |x| on its support, rounded inwards."""
    spent = price * np.abs(at[support])
    inner = float(np.sum(spent if weights is None else weights[support] * spent))
    g = constraint.total(at, weights)
    return max(0.0, (level - g) / constraint.lam + inner - _MARGIN * (level / constraint.lam + inner))


SURROGATES: dict[str, Linearise] = {"concave": majorise, "paper": linearise}


def surrogate_by_name(name: str) -> Linearise:
    """Return the function that builds g_k, by name."""
    if not isinstance(name, str) or name not in SURROGATES:
        raise InvalidInputError(f"surrogate must be one of {', '.join(sorted(SURROGATES))}, got {name!r}")
    return SURROGATES[name]


def surrogate_used(build: Linearise, width: int) -> str:
    """Return the name for `Result.surrogate`: "paper", "concave" or, for features of several coefficients, "group"."""
    name = next(name for name, known in SURROGATES.items() if known is build)
    return "group" if name == "concave" and width > 1 else name
