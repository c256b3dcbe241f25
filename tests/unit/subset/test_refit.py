"""Fits over a few columns: compiled and NumPy agree, and early stops lose nothing."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from levelprox import LinearModel, MultinomialModel, Problem, _kernels, best_subset
from levelprox._kernels import FitEnd
from levelprox.certificate.null_model import null_fit
from levelprox.constraints import MCP
from levelprox.losses import Gamma, Logistic, Poisson
from levelprox.methods.restricted import SolverOptions
from levelprox.subset import column_cache as columns
from levelprox.subset.fit import Fit, begun_at, gap_bound
from levelprox.subset.refit import ACCURACY, Refits
from tests.support import children
from tests.support.brute_force import objective_of
from tests.support.independent_refits import Oracle
from tests.support.long_runs import LONG
from tests.support.registries import LOSSES, targets_of
from tests.support.subset_cases import table, weighted
from tests.support.subset_problems import case

EXAMPLES = 1000 if LONG else 60
SMOOTH = [loss for loss in LOSSES if loss.smooth]
CONVEX = [loss for loss in SMOOTH if loss.weak_convexity == 0]


class To(Refits):
    """Refits, all to the same tolerance."""

    tolerance = 0.0

    def __call__(self, features, near, below=math.inf):
        return super().__call__(features, near, self.tolerance, below)


def refits_of(objective: LinearModel, tol: float = 1e-9) -> tuple[To, Fit]:
    """Refits, and a fit of nothing to begin at."""
    problem = Problem(objective, MCP.from_threshold(1.0), 1.5)
    null = null_fit(problem)
    how = SolverOptions(null, lambda: math.inf)
    nothing = Fit(np.empty(0, np.intp), np.empty(0), objective.value_of(objective.origin), objective.origin)
    refits = To(problem, how)
    refits.tolerance = tol * null.scale
    return refits, nothing


def linear_model(loss, seed: int = 0, n: int = 90, d: int = 9) -> LinearModel:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n, 1))
    signal = 0.3 * X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n)
    return LinearModel(X, targets_of(loss, signal), loss, rng.integers(0, 3, n), 0.1 * X[:, 0], fit_intercept=True)


@pytest.mark.parametrize("loss", CONVEX, ids=str)
def test_the_compiled_fit_is_that_over_the_data_themselves(loss):
    objective = linear_model(loss)
    refits, nothing = refits_of(objective)
    for features in ([], [3], [0, 4, 9], [1, 2, 5, 6, 8, 9], range(10)):
        chosen = np.array(list(features), np.intp)
        compiled, plain = (
            refits(chosen, nothing),
            refits._over_data(chosen, nothing, refits.tolerance, math.inf, ACCURACY)[1],
        )
        assert compiled.psi == pytest.approx(plain.psi, rel=1e-12, abs=1e-14)
        part = objective.restrict(chosen)
        np.testing.assert_allclose(compiled.margins, part.margins(compiled.x), atol=1e-9)
        assert compiled.psi == pytest.approx(part.value_of(compiled.margins), rel=1e-13)
        largest = np.max(np.abs(part.gradient_of(compiled.margins)), initial=0.0)
        assert largest <= 1.01 * refits.tolerance or compiled.gap <= compiled.resolution
        if compiled.hessian is not None:  # compiled Newton steps do not always settle on losses with bends
            np.testing.assert_allclose(compiled.hessian, part.hessian_of(compiled.margins, True), rtol=1e-9, atol=1e-12)
        assert compiled.hessian is not None or loss.self_concordance == math.inf


@pytest.mark.parametrize("loss", SMOOTH, ids=str)
def test_a_fit_begins_where_another_one_ended(loss):
    refits, nothing = refits_of(linear_model(loss, seed=1))
    before = refits(np.array([0, 2, 4, 9]), nothing)
    after = refits(np.array([0, 3, 4, 9]), before)
    assert after.psi <= nothing.psi
    again = refits(after.features, after)
    assert again.psi <= after.psi * (1 + 1e-15)
    np.testing.assert_allclose(again.x, after.x, atol=1e-5)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from(["squared", "logistic", "poisson", "gamma"]),
    share=st.floats(-0.5, 1.5),
    plain=st.booleans(),
)
def test_a_fit_that_is_not_below_a_value_never_is(seed, loss, share, plain):
    """None is a statement: brute force finds nothing below the value. And what is below is always found."""
    whole = table(seed=seed % 40, loss=loss, intercept=True)
    whole = whole if plain else weighted(whole)
    rng = np.random.default_rng(seed)
    features = np.sort(rng.choice(whole.counted, rng.integers(1, 5), replace=False))
    chosen = np.array(sorted({*features.tolist(), *whole.unpenalized}), np.intp)
    near = whole.fit(rng.choice(whole.counted, 3, replace=False))
    true, start = whole.psi(features), whole.psi([])
    below = true + share * (start - true)
    refits, _ = refits_of(whole.objective)
    fit = refits(chosen, near, below)
    slack = 1e-8 * (abs(start) + abs(true))
    if fit is None:
        assert true >= below - slack
    else:
        assert fit.psi == pytest.approx(true, abs=slack)


@pytest.mark.filterwarnings("ignore:X holds integers beyond")
@pytest.mark.parametrize("kind", ["plain", "far", "twins", "extreme_weights", "powers", "separable"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "gamma", "huber", "squared_hinge"])
def test_lower_bounds_of_fits_to_hard_columns_are_true(loss, kind):
    """No fit ends above the minimum over its features, and none has a lower bound above that."""
    for seed in range(2000, 2000 + EXAMPLES // 10):
        problem = replace(case(seed, loss, kind), nonnegative=None, standardize=None, keep=())
        oracle, objective = Oracle(problem), objective_of(problem)
        refits, nothing = refits_of(objective)
        for features in itertools.permutations(range(min(oracle.d, 4)), 2):
            one, two = (np.unique([*some, *objective.unpenalized]).astype(np.intp) for some in (features[:1], features))
            near, best = refits(one, nothing), oracle.refits([features])[0]
            possible = best.psi + oracle.rounding(best.x)
            for share in 1e-3, 0.3:
                below = possible + share * max(near.psi - possible, 0.0) + oracle.tolerance
                fit = refits(two, near, below)
                assert fit is not None, f"seed {seed}, {features}: not below {below}, but {possible} is possible"
                assert fit.lower_bound <= possible + oracle.tolerance, f"seed {seed}, {features}"


def least_squares_fit(columns, b, below):
    """The end of the compiled fit of the squared loss, ψ and a lower bound of it."""
    fits = _kernels.ColumnFits("squared", 0.0, 0.0, 0.0, b, None, None)
    columns = [np.ascontiguousarray(column) for column in np.transpose(columns)]
    end, _, psi, _, _, gap, resolution = fits.fit(columns, [None] * len(columns), [0.0] * len(columns), 1e-9, below)
    return end, psi, psi - gap - resolution


@pytest.mark.parametrize("seed", range(8))
def test_a_column_with_a_large_mean_does_not_hide_what_others_differ_by(seed):
    rng = np.random.default_rng(seed)
    base, other, far = rng.standard_normal((3, 30))
    twin = base + 1e-6 * other
    columns = np.column_stack([np.ones(30), 1e10 + far, base, twin])
    end, psi, _ = least_squares_fit(columns, (twin - base) * 1e6, 0.5)
    assert end != FitEnd.NOT_BELOW and psi <= 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_claimed_of_columns_that_are_left_out_of_a_basis(seed):
    """Next to an entry of 1e7 a difference of 1e-6 is less than 1e-12 of the length."""
    rng = np.random.default_rng(seed)
    base, other = rng.standard_normal((2, 30))
    base[0] = 1e7
    twin = base + 1e-6 * other
    end, _, bound = least_squares_fit(np.column_stack([base, twin]), (twin - base) * 1e6, 0.5)
    assert end != FitEnd.NOT_BELOW and (end == FitEnd.FAILED or bound <= 1e-6)


@pytest.mark.parametrize("loss", [Logistic(), Poisson(), Gamma()], ids=repr)
def test_samples_without_weight_do_not_hold_back_a_fit(loss):
    """Their margins are arbitrary: near-equal columns have large coefficients, these samples large values."""
    rng = np.random.default_rng(0)
    base, other = rng.standard_normal((2, 40))
    X = np.column_stack([base, base + 1e-8 * other])
    target, unseen = targets_of(loss, other + 0.7 * rng.standard_normal(40)), 1e8 * rng.standard_normal((3, 2))
    without = LinearModel(X, target, loss, fit_intercept=True)
    weight = np.append(np.ones(40), np.zeros(3))
    beside = LinearModel(np.vstack([X, unseen]), np.append(target, target[:3]), loss, weight, fit_intercept=True)
    least, fit = (one(np.arange(3), nothing) for one, nothing in map(refits_of, (without, beside)))
    assert fit.gap <= 1e-9 and abs(fit.psi - least.psi) <= 1e-7


def test_last_digits_are_no_step_into_a_tail():
    """A sample that a kept feature alone fits has no curvature left; its coefficient became 6e220."""
    problem = case(366896)
    found = best_subset(objective_of(problem), problem.k, keep=list(problem.keep))
    assert np.max(np.abs(found.x)) <= 1e5


@pytest.mark.parametrize("times", [2, 20, 150])
def test_nearly_perfect_fits_of_twins_are_not_given_up_by_rounding(times):
    for seed in range(200):
        rng = np.random.default_rng(seed)
        base = rng.standard_normal(30)
        columns = np.column_stack([base, base + 10 ** rng.uniform(-3.3, -2.5) * rng.standard_normal(30)])
        b = columns @ [301.0, -300.0] + 10 ** rng.uniform(-6, -4) * rng.standard_normal(30)
        attained = np.mean((b - columns @ np.linalg.lstsq(columns, b, rcond=None)[0]) ** 2)
        assert least_squares_fit(columns, b, times * attained)[0] != FitEnd.NOT_BELOW, seed


@pytest.mark.parametrize(("self_concordance", "loss"), [(0.0, "squared"), (1.0, "logistic")])
@pytest.mark.parametrize("apart", [1e-3, 1e-4, 1e-5])
def test_columns_that_are_almost_equal_may_be_below_though_their_first_step_is_short(apart, self_concordance, loss):
    """Their difference explains b: with the ridge of a Newton step that is a long way, and no bound."""
    rng = np.random.default_rng(1)
    base, difference = rng.standard_normal((2, 100))
    b = difference + 0.3 * rng.standard_normal(100)
    fits = _kernels.ColumnFits(loss, 0.0, 0.0, self_concordance, np.sign(b) if loss == "logistic" else b, None, None)
    true = fits.fit([base, difference], [None] * 2, [0.0] * 2, 1e-12, math.inf)[2]
    start = fits.fit([base], [None], [0.0], 1e-12, math.inf)[2]
    end = fits.fit([base, base + apart * difference], [None] * 2, [0.0] * 2, 1e-12, (start + true) / 2)
    assert end[0] != FitEnd.NOT_BELOW
    if end[0] == FitEnd.FITTED:
        assert end[2] == pytest.approx(true, rel=1e-6)


@pytest.mark.process
def test_ctrl_c_is_seen_inside_a_pass_over_the_columns():
    """A timer every 2 ms of work, and two checks: at their ends it would be seen only twice, and once after them."""
    script = """
        import math, signal
        import numpy as np
        from levelprox import _kernels
        heard = []
        def handler(*_):
            heard.append(1)
            if len(heard) == 5:
                raise KeyboardInterrupt
        n, m = 1 << 18, 256  # seconds of work, where a quarter of one is enough
        column, b = np.linspace(-1, 1, n), np.tile([-1.0, 1.0], n // 2)
        fits = _kernels.ColumnFits("logistic", 0.0, 0.0, 1.0, b, None, None)
        signal.signal(signal.SIGVTALRM, handler)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.002, 0.002)
        try:
            fits.fit([column] * m, [None] * m, [0.0] * m, math.inf, math.inf)
        except KeyboardInterrupt:
            print("interrupted")
    """
    assert children.run(script) == children.Ended(0, "interrupted\n", "")


def test_most_hopeless_fits_end_before_they_are_exact():
    """One look fewer, or more; a bound that never ended anything would pass the test above."""
    whole = table(loss="logistic", intercept=True)
    refits, nothing = refits_of(whole.objective)
    chosen = np.array(sorted({0, 1, 2, *whole.unpenalized}), np.intp)
    near = refits(np.array(sorted({0, 1, 3, *whole.unpenalized}), np.intp), nothing)
    assert refits(chosen, near, whole.psi([0, 1, 2]) - 0.01) is None
    assert refits(chosen, near, whole.psi([0, 1, 2]) + 0.01) is not None


def test_classes_that_are_separated_are_fitted_until_nothing_is_left():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    objective = LinearModel(X, np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0), "logistic")
    refits, nothing = refits_of(objective)
    fit = refits(np.array([0, 1, 2]), nothing)
    assert fit is not None and 0 <= fit.psi <= 1e-9


def test_samples_left_far_out_by_a_feature_that_is_gone_do_not_stop_a_fit():
    """Two large coefficients hold each other; without one of them the margins are in the thousands."""
    rng = np.random.default_rng(1)
    base = rng.standard_normal(200)
    X = np.column_stack([base, base + 1e-3 * rng.standard_normal(200), rng.standard_normal(200)])
    objective = LinearModel(X, np.where(base + rng.standard_normal(200) > 0, 1.0, -1.0), "logistic")
    refits, nothing = refits_of(objective)
    near = Fit(np.array([0, 1]), np.array([3000.0, -3000.0]), 0.5, 3000 * (X[:, 0] - X[:, 1]))
    alone = refits(np.array([0, 2]), nothing)
    assert refits(np.array([0, 2]), near).psi == pytest.approx(alone.psi, rel=1e-12)
    (compiled,), columns = refits.compiled, [X[:, 0].copy(), X[:, 2].copy()]
    end = compiled.fit(columns, [None] * 2, [3000.0, 0.0], refits.tolerance, math.inf)
    assert end[0] == FitEnd.FITTED and end[2] == pytest.approx(alone.psi, rel=1e-12)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_fit_ends_where_twice_the_predicted_fall_is_not_enough(loss):
    """Before a bound is computed; no fit ends there that is below after all."""
    rng, ended = np.random.default_rng(3), 0
    for _ in range(100):
        X = rng.standard_normal((60, 6)) @ (np.eye(6) + 0.7 * np.eye(6, k=1))
        z = X @ rng.standard_normal(6)
        objective = LinearModel(X, z if loss == "squared" else np.where(z + rng.logistic(size=60) > 0, 1.0, -1.0), loss)
        refits, nothing = refits_of(objective)
        first = refits(np.array([0, 1, 2]), nothing)
        for features in (np.array([0, 1, 3]), np.array([1, 2, 4]), np.array([0, 2, 5])):
            exact, (compiled,) = refits(features, first), refits.compiled
            start, columns = begun_at(first, features, 1), [X[:, j].copy() for j in features]
            compiled.largest_fall = 2.0
            end = compiled.fit(columns, [None] * 3, start.tolist(), refits.tolerance, first.psi, 1e-6)
            compiled.largest_fall = math.inf
            assert end[0] is FitEnd.FITTED or exact.psi >= first.psi
            ended += end[0] is FitEnd.NOT_BELOW and end[5] >= end[2]  # nothing is shown
    assert ended >= 30


def test_repeated_columns_are_no_obstacle():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((80, 3))[:, [0, 1, 1, 2, 0]]
    objective = LinearModel(X, np.where(X[:, 0] + rng.standard_normal(80) > 0, 1.0, -1.0), "logistic")
    refits, nothing = refits_of(objective)
    once, twice = refits(np.array([0, 1, 3]), nothing), refits(np.arange(5), nothing)
    assert twice.psi == pytest.approx(once.psi, rel=1e-9)


def test_psi_of_classes_over_powers_of_a_year_is_that_of_its_coefficients():
    """Terms of margins are 1e8 times their sum there: in float64 five digits of ψ are left."""
    rng = np.random.default_rng(5)
    wrong = []
    for _ in range(6):
        t, label = rng.uniform(1990, 2020, 12), np.arange(12) % 3
        X = np.column_stack([t**p for p in range(1, 5)])
        X = X / np.sqrt(np.mean(X**2, axis=0))
        refits, nothing = refits_of(MultinomialModel(X, label))
        fit = refits(np.arange(4), nothing)
        z = X.astype(np.longdouble) @ fit.x.reshape(4, 3).astype(np.longdouble)
        psi = float(np.mean(np.log(np.exp(z - z[np.arange(12), label][:, None]).sum(axis=1))))
        wrong.append(abs(fit.psi - psi))
    assert max(wrong) <= 1e-8  # log 3 at the null fit


def test_bounds_of_classes_with_a_ridge_leave_out_no_direction_that_psi_sees():
    """A ridge sees all classes shifted alike: other directions with little curvature took their place in a bound."""
    rng = np.random.default_rng(2)
    base = rng.standard_normal(40)
    label = np.digitize(base + 0.5 * rng.standard_normal(40), [-0.5, 0.5])
    X = np.column_stack([1000 + 0.01 * base, rng.standard_normal((40, 2)), np.ones(40)])
    model = MultinomialModel(X, label, ridge=np.array([0.0, 1.0, 1.0, 0.0]))
    refits, nothing = refits_of(model)
    without, whole = refits(np.arange(1, 4), nothing), refits(np.arange(4), nothing)
    z = model.margins(np.concatenate([np.zeros(3), without.x]))
    gap, resolution = gap_bound(model, without.psi, z, model.hessian_of(z))
    assert without.psi - gap - resolution <= whole.psi < without.psi - 0.1


def test_without_a_column_cache_the_data_are_read_in_place(monkeypatch):
    objective = linear_model(Logistic())
    refits, nothing = refits_of(objective)
    wide = refits(np.array([0, 1, 2, 9]), nothing)
    monkeypatch.setattr(columns, "_KEPT_NUMBERS", 300)
    monkeypatch.setattr(refits, "compiled", None)
    assert refits(np.array([0, 1, 2, 9]), nothing).psi == pytest.approx(wide.psi, rel=1e-12)
    few = columns.Columns(objective)
    for chosen in ([0, 1], [2, 3], [1, 5], [0, 1]):
        for j, column in zip(chosen, few.moves(np.array(chosen)), strict=True):
            np.testing.assert_array_equal(column, objective.design.matvec(np.eye(10)[j]))
        assert len(few.known) <= 3
    assert few.fit_in(np.arange(3)) and not few.fit_in(np.arange(4))
    assert not columns.Columns(LinearModel(np.ones((1, 2000)), [1.0])).fit_in(np.arange(1025))  # a Hessian of 8 MiB


def test_columns_beyond_the_cache_are_read_one_at_a_time(monkeypatch):
    monkeypatch.setattr(columns, "_KEPT_NUMBERS", 300)
    objective = linear_model(Logistic())
    few = columns.Columns(objective)
    moves = few.moves(np.arange(10))
    assert not isinstance(moves, list)
    for j, move in enumerate(moves):
        np.testing.assert_array_equal(move, objective.design.matvec(np.eye(10)[j]))
        assert not few.known


def test_every_instruction_set_gives_the_same_fit_to_the_last_bit(instruction_sets):
    rng = np.random.default_rng(3)
    for m, n in ((1, 5), (3, 16), (7, 300), (13, 1031)):
        A, b = rng.standard_normal((m, n)), rng.choice([-1.0, 1.0], n)
        found = []
        for name in instruction_sets:
            _kernels.use_simd(name)
            fits = _kernels.ColumnFits("logistic", 0.0, 0.0, 1.0, b, None, None)
            end, x, psi, margins, hessian, gap, _ = fits.fit(list(A), [None] * m, [0.0] * m, 1e-9, math.inf)
            found.append((end, psi, x.tobytes(), margins.tobytes(), hessian.tobytes(), gap))
        assert len(set(found)) == 1


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 10**6), loss=st.sampled_from(["squared", "logistic", "poisson", "huber"]))
def test_sparse_columns_are_fitted_as_dense_ones(
    seed,
    loss,
):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 200)), int(rng.integers(1, 7))
    A = rng.standard_normal((m, n)) * (rng.random((m, n)) < rng.choice([0.0, 0.05, 0.3, 1.0], (m, 1)))
    b = rng.choice([-1.0, 1.0], n) if loss == "logistic" else rng.integers(0, 4, n).astype(float)
    fits = _kernels.ColumnFits(loss, 1.0, 0.0, math.inf, b, rng.integers(0, 3, n) + 0.1, None)
    begin = rng.standard_normal(m).tolist()
    rows = [np.flatnonzero(a) if rng.random() < 0.7 else None for a in A]
    values = [a if r is None else a[r] for a, r in zip(A, rows, strict=True)]
    # The first look, with no step: gradient and Hessian are sums that differ in their order only.
    dense, sparse = fits.fit(list(A), [None] * m, begin, 1e300, -1e300), fits.fit(values, rows, begin, 1e300, -1e300)
    assert sparse[0] == dense[0]
    assert sparse[2] == pytest.approx(dense[2], rel=1e-14)
    np.testing.assert_allclose(sparse[3], dense[3], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(sparse[4], dense[4], rtol=1e-12, atol=1e-14)
    whole, parts = fits.fit(list(A), [None] * m, begin, 1e-9, math.inf), fits.fit(values, rows, begin, 1e-9, math.inf)
    if whole[0] == parts[0] == FitEnd.FITTED:
        assert parts[2] == pytest.approx(whole[2], rel=1e-9, abs=1e-9)


def test_rare_entries_are_cached_as_sparse_columns():
    X = scipy.sparse.random_array((400, 6), density=0.02, rng=np.random.default_rng(4), format="csc")
    objective = LinearModel(X, np.arange(400.0), fit_intercept=True)
    kept = columns.Columns(objective)
    assert [one.rows is None for one in kept(np.arange(7))] == [False] * 6 + [True]
    assert kept.kept == X.nnz + 400
    for j, move in enumerate(kept.moves(np.arange(6))):
        np.testing.assert_array_equal(move, X.toarray()[:, j])


def test_columns_that_do_not_fit_are_refused():
    fits = _kernels.ColumnFits("squared", 0.0, 0.0, 0.0, np.zeros(4), None, None)
    with pytest.raises(ValueError, match="a column does not fit the samples"):
        fits.fit([np.zeros(3)], [None], [0.0], 1e-6, math.inf)
    for rows in ([0, 4], [-1, 0], [0], [0, 1, 2]):
        with pytest.raises(ValueError, match="a column does not fit the samples"):
            fits.fit([np.zeros(2)], [np.array(rows)], [0.0], 1e-6, math.inf)
    with pytest.raises(ValueError, match="a coefficient for each column"):
        fits.fit([np.zeros(4)], [None], [], 1e-6, math.inf)
    with pytest.raises(ValueError, match="weights do not fit"):
        _kernels.ColumnFits("squared", 0.0, 0.0, 0.0, np.zeros(4), np.ones(3), None)
    with pytest.raises(ValueError, match="offsets do not fit"):
        _kernels.ColumnFits("squared", 0.0, 0.0, 0.0, np.zeros(4), None, np.ones(3))


@pytest.mark.parametrize("weighted", [False, True])
def test_logistic_gaps_are_those_of_the_conjugate(weighted: bool):
    """At the end of a fit that is cut short: ψ − gap is the dual value, computed here with NumPy."""
    rng = np.random.default_rng(2)
    n = 133
    A = rng.standard_normal((3, n))
    b = np.where(A[0] + 2 * rng.standard_normal(n) > 0, 1.0, -1.0)
    weight = rng.integers(0, 4, n).astype(float) if weighted else None
    kernel = _kernels.ColumnFits("logistic", 0.0, 0.0, 1.0, b, weight, None)
    x = np.array([0.3, -0.2, 0.1])
    end, x, psi, z, _, gap, _ = kernel.fit(list(A), [None] * 3, x.tolist(), 1e-9, 0.0)  # shown at once to stay above
    assert end is _kernels.FitEnd.NOT_BELOW
    share = np.full(n, 1 / n) if weight is None else weight / weight.sum()
    p = 1 / (1 + np.exp(b * z))
    slope, bend = -b * p, p * (1 - p)
    step = -np.linalg.solve((A * (share * bend)) @ A.T, A @ (share * slope))
    q = -b * (slope + bend * (step @ A))  # of the dual point
    assert np.all((q > 0) & (q < 1))
    dual = -np.sum(share * (q * np.log(q) + (1 - q) * np.log(1 - q)))
    assert psi == pytest.approx(np.sum(share * np.log1p(np.exp(-b * z))), rel=1e-13)
    assert psi - gap == pytest.approx(dual, rel=1e-11)
