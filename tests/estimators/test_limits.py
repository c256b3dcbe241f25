"""Estimators under Ctrl-C, time limits and callbacks: the model is usable and within its budget however a fit ends."""

from __future__ import annotations

import time
import warnings
from itertools import count

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from levelprox import LinearModel, SparseClassifier, SparseRegressor, Status
from tests.support.children import Child, Ended
from tests.support.clocks import until
from tests.support.input_cases import WAYS, samples

# Correlated columns of which many matter a little. A fit does not end before Ctrl-C, however fast it is: from the third
# record on, a pass over the data is repeated.
WORK = """
import sys, time
import numpy as np
from sklearn.model_selection import GridSearchCV
from levelprox import SparseClassifier, SparseRegressor
from levelprox.designs import ScaledDesign
matvec = ScaledDesign.matvec
def repeated(self, x):
    while len(told) > 2:
        matvec(self, x)
    return matvec(self, x)
ScaledDesign.matvec = repeated
rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 800)) + rng.standard_normal((2000, 20)) @ rng.standard_normal((20, 800))
z = X[:, :60].sum(axis=1) + 20 * rng.standard_normal(2000)
labels = (z > 0).astype(int)
told = []
def tell(record):
    told.append(record)
    if len(told) == 1:
        print("ready", flush=True)
how = {"tol": 1e-10, "callback": tell}
models = {
    "classifier, k": SparseClassifier(n_features=40, **how),
    "classifier, level": SparseClassifier(level=100.5, **how),
    "regressor, k": SparseRegressor(n_features=40, **how),
    "regressor, level": SparseRegressor(level=100.5, **how),
    "search": GridSearchCV(SparseClassifier(**how), {"n_features": [40, 41, 42]}, cv=3),
}
model = models[sys.argv[1]]
try:
    model.fit(X, z if "regressor" in sys.argv[1] else labels)
except KeyboardInterrupt:
    print(time.process_time())
else:
    sys.exit("not interrupted")
if sys.argv[1] != "search":
    assert str(model.status_) == "interrupted" and "Interrupted" in model.message_, model.message_
    assert np.all(np.isfinite(model.coef_)) and model.predict(X).shape == z.shape
if "level" in sys.argv[1]:
    sizes = np.abs(np.atleast_2d(model.coef_)[0] * model.scale_)
    assert model.constraint_.phi(sizes).sum() <= 100.5 and model.certificate_.g <= 100.5
elif sys.argv[1] != "search":
    assert model.selected_features_.size <= 40
"""


@pytest.mark.process
@pytest.mark.parametrize("kind", ["classifier, k", "classifier, level", "regressor, k", "regressor, level", "search"])
def test_ctrl_c_is_raised_within_a_second_and_leaves_a_model(kind):
    """In GridSearchCV the loop ends, too: none of its other fits is begun."""
    with Child(WORK, kind) as child:
        assert child.line() == "ready"
        child.work(0.1)
        assert child.interrupt() < 1
        assert child.ended() == Ended(0, "", "")


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_an_interrupted_callback_leaves_a_model_and_is_raised(way):
    def interrupt(record):
        raise KeyboardInterrupt

    model = way(callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(samples(), way.y)
    assert model.status_ is Status.INTERRUPTED and way.obeys(model)
    assert model.predict(samples()).shape == way.y.shape


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_exceptions_and_stop_requests_of_a_callback(way):
    def fail(record):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        way(callback=fail).fit(samples(), way.y)
    model = way(callback=lambda record: True).fit(samples(), way.y)
    assert model.status_ is Status.CALLBACK_STOP and way.obeys(model)


@pytest.mark.usefixtures("processor_clock")
@pytest.mark.parametrize("budget", [{"n_features": 40}, {"level": 100.5}], ids=str)
@pytest.mark.parametrize("kind", [SparseClassifier, SparseRegressor])
def test_time_limits_hold_and_are_reported(kind, budget):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 800)) + rng.standard_normal((2000, 20)) @ rng.standard_normal((20, 800))
    z = X[:, :60].sum(axis=1) + 20 * rng.standard_normal(2000)
    y = (z > 0).astype(int) if kind is SparseClassifier else z
    limit = 0.1
    began = time.process_time()
    with pytest.warns(ConvergenceWarning, match=r"time_limit 0\.1 s.*Raise (time_limit|it)"):
        model = kind(**budget, tol=1e-10, time_limit=limit, callback=until(limit)).fit(X, y)
    assert time.process_time() - began < limit + 0.5
    assert model.status_ is Status.TIME_LIMIT and np.all(np.isfinite(model.coef_))
    assert _within(model, budget)
    for limit in (0.02, 0.1):  # the time is up anywhere in the fit
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = kind(**budget, tol=1e-10, time_limit=limit).fit(X, y)
        assert time.process_time() - began < limit + 0.5
        assert model.status_ in (Status.TIME_LIMIT, Status.SOLVED) and np.all(np.isfinite(model.coef_))
        assert _within(model, budget)


def _within(model, budget):
    if "level" in budget:
        return model.certificate_.g <= budget["level"]
    return model.selected_features_.size <= budget["n_features"]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_no_time_at_all(way):
    with pytest.warns(ConvergenceWarning, match=r"time_limit 0 s"):
        model = way(time_limit=0).fit(samples(), way.y)
    assert model.status_ is Status.TIME_LIMIT and way.obeys(model)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("budget", "limit"), [({"n_features": [1, 2, 3]}, None), ({"level": [1.5, 2.5, 3.5]}, 1e6)], ids=["k", "level"]
)
def test_ctrl_c_in_a_choice_of_budgets_ends_all_fits(budget, limit, monkeypatch):
    """A fit that was broken off is not taken for one of several, and none begins after it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 20))
    y = X[:, 0] + rng.standard_normal(60)
    evaluate, calls = LinearModel.value_and_gradient, count(1)
    monkeypatch.setattr(LinearModel, "value_and_gradient", lambda self, x: (next(calls), evaluate(self, x))[1])
    SparseRegressor(time_limit=limit).fit_path(X, y, **budget)
    most = next(calls)
    assert most > 5
    for moment in range(1, min(most, 12)):
        calls = count(1)

        def interrupted(self, x, calls=calls, moment=moment):
            if next(calls) == moment:  # once
                raise KeyboardInterrupt
            return evaluate(self, x)

        monkeypatch.setattr(LinearModel, "value_and_gradient", interrupted)
        with pytest.raises(KeyboardInterrupt):
            SparseRegressor(time_limit=limit).fit_path(X, y, **budget)
