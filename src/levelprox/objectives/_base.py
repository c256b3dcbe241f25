"""ψ, the function that is minimised: its value and gradient at every x, and constants that describe its shape.

    ψ(x) ≥ ψ(y) + ⟨ψ'(y), x − y⟩ − μ/2 ‖x − y‖²                  (Assumption 1 of the paper)
    ψ(x) ≤ ψ(y) + ⟨ψ'(y), x − y⟩ + L/2 ‖x − y‖² + M ‖x − y‖      (its section on complexity)
    E ‖Ψ'(x, ξ) − ψ'(x)‖² ≤ σ²                                     (where only samples Ψ' of ψ' are seen)

| class       | adds                                                                                       |
|-------------|--------------------------------------------------------------------------------------------|
| `Objective` | `value_and_gradient` and constants; a user's own ψ needs no more (see `Function`)          |
| `Curved`    | ψ(x) = F(Ax + o): margins z = Ax + o, ∇ψ = A'∇F(z), ∇²ψ = A'∇²F(z)A                        |
| `Model`     | the features of a data matrix in A, samples and a ridge: see model.py                      |

Margins are linear in x: one product A·dx serves every point x + t·dx of a line search. A Newton step needs A·dx, A'r
and A'DA of the data, and nothing else.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Margins, Matrix, Vector
from levelprox.exceptions import adopt_renamed, renamed_attribute
from levelprox.objectives.feature_scale import FeatureScale

if TYPE_CHECKING:
    from levelprox.designs import Design


@dataclass(frozen=True, eq=False)
class Subgradients:
    """{center + A'ρ : |ρ| ≤ radius}, the subdifferential of a sum of losses with kinks.

    Parameters
    ----------
    center : ndarray of shape (d,)
    rows : Design of shape (m, d)
        A: the samples that sit at a kink.
    radius : ndarray of shape (m,)
    guess : ndarray of shape (m,)
        Some ρ of the set, perhaps a good one.
    slopes : ndarray of shape (n,)
        The slopes of all samples at ρ = 0.
    kinks : ndarray of int of shape (m,)
        Which samples sit at a kink.
    share : ndarray of shape (m,)
        Their weights in the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.objectives import LinearModel
    >>> psi = LinearModel(np.array([[1.0], [1.0]]), [0.0, 2.0], "absolute")
    >>> found = psi.subgradients(np.array([0.0]))
    >>> found.kinks.tolist(), found.radius.tolist(), found.center.tolist()
    ([0], [0.5], [-0.5])
    """

    center: Vector
    rows: Design
    radius: Vector
    guess: Vector
    slopes: Vector
    kinks: NDArray[np.intp]
    share: Vector

    def gradient(self, rho: Vector) -> Vector:
        """Return the subgradient at ρ."""
        return np.asarray(self.center + self.rows.rmatvec(rho), np.float64)

    def slopes_at(self, rho: Vector) -> Vector:
        """Return the slopes of all samples at ρ."""
        slopes = self.slopes.copy()
        slopes[self.kinks] += rho / self.share
        return slopes


class Objective(ABC):
    """ψ: ℝ^d → ℝ.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.objectives import Function
    >>> psi = Function(lambda x: (float(x @ x), 2 * x), 2)
    >>> psi.value_and_gradient(np.array([1.0, 2.0]))
    (5.0, array([2., 4.]))
    >>> psi.restrict(np.array([1])).dimension
    1
    """

    #: Whether ψ has a gradient everywhere.
    smooth: bool = True
    #: Whether only samples of ψ' can be had.
    sampled: bool = False
    #: Whether ψ(x) = F(Ax + o) with an available Hessian: see `Curved`.
    curved: bool = False
    #: Coefficients per feature: feature j has the coordinates j·n_outputs … (j+1)·n_outputs − 1.
    n_outputs: int = 1
    width = renamed_attribute("width", "n_outputs")

    def __init_subclass__(cls, **options: Any) -> None:
        """Accept the names that hooks had in 0.1."""
        super().__init_subclass__(**options)
        adopt_renamed(cls, {"exempt": "unpenalized", "dear": "expensive", "width": "n_outputs"})

    @property
    def unpenalized(self) -> NDArray[np.intp]:
        """Features that are never penalized, for any weight: the intercept, if there is one."""
        return np.empty(0, np.intp)

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of coordinates d."""

    @abstractmethod
    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        """ψ(x) and ∇ψ(x) (a subgradient where ψ has a kink)."""

    def refined_value(self, x: Vector, psi: float, enough: float) -> float:
        """ψ(x) as it is reported, where `psi` was computed for it.

        The same as `psi`, unless the rounding of margins may exceed `enough` and can be avoided.
        """
        return psi

    @abstractmethod
    def restrict(self, W: NDArray[np.intp]) -> Objective:
        """ψ as a function of the features in W (coordinates, where n_outputs is 1), the others held at zero."""

    @property
    @abstractmethod
    def weak_convexity(self) -> float:
        """μ of Assumption 1: ψ + μ/2 ‖·‖² is convex. 0 for convex ψ."""

    @property
    def convex(self) -> bool:
        """Whether ψ is known to be convex; cheap, where `weak_convexity` may need passes over the data."""
        return self.weak_convexity == 0

    @property
    @abstractmethod
    def curvature(self) -> float:
        """A typical size of the second derivative of ψ along one coordinate; it sets the scale of γ."""

    @property
    def feature_scale(self) -> FeatureScale | None:
        """In which units ∇ψ is measured, feature by feature; None where nothing is known of the features."""
        return None

    @property
    def smoothness(self) -> float:
        """L: how fast ∇ψ can change. inf where it is not known."""
        return math.inf

    @property
    def bounded_curvature(self) -> bool:
        """Whether `smoothness` is finite; cheap, where L itself may need passes over the data."""
        return math.isfinite(self.smoothness)

    @property
    def nonsmoothness(self) -> float:
        """M: how far subgradients can jump. 0 for differentiable ψ, inf where it is not known."""
        return 0.0 if self.smooth else math.inf

    @property
    def bounded_jumps(self) -> bool:
        """Whether `nonsmoothness` is finite; cheap, where M itself may need passes over the data."""
        return math.isfinite(self.nonsmoothness)

    @property
    def noise(self) -> float:
        """σ of one sample of the gradient. inf where it is not known, or cannot be bounded."""
        return math.inf

    @property
    def compiled(self) -> object:
        """What the compiled subsolvers evaluate: a kernel, or `value_and_gradient` itself."""
        return self.value_and_gradient

    @property
    def infimum(self) -> float:
        """A lower bound of ψ; −inf where none is known."""
        return -math.inf

    @property
    def attained(self) -> bool:
        """Whether ψ is known to have a minimiser, as far as its loss decides that."""
        return True

    @property
    def convex_start(self) -> Objective | None:
        """For ψ that is not convex, a convex one whose minimisers lead to good minima of it, where one is known."""
        return None

    def first_guess(self) -> Vector:
        """Where to begin a search for the minimiser of ψ: the origin, unless a better point is known."""
        return np.zeros(self.dimension)

    def is_separated(self, x: Vector) -> bool:
        """Whether ψ keeps decreasing along the ray through x, so that no minimiser exists without a level."""
        return False

    @property
    def evaluation_cost(self) -> int:
        """How many samples `value_and_gradient` takes where it averages over them; 1 where it is exact."""
        return 1

    def gradient_error(self, x: Vector) -> float:
        """Return standard error of ‖∇ψ(x)‖ where `value_and_gradient` averages over samples; 0 where it is exact."""
        return 0.0

    def disagreement(self, x: Vector, value: float, gradient: Vector) -> str:
        """Words for a gradient that contradicts the values around x; only a user's own ψ needs asking."""
        return ""

    def advice(self) -> str:
        """Return a sentence on what makes ψ hard to minimise, for those whose run did not converge; may be empty."""
        return ""

    def subgradients(self, x: Vector, hint: Vector | None = None) -> Subgradients | None:
        """Return the set of subgradients at x where it is more than one; None where ψ is differentiable.

        `hint` holds slopes of the samples, perhaps right ones: the start of the search for the best subgradient.
        """
        return None


class Curved(Objective):
    """ψ(x) = F(Ax + o).

    Margins are arrays of shape (n,), or (n, n_outputs) where a feature has several coefficients; points and gradients
    are always flat.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox.objectives import LinearModel
    >>> psi = LinearModel(np.array([[1.0, 0.0], [1.0, 2.0]]), [1.0, 3.0])
    >>> z = psi.margins(np.array([1.0, 1.0]))
    >>> z.tolist(), psi.value_of(z), psi.hessian_of(z, True).tolist()
    ([1.0, 3.0], 0.0, [[2.0, 2.0], [2.0, 4.0]])
    """

    #: Whether one evaluation is expensive (remote or out-of-core data): Newton steps come before first-order methods.
    expensive: bool = False

    #: Whether ψ sees only differences between the coefficients of a feature: all shifted alike, it stays the same.
    only_contrasts: bool = False

    @property
    @abstractmethod
    def n_margins(self) -> int:
        """How many margins there are: the Hessian has at most this rank."""

    @abstractmethod
    def margins(self, x: Vector) -> Margins:
        """z = Ax + o."""

    @property
    def origin(self) -> Margins:
        """The margins at x = 0."""
        return self.margins(np.zeros(self.dimension))

    @abstractmethod
    def moved(self, dx: Vector) -> Margins:
        """A·dx: how the margins change with x."""

    @abstractmethod
    def value_of(self, z: Margins) -> float:
        """F(z)."""

    @abstractmethod
    def gradient_of(self, z: Margins) -> Vector:
        """A'∇F(z)."""

    def evaluated(self, z: Margins, dx: Vector, with_hessian: bool) -> tuple[Margins, Vector, Matrix | None]:
        """Margins, gradient and, if requested, the convex Hessian after a step dx, in as few passes as that takes.

        From the margins before it: the rounding of A·dx is that of a small number, so ψ at both ends can be compared.
        """
        z = z + self.moved(dx)
        bends = with_hessian and bool(np.all(np.isfinite(z)))
        return z, self.gradient_of(z), self.hessian_of(z, True) if bends else None

    def along(self, before: Margins, after: Margins) -> Callable[[float], float]:
        """t ↦ F(z + t(z⁺ − z)) for margins z before and z⁺ after a step: margins are linear in the step."""
        step = after - before
        return lambda t: self.value_of(before + t * step)

    @abstractmethod
    def hessian_of(self, z: Margins, convex: bool) -> Matrix:
        """A'∇²F(z)A, of shape (dimension, dimension); where `convex` with |ℓ''| instead of ℓ'', so that it is PSD."""

    @abstractmethod
    def hessian_product_of(self, z: Margins, convex: bool) -> Callable[[Vector], Vector]:
        """v ↦ A'∇²F(z)Av, without forming the matrix."""

    @abstractmethod
    def hessian_diagonal_of(self, z: Margins, convex: bool) -> Vector:
        """Return the diagonal of that matrix."""
