"""Compiled fits of softmax models over a few columns: the minimum, bounds on it, the same bits on all processors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from levelprox import MultinomialModel, _kernels
from levelprox._kernels import FitEnd

INF = math.inf


def problem(seed: int, n: int = 60, m: int = 3, K: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, m)) * 10.0 ** rng.uniform(-2, 2, m)
    label = np.append(np.arange(K), rng.integers(0, K, n - K)).astype(np.int64)
    weight = rng.uniform(0, 2, n) * (rng.uniform(size=n) > 0.1) if seed % 2 else None
    offset = rng.standard_normal((n, K)) if seed % 3 == 0 else None
    scale = np.mean(X**2, axis=0)
    ridge = scale * rng.uniform(0.001, 0.1, m) if seed % 4 else np.zeros(m)
    return {"X": X, "label": label, "weight": weight, "offset": offset, "ridge": ridge}


def model_of(p: dict[str, Any]) -> MultinomialModel:
    return MultinomialModel(p["X"], p["label"], p["weight"], p["offset"], ridge=p["ridge"])


def compiled(p: dict[str, Any], x: np.ndarray, below: float = INF, accuracy: float = 1e-13) -> tuple[Any, ...]:
    fits = _kernels.ClassFits(int(p["label"].max()) + 1, p["label"], p["weight"], p["offset"])
    columns = [np.ascontiguousarray(column) for column in p["X"].T]
    noise = [1e-16 * float(np.max(np.abs(column))) for column in columns]
    return fits.fit(columns, x.tolist(), 1e-9, below, accuracy, noise, p["ridge"].tolist())


def least(p: dict[str, Any]) -> float:
    """The minimum by a method that shares nothing with the compiled one, in units of the columns."""
    model, unit = model_of(p), np.repeat(1 / np.sqrt(np.mean(p["X"] ** 2, axis=0)), int(p["label"].max()) + 1)

    def at(x: np.ndarray) -> tuple[float, np.ndarray]:
        psi, gradient = model.value_and_gradient(unit * x)
        return psi, unit * gradient

    options = {"maxiter": 5000, "gtol": 1e-9, "ftol": 1e-15, "maxfun": 20000}
    return float(minimize(at, np.zeros(unit.size), jac=True, method="L-BFGS-B", options=options).fun)


@pytest.mark.parametrize("seed", range(24))
def test_the_minimum_and_a_bound_on_it(seed: int) -> None:
    p = problem(seed)
    model, start = model_of(p), np.random.default_rng(seed).standard_normal(p["X"].shape[1] * 4)
    end, x, psi, z, hessian, gap, resolution = compiled(p, start)
    expected = least(p)
    assert end == FitEnd.FITTED
    assert psi <= expected + 1e-9
    assert psi - gap - resolution <= expected
    assert gap <= 1e-10
    assert psi == pytest.approx(model.value_and_gradient(x)[0], rel=1e-12)
    assert np.allclose(z, model.of_samples(model.margins(x)), rtol=1e-10, atol=1e-10)
    assert np.allclose(hessian, model.hessian_of(model.margins(x)), rtol=1e-9, atol=1e-12 * np.max(np.abs(hessian)))


@pytest.mark.parametrize("seed", range(24))
def test_lower_bounds_hold(seed: int) -> None:
    p = problem(seed)
    start, expected = np.zeros(p["X"].shape[1] * 4), compiled(problem(seed), np.zeros(p["X"].shape[1] * 4))[2]
    for step in (1e-1, 1e-2, 1e-3, 1e-6, -1e-6, -1e-3, -1e-2):
        below = expected - step
        end, _, psi, *_ = compiled(p, start, below)
        if end == FitEnd.NOT_BELOW:
            assert step > 0
            assert psi > below
        else:
            assert psi == pytest.approx(expected, rel=1e-10)
    assert compiled(p, start, expected - 0.1)[0] == FitEnd.NOT_BELOW


@pytest.mark.parametrize("seed", range(0, 24, 5))
def test_the_same_bits_on_all_processors(seed: int, instruction_sets: list[str]) -> None:
    p = problem(seed, n=600, m=6, K=5)
    found = []
    for name in instruction_sets:
        _kernels.use_simd(name)
        _, x, psi, z, hessian, gap, _ = compiled(p, np.zeros(30))
        found.append((x.tobytes(), psi, z.tobytes(), hessian.tobytes(), gap))
    assert all(one == found[0] for one in found)


def test_the_same_bits_with_any_number_of_threads() -> None:
    p = problem(3, n=9000, m=4, K=5)
    columns = [np.ascontiguousarray(column) for column in p["X"].T]
    before, found = _kernels.set_thread_work(1), []
    try:
        for threads in (1, 2, 3):
            with threadpool_limits(threads):
                _, x, psi, z, hessian, gap, _ = compiled(p, np.zeros(20))
                fits = _kernels.ClassFits(5, p["label"], p["weight"], p["offset"])
                parts = fits.derivatives(columns, [0, 2], z)
                quick = fits.quick_fit(columns, [0.0] * 20, p["ridge"].tolist(), 1e-9, INF, 0.0)
                found.append([one.tobytes() for one in (x, z, hessian, *parts, quick[0])] + [psi, gap, quick[1]])
    finally:
        _kernels.set_thread_work(before)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("K", [2, 4, 7])
def test_derivatives_in_one_pass_are_those_of_the_model(K: int) -> None:
    rng = np.random.default_rng(K)
    X, label = rng.standard_normal((530, 19)), np.append(np.arange(K), rng.integers(0, K, 530 - K))
    model = MultinomialModel(X, label, rng.integers(0, 3, 530).astype(float), ridge=0.1)
    x = rng.standard_normal(19 * K)
    z, features = model.margins(x), np.array([2, 17])
    gradient, cross, own = model.derivatives_over(z, [np.ascontiguousarray(column) for column in X.T], features)
    hessian = model.hessian_of(z)
    np.testing.assert_allclose(gradient, model.gradient_of(z), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(cross, hessian[:, np.append(2 * K + np.arange(K), 17 * K + np.arange(K))], atol=1e-14)
    blocks = hessian.reshape(19, K, 19, K)[np.arange(19), :, np.arange(19), :]
    np.testing.assert_allclose(own, blocks, atol=1e-14)


def test_no_column_and_samples_without_weight() -> None:
    p = problem(1)
    label, weight = p["label"], np.zeros(p["label"].size)
    weight[:8] = 1.0
    fits = _kernels.ClassFits(4, label, weight, None)
    end, x, psi, z, _, gap, _ = fits.fit([], [], 1e-9, INF, 1e-13, [])
    assert (end, x.size, z.shape, gap) == (FitEnd.FITTED, 0, (60, 4), 0.0)
    assert psi == pytest.approx(math.log(4))


def test_separated_classes_have_no_bound() -> None:
    X = np.linspace(-1, 1, 30)[:, None]
    p = {"X": X, "label": (X[:, 0] > 0).astype(np.int64), "weight": None, "offset": None, "ridge": np.zeros(1)}
    end, x, psi, *_ = compiled(p, np.zeros(2))
    assert np.all(np.isfinite(x)) and psi < 1e-3
    assert end in (FitEnd.FITTED, FitEnd.FAILED)


@pytest.mark.parametrize("K", [2, 3, 20])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_the_hessian_of_columns_at_hand(K: int, ridge: float) -> None:
    rng = np.random.default_rng(K)
    X, label = rng.standard_normal((300, 4)), np.append(np.arange(K), rng.integers(0, K, 300 - K))
    model = MultinomialModel(X, label, rng.uniform(0, 1, 300), ridge=ridge)
    x = rng.standard_normal(4 * K)
    p = np.exp(model.margins(x)[:300])
    p /= p.sum(axis=1, keepdims=True)
    expected = np.zeros((4 * K, 4 * K))
    for i in range(300):
        bend = np.diag(p[i]) - np.outer(p[i], p[i])
        expected += model.share[i] * np.kron(np.outer(X[i], X[i]), bend)
    expected += 2 * ridge * np.eye(4 * K)
    over = model.over(np.asfortranarray(X))
    z = model.margins(x)
    for one in (model, over):
        hessian = one.hessian_of(z)
        assert np.allclose(hessian, expected, rtol=1e-10, atol=1e-13)
        assert np.array_equal(hessian, hessian.T)
    assert np.allclose(over.margins(x), z, rtol=1e-13, atol=1e-13)
    assert np.allclose(over.gradient_of(z), model.gradient_of(z), rtol=1e-11, atol=1e-14)
