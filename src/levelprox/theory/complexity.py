"""Guarantees: Theorem "complexity_main", its two corollaries, AC-SA, the remark on finite sums.

The settings under which the corollaries hold are in paper_settings.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelprox._validation import real, whole
from levelprox.exceptions import InvalidInputError

if TYPE_CHECKING:
    from levelprox.theory.paper_settings import Parameters


@dataclass(frozen=True)
class Bounds:
    """The bounds of Theorem "complexity_main" on three expectations, over k̂ and all randomness.

    Parameters
    ----------
    stationarity : float
        Bound on E dist(∂_x L(x̄, ȳ), 0)².
    complementarity : float
        Bound on E ȳ|g(x̄) − η|.
    distance : float
        Bound on E ‖x − x̄‖².

    Examples
    --------
    >>> from levelprox import theory
    >>> theory.Bounds(stationarity=1e-3, complementarity=1e-4, distance=1e-5).distance
    1e-05
    """

    stationarity: float
    complementarity: float
    distance: float


def complexity_main(
    *,
    K: int,
    gamma: float,
    mu: float,
    rho: float,
    Z: float,
    gap: float,
    multiplier: float,
    lipschitz: float,
    rise: float,
) -> Bounds:
    """Return the bounds of Theorem "complexity_main" for levels η_k = (kη + η_0)/(k+1).

    Parameters
    ----------
    K : int
        Outer steps, K ≥ 3.
    gamma, mu, rho, Z : float
        γ > μ ≥ 0, ρ in [0, γ−μ), Z = Σ ζ_k.
    gap : float
        Δ⁰ = ψ(x⁰) − ψ(x*).
    multiplier : float
        B, an upper bound on every ȳ^k.
    lipschitz : float
        L_h, `Constraint.lipschitz` times the largest weight.
    rise : float
        η − η_0.

    Returns
    -------
    Bounds
        The bounds on stationarity, complementarity and distance.

    Examples
    --------
    >>> from levelprox import theory
    >>> theory.complexity_main(K=8, gamma=3.0, mu=1.0, rho=1.0, Z=0.0, gap=2.0, multiplier=1.0, lipschitz=0.0, rise=4.0)
    Bounds(stationarity=27.0, complementarity=1.0, distance=0.75)
    """
    K, left = whole("K", K, 3), _left(gamma, mu, rho)
    m = gamma - mu
    both = (m + rho) / m * gap + 2 * Z
    return Bounds(
        stationarity=8 * (gamma**2 + multiplier**2 * lipschitz**2) / (K * left) * both,
        complementarity=2 * multiplier * lipschitz / (K * left) * both + 2 * multiplier * rise / K,
        distance=4 * rho * (m + rho) / (K * m**2 * left) * gap + 8 * Z / (K * left),
    )


def composite(*, gamma: float, mu: float, rho: float, Z: float, gap: float) -> tuple[float, float]:
    """Return the bounds of Proposition "composite-2" on two sums of squared distances.

    Parameters
    ----------
    gamma, mu, rho : float
        γ > μ ≥ 0, ρ in [0, γ−μ).
    Z : float
        Σ_{k≥s−1} ζ_k.
    gap : float
        ψ(x^{s−2}) − ψ(x*).

    Returns
    -------
    tuple of float
        Bounds on Σ_{k≥s} ‖x^{k−1} − x̄^k‖² and on Σ_{k≥s} ‖x^k − x̄^k‖², s ≥ 2.

    Examples
    --------
    >>> from levelprox import theory
    >>> theory.composite(gamma=3.0, mu=1.0, rho=1.0, Z=0.0, gap=2.0)
    (6.0, 3.0)
    """
    m, left = gamma - mu, _left(gamma, mu, rho)
    a = (m + rho) / m * gap
    return 2 * (a + Z) / left, 2 * rho * a / (m * left) + 2 * Z / left


def corollary(
    parameters: Parameters, *, gap: float, multiplier: float, lipschitz: float, rise: float
) -> tuple[float, float]:
    """Return (ε_1, ε_2) of the corollaries: x^k̂ is an (ε_1, ε_2)-KKT point.

    ε_1 = (3Δ⁰/2 + 2Z)/K · max{16(γ² + B²L_h²), 4BL_h}/(γ−μ) + 2B(η−η_0)/K,   ε_2 = (6Δ⁰ + 16Z)/(K(γ−μ)).

    Parameters
    ----------
    parameters : Parameters
        The settings of the run, from `nonconvex`, `convex` or `proximal`.
    gap, multiplier, lipschitz, rise : float
        As in `complexity_main`.

    Returns
    -------
    tuple of float
        ε_1 and ε_2.

    Examples
    --------
    >>> from levelprox import theory
    >>> parameters = theory.nonconvex(mu=1.0, L=1.0, M=0.0, sigma=0.0, K=12)
    >>> theory.corollary(parameters, gap=2.0, multiplier=0.0, lipschitz=0.0, rise=0.0)
    (18.0, 0.5)
    """
    p, m = parameters, parameters.gamma - parameters.mu
    steepness = max(16 * (p.gamma**2 + multiplier**2 * lipschitz**2), 4 * multiplier * lipschitz) / m
    first = (1.5 * gap + 2 * p.Z) / p.K * steepness + 2 * multiplier * rise / p.K
    return first, (6 * gap + 16 * p.Z) / (p.K * m)


def acsa_bound(
    steps: int, distance_squared: float, *, gamma: float, mu: float, L: float, M: float = 0.0, sigma: float = 0.0
) -> float:
    """Return the bound on E[ψ_k(x^k) − ψ_k(x̄^k)] after T steps of AC-SA from x^{k−1}.

    2(L+γ)/(T(T+1)) ‖x^{k−1} − x̄^k‖² + 8(M²+σ²)/((γ−μ)(T+1)), slightly smaller than in Proposition "AC-SA".

    Parameters
    ----------
    steps : int
        T ≥ 1.
    distance_squared : float
        ‖x^{k−1} − x̄^k‖².
    gamma, mu, L, M, sigma : float
        γ > μ, and the weak convexity, smoothness and nonsmoothness of ψ and the noise of its gradients.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> from levelprox import theory
    >>> theory.acsa_bound(3, 6.0, gamma=3.0, mu=1.0, L=1.0)
    4.0
    """
    steps = whole("steps", steps, 1)
    noise = 8 * (M**2 + sigma**2) / _left(gamma, mu, 0.0)
    return 2 * (L + gamma) / (steps * (steps + 1)) * distance_squared + noise / (steps + 1)


def acsa_bound_paper(
    steps: int, distance_squared: float, *, gamma: float, mu: float, L: float, M: float = 0.0, sigma: float = 0.0
) -> float:
    """Return the bound as stated in Proposition "AC-SA": 2(L+γ)/T² ‖x^{k−1} − x̄^k‖² + 8(M²+σ²)/((γ−μ)T).

    Parameters
    ----------
    steps : int
        T ≥ 1.
    distance_squared : float
        ‖x^{k−1} − x̄^k‖².
    gamma, mu, L, M, sigma : float
        As in `acsa_bound`.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> from levelprox import theory
    >>> theory.acsa_bound_paper(4, 6.0, gamma=3.0, mu=1.0, L=1.0)
    3.0
    """
    steps = whole("steps", steps, 1)
    noise = 8 * (M**2 + sigma**2) / _left(gamma, mu, 0.0)
    return 2 * (L + gamma) / steps**2 * distance_squared + noise / steps


@dataclass(frozen=True)
class FiniteSum:
    """Gradient evaluations of single terms f_i for one subproblem of a sum, up to a constant and a logarithm.

    Parameters
    ----------
    nesterov : float
        With Nesterov's method.
    svrg : float
        With SVRG.

    Examples
    --------
    >>> from levelprox import theory
    >>> theory.FiniteSum(nesterov=2000.0, svrg=1004.0).svrg
    1004.0
    """

    nesterov: float
    svrg: float


def finite_sum_nonconvex(n: int, *, L: float, mu: float) -> FiniteSum:
    """Return the costs of Remark "Finite-sum problem" for μ > 0: n√((L+2μ)/μ) with Nesterov, n + (L+μ)/μ with SVRG.

    Parameters
    ----------
    n : int
        Number of terms.
    L, mu : float
        The smoothness and the weak convexity of ψ.

    Returns
    -------
    FiniteSum
        Gradient evaluations of single terms.

    Examples
    --------
    >>> from levelprox import theory
    >>> theory.finite_sum_nonconvex(1000, L=2.0, mu=1.0)
    FiniteSum(nesterov=2000.0, svrg=1003.0)
    """
    n, L, mu = whole("n", n, 1), in_range("L", L), in_range("mu", mu, above=0)
    return FiniteSum(nesterov=n * math.sqrt((L + 2 * mu) / mu), svrg=n + (L + mu) / mu)


def finite_sum_convex(n: int, *, beta: float) -> FiniteSum:
    """Return the costs of Remark "Finite-sum problem" for μ = 0 and γ = βL: n/√β with Nesterov, n + 1/β with SVRG.

    Parameters
    ----------
    n : int
        Number of terms.
    beta : float
        β in (0, 1).

    Returns
    -------
    FiniteSum
        Gradient evaluations of single terms.

    Examples
    --------
    >>> from levelprox import theory
    >>> theory.finite_sum_convex(1000, beta=0.25)
    FiniteSum(nesterov=2000.0, svrg=1004.0)
    """
    n, beta = whole("n", n, 1), in_range("beta", beta, above=0, below=1)
    return FiniteSum(nesterov=n / math.sqrt(beta), svrg=n + 1 / beta)


def _left(gamma: float, mu: float, rho: float) -> float:
    """Return γ − μ − ρ, after checking that ρ is in [0, γ−μ)."""
    gamma = in_range("gamma", gamma, above=in_range("mu", mu))
    if not 0 <= real("rho", rho) < gamma - mu:
        raise InvalidInputError(f"rho must be in [0, gamma - mu) = [0, {gamma - mu:g}), got {rho!r}")
    return gamma - mu - rho


def in_range(name: str, value: float, above: float | None = None, below: float = math.inf) -> float:
    """Return `value` as a float in [0, below), or in (above, below)."""
    number = real(name, value)
    if not number < below or number < 0 or (above is not None and number <= above):
        low = "[0" if above is None else f"({above:g}"
        raise InvalidInputError(f"{name} must be in {low}, {below:g}), got {value!r}")
    return number
