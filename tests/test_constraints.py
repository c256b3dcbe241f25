"""Every constraint keeps what the method relies on; and every check here catches a planted fault."""

from __future__ import annotations

import dataclasses
import doctest
import math
import os
import pickle
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from levelprox.constraints import (
    CONSTRAINT_TYPES,
    L1,
    MCP,
    SCAD,
    Constraint,
    Custom,
    Exp,
    Log,
    Lp,
    NegativeLp,
    custom,
)
from levelprox.errors import InvalidInputError, LevelproxError
from tests.registries import (
    CONSTRAINTS,
    huber,
    huber_derivative,
    pseudo_huber,
    pseudo_huber_derivative,
    random_point,
)

Double = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)
TINY = 5e-324
LARGEST = sys.float_info.max
EXTREME = [0.0, 5e-324, 1e-310, 1e-8, 1.0, 1e16, 1e17, 1e308, 1.7e308]
EXAMPLES = 2000 if os.environ.get("LEVELPROX_LONG_TESTS") else 60  # each, for every constraint of the registry

every_constraint = pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
closed_forms = [c for c in CONSTRAINTS if not isinstance(c, Custom)]


def scale(constraint: Constraint) -> float:
    """Return the size of t over which the slope can change: lam / L_h."""
    return constraint.lam / constraint.lipschitz if constraint.lipschitz > 0 else 1.0


def knots(constraint: Constraint) -> list[float]:
    """Return where the slope has a kink."""
    if isinstance(constraint, Custom):
        return [1.0] if constraint.h is huber else []
    places = [getattr(constraint, "knee", math.inf), constraint.threshold]
    return [place for place in places if math.isfinite(place)]


def sizes(constraint: Constraint, exponents: list[float]) -> Double:
    """Return 0, the knots and scale * 10**exponent, in order."""
    return np.sort(np.array([0.0, *knots(constraint), *(scale(constraint) * 10.0**e for e in exponents)]))


any_sizes = st.lists(st.floats(-9, 5), min_size=2, max_size=5)
magnitude = st.floats(-3, 3).map(lambda e: 10.0**e)
any_closed_form = st.one_of(
    st.builds(L1, magnitude),
    st.builds(MCP, magnitude, magnitude),
    st.builds(SCAD, magnitude, st.floats(-1, 1.5).map(lambda e: 1 + 10.0**e), magnitude),
    st.builds(Exp, magnitude),
    st.builds(Log, magnitude),
    st.builds(Lp, st.floats(0.05, 0.95), magnitude),
    st.builds(NegativeLp, st.floats(-1.5, 1.5).map(lambda e: -(10.0**e)), magnitude),
)
any_custom = st.floats(1.1, 4).map(lambda lam: Custom(lam, pseudo_huber, pseudo_huber_derivative, 1))


# The checks. Each is a plain function, so that it can be turned on broken constraints too.


def check_is_a_sparsity_measure(constraint: Constraint, t: Double) -> None:
    """Check that g >= 0, g(0) = 0, even, nondecreasing in |x|, and never above lam * |x| or the cap."""
    phi = constraint.phi(t)
    assert constraint.phi(0.0) == 0
    assert (phi >= 0).all() and (phi <= constraint.cap).all()
    assert (phi <= constraint.lam * t * (1 + 4 * EPS)).all()
    slack = 8 * EPS * constraint.lam * t if isinstance(constraint, Custom) else 4 * EPS * phi
    assert (np.diff(phi) >= -slack[1:]).all()
    flipped = t * np.resize([1, -1, -1], t.shape)
    assert constraint.value(t) == constraint.value(-t) == constraint.value(flipped)
    assert constraint.value(t) == pytest.approx(math.fsum(phi), rel=1e-14)


def check_h_is_convex_and_smooth(constraint: Constraint, t: Double) -> None:
    """Check that h(t) = lam * t - phi(t) is convex and C1 with h'(0) = 0 and 0 <= h' <= lam."""
    lam, slope = constraint.lam, constraint.slope(t)
    assert constraint.slope(0.0) == lam
    assert (slope >= 0).all() and (slope <= lam).all()
    assert (np.diff(slope) <= 4 * EPS * lam).all()
    assert (slope[t >= constraint.threshold] == 0).all()

    def h(t: Double) -> Double:
        return lam * t - constraint.phi(t)

    a, b = t[:-1], t[1:]
    assert (h((a + b) / 2) <= (h(a) + h(b)) / 2 + 8 * EPS * lam * b).all()
    step = 1e-8 * (scale(constraint) + t)  # long enough to be seen beside t
    jump = constraint.slope(np.maximum(t - step, 0)) - constraint.slope(t + step)
    assert (np.abs(jump) <= 1e-7 * lam + 2 * constraint.lipschitz * step).all()


def check_lipschitz(constraint: Constraint, t: Double) -> None:
    """Check that |h'(a) - h'(b)| <= L_h |a - b|, and that L_h is attained within 1 %."""
    slope = constraint.slope(t)
    rise, apart = slope[:, None] - slope, np.abs(t[:, None] - t)
    assert (np.abs(rise) <= constraint.lipschitz * apart * (1 + 4 * EPS) + 4 * EPS * constraint.lam).all()
    assert (constraint.curvature(t) <= constraint.lipschitz * (1 + 4 * EPS)).all()
    starts = [0.0, *(k for k in knots(constraint) if k < constraint.threshold)]
    near = np.array(starts) + 1e-4 * scale(constraint) * np.linspace(0, 1, 5)[:, None]
    steepest = -np.diff(constraint.slope(near), axis=0) / np.diff(near, axis=0)
    assert steepest.max() >= 0.99 * constraint.lipschitz


def check_derivatives(constraint: Constraint, t: Double) -> None:
    """Check slope as the derivative of phi, and curvature as that of -slope, by central differences."""
    lam, size = constraint.lam, scale(constraint)
    # Differences at t up to 1e3 scales, at least two steps away from 0 and, for the curvature, the knots.
    t = t[(t > 1e-4 * size) & (t < 1e3 * size)]
    step = 1e-6 * size
    quotient = (constraint.phi(t + step) - constraint.phi(t - step)) / ((t + step) - (t - step))
    np.testing.assert_allclose(quotient, constraint.slope(t), rtol=0, atol=5e-6 * lam)
    step = 1e-5 * size
    for knot in knots(constraint):
        t = t[np.abs(t - knot) > 2 * step]
    quotient = (constraint.slope(t - step) - constraint.slope(t + step)) / ((t + step) - (t - step))
    np.testing.assert_allclose(constraint.curvature(t), quotient, rtol=0, atol=5e-6 * constraint.lipschitz)


def check_against_the_paper(constraint: Constraint, t: Double) -> None:
    """Check lam, phi and slope against the paper's lam * t - h(t), with digits enough for any cancellation.

    phi is good to 1e-15 relative. So is the slope, where an exponent of size s = |log(slope/lam)| costs
    another factor s, and where the slope of MCP and SCAD runs into 0 the error is relative to lam: the
    threshold itself is rounded. Results near the smallest numbers have an ulp of 5e-324, and no better.
    """
    with mpmath.workdps(700):
        lam, h = PAPER[type(constraint)](constraint)
        assert abs(constraint.lam - lam) <= 1e-15 * lam
        for place, phi, slope in zip(t, constraint.phi(t), constraint.slope(t), strict=True):
            h_t, derivative = h(mpmath.mpf(float(place)))
            exact, exact_slope = lam * float(place) - h_t, lam - derivative
            if exact > LARGEST:
                assert phi == math.inf
                continue
            assert abs(float(phi) - exact) <= 1e-15 * exact + 2 * TINY, place
            error = abs(float(slope) - exact_slope)
            if isinstance(constraint, MCP | SCAD):
                conditioning = 1 if isinstance(constraint, MCP) else 1 + 1 / (constraint.theta - 1)
                assert error <= 1e-15 * lam * conditioning, place
            else:
                decay = abs(mpmath.log(exact_slope / lam)) if exact_slope > 0 else 0
                assert error <= 1e-15 * (1 + decay) * exact_slope + 2 * TINY * (1 + lam), place


def check_saturates(constraint: Constraint) -> None:
    """Check that phi stays at its cap up to the largest number, MCP and SCAD from their threshold on."""
    size = max(scale(constraint), 1)
    far = np.sort(np.minimum([1e3 * size, 1e16 * size, 1e17 * size, 1e308, 1.7e308, LARGEST], LARGEST))
    phi = constraint.phi(far)
    assert (phi <= constraint.cap).all() and (phi[1:] >= phi[:-1] * (1 - 4 * EPS)).all()
    if isinstance(constraint, MCP | SCAD | Exp | Custom) and math.isfinite(constraint.cap):
        assert (phi[1:] == constraint.cap).all()
        assert constraint.value(far[1:]) == 5 * constraint.cap
    if not isinstance(constraint, Custom):
        assert constraint.phi(math.inf) == constraint.cap
    if math.isfinite(constraint.threshold):
        threshold = constraint.threshold
        ends = np.array([0, *knots(constraint)])  # between them the slope is linear, and the cap its area
        area = np.sum(np.diff(ends) * (constraint.slope(ends)[1:] + constraint.slope(ends)[:-1]) / 2)
        assert constraint.cap == pytest.approx(area, rel=1e-14)
        at = threshold * np.array([1, 1 + EPS, 1.5, 10, 1e10])
        assert (constraint.phi(at) == constraint.cap).all() and (phi == constraint.cap).all()
        assert (constraint.slope(at) == 0).all() and (constraint.slope(far) == 0).all()
        below = threshold * (1 - np.logspace(-16, -1, 400)[::-1])
        assert (np.diff(constraint.phi(below)) >= 0).all() and (constraint.phi(below) <= constraint.cap).all()
        assert (constraint.curvature(at) == 0).all()
        assert constraint.slope(0.99 * threshold) > 0 and constraint.phi(0.99 * threshold) < constraint.cap


def check_float32(constraint: Constraint, t: Double) -> None:
    """Check that float32 in gives float32 out, as good as float32 can be."""
    single = t.astype(np.float32)
    for function in (constraint.phi, constraint.slope, constraint.curvature):
        result = function(single)
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, function(single.astype(np.float64)).astype(np.float32))
        assert function(t).dtype == np.float64
    assert constraint.value(single) == constraint.value(single.astype(np.float64))


def check_exempt(constraint: Constraint) -> None:
    """Check that a coordinate of weight 0 costs nothing, however large."""
    x = np.array([1e308, -0.5, math.inf, 2.0])
    expected = 2 * float(constraint.phi(0.5)) + 0.25 * float(constraint.phi(2.0))
    assert constraint.value(x, [0, 2, 0, 0.25]) == pytest.approx(expected, rel=1e-15)
    assert constraint.value(x, np.zeros(4)) == 0


# The paper's Table 2: for each constraint (lam, t -> (h(t), h'(t))) in mpmath numbers.


def paper_mcp(c: MCP) -> Any:
    lam, theta = mpmath.mpf(c.lam), mpmath.mpf(c.theta)
    return (
        lam,
        lambda t: (t**2 / (2 * theta), t / theta) if t <= theta * lam else (lam * t - theta * lam**2 / 2, lam),
    )


def paper_scad(c: SCAD) -> Any:
    factor, theta = mpmath.mpf(c.factor), mpmath.mpf(c.theta)
    lam = mpmath.mpf(c.lam) / factor

    def h(t: Any) -> Any:
        if t <= lam:
            return 0 * t, 0 * t
        if t <= theta * lam:
            return factor * (t**2 - 2 * lam * t + lam**2) / (2 * (theta - 1)), factor * (t - lam) / (theta - 1)
        return factor * (lam * t - (theta + 1) * lam**2 / 2), factor * lam

    return factor * lam, h


def paper_exp(c: Exp) -> Any:
    lam = mpmath.mpf(c.lam)
    return lam, lambda t: (mpmath.exp(-lam * t) - 1 + lam * t, lam - lam * mpmath.exp(-lam * t))


def paper_log(c: Log) -> Any:
    theta, unit = mpmath.mpf(c.theta), mpmath.log(1 + mpmath.mpf(c.theta))
    lam = theta / unit
    return lam, lambda t: (lam * t - mpmath.log(1 + theta * t) / unit, lam - lam / (1 + theta * t))


def paper_lp(c: Lp) -> Any:
    p, epsilon = mpmath.mpf(c.p), mpmath.mpf(c.epsilon)
    lam = p * epsilon ** (p - 1)
    return lam, lambda t: (lam * t - (t + epsilon) ** p + epsilon**p, lam - p * (t + epsilon) ** (p - 1))


def paper_negative_lp(c: NegativeLp) -> Any:
    p, theta = mpmath.mpf(c.p), mpmath.mpf(c.theta)
    lam = -p * theta
    return lam, lambda t: (lam * t - 1 + (1 + theta * t) ** p, lam - lam * (1 + theta * t) ** (p - 1))


PAPER: dict[type[Constraint], Callable[[Any], Any]] = {
    L1: lambda c: (mpmath.mpf(c.lam), lambda t: (0 * t, 0 * t)),
    MCP: paper_mcp,
    SCAD: paper_scad,
    Exp: paper_exp,
    Log: paper_log,
    Lp: paper_lp,
    NegativeLp: paper_negative_lp,
}


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
def test_weight_zero_exempts(constraint: Constraint) -> None:
    check_exempt(constraint)


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


# Parameters: what is refused, and what is extreme but fine.

GOOD: dict[type[Constraint], dict[str, Any]] = {
    L1: {"lam": 1.0},
    MCP: {"lam": 1.0, "theta": 2.0},
    SCAD: {"lam": 1.0, "theta": 2.0, "factor": 1.0},
    Exp: {"lam": 1.0},
    Log: {"theta": 1.0},
    Lp: {"p": 0.5, "epsilon": 1.0},
    NegativeLp: {"p": -1.0, "theta": 1.0},
    Custom: {"lam": 1.0, "h": huber, "grad_h": huber_derivative, "lipschitz": 1.0, "cap": 0.5},
}
INTERVALS = {
    (SCAD, "theta"): (1, math.inf),
    (Lp, "p"): (0, 1),
    (NegativeLp, "p"): (-math.inf, 0),
}
BAD = [math.nan, math.inf, -math.inf, True, np.True_, "1", None, 1j, [1.0], 10**400]


def bad_parameters() -> list[Any]:
    cases = []
    for kind, good in GOOD.items():
        for name, value in good.items():
            if callable(value):
                continue
            low, high = INTERVALS.get((kind, name), (0, math.inf))
            outside = [end for end in (low, high) if math.isfinite(end)]
            outside += [low - 0.5] if math.isfinite(low) else [high + 0.5]
            for bad in BAD + outside:
                if not (name == "cap" and isinstance(bad, float) and bad == math.inf):
                    label = "10**400" if isinstance(bad, int) and bad > 1 else repr(bad)
                    cases.append(pytest.param(kind, name, bad, id=f"{kind.__name__}-{name}-{label}"))
    return cases


@pytest.mark.parametrize(("kind", "name", "bad"), bad_parameters())
def test_bad_parameters_are_refused_by_name(kind: type[Constraint], name: str, bad: object) -> None:
    low, high = INTERVALS.get((kind, name), (0, math.inf))
    with pytest.raises(InvalidInputError) as caught:
        kind(**{**GOOD[kind], name: bad})
    assert str(caught.value).startswith(f"{name} must be in ({low:g}, {high:g}), got ")
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, LevelproxError)


def test_the_message_is_a_sentence() -> None:
    with pytest.raises(InvalidInputError, match=r"^theta must be in \(1, inf\), got 0.5$"):
        SCAD(1, 0.5)


@pytest.mark.parametrize("kind", [MCP, SCAD])
@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, True, "1", 1e200, 1e-200, 5e-324])
def test_from_threshold_refuses_by_name(kind: type[MCP] | type[SCAD], bad: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"^threshold"):
        kind.from_threshold(bad)


def test_scad_from_threshold_refuses_theta() -> None:
    with pytest.raises(InvalidInputError, match=r"theta must be in \(1, inf\), got 1$"):
        SCAD.from_threshold(1, theta=1)


@pytest.mark.parametrize(
    "constraint",
    [
        MCP(1e-300, 1e300),
        MCP(1e100, 1e-200),
        SCAD(1e-300, 1e300),
        SCAD(1e200, 1e200, 1e300),
        SCAD(1, math.nextafter(1, 2)),
        Exp(1e-150),
        Exp(1e150),
        Log(1e-300),
        Log(1e150),
        Lp(0.3, 1e-150),
        Lp(0.5, 1e150),
        Lp(1e-10, 1),
        Lp(1 - 1e-10, 1),
        NegativeLp(-1e-300, 1e150),
        NegativeLp(-1e150, 1e-150),
        L1(1e-300),
    ],
    ids=str,
)
def test_extreme_parameters_work(constraint: Constraint) -> None:
    t = sizes(constraint, [-9, -3, 0, 0.5, 1, 3])
    check_is_a_sparsity_measure(constraint, t)
    check_saturates(constraint)
    if not (isinstance(constraint, SCAD) and constraint.theta < 1.001):  # hardly a float lies on its ramp
        check_h_is_convex_and_smooth(constraint, t)
        check_against_the_paper(constraint, np.array([*EXTREME, *t]))


@pytest.mark.parametrize(
    ("build", "constant", "parameters"),
    [
        (lambda: MCP(1e200, 1e200), "threshold", ["lam", "theta"]),
        (lambda: MCP(1e160, 1e-2), "cap", ["lam", "theta"]),
        (lambda: MCP(1e-300, 1e-300), "threshold", ["lam", "theta"]),
        (lambda: MCP(1, 1e-310), "lipschitz", ["lam", "theta"]),
        (lambda: SCAD(1e300, 2), "cap", ["lam", "theta", "factor"]),
        (lambda: SCAD(1e300, 2, 1e-300), "knee", ["lam", "theta", "factor"]),
        (lambda: Exp(1e-300), "lipschitz", ["lam"]),
        (lambda: Exp(1e300), "lipschitz", ["lam"]),
        (lambda: Log(1e300), "lipschitz", ["theta"]),
        (lambda: Lp(0.5, 1e-300), "lipschitz", ["p", "epsilon"]),
        (lambda: Lp(0.5, 1e300), "lipschitz", ["p", "epsilon"]),
        (lambda: NegativeLp(-1, 1e300), "lipschitz", ["p", "theta"]),
        (lambda: NegativeLp(-1e200, 1e200), "lam", ["p", "theta"]),
    ],
)
def test_constants_beyond_float64_are_refused(
    build: Callable[[], Constraint], constant: str, parameters: list[str]
) -> None:
    with pytest.raises(InvalidInputError, match=r" = (0|inf), beyond the range of float64") as caught:
        build()
    assert f" has {constant} = " in str(caught.value)
    assert all(f"{name}=" in str(caught.value) for name in parameters)


def test_parameters_of_any_real_type_become_floats() -> None:
    assert MCP(np.float32(2), 5) == MCP(2.0, np.int64(5)) and type(MCP(2, 5).lam) is float


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"weights must have the shape of x, \(2,\), got \(1,\)"),
        ([1.0, -0.5], r"weights must be in \[0, inf\), got -0.5 at index 1"),
        ([math.nan, 1.0], "weights contains NaN at index 0"),
        ([math.inf, 1.0], "weights contains inf at index 0"),
        (["a", "b"], "weights must hold real numbers"),
    ],
)
def test_bad_weights_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        L1().value([1.0, 2.0], weights)


# Custom.


def test_custom_of_a_known_h_is_that_constraint() -> None:
    t = np.concatenate((EXTREME, np.logspace(-6, 6, 100)))
    rebuilt, exact = Custom(1, huber, huber_derivative, 1, cap=0.5), MCP(1, 1)
    np.testing.assert_allclose(rebuilt.phi(t), exact.phi(t), rtol=1e-14)
    np.testing.assert_array_equal(rebuilt.slope(t), exact.slope(t))
    smooth = t[np.abs(t - 1) > 1e-4]
    np.testing.assert_allclose(rebuilt.curvature(smooth), exact.curvature(smooth), rtol=1e-9)


def test_custom_cancels_as_documented() -> None:
    t = np.logspace(0.5, 17, 100)
    constraint = Custom(1 + 1e-6, huber, huber_derivative, 1)
    error = np.abs(constraint.phi(t) - (0.5 + (constraint.lam - 1) * t))
    assert (error <= 2 * EPS * t).all() and error.max() > 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"h": 3}, "h must be a function of t, got 3"),
        ({"grad_h": None}, "grad_h must be a function of t, got None"),
        ({"h": lambda t: huber(t) + 1}, r"h\(0\) must be 0, got 1"),
        ({"grad_h": lambda t: huber_derivative(t) + 1}, r"grad_h\(0\) must be 0, got 1"),
        ({"lam": 0.5}, r"grad_h must be in \[0, lam\] = \[0, 0.5\]"),
        (
            {"h": lambda t: -huber(t), "grad_h": lambda t: -huber_derivative(t)},
            r"grad_h must be in \[0, lam\]",
        ),
        ({"grad_h": lambda t: t * np.exp(-t)}, "grad_h must not decrease"),
        ({"lipschitz": 0.5}, "grad_h must not rise faster than lipschitz = 0.5"),
        ({"h": lambda t: 2 * huber(t)}, "h must rise as its derivative grad_h says"),
        ({"h": lambda t: 0 * t}, "h must rise as its derivative grad_h says"),
        ({"cap": 0.4}, r"lam \* t - h\(t\) must not exceed cap = 0.4"),
        ({"cap": math.inf}, r"grad_h reaches lam and phi its cap, so cap must be given; phi = 0.5 at t = 1"),
        ({"h": lambda t: 0.0}, r"h must return the shape of t, \(242,\), got \(\)"),
        ({"grad_h": lambda t: t[1:]}, r"grad_h must return the shape of t, \(242,\), got \(241,\)"),
        ({"h": lambda t: np.where(t > 1, np.nan, huber(t))}, "h must be finite, got nan at t = 1.1"),
        ({"grad_h": lambda t: np.full(t.shape, np.inf)}, "grad_h must be finite, got inf at t = 0"),
        ({"h": lambda t: t * 1j}, "h must return real numbers, got dtype complex128"),
    ],
)
def test_custom_refuses_functions_that_break_the_rules(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Custom(**{**GOOD[Custom], **change})


def test_custom_checks_its_functions_later_too() -> None:
    constraint = Custom(1, lambda t: np.where(t > 1e9, np.nan, huber(t)), huber_derivative, 1, 0.5)
    with pytest.raises(InvalidInputError, match=r"h must be finite, got nan at t = 1e\+10"):
        constraint.value([1.0, 1e10])


def test_custom_forgives_a_rounding_error_at_zero() -> None:
    constraint = Custom(2, lambda t: huber(t) + 1e-17, lambda t: huber_derivative(t) + 1e-17, 1)
    assert constraint.phi(0.0) == 0 and constraint.slope(0.0) == 2


def test_custom_says_who_it_is_without_addresses() -> None:
    constraint = Custom(2, huber, partial(np.minimum, 1), 1)
    assert str(constraint) == "Custom(lam=2.0, h=huber, grad_h=partial, lipschitz=1.0, cap=inf)"


def test_custom_example_runs() -> None:
    assert doctest.testmod(custom).attempted > 0 and doctest.testmod(custom).failed == 0


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
    """float64 whatever comes in."""

    def phi(self, t: Any) -> Any:
        return super().phi(np.asarray(t, dtype=np.float64))


class WeightTimesPhi(Log):
    """0 * inf for an exempt coordinate."""

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
        (check_exempt, WeightTimesPhi(1)),
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
