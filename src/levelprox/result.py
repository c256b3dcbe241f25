"""Statuses, iterates and results of runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from levelprox._typing import Features, Vector

if TYPE_CHECKING:
    from levelprox.certificate import Certificate
    from levelprox.certificate.null_model import NullFit
    from levelprox.theory import Parameters


class Status(IntEnum):
    """Reason for the end of a run. Append-only: the meaning of a code never changes.

    Examples
    --------
    >>> from levelprox import LinearModel, Problem, Status, constraints, solve
    >>> result = solve(Problem(LinearModel([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0]), constraints.L1(), 1.0))
    >>> result.status == Status.SOLVED, str(result.status), int(result.status), result.status.success
    (True, 'solved', 0, True)
    """

    SOLVED = 0  #: KKT residual at most tol, recomputed from the data
    SOLVED_INACCURATE = 1  #: tol not reached, but 100 tol was, or the paper's weaker rule with stopping="change"
    MAX_ITER = 2  #: the cap on outer iterations
    TIME_LIMIT = 3  #: the cap on wall-clock time
    INTERRUPTED = 4  #: Ctrl-C
    CALLBACK_STOP = 5  #: the callback returned True
    STALLED = 6  #: no progress possible in floating point
    INFEASIBLE = 10  #: no point satisfies the level; there is no x
    DIVERGING = 11  #: ψ is unbounded below on the set, or its infimum is not attained
    NUMERICAL_ERROR = 12  #: the objective returned something not finite; x is the last good point
    RESOURCE_ERROR = 13  #: memory, disk or workers were lost
    NOT_STARTED = 99  #: before the first step

    def __str__(self) -> str:
        return self.name.lower()

    @property
    def success(self) -> bool:
        """Whether the run ended as requested."""
        return self in (Status.SOLVED, Status.CALLBACK_STOP)


#: Ends that a limit, the callback or Ctrl-C brought about: there is more to do.
CUT_SHORT = (Status.MAX_ITER, Status.TIME_LIMIT, Status.INTERRUPTED, Status.CALLBACK_STOP)


class StopReason(StrEnum):
    """Why an inner loop stopped. Members compare equal to their text, which is what checkpoints contain."""

    NONE = ""  #: it was not run
    STEPS = "steps"  #: the number of steps it was given
    ACCURATE = "accurate"  #: the residual fell by the factor requested
    STATIONARY = "stationary"  #: the residual is below the tolerance
    NO_DECREASE = "no decrease"  #: no step lowers the objective in floating point
    SECONDS = "seconds"  #: the time it was given
    NOT_FINITE = "not finite"  #: the objective or its gradient is not finite
    INTERRUPTED = "interrupted"  #: Ctrl-C
    LEFT_LEVEL = "left"  #: a step without the constraint left the level set


#: Reasons that cut a step short: its result is incomplete.
CUT_SHORT_STOPS = (StopReason.INTERRUPTED, StopReason.NOT_FINITE)


@dataclass(frozen=True, eq=False)
class Kinks:
    """State of `smoothing` for a loss with kinks: that of a method of multipliers.

    Attributes
    ----------
    slopes : ndarray of shape (n,)
        One element of ∂ℓ per sample.
    width : float
        How far the next envelope reaches, in units of the margins.
    missed : float
        By how much margins missed their kinks, at most.
    scale : float
        The size of the residuals at the start.
    """

    slopes: Vector
    width: float
    missed: float
    scale: float


@dataclass(frozen=True, eq=False)
class Iterate:
    """An iterate x^k with the quantities computed there, so that none is computed twice.

    Attributes
    ----------
    x : ndarray of shape (d,)
        The point.
    psi : float
        ψ(x).
    gradient : ndarray of shape (d,)
        ∇ψ(x).
    multiplier : float
        Multiplier y of g_k ≤ η_k in the subproblem, at the last inner step.
    step : float
        Step length that the subsolver would try next.
    stop : StopReason
        Why the subsolver stopped.
    n_inner, n_grad, n_proj : int
        Inner steps, evaluations of ψ with its gradient, and projections, of this outer step.
    kinks : Kinks, optional
        State of `smoothing`, for losses with kinks.
    margins : ndarray, optional
        z = Ax + o, if the subsolver stores them.
    hessian : ndarray of shape (d, d), optional
        Convex second-order model of ψ, at x or at a point so near that it predicted the last step well.
    features : ndarray of int, optional
        Working set on which x was found.

    Examples
    --------
    A subsolver gets an iterate and returns the next one:

    >>> import numpy as np
    >>> from levelprox import Iterate
    >>> Iterate(x=np.zeros(2), psi=1.5, gradient=np.array([1.0, -2.0])).psi
    1.5
    """

    x: Vector
    psi: float
    gradient: Vector
    multiplier: float = 0.0
    step: float = 1.0
    stop: StopReason = StopReason.NONE
    n_inner: int = 0
    n_grad: int = 0
    n_proj: int = 0
    kinks: Kinks | None = None
    margins: Vector | None = None
    hessian: Vector | None = None
    features: Features | None = None

    def at_cost_of(self, other: Iterate) -> Iterate:
        """Return the same point, with the work that another took."""
        return replace(self, n_inner=other.n_inner, n_grad=other.n_grad, n_proj=other.n_proj)


def length_of(x: Vector) -> float:
    """Return ‖x‖₂ without BLAS, whose threads cost more than they help on one vector."""
    with np.errstate(over="ignore"):  # past all bounds it is inf
        nonzero = x[x != 0]
        return float(np.sqrt(np.sum(nonzero * nonzero)))


def relative_change(last: Vector, x: Vector) -> float:
    """Return ‖x − last‖ / ‖x‖; 0 at the origin."""
    length, moved = length_of(x), x != last
    return length_of(x[moved] - last[moved]) / length if length > 0 else 0.0


@dataclass(frozen=True)
class Record:
    """One entry of the history of a run: the point after outer step k, and the work so far.

    Attributes
    ----------
    k : int
        Outer step.
    eta_k : float
        Level η_k of the step.
    psi, g : float
        ψ(x^k) and g(x^k).
    kkt : float
        KKT residual.
    multiplier : float
        Multiplier y.
    change : float
        ‖x^k − x^{k−1}‖ / ‖x^k‖.
    n_grad : int
        Evaluations of ψ with its gradient since the run began.
    seconds : float
        Wall-clock time since the run began.

    Examples
    --------
    >>> from levelprox import LinearModel, Problem, constraints, solve
    >>> result = solve(Problem(LinearModel([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0]), constraints.L1(), 1.0))
    >>> last = result.history[-1]
    >>> last.k == result.n_outer, round(last.g, 6)
    (True, 1.0)
    """

    k: int
    eta_k: float
    psi: float
    g: float
    kkt: float
    multiplier: float
    change: float
    n_grad: int
    seconds: float


@dataclass(frozen=True)
class Stage:
    """One stage: the problem rescaled by `factor`, and where its rough solution ended.

    Attributes
    ----------
    factor : float
        c; 1 is the problem itself.
    psi : float
        ψ at the end of the stage.
    n_nonzero : int
        Features that count and are not zero there.
    n_grad : int
        Evaluations of ψ over all features.
    """

    factor: float
    psi: float
    n_nonzero: int
    n_grad: int


@dataclass(frozen=True, eq=False)
class Result:
    """Result of `solve`.

    Attributes
    ----------
    x : ndarray of shape (d,)
        The solution. g(x) ≤ η holds for every status.
    status : Status
        Why the run ended.
    message : str
        One sentence with the figures and, if there is one, a remedy.
    certificate : Certificate
        Recomputed from (problem, x) after the run. From the run it uses only the scale (the null fit), which is a
        function of the problem alone.
    history : tuple of Record
        The last outer steps, at most 1000.
    n_outer, n_inner, n_grad, n_proj : int
        Outer steps, inner steps, evaluations of ψ with its gradient, projections.
    wall_s : float
        Wall-clock time in seconds.
    phase_s : dict of str to float
        The same by phase: "start" (the null fit), "steps" and "certificate".
    gamma : float
        Proximal weight γ.
    subsolver, levels, start : str
        The options that were used.
    surrogate : {"paper", "concave", "group"}
        How g was replaced by a convex function; "group" is "concave" for features with several coefficients.
    stages : tuple of Stage
        The rescaled problems of a continuation.
    parameters : theory.Parameters, optional
        K, T_k and the other numbers of the paper's corollaries, with preset="paper".
    tol : float
        Tolerance of the run.
    random_state : object
        As given.
    warnings : tuple of str
        Texts of the warnings.
    environment : dict of str to str
        dtype of the arithmetic, backend, threads, and the versions of levelprox, NumPy and Python.
    null : NullFit, optional
        The fit without penalized features, which `certify` can reuse.

    Examples
    --------
    >>> from levelprox import LinearModel, Problem, constraints, solve
    >>> result = solve(Problem(LinearModel([[1.0, 0.0], [0.0, 1.0]], [1.0, 3.0]), constraints.L1(), 2.0))
    >>> str(result.status), result.x.round(6).tolist(), round(result.g, 6)
    ('solved', [0.0, 2.0], 2.0)
    """

    x: Vector
    status: Status
    message: str
    certificate: Certificate
    history: tuple[Record, ...] = ()
    n_outer: int = 0
    n_inner: int = 0
    n_grad: int = 0
    n_proj: int = 0
    wall_s: float = 0.0
    phase_s: dict[str, float] = field(default_factory=dict, repr=False)
    gamma: float = 0.0
    subsolver: str = ""
    parameters: Parameters | None = None
    levels: str = ""
    start: str = ""
    stages: tuple[Stage, ...] = ()
    tol: float = 0.0
    random_state: Any = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict, repr=False)
    surrogate: str = ""
    null: NullFit | None = field(default=None, repr=False)

    @property
    def success(self) -> bool:
        """Whether the run ended as requested."""
        return self.status.success

    @property
    def code(self) -> int:
        """The status as a number."""
        return int(self.status)

    @property
    def psi(self) -> float:
        """ψ(x)."""
        return self.certificate.psi

    @property
    def g(self) -> float:
        """g(x) ≤ η."""
        return self.certificate.g

    @property
    def eta(self) -> float:
        """The level η."""
        return self.certificate.level

    @property
    def slack(self) -> float:
        """η − g(x) ≥ 0."""
        return self.certificate.slack

    @property
    def multiplier(self) -> float:
        """y: how fast ψ would fall if the level were raised."""
        return self.certificate.multiplier

    @property
    def kkt(self) -> float:
        """The scaled KKT residual, which is compared with tol."""
        return self.certificate.kkt

    @property
    def kkt_stat(self) -> float:
        """Stationarity, absolute: dist∞(0, ∂ψ + y ∂g)."""
        return self.certificate.stationarity

    @property
    def kkt_comp(self) -> float:
        """Complementarity, absolute: y |g(x) − η|."""
        return self.certificate.complementarity

    @property
    def kkt_feas(self) -> float:
        """Infeasibility: 0."""
        return self.certificate.infeasibility

    def __repr__(self) -> str:
        nonzero = int(np.count_nonzero(self.x))
        return (
            f"Result({self.status}: loss={self.psi:.6g}, g={self.g:.6g}, kkt={self.kkt:.1e}, "
            f"{nonzero} of {self.x.size} nonzero, {self.n_outer} steps, {self.wall_s:.2f} s)"
        )
