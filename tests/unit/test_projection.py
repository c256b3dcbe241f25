"""The projection of Theorem "prox oracle": exact, against reference implementations, rivals and planted faults.

The invariants: exact feasibility, the KKT conditions, idempotence, fixed points, nonexpansiveness, the variational
inequality, scaling, signs, permutations, monotonicity in the level, shrinkage, free coordinates, any u, empty sets,
extreme magnitudes, an independent solver, and agreement of all variants.
"""

from __future__ import annotations

from fractions import Fraction

import clarabel
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

import levelprox
from levelprox import _kernels, project
from levelprox.exceptions import InfeasibleError, InvalidInputError
from tests.support import projection_cases as invariants
from tests.support import reference
from tests.support.long_runs import LONG
from tests.support.projection_cases import EPS, EXAMPLES, Case, any_case, cases

EXTREMES = [0.0, 5e-324, 1e-310, 1e-300, 1e-160, 1e-8, 1.0, 1e16, 1e160, 1e300, 1.7e308]


@settings(max_examples=EXAMPLES, deadline=None)
@given(any_case)
def test_the_projection_is_feasible_stationary_and_idempotent(case):
    invariants.check_feasible(case, case.project)
    invariants.check_kkt(case, case.project)
    invariants.check_idempotent(case, case.project)


@settings(max_examples=EXAMPLES, deadline=None)
@given(cases)
def test_the_projection_is_nonexpansive_variational_and_shrinking(case):
    invariants.check_nonexpansive(case, case.project)
    invariants.check_variational(case, case.project)
    invariants.check_shrinks(case, case.project)


@settings(max_examples=EXAMPLES, deadline=None)
@given(cases, st.integers(-60, 60))
def test_scaling_by_a_power_of_two_is_exact(case, k):
    invariants.check_scaling(case, case.project, k)


@settings(max_examples=EXAMPLES, deadline=None)
@given(cases)
def test_signs_permutations_and_levels_of_the_projection(case):
    invariants.check_signs(case, case.project)
    invariants.check_permutations(case, case.project)
    invariants.check_monotone(case, case.project)


FAULTS = {
    # name: (what a faulty projection returns, the checks that must notice)
    "sign of u flipped": (
        lambda case, **changes: case.project(**{**changes, "u": -changes.get("u", case.u)}),
        ["feasible", "kkt"],
    ),
    "level missed by 1e-12": (
        lambda case, **changes: case.project(**{**changes, "tau": changes.get("tau", case.tau) * (1 + 1e-12)}),
        ["feasible"],
    ),
    "multiplier dropped": (lambda case, **changes: (case.project(**changes)[0], 0.0), ["kkt"]),
    "shrunk too far": (lambda case, **changes: (case.project(**changes)[0] * (1 - 1e-9), 1.0), ["kkt", "idempotent"]),
    "stretched": (lambda case, **changes: (3 * case.project(**changes)[0], 1.0), ["nonexpansive"]),
    "feasible but not nearest": (lambda case, **changes: (0.5 * case.project(**changes)[0], 1.0), ["variational"]),
    "an absolute tolerance": (
        lambda case, **changes: case.project(**{**changes, "tau": changes.get("tau", case.tau) + 1e-9}),
        ["scaling"],
    ),
    "signs lost": (lambda case, **changes: (np.abs(case.project(**changes)[0]), 1.0), ["signs", "shrinks"]),
    "the first coordinate forgotten": (
        lambda case, **changes: (np.append(0.0, case.project(**changes)[0][1:]), 1.0),
        ["permutations"],
    ),
    "the multiplier of the level": (
        lambda case, **changes: (case.project(**changes)[0], changes.get("tau", case.tau)),
        ["monotone"],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_invariants_catch_planted_faults(fault):
    case = Case(3, 20)
    case.v = np.random.default_rng(3).standard_normal(20)
    case.u = np.random.default_rng(4).uniform(0.2, 0.9, 20) * np.sign(case.v)
    case.nonnegative[:] = False
    case.weights = np.ones(20)
    case.tau = 0.3 * float(np.sum(np.abs(case.v)))
    faulty, noticed_by = FAULTS[fault]
    for name in noticed_by:
        check = getattr(invariants, f"check_{name}")
        check(case, case.project)
        with pytest.raises(AssertionError):
            check(case, lambda **changes: faulty(case, **changes))


def test_the_projection_is_continuous_where_v_reaches_the_level():
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
def test_the_projection_agrees_with_rational_arithmetic(case):
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
def test_every_instruction_set_gives_the_same_bits(seed, instruction_sets):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 200_000))
    v, u = rng.standard_normal(d), rng.uniform(-1, 1, d)
    answers = []
    for name in instruction_sets:
        _kernels.use_simd(name)
        x, y = project(v, u, 0.05 * d)
        answers.append((x.tobytes(), y))
    assert len(set(answers)) == 1


@pytest.mark.parametrize("seed", range(10))
def test_a_start_saves_passes_and_changes_nothing_else(seed):
    case = Case(seed, 5000)
    case.tau = 0.1 * float(np.sum(case.weights * np.abs(case.v)))
    x, y = case.project()
    for guess in (y, y * 0.9, y * 1.1, y * 1e-6, y * 1e6):
        warm, y_warm = case.project(start=guess)
        np.testing.assert_allclose(warm, x, rtol=0, atol=16 * EPS * case.scale)
        assert reference.exact_level(warm, case.u, case.weights) <= Fraction(case.tau)
        assert y_warm == pytest.approx(y, rel=1e-12)


def clarabel_projection(v, u, tau, weights, nonnegative):
    """Min 1/2|x - v|² s.t. Σ ω(s + u x) <= tau, -s <= x <= s, x >= 0 where required; variables (x, s)."""
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
def test_the_projection_agrees_with_an_independent_solver(seed, general):
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


def test_no_violation_in_many_random_projections():
    violations = 0
    for seed in range(100_000 if LONG else 1_200):
        case = Case(seed, 1 + seed % 12, general=seed % 5 == 0, dtype=np.float32 if seed % 7 == 0 else np.float64)
        if seed % 3 == 0:  # ties: sums that meet the level exactly, or miss it by next to nothing
            case.v = case.rng.choice([1e-30, -1e-18, 0.25, -0.5, 0.75, 1.0], case.v.size).astype(case.v.dtype)
            case.u = case.rng.choice([0.0, 0.5, -1.0], case.v.size).astype(case.v.dtype)
            case.tau = float(case.rng.choice([0.25, 1.0, 1.5, 2.0]))
        x, _ = case.project()
        violations += reference.exact_level(x, case.u, case.weights) > Fraction(case.tau)
    assert violations == 0


@pytest.mark.parametrize(
    ("v", "u", "tau"),
    [
        ([1e-30, 1.0], [0.0, 0.0], 1.0),
        ([1e-18, 0.25, 0.75], [0.0, 0.0, 0.0], 1.0),
        ([1.0, -5e-324], [0.0, 0.7], 1.0),
        ([5e-324, 1e-300], [0.0, 0.0], 1e-300),
        ([5e-324, 1e-8], [0.0, -1.0], 0.0),
        ([1e308, 1e-200], [-1.0, 0.0], 1e-201),
        ([1.7e308], [0.296875], 1e-8),
    ],
)
def test_sums_that_miss_the_level_by_next_to_nothing(v, u, tau):
    x, _ = project(v, u, tau)
    assert reference.exact_level(x, u, np.ones(len(v))) <= Fraction(tau)


def test_a_guess_that_stops_newton_too_soon_is_found_out():
    """Two coordinates with enormous prices, then two that decide: the steps fall as if converging."""
    weights = np.array([1e5, 2200**0.5, 1.0, 1.0])
    v = np.array([1e5, 2200**0.5 / 2, 3000.0, 1500.0])
    x, y = project(v, 0.0, 3498.0, weights=weights)
    np.testing.assert_allclose(x, [0, 0, 2499, 999], rtol=1e-12, atol=1e-9)
    assert y == pytest.approx(501, rel=1e-12)


@pytest.mark.parametrize(
    ("v", "u", "tau"),
    [
        ([0.0], [-1.0000000000000002], -1e308),
        ([0.0, 0.0], [1.5, 0.0], -1.7e308),
        ([-1e308, 1.0], [5.0, 0.0], -1e308),
    ],
)
def test_numbers_beyond_the_largest_are_refused_not_searched_for(v, u, tau):
    if reference.exact_level(v, u, np.ones(len(v))) <= Fraction(tau):
        np.testing.assert_array_equal(project(v, u, tau)[0], v)
    else:
        with pytest.raises(InfeasibleError, match="floating-point range"):
            project(v, u, tau)


@pytest.mark.parametrize(
    ("v", "tau", "expected"),
    [
        ([-3.46906186e282, 7.91362384e-161], 0.0, [0.0, 0.0]),
        ([-1e300, 1e-25, 2e-25], 1e-25, [0.0, 0.0, 1e-25]),
        ([-1e300, 1e-30, 1e-25], 1.0, [0.0, 1e-30, 1e-25]),
    ],
)
def test_coordinates_that_signs_hold_at_zero_do_not_set_the_scale(v, tau, expected):
    x, _ = project(v, np.zeros(len(v)), tau, nonnegative=True)
    np.testing.assert_allclose(x, expected, rtol=1e-14, atol=1e-39)
    assert sum(map(Fraction, x.tolist())) <= Fraction(tau)


def test_feasible_points_come_back_bit_for_bit_at_any_magnitude():
    for v, u, tau in (
        ([1.07e-60, 6.1e-171, -1.2e221], [0.0, 0.0, 0.0], 1e222),
        ([1e-200, -3e-310, 5e-324], [0.3, 0.2, 0.1], 1e-199),
        ([1.7e308, 1e-300], [-1.0, 0.5], 1.0),
    ):
        x, y = project(v, u, tau)
        np.testing.assert_array_equal(x, v)
        assert y == 0


@example([(5e-324, True, -2.0)], -1.0)  # a breakpoint whose product underflows
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(EXTREMES[:-1]), st.booleans(), st.floats(-3, 3)),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([-1e160, -1.0, -1e-8, -1e-160, 0.0, 1e-310, 1e-8, 1.0, 1e160]),
)
def test_any_u_at_extreme_magnitudes(entries, tau):
    v = np.array([-size if negative else size for size, negative, _ in entries])
    u = np.array([slope for *_, slope in entries])
    if tau < 0 and np.all(np.abs(u) <= 1 + 1e-9):
        return
    x, y = project(v, u, tau)
    assert np.all(np.isfinite(x))
    assert np.isfinite(y)
    assert reference.exact_level(x, u, np.ones(len(v))) <= Fraction(tau)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_at_a_million_coordinates(dtype):
    rng = np.random.default_rng(0)
    v, u = rng.standard_normal(10**6).astype(dtype), rng.uniform(-1, 1, 10**6).astype(dtype)
    x, y = project(v, u, 1234.5)
    wide_x, wide_u = x.astype(np.longdouble), u.astype(np.longdouble)
    assert np.sum(np.abs(wide_x) + wide_u * wide_x) <= 1234.5
    if dtype == np.float64:
        assert np.sum(np.abs(wide_x) + wide_u * wide_x) >= 1234.5 * (1 - 1e-12)
    assert y > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_saturated_coordinates_are_left_alone(dtype):
    v = np.array([5.0, -5.0, 3.0, -3.0], dtype)
    u = np.array([-1.0, 1.0, -1.0, 0.0], dtype)
    x, y = project(v, u, 1.0)
    np.testing.assert_array_equal(x[:3], v[:3])
    assert abs(x[3]) <= 1
    assert x[3] == pytest.approx(-1, rel=1e-6)
    assert y == pytest.approx(2, rel=1e-6)


def test_tau_zero_gives_the_smallest_multiplier():
    v, u = np.array([4.0, -1.0, 7.0]), np.array([0.0, 0.5, -1.0])
    x, y = project(v, u, 0.0)
    np.testing.assert_array_equal(x, [0, 0, 7])
    assert y == pytest.approx(4.0, rel=1e-15)


def test_empty_sets_are_refused_and_any_level_is_reached_when_u_is_large():
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


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(EXTREMES), st.booleans(), st.floats(-1, 1)), min_size=1, max_size=6),
    st.sampled_from(EXTREMES),
)
def test_extreme_magnitudes_stay_finite_and_feasible(entries, tau):
    v = np.array([-size if negative else size for size, negative, _ in entries])
    u = np.array([slope for *_, slope in entries])
    x, y = project(v, u, tau)
    assert np.all(np.isfinite(x))
    assert np.isfinite(y)
    assert reference.exact_level(x, u, np.ones(len(v))) <= Fraction(tau)
    assert np.all(np.abs(x) <= np.abs(v))


def test_projections_with_ties_zeros_and_one_coordinate():
    x, y = project(np.full(7, 2.0), np.zeros(7), 7.0)
    np.testing.assert_allclose(x, 1.0, rtol=8 * EPS)
    assert y == pytest.approx(1.0)
    x, y = project(np.zeros(5), np.ones(5), 0.0)
    np.testing.assert_array_equal(x, 0)
    assert y == 0
    x, y = project([-3.0], [0.5], 1.0)
    assert (x[0], y) == (pytest.approx(-2.0), pytest.approx(2.0))


def test_newton_is_not_led_astray_by_geometric_breakpoints():
    d = 300
    v, u = 2.0 ** -np.arange(d), np.zeros(d)
    weights = np.full(d, 1.0)
    for tau in (2.0**-40, 2.0**-150, 2.0**-250, 1e-300):
        x, _ = project(v, u, tau, weights=weights)
        assert reference.exact_level(x, u, weights) <= Fraction(tau)


# --- project() as a function: rows, outputs, memory layouts, and errors


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
