"""scikit-learn's callbacks get fits, their steps and folds; without them everything else works."""

import pickle
import subprocess
import sys
import textwrap

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from levelprox import SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV, Status

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")

BUDGETS = [{"n_features": 3}, {"level": 3.5}]


class Recorder:
    """Writes down what it hears; picklable, and equal for all clones of its estimator."""

    def __init__(self, stop=False, fail=False):
        self.events, self.fitted, self.stop, self.fail = [], [], stop, fail

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        assert not estimator.__class__.__name__.startswith("Sparse") or len(X) == len(y)
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.events.append(("end", context.task_name))
        self.metadata = metadata
        if fitted_estimator is not None:
            self.fitted.append((context.task_name, fitted_estimator))
        if self.fail:
            raise RuntimeError("enough")
        return self.stop and context.task_name == "step"

    def names(self, event):
        return [name for what, name in self.events if what == event]


class Propagated(Recorder):
    """The same, passed on to the estimators of a search."""

    max_propagation_depth = None


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:, 2:7], y


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_fit_is_a_task_and_its_steps_are_subtasks(budget, diabetes):
    told = Recorder()
    model = SparseRegressor(**budget).set_callbacks(told).fit(*diabetes)
    assert told.events[:2] == [("setup", "fit"), ("begin", "fit")]
    assert told.events[-2:] == [("end", "fit"), ("teardown", "fit")]
    assert told.names("begin").count("step") == told.names("end").count("step") >= len(model.history_) + 1
    inner = [what for what, name in told.events if name == "step"]
    assert inner == ["begin", "end"] * (len(inner) // 2)
    np.testing.assert_array_equal(told.fitted[-1][1].predict(diabetes[0]), model.predict(diabetes[0]))


def test_callbacks_change_nothing(diabetes):
    X, y = diabetes
    for budget in BUDGETS:
        plain, told = SparseRegressor(**budget).fit(X, y), SparseRegressor(**budget).set_callbacks(Recorder()).fit(X, y)
        np.testing.assert_array_equal(plain.coef_, told.coef_)


def test_under_a_level_every_step_can_predict(diabetes):
    X, y = diabetes
    told = Recorder()
    model = SparseRegressor(level=3.5, subsolver="spectral", start="direct").set_callbacks(told).fit(X, y)
    steps = [fitted for name, fitted in told.fitted if name == "step"]
    assert len(steps) == len(model.history_) > 2
    for fitted, record in zip(steps, model.history_, strict=True):
        assert np.mean((y - fitted.predict(X)) ** 2) == pytest.approx(record.psi, rel=1e-9)
        assert model.constraint_.value(fitted.coef_ * fitted.scale_) <= 3.5


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_callback_can_stop_a_fit(budget, diabetes):
    model = SparseRegressor(**budget).set_callbacks(Recorder(stop=True)).fit(*diabetes)
    assert model.status_ is Status.CALLBACK_STOP


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_an_error_of_a_callback_propagates_and_all_is_torn_down(budget, diabetes):
    told = Recorder(fail=True)
    model = SparseRegressor(**budget).set_callbacks(told)
    with pytest.raises(RuntimeError, match="enough"):
        model.fit(*diabetes)
    assert told.events[-1] == ("teardown", "fit")
    assert not any(name in vars(model) for name in ("_callback_fit_ctx", "_told_of"))


def test_sample_weights_are_metadata(diabetes):
    X, y = diabetes
    told, weight = Recorder(), np.linspace(1, 2, y.size)
    SparseRegressor(n_features=1).set_callbacks(told).fit(X, y, weight)
    np.testing.assert_array_equal(told.metadata["sample_weight"], weight)
    SparseRegressor(n_features=1).set_callbacks(told).fit(X, y, sample_weight=weight, offset=np.zeros(y.size))
    assert set(told.metadata) == {"sample_weight"}


@pytest.mark.parametrize(
    ("options", "piece", "count"),
    [
        ({"n_features": [1, 2], "cv": 3, "loss": "huber"}, "fit", 6),
        ({"n_features": [1, 2], "cv": 3}, "fold", 3),
        ({"level": [0.5, 2.5], "cv": 3}, "fold", 3),
        ({"n_features": [1, 2], "criterion": "bic"}, "fit", 2),
        ({"level": [0.5, 2.5], "criterion": "bic"}, "fit", 1),
    ],
    ids=["k", "k of a squared loss", "level", "bic of k", "bic of levels"],
)
def test_a_choice_is_a_search_and_a_last_fit(options, piece, count, diabetes):
    told = Recorder()
    with joblib.parallel_config(backend="threading", n_jobs=2):  # results are still reported in order
        SparseRegressorCV(**options).set_callbacks(told).fit(*diabetes)
    ends = told.names("end")
    search, last = ends.index("search"), ends.index("fit-all-data")
    assert ends[:search] == [piece] * count
    assert set(ends[search + 1 : last]) == {"step"}
    assert ends[last:] == ["fit-all-data", "fit"]
    assert sorted(ends) == sorted(told.names("begin"))


def test_inside_a_search_every_fit_is_reported(diabetes):
    told = Propagated()
    search = GridSearchCV(SparseRegressor(), {"n_features": [1, 2]}, cv=2).set_callbacks(told)
    search.fit(*diabetes)
    assert search.best_params_ == {"n_features": 2}
    assert told.names("begin").count("step") >= 5
    alone = Recorder()
    GridSearchCV(SparseRegressor().set_callbacks(alone), {"n_features": [1, 2]}, cv=2).fit(*diabetes)
    assert alone.names("setup") == alone.names("teardown") == ["fit"] * 5


def test_inside_a_pipeline(diabetes):
    told = Propagated()
    make_pipeline(SparseRegressor(n_features=2)).set_callbacks(told).fit(*diabetes)
    assert "step" in told.names("end")


@pytest.mark.parametrize(
    "estimator", [SparseRegressor(n_features=2), SparseRegressorCV(n_features=[1, 2], cv=2)], ids=["one", "choice"]
)
def test_scikit_learn_s_progress_bar(estimator, diabetes, capfd):
    pytest.importorskip("rich")
    bar = callback.ProgressBar()
    clone(estimator).set_callbacks(bar).fit(*diabetes)
    assert f"{type(estimator).__name__} - fit" in capfd.readouterr().out
    GridSearchCV(clone(estimator), {"tol": [1e-6]}, cv=2).set_callbacks(bar).fit(*diabetes)


def test_scikit_learn_s_scoring_monitor():
    X, y = load_breast_cancer(return_X_y=True)
    monitor = callback.ScoringMonitor(scoring="neg_log_loss")
    model = SparseClassifier(level=3.5).set_callbacks(monitor).fit(X, y)
    scores = {name: [] for name in ("fit", "step")}
    for row in monitor.get_logs().data:
        scores[row["task_name"]].append(row["neg_log_loss"])
    np.testing.assert_allclose(scores["step"], [-record.psi for record in model.history_], rtol=1e-9)
    assert scores["fit"] == pytest.approx([-model.certificate_.psi], rel=1e-9)
    monitor = callback.ScoringMonitor(scoring="accuracy")
    search = GridSearchCV(SparseClassifier().set_callbacks(monitor), {"n_features": [1, 2]}, cv=2)
    search.fit(X, y, sample_weight=np.ones(y.size))
    assert len(monitor.get_logs("all")[-1].data) >= 1


@pytest.mark.parametrize("kind", [SparseClassifier, SparseClassifierCV, SparseRegressor, SparseRegressorCV])
def test_callbacks_survive_clones_and_pickles(kind, diabetes):
    X, y = diabetes
    told = Recorder()
    model = kind(n_features=1).set_callbacks(told)
    assert clone(model)._skl_callbacks == [told]
    fitted = clone(model).fit(X[:200], y[:200] > 150)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.coef_, fitted.coef_)
    assert again._skl_callbacks[0].events == told.events
    assert "_told_of" not in vars(again)


def test_the_signature_of_fit_is_seen_through(diabetes):
    with pytest.raises(TypeError, match=r"fit\(\) missing"):
        SparseRegressor().fit(diabetes[0])
    assert "set_fit_request" in dir(SparseRegressor)
    assert SparseRegressor.fit.__doc__.startswith("Fit the model.")


@pytest.mark.process
@pytest.mark.extended  # an interpreter that has not imported levelprox
def test_before_scikit_learn_1_9_there_are_no_callbacks_and_all_else_works():
    script = textwrap.dedent("""
        import sys
        import numpy as np
        import sklearn.compose, sklearn.datasets, sklearn.metrics, sklearn.model_selection, sklearn.utils.parallel
        sys.modules["sklearn.callback"] = None  # an import of it now raises ImportError
        from levelprox import SparseRegressor, SparseRegressorCV
        X, y = sklearn.datasets.load_diabetes(return_X_y=True)
        seen = []
        model = SparseRegressor(n_features=2, callback=seen.append).fit(X, y)
        best = SparseRegressorCV(n_features=[2], cv=2).fit(X, y)
        assert not hasattr(model, "set_callbacks") and seen
        np.testing.assert_array_equal(model.coef_, best.coef_)
        assert "levelprox-card" in model._repr_html_()
        print("fine")
    """)
    assert subprocess.check_output([sys.executable, "-W", "error", "-c", script], text=True).strip() == "fine"
