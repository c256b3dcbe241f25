"""Every constraint has the properties that the method needs, and every check detects a planted fault."""

from __future__ import annotations

import dataclasses
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox.constraints import (
    CONSTRAINT_TYPES,
    L1,
    MCP,
    SCAD,
    Constraint,
    Exp,
    Log,
    Lp,
    NegativeLp,
)
from tests.support.constraint_cases import (
    EPS,
    EXAMPLES,
    EXTREME,
    PAPER,
    Double,
    any_closed_form,
    any_custom,
    any_sizes,
    check_against_the_paper,
    check_derivatives,
    check_float32,
    check_h_is_convex_and_smooth,
    check_is_a_sparsity_measure,
    check_lipschitz,
    check_saturates,
    check_unpenalized,
    closed_forms,
    every_constraint,
    knots,
    magnitude,
    scale,
    sizes,
)
from tests.support.registries import (
    CONSTRAINTS,
    random_point,
)

# The checks on every constraint there is.


@every_constraint
@given(exponents=any_sizes)
@settings(max_examples=EXAMPLES, deadline=None)
def test_g_is_a_sparsity_measure(constraint: Constraint, exponents: list[float]) -> None:
    check_is_a_sparsity_measure(constraint, sizes(constraint, exponents))


@every_constraint
@given(exponents=any_sizes)
@settings(max_examples=EXAMPLES, deadline=None)
def test_h_is_convex_and_smooth(constraint: Constraint, exponents: list[float]) -> None:
    check_h_is_convex_and_smooth(constraint, sizes(constraint, exponents))


@every_constraint
@given(exponents=any_sizes)
@settings(max_examples=EXAMPLES, deadline=None)
def test_lipschitz_constant_holds_and_is_attained(constraint: Constraint, exponents: list[float]) -> None:
    check_lipschitz(constraint, sizes(constraint, exponents))


@every_constraint
@given(exponents=any_sizes)
@settings(max_examples=EXAMPLES, deadline=None)
def test_slope_and_curvature_are_derivatives(constraint: Constraint, exponents: list[float]) -> None:
    check_derivatives(constraint, sizes(constraint, exponents))


@given(constraint=any_closed_form | any_custom, exponents=any_sizes)
@settings(max_examples=5 * EXAMPLES, deadline=None)
def test_invariants_hold_for_any_parameters(constraint: Constraint, exponents: list[float]) -> None:
    t = sizes(constraint, exponents)
    check_is_a_sparsity_measure(constraint, t)
    check_h_is_convex_and_smooth(constraint, t)
    check_lipschitz(constraint, t)
    check_derivatives(constraint, t)
    check_saturates(constraint)


@pytest.mark.parametrize("constraint", closed_forms, ids=str)
def test_agrees_with_the_paper_to_the_last_digits(constraint: Constraint) -> None:
    around = [knot * (1 + k * 1e-3) for knot in knots(constraint) for k in range(-2, 3)]
    t = np.array([*EXTREME, *around, *sizes(constraint, [-17, -9, -3, -1, -0.3, 0, 0.2, 0.5, 1, 1.5, 3, 9])])
    check_against_the_paper(constraint, t)


@given(constraint=any_closed_form, exponents=any_sizes)
@settings(max_examples=EXAMPLES, deadline=None)
def test_agrees_with_the_paper_for_any_parameters(constraint: Constraint, exponents: list[float]) -> None:
    check_against_the_paper(constraint, sizes(constraint, exponents))


@every_constraint
def test_saturates_exactly(constraint: Constraint) -> None:
    check_saturates(constraint)


@every_constraint
def test_float32_results_are_rounded_float64_ones(constraint: Constraint) -> None:
    check_float32(constraint, sizes(constraint, list(np.linspace(-6, 6, 50))))


def test_float32_can_be_used_with_parameters_it_cannot_hold() -> None:
    t = np.array([0, 1e-30, 0.5, 1, 2], dtype=np.float32)
    tiny = MCP(1e-300, 1e300)
    np.testing.assert_array_equal(tiny.slope(t), np.zeros(5, dtype=np.float32))
    assert tiny.value(t) == pytest.approx((0.375 + 0.5 + 0.5) * 1e-300, rel=1e-15)
    assert L1(1e300).phi(t[3]) == math.inf


@every_constraint
def test_weight_zero_leaves_a_coordinate_unpenalized(constraint: Constraint) -> None:
    check_unpenalized(constraint)


@every_constraint
@pytest.mark.parametrize("seed", range(3))
def test_value_sums_weighted_phi(constraint: Constraint, seed: int) -> None:
    x, weights = random_point(seed), np.random.default_rng(seed).uniform(0, 2, 30)
    phi = constraint.phi(np.abs(x))
    assert constraint.value(x) == pytest.approx(math.fsum(phi), rel=1e-14)
    assert constraint.value(x, weights) == pytest.approx(math.fsum(weights * phi), rel=1e-14)
    assert constraint.value(x, np.ones(30)) == constraint.value(x)
    assert constraint.value(x.reshape(5, 6), weights.reshape(5, 6)) == pytest.approx(
        constraint.value(x, weights), rel=1e-14
    )
    assert type(constraint.value(x)) is float


@every_constraint
def test_extreme_sizes_give_numbers_and_no_warning(constraint: Constraint) -> None:
    t = np.array(EXTREME)
    assert not np.isnan(constraint.phi(t)).any()
    assert np.isfinite(constraint.slope(t)).all() and np.isfinite(constraint.curvature(t)).all()
    assert constraint.phi(1e-310) > 0
    assert math.isnan(constraint.phi(math.nan)) and math.isnan(constraint.value([1, math.nan]))


@every_constraint
def test_numbers_lists_and_integers_are_taken(constraint: Constraint) -> None:
    assert isinstance(constraint.phi(2), np.float64) and constraint.phi(2) == constraint.phi([2.0])[0]
    assert isinstance(constraint.slope(np.float32(2)), np.float32)
    assert constraint.value([1, -2]) == constraint.value(np.array([1, -2], dtype=np.int8))
    assert constraint.value([]) == 0 and constraint.phi([]).shape == (0,)
    readonly = random_point(0)
    readonly.flags.writeable = False
    assert constraint.value(readonly[::-2]) == pytest.approx(constraint.value(readonly[::-2].copy()))


@every_constraint
def test_pickles_compares_and_hashes(constraint: Constraint) -> None:
    copy = pickle.loads(pickle.dumps(constraint))
    assert copy == constraint and hash(copy) == hash(constraint) and str(copy) == str(constraint)
    assert len({*CONSTRAINTS, copy}) == len(CONSTRAINTS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        constraint.lam = 1.0


def test_registry_has_every_constraint() -> None:
    assert {type(constraint) for constraint in CONSTRAINTS} == set(CONSTRAINT_TYPES)
    assert len({str(constraint) for constraint in CONSTRAINTS}) == len(CONSTRAINTS)


# Caps, thresholds and special cases.


def test_constants_of_the_table() -> None:
    assert (MCP(2, 5).cap, MCP(2, 5).threshold, MCP(2, 5).lipschitz) == (10, 10, 0.2)
    assert (SCAD(2, 5).cap, SCAD(2, 5).threshold, SCAD(2, 5).lipschitz) == (12, 10, 0.25)
    assert (Exp(3).cap, Exp(3).threshold, Exp(3).lipschitz) == (1, math.inf, 9)
    assert (Log(2).cap, Log(2).lipschitz) == (math.inf, pytest.approx(4 / math.log(3)))
    assert Log(2).phi(1.0) == pytest.approx(1, rel=1e-15)
    assert (Lp(0.5, 0.25).cap, Lp(0.5, 0.25).lam, Lp(0.5, 0.25).lipschitz) == (math.inf, 1, 2)
    assert (NegativeLp(-2, 3).cap, NegativeLp(-2, 3).lam, NegativeLp(-2, 3).lipschitz) == (1, 6, 54)
    assert (L1(3).cap, L1(3).threshold, L1(3).lipschitz) == (math.inf, math.inf, 0)


def test_mcp_does_not_cancel_at_large_coefficients() -> None:
    np.testing.assert_array_equal(MCP(2, 5).phi([1e16, 1e17, 1e308]), [10, 10, 10])


@given(lam=magnitude, factor=magnitude, t=magnitude)
@settings(max_examples=EXAMPLES, deadline=None)
def test_scad_factor_scales_the_paper_s_scad(lam: float, factor: float, t: float) -> None:
    scaled, plain = SCAD(lam, 3.7, factor), SCAD(lam / factor, 3.7)
    assert scaled.lam == lam
    assert scaled.phi(t) == pytest.approx(factor * plain.phi(t), rel=1e-14)
    assert scaled.cap == pytest.approx(factor * plain.cap, rel=1e-14)
    assert scaled.threshold == plain.threshold == 3.7 * (lam / factor)


@pytest.mark.parametrize("kind", [MCP, SCAD])
@given(exponent=st.floats(-100, 100))
@settings(max_examples=EXAMPLES, deadline=None)
def test_from_threshold_counts_features(kind: type[MCP] | type[SCAD], exponent: float) -> None:
    threshold = 10.0**exponent
    constraint = kind.from_threshold(threshold)
    assert constraint.cap == pytest.approx(1, abs=2 * EPS)
    assert constraint.threshold == pytest.approx(threshold, rel=8 * EPS)
    assert constraint.value(threshold * np.array([0, 1, -7, 2])) == pytest.approx(3, rel=1e-15)


@pytest.mark.parametrize("threshold", [1e-6, 0.01, 0.1, 0.3, 0.5, 0.7, 1, 1.1, 3, 7, 10, 49, 1e5])
@pytest.mark.parametrize("kind", [MCP, SCAD])
def test_from_threshold_counts_to_the_last_bit(kind: type[MCP] | type[SCAD], threshold: float) -> None:
    constraint = kind.from_threshold(threshold)
    assert constraint.cap == constraint.phi(threshold) == 1 and constraint.slope(threshold) == 0
    assert constraint.value(np.full(1000, threshold)) == 1000


def test_scad_from_threshold_takes_theta() -> None:
    constraint = SCAD.from_threshold(2, theta=5)
    assert constraint.theta == 5 and constraint.knee == pytest.approx(0.4) and constraint.cap == 1
    # A rare theta for which no parameters nearby give a cap of exactly 1.
    assert SCAD.from_threshold(15608104.374504624, 14.997238934751463).cap == pytest.approx(1, abs=2 * EPS)


def test_lp_differs_from_the_paper_by_a_constant() -> None:
    x, p, epsilon = random_point(3), 0.4, 0.05
    unshifted = np.sum((np.abs(x) + epsilon) ** p)
    assert Lp(p, epsilon).value(x) == pytest.approx(unshifted - x.size * epsilon**p, rel=1e-12)


def test_limits_of_the_family() -> None:
    t = np.linspace(0, 5, 50)
    np.testing.assert_allclose(NegativeLp(-1e8, 2e-8).phi(t), Exp(2).phi(t), rtol=1e-7)
    np.testing.assert_allclose(Log(1e-9).phi(t), L1().phi(t), rtol=1e-8)
    np.testing.assert_allclose(SCAD(2, 1 + 1e-12).phi(t), np.minimum(2 * t, 4), rtol=1e-11)


# Planted faults: each check above must see them.


class LamDropped(MCP):
    """Phi without its factor lam."""

    def _phi(self, t: Double) -> Double:
        return super()._phi(t) / self.lam


class Unclipped(MCP):
    """The parabola of MCP, past its top."""

    def _phi(self, t: Double) -> Double:
        return t * (self.lam - t / (2 * self.theta))


class Difference(MCP):
    """Phi as lam * t - h(t)."""

    def _phi(self, t: Double) -> Double:
        flat = self.lam * t - self.cap
        h = np.where(t <= self.threshold, np.minimum(t, self.threshold) ** 2 / (2 * self.theta), flat)
        return self.lam * t - h


class SlopeFlipped(Exp):
    """-phi' for phi'."""

    def _slope(self, t: Double) -> Double:
        return -super()._slope(t)


class SlopeRising(Exp):
    """H' for phi', near enough."""

    def _slope(self, t: Double) -> Double:
        return self.lam + super()._slope(t).min() - super()._slope(t)


class KneeOmitted(SCAD):
    """SCAD without its ramp: the slope jumps."""

    def _slope(self, t: Double) -> Double:
        return np.where(t < self.threshold, self.lam, 0)


class LipschitzHalved(MCP):
    """An L_h that does not hold."""

    @property
    def lipschitz(self) -> float:
        return super().lipschitz / 2


class LipschitzDoubled(Log):
    """An L_h that holds but is loose."""

    @property
    def lipschitz(self) -> float:
        return super().lipschitz * 2


class CurvatureOfPhi(Lp):
    """Phi'' for h''."""

    def _curvature(self, t: Double) -> Double:
        return -super()._curvature(t)


class CapOfMCP(SCAD):
    """The cap of another function."""

    @property
    def cap(self) -> float:
        return self.theta * self.lam * self.lam / 2


class NoExpm1(Exp):
    """1 - exp(-s), which is 0 for small s."""

    def _phi(self, t: Double) -> Double:
        return 1 - np.exp(-self.lam * t)


class Overflowing(NegativeLp):
    """Log1p of a product that overflows."""

    def _phi(self, t: Double) -> Double:
        return -np.expm1(self.p * np.log1p(self.theta * t))


class Odd(L1):
    """A sum without the absolute value."""

    def value(self, x: Any, weights: Any = None) -> float:
        return float(np.sum(self.lam * np.asarray(x)))


class AlwaysDouble(Log):
    """Return float64 for any input."""

    def phi(self, t: Any) -> Any:
        return super().phi(np.asarray(t, dtype=np.float64))


class WeightTimesPhi(Log):
    """0 * inf for an unpenalized coordinate."""

    def value(self, x: Any, weights: Any = None) -> float:
        with np.errstate(invalid="ignore"):
            return float(np.sum(np.asarray(weights) * self.phi(np.abs(x))))


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        (check_is_a_sparsity_measure, Unclipped(2, 5)),
        (check_is_a_sparsity_measure, Odd(1)),
        (check_h_is_convex_and_smooth, SlopeFlipped(1)),
        (check_h_is_convex_and_smooth, SlopeRising(1)),
        (check_h_is_convex_and_smooth, KneeOmitted(1, 3.7)),
        (check_lipschitz, LipschitzHalved(2, 5)),
        (check_lipschitz, LipschitzDoubled(1)),
        (check_derivatives, LamDropped(2, 5)),
        (check_derivatives, SlopeRising(1)),
        (check_derivatives, CurvatureOfPhi(0.5, 0.1)),
        (check_against_the_paper, Difference(1, 5)),
        (check_against_the_paper, NoExpm1(1)),
        (check_against_the_paper, Overflowing(-0.001, 20)),
        (check_saturates, Difference(1, 5)),
        (check_saturates, CapOfMCP(1, 3.7)),
        (check_float32, AlwaysDouble(1)),
        (check_unpenalized, WeightTimesPhi(1)),
    ],
    ids=lambda case: getattr(case, "__name__", type(case).__name__),
)
def test_planted_faults_are_caught(
    check: Callable[..., None], broken: Constraint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in type(broken).__mro__:
        if kind in PAPER:
            monkeypatch.setitem(PAPER, type(broken), PAPER[kind])
            good = kind(**{field.name: getattr(broken, field.name) for field in dataclasses.fields(broken)})
    t = np.array([*sizes(good, [-6, -3, -1, -0.5, 0, 0.3, 1, 2, 4]), 1e17 * scale(good), 1e308])
    t = t[: None if check is check_against_the_paper else -2]
    arguments = (t,) if "t" in check.__code__.co_varnames[: check.__code__.co_argcount] else ()
    check(good, *arguments)
    with pytest.raises(AssertionError):
        check(broken, *arguments)
