"""project() as a function: rows, outputs, memory layouts, and errors."""

from __future__ import annotations

import numpy as np
import pytest

import levelprox
from levelprox import project
from levelprox.exceptions import InvalidInputError


def test_zeros_are_positive():
    x, _ = project([-3.0, -0.1], [0.0, 0.0], 1.0)
    assert not np.signbit(x[1])


def test_rows_levels_and_outputs():
    rng = np.random.default_rng(1)
    v, u, taus = rng.standard_normal((6, 9)), rng.uniform(-1, 1, (6, 9)), rng.uniform(0.1, 3, 6)
    weights, nonnegative = rng.uniform(0.5, 2, 9), rng.random(9) < 0.5
    x, y = project(v, u, taus, weights=weights, nonnegative=nonnegative)
    assert x.shape == (6, 9)
    assert y.shape == (6,)
    for row in range(6):
        one, y_one = project(v[row], u[row], taus[row], weights=weights, nonnegative=nonnegative)
        np.testing.assert_array_equal(x[row], one)
        assert y[row] == y_one
    shared, _ = project(v, u[0], 1.0)
    np.testing.assert_array_equal(shared[3], project(v[3], u[0], 1.0)[0])
    np.testing.assert_array_equal(project(v[0], 0, 1.0)[0], project(v[0], np.zeros(9), 1.0)[0])
    np.testing.assert_array_equal(project(v[0], 0.25, 1.0)[0], project(v[0], np.full(9, 0.25), 1.0)[0])
    out = np.empty((6, 9))
    same, _ = project(v, u, taus, weights=weights, nonnegative=nonnegative, out=out)
    assert same is out
    np.testing.assert_array_equal(out, x)
    over_u = u.copy()
    project(v, over_u, taus, weights=weights, nonnegative=nonnegative, out=over_u)
    np.testing.assert_array_equal(over_u, x)
    in_place = v.copy()
    project(in_place, u, taus, weights=weights, nonnegative=nonnegative, out=in_place)
    np.testing.assert_array_equal(in_place, x)


def test_nonnegative_everywhere_is_a_flag():
    v, u = np.array([1.0, -2.0, 3.0, -0.5]), np.array([0.1, -0.3, 0.2, 0.9])
    flagged, y = project(v, u, 1.5, nonnegative=True)
    masked, y_masked = project(v, u, 1.5, nonnegative=np.ones(4, bool))
    np.testing.assert_array_equal(flagged, masked)
    assert y == y_masked
    assert np.all(flagged >= 0)
    inside, y = project(v, u, np.inf, nonnegative=True)
    np.testing.assert_array_equal(inside, [1, 0, 3, 0])
    assert y == 0


def test_inputs_of_any_layout_are_read_and_never_written():
    rng = np.random.default_rng(2)
    v, u = rng.standard_normal((8, 10)), rng.uniform(-1, 1, (8, 10))
    expected, _ = project(v, u, 1.0)
    np.testing.assert_array_equal(project(np.asfortranarray(v), np.asfortranarray(u), 1.0)[0], expected)
    np.testing.assert_array_equal(project(v[::-1], u[::-1], 1.0)[0], expected[::-1])
    np.testing.assert_array_equal(project(v.tolist(), u.tolist(), 1)[0], expected)
    np.testing.assert_array_equal(project(v.astype(">f8"), u, 1.0)[0], expected)
    v.flags.writeable = u.flags.writeable = False
    before = v.tobytes(), u.tobytes()
    np.testing.assert_array_equal(project(v, u, 1.0)[0], expected)
    assert (v.tobytes(), u.tobytes()) == before
    assert project(v.astype(np.float32), u.astype(np.float32), 1.0)[0].dtype == np.float32
    assert project(v.astype(np.float32), u, 1.0)[0].dtype == np.float64
    assert project([1, 2], [0, 0], 1)[0].dtype == np.float64
    assert project(v.astype(np.float32), 0.5, 1.0)[0].dtype == np.float32


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([1.0, np.nan], [0.0, 0.0], 1.0), {}, "v contains NaN at index 1"),
        (([[1.0, 2.0], [np.inf, 0.0]], [0.0, 0.0], 1.0), {}, "v contains inf at index 1, 0"),
        (([1.0, 2.0], [0.0, -np.inf], 1.0), {}, "u contains inf at index 1"),
        (([1.0, 2.0], [0.0, 0.0], np.nan), {}, "tau must be a number, got NaN"),
        (([1.0, 2.0], [0.0, 0.0, 0.0], 1.0), {}, r"u must have shape \(2,\)"),
        (([1.0, 2.0], [0.0, 0.0], [1.0, 2.0]), {}, "tau must be a scalar"),
        (([[1.0, 2.0]], [0.0, 0.0], [1.0, 2.0]), {}, r"tau must be a scalar or of shape \(1,\)"),
        ((1.0, 0.0, 1.0), {}, "v must have shape"),
        (([], [], 1.0), {}, "at least one coordinate"),
        (([1.0], [2.0], -np.inf), {}, "tau must be above -inf"),
        (([1.0, 2.0], [0.0, -1e155], 1.0), {}, r"u must be in \[-1e50, 1e50\], got -1e\+155"),
        ((["a", "b"], [0.0, 0.0], 1.0), {}, "v must hold real numbers"),
        (([1j, 2.0], [0.0, 0.0], 1.0), {}, "v must hold real numbers"),
        (([1.0, 2.0], [0.0, 0.0], 1.0), {"weights": [1.0]}, r"weights must have shape \(2,\)"),
        (([1.0, 2.0], [0.0, 0.0], 1.0), {"weights": [1.0, -1.0]}, "weights must be 0 .* got -1.0 at index 1"),
        (([1.0, 2.0], [0.0, 0.0], 1.0), {"weights": [1.0, 1e-120]}, "weights must be 0"),
        (([1.0, 2.0], [0.0, 0.0], 1.0), {"weights": [1.0, np.nan]}, "weights contains NaN at index 1"),
        (([1.0, 2.0], [0.0, 0.0], 1.0), {"nonnegative": [True]}, "nonnegative must be a bool"),
        (([1.0, 2.0], [0.0, 0.0], 1.0), {"nonnegative": [1, 0]}, "nonnegative must be a bool"),
        (([1.0, 2.0], [0.0, 0.0], 1.0), {"start": np.nan}, "start must be a number"),
        (([1.0, 2.0], [0.0, 0.0], 1.0), {"start": np.inf}, "start contains inf"),
        (([1.0, 2.0], [0.0, 0.0], 1.0), {"out": np.empty(3)}, "out must be an array"),
        (([1.0, 2.0], [0.0, 0.0], 1.0), {"out": [0.0, 0.0]}, "out must be an array"),
        (([1.0, 2.0], [0.0, 0.0], 1.0), {"out": np.empty(4)[::2]}, "C-contiguous"),
    ],
)
def test_bad_input_is_named(arguments, options, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        project(*arguments, **options)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, levelprox.LevelproxError)
