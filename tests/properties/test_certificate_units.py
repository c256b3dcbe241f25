"""Certificates do not depend on the units of columns, and `solved` leaves no more to gain than is reported."""

from __future__ import annotations

import dataclasses
import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.sparse

from levelprox import (
    LinearModel,
    MultinomialModel,
    Problem,
    SparseClassifier,
    SparseRegressor,
    best_subset,
    certify,
    solve,
    theory,
)
from levelprox.certificate.null_model import null_fit
from levelprox.constraints import L1, MCP, SCAD, Exp
from levelprox.designs import InterceptDesign, ScaledDesign, as_design, precise_matvec
from levelprox.exceptions import InvalidInputError
from levelprox.result import Status
from tests.support.long_runs import LONG
from tests.support.unit_cases import CLASSES, KINKED, SMOOTH, random_problem, targets

ROUNDING = 1e-13  # of ψ: what the local solver itself may be off by
SEVERAL = 100 if LONG else 4


def room_left(problem, local, x):
    """How far the local solver lowers ψ from x beyond the gain that the certificate says is possible."""
    gain = certify(problem, x).possible_gain
    assert gain is not None and gain >= 0
    return local.psi(x) - local.lowest_near(x) - gain - ROUNDING * abs(local.psi(x))


# --- nothing is solved with room for more


@pytest.mark.parametrize("loss", [*SMOOTH, *KINKED])
def test_nothing_is_solved_where_a_local_solver_finds_more_than_is_reported(loss):
    solved = 0
    for seed in range(SEVERAL):
        problem, local = random_problem(loss, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what does not converge says so
            fit = solve(problem, time_limit=None if LONG else 10)
        if fit.status is Status.SOLVED:
            solved += 1
            assert room_left(problem, local, fit.x) <= 0, (loss, seed)
    assert solved >= 0.9 * SEVERAL


@pytest.mark.parametrize("loss", [*SMOOTH, *KINKED])
def test_the_local_solver_finds_what_there_is_to_find(loss):
    """At the null fit it lowers ψ, and the certificate neither calls that solved nor the gain impossible."""
    lowered = 0
    for seed in range(SEVERAL):
        problem, local = random_problem(loss, seed)
        x = null_fit(problem).x
        certificate = certify(problem, x)
        fell = local.psi(x) - local.lowest_near(x)
        lowered += fell > 1e-6 * abs(local.psi(x))
        if fell > 1e-6 * abs(local.psi(x)):
            assert certificate.kkt > 1e-6
            assert certificate.possible_gain > 1e-6 * abs(local.psi(x))
    assert lowered >= 0.6 * SEVERAL


@pytest.mark.parametrize("loss", SMOOTH)
def test_the_possible_gain_is_a_bound_wherever_x_is(loss):
    """Of a convex problem: ψ(x) less the minimum is at most the gain, at any feasible x."""
    for seed in range(SEVERAL):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((60, 5)) * 10.0 ** rng.uniform(-8, 8, 5)
        z = X / np.sqrt(np.mean(X**2, axis=0)) @ [1.5, -1, 0.5, 0, 0] + 0.5 * rng.standard_normal(60)
        weights = np.sqrt(np.mean(X**2, axis=0)) * (rng.random(5) < 0.7)
        model = LinearModel(X, targets(loss, z, rng), loss, fit_intercept=True)
        problem = Problem(model, L1(), rng.uniform(0.1, 2), weights)
        least = solve(problem, tol=1e-9)
        assert least.status is Status.SOLVED
        for size in (1.0, 1e-2, 1e-5):
            step = rng.standard_normal(6) * size * (np.abs(least.x) + 1e-3 / np.append(np.sqrt(np.mean(X**2, 0)), 1))
            x = problem.cut(least.x + step)
            certificate = certify(problem, x)
            assert certificate.psi - least.psi <= certificate.possible_gain * (1 + 1e-9)


def test_one_large_column_hides_no_other():
    rng = np.random.default_rng(0)
    for unit in (1.0, 1e4, 1e8, 1e12):
        X = np.column_stack([unit * rng.standard_normal(200), rng.standard_normal((200, 4))])
        b = 1 + X[:, 1] - 0.7 * X[:, 2] + 0.1 * rng.standard_normal(200)
        problem = Problem(LinearModel(X, b, fit_intercept=True), MCP.from_threshold(0.2), 2.5)
        fit = solve(problem)
        assert fit.status is Status.SOLVED
        assert fit.psi < 0.02
        x = np.zeros(6)
        x[[1, 5]] = np.linalg.lstsq(np.column_stack([X[:, 1], np.ones(200)]), b, rcond=None)[0]
        assert certify(problem, x).kkt > 1e-2


@pytest.mark.parametrize("seed", range(500 if LONG else 12))
def test_an_unpenalized_column_in_large_units_hides_nothing(seed):
    rng = np.random.default_rng(seed)
    unit = 10.0 ** rng.uniform(-8, 8)
    X = np.column_stack([unit * (rng.uniform(-2, 2) + rng.standard_normal(50)), rng.standard_normal((50, 3))])
    b = X[:, 0] / unit + X[:, 1] + 0.1 * rng.standard_normal(50)
    fits = []
    for scale in (1.0, 1 / unit):
        model = LinearModel(X * [scale, 1, 1, 1], b, fit_intercept=bool(seed % 2))
        problem = Problem(model, MCP.from_threshold(0.3), 1.5, [0.0, 1.0, 1.0, 1.0])
        fits.append(solve(problem))
        assert fits[-1].status is Status.SOLVED and fits[-1].n_outer > 0
        assert certify(problem, np.zeros(problem.dimension)).kkt > 0.1
    assert fits[0].psi == pytest.approx(fits[1].psi, rel=1e-9)


# --- the same figures in any unit


def check_same(one, other, rel=1e-6):
    assert other.kkt == pytest.approx(one.kkt, rel=rel, abs=1e-13)
    assert other.possible_gain == pytest.approx(one.possible_gain, rel=1e-4, abs=1e-12 * abs(one.psi))


@pytest.mark.parametrize("loss", [*SMOOTH, "absolute"])
@pytest.mark.parametrize("seed", range(3))
def test_columns_in_other_units_with_weights_to_match(loss, seed):
    """ω_j φ(|x_j|) is the same for L1, for any unit of column j, and for any φ where feature j is unpenalized."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((50, 6)) + rng.uniform(-2, 2, 6)
    z = Z @ [1, -1, 0.5, 0, 0, 0] + 0.3 * rng.standard_normal(50)
    b, units = targets(loss, z, rng), 10.0 ** rng.uniform(-8, 8, 6)
    x = np.array([0.3, 0, 0.2, 0, 0.1, 0])
    unpenalized = np.array([1.0, 1, 1, 1, 0, 0])
    for constraint, scale, weights in (
        (L1(), units, units * unpenalized),
        (MCP(2.0, 0.5), units ** (1 - unpenalized), unpenalized),
    ):
        level = 1.3 * constraint.value(x, unpenalized)
        plain = certify(Problem(LinearModel(Z, b, loss), constraint, level, unpenalized), x)
        other = certify(Problem(LinearModel(Z * scale, b, loss), constraint, level, weights), x / scale)
        # The null fit of a loss with kinks is at one, where a scale is as good as another.
        check_same(plain, other, 0.1 if loss in KINKED else 1e-6)


@pytest.mark.parametrize("shift", [0.0, 3.0, 1e3])
def test_constants_added_to_columns_beside_an_intercept(shift):
    rng = np.random.default_rng(1)
    X, x = rng.standard_normal((60, 5)), np.array([0.5, 0, -0.2, 0, 0])
    b = X @ [1, 0, -1, 0.5, 0] + 0.2 * rng.standard_normal(60)
    shifts = shift * rng.standard_normal(5)
    constraint, level = MCP.from_threshold(0.7), 2.2
    plain = certify(Problem(LinearModel(X, b, fit_intercept=True), constraint, level), np.append(x, 0.3))
    moved = Problem(LinearModel(X + shifts, b, fit_intercept=True), constraint, level)
    assert certify(moved, np.append(x, 0.3 - shifts @ x)).kkt == pytest.approx(plain.kkt, rel=1e-6)


@pytest.mark.parametrize("unit", [1e-30, 1e-8, 1e8, 1e30])
def test_all_columns_and_the_threshold_in_another_unit(unit):
    rng = np.random.default_rng(2)
    X, x = rng.standard_normal((60, 5)), np.array([0.5, 0, -0.2, 0, 0])
    b = X @ [1, 0, -1, 0.5, 0] + 0.2 * rng.standard_normal(60)
    plain = certify(Problem(LinearModel(X, b), MCP.from_threshold(0.7), 2.2), x)
    check_same(plain, certify(Problem(LinearModel(X * unit, b), MCP.from_threshold(0.7 / unit), 2.2), x / unit))


@pytest.mark.parametrize("seed", range(500 if LONG else 8))
def test_standardised_fits_are_the_same_in_any_unit(seed):
    rng = np.random.default_rng(seed)
    loss = [*SMOOTH, *KINKED][seed % 8]
    n, d = int(rng.integers(30, 100)), int(rng.integers(3, 10))
    X = rng.standard_normal((n, d)) + (rng.uniform(-3, 3, d) if seed % 3 == 0 else 0.0)
    X = (X > 0.5).astype(float) if seed % 4 == 0 else X  # a column may be constant
    z = X @ (rng.standard_normal(d) * (rng.random(d) < 0.6)) + 0.5 * rng.standard_normal(n)
    y, units = targets(loss, z - z.mean(), rng), 10.0 ** rng.uniform(-8, 8, d)
    constraint = [MCP.from_threshold(0.3), SCAD.from_threshold(0.5), L1(), Exp(3.0)][rng.integers(4)]
    kind = SparseClassifier if loss in CLASSES else SparseRegressor
    model = kind(
        loss=loss,
        level=rng.uniform(0.5, 4),
        constraint=constraint,
        standardize=True,
        fit_intercept=bool(seed % 5),
        feature_weight=np.append(0.0, np.ones(d - 1)) if seed % 3 else None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, other = (type(model)(**model.get_params()).fit(data, y) for data in (X, X * units))
    assert other.status_ == plain.status_
    ours, theirs = (np.ravel(fit.coef_ * fit.scale_) for fit in (plain, other))
    np.testing.assert_allclose(theirs, ours, atol=1e-5 * np.max(np.abs(ours), initial=1e-3))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_spectral_steps_with_a_time_stamp_beside_an_intercept(loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4)) * [1e10, 1, 1, 1] + [2e12, 0, 0, 0]
    z = X[:, 1] - X[:, 2] + (X[:, 0] - 2e12) / 1e10
    problem = Problem(LinearModel(X, targets(loss, z, rng), loss, fit_intercept=True), L1(), 1.2, [0, 1, 1, 1])
    fit, same = solve(problem, subsolver="spectral", max_iter=200), solve(problem)
    assert fit.status is same.status is Status.SOLVED
    assert fit.psi == pytest.approx(same.psi, rel=1e-8)


# --- the level


def test_a_cap_that_is_left_is_no_rounding_however_many_features_are_saturated():
    """One more feature fits in the level, would gain, and is not taken in."""
    rng = np.random.default_rng(0)
    for saturated in (1, 30, 300):
        Q = np.linalg.qr(rng.standard_normal((2 * saturated + 20, saturated + 2)))[0]
        Q *= np.sqrt(Q.shape[0])
        x = np.append(np.ones(saturated), [0.0, 0.0])
        for missing in (4e-2, 4e-4, 1e-5):
            b = Q @ (x + missing * np.eye(saturated + 2)[saturated])
            for constraint, level in ((MCP.from_threshold(1e-4), saturated + 1.5), (L1(), saturated + 1.0)):
                problem = Problem(LinearModel(Q, b), constraint, level)
                certificate = certify(problem, x)
                assert certificate.kkt >= 0.1 * missing
                assert certificate.possible_gain >= missing**2 * (1 - 1e-9)
                assert solve(problem, x0=x).psi <= 1e-3 * certificate.psi


def test_an_infeasible_point_never_looks_solved():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 6))
    b = X @ [2, -1, 0.5, 0.3, 0, 0] + 0.1 * rng.standard_normal(100)
    problem = Problem(LinearModel(X, b), MCP.from_threshold(0.1), 2.5)
    free = np.linalg.lstsq(X, b, rcond=None)[0]
    assert certify(problem, free).kkt > 1
    x = solve(problem).x
    small = int(np.argmin(np.where(x != 0, np.abs(x), np.inf)))
    for excess in (1e-15, 1e-9, 1e-3, 1.0):
        beyond = x.copy()
        while problem.g(beyond) <= problem.level:
            beyond[small] *= 1 + excess
        certificate = certify(problem, beyond)
        assert certificate.infeasibility > 0
        assert certificate.kkt > 1 or certificate.kkt == pytest.approx(1)
        assert not certificate.kkt <= 0.99
    positive = dataclasses.replace(problem, level=100.0, nonnegative=True)
    for size in (1e-300, 1e-12, 1.0):
        assert certify(positive, np.where(np.arange(6) == 3, -size, 0.0)).kkt >= 1
    assert certify(positive, np.zeros(6)).infeasibility == 0


@pytest.mark.parametrize("kind", [MCP, SCAD])
def test_degenerate_levels_are_recognised_up_to_rounding(kind):
    rng = np.random.default_rng(0)
    for _ in range(2000 if LONG else 300):
        constraint = kind(rng.uniform(0.1, 5), rng.uniform(2.1, 8))
        count = int(rng.integers(1, 1000))
        level = count * constraint.cap
        for same in (
            level,
            np.nextafter(level, 0),
            np.nextafter(level, np.inf),
            float(np.sum([constraint.cap] * count)),
        ):
            with pytest.raises(InvalidInputError, match="whole number of caps"):
                theory.eta0(constraint, same)
            problem = Problem(LinearModel(np.eye(2), np.ones(2)), constraint, same)
            distance, _ = theory.degenerate_distance(problem)
            assert distance is not None and (count > 2 or distance < 1e-12)
        part = rng.uniform(1e-6, 1 - 1e-6)
        first = theory.eta0(constraint, (count + part) * constraint.cap)
        assert first == pytest.approx((count + part / 2) * constraint.cap, rel=1e-9)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_coordinates_of_columns_of_one_size(n_outputs, intercept):
    """Margins and ψ' along them are those of standardised columns; what goes there comes back."""
    rng = np.random.default_rng(0)
    X = np.column_stack([1e10 * (200 + rng.standard_normal(50)), rng.standard_normal((50, 2)), np.full(50, 7.0)])
    kinds = np.argmax(rng.standard_normal((50, 3)), axis=1)
    model = (LinearModel if n_outputs == 1 else MultinomialModel)(X, kinds, fit_intercept=intercept)
    w = model.feature_scale.coordinates(n_outputs)
    assert (w.means is None) != intercept
    assert model.feature_scale.coordinates(n_outputs, centred=False).means is None
    x, step = rng.standard_normal((2, model.dimension)) / w.units
    gradient = rng.standard_normal(model.dimension) * w.units
    np.testing.assert_allclose(w.back(w.of(x)) * w.units, x * w.units, atol=1e-12)
    np.testing.assert_allclose(w.gradient_back(w.gradient(gradient)) / w.units, gradient / w.units, rtol=1e-12)
    assert w.of(step) @ w.gradient(gradient) == pytest.approx(step @ gradient, rel=1e-9)
    if intercept:
        columns = np.column_stack([X, np.ones(50)])
        sizes = [
            np.std(columns @ w.back(one).reshape(-1, n_outputs)) for one in np.eye(model.dimension)[: 3 * n_outputs]
        ]
        assert max(sizes) < 3 * min(sizes)
    plain = LinearModel(X[:, 1:3], kinds, fit_intercept=intercept)
    assert plain.feature_scale.coordinates() is None


# --- ψ is that of the coefficients


def exact_psi(loss, A, b, x, n_outputs):
    """ψ of float64 coefficients in 60 digits."""
    with mpmath.workdps(60):
        rows = x.reshape(-1, n_outputs)
        z = [[mpmath.fdot(map(mpmath.mpf, a), map(mpmath.mpf, column)) for column in rows.T] for a in A]
        if loss == "multinomial":
            each = [mpmath.log(sum(map(mpmath.exp, m))) - m[int(k)] for m, k in zip(z, b, strict=True)]
        elif loss == "logistic":
            each = [mpmath.log1p(mpmath.exp(-int(k) * m[0])) for m, k in zip(z, b, strict=True)]
        elif loss == "absolute":
            each = [abs(m[0] - mpmath.mpf(k)) for m, k in zip(z, b, strict=True)]
        else:
            each = [(m[0] - mpmath.mpf(k)) ** 2 for m, k in zip(z, b, strict=True)]
        return float(mpmath.fsum(each) / len(each))


@pytest.mark.parametrize("loss", ["squared", "logistic", "absolute", "multinomial"])
@pytest.mark.parametrize("storage", [np.asarray, np.asfortranarray, scipy.sparse.csr_array, scipy.sparse.csc_array])
def test_psi_is_that_of_the_coefficients_whatever_the_means(loss, storage):
    """Margins are differences of terms of 1e10 here: summed in float64, ψ has few digits."""
    rng = np.random.default_rng(3)
    Z = rng.standard_normal((25, 3))
    X = Z + 1e10
    z = 2 * Z[:, 0] - Z[:, 1] + 0.3 * rng.standard_normal(25)
    if loss == "multinomial":
        b = np.argmax(np.column_stack([z, -z, np.ones(25)]) + rng.gumbel(size=(25, 3)), axis=1)
        model = MultinomialModel(storage(X), b, fit_intercept=True)
    else:
        b = targets(loss, z, rng)
        model = LinearModel(storage(X), b, loss, fit_intercept=True)
    A, null = np.column_stack([X, np.ones(25)]), null_fit(Problem(model, L1(), 1.0)).psi
    if storage is np.asarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what has too few digits to converge says so
            found = best_subset(model, 2)
        assert abs(found.psi - exact_psi(loss, A, b, found.x, model.n_outputs)) <= 1e-12 * null
    for _ in range(3):
        coefficients = rng.standard_normal((4, model.n_outputs)) * [[1], [1], [0], [0]]
        coefficients[3] = -1e10 * coefficients[:3].sum(axis=0)
        x = coefficients.ravel()
        assert (
            abs(certify(Problem(model, L1(), 10.0), x).psi - exact_psi(loss, A, b, x, model.n_outputs)) <= 1e-12 * null
        )


@pytest.mark.parametrize("centred", [True, False])
def test_products_in_twice_the_precision(centred):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4)) + 1e12
    x = np.array([1.0, 0.0, -3.0, 2.0])
    design = as_design(X)
    if centred:
        design = ScaledDesign(design, X.mean(axis=0), [0.5, 1.0, 3.0, 1.0])
        entries = [
            [
                (Fraction(v) - Fraction(c)) / Fraction(s)
                for v, c, s in zip(row, design.center_, design.scale_, strict=True)
            ]
            for row in X
        ]
    else:
        entries = [[Fraction(v) for v in row] for row in X]
    exact = [float(sum(v * Fraction(w) for v, w in zip(row, x, strict=True)) + Fraction(7.0)) for row in entries]
    np.testing.assert_allclose(
        precise_matvec(InterceptDesign(design), np.append(x, 7.0)), exact, rtol=1e-14, atol=1e-14
    )
    np.testing.assert_allclose(precise_matvec(design, x, np.full(30, 7.0)), exact, rtol=1e-14, atol=1e-14)


# --- kinks


def test_a_margin_is_at_its_kink_within_the_rounding_of_its_sum():
    """A time stamp in milliseconds with coefficient 0 adds nothing to the margins, nor to what they may be off by."""
    rng = np.random.default_rng(0)
    stamps = 1.7e12 + rng.uniform(0, 3e10, 200)
    X = np.column_stack([stamps, rng.standard_normal((200, 4))])
    b = 5 + 3 * X[:, 1] - 2 * X[:, 2] + 0.1 * rng.standard_normal(200)
    model = LinearModel(X, b, "absolute", fit_intercept=True)
    problem = Problem(model, MCP.from_threshold(0.5), 2.5)
    for intercept in (5.0, 0.0, 100.0):
        x = np.array([0, 1.0, 0, 0, 0, intercept])
        certificate = certify(problem, x)
        assert certificate.kkt > 0.1
        assert certificate.possible_gain > 1.0
        terms = np.abs(X[:, 1]) + intercept + np.abs(b)
        assert np.all(model.near_a_kink(x) <= 1e-11 * terms)
    with_stamp = np.array([1e-12, 1.0, 0, 0, 0, 5.0])
    assert np.all(model.near_a_kink(with_stamp) >= 1e-15 * stamps * 1e-12)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_terms_of_a_margin(intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 4)) * [1e8, 1, 1e-8, 1]
    x = np.array([1e-8, 0.0, -3e7, 2.0])
    model = LinearModel(X, np.zeros(20), "absolute", fit_intercept=intercept)
    x = np.append(x, 7.0) if intercept else x
    expected = np.abs(X) @ np.abs(x[:4]) + (7.0 if intercept else 0.0)
    np.testing.assert_allclose(model.margin_magnitudes(x), expected, rtol=1e-12)
    restricted = model.restrict(np.array([0, 3]))
    np.testing.assert_allclose(restricted.margin_magnitudes(x[[0, 3]]), np.abs(X[:, [0, 3]]) @ np.abs(x[[0, 3]]))


def test_columns_of_zeros_have_no_say():
    """Their gradient is rounding: it neither keeps a fit from being solved nor brings them into it."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((60, 3)), np.zeros(60)])
    b = X[:, 0] + 0.1 * rng.standard_normal(60)
    fit = solve(Problem(LinearModel(X, b, fit_intercept=True), MCP.from_threshold(0.3), 3.5))
    assert fit.status is Status.SOLVED and fit.x[3] == 0
    constant = np.column_stack([X[:, :3], np.full(60, 1e12)])
    model = SparseRegressor(level=3.5, constraint=MCP.from_threshold(0.3)).fit(constant, b)
    assert model.status_ is Status.SOLVED and model.coef_[3] == 0
