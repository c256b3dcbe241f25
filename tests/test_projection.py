"""The projection of Theorem "prox oracle": exact, against twins, rivals and planted faults.

The names I1-I18 are the invariants: feasibility (I1), KKT (I2), idempotence (I3), fixed points (I4),
nonexpansiveness (I5), the variational inequality (I6), scaling (I7), signs (I8), permutations (I9),
monotonicity (I10), shrinkage (I11), repair (I12), free coordinates (I13), any u (I14), empty sets
(I15), extremes (I16), an independent solver (I17) and agreement of all variants (I18).
"""

from __future__ import annotations

import os
from fractions import Fraction

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import levelprox
from levelprox import _kernels, project
from levelprox.errors import InfeasibleError, InvalidInputError
from tests import reference

EPS = np.finfo(float).eps
LONG = bool(os.environ.get("LEVELPROX_LONG_TESTS"))
EXAMPLES = 2000 if LONG else 150


class Case:
    """One random projection: everything from a seed, so that hypothesis can shrink to a small one."""

    def __init__(self, seed, d, general=False, dtype=np.float64):
        rng = np.random.default_rng(seed)
        self.rng = rng
        self.v = rng.standard_normal(d) * 10.0 ** rng.uniform(-6, 6)
        if rng.random() < 0.3:
            self.v *= 10.0 ** rng.uniform(-6, 6, d)
        self.v[rng.random(d) < 0.1] = 0
        self.u = rng.uniform(-1, 1, d)
        if rng.random() < 0.5:  # saturated coordinates, on their own side and on the other
            self.u = np.where(rng.random(d) < 0.3, rng.choice([-1.0, 1.0], d), self.u)
        if general:
            self.u *= 10.0 ** rng.uniform(-1, 1.5)
        self.weights = np.ones(d)
        if rng.random() < 0.5:
            self.weights = np.where(rng.random(d) < 0.1, 0.0, 10.0 ** rng.uniform(-2, 2, d))
        self.nonnegative = rng.random(d) < (0.0 if rng.random() < 0.5 else 0.5)
        self.v, self.u, self.weights = (a.astype(dtype) for a in (self.v, self.u, self.weights))
        self.tau = float(np.sum(self.weights * np.abs(self.v))) * 10.0 ** rng.uniform(-9, 0.5)
        if rng.random() < 0.1:
            self.tau = 0.0
        if general and np.any((np.abs(self.u) > 1) & (self.weights > 0) & ~self.nonnegative) and rng.random() < 0.3:
            self.tau = -self.tau

    def project(self, **changes):
        arguments = {"weights": self.weights, "nonnegative": self.nonnegative} | changes
        return project(
            arguments.pop("v", self.v),
            arguments.pop("u", self.u),
            arguments.pop("tau", self.tau),
            **arguments,
        )

    @property
    def scale(self):
        return float(np.max(np.abs(self.v), initial=0.0)) or 1.0

    def feasible_points(self, x, count=5):
        """Points of the set: 0 and shrunk versions of random ones (|u| <= 1 only)."""
        for _ in range(count):
            z = self.rng.standard_normal(x.size) * self.scale
            z = np.where(self.nonnegative, np.abs(z), z)
            level = float(np.sum(self.weights * (np.abs(z) + self.u * z)))
            yield z * min(1.0, self.tau / level) * (1 - 1e-12) if level > 0 else z


cases = st.builds(Case, st.integers(0, 2**32), st.integers(1, 40))
general_cases = st.builds(Case, st.integers(0, 2**32), st.integers(1, 40), general=st.just(True))
any_case = st.one_of(
    cases,
    general_cases,
    st.builds(Case, st.integers(0, 2**32), st.integers(1, 40), dtype=st.just(np.float32)),
)


def check_feasible(case, x):
    """I1: the constraint holds in rational arithmetic."""
    level = reference.exact_level(x, case.u, case.weights)
    assert level <= Fraction(case.tau), f"level - tau = {float(level - Fraction(case.tau)):.3g}, tau = {case.tau:.17g}"
    assert not np.any(x[case.nonnegative] < 0)


def check_kkt(case, x, y):
    """I2: v - x is y times a subgradient, and y (level - tau) = 0, up to rounding."""
    eps = np.finfo(x.dtype).eps
    x, v, u, w = (np.asarray(a, float) for a in (x, case.v, case.u, case.weights))
    assert y >= 0
    rest = v - x - y * w * u
    at_zero = np.where(case.nonnegative, np.maximum(rest - y * w, 0), np.maximum(np.abs(rest) - y * w, 0))
    error = np.where(x != 0, np.abs(rest - y * w * np.sign(x)), at_zero)
    allowed = 8 * eps * max(np.max(np.abs(v)), y * np.max(w * (1 + np.abs(u))))
    assert np.max(error) <= allowed, f"stationarity {np.max(error):.3g} > {allowed:.3g}"
    spent = float(np.sum(w * (1 + np.abs(u)) * (np.abs(v) + np.abs(x))))
    slack = float(Fraction(case.tau) - reference.exact_level(x, u, w))
    assert y == 0 or slack <= 8 * eps * (abs(case.tau) + spent), f"slack {slack:.3g} with y = {y:.3g}"


def check_idempotent(case, x):
    """I3 and I4: a feasible point comes back bit for bit, with multiplier 0."""
    again, y = case.project(v=x)
    np.testing.assert_array_equal(again.view(np.uint8), x.view(np.uint8))
    assert y == 0


def check_shrinks(case, x):
    """I11: |u| <= 1 never flips a sign nor grows a coordinate."""
    assert np.all((np.sign(x) == 0) | (np.sign(x) == np.sign(case.v)))
    assert np.all(np.abs(x) <= np.abs(case.v))


@settings(max_examples=EXAMPLES, deadline=None)
@given(any_case)
def test_i1_i2_i3_i4_feasible_stationary_and_idempotent(case):
    x, y = case.project()
    check_feasible(case, x)
    check_kkt(case, x, y)
    check_idempotent(case, x)


@settings(max_examples=EXAMPLES, deadline=None)
@given(cases)
def test_i5_i6_i11_nonexpansive_variational_and_shrinking(case):
    x, _ = case.project()
    check_shrinks(case, x)
    other = case.v + case.rng.standard_normal(case.v.size) * case.scale * 10.0 ** case.rng.uniform(-8, 0)
    moved, _ = case.project(v=other)
    lengths = np.linalg.norm(case.v) + np.linalg.norm(other)
    assert np.linalg.norm(x - moved) <= np.linalg.norm(case.v - other) * (1 + 4 * EPS) + 8 * EPS * lengths
    for z in case.feasible_points(x):
        product = float((case.v - x) @ (z - x))
        assert product <= 1e-11 * np.linalg.norm(case.v - x) * np.linalg.norm(z - x) + 64 * EPS * case.scale**2 * x.size


@settings(max_examples=EXAMPLES, deadline=None)
@given(cases, st.integers(-60, 60))
def test_i7_scaling_by_a_power_of_two_is_exact(case, k):
    factor = 2.0**k
    x, y = case.project()
    scaled, y_scaled = case.project(v=case.v * factor, tau=case.tau * factor)
    np.testing.assert_array_equal(scaled, x * factor)
    assert y_scaled == y * factor


@settings(max_examples=EXAMPLES, deadline=None)
@given(cases)
def test_i8_i9_signs_and_permutations(case):
    free = np.zeros_like(case.nonnegative)
    x, y = case.project(nonnegative=free)
    flip = case.rng.choice([-1.0, 1.0], x.size)
    flipped, y_flipped = case.project(v=flip * case.v, u=flip * case.u, nonnegative=free)
    np.testing.assert_array_equal(flipped, flip * x)
    assert y_flipped == y
    order = case.rng.permutation(x.size)
    shuffled, _ = case.project(v=case.v[order], u=case.u[order], weights=case.weights[order], nonnegative=free)
    np.testing.assert_allclose(shuffled, x[order], rtol=0, atol=16 * EPS * case.scale)


@settings(max_examples=EXAMPLES, deadline=None)
@given(cases)
def test_i10_larger_levels_have_smaller_multipliers(case):
    x, y = case.project()
    larger, y_larger = case.project(tau=case.tau * 1.5)
    assert y_larger <= y * (1 + 8 * EPS)
    assert np.linalg.norm(larger - case.v) <= np.linalg.norm(x - case.v) + 8 * EPS * np.linalg.norm(case.v)


def test_i10_continuous_where_v_reaches_the_level():
    v, u = np.array([1.0, -2.0, 0.5]), np.array([0.5, 0.25, -1.0])
    level = reference.exact_level(v, u, np.ones(3))
    tau = float(level)
    assert Fraction(tau) == level
    for nudged in (np.nextafter(tau, 0), tau, np.nextafter(tau, 10)):
        x, y = project(v, u, nudged)
        np.testing.assert_allclose(x, v, rtol=0, atol=8 * EPS * 2)
        assert (y == 0) == (nudged >= tau)
        assert reference.exact_level(x, u, np.ones(3)) <= Fraction(nudged)


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(
    st.one_of(
        st.builds(Case, st.integers(0, 2**32), st.integers(1, 12)),
        st.builds(Case, st.integers(0, 2**32), st.integers(1, 12), general=st.just(True)),
    )
)
def test_i18_agrees_with_the_rational_twin(case):
    x, y = case.project()
    slow_x, slow_y = reference.project(case.v, case.u, case.tau, case.weights, case.nonnegative)
    spread = max(case.scale, slow_y * float(np.max(case.weights * (1 + np.abs(case.u)))))
    np.testing.assert_allclose(x, slow_x, rtol=0, atol=64 * EPS * spread * max(1, len(x)))
    if case.tau != 0:
        slack = 64 * EPS * float(np.sum(case.weights * (1 + np.abs(case.u)) * (np.abs(case.v) + np.abs(x))))
        price = case.weights * (1 + np.abs(case.u))
        active = price[np.asarray(slow_x) != 0]
        if active.size and np.min(active) > 1e-3 * np.max(price):
            assert y == pytest.approx(slow_y, rel=1e-9, abs=slack / np.min(active) ** 2)


@pytest.mark.parametrize("seed", range(20))
def test_i18_every_instruction_set_gives_the_same_bits(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 200_000))
    v, u = rng.standard_normal(d), rng.uniform(-1, 1, d)
    answers = []
    for name in ("baseline", "avx2", "avx512"):
        try:
            _kernels.use_simd(name)
        except ValueError:
            continue
        x, y = project(v, u, 0.05 * d)
        answers.append((x.tobytes(), y))
    _kernels.use_simd("auto")
    assert len(set(answers)) == 1


@pytest.mark.parametrize("seed", range(10))
def test_i18_a_start_saves_passes_and_changes_nothing_else(seed):
    case = Case(seed, 5000)
    case.tau = 0.1 * float(np.sum(case.weights * np.abs(case.v)))
    x, y = case.project()
    for guess in (y, y * 0.9, y * 1.1, y * 1e-6, y * 1e6):
        warm, y_warm = case.project(start=guess)
        np.testing.assert_allclose(warm, x, rtol=0, atol=16 * EPS * case.scale)
        check_feasible(case, warm)
        assert y_warm == pytest.approx(y, rel=1e-12)


def clarabel_projection(v, u, tau, weights, nonnegative):
    """Min 1/2|x - v|² s.t. Σ ω(s + u x) <= tau, -s <= x <= s, x >= 0 where asked; variables (x, s)."""
    d = len(v)
    eye, zero = sparse.identity(d, format="csc"), sparse.csc_matrix((d, d))
    quadratic = sparse.block_diag([eye, zero], format="csc")
    rows = [
        sparse.hstack([sparse.csc_matrix((weights * u)[None]), sparse.csc_matrix(weights[None])]),
        sparse.hstack([eye, -eye]),
        sparse.hstack([-eye, -eye]),
        sparse.hstack([-eye[np.flatnonzero(nonnegative)], sparse.csc_matrix((int(nonnegative.sum()), d))]),
    ]
    matrix = sparse.vstack(rows, format="csc")
    right = np.concatenate([[tau], np.zeros(matrix.shape[0] - 1)])
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-13
    solver = clarabel.DefaultSolver(
        quadratic,
        np.concatenate([-v, np.zeros(d)]),
        matrix,
        right,
        [clarabel.NonnegativeConeT(len(right))],
        options,
    )
    return np.array(solver.solve().x[:d])


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_i17_agrees_with_an_independent_solver(seed, general):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 120))
    v, u = rng.standard_normal(d), rng.uniform(-1, 1, d) * (3 if general else 1)
    weights = np.where(rng.random(d) < 0.1, 0, rng.uniform(0.2, 3, d)) if seed % 2 else np.ones(d)
    nonnegative = rng.random(d) < (0.3 if seed % 3 == 0 else 0)
    tau = rng.uniform(0.02, 0.6) * float(np.sum(weights * np.abs(v)))
    x, _ = project(v, u, tau, weights=weights, nonnegative=nonnegative)
    rival = clarabel_projection(v, u, tau, weights, nonnegative)
    # An interior-point answer is good to the root of its tolerance where the level binds weakly.
    assert np.linalg.norm(x - v) <= np.linalg.norm(rival - v) + 1e-9 * np.linalg.norm(v)
    assert np.linalg.norm(x - rival) <= 1e-9 * np.linalg.norm(v)


def test_f2_no_violation_in_many_random_projections():
    violations = 0
    for seed in range(100_000 if LONG else 10_000):
        case = Case(seed, 1 + seed % 12, general=seed % 5 == 0, dtype=np.float32 if seed % 7 == 0 else np.float64)
        x, _ = case.project()
        violations += reference.exact_level(x, case.u, case.weights) > Fraction(case.tau)
    assert violations == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_i1_i16_exact_at_a_million_coordinates(dtype):
    rng = np.random.default_rng(0)
    v, u = rng.standard_normal(10**6).astype(dtype), rng.uniform(-1, 1, 10**6).astype(dtype)
    x, y = project(v, u, 1234.5)
    wide_x, wide_u = x.astype(np.longdouble), u.astype(np.longdouble)
    assert np.sum(np.abs(wide_x) + wide_u * wide_x) <= 1234.5
    if dtype == np.float64:
        assert np.sum(np.abs(wide_x) + wide_u * wide_x) >= 1234.5 * (1 - 1e-12)
    assert y > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_i13_saturated_coordinates_are_left_alone(dtype):
    v = np.array([5.0, -5.0, 3.0, -3.0], dtype)
    u = np.array([-1.0, 1.0, -1.0, 0.0], dtype)
    x, y = project(v, u, 1.0)
    np.testing.assert_array_equal(x[:3], v[:3])
    assert abs(x[3]) <= 1
    assert x[3] == pytest.approx(-1, rel=1e-6)
    assert y == pytest.approx(2, rel=1e-6)


def test_i15_tau_zero_gives_the_smallest_multiplier():
    v, u = np.array([4.0, -1.0, 7.0]), np.array([0.0, 0.5, -1.0])
    x, y = project(v, u, 0.0)
    np.testing.assert_array_equal(x, [0, 0, 7])
    assert y == pytest.approx(4.0, rel=1e-15)


def test_i15_empty_sets_are_refused_and_any_level_is_reached_when_u_is_large():
    with pytest.raises(InfeasibleError, match="no feasible point"):
        project([1.0, 2.0], [0.5, -1.0], -1e-300)
    with pytest.raises(InfeasibleError):
        project([1.0, 2.0], [0.5, -3.0], -1.0, weights=[1.0, 0.0])
    with pytest.raises(InfeasibleError):
        project([1.0, 2.0], [0.5, 3.0], -1.0, nonnegative=True)
    for tau in (-1.0, -1e6, 0.0, 3.0):
        x, y = project([1.0, 2.0], [0.5, -3.0], tau)
        assert reference.exact_level(x, [0.5, -3.0], [1, 1]) <= Fraction(tau)
        assert y >= 0


EXTREMES = [0.0, 5e-324, 1e-310, 1e-300, 1e-160, 1e-8, 1.0, 1e16, 1e160, 1e300, 1.7e308]


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(EXTREMES), st.booleans(), st.floats(-1, 1)), min_size=1, max_size=6),
    st.sampled_from(EXTREMES),
)
def test_i16_extreme_magnitudes_stay_finite_and_feasible(entries, tau):
    v = np.array([-size if negative else size for size, negative, _ in entries])
    u = np.array([slope for *_, slope in entries])
    x, y = project(v, u, tau)
    assert np.all(np.isfinite(x))
    assert np.isfinite(y)
    assert reference.exact_level(x, u, np.ones(len(v))) <= Fraction(tau)
    assert np.all(np.abs(x) <= np.abs(v))


def test_i16_ties_zeros_and_one_coordinate():
    x, y = project(np.full(7, 2.0), np.zeros(7), 7.0)
    np.testing.assert_allclose(x, 1.0, rtol=8 * EPS)
    assert y == pytest.approx(1.0)
    x, y = project(np.zeros(5), np.ones(5), 0.0)
    np.testing.assert_array_equal(x, 0)
    assert y == 0
    x, y = project([-3.0], [0.5], 1.0)
    assert (x[0], y) == (pytest.approx(-2.0), pytest.approx(2.0))


def test_i16_newton_is_not_led_astray_by_geometric_breakpoints():
    d = 300
    v, u = 2.0 ** -np.arange(d), np.zeros(d)
    weights = np.full(d, 1.0)
    for tau in (2.0**-40, 2.0**-150, 2.0**-250, 1e-300):
        x, _ = project(v, u, tau, weights=weights)
        assert reference.exact_level(x, u, weights) <= Fraction(tau)


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


# --- planted faults: each check above fails on a projection that is wrong in one place ---------------


def faulty(case, fault):
    x, y = case.project()
    if fault == "sign of u flipped":
        return case.project(u=-case.u)
    if fault == "level missed by 1e-12":
        return case.project(tau=case.tau * (1 + 1e-12))
    if fault == "multiplier dropped":
        return x, 0.0
    if fault == "not shrunk enough":
        return x * (1 - 1e-9), y
    assert fault == "sign flipped"
    return -x, y


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("sign of u flipped", lambda case, x, y: (check_feasible(case, x), check_kkt(case, x, y))),
        ("level missed by 1e-12", lambda case, x, y: check_feasible(case, x)),
        ("multiplier dropped", lambda case, x, y: check_kkt(case, x, y)),
        ("not shrunk enough", lambda case, x, y: check_kkt(case, x, y)),
        ("sign of u flipped", lambda case, x, y: check_idempotent(case, x)),
        ("sign flipped", lambda case, x, y: check_shrinks(case, x)),
    ],
)
def test_the_checks_catch_planted_faults(fault, check):
    case = Case(3, 20)
    case.u = np.random.default_rng(3).uniform(0.2, 0.9, 20) * np.sign(case.v)
    case.nonnegative[:] = False
    case.weights[:] = 1
    case.tau = 0.3 * float(np.sum(np.abs(case.v)))
    check(case, *case.project())
    with pytest.raises(AssertionError):
        check(case, *faulty(case, fault))
