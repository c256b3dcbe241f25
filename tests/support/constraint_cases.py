"""What every constraint must keep, as checks; and the paper's Table 2 in 50 and more digits."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from levelprox.constraints import (
    L1,
    MCP,
    SCAD,
    Constraint,
    Custom,
    Exp,
    Log,
    Lp,
    NegativeLp,
    Rescaled,
)
from tests.support.long_runs import LONG
from tests.support.registries import (
    CONSTRAINTS,
    huber,
    pseudo_huber,
    pseudo_huber_derivative,
)

Double = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)
TINY = 5e-324
LARGEST = sys.float_info.max
EXTREME = [0.0, 5e-324, 1e-310, 1e-8, 1.0, 1e16, 1e17, 1e308, 1.7e308]
EXAMPLES = 2000 if LONG else 30  # each, for every constraint of the registry

every_constraint = pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
closed_forms = [c for c in CONSTRAINTS if not isinstance(c, Custom)]


def scale(constraint: Constraint) -> float:
    """Return the size of t over which the slope can change: lam / L_h."""
    return constraint.lam / constraint.lipschitz if constraint.lipschitz > 0 else 1.0


def knots(constraint: Constraint) -> list[float]:
    """Return where the slope has a kink."""
    if isinstance(constraint, Rescaled):
        return [constraint.factor * place for place in knots(constraint.constraint)]
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
    step = 1e-8 * (scale(constraint) + t)  # long enough relative to t
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


def check_unpenalized(constraint: Constraint) -> None:
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


def exact_value(constraint: Constraint, x: Double, digits: int = 50) -> Any:
    """g(x) with that many digits, from the paper's table (Custom: as it computes itself)."""
    with mpmath.workdps(digits):
        if type(constraint) not in PAPER:
            return mpmath.mpf(constraint.value(x))
        lam, h = PAPER[type(constraint)](constraint)
        return mpmath.fsum(lam * t - h(t)[0] for t in map(mpmath.mpf, np.abs(x).tolist()))
