"""Stability: selection frequencies over subsamples, the same for any number of processes."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from levelprox import (
    InvalidInputError,
    SparseClassifier,
    SparseClassifierCV,
    SparseRegressor,
    SparseRegressorCV,
    StabilityDisplay,
)
from levelprox.estimators import _stability
from levelprox.report import Stability

matplotlib.use("Agg")
from matplotlib import pyplot  # after the backend is chosen

rng = np.random.default_rng(5)
N, D = 80, 6
X = rng.standard_normal((N, D))
X[:, 4] = X[:, 0] + 0.1 * rng.standard_normal(N)  # either of the two is selected
Y = 0.5 * (X[:, 0] + X[:, 4]) - 0.7 * X[:, 1] + 0.7 * rng.standard_normal(N)
NAMES = ["age", "<sex>", "c", "d", "age & co", "f"]


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def model():
    return SparseRegressor(n_features=2).fit(pd.DataFrame(X, columns=NAMES), Y)


@pytest.fixture(scope="module")
def found(model):
    return model.stability(pd.DataFrame(X, columns=NAMES), Y, 8, random_state=0)


def least_squares(features, rows=slice(None)):
    A = np.column_stack([X[rows][:, list(features)], np.ones(X[rows].shape[0])])
    return float(np.mean((A @ np.linalg.lstsq(A, Y[rows], rcond=None)[0] - Y[rows]) ** 2))


@pytest.mark.parametrize(
    ("by_name", "by_index"),
    [
        ({"n_features": 2, "keep": ["c"]}, {"n_features": 2, "keep": [2]}),
        ({"n_features": 2, "positive": ["age"]}, {"n_features": 2, "positive": [0]}),
        ({"n_features": 2, "feature_weight": {"d": 0}}, {"n_features": 2, "feature_weight": {3: 0}}),
        ({"budget": 2, "feature_cost": dict.fromkeys(NAMES, 1.0)}, {"budget": 2, "feature_cost": np.ones(D)}),
    ],
)
@pytest.mark.parametrize("kind", [SparseRegressor, SparseRegressorCV])
def test_parameters_may_name_features(kind, by_name, by_index):
    data = pd.DataFrame(X, columns=NAMES), Y
    named, indexed = (kind(**given).fit(*data).stability(*data, 4, random_state=0) for given in (by_name, by_index))
    assert np.array_equal(named.frequencies, indexed.frequencies)


def test_frequencies_are_those_of_the_best_sets_of_subsamples(monkeypatch):
    drawn, real = [], _stability._fit

    def remembered(share, single, samples, rows, budget):
        drawn.append(rows)
        return real(share, single, samples, rows, budget)

    monkeypatch.setattr(_stability, "_fit", remembered)
    model = SparseRegressor(n_features=2).fit(X, Y)
    found = model.stability(X, Y, 6, fraction=0.4, random_state=1)
    assert len(drawn) == 6 and all(rows.size == np.unique(rows).size == 32 for rows in drawn)
    pairs = [(i, j) for i in range(D) for j in range(i + 1, D)]
    best = [min(pairs, key=lambda pair: least_squares(pair, rows)) for rows in drawn]
    expected = [np.mean([j in pair for pair in best]) for j in range(D)]
    np.testing.assert_allclose(found.frequencies, expected)
    assert {one.features: one.count for one in found.sets} == {pair: best.count(pair) for pair in set(best)}
    assert [one.count for one in found.sets] == sorted((one.count for one in found.sets), reverse=True)
    assert found.n_resamples == 6 and found.n_samples == 32


def test_near_sets_are_those_within_one_percent_on_all_data(model, found):
    own = tuple(model.selected_features_.tolist())
    base = least_squares(own)
    assert found.loss == pytest.approx(base)
    for one in found.sets:
        assert one.loss == pytest.approx(least_squares(one.features)) and one.checked
        assert one.near == (one.loss <= 1.01 * base) and one.is_model == (one.features == own)
    assert all(one.near and not one.is_model for one in found.near_sets)


def test_the_text_of_a_stability_study(found):
    assert isinstance(found, Stability) and found.feature_names == tuple(NAMES)
    text = str(found)
    assert text.startswith("Stability of SparseRegressor, at most 2 features: 8 subsamples of 40 of 80 samples")
    assert "age & co" in text and "the model's own set was selected" in text and "█" in text
    html = found._repr_html_()
    assert "age &amp; co" in html and "&lt;sex&gt;" in html and "<sex>" not in html
    frame = found.to_frame()
    assert list(frame) == ["feature", "frequency", "in_model"] and frame["frequency"].is_monotonic_decreasing
    assert set(frame.loc[frame["in_model"], "feature"]) == {NAMES[j] for j in found.selected}


def test_the_same_for_a_seed_and_any_number_of_jobs():
    model = SparseRegressor(n_features=1).fit(X, Y)
    one = model.stability(X, Y, 3, random_state=0)
    with parallel_config(backend="threading"):
        assert str(model.stability(X, Y, 3, random_state=0, n_jobs=2)) == str(one)
    drawn = (np.random.default_rng(0), np.random.default_rng(0), np.random.RandomState(0))
    a, b, c = (model.stability(X, Y, 3, random_state=state) for state in drawn)
    assert str(a) == str(b) == str(one) and c.n_resamples == 3


@pytest.mark.process
@pytest.mark.extended
def test_the_same_with_processes(model, found):
    data = pd.DataFrame(X, columns=NAMES), Y
    assert str(model.stability(*data, 8, random_state=0, n_jobs=2)) == str(found)


def test_subsamples_are_stratified_and_without_samples_of_no_weight(monkeypatch):
    y, weight = np.array(["a"] * 8 + ["b"] * 72), np.ones(N)
    y[rng.permutation(N)] = y.copy()
    weight[np.flatnonzero(y == "b")[:12]] = 0
    drawn = []
    monkeypatch.setattr(
        _stability, "_fit", lambda share, single, samples, rows, budget: drawn.append(rows) or ((0,), False)
    )
    model = SparseClassifier(n_features=1).fit(X, y, weight)
    model.stability(X, y, 5, random_state=0, sample_weight=weight)
    for rows in drawn:
        assert np.count_nonzero(y[rows] == "a") == 4 and np.count_nonzero(y[rows] == "b") == 30
        assert np.all(weight[rows] > 0)


@pytest.mark.parametrize(
    "estimator",
    [
        SparseRegressorCV(n_features=[1, 2], cv=2, verbose=0, callback=lambda record: None),
        SparseRegressor(level=1.5),
        pytest.param(SparseRegressor("poisson", n_features=1), marks=pytest.mark.extended),
        pytest.param(SparseClassifierCV(level=[1.5, 2.5], cv=3), marks=pytest.mark.extended),
        pytest.param(SparseClassifier("hinge", n_features=1), marks=pytest.mark.extended),
        pytest.param(SparseClassifier(n_features=2), marks=pytest.mark.extended),
    ],
    ids=["regressor_cv", "level", "poisson", "classifier_cv", "hinge", "softmax"],
)
def test_copies_have_the_budget_of_the_fit(estimator):
    y = np.digitize(Y, [-0.5, 0.5]) if isinstance(estimator, SparseClassifier) else np.exp(Y).round()
    y = Y > 0 if isinstance(estimator, SparseClassifierCV) else y
    model = clone(estimator).fit(X, y)
    before = dict(vars(model))
    found = model.stability(X, y, 3, random_state=0)
    if not hasattr(model, "constraint_"):
        assert all(len(one.features) <= model.level_ for one in found.sets)
    assert found.title.startswith(f"Stability of {type(model).__name__}, ") and found.n_resamples == 3
    assert vars(model) == before or set(vars(model)) == set(before)


def test_offsets_go_with_their_samples():
    offset = 3 * X[:, 5]
    model = SparseRegressor(n_features=1).fit(X, Y + offset, offset=offset)
    found = model.stability(X, Y + offset, 2, random_state=0, offset=offset)
    assert found.frequencies[5] == 0 and np.sum(found.frequencies) == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"n_resamples": 0}, InvalidInputError, "n_resamples must be at least 1"),
        ({"n_resamples": 2.5}, InvalidInputError, "n_resamples must be an integer"),
        ({"fraction": 1.0}, InvalidInputError, "fraction must be above 0 and below 1"),
        ({"fraction": 0.001}, InvalidInputError, "leaves 1 sample for a fit"),
        ({"random_state": -1}, InvalidInputError, "random_state must be"),
        ({"groups": 1}, TypeError, "unexpected keyword argument 'groups'"),
        ({"y": None}, InvalidInputError, "stability needs X and y together, got X alone"),
        ({"X": X[:, :2]}, ValueError, "X has 2 features"),
    ],
)
def test_wrong_calls_are_refused(options, error, match):
    model = SparseRegressor(n_features=1).fit(X, Y)
    with pytest.raises(error, match=match):
        model.stability(**{"X": X, "y": Y, "n_resamples": 2, **options})


def test_unfitted_models_are_refused():
    with pytest.raises(NotFittedError):
        SparseRegressor().stability(X, Y)


def test_a_time_limit_leaves_out_subsamples_and_says_so(monkeypatch):
    model = SparseRegressor(n_features=1).fit(X, Y)
    real, calls = _stability._fit, []

    def limited(share, *args):
        calls.append(share)
        return real(share, *args) if len(calls) <= 3 else None

    monkeypatch.setattr(_stability, "_fit", limited)
    with pytest.warns(Warning, match="there was time for 3 of 8 subsamples"):
        found = model.stability(X, Y, 8, random_state=0)
    assert found.n_resamples == 3 and "There was time for 3 of 8 subsamples" in str(found)
    model.time_limit = 0.0
    with pytest.raises(TimeoutError, match="before any of 8 subsamples was fitted"):
        model.stability(X, Y, 8)


def test_separable_subsamples_are_counted():
    y = X[:, 0] > 0.1
    with pytest.warns(Warning, match="separable"):
        model = SparseClassifier(ridge=0, n_features=1).fit(X, y)
    text = " ".join(str(model.stability(X, y, 3, random_state=0)).split())
    assert "The fit of 3 subsamples has no minimiser" in text and "Losses on all data are not compared" in text


def test_progress_is_shown(capfd):
    model = SparseRegressor(n_features=1, verbose=1).fit(X, Y)
    model.stability(X, Y, 2, random_state=0)
    assert "SparseRegressor.stability" in capfd.readouterr().err


# --- the display


def test_the_display_draws_the_frequencies(found):
    display = StabilityDisplay.from_stability(found)
    order = found.order
    np.testing.assert_allclose([bar.get_width() for bar in display.bars_], found.frequencies[order])
    names = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert names == [NAMES[j] for j in order]
    assert display.labels_[0].get_text() == f"{100 * found.frequencies.max():.0f} %"
    assert display.ax_.get_xlabel() == "Share of 8 subsamples from which the feature is selected"
    display.figure_.canvas.draw()
    _, own = pyplot.subplots()
    assert StabilityDisplay.from_stability(found, ax=own, most=2).ax_ is own and len(own.patches) == 2


def test_the_display_from_an_estimator(model):
    data = pd.DataFrame(X, columns=NAMES), Y
    display = StabilityDisplay.from_estimator(model, *data, n_resamples=2, random_state=0, most=3)
    found = model.stability(*data, 2, random_state=0)
    np.testing.assert_allclose(display.frequencies, found.frequencies[found.order])
    assert len(display.bars_) <= 3 and display.n_resamples == 2


def test_the_display_refuses_lengths_that_differ():
    with pytest.raises(InvalidInputError, match="must have the same length"):
        StabilityDisplay(frequencies=[0.5], feature_names=["a", "b"])
    assert StabilityDisplay(frequencies=[0.5, 1.0], feature_names=["a", "b"]).plot().labels_[0].get_text() == "100 %"
