"""The theory as functions: z against brute force, weights, degenerate levels, parameters, and their errors."""

from __future__ import annotations

import itertools
import math
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import Function, InvalidInputError, Problem, solve, theory
from levelprox.constraints import L1, MCP, SCAD, Exp, Log, Lp, NegativeLp
from tests.support.registries import CONSTRAINTS

KNOWN = [c for c in CONSTRAINTS if type(c).__name__ != "Custom"]
CAPPED = [c for c in KNOWN if math.isfinite(c.cap)]
EPS = np.finfo(float).eps


def kept(constraint, x, weights=None):
    """Σ ω φ'(|x|)|x|, what z bounds from below."""
    t = np.abs(x)
    return float(np.sum((1 if weights is None else weights) * constraint.slope(t) * t))


def z_near(constraint, alpha, weights=None):
    """The least z of all levels that round to alpha: near a whole number of caps z falls like a root."""
    return float(np.min(theory.z(constraint, alpha * (1 + EPS * np.arange(-32, 33)), weights)))


def points(constraint, rng, d):
    """Points of every kind: small, large, saturated, and the worst ones, saturated except for one coordinate."""
    size = constraint.threshold if math.isfinite(constraint.threshold) else 30 / constraint.lam
    small = size * 10.0 ** rng.uniform(-4, 1, d) * (rng.random(d) < 0.7)
    worst = np.where(rng.random(d) < 0.5, 1e3 * size, 0.0)
    worst[0] = size * rng.random()
    return small, size * rng.random(d), worst, np.where(np.arange(d) == 0, size * rng.random(), 0.0)


@pytest.mark.parametrize("constraint", KNOWN, ids=str)
def test_z_is_a_lower_bound_and_attained(constraint):
    rng = np.random.default_rng(0)
    tightest = math.inf
    for _ in range(200):
        for x in points(constraint, rng, d=6):
            left, alpha = kept(constraint, x), constraint.value(x)
            assert left >= z_near(constraint, alpha) * (1 - 1e-9), (left, theory.z(constraint, alpha), x)
        single = float(kept(constraint, x))  # the last has one nonzero: there z is exact
        tightest = min(tightest, abs(single - theory.z(constraint, constraint.value(x))) / single)
    assert tightest <= 1e-12


def mp_z(constraint, a):
    """φ'(t)t at the t with φ(t) = a, in 60 digits, from the formulas of φ."""
    p, a = {k: mpmath.mpf(v) for k, v in vars(constraint).items()}, mpmath.mpf(a)
    match constraint:
        case MCP():
            t = p["theta"] * p["lam"] * (1 - mpmath.sqrt(1 - 2 * a / (p["theta"] * p["lam"] ** 2)))
            return t * (p["lam"] - t / p["theta"])
        case SCAD():
            knee = p["lam"] / p["factor"]
            if a <= p["lam"] * knee:
                return a
            bend = p["factor"] / (p["theta"] - 1)
            short = mpmath.sqrt(2 * ((p["theta"] + 1) * p["lam"] * knee / 2 - a) / bend)
            return bend * short * (p["theta"] * knee - short)
        case Exp():
            return -(1 - a) * mpmath.log(1 - a)
        case Log():
            t = ((1 + p["theta"]) ** a - 1) / p["theta"]
            return p["theta"] * t / ((1 + p["theta"] * t) * mpmath.log(1 + p["theta"]))
        case Lp():
            t = (a + p["epsilon"] ** p["p"]) ** (1 / p["p"]) - p["epsilon"]
            return p["p"] * t * (t + p["epsilon"]) ** (p["p"] - 1)
        case NegativeLp():
            t = ((1 - a) ** (1 / p["p"]) - 1) / p["theta"]
            return -p["p"] * p["theta"] * t * (1 + p["theta"] * t) ** (p["p"] - 1)
    return a


@pytest.mark.parametrize("constraint", [*KNOWN, SCAD(1, 1e6), Lp(0.05, 1e-6), Log(1e-9)], ids=str)
def test_z_keeps_its_digits(constraint):
    cap = constraint.cap if math.isfinite(constraint.cap) else 50.0
    share = np.concatenate([10.0 ** np.arange(-15, 0), np.linspace(0.1, 0.9, 9)])
    with mpmath.workdps(60):
        for a in cap * share:
            exact = mp_z(constraint, a)
            assert abs(theory.z(constraint, a) - exact) <= 64 * EPS * exact, a
    alphas = cap * share[:, None] * np.ones((1, 2))
    np.testing.assert_array_equal(theory.z(constraint, alphas)[3, 0], theory.z(constraint, alphas[3, 0]))


@pytest.mark.parametrize("constraint", KNOWN, ids=str)
def test_z_is_concave_and_at_most_alpha(constraint):
    """All the proof of docs/theory.md needs: z(0) = z(cap) = 0, z concave, and z(a) <= a from its slope 1 at 0."""
    end = constraint.cap * (1 - 1e-12) if math.isfinite(constraint.cap) else 20.0
    a = np.linspace(0, end, 2001)
    values = theory.z(constraint, a)
    assert values[0] == 0
    assert np.all(values <= a * (1 + 8 * EPS))
    assert np.all(np.diff(values, 2) <= 1e-12 * max(1, values.max()))
    if math.isfinite(constraint.cap):
        assert values[-1] <= 1e-4 * constraint.cap
        np.testing.assert_allclose(theory.z(constraint, a + 3 * constraint.cap)[5:-5], values[5:-5], rtol=1e-9)
    else:
        assert np.all(np.diff(values) >= 0)


@pytest.mark.parametrize("constraint", [c for c in KNOWN if isinstance(c, MCP | SCAD)], ids=str)
def test_the_papers_z_follows_from_ours(constraint):
    a = np.linspace(0, 3 * constraint.cap, 1001)
    assert np.all(theory.z_paper(constraint, a) <= theory.z(constraint, a) * (1 + 8 * EPS))
    if isinstance(constraint, MCP):
        rest = np.mod(a, constraint.cap)
        written = rest * np.sqrt(1 - 2 * rest / (constraint.theta * constraint.lam**2))
        np.testing.assert_allclose(theory.z_paper(constraint, a)[1:-1], written[1:-1], rtol=1e-6, atol=1e-7)


# --- weights -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("constraint", KNOWN, ids=str)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_z_with_weights_is_a_lower_bound(constraint, seed):
    rng = np.random.default_rng(seed)
    d = 5
    weights = {0: 0.3 * rng.integers(0, 5, d), 1: np.full(d, 2.5), 2: rng.uniform(0.2, 3, d)}[seed % 3]
    for x in points(constraint, rng, d):
        alpha = constraint.value(x, weights)
        assert kept(constraint, x, weights) >= z_near(constraint, alpha, weights) * (1 - 1e-9) - 64 * EPS * alpha


def test_where_weights_differ_z_without_them_is_wrong():
    """One saturated coordinate of weight 1.5 keeps nothing, although z(1.5 cap) > 0."""
    constraint = MCP(2.0, 5.0)
    x, weights = np.array([100.0, 0.0]), np.array([1.5, 1.0])
    assert kept(constraint, x, weights) == 0 < theory.z(constraint, constraint.value(x, weights))
    assert theory.z(constraint, constraint.value(x, weights), weights) == 0


def test_z_with_weights_says_something_where_it_can():
    assert theory.z(MCP(2.0, 5.0), 25.0, [1.0, 2.0, 3.0]) == theory.z(MCP(2.0, 5.0), 5.0)
    assert theory.z(MCP(2.0, 5.0), 25.0, [2.0, 4.0]) == 2 * theory.z(MCP(2.0, 5.0), 2.5)
    assert theory.z(MCP(2.0, 5.0), 25.0, [1.0, math.pi]) == 0
    assert theory.z(Log(2.0), 3.0, [0.5, math.pi]) == 0.5 * theory.z(Log(2.0), 6.0)
    assert theory.z(L1(), 3.0, [0.5, math.pi]) == 3.0
    assert theory.z(MCP(2.0, 5.0), 0.0, [0.0]) == 0


@pytest.mark.parametrize(
    ("weights", "unit"),
    [
        ([2.0, 2.0], 2.0),
        ([0.0, 3.0, 1.0], 1.0),
        ([2.0, 3.0], 1.0),
        ([0.1, 0.3, 0.7], 0.1),
        ([6.0, 10.0, 15.0], 1.0),
        ([1.0, math.sqrt(2)], None),
        ([0.0], None),
    ],
)
def test_the_common_unit_of_weights(weights, unit):
    assert theory.common_unit(weights) == (None if unit is None else pytest.approx(unit, rel=1e-13))


@settings(max_examples=60, deadline=None)
@given(
    weights=st.lists(st.integers(0, 7), min_size=1, max_size=7),
    q=st.sampled_from([0.1, 1.0, 3.0]),
    share=st.floats(0, 40),
)
def test_the_nearest_degenerate_level_is_the_nearest_sum(weights, q, share):
    constraint = MCP(1.0, 2.0)  # cap 1
    problem = Problem(Function(lambda x: (0.0, 0 * x), len(weights)), constraint, q * share, q * np.array(weights))
    level, unit, check = theory.degenerate_level(problem)
    sums = {sum(part) for n in range(len(weights) + 1) for part in itertools.combinations(weights, n)}
    if not any(weights):
        assert (level, check) == (None, "no degenerate level")
        return
    assert check == "checked"
    assert unit == pytest.approx(q * math.gcd(*weights))
    assert abs(level - problem.level) == pytest.approx(min(abs(q * s - problem.level) for s in sums), abs=1e-12)
    assert min(abs(q * s - level) for s in sums) <= 1e-12


def test_degenerate_levels_of_large_problems_are_found_fast():
    weights = np.where(np.arange(200_000) % 2, 2.0, 3.0)
    problem = Problem(Function(lambda x: (0.0, 0 * x), weights.size), MCP(1.0, 2.0), 90_000.4, weights)
    assert theory.degenerate_distance(problem) == (pytest.approx(0.4), "checked")
    problem = Problem(Function(lambda x: (0.0, 0 * x), weights.size), MCP(1.0, 2.0), 150_000.4, weights)
    assert theory.degenerate_distance(problem)[0] == pytest.approx(0.4, abs=1e-9)
    unequal = Problem(problem.objective, MCP(1.0, 2.0), 5.0, weights + np.where(weights > 2, 0, 2e4))
    assert theory.degenerate_distance(unequal) == (None, "not checked: unequal weights")


@pytest.mark.parametrize(("caps", "warned"), [(2.0, False), (3.0, True), (7.0, False)])
def test_a_run_warns_of_a_level_that_weighted_coordinates_can_saturate(caps, warned):
    """With weights 1, 3, 3 a level of 2 caps is safe, one of 3 is not, and one of 7 holds nothing back."""
    target = np.array([0.3, -0.2, 0.1])
    fun = Function(lambda x: (0.5 * float((x - target) @ (x - target)), x - target), 3, smoothness=1.0)
    problem = Problem(fun, MCP(1.0, 2.0), caps, [1.0, 3.0, 3.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solve(problem, tol=0.0, max_iter=1)
    assert any("multiplier may explode" in str(w.message) for w in caught) == warned


# --- bounds and the first level ----------------------------------------------------------------------


@pytest.mark.parametrize("constraint", KNOWN, ids=str)
def test_the_uniform_bound_is_the_weaker_one_for_every_point(constraint):
    rng = np.random.default_rng(3)
    for _ in range(100):
        for x in points(constraint, rng, 4):
            eta = constraint.value(x) * rng.uniform(1, 1.5) + 1e-3
            z_of_eta = theory.z(constraint, eta)
            assert theory.room(constraint, x, eta) >= z_of_eta * (1 - 1e-9)
            pointwise = theory.dual_bound(1.0, constraint, x, eta)
            assert pointwise <= theory.uniform_dual_bound(1.0, constraint, eta) * (1 + 1e-9)


def test_dual_bounds_at_the_edge():
    constraint = MCP(2.0, 5.0)
    assert theory.dual_bound(1.0, constraint, [100.0, 0.0], 10.0) == math.inf
    assert theory.uniform_dual_bound(1.0, constraint, 30.0) == math.inf
    assert theory.dual_bound(-1e-17, constraint, [1.0, 0.0], 10.0) == 0
    weighted = theory.room(constraint, [1.0, -2.0], 40.0, [2.0, 0.0])
    assert weighted == pytest.approx(40 - 2 * constraint.phi(1.0) + 2 * constraint.slope(1.0))


@pytest.mark.parametrize("constraint", CAPPED, ids=str)
@pytest.mark.parametrize("weights", [None, [2.0, 2.0, 2.0, 2.0], [0.5, 1.0, 1.5, 2.0]])
def test_eta0_keeps_the_denominator_above_half_of_z(constraint, weights):
    rng = np.random.default_rng(1)
    q = 1.0 if weights is None else theory.common_unit(weights)
    for share in (0.3, 0.9, 1.2, 2.5, 3.99):
        level = share * q * constraint.cap
        eta0 = theory.eta0(constraint, level, weights)
        assert 0 < eta0 < level
        assert level - eta0 == pytest.approx(math.fmod(share, 1) / 2 * q * constraint.cap)
        least = theory.z(constraint, level, weights) / 2
        for k in range(1, 60):
            eta_k = level - (level - eta0) / (k + 1)
            for x in points(constraint, rng, 4):
                if constraint.value(x, weights) <= eta_k:
                    assert theory.room(constraint, x, eta_k, weights) >= least * (1 - 1e-9)


def test_eta0_without_a_cap_and_at_degenerate_levels():
    assert theory.eta0(Log(2.0), 3.0) == 1.5
    with pytest.raises(InvalidInputError, match="whole number of caps"):
        theory.eta0(MCP(2.0, 5.0), 30.0)
    with pytest.raises(InvalidInputError, match="one unit"):
        theory.eta0(MCP(2.0, 5.0), 31.0, [1.0, math.pi])


def test_z_refuses_what_it_does_not_know():
    custom = next(c for c in CONSTRAINTS if type(c).__name__ == "Custom")
    with pytest.raises(InvalidInputError, match="not for Custom"):
        theory.z(custom, 1.0)
    with pytest.raises(InvalidInputError, match="not for Exp"):
        theory.z_paper(Exp(1.0), 0.5)
    for alpha in (-1.0, math.nan, math.inf, [1.0, -1e-9]):
        with pytest.raises(InvalidInputError, match="alpha"):
            theory.z(MCP(1.0, 1.0), alpha)
    with pytest.raises(InvalidInputError, match="weights"):
        theory.z(MCP(1.0, 1.0), 1.0, [1.0, -1.0])


# --- parameters --------------------------------------------------------------------------------------


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
