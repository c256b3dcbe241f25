"""The interface of a sparsity constraint: one concave function of |x_j|, summed over the coordinates.

    g(x) = Σ_j ω_j φ(|x_j|),      φ(t) = λt − h(t),      t = |x_j| ≥ 0

h is convex and continuously differentiable with h(0) = h'(0) = 0 and h' ≤ λ, so φ rises from 0 with
slope λ and bends down from there. The method needs only λ and h: linearising h at the last point
turns g into a weighted ℓ1 norm that lies above g and touches it there, which is the convex set of one
outer step. The functions of the paper differ in how their cost grows for large coefficients: L1 grows
linearly, Log and Lp grow ever more slowly, MCP, SCAD, Exp and NegativeLp are bounded by a cap.

Linearising at t adds h(t) − h'(t)t to the level. This equals φ'(t)t − φ(t), which `slope` and `phi`
give without cancellation, so the interface has no separate method for it.

Assumption 1 and Table 2 of Boob, Deng, Lan and Wang (2020), "A Feasible Level Proximal Point Method
for Nonconvex Sparse Constrained Optimization", NeurIPS 33.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

import levelprox._kernels as _kernels
from levelprox._typing import FloatArray
from levelprox._validation import finite, real, real_array
from levelprox.exceptions import InvalidInputError
from levelprox.projection import products_above, sum_above

Double = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)
_PHI_ERROR = 6 * EPS  # of φ, relative
_TINY = 4 * float(np.finfo(np.float64).smallest_subnormal)


class Constraint(ABC):
    """Base class of the constraints: the function φ of one coordinate and its sum g over all of them.

    `phi`, `slope` and `curvature` take finite t = |x| ≥ 0 of any shape. They are computed in float64 and
    returned in the precision of t, so a float32 result is the rounded float64 one; a value beyond the
    range of the type is inf.

    A new constraint is a frozen dataclass that defines `lam`, `lipschitz`, `cap` and `threshold` where
    they are finite, and `_phi`, `_slope`, `_curvature` on float64 arrays.

    Attributes
    ----------
    lam : float
        λ, the slope of φ at 0.
    cap : float
        sup φ, the largest possible cost of one coordinate, rounded up; inf where φ is unbounded.
    lipschitz : float
        L_h, the smallest Lipschitz constant of h'.
    threshold : float
        The smallest t with φ(t) equal to its cap; inf where the cap is not reached.

    Examples
    --------
    >>> from levelprox.constraints import MCP, Constraint
    >>> constraint = MCP(lam=2.0, theta=0.5)
    >>> isinstance(constraint, Constraint)
    True
    >>> constraint.lam, constraint.cap, constraint.lipschitz, constraint.threshold
    (2.0, 1.0, 2.0, 1.0)
    """

    if TYPE_CHECKING:  # at run time a dataclass would take these properties for defaults of its parameters

        @property
        @abstractmethod
        def lam(self) -> float:
            """λ, the slope of φ at 0."""

        @property
        @abstractmethod
        def lipschitz(self) -> float:
            """L_h, the smallest Lipschitz constant of h'."""

    @property
    def cap(self) -> float:
        """The supremum of φ, rounded up; inf where φ is unbounded."""
        return math.inf

    @property
    def threshold(self) -> float:
        """The smallest t with φ(t) equal to the cap; inf where the cap is not reached."""
        return math.inf

    @abstractmethod
    def _phi(self, t: Double) -> Double: ...

    @abstractmethod
    def _slope(self, t: Double) -> Double: ...

    @abstractmethod
    def _curvature(self, t: Double) -> Double: ...

    @property
    def compiled(self) -> _kernels.Penalty:
        """φ in the form of the kernels: a compiled formula, or calls of this object."""
        return _kernels.PythonPenalty(self)

    def phi(self, t: ArrayLike) -> FloatArray:
        """Return φ(t), the cost of a coordinate of size t."""
        return _in_double(self._phi_from_zero, t)

    def slope(self, t: ArrayLike) -> FloatArray:
        """Return φ'(t) = λ − h'(t), which falls from λ at 0 to exactly 0 at the threshold."""
        return _in_double(self._slope, t)

    def curvature(self, t: ArrayLike) -> FloatArray:
        """Return h''(t) = −φ''(t) where it exists; at a kink of φ', the value of one side."""
        return _in_double(self._curvature, t)

    def value(self, x: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return g(x) = Σ_j ω_j φ(|x_j|), summed in float64.

        Parameters
        ----------
        x : array_like
            The coefficients, of any shape.
        weights : array_like of the same shape, optional
            ω ≥ 0, one per coefficient; all 1 by default. A coefficient of weight 0 is unpenalized.

        Returns
        -------
        float
            The cost g(x).
        """
        given = real_array("x", x)
        omega = None if weights is None else _weights(weights, given.shape)
        return self.total(given.astype(np.float64, copy=False), omega)

    def total(self, x: Double, weights: Double | None) -> float:
        """Return g(x) as `value` does, for arrays that have been validated."""
        omega = None if weights is None else np.ascontiguousarray(weights).reshape(-1)
        return self.compiled.total(np.ascontiguousarray(x).reshape(-1), omega)

    def total_above(self, x: Double, weights: Double | None) -> float:
        """Return g(x) rounded up by a few units in the last place, for arrays that have been validated.

        If the returned value is at most η, so is g(x) in exact arithmetic. It equals g(x) if that is a float64 and
        every coefficient is at the cap, so that a level that counts features counts exactly.
        """
        t, omega = _charged(x, weights)
        with np.errstate(over="ignore", under="ignore"):
            cost = self._phi_above(t)
        return sum_above(cost if omega is None else products_above(omega, cost))

    def _phi_above(self, t: Double) -> Double:
        """Return φ(t) rounded up; the relative error of `phi` is below 1e-15, and one digit for subnormal numbers."""
        above = self._phi_from_zero(t) * (1 + _PHI_ERROR) + _TINY
        return np.minimum(above, self.cap)

    def _phi_from_zero(self, t: Double) -> Double:
        # φ(t) = λt(1 − δ) with δ ≤ L_h t/(2λ). Where δ is below rounding, λt is more accurate: terms such as θt
        # underflow for tiny t.
        return np.where(t < self._linear_below, self.lam * t, self._phi(t))

    @cached_property
    def _linear_below(self) -> float:
        return EPS * self.lam / self.lipschitz if self.lipschitz else math.inf

    def _check_parameters(self, **intervals: tuple[float, float]) -> None:
        """Store each named parameter as a float, or raise an error that names its open interval."""
        for name, (low, high) in intervals.items():
            object.__setattr__(self, name, in_interval(name, getattr(self, name), low, high))

    def _check_range(self, *constants: str) -> None:
        """Raise an error if a derived constant is outside the range of float64."""
        for name in constants:
            constant = getattr(self, name)
            if not 0 < constant < math.inf:
                raise InvalidInputError(
                    f"{self!r} has {name} = {constant:g}, beyond the range of float64; choose less extreme parameters"
                )


class CompiledConstraint(Constraint):
    """Base class of the constraints whose φ is compiled (`kernels/algorithms/penalty.cpp`).

    A subclass that overrides one of the functions of φ is evaluated in Python.

    Attributes
    ----------
    kernel_name : str
        The name of the formula.
    """

    kernel_name: ClassVar[str]

    @abstractmethod
    def kernel_parameters(self) -> tuple[float, ...]:
        """Return the parameters of the formula."""

    @property
    def is_formula(self) -> bool:
        """Whether φ is the compiled formula, not overridden."""
        return attrgetter(*_OF_FORMULAS)(type(self)) == tuple(_OF_FORMULAS.values())

    @property
    def compiled(self) -> _kernels.Penalty:
        """φ in the form of the kernels."""
        return self._formula if self.is_formula else super().compiled

    @property
    def _formula(self) -> _kernels.Penalty:
        return compiled_penalty(self.kernel_name, self.kernel_parameters(), 1.0)

    def _phi(self, t: Double) -> Double:
        return self._formula.phi(t)

    def _slope(self, t: Double) -> Double:
        return self._formula.slope(t)

    def _curvature(self, t: Double) -> Double:
        return self._formula.curvature(t)


_OF_FORMULAS = {
    name: getattr(CompiledConstraint, name) for name in ("phi", "slope", "curvature", "_phi", "_slope", "_curvature")
}


@lru_cache(maxsize=256)
def compiled_penalty(name: str, parameters: tuple[float, ...], factor: float) -> _kernels.Penalty:
    """Return φ(t/factor) for a compiled formula φ."""
    return _kernels.penalty(name, list(parameters), factor)


@dataclass(frozen=True)
class Rescaled(Constraint):
    """The constraint φ(t/c) for another constraint φ, with λ/c for λ.

    The larger c, the closer it is to a linear function: as c → ∞ the set {g_c ≤ η} becomes an ℓ1 ball and the problem
    convex. MCP and SCAD keep their cap and multiply their threshold by c; Exp takes λ/c for λ, NegativeLp and Log take
    θ/c for θ, Lp takes cε for ε.

    Parameters
    ----------
    constraint : Constraint
        φ.
    factor : float
        c > 0; 1 is φ itself.

    Examples
    --------
    >>> from levelprox.constraints import Log, Rescaled
    >>> Rescaled(Log(theta=9.0), factor=2.0).phi([0.0, 2.0, 22.0]).tolist()
    [0.0, 1.0, 2.0]
    """

    former_names: ClassVar[tuple[str, ...]] = ("Widened",)  # in model files

    constraint: Constraint
    factor: float

    @cached_property
    def lam(self) -> float:
        """λ/c."""
        return self.constraint.lam / self.factor

    @cached_property
    def lipschitz(self) -> float:
        """L_h/c²."""
        return self.constraint.lipschitz / self.factor / self.factor

    @property
    def cap(self) -> float:
        """That of φ."""
        return self.constraint.cap

    @property
    def threshold(self) -> float:
        """c times that of φ."""
        return self.constraint.threshold * self.factor

    def level_of(self, level: float) -> float:
        """Return the equivalent level: the same number of caps or, without a cap, of coefficients of size 1."""
        if math.isfinite(self.cap):
            return level
        return level * float(self.phi(1.0)) / float(self.constraint.phi(1.0))

    @property
    def compiled(self) -> _kernels.Penalty:
        """φ(t/c) in the form of the kernels."""
        inner = self.constraint
        if type(self) is Rescaled and isinstance(inner, CompiledConstraint) and inner.is_formula:
            return compiled_penalty(inner.kernel_name, inner.kernel_parameters(), self.factor)
        return super().compiled

    def _phi(self, t: Double) -> Double:
        return self.constraint._phi_from_zero(t / self.factor)

    def _slope(self, t: Double) -> Double:
        return self.constraint._slope(t / self.factor) / self.factor

    def _curvature(self, t: Double) -> Double:
        return self.constraint._curvature(t / self.factor) / self.factor / self.factor


def in_interval(name: str, value: object, low: float, high: float) -> float:
    """Return `value` as a float, or raise an error that names the open interval it must be in."""
    try:
        number = real(name, value)
    except (InvalidInputError, OverflowError):
        number = math.nan
    if not low < number < high:
        raise InvalidInputError(f"{name} must be in ({low:g}, {high:g}), got {value!r}")
    return number


C = TypeVar("C", bound=Constraint)


def unit_cap(build: Callable[[float, float], C], first: float, second: float, threshold: float) -> C:
    """Find the constraint closest to build(first, second) whose cap is 1 to the last bit.

    With the plain formulas the cap is off by one ulp in one case of five, but a level that counts
    features must count exactly. The two parameters are therefore moved by a few ulps until the cap is 1
    (in exact arithmetic not above 1) and the threshold is at most the requested one, and below it by at
    most 1.6e-15 of it. For a few unusual theta of SCAD no such pair exists; the plain one is returned.
    """
    lowest = threshold * (1 - 7 * EPS)
    try:
        for i, j in _ULPS:
            constraint = build(first + i * math.ulp(first), second + j * math.ulp(second))
            if constraint.cap == 1 and lowest <= constraint.threshold <= threshold:
                return constraint
        return build(first, second)
    except InvalidInputError:
        message = f"threshold = {threshold!r} needs parameters beyond the range of float64"
        raise InvalidInputError(message) from None


_ULPS = sorted(itertools.product(range(-16, 17), repeat=2), key=lambda step: abs(step[0]) + abs(step[1]))


def _in_double(function: Callable[[Double], Double], t: ArrayLike) -> FloatArray:
    given = real_array("t", t)
    with np.errstate(over="ignore", under="ignore"):
        result = np.asarray(function(given.astype(np.float64, copy=False))).astype(given.dtype)
    return result[()]  # a number for a number, as NumPy's own functions do


def above(number: Fraction) -> float:
    """Return the smallest float64 that is not below a positive rational number; 0 or inf beyond their range."""
    try:
        nearest = float(number)
    except OverflowError:
        return math.inf
    return math.nextafter(nearest, math.inf) if 0 < nearest < number else nearest


def _charged(x: Double, weights: Double | None) -> tuple[Double, Double | None]:
    """Return |x| and the weights at the places where neither is zero.

    The cost of an unpenalized coefficient may be inf, and 0 * inf is NaN.
    """
    places = (x != 0 if weights is None else (x != 0) & (weights > 0)).nonzero()
    return np.abs(x[places]), None if weights is None else weights[places]


def _weights(weights: ArrayLike, shape: tuple[int, ...]) -> Double:
    omega = finite("weights", real_array("weights", weights)).astype(np.float64, copy=False)
    if omega.shape != shape:
        raise InvalidInputError(f"weights must have the shape of x, {shape}, got {omega.shape}")
    if (omega < 0).any():
        place = ", ".join(str(int(i)) for i in np.argwhere(omega < 0)[0])
        raise InvalidInputError(f"weights must be in [0, inf), got {omega[omega < 0][0]:g} at index {place}")
    return omega
