"""ψ = E Ψ(·, ξ), known only through samples: the user's stochastic oracle.

    E Ψ'(x, ξ) = ψ'(x),    E ‖Ψ'(x, ξ) − ψ'(x)‖² ≤ σ²

The constants μ, L, M and σ are the user's word; the step lengths of AC-SA and the paper's bounds rest on them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from levelprox._typing import Vector
from levelprox._validation import whole
from levelprox.exceptions import InvalidInputError
from levelprox.objectives.user import Declared, Function, ValueAndGradient, constant

_EVALUATION = (0, 1)  # a seed that no random_state of a user gives: what is judged was not fitted to

Oracle = Callable[[Vector, np.random.Generator], "Vector | tuple[float, Vector]"]


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
        if self._smoothness == 0 and self._nonsmoothness == 0:
            raise InvalidInputError("declare smoothness (L) or nonsmoothness (M) of the objective: both are 0")
        self.oracle = oracle
        self.samples = whole("samples", samples, 2)
        self._noise = constant("noise", noise)
        self.exact = None if exact is None else Function(exact, self._dimension, *self.constants)

    @property
    def noise(self) -> float:
        return self._noise

    @property
    def evaluation_cost(self) -> int:
        return self.samples if self.exact is None else 1

    @cached_property
    def curvature(self) -> float:
        return self._smoothness or self._spread_over_values()

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
        if self.exact is not None:
            return 0.0
        return self._averages(x)[2]

    def restrict(self, W: NDArray[np.intp]) -> Stochastic:
        W = np.arange(self._dimension)[W]

        def on_w(x_w: Vector, rng: np.random.Generator) -> Vector | tuple[float, Vector]:
            x = np.zeros(self._dimension)
            x[W] = x_w
            value, gradient = self._draw(x, rng)
            return gradient[W] if value is None else (value, gradient[W])

        return Stochastic(
            on_w,
            len(W),
            noise=self._noise,
            smoothness=self._smoothness,
            nonsmoothness=self._nonsmoothness,
            weak_convexity=self._weak_convexity,
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
        rng = np.random.default_rng(_EVALUATION)
        values, mean, squares = 0.0, np.zeros(self._dimension), 0.0
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
            f"Stochastic({self._dimension} coordinates, noise={self._noise:g}, smoothness={self._smoothness:g}, "
            f"nonsmoothness={self._nonsmoothness:g}, weak_convexity={self._weak_convexity:g})"
        )
