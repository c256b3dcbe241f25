"""Exact fits of losses with kinks with many samples: most keep their signs, and only the others are searched."""

import numpy as np
import pytest

from levelprox import LinearModel, _kernels
from levelprox.losses import Absolute, Hinge, Quantile
from levelprox.subset.nonsmooth_refit import KinkedModel, exact_fit

LOSSES = [Absolute(), Quantile(0.2), Hinge()]


def samples(loss, n=6000, m=5, seed=0, kind="normal"):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, m))
    if kind == "rare":
        X[:, 0] = rng.random(n) < 0.002
    if kind == "means":
        X[:, 0] += 1e6
    if kind == "ties":
        X = np.round(X)
    z = X @ np.ones(m) + 0.5 * rng.standard_t(2, n)
    b = np.where(z - np.median(z) > 0, 1.0, -1.0) if isinstance(loss, Hinge) else z
    if kind == "sorted":
        order = np.argsort(b, kind="stable")
        X, b = X[order], b[order]
    if kind == "ties" and not isinstance(loss, Hinge):
        b = np.round(b)
    weight = 10.0 ** rng.uniform(-4, 4, n) * (rng.random(n) < 0.9) if kind == "weights" else None
    return LinearModel(X, b, loss, sample_weight=weight, fit_intercept=True)


@pytest.mark.parametrize("kind", ["normal", "rare", "means", "ties", "sorted", "weights"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_the_dual_solution_shows_that_a_fit_is_exact(loss, kind):
    model = samples(loss, kind=kind)
    columns = [model.moved(unit) for unit in np.eye(model.dimension)]
    found = exact_fit(model, columns, np.zeros(len(columns), np.bool_), np.zeros(len(columns)))
    low, high = loss.slopes(model.target)
    u = found.slopes[0]
    counts = model.share > 0
    assert np.all((u >= low - 1e-12) & (u <= high + 1e-12) | ~counts)
    gradient = np.array([abs(np.sum(model.share * u * column)) for column in columns])
    assert np.all(gradient <= 1e-11 * np.array([np.sum(model.share * np.abs(column)) for column in columns]))
    # Fenchel: ψ(x) is at least −Σ p_i u_i b_i for any such u.
    assert model.value_of(found.margins) == pytest.approx(-float(np.sum(model.share * u * model.target)), rel=1e-9)
    assert found.error <= 1e-9 * found.psi + 8 * found.rounding


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_where_a_fit_begins_does_not_matter(loss):
    model = samples(loss)
    columns = [model.moved(unit) for unit in np.eye(model.dimension)]
    none = np.zeros(len(columns), np.bool_)
    first = exact_fit(model, columns, none, np.zeros(len(columns)))
    for near in (first.x, -first.x, np.full(len(columns), 1e3)):
        assert exact_fit(model, columns, none, near).psi == pytest.approx(first.psi, rel=1e-11)


def test_signs_hold_with_many_samples():
    model = samples(Absolute())
    columns = [model.moved(unit) for unit in np.eye(model.dimension)]
    columns[1] = -columns[1]
    signs = np.arange(len(columns)) < 5
    found = exact_fit(model, columns, signs, np.zeros(len(columns)))
    assert np.all(found.x[signs] >= 0) and found.x[1] == 0
    assert found.error <= 1e-9 * found.psi + 8 * found.rounding


def test_a_fit_ends_at_a_deadline():
    model = samples(Absolute(), n=50_000, m=20)
    kinked, columns = KinkedModel(model), [model.moved(unit) for unit in np.eye(model.dimension)]
    own = kinked.columns(columns, np.zeros(len(columns), np.bool_))
    before = _kernels.set_deadline(_kernels.clock(), 10.0)
    try:
        with pytest.raises(_kernels.TimeLimitError):
            kinked.fit(own, np.zeros(len(columns)), np.zeros(len(columns)))
    finally:
        _kernels.set_deadline(*before)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_samples(n):
    rng = np.random.default_rng(n)
    model = LinearModel(rng.standard_normal((n, 4)), rng.standard_normal(n), Absolute())
    columns = [model.moved(unit) for unit in np.eye(4)]
    found = exact_fit(model, columns, np.zeros(4, np.bool_), np.zeros(4))
    assert found.psi <= 1e-13 and np.count_nonzero(found.x) <= n
    empty = exact_fit(model, [], np.zeros(0, np.bool_), np.zeros(0))
    assert empty.psi == pytest.approx(float(np.mean(np.abs(model.target))))
