"""z and the bounds on the multiplier: against brute force, with weights, and their errors."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import InvalidInputError, theory
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
