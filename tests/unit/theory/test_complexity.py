"""The paper's parameters and complexities, as functions: corollaries, bounds, finite sums, and their errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from levelprox import InvalidInputError, theory


def test_the_parameters_are_the_corollaries():
    """Literally as the paper has them, with the corrections of the module docstring."""
    mu, L, M, sigma, K, beta = 0.3, 7.0, 0.2, 0.5, 40, 0.1
    p = theory.nonconvex(mu=mu, L=L, M=M, sigma=sigma, K=K)
    assert (p.gamma, p.rho, p.K) == (pytest.approx(3 * mu), pytest.approx(mu), K)
    assert p.steps == math.ceil(max(2 * math.sqrt(L / mu + 3), K * (M + sigma)))
    assert pytest.approx(4 * (M + sigma) / mu) == p.Z
    assert p.zeta == pytest.approx(8 * (M**2 + sigma**2) / (2 * mu * p.steps))
    assert K * p.zeta <= p.Z
    p = theory.convex(L=L, M=M, sigma=sigma, K=K, beta=beta)
    assert (p.gamma, p.rho) == (pytest.approx(beta * L), pytest.approx(beta * L / 2))
    assert p.steps == math.ceil(max(2 * math.sqrt(2 * (1 + beta) / beta), K * (M + sigma)))
    assert pytest.approx(8 * (M + sigma) / (beta * L)) == p.Z
    p = theory.proximal(gamma=0.7, mu=0.0, L=0.0, M=M, sigma=sigma, K=K)
    assert (p.rho, p.steps) == (0.35, math.ceil(max(2 * math.sqrt(2), K * (M + sigma))))
    assert pytest.approx(8 * (M + sigma) / 0.7) == p.Z
    smooth = theory.convex(L=L, M=0.0, sigma=0.0, K=10**6, beta=beta)
    assert smooth.steps == math.ceil(2 * math.sqrt(2 * (1 + beta) / beta))
    assert (smooth.Z, smooth.zeta) == (0, 0)


@pytest.mark.parametrize("seed", range(5))
def test_the_epsilons_are_the_corollaries(seed):
    rng = np.random.default_rng(seed)
    mu, L, M, sigma, gap, B, L_h, rise = rng.uniform(0.1, 3, 8)
    K, beta = 17, 0.2
    p = theory.nonconvex(mu=mu, L=L, M=M, sigma=sigma, K=K)
    e1, e2 = theory.corollary(p, gap=gap, multiplier=B, lipschitz=L_h, rise=rise)
    steep = max(8 * (9 * mu**2 + B**2 * L_h**2) / mu, 2 * B * L_h / mu)
    assert e1 == pytest.approx((1.5 * gap / K + 8 * (M + sigma) / (mu * K)) * steep + 2 * B * rise / K)
    assert e2 == pytest.approx(3 * gap / (mu * K) + 32 * (M + sigma) / (mu**2 * K))
    p = theory.convex(L=L, M=M, sigma=sigma, K=K, beta=beta)
    e1, e2 = theory.corollary(p, gap=gap, multiplier=B, lipschitz=L_h, rise=rise)
    g = beta * L
    steep = max(16 * (g**2 + B**2 * L_h**2) / g, 4 * B * L_h / g)
    assert e1 == pytest.approx((1.5 * gap / K + 16 * (M + sigma) / (g * K)) * steep + 2 * B * rise / K)
    assert e2 == pytest.approx(6 * gap / (g * K) + 128 * (M + sigma) / (g**2 * K))
    # ... which follow from the theorem.
    bounds = theory.complexity_main(
        K=K, gamma=p.gamma, mu=p.mu, rho=p.rho, Z=p.Z, gap=gap, multiplier=B, lipschitz=L_h, rise=rise
    )
    assert max(bounds.stationarity, bounds.complementarity) <= e1 * (1 + 1e-12)
    assert bounds.distance == pytest.approx(e2)


def test_the_two_forms_of_the_theorem_agree():
    gamma, mu, rho, Z, gap, B, L_h, rise, K = 2.0, 0.5, 0.4, 0.3, 1.7, 0.9, 1.1, 0.6, 12
    m = gamma - mu
    bounds = theory.complexity_main(
        K=K, gamma=gamma, mu=mu, rho=rho, Z=Z, gap=gap, multiplier=B, lipschitz=L_h, rise=rise
    )
    main = 16 * (gamma**2 + B**2 * L_h**2) / (K * (m - rho)) * ((m + rho) / (2 * m) * gap + Z)
    assert bounds.stationarity == pytest.approx(main)
    main = 2 * B * L_h / (K * (m - rho)) * ((m + rho) / m * gap + 2 * Z) + 2 * B * rise / K
    assert bounds.complementarity == pytest.approx(main)
    assert bounds.distance == pytest.approx(
        4 * rho * (m + rho) / (K * m**2 * (m - rho)) * gap + 8 * Z / (K * (m - rho))
    )
    first, second = theory.composite(gamma=gamma, mu=mu, rho=rho, Z=Z, gap=gap)
    assert first == pytest.approx(2 * ((m + rho) / m * gap + Z) / (m - rho))
    assert second == pytest.approx(rho / m * first + 2 * Z / m)


def test_the_bounds_of_acsa():
    of_psi = {"gamma": 2.0, "mu": 0.5, "L": 3.0, "M": 0.2, "sigma": 0.1}
    for steps in (1, 7, 100):
        ours, papers = (bound(steps, 4.0, **of_psi) for bound in (theory.acsa_bound, theory.acsa_bound_paper))
        assert papers == pytest.approx(2 * 5 / steps**2 * 4 + 8 * 0.05 / (1.5 * steps))
        assert ours == pytest.approx(2 * 5 / (steps * (steps + 1)) * 4 + 8 * 0.05 / (1.5 * (steps + 1)))
        assert ours <= papers


@pytest.mark.parametrize("K", [3, 4, 11])
def test_k_hat_is_uniform_on_the_second_half(K):
    rng = np.random.default_rng(0)
    drawn = np.bincount([theory.draw_k_hat(K, rng) for _ in range(6000)], minlength=K + 1)
    low = (K + 1) // 2
    assert drawn[:low].sum() == 0
    share = 6000 / (K + 1 - low)
    assert np.all(np.abs(drawn[low:] - share) <= 5 * math.sqrt(share))


def test_finite_sums():
    counts = theory.finite_sum_nonconvex(1000, L=50.0, mu=0.5)
    assert counts.nesterov == pytest.approx(1000 * math.sqrt(51 / 0.5))
    assert counts.svrg == pytest.approx(1000 + 101)
    counts = theory.finite_sum_convex(1000, beta=0.01)
    assert (counts.nesterov, counts.svrg) == (pytest.approx(10_000), pytest.approx(1100))


OF_PSI = {"mu": 0.3, "L": 7.0, "M": 0.2, "sigma": 0.5, "K": 40}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"mu": 0.0}, "mu"),
        ({"mu": -1.0}, "mu"),
        ({"mu": math.inf}, "mu"),
        ({"L": -1e-9}, "L"),
        ({"L": math.nan}, "L"),
        ({"M": -1.0}, "M"),
        ({"M": math.inf}, "M"),
        ({"sigma": -0.1}, "sigma"),
        ({"sigma": "much"}, "sigma"),
        ({"K": 2}, "K"),
        ({"K": 10.0}, "K"),
        ({"K": True}, "K"),
    ],
)
def test_parameters_out_of_range(changed, named):
    with pytest.raises(InvalidInputError, match=f"^{named} must"):
        theory.nonconvex(**{**OF_PSI, **changed})


@pytest.mark.parametrize("beta", [0.0, 1.0, -0.5, math.nan])
def test_beta_out_of_range(beta):
    with pytest.raises(InvalidInputError, match="beta"):
        theory.convex(L=1.0, M=0.0, sigma=0.0, K=10, beta=beta)
    with pytest.raises(InvalidInputError, match="beta"):
        theory.finite_sum_convex(10, beta=beta)


def test_other_things_out_of_range():
    with pytest.raises(InvalidInputError, match=r"L must be in \(0"):
        theory.convex(L=0.0, M=1.0, sigma=0.0, K=10, beta=0.5)
    with pytest.raises(InvalidInputError, match=r"gamma must be in \(0.3"):
        theory.proximal(gamma=0.3, **OF_PSI)
    with pytest.raises(InvalidInputError, match="rho"):
        theory.composite(gamma=1.0, mu=0.0, rho=1.0, Z=0.0, gap=1.0)
    with pytest.raises(InvalidInputError, match="steps"):
        theory.acsa_bound(0, 1.0, gamma=1.0, mu=0.0, L=1.0)
    with pytest.raises(InvalidInputError, match="K"):
        theory.draw_k_hat(2, np.random.default_rng(0))
