"""Displays draw what was fitted, with readable labels; nothing imports matplotlib before."""

import subprocess
import sys
import warnings

import matplotlib
import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, make_scorer, mean_absolute_error

import levelprox
from levelprox import (
    ConvergenceDisplay,
    CVDisplay,
    InvalidInputError,
    LinearModel,
    PathDisplay,
    Problem,
    SparseClassifier,
    SparseRegressor,
    SparseRegressorCV,
    best_subset,
    constraints,
    path,
    solve,
    subset_path,
)
from levelprox.report._drawing import COLOURS, shortened, spread
from levelprox.report.fitted import name_and_sign

matplotlib.use("Agg")
from matplotlib import pyplot  # after the backend is chosen


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def noisy():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 6))
    return X, X[:, :4] @ [2.0, 0.8, 0.35, 0.3] + 1.5 * rng.standard_normal(60)


@pytest.fixture(scope="module")
def chosen(noisy):
    return SparseRegressorCV(n_features=range(5), cv=3).fit(*noisy)


def drawn(line):
    """What a line shows, with the zeros that it leaves out."""
    return np.nan_to_num(np.asarray(line.get_ydata(), float))


def test_a_path_over_k_shows_the_single_fits(diabetes):
    X, y = diabetes
    display = PathDisplay.from_estimator(SparseRegressor(), X, y, n_features=[8, 1, 2, 2])
    np.testing.assert_array_equal(display.budgets, [1, 2, 8])
    for i, k in enumerate([1, 2, 8]):
        single = SparseRegressor(n_features=k).fit(X, y)
        shown = np.zeros(X.shape[1])
        for j, line in display.lines_.items():
            shown[j] = drawn(line)[i]
        np.testing.assert_allclose(shown, single.coef_ * single.scale_, rtol=1e-12)
        assert display.losses[i] == pytest.approx(single.certificate_.psi, rel=1e-12)
    assert display.by == "n_features"
    assert display.ax_.get_xlabel() == "Number of features, at most"


def test_a_path_over_levels_obeys_them_and_leaves_the_estimator_alone(diabetes):
    X, y = diabetes
    estimator = SparseRegressor(level=3.5)
    display = PathDisplay.from_estimator(estimator, X, y, level=[0.5, 3.5], loss=True)
    constraint = SparseRegressor(level=3.5).fit(X, y).constraint_
    for level, row in zip(display.budgets, display.coefficients.toarray(), strict=True):
        assert constraint.value(row) <= level
    np.testing.assert_array_equal(drawn(display.loss_line_), display.losses)
    assert not hasattr(estimator, "coef_")
    assert len(display.ax_) == 2
    assert display.ax_[1].get_xlabel() == "Level η"


def test_sample_weights_and_offsets_reach_the_fits(diabetes):
    X, y = diabetes
    weight, offset = np.linspace(0, 1, y.size), np.linspace(0, 100, y.size)
    display = PathDisplay.from_estimator(
        SparseRegressor(), X, y, n_features=[3], sample_weight=weight, fit_params={"offset": offset}
    )
    single = SparseRegressor(n_features=3).fit(X, y, sample_weight=weight, offset=offset)
    assert display.losses[0] == pytest.approx(single.certificate_.psi, rel=1e-12)


@pytest.mark.parametrize(
    ("estimator", "budgets"),
    [
        (SparseRegressor(n_features=3), [0, 1, 2, 3]),
        (SparseRegressor(level=2.0, constraint="l1"), np.linspace(0, 2, 21)[1:]),
        (SparseRegressorCV(n_features=[5, 2]), [2, 5]),
        (SparseRegressorCV(level=[0.5, 2.5]), [0.5, 2.5]),
    ],
    ids=["k", "level", "grid of k", "grid of levels"],
)
def test_without_budgets_the_path_is_that_of_the_estimator(estimator, budgets, diabetes):
    display = PathDisplay.from_estimator(estimator, *diabetes)
    np.testing.assert_allclose(display.budgets, budgets)


def test_only_features_that_are_used_are_drawn_and_only_the_largest_are_named():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 10_000))
    y = X[:, :12] @ np.linspace(1, 4, 12)
    names = [f"gene {j}" for j in range(10_000)]
    found = path(Problem(LinearModel(X, y), constraints.L1(), 1.0), [1.0, 5.0, 15.0], start="direct")
    display = PathDisplay.from_path(found, names, names=5)
    used = np.flatnonzero(np.any(found.coefficients.toarray(), axis=0))
    assert sorted(display.lines_) == used.tolist()
    largest = np.argsort(-np.abs(found.x(2)))[:5]
    assert {label.get_text() for label in display.labels_} == {names[j] for j in largest}
    coloured = {j for j, line in display.lines_.items() if line.get_color() in COLOURS}
    assert coloured == set(largest.tolist())


def test_a_path_of_subsets_is_drawn_over_k(diabetes):
    X, y = diabetes
    found = subset_path(LinearModel(X, y - y.mean(), fit_intercept=True), [1, 3])
    display = PathDisplay.from_path(found, load_diabetes().feature_names)
    assert display.by == "n_features"
    assert X.shape[1] not in display.lines_  # the intercept
    assert {label.get_text() for label in display.labels_} <= set(load_diabetes().feature_names)


def test_of_several_classes_the_length_of_a_feature_s_coefficients_is_drawn():
    X, y = load_wine(return_X_y=True)
    display = PathDisplay.from_estimator(SparseClassifier(constraint="l1"), X, y, level=[0.5, 1.5])
    assert np.all(display.coefficients.toarray() >= 0)
    np.testing.assert_allclose(display.coefficients.sum(axis=1), [0.5, 1.5], rtol=1e-6)


def test_a_path_needs_names_and_rows_that_fit():
    with pytest.raises(InvalidInputError, match="2 names, got 1"):
        PathDisplay(budgets=[1.0], coefficients=np.ones((1, 2)), feature_names=["one"])
    with pytest.raises(InvalidInputError, match="row for each budget"):
        PathDisplay(budgets=[1.0, 2.0], coefficients=np.ones((1, 2)))
    with pytest.raises(InvalidInputError, match="by must be one of"):
        PathDisplay(budgets=[1.0], coefficients=np.ones((1, 2)), by="features")
    with pytest.raises(InvalidInputError, match="needs losses"):
        PathDisplay(budgets=[1.0], coefficients=np.ones((1, 2))).plot(loss=True)


def test_not_both_kinds_of_budget(diabetes):
    with pytest.raises(InvalidInputError, match="either n_features or level"):
        PathDisplay.from_estimator(SparseRegressor(), *diabetes, n_features=[1], level=[1.5])


def test_a_path_shows_what_was_chosen(chosen, noisy):
    display = PathDisplay.from_estimator(chosen, *noisy)
    k = chosen.best_params_["n_features"]
    assert set(display.chosen_line_.get_xdata()) == {k}
    assert display.ax_.get_xlim() == (0, 4)
    assert {text.get_text() for text in display.chosen_labels_} == {f"x{j}" for j in chosen.selected_features_}
    assert {display.lines_[j].get_color() for j in chosen.selected_features_} <= set(COLOURS)
    assert {f"x{j}" for j in display.lines_ if drawn(display.lines_[j])[-1]} == {t.get_text() for t in display.labels_}


def test_features_of_the_chosen_model_are_named_though_they_leave():
    coefficients = [[0, 0, 0], [1, 0, 0], [0, 2, 3]]
    display = PathDisplay(budgets=[0, 1, 2], coefficients=coefficients, by="n_features", chosen=1).plot()
    assert [text.get_text() for text in display.chosen_labels_] == ["x0"]
    assert [text.get_text() for text in display.labels_] == ["x2", "x1"]
    assert len({line.get_color() for line in display.lines_.values()}) == 3
    many = PathDisplay(budgets=[1, 9], coefficients=np.ones((2, 9)), by="n_features", chosen=9).plot(names=2)
    assert len(many.chosen_labels_) == 2
    assert many.ax_.get_legend().get_title().get_text() == "chosen, and 7 more"


def test_nothing_is_marked_where_nothing_was_chosen_or_what_was_is_not_on_the_axis(chosen, noisy):
    single = PathDisplay.from_estimator(SparseRegressor(n_features=2), *noisy)
    elsewhere = PathDisplay.from_estimator(chosen, *noisy, n_features=[0, 1])
    levels = PathDisplay.from_estimator(chosen, *noisy, level=[0.5, 1.5])
    for display in (single, elsewhere, levels):
        assert display.chosen_line_ is None and display.chosen_labels_ == []
    assert chosen.best_params_["n_features"] == 2
    between = PathDisplay.from_estimator(chosen, *noisy, n_features=[0, 1, 3])
    assert between.chosen_line_ is not None and between.chosen_labels_ == []


def test_between_numbers_of_features_nothing_is_suggested():
    few = PathDisplay(budgets=[0, 1, 2], coefficients=np.eye(3), by="n_features").plot()
    assert all(line.get_marker() == "o" and line.get_linewidth() < 1 for line in few.lines_.values())
    many = PathDisplay(budgets=range(50), coefficients=np.eye(50), by="n_features").plot()
    assert all(line.get_drawstyle() == "steps-mid" for line in many.lines_.values())
    levels = PathDisplay(budgets=[0, 1, 2], coefficients=np.eye(3)).plot()
    assert all(line.get_drawstyle() == "default" for line in levels.lines_.values())


def test_what_was_chosen_is_marked(chosen):
    display = CVDisplay.from_estimator(chosen)
    results = chosen.cv_results_
    np.testing.assert_array_equal(drawn(display.line_), -results["mean_test_score"])
    assert display.chosen_.get_xdata()[0] == chosen.best_params_["n_features"]
    assert len(display.lines_) == 3
    assert display.ax_.get_ylabel() == "Loss of held-out samples"


def test_the_choice_within_one_standard_error_is_the_estimator_s(chosen, noisy):
    thrifty = SparseRegressorCV(n_features=range(5), cv=3, one_standard_error=True).fit(*noisy)
    display = CVDisplay.from_estimator(thrifty)
    assert display.within_one_standard_error == thrifty.best_index_ < chosen.best_index_
    assert display.other_.get_xdata()[0] == chosen.best_params_["n_features"]
    assert CVDisplay.from_estimator(chosen).other_.get_xdata()[0] == thrifty.best_params_["n_features"]


@pytest.mark.parametrize("sign", [1, -1])
def test_one_standard_error_is_that_of_the_best(sign):
    scores, errors = sign * np.array([0.0, 0.69, 0.71, 1.0, 0.9]), [9.0, 9.0, 9.0, 0.3, 9.0]
    display = CVDisplay(budgets=range(5), scores=scores, errors=errors, chosen=3, lower_is_better=sign < 0)
    assert (display.best, display.within_one_standard_error) == (3, 2)


def test_scores_are_named_and_losses_drawn_as_losses(noisy):
    X, y = noisy
    best = SparseRegressorCV(level=[0.5, 2.5], cv=3, scoring="r2").fit(X, y)
    display = CVDisplay.from_estimator(best, show_folds=False)
    assert display.ax_.get_ylabel() == "R² of held-out samples"
    assert not display.lower_is_better and display.lines_ == []
    best = SparseRegressorCV(n_features=[1, 2], cv=3, scoring="neg_mean_absolute_error").fit(X, y)
    display = CVDisplay.from_estimator(best)
    assert display.ax_.get_ylabel() == "Mean absolute error of held-out samples"
    assert np.all(drawn(display.line_) > 0)


@pytest.mark.parametrize(("chosen", "best"), [(0, 1), (3, 4), (9, 10), (0, 10), (4, 10), (5, 5)])
@pytest.mark.parametrize("size", [(7.0, 4.3), (2.6, 3.0)], ids=["usual", "small"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("step", [1, 0.01], ids=["all", "close by"])
def test_labels_neither_overlap_nor_leave_the_axes(chosen, best, size, sign, step):
    budgets = np.append(step * np.arange(11), 10)
    scores = np.append(np.where(np.arange(11) < chosen, 0.0, 0.8), 0.5)
    scores[best] = 1.0
    errors = np.full(12, 0.3)
    figure, ax = pyplot.subplots(figsize=size)
    display = CVDisplay(
        budgets=budgets, scores=sign * scores, errors=errors, chosen=chosen, lower_is_better=sign < 0
    ).plot(ax)
    assert display.best == best and len(display.labels_) == (1 if chosen == best else 2)
    figure.canvas.draw()
    boxes = [super(type(label), label).get_window_extent() for label in display.labels_]  # without the leader
    frame = ax.get_window_extent()
    for box in boxes:
        assert frame.x0 - 2 <= box.x0 and box.x1 <= frame.x1 + 2
        assert frame.y0 <= box.y0 and box.y1 <= frame.y1
    if len(boxes) == 2:
        assert not boxes[0].overlaps(boxes[1])
        inner = int(np.argmin([abs(box.y0 - frame.y0 - frame.height / 2) for box in boxes]))
        across = ax.transData.transform((display.labels_[1 - inner].xy[0], 0))[0]  # the leader of the outer one
        assert size[0] < 5 or not boxes[inner].x0 < across < boxes[inner].x1


def outlying(how_much):
    rng = np.random.default_rng(0)
    folds = np.abs(np.arange(11) - 5)[:, None] + rng.standard_normal((11, 10))
    folds[9, 2] += how_much
    errors = folds.std(axis=1, ddof=1) / np.sqrt(10)
    return CVDisplay(
        budgets=range(11), scores=folds.mean(axis=1), errors=errors, folds=folds, chosen=5, lower_is_better=True
    ).plot()


@pytest.mark.parametrize("how_much", [0, 30, 1e4])
def test_one_outlying_fold_does_not_flatten_the_mean(how_much):
    low, high = outlying(how_much).ax_.get_ylim()
    scores = np.delete(outlying(how_much).scores, 9)
    assert low < scores.min() and scores.max() < high
    assert np.ptp(scores) > 0.35 * (high - low)
    if how_much < 100:
        assert outlying(how_much).scores[9] < high


def test_limits_hold_what_was_drawn_before_and_numbers_that_are_not_finite():
    _, ax = pyplot.subplots()
    ax.plot([0, 1], [-50, 50])
    CVDisplay(budgets=[0, 1], scores=[0.1, 0.2], chosen=1).plot(ax)
    assert ax.get_ylim()[0] <= -50 and ax.get_ylim()[1] >= 50
    display = CVDisplay(
        budgets=[0, 1, 2], scores=[0.1, np.nan, np.inf], errors=[0.1] * 3, chosen=0, lower_is_better=True
    )
    assert np.all(np.isfinite(display.plot().ax_.get_ylim()))
    low, high = CVDisplay(budgets=[1], scores=[0.0], chosen=0).plot().ax_.get_ylim()
    assert low < 0 < high


def own_score(estimator, X, y):
    return 0.0


@pytest.mark.parametrize(
    ("scoring", "name", "sign"),
    [
        ("roc_auc", "ROC AUC", 1),
        ("accuracy", "Accuracy", 1),
        ("neg_log_loss", "Log loss", -1),
        ("f1_macro", "F1 macro", 1),
        (make_scorer(accuracy_score), "accuracy_score", 1),
        (make_scorer(mean_absolute_error, greater_is_better=False), "mean_absolute_error", -1),
        (own_score, "own_score", 1),
        (lambda estimator, X, y: 0.0, "Score", 1),
        (None, "Loss", -1),
    ],
)
def test_scores_have_readable_names(scoring, name, sign):
    assert name_and_sign(scoring) == (f"{name} of held-out samples", sign)


def test_a_criterion_is_drawn_by_its_name(diabetes):
    best = SparseRegressorCV(n_features=range(5), criterion="bic").fit(*diabetes)
    display = CVDisplay.from_estimator(best)
    assert display.band_ is None and display.other_ is None
    np.testing.assert_array_equal(drawn(display.line_), best.cv_results_["bic"])
    assert display.chosen_.get_ydata()[0] == best.cv_results_["bic"].min()


def test_convergence_under_a_level_shows_psi_and_the_kkt_residual(diabetes):
    model = SparseRegressor(level=3.5).fit(*diabetes)
    display = ConvergenceDisplay.from_estimator(model)
    np.testing.assert_array_equal(drawn(display.lines_[0]), [record.psi for record in model.history_])
    np.testing.assert_array_equal(drawn(display.lines_[1]), [record.kkt for record in model.history_])
    assert display.ax_[1].get_yscale() == "log"
    _, alone = pyplot.subplots()
    assert len(ConvergenceDisplay.from_estimator(model, ax=alone).lines_) == 1


def test_convergence_of_a_search_shows_its_phases(diabetes):
    X, y = diabetes
    found = best_subset(LinearModel(X, y - y.mean()), 4)
    display = ConvergenceDisplay(found.history).plot(against="steps")
    assert set(display.phases_) == {record.phase for record in found.history}
    assert sum(line.get_xdata().size for line in display.phases_.values()) == len(found.history)
    assert display.ax_.get_xlabel() == "Improvements of the best fit"


def test_convergence_of_a_solve(diabetes):
    X, y = diabetes
    result = solve(Problem(LinearModel(X, y - y.mean()), constraints.L1(), 100.0))
    display = ConvergenceDisplay(result.history, tol=result.tol).plot(against="steps")
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), [record.k for record in result.history])


def test_convergence_needs_a_history_and_a_known_axis(diabetes):
    with pytest.raises(InvalidInputError, match="no history"):
        ConvergenceDisplay(())
    model = SparseRegressor(n_features=1).fit(*diabetes)
    with pytest.raises(InvalidInputError, match="against must be one of"):
        ConvergenceDisplay.from_estimator(model, against="hours")


def test_a_choice_is_drawn_only_of_those_that_choose(diabetes):
    for estimator in (SparseRegressor(n_features=1), SparseRegressor(n_features=1).fit(*diabetes)):
        with pytest.raises(
            InvalidInputError, match=r"needs SparseClassifierCV or SparseRegressorCV, got SparseRegressor$"
        ):
            CVDisplay.from_estimator(estimator)


def test_a_stream_keeps_no_history(diabetes):
    stream = SparseRegressor(n_features=2).partial_fit(*diabetes)
    with pytest.raises(InvalidInputError, match="partial_fit stores no history"):
        ConvergenceDisplay.from_estimator(stream)
    ConvergenceDisplay.from_estimator(stream.fit(*diabetes))


def test_estimators_must_be_fitted():
    for display, estimator in ((CVDisplay, SparseRegressorCV()), (ConvergenceDisplay, SparseRegressor())):
        with pytest.raises(NotFittedError):
            display.from_estimator(estimator)


def test_all_displays_draw_on_given_axes(chosen, noisy):
    figure, axes = pyplot.subplots(3)
    shown = [
        PathDisplay.from_estimator(chosen, *noisy, ax=axes[0]),
        CVDisplay.from_estimator(chosen, ax=axes[1]),
        ConvergenceDisplay.from_estimator(chosen, ax=axes[2]),
    ]
    for display, ax in zip(shown, axes, strict=True):
        assert display.ax_ is ax
        assert display.figure_ is figure
        assert display.plot() is display
        assert display.figure_ is not figure
    with pytest.raises(InvalidInputError, match="ax must be one Axes or 2"):
        shown[0].plot(axes, loss=True)


def test_displays_can_be_drawn_without_a_warning(chosen, noisy):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CVDisplay.from_estimator(chosen).figure_.canvas.draw()
        PathDisplay.from_estimator(chosen, *noisy).figure_.canvas.draw()


def test_names_are_moved_apart_and_stay_in_order():
    places = [0.5, 0.51, 0.52, 0.9, 0.5]
    moved = spread(places, 0.1)
    assert np.all(np.diff(np.sort(moved)) >= 0.1 - 1e-12)
    assert np.all(np.diff(moved[[0, 4, 1, 2, 3]]) > 0)
    assert moved[3] == 0.9
    np.testing.assert_allclose(spread([0.2, 0.8], 0.1), [0.2, 0.8])
    assert spread([], 0.1).size == 0


def test_names_are_cut_and_hold_no_mathematics():
    assert shortened("a$b") == r"a\$b"
    assert len(shortened("n" * 100)) == 28


@pytest.mark.process
@pytest.mark.cpu_budget(4, "a fresh interpreter")
def test_importing_levelprox_imports_neither_matplotlib_nor_rich():
    script = "import sys, levelprox; levelprox.PathDisplay; print({'matplotlib', 'rich'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "set()\n"


def test_without_matplotlib_the_error_says_what_to_install(chosen, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install levelprox\[plot\]"):
        CVDisplay.from_estimator(chosen)


def test_displays_are_public():
    for name in ("PathDisplay", "CVDisplay", "ConvergenceDisplay"):
        assert getattr(levelprox.report, name) is getattr(levelprox, name)
