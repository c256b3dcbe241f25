"""Parameters and guarantees: Theorem "complexity_main", its two corollaries, AC-SA, the remark on finite sums.

Both corollaries are one: for any γ > μ take ρ = (γ − μ)/2 and

    T_k = ⌈max{2√((L + γ)/ρ), K(M + σ)}⌉,      then      Z = Σ ζ_k ≤ 8(M + σ)/(γ − μ).

γ = 3μ is the corollary for nonconvex ψ, γ = βL the one for convex ψ; where L = 0, too, any γ > 0 will do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from levelprox._validation import real, whole
from levelprox.exceptions import InvalidInputError


@dataclass(frozen=True)
class Parameters:
    """How to run LCPP with AC-SA for K outer steps so that the corollaries hold.

    Attributes
    ----------
    gamma, rho : float
        γ, and ρ of the inexactness E[ψ_k(x^k) − ψ_k(x̄^k)] ≤ ρ/2 ‖x̄^k − x^{k−1}‖² + ζ_k.
    steps : int
        T_k ≥ 1, the same for every k.
    K : int
        Outer steps, fixed in advance: T_k depends on it.
    zeta, Z : float
        ζ_k = 8(M² + σ²)/((γ−μ)T_k), and the corollaries' bound 8(M + σ)/(γ−μ) on their sum.
    mu, L, M, sigma : float
        What is known of ψ.
    """

    gamma: float
    rho: float
    steps: int
    K: int
    zeta: float
    Z: float
    mu: float
    L: float
    M: float
    sigma: float


def nonconvex(*, mu: float, L: float, M: float, sigma: float, K: int) -> Parameters:
    """Corollary "unified_complexity_main": μ > 0, γ = 3μ, ρ = μ, T_k = max{2√(L/μ + 3), K(M + σ)}."""
    mu = _in_range("mu", mu, above=0)
    return proximal(gamma=3 * mu, mu=mu, L=L, M=M, sigma=sigma, K=K)


def convex(*, L: float, M: float, sigma: float, K: int, beta: float) -> Parameters:
    """Corollary "unified_complexity_convex": γ = βL, ρ = βL/2, T_k = max{2√(2(1 + β)/β), K(M + σ)}.

    β in (0, 1) and L > 0; for L = 0, see `proximal`.
    """
    beta = _in_range("beta", beta, above=0, below=1)
    L = _in_range("L", L, above=0)
    return proximal(gamma=beta * L, mu=0.0, L=L, M=M, sigma=sigma, K=K)


def proximal(*, gamma: float, mu: float, L: float, M: float, sigma: float, K: int) -> Parameters:
    """The same for any γ > μ, such as for purely nonsmooth ψ (L = μ = 0): ρ = (γ − μ)/2."""
    L, M, sigma, mu = (_in_range(name, value) for name, value in (("L", L), ("M", M), ("sigma", sigma), ("mu", mu)))
    gamma = _in_range("gamma", gamma, above=mu)
    K = whole("K", K, 3)
    rho = (gamma - mu) / 2
    steps = max(1, math.ceil(_steps(L, M, sigma, gamma, rho, K)))
    zeta = 8 * (M**2 + sigma**2) / ((gamma - mu) * steps)
    return Parameters(gamma, rho, steps, K, zeta, 8 * (M + sigma) / (gamma - mu), mu, L, M, sigma)


def _steps(L: float, M: float, sigma: float, gamma: float, rho: float, K: int) -> float:
    """T_k: with it 2(L + γ)/T_k² ≤ ρ/2, and ζ_k falls as 1/K."""
    return max(2 * math.sqrt((L + gamma) / rho), K * (M + sigma))


@dataclass(frozen=True)
class Bounds:
    """The right-hand sides of Theorem "complexity_main", means over k̂ and all randomness.

    Attributes
    ----------
    stationarity : float
        Of dist(∂_x L(x̄, ȳ), 0)².
    complementarity : float
        Of ȳ|g(x̄) − η|.
    distance : float
        Of ‖x − x̄‖².
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
    """Theorem "complexity_main" for levels η_k = (kη + η_0)/(k+1).

    Parameters
    ----------
    K : int
        Outer steps, K ≥ 3.
    gamma, mu, rho, Z : float
        γ > μ ≥ 0, ρ in [0, γ−μ), Z = Σ ζ_k.
    gap : float
        Δ⁰ = ψ(x⁰) − ψ(x*).
    multiplier : float
        B, at least every ȳ^k.
    lipschitz : float
        L_h, `Constraint.lipschitz` times the largest weight.
    rise : float
        η − η_0.
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
    """Proposition "composite-2": bounds on Σ_{k≥s} ‖x^{k−1} − x̄^k‖² and Σ_{k≥s} ‖x^k − x̄^k‖², s ≥ 2.

    `gap` is ψ(x^{s−2}) − ψ(x*), and Z = Σ_{k≥s−1} ζ_k.
    """
    m, left = gamma - mu, _left(gamma, mu, rho)
    a = (m + rho) / m * gap
    return 2 * (a + Z) / left, 2 * rho * a / (m * left) + 2 * Z / left


def corollary(
    parameters: Parameters, *, gap: float, multiplier: float, lipschitz: float, rise: float
) -> tuple[float, float]:
    """(ε_1, ε_2) of both corollaries: x^k̂ is an (ε_1, ε_2)-KKT point; arguments as of `complexity_main`.

    ε_1 = (3Δ⁰/2 + 2Z)/K · max{16(γ² + B²L_h²), 4BL_h}/(γ−μ) + 2B(η−η_0)/K,   ε_2 = (6Δ⁰ + 16Z)/(K(γ−μ)).
    """
    p, m = parameters, parameters.gamma - parameters.mu
    steepness = max(16 * (p.gamma**2 + multiplier**2 * lipschitz**2), 4 * multiplier * lipschitz) / m
    first = (1.5 * gap + 2 * p.Z) / p.K * steepness + 2 * multiplier * rise / p.K
    return first, (6 * gap + 16 * p.Z) / (p.K * m)


def acsa_bound(
    steps: int, distance_squared: float, *, gamma: float, mu: float, L: float, M: float = 0.0, sigma: float = 0.0
) -> float:
    """What E[ψ_k(x^k) − ψ_k(x̄^k)] is at most after T steps of AC-SA from x^{k−1}.

    2(L+γ)/(T(T+1)) ‖x^{k−1} − x̄^k‖² + 8(M²+σ²)/((γ−μ)(T+1)), a little less than Proposition "AC-SA" says.
    """
    steps = whole("steps", steps, 1)
    noise = 8 * (M**2 + sigma**2) / _left(gamma, mu, 0.0)
    return 2 * (L + gamma) / (steps * (steps + 1)) * distance_squared + noise / (steps + 1)


def acsa_bound_paper(
    steps: int, distance_squared: float, *, gamma: float, mu: float, L: float, M: float = 0.0, sigma: float = 0.0
) -> float:
    """Proposition "AC-SA" as it stands: 2(L+γ)/T² ‖x^{k−1} − x̄^k‖² + 8(M²+σ²)/((γ−μ)T)."""
    steps = whole("steps", steps, 1)
    noise = 8 * (M**2 + sigma**2) / _left(gamma, mu, 0.0)
    return 2 * (L + gamma) / steps**2 * distance_squared + noise / steps


def draw_k_hat(K: int, rng: np.random.Generator) -> int:
    """The index of the theory's output x^k̂, uniform on {⌊(K+1)/2⌋, …, K}."""
    K = whole("K", K, 3)
    return int(rng.integers((K + 1) // 2, K, endpoint=True))


@dataclass(frozen=True)
class FiniteSum:
    """Gradients of single terms f_i for one subproblem of a sum of n terms, up to a constant and a logarithm."""

    nesterov: float
    svrg: float


def finite_sum_nonconvex(n: int, *, L: float, mu: float) -> FiniteSum:
    """Remark "Finite-sum problem", μ > 0: n√((L+2μ)/μ) with Nesterov's method, n + (L+μ)/μ with SVRG."""
    n, L, mu = whole("n", n, 1), _in_range("L", L), _in_range("mu", mu, above=0)
    return FiniteSum(nesterov=n * math.sqrt((L + 2 * mu) / mu), svrg=n + (L + mu) / mu)


def finite_sum_convex(n: int, *, beta: float) -> FiniteSum:
    """Remark "Finite-sum problem", μ = 0 and γ = βL: n/√β with Nesterov's method, n + 1/β with SVRG."""
    n, beta = whole("n", n, 1), _in_range("beta", beta, above=0, below=1)
    return FiniteSum(nesterov=n / math.sqrt(beta), svrg=n + 1 / beta)


def _left(gamma: float, mu: float, rho: float) -> float:
    """γ − μ − ρ, with ρ in [0, γ−μ)."""
    gamma = _in_range("gamma", gamma, above=_in_range("mu", mu))
    if not 0 <= real("rho", rho) < gamma - mu:
        raise InvalidInputError(f"rho must be in [0, gamma - mu) = [0, {gamma - mu:g}), got {rho!r}")
    return gamma - mu - rho


def _in_range(name: str, value: float, above: float | None = None, below: float = math.inf) -> float:
    """`value` as a float in [0, below), or in (above, below)."""
    number = real(name, value)
    if not number < below or number < 0 or (above is not None and number <= above):
        low = "[0" if above is None else f"({above:g}"
        raise InvalidInputError(f"{name} must be in {low}, {below:g}), got {value!r}")
    return number
