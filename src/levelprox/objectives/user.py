"""ψ given by the user, with the constants μ, L and M of `_base.py` as declared.

`Function` is a function x ↦ (ψ(x), ∇ψ(x)). `Stochastic` is ψ = E Ψ(·, ξ), known only through samples:

    E Ψ'(x, ξ) = ψ'(x),    E ‖Ψ'(x, ξ) − ψ'(x)‖² ≤ σ²

The step lengths of AC-SA and the paper's bounds rest on the declared constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Vector
from levelprox._validation import real, real_array, whole
from levelprox.exceptions import InvalidInputError
from levelprox.objectives._base import Objective

ValueAndGradient = Callable[[Vector], tuple[float, Vector]]
Oracle = Callable[[Vector, np.random.Generator], "Vector | tuple[float, Vector]"]

_EVALUATION_SEED = (0, 1)  # no random_state of a user gives it: the samples of an evaluation are not those of a fit


class Declared(Objective):
    """What is known of a user's ψ.

    Parameters
    ----------
    dimension : int
        d.
    weak_convexity, nonsmoothness : float
        μ and M, in [0, inf).
    smoothness : float
        L in [0, inf]; inf is unknown.
    """

    dimension: int = 0
    weak_convexity: float = 0.0
    smoothness: float = math.inf
    nonsmoothness: float = 0.0

    def __init__(self, dimension: int, weak_convexity: float, smoothness: float, nonsmoothness: float) -> None:
        self._declare(
            dimension=whole("the number of coordinates", dimension, 1),
            weak_convexity=constant("weak_convexity", weak_convexity),
            smoothness=math.inf if smoothness == math.inf else constant("smoothness", smoothness),
            nonsmoothness=constant("nonsmoothness", nonsmoothness),
        )
        self.smooth = self.nonsmoothness == 0

    def _declare(self, **constants: float) -> None:
        """Set constants; a subclass that defines one as a property has its own."""
        vars(self).update(constants)

    @property
    def constants(self) -> tuple[float, float, float]:
        """μ, L and M."""
        return self.weak_convexity, self.smoothness, self.nonsmoothness

    def _spread_over_values(self) -> float:
        """M²/|ψ(0)|, what stands for a second derivative where ψ has kinks."""
        value = abs(self.value_and_gradient(np.zeros(self.dimension))[0])
        return max(self.weak_convexity, self.nonsmoothness**2 / value if 0 < value < np.inf else 1.0)

    def checked_gradient(self, gradient: object) -> Vector:
        """Return a copy of the user's gradient in float64, of the right shape; NaN and infinities are passed on."""
        slope = np.array(real_array("the gradient", gradient), dtype=np.float64)
        if slope.shape != (self.dimension,):
            raise InvalidInputError(f"the gradient must have shape ({self.dimension},), got {slope.shape}")
        return slope

    @staticmethod
    def checked_value(value: object) -> float:
        """Return the user's value as a float; NaN and infinities are passed on."""
        number = real_array("the value", value)
        if number.ndim != 0:
            raise InvalidInputError(f"the value must be a real number, got an array of shape {number.shape}")
        return float(number)


def constant(name: str, value: object) -> float:
    """One of the constants μ, L, M, σ that the user declares, as a float in [0, inf)."""
    number = real(name, value)
    if not 0 <= number < np.inf:
        raise InvalidInputError(f"{name} must be in [0, inf), got {value!r}")
    return number


class Function(Declared):
    """The user's own ψ.

    Parameters
    ----------
    fun : callable
        x ↦ (value, gradient): a real number and an array of shape (d,).
    dimension : int
        d.
    weak_convexity : float, default=0.0
        μ ≥ 0 such that ψ + μ/2 ‖·‖² is convex; 0 says that ψ is convex.
    smoothness : float, optional
        L, the Lipschitz constant of ∇ψ (of its smooth part). Some subsolvers need it.
    nonsmoothness : float, default=0.0
        M: subgradients of ψ jump by at most this. 0 says that ψ is differentiable; 2C is right for a
        function with Lipschitz constant C.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import Function, Problem, constraints, solve
    >>> target = np.array([3.0, 0.1])
    >>> psi = Function(lambda x: (float(np.sum((x - target) ** 2)), 2 * (x - target)), 2, smoothness=2.0)
    >>> solve(Problem(psi, constraints.L1(), 1.0)).x.round(6).tolist()
    [1.0, 0.0]
    """

    def __init__(
        self,
        fun: ValueAndGradient,
        dimension: int,
        weak_convexity: float = 0.0,
        smoothness: float = math.inf,
        nonsmoothness: float = 0.0,
    ) -> None:
        if not callable(fun):
            raise InvalidInputError(f"fun must be a function x -> (value, gradient), got {type(fun).__name__}")
        super().__init__(dimension, weak_convexity, smoothness, nonsmoothness)
        self.fun = fun

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        """ψ(x) and ∇ψ(x), with their types and shapes checked; NaN and infinities are passed on.

        The function gets a copy of x, and its gradient is copied: it may overwrite either.
        """
        answer = self.fun(np.array(x))
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise InvalidInputError(f"fun must return (value, gradient), got {type(answer).__name__}")
        value, gradient = answer
        slope = self.checked_gradient(gradient)
        return self.checked_value(value), slope

    def disagreement(self, x: Vector, value: float, gradient: Vector) -> str:
        """Words for a gradient that contradicts the values around x; empty where they agree."""
        length = float(np.linalg.norm(gradient)) if self.smooth else math.inf
        if not (np.isfinite(length) and length > 0):
            return ""
        step = 1e-5 * max(1.0, float(np.linalg.norm(x))) / length
        try:
            ahead, behind = (self.value_and_gradient(x + sign * step * gradient)[0] for sign in (1, -1))
        except Exception:  # not defined there, perhaps: nothing can be said
            return ""
        measured, claimed = (ahead - behind) / (2 * step), length**2
        rounding = 1e-14 * abs(value) / step
        if not np.isfinite(measured) or abs(measured - claimed) <= 0.05 * claimed + rounding:
            return ""
        return (
            f"the gradient does not agree with the value at the start: along itself the function rises at the rate "
            f"{measured / length:.3g}, but the gradient says {length:.3g}"
        )

    def restrict(self, W: NDArray[np.intp]) -> Function:
        """Return ψ as a function of the features in W (coordinates, where n_outputs is 1), the others held at zero."""
        W = np.arange(self.dimension)[W]

        def on_w(x_w: Vector) -> tuple[float, Vector]:
            x = np.zeros(self.dimension)
            x[W] = x_w
            value, gradient = self.value_and_gradient(x)
            return value, gradient[W]

        return Function(on_w, len(W), *self.constants)

    @cached_property
    def curvature(self) -> float:
        """Change of the gradient over a short step along it from the origin, M²/|ψ(0)| at kinks; at least μ."""
        try:
            if not self.smooth:
                return self._spread_over_values()
            _, slope = self.value_and_gradient(np.zeros(self.dimension))
            length = float(np.linalg.norm(slope))
            if not (np.isfinite(length) and length > 0):
                return max(self.weak_convexity, 1.0)
            _, further = self.value_and_gradient(-1e-4 / length * slope)
        except Exception:  # not defined there, perhaps: steps will find their length
            return max(self.weak_convexity, 1.0)
        estimate = float(np.linalg.norm(further - slope)) / 1e-4
        return max(estimate if np.isfinite(estimate) and estimate > 0 else 1.0, self.weak_convexity)


class Stochastic(Declared):
    """The user's stochastic oracle.

    Parameters
    ----------
    oracle : callable
        (x, rng) ↦ Ψ'(x, ξ), a (sub)gradient of one sample, of shape (d,); or the pair (Ψ(x, ξ), Ψ'(x, ξ)).
        ξ must be drawn from `rng` alone, so that a seed repeats a run.
    dimension : int
        d.
    noise : float
        σ ≥ 0 with E‖Ψ'(x, ξ) − ψ'(x)‖² ≤ σ² at every x: of the whole vector, not of one coordinate.
    smoothness : float, default=0.0
        L ≥ 0, of the smooth part of ψ.
    nonsmoothness : float, default=0.0
        M ≥ 0; 0 says that ψ is differentiable.
    weak_convexity : float, default=0.0
        μ ≥ 0; 0 says that ψ is convex.
    exact : callable, optional
        x ↦ (ψ(x), ψ'(x)), where that can be had: for the certificate only.
    samples : int, default=1000
        Without `exact`, ψ and ψ' are averages over this many samples, the same ones at every x; the
        certificate then gives their standard error. Where the oracle gives no values, ψ is reported
        relative to ψ(0), as the mean of ⟨Ψ'(tx, ξ), x⟩ over t uniform in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import Stochastic
    >>> psi = Stochastic(lambda x, rng: 2 * x + rng.standard_normal(2), 2, noise=2.0, smoothness=2.0)
    >>> psi.dimension, psi.noise
    (2, 2.0)
    """

    sampled = True
    noise: float = 0.0

    def __init__(
        self,
        oracle: Oracle,
        dimension: int,
        *,
        noise: float,
        smoothness: float = 0.0,
        nonsmoothness: float = 0.0,
        weak_convexity: float = 0.0,
        exact: ValueAndGradient | None = None,
        samples: int = 1000,
    ) -> None:
        if not callable(oracle):
            raise InvalidInputError(f"oracle must be a function (x, rng) -> subgradient, got {type(oracle).__name__}")
        super().__init__(dimension, weak_convexity, constant("smoothness", smoothness), nonsmoothness)
        if self.smoothness == 0 and self.nonsmoothness == 0:
            raise InvalidInputError("declare smoothness (L) or nonsmoothness (M) of the objective: both are 0")
        self.oracle = oracle
        self.samples = whole("samples", samples, 2)
        self._declare(noise=constant("noise", noise))
        self.exact = None if exact is None else Function(exact, self.dimension, *self.constants)

    @property
    def evaluation_cost(self) -> int:
        """How many samples `value_and_gradient` takes where it averages over them; 1 where it is exact."""
        return self.samples if self.exact is None else 1

    @cached_property
    def curvature(self) -> float:
        """A typical size of the second derivative of ψ along one coordinate; it sets the scale of γ."""
        return self.smoothness or self._spread_over_values()

    def sample(self, x: Vector, rng: np.random.Generator) -> Vector:
        """Ψ'(x, ξ) for one ξ, with its shape checked; NaN and infinities are passed on."""
        return self._draw(x, rng)[1]

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        """ψ(x) and ψ'(x): exact where the user gave that, averages over samples otherwise."""
        if self.exact is not None:
            return self.exact.value_and_gradient(x)
        value, gradient, _ = self._averages(x)
        return value, gradient

    def gradient_error(self, x: Vector) -> float:
        """Return standard error of ‖∇ψ(x)‖ where `value_and_gradient` averages over samples; 0 where it is exact."""
        if self.exact is not None:
            return 0.0
        return self._averages(x)[2]

    def restrict(self, W: NDArray[np.intp]) -> Stochastic:
        """Return ψ as a function of the features in W (coordinates, where n_outputs is 1), the others held at zero."""
        W = np.arange(self.dimension)[W]

        def on_w(x_w: Vector, rng: np.random.Generator) -> Vector | tuple[float, Vector]:
            x = np.zeros(self.dimension)
            x[W] = x_w
            value, gradient = self._draw(x, rng)
            return gradient[W] if value is None else (value, gradient[W])

        return Stochastic(
            on_w,
            len(W),
            noise=self.noise,
            smoothness=self.smoothness,
            nonsmoothness=self.nonsmoothness,
            weak_convexity=self.weak_convexity,
            exact=None if self.exact is None else self.exact.restrict(W).fun,
            samples=self.samples,
        )

    def _draw(self, x: Vector, rng: np.random.Generator) -> tuple[float | None, Vector]:
        answer = self.oracle(np.array(x), rng)
        if isinstance(answer, tuple):
            if len(answer) != 2:
                raise InvalidInputError(
                    f"the oracle must return a gradient or (value, gradient), got {len(answer)} things"
                )
            return self.checked_value(answer[0]), self.checked_gradient(answer[1])
        return None, self.checked_gradient(answer)

    def _averages(self, x: Vector) -> tuple[float, Vector, float]:
        """Means of Ψ and Ψ' over the samples of one seed, and the standard error of the latter."""
        rng = np.random.default_rng(_EVALUATION_SEED)
        values, mean, squares = 0.0, np.zeros(self.dimension), 0.0
        for n in range(1, self.samples + 1):
            value, gradient = self._draw(x, rng)
            if value is None:
                t = rng.random()
                value = float(self._draw(t * x, rng)[1] @ x)
            values += value
            apart = gradient - mean  # Welford: no difference of large sums
            mean = mean + apart / n
            squares += float(apart @ (gradient - mean))
        error = np.sqrt(squares / (self.samples - 1) / self.samples)
        return values / self.samples, mean, float(error)

    def __repr__(self) -> str:
        return (
            f"Stochastic({self.dimension} coordinates, noise={self.noise:g}, smoothness={self.smoothness:g}, "
            f"nonsmoothness={self.nonsmoothness:g}, weak_convexity={self.weak_convexity:g})"
        )
