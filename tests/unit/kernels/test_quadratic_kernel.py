"""The second-order model over a surrogate set: exactly feasible, stationary, no worse than a slow implementation."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import _kernels, project
from levelprox.objectives import Quadratic
from levelprox.projection import group_norms
from tests.support import reference
from tests.support.long_runs import LONG
from tests.support.projection_cases import EPS

EXAMPLES = 3000 if LONG else 250
KINDS = ("regular", "singular", "repeated columns", "zero columns", "scales")
RIDGE = 1e-9  # of the diagonal, as Newton's steps have it


class Case:
    """One random model: H = A'A of some kind, a set, and a point of it."""

    def __init__(self, seed, features, n_outputs, kind, plain=False):
        rng = np.random.default_rng(seed)
        self.n_outputs, d = n_outputs, features * n_outputs
        self.kind = kind
        A = rng.standard_normal((max(1, d // 2) if kind == "singular" else 2 * d, d))
        columns = rng.integers(0, features, features) if kind == "repeated columns" else np.arange(features)
        A = A.reshape(-1, features, n_outputs)[:, columns, :]
        if kind == "zero columns":
            A[:, rng.random(features) < 0.5, :] = 0
        self.size = np.ones(d)
        if kind == "scales":
            self.size = np.repeat(10.0 ** rng.uniform(-8, 8, features), n_outputs)
        A = A.reshape(-1, d) * self.size
        self.hessian = A.T @ A
        self.diagonal = np.ascontiguousarray(np.diagonal(self.hessian))
        gamma = 1e-9 * float(np.mean(self.diagonal)) or 1.0
        self.ridge = RIDGE * self.diagonal + (0.0 if kind == "scales" else gamma)
        # A gradient in the range of A', as a loss has it: the model is bounded below by much more than its ridge.
        self.gradient = A.T @ rng.standard_normal(A.shape[0]) * 10.0 ** rng.uniform(-3, 3)
        self.u, self.nonnegative, self.weights = None, None, None
        if n_outputs == 1 and not plain:
            if rng.random() < 0.5:
                self.u = np.where(rng.random(d) < 0.3, rng.choice([-1.0, 1.0], d), rng.uniform(-1, 1, d))
            if rng.random() < 0.5:
                self.nonnegative = rng.random(d) < 0.5
        if rng.random() < 0.7:
            self.weights = np.where(rng.random(features) < 0.2, 0.0, 10.0 ** rng.uniform(-1, 1, features))
        v = rng.standard_normal(d) * (rng.random(d) < 0.6) / self.size
        far = np.linalg.lstsq(self.hessian * np.outer(1 / self.size, 1 / self.size), -self.gradient / self.size)[0]
        spent = self.spent(far / self.size)
        self.tau = float(rng.choice([0.0, np.inf, 0.3 * spent, 0.9 * spent, 2 * spent], p=[0.1, 0.1, 0.4, 0.3, 0.1]))
        self.x, _ = self.project(v)

    def spent(self, x):
        """The constraints of the set, except for u."""
        sizes = group_norms(np.ascontiguousarray(x), self.n_outputs)
        return float(np.sum(sizes if self.weights is None else self.weights * sizes))

    def project(self, v, unit=None):
        """Onto the set, or onto the same set in other coordinates x / unit."""
        weights = np.ones(v.size // self.n_outputs) if self.weights is None else self.weights
        if self.tau == np.inf:
            return (v if self.nonnegative is None else np.where(self.nonnegative, np.maximum(v, 0), v)), 0.0
        if unit is not None:
            weights = weights * unit[:: self.n_outputs]
        u = 0.0 if self.u is None else self.u
        return project(v, u, self.tau, weights=weights, nonnegative=self.nonnegative, width=self.n_outputs)

    @property
    def set(self):
        mask = None if self.nonnegative is None else self.nonnegative.view(np.uint8)
        return _kernels.Set(self.x.size, self.weights, self.u, mask, False, self.tau, width=self.n_outputs)

    def solve(self, x=None, gradient=None, product=False, relative=1e-12, products=20_000, multiplier=0.0):
        hessian = (lambda v: self.hessian @ v) if product else self.hessian
        x, gradient = self.x if x is None else x, self.gradient if gradient is None else gradient
        settings_ = (multiplier, relative, products)
        return _kernels.quadratic(hessian, self.set, x, gradient, self.diagonal, self.ridge, *settings_)

    def slope(self, x):
        return self.gradient + self.hessian @ (x - self.x) + self.ridge * (x - self.x)

    def model(self, x):
        return float((x - self.x) @ (self.gradient + self.slope(x))) / 2

    @property
    def unit(self):
        bend = (self.diagonal + self.ridge).reshape(-1, self.n_outputs).mean(axis=1)
        return np.repeat(1 / np.sqrt(np.where(bend > 0, bend, 1.0)), self.n_outputs)

    def residual(self, x):
        """|P(x - slope) - x| where Q has a unit diagonal."""
        unit = self.unit
        z, slope = x / unit, self.slope(x) * unit
        return float(np.max(np.abs(self.project(z - slope, unit)[0] - z)))

    @property
    def is_flat(self):
        """Whether the last digits may be out of reach: a curved face, along which the model hardly bends."""
        return self.n_outputs > 1 and self.kind in ("singular", "repeated columns")

    def is_inside(self, x):
        """In rational arithmetic."""
        if self.nonnegative is not None and np.any(x[self.nonnegative] < 0):
            return False
        if self.tau == np.inf:
            return True
        sizes = group_norms(x, self.n_outputs)
        weights = np.ones(sizes.size) if self.weights is None else self.weights
        if self.u is None:
            return reference.exact_level(sizes, np.zeros(sizes.size), weights) <= Fraction(self.tau)
        return reference.exact_level(x, self.u, weights) <= Fraction(self.tau)


any_case = st.builds(
    Case, st.integers(0, 2**32), st.integers(1, 12), st.sampled_from([1, 1, 3]), st.sampled_from(KINDS)
)


@settings(max_examples=EXAMPLES)
@given(any_case, st.booleans())
def test_the_answer_is_in_the_set_stationary_and_no_worse(case, product):
    outcome = case.solve(product=product)
    x = outcome.x
    assert case.is_inside(x)
    size = float(np.max(np.abs(case.gradient * case.unit)) + np.max(np.abs(case.x / case.unit)))
    if outcome.products < 20_000 or not case.is_flat:
        goal = 1e-3 if case.is_flat else 1e-6
        assert case.residual(x) <= goal * case.residual(case.x) + 1e-13 * size
    rounding = 1e-12 * float((np.abs(x) + np.abs(case.x)) @ np.abs(case.gradient)) + 1e-30
    assert case.model(x) <= rounding
    assert outcome.decrease == pytest.approx(-case.model(x), rel=1e-7, abs=rounding)
    assert outcome.multiplier >= 0


@settings(max_examples=EXAMPLES)
@given(any_case, st.booleans())
def test_newton_s_steps_are_found_in_time(case, product):
    outcome = case.solve(product=product, relative=1e-2, products=500)
    size = float(np.max(np.abs(case.gradient * case.unit)) + np.max(np.abs(case.x / case.unit)))
    assert case.residual(outcome.x) <= 0.02 * case.residual(case.x) + 1e-13 * size


class Flat(Case):
    """A model whose curvatures span eight digits, over a weighted ball that holds back its minimum."""

    def __init__(self, seed, features):
        super().__init__(seed, features, 1, "regular", plain=True)
        rng = np.random.default_rng(seed)
        rotation = np.linalg.qr(rng.standard_normal((features, features)))[0]
        A = rng.standard_normal((features, features)) * np.geomspace(1, 1e-4, features)[:, None] @ rotation
        self.hessian = A.T @ A
        self.diagonal = np.ascontiguousarray(np.diagonal(self.hessian))
        self.ridge, self.weights, self.x = 1e-12 * self.diagonal, None, np.zeros(features)
        truth = rng.standard_normal(features)
        self.gradient, self.tau = -self.hessian @ truth, 0.7 * float(np.abs(truth).sum())


@pytest.mark.parametrize("features", [150, 200])
def test_large_faces_that_are_nearly_singular_are_solved_in_time(features):
    """By factors that follow the face; conjugate gradients alone end with a residual above 2e-2."""
    for seed in range(3):
        case = Flat(seed, features)
        outcome = case.solve(relative=1e-3, products=500)
        assert case.is_inside(outcome.x)
        assert case.residual(outcome.x) <= 1e-2 * case.residual(case.x)


def test_factors_that_follow_the_face_lead_to_the_answer():
    """Coordinates leave and enter: the level is tight, and the answer has many zeros."""
    case = Flat(5, 300)
    case.tau *= 0.85
    outcome = case.solve(relative=1e-9, products=100_000)
    assert case.is_inside(outcome.x)
    assert case.residual(outcome.x) <= 1e-7 * case.residual(case.x)
    assert 150 < np.count_nonzero(outcome.x) < 290


def test_a_sparse_matrix_and_its_products_give_the_same():
    """A matrix of many coordinates of which less than a quarter is not zero is read without its zeros."""
    for seed in range(3):
        case = Flat(seed, 200)
        blocks = np.kron(np.eye(20), np.ones((10, 10)))
        case.hessian = case.hessian * blocks + np.diag(case.diagonal)
        case.diagonal = np.ascontiguousarray(np.diagonal(case.hessian))
        both = [case.solve(relative=1e-10, products=100_000, product=product).x for product in (False, True)]
        assert np.count_nonzero(both[0]) > 128
        assert np.allclose(*both, rtol=0, atol=1e-7 * np.max(np.abs(both[0])))


@settings(max_examples=EXAMPLES // 5)
@given(any_case)
def test_stopped_early_it_is_in_the_set_and_no_worse(case):
    for products in (1, 3, 10):
        outcome = case.solve(products=products)
        assert case.is_inside(outcome.x)
        rounding = 1e-12 * float((np.abs(outcome.x) + np.abs(case.x)) @ np.abs(case.gradient)) + 1e-30
        assert case.model(outcome.x) <= rounding


@settings(max_examples=EXAMPLES // 5)
@given(any_case, st.booleans())
def test_started_at_the_answer_it_stays(case, product):
    """Warm, with the answer's slope and multiplier: nothing is left to gain."""
    first = case.solve()
    again = case.solve(first.x, case.slope(first.x), product, relative=1e-2, multiplier=first.multiplier)
    size = np.max(np.abs(first.x / case.unit)) + np.max(np.abs(case.gradient * case.unit))
    assert case.is_inside(again.x)
    # Not in x, which a singular model leaves open, but in what it is worth: against the fall of the first solve.
    spent = float((np.abs(first.x) + np.abs(case.x)) @ np.abs(case.gradient))
    goal = 1e-6 if case.is_flat else 1e-9
    assert abs(again.decrease) <= goal * first.decrease + 1e-12 * spent + 1e-25 * size**2
    assert again.projections <= 100 or case.is_flat


@settings(max_examples=40)
@given(st.builds(Case, st.integers(0, 2**32), st.integers(1, 8), st.sampled_from([1, 3]), st.just("regular")))
def test_the_kernel_agrees_with_its_twin(case):
    outcome, unit = case.solve(), case.unit
    Q = (case.hessian + np.diag(case.ridge)) * np.outer(unit, unit)
    z = reference.quadratic(Q, case.gradient * unit, case.x / unit, lambda v: case.project(v, unit)[0])
    scale = np.max(np.abs(z)) + np.max(np.abs(case.x / unit))
    assert np.allclose(outcome.x / unit, z, rtol=0, atol=1e-8 * scale + 1e-300)


@settings(max_examples=60)
@given(st.builds(Case, st.integers(0, 2**32), st.integers(1, 8), st.sampled_from([1, 3]), st.sampled_from(KINDS)))
def test_the_kernel_is_never_above_its_twin(case):
    """Where the reference implementation is slow, too: it never finds a lower point."""
    outcome, unit = case.solve(), case.unit
    Q = (case.hessian + np.diag(case.ridge)) * np.outer(unit, unit)
    z = reference.quadratic(Q, case.gradient * unit, case.x / unit, lambda v: case.project(v, unit)[0], steps=300)
    spent = float((np.abs(z) + np.abs(case.x / unit)) @ np.abs(case.gradient * unit))
    assert case.model(outcome.x) <= case.model(z * unit) + 1e-10 * spent + 1e-30


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_kernel_agrees_with_an_independent_solver(seed, n_outputs, cp):
    case = Case(seed, 6, n_outputs, "regular", plain=True)
    case.gradient *= 10 / np.max(np.abs(case.gradient))  # its tolerances are absolute
    case.tau = 0.4 * case.spent(np.linalg.solve(case.hessian, -case.gradient))
    case.x, _ = case.project(case.x)
    x = cp.Variable((6, n_outputs))
    flat = cp.reshape(x, (6 * n_outputs,), order="C")
    weights = np.ones(6) if case.weights is None else case.weights
    bend = cp.quad_form(flat - case.x, cp.psd_wrap(case.hessian + np.diag(case.ridge))) / 2
    within = [weights @ cp.norm(x, 2, axis=1) <= case.tau]
    cp.Problem(cp.Minimize(case.gradient @ (flat - case.x) + bend), within).solve(solver="CLARABEL")
    found = case.solve().x
    assert case.is_inside(found)
    assert np.allclose(found, x.value.ravel(), atol=1e-4 * np.max(np.abs(found)))
    assert case.model(found) <= case.model(x.value.ravel()) + 1e-6 * abs(case.model(found))


@settings(max_examples=EXAMPLES // 5)
@given(any_case, st.integers(-40, 40))
def test_units_of_the_columns_do_not_matter(case, k):
    """Bit for bit for powers of two: H, gradient, prices and x in other units are the same model."""
    factor = 2.0**k
    other = Case.__new__(Case)
    other.__dict__.update(case.__dict__)
    other.hessian, other.gradient = case.hessian * factor**2, case.gradient * factor
    other.diagonal, other.ridge = case.diagonal * factor**2, case.ridge * factor**2
    other.x, other.tau = case.x / factor, case.tau / factor
    assert np.array_equal(other.solve(relative=1e-6).x * factor, case.solve(relative=1e-6).x)


# Of seed 6 the method finds a fifth of the decrease.
FOUND_SHORT = pytest.param(6, marks=pytest.mark.xfail(reason="the step ends short where five columns hardly bend"))


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5, FOUND_SHORT, 7, 8, 9])
def test_a_coordinate_that_hardly_bends_does_not_hold_up_the_others(seed, cp):
    """Its own unit is 1e13 times too long for the level: all of the level at once, at its price."""
    rng = np.random.default_rng(seed)
    d = 60
    A = rng.standard_normal((80, d)) * np.where(np.arange(d) < 5, 1e-13, 1.0)
    hessian, diagonal = A.T @ A, np.sum(A * A, axis=0)
    gradient, weights = rng.standard_normal(d), rng.uniform(0.1, 1, d)
    ball = _kernels.Set(d, weights, None, None, False, 3.0, width=1)
    outcome = _kernels.quadratic(hessian, ball, np.zeros(d), gradient, diagonal, 1e-12 * diagonal, 0.0, 1e-2, 5000)
    x = cp.Variable(d)
    model = gradient @ x + cp.sum_squares(A[:, 5:] @ x[5:]) / 2
    best = cp.Problem(cp.Minimize(model), [weights @ cp.abs(x) <= 3.0]).solve(solver="CLARABEL")
    found = gradient @ outcome.x + np.sum((A @ outcome.x) ** 2) / 2
    assert found <= 0.9 * best < 0
    assert outcome.decrease == pytest.approx(-found, rel=1e-3)


def test_a_matrix_and_its_products_give_the_same():
    for seed in range(20):
        case = Case(seed, 9, 1 + 2 * (seed % 2), "regular")
        both = [case.solve(product=product).x for product in (False, True)]
        assert np.allclose(*both, rtol=0, atol=1e-9 * np.max(np.abs(both[0]), initial=1e-300))


def test_planted_faults_are_caught():
    """The checks of this file notice a wrong slope, a level missed by rounding and a solution that is merely near."""
    case = Case(3, 8, 1, "regular", plain=True)
    case.tau = 0.4 * case.spent(np.linalg.solve(case.hessian, -case.gradient))
    case.x, _ = case.project(case.x)
    x, first = case.solve().x, case.residual(case.x)
    assert case.is_inside(x) and case.residual(x) <= 1e-6 * first
    assert not case.is_inside(x * (1 + 32 * EPS))
    assert case.residual(x * (1 - 1e-4)) > 1e-6 * first
    assert case.residual(case.solve(gradient=case.gradient * np.linspace(1, 1.01, x.size)).x) > 1e-6 * first


def test_kernels_refuse_what_does_not_fit():
    case = Case(0, 4, 1, "regular")
    with pytest.raises(ValueError, match="dimension"):
        case.solve(x=np.zeros(3))
    case.hessian = np.eye(3)
    with pytest.raises(ValueError, match="dimension of x"):
        case.solve()
    case.hessian = "no matrix"
    with pytest.raises((RuntimeError, TypeError)):
        case.solve()


def test_an_exception_of_a_product_is_raised():
    case = Case(0, 4, 1, "regular")

    def fails(v):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _kernels.quadratic(fails, case.set, case.x, case.gradient, case.diagonal, case.ridge, 0.0, 1e-9, 100)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_parabola_is_the_model_and_restricts_to_it(n_outputs):
    case = Case(5, 6, n_outputs, "regular", plain=True)
    q = Quadratic(case.x, 2.5, case.gradient, case.hessian, n_outputs)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(case.x.size)
    value, gradient = q.value_and_gradient(x)
    move = x - case.x
    assert value == pytest.approx(2.5 + case.gradient @ move + move @ case.hessian @ move / 2, rel=1e-12)
    assert np.allclose(gradient, case.gradient + case.hessian @ move)
    assert np.allclose(q.hessian_product_of(x, True)(move), q.hessian_of(x, True) @ move)
    W = np.array([1, 4])
    places = (W[:, None] * n_outputs + np.arange(n_outputs)).ravel()
    wide = np.zeros_like(x)
    wide[places] = x[places]
    small = q.restrict(W)
    assert small.value_and_gradient(x[places])[0] == pytest.approx(q.value_and_gradient(wide)[0], rel=1e-12)
    assert np.allclose(small.value_and_gradient(x[places])[1], q.value_and_gradient(wide)[1][places])
    assert np.array_equal(small.hessian_diagonal_of(x, True), np.diagonal(case.hessian)[places])
