"""Which convex set the steps work in: the paper's where `solve` says so, the tighter one otherwise.

Two checks that do not rely on each other. One counts which builder of g_k a run calls. The other needs nothing of the
library but the iterates: every step of a run with the paper's surrogate satisfies the paper's g_k, computed here from
its formula, and steps with the other surrogate do not where signs change.
"""

from __future__ import annotations

import warnings
from importlib import import_module

import numpy as np
import pytest

from levelprox import LinearModel, MultinomialModel, Problem, SparseRegressor, _kernels, minimize, solve
from levelprox.constraints import L1, MCP, SCAD, Exp, Log, Lp, NegativeLp
from levelprox.methods import lcpp as surrogates
from levelprox.methods import level_ending as conclusion
from levelprox.methods.lcpp import SURROGATES, linearise, majorise
from levelprox.methods.subsolvers import Spectral
from tests.support import reference

solve_module = import_module("levelprox.methods.level_options")

RNG = np.random.default_rng(5)
X = RNG.standard_normal((40, 6))
B = X @ np.array([1.5, -1.0, 0.8, 0.0, 0.0, 0.0]) + 0.1 * RNG.standard_normal(40)
SIGNS = np.where(B > 0, 1.0, -1.0)
CLASSES = np.digitize(B, [-0.5, 0.5])
PHI = MCP(1.0, 2.0)
MODELS = {
    "squared": LinearModel(X, B),
    "logistic": LinearModel(X, SIGNS, "logistic"),
    "absolute": LinearModel(X, B, "absolute"),
    "multinomial": MultinomialModel(X, CLASSES),
}


def quietly(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return solve(*args, **options)


@pytest.fixture
def called(monkeypatch):
    """The names of the surrogates that were built, filled while a test runs."""
    names = set()

    def counted(name, build):
        def built(*args):
            names.add(name)
            return build(*args)

        return built

    for name, build in list(SURROGATES.items()):
        monkeypatch.setitem(SURROGATES, name, counted(name, build))
    level_model = _kernels.level_model

    def on_model(*args):
        names.add("concave" if args[-1] is None else "paper")
        return level_model(*args)

    monkeypatch.setattr(_kernels, "level_model", on_model)
    return names


# --- what is called

CHOICES = [
    # model, options of `solve`, what must be called, what Result.surrogate must say
    ("squared", {}, "concave", "concave"),
    ("logistic", {}, "concave", "concave"),
    ("logistic", {"subsolver": "newton"}, "concave", "concave"),
    ("logistic", {"subsolver": "newton", "start": "direct"}, "concave", "concave"),
    ("logistic", {"subsolver": "newton", "surrogate": "paper"}, "paper", "paper"),
    ("logistic", {"surrogate": "concave"}, "concave", "concave"),
    ("logistic", {"subsolver": "spectral", "working_set": True}, "paper", "paper"),
    ("logistic", {"subsolver": "spectral", "stopping": "change", "tol": 1e-3}, "paper", "paper"),
    ("logistic", {"subsolver": "spectral", "levels": "harmonic", "tol": 1e-2}, "paper", "paper"),
    ("logistic", {"subsolver": "spectral", "levels": "geometric", "tol": 1e-3}, "paper", "paper"),
    ("absolute", {"tol": 1e-2}, "paper", "paper"),
    ("absolute", {"tol": 1e-2, "surrogate": "concave"}, "concave", "concave"),
    *[
        ("logistic", {"subsolver": subsolver, **asked, **more}, called, called)
        for subsolver, more in (
            ("spectral", {"tol": 1e-3}),
            ("nesterov", {"tol": 1e-2, "start": "direct"}),
            ("acsa", {"tol": 1e-1, "max_iter": 5, "start": "direct"}),
            ("svrg", {"tol": 1e-1, "max_iter": 5, "random_state": 0}),
            ("sgd", {"tol": 1e-1, "max_iter": 5, "random_state": 0}),
        )
        for asked, called in (({}, "paper"), ({"surrogate": "paper"}, "paper"), ({"surrogate": "concave"}, "concave"))
    ],
    *[(loss, {"preset": "paper", "max_iter": 4, "random_state": 0}, "paper", "paper") for loss in MODELS][:3],
    ("multinomial", {}, "concave", "group"),
    ("multinomial", {"subsolver": "spectral"}, "concave", "group"),
    ("multinomial", {"surrogate": "concave"}, "concave", "group"),
    ("multinomial", {"preset": "paper", "max_iter": 4, "random_state": 0}, "concave", "group"),
]


@pytest.mark.parametrize(("loss", "options", "expected", "said"), CHOICES, ids=str)
def test_the_surrogate_is_the_one_that_the_documentation_names(called, loss, options, expected, said):
    fit = quietly(Problem(MODELS[loss], PHI, 1.7), **options)
    assert called == {expected}
    assert fit.surrogate == said


@pytest.mark.parametrize("asked", [{}, {"surrogate": "paper"}])
def test_a_function_is_minimised_with_the_paper_s_surrogate(called, asked):
    goal = np.array([2.0, -1.0, 0.5])
    fit = minimize(lambda x: (0.5 * float(np.sum((x - goal) ** 2)), x - goal), PHI, 1.2, n=3, smoothness=1.0, **asked)
    assert called == {"paper"} and fit.surrogate == "paper"


@pytest.mark.parametrize(("subsolver", "expected"), [("spectral", "paper"), ("newton", "concave")])
def test_estimators_take_what_solve_takes(called, subsolver, expected):
    SparseRegressor(constraint="mcp", level=1.7, subsolver=subsolver, start="direct", tol=1e-4).fit(X, B)
    assert called == {expected}


def test_the_approximate_kkt_statement_is_about_the_run_s_own_subproblem(monkeypatch):
    asked = []
    original = conclusion.nearby_kkt
    monkeypatch.setattr(conclusion, "nearby_kkt", lambda *a, **k: asked.append(k["surrogate"]) or original(*a, **k))
    problem = Problem(MODELS["absolute"], PHI, 1.7)
    quietly(problem, preset="paper", max_iter=4, random_state=0)
    quietly(problem, subsolver="acsa", surrogate="concave", max_iter=3, tol=1e-9)
    assert asked == [linearise, majorise]


def test_several_classes_under_the_preset_are_said_to_use_the_group_surrogate():
    grouped, plain = (
        quietly(Problem(MODELS[loss], PHI, 1.7), preset="paper", max_iter=4, random_state=0)
        for loss in ("multinomial", "logistic")
    )
    assert "the group surrogate was used" in grouped.message and "group" not in plain.message
    assert "the group surrogate is used" in " ".join(solve.__doc__.split())
    # Where it comes to the end of its tolerance the message says so, too.
    loose = quietly(Problem(MODELS["multinomial"], PHI, 1.7), preset="paper", max_iter=4, random_state=0, tol=1.0)
    assert loose.status.name == "SOLVED" and "the group surrogate was used" in loose.message


# --- the sets of the steps

FAMILY = [L1(1.0), MCP(1.0, 2.0), SCAD(0.2, 3.0), Exp(1.0), Log(2.0), Lp(0.5, 0.2), NegativeLp(-1.0, 1.0)]


def papers_g_k(constraint, x, center):
    """λ‖x‖₁ − h(c) − ⟨∇h(c), x − c⟩, with h = λ|·| − φ: nothing of the surrogate's code."""
    lam, t = constraint.lam, np.abs(center)
    h = lam * float(np.sum(t)) - constraint.value(center)
    grad_h = (lam - constraint.slope(t)) * np.sign(center)
    return lam * float(np.sum(np.abs(x))) - h - float(grad_h @ (x - center))


def wrong_start(constraint, level):
    """A feasible start with a large coefficient of the wrong sign, which the first steps must turn round."""
    x0 = np.array([-1.0, 0.6, 0.0, 0.3, 0.0, 0.0])
    while constraint.value(x0) > 0.4 * level:
        x0 *= 0.8
    return x0


def worst_excess(constraint, **options):
    """The largest g_k(x^k) − η_k over the steps, relative to η_k."""
    level = 0.9 * constraint.value(np.array([1.0, 1.0, 0.5]))
    x0 = wrong_start(constraint, level)
    last, excess = x0, []

    def note(record, x):
        nonlocal last
        excess.append((papers_g_k(constraint, x, last) - record.eta_k) / record.eta_k)
        last = np.array(x)

    fit = quietly(Problem(MODELS["squared"], constraint, level), x0=x0, callback=note, **options)
    assert fit.n_outer == len(excess) and fit.x[0] > 0  # the sign was turned
    return max(excess)


RUNS = {
    "preset": {"preset": "paper", "max_iter": 12, "gamma": 0.2, "random_state": 0},
    "auto": {"subsolver": "spectral", "max_iter": 12},
    "paper": {"subsolver": "spectral", "surrogate": "paper", "max_iter": 12},
}


def check_steps_obey_the_paper_s_g_k(options):
    for constraint in FAMILY:
        assert worst_excess(constraint, **options) <= 1e-12


@pytest.mark.parametrize("run", RUNS)
def test_every_step_obeys_the_paper_s_g_k(run):
    check_steps_obey_the_paper_s_g_k(RUNS[run])


def test_steps_with_the_concave_surrogate_do_not():
    """So that the test above can fail: where h bends, the tighter surrogate leaves the paper's set."""
    beyond = [worst_excess(c, subsolver="spectral", surrogate="concave", max_iter=12) for c in FAMILY]
    assert beyond[0] <= 1e-12  # the two are one for ℓ1
    assert min(beyond[1:]) > 1e-3


@pytest.mark.parametrize("constraint", FAMILY[1:], ids=str)
@pytest.mark.parametrize("asked", [{}, {"surrogate": "paper"}])
def test_a_step_ends_at_the_projection_onto_the_paper_s_set(constraint, asked):
    """ψ = ½‖x − b‖²: the subproblem's solution is a projection, here by slow code with the paper's (u, τ)."""
    goal, center = np.array([2.0, -1.0, 0.5]), np.array([-0.4, 0.2, 0.0])
    level, gamma = 2.0 * constraint.value(center), 0.5
    t = np.abs(center)
    u = -(constraint.lam - constraint.slope(t)) / constraint.lam * np.sign(center)
    tau = (level - constraint.value(center) + float(np.sum(constraint.slope(t) * t))) / constraint.lam
    target = (goal + gamma * center) / (1 + gamma)
    expected, _ = reference.project(target, u, tau, np.ones(3), np.zeros(3, bool))
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minimize(
            lambda x: (0.5 * float(np.sum((x - goal) ** 2)), x - goal),
            constraint,
            level,
            center,
            smoothness=1.0,
            gamma=gamma,
            max_iter=3,
            subsolver=Spectral(max_steps=1000, accuracy=0.0),
            callback=lambda record, x: found.append(np.array(x)),
            **asked,
        )
    moved = next(x for x in found if np.any(x != center))  # a first step checks whether the level is active
    np.testing.assert_allclose(moved, [float(e) for e in expected], atol=1e-6)


# --- faults


def always_concave_by_choice(patch):
    patch.setattr(solve_module, "_surrogate", lambda *args: "concave")


def always_concave_by_name(patch):
    patch.setattr(solve_module, "surrogate_by_name", lambda name: majorise)


def always_concave_by_registry(patch):
    patch.setitem(surrogates.SURROGATES, "paper", majorise)


@pytest.mark.parametrize("fault", [always_concave_by_choice, always_concave_by_name, always_concave_by_registry])
@pytest.mark.parametrize("run", RUNS)
def test_a_run_that_always_takes_the_concave_surrogate_is_caught(monkeypatch, fault, run):
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        check_steps_obey_the_paper_s_g_k(RUNS[run])
