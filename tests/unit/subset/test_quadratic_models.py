"""Sets of features from second-order models: as good as those of the search without them, and found without hanging."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse

from levelprox import LinearModel, SparseClassifier, SparseClassifierCV, _kernels, best_subset
from levelprox.problem import SubsetProblem
from levelprox.subset import smooth_search as search
from levelprox.subset.starts import has_parabolas, shared


def model(loss, n=100, d=10, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n, 1))
    z = X[:, :3] @ np.array([1.0, -1.0, 0.7])
    y = {
        "logistic": lambda: np.where(rng.random(n) < 1 / (1 + np.exp(-z)), 1.0, -1.0),
        "poisson": lambda: rng.poisson(np.exp(z)).astype(np.float64),
        "gamma": lambda: rng.gamma(2.0, np.exp(z) / 2) + 1e-6,
    }[loss]()
    return LinearModel(X, y, loss, fit_intercept=True, **options)


def problem_of(objective):
    return SubsetProblem(objective, 3)


@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma"])
@pytest.mark.parametrize("k", [1, 3, 6])
def test_no_answer_is_worse_than_without_models(loss, k, monkeypatch):
    for seed in range(2):
        objective = model(loss, seed=seed)
        assert has_parabolas(problem_of(objective))
        new = best_subset(objective, k)
        monkeypatch.setattr(search, "has_parabolas", lambda problem: False)
        old = best_subset(objective, k)
        monkeypatch.undo()
        assert new.psi <= old.psi + 1e-9 * abs(old.psi) and new.swaps.proved and new.status is old.status


def test_models_are_for_convex_losses_with_many_samples_and_no_signs():
    objective = model("logistic")
    assert has_parabolas(problem_of(objective))
    assert not has_parabolas(problem_of(model("logistic", n=30)))
    assert not has_parabolas(problem_of(LinearModel(objective.design, objective.target, "sigmoid")))
    assert not has_parabolas(problem_of(LinearModel(objective.design, objective.target, "squared")))
    signed = SubsetProblem(objective, 3, nonnegative=True)
    assert not has_parabolas(signed)


def test_the_answer_at_k_does_not_depend_on_what_earlier_searches_left():
    first, second = model("logistic"), model("logistic")
    for k in (1, 2, 5):
        best_subset(first, k)
    assert shared(problem_of(first)).models is not None
    for k in (3, 4):
        one, other = best_subset(first, k), best_subset(second, k)
        assert one.x.tobytes() == other.x.tobytes() and one.swaps == other.swaps


def test_separable_data_end(recwarn):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 8))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    chosen = SparseClassifierCV(n_features=[1, 2, 4], cv=3, ridge=0).fit(X, y)
    assert chosen.scoring_ == "accuracy" and chosen.best_params_["n_features"] >= 2
    assert SparseClassifier(n_features=1).fit(X, y).status_.success


@pytest.mark.parametrize("square", [1.0, 1 - 1e-12, 1 - 1e-6])
def test_a_search_ends_where_nothing_is_left_or_rounding_makes_it_less(square):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 12))
    A /= np.linalg.norm(A, axis=0)
    gram, x = np.ascontiguousarray(A.T @ A), np.r_[1.0, -1.0, np.zeros(10)]
    pull = gram @ x
    found = _kernels.GramSearch(gram, pull, square * float(pull @ x), np.zeros(12, np.uint8))
    for k in (0, 1, 2, 3, 12):
        assert {0, 1} <= set(found.best(k)) or k < 2


def test_near_equal_columns_end_and_kept_ones_stay():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((40, 6))
    A = np.column_stack([A, A + 1e-7 * rng.standard_normal((40, 6)), A])
    A /= np.linalg.norm(A, axis=0)
    b = A[:, :3].sum(axis=1)
    kept = np.zeros(18, np.uint8)
    kept[5] = 1
    found = _kernels.GramSearch(np.ascontiguousarray(A.T @ A), A.T @ b, float(b @ b), kept)
    for k in (1, 3, 6, 18):
        features = found.best(k)
        assert 5 in features and features == sorted(features) and len(features) <= k + 1
    with pytest.raises(ValueError, match="out of range"):
        found.best(2, [18])


# --- Gram matrices by rows


def parabola(n=40, d=12, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, d)) + rng.standard_normal((n, 1))
    A = np.ascontiguousarray(A / np.linalg.norm(A, axis=0))
    return A, A[:, :4] @ np.array([1.0, -1.0, 0.5, 2.0]) + 0.3 * rng.standard_normal(n)


def loss_over(A, b, features):
    x = np.linalg.lstsq(A[:, features], b, rcond=None)[0]
    return float(np.sum((b - A[:, features] @ x) ** 2))


def searches(A, b, kept=None):
    """Return a search with all rows at hand, one of samples, and one whose rows the caller computes."""
    kept = np.zeros(A.shape[1], np.uint8) if kept is None else kept
    gram, pull, square, ones = np.ascontiguousarray(A.T @ A), A.T @ b, float(b @ b), np.ones(A.shape[1])
    return (
        _kernels.GramSearch(gram, pull, square, kept),
        _kernels.GramSearch(A, None, ones, pull, square, kept),
        _kernels.GramSearch(lambda j: gram[j], 10.0, ones, pull, square, kept),
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [1, 2, 4])
def test_rows_computed_on_demand_lead_to_the_best_set_of_few_features(seed, k):
    A, b = parabola(seed=seed)
    least = min(loss_over(A, b, list(features)) for features in itertools.combinations(range(12), k))
    for gram in searches(A, b):
        assert loss_over(A, b, gram.best(k)) == pytest.approx(least, rel=1e-9)
        assert gram.forward(3) == gram.forward(5)[:3]
        assert 0 < gram.n_rows <= 12


@pytest.mark.parametrize("order", [(9, 1, 4, 2), (1, 2, 4, 9), (4, 4, 9, 4)])
def test_sets_of_the_paths_of_penalised_fits_do_not_depend_on_the_order_of_k(order):
    A, b = parabola(n=60, d=80, seed=3)
    for place in (1, 2):
        shared_by_all = searches(A, b)[place]
        for k in order:
            alone = searches(A, b)[place]
            assert shared_by_all.best(k) == alone.best(k)
            assert shared_by_all.n_rows == alone.n_rows


def test_kept_features_are_in_every_set_and_constant_or_equal_columns_enter_once():
    A, b = parabola()
    A[:, 5] = A[:, 0]
    kept = np.zeros(12, np.uint8)
    kept[7] = 1
    for gram in searches(A, b, kept):
        for k in (0, 1, 3, 12):
            found = gram.best(k)
            assert 7 in found and len(found) <= k + 1 and not {0, 5} <= set(found)
    none = _kernels.GramSearch(np.zeros((40, 12)), None, np.zeros(12), np.zeros(12), float(b @ b), kept)
    assert none.best(3) == [7]


def test_a_ridge_is_on_the_diagonal_and_errors_of_rows_reach_the_caller():
    A, b = parabola()
    ridge, kept = np.full(12, 0.5), np.zeros(12, np.uint8)
    gram = np.ascontiguousarray(A.T @ A + np.diag(ridge))
    whole = _kernels.GramSearch(gram, A.T @ b, float(b @ b), kept)
    rows = _kernels.GramSearch(A, ridge, 1 + ridge, A.T @ b, float(b @ b), kept)
    assert rows.best(3) == whole.best(3)

    def interrupted(j):
        raise KeyboardInterrupt

    for row, error in ((interrupted, KeyboardInterrupt), (lambda j: gram[j, :5].copy(), ValueError)):
        with pytest.raises(error):
            _kernels.GramSearch(row, 1.0, np.ones(12), A.T @ b, float(b @ b), kept).best(3)


@pytest.mark.parametrize("shape", [(40, 90), (60, 60), (200, 30)])
@pytest.mark.parametrize("kind", ["dense", "sparse", "weighted", "ridge", "float32"])
def test_sets_by_the_gram_matrix_are_as_good_as_those_of_other_starts(shape, kind, monkeypatch):
    rng = np.random.default_rng(shape[1])
    X = rng.standard_normal(shape) + 0.7 * rng.standard_normal((shape[0], 1))
    X[:, 3], X[:, 4] = 2.0, X[:, 5]  # constant, and equal
    b = X[:, :8] @ rng.standard_normal(8) + rng.standard_normal(shape[0]) + 5
    options = {"sample_weight": rng.integers(0, 3, shape[0]).astype(float)} if kind == "weighted" else {}
    options |= {"ridge": 0.1} if kind == "ridge" else {}
    X = scipy.sparse.csc_array(X) if kind == "sparse" else X.astype(np.float32) if kind == "float32" else X
    objective = LinearModel(X, b, "squared", fit_intercept=True, **options)
    for k in (1, 3, 7):
        new = best_subset(objective, k)
        with monkeypatch.context() as patch:
            patch.setattr(search, "has_gram", lambda problem: False)
            patch.setattr("levelprox._best_subset._reduced", lambda *args: None)
            old = best_subset(LinearModel(X, b, "squared", fit_intercept=True, **options), k)
        assert new.psi <= old.psi * (1 + 1e-9) and new.swaps.proved and new.status is old.status


def test_a_target_that_two_features_fit_takes_two():
    X = np.random.default_rng(0).standard_normal((60, 200))
    assert best_subset(LinearModel(X, X[:, 0] + X[:, 3]), 3).support.tolist() == [0, 3]
