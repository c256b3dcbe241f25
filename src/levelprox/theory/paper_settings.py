"""The settings of a run that the paper's theorems assume: `solve(..., preset="paper")`.

Algorithm 1 with levels η_k = (kη + η_0)/(k+1), the paper's surrogate, AC-SA with T_k steps, γ and T_k of the corollary
for this ψ. The result is x^k̂ with k̂ uniform on {⌊(K+1)/2⌋, …, K}. k̂ is drawn before the run, because later steps do
not change x^k̂. Where a feature has several coefficients (several classes) the paper has no surrogate; the group
surrogate is used, and `Result.message` says so.

The two corollaries have one form: for any γ > μ take ρ = (γ − μ)/2 and

    T_k = ⌈max{2√((L + γ)/ρ), K(M + σ)}⌉,      then      Z = Σ ζ_k ≤ 8(M + σ)/(γ − μ).

γ = 3μ gives the corollary for nonconvex ψ, γ = βL the one for convex ψ; if L = 0 as well, any γ > 0 is valid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from levelprox._validation import whole
from levelprox.exceptions import InvalidInputError
from levelprox.methods.lcpp import Harmonic
from levelprox.methods.subsolvers import ACSA
from levelprox.objectives import Objective
from levelprox.problem import Problem
from levelprox.theory.complexity import in_range
from levelprox.theory.dual import eta0

_BETA = 0.1  # γ = βL for convex ψ


@dataclass(frozen=True)
class Parameters:
    """Settings of LCPP with AC-SA for K outer steps under which the corollaries hold.

    Parameters
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
        The constants of ψ: weak convexity, smoothness, nonsmoothness and noise.

    Examples
    --------
    >>> from levelprox import theory
    >>> parameters = theory.nonconvex(mu=1.0, L=13.0, M=0.0, sigma=0.0, K=10)
    >>> parameters.gamma, parameters.rho, parameters.steps, parameters.Z
    (3.0, 1.0, 8, 0.0)
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
    """Return the settings of Corollary "unified_complexity_main", for weakly convex ψ.

    γ = 3μ, ρ = μ, T_k = max{2√(L/μ + 3), K(M + σ)}.

    Parameters
    ----------
    mu : float
        μ > 0, the weak convexity of ψ.
    L, M, sigma : float
        The smoothness of ψ, its nonsmoothness and the noise of its gradients.
    K : int
        Outer steps, K ≥ 3.

    Returns
    -------
    parameters : Parameters
        The settings.

    Examples
    --------
    >>> from levelprox import theory
    >>> theory.nonconvex(mu=0.5, L=2.0, M=1.0, sigma=1.0, K=20).steps
    40
    """
    mu = in_range("mu", mu, above=0)
    return proximal(gamma=3 * mu, mu=mu, L=L, M=M, sigma=sigma, K=K)


def convex(*, L: float, M: float, sigma: float, K: int, beta: float) -> Parameters:
    """Return the settings of Corollary "unified_complexity_convex", for convex ψ.

    γ = βL, ρ = βL/2, T_k = max{2√(2(1 + β)/β), K(M + σ)}.

    Parameters
    ----------
    L : float
        The smoothness of ψ, L > 0; for L = 0, see `proximal`.
    M, sigma : float
        The nonsmoothness of ψ and the noise of its gradients.
    K : int
        Outer steps, K ≥ 3.
    beta : float
        β in (0, 1).

    Returns
    -------
    parameters : Parameters
        The settings.

    Examples
    --------
    >>> from levelprox import theory
    >>> parameters = theory.convex(L=4.0, M=0.0, sigma=0.0, K=10, beta=0.5)
    >>> parameters.gamma, parameters.rho, parameters.steps
    (2.0, 1.0, 5)
    """
    beta = in_range("beta", beta, above=0, below=1)
    L = in_range("L", L, above=0)
    return proximal(gamma=beta * L, mu=0.0, L=L, M=M, sigma=sigma, K=K)


def proximal(*, gamma: float, mu: float, L: float, M: float, sigma: float, K: int) -> Parameters:
    """Return the settings for any γ > μ, with ρ = (γ − μ)/2, for example for purely nonsmooth ψ (L = μ = 0).

    Parameters
    ----------
    gamma : float
        γ > μ.
    mu, L, M, sigma : float
        The weak convexity, smoothness and nonsmoothness of ψ, and the noise of its gradients.
    K : int
        Outer steps, K ≥ 3.

    Returns
    -------
    parameters : Parameters
        The settings.

    Examples
    --------
    >>> from levelprox import theory
    >>> parameters = theory.proximal(gamma=1.0, mu=0.0, L=0.0, M=2.0, sigma=0.0, K=10)
    >>> parameters.rho, parameters.steps, parameters.Z
    (0.5, 20, 16.0)
    """
    L, M, sigma, mu = (in_range(name, value) for name, value in (("L", L), ("M", M), ("sigma", sigma), ("mu", mu)))
    gamma = in_range("gamma", gamma, above=mu)
    K = whole("K", K, 3)
    rho = (gamma - mu) / 2
    steps = max(1, math.ceil(_steps(L, M, sigma, gamma, rho, K)))
    zeta = 8 * (M**2 + sigma**2) / ((gamma - mu) * steps)
    return Parameters(gamma, rho, steps, K, zeta, 8 * (M + sigma) / (gamma - mu), mu, L, M, sigma)


def _steps(L: float, M: float, sigma: float, gamma: float, rho: float, K: int) -> float:
    """Return T_k with 2(L + γ)/T_k² ≤ ρ/2, for which ζ_k decreases as 1/K."""
    return max(2 * math.sqrt((L + gamma) / rho), K * (M + sigma))


def draw_k_hat(K: int, rng: np.random.Generator) -> int:
    """Draw the index k̂ of the theory's output x^k̂, uniform on {⌊(K+1)/2⌋, …, K}.

    Parameters
    ----------
    K : int
        Outer steps, K ≥ 3.
    rng : numpy.random.Generator
        The random number generator.

    Returns
    -------
    int
        k̂.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import theory
    >>> 5 <= theory.draw_k_hat(10, np.random.default_rng(0)) <= 10
    True
    """
    K = whole("K", K, 3)
    return int(rng.integers((K + 1) // 2, K, endpoint=True))


def paper_run(
    problem: Problem, K: int, rng: np.random.Generator, subsolver: ACSA | None = None, gamma: float | None = None
) -> tuple[Parameters, ACSA, Harmonic, int]:
    """Return the settings of LCPP under which the corollaries hold, for K outer steps.

    Parameters
    ----------
    problem : Problem
        The problem.
    K : int
        At least 3.
    rng : Generator
        The random number generator for k̂.
    subsolver : ACSA, optional
        Without `steps`, which are set to T_k; by default AC-SA with full gradients, or with the samples of a sampled ψ.
    gamma : float, optional
        γ > μ; by default 3μ for nonconvex ψ and L/10 for convex ψ.

    Returns
    -------
    parameters : Parameters
        γ, ρ, T_k, K, ζ_k, Z.
    subsolver : ACSA
        AC-SA with T_k steps.
    levels : Harmonic
        Levels that start at η_0.
    k_hat : int
        Number of outer steps.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, constraints
    >>> from levelprox.theory.paper_settings import paper_run
    >>> problem = Problem(LinearModel([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0]), constraints.L1(), 2.0)
    >>> _, _, levels, k_hat = paper_run(problem, K=10, rng=np.random.default_rng(0))
    >>> levels.eta0, 5 <= k_hat <= 10
    (1.0, True)
    """
    if K < 3:
        raise InvalidInputError(f"preset='paper' takes max_iter for K, which must be at least 3, got {K}")
    acsa = ACSA() if subsolver is None else subsolver
    if acsa.steps is not None:
        raise InvalidInputError(f"preset='paper' sets the steps of acsa itself, got steps={acsa.steps}")
    parameters = _parameters(problem.objective, acsa.noise(problem.objective), K, gamma)
    levels = Harmonic(eta0=eta0(problem.constraint, problem.level, problem.weights))
    return parameters, replace(acsa, steps=parameters.steps), levels, draw_k_hat(K, rng)


def _parameters(objective: Objective, sigma: float, K: int, gamma: float | None) -> Parameters:
    mu, L, M = objective.weak_convexity, objective.smoothness, objective.nonsmoothness
    for name, value in (("smoothness L", L), ("nonsmoothness M", M), ("noise sigma", sigma)):
        if not math.isfinite(value):
            raise InvalidInputError(f"preset='paper' needs the {name} of the objective, which is unknown or unbounded")
    if gamma is not None:
        return proximal(gamma=gamma, mu=mu, L=L, M=M, sigma=sigma, K=K)
    if mu > 0:
        return nonconvex(mu=mu, L=L, M=M, sigma=sigma, K=K)
    if L > 0:
        return convex(L=L, M=M, sigma=sigma, K=K, beta=_BETA)
    return proximal(gamma=_BETA * objective.curvature, mu=0.0, L=0.0, M=M, sigma=sigma, K=K)
