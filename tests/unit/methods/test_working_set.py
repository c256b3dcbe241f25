"""Working sets: few features at a time, every full gradient pass counted, certificates correct."""

from __future__ import annotations

import itertools
import math
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse

from levelprox import LinearModel, MultinomialModel, Problem, Status, _kernels, certify, solve
from levelprox.certificate.null_model import null_fit
from levelprox.constraints import L1, MCP, SCAD, Exp, Log
from levelprox.designs import SparseDesign
from levelprox.exceptions import ConvergenceWarning, InvalidInputError
from levelprox.methods.last_part import LastPart
from levelprox.methods.lcpp import majorise
from levelprox.methods.restricted import INSIDE, SolverOptions
from levelprox.methods.subsolvers import Nesterov, Newton, Spectral
from levelprox.methods.working_set import WorkingSet, advance, first, resumed
from levelprox.result import Iterate
from tests.support.registries import ROUGH_OBJECTIVES


def data(n=120, d=80, planted=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    signal = X[:, :planted] @ np.linspace(2, 0.5, planted)
    return X, signal, rng


def logistic(model=LinearModel, **options):
    X, signal, rng = data()
    return model(X, np.sign(signal + rng.logistic(size=signal.size)), "logistic", **options)


def multinomial():
    X, signal, rng = data(d=40)
    return MultinomialModel(X, np.digitize(signal + rng.logistic(size=signal.size), [-1, 1]))


PROBLEMS = {
    "logistic": lambda: Problem(logistic(), MCP.from_threshold(0.5), 4.5),
    "l1": lambda: Problem(logistic(), L1(), 3.0),
    "intercept": lambda: Problem(logistic(fit_intercept=True), SCAD.from_threshold(0.7), 5.5),
    "groups": lambda: Problem(multinomial(), MCP.from_threshold(0.5), 3.5),
    "log": lambda: Problem(logistic(), Log(10), 2.0),
}


def machinery(problem, subsolver=None):
    """The state before any work, and how to go on from it."""
    null = null_fit(problem)
    chosen = Newton() if subsolver is None else subsolver
    how = SolverOptions(
        null, lambda: math.inf, chosen, chosen.proximal_weight(problem.objective), majorise, np.random.default_rng(0)
    )
    return first(problem, Iterate(null.x, null.psi, null.gradient), null), how


def looks(problem, tol=1e-8, at_most=30):
    """The states after each look, until the residual is small."""
    state, how = machinery(problem)
    for _ in range(at_most):
        state = advance(problem, state, problem.level, tol * how.null.scale, how)
        yield state
        if state.residual <= tol * how.null.scale:
            return
    raise AssertionError("not solved")


@pytest.mark.parametrize("name", PROBLEMS)
def test_outside_w_everything_is_zero_and_the_state_is_true(name):
    problem = PROBLEMS[name]()
    for state in looks(problem):
        outside = np.setdiff1d(np.arange(problem.n_features), state.features)
        assert outside.size and not np.any(problem.sizes(state.at.x)[outside])
        assert np.isin(problem.unpenalized, state.features).all()
        assert np.array_equal(state.features, np.unique(state.features))
        psi, gradient = problem.objective.value_and_gradient(state.at.x)
        assert state.at.psi == psi and np.array_equal(state.at.gradient, gradient)
        assert problem.is_feasible(state.at.x)
    certificate = certify(problem, state.at.x)
    assert certificate.kkt <= 1e-8 and state.residual == pytest.approx(certificate.kkt * certificate.scale, abs=1e-12)
    assert state.multiplier == pytest.approx(certificate.multiplier, rel=1e-6)


def test_w_doubles_while_the_level_has_room():
    """300 features of use, a level without a cap: 10, 20, 40, … and not all at once."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((600, 400))
    problem = Problem(LinearModel(X, X[:, :300] @ rng.uniform(0.5, 1, 300), "squared"), L1(), 150.0)
    state, how = machinery(problem)
    sizes, used = [], 0
    while problem.g(state.at.x) < INSIDE * problem.level:
        used = np.count_nonzero(state.at.x)
        state = advance(problem, state, problem.level, 1e-6 * how.null.scale, how)
        assert state.features.size >= min(400, max(10, 2 * used))
        sizes.append(state.features.size)
        assert len(sizes) < 12
    assert sizes[0] == 10 and all(b <= 3 * a for a, b in itertools.pairwise(sizes)) and len(sizes) >= 4


def test_w_holds_at_once_what_a_capped_level_can_pay_for():
    problem = Problem(logistic(), MCP.from_threshold(0.5), 30.5)
    state, how = machinery(problem)
    assert advance(problem, state, 30.5, 1e-6 * how.null.scale, how).features.size == 61


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_run_continued_from_a_pickle_has_the_same_bits_at_every_full_pass(name):
    problem = PROBLEMS[name]()
    unbroken = list(looks(problem))
    state, how = machinery(problem)
    for expected in unbroken:
        state = pickle.loads(pickle.dumps(state))
        assert isinstance(state, WorkingSet)
        fresh = pickle.loads(pickle.dumps(problem))  # in another process, perhaps
        state = advance(fresh, state, problem.level, 1e-8 * how.null.scale, how)
        assert state.at.x.tobytes() == expected.at.x.tobytes()
        assert state.at.gradient.tobytes() == expected.at.gradient.tobytes()
        assert np.array_equal(state.features, expected.features)
        assert (state.residual, state.multiplier) == (expected.residual, expected.multiplier)


class Counted(LinearModel):
    """A model that counts its full gradient passes."""

    looks = 0

    def value_and_gradient(self, x):
        type(self).looks += x.size == 80 + self.design.ones.size
        return super().value_and_gradient(x)


@pytest.mark.parametrize("subsolver", ["auto", "spectral"])
@pytest.mark.parametrize("options", [{}, {"fit_intercept": True}])
def test_all_full_gradient_passes_are_counted(subsolver, options):
    problem = Problem(logistic(Counted, **options), MCP.from_threshold(0.5), 4.5)
    Counted.looks = 0
    fit = solve(problem, subsolver=subsolver, working_set=True)
    assert fit.success and fit.n_outer >= 2
    assert fit.n_grad == Counted.looks - 1  # the last is the certificate's, which trusts no run


@pytest.mark.parametrize("subsolver", [Spectral(), Spectral(max_steps=50), Nesterov()], ids=repr)
@pytest.mark.parametrize("name", ["logistic", "l1", "groups"])
def test_first_order_subsolvers_reach_the_same_certificate(name, subsolver):
    problem = PROBLEMS[name]()
    reference = solve(problem, tol=1e-7)
    fit = solve(problem, tol=1e-6, subsolver=subsolver, working_set=True, x0=reference.x * (1 - 1e-3))
    assert fit.success and certify(problem, fit.x).kkt <= 1e-6
    assert fit.psi == pytest.approx(reference.psi, rel=1e-6)
    cold = solve(problem, tol=1e-5, subsolver=subsolver, working_set=True)
    assert cold.success and cold.kkt <= 1e-5


@pytest.mark.parametrize("objective", ROUGH_OBJECTIVES, ids=lambda o: type(o).__name__)
def test_working_sets_need_a_curved_objective(objective):
    with pytest.raises(InvalidInputError, match="working_set=True needs"):
        solve(Problem(objective, L1(), 1.0), working_set=True)
    with pytest.raises(InvalidInputError, match="working_set must be True, False or None"):
        solve(Problem(objective, L1(), 1.0), working_set="yes")


@pytest.mark.parametrize("subsolver", ["sgd", "svrg"])
def test_working_sets_need_a_subsolver_that_sees_all_samples(subsolver):
    with pytest.raises(InvalidInputError, match="sees all samples"):
        solve(PROBLEMS["logistic"](), subsolver=subsolver, working_set=True)


# --- Ctrl-C and limits --------------------------------------------------------------------------------


class Interrupting(LinearModel):
    """A model in whose n-th use of one method Ctrl-C is pressed."""

    method, calls, at = "", 0, 0

    def _press(self, method):
        kind = type(self)
        if method == kind.method:
            kind.calls += 1
            if kind.calls == kind.at:
                raise KeyboardInterrupt

    def value_and_gradient(self, x):
        self._press("value_and_gradient")
        return super().value_and_gradient(x)

    def value_of(self, z):
        self._press("value_of")
        return super().value_of(z)

    def gradient_of(self, z):
        self._press("gradient_of")
        return super().gradient_of(z)

    def hessian_of(self, z, convex):
        self._press("hessian_of")
        return super().hessian_of(z, convex)

    def evaluated(self, z, dx, with_hessian):
        self._press("evaluated")
        return super().evaluated(z, dx, with_hessian)


@pytest.mark.parametrize("method", ["value_and_gradient", "value_of", "evaluated", "hessian_of"])
def test_ctrl_c_anywhere_gives_the_best_point_so_far(method):
    problem = Problem(logistic(Interrupting), MCP.from_threshold(0.5), 4.5)
    Interrupting.method, Interrupting.at = "", 0
    start, whole = null_fit(problem), solve(problem, tol=1e-9)
    values = []
    Interrupting.method = method
    for at in range(1 + (method == "value_and_gradient"), 40):
        Interrupting.calls, Interrupting.at = 0, at
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # where the certificate is interrupted
            fit = solve(problem, tol=1e-9)
        if Interrupting.calls < at:
            break
        assert fit.status is Status.INTERRUPTED
        assert problem.is_feasible(fit.x) and fit.psi <= start.psi
        assert fit.psi == pytest.approx(
            problem.objective.loss.value(problem.objective.design.matvec(fit.x), problem.objective.target), rel=1e-12
        )
        values.append(fit.psi)
    Interrupting.method = ""
    assert len(values) >= 2
    assert values[-1] < start.psi
    assert min(values) == pytest.approx(whole.psi, rel=0.05)


@pytest.mark.parametrize("subsolver", ["auto", Newton(max_steps=3)])
def test_time_limits_hold(subsolver, clock):
    """The clock advances by 0.02 s with each value of ψ, for any load of the machine."""

    class Slow(LinearModel):
        def value_of(self, z):
            clock.now += 0.02
            return super().value_of(z)

    problem = Problem(logistic(Slow), MCP.from_threshold(0.5), 20.5)
    for limit in (0.0, 0.05, 0.1):
        began = clock.now
        with pytest.warns(ConvergenceWarning, match="time_limit"):
            fit = solve(problem, tol=1e-14, time_limit=limit, subsolver=subsolver)
        assert fit.status is Status.TIME_LIMIT and clock.now - began < limit + 1.0
        assert problem.is_feasible(fit.x) and fit.psi <= null_fit(problem).psi


# --- unusual data: never NaN, always feasible, always with a correct certificate ----------------------


def honest(problem, may_fail=False, **options):
    """Solve, and check everything that is promised for all data."""
    with warnings.catch_warnings(record=True) as warned, np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("always")
        fit = solve(problem, **options)
    tol = options.get("tol", 1e-6)
    assert np.all(np.isfinite(fit.x)) and problem.is_feasible(fit.x)
    certificate = certify(problem, fit.x)
    assert fit.kkt == pytest.approx(certificate.kkt, rel=1e-6, abs=1e-15) and certificate.infeasibility == 0
    assert (fit.status is Status.SOLVED) == (certificate.kkt <= tol)
    start = null_fit(problem)
    assert fit.psi <= start.psi * (1 + 1e-12) or "x0" in options
    assert all(isinstance(warning.message, ConvergenceWarning) for warning in warned)
    if fit.status is not Status.SOLVED:
        assert warned
        assert may_fail, fit.message
    return fit


@pytest.mark.cpu_budget(3, "two runs of many steps")
def test_rising_levels():
    for levels, tol in (("geometric", 1e-6), ("harmonic", 1e-3)):  # the slack of the paper's falls as 1/k only
        fit = honest(Problem(logistic(), MCP.from_threshold(0.5), 4.5), levels=levels, tol=tol, max_iter=2000)
        etas = [record.eta_k for record in fit.history]
        assert etas == sorted(etas) and etas[0] < 4.5


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_start_may_be_given(name):
    problem = PROBLEMS[name]()
    x0 = np.zeros(problem.dimension)
    x0[-3 * problem.n_outputs :] = 0.01
    fit = honest(problem, x0=x0)
    assert fit.psi < problem.objective.value_and_gradient(x0)[0]
    again = honest(problem, x0=fit.x)
    assert again.n_outer <= 1 and np.allclose(again.x, fit.x, atol=1e-5)


def test_level_zero_and_levels_that_hold_nothing_back():
    for objective in (logistic(), logistic(fit_intercept=True), multinomial()):
        fit = honest(Problem(objective, MCP.from_threshold(0.5), 0.0))
        assert not np.any(np.delete(fit.x.reshape(-1, objective.n_outputs), objective.unpenalized, axis=0))
    X, signal, rng = data(n=400, d=20)
    b = np.sign(signal + 5 * rng.logistic(size=400))
    plain = solve(Problem(LinearModel(X, b, "logistic"), L1(), 1e4), tol=1e-10)
    for constraint in (L1(), MCP.from_threshold(0.5), Exp(2)):
        for working_set in (True, False):
            problem = Problem(LinearModel(X, b, "logistic"), constraint, 1e3)
            fit = honest(problem, tol=1e-8, working_set=working_set)
            assert fit.multiplier == 0 and np.allclose(fit.x, plain.x, atol=1e-5)


def test_unpenalized_features_and_signs():
    X, signal, rng = data()
    weights = np.where(np.arange(80) % 9 == 0, 0.0, 1.0)
    for nonnegative in (None, True, np.arange(80) % 2 == 0):
        model = LinearModel(X, signal + rng.standard_normal(120), "huber")
        problem = Problem(model, MCP.from_threshold(0.5), 4.5, weights=weights, nonnegative=nonnegative)
        fit = honest(problem)
        assert np.count_nonzero(fit.x[weights == 0]) >= 5


def test_one_feature_one_sample_and_zero_columns():
    X, signal, _ = data(d=1, planted=1)
    honest(Problem(LinearModel(X, signal, "squared"), MCP.from_threshold(0.5), 0.5))
    honest(Problem(LinearModel(X, signal, "squared"), MCP.from_threshold(0.5), 1.5))
    honest(Problem(LinearModel(np.ones((1, 3)), [2.0], "squared"), Log(1), 0.5))
    X, signal, _ = data()
    X[:, ::3] = 0
    fit = honest(Problem(LinearModel(X, signal, "squared"), MCP.from_threshold(0.5), 3.5))
    assert not np.any(fit.x[::3])
    honest(Problem(LinearModel(np.zeros((5, 4)), np.ones(5), "squared"), L1(), 1.0))


def test_duplicated_columns():
    X, signal, rng = data(d=20)
    X = np.hstack([X, X, X[:, ::-1]])
    b = signal + rng.standard_normal(120)
    for constraint, level in ((L1(), 4.0), (MCP.from_threshold(0.5), 4.5), (Exp(2), 3.0), (Log(5), 2.0)):
        honest(Problem(LinearModel(X, b, "squared"), constraint, level))
        honest(Problem(LinearModel(X, np.sign(b), "logistic"), constraint, level))
    label = np.digitize(b, [-1, 1])
    honest(Problem(MultinomialModel(X, label), MCP.from_threshold(0.5), 3.5))


def test_classes_of_one_sample_and_separable_data():
    X, signal, _ = data(d=20)
    label = np.zeros(120, int)
    label[7], label[11:] = 1, 2
    honest(Problem(MultinomialModel(X, label), MCP.from_threshold(0.5), 2.5), may_fail=True)
    honest(Problem(MultinomialModel(X, label, fit_intercept=True), L1(), 2.0))
    one = np.where(np.arange(120) == 5, 1.0, -1.0)
    honest(Problem(LinearModel(X, one, "logistic", fit_intercept=True), SCAD.from_threshold(1.0), 2.5), may_fail=True)
    for constraint, level in (
        (L1(), 5.0),
        (Log(1), 5.0),
        (MCP.from_threshold(0.5), 3.5),
        (MCP.from_threshold(0.5), 30.0),
    ):
        honest(
            Problem(LinearModel(X, np.sign(signal), "logistic"), constraint, level), may_fail=level != 5.0, max_iter=50
        )


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
def test_columns_of_very_different_scales(loss):
    X, signal, rng = data(d=30)
    b = signal + rng.standard_normal(120)
    X = X * 10.0 ** np.linspace(-8, 8, 30)
    for constraint, level in ((L1(), 1.0), (MCP.from_threshold(0.5), 4.5), (Log(5), 2.0)):
        problem = Problem(LinearModel(X, np.sign(b) if loss == "logistic" else b, loss), constraint, level)
        # A proximal weight that suits the large columns would take thousands.
        assert honest(problem, start="direct").n_inner <= 15
        fit = honest(problem)  # coefficients reach 1e8: there are up to thirty wider problems
        assert fit.n_inner <= 40 + 10 * len(fit.stages)


@pytest.mark.parametrize("unit", [1e-100, 1e100])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_data_in_any_unit(loss, unit):
    """X·s, and thresholds divided by s, are the same problem."""
    X, signal, rng = data()
    b = signal + rng.standard_normal(120)
    b = np.sign(b) if loss == "logistic" else b
    plain = honest(Problem(LinearModel(X, b, loss), L1(), 3.0))
    other = honest(Problem(LinearModel(X * unit, b, loss), L1(), 3.0 / unit))
    assert np.allclose(other.x * unit, plain.x, atol=1e-4)
    honest(Problem(LinearModel(X * unit, b, loss), L1(), 3.0), may_fail=True)
    honest(Problem(LinearModel(X * unit, b, loss), MCP.from_threshold(0.5), 4.5), may_fail=True)


@pytest.mark.parametrize("storage", ["csr", "csc"])
def test_sparse_data_and_more_features_than_samples(storage):
    rng = np.random.default_rng(4)
    X = scipy.sparse.random_array((40, 800), density=0.05, rng=rng, format=storage)
    b = np.sign(X @ rng.standard_normal(800) + 0.1)
    for constraint, level in ((MCP.from_threshold(2.0), 8.5), (L1(), 20.0)):
        fit = honest(Problem(LinearModel(X, b, "logistic", fit_intercept=True), constraint, level))
        assert fit.n_outer <= 15


DATA = np.random.default_rng(0).standard_normal((30, 20))
LINE = DATA[:, 0] + 0.1 * np.random.default_rng(1).standard_normal(30)
FLAT = {
    "sigmoid in its middle": LinearModel(DATA, np.sign(DATA[:, 0]), "sigmoid"),
    "huber far out": LinearModel(DATA, 100 * LINE, "huber"),
    "huber very far out": LinearModel(DATA, LINE + 1000, "huber"),
    "huber with few samples": LinearModel(DATA[:2], [30.0, -40.0], "huber"),
    "huber in small units": LinearModel(1e-8 * DATA, DATA[:, 0] + 3, "huber"),
    "poisson far below": LinearModel(DATA, np.round(np.abs(10 * LINE)), "poisson", offset=np.full(30, -20.0)),
    "gamma far above": LinearModel(DATA, np.abs(LINE) + 0.01, "gamma", offset=np.full(30, 30.0)),
}


@pytest.mark.parametrize("level", [2.5, 50.0], ids=["binds", "cannot bind"])
@pytest.mark.parametrize("name", FLAT)
def test_a_start_at_which_psi_hardly_bends_is_left(name, level):
    """The model there is almost a plane: its minimum, if any, is far beyond where it means anything."""
    problem = Problem(FLAT[name], MCP.from_threshold(0.5), level)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # some keep gaining
        fit = solve(problem, time_limit=20.0)
    assert fit.status is Status.SOLVED
    assert certify(problem, fit.x).kkt <= 1e-6
    assert fit.psi < null_fit(problem).psi


@pytest.mark.parametrize("constraint", [MCP.from_threshold(0.5), L1(), MCP(1, 1e-10)], ids=repr)
def test_levels_out_of_all_proportion_hold_nothing_back(constraint):
    fit = solve(Problem(LinearModel(DATA, LINE), constraint, 1e300))
    assert fit.status is Status.SOLVED and fit.multiplier == 0


def test_a_level_that_cannot_bind_ends_at_rounding_too():
    problem = Problem(LinearModel(DATA, LINE), MCP.from_threshold(0.5), 50.0)
    with pytest.warns(ConvergenceWarning):
        fit = solve(problem, tol=0, max_iter=5, time_limit=20.0)
    assert fit.status is Status.MAX_ITER and fit.kkt < 1e-12


def test_a_final_newton_step_whose_squares_underflow_is_refused():
    level = _kernels.LevelConstraint(L1(1e-170).compiled, 2, 1, None, None, False, 1e-170)
    places, half = np.arange(2), np.full(2, 0.5)
    assert level.newton(places, np.eye(2), half, np.ones(2), 1e169) is None


@pytest.mark.parametrize(("d", "ends_early"), [(450, False), (620, True)])
def test_a_solve_with_too_many_nonzeros_ends_at_its_first_large_model(d, ends_early):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, d))
    b = np.sign(X[:, :5].sum(axis=1) + rng.logistic(size=200))
    problem = Problem(LinearModel(X, b, "logistic"), L1(), 2.0)
    null = null_fit(problem)
    W, x, tolerance = np.arange(d - 1), np.zeros(d), 1e-6 * null.scale
    whole, cut = (resumed(problem, x, W, tolerance, SolverOptions(null, lambda: np.inf, most=m)).at for m in (None, 8))
    assert min(np.count_nonzero(whole.x), np.count_nonzero(cut.x)) > 8
    assert problem.is_feasible(cut.x) and cut.gradient.size == 0
    if ends_early:
        assert cut.n_inner == 1 < whole.n_inner
    else:
        assert cut.n_inner == whole.n_inner and np.array_equal(cut.x, whole.x)


def test_the_columns_of_a_working_set_are_copied_once(monkeypatch):
    problem = PROBLEMS["logistic"]()
    _, how = machinery(problem)
    views, margins = [], []
    restrict, products = LinearModel.restrict, LinearModel.margins
    monkeypatch.setattr(LinearModel, "restrict", lambda self, W: views.append(W.size) or restrict(self, W))
    monkeypatch.setattr(LinearModel, "margins", lambda self, x: margins.append(x.size) or products(self, x))
    W, x = np.arange(12), np.zeros(problem.dimension)
    state = resumed(problem, x, W, 1e-6, how)
    wider = problem.at_level(6.5)
    again = resumed(wider, state.at.x, W, 1e-6, how)
    assert views == [12] and margins == []  # one reading gives margins, gradient and model
    assert again.at.psi < state.at.psi and again.at.margins is not None
    assert again.at.margins == pytest.approx(products(problem.objective, again.at.x), abs=1e-12)
    how.restricted(problem, W[:5])
    assert views == [12, 5]


def test_columns_of_fewer_features_are_copied_from_the_last_copy(monkeypatch):
    X = scipy.sparse.random_array((500, 40), density=0.3, rng=np.random.default_rng(0), format="csr")
    problem = Problem(LinearModel(X, np.sign(X[:, [3]].toarray().ravel() - 0.1)), L1(), 1.0)
    read, columns = [], SparseDesign._columns
    monkeypatch.setattr(SparseDesign, "_columns", lambda self, W: read.append(self.shape[1]) or columns(self, W))
    part = LastPart()
    x = np.random.default_rng(1).standard_normal(5)
    first = part(problem, np.arange(0, 40, 2))
    fewer = part(problem, np.arange(2, 12, 2))
    assert read == [40, 20] and first.n_features == 20
    part(problem, np.arange(1, 12, 2))  # others: from X
    assert read == [40, 20, 40]
    again = problem.restrict(np.arange(2, 12, 2))
    assert fewer.objective.value_and_gradient(x)[0] == again.objective.value_and_gradient(x)[0]
