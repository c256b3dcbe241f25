"""L1, Exp, NegativeLp, Log and Lp: the cost of a coefficient rises with its size.

With t = |x|:

    L1            φ(t) = λt                        the ordinary ℓ1 norm: the convex constraint
    Exp           φ(t) = 1 − e^{−λt}               a smooth approximation of the count of nonzero coefficients
    NegativeLp    φ(t) = 1 − (1 + θt)^p            the ℓp function with p < 0; λ = −pθ
    Log           φ(t) = log(1 + θt)/log(1 + θ)    λ = θ/log(1 + θ)
    Lp            φ(t) = (t + ε)^p − ε^p           the ℓp quasi-norm to the power p, 0 < p < 1; λ = pε^{p−1}

The slope of L1 is constant, so large coefficients are shrunk as much as small ones. With h = 0 the level-constrained
method solves one convex problem.

Exp tends to 1 without reaching it, so a level of m allows a little more than m coefficients; a coefficient costs at
least 0.95 from t = 3/λ on. NegativeLp tends to 1 like a power of t, Exp exponentially, so the cost of large
coefficients still grows a little with their size. With −p → ∞ and pθ fixed it becomes Exp.

Log is scaled so that φ(1) = 1. It grows without bound, hence every level set is bounded and no level but 0 is
degenerate; θ → 0 is the ℓ1 norm, θ → ∞ the count of nonzeros.

The shift ε of Lp makes the slope at 0 finite, as h ∈ C¹ requires. Subtracting ε^p makes φ(0) = 0. The paper's function
(t + ε)^{1/θ}, p = 1/θ, is not 0 there: the origin costs dε^p. Only the level differs.

Table 2 of the paper, and for L1 the case h = 0 of its Assumption 1. The docstrings of the classes have the references.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from levelprox.constraints._base import CompiledConstraint, Double
from levelprox.projection import products_above


@dataclass(frozen=True)
class L1(CompiledConstraint):
    """The ℓ1 norm, whose cost is proportional to the size of a coefficient.

    φ(t) = lam * t, unbounded, with h = 0: the convex case of Assumption 1 of the paper. R. Tibshirani
    (1996), "Regression shrinkage and selection via the lasso", Journal of the Royal Statistical
    Society B 58(1), 267-288.

    Parameters
    ----------
    lam : float in (0, inf), default 1
        The slope.

    Examples
    --------
    >>> from levelprox.constraints import L1
    >>> L1().value([0.0, 2.0, -0.5])
    2.5
    """

    kernel_name: ClassVar[str] = "l1"

    lam: float = 1.0

    def __post_init__(self) -> None:
        self._check_parameters(lam=(0, np.inf))

    @property
    def lipschitz(self) -> float:
        """0, as h = 0."""
        return 0.0

    def kernel_parameters(self) -> tuple[float, ...]:
        """Return the parameters of the formula."""
        return (self.lam,)

    def _phi_above(self, t: Double) -> Double:
        return t if self.lam == 1 else products_above(np.full_like(t, self.lam), t)


@dataclass(frozen=True)
class Exp(CompiledConstraint):
    """The exponential function, a smooth count of the nonzero coefficients.

    φ(t) = 1 - exp(-lam * t), with supremum 1, not reached. Row "Exp" of Table 2 of the paper.
    P. S. Bradley and O. L. Mangasarian (1998), "Feature selection via concave minimization and support
    vector machines", Proceedings of the 15th International Conference on Machine Learning, 82-90.

    Parameters
    ----------
    lam : float in (0, inf)
        The slope at 0; a coefficient of 1/lam costs 1 - 1/e.

    Examples
    --------
    >>> from levelprox.constraints import Exp
    >>> round(Exp(lam=3.0).value([0.0, 10.0, -20.0]), 6)  # the number of nonzero coefficients
    2.0
    """

    kernel_name: ClassVar[str] = "exponential"

    lam: float

    def __post_init__(self) -> None:
        self._check_parameters(lam=(0, np.inf))
        self._check_range("lipschitz")

    @property
    def cap(self) -> float:
        """1, not reached."""
        return 1.0

    @property
    def lipschitz(self) -> float:
        """λ², the curvature at 0."""
        return self.lam * self.lam

    def kernel_parameters(self) -> tuple[float, ...]:
        """Return the parameters of the formula."""
        return (self.lam,)


@dataclass(frozen=True)
class NegativeLp(CompiledConstraint):
    """The ℓp function with p < 0, a smooth count of the nonzero coefficients.

    φ(t) = 1 - (1 + theta * t)**p, with supremum 1, not reached; the slope at 0 is lam = -p * theta. Row
    "ℓp, p<0" of Table 2 of the paper. B. D. Rao and K. Kreutz-Delgado (1999), "An affine scaling
    methodology for best basis selection", IEEE Transactions on Signal Processing 47(1), 187-200.

    Parameters
    ----------
    p : float in (-inf, 0)
        The power; the further from 0, the faster φ approaches 1.
    theta : float in (0, inf)
        The scale: φ(1/theta) = 1 - 2**p.

    Examples
    --------
    >>> from levelprox.constraints import NegativeLp
    >>> constraint = NegativeLp(p=-1.0, theta=1.0)
    >>> constraint.phi([0.0, 1.0, 3.0]).tolist()
    [0.0, 0.5, 0.75]
    """

    kernel_name: ClassVar[str] = "negative_lp"

    p: float
    theta: float

    def __post_init__(self) -> None:
        self._check_parameters(p=(-np.inf, 0), theta=(0, np.inf))
        self._check_range("lam", "lipschitz")

    @property
    def lam(self) -> float:
        """−pθ, the slope at 0."""
        return -self.p * self.theta

    @property
    def cap(self) -> float:
        """1, not reached."""
        return 1.0

    @property
    def lipschitz(self) -> float:
        """p(p−1)θ², the curvature at 0."""
        return (1 - self.p) * self.theta * self.lam

    def kernel_parameters(self) -> tuple[float, ...]:
        """Return the parameters of the formula."""
        return (self.p, self.theta)


@dataclass(frozen=True)
class Log(CompiledConstraint):
    """The logarithm, concave but unbounded, with φ(1) = 1.

    φ(t) = log(1 + theta * t) / log(1 + theta); the slope at 0 is lam = theta / log(1 + theta). Row "Log"
    of Table 2 of the paper. J. Weston, A. Elisseeff, B. Schölkopf and M. Tipping (2003), "Use of the
    zero-norm with linear models and kernel methods", Journal of Machine Learning Research 3, 1439-1461.

    Parameters
    ----------
    theta : float in (0, inf)
        Where φ bends: the slope is halved at t = 1/theta.

    Examples
    --------
    >>> from levelprox.constraints import Log
    >>> constraint = Log(theta=9.0)
    >>> constraint.phi([0.0, 1.0, 11.0]).tolist()
    [0.0, 1.0, 2.0]
    """

    kernel_name: ClassVar[str] = "logarithm"

    theta: float

    def __post_init__(self) -> None:
        self._check_parameters(theta=(0, np.inf))
        self._check_range("lam", "lipschitz")

    @property
    def lam(self) -> float:
        """θ/log(1 + θ), the slope at 0."""
        return self.theta / math.log1p(self.theta)

    @property
    def lipschitz(self) -> float:
        """θ²/log(1 + θ), the curvature at 0."""
        return self.theta * self.lam

    def kernel_parameters(self) -> tuple[float, ...]:
        """Return the parameters of the formula."""
        return (self.theta, self.lam)


@dataclass(frozen=True)
class Lp(CompiledConstraint):
    """The bridge function with 0 < p < 1, concave but unbounded.

    φ(t) = (t + epsilon)**p - epsilon**p; the slope at 0 is lam = p * epsilon**(p - 1). Row "ℓp, 0<p<1"
    of Table 2 of the paper, with p = 1/θ. W. J. Fu (1998), "Penalized regressions: the bridge versus the
    lasso", Journal of Computational and Graphical Statistics 7(3), 397-416.

    The paper's function does not subtract epsilon**p, so there d coefficients that are all 0 cost
    d * epsilon**p. Here the origin costs nothing; a level eta of the paper is the level
    eta - d * epsilon**p here (with weights, d is their sum).

    Parameters
    ----------
    p : float in (0, 1)
        The power.
    epsilon : float in (0, inf)
        The shift; the smaller it is, the steeper φ is at 0 and the closer to |x|**p.

    Examples
    --------
    >>> from levelprox.constraints import Lp
    >>> constraint = Lp(p=0.5, epsilon=0.25)
    >>> constraint.lam, constraint.value([0.0, 2.0, -6.0])
    (1.0, 3.0)
    """

    kernel_name: ClassVar[str] = "lp"

    p: float
    epsilon: float

    def __post_init__(self) -> None:
        self._check_parameters(p=(0, 1), epsilon=(0, np.inf))
        self._check_range("lam", "lipschitz")

    @property
    def lam(self) -> float:
        """pε^{p−1}, the slope at 0."""
        return self.p * (self._at_zero / self.epsilon)  # not ε^(p−1): rounding of p − 1 loses log ε digits

    @property
    def _at_zero(self) -> float:
        return math.pow(self.epsilon, self.p)

    @property
    def lipschitz(self) -> float:
        """p(1−p)ε^{p−2}, the curvature at 0."""
        return (1 - self.p) * self.lam / self.epsilon

    def kernel_parameters(self) -> tuple[float, ...]:
        """Return the parameters of the formula."""
        return (self.p, self.epsilon, self.lam)
