"""The residual of the KKT system as a function of the multiplier, and the best multiplier, against a slow twin."""

import numpy as np
import pytest

from levelprox import _kernels
from tests import reference


def lines_of(support_offset, support_slope, zero_offset, zero_slope):
    """All lines whose maximum the kernels take."""
    up = list(zip(support_offset, support_slope, strict=True))
    slopes = np.broadcast_to(zero_slope, zero_offset.shape)
    at_zero = [(o, s) for o, s in zip(zero_offset, slopes, strict=True) if np.isfinite(o)]
    return [(float(o), float(s)) for o, s in [*up, *((-o, -s) for o, s in up), *at_zero]]


def random_lines(seed):
    rng = np.random.default_rng(seed)
    on_support, at_zero = int(rng.integers(0, 6)), int(rng.integers(1, 12))
    support_offset = rng.standard_normal(on_support)
    support_slope = rng.choice([-2.0, -0.5, 0.0, 0.3, 1.0], on_support)
    zero_offset = np.abs(rng.standard_normal(at_zero))
    zero_offset[rng.random(at_zero) < 0.3] = -np.inf  # on the support
    weights = [np.ones(1), np.ones(at_zero), rng.choice([0.0, 1.0, 1.0], at_zero), rng.uniform(0, 2, at_zero)][seed % 4]
    return support_offset, support_slope, zero_offset, -2.0 * weights


@pytest.mark.parametrize("seed", range(200))
def test_the_best_multiplier_and_its_residual_are_those_of_the_twin(seed):
    lines = random_lines(seed)
    price = [0.0, 1e-3, 0.5, 10.0][seed // 4 % 4]
    found, expected = _kernels.best_multiplier(*lines, price), reference.best_multiplier(lines_of(*lines), price)
    heights = [max(reference.largest_residual(lines_of(*lines), y), price * y) for y in (found, expected)]
    assert heights[0] <= heights[1] * (1 + 1e-12) + 1e-15
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    for y in (0.0, found, 3.0):
        largest = _kernels.largest_residual(*lines, y)
        assert largest == pytest.approx(reference.largest_residual(lines_of(*lines), y), rel=1e-15)


def test_a_feature_of_small_weight_is_not_hidden_by_one_that_pulls_harder():
    """At y = 1 the harder pull is paid for, that of the exempt feature is not."""
    none, pulls = np.empty(0), np.array([5.0, 1.0])
    assert _kernels.largest_residual(none, none, pulls, np.array([-10.0, 0.0]), 1.0) == 1.0
    assert _kernels.best_multiplier(none, none, pulls, np.array([-10.0, 0.0]), 0.0) == pytest.approx(0.4)


def test_lines_that_do_not_fit_together_are_refused():
    two, three = np.zeros(2), np.zeros(3)
    with pytest.raises(ValueError, match="other offsets than slopes"):
        _kernels.largest_residual(two, three, two, np.zeros(1), 0.0)
    with pytest.raises(ValueError, match="one slope, or one each"):
        _kernels.best_multiplier(two, two, two, three, 0.0)
