"""The KKT certificate of a point, recomputed from the data, independently of the solver.

x is a KKT point of min ψ s.t. g ≤ η when there is a multiplier y ≥ 0 with

    0 ∈ ∂ψ(x) + y ∂g(x),      y (g(x) − η) = 0,      g(x) ≤ η.

How far that is from holding, and with which y, is found in residual.py; what can still be gained, in possible_gain.py.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from levelprox._typing import Vector
from levelprox.certificate.null_model import NullFit, null_fit
from levelprox.certificate.possible_gain import features_of, possible_gain
from levelprox.certificate.residual import Residual, best_subgradient, degenerate_distance
from levelprox.exceptions import InvalidInputError, NumericalError
from levelprox.objectives import LinearModel, Objective
from levelprox.problem import Problem

_NO_RESIDUAL = 1e-13  # a KKT residual that no other subgradient need lower


@dataclass(frozen=True)
class Certificate:
    """Distance of a point from a KKT point, in figures that can be recomputed.

    Attributes
    ----------
    kkt : float
        What `tol` is compared with: the largest residual of a feature, of stationarity or of complementarity, in units
        of its own column and divided by `scale`. It does not change when a column is multiplied by a constant and the
        cost of its coefficient stays the same, nor with the units of ψ, φ and η; a constant added to a column with an
        intercept changes nothing, either. At the null fit it is about 1. Where x is infeasible it is at least 1. inf
        where a time limit or Ctrl-C left no time for a single gradient; then `stationarity` is inf and `scale` NaN,
        too.
    psi, g, level : float
        ψ(x), g(x), η.
    slack : float
        η − g(x).
    infeasibility : float
        max(0, g(x) − η, −x_j where x_j ≥ 0 is required); 0 for everything levelprox returns.
    multiplier : float
        y ≥ 0, the best one. It is also the weight at which x is stationary for the penalised
        problem min ψ + y g, and the rate at which ψ falls as the level rises.
    stationarity : float
        The largest |∂ψ_j + y ∂g_j|, each divided by the size of its column relative to a typical column, and with the
        intercept taking up the column's mean (`objectives/feature_scale.py`). Equal to dist∞(0, ∂ψ + y ∂g) where all
        columns have the same size.
    stationarity_squared : float
        dist₂(0, ∂ψ + y ∂g)², the paper's figure, in the units of x.
    complementarity : float
        y |g(x) − η|.
    scale : float
        The largest |∂ψ_j| of a feature that counts at the null fit (only unpenalized features fitted), in the units of
        `stationarity`; ‖∇ψ_j‖₂ where features have several coefficients. Where that is 0 up to rounding, at the origin
        (extrapolated from the null fit if ψ has no L); 1 where that is 0, too.
    active : bool
        Whether the constraint holds x back (y > 0).
    n_nonzero : int
        Features that are not zero and count (ω_j > 0).
    degenerate_distance : float or None
        Distance of η to the nearest sum of cap·ω_j, at which the multiplier may explode, relative to cap times
        the common unit of the weights; None when not checked or when there is no such level.
    degenerate_check : str
        "checked", "no degenerate level" or "not checked: unequal weights".
    dual_bound : float
        An upper bound on the multiplier of an exact KKT point at x (Lemma "dual_bound" at its fixed point). For ψ that
        is not convex it needs λ_max of X'X; where a time limit or Ctrl-C left no time for that, the trace takes its
        place, and the bound is larger.
    gradient_error : float
        Standard error of ‖∇ψ‖ where ψ is known through samples only; 0 where it is exact.
    near_epsilon, near_delta : float or None
        The paper's (ε, δ)-KKT statement with an x̄ ≠ x, where that says more than x̄ = x: for ψ with kinks and for
        sampled ψ (`nearby_kkt`).
    possible_gain : float or None
        By how much ψ can be lowered at most by feasible moves near x. From the second-order model of the
        Lagrangian over the features that may move, y·slack + ½ρ'M⁻¹ρ with ρ = ∂ψ + y ∂g, with an allowance for
        curvature that changes; for losses with kinks by linear programming duality. Never more than ψ(x) − inf ψ, which
        it is where no other bound is found or there was no time for one. The rounding of ψ is included. None
        where ψ is known through its values and gradients only, and in certificates of version 0.1.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, certify, constraints, solve
    >>> problem = Problem(LinearModel(np.eye(3), [3.0, 1.0, 0.0]), constraints.L1(), 2.0)
    >>> proof = certify(problem, solve(problem).x)
    >>> proof.active, proof.infeasibility, proof.kkt < 1e-6
    (True, 0.0, True)
    """

    kkt: float
    psi: float
    g: float
    level: float
    slack: float
    infeasibility: float
    multiplier: float
    stationarity: float
    stationarity_squared: float
    complementarity: float
    scale: float
    active: bool
    n_nonzero: int
    degenerate_distance: float | None
    degenerate_check: str
    dual_bound: float
    gradient_error: float = 0.0
    near_epsilon: float | None = None
    near_delta: float | None = None
    possible_gain: float | None = None

    @property
    def examined(self) -> bool:
        """Whether there was time to compute the residuals; where not, `kkt` and `stationarity` are inf."""
        return not math.isinf(self.kkt)

    @property
    def epsilon(self) -> float:
        """ε of the paper's (ε, δ)-KKT definition: at x itself, unless an x̄ near it is known."""
        at_x = max(self.stationarity_squared, self.complementarity)
        return at_x if self.near_epsilon is None else self.near_epsilon

    @property
    def delta(self) -> float:
        """δ = ‖x − x̄‖² of that definition; 0 at x itself."""
        return 0.0 if self.near_delta is None else self.near_delta

    def as_dict(self) -> dict[str, Any]:
        """Return every figure, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        if self.degenerate_distance is None:
            degenerate = self.degenerate_check
        elif self.degenerate_distance < 1e-3:
            degenerate = "η is a whole number of caps: the multiplier says little here"
        else:
            degenerate = f"η is {self.degenerate_distance:.3g} caps from the nearest one"
        rows = [
            ("KKT residual (scaled)", f"{self.kkt:.2e}" if self.examined else "not known: there was no time"),
            ("possible gain in loss", "not known" if self.possible_gain is None else f"{self.possible_gain:.2e}"),
            ("loss", f"{self.psi:.10g}"),
            ("constraint g(x) ≤ η", f"{self.g:.10g} ≤ {self.level:.10g}"),
            ("infeasibility", f"{self.infeasibility:g}"),
            ("multiplier y", f"{self.multiplier:.6g}" if self.active else "0 (constraint inactive)"),
            ("stationarity", f"{self.stationarity:.2e}  (scale {self.scale:.3g})"),
            ("complementarity", f"{self.complementarity:.2e}"),
            ("(ε, δ)-KKT", f"ε = {self.epsilon:.2e}, δ = {self.delta:.2g}"),
            ("degenerate levels", degenerate),
        ]
        if self.gradient_error:
            rows.insert(7, ("error of the gradient", f"{self.gradient_error:.2e}  (an average over samples)"))
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def certify(
    problem: Problem,
    x: object,
    null: NullFit | None = None,
    *,
    hint: Vector | None = None,
    seconds: float = math.inf,
) -> Certificate:
    """Return the certificate of any point, computed from (problem, x) alone.

    Parameters
    ----------
    problem : Problem
    x : array-like of shape (d,)
        Any point, feasible or not.
    null : NullFit, optional
        The null fit of the same problem, where it is known already; it only sets scales.
    hint : ndarray of shape (n,), optional
        Slopes of the samples at which the search for the best subgradient starts, if the loss has kinks. Checked.
    seconds : float
        Time limit for it and for a bound of the possible gain.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, certify, constraints, solve
    >>> problem = Problem(LinearModel(np.eye(3), [3.0, 1.0, 0.0]), constraints.L1(), 2.0)
    >>> proof = certify(problem, solve(problem).x)
    >>> proof.active, proof.infeasibility, proof.kkt < 1e-6
    (True, 0.0, True)
    """
    if not isinstance(problem, Problem):
        raise InvalidInputError(f"problem must be a Problem, got {type(problem).__name__}")
    point = problem.point("x", x, copy=False)
    psi, gradient = problem.objective.value_and_gradient(point)
    if not (np.isfinite(psi) and np.all(np.isfinite(gradient))):
        raise NumericalError("the objective or its gradient is not finite at x")
    null = null or null_fit(problem)
    part, coefficients = _over_support(problem, point)
    psi = null.reported(part, coefficients, psi)
    deadline = time.monotonic() + seconds
    certificate, gradient, slopes = _first_order(problem, point, psi, gradient, null, hint, seconds)
    left = max(deadline - time.monotonic(), 0.0)
    gain = possible_gain(problem, point, psi, gradient, certificate.multiplier, slopes, left, part)
    error = problem.objective.gradient_error(point)
    return replace(certificate, possible_gain=gain, gradient_error=error)


def _over_support(problem: Problem, x: Vector) -> tuple[Objective, Vector]:
    """Return ψ over the nonzero and the unpenalized features of x, whose columns are copied once, and x there.

    For other than linear models: ψ itself.
    """
    if not isinstance(problem.objective, LinearModel):
        return problem.objective, x
    features = features_of(problem, x)
    return problem.objective.restrict(features), x[features]


def _first_order(
    problem: Problem, x: Vector, psi: float, gradient: Vector, null: NullFit, hint: Vector | None, seconds: float
) -> tuple[Certificate, Vector, Vector | None]:
    """Return the residuals at x with the best subgradient, that subgradient, and the slopes of its samples."""
    objective = problem.objective
    subgradients = objective.subgradients(x, hint)
    if subgradients is None:
        slopes = objective.slopes(x) if isinstance(objective, LinearModel) and not objective.smooth else None
        return assemble(problem, x, psi, gradient, null), gradient, slopes
    # The best one by the 2-norm, with the level or without, or the one that was hinted at.
    found = [subgradients.guess]
    every = [assemble(problem, x, psi, subgradients.gradient(subgradients.guess), null)]
    if every[0].kkt > _NO_RESIDUAL:
        found += [best_subgradient(problem, x, null, subgradients, seconds / 2, free) for free in (True, False)]
        every += [assemble(problem, x, psi, subgradients.gradient(rho), null) for rho in found[1:]]
    best = min(range(len(every)), key=lambda i: every[i].kkt)
    return every[best], subgradients.gradient(found[best]), subgradients.slopes_at(found[best])


def assemble(
    problem: Problem, x: Vector, psi: float, gradient: Vector, null: NullFit, *, bounded: bool = True
) -> Certificate:
    """Return the certificate from ψ and a (sub)gradient at x that are already known; without the possible gain.

    Without `bounded` the bound on the multiplier is inf: it may need many passes over the data.

    Parameters
    ----------
    problem : Problem
    x : ndarray of shape (d,)
    psi : float
        ψ(x).
    gradient : ndarray of shape (d,)
        A (sub)gradient of ψ at x.
    null : NullFit
    bounded : bool, default=True
        Whether to compute the bound on the multiplier, which may need many passes over the data; inf otherwise.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, constraints
    >>> from levelprox.certificate import assemble
    >>> from levelprox.certificate.null_model import null_fit
    >>> problem = Problem(LinearModel(np.eye(2), [3.0, 1.0]), constraints.L1(), 2.0)
    >>> psi, gradient = problem.objective.value_and_gradient(np.array([2.0, 0.0]))
    >>> assemble(problem, np.array([2.0, 0.0]), psi, gradient, null_fit(problem)).multiplier
    1.0
    """
    g = problem.g(x)
    if g > problem.level:  # perhaps only as it is rounded up
        g = min(g, problem.constraint.value(problem.sizes(x), problem.weights))
    slack = problem.level - g
    residual = Residual(problem, x, gradient)
    y, stationarity, complementarity = residual.best(g, null)
    distance, check = degenerate_distance(problem)
    negative = -float(np.min(x[problem.must_be_nonnegative()], initial=0.0))
    kkt = max(stationarity, complementarity) / null.scale
    if slack < 0 or negative > 0:
        kkt = max(kkt, 1 + _relative(-slack, problem.level) + _relative(negative, float(np.max(np.abs(x)))))
    return Certificate(
        kkt=kkt,
        psi=psi,
        g=g,
        level=problem.level,
        slack=slack,
        infeasibility=max(0.0, -slack, negative),
        multiplier=y,
        stationarity=stationarity,
        stationarity_squared=Residual(problem, x, gradient, measured=False).squared(y),
        complementarity=y * abs(slack),
        scale=null.scale,
        active=y > 0,
        n_nonzero=problem.counted(residual.support).size,
        degenerate_distance=distance,
        degenerate_check=check,
        dual_bound=_dual_bound(problem, x, residual, slack, psi, null) if bounded else np.inf,
    )


def not_examined(problem: Problem, x: Vector, psi: float) -> Certificate:
    """Return the certificate of a feasible point of which ψ alone is known: there was no time for a gradient.

    Parameters
    ----------
    problem : Problem
    x : ndarray of shape (d,)
    psi : float
        ψ(x).

    Returns
    -------
    Certificate
        With `kkt` and `stationarity` inf.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, constraints
    >>> from levelprox.certificate import not_examined
    >>> problem = Problem(LinearModel(np.eye(2), [3.0, 1.0]), constraints.L1(), 2.0)
    >>> not_examined(problem, np.zeros(2), 5.0).examined
    False
    """
    g, infimum = problem.g(x), problem.objective.infimum
    distance, check = degenerate_distance(problem)
    support = problem.support(x)
    return Certificate(
        kkt=math.inf,
        psi=psi,
        g=g,
        level=problem.level,
        slack=problem.level - g,
        infeasibility=0.0,
        multiplier=0.0,
        stationarity=math.inf,
        stationarity_squared=math.inf,
        complementarity=0.0,
        scale=math.nan,
        active=False,
        n_nonzero=problem.counted(support).size,
        degenerate_distance=distance,
        degenerate_check=check,
        dual_bound=math.inf,
        possible_gain=max(psi - infimum, 0.0) if math.isfinite(psi - infimum) else None,
    )


def _relative(excess: float, whole: float) -> float:
    """Return by how much something is exceeded, as a part of it; 0 where it is not."""
    return max(excess, 0.0) / whole if whole > 0 else float(excess > 0)


def _dual_bound(problem: Problem, x: Vector, residual: Residual, slack: float, psi: float, null: NullFit) -> float:
    """Return y ≤ (ψ(x_0) − ψ(x) + μ/2 ‖x_0 − x‖²) / (η − g_x(x_0)), x_0 the null fit, g_x the surrogate at x."""
    support, t = residual.support, residual.lines.t
    spent = problem.constraint.slope(t) * t
    if problem.weights is not None:
        spent = problem.weights[support] * spent
    room = slack + float(np.sum(spent))
    if room <= 0 or not np.isfinite(null.psi):
        return np.inf
    differ = null.x != x  # at few places
    with np.errstate(over="ignore"):  # beyond the range of float64 it is inf
        apart = float(np.sum((null.x[differ] - x[differ]) ** 2))
    return max(0.0, null.psi - psi + problem.objective.weak_convexity / 2 * apart) / room
