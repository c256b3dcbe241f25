"""Parameters of constraints: rejected values, extreme values, and the functions given to Custom."""

from __future__ import annotations

import doctest
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

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
    custom,
)
from levelprox.exceptions import InvalidInputError, LevelproxError
from tests.support.constraint_cases import (
    EPS,
    EXTREME,
    check_against_the_paper,
    check_h_is_convex_and_smooth,
    check_is_a_sparsity_measure,
    check_saturates,
    sizes,
)
from tests.support.registries import (
    huber,
    huber_derivative,
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
