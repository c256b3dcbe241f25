"""Every loss: its digits, its derivatives, the constants it states, its means, and its errors.

The invariants are plain functions of a loss, and each is shown to catch a fault planted in one.
"""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import _kernels
from levelprox.exceptions import InvalidInputError, LevelproxError
from levelprox.losses import (
    LOSS_TYPES,
    Absolute,
    Cauchy,
    Gamma,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Poisson,
    Quantile,
    Sigmoid,
    Smoothed,
    Squared,
    SquaredHinge,
    check_weights,
    loss_by_name,
)
from tests.support import children, reference
from tests.support.registries import LOSSES, targets_of

SMOOTH = [loss for loss in LOSSES if loss.smooth]
KINKED = [loss for loss in LOSSES if not loss.smooth]
SMOOTHED = [loss for loss in LOSSES if isinstance(loss, Smoothed)]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
every_smooth_loss = pytest.mark.parametrize("loss", SMOOTH, ids=str)
every_log_loss = pytest.mark.parametrize("loss", [Poisson(), Gamma()], ids=str)
every_kinked_loss = pytest.mark.parametrize("loss", KINKED, ids=str)
LARGEST = np.finfo(np.float64).max


def targets_for(loss: Loss, n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.choice([-1.0, 1.0], n) if loss.kind == "margin" else targets_of(loss, rng.normal(scale=2, size=n))


def target_near(loss: Loss, b: float) -> float:
    """A target that the loss allows, made of any number."""
    if loss.kind == "margin":
        return math.copysign(1.0, b)
    return abs(b) or float(loss.kind == "positive") if loss.kind in ("count", "positive") else b


# --- digits -----------------------------------------------------------------------------------------

# The limits of exp in float32 and float64, half-way cases, and the ends of the range.
MAGNITUDES = [0, 5e-324, 1e-300, 1e-160, 1e-20, 1e-8, 1e-3, 0.1, 0.5, 1, 1.5, 3, 10, 36.7, 37, 88, 89]
MAGNITUDES += [709, 710, 745, 746, 11356, 1e8, 1.1e8, 2e8, 1e16, 1e100, 1e154, 1e155, 1e200, 1e300, 1e308]
MARGINS = [sign * float(m) for m in MAGNITUDES for sign in (1, -1)]
EXTREME = [
    Huber(1e-200),
    Huber(1e200),
    Cauchy(1e-200),
    Cauchy(1e-3),
    Cauchy(1e5),
    Cauchy(1e200),
    Cauchy(1e300),
    Quantile(1e-300),
    Quantile(1 - 2**-53),
    *(
        kinked.smoothed(width)
        for kinked in (Absolute(), Quantile(0.2), Hinge())
        for width in (1e-300, 1e-8, 1e9, 1e300)
    ),
]


def exact(loss: Loss, z: float, b: float) -> tuple[mpmath.mpf, ...]:
    """Value, derivative and curvature, to as many digits as mpmath now works with."""
    mp = mpmath.mp
    z, b, k = mp.mpf(z), mp.mpf(b), mp.mpf(loss.parameter)
    r = b - z
    if isinstance(loss, Smoothed):
        # The best of three: w at the kink, or z moved against either slope of ℓ.
        width, (low, high) = mp.mpf(loss.width), exact_slopes(loss.loss, b)
        ways = [(r**2 / (2 * width), -r / width, 1 / width)]
        for slope in (low, high):
            ways.append((exact(loss.loss, z - width * slope, b)[0] + width * slope**2 / 2, slope, mp.mpf(0)))
        return min(ways, key=lambda way: way[0])
    if loss.name == "squared":
        return r**2, -2 * r, mp.mpf(2)
    if loss.name == "logistic":
        e = mp.exp(-abs(z))
        value = mp.log1p(e) + max(-b * z, mp.mpf(0))
        return value, -b * (e if b * z > 0 else 1) / (1 + e), e / (1 + e) ** 2
    if loss.name == "huber":
        if abs(r) <= k:
            return r**2 / 2, -r, mp.mpf(1)
        return k * (abs(r) - k / 2), -k * mp.sign(r), mp.mpf(0)
    if loss.name == "absolute":
        return abs(r), -mp.sign(r)
    if loss.name == "quantile":
        return max(k * r, (k - 1) * r), mp.mpf(0) if r == 0 else -k if r > 0 else 1 - k
    if loss.name == "hinge":
        return max(1 - b * z, mp.mpf(0)), -b if b * z < 1 else mp.mpf(0)
    if loss.name == "sigmoid":
        e = mp.exp(-abs(z))
        p, bend = (e if b * z > 0 else 1) / (1 + e), e * -mp.expm1(-abs(z)) / (1 + e) ** 3
        return p, -b * e / (1 + e) ** 2, mp.sign(b * z) * bend
    if loss.name == "squared_hinge":
        lack = max(1 - b * z, mp.mpf(0))
        return lack**2, -2 * b * lack, mp.mpf(2 if lack > 0 else 0)
    if loss.name == "poisson":
        return mp.exp(z) - b * z, mp.exp(z) - b, mp.exp(z)
    if loss.name == "gamma":
        return z + b * mp.exp(-z), 1 - b * mp.exp(-z), b * mp.exp(-z)
    assert loss.name == "cauchy"
    q2 = (r / k) ** 2
    return k**2 / 2 * mp.log1p(q2), -r / (1 + q2), (1 - q2) / (1 + q2) ** 2


def exact_slopes(loss: Loss, b: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Slopes of a loss with a kink at z = b, before and after it."""
    return exact(loss, b - 1, b)[1], exact(loss, b + 1, b)[1]


def largest_terms(loss: Loss, z: float, b: float) -> dict[str, mpmath.mpf]:
    """What the error of a value and a derivative is relative to, where it is more than the answer itself.

    exp(z) - bz and z + b exp(-z) are differences of numbers that are rounded, and cancel.
    """
    mp = mpmath.mp
    if loss.name == "poisson":
        return {"value": mp.exp(z) + abs(mp.mpf(b) * z), "derivative": mp.exp(z) + b}
    if loss.name == "gamma":
        return {"value": abs(z) + b * mp.exp(-mp.mpf(z)), "derivative": 1 + b * mp.exp(-mp.mpf(z))}
    return {}


def check_digits(loss: Loss, z: float, b: float) -> None:
    """Relative error at most 1e-15; subnormal answers have fewer digits and get four of their steps.

    The curvature of a loss of b - z is judged at the rounded residual: near a zero or a jump of ℓ'' the
    rounding of b - z, half a unit in the last place, is magnified without bound.
    """
    digits = 700 if isinstance(loss, Smoothed) else 50  # to tell margins of 1e308 from steps of 1e-300
    with np.errstate(all="raise"), mpmath.workdps(digits):
        value, derivative, *_ = exact(loss, z, b)
        pairs = {
            "value": (loss.value([z], [b]), value),
            "derivative": (float(loss.derivative([z], [b])[0]), derivative),
        }
        if loss.smooth:
            at = (z - b, 0.0) if loss.kind == "regression" else (z, b)
            if isinstance(loss, Smoothed):  # of a hinge, perhaps: b stays what it is
                at = mpmath.mpf(z - b) + b, b
            pairs["curvature"] = float(loss.curvature([z], [b])[0]), exact(loss, *at)[2]
        sizes = largest_terms(loss, z, b)
        for name, (number, truth) in pairs.items():
            size = sizes.get(name, abs(truth))
            if abs(truth) > LARGEST:
                right = math.isinf(number) and (number > 0) == (truth > 0)
            else:
                right = math.isfinite(number) and abs(number - truth) <= 1e-15 * size + 4 * 2.0**-1074
            assert right, f"{name} at z = {z!r}, b = {b!r}: {number!r}, exactly {mpmath.nstr(truth, 20)}"


@pytest.mark.parametrize("loss", LOSSES + EXTREME, ids=str)
def test_fifteen_digits_for_margins_up_to_1e308_and_no_warning(loss):
    targets = {target_near(loss, b) for b in (0.0, 1.0, -1.0, 0.3, 1e-300, -7e4, 1e100)}
    for z in MARGINS:
        for b in targets:
            check_digits(loss, z, b)


def test_a_value_just_inside_the_range_does_not_overflow_on_the_way():
    check_digits(Cauchy(c=4.3e154), -1.97e154, 0.0)  # r²/2 alone is infinite
    check_digits(Huber(delta=1e155), 1.8e154, 0.0)  # r² alone is
    for z, b in ((709.9, 1e305), (709.7, 2.6e305), (709.9, 1e306), (715.0, 1.7e308), (-800.0, 1e308), (719.0, 1e308)):
        check_digits(Poisson(), z, b)  # exp(z), bz or both are; the difference is not always
    for z, b in ((709.9, 1e308), (710.0, 1.7e308), (711.0, 1.7e308)):
        check_digits(Poisson(), z, b)
    for z, b in ((-800.0, 1e-300), (-1400.0, 5e-324), (800.0, 1e308), (1400.0, 1e308), (-700.5, 1e-5)):
        check_digits(Gamma(), z, b)  # exp(-z) alone is, or loses its digits below the range


@every_loss
@settings(deadline=None)
@given(z=st.floats(-50, 50), b=st.floats(-50, 50))
def test_fifteen_digits_at_moderate_margins(loss, z, b):
    check_digits(loss, z, target_near(loss, b))


def test_the_logistic_loss_has_its_digits_over_the_whole_range_in_every_block():
    """Its exp and log are kernels: thousands of margins, dense where 1 + e crosses √2 and e becomes subnormal."""
    rng = np.random.default_rng(0)
    z = np.concatenate(
        [
            rng.uniform(-800, 800, 400),
            rng.uniform(-3, 3, 1000),
            rng.uniform(0.87, 0.89, 200),
            rng.uniform(700, 747, 200),
        ]
    )
    b = rng.choice([-1.0, 1.0], z.size)
    derivative, curvature = Logistic().derivative(z, b) * z.size, Logistic().curvature(z, b) * z.size
    with mpmath.workdps(50):
        for i in range(z.size):
            truth = exact(Logistic(), z[i], b[i])
            found = Logistic().value(z[[i]], b[[i]]), derivative[i], curvature[i]
            for number, true in zip(found, truth, strict=True):
                assert abs(number - true) <= 7e-16 * abs(true) + z.size * 2.0**-1074, (z[i], b[i])


def test_every_instruction_set_gives_the_logistic_loss_to_the_last_bit(instruction_sets):
    rng = np.random.default_rng(1)
    z, b = rng.standard_normal(1003) * 30, rng.choice([-1.0, 1.0], 1003)
    found = []
    for name in instruction_sets:
        _kernels.use_simd(name)
        found.append((Logistic().value(z, b), Logistic().derivative(z, b), Logistic().curvature(z, b)))
    for other in found[1:]:
        assert other[0] == found[0][0]
        np.testing.assert_array_equal(other[1:], found[0][1:])


@every_log_loss
@pytest.mark.parametrize("z", [math.inf, -math.inf])
def test_infinite_margins_give_the_limits_of_the_log_losses(loss, z):
    far = math.exp(z) if loss.name == "poisson" else math.exp(-z)
    assert loss.value([z], [2.0]) == math.inf
    np.testing.assert_array_equal(loss.derivative([z], [2.0]), [far - 2 if loss.name == "poisson" else 1 - far])
    np.testing.assert_array_equal(loss.curvature([z], [2.0]), [far])
    if loss.name == "poisson":  # nothing counted, nothing expected
        assert loss.value([z], [0.0]) == loss.derivative([z], [0.0])[0] == far


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.kind == "regression"], ids=str)
@pytest.mark.parametrize(("z", "b"), [(1e308, -1e308), (-1e308, 1e308)])
def test_a_residual_beyond_the_range_gives_the_limit(loss, z, b):
    assert loss.value([z], [b]) == math.inf
    slope = {"squared": math.inf, "cauchy": 0.0}.get(loss.name, loss.lipschitz)
    if loss.kernel[0] == "quantile":
        slope = 1 - loss.parameter if z > 0 else loss.parameter
    np.testing.assert_array_equal(loss.derivative([z], [b]), [math.copysign(slope, z)])
    if loss.smooth:
        np.testing.assert_array_equal(loss.curvature([z], [b]), [2.0 if loss.name == "squared" else 0.0])


@every_loss
def test_nan_margins_give_nan_and_leave_the_others_alone(loss):
    z, b = np.array([0.5, math.nan, 2.0]), targets_of(loss, np.array([1.0, -1.0, 1.0]))
    assert math.isnan(loss.value(z, b))
    passes = [loss.derivative, loss.curvature] if loss.smooth else [loss.derivative]
    for function in passes:
        np.testing.assert_array_equal(np.isnan(function(z, b)), [False, True, False])
    assert loss.value(z, b, [1, 0, 1]) == loss.value(z[[0, 2]], b[[0, 2]])


def test_digits_check_notices_the_plain_formula():
    class Plain(Logistic):
        def value(self, z, b, weight=None):
            return float(np.log(1 + np.exp(-np.asarray(b) * np.asarray(z)))[0])

    with pytest.raises(AssertionError, match="value at z = 36"):
        check_digits(Plain(), 36.0, 1.0)


# --- reference implementations ---------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("weighted", [False, True])
def test_kernels_agree_with_the_slow_twins(loss, weighted):
    rng = np.random.default_rng(1)
    z, b = rng.normal(scale=3, size=200), targets_for(loss, 200)
    z[:3] = b[:3]
    weight = rng.exponential(size=200) * (rng.random(200) > 0.2) if weighted else None
    call = (*loss.kernel, z, b, np.ones(200) if weight is None else weight)
    np.testing.assert_allclose(loss.value(z, b, weight), reference.loss_value(*call), rtol=1e-14)
    np.testing.assert_allclose(loss.derivative(z, b, weight), reference.loss_derivative(*call), rtol=1e-12)
    if loss.smooth:
        # ℓ'' of the reference implementations is a difference of numbers near 1
        curvature = reference.loss_curvature(*call)
        np.testing.assert_allclose(loss.curvature(z, b, weight), curvature, rtol=1e-12, atol=1e-16)


# --- derivatives ------------------------------------------------------------------------------------


def difference(f, z: np.ndarray, h: float = 1e-3) -> np.ndarray:
    """Fourth-order central difference."""
    return (8 * (f(z + h) - f(z - h)) - (f(z + 2 * h) - f(z - 2 * h))) / (12 * h)


def smooth_margins(loss: Loss, b: np.ndarray) -> np.ndarray:
    """Make a grid without the points whose difference quotient would straddle a jump of ℓ' or ℓ''."""
    s = np.linspace(-8, 8, b.size)
    if loss.kind in ("count", "positive"):
        return s / 2
    jumps = np.zeros((1, b.size))
    if loss.name == "huber":
        jumps = np.array([[-loss.parameter], [loss.parameter]])
    elif isinstance(loss, Smoothed):
        jumps = loss.width * np.array(loss.loss.slopes(b))
    near = np.any(np.abs(s - jumps) < 0.005, axis=0)
    return b + np.where(near, s + 0.02, s)


def check_derivative(loss: Loss) -> None:
    """Each entry of the gradient of a weighted mean against the difference quotient of that mean."""
    b = targets_for(loss, 60)
    z, weight = smooth_margins(loss, b), np.linspace(0.5, 2, 60)
    gradient = loss.derivative(z, b, weight)
    for i in range(60):

        def along(t, i=i):
            point = z.copy()
            point[i] += t
            return loss.value(point, b, weight)

        np.testing.assert_allclose(difference(along, 0.0), gradient[i], rtol=5e-6, atol=1e-10)


def check_curvature(loss: Loss) -> None:
    b = targets_for(loss, 200)
    z = smooth_margins(loss, b)
    slope = difference(lambda point: loss.derivative(point, b), z)
    np.testing.assert_allclose(slope, loss.curvature(z, b), rtol=5e-6, atol=1e-10)


@every_loss
def test_derivative_is_the_gradient_of_the_value(loss):
    check_derivative(loss)


@every_smooth_loss
def test_curvature_is_the_derivative_of_the_derivative(loss):
    check_curvature(loss)


def test_derivative_checks_catch_a_flipped_sign_and_a_forgotten_half():
    class Flipped(Logistic):
        def derivative(self, z, b, weight=None):
            return -super().derivative(z, b, weight)

    class Halved(Squared):
        def curvature(self, z, b, weight=None):
            return super().curvature(z, b, weight) / 2

    class Unweighted(Huber):
        def derivative(self, z, b, weight=None):
            return super().derivative(z, b)

    with pytest.raises(AssertionError):
        check_derivative(Flipped())
    with pytest.raises(AssertionError):
        check_curvature(Halved())
    with pytest.raises(AssertionError):
        check_derivative(Unweighted())


# --- kinks ------------------------------------------------------------------------------------------


def check_subdifferential(loss: Loss) -> None:
    """Bounds hold the derivative, and are the one-sided difference quotients."""
    z = np.linspace(-2, 2, 41)
    b = np.where(np.arange(41) % 3 == 0, np.where(z < 0, -1.0, 1.0), 1.0)
    if loss.kind == "regression":
        b = np.where(np.arange(41) % 2 == 0, z, 0.5 * b)
    b = b if loss.kind == "regression" else targets_of(loss, b)
    low, high = loss.subdifferential(z, b)
    slope = np.array([loss.derivative([zi], [bi])[0] for zi, bi in zip(z, b, strict=True)])
    assert np.all((low <= slope) & (slope <= high))
    assert not loss.smooth or np.array_equal(low, high)
    h = 1e-7

    def value(point):
        return np.array([loss.value([zi], [bi]) for zi, bi in zip(point, b, strict=True)])

    np.testing.assert_allclose((value(z + h) - value(z)) / h, high, atol=1e-6)
    np.testing.assert_allclose((value(z) - value(z - h)) / h, low, atol=1e-6)


@every_loss
def test_subdifferential_is_bounded_by_the_one_sided_derivatives(loss):
    check_subdifferential(loss)


def test_subdifferential_check_catches_a_forgotten_kink():
    class Kinkless(Absolute):
        def subdifferential(self, z, b):
            return Loss.subdifferential(self, z, b)

    with pytest.raises(AssertionError):
        check_subdifferential(Kinkless())


def test_absolute_at_its_kink():
    low, high = Absolute().subdifferential([1.0, 2.0, 0.0], [1.0, 1.0, 5e-324])
    np.testing.assert_array_equal(low, [-1, 1, -1])
    np.testing.assert_array_equal(high, [1, 1, -1])
    np.testing.assert_array_equal(Absolute().derivative([1.0, 0.0], [1.0, -0.0]), [0, 0])
    with pytest.raises(LevelproxError, match="'absolute' has kinks and no curvature"):
        Absolute().curvature([1.0], [1.0])


def test_quantile_and_hinge_at_their_kinks():
    low, high = Quantile(0.2).subdifferential([1.0, 2.0, 0.0], [1.0, 1.0, 5e-324])
    np.testing.assert_array_equal(low, [-0.2, 0.8, -0.2])
    np.testing.assert_array_equal(high, [0.8, 0.8, -0.2])
    low, high = Hinge().subdifferential([1.0, -1.0, 1.0, 2.0, 0.0], [1.0, -1.0, -1.0, 1.0, 1.0])
    np.testing.assert_array_equal(low, [-1, 0, 1, 0, -1])
    np.testing.assert_array_equal(high, [0, 1, 1, 0, -1])
    for loss in (Quantile(0.2), Hinge()):
        np.testing.assert_array_equal(loss.derivative([1.0, -1.0], [1.0, -1.0]), [0, 0])


def test_a_quantile_of_one_half_is_half_the_absolute_loss():
    z, b = np.linspace(-3, 3, 41), targets_for(Absolute(), 41)
    assert Quantile().value(z, b) == Absolute().value(z, b) / 2
    np.testing.assert_array_equal(Quantile().derivative(z, b), Absolute().derivative(z, b) / 2)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.75])
def test_the_best_constant_fit_of_the_quantile_loss_is_a_quantile(q):
    b = np.random.default_rng(0).normal(size=1001)
    fits = [Quantile(q).value(np.full(1001, z), b) for z in np.sort(b)]
    assert np.argmin(fits) == math.floor(q * 1001)


@every_kinked_loss
def test_losses_with_kinks_have_no_curvature(loss):
    with pytest.raises(LevelproxError, match=f"'{loss.name}' has kinks and no curvature"):
        loss.curvature([1.0], [1.0])


# --- constants --------------------------------------------------------------------------------------


def slope_at(loss: Loss, z: float, b: float) -> float:
    return float(loss.subdifferential([z], [b])[0][0])


def check_constants_hold(loss: Loss, z: float, w: float, b: float) -> None:
    """-μ(z-w)² ≤ (ℓ'(z) - ℓ'(w))(z-w) ≤ L(z-w)²."""
    b = target_near(loss, b)
    rise, run = slope_at(loss, z, b) - slope_at(loss, w, b), z - w
    rounding = 1e-14 * (1 + abs(z) + abs(w) + abs(b)) * abs(run)
    if math.isinf(loss.lipschitz):
        rounding += 1e-15 * (abs(slope_at(loss, z, b)) + abs(slope_at(loss, w, b))) * abs(run)
    assert rise * run >= -loss.weak_convexity * run**2 - rounding
    if math.isfinite(loss.smoothness):
        assert rise * run <= loss.smoothness * run**2 + rounding


def check_constants_attained(loss: Loss) -> None:
    """L and -μ are reached and not passed on a grid that holds r = 0, |r| = √3 c and |bz| = log(2 + √3)."""
    b = np.ones(2001)
    scale = loss.parameter or 1.0
    steepest = math.log(2 + math.sqrt(3))  # of ℓ'' of the sigmoid loss
    special = [0.0, 1.0, 1 + math.sqrt(3) * scale, 1 - scale, steepest, -steepest]
    z = np.concatenate([np.linspace(-40, 40, 1995) * scale, special])
    bend = np.array([loss.curvature([zi], [bi])[0] for zi, bi in zip(z, b, strict=True)])
    if math.isinf(loss.smoothness):  # it is unbounded
        further = loss.curvature([700.0, -700.0], [1.0, 1.0])
        assert np.max(further) > 1e300 > 1e10 * np.max(np.abs(bend))
    else:
        np.testing.assert_allclose(np.max(np.abs(bend)), loss.smoothness, rtol=1e-14)
    np.testing.assert_allclose(max(-np.min(bend), 0.0), loss.weak_convexity, rtol=1e-14)


@every_loss
@settings(deadline=None)
@given(z=st.floats(-30, 30), w=st.floats(-30, 30), b=st.floats(-30, 30))
def test_no_chord_of_the_derivative_breaks_the_constants(loss, z, w, b):
    check_constants_hold(loss, z, w, b)


@every_smooth_loss
def test_the_constants_are_the_best_possible(loss):
    check_constants_attained(loss)


def test_constant_checks_catch_a_halved_smoothness_and_a_cauchy_called_convex():
    class Half(Logistic):
        smoothness = 0.125

    class Double(Squared):
        smoothness = 4.0

    class Convex(Cauchy):
        weak_convexity = 0.0

    class Unbounded(SquaredHinge):
        smoothness = math.inf

    for wrong in (Half(), Double(), Convex(), Unbounded()):
        with pytest.raises(AssertionError):
            check_constants_attained(wrong)
    with pytest.raises(AssertionError):
        check_constants_hold(Half(), 0.1, -0.1, 1.0)
    with pytest.raises(AssertionError):
        check_constants_hold(Convex(), 1.7, 1.8, 0.0)


def check_steepness(loss: Loss) -> None:
    """|ℓ'| comes within a percent of `lipschitz` and never above it; `jump` is the gap of ∂ℓ at z = b."""
    scale = max(loss.parameter, 1.0)
    z = np.concatenate([np.linspace(-50, 50, 4001) * scale, [1.0, 1 - loss.parameter, 1 + loss.parameter]])
    low, high = loss.subdifferential(z, np.ones_like(z))
    steepest = max(np.max(np.abs(low)), np.max(np.abs(high)))
    if math.isinf(loss.lipschitz):
        furthest = max(abs(slope_at(loss, z, 1.0)) for z in (1e300, -1e300))
        assert steepest > 90 and furthest > 1e300  # it grows with z, or with -z
    else:
        assert 0.99 * loss.lipschitz <= steepest <= loss.lipschitz
    assert np.max(high - low) == loss.jump
    assert loss.smooth == (loss.jump == 0)


@every_loss
def test_steepness_and_jumps_are_as_stated(loss):
    check_steepness(loss)


@every_loss
@given(z=st.floats(-1e308, 1e308), b=st.floats(-1e3, 1e3))
def test_no_margin_is_steeper_than_stated(loss, z, b):
    low, high = loss.subdifferential([z], [target_near(loss, b)])
    assert max(abs(low[0]), abs(high[0])) <= loss.lipschitz


def test_steepness_check_catches_wrong_facts():
    class TooSteep(Sigmoid):
        lipschitz = 0.3

    class TooFlat(Cauchy):
        lipschitz = 0.4

    class Unbounded(Logistic):
        lipschitz = math.inf

    class Halved(Absolute):
        jump = 1.0

    for wrong in (TooSteep(), TooFlat(), Unbounded(), Halved()):
        with pytest.raises(AssertionError):
            check_steepness(wrong)


@every_loss
def test_a_minimiser_is_there_or_not_as_stated(loss):
    """ℓ stops falling at finite margins either way, or never does: 700 is before exp underflows."""
    targets = [1.0, 0.0] if loss.kind == "count" else [1.0]
    ahead, behind = ([slope_at(loss, z, b) for b in targets] for z in (700.0, -700.0))
    assert loss.attained == (min(ahead) >= 0 and max(behind) <= 0)
    if not loss.attained:
        directions, b = np.array([1.0, -1.0, 1.0, -1.0]), np.repeat(targets, 4 // len(targets))
        slopes = np.array([d * slope_at(loss, 700 * d, t) for d, t in zip(directions, b, strict=True)])
        np.testing.assert_array_equal(loss.decreases_forever(directions, b), slopes < 0)


# --- means and weights ------------------------------------------------------------------------------


def check_weights_count_rows(loss: Loss) -> None:
    """Weight 2 is a row twice, weight 0 no row, weight 1 no weight; the scale of the weights is nothing."""
    rng = np.random.default_rng(2)
    z, b = rng.normal(size=30), targets_for(loss, 30)
    counts = rng.integers(0, 3, size=30)
    rows = np.repeat(np.arange(30), counts)
    np.testing.assert_allclose(loss.value(z, b, counts), loss.value(z[rows], b[rows]), rtol=4e-16)
    per_row = loss.derivative(z[rows], b[rows])
    expected = np.zeros(30)
    np.add.at(expected, rows, per_row)
    np.testing.assert_allclose(loss.derivative(z, b, counts), expected, rtol=1e-15)
    assert loss.value(z, b, np.ones(30)) == loss.value(z, b)
    np.testing.assert_array_equal(loss.derivative(z, b, np.full(30, 2.0)), loss.derivative(z, b))
    for scale in (1e-320, 1e-300, 3.0, 1e300, 5e306):
        rtol = 1e-3 if scale < 1e-310 else 1e-15  # the weights themselves are subnormal there
        np.testing.assert_allclose(loss.value(z, b, counts * scale), loss.value(z, b, counts), rtol=rtol)


@every_loss
def test_weights_count_rows(loss):
    check_weights_count_rows(loss)


def test_weight_check_catches_weights_that_are_ignored():
    class Ignored(Squared):
        def value(self, z, b, weight=None):
            return super().value(z, b)

    with pytest.raises(AssertionError):
        check_weights_count_rows(Ignored())


def test_a_sample_of_weight_zero_is_absent_even_where_its_loss_is_infinite():
    z, b, weight = [1e200, 1.0, 1e308], [0.0, 0.0, -1e308], [0.0, 3.0, 0.0]
    assert Squared().value(z, b) == math.inf
    assert Squared().value(z, b, weight) == 1.0
    np.testing.assert_array_equal(Squared().derivative(z, b, weight), [0, 2, 0])


@every_loss
def test_a_mean_of_a_million_equal_losses_is_that_loss(loss):
    n = 1_100_000  # more than one slice of the loop
    z, b = np.full(n, 0.3), np.full(n, target_near(loss, -1.0))
    one = loss.value(z[:1], b[:1])
    assert abs(loss.value(z, b) - one) <= 1e-15 * one
    assert abs(loss.value(z, b, np.full(n, 0.1)) - one) <= 1e-15 * one
    assert set(loss.derivative(z, b)) == {loss.derivative(z[:1], b[:1])[0] / n}


def test_small_losses_are_not_lost_beside_a_large_one():
    z = np.full(100_001, 1.0)
    z[0] = 1e16
    exactly = (Fraction(10**16) + 100_000) / 100_001
    assert Absolute().value(z, np.zeros_like(z)) == float(exactly)


def test_a_mean_in_range_is_reached_although_the_sum_is_not():
    z, zero = np.full(1000, 1.5e308), np.zeros(1000)
    assert Absolute().value(z, zero) == 1.5e308
    assert Absolute().value(z, zero, np.full(1000, 1e200)) == 1.5e308
    # ... and tiny losses keep their digits
    np.testing.assert_allclose(Absolute().value(np.full(1000, 3e-320), zero), 3e-320, rtol=1e-15)
    assert Absolute().value([1e-200, 3e-200], [0, 0], [1e-200, 1e-200]) == 2e-200


@pytest.mark.process
def test_signals_are_seen_while_a_long_pass_runs():
    """One call, a timer every 2 ms of work: a pass that did not look up would hear of it only once, at its end."""
    script = """
        import signal
        import numpy as np
        from levelprox import _kernels
        heard = []
        def handler(*_):
            heard.append(1)
            if len(heard) == 3:
                raise KeyboardInterrupt
        z = np.full(1 << 23, 0.3)
        signal.signal(signal.SIGVTALRM, handler)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.002, 0.002)
        try:
            _kernels.loss_value("logistic", 0.0, 0.0, z, z, None)
        except KeyboardInterrupt:
            print("interrupted")
    """
    assert children.run(script) == children.Ended(0, "interrupted\n", "")


# --- errors --------------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize(
    ("b", "message"),
    [
        ([1.0, -1.0, math.nan], "NaN at index 2"),
        ([1.0, -math.inf, math.nan], "inf at index 1"),
        (["1", "-1"], "targets must hold real numbers"),
        ([1j, 1.0], "targets must hold real numbers, got dtype complex128"),
        ([None, 1.0], "targets must hold real numbers, got objects such as None|NaN at index 0"),
        ([[1.0], [-1.0]], r"targets must be one-dimensional, got shape \(2, 1\)"),
        (1.0, r"targets must be one-dimensional, got shape \(\)"),
        ([], "targets must not be empty"),
    ],
)
def test_unusable_targets_are_named(loss, b, message):
    with pytest.raises(InvalidInputError, match=message):
        loss.check_targets(b)


@every_loss
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float16, np.float32, ">f8", object])
def test_targets_of_any_real_type_become_float64(loss, dtype):
    b = np.array([1, -1, 1, 1], dtype=dtype)[::2]
    checked = loss.check_targets(b)
    assert checked.dtype == np.float64 and checked.dtype.isnative and checked.flags.c_contiguous
    np.testing.assert_array_equal(checked, [1, 1])
    assert loss.value(np.float32([0.5, 0.5]), b) == loss.value([0.5, 0.5], [1.0, 1.0])


def test_logistic_explains_labels_that_are_not_signs():
    message = r"^targets must be -1 or \+1, got 0\.0 at index 3; for 0/1 labels use 2\*y - 1$"
    with pytest.raises(InvalidInputError, match=message):
        Logistic().check_targets([1, -1, 1, 0, 0])
    with pytest.raises(InvalidInputError, match=message):
        Logistic().value(np.zeros(5), [1, -1, 1, 0, 0])


def test_counts_and_positive_targets_are_required():
    with pytest.raises(InvalidInputError, match=r"^targets must be nonnegative, got -1\.0 at index 2; .*'poisson'"):
        Poisson().check_targets([0, 3.5, -1, -2])
    with pytest.raises(InvalidInputError, match=r"^targets must be positive, got 0\.0 at index 1; .*'gamma'"):
        Gamma().check_targets([1e-300, 0, -1])
    np.testing.assert_array_equal(Poisson().check_targets([0, 2.5]), [0, 2.5])


@every_log_loss
@pytest.mark.parametrize("far", [-60.0, 0.0, 60.0])
def test_the_typical_curvature_is_that_of_a_fit_wherever_the_data_are_centred(loss, far):
    """Poisson: exp(z) at z, b at its best; Gamma: b exp(-z) and 1; never the one that bad centring makes huge."""
    b = np.exp(far) * np.array([0.5, 1.0, 3.0])
    weight = np.array([1.0, 2.0, 0.0])
    mean = math.exp(far) * 2.5 / 3
    assert loss.typical_curvature(np.zeros(3), b, weight) == pytest.approx(min(1.0, mean), rel=1e-12)
    assert loss.typical_curvature(np.full(3, far), b, weight) > 0


def test_the_typical_curvature_is_positive_where_the_counts_or_the_offsets_say_nothing():
    assert Poisson().typical_curvature(np.zeros(2), np.zeros(2)) == 1.0
    assert Poisson().typical_curvature(np.full(2, -1e3), np.array([0.0, 6.0])) == pytest.approx(3.0)
    assert Poisson().typical_curvature(np.full(2, 1e3), np.zeros(2)) == 1.0
    assert Squared().typical_curvature(np.zeros(1), np.ones(1)) == 2.0
    assert Absolute().typical_curvature(np.zeros(3), np.array([2.0, -6.0, 9.0]), np.array([1.0, 1.0, 0.0])) == 0.25
    assert Absolute().typical_curvature(np.ones(2), np.ones(2)) == 1.0


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, 1, -0.5], r"got -0\.5 at index 2"),
        ([1, math.nan, -1], r"got nan at index 1 \(2 in total\)"),
        ([math.inf, 1, 1], "got inf at index 0"),
        ([0, 0, 0], "all zero"),
        ([1, 1], "3 samples but 2 sample weights"),
        ([[1, 1, 1]], "one-dimensional"),
        (["a", "b", "c"], "real numbers"),
        ([1e308, 1e308, 1e308], "sum of the sample weights overflows"),
    ],
)
def test_unusable_weights_are_named(weight, message):
    with pytest.raises(InvalidInputError, match=message):
        check_weights(weight, 3)
    with pytest.raises(InvalidInputError, match=message):
        Squared().derivative(np.zeros(3), np.zeros(3), weight)


def test_weights_come_back_in_float64():
    weight = check_weights(np.array([1, 2], dtype=np.int32), 2)
    assert weight.dtype == np.float64
    np.testing.assert_array_equal(weight, [1, 2])


@every_loss
def test_margins_and_targets_must_match(loss):
    with pytest.raises(InvalidInputError, match="margins and targets differ in length: 2 and 3"):
        loss.value([0, 1], [1, 1, 1])
    with pytest.raises(InvalidInputError, match="margins must be one-dimensional"):
        loss.derivative(np.zeros((1, 1)), [1.0])


@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan, "1", True, 1j, None])
def test_parameters_must_be_positive_numbers(value):
    with pytest.raises(InvalidInputError, match="delta must be"):
        Huber(delta=value)
    with pytest.raises(InvalidInputError, match="c must be"):
        Cauchy(c=value)
    with pytest.raises(InvalidInputError, match="q must be"):
        Quantile(q=value)
    with pytest.raises(InvalidInputError, match="width must be"):
        Absolute().smoothed(value)


def test_a_quantile_is_a_fraction():
    with pytest.raises(InvalidInputError, match=r"q must be in \(0, 1\), got 1.0"):
        Quantile(q=1.0)


def test_only_losses_with_kinks_are_smoothed():
    for loss in SMOOTH:
        with pytest.raises(InvalidInputError, match=f"the loss '{loss.name}' is smooth already"):
            loss.smoothed(1.0)
        with pytest.raises(InvalidInputError, match="only losses with kinks can be smoothed, got"):
            Smoothed(loss, 1.0)
    with pytest.raises(InvalidInputError, match="only losses with kinks can be smoothed, got 'absolute'"):
        Smoothed("absolute", 1.0)
    with pytest.raises(InvalidInputError, match="width must have a finite inverse, got 5e-324"):
        Hinge().smoothed(5e-324)


def test_the_kernels_refuse_what_they_cannot_use():
    one, two = np.ones(1), np.ones(2)
    call = _kernels.loss_derivative
    for arguments in [
        ("squared", 0.0, 0.0, one, two, None, one),
        ("squared", 0.0, 0.0, one, one, two, one),
        ("squared", 0.0, 0.0, one, one, None, two),
        ("squared", 0.0, 0.0, one[:0], one[:0], None, one[:0]),
        ("squared", 0.0, 0.0, one, one, -one, one),
        ("squared", 0.0, 0.0, one, one, 0 * one, one),
        ("squared", 0.0, 0.0, one, one, math.nan * one, one),
        ("square", 0.0, 0.0, one, one, None, one),
        ("huber", 0.0, 0.0, one, one, None, one),
        ("cauchy", math.inf, 0.0, one, one, None, one),
        ("quantile", 1.0, 0.0, one, one, None, one),
        ("quantile", 0.0, 0.0, one, one, None, one),
        ("squared", 0.0, 0.5, one, one, None, one),
        ("absolute", 0.0, -1.0, one, one, None, one),
        ("absolute", 0.0, math.inf, one, one, None, one),
        ("absolute", 0.0, math.nan, one, one, None, one),
        ("hinge", 0.0, 5e-324, one, one, None, one),
    ]:
        with pytest.raises(ValueError, match=r"differ|samples|weights|unknown loss|positive|in \(0, 1\)|no kinks"):
            call(*arguments)
    with pytest.raises(ValueError, match="kinks"):
        _kernels.loss_curvature("absolute", 0.0, 0.0, one, one, None, one)
    for wrong in (np.ones(1, np.float32), np.ones((1, 1)), [1.0]):
        with pytest.raises(TypeError):
            call("squared", 0.0, 0.0, wrong, one, None, one)
    with pytest.raises(TypeError):
        call("squared", 0.0, 0.0, np.ones(4)[::2], two, None, two)
    frozen = np.ones(1)
    frozen.flags.writeable = False
    call("squared", 0.0, 0.0, frozen, frozen, frozen, one)  # read-only data are read
    with pytest.raises(TypeError):
        call("squared", 0.0, 0.0, one, one, None, frozen)


# --- names ------------------------------------------------------------------------------------------


@every_loss
def test_losses_compare_and_hash_by_value(loss):
    twin = pickle.loads(pickle.dumps(loss))
    assert twin == loss and hash(twin) == hash(loss) and repr(twin) == repr(loss)
    assert loss not in [other for other in LOSSES if other is not loss]
    with pytest.raises(AttributeError):
        loss.parameter = 2.0


def test_every_type_is_found_by_its_name_and_tested_here():
    assert {type(loss) for loss in LOSSES} == {*LOSS_TYPES, Smoothed}
    assert {type(loss.loss) for loss in SMOOTHED} == {type(loss) for loss in KINKED}
    for kind in LOSS_TYPES:
        assert loss_by_name(kind.name) == kind()
    chosen = Huber(delta=2)
    assert loss_by_name(chosen) is chosen
    assert Huber(delta=2) == Huber(delta=2.0) and isinstance(chosen.parameter, float)


def test_stated_constants_and_defaults():
    table = {}
    for loss in (kind() for kind in LOSS_TYPES):
        table[loss.name] = loss.parameter, loss.smoothness, loss.weak_convexity, loss.lipschitz, loss.jump
    assert table == {
        "squared": (0.0, 2.0, 0.0, math.inf, 0.0),
        "logistic": (0.0, 0.25, 0.0, 1.0, 0.0),
        "huber": (1.35, 1.0, 0.0, 1.35, 0.0),
        "absolute": (0.0, math.inf, 0.0, 1.0, 2.0),
        "quantile": (0.5, math.inf, 0.0, 0.5, 1.0),
        "hinge": (0.0, math.inf, 0.0, 1.0, 1.0),
        "squared_hinge": (0.0, 2.0, 0.0, math.inf, 0.0),
        "cauchy": (1.0, 1.0, 0.125, 0.5, 0.0),
        "sigmoid": (0.0, math.sqrt(3) / 18, math.sqrt(3) / 18, 0.25, 0.0),
        "poisson": (0.0, math.inf, 0.0, math.inf, 0.0),
        "gamma": (0.0, math.inf, 0.0, math.inf, 0.0),
    }
    assert Sigmoid().smoothness == pytest.approx(1 / (6 * math.sqrt(3)), rel=1e-15)


def test_unknown_names_get_a_suggestion():
    with pytest.raises(InvalidInputError, match=r"unknown loss 'Logistc'; did you mean 'logistic'\?"):
        loss_by_name("Logistc")
    with pytest.raises(InvalidInputError, match=r"there are squared, logistic, huber, .*, sigmoid, poisson, gamma$"):
        loss_by_name("tweedie")
    with pytest.raises(InvalidInputError, match="got 3"):
        loss_by_name(3)
