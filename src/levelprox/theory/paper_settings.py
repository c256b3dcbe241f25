"""The settings of a run that the paper's theorems assume: `solve(..., preset="paper")`.

Algorithm 1 with levels η_k = (kη + η_0)/(k+1), the paper's surrogate, AC-SA with T_k steps, γ and T_k of the corollary
for this ψ. The result is x^k̂ with k̂ uniform on {⌊(K+1)/2⌋, …, K}. k̂ is drawn before the run, because later steps do
not change x^k̂. Where a feature has several coefficients (several classes) the paper has no surrogate; the group
surrogate is used, and `Result.message` says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from levelprox.exceptions import InvalidInputError
from levelprox.methods.levels import Harmonic
from levelprox.methods.subsolvers import ACSA
from levelprox.objectives import Objective
from levelprox.problem import Problem
from levelprox.theory import Parameters, convex, draw_k_hat, eta0, nonconvex, proximal

_BETA = 0.1  # γ = βL for convex ψ


@dataclass(frozen=True)
class PaperRun:
    """Settings of LCPP under which the corollaries hold.

    Attributes
    ----------
    parameters : Parameters
        γ, ρ, T_k, K, ζ_k, Z.
    subsolver : ACSA
        AC-SA with T_k steps.
    levels : Harmonic
        Levels that start at η_0.
    k_hat : int
        Number of outer steps.
    """

    parameters: Parameters
    subsolver: ACSA
    levels: Harmonic
    k_hat: int


def paper_run(
    problem: Problem, K: int, rng: np.random.Generator, subsolver: ACSA | None = None, gamma: float | None = None
) -> PaperRun:
    """Return the settings for K outer steps.

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
    PaperRun
        The settings.

    Examples
    --------
    >>> import numpy as np
    >>> from levelprox import LinearModel, Problem, constraints
    >>> from levelprox.theory.paper_settings import paper_run
    >>> problem = Problem(LinearModel([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0]), constraints.L1(), 2.0)
    >>> run = paper_run(problem, K=10, rng=np.random.default_rng(0))
    >>> run.levels.eta0, 5 <= run.k_hat <= 10
    (1.0, True)
    """
    if K < 3:
        raise InvalidInputError(f"preset='paper' takes max_iter for K, which must be at least 3, got {K}")
    acsa = ACSA() if subsolver is None else subsolver
    if acsa.steps is not None:
        raise InvalidInputError(f"preset='paper' sets the steps of acsa itself, got steps={acsa.steps}")
    parameters = _parameters(problem.objective, acsa.noise(problem.objective), K, gamma)
    levels = Harmonic(eta0=eta0(problem.constraint, problem.level, problem.weights))
    return PaperRun(parameters, replace(acsa, steps=parameters.steps), levels, draw_k_hat(K, rng))


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
