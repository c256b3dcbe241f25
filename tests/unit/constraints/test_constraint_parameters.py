"""Parameters of constraints: rejected values, extreme values, and the functions given to Custom."""

from __future__ import annotations

import doctest
import math
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    custom,
)
from levelprox.exceptions import InvalidInputError, LevelproxError
from tests.support.constraint_cases import (
    EPS,
    EXTREME,
    any_closed_form,
    any_sizes,
    check_against_the_paper,
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
from tests.support.registries import (
    CONSTRAINTS,
    RESCALED,
    huber,
    huber_derivative,
    random_point,
)

# Parameters: rejected and extreme values.

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


def test_the_repr_of_custom_has_no_addresses() -> None:
    constraint = Custom(2, huber, partial(np.minimum, 1), 1)
    assert str(constraint) == "Custom(lam=2.0, h=huber, grad_h=partial, lipschitz=1.0, cap=inf)"


def test_custom_example_runs() -> None:
    assert doctest.testmod(custom).attempted > 0 and doctest.testmod(custom).failed == 0


# --- φ(t/c): a constraint like any other, and a member of the same family for the families of the paper


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
