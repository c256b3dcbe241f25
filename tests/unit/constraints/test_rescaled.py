"""φ(t/c): a constraint like any other, and a member of the same family for the families of the paper."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox.constraints import L1, MCP, SCAD, Constraint, Custom, Exp, Log, Lp, NegativeLp, Rescaled
from tests.support.constraint_cases import (
    EPS,
    any_closed_form,
    any_sizes,
    check_derivatives,
    check_float32,
    check_h_is_convex_and_smooth,
    check_is_a_sparsity_measure,
    check_lipschitz,
    check_saturates,
    check_unpenalized,
    knots,
    scale,
    sizes,
)
from tests.support.registries import CONSTRAINTS, RESCALED, random_point

every_constraint = pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
every_rescaled = pytest.mark.parametrize("constraint", RESCALED, ids=str)
EXPONENTS = [-9, -6, -3, -1, -0.5, 0, 0.3, 1, 2, 4]

# The same family with other parameters, and by how much its φ is larger.
FAMILIES = {
    L1: lambda phi, c: (L1(phi.lam / c), 1.0),
    MCP: lambda phi, c: (MCP(phi.lam / c, phi.theta * c**2), 1.0),
    SCAD: lambda phi, c: (SCAD(phi.lam / c, phi.theta, phi.factor / c**2), 1.0),
    Exp: lambda phi, c: (Exp(phi.lam / c), 1.0),
    NegativeLp: lambda phi, c: (NegativeLp(phi.p, phi.theta / c), 1.0),
    Log: lambda phi, c: (Log(phi.theta / c), math.log1p(phi.theta) / math.log1p(phi.theta / c)),
    Lp: lambda phi, c: (Lp(phi.p, c * phi.epsilon), c**phi.p),
}


@every_rescaled
def test_the_invariants_of_a_constraint_hold(constraint: Constraint) -> None:
    t = sizes(constraint, EXPONENTS)
    inner_is_custom = isinstance(constraint.constraint, Custom)
    if not inner_is_custom:  # whose φ is a difference, not monotone in its last digits
        check_is_a_sparsity_measure(constraint, t)
        check_saturates(constraint)
    check_h_is_convex_and_smooth(constraint, t)
    check_lipschitz(constraint, t)
    check_derivatives(constraint, t)
    check_unpenalized(constraint)
    check_float32(constraint, t)


@given(constraint=any_closed_form, factor=st.floats(0, 30).map(lambda e: 2.0**e), exponents=any_sizes)
@settings(max_examples=60, deadline=None)
def test_the_invariants_hold_for_any_factor(constraint: Constraint, factor: float, exponents: list[float]) -> None:
    wide = Rescaled(constraint, factor)
    t = sizes(wide, exponents)
    check_is_a_sparsity_measure(wide, t)
    check_h_is_convex_and_smooth(wide, t)
    check_lipschitz(wide, t)
    check_derivatives(wide, t)


@every_constraint
@pytest.mark.parametrize("factor", [1.0, 2.0, 8.0, 2.0**30])
def test_rescaled_is_phi_of_t_over_c_to_the_last_bit(constraint: Constraint, factor: float) -> None:
    """Powers of two round nothing."""
    wide, t = Rescaled(constraint, factor), sizes(constraint, EXPONENTS)
    assert np.array_equal(wide.phi(factor * t), constraint.phi(t))
    assert np.array_equal(wide.slope(factor * t), constraint.slope(t) / factor)
    assert np.array_equal(wide.curvature(factor * t), constraint.curvature(t) / factor**2)
    assert (wide.lam, wide.lipschitz) == (constraint.lam / factor, constraint.lipschitz / factor**2)
    assert (wide.cap, wide.threshold) == (constraint.cap, constraint.threshold * factor)
    x, weights = random_point(0), np.random.default_rng(0).uniform(0, 2, 30)
    assert wide.value(factor * x, weights) == constraint.value(x, weights)


@pytest.mark.parametrize("constraint", [c for c in CONSTRAINTS if not isinstance(c, Custom)], ids=str)
@pytest.mark.parametrize("factor", [2.0, 3.0, 100.0])
def test_rescaled_is_the_member_of_the_family_with_wider_parameters(constraint: Constraint, factor: float) -> None:
    wide = Rescaled(constraint, factor)
    member, times = FAMILIES[type(constraint)](constraint, factor)
    t = sizes(wide, EXPONENTS)
    np.testing.assert_allclose(times * wide.phi(t), member.phi(t), rtol=1e-12)
    np.testing.assert_allclose(times * wide.slope(t), member.slope(t), rtol=1e-12, atol=1e-14 * member.lam)
    off_knots = np.min([np.abs(t / k - 1) for k in [*knots(wide), math.inf]], axis=0) > 1e-9
    np.testing.assert_allclose(times * wide.curvature(t[off_knots]), member.curvature(t[off_knots]), rtol=1e-11)
    assert times * wide.lam == pytest.approx(member.lam, rel=1e-13)
    assert times * wide.lipschitz == pytest.approx(member.lipschitz, rel=1e-13)
    assert times * wide.cap == pytest.approx(member.cap, rel=1e-13)
    assert wide.threshold == pytest.approx(member.threshold, rel=1e-13)


@pytest.mark.parametrize("constraint", [c for c in CONSTRAINTS if not isinstance(c, Custom)], ids=str)
@pytest.mark.parametrize("factor", [2.0, 64.0])
def test_the_level_means_the_same(constraint: Constraint, factor: float) -> None:
    """As many caps; for Log the same η with θ/c, for Lp η φ_c(1)/φ(1) with cε, the family's own φ_c."""
    wide, level = Rescaled(constraint, factor), 3.7
    member, times = FAMILIES[type(constraint)](constraint, factor)
    if isinstance(constraint, Lp):
        expected = level * float(member.phi(1.0)) / float(constraint.phi(1.0))
    else:
        expected = level * (factor**-1 if isinstance(constraint, L1) else 1.0)
    assert times * wide.level_of(level) == pytest.approx(expected, rel=1e-13)
    for seed in range(3):  # so both sets have the same points
        x = random_point(seed)
        assert times * wide.value(x) / expected == pytest.approx(wide.value(x) / wide.level_of(level), rel=1e-12)


@every_constraint
def test_level_of_counts_caps_or_ones(constraint: Constraint) -> None:
    wide = Rescaled(constraint, 16.0)
    if math.isfinite(constraint.cap):
        assert wide.level_of(2.5) == 2.5
    else:
        ones = np.ones(7)
        assert wide.value(ones) <= wide.level_of(constraint.value(ones)) * (1 + 4 * EPS)
        assert wide.value(1.001 * ones) > wide.level_of(constraint.value(ones))


@every_constraint
def test_far_enough_it_is_straight(constraint: Constraint) -> None:
    t, factor = scale(constraint) * np.linspace(0, 100, 11), 2.0**30
    wide = Rescaled(constraint, factor)
    np.testing.assert_allclose(wide.slope(t), wide.lam, rtol=1e-6)
    np.testing.assert_allclose(wide.phi(t), wide.lam * t, rtol=1e-6)


def test_rescaled_pickles_compares_and_hashes() -> None:
    for constraint in RESCALED:
        copy = pickle.loads(pickle.dumps(constraint))
        assert copy == constraint and hash(copy) == hash(constraint) and str(copy) == str(constraint)
    assert len(set(RESCALED)) == len(RESCALED)


# Planted faults.


class SlopeUnscaled(Rescaled):
    """φ'(t/c) without its factor 1/c."""

    def _slope(self, t):
        return self.constraint._slope(t / self.factor)


class LipschitzOverC(Rescaled):
    """L_h/c for L_h/c²."""

    @property
    def lipschitz(self):
        return self.constraint.lipschitz / self.factor


class CurvatureOverC(Rescaled):
    """h''(t/c)/c for h''(t/c)/c²."""

    def _curvature(self, t):
        return self.constraint._curvature(t / self.factor) / self.factor


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        (check_h_is_convex_and_smooth, SlopeUnscaled),
        (check_lipschitz, LipschitzOverC),
        (check_derivatives, CurvatureOverC),
    ],
)
def test_planted_faults_are_caught(check, broken) -> None:
    good = Rescaled(MCP(2, 5), 8.0)
    t = sizes(good, EXPONENTS)
    check(good, t)
    with pytest.raises(AssertionError):
        check(broken(MCP(2, 5), 8.0), t)
