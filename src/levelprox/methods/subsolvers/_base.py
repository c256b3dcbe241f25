"""The convex subproblem of one LCPP step, and the interface of the subsolvers that solve it.

    min ψ_k(x) = ψ(x) + γ/2 ‖x − x^{k−1}‖²   s.t.  x in the surrogate set {g_k ≤ η_k}

If columns have very different sizes, or means of many deviations with an intercept, lengths are measured in the
coordinates w of `objectives.Coordinates` instead of x: the same problem in other coordinates.

A subsolver returns a better point of the surrogate set. If it uses all of ψ and not only samples of it, ψ_k at this
point is not above ψ_k(x^{k−1}). Each subsolver documents its accuracy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

import levelprox._kernels as _kernels
from levelprox._typing import Rng, Vector
from levelprox._validation import SMALLEST_WEIGHT, fraction, whole
from levelprox.objectives import Coordinates, Objective
from levelprox.projection import group_norms
from levelprox.result import CUT_SHORT_STOPS, Iterate, StopReason

_LAST_DIGITS = 4 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Surrogate:
    """{x : Σ ω_i (|x_i| + u_i x_i) ≤ τ}, or {x : Σ_j ω_j ‖x_j‖₂ ≤ τ}, inside {g ≤ level}.

    Parameters
    ----------
    weights : ndarray of shape (d / n_outputs,) or None
        ω; None means 1 everywhere.
    u : ndarray of shape (d,) or None
        None means 0 everywhere.
    tau : float
    lam : float
        λ, by which the constraint was divided: a multiplier of the set is λ times one of g.
    level : float
        η_k.
    n_outputs : int
        Coefficients per feature; above 1 there is no u.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.methods.subsolvers import Surrogate
    >>> ball = Surrogate(weights=None, u=None, tau=2.0, lam=1.0, level=2.0)
    >>> ball.value(np.array([1.0, -0.5]))
    1.5
    """

    weights: Vector | None
    u: Vector | None
    tau: float
    lam: float
    level: float
    n_outputs: int = 1

    def value(self, x: Vector) -> float:
        """Return g_k(x), which is at most `level` exactly if x is in the set."""
        sizes = np.abs(x) if self.n_outputs == 1 else group_norms(x, self.n_outputs)
        spent = sizes if self.u is None else sizes + self.u * x
        total = float(np.sum(spent if self.weights is None else self.weights * spent))
        return self.level + self.lam * (total - self.tau)

    def tightened(self, excess: float) -> Surrogate:
        """Return the set for a level lower by `excess`."""
        return replace(self, tau=max(0.0, self.tau - excess / self.lam))


@dataclass(frozen=True, eq=False)
class Subproblem:
    """min ψ(x) + γ/2 ‖x − center‖² s.t. x in the surrogate set, x_j ≥ 0 for some j.

    Parameters
    ----------
    objective : Objective
        ψ.
    surrogate : Surrogate
        {g_k ≤ η_k}.
    center : ndarray of shape (d,)
        x^{k−1}.
    gamma : float
        γ.
    signs : (mask or None, bool)
        As `Problem.signs`.
    coordinates : Coordinates, optional
        w; None means x itself. Only some subsolvers support others.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel
    >>> from levelprox.methods.subsolvers import Subproblem, Surrogate
    >>> ball = Surrogate(weights=None, u=None, tau=2.0, lam=1.0, level=2.0)
    >>> step = Subproblem(LinearModel(np.eye(2), [1.0, 3.0]), ball, center=np.zeros(2), gamma=1.0)
    >>> step.value(np.array([1.0, 0.0]))
    5.0
    """

    objective: Objective
    surrogate: Surrogate
    center: Vector
    gamma: float
    signs: tuple[NDArray[np.uint8] | None, bool] = (None, False)
    coordinates: Coordinates | None = None

    @cached_property
    def set(self) -> _kernels.Set:
        """The set in the form of the kernels, in coordinates w."""
        s, (mask, all_nonnegative) = self.surrogate, self.signs
        weights = s.weights
        if self.coordinates is not None:
            of_features = self.coordinates.units[:: self.objective.n_outputs]
            weights = 1 / of_features if weights is None else weights / of_features
            weights[(weights > 0) & (weights < SMALLEST_WEIGHT)] = SMALLEST_WEIGHT  # a larger price is a smaller set
        return _kernels.Set(
            self.center.size, weights, s.u, mask, all_nonnegative, s.tau, width=self.objective.n_outputs
        )

    def projected(self, x: Vector, guess: float = 0.0) -> tuple[Vector, float] | None:
        """Return the projection of x onto the surrogate set and its multiplier; None if x overflows.

        `guess` is a guess of the multiplier. Lengths are those of x.
        """
        s, (mask, all_nonnegative) = self.surrogate, self.signs
        projected, multiplier = np.empty((1, x.size)), np.empty(1)
        failed, _ = _kernels.project_rows(
            x[None, :],
            None if s.u is None else s.u[None, :],
            s.weights,
            mask,
            all_nonnegative,
            np.array([s.tau]),
            np.array([guess]),
            projected,
            multiplier,
            self.objective.n_outputs,
        )
        return None if failed >= 0 else (projected[0], float(multiplier[0]))

    def value(self, x: Vector) -> float:
        """Return ψ_k(x)."""
        return self.with_proximal(x, self.objective.value_and_gradient(x)[0])

    def with_proximal(self, x: Vector, psi: float) -> float:
        """Return ψ_k(x), given ψ(x)."""
        if self.gamma == 0:
            return psi
        move = x - self.center if self.coordinates is None else self.coordinates.of(x - self.center)
        return psi + self.gamma / 2 * float(np.sum(move**2))


@dataclass(frozen=True)
class Subsolver(ABC):
    """Base class of the subsolvers.

    Examples
    --------
    >>> from levelprox.methods.subsolvers import Spectral, Subsolver
    >>> subsolver = Spectral(max_steps=50)
    >>> isinstance(subsolver, Subsolver), subsolver.needs
    (True, 'a differentiable objective that is not sampled')
    """

    name: ClassVar[str]
    #: The requirements on ψ, for error messages.
    needs: ClassVar[str]
    #: True if ψ_k never increases, unless ψ is sampled.
    monotone: ClassVar[bool] = True
    #: True if it is fastest on working sets of a few features.
    on_working_sets: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def can_take(cls, objective: Objective) -> bool:
        """Return whether this subsolver supports ψ."""

    def is_random(self, objective: Objective) -> bool:
        """Return whether the subsolver uses samples of ψ, so that the result depends on `rng`."""
        return objective.sampled

    def warning(self, objective: Objective) -> str:
        """Return the warning to issue before a run on ψ; may be empty."""
        return ""

    def forms_models(self, objective: Objective) -> bool:
        """Return whether the subsolver uses second-order models of ψ that can be stored as matrices."""
        return False

    def coordinates(self, objective: Objective, centred: bool) -> Coordinates | None:
        """Return the coordinates in which the subsolver measures lengths; None means x itself.

        Parameters
        ----------
        objective : Objective
            ψ.
        centred : bool
            Whether the intercept, if there is one, may absorb the means of columns.
        """
        return None

    def proximal_weight(self, objective: Objective) -> float:
        """Return the default γ: 3μ for nonconvex ψ, as in the paper, else a small fraction of its curvature."""
        return 3 * objective.weak_convexity or 1e-3 * objective.curvature

    @abstractmethod
    def limited_to(self, steps: int) -> Subsolver:
        """Return the same subsolver with at most `steps` inner steps."""

    @abstractmethod
    def solve(
        self, subproblem: Subproblem, start: Iterate, tolerance: float = 0.0, seconds: float = 1e300, rng: Rng = None
    ) -> Iterate:
        """Return a better point, starting from x^{k−1}.

        Parameters
        ----------
        subproblem : Subproblem
            The subproblem.
        start : Iterate
            x^{k−1} with ψ and ∇ψ at this point.
        tolerance : float
            Residual at which to stop, in units of ∇ψ.
        seconds : float
            Time limit.
        rng : Generator, optional
            The random number generator; only stochastic subsolvers use it.

        Returns
        -------
        Iterate
            The point, with ψ, ∇ψ, the multiplier and the counts of evaluations.
        """


@dataclass(frozen=True)
class SteppingSubsolver(Subsolver):
    """Base class of subsolvers that take a number of steps, fewer once the residual has decreased by a factor.

    Attributes
    ----------
    max_steps : int
        Inner steps per outer step.
    accuracy : float
        The factor, in [0, 1).
    """

    most_steps: ClassVar[int] = 2**31  #: that the compiled loop can count

    max_steps: int = 10
    accuracy: float = 0.1

    def __post_init__(self) -> None:
        whole("max_steps", self.max_steps, 1, self.most_steps)
        fraction("accuracy", self.accuracy)

    def limited_to(self, steps: int) -> Self:
        """Return the same subsolver with at most `steps` inner steps."""
        return replace(self, max_steps=steps)


Outcome = _kernels.AcsaOutcome | _kernels.NesterovOutcome  # of a compiled loop


def concluded(
    subproblem: Subproblem, start: Iterate, outcome: Outcome, evaluations: int, keep_better: bool = True
) -> Iterate:
    """Return the iterate at the end of a compiled loop that took so many evaluations of ψ.

    It is `start` if ψ is not finite at the end or, with `keep_better`, ψ_k is higher there.
    """
    end = _better(subproblem, start, outcome.x, keep_better)
    return replace(
        end,
        multiplier=outcome.multiplier / subproblem.surrogate.lam,
        # Ctrl-C and failures take precedence over the outcome of the comparison with x^{k−1}.
        stop=outcome.stop if outcome.stop in CUT_SHORT_STOPS else end.stop or outcome.stop,
        n_inner=outcome.steps,
        n_grad=end.n_grad + evaluations,
        n_proj=outcome.projections,
    )


def _better(subproblem: Subproblem, start: Iterate, x: Vector, keep_better: bool) -> Iterate:
    """Return the iterate at x, or `start` with the reason why not, and the evaluation that took."""
    if np.array_equal(x, start.x):
        return replace(start, stop=StopReason.NONE, n_grad=0)
    (psi, gradient), cost = subproblem.objective.value_and_gradient(x), subproblem.objective.evaluation_cost
    if not (np.isfinite(psi) and np.all(np.isfinite(gradient))):
        return replace(start, stop=StopReason.NOT_FINITE, n_grad=cost)
    before, after = subproblem.with_proximal(start.x, start.psi), subproblem.with_proximal(x, psi)
    if keep_better and after > before + _LAST_DIGITS * abs(before):
        return replace(start, stop=StopReason.NO_DECREASE, n_grad=cost)
    return replace(start, x=x, psi=psi, gradient=gradient, stop=StopReason.NONE, n_grad=cost)
