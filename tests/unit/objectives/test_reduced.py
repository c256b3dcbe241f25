"""Squared loss with few features and many samples: the triangular factor, searches by its Gram matrix, folds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.model_selection import KFold, ShuffleSplit

from levelprox import LinearModel, SparseRegressor, SparseRegressorCV, best_subset
from levelprox import _best_subset as budget
from levelprox.designs import ScaledDesign
from levelprox.estimators._folds import SquaredLossFolds
from levelprox.objectives.reduced import ReducedModel, is_reducible, reduced


def samples(n=120, d=12, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.7 * rng.standard_normal((n, 1))
    y = X[:, :4] @ np.array([1.0, -2.0, 0.5, 1.0]) + noise * rng.standard_normal(n) + 3.0
    return X, y


def weights(n, seed=1):
    return np.random.default_rng(seed).random(n) + 0.1


def models():
    X, y = samples()
    n = y.size
    yield "plain", LinearModel(X, y)
    yield "intercept", LinearModel(X, y, fit_intercept=True)
    yield "weights", LinearModel(X, y, sample_weight=weights(n), fit_intercept=True)
    yield "offset", LinearModel(X, y, offset=np.linspace(-1, 1, n), fit_intercept=True)
    yield "standardised", LinearModel(ScaledDesign.standardized(X + 50.0), y, fit_intercept=True)
    yield "units", LinearModel(X * np.logspace(-4, 4, X.shape[1]), y, fit_intercept=True)
    yield "means", LinearModel(X + np.linspace(0, 3000, X.shape[1]), y, fit_intercept=True)
    yield "float32", LinearModel(X.astype(np.float32), y, fit_intercept=True)
    yield "fortran", LinearModel(np.asfortranarray(X), y)


CASES = dict(models())


@pytest.fixture
def as_before(monkeypatch):
    """The search over the samples themselves."""

    def found(objective, k, **options):
        with monkeypatch.context() as patch:
            patch.setattr(budget, "reduced", lambda data, standard: None)
            return best_subset(objective, k, **options)

    return found


def spied(monkeypatch):
    seen = []

    def spy(data, standard):
        seen.append(reduced(data, standard))
        return seen[-1]

    monkeypatch.setattr(budget, "reduced", spy)
    return seen


@pytest.mark.parametrize("case", CASES)
def test_the_triangle_has_the_loss_of_the_samples(case):
    objective = CASES[case]
    standard = objective.standardised() or objective
    model = reduced(objective, standard)
    assert isinstance(model, ReducedModel) and model.n_margins < objective.n_margins
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal(model.dimension)
        whole = objective.value_and_gradient(model.unstandardised(x))[0]
        assert model.value_and_gradient(x)[0] == pytest.approx(whole, rel=1e-9)  # with the best intercept


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("k", [0, 2, 5])
def test_answers_are_those_of_the_search_over_samples(case, k, as_before):
    objective = CASES[case]
    new, old = best_subset(objective, k), as_before(objective, k)
    assert new.psi == pytest.approx(old.psi, rel=1e-11) and new.support.tolist() == old.support.tolist()
    assert np.allclose(new.x, old.x, rtol=1e-7, atol=1e-9 * np.max(np.abs(old.x)))
    assert new.swaps == old.swaps and new.addition == old.addition and new.additions == old.additions
    assert new.multiplier == pytest.approx(old.multiplier, rel=1e-6, abs=1e-10) and new.status is old.status
    assert new.stationarity <= 1e-9


def test_kept_features_are_in_the_set_and_do_not_count(as_before):
    X, y = samples()
    objective = LinearModel(X, y, fit_intercept=True)
    new, old = best_subset(objective, 2, keep=[7, 9]), as_before(objective, 2, keep=[7, 9])
    assert new.support.tolist() == old.support.tolist() and new.support.size == 2
    assert np.all(new.x[[7, 9]] != 0) and new.psi == pytest.approx(old.psi, rel=1e-11)
    begun, before = (find(objective, 3, start=[8, 10]) for find in (best_subset, as_before))
    assert begun.support.tolist() == before.support.tolist()


def test_sets_are_the_best_of_all():
    X, y = samples(d=9, noise=2.0)
    objective = LinearModel(X, y, fit_intercept=True)
    for k in (1, 2, 3, 5):
        least = min(
            np.linalg.lstsq(np.column_stack([X[:, S], np.ones(y.size)]), y, rcond=None)[1][0]
            for S in map(list, itertools.combinations(range(9), k))
        )
        assert best_subset(objective, k).psi == pytest.approx(least / y.size, rel=1e-10)


def near_equal(X, y):
    return np.column_stack([X, X[:, 0] + 1e-9 * X[:, 1]]), y


def noiseless(X, y):
    return X, X[:, 0] - X[:, 1]


def constant(X, y):
    return X, np.ones(y.size)


@pytest.mark.parametrize("hard", [near_equal, noiseless, constant])
def test_ill_conditioned_data_are_not_reduced(hard, monkeypatch):
    X, y = hard(*samples())
    seen = spied(monkeypatch)
    found = best_subset(LinearModel(X, y, fit_intercept=True), 2)
    assert seen == [None] and found.success


def test_data_that_are_not_reduced_have_the_sets_of_their_samples(monkeypatch):
    """The triangle has the Gram matrix of the samples."""
    X, y = near_equal(*samples())
    triangle = [best_subset(LinearModel(X, y, fit_intercept=True), k) for k in (2, 4)]
    monkeypatch.setattr("levelprox.subset.starts.is_reducible", lambda objective: False)
    whole = [best_subset(LinearModel(X, y, fit_intercept=True), k) for k in (2, 4)]
    assert [one.psi for one in triangle] == pytest.approx([one.psi for one in whole], rel=1e-9)
    assert [one.swaps for one in triangle] == [one.swaps for one in whole]


def test_means_that_cost_digits_are_taken_out_first_or_there_is_no_triangle(monkeypatch):
    X, y = samples()
    seen = spied(monkeypatch)
    far = best_subset(LinearModel(X + 1e7, y, fit_intercept=True), 3)
    near = best_subset(LinearModel(X, y, fit_intercept=True), 3)
    assert seen[0] is None and seen[1] is not None
    assert far.support.tolist() == near.support.tolist() and far.psi == pytest.approx(near.psi, rel=1e-6)


def test_only_dense_squared_losses_without_signs_are_reduced(monkeypatch):
    import scipy.sparse

    X, y = samples()
    assert is_reducible(LinearModel(X, y)) and not is_reducible(LinearModel(X[:40], y[:40]))
    assert not is_reducible(LinearModel(scipy.sparse.csr_array(X), y))
    assert not is_reducible(LinearModel(X, np.sign(y), "logistic")) and not is_reducible(LinearModel(X, y, "huber"))
    seen = spied(monkeypatch)
    found = best_subset(LinearModel(X, y, fit_intercept=True), 3, nonnegative=True)
    assert not seen and np.all(found.x[:-1] >= 0)


def test_a_zero_column_and_repeats_of_a_column_change_nothing():
    X, y = samples()
    alone = best_subset(LinearModel(X, y, fit_intercept=True), 3)
    wider = best_subset(LinearModel(np.column_stack([X, np.zeros(y.size), X[:, 1]]), y, fit_intercept=True), 3)
    assert wider.support.tolist() == alone.support.tolist() and wider.psi == pytest.approx(alone.psi, rel=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scoring": "r2"},
        {"fit_intercept": False},
        {"standardize": False},
        {"cv": ShuffleSplit(3, test_size=0.3, random_state=0)},
        {"cv": KFold(3, shuffle=True, random_state=0)},
        {"feature_weight": np.r_[0.0, np.ones(11)]},
    ],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_folds_have_the_scores_of_their_own_fits(options, weighted, monkeypatch):
    X, y = samples(n=200, noise=2.0)
    weight = weights(y.size) if weighted else None
    known = []
    fits = SquaredLossFolds.of
    monkeypatch.setattr(SquaredLossFolds, "of", lambda *given: known.append(fits(*given)) or known[-1])
    new = SparseRegressorCV(n_features=[0, 2, 5], **options).fit(X, y, sample_weight=weight)
    assert known[0] is not None
    monkeypatch.setattr(SquaredLossFolds, "of", lambda *given: None)
    old = SparseRegressorCV(n_features=[0, 2, 5], **options).fit(X, y, sample_weight=weight)
    for name in old.cv_results_:
        if "time" not in name:
            assert np.allclose(new.cv_results_[name], old.cv_results_[name], rtol=1e-10), name
    assert new.best_params_ == old.best_params_ and np.array_equal(new.coef_, old.coef_)


def test_offsets_and_weights_of_zero_in_folds():
    X, y = samples(n=200)
    offset, weight = np.linspace(-2, 2, y.size), np.r_[np.zeros(20), np.ones(180)]
    model = SparseRegressorCV(n_features=[1, 3]).fit(X, y, offset=offset)
    whole = SparseRegressor(n_features=3).fit(X, y, offset=offset)
    assert model.best_params_ == {"n_features": 3} and np.array_equal(model.coef_, whole.coef_)
    assert SparseRegressorCV(n_features=[1, 3]).fit(X, y, sample_weight=weight).best_params_ == {"n_features": 3}


def test_scores_at_k_do_not_depend_on_the_other_k_nor_on_processes():
    X, y = samples(n=200, noise=2.0)
    grids = [SparseRegressorCV(n_features=grid, cv=3).fit(X, y) for grid in ([1, 2, 4, 6], [4], [6, 4])]
    rows = [
        [
            model.cv_results_[f"split{fold}_test_score"][list(model.cv_results_["n_features"]).index(4)]
            for fold in range(3)
        ]
        for model in grids
    ]
    assert rows[0] == rows[1] == rows[2]


def test_ctrl_c_while_the_samples_are_read_leaves_the_null_fit(monkeypatch):
    X, y = samples()

    def interrupted(data, standard):
        raise KeyboardInterrupt

    monkeypatch.setattr(budget, "reduced", interrupted)
    assert str(best_subset(LinearModel(X, y), 2).status) == "interrupted"


def test_offsets_count_in_scores_of_folds():
    rng = np.random.default_rng(0)
    X, offset = rng.standard_normal((100, 5)), 3 * rng.standard_normal(100)
    y = offset + X[:, 0] + 0.5 * X[:, 1] + rng.standard_normal(100)
    model = SparseRegressorCV(n_features=[0, 1, 2], cv=4, scoring="r2").fit(X, y, offset=offset)
    assert np.all(model.cv_results_["mean_test_score"][1:] > 0.5)


def test_units_of_columns_do_not_matter_in_folds():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 4))
    y = X.sum(axis=1) + 0.5 * rng.standard_normal(100)
    plain, units = (
        SparseRegressorCV(n_features=[1, 4], cv=4, standardize=False).fit(X * unit, y).cv_results_["mean_test_score"]
        for unit in (1.0, np.array([1e8, 1e-8, 1, 1]))
    )
    np.testing.assert_allclose(units, plain, rtol=1e-9)
