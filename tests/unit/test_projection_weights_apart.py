"""The projection where |u| > 1 and weights are far apart, and where a number u is not a float32: against rationals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import project
from levelprox.exceptions import InfeasibleError
from tests.support import reference
from tests.support.projection_cases import EXAMPLES

#: Orders of magnitude between which weights, and u, are drawn; how often is by the long run.
SPREADS = [(0, 1), (6, 2), (12, 2), (20, 10), (50, 20), (99, 49)]


class Spread:
    """A projection with |u| > 1 somewhere and weights 10^±spread."""

    def __init__(self, seed, d, spread, u_spread, dtype=np.float64):
        rng = np.random.default_rng(seed)
        if dtype == np.float32:
            spread, u_spread = min(spread, 30), min(u_spread, 10)
        self.v = rng.standard_normal(d) * 10.0 ** rng.uniform(-3, 3, d)
        self.u = rng.uniform(-1, 1, d) * 10.0 ** rng.uniform(0, u_spread, d)
        if rng.random() < 0.3:  # prices of zero
            self.u[rng.random(d) < 0.3] = rng.choice([-1.0, 1.0])
        self.u[0] = rng.choice([-1, 1]) * 10.0 ** rng.uniform(0.01, u_spread)
        self.weights = np.where(rng.random(d) < 0.1, 0.0, 10.0 ** rng.uniform(-spread, spread, d))
        self.nonnegative = rng.random(d) < (0.3 if rng.random() < 0.5 else 0.0)
        self.v, self.u, self.weights = (a.astype(dtype) for a in (self.v, self.u, self.weights))
        wide = [a.astype(float) for a in (self.v, self.u, self.weights)]
        plus = wide[2] * (1 + np.sign(wide[0]) * wide[1])
        terms = np.abs(plus * wide[0])
        self.tau = float(np.max(terms)) * 10.0 ** rng.uniform(-2 * spread - 9, 1)
        if rng.random() < 0.3 and terms[terms > 0].size:  # about as large as one of the terms
            self.tau = float(rng.choice(terms[terms > 0])) * rng.uniform(0.1, 2)
        kind = rng.random()
        self.tau = 0.0 if kind < 0.2 else -self.tau if kind < 0.5 else self.tau

    @property
    def is_empty(self):
        """Whether no x has a negative level, and one is requested."""
        lower = (self.weights > 0) & ((self.u < -1) | ((self.u > 1) & ~self.nonnegative))
        return self.tau < 0 and not np.any(lower)

    def project(self, **options):
        return project(self.v, self.u, self.tau, weights=self.weights, nonnegative=self.nonnegative, **options)


spreads = st.builds(
    lambda seed, d, spread, dtype: Spread(seed, d, *spread, dtype),
    st.integers(0, 2**32),
    st.integers(1, 9),
    st.sampled_from(SPREADS),
    st.sampled_from([np.float64, np.float64, np.float32]),
)


@settings(max_examples=EXAMPLES // 4, deadline=None)
@given(spreads)
def test_any_u_and_weights_far_apart_give_the_projection(case):
    """Feasible in rational arithmetic, and every coordinate within its last digits of the exact projection."""
    if case.is_empty:
        with pytest.raises(InfeasibleError):
            case.project()
        return
    exact, multiplier = reference.project(case.v, case.u, case.tau, case.weights, case.nonnegative)
    largest = np.finfo(case.v.dtype).max
    if not np.all(np.abs(exact) < largest / 2):
        return
    x, y = case.project()
    assert x.dtype == case.v.dtype
    assert reference.exact_level(x, case.u, case.weights) <= Fraction(case.tau)
    assert not np.any(x[case.nonnegative] < 0)
    scale = max(float(np.max(np.abs(case.v))), float(np.max(np.abs(exact))))
    eps, smallest = float(np.finfo(x.dtype).eps), float(np.finfo(x.dtype).smallest_subnormal)
    np.testing.assert_allclose(x, exact, rtol=4 * eps, atol=1e-24 * scale + smallest)
    assert y == pytest.approx(multiplier, rel=1e-12, abs=0) or multiplier > 1e300
    again, y = project(x, case.u, case.tau, weights=case.weights, nonnegative=case.nonnegative)
    assert y == 0
    np.testing.assert_array_equal(again.view(np.uint8), x.view(np.uint8))


@settings(max_examples=EXAMPLES // 4, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.sampled_from([2, 12, 50, 99]))
def test_weights_far_apart_give_the_projection_for_u_up_to_one(seed, d, spread):
    rng = np.random.default_rng(seed)
    v, u = rng.standard_normal(d) * 10.0 ** rng.uniform(-3, 3, d), rng.uniform(-1, 1, d)
    weights = 10.0 ** rng.uniform(-spread, spread, d)
    tau = float(np.max(weights * np.abs(v))) * 10.0 ** rng.uniform(-2 * spread - 9, 1)
    exact, _ = reference.project(v, u, tau, weights, np.zeros(d, bool))
    x, _ = project(v, u, tau, weights=weights)
    assert reference.exact_level(x, u, weights) <= Fraction(tau)
    np.testing.assert_allclose(x, exact, rtol=0, atol=1e-14 * np.max(np.abs(v)))


def test_terms_far_above_the_level_that_cancel():
    """Two prices of opposite sign and 1e30, and a third of 1 that must not move for their rounding."""
    v, u, weights = np.array([1.0, 1.0 / 3, 0.7]), np.array([0.0, -2.0, 0.0]), np.array([1e30, 1e30, 1.0])
    for tau in (1e-3, 0.5, 0.69, -1e-3):
        exact, _ = reference.project(v, u, tau, weights, np.zeros(3, bool))
        x, _ = project(v, u, tau, weights=weights)
        np.testing.assert_allclose(x, exact, rtol=1e-15)
        assert reference.exact_level(x, u, weights) <= Fraction(tau)


def test_breakpoints_closer_than_any_number_tells_count_as_one():
    """A price of 1e25 ends where one of 3e25 does, up to rounding; the level then falls on a third coordinate."""
    weights = np.array([1e25, 3e25, 1e-3, 1.0])
    v = np.array([1.0, 3.0 + 4e-16, 5.0, 0.1])
    u = np.array([0.0, 0.0, 0.0, 3.0])
    for tau in (1e-3, 1e-9, 0.0, -1.0, -1e20):
        exact, _ = reference.project(v, u, tau, weights, np.zeros(4, bool))
        x, _ = project(v, u, tau, weights=weights)
        np.testing.assert_allclose(x, exact, rtol=1e-15, atol=1e-24)
        assert reference.exact_level(x, u, weights) <= Fraction(tau)


def test_the_answer_may_be_far_larger_than_the_point():
    """A level of -1 at a price of 1e-90 needs 1e90; a value beyond float64 raises an error."""
    x, _ = project([1.0, 0.0], [-2.0, 0.0], -1.0, weights=[1e-90, 1e60])
    np.testing.assert_allclose(x, [1e90, 0], rtol=1e-15)
    with pytest.raises(InfeasibleError, match="floating-point range"):
        project([1.0, 0.0], [-2.0, 0.0], -1e250, weights=[1e-90, 1e60])


@settings(max_examples=EXAMPLES // 4, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 6),
    st.one_of(st.floats(-1, 1), st.floats(-3, 3), st.sampled_from([0.1, -0.3, 1 + 1e-12, -1 - 1e-12, 1 - 1e-12])),
)
def test_a_number_u_is_taken_as_it_is_given(seed, d, u):
    """For v of float32, too: x is of float32, and satisfies the level with u itself."""
    rng = np.random.default_rng(seed)
    v = (rng.standard_normal(d) * 10.0 ** rng.uniform(-3, 3)).astype(np.float32)
    weights = None if rng.random() < 0.5 else rng.uniform(0.1, 3, d).astype(np.float32)
    nonnegative = rng.random(d) < 0.3
    tau = float(np.sum(np.abs(v))) * 10.0 ** rng.uniform(-4, 0.2)
    options = {"weights": weights, "nonnegative": nonnegative}
    x, y = project(v, u, tau, **options)
    assert x.dtype == np.float32
    omega = np.ones(d) if weights is None else weights
    assert reference.exact_level(x, np.full(d, u), omega) <= Fraction(tau)
    exact, _ = reference.project(v, np.full(d, u), tau, omega, nonnegative)
    scale = max(float(np.max(np.abs(v))), float(np.max(np.abs(exact))))
    np.testing.assert_allclose(x, exact, rtol=2e-7, atol=2e-7 * scale)
    again, y_again = project(x, u, tau, out=np.empty_like(x), **options)
    assert y_again == 0 <= y
    np.testing.assert_array_equal(again, x)
    rows, _ = project(np.stack([v, v]), u, [tau, tau / 2], **options)
    np.testing.assert_array_equal(rows[0], x)


def test_an_answer_beyond_float32_is_refused():
    with pytest.raises(InfeasibleError, match="float32"):
        project(np.array([1.0], np.float32), -1.1, -1e38)


@pytest.mark.slow
def test_many_coordinates_of_any_u():
    rng = np.random.default_rng(0)
    for spread in (2, 30, 90):
        d = 10**5
        v, u = rng.standard_normal(d), rng.uniform(-3, 3, d)
        weights = 10.0 ** rng.uniform(-spread, spread, d)
        x, y = project(v, u, 1.0, weights=weights)
        assert reference.exact_level(x, u, weights) <= 1
        w = weights * (1 + np.where(x != 0, np.sign(x), np.sign(v)) * u)
        np.testing.assert_allclose(x[x != 0], (v - np.sign(x) * w * y)[x != 0], rtol=1e-9, atol=1e-12)
