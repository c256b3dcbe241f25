"""Losses on arrays of any namespace, against the compiled kernels."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from levelprox import _kernels
from levelprox.exceptions import InvalidInputError
from levelprox.losses import LOSS_TYPES, Loss, Multinomial
from tests.support.registries import LOSSES, targets_of

SMOOTH = [loss for loss in LOSSES if loss.smooth and loss.name != "smoothed"]


def far_and_near(loss: Loss) -> tuple[np.ndarray, np.ndarray]:
    """Margins of any size, both signs, zeros, infinite ones, NaN, and each target's own; with targets."""
    rng = np.random.default_rng(0)
    far = rng.choice([-1.0, 1.0], 1500) * 10.0 ** rng.uniform(-20, 30, 1500)
    z = np.concatenate(
        [far, rng.normal(0, 3, 1500), rng.uniform(-760, 760, 1000), [0.0, -0.0, np.inf, -np.inf, np.nan]]
    )
    b = targets_of(loss, rng.choice([-1.0, 1.0], z.size) * 10.0 ** rng.uniform(-3, 3, z.size))
    z[:50] = b[:50]
    if loss.kind == "count":
        b[50:500] = 0.0
    return z, b


def by_kernels(loss: Loss, z: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ℓ, ℓ' and ℓ'' of every sample, each the mean over itself alone."""
    out = np.empty((3, z.size))
    for i in range(z.size):
        at = slice(i, i + 1)
        out[0, i] = _kernels.loss_value(*loss.kernel, z[at], b[at], None)
        _kernels.loss_derivative(*loss.kernel, z[at], b[at], None, out[1, at])
        _kernels.loss_curvature(*loss.kernel, z[at], b[at], None, out[2, at])
    return out[0], out[1], out[2]


def sizes_of(loss: Loss, z: np.ndarray, b: np.ndarray) -> tuple[Any, Any, Any]:
    """What the digits of ℓ, ℓ' and ℓ'' are relative to: their largest term, where they are differences."""
    if loss.name == "poisson":
        return np.exp(z) + np.where(b == 0, 0, b * np.abs(z)), np.exp(z) + b, 0.0
    if loss.name == "gamma":
        return np.abs(z) + b * np.exp(-z), 1 + b * np.exp(-z), 0.0
    return 0.0, 0.0, 0.0


LIBRARIES = pytest.mark.parametrize(
    "xp", [pytest.param("numpy"), pytest.param("torch", marks=pytest.mark.torch)], indirect=True
)


@pytest.fixture
def xp(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(request.param)


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@LIBRARIES
def test_losses_equal_those_of_the_kernels(loss: Loss, xp: Any) -> None:
    z, b = far_and_near(loss)
    with np.errstate(all="ignore"):
        found = loss.pointwise(xp, xp.asarray(z), xp.asarray(b))
        sizes = sizes_of(loss, z, b)
        for ours, theirs, size in zip(found, by_kernels(loss, z, b), sizes, strict=True):
            ours = np.asarray(ours)
            np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
            np.testing.assert_array_equal(np.isinf(ours), np.isinf(theirs))
            finite = np.isfinite(theirs)
            error = np.abs(ours - theirs)[finite]
            bound = 1e-14 * np.maximum(np.abs(theirs), size)[finite] + 1e-300
            assert np.all(error <= bound), (z[finite][error > bound][:3], b[finite][error > bound][:3])


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@LIBRARIES
def test_values_without_derivatives(loss: Loss, xp: Any) -> None:
    z, b = far_and_near(loss)
    with np.errstate(all="ignore"):
        alone, known = loss.heights(xp, xp.asarray(z), xp.asarray(b)), loss.pointwise(xp, xp.asarray(z), xp.asarray(b))
    np.testing.assert_array_equal(np.asarray(alone), np.asarray(known[0]))


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@LIBRARIES
def test_single_precision_overflows_only_where_the_answer_does(loss: Loss, xp: Any) -> None:
    z, b = (one[np.abs(far_and_near(loss)[0]) <= 1e30] for one in far_and_near(loss))
    z, b = z.astype(np.float32), b.astype(np.float32)
    largest = np.finfo(np.float32).max
    with np.errstate(all="ignore"):
        found = loss.pointwise(xp, xp.asarray(z), xp.asarray(b))
        double = (z.astype(float), b.astype(float))
        for ours, theirs, size in zip(found, by_kernels(loss, *double), sizes_of(loss, *double), strict=True):
            ours = np.asarray(ours)
            assert ours.dtype == np.float32
            inside = np.maximum(np.abs(theirs), size) < 0.1 * largest
            assert np.all(np.isfinite(ours[inside]))
            error = np.abs(ours - theirs)[inside]
            # Of margins so large that float32 has no digits left for b − z or |z| − c.
            bound = 2e-6 * np.maximum(np.maximum(np.abs(theirs), size), np.minimum(1.0, np.abs(theirs)))[inside]
            worst = error - bound
            assert np.all(worst <= 2e-7), (z[inside][worst > 2e-7][:3], b[inside][worst > 2e-7][:3])


def test_kinks_are_refused() -> None:
    for kind in LOSS_TYPES:
        loss = kind()
        if not loss.smooth:
            with pytest.raises(InvalidInputError, match=f"'{loss.name}' has kinks"):
                loss.pointwise(np, np.zeros(2), np.ones(2))


@LIBRARIES
@pytest.mark.parametrize("scale", [1.0, 50.0, 1e30, 1e307])
def test_multinomial(xp: Any, scale: float) -> None:
    rng = np.random.default_rng(1)
    z, label = scale * rng.normal(size=(400, 5)), rng.integers(0, 5, 400)
    z[:3, 2] = z[:3, 4] = 2 * scale  # ties
    own = label[:, None] == np.arange(5)
    with np.errstate(all="ignore"):
        value, slope, p = (np.asarray(one) for one in Multinomial.pointwise(xp, xp.asarray(z), xp.asarray(own)))
    each = np.array([Multinomial.value(z[i : i + 1], label[i : i + 1]) for i in range(400)])
    np.testing.assert_allclose(value, each, rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(slope / 400, Multinomial.derivative(z, label), rtol=2e-14, atol=1e-300)
    np.testing.assert_allclose(p, Multinomial.probabilities(z), rtol=1e-14, atol=1e-300)
