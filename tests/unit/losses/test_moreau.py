"""The Moreau envelopes of the losses with kinks: env(z) = min_w ℓ(w, b) + (z - w)²/(2 width), by its definition.

Digits, derivatives, weights and the rest are tested with all other losses, in test_losses.py.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelprox.losses import Absolute, Hinge, Huber, Loss, Quantile, Smoothed
from tests.support.registries import LOSSES

every_kinked_loss = pytest.mark.parametrize("loss", [loss for loss in LOSSES if not loss.smooth], ids=str)
margins, widths = st.floats(-20, 20), st.floats(1e-3, 1e3)


def target_for(loss: Loss, b: float) -> float:
    return math.copysign(1.0, b) if loss.kind == "margin" else b


def derivative(loss: Loss, z: float, b: float) -> float:
    return float(loss.derivative([z], [b])[0])


def check_is_the_minimum(envelope: Loss, loss: Loss, width: float, z: float, b: float) -> None:
    """No w gives less than env(z), and w = z - width·env'(z) gives just that."""

    def cost(w: float) -> float:
        return loss.value([w], [b]) + (z - w) ** 2 / (2 * width)

    value, w = envelope.value([z], [b]), z - width * derivative(envelope, z, b)
    # What rounding w by an ulp of the largest number on the way changes.
    rounding = 1e-14 * (abs(z) + abs(b) + width)
    assert cost(w) == pytest.approx(value, rel=1e-13, abs=rounding)
    steps = np.concatenate([np.linspace(-3, 3, 61) * width, np.linspace(-3, 3, 61) * abs(z - b), [b - z]])
    assert min(cost(z + step) for step in steps) >= value - rounding


@every_kinked_loss
@given(z=margins, b=margins, width=widths)
def test_the_envelope_is_the_minimum_it_claims_to_be(loss, z, b, width):
    check_is_the_minimum(loss.smoothed(width), loss, width, z, target_for(loss, b))


def test_the_minimum_check_catches_a_wrong_width_and_slopes_not_clipped():
    class Unclipped(Smoothed):
        def derivative(self, z, b, weight=None):
            return (np.asarray(z) - b) / self.width

    for wrong in (Quantile(0.2).smoothed(0.6), Unclipped(Quantile(0.2), 0.5)):
        with pytest.raises(AssertionError):
            check_is_the_minimum(wrong, Quantile(0.2), 0.5, 3.0, 0.0)


def proximal_point(loss: Loss, width: float, z: float, b: float) -> float:
    """argmin_w ℓ(w, b) + (z - w)²/(2 width), by ternary search: good to half the digits, knowing nothing of ℓ."""

    def cost(w: float) -> float:
        return loss.value([w], [b]) + (z - w) ** 2 / (2 * width)

    low, high = z - 2 * width * loss.lipschitz, z + 2 * width * loss.lipschitz
    while high - low > 1e-9 * width:
        third = (high - low) / 3
        low, high = (low, high - third) if cost(low + third) <= cost(high - third) else (low + third, high)
    return (low + high) / 2


@every_kinked_loss
@pytest.mark.parametrize("width", [0.3, 1.0, 4.0])
def test_its_derivative_is_the_step_to_the_proximal_point(loss, width):
    for z in np.linspace(-5, 5, 23):
        for b in (-1.0, 1.0):
            step = (z - proximal_point(loss, width, z, b)) / width
            assert derivative(loss.smoothed(width), z, b) == pytest.approx(step, abs=1e-6)


def check_gap(envelope: Loss, loss: Loss, width: float, z: float, b: float) -> None:
    """0 ≤ ℓ - env ≤ (width/2) lipschitz², beyond the rounding of ℓ."""
    gap, rounding = loss.value([z], [b]) - envelope.value([z], [b]), 1e-15 * loss.value([z], [b])
    assert -rounding <= gap <= width / 2 * loss.lipschitz**2 + rounding


@every_kinked_loss
@given(z=margins, b=margins, width=widths)
def test_the_envelope_lies_below_the_loss_and_not_far(loss, z, b, width):
    check_gap(loss.smoothed(width), loss, width, z, target_for(loss, b))


@every_kinked_loss
def test_the_gap_is_reached_on_the_steeper_side(loss):
    gaps = [loss.value([z], [1.0]) - loss.smoothed(0.5).value([z], [1.0]) for z in (-20.0, 20.0)]
    assert max(gaps) == pytest.approx(0.25 * loss.lipschitz**2, rel=1e-13)


def test_the_gap_check_catches_an_envelope_above_the_loss_and_one_far_below():
    with pytest.raises(AssertionError):
        check_gap(Huber(), Quantile(0.2), 1.0, 2.0, 0.0)
    with pytest.raises(AssertionError):
        check_gap(Absolute().smoothed(1.0), Absolute(), 0.5, 2.0, 0.0)


@every_kinked_loss
def test_as_the_width_goes_to_zero_it_becomes_the_loss(loss):
    z = np.concatenate([np.linspace(-4, 4, 33), [-1.0, 1.0]])
    b = np.where(np.arange(z.size) % 2 == 0, 1.0, -1.0)
    for width in 10.0 ** np.arange(-1, -14, -1):
        envelope = loss.smoothed(width)
        assert 0 <= loss.value(z, b) - envelope.value(z, b) <= width / 2 * loss.lipschitz**2
    last = loss.smoothed(1e-300)
    assert last.value(z, b) == loss.value(z, b)
    np.testing.assert_array_equal(last.derivative(z, b), loss.derivative(z, b))


@every_kinked_loss
@pytest.mark.parametrize("width", [1e-300, 1e-150, 1e-8, 1.0, 1e8, 1e150, 1e300, 1.7e308])
def test_no_width_gives_nan_and_no_slope_leaves_its_bounds(loss, width):
    sizes = [0.0, 5e-324, 1e-300, 1e-8, 1.0, 1e8, 1e300, 1.7e308, math.inf]
    z = np.array(sorted({sign * size for size in sizes for sign in (-1, 1)}))
    envelope = loss.smoothed(width)
    for b in (-1.0, 1.0):
        targets = np.full_like(z, b)
        slope, _ = envelope.subdifferential(z, targets)
        low, high = loss.slopes(targets)
        assert np.all((low <= slope) & (slope <= high) & (np.diff(slope, prepend=-math.inf) >= 0))
        values = np.array([envelope.value([zi], [b]) for zi in z])
        assert np.all((values >= 0) & (values <= [loss.value([zi], [b]) for zi in z]))
        assert np.all(np.isfinite(values[np.isfinite(z)]))
        bends = [float(envelope.curvature([zi], [b])[0]) for zi in z]
        assert set(bends) <= {0.0, 1 / width} and 1 / width in bends


@given(z=margins, b=margins, width=widths)
def test_the_envelope_of_the_absolute_loss_is_huber_s(z, b, width):
    envelope, huber = Absolute().smoothed(width), Huber(delta=width)
    assert envelope.value([z], [b]) == pytest.approx(huber.value([z], [b]) / width, rel=1e-14)
    assert derivative(envelope, z, b) == pytest.approx(derivative(huber, z, b) / width, rel=1e-14)


@every_kinked_loss
def test_constants_and_flags_of_the_envelope(loss):
    envelope = loss.smoothed(0.25)
    assert envelope == Smoothed(loss, 0.25) and envelope != loss.smoothed(0.5)
    assert (envelope.kind, envelope.lipschitz, envelope.parameter) == (loss.kind, loss.lipschitz, loss.parameter)
    assert (envelope.smooth, envelope.jump, envelope.smoothness, envelope.weak_convexity) == (True, 0.0, 4.0, 0.0)
    assert envelope.kernel == (loss.name, loss.parameter, 0.25)


def test_the_envelope_of_the_hinge_by_hand():
    envelope = Hinge().smoothed(0.5)
    z, b = np.array([2.0, 1.0, 0.75, 0.5, 0.0, -0.75]), np.array([1.0, 1.0, 1.0, 1.0, 1.0, -1.0])
    values = [envelope.value([zi], [bi]) for zi, bi in zip(z, b, strict=True)]
    np.testing.assert_allclose(values, [0, 0, 0.0625, 0.25, 0.75, 0.0625], rtol=1e-15)
    np.testing.assert_allclose(envelope.subdifferential(z, b)[0], [0, 0, -0.5, -1, -1, 0.5], rtol=1e-15)
