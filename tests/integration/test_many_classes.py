"""Many classes of one or two samples each: work is bounded by counts, not by the clock."""

from __future__ import annotations

import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse

import levelprox.subset.nonsmooth_search
import levelprox.subset.refit
import levelprox.subset.second_order
from levelprox import MultinomialModel, OneVsRestModel, Problem, SparseClassifier, best_subset, certify_model, solve
from levelprox._runtime import TimeLimitError
from levelprox.constraints import MCP
from levelprox.designs import DenseDesign
from levelprox.estimators._fit import Task
from levelprox.losses import Multinomial
from levelprox.methods import Stop
from levelprox.methods.continuation import continues
from levelprox.result import Status
from levelprox.subset.column_cache import Columns
from levelprox.subset.fit import Fit, gap_bound
from levelprox.subset.newton import newton_step
from levelprox.subset.nonsmooth_refit import ExactRefits, KinkedModel, exact_fit
from levelprox.subset.swap_bounds import _inverse, _regularised_inverse
from levelprox.subset.swaps import SwapSearch
from tests.support.clocks import until


def data(classes, n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), np.r_[np.arange(classes), rng.integers(0, classes, n - classes)]


def problem(model):
    return Problem(model, MCP.from_threshold(1.0), 2.5)


def searched(model):
    """Return one feature of classes that it separates in part: the message says that no coefficients are the best."""
    found = best_subset(model, 1)
    assert found.status is Status.SOLVED
    assert found.stationarity <= 1e-8
    assert "these coefficients are not proved to be the best of these features" in found.message
    return found


def test_a_softmax_model_without_an_intercept_can_be_searched():
    found = best_subset(MultinomialModel(*data(20, 30, 3)), 1)
    assert found.support.size == 1


def test_a_search_takes_few_refits():
    found = searched(MultinomialModel(*data(60, 90, 10), fit_intercept=True))
    assert found.support.size == 1
    assert found.n_refits <= 40


@pytest.mark.parametrize("kind", [MultinomialModel, OneVsRestModel])
def test_by_default_many_classes_start_directly(kind):
    X, label = data(60, 90, 10)
    assert not continues("auto", problem(kind(X, label)))
    assert continues("continuation", problem(kind(X, label)))
    assert continues("auto", problem(kind(X, label % 10)))


def test_a_direct_start_has_no_stages():
    found = solve(problem(OneVsRestModel(*data(60, 90, 10), fit_intercept=True)), tol=1e-3)
    assert found.stages == ()


def test_products_in_one_call_are_those_of_each_class():
    X, label = data(20, 40, 3)
    dense, sparse = MultinomialModel(X, label), MultinomialModel(scipy.sparse.csr_array(X), label)
    x = np.random.default_rng(1).standard_normal(dense.dimension)
    z = dense.margins(x)
    np.testing.assert_allclose(z, sparse.margins(x), atol=1e-14)
    np.testing.assert_allclose(dense.gradient_of(z), sparse.gradient_of(z), atol=1e-15)
    np.testing.assert_allclose(dense.hessian_of(z), sparse.hessian_of(z), atol=1e-15)
    along = dense.hessian_product_of(z)(x)
    np.testing.assert_allclose(along, dense.hessian_of(z) @ x, atol=1e-13)


def test_curvatures_have_their_digits_where_a_class_is_nearly_certain():
    z = np.array([[40.0, 0.0, 1.0], [0.0, 0.5, -1.0]])
    p = Multinomial.probabilities(z)
    each = np.stack([Multinomial.bend(p, a, a) for a in range(3)], axis=1) / 2
    model = MultinomialModel(np.eye(2), [0, 2], classes=[0, 1, 2])
    for hessian in (model.hessian_of(z), model.over(np.eye(2)).hessian_of(z)):
        np.testing.assert_allclose(np.diagonal(hessian), each.ravel(), rtol=1e-13)
    blocks = model.class_fits.derivatives(list(np.eye(2)), [], z)[2]
    np.testing.assert_allclose(np.einsum("jaa->ja", blocks), each, rtol=1e-13)


def hessian_and_gradient(classes, n, d, loss="logistic"):
    X, label = data(classes, n, d)
    model = OneVsRestModel(X, label, loss, fit_intercept=True)
    z = model.margins(0.3 * np.random.default_rng(2).standard_normal(model.dimension))
    return model, z, model.hessian_of(z, True), model.gradient_of(z)


def test_classes_that_are_fitted_one_by_one_have_small_inverses():
    model, _, hessian, _ = hessian_and_gradient(20, 60, 3)
    np.testing.assert_allclose(_inverse(hessian, model), _regularised_inverse(hessian), rtol=1e-8, atol=1e-12)


def test_newton_steps_and_gaps_class_by_class_are_those_of_all_classes():
    model, z, hessian, gradient = hessian_and_gradient(20, 60, 3)
    step = newton_step(model, hessian, gradient, np.zeros_like(hessian))
    np.testing.assert_allclose(step, -np.linalg.solve(hessian, gradient), rtol=1e-8)
    flat, _ = gap_bound(model, model.value_of(z), z, hessian / 1e6)  # steps so long that no bound holds
    assert flat == np.inf
    bent, _ = gap_bound(model, model.value_of(z), z, hessian * 1e6)  # and so short that they change no margin
    np.testing.assert_allclose(bent, -0.5e-6 * float(gradient @ step), rtol=1e-3)


def test_columns_of_all_classes_take_one_product_for_each_feature(monkeypatch):
    model, calls, product = OneVsRestModel(*data(40, 60, 5)), [], DenseDesign.matvec
    expected = [model.moved(unit) for unit in np.eye(model.dimension)[40:120]]
    monkeypatch.setattr(DenseDesign, "matvec", lambda self, x: calls.append(1) or product(self, x))
    columns = Columns(model)
    monkeypatch.setattr(columns, "_most", 0)
    moves = [np.array(move) for move in columns.moves(np.array([1, 2]))]
    assert len(calls) <= 2
    np.testing.assert_array_equal(moves, expected)


def test_blocks_of_many_classes_are_those_of_the_hessian():
    X, label = data(20, 40, 3)
    for model in (MultinomialModel(X, label), MultinomialModel(X, label, fit_intercept=True)):
        z = model.margins(np.random.default_rng(3).standard_normal(model.dimension))
        hessian = model.hessian_of(z).reshape(-1, 20, model.dimension // 20, 20)
        blocks = model.feature_hessians_of(z)
        for j, block in enumerate(blocks):
            np.testing.assert_allclose(block, hessian[j, :, j, :], atol=1e-14)


# --- losses with kinks


def hinge(classes, n, d, seed=0):
    return OneVsRestModel(*data(classes, n, d, seed), "hinge", fit_intercept=True)


def test_classes_share_the_coordinates_of_their_columns(monkeypatch):
    model, made = hinge(20, 40, 6), []
    make = KinkedModel.columns
    features = np.array([0, 1, 6])
    near = Fit(np.empty(0, np.intp), np.empty(0), np.inf, np.empty(0))
    columns = [np.ascontiguousarray(model.design.matvec(unit)) for unit in np.eye(7)[features]]
    alone = [exact_fit(part, columns, np.zeros(3, np.bool_), np.zeros(3)) for part in model.parts]
    monkeypatch.setattr(KinkedModel, "columns", lambda *given: made.append(1) or make(*given))
    fit = ExactRefits(problem(model))(features, near, lambda: np.inf)
    assert len(made) == 1
    np.testing.assert_array_equal(fit.x.reshape(3, -1), np.stack([one.x for one in alone], axis=1))
    assert fit.error == pytest.approx(sum(one.error for one in alone), rel=1e-12)


def test_a_class_without_loss_is_fitted_once(monkeypatch):
    model, made = OneVsRestModel(np.arange(30.0)[:, None], np.arange(30) // 15, "hinge", fit_intercept=True), []
    fit = KinkedModel.fit
    monkeypatch.setattr(KinkedModel, "fit", lambda *given: made.append(1) or fit(*given))
    columns = [np.arange(30.0), np.ones(30)]
    vertex = exact_fit(model.parts[0], columns, np.zeros(2, np.bool_), np.zeros(2))
    assert vertex.psi <= 1e-13
    assert len(made) == 1


def test_refits_with_kinks_are_bounded_and_counted(monkeypatch):
    model = hinge(17, 24, 6, seed=1)
    whole = best_subset(model, 2)
    assert whole.swaps.proved
    assert whole.additions.proved
    monkeypatch.setattr(levelprox.subset.nonsmooth_search, "_CLASS_REFITS", 17 * 3)
    monkeypatch.setattr(levelprox.subset.nonsmooth_search, "_LEAST_ADDITION_REFITS", 2)
    found = best_subset(model, 2)
    assert found.n_refits < whole.n_refits
    assert (found.swaps.total, found.additions.total) == (8, 4)
    assert found.swaps.examined < 8
    assert found.additions.examined == 2
    assert found.psi >= whole.psi
    assert f"the {found.swaps.examined} examined of 8" in found.message or "not examined" in found.message


def test_a_proof_takes_the_refits_that_it_takes(monkeypatch):
    monkeypatch.setattr(levelprox.subset.nonsmooth_search, "_CLASS_REFITS", 0)
    found = best_subset(hinge(17, 30, 4), 1, prove=True)
    assert found.swaps.proved
    assert found.additions.proved


def test_room_is_used_whatever_the_bound_on_refits(monkeypatch):
    monkeypatch.setattr(levelprox.subset.nonsmooth_search, "_CLASS_REFITS", 0)
    monkeypatch.setattr(levelprox.subset.nonsmooth_search, "_LEAST_ADDITION_REFITS", 0)
    found = best_subset(hinge(17, 30, 4), 3)
    assert found.support.size == 3 or (found.multiplier == 0 and found.additions.proved)


# --- softmax


def test_swaps_of_many_classes_end_with_their_share_of_the_work(monkeypatch):
    model = MultinomialModel(*data(17, 24, 3), fit_intercept=True)
    monkeypatch.setattr(SwapSearch, "_swapped", lambda *_: pytest.fail("a swap is tried"))
    monkeypatch.setattr(levelprox.subset.second_order, "_SEARCH_FACTOR_WORK", -1)
    found = searched(model)
    assert (found.swaps.examined, found.swaps.total) == (0, 2)
    assert "not examined" in found.message
    assert found.support.size == 1


def test_the_answer_is_fitted_to_the_end():
    model = MultinomialModel(*data(60, 90, 8), fit_intercept=True)
    refits = levelprox.subset.refit.Refits(problem(model), None)
    features = np.array([0, 1, 2, 3, 4, 8])
    begin = Fit(features, np.zeros(360), model.value_of(model.origin), model.origin)
    few = refits(features, begin, 1e-8, downhill=True)
    done = refits.finished(few)
    assert done.psi <= few.psi
    largest = np.max(np.abs(model.restrict(features).gradient_of(done.margins)))
    assert largest <= 1e-7
    assert refits.factorised > 0


# --- estimators

CASES = [
    ("softmax", "logistic", {}),
    ("softmax", "logistic", {"level": 2.5}),
    ("softmax", "logistic", {"n_features": 3}),
    ("softmax", "logistic", {"n_features": 6}),
    ("ovr", "logistic", {}),
    ("ovr", "logistic", {"level": 2.5}),
    ("ovr", "logistic", {"n_features": 3}),
    ("ovr", "logistic", {"n_features": 6}),
    ("ovr", "squared_hinge", {"level": 2.5}),
    ("ovr", "squared_hinge", {"n_features": 6}),
    ("ovr", "hinge", {}),
    ("ovr", "hinge", {"n_features": 3}),
    ("ovr", "hinge", {"n_features": 6}),
]
NAMES = [f"{kind}-{loss}-{budget or 'default'}" for kind, loss, budget in CASES]


def fitted(kind, loss, budget, X, label, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # limits, and separable classes
        return SparseClassifier(loss, multi_class=kind, **budget, **options).fit(X, label)


def check_claims(model, X, label):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)  # scikit-learn's
        claims = certify_model(model, X, label)
    assert claims.hold, str(claims)
    return claims


@pytest.mark.parametrize(("kind", "loss"), [("softmax", "logistic"), ("ovr", "logistic"), ("ovr", "hinge")])
def test_a_time_limit_holds(processor_clock, kind, loss):
    X, label = data(60, 90, 8)
    began = time.process_time()
    model = fitted(kind, loss, {"n_features": 3}, X, label, time_limit=0.05, callback=until(0.05))
    assert time.process_time() - began <= 0.05 + 1.0
    assert model.status_ is Status.TIME_LIMIT
    assert model.selected_features_.size <= 3


@pytest.mark.parametrize(("kind", "loss"), [("softmax", "logistic"), ("ovr", "logistic"), ("ovr", "hinge")])
def test_claims_hold_for_many_classes(kind, loss):
    X, label = data(18, 40, 4)
    check_claims(fitted(kind, loss, {"n_features": 1}, X, label), X, label)


def test_claims_of_a_search_with_kinks_that_a_limit_cuts_short_hold(monkeypatch):
    X, label = data(17, 30, 4, seed=1)
    exactly, calls = ExactRefits.__call__, []

    def without_time(self, *arguments):
        calls.append(1)
        if len(calls) > 1:
            raise Stop
        return exactly(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ExactRefits, "__call__", without_time)
        model = fitted("ovr", "hinge", {"n_features": 2}, X, label)
    assert model.status_ is Status.TIME_LIMIT
    assert model.selected_features_.size == 2  # by the envelope
    claims = check_claims(model, X, label)
    assert "stationarity" in claims.not_examined


@pytest.mark.extended
@pytest.mark.parametrize(("kind", "loss", "budget"), CASES, ids=NAMES)
def test_a_hundred_classes_end_in_thirty_seconds(kind, loss, budget):
    X, label = data(100, 150, 12)
    began = time.process_time()
    model = fitted(kind, loss, budget, X, label)
    assert time.process_time() - began < 30
    check_claims(model, X, label)
    assert time.process_time() - began < 45


@pytest.mark.extended
@pytest.mark.parametrize(("kind", "loss", "budget"), CASES, ids=NAMES)
def test_a_hundred_classes_end_within_their_time_limit(processor_clock, kind, loss, budget):
    X, label = data(100, 150, 12)
    began = time.process_time()
    model = fitted(kind, loss, budget, X, label, time_limit=2.0)
    assert time.process_time() - began <= 3.0
    check_claims(model, X, label)


def test_a_limit_within_the_last_check_of_the_ridge_leaves_the_fit():
    """Whether coefficients need a ridge after all is not known then; the fit with one is complete."""

    def out_of_time(x, refit):
        raise TimeLimitError

    task = SimpleNamespace(inside=lambda found: np.ones(2), features=np.flatnonzero, is_undetermined=out_of_time)
    solution = object()
    found, why = Task._determined_after_all(task, None, None, solution, np.array([0]))
    assert found is solution and why is not None
