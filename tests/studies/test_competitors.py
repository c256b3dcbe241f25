"""Competitors: correct proximal maps, stationary results, the units of their documentation."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st

import levelprox
from experiments.competitors import COMPETITORS, Samples, competitor
from experiments.competitors.base import MissingError, require
from experiments.competitors.convex_concave import solver_ready, steps
from experiments.competitors.gist import GIST, AuthorsGIST, gist
from experiments.competitors.lasso import Lasso, logistic_grid
from experiments.competitors.lcpp import LCPP, LCPPBB
from experiments.competitors.proximal_maps import authors_prox, prox
from experiments.competitors.skglm_mcp import SkglmMCP, largest_lambda, penalised, smallest_gamma
from levelprox import Function, Problem, certify, solve
from levelprox.constraints import L1, MCP, SCAD, Exp, Log, Lp, NegativeLp

LOSSES = ["logistic", "squared"]
NEEDS_BENCH = "installed for benchmarks only"


def samples(loss="logistic", sparse=False, n=150, d=25, seed=0):
    """Six of d features matter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    truth = np.zeros(d)
    truth[:6] = [1.5, -1.2, 1.0, -0.8, 0.6, -0.5]
    z = X @ truth
    b = np.sign(z + rng.logistic(size=n)) if loss == "logistic" else z + 0.5 * rng.standard_normal(n)
    return Samples(scipy.sparse.csr_matrix(X) if sparse else X, b, loss)


def gradient(train, x):
    """∇ψ by NumPy, from the formulas."""
    z = train.X @ x
    slopes = -train.b / (1 + np.exp(train.b * z)) if train.loss == "logistic" else 2 * (z - train.b)
    return train.X.T @ slopes / train.b.size


def residual(train, x, slope):
    """dist∞(0, ∇ψ + ∂(Σ pen)), where `slope` gives pen'(t), t ≥ 0."""
    of_psi, cost = gradient(train, x), slope(np.abs(x))
    return np.max(np.where(x != 0, np.abs(of_psi + np.sign(x) * cost), np.maximum(np.abs(of_psi) - cost, 0)))


# --- Proximal maps ---

KINDS = {
    "L1": lambda a, b: L1(a),
    "MCP": MCP,
    "SCAD": lambda a, b: SCAD(a, 1 + b),
    "SCAD with a factor": lambda a, b: SCAD(a, 1 + b, 2.5),
    "Exp": lambda a, b: Exp(a),
    "Log": lambda a, b: Log(b),
    "Lp": lambda a, b: Lp(min(0.9, a / 4), b / 10),
    "NegativeLp": lambda a, b: NegativeLp(-a, b),
}


def brute_force(constraint, u, s):
    """The least ½(w − u)² + sφ(w) over a grid of [0, u], and over finer ones about its best points."""
    low, high = np.zeros(1), np.full(1, u)
    for _ in range(6):
        w = np.unique(np.linspace(low, high, 401))
        value = (w - u) ** 2 / 2 + s * constraint.phi(w)
        best = w[np.argsort(value, kind="stable")[:3]]
        step = np.max(high - low) / 400
        low, high = np.maximum(best - step, 0), np.minimum(best + step, u)
    return value.min()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(a=st.floats(0.1, 3), b=st.floats(0.05, 6), bend=st.floats(0.01, 8), share=st.floats(0.0, 2.5))
@example(a=1.0, b=2.0, bend=1.0, share=1.0)  # the parabola and sφ bend alike
@example(a=2.0, b=5.0, bend=0.05, share=1.0)
@example(a=2.0, b=0.25, bend=4.0, share=1.0)
def test_a_proximal_map_is_as_good_as_brute_force(kind, a, b, bend, share):
    constraint = KINDS[kind](a, b)
    s = bend / constraint.lipschitz if constraint.lipschitz else bend
    # Across all cases: up to beyond where 0 stops being the minimiser, and beyond the threshold.
    farthest = max(s * constraint.lam, min(constraint.threshold, 20 / constraint.lam))
    for u in (share * farthest, share * np.sqrt(2 * s * min(constraint.cap, 5.0)), share * constraint.lam * (1 + s)):
        w = float(prox(constraint, u, s))
        assert 0 <= w <= u
        scale = u * u / 2 + 1e-300
        assert (w - u) ** 2 / 2 + s * float(constraint.phi(w)) <= brute_force(constraint, u, s) + 1e-9 * scale
        assert prox(constraint, -u, s) == -w


def test_a_proximal_map_takes_arrays_and_knows_its_limits():
    u = np.array([-9.0, -3.0, -0.4, 0.0, 0.4, 3.0, 9.0])
    for build in KINDS.values():
        constraint = build(1.0, 2.0)
        together = prox(constraint, u, 0.7)
        np.testing.assert_array_equal(together, [prox(constraint, one, 0.7) for one in u])
        np.testing.assert_array_equal(prox(constraint, u, 1e-12) != 0, u != 0)
    np.testing.assert_array_equal(prox(MCP(1, 2), u, 0.5)[[0, 6]], [-9, 9])  # beyond the threshold nothing is charged


def test_the_authors_scaling_is_right_to_first_order_and_wrong_beyond():
    mcp, scad = MCP(2, 5), SCAD(2, 3.7)
    u = np.linspace(-30, 30, 601)
    for constraint in (mcp, scad):
        np.testing.assert_array_equal(authors_prox(constraint, u, 1.0, 1.0), prox(constraint, u, 1.0))
    for t in (0.6, 4.0):  # the same slope at 0, hence the same zeros; another threshold, hence other values
        for constraint in (mcp, scad):
            authors, right = authors_prox(constraint, u, 1.0, t), prox(constraint, u, 1.0 / t)
            np.testing.assert_array_equal(authors == 0, right == 0)
            assert np.max(np.abs(authors - right)) > 0.1
    # MCP(2, 5) is flat from 10 on, and for t = 4 the authors' from 2.5 on.
    assert authors_prox(mcp, 5.0, 1.0, 4.0) == 5.0
    assert prox(mcp, 5.0, 0.25) == pytest.approx((5 - 0.5) / (1 - 0.05))
    # A weight belongs to the function: α MCP_{λ,θ} = MCP_{αλ,θ/α}.
    np.testing.assert_allclose(authors_prox(mcp, u, 0.3, 1.0), prox(mcp, u, 0.3), rtol=1e-12)
    np.testing.assert_allclose(authors_prox(scad, u, 0.3, 1.0), prox(scad, u, 0.3), rtol=1e-12)
    np.testing.assert_array_equal(authors_prox(Exp(2), u, 0.3, 4.0), prox(Exp(2), u, 0.075))


# --- GIST ---


@pytest.mark.parametrize("constraint", [L1(1), MCP(2, 5), SCAD(1, 3.7), Exp(2), Log(3), Lp(0.5, 0.1)], ids=repr)
@pytest.mark.parametrize("loss", LOSSES)
def test_gist_ends_at_stationary_points(loss, constraint):
    train, alpha = samples(loss), 0.05
    end = gist(train.model(), constraint, alpha, np.zeros(25), max_iter=5000, tol=1e-15)
    assert end.converged and end.refused == 0
    assert 0 < np.count_nonzero(end.x) < 25
    assert residual(train, end.x, lambda t: alpha * constraint.slope(t)) < 1e-6


def test_gist_with_the_authors_scaling_ends_elsewhere():
    train, constraint = samples("squared"), MCP(2, 0.5)
    right = gist(train.model(), constraint, 0.05, np.zeros(25), tol=1e-15)
    authors = gist(train.model(), constraint, 0.05, np.zeros(25), tol=1e-15, authors_scaling=True)
    assert residual(train, authors.x, lambda t: 0.05 * constraint.slope(t)) > 1e-3
    assert authors.value > right.value + 1e-5


def test_gist_evaluates_no_point_twice_and_counts_its_passes():
    model, seen = samples().model(), []

    def counted(x):
        seen.append(x.tobytes())
        return model.value_and_gradient(x)

    end = gist(Function(counted, 25), MCP(2, 5), 0.05, np.zeros(25), tol=1e-12)
    assert len(seen) == len(set(seen)) == end.evaluations
    assert end.iterations + 1 <= end.evaluations


def test_gist_starts_at_the_origin_or_where_it_ended_and_says_when_it_is_not_done():
    train = samples()
    point = {"alpha": 0.02, "lam": 2.0, "theta": 5.0}
    cold = list(GIST().fits(train, [point, point]))
    np.testing.assert_array_equal(cold[0].x, cold[1].x)
    assert cold[0].iterations == cold[1].iterations and cold[0].note == ""
    warm = list(GIST(warm=True).fits(train, [point, point]))
    assert warm[1].iterations < warm[0].iterations
    cut = next(iter(AuthorsGIST(max_iter=2).fits(train, [point])))
    assert cut.note == "2 iterations, not converged" and cut.iterations == 2


# --- Lasso ---


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_lasso_is_optimal_in_the_units_it_says(loss, sparse):
    train = samples(loss, sparse)
    n = train.b.size
    points = [{"C": c} for c in (0.1, 0.5)] if loss == "logistic" else [{"alpha": a} for a in (0.2, 0.05)]
    for point, fit in zip(points, Lasso(tol=1e-12).fits(train, points), strict=True):
        weight = 1 / (n * point["C"]) if loss == "logistic" else 2 * point["alpha"]
        assert fit.point == point and fit.note == "" and fit.intercept == 0
        assert 0 < np.count_nonzero(fit.x) < 25
        assert residual(train, fit.x, lambda t, w=weight: np.full_like(t, w)) < 1e-5


def test_the_papers_grid_starts_ten_times_above_the_empty_model():
    train = samples()
    grid = [point["C"] for point in logistic_grid(train)]
    np.testing.assert_allclose(np.diff(np.log10(grid)), 2 / 3)
    assert len(grid) == 10
    below, above = (next(iter(Lasso().fits(train, [{"C": grid[0] / 10 * f}]))).x for f in (0.99, 1.01))
    assert not np.any(below) and np.any(above)


def test_a_lasso_that_is_cut_short_says_so():
    for loss, point in (("logistic", {"C": 10.0}), ("squared", {"alpha": 1e-4})):
        fit = next(iter(Lasso(max_iter=1, tol=1e-14).fits(samples(loss), [point])))
        assert "converge" in fit.note


# --- LCPP ---


@pytest.mark.parametrize("start", ["direct", "continuation"])
def test_lcpp_gives_feasible_kkt_points_in_the_order_of_the_points(start):
    train = samples()
    levels = [1.3, 2.3, 0.7, 2.3]
    points = [{"lam": 2.0, "theta": 0.5, "eta": eta} for eta in levels] + [{"lam": 1.0, "theta": 5.0, "eta": 2.0}]
    for point, fit in zip(points, LCPP(start=start).fits(train, points), strict=True):
        constraint = MCP(point["lam"], point["theta"])
        assert fit.point == point and fit.note == ""
        assert constraint.value(fit.x) <= point["eta"]
        assert certify(Problem(train.model(), constraint, point["eta"]), fit.x).kkt <= 1e-4


def test_lcpp_notes_degenerate_levels_and_limits():
    fit = next(iter(LCPP(time_limit=0.0).fits(samples(), [{"lam": 2.0, "theta": 0.5, "eta": 3.0}])))
    assert "is 3 times 1" in fit.note and "time" in fit.note


@pytest.mark.parametrize("warm", [True, False])
def test_lcpp_bb_is_the_papers_method(monkeypatch, warm):
    """Spectral steps, ten at most for a subproblem, the paper's surrogate and rule for stopping, the γ of the point."""
    results, asked = [], []

    def watched(problem, **options):
        asked.append(options)
        results.append(levelprox.solve(problem, **options))
        return results[-1]

    monkeypatch.setattr("experiments.competitors.lcpp.solve", watched)
    points = [{"lam": 2.0, "theta": 0.5, "eta": eta, "gamma": gamma} for eta, gamma in ((1.3, 1e-3), (2.3, 1e-2))]
    fits = list(LCPPBB(tol=1e-6, warm=warm).fits(samples(), points))
    for point, fit, result, options in zip(points, fits, results, asked, strict=True):
        assert (result.subsolver, result.surrogate, result.levels) == ("spectral", "paper", "constant")
        assert result.start == "direct" and result.gamma == point["gamma"]
        assert options["stopping"] == "change" and options["subsolver"].max_steps == 10
        assert result.history[-1].change <= 1e-6 and MCP(2.0, 0.5).value(fit.x) <= point["eta"]
        # Where the paper's rule ends a run, x is near a KKT point.
        problem = Problem(samples().model(), MCP(2.0, 0.5), point["eta"])
        assert certify(problem, fit.x).kkt <= 1e-3
    assert asked[0]["x0"] is None and (asked[1]["x0"] is not None) == warm


# --- The convex-concave procedure ---

EXACT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def cleaned(x, problem):
    """Without what an interior-point method leaves of zeros, and within the level."""
    x = np.where(np.abs(x) > 1e-6 * np.max(np.abs(x)), x, 0.0)
    while problem.g(x) > problem.level:
        x = x * (1 - 1e-9)
    return x


@pytest.mark.parametrize("loss", LOSSES)
def test_the_convex_concave_limit_is_a_kkt_point(loss):
    train, constraint, level = samples(loss, n=80, d=12), MCP(2, 0.5), 2.3
    problem = Problem(train.model(), constraint, level)
    taken = list(steps(train, constraint, level, change=1e-9, **EXACT))
    assert len(taken) > 2
    assert all(step.status == "optimal" for step in taken)
    assert all(later.psi <= earlier.psi * (1 + 1e-9) for earlier, later in pairwise(taken))
    assert all(later.seconds > earlier.seconds for earlier, later in pairwise(taken))
    assert all(step.g <= level + 1e-7 for step in taken)
    assert taken[-1].psi == problem.objective.value_and_gradient(taken[-1].x)[0]
    first, last = (certify(problem, cleaned(step.x, problem)) for step in (taken[0], taken[-1]))
    assert first.kkt > 1e-2 and last.kkt < 1e-4


def test_the_convex_concave_procedure_stays_where_lcpp_ended():
    train, constraint, level = samples(n=80, d=12), MCP(2, 0.5), 2.3
    end = solve(Problem(train.model(), constraint, level), tol=1e-10)
    (step,) = steps(train, constraint, level, start=end.x, **EXACT)
    np.testing.assert_allclose(step.x, end.x, atol=1e-5)
    assert step.psi == pytest.approx(end.psi, rel=1e-7)


@pytest.mark.parametrize("solver", ["CLARABEL", "SCS"])
def test_on_a_convex_problem_the_convex_concave_procedure_agrees_with_levelprox(solver):
    train = samples("squared", sparse=True, n=80, d=12)
    options = EXACT if solver == "CLARABEL" else {"eps_abs": 1e-9, "eps_rel": 1e-9}
    taken = list(steps(train, L1(1), 2.0, solver, **options))
    end = solve(Problem(train.model(), L1(1), 2.0), tol=1e-10)
    assert len(taken) == 2  # the second only sees that nothing changes
    assert taken[-1].psi == pytest.approx(end.psi, rel=1e-6)
    np.testing.assert_allclose(taken[-1].x, end.x, atol=1e-5)


def test_a_solver_that_is_cut_short_ends_the_procedure():
    (step,) = steps(samples(n=80, d=12), MCP(2, 0.5), 2.3, max_iter=1)
    assert step.status.startswith("user_limit")


def test_a_solver_that_fails_ends_the_procedure_at_the_last_point(monkeypatch):
    import cvxpy

    def fails(self, **options):
        raise cvxpy.SolverError("Solver 'CLARABEL' failed.")

    monkeypatch.setattr(cvxpy.Problem, "solve", fails)
    (step,) = steps(samples(n=80, d=12), MCP(2, 0.5), 2.3)
    assert step.status == "solver error: Solver 'CLARABEL' failed."
    np.testing.assert_array_equal(step.x, 0)


def test_the_dccp_package_does_not_take_mcp():
    pytest.importorskip("dccp", reason="not a dependency")
    import cvxpy as cp
    from dccp import is_dccp

    x, lam, theta = cp.Variable(3), 2.0, 0.25
    capped = cp.minimum(lam * cp.abs(x) - cp.square(x) / (2 * theta), theta * lam**2 / 2)
    h = cp.sum(cp.huber(x, theta * lam)) / (2 * theta)
    objective = cp.Minimize(cp.sum_squares(x - np.array([1.0, 0.2, -0.5])))
    assert not is_dccp(cp.Problem(objective, [cp.sum(capped) <= 0.6]))
    assert not is_dccp(cp.Problem(objective, [lam * cp.norm1(x) - h <= 0.6]))
    problem = cp.Problem(objective, [lam * cp.norm1(x) <= 0.6 + h])
    assert is_dccp(problem)
    x.value = np.zeros(3)
    with pytest.raises(ValueError, match="dtype object"):
        problem.solve(method="dccp", solver="CLARABEL")


# --- Today's ---


@pytest.mark.parametrize("loss", LOSSES)
def test_gist_and_skglm_agree_on_the_penalised_problem(loss):
    pytest.importorskip("skglm", reason=NEEDS_BENCH)
    train, constraint, alpha = samples(loss), MCP(2, 5), 0.04
    point = penalised({"alpha": alpha, "lam": 2.0, "theta": 5.0}, loss)
    assert point["gamma"] > smallest_gamma(train)
    fit = next(iter(SkglmMCP(tol=1e-10).fits(train, [point])))
    assert fit.note == "" and 0 < np.count_nonzero(fit.x) < 25
    assert residual(train, fit.x, lambda t: alpha * constraint.slope(t)) < 1e-7
    model = train.model()
    stayed = gist(model, constraint, alpha, fit.x, tol=1e-12)
    np.testing.assert_allclose(stayed.x, fit.x, atol=1e-6)
    own = gist(model, constraint, alpha, np.zeros(25), tol=1e-14)
    assert own.value == pytest.approx(stayed.value, rel=1e-9)  # one of several stationary points, here the same


def test_skglm_says_where_its_proximal_map_is_not_defined():
    pytest.importorskip("skglm", reason=NEEDS_BENCH)
    train = samples("squared")
    points = [{"lam": share * largest_lambda(train), "gamma": 0.5} for share in (1.01, 0.5)]
    none, some = SkglmMCP(max_iter=3).fits(train, points)
    assert not np.any(none.x) and none.note == ""
    assert "gamma * L_j <= 1" in some.note


@pytest.mark.parametrize("loss", LOSSES)
def test_skglm_is_told_a_gamma_for_the_features_that_matter(loss):
    train = samples(loss)
    bends = np.mean(train.X**2, axis=0) * (0.25 if loss == "logistic" else 1.0)
    assert smallest_gamma(train) == pytest.approx(1 / bends.min())
    steepest = int(np.argmax(np.abs(gradient(train, np.zeros(25)))))
    assert smallest_gamma(train, 1) == pytest.approx(1 / bends[steepest])
    half = 0.5 if loss == "squared" else 1.0
    assert largest_lambda(train) == pytest.approx(half * np.max(np.abs(gradient(train, np.zeros(25)))))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_abess_has_k_features_and_no_intercept(loss, sparse):
    pytest.importorskip("abess", reason=NEEDS_BENCH)
    train = samples(loss, sparse)
    for fit in competitor("abess").fits(train, [{"k": 2}, {"k": 5}]):
        support = np.flatnonzero(fit.x)
        assert support.size == fit.point["k"] and fit.intercept == 0 and fit.note == ""
        np.testing.assert_allclose(gradient(train, fit.x)[support], 0, atol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_abess_is_spared_the_constant_columns_it_refuses(sparse):
    pytest.importorskip("abess", reason=NEEDS_BENCH)
    whole = samples("squared", sparse)
    X = whole.X.toarray() if sparse else whole.X.copy()
    X[:, 3], X[:, 4] = 0.0, 2.0
    [fit] = competitor("abess").fits(Samples(type(whole.X)(X) if sparse else X, whole.b, "squared"), [{"k": 5}])
    assert np.count_nonzero(fit.x) == 5 and not fit.x[[3, 4]].any()


# --- What is not there ---


def test_names_are_those_of_the_registry():
    assert list(COMPETITORS) == ["LCPP", "LCPP-BB", "GIST", "GIST (authors' scaling)", "Lasso", "skglm MCP", "abess"]
    with pytest.raises(ValueError, match="no competitor is called 'gits'; there are LCPP, LCPP-BB, GIST"):
        competitor("gits")
    for name in ("LCPP", "LCPP-BB", "GIST", "Lasso"):
        competitor(name).ready()


def test_samples_are_checked():
    with pytest.raises(ValueError, match="loss must be 'logistic' or 'squared', got 'hinge'"):
        Samples(np.eye(2), np.ones(2), "hinge")
    with pytest.raises(ValueError, match="needs b = -1 or 1"):
        Samples(np.eye(2), np.array([0.0, 1.0]), "logistic")


@pytest.mark.parametrize("name", ["skglm MCP", "abess"])
def test_a_competitor_that_is_not_installed_says_how_to_get_it(name, monkeypatch):
    monkeypatch.setitem(sys.modules, competitor(name).package, None)
    with pytest.raises(MissingError, match=f"pip install {competitor(name).package}"):
        competitor(name).ready()
    with pytest.raises(MissingError):
        next(iter(competitor(name).fits(samples(), [{}])))


def test_a_solver_that_is_not_installed_says_how_to_get_it(monkeypatch):
    with pytest.raises(ValueError, match="solver must be one of CLARABEL, SCS, MOSEK, got 'ECOS'"):
        solver_ready("ECOS")
    for solver in ("SCS", "MOSEK"):
        monkeypatch.setitem(sys.modules, solver.lower(), None)
        with pytest.raises(MissingError, match=f"{solver.lower()} cannot be imported .* pip install {solver.lower()}"):
            next(iter(steps(samples(), L1(1), 1.0, solver)))
    with pytest.raises(MissingError, match="no_such_package cannot be imported"):
        require("no_such_package", "nothing to be done")


class FakeMosek(ModuleType):
    """Installed, but without a licence: what version 11.2 does."""

    class Error(Exception):
        """As mosek raises."""

    class feature:  # noqa: N801, D106
        pts = 0

    class Env:
        """Whose licence cannot be checked out."""

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def checkoutlicense(self, feature):
            raise FakeMosek.Error("rescode.err_missing_license_file(1008): ")


def test_mosek_without_a_licence_says_where_to_put_one(monkeypatch):
    monkeypatch.setitem(sys.modules, "mosek", FakeMosek("mosek"))
    with pytest.raises(MissingError, match=r"no licence .*\(rescode.err_missing_license_file\(1008\)\).*mosek.lic"):
        solver_ready("MOSEK")
